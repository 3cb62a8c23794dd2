"""Small talk: greetings, thanks, goodbyes, who the model is and what it can do.

Held out are some wordings of each kind.
"""

import random

from .split import Item, Part, choose, draw_until, is_kept_out
from .wordings import answered

TALK = answered("talk")


def draw(rng: random.Random, part: Part, kind: str | None = None) -> Item:
    def make() -> Item | None:
        chosen = kind or rng.choice(list(TALK))
        patterns, answer = TALK[chosen]
        pattern = rng.choice(patterns)
        text, taken = choose(pattern, rng)
        if is_kept_out(f"{pattern} {taken}") != (part == "held-out"):
            return None
        return Item("talk", "dialogue", f"{chosen}:{taken}", text, answer, (answer,))

    return draw_until(make)
