"""The messages of a conversation that a request holds and the tools it offers, as chats and the Responses API have
them. A conversation that ends with the assistant's message is gone on with."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, InstanceOf, Json, model_validator

from omnidraft.backends.pictures import Picture, read_picture
from omnidraft.prompting.grammar import unkept
from omnidraft.prompting.prompt import mark
from omnidraft.server.api.body import Given
from omnidraft.server.api.errors import BadRequest


def _picture(given: Any) -> Picture:
    address = given.get("url") if isinstance(given, dict) else given
    if not isinstance(address, str) or not address.startswith("data:"):
        raise ValueError("must be a data: address; nothing is fetched from elsewhere")
    head, comma, data = address.partition(",")
    try:
        if not comma or not head.endswith(";base64"):
            raise ValueError
        return read_picture(base64.b64decode("".join(data.split()), validate=True))
    except ValueError:
        raise ValueError("must be a data: address in base64, such as data:image/png;base64,...") from None


class _Part(Given):
    type: Literal["text", "image_url", "input_text", "output_text", "input_image"]
    text: str = ""
    image_url: Annotated[InstanceOf[Picture] | None, BeforeValidator(_picture)] = None

    @model_validator(mode="after")
    def _whole(self) -> _Part:
        if "image" in self.type and self.image_url is None:
            raise ValueError("needs its image_url")
        return self


def _parts(content: Any) -> list[Any]:
    if not isinstance(content, str | list):
        raise ValueError("must be a text, or a list of parts")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


class _Called(Given):
    name: str
    arguments: Annotated[Json[dict[str, Any]], BeforeValidator(lambda text: text or "{}")] = Field({})


class _Call(Given):
    id: str = ""
    type: Literal["function"] = "function"
    function: _Called


class Message(Given):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[list[_Part] | None, BeforeValidator(_parts)] = None
    tool_calls: list[_Call] = Field([])
    reasoning_content: str = ""
    tool_call_id: str | None = None
    name: str = ""

    @model_validator(mode="after")
    def _of_its_role(self) -> Message:
        if self.content is None and not (self.role == "assistant" and self.tool_calls):
            raise ValueError("needs a content")
        if self.role != "user" and self.pictures:
            raise ValueError("cannot have pictures; a user's message can")
        if self.role == "tool" and self.tool_call_id is None:
            raise ValueError("needs the tool_call_id of the call it answers")
        return self

    @property
    def pictures(self) -> list[Picture]:
        return [part.image_url for part in self.content or () if part.image_url]

    def told(self) -> dict[str, Any]:
        """As templates read it, with the pictures whose marks stand in its text."""
        role = "system" if self.role == "developer" else self.role
        text = "".join(f"{mark(part.image_url)}\n" if part.image_url else part.text for part in self.content or ())
        found: dict[str, Any] = {"role": role, "content": text, "pictures": self.pictures}
        if role == "assistant":
            calls = [call.model_dump() for call in self.tool_calls]
            found |= {"tool_calls": calls, "reasoning_content": self.reasoning_content}
        elif role == "tool":
            found |= {"tool_call_id": self.tool_call_id, "name": self.name}
        return found


def _answerable(messages: list[Message]) -> list[Message]:
    last = messages[-1]
    if last.role == "assistant" and (len(messages) == 1 or last.tool_calls):
        raise ValueError("has nothing to answer: a call waits for its tool's message, a text for a question")
    return messages


Messages = Annotated[list[Message], Field(min_length=1), AfterValidator(_answerable)]

# The tools that a request offers. What a model makes of them is read by `formats`.


def _named(name: str) -> str:
    if not re.fullmatch(r"[\w.-]{1,64}", name, re.ASCII):
        raise ValueError("must be of letters, digits, dots, - and _, at most 64")
    return name


class Tool(Given):
    """A function. sent: what templates show of it."""

    type: Literal["function"] = "function"
    name: Annotated[str, AfterValidator(_named)]
    description: str = ""
    parameters: dict[str, Any] = Field({})
    strict: bool = False
    sent: dict[str, Any]

    @model_validator(mode="before")
    @classmethod
    def _taken_out(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        sent = given.get("function", {name: value for name, value in given.items() if name != "type"})
        return {**sent, "type": given.get("type"), "sent": sent} if isinstance(sent, dict) else sent


@dataclass(frozen=True, slots=True)
class Tools:
    """offered: OpenAI's descriptions, none where no tool is to be called; forced: the functions one of which must be,
    none: the model decides; one: at most one call; notes: what of the schemas of forced functions is not held."""

    offered: Sequence[dict[str, Any]] = ()
    forced: Sequence[dict[str, Any]] = ()
    one: bool = False
    notes: tuple[str, ...] = ()

    @property
    def schemas(self) -> dict[str, Any]:
        """The schemas of their parameters, by name."""
        return {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in self.offered}


NO_TOOLS = Tools()


def tools_of(tools: Sequence[Tool], choice: Any, parallel: bool) -> Tools:
    if not tools and choice not in (None, "none", "auto"):
        raise BadRequest("tool_choice asks for a tool, but no tools are given.")
    forced = _forced(tools, choice)
    if choice == "none":
        return NO_TOOLS
    told = [note for tool in tools for note in _schema_notes(tool, tool in forced)]
    offered = [{"type": "function", "function": tool.sent} for tool in tools]
    return Tools(offered, [tool.sent for tool in forced], not parallel, tuple(told))


def _forced(tools: Sequence[Tool], choice: Any) -> Sequence[Tool]:
    if choice in (None, "none", "auto"):
        return []
    if choice == "required":
        return tools
    named = choice.get("function", choice) if isinstance(choice, dict) else None
    found = [tool for tool in tools if isinstance(named, dict) and tool.name == named.get("name")]
    if not found:
        raise BadRequest("tool_choice must be none, auto, required or the name of one of the tools.")
    return found


def _schema_notes(tool: Tool, forced: bool) -> tuple[str, ...]:
    """What there is to say about a function's schema that cannot be held whole, where it is to be."""
    if not tool.parameters or not (forced or tool.strict):
        return ()
    return notes(tool.name, {"type": "object", **tool.parameters}, tool.strict)


_NAMED = 5  # places that a sentence names


def notes(what: str, schema: Any, strict: bool) -> tuple[str, ...]:
    """What there is to say about a schema that cannot be held whole; BadRequest if it must be."""
    beyond = unkept(schema) if schema is not None else []
    if not beyond:
        return ()
    named = f"{', '.join(beyond[:_NAMED])}{' and more' if len(beyond) > _NAMED else ''}"
    if strict:
        raise BadRequest(f"The schema of {what} cannot be enforced: {named}. Without strict, the answer is checked.")
    return (f"Not enforced of the schema of {what}, only checked in the end: {named}.",)
