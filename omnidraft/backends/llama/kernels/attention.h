// Products of attention: keys, and values, of the cache (halves, as ggml keeps them) with queries, and their weights
// (floats). ggml computes every row by itself, and reads what many heads share once for each; here a row of the cache is
// read once for up to ROWS rows of all heads that share it. Sums run along the row, in one order whatever the width.
#pragma once
#include "inside_ggml.h"
#include "vectors.h"
#include <algorithm>

constexpr int64_t TOGETHER = 512;  // columns whose sums are added up before they join the others

// y[r][0] = the product of one row of the cache with x[r], both of `columns`.
template <int R> void dot(const uint16_t *row, int64_t columns, const float *const *x, float *const *y) {
    float total[R] = {};
    for (int64_t first = 0; first < columns; first += TOGETHER) {
        const int64_t last = std::min(columns, first + TOGETHER), whole = first + (last - first) / LANES * LANES;
        floats sum[R] = {};
        for (int64_t k = first; k < whole; k += LANES) {
            const floats w = from_halves(row + k);
            UNROLL for (int r = 0; r < R; r++) sum[r] = fma(w, load<floats>(x[r] + k), sum[r]);
        }
        if (whole < last) {  // filled up with zeros
            uint16_t halves[LANES] = {};
            memcpy(halves, row + whole, 2 * (last - whole));
            UNROLL for (int r = 0; r < R; r++) {
                float rest[LANES] = {};
                memcpy(rest, x[r] + whole, 4 * (last - whole));
                sum[r] = fma(from_halves(halves), load<floats>(rest), sum[r]);
            }
        }
        UNROLL for (int r = 0; r < R; r++) total[r] += added_up(sum[r]);
    }
    UNROLL for (int r = 0; r < R; r++) *y[r] = total[r];
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
            for (int64_t i = begin; i < end; i++) {
                const auto *row = (const uint16_t *)((const char *)w->data + i * w->nb[1] + head * w->nb[2]);
                with_constant<ROWS>(count, [&](auto r) { dot<r>(row, w->ne[0], from, to); });
                for (int r = 0; r < count; r++) to[r]++;
            }
        }
    }
};
