"""What is kept out of training: a fixed share of wordings and of values, chosen by a hash alone.

Knows strings. So every model and every run agree, and a held-out wording never slips into training by a new seed.
"""

import hashlib
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

Part = Literal["train", "held-out"]
T = TypeVar("T")


@dataclass(frozen=True)
class Item:
    """One question of the small world with its right answer, and how to tell a right answer from a wrong one."""

    kind: str  # sum, chain, story, problem, follow, function, omnidraft, everyday, unknown, talk
    task: str  # math, code, dialogue, qa
    form: str  # names the wording; a form belongs to one part only
    question: str
    answer: str
    check: tuple[str, ...] = ()  # what a right answer must hold; of a function its name, then Python expressions
    note: str = ""  # of a function what it does

    def messages(self) -> list[dict[str, Any]]:
        return [{"role": "user", "content": self.question}, {"role": "assistant", "content": self.answer}]


def is_kept_out(key: str, percent: int = 12) -> bool:
    """True for a fixed share of keys."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") % 100 < percent


def draw_until(make: Callable[[], T | None], tries: int = 100_000) -> T:
    """The first result that is not None; what makes it draws anew each time."""
    for _ in range(tries):
        made = make()
        if made is not None:
            return made
    raise RuntimeError(f"nothing fitting in {tries} draws")


_CHOICE = re.compile(r"\[([^\[\]]*)\]")


def choose(pattern: str, rng: random.Random) -> tuple[str, str]:
    """The pattern with each [one|of|these] replaced by one of them, and the choices taken as a string."""
    taken = []

    def pick(match: re.Match[str]) -> str:
        options = match.group(1).split("|")
        taken.append(rng.randrange(len(options)))
        return options[taken[-1]]

    return _CHOICE.sub(pick, pattern), ".".join(map(str, taken))
