"""What a vision model sees with: its projector, run by llama.cpp's mtmd library, where the build has it.

Turns pictures into ids that stand for them (see `pictures`) and reads them into a llama.cpp context. Embeddings are
kept by content, so a second question about a picture costs no encoding. Knows nothing of prompts or of what else a
cache holds, but for where it holds pictures (`Positions`).
"""

from __future__ import annotations

import ctypes
import os
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import llama_cpp
import numpy as np

from omnidraft.backends.llama.runtime import AbortFlag, begin_call, failure_reason
from omnidraft.backends.pictures import FIRST, Picture
from omnidraft.errors import ModelError, PictureError
from omnidraft.vocab import llama_vocab

MOST_PICTURES = 32
_NO_EYES = (
    "This build of llama-cpp-python has no eyes (it was made without mtmd), so no model can be shown pictures; "
    "run `pip cache remove llama_cpp_python`, and install it again as the README says."
)
_ABORTED = 2  # llama.cpp's code for it


@cache
def mtmd_library() -> ModuleType | None:
    """mtmd; None where this build has none, so that no model sees pictures."""
    try:
        from llama_cpp import mtmd_cpp
    except (OSError, RuntimeError, AttributeError):  # the library is not there, or is another version's
        return None
    return mtmd_cpp


@dataclass(slots=True)
class _Stretch:
    """A part of a picture: mtmd's chunk, its rows, the positions they take, and (rows, width) embeddings once known."""

    chunk: Any
    rows: int
    positions: int
    embeddings: np.ndarray | None = None


