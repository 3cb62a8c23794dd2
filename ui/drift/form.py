"""The form of the drift lab, and the plan it makes; and what the race says of a model's price."""

from __future__ import annotations

from html import escape

import gradio as gr

from omnidraft.app import models_list
from omnidraft.app.catalog import choose_target
from omnidraft.app.outlook import cost_of, gain, is_toy
from omnidraft.app.session import Session
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.llama.sizes import available_bytes
from omnidraft.errors import ModelError, SettingsError
from omnidraft.format import size
from omnidraft.lab.drift import Plan
from omnidraft.lab.schedule import BUNDLED, MIXED, Schedule, Segment

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
        with gr.Row(elem_classes="od-form od-form-2"):
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
    models = [m for m in models_list.targets(session.assistant) if m.chat_template and not is_toy(m)]
    using = session.target_or_none()
    models.sort(key=lambda m: (using is None or m.path.resolve() != using.resolve(), m.file_size))
    if not models:
        return toys
    first, *rest = models
    one = first.path.stem
    others = [m for m in rest if m.name != first.name or m.vocabulary_size != first.vocabulary_size]
    others.sort(key=lambda m: m.vocabulary_size == first.vocabulary_size)  # of another family first
    known = {}
    for other in dict.fromkeys(m.path.stem for m in others[:_OTHERS]):
        switch = Schedule(f"to {other}", tuple(Segment(name, MIXED, _FEW) for name in (one, other, one)))
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


# What checking several tokens costs with a model on this machine, where guesses cannot pay, and its float form, which
# checks them for less.


FIVE = 5
_RIGHT = 0.6  # of the guesses, which is more than small drafters were seen to be on other families' models
_FLOATS = {"F32": 4, "F16": 2}  # bytes a number
_ROOM = 1.3  # times its weights, for context and buffers


def listed(session: Session, model: str | None) -> ModelInfo | None:
    """The model at this path, if it is one that can be chosen."""
    return next((one for one in models_list.targets(session.assistant) if str(one.path) == model), None)


def price(session: Session, model: str | None) -> tuple[str, gr.Checkbox]:
    """(a sentence, the offer) for the model at this path; nothing where guesses may pay, or nobody measured it."""
    found = listed(session, model)
    cost = cost_of(session, found.path) if found is not None else None
    if found is None or cost is None or gain(cost, 0.0, _RIGHT) > 1:
        return "", gr.Checkbox(visible=False, value=False)
    times = cost.alone(FIVE) / cost.alone(1)
    words = (
        f"This machine checks five tokens of {escape(found.name)} for {times:.1f} times the price of one: guessing "
        "cannot pay for this file, even if three of five guesses were right and cost nothing."
    )
    form = float_form(found)
    label = f"Race its {form} form" if form else ""
    about = f"The same numbers unpacked, {size(_FLOATS[form] * found.parameters)}, made for the race." if form else ""
    offer = gr.Checkbox(visible=bool(form), value=False, label=label, info=about)
    return f'<p class="od-under">{words}</p>', offer


def float_form(model: ModelInfo) -> str:
    """The float form that fits into memory and checks several tokens for least; empty for what is no packed file."""
    if model.path.is_dir() or len(model.parts) > 1 or model.quantization in (*_FLOATS, "BF16"):
        return ""
    free = available_bytes()
    return next((form for form, each in _FLOATS.items() if free is None or _ROOM * each * model.parameters < free), "")
