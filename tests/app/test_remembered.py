"""Facts that a person asked to be remembered: told to the model within a budget, gone when they are forgotten."""

from __future__ import annotations

import pytest

from omnidraft.app import conversing
from omnidraft.app.conversing import SHARE, fitting, with_facts
from omnidraft.app.session import Session
from omnidraft.chats import Fact
from omnidraft.errors import StorageError
from omnidraft.storage.paths import find_data_home


@pytest.fixture(scope="module")
def ada(tmp_path_factory):
    home = find_data_home(tmp_path_factory.mktemp("remembering"))
    made = Session(home, "ada", "tiny-target-a", None)
    made.apply(**{"model.threads": 1, "sampling.max_tokens": 4})
    made.ensure_loaded()
    yield made
    made.close()


def test_a_fact_is_told_behind_the_system_prompt_until_it_is_forgotten(ada):
    assert with_facts(ada, "Be brief.") == "Be brief."
    ada.store.library.save(Fact("I  have\ntwo cats."))
    assert with_facts(ada, "Be brief.").startswith("Be brief.\n\n")
    assert with_facts(ada, "").endswith("\n- I have two cats.")
    chat = ada.store.create("one").id
    with_it = answered(ada, chat, "What is 2 + 3?")
    ada.store.library.delete("fact", "I have two cats.")
    without = answered(ada, ada.store.create("two").id, "What is 2 + 3?")
    assert with_it.live.statistics.prompt_tokens > without.live.statistics.prompt_tokens
    assert with_facts(ada, "") == ""


def answered(session, chat, text):
    job = conversing.ask(session, chat, text)
    job.join(60)
    assert job.error is None
    return job


def test_the_newest_facts_fit_into_a_share_of_the_context(ada):
    model = ada.assistant.engine.target.model
    facts = [f"Fact number {number} is worth keeping." for number in range(50)]
    told = fitting(facts, model.vocabulary, model.n_ctx // SHARE)
    assert 0 < len(told) < 50
    assert told == facts[-len(told) :]
    words = "".join(f"\n- {fact}" for fact in told)
    assert len(model.vocabulary.encode(words)) <= model.n_ctx // SHARE + len(told)
    assert fitting(["x " * 5000, "short"], model.vocabulary, 20) == ["short"]


@pytest.mark.parametrize("fact", ["", " \n", "a" * 301])
def test_what_is_no_fact_is_refused(ada, fact):
    with pytest.raises(StorageError, match="1 to 300 characters"):
        ada.store.library.save(Fact(fact))
    assert ada.store.library.facts() == []
