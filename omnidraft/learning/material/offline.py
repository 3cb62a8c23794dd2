"""Answers of a target as replay records, without a drafter in the loop: material for measuring and for tests.

Which tokens a target emits does not depend on the drafter, so what is captured here equals what an assistant captures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from omnidraft.backends.gguf.file import read_info
from omnidraft.backends.llama.model import LlamaTarget
from omnidraft.backends.prompting.prompt import ends_without_space, prompt_ids
from omnidraft.backends.prompting.prompted_model import Message
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.decoding.events import Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.engine import Engine
from omnidraft.learning.material.capture import capture
from omnidraft.learning.material.record import Record
from omnidraft.settings.config import DraftSettings, ModelSettings, SamplingSettings
from omnidraft.vocab import PairMap
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary


class Answering:
    """A target that answers prompts into records for a drafter's vocabulary."""

    def __init__(self, target: Path, drafter: Path, cache: Path | None = None, threads: int = 1) -> None:
        model = LlamaTarget.open(target, ModelSettings(n_ctx=0, threads=threads))
        self.engine = Engine(model, ChatTemplate.from_model(model.info, model.vocabulary))
        self.name = model.name
        vocabulary = read_gguf_vocabulary(drafter)
        self._template = ChatTemplate.from_model(read_info(drafter), vocabulary)
        self.pair = PairMap.build(vocabulary, model.vocabulary, cache)

    def answer(
        self,
        messages: Sequence[Message],
        sampling: SamplingSettings,
        *,
        chat: str,
        task: str | None = None,
        top: int = 48,
    ) -> Record | None:
        """One answer as a record of its `top` candidates per position; None if the answer is empty."""
        events = self.engine.answer(AnswerRequest(messages, sampling, DraftSettings(enabled=False), capture=top))
        tokens = [event for event in events if isinstance(event, Token)]
        prompt = prompt_ids(self._template, self.pair.drafter, messages)
        space = ends_without_space(self._template.render(messages))
        return capture(
            self.pair, prompt, tokens, virtual_space=space, chat=chat, target=self.name, task=task,
            temperature=sampling.temperature,
        )  # fmt: skip

    def records(
        self,
        prompts: Iterable[tuple[str, str, Sequence[Message]]],
        temperature: float,
        max_tokens: int = 160,
        seed: int = 1,
    ) -> Iterator[Record]:
        """Records of (chat id, task, messages), each answer with a seed of its own."""
        for i, (chat, task, messages) in enumerate(prompts):
            sampling = SamplingSettings.unfiltered(
                temperature=temperature, seed=seed * 1_000_003 + i, max_tokens=max_tokens
            )
            record = self.answer(list(messages), sampling, chat=chat, task=task)
            if record is not None:
                yield record

    def close(self) -> None:
        self.engine.target.model.close()

    def __enter__(self) -> Answering:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
