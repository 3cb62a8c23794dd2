"""What was refused: kept, gone on from, dropped when it leads nowhere, forgotten when it must be."""

import os
from dataclasses import replace

import numpy as np
import pytest

from omnidraft.learning.adapters.store import FILE, AdapterStore, Candidate, keep_candidate, read_candidate
from omnidraft.learning.adapters.versions import digest
from omnidraft.learning.training import worker
from omnidraft.learning.training.drafter import TorchDrafter, read_weights
from omnidraft.learning.training.evaluate import Verdict
from omnidraft.learning.training.process import does

WEIGHTS = {"output.lora_a": np.full((2, 3), 0.25, np.float32), "output.lora_b": np.full((4, 2), 0.5, np.float32)}
KEPT = Candidate(WEIGHTS, "a digest", 3, 40, ("one", "two"))


def same(found, weights) -> bool:
    return found.keys() == weights.keys() and all((np.asarray(found[n]) == np.asarray(weights[n])).all() for n in found)


def test_it_comes_back_as_it_was_and_only_one_is_kept(tmp_path):
    keep_candidate(tmp_path / "store", replace(KEPT, behind=1))
    os.link(tmp_path / "store" / FILE, tmp_path / "linked")  # shows what happens to the bytes on disk
    keep_candidate(tmp_path / "store", KEPT)
    assert not any((tmp_path / "linked").read_bytes())
    found = read_candidate(tmp_path / "store")
    assert same(found.weights, WEIGHTS)
    assert replace(found, weights=WEIGHTS) == KEPT
    assert os.listdir(tmp_path / "store") == [FILE]


