"""Where a passphrase comes from, and where it does not stay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from omnidraft.errors import SettingsError
from omnidraft.storage.encryption import passphrase
from omnidraft.storage.encryption.passphrase import VARIABLE, Asked


class Terminal:
    def isatty(self) -> bool:
        return True


def types(monkeypatch, *answers: str) -> list[str]:
    """Have these typed at a terminal; what was asked."""
    heard, left = [], list(answers)
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(passphrase.getpass, "getpass", lambda text: (heard.append(text), left.pop(0))[1])
    return heard


def test_a_file_s_first_line_is_it(tmp_path):
    for text in ("a good one", "a good one\n", "a good one\r\nnotes\n", "\ufeffa good one\n"):
        (tmp_path / "file").write_text(text, newline="", encoding="utf-8")
        assert Asked(tmp_path / "file").known("-") == "a good one"


@pytest.mark.parametrize("content", [None, b"", b"\nsecond line", b"\xff\xfe", b"x" * 5000])
def test_a_file_that_holds_none_is_refused_in_a_sentence(tmp_path, content):
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    with pytest.raises(SettingsError, match="passphrase file"):
        Asked(tmp_path / "file").known("-")


def test_the_variable_is_taken_and_removed_so_that_no_child_has_it(monkeypatch):
    monkeypatch.setenv(VARIABLE, "from outside")
    asked = Asked()
    assert VARIABLE not in os.environ
    assert asked.known("-") == "from outside"


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="other systems show it elsewhere")
def test_the_system_does_not_show_it_either():
    script = "from omnidraft.storage.encryption.passphrase import Asked; asked = Asked(); " + (
        "print(asked.known('-'), 'right battery' in open('/proc/self/environ').read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, VARIABLE: "right battery"}, capture_output=True, text=True
    )
    assert done.stdout.startswith("right battery False"), done.stdout + done.stderr


def test_it_is_asked_for_at_a_terminal_and_a_new_one_twice(monkeypatch):
    heard = types(monkeypatch, "typed here")
    assert Asked().known("-") == "typed here"
    assert heard == ["Passphrase: "]
    heard = types(monkeypatch, "chosen now", "chosen now")
    assert Asked().new("-") == "chosen now"
    assert "no way back" in heard[0]
    types(monkeypatch, "chosen now", "chosen mow")
    with pytest.raises(SettingsError, match="differ"):
        Asked().new("-")


def test_nobody_is_asked_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115
    with pytest.raises(SettingsError, match="say this"):
        Asked().known("say this")
