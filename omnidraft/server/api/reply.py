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
from omnidraft.server.api.chat_form import ChatForm
from omnidraft.server.api.text_form import TextForm

REASONS = {"stop": "stop", "stop_string": "stop", "length": "length", "context": "length", "cancelled": "stop"}
Form = ChatForm | TextForm


@dataclass(frozen=True, slots=True)
class Reply:
    """One choice on its way out. name: the model's; again: its prompt is that of the choice before."""

    job: AnswerJob
    name: str
    index: int
    again: bool
    form: Form

    def choice(self) -> dict[str, Any]:
        """The whole choice, when the job is over."""
        return self._part(self.form.whole(), over=True)

    def events(self, over: bool) -> list[dict[str, Any]]:
        """What a stream tells of what is new."""
        return [self._part(part) for part in self.form.news(over)]

    def opening(self) -> list[dict[str, Any]]:
        return [self._part(part) for part in self.form.opening()]

    def closing(self) -> dict[str, Any]:
        return self._part(self.form.closing(), over=True)

    def _part(self, part: dict[str, Any], over: bool = False) -> dict[str, Any]:
        return {"index": self.index, **part, "finish_reason": self._reason() if over else None}

    def _reason(self) -> str:
        reason = REASONS.get(self.job.live.finish_reason or "", "stop")
        return "tool_calls" if self.form.called and reason == "stop" else reason


def whole(replies: Sequence[Reply]) -> dict[str, Any]:
    """The whole answer, when all jobs are over."""
    choices = [reply.choice() for reply in replies]
    return {**_head(replies[0], ""), "choices": choices, "usage": _usage(replies), "omnidraft": _statistics(replies)}


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
    job, seen = reply.job, -1
    for part in reply.opening():
        yield {"choices": [part]}
    while True:
        over = job.over
        for part in reply.events(over):
            yield {"choices": [part]}
        if over:
            break
        # whoever goes away is not held until the thread returns: a pass of a large model takes its time
        seen = await to_thread.run_sync(job.wait, seen, 1.0, abandon_on_cancel=True)
    if job.error:
        yield {"error": {"message": job.error, "type": "server_error"}}
    else:
        yield {"omnidraft": _statistics([reply]), "choices": [reply.closing()]}


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
    all_, asked = [r.job.live.statistics for r in replies], [r.job.live.statistics for r in replies if not r.again]
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


def _statistics(replies: Sequence[Reply]) -> dict[str, Any]:
    """What drafting did, beside what OpenAI's format can say; of several choices a list."""
    found = [_drafted(reply.job) for reply in replies]
    return found[0] if len(found) == 1 else {"choices": found}


def _drafted(job: AnswerJob) -> dict[str, Any]:
    s = job.live.statistics
    return {
        "drafted": s.drafted,
        "proposed": s.proposed,
        "accepted": s.accepted,
        "acceptance_rate": s.acceptance_rate,
        "copied": s.copied,
        "copied_accepted": s.copied_accepted,
        "forced": s.forced,
        "forced_accepted": s.forced_accepted,
        "drafter_acceptance": s.drafter_acceptance,
        "tokens_per_pass": s.tokens_per_pass,
        "tokens_per_second": s.tokens_per_second,
        "seed": job.live.seed,
        "draft_disabled_reason": job.live.disabled_reason,
        "notices": job.live.notices,
    }
