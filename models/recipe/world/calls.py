"""Calls of the calculator: what the small world cannot do in its head, where functions are offered.

A conversation says which functions there are. With the calculator among them numbers beyond `HEAD` are given to it, and
its result is the answer; all else is answered as ever. Every result comes from the app's own calculator.
"""

import json
import random

from omnidraft.app.tools.functions import offered, run

from . import composed, follow, problems
from .split import Item, draw_until
from .steps import calculate
from .sums import ANY, IN_WORDS, expression
from .wordings import lines

HEAD = 50  # what is no larger is calculated without help, as long as the result is in the small world
SIGNS = {"+": "+", "-": "-", "x": "*", "/": "/"}
OTHERS = ("weather(city)", "search(query)", "translate(text)", "open_page(address)", "send_mail(to, text)")
ROOTS = lines("calls", "ROOTS")
POWERS = lines("calls", "POWERS")
SQUARES = lines("calls", "SQUARES")
PERCENT = lines("calls", "PERCENT")
TOLD = lines("calls", "TOLD")
ERROR = "The calculator says: {}"
NOTHING = lines("calls", "NOTHING")
TIME = lines("calls", "TIME")
CLOCK = "The clock says {}."
WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def described(names: list[str]) -> list[dict[str, object]]:
    """Functions as OpenAI's format has them: those of the app, and others from a signature such as "weather(city)"."""
    known = {one["function"]["name"]: one for one in offered(())}
    found = []
    for name in names:
        title, _, rest = name.partition("(")
        given = {key: {"type": "string"} for key in rest.rstrip(")").split(", ")}
        other = {"type": "function", "function": {"name": title, "parameters": {"type": "object", "properties": given}}}
        found.append(known.get(title, other))
    return found


def number(rng: random.Random) -> int:
    return rng.choice((rng.randint(11, 99), rng.randint(51, 199), rng.randint(100, 999), rng.randint(1000, 99999)))


def in_head(left: int, sign: str, right: int) -> bool:
    return max(left, right) <= HEAD and calculate(left, sign, right) is not None


def asked(form: str, question: str, text: str) -> Item:
    """A question whose answer is what the calculator makes of `text`."""
    arguments = json.dumps({"expression": text})
    result = run("calculator", arguments, ())
    says = ERROR.format(result.removeprefix("Error: ")) if result.startswith("Error") else f"The answer is {result}."
    called = (("calculator", arguments, result),)
    return Item("call", "math", form, question[0].upper() + question[1:], says, (result,), calls=called)


def plain(rng: random.Random) -> Item | None:
    sign = rng.choice("++-xxx/")
    a, b = number(rng), rng.choice((number(rng), rng.randint(2, 20)))
    if in_head(a, sign, b) or in_head(b, sign, a):
        return None
    if sign == "/" and rng.random() < 0.7:
        a = b * rng.randint(11, 99)
    form = rng.choice(ANY if rng.random() < 0.6 else IN_WORDS[sign])
    if sign == "-" and a < b and form in IN_WORDS["-"]:
        a, b = b, a
    question = form.format(a=a, b=b, e=expression(rng, a, (sign, b)))
    return asked(form, question, f"{a} {SIGNS[sign]} {b}")


def longer(rng: random.Random) -> Item:
    """Three numbers in signs, some in brackets; decimals."""
    a, b, c = number(rng), number(rng), rng.randint(2, 99)
    if rng.random() < 0.3:
        sign, d = rng.choice("+-x"), f"{rng.randint(1, 99)}.{rng.randint(1, 99)}"
        form = rng.choice(ANY)
        text = f"{d} {SIGNS[sign]} {c}" if rng.random() < 0.5 else f"{c} {SIGNS[sign]} {d}"
        return asked(form, form.format(e=text.replace("*", rng.choice("x*"))), text)
    one, two = rng.choice("+-x"), rng.choice("+-x")
    text = rng.choice(("({a} {s} {b}) {t} {c}", "{a} {s} {b} {t} {c}", "{c} {t} ({a} {s} {b})")).format(
        a=a, b=b, c=c, s=SIGNS[one], t=SIGNS[two]
    )
    form = rng.choice(ANY)
    said = text.replace("*", rng.choice("x*"))
    return asked(form, form.format(e=said if rng.random() < 0.7 else said.replace(" ", "")), text)


def other(rng: random.Random) -> Item:
    """Roots, powers, percent."""
    kind = rng.randrange(9)
    a, b = number(rng), rng.randint(2, 12)
    if kind == 8:
        form = rng.choice(NOTHING)
        return asked(form, form.format(a=a), f"{a} / 0")
    kind = kind // 2
    if kind == 0:
        a = rng.randint(2, 40) ** 2 if rng.random() < 0.6 else a
        form = rng.choice(ROOTS)
        return asked(form, form.format(a=a), f"sqrt({a})")
    if kind == 1:
        a, form = rng.randint(2, 30), rng.choice(POWERS)
        return asked(form, form.format(a=a, b=b), f"{a} ** {b}")
    if kind == 2:
        a, form = rng.randint(11, 999), rng.choice(SQUARES)
        return asked(form, form.format(a=a), f"{a} ** 2")
    form, a, b = rng.choice(PERCENT), rng.randint(1, 99), number(rng)
    return asked(form, form.format(a=a, b=b), f"{b} * {a} / 100")


def problem(rng: random.Random) -> Item | None:
    """A word problem of the usual templates with numbers that only the calculator can do."""
    template = rng.choice(problems.templates())
    if template.kept_out or "{ls}" in template.text or len(template.steps) > 2 or "s" in template.steps[-1]:
        return None
    letters = sorted({x for step in template.steps for x in (step[0], step[2])} & set("abcd"))
    values = {x: rng.choice((rng.randint(12, 99), rng.randint(100, 900))) for x in letters}
    made = problems.asked_of(template, rng, values)
    if made is None or problems.is_kept_out_form(template, made[1]):
        return None
    text = problems.written(template, values)
    result = eval(text)
    if result < 0 or result != int(result):
        return None
    return asked(f"problem {template.number}", made[0], text)


def clock(rng: random.Random) -> Item:
    date = f"20{rng.randint(24, 39)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    time = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"
    result = f"{rng.choice(WEEK)}, {date} {time} UTC{rng.choice('+-')}0{rng.randint(0, 9)}00"
    form = rng.choice(TIME)
    return Item("call", "qa", form, form, CLOCK.format(result), (result,), calls=(("clock", "{}", result),))


def again(rng: random.Random, last: Item) -> Item | None:
    """A follow-up on a result of the calculator."""
    before = last.check[0]
    if not before.lstrip("-").isdigit():
        return None
    sign, right = rng.choice("++--x/"), rng.choice((rng.randint(2, 20), number(rng)))
    form = composed.calculation(rng, sign, right)
    question = form.format(it=rng.choice(follow.IT), b=right)
    return asked(form, question, f"{before} {SIGNS[sign]} {right}")


def draw(rng: random.Random) -> Item:
    def make() -> Item | None:
        roll = rng.random()
        made = plain(rng) if roll < 0.5 else longer(rng) if roll < 0.68 else other(rng) if roll < 0.82 else problem(rng)
        if made is None:
            return None
        opening = f"{rng.choice(TOLD)} " if rng.random() < 0.06 else ""
        return made if not opening else Item(**{**vars(made), "question": opening + made.question})

    return draw_until(make)
