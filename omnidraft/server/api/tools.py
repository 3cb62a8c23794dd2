"""The tools that a request to the API offers, checked. What a model makes of them is read by `formats`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omnidraft.server.api.fields import BadRequest, field

MAX_TOOLS = 128
_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Tools:
    """offered: OpenAI's descriptions; forced: the functions one of which must be called, none: the model decides;
    one: at most one call."""

    offered: list[dict[str, Any]]
    forced: list[dict[str, Any]]
    one: bool

    @property
    def schemas(self) -> dict[str, Any]:
        """The schemas of their parameters, by name."""
        return {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in self.offered}


def tools_of(body: dict[str, Any]) -> Tools | None:
    """The tools offered; None without any, and where the choice is `none`."""
    given, choice = field(body, "tools", list), field(body, "tool_choice", str, dict)
    parallel = field(body, "parallel_tool_calls", bool)
    if not given:
        if choice not in (None, "none", "auto"):
            raise BadRequest("tool_choice asks for a tool, but no tools are given.")
        return None
    if len(given) > MAX_TOOLS:
        raise BadRequest(f"tools must be a list of at most {MAX_TOOLS}.")
    functions = [_function(tool) for tool in given]
    if choice == "none":
        return None
    offered = [{"type": "function", "function": function} for function in functions]
    return Tools(offered, _forced(choice, functions), parallel is False)


def _function(tool: Any) -> dict[str, Any]:
    function = tool.get("function") if isinstance(tool, dict) and tool.get("type", "function") == "function" else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadRequest("Every tool must be a function with a name of letters, digits, dots, - and _, at most 64.")
    if not isinstance(function.get("parameters") or {}, dict):
        raise BadRequest(f"The parameters of {name} must be a JSON schema.")
    field(function, "description", str)
    return function


def _forced(choice: Any, functions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    if choice in (None, "auto"):
        return []
    if choice == "required":
        return list(functions)
    named = choice.get("function") if isinstance(choice, dict) else None
    name = named.get("name") if isinstance(named, dict) else None
    found = [function for function in functions if function["name"] == name]
    if not found:
        raise BadRequest("tool_choice must be none, auto, required or the name of one of the tools.")
    return found
