"""Files that llama.cpp shall open are opened in a child process first: `require`.

llama.cpp checks much of a file by assertions that end the process. What a header tells is checked where headers are
read; for the rest a child does once with an unknown file what the program would do, and only what passed is opened
here. Verdicts are kept by the file's size, time and samples of its content, in the data home's cache where one is
known. The bundled models and files that this program wrote itself are trusted. Knows nothing of models.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from omnidraft.errors import ModelError
from omnidraft.processes.children import run_bounded
from omnidraft.processes.progress import tell
from omnidraft.storage.files import sampled
from omnidraft.storage.known import Known
from omnidraft.storage.paths import BUNDLED_MODELS
from omnidraft.storage.vault import is_opened

WITHIN = "OMNIDRAFT_TRIAL"  # set in children that may crash: they try nothing out themselves
_CHILD = "omnidraft.backends.llama.trial_child"
_SECONDS, _BYTES_PER_SECOND = 120.0, 20 << 20  # of work for a small file, and how slowly a large one may be read
_MEMORY = 4 << 30  # beside three times the file
_PART = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")


class Trials:
    """Verdicts: "" for a file that passed, a sentence for one that must not be opened."""

    def __init__(self) -> None:
        self._verdicts: Known[str] = Known("trials.json", lambda verdict: isinstance(verdict, str))
        self._trusted = {os.path.realpath(BUNDLED_MODELS)}
        self._trying: set[str] = set()  # the same file is not tried twice at once
        self._lock = threading.Condition()

    def keep_in(self, folder: Path) -> None:
        """Keep verdicts in this folder from now on, and take up those that are there."""
        with self._lock:
            self._verdicts.keep_in(folder)

    def trust(self, folder: Path) -> None:
        """What lies in `folder` was written by this program and need not be tried."""
        self._trusted.add(os.path.realpath(folder))

    def require(self, path: Path | str, adapter: Path | str | None = None) -> None:
        """ModelError unless the model at `path`, with this adapter if there is one, can be opened without harm.

        Takes as long as opening it does, and a second, where the file is not known yet; else a moment.
        """
        tried = adapter or path
        if WITHIN in os.environ or self._is_trusted(tried):
            return
        try:
            size, key = _marks(path, adapter)
        except OSError:
            return  # who opens it says what is wrong with it
        if verdict := self._verdict(key, lambda: self._try(str(path), str(adapter) if adapter else None, size)):
            raise ModelError(f"{tried} {verdict}")

    def _verdict(self, key: str, found: Callable[[], str]) -> str:
        """The verdict that is kept, else the one `found`; who asks about other files does not wait for that."""
        with self._lock:
            self._lock.wait_for(lambda: key not in self._trying)
            if (known := self._verdicts.get(key)) is not None:
                return known
            self._trying.add(key)
        try:
            verdict = found()
            with self._lock:
                self._verdicts.put(key, verdict)
            return verdict
        finally:
            with self._lock:
                self._trying.discard(key)
                self._lock.notify_all()

    def _is_trusted(self, path: Path | str) -> bool:
        real = os.path.realpath(path)
        return is_opened(path) or any(real.startswith(folder + os.sep) for folder in self._trusted)

    def _try(self, path: str, adapter: str | None, size: int) -> str:
        """The verdict of a child; ModelError where there is none."""
        seconds = _SECONDS + size / _BYTES_PER_SECOND
        request = {"path": path, "adapter": adapter}
        tell("checking the file")
        tried = adapter or path
        try:
            outcome = run_bounded(_CHILD, request, seconds, _MEMORY + 3 * size, {WITHIN: "1"})
        except OSError as error:
            raise ModelError(f"{tried} could not be tried out first ({error.strerror}), so it is not opened.") from None
        if outcome.late:
            raise ModelError(f"{tried} was tried out first, and {seconds:.0f} s of work did not open it.")
        if outcome.killed:
            raise ModelError(f"{tried} was being tried out when the system ended that, as where memory is short.")
        if outcome.answer is None:
            return "makes llama.cpp end the whole program, so it is not opened; it is damaged, or made for another one."
        return str(outcome.answer)


def _marks(path: Path | str, adapter: Path | str | None) -> tuple[int, str]:
    """`_mark` of a model, with its adapter's if there is one."""
    size, key = _mark(Path(path))
    return size, key if adapter is None else f"{key}+{_mark(Path(adapter))[1]}"


def _mark(path: Path) -> tuple[int, str]:
    """Bytes of a file with its other parts, and what tells it from every other: size, time and samples of all."""
    found, total = [version("llama-cpp-python")], 0
    for part in _parts(path):
        status = part.stat()
        total += status.st_size
        found += [str(status.st_mtime_ns), sampled(part) if part.is_file() else ""]
    return total, hashlib.sha256(" ".join(found).encode()).hexdigest()


def _parts(path: Path) -> list[Path]:
    match = _PART.search(path.name)
    if match is None:
        return [path]
    count, stem = int(match[1]), path.name[: match.start()]
    parts = [path.with_name(f"{stem}-{n:05d}-of-{match[1]}.gguf") for n in range(1, min(count, 999) + 1)]
    return [part for part in parts if part.is_file()] or [path]


TRIALS = Trials()
