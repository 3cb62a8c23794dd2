"""How fast each model would be for a session, and which of those at hand may draft for the one that answers: what each
is expected to bring. Loads nothing.

A drafter is worth what its guesses save over what they cost. The costs are measured ones, of this target and of this
drafter where there are any, else they go by the bytes that a pass reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from omnidraft.app import models_list
from omnidraft.app.models_list import is_bundled_drafter, is_toy, same_file
from omnidraft.app.room import needs
from omnidraft.app.speeds import SpeedStore, read_bytes
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.llama.sizes import kv_cache_bytes, pass_bytes
from omnidraft.decoding.pace import Pace
from omnidraft.decoding.passes import PassTimes
from omnidraft.settings.config import ModelSettings

if TYPE_CHECKING:
    from omnidraft.app.session import Session

QUIET = 20.0  # seconds without a question
SMALLER = 0.5  # of what a pass of the target reads: what reads more than that is no help to it
PAYS = 1.05  # times plain speed: below, nobody would notice
LONGEST = 8  # guesses a round
_ENOUGH = 8.0  # rounds from which on a pair's own acceptance is believed
# The chance that a guess stands where nobody has tried the pair, by the drafter's size. Measured in drafts of four on
# targets of other families (models/README.md): smol-drafter's come to a half, those of SmolLM2-135M to
# this, and what smol-drafter is taught by a hundred answers of a kind to this or more (BENCHMARKS.md).
HALF, MORE, WHOLE = 0.5, 0.62, 100_000_000
ASSUMED = f"{HALF:.0%} of the guesses stand, or {MORE:.0%} with drafters from {WHOLE // 1_000_000}M parameters"


@dataclass(frozen=True, slots=True)
class Outlook:
    """gain: over plain decoding, with the number of guesses that pays best; speed: tokens per second then, None where
    nobody knows the target's own; memory: bytes it takes, None where its file cannot be read; tried: whether the share
    of guesses that stand was measured here."""

    model: ModelInfo
    gain: float
    speed: float | None
    memory: int | None
    tried: bool

    @property
    def pays(self) -> bool:
        return self.gain > PAYS


def gain(passes: PassTimes, step: float, stands: float) -> float:
    """Over plain decoding, with the number of guesses a round that pays best, at least one; step: seconds of a draft
    step over those of a plain pass. Theorem 3.8 of Leviathan et al. 2023 (arXiv 2211.17192), with passes that cost more
    the more rows they have."""
    stands = min(stands, 0.99)

    def speedup(guesses: int) -> float:
        tokens = (1 - stands ** (guesses + 1)) / (1 - stands)
        return tokens / (passes.seconds(guesses + 1) / passes.seconds(1) + guesses * step)

    return max(speedup(guesses) for guesses in range(1, LONGEST + 1))


def is_candidate(model: ModelInfo, target: ModelInfo) -> bool:
    """Whether it makes sense to let it draft: a file, clearly smaller than the target, that can take tokens back. The
    toys know their own small world, and draft for nobody else."""
    if model.kind != "model" or model.path.is_dir() or same_file(model.path, target.path):
        return False
    if is_toy(model.path) and not (is_toy(target.path) and is_bundled_drafter(model)):
        return False
    if kv_cache_bytes(model, 1, "f16") is None:
        return False
    return pass_bytes(model) <= SMALLER * read_bytes(target)


def at_hand(
    models: Sequence[ModelInfo], target: ModelInfo, settings: ModelSettings, store: SpeedStore,
    pace: Pace | None = None,
) -> list[Outlook]:  # fmt: skip
    """Those that may draft for the target, the best first. pace: what the target's passes take, as measured just now;
    None: as the store knows it, else as most models' do."""
    pace = pace or store.target(target.path, settings)
    own = 1 / pace.least_seconds if pace is not None else None
    passes = pace.passes if pace is not None else PassTimes({1: 1.0})
    found = []
    for model in models:
        if not is_candidate(model, target):
            continue
        tried, step = store.pair(target.path, model.path, settings), pass_bytes(model) / read_bytes(target)
        seen = _seen(tried)
        if tried is not None:
            step = _step(tried)
        elif own is not None and (alone := store.plain(settings, [model.path])):
            step = own / alone[model.path]
        brings = gain(passes, step, seen if seen is not None else MORE if model.parameters >= WHOLE else HALF)
        speed = own * brings if own is not None else None
        found.append(Outlook(model, brings, speed, needs(model, settings), seen is not None))
    return sorted(found, key=lambda one: -one.gain)


