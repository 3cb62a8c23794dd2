"""Tries to read a call from where one may begin; what turns out to be none is given back as it was."""

from __future__ import annotations

from collections.abc import Sequence

from omnidraft.backends.prompting.formats.calls import CallReader, Tools, call_reader
from omnidraft.backends.prompting.formats.events import Event
from omnidraft.backends.prompting.formats.pattern import MORE, CallShape, JsonCalls, Match, Pattern, match, skip_space

Candidate = tuple[Pattern, CallShape]


class Attempt:
    """candidates: what may stand here, in the order to try it. Then one of three is set, or more text is needed.

    done: a call was read, `rest` is what stands behind it; failed: there is none; broken: it had begun and never ended.
    """

    def __init__(self, candidates: Sequence[Candidate], tools: Tools) -> None:
        self.done = self.failed = self.broken = False
        self.shape = candidates[0][1]
        self.rest = ""
        self._candidates, self._tools = list(candidates), tools
        self._raw: list[str] = []
        self._events: list[Event] = []
        self._reader: CallReader | None = None
        self._next()

    def feed(self, text: str, final: bool) -> list[Event]:
        self._raw.append(text)
        self.rest += text
        while not (self.done or self.failed or self.broken):
            if self._reader is None and not self._open(final):
                break
            if self._reader is not None and not self._read(self._reader, final):
                break
        events, self._events = self._events, []
        return events

    @property
    def raw(self) -> str:
        """All that was read of the call."""
        whole = "".join(self._raw)
        return whole[: len(whole) - len(self.rest)]

    def _open(self, final: bool) -> bool:
        """Past what leads to the call; False if more text is needed for it."""
        found = match(self._opening, self.rest, 0, final) if self._opening else Match(0)
        if found is MORE:
            return False
        if not isinstance(found, Match):
            self._next()
            return True
        start = skip_space(self.rest, found.end)
        if isinstance(self.shape.body, JsonCalls):
            start = skip_space(self.rest, start + 1) if self.rest.startswith("[", start) else start
        if start == len(self.rest):
            if final:
                self._next()
            return final
        self.rest = self.rest[start:]
        self._reader = call_reader(self.shape, self._tools, lambda event: self._events.append(event))
        return True

    def _read(self, reader: CallReader, final: bool) -> bool:
        stop = reader.feed(self.rest, 0, final)
        self.rest = self.rest[stop:]
        self.done = reader.done
        if reader.failed:
            self.broken = reader.begun
            if not reader.begun:
                self._next()
        return reader.done or reader.failed

    def _next(self) -> None:
        """On to the next candidate, from the beginning."""
        self._reader = None
        self.rest = "".join(self._raw)
        self.failed = not self._candidates
        if self._candidates:
            self._opening, self.shape = self._candidates.pop(0)
