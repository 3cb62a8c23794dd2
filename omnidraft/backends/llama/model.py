"""Targets and drafters in GGUF files, run by llama.cpp through its low-level interface.

`LlamaTarget` and `LlamaDrafter` keep `tokens` and the KV cache equal at all times, whatever fails in between. They
know nothing of chat, sampling or verification.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import NoReturn, Self

import numpy as np

from omnidraft.backends.base import Aborted, passes
from omnidraft.backends.gguf.file import ModelInfo, check_adapter, context_length, read_info, usable_info
from omnidraft.backends.llama.context import LlamaContext
from omnidraft.backends.llama.devices import Placement, gpu_offload
from omnidraft.backends.llama.estimate import check_memory, place
from omnidraft.backends.llama.eyes import Eyes
from omnidraft.backends.llama.kernels import library
from omnidraft.backends.llama.rewind import Method, Rewinder, rollback_steps
from omnidraft.backends.llama.runtime import AbortFlag, failure_reason
from omnidraft.backends.llama.widths import TRIED_BEHIND, WIDTHS, WidthClass, class_of, form, rows_read_by
from omnidraft.backends.pictures import FIRST, pictures_end, steps
from omnidraft.errors import ModelError
from omnidraft.processes.threads import release_helpers
from omnidraft.settings.config import AUTO_LAYERS, ModelSettings
from omnidraft.storage.files import readable
from omnidraft.storage.trial import TRIALS
from omnidraft.vocab import Vocabulary
from omnidraft.vocab.llama_vocab import read_gguf_vocabulary

_SAME = 0.02  # of the logits' spread: rounding moves them less, a wrong state more


class LlamaTarget:
    """A `LanguageModel` on llama.cpp.

    name, n_ctx (tokens), n_batch (ids per pass), max_rows (rows of logits per pass),
    widest: rows of the widest pass that computes what plain decoding computes, to the bit;
    can_rewind and, if not, cannot_rewind_reason; rewind_method: "cut", "rollback" or "replay" (see rewind.py);
    on_card: whether layers of it lie on a graphics card;
    notices: sentences about settings that could not be followed.
    """

    _verifies = True
    _replays = True  # whether a model that cannot cut its memory may put back an older state and read on from there

    def __init__(
        self,
        info: ModelInfo,
        settings: ModelSettings,
        vocabulary: Callable[[], Vocabulary],
        max_rows: int,
        placement: Placement | None = None,
    ) -> None:
        self.info = info
        self.eyes: Eyes | None = None
        self.name = info.name
        self.tokens: list[int] = []
        self.max_rows = max_rows
        self.n_ctx, self.notices = context_length(info, settings)
        self._lock = threading.Lock()
        rollback = rollback_steps(info) if self._replays else 0
        on_workers = placement is not None
        if settings.n_gpu_layers == AUTO_LAYERS:
            settings, placement = self._place(settings, rollback, placement)
        self.on_card = bool(settings.n_gpu_layers) and gpu_offload()
        if settings.n_gpu_layers and not self.on_card:
            self.notices.append("This build of llama-cpp-python has no GPU support, so n_gpu_layers has no effect.")
        if not on_workers:
            check_memory(info, settings, self.n_ctx, max_rows, rollback)
        self._context: LlamaContext | None = LlamaContext(
            info, settings, self.n_ctx, max_rows, rollback, placement=placement, verifies=self._verifies
        )
        self._rewinder = Rewinder(self._context, "cut")
        self.n_batch = self._context.capacity
        try:
            self.vocabulary = vocabulary()
            if self._context.n_vocab != self.vocabulary.size:
                raise ModelError(f"{info.path} has {self._context.n_vocab} logits for {self.vocabulary.size} tokens.")
            self.can_rewind = True  # while trying out
            self.can_rewind = self._find_rewind()
            self.widest = max_rows
            if self._verifies:
                self.notices += [why] if not self.on_card and (why := library.why_not()) else []
                self._keep_to_one_class(here=not (self.on_card or on_workers))
            if self._verifies and (self.on_card or on_workers) and self.rewind_method == "cut" and self.can_rewind:
                self._settle_widths()
        except BaseException:
            self.close()
            raise
        finally:
            release_helpers()  # answers are mostly computed in another thread
        self.cannot_rewind_reason = None if self.can_rewind else self._why_not()

    @classmethod
    def open(
        cls,
        path: str | Path,
        settings: ModelSettings,
        *,
        vocabulary: Vocabulary | None = None,
        max_rows: int = 64,
        placement: Placement | None = None,
    ) -> Self:
        """Load the model at `path`; ModelError in one sentence if it cannot serve.

        Its vocabulary is read beside the weights, and outlives them; give it if it is known already. `placement`:
        layers that workers hold. Only for a process that may end with them (target_process.py).
        """
        info = usable_info(path)
        TRIALS.require(info.path)  # by this thread, which may be watched
        with ThreadPoolExecutor(1) as beside:
            read = (lambda: vocabulary) if vocabulary else beside.submit(read_gguf_vocabulary, info.path).result
            return cls(info, settings, read, max_rows, placement)

    def open_eyes(self, projector: Path) -> None:
        """See pictures through this projector from now on; ModelError if that cannot be."""
        if read_info(projector).kind != "projector":
            raise ModelError(f"{projector} is no projector (mmproj), so nothing can be seen through it.")
        TRIALS.require(self.info.path, projector)
        with self._lock:
            self.eyes = self._live().open_eyes(projector)

    def _place(
        self, settings: ModelSettings, rollback: int, placement: Placement | None
    ) -> tuple[ModelSettings, Placement | None]:
        """The settings with the number of layers that fit on cards, and where they go; none beside workers."""
        if placement is not None:
            return replace(settings, n_gpu_layers=0), placement
        placement, said = place(self.info, settings, self.n_ctx, self.max_rows, rollback, whole=not self._verifies)
        self.notices += [said] if said else []
        return replace(settings, n_gpu_layers=placement.layers + 1 if placement else 0), placement

    def _find_rewind(self) -> bool:
        """Find a way to take tokens back that works, on a few tokens; this also reads the weights in."""
        context = self._live()
        start = self.vocabulary.bos if self.vocabulary.bos is not None else 0
        if context.decode([start, start], 0, 1) != 0:
            raise ModelError(f"{self.info.path} loads, but computing with it fails: {failure_reason()}.")
        if context.memory_kind == "attention":
            works = context.cut(1) and context.held == 1
            context.clear()
            return works
        context.clear()
        possible: dict[Method, bool] = {"rollback": bool(context.rollback), "replay": self._replays}
        return any(self._rewinds_by(method) for method, is_possible in possible.items() if is_possible)

    def _rewinds_by(self, method: Method) -> bool:
        """Whether the logits behind tokens taken back and read again are the ones from before."""
        self._rewinder = Rewinder(self._live(), method)
        ids = np.flatnonzero(self.vocabulary.ordinary)[:6].tolist()
        try:
            self.extend(ids[:3], 0)
            expected = self.extend(ids[3:], 3)[-2:].copy()
            self.rewind(4)
            again = self.extend(ids[4:], 2)
            return bool(np.abs(again - expected).max() <= _SAME * max(float(expected.std()), 1e-6))
        except ModelError:
            return False
        finally:
            self.rewind(0)

    def _keep_to_one_class(self, *, here: bool) -> None:
        """Pad plain passes, and bound the others, so that all of them compute the same bits. here: this machine's
        processor computes, so that it may be known which do."""
        leasts = (1, 2) if self.can_rewind and self.rewind_method == "cut" else (1,)  # padding has to be taken back
        most = min(self.max_rows, self.n_ctx - TRIED_BEHIND)
        widths = [width for width in WIDTHS if width <= most and self.can_rewind]
        attention = (*self._live().attends, self._live().least_rows, self.rewind_method)
        key = form(self.info, attention, widths, leasts) if here else None
        found, context = class_of(key, lambda width: rows_read_by(self, width), widths, leasts), self._live()
        self.rewind(0)
        context.least_rows, context.padded_wholly, self.widest = found.least, True, found.widest
        if found == WidthClass(1, 1) and self.can_rewind:
            self.notices.append(f"No two widths of pass compute the same bits with {self.name}, so nothing is drafted.")

    def _settle_widths(self) -> None:
        """Fill passes up to a few widths where a graph of another width costs more than the rows."""
        context, ids = self._live(), [self.vocabulary.bos or 0] * 8

        def seconds_of(rows: int) -> float:
            self.rewind(0)
            start = perf_counter()
            self.extend(ids[:rows], rows)
            return perf_counter() - start

        context.widths.settle(seconds_of, self.widest)
        context.padded_wholly |= context.widths.filling  # one pass has as many outputs as another
        self.rewind(0)

    def _why_not(self) -> str:
        kind = self._live().memory_kind
        if kind == "attention":
            return f"{self.name} cannot take back tokens it has read, so it answers without a drafter."
        return (
            f"{self.name} is a {kind} model: its state cannot take back tokens it has read, "
            "so it answers without a drafter."
        )

    @property
    def threads(self) -> tuple[int, int] | None:
        """Processor threads of the next pass of a round, and the most it may have; None if a GPU computes."""
        if self._context is None or self.on_card:
            return None
        return self._context.threads.count, self._context.threads.most

    @property
    def rewind_method(self) -> Method:
        return self._rewinder.method

    def extend(self, ids: Sequence[int], rows: int) -> np.ndarray:
        """See `LanguageModel.extend`. On ModelError or Aborted, whole passes already read stay in `tokens`.

        More than `max_rows` rows take several passes and come back as a copy.
        """
        with self._lock:
            context = self._live()
            context.abort.clear()
            if not 0 <= rows <= len(ids):
                raise ValueError(f"{rows} rows asked of {len(ids)} ids")
            if len(self.tokens) + len(ids) > self.n_ctx:
                raise ModelError(self._full(len(ids)))
            if done := pictures_end(ids):
                self._read(ids[:done])
            parts = []
            for count, outputs in passes(len(ids) - done, rows, self.n_batch, self.max_rows):
                part = ids if count == len(ids) else ids[done : done + count]
                self._rewinder.before_pass(len(self.tokens), outputs)
                if code := context.decode(part, len(self.tokens), outputs):
                    self._failed(code, count)
                self.tokens.extend(part)
                done += count
                if rows > self.max_rows and outputs:
                    parts.append(context.logits(outputs).copy())
            if parts:
                return np.concatenate(parts)
            return context.logits(rows) if rows else np.empty((0, self.vocabulary.size), np.float32)

    def _read(self, ids: Sequence[int], *, again: bool = False) -> None:
        """Read text and pictures, without rows. again: they were taken back with a state."""
        context = self._live()
        for step in steps(ids, self.n_batch):
            held = len(self.tokens)
            if not again:
                self._rewinder.before_pass(held, 0)
            if step[0] < FIRST:
                code = context.decode(step, held, 0)
            elif self.eyes is not None:
                code = context.see(self.eyes, step[0], len(step), held)
            else:
                raise ValueError(f"{self.name} has no eyes")
            if code:
                self._failed(code, len(step))
            self.tokens.extend(step)

    def _failed(self, code: int, count: int) -> NoReturn:
        """A pass over `count` ids gave this code of llama.cpp's.

        After an abort or a failure some of it may be in the cache, and a state may be half advanced.
        """
        context, held = self._live(), len(self.tokens)
        if not (self._rewinder.method == "cut" and context.cut(held) and context.held == held):
            context.clear()
            self._rewinder.forget()
            self.tokens.clear()
        if code == 2:
            raise Aborted
        if code == 1:
            raise ModelError(f"The context of {self.name} has no room for {count} more tokens behind {held}.")
        raise ModelError(f"{self.name} could not compute: {failure_reason()} (code {code}).")

    def _full(self, count: int) -> str:
        return (
            f"The context of {self.name} is full: {len(self.tokens)} tokens plus {count} more exceed {self.n_ctx}; "
            "shorten the conversation or raise the context length."
        )

    def rewind(self, length: int) -> None:
        """Cut the cache back to `length` tokens. 0 always works; other lengths raise ModelError if not `can_rewind`.

        With 0 this thread is taken to be done for the moment, and its helpers go (see threads.py). Where
        other lengths mean reading tokens again, an abort raises Aborted and leaves those in `tokens` that were read.
        """
        with self._lock:
            context = self._live()
            if not 0 <= length <= len(self.tokens):
                raise ValueError(f"cannot rewind {len(self.tokens)} tokens to {length}")
            if length == 0:
                release_helpers()
            if length == len(self.tokens):
                return
            if length and not self.can_rewind:
                raise ModelError(self.cannot_rewind_reason or f"{self.name} could not take back tokens.")
            left = self._rewinder.back_to(length, len(self.tokens))
            again = self.tokens[left:length]
            del self.tokens[left:]
            if again:
                context.abort.clear()
            self._read(again, again=True)

    def copy_read(self, most: int) -> tuple[list[int], bytes] | None:
        """(tokens, what the cache holds of them), to be put back when this model is loaded again; None if that takes
        more than `most` bytes or would be no gain: nothing read, or a card that reads it again sooner."""
        with self._lock:
            context = self._live()
            if not self.tokens or self.on_card or self.rewind_method != "cut" or max(self.tokens) >= FIRST:
                return None
            return (list(self.tokens), context.save_state(0)) if context.state_bytes() <= most else None

    def put_back(self, tokens: list[int], state: bytes) -> None:
        """Hold what another of this very model, opened in the same way, gave by `copy_read`; else nothing."""
        with self._lock:
            context = self._live()
            if len(tokens) <= self.n_ctx and context.restore_state(state, len(tokens), 0):
                self.tokens = list(tokens)
            else:
                context.clear()

    def embed(self, texts: Sequence[Sequence[int]], stopped: Callable[[], bool]) -> np.ndarray:
        """See `Embedding.embed`."""
        with self._lock:
            context = self._live()
            context.abort.clear()
            found = []
            with context.embedder(max(map(len, texts))) as embedder:
                for ids in texts:
                    if stopped():
                        raise Aborted
                    found.append(embedder.mean(ids))
            release_helpers()
            return np.stack(found)

    def interrupted_by(self, flag: AbortFlag) -> None:
        """Take `flag` for interrupting from now on, in place of the own one that `abort` sets."""
        self._live().interrupted_by(flag)

    def abort(self) -> None:
        """Interrupt an `extend` that is running now; one that starts later is not affected."""
        context = self._context
        if context is not None:
            context.abort.set()

    def close(self) -> None:
        """Interrupt, then free the model. Harmless when repeated."""
        self.abort()
        with self._lock:
            if self.eyes is not None:
                self.eyes.close()
            if self._context is not None:
                self._context.close()
                self._context = None
            self.tokens.clear()

    def _live(self) -> LlamaContext:
        if self._context is None:
            raise ModelError(f"{self.name} is closed.")
        return self._context

    def __enter__(self):
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_context", None) is not None:
            self.close()


class LlamaDrafter(LlamaTarget):
    """A `DraftModel` on llama.cpp: also swaps LoRA adapters."""

    adapter: str | None = None
    _verifies = False
    _replays = False  # it is taken back every round, by passes of one token each

    def set_adapter(self, path: str | Path | None) -> None:
        """Load a GGUF LoRA in place of the current one and forget the cache; None removes it.

        ModelError if the file does not fit this model; then the current adapter and the cache stay as they are.
        """
        with nullcontext() if path is None else readable(path) as file:
            if file is not None:
                check_adapter(file, self.info)
                TRIALS.require(self.info.path, file)
            with self._lock:
                context = self._live()
                context.set_adapter(None if file is None else str(file))
                context.clear()
                self._rewinder.forget()
                self.tokens.clear()
                self.adapter = None if path is None else str(path)
