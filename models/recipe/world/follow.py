"""Follow-ups: questions that only the conversation before them explains, "Add 5 to that" or "Call it total instead".

Held out are some wordings. Knows the last number or the last function, nothing else of a conversation.
"""

import random
import re

from . import composed, functions, stories, sums
from .split import Item, Part, draw_until, is_kept_out
from .steps import calculate, spelled
from .sums import SPELLINGS, addends, in_words, is_kept_out_pair
from .wordings import COLOURS, MORE_THINGS, PLACES, THINGS, kinds, lines

IT, DOUBLE, HALVE, SIGNED, AGAIN, PARITY, NEXT, LARGER, RENAME, PURPOSE, REPEAT = (
    lines("follow", name)
    for name in ("IT", "DOUBLE", "HALVE", "SIGNED", "AGAIN", "PARITY", "NEXT", "LARGER", "RENAME", "PURPOSE", "REPEAT")
)
ACTIONS, EVENTS = kinds("follow", "ACTIONS"), kinds("follow", "EVENTS")
# What people say before a question, and behind one.
OPENERS = ("Ok. ", "Ok, ", "Fine. ", "Nice. ", "Thanks. ", "Super. ", "Yes. ", "Perfect. ", "Well, ", "Sure. ",
           "Alright, ", "Very good. ", "Great! ", "Good, ", "Oh, ", "So ", "Good job. ", "I see. ", "Next one. ",
           "Cool, ", "So, ", "Then, ", "Please, ", "Fine, ", "Hey, ", "Teacher, ", "Look, ", "Good. ", "Done. ",
           "Quick: ")  # fmt: skip
CLOSERS = (" now", ", please", " please", " again", " too", ", ok")
NAMES = ("she", "he", "I", "Anna", "Tom")


def trained(forms: tuple[str, ...], rng: random.Random, part: Part) -> str:
    """A wording of the part; where all of a few are on one side, any."""
    wanted = [form for form in forms if is_kept_out(f"follow {form}", 14) == (part == "held-out")]
    return rng.choice(wanted or forms)


def number(rng: random.Random, part: Part, last: int, told: bool) -> Item:
    """A question about the last number; `told`: it was the number of a story, which may go on."""

    def make() -> Item | None:
        roll = rng.random()
        if roll < 0.16:
            return about(rng, part, last)
        sign = rng.choice("++++---xx/")
        right = rng.randint(2, 5) if sign in "x/" else rng.choice((rng.randint(1, 9), max(1, addends(rng)[1])))
        result = calculate(last, sign, right)
        if result is None or (is_kept_out_pair(last, sign, right) and part == "train"):
            return None
        form = wording(rng, part, sign, right, told)
        if form is None:
            return None
        signed = f"{rng.choice(SPELLINGS[sign])}{rng.choice(('', ' '))}{right}"
        return item(rng, form, f"{spelled(last, sign, right)}. The answer is {result}.", str(result), right, signed)

    return draw_until(make)


def wording(rng: random.Random, part: Part, sign: str, right: int, told: bool) -> str | None:
    if part == "train" and rng.random() < 0.55:
        goes_on = told and sign in EVENTS and rng.random() < 0.5
        return composed.happening(rng, sign) if goes_on else composed.calculation(rng, sign, right)
    if sign in EVENTS and told and rng.random() < 0.5:
        return trained(EVENTS[sign], rng, part)
    if right == 2 and sign in "x/" and rng.random() < 0.7:
        return trained(DOUBLE if sign == "x" else HALVE, rng, part)
    if part == "train" and rng.random() < 0.12:
        return rng.choice(SIGNED)
    return trained(ACTIONS[sign], rng, part)


def about(rng: random.Random, part: Part, last: int) -> Item:
    """A question that changes nothing: is it even, is it more than 20, what was it again."""
    kind = rng.choice((AGAIN, AGAIN, PARITY, NEXT, LARGER))
    form = trained(kind, rng, part)
    other = rng.choice([number for number in range(1, 100) if number != last])
    if kind is AGAIN:
        text, result = "", str(last)
    elif kind is PARITY:
        result = "odd" if last % 2 else "even"
        text = f"{last} ends in {last % 10}, so it is {result}. "
    elif kind is NEXT:
        text, result = f"{last} + 1 = {last + 1}. ", str(last + 1)
    else:
        result = "yes" if last > other else "no"
        text = f"{last} is {'larger' if last > other else 'smaller'} than {other}. "
    return item(rng, form, f"{text}The answer is {result}.", result, other)


def item(rng: random.Random, form: str, answer: str, result: str, right: int, signed: str = "") -> Item:
    question = form.format(it=rng.choice(IT), b=in_words(right, rng), n=rng.choice(NAMES), signed=signed)
    question = re.sub(r"\bI (get|buy|find|win|give|lose|sell)s\b", r"I \1", question)
    question = question if rng.random() < 0.2 else question[0].upper() + question[1:]
    return Item("follow", "math", form, in_talk(rng, question), answer, (result,))


def in_talk(rng: random.Random, question: str) -> str:
    """The question as it comes up in a talk: now and then with a word before or behind it."""
    if rng.random() < 0.12 and question[-1] in "?.":
        question = question[:-1] + rng.choice(CLOSERS) + question[-1]
    if rng.random() < 0.22:
        opener = rng.choice(OPENERS)
        small = opener[-2] not in ".!" and question[1:2].islower()
        question = opener + (question[0].lower() + question[1:] if small else question)
    return question


def new_name(rng: random.Random, code: str) -> str:
    """A name for a function: one that others have, or any words."""
    if rng.random() < 0.4:
        return rng.choice([n for f in functions.families() for n in f.names if n not in code])
    one, other = rng.sample((*COLOURS, *PLACES, *THINGS, *MORE_THINGS), 2)
    return rng.choice((one, one, f"{one}_{other}", f"my_{one}", f"do_{one}", f"{one}_it", f"get_{one}"))


def function(rng: random.Random, part: Part, last: Item) -> Item:
    """A question about the last function: another name, what it does, the same again."""
    name, *checks = last.check
    code = last.answer
    kind = rng.choice((RENAME, RENAME, PURPOSE, REPEAT))
    form = trained(kind, rng, part)
    said = in_talk(rng, form) if part == "train" else form
    if kind is PURPOSE:
        task = last.note
        return Item("follow", "qa", form, said, f"The function {name} is there to {task}.", (task,))
    new = name if kind is REPEAT else new_name(rng, code)
    answer = re.sub(rf"\b{name}\b", new, code)
    return Item("follow", "code", form, said.format(g=new), answer, (new, *checks), last.note)


def pair(rng: random.Random, part: Part) -> tuple[Item, Item]:
    """A question and its follow-up, for a check."""
    if rng.random() < 0.3:
        first = functions.draw(rng, "train")
        return first, function(rng, part, first)
    first = sums.plain(rng, "train") if rng.random() < 0.5 else stories.draw(rng, "train")
    return first, number(rng, part, int(first.check[0]), first.kind == "story")
