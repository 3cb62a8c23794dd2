"""The race on the Drift lab page: what is raced, its buttons, and the look at it. The session does the work."""

from __future__ import annotations

import time
from dataclasses import replace
from html import escape
from typing import Any

import gradio as gr

from omnidraft.app import models_list
from omnidraft.app.outlook import cost_of, gain
from omnidraft.app.race_job import UNDER_WAY, LaneView, RaceJob, RacePlan, RaceView
from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.errors import ModelError, SettingsError
from omnidraft.format import count, percent, rate
from omnidraft.lab.prompts import TOPICS, Prompt, lesson_prompts, own_prompts, topic_prompts
from omnidraft.lab.race import Score
from ui.common.frame import PRIVATE, SMALL, session_of
from ui.common.notes import refusal_of, tip

# A race as HTML: two lanes side by side, the proof of equal text, and two bars, before and after the lesson. Pure
# functions of `omnidraft.app.race_job`; everything that comes from outside is escaped.


PHASES = {
    "loading": "Loading the models",
    "racing": "Racing",
    "teaching": "Teaching",
    "training": "Training",
    "raced": "Raced",
    "taught": "Raced, taught, raced again",
    "stopped": "Stopped",
    "failed": "Ended",
}
NAMES = {"plain": "Plain", "drafted": "Drafted"}
ABOUT = {"plain": "one token per pass", "drafted": "the drafter guesses, the same model checks"}
NOTABLE = 0.10  # of plain speed between two races
_SHOWN = 1500  # characters of an answer


def race(job: RaceJob | None) -> str:
    """The whole race, or what it would show."""
    if job is None:
        return '<p class="od-none">No race yet.</p>'
    view = job.view
    parts = [_standing(job), _verdict(view), _bars(view), _proof(view), _lanes(view), _lesson(job)]
    return f'<section class="od-race" data-phase="{view.phase}">{"".join(parts)}</section>'


def _standing(job: RaceJob) -> str:
    view = job.view
    words = ", ".join(filter(None, (view.doing, _left(view)))) if view.phase in ("teaching", "training") else view.doing
    if view.phase == "racing":
        words = f"Prompt {view.number + 1} of {len(job.plan.raced)}: {view.prompt[:120]}"
    phase = PHASES[view.phase]
    if job.stopping:
        phase, words = "Stopping", ""
    state = "training" if view.phase in UNDER_WAY else "idle"
    line = f'<p class="od-state" data-state="{state}" role="status"><b>{phase}</b> <span>{escape(words)}</span></p>'
    if view.error:
        line += f'<p class="od-note od-bad" role="alert">{escape(view.error)}</p>'
    if view.phase not in UNDER_WAY:
        return line
    bar = f'<i style="width:{view.share:.1%}"></i>'
    return f'{line}<div class="od-bar" role="img" aria-label="{view.share:.0%}">{bar}</div>'


def _left(view: RaceView) -> str:
    """How long what is under way may still take, once that can be told."""
    if view.share < 0.05:
        return ""
    spent = time.monotonic() - view.since
    return f"about {duration(spent * (1 - view.share) / view.share)} left"


