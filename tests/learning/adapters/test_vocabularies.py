"""Which adapter drafts for which target: one for each vocabulary, and where a new target begins."""

from contextlib import closing
from pathlib import Path

import pytest

from omnidraft.learning.material.history import History
from omnidraft.learning.training import worker
from omnidraft.learning.training.drafter import TorchDrafter, read_weights
from omnidraft.learning.update import Update
from omnidraft.storage.paths import find_data_home
from tests.learning.living import ONE, open_assistant
from tests.learning.making import made
from tests.until import until


@pytest.fixture
def assistant(tmp_path, models):
    assistant = open_assistant(find_data_home(tmp_path), models, interval=1000)
    yield assistant
    assistant.close()


def use(assistant, models, drafter, target: str) -> tuple[str, Path | None]:
    """Load a target; where the adapter that drafts for it comes from, and its file."""
    assistant.load(models / f"tiny-target-{target}-f16.gguf", drafter, ONE)
    assert assistant.learner.status().merged
    return assistant.learner.status().origin, assistant.loaded.choice.adapter


def test_each_target_vocabulary_has_its_own_adapter(assistant, models, drafter):
    store_a = assistant.loaded.choice.store
    a = made(store_a, drafter, 0.01, chats=("chat-of-a",))
    assert use(assistant, models, drafter, "a") == ("own", a.adapter)
    assert use(assistant, models, drafter, "b") == ("warm start", a.adapter)
    store_b = assistant.loaded.choice.store
    assert store_b.folder != store_a.folder
    b = made(store_b, drafter, 0.02)
    assert use(assistant, models, drafter, "b") == ("own", b.adapter)
    assert use(assistant, models, drafter, "a") == ("own", a.adapter)


def test_a_new_target_begins_from_the_other_ones_weights(assistant, models, drafter):
    a = made(assistant.loaded.choice.store, drafter, 0.01, chats=("chat-of-a",))
    use(assistant, models, drafter, "b")
    job = assistant.learned.begin(assistant.settings.learning)
    assert (job.start, job.parent, job.inherited) == (str(a.weights), None, ("chat-of-a",))
    assert job.store == str(assistant.loaded.choice.store.folder) != str(a.path.parent)
    trained = TorchDrafter(drafter, job.rank, seed=job.seed)
    worker._begin(trained, job, worker._candidate(job))
    wanted = read_weights(a.weights)
    assert trained.weights().keys() == wanted.keys()
    assert all((value == wanted[name]).all() for name, value in trained.weights().items())


def test_each_drafter_and_vocabulary_has_a_history_and_any_version_can_be_chosen(assistant, models, drafter):
    learner, learned = assistant.learner, assistant.learned
    learner.hold()
    store = assistant.loaded.choice.store
    versions = [made(store, drafter, noise).name for noise in (0.01, 0.02)]
    use(assistant, models, drafter, "a")
    name = store.folder.relative_to(assistant.profile.adapters).as_posix()
    with closing(History(assistant.profile.metrics)) as history:
        for number, version in enumerate(versions, 1):
            history.save(name, Update(number, 1.0, drafter.stem, "a", "v", "published", "It rose.", version))
    assert [update.version for update in learned.history()] == versions[::-1]
    assert learned.subject() == (drafter.stem, assistant.loaded.pair.target.family)
    assert [(start.warm, start.served) for start in learned.starts()] == [(False, False)]
    # Back, and forward again.
    for wanted in versions:
        assert f"Version {int(wanted[1:])} is served" in learner.choose(wanted)
        until(lambda wanted=wanted: learner.status().served == wanted)
    assert "Left by you for v000001." in learned.history()[0].reason
    # Another family: its history is its own, and it can go back to where it began.
    use(assistant, models, drafter, "b")
    assert learned.history() == []
    own = made(assistant.loaded.choice.store, drafter, 0.03).name
    assert use(assistant, models, drafter, "b")[0] == "own"
    learner.choose(None, warm=True)
    until(lambda: learner.status().origin == "warm start")
    assert [(start.warm, start.served) for start in learned.starts()] == [(True, True), (False, False)]
    learner.choose(None)
    until(lambda: learner.status().origin == "none")
    learner.choose(own)
    until(lambda: learner.status().served == own)
    assert use(assistant, models, drafter, "a")[0] == "own"
    assert len(learned.history()) == 2
