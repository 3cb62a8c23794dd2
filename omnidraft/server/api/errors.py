"""Refusals as OpenAI's clients read them: a status, a sentence, and where there is one the code they know."""

from __future__ import annotations

from typing import Any

from fastapi.responses import JSONResponse

from omnidraft.app import models_list
from omnidraft.app.session import Session
from omnidraft.app.waiting import QueueFull
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.errors import ContextFull, GrammarError, OmniDraftError, PictureError, PromptRefused, SettingsError


class BadRequest(OmniDraftError):
    """The request asks for something that is not there or not understood."""

    def __init__(self, message: str, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


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


# The models that the API lists and takes: those one can talk to.


def find(session: Session, name: str) -> tuple[str, ModelInfo]:
    """The model of that id, or of that name in the pages; an empty one is the one that is loaded or would be."""
    known = models_list.targets(session.assistant)
    match = models_list.find(known, name or models_list.name_of(known, session.target_path()) or "")
    if match is None:
        raise BadRequest(f"There is no model named {name[:100]}; /v1/models lists them.", 404, "model_not_found")
    return match


def described(name: str, model: ModelInfo) -> dict[str, Any]:
    created = int(model.path.stat().st_mtime) if model.path.exists() else 0
    return {"id": name, "object": "model", "created": created, "owned_by": "local"}
