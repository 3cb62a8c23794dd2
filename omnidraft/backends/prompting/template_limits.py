"""What a chat template may do with values: its filters, methods and operators, each asking the budget first.

The filters are jinja2's own, those that templates in circulation use; what grows a text by a number is checked
before it is computed.
"""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, ValuesView
from contextvars import ContextVar
from functools import wraps
from typing import Any

import jinja2
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.tests import TESTS

# How much work and memory one rendering of a chat template may take, and what its values weigh. Templates come with
# model files and are not trusted: a few words of one can ask for a number of a billion digits or a loop within loops.
# Everything that a template does passes through a `Budget` (sandbox.py sees to that), which refuses what would not fit
# before it is computed. Knows nothing of jinja2's inner workings or of messages.


MAX_STEPS = 2_000_000  # turns of loops, calls, entries looked at
MAX_CHARACTERS = 1 << 28  # copied, compared or searched, all together; and many times what was given
MAX_SIZE = 1 << 24  # characters and entries of one value; and some times what was given
MAX_BITS = 4096  # of a whole number
MAX_SECONDS = 3.0  # of the processor's time: what the counting misses ends here
_COPIES = 64  # of what was given, all together
_LARGEST = 8  # times what was given, in one value

_SEQUENCES = (list, tuple, set, frozenset, deque, KeysView, ValuesView, ItemsView)


class TemplateLimit(jinja2.TemplateError):
    """The template asks for more time or memory than a prompt can need."""

    def __init__(self) -> None:
        super().__init__("it takes more time or memory than a prompt can need")


class Budget:
    """What is left for one rendering of `given` (the values it works on)."""

    def __init__(self, given: Any) -> None:
        self._weights: dict[int, tuple[Any, int]] = {}
        self._steps, self._characters, self._largest = 1 << 62, 1 << 62, 1 << 62
        self._until, self._spent = time.thread_time() + MAX_SECONDS, 0
        size = self.weigh(given)
        self._given = frozenset(self._weights)
        self._steps = MAX_STEPS
        self._characters = MAX_CHARACTERS + _COPIES * size
        self._largest = MAX_SIZE + _LARGEST * size

    def spend(self, steps: int = 0, characters: int = 0) -> None:
        """TemplateLimit if that is more than what is left."""
        self._steps -= steps
        self._characters -= characters
        self._spent += 1
        late = not self._spent & 63 and time.thread_time() > self._until
        if self._steps < 0 or self._characters < 0 or late:
            raise TemplateLimit

    def fits(self, size: int) -> None:
        """TemplateLimit if a value of that size is too large; else it is paid for."""
        if size > self._largest:
            raise TemplateLimit
        self.spend(1, size)

    def weigh(self, value: Any) -> int:
        """Characters and entries of a value with all that is in it, counted as often as it is in it.

        What was weighed keeps its weight until the template changes a list.
        """
        if isinstance(value, (str, bytes)):
            return len(value) + 1
        if isinstance(value, int):
            if value.bit_length() > MAX_BITS:
                raise TemplateLimit
            return 1
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
            self.spend(1 + len(value))
            weight = 1 + sum(map(self.weigh, entries))
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

    def made(self, value: Any) -> Any:
        """A value that something has just made: weighed, and paid for if it is text."""
        if isinstance(value, (str, bytes)):
            self.fits(len(value))
        elif isinstance(value, Iterator):
            return self._counted(value)
        else:
            self.weigh(value)
        return value

    def look_through(self, value: Any) -> None:
        """Pay for going through all of `value`."""
        self.spend(1, self.weigh(value))

    def look_over(self, value: Any) -> None:
        """Pay for text, or for going along the entries of anything else."""
        if isinstance(value, (str, bytes)):
            self.spend(0, len(value))
        elif isinstance(value, (dict, range, *_SEQUENCES)):
            self.spend(len(value) >> 4)

    def _counted(self, values: Iterator[Any]) -> Iterator[Any]:
        for value in values:
            self.spend(1, len(value) if isinstance(value, (str, bytes)) else 0)
            yield value


_current: ContextVar[Budget] = ContextVar("template budget")


def current() -> Budget:
    """The budget of the rendering that runs in this thread."""
    return _current.get()


def begin(given: Any) -> Budget:
    """A new budget, which holds from now on in this thread."""
    budget = Budget(given)
    _current.set(budget)
    return budget


_MOST = 1 << 17
_WIDEST = 1000  # characters that a text is filled up to
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
_OVER = """
    attr batch count d default first items last length list map reject rejectattr reverse select selectattr slice
"""
_THROUGH = """
    abs capitalize dictsort e escape float forceescape groupby int lower max min safe sort string striptags title trim
    truncate unique upper urlencode wordcount
"""


