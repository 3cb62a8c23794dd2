"""Openings of service dialogues: a table, a hotel, a bus, a film. Questions only, for benchmarks that ask many.

The answers come from whatever corpus of service dialogues a model has read.
"""

import random

from .split import Item, Part, choose, draw_until, is_kept_out
from .wordings import lines, words

OPENINGS = lines("service", "OPENINGS")
CITIES = words(
    "Oakland San_Jose Berkeley Fresno Portland Seattle San_Diego Napa Petaluma Concord Fremont Livermore "
    "Sacramento Anaheim Vancouver Phoenix Chicago Boston London Paris"
)
FOODS = words("Italian Mexican Thai Indian Chinese Japanese Greek French American Korean")
DAYS = words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday March_3rd March_8th the_12th the_14th tomorrow")
STREETS = words("Willow Maple Market Lake Church Mill Hill Park River Garden")


def draw(rng: random.Random, part: Part) -> Item:
    """An opening without an answer."""

    def make() -> Item | None:
        city, other = rng.sample(CITIES, 2)
        text, taken = choose(rng.choice(OPENINGS), rng)
        question = text.format(
            n=rng.choice(("two", "three", "four", "five")), food=rng.choice(FOODS), city=city, city2=other,
            day=rng.choice(DAYS), hour=f"{rng.randint(1, 12)} {rng.choice(('am', 'pm'))}",
            number=rng.randint(2, 99), street=rng.choice(STREETS), amount=10 * rng.randint(2, 40),
        ).replace("_", " ")  # fmt: skip
        if is_kept_out(question, 20) != (part == "held-out"):
            return None
        return Item("service", "dialogue", f"service:{taken}", question, "")

    return draw_until(make)
