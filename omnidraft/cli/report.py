"""What the command line says of an answer: a JSON object for programs, one line for people."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from omnidraft.decoding.events import Finished, Statistics
from omnidraft.errors import SettingsError
from omnidraft.settings.fields import Setting

FIGURES = (
    "prompt_tokens", "reused_tokens", "tokens", "target_passes", "rounds", "drafted", "proposed", "tested", "accepted",
    "acceptance_rate", "copied", "copied_accepted", "drafter_acceptance", "tokens_per_pass", "origins",
    "tokens_per_second",
)  # fmt: skip
SECONDS = ("prefill", "draft", "translate", "verify", "other")


def report(text: str, ids: list[int], finished: Finished) -> dict:
    """The JSON object of one answer."""
    s = finished.statistics
    return {
        "text": text,
        "token_ids": ids,
        **{name: getattr(s, name) for name in FIGURES},
        "seconds": {name: getattr(s, name) for name in SECONDS},
        "finish_reason": finished.reason,
        "seed": finished.seed,
        "draft_disabled_reason": finished.draft_disabled_reason,
    }


def summary(finished: Finished) -> str:
    """One line about an answer's speed, for people."""
    s: Statistics = finished.statistics
    parts = [f"{s.tokens} tokens"]
    if s.tokens_per_second:
        parts.append(f"{s.tokens_per_second:.1f} tokens/s")
    if s.drafter_acceptance is not None:
        parts.append(f"{s.drafter_acceptance:.0%} of {s.by_drafter[0]} drafts accepted")
    if s.copied:
        parts.append(f"{s.copied_accepted} of {s.copied} copies accepted")
    if s.proposed:
        parts.append(f"{s.tokens_per_pass:.2f} tokens per pass")
    if finished.draft_disabled_reason:
        parts.append(f"no drafting: {finished.draft_disabled_reason}")
    return "[" + ", ".join(parts) + "]"


def print_json(value: dict) -> None:
    """One line. Letters as they are where the output is UTF-8, escaped elsewhere."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(value, ensure_ascii=not plain), flush=True)


# What several commands share: commands below a command, the length of drafts.


def add_action(actions: Any, name: str, text: str, act: Callable | None = None) -> argparse.ArgumentParser:
    """One of them, which takes `--data-dir` behind its own name too; `act` is what it does."""
    sub = actions.add_parser(name, help=text, description=text.capitalize() + ".")
    sub.add_argument("--data-dir", type=Path, default=argparse.SUPPRESS, help="where this program keeps its data")
    sub.set_defaults(act=act)
    return sub


def add_setting(parser: argparse.ArgumentParser, setting: Setting, flag: str = "") -> None:
    """An option for a setting, which takes what the setting takes; None where it is not given."""
    rule, flag = setting.rule, flag or f"--{setting.name.replace('_', '-')}"
    kind = {"integer": int, "number": float}.get(rule.kind, str)
    accepted = "" if rule.choices else f" Accepted: {rule.accepted}."
    help = f"{setting.help}{accepted}".replace("%", "%%")
    parser.add_argument(flag, dest=setting.name, type=kind, choices=rule.choices or None, help=help)


def given(args: argparse.Namespace, settings: Sequence[Setting]) -> dict[str, Any]:
    """The values of those that were given."""
    return {one.name: value for one in settings if (value := getattr(args, one.name)) is not None}


def draft_length(text: str) -> int | None:
    """What `--draft-length` says; None for the adaptive one."""
    if text == "adaptive":
        return None
    try:
        return int(text)
    except ValueError:
        raise SettingsError(f"--draft-length takes a whole number or 'adaptive', not {text[:40]!r}.") from None
