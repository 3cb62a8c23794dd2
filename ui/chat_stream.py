"""Turns a job's progress into page updates: at most 20 a second, fewer when a page takes long to send.

Every look at the job is one update, so the number of tokens per second never decides how often a browser redraws.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from ui.answer_job import AnswerJob

MIN_INTERVAL = 0.05  # seconds between updates: 20 a second
COST_SHARE = 60  # an update that took t seconds to send is followed by 60 t of silence ...
MAX_INTERVAL = 0.25  # ... but not by more than this
HEARTBEAT = 1.0


def follow(job: AnswerJob) -> Iterator[AnswerJob]:
    """The job at moments worth showing, the last time when it is over."""
    seen = -1
    while not job.over:
        seen = job.wait(seen, HEARTBEAT)
        if job.over:
            break
        begun = time.perf_counter()
        yield job
        # The consumer's work happens between this yield and the next step.
        spent = time.perf_counter() - begun
        time.sleep(max(MIN_INTERVAL - spent, min(spent * COST_SHARE, MAX_INTERVAL)))
    yield job
