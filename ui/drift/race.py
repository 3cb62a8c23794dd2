"""The race on the Drift lab page: what is raced, its buttons, and the look at it. The session does the work."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from html import escape
from typing import Any

import gradio as gr

from omnidraft.app import models_list
from omnidraft.app.models_list import is_bundled, same_file
from omnidraft.app.outlook import gain, pace_of
from omnidraft.app.race_view import FEWEST, MOST_TOKENS, Offer, RacePlan
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.errors import ModelError, SettingsError
from omnidraft.lab.prompts import TOPICS, Prompt, lesson_prompts, own_prompts, topic_prompts
from ui.common.events import Events, session_of
from ui.common.frame import SMALL
from ui.common.notes import refusal_of, tip
from ui.drift.race_view import NAMES, duration, race, teach_label
from ui.gradio_ways import PRIVATE

OWN = "own"
GO = "race"  # the page's query says so where a race shall begin at once
EVERY = 0.4  # seconds between looks
RACED, LESSON = 8, 256
DEFAULT_TOPIC = "math"
FIVE, RIGHT = 5, 0.6  # tokens of a pass; of the guesses, which is more than small drafters were seen to be


class Parts:
    """What a race came to stands above what it is asked for, so that it is in view wherever one comes from.

    values: what a start needs, in the order of `plan_of`.
    """

    def __init__(self) -> None:
        with gr.Group(elem_classes="od-group", elem_id="od-race"):
            gr.HTML(
                "<h2>See it race</h2><p>The same prompts, answered plainly and drafted, side by side, with the same "
                f"seeds. Then teach the {tip('drafter')} the topic, which ends with another race. Everything is "
                "measured now, on this machine.</p>"
            )
            with gr.Row(elem_classes="od-buttons"):
                self.go = gr.Button("Race", variant="primary", elem_id="od-race-go", **SMALL)
                self.teach = gr.Button("Teach it", elem_id="od-race-teach", visible=False, **SMALL)
                self.longer = gr.Button("Teach it longer", elem_id="od-race-longer", visible=False, **SMALL)
                self.stop = gr.Button("Stop", variant="stop", elem_id="od-race-stop", visible=False, **SMALL)
            self.said = gr.HTML(elem_id="od-race-said")
            self.shown = gr.HTML(race(None), elem_id="od-race-shown")  # in its place before the page is asked
            with gr.Row(elem_classes="od-form"):
                self.model = gr.Dropdown([], label="Model", filterable=False, elem_id="od-race-model")
                self.topic = gr.Dropdown(
                    [(words, name) for name, words in TOPICS.items()] + [("my own prompts", OWN)],
                    value=DEFAULT_TOPIC, label="Topic", filterable=False, elem_id="od-race-topic",
                )  # fmt: skip
            self.price = gr.HTML(elem_id="od-race-price")
            self.own = gr.Textbox(
                label="My prompts, one a line", lines=4, visible=False, elem_id="od-race-own", elem_classes="od-field",
                info=f"The first {RACED} are raced, the others taught with; {FEWEST} or more make a lesson.",
            )  # fmt: skip
            with gr.Row(elem_classes="od-form"):
                self.copies = gr.Checkbox(
                    label="Copy from earlier answers too", elem_id="od-race-copies",
                    info="As in the chat. Without it all that is gained is the drafter's own.",
                )  # fmt: skip
                self.kept = gr.Checkbox(
                    label="Keep what is taught", elem_id="od-race-kept",
                    info="Teach this profile's drafter instead of one that is forgotten with the race.",
                )  # fmt: skip
        self.tick = gr.Timer(EVERY, active=False)
        self.values = [self.model, self.topic, self.own, self.copies, self.kept]
        self.outputs = [self.shown, self.go, self.teach, self.longer, self.stop, self.tick]


def plan_of(session: Session, model: str | None, topic: str, own: str, copies: bool, kept: bool) -> RacePlan:
    """What the form describes; SettingsError or ModelError says what is missing."""
    if not model:
        raise ModelError("There is no model to race; get one on the Models page.")
    found = listed(session, model)
    if found is None:
        raise ModelError("This model is not there any more; reload the page.")
    drafter = session.drafter_path(found.path)
    if drafter is None:
        raise ModelError("There is no drafter; choose one on the Models page.")
    settings = replace(session.settings, model=session.model_settings)
    if topic == OWN:
        raced, lesson = parted(own_prompts(own or ""))
    else:
        raced, lesson = topic_prompts(topic, RACED), lesson_prompts(topic, LESSON)
    return RacePlan(found.path, drafter, settings, raced, lesson, kept=kept, copies=copies)


def listed(session: Session, model: str) -> ModelInfo | None:
    """The model at this path, if it is one that can be chosen."""
    return next((one for one in models_list.targets(session.assistant) if str(one.path) == model), None)


def price(session: Session, model: str | None) -> str:
    """How long a race takes with a model, as far as its speed is known; and that guesses cannot pay, where checking
    several tokens costs too much here."""
    found = listed(session, model) if model else None
    if found is None:
        return ""
    pace, job = pace_of(session, found.path), session.races.latest
    if pace is None and job is not None and job.times.pairs and same_file(job.plan.target, found.path):
        return ""  # it was measured beside other programs, which is not kept
    if pace is None:
        return _under(
            f"{escape(found.name)} was not measured here yet: how long a race takes is said after its first prompt, "
            "how long teaching does behind it."
        )
    most = RACED * len(NAMES) * MOST_TOKENS * pace.plain_seconds
    said = (
        f"A race takes at most {duration(most)} with {escape(found.name)}; how long teaching takes is said behind it."
    )
    if gain(pace.passes, 0.0, RIGHT) > 1:
        return _under(said)
    times = pace.passes.seconds(FIVE) / pace.plain_seconds
    return _under(
        f"This machine checks five tokens of {escape(found.name)} for {times:.1f} times the price of one: guessing "
        f"cannot pay for this file, even if three of five guesses were right and cost nothing. {said}"
    )


def _under(words: str) -> str:
    return f'<p class="od-under">{words}</p>'


def parted(prompts: list[Prompt]) -> tuple[list[Prompt], list[Prompt]]:
    """(raced, lesson): the lesson is empty where too few are left for one."""
    if not prompts:
        raise SettingsError("Write the prompts to race, one a line.")
    if len(prompts) < FEWEST:
        return prompts[:RACED], []
    return prompts[:RACED], prompts[RACED : RACED + LESSON]


def look(parts: Parts, session: Session) -> dict:
    """How the race stands."""
    job, racing = session.races.latest, session.races.running
    offers = job.offers if job is not None and job.can_teach else []
    return {
        parts.shown: race(job),
        parts.go: gr.Button(visible=not racing),
        parts.teach: _teaching(offers[:1]),
        parts.longer: _teaching(offers[1:]),
        parts.stop: gr.Button(visible=racing and not (job and job.stopping)),
        parts.tick: gr.Timer(active=racing),
    }


def _teaching(offered: list[Offer]) -> gr.Button:
    return gr.Button(teach_label(offered[0]), visible=True) if offered else gr.Button(visible=False)


def start(session: Session, *values: Any) -> str:
    """Begin with what `plan_of` takes."""
    session.races.begin(plan_of(session, *values))
    return ""


def wire(sessions: Sessions, page: gr.Blocks, parts: Parts) -> None:
    events, looks = Events(sessions, parts.said), partial(look, parts)

    def arrive(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        models = models_list.targets(session.assistant)
        chosen = models_list.chosen(models, session.target_or_none())
        told = ""
        if GO in (request.query_params or {}) and session.races.latest is None:
            told = refusal_of(lambda: start(session, chosen, DEFAULT_TOPIC, "", False, False))
        models.sort(key=lambda model: is_bundled(model.path))  # those that somebody brought before the toys
        choices = gr.Dropdown(choices=models_list.choices(models), value=chosen)
        return {**looks(session), parts.said: told, parts.model: choices, parts.price: price(session, chosen)}

    def priced(session: Session, chosen: str | None) -> dict:
        return {parts.price: price(session, chosen)}

    def advance(session: Session, chosen: str | None) -> dict:
        return {**looks(session), **({} if session.races.running else priced(session, chosen))}

    def teach(which: int, session: Session) -> str:
        offers = job.offers if (job := session.races.latest) is not None else []
        session.races.teach(offers[which].prompts if which < len(offers) else 0)
        return ""

    def stop(session: Session) -> dict:
        if (job := session.races.latest) is not None:
            job.stop()
        return looks(session)

    page.load(arrive, None, [parts.said, *parts.outputs, parts.model, parts.price], **PRIVATE)
    events.on(parts.model.input, priced, [parts.price], [parts.model])
    events.on(parts.go.click, start, parts.outputs, parts.values, after=looks)
    for which, button in enumerate((parts.teach, parts.longer)):
        events.on(button.click, partial(teach, which), parts.outputs, after=looks)
    events.on(parts.stop.click, stop, parts.outputs, queue=False)
    events.on(parts.tick.tick, advance, [*parts.outputs, parts.price], [parts.model])
    parts.topic.input(lambda topic: gr.Textbox(visible=topic == OWN), parts.topic, parts.own, **PRIVATE)