class Eyes:
    """A projector beside a loaded model. model: llama.cpp's pointer to it; it must outlive this.

    widest: rows that a pass of the model computes at once; abort: ends the encoding of a picture when it is set. most:
    pictures that are kept; with more in one prompt the first would be gone before they are read.
    """

    most = MOST_PICTURES

    def __init__(self, path: Path, model: int, threads: int, widest: int, abort: AbortFlag) -> None:
        library = mtmd_library()
        if library is None:
            raise ModelError(_NO_EYES)
        self._mtmd: Any = library
        self._width = llama_cpp.llama_model_n_embd_inp(model)
        self._widest = widest
        self._abort = abort
        self._next = FIRST
        self._ids: OrderedDict[str, list[int]] = OrderedDict()  # of pictures, by their content; the oldest first
        self._stretches: dict[int, _Stretch] = {}  # by their first id
        llama_vocab.silence(library.mtmd_helper_log_set)
        begin_call()
        parameters = library.mtmd_context_params_default()
        parameters.n_threads = threads
        parameters.print_timings = False
        # Asked of each node whether it is to be looked at, and behind it whether to go on.
        self._goes_on = llama_cpp.ggml_backend_sched_eval_callback(lambda _, asks, __: asks or not abort.is_set)
        parameters.cb_eval = self._goes_on
        self._context = library.mtmd_init_from_file(os.fsencode(path), model, parameters)
        if not self._context:
            raise ModelError(f"The projector {path} does not serve this model: {failure_reason()}.")
        if not library.mtmd_support_vision(self._context):
            self.close()
            raise ModelError(f"The projector {path} is not one for pictures.")

    def ids(self, picture: Picture) -> list[int]:
        """What stands for a picture in a prompt: ids of this object's, between tokens that the model wants there."""
        if (known := self._ids.get(picture.digest)) is not None:
            self._ids.move_to_end(picture.digest)
            return known
        if len(self._ids) >= MOST_PICTURES:
            for id in self._ids.popitem(last=False)[1]:
                self._free(self._stretches.pop(id, None))
        ids = self._ids[picture.digest] = self._tokenized(picture)
        return ids

    def _tokenized(self, picture: Picture) -> list[int]:
        mtmd = self._mtmd
        begin_call()
        pixels = (ctypes.c_uint8 * len(picture.pixels)).from_buffer_copy(picture.pixels)
        bitmap = mtmd.mtmd_bitmap_init(picture.width, picture.height, pixels)
        chunks = mtmd.mtmd_input_chunks_init()
        try:
            marker = mtmd.mtmd_default_marker()
            text = mtmd.mtmd_input_text(marker, len(marker), False, True)
            bitmaps = (mtmd.mtmd_bitmap_p_ctypes * 1)(bitmap)
            if mtmd.mtmd_tokenize(self._context, chunks, ctypes.byref(text), bitmaps, 1):
                raise PictureError(f"The projector cannot take this picture: {failure_reason()}.")
            ids: list[int] = []
            for at in range(mtmd.mtmd_input_chunks_size(chunks)):
                ids += self._chunk_ids(mtmd.mtmd_input_chunks_get(chunks, at))
            return ids
        finally:
            mtmd.mtmd_input_chunks_free(chunks)
            mtmd.mtmd_bitmap_free(bitmap)

    def _chunk_ids(self, chunk: int) -> list[int]:
        mtmd = self._mtmd
        if mtmd.mtmd_input_chunk_get_type(chunk) == mtmd.MTMD_INPUT_CHUNK_TYPE_TEXT:
            count = ctypes.c_size_t()
            tokens = mtmd.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(count))
            return list(tokens[: count.value])
        rows = mtmd.mtmd_input_chunk_get_n_tokens(chunk)
        if rows > self._widest and mtmd.mtmd_decode_use_non_causal(self._context, chunk):
            raise PictureError(
                f"This model reads a picture of {rows} rows in one pass, and passes have {self._widest} at most."
            )
        first = self._next
        self._next += rows + 1  # ranges do not touch
        copied = mtmd.mtmd_input_chunk_copy(chunk)
        self._stretches[first] = _Stretch(copied, rows, mtmd.mtmd_input_chunk_get_n_pos(chunk))
        return list(range(first, first + rows))

    def read(self, first: int, context: int, position: int, capacity: int) -> tuple[int, int]:
        """Read the stretch that begins with this id into `context` at `position`: (code as of `llama_decode`, how
        many positions it takes)."""
        stretch = self._stretches[first]
        if stretch.embeddings is None:
            found = self._encoded(stretch)
            if self._abort.is_set:  # `found` may be half computed
                return _ABORTED, 0
            stretch.embeddings = found
        mtmd = self._mtmd
        embeddings = stretch.embeddings.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        behind = llama_cpp.llama_pos(0)
        nothing = mtmd.mtmd_helper_post_decode_callback()
        code = mtmd.mtmd_helper_decode_image_chunk(
            self._context,
            context,
            stretch.chunk,
            embeddings,
            position,
            0,
            capacity,
            ctypes.byref(behind),
            nothing,
            None,
        )
        return code, stretch.positions

    def _encoded(self, stretch: _Stretch) -> np.ndarray:
        begin_call()
        if self._mtmd.mtmd_encode_chunk(self._context, stretch.chunk):
            raise ModelError(f"The projector could not compute: {failure_reason()}.")
        found = self._mtmd.mtmd_get_output_embd(self._context)
        return np.ctypeslib.as_array(found, (stretch.rows, self._width)).copy()

    def _free(self, stretch: _Stretch | None) -> None:
        if stretch is not None:
            self._mtmd.mtmd_input_chunk_free(stretch.chunk)

    def close(self) -> None:
        """Free everything; harmless when repeated."""
        for stretch in self._stretches.values():
            self._free(stretch)
        self._stretches.clear()
        self._ids.clear()
        if self._context:
            self._mtmd.mtmd_free(self._context)
        self._context = None


class _Seen(NamedTuple):
    start: int  # rows before the picture
    end: int  # rows up to its end
    position: int  # of what follows it


class Positions:
    """Where tokens stand in a llama.cpp cache that holds pictures: one takes as many positions as its model counts for
    it, fewer than its rows where positions have three axes (M-RoPE). Everybody else counts rows.
    """

    def __init__(self) -> None:
        self._seen: list[_Seen] = []

    def behind(self, rows: int) -> int:
        """The position of what follows the first `rows` rows; ValueError inside a picture."""
        for seen in reversed(self._seen):
            if rows >= seen.end:
                return seen.position + rows - seen.end
            if rows > seen.start:
                raise ValueError(f"row {rows} is inside a picture")
        return rows

    def add(self, start: int, rows: int, positions: int) -> None:
        """A picture was read behind `start` rows."""
        self._seen.append(_Seen(start, start + rows, self.behind(start) + positions))

    def rows(self, last: int) -> int:
        """How many rows a cache holds whose last position is `last`."""
        for seen in reversed(self._seen):
            if last >= self.behind(seen.start):
                return seen.end + max(0, last + 1 - seen.position)
        return last + 1

    def cut(self, rows: int) -> None:
        """Everything behind `rows` rows was forgotten."""
        while self._seen and self._seen[-1].end > rows:
            del self._seen[-1]
