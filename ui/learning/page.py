"""The Learning page: what the drafter learned, when, from how much; its versions; pause, go back, forget.

Learning itself is the scheduler's and the store's; the page looks, presses buttons, and shows it live while it is open.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import gradio as gr

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.errors import SettingsError
from omnidraft.learning.update import Update
from ui.common import fields, notes
from ui.common.events import Events
from ui.common.frame import SMALL, page_column
from ui.common.notes import note, tip
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
                self.pause = gr.Button("Pause", elem_id="od-learning-pause", **SMALL)
                self.go_on = gr.Button("Go on", elem_id="od-learning-go-on", visible=False, **SMALL)
                self.train = gr.Button("Train now", elem_id="od-learning-train", **SMALL)
                self.load = gr.Button("Load the model", elem_id="od-learning-load", visible=False, **SMALL)
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
            self.everything = gr.Button("Forget everything", variant="stop", elem_id="od-forget-all", **SMALL)
        with gr.Group(elem_classes="od-group"):
            gr.HTML("<h2>Where it lives</h2>")
            self.files = gr.HTML(elem_id="od-learning-files")
        self.seen, self.tick = gr.State(None), gr.Timer(EVERY)
        self.looked_at = [
            self.standing, self.facts, self.plots, self.learned, self.whose, self.versions, self.updates,
            self.files, self.pause, self.go_on, self.train, self.load, self.seen,
        ]  # fmt: skip


def look(parts: Parts, session: Session) -> dict:
    """Everything that changes by itself, as the components show it."""
    status, store = session.assistant.learner.status(), session.assistant.learned
    versions, updates = store.versions(), _updates(store.history(), status.update)
    drawn = [view.loss(updates[::-1]), view.acceptance(updates[::-1])]
    starts, whose = store.starts(), store.subject()
    learned = bool(updates or versions or any(start.warm for start in starts))
    row = f'<div class="od-plots">{"".join(drawn)}</div>' if any(drawn) else ""
    live = view.served(store.served_answers()) if learned else ""
    shown = row + live
    return {
        parts.standing: view.standing(status),
        parts.facts: view.facts(status, versions, whose[0] if whose else ""),
        parts.plots: shown if learned or shown else view.nothing_yet(status),
        parts.learned: gr.Group(visible=learned),
        parts.versions: view.versions_table(versions, starts),
        parts.whose: view.subject(whose),
        parts.updates: view.updates_table(updates),
        parts.files: notes.files(store.files(), session.assistant.profile.root),
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
    events, looks, looked_at = Events(sessions, parts.said), partial(look, parts), parts.looked_at

    def arrive(session: Session) -> dict:
        return {**fields.arrived(session, parts.fields), **looks(session), parts.said: "", parts.typed: ""}

    def advance(session: Session, seen: tuple | None) -> Any:
        return gr.skip() if _mark(session) == seen else looks(session)

    def forget(session: Session, text: str) -> dict:
        if (text or "").strip().lower() != WORDS:
            raise SettingsError(f"Nothing was forgotten: type “{WORDS}” first.")
        return {parts.said: note(session.forget_everything().sentence()), parts.typed: "", **looks(session)}

    events.on(page.load, arrive, [*parts.fields.values(), *looked_at, parts.typed])
    events.on(parts.tick.tick, advance, looked_at, [parts.seen])
    for button, act in ((parts.pause, _pause), (parts.go_on, _go_on), (parts.train, _train), (parts.load, _load)):
        events.on(button.click, act, looked_at, after=looks)
    events.click(parts.versions, _choose, looked_at, after=looks)
    events.on([parts.everything.click, parts.typed.submit], forget, [parts.typed, *looked_at], [parts.typed])
    fields.keep(events, parts.fields, also=looked_at, after=looks)


def _pause(session: Session) -> str:
    session.assistant.learner.hold()
    return "Paused. Answers are still kept; training waits until you let it go on."


def _go_on(session: Session) -> str:
    session.assistant.learner.hold(False)
    return "Learning goes on."


def _train(session: Session) -> str:
    return session.assistant.learner.train_now()


def _load(session: Session) -> str:
    session.prepare()
    return f"{session.assistant.target_name} is loaded."


def _choose(session: Session, data: dict) -> str:
    """A version is taken into use, or what a drafter has without one."""
    which = data["which"]
    return session.assistant.learner.choose(None if which in ("warm", "bare") else which, which == "warm")
