"""What is loaded: a target in its engine and, beside it, the drafter with all that belongs to the two.

The one owner of drafter, translator, n-gram cache, what the drafter drafts with and what was measured of the pair. It
opens, exchanges and closes; it knows nothing of who may do so when, of answers, or of when anything is learned.
"""

from __future__ import annotations

from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from omnidraft.app.kept_targets import KeptTargets, Opened
from omnidraft.app.room import crowds_a_card, needs
from omnidraft.app.speeds import SpeedStore, speed_key
from omnidraft.backends.base import LanguageModel
from omnidraft.backends.discovery import projector_for
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.llama import widths
from omnidraft.backends.llama.model import LlamaDrafter
from omnidraft.backends.opening import open_target
from omnidraft.decoding.lookup import SuffixLookup
from omnidraft.decoding.measuring import step_seconds
from omnidraft.decoding.pace import Pace
from omnidraft.engine import Engine, Memory
from omnidraft.errors import NoRoom
from omnidraft.learning.adapters.serving import (
    AUTO,
    MERGED,
    NO_ADAPTER,
    Adapters,
    Choice,
    apply_adapter,
    open_choice,
)
from omnidraft.learning.material.record import Pairing
from omnidraft.processes.progress import settle, watched
from omnidraft.prompting.templates import ChatTemplate
from omnidraft.settings.config import CacheSettings, ModelSettings, named_file
from omnidraft.storage.database import derived
from omnidraft.storage.files import mark, real
from omnidraft.storage.paths import ProfilePaths
from omnidraft.storage.trial import TRIALS
from omnidraft.vocab import PairMap, Translator, Vocabulary
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary
from omnidraft.vocab.ngram_cache import NgramCache


@dataclass(frozen=True)
class LoadRequest:
    """What somebody wants to be loaded. drafter: None decodes plainly; adapter: a GGUF LoRA, AUTO (what was learned) or
    NO_ADAPTER; templates, projectors: see `AppSettings`; projector: what the target must see pictures through, None:
    what those name, else what lies beside it."""

    target: Path
    drafter: Path | None
    model: ModelSettings
    cache: CacheSettings
    adapter: Path | str = NO_ADAPTER
    templates: tuple[str, ...] = ()
    projector: Path | None = None
    projectors: tuple[str, ...] = ()

    def same_target(self, other: LoadRequest) -> bool:
        """Whether both want the same target, loaded in the same way."""
        return replace(self, drafter=other.drafter, cache=other.cache, adapter=other.adapter) == other

    def opened(self) -> Opened:
        """What its target is opened from."""
        template = named_file(self.templates, self.target.name)
        sees = self.projector or (None if self.target.is_dir() else projector_for(self.target, self.projectors))
        files = [self.target, *([Path(template)] if template else []), *([sees] if sees else [])]
        marks = tuple(mark(file) if file.exists() else "" for file in files)
        return Opened(marks, self.model, must_see=self.projector is not None)

    def template(self, info: ModelInfo, vocabulary: Vocabulary) -> ChatTemplate:
        """A model's chat template: its own, or what its owner named instead."""
        return ChatTemplate.from_model(info, vocabulary, named_file(self.templates, info.path.name))


@dataclass
class Replacement:
    """Another choice for the drafter that drafts, made ready beside it. opened: its file, None if the drafter can take
    it up as it is; step: seconds of one of its steps."""

    instead_of: Choice
    choice: Choice
    opened: LlamaDrafter | None = None
    step: float | None = None

    def close(self) -> None:
        """Release what was not taken up, or was replaced."""
        if self.opened is not None:
            self.opened.close()
            self.opened = None


