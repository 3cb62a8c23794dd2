// How a group of weight rows is multiplied with up to ROWS rows of activations: codes, whose products are exact, and
// floats. A tile of weights is unpacked once for all rows; every output is added up in one order, however many there are.
#pragma once
#include "formats.h"
#include <algorithm>
#include <cmath>

namespace {

// Activations of a chunk of columns: codes of -127 to 127, d what one of them is worth. Of both halves (or of all,
// in [0], where a format's chunks are not parted) the sum times d, and what the integer product of a row starts from,
// which is -bias times the sum. ROWS rows lie interleaved, chunk by chunk.
struct activations {
    int8_t code[CHUNK];
    int32_t start[2];
    float sum[2];
    float d;
};

// One block of activations, as ggml's Q8_0 and Q8_K have them: d = the largest size / 127, to the nearest.
template <class F> void quantize(const float *x, activations *to) {
    constexpr int parts = F::PARTS == 2 ? 2 : 1, of_chunk = CHUNK / LANES, of_part = of_chunk / parts;
    floats sizes{};
    for (int i = 0; i < block_columns<F>; i += LANES) {
        const floats size = (floats)(load<ints>(x + i) & 0x7fffffff);
        sizes = size > sizes ? size : sizes;
    }
    float most = 0;
    for (int i = 0; i < LANES; i++) most = std::max(most, sizes[i]);
    const float d = most / 127, by = most > 0 ? 127 / most : 0;
    for (int c = 0; c < F::CHUNKS; c++, to += ROWS) {
        UNROLL for (int part = 0; part < parts; part++) {
            ints sums{};
            UNROLL for (int i = part * of_part; i < (part + 1) * of_part; i++, x += LANES) {
                // Rounded by adding 1.5 * 2^23, whose last bit is worth one.
                const ints code = (ints)(load<floats>(x) * all(by) + all(12582912.0f)) - 0x4b400000;
                narrow(code, to->code + LANES * i);
                sums += code;
            }
            int32_t sum = 0;
            for (int i = 0; i < LANES; i++) sum += sums[i];
            to->start[part] = -bias<F> * sum, to->sum[part] = sum;
        }
        to->d = d;
    }
}

// sums[R][VECTORS] += the products of a part of a chunk with R rows of activations, exact.
template <class F, int R, bool UNPACKED>
inline void multiply_part(const uint8_t *lines, const activations *x, int part, ints (*sums)[VECTORS]) {
    constexpr int of_part = F::PARTS == 2 ? 4 : 8;
    constexpr int together = std::min(of_part, lines_in_a_partial(most<F>));
    UNROLL for (int first = 0; first < of_part; first += together) {
        partial partials[R][VECTORS];
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < VECTORS; v++) partials[r][v] = begin(sums[r][v]);
        UNROLL for (int i = 0; i < together; i++) {
            const int j = part * of_part + first + i;
            bytes codes[VECTORS];
            UNROLL for (int v = 0; v < VECTORS; v++)
                codes[v] = UNPACKED ? load<bytes>(lines + 64 * j + WIDTH * v) : line<F>(lines + WIDTH * v, j);
            UNROLL for (int r = 0; r < R; r++) {
                const int32_t a = four(x[r].code + 4 * j);
                UNROLL for (int v = 0; v < VECTORS; v++)
                    partials[r][v] = is_signed<F> ? step_signed(partials[r][v], codes[v], a) : step(partials[r][v], codes[v], a);
            }
        }
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < VECTORS; v++) sums[r][v] = end(sums[r][v], partials[r][v]);
    }
}

template <class F> inline floats scale_at(const uint8_t *head, int v) {
    const uint16_t *d = (const uint16_t *)head + LANES * v;
    return F::BF16 ? from_bf16(d) : from_halves(d);
}

constexpr int AHEAD = 2048;  // bytes that are fetched before they are needed

