"""Openings of service dialogues: a table, a hotel, a bus, a film. Questions only, for benchmarks that ask many.

The answers come from whatever corpus of service dialogues a model has read.
"""

import random

from .split import Item, Part, choose, draw_until, is_kept_out
from .words import words

OPENINGS = (
    "I [want|need|would like] a table for {n} at a [cheap|quiet|nice|family] {food} [place|restaurant] in {city}.",
    "Can you find me a {food} restaurant in {city}[?| for {day}?]",
    "[Please book|Book|Reserve] a table for {n} in {city} for {day} at {hour}.",
    "I am looking for a [cheap|good|small|quiet] hotel in {city}[.| for {n} people.| from {day} on.]",
    "Find me a hotel [with free wifi|with a pool|near the station|that takes pets] in {city}.",
    "I need a bus from {city} to {city2} on {day}.",
    "[Are there any buses|Is there a bus] to {city2} on {day} [in the morning|in the evening|after {hour}]?",
    "I [want|would like] to fly from {city} to {city2} on {day}.",
    "[Find|Show] me a [cheap|direct|one way] flight to {city2} for {n} people.",
    "I want to see a [funny|scary|romantic|new] movie in {city} on {day}.",
    "What movies are [showing|playing] in {city} [on {day}|tonight|this week]?",
    "I need a ride to the [airport|station|museum|harbor] in {city} for {n} people.",
    "[Get|Book] me a [shared|regular|luxury] cab to {number} {street} Street.",
    "I am looking for a [dentist|doctor|therapist|eye doctor] in {city}.",
    "Make an appointment with a [dentist|doctor|hair stylist|therapist] in {city} on {day} at {hour}.",
    "I need a haircut in {city}. Is there a [good|cheap|unisex] salon?",
    "What [concerts|games|events|shows] are there in {city} on {day}?",
    "I want {n} tickets for a [concert|game|show] in {city}.",
    "What will the weather be like in {city} on {day}?",
    "[Transfer|Send|Pay] {amount} dollars to [my sister|my landlord|Mr. Lee|Ms. Ortiz].",
    "How much money do I have in my [savings|checking] account?",
    "I want to rent a [small|large|cheap] car in {city} from {day} on.",
    "I am looking for [a flat|an apartment|a house] with {n} bedrooms in {city}.",
    "[Play|Find] me some [pop|rock|country|electronic] music[.| from the nineties.| by a new singer.]",
    "What is on my calendar for {day}?",
    "[Put|Add] a meeting at {hour} on {day} into my calendar.",
    "Wake me at {hour}[.| on {day}.]",
    "What are good sights to see in {city}[?| with children?]",
)
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
