"""Why a padding row of the output layer never wins although Llama has no bias.

One dimension R behind the small width is reserved: every real token's embedding holds the constant c there and no
layer reads or writes it, so it reaches the last norm unchanged. The norm's scale makes it h = GAIN / rms, rms being
the small model's own at that position; a padding row of the output layer holds -PENALTY at R, so its logit is near
-GAIN * PENALTY / rms, thousands below every real one. Real rows hold 0 at R; in a tied model they hold c and
all shift alike by c * h (some hundredths), which neither argmax nor softmax sees.

c adds c^2 to each norm's sum of squares. The norm's epsilon gives way by exactly that: with n the small and N the
large width, (S + c^2)/N + eps' = (n/N) (S/n + eps) for every S when N eps' = n eps - c^2. What is left is the constant
factor n/N of the mean, which sqrt(n/N) on the norm's scale undoes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from omnidraft.errors import ModelError

GAIN = 8.0
PENALTY = 4096.0


@dataclass(frozen=True)
class NormCorrection:
    """What keeps the small model's norms while the width grows."""

    scale: float  # on every norm's weights
    epsilon: float  # of the large model's norms
    constant: float  # c: what real tokens' embeddings hold in the reserved dimension, 0 if there is none
    last_scale: float  # the last norm's weight in the reserved dimension


def correct_norms(small_width: int, large_width: int, epsilon: float) -> NormCorrection:
    """The correction for one pair of widths; `epsilon` is the small model's. ModelError if it leaves no room for c."""
    ratio = small_width / large_width
    if large_width == small_width:
        return NormCorrection(1.0, epsilon, 0.0, 0.0)
    if epsilon < 1e-9:
        raise ModelError(f"A norm epsilon of {epsilon} is too small for an expansion; it must be at least 1e-9.")
    # A power of two, exact in every type, with c^2 at most half of what epsilon can give.
    constant = 2.0 ** math.floor(math.log2(math.sqrt(small_width * epsilon / 2)))
    large_epsilon = (small_width * epsilon - constant**2) / large_width
    return NormCorrection(math.sqrt(ratio), large_epsilon, constant, GAIN * math.sqrt(ratio) / constant)
