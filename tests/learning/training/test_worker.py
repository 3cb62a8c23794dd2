"""Updates as the training process computes them, on real answers: what they publish, and what they refuse to."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from omnidraft.learning.adapters.versions import merged_path, write_merged
from omnidraft.learning.material.record import Record
from omnidraft.learning.material.replay import ExpansionTable, ReplayStore
from omnidraft.learning.training import evaluate, frozen
from omnidraft.learning.training.drafter import TorchDrafter, read_weights
from omnidraft.learning.training.evaluate import Estimate, standard_error
from omnidraft.learning.training.teaching import IN_A_ROW, TIMES, windows
from omnidraft.learning.training.worker import steps_left
from omnidraft.learning.update import State
from tests.learning.world import World
from tests.llama_file import llama_logits


def spelled(record: Record, targets: np.ndarray, table: ExpansionTable, **changes) -> Record:
    """The answer with other target tokens and the pieces that spell them, as if a model had said that."""
    pieces = [tuple(table.flat[table.offsets[token] : table.offsets[token + 1]]) for token in targets]
    made = dataclasses.replace(
        record, chat="poison", targets=targets.astype(np.int32), pieces=np.array(sum(pieces, ()), np.int32),
        spans=np.array([len(p) for p in pieces], np.int32), leading_space=False, first=(), **changes,
    )  # fmt: skip
    assert windows(made, table), "nothing could be learned from this, so it would prove nothing"
    return made


def scrambled(record: Record, rng: np.random.Generator, table: ExpansionTable) -> Record:
    """Random targets, other ones at every position, and random candidates."""
    tokens = rng.choice(np.flatnonzero(table.lengths > 0), len(record.targets))
    return spelled(record, tokens, table, ids=rng.integers(0, table.target_size, len(record.ids)).astype(np.int32))


def looping(record: Record, rng: np.random.Generator, table: ExpansionTable) -> Record:
    """One token again and again, of which the target is sure: easy to learn, and no use for anything else."""
    token = int(np.flatnonzero(table.lengths == 1)[-1])
    counts = np.ones(len(record.targets), np.int32)
    sure = np.full(len(counts), np.log(0.99), np.float32)
    certain = {"counts": counts, "ids": counts * token, "logprobs": sure, "rest": counts * np.float32(0.01)}
    return spelled(record, counts * token, table, **certain)


def poison(world: World, make, seed: int, rounds: int, **changes) -> int:
    """Bad answers round after round; what is served stays as good on clean answers nobody trained on, but for what
    chance makes: each round is held against the best of those before it, paired token by token.

    Returns how many of the updates were refused.
    """
    world.add(world.records[:16])
    assert world.update(seed=seed).outcome == "published"
    table = ExpansionTable.load(Path(world.job.table))
    rng, refused, best = np.random.default_rng(seed), 0, world.served_on(world.records[28:]).combined
    for number in range(rounds):
        world.add([make(record, rng, table) for record in world.records[16:28]])
        refused += world.update(seed=seed + number, **changes).outcome == "refused"
        now = world.served_on(world.records[28:]).combined
        print(f"round {number}: {refused} refused, {best.mean():.4f} -> {now.mean():.4f}")
        assert now.mean() >= best.mean() - max(0.01, 3 * standard_error(now - best))
        best = max(best, now, key=np.mean)
    return refused


def test_of_a_loop_no_more_is_judged_than_its_beginning(world):
    table, drafter = ExpansionTable.load(Path(world.job.table)), TorchDrafter(Path(world.job.drafter), 32)
    loop = looping(world.records[0], np.random.default_rng(0), table)
    assert len(loop.targets) > 20
    found = evaluate.estimates(drafter, {"new": {0: windows(loop, table)}})["new"]
    assert found.tokens == IN_A_ROW + TIMES - 1


STRONG = pytest.mark.parametrize(("make", "rate"), [(scrambled, 0.01), (looping, 0.02)])


@pytest.mark.slow
@STRONG
def test_poison_strong_enough_to_ruin_the_drafter_is_refused(world, make, rate):
    """Five and ten times the usual learning rate; more clean answers than bad ones are held out in these rounds."""
    assert poison(world, make, 1, rounds=2, learning_rate=rate) > 0


@pytest.mark.slow
@STRONG
def test_the_same_poison_ruins_it_where_nothing_is_refused(world, make, rate):
    with pytest.raises(AssertionError):
        poison(world, make, 1, rounds=2, learning_rate=rate, gated=False)


def test_answers_of_another_drafter_are_neither_learned_from_nor_judged_by(world):
    world.add([dataclasses.replace(record, drafter="another") for record in world.records[:24]])
    assert world.update().reason == "There is nothing to learn from yet."
    world.add(world.records[24:])
    (began, *_) = world.updates(passes=1)
    assert 0 < began.answers_new <= len(world.records[24:])
    assert began.answers_replayed == 0


def test_an_update_says_how_far_it_is(world):
    world.add(world.records)
    *_, update = updates = list(world.updates())
    assert update.outcome == "published"
    assert world.store.current().name == update.version
    states = [State.TRAINING, State.JUDGING, State.PUBLISHING, State.IDLE]
    assert list(dict.fromkeys(update.state for update in updates)) == states


@pytest.fixture(scope="module")
def trained(answers, drafter, tmp_path_factory):
    """A version really trained, on 35 answers for 4 passes."""
    world = World(*answers, drafter, tmp_path_factory.mktemp("trained"))
    world.add(world.records)
    assert world.update(passes=4).outcome == "published"
    return world


@pytest.mark.parametrize(("kept", "off", "alike"), [(torch.float16, 2e-2, 0.995), (torch.bfloat16, 0.15, 0.98)])
def test_torch_and_llama_cpp_agree_on_a_trained_adapter(trained, drafter, monkeypatch, kept, off, alike):
    monkeypatch.setattr(frozen, "LAYERS", kept)
    version, worst, same, positions = trained.store.current(), 0.0, 0, 0
    model = TorchDrafter(drafter, 32)
    model.load_weights(read_weights(version.weights))
    bare = TorchDrafter(drafter, 32)
    moved = 0.0
    for record in trained.records[::5]:
        ids = np.concatenate([record.prompt, record.pieces])[-200:].astype(np.int64)
        with torch.no_grad():
            ours, plain = (m.base(input_ids=torch.from_numpy(ids)[None]).logits[0].numpy() for m in (model, bare))
        theirs = llama_logits(drafter, ids.tolist(), version.adapter)
        worst = max(worst, float(np.abs(ours - theirs).max()))
        moved = max(moved, float(np.abs(ours - plain).max()))
        same += int((ours.argmax(1) == theirs.argmax(1)).sum())
        positions += len(ids)
    print(f"\ntorch + PEFT against llama.cpp + adapter, {positions} positions: max |diff| {worst:.4f}, "
          f"same top-1 {same / positions:.4%}; the adapter moves logits by up to {moved:.1f}")  # fmt: skip
    assert moved > 1
    assert worst <= off
    assert same / positions >= alike


def test_the_merged_file_says_what_drafter_and_adapter_say(trained, drafter, tmp_path):
    version = trained.store.current()
    merged = write_merged(drafter, version.adapter, merged_path(tmp_path, version))
    ids = np.concatenate([trained.records[3].prompt, trained.records[3].pieces]).tolist()
    apart, together = llama_logits(drafter, ids, version.adapter), llama_logits(merged, ids)
    assert np.abs(apart - together).max() < 0.05
    assert (apart.argmax(1) == together.argmax(1)).mean() > 0.99
    assert merged.stat().st_size == drafter.stat().st_size


def test_little_left_to_learn_takes_few_steps_also_where_no_new_answer_is_held_out():
    def right(share: float, tokens: int) -> Estimate:
        return Estimate(np.full(tokens, share), np.full(tokens, share), np.zeros(tokens, np.int64))

    none = right(0.0, 0)
    assert steps_left(80, {"new": none, "old": none}) == 80
    assert steps_left(80, {"new": none, "old": right(0.75, 8)}) == 20
    assert steps_left(80, {"new": right(0.5, 8), "old": right(0.75, 8)}) == 40


@pytest.mark.slow
def test_another_rank_begins_anew_and_must_beat_what_is_served(trained):
    before = trained.store.current()
    with ReplayStore(trained.replay) as replay:
        answers = len(replay)
    trained.add(trained.records[:8])
    result = trained.update(rank=1, passes=1, learning_rate=1e-6)
    assert answers == len(trained.records)
    assert result.outcome == "refused"
    assert trained.store.current().name == before.name
