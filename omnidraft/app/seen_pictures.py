"""The pictures of a conversation as its model sees them. Knows no page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omnidraft.app.session import Session
from omnidraft.backends.pictures import Picture, read_picture
from omnidraft.backends.prompting.picture_marks import readable, with_pictures
from omnidraft.chats import Message, PictureFile
from omnidraft.errors import PictureError

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
