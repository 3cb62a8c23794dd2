"""A loaded model's place in a conversation: what it was told last, and what of a conversation still fits its context.

Knows templates and vocabularies, and nothing of how an answer comes about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omnidraft.backends.base import DraftModel, LanguageModel
from omnidraft.errors import ContextFull
from omnidraft.prompting.prompt import RawText, See, answer_ids, count_ids, fit_context, prompt_ids
from omnidraft.prompting.templates import ChatTemplate

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Continued:
    """The answer to go on with: its text, and its ids where they are known.

    ended: the model itself ended it there, so that it may not do so again at once.
    """

    text: str
    ids: Sequence[int] = ()
    ended: bool = False


@dataclass(slots=True)
class PromptedModel:
    """A loaded model with its chat template, and the ids of the conversation it last saw."""

    model: LanguageModel
    template: ChatTemplate
    committed: list[int]

    @property
    def see(self) -> See | None:
        """Tells the ids of a picture; None for a model without eyes."""
        return self._eyes.ids if self._eyes is not None else None

    @property
    def most_pictures(self) -> int:
        """How many pictures of one conversation it can see."""
        return self._eyes.most if self._eyes is not None else 0

    @property
    def _eyes(self) -> Any:
        return getattr(self.model, "eyes", None)

    def answer_ids(self, text: str, ids: Sequence[int]) -> list[int]:
        """The ids of an answer that is there already; `ids` where they are known."""
        return answer_ids(self.model.vocabulary, text, self.template.answer_prefix if text else "", ids)

    def prompt(
        self, messages: Sequence[Message] | RawText, template: ChatTemplate, max_tokens: int, written: int
    ) -> tuple[Sequence[Message] | RawText, list[int], int]:
        """(what of `messages` fits, the model's ids of it, how many of the oldest turns were left out).

        template: the model's own, told what this answer asks for.
        """
        if isinstance(messages, RawText):
            fitted = messages.fitted(self.model.vocabulary, self.model.n_ctx - self._reserve(max_tokens))
            return fitted, fitted.target_ids(self.model.vocabulary, self.model.n_ctx), 0
        kept, dropped = self._fit(list(messages), template, max_tokens, written)
        return kept, prompt_ids(template, self.model.vocabulary, kept, self.see), dropped

    def room(self, messages: Sequence[Message], max_tokens: int) -> int:
        """How many more tokens fit into the context beside these messages and the room kept for an answer."""
        limit = self.model.n_ctx - self._reserve(max_tokens)
        return limit - count_ids(self.template, self.model.vocabulary, messages, limit, self.see)

    def _reserve(self, max_tokens: int) -> int:
        """Room kept for an answer: a quarter of the context, or max_tokens if that is less."""
        return min(max_tokens, self.model.n_ctx // 4)

    def _fit(
        self, messages: list[Message], template: ChatTemplate, max_tokens: int, written: int
    ) -> tuple[list[Message], int]:
        """Keep room for an answer.

        A long answer of which `written` tokens are there goes on with whatever room is left.
        """
        limit = self.model.n_ctx

        def count(kept: Sequence[Message]) -> int:
            return count_ids(template, self.model.vocabulary, kept, limit, self.see) + written

        try:
            return fit_context(messages, limit - self._reserve(max_tokens), count)
        except ContextFull:
            if not written:
                raise
            turn = count([*(m for m in messages if m["role"] == "system"), messages[-1]])
            if turn > limit:
                raise ContextFull(
                    f"The answer and its question take {turn:,} tokens, and the model's context of {limit:,} has no "
                    "room to go on; raise the context length."
                ) from None
            return fit_context(messages, limit, count)


@dataclass(slots=True)
class PromptedDrafter(PromptedModel):
    """The drafter's place."""

    model: DraftModel
