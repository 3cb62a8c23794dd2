"""Whether the products of a library (library.py) are right: `python -m omnidraft.backends.llama.kernels.check FILE`.

Run in a process of its own before the library is used: declarations of ggml's that do not fit this version, or a
compiler's mistake, show here. Multiplies random matrices of every format, one and several matrices at once, and
compares with float64 products of the same weights, and rows of wide passes with those of single ones.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator

import gguf
import numpy as np

from omnidraft.backends.llama.runtime import Memory, ggml

FORMATS = (
    "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4", "F16",
    "BF16", "F32",
)  # fmt: skip
WIDTHS = (1, 2, 3, 4, 5, 7, 8, 9, 16, 31)
_ROOM = 1 << 20  # bytes for the descriptions of tensors
_F32, _I32 = 0, 26
_WRONG = 0.05  # of the product's own size: rounding activations to eight bits moves it by a hundredth


class Product:
    """A product of `count` matrices (rows, columns) with `width` rows of activations, computed by ggml.

    buffer_type: what the weights lie in; matrices beyond one are experts, of which every row asks for two.
    """

    def __init__(
        self, buffer_type: int, kind: str, raw: np.ndarray, shape: tuple[int, int, int], width: int, threads: int = 2
    ) -> None:
        count, rows, columns = shape
        self._made = [ggml("init")(Memory(_ROOM, None, True)) for _ in range(2)]
        weights, graph = self._made
        w = ggml("new_tensor_3d")(weights, gguf.GGMLQuantizationType[kind], columns, rows, count)
        self._shape = (width, rows) if count == 1 else (width, 2, rows)
        if count == 1:
            self._x = ggml("new_tensor_2d")(graph, _F32, columns, width)
            self._y = ggml("mul_mat")(graph, w, self._x)
        else:
            self._x = ggml("new_tensor_3d")(graph, _F32, columns, 1, width)
            ids = ggml("new_tensor_2d")(graph, _I32, 2, width)
            self._y = ggml("mul_mat_id")(graph, w, self._x, ids)
        self._buffers = [ggml("backend_alloc_ctx_tensors_from_buft")(weights, buffer_type)]
        self._graph = ggml("new_graph")(graph)
        ggml("build_forward_expand")(self._graph, self._y)
        self._buffers.append(ggml("backend_alloc_ctx_tensors_from_buft")(graph, ggml("backend_cpu_buffer_type")()))
        _put(w, raw)
        if count > 1:
            _put(ids, chosen(width, count))
        self._backend = ggml("backend_cpu_init")()
        ggml("backend_cpu_set_n_threads")(self._backend, threads)

    def of(self, x: np.ndarray) -> np.ndarray:
        """(width, rows), with experts (width, 2, rows), of x (width, columns)."""
        _put(self._x, np.ascontiguousarray(x, np.float32))
        self.compute()
        y = np.empty(self._shape, np.float32)
        ggml("backend_tensor_get")(self._y, y.ctypes.data, 0, y.nbytes)
        return y

    def compute(self) -> None:
        if ggml("backend_graph_compute")(self._backend, self._graph):
            raise RuntimeError("ggml could not compute a product")

    def close(self) -> None:
        ggml("backend_free")(self._backend)
        for buffer in self._buffers:
            ggml("backend_buffer_free")(buffer)
        for made in self._made:
            ggml("free")(made)


def _put(tensor: int, values: np.ndarray) -> None:
    ggml("backend_tensor_set")(tensor, values.ctypes.data, 0, values.nbytes)


def chosen(width: int, count: int) -> np.ndarray:
    """The two experts that each row asks for: int32 (width, 2)."""
    return np.array([(row % count, (row * row + 1 + row) % count) for row in range(width)], np.int32)


def quantized(kind: str, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(bytes as a file has them, what they stand for) of float32 weights (..., columns)."""
    columns, kind_id = weights.shape[-1], gguf.GGMLQuantizationType[kind]
    rows = weights.reshape(-1, columns)
    raw = np.zeros((len(rows), ggml("row_size")(kind_id, columns)), np.uint8)
    source = np.ascontiguousarray(rows)
    ggml("quantize_chunk")(kind_id, source.ctypes.data, raw.ctypes.data, 0, len(rows), columns, None)
    return raw, gguf.dequantize(raw, kind_id).reshape(weights.shape)


def wrong(buffer_type: int, kind: str) -> Iterator[str]:
    """Sentences about what is wrong with this format's products."""
    random = np.random.default_rng(1)
    for count in (1, 3):
        raw, weights = quantized(kind, random.standard_normal((count, 75, 512)).astype(np.float32))
        x = random.standard_normal((max(WIDTHS), 512)).astype(np.float32)
        rows = {}
        for width in WIDTHS:
            product = Product(buffer_type, kind, raw, weights.shape, width)
            rows[width] = product.of(x[:width])
            product.close()
        wide = rows[max(WIDTHS)]
        if any((rows[width] != wide[:width]).any() for width in WIDTHS):
            yield f"rows of {kind} depend on how many there are"
        true = np.einsum("wk,enk->wen", x.astype(np.float64), weights.astype(np.float64))
        true = true[:, 0] if count == 1 else np.take_along_axis(true, chosen(len(x), count)[:, :, None], 1)
        if not np.sqrt(((wide - true) ** 2).mean()) < _WRONG * np.sqrt((true**2).mean()):
            yield f"products of {kind} are wrong"


def main() -> int:
    register = ctypes.CDLL(sys.argv[1]).omnidraft_register
    register.restype = ctypes.c_void_p
    buffer_type = register()
    found = next((sentence for kind in FORMATS for sentence in wrong(buffer_type, kind)), "")
    print(found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
