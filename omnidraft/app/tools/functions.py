"""The built-in functions: what a model is told of each, and running one with the arguments that it gave."""

from __future__ import annotations

import ast
import json
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from omnidraft.chats import TextFile

# What a function says when it cannot do what was asked: the model reads the sentence.


class ToolError(Exception):
    """A call that cannot be followed; the message is one sentence for the model."""


# Arithmetic from a text: parsed into a tree of which only numbers, operators and known functions are walked. Nothing
# is evaluated as a program. Sizes are checked before anything is computed, so no expression takes long.


LONGEST = 300  # characters of an expression
_DEEPEST = 40  # operators inside each other
_BITS = 4_000  # of a whole number: about 1,200 digits
_DIGITS = 400  # that a number can be rounded to: whole numbers would be computed to any power of ten
_Number = int | float


def _round(value: _Number, digits: int = 0) -> _Number:
    if not isinstance(digits, int) or abs(digits) > _DIGITS:
        raise ValueError
    return round(value, digits) if digits else round(value)


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_UNARY: dict[type, Callable[[Any], Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_CONSTANTS = {"pi": math.pi, "e": math.e}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "round": _round, "min": min, "max": max, "floor": math.floor, "ceil": math.ceil, "sqrt": math.sqrt,
    "exp": math.exp, "ln": math.log, "log": math.log, "log10": math.log10, "log2": math.log2, "sin": math.sin,
    "cos": math.cos, "tan": math.tan, "asin": math.asin, "acos": math.acos, "atan": math.atan,
    "degrees": math.degrees, "radians": math.radians,
}  # fmt: skip


def calculate(expression: str) -> str:
    """The value of an expression as text, whole numbers exactly. ToolError says what is wrong with it."""
    if len(expression) > LONGEST:
        raise ToolError(f"The expression is longer than {LONGEST} characters.")
    text = expression.strip().replace("^", "**").replace("×", "*").replace("÷", "/").replace("−", "-")
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ToolError("The expression is not arithmetic that can be read.") from None
    try:
        value = _value(tree.body, _DEEPEST)
    except ZeroDivisionError:
        raise ToolError("The expression divides by zero.") from None
    except (OverflowError, ValueError, TypeError):
        raise ToolError(
            "The expression has no value: a number is too large or outside what a function takes."
        ) from None
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _value(node: ast.expr, depth: int) -> _Number:
    if depth == 0:
        raise ToolError("The expression is nested too deeply.")
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _bounded(value)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand, depth - 1))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left, depth - 1), _value(right, depth - 1))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _bounded(_BINARY[type(op)](_value(left, depth - 1), _value(right, depth - 1)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](*(_value(arg, depth - 1) for arg in args)))
    known = ", ".join([*_CONSTANTS, *_FUNCTIONS])
    raise ToolError(f"Only numbers, + - * / // % **, parentheses and these names can be used: {known}.")


def _power(base: _Number, exponent: _Number) -> _Number:
    whole = isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1
    if whole and abs(exponent) * int(base).bit_length() > _BITS:
        raise OverflowError
    return _bounded(base**exponent)


def _bounded(value: Any) -> _Number:
    if isinstance(value, complex) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError
    if isinstance(value, int) and value.bit_length() > _BITS:
        raise OverflowError
    return value


MAX_RESULT = 6_000  # characters of a result that a model reads
MAX_ARGUMENTS = 16_000  # a file to be written may stand there


@dataclass(frozen=True, slots=True)
class Function:
    """One function. parameters: {name: (JSON type, description, whether it must be given)}."""

    description: str
    parameters: dict[str, tuple[str, str, bool]]
    run: Callable[[dict[str, Any], Sequence[TextFile]], str]

    def described(self, name: str) -> dict[str, Any]:
        """As OpenAI's format has it."""
        schema = {
            "type": "object",
            "properties": {
                key: {"type": kind, "description": help_} for key, (kind, help_, _) in self.parameters.items()
            },
            "required": [key for key, (_, _, needed) in self.parameters.items() if needed],
        }
        return {"type": "function", "function": {"name": name, "description": self.description, "parameters": schema}}


