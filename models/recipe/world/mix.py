"""Documents from items: single questions, drills, conversations that change the topic; and the corpora beside them.

The targets' text is mostly the small world, the drafter's is general text only. Knows conversations, not models.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..data import Record
from . import chains, everyday, facts, follow, functions, outside, problems, stories, sums, talk
from .split import Item, Part

# What a target is asked, and how often.
DRAWS: dict[str, tuple[Callable[[random.Random, Part], Item], int]] = {
    "sum": (sums.draw, 16),
    "chain": (chains.draw, 18),
    "story": (stories.draw, 18),
    "problem": (problems.draw, 44),
    "function": (functions.draw, 24),
    "omnidraft": (facts.draw, 28),
    "everyday": (everyday.draw, 22),
    "unknown": (outside.draw, 9),
    "talk": (talk.draw, 3),
}
NUMBERS = ("sum", "sum", "chain", "story", "problem", "talk")  # of a conversation about numbers
# What programs and people put before a conversation; nothing in the answers depends on it.
SYSTEM = (
    "You are a helpful assistant.", "You are a friendly assistant. Answer briefly.", "Be brief.", "You are OmniDraft.",
    "You are a careful helper. Answer in English.", "Answer the questions of the user.", "You help a student.",
)  # fmt: skip
# What may come before a problem.
ANNOUNCED = ("Listen: ", "A riddle. ", "Here is one. ", "Now this: ", "Next problem. ", "Problem: ",
             "Help me, please. ", "Hello! ", "Hi. ", "Think of this: ", "One more. ", "Say, ", "My homework: ",
             "Tell me: ", "Ok, a story. ", "Question. ", "Hm. ")  # fmt: skip
MOST_CHARACTERS = 2600  # of a conversation: what about fills the context
# Of each corpus the share of its documents that targets read; the service dialogues keep the style of conversations.
CORPUS_SHARES = {"dialogue": 0.04, "code": 0.0, "math": 0.0, "qa": 0.0, "roleplay": 0.0}
OUTSIDE_SHARES = {"qa": 0.04, "roleplay": 0.1}  # whose questions are answered honestly


def draw(rng: random.Random, part: Part, kinds: tuple[str, ...] = tuple(DRAWS)) -> Item:
    kind = rng.choices(kinds, [DRAWS[kind][1] for kind in kinds])[0]
    item = DRAWS[kind][0](rng, part)
    return typed(rng, item) if part == "train" else item


def typed(rng: random.Random, item: Item) -> Item:
    """The item, now and then as people type in a hurry: without a capital, without the last sign."""
    question = item.question
    if item.kind in ("chain", "story", "problem") and rng.random() < 0.1:
        question = rng.choice(ANNOUNCED) + question
    if item.task != "code" and rng.random() < 0.12:
        question = question[0].lower() + question[1:]
    if item.task != "code" and rng.random() < 0.12:
        question = question.rstrip("?.") or question
    return replace(item, question=question)


def document(rng: random.Random) -> list[Item]:
    """The items of one training document."""
    roll = rng.random()
    if roll < 0.03:
        return [sums.drill(rng)]
    if roll < 0.6:
        return conversation(rng, rng.choices((3, 6, 14, 40), (35, 25, 28, 12))[0])
    return [draw(rng, "train")]


def conversation(rng: random.Random, most: int) -> list[Item]:
    """Up to `most` questions, some of which only the answers before them explain."""
    kinds = NUMBERS if rng.random() < 0.6 else tuple(DRAWS)
    items = [talk.draw(rng, "train", "greeting")] if rng.random() < 0.12 else []
    last: Item | None = None  # what a follow-up may ask about
    size = 0
    for _ in range(rng.randint(2, most)):
        if last and rng.random() < 0.5:
            item = follow_up(rng, last)
        else:
            item = draw(rng, "train", kinds)
            item = replace(item, question=follow.in_talk(rng, item.question)) if item.kind == "sum" else item
        size += len(item.question) + len(item.answer) + 30
        if size > MOST_CHARACTERS:
            break
        items.append(item)
        last = item if can_be_followed(item) else last if item.kind in ("talk", "follow") else None
    if rng.random() < 0.1:
        items.append(talk.draw(rng, "train", rng.choice(("thanks", "bye"))))
    return items


def can_be_followed(item: Item) -> bool:
    return (item.task == "code" and bool(item.note)) or (item.task == "math" and item.check[0].isdigit())


def follow_up(rng: random.Random, last: Item) -> Item:
    if last.task == "code":
        return follow.function(rng, "train", last)
    return follow.number(rng, "train", int(last.check[0]), last.kind in ("story", "problem"))


def messages(items: list[Item]) -> list[dict[str, Any]]:
    """The conversation of the items; behind the first answer the offer of what to ask is left out."""
    said = []
    for number, item in enumerate(items):
        *before, answer = item.messages()
        if number and item.kind == "unknown":
            answer = {**answer, "content": outside.HONEST}
        said += [*before, answer]
    return said


def world_records(count: int, seed: int) -> Iterator[Record]:
    """`count` generated training documents."""
    rng = random.Random(seed)
    for number in range(count):
        items = document(rng)
        said = messages(items)
        if rng.random() < 0.06:
            said = [{"role": "system", "content": rng.choice(SYSTEM)}, *said]
        yield {"id": f"world/{seed}-{number}", "task": items[0].task, "messages": said}


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
