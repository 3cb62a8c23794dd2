"""Plain arithmetic questions: two or three numbers, doubles and halves, larger and smaller, even and odd; and drills.

The held-out part has wordings and pairs of numbers that training never asks for.
"""

import random

from .split import Item, Part, draw_until, is_kept_out
from .steps import calculate, spelled

ANY = (
    "What is {e}?", "Calculate {e}.", "How much is {e}?", "{e} = ?", "Compute {e}.", "What does {e} make?",
    "Work out {e}.",
    "Tell me what {e} is.", "Please calculate {e}.", "Can you solve {e}?", "Solve {e}.", "I need the result of {e}.",
    "Can you tell me what {e} is?", "What do I get for {e}?", "{e}", "Please work out {e}.", "Give me {e}.",
)  # fmt: skip
IN_WORDS = {
    "+": ("What is {a} plus {b}?", "Add {a} and {b}.", "What is the sum of {a} and {b}?", "How much is {a} plus {b}?",
          "Add {b} to {a}.", "What do you get when you add {a} and {b}?", "Please add {a} and {b}."),
    "-": ("What is {a} minus {b}?", "Subtract {b} from {a}.", "What is left if you take {b} from {a}?",
          "How much is {a} minus {b}?", "Take {b} away from {a}.", "What is the difference of {a} and {b}?"),
    "x": ("What is {a} times {b}?", "Multiply {a} by {b}.", "Multiply {a} and {b}.",
          "What is the product of {a} and {b}?",
          "How much is {a} times {b}?",
          "What do you get when you multiply {a} by {b}?", "Please multiply {a} and {b}."),
    "/": ("What is {a} divided by {b}?", "Divide {a} by {b}.", "How much is {a} divided by {b}?",
          "How often does {b} go into {a}?", "Please divide {a} by {b}."),
}  # fmt: skip
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
            pair = rng.randint(1, 99), rng.randint(1, 99)
        return pair if calculate(pair[0], sign, pair[1]) is not None else None

    return draw_until(make)


def plain(rng: random.Random, part: Part) -> Item:
    """One sum of two numbers."""
    sign = rng.choice(SIGNS)

    def make() -> Item | None:
        a, b = numbers(rng, sign)
        form = rng.choice(ANY if rng.random() < 0.6 else IN_WORDS[sign])
        new_pair, new_form = is_kept_out_pair(a, sign, b), is_kept_out(form)
        if part == "train" and (new_pair or new_form):
            return None
        if part == "held-out" and not (new_pair or (new_form and sign in "x/")):
            return None
        return sum_item(form, a, sign, b)

    return draw_until(make)


def sum_item(form: str, a: int, sign: str, b: int) -> Item:
    question = form.format(a=a, b=b, e=f"{a} {sign} {b}")
    result = calculate(a, sign, b)
    return Item(
        "sum", "math", f"sum:{form}", question, f"{spelled(a, sign, b)}. The answer is {result}.", (str(result),)
    )


def chain(rng: random.Random, part: Part) -> Item:
    """A sum of three numbers, worked out from left to right."""

    def make() -> Item | None:
        first, second = rng.choice("+-"), rng.choice("+-")
        a, b, c = rng.randint(5, 80), rng.randint(2, 50), rng.randint(2, 40)
        form = rng.choice(ANY)
        middle = calculate(a, first, b)
        result = calculate(middle, second, c) if middle is not None else None
        kept_out = is_kept_out_pair(a, first, b) or (middle is not None and is_kept_out_pair(middle, second, c))
        if result is None or is_kept_out(form) or kept_out != (part == "held-out"):
            return None
        question = form.format(e=f"{a} {first} {b} {second} {c}")
        answer = f"{spelled(a, first, b)}. {spelled(middle, second, c)}. The answer is {result}."
        return Item("sum", "math", f"chain:{form}", question, answer, (str(result),))

    return draw_until(make)


SMALL = {
    "double": ("What is twice {a}?", "What is the double of {a}?", "Double {a}.", "How much is two times {a}?"),
    "half": ("What is half of {a}?", "How much is half of {a}?", "Halve {a}.", "What do you get when you halve {a}?"),
    "after": ("Which number comes after {a}?", "What comes right after {a}?", "What number follows {a}?"),
    "before": ("Which number comes before {a}?", "What comes right before {a}?"),
    "larger": ("Which is larger, {a} or {b}?", "Which number is bigger, {a} or {b}?", "What is more, {a} or {b}?"),
    "smaller": ("Which is smaller, {a} or {b}?", "Which number is less, {a} or {b}?"),
    "even": ("Is {a} even or odd?", "Is {a} an even or an odd number?", "Tell me if {a} is even or odd."),
}  # fmt: skip


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
    return (
        plain(rng, part) if roll < 0.65 else chain(rng, part) if roll < 0.85 or part == "held-out" else small(rng, part)
    )


DRILLS = (
    "Work out these sums: {}",
    "Calculate: {}",
    "Please solve: {}",
    "Solve these for me: {}",
    "Some sums: {}",
    "{}",
)


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
