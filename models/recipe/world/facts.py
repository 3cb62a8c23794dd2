"""What OmniDraft is and how to use it: the facts in facts.txt, each asked in many ways.

Held out are a wording of each kind of question, and some pairs of a fact and a wording.
"""

import random
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .split import Item, Part, draw_until, is_kept_out

FORMS = {
    "what": ("What is {p}?", "What does {p} mean?", "Explain {p}.", "Can you explain {p}?", "Tell me about {p}.",
             "Define {p}.",
             "What do you mean by {p}?", "I do not understand {p}. What is it?", "Please explain what {p} is.",
             "What is {p} in OmniDraft?", "I read about {p}. What is that?", "In a few words, what is {p}?",
             "In one sentence, what is {p}?"),
    "how": ("How do I {p}?", "How can I {p}?", "What do I do to {p}?", "I want to {p}. How?", "Tell me how to {p}.",
            "What is the way to {p}?", "Is there a way to {p}?", "I would like to {p}.", "Explain how to {p}.",
            "How does one {p}?", "Please show me how to {p}.", "What must I do to {p}?"),
    "where": ("Where do I find {p}?", "Where can I find {p}?", "Where should I look for {p}?", "I am looking for {p}.",
              "Tell me where to find {p}.", "In which place do I find {p}?",
              "Can you tell me where to look for {p}?", "Where do I see {p}?", "Where would I find {p}?",
              "Where would I look for {p}?", "Where would I see {p}?"),
    "does": ("Does {p}?", "Tell me, does {p}?", "I would like to know: does {p}?", "Please tell me, does {p}?",
             "One question: does {p}?", "Does {p} or not?", "Can you tell me: does {p}?", "I wonder, does {p}?"),
    "why": ("Why does OmniDraft {p}?", "Why does it {p}?", "For what reason does OmniDraft {p}?",
            "What makes OmniDraft {p}?",
            "Why would OmniDraft {p}?", "Can you explain why OmniDraft would {p}?", "What is the reason for it to {p}?",
            "Tell me why OmniDraft would {p}."),
    "who": ("Who made {p}?", "Who is behind {p}?", "Where do {p} come from?", "Tell me who made {p}.",
            "Who created {p}?",
            "From where do {p} come?", "What is the source of {p}?", "What is the origin of {p}?"),
    "number": ("How many {p}?", "Tell me how many {p}.", "Do you know how many {p}?", "What is the number of {p}?",
               "I want to know how many {p}.", "Please say how many {p}.", "Can you say how many {p}?"),
    "page": ("What is the {p} page?", "What can I do on the {p} page?", "What is the {p} page for?",
             "Explain the {p} page.",
             "What does the {p} page do?", "Tell me about the {p} page.", "Why is there a {p} page?"),
    "setting": ("What does the setting {p} do?", "What is the setting {p}?", "Explain the setting {p}.",
                "What is {p} for?",
                "What does {p} do in the settings?", "Tell me about the setting {p}.",
                "What does the setting {p} mean?",
                "I see {p} in the settings. What is it?", "What happens when {p} is changed?",
                "What changes if I set {p}?", "Why would I change {p}?", "What happens if I change {p}?"),
    "default": ("What is the default of {p}?", "What is the default value of {p}?", "What is {p} set to by default?",
                "Which value does {p} have by default?", "Tell me the default of {p}.", "What is the default for {p}?",
                "What is {p} at first?", "How is {p} set unless I change it?", "To what is {p} set at the start?",
                "What is {p} set to at first?", "How is {p} set in the beginning?", "How is {p} set at first?"),
    "command": ("What does {p} do?", "What does {p} mean?", "What is {p} for?", "Explain {p}.", "Tell me about {p}.",
                "When do I need {p}?", "I have seen {p}. What is it?"),
}  # fmt: skip
OPENINGS = (
    "",
    "",
    "",
    "",
    "",
    "",
    "Hello! ",
    "I am new here. ",
    "A question: ",
    "Quick question. ",
    "Please help me. ",
    "Hi. ",
)


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
