"""Filling a gap in a text, in the form that llama.cpp's server has for it and editors' plugins send."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from pydantic import Field

from omnidraft.engine import TRIMMED
from omnidraft.server.api.body import Given
from omnidraft.server.api.errors import BadRequest
from omnidraft.server.api.reply import Reply, looks, timings
from omnidraft.server.api.request import SHORT, Asked, form_of
from omnidraft.settings.config import MOST_TOKENS


class _File(Given):
    text: str
    filename: str = "file"


class Infill(Asked):
    """What a request may hold. What llama.cpp's plugins send with every request, limits in time and samplers by their
    names, is not had here."""

    input_prefix: str | None = None
    input_suffix: str | None = None
    input_extra: list[_File] = Field([])
    prompt: str = ""
    n_predict: Annotated[int, Field(ge=-2, le=MOST_TOKENS)] = 0
    t_max_prompt_ms: Any = None
    t_max_predict_ms: Any = None
    samplers: Any = None
    n_indent: Any = None

    def told(self) -> dict[str, Any]:
        """Further files come before the text, names first. What does not fit goes from the far ends: files first, then
        the text's beginning and its end."""
        if self.input_prefix is None and self.input_suffix is None:
            raise BadRequest("input_prefix and input_suffix must be the texts around the gap.")
        files = "".join(f"{file.filename}\n{file.text}\n" for file in self.input_extra)
        return {
            "prompts": [f"{files}{self.input_prefix or ''}{self.prompt}"], "suffix": self.input_suffix or "",
            "trims": True, "longest": self.n_predict if self.n_predict > 0 else SHORT,
            "form": form_of("", None, self.grammar),
        }  # fmt: skip


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
    part: dict[str, Any] = {"content": content, "stop": over, "index": reply.place.index}
    if over:
        part |= {"model": reply.name, "tokens_predicted": s.tokens, "tokens_evaluated": s.prompt_tokens,
                 "truncated": TRIMMED in reply.job.live.notices, "timings": timings([reply])}  # fmt: skip
    return part
