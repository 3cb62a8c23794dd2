"""How fast the target is without drafting, from its own plain rounds: what a speedup may be compared with.

A plain round is a target pass of one row that nothing was drafted for. Every answer has some; nothing is measured for
the comparison alone.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from omnidraft.decoding.events import Round

ENOUGH = 8  # plain rounds before their mean is worth showing
_KEPT = 400  # rounds remembered, so that a busier machine or a longer context shows


@dataclass(frozen=True, slots=True)
class Baseline:
    """Plain decoding of one target: mean tokens per second over `rounds` plain rounds."""

    tokens_per_second: float
    rounds: int


class Baselines:
    """Plain rounds seen per target. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, list[float]] = {}

    def observe(self, target: str, event: Round) -> None:
        if event.drafted or event.proposed or event.emitted != 1:
            return
        with self._lock:
            seen = self._seen.setdefault(target, [])
            seen.append(event.verify + event.other)
            del seen[:-_KEPT]

    def of(self, target: str) -> Baseline | None:
        """None until enough plain rounds were seen. The median: one round that was interrupted says nothing."""
        with self._lock:
            seen = sorted(self._seen.get(target, ()))
        if len(seen) < ENOUGH:
            return None
        middle = seen[len(seen) // 2]
        return Baseline(1 / middle, len(seen)) if middle > 0 else None
