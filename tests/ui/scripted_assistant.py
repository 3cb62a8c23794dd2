"""An assistant without models that says what it is told to, for what pages do with an answer's text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

import omnidraft.app.session
from omnidraft.app.sessions import Sessions
from omnidraft.decoding.events import Finished, Statistics, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.prompting.formats.open import open_reader
from omnidraft.storage.paths import find_data_home
from tests.prompting.reading import format_of_source
from tests.prompting.tool_templates import HERMES
from tests.ui.fake_assistant import FakeAssistant


class Bytes:
    """A vocabulary of bytes."""

    controls: ClassVar[dict[str, int]] = {}
    fingerprint = "bytes"

    def encode(self, text: str, **_: object) -> list[int]:
        return list(text.encode())


class ScriptedAssistant(FakeAssistant):
    """says: the texts of the answers to come; read: what each was asked with; begun: what each went on with. supports:
    whether its template knows tools. Every token is a character."""

    says: ClassVar[list[str]] = []
    supports: ClassVar[bool] = True
    reason: ClassVar[str] = "stop"

    def __init__(self, *given, **more) -> None:
        super().__init__(*given, **more)
        self.read: list[list[dict]] = []
        self.begun: list[str | None] = []

    def load(self, target: Path, drafter: Path | None, model: object = None, templates: object = ()) -> list[str]:
        told = super().load(target, drafter, model)
        form = format_of_source(HERMES)
        template = SimpleNamespace(
            source=HERMES, supports_tools=self.supports, opens_thoughts=False, thought_marks=None,
            thinking={}, note=None,
            form=form, reader=lambda tools: open_reader(form, tools),
        )  # fmt: skip
        model = SimpleNamespace(name=target.stem, n_ctx=1024, vocabulary=Bytes())
        self.engine = SimpleNamespace(
            target=SimpleNamespace(template=template, model=model),
            why_plain=lambda draft: None,
            room=lambda messages, longest: 1000,
            written_ids=lambda begun: list(begun.ids) if begun else [],
        )
        return told

    def answer(self, request: AnswerRequest, *, wait: bool = True) -> Iterator:
        self.read.append(list(request.prompt))
        self.begun.append(request.continued.text if request.continued else None)
        self.answered.append(self.target.name)
        self.go_on.wait(20)
        text = self.says.pop(0) if self.says else "All right."
        for at, character in enumerate(text):
            yield Token(0, character.encode(), character, "target", at)
        yield Finished(self.reason, Statistics(prompt_tokens=10, tokens=len(text)), seed=1)


def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Path) -> Iterator[Sessions]:
    """For a fixture: the sessions of an app whose assistants say what they are told to."""
    monkeypatch.setattr(omnidraft.app.session, "Assistant", ScriptedAssistant)
    monkeypatch.setattr(ScriptedAssistant, "says", [])
    made = Sessions(find_data_home(tmp_path / "home"), "ada", str(models / "tiny-target-a-f16.gguf"))
    made.home.profile("ada")
    yield made
    made.close()


def call(name: str, arguments: str = "{}") -> str:
    """A call as a model writes it."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
