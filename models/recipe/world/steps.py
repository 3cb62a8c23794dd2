"""Arithmetic up to 100, written out so that each step is one entry of a small table: tens first, then ones.

Knows numbers only. Every line is computed here, never typed.
"""

LIMIT = 100


def calculate(left: int, sign: str, right: int) -> int | None:
    """The result, or None where it is no whole number between 0 and 100 or is too hard to be written in short steps."""
    result: int | None
    if sign == "+":
        result = left + right
    elif sign == "-":
        result = left - right
    elif sign == "x":
        result = left * right if min(left, right) <= 10 else None
    elif sign == "/":
        result = left // right if right and left % right == 0 and right <= 12 and left // right <= 12 else None
    else:
        raise ValueError(f"{sign!r} is no sign")
    return result if result is not None and 0 <= result <= LIMIT else None


def is_direct(left: int, sign: str, right: int) -> bool:
    """True if the result is one entry of a table, so that there is nothing to write out."""
    if sign in "+-":
        return right < 10 or right % 10 == 0
    return sign == "/" or max(left, right) <= 12


def work_out(left: int, sign: str, right: int) -> str:
    """The steps from the two numbers to the result, such as "23 + 40 = 63, 63 + 5 = 68"."""
    result = calculate(left, sign, right)
    if result is None:
        raise ValueError(f"{left} {sign} {right} is outside")
    if is_direct(left, sign, right):
        return f"{left} {sign} {right} = {result}"
    if sign in "+-":
        tens, ones = right - right % 10, right % 10
        middle = left + tens if sign == "+" else left - tens
        return f"{left} {sign} {tens} = {middle}, {middle} {sign} {ones} = {result}"
    if left < right:
        left, right = right, left
    tens, ones = left - left % 10, left % 10
    if not ones:
        return f"{left} x {right} = {result}"
    sum_up = work_out(tens * right, "+", ones * right)
    return f"{tens} x {right} = {tens * right}, {ones} x {right} = {ones * right}, {sum_up}"


def spelled(left: int, sign: str, right: int) -> str:
    """The calculation with its steps behind a colon, or alone if it is one step."""
    steps = work_out(left, sign, right)
    return steps if is_direct(left, sign, right) else f"{left} {sign} {right}: {steps}"


def labelled(label: str, left: int, sign: str, right: int) -> str:
    """A line of a word problem: what is found, the calculation, its steps."""
    steps = work_out(left, sign, right)
    line = f"{label}: {steps}." if is_direct(left, sign, right) else f"{label}: {left} {sign} {right}. {steps}."
    return line[0].upper() + line[1:]
