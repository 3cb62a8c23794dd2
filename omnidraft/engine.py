"""One target, and perhaps a drafter beside it: messages in, typed events out.

The engine renders and tokenizes each model's prompt, keeps what the KV caches hold across turns, drops the oldest
turns when the context is full, and says why when it decodes plainly. It knows nothing of profiles, files or pages.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace

from omnidraft.backends.base import DraftModel, LanguageModel
from omnidraft.decoding.constraint import Constraint
from omnidraft.decoding.depth import make_policy
from omnidraft.decoding.drafting import Drafting
from omnidraft.decoding.events import Event, Notice, Statistics
from omnidraft.decoding.lookup import SuffixLookup
from omnidraft.decoding.loop import decode
from omnidraft.decoding.measuring import measure_pace
from omnidraft.decoding.pace import Pace
from omnidraft.decoding.request import AnswerRequest, DecodeInput
from omnidraft.decoding.speculation import Speculation
from omnidraft.errors import ModelError
from omnidraft.processes.contention import Apart, counts_as_ours
from omnidraft.prompting.grammar_state import GrammarState
from omnidraft.prompting.prompt import RawText, ends_without_space, prompt_ids, readable
from omnidraft.prompting.prompted_model import Continued, Message, PromptedDrafter, PromptedModel
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.settings.config import MOST_TOKENS, DraftSettings, SamplingSettings
from omnidraft.vocab import Translator

MEASURING_SECONDS = 0.5  # most time that measuring costs may add to the first answer, whose rounds tell the rest
TRIMMED = "The far ends of the text were left out: it no longer fits the model's context."
SWITCHED_OFF = "drafting is switched off"
_ONE_WIDTH = "passes of several rows round otherwise than plain ones here, and the text shall stay the same"
_DOES_NOT_PAY = "drafting does not pay with these two models on this machine"


@dataclass(slots=True)
class Memory:
    """What answers leave behind for later ones: the pace of the pair, and texts to copy from."""

    pace: Pace | None = None
    lookup: SuffixLookup = field(default_factory=SuffixLookup)


class Engine:
    """Answers conversations with one loaded target; `pair_drafter` adds or removes the drafter."""

    def __init__(self, target: LanguageModel, template: ChatTemplate) -> None:
        if isinstance(target, Apart):  # it computes in a process of its own
            counts_as_ours(target)
        self.target = PromptedModel(target, template, [])
        self.drafter: PromptedDrafter | None = None
        self.translator: Translator | None = None
        self.memory = Memory()
        self.forcing = True  # whether what a grammar forces is proposed; off only to measure what that brings
        self._cancelled = False

    def cancel(self) -> None:
        """End the running answer as soon as possible, also while the prompt is being read. Takes no lock."""
        self._cancelled = True
        self.target.model.abort()
        if self.drafter is not None:
            self.drafter.model.abort()

    def pair_drafter(self, drafter: DraftModel | None, template: ChatTemplate | None, translator: Translator | None):
        """Draft with `drafter` from now on, translating with `translator`; None decodes plainly."""
        self.drafter = PromptedDrafter(drafter, template, []) if drafter is not None and template is not None else None
        self.translator = translator
        self.memory = Memory()

    def forget(self) -> None:
        """Empty both KV caches, as if nothing had been said."""
        for prompted in (self.target, self.drafter):
            if prompted is not None:
                prompted.model.rewind(0)
                prompted.committed = []

    def why_plain(self, settings: DraftSettings) -> str | None:
        """The reason an answer under `settings` is decoded plainly; None if the drafter drafts."""
        if not settings.enabled:
            return SWITCHED_OFF
        if self.drafter is None:
            return "no drafter is loaded"
        if not self.target.model.can_rewind:
            return getattr(self.target.model, "cannot_rewind_reason", None) or "the target cannot rewind its cache"
        if not self.drafter.model.can_rewind:
            return "the drafter cannot rewind its cache"
        return _ONE_WIDTH if self._widest == 1 else None

    @property
    def _widest(self) -> int:
        """Rows of the target's widest pass that computes what plain decoding computes."""
        return getattr(self.target.model, "widest", self.target.model.n_ctx)

    def answer(self, request: AnswerRequest) -> Generator[Event, None, None]:
        """Events of one answer. Closing the generator stops it; both caches stay consistent.

        Raises ContextFull if even the last message does not fit the context, GrammarError if the grammar is not valid.
        """
        self._cancelled = False
        request = replace(request, sampling=self._limited(request.sampling))
        draft, sampling, continued, target = request.draft, request.sampling, request.continued, self.target
        template, written = request.told(target.template), self.written_ids(continued)
        constraint = GrammarState(request.grammar, target.model.vocabulary) if request.grammar is not None else None
        if not isinstance(request.prompt, RawText):
            messages, left_out = readable(request.prompt, target.model.name, target.most_pictures)
            request = replace(request, prompt=messages)
            if left_out:
                yield Notice(left_out)
        prompt, ids, dropped = target.prompt(request.prompt, template, sampling.longest, len(written))
        if dropped:
            yield Notice(_dropped_sentence(dropped))
        if isinstance(prompt, RawText) and prompt != request.prompt:
            yield Notice(TRIMMED)
        state, reason = self._drafting(prompt, request)
        pace = self._pace() if self._measures(draft) else None
        speculation = self._speculation(state, draft, pace, constraint)
        target.committed = ids + written
        self.memory.lookup.begin(target.committed)
        raw = isinstance(request.prompt, RawText)
        given = DecodeInput(
            target.model, target.committed, secrets.randbits(48) if sampling.seed is None else sampling.seed,
            speculation, constraint, () if raw else template.stop,
            # The template will write it before this answer itself.
            prefix="" if written or raw else template.answer_prefix,
            markers={} if raw else template.markers, inner=frozenset() if raw else template.inner,
            written=len(written), cancelled=lambda: self._cancelled,
            why_plain=lambda statistics: self._gave_up(draft, pace, statistics) or reason,
        )  # fmt: skip
        try:
            yield from decode(request, given)
        finally:  # both models know what they hold, however it ended
            if speculation is not None:
                speculation.finish()
            if state is not None and self.drafter is not None:
                self.drafter.committed = state.context

    def _speculation(
        self, state: Drafting | None, draft: DraftSettings, pace: Pace | None, constraint: Constraint | None
    ) -> Speculation | None:
        lookup = self.memory.lookup if draft.lookup and draft.mode in ("adaptive", "lookup") and pace else None
        forcing = constraint if self.forcing and draft.enabled and self.target.model.can_rewind else None
        if state is None and lookup is None and forcing is None:
            return None
        translator = self.translator if state is not None else None
        most = max(1, self._widest - 1)  # further proposals would need a pass of another kind
        return Speculation(state, make_policy(draft, pace, translator, most), lookup, forcing)

    def _drafting(
        self, prompt: Sequence[Message] | RawText, request: AnswerRequest
    ) -> tuple[Drafting | None, str | None]:
        """The drafter's side of an answer to what of its prompt fits, or None and the reason why it does not draft."""
        draft, begun = request.draft, request.continued.text if request.continued else ""
        if (reason := self.why_plain(draft)) is not None:
            return None, reason
        if draft.mode == "lookup":
            return None, "only copies of earlier text are proposed"
        prompted, translator = self.drafter, self.translator
        assert prompted is not None  # otherwise there was a reason
        assert translator is not None
        try:
            if isinstance(prompt, RawText):
                ids, virtual = prompt.prompt_ids(prompted.model.vocabulary), False
            else:
                template = request.told(prompted.template)
                ids = prompt_ids(template, prompted.model.vocabulary, prompt)
                virtual = not begun and ends_without_space(template.render(prompt))
            ids += prompted.answer_ids(begun, ())
        except ModelError as error:  # a conversation that only the drafter's template refuses is still answered
            return None, str(error)
        return Drafting(prompted.model, translator, ids, virtual_space=virtual, source=request.source), None

    def _gave_up(self, draft: DraftSettings, pace: Pace | None, statistics: Statistics) -> str | None:
        """Why the drafter was left out, as a sentence, where that is because it would not have paid."""
        if statistics.proposed or draft.mode != "adaptive" or self.drafter is None or pace is None:
            return None
        return None if pace.drafts else _gave_up_sentence(pace.lost)

    def _measures(self, draft: DraftSettings) -> bool:
        """Whether answers under `draft` go by measured cost (and can propose anything at all)."""
        return draft.enabled and draft.mode != "fixed" and self.target.model.can_rewind

    def _pace(self) -> Pace:
        """What is known of this pair; measured if nobody gave it."""
        if self.memory.pace is None:
            self.memory.pace = self.measured()
        return self.memory.pace

    def measured(self) -> Pace:
        """Measure what passes and draft steps take, for up to MEASURING_SECONDS; empties both KV caches."""
        drafter = self.drafter.model if self.drafter else None
        self.forget()
        return measure_pace(self.target.model, drafter, MEASURING_SECONDS)

    def written_ids(self, continued: Continued | None) -> list[int]:
        """The target's ids of the answer to go on with, as `answer` reads them; none for a new one."""
        return self.target.answer_ids(continued.text, continued.ids) if continued else []

    def room(self, messages: Sequence[Message], sampling: SamplingSettings) -> int:
        """How many more tokens fit into the context beside these messages and the room kept for an answer."""
        return self.target.room(messages, self._limited(sampling).longest)

    def _limited(self, sampling: SamplingSettings) -> SamplingSettings:
        """Thoughts take what they take: unless somebody says otherwise, only the context ends them."""
        if sampling.max_tokens is not None or not self.target.template.thinks:
            return sampling
        return replace(sampling, max_tokens=min(self.target.model.n_ctx, MOST_TOKENS))


def _gave_up_sentence(lost: float | None) -> str:
    """lost: share of its speed that drafting was measured to lose, None where that was not measured."""
    if lost is None:
        return _DOES_NOT_PAY
    return f"measured against plain rounds drafting lost {lost:.0%} of the speed; it is tried again from time to time"


def _dropped_sentence(dropped: int) -> str:
    what = "turn was" if dropped == 1 else f"{dropped} turns were"
    return f"The oldest {what} left out: the conversation no longer fits the model's context."
