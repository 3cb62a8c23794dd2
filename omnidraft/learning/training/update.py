"""One update from replay to a judged adapter version, as a generator of progress events (plain dicts).

Runs inside the training process. No database transaction is open while anything is computed: answers are read first.
Events: started, step, estimate, published or refused, compared. The process around it adds finished or failed.
"""

from __future__ import annotations

import io
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from omnidraft.errors import ModelError, StorageError
from omnidraft.learning.adapters.candidate import Candidate, drop_candidate, keep_candidate, read_candidate
from omnidraft.learning.adapters.gguf import write_adapter
from omnidraft.learning.adapters.merge import can_merge, merged_path, write_merged
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.adapters.versions import ADAPTER, WEIGHTS, Meta, digest
from omnidraft.learning.job import Job
from omnidraft.learning.material.expansions import ExpansionTable
from omnidraft.learning.material.plan import Plan, make_plan
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.learning.training.batches import Window, windows
from omnidraft.learning.training.drafter import TorchDrafter
from omnidraft.learning.training.evaluate import Estimate, estimate
from omnidraft.learning.training.gate import Scores, Verdict, judge
from omnidraft.learning.training.rehearsal import Rehearsal
from omnidraft.learning.training.steps import WINDOWS_PER_STEP, Step, longest_batch, train
from omnidraft.learning.training.weights import arrays_of, give, rank_of, read_weights

Event = dict[str, object]
LEAST_STEPS = 6
COMPARED = 50  # recent answers a live rollback is decided on
LONGEST = 16  # updates a candidate has to become better than what is served


class Throttle:
    """Keeps the processor's share of the time at `duty` by sleeping after each piece of work."""

    def __init__(self, duty: float) -> None:
        self.duty, self._spent = duty, time.process_time()

    def rest(self) -> None:
        now = time.process_time()
        if self.duty < 1:
            time.sleep((now - self._spent) * (1 / self.duty - 1))
        self._spent = time.process_time()


def run(job: Job) -> Iterator[Event]:
    """Do what `job` says; "merge" needs no torch and is not done here."""
    yield from (_compare(job) if job.kind == "compare" else _update(job))


def _update(job: Job) -> Iterator[Event]:
    began = time.process_time()
    replay, candidate = _Answers(job), _candidate(job)
    plan = make_plan(replay.index, set(job.tables), max(job.through, candidate.through), job.seed)
    training = [w for o in (*plan.new, *plan.replayed) for w in replay.windows(o)]
    slices = {name: [w for o in ordinals for w in replay.windows(o)]
              for name, ordinals in (("old", plan.judged_old), ("new", plan.judged_new))}  # fmt: skip
    yield {"event": "started", "new": len(plan.new), "replayed": len(plan.replayed), "windows": len(training)}
    if not training:
        yield _refused(plan, Verdict(False, "there is nothing to learn from yet"))
        return
    throttle = Throttle(job.duty)
    drafter = TorchDrafter(Path(job.drafter), job.rank, seed=job.seed)
    before = _estimates_of_served(job, drafter, slices)
    yield {"event": "estimate", "when": "before", **_means(before)}
    candidate = _begin(drafter, job, candidate)
    throttle.rest()
    step = Step(0, 0, 0.0, 0)
    for step in _training(drafter, training, job):
        yield {"event": "step", "step": step.step, "steps": step.steps, "loss": step.loss, "tokens": step.tokens}
        throttle.rest()
    after = _estimates(drafter, slices)
    yield {"event": "estimate", "when": "after", **_means(after)}
    verdict = _judged(job, before, after)
    chats = {replay.index[o].chat for o in (*plan.new, *plan.replayed)} | {*job.inherited, *candidate.chats}
    weights = arrays_of(drafter)
    candidate = replace(candidate, weights=weights, through=plan.through, chats=tuple(sorted(chats)))
    if not verdict.accepted:
        yield _refused(plan, _go_on(Path(job.store), candidate, verdict))
        return
    meta = Meta(
        **_origin(job, plan), loss=step.loss, tokens=step.tokens, seconds=time.process_time() - began,
        before=_means(before), after=_means(after), chats=candidate.chats,
    )  # fmt: skip
    version = AdapterStore(Path(job.store)).publish(_files(weights, job), meta)
    with suppress(StorageError):  # it is of no use any more, and an update that is served has not failed
        drop_candidate(Path(job.store))
    yield {"event": "published", "version": version.name, "through": plan.through, "reason": verdict.reason}
    if job.merged is not None and can_merge(Path(job.drafter)):
        write_merged(Path(job.drafter), version.adapter, merged_path(Path(job.merged), version))


def _judged(job: Job, before: Mapping[str, Estimate], after: Mapping[str, Estimate]) -> Verdict:
    verdict = judge(_scores(before), _scores(after))
    if job.gated or verdict.ruined:
        return verdict
    return Verdict(True, "every update is served")


