"""The learning rate over a run: warm up, hold, decay. Also what makes a run end early.

Knows seconds and steps; nothing of models or files of text.
"""

import signal
import time
from dataclasses import dataclass
from types import FrameType


@dataclass
class WarmupHoldDecay:
    """A trapezoid: linear warm-up over steps, constant, then linear to zero over the last part of the budget."""

    budget_s: float
    warmup_steps: int = 50
    decay_share: float = 0.3  # of all training time
    decay_from_s: float | None = None  # set when the decay begins
    decay_for_s: float = 0.0

    def scale(self, step: int, elapsed_s: float) -> float | None:
        """The factor on the learning rate, or None once the run is over."""
        if self.decay_from_s is None and elapsed_s >= self.budget_s * (1 - self.decay_share):
            self.begin_decay(elapsed_s)
        warmup = min(1.0, (step + 1) / self.warmup_steps)
        if self.decay_from_s is None:
            return warmup
        left = 1 - (elapsed_s - self.decay_from_s) / max(self.decay_for_s, 1e-9)
        return warmup * left if left > 0 else None

    def begin_decay(self, elapsed_s: float) -> None:
        """Decay from now on, for the same share of the run as planned. Later calls change nothing."""
        if self.decay_from_s is None:
            self.decay_from_s = elapsed_s
            self.decay_for_s = elapsed_s * self.decay_share / (1 - self.decay_share)


class TrainingClock:
    """Counts seconds of training since `elapsed_s`.

    On a CPU these are processor seconds per thread: a process that is paused, or starved by others on a shared
    machine, does not spend its budget. On an accelerator they are seconds on the clock.
    """

    def __init__(self, device: str, threads: int, elapsed_s: float = 0.0) -> None:
        self._now = (lambda: time.process_time() / threads) if device == "cpu" else time.monotonic
        self._start = self._now() - elapsed_s

    def elapsed_s(self) -> float:
        return self._now() - self._start


class StopRequest:
    """`came` is True once SIGTERM was sent. Listens inside a `with` block only."""

    came = False

    def __enter__(self) -> "StopRequest":
        self._before = signal.signal(signal.SIGTERM, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGTERM, self._before)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.came = True
