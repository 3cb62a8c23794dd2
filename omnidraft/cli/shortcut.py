"""`shortcut`: puts OmniDraft among the programs that the system's menu shows; `--remove` takes it out again."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path

from omnidraft.errors import StorageError
from omnidraft.storage.files import reason
from omnidraft.storage.paths import PROGRAM

ICON = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">
<rect width="64" height="64" rx="14" fill="#1f6f6b"/>
<path d="M12 40h18m4 0h18" stroke="#fff" stroke-width="6" stroke-linecap="round" opacity=".45"/>
<path d="M12 24h10m8 0h10m8 0h4" stroke="#fff" stroke-width="6" stroke-linecap="round"/>
</svg>
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--remove", action="store_true", help="take it out of the menu")


def run(args: argparse.Namespace) -> int:
    files = menu_files(sys.platform, Path.home(), os.environ)
    for path, text in files.items():
        try:
            if args.remove:
                path.unlink(missing_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                path.chmod(0o755)
        except OSError as error:
            raise StorageError(f"{path} cannot be written: {reason(error)}.") from error
        print(path)
    return 0


def menu_files(platform: str, home: Path, environment: os._Environ[str] | dict[str, str]) -> dict[Path, str]:
    """The files of an entry with their texts: for freedesktop's menus, the Start menu, or the Applications folder."""
    words = [sys.executable, str(PROGRAM / "app.py"), "--open"]
    if platform == "win32":
        menu = Path(environment.get("APPDATA") or home / "AppData" / "Roaming") / "Microsoft/Windows/Start Menu"
        return {menu / "Programs" / "OmniDraft.bat": f"@echo off\r\n{subprocess.list2cmdline(words)}\r\n"}
    if platform == "darwin":
        return {home / "Applications" / "OmniDraft.command": f"#!/bin/sh\nexec {shlex.join(words)}\n"}
    data = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    icon = data / "icons" / "hicolor" / "scalable" / "apps" / "omnidraft.svg"
    return {data / "applications" / "omnidraft.desktop": _desktop_entry(words, icon), icon: ICON}


def _desktop_entry(words: list[str], icon: Path) -> str:
    """By freedesktop.org's Desktop Entry Specification 1.5: a terminal shows the address, and Ctrl+C there ends it."""
    quoted = " ".join('"' + _escaped(word) + '"' for word in words)
    return (
        "[Desktop Entry]\nType=Application\nVersion=1.5\nName=OmniDraft\nComment=A local chat assistant that drafts\n"
        f"Exec={quoted}\nIcon={icon}\nTerminal=true\nCategories=Utility;Chat;\n"
    )


def _escaped(word: str) -> str:
    """As an argument between quotes: the quoting rule's escapes, then the string type's, and % doubled."""
    for sign in '\\"`$':
        word = word.replace(sign, "\\" + sign)
    return word.replace("\\", "\\\\").replace("%", "%%")
