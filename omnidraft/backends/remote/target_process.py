"""`TargetProcess`: a target behind the same protocol, computed by a process of its own whose end ends nothing here.

llama.cpp aborts the process when it loses a worker. Here that is a ModelError with a sentence, an emptied cache, and a
process that is started again by the next pass. A pass that takes far longer than it could is given up. Knows nothing
of chats or drafters.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from time import monotonic

import numpy as np
import psutil

from omnidraft.backends.base import Aborted
from omnidraft.backends.gguf.file import usable_info
from omnidraft.backends.remote.target_link import (
    ABORTED,
    DEFECT,
    LOADING,
    OPENED,
    REFUSED,
    Gone,
    Reply,
    Request,
    TargetLink,
)
from omnidraft.backends.remote.workers import Plan, plan, reachable
from omnidraft.errors import ModelError
from omnidraft.processes.progress import tell
from omnidraft.settings.config import ModelSettings
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

STALLED = 30.0  # seconds beyond what a pass could take, then the workers are given up
LOADING_STALLED = 120.0  # seconds in which loading gets no further: the largest tensor must have crossed the network
_PATIENCE = 2.0  # times one token's time for each token of a pass: more than any pass takes
_UNKNOWN_PASS = 1.0  # seconds a token is taken to need before one was timed
_NARROW = 4  # tokens of passes whose time says what a single one needs
_LET_GO = 0.5  # seconds an interrupted pass gets to end by itself
_LOST_WORKER = ("RPC server crashed", "Failed to connect", "RPC handshake failed")  # llama.cpp's last words


class TargetProcess:
    """A `LanguageModel`. `plan` says where the layers lie; `widest`: see `LlamaTarget`."""

    n_ctx: int  # this and what follows is told by the process
    n_batch: int
    max_rows: int
    widest: int
    can_rewind = True
    cannot_rewind_reason: str | None = None
    rewind_method = "cut"

    def __init__(self, path: str | Path, settings: ModelSettings) -> None:
        """Load the model at `path` in a process of its own, over the workers that `settings` name.

        ModelError in one sentence if it cannot serve.
        """
        self.info = usable_info(Path(path))
        self.name = self.info.name
        self.vocabulary = read_gguf_vocabulary(self.info.path)
        self.settings = settings
        self.notices: list[str] = []
        self.plan: Plan | None = None
        self._tokens: list[int] = []
        self._link: TargetLink | None = None
        self._lock = threading.RLock()
        self._interrupted = self._closed = False
        self._left: list[int] | None = None  # what the cache may hold once a pass that was left behind is over
        self._single: float | None = None  # seconds a pass of few tokens takes
        self._launch()

    @property
    def tokens(self) -> list[int]:
        if self._left is not None:
            with self._lock:
                self._catch_up()
        return self._tokens

    @property
    def pid(self) -> int | None:
        """Of the process; None while there is none."""
        link = self._link
        return link.pid if link is not None else None

    def processor_seconds(self) -> float:
        """What the process has used of this machine's processors; 0 while there is none."""
        pid = self.pid
        with suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times() if pid is not None else None
            return times.user + times.system if times is not None else 0.0
        return 0.0

    def extend(self, ids: Sequence[int], rows: int) -> np.ndarray:
        """See `LanguageModel.extend`; also ModelError if a worker or the process was lost. Then the cache is empty."""
        with self._lock:
            if not 0 <= rows <= len(ids):
                raise ValueError(f"{rows} rows asked of {len(ids)} ids")
            link, after = self._ready(), [*self._tokens, *ids]
            reply = self._exchange(link, Request(len(self._tokens), rows, list(map(int, ids))), after)
            self._tokens = after[: reply.held]
            if reply.how == ABORTED:
                raise Aborted
            if reply.how == REFUSED:
                raise ModelError(reply.text)
            if reply.how == DEFECT:
                raise RuntimeError(f"in the process that computes {self.name}: {reply.text}")
            if len(ids) <= _NARROW:
                self._single = reply.seconds if self._single is None else max(reply.seconds, 0.9 * self._single)
            return reply.rows

    def rewind(self, length: int) -> None:
        """See `LanguageModel.rewind`. What is cut is told along with the next pass, so nothing is sent here."""
        with self._lock:
            tokens = self.tokens
            if not 0 <= length <= len(tokens):
                raise ValueError(f"cannot rewind {len(tokens)} tokens to {length}")
            if 0 < length < len(tokens) and not self.can_rewind:
                raise ModelError(self.cannot_rewind_reason or f"{self.name} could not take back tokens.")
            del tokens[length:]

    def abort(self) -> None:
        """Interrupt an `extend` that is running now; one that starts later is not affected."""
        self._interrupted = True

    def release(self) -> None:
        """End the process, so that others can have its workers; the next pass starts it again."""
        with self._lock:
            self._end()

    def close(self) -> None:
        """Free the model. Harmless when repeated."""
        self._closed = True
        if (link := self._link) is not None:
            link.kill()  # a pass that is running ends with it
        self.release()

    def _ready(self) -> TargetLink:
        """The process, started again if it had ended, with nothing under way and no interruption."""
        if self._closed:
            raise ModelError(f"{self.name} is closed.")
        self._catch_up()
        if self._link is None:
            self._launch()
        assert self._link is not None
        self._interrupted = False
        return self._link

    def _exchange(self, link: TargetLink, request: Request, tokens: list[int]) -> Reply:
        """Send a request and wait for its reply. One that is interrupted and does not end soon is left behind."""
        limit = self._patience(len(request.ids))
        interrupted: list[float] = []  # since when: most passes end by themselves soon

        def leaving() -> bool:
            if not self._interrupted:
                return False
            if not interrupted:
                link.interrupt()
            interrupted.append(monotonic())
            return self.can_rewind and interrupted[-1] - interrupted[0] > _LET_GO

        try:
            link.send(request)
            return link.reply(limit, leaving)
        except Aborted:
            self._left = tokens
            raise
        except Gone:
            raise self._lost(loading=False) from None
        except TimeoutError:
            raise self._stalled(limit, loading=False) from None

    def _patience(self, count: int) -> float:
        """Seconds until a pass of `count` tokens is given up: none of many takes longer than one alone."""
        return STALLED + _PATIENCE * count * (self._single or _UNKNOWN_PASS)

    def _catch_up(self) -> None:
        """Wait for a pass that was left behind, and know what the cache holds then."""
        if self._left is None or self._link is None:
            return
        tokens, self._left = self._left, None
        try:
            self._tokens = tokens[: self._link.reply(self._patience(len(tokens))).held]
        except (Gone, TimeoutError):  # the next pass starts it again
            self._end()

    def _launch(self) -> None:
        """Start the process and load the model; ModelError in one sentence if that fails, then nothing is left."""
        if self.settings.workers:
            self.plan = plan(self.info, self.settings, self.settings.n_ctx or self.info.n_ctx_train or 4096)
        self._link = TargetLink(self._asked(), self.vocabulary.size)
        try:
            while (reply := self._link.reply(LOADING_STALLED)).how == LOADING:
                tell(reply.text, reply.seconds)
        except Gone:
            raise self._lost(loading=True) from None
        except TimeoutError:
            raise self._stalled(LOADING_STALLED, loading=True) from None
        except BaseException:
            self._end()
            raise
        if reply.how != OPENED:
            self._end()
            raise ModelError(reply.text)
        for name, value in json.loads(reply.text).items():
            setattr(self, name, value)
        if self.plan is not None:
            self.notices.append(f"{self.name} lies on several machines: {self.plan}.")

    def _asked(self) -> dict:
        workers = self.plan.workers if self.plan is not None else ()
        return {
            "path": str(Path(self.info.path).resolve()),
            "settings": asdict(self.settings),
            "workers": [f"{address.resolved()}:{address.port}" for address in workers],
            "layers": self.plan.layers_on_workers if self.plan is not None else [],
        }

    def _end(self) -> None:
        """Let go of the process; the cache is gone with it."""
        self._tokens, self._left = [], None
        link, self._link = self._link, None
        if link is not None:
            link.end()

    def _lost(self, loading: bool) -> ModelError:
        """What to say of a process that ended by itself, once it is cleared away."""
        code, words = self._link.ended() if self._link is not None else (0, "")
        away = [worker for worker in (self.plan.workers if self.plan else ()) if not reachable(worker)]
        self._end()
        if away or any(sign in words for sign in _LOST_WORKER):
            who = f"worker at {away[0]}" if away else "worker"
            return ModelError(f"The connection to the {who} was lost{_afterwards(loading)}")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return ModelError(f"The process that computes {self.name} ended ({how}){_afterwards(loading)}")

    def _stalled(self, limit: float, loading: bool) -> ModelError:
        self._end()
        who = "The workers did" if self.plan is not None else f"The process that computes {self.name} did"
        return ModelError(f"{who} not answer for {limit:.0f} seconds and were given up{_afterwards(loading)}")

    def __enter__(self) -> TargetProcess:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_link", None) is not None:
            self.close()


def _afterwards(loading: bool) -> str:
    if loading:
        return " while the model was loaded; check it and load again."
    return "; what was written stays, and the next message loads the model again."
