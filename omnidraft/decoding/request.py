"""What an answer is asked for, and what the engine makes ready for `decode` besides. Holds, and decides nothing."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnidraft.backends.base import LanguageModel
from omnidraft.decoding.constraint import Constraint
from omnidraft.decoding.events import Statistics
from omnidraft.decoding.speculation import Speculation
from omnidraft.settings.config import DraftSettings, SamplingSettings

if TYPE_CHECKING:
    from omnidraft.prompting.grammar import Grammar
    from omnidraft.prompting.prompt import RawText
    from omnidraft.prompting.prompted_model import Continued, Message
    from omnidraft.prompting.templates import ChatTemplate


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """One answer as it is asked for: made where somebody asks, carried unchanged to `decode`.

    prompt: messages ({"role", "content"}, the last one the user's), or a raw text to go on with. continued: the answer
    to go on with; events are of what is new then, and with the seed it began with it becomes what it would have been
    uninterrupted. grammar: what the answer must follow. alternatives: with each token its log probability, and those
    of so many of the likeliest; None: none of them. source: the conversation's name, which the n-gram cache and
    learning note, so that it can be forgotten. capture: how many of the target's top ids each token carries along.
    template_options: what the target's chat template is told besides the messages. bias: what is added to the target's
    logits of these ids, before all else that sampling does. scores_prompt: the prompt's tokens have log probabilities
    too; writes: False: nothing is to be written, only the prompt is read.
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
    scores_prompt: bool = False
    writes: bool = True

    def told(self, template: ChatTemplate) -> ChatTemplate:
        """A model's template as it is to be rendered for this answer; it is told only what it knows of."""
        options = {} if self.sampling.thinking == "auto" else template.thinking.get(self.sampling.thinking, {})
        if self.template_options:
            options = {**options, **template.known(self.template_options)}
        return template.told(options) if options else template


@dataclass(frozen=True, slots=True)
class DecodeInput:
    """What an answer is decoded with.

    The emitted ids depend on target, prompt, sampling and seed alone, whatever `speculation` is.
    """

    target: LanguageModel
    committed: list[int]  # the prompt's target ids, at least one; each token's is appended as it is told
    seed: int
    speculation: Speculation | None = None
    constraint: Constraint | None = None  # what may follow; it sees verified tokens only
    stop: tuple[str, ...] = ()  # ends besides those of the request
    prefix: str = ""  # what the answer's text leaves out at its beginning
    markers: Mapping[int, bytes] = field(default_factory=dict)  # control tokens that the answer's text spells out
    inner: frozenset[int] = frozenset()  # tokens that end a part of an answer, not the answer
    written: int = 0  # so many of the prompt's last ids are the answer's own; positions count on from them
    cancelled: Callable[[], bool] = bool  # asked between passes; true ends the answer
    why_plain: Callable[[Statistics], str | None] = lambda statistics: None  # why nothing was drafted; for the end


# Bytes of verified tokens -> text that may be shown: whole characters, and nothing that may yet be a stop string.


class TextStream:
    """Feed token bytes, get showable text, but for a `prefix` it may begin with.

    `stopped` is true once a stop string was met (it is never shown). behind: the text that was there before, in which
    one may begin.
    """

    def __init__(self, stop: Sequence[str] = (), prefix: str = "", behind: str = "") -> None:
        self._prefix = prefix
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stop = [s for s in stop if s]
        self._beginnings = {s[0] for s in self._stop}
        self._held = ""
        self._before = self._unsettled(behind)  # of what was there, for as long as nothing but a beginning came
        self.stopped = False

    def feed(self, data: bytes) -> str:
        text = self._release(self._decoder.decode(data))
        if self._prefix and text:
            text, self._prefix = text.removeprefix(self._prefix), ""
        return text

    def finish(self, *, cut: bool = False) -> str:
        """What was held back, at the end of the answer. An unfinished character shows as U+FFFD; not where the answer
        was `cut`, for whoever continues it writes the whole character."""
        if self.stopped:
            return ""
        text = self._release(self._decoder.decode(b"", final=not cut))
        rest, self._held = self._held, ""
        return text if self.stopped else text + rest

    def _release(self, text: str) -> str:
        if self.stopped:
            return ""
        text, there = self._before + self._held + text, len(self._before)
        if self._beginnings.isdisjoint(text):  # as nearly always
            self._held = ""
            return text
        cut = min((at for s in self._stop if (at := text.find(s)) >= 0), default=-1)
        if cut >= 0:
            self.stopped, self._held = True, ""
            return text[there:cut]
        kept = len(text) - len(self._unsettled(text))
        if kept < there:  # still nothing but the beginning of one
            self._held = text[there:]
            return ""
        self._before, self._held = "", text[kept:]
        return text[there:kept]

    def _unsettled(self, text: str) -> str:
        """The end of a text that begins a stop string."""
        keep = max((self._overlap(text, s) for s in self._stop), default=0)
        return text[len(text) - keep :]

    def would_begin(self, text: str) -> bool:
        """Whether a stop string would begin or end with this as the next text."""
        whole = self._before + text
        return bool(self._unsettled(whole)) or any(s in whole for s in self._stop)

    @staticmethod
    def _overlap(text: str, stop: str) -> int:
        """Length of the longest end of `text` that begins `stop`."""
        return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)
