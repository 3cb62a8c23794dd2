"""The program's log: to the terminal, and to a file of the data home that never grows beyond a few megabytes.

What comes again and again is counted: of one place's lines ten a minute are written, then the hundredth, the
thousandth. Nothing that anybody said belongs here.
"""

from __future__ import annotations

import logging
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path

FORMAT = "%(levelname)s %(name)s: %(message)s"
WRITTEN, WINDOW = 10, 60.0  # lines of one place in so many seconds
BYTES, KEPT = 1 << 20, 3  # of the file, and how many older ones stay


class Repeats(logging.Filter):
    """Lets through what is new, and of what repeats as much as tells how often."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, int], tuple[float, int]] = {}  # place in the code: since when, how often

    def filter(self, record: logging.LogRecord) -> bool:
        """Decided once for a line, whatever it is written to."""
        decided: dict[str, bool] = record.__dict__
        if "is_written" not in decided:
            decided["is_written"] = self._decide(record)
        return decided["is_written"]

    def _decide(self, record: logging.LogRecord) -> bool:
        place, now = (record.pathname, record.lineno), time.monotonic()
        since, count = self._seen.get(place, (now, 0))
        if now - since > WINDOW:
            since, count = now, 0
        count += 1
        self._seen[place] = since, count
        if count <= WRITTEN:
            return True
        if str(count).strip("0") != "1":
            return False
        record.msg, record.args = f"{record.getMessage()} ({count:,} times within a minute)", ()
        return True


_REPEATS = Repeats()


def begin_log() -> None:
    """Log to the terminal from now on."""
    logging.raiseExceptions = False  # a full disk is no reason to write about it
    shown = logging.StreamHandler()
    logging.basicConfig(level=logging.INFO, format=FORMAT, handlers=[shown])
    shown.addFilter(_REPEATS)
    for noisy in ("httpx", "httpcore", "gguf"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def keep_log(file: Path) -> None:
    """Write the log to `file`, too."""
    kept = RotatingFileHandler(file, maxBytes=BYTES, backupCount=KEPT, encoding="utf-8", delay=True)
    kept.setFormatter(logging.Formatter(f"%(asctime)s {FORMAT}"))
    kept.addFilter(_REPEATS)
    logging.getLogger().addHandler(kept)
