"""What an empty chat says: what this is, what to expect of the model at hand, where to get a better one."""

from __future__ import annotations

from html import escape
from pathlib import Path

from omnidraft.app import models_list

# What the bundled models can answer: a sum, a small function, what this program is.
EXAMPLES = [
    "What is 23 + 45?",
    "Write a function named add_all to add up all numbers in a list.",
    "What is OmniDraft?",
]
WHAT = "A chat assistant on your own machine that gets faster as you talk to it, and says exactly the same."
WAYS = (
    '<p class="od-ways"><a class="od-go" href="/drift-lab?race=go">See it race</a>'
    '<a class="od-go" href="/models">{}</a></p>'
)


def empty_state(target: Path | None) -> str:
    """HTML for the empty chat; `target` is the model that would answer."""
    if target is None:
        return _frame(
            "No model yet",
            "There is no model file in the models folder. Put a GGUF file there, or get one on the "
            '<a href="/models">Models page</a>.',
        )
    if models_list.is_bundled(target):
        return _frame(
            "Ask something",
            f"{WHAT} The model at hand is a toy that knows sums, small Python functions and OmniDraft.",
            WAYS.format("Get a real model"),
        )
    return _frame("Ask something", f"{WHAT} {escape(target.stem)} answers.", WAYS.format("Other models"))


def arriving() -> str:
    """Until the page has been filled."""
    return _frame("Ask something", "")


def _frame(title: str, text: str, more: str = "") -> str:
    return f'<div class="od-empty"><h2>{title}</h2><p>{text}</p>{more}</div>'
