"""An assistant without models that says what it is told to, for what sessions and pages do around one."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

import omnidraft.app.session
from omnidraft.app.sessions import Sessions
from omnidraft.decoding.events import Finished, Statistics, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.prompting.formats.reader import AnswerReader
from omnidraft.settings.file import load_settings
from omnidraft.storage.paths import DataHome, find_data_home
from tests.prompting.reading import format_of_source
from tests.prompting.tool_templates import HERMES


class Bytes:
    """A vocabulary of bytes."""

    controls: ClassVar[dict[str, int]] = {}
    fingerprint = "bytes"

    def encode(self, text: str, **_: object) -> list[int]:
        return list(text.encode())


class FakeAssistant:
    """Loads at once; an answer lasts until `go_on` is set or it is stopped.

    loads: the targets that were loaded, in order; answered: the target of every answer; read: what each was asked with;
    begun: what each went on with. says: the texts of the answers to come, character by character ("All right." when
    there are no more of them), or None, with which answers are empty. supports: whether its template knows tools.
    """

    says: ClassVar[list[str] | None] = None
    supports: ClassVar[bool] = True
    reason: ClassVar[str] = "stop"

    def __init__(
        self, home: DataHome, profile: str = "default", *, learn: bool = False, named: str | None = None
    ) -> None:
        self.home = home
        self.named = named
        self.profile = home.profile(profile)
        self.settings, _ = load_settings(self.profile.settings)
        status = SimpleNamespace(state="idle", served=None)
        self.learner, self.learned = SimpleNamespace(status=lambda: status), SimpleNamespace(served_answers=list)
        self.engine = self.target = None
        self.loaded = SimpleNamespace(target_file=None, cache=None, pair=None, choice=None, replaceable=0, pace=None)
        self.loads: list[Path] = []
        self.answered: list[str] = []
        self.read: list[list[dict]] = []
        self.begun: list[str | None] = []
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
        model = SimpleNamespace(name=target.stem, n_ctx=1024, vocabulary=Bytes())
        self.engine = SimpleNamespace(
            target=SimpleNamespace(model=model, template=_template(self.supports)),
            why_plain=lambda draft: None,
            room=lambda messages, sampling: 1000,
            written_ids=lambda begun: list(begun.ids) if begun else [],
            memory=SimpleNamespace(pace=None),
        )
        return []

    def need_engine(self) -> SimpleNamespace:
        return self.engine

    def unload(self) -> None:
        self.engine = self.target = self.loaded.target_file = None

    def answer(self, request: AnswerRequest) -> Iterator:
        self.read.append(list(request.prompt))
        self.begun.append(request.continued.text if request.continued else None)
        self.answered.append(self.target.name)
        self.go_on.wait(20)
        if self.says is None:
            return
        text = self.says.pop(0) if self.says else "All right."
        for at, character in enumerate(text):
            yield Token(0, character.encode(), character, "target", at)
        yield Finished(self.reason, Statistics(prompt_tokens=10, tokens=len(text)), seed=1)

    def resize_cache(self) -> bool:
        return False

    def stop(self) -> None:
        self.stops += 1
        self.go_on.set()

    def close(self) -> None:
        self.stop()


@functools.cache
def _template(supports: bool) -> SimpleNamespace:
    form = format_of_source(HERMES)
    return SimpleNamespace(
        source=HERMES, supports_tools=supports, opens_thoughts=False, thought_marks=None, thinking={}, note=None,
        form=form, reader=lambda tools: AnswerReader(form, tools),
    )  # fmt: skip


def fake_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Path, says: list[str] | None = None
) -> Iterator[Sessions]:
    """For a fixture: the sessions of an app whose assistants are such ones, for "ada" first."""
    monkeypatch.setattr(omnidraft.app.session, "Assistant", FakeAssistant)
    monkeypatch.setattr(FakeAssistant, "says", says)
    made = Sessions(find_data_home(tmp_path / "home"), "ada", str(target))
    made.home.profile("ada")
    yield made
    made.close()


def call(name: str, arguments: str = "{}") -> str:
    """A call as a model writes it."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


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
