"""What fixed draft lengths would have done with recorded answers, counted without running the target again."""

from __future__ import annotations

from collections.abc import Sequence

from omnidraft.app.assistant import Assistant
from omnidraft.backends.prompting.prompt import prompt_ids
from omnidraft.backends.prompting.prompted_model import Message, PromptedDrafter
from omnidraft.bench.opened import engine_of
from omnidraft.bench.recorded import RecordedTarget
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Engine
from omnidraft.lab.trace import Trace, record
from omnidraft.settings.config import DraftSettings, SamplingSettings
from omnidraft.vocab import Translator


def count_fixed(
    assistant: Assistant,
    drafter: PromptedDrafter,
    translator: Translator,
    answers: Sequence[tuple[Sequence[Message], SamplingSettings, Sequence[int]]],
    lengths: Sequence[int],
) -> dict[int, list[Trace]]:
    """By draft length, a trace of each of `answers` (messages, settings, ids answered). Their times mean nothing."""
    seat = engine_of(assistant).target
    target = RecordedTarget(seat.model.vocabulary, seat.model.name, seat.model.n_ctx)
    engine = Engine(target, seat.template)
    engine.pair_drafter(drafter.model, drafter.template, translator)
    found: dict[int, list[Trace]] = {length: [] for length in lengths}
    for messages, sampling, ids in answers:
        target.text = [*prompt_ids(seat.template, target.vocabulary, messages, []), *ids]
        for length in lengths:
            engine.forget()
            draft = DraftSettings(mode="fixed", length=length)
            found[length].append(record(engine.answer(AnswerRequest(messages, sampling, draft))))
    return found
