"""Runs the app as a child process for the tests and writes down every name it tries to look up.

Usage: python serve.py LOOKUPS_FILE [arguments of app.py]
With PAUSE in the environment every token of an answer takes that many seconds longer. With SAYS models say what stands
there, answers parted by "|", and their templates know tools (scripted_engine.py). With CLOCK_DAYS every other look at
the clock tells a time so many days later.
"""

import ipaddress
import itertools
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
RECORD = Path(sys.argv[1])
LOOKUPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")


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
            with RECORD.open("a") as record:
                record.write(f"{event} {host!r}\n")


sys.addaudithook(listen)
RECORD.touch()

if days := os.environ.get("CLOCK_DAYS"):
    real, looks = time.time, itertools.count()
    time.time = lambda: real() + next(looks) % 2 * float(days) * 86400

import app  # noqa: E402  the hook has to be there before anything is imported
from omnidraft.app.answer_job import AnswerJob  # noqa: E402
from omnidraft.decoding.events import Event, Token  # noqa: E402

if pause := float(os.environ.get("PAUSE", "0")):
    take = AnswerJob._take

    def slowly(job: AnswerJob, event: Event) -> None:
        time.sleep(pause if isinstance(event, Token) else 0)
        take(job, event)

    AnswerJob._take = slowly  # type: ignore[method-assign]

if says := os.environ.get("SAYS"):
    from tests.ui.scripted_engine import say

    say(says.split("|"))

sys.exit(app.main(sys.argv[2:]))
