"""What measured rounds would have brought on other machines: projections, by C(n) and D alone.

Each machine says where its figures come from. A projection takes rounds as they were; a machine with another C(n) would
choose other draft lengths, so of an adaptive method it is what this machine's choices would be worth there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnidraft.decoding.cost import CostModel


@dataclass(frozen=True, slots=True)
class Machine:
    """passes: C(n) / C(1) by n, in between and beyond on straight lines; step: D / C(1)."""

    name: str
    passes: Mapping[int, float]
    step: float
    source: str

    def cost(self, rows: int) -> float:
        """C(rows) in plain passes."""
        return CostModel(dict(self.passes), self.step).alone(rows)


# llama 8B Q4_0 read 512 tokens in steps of n at 156.56, 279.89, 390.96, 470.48, 509.70, 541.57, 559.30, 583.77 tokens/s
_RTX_3090 = (156.56, 279.89, 390.96, 470.48, 509.70, 541.57, 559.30, 583.77)

PAPER = Machine(
    "the paper's assumptions", {1: 1.0, 64: 1.0}, 0.073,
    "drafter step 2.03 ms, target step 26.67 to 28.46 ms (arXiv 2507.02659, appendix); verification taken as flat",
)  # fmt: skip
GPU = Machine(
    "a GPU (RTX 3090, 8B Q4_0)", {n: n * _RTX_3090[0] / speed for n, speed in enumerate(_RTX_3090, 1)}, 0.039,
    "ggml-org/llama.cpp pull request 15802: tokens/s at batches of 1 to 8; the drafter from its issue 8499: Llama-68M "
    "F16 at 4,006 tokens/s (RTX 4090)",
)  # fmt: skip
_READ, _WRITTEN = 49.75, 9.63  # tokens/s
_RATIO = _READ / _WRITTEN  # every further row costs what a row of a long prompt does: cautious, a pass bound by memory
# hides a part of that

DESKTOP = Machine(
    "8 cores at Q4_K_M", {n: 1 + (n - 1) / _RATIO for n in (1, 2, 16)}, 0.02,
    f"C(n) = 1 + (n - 1) / {_RATIO:.2f}, from {_READ} tokens/s read and {_WRITTEN} written by a Ryzen 7 8840U, Llama "
    "3.1 8B Q4_K_M (brand-o/normiebench issue 8); D assumed: Llama-68M Q8_0 (0.07 GB) beside 4.9 GB, plus a third",
)  # fmt: skip


def measured(passes: Mapping[int, float], step: float, regime: str) -> Machine:
    """This machine, by what passes of some widths and a draft step took in the same run. Seconds."""
    one = passes[1]
    curve = {n: seconds / one for n, seconds in passes.items()}
    return Machine(f"this machine ({regime})", curve, step / one, "measured in this run")


def projected(machine: Machine, tokens: int, drafted: int, widths: Mapping[int, int]) -> float:
    """Speedup over plain decoding if passes of `widths` ({rows: passes}) and `drafted` steps were all it takes."""
    took = sum(passes * machine.cost(int(rows)) for rows, passes in widths.items()) + drafted * machine.step
    return tokens / took if took else 1.0
