"""One llama.cpp model with one context: the library's pointers, its batch, and views of its results.

Owns and frees everything it allocates, in order: adapter, context, model, batch. It passes token ids through and
knows nothing of vocabularies, of which tokens the cache holds, or of what they are for.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import llama_cpp
import numpy as np

from omnidraft.backends.base import N_BATCH
from omnidraft.backends.gguf.file import ModelInfo
from omnidraft.backends.llama.devices import Placement, gpu_offload
from omnidraft.backends.llama.embeddings import LlamaEmbedder
from omnidraft.backends.llama.eyes import Eyes, Positions
from omnidraft.backends.llama.runtime import AbortFlag, begin_call, choose_layouts, failure_reason, let_go_of_pages
from omnidraft.backends.llama.sizes import pass_bytes, prompt_step
from omnidraft.backends.llama.widths import Widths, rows_apart
from omnidraft.errors import ModelError
from omnidraft.processes.progress import tell, told
from omnidraft.processes.threads import ThreadChoice, physical_cores, step_threads
from omnidraft.settings.config import ModelSettings
from omnidraft.storage.trial import TRIALS

_KV_TYPES = {"f16": llama_cpp.GGML_TYPE_F16, "q8_0": llama_cpp.GGML_TYPE_Q8_0, "q4_0": llama_cpp.GGML_TYPE_Q4_0}
_BF16 = 30  # of ggml_type; the package has no name for it
_UBATCH = 512
_NARROW = 16  # ids up to which a pass is a round's and not part of a prompt
_LIGHT = 4 << 20  # bytes of weights up to which a second row costs less than it saves (see `_takes_pairs`)
_PARTIAL = llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY


class LlamaContext:
    """`n_ctx` tokens of context, `max_rows` rows of logits per pass, `capacity` ids per `decode`.

    rollback: how many tokens of the last pass recurrent layers can take back by themselves; fewer than asked for
    (0) where the architecture has no such thing. With `simulated` nothing is read or reserved and nothing can be
    computed: llama.cpp only works out (and logs) what it would reserve. That may end the process, so do it in a child.
    placement: layers that lie on other machines; losing one of them ends the process too. verifies: that this is a
    target, whose rows shall have the same bits in passes of many widths (see `bits`).
    least_rows: narrower passes are padded with rows that are cut off again; padded_wholly: also in the last layer and
    behind it, which are computed only for rows whose logits are wanted.
    """

    def __init__(
        self,
        info: ModelInfo,
        settings: ModelSettings,
        n_ctx: int,
        max_rows: int,
        rollback: int = 0,
        *,
        simulated: bool = False,
        placement: Placement | None = None,
        verifies: bool = False,
    ) -> None:
        self._batch: Any = None  # pointers of the library's, and its batch
        self._model: Any = None
        self._context: Any = None
        self._adapter: Any = None
        self._layout = Positions()  # of what the cache holds
        self.max_rows = max_rows
        self.capacity = max(N_BATCH, max_rows)
        self.abort = AbortFlag()
        begin_call()
        try:
            # As llama.cpp lays weights out by itself, K-quants compute rows of passes of over three otherwise.
            repacked = choose_layouts() or not verifies
            self._model = self._load(info, settings, simulated, placement, repacked)
            if repacked:
                for part in info.parts:
                    let_go_of_pages(os.fspath(part))
            self._context = self._create(info, settings, n_ctx, rollback, verifies)
            self.rollback = llama_cpp.llama_n_rs_seq(self._context)
            self._memory = llama_cpp.llama_get_memory(self._context)
            if not self._memory:
                raise ModelError(f"{info.path} is an encoder, which cannot generate text; choose a chat model.")
        except BaseException:
            self.close()
            raise
        self.interrupted_by(self.abort)
        vocabulary = llama_cpp.llama_model_get_vocab(self._model)
        self.n_vocab = llama_cpp.llama_vocab_n_tokens(vocabulary)
        self._n_ctx = n_ctx
        self.padded_wholly = False
        self.widths = Widths()
        self.least_rows = 2 if self.capacity > 1 and self._takes_pairs(info) else 1
        self._allocate_batch()
        self._logits = _Rows(self.n_vocab)
        self._outputs = self._wanted = 0  # rows of logits computed, and those asked for

    def interrupted_by(self, flag: AbortFlag) -> None:
        """End a pass that is running when `flag` is set, from now on."""
        self.abort = flag
        llama_cpp.llama_set_abort_callback(self._context, flag.callback, flag.data)

    @staticmethod
    def _load(
        info: ModelInfo, settings: ModelSettings, simulated: bool, placement: Placement | None, repacked: bool
    ) -> int:
        TRIALS.require(info.path)
        parameters = llama_cpp.llama_model_default_params()
        parameters.n_gpu_layers = settings.n_gpu_layers
        parameters.use_extra_bufts = repacked
        if placement is None and settings.n_gpu_layers == 0:
            placement = Placement([], [])  # a card that llama.cpp knows computes long prompts, wherever the layers lie
        if placement is not None:
            placement.apply(parameters)
        if simulated:
            parameters.no_alloc = True
            parameters.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE
        doing = f"reading {info.name}"
        tell(doing)
        # Kept by its name: the library calls it as long as it loads.
        callback = llama_cpp.llama_progress_callback(lambda share, _data: told(doing, share))
        parameters.progress_callback = callback
        model = llama_cpp.llama_model_load_from_file(os.fsencode(info.path), parameters)
        if not model:
            tell(doing)
            raise ModelError(f"{info.path} could not be loaded: {failure_reason()}.")
        refusal = None
        if llama_cpp.llama_model_has_encoder(model):
            refusal = "is an encoder or encoder-decoder model"
        elif llama_cpp.llama_model_is_diffusion(model):
            refusal = "is a diffusion model"
        if refusal:
            llama_cpp.llama_model_free(model)
            raise ModelError(f"{info.path} {refusal}, which cannot generate text token by token; choose a chat model.")
        return model

    def _create(self, info: ModelInfo, settings: ModelSettings, n_ctx: int, rollback: int, verifies: bool) -> int:
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = n_ctx
        parameters.n_batch = self.capacity
        step = min(self.capacity, _UBATCH)
        attention = _attention(info, settings, n_ctx, step, verifies)
        parameters.n_ubatch, parameters.flash_attn_type, parameters.type_v = attention
        self.attends = (settings.kv_type, *attention[1:])  # by what kernels, as long as a pass is no longer than a step
        parameters.n_seq_max = 1
        parameters.n_rs_seq = rollback
        parameters.swa_full = True  # a window that forgets could take back only as much as it has spare
        # Sizes the compute buffer: without it every row of a prompt step reserves a row of logits (300 MB at 152k).
        # Asking for more aborts the process, so `decode` checks.
        parameters.n_outputs_max = self.max_rows
        most, least = settings.threads or physical_cores(), settings.threads or 1
        self.threads = ThreadChoice(settings.threads or step_threads(pass_bytes(info)), least)
        self._prompt_threads = ThreadChoice(most, least, judged=1)  # the passes of a prompt are few, and long
        self._set_threads = most
        self._computed = 0.0  # when a pass last ended
        parameters.n_threads = parameters.n_threads_batch = most
        parameters.pooling_type = llama_cpp.LLAMA_POOLING_TYPE_NONE
        parameters.type_k = _KV_TYPES[settings.kv_type]
        self._widest_step = parameters.n_ubatch
        self._flash = parameters.flash_attn_type != llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED  # for all that is known
        context = llama_cpp.llama_init_from_model(self._model, parameters)
        if not context:
            raise ModelError(
                f"{info.path} could not be given a context of {n_ctx} tokens with a {settings.kv_type} cache "
                f"({failure_reason()}); try a shorter context or another kv_type."
            )
        return context

    def _allocate_batch(self) -> None:
        batch = self._batch = llama_cpp.llama_batch_init(self.capacity, 0, 1)
        shape = (self.capacity,)
        self._ids = np.ctypeslib.as_array(batch.token, shape)
        self._positions = np.ctypeslib.as_array(batch.pos, shape)
        self._flags = np.ctypeslib.as_array(batch.logits, shape)
        self._counted = np.arange(self.capacity, dtype=np.int32)
        np.ctypeslib.as_array(batch.n_seq_id, shape)[:] = 1
        for row in range(self.capacity):
            batch.seq_id[row][0] = 0

    def decode(self, ids: Sequence[int], position: int, outputs: int) -> int:
        """One `llama_decode` of `ids` behind `position` tokens, results for the last `outputs` ids; llama.cpp's code.

        0 done, 1 no room, 2 aborted, negative invalid or failed.
        """
        count = len(ids)
        if count > self.capacity or outputs > self.max_rows:
            raise ValueError(f"{count} ids with {outputs} outputs exceed {self.capacity} and {self.max_rows}")
        self._outputs = self._wanted = outputs
        narrow = count <= _NARROW
        threads = self.threads if narrow else self._prompt_threads
        if threads.count != self._set_threads:
            self._set_threads = threads.count
            llama_cpp.llama_set_n_threads(self._context, threads.count, threads.count)
        begun = perf_counter()
        rows = self._fill(ids, position, outputs)
        code = llama_cpp.llama_decode(self._context, self._batch)
        if code == 0:
            if not outputs:  # reading results waits for the device; without any a pass would seem to take no time
                llama_cpp.llama_synchronize(self._context)
            if rows > count:
                self.cut(position + count)
            taken = perf_counter() - begun
            rested = begun - self._computed > taken  # others had the caches meanwhile: such passes take longer
            self._computed = begun + taken
            threads.passed(*((count, rested), taken) if narrow else (count.bit_length(), taken / count))
        return code

    def open_eyes(self, projector: Path) -> Eyes:
        """What this model sees with; to be closed before this is."""
        widest = min(self._widest_step, self.capacity)
        return Eyes(projector, self._model, self._prompt_threads.count, widest, self.abort)

    def see(self, eyes: Eyes, first: int, rows: int, position: int) -> int:
        """Read the `rows` rows of a picture, whose ids begin with `first`, behind `position` tokens; a code as of
        `decode`."""
        self._outputs = self._wanted = 0
        start = self._layout.behind(position)
        code, taken = eyes.read(first, self._context, start, self.capacity)
        if code == 0:
            llama_cpp.llama_synchronize(self._context)
            self._layout.add(position, rows, taken)
        return code

    def _fill(self, ids: Sequence[int], position: int, outputs: int) -> int:
        """Put the ids into the batch; how many rows that made, with those that pad it and are to be cut off again."""
        count = len(ids)
        rows = self._rows_of(count, self._n_ctx - position, all_wanted=outputs == count)
        start = self._layout.behind(position)
        if rows == 1:
            self._ids[0], self._positions[0], self._flags[0] = ids[0], start, outputs
        else:
            self._ids[:count] = ids
            self._flags[: count - outputs] = 0
            self._flags[count - outputs : count] = 1
            if rows > count:  # behind those that are wanted, which cannot see them
                self._ids[count:rows], self._flags[count:rows] = ids[-1], self.padded_wholly
                self._outputs += (rows - count) * self.padded_wholly
            np.add(self._counted[:rows], start, out=self._positions[:rows])
        self._batch.n_tokens = rows
        return rows

    def _rows_of(self, count: int, room: int, *, all_wanted: bool) -> int:
        """How many rows a pass of `count` ids shall have, where there is room for more."""
        least = max(count, self.least_rows)
        filled = least + self.widths.missing(least) if all_wanted else least
        return next((rows for rows in (filled, least) if rows <= room), count)

    def _takes_pairs(self, info: ModelInfo) -> bool:
        """Whether a pass of one row is slower than one of two.

        Without flash attention llama.cpp multiplies one row with the keys by a call for every key and head, and two
        rows in blocks. On one thread of two cores a step of a drafter of 3.3 MB behind 40, 150, 400 and 1,000 tokens
        takes 0.24, 0.25, 0.33, 0.51 ms alone and 0.19, 0.19, 0.22, 0.29 as one of two rows. With two threads, or
        larger weights, reading them for the second row takes more than that saves.
        """
        one_thread = self.threads.count == 1
        return one_thread and not self._flash and self.memory_kind == "attention" and pass_bytes(info) <= _LIGHT

    def logits(self, rows: int) -> np.ndarray:
        """The last `rows` rows of logits of the last `decode`, (rows, n_vocab), in place."""
        first = self._wanted - rows
        return self._logits.view(llama_cpp.llama_get_logits(self._context), self._outputs)[first : self._wanted]

    def cut(self, length: int) -> bool:
        """Forget everything from position `length` on; False if this kind of memory cannot."""
        done = bool(llama_cpp.llama_memory_seq_rm(self._memory, 0, self._layout.behind(length), -1))
        if done:
            self._layout.cut(length)
        return done

    def clear(self) -> None:
        llama_cpp.llama_memory_clear(self._memory, False)
        self._layout.cut(0)

    def save_state(self, parts: int = _PARTIAL) -> bytes:
        """A copy of what recurrent layers hold now; keys and values stay where they are and are cut instead. With parts
        0: of all that was read."""
        size = llama_cpp.llama_state_seq_get_size_ext(self._context, 0, parts)
        buffer = (ctypes.c_uint8 * size)()
        if llama_cpp.llama_state_seq_get_data_ext(self._context, buffer, size, 0, parts) != size:
            raise ModelError("llama.cpp could not copy this model's state.")
        return bytes(buffer)

    def restore_state(self, state: bytes, length: int, parts: int = _PARTIAL) -> bool:
        """Put back what `save_state` gave behind `length` tokens; False if this kind of memory cannot."""
        buffer = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        done = llama_cpp.llama_state_seq_set_data_ext(self._context, buffer, len(state), 0, parts)
        return done == len(state) and self.cut(length) and self.held == length

    def state_bytes(self) -> int:
        """What `save_state(0)` would take."""
        return llama_cpp.llama_state_seq_get_size_ext(self._context, 0, 0)

    @property
    def held(self) -> int:
        """Tokens in the cache, with the rows of pictures."""
        return self._layout.rows(llama_cpp.llama_memory_seq_pos_max(self._memory, 0))

    @property
    def memory_kind(self) -> str:
        """ "recurrent", "hybrid" or "attention"."""
        if llama_cpp.llama_model_is_recurrent(self._model):
            return "recurrent"
        return "hybrid" if llama_cpp.llama_model_is_hybrid(self._model) else "attention"

    def set_adapter(self, path: str | None) -> None:
        """Swap the LoRA adapter (None: none). `path` must have passed the adapter check: llama.cpp aborts on others."""
        adapter = None
        if path is not None:
            begin_call()
            adapter = llama_cpp.llama_adapter_lora_init(self._model, os.fsencode(path))
            if not adapter:
                raise ModelError(f"{path} could not be loaded as an adapter: {failure_reason()}.")
        # The context keeps bare pointers: the old adapter is freed only after the new one is in its place.
        pointers = (llama_cpp.llama_adapter_lora_p_ctypes * 1)()
        if adapter:
            pointers[0] = ctypes.cast(adapter, llama_cpp.llama_adapter_lora_p_ctypes)
            failed = llama_cpp.llama_set_adapters_lora(self._context, pointers, 1, (ctypes.c_float * 1)(1.0))
        else:
            failed = llama_cpp.llama_set_adapters_lora(self._context, None, 0, None)
        if failed:
            if adapter:
                llama_cpp.llama_adapter_lora_free(adapter)
            raise ModelError(f"{path} could not be set as an adapter (llama.cpp code {failed}).")
        if self._adapter:
            llama_cpp.llama_adapter_lora_free(self._adapter)
        self._adapter = adapter

    def embedder(self, length: int) -> LlamaEmbedder:
        """A second context for texts of up to `length` tokens; it must be closed before this one is."""
        return LlamaEmbedder(self._model, length, self._prompt_threads.count, self.abort)

    def close(self) -> None:
        """Free everything; harmless when repeated."""
        if self._context:
            if self._adapter:
                llama_cpp.llama_set_adapters_lora(self._context, None, 0, None)
                llama_cpp.llama_adapter_lora_free(self._adapter)
            llama_cpp.llama_free(self._context)
        if self._model:
            llama_cpp.llama_model_free(self._model)
        if self._batch is not None:
            self._ids = self._positions = self._flags = np.empty(0)
            llama_cpp.llama_batch_free(self._batch)
        self._batch = self._model = self._context = self._adapter = None


def _attention(info: ModelInfo, settings: ModelSettings, n_ctx: int, step: int, verifies: bool) -> tuple[int, int, int]:
    """(prompt tokens computed at once, whether flash attention is used, the type of the V cache): by model and machine
    alone, whatever drafts.

    On the processor flash attention makes the few-row passes of verification more expensive: 5 rows behind 300 tokens
    take 4.9 ms instead of 1.5 at 4M parameters, 349 instead of 269 behind 1,000 tokens at 0.4B. And it takes another
    kernel for one row behind 512 tokens, which divides them among the threads, and a third for 64 rows and more: only
    where K and V have different types, or are quantized, is there one for all. So where a build multiplies single rows
    by themselves, plain products attend. But a quantized V cache exists only in flash attention's kernels, very long
    contexts need it for memory, and on a GPU llama.cpp chooses.
    """
    kept = _KV_TYPES[settings.kv_type]
    if settings.kv_type != "f16":
        return step, llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED, kept
    if settings.n_gpu_layers and gpu_offload():
        return step, llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO, kept
    affordable = prompt_step(info, n_ctx, step)
    if affordable and not (verifies and rows_apart()):
        return affordable, llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED, kept
    return step, llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED, _BF16 if verifies else kept


class _Rows:
    """numpy views of a float buffer llama.cpp owns, one for each row count, made again only when the buffer moves."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._address: int | None = None
        self._views: dict[int, np.ndarray] = {}

    def view(self, pointer: ctypes._Pointer, rows: int) -> np.ndarray:
        address = ctypes.addressof(pointer.contents) if pointer else None
        if address != self._address:
            self._address = address
            self._views.clear()
        if (view := self._views.get(rows)) is None:
            if not address:
                raise RuntimeError("llama.cpp has no results to read")
            buffer = (ctypes.c_float * (rows * self._columns)).from_address(address)
            view = self._views[rows] = np.frombuffer(memoryview(buffer), np.float32).reshape(rows, self._columns)
        return view
