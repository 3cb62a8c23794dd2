"""Models on the Hub by name, those downloaded most first; without those that cannot fit into memory however packed.

Nothing is asked unless the user presses Search. What a file takes exactly, its header says: `hub_fit`.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnidraft.app.hub_files import HubError, unreachable
from omnidraft.format import short

LISTED = 30
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
    from huggingface_hub import HfApi

    if not words.strip():
        raise HubError("Write a part of the model's name first.")
    try:
        answer = list(
            HfApi(token=False).list_models(
                search=words.strip()[:100], filter="gguf", sort="downloads", limit=LISTED, gated=False,
                expand=["downloads", "gguf"],
            )
        )  # fmt: skip
    except Exception as error:
        raise unreachable(error) from None
    found = sorted((_found(one) for one in answer), key=lambda one: -one.downloads)
    fitting = [one for one in found if one.fits(free)]
    return fitting, len(found) - len(fitting)


def _found(info: object) -> Found:
    held = getattr(info, "gguf", None)
    gguf = held if isinstance(held, dict) else {}
    total = gguf.get("total")
    return Found(
        str(getattr(info, "id", "")), int(getattr(info, "downloads", None) or 0),
        total if isinstance(total, int) and total > 0 else 0, str(gguf.get("architecture") or ""),
    )  # fmt: skip
