"""Runs the app as a child process for the tests and writes down every name it tries to look up.

Usage: python serve.py LOOKUPS_FILE [arguments of app.py]
With PAUSE in the environment every token of an answer takes that many seconds longer. With SAYS there are no models:
what stands there is answered, answers parted by "|" (ui/fake_assistant.py).
"""

import ipaddress
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
LOOKUPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")
looked_up: list[str] = []
record: Path | None = None  # where lines go; until it is known they wait in `looked_up`


def is_address(host: object) -> bool:
    try:
        ipaddress.ip_address(host.decode() if isinstance(host, bytes) else str(host))
    except ValueError:
        return False
    return True


def listen(event: str, arguments: tuple) -> None:
    if event in LOOKUPS:
        host = arguments[0][0] if isinstance(arguments[0], tuple) else arguments[0]
        if host is not None and not is_address(host):
            looked_up.append(f"{event} {host!r}\n")
            write_down()


def write_down() -> None:
    if record is not None:
        with record.open("a") as file:
            file.writelines(looked_up)
        looked_up.clear()


sys.addaudithook(listen)

import app  # noqa: E402  the hook has to be there before anything is imported
import ui.server  # noqa: E402, F401  what takes longest to import, for those that are forked
from omnidraft.app.answer_job import AnswerJob  # noqa: E402
from omnidraft.decoding.events import Event, Token  # noqa: E402


def changed() -> None:
    """As the environment wants it."""
    if pause := float(os.environ.get("PAUSE", "0")):
        take = AnswerJob._take

        def slowly(job: AnswerJob, event: Event) -> None:
            time.sleep(pause if isinstance(event, Token) and not job.stopped else 0)
            take(job, event)

        AnswerJob._take = slowly  # type: ignore[method-assign]
    if says := os.environ.get("SAYS"):
        import omnidraft.app.session
        from tests.ui.fake_assistant import FakeAssistant

        omnidraft.app.session.Assistant = FakeAssistant  # type: ignore[misc]
        FakeAssistant.says = says.split("|")


def run(lookups: str, arguments: list[str]) -> int:
    global record
    record = Path(lookups)
    record.touch()
    write_down()
    changed()
    return app.main(arguments)


def forked(log: str, lookups: str, arguments: list[str], environment: dict[str, str]) -> None:
    """In a process forked from one that has imported all of the above."""
    os.environ.update(environment)
    with open(log, "ab") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    sys.exit(run(lookups, arguments))


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
