"""Where a passphrase comes from: a file, the environment, or who sits at the terminal. Never from the command line.

Nothing is printed here. The variable is removed, so that no child process has it, and what the system shows of this
process's environment (/proc/PID/environ) is overwritten; the shell or service that set it still has it.
"""

from __future__ import annotations

import ctypes
import getpass
import os
import sys
from pathlib import Path

from omnidraft.errors import SettingsError
from omnidraft.storage.files import reason

VARIABLE = "OMNIDRAFT_PASSPHRASE"
NEW_VARIABLE = "OMNIDRAFT_NEW_PASSPHRASE"
LONGEST = 4096  # bytes of a file


class Asked:
    """Where one passphrase is looked for. file: its first line is it; variable: in the environment; what: as a person
    at the terminal is asked for it."""

    def __init__(self, file: Path | None = None, variable: str = VARIABLE, what: str = "Passphrase") -> None:
        self._file, self._what = file, what
        self._given = _taken(variable)
        self._answer: str | None = None

    def known(self, missing: str) -> str:
        """A passphrase there is already. SettingsError, saying `missing`, if there is nobody to ask. Asked for once."""
        if self._answer is None:
            self._answer = self._found() or self._type(self._what, missing)
        return self._answer

    def new(self, missing: str) -> str:
        """One that is chosen now: typed twice."""
        if self._answer is None:
            self._answer = self._found() or self._twice(missing)
        return self._answer

    def _twice(self, missing: str) -> str:
        first = self._type(f"{self._what} (there is no way back to the data without it)", missing)
        if self._type("Once more", missing) != first:
            raise SettingsError("The two differ; nothing was changed.")
        return first

    def _found(self) -> str | None:
        if self._file is None:
            return self._given
        try:
            with open(self._file, "rb") as file:
                text = file.read(LONGEST + 1).decode("utf-8-sig")
        except OSError as error:
            raise SettingsError(f"The passphrase file {self._file} cannot be read: {reason(error)}.") from None
        except UnicodeDecodeError:
            raise SettingsError(f"The passphrase file {self._file} is not UTF-8 text.") from None
        line = text.split("\n", 1)[0].rstrip("\r")
        if not line or len(text.encode()) > LONGEST:
            raise SettingsError(f"The first line of the passphrase file {self._file} must be the passphrase.")
        return line

    def _type(self, what: str, missing: str) -> str:
        if not sys.stdin.isatty():
            raise SettingsError(missing)
        try:
            return getpass.getpass(f"{what}: ")
        except EOFError:
            raise SettingsError(missing) from None


def _taken(variable: str) -> str | None:
    """The variable's value; afterwards it is gone from this process's environment, what the system shows included."""
    if variable in os.environ and os.name == "posix":
        find = ctypes.CDLL(None).getenv
        find.restype = ctypes.c_void_p
        if place := find(variable.encode()):
            ctypes.memset(place, 0, len(os.environb[variable.encode()]))
    return os.environ.pop(variable, None) or None
