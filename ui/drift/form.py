"""The form of the drift lab, and the plan it makes."""

from __future__ import annotations

import gradio as gr

from omnidraft.app import models_list
from omnidraft.app.models_list import choose_target, is_toy
from omnidraft.app.session import Session
from omnidraft.errors import ModelError, SettingsError
from omnidraft.lab.drift import BUNDLED, MIXED, Plan, Schedule, Segment
from omnidraft.storage.files import real

TOYS = {
    "step": "Quick, with toys: another task, math, then code",
    "a-a2-a": "Quick, with toys: another model of the family, a, a2, a",
    "a-b-a": "Quick, with toys: a model of another family, a, b, a",
}
_FEW, _MANY = 20, 60  # prompts a part where a real model, or a toy, answers them
_OTHERS = 8  # models that may take another one's place


class Form:
    """The form's components, made where the layout stands. values: what a start needs, in the order of `plan_of`."""

    def __init__(self) -> None:
        names = [(text, name) for name, text in TOYS.items()]
        with gr.Row(elem_classes="od-form"):
            self.schedule = gr.Dropdown(
                names, value="step", label="What changes", filterable=False, elem_id="od-schedule"
            )
            self.count = gr.Textbox(str(_MANY), label="Prompts per part", max_lines=1, elem_id="od-count")
        self.learning = gr.Checkbox(
            value=True,
            label="Let the drafter learn as it goes",
            elem_id="od-drift-learning",
            info="It trains after every few answers, on adapters of this run alone. Takes longer.",
        )
        self.values = [self.schedule, self.count, self.learning]


def choices(session: Session, form: Form) -> dict:
    """The schedules to choose from: those of real models first."""
    known = schedules(session)
    names = [(text, name) for name, (text, _) in known.items()]
    return {
        form.schedule: gr.Dropdown(choices=names, value=names[0][1]),
        form.count: str(_FEW if len(known) > len(TOYS) else _MANY),
    }


def schedules(session: Session) -> dict[str, tuple[str, Schedule]]:
    """What is offered, by name, with what it changes in words: a switch from the model in use to each other one that
    somebody brought, the smallest first, another task for it, and the toys; by the names of their files, as those of
    two formats are alike."""
    toys = {name: (text, BUNDLED[name]) for name, text in TOYS.items()}
    models = [m for m in models_list.targets(session.assistant) if m.chat_template and not is_toy(m.path)]
    using = session.target_or_none()
    models.sort(key=lambda m: (using is None or real(m.path) != real(using), m.file_size))
    if not models:
        return toys
    first, *rest = models
    one = first.path.stem
    others = [m for m in rest if m.name != first.name or m.vocabulary_size != first.vocabulary_size]
    others.sort(key=lambda m: m.vocabulary_size == first.vocabulary_size)  # of another family first
    known = {}
    for other in dict.fromkeys(m.path.stem for m in others[:_OTHERS]):
        switch = Schedule(f"{one} to {other} and back", tuple(Segment(name, MIXED, _FEW) for name in (one, other, one)))
        known[switch.name] = (f"Another model: {one}, {other}, {one}", switch)
    tasks = Schedule("another task", (Segment(one, "math", _FEW), Segment(one, "code", _FEW)))
    return {**known, tasks.name: (f"Another task, math, then code: {one}", tasks), **toys}


def plan_of(session: Session, name: str, count: str, learning: bool) -> Plan:
    """What the form describes; SettingsError or ModelError says what is wrong."""
    known = schedules(session).get(name)
    if known is None:
        raise SettingsError("These models are not there any more; reload the page.")
    if not (count or "").strip().isdecimal():
        raise SettingsError(f"Prompts per part must be a whole number, not '{(count or '')[:40]}'.")
    schedule = known[1].changed(count=int(count))
    targets = {one: choose_target(one, session.assistant.home, session.settings) for one in schedule.targets}
    drafter = session.drafter_path(next(iter(targets.values())))
    if drafter is None:
        raise ModelError("There is no drafter; choose one on the Models page.")
    paths = {one: str(path) for one, path in targets.items()}
    return Plan(schedule, paths, str(drafter), learning, threads=session.settings.model.threads)
