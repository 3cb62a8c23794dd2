"""The decoding loop: plain or speculative, one generator of typed events.

Round: the drafter drafts, the translator turns pieces into target proposals, the target reads its last token and
the proposals in one pass, verification keeps a prefix and adds one token of the target's own. Plain decoding is the
same loop with nothing proposed. At every event the target's cache holds all verified tokens but the newest, so an
answer abandoned at any point leaves both models consistent.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from omnidraft.backends.base import Aborted
from omnidraft.decoding.constraint import ConstrainedSampler
from omnidraft.decoding.drafting import prefill, scored_prefill
from omnidraft.decoding.events import CUT, Event, Finished, FinishReason, Prefill, Round, Statistics, Token
from omnidraft.decoding.pick import CoupledPicker, GreedyPicker, Picker
from omnidraft.decoding.request import AnswerRequest, DecodeInput, TextStream
from omnidraft.decoding.sampling import Sampler, looked_at
from omnidraft.decoding.speculation import NOTHING
from omnidraft.decoding.verify import Verdict, verify
from omnidraft.errors import ModelError
from omnidraft.processes.threads import release_helpers
from omnidraft.vocab import Proposal


def decode(request: AnswerRequest, given: DecodeInput) -> Generator[Event, None, None]:
    """Answer the prompt until the target ends it, a stop string, or a limit."""
    answer = _Answer(request, given)
    start = perf_counter()
    reason: FinishReason = "cancelled"
    try:
        for progress in _reading(request, given):
            answer.statistics.reused_tokens = progress.reused
            yield progress
            if given.cancelled():
                raise Aborted
        answer.statistics.prefill = perf_counter() - start
        while True:
            if (ended := answer.ended()) is not None:
                reason = ended
                break
            if given.cancelled():
                raise Aborted
            for event in answer.round():
                if isinstance(event, Token):
                    given.committed.append(event.id)
                yield event
    except Aborted:  # the reason stays "cancelled"
        pass
    finally:
        release_helpers()
    statistics = answer.statistics
    rest = answer.text.finish(cut=reason in CUT)
    yield Finished(reason, statistics, rest, given.seed, given.why_plain(statistics))


def _reading(request: AnswerRequest, given: DecodeInput) -> Iterator[Prefill]:
    if request.scores_prompt:
        return scored_prefill(given.target, list(given.committed), request.alternatives or 0)
    return prefill(given.target, given.committed[:-1])


class _Answer:
    """State of one answer between rounds."""

    def __init__(self, request: AnswerRequest, given: DecodeInput) -> None:
        self.target = given.target
        self.committed = list(given.committed)
        self.sampling = request.sampling
        self._longest = request.sampling.longest if request.writes else 0
        self.speculation = given.speculation
        self._written = given.written
        may_not_end = request.continued is not None and request.continued.ended
        begun = request.continued.text if request.continued is not None else ""
        self.text = TextStream((*self.sampling.stop, *given.stop), given.prefix, begun)
        self._barred = self._ends_at_once(given.stop, begun) if may_not_end else []
        self.statistics = Statistics(prompt_tokens=len(self.committed))
        self._finished: FinishReason | None = None
        self._widest = getattr(self.target, "widest", self.target.n_ctx)
        self._markers = given.markers
        self._ends = (self.target.vocabulary.eog - given.inner).__contains__
        self._wide = True  # the last pass, of the prompt or of proposals, had several rows
        self._recent, before = looked_at(self.committed, given.written)
        self._sampler = _sampler(request, given, before)
        self._picker = self._pick()

    def _ends_at_once(self, stop: Sequence[str], begun: str) -> list[int]:
        """The tokens with which an answer that ended would end again: those of the vocabulary, and what begins a text
        that ends answers of this model (a line of the next role)."""
        vocabulary, text = self.target.vocabulary, TextStream(stop, behind=begun)
        pieces = ((id, data.decode("utf-8", "replace")) for id, data in enumerate(vocabulary.pieces if stop else ()))
        return sorted({*vocabulary.eog, *(id for id, piece in pieces if piece and text.would_begin(piece))})

    def _pick(self) -> Picker:
        s = self.speculation
        if self._sampler.greedy or s is None or s.drafting is None:
            return GreedyPicker()
        return CoupledPicker(s.drafting.translator, self._sampler.seed, self.sampling)

    def ended(self) -> FinishReason | None:
        if self._finished is None and self.statistics.tokens >= self._longest:
            self._finished = "length"
        if self._finished is None and len(self.committed) > self.target.n_ctx:
            self._finished = "context"
        return self._finished

    def round(self) -> Iterator[Event]:
        """Guess, verify, emit. The answer's first token comes without a guess: nothing may delay it."""
        start = perf_counter()
        first, position = not self.statistics.tokens, self._written + self.statistics.tokens
        guess = NOTHING
        if self.speculation is not None and not first:
            guess = self.speculation.guess(self._picker, position, self._room())
        proposals = guess.proposals
        threads, before = getattr(self.target, "threads", None), perf_counter()
        rows = self.target.extend([self.committed[-1], *(p.target_id for p in proposals)], len(proposals) + 1)
        after = perf_counter()
        if np.isnan(rows[-1].max()):
            raise ModelError("The target computes what is no number; its file is damaged: download or copy it again.")
        if first and self._barred:
            rows[0][self._barred] = -np.inf
        verdict = verify(rows, [p.target_id for p in proposals], self._sampler, self._recent, position, self._ends)
        tokens = self._emit(verdict, proposals)
        if self.speculation is not None:
            self.speculation.settle(verdict, proposals)
        done = Round(
            drafted=guess.drafted,
            proposed=len(proposals),
            tested=verdict.tested,
            accepted=min(verdict.accepted, len(tokens)),
            emitted=len(tokens),
            draft=guess.draft,
            translate=guess.translate,
            verify=after - before,
            other=perf_counter() - start - (after - before) - guess.draft - guess.translate,
            copied=sum(p.origin == "lookup" for p in proposals),
            threads=threads,
            plain=not (guess.drafted or proposals or self._wide),
            forced=sum(p.origin == "forced" for p in proposals),
        )
        self._wide = bool(proposals)
        self._count(done, tokens)
        if self.speculation is not None and not first:
            self.speculation.observe(done, proposals, verdict.emitted[0].id)
        yield from tokens
        yield done

    def _room(self) -> int:
        """How many proposals still make sense: the context and the answer must hold them and one token more."""
        context = self.target.n_ctx - len(self.committed)
        return min(context, self._longest - self.statistics.tokens - 1, self._widest - 1)

    def _emit(self, verdict: Verdict, proposals: Sequence[Proposal]) -> list[Token]:
        """Turn what stands into tokens, cut where the answer ends, and rewind the target behind the newest."""
        tokens: list[Token] = []
        for i, emission in enumerate(verdict.emitted):
            data = self.target.vocabulary.pieces[emission.id] or self._markers.get(emission.id, b"")
            origin = proposals[i].origin if i < verdict.accepted else "target"
            shown = self.text.feed(data)
            count = self.statistics.tokens + i
            position = self._written + count
            tokens.append(Token(emission.id, data, shown, origin, position, emission.candidates, emission.scores))
            self.committed.append(emission.id)
            if self._ends(emission.id):
                self._finished = "stop"
            elif self.text.stopped:
                self._finished = "stop_string"
            if self._finished or count + 1 >= self._longest:
                break
        if len(self.target.tokens) >= len(self.committed):
            self.target.rewind(len(self.committed) - 1)
        return tokens

    def _count(self, done: Round, tokens: Sequence[Token]) -> None:
        s = self.statistics
        s.tokens += len(tokens)
        for token in tokens:
            s.origins[token.origin] += 1
        s.count(done)


def _sampler(request: AnswerRequest, given: DecodeInput, before: int) -> Sampler:
    more: dict[str, Any] = {
        "before": before, "alternatives": request.alternatives, "bias": request.bias
    }  # fmt: skip
    basic = request.sampling, given.target.vocabulary, given.seed, request.capture
    if given.constraint is None:
        return Sampler(*basic, **more)
    return ConstrainedSampler(*basic, given.constraint, **more)
