"""Real models at work for a test: loaded, asked, closed; nothing of it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omnidraft.app.assistant import Assistant
from omnidraft.decoding.events import Finished, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import find_data_home

PLAIN = DraftSettings(enabled=False)
ONE = ModelSettings(threads=1)


@contextmanager
def loaded(home: Path, target: Path, drafter: Path | None, settings: ModelSettings = ONE) -> Iterator[Assistant]:
    """An assistant with these models."""
    assistant = Assistant(find_data_home(home), ephemeral=True)
    try:
        assistant.load(target, drafter, settings, CacheSettings())
        yield assistant
    finally:
        assistant.close()


def answered(
    assistant: Assistant, asked: str | list[dict], sampling: SamplingSettings, draft: DraftSettings
) -> tuple[list[int], Finished]:
    """The ids of an answer, and how it ended."""
    messages = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    events = list(assistant.answer(AnswerRequest(messages, sampling, draft)))
    return [event.id for event in events if isinstance(event, Token)], events[-1]
