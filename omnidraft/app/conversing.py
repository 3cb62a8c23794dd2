"""Starts answers: from a conversation in the store to a job, whose answer `kept_answer` stores. Knows no page."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

from omnidraft.app import models_list
from omnidraft.app.answer_job import AnswerJob
from omnidraft.app.attached import as_read, fitted, refuse_unseen, seen_pictures
from omnidraft.app.catalog import suited
from omnidraft.app.kept_answer import KeptAnswer
from omnidraft.app.models_list import same_file
from omnidraft.app.session import Session, StillAnswering
from omnidraft.app.tool_use import UNSUPPORTED, ToolUse, decided
from omnidraft.app.waiting import Place
from omnidraft.backends.pictures import Picture
from omnidraft.chats import Conversation, Message, PictureFile, TextFile, files_meta
from omnidraft.chats.records import last_step, messages_with_steps, open_call, steps_meta
from omnidraft.chats.search import CLOSE, OPEN, said
from omnidraft.decoding.request import AnswerRequest
from omnidraft.errors import Damaged, ModelError, OmniDraftError, StorageError
from omnidraft.settings.config import DraftSettings, SamplingSettings

Answering = Callable[[Message], AnswerJob]  # inside the session's turn: what answers a question, or writes on an answer


def target_of(session: Session, chat: str) -> Path | None:
    """The model that a conversation chose and still can use; None: the profile's own answers."""
    if (name := session.store.get(chat).target) is None:
        return None
    path = session.named_targets.get(name)
    if path is None or not path.exists():
        found = models_list.find(models_list.targets(session.assistant), name)
        if found is None:
            return None
        path = session.named_targets[name] = found[1].path
    return path


def answering(session: Session, chat: str) -> Path | None:
    """The model that would answer in a conversation; None if there is none."""
    try:
        return target_of(session, chat) or session.choices.coming or session.target_path()
    except OmniDraftError:
        return None


def _turn(session: Session, chat: str) -> AbstractContextManager[None]:
    """The session's turn with the model of the conversation: the one it has by then."""
    return session.turn(partial(target_of, session, chat))


def is_ready(session: Session, chat: str) -> bool:
    """Whether the conversation's next answer needs no model to be loaded."""
    target = target_of(session, chat)
    if target is None:
        return session.ready and session.choices.coming is None
    return same_file(session.loaded, target)


def ask(
    session: Session, chat: str, text: str, files: Sequence[TextFile] = (), pictures: Sequence[PictureFile] = (), *,
    instead_of: str | None = None,
) -> AnswerJob | None:  # fmt: skip
    """Add the user's message, or a new version of one beside it, and start its answer.

    Nothing is kept if the model cannot be loaded, is busy or cannot see the pictures, or nothing of the files fits. A
    message without files waits for its turn where another answer is being written, or others wait
    longer, and is taken back while its model is loaded (None).
    """
    if session.damaged:  # nothing that is said could be kept
        raise Damaged(session.damaged)
    store = (
        partial(session.store.append, chat, "user") if instead_of is None else partial(session.store.edit, instead_of)
    )

    def answer(question: Message) -> AnswerJob:
        refuse_unseen(session, pictures)
        return _new_answer(session, chat, question)

    if not files:
        begin = _begins(session, chat, answer, new=True)
        return session.queue.enter(begin, chat, partial(store, text, pictures=pictures)).outcome()

    def fitting(_: Place) -> AnswerJob:
        with _turn(session, chat):
            refuse_unseen(session, pictures)
            fit = fitted(session, session.store.get(chat), text, files)
            question = store(text, meta=files_meta(fit), pictures=pictures)
            return session.start(_new_answer(session, chat, question))

    with session.shown.asked(chat):
        return session.queue.enter(fitting, waits=False).outcome()


def _begins(session: Session, chat: str, answer: Answering, new: bool = False) -> Callable[[Place], AnswerJob | None]:
    """Begins what `answer` makes of the message that the place stored; None if it is taken back while its model loads.

    What prevents it is told in the answer's place if it had to wait; else it is raised, and a `new` message goes.
    """

    def begin(place: Place) -> AnswerJob | None:
        try:
            with _turn(session, chat):
                if not session.queue.take_up(place):  # taken back while the model was loaded
                    return None
                session.store.select(place.stored.id)  # meanwhile, another version may have been shown
                return session.start(answer(place.stored))
        except OmniDraftError as error:
            with suppress(StorageError):  # the conversation was deleted
                untold = session.queue.take_up(place)
                if untold and not place.first:
                    _tell(session, chat, place.stored, error)
                elif untold and new:
                    session.store.delete_turn(place.stored.id)
            raise

    return begin


