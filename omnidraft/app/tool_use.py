"""Functions in an answer to a conversation: offered where its user switched them on, run where the user allowed it.

One `ToolUse` goes with one answer, on whose thread everything happens that may take its time: it has the named servers
started, parts calls from what the model says, runs those that are allowed, and leaves the others for the user to decide
about. What was said and called is the answer's: nothing of it is held here.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from omnidraft.app.tools.toolbox import Toolbox
from omnidraft.chats import Message, TextFile
from omnidraft.chats.records import ASKED, Step, ToolCall, last_step, messages_with_steps, with_call
from omnidraft.errors import ModelError
from omnidraft.prompting.formats.chat_format import Call, collect
from omnidraft.prompting.formats.pattern import is_tag
from omnidraft.prompting.formats.reader import AnswerReader
from omnidraft.prompting.own_ids import Spelled
from omnidraft.prompting.templates import ChatTemplate

MAX_STEPS = 6  # times that one answer may ask for something
MAX_CALLS = 4  # at once
ONCE, ALWAYS, REFUSE = "once", "always", "refuse"
UNSUPPORTED = "The chat template of {} does not support tools, so none were offered."
GAP = "\n\n"  # between what was said before a call and behind it


class ToolUse:
    """messages: what stands before the answer; own: the ids that the answer has already.

    allowed: names of functions, and the id of the call that its user allowed just now; offers: whether the model may
    ask for more.
    """

    def __init__(
        self, toolbox: Toolbox, template: ChatTemplate, messages: Sequence[dict[str, Any]], own: Spelled,
        files: Sequence[TextFile], allowed: Sequence[str], offers: bool,
    ) -> None:  # fmt: skip
        self._toolbox, self._template, self._offers = toolbox, template, offers
        self._messages, self._own = list(messages), own
        self._files, self._allowed = files, allowed
        self._offered: list[dict[str, Any]] = []
        openings = [opening for shape in template.form.calls[:1] for opening in shape.openings[:1]]
        # With what a call begins; "" where nothing tells.
        self.marker = next((str(opening[0]) for opening in openings if opening and is_tag(opening[0])), "")

    def start(self, stopped: Callable[[], bool]) -> list[str]:
        """Have the servers started; what there is to say about them."""
        notices = self._toolbox.start(stopped)
        self._offered = self._toolbox.offered(self._files)
        return notices

    def prompt(self, text: str, steps: Sequence[Step], new: Sequence[int]) -> list[dict[str, Any]]:
        """What the model reads behind these steps: it may ask for functions, but not for ever. new: the answer's ids
        besides those it had already."""
        own = replace(self._own, ids=(*self._own.ids, *new))
        messages = [*self._messages, *messages_with_steps(text[: last_step(steps)], steps, own)]
        if self._offers and len(steps) < MAX_STEPS:
            messages[-1] = {**messages[-1], "tools": self._offered}
        return messages

    def called(self, text: str, steps: Sequence[Step], ids: int) -> tuple[str, list[Step]] | None:
        """The text and steps of an answer that ended with calls, which are a step now; None if there are none.

        ids: how many tokens it has that are new."""
        if not self._offers or len(steps) >= MAX_STEPS:
            return None
        at = last_step(steps)
        schemas = {one["function"]["name"]: one["function"]["parameters"] for one in self._offered}
        said, calls = _parted(text[at:], self._template.reader(schemas))
        if not calls:
            return None
        text = text[:at] + (said.rstrip() + GAP if said.strip() else "")
        asked = tuple(ToolCall(uuid.uuid4().hex[:9], call.name, call.arguments) for call in calls[:MAX_CALLS])
        return text, [*steps, Step(len(text), len(self._own.ids) + ids, asked)]

    def run_allowed(self, steps: Sequence[Step], stopped: Callable[[], bool]) -> Iterator[list[Step]]:
        """Run every open call that is allowed, one after the other; the steps behind each."""
        for call in [call for step in steps for call in step.calls]:
            if call.state == ASKED and not stopped() and (call.name in self._allowed or call.id in self._allowed):
                result = self._toolbox.run(call.name, call.arguments, self._files, stopped)
                yield (steps := with_call(steps, call.done(result)))


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


def _parted(text: str, reader: AnswerReader) -> tuple[str, list[Call]]:
    """What was said, thoughts included, and the calls."""
    read = collect([*reader.feed(text), *reader.finish()])
    thoughts = f"<think>\n{read.reasoning}\n</think>\n\n" if read.reasoning else ""
    return thoughts + read.content, read.calls
