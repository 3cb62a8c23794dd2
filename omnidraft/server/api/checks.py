"""What a client is told about its answer besides the text: what happened on the way, and what of a schema it breaks.

A grammar holds most of a schema while an answer is written; the rest, and the arguments of calls that a model was free
to write as it liked, can only be looked at in the end. Knows neither engine nor forms.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from omnidraft.app.answer_job import ENDED, AnswerJob
from omnidraft.prompting.formats.chat_format import collect
from omnidraft.prompting.formats.reader import AnswerReader
from omnidraft.prompting.json_schema import broken
from omnidraft.server.api.request import CompletionRequest

Read = Callable[[], AnswerReader] | None  # makes one that parts an answer's text; None: all of it is what was said


def notices(job: AnswerJob, asked: CompletionRequest, read: Read) -> list[str]:
    """What there is to say about an answer that is over, in sentences."""
    told = [*job.live.notices, *asked.form.notes, *asked.tools.notes]
    return [*told, *_broken(job, asked, read)] if job.live.finish_reason in ENDED else told


def _broken(job: AnswerJob, asked: CompletionRequest, read: Read) -> Iterator[str]:
    content, calls = job.text, []
    if read is not None:
        reader = read()
        said = collect([*reader.feed(job.text), *reader.finish(job.live.finish_reason != "stop")])
        content, calls = said.content, said.calls
    if asked.form.notes and (told := _breaks(content, asked.form.schema)):
        yield f"The answer breaks its schema: {told}."
    for call in calls:
        if told := _breaks(call.arguments, asked.tools.schemas.get(call.name) or {}):
            yield f"The arguments of {call.name} break its schema: {told}."


def _breaks(text: str, schema: Any) -> str | None:
    try:
        return broken(json.loads(text), schema)
    except (ValueError, RecursionError):
        return "it is no whole JSON"
