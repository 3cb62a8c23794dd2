"""Functions of MCP servers: real ones in processes of their own, and what becomes of those that misbehave."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from pathlib import Path

import psutil
import pytest

from omnidraft.app.tools import running_server
from omnidraft.app.tools.functions import MAX_RESULT
from omnidraft.app.tools.server_file import MAX_FILE, programs_in
from omnidraft.app.tools.toolbox import Toolbox
from omnidraft.storage.paths import DataHome
from tests.app.tools.servers import a_server, named
from tests.until import until


@pytest.fixture
def home(tmp_path):
    return DataHome(tmp_path)


@pytest.fixture
def box(home):
    made = Toolbox(home.servers("ada"))
    yield made
    made.close()
    assert not children(), "all have ended"


def children() -> list[psutil.Process]:
    return [one for one in psutil.Process().children(recursive=True) if "mcp_server.py" in " ".join(one.cmdline())]


def names(box: Toolbox, files=()) -> list[str]:
    return [one["function"]["name"] for one in box.offered(files)]


def call(box: Toolbox, name: str, stopped=lambda: False, /, **given) -> str:
    return box.run(name, json.dumps(given), [], stopped)


def test_a_server_is_started_when_it_is_told_to_and_ends_with_the_box(home, box):
    named(home, tests=a_server("reference"))
    assert names(box) == ["calculator", "clock"]
    assert box.listed() == ["tests: not running"]
    assert not children()
    assert box.start() == []
    assert len(children()) == 1
    greet = next(one["function"] for one in box.offered([]) if one["function"]["name"] == "tests__greet")
    assert greet["description"] == "Greets somebody by name."
    assert greet["parameters"]["required"] == ["name"]
    assert box.listed() == ["tests: greet"]
    assert call(box, "calculator", expression="6 * 7") == "42"
    assert call(box, "tests__greet", name="Ada") == "Hello, Ada!"
    box.close()
    assert not children()


def test_what_a_function_refuses_is_the_models_to_read(home, box):
    named(home, tests=a_server())
    box.start()
    assert call(box, "tests__fail").startswith("Error: ")
    assert "The shelf is empty." in call(box, "tests__fail")
    assert call(box, "tests__greet").startswith("Error: ")
    assert call(box, "tests__nothing") == "Error: There is no function named tests__nothing."
    for arguments in ("[", "[]", '"text"', "[" * 5000, json.dumps({"name": "x" * 20_000})):
        assert box.run("tests__greet", arguments, []).startswith("Error: The arguments are ")
    assert call(box, "tests__greet", name="Ada") == "Hello, Ada!"


def test_a_long_result_is_cut_and_an_endless_one_ends_the_server(home, box):
    named(home, tests=a_server())
    box.start()
    long = call(box, "tests__write", count=1_000_000)
    assert len(long) <= MAX_RESULT
    assert long.endswith("x [cut]")
    assert call(box, "tests__write", count=20 << 20) == (
        "Error: tests sent more than 16.0 MB at once; the next question starts it again."
    )
    assert call(box, "tests__greet", name="Ada").startswith("Error: tests sent more than")
    assert box.start() == []
    assert call(box, "tests__greet", name="Ada") == "Hello, Ada!"


def test_a_server_that_ends_costs_one_call(home, box):
    named(home, tests=a_server())
    box.start()
    assert call(box, "tests__end") == "Error: tests ended by itself; the next question starts it again."
    assert box.start() == []
    assert call(box, "tests__greet", name="Ada") == "Hello, Ada!"
    children()[0].kill()
    until(lambda: call(box, "tests__greet", name="Ada").startswith("Error: "), seconds=10)
    assert box.start() == []
    assert call(box, "tests__greet", name="Ada") == "Hello, Ada!"


def test_a_call_that_takes_too_long_is_given_up_and_its_server_ended(home, box, monkeypatch):
    monkeypatch.setattr(running_server, "CALL_SECONDS", 0.5)
    monkeypatch.setattr(running_server, "GRACE", 0.2)
    named(home, tests=a_server())
    box.start()
    start = time.monotonic()
    assert call(box, "tests__wait", seconds=60) == (
        "Error: tests did not answer within 0.5 seconds and was ended; the next question starts it again."
    )
    assert time.monotonic() - start < 3
    box.start()
    assert call(box, "tests__wait", seconds=0.1) == "At last."


@pytest.mark.parametrize(("server", "why"), [
    (a_server("ends"), "ended by itself"),
    (a_server("words"), "writes what is not MCP"),
    (a_server("endless"), "sent more than 16.0 MB at once"),
    (a_server("silent"), "did not say within 0.5 seconds what it offers"),
    ({"command": "no-such-program-here"}, "could not be started (No such file or directory)"),
])  # fmt: skip
def test_a_server_that_does_not_begin_is_told_of_once(home, box, monkeypatch, server, why):
    monkeypatch.setattr(running_server, "START_SECONDS", 0.5 if "silent" in str(server) else 60.0)
    monkeypatch.setattr(running_server, "GRACE", 0.2)
    named(home, broken=server)
    told = f"The server broken {why}; its functions are not offered."
    assert box.start() == [told]
    assert not children()
    start = time.monotonic()
    assert box.start() == []
    assert time.monotonic() - start < 0.5, "it is not tried again by itself"
    assert box.retry() == [told]
    assert names(box) == ["calculator", "clock"]
    assert box.listed() == ["broken: not running"]


def test_a_start_can_be_stopped_and_ends_with_the_box(home, box):
    named(home, slow=a_server("silent"))
    start = time.monotonic()
    assert box.start(lambda: True) == []
    assert names(box) == ["calculator", "clock"]
    closing = threading.Timer(0.5, box.close)
    closing.start()
    assert box.start() == []
    closing.join()
    assert time.monotonic() - start < 10
    assert not children()


def test_the_file_is_followed_as_it_changes(home, box):
    named(home, one=a_server())
    box.start()
    before = children()[0].pid
    named(home, one=a_server(), two=a_server())
    box.start()
    assert before in [child.pid for child in children()], "one runs on"
    assert {"one__greet", "two__greet"} <= set(names(box))
    named(home, two=a_server(), one=a_server(disabled=True))
    box.start()
    assert "one__greet" not in names(box)
    assert len(children()) == 1


def test_names_that_collide_are_offered_once(home, box):
    named(home, one=a_server("dotted"), two=a_server("wordy"), calculator=a_server())
    told = box.start()
    assert [sentence.split(" are ")[0] for sentence in told] == [
        "1 of the functions of one",
        "1 of the functions of two",
    ]
    assert len(set(names(box))) == len(names(box))
    assert {"one__say_hello", "one__greet", "two__greet", "calculator", "calculator__greet"} <= set(names(box))
    assert call(box, "one__say_hello", name="Ada") == "Hello, Ada!"
    assert call(box, "calculator", expression="1 + 1") == "2"


def test_a_server_gets_few_variables_and_its_words_reach_no_log(home, box, monkeypatch, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OMNIDRAFT_PASSPHRASE", "secret")
    named(home, tests=a_server("greets", env={"OWN": "1"}, cwd=str(home.root)))
    box.start()
    folder, pid, *variables = call(box, "tests__environment").split(" ")
    assert Path(folder) == home.root.resolve()
    assert os.getpgid(int(pid)) == int(pid), "Ctrl+C in the terminal is left to the app"
    assert {"OWN", "PATH"} <= set(variables)
    assert "OMNIDRAFT_PASSPHRASE" not in variables
    call(box, "tests__greet", name="Ada")
    assert "Ada" not in caplog.text
    assert "Ada" not in "".join(capfd.readouterr())


BAD = {
    "": "it is not JSON (line 1).", "{": "it is not JSON (line 1).", "[" * 9000: "it is not JSON.",
    "\udcff": "it is not JSON.",
    "[]": 'it must be an object with "mcpServers", an object of servers by name.',
    '{"mcpServers": []}': 'it must be an object with "mcpServers", an object of servers by name.',
    '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}': "it names 'a' twice in one object.",
    " " * (MAX_FILE + 1): f"it is longer than {MAX_FILE:,} bytes.",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD)
def test_a_bad_file_is_one_sentence_and_starts_nothing(home, box, text):
    file = named(home)
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert box.start() == [f"mcp/ada.json is not used: {BAD[text]}"]
    assert box.start() == []
    assert names(box) == ["calculator", "clock"]


@pytest.mark.parametrize(("name", "entry", "why"), [
    ("a b", {"command": "x"}, "a name is"), ("a__b", {"command": "x"}, "a name is"),
    ("a_", {"command": "x"}, "a name is"),
    ("x" * 33, {"command": "x"}, "a name is"), ("a", [], "must be an object"), ("a", {}, "it needs"),
    ("a", {"url": "https://example.org/mcp"}, '("url") are not asked'), ("a", {"command": ["x"]}, "it needs"),
    ("a", {"command": "x", "args": "y"}, "must be a list"), ("a", {"command": "x", "args": [1]}, "hold texts alone"),
    ("a", {"command": "x", "env": {"A": 1}}, "hold texts alone"), ("a", {"command": "x\0"}, "hold texts alone"),
    ("a", {"command": "x", "cwd": 5}, "hold texts alone"),
])  # fmt: skip
def test_a_bad_entry_is_named_and_the_others_are_used(home, name, entry, why):
    found, (told,) = programs_in(named(home, **{name: entry, "good": {"command": "x"}}))
    assert [one.name for one in found] == ["good"]
    assert told.startswith(f"The server {name!r} in mcp/ada.json is not used: ")
    assert why in told


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no such bits")
@pytest.mark.parametrize("part", ["file", "folder"])
def test_a_file_that_others_may_write_is_not_used(home, box, part):
    file = named(home, tests=a_server())
    (file if part == "file" else file.parent).chmod(0o770)
    (told,) = box.start()
    assert told.startswith("mcp/ada.json is not used: others may write it")
    assert not children()
