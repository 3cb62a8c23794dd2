"""What a policy knows of the proposals in hand: how likely each is to be accepted, and what became of earlier ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omnidraft.decoding.acceptance import AcceptanceHead, Features
from omnidraft.decoding.topk import top_ids
from omnidraft.vocab import Proposal, Translator

_SEEN = 16  # pieces the entropy looks at; the rest counts as one
_OFFSET_RATE = 0.7  # logits that one complete surprise moves the offset by
_OFFSET_MOST = 3.0


class Foresight:
    """Features and probabilities of one round's proposals; trains the head when the round is over.

    offset: how much better, in logits, proposals do in this answer than the head, which knows all answers, expects.
    """

    def __init__(self, translator: Translator, head: AcceptanceHead, offset: float = 0.0) -> None:
        self.head = head
        self.offset = offset
        self._translator = translator
        self._pieces: list[tuple[float, float]] = []  # log q and entropy of each piece drawn this round
        self._features: dict[Proposal, Features] = {}

    def begin(self) -> None:
        self._pieces.clear()
        self._features.clear()

    def drew(self, row: np.ndarray, piece: int) -> None:
        top = float(row.max())
        total = float(np.exp(row - top).sum())
        best = np.exp(row[top_ids(row, _SEEN)] - top) / total
        best = best[best > 0]
        rest = max(1.0 - float(best.sum()), 1e-9)
        entropy = float(-(best * np.log(best)).sum()) - rest * np.log(rest)
        self._pieces.append((float(row[piece]) - top - float(np.log(total)), entropy))

    def chances(self, pieces: Sequence[int]) -> list[float]:
        """P(accepted | those before it accepted) of each proposal that `pieces` make."""
        found = []
        for depth, proposal in enumerate(self._translator.segment(pieces)):
            features = self._of(proposal, depth)
            found.append(1.0 if features is None else self.head.probability(features, self.offset))
        return found

    def learn(self, proposals: Sequence[Proposal], tested: int, accepted: int) -> None:
        """Teach the head what the target did with the tested ones among `proposals`."""
        for depth, proposal in enumerate(proposals[:tested]):
            features = self._of(proposal, depth)
            if features is not None:
                expected = self.head.probability(features, self.offset)
                self.head.learn(features, depth < accepted)
                offset = self.offset + _OFFSET_RATE * ((depth < accepted) - expected)
                self.offset = min(max(offset, -_OFFSET_MOST), _OFFSET_MOST)

    def _of(self, proposal: Proposal, depth: int) -> Features | None:
        """None for pieces drawn in an earlier round (carried ones), whose logits are gone."""
        if proposal in self._features:
            return self._features[proposal]
        used = range(proposal.start, proposal.start + max(proposal.pieces, 1))
        if used.stop > len(self._pieces):
            return None
        logq = sum(self._pieces[i][0] for i in used)
        first, entropy = self._pieces[proposal.start]
        features = Features(logq, first, entropy, depth, len(used), proposal.origin)
        self._features[proposal] = features
        return features