def _tell(session: Session, chat: str, message: Message, error: OmniDraftError) -> None:
    """Why there is no answer, in its place."""
    if message.role == "user":
        session.store.append(chat, "assistant", "", parent=message.id, meta={"error": str(error)})
    else:
        meta = {**message.meta, "error": str(error)}
        session.store.save_partial(message.id, message.content, meta, final=True)


def edit(session: Session, chat: str, message: str, text: str, *sent: Any) -> AnswerJob | None:
    """A new version of a user's message beside the old one, and its answer; the rest as `ask` takes it."""
    _refuse_while_written(session, chat)
    return ask(session, chat, text, *sent, instead_of=message)


def regenerate(session: Session, chat: str) -> AnswerJob | None:
    """Another answer to the last question, with a fresh seed, as a version beside the old one; it waits as `ask`."""
    _refuse_while_written(session, chat)
    begin = _begins(session, chat, partial(_new_answer, session, chat, fresh=True))
    return session.queue.enter(begin, chat, partial(_last_question, session, chat)).outcome()


def _last_question(session: Session, chat: str) -> Message:
    path = session.store.path(chat)
    if not path:
        raise ModelError("There is nothing to answer yet.")
    return path[-1] if path[-1].role == "user" else session.store.message(path[-1].parent or "")


def _refuse_while_written(session: Session, chat: str) -> None:
    if session.writing(chat):
        raise StillAnswering


def refused(
    session: Session, chat: str, text: str, files: Sequence[TextFile], pictures: Sequence[PictureFile],
    above: str | None, error: OmniDraftError,
) -> None:  # fmt: skip
    """Keep a question that could not be asked, with the reason in its answer's place: its page shows something else by
    now and cannot put it back into the box. above: the message it is a new version of."""
    if session.writing(chat) or chat in session.queue:
        return  # another question of the conversation is asked
    if above is None:
        session.store.append(chat, "user", text, meta=files_meta(files), pictures=pictures)
    else:
        session.store.edit(above, text, files_meta(files), pictures)
    session.store.append(chat, "assistant", "", meta={"error": str(error)})


def resume(session: Session, chat: str) -> AnswerJob | None:
    """Go on with the last answer where it stopped, in the same message and with the seed it began with; it waits as
    `ask`."""

    def more(answer: Message) -> AnswerJob:
        return _more_of(session, session.store.get(chat), session.store.path(chat)[:-1], answer)

    _refuse_while_written(session, chat)
    return session.queue.enter(_begins(session, chat, more), chat, partial(_last_answer, session, chat)).outcome()


def _last_answer(session: Session, chat: str) -> Message:
    path = session.store.path(chat)
    if not path or path[-1].role != "assistant":
        raise ModelError("There is no answer to go on with.")
    if open_call(path[-1].steps) is not None:
        raise ModelError("Decide about the call first.")
    return path[-1]


def decide(session: Session, chat: str, message: str, call: str, choice: str) -> AnswerJob:
    """What the user says to a call that the last answer asks for; the answer goes on when all are decided about."""

    def begin(_: Place) -> AnswerJob:
        with _turn(session, chat):
            path, settings = session.store.path(chat), session.store.get(chat)
            if not path or path[-1].id != message:
                raise ModelError("This call was decided about already.")
            steps, allowed, granted = decided(path[-1], call, choice, settings.tools or ())
            if allowed != list(settings.tools or ()):
                settings = session.store.update(chat, tools=allowed)
            meta = {**path[-1].meta, "steps": steps_meta(steps)}
            session.store.save_partial(message, path[-1].content, meta, final=True)
            return session.start(_more_of(session, settings, path[:-1], session.store.message(message), granted))

    return session.queue.enter(begin, waits=False).outcome()


