"""The form of the drift lab: schedule, prompts, models, cache and learning, and the plan they make."""

from __future__ import annotations

from html import escape
from pathlib import Path

import gradio as gr

from omnidraft.app import models_list
from omnidraft.app.catalog import choose_target
from omnidraft.app.outlook import cost_of, gain, is_toy
from omnidraft.app.session import Session
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.llama.sizes import available_bytes
from omnidraft.errors import SettingsError
from omnidraft.format import size
from omnidraft.lab.prompts import TASKS
from omnidraft.lab.schedule import BUNDLED, MIXED, Schedule, Segment
from omnidraft.lab.store import Options
from ui.common.frame import SMALL

OWN = "my own"
NAMES = {
    "step": "Quick, with toys: another task, math, then code",
    "a-a2-a": "Quick, with toys: another model of the family, a, a2, a",
    "a-b-a": "Quick, with toys: a model of another family, a, b, a",
}
_FEW = 20  # prompts a part where a real model answers them
CACHES = [("filled from the vocabularies", "seeded"), ("empty at first, the paper's", "empty"), ("off", "off")]
EXAMPLE = "tiny-target-a, dialogue, 20\ntiny-target-b, qa, 20"


class Form:
    """The form's components, made where the layout stands."""

    def __init__(self) -> None:
        names = [(text, name) for name, text in NAMES.items()] + [("My own schedule", OWN)]
        with gr.Row(elem_classes="od-form od-form-2"):
            self.schedule = gr.Dropdown(
                names, value="step", label="Schedule", filterable=False, elem_id="od-schedule"
            )  # fmt: skip
            self.cache = gr.Dropdown(
                CACHES, value="seeded", label="N-gram cache", filterable=False, elem_id="od-drift-cache"
            )  # fmt: skip
            self.count = gr.Textbox("60", label="Prompts per part", max_lines=1, elem_id="od-count")
            self.length = gr.Textbox("4", label="Draft length, or adaptive", max_lines=1, elem_id="od-drift-length")
        self._own()
        with gr.Row(elem_classes="od-form od-form-2"):
            self.learning = gr.Checkbox(
                value=True,
                label="Let the drafter learn as it goes",
                elem_id="od-drift-learning",
                info="It trains after every few answers, on adapters of this run alone. Takes longer.",
            )
            self.plain = gr.Checkbox(
                label="Measure the speedup as well",
                elem_id="od-plain",
                info="Every prompt is answered without the drafter too: twice the time.",
            )
        # What a start needs, in the order of `plan_of` and `options_of`.
        self.values = [
            self.schedule, self.count, self.parts, self.cache, self.length, self.learning, self.plain,
        ]  # fmt: skip

    def _own(self) -> None:
        with gr.Column(visible=False, elem_id="od-own-form") as self.own:
            with gr.Row(elem_classes="od-form od-form-3"):
                self.model = gr.Dropdown([], label="Model", filterable=False, elem_id="od-own-model")
                self.source = gr.Dropdown([], label="Prompts", filterable=False, elem_id="od-own-source")
                self.number = gr.Textbox("20", label="How many", max_lines=1, elem_id="od-own-number")
            with gr.Row(elem_classes="od-buttons"):
                self.add = gr.Button("Add this part", elem_id="od-own-add", **SMALL)
                self.upload = gr.UploadButton(
                    "Add a prompt file", file_types=[".jsonl", ".txt"], elem_id="od-own-upload", **SMALL
                )
            self.parts = gr.Textbox(
                label="Parts, in this order: model, prompts, how many",
                lines=3,
                placeholder=EXAMPLE,
                elem_id="od-own",
                info="One a line. A prompt file is JSONL with messages, or a text with one prompt a line.",
                elem_classes="od-field",
            )


def choices(session: Session, form: Form) -> dict:
    """The schedules, models and prompt sources to choose from: real models first."""
    models = [m.name for m in models_list.real_first(models_list.targets(session.assistant))]
    chosen = models[0] if models else None
    known = schedules(session)
    names = [(text, name) for name, (text, _) in known.items()] + [("My own schedule", OWN)]
    return {
        form.model: gr.Dropdown(choices=list(dict.fromkeys(models)), value=chosen),
        form.source: sources(session),
        form.schedule: gr.Dropdown(choices=names, value=names[0][1]),
        form.count: str(_FEW) if len(known) > len(NAMES) else gr.skip(),
    }


