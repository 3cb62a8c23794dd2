"""Real models that say what they are told to, for flows that no tiny model takes by itself."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

from omnidraft.decoding.events import Finished, Statistics, Token
from omnidraft.engine import Engine
from omnidraft.prompting.templates import ChatTemplate
from tests.prompting.tool_templates import HERMES


def say(texts: list[str]) -> None:
    """From now on every engine of this process answers with the next of `texts`, token by token."""
    left = list(texts)

    def answer(self: Engine, request: object) -> Iterator:
        ids = self.target.model.vocabulary.encode(left.pop(0) if left else "All right.")
        self._cancelled = False
        for at, token in enumerate(ids):
            if self._cancelled:
                yield Finished("cancelled", Statistics(prompt_tokens=10, tokens=at), seed=1)
                return
            data = self.target.model.vocabulary.pieces[token]
            yield Token(token, data, data.decode(), "target", at)
        yield Finished("stop", Statistics(prompt_tokens=10, tokens=len(ids)), seed=1)

    Engine.answer = answer  # type: ignore[method-assign]
    read = ChatTemplate.from_model.__func__  # type: ignore[attr-defined]

    def from_model(cls: type, info: SimpleNamespace, vocabulary: object, own: None) -> ChatTemplate:
        return cls(HERMES, vocabulary, info.name) if "target" in info.name else read(cls, info, vocabulary, own)

    ChatTemplate.from_model = classmethod(from_model)  # type: ignore[method-assign,assignment]
