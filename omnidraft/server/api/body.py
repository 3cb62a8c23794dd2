"""The JSON object that a request to the API holds."""

from __future__ import annotations

import json
import math
from typing import Any

from fastapi import Request

from omnidraft.chats.records import json_value
from omnidraft.server.api.fields import BadRequest

MAX_BODY = 8 << 20


async def read_body(request: Request) -> bytes:
    """The request's body, if it is not too large."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY:
            raise BadRequest("The request is too large.", 413)
    return bytes(data)


def json_body(data: bytes) -> dict[str, Any]:
    """The JSON object that a request holds."""
    try:
        # Half an emoji, which JSON can say and UTF-8 cannot, becomes the mark for that here.
        body = json_value(json.loads(data, parse_constant=_finite, parse_float=_finite))
    except (ValueError, RecursionError):
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
