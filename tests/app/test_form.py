"""Answers of a conversation that must follow a form: a JSON schema or a grammar, with and without the drafter, also
when they go on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from omnidraft.app import conversing
from omnidraft.app.session import Session
from omnidraft.errors import GrammarError
from omnidraft.storage.paths import find_data_home
from ui.chat import options

PROPERTIES = {"sum": {"type": "integer"}, "sure": {"type": "boolean"}}
SCHEMA = json.dumps({"type": "object", "properties": PROPERTIES, "required": ["sum", "sure"]})
GBNF = 'root ::= "It is " [0-9] [0-9]? "."'


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    made = Session(find_data_home(tmp_path_factory.mktemp("forms")), "default", "tiny-target-a", None)
    made.apply(**{"model.threads": 1, "sampling.max_tokens": 60, "sampling.seed": 5})
    yield made
    made.close()


def answered(session, form: str, **more) -> tuple[str, str]:
    """The conversation, and its answer."""
    chat = session.store.create("one").id
    sampling = replace(session.settings.sampling, form=form, **more.pop("sampling", {}))
    session.store.update(chat, sampling=sampling, **more)
    job = conversing.ask(session, chat, "What is 23 + 45?")
    job.join(60)
    assert job.error is None
    return chat, job.text


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_answer_follows_a_schema_with_and_without_the_drafter(session, temperature):
    sampling = {"temperature": temperature}
    _, drafted = answered(session, SCHEMA, sampling=sampling)
    _, plain = answered(session, SCHEMA, sampling=sampling, speculation=False)
    assert drafted == plain
    assert {name: type(value) for name, value in json.loads(drafted).items()} == {"sum": int, "sure": bool}


def test_an_answer_follows_a_grammar_and_goes_on_within_it(session):
    chat, cut = answered(session, GBNF, sampling={"max_tokens": 2})
    assert not cut.endswith(".")
    settings = session.store.get(chat)
    session.store.update(chat, sampling=replace(settings.sampling, max_tokens=60))
    job = conversing.resume(session, chat)
    job.join(60)
    assert job.error is None
    begin, number, end = job.text[:6], job.text[6:-1], job.text[-1:]
    assert (begin, number.isdigit(), end) == ("It is ", True, ".")
    assert job.text.startswith(cut)


@pytest.mark.parametrize("form", ['{"type": "object"', '{"type": "nonsense"}', 'root ::= "a', "just words"])
def test_what_is_no_form_is_refused_and_nothing_is_kept(form, session):
    chat = session.store.create("one").id
    values = (0.8, 0.95, 0.05, 40, 1.0, None, "", form, "auto")
    with pytest.raises(GrammarError):
        options.store(session, chat, "Be brief.", *values)
    assert session.store.get(chat).system == ""
    assert session.store.get(chat).sampling is None


def test_a_form_is_kept_with_the_conversation(session):
    chat = session.store.create("one").id
    options.store(session, chat, "", 0.8, 0.95, 0.05, 40, 1.0, None, "", f" {SCHEMA}\n", "auto")
    assert session.store.get(chat).sampling.form == SCHEMA
