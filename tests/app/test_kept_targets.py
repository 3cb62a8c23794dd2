"""Two targets stay loaded where memory allows: going back to the one before loads nothing, and is exact."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from omnidraft.app import kept_targets
from omnidraft.app.assistant import Assistant
from omnidraft.app.room import Room, needs
from omnidraft.app.session import Session
from omnidraft.app.sessions import unload_if_idle
from omnidraft.backends.llama import estimate
from omnidraft.errors import ModelError
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import find_data_home
from tests.answering import ONE, answered, loaded
from tests.backends.conftest import write_adapter, write_gguf  # noqa: F401 - fixtures

SAMPLING = SamplingSettings(temperature=0.0, max_tokens=12)


@pytest.fixture
def files(models) -> dict[str, Path]:
    """Targets a, b, c and a drafter."""
    names = {"a": "tiny-target-a", "b": "tiny-target-b", "c": "tiny-target-a2", "drafter": "tiny-drafter"}
    return {short: models / f"{name}-f16.gguf" for short, name in names.items()}


@pytest.fixture
def assistant(tmp_path):
    made = Assistant(find_data_home(tmp_path / "home"), ephemeral=True)
    yield made
    made.close()


def load(assistant: Assistant, target: Path, drafter: Path | None = None, settings: ModelSettings = ONE, **more):
    """The target that answers then."""
    assistant.load(target, drafter, settings, CacheSettings(), **more)
    return assistant.target


def is_closed(target) -> bool:
    try:
        target.extend([1], 1)
    except ModelError as error:
        return "is closed" in str(error)
    return False


def test_going_back_to_the_one_before_loads_nothing_and_a_third_takes_its_place(assistant, files):
    a, b = load(assistant, files["a"]), load(assistant, files["b"])
    assert load(assistant, files["a"]) is a
    assert load(assistant, files["b"]) is b
    c = load(assistant, files["c"])
    assert is_closed(a)
    assert load(assistant, files["b"]) is b
    assert load(assistant, files["c"]) is c


def test_it_answers_as_if_it_were_loaded_anew_and_drafts(assistant, files, tmp_path):
    """Also with what it had read before, and with the drafter that meanwhile drafted for the other."""
    with loaded(tmp_path / "other", files["a"], None) as fresh:
        expected, _ = answered(fresh, "What is 23 + 45?", SAMPLING, DraftSettings())
    first = load(assistant, files["a"], files["drafter"])
    answered(assistant, "What is 2 + 3?", SAMPLING, DraftSettings(mode="fixed"))
    load(assistant, files["b"], files["drafter"])
    answered(assistant, "What is 7 + 1?", SAMPLING, DraftSettings(mode="fixed"))
    assert load(assistant, files["a"], files["drafter"]) is first
    ids, end = answered(assistant, "What is 23 + 45?", SAMPLING, DraftSettings(mode="fixed"))
    assert ids == expected
    assert end.statistics.proposed > 0
    assert end.statistics.reused_tokens > 0


def test_what_is_opened_otherwise_or_from_other_files_is_not_that_one(assistant, models, files, tmp_path):
    target, template = Path(shutil.copy(files["c"], tmp_path / "c.gguf")), tmp_path / "template.jinja"
    template.write_text("{% for m in messages %}{{ m['content'] }}{% endfor %}")
    own = replace(assistant.settings, templates=(f"{target.name} = {template}",))
    changes = {
        "the file": lambda: os.utime(target, (1, 1)),
        "a template": lambda: setattr(assistant, "settings", own),
        "what it says": lambda: template.write_text("{% for m in messages %}* {{ m['content'] }}\n{% endfor %}"),
        "a projector": lambda: shutil.copy(models / "mmproj-tiny-target-a2-f16.gguf", tmp_path / "mmproj-c.gguf"),
        "the settings": lambda: None,
    }
    before = load(assistant, target)
    for what, change in changes.items():
        load(assistant, files["b"])
        change()
        again = load(assistant, target, None, replace(ONE, n_ctx=512) if what == "the settings" else ONE)
        assert again is not before, what
        assert is_closed(before), what
        before = again


def test_an_adapter_that_was_changed_meanwhile_drafts(assistant, files, write_adapter):  # noqa: F811
    one, other = (write_adapter(f"{seed}.gguf", files["drafter"], seed=seed) for seed in range(2))
    first = load(assistant, files["a"], files["drafter"], adapter=one)
    load(assistant, files["b"], files["drafter"], adapter=one)
    assert load(assistant, files["a"], files["drafter"], adapter=other) is first
    assert assistant.loaded.drafter.adapter == str(other)


def test_the_same_model_is_not_kept_beside_itself(assistant, files):
    first = load(assistant, files["a"])
    load(assistant, files["a"], None, replace(ONE, n_ctx=512))
    assert is_closed(first)
    assert assistant.loaded.replaceable == needs(assistant.target.info, replace(ONE, n_ctx=512))


def test_where_memory_is_short_it_goes_and_what_it_had_read_is_kept(assistant, files, monkeypatch):
    first = load(assistant, files["a"])
    _, before = answered(assistant, "What is 23 + 45?", SAMPLING, DraftSettings())
    monkeypatch.setattr(kept_targets, "available_bytes", lambda: 1 << 24)
    load(assistant, files["b"])
    assert is_closed(first)
    load(assistant, files["a"])
    _, again = answered(assistant, "What is 23 + 45?", SAMPLING, DraftSettings())
    assert again.statistics.reused_tokens >= before.statistics.prompt_tokens - 1


def test_it_counts_as_memory_that_can_be_had(assistant, files):
    assert assistant.loaded.replaceable == 0
    held = 0
    for name in "ab":
        load(assistant, files[name])
        held += needs(assistant.target.info, ONE)
        assert assistant.loaded.replaceable == held
    assert Room.now(ONE, held).free > held


def test_it_makes_room_for_a_drafter(assistant, files, monkeypatch):
    first = load(assistant, files["a"])
    load(assistant, files["b"])
    monkeypatch.setattr(estimate, "available_bytes", lambda: 1 << 34 if is_closed(first) else 1 << 20)
    load(assistant, files["b"], files["drafter"])
    assert assistant.loaded.drafter is not None


@pytest.mark.parametrize("how", ["unload", "close", "forget"])
def test_all_is_given_back(assistant, files, how):
    first, second, left = load(assistant, files["a"]), load(assistant, files["b"]), 0
    if how == "forget":  # what was said to it goes, too
        left = needs(assistant.target.info, ONE)
        assistant.loaded.let_go()
        assistant.loaded.go_on(None)
    else:
        getattr(assistant, how)()
        assert is_closed(second)
    assert is_closed(first)
    assert assistant.loaded.replaceable == left


def test_both_leave_memory_when_nobody_asks(files, tmp_path):
    with closing(Session(find_data_home(tmp_path / "home"), "default", str(files["a"]), None)) as session:
        session.apply(**{"model.threads": 1, "unload_after": 1})
        session.prepare()
        first = session.assistant.target
        session.choose(files["b"])
        second = session.assistant.target
        session.used -= 61
        assert unload_if_idle(session)
        assert is_closed(first)
        assert is_closed(second)