def _clock(given: dict[str, Any], files: Sequence[TextFile]) -> str:
    zone = given.get("timezone")
    if zone is None:
        now = datetime.now().astimezone()
    else:
        try:
            now = datetime.now(ZoneInfo(zone))
        except (KeyError, ValueError, OSError):
            raise ToolError(f"There is no time zone named {zone[:60]}; use a name like Europe/Paris.") from None
    return now.strftime("%A, %Y-%m-%d %H:%M:%S ") + f"UTC{now.strftime('%z')}"


def _read(given: dict[str, Any], files: Sequence[TextFile]) -> str:
    name, first = given["name"], given.get("from_line", 1)
    file = next((file for file in reversed(files) if file.name == name), None)
    if file is None:
        known = ", ".join(dict.fromkeys(file.name for file in files)) or "none"
        raise ToolError(f"No file of that name is attached to this conversation; attached: {known}.")
    lines = file.text.splitlines(keepends=True)
    if not 1 <= first <= max(len(lines), 1):
        raise ToolError(f"The file has {len(lines):,} lines.")
    text = "".join(lines[first - 1 :])
    if len(text) <= MAX_RESULT - 200:
        return text
    shown = text[: MAX_RESULT - 200]
    last = first + shown.count("\n")
    return f"{shown}\n[Cut here, in line {last:,} of {len(lines):,}; call again with from_line to read on.]"


BUILT_IN: dict[str, Function] = {
    "calculator": Function(
        "Computes an arithmetic expression exactly.",
        {"expression": ("string", "For example (2 + 3) * sqrt(16) / 7", True)},
        lambda given, files: calculate(given["expression"]),
    ),
    "clock": Function(
        "Tells the date, the day of the week and the time.",
        {"timezone": ("string", "A name like Europe/Paris; left out: where the user is", False)},
        _clock,
    ),
    "read_file": Function(
        "Reads a text file that the user attached to this conversation.",
        {
            "name": ("string", "The file's name", True),
            "from_line": ("integer", "The line to begin with, 1 if left out", False),
        },
        _read,
    ),
}
_KINDS: dict[str, type] = {"string": str, "integer": int}


def offered(files: Sequence[TextFile]) -> list[dict[str, Any]]:
    """What a model is offered where these files are attached."""
    return [function.described(name) for name, function in BUILT_IN.items() if files or name != "read_file"]


def run(name: str, arguments: str, files: Sequence[TextFile]) -> str:
    """The result of a call as text; where it cannot be followed, a sentence that says why. Never raises."""
    if (function := BUILT_IN.get(name)) is None:
        return f"Error: There is no function named {name[:60]}."
    return bounded(lambda: function.run(_checked(function, parsed(arguments)), files))


def bounded(called: Callable[[], str]) -> str:
    """What a call says, as far as a model reads it; the sentence of one that failed."""
    try:
        result = called()
    except ToolError as error:
        result = f"Error: {error}"
    return result if len(result) <= MAX_RESULT else f"{result[: MAX_RESULT - 20]} [cut]"


def parsed(arguments: str) -> dict[str, Any]:
    """What a model gave a function. ToolError if that is no object, or longer than any makes sense."""
    if len(arguments) > MAX_ARGUMENTS:
        raise ToolError("The arguments are too long.")
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        raise ToolError("The arguments are not JSON.") from None
    if not isinstance(given, dict):
        raise ToolError("The arguments are not an object.")
    return given


def _checked(function: Function, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments that it knows, each of its type."""
    for name, (kind, _, needed) in function.parameters.items():
        if name not in given and not needed:
            continue
        if type(given.get(name)) is not _KINDS[kind]:
            raise ToolError(f"The argument {name} must be given as a {kind}.")
    return {name: given[name] for name in function.parameters if name in given}
