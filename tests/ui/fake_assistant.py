"""An assistant without models, for what sessions and pages do around one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

from omnidraft.decoding.request import AnswerRequest
from omnidraft.prompting.formats.chat_format import ChatFormat
from omnidraft.prompting.formats.open import open_reader
from omnidraft.settings.file import load_settings
from omnidraft.storage.paths import DataHome

_TEMPLATE = SimpleNamespace(
    opens_thoughts=False, thought_marks=None, thinking={}, note=None,
    reader=lambda tools: open_reader(ChatFormat(), tools)
)  # fmt: skip


class FakeAssistant:
    """Loads at once and says nothing; an answer lasts until `go_on` is set or it is stopped.

    loads: the targets that were loaded, in order; answered: the target of every answer.
    """

    def __init__(
        self, home: DataHome, profile: str = "default", *, learn: bool = False, named: str | None = None
    ) -> None:
        self.home = home
        self.named = named
        self.profile = home.profile(profile)
        self.settings, _ = load_settings(self.profile.settings)
        status = SimpleNamespace(state="idle", served=None)
        self.learner = SimpleNamespace(status=lambda: status, learned=SimpleNamespace(served_answers=list))
        self.engine = self.target = None
        self.loaded = SimpleNamespace(target_file=None, cache=None, pair=None, choice=None)
        self.loads: list[Path] = []
        self.answered: list[str] = []
        self.stops = self.capture = 0
        self.go_on = threading.Event()
        self.go_on.set()

    @property
    def target_name(self) -> str:
        return self.target.name if self.target else ""

    def load(self, target: Path, drafter: Path | None, model: object = None, templates: object = ()) -> list[str]:
        self.loads.append(target)
        self.loaded.target_file = target
        self.target = SimpleNamespace(name=target.stem, n_ctx=1024)
        model = SimpleNamespace(vocabulary=SimpleNamespace(encode=str.split, fingerprint="words"))
        self.engine = SimpleNamespace(
            target=SimpleNamespace(model=model, template=_TEMPLATE),
            why_plain=lambda draft: None,
            written_ids=lambda begun: [],
            room=lambda messages, sampling: 1000,
            memory=SimpleNamespace(pair_stats={}),
        )
        return []

    def unload(self) -> None:
        self.engine = self.target = self.loaded.target_file = None

    def answer(self, request: AnswerRequest, *, wait: bool = True) -> Iterator:
        self.answered.append(self.target.name)
        self.go_on.wait(20)
        yield from ()

    def resize_cache(self) -> bool:
        return False

    def stop(self) -> None:
        self.stops += 1
        self.go_on.set()

    def close(self) -> None:
        self.stop()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def by(profile: str) -> SimpleNamespace:
    """A page's request, from a browser that works in `profile`."""
    return SimpleNamespace(request=SimpleNamespace(cookies={"omnidraft_profile": profile}))


def clicked(**data: object) -> SimpleNamespace:
    """The event of a button that carries `data`, at a time of its own."""
    return SimpleNamespace(_data={"at": time.monotonic() * 1000, **data})


def shown(view, updates) -> dict:
    """The updates of a handler together, by the names of the components."""
    updates = [updates] if isinstance(updates, dict) else updates
    names = {getattr(view, name): name for name in view.__slots__ if name != "options"}
    return {names.get(part, part): value for update in updates for part, value in update.items()}
