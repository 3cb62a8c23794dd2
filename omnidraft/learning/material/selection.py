"""Which stored answers an update learns from and which it is judged on. Arithmetic on the replay's index alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from omnidraft.learning.material.replay import Answer

REPLAYED_PER_NEW = 3  # measured: one pass without replay loses a third of the gain
JUDGED_OLD = 24


@dataclass(frozen=True)
class Selection:
    """Replay ordinals. new, replayed: trained on; judged_new, judged_old: held out. through: newest ordinal seen."""

    new: tuple[int, ...]
    replayed: tuple[int, ...]
    judged_new: tuple[int, ...]
    judged_old: tuple[int, ...]
    through: int


def select_answers(
    answers: Mapping[int, Answer],
    vocabularies: Collection[str],
    through: int,
    seed: int,
    most_new: int,
) -> Selection:
    """New answers are those past `through`, the oldest `most_new` of them; for each some older ones are replayed, drawn
    uniformly."""
    rng = np.random.default_rng(seed)
    usable = [o for o, a in sorted(answers.items()) if a.vocabulary in vocabularies]
    training = [o for o in usable if not answers[o].held_out]
    backlog = [o for o in training if o > through]
    new, more = backlog[:most_new], backlog[most_new:]
    older = [o for o in training if o <= through]
    replayed: Sequence[int] = []
    if older and new:
        replayed = rng.choice(older, min(len(older), REPLAYED_PER_NEW * len(new)), replace=False).tolist()
    held = [o for o in usable if answers[o].held_out]
    judged_new, rest = [o for o in held if o > through], [o for o in held if o <= through]
    judged_old = rng.permutation(rest)[:JUDGED_OLD].tolist()
    sort = lambda ordinals: tuple(sorted(map(int, ordinals)))  # noqa: E731
    seen = more[0] - 1 if more else usable[-1] if usable else through
    return Selection(tuple(new), sort(replayed), tuple(judged_new), sort(judged_old), seen)


def waiting(answers: Mapping[int, Answer], vocabularies: Collection[str], through: int) -> int:
    """How many new answers an update would have; 0 while there is no held-out answer to judge it by."""
    mine = [(o, a) for o, a in answers.items() if a.vocabulary in vocabularies]
    return sum(o > through for o, _ in mine) if any(a.held_out for _, a in mine) else 0
