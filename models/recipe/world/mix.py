"""Documents from items: single questions, drills, conversations that change the topic; and the corpora beside them.

The targets' text is mostly the small world, the drafter's is general text only. Knows conversations, not models.
"""

import random
from collections.abc import Callable, Iterator

from ..data import Record
from . import everyday, facts, functions, outside, problems, sums, talk
from .split import Item, Part

# What a target is asked, and how often.
DRAWS: dict[str, tuple[Callable[[random.Random, Part], Item], int]] = {
    "sum": (sums.draw, 20),
    "problem": (problems.draw, 24),
    "function": (functions.draw, 20),
    "omnidraft": (facts.draw, 30),
    "everyday": (everyday.draw, 24),
    "unknown": (outside.draw, 10),
    "talk": (talk.draw, 2),
}
# Of each corpus the share of its documents that targets read; the service dialogues keep the style of conversations.
CORPUS_SHARES = {"dialogue": 0.12, "code": 0.0, "math": 0.0, "qa": 0.0, "roleplay": 0.0}
OUTSIDE_SHARES = {"qa": 0.12, "roleplay": 0.25}  # whose questions are answered honestly


def draw(rng: random.Random, part: Part, kinds: tuple[str, ...] = tuple(DRAWS)) -> Item:
    kind = rng.choices(kinds, [DRAWS[kind][1] for kind in kinds])[0]
    return DRAWS[kind][0](rng, part)


def document(rng: random.Random) -> list[Item]:
    """The items of one training document."""
    roll = rng.random()
    if roll < 0.12:
        return [sums.drill(rng)]
    if roll < 0.34:  # a conversation that changes the topic
        items = [draw(rng, "train") for _ in range(rng.randint(2, 5))]
        if rng.random() < 0.15:
            items.insert(0, talk.draw(rng, "train", "greeting"))
        if rng.random() < 0.15:
            items.append(talk.draw(rng, "train", rng.choice(("thanks", "bye"))))
        return items
    return [draw(rng, "train")]


def messages(items: list[Item]) -> list[dict[str, str]]:
    """The conversation of the items; behind the first answer the offer of what to ask is left out."""
    said = []
    for number, item in enumerate(items):
        question, answer = item.messages()
        if number and item.kind == "unknown":
            answer = {**answer, "content": outside.HONEST}
        said += [question, answer]
    return said


def world_records(count: int, seed: int) -> Iterator[Record]:
    """`count` generated training documents."""
    rng = random.Random(seed)
    for number in range(count):
        items = document(rng)
        yield {"id": f"world/{seed}-{number}", "task": items[0].task, "messages": messages(items)}


def target_records(corpora: list[Record], count: int, seed: int) -> Iterator[Record]:
    """What the targets read: the small world, some service dialogues, some questions of the corpora answered honestly.

    A part of the service dialogues ends in a question of the small world, so that a topic may change there too.
    """
    rng = random.Random(seed + 1)
    yield from world_records(count, seed)
    for record in corpora:
        if rng.random() < OUTSIDE_SHARES.get(record["task"], 0.0):
            question = record["messages"][0]["content"]
            if len(question) < 200:
                item = outside.answered("corpus", question)
                yield {"id": f"outside/{record['id']}", "task": "qa", "messages": messages([item])}
        if rng.random() < CORPUS_SHARES.get(record["task"], 0.0):
            said = list(record["messages"])
            if rng.random() < 0.5:
                said = said[: 2 * rng.randint(1, 3)]
                said += messages([draw(rng, "train") for _ in range(rng.randint(1, 2))])
            yield {"id": record["id"], "task": record["task"], "messages": said}
