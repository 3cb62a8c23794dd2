"""What an empty chat says: what this is, what to expect of the model at hand, where to get a better one."""

from __future__ import annotations

from html import escape
from pathlib import Path

from omnidraft.app import models_list

EXAMPLES = [
    "Tom has 12 apples and buys 7 more. How many does he have?",
    "Tell me about your day.",
    "Write a Python function that adds two numbers.",
    "What is the capital of France?",
]


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
            "The bundled models are tiny: they show how drafting works on any machine, offline, and write fluent "
            'nonsense. For answers worth reading, get a real model on the <a href="/models">Models page</a>.',
        )
    return _frame("Ask something", f"{escape(target.stem)} answers, on this machine only.")


def arriving() -> str:
    """Until the page has been filled."""
    return _frame("Ask something", "")


def _frame(title: str, text: str) -> str:
    return f'<div class="od-empty"><h2>{title}</h2><p>{text}</p></div>'
