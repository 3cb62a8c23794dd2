"""An answer in the making: it outlives the page that asked for it.

Pages look at the job's text and counters whenever they like; closing or reloading one changes nothing. `stop` ends
the answer, also while the prompt is being read. Knows no page and no storage: `finished` is told when all is over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, replace

from omnidraft.app.assistant import Assistant
from omnidraft.app.live import Live
from omnidraft.backends.prompting.prompted_model import Message
from omnidraft.backends.prompting.raw_text import RawText
from omnidraft.chats.steps import Step
from omnidraft.decoding.events import Event, Finished, Prefill, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import OmniDraftError

log = logging.getLogger("omnidraft.ui")


class AnswerJob:
    """One answer: `run` writes it, on a thread of its own. `text` is all of it so far; `error` is a sentence if it
    failed.

    Where the request goes on with an answer, `pieces` (text, origin) of it were shown before; `begun` is all of its
    text where that is more. `prompts` are what the model reads, one behind the other; by default the request's, and no
    other. `steps` are the calls it has made so far, which `marker` begins; `stepped` hears when they change. `watches`
    hear of every event.
    """

    def __init__(
        self,
        assistant: Assistant,
        request: AnswerRequest,
        *,
        message: str | None = None,
        begun: str | None = None,
        steps: Sequence[Step] = (),
        marker: str = "",
        pieces: Sequence[tuple[str, str]] = (),
        stepped: Callable[[AnswerJob], None] = lambda job: None,
        watches: Sequence[Callable[[AnswerJob, Event], None]] = (),
        prompts: Callable[[AnswerJob], Iterable[Sequence[Message] | RawText]] = lambda job: [job.request.prompt],
        finished: Callable[[AnswerJob], None] = lambda job: None,
    ) -> None:
        self.request: AnswerRequest = request
        self.chat = request.source
        self.message = message  # the stored message this answer fills
        # What was there before this job went on with it.
        self.begun = begun if begun is not None else request.continued.text if request.continued else ""
        self.steps = steps
        self.live = Live(pieces=list(pieces))
        self.error: str | None = None
        self.failure: OmniDraftError | None = None  # what `error` tells, where it is one of ours
        self.started = time.time()
        self._assistant = assistant
        self._parts: list[str] = [self.begun]
        self._marker = marker
        self._stepped = stepped
        self._watches = watches
        self._prompts = prompts
        self._finished = finished
        self._changed = threading.Condition()
        self._version = 0
        self.stopped = self.over = False

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def spoken(self) -> str:
        """The text so far without a call that is being written."""
        text, said = self.text, self.steps[-1].at if self.steps else 0
        at = text.find(self._marker, said) if self._marker else -1
        return text if at < 0 else text[:at]

    def tell(self, text: str, steps: Sequence[Step]) -> None:
        """The answer so far was this text, with these steps."""
        self._parts, self.steps = [text], list(steps)
        self._stepped(self)
        self._announce()

    def stop(self) -> None:
        """End the answer as soon as possible; what was written stays. Nothing happens to one that is over."""
        with self._changed:  # over or not must not change meanwhile: the assistant may be at another answer then
            if not self.over:
                self.stopped = True
                self._assistant.stop()

    def wait(self, seen: int, timeout: float) -> int:
        """Block until there is more than version `seen`, the job is over or `timeout` seconds passed."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != seen or self.over, timeout)
            return self._version

    def join(self, timeout: float | None = None) -> None:
        """Block until the job is over, at most `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self.over, timeout)

    def run(self, behind: Callable[[], None] = lambda: None) -> None:
        """Write the answer, to its end or until it is stopped, and do what comes `behind` it."""
        try:
            request, earlier = self.request, None
            for prompt in self._prompts(self):
                if self.stopped:
                    break
                with closing(self._assistant.answer(replace(request, prompt=prompt), wait=False)) as events:
                    for event in events:
                        self._take(event)
                        # A stop that came before the engine had started counts as well.
                        if self.stopped and isinstance(event, Prefill):
                            break
                if earlier is not None:
                    self.live.add_earlier(earlier)
                request, earlier = replace(request, continued=None), asdict(self.live.statistics)
        except OmniDraftError as error:
            self.error, self.failure = str(error), error
        except Exception:
            # The page must hear that it is over; the traceback belongs in the log.
            log.exception("the answer ended with a defect")
            self.error = "Something went wrong inside the program; its log has the details."
        self._end()
        behind()

    def _take(self, event: Event) -> None:
        self.live.take(event)
        if isinstance(event, (Token, Finished)) and event.text:
            self._parts.append(event.text)
        for watch in self._watches:
            watch(self, event)
        if not isinstance(event, Token):
            self._announce()

    def _end(self) -> None:
        try:
            self._finished(self)
        except OmniDraftError as error:
            self.error = self.error or str(error)
        finally:
            self.live.phase = "done"
            with self._changed:
                self.over = True
                self._changed.notify_all()

    def _announce(self) -> None:
        with self._changed:
            self._version += 1
            self._changed.notify_all()
