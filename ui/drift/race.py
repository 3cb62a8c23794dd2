"""The race on the Drift lab page: what is raced, its buttons, and the look at it. The session does the work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from omnidraft.app import models_list
from omnidraft.app.race_state import RacePlan
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.errors import ModelError, OmniDraftError, SettingsError
from omnidraft.lab.prompts import Prompt
from omnidraft.lab.topics import TOPICS, lesson_prompts, own_prompts, topic_prompts
from ui.common.layout import PRIVATE
from ui.common.notes import note
from ui.common.request import session_of
from ui.common.words import tip
from ui.drift import race_html

OWN = "own"
GO = "race"  # the page's query says so where a race shall begin at once
EVERY = 0.4  # seconds between looks
RACED, LESSON = 8, 256
FEWEST = 12  # prompts of one's own that are worth a lesson
DEFAULT_TOPIC = "math"


@dataclass(frozen=True, slots=True)
class Parts:
    said: gr.HTML
    model: gr.Dropdown
    topic: gr.Dropdown
    own: gr.Textbox
    copies: gr.Checkbox
    kept: gr.Checkbox
    go: gr.Button
    teach: gr.Button
    stop: gr.Button
    shown: gr.HTML
    tick: gr.Timer

    @property
    def values(self) -> list[gr.Component]:
        """What a start needs, in the order of `plan_of`."""
        return [self.model, self.topic, self.own, self.copies, self.kept]

    @property
    def outputs(self) -> list[gr.Component]:
        return [self.said, self.shown, self.go, self.teach, self.stop, self.tick]


def layout() -> Parts:
    """What a race came to stands above what it is asked for, so that it is in view wherever one comes from."""
    with gr.Group(elem_classes="od-group", elem_id="od-race"):
        gr.HTML(
            "<h2>See it race</h2><p>The same prompts, answered plainly and drafted, side by side, with the same seeds. "
            f"Then teach the {tip('drafter')} the topic, and race again. Everything is measured now, on this "
            "machine.</p>"
        )
        with gr.Row(elem_classes="od-buttons"):
            go = gr.Button("Race", variant="primary", size="sm", elem_id="od-race-go", scale=0)
            teach = gr.Button("Teach it and race again", size="sm", elem_id="od-race-teach", scale=0, visible=False)
            stop = gr.Button("Stop", size="sm", variant="stop", elem_id="od-race-stop", scale=0, visible=False)
        said = gr.HTML(elem_id="od-race-said")
        shown = gr.HTML(race_html.race(None), elem_id="od-race-shown")  # in its place before the page is asked
        with gr.Row(elem_classes="od-form od-form-2"):
            model = gr.Dropdown([], label="Model", filterable=False, elem_id="od-race-model")
            topic = gr.Dropdown(
                [(words, name) for name, words in TOPICS.items()] + [("my own prompts", OWN)],
                value=DEFAULT_TOPIC, label="Topic", filterable=False, elem_id="od-race-topic",
            )  # fmt: skip
        own = gr.Textbox(
            label="My prompts, one a line", lines=4, visible=False, elem_id="od-race-own", elem_classes="od-field",
            info=f"The first {RACED} are raced, the others taught with; {FEWEST} or more make a lesson.",
        )  # fmt: skip
        with gr.Row(elem_classes="od-form od-form-2"):
            copies = gr.Checkbox(
                label="Copy from earlier answers too", elem_id="od-race-copies",
                info="As in the chat. Without it all that is gained is the drafter's own.",
            )  # fmt: skip
            kept = gr.Checkbox(
                label="Keep what is taught", elem_id="od-race-kept",
                info="Teach this profile's drafter instead of one that is forgotten with the race.",
            )  # fmt: skip
    return Parts(said, model, topic, own, copies, kept, go, teach, stop, shown, gr.Timer(EVERY, active=False))


def plan_of(session: Session, model: str | None, topic: str, own: str, copies: bool, kept: bool) -> RacePlan:
    """What the form describes; SettingsError or ModelError says what is missing."""
    if not model:
        raise ModelError("There is no model to race; get one on the Models page.")
    found = [m.path for m in models_list.targets(session.assistant) if str(m.path) == model]
    if not found:
        raise ModelError("This model is not there any more; reload the page.")
    drafter = session.drafter_path(found[0])
    if drafter is None:
        raise ModelError("There is no drafter; choose one on the Models page.")
    settings = replace(session.settings, model=session.model_settings)
    if topic == OWN:
        raced, lesson = parted(own_prompts(own or ""))
    else:
        raced, lesson = topic_prompts(topic, RACED), lesson_prompts(topic, LESSON)
    return RacePlan(found[0], drafter, settings, raced, lesson, kept=kept, copies=copies, topic=topic)


def parted(prompts: list[Prompt]) -> tuple[list[Prompt], list[Prompt]]:
    """(raced, lesson): the lesson is empty where too few are left for one."""
    if not prompts:
        raise SettingsError("Write the prompts to race, one a line.")
    if len(prompts) < FEWEST:
        return prompts[:RACED], []
    return prompts[:RACED], prompts[RACED : RACED + LESSON]


def look(parts: Parts, session: Session, told: str | None = None) -> dict:
    """How the race stands. told: the line below the buttons, None to leave it."""
    job, racing = session.race, session.racing
    said = {} if told is None else {parts.said: told}
    return {
        **said,
        parts.shown: race_html.race(job),
        parts.go: gr.Button(visible=not racing),
        parts.teach: gr.Button(visible=job is not None and job.can_teach),
        parts.stop: gr.Button(visible=racing),
        parts.tick: gr.Timer(active=racing),
    }


def start(session: Session, *values: Any) -> str:
    """Begin with what `plan_of` takes; what there is to say about it."""
    try:
        session.start_race(plan_of(session, *values))
        return ""
    except OmniDraftError as error:
        return note(str(error), bad=True)


def wire(sessions: Sessions, page: gr.Blocks, parts: Parts) -> None:
    def arrive(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        models = models_list.targets(session.assistant)
        chosen = models_list.chosen(models, session.target_or_none())
        told = ""
        if GO in (request.query_params or {}) and session.race is None:
            told = start(session, chosen, DEFAULT_TOPIC, "", False, False)
        choices = gr.Dropdown(choices=models_list.choices(models), value=chosen)
        return {**look(parts, session, told), parts.model: choices}

    def go(model: str | None, topic: str, own: str, copies: bool, kept: bool, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        return look(parts, session, start(session, model, topic, own, copies, kept))

    def advance(request: gr.Request) -> dict:
        return look(parts, session_of(sessions, request))

    def teach(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        try:
            session.teach_race()
            return look(parts, session, "")
        except OmniDraftError as error:
            return look(parts, session, note(str(error), bad=True))

    def stop(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        if session.race is not None:
            session.race.stop()
        return look(parts, session)

    def choose(topic: str) -> gr.Textbox:
        return gr.Textbox(visible=topic == OWN)

    page.load(arrive, None, [*parts.outputs, parts.model], **PRIVATE)
    parts.go.click(go, parts.values, parts.outputs, **PRIVATE)
    parts.teach.click(teach, None, parts.outputs, **PRIVATE)
    parts.stop.click(stop, None, parts.outputs, queue=False, **PRIVATE)
    parts.tick.tick(advance, None, parts.outputs, **PRIVATE)
    parts.topic.input(choose, parts.topic, parts.own, **PRIVATE)
