"""The list of work of a profile: who is answered, who waits for that, in which order. One thread does it.

Knows no models, no conversations and no clients.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from omnidraft.errors import Defect, ModelError, OmniDraftError

log = logging.getLogger("omnidraft.ui")
LONGEST = 32  # who comes when so many wait is better told to come back


class StillAnswering(ModelError):
    """An answer is being written, so no other can begin and no model can change."""

    def __init__(
        self, words: str = "An answer is still being written, here or elsewhere; stop it or wait for it."
    ) -> None:
        super().__init__(words)


class QueueFull(OmniDraftError):
    """Too many wait; `seconds` says when to come again."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, math.ceil(seconds))
        super().__init__(f"Too many requests are waiting for this model; try again in {self.seconds} seconds.")


class Job:
    """What takes long, can be waited for, and stopped from any thread. work: does it, to its end or until it is
    stopped; result: what that gave; failure: why it is not what it should be."""

    def __init__(self, work: Callable[[], Any], cut: Callable[[], object], named: str = "the answer") -> None:
        """cut: ends what it is at; named: what the log calls it."""
        self.result: Any = None
        self.failure: OmniDraftError | None = None
        self.stopped = self.over = False
        self.work, self._cut, self._named, self._changed = work, cut, named, threading.Condition()

    def stop(self) -> None:
        """End it as soon as possible; nothing happens to one that is over."""
        with self._changed:  # over or not must not change meanwhile: what would be cut may be another's then
            if not self.over:
                self.stopped = True
                self._cut()

    def join(self, timeout: float | None = None) -> None:
        """Block until it is over, at most `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self.over, timeout)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Around its work: what goes wrong is its `failure`, and it is over behind the block."""
        try:
            yield
        except OmniDraftError as error:
            self.failure = error
        except Exception:
            # Who waits must hear that it is over; the traceback belongs in the log.
            log.exception("%s ended with a defect", self._named)
            self.failure = Defect()
        finally:
            self._end()

    def _end(self) -> None:
        with self._changed:
            self.over = True
            self._changed.notify_all()


class Place:
    """In the list. begin: what is done when its turn comes; chat: the conversation whose question waits, None: somebody
    else; first: whether nobody was ahead when it came; stored: what was stored for it then; begun: what `begin` gave,
    or the error it raised, None if it was taken back; taken_up: whether it is, and so can only be stopped; job: what it
    began."""

    def __init__(self, begin: Callable[[Place], Any], chat: str | None, first: bool) -> None:
        self.begin, self.chat, self.first = begin, chat, first
        self.stored: Any = None
        self.taken_back = self.taken_up = False
        self.begun: Future[Any] = Future()
        self.job: Job | None = None

    def outcome(self) -> Any:
        """What `begin` gives, which is waited for, or raises; None at once if others were ahead."""
        return self.begun.result() if self.first else None


class WorkList:
    """What pages and clients of the API asked for, in its order; it contains the conversations whose questions wait.

    When its turn comes a place begins, for which models may have to be loaded, and leaves the list; the job it began,
    if it did, is run to its end before anybody else's turn. job: that, or the last one; still: what stands still around
    each turn.
    """

    def __init__(self, still: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
        self.job: Job | None = None
        self._still = still
        self._lock = threading.Condition()
        self._places: deque[Place] = deque()
        # One for all turns: what each thread allocates for models it loads is not given back to the others.
        self._thread: threading.Thread | None = None
        self._closed = False
        self._turn = 1.0  # seconds that one takes

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, chat: str | None) -> bool:
        return self.of(chat) is not None

    def of(self, chat: str | None) -> Place | None:
        """The place of a conversation's question."""
        with self._lock:
            return next((place for place in self._places if chat is not None and place.chat == chat), None)

    @property
    def busy(self) -> bool:
        """Whether a job is under way."""
        return self.job is not None and not self.job.over

    def enter(
        self, begin: Callable[[Place], Any], chat: str | None = None, store: Callable[[], object] = bool, *,
        waits: bool = True, again: bool = False,
    ) -> Place:  # fmt: skip
        """A place in the list, at its end. `store` is called once it is sure, before its turn.

        Who goes first:

        | who comes | has its turn |
        |---|---|
        | a question, another answer, going on with one; a client of the API | behind all who came before |
        | the like in a conversation of which one waits | never: StillAnswering |
        | a question with files, what is decided about a call (not `waits`) | at once, or never: StillAnswering |
        | who comes when so many wait | never: QueueFull |
        | the next choice of a client who was let in (`again`) | behind all who came before, however many |

        Beside the list: models and what belongs to them are changed at once, while nobody has a turn, or refused while
        a job is under way (`Session._alone`). Drift runs and races stand still for each of these changes and each turn,
        races for two seconds longer (`GivingWay`); training stands still while a job writes (`Scheduler.answering`).
        """
        with self._lock:
            place = Place(begin, chat, first=not (self.busy or self._places))
            if chat in self:
                raise StillAnswering("A question of this conversation waits already; take it back or wait for it.")
            if not (waits or place.first):
                raise StillAnswering
            if len(self._places) >= LONGEST and not again:
                raise QueueFull(self._turn * len(self._places) / 2)
            if self._closed:
                self.take_back(place)
                return place
            place.stored = store()
            self._places.append(place)
            self._lock.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="answer", daemon=True)
                self._thread.start()
        return place

    def take_up(self, place: Place) -> bool:
        """For `begin`, where taking back ends and stopping begins: whether it was not taken back before."""
        with self._lock:
            place.taken_up = place.taken_up or not place.taken_back
            return place.taken_up

    def take_back(self, place: Place, tell: Callable[[], object] = bool) -> None:
        """It does not begin any more; what it has begun ends. `tell` is called if it was not taken up, before anybody
        comes instead."""
        with self._lock:
            untold, place.taken_back = not (place.taken_up or place.taken_back), True
            if place in self._places:
                self._places.remove(place)
            if not place.begun.done():
                place.begun.set_result(None)
            if place.job is not None:
                place.job.stop()
            if untold:
                tell()

    def close(self) -> None:
        """Take back all who wait, and end what is under way."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
            for place in list(self._places):
                self.take_back(place)
        if self.job is not None:
            self.job.stop()
        if self._thread is not None:
            self._thread.join(10)

    def _work(self) -> None:
        while (place := self._next()) is not None:
            began, before = time.monotonic(), self.job
            try:
                with self._still():
                    if not place.taken_back:  # while long work came to stand still
                        given = place.begin(place)
                        place.job = self.job if self.job is not before else None
                        self._leave(place, given)
                    if (job := place.job) is not None:
                        with job.at_work():
                            job.result = job.work()
            except Exception as error:
                if place.job is None:
                    self.job = before  # what it began does not run
                if not isinstance(error, OmniDraftError):
                    log.exception("a turn ended with a defect")
                self._leave(place, error=error)
            self._turn += 0.2 * (time.monotonic() - began - self._turn)
            place = job = before = given = None  # while the next is waited for, what it began may be let go

    def _next(self) -> Place | None:
        with self._lock:
            self._lock.wait_for(lambda: self._places or self._closed)
            return self._places[0] if self._places else None

    def _leave(self, place: Place, given: Any = None, error: Exception | None = None) -> None:
        """Its turn has begun, or never will."""
        with self._lock:
            if place.taken_back:
                self.take_back(place)
            if place in self._places:
                self._places.remove(place)
            if place.begun.done():
                return
            if error is None:
                place.begun.set_result(given)
            else:
                place.begun.set_exception(error)
