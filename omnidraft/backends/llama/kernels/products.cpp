// Products of weights with few or many rows of activations, for ggml's processor backend: a buffer type of its own in
// ggml's list of layouts, so that it runs in ggml's own threads and graphs.
//
// A pass of a language model reads all weights once; this is what takes time, so a tile of weights is unpacked once and
// multiplied with up to ROWS rows of activations. Every output is added up in one order, however many rows a pass has,
// so that no bit of a row depends on its neighbours. tiles.h multiplies, vectors.h has what differs between instruction
// sets, formats.h how weights lie; nothing here knows models or drafts.
#include "attention.h"
#include "tiles.h"
#include <thread>
#ifdef __linux__
#include <sys/mman.h>
#endif

namespace {

// What a matrix in this buffer type is computed by. Rows of activations are prepared once (`row_bytes` each), then any
// thread multiplies groups of weight rows with them; `unpack` pays from some rows on.
struct product : ggml::cpu::tensor_traits {
    virtual int columns_of_block() const = 0;
    virtual size_t group_bytes(int64_t columns) const = 0;
    virtual size_t row_bytes(int64_t columns) const = 0;
    virtual size_t unpacked_bytes(int64_t) const { return 0; }  // 0: is not unpacked
    virtual void lay_out(const uint8_t *rows, size_t row_size, int count, int64_t columns, uint8_t *group) const = 0;
    virtual void prepare(const float *x, int64_t columns, int row, void *tile) const = 0;
    virtual void unpack(const uint8_t *, int64_t, uint8_t *) const {}
    // unpacked: of this group, or null. rows <= ROWS.
    virtual void multiply(const uint8_t *group, const uint8_t *unpacked, int64_t columns, const void *x, int rows, float (*y)[GROUP]) const = 0;
    bool work_size(int threads, const ggml_tensor *op, size_t &size) override;
    bool compute_forward(ggml_compute_params *params, ggml_tensor *op) override;
};

template <class F> struct quantized : product {
    static int blocks(int64_t columns) { return (int)(columns / block_columns<F>); }
    static size_t heads(int64_t columns) { return aligned(blocks(columns) * head_bytes<F>); }
    int columns_of_block() const override { return block_columns<F>; }
    size_t group_bytes(int64_t columns) const override { return heads(columns) + columns / CHUNK * chunk_bytes<F>; }
    size_t row_bytes(int64_t columns) const override { return columns / CHUNK * sizeof(activations); }
    size_t unpacked_bytes(int64_t columns) const override { return F::LOW == 8 ? 0 : columns * GROUP; }
    void lay_out(const uint8_t *rows, size_t row_size, int count, int64_t columns, uint8_t *group) const override {
        memset(group, 0, group_bytes(columns));
        block one{};
        for (int r = 0; r < count; r++)
            for (int b = 0; b < blocks(columns); b++) {
                F::read(rows + r * row_size + b * F::BYTES, one);
                ::lay_out<F>(one, r, group + b * head_bytes<F>, group + heads(columns) + b * F::CHUNKS * chunk_bytes<F>);
            }
    }
    void prepare(const float *x, int64_t columns, int row, void *tile) const override {
        for (int b = 0; b < blocks(columns); b++)
            quantize<F>(x + b * block_columns<F>, (activations *)tile + b * F::CHUNKS * ROWS + row);
    }
    void unpack(const uint8_t *group, int64_t columns, uint8_t *to) const override {
        const uint8_t *lines = group + heads(columns);
        for (int64_t c = 0; c < columns / CHUNK; c++, lines += chunk_bytes<F>, to += 512)
            UNROLL for (int j = 0; j < 8; j++) UNROLL for (int v = 0; v < VECTORS; v++) {
                const bytes codes = line<F>(lines + WIDTH * v, j);
                memcpy(to + 64 * j + WIDTH * v, &codes, WIDTH);
            }
    }
    void multiply(const uint8_t *group, const uint8_t *unpacked, int64_t columns, const void *x, int rows, float (*y)[GROUP]) const override {
        const auto *from = (const activations *)x;
        if (unpacked && rows == ROWS) return tile<F, ROWS, true>(group, unpacked, blocks(columns), from, y);
        with_constant<ROWS>(rows, [&](auto r) { tile<F, r, false>(group, group + heads(columns), blocks(columns), from, y); });
    }
};

template <class F> struct floating : product {
    static int64_t filled(int64_t columns) { return (columns + CHUNK - 1) / CHUNK * CHUNK; }
    int columns_of_block() const override { return 1; }
    size_t group_bytes(int64_t columns) const override { return filled(columns) * GROUP * F::BYTES; }
    size_t row_bytes(int64_t columns) const override { return filled(columns) * sizeof(float); }
    void lay_out(const uint8_t *rows, size_t row_size, int count, int64_t columns, uint8_t *group) const override {
        memset(group, 0, group_bytes(columns));
        for (int64_t k = 0; k < columns; k++)
            for (int r = 0; r < count; r++) memcpy(group + F::BYTES * (GROUP * k + r), rows + r * row_size + F::BYTES * k, F::BYTES);
    }
    void prepare(const float *x, int64_t columns, int row, void *tile) const override {
        for (int64_t k = 0; k < filled(columns); k++) ((float *)tile)[k * ROWS + row] = k < columns ? x[k] : 0;
    }
    void multiply(const uint8_t *group, const uint8_t *, int64_t columns, const void *x, int rows, float (*y)[GROUP]) const override {
        with_constant<ROWS>(rows, [&](auto r) { tile_of_floats<F, r>(group, columns, (const float *)x, y); });
    }
};

// How the work buffer of one operation is divided. Rows of activations are sorted by the matrix (expert) they go to, in
// tiles of ROWS; the last tile of a matrix may have places without a row.
struct plan {
    int64_t columns, outputs, matrices, rows, groups, places;
    size_t tile_bytes, unpacked_bytes, size;
    int32_t *order, *first, *count;  // the row (or -1) in each place; of each matrix the first place, and how many rows
    uint8_t *x, *unpacked;

