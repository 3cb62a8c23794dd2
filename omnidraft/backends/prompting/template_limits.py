"""What a chat template may do with values: its filters, methods and operators, each asking the budget first.

The filters are jinja2's own, those that templates in circulation use; what grows a text by a number is checked
before it is computed.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import deque
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, ValuesView
from contextvars import ContextVar
from functools import wraps
from typing import Any

import jinja2
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.tests import TESTS

# How much time and memory one rendering of a chat template may take, and what its values weigh. Templates come with
# model files and are not trusted: a few words of one can ask for a number of a billion digits or a loop within loops.
# Everything that a template does passes through a `Budget` (sandbox.py sees to that): what would be too large is
# refused before it is computed, and as no value is, no single step lasts long; between steps it looks at the clock.
# Knows nothing of jinja2's inner workings or of messages.


# Sizes are characters.
MAX_MADE = 1 << 28  # all together; and many times what was given
MAX_SIZE = 1 << 24  # of one value; and some times what was given
MAX_BITS = 4096  # of a whole number
MAX_SECONDS = 3.0  # of the processor's time
_COPIES = 64  # of what was given, all together
_LARGEST = 8  # times what was given, in one value
_ENTRY = 32  # what an entry takes besides what it holds
_STEP, _GLANCE = 64, 4096  # what a step takes as long as, and what is done between looks at the clock

_SEQUENCES = (list, tuple, set, frozenset, deque, KeysView, ValuesView, ItemsView)


class TemplateLimit(jinja2.TemplateError):
    """The template asks for more time or memory than a prompt can need."""

    def __init__(self) -> None:
        super().__init__("it takes more time or memory than a prompt can need")


class Budget:
    """What is left for one rendering of `given` (the values it works on)."""

    def __init__(self, given: Any) -> None:
        self._weights: dict[int, tuple[Any, int]] = {}
        self._until, self._unseen = time.thread_time() + MAX_SECONDS, 0
        self._left = self._largest = sys.maxsize
        size = self.weigh(given)
        self._given = frozenset(self._weights)
        self._left, self._largest = MAX_MADE + _COPIES * size, MAX_SIZE + _LARGEST * size

    def step(self, size: int = 0) -> None:
        """A step over something of that size; TemplateLimit if time is up."""
        self._unseen += _STEP + size
        if self._unseen > _GLANCE:
            self._unseen = 0
            if time.thread_time() > self._until:
                raise TemplateLimit

    def pay(self, size: int) -> None:
        """For a value of that size; TemplateLimit if it is too large, or too much was made before."""
        self._left -= size
        if size > self._largest or self._left < 0:
            raise TemplateLimit
        self.step(size)

    def weigh(self, value: Any) -> int:
        """The size of a value with all that is in it, counted as often as it is in it.

        What was weighed keeps its weight until the template changes a list.
        """
        if isinstance(value, (str, bytes)):
            return len(value) + 1
        if isinstance(value, int):
            if value.bit_length() > MAX_BITS:
                raise TemplateLimit
            return 1 + value.bit_length() // 3
        if isinstance(value, range):
            return len(value) + 1
        entries: Iterable[Any]
        if isinstance(value, dict):
            entries = (*value.keys(), *value.values())
        elif isinstance(value, _SEQUENCES):
            entries = value
        else:
            return 1
        known = self._weights.get(id(value))
        if known is None:
            self.pay(_ENTRY * len(value))
            weight = 1 + _ENTRY * len(value) + sum(map(self.weigh, entries))
            if weight > self._largest:
                raise TemplateLimit
            known = self._weights[id(value)] = (value, weight)
        return known[1]

    def change(self, value: list[Any]) -> None:
        """The list is about to grow or shrink, with all that holds it. What was given keeps its weight: it may not."""
        if id(value) in self._given:
            raise jinja2.TemplateError("chat templates may not change what they are given")
        for known in self._weights.keys() - self._given:
            del self._weights[known]

    def see(self, value: Any) -> Any:
        """The value, which is about to be gone through."""
        self.step(self.weigh(value))
        return value

    def made(self, value: Any) -> Any:
        """A value that something has just made: weighed, and paid for if it is text."""
        if isinstance(value, Iterator):
            return map(self.made, value)
        if isinstance(value, (str, bytes)):
            self.pay(len(value))
        return self.see(value)


_current: ContextVar[Budget] = ContextVar("template budget")


def current() -> Budget:
    """The budget of the rendering that runs in this thread."""
    return _current.get()


def begin(given: Any) -> None:
    """A new budget, which holds from now on in this thread."""
    _current.set(Budget(given))


_MOST = 1 << 17
_WIDEST = 1000  # characters that a field of a format is taken to have at least
_DIGITS = re.compile(r"\d{4,}|\*|\{[^}]*\{")  # in a format: widths, or fields inside of fields
_TEXT_METHODS = """
    capitalize casefold center count endswith find format format_map index isalnum isalpha isascii isdecimal isdigit
    isidentifier islower isnumeric isspace istitle isupper join ljust lower lstrip partition removeprefix removesuffix
    replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title upper zfill
"""
_METHODS = {
    str: frozenset(_TEXT_METHODS.split()),
    dict: frozenset(("get", "items", "keys", "values", "copy")),
    list: frozenset(("append", "count", "index", "copy", "pop")),
    tuple: frozenset(("count", "index")),
    float: frozenset(("is_integer",)),
}
_FILTERS = """
    abs attr batch capitalize center count d default dictsort e escape first float forceescape format groupby indent
    int items join last length list lower map max min reject rejectattr replace reverse round safe select selectattr
    slice sort string striptags sum title tojson trim truncate unique upper urlencode wordcount
