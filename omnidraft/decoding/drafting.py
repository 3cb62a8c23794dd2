"""The drafter's side of an answer: its context in its own vocabulary, drawing pieces, and settling what was kept.

The drafter's context is the prompt under its own chat template, then accepted pieces as they were drafted and
expansions of every token the target put itself. Its KV cache is rewound no further than the first piece that did
not stand; what it missed is read together with the next draft step, in one pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np

from omnidraft.backends.base import DraftModel, LanguageModel
from omnidraft.backends.pictures import FIRST, steps
from omnidraft.decoding.constraint import Constraint
from omnidraft.decoding.events import Prefill, Round
from omnidraft.decoding.lookup import Match
from omnidraft.decoding.pick import Picker
from omnidraft.decoding.topk import Scorer
from omnidraft.decoding.verify import Verdict
from omnidraft.vocab import Proposal, TokenKind, Translator

# Reading a prompt into a KV cache, keeping what it already holds.


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common beginning."""
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    return next(i for i in range(n) if a[i] != b[i])


def prefill(model: LanguageModel, ids: list[int]) -> Iterator[Prefill]:
    """Make the cache hold exactly `ids`, one event per batch so that a stop is noticed in between.

    A model that cannot rewind starts over where the cache went another way.
    """
    reused = common_prefix(model.tokens, ids)
    if reused < len(model.tokens):
        reused = reused if model.can_rewind else 0
        model.rewind(reused)
    yield Prefill(reused, len(ids), reused)
    done = reused
    for step in steps(ids[reused:], model.n_batch):
        if step[0] >= FIRST:
            yield Prefill(done, len(ids), reused, picture=True)
        model.extend(step, 0)
        done += len(step)
        yield Prefill(done, len(ids), reused)


_SCORED = 64  # ids of a pass: a row for each, of a large vocabulary, takes memory


def scored_prefill(model: LanguageModel, ids: list[int], alternatives: int) -> Iterator[Prefill]:
    """Likewise for all but the last of `ids`, which are told with their log probabilities. Nothing is reused: of what
    was read before there are no rows."""
    scorer, padding = Scorer(alternatives), model.vocabulary.kinds == TokenKind.UNUSED
    last = len(ids) - 1
    model.rewind(0)
    yield Prefill(0, last, 0, scored=[(ids[0], None)])
    for at in range(0, last, _SCORED):
        done = min(at + _SCORED, last)
        scored = []
        for token, row in zip(ids[at + 1 : done + 1], model.extend(ids[at:done], done - at), strict=True):
            row[padding] = -np.inf
            scorer.take(row)
            scored.append((token, scorer.of(token)))
        yield Prefill(done, last, 0, scored=scored)


# How far to draft is for a policy to say. It is told when a round begins, sees each piece that is drawn, says whether
# one more is worth its time, and learns from how the round went. The one that goes by measured time is in depth.py.


PLAIN = -1


class LengthPolicy:
    """Decides who drafts in a round and how much. longest: no round drafts more pieces."""

    def __init__(self, longest: int) -> None:
        self.longest = longest

    @property
    def rests(self) -> bool:
        """The round is plain without another thought, and not begun, unless there is something to copy."""
        return False

    def begin(self, behind: int, match: Match) -> int:
        """A round begins; returns how many looked-up tokens to propose, 0 to leave it to the drafter, `PLAIN` for
        neither. behind: ids the drafter has yet to read."""
        return 0

    def more(self, pieces: Sequence[int]) -> bool:
        """Whether to draft another piece behind `pieces`; asked before each one, the first included."""
        raise NotImplementedError

    def drew(self, row: np.ndarray, piece: int) -> None:
        """`piece` was drawn from the drafter's logits `row` (V_drafter,), undraftable pieces masked."""

    def worthwhile(self, pieces: Sequence[int]) -> bool:
        """Whether to propose what was drafted."""
        return True

    def observe(self, done: Round, proposals: Sequence[Proposal], said: int) -> None:
        """The round has ended; `proposals` is what was verified, `said` the id of the first token it made."""

    def observe_behind(self, done: Round, proposals: Sequence[Proposal]) -> None:
        """The same of what was drafted behind proposals of others; the round's times are no draft's."""

    def finish(self) -> None:
        """The answer has ended."""


