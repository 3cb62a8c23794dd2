"""Turns an answer's progress into page updates: at most 20 a second, fewer when a page takes long to send.

Every look at the job is one update, so the number of tokens per second never decides how often a browser redraws. What
an update takes is Python's, and a thread that decodes waits for it between two passes: not worth mentioning where a
pass takes 20 ms, but felt where one takes 2.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from omnidraft.app.answer_job import AnswerJob

MIN_INTERVAL = 0.05  # seconds between updates: 20 a second
COST_SHARE = 60  # an update that took t seconds to send is followed by 60 t of silence ...
MAX_SILENCE = 0.25  # ... but not by more than this
READABLE = 60  # tokens a second; nobody reads along with what comes faster
UNREADABLE_SILENCE = 0.5  # ... so that this does not disturb
HEARTBEAT = 1.0


@dataclass(slots=True)
class Followed:
    """What a page follows or followed last, for as long as it is open.

    started: when that answer did; ended: just now, and the page is to be shown anew; by: which of its handlers follows;
    left: how often the page went to another conversation; clicked: when it was last told to, by the page's clock.
    Gradio could end what goes on for the one before (`cancels`), but does so one by one, each when it next yields, and
    then also ends what the page has begun since.
    """

    started: float = 0.0
    ended: bool = False
    by: int = 0
    left: int = 0
    clicked: float = 0.0

    def begin(self) -> int:
        """A number for who follows from now on; whoever did lets go."""
        self.by += 1
        return self.by

    def leave(self) -> None:
        """The page shows another conversation: whoever follows lets go, and `while_shown` ends."""
        self.by += 1
        self.left += 1

    def pass_over(self, job: AnswerJob | None) -> None:
        """An answer that is over needs no word when its conversation is shown next: something else is told then."""
        if job is not None and job.over:
            self.started = job.started

    def while_shown(self, updates: Iterator[dict]) -> Iterator[dict]:
        """The updates, as long as the page shows the same conversation."""
        left = self.left
        for update in updates:
            if self.left != left:
                return
            yield update


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
        time.sleep(max(MIN_INTERVAL - spent, silence(spent, job.live.statistics.tokens_per_second or 0.0)))
    yield job


def silence(spent: float, pace: float) -> float:
    """Seconds without an update behind one that took `spent` seconds, while `pace` tokens come per second."""
    return min(spent * COST_SHARE, UNREADABLE_SILENCE if pace > READABLE else MAX_SILENCE)
