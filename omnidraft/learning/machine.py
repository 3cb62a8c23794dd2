"""Whether the machine is free for training: not on its battery, and not at work for something else."""

from __future__ import annotations

import time

import psutil

BUSY = 0.6  # share of the processor that others may use
PATIENCE = 600.0  # seconds after which training begins on a busy machine too, at the lowest priority
LOOK, FRESH = 1.0, 30.0  # seconds: a load over less is noise; one over more may be an answer's that was written then


class Machine:
    """Is asked again and again while something is due. busy: above 1 for any load."""

    def __init__(self) -> None:
        self.busy = BUSY
        self._looked, self._busy_since, self._said = float("-inf"), 0.0, ""

    def why_wait(self) -> str:
        """Why training should not begin now, in a sentence; "" if it may."""
        if self.busy > 1:
            return ""
        now = time.monotonic()
        passed = now - self._looked
        if passed >= LOOK:
            self._looked, load = now, psutil.cpu_percent() / 100
            self._said = self._say(now, load) if passed < FRESH else "Training begins when the machine is quiet."
        return self._said

    def _say(self, now: float, load: float) -> str:
        if _on_battery():
            return "Training waits until the machine is plugged in."
        self._busy_since = (self._busy_since or now) if load > self.busy else 0.0
        if self._busy_since and now - self._busy_since < PATIENCE:
            return "Training waits while other programs use the processor."
        return ""


def _on_battery() -> bool:
    """False where nobody knows."""
    look = getattr(psutil, "sensors_battery", None)
    battery = look() if look is not None else None
    return battery is not None and battery.power_plugged is False
