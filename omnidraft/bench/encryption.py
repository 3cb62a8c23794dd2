"""What encryption at rest costs: `python -m omnidraft.bench.encryption` prints one JSON line.

The same work in a plain and in an encrypted home, in turns, on a folder for temporary files (TMPDIR). Milliseconds,
medians. N-grams are looked up in memory, so only reading and writing their table can cost anything.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from omnidraft.chats import ChatStore
from omnidraft.storage.encryption import Opened, open_home
from omnidraft.storage.encryption.passphrase import VARIABLE, Asked
from omnidraft.storage.files import readable, write_atomically
from omnidraft.storage.paths import DataHome, ProfilePaths, find_data_home
from omnidraft.vocab.ngram_store import NgramStore

ROUNDS = 5
ANSWERS = 100  # stored one by one; then they are the conversation that is opened
NGRAMS = 50_000
ADAPTER_BYTES = 8 << 20
TEXT = "Tom has 12 apples and buys 7 more, so he has 19 apples. " * 20
META = {"token_ids": list(range(300))}  # as an answer has
Times = dict[str, list[float]]
T = TypeVar("T")


def main() -> None:
    print(json.dumps({"milliseconds": measure(ROUNDS, ANSWERS, NGRAMS)}))


def measure(rounds: int, answers: int, ngrams: int) -> dict[str, dict[str, float]]:
    """Medians by what is done, plain and encrypted."""
    found: dict[bool, Times] = {False: {}, True: {}}
    for _ in range(rounds):
        for encrypted, times in found.items():
            with tempfile.TemporaryDirectory(prefix="omnidraft-cost-") as folder:
                _work(Path(folder) / "home", encrypted, times, answers, ngrams)
    return {
        what: {name: round(statistics.median(found[kind].get(what, [0])), 3) for name, kind in _KINDS}
        for what in found[True]
    }


_KINDS = (("plain", False), ("encrypted", True))


def _work(root: Path, encrypted: bool, times: Times, answers: int, ngrams: int) -> None:
    with _home(root, encrypted, times) as home:
        paths = home.profile()
        _chats(paths, times, answers)
        _ngrams(paths, times, ngrams)
        _adapter(paths, times)


@contextmanager
def _home(root: Path, encrypted: bool, times: Times) -> Iterator[DataHome]:
    home = find_data_home(root)
    if not encrypted:
        yield home
        return
    _opened(root, times, "make the home encrypted").close()
    with closing(_opened(root, times, "unlock at start")):
        yield home


def _opened(root: Path, times: Times, what: str) -> Opened:
    os.environ[VARIABLE] = "correct horse battery"
    return _timed(times, what, lambda: open_home(root, Asked(), encrypt=True))


def _chats(paths: ProfilePaths, times: Times, answers: int) -> None:
    with ChatStore(paths.chats) as store:
        chat = store.create("Apples").id
        for _ in range(answers):
            store.append(chat, "user", TEXT)
            _timed(times, "store an answer", lambda: store.append(chat, "assistant", TEXT, meta=META))
    store = _timed(times, "open the conversations' file", lambda: ChatStore(paths.chats))
    with store:
        _timed(times, f"open a conversation of {2 * answers} messages", lambda: store.path(chat))
        _timed(times, "search", lambda: store.search("apples"))


def _ngrams(paths: ProfilePaths, times: Times, ngrams: int) -> None:
    rows = [(n, [[n, n + 1], 1, 1.0, 0, ["chat"]]) for n in range(ngrams)]
    store = NgramStore(paths.ngrams, "ngrams_x")
    store.write(rows, [], {})
    _timed(times, "keep an answer's 50 n-grams", lambda: store.write(rows[:50], [], {}))
    store.close()
    _timed(times, f"read {ngrams} n-grams", lambda: NgramStore(paths.ngrams, "ngrams_x")).close()


def _adapter(paths: ProfilePaths, times: Times) -> None:
    file = paths.adapters / "adapter.gguf"
    file.parent.mkdir(parents=True)
    write_atomically(file, os.urandom(ADAPTER_BYTES))

    def opened() -> int:
        with readable(file) as found:
            return len(found.read_bytes())

    _timed(times, f"open an adapter of {ADAPTER_BYTES >> 20} MiB", opened)


def _timed(times: Times, what: str, act: Callable[[], T]) -> T:
    began = time.perf_counter()
    result = act()
    times.setdefault(what, []).append((time.perf_counter() - began) * 1000)
    return result


if __name__ == "__main__":
    main()
