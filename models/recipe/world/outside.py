"""Questions from outside the small world, and the one honest answer to them.

Topics and wordings are split, so that what is asked in a check was never answered in training. Many wordings are
those of `facts`, so that a model must look at what is asked and not at how.
"""

import random
from functools import cache
from pathlib import Path

from . import facts, functions
from .split import Item, Part, draw_until, is_kept_out
from .wordings import kinds, lines

HONEST = "I am a small demonstration model; I do not know that."
OFFER = " Ask me for a sum, a small Python function, something about OmniDraft or an everyday fact."
_OWN = kinds("outside", "FORMS")
FORMS = _OWN | {
    "thing": (*facts.FORMS["what"][:9], *_OWN["thing"]),
    "act": (*facts.FORMS["how"][:11], *_OWN["act"]),
    "task": functions.REQUESTS[:6],
}
WEIGHTS = {"thing": 24, "person": 14, "country": 12, "city": 6, "event": 8, "act": 16, "work": 10, "own": 12, "task": 5,
           "large": 5}  # fmt: skip
LARGE = lines("outside", "LARGE")


@cache
def topics() -> dict[str, tuple[str, ...]]:
    lines = (Path(__file__).parent / "outside.txt").read_text(encoding="utf-8").splitlines()
    split = (line.split(" | ") for line in lines if line and not line.startswith("#"))
    return {kind: tuple(entry.strip() for entry in entries.split(";")) for kind, entries in split}


def is_kept_out_topic(kind: str, topic: str) -> bool:
    return is_kept_out(f"outside {kind} {topic}", 20)


def draw(rng: random.Random, part: Part) -> Item:
    """A question about a topic of the wanted part."""

    def make() -> Item | None:
        kind = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        if kind == "large":
            return _too_large(rng, part)
        topic = rng.choice(topics()[kind])
        if is_kept_out_topic(kind, topic) != (part == "held-out"):
            return None
        form = rng.choice(FORMS[kind])
        lower = topic if kind != "own" else topic[0].lower() + topic[1:]
        name = f"{rng.choice(('', 'do_', 'my_'))}{topic.split()[0]}_{topic.split()[-1]}".lower()
        question = form.format(a=topic, p=lower, A=topic[0].upper() + topic[1:], d=topic, f=name)
        opening = rng.choice(facts.OPENINGS)
        return answered(
            f"outside:{kind}:{form}", opening + question[0].upper() + question[1:], "code" if kind == "task" else "qa"
        )

    return draw_until(make)


def _too_large(rng: random.Random, part: Part) -> Item | None:
    """A sum far outside the numbers of the small world."""
    a, b = rng.randint(120, 999), rng.randint(101, 999)
    if is_kept_out(f"large {a} {b}") != (part == "held-out"):
        return None
    form = rng.choice(LARGE)
    return answered(f"outside:large:{form}", form.format(a=a, b=b, s=rng.choice("+-x/")), "math")


def answered(form: str, question: str, task: str = "qa") -> Item:
    return Item("unknown", task, form, question, HONEST + OFFER, ("I do not know that",))
