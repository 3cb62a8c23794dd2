"""Embeddings that are computed on a thread of their own, in turn with answers. Knows no page and stores nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from typing import Protocol

import numpy as np

from omnidraft.errors import OmniDraftError

log = logging.getLogger("omnidraft.ui")


class Embeds(Protocol):
    """What computes them, as an assistant does."""

    def embed(
        self, texts: Sequence[str | Sequence[int]], stopped: Callable[[], bool]
    ) -> tuple[np.ndarray, int]: ...

    def stop(self) -> None: ...


class EmbeddingJob:
    """vectors: a row per text, tokens: what was read, once it is over; failure: why there is neither."""

    def __init__(self, assistant: Embeds, texts: Sequence[str | Sequence[int]]) -> None:
        self.vectors: np.ndarray | None = None
        self.tokens = 0
        self.failure: OmniDraftError | None = None
        self.over = False
        self._stopping = False
        self._assistant = assistant
        self._texts = texts
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="embeddings", daemon=True)

    def start(self) -> EmbeddingJob:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Give up as soon as possible. Nothing happens to one that is over."""
        with self._lock:  # over or not must not change meanwhile: the assistant may be at an answer then
            if not self.over:
                self._stopping = True
                self._assistant.stop()

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            self.vectors, self.tokens = self._assistant.embed(self._texts, lambda: self._stopping)
        except OmniDraftError as error:
            self.failure = error
        except Exception:
            log.exception("embedding ended with a defect")
            self.failure = OmniDraftError("Something went wrong inside the program; its log has the details.")
        finally:
            with self._lock:
                self.over = True
