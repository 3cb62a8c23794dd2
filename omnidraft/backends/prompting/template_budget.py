"""How much work and memory one rendering of a chat template may take, and what its values weigh.

Templates come with model files and are not trusted: a few words of one can ask for a number of a billion digits or a
loop within loops. Everything that a template does passes through a `Budget` (sandbox.py sees to that), which refuses
what would not fit before it is computed. Knows nothing of jinja2's inner workings or of messages.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import ItemsView, Iterable, Iterator, KeysView, ValuesView
from contextvars import ContextVar
from typing import Any

import jinja2

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
