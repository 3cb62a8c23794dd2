"""Word problems of one to three steps, from the templates in problems.txt.

A template names its steps ("a*b;r-c": multiply, then take c from the result; r is the last result, s the one before),
what each step finds, and the text with its wordings. Held out are some
wordings, and altogether the templates marked as new: none that a visitor would try first.
"""

import random
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .split import Item, Part, choose, draw_until, is_kept_out
from .steps import calculate, labelled
from .sums import in_words
from .wordings import (
    COLOURS,
    CONTAINER,
    DAYS,
    GOODS,
    HE,
    MONEY,
    MORE_THINGS,
    PLACES,
    RELATIVES,
    SHE,
    SIBLINGS,
    THINGS,
    words,
)

FOOD = words("cookies apples pears muffins rolls plums cherries eggs peaches sandwiches")
ANIMALS = {"cow": ("cows", 4), "spider": ("spiders", 8), "hen": ("hens", 2), "ant": ("ants", 6), "dog": ("dogs", 4)}
SENTENCE = re.compile(r"^[a-z]|(?<=[.?!] )[a-z]")  # its first letter
NEW = "new: "  # opens a template that training never sees


@dataclass(frozen=True)
class Template:
    number: int
    steps: tuple[str, ...]  # such as ("a*b", "r-c")
    labels: tuple[str, ...]
    text: str
    kept_out: bool  # training never sees any of it


@cache
def templates() -> tuple[Template, ...]:
    lines = (Path(__file__).parent / "problems.txt").read_text(encoding="utf-8").splitlines()
    found: list[Template] = []
    for line in lines:
        if line and not line.startswith("#"):
            # Wordings hold bars of their own, so only the first two separate.
            steps, labels, text = (field.strip() for field in line.removeprefix(NEW).split(" | ", 2))
            kept_out = line.startswith(NEW)
            found.append(Template(len(found), tuple(steps.split(";")), tuple(labels.split(";")), text, kept_out))
    return tuple(found)


def values(template: Template, rng: random.Random) -> dict[str, int] | None:
    """Numbers for the letters of a template, or None if these do not come out."""
    letters = sorted({x for step in template.steps for x in (step[0], step[2])} & set("abcd"))
    small = {x for step in template.steps if step[1] in "*/" for x in (step[0], step[2])}
    divided = {step[0] for step in template.steps if step[1] == "/"}
    low, high = rng.choice(((1, 12), (2, 25), (3, 99), (3, 99)))
    drawn = {x: rng.randint(2, 10) if x in small - divided else rng.randint(low, high) for x in letters}
    return drawn if results(template, drawn) is not None else None


def results(template: Template, drawn: dict[str, int]) -> list[tuple[int, str, int, int]] | None:
    """(left, sign, right, result) of every step, or None if one is outside or says nothing."""
    known = dict(drawn)
    done = []
    for step in template.steps:
        left, sign, right = known[step[0]], step[1].replace("*", "x"), known[step[2]]
        result = calculate(left, sign, right)
        if not result:
            return None
        done.append((left, sign, right, result))
        known["s"], known["r"] = known.get("r", 0), result
    return done


def slots(rng: random.Random) -> dict[str, str]:
    people = rng.sample(SHE + HE, 3) if rng.random() < 0.7 else rng.sample(sorted(RELATIVES), 3)
    he = RELATIVES.get(people[0], "she" if people[0] in SHE else "he")
    days = rng.sample(DAYS, 3)
    plural = rng.choice(sorted(CONTAINER))
    good = rng.choice(sorted(GOODS))
    colours = rng.sample(COLOURS, 3)
    animal = rng.choice(sorted(ANIMALS))
    return {
        "n": people[0], "m": people[1], "o": people[2], "t": rng.choice(THINGS), "f": rng.choice(FOOD),
        "k": plural, "k1": CONTAINER[plural], "g": good, "gs": GOODS[good], "p": rng.choice(PLACES),
        "c1": colours[0], "c2": colours[1], "c3": colours[2], "l": animal, "ls": ANIMALS[animal][0],
        "he": he, "He": he.capitalize(), "his": "her" if he == "she" else "his", "sib": rng.choice(SIBLINGS),
        "x": rng.choice((*FOOD, *THINGS, *MORE_THINGS, *MORE_THINGS)), "u": rng.choice(MONEY),
        "d1": days[0], "d2": days[1], "d3": days[2],
    }  # fmt: skip


def item(template: Template, rng: random.Random) -> Item | None:
    """A problem of the template, or None if the numbers drawn do not come out."""
    text, taken = choose(template.text, rng)
    fill = slots(rng)
    legs = {"a": rng.randint(2, 10), "b": ANIMALS[fill["l"]][1]}
    drawn = legs if "{ls}" in text else values(template, rng)
    done = results(template, drawn) if drawn is not None else None
    if drawn is None or done is None or fill["t"] in fill["k"]:
        return None
    labels = [label.format(**fill) for label in template.labels]
    lines = [labelled(label, *step[:3]) for label, step in zip(labels, done, strict=True)]
    answer = " ".join([*lines, f"The answer is {done[-1][3]}."])
    numbers = {letter: in_words(number, rng) for letter, number in drawn.items()}
    question = SENTENCE.sub(lambda begin: begin.group().upper(), text.format(**fill, **numbers))
    return Item("problem", "math", f"problem {template.number}:{taken}", question, answer, (str(done[-1][3]),))


def is_kept_out_form(template: Template, form: str) -> bool:
    """Some wordings of every template with enough of them."""
    return template.kept_out or ("." in form and is_kept_out(f"{template.text} {form}", 15))


def draw(rng: random.Random, part: Part, new_templates: bool = False) -> Item:
    """A word problem; `new_templates` with "held-out" asks only for templates that training never saw."""

    def make() -> Item | None:
        template = rng.choice(templates())
        if template.kept_out != new_templates:
            return None
        made = item(template, rng)
        return made if made and is_kept_out_form(template, made.form) == (part == "held-out") else None

    return draw_until(make)
