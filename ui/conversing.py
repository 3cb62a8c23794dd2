"""Starts answers and keeps them: from a conversation in the store to a job, and from the job back into the store.

An answer is stored from its first second on, so a crash loses a second of it. Knows no page.
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace

from omnidraft.chats import Conversation, Message, answer_meta
from omnidraft.config import SamplingSettings
from omnidraft.decoding.events import Event, Round
from omnidraft.errors import ModelError
from ui.answer_job import AnswerJob
from ui.session import Session

SAVE_EVERY = 1.0  # seconds


def ask(session: Session, chat: str, text: str) -> AnswerJob:
    """Add the user's message and start its answer. Nothing is stored if the model cannot be loaded or is busy."""
    session.prepare()
    session.store.append(chat, "user", text)
    return answer(session, chat)


def edit(session: Session, chat: str, message: str, text: str) -> AnswerJob:
    """A new version of a user's message beside the old one, and its answer."""
    session.prepare()
    session.store.edit(message, text)
    return answer(session, chat)


def regenerate(session: Session, chat: str) -> AnswerJob:
    """Another answer to the last question, with a fresh seed, as a version beside the old one."""
    session.prepare()
    path = session.store.path(chat)
    if not path:
        raise ModelError("There is nothing to answer yet.")
    question = path[-1] if path[-1].role == "user" else session.store.message(path[-1].parent or "")
    return answer(session, chat, question=question, fresh=True)


def answer(session: Session, chat: str, question: Message | None = None, fresh: bool = False) -> AnswerJob:
    """Start the answer to `question`, by default the last message shown."""
    settings = session.store.get(chat)
    path = session.store.path(chat)
    if question is not None:
        path = path[: [m.id for m in path].index(question.id) + 1]
    sampling = sampling_of(session, settings)
    if fresh:
        sampling = replace(sampling, seed=None)
    draft = replace(session.settings.draft, enabled=session.settings.draft.enabled and settings.speculation)
    keeper = _Keeper(session, chat, path[-1])
    return session.answer(
        messages_of(settings, path),
        sampling,
        draft,
        chat=chat,
        watch=keeper.watch,
        finished=keeper.finish,
        message=keeper.message.id,
    )


def messages_of(settings: Conversation, path: list[Message]) -> list[dict[str, str]]:
    """What the engine reads: the system prompt, then the turns shown."""
    system = [{"role": "system", "content": settings.system}] if settings.system.strip() else []
    return system + [
        {"role": m.role, "content": m.content} for m in path if m.role in ("user", "assistant") and m.content
    ]


def sampling_of(session: Session, settings: Conversation) -> SamplingSettings:
    return settings.sampling or session.settings.sampling


def with_values(session: Session, settings: Conversation, values: dict[str, object]) -> SamplingSettings:
    """The conversation's sampling with some values replaced."""
    return replace(sampling_of(session, settings), **values)


class _Keeper:
    """Stores one answer while it grows and when it is done."""

    def __init__(self, session: Session, chat: str, question: Message) -> None:
        self.session = session
        self.target = session.target_name()
        note = session.switched.pop(chat, None)
        self.meta = answer_meta(target=self.target, note=note)
        self.message = session.store.append(
            chat, "assistant", "", parent=question.id, meta={**self.meta, "partial": True}
        )
        self._saved = time.monotonic()

    def watch(self, job: AnswerJob, event: Event) -> None:
        if not isinstance(event, Round):
            return
        self.session.baseline.observe(self.target, event)
        now = time.monotonic()
        if now - self._saved >= SAVE_EVERY:
            self._saved = now
            self.session.store.save_partial(self.message.id, job.text)

    def finish(self, job: AnswerJob) -> None:
        live = job.live
        statistics = asdict(live.statistics)
        statistics.pop("near_tie_positions", None)
        baseline = self.session.baseline.of(self.target)
        meta = answer_meta(
            statistics=statistics,
            origins=[origin for _, origin in live.pieces],
            target=self.target,
            seed=live.seed,
            finish_reason="failed" if job.error else live.finish_reason,
            pieces=[text for text, _ in live.pieces] or None,
            notices=live.notices or None,
            error=job.error,
            note=self.meta.get("note"),
            plain=baseline.tokens_per_second if baseline else None,
            disabled=live.disabled_reason,
        )
        self.session.store.save_partial(self.message.id, job.text, meta, final=True)