    plan(const product &p, const ggml_tensor *op, int threads, void *work) {
        const ggml_tensor *w = op->src[0];
        columns = w->ne[0], outputs = w->ne[1], matrices = w->ne[2];
        rows = ggml_nrows(op), groups = (outputs + GROUP - 1) / GROUP;
        places = matrices == 1 ? (rows + ROWS - 1) / ROWS * ROWS : rows + std::min(rows, matrices) * (ROWS - 1);
        places = (places + ROWS - 1) / ROWS * ROWS;
        tile_bytes = p.row_bytes(columns) * ROWS, unpacked_bytes = aligned(p.unpacked_bytes(columns));
        const size_t ordered = aligned(4 * places), of_matrices = aligned(4 * matrices), tiles = places / ROWS * tile_bytes;
        order = (int32_t *)aligned((size_t)work);
        first = (int32_t *)((uint8_t *)order + ordered);
        count = (int32_t *)((uint8_t *)first + of_matrices);
        x = (uint8_t *)count + of_matrices;
        unpacked = x + aligned(tiles);
        size = 64 + ordered + 2 * of_matrices + aligned(tiles) + threads * unpacked_bytes;
    }
};

void sort_rows(const plan &plan, const ggml_tensor *ids) {  // by counting, each matrix's rows in the order they come
    const auto matrix_of = [&](int64_t row) -> int32_t {
        if (!ids) return 0;
        const int64_t slot = row % ids->ne[0], token = row / ids->ne[0];
        return *(const int32_t *)((const char *)ids->data + slot * ids->nb[0] + token * ids->nb[1]);
    };
    std::fill(plan.count, plan.count + plan.matrices, 0);
    std::fill(plan.order, plan.order + plan.places, -1);
    for (int64_t row = 0; row < plan.rows; row++) plan.count[matrix_of(row)]++;
    for (int64_t m = 0, place = 0; m < plan.matrices; m++) {
        plan.first[m] = (int32_t)place;
        place += (plan.count[m] + ROWS - 1) / ROWS * ROWS;
        plan.count[m] = 0;
    }
    for (int64_t row = 0; row < plan.rows; row++) {
        const int32_t m = matrix_of(row);
        plan.order[plan.first[m] + plan.count[m]++] = (int32_t)row;
    }
}

// Where the activations of a row of `op` lie; with experts every one of a token's may share them.
const float *source_of(const ggml_tensor *op, int64_t row) {
    const ggml_tensor *x = op->src[1];
    const int64_t i1 = row % op->ne[1], i2 = row / op->ne[1] % op->ne[2], i3 = row / op->ne[1] / op->ne[2];
    return (const float *)((const char *)x->data + i1 % x->ne[1] * x->nb[1] + i2 * x->nb[2] + i3 * x->nb[3]);
}
float *target_of(const ggml_tensor *op, int64_t row) {
    const int64_t i1 = row % op->ne[1], i2 = row / op->ne[1] % op->ne[2], i3 = row / op->ne[1] / op->ne[2];
    return (float *)((char *)op->data + i1 * op->nb[1] + i2 * op->nb[2] + i3 * op->nb[3]);
}

constexpr size_t CACHED = 1 << 20;  // bytes of activations that stay in a core's cache while weights pass by

void multiply_groups(const product &p, const plan &plan, const ggml_tensor *op, int64_t matrix, int64_t begin, int64_t end, uint8_t *unpacked) {
    const size_t group_bytes = p.group_bytes(plan.columns);
    const auto *weights = (const uint8_t *)op->src[0]->data + matrix * plan.groups * group_bytes;
    const int64_t together = std::max<int64_t>(1, CACHED / plan.tile_bytes) * ROWS, last = plan.first[matrix] + plan.count[matrix];
    for (int64_t m0 = plan.first[matrix]; m0 < last; m0 += together)
        for (int64_t g = begin; g < end; g++) {
            const uint8_t *group = weights + g * group_bytes;
            const int64_t m1 = std::min(last, m0 + together);
            const bool unpacks = plan.unpacked_bytes && m1 - m0 >= 3 * ROWS;
            if (unpacks) p.unpack(group, plan.columns, unpacked);
            for (int64_t m = m0; m < m1; m += ROWS) {
                const int count = (int)std::min<int64_t>(ROWS, m1 - m);
                float y[ROWS][GROUP];
                p.multiply(group, unpacks ? unpacked : nullptr, plan.columns, plan.x + m / ROWS * plan.tile_bytes, count, y);
                const size_t written = 4 * std::min<int64_t>(GROUP, plan.outputs - g * GROUP);
                for (int r = 0; r < count; r++) memcpy(target_of(op, plan.order[m + r]) + g * GROUP, y[r], written);
            }
        }
}

bool product::work_size(int threads, const ggml_tensor *op, size_t &size) {
    size = plan(*this, op, threads, nullptr).size;
    return true;
}

bool product::compute_forward(ggml_compute_params *params, ggml_tensor *op) {
    const plan plan(*this, op, params->nth, params->wdata);
    const ggml_tensor *ids = op->op == GGML_OP_MUL_MAT_ID ? op->src[2] : nullptr;
    if (params->ith == 0) {
        sort_rows(plan, ids);
        ggml_threadpool_chunk_set(params->threadpool, params->nth);
    }
    if (ids) ggml_barrier(params->threadpool);  // others need the order; without ids it is known
    for (int64_t place = params->ith; place < plan.places; place += params->nth) {
        const int64_t row = ids ? plan.order[place] : place < plan.rows ? place : -1;
        if (row >= 0) prepare(source_of(op, row), plan.columns, place % ROWS, plan.x + place / ROWS * plan.tile_bytes);
    }
    ggml_barrier(params->threadpool);
    // Pieces of work are taken one by one, so that a thread without a core holds nobody up; neighbours in memory.
    const int64_t piece = std::clamp<int64_t>(plan.groups / (4 * params->nth), 1, 16), pieces = (plan.groups + piece - 1) / piece;
    uint8_t *unpacked = plan.unpacked + params->ith * plan.unpacked_bytes;
    for (int64_t next = params->ith; next < pieces * plan.matrices; next = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        const int64_t matrix = next / pieces, begin = next % pieces * piece;
        if (plan.count[matrix] > 0)
            multiply_groups(*this, plan, op, matrix, begin, std::min(begin + piece, plan.groups), unpacked);
    }
    return true;
}

template <class P> product *the() { static P one; return &one; }

product *product_for(ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q4_0: return the<quantized<Q4_0>>();
        case GGML_TYPE_Q4_1: return the<quantized<Q4_1>>();
        case GGML_TYPE_Q5_0: return the<quantized<Q5_0>>();
        case GGML_TYPE_Q5_1: return the<quantized<Q5_1>>();
        case GGML_TYPE_Q8_0: return the<quantized<Q8_0>>();
        case GGML_TYPE_Q2_K: return the<quantized<Q2_K>>();
        case GGML_TYPE_Q3_K: return the<quantized<Q3_K>>();
        case GGML_TYPE_Q4_K: return the<quantized<Q4_K>>();
        case GGML_TYPE_Q5_K: return the<quantized<Q5_K>>();
        case GGML_TYPE_Q6_K: return the<quantized<Q6_K>>();
        case GGML_TYPE_IQ4_NL: return the<quantized<IQ4_NL>>();
        case GGML_TYPE_IQ4_XS: return the<quantized<IQ4_XS>>();
        case GGML_TYPE_MXFP4: return the<quantized<MXFP4>>();
        case GGML_TYPE_F16: return the<floating<F16>>();
        case GGML_TYPE_BF16: return the<floating<BF16>>();
        case GGML_TYPE_F32: return the<floating<F32>>();
        default: return nullptr;
    }
}
product *product_of(const ggml_tensor *w) {
    product *p = product_for(w->type);
    const bool fits = p && w->ne[0] > 0 && w->ne[0] % p->columns_of_block() == 0 && w->ne[1] > 0 && w->ne[3] == 1 && ggml_is_contiguous(w);
    return fits ? p : nullptr;
}

