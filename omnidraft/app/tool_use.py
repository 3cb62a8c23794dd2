"""Functions in an answer to a conversation: offered where its user switched them on, run where the user allowed it.

One `ToolUse` goes with one answer job, on whose thread everything happens that may take its time: it has the named
servers started, parts calls from what the model says, runs those that are allowed, and leaves the others for the user
to decide about. Stores nothing and knows no page.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from omnidraft.app.answer_job import AnswerJob
from omnidraft.app.tools import Toolbox
from omnidraft.backends.prompting.formats.chat_format import Call, collect
from omnidraft.backends.prompting.formats.open import Reader
from omnidraft.backends.prompting.formats.pattern import is_tag
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.chats import Message, TextFile
from omnidraft.chats.records import ASKED, Step, ToolCall, messages_with_steps, open_call, with_call
from omnidraft.decoding.events import Event, Finished, Token
from omnidraft.errors import ModelError

MAX_STEPS = 6  # times that one answer may ask for something
MAX_CALLS = 4  # at once
ONCE, ALWAYS, REFUSE = "once", "always", "refuse"
UNSUPPORTED = "The chat template of {} does not support tools, so none were offered."
GAP = "\n\n"  # between what was said before a call and behind it


class ToolUse:
    """messages: what stands before the answer; message: the answer as it is stored, perhaps with earlier steps.

    allowed: names of functions, and the id of the call that its user allowed just now; offers: whether the model may
    ask for more.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        template: ChatTemplate,
        messages: Sequence[dict[str, Any]],
        message: Message,
        files: Sequence[TextFile],
        allowed: Sequence[str],
        offers: bool,
    ) -> None:
        self._toolbox, self._template, self.offers = toolbox, template, offers
        self._messages = list(messages)
        self._files, self._allowed = files, allowed
        self._offered: list[dict[str, Any]] = []
        self._ids = len(message.token_ids)
        self._parts: list[str] = []  # of what the model said since it was asked last
        self.steps = list(message.steps)
        self._text = message.content[: self.steps[-1].at] if self.steps else ""
        self._segment = message.content[len(self._text) :]  # of an answer that goes on where it was cut

    @property
    def marker(self) -> str:
        """With what a call begins; "" where nothing tells."""
        openings = [opening for shape in self._template.form.calls[:1] for opening in shape.openings[:1]]
        return next((str(opening[0]) for opening in openings if opening and is_tag(opening[0])), "")

    def watch(self, job: AnswerJob, event: Event) -> None:
        if isinstance(event, (Token, Finished)) and event.text:
            self._parts.append(event.text)

    def prompts(self, job: AnswerJob) -> Iterator[list[dict[str, Any]]]:
        """What the model reads, time after time, until the answer is over or its user has to decide."""
        job.live.notices += self._toolbox.start(lambda: job.stopped)
        self._offered = self._toolbox.offered(self._files)
        self._run_allowed(job)
        while open_call(self.steps) is None:
            yield self._prompt()
            if not self._asks(job):
                break
            self._run_allowed(job)

    def _prompt(self) -> list[dict[str, Any]]:
        """What the model reads now: it may ask for functions, but not for ever."""
        messages = [*self._messages, *messages_with_steps(self._text, self.steps)]
        if self.offers and len(self.steps) < MAX_STEPS:
            messages[-1] = {**messages[-1], "tools": self._offered}
        return messages

    def _asks(self, job: AnswerJob) -> bool:
        """Whether what the model said asks for functions; if so, that is a step now."""
        text = self._segment + "".join(self._parts)
        self._segment, self._parts = "", []
        ended = job.live.finish_reason in ("stop", "stop_string")
        if not (ended and self.offers) or job.stopped or len(self.steps) >= MAX_STEPS:
            return False
        schemas = {one["function"]["name"]: one["function"]["parameters"] for one in self._offered}
        said, calls = _parted(text, self._template.reader(schemas))
        if not calls:
            return False
        self._text += said.rstrip() + GAP if said.strip() else ""
        asked = tuple(ToolCall(uuid.uuid4().hex[:9], call.name, call.arguments) for call in calls[:MAX_CALLS])
        self.steps.append(Step(len(self._text), self._ids + len(job.live.ids), asked))
        job.tell(self._text, self.steps)
        return True

    def _run_allowed(self, job: AnswerJob) -> None:
        """Every open call that is allowed, one after the other."""
        for call in [call for step in self.steps for call in step.calls]:
            if call.state == ASKED and not job.stopped and (call.name in self._allowed or call.id in self._allowed):
                result = self._toolbox.run(call.name, call.arguments, self._files, lambda: job.stopped)
                self.steps = with_call(self.steps, call.done(result))
                job.tell(self._text, self.steps)


def decided(
    message: Message, call: str, choice: str, allowed: Sequence[str]
) -> tuple[list[Step], list[str], str | None]:
    """(the answer's steps behind its user's choice, which functions are allowed from now on, and which call is allowed
    now, to be run with the rest of the answer). ModelError if it came too late."""
    asked = next((c for step in message.steps for c in step.calls if c.id == call and c.state == ASKED), None)
    if asked is None or choice not in (ONCE, ALWAYS, REFUSE):
        raise ModelError("This call was decided about already.")
    granted = [*allowed, asked.name] if choice == ALWAYS and asked.name not in allowed else list(allowed)
    if choice == REFUSE:
        return with_call(message.steps, asked.refused()), granted, None
    return message.steps, granted, call


def _parted(text: str, reader: Reader) -> tuple[str, list[Call]]:
    """What was said, thoughts included, and the calls."""
    read = collect([*reader.feed(text), *reader.finish()])
    thoughts = f"<think>\n{read.reasoning}\n</think>\n\n" if read.reasoning else ""
    return thoughts + read.content, read.calls
