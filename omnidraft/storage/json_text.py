"""JSON from a file that anybody may have written: whatever is wrong with it is a ValueError."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_json(text: str | bytes) -> Any:
    """The value; ValueError also where it is nested deeper than Python goes, which json tells in another way."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_object(file: Path) -> dict[str, Any]:
    """The object in a file; {} if the file is missing or holds none."""
    try:
        content = read_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
