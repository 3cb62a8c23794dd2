"""The Learning page: what the drafter learned, when, from how much; its versions; pause, go back, forget.

Learning itself is the learner's; the page looks at it, presses its buttons, and shows it live while it is open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.learning.update import Update
from ui.common import fields, notes
from ui.common.frame import EACH, PRIVATE, page_column, session_of
from ui.common.notes import note, note_of, tip
from ui.learning import view

# The part of the Learning page that takes things back: one conversation, or everything, with what came of them.


WORDS = "forget everything"
MOST = 500  # conversations offered


class Forgetting:
    """The part's components, made where the layout stands."""

    def __init__(self) -> None:
        with gr.Group(elem_classes="od-group", elem_id="od-forget"):
            gr.HTML(
                "<h2>Forget</h2><p>A conversation leaves the list, the replay, the n-gram cache and every version that "
                "was trained on it; what is left of the replay trains the drafter anew. Files are overwritten, not "
                "only removed.</p>"
            )
            self.chat = gr.Dropdown([], label="Conversation", elem_id="od-forget-chat", elem_classes="od-field")
            self.forget = gr.Button("Forget this conversation", size="sm", elem_id="od-forget-one", scale=0)
            with gr.Row(visible=False, elem_classes="od-buttons", elem_id="od-forget-sure") as self.sure:
                gr.HTML("<p>It cannot be brought back.</p>")
                self.yes = gr.Button("Forget it", size="sm", variant="stop", elem_id="od-forget-yes", scale=0)
                self.no = gr.Button("Keep it", size="sm", elem_id="od-forget-no", scale=0)
            gr.HTML(
                "<h3>Everything</h3><p>All conversations, caches, answers kept to learn from and versions of this "
                "profile. Only the settings stay.</p>"
            )
            self.typed = gr.Textbox(
                label=f"Type “{WORDS}” to be sure", max_lines=1, elem_id="od-forget-typed", elem_classes="od-field"
            )
            look = {"size": "sm", "variant": "stop", "scale": 0}
            self.everything = gr.Button("Forget everything", elem_id="od-forget-all", **look)
        self.shown = [self.chat, self.sure, self.typed]  # what `forgetting_now` fills


def forgetting_now(session: Session, parts: Forgetting) -> dict:
    """The conversations to choose from; nothing is about to be forgotten."""
    found = session.store.conversations(MOST)
    choices = [
        (f"{c.title or 'New chat'}, {time.strftime('%d %b %H:%M', time.localtime(c.updated))}", c.id) for c in found
    ]
    return {parts.chat: gr.Dropdown(choices=choices, value=None), parts.sure: gr.Row(visible=False), parts.typed: ""}


def wire_forgetting(
    sessions: Sessions, parts: Forgetting, said: gr.HTML, also: list[gr.Component], look: Callable[[Session], dict]
) -> None:
    """`also` and `look`: what the rest of the page shows afterwards."""
    outputs = [said, *parts.shown, *also]

    def ask(chat: str | None) -> dict:
        if chat is None:
            return {said: note("Choose a conversation first.", bad=True)}
        return {said: "", parts.sure: gr.Row(visible=True)}

    def done(session: Session, act: Callable[[], Any]) -> dict:
        session.deleted.forget()
        return {said: note_of(lambda: act().sentence()), **forgetting_now(session, parts), **look(session)}

    def forget(chat: str, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        return done(session, lambda: session.assistant.forget(session.store, chat))

    def forget_everything(text: str, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        if (text or "").strip().lower() != WORDS:
            return {said: note(f"Nothing was forgotten: type “{WORDS}” first.", bad=True)}
        return done(session, lambda: session.assistant.forget_everything(session.store))

    parts.forget.click(ask, [parts.chat], [said, parts.sure], **PRIVATE)
    parts.no.click(lambda: gr.Row(visible=False), None, [parts.sure], **PRIVATE)
    parts.yes.click(forget, [parts.chat], outputs, **PRIVATE)
    gr.on([parts.everything.click, parts.typed.submit], forget_everything, [parts.typed], outputs, **PRIVATE)


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
        self.forget = Forgetting()
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
        parts.train: gr.Button(visible=status.state in ("idle", "paused") and not status.held),
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
    return (session.profile, status.version, session.loaded is None, status.update and status.update.step)


def build(sessions: Sessions, page: gr.Blocks) -> None:
    """Make the page inside the current route."""
    with page_column("Learning"):
        parts = Parts()
    looked_at = parts.looked_at

    def arrive(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        values = fields.arrived(session, parts.fields)
        return {**values, **look(session, parts), parts.said: "", **forgetting_now(session, parts.forget)}

    def advance(seen: tuple | None, request: gr.Request) -> Any:
        session = session_of(sessions, request)
        return gr.skip() if _mark(session) == seen else look(session, parts)

    page.load(arrive, None, [*parts.fields.values(), *looked_at, parts.said, *parts.forget.shown], **PRIVATE)
    parts.tick.tick(advance, [parts.seen], looked_at, **PRIVATE)
    fields.keep(sessions, parts.fields, parts.said, also=looked_at, after=lambda s: look(s, parts))
    _buttons(sessions, parts)
    wire_forgetting(sessions, parts.forget, parts.said, looked_at, lambda session: look(session, parts))


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
        return f"{session.target_name()} is loaded."

    outputs = [parts.said, *parts.looked_at]
    for button, act in (
        (parts.pause, pause),
        (parts.go_on, go_on),
        (parts.train, lambda session: session.assistant.learner.train_now()),
        (parts.load, load),
    ):
        button.click(acting(act), None, outputs, **PRIVATE)

    def row_act(request: gr.Request, event: gr.EventData) -> Iterator[dict]:
        which = event._data["which"]
        version = None if which in ("warm", "bare") else which
        yield acting(lambda session: session.assistant.learner.choose(version, which == "warm"))(request)

    parts.versions.act(row_act, None, outputs, **EACH)
