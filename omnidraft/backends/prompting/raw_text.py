"""A text to go on with as it stands, without a chat template: what completions of the older kind ask for.

Control tokens that it spells count as such, since whoever sends it has applied a template already. Knows nothing of
conversations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnidraft.backends.prompting.prompt import spans_ids
from omnidraft.backends.prompting.spans import Span, control_pattern
from omnidraft.errors import ContextFull
from omnidraft.vocab import Vocabulary

# What begins, what splits and what ends a text with a gap in the prompts of models that fill one in.
_GAPS = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>"),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
    ("<PRE>", "<SUF>", "<MID>"),
    ("▁<PRE>", "▁<SUF>", "▁<MID>"),
)


@dataclass(frozen=True, slots=True)
class RawText:
    """text: what a drafter reads; ids: the target's own, where the text came as these."""

    text: str
    ids: tuple[int, ...] = ()

    @classmethod
    def of_ids(cls, ids: Sequence[int], vocabulary: Vocabulary) -> RawText:
        """A text that came as ids of `vocabulary`; ValueError if it has no such ids."""
        if not all(0 <= token < vocabulary.size for token in ids):
            raise ValueError("ids outside the vocabulary")
        return cls(vocabulary.decode(ids).decode("utf-8", "replace"), tuple(ids))

    @classmethod
    def with_gap(cls, before: str, behind: str, vocabulary: Vocabulary) -> RawText:
        """A text whose middle is to be written; ValueError if this model has no tokens for that."""
        known = next((gap for gap in _GAPS if all(name in vocabulary.controls for name in gap)), None)
        if known is None:
            raise ValueError("no tokens for a gap")
        begin, split, end = known
        return cls(f"{begin}{before}{split}{behind}{end}")

    def prompt_ids(self, vocabulary: Vocabulary, committed: Sequence[int] = ()) -> list[int]:
        """What a model with this vocabulary reads; at least one id. For the target also where it came as ids."""
        ids = spans_ids(_spans(self.text, vocabulary), vocabulary, committed)
        starts = (vocabulary.bos, vocabulary.eos, 0)
        return ids or [next(token for token in starts if token is not None)]

    def target_ids(self, vocabulary: Vocabulary, committed: Sequence[int], n_ctx: int) -> list[int]:
        """The same for the target; ContextFull if there is no room for an answer behind it."""
        least = len(self.ids) or len(self.text.encode("utf-8", "replace")) // vocabulary.longest_piece
        # A text far too long is not tokenized only to learn that.
        ids = list(self.ids) or (self.prompt_ids(vocabulary, committed) if least < n_ctx else [])
        if max(least, len(ids)) >= n_ctx:
            raise ContextFull(
                f"The prompt has {max(least, len(ids)):,} tokens or more, but the model's context of {n_ctx:,} must "
                "hold it and the answer; shorten it or raise the context length."
            )
        return ids


def _spans(text: str, vocabulary: Vocabulary) -> list[Span]:
    text = text.encode("utf-8", "replace").decode()
    if (pattern := control_pattern(vocabulary)) is None:
        return [Span(text)] if text else []
    parts = enumerate(pattern.split(text))
    return [Span(part, vocabulary.controls[part] if at % 2 else None) for at, part in parts if part]