class FixedLength(LengthPolicy):
    """Draft `longest` pieces in every round; never look up."""

    def more(self, pieces: Sequence[int]) -> bool:
        return len(pieces) < self.longest


_TRIES = 4  # pieces that a constraint may forbid before drafting ends


class Drafting:
    """One answer's drafting state.

    prompt: drafter ids of the conversation so far; virtual_space: the prompt ends without white space, so the first
    answer token is written with the leading space the drafter expects there (design: First position). source: the
    conversation's name, which the n-gram cache notes with what it learns, so that it can be forgotten.
    """

    def __init__(
        self,
        drafter: DraftModel,
        translator: Translator,
        prompt: Sequence[int],
        *,
        virtual_space: bool = False,
        source: str | None = None,
    ) -> None:
        self.drafter = drafter
        self.translator = translator
        self._ids = list(prompt)  # the context, then this round's pieces
        self._base = len(self._ids)  # where the pieces begin
        self._expected = 0  # so many of them spell what others propose; behind these the drafter drafts
        self._valid = common_prefix(drafter.tokens, self._ids)  # so many ids are in the KV cache
        self._virtual_space = virtual_space
        self._source = source
        self._unread: list[int] = []  # target ids emitted without a draft, not yet translated
        self._at_start = True
        kinds = drafter.vocabulary.kinds
        eog = list(drafter.vocabulary.eog)
        undraftable = np.flatnonzero(~drafter.vocabulary.ordinary)
        self._undraftable = np.setdiff1d(undraftable, eog)
        self._padding = _trailing(kinds == TokenKind.UNUSED)
        self._undraftable = self._undraftable[self._undraftable < self._padding]

    @property
    def pieces(self) -> list[int]:
        """What is drafted behind the context and not yet verified."""
        return self._ids[self._base :]

    @property
    def drafted(self) -> list[int]:
        """The pieces that are the drafter's own."""
        return self._ids[self._base + self._expected :]

    @property
    def holds_pieces(self) -> bool:
        return len(self._ids) > self._base

    @property
    def context(self) -> list[int]:
        """Drafter ids of the conversation and the answer as far as it is verified."""
        self._catch_up()
        return self._ids[: self._base]

    @property
    def behind(self) -> int:
        """About how many ids the drafter has yet to read before it can draft."""
        return len(self._ids) - self._valid + len(self._unread)

    def ends(self, target_id: int) -> bool:
        return target_id in self.translator.pair.target.eog

    def expect(self, target_ids: Sequence[int]) -> list[Proposal]:
        """Go on as if the target had said `target_ids`; the proposals of them."""
        self._catch_up()
        proposals = []
        for target_id in target_ids:
            ids = self.translator.drafter_ids(target_id)
            proposals.append(Proposal(target_id, "forced", len(ids), self._expected))
            self._ids += ids
            self._expected += len(ids)
        return proposals

    def draft(self, policy: LengthPolicy, picker: Picker, position: int, constraint: Constraint | None = None) -> int:
        """Draw pieces until the policy has enough. Returns how many were drawn.

        position: answer position of the target token behind the context and what is expected. Nothing is drawn that
        the constraint forbids; where the drafter's likeliest pieces are forbidden, or its context is full, drafting
        ends.
        """
        pieces = self.drafted
        while not (pieces and pieces[-1] in self.drafter.vocabulary.eog) and policy.more(pieces):
            if self._unread:
                self._catch_up()
            row = self._next_row(policy.longest)
            # NaN: a damaged drafter proposes nothing, and the text does not depend on it
            if row is None or not row.max() < inf:
                break
            piece = self._picked(row, picker, pieces, position, constraint)
            if piece is None:
                break
            policy.drew(row, piece)
            pieces.append(piece)
            self._ids.append(piece)
        return len(pieces)

    def _picked(
        self, row: np.ndarray, picker: Picker, pieces: list[int], position: int, constraint: Constraint | None
    ) -> int | None:
        """The next piece; None if nothing that was tried may follow."""
        vocabulary = self.drafter.vocabulary
        for _ in range(_TRIES):
            piece = picker.pick(row, pieces, position)
            if constraint is None:
                return piece
            data = vocabulary.decode([*self.pieces, piece])
            if constraint.follows(data, piece in vocabulary.eog):
                return piece
            row[piece] = -np.inf
        return None

    def settle(self, verdict: Verdict, proposals: Sequence[Proposal]) -> None:
        """Take over what the target emitted. Without a draft that is only noted: plain decoding pays nothing for it."""
        if not self.holds_pieces:
            self._unread += [emission.id for emission in verdict.emitted]
            return
        self._catch_up()
        for emission in verdict.emitted:
            self.translator.emitted(emission.id, self._source)
        pieces = self.pieces
        kept = self._kept_ids(verdict, proposals, pieces)
        self._valid = min(self._valid, self._base + common_prefix(pieces, kept))
        self._ids[self._base :] = kept
        self._base += len(kept)
        self._expected = 0

    def _kept_ids(self, verdict: Verdict, proposals: Sequence[Proposal], pieces: list[int]) -> list[int]:
        """Drafter ids of the emitted tokens: accepted pieces as drafted, anything else by its expansion."""
        kept: list[int] = []
        spelled: list[int] = []  # expansions of a split's target tokens until all of them are accepted
        for i, emission in enumerate(verdict.emitted):
            proposal = proposals[i] if i < verdict.accepted else None
            if proposal is not None and proposal.origin == "split" and not proposal.pieces:
                spelled += self.translator.drafter_ids(emission.id)
            elif proposal is not None and proposal.pieces:
                kept += pieces[proposal.start : proposal.start + proposal.pieces]
                spelled.clear()
            else:
                kept += spelled
                spelled.clear()
                kept += self._expansion(emission.id)
        return kept + spelled

    def _catch_up(self) -> None:
        """Translate what was emitted while nobody drafted, and let the n-gram cache learn it."""
        for target_id in self._unread:
            self.translator.emitted(target_id, self._source)
            ids = self._expansion(target_id)
            self._ids[self._base : self._base] = ids
            self._base += len(ids)
        self._unread.clear()

    def _expansion(self, target_id: int) -> Sequence[int]:
        first, self._at_start = self._at_start, False
        if first and self._virtual_space and (data := self.translator.pair.target.pieces[target_id]):
            return self.translator.first_drafter_ids(data)
        return self.translator.drafter_ids(target_id)

    def _next_row(self, longest: int) -> np.ndarray | None:
        """Logits behind context and pieces, in one pass over whatever of them the KV cache lacks; None where they do
        not fit. In the middle of a draft nothing makes room, for all would have to be read again."""
        if not self.drafted and len(self._ids) + min(longest, self.drafter.n_ctx // 4) > self.drafter.n_ctx:
            self._shorten()
        if len(self._ids) > self.drafter.n_ctx:
            return None
        self._valid = min(self._valid, len(self._ids) - 1)  # the last id is read (again): its row is wanted
        if len(self.drafter.tokens) > self._valid:
            self.drafter.rewind(self._valid)
        row = self.drafter.extend(self._ids[self._valid :], 1)[0]
        self._valid = len(self._ids)
        row[self._undraftable] = -np.inf
        row[self._padding :] = -np.inf
        return row

    def _shorten(self) -> None:
        """Forget the older half when the drafter's context is full; exactness does not depend on it."""
        bos = [self.drafter.vocabulary.bos] if self._ids[0] == self.drafter.vocabulary.bos else []
        pieces = self.pieces
        kept = max(1, self.drafter.n_ctx // 2 - len(pieces))
        context = bos + self._ids[max(len(bos), self._base - kept) : self._base]
        self._ids = context + pieces
        self._base = len(context)
        self._valid = common_prefix(self.drafter.tokens, self._ids)


def _trailing(flags: np.ndarray) -> int:
    """Index where the unbroken run of true values at the end begins."""
    clear = np.flatnonzero(~flags)
    return int(clear[-1]) + 1 if len(clear) else 0
