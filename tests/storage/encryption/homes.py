"""Data homes with something of every kind in them, their raw bytes, and what may not be found there."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from omnidraft.chats import ChatStore, TextFile, files_meta
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.adapters.versions import ADAPTER, WEIGHTS, Meta
from omnidraft.settings.config import AppSettings, changed
from omnidraft.settings.file import load_settings, save_settings
from omnidraft.storage.encryption import header, open_home
from omnidraft.storage.encryption.passphrase import Asked
from omnidraft.storage.files import read, write_atomically
from omnidraft.storage.paths import DataHome, ProfilePaths, find_data_home
from omnidraft.vocab.ngram_store import NgramStore
from tests.adapters import arrays, lora
from tests.chats.test_pictures import RED

PASSPHRASE = "correct horse battery"
QUICK = 1 << 10  # scrypt's cost: what makes guessing slow makes tests slow
SECRETS = ("Zanzibarquux", "Frobnitzke", "Wumpelstadt", "geheimnis.txt", "Snorkelwitz")
MARKS = (b"SQLite format 3", b"CREATE TABLE", b"GGUF\3\0\0\0", b"PK\3\4-\0", b'"schema"')  # of what files are


def asked(passphrase: str = PASSPHRASE) -> Asked:
    """A passphrase as it comes from the environment."""
    given = Asked()
    given._given = passphrase
    return given


@contextmanager
def quick():
    """Keys wrapped inside are unwrapped in no time."""
    before, header.COST = header.COST, QUICK
    try:
        yield
    finally:
        header.COST = before


@contextmanager
def opened(root: Path, encrypt: bool = False, passphrase: str = PASSPHRASE):
    """The home while its key is held; plain ones as they are."""
    with quick(), open_home(root, asked(passphrase), encrypt):
        yield find_data_home(root)


def fill(home: DataHome) -> None:
    """A small profile of every kind of file."""
    paths = home.profile("default")
    with ChatStore(paths.chats) as store:
        chat = store.create(SECRETS[0])
        files = files_meta([TextFile(SECRETS[3], SECRETS[2])])
        store.append(chat.id, "user", SECRETS[1], meta=files, pictures=[RED])
    ngrams = NgramStore(paths.ngrams, f"ngrams_{SECRETS[4]}")
    ngrams.write([(7, [[1, 2, 3], 1, 1, 0, [SECRETS[0]]])], [], {})
    ngrams.close()
    save_settings(paths.settings, changed(AppSettings(), **{"sampling.stop": (SECRETS[2],)}))
    adapters = AdapterStore(paths.adapters / "drafter-0" / "vocabulary")
    meta = Meta(drafter="d", vocabulary="v", chats=(SECRETS[0],))
    adapters.publish({ADAPTER: lora(SECRETS[1]), WEIGHTS: arrays(a=np.zeros(50_000, np.float32))}, meta)
    folder = paths.root / "drift" / "prompts"
    folder.mkdir(parents=True)
    write_atomically(folder / "mine.txt", SECRETS[2].encode())


def told(paths: ProfilePaths) -> list:
    """All that `fill` put in, read back."""
    with ChatStore(paths.chats) as store:
        (chat,) = store.conversations()
        (message,) = store.path(chat.id)
        hits = len(store.search(SECRETS[1]))
        pictures = store.pictures.files(message.pictures)
    ngrams = NgramStore(paths.ngrams, f"ngrams_{SECRETS[4]}")
    rows = ngrams.rows
    ngrams.close()
    version = AdapterStore(paths.adapters / "drafter-0" / "vocabulary").current()
    return [
        chat.title, message.content, message.meta["files"], pictures, hits, rows,
        load_settings(paths.settings)[0].sampling.stop, version.meta.chats, read(version.adapter),
        read(paths.root / "drift" / "prompts" / "mine.txt"),
    ]  # fmt: skip


def raw(root: Path) -> dict[str, bytes]:
    """Every file of a home as its bytes lie on the disk, under its name."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def found(root: Path, needles) -> set[bytes]:
    """Which of these stand somewhere in the home's profiles, uploads and what lies beside, in files or their names.

    Maps between vocabularies (`cache`) and models tell nothing of anybody and are left out.
    """
    files = {name: data for name, data in raw(root).items() if name.split("/")[0] not in ("cache", "models")}
    hay = b"\n".join([*files.values(), *(name.encode() for name in files)])
    return {needle for needle in needles if needle in hay}


def needles() -> list[bytes]:
    return [*(secret.encode() for secret in SECRETS), base64.b64encode(RED.data), *MARKS]
