"""Arithmetic from a text: parsed into a tree of which only numbers, operators and known functions are walked.

Nothing is evaluated as a program. Sizes are checked before anything is computed, so no expression takes long.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from omnidraft.app.tools.errors import ToolError

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
