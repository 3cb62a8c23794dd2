"""How many functions a message passes before the target computes, and an answer before it is an adapter.

Counted on the stacks of one real answer and one real update, by the names that code objects have: generators that only
hand on what others yield count, since they are read on the way too.
"""

import json
import queue
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import gradio as gr
import llama_cpp
import pytest

import ui.chat.view
from omnidraft.app.sessions import Sessions
from omnidraft.learning.material.replay import ReplayStore
from omnidraft.processes.children import LineChild
from omnidraft.storage.paths import find_data_home
from tests.learning.living import ask, open_assistant
from tests.test_imports import ROOT
from tests.ui.fake_assistant import by
from tests.until import until
from ui.chat.events import Answering
from ui.chat.following import Followed
from ui.chat.page import Page

MESSAGE, ANSWER = 12, 14  # the most functions of the two ways
Function = tuple[str, str]  # its file below the root, its name there


def of_project(frames: Iterable[tuple[str, str]]) -> list[Function]:
    """Those of (file, name) that are the project's, innermost first."""
    places = [(Path(file), name) for file, name in frames if Path(file).is_relative_to(ROOT)]
    return [
        (place.relative_to(ROOT).as_posix(), name)
        for place, name in places
        if place.relative_to(ROOT).parts[0] in ("omnidraft", "ui")
    ]


def passed() -> list[Function]:
    """The project's functions that this thread is in."""
    frame, found = sys._getframe(1), []
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_code.co_qualname))
        frame = frame.f_back
    return of_project(found)


def noting(function: Callable, stacks: list[list[Function]], within: str = "") -> Callable:
    """`function`, which notes the stack of its first call from `within` a function of this name."""

    def noted(*given, **more):
        if not stacks and any(within in name for _, name in passed()):
            stacks.append(passed())
        return function(*given, **more)

    return noted


def told(way: set[Function]) -> str:
    return f"{len(way)} functions in {len({file for file, _ in way})} files:\n" + "\n".join(map(str, sorted(way)))


@pytest.fixture
def sessions(tmp_path, models):
    made = Sessions(find_data_home(tmp_path / "home"), "ada", str(models / "tiny-target-a-f16.gguf"))
    made.get().prepare()
    yield made
    made.close()


def test_a_message_passes_few_functions_before_the_target_computes(sessions, monkeypatch):
    with gr.Blocks():
        view = Page().view
    session, asked, started, computed, start = sessions.get(), [], [], [], threading.Thread.start
    beginnings = ui.chat.view._BEGINNINGS
    monkeypatch.setattr(beginnings, "submit", noting(beginnings.submit, asked))

    def noted(thread: threading.Thread) -> None:
        if thread.name == "answer":
            started.append(passed())
            monkeypatch.setattr(llama_cpp, "llama_decode", noting(llama_cpp.llama_decode, computed))
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    chat, followed = session.shown.chat().id, Followed()
    for _ in Answering(sessions, view).ask("Hello", chat, None, [], followed, by("ada")):
        pass
    session.job.join(60)
    assert session.job.text
    way = {*asked[0], *started[0], *computed[0]}
    assert len(way) <= MESSAGE, told(way)


NOTES_THE_PUBLISHER = """
import json, os, sys

def hook(event, given):
    if event == "os.rename" and os.path.basename(str(given[1])).startswith("v0"):
        frame, found = sys._getframe(1), []
        while frame is not None:
            found.append((frame.f_code.co_filename, frame.f_code.co_qualname))
            frame = frame.f_back
        with open({file!r}, "w") as file:
            json.dump(found, file)

sys.addaudithook(hook)
"""


@pytest.mark.slow
def test_an_answer_passes_few_functions_before_it_is_an_adapter(tmp_path, models, monkeypatch):
    """Where it is handed on, where it is stored, where the process is told to train, and where that publishes."""
    file, hooks = tmp_path / "published.json", tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(NOTES_THE_PUBLISHER.format(file=str(file)))
    monkeypatch.setenv("PYTHONPATH", str(hooks))
    handed, stored, told_to = [], [], []
    monkeypatch.setattr(queue.Queue, "put", noting(queue.Queue.put, handed, "take"))
    monkeypatch.setattr(ReplayStore, "add", noting(ReplayStore.add, stored))
    monkeypatch.setattr(LineChild, "say", noting(LineChild.say, told_to, "TrainingProcess"))
    assistant = open_assistant(find_data_home(tmp_path / "home"), models, interval=12)
    try:
        assistant.learner.hold()
        ask(assistant, range(12))
        assistant.learner.hold(False)
        until(file.exists, "an adapter")
    finally:
        assistant.close()
    published = of_project(json.loads(file.read_text()))
    assert all((handed, stored, told_to, published))
    way = {
        *handed[0],
        *stored[0],
        ("omnidraft/learning/material/replay.py", "ReplayStore.add"),
        *told_to[0],
        *published,
    }
    assert len(way) <= ANSWER, told(way)
