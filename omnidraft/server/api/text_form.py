"""One choice of a completion of the older kind: a text that goes on where the prompt ended."""

from __future__ import annotations

from typing import Any

from omnidraft.app.answer_job import AnswerJob
from omnidraft.server.api.logprobs import Logprobs


class TextForm:
    """echo: the prompt, where it is to stand before what was written."""

    kind, prefix = "text_completion", "cmpl"
    called = False

    def __init__(self, job: AnswerJob, echo: str = "", logprobs: Logprobs | None = None) -> None:
        self._job = job
        self._echo = echo
        self._logprobs = logprobs
        self._read = 0

    def whole(self) -> dict[str, Any]:
        return {"text": self._echo + self._job.text, "logprobs": self._scores(always=True)}

    def opening(self) -> list[dict[str, Any]]:
        return [{"text": self._echo, "logprobs": None}] if self._echo else []

    def closing(self) -> dict[str, Any]:
        return {"text": "", "logprobs": None}

    def news(self, over: bool) -> list[dict[str, Any]]:
        text = self._job.text
        new, self._read = text[self._read :], len(text)
        scores = self._scores()
        return [{"text": new, "logprobs": scores}] if new or scores else []

    def _scores(self, always: bool = False) -> dict[str, Any] | None:
        return self._logprobs.told(self._logprobs.of_text, always) if self._logprobs is not None else None
