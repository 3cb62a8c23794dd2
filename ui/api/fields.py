"""Fields of a request to the API, each of the type it must have, and the refusal that says so if it is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnidraft.errors import OmniDraftError

_WORDS = {str: "a text", bool: "true or false", dict: "an object", list: "a list"}


class BadRequest(OmniDraftError):
    """The request asks for something that is not there or not understood."""

    def __init__(self, message: str, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


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
