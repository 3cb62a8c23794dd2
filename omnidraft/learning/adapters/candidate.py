"""Weights that have been trained but are not served: the next update goes on from them.

What is served only ever changes for something better, but training must not stop at that: a new topic costs the earlier
ones a little before it pays, and updates that begin anew each time are refused for it each time (measured, 152 answers
on each of two topics: none of the second topic's 19 updates was accepted; going on, the fourth was, and the first topic
lost nothing). One file, replaced whole. It knows nothing of torch, nor of how a candidate is judged.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from omnidraft.errors import StorageError
from omnidraft.learning.adapters.files import place, unfinished_folder
from omnidraft.storage.files import erase, read, reason, sync_folder
from omnidraft.storage.json_text import read_json

FILE = ".candidate.npz"  # the dot keeps it out of exported profiles
_ABOUT = "about"


@dataclass(frozen=True)
class Candidate:
    """weights: as in a version's file, float32; base: digest of the weights it began with and has to beat, "" for the
    bare drafter; behind: updates it has been trained by without beating them; through: newest replay ordinal it has
    seen; chats: conversations it was trained on."""

    weights: Mapping[str, np.ndarray]
    base: str
    behind: int
    through: int
    chats: tuple[str, ...]


def read_candidate(store: Path) -> Candidate | None:
    """The store's candidate; None if there is none or it is damaged, for all it holds can be learned again."""
    try:
        with np.load(io.BytesIO(read(store / FILE)), allow_pickle=False) as data:
            about = read_json(bytes(data[_ABOUT]))
            weights = {name: data[name].astype(np.float32) for name in data.files if name != _ABOUT}
        chats = tuple(map(str, about["chats"]))
        return Candidate(weights, str(about["base"]), int(about["behind"]), int(about["through"]), chats)
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile, RuntimeError, StorageError):
        return None


def keep_candidate(store: Path, candidate: Candidate) -> None:
    """Put it in the place of the one before, whose bytes are overwritten. Killed in between, there is none."""
    about = {name: value for name, value in vars(candidate).items() if name != "weights"}
    data = io.BytesIO()
    arrays: dict[str, Any] = {_ABOUT: np.frombuffer(json.dumps(about).encode(), np.uint8), **candidate.weights}
    np.savez(data, **arrays)
    try:
        store.mkdir(parents=True, exist_ok=True)
        made, gone = unfinished_folder(store, "candidate"), unfinished_folder(store, "dropped")
        place(made, data.getvalue())
        with suppress(FileNotFoundError):
            os.rename(store / FILE, gone)
        os.rename(made, store / FILE)
        sync_folder(store)
        erase(gone)
    except OSError as error:
        raise StorageError(f"what was learned cannot be written to {store}: {reason(error)}.") from error


def drop_candidate(store: Path) -> None:
    """Remove it unreadably, if there is one."""
    path, gone = store / FILE, unfinished_folder(store, "dropped")
    with suppress(OSError):  # it is open, on Windows, or there is none
        os.rename(path, gone)
        path = gone
    erase(path)


def forget_candidate(store: Path, chat: str | None) -> bool:
    """Remove it if it was trained on a conversation (None: in any case), or if nothing says that it was not. Whether
    one was removed."""
    found = (store / FILE).exists()
    if found and chat is not None and (candidate := read_candidate(store)) is not None and chat not in candidate.chats:
        return False
    drop_candidate(store)
    return found
