"""Answers of a target as material to learn from, without a drafter in the loop: for measuring and for tests.

Which tokens a target emits does not depend on the drafter, so what is captured here equals what an assistant captures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from omnidraft.backends.prompting.prompt import ends_without_space, prompt_ids
from omnidraft.backends.prompting.prompted_model import Message
from omnidraft.bench.pairs import Pair
from omnidraft.decoding.events import Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.learning.material.capture import CAPTURE, capture
from omnidraft.learning.material.record import Record
from omnidraft.settings.config import DraftSettings, SamplingSettings


def records(
    pair: Pair, asked: Iterable[tuple[str, str, Sequence[Message]]], temperature: float, max_tokens: int, seed: int = 1
) -> Iterator[Record]:
    """Records of (conversation, task, messages), each answer with a seed of its own; empty answers make none."""
    for number, (chat, task, messages) in enumerate(asked):
        drawn = seed * 1_000_003 + number
        sampling = SamplingSettings.unfiltered(temperature=temperature, seed=drawn, max_tokens=max_tokens)
        record = answered(pair, list(messages), sampling, chat, task)
        if record is not None:
            yield record


def answered(
    pair: Pair, messages: list[Message], sampling: SamplingSettings, chat: str, task: str | None
) -> Record | None:
    request = AnswerRequest(messages, sampling, DraftSettings(enabled=False), capture=CAPTURE)
    events = pair.engine.answer(request)
    tokens = [event for event in events if isinstance(event, Token)]
    prompt = prompt_ids(pair.template, pair.pair.drafter, messages)
    space = ends_without_space(pair.template.render(messages))
    return capture(
        pair.pair, prompt, tokens, virtual_space=space, chat=chat, target=pair.engine.target.model.name, task=task,
        temperature=sampling.temperature,
    )  # fmt: skip


def joined(made: Iterable[Record], longest: int) -> Iterator[Record]:
    """Long answers of short ones: those behind the first follow it without their questions, up to `longest` tokens."""
    long: Record | None = None
    for record in made:
        if long is None or len(long.targets) + len(record.targets) > longest:
            if long is not None:
                yield long
            long = record
        else:
            arrays = ("targets", "pieces", "spans", "counts", "ids", "logprobs", "rest")
            both: dict[str, Any] = {
                name: np.concatenate([getattr(one, name) for one in (long, record)]) for name in arrays
            }
            long = replace(long, **both)
    if long is not None:
        yield long
