"""Products of our own kernels: right, and a row's bits depend on the row alone."""

import re
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from omnidraft.backends.llama.kernels import library
from omnidraft.backends.llama.kernels.check import FORMATS, Product, chosen, quantized, wrong
from omnidraft.backends.llama.runtime import begin_call, ggml

VARIANTS = {  # what an x86-64 compiler can build besides this machine's own
    "avx2": ("-mavx2", "-mfma", "-mf16c"),
    "avx-vnni": ("-mavx2", "-mfma", "-mf16c", "-mavxvnni"),
    "avx-512": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512vnni", "-mfma", "-mf16c"),
    "plain": ("-msse2",),
}


@pytest.fixture(scope="module")
def ours() -> int:
    if library.registered() is None:
        pytest.skip(library.why_not())
    begin_call()
    return library.registered()


def multiplied(of: int, kind: str, raw: np.ndarray, shape: tuple, x: np.ndarray, threads: int = 1) -> np.ndarray:
    product = Product(of, kind, raw, shape, len(x), threads)
    try:
        return product.of(x)
    finally:
        product.close()


def some(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def in_large_pages() -> int:
    """kB of memory for which large pages were wished."""
    areas = re.findall(r"^Size: +(\d+) kB.*?^VmFlags: (.*?)$", Path("/proc/self/smaps").read_text(), re.M | re.S)
    return sum(int(size) for size, flags in areas if "hg" in flags.split())


def more_in_large_pages() -> int:
    raw, weights = quantized("Q8_0", some((1, 8192, 4608)))
    begin_call()
    before = in_large_pages()
    product = Product(library.registered(), "Q8_0", raw, weights.shape, 1)
    more = in_large_pages() - before
    product.close()
    return more


@pytest.mark.skipif(sys.platform != "linux", reason="where pages are chosen otherwise")
def test_weights_lie_in_large_pages_where_the_system_gives_them_on_request(ours):
    fresh = get_context("spawn")  # this process may have 40 MB left over that NumPy wished large pages for
    with ProcessPoolExecutor(1, mp_context=fresh) as process:
        assert process.submit(more_in_large_pages).result() > 36_000


@pytest.mark.parametrize("kind", FORMATS)
def test_a_row_has_the_same_bits_in_a_pass_of_any_width_on_one_thread_and_two(ours, kind):
    raw, weights = quantized(kind, some((1, 83, 768)))
    x = some((64, 768), 1)
    single = np.concatenate([multiplied(ours, kind, raw, weights.shape, row[None]) for row in x])
    for width in (*range(2, 34), 48, 63, 64):
        np.testing.assert_array_equal(multiplied(ours, kind, raw, weights.shape, x[:width], 2), single[:width])


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("columns", [256, 1536])
def test_the_error_is_not_larger_than_that_of_llama_cpps_own_kernels(ours, kind, columns):
    """Against float64 products of the dequantized weights; over ten matrices, one of which is like a real one's."""
    errors = np.zeros(2)
    for seed in range(10):
        spread = np.exp(some((1, 64, columns), 100 + seed)) if seed == 0 else 1.0
        raw, weights = quantized(kind, some((1, 64, columns), seed) * np.float32(spread))
        x = some((7, columns), 50 + seed)
        true = x.astype(np.float64) @ weights[0].astype(np.float64).T
        for place, buffer_type in enumerate((ours, ggml("backend_cpu_buffer_type")())):
            errors[place] += ((multiplied(buffer_type, kind, raw, weights.shape, x) - true) ** 2).mean() / (
                true**2
            ).mean()
    # Where both are float32 to the last bits (halves, which ours multiply in llama.cpp's buffers too) that is enough.
    assert np.sqrt(errors[0]) <= max(1.01 * np.sqrt(errors[1]), 1e-6)


@pytest.mark.parametrize("columns", [128, 100, 700])
def test_rows_of_the_cache_are_multiplied_alike_in_passes_of_any_width(ours, columns):
    """Halves in llama.cpp's own buffer, as keys and values are."""
    raw, weights = quantized("F16", some((1, 50, columns)))
    x = some((40, columns), 1)
    processor = ggml("backend_cpu_buffer_type")()
    single = np.concatenate([multiplied(processor, "F16", raw, weights.shape, row[None]) for row in x])
    np.testing.assert_allclose(single, x.astype(np.float64) @ weights[0].T, atol=1e-4)
    for width in (2, 7, 8, 9, 40):
        np.testing.assert_array_equal(multiplied(processor, "F16", raw, weights.shape, x[:width], 2), single[:width])


@pytest.mark.parametrize("kind", ["Q4_K", "Q5_0", "MXFP4", "F16", "F32"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 256), (15, 256), (17, 512), (33, 256)])
def test_matrices_of_any_number_of_rows_are_multiplied(ours, kind, rows, columns):
    raw, weights = quantized(kind, some((1, rows, columns)))
    x = some((3, columns), 1)
    expected = x.astype(np.float64) @ weights[0].T
    np.testing.assert_allclose(multiplied(ours, kind, raw, weights.shape, x), expected, atol=0.05 * np.sqrt(columns))


