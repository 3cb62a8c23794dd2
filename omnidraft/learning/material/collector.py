"""From an answer as the assistant gives it to a replay record and a row of history. It stores nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from omnidraft.backends.prompt import ends_without_space, prompt_ids
from omnidraft.backends.templates import ChatTemplate
from omnidraft.decoding.events import Finished, Token
from omnidraft.errors import ModelError
from omnidraft.learning.adapters.serving import Choice
from omnidraft.learning.facts import ServedAnswer
from omnidraft.learning.material.capture import capture
from omnidraft.learning.material.record import Record
from omnidraft.vocab import PairMap


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
    """A finished answer. chat: its conversation, None where it belongs to none; tokens carry the captured
    distributions."""

    chat: str | None
    messages: Sequence[dict[str, str]]
    tokens: Sequence[Token]
    finished: Finished
    temperature: float = 1.0


def record_of(answer: Answered, pairing: Pairing) -> Record | None:
    """The answer as training material; None if the drafter cannot spell it or its template refuses the conversation."""
    if not any(token.candidates is not None for token in answer.tokens):
        return None
    messages = list(answer.messages)
    try:
        prompt = prompt_ids(pairing.template, pairing.pair.drafter, messages)
        space = ends_without_space(pairing.template.render(messages))
    except ModelError:
        return None
    return capture(
        pairing.pair, prompt, answer.tokens, virtual_space=space, chat=answer.chat or "", target=pairing.target,
        time=time.time(), temperature=answer.temperature,
    )  # fmt: skip


def served_by(answer: Answered, pairing: Pairing) -> ServedAnswer:
    """The answer's counters under the version that drafted it."""
    s, choice = answer.finished.statistics, pairing.choice
    version = choice.version.name if choice.origin == "own" else ""
    return ServedAnswer(
        time.time(), version, pairing.target, s.tokens, s.target_passes, s.proposed, s.tested, s.accepted,
        round(s.decode_seconds, 4),
    )  # fmt: skip
