"""Taking tokens back in a llama.cpp context, by the cheapest way its memory allows.

"cut": a KV cache, sliding windows included, forgets any tail at once. "rollback": llama.cpp keeps the last states of a
recurrent layer (`n_rs_seq`). "replay": the state is copied out before a pass that may have to be taken back, put back,
and the tokens that stay are read again. Knows token ids only as what it is given to count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.llama.sizes import state_bytes

Method = Literal["cut", "rollback", "replay"]
ROLLBACK = 16  # states kept per sequence: a round seldom proposes more
_ROLLBACK_BUDGET = 512 << 20  # bytes they may take together


class Context(Protocol):
    """What is needed of a `LlamaContext`, or of the cache of a model in a folder."""

    rollback: int

    def cut(self, length: int) -> bool: ...
    def clear(self) -> None: ...
    def save_state(self) -> Any: ...
    def restore_state(self, state: Any, length: int) -> bool: ...


@dataclass(frozen=True, slots=True)
class Mark:
    """The state behind the first `length` tokens."""

    length: int
    state: Any


class Rewinder:
    """Keeps what is needed to take tokens back, and takes them back."""

    def __init__(self, context: Context, method: Method) -> None:
        self.method = method
        self._context = context
        self._prompt: Mark | None = None  # where the answer began: it may be asked for again
        self._round: Mark | None = None  # before the last pass over proposals
        self._start = 0  # tokens before the last pass, if it can be rolled back
        self._reading = False

    def before_pass(self, held: int, rows: int) -> None:
        """A pass that gives `rows` rows of logits is about to extend `held` tokens."""
        if self.method == "cut":
            return
        if rows == 0:
            self._reading = True
        elif self._reading and held:
            self._prompt, self._reading = Mark(held, self._context.save_state()), False
        covered = self.method == "rollback" and rows <= self._context.rollback + 1
        if rows > 1 and not covered:
            self._round = Mark(held, self._context.save_state())
        self._start = held

    def back_to(self, length: int, held: int) -> int:
        """Take back what is behind `length` of `held` tokens, or more. Returns how many tokens are left.

        If that is less than `length`, the caller reads those in between again.
        """
        if length == 0:
            return self._forget()
        if self.method == "cut":
            return length if self._context.cut(length) else self._forget()
        # llama.cpp also accepts cuts to the very start of the pass and beyond, and then computes with a wrong state.
        near = self.method == "rollback" and self._start < length and held - length <= self._context.rollback
        if near and self._context.cut(length):
            self._start = held  # one rollback per pass: the kept states count from its end
            return length
        self._start = held
        marks = [mark if mark and mark.length <= length else None for mark in (self._prompt, self._round)]
        last = max(filter(None, marks), key=lambda mark: mark.length, default=None)
        if last is not None and self._context.restore_state(last.state, last.length):
            self._prompt, self._round = marks
            return last.length
        return self._forget()

    def forget(self) -> None:
        """The context was emptied."""
        self._prompt = self._round = None
        self._start, self._reading = 0, False

    def _forget(self) -> int:
        self._context.clear()
        self.forget()
        return 0


def rollback_steps(info: ModelInfo) -> int:
    """How many states to ask llama.cpp to keep for a model with recurrent layers; 0 for others or if they are large."""
    each = state_bytes(info)
    return min(ROLLBACK, _ROLLBACK_BUDGET // each) if each else 0


# Where tokens stand in a llama.cpp cache that holds pictures. A picture takes as many positions as its model counts
# for it, which is fewer than its rows where positions have three axes (M-RoPE). Everybody else counts rows; only this
# knows positions.


class _Seen(NamedTuple):
    start: int  # rows before the picture
    end: int  # rows up to its end
    position: int  # of what follows it


class Positions:
    def __init__(self) -> None:
        self._seen: list[_Seen] = []

    def behind(self, rows: int) -> int:
        """The position of what follows the first `rows` rows; ValueError inside a picture."""
        for seen in reversed(self._seen):
            if rows >= seen.end:
                return seen.position + rows - seen.end
            if rows > seen.start:
                raise ValueError(f"row {rows} is inside a picture")
        return rows

    def add(self, start: int, rows: int, positions: int) -> None:
        """A picture was read behind `start` rows."""
        self._seen.append(_Seen(start, start + rows, self.behind(start) + positions))

    def rows(self, last: int) -> int:
        """How many rows a cache holds whose last position is `last`."""
        for seen in reversed(self._seen):
            if last >= self.behind(seen.start):
                return seen.end + max(0, last + 1 - seen.position)
        return last + 1

    def cut(self, rows: int) -> None:
        """Everything behind `rows` rows was forgotten."""
        while self._seen and self._seen[-1].end > rows:
            del self._seen[-1]


# How many tokens each pass of llama.cpp takes. Knows nothing of what they are.


def passes(count: int, rows: int, batch: int, max_rows: int) -> list[tuple[int, int]]:
    """(tokens, rows) of each pass over `count` tokens that gives the last `rows` rows: full batches without rows, then
    at most `max_rows` rows in each."""
    if 0 < count <= batch and rows <= max_rows:  # as most are
        return [(count, rows)]
    first, found = min(rows, max_rows), []
    left = count - rows + first
    while left > batch:
        step = min(batch, left - first)
        found.append((step, 0))
        left -= step
    if left:
        found.append((left, first))
    return [*found, *((n := min(more, max_rows), n) for more in range(rows - first, 0, -max_rows))]
