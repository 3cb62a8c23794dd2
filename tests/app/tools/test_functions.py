"""The built-in functions: right answers, sentences where there is none, and no call that takes long or gets large."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnidraft.app.tools.functions import MAX_RESULT, ToolError, calculate, offered, run
from omnidraft.chats import TextFile

FILES = [TextFile("notes.txt", "old"), TextFile("long.txt", "".join(f"line {n}\n" for n in range(1, 3001))),
         TextFile("notes.txt", "Buy milk.\nCall Ada.\n")]  # fmt: skip


@pytest.mark.parametrize(("expression", "value"), [
    ("2+2", "4"), ("(2 + 3) * 4 - 6 / 4", "18.5"), ("7 // 2 + 7 % 2", "4"), ("2^10", "1024"), ("-3 ** 2", "-9"),
    ("2**200", str(2**200)), ("sqrt(16) + abs(-2)", "6"), ("round(2.567, 2)", "2.57"), ("0.1 + 0.2", "0.3"),
    ("max(1, 5, 3) × 2", "10"), ("log10(1000)", "3"), ("pi", "3.14159265358979"), ("1e3", "1000"), ("2 ** -2", "0.25"),
    ("(" * 100 + "1" + ")" * 100, "1"), ("round(1234, -2)", "1200"), ("round(2.5)", "2"),
])  # fmt: skip
def test_the_calculator_is_right(expression, value):
    assert calculate(expression) == value


@pytest.mark.parametrize("expression", [
    "", "2 +", "1/0", "9**9**9", "9**9999999", "10**300*10**300*10**300*10**300*10**300", "2**-1e400", "(-8)**0.5",
    "sqrt(-1)", "log(0)", "exp(1e9)", "round(5, -10**9)", "1 if 2 else 3", "x + 1", "True", "'a' * 5", "[1] * 9",
    "abs(-1, key=3)", "__import__('os')", "(1).real", "lambda: 1", "f'{1}'", "-" * 250 + "1", "1" * 301, "max()",
    "round(1, 0.5)", "1j", "a[0]", "2 < 3", "print(1)", "9" * 290 + "**9", "\0",
])  # fmt: skip
def test_what_it_cannot_compute_is_said_at_once(expression):
    start = time.process_time()
    with pytest.raises(ToolError, match=r"\.$"):
        calculate(expression)
    assert time.process_time() - start < 0.5


@settings(max_examples=300, deadline=None)
@given(st.text("0123456789+-*/%^().,e pisqrtmaxround", max_size=60) | st.text(max_size=40))
def test_no_expression_breaks_it_or_takes_long(expression):
    start = time.process_time()
    result = run("calculator", json.dumps({"expression": expression}), [])
    assert len(result) <= MAX_RESULT
    assert time.process_time() - start < 0.5


def test_the_clock_tells_the_time_here_and_elsewhere():
    told = run("clock", "{}", [])
    when = datetime.strptime(told.split(" ", 1)[1], "%Y-%m-%d %H:%M:%S UTC%z")
    assert abs(when - datetime.now().astimezone()) < timedelta(seconds=30)
    assert when.strftime("%A") == told.split(",")[0]
    assert run("clock", '{"timezone": "UTC"}', []).endswith("UTC+0000")
    for wrong in ("Nowhere/Atlantis", "../../etc/passwd", "/etc/passwd", "x" * 500, "\0", ""):
        assert run("clock", json.dumps({"timezone": wrong}), []).startswith("Error: There is no time zone")


def test_an_attached_file_is_read_the_newest_of_its_name():
    assert run("read_file", '{"name": "notes.txt"}', FILES) == "Buy milk.\nCall Ada.\n"
    assert run("read_file", '{"name": "notes.txt", "from_line": 2}', FILES) == "Call Ada.\n"
    long = run("read_file", '{"name": "long.txt"}', FILES)
    assert len(long) <= MAX_RESULT
    assert "of 3,000; call again with from_line" in long


@pytest.mark.parametrize("name", ["other.txt", "/etc/passwd", "../notes.txt", ""])
def test_nothing_but_what_is_attached_can_be_read(name):
    told = run("read_file", json.dumps({"name": name}), FILES)
    assert told.startswith("Error: No file of that name is attached")


@pytest.mark.parametrize(("name", "arguments"), [
    ("shell", "{}"), ("calculator", "{}"), ("calculator", '{"expression": 5}'), ("calculator", "[]"),
    ("calculator", "{"),
    ("calculator", '{"expression": "' + "1" * 9000 + '"}'), ("read_file", '{"name": "notes.txt", "from_line": true}'),
    ("read_file", '{"name": "notes.txt", "from_line": 9}'), ("clock", '{"timezone": 5}'), ("calculator", "[" * 3000),
])  # fmt: skip
def test_wrong_calls_are_answered_with_a_sentence(name, arguments):
    assert run(name, arguments, FILES).startswith("Error: ")


def test_files_are_offered_to_be_read_only_where_there_are_some():
    names = lambda files: [one["function"]["name"] for one in offered(files)]  # noqa: E731
    assert names([]) == ["calculator", "clock"]
    assert names(FILES) == ["calculator", "clock", "read_file"]
    for one in offered(FILES):
        assert one["function"]["parameters"]["type"] == "object"
        assert one["function"]["description"]
