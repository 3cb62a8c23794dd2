"""Readers for the arguments of one call whose name is known.

Each is fed text and says the JSON text of an object as it grows. `feed` returns where it stopped; then `done` or
`failed` is set, or more text is needed. At the end of the answer `final` is true.
"""

from __future__ import annotations

from typing import Any, Protocol

from omnidraft.backends.prompting.formats.code_arguments import CodeReader
from omnidraft.backends.prompting.formats.json_arguments import JsonReader
from omnidraft.backends.prompting.formats.loose_arguments import LooseReader
from omnidraft.backends.prompting.formats.pairs import Say
from omnidraft.backends.prompting.formats.shapes import Arguments, CodeArguments, LooseArguments, Pattern, TagArguments
from omnidraft.backends.prompting.formats.tag_arguments import TagReader


class ArgumentReader(Protocol):
    done: bool
    failed: bool

    def feed(self, text: str, at: int, final: bool) -> int: ...


def argument_reader(
    shape: Arguments, schema: Any, closers: tuple[Pattern, ...], say: Say, code: str | None
) -> ArgumentReader:
    """code: the parameter that takes a program's text as it stands, where the tool runs code."""
    if isinstance(shape, CodeArguments):
        return CodeReader(code, say)
    if isinstance(shape, TagArguments):
        return TagReader(shape, schema, say)
    if isinstance(shape, LooseArguments):
        return LooseReader(shape, schema, say)
    return JsonReader(closers, say, code)
