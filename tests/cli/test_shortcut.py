"""The menu entry starts this program with this Python, whatever their folders are called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from omnidraft.__main__ import main
from omnidraft.cli.shortcut import menu_files
from omnidraft.storage.paths import PROGRAM


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


def test_an_entry_with_its_icon_comes_and_goes(home, capsys):
    assert main(["shortcut"]) == 0
    entry, icon = (Path(line) for line in capsys.readouterr().out.splitlines())
    lines = dict(line.split("=", 1) for line in entry.read_text().splitlines()[1:])
    assert lines["Name"] == "OmniDraft"
    assert lines["Exec"] == f'"{sys.executable}" "{PROGRAM / "app.py"}" "--open"'
    assert lines["Icon"] == str(icon)
    assert ElementTree.parse(icon).getroot().tag.endswith("svg")
    assert main(["shortcut", "--remove"]) == 0
    assert not entry.exists()
    assert not icon.exists()


def test_odd_signs_in_the_path_are_escaped(monkeypatch):
    monkeypatch.setattr(sys, "executable", '/a "b"/100%/$c')
    text = next(iter(menu_files("linux", Path("/home/me"), {}).values()))
    assert '"/a \\\\"b\\\\"/100%%/\\\\$c"' in text


def test_the_line_of_a_shell_runs_what_is_meant(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/echo")
    ((path, text),) = menu_files("darwin", tmp_path, {}).items()
    assert path == tmp_path / "Applications" / "OmniDraft.command"
    said = subprocess.run(["/bin/sh", "-c", text], capture_output=True, text=True, check=True).stdout
    assert said == f"{PROGRAM / 'app.py'} --open\n"


def test_windows_gets_a_file_of_its_start_menu():
    ((path, text),) = menu_files("win32", Path("/home/me"), {"APPDATA": "/roaming"}).items()
    assert path.parts[-3:] == ("Start Menu", "Programs", "OmniDraft.bat")
    assert f"{PROGRAM / 'app.py'} --open\r\n" in text


def test_a_folder_that_cannot_be_written_is_said(home, capsys):
    (home / "applications").write_text("")
    assert main(["shortcut"]) == 2
    assert "cannot be written" in capsys.readouterr().err
