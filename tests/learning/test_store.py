"""What is kept of answers and updates, for who trains next and for who looks."""

from dataclasses import replace

import pytest

from omnidraft.lab.experiment import Pair
from omnidraft.learning.adapters.serving import Adapters
from omnidraft.learning.store import Counts, LearningStore
from omnidraft.learning.update import State, Update
from omnidraft.settings.config import LearningSettings, ModelSettings


@pytest.fixture
def store(home):
    store = LearningStore(home.profile(), home.cache, Adapters(home.profile().adapters))
    yield store
    store.close()


@pytest.fixture
def pairing(home, drafter, models):
    """The bundled pair, of which nothing is known yet."""
    with Pair(home, models / "tiny-target-a-f16.gguf", drafter, ModelSettings(threads=1)) as pair:
        choice = Adapters(home.profile().adapters).choose(drafter, pair.pair.target.fingerprint)
        yield replace(pair.pairing, choice=choice)


def test_what_was_refused_is_not_trained_on_again_and_stands_in_the_history(store, pairing):
    store.pair(pairing)
    job = store.begin(LearningSettings())
    assert ([update.outcome for update in store.history()], pairing.choice.learned_in.through) == (["running"], 0)
    refused = replace(job.update, state=State.JUDGING, through=40).said("refused", "no better").concluded(0, "")
    store.end(replace(job, update=refused))
    assert pairing.choice.learned_in.through == 40
    assert [(u.number, u.outcome, u.reason) for u in store.history()] == [(1, "refused", "No better.")]


def test_an_update_that_a_kill_ended_stays_in_the_history(store, pairing):
    store.pair(pairing)
    store.begin(LearningSettings())
    store.close()
    store.pair(pairing)
    assert [update.outcome for update in store.history()] == ["interrupted"]


def test_with_damaged_answers_nothing_is_kept_open_and_the_next_load_says_so_again(store, pairing, home):
    home.profile().replay.write_bytes(b"junk" * 1000)
    other = LearningStore(home.profile(), home.cache, Adapters(home.profile().adapters))
    for one in (store, other, store):
        one.pair(pairing)
        assert "replay.sqlite" in one.refused, "not that another one has it"
    assert home.profile().replay.read_bytes() == b"junk" * 1000
    home.profile().replay.unlink()
    store.pair(pairing)
    assert store.refused == ""
    store.begin(LearningSettings())


@pytest.mark.parametrize(("interval", "began"), [(16, [4, 8, 16, 32, 48]), (3, [1, 2, 4, 7, 10])])
def test_the_first_answers_are_learned_from_soon_and_later_ones_at_the_interval(interval, began):
    found, learned = [], 0
    for answers in range(1, began[-1] + 1):
        if answers - learned >= Counts(learned=learned).needed(interval):
            found, learned = [*found, answers], answers
    assert found == began


def test_what_an_earlier_program_wrote_of_an_update_is_read():
    old = {"number": 1, "started": 1.0, "drafter": "d", "target": "t", "vocabulary": "v", "losses": [2.0], "kind": "x"}
    read = Update.of(old)
    assert (read.losses, read.ended) == ((2.0,), None)
    assert Update.from_line(read.to_line()) == read
    assert [Update.from_line(line) for line in ("loading ...", "3", "{}")] == [None] * 3
