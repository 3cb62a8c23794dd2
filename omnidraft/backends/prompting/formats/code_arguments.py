"""A program as a call's one argument: some models write code for an interpreter as it stands, to the answer's end.

After Meta's description of the code interpreter of Llama 3.1 and later (https://www.llama.com/docs/model-cards-and-
prompt-formats/llama3_1/) and MeetKai's of functionary (https://github.com/MeetKai/functionary).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnidraft.backends.prompting.formats.values import Say, dump

CODE_TOOLS = ("python", "ipython", "code_interpreter")


def code_parameter(name: str, schema: Any) -> str | None:
    """The parameter that takes the code, if this is a tool that runs any: its only one, or `code`."""
    properties = schema.get("properties") if name in CODE_TOOLS and isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return None
    return next(iter(properties)) if len(properties) == 1 else "code" if "code" in properties else None


class CodeReader:
    """Everything up to the end of the answer."""

    def __init__(self, parameter: str | None, say: Say) -> None:
        self.done, self.failed = False, parameter is None
        self.begun = self._said = False
        self._parameter, self._say = parameter or "", say

    def feed(self, text: str, at: int, final: bool) -> int:
        if self.failed:
            return at
        if not self._said:
            self._say("{" + dump(self._parameter) + ': "')
            self._said = True
        if at < len(text):
            self._say(dump(text[at:])[1:-1])
        if final:
            self._say('"}')
            self.done = True
        return len(text)
