"""What several commands share: commands below a command, the length of drafts."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from omnidraft.errors import SettingsError


def add_action(actions: Any, name: str, text: str, act: Callable | None = None) -> argparse.ArgumentParser:
    """One of them, which takes `--data-dir` behind its own name too; `act` is what it does."""
    sub = actions.add_parser(name, help=text, description=text.capitalize() + ".")
    sub.add_argument("--data-dir", type=Path, default=argparse.SUPPRESS, help="where this program keeps its data")
    sub.set_defaults(act=act)
    return sub


def draft_length(text: str) -> int | None:
    """What `--draft-length` says; None for the adaptive one."""
    if text == "adaptive":
        return None
    try:
        return int(text)
    except ValueError:
        raise SettingsError(f"--draft-length takes a whole number or 'adaptive', not {text[:40]!r}.") from None
