"""Plain arithmetic questions: two or three numbers, doubles and halves, larger and smaller, even and odd; and drills.

The held-out part has wordings and pairs of numbers that training never asks for.
"""

import random

from .split import Item, Part, draw_until, is_kept_out
from .steps import calculate, spelled
from .wordings import kinds, lines, words

ANY = lines("sums", "ANY")
ALWAYS = lines("sums", "ALWAYS")
IN_WORDS = kinds("sums", "IN_WORDS")
WORDS = words("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
              "seventeen eighteen nineteen twenty")  # fmt: skip
SPELLINGS = {"+": "+", "-": "-", "x": "xx**×", "/": "//:÷"}
SIGNS = "+++---xx/"


def is_kept_out_pair(left: int, sign: str, right: int) -> bool:
    """Pairs that training never asks for. What is one entry of a small table must be seen, so only larger sums."""
    return sign in "+-" and right > 10 and right % 10 != 0 and is_kept_out(f"{left}{sign}{right}")


def numbers(rng: random.Random, sign: str) -> tuple[int, int]:
    """Two numbers whose result lies between 0 and 100."""

    def make() -> tuple[int, int] | None:
        if sign == "x":
            pair = (
                (rng.randint(2, 10), rng.randint(2, 10))
                if rng.random() < 0.7
                else (rng.randint(11, 50), rng.randint(2, 9))
            )
        elif sign == "/":
            right, result = rng.randint(2, 10), rng.randint(1, 10)
            pair = right * result, right
        else:
            pair = addends(rng)
        return pair if calculate(pair[0], sign, pair[1]) is not None else None

    return draw_until(make)


def addends(rng: random.Random) -> tuple[int, int]:
    """Two numbers to add or to subtract; small ones, which are asked first, far more often than chance has them."""
    roll = rng.random()
    if roll < 0.4:
        return rng.randint(1, 9), rng.randint(1, 9)
    if roll < 0.6:
        return rng.randint(0, 20), rng.randint(0, 20)
    return rng.randint(1, 99), rng.randint(1, 99)


def expression(rng: random.Random, first: int, *rest: tuple[str, int]) -> str:
    """The numbers and signs as people type them: "2 + 3", "2+3", "4*5"."""
    space = " " if rng.random() < 0.6 else ""
    return str(first) + "".join(f"{space}{rng.choice(SPELLINGS[sign])}{space}{number}" for sign, number in rest)


def in_words(number: int, rng: random.Random, share: float = 0.15) -> str:
    """The number as people write it: small ones now and then as a word."""
    return WORDS[number] if number <= 20 and rng.random() < share else str(number)


def is_kept_out_wording(form: str) -> bool:
    return form not in ALWAYS and is_kept_out(form)


def plain(rng: random.Random, part: Part) -> Item:
    """One sum of two numbers."""
    sign = rng.choice(SIGNS)

    def make() -> Item | None:
        a, b = numbers(rng, sign)
        form = rng.choice(ANY if rng.random() < 0.6 else IN_WORDS[sign])
        new_pair, new_form = is_kept_out_pair(a, sign, b), is_kept_out_wording(form)
        if part == "train" and (new_pair or new_form):
            return None
        if part == "held-out" and not (new_pair or (new_form and sign in "x/")):
            return None
        return sum_item(rng, form, a, sign, b)

    return draw_until(make)


def sum_item(rng: random.Random, form: str, a: int, sign: str, b: int) -> Item:
    question = form.format(a=in_words(a, rng), b=in_words(b, rng), e=expression(rng, a, (sign, b)))
    question = question[0].upper() + question[1:]
    result = calculate(a, sign, b)
    return Item(
        "sum", "math", f"sum:{form}", question, f"{spelled(a, sign, b)}. The answer is {result}.", (str(result),)
    )


SMALL = kinds("sums", "SMALL")


def small(rng: random.Random, part: Part) -> Item:
    """A question about one number or two, answered in one step."""
    kind = rng.choice(list(SMALL))
    form = rng.choice(SMALL[kind])
    a, b = rng.sample(range(1, 100), 2)
    if kind == "double":
        a = rng.randint(1, 50)
        result = str(a * 2)
        text = f"2 x {a} = {result}. The answer is {result}."
    elif kind == "half":
        result = str(rng.randint(1, 50))
        a = 2 * int(result)
        text = f"{a} / 2 = {result}. The answer is {result}."
    elif kind in ("after", "before"):
        result = str(a + 1 if kind == "after" else a - 1)
        text = f"{a} {'+' if kind == 'after' else '-'} 1 = {result}. The answer is {result}."
    elif kind in ("larger", "smaller"):
        result = str(max(a, b) if kind == "larger" else min(a, b))
        other = min(a, b) if kind == "larger" else max(a, b)
        text = f"{result} is {kind} than {other}. The answer is {result}."
    else:
        result = "odd" if a % 2 else "even"
        text = f"{a} ends in {a % 10}, so it is {result}. The answer is {result}."
    return Item("sum", "math", f"small:{form}", form.format(a=a, b=b), text, (result,))


def draw(rng: random.Random, part: Part) -> Item:
    roll = rng.random()
    return plain(rng, part) if roll < 0.85 or part == "held-out" else small(rng, part)


DRILLS = lines("sums", "DRILLS")


def drill(rng: random.Random) -> Item:
    """Many sums in one question; training only. What is kept out as a pair is kept out here too."""

    def pair() -> tuple[int, str, int] | None:
        sign = rng.choice(SIGNS)
        a, b = numbers(rng, sign)
        return None if is_kept_out_pair(a, sign, b) else (a, sign, b)

    asked = [draw_until(pair) for _ in range(rng.randint(4, 10))]
    form = rng.choice(DRILLS)
    question = form.format(", ".join(f"{a} {sign} {b}" for a, sign, b in asked) + ".")
    answer = "\n".join(f"{spelled(a, sign, b)}." for a, sign, b in asked)
    return Item("drill", "math", f"drill:{form}", question, answer)
