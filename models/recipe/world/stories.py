"""Stories in which a number grows and shrinks: "I have 5 apples, eat 2 and buy 4. How many do I have now?"

Composed from openings, events and questions, so that a model meets thousands of wordings; the fixed templates are in
`problems`. Held out are some combinations of these, and pairs of numbers.
"""

import random
from dataclasses import dataclass

from .split import Item, Part, choose, draw_until, is_kept_out
from .steps import calculate, labelled
from .sums import addends, in_words, is_kept_out_pair
from .wordings import COLOURS, GOODS, HE, PLACES, SHE, THINGS, kinds, lines, words

FOOD = words("cookies apples pears muffins rolls plums cherries eggs peaches sandwiches oranges carrots lemons")
LIVING = words("birds ducks children people guests boys girls cats dogs sheep cows horses fish frogs players students "
               "visitors rabbits mice hens")  # fmt: skip

# Each verb as it stands behind he or she, behind I, and in the past.
GAIN, LOSS, EAT, SPEND = (
    tuple(tuple(verb.split(" / ")) for verb in lines("stories", name)) for name in ("GAIN", "LOSS", "EAT", "SPEND")
)
MORE, FEWER, OTHERS_GAIN, OTHERS_LOSE, ARRIVE, LEAVE, ASK_SHARE = (
    lines("stories", name) for name in ("MORE", "FEWER", "OTHERS_GAIN", "OTHERS_LOSE", "ARRIVE", "LEAVE", "ASK_SHARE")
)
STARTS = kinds("stories", "STARTS")
JOINS = (" and ", ", ", ". Then {o2} ", ". {O2} ", " and then ", ", then ", ". Later {o2} ", ". After that, {o2} ",
         ". Next {o2} ", " but ", ". Now {o2} ", ". Today {o2} ")  # fmt: skip
SENTENCES = (". ", ". Then ", ". Later ", ". Now ", " and ", ", then ", ", ", ". After that ", " and then ")
ASK = kinds("stories", "ASK")
ASK_LEFT = kinds("stories", "ASK_LEFT")
SHARE = ("[shares|divides|splits] [them|the rest|what is left|all of them] [equally |evenly |][among|between|with] {b} "
         "[friends|children|people]")  # fmt: skip


@dataclass(frozen=True)
class Story:
    """The words of one story: who, what, and the kind of verbs that fit."""

    kind: str  # person, I, place, living, money
    slots: dict[str, str]
    past: bool

    def verb(self, forms: tuple[str, ...]) -> str:
        return forms[2] if self.past else forms[1 if self.kind == "I" else 0]


def new_story(rng: random.Random) -> Story:
    kind = rng.choices(("person", "I", "place", "living", "money"), (10, 6, 3, 4, 2))[0]
    is_she = rng.random() < 0.5
    name, other = rng.choice(SHE if is_she else HE), rng.choice(SHE + HE)
    things = {"living": LIVING, "money": ("dollars",)}.get(kind, FOOD if rng.random() < 0.35 else THINGS)
    he, him = ("I", "me") if kind == "I" else ("she", "her") if is_she else ("he", "him")
    slots = {"n": name, "m": other if other != name else "Kim", "o": him, "o2": he, "O2": he[0].upper() + he[1:],
             "t": rng.choice(things), "c": rng.choice(COLOURS), "p": rng.choice(PLACES)}  # fmt: skip
    return Story(kind, slots, rng.random() < 0.25)


def event(rng: random.Random, story: Story, sign: str) -> tuple[str, bool]:
    """What happens, with {b} for the number, and whether its subject is the story's own."""
    if story.kind == "living":
        return rng.choice(ARRIVE if sign == "+" else LEAVE), False
    if story.kind == "place" or (rng.random() < 0.15 and story.kind != "money"):
        return rng.choice(OTHERS_GAIN[0 if story.kind != "place" else 2 :] if sign == "+" else OTHERS_LOSE), False
    eats = story.slots["t"] in FOOD and rng.random() < 0.5
    lost = SPEND if story.kind == "money" else EAT if eats else LOSS
    amounts: tuple[str, ...] = MORE if sign == "+" else FEWER
    if story.kind == "money":
        amounts = ("{b} dollars", "{b} dollars more" if sign == "+" else "{b} of them", "{b}")
    behind = f" for a {rng.choice(sorted(GOODS))}" if lost is SPEND and sign == "-" and rng.random() < 0.4 else ""
    return f"{story.verb(rng.choice(GAIN if sign == '+' else lost))} {rng.choice(amounts)}{behind}", True


def joined(rng: random.Random, story: Story, sign: str) -> tuple[str, str]:
    """An event with what joins it to the text before, and its wording."""
    what, own = event(rng, story, sign)
    return rng.choice(JOINS if own else SENTENCES) + what, what


def make_steps(rng: random.Random, count: int) -> list[tuple[int, str, int]] | None:
    small = rng.random() < 0.6
    left = rng.randint(2, 20) if small else rng.randint(5, 99)
    done = []
    for _ in range(count):
        sign, right = rng.choice("+-"), rng.randint(1, 10) if small else max(1, addends(rng)[1])
        result = calculate(left, sign, right)
        if not result:
            return None
        done.append((left, sign, right))
        left = result
    return done


def shared(rng: random.Random, left: int) -> tuple[int, str, int] | None:
    among = rng.randint(2, 6)
    return (left, "/", among) if calculate(left, "/", among) else None


def label(story: Story, sign: str) -> str:
    return f"{story.slots['t']} {'now' if sign == '+' else 'left' if sign == '-' else 'for each'}"


def tell(rng: random.Random, story: Story, done: list[tuple[int, str, int]]) -> tuple[str, str]:
    """The question and its wording; the numbers are those of the steps."""
    start = rng.choice(STARTS[story.kind])
    text, form = choose(start, rng)[0].format(a=in_words(done[0][0], rng), **story.slots), start
    for _, sign, right in done:
        what, wording = (f". {story.slots['O2']} {SHARE}", SHARE) if sign == "/" else joined(rng, story, sign)
        if sign == "/" and story.kind == "I":
            what = what.replace("[shares|divides|splits]", "[share|divide|split]")
        slots = {**story.slots, "b": in_words(right, rng)}
        text += choose(what.format(**slots), rng)[0].format(**slots)
        form += "|" + wording
    last = done[-1][1]
    asks = ASK_SHARE if last == "/" else ASK_LEFT[story.kind] if last == "-" and rng.random() < 0.6 else ASK[story.kind]
    ask = rng.choice(asks)
    return f"{_sentences(text)}. {choose(ask.format(**story.slots), rng)[0]}", f"{form}|{ask}"


def _sentences(text: str) -> str:
    """The text with a capital at the beginning of each sentence."""
    return ". ".join(part[0].upper() + part[1:] for part in text.split(". "))


def draw(rng: random.Random, part: Part) -> Item:
    def make() -> Item | None:
        story = new_story(rng)
        done = make_steps(rng, rng.choices((1, 2, 3), (4, 6, 1))[0])
        if done is None:
            return None
        if story.kind in ("person", "I") and rng.random() < 0.1:
            step = shared(rng, calculate(*done[-1]) or 0)
            done = [*done, step] if step else done
        question, form = tell(rng, story, done)
        kept_out = any(is_kept_out_pair(*step) for step in done) or is_kept_out(form)
        if kept_out != (part == "held-out"):
            return None
        lines = [labelled(label(story, step[1]), *step) for step in done]
        result = str(calculate(*done[-1]))
        return Item("story", "math", form, question, " ".join([*lines, f"The answer is {result}."]), (result,))

    return draw_until(make)
