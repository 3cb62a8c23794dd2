"""What OmniDraft is and how to use it: the facts in facts.txt, each asked in many ways.

Held out are a wording of each kind of question, and some pairs of a fact and a wording.
"""

import random
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .split import Item, Part, draw_until, is_kept_out
from .wordings import kinds

FORMS = kinds("facts", "FORMS")
OPENINGS = (*6 * ("",), "Hello! ", "I am new here. ", "A question: ", "Quick question. ", "Please help me. ", "Hi. ")


@dataclass(frozen=True)
class Fact:
    kind: str
    phrase: str
    answer: str  # without the brackets
    names: tuple[str, ...]  # what stood in them


@cache
def facts() -> tuple[Fact, ...]:
    lines = (Path(__file__).parent / "facts.txt").read_text(encoding="utf-8").splitlines()
    return tuple(_fact(line) for line in lines if line and not line.startswith("#"))


def _fact(line: str) -> Fact:
    kind, phrase, marked = (field.strip() for field in line.split(" | "))
    return Fact(kind, phrase, re.sub(r"[\[\]]", "", marked), tuple(re.findall(r"\[([^\]]+)\]", marked)))


def is_kept_out_form(fact: Fact, form: str) -> bool:
    """The last wording of each kind, and some pairs of a fact and a wording."""
    return form == FORMS[fact.kind][-1] or is_kept_out(f"{fact.kind} {fact.phrase} {form}")


def ask(fact: Fact, form: str, opening: str = "") -> Item:
    question = form.format(p=fact.phrase)
    answer = fact.answer
    if fact.kind in ("default", "setting") and answer.startswith(("The default is", "It ")):
        answer = answer.replace("The default is", f"The default of {fact.phrase} is", 1)
    return Item("omnidraft", "qa", f"{fact.kind}:{form}", opening + question, answer, fact.names)


def draw(rng: random.Random, part: Part) -> Item:
    def make() -> Item | None:
        fact = rng.choice(facts())
        form = rng.choice(FORMS[fact.kind])
        return ask(fact, form, rng.choice(OPENINGS)) if is_kept_out_form(fact, form) == (part == "held-out") else None

    return draw_until(make)
