"""What all events of the chat page start from: whose session it is, which conversation, and how a refusal is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any

import gradio as gr

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions
from omnidraft.errors import OmniDraftError, StorageError
from ui.chat.parts import ARRIVING, GONE, note
from ui.chat.view import ChatView
from ui.common.request import session_of

Updates = Iterator[dict]


class Gone(OmniDraftError):
    """The page shows a conversation that was deleted, or a profile that this browser has left."""


def telling(handler: Callable[..., Updates]) -> Callable[..., Updates]:
    """A handler whose refusals stand where its class tells them, and leave the rest of the page as it is."""

    @wraps(handler)
    def run(self: Handlers, *given: Any) -> Updates:
        try:
            yield from handler(self, *given)
        except OmniDraftError as error:
            yield {self.told: note(str(error), bad=True)}

    return run


@dataclass(frozen=True, slots=True)
class Handlers:
    """What all handlers of the page start from."""

    sessions: Sessions
    view: ChatView

    @property
    def told(self) -> gr.HTML:
        """Where refusals stand: the page's message line."""
        return self.view.notice

    def here(self, request: gr.Request, chat: str | None) -> tuple[Session, str]:
        """The session the request belongs to, and the conversation its page shows; Gone if it has no such one.

        Another tab may have deleted it or gone to another profile. No other conversation takes its place then: what
        was written for one must not land in another.
        """
        session, name = self.held(request, chat)
        return session, session.shown.show(name).id

    def held(self, request: gr.Request, chat: str | None) -> tuple[Session, str]:
        """Likewise for what may arrive late: a reload comes back to the conversation it came back to before."""
        session = session_of(self.sessions, request)
        try:
            return session, session.store.get(chat or "").id
        except StorageError:
            raise Gone(GONE if chat else ARRIVING) from None
