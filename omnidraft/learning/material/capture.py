"""From a finished answer to a replay record and a row of history. It knows nothing of where they go."""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from omnidraft.backends.prompting.prompt import ends_without_space, prompt_ids
from omnidraft.backends.prompting.raw_text import RawText
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.decoding.events import Finished, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import ModelError
from omnidraft.learning.adapters.serving import Choice
from omnidraft.learning.facts import ServedAnswer
from omnidraft.learning.material.record import Record, gather_candidates
from omnidraft.vocab import PairMap, Translator

CAPTURE = 48  # top ids kept per position
LONGEST_PROMPT = 1024  # drafter ids kept in front of an answer; training sees at most a window of them


@dataclass(frozen=True)
class Pairing:
    """The drafter and target at work. template: the drafter's own; target: the model's name."""

    pair: PairMap
    template: ChatTemplate
    target: str
    choice: Choice

    def serving(self, choice: Choice) -> Pairing:
        return replace(self, choice=choice)


@dataclass(frozen=True, slots=True)
class Answered:
    """A finished answer; tokens carry the captured distributions."""

    request: AnswerRequest
    tokens: Sequence[Token]
    finished: Finished


def record_of(answer: Answered, pairing: Pairing) -> Record | None:
    """The answer as training material; None if the drafter cannot spell it or its template refuses the conversation."""
    request = answer.request
    if isinstance(request.prompt, RawText) or not any(token.candidates is not None for token in answer.tokens):
        return None
    messages = list(request.prompt)
    try:
        prompt = prompt_ids(pairing.template, pairing.pair.drafter, messages)
        space = ends_without_space(pairing.template.render(messages))
    except ModelError:
        return None
    return capture(
        pairing.pair, prompt, answer.tokens, virtual_space=space, chat=request.source or "", target=pairing.target,
        time=clock.time(), temperature=request.sampling.temperature,
    )  # fmt: skip


def served_by(answer: Answered, pairing: Pairing) -> ServedAnswer:
    """The answer's counters under the version that drafted it."""
    s, choice = answer.finished.statistics, pairing.choice
    version = choice.learned.name if choice.origin == "own" else ""
    return ServedAnswer(
        clock.time(), version, pairing.target, s.tokens, s.target_passes, *s.by_drafter, round(s.decode_seconds, 4),
        s.plain, round(s.plain_seconds, 5),
    )  # fmt: skip


def capture(
    pair: PairMap, prompt: Sequence[int], tokens: Sequence[Token], *, virtual_space: bool, chat: str, target: str,
    task: str | None = None, time: float = 0.0, temperature: float = 1.0,
) -> Record | None:  # fmt: skip
    """The record of an answer; None if it is empty or the drafter cannot spell any of it.

    prompt: the conversation in drafter ids under the drafter's own template. virtual_space: that prompt ends without
    white space, so the first token is spelled with a space (see `Drafting`). Pieces are what the drafter's context
    held: E(t) for every token, except that an accepted split keeps the one piece it was drafted as.
    """
    translator = Translator(pair, None)
    pieces: list[int] = []
    spans: list[int] = []
    for i, served in enumerate(_served(pair, tokens)):
        if i == 0 and virtual_space and len(served) == 1 and pair.target.pieces[tokens[0].id]:
            served = [_first(translator, tokens[0].id)]
        for span in served:
            pieces += span
            spans.append(len(span))
    if not pieces or not prompt:
        return None
    counts, ids, logprobs, rest = gather_candidates([token.candidates for token in tokens])
    leading = virtual_space and bool(counts[0])
    return Record(
        chat=chat, target=target, vocabulary=pair.target.fingerprint, task=task, time=time, temperature=temperature,
        drafter=pair.drafter.fingerprint, prompt=np.array(prompt[-LONGEST_PROMPT:], np.int32),
        targets=np.array([t.id for t in tokens], np.int32),
        pieces=np.array(pieces, np.int32), spans=np.array(spans, np.int32), counts=counts, ids=ids, logprobs=logprobs,
        rest=rest, leading_space=leading,
        first=tuple(_first(translator, int(t)) for t in ids[: counts[0]]) if leading else (),
    )  # fmt: skip


def _first(translator: Translator, target_id: int) -> tuple[int, ...]:
    """Pieces of an answer's first token behind a prompt that ends without white space."""
    data = translator.pair.target.pieces[target_id]
    try:
        return tuple(translator.first_drafter_ids(data)) if data else translator.drafter_ids(target_id)
    except ValueError:
        return translator.drafter_ids(target_id)


def _served(pair: PairMap, tokens: Sequence[Token]) -> list[list[tuple[int, ...]]]:
    """Spans of pieces in token order, in groups: one token's own, or those of a run of accepted split tokens."""
    groups, at = [], 0
    while at < len(tokens):
        end = at
        while end < len(tokens) and tokens[end].origin == "split":
            end += 1
        if end > at:
            groups.append(_split_run(pair, [token.id for token in tokens[at:end]]))
        else:
            end = at + 1
            groups.append([pair.expansions[tokens[at].id]])
        at = end
    return groups


def _split_run(pair: PairMap, ids: list[int]) -> list[tuple[int, ...]]:
    """Which single pieces spelled a run of split tokens; E(t) for tokens where none ends on a token's end."""
    spans: list[tuple[int, ...]] = []
    data = [pair.target.pieces[t] for t in ids]
    while data:
        ends = list(accumulate(map(len, data)))
        found = None
        for count in range(len(data), 1, -1):
            piece = pair.drafter.by_bytes.get(b"".join(data[:count])) if ends[count - 1] else None
            if piece is not None and pair.splits(piece) == tuple(ids[len(spans) : len(spans) + count]):
                found = (count, piece)
                break
        count, piece = found or (1, None)
        spans += [()] * (count - 1)
        spans.append((piece,) if piece is not None else pair.expansions[ids[len(spans)]])
        data = data[count:]
    return spans
