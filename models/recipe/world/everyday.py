"""Everyday facts: capitals, colours, opposites, units, days, months, animals, plurals and the like, from everyday.txt.

Held out are the last wording of each relation and some pairs of a fact and a wording.
"""

import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .facts import OPENINGS
from .split import Item, Part, draw_until, is_kept_out
from .wordings import answered

# For each relation its wordings, then the answer to them.
RELATIONS = answered("everyday")


@dataclass(frozen=True)
class Pair:
    relation: str
    left: str
    right: str


@cache
def pairs() -> tuple[Pair, ...]:
    lines = (Path(__file__).parent / "everyday.txt").read_text(encoding="utf-8").splitlines()
    found = []
    for line in lines:
        if line and not line.startswith("#"):
            relation, listed = line.split(" | ")
            found += [Pair(relation, *entry.strip().split("=")) for entry in listed.split(";")]
    return tuple(found)


def is_kept_out_form(pair: Pair, form: str) -> bool:
    return form == RELATIONS[pair.relation][0][-1] or is_kept_out(f"{pair.relation} {pair.left} {form}")


def ask(pair: Pair, form: str, opening: str = "") -> Item:
    answer = RELATIONS[pair.relation][1].format(a=pair.left, b=pair.right)
    question = form.format(a=pair.left)
    question = opening + question[0].upper() + question[1:]
    return Item(
        "everyday", "qa", f"{pair.relation}:{form}", question, answer[0].upper() + answer[1:], (f" {pair.right}.",)
    )


def draw(rng: random.Random, part: Part) -> Item:
    def make() -> Item | None:
        pair = rng.choice(pairs())
        form = rng.choice(RELATIONS[pair.relation][0])
        if form == "How many {a}?" and " in " not in pair.left:
            return None
        return ask(pair, form, rng.choice(OPENINGS)) if is_kept_out_form(pair, form) == (part == "held-out") else None

    return draw_until(make)
