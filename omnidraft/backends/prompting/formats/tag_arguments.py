"""Arguments between tags of their own: `<parameter=NAME>VALUE</parameter>`.

Strings are said while they are written; everything else when it is whole, typed by the tool's schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnidraft.backends.prompting.formats.chat_format import LooseArguments, TagArguments
from omnidraft.backends.prompting.formats.json_values import (
    ANY,
    Pairs,
    Say,
    dump,
    ends_value,
    read_loose,
    typed,
    types_of,
)
from omnidraft.backends.prompting.formats.pattern import KEY, MORE, Item, Match, match, overlap, skip_space

_VERBATIM = "<![CDATA["


class TagReader:
    """One tag per argument; strings are said while they are written."""

    def __init__(self, shape: TagArguments, schema: Any, say: Say) -> None:
        self.done = self.failed = False
        self._shape = shape
        self._pairs = Pairs(schema, say)
        self._head = (*shape.begin, *shape.key_end)
        self._key = ""
        self._end: tuple[Item, ...] = ()
        self._types = ANY
        self._inside = False
        self._begun = False  # something of the value has been seen
        self._parts: list[str] = []
        self._quoted = False  # a string is being said

    def feed(self, text: str, at: int, final: bool) -> int:
        while not (self.done or self.failed):
            before, inside = at, self._inside
            at = self._value(text, at, final) if self._inside else self._next(text, at, final)
            if at == before and inside == self._inside:
                break
        return at

    def _next(self, text: str, at: int, final: bool) -> int:
        """The next argument's beginning, or the end of all."""
        start = skip_space(text, at)
        over = match(self._shape.done, text, start, final) if self._shape.done else None
        found = match(self._head, text, start, final)
        if isinstance(over, Match) or (start == len(text) and final):
            self._pairs.close()
            self.done = True
            return over.end if isinstance(over, Match) else start
        if isinstance(found, Match) and over is None:
            self._begin(found)
            return found.end
        if found is None and over is None:
            self.done = not self._shape.done
            self.failed = not self.done
            if self.done:
                self._pairs.close()
        return at

    def _begin(self, found: Match) -> None:
        self._key = found.gaps.get("key", "").strip()
        self._types = self._pairs.types(self._key)
        word = found.gaps.get("word")
        if word is not None and self._shape.text_word is not None:
            is_text = word == self._shape.text_word
            self._types = frozenset(("string",)) if is_text else (self._types - {"string"} or ANY - {"string"})
        self._end = tuple(self._key if item == KEY else item for item in self._shape.end)
        self._inside, self._begun, self._parts = True, False, []
        self._pairs.key(self._key)
        self._quoted = self._types == {"string"}
        if self._quoted:
            self._pairs.say('"')

    def _value(self, text: str, at: int, final: bool) -> int:
        before = at
        if not self._begun:
            space = self._shape.space_before
            if text.startswith(space, at):
                at += len(space)
            elif space.startswith(text[at:]) and not final:
                return at
            if text.startswith(_VERBATIM, at):
                at += len(_VERBATIM)
                self._end = ("]]>", *self._end)
            elif _VERBATIM.startswith(text[at:]) and not final:
                return before
            self._begun = True
        first = str(self._end[0])
        search = at
        while (stop := text.find(first, search)) >= 0:
            found = match(self._end, text, stop, final)
            if found is MORE:
                break
            if isinstance(found, Match):
                self._finish(text[at:stop])
                return found.end
            search = stop + 1
        if final:
            self._finish(text[at:])
            self._pairs.close()
            self.done = True
            return len(text)
        hold = stop if stop >= 0 else len(text) - overlap(text[at:], first)
        space = self._shape.space_behind
        hold = max(at, hold - len(space)) if space else hold
        self._take(text[at:hold])
        return hold

    def _take(self, text: str) -> None:
        if self._quoted:
            self._pairs.say(dump(text)[1:-1])
        else:
            self._parts.append(text)

    def _finish(self, rest: str) -> None:
        rest = rest.removesuffix(self._shape.space_behind)
        self._inside = False
        if self._quoted:
            self._pairs.say(dump(rest)[1:-1] + '"')
            return
        text = "".join([*self._parts, rest])
        self._pairs.say(dump(nested(text, self._types, self._pairs.schema_of(self._key), self._shape)))


def nested(text: str, types: frozenset[str], schema: Any, shape: TagArguments) -> Any:
    """The value, which may be made of tags itself where the tags are named like the arguments."""
    if KEY not in shape.end or types == {"string"}:
        return typed(text, types)
    entries = _entries(text, shape)
    if entries is None:
        return typed(text, types)
    schema = schema if isinstance(schema, Mapping) else {}
    names = [name for name, _ in entries]
    if types == {"array"} or (types != {"object"} and (len(names) > 1 or names == ["item"]) and len(set(names)) == 1):
        inner = schema.get("items")
        return [nested(value, types_of(inner), inner, shape) for _, value in entries]
    pairs = Pairs(schema, lambda _: None)
    return {name: nested(value, pairs.types(name), pairs.schema_of(name), shape) for name, value in entries}


def _entries(text: str, shape: TagArguments) -> list[tuple[str, str]] | None:
    """The tags that a text consists of, with what is in each; None if it is no row of tags."""
    found, at = [], skip_space(text, 0)
    while at < len(text):
        head = match((*shape.begin, *shape.key_end), text, at, True)
        if not isinstance(head, Match):
            return None
        name = head.gaps["key"]
        opener = "".join(str(name if item == KEY else item) for item in (*shape.begin, *shape.key_end))
        closer = "".join(str(name if item == KEY else item) for item in shape.end)
        end, depth = head.end, 1
        while depth:
            stop = text.find(closer, end)
            if stop < 0:
                return None
            depth += text.count(opener, end, stop) - 1
            end = stop + len(closer)
        found.append((name, text[head.end : end - len(closer)]))
        at = skip_space(text, end)
    return found or None


# Arguments as in Python's calls (`name='value', other=[1]`) or in objects with bare keys (`name:<|"|>value<|"|>`).


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
