"""Bytes of verified tokens -> text that may be shown: whole characters, and nothing that may yet be a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class TextStream:
    """Feed token bytes, get showable text, but for a `prefix` it may begin with.

    `stopped` is true once a stop string was met (it is never shown).
    """

    def __init__(self, stop: Sequence[str] = (), prefix: str = "") -> None:
        self._prefix = prefix
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stop = [s for s in stop if s]
        self._beginnings = {s[0] for s in self._stop}
        self._held = ""
        self.stopped = False

    def feed(self, data: bytes) -> str:
        text = self._release(self._decoder.decode(data))
        if self._prefix and text:
            text, self._prefix = text.removeprefix(self._prefix), ""
        return text

    def finish(self, *, cut: bool = False) -> str:
        """What was held back, at the end of the answer. An unfinished character shows as U+FFFD; not where the answer
        was `cut`, for whoever continues it writes the whole character."""
        if self.stopped:
            return ""
        text = self._release(self._decoder.decode(b"", final=not cut))
        rest, self._held = self._held, ""
        return text if self.stopped else text + rest

    def _release(self, text: str) -> str:
        if self.stopped:
            return ""
        text = self._held + text
        if self._beginnings.isdisjoint(text):  # as nearly always
            self._held = ""
            return text
        cut = min((at for s in self._stop if (at := text.find(s)) >= 0), default=-1)
        if cut >= 0:
            self.stopped, self._held = True, ""
            return text[:cut]
        keep = max((self._overlap(text, s) for s in self._stop), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    @staticmethod
    def _overlap(text: str, stop: str) -> int:
        """Length of the longest end of `text` that begins `stop`."""
        return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)