// The buffer type: ggml's own memory for the processor, with weights laid out as they are set.

ggml_backend_buffer_type_t buffer_type();

size_t laid_out_bytes(ggml_backend_buffer_type_t, const ggml_tensor *w) {
    const product *p = product_of(w);
    if (!p) return ggml_nbytes(w);
    return std::max(ggml_nbytes(w), p->group_bytes(w->ne[0]) * ((w->ne[1] + GROUP - 1) / GROUP) * w->ne[2]);
}
ggml_status init_tensor(ggml_backend_buffer_t, ggml_tensor *w) {
    w->extra = product_of(w);
    return GGML_STATUS_SUCCESS;
}
void set_tensor(ggml_backend_buffer_t, ggml_tensor *w, const void *data, size_t offset, size_t size) {
    const auto *p = (const product *)w->extra;
    GGML_ASSERT(p && offset == 0 && size == ggml_nbytes(w));
    const int64_t of_matrix = (w->ne[1] + GROUP - 1) / GROUP, groups = of_matrix * w->ne[2];
    const auto some = [=](int64_t begin, int64_t end) {
        for (int64_t g = begin; g < end; g++) {
            const int64_t row = g / of_matrix * w->ne[1] + g % of_matrix * GROUP;
            const int count = (int)std::min<int64_t>(GROUP, w->ne[1] - g % of_matrix * GROUP);
            p->lay_out((const uint8_t *)data + row * w->nb[1], w->nb[1], count, w->ne[0], (uint8_t *)w->data + g * p->group_bytes(w->ne[0]));
        }
    };
    const int64_t most = std::min<int64_t>(std::thread::hardware_concurrency(), size >> 18);  // others are not worth it
    std::vector<std::thread> helpers;
    for (int64_t i = 1; i < most; i++) helpers.emplace_back(some, groups * i / most, groups * (i + 1) / most);
    some(0, groups / std::max<int64_t>(1, most));
    for (auto &helper : helpers) helper.join();
}
const char *name_of(ggml_backend_buffer_type_t) { return "OmniDraft"; }
// A pass reads gigabytes in order: looking up small pages makes one of a row a tenth longer.
void use_huge_pages(void *base, size_t size) {
#ifdef __linux__
    const size_t page = 1 << 21, from = ((size_t)base + page - 1) / page * page, to = ((size_t)base + size) / page * page;
    if (to > from) madvise((void *)from, to - from, MADV_HUGEPAGE);  // a wish: without them it works as well
#endif
}
ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, size_t size) {
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
    if (!buffer) return buffer;
    use_huge_pages(ggml_backend_buffer_get_base(buffer), size);
    buffer->buft = type, buffer->init_tensor = init_tensor, buffer->set_tensor = set_tensor;
    buffer->get_tensor = nullptr, buffer->cpy_tensor = nullptr;
    return buffer;
}
size_t alignment(ggml_backend_buffer_type_t) { return 64; }

