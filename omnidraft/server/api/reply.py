"""Answers in OpenAI's format, whole or as a stream of events: one choice after the other, each from its own job."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from anyio import to_thread

from omnidraft.app.answer_job import AnswerJob
from omnidraft.errors import OmniDraftError
from omnidraft.server.api.checks import Read, notices
from omnidraft.server.api.forms import ChatForm, TextForm
from omnidraft.server.api.request import Choice

REASONS = {"stop": "stop", "stop_string": "stop", "length": "length", "context": "length", "cancelled": "stop"}
_DRAFTED = (
    "drafted", "proposed", "accepted", "acceptance_rate", "copied", "copied_accepted", "forced", "forced_accepted",
    "drafter_acceptance", "tokens_per_pass", "tokens_per_second",
)  # fmt: skip
Form = ChatForm | TextForm


@dataclass(frozen=True, slots=True)
class Reply:
    """One choice on its way out. name: the model's; place: which choice it is; read: parts what it says."""

    job: AnswerJob
    name: str
    place: Choice
    form: Form
    read: Read

    def choice(self, part: dict[str, Any], over: bool = False) -> dict[str, Any]:
        """The choice with this part of its form, or with all of it. over: nothing comes behind."""
        return {"index": self.place.index, **part, "finish_reason": self._reason() if over else None}

    def _reason(self) -> str:
        reason = REASONS.get(self.job.live.finish_reason or "", "stop")
        return "tool_calls" if self.form.called and reason == "stop" else reason


def whole(replies: Sequence[Reply]) -> dict[str, Any]:
    """The whole answer, when all jobs are over."""
    choices = [reply.choice(reply.form.whole(), over=True) for reply in replies]
    told = {"usage": _usage(replies), "timings": timings(replies), "omnidraft": statistics(replies)}
    return {**_head(replies[0], ""), "choices": choices, **told}


async def stream(
    first: Reply, others: Sequence[Callable[[], Awaitable[Reply]]], with_usage: bool
) -> AsyncIterator[str]:
    """Server-sent events; the job is stopped when nobody listens any more. others: start the further choices."""
    head, replies = _head(first, ".chunk" if isinstance(first.form, ChatForm) else ""), [first]
    try:
        async for event in _events(first):
            yield _line({**head, **event})
        for start in others:
            if replies[-1].job.error:
                break
            replies.append(await start())
            async for event in _events(replies[-1]):
                yield _line({**head, **event})
        if with_usage and not replies[-1].job.error:
            yield _line({**head, "choices": [], "usage": _usage(replies)})
    except OmniDraftError as error:
        yield _line({"error": {"message": str(error), "type": "server_error"}})
    finally:
        replies[-1].job.stop()  # also when the client went away
    yield "data: [DONE]\n\n"


async def _events(reply: Reply) -> AsyncIterator[dict[str, Any]]:
    """One choice of a stream."""
    job = reply.job
    for part in reply.form.opening():
        yield {"choices": [reply.choice(part)]}
    async for over in looks(job):
        for part in reply.form.news(over):
            yield {"choices": [reply.choice(part)]}
    if job.error:
        yield {"error": {"message": job.error, "type": "server_error"}}
    else:
        told = {"timings": timings([reply]), "omnidraft": statistics([reply])}
        yield {**told, "choices": [reply.choice(reply.form.closing(), over=True)]}


async def looks(job: AnswerJob) -> AsyncIterator[bool]:
    """Whether the job is over, as often as there may be news of it, to its end."""
    seen = -1
    while not (over := job.over):
        yield over
        # whoever goes away is not held until the thread returns: a pass of a large model takes its time
        seen = await to_thread.run_sync(job.wait, seen, 1.0, abandon_on_cancel=True)
    yield over


def _head(reply: Reply, chunk: str) -> dict[str, Any]:
    form = reply.form
    return {
        "id": f"{form.prefix}-{uuid.uuid4().hex[:24]}",
        "object": form.kind + chunk,
        "created": int(time.time()),
        "model": reply.name,
    }


def _line(event: dict[str, Any]) -> str:
    told = {"error": event["error"]} if "error" in event else event
    return f"data: {json.dumps(told, ensure_ascii=False)}\n\n"


def _usage(replies: Sequence[Reply]) -> dict[str, Any]:
    """Sums; a prompt that several choices share counts once."""
    all_ = [r.job.live.statistics for r in replies]
    asked = [r.job.live.statistics for r in replies if not r.place.again]
    prompt, said = sum(s.prompt_tokens for s in asked), sum(s.tokens for s in all_)
    accepted = sum(s.accepted for s in all_)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": said,
        "total_tokens": prompt + said,
        "prompt_tokens_details": {"cached_tokens": sum(s.reused_tokens for s in asked)},
        "completion_tokens_details": {"accepted_prediction_tokens": accepted,
                                      "rejected_prediction_tokens": sum(s.proposed for s in all_) - accepted},
    }  # fmt: skip


def timings(replies: Sequence[Reply]) -> dict[str, Any]:
    """Counts and milliseconds, named as by llama.cpp's server; and why nothing was drafted, where that is so."""
    found = [r.job.live.statistics for r in replies]
    said, written = sum(s.tokens for s in found), 1000 * sum(s.decode_seconds for s in found)
    read, reading = sum(s.prompt_tokens - s.reused_tokens for s in found), 1000 * sum(s.prefill for s in found)
    return {
        "prompt_n": read,
        "prompt_ms": reading,
        "predicted_n": said,
        "predicted_ms": written,
        "predicted_per_second": 1000 * said / written if written else None,
        "draft_n": sum(s.proposed for s in found),
        "draft_n_accepted": sum(s.accepted for s in found),
        "draft_disabled_reason": replies[-1].job.live.disabled_reason,
    }


def statistics(replies: Sequence[Reply]) -> dict[str, Any]:
    """What drafting did, beside what OpenAI's format can say; of several choices a list."""
    found = [_drafted(reply) for reply in replies]
    return found[0] if len(found) == 1 else {"choices": found}


def _drafted(reply: Reply) -> dict[str, Any]:
    job = reply.job
    return {
        **{name: getattr(job.live.statistics, name) for name in _DRAFTED},
        "seed": job.live.seed,
        "draft_disabled_reason": job.live.disabled_reason,
        "notices": notices(job, reply.place.asked, reply.read),
    }