def duration(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"


def _verdict(view: RaceView) -> str:
    """The sum of all prompts in a sentence, above everything else."""
    found = view.after or view.before
    if found is None or view.phase in UNDER_WAY:
        return ""
    if found.interval is None:
        return '<p class="od-under">These are too few answers to say how much faster drafting is.</p>'
    low, high = found.interval
    words = (
        f"<b>{found.speedup:.2f}×</b> ({low:.2f} to {high:.2f}) as fast as {tip('plain decoding')}, over "
        f"{count(found.answers)} answers"
    )
    if view.after is not None and view.before is not None:
        words += f"; {view.before.speedup:.2f}× before the lesson, when {_right(view.before)}"
    if found.speedup < 1.0:
        words += f". Here guessing costs more than it saves, for {_right(found)}; in a chat it is left out then"
    return f'<p class="od-verdict">{words}.</p>{_changed(view)}'


def _right(found: Score) -> str:
    """How good the guesses were, which is why a race came out as it did."""
    return (
        "nothing was guessed" if found.acceptance is None else f"{percent(found.acceptance)} of the guesses were right"
    )


def _changed(view: RaceView) -> str:
    """Whether the machine itself was another one in the second race."""
    if view.before is None or view.after is None:
        return ""
    change = view.after.plain_speed / view.before.plain_speed - 1
    if abs(change) <= NOTABLE:
        return ""
    word = "faster" if change > 0 else "slower"
    return (
        f'<p class="od-under">Plain decoding itself was {percent(abs(change))} {word} in the second race: other '
        "programs were at work. Each bar compares answers of the same minutes; race again when it is quiet.</p>"
    )


def _lanes(view: RaceView) -> str:
    if view.phase in ("teaching", "training") or not any(lane.text or lane.writing for lane in view.lanes.values()):
        return ""
    return f'<div class="od-lanes">{"".join(_lane(name, lane) for name, lane in view.lanes.items())}</div>'


def _lane(name: str, lane: LaneView) -> str:
    """An answer as it grows, its speed above it."""
    s = lane.live.statistics
    facts = [f"{count(s.tokens)} tokens"]
    if name == "drafted" and s.drafter_acceptance is not None:
        facts.append(f"{percent(s.drafter_acceptance)} of the drafts accepted")
    if s.tokens_per_pass:
        facts.append(f"{s.tokens_per_pass:.2f} tokens per pass")
    text = lane.text[-_SHOWN:] or ("…" if lane.writing else "")
    busy = ' aria-busy="true"' if lane.writing else ""
    return (
        f'<article class="od-lane" data-lane="{name}"{busy}><h3>{NAMES[name]} <small>{ABOUT[name]}</small></h3>'
        f'<div class="od-figure"><span class="od-mid">{rate(s.tokens_per_second)}</span>'
        f'<span class="od-unit">tokens/s</span></div>'
        f'<div class="od-lane-text">{escape(text)}</div><p class="od-under">{", ".join(facts)}.</p></article>'
    )


def _proof(view: RaceView) -> str:
    """Whether the texts are equal, compared token by token."""
    found = view.after or view.before
    if found is None or view.phase == "racing":
        return ""
    words = f"<b>Same text</b> in {count(found.same)} of {count(found.answers)} answers, compared token by token."
    equal = found.same == found.answers
    return f'<p class="od-proof" data-equal="{str(equal).lower()}">{words}</p>'


def _bars(view: RaceView) -> str:
    """Of races that are over: what grows would show the last prompts, not the sum."""
    rows = [("Untaught", view.before), ("Taught", view.after)]
    known = [(name, found) for name, found in rows if found is not None and found.interval is not None]
    if view.phase == "racing" and view.pairs:
        known = known[: 1 if view.after is not None else 0]
    if not known:
        return ""
    top = max(1.5, *(found.speedup for _, found in known))
    bars = "".join(_bar(name, found, top) for name, found in known)
    return f'<div class="od-bars">{bars}</div><p class="od-under">Drafted over plain; the line is plain decoding.</p>'


def _bar(name: str, found: Score, top: float) -> str:
    """The speedup as a bar; the line in it is plain decoding."""
    accepted = (
        f"{percent(found.acceptance)} of the drafts accepted" if found.acceptance is not None else "nothing drafted"
    )
    copied = f", {count(found.copied)} tokens copied" if found.copied else ""
    words = f"{rate(found.plain_speed)} → {rate(found.drafted_speed)} tokens/s, {accepted}{copied}"
    low, high = found.interval or (found.speedup, found.speedup)
    label = f"{name}: {found.speedup:.2f} ({low:.2f} to {high:.2f}) times plain decoding, {words}"
    return (
        f'<div class="od-gainbar" data-bar="{"after" if name == "Taught" else "before"}" role="img" '
        f'aria-label="{escape(label)}"><span>{name}</span>'
        f'<div class="od-track"><i style="width:{min(found.speedup / top, 1):.1%}"></i>'
        f'<u style="left:{1 / top:.1%}"></u></div><b>{found.speedup:.2f}×</b><small>{escape(words)}</small></div>'
    )


def _lesson(job: RaceJob) -> str:
    """What teaching will do, or did."""
    plan = job.plan
    if job.running:
        return ""
    if job.can_teach:
        where = "this profile's drafter, for good" if plan.kept else "a drafter that is forgotten with this race"
        return (
            f'<p class="od-under">Teaching answers {count(len(plan.lesson))} other prompts and trains {where}. '
            "What it learns guesses words and never chooses them.</p>"
        )
    if not plan.lesson and not job.view.error:
        return '<p class="od-under">There were too few prompts to teach with: give at least 12.</p>'
    return ""


OWN = "own"
GO = "race"  # the page's query says so where a race shall begin at once
EVERY = 0.4  # seconds between looks
RACED, LESSON = 8, 256
FEWEST = 12  # prompts of one's own that are worth a lesson
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
                f"seeds. Then teach the {tip('drafter')} the topic, and race again. Everything is measured now, on "
                "this machine.</p>"
            )
            with gr.Row(elem_classes="od-buttons"):
                self.go = gr.Button("Race", variant="primary", elem_id="od-race-go", **SMALL)
                self.teach = gr.Button("Teach it and race again", elem_id="od-race-teach", visible=False, **SMALL)
                self.stop = gr.Button("Stop", variant="stop", elem_id="od-race-stop", visible=False, **SMALL)
            self.said = gr.HTML(elem_id="od-race-said")
            self.shown = gr.HTML(race(None), elem_id="od-race-shown")  # in its place before the page is asked
            with gr.Row(elem_classes="od-form od-form-2"):
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
            with gr.Row(elem_classes="od-form od-form-2"):
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
        self.outputs = [self.said, self.shown, self.go, self.teach, self.stop, self.tick]


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
    """What checking several tokens costs with a model here, where guesses cannot pay; "" where they may, or nobody
    measured it."""
    found = listed(session, model) if model else None
    cost = cost_of(session, found.path) if found is not None else None
    if found is None or cost is None or gain(cost, 0.0, RIGHT) > 1:
        return ""
    times = cost.alone(FIVE) / cost.alone(1)
    return (
        f'<p class="od-under">This machine checks five tokens of {escape(found.name)} for {times:.1f} times the price '
        "of one: guessing cannot pay for this file, even if three of five guesses were right and cost nothing.</p>"
    )


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
        parts.shown: race(job),
        parts.go: gr.Button(visible=not racing),
        parts.teach: gr.Button(visible=job is not None and job.can_teach),
        parts.stop: gr.Button(visible=racing and not (job and job.stopping)),
        parts.tick: gr.Timer(active=racing),
    }


