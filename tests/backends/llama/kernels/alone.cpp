// The kernels' products without ggml around them: for processors that are only emulated, and for sanitizers.
// alone TYPE COLUMNS ROWS MATRICES WIDTH ROW_SIZE < weights as a file has them, floats, experts > floats
#include "products.cpp"
#include <cstdio>
#include <cstdlib>

extern "C" {
int taken;
void ggml_barrier(struct ggml_threadpool *) {}
void ggml_threadpool_chunk_set(struct ggml_threadpool *, int value) { taken = value; }
int ggml_threadpool_chunk_add(struct ggml_threadpool *, int value) { taken += value; return taken - value; }
int64_t ggml_nrows(const ggml_tensor *t) { return t->ne[1] * t->ne[2] * t->ne[3]; }
bool ggml_is_contiguous(const ggml_tensor *) { return true; }
size_t size_in_file;
size_t ggml_nbytes(const ggml_tensor *) { return size_in_file; }
void ggml_abort(const char *, int, const char *, ...) { abort(); }
ggml_backend_buffer_t ggml_backend_buft_alloc_buffer(ggml_backend_buffer_type_t, size_t) { return nullptr; }
ggml_backend_buffer_type_t ggml_backend_cpu_buffer_type(void) { return nullptr; }
bool ggml_backend_buft_is_host(ggml_backend_buffer_type_t) { return true; }
ggml_backend_reg_t ggml_backend_cpu_reg(void) { return nullptr; }
ggml_backend_dev_t ggml_backend_reg_dev_get(ggml_backend_reg_t, size_t) { return nullptr; }
}
ggml::cpu::tensor_traits::~tensor_traits() {}
ggml::cpu::extra_buffer_type::~extra_buffer_type() {}
std::vector<ggml_backend_buffer_type_t> &ggml_backend_cpu_get_extra_buffer_types() {
    static std::vector<ggml_backend_buffer_type_t> none;
    return none;
}

static ggml_tensor tensor(ggml_type type, int64_t n0, int64_t n1, int64_t n2, size_t nb0, size_t nb1) {
    ggml_tensor t{};
    t.type = type;
    const int64_t ne[4] = {n0, n1, n2, 1};
    const size_t nb[4] = {nb0, nb1, nb1 * n1, nb1 * n1 * n2};
    std::copy(ne, ne + 4, t.ne), std::copy(nb, nb + 4, t.nb);
    return t;
}
template <class T> static std::vector<T> read(size_t count) {
    std::vector<T> values(count);
    if (fread(values.data(), sizeof(T), count, stdin) != count) exit(2);
    return values;
}

int main(int, char **argument) {
    const auto type = (ggml_type)atoi(argument[1]);
    const int64_t columns = atoi(argument[2]), rows = atoi(argument[3]), matrices = atoi(argument[4]), width = atoi(argument[5]);
    const size_t row_size = atoi(argument[6]), used = matrices > 1 ? 2 : 1;
    ggml_tensor w = tensor(type, columns, rows, matrices, 0, row_size);
    size_in_file = row_size * rows * matrices;
    auto raw = read<uint8_t>(size_in_file);
    auto values = read<float>(columns * width);
    auto chosen = read<int32_t>(matrices > 1 ? 2 * width : 0);
    w.extra = product_of(&w);
    auto *memory = (uint8_t *)aligned_alloc(64, aligned(laid_out_bytes(nullptr, &w)));
    w.data = memory;
    set_tensor(nullptr, &w, raw.data(), 0, raw.size());

    ggml_tensor x = tensor(GGML_TYPE_F32, columns, matrices > 1 ? 1 : width, matrices > 1 ? width : 1, 4, 4 * columns);
    ggml_tensor y = tensor(GGML_TYPE_F32, rows, matrices > 1 ? used : width, matrices > 1 ? width : 1, 4, 4 * rows);
    ggml_tensor ids = tensor(GGML_TYPE_I32, 2, width, 1, 4, 8);
    std::vector<float> out(rows * width * used);
    x.data = values.data(), y.data = out.data(), ids.data = chosen.data();
    y.op = matrices > 1 ? GGML_OP_MUL_MAT_ID : GGML_OP_MUL_MAT;
    y.src[0] = &w, y.src[1] = &x, y.src[2] = matrices > 1 ? &ids : nullptr;
    auto *p = (product *)w.extra;
    size_t needed = 0;
    p->work_size(1, &y, needed);
    std::vector<uint8_t> work(needed);
    ggml_compute_params params{0, 1, needed, work.data(), nullptr, false};
    p->compute_forward(&params, &y);
    fwrite(out.data(), 4, out.size(), stdout);
    free(memory);
    return 0;
}