"""


def filters() -> dict[str, Any]:
    checks: dict[str, Any]
    checks = {"format": _check_format, "indent": _check_indent, "replace": _check_replace, "sum": _check_sum}
    known: dict[str, Any] = {**FILTERS, "join": _join, "tojson": _tojson}
    return {name: _paid(known[name], checks.get(name)) for name in _FILTERS.split()}


def tests() -> dict[str, Any]:
    known: dict[str, Any] = dict(TESTS)
    return {name: _paid(function) for name, function in known.items()}


def _paid(function: Callable[..., Any], check: Callable[..., None] | None = None) -> Callable[..., Any]:
    """`function`, for whose arguments and result the budget is asked."""
    hidden = int(hasattr(function, "jinja_pass_arg"))  # jinja2's own first argument

    @wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        budget = current()
        for value in (*args[hidden:], *options.values()):
            budget.see(value)
        _check_numbers((*args[hidden + 1 :], *options.values()))
        if check is not None:
            check(*args[hidden:], **options)
        return budget.made(function(*args, **options))

    return run


def _check_numbers(values: Iterable[Any]) -> None:
    """Counts and widths: no list for a prompt is cut into that many parts, no text filled up that far."""
    if any(isinstance(value, int) and abs(value) > _MOST for value in values):
        raise TemplateLimit


def check_method(owner: Any, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """jinja2.TemplateError if a method of a plain value is none that templates need, or would make too much."""
    allowed = next((names for kind, names in _METHODS.items() if isinstance(owner, kind)), frozenset())
    if name not in allowed:
        raise jinja2.TemplateError(f"chat templates may not use {type(owner).__name__}.{name}")
    budget = current()
    for value in (owner, *args, *options.values()):
        budget.see(value)
    if isinstance(owner, list) and name in ("append", "pop"):
        budget.change(owner)
    elif isinstance(owner, str) and name in ("center", "ljust", "rjust", "zfill"):
        _check_numbers(args)
    elif isinstance(owner, str) and name == "replace":
        _check_replace(owner, *args[:2])
    elif isinstance(owner, str) and name == "join" and args:
        _check_join(owner, args[0])
    elif isinstance(owner, str) and name in ("format", "format_map"):
        _check_fields(owner, "{", (*args, *options.values()))


def check_binary(operator: str, left: Any, right: Any) -> None:
    """TemplateLimit if the result would be too large; called before it is computed."""
    budget = current()
    if operator == "**":
        power = abs(right) if isinstance(right, int) else 0
        if isinstance(left, int) and (power > MAX_BITS or left.bit_length() * power > MAX_BITS):
            raise TemplateLimit
    elif operator == "*":
        for value, count in ((left, right), (right, left)):
            if isinstance(value, (str, bytes, list, tuple)) and isinstance(count, int):
                budget.pay(budget.weigh(value) * max(count, 0))
        if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > MAX_BITS:
            raise TemplateLimit
    elif operator == "+" and isinstance(left, (str, bytes, list, tuple)):
        budget.pay(budget.weigh(left) + budget.weigh(right))
    elif operator == "%" and isinstance(left, (str, bytes)):
        _check_format(str(left), right)


def _check_fields(form: str, sign: str, values: Iterable[Any]) -> None:
    """sign: what each field begins with."""
    if _DIGITS.search(form):
        raise TemplateLimit
    budget = current()
    largest = max((budget.weigh(value) for value in values), default=1)
    budget.pay(len(form) + form.count(sign) * (_WIDEST + 4 * largest))


def _check_format(form: Any, *args: Any, **options: Any) -> None:
    _check_fields(str(form), "%", (*args, *options.values()))


def _check_replace(text: Any, old: Any = "", new: Any = "", _count: Any = None) -> None:
    found = str(text).count(str(old)) if old else len(str(text)) + 1
    current().pay(len(str(text)) + found * len(str(new)))


def _check_join(separator: str, values: Any) -> None:
    budget = current()
    count = len(values) if hasattr(values, "__len__") else 0
    budget.pay(budget.weigh(values) + count * len(separator))


def _check_indent(s: str, width: int | str = 4, *_: Any, **_more: Any) -> None:
    current().pay(len(s) + (s.count("\n") + 2) * (width if isinstance(width, int) else len(width)))


def _check_sum(_values: Any, attribute: Any = None, start: Any = 0) -> None:
    if not isinstance(start, (int, float)):  # lists would be copied again for each that is added
        raise TemplateLimit


@jinja2.pass_eval_context
def _join(context: Any, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    budget = current()
    if attribute is not None:
        value = budget.made(map(make_attrgetter(context.environment, attribute), value))
    values = value if hasattr(value, "__len__") else list(value)
    _check_join(str(d), values)
    return FILTERS["join"](context, values, d)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    """jinja2's own filter escapes HTML characters, which would change what the model reads."""
    width = indent if isinstance(indent, int) else len(indent or "")
    short = all(isinstance(text, str) and len(text) <= 16 for text in separators or ())
    if not 0 <= width <= 64 or not short:
        raise TemplateLimit
    budget = current()
    budget.pay(6 * budget.weigh(value))
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
