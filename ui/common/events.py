"""What happens on a page: whose session an event is for, what it changes, how a refusal is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from inspect import isgeneratorfunction
from typing import Any

import gradio as gr

from omnidraft.app.session import Session
from omnidraft.app.sessions import Sessions, session_of_request
from omnidraft.errors import OmniDraftError
from ui.common.notes import note
from ui.gradio_ways import EACH, PRIVATE, data_of


def session_of(sessions: Sessions, request: gr.Request) -> Session:
    """The session of the profile this browser works in, for an event of a page."""
    return session_of_request(sessions, request.request)


@dataclass(frozen=True, slots=True)
class Events:
    """The events of a page. said: where it tells in a sentence what came of one."""

    sessions: Sessions
    said: gr.HTML

    def on(
        self, happens: Any, act: Callable[..., Any], shows: Sequence[Any] = (), given: Sequence[Any] = (), *,
        after: Callable[[Session], dict] = lambda session: {}, **how: Any,
    ) -> Any:  # fmt: skip
        """When it happens (or one of several does), `act(session, *values)`, with the values of the components `given`.

        It returns what components show then, of those in `shows`; or a sentence to be told; or, if it yields, one such
        after the other. What it refuses is told, too. `after` is shown in either case. how: as Gradio takes it.
        """
        updates = partial(self._updates, act, after)

        def handle(request: gr.Request, *values: Any) -> Iterator[dict]:
            return updates(session_of(self.sessions, request), *values)

        return self._listen(happens, act, handle, shows, given, {**PRIVATE, **how})

    def click(
        self, place: gr.HTML, act: Callable[..., Any], shows: Sequence[Any] = (), *,
        after: Callable[[Session], dict] = lambda session: {},
    ) -> Any:  # fmt: skip
        """The same for a click in HTML of our own: `act(session, data)`, with what its script sends along."""
        updates = partial(self._updates, act, after)

        def handle(request: gr.Request, event: gr.EventData) -> Iterator[dict]:
            return updates(session_of(self.sessions, request), data_of(event))

        return self._listen(place.act, act, handle, shows, (), EACH)

    def _updates(
        self, act: Callable[..., Any], after: Callable[[Session], dict], session: Session, *given: Any
    ) -> Iterator[dict]:
        try:
            made = act(session, *given)
            for one in made if isgeneratorfunction(act) else (made,):
                told = {self.said: note(one)} if isinstance(one, str) else one
                yield {**after(session), **told}
        except OmniDraftError as error:
            yield {**after(session), self.said: note(str(error), bad=True)}

    def _listen(
        self, happens: Any, act: Callable[..., Any], handle: Callable[..., Iterator[dict]], shows: Sequence[Any],
        given: Sequence[Any], how: dict[str, Any],
    ) -> Any:  # fmt: skip
        """Gradio sends the last update of what yields twice: what shows something once returns it."""

        @wraps(handle)
        def once(*values: Any) -> dict:
            return next(handle(*values))

        @wraps(handle)
        def steps(*values: Any) -> Iterator[dict]:
            yield from handle(*values)

        run = steps if isgeneratorfunction(act) else once
        outputs = list(dict.fromkeys([self.said, *shows]))
        if isinstance(happens, list):
            return gr.on(happens, run, list(given), outputs, **how)
        return happens(run, list(given), outputs, **how)
