"""What an empty chat says: which model answers, what it is good for, and better ones that this machine can run."""

from __future__ import annotations

from html import escape
from pathlib import Path

from omnidraft.app import models_list
from omnidraft.app.catalog import DEFAULT, KNOWN, Known
from omnidraft.app.outlook import known_speeds
from omnidraft.app.session import Session
from omnidraft.app.speeds import by_size
from omnidraft.backends.llama.sizes import available_bytes
from omnidraft.format import size

# What a small model answers well, each tried at default sampling; what the toys can: sums, functions, this program.
EXAMPLES = [
    "Give me three tips for a good night's sleep.",
    "Write a Python function that adds up all numbers in a list.",
    "What is gravity?",
]
TOY_EXAMPLES = [
    "What is 23 + 45?",
    "Write a function named add_all to add up all numbers in a list.",
    "What is OmniDraft?",
]
WHAT = "A chat assistant on your own machine that gets faster as you talk to it"
SAME, MAY_DIFFER = "and says exactly the same.", "and says the same, but where two words are nearly equally likely."
WAYS = (
    '<p class="od-ways"><a class="od-go" href="/drift-lab?race=go">See it race</a>'
    '<a class="od-go" href="/models">{}</a></p>'
)


def examples(target: Path | None) -> list[dict[str, str]]:
    """Questions that the model which would answer answers well."""
    return [{"text": text} for text in (TOY_EXAMPLES if _is_toy(target) else EXAMPLES)]


def empty_state(session: Session, target: Path | None) -> str:
    """HTML for the empty chat; `target` is the model that would answer."""
    what = f"{WHAT}, {MAY_DIFFER if session.model_settings.exact == 'fast' else SAME}"
    if target is None:
        return _empty(
            "No model yet",
            "There is no model file in the models folder. Put a GGUF file there, or get one on the "
            '<a href="/models">Models page</a>.',
        )
    if _is_toy(target):
        return _empty(
            "Ask something",
            f"{what} The model at hand is a toy that knows sums, small Python functions and OmniDraft; "
            "one of these talks about anything:",
            _better(session, [DEFAULT]) + WAYS.format("All models"),
        )
    if target.name == DEFAULT.file:
        return _empty(
            "Ask something",
            f"{what} SmolLM2-135M answers: a very small model that talks about anything, in English, and is often "
            "wrong. Better ones, each a button away:",
            _better(session, []) + WAYS.format("All models"),
        )
    return _empty("Ask something", f"{what} {escape(target.stem)} answers.", WAYS.format("Other models"))


def arriving() -> str:
    """Until the page has been filled."""
    return _empty("Ask something", "")


def _is_toy(target: Path | None) -> bool:
    return target is not None and models_list.is_bundled(target) and target.name != DEFAULT.file


def _empty(title: str, text: str, more: str = "") -> str:
    return f'<div class="od-empty"><h2>{title}</h2><p>{text}</p>{more}</div>'


def offered(free: int | None, first: list[Known]) -> list[Known]:
    """Of the models known by name that fit into what is free the lightest and the two best, behind `first`."""
    fitting = [known for known in KNOWN if known is not DEFAULT and known.fits(free)]
    light = fitting[:1] or [known for known in KNOWN if known is not DEFAULT][:1]
    return list(dict.fromkeys([*first, *light, *fitting[-2:]]))[:3]


def _better(session: Session, first: list[Known]) -> str:
    """A row for each model offered. A click goes to the Models page, where its download begins."""
    models, free = models_list.scan(session.assistant), available_bytes()
    speeds = known_speeds(session, models)
    rows = []
    for known in offered(free, first):
        name, _, about = known.about.partition(": ")
        speed = by_size(models, speeds, known.bytes)
        fits = "fits this machine" if known.fits(free) else "too large for the memory that is free now"
        facts = [size(known.bytes), fits, *([f"about {speed.plain:,.0f} tokens/s"] if speed is not None else [])]
        rows.append(
            f"<li><b>{escape(name)}</b><span>{escape(about)}</span><small>{' · '.join(facts)}</small>"
            f'<a href="/models#get={escape(known.name)}">Get it<span class="od-hidden">: {escape(name)}</span></a></li>'
        )
    return f'<ul class="od-better">{"".join(rows)}</ul>'
