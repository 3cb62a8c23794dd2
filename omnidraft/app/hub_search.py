"""Models on the Hub by name, those downloaded most first; without those that cannot fit into memory however packed.

Nothing is asked unless the user presses Search. What a file takes exactly, its header says: `hub_fit`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omnidraft.app.hub_files import HubError, unreachable
from omnidraft.format import short

LISTED = 30
SECONDS = 20  # that the Hub has to answer
LEAST_BITS = 2.0  # per parameter: stronger quantization leaves little sense


@dataclass(frozen=True, slots=True)
class Found:
    """A repository with GGUF files. parameters: 0 where the Hub does not say."""

    repo: str
    downloads: int
    parameters: int = 0
    architecture: str = ""

    def label(self) -> str:
        size = f"{short(self.parameters)} · " if self.parameters else ""
        return f"{self.repo} · {size}{self.downloads:,} downloads"

    def fits(self, free: int | None) -> bool:
        """Whether any file of it may fit into so many bytes."""
        return free is None or self.parameters * LEAST_BITS / 8 <= free


def search(words: str, free: int | None) -> tuple[list[Found], int]:
    """(public repositories that match, how many more were left out as too large). HubError in one sentence."""
    from huggingface_hub import constants
    from huggingface_hub.utils import build_hf_headers, get_session

    if not words.strip():
        raise HubError("Write a part of the model's name first.")
    query = {"search": words.strip()[:100], "filter": "gguf", "sort": "downloads", "limit": LISTED, "gated": False,
             "expand": ["downloads", "gguf"]}  # fmt: skip
    try:  # not by `HfApi.list_models`, which tries a Hub that is gone for half a minute
        answer = get_session().get(
            f"{constants.ENDPOINT}/api/models", params=query, headers=build_hf_headers(token=False), timeout=SECONDS
        )
        answer.raise_for_status()
        found = [_found(one) for one in answer.json()]
    except Exception as error:
        raise unreachable(error) from None
    fitting = [one for one in sorted(found, key=lambda one: -one.downloads) if one.fits(free)]
    return fitting, len(found) - len(fitting)


def _found(told: dict[str, Any]) -> Found:
    gguf = told.get("gguf") or {}
    return Found(
        told["id"], int(told.get("downloads") or 0), int(gguf.get("total") or 0), str(gguf.get("architecture") or "")
    )
