"""A module of ours in a process of its own that talks in lines: asked on its stdin, heard from its stdout.

What it writes to stderr is kept, for the sentence that explains its end. Knows nothing of what is said; a child that
answers once and may crash is run by `bounded_child`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from omnidraft.processes import system

ROOT = Path(__file__).resolve().parents[2]


class LineChild:
    """`python -m module`, running. It leads a process group of its own, so that Ctrl+C in the terminal is left to us.

    One thread reads `lines` and then calls `ended`; the others may be called from anywhere. environment: variables it
    has besides ours. keeps_errors: for a child that writes a log as long as it runs there is nothing to keep. heard:
    False for one that answers by other ways, and inherits these `descriptors` for it (not on Windows).
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        environment: Mapping[str, str] = MappingProxyType({}),
        keeps_errors: bool = True,
        heard: bool = True,
        descriptors: Sequence[int] = (),
    ) -> None:
        self._errors = tempfile.TemporaryFile() if keeps_errors else None  # noqa: SIM115 - open until it has ended
        ours = {"GGML_NO_BACKTRACE": "1", "PYTHONIOENCODING": "utf-8"}  # whoever aborts needs no debugger
        given = {**os.environ, **ours, **environment}
        path = os.pathsep.join([str(ROOT), *filter(None, [given.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *arguments], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if heard else subprocess.DEVNULL, stderr=self._errors or subprocess.DEVNULL,
            env={**given, "PYTHONPATH": path}, pass_fds=descriptors, encoding="utf-8", **system.own_group(),
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def say(self, text: str) -> None:
        """Write to its stdin; it does not matter if it has just ended."""
        with suppress(OSError, ValueError):
            if self.process.stdin is not None:
                self.process.stdin.write(text)
                self.process.stdin.flush()

    def lines(self) -> Iterator[str]:
        """What it says, line by line, until it closes its side. Whoever stops early can go on where he stopped."""
        return iter(self.process.stdout or ())

    def ended(self) -> int:
        """Wait until it has ended and let go of its pipes; its exit code."""
        code = self.process.wait()
        for pipe in filter(None, (self.process.stdin, self.process.stdout)):
            with suppress(OSError):
                pipe.close()
        return code

    def kill(self) -> None:
        """End it at once; returns when its memory is released."""
        with suppress(OSError):
            self.process.kill()
        self.process.wait()

    def last_words(self, most: int = 4000) -> str:
        """The end of what it wrote to stderr, which is let go of: ask once, when it has ended."""
        if self._errors is None:
            return ""
        with self._errors as errors:
            errors.seek(0)
            return errors.read()[-most:].decode("utf-8", "replace").strip()
