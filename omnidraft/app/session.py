"""Server-side state of one profile: shared by all its browser tabs and outliving every one of them.

A session holds the profile's assistant and the answer being written. Pages hold nothing that a reload could lose.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from omnidraft.app.answer_job import AnswerJob
from omnidraft.app.assistant import Assistant
from omnidraft.app.changes import take_up, with_it
from omnidraft.app.models_list import choose_drafter, choose_target, same_file
from omnidraft.app.races import Races
from omnidraft.app.shown_chats import ShownChats
from omnidraft.app.tools.toolbox import Toolbox
from omnidraft.app.waiting import Job, StillAnswering, WorkList
from omnidraft.backends.gguf.file import usable_info
from omnidraft.chats.records import Message
from omnidraft.chats.recovery import open_chats, recover
from omnidraft.chats.store import LastDeleted
from omnidraft.errors import ModelError, NoRoom, OmniDraftError
from omnidraft.lab.drift_lab import DriftLab
from omnidraft.processes.progress import Newest, Progress, watched
from omnidraft.profiles.forget import Forgotten
from omnidraft.settings.config import AppSettings, DraftSettings, ModelSettings, changed
from omnidraft.settings.file import reset_settings, save_settings
from omnidraft.storage.files import real
from omnidraft.storage.paths import DataHome

log = logging.getLogger("omnidraft.ui")
J = TypeVar("J", bound=Job)


class Session:
    """One profile at work. Methods may be called from any thread.

    store: its conversations; damaged: what there is to say about those that cannot be read; deleted: those deleted
    last, for an undo; shown: the one its pages show; queue: its work, asked for by pages and clients;
    loading: how far the model that is being loaded has come; choices: of models, the last one perhaps still under
    way; drift: its drift runs; tools: what its models may ask to be called.
    """

    def __init__(
        self, home: DataHome, profile: str, target: str | None, drafter: str | None, workers: str | None = None,
        split: str | None = None,
    ) -> None:  # fmt: skip
        self.assistant = Assistant(home, profile, learn=True, named=target)
        self.profile = profile
        self.job: AnswerJob | None = None
        self.races = Races(self)
        self._open_chats()
        self.drift = DriftLab(home, self.assistant.profile)
        self.queue = WorkList(self._aside)
        self.tools = Toolbox(home.servers(profile))
        self.loading: Progress | None = None
        self.ending = False  # the program ends: nothing is loaded any more
        self.named_targets: dict[str, Path] = {}  # of conversations: to look through all folders takes a moment
        # chat, None for whichever comes next -> what the next answer should say about a change of models
        self.switched: dict[str | None, str] = {}
        self._picked: dict[Path, Path] = {}  # target -> the drafter that is expected to be quickest, see `pick_drafter`
        self.idle_unloads = 0  # how often the models were freed because nobody asked anything
        self.used = self.compared = time.monotonic()  # when the models were used last, and their drafters compared
        self._wanted = (target, drafter)
        self._spread = {"workers": workers, "split": split}  # as the command line has it, until the page changes it
        self._comparing: Progress | None = None  # a drafter that is loaded because it is expected to be quicker
        self._guest = False  # whether what is loaded was asked for by a client of the API, not by the profile
        self._lock = threading.RLock()
        self.choices = Newest()
        self._keeping = threading.RLock()  # of the settings, which change while a model is loaded, too

    def _open_chats(self) -> None:
        self.store, self.damaged = open_chats(self.assistant.profile.chats)
        self.deleted, self.shown = LastDeleted(self.store), ShownChats(self.store)

    def recover_chats(self) -> str:
        """Go on with what can be read of damaged conversations; what came of it, in a sentence. The damaged file stays
        under another name. StorageError if they are whole."""
        with self._alone():
            self.store.close()
            try:
                return recover(self.assistant.profile.chats)
            finally:
                self._open_chats()

    @property
    def settings(self) -> AppSettings:
        return self.assistant.settings

    @property
    def model_settings(self) -> ModelSettings:
        """How models are loaded: as the profile says, with the workers that the command line named."""
        given: dict[str, Any] = {name: value for name, value in self._spread.items() if value is not None}
        return replace(self.settings.model, **given)

    @property
    def loaded(self) -> Path | None:
        """The file of the target that is loaded."""
        return self.assistant.loaded.target_file

    @property
    def ready(self) -> bool:
        """Whether the profile's own target is loaded."""
        return self.loaded is not None and not self._guest

    def writing(self, chat: str | None) -> bool:
        """Whether an answer in this conversation is being written."""
        job = self.job
        return chat is not None and job is not None and not job.over and job.chat == chat

    def target_path(self) -> Path:
        """The profile's own target: the one that is loaded, or that the next question loads."""
        loaded = self.loaded
        return self._own_target() if loaded is None or self._guest else loaded

    @contextlib.contextmanager
    def turn(self, asked: Callable[[], Path | None] = lambda: None) -> Iterator[None]:
        """To begin an answer: until the end of the block nobody else loads a model or begins one.

        Loads the profile's target, or for one answer what is `asked` for once the turn has begun. ModelError if that
        fails, StillAnswering while an answer is being written.
        """
        with self._alone():
            if (guest := asked()) is None:
                if not self.ready:
                    self.load(self.target_path())
            elif not same_file(self.loaded, guest):
                self.load(guest)
                self._guest = not self._is_own(guest)
            yield

    def load(self, target: Path, progress: Progress | None = None) -> list[str]:
        """Make `target` the model that answers, with the profile's drafter. Raises ModelError; the old one stays."""
        with self._alone():
            self.loading = progress or Progress(target)
            try:
                if self.ending:
                    self.loading.call_off()
                with watched(self.loading):
                    notices = self._load(target, self._drafter_for(target))
            finally:
                self.loading = None
            self._guest = False
            self.used = time.monotonic()
            log.info("%s: loaded %s", self.profile, target.name)
            for notice in notices:
                log.warning("%s: %s", self.profile, notice)
            return notices

    def target_or_none(self) -> Path | None:
        """`target_path`; None if there is none."""
        with contextlib.suppress(OmniDraftError):
            return self.target_path()
        return None

    def drafter_path(self, target: Path | None = None) -> Path | None:
        """The drafter that drafts, or would, for this target or the one in use; None if there is none."""
        try:
            return self._drafter_for(target or self.loaded or self._own_target())
        except OmniDraftError:
            return None

    def choose_drafter(self, drafter: Path) -> str:
        """Draft with another model from now on; ModelError if the pair cannot be loaded, then nothing changed."""
        with self._alone():
            usable_info(drafter)  # without a target nothing else would refuse it before the next question
            if self.loaded is not None:
                self._load(self.loaded, drafter)
            self.apply(drafter=str(drafter))
            self._wanted = (self._wanted[0], None)
            return f"{drafter.stem} drafts from now on."

    def _load(self, target: Path, drafter: Path | None) -> list[str]:
        """What stands aside leaves its memory where it has to."""
        try:
            return self.assistant.load(target, drafter, self.model_settings)
        except NoRoom:
            if not self.races.free():
                raise
            return self.assistant.load(target, drafter, self.model_settings)

    def _drafter_for(self, target: Path) -> Path | None:
        picked = self._picked.get(real(target)) if self.picks_drafter else None
        return picked or choose_drafter(self._wanted[1], self.assistant.home, self.settings, target)

    @property
    def picks_drafter(self) -> bool:
        """Whether nobody chose a drafter."""
        return self._wanted[1] is None and self.settings.drafter is None

    def pick_drafter(self, drafter: Path) -> bool:
        """Draft with this one for the loaded target until somebody chooses another; whether that is so now. ModelError
        if it cannot be loaded, or somebody asks something meanwhile, then nothing changed."""
        with self._alone():
            if not self.picks_drafter or self.loaded is None:
                return False
            self._comparing = Progress(drafter)
            try:
                with watched(self._comparing):
                    self._load(self.loaded, drafter)
            finally:
                self._comparing = None
            self._picked[real(self.loaded)] = drafter
            return True

    def unload(self) -> None:
        """Free the models; the next question loads them again."""
        with self._alone():
            self.assistant.unload()
            self._guest = False

    def choose(self, target: Path, chosen: Callable[[], object] = lambda: None) -> list[str]:
        """Load `target`, unless it is loaded, and make it the profile's own, whatever the command line named; `chosen`
        is called before anybody else has a turn. Overtaken if another one is chosen meanwhile, which is loaded
        instead."""
        progress = self.choices.begin(target)
        with self._lock, self.choices.unless_overtaken(progress):
            notices = [] if same_file(self.loaded, target) else self.load(target, progress)
            self.apply(target=str(target))
            self._wanted, self._guest = (None, self._wanted[1]), False
            chosen()
            return notices

    def call_off(self) -> None:
        """Do not load what is being loaded; what was loaded before stays."""
        if (progress := self.loading) is not None:
            progress.call_off()

    def apply(self, **values: object) -> AppSettings:
        """Change settings by dotted name and keep them; SettingsError if a value is refused."""
        with self._keeping:
            settings = changed(self.assistant.settings, **values)
            save_settings(self.assistant.profile.settings, settings)
            self.assistant.settings = settings
            return settings

    def spread(self, workers: str | None) -> str:
        """Have these workers hold layers of the target from the next load on; SettingsError for what is no address."""
        with self._keeping:
            before = self.model_settings
            self.apply(**{"model.workers": workers or None, "model.split": None})
            self._spread = {}
            if self.model_settings == before or self.loaded is None:
                return "Kept."
            return "Kept; load the model again for it to take effect."

    def change(self, name: str, value: object) -> str:
        """Change one setting, live where that is possible; says in a sentence what happened."""
        self.apply(**with_it(self.settings, name, value))
        loading = self.loading is not None  # perhaps with what was set before
        resize_cache = self.assistant.resize_cache if loading or self.assistant.loaded.cache is not None else None
        return take_up(name, loading or self.loaded is not None, resize_cache)

    def reset_settings(self) -> str:
        """Put the defaults in place of all settings; says in a sentence where the old ones are."""
        with self._alone():
            with self._keeping:
                aside = reset_settings(self.assistant.profile.settings)
                self.assistant.settings = AppSettings()
                self.assistant.resize_cache()
            kept = f" What was set is kept in {aside.name} beside it." if aside is not None else ""
            return f"All settings are the defaults now.{kept} Load the model again for those it is loaded with."

    def clear_cache(self) -> str:
        """Empty the open n-gram cache. ModelError while an answer is using it or if there is none."""
        with self._alone():
            if (ngrams := self.assistant.loaded.cache) is None:
                raise ModelError("No model is loaded, so no cache is open; ask something first.")
            ngrams.clear()
            ngrams.commit()
            return "The cache was cleared."

    def start(self, job: J) -> J:
        """Inside a `turn` of a place in the `queue`: what that is for, which runs behind its beginning."""
        self.used = time.monotonic()
        self.queue.job = job
        if isinstance(job, AnswerJob):
            self.job = job
        return job

    def lent(self, target: Path) -> None:
        """A race has loaded this target here, which answers nobody else unless it is the profile's own."""
        self._guest = not self._is_own(target)

    @property
    def plain_rounds(self) -> list[float]:
        """Seconds of the plain rounds there were in the last minutes, with the models that are loaded."""
        pace = self.assistant.loaded.pace
        return pace.recent() if pace is not None else []

    def stop(self, chat: str | None) -> None:
        """End the answer in this conversation, or take back its question that waits; one that is written for anybody
        else goes on."""
        job = self.job
        if self.writing(chat) and job is not None:  # the API's answers belong to no conversation
            job.stop()
        elif chat is not None and (place := self.queue.of(chat)) is not None:
            self.queue.take_back(place, partial(self._taken_back, place.stored))

    def _taken_back(self, asked: Message | None) -> None:
        """Said in the place of its answer, unless another one is there or its question is not stored yet."""
        if asked is None or asked.role != "user" or asked.id in {m.id for m in self.store.path(asked.chat)[:-1]}:
            return
        told = {"error": "It was taken back before its turn."}
        self.store.append(asked.chat, "assistant", "", parent=asked.id, meta=told)

    def end_writing(self, chat: str) -> None:
        """End the answer that is being written in this conversation, if one is; its last words are stored then."""
        if (job := self.job) is not None and self.writing(chat):
            job.stop()
            job.join(10)

    def delete(self, chats: Sequence[str]) -> str:
        """Delete conversations; by what `deleted` takes it back. StorageError, and none is, if one is not there."""
        for chat in chats:
            self.store.get(chat)
        for chat in chats:
            self.end_writing(chat)
        mark = self.deleted.delete(chats)
        self.shown.drop_unsent({chat.id for chat in self.store.conversations()}.union(chats))
        return mark

    def forget(self, chat: str) -> Forgotten:
        """Delete it for good, with what was learned from it. StorageError if it is not there, Busy beside an answer."""
        self.store.get(chat)
        self.end_writing(chat)
        gone = self.assistant.forget(self.store, chat)
        self.shown.unsent.pop(chat, None)
        return gone

    def forget_everything(self) -> Forgotten:
        """Remove everything of the profile but its settings. Busy while an answer is being written."""
        gone = self.assistant.forget_everything(self.store)
        self.deleted.forget()
        self.shown.unsent.clear()
        return gone

    def prepare(self) -> None:
        """Load what is needed to answer. ModelError if that fails or an answer is being written."""
        with self.turn():
            pass

    def why_plain(self, draft: DraftSettings | None = None) -> str | None:
        """Why drafting is off under `draft`; None if it is on or nothing is loaded yet."""
        engine = self.assistant.engine
        return engine.why_plain(draft or self.settings.draft) if engine is not None else None

    def end(self) -> None:
        """What takes long comes to its end soon, and nothing more is loaded: the program is about to close this."""
        self.ending = True
        self.call_off()

    def close(self) -> None:
        self.end()
        self.queue.close()
        self.races.close()
        self.drift.close()
        self.tools.close()
        self.assistant.close()
        self.store.close()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else loads, answers or computes until the end of the block: long work stands still. StillAnswering
        while an answer is being written."""
        if (comparing := self._comparing) is not None:
            comparing.call_off()
        with self._lock, self._aside():
            if self.queue.busy:
                raise StillAnswering
            yield

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        """Long work stands still in the block."""
        with self.drift.standing_still(), self.races.aside():
            yield

    def _own_target(self) -> Path:
        return choose_target(self._wanted[0], self.assistant.home, self.assistant.settings)

    def _is_own(self, target: Path) -> bool:
        with contextlib.suppress(ModelError):
            return same_file(self._own_target(), target)
        return False
