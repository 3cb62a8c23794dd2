"""Two programs with one data home, as real processes: the first is held at a point of its work, the second runs then.

`pairs.py TEMPLATES FOLDER` reads a scenario per line of stdin (JSON, see `Scenario`) and answers each with a line: the
exit codes of both, what is wrong with the home afterwards, "" if nothing is, and which key and folders of conversions
the home had at each step of the first. TEMPLATES has a home "plain" and one "sealed". Libraries are loaded once, each
program is a fork that runs the command line's own `main`.

A point is a number of steps: looks at folders and changes of the file system. The passphrase comes through a pipe with
a name, so that a program that waits for it is known to.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import app
from omnidraft import __main__ as command_line
from omnidraft.chats import ChatStore
from omnidraft.cli import encryption, profile  # noqa: F401 (loaded before the forks)
from omnidraft.storage.encryption import header
from omnidraft.storage.encryption.conversion import MADE, OLD
from omnidraft.storage.files import write_atomically
from omnidraft.storage.sealed import is_sealed
from omnidraft.storage.vault import HEADER
from tests.storage.encryption.homes import PASSPHRASE, QUICK, opened, told

CHANGED = "another passphrase"
GOOD = (0, 2)  # done, or refused in a sentence
TOLD: list = []  # what is in the homes
STEPS = ("rename", "replace", "unlink", "rmdir", "fsync", "listdir")  # who only lists is held at the last
MEANWHILE = "Asked meanwhile"  # what the app adds
LEFT = (*MADE.values(), OLD)
COMMANDS = ("app", "on", "off", "change", "status", "list")


@dataclass(frozen=True)
class Scenario:
    """start: the home; first, second: commands; point: the step of the first at which the second runs (-1: behind all).

    asked: "" if the second runs there at once; "before" if it has waited for its passphrase since the first began, and
    "behind" if it comes at the point and is told it when the first has ended. killed: whether the first is, at its
    point.
    """

    start: str
    first: str
    second: str
    point: int
    asked: str = ""
    killed: bool = False


class Program:
    """One command in a process of its own. hold: the step at which it stops until `go_on`."""

    code: int | None = None

    def __init__(self, command: str, root: Path, pipe: Path | None, hold: int = 0) -> None:
        self._pipe, self.pid = pipe, os.fork()
        if self.pid == 0:
            os._exit(_run(command, root, pipe, hold))

    def held(self) -> bool:
        """Wait until it is at its point or has ended; whether it is there."""
        return not self._ended(os.WUNTRACED)

    def is_asked(self) -> bool:
        """Wait until it wants its passphrase, or has ended; whether it wants it."""
        while not self._ended(os.WNOHANG):
            with suppress(OSError):  # as long as nobody reads there
                self._answer = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
                return True
            time.sleep(0.002)
        return False

    def answer(self, passphrase: str) -> None:
        os.write(self._answer, f"{passphrase}\n".encode())
        os.close(self._answer)

    def signal(self, number: int) -> None:
        if self.code is None:
            os.kill(self.pid, number)

    def go_on(self) -> None:
        """To its end."""
        self.signal(signal.SIGCONT)
        self._ended(0)

    def _ended(self, how: int) -> bool:
        if self.code is None:
            pid, status = os.waitpid(self.pid, how)
            self.code = os.waitstatus_to_exitcode(status) if pid and not os.WIFSTOPPED(status) else None
        return self.code is not None


def _run(command: str, root: Path, pipe: Path | None, hold: int) -> int:
    """In the fork."""
    said: list[str] = []
    for name in STEPS:
        setattr(os, name, _stepping(getattr(os, name), root, said, hold))
    sys.stdin = open(os.devnull)  # noqa: SIM115
    sys.stdout = sys.stderr = open(root.parent / f"said-{command}-{os.getpid()}", "w")  # noqa: SIM115
    try:
        code = _command(command, root, pipe)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    (root.parent / f"steps-{os.getpid()}").write_text(json.dumps(said))
    return code


def _stepping(do: Callable, root: Path, said: list[str], hold: int) -> Callable:
    """`do`, before which the header's words are noted, and which stops where that is wanted."""

    def step(*args, **options):
        now = header.read_header(root)
        left = [name for name in LEFT if (root / name).exists()]
        said.append(f"{now.wrapped.hex()[:4] if now else 'none'} {'+'.join(left)}")
        if len(said) == hold:
            os.kill(os.getpid(), signal.SIGSTOP)
        return do(*args, **options)

    return step


