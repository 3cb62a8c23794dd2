"""Keeps the server from fetching, or even looking up, what a request names.

Gradio fetches a file that is given as an address, and streams one that is asked for as `/file=http...`. It does so
through one library, which looks the name up first. Nothing here has a use for either.
"""

from __future__ import annotations

from typing import Any, NoReturn

import safehttpx


class Refused(ValueError):
    """Something was to be fetched."""


async def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise Refused("Files from other addresses are not fetched.")


def refuse_fetching() -> None:
    """From now on; harmless when repeated."""
    safehttpx.get = _refuse
    safehttpx.async_validate_url = _refuse