@pytest.mark.parametrize("kind", ["F16", "F32", "BF16"])
@pytest.mark.parametrize("columns", [1, 31, 33, 100])
def test_floats_may_have_any_number_of_columns(ours, kind, columns):
    raw, weights = quantized(kind, some((1, 20, columns)))
    x = some((9, columns), 1)
    expected = x.astype(np.float64) @ weights[0].T
    np.testing.assert_allclose(multiplied(ours, kind, raw, weights.shape, x), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["Q4_K", "Q8_0", "F16"])
def test_experts_get_the_rows_that_ask_for_them(ours, kind):
    raw, weights = quantized(kind, some((5, 40, 256)))
    for width in (1, 2, 9, 40):
        x = some((width, 256), 1)
        y = multiplied(ours, kind, raw, weights.shape, x)
        for row, experts in enumerate(chosen(width, 5)):
            for slot, expert in enumerate(experts):
                alone = multiplied(ours, kind, raw.reshape(5, 40, -1)[expert], (1, 40, 256), x[row : row + 1])
                np.testing.assert_array_equal(y[row, slot], alone[0])


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_K", "Q6_K", "Q8_0", "F16", "F32"])
def test_what_is_no_number_stays_in_its_row(ours, kind):
    """Infinite and undefined scales make a weight row's outputs so, and no others."""
    raw, weights = quantized(kind, some((1, 24, 256)))
    x = some((4, 256), 1)
    before = multiplied(ours, kind, raw, weights.shape, x)
    place = {"Q6_K": 208}.get(kind, 0)
    for bits in (0x7C00, 0x7E00) if kind != "F32" else (0x7F80, 0x7FC0):
        damaged = raw.copy()
        damaged[5, place + 2 * (kind == "F32") : place + 2 + 2 * (kind == "F32")] = (bits & 255, bits >> 8)
        after = multiplied(ours, kind, damaged, weights.shape, x)
        assert not np.isfinite(after[:, 5]).any()
        np.testing.assert_array_equal(np.delete(after, 5, 1), np.delete(before, 5, 1))


@pytest.mark.parametrize("kind", ["Q4_K", "Q8_0"])
def test_activations_that_are_no_numbers_stay_in_their_row(ours, kind):
    raw, weights = quantized(kind, some((1, 24, 256)))
    x = some((4, 256), 1)
    before = multiplied(ours, kind, raw, weights.shape, x)
    x[2, 7] = np.nan
    x[3] = 0
    after = multiplied(ours, kind, raw, weights.shape, x)
    np.testing.assert_array_equal(after[:2], before[:2])
    assert (after[3] == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_set_of_instructions_multiplies_right(variant, tmp_path):
    """Whatever the build's own check finds is the sentence; a processor without the instructions skips."""
    flags = (*VARIANTS[variant], "-mtune=generic")
    why = library.build(flags, tmp_path / f"{variant}.so")
    if "code -4" in why:
        pytest.skip(f"this processor has no {variant}")
    assert why == ""


def test_the_check_finds_products_that_are_wrong(ours):
    """What llama.cpp's own K-quant kernels do in wide passes is what the check is there to find."""
    assert list(wrong(ours, "Q4_K")) == []
    assert any("depend on how many" in sentence for sentence in wrong(ggml("backend_cpu_buffer_type")(), "Q4_K"))
