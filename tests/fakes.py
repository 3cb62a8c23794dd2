"""Toy vocabularies and models small enough to enumerate, behind the same protocols as the real ones."""

from collections.abc import Callable, Sequence

import numpy as np

from omnidraft.backends.base import Aborted
from omnidraft.vocab import TokenKind, Vocabulary


class LongestPiece:
    """A tokenizer that always takes the longest piece."""

    marks_words = False

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = sorted(enumerate(pieces), key=lambda item: -len(item[1]))

    def tokenize(self, data: bytes) -> list[int]:
        ids = []
        while data:
            found, piece = next((i, p) for i, p in self._pieces if p and data.startswith(p))
            ids.append(found)
            data = data[len(piece) :]
        return ids


class ToyVocabulary(Vocabulary):
    """Knows a few letters, so it cannot tokenize the probe text a real fingerprint takes in."""

    def _fingerprint(self) -> str:
        return b"|".join(self.pieces).hex()


def toy_vocabulary(pieces: Sequence[bytes], padding: int = 0) -> Vocabulary:
    """`pieces` as ordinary tokens, then one end-of-generation token, then unused rows."""
    n = len(pieces)
    kinds = np.array([TokenKind.NORMAL] * n + [TokenKind.CONTROL] + [TokenKind.UNUSED] * padding, np.uint8)
    return ToyVocabulary(
        pieces=[*pieces, *[b""] * (padding + 1)], kinds=kinds, eog=[n], bos=None, eos=n, add_bos=False,
        controls={"<end>": n}, family="toy", tokenizer=LongestPiece(pieces),
    )  # fmt: skip


class ToyModel:
    """A model whose logits are a function of the ids before; counts passes and rows, checks the protocol."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        logits: Callable[[tuple[int, ...]], np.ndarray],
        *,
        n_ctx: int = 512,
        can_rewind: bool = True,
    ) -> None:
        self.vocabulary = vocabulary
        self.name = "toy"
        self.n_ctx = n_ctx
        self.n_batch = 4
        self.tokens: list[int] = []
        self.can_rewind = can_rewind
        self.adapter = None
        self.passes: list[tuple[int, int]] = []
        self.abort_at: int | None = None
        self._logits = logits
        self._memo: dict[tuple[int, ...], np.ndarray] = {}

    def extend(self, ids: Sequence[int], rows: int) -> np.ndarray:
        assert ids, "an empty pass"
        assert 0 <= rows <= len(ids)
        assert len(self.tokens) + len(ids) <= self.n_ctx, "context overflow"
        if self.abort_at is not None and len(self.passes) >= self.abort_at:
            raise Aborted
        self.passes.append((len(ids), rows))
        self.tokens += ids
        out = np.empty((rows, self.vocabulary.size), np.float32)
        for i in range(rows):
            out[i] = self._row(tuple(self.tokens[: len(self.tokens) - rows + i + 1]))
        return out

    def _row(self, history: tuple[int, ...]) -> np.ndarray:
        if (row := self._memo.get(history)) is None:
            row = self._memo[history] = np.asarray(self._logits(history), np.float32)
        return row

    def rewind(self, length: int) -> None:
        assert 0 <= length <= len(self.tokens)
        assert self.can_rewind or length in (0, len(self.tokens)), "this model cannot rewind"
        del self.tokens[length:]

    def set_adapter(self, path: str | None) -> None:
        self.tokens.clear()

    def abort(self) -> None:
        self.abort_at = 0

    def close(self) -> None:
        pass


def random_logits(vocabulary: Vocabulary, seed: int, scale: float = 1.5, depth: int = 3, end: float = -1.0):
    """Logits that depend on the last `depth` ids, fixed by `seed`; padding is tempting, so masking it matters."""

    def logits(history: tuple[int, ...]) -> np.ndarray:
        rng = np.random.default_rng([seed, *history[-depth:]])
        row = rng.normal(0.0, scale, vocabulary.size)
        row[vocabulary.eos] = end
        row[vocabulary.kinds == TokenKind.UNUSED] = 20.0
        return row

    return logits