def _command(command: str, root: Path, pipe: Path | None) -> int:
    place, given = ["--data-dir", str(root)], ["--passphrase-file", str(pipe or root.parent / "passphrase")]
    if command == "app":
        app._serve = _serve
        return app.main([*place, *given, "--port", "59673"])
    if command == "list":
        return command_line.main(["profile", *place, *given, "list"])
    more = ["--new-passphrase-file", str(root.parent / "new")] if command == "change" else []
    return command_line.main(["encryption", command, *place, *([] if command == "status" else given), *more])


def _serve(args, home, name) -> int:
    """What the app does with its data, without pages: it takes its lock, and stores a message."""
    lock = app._only_one(home)
    paths = home.profile(name)
    with ChatStore(paths.chats) as store:
        store.append(store.create(MEANWHILE).id, "user", "And this?")
        write_atomically(paths.root / "drift" / "prompts" / "more.txt", b"And this?")
    lock.release()
    return 0


def play(scenario: Scenario, root: Path) -> dict:
    """Both programs in a home; then what is wrong with it."""
    early = Program(scenario.second, root, root.parent / "pipe") if scenario.asked == "before" else None
    waits = early is not None and early.is_asked()
    first = Program(scenario.first, root, None, hold=max(scenario.point, 0))
    if first.held() and scenario.killed:
        first.signal(signal.SIGKILL)
        first.go_on()
    second = early or Program(scenario.second, root, root.parent / "pipe" if scenario.asked else None)
    if scenario.asked == "behind":
        waits = second.is_asked()
        first.go_on()
    if waits:
        second.answer(PASSPHRASE)
    second.go_on()
    first.go_on()
    codes = {"first": first.code, "second": second.code}
    steps = root.parent / f"steps-{first.pid}"
    said = json.loads(steps.read_text()) if steps.exists() else []
    return {**codes, "wrong": _wrong(scenario, root, codes), "steps": said}


def _wrong(scenario: Scenario, root: Path, codes: dict) -> str:
    for who, code in codes.items():
        if code not in GOOD and not (code == -signal.SIGKILL and scenario.killed and who == "first"):
            return f"the {who} ended with {code}: {_said(root)}"
    changed = any(codes[who] == 0 and getattr(scenario, who) == "change" for who in codes)
    stays = not {"on", "off"} & {scenario.first, scenario.second}
    return _look(root, [CHANGED] if changed and stays else [PASSPHRASE, CHANGED])


def _look(root: Path, wanted: list[str]) -> str:
    """What is wrong with a home when it is opened with one of these."""
    why = ""
    for passphrase in wanted:
        try:
            with opened(root, passphrase=passphrase) as home:
                with ChatStore(home.profile().chats) as store:
                    store.delete(*(chat.id for chat in store.conversations() if chat.title == MEANWHILE))
                return _mixed(root) if told(home.profile()) == TOLD else "something is lost"
        except Exception as error:
            why += f"{type(error).__name__}: {error} "
    return f"it does not open: {why} {_said(root)}"


def _mixed(root: Path) -> str:
    """A home is wholly what its header says, and nothing of a conversion is left."""
    encrypted = (root / HEADER).exists()
    left = [name for name in LEFT if (root / name).exists()]
    if left:
        return f"left: {left}"
    for file in (root / "profiles").rglob("*"):
        if file.is_file() and not file.name.startswith(".") and not file.name.endswith(("-wal", "-shm", ".lock")):
            start = file.read_bytes()[:16]
            readable = start.startswith(b"SQLite format") if file.suffix == ".sqlite" else not is_sealed(start)
            if start and readable == encrypted:
                return f"{file} is {'plain' if readable else 'sealed'} in a home that is not"
    return ""


def _said(root: Path) -> str:
    return " | ".join(f"{file.name}: {file.read_text()[-300:]}" for file in sorted(root.parent.glob("said-*")))


def main(templates: Path, folder: Path) -> None:
    global TOLD
    header.COST = QUICK
    for start in ("sealed", "plain"):  # which loads what both need, once
        with opened(templates / start) as home:
            TOLD = told(home.profile())
    for number, line in enumerate(sys.stdin):
        scenario = Scenario(**json.loads(line))
        place = folder / str(number)
        place.mkdir()
        shutil.copytree(templates / scenario.start, place / "home")
        (place / "passphrase").write_text(PASSPHRASE)
        (place / "new").write_text(CHANGED)
        os.mkfifo(place / "pipe")
        answer = play(scenario, place / "home")
        print(json.dumps(answer), flush=True)
        if not answer["wrong"]:
            shutil.rmtree(place)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
