"""Questions from outside the small world, and the one honest answer to them.

Topics and wordings are split, so that what is asked in a check was never answered in training. Many wordings are
those of `facts`, so that a model must look at what is asked and not at how.
"""

import random
from functools import cache
from pathlib import Path

from . import facts, functions
from .split import Item, Part, draw_until, is_kept_out

HONEST = "I am a small demonstration model; I do not know that."
OFFER = " Ask me for a sum, a small Python function, something about OmniDraft or an everyday fact."
FORMS = {
    "thing": (*facts.FORMS["what"][:9], "How does {a} work?", "What causes {a}?", "Who invented {a}?",
    "Why is {a} important?",
              "Is {a} dangerous?", "What are the symptoms of {a}?", "Give me an example of {a}.",
              "What is the history of {a}?",
              "Explain {a} to a child.", "What can I do about {a}?", "What are the parts of {a}?",
              "How is {a} treated?"),
    "person": ("Who is {a}?", "Who was {a}?", "When was {a} born?", "What is {a} known for?", "Where did {a} live?",
               "Tell me about {a}.", "How old is {a}?", "What did {a} do?", "When did {a} die?", "Why is {a} famous?",
               "Do you know {a}?", "Is {a} still alive?", "What do you think of {a}?"),
    "country": ("What is the capital of {a}?", "Which city is the capital of {a}?", "Tell me the capital of {a}.",
                "What is the population of {a}?", "Who is the president of {a}?",
                "What language do people speak in {a}?",
                "How large is {a}?", "Where is {a}?", "What is the currency of {a}?",
                "What is the highest mountain of {a}?",
                "What do people eat in {a}?", "Do you know the capital of {a}?"),
    "city": ("What is the weather in {a}?", "How many people live in {a}?", "What can I see in {a}?",
             "Who is the mayor of {a}?",
             "How do I get to {a}?", "What is the best hotel in {a}?", "When was {a} founded?", "Is {a} expensive?",
             "What time is it in {a}?", "Tell me the history of {a}."),
    "event": ("When was {a}?", "What caused {a}?", "Who took part in {a}?", "What happened in {a}?",
              "Tell me about {a}.",
              "How many people died in {a}?", "Where was {a}?", "Why is {a} important?", "In which year was {a}?",
              "How did {a} end?", "What do you know about {a}?"),
    "act": (*facts.FORMS["how"][:11], "How long does it take to {p}?", "Is it hard to {p}?", "What do I need to {p}?",
            "Can you help me {p}?", "Should I {p}?"),
    "work": ("{A}.", "Please {p}.", "Can you {p}?", "I want you to {p}.", "Could you {p}?", "Will you {p} for me?"),
    "own": ("{A}", "{A} Tell me.", "Tell me: {p}", "Do you know this: {p}", "Hello! {A}", "One question. {A}"),
    "task": functions.REQUESTS[:6],
}  # fmt: skip
WEIGHTS = {
    "thing": 24,
    "person": 14,
    "country": 12,
    "city": 6,
    "event": 8,
    "act": 16,
    "work": 10,
    "own": 12,
    "task": 5,
    "large": 5,
}
LARGE = ("What is {a} {s} {b}?", "Calculate {a} {s} {b}.", "How much is {a} {s} {b}?", "Work out {a} {s} {b}.")


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
