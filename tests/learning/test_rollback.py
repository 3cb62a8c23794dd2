"""A served version whose own answers accept less is found out, compared, rolled back and named in the history."""

import time

import pytest

from omnidraft.decoding.request import AnswerRequest
from omnidraft.learning.adapters.store import AdapterStore
from omnidraft.learning.material import history
from omnidraft.learning.update import Update
from omnidraft.settings.config import SamplingSettings
from omnidraft.storage.paths import find_data_home
from tests.learning.living import FIXED, PROMPTS, open_assistant, until
from tests.learning.making import made

SHORT = SamplingSettings(temperature=0, max_tokens=20)
LIVE = 20  # answers before a version is looked at, here


@pytest.fixture
def assistant(tmp_path, models):
    assistant = open_assistant(find_data_home(tmp_path), models, interval=1000)
    yield assistant
    assistant.close()


def publish(assistant, drafter, noise: float) -> str:
    """Publish a version as an update would, with its line in the history, and have it served."""
    store, kept = assistant.loaded.choice.store, assistant.learner.stores.history
    current = store.current()
    name = made(store, drafter, noise, parent=current.name if current else None).name
    line = Update(kept.next_number(), time.time(), drafter.stem, "t", "v", "published", "It rose.", name)
    kept.save(assistant.loaded.adapters.store_name(store), line)
    assistant._serve()
    assert assistant.learner.status().served == name
    return name


def answer(assistant, count: int) -> float:
    """accepted / tested over this many short answers, each stored and counted."""
    before = len(assistant.learner.learned.served_answers(10_000))
    tested = accepted = 0
    for number in range(count):
        messages = PROMPTS[number % len(PROMPTS)].messages
        *_, last = assistant.answer(
            AnswerRequest(messages, SHORT, FIXED, source=f"c{before + number}", capture=assistant.capture)
        )
        tested, accepted = tested + last.statistics.tested, accepted + last.statistics.accepted
    until(lambda: len(assistant.learner.learned.served_answers(10_000)) == before + count)
    return accepted / tested


@pytest.mark.slow
def test_a_version_that_falls_is_rolled_back_to_the_last_good_one(assistant, models, monkeypatch):
    monkeypatch.setattr(history, "LIVE_ANSWERS", LIVE)
    drafter = models / "tiny-drafter-f16.gguf"
    good = publish(assistant, drafter, 0.0)
    held = answer(assistant, history.FEWEST_BEFORE + 5)
    bad = publish(assistant, drafter, 0.3)
    fallen = answer(assistant, LIVE - 1)
    assert fallen < held / 2
    time.sleep(1)
    assert assistant.learner.status().served == bad  # too early to say
    answer(assistant, 1)
    until(lambda: assistant.learner.status().served == good, "a rollback")
    store = AdapterStore(assistant.loaded.choice.store.folder)
    assert (store.current().name, store.pointer.rejected) == (good, (bad,))
    assert assistant.loaded.choice.adapter == store.current().adapter
    assert {v.name: (v.served, v.rejected) for v in assistant.learner.learned.versions()} == {
        good: (True, False), bad: (False, True),
    }  # fmt: skip
    newest, oldest = assistant.learner.learned.history()
    assert (newest.version, oldest.version, oldest.reason) == (bad, good, "It rose.")
    assert newest.reason == "It rose. Rolled back: what was served before accepts more of the last answers."
    assert answer(assistant, 5) > fallen


def test_the_history_says_so_when_the_user_goes_back(assistant, models):
    publish(assistant, models / "tiny-drafter-f16.gguf", 0.3)
    assistant.learner.choose(None)
    until(lambda: assistant.learner.status().served is None)
    assert assistant.learner.learned.history()[0].reason == "It rose. Left by you for none."
