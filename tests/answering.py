"""Real models at work for a test: loaded, asked, closed; nothing of it is kept."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from omnidraft.app.assistant import Assistant
from omnidraft.decoding.events import Finished, Token
from omnidraft.decoding.request import AnswerRequest
from omnidraft.settings.config import CacheSettings, DraftSettings, ModelSettings, SamplingSettings
from omnidraft.storage.paths import find_data_home

PLAIN = DraftSettings(enabled=False)
ONE = ModelSettings(threads=1)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def ids_of(events: Iterable[object]) -> list[int]:
    """Those of an answer."""
    return [event.id for event in events if isinstance(event, Token)]


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
    messages = [user(asked)] if isinstance(asked, str) else asked
    events = list(assistant.answer(AnswerRequest(messages, sampling, draft)))
    return ids_of(events), events[-1]


def same_with_drafter(assistant: Assistant, asked: Sequence[str], sampling: SamplingSettings) -> list[Finished]:
    """Each text must be what it is without drafter; how the answers ended that were drafted to a fixed length."""
    plain = [answered(assistant, text, sampling, PLAIN)[0] for text in asked]
    fixed, adaptive = (
        [answered(assistant, text, sampling, draft) for text in asked]
        for draft in (DraftSettings(mode="fixed", length=4), DraftSettings())
    )
    assert [ids for ids, _ in fixed] == plain
    assert [ids for ids, _ in adaptive] == plain
    return [end for _, end in fixed]