def test_damage_does_no_more_than_lose_it(tmp_path):
    keep_candidate(tmp_path, KEPT)
    path = tmp_path / FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    assert read_candidate(tmp_path) is None
    for at in range(0, len(whole) * 8, 50):
        damaged = bytearray(whole)
        damaged[at // 8] ^= 1 << at % 8
        path.write_bytes(damaged)
        read_candidate(tmp_path)  # raises nothing


@pytest.mark.parametrize(("chat", "left"), [("one", False), (None, False), ("three", True)])
def test_forgetting_a_conversation_removes_what_was_trained_on_it(tmp_path, chat, left):
    keep_candidate(tmp_path, KEPT)
    copy = tmp_path / "linked"
    os.link(tmp_path / FILE, copy)
    store = AdapterStore(tmp_path)
    store.reject_update(40)
    store.forget(chat)
    assert (read_candidate(tmp_path) is not None) == left
    assert store.through == (40 if left else 0)  # what it learned from other conversations is new again
    assert any(copy.read_bytes()) == left


@pytest.fixture
def verdicts(monkeypatch):
    """Verdicts to come, in place of the gate's; the last one holds from then on."""
    coming = [Verdict(False, "no")]
    monkeypatch.setattr(worker, "judge", lambda before, after: coming.pop(0) if len(coming) > 1 else coming[0])
    return coming


def held_out_before(world, **changes) -> dict:
    """The estimates an update is compared with."""
    job = replace(world.job, passes=1, through=world.store.through, **changes)
    *_, found = does(job)
    return found.before["new"]


def test_an_update_goes_on_from_what_was_refused_and_is_held_against_what_is_served(world, verdicts):
    world.add(world.records[:8])
    assert world.update(passes=1).reason.endswith("goes on from here.")
    first = read_candidate(world.store.folder)
    assert (first.base, first.behind, first.through) == ("", 1, 8)
    keep_candidate(world.store.folder, replace(first, chats=("elsewhere",)))
    world.add(world.records[8:16])
    bare = held_out_before(world, store=str(world.store.folder / "elsewhere"))
    assert held_out_before(world, learning_rate=0.0) == bare
    second = read_candidate(world.store.folder)
    assert same(second.weights, first.weights)  # at rate 0 it is where it was
    assert "elsewhere" in second.chats
    verdicts[:] = [Verdict(True, "yes")]
    world.add(world.records[16:24])
    assert world.update(passes=1, learning_rate=0.0).outcome == "published"
    served = world.store.current()
    assert same(read_weights(served.weights), first.weights)
    assert "elsewhere" in served.meta.chats
    assert read_candidate(world.store.folder) is None


@pytest.mark.parametrize("against", [{"falls": True}, {"ruined": True}])
def test_what_new_answers_prove_is_served_as_it_was_where_held_out_ones_speak_against_what_it_learned_since(
    world, verdicts, against
):
    world.add(world.records[:8])
    world.update(passes=1)
    candidate = read_candidate(world.store.folder)
    verdicts[:] = [Verdict(False, "worse", **against), Verdict(True, "proved")]
    world.add(world.records[8:16])
    update = world.update(passes=1)
    served = world.store.current()
    assert same(read_weights(served.weights), candidate.weights)
    assert served.meta.chats == candidate.chats  # it knows nothing of the answers that proved it
    assert set(served.meta.before) == set(served.meta.after) == {"old", "new", "unseen"}
    assert (update.before, update.after) == (served.meta.before, served.meta.after)  # what is told of it
    going_on = read_candidate(world.store.folder)
    if "ruined" in against:
        assert going_on is None
        return
    assert (going_on.base, going_on.behind) == (digest(served.weights), 1)
    assert set(going_on.chats) > set(served.meta.chats)
    assert going_on.through == served.meta.through == world.store.through


def spoiled(weights):
    """In place of a drafter's method: numbers that are none."""
    return lambda drafter: {name: matrix * np.nan for name, matrix in weights(drafter).items()}


def test_one_that_leads_nowhere_or_is_ruined_is_dropped(world, verdicts, monkeypatch):
    monkeypatch.setattr(worker, "LONGEST", 2)
    world.add(world.records[:8])
    world.update(passes=1)
    assert read_candidate(world.store.folder).behind == 1
    world.add(world.records[8:16])
    assert world.update(passes=1).reason.endswith("begins anew.")
    assert read_candidate(world.store.folder) is None
    for ruin in (Verdict(False, "no numbers", ruined=True), Verdict(False, "no")):
        verdicts[:] = [Verdict(False, "no"), ruin]
        world.add(world.records[16:32])
        assert world.update(passes=1).reason.endswith("goes on from here.")
        monkeypatch.setattr(worker, "LONGEST", 99)
        if not ruin.ruined:
            monkeypatch.setattr(TorchDrafter, "weights", spoiled(TorchDrafter.weights))
        world.add(world.records[16:24])
        assert world.update(passes=1).reason.endswith("begins anew.")
        assert read_candidate(world.store.folder) is None


@pytest.mark.parametrize("changes", [
    {"base": "of another version"}, {"weights": {n: np.zeros((1, 1), np.float32) for n in WEIGHTS}},
])  # fmt: skip
def test_it_is_for_the_version_it_was_trained_from_and_of_its_rank(world, verdicts, changes):
    world.add(world.records[:8])
    world.update(passes=1)
    keep_candidate(world.store.folder, replace(read_candidate(world.store.folder), **changes))
    world.add(world.records[8:16])
    world.update(passes=1, learning_rate=0.0)
    begun = read_candidate(world.store.folder)
    assert (begun.base, begun.behind) == ("", 1)
    assert not any(w.any() for name, w in begun.weights.items() if name.endswith("lora_b"))


def test_answers_it_has_seen_are_not_new_to_it(world, verdicts):
    """Killed between keeping it and saying so, the program starts the same update again."""
    world.add(world.records[:8])
    list(world.updates(passes=1))
    *_, update = world.updates()
    assert (update.outcome, update.through) == ("refused", 8)
    assert "nothing to learn from" in update.reason
    assert read_candidate(world.store.folder).behind == 1
