"""`formats`: how a chat template's models write thoughts and calls, and what an answer of theirs says."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import jinja2

from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.prompting.formats.chat_format import (
    ChatFormat,
    CodeArguments,
    JsonArguments,
    JsonCalls,
    LooseArguments,
    NamedCalls,
    Reading,
)
from omnidraft.backends.prompting.formats.of_template import format_of_source
from omnidraft.backends.prompting.formats.open import read, schemas
from omnidraft.backends.prompting.formats.pattern import Pattern
from omnidraft.errors import ModelError, OmniDraftError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--template", type=Path, metavar="FILE", help="a chat template")
    source.add_argument("--model", type=Path, metavar="FILE.gguf", help="a model with a chat template in it")
    parser.add_argument("--tools", type=Path, metavar="FILE.json", help="the tools that were offered")
    parser.add_argument("--begun", default="", metavar="TEXT", help="how the prompt ended")
    parser.add_argument("--read", action="store_true", help="read an answer from standard input, print it as JSON")


def run(args: argparse.Namespace) -> int:
    source = _text(args.template) if args.template is not None else read_info(args.model).chat_template
    if source is None:
        raise ModelError(f"{args.model.name} has no chat template.")
    try:
        form = format_of_source(source)
    except jinja2.TemplateError as error:
        raise ModelError(f"The chat template is not valid: {error}.") from None
    if not args.read:
        print("\n".join(described(form)))
        return 0
    tools = schemas(_tools(args.tools)) if args.tools is not None else None
    print(json.dumps(_shown(read(form, sys.stdin.read(), tools, args.begun)), ensure_ascii=False))
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OmniDraftError(f"{path.name} cannot be read: {error}.") from None


def _tools(path: Path) -> list[Any]:
    try:
        tools = json.loads(_text(path))
    except ValueError as error:
        raise OmniDraftError(f"{path.name} is no JSON: {error}.") from None
    if isinstance(tools, dict):
        tools = tools.get("tools", [tools])
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise OmniDraftError(f"{path.name} is no list of tools.")
    return tools


def _shown(reading: Reading) -> dict[str, Any]:
    calls = []
    for call in reading.calls:
        try:
            arguments = json.loads(call.arguments)
        except ValueError:
            arguments = call.arguments
        calls.append({"name": call.name, "arguments": arguments})
    return {"reasoning": reading.reasoning, "content": reading.content, "calls": calls}


def described(form: ChatFormat) -> list[str]:
    """What was found out, a line each."""
    if form.harmony:
        return ["answers are made of channels: analysis is thought, final the answer, commentary to functions.X a call"]
    lines = [f"an answer begins behind  {_shape(form.header) or '(nothing)'}"]
    begins = " or ".join(map(_shape, form.thoughts.begins)) or "(at once)"
    lines.append(f"thoughts                 {begins} ... {' or '.join(map(_shape, form.thoughts.ends))}")
    for begin in form.content.begins:
        lines.append(f"content                  {_shape(begin)} ...")
    lines.append(f"a turn ends with         {_shape(form.turn_end) or '(nothing visible)'}")
    if not form.learned:
        lines.append("calls                    not shown by the template; read in every usual way")
    for shape in form.calls[:1] if form.learned else ():  # behind it stand the usual ways
        openings = " or ".join(_shape(opening) or "(at the beginning)" for opening in shape.openings)
        lines.append(f"calls                    {openings}")
        lines.append(f"                         {_body(shape.body)}")
    return lines


def _body(body: JsonCalls | NamedCalls) -> str:
    if isinstance(body, JsonCalls):
        return "JSON objects {NAME: arguments}" if body.keyed else "JSON objects with name and arguments"
    if isinstance(body.arguments, LooseArguments):
        return f"{_shape(body.head)} name{body.arguments.assign}value, ... {body.arguments.closer}"
    if isinstance(body.arguments, JsonArguments):
        return f"{_shape(body.head)} {{JSON}}"
    if isinstance(body.arguments, CodeArguments):
        return f"{_shape(body.head)} PROGRAM"
    arguments = body.arguments
    return f"{_shape(body.head)} {_shape(arguments.begin)} {_shape(arguments.key_end)} VALUE {_shape(arguments.end)}"


def _shape(pattern: Pattern) -> str:
    return " ".join(item if isinstance(item, str) else item.kind.upper() for item in pattern)
