"""What checking several tokens costs with a model on this machine, where guesses cannot pay, and its float form, which
checks them for less."""

from __future__ import annotations

from html import escape
from pathlib import Path

import gradio as gr

from omnidraft.app import models_list
from omnidraft.app.drafters import gain
from omnidraft.app.outlook import cost_of
from omnidraft.app.session import Session
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.llama.sizes import available_bytes
from omnidraft.format import size

FIVE = 5
_RIGHT = 0.6  # of the guesses, which is more than small drafters were seen to be on other families' models
_FLOATS = {"F32": 4, "F16": 2}  # bytes a number
_ROOM = 1.3  # times its weights, for context and buffers


def layout() -> tuple[gr.HTML, gr.Checkbox]:
    return gr.HTML(elem_id="od-race-price"), gr.Checkbox(visible=False, elem_id="od-race-float", label="")


def price(session: Session, model: str | None) -> tuple[str, gr.Checkbox]:
    """(a sentence, the offer) for the model at this path; nothing where guesses may pay, or nobody measured it."""
    found = next((one for one in models_list.targets(session.assistant) if str(one.path) == model), None)
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


def form_of(session: Session, path: Path, wanted: bool) -> str:
    """The form to race of a listed model; empty: as it is."""
    found = next((one for one in models_list.targets(session.assistant) if one.path == path), None)
    return float_form(found) if wanted and found is not None else ""
