"""The Learning page: what the drafter learned, when, from how much; its versions; pause, go back, forget.

Learning itself is the learner's; the page looks at it, presses its buttons, and shows it live while it is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.learning.update import Update
from ui.common import fields, notes
from ui.common.frame import page_column, session_of
from ui.common.notes import note, note_of, tip
from ui.gradio_ways import EACH, PRIVATE, data_of
from ui.learning import view

WORDS = "forget everything"
EVERY = 1.5  # seconds between looks at what has changed
FIELDS = ("learning.enabled", "learning.cpu_percent", "learning.interval")
# A version is taken into use at the second click: the first asks, in the same place.
SCRIPT = """
element.addEventListener('click', (event) => {
  const button = event.target.closest('button[data-kind]');
  if (!button) return;
  if (button.dataset.kind === 'keep') {
    const asked = button.parentElement.querySelector('[data-kind=sure]');
    asked.dataset.kind = 'use';
    asked.textContent = 'Use';
    asked.focus();
    button.remove();
  } else if (button.dataset.kind === 'use') {
    button.dataset.kind = 'sure';
    button.textContent = 'Yes, use it';
    const keep = document.createElement('button');
    keep.type = 'button';
    keep.className = 'od-use';
    keep.dataset.kind = 'keep';
    keep.textContent = 'No';
    button.after(keep);
    keep.focus();
  } else if (button.dataset.kind === 'sure') trigger('act', {kind: 'use', which: button.dataset.which});
});
"""


class Parts:
    """The page's components, in the order they stand. fields: by the name of their setting."""

    def __init__(self) -> None:
        gr.HTML(
            f"<h1>Learning</h1><p>While nobody waits, the {tip('drafter')} trains on the answers it saw, so that more "
            "of what it proposes is what your model says. Nothing of it leaves this machine.</p>",
            elem_classes="od-lead",
        )
        self.said = gr.HTML(elem_id="od-said")
        with gr.Group(elem_classes="od-group", elem_id="od-learning-now"):
            self.standing = gr.HTML(elem_id="od-learning-state")
            with gr.Row(elem_classes="od-buttons"):
                self.pause = gr.Button("Pause", size="sm", elem_id="od-learning-pause", scale=0)
                self.go_on = gr.Button("Go on", size="sm", elem_id="od-learning-go-on", scale=0, visible=False)
                self.train = gr.Button("Train now", size="sm", elem_id="od-learning-train", scale=0)
                self.load = gr.Button("Load the model", size="sm", elem_id="od-learning-load", scale=0, visible=False)
            with gr.Row(elem_classes="od-learning-fields"):
                self.fields = {name: fields.make(name) for name in FIELDS}
            gr.HTML('<p class="od-more">More of learning is on the <a href="/settings">Settings page</a>.</p>')
        self.facts = gr.HTML(elem_id="od-learning-facts")
        self.plots = gr.HTML(elem_id="od-learning-plots")
        with gr.Group(elem_classes="od-group", visible=False) as self.learned:
            gr.HTML("<h2>Versions</h2>")
            self.whose = gr.HTML(elem_id="od-learning-whose")
            self.versions = gr.HTML(elem_id="od-learning-versions", js_on_load=SCRIPT)
            gr.HTML("<h2>Updates</h2><p>Every time it trained, and what came of it. Point at a row for the reason.</p>")
            self.updates = gr.HTML(elem_id="od-learning-updates")
        with gr.Group(elem_classes="od-group", elem_id="od-forget"):
            gr.HTML(
                "<h2>Forget everything</h2><p>All conversations, caches, answers kept to learn from and versions of "
                "this profile; files are overwritten, not only removed. Only the settings stay. A single conversation "
                "is forgotten where it is deleted: in the list beside the chat.</p>"
            )
            self.typed = gr.Textbox(
                label=f"Type “{WORDS}” to be sure", max_lines=1, elem_id="od-forget-typed", elem_classes="od-field"
            )
            look = {"size": "sm", "variant": "stop", "scale": 0}
            self.everything = gr.Button("Forget everything", elem_id="od-forget-all", **look)
        with gr.Group(elem_classes="od-group"):
            gr.HTML("<h2>Where it lives</h2>")
            self.files = gr.HTML(elem_id="od-learning-files")
        self.seen, self.tick = gr.State(None), gr.Timer(EVERY)
        self.looked_at = [
            self.standing, self.facts, self.plots, self.learned, self.whose, self.versions, self.updates,
            self.files, self.pause, self.go_on, self.train, self.load, self.seen,
        ]  # fmt: skip


