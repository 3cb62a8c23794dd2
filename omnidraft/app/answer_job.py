"""An answer in the making: it outlives the page that asked for it.

It generates, has the functions run that the model calls, and goes on. Pages look at the job's text and counters
whenever they like; closing or reloading one changes nothing. `stop` ends the answer, also while the prompt is being
read. Knows no page and no storage: what becomes of an answer its `Listener` hears.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any

from omnidraft.app.assistant import Assistant
from omnidraft.app.live import Live
from omnidraft.app.tool_use import ToolUse
from omnidraft.app.waiting import Job
from omnidraft.chats.records import Message, Step, last_step, open_call
from omnidraft.decoding.events import Event, Finished, Prefill, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import OmniDraftError

ENDED = ("stop", "stop_string")  # reasons of an answer that came to its end


class Listener:
    """Hears what becomes of an answer, on its thread. By itself it does nothing about it."""

    def event(self, job: AnswerJob, event: Event) -> None:
        """Every event of the engine, counted already."""

    def stepped(self, job: AnswerJob) -> None:
        """Its calls, or what they gave, are others now."""

    def over(self, job: AnswerJob) -> None:
        """Nothing more will come."""


class AnswerJob(Job):
    """One answer: `write` does it. `text` is all of it so far; `error` is a sentence if it
    failed.

    message: the stored one that it fills, with what was said and called before. tools: what the model may call; None:
    nothing.
    """

    def __init__(
        self,
        assistant: Assistant,
        request: AnswerRequest,
        *,
        message: Message | None = None,
        tools: ToolUse | None = None,
        listener: Listener | None = None,
    ) -> None:
        super().__init__(self.write, assistant.stop)
        self.request: AnswerRequest = request
        self.chat = request.source
        self.message = message.id if message is not None else None
        self.begun = message.content if message is not None else ""
        self.steps = message.steps if message is not None else []
        self.live = Live(pieces=message.pieces if message is not None else [])
        self.started = time.time()
        self._assistant, self._tools = assistant, tools
        self._listener = listener or Listener()
        self._parts: list[str] = [self.begun]
        self._earlier: dict[str, Any] | None = None  # statistics of what was generated before the last calls
        self._version = 0

    @property
    def error(self) -> str | None:
        return str(self.failure) if self.failure is not None else None

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def spoken(self) -> str:
        """The text so far without a call that is being written."""
        text, marker = self.text, self._tools.marker if self._tools is not None else ""
        at = text.find(marker, last_step(self.steps)) if marker else -1
        return text if at < 0 else text[:at]

    def wait(self, seen: int, timeout: float | None = None) -> int:
        """Block until there is more than version `seen`, the job is over or `timeout` seconds passed."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != seen or self.over, timeout)
            return self._version

    def write(self) -> None:
        request = self._begun()
        while request is not None and not self.stopped:
            with closing(self._assistant.answer(request)) as events:
                for event in events:
                    self._take(event)
                    # A stop that came before the engine had started counts as well.
                    if self.stopped and isinstance(event, Prefill):
                        break
            request = self._behind(request)

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
            self.failure = self.failure or error
        finally:
            self.live.phase = "done"
            super()._end()

    def _announce(self) -> None:
        with self._changed:
            self._version += 1
            self._changed.notify_all()
