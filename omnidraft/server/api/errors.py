"""Refusals as OpenAI's clients read them: a status, a sentence, and where there is one the code they know."""

from __future__ import annotations

from fastapi.responses import JSONResponse

from omnidraft.app.request_queue import QueueFull
from omnidraft.errors import ContextFull, GrammarError, OmniDraftError, PictureError, PromptRefused, SettingsError
from omnidraft.server.api.fields import BadRequest

TOO_LONG = "context_length_exceeded"


def error_reply(message: str | None, status: int, code: str | None = None) -> JSONResponse:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return JSONResponse({"error": {"message": message, "type": kind, "param": None, "code": code}}, status_code=status)


def refused(error: OmniDraftError, otherwise: int = 503) -> JSONResponse:
    """What to answer to a request that led to `error`; `otherwise`: the status where it is not the request's fault."""
    if isinstance(error, BadRequest):
        return error_reply(str(error), error.status, error.code)
    if isinstance(error, QueueFull):
        reply = error_reply(str(error), 429, "rate_limit_exceeded")
        reply.headers["Retry-After"] = str(error.seconds)
        return reply
    if isinstance(error, ContextFull):
        return error_reply(str(error), 400, TOO_LONG)
    asked_wrong = isinstance(error, (SettingsError, GrammarError, PictureError, PromptRefused))
    return error_reply(str(error), 400 if asked_wrong else otherwise)
