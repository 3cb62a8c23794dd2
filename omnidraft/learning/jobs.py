"""Builds the training process's jobs from what is loaded and what the settings say. It starts nothing."""

from __future__ import annotations

from pathlib import Path

from omnidraft.config import LearningSettings
from omnidraft.learning.adapters.serving import fingerprint
from omnidraft.learning.adapters.store import SHARED, AdapterStore
from omnidraft.learning.job import Job
from omnidraft.learning.material.collector import Pairing
from omnidraft.learning.material.expansions import ExpansionTable


def tables(cache: Path, pairing: Pairing, scope: str) -> dict[str, str]:
    """Files of the expansion tables to learn with, by target vocabulary; the present pair's is written if missing."""
    drafter, target = pairing.pair.drafter.fingerprint, pairing.pair.target.fingerprint
    folder = cache / "expansions"
    own = folder / f"{drafter[:20]}-{target}.npz"
    if not own.is_file():
        ExpansionTable.from_pair(pairing.pair).save(own)
    if scope != "shared":
        return {target: str(own)}
    return {path.stem.partition("-")[2]: str(path) for path in sorted(folder.glob(f"{drafter[:20]}-*.npz"))}


def update_job(
    pairing: Pairing, settings: LearningSettings, replay: Path, known: dict[str, str], merged: Path, seed: int
) -> Job:
    """An update of the served version (or of the one a new vocabulary starts warm from) by the answers behind it."""
    choice = pairing.choice
    version, store = choice.version, choice.store
    return Job(
        **_common(pairing, settings, replay, known),
        kind="update",
        parent=version.name if choice.origin == "own" else None,
        start=str(version.weights) if version is not None else None,
        inherited=version.meta.chats if version is not None else (),
        through=store.through,
        merged=str(merged),
        seed=seed,
    )


def compare_job(pairing: Pairing, settings: LearningSettings, replay: Path, known: dict[str, str]) -> Job:
    """Estimates of the served version and of what was served before it."""
    store: AdapterStore = pairing.choice.store
    previous = store.previous()
    return Job(
        **_common(pairing, settings, replay, known),
        kind="compare",
        start=str(pairing.choice.version.weights),
        other=str(previous.weights) if previous is not None else None,
    )


def merge_job(pairing: Pairing, settings: LearningSettings, replay: Path) -> Job:
    """The served version written as one file with the drafter."""
    return Job(
        **_common(pairing, settings, replay, {}),
        kind="merge",
        start=str(pairing.choice.adapter),
        merged=str(pairing.choice.merged),
    )


def _common(pairing: Pairing, settings: LearningSettings, replay: Path, known: dict[str, str]) -> dict:
    choice = pairing.choice
    return {
        "drafter": str(choice.drafter),
        "fingerprint": fingerprint(choice.drafter),
        "replay": str(replay),
        "tables": known,
        "store": str(choice.store.folder),
        "vocabulary": SHARED if settings.scope == "shared" else pairing.pair.target.fingerprint,
        "target": pairing.target,
        "loss": settings.loss,
        "rank": settings.rank,
        "learning_rate": settings.learning_rate,
        "rehearsal": settings.rehearsal,
        "cpu_percent": settings.cpu_percent,
    }