def _seen(tried: Pace | None) -> float | None:
    """The share of first guesses that stood, once there were enough to believe it."""
    first = tried.averages.first if tried is not None else None
    return first.value if first is not None and first.weight >= _ENOUGH else None


def _step(tried: Pace) -> float:
    """A draft step over a plain pass."""
    return tried.step / tried.least_seconds


def best(found: Sequence[Outlook], now: Path | None) -> Outlook | None:
    """The drafter to change to; None where none pays, or none is clearly better than the one that drafts now."""
    here = next((one for one in found if same_file(one.model.path, now)), None)
    first = found[0] if found else None
    if first is None or not first.pays or first is here:
        return None
    return first if here is None or first.gain > PAYS * here.gain else None


# For a session.


def known_speeds(session: Session, found: Sequence[ModelInfo]) -> dict[Path, float]:
    """Tokens per second of plain decoding, of every model that was measured here."""
    pace = _sound(session)
    now = {
        one.path: 1 / pace.least_seconds for one in found if pace is not None and same_file(one.path, session.loaded)
    }
    return {**_store(session).plain(session.model_settings, [one.path for one in found if one.kind == "model"]), **now}


def drafters_of(session: Session, found: Sequence[ModelInfo]) -> list[Outlook]:
    """What may draft for the model that answers, the best first."""
    target = models_list.at(found, session.target_or_none())
    if target is None or target.kind != "model":
        return []
    return at_hand(found, target, session.model_settings, _store(session), _sound(session))


def promise(session: Session, target: Path) -> str:
    """What the drafter that is chosen is expected to bring this target, by earlier answers, in a sentence; "" before
    there are any. Where drafting was ended by measured time, that counts."""
    drafter, pace = session.drafter_path(target), pace_of(session, target)
    tried = _store(session).pair(target, drafter, session.model_settings) if drafter is not None else None
    seen = _seen(tried)
    if pace is None or tried is None or seen is None:
        return ""
    now = max(1.0, gain(pace.passes, _step(tried), seen)) if tried.drafts else 1.0
    taught = max(now, gain(pace.passes, _step(tried), max(seen, MORE)))
    ahead = f"; taught, about {taught:.1f}" if f"{taught:.1f}" != f"{now:.1f}" else ""
    return f"Expected here, by your earlier answers: {now:.1f} times the speed without guessing{ahead}."


def draft_with_the_quickest(session: Session) -> bool:
    """Where nobody chose a drafter, nobody waits, and passes of the target are measured: change to the one at hand that
    is expected to be clearly quicker, and have the next answer say so. Once behind each use, whose rounds tell more."""
    quiet = session.compared < session.used < monotonic() - QUIET and not (session.queue.busy or session.races.running)
    if not quiet or not session.picks_drafter or _sound(session) is None:
        return False
    session.compared = session.used
    found = models_list.scan(session.assistant)
    better = best(drafters_of(session, found), session.drafter_path())
    if better is None or not session.pick_drafter(better.model.path):
        return False
    session.switched[None] = (
        f"{better.model.name} drafts from now on: {better.gain:.1f}× the plain speed is expected of it here."
    )
    return True


def _sound(session: Session) -> Pace | None:
    """Of the pair that is loaded; None while it was not measured, or only while other programs had the processor: that
    says nothing about a model."""
    pace = session.assistant.loaded.pace if session.ready else None
    return pace if pace is not None and pace.stored is not None else None


def pace_of(session: Session, target: Path) -> Pace | None:
    """What passes of a target take: as measured now if it is the one that is loaded, else as it was measured before."""
    now = _sound(session) if same_file(session.loaded, target) else None
    return now or _store(session).target(target, session.model_settings)


def _store(session: Session) -> SpeedStore:
    return SpeedStore(session.assistant.home.cache)
