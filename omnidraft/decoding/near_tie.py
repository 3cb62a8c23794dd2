"""How far one model's logits move between a pass of many rows and passes of one: other kernels round otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omnidraft.backends.base import LanguageModel


def batch_difference(model: LanguageModel, ids: Sequence[int], widest: int = 8) -> float:
    """Largest |logit difference| between reading `ids` one by one and in passes of 2, 3, 5 and `widest` rows.

    A near-tie is a margin below twice this: then rounding alone may decide which of two tokens wins. Leaves the
    cache empty. Padding rows (-inf or unused) do not count.
    """
    ids = list(ids)[: 2 * widest]
    model.rewind(0)
    single = np.concatenate([model.extend([i], 1).copy() for i in ids])
    used = model.vocabulary.ordinary
    largest = 0.0
    for width in (2, 3, 5, widest):
        model.rewind(0)
        for start in range(0, len(ids), width):
            part = ids[start : start + width]
            rows = model.extend(part, len(part))
            difference = np.abs(rows[:, used] - single[start : start + len(part), used])
            largest = max(largest, float(difference.max()))
    model.rewind(0)
    return largest
