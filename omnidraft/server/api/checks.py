"""What a client is told about its answer besides the text: what happened on the way, and what of a schema it breaks.

A grammar holds most of a schema while an answer is written; the rest, and the arguments of calls that a model was free
to write as it liked, can only be looked at in the end. Knows neither engine nor forms.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from omnidraft.app.answer_job import ENDED, AnswerJob
from omnidraft.prompting.formats.chat_format import collect
from omnidraft.prompting.formats.reader import AnswerReader
from omnidraft.prompting.json_schema import broken
from omnidraft.server.api.request import CompletionRequest


@dataclass(frozen=True, slots=True)
class Checks:
    """reader: makes one that parts an answer's text; None where all of it is what was said."""

    asked: CompletionRequest
    reader: Callable[[], AnswerReader] | None

    def notices(self, job: AnswerJob) -> list[str]:
        """What there is to say about an answer that is over, in sentences."""
        told = [*job.live.notices, *self.asked.form.notes, *self.asked.tools.notes]
        return [*told, *self._broken(job)] if job.live.finish_reason in ENDED else told

    def _broken(self, job: AnswerJob) -> Iterator[str]:
        content, calls = job.text, []
        if self.reader is not None:
            reader = self.reader()
            read = collect([*reader.feed(job.text), *reader.finish(job.live.finish_reason != "stop")])
            content, calls = read.content, read.calls
        if self.asked.form.notes and (told := _breaks(content, self.asked.form.schema)):
            yield f"The answer breaks its schema: {told}."
        for call in calls:
            if told := _breaks(call.arguments, self.asked.tools.schemas.get(call.name) or {}):
                yield f"The arguments of {call.name} break its schema: {told}."


def _breaks(text: str, schema: Any) -> str | None:
    try:
        return broken(json.loads(text), schema)
    except (ValueError, RecursionError):
        return "it is no whole JSON"
