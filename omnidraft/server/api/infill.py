"""Filling a gap in a text, in the form that llama.cpp's server has for it and editors' plugins send."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from omnidraft.app.session import Session
from omnidraft.engine import TRIMMED
from omnidraft.server.api.errors import BadRequest, field
from omnidraft.server.api.errors import whole as whole_number
from omnidraft.server.api.reply import Reply, looks, timings
from omnidraft.server.api.request import CompletionRequest, refuse_unknown
from omnidraft.settings.config import MOST_TOKENS

_SAME = ("temperature", "top_p", "top_k", "min_p", "seed", "stop", "stream", "model", "speculation")
# What llama.cpp's plugins send with every request: limits in time, and samplers by their names, are not had here.
_LIMITS = ("t_max_prompt_ms", "t_max_predict_ms", "samplers", "n_indent")
_KNOWN = frozenset((
    *_SAME, *_LIMITS, "input_prefix", "input_suffix", "input_extra", "prompt", "n_predict",
))  # fmt: skip


def read(session: Session, body: dict[str, Any]) -> CompletionRequest:
    """What a request with this body asks for; further files (`input_extra`) come before the text, names first. What
    does not fit goes from the far ends: files first, then the text's beginning and its end."""
    refuse_unknown(body, _KNOWN)
    before, behind = field(body, "input_prefix", str), field(body, "input_suffix", str)
    if before is None and behind is None:
        raise BadRequest("input_prefix and input_suffix must be the texts around the gap.")
    text = {name: body[name] for name in _SAME if body.get(name) is not None}
    length = whole_number(body, "n_predict", -2, MOST_TOKENS) or 0
    text |= {"max_tokens": length} if length > 0 else {}
    text["prompt"] = _files(body) + (before or "") + (field(body, "prompt", str) or "")
    return replace(CompletionRequest.text(session, text), suffix=behind or "", trims=True)


def _files(body: dict[str, Any]) -> str:
    """Other files that a plugin thinks are of use, each under its name."""
    files = field(body, "input_extra", list) or []
    if not all(isinstance(file, dict) and isinstance(file.get("text"), str) for file in files):
        raise BadRequest("Every entry of input_extra must be an object with its text.")
    return "".join(f"{file.get('filename') or 'file'}\n{file['text']}\n" for file in files)


def whole(replies: Sequence[Reply]) -> dict[str, Any]:
    (reply,) = replies
    return _part(reply, reply.job.text, over=True)


async def stream(first: Reply, *_: Any) -> AsyncIterator[str]:
    """Server-sent events; the job is stopped when nobody listens any more."""
    told = 0
    try:
        async for over in looks(first.job):
            new, told = first.job.text[told:], len(first.job.text)
            if new or over:
                yield f"data: {json.dumps(_part(first, new, over), ensure_ascii=False)}\n\n"
    finally:
        first.job.stop()


def _part(reply: Reply, content: str, over: bool) -> dict[str, Any]:
    s = reply.job.live.statistics
    part: dict[str, Any] = {"content": content, "stop": over, "index": reply.index}
    if over:
        part |= {"model": reply.name, "tokens_predicted": s.tokens, "tokens_evaluated": s.prompt_tokens,
                 "truncated": TRIMMED in reply.job.live.notices, "timings": timings([reply])}  # fmt: skip
    return part
