"""JSON from a file that anybody may have written: whatever is wrong with it is a ValueError."""

from __future__ import annotations

import json
from typing import Any


def read_json(text: str | bytes) -> Any:
    """The value; ValueError also where it is nested deeper than Python goes, which json tells in another way."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
