"""`bench overhead`: what a round costs outside the models, at a vocabulary of real size.

Two stand-in models hand out prepared logits, so that everything else is what remains: picking pieces, translating,
sampling, capture, verification, bookkeeping. The vocabularies are the bundled ones, filled up to 32,000 and 128,256
with made-up pieces that have bytes and expansions like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from omnidraft.app.assistant import CAPTURE
from omnidraft.bench import plans
from omnidraft.bench.report import Report, Table
from omnidraft.bench.runner import Work
from omnidraft.decoding.drafting import Drafting
from omnidraft.decoding.events import Finished, Round
from omnidraft.decoding.length import FixedLength
from omnidraft.decoding.loop import decode
from omnidraft.decoding.request import AnswerRequest, DecodeInput
from omnidraft.decoding.speculation import Speculation
from omnidraft.settings.config import CacheSettings, SamplingSettings
from omnidraft.storage.paths import BUNDLED_MODELS
from omnidraft.vocab import PairMap, TokenKind, Translator, Vocabulary
from omnidraft.vocab.exact import Tokenizer
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from omnidraft.vocab.ngram_cache import NgramCache

DRAFTER_SIZE, TARGET_SIZE = 32_000, 128_256
ROUND_MS, POSITION_MS = 0.5, 0.6  # the budget
DRAFT_LENGTH = 4


def run(plan: plans.Overhead, work: Work) -> Iterator[Report]:
    rows = []
    for temperature in (0.0, 1.0):
        work.told(f"T = {temperature:g}")
        rows.append(measure(temperature, plan.tokens))
        names = ["temperature", "rounds", "positions", "total_ms", "budget_ms", "share"]
        body = [[*(row[name] for name in names), ", ".join(f"{q:.0f}" for q in row["quarters"])] for row in rows]
        title = f"Outside the models; the budget: {ROUND_MS} ms a round and {POSITION_MS} ms a position"
        yield Report(rows, [Table(title, [*names, "a round by quarters of the answer, us"], body)])


def measure(temperature: float, tokens: int) -> dict[str, Any]:
    """Decode `tokens` tokens from prepared logits and count the time that is not the models', in milliseconds.

    positions: those whose logits were looked at, one an emitted token. quarters: microseconds of a round, its draft
    steps and its pass excepted, medians over each quarter of the answer: flat unless something grows with it.
    """
    drafter_vocabulary = filled("tiny-drafter", DRAFTER_SIZE)
    target_vocabulary = filled("tiny-target-a", TARGET_SIZE)
    pair = PairMap.build(drafter_vocabulary, target_vocabulary, None)
    translator = Translator(pair, NgramCache.open(None, pair, CacheSettings()))
    target, drafter = _agreeing(pair)
    sampling = SamplingSettings.unfiltered(temperature=temperature, max_tokens=tokens)
    for seed in (0, 1):  # the first answer warms up
        speculation = Speculation(Drafting(drafter, translator, [1, 2, 3]), FixedLength(DRAFT_LENGTH))
        before = target.seconds + drafter.seconds
        start = perf_counter()
        given = DecodeInput(target, [1, 2, 3], seed, speculation)
        events = list(decode(AnswerRequest((), sampling, capture=CAPTURE), given))
        total = perf_counter() - start - (target.seconds + drafter.seconds - before)
        target.rewind(0)
        drafter.rewind(0)
    s = next(e for e in events if isinstance(e, Finished)).statistics
    rounds, positions, ms = s.target_passes, s.tokens, total * 1e3
    budget = rounds * ROUND_MS + positions * POSITION_MS
    return {
        "temperature": temperature, "rounds": rounds, "positions": positions, "acceptance_rate": s.acceptance_rate,
        "total_ms": ms, "per_round_ms": ms / rounds, "per_position_ms": ms / positions, "budget_ms": budget,
        "share": ms / budget, "quarters": _quarters([e for e in events if isinstance(e, Round)]),
    }  # fmt: skip


def _quarters(rounds: Sequence[Round]) -> list[float]:
    ends = [len(rounds) * i // 4 for i in range(5)]
    around = [(r.translate + r.other) * 1e6 for r in rounds]
    return [median(around[a:b]) for a, b in pairwise(ends)]


class Prepared:
    """A `DraftModel` whose logits are a prepared row for the last id's class; counts its own seconds.

    classes: (size,) row of the pool behind each id; favourites: per row of the pool the id that gets the most mass.
    """

    can_rewind, n_ctx, n_batch, name = True, 1 << 20, 512, "prepared"
    adapter: str | None = None

    def __init__(self, vocabulary: Vocabulary, classes: np.ndarray, favourites: np.ndarray, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.vocabulary = vocabulary
        self.tokens: list[int] = []
        self.seconds = 0.0
        # like a language model's: most mass on few ids, a tail of about a tenth beyond the first 64
        zipf = -1.6 * np.log(np.arange(1, vocabulary.size + 1))
        self._pool = np.stack([rng.permutation(zipf) for _ in favourites]).astype(np.float32)
        self._pool[np.arange(len(favourites)), favourites] = 2.0
        self._pool[:, ~vocabulary.ordinary] = -30.0
        self._classes = classes
        self._out = np.empty((17, vocabulary.size), np.float32)

    def extend(self, ids: Sequence[int], rows: int) -> np.ndarray:
        start = perf_counter()
        self.tokens += ids
        for i in range(rows):
            self._out[i] = self._pool[self._classes[self.tokens[len(self.tokens) - rows + i]]]
        self.seconds += perf_counter() - start
        return self._out[:rows]

    def rewind(self, length: int) -> None:
        del self.tokens[length:]

    def set_adapter(self, path: str | None) -> None:
        pass

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass


def _agreeing(pair: PairMap, classes: int = 8) -> tuple[Prepared, Prepared]:
    """A target and a drafter that favour the same continuation in three classes of four."""
    rng = np.random.default_rng(3)
    mapped = np.flatnonzero(pair.direct >= 0)
    pieces = rng.choice(mapped, classes, replace=False)
    tokens = pair.direct[pieces]
    of_token = np.arange(pair.target.size) % classes
    of_piece = np.where(pair.direct >= 0, of_token[pair.direct], 0)
    guesses = np.where(np.arange(classes) % 4 < 3, pieces, mapped[0])
    return Prepared(pair.target, of_token, tokens, 1), Prepared(pair.drafter, of_piece, guesses, 2)


class _Spelled(Tokenizer):
    """Spells made-up pieces byte by byte, as a tokenizer does with what it never saw."""

    marks_words = False

    def __init__(self, by_bytes: dict[bytes, int]) -> None:
        self._by_bytes = by_bytes

    def tokenize(self, data: bytes) -> list[int]:
        return [self._by_bytes[data[i : i + 1]] for i in range(len(data))]

    def tokenize_many(self, items: Sequence[bytes]) -> list[list[int]]:
        return [self.tokenize(data) for data in items]


def filled(name: str, size: int) -> Vocabulary:
    """A bundled vocabulary with made-up three-letter pieces up to `size` ids."""
    small = read_gguf_vocabulary(BUNDLED_MODELS / f"{name}-f16.gguf")
    rng = np.random.default_rng(0)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789_ABCDEFGHIJKLMNOPQRSTUVWXYZ", np.uint8)
    made: dict[bytes, None] = {}
    while len(made) < size - small.size:
        for row in letters[rng.integers(len(letters), size=(size, 4))]:
            if (piece := row.tobytes()) not in small.by_bytes:
                made[piece] = None
    pieces = [*small.pieces, *list(made)[: size - small.size]]
    kinds = np.concatenate((small.kinds, np.full(size - small.size, TokenKind.NORMAL, np.uint8)))
    return _Filled(
        pieces=pieces, kinds=kinds, eog=small.eog, bos=small.bos, eos=small.eos, add_bos=small.add_bos,
        controls=small.controls, family=small.family, tokenizer=_Spelled(small.by_bytes),
    )  # fmt: skip


class _Filled(Vocabulary):
    def _fingerprint(self) -> str:
        return f"{self.family}-filled-{self.size}"
