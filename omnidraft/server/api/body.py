"""The JSON object that a request to the API holds."""

from __future__ import annotations

import json
import math
from typing import Any

from fastapi import Request
from starlette.exceptions import HTTPException

from omnidraft.chats.records import json_value
from omnidraft.server.api.fields import BadRequest


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
