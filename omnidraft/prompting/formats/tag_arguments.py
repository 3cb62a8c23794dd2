"""Arguments between tags of their own: `<parameter=NAME>VALUE</parameter>`.

Strings are said while they are written; everything else when it is whole, typed by the tool's schema.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from omnidraft.prompting.formats.chat_format import LooseArguments, TagArguments
from omnidraft.prompting.formats.json_values import (
    ANY,
    STRING,
    Pairs,
    Say,
    dump,
    ends_value,
    read_loose,
    typed,
    types_of,
)
from omnidraft.prompting.formats.pattern import (
    KEY,
    MORE,
    Incoming,
    Item,
    Match,
    Steps,
    match,
    overlap,
    skip_space,
)

_VERBATIM = "<![CDATA["


class TagReader:
    """One tag per argument; strings are said while they are written."""

    def __init__(self, shape: TagArguments, schema: Any, say: Say) -> None:
        self._shape = shape
        self._pairs = Pairs(schema, say)
        self._head = (*shape.begin, *shape.key_end)

    def read(self, source: Incoming) -> Steps:
        while isinstance(found := (yield from self._next(source)), Match):
            source.at = found.end
            yield from self._argument(source, found)
        if found:
            self._pairs.close()
        return found

    def _next(self, source: Incoming) -> Generator[None, None, Match | bool]:
        """The next argument's beginning; where there is none, whether arguments may end so."""
        done = self._shape.done
        while True:
            start = skip_space(source.text, source.at)
            over = match(done, source.text, start, source.final) if done else None
            found = match(self._head, source.text, start, source.final)
            if isinstance(over, Match) or (start == len(source.text) and source.final):
                source.at = over.end if isinstance(over, Match) else start
                return True
            if over is None and found is not MORE:
                return found if isinstance(found, Match) else not done
            yield

    def _argument(self, source: Incoming, found: Match) -> Iterator[None]:
        key = found.gaps.get("key", "").strip()
        types = self._types(key, found.gaps.get("word"))
        quoted = types == STRING
        self._pairs.key(key)
        if quoted:
            self._pairs.say('"')
        yield from source.past(self._shape.space_before)
        end = [key if item == KEY else item for item in self._shape.end]
        if (yield from source.past(_VERBATIM)):
            end = ["]]>", *end]
        if quoted:
            yield from self._up_to(end, source, lambda text: self._pairs.say(dump(text)[1:-1]))
            self._pairs.say('"')
            return
        parts: list[str] = []
        yield from self._up_to(end, source, parts.append)
        value = nested("".join(parts), types, self._pairs.schema_of(key), self._shape)
        self._pairs.say(dump(value))

    def _types(self, key: str, word: str | None) -> frozenset[str]:
        types = self._pairs.types(key)
        if word is None or self._shape.text_word is None:
            return types
        return STRING if word == self._shape.text_word else (types - STRING or ANY - STRING)

    def _up_to(self, end: Sequence[Item], source: Incoming, say: Say) -> Iterator[None]:
        """Says what stands in front of `end`, and goes on behind that."""
        first, space = str(end[0]), self._shape.space_behind
        while True:
            text, at = source.text, source.at
            stop, found = text.find(first, at), None
            while stop >= 0 and (found := match(end, text, stop, source.final)) is None:
                stop = text.find(first, stop + 1)
            if isinstance(found, Match) or source.final:
                say(source.take(stop if isinstance(found, Match) else len(text)).removesuffix(space))
                source.at = found.end if isinstance(found, Match) else source.at
                return
            hold = stop if stop >= 0 else len(text) - overlap(text[at:], first)
            say(source.take(max(at, hold - len(space))))
            yield


def nested(text: str, types: frozenset[str], schema: Any, shape: TagArguments) -> Any:
    """The value, which may be made of tags itself where the tags are named like the arguments."""
    if KEY not in shape.end or types == STRING:
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
        self._done = self._failed = False
        self._shape = shape
        self._pairs = Pairs(schema, say)
        self._quotes = (*shape.quotes, '"', "'")
        self._name: str | None = None
        self._parts: list[str] = []  # of the name or value that is being read
        self._depth = 0
        self._quote = ""

    def read(self, source: Incoming) -> Steps:
        while not (self._done or self._failed):
            text, at = source.text, source.at
            if at < len(text):
                step = self._in_quote if self._quote else self._step
                source.at = step(text, at, source.final)
            if source.at == at:
                if source.final:
                    return False
                yield
        return not self._failed

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
        self._failed = self._depth < 0
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
            if sign == self._shape.closer and not self._failed:
                self._pairs.close()
                self._done = True

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
        self._failed = not self._name or len(self._name) > 256
        if not self._failed:
            self._pairs.key(self._name)

    def _pair(self, text: str) -> None:
        if self._name is None:
            self._failed = bool(text.strip())
            return
        try:
            value = read_loose(text.strip(), self._shape.quotes)
        except ValueError:
            self._failed = True
            return
        if isinstance(value, str) and text.strip() == value:  # a bare word
            value = typed(value, self._pairs.types(self._name))
        elif not isinstance(value, str) and self._pairs.types(self._name) == STRING:
            value = text.strip()
        self._pairs.say(dump(value))
        self._name = None
