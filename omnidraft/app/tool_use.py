"""Functions in an answer to a conversation: offered where its user switched them on, run where the user allowed it.

One `ToolUse` goes with one answer job: it parts calls from what the model says, runs those that are always allowed in
this conversation, and leaves the others for the user to decide about. Stores nothing and knows no page.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from omnidraft.app.answer_job import AnswerJob
from omnidraft.app.tools import offered, run
from omnidraft.backends.prompting.formats.events import Call, collect
from omnidraft.backends.prompting.formats.open import Reader
from omnidraft.backends.prompting.formats.pattern import is_tag
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.chats import Message, TextFile
from omnidraft.chats.steps import ASKED, Step, ToolCall, messages_with_steps, open_call, with_call
from omnidraft.decoding.events import Event, Finished, Token
from omnidraft.errors import ModelError

MAX_STEPS = 6  # times that one answer may ask for something
MAX_CALLS = 4  # at once
ONCE, ALWAYS, REFUSE = "once", "always", "refuse"
UNSUPPORTED = "The chat template of {} does not support tools, so none were offered."
GAP = "\n\n"  # between what was said before a call and behind it


class ToolUse:
    """messages: what stands before the answer; message: the answer as it is stored, perhaps with earlier steps."""

    def __init__(
        self,
        template: ChatTemplate,
        messages: Sequence[dict[str, Any]],
        message: Message,
        files: Sequence[TextFile],
        allowed: Sequence[str],
    ) -> None:
        self._template = template
        self._messages = list(messages)
        self._files, self._allowed = files, allowed
        self._offered = offered(files)
        self._schemas = {one["function"]["name"]: one["function"].get("parameters") or {} for one in self._offered}
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

    def prompt(self) -> list[dict[str, Any]]:
        """What the model reads now: it may ask for functions, but not for ever."""
        messages = [*self._messages, *messages_with_steps(self._text, self.steps)]
        if len(self.steps) < MAX_STEPS:
            messages[-1] = {**messages[-1], "tools": self._offered}
        return messages

    def more(self, job: AnswerJob) -> list[dict[str, Any]] | None:
        """Behind what the model said: what it reads next; None if the answer is over or its user has to decide."""
        text = self._segment + "".join(self._parts)
        self._segment, self._parts = "", []
        if job.live.finish_reason not in ("stop", "stop_string") or len(self.steps) >= MAX_STEPS:
            return None
        said, calls = _parted(text, self._template.reader(self._schemas))
        if not calls:
            return None
        self._text += said.rstrip() + GAP if said.strip() else ""
        asked = tuple(ToolCall(uuid.uuid4().hex[:9], call.name, call.arguments) for call in calls[:MAX_CALLS])
        self.steps.append(Step(len(self._text), self._ids + len(job.live.ids), asked))
        self.steps = run_allowed(self.steps, self._allowed, self._files)
        job.tell(self._text, self.steps)
        return None if open_call(self.steps) else self.prompt()


def use_of(
    template: ChatTemplate, messages: Sequence[dict[str, Any]], path: Sequence[Message], message: Message,
    allowed: Sequence[str] | None,
) -> ToolUse | None:  # fmt: skip
    """For an answer behind `path`; None where the user has not switched tools on, or the template knows none."""
    if allowed is None or not template.supports_tools:
        return None
    return ToolUse(template, messages, message, files_in(path), allowed)


def files_in(path: Sequence[Message]) -> list[TextFile]:
    """All files that are attached to a conversation as it is shown."""
    return [file for message in path for file in message.files]


def run_allowed(steps: Sequence[Step], allowed: Sequence[str], files: Sequence[TextFile]) -> list[Step]:
    """The steps with every open call of an allowed function run."""
    found = list(steps)
    for call in [call for step in steps for call in step.calls]:
        if call.state == ASKED and call.name in allowed:
            found = with_call(found, call.done(run(call.name, call.arguments, files)))
    return found


def decided(
    message: Message, call: str, choice: str, allowed: Sequence[str], files: Sequence[TextFile]
) -> tuple[list[Step], list[str]]:
    """(the answer's steps behind its user's choice, what is allowed from now on). ModelError if it came too late."""
    asked = next((c for step in message.steps for c in step.calls if c.id == call and c.state == ASKED), None)
    if asked is None or choice not in (ONCE, ALWAYS, REFUSE):
        raise ModelError("This call was decided about already.")
    granted = [*allowed, asked.name] if choice == ALWAYS and asked.name not in allowed else list(allowed)
    if choice == REFUSE:
        steps = with_call(message.steps, asked.refused())
    else:
        steps = with_call(message.steps, asked.done(run(asked.name, asked.arguments, files)))
    return run_allowed(steps, granted, files), granted


def _parted(text: str, reader: Reader) -> tuple[str, list[Call]]:
    """What was said, thoughts included, and the calls."""
    read = collect([*reader.feed(text), *reader.finish()])
    thoughts = f"<think>\n{read.reasoning}\n</think>\n\n" if read.reasoning else ""
    return thoughts + read.content, read.calls
