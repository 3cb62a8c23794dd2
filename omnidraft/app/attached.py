"""What goes to a model beside what is said: text files, of which parts are kept where they are too long for its
context, and pictures.

Knows no page; what is kept of a file is what is stored with the message and what the model reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from omnidraft.app.passages import chosen
from omnidraft.app.room import Room, needs
from omnidraft.app.session import Session
from omnidraft.backends.pictures import Picture, read_picture
from omnidraft.chats import Conversation, Message, PictureFile, TextFile
from omnidraft.chats.pictures import with_files
from omnidraft.errors import ContextFull, PictureError
from omnidraft.format import count
from omnidraft.prompting.prompt import readable, with_pictures
from omnidraft.vocab import Vocabulary

COUNTED = 100_000  # characters that are tokenized to count; of a longer text the rest is estimated
BYTES_A_TOKEN = 3.5  # without a model to ask: a little less than English text has with usual vocabularies
TRIES = 8
CONTEXT_STEP = 1024


@dataclass(frozen=True, slots=True)
class Sizes:
    """tokens of each file, `exact` or estimated; room for all of them, None where no model is loaded to tell; larger: a
    context length in which they would fit, where they do not and the model and the memory allow it."""

    tokens: list[int]
    exact: bool
    room: int | None
    larger: int | None = None

    @property
    def too_long(self) -> bool:
        return self.room is not None and sum(self.tokens) > self.room


def sizes(session: Session, chat: Conversation, text: str, files: Sequence[TextFile]) -> Sizes:
    """What the files of a message to be sent take of the context of the model that is loaded."""
    engine = session.assistant.engine
    if engine is None:
        return Sizes([round(len(file.text.encode()) / BYTES_A_TOKEN) for file in files], False, None)
    vocabulary = engine.target.model.vocabulary
    tokens = [_count(vocabulary, file.text) for file in files]
    exact = all(len(file.text) <= COUNTED for file in files)
    room = _left(session, chat, text, [replace(file, text="") for file in files])  # for their texts alone
    found = Sizes(tokens, exact, room)
    return replace(found, larger=_larger(session, sum(tokens) - room)) if found.too_long else found


def _larger(session: Session, over: int) -> int | None:
    """The next context length that holds so many tokens more; None if the model was not trained for it, or its cache
    does not fit into what is free."""
    if (model := session.assistant.target) is None:
        return None
    wanted = ((model.n_ctx + over) // CONTEXT_STEP + 1) * CONTEXT_STEP
    needed = needs(model.info, replace(session.model_settings, n_ctx=wanted))
    fits = needed is not None and Room.beside(session).fits(needed, folder=model.info.path.is_dir())[0]
    return wanted if fits and wanted <= model.info.n_ctx_train else None


def fitted(session: Session, chat: Conversation, text: str, files: Sequence[TextFile]) -> list[TextFile]:
    """The files as they are sent, inside the session's turn: whole where they fit, else the parts that matter for
    `text`, and their beginnings.

    ContextFull where not even those fit.
    """
    if not files or not (found := sizes(session, chat, text, files)).too_long:
        return list(files)
    room = found.room or 0
    for _ in range(TRIES):  # names, marks and where texts meet take a few tokens more than was counted
        shares = _shares(found.tokens, room)
        if not any(shares):
            break
        kept = [_cut(session, file, share, text) for file, share in zip(files, shares, strict=True)]
        if (over := -_left(session, chat, text, kept)) <= 0:
            return kept
        room -= over
    raise ContextFull(
        f"The files take {'' if found.exact else 'about '}{count(sum(found.tokens))} tokens, but "
        f"{count(max(found.room or 0, 0))} fit beside the message: shorten it, or raise the context length."
    )


def _shares(tokens: Sequence[int], room: int) -> list[int]:
    """How many tokens each file keeps: short ones all, the rest evenly."""
    shares, left = [0] * len(tokens), max(room, 0)
    for place, index in enumerate(sorted(range(len(tokens)), key=lambda i: tokens[i])):
        shares[index] = min(tokens[index], left // (len(tokens) - place))
        left -= shares[index]
    return shares


def _cut(session: Session, file: TextFile, share: int, question: str) -> TextFile:
    """Of a file so many tokens, with its name and a line that says so: the parts that share words with the question, or
    the beginning where none does."""
    vocabulary = session.assistant.need_engine().target.model.vocabulary
    if (whole := _count(vocabulary, file.text)) <= share:
        return file
    parts = chosen(file.text, question, len(file.text) * share // whole)
    if parts:
        return replace(file, name=f"{file.name} (parts)", text=parts)
    ids = vocabulary.encode(file.text[: share * 16])  # more characters than nearly any text has to as many tokens
    text = vocabulary.decode(ids[:share]).decode("utf-8", "ignore")
    return replace(file, name=f"{file.name} (beginning)", text=f"{text}\n[…]")


def _left(session: Session, chat: Conversation, text: str, files: Sequence[TextFile]) -> int:
    system = [{"role": "system", "content": chat.system}] if chat.system.strip() else []
    messages = [*system, {"role": "user", "content": with_files(text, files)}]
    return session.assistant.need_engine().room(messages, chat.sampling or session.settings.sampling)


def _count(vocabulary: Vocabulary, text: str) -> int:
    start = text[:COUNTED]
    tokens = len(vocabulary.encode(start))
    return tokens if len(text) <= COUNTED else round(tokens * len(text) / COUNTED)


# The pictures of a conversation as its model sees them. Knows no page.


LOST = "[picture {}: damaged or missing]"
_BLANK = Picture("", 0, 0, b"")


def refuse_unseen(session: Session, pictures: Sequence[PictureFile]) -> None:
    """PictureError if the model that is loaded cannot see that many, inside the session's turn or outside."""
    if (engine := session.assistant.engine) is not None and pictures:
        message = {"role": "user", "content": "", "pictures": [_BLANK for _ in pictures]}
        readable([message], engine.target.model.name, engine.target.most_pictures)


def seen_pictures(session: Session, path: Sequence[Message]) -> dict[str, Picture]:
    """By hash the pictures that the messages name, but those that are lost. Only as many as the model sees, the last
    ones, are decoded: pixels take a hundred times what files do."""
    named = [digest for message in reversed(path) for _, digest in reversed(message.pictures)]
    engine, store, found = session.assistant.engine, session.store.pictures, dict[str, Picture]()
    left = engine.target.most_pictures if named and engine is not None else 0
    for digest in named:
        if digest in found:
            left -= 1
        elif (data := store.get(digest)) is not None:
            try:
                found[digest] = read_picture(data) if left > 0 else Picture(digest, 0, 0, b"")
            except PictureError:
                continue
            left -= 1
    return found


def as_read(turn: Message, seen: Mapping[str, Picture]) -> dict[str, Any]:
    """What a user's message says to a model: its pictures, then its files and its text."""
    lost = [LOST.format(name) for name, digest in turn.pictures if digest not in seen]
    pictures = [seen[digest] for _, digest in turn.pictures if digest in seen]
    return {"role": turn.role, **with_pictures("\n".join([*lost, turn.prompt]), pictures)}
