"""An answer in the making: it outlives the page that asked for it.

It generates, has the functions run that the model calls, and goes on. Pages look at the job's text and counters
whenever they like; closing or reloading one changes nothing. `stop` ends the answer, also while the prompt is being
read. Knows no page and no storage: what becomes of an answer its `Listener` hears.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from omnidraft.app.assistant import Assistant
from omnidraft.app.speeds import PlainSpeed, RoundTimes
from omnidraft.app.tool_use import ToolUse
from omnidraft.chats.records import Step, last_step, open_call
from omnidraft.decoding.events import Event, Finished, Notice, Prefill, Round, Statistics, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import OmniDraftError

# Running counters of the answer being written, built from its events. Knows no page.


_SUMS = (
    "tokens", "target_passes", "rounds", "prefill", "drafted", "proposed", "tested", "accepted", "copied",
    "copied_tested", "copied_accepted", "forced", "forced_tested", "forced_accepted", "plain", "plain_seconds",
    "draft", "translate", "verify", "other",
)  # fmt: skip


@dataclass(slots=True)
class Live:
    """What the panel shows. phase: waiting, reading, writing, done. `statistics` runs along with the rounds."""

    phase: str = "waiting"
    prefill: Prefill | None = None
    statistics: Statistics = field(default_factory=Statistics)
    notices: list[str] = field(default_factory=list)
    pieces: list[tuple[str, str]] = field(default_factory=list)  # (text, origin) per token, for the origins view
    ids: list[int] = field(default_factory=list)  # of the tokens counted here
    acceptance: list[float] = field(default_factory=list)  # accepted / proposed, one value per 8 rounds that proposed
    finish_reason: str | None = None
    disabled_reason: str | None = None
    seed: int | None = None
    times: RoundTimes = field(default_factory=RoundTimes)
    settled_plain: PlainSpeed | None = None  # `plain` of an answer that is in the store
    _window: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def stored(
        cls, statistics: Mapping[str, Any], disabled_reason: str | None, plain: PlainSpeed | None = None
    ) -> Live:
        """The counters of an answer that was written earlier, and its speed without drafting."""
        known = {f.name for f in fields(Statistics)}
        live = cls(phase="done", disabled_reason=disabled_reason, settled_plain=plain)
        live.statistics = Statistics(**{name: value for name, value in statistics.items() if name in known})
        return live

    def add_earlier(self, statistics: Mapping[str, Any]) -> None:
        """Count what was written of this answer before it was continued, as if it had never stopped."""
        before, now = Live.stored(statistics, None).statistics, self.statistics
        for name in _SUMS:
            setattr(now, name, getattr(before, name) + getattr(now, name))
        now.origins = {name: before.origins.get(name, 0) + count for name, count in now.origins.items()}
        # The continued prompt ended with the answer's own tokens; the gauge counts them once.
        now.prompt_tokens = max(now.prompt_tokens - before.tokens, 0)
        now.reused_tokens = min(before.reused_tokens, now.prompt_tokens)

    def plain(self, earlier: Sequence[float] = ()) -> PlainSpeed | None:
        """The speed the answer would have had without drafting; None if nothing was drafted or nobody knows.

        earlier: plain rounds of the answers before, seconds.
        """
        if self.settled_plain is not None:
            return self.settled_plain
        speedup, speed = self.times.speedup(earlier), self.statistics.tokens_per_second
        return PlainSpeed(speed / speedup, self.times.error(earlier)) if speedup and speed else None

    def take(self, event: Event) -> None:
        """Count one event."""
        if isinstance(event, Token):
            self.phase = "writing"
            self.statistics.tokens += 1
            self.statistics.origins[event.origin] += 1
            self.pieces.append((event.text, event.origin))
            self.ids.append(event.id)
        elif isinstance(event, Round):
            self._round(event)
        elif isinstance(event, Prefill):
            self.phase = "reading"
            self.prefill = event
        elif isinstance(event, Notice):
            self.notices.append(event.text)
        elif isinstance(event, Finished):
            self.phase = "done"
            self.statistics = event.statistics
            self.finish_reason, self.seed = event.reason, event.seed
            self.disabled_reason = event.draft_disabled_reason
            if event.text:
                self.pieces.append((event.text, "target"))

    def _round(self, event: Round) -> None:
        self.times.take(event)
        self.statistics.count(event)
        drafted = event.behind_forced
        if drafted.proposed > drafted.copied:
            self._window.append((drafted.accepted, drafted.proposed))
            if len(self._window) == 8:
                self.acceptance.append(sum(a for a, _ in self._window) / sum(p for _, p in self._window))
                self._window.clear()


log = logging.getLogger("omnidraft.ui")
ENDED = ("stop", "stop_string")  # reasons of an answer that came to its end


class Listener:
    """Hears what becomes of an answer, on its thread. By itself it does nothing about it."""

    def event(self, job: AnswerJob, event: Event) -> None:
        """Every event of the engine, counted already."""

    def stepped(self, job: AnswerJob) -> None:
        """Its calls, or what they gave, are others now."""

    def over(self, job: AnswerJob) -> None:
        """Nothing more will come."""


class AnswerJob:
    """One answer: `run` writes it. `text` is all of it so far; `error` is a sentence if it
    failed.

    Where the request goes on with an answer, `pieces` (text, origin) of it were shown before; `begun` is all of its
    text where that is more, with the calls `steps`. tools: what the model may call; None: nothing.
    """

    def __init__(
        self,
        assistant: Assistant,
        request: AnswerRequest,
        *,
        message: str | None = None,
        begun: str | None = None,
        steps: Sequence[Step] = (),
        pieces: Sequence[tuple[str, str]] = (),
        tools: ToolUse | None = None,
        listener: Listener | None = None,
    ) -> None:
        self.request: AnswerRequest = request
        self.chat = request.source
        self.message = message  # the stored message this answer fills
        # What was there before this job went on with it.
        self.begun = begun if begun is not None else request.continued.text if request.continued else ""
        self.steps = list(steps)
        self.live = Live(pieces=list(pieces))
        self.error: str | None = None
        self.failure: OmniDraftError | None = None  # what `error` tells, where it is one of ours
        self.started = time.time()
        self._assistant, self._tools = assistant, tools
        self._listener = listener or Listener()
        self._parts: list[str] = [self.begun]
        self._earlier: dict[str, Any] | None = None  # statistics of what was generated before the last calls
        self._changed = threading.Condition()
        self._version = 0
        self.stopped = self.over = False

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def spoken(self) -> str:
        """The text so far without a call that is being written."""
        text, marker = self.text, self._tools.marker if self._tools is not None else ""
        at = text.find(marker, last_step(self.steps)) if marker else -1
        return text if at < 0 else text[:at]

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

    def run(self) -> None:
        """Write the answer, to its end or until it is stopped."""
        try:
            request = self._begun()
            while request is not None and not self.stopped:
                with closing(self._assistant.answer(request)) as events:
                    for event in events:
                        self._take(event)
                        # A stop that came before the engine had started counts as well.
                        if self.stopped and isinstance(event, Prefill):
                            break
                request = self._behind(request)
        except OmniDraftError as error:
            self.error, self.failure = str(error), error
        except Exception:
            # The page must hear that it is over; the traceback belongs in the log.
            log.exception("the answer ended with a defect")
            self.error = "Something went wrong inside the program; its log has the details."
        self._end()

    def _begun(self) -> AnswerRequest | None:
        """What is to be generated first."""
        if self._tools is None:
            return self.request
        self.live.notices += self._tools.start(lambda: self.stopped)
        return self._with_calls(self._tools, self.request)

    def _behind(self, request: AnswerRequest) -> AnswerRequest | None:
        """What is to be generated behind this request, where it ended with calls; None: that was the answer."""
        tools, live = self._tools, self.live
        if self._earlier is not None:
            live.add_earlier(self._earlier)
        if tools is None or self.stopped or live.finish_reason not in ENDED:
            return None
        if (called := tools.called(self.text, self.steps, len(live.ids))) is None:
            return None
        self._earlier = asdict(live.statistics)
        self._tell(*called)
        return self._with_calls(tools, replace(request, continued=None))

    def _with_calls(self, tools: ToolUse, request: AnswerRequest) -> AnswerRequest | None:
        """Run the calls that are allowed; the request with what they gave, None while a user has to decide."""
        for steps in tools.run_allowed(self.steps, lambda: self.stopped):
            self._tell(self.text[: last_step(steps)], steps)
        if open_call(self.steps):
            return None
        return replace(request, prompt=tools.prompt(self.text, self.steps, self.live.ids))

    def _tell(self, text: str, steps: Sequence[Step]) -> None:
        """The answer so far was this text, with these steps."""
        self._parts, self.steps = [text], list(steps)
        self._listener.stepped(self)
        self._announce()

    def _take(self, event: Event) -> None:
        self.live.take(event)
        if isinstance(event, (Token, Finished)) and event.text:
            self._parts.append(event.text)
        self._listener.event(self, event)
        if not isinstance(event, Token):
            self._announce()

    def _end(self) -> None:
        try:
            self._listener.over(self)
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
