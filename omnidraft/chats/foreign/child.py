"""The child that reads another program's export, so that a file made to fill the memory fills only its own.

Run by `bounded_child` and asked {"path": ...}. Says a line of JSON for each conversation, as the store takes it; at the
end {"source": the program's name or null, "skipped": how many held nothing}, or {"refused": a sentence}.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from omnidraft.chats.foreign import chatgpt, lm_studio, open_webui
from omnidraft.chats.foreign.items import items_of
from omnidraft.chats.foreign.turns import as_stored
from omnidraft.chats.records import Conversation, Message
from omnidraft.errors import StorageError
from omnidraft.processes import system
from omnidraft.processes.bounded_child import asked

PROGRAMS: tuple[ModuleType, ...] = (chatgpt, open_webui, lm_studio)


def main(path: Path) -> dict[str, Any]:
    """Says every conversation; what is to be said at the end."""
    source, skipped = None, 0
    try:
        for item in items_of(path):
            program = _program(item)
            made = None if program is None else _read(program, item)
            source = source or (program.NAME if program is not None else None)
            if made is None:
                skipped += 1
                continue
            chat, messages = made
            _say({"chat": asdict(chat), "messages": [asdict(message) for message in messages]})
    except StorageError as error:
        return {"refused": str(error)}
    return {"source": source, "skipped": skipped}


def _program(item: Any) -> ModuleType | None:
    return next((program for program in PROGRAMS if program.is_one(item)), None)


def _read(program: ModuleType, item: Any) -> tuple[Conversation, list[Message]] | None:
    try:
        return as_stored(program.talk(item))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):  # of another shape than any version known
        return None


def _say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


if __name__ == "__main__":
    request = asked()
    system.lower_priority()
    _say(main(Path(request["path"])))
