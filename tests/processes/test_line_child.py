"""A child that talks in lines: heard, answered, explained by its last words, and gone when it is ended."""

import os
import textwrap
from pathlib import Path

import psutil
import pytest

from omnidraft.processes.children import LineChild

ECHO = """
    import sys
    print(sys.argv[1], flush=True)
    for line in sys.stdin:
        if line == "fail\\n":
            sys.exit("it could not go on")
        print(line.strip().upper(), flush=True)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "echoing.py").write_text(textwrap.dedent(ECHO))
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def test_it_hears_and_answers_until_it_ends(environment):
    child = LineChild("echoing", "begun", environment=environment)
    for line in child.lines():  # left early, and gone on with below
        assert line == "begun\n"
        break
    lines = child.lines()
    child.say("a word\n")
    assert next(lines) == "A WORD\n"
    assert child.running
    child.say("fail\n")
    assert list(lines) == []
    assert child.ended() == 1
    assert child.last_words() == "it could not go on"
    child.say("too late\n")  # no error


def test_a_killed_child_is_gone_and_its_lines_end(environment):
    child = LineChild("echoing", "begun", environment=environment, keeps_errors=False)
    lines = child.lines()
    next(lines)
    child.kill()
    assert not psutil.pid_exists(child.pid)
    assert list(lines) == []
    assert child.ended() != 0
    assert child.last_words() == ""


def test_the_package_is_found_from_anywhere(environment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    child = LineChild("omnidraft", environment=environment)
    list(child.lines())
    assert child.ended() != 0
    assert "No module named" not in child.last_words()
