"""Follows a text through a grammar, byte by byte: all ways in which it may be understood at once.

A reading is a place in the grammar and the places to return to. Readings that have become the same are one, sets of
them are numbered, and every step between sets is remembered: a loop over the characters of a string is walked once.
Work for one token and memory for all are limited; GrammarError says so where a grammar needs more.
"""

from __future__ import annotations

from omnidraft.backends.prompting.gbnf.limits import MAX_READINGS, MAX_STATES, MAX_STEPS, too_ambiguous
from omnidraft.backends.prompting.gbnf.program import BYTE, CLASS, END, Program
from omnidraft.backends.prompting.gbnf.utf8 import DEAD, DONE

NOWHERE = -1  # the state behind a byte that cannot come
_BOTTOM = -1  # nothing to return to
_ENDED = (-1, -1, -1)  # the reading that is over

Reading = tuple[int, int, int]  # state inside a character, position, what to return to


class Machine:
    """`state`: where the text so far stands. Call `begin_token` before the steps of each token."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._steps = 0
        self._forget()
        found: set[Reading] = set()
        for start in program.starts[program.root]:
            self._settle(start, _BOTTOM, found)
        self.state = self._numbered(found)

    def begin_token(self) -> bool:
        """Count work from here. Where too much is remembered it goes, and states get new numbers: True then."""
        self._steps = 0
        if len(self._states) <= MAX_STATES and len(self._returns) <= 4 * MAX_STATES:
            return False
        self._start_over()
        return True

    def ended(self, state: int) -> bool:
        """Whether the text may be over there."""
        return _ENDED in self._states[state]

    def step(self, state: int, byte: int) -> int:
        """The state behind `byte`, or NOWHERE."""
        key = state << 8 | byte
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._step(state, byte)
        return known

    def walk(self, state: int, data: bytes) -> int:
        """The state behind all of `data`, or NOWHERE."""
        for byte in data:
            if state == NOWHERE:
                break
            state = self.step(state, byte)
        return state

    def _step(self, state: int, byte: int) -> int:
        program, found = self._program, set[tuple[int, int, int]]()
        for inside, position, back in self._states[state]:
            if position < 0:
                continue
            if program.kinds[position] == BYTE:
                if program.values[position] == byte:
                    self._settle(position + 1, back, found)
                continue
            inside = program.classes[program.values[position]].step(inside, byte)
            if inside == DONE:
                self._settle(position + 1, back, found)
            elif inside != DEAD:
                found.add((inside, position, back))
        self._work(len(self._states[state]))
        return self._numbered(found) if found else NOWHERE

    def _settle(self, position: int, back: int, found: set[Reading]) -> None:
        """Add to `found` every place where a character may come next, from `position` on."""
        kinds, values, starts = self._program.kinds, self._program.values, self._program.starts
        todo, seen = [(position, back)], {(position, back)}
        while todo:
            position, back = todo.pop()
            kind = kinds[position]
            if kind in (BYTE, CLASS):
                found.add((0, position, back))
                continue
            if kind == END:
                following = [self._returns[back]] if back != _BOTTOM else []
                if not following:
                    found.add(_ENDED)
            else:
                if kinds[position + 1] != END:  # else there is nothing to do there but to return further
                    back = self._return_to(position + 1, back)
                following = [(start, back) for start in starts[values[position]]]
            following = [place for place in following if place not in seen]
            seen.update(following)
            todo += following
            self._work(1 + len(following))
            if len(found) > MAX_READINGS:
                raise too_ambiguous()

    def _work(self, amount: int) -> None:
        self._steps += amount
        if self._steps > MAX_STEPS:
            raise too_ambiguous()

    def _return_to(self, position: int, back: int) -> int:
        place = (position, back)
        if place not in self._return_numbers:
            self._return_numbers[place] = len(self._returns)
            self._returns.append(place)
        return self._return_numbers[place]

    def _numbered(self, found: set[Reading]) -> int:
        if len(found) > MAX_READINGS:
            raise too_ambiguous()
        readings = frozenset(found)
        if readings not in self._numbers:
            self._numbers[readings] = len(self._states)
            self._states.append(readings)
        return self._numbers[readings]

    def _forget(self) -> None:
        self._states: list[frozenset[Reading]] = []
        self._numbers: dict[frozenset[Reading], int] = {}
        self._known: dict[int, int] = {}
        self._returns: list[tuple[int, int]] = []
        self._return_numbers: dict[tuple[int, int], int] = {}

    def _start_over(self) -> None:
        """Remember nothing but where the text stands."""
        readings, returns = self._states[self.state], self._returns
        self._forget()
        moved = {_BOTTOM: _BOTTOM}
        for _, _, back in readings:
            chain = []
            while back not in moved:
                chain.append(back)
                back = returns[back][1]
            for old in reversed(chain):
                position, below = returns[old]
                moved[old] = self._return_to(position, moved[below])
        self.state = self._numbered({(inside, position, moved[back]) for inside, position, back in readings})
