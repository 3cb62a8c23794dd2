"""What an answer says, with the markers around its calls even where these are control tokens without text."""

from __future__ import annotations

from collections.abc import Sequence

from omnidraft.app.answer_job import AnswerJob
from omnidraft.decoding.events import Event, Finished, Token
from omnidraft.vocab import Vocabulary


class TextWithCalls:
    """Give `watch` to the job. shown: control tokens' ids and texts."""

    def __init__(self, shown: dict[int, str]) -> None:
        self._shown = shown
        self._parts: list[str] = []

    @classmethod
    def of(cls, markers: Sequence[str], vocabulary: Vocabulary) -> TextWithCalls:
        """One that hears those of `markers` that are control tokens."""
        controls = vocabulary.controls
        return cls({controls[text]: text for text in markers if text in controls})

    def watch(self, job: AnswerJob, event: Event) -> None:
        if isinstance(event, (Token, Finished)) and event.text:
            self._parts.append(event.text)
        if isinstance(event, Token) and event.id in self._shown:
            self._parts.append(self._shown[event.id])

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def taken(self) -> str:
        """The text so far, which is forgotten here."""
        text, self._parts = self.text, []
        return text
