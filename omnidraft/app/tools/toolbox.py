"""All functions of one profile: the built-in ones, and those of the servers that its owner named.

Servers are started when `start` is called, never before, and ended with the session. Knows nothing of who allowed a
call.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnidraft.app.tools import functions
from omnidraft.app.tools.server_file import BETWEEN, Program, programs_in
from omnidraft.chats import TextFile

if TYPE_CHECKING:
    from omnidraft.app.tools.running_server import RunningServer

MAX_TOOLS = 64  # of all servers together: a model reads all of them before every answer
MAX_DESCRIPTION = 1_000  # characters
MAX_SCHEMA = 8_000
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class _Named:
    """A server's function as a model sees it, and its own name there."""

    server: RunningServer
    own: str
    described: dict[str, Any]


class Toolbox:
    """file: names the servers, if it is there. Methods may be called from any thread."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.file_name = f"{file.parent.name}/{file.name}"  # as pages show it
        self._servers: dict[Program, RunningServer] = {}
        self._failed: set[Program] = set()
        self._told: list[str] = []
        self._tools: dict[str, _Named] = {}
        self._lock = threading.Lock()
        self._closed = False

    def start(self, stopped: Callable[[], bool] = lambda: False) -> list[str]:
        """Have the servers run that the file names now; sentences for what is wrong, each said once.

        One that failed is left alone until `retry`.
        """
        with self._lock:
            programs, told = programs_in(self._file) if not self._closed else ([], [])
            self._end([one for one, server in self._servers.items() if one not in programs or server.fault])
            if wanted := [one for one in programs if one not in self._servers and one not in self._failed]:
                from omnidraft.app.tools.running_server import RunningServer

                self._servers |= {one: RunningServer(one) for one in wanted}
            for server in self._servers.values():
                while not server.ready.wait(0.1) and not (stopped() or self._closed):
                    pass
            failed = {one: server.fault for one, server in self._servers.items() if server.fault}
            told += [f"The server {one.name} {why}; its functions are not offered." for one, why in failed.items()]
            self._failed |= failed.keys()
            self._end(list(failed))
            told += self._take_stock()
            news = [sentence for sentence in told if sentence not in self._told]
            self._told += news
            return news

    def retry(self) -> list[str]:
        """`start`, also those that failed."""
        with self._lock:
            self._failed, self._told = set(), []
        return self.start()

    def offered(self, files: Sequence[TextFile]) -> list[dict[str, Any]]:
        """What a model is offered where these files are attached."""
        return [*functions.offered(files), *(tool.described for tool in self._tools.values())]

    def listed(self) -> list[str]:
        """A line for each server: its functions; of one that is not running, that it is not."""
        names = [name.partition(BETWEEN) for name in self._tools]
        return [
            f"{one.name}: {', '.join(own for server, _, own in names if server == one.name) or 'not running'}"
            for one in programs_in(self._file)[0]
        ]

    def run(
        self, name: str, arguments: str, files: Sequence[TextFile], stopped: Callable[[], bool] = lambda: False
    ) -> str:
        """The result of a call as text; where it cannot be followed, a sentence that says why. Never raises."""
        if (tool := self._tools.get(name)) is None:
            return functions.run(name, arguments, files)
        return functions.bounded(lambda: tool.server.call(tool.own, functions.parsed(arguments), stopped))

    def close(self) -> None:
        self._closed = True
        with self._lock:
            self._end(list(self._servers))

    def _end(self, programs: Sequence[Program]) -> None:
        servers = [self._servers.pop(one) for one in programs]
        for server in servers:
            server.close()
        for server in servers:
            server.join()

    def _take_stock(self) -> list[str]:
        """Find out what is offered; sentences for what is left out."""
        found: dict[str, _Named] = {}
        told = []
        for program, server in self._servers.items():
            left_out = []
            for tool in server.tools if server.ready.is_set() else ():
                name = f"{program.name}{BETWEEN}{tool.name.replace('.', '_')}"
                parameters = tool.input_schema or {"type": "object", "properties": {}}
                usable = _NAME.fullmatch(name) and name not in found and _is_short(parameters)
                if not usable or len(found) >= MAX_TOOLS:
                    left_out.append(tool.name)
                    continue
                text = (tool.description or tool.title or tool.name)[:MAX_DESCRIPTION]
                function = {"name": name, "description": text, "parameters": parameters}
                found[name] = _Named(server, tool.name, {"type": "function", "function": function})
            if left_out:
                told.append(
                    f"{len(left_out)} of the functions of {program.name} are not offered: more than {MAX_TOOLS}, a "
                    "name twice, or a name or description of arguments that is too long."
                )
        self._tools = found
        return told


def _is_short(schema: dict[str, Any]) -> bool:
    try:
        return len(json.dumps(schema)) <= MAX_SCHEMA
    except (ValueError, RecursionError):
        return False