def look(session: Session, parts: Parts) -> dict:
    """Everything that changes by itself, as the components show it."""
    learner = session.assistant.learner
    status, versions = learner.status(), learner.learned.versions()
    updates = _updates(learner.learned.history(), status.update)
    drawn = [view.loss(updates[::-1]), view.acceptance(updates[::-1])]
    starts = learner.learned.starts()
    learned = bool(updates or versions or any(start.warm for start in starts))
    whose = learner.learned.subject()
    row = f'<div class="od-plots">{"".join(drawn)}</div>' if any(drawn) else ""
    live = view.served(learner.learned.served_answers()) if learned else ""
    shown = row + live
    return {
        parts.standing: view.standing(status),
        parts.facts: view.facts(status, versions, whose[0] if whose else ""),
        parts.plots: shown if learned or shown else view.nothing_yet(status),
        parts.learned: gr.Group(visible=learned),
        parts.versions: view.versions_table(versions, starts),
        parts.whose: view.subject(whose),
        parts.updates: view.updates_table(updates),
        parts.files: notes.files(learner.learned.files(), session.assistant.profile.root),
        parts.pause: gr.Button(visible=not status.held and status.state not in ("off", "unavailable")),
        parts.go_on: gr.Button(visible=status.held),
        parts.train: gr.Button(visible=status.state in ("idle", "due", "paused") and not status.held),
        parts.load: gr.Button(visible=session.loaded is None),
        parts.seen: _mark(session),
    }


def _updates(history: list[Update], running: Update | None) -> list[Update]:
    """Newest first; the running one as it is now, not as it was when it was last written down."""
    if running is None:
        return history
    return [running, *(update for update in history if update.number != running.number)]


def _mark(session: Session) -> tuple:
    """Grows with everything the page shows by itself."""
    status = session.assistant.learner.status()
    step = status.update and status.update.step
    return (session.profile, status.version, session.loaded is None, step, status.reason)


def build(sessions: Sessions, page: gr.Blocks) -> None:
    """Make the page inside the current route."""
    with page_column("Learning"):
        parts = Parts()
    looked_at = parts.looked_at

    def arrive(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        values = fields.arrived(session, parts.fields)
        return {**values, **look(session, parts), parts.said: "", parts.typed: ""}

    def advance(seen: tuple | None, request: gr.Request) -> Any:
        session = session_of(sessions, request)
        return gr.skip() if _mark(session) == seen else look(session, parts)

    page.load(arrive, None, [*parts.fields.values(), *looked_at, parts.said, parts.typed], **PRIVATE)
    parts.tick.tick(advance, [parts.seen], looked_at, **PRIVATE)
    fields.keep(sessions, parts.fields, parts.said, also=looked_at, after=lambda s: look(s, parts))
    _buttons(sessions, parts)
    _forgetting(sessions, parts)


def _buttons(sessions: Sessions, parts: Parts) -> None:
    def acting(act: Callable[[Session], str]) -> Callable[[gr.Request], dict]:
        def run(request: gr.Request) -> dict:
            session = session_of(sessions, request)
            return {parts.said: note_of(lambda: act(session)), **look(session, parts)}

        return run

    def pause(session: Session) -> str:
        session.assistant.learner.hold()
        return "Paused. Answers are still kept; training waits until you let it go on."

    def go_on(session: Session) -> str:
        session.assistant.learner.hold(False)
        return "Learning goes on."

    def load(session: Session) -> str:
        session.prepare()
        return f"{session.assistant.target_name} is loaded."

    outputs = [parts.said, *parts.looked_at]
    for button, act in (
        (parts.pause, pause),
        (parts.go_on, go_on),
        (parts.train, lambda session: session.assistant.learner.train_now()),
        (parts.load, load),
    ):
        button.click(acting(act), None, outputs, **PRIVATE)

    def row_act(request: gr.Request, event: gr.EventData) -> Iterator[dict]:
        which = data_of(event)["which"]
        version = None if which in ("warm", "bare") else which
        yield acting(lambda session: session.assistant.learner.choose(version, which == "warm"))(request)

    parts.versions.act(row_act, None, outputs, **EACH)


def _forgetting(sessions: Sessions, parts: Parts) -> None:
    def forget(text: str, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        if (text or "").strip().lower() != WORDS:
            return {parts.said: note(f"Nothing was forgotten: type “{WORDS}” first.", bad=True)}
        session.deleted.forget()
        session.shown.unsent.clear()
        said = note_of(lambda: session.assistant.forget_everything(session.store).sentence())
        return {parts.said: said, parts.typed: "", **look(session, parts)}

    outputs = [parts.said, parts.typed, *parts.looked_at]
    gr.on([parts.everything.click, parts.typed.submit], forget, [parts.typed], outputs, **PRIVATE)
