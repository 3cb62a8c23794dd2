"""What an answer is asked for, and what the engine makes ready for `decode` besides. Holds, and decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnidraft.backends.base import LanguageModel
from omnidraft.decoding.constraint import Constraint
from omnidraft.decoding.events import Statistics
from omnidraft.decoding.speculation import Speculation
from omnidraft.settings.config import DraftSettings, SamplingSettings

if TYPE_CHECKING:  # the loop computes without templates, which bring llama.cpp
    from omnidraft.backends.prompting.grammar import Grammar
    from omnidraft.backends.prompting.prompted_model import Continued, Message
    from omnidraft.backends.prompting.raw_text import RawText
    from omnidraft.backends.prompting.templates import ChatTemplate


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """One answer as it is asked for: made where somebody asks, carried unchanged to `decode`.

    prompt: messages ({"role", "content"}, the last one the user's), or a raw text to go on with. continued: the answer
    to go on with; events are of what is new then, and with the seed it began with it becomes what it would have been
    uninterrupted. grammar: what the answer must follow. alternatives: with each token its log probability, and those
    of so many of the likeliest; None: none of them. source: the conversation's name, which the n-gram cache and
    learning note, so that it can be forgotten. capture: how many of the target's top ids each token carries along.
    template_options: what the target's chat template is told besides the messages. bias: what is added to the target's
    logits of these ids, before all else that sampling does.
    """

    prompt: Sequence[Message] | RawText
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    draft: DraftSettings = field(default_factory=DraftSettings)
    continued: Continued | None = None
    grammar: Grammar | None = None
    alternatives: int | None = None
    source: str | None = None
    capture: int = 0
    template_options: Mapping[str, Any] = field(default_factory=dict)
    bias: Mapping[int, float] = field(default_factory=dict)

    def told(self, template: ChatTemplate) -> ChatTemplate:
        """A model's template as it is to be rendered for this answer; it is told only what it knows of."""
        options = {} if self.sampling.thinking == "auto" else template.thinking.get(self.sampling.thinking, {})
        if self.template_options:
            options = {**options, **template.known(self.template_options)}
        return template.told(options) if options else template


@dataclass(frozen=True, slots=True)
class DecodeInput:
    """What an answer is decoded with.

    The emitted ids depend on target, prompt, sampling and seed alone (at T = 0 or with `verification` "coupled"),
    whatever `speculation` is.
    """

    target: LanguageModel
    committed: list[int]  # the prompt's target ids, at least one; each token's is appended as it is told
    seed: int
    speculation: Speculation | None = None
    # What may follow. It sees verified tokens only, so proposals are verified by equality whatever `speculation` says.
    constraint: Constraint | None = None
    stop: tuple[str, ...] = ()  # ends besides those of the request
    prefix: str = ""  # what the answer's text leaves out at its beginning
    markers: Mapping[int, bytes] = field(default_factory=dict)  # control tokens that the answer's text spells out
    inner: frozenset[int] = frozenset()  # tokens that end a part of an answer, not the answer
    written: int = 0  # so many of the prompt's last ids are the answer's own; positions count on from them
    cancelled: Callable[[], bool] = bool  # asked between passes; true ends the answer
    why_plain: Callable[[Statistics], str | None] = lambda statistics: None  # why nothing was drafted; for the end