def _training(drafter: TorchDrafter, parts: list[Window], job: Job) -> Iterator[Step]:
    """More passes while there is little to learn from: a handful of steps moves nothing."""
    passes = max(job.passes, -(-LEAST_STEPS * WINDOWS_PER_STEP // len(parts)))
    rehearsal = None
    if job.rehearsal:
        rehearsal = Rehearsal(drafter, job.rehearsal, longest_batch(drafter.vocabulary_size), job.seed)
    return train(drafter, parts, job.loss, job.learning_rate, job.seed, passes, falling=True, rehearsal=rehearsal)


def _origin(job: Job, plan: Plan) -> dict:
    """What a version's description says of where it comes from."""
    return {
        "drafter": job.fingerprint, "vocabulary": job.vocabulary, "target": job.target, "parent": job.parent,
        "through": plan.through, "rank": job.rank, "loss_name": job.loss,
        "answers": len(plan.new) + len(plan.replayed),
    }  # fmt: skip


def _candidate(job: Job) -> Candidate:
    """The candidate trained from what is served now; else one that is still to be trained."""
    base = digest(Path(job.start)) if job.start is not None else ""
    found = read_candidate(Path(job.store))
    return found if found is not None and found.base == base else Candidate({}, base, 0, 0, ())


def _begin(drafter: TorchDrafter, job: Job, candidate: Candidate) -> Candidate:
    """Load what the update goes on from: the candidate, else what is served; an adapter of another rank than is wanted
    now is begun anew."""
    with suppress(ModelError):  # of other layers: not written by this program
        if give(drafter, candidate.weights):
            return candidate
    if job.start is None or not give(drafter, read_weights(Path(job.start))):
        drafter.reset()
    return Candidate({}, candidate.base, 0, 0, ())


def _go_on(store: Path, candidate: Candidate, verdict: Verdict) -> Verdict:
    """Keep what was refused for the next update to go on from, unless that has led nowhere; the verdict, saying so."""
    finite = all(np.isfinite(matrix).all() for matrix in candidate.weights.values())
    if verdict.ruined or not finite or candidate.behind + 1 >= LONGEST:
        drop_candidate(store)
        return replace(verdict, reason=f"{verdict.reason}; the next update begins anew")
    keep_candidate(store, replace(candidate, behind=candidate.behind + 1))
    return replace(verdict, reason=f"{verdict.reason}; the next update goes on from here")


def _compare(job: Job) -> Iterator[Event]:
    """Estimate the served version (`start`) and the one before it (`other`) on the newest answers, held out or not.

    Training answers count too: neither version is spared them, and the question is which serves the present better.
    """
    replay = _Answers(job)
    usable = [o for o, a in sorted(replay.index.items()) if a.vocabulary in job.tables]
    recent, throttle, found = usable[-COMPARED:], Throttle(job.duty), []
    parts = {"new": [w for o in recent for w in replay.windows(o)]}
    for path in (job.start, job.other):
        found.append(_estimates_with(job, path, parts))
        throttle.rest()
    served, other = found
    verdict = judge(_scores(served), _scores(other))
    yield {"event": "compared", "other_is_better": verdict.accepted, "served": _means(served), "other": _means(other)}


def _estimates_with(job: Job, path: str | None, slices: Mapping[str, list[Window]]) -> dict[str, Estimate]:
    """Estimates of the drafter with the weights at `path`, None: bare."""
    weights = read_weights(Path(path)) if path is not None else {}
    drafter = TorchDrafter(Path(job.drafter), rank_of(weights) if weights else 1, seed=job.seed)
    if weights:
        drafter.load_weights(weights)
    return _estimates(drafter, slices)


class _Answers:
    """The replay as the process needs it: its index, and each answer cut into windows, read once."""

    def __init__(self, job: Job) -> None:
        self._store = ReplayStore(Path(job.replay), read_only=True)
        self.index = dict(self._store.answers)
        self._tables = {vocabulary: ExpansionTable.load(Path(path)) for vocabulary, path in job.tables.items()}
        self._longest = job.window

    def windows(self, ordinal: int) -> list[Window]:
        """Empty if the answer was evicted meanwhile or cannot be read: one bad answer must not end learning."""
        try:
            record = self._store.get(ordinal)
            table = self._tables[record.vocabulary]
            if any(len(ids) and not 0 <= ids.min() <= ids.max() < len(table.direct)
                   for ids in (record.prompt, record.pieces)):  # fmt: skip
                return []  # of another drafter's vocabulary
            return windows(record, table, self._longest)
        except (KeyError, StorageError, IndexError):
            return []


def _estimates_of_served(job: Job, drafter: TorchDrafter, slices: Mapping[str, list[Window]]) -> dict[str, Estimate]:
    """Estimates of what is served; by `drafter`, unless that has another rank."""
    if job.start is not None and not give(drafter, read_weights(Path(job.start))):
        return _estimates_with(job, job.start, slices)
    return _estimates(drafter, slices)


def _files(weights: Mapping[str, np.ndarray], job: Job) -> Mapping[str, bytes]:
    """The version's files: the adapter llama.cpp serves, and the exact weights the next update goes on from."""
    store = Path(job.store)
    store.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".new-{os.getpid()}-", dir=store) as folder:  # swept if we are killed
        path = Path(folder) / ADAPTER
        write_adapter(path, weights, Path(job.drafter), job.rank, job.rank, "f16")
        adapter = path.read_bytes()
    data = io.BytesIO()
    np.savez(data, **weights)
    return {ADAPTER: adapter, WEIGHTS: data.getvalue()}


def _estimates(drafter: TorchDrafter, slices: Mapping[str, list[Window]]) -> dict[str, Estimate]:
    size = longest_batch(drafter.vocabulary_size)
    return {name: estimate(drafter, parts, size) for name, parts in slices.items()}


def _scores(estimates: Mapping[str, Estimate]) -> dict[str, Scores]:
    return {name: Scores(e.greedy, e.overlap) for name, e in estimates.items()}


def _means(estimates: Mapping[str, Estimate]) -> dict[str, dict[str, float]]:
    return {
        name: {**{k: round(v, 4) for k, v in e.means().items()}, "tokens": e.tokens} for name, e in estimates.items()
    }


def _refused(plan: Plan, verdict: Verdict) -> Event:
    return {"event": "refused", "through": plan.through, "reason": verdict.reason}
