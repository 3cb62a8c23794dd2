"""Refusals as OpenAI's clients read them: a status, a sentence, and where there is one the code they know."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from omnidraft.app import models_list
from omnidraft.app.session import Session
from omnidraft.app.waiting import QueueFull
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.chats.records import json_value
from omnidraft.errors import ContextFull, GrammarError, OmniDraftError, PictureError, PromptRefused, SettingsError

# The JSON object that a request to the API holds, its fields, each of the type it must have, and the refusal that says
# so if it is not. By hand and not as pydantic models: every refusal is a sentence of its own, which would have to be
# made from theirs, and what sampling may be is said once, by the settings.


BARRED = -1e6  # logits: nothing else is ever as unlikely, and where all are, one of them can still be drawn
_WORDS = {str: "a text", bool: "true or false", dict: "an object", list: "a list"}


class BadRequest(OmniDraftError):
    """The request asks for something that is not there or not understood."""

    def __init__(self, message: str, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


async def read_body(request: Request) -> bytes:
    """The request's body, if it is not too large (guard/limits.py)."""
    try:
        return await request.body()
    except HTTPException as refused:
        raise BadRequest(refused.detail, refused.status_code) from None


def json_body(data: bytes) -> dict[str, Any]:
    """The JSON object that a request holds."""
    try:
        # Half an emoji, which JSON can say and UTF-8 cannot, becomes the mark for that here.
        body = json_value(json.loads(data, parse_constant=_finite, parse_float=_finite))
    except RecursionError:
        raise BadRequest("The request is nested too deeply.") from None
    except ValueError:
        raise BadRequest("The request is not JSON.") from None
    if not isinstance(body, dict):
        raise BadRequest("The request is not a JSON object.")
    return body


def _finite(text: str) -> float:
    """A number; JSON has no infinite ones, though Python reads them."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def field(given: Mapping[str, Any], name: str, *kinds: type) -> Any:
    """The value under `name`, None if it is left out; BadRequest if it is of none of these kinds."""
    value = given.get(name)
    if value is not None and not isinstance(value, kinds):
        raise BadRequest(f"{name} must be {' or '.join(_WORDS[kind] for kind in kinds)}.")
    return value


def whole(given: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    """The whole number under `name`, None if it is left out; BadRequest if it is none or outside the range."""
    value = given.get(name)
    if value is not None and (type(value) is not int or not least <= value <= most):
        raise BadRequest(f"{name} must be a whole number from {least} to {most:,}.")
    return value


def texts(given: Mapping[str, Any], name: str, most: int) -> list[Any]:
    """What is under `name`: a text, a list of texts, the ids of one text, or a list of such; always as a list."""
    value = given.get(name)
    found = [value] if _is_text(value) else value
    if not isinstance(found, list) or not found or not all(map(_is_text, found)):
        raise BadRequest(f"{name} must be a text, a list of texts, or a list of token ids.")
    if len(found) > most:
        raise BadRequest(f"{name} must be a list of at most {most:,}.")
    return found


def biases(given: Mapping[str, Any], name: str) -> dict[int, float]:
    """Token id -> what is added to its logit: an object, or pairs of ids and biases; false bars a token."""
    value = field(given, name, dict, list) or {}
    pairs = list(value.items()) if isinstance(value, dict) else value
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise BadRequest(f"{name} must be an object of token ids and biases, or a list of such pairs.")
    return {_id(token, name): _bias(bias, name) for token, bias in pairs}


def _id(token: Any, name: str) -> int:
    digits = str(token) if type(token) is int or isinstance(token, str) else ""
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 9:
        raise BadRequest(f"{name} takes token ids, which are whole numbers; texts are not supported here.")
    return int(digits)


def _bias(value: Any, name: str) -> float:
    if value is False:
        return BARRED
    if type(value) not in (int, float) or not -100 <= value <= 100:
        raise BadRequest(f"{name} takes biases from -100 to 100, or false, which bars a token.")
    return float(value)


def _is_text(given: Any) -> bool:
    return isinstance(given, str) or (isinstance(given, list) and bool(given) and all(type(i) is int for i in given))


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
