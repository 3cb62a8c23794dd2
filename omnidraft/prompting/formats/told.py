"""What is told of an answer as it comes: content and thoughts without white space that means nothing."""

from __future__ import annotations

from collections.abc import Sequence

from omnidraft.prompting.formats.chat_format import Content, Event, Thoughts


class Told:
    """said: something of this part has been told; fresh: a call may begin here that nothing announces; line: what the
    last line of thoughts begins with."""

    def __init__(self) -> None:
        self.said, self.fresh, self.line = False, True, ""
        self._events: list[Event] = []
        self._spaces: list[str] = []
        self._marked = False  # white space in front means nothing any more

    def take(self) -> list[Event]:
        """What has been told since."""
        events, self._events = self._events, []
        return events

    def add(self, events: Sequence[Event]) -> None:
        self._events += events

    def begin_part(self) -> None:
        """Content begins behind a marker."""
        self.fresh = self._marked = True
        self.said, self._spaces = False, []

    def begin_thoughts(self) -> None:
        self.said, self._spaces, self.line = False, [], ""

    def space(self, text: str) -> None:
        """White space, told if content follows."""
        self._spaces.append(text)

    def say(self, text: str) -> None:
        """Content; white space in front of it counts only where nothing else stood before."""
        if not self.said:
            words = text.lstrip()
            if not words:
                self._spaces.append(text)
                return
            text = words if self._marked else "".join([*self._spaces, text])
            self._spaces = []
        if text:
            self.said, self.fresh = True, False
            self._events.append(Content(text))

    def show(self, text: str) -> None:
        """Content as it stands, from which it goes on."""
        self.said, self._spaces = True, []
        self._events.append(Content(text))

    def think(self, text: str) -> None:
        """Thoughts, without the white space around them."""
        _, newline, line = text.rpartition("\n")
        self.line = (line if newline else self.line + line).lstrip()[:1]
        words = text.rstrip()
        if words:
            before = "".join(self._spaces) + words
            self._events.append(Thoughts(before if self.said else before.lstrip()))
            self.said, self._spaces = True, []
        self._spaces.append(text[len(words) :])
