"""One update: the answers are read, the drafter is trained on them, judged, and published or trained on next time.

A generator of what the update is by then (`learning.update`), run by `process.does`; what comes before and
behind an update is not known here. No database transaction is open while anything is computed.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from omnidraft.errors import ModelError, StorageError
from omnidraft.learning.adapters.store import AdapterStore, Candidate, drop_candidate, keep_candidate, read_candidate
from omnidraft.learning.adapters.versions import ADAPTER, WEIGHTS, Meta, Version, digest, write_adapter
from omnidraft.learning.material.replay import ExpansionTable, ReplayStore, Selection, select_answers
from omnidraft.learning.training import steps
from omnidraft.learning.training.drafter import TorchDrafter, give, rank_of, read_weights
from omnidraft.learning.training.evaluate import Answers, Estimate, Verdict, estimates, judge, means
from omnidraft.learning.training.teaching import StoredAnswers, Window
from omnidraft.learning.update import MORE_STEPS, Job, State, Update
from omnidraft.storage.files import pack_arrays
from omnidraft.storage.vault import vault_of


def served_drafter(job: Job) -> TorchDrafter:
    """What the update has to be better than."""
    weights = read_weights(Path(job.start)) if job.start is not None else {}
    drafter = untrained_drafter(job, rank_of(weights) or job.rank)
    if weights:
        drafter.load_weights(weights)
    return drafter


def untrained_drafter(job: Job, rank: int) -> TorchDrafter:
    """The job's drafter with an adapter of this rank that changes nothing, as the job's seed draws it."""
    drafter = _drafter(job.drafter, job.fingerprint, rank)
    drafter.renew(job.seed)
    return drafter


@lru_cache(maxsize=1)
def _drafter(path: str, _fingerprint: str, rank: int) -> TorchDrafter:
    """An update takes it several times."""
    return TorchDrafter(Path(path), rank)


LONGEST = 16  # updates a candidate has to become better than what is served
UNSEEN = 24  # new answers a candidate is judged on before it is trained on them


@dataclass(frozen=True)
class Material:
    """What an update works with. windows: to train on; held_out: by slice, to judge by; unseen: new answers, if there
    is a candidate to judge on them; chats: conversations the answers are from; candidate: what is trained on, or would
    be had there been a refused update."""

    selection: Selection
    windows: list[Window]
    held_out: Mapping[str, Answers]
    unseen: Answers
    chats: frozenset[str]
    candidate: Candidate


@dataclass(frozen=True)
class Trained:
    """update: how far it is; candidate: with its new weights; before, after: estimates of what is served and of it;
    untrained: of the candidate as it was, None if there was none."""

    update: Update
    candidate: Candidate
    before: Mapping[str, Estimate]
    after: Mapping[str, Estimate]
    untrained: Mapping[str, Estimate] | None


def update(job: Job) -> Iterator[Update]:
    """Read, train, judge, publish."""
    began = time.process_time()
    torch.set_num_threads(job.threads)
    material = _read(job)
    selection = material.selection
    now = replace(
        job.update, answers_new=len(selection.new), answers_replayed=len(selection.replayed), through=selection.through
    )
    yield now
    if not material.windows:
        yield now.said("refused", "there is nothing to learn from yet")
        return
    trained = yield from _train(job, material, now)
    verdict, store = _judge(job, trained), Path(job.store)
    if verdict.accepted:
        yield from _publish(job, trained, verdict, began)
        return
    if trained.untrained is not None:
        # Few answers are held out, but all new ones are unseen until they are trained on, by the candidate as it was as
        # by what is served (progressive validation: Blum, Kalai and Langford, COLT 1999). They speak for what was
        # trained on since, too, where nothing that is held out speaks against that.
        untrained = replace(trained, candidate=material.candidate, after=trained.untrained)
        if (better := _judge(job, untrained)).accepted:
            speaks_against = verdict.falls or verdict.ruined
            served = untrained if speaks_against else trained
            version = yield from _publish(job, served, better, began)
            if speaks_against:
                with suppress(StorageError):  # the next update begins with what is served then; this one has not failed
                    _go_on(store, replace(trained.candidate, base=digest(version.weights), behind=0), verdict)
            return
    yield trained.update.said(
        "refused", f"{verdict.reason}; the next update {_go_on(store, trained.candidate, verdict)}"
    )


def _read(job: Job) -> Material:
    """Choose the answers to learn from and to judge by, and cut them into windows."""
    candidate = _candidate(job)
    with ReplayStore(Path(job.replay)) as replay:
        answers = StoredAnswers(replay, ExpansionTable.load(Path(job.table)))
        selection = select_answers(answers.index, max(job.through, candidate.through), job.seed, job.most_new)
        taught = (*selection.new, *selection.replayed)
        held_out = {"old": answers.windows(selection.judged_old), "new": answers.windows(selection.judged_new)}
        unseen = answers.windows(selection.new[-UNSEEN:] if candidate.weights else ())
        chats = frozenset(answers.index[o].chat for o in taught)
        windows = [window for answer in answers.windows(taught).values() for window in answer]
    return Material(selection, windows, held_out, unseen, chats, candidate)


def _train(job: Job, material: Material, now: Update) -> Generator[Update, None, Trained]:
    """Train from the candidate, or from what is served; estimates before and after it."""
    slices = {**material.held_out, "unseen": material.unseen} if material.unseen else material.held_out
    before = estimates(served_drafter(job), slices)
    now = replace(now, before=means({name: before[name] for name in material.held_out}))
    yield now
    drafter = untrained_drafter(job, job.rank)
    candidate = _begin(drafter, job, material.candidate)
    untrained = estimates(drafter, slices) if material.unseen and candidate.weights else None
    rehearsed = steps.drawn_once(drafter, job).windows() if job.rehearsal else []
    least = steps_left(job.least_steps, untrained or before)
    stepping = steps.train(drafter, material.windows, job, least, rehearsed, now)
    for now in stepping:
        yield now
    yield replace(now, state=State.JUDGING)
    after = estimates(drafter, material.held_out)
    now = replace(now, state=State.JUDGING, after=means(after))
    chats = tuple(sorted(material.chats | {*job.inherited, *candidate.chats}))
    candidate = replace(candidate, weights=drafter.weights(), through=material.selection.through, chats=chats)
    return Trained(now, candidate, before, after, untrained)


def _judge(job: Job, trained: Trained) -> Verdict:
    """Whether it is better than what is served; without a gate everything that gives numbers is."""
    verdict = judge(trained.before, trained.after)
    if job.gated or verdict.ruined:
        return verdict
    return Verdict(True, "every update is served")


def _publish(job: Job, trained: Trained, verdict: Verdict, began: float) -> Generator[Update, None, Version]:
    """Write the version that is served from now on."""
    before = means({name: trained.before[name] for name in trained.after})
    now = replace(trained.update, state=State.PUBLISHING, before=before, after=means(trained.after))
    yield now
    meta = Meta(
        drafter=job.fingerprint, vocabulary=now.vocabulary, target=now.target, parent=job.parent, through=now.through,
        rank=job.rank, loss_name=job.loss, answers=now.answers_new + now.answers_replayed,
        loss=now.losses[-1] if now.losses else 0.0, tokens=now.tokens, seconds=time.process_time() - began,
        before=now.before, after=now.after, chats=trained.candidate.chats,
    )  # fmt: skip
    version = AdapterStore(Path(job.store)).publish(_files(trained.candidate.weights, job), meta)
    with suppress(StorageError):  # it is of no use any more, and an update that is served has not failed
        drop_candidate(Path(job.store))
    yield replace(now, version=version.name).said("published", verdict.reason)
    return version


def steps_left(least: int, known: Mapping[str, Estimate]) -> int:
    """`least`, or fewer where more than half of the new answers' tokens would be accepted already, of the earlier ones'
    where no new one is held out: little is left to learn, and the same few answers again and again teach less."""
    told = known["new"] if known["new"].tokens else known["old"]
    share = float(told.combined.mean()) if told.tokens else 0.0
    return min(least, math.ceil(MORE_STEPS * (1 - share)))


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


def _go_on(store: Path, candidate: Candidate, verdict: Verdict) -> str:
    """Keep what was refused for the next update to go on from, unless that has led nowhere; what that one does."""
    finite = all(np.isfinite(matrix).all() for matrix in candidate.weights.values())
    if verdict.ruined or not finite or candidate.behind + 1 >= LONGEST:
        drop_candidate(store)
        return "begins anew"
    keep_candidate(store, replace(candidate, behind=candidate.behind + 1))
    return "goes on from here"


def _files(weights: Mapping[str, np.ndarray], job: Job) -> Mapping[str, bytes]:
    """The version's files: the adapter llama.cpp serves, and the exact weights the next update goes on from."""
    store = Path(job.store)
    store.mkdir(parents=True, exist_ok=True)
    place = store if (vault := vault_of(store)) is None else vault.memory
    with tempfile.TemporaryDirectory(prefix=f".new-{os.getpid()}-", dir=place) as folder:  # swept if we are killed
        path = Path(folder) / ADAPTER
        write_adapter(path, weights, Path(job.drafter), job.rank)
        adapter = path.read_bytes()
    return {ADAPTER: adapter, WEIGHTS: pack_arrays(weights)}
