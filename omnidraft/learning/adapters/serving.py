"""What a drafter drafts with: bare, with an adapter version, or as one merged file. Chosen and opened here.

It reads the stores, sets aside what is damaged there, writes merged files but never a version; it knows nothing of
training, of answers or of when a swap may happen.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.decoding.measuring import step_seconds
from omnidraft.errors import ModelError, StorageError
from omnidraft.learning.adapters.store import AdapterStore, drafter_folder, warm_start
from omnidraft.learning.adapters.versions import (
    Version,
    can_merge,
    merged_path,
    model_fingerprint,
    set_aside,
    write_merged,
)
from omnidraft.settings.config import AUTO_LAYERS, ModelSettings
from omnidraft.storage.files import readable
from omnidraft.vocab import Vocabulary

log = logging.getLogger("omnidraft.learning")
Origin = Literal["none", "own", "warm start", "file"]
AUTO = "auto"  # as an adapter's path: what was learned for this drafter and vocabulary
NO_ADAPTER = "none"  # and: the drafter as it came
MERGED = "merged"  # a profile's folder for drafters with their adapter added in


@dataclass(frozen=True)
class Choice:
    """What to serve. drafter: the bare file; store: where its versions are, None where nothing is learned;
    adapter: the GGUF LoRA, None for the bare drafter; merged: one file of both, None if there is none;
    aside: versions found damaged or misshapen while choosing, and set aside."""

    drafter: Path
    origin: Origin = "none"
    store: AdapterStore | None = None
    version: Version | None = None
    adapter: Path | None = None
    merged: Path | None = None
    aside: tuple[str, ...] = ()

    @property
    def notices(self) -> list[str]:
        """One sentence if something was set aside, else nothing."""
        if not self.aside:
            return []
        instead = f"version {self.version.name} drafts" if self.version else "the drafter drafts as it came"
        return [f"What the drafter learned as {', '.join(self.aside)} cannot be used and was set aside; {instead}."]

    @property
    def learned_in(self) -> AdapterStore:
        """The store, where something is learned."""
        assert self.store is not None
        return self.store

    @property
    def learned(self) -> Version:
        """The version, where there is one."""
        assert self.version is not None
        return self.version

    @property
    def file(self) -> Path:
        """The model file to open."""
        return self.merged or self.drafter

    def serves_like(self, other: Choice) -> bool:
        """Whether both are the same version of the same drafter, from the same store."""
        mine, theirs = (c.store.folder if c.store else None for c in (self, other))
        return (self.drafter, self.origin, self.adapter, mine) == (other.drafter, other.origin, other.adapter, theirs)

    @property
    def cost_key(self) -> str | None:
        """Names what a drafter step costs with it: equal for versions that differ in their weights only."""
        if self.version is None:
            return str(self.adapter) if self.adapter else None
        return "merged" if self.merged else f"lora {self.version.meta.rank}"


@dataclass(frozen=True)
class Adapters:
    """Where a profile keeps what was learned. folder: of its stores; merged: of files made anew, None: of none."""

    folder: Path
    merged: Path | None = None

    def choose(self, drafter: Path, vocabulary: str) -> Choice:
        """The version served for a drafter and a target vocabulary's fingerprint; a new vocabulary starts warm."""
        store = AdapterStore(self.folder / drafter_folder(drafter, model_fingerprint(drafter)) / vocabulary[:20])
        aside = store.set_damaged_aside()
        origin: Origin = "own"
        version = store.current()
        if version is None and store.starts_warm:
            version, origin = warm_start(store), "warm start"
        if version is None:
            return Choice(drafter, store=store, aside=aside)
        return Choice(drafter, origin, store, version, version.adapter, self._merged(drafter, version), aside)

    def _merged(self, drafter: Path, version: Version) -> Path | None:
        """One file of both, made if it is missing (.3 s for the bundled drafter); None if it cannot be."""
        if self.merged is None or not can_merge(drafter):
            return None
        file = merged_path(self.merged, version)
        try:
            return file if file.is_file() else write_merged(drafter, version.adapter, file)
        except (ModelError, StorageError, ValueError) as error:  # a full disk, or an adapter of another shape
            log.warning("the drafter and %s do not become one file: %s", version.name, error)
            return None

    def drop_merged(self, keep: Path) -> None:
        """Remove the merged files of a store but the one kept."""
        for file in [f for f in keep.parent.glob("*.gguf") if f != keep]:
            with suppress(OSError):  # Windows keeps a file that is in use; next time then
                file.unlink()

    def store_name(self, store: AdapterStore) -> str:
        """A store's name in the history: its path below the profile's adapters."""
        return store.folder.relative_to(self.folder).as_posix()


def open_choice(choice: Choice, settings: ModelSettings, vocabulary: Vocabulary) -> tuple[LlamaDrafter, Choice]:
    """Open the drafter as chosen. A merged file that cannot be opened is removed, and the adapter used instead."""
    if choice.merged is not None:
        try:
            with readable(choice.merged) as file:
                return _open_quicker(file, settings, vocabulary), choice
        except (ModelError, StorageError):
            choice.merged.unlink(missing_ok=True)
            choice = replace(choice, merged=None)
    return _open_quicker(choice.drafter, settings, vocabulary), choice


def _open_quicker(file: Path, settings: ModelSettings, vocabulary: Vocabulary) -> LlamaDrafter:
    """On a card or on the processor beside it, wherever its steps are quicker: a small one mostly waits for a card."""
    drafter = LlamaDrafter.open(file, settings, vocabulary=vocabulary)
    if not drafter.on_card or settings.n_gpu_layers != AUTO_LAYERS:
        return drafter
    here = LlamaDrafter.open(file, replace(settings, n_gpu_layers=0), vocabulary=vocabulary)
    quicker, slower = sorted((drafter, here), key=step_seconds)
    slower.close()
    return quicker


def apply_adapter(drafter: LlamaDrafter, choice: Choice) -> Choice:
    """Give an opened drafter its adapter, unless that is merged in. A version that does not fit is set aside, and the
    last one before it used."""
    while choice.merged is None:
        try:
            drafter.set_adapter(choice.adapter)
            break
        except ModelError:
            if choice.version is None:  # somebody named this file: say what is wrong with it
                raise
            choice = _before(choice)
    return choice


def _before(choice: Choice) -> Choice:
    """What to use in place of a version that is of no use, which is set aside."""
    version = choice.learned
    aside = (*choice.aside, version.name) if set_aside(version.path) else choice.aside
    older = AdapterStore(version.path.parent).current()
    if older is None or older.number >= version.number:
        return replace(choice, origin="none", version=None, adapter=None, merged=None, aside=aside)
    return replace(choice, version=older, adapter=older.adapter, merged=None, aside=aside)