class LoadedPair:
    """engine, pair, cache, choice: None while nothing (or no drafter, or no cache) is loaded; asked: what led to it.

    Its user sees to it that only one thread at a time loads, exchanges, answers or closes.
    """

    def __init__(self, profile: ProfilePaths, caches: Path, *, ephemeral: bool = False) -> None:
        self.engine: Engine | None = None
        self.pair: PairMap | None = None
        self.cache: NgramCache | None = None
        self.choice: Choice | None = None
        self.asked: LoadRequest | None = None
        self.adapters = Adapters(profile.adapters, profile.root / MERGED)
        TRIALS.keep_in(caches)
        widths.KNOWN.keep_in(caches)
        for folder in (profile.adapters, profile.root / MERGED):  # what the trainer wrote, checked by sums
            TRIALS.trust(folder)
        self._speeds = SpeedStore(caches)
        self._speed_key: str | None = None  # of the pair as it drafts now; None where one of its files is gone
        self._profile, self._caches, self._ephemeral = profile, caches, ephemeral
        self._opened_with: tuple[Path, ModelSettings] | None = None  # the drafter's file and settings
        self._opened: Opened | None = None  # the target
        self._kept = KeptTargets()
        self._told: list[str] = []  # about files that were begun anew

    @property
    def target(self) -> LanguageModel | None:
        return self.engine.target.model if self.engine is not None else None

    @property
    def pace(self) -> Pace | None:
        """What is known of how fast the pair is; None before it was measured."""
        return self.engine.memory.pace if self.engine is not None else None

    @property
    def replaceable(self) -> int:
        """Bytes of the target, and of the one that answered before: both would make room for another one."""
        target, asked = self.target, self.asked
        answers = needs(target.info, asked.model) if target is not None and asked is not None else 0
        return (answers or 0) + self._kept.beside

    @property
    def target_file(self) -> Path | None:
        return self.asked.target if self.asked else None

    @property
    def drafter(self) -> LlamaDrafter | None:
        prompted = self.engine.drafter if self.engine is not None else None
        return cast(LlamaDrafter, prompted.model) if prompted is not None else None

    @property
    def pairing(self) -> Pairing | None:
        """What learning is told of; None where nothing is to be learned."""
        engine, pair, choice = self.engine, self.pair, self.choice
        if engine is None or engine.drafter is None or pair is None or choice is None:
            return None
        if self.asked is None or self.asked.adapter != AUTO:
            return None
        return Pairing(pair, engine.drafter.template, engine.target.model.name, choice)

    def load(self, asked: LoadRequest) -> list[str]:
        """Load what is asked for. Returns sentences worth showing. What is loaded stays if anything new cannot be.

        Where the memory cannot hold both, what is loaded goes first, and comes back if the new one fails.
        """
        if self.engine is not None and self.asked is not None and asked.same_target(self.asked):
            try:
                self._exchange_drafter(self.engine, asked, self._opened)
            except NoRoom:
                if not self._kept.make_room():
                    raise
                self._exchange_drafter(self.engine, asked, self._opened)
            return list(self.choice.notices) if self.choice is not None else []
        if self.asked is not None and crowds_a_card(asked.target, asked.model):
            return self._load_instead(self.asked, asked)
        try:
            return self._load(asked)
        except NoRoom:
            if self.asked is None:
                raise
        return self._load_instead(self.asked, asked)

    def _exchange_drafter(self, engine: Engine, asked: LoadRequest, opened: Opened | None) -> None:
        """Pair a target that is loaded, from what was `opened`, with another drafter: what it has read stays read."""
        before = engine.memory
        self.keep_measured()
        self._pair(engine, asked)
        engine.memory = Memory(lookup=before.lookup)
        self._answer_with(engine, asked, opened)
        if before.pace is not None and engine.memory.pace is None:
            step = before.pace.step if self.drafter is None else step_seconds(self.drafter)
            engine.memory.pace = before.pace.with_drafter(step)

    def _load_instead(self, before: LoadRequest, asked: LoadRequest) -> list[str]:
        self.close()
        try:
            return self._load(asked)
        except BaseException:
            with watched(None):  # whoever called it off wants this one back
                self._load(before)
            raise

    def _load(self, asked: LoadRequest) -> list[str]:
        opened = asked.opened()
        kept = self._kept.take(opened)
        engine = kept or self._open(asked)
        try:
            if kept is not None:
                self._exchange_drafter(kept, asked, opened)
                return self._told_of(kept)
            self.keep_measured()
            self._pair(engine, asked)
        except BaseException:
            if engine is not self.engine:
                engine.target.model.close()
            raise
        self._answer_with(engine, asked, opened)
        if (asked.drafter is not None or self._kept.has_read(opened)) and engine.memory.pace is None:
            engine.memory.pace = engine.measured()  # empties the caches
        self._kept.put_back(opened, engine.target)
        return self._told_of(engine)

    def _open(self, asked: LoadRequest) -> Engine:
        target = open_target(asked.target, asked.model, self.target, asked.projector, asked.projectors)
        try:
            return Engine(target, asked.template(target.info, target.vocabulary))
        except BaseException:
            target.close()
            raise

    def _answer_with(self, engine: Engine, asked: LoadRequest, opened: Opened | None) -> None:
        """`engine`, which is paired as asked for, answers from now on; another one that did is kept."""
        before, was = self.engine, self._opened
        self.engine, self.asked, self._opened = engine, asked, opened
        if before is not None and before is not engine and was is not None and opened is not None:
            self._kept.put(was, before, opened)
        self._recall_speed(engine, asked)

    def _told_of(self, engine: Engine) -> list[str]:
        note = engine.target.template.note
        learned = self.choice.notices if self.choice is not None else ()
        told, self._told = self._told, []
        notices = getattr(engine.target.model, "notices", ())
        return [*notices, *([note] if note else []), *learned, *told]

    def _pair(self, engine: Engine, asked: LoadRequest) -> None:
        """Give `engine` its drafter. What was loaded before goes only when nothing can fail any more."""
        if asked.drafter is None:
            settle()
            self._release_drafter()
            engine.pair_drafter(None, None, None)
            return
        known = self.pair.drafter if self.pair is not None else None
        same = self.choice is not None and self.choice.drafter == asked.drafter
        with ExitStack() as undo:
            vocabulary = known if same and known is not None else read_gguf_vocabulary(asked.drafter)
            pair = PairMap.build(vocabulary, engine.target.model.vocabulary, self._caches)
            choice = self.choose(asked.drafter, pair, asked.adapter)
            drafter = self.drafter if self._opened_with == (choice.file, asked.model) else None
            if drafter is None:
                drafter, choice = open_choice(choice, asked.model, vocabulary)
                undo.push(drafter)
            template = asked.template(drafter.info, vocabulary)
            ngrams = self._open_cache(pair, asked.cache)
            if ngrams is not None:
                undo.callback(ngrams.close)
            choice = apply_adapter(drafter, choice)
            settle()
            undo.pop_all()
        self._release_drafter(but=drafter)
        self._opened_with, self.choice = (choice.file, asked.model), choice
        self.pair, self.cache = pair, ngrams
        engine.pair_drafter(drafter, template, Translator(pair, ngrams))

    def choose(self, drafter: Path, pair: PairMap, adapter: Path | str) -> Choice:
        """What a drafter is to draft with for this target's vocabulary."""
        if adapter == AUTO:
            return self.adapters.choose(drafter, pair.target.fingerprint)
        if adapter == NO_ADAPTER:
            return Choice(drafter)
        return Choice(drafter, "file", adapter=Path(adapter))

    def _open_cache(self, pair: PairMap, settings: CacheSettings) -> NgramCache | None:
        if not settings.enabled:
            return None
        if self.cache is not None:
            self.cache.commit()  # it may be the same table
        path = None if self._ephemeral else self._profile.ngrams
        cache, told = derived(self._profile.ngrams, lambda: NgramCache.open(path, pair, settings))
        self._told += told
        return cache

    def prepare(self) -> Replacement | None:
        """What the store says now, made ready while the present drafter goes on; None if that drafts already."""
        pair, served, opened_with = self.pair, self.choice, self._opened_with
        if pair is None or served is None or opened_with is None:
            return None
        choice = self.choose(served.drafter, pair, AUTO)
        if choice.serves_like(served) and choice.file == opened_with[0]:
            return None
        self.keep_measured()
        return self._made(choice)

    def _made(self, choice: Choice) -> Replacement:
        """`choice`, made ready beside what drafts now."""
        served, pair, opened_with = self.choice, self.pair, self._opened_with
        assert served is not None
        assert pair is not None
        assert opened_with is not None
        if choice.file == opened_with[0]:
            return Replacement(served, choice)
        opened, choice = open_choice(choice, opened_with[1], pair.drafter)
        return Replacement(served, choice, opened, step_seconds(opened))

    def take_up(self, made: Replacement) -> bool:
        """Draft with it from now on; False if something else has been loaded since. The drafter that is no longer
        needed is `made`'s then."""
        engine, asked, held = self.engine, self.asked, self.drafter
        if self.choice is not made.instead_of or engine is None or asked is None or held is None:
            return False
        assert engine.drafter is not None
        drafter = made.opened or held
        self.choice = choice = apply_adapter(drafter, made.choice)
        if made.opened is not None:
            engine.drafter.model, made.opened = made.opened, held
            self._opened_with = (choice.file, asked.model)
        engine.drafter.committed = []
        costs_differ = choice.cost_key != made.instead_of.cost_key
        if costs_differ:
            self._recall_speed(engine, asked)
        if engine.memory.pace is not None:
            engine.memory.pace.another_adapter((made.step or step_seconds(drafter, 3)) if costs_differ else None)
        return True

    def _exchange(self, choice: Choice) -> None:
        """Draft with it at once, whatever file it takes."""
        with closing(self._made(choice)) as made:
            self.take_up(made)

    def _recall_speed(self, engine: Engine, asked: LoadRequest) -> None:
        """What earlier sessions measured of this pair, if they did; what each profile's drafter learned is accepted at
        its own rate."""
        mine = f"{real(self._profile.root)}/{(self.choice.cost_key if self.choice else None) or '-'}"
        self._speed_key = None
        with suppress(OSError):
            self._speed_key = speed_key(asked.target, asked.drafter, asked.model, mine)
            engine.memory.pace = self._speeds.load(self._speed_key) or engine.memory.pace

    def keep_measured(self) -> None:
        """Keep what was measured of the pair, and how often its drafts were accepted."""
        if self.pace is not None and self._speed_key is not None and not self._ephemeral:
            self._speeds.save(self._speed_key, self.pace)

    def let_go(self) -> None:
        """Hold nothing of what was said or learned, in files or memory; `go_on` takes up what the files say then."""
        self._close_cache()
        self._kept.forget()
        self.keep_measured()
        if self.choice is not None and self.choice.version is not None:
            self._exchange(Choice(self.choice.drafter))

    def go_on(self, cache: CacheSettings | None) -> None:
        """Behind `let_go`. cache: settings of the n-gram cache there was, None if there was none."""
        if self.engine is not None:
            self.engine.forget()
            self.engine.memory.lookup = SuffixLookup()
        if self.engine is None or self.pair is None:
            return
        self.cache = self._open_cache(self.pair, cache) if cache is not None else None
        self.engine.translator = Translator(self.pair, self.cache)
        if self.asked is not None and self.choice is not None and self.asked.adapter == AUTO:
            self._exchange(self.choose(self.choice.drafter, self.pair, AUTO))

    def close(self) -> None:
        """Free the models and close the cache. Harmless when repeated."""
        self.keep_measured()
        self._kept.forget()
        self._release_drafter()
        if self.engine is not None:
            self.engine.target.model.close()
        self.engine = self.asked = None

    def _release_drafter(self, but: LlamaDrafter | None = None) -> None:
        """Close the drafter, unless it is the one that stays, and all that belongs to it."""
        if (drafter := self.drafter) is not None and drafter is not but:
            drafter.close()
        self._close_cache()
        self.choice = self.pair = self._opened_with = None

    def _close_cache(self) -> None:
        if self.cache is not None:
            self.cache.close()
            self.cache = None
