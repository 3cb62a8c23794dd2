"""Bytes of verified tokens -> text that may be shown: whole characters, and nothing that may yet be a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class TextStream:
    """Feed token bytes, get showable text. `stopped` is true once a stop string was met (it is never shown)."""

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stop = [s for s in stop if s]
        self._beginnings = {s[0] for s in self._stop}
        self._held = ""
        self.stopped = False

    def feed(self, data: bytes) -> str:
        return self._release(self._decoder.decode(data))

    def finish(self) -> str:
        """What was held back, at the end of the answer: an unfinished character shows as U+FFFD."""
        if self.stopped:
            return ""
        text = self._release(self._decoder.decode(b"", final=True))
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