def start(session: Session, *values: Any) -> str:
    """Begin with what `plan_of` takes; what there is to say about it."""
    return refusal_of(lambda: session.start_race(plan_of(session, *values)))


def wire(sessions: Sessions, page: gr.Blocks, parts: Parts) -> None:
    def arrive(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        models = models_list.targets(session.assistant)
        chosen = models_list.chosen(models, session.target_or_none())
        told = ""
        if GO in (request.query_params or {}) and session.race is None:
            told = start(session, chosen, DEFAULT_TOPIC, "", False, False)
        choices = gr.Dropdown(choices=models_list.choices(models_list.real_first(models)), value=chosen)
        return {**look(parts, session, told), parts.model: choices, parts.price: price(session, chosen)}

    def model(chosen: str | None, request: gr.Request) -> str:
        return price(session_of(sessions, request), chosen)

    def go(model: str | None, topic: str, own: str, copies: bool, kept: bool, request: gr.Request) -> dict:
        session = session_of(sessions, request)
        return look(parts, session, start(session, model, topic, own, copies, kept))

    def advance(request: gr.Request) -> dict:
        return look(parts, session_of(sessions, request))

    def teach(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        return look(parts, session, refusal_of(session.teach_race))

    def stop(request: gr.Request) -> dict:
        session = session_of(sessions, request)
        if session.race is not None:
            session.race.stop()
        return look(parts, session)

    def choose(topic: str) -> gr.Textbox:
        return gr.Textbox(visible=topic == OWN)

    page.load(arrive, None, [*parts.outputs, parts.model, parts.price], **PRIVATE)
    parts.model.input(model, [parts.model], [parts.price], **PRIVATE)
    parts.go.click(go, parts.values, parts.outputs, **PRIVATE)
    parts.teach.click(teach, None, parts.outputs, **PRIVATE)
    parts.stop.click(stop, None, parts.outputs, queue=False, **PRIVATE)
    parts.tick.tick(advance, None, parts.outputs, **PRIVATE)
    parts.topic.input(choose, parts.topic, parts.own, **PRIVATE)