def schedules(session: Session) -> dict[str, tuple[str, Schedule]]:
    """What is offered, by name, with what it changes in words: first a switch between two models that somebody brought
    and another task for one, the model in use, and the smallest other one; by the names of their files, as those of two
    formats are alike."""
    toys = {name: (text, BUNDLED[name]) for name, text in NAMES.items()}
    models = [m for m in models_list.targets(session.assistant) if m.chat_template and not is_toy(m)]
    using = session.target_or_none()
    models.sort(key=lambda m: (using is None or m.path.resolve() != using.resolve(), m.file_size))
    if not models:
        return toys
    first = models[0]
    one = first.path.stem
    tasks = Schedule("real-task", (Segment(one, "math", _FEW), Segment(one, "code", _FEW)))
    known = {tasks.name: (f"Another task, math, then code: {one}", tasks), **toys}
    others = [m.path.stem for m in models if m.vocabulary_size != first.vocabulary_size]
    others += [m.path.stem for m in models if m.name != first.name]
    if not others:
        return known
    switch = Schedule("real", tuple(Segment(name, MIXED, _FEW) for name in (one, others[0], one)))
    return {switch.name: (f"Another model: {one}, {others[0]}, {one}", switch), **known}


def sources(session: Session, chosen: str = TASKS[0]) -> gr.Dropdown:
    """The bundled tasks and the user's own prompt files."""
    return gr.Dropdown(choices=[*TASKS, MIXED, *(path.name for path in session.drift.prompt_files)], value=chosen)


def plan_of(session: Session, name: str, count: str, parts: str, *, any_file: bool) -> Schedule:
    """The schedule a form describes; SettingsError says what is wrong. any_file: any path may be named."""
    if name != OWN:
        known = schedules(session).get(name)
        if known is None:
            raise SettingsError("These models are not there any more; reload the page.")
        return known[1].changed(count=whole(count, "Prompts per part"))
    segments = []
    for number, line in enumerate((line for line in (parts or "").splitlines() if line.strip()), 1):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 3:
            raise SettingsError(f"Part {number} needs a model, prompts and a number, separated by commas.")
        source = _source(session, fields[1], any_file)
        segments.append(Segment(fields[0], source, whole(fields[2], f"The number of part {number}")))
    if not segments:
        raise SettingsError("Add at least one part to your schedule.")
    return Schedule("my own", tuple(segments))


def _source(session: Session, name: str, any_file: bool) -> str:
    if name in (*TASKS, MIXED):
        return name
    added = {path.name: path for path in session.drift.prompt_files}
    if name in added:
        return str(added[name])
    if not any_file:
        raise SettingsError(f"There are no prompts named {name[:80]}; add the file first.")
    return str(Path(name).expanduser())


def target_of(session: Session, name: str, *, any_file: bool) -> Path:
    """The model that a part names. any_file: any path will do; else only what the Models page lists."""
    if any_file:
        return choose_target(name, session.assistant.home, session.settings)
    found = models_list.find(models_list.targets(session.assistant), name)
    if found is None:
        raise SettingsError(f"There is no model named {name[:80]}.")
    return found[1].path


def options_of(session: Session, cache: str, length: str, learning: bool, plain: bool) -> Options:
    adaptive = (length or "").strip().lower() == "adaptive"
    return Options(
        cache=cache,
        draft_length=None if adaptive else whole(length, "The draft length"),
        learning=learning,
        plain=plain,
        threads=session.settings.model.threads,
    )


def with_part(parts: str, model: str | None, source: str | None, number: str) -> str:
    """The parts and one more behind them."""
    line = f"{model}, {source}, {whole(number, 'How many')}"
    return f"{parts.rstrip()}\n{line}" if (parts or "").strip() else line


def whole(text: str, name: str) -> int:
    if not (text or "").strip().isdecimal():
        raise SettingsError(f"{name} must be a whole number, not '{(text or '')[:40]}'.")
    return int(text)


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
