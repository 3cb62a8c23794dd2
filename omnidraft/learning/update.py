"""An update, from the answers that make it due to the version that drafts: its story, its record and its states.

IDLE: answers are stored (`learner`, `material.history`). DUE: enough are new (`Updates.due`); it waits for a quiet
moment and for the machine (`learner`), and for room in the hour (`Updates.why_wait`). TRAINING: `plan` says what is
wanted, and the training process does it (`training.process`): answers are selected
(`material.replay`), the drafter learns from them (`training.worker`, `training.steps`). JUDGING: what came of it is
held against what is served, on answers that nobody trains on (`training.evaluate`: the gate). PUBLISHING: a version is
written (`adapters.store`), which the assistant takes up at the next quiet moment; what was refused is kept to go on
from.

One record, `Update`, is all that travels: in the job, in what the process says while it works, in the history and on
the page. A benchmark and a drift run go the same way (`training.stream`). Neither numpy nor torch is loaded here: the
process reads its job before the limits are set that they read when they load.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from omnidraft.processes.threads import physical_cores
from omnidraft.settings.config import LearningSettings

if TYPE_CHECKING:
    from omnidraft.learning.adapters.serving import Adapters, Choice  # brings llama.cpp
    from omnidraft.learning.adapters.store import AdapterStore
    from omnidraft.learning.material.history import OpenStores
    from omnidraft.learning.material.record import Pairing

log = logging.getLogger("omnidraft.learning")

Outcome = Literal["running", "published", "refused", "failed", "interrupted"]
Estimates = dict[str, dict[str, float]]  # "old" and "new" -> greedy, overlap, tokens (see evaluate.py)


class State(StrEnum):
    """Where the next update is; see above."""

    IDLE = "idle"
    DUE = "due"
    TRAINING = "training"
    JUDGING = "judging"
    PUBLISHING = "publishing"


@dataclass(frozen=True, slots=True)
class Update:
    """One update, running or over.

    drafter, target: names; vocabulary: the target vocabulary's fingerprint; version: what was published; reason: a
    sentence; losses: one per optimizer step, nats; tokens: drafter pieces learned from; before, after: held-out
    acceptance estimates, {} until known; ended: None until all is done; seconds: of the job; cpu_seconds, peak_mb: of
    the process, 0 until it finished; through: newest replay ordinal it has seen.
    """

    number: int
    started: float
    drafter: str
    target: str
    vocabulary: str
    outcome: Outcome = "running"
    reason: str = ""
    version: str | None = None
    step: int = 0
    steps: int = 0
    tokens: int = 0
    answers_new: int = 0
    answers_replayed: int = 0
    losses: tuple[float, ...] = ()
    before: Estimates = field(default_factory=dict)
    after: Estimates = field(default_factory=dict)
    ended: float | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0
    state: State = State.TRAINING
    through: int = 0

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def of(cls, values: dict[str, Any]) -> Update:
        """What this or another version of the program wrote. ValueError or TypeError for anything else."""
        known = {f.name: values[f.name] for f in fields(cls) if f.name in values}
        if not all(_KINDS[name](value) for name, value in known.items() if name in _KINDS):
            raise ValueError("an update has facts of other types")
        state, losses = State(values.get("state", State.IDLE)), tuple(values.get("losses", ()))
        return cls(**{**known, "state": state, "losses": losses})

    @classmethod
    def from_line(cls, line: str) -> Update | None:
        """What the training process said; None for what is no update."""
        try:
            return cls.of(json.loads(line))
        except (ValueError, TypeError, AttributeError):
            return None

    def said(self, outcome: Outcome, words: str) -> Update:
        """With what came of it, and why in a sentence."""
        text = words.strip()
        return replace(self, outcome=outcome, reason=text[:1].upper() + text[1:] + ("" if text.endswith(".") else "."))

    def concluded(self, code: int | None, last_words: str, why: str = "") -> Update:
        """When its process is gone. why: the reason this program ended it, if it did."""
        if self.ended is not None:
            return self
        over = replace(self, ended=time.time(), state=State.IDLE)
        if self.outcome != "running":
            return over
        if why:
            return over.said("interrupted", why)
        if code is not None and code < 0:
            return over.said("interrupted", "The training process was ended from outside.")
        return over.said("failed", last_words or "the training process gave up")

    def doing(self) -> str:
        """What the process does, in a sentence."""
        if self.state is State.JUDGING:
            return "Judging what was trained by answers it did not train on."
        if self.state is State.PUBLISHING:
            return "Writing what was trained as a version."
        return f"Training on {self.answers_new} new and {self.answers_replayed} earlier answers."


def _is_count(value: Any) -> bool:
    return type(value) is int and abs(value) < 1 << 53


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1 << 53  # false for NaN, too


def _is_estimate(value: Any) -> bool:
    """Numbers by name, by name."""
    parts = value.values() if isinstance(value, dict) else [None]
    return all(isinstance(part, dict) and all(map(_is_number, part.values())) for part in parts)


_COUNTS = ("number", "step", "steps", "tokens", "answers_new", "answers_replayed", "through")
_NUMBERS = ("started", "seconds", "cpu_seconds", "peak_mb")
_KINDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(_COUNTS, _is_count), **dict.fromkeys(_NUMBERS, _is_number),
    **dict.fromkeys(("drafter", "target", "vocabulary", "reason"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("before", "after"), _is_estimate),
    "outcome": lambda value: value in get_args(Outcome),
    "version": lambda value: value is None or isinstance(value, str),
    "ended": lambda value: value is None or _is_number(value),
    "losses": lambda value: isinstance(value, list | tuple) and all(map(_is_number, value)),
}  # fmt: skip


MOST_NEW = 64  # new answers of one update; a backlog is worked off oldest first
PASSES, STEPS = 2, 20
MOST_ASKED, PASSES_ASKED = 512, 6  # of an update somebody asked for: one long one takes less than many short ones
MORE_STEPS = 40  # of such a one, and where nothing is served yet: twelve long answers teach .25 then, with 20 .11


@dataclass(frozen=True)
class Job:
    """What is asked of the training process, as one line of JSON. update: as it begins.

    drafter: its GGUF; fingerprint: of that file; replay: the store's file; table: the expansion table's; store: folder
    of the adapter versions; parent: name of the version served, None for the bare drafter; start: weights served, to
    begin with unless there is a candidate trained from them, None: an adapter that changes nothing; inherited:
    conversations `start` was trained on. gated: publish
    only what is better than what is served; else every update. passes: over everything; least_steps: more passes while
    that makes fewer steps, for a handful moves nothing (after 40 answers: mathematics .44 accepted with 20 steps at
    least, .42 with 40, functions .25 and .27, for half the time). most_new: answers an update learns from at most,
    replayed ones not counted.
    """

    update: Update
    drafter: str
    fingerprint: str
    replay: str
    table: str
    store: str
    parent: str | None = None
    start: str | None = None
    inherited: tuple[str, ...] = ()
    through: int = 0
    loss: str = "projected"
    rank: int = 32
    learning_rate: float = 2e-3
    rehearsal: float = 1.0
    gated: bool = True
    passes: int = PASSES
    least_steps: int = STEPS
    most_new: int = MOST_NEW
    cpu_percent: int = 50
    seed: int = 0

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Job:
        values = json.loads(line)
        kept = {f.name: values[f.name] for f in fields(cls)}  # `with_keys` adds others
        return cls(**{**kept, "update": Update.of(values["update"]), "inherited": tuple(values["inherited"])})

    @property
    def threads(self) -> int:
        """Torch threads that stay inside the budget when they all work; one at least."""
        return threads_within(self.cpu_percent)


def threads_within(cpu_percent: int) -> int:
    """Threads that stay inside this share of the processor when they all work; one at least."""
    return max(1, int(physical_cores() * cpu_percent / 100))


def plan(
    update: Update, choice: Choice, settings: LearningSettings, replay: Path, table: Path, *, seed: int = 0,
    asked: bool = False,
) -> Job:  # fmt: skip
    """An update of the served version (or of the one a new vocabulary starts warm from) by the answers behind it.

    table: as in `Job`. asked: somebody wants the update now, and waits.
    """
    from omnidraft.learning.adapters.versions import model_fingerprint  # brings numpy

    version = choice.version
    return Job(
        update, str(choice.drafter), model_fingerprint(choice.drafter), str(replay), str(table),
        str(choice.learned_in.folder), loss=settings.loss, cpu_percent=settings.cpu_percent,
        start=str(version.weights) if version is not None else None,
        parent=version.name if version is not None and choice.origin == "own" else None,
        inherited=version.meta.chats if version is not None else (),
        through=choice.learned_in.through,
        seed=seed,
        most_new=MOST_ASKED if asked else MOST_NEW,
        passes=PASSES_ASKED if asked else PASSES,
        least_steps=MORE_STEPS if asked or version is None else STEPS,
    )  # fmt: skip


def settle(store: AdapterStore, update: Update) -> None:
    """Have the store take in an update that is over."""
    if update.outcome == "refused":
        store.reject_update(update.through)
    store.prune()


SOONER = 4  # times sooner than later ones: the first update


def due_behind(learned: int, interval: int) -> int:
    """New answers that make an update due where so many were learned from: as many again, for what is new should be
    felt soon, and `interval` in the end."""
    return min(interval, max(1, interval // SOONER, learned))


HOUR = 3600.0  # seconds
MINUTES_PER_HOUR = 10.0  # of processors that training takes before it waits for the next


class Updates:
    """What a profile's updates do to each other: what is due, what runs, what is served after it.

    running: the one that is trained now; forced: the user wants an update, however few answers there are.
    """

    def __init__(self, stores: OpenStores, adapters: Adapters) -> None:
        self._stores, self._adapters = stores, adapters
        self.running: Update | None = None
        self.forced = False
        self._choice: Choice | None = None  # what was served when the running one began
        self._failed_with = 0  # fresh answers there were when an update failed: it takes another interval to try again

    # Due

    def due(self, settings: LearningSettings) -> bool:
        """Whether an update should be begun, whether or not it may begin now."""
        needed = 1 if self.forced else self.interval(settings) + self._failed_with
        return settings.enabled and not self._stores.refused and self._stores.enough >= needed

    def interval(self, settings: LearningSettings) -> int:
        """New answers that the next one takes."""
        return due_behind(self._stores.learned, settings.interval)

    def why_wait(self) -> str:
        """Why the hour has no room for what is due, in a sentence; "" if it has, or the user wants it now.

        What an update will take is what the last one took. One an hour may be longer than the hour's share.
        """
        history = self._stores.history
        if self.forced or history is None or not (spent := history.spent(HOUR)):
            return ""
        last = next((took for _, took in history.costs()), 0.0)
        if spent + last <= 60 * MINUTES_PER_HOUR:
            return ""
        return f"Training waits: {spent / 60:.1f} of {MINUTES_PER_HOUR:g} processor minutes an hour are used."

    def idle_reason(self, interval: int) -> str:
        """Why none is due, in a sentence. interval: answers one takes."""
        fresh = self._stores.fresh
        if fresh >= interval and not self._stores.enough:
            return f"{fresh} new answers; a few more are needed to judge an update by."
        return (
            f"The next update begins at {interval} new answers (of models with this vocabulary); "
            f"{min(fresh, interval)} so far."
        )

    # Training, judging, publishing: in the process

    def begin(self, pairing: Pairing, settings: LearningSettings, table: Path) -> Job:
        """What the process has to do; the update is in the history from now on."""
        (replay, history), choice, asked = self._stores.files, pairing.choice, self.forced
        update = Update(
            history.next_number(), time.time(), choice.drafter.stem, pairing.target, pairing.pair.target.fingerprint,
        )  # fmt: skip
        job = plan(update, choice, settings, replay.path, table, seed=update.number, asked=asked)
        self._choice, self.forced = choice, False
        history.save(self._adapters.store_name(choice.learned_in), update)
        return job

    def follow(self, update: Update) -> None:
        """Take in what the process says; history and store hear of what is over."""
        self.running = update if update.ended is None else None
        if update.ended is None or self._choice is None:
            return
        store, (_, history) = self._choice.learned_in, self._stores.files
        settle(store, update)
        history.save(self._adapters.store_name(store), update)
        # What went wrong, or was ended from outside, would be so again at once.
        self._failed_with = 0 if update.outcome in ("published", "refused") else self._stores.fresh

    def failed(self) -> None:
        """Something went wrong that would go wrong again at once."""
        self._failed_with = self._stores.fresh

    def choose(self, now: Choice, version: str | None, warm: bool) -> str:
        """Serve what the user chose in place of what is served `now`. Returns a sentence."""
        chosen = now.learned_in.choose(version, warm)
        if now.origin == "own" and self._stores.history is not None:
            why = f"Left by you for {chosen.name if chosen else 'what it learned elsewhere' if warm else 'none'}."
            self._stores.history.add_reason(self._adapters.store_name(now.learned_in), now.learned.name, why)
        what = "What it learned for another vocabulary" if warm else "The drafter as it came"
        return f"{f'Version {chosen.number}' if chosen else what} is served from the next answer on."
