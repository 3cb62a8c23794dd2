"""How fast each model would be for a session, and which drafters at hand suit the one that answers. Loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from omnidraft.app import drafters, models_list
from omnidraft.app.drafters import Outlook
from omnidraft.app.session import Session
from omnidraft.app.speeds import SPEED_FILE, Speed, SpeedStore, memory_speed, speeds
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.llama.devices import local_cards
from omnidraft.decoding.cost import CostModel

QUIET = 20.0  # seconds without a question


def known_speeds(session: Session, found: Sequence[ModelInfo]) -> dict[Path, Speed]:
    """Of every model that can write, as far as it is known: measured, or estimated."""
    settings, cost = session.model_settings, _sound(session)
    answering = session.loaded.resolve() if session.loaded is not None else None
    now = {one.path: 1 / cost.least_seconds for one in found if cost is not None and one.path.resolve() == answering}
    elsewhere = bool(settings.workers) or bool(settings.n_gpu_layers and local_cards())
    memory = None if elsewhere else memory_speed()
    return speeds([one for one in found if one.kind == "model"], settings, _store(session), memory, now)


def drafters_of(session: Session, found: Sequence[ModelInfo], known: dict[Path, Speed]) -> list[Outlook]:
    """What may draft for the model that answers, the best first."""
    answering = session.target_or_none()
    target = next((one for one in found if answering and one.path.resolve() == answering.resolve()), None)
    if target is None or target.kind != "model":
        return []
    plain = known.get(target.path)
    return drafters.at_hand(found, target, session.model_settings, _store(session), _sound(session), plain)


def draft_with_the_quickest(session: Session) -> bool:
    """Where nobody chose a drafter, nobody waits, and passes of the target are measured: change to the one at hand that
    is expected to be clearly quicker, and have the next answer say so. Once behind each use, whose rounds tell more."""
    quiet = session.compared < session.used < monotonic() - QUIET and not session.busy
    if not quiet or not session.picks_drafter or _sound(session) is None:
        return False
    session.compared = session.used
    found = models_list.scan(session.assistant)
    better = drafters.best(drafters_of(session, found, known_speeds(session, found)), session.drafter_path())
    if better is None or not session.pick_drafter(better.model.path):
        return False
    session.switched[None] = (
        f"{better.model.name} drafts from now on: {better.gain:.1f}× the plain speed is expected of it here."
    )
    return True


def measured_cost(session: Session) -> CostModel | None:
    """What passes of the target that is loaded take; None while nobody measured it."""
    engine = session.assistant.engine
    known = list(engine.memory.pair_stats.values()) if engine is not None and session.ready else []
    return known[0].cost if known else None


def _sound(session: Session) -> CostModel | None:
    """`measured_cost`, unless other programs had the processor meanwhile: that says nothing about a model."""
    cost = measured_cost(session)
    return cost if cost is not None and cost.kept is not None else None


def cost_of(session: Session, target: Path) -> CostModel | None:
    """What passes of a target take: as measured now if it is the one that is loaded, else as it was measured before."""
    if session.loaded is not None and session.loaded.resolve() == target.resolve():
        return _sound(session) or _store(session).cost(target, session.model_settings)
    return _store(session).cost(target, session.model_settings) if target.exists() else None


def _store(session: Session) -> SpeedStore:
    return SpeedStore(session.assistant.home.cache / SPEED_FILE)