// y[R][GROUP] = the products of a group of weight rows (its heads and lines) with R rows of activations.
template <class F, int R, bool UNPACKED>
void tile(const uint8_t *head, const uint8_t *lines, int blocks, const activations *x, float (*y)[GROUP]) {
    constexpr int parts = F::PARTS == 2 ? 2 : 1, size = UNPACKED ? 512 : chunk_bytes<F>;
    floats sum[R][VECTORS] = {};
    for (int b = 0; b < blocks; b++, head += head_bytes<F>) {
        const int8_t *scales = (const int8_t *)head + 32 * (1 + F::LEAST);
        floats inner[R][VECTORS] = {};
        for (int c = 0; c < F::CHUNKS; c++, lines += size, x += ROWS)
            UNROLL for (int part = 0; part < parts; part++) {
                if (!UNPACKED) UNROLL for (int i = 64 * part; i < size; i += 64 * parts) __builtin_prefetch(lines + AHEAD + i);
                ints dot[R][VECTORS];
                UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < VECTORS; v++) dot[r][v] = bias<F> ? all(x[r].start[part]) : ints{};
                multiply_part<F, R, UNPACKED>(lines, x, part, dot);
                UNROLL for (int v = 0; v < VECTORS; v++) {
                    if constexpr (F::PARTS == 0) {
                        UNROLL for (int r = 0; r < R; r++) inner[r][v] = to_floats(dot[r][v]);
                    } else {
                        const floats scale = from_codes(scales + 16 * (c * parts + part) + LANES * v);
                        UNROLL for (int r = 0; r < R; r++) inner[r][v] = fma(to_floats(dot[r][v]), scale, inner[r][v]);
                    }
                }
            }
        const activations *of_block = x - F::CHUNKS * ROWS;
        UNROLL for (int v = 0; v < VECTORS; v++) {
            const floats d = scale_at<F>(head, v);
            UNROLL for (int r = 0; r < R; r++) sum[r][v] = fma(inner[r][v], d * all(of_block[r].d), sum[r][v]);
        }
        if constexpr (F::LEAST) UNROLL for (int v = 0; v < VECTORS; v++) {
            const floats m = scale_at<F>(head + 32, v);
            floats least[R] = {};
            if constexpr (F::PARTS == 0) {
                UNROLL for (int r = 0; r < R; r++) least[r] = all(of_block[r].sum[0]);
            } else UNROLL for (int i = 0; i < F::CHUNKS * parts; i++) {
                const floats value = from_codes((const uint8_t *)scales + 16 * (F::CHUNKS * parts + i) + LANES * v);
                UNROLL for (int r = 0; r < R; r++) least[r] = fma(value, all(of_block[i / parts * ROWS + r].sum[i % parts]), least[r]);
            }
            UNROLL for (int r = 0; r < R; r++) sum[r][v] = fma(least[r], m * all(of_block[r].d), sum[r][v]);
        }
    }
    memcpy(y, sum, sizeof sum);
}

// sums[R][VECTORS] of N columns of floats with R rows of activations, four one behind the other, those in pairs: what
// is lost by rounding grows with the number of sums that lie behind each other.
template <class F, int R, int N> inline void multiply_columns(const uint8_t *w, const float *x, floats (*sums)[VECTORS]) {
    if constexpr (N > 4) {
        floats second[R][VECTORS];
        multiply_columns<F, R, N / 2>(w, x, sums);
        multiply_columns<F, R, N / 2>(w + GROUP * F::BYTES * N / 2, x + ROWS * N / 2, second);
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < VECTORS; v++) sums[r][v] += second[r][v];
    } else {
        for (int i = 0; i < GROUP * F::BYTES * N; i += 64) __builtin_prefetch(w + AHEAD + i);
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < VECTORS; v++) sums[r][v] = floats{};
        UNROLL for (int k = 0; k < N; k++) UNROLL for (int v = 0; v < VECTORS; v++) {
            const floats weights = F::weights(w + F::BYTES * (GROUP * k + LANES * v));
            UNROLL for (int r = 0; r < R; r++) sums[r][v] = fma(weights, all(x[k * ROWS + r]), sums[r][v]);
        }
    }
}
// The same of floats, whose columns lie filled up to whole chunks.
template <class F, int R> void tile_of_floats(const uint8_t *w, int64_t columns, const float *x, float (*y)[GROUP]) {
    floats sum[R][VECTORS] = {}, of_block[R][VECTORS] = {}, of_chunk[R][VECTORS];
    for (int64_t first = 0; first < columns; first += CHUNK, w += GROUP * F::BYTES * CHUNK, x += CHUNK * ROWS) {
        multiply_columns<F, R, CHUNK>(w, x, of_chunk);
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < VECTORS; v++) of_block[r][v] += of_chunk[r][v];
        if (first % 256 < 256 - CHUNK && first + CHUNK < columns) continue;
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < VECTORS; v++) sum[r][v] += of_block[r][v], of_block[r][v] = floats{};
    }
    memcpy(y, sum, sizeof sum);
}

}  // namespace