bool is_ours(const ggml_tensor *w) { return w && w->buffer && w->buffer->buft == buffer_type(); }

struct layouts : ggml::cpu::extra_buffer_type {
    bool supports_op(ggml_backend_dev_t, const ggml_tensor *op) override {
        const ggml_tensor *w = op->src[0], *x = op->src[1];
        if (!is_ours(w) || !product_of(w) || w->view_src || x->type != GGML_TYPE_F32 || x->nb[0] != sizeof(float)) return false;
        if (x->buffer && !ggml_backend_buft_is_host(x->buffer->buft)) return false;
        if (w->ne[1] == 1) return false;  // also the scales of a matrix, which llama.cpp's table of products names like it
        return op->op == GGML_OP_MUL_MAT_ID || (op->op == GGML_OP_MUL_MAT && w->ne[2] == 1);
    }
    ggml::cpu::tensor_traits *get_tensor_traits(const ggml_tensor *op) override {
        if (op->op != GGML_OP_MUL_MAT && op->op != GGML_OP_MUL_MAT_ID) return nullptr;
        if (is_ours(op->src[0])) return (product *)op->src[0]->extra;
        static attention attends;
        return attention::fits(op) ? &attends : nullptr;
    }
};

ggml_backend_buffer_type_t buffer_type() {
    static ggml_backend_buffer_type type = {
        name_of, allocate, alignment, nullptr, laid_out_bytes, nullptr, ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0), new layouts};
    return &type;
}

}  // namespace

// The buffer type, first in ggml's list of what weights on the processor may lie in, from now on.
extern "C" __attribute__((visibility("default"))) ggml_backend_buffer_type_t omnidraft_register() {
    auto &listed = ggml_backend_cpu_get_extra_buffer_types();
    if (std::find(listed.begin(), listed.end(), buffer_type()) == listed.end()) listed.insert(listed.begin(), buffer_type());
    return buffer_type();
}

// Reads so many bytes with so many threads, a share each, and keeps nothing.
extern "C" __attribute__((visibility("default"))) void omnidraft_read(const uint8_t *memory, size_t size, int threads) {
    std::vector<std::thread> readers;
    for (int i = 0; i < threads; i++)
        readers.emplace_back([=] {
            ints sum[4] = {};
            const size_t share = size / threads / (4 * WIDTH) * (4 * WIDTH);
            for (const uint8_t *p = memory + i * share, *end = p + share; p < end; p += 4 * WIDTH)
                UNROLL for (int v = 0; v < 4; v++) sum[v] += load<ints>(p + WIDTH * v);
            volatile int32_t kept = sum[0][0] + sum[1][0] + sum[2][0] + sum[3][0];
            (void)kept;
        });
    for (auto &reader : readers) reader.join();
}
