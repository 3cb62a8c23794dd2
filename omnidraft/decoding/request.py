"""What `decode` is asked: one answer's model, prompt, settings and what goes with it. Holds, and decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from omnidraft.backends.base import LanguageModel
from omnidraft.decoding.constraint import Constraint
from omnidraft.decoding.speculation import Speculation
from omnidraft.settings.config import SamplingSettings


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """`prompt` are target ids, at least one.

    The emitted ids depend on target, prompt, sampling and seed alone (at T = 0 or with `verification` "coupled"),
    whatever `speculation` is.
    """

    target: LanguageModel
    prompt: Sequence[int]
    sampling: SamplingSettings
    seed: int
    speculation: Speculation | None = None
    capture: int = 0  # how many of the target's top ids each token carries along
    tolerance: float = 0.0  # margins (in logits) below it count as near-ties
    cancelled: Callable[[], bool] = bool  # asked between passes; true ends the answer
    draft_disabled_reason: str | None = None
    written: int = 0  # so many of the prompt's last ids are the answer's own; positions count on from them
    go_on: bool = False  # the answer may not end with its first token
    # What may follow. It sees verified tokens only, so proposals are verified by equality whatever `speculation` says.
    constraint: Constraint | None = None
    alternatives: int | None = None  # with each token its log probability, and those of so many of the likeliest