def _new_answer(session: Session, chat: str, question: Message, fresh: bool = False) -> AnswerJob:
    """The answer to `question`, one of those shown; inside the session's turn."""
    settings = session.store.get(chat)
    path = session.store.path(chat)
    path = path[: [m.id for m in path].index(question.id) + 1]
    sampling = sampling_of(session, settings)
    if fresh or sampling.seed is None:
        # Drawn here and stored at once, so that an answer cut off by a crash can be continued with it.
        sampling = replace(sampling, seed=secrets.randbits(48))
    keeper = KeptAnswer.of_new(session, path[-1], sampling)
    return _job(session, settings, path, sampling, keeper)


def _more_of(
    session: Session, settings: Conversation, path: list[Message], last: Message, granted: str | None = None
) -> AnswerJob:
    """An answer from where it stopped, or behind the functions it asked for; `granted` is the call allowed just now."""
    sampling = sampling_of(session, settings)
    if (seed := last.meta.get("seed")) is not None:
        sampling = replace(sampling, seed=seed)
    return _job(session, settings, path, sampling, KeptAnswer.of_begun(session, last), granted)


def _job(
    session: Session, settings: Conversation, path: list[Message], sampling: SamplingSettings, keeper: KeptAnswer,
    granted: str | None = None,
) -> AnswerJob:  # fmt: skip
    messages = messages_of(settings, path, seen_pictures(session, path))
    own = session.assistant.need_engine().target.template
    use: ToolUse | None = None
    template = AnswerRequest(messages, sampling).told(own)
    if (offers := settings.tools is not None and template.supports_tools) or granted is not None:
        files = [file for message in path for file in message.files]
        allowed = [*(settings.tools or ()), *([granted] if granted else [])]
        use = ToolUse(session.tools, template, messages, keeper.own_before(), files, allowed, offers)
    text, steps = keeper.message.content, keeper.message.steps
    begun = messages_with_steps(text[: last_step(steps)], steps, keeper.message.own_ids)
    request = AnswerRequest(
        [*messages, *begun], sampling, draft_of(session, settings), continued=keeper.continued, source=settings.id,
        capture=session.assistant.capture,
    )  # fmt: skip
    job = AnswerJob(session.assistant, request, message=keeper.message, tools=use, listener=keeper)
    if settings.tools is not None and not offers:
        job.live.notices.append(UNSUPPORTED.format(session.assistant.target_name))
    if own.note and not any(m.role == "assistant" for m in path):
        job.live.notices.append(own.note)  # once in a conversation
    return job


def messages_of(
    settings: Conversation, path: list[Message], seen: Mapping[str, Picture] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """What the engine reads: the system prompt, then the turns shown with their files, if they could be answered.

    seen: the pictures that are there, by hash."""
    system = [{"role": "system", "content": settings.system}] if settings.system.strip() else []
    without = unanswered(path)
    said = [m for m in path if m.prompt or m.steps or m.pictures]
    turns = [m for m in said if m.role in ("user", "assistant") and m.id not in without]
    return system + [message for turn in turns for message in _read(turn, seen)]


def _read(turn: Message, seen: Mapping[str, Picture]) -> list[dict[str, Any]]:
    """A turn as a model reads it: one message, or several where functions were called."""
    if turn.role != "assistant":
        return [as_read(turn, seen)]
    begin, *rest = turn.meta.get("marks") or (OPEN, CLOSE, "")
    if turn.meta.get("thinks") and not turn.content.lstrip().startswith(OPEN):
        begin = ""  # the prompt did
    return messages_with_steps(turn.content, turn.steps, turn.own_ids, lambda text: said(text, [begin, *rest]))


def unanswered(path: Sequence[Message]) -> set[str]:
    """The messages nothing could be answered to, as one too long for the context: they would push out others."""
    failed = [(asked, said) for asked, said in pairwise(path) if said.meta.get("error") and not said.content]
    return {asked.id for asked, _ in failed if asked.role == "user"}


def sampling_of(session: Session, settings: Conversation) -> SamplingSettings:
    return settings.sampling or suited(session.settings.sampling, answering(session, settings.id))


def thinking_words(session: Session, settings: Conversation) -> list[str]:
    """What the conversation's model can be told about thinking; nothing while it is not loaded."""
    engine = session.assistant.engine
    return list(engine.target.template.thinking) if engine is not None and is_ready(session, settings.id) else []


def draft_of(session: Session, settings: Conversation) -> DraftSettings:
    """The profile's way of drafting, switched off where the conversation says so."""
    draft = session.settings.draft
    return replace(draft, enabled=draft.enabled and settings.speculation)
