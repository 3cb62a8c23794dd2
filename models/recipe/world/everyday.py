"""Everyday facts: capitals, colours, opposites, units, days, months, animals, plurals and the like, from everyday.txt.

Held out are the last wording of each relation and some pairs of a fact and a wording.
"""

import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .facts import OPENINGS
from .split import Item, Part, draw_until, is_kept_out

# For each relation its wordings, then the answer.
RELATIONS = {
    "capital": (("What is the capital of {a}?", "Which city is the capital of {a}?", "Name the capital of {a}.",
                 "Tell me the capital of {a}.", "What city is the capital of {a}?", "Do you know the capital of {a}?",
                 "{a} has which capital?", "What is the name of the capital of {a}?"),
                "The capital of {a} is {b}."),
    "colour": (("What color is {a}?", "Which color does {a} have?", "What is the color of {a}?",
                "Tell me the color of {a}.",
                "What color does {a} have?", "Which color is {a}?", "Which colour is {a}?",
                "What colour does {a} have?", "What colour is {a}?"),
               "The color of {a} is {b}."),
    "opposite": (("What is the opposite of {a}?", "What is the opposite of the word {a}?", "Name the opposite of {a}.",
                  "Tell me the opposite of {a}.", "Which word is the opposite of {a}?", "Give me the opposite of {a}.",
                  "Do you know the opposite of {a}?"),
                 "The opposite of {a} is {b}."),
    "plural": (("What is the plural of {a}?", "Give me the plural of {a}.", "What is the plural form of {a}?",
                "Tell me the plural of {a}.", "One {a}, two what?", "How do I write the plural of {a}?",
                "Do you know the plural of {a}?"),
               "The plural of {a} is {b}."),
    "past": (("What is the past of {a}?", "What is the past tense of {a}?", "Give me the past tense of {a}.",
              "Tell me the past tense of {a}.", "How do I say {a} in the past?",
              "Which form does {a} have in the past?",
              "Do you know the past tense of {a}?"),
             "The past tense of {a} is {b}."),
    "young": (("What is a young animal called if its mother is {a}?", "What do you call the young of {a}?",
               "What is the young of {a} called?", "Name the young of {a}.", "How is the young of {a} called?",
               "Tell me what the young of {a} is called.", "Do you know the name for the young of {a}?"),
              "The young of {a} is called {b}."),
    "sound": (("What sound does {a} make?", "Which sound does {a} make?", "What does {a} sound like?",
               "How does {a} sound?",
               "Tell me the sound of {a}.", "What is the sound of {a}?", "Which noise does {a} make?",
               "What is the noise of {a}?", "What noise does {a} make?"),
              "{a} {b}."),
    "legs": (("How many legs does {a} have?", "How many legs has {a}?", "What is the number of legs of {a}?",
              "Tell me how many legs {a} has.", "On how many legs does {a} stand?",
              "Do you know how many legs {a} has?",
              "Count the legs of {a}."),
             "The number of legs of {a} is {b}."),
    "home": (("Where does {a} live?", "What is the home of {a}?", "Where is {a} at home?", "Name the home of {a}.",
              "Tell me where {a} lives.", "In what does {a} live?", "Do you know where {a} lives?"),
             "The home of {a} is {b}."),
    "food": (("What does {a} eat?", "What is the food of {a}?", "What does {a} like to eat?", "Tell me what {a} eats.",
              "What food does {a} eat?", "What can I feed to {a}?", "Do you know what {a} eats?"),
             "The food of {a} is {b}."),
    "unit": (("How many {a}?", "What is the number of {a}?", "Tell me how many {a}.", "Do you know how many {a}?",
              "Please tell me the number of {a}.", "I want to know the number of {a}.", "Give me the number of {a}."),
             "The number of {a} is {b}."),
    "dayafter": (("What day comes after {a}?", "Which day follows {a}?", "What is the day after {a}?",
                  "Today is {a}. What is tomorrow?",
                  "If today is {a}, what day is tomorrow?", "Name the day after {a}.", "What comes right after {a}?",
                  "Which comes after {a}?", "What comes after {a}?"),
                 "The day after {a} is {b}."),
    "daybefore": (("What day comes before {a}?", "What is the day before {a}?", "Today is {a}. What was yesterday?",
                   "If today is {a}, what day was yesterday?", "Name the day before {a}.",
                   "What comes right before {a}?",
                   "Which comes before {a}?", "What comes before {a}?"),
                  "The day before {a} is {b}."),
    "monthafter": (("What month comes after {a}?", "Which month follows {a}?", "What is the month after {a}?",
                    "Name the month after {a}.", "Tell me the month after {a}.", "Which month is next after {a}?",
                    "What comes right after {a}?", "Which comes after {a}?", "What comes after {a}?"),
                   "The month after {a} is {b}."),
    "monthbefore": (("What month comes before {a}?", "What is the month before {a}?", "Name the month before {a}.",
                     "Tell me the month before {a}.", "Which month is right before {a}?",
                     "What comes right before {a}?",
                     "Which comes before {a}?", "What comes before {a}?"),
                    "The month before {a} is {b}."),
    "kind": (("What kind of thing is {a}?", "What is {a}?", "What sort of thing is {a}?", "Tell me what {a} is.",
              "Is {a} an animal or what is it?", "Do you know what {a} is?", "Can you tell me what {a} is?"),
             "{a} is {b}."),
    "use": (("What is the use of {a}?", "What do I need {a} for?", "For what do people use {a}?",
             "What can I do with {a}?",
             "Tell me the use of {a}.", "What do people do with {a}?", "Why does one have {a}?",
             "Why do people use {a}?", "Why do people have {a}?"),
            "The use of {a} is {b}."),
    "season": (("Which season brings {a}?", "In which season do I see {a}?", "What is the season of {a}?",
                "When in the year is {a}?", "Name the season of {a}.", "Tell me the season of {a}."),
               "The season of {a} is {b}."),
    "where": (("Where do I find {a}?", "Where can I get {a}?", "In which place are {a}?", "Where do people go for {a}?",
               "Tell me where to find {a}.", "Where are {a}?", "Where should I look for {a}?"),
              "The place for {a} is {b}."),
    "job": (("Who {a}?", "Tell me who {a}.", "What is the job of someone who {a}?", "Name a person who {a}.",
             "Do you know who {a}?", "What do you call someone who {a}?", "How is a person called who {a}?",
             "What do you call a person who {a}?"),
            "A person who {a} is {b}."),
}  # fmt: skip


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
