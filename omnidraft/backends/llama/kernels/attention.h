// Products of attention: keys, and values, of the cache (halves, as ggml keeps them) with queries, and their weights
// (floats). ggml computes every row by itself, and reads what many heads share once for each; here a row of the cache is
// read once for up to ROWS rows of all heads that share it. Sums run along the row, in one order whatever the width.
#pragma once
#include "inside_ggml.h"
#include "vectors.h"
#include <algorithm>

constexpr int64_t TOGETHER = 512;  // columns whose sums are added up before they join the others

// y[r][i] = the product of row i of the cache, I rows of `columns` halves `stride` bytes apart, with x[r].
template <int R, int I> void dot(const uint8_t *cache, size_t stride, int64_t columns, const float *const *x, float *const *y) {
    float total[I * R] = {}, added[I * R];
    floats sum[I * R];
    const auto add = [&](auto weights, auto queries) {
        floats w[I];
        UNROLL for (int i = 0; i < I; i++) w[i] = weights((const uint16_t *)(cache + i * stride));
        UNROLL for (int r = 0; r < R; r++) {
            const floats q = queries(x[r]);
            UNROLL for (int i = 0; i < I; i++) sum[i * R + r] = fma(w[i], q, sum[i * R + r]);
        }
    };
    for (int64_t first = 0; first < columns; first += TOGETHER) {
        const int64_t last = std::min(columns, first + TOGETHER), whole = first + (last - first) / LANES * LANES;
        std::fill(sum, sum + I * R, floats{});
        for (int64_t k = first; k < whole; k += LANES) {
            UNROLL for (int i = 0; i < I; i++) __builtin_prefetch(cache + (I + i) * stride + 2 * k);  // values lie far apart
            add([&](const uint16_t *row) { return from_halves(row + k); }, [&](const float *q) { return load<floats>(q + k); });
        }
        if (whole < last) {  // filled up with zeros
            const auto rest = [&](const auto *from, auto filled) { return memcpy(filled, from + whole, (last - whole) * sizeof *from); };
            add([&](const uint16_t *row) { uint16_t w[LANES] = {}; rest(row, w); return from_halves(w); },
                [&](const float *q) { float some[LANES] = {}; rest(q, some); return load<floats>(some); });
        }
        add_up<I * R>(sum, added);
        for (int j = 0; j < I * R; j++) total[j] += added[j];
    }
    for (int j = 0; j < I * R; j++) y[j % R][j / R] = total[j];
}

struct attention : ggml::cpu::tensor_traits {
    static bool fits(const ggml_tensor *op) {
        const ggml_tensor *w = op->src[0], *x = op->src[1];
        return op->op == GGML_OP_MUL_MAT && w->type == GGML_TYPE_F16 && x->type == GGML_TYPE_F32 && op->type == GGML_TYPE_F32
               && w->nb[0] == 2 && x->nb[0] == 4 && op->nb[0] == 4 && w->ne[3] == 1 && x->ne[3] == 1 && x->ne[2] % w->ne[2] == 0;
    }
    bool work_size(int, const ggml_tensor *, size_t &size) override { size = 0; return true; }
    bool compute_forward(ggml_compute_params *params, ggml_tensor *op) override {
        const ggml_tensor *w = op->src[0];
        if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, params->nth);
        ggml_barrier(params->threadpool);
        const int64_t piece = std::clamp<int64_t>(w->ne[1] / (4 * params->nth), 8, 64), pieces = (w->ne[1] + piece - 1) / piece;
        for (int64_t next = params->ith; next < pieces * w->ne[2]; next = ggml_threadpool_chunk_add(params->threadpool, 1))
            multiply(op, next / pieces, next % pieces * piece, std::min(w->ne[1], (next % pieces + 1) * piece));
        return true;
    }
    // Rows `begin` to `end` of the cache's `head` with all rows of the heads that share it.
    static void multiply(ggml_tensor *op, int64_t head, int64_t begin, int64_t end) {
        const ggml_tensor *w = op->src[0], *x = op->src[1];
        const int64_t sharing = x->ne[2] / w->ne[2], rows = x->ne[1] * sharing;
        for (int64_t first = 0; first < rows; first += ROWS) {
            const int count = (int)std::min<int64_t>(ROWS, rows - first);
            const float *from[ROWS];
            float *to[ROWS];
            for (int r = 0; r < count; r++) {
                const int64_t i1 = (first + r) % x->ne[1], i2 = head * sharing + (first + r) / x->ne[1];
                from[r] = (const float *)((const char *)x->data + i1 * x->nb[1] + i2 * x->nb[2]);
                to[r] = (float *)((char *)op->data + i1 * op->nb[1] + i2 * op->nb[2]) + begin;
            }
            with_constant<ROWS>(count, [&](auto r) {
                constexpr int together = std::min(8, 2 * ROWS / r);  // sums that registers hold
                const auto *cache = (const uint8_t *)w->data + begin * w->nb[1] + head * w->nb[2];
                const auto some = [&](auto i) {
                    dot<r, i>(cache, w->nb[1], w->ne[0], from, to);
                    cache += i * w->nb[1];
                    for (int row = 0; row < r; row++) to[row] += i;
                };
                int64_t left = end - begin;
                for (; left >= together; left -= together) some(std::integral_constant<int, together>());
                for (; left > 0; left--) some(std::integral_constant<int, 1>());
            });
        }
    }
};
