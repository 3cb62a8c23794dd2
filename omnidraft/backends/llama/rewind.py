"""Taking tokens back in a llama.cpp context, by the cheapest way its memory allows.

"cut": a KV cache, sliding windows included, forgets any tail at once. "rollback": llama.cpp keeps the last states of a
recurrent layer (`n_rs_seq`). "replay": the state is copied out before a pass that may have to be taken back, put back,
and the tokens that stay are read again. Knows token ids only as what it is given to count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

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
