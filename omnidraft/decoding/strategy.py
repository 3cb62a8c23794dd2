"""Which picker belongs to which verification, and what either needs to remember."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from omnidraft.decoding.expansion_tree import ExpansionTree
from omnidraft.decoding.pick import CoupledPicker, GreedyPicker, Picker, SamplingPicker
from omnidraft.decoding.sampling import Sampler
from omnidraft.decoding.verify import Verdict, verify_by_equality
from omnidraft.decoding.verify_rejection import verify_by_rejection
from omnidraft.settings.config import SamplingSettings
from omnidraft.vocab import Proposal, Translator


class Strategy(Protocol):
    """A way to draft and verify that belong together."""

    splits: bool
    """Whether a piece may be proposed as several target tokens (only equality can accept those)."""

    @property
    def picker(self) -> Picker: ...

    def verify(
        self, rows: np.ndarray, proposals: Sequence[Proposal], pieces: Sequence[int], recent: list[int], position: int
    ) -> Verdict: ...


class Equality:
    """T = 0 and `coupled`: keep what the target would have drawn anyway."""

    splits = True

    def __init__(self, sampler: Sampler, picker: Picker, ends: Callable[[int], bool]) -> None:
        self.picker = picker
        self._sampler = sampler
        self._ends = ends

    def verify(self, rows, proposals, pieces, recent, position):
        ids = [p.target_id for p in proposals]
        return verify_by_equality(rows, ids, self._sampler, recent, position, self._ends)


class Drawn:
    """`rejection`: pieces are drawn from a known q, by which proposals are tested.

    test: (rows, proposals, pieces, q, recent) -> verdict.
    """

    splits = False

    def __init__(self, picker: SamplingPicker, test: Callable[..., Verdict]) -> None:
        self.picker = picker
        self._test = test

    def verify(self, rows, proposals, pieces, recent, position):
        verdict = self._test(rows, proposals, pieces, self.picker.q, recent)
        self.picker.carry(verdict.carried, len(pieces))
        return verdict


def choose_strategy(
    verification: str,
    sampling: SamplingSettings,
    sampler: Sampler,
    translator: Translator,
    longest: int,
    ends: Callable[[int], bool],
) -> Strategy:
    """The strategy for one answer; at T = 0 every verification is equality."""
    if sampler.greedy:
        return Equality(sampler, GreedyPicker(), ends)
    if verification == "coupled":
        return Equality(sampler, CoupledPicker(translator, sampler.seed, sampling), ends)
    pair = translator.pair
    rng = np.random.Generator(np.random.PCG64(sampler.seed))
    picker = SamplingPicker(rng, sampling.temperature, pair.drafter.size, longest)
    return Drawn(picker, partial(verify_by_rejection, tree=tree_of(pair), sampler=sampler, rng=rng, ends=ends))


_trees: dict[int, tuple[object, ExpansionTree]] = {}


def tree_of(pair) -> ExpansionTree:
    """The pair's expansion tree; sorting 128k expansions takes a moment, so the last one is kept."""
    held = _trees.get(id(pair))
    if held is None or held[0] is not pair:
        _trees.clear()
        held = _trees[id(pair)] = (pair, ExpansionTree(pair.expansions))
    return held[1]