def filters() -> dict[str, Callable[..., Any]]:
    own: dict[str, Callable[..., Any]] = {
        "center": _center, "format": _format, "indent": _indent, "join": _join, "replace": _replace, "round": _round,
        "sum": _sum, "tojson": _tojson,
    }  # fmt: skip
    return {
        **{name: _paid(FILTERS[name], Budget.look_over) for name in _OVER.split()},
        **{name: _paid(FILTERS[name], Budget.look_through) for name in _THROUGH.split()},
        **{name: _paid(function, Budget.look_over) for name, function in own.items()},
    }


def tests() -> dict[str, Callable[..., Any]]:
    tests: dict[str, Any] = dict(TESTS)
    return {name: _paid(function, Budget.look_through) for name, function in tests.items()}


def _paid(function: Callable[..., Any], price: Callable[[Budget, Any], None]) -> Callable[..., Any]:
    """`function`, which pays for its arguments and for what it makes."""
    hidden = int(hasattr(function, "jinja_pass_arg"))  # jinja2's own first argument

    @wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        budget = current()
        budget.spend(1)
        for value in (*args[hidden:], *options.values()):
            price(budget, value)
        # Counts of anything: no list for a prompt is cut into that many parts.
        if any(isinstance(value, int) and abs(value) > _MOST for value in (*args[hidden + 1 :], *options.values())):
            raise TemplateLimit
        return budget.made(function(*args, **options))

    return run


def check_method(owner: Any, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """jinja2.TemplateError if a method of a plain value is none that templates need, or would make too much."""
    allowed = next((names for kind, names in _METHODS.items() if isinstance(owner, kind)), frozenset())
    if name not in allowed:
        raise jinja2.TemplateError(f"chat templates may not use {type(owner).__name__}.{name}")
    budget = current()
    for value in (owner, *args, *options.values()):
        budget.look_over(value)
    if isinstance(owner, list) and name in ("append", "pop"):
        budget.change(owner)
    if not isinstance(owner, str):
        return
    if name in ("center", "ljust", "rjust", "zfill"):
        _check_width(args[0] if args else 0)
    elif name == "replace":
        check_replace(owner, *args[:2])
    elif name == "join" and args:
        check_join(owner, args[0])
    elif name in ("split", "rsplit", "splitlines"):
        budget.spend(len(owner) >> 4)


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
                budget.fits(budget.weigh(value) * max(count, 0))
        if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > MAX_BITS:
            raise TemplateLimit
    elif operator == "+" and isinstance(left, (str, bytes, list, tuple)):
        budget.fits(budget.weigh(left) + budget.weigh(right))
    elif operator == "%" and isinstance(left, (str, bytes)):
        check_format(str(left), "%", (right,))


def check_format(form: str, sign: str, values: Iterable[Any]) -> None:
    if _DIGITS.search(form):
        raise TemplateLimit
    budget = current()
    largest = max((budget.weigh(value) for value in values), default=1)
    budget.fits(len(form) + form.count(sign) * (_WIDEST + 4 * largest))


def check_replace(text: str, old: Any = "", new: Any = "") -> None:
    budget = current()
    found = text.count(str(old)) if old else len(text) + 1
    budget.fits(len(text) + found * len(str(new)))


def check_join(separator: str, values: Any) -> None:
    budget = current()
    count = len(values) if hasattr(values, "__len__") else 0
    budget.fits(4 * budget.weigh(values) + count * len(separator))


def _check_width(width: Any) -> None:
    if isinstance(width, int) and width > _WIDEST:
        raise TemplateLimit


def _center(value: Any, width: int = 80) -> str:
    _check_width(width)
    return FILTERS["center"](value, width)


def _format(value: Any, *args: Any, **options: Any) -> str:
    check_format(str(value), "%", (*args, *options.values()))
    return FILTERS["format"](value, *args, **options)


def _indent(s: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    _check_width(width)
    current().fits(len(s) + (s.count("\n") + 2) * (width if isinstance(width, int) else len(width)))
    return FILTERS["indent"](s, width, first, blank)


@jinja2.pass_eval_context
def _join(context: Any, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    budget = current()
    if attribute is not None:
        value = budget.made(map(make_attrgetter(context.environment, attribute), value))
    values = value if hasattr(value, "__len__") else list(value)
    check_join(str(d), values)
    return FILTERS["join"](context, values, d)


@jinja2.pass_eval_context
def _replace(context: Any, s: str, old: str, new: str, count: int | None = None) -> str:
    check_replace(str(s), old, new)
    return FILTERS["replace"](context, s, old, new, count)


def _round(value: float, precision: int = 0, method: Any = "common") -> float:
    if not -100 <= precision <= 100:
        raise TemplateLimit
    return FILTERS["round"](value, precision, method)


@jinja2.pass_environment
def _sum(environment: Any, iterable: Iterable[Any], attribute: str | int | None = None, start: float = 0) -> Any:
    if not isinstance(start, (int, float)):
        raise TemplateLimit
    return FILTERS["sum"](environment, iterable, attribute, start)


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
    budget.fits(6 * budget.weigh(value))
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
