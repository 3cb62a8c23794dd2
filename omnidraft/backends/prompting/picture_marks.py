"""Pictures in messages: a mark in the text where each stands, and the pictures themselves beside it.

A message's "content" holds the marks, its "pictures" what they stand for. Templates pass marks on as text; a model
with eyes gets a picture's ids in their place, every other (each drafter) a short neutral text. Nobody can type a mark:
it holds a secret of this process. Knows nothing of what is in a picture.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from omnidraft.backends.pictures import Picture
from omnidraft.backends.prompting.messages import Message
from omnidraft.backends.prompting.spans import Span
from omnidraft.backends.prompting.templates import ChatTemplate
from omnidraft.errors import PictureError

M = TypeVar("M", bound=Message)
See = Callable[[Picture], Sequence[int]]  # the ids of a picture
UNSEEN = "[picture]"
_SECRET = secrets.token_hex(16)
_MARK = re.compile(rf"<picture {_SECRET} ([0-9a-f]+)>")
_LEFT_OUT = "{name} cannot see pictures, so those of earlier messages are left out."
_OLDER = "{name} sees the last {most} pictures of a conversation at most, so older ones are left out."
_TOO_MANY = "{name} sees {most} pictures of a conversation at most; ask about fewer."
_BLIND = "{name} cannot see pictures; load a model together with its projector (mmproj)."


def mark(picture: Picture) -> str:
    return f"<picture {_SECRET} {picture.digest}>"


def with_pictures(text: str, pictures: Sequence[Picture]) -> dict[str, Any]:
    """What a message about these pictures says: they stand before its text."""
    if not pictures:
        return {"content": text}
    return {"content": "\n".join([*map(mark, pictures), text]), "pictures": list(pictures)}


def unseen(messages: Sequence[M]) -> list[M]:
    """The same messages for a model without eyes."""
    return [_without(message) if message.get("pictures") else message for message in messages]


def _without(message: M) -> M:
    kept: Any = {**message, "content": _MARK.sub(UNSEEN, message["content"])}
    del kept["pictures"]
    return kept


def readable(messages: Sequence[M], name: str, most: int) -> tuple[Sequence[M], str | None]:
    """The messages for the model of this name, which can see `most` pictures of one conversation (0: it has no eyes),
    and a sentence if older ones are left out for that; PictureError if the last message alone shows more."""
    left, cut = most, 0
    for at in range(len(messages) - 1, -1, -1):
        left -= len(messages[at].get("pictures") or ())
        if left < 0:
            cut = at + 1
            break
    if cut == 0:
        return messages, None
    if cut == len(messages):
        raise PictureError((_TOO_MANY if most else _BLIND).format(name=name, most=most))
    return [*unseen(messages[:cut]), *messages[cut:]], (_OLDER if most else _LEFT_OUT).format(name=name, most=most)


def render(template: ChatTemplate, messages: Sequence[Message], see: See | None) -> list[Span]:
    """What a template writes of messages; a picture's ids come as control tokens where `see` tells them."""
    pictures = {picture.digest: picture for message in messages for picture in message.get("pictures") or ()}
    if see is None or not pictures:
        return template.render(unseen(messages))
    return [part for span in template.render(messages) for part in _parts(span, pictures, see)]


def _parts(span: Span, pictures: dict[str, Picture], see: See) -> Iterator[Span]:
    if span.control:
        yield span
        return
    for at, part in enumerate(_MARK.split(span.text)):
        if at % 2 == 0:
            if part:
                yield Span(part, joined=span.joined and at == 0)
        elif part in pictures:
            yield from (Span("", id) for id in see(pictures[part]))
