"""A JSON object said pair by pair, with what a tool's schema knows of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from omnidraft.backends.prompting.formats.values import dump, types_of

Say = Callable[[str], None]


class Pairs:
    """Says an object's pairs one after another."""

    def __init__(self, schema: Any, say: Say) -> None:
        self.say = say
        self._schema = schema if isinstance(schema, Mapping) else {}
        self._count = 0

    def key(self, name: str) -> None:
        self.say(("{" if not self._count else ", ") + dump(name) + ": ")
        self._count += 1

    def types(self, name: str) -> frozenset[str]:
        return types_of(self.schema_of(name), self._schema)

    def schema_of(self, name: str) -> Any:
        properties = self._schema.get("properties")
        return properties.get(name) if isinstance(properties, Mapping) else None

    def close(self) -> None:
        self.say("}" if self._count else "{}")
