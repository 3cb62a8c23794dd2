"""What the buttons and fields of the pages beside the chat do, asked of their events as Gradio calls them."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import gradio as gr
import pytest

from omnidraft.app.sessions import Sessions
from omnidraft.storage.paths import find_data_home
from tests.app.conftest import serve, slow_load  # noqa: F401 - fixtures
from tests.backends.seeing import vision_model
from tests.real import QWEN, SMOL, real_model
from tests.ui.fake_assistant import by, clicked
from tests.ui.stub_hub import REPO
from tests.until import until
from ui import profiles, settings
from ui.drift.page import TOYS, schedules
from ui.models import page as models_page
from ui.models import view


class Page:
    """A page of "ada". `said`: what it told last."""

    def __init__(self, page: ModuleType, sessions: Sessions) -> None:
        with gr.Blocks() as self._blocks:
            page.build(sessions, self._blocks)
        self._sessions, self.said = sessions, ""

    def steps(self, place: str, *values: Any, **click: Any) -> Iterator[dict[str, Any]]:
        """The first event of what has this id, with the values of its inputs or what a click brings: what is shown, one
        update after the other, by ids."""
        named = {number: part.elem_id for number, part in self._blocks.blocks.items() if hasattr(part, "elem_id")}
        event = next(one for one in self._blocks.fns.values() if place in (named.get(at) for at, _ in one.targets))
        made = event.fn(by("ada"), *([clicked(**click)] if click else values))
        for update in [made] if isinstance(made, dict) else made:
            shown = {part.elem_id: value for part, value in update.items()}
            self.said = re.sub("<[^>]+>", "", shown.get("od-said", self.said))
            yield shown

    def does(self, place: str, *values: Any, **click: Any) -> dict[str, Any]:
        """All of it together."""
        return {part: value for shown in self.steps(place, *values, **click) for part, value in shown.items()}


@pytest.fixture
def sessions(tmp_path, models):
    made = Sessions(find_data_home(tmp_path / "home"), "ada", str(models / "tiny-target-a-f16.gguf"))
    made.get("ada").apply(**{"model.threads": 1, "model.n_ctx": 256})
    yield made
    made.close()


def row(shown: str, name: str) -> str:
    """Of the list of models."""
    return re.search(rf"<li><h3>{re.escape(name)}<.*?</li>", shown, re.DOTALL)[0]


def test_a_profile_goes_only_when_its_name_is_typed(sessions):
    page = Page(profiles, sessions)
    page.does("od-profile-create", "Brief")
    folder = sessions.home.profiles / "Brief"
    assert page.said == "Brief was created."
    page.does("od-profiles", kind="delete", name="Brief")
    page.does("od-profile-remove", "Brief", "brie")
    assert "nothing was deleted" in page.said
    assert folder.is_dir()
    assert "Brief" not in page.does("od-profile-remove", "Brief", "Brief")["od-profiles"]
    assert not folder.exists()


def test_a_change_takes_effect_at_once_or_says_what_it_waits_for(sessions):
    page, session = Page(settings, sessions), sessions.get("ada")
    session.prepare()
    page.does("od-set-cache-policy", "lfu-aging")
    assert "kept and applied" in page.said
    shown = page.does("od-set-cache-capacity", "50")
    assert "<b>0 of 50</b><small>n-grams learned" in shown["od-cache"]
    shown = page.does("od-set-cache-unit", "MB")
    assert shown["od-set-cache-capacity"] == "1"
    assert " of 1 MB</b><small>size" in shown["od-cache"]
    for name, value in [("cache-enabled", False), ("cache-enabled", True), ("model-n_ctx", "2,048")]:
        page.does(f"od-set-{name}", value)
        assert "load the model again" in page.said
    page.does("od-reload")
    assert page.said.startswith("Loaded again.")
    kept = f"{session.settings.sampling.temperature:g}"
    assert page.does("od-set-sampling-temperature", "99")["od-set-sampling-temperature"] == kept
    assert page.said.startswith("Temperature is 99")
    assert "must be a number from 0 to 10" in page.said
    page.does("od-cache-yes")
    assert "cleared" in page.said


def test_a_model_is_listed_by_its_path_used_and_let_go(sessions, models, tmp_path):
    page, file = Page(models_page, sessions), tmp_path / "elsewhere" / "mine.gguf"
    file.parent.mkdir()
    shutil.copy(models / "tiny-target-b-f16.gguf", file)
    page.does("od-by-path-add", str(file.with_name("no.gguf")))
    assert page.said == f"There is no folder or file {file.with_name('no.gguf')}."
    assert ">mine<" in page.does("od-by-path-add", str(file))["od-models"]
    assert "listed, and read where it lies" in page.said
    shown = page.does("od-models", kind="use", file=str(file))
    assert page.said.startswith("mine answers from here on")
    assert '<span class="od-tag">loaded' in row(shown["od-models"], "mine")
    assert "at 512 tokens" in page.does("od-set-model-n_ctx", "512")["od-models"]
    page.does("od-models", kind="unload", file=str(file))
    assert "Unloaded" in page.said
    page.does("od-worker-add", "a b")
    assert "address" in page.said
    assert "LM Studio: it keeps no models" in page.does("od-programs", ["lmstudio"])["od-where"]


def test_what_a_model_sees_through_is_chosen_in_its_row(sessions):
    model, projector = vision_model(sessions.home.models, "llava")
    page, asked = Page(models_page, sessions), {"kind": "projector", "file": str(model)}
    for chosen, sees in (("none", "text only"), (str(projector), "sees pictures"), ("", "sees pictures")):
        shown = page.does("od-models", **asked, value=chosen)["od-models"]
        assert f"<span>{sees}</span>" in row(shown, "tiny-llava")
    page.does("od-models", **asked, value=str(model))
    assert page.said == "This projector is no longer there."


def test_a_row_says_how_far_its_model_is_and_calls_it_off(sessions, slow_load, models):  # noqa: F811
    page, asked = Page(models_page, sessions), {"file": str(models / "tiny-target-b-f16.gguf")}
    slow_load("open_target")
    for shown in page.steps("od-models", kind="use", **asked):
        if "od-doing" in shown.get("od-models", ""):
            page.does("od-models", kind="cancel", **asked)
    assert "was not loaded: that was called off" in page.said
    assert 'data-kind="use"' in row(shown["od-models"], "tiny-target-b")


def test_a_model_is_found_by_name_downloaded_stopped_and_gone_on_with(sessions, serve, models):  # noqa: F811
    whole = (models / "tiny-target-a2-f16.gguf").read_bytes()
    hub = serve({"again-f16.gguf": whole})
    hub.listed = [{"id": REPO, "downloads": 1234, "gguf": {"total": 10_000_000}},
                  {"id": "some/colossus", "downloads": 9, "gguf": {"total": 9_000_000_000_000}}]  # fmt: skip
    page = Page(models_page, sessions)
    assert hub.headers == [], "nothing is asked before a button is pressed"
    (found,) = page.does("od-hub-search", "tiny")["od-hub-found"].choices
    assert page.said == "1 found. 1 more would not fit into memory."
    page.does("od-look", "nobody/nothing")
    assert "There is no public repository named nobody/nothing" in page.said
    offered = page.does("od-look", found[1])
    ((name, file),) = offered["od-files"].choices
    assert "again-f16.gguf" in name
    hub.delay = 0.1
    page.does("od-fetch", file, offered[None])
    download, row = sessions.downloads.all[-1], f"{REPO}/{file}"
    until(lambda: download.done > 0)
    assert 'data-state="cancelled"' in page.does("od-downloads", kind="cancel", file=row)["od-downloads"]
    part = sessions.home.models / "again-f16.gguf.part"
    assert 0 < part.stat().st_size < len(whole)
    hub.delay = 0.0
    page.does("od-downloads", kind="resume", file=row)
    sessions.downloads.all[-1].join(60)
    assert hub.ranges[-1] > 0
    made = sessions.home.models / "again-f16.gguf"
    assert hashlib.sha256(made.read_bytes()).digest() == hashlib.sha256(whole).digest()


SMALL, LARGE = "SmolLM2-135M-Instruct", "Qwen2.5-Coder-0.5B-Instruct"


@pytest.fixture
def with_real(tmp_path):
    """A profile with two real models and a base model, of which none was ever loaded."""
    folder = real_model(QWEN).parent
    if real_model(SMOL).parent != folder:
        pytest.skip(f"{SMOL} does not lie beside {QWEN}")
    made = Sessions(find_data_home(tmp_path / "home"), "ada", str(real_model(QWEN)))
    made.get("ada").apply(model_folders=(str(folder),))
    yield made
    made.close()


def test_drafters_at_hand_are_offered_and_rows_say_what_is_known_of_models_never_loaded(with_real):
    listed, _, drafters = view.models(with_real.get("ada")).partition("<h2>Drafters for")
    offered = row(drafters, SMALL)
    assert "times plain speed" in offered
    assert "takes " in offered
    for nonsense in (LARGE, "tiny-target-a"):  # the target itself, and a toy
        assert f"<h3>{nonsense}<" not in drafters
    assert "Draft with it" not in listed
    for name in (SMALL, LARGE, "gemma-3-270m"):
        assert "fits" in row(listed, name)
        assert "tokens/s" not in row(listed, name)
    assert "base model" in row(listed, "gemma-3-270m")
    assert re.search(r"<dd>\d{3}M", row(listed, LARGE)), "parameters"
    page = Page(models_page, with_real)
    shown = page.does("od-models", kind="draft", file=str(real_model(SMOL)))["od-models"]
    assert "SmolLM2-135M-Instruct-Q4_1 drafts from now on" in page.said
    assert '<span class="od-tag">drafter' in row(shown.partition("<h2>Drafters for")[2], SMALL)


def test_two_real_models_come_before_the_toys_in_the_drift_lab(with_real):
    names = [text for text, _ in schedules(with_real.get("ada")).values()]
    assert names[0].startswith(f"Another model: {LARGE}")
    assert ["Quick, with toys" in name for name in names].index(True) == len(names) - len(TOYS)
    assert any(SMALL in name for name in names)
    assert "Another task" in names[-len(TOYS) - 1]
