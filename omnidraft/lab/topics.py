"""What a user of the bundled models asks for a while: questions of one topic that these models can answer.

A topic is a bundled task, its prompts in an order drawn once so that the first ones are like the last ones, or a file
of prompts of the user's own, in its order. Bundled ones come with many more of the same kind to be taught with.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from omnidraft.errors import SettingsError
from omnidraft.lab.prompts import BUNDLED, Prompt, load_prompts

TOPICS = {
    "math": "sums and word problems",
    "code": "small Python functions",
    "qa": "OmniDraft and everyday facts",
    "dialogue": "services and small talk",
}


def topic_prompts(name_or_file: str | Path, most: int | None = None) -> list[Prompt]:
    """The questions of a topic, no text twice; a file may hold fewer than `most`."""
    prompts = list({_text(prompt): prompt for prompt in load_prompts(name_or_file)}.values())
    if str(name_or_file) in TOPICS:
        random.Random(5).shuffle(prompts)
    return prompts[:most]


def lesson_prompts(topic: str, most: int | None = None) -> list[Prompt]:
    """Prompts to teach a bundled topic with, none of them in `topic_prompts`."""
    return load_prompts(BUNDLED / "lessons" / f"{topic}.jsonl")[:most]


def own_prompts(text: str) -> list[Prompt]:
    """One prompt a line, as somebody wrote them into a field; no text twice."""
    lines = dict.fromkeys(" ".join(line.split()) for line in text.splitlines() if line.strip())
    return [
        Prompt(f"own-{number}", "my own", None, ({"role": "user", "content": line},))
        for number, line in enumerate(lines, 1)
    ]


def parted(prompts: Sequence[Prompt], first: int, second: int) -> tuple[list[Prompt], list[Prompt]]:
    """`first` prompts and `second` others behind them. SettingsError if there are too few."""
    if len(prompts) < first + second:
        raise SettingsError(
            f"{first + second} different prompts are needed ({first} and {second}), but there are only {len(prompts)}."
        )
    return list(prompts[:first]), list(prompts[first : first + second])


def _text(prompt: Prompt) -> str:
    return "\n".join(message["content"] for message in prompt.messages)
