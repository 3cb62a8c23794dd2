"""Calculations of two or three steps, in signs ("2 + 3 x 4") and in words ("Take 5, add 3, then halve it.").

Held out are some wordings and, as for sums of two numbers, pairs of numbers. Stories are in `stories`.
"""

import random

from .split import Item, Part, draw_until, is_kept_out
from .steps import calculate, spelled
from .sums import ALWAYS, ANY, addends, expression, in_words, is_kept_out_pair
from .wordings import kinds, lines

Step = tuple[int, str, int]  # left, sign, right

STARTS, DOUBLE, HALVE, TRIPLE, TWICE, HALF = (
    lines("chains", name) for name in ("STARTS", "DOUBLE", "HALVE", "TRIPLE", "TWICE", "HALF")
)
ACTIONS, PAIRS = kinds("chains", "ACTIONS"), kinds("chains", "PAIRS")
JOINS = (", then ", " and ", ", ", ". Then ", " and then ", ", and then ", ", after that ", ". After that, ", "; then ",
         " ", ", next ", ". Next, ", ". Now ", " and now ", "; ", ", now ", " then ", ". Later ", " - then ",
         " and next ")  # fmt: skip
ENDS = ("", ".", ". What do I get?", ". What is the result?", ". What comes out?", ". How much is it?", ". What is it?",
        ". Which number is that?", ". What do I have?", ". What is the answer?", "?", ". What is left?",
        " gives what?", " makes?", " is how much?", ", how much?", ". So?", " comes to what?", ". Then I have what?",
        ", please.", ", what is it?", ". Tell me the number.", " leaves how much?", " makes how much?", " equals what?",
        ". What does it make?", ", tell me.", ". Your result?", "!", ". Where do I end?", " is?", " - what is it?",
        ". How many are that?", ". Say what comes out.", ". And the end result?", ". Work it out.")  # fmt: skip
SIGNS = "++++----xx/"


def steps(rng: random.Random, count: int) -> list[Step] | None:
    """Steps that each begin with the last result, or None where these numbers do not come out."""
    left = rng.choice((addends(rng)[0], rng.randint(1, 12)))
    done = []
    for _ in range(count):
        sign = rng.choice(SIGNS)
        right = rng.randint(2, 10) if sign in "x/" else addends(rng)[1]
        result = calculate(left, sign, right)
        if result is None or right == 0:
            return None
        done.append((left, sign, right))
        left = result
    return done


def answer(done: list[Step]) -> tuple[str, str]:
    """The steps written out, and the result."""
    result = str(calculate(*done[-1]))
    return " ".join([*(f"{spelled(*step)}." for step in done), f"The answer is {result}."]), result


def action(rng: random.Random, sign: str, right: int, share: float) -> str:
    if right == 2 and sign in "x/" and rng.random() < 0.7:
        return rng.choice(DOUBLE if sign == "x" else HALVE)
    if right == 3 and sign == "x" and rng.random() < 0.7:
        return rng.choice(TRIPLE)
    return rng.choice(ACTIONS[sign]).format(b=in_words(right, rng, share))


def in_sentences(rng: random.Random, done: list[Step]) -> tuple[str, str]:
    """ "Take 5, add 3, then halve it. What do I get?" and the wording it has."""
    first = done[0]
    share = 0.9 if rng.random() < 0.2 else 0.1
    if rng.random() < 0.5:
        opening = rng.choice(STARTS)
        text, following = opening.format(a=in_words(first[0], rng, share)), done
    else:
        pairs = {"x": TWICE, "/": HALF}.get(first[1], ()) if first[2] == 2 else ()
        opening = rng.choice(pairs or PAIRS[first[1]])
        text, following = opening.format(a=in_words(first[0], rng, share), b=in_words(first[2], rng, share)), done[1:]
    joins = [rng.choice(JOINS) for _ in following]
    text += "".join(
        join + action(rng, sign, right, share) for join, (_, sign, right) in zip(joins, following, strict=True)
    )
    end = rng.choice(ENDS)
    return text[0].upper() + text[1:] + end, f"{opening}{joins[-1]}{end}"


def in_signs(rng: random.Random, done: list[Step]) -> tuple[str, str]:
    """The steps as one expression, in brackets where signs alone would mean another order."""
    text = str(done[0][0])
    low = False  # what stands so far is a sum
    for _, sign, right in done:
        if sign in "x/" and low:
            text, low = f"({text})", False
        low = low or sign in "+-"
        text += expression(rng, right, (sign, 0)).removeprefix(str(right)).removesuffix("0") + str(right)
    form = rng.choice(ANY)
    question = form.format(e=text)
    return question, f"chain {form}"


def times_first(rng: random.Random) -> tuple[str, str, list[Step]] | None:
    """A product behind a sum's sign, which goes first: "2 + 3 x 4"."""
    a, b, c, sign = rng.randint(1, 60), rng.randint(2, 10), rng.randint(2, 10), rng.choice("+-")
    if calculate(a, sign, b * c) is None:
        return None
    form = rng.choice(ANY)
    question = form.format(e=expression(rng, a, (sign, b), ("x", c)))
    return question, f"times first {form}", [(b, "x", c), (a, sign, b * c)]


def draw(rng: random.Random, part: Part) -> Item:
    def make() -> Item | None:
        roll = rng.random()
        made = times_first(rng) if roll < 0.08 else None
        done = made[2] if made else steps(rng, 2 if rng.random() < 0.8 else 3)
        if done is None:
            return None
        question, form = made[:2] if made else (in_signs if roll < 0.4 else in_sentences)(rng, done)
        new_pair = any(is_kept_out_pair(*step) for step in done)
        new_form = not any(form.endswith(usual) for usual in ALWAYS) and is_kept_out(form)
        if (new_pair or new_form) != (part == "held-out"):
            return None
        text, result = answer(done)
        return Item("chain", "math", form, question, text, (result,))

    return draw_until(make)
