"""Arguments as in Python's calls (`name='value', other=[1]`) or in objects with bare keys (`name:<|"|>value<|"|>`)."""

from __future__ import annotations

from typing import Any

from omnidraft.backends.prompting.formats.loose import ends_value, read_loose
from omnidraft.backends.prompting.formats.pattern import overlap, skip_space
from omnidraft.backends.prompting.formats.shapes import LooseArguments
from omnidraft.backends.prompting.formats.values import Pairs, Say, dump, typed


class LooseReader:
    """`name=value` pairs up to the closing bracket; each pair is said when it is whole, its name before."""

    def __init__(self, shape: LooseArguments, schema: Any, say: Say) -> None:
        self.done = self.failed = False
        self._shape = shape
        self._pairs = Pairs(schema, say)
        self._quotes = (*shape.quotes, '"', "'")
        self._name: str | None = None
        self._parts: list[str] = []  # of the name or value that is being read
        self._depth = 0
        self._quote = ""

    def feed(self, text: str, at: int, final: bool) -> int:
        while not (self.done or self.failed) and at < len(text):
            step = self._in_quote(text, at, final) if self._quote else self._step(text, at, final)
            if step == at:
                break
            at = step
        self.failed = self.failed or (final and not self.done)
        return at

    def _step(self, text: str, at: int, final: bool) -> int:
        """Past the next character that means something; not at all if it may be the beginning of a quote."""
        quote = next((q for q in self._quotes if text.startswith(q, at)), None)
        if quote is not None:
            self._quote = quote
            self._parts.append(quote)
            return at + len(quote)
        if not final and any(q.startswith(text[at : at + len(q)]) for q in self._quotes if len(text) - at < len(q)):
            return at
        sign = text[at]
        if not self._depth and sign in (self._shape.closer, ",", self._shape.assign):
            self._between(sign)
            return at + 1
        self._depth += (sign in "([{") - (sign in ")]}")
        self.failed = self._depth < 0
        self._parts.append(sign)
        return at + 1

    def _between(self, sign: str) -> None:
        """At the end of a name or a value."""
        text = "".join(self._parts)
        self._parts = []
        if sign == self._shape.assign and self._name is None:
            self._begin(text)
        elif sign == self._shape.assign:
            self._parts = [text, sign]
        else:
            self._pair(text)
            if sign == self._shape.closer and not self.failed:
                self._pairs.close()
                self.done = True

    def _in_quote(self, text: str, at: int, final: bool) -> int:
        quote = self._quote
        end = text.find(quote, at)
        slash = text.find("\\", at, end if end >= 0 else len(text)) if len(quote) == 1 else -1
        if slash >= 0:
            to = slash + 2 if slash + 1 < len(text) or final else slash
        elif end >= 0:
            to = end + len(quote)
            if len(quote) == 1 and not final and skip_space(text, to) == len(text):
                to = end  # what follows tells if it closes
            elif len(quote) > 1 or ends_value(text, to, ",)]}:=" if self._depth else "," + self._shape.closer):
                self._quote = ""
        else:
            to = len(text) if final else len(text) - overlap(text[at:], quote)
        self._parts.append(text[at:to])
        return to

    def _begin(self, name: str) -> None:
        self._name = name.strip().strip("\"'")
        self.failed = not self._name or len(self._name) > 256
        if not self.failed:
            self._pairs.key(self._name)

    def _pair(self, text: str) -> None:
        if self._name is None:
            self.failed = bool(text.strip())
            return
        try:
            value = read_loose(text.strip(), self._shape.quotes)
        except ValueError:
            self.failed = True
            return
        if isinstance(value, str) and text.strip() == value:  # a bare word
            value = typed(value, self._pairs.types(self._name))
        elif not isinstance(value, str) and self._pairs.types(self._name) == {"string"}:
            value = text.strip()
        self._pairs.say(dump(value))
        self._name = None
