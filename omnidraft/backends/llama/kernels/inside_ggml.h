// What products.cpp needs of ggml beyond the public headers that llama-cpp-python installs: names and layouts of
// ggml 0.25, declared again. `check.py` multiplies with them in a process of its own before they are used anywhere.
#pragma once
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include <vector>

extern "C" {
struct ggml_backend_buffer_type {
    const char *(*get_name)(ggml_backend_buffer_type_t);
    ggml_backend_buffer_t (*alloc_buffer)(ggml_backend_buffer_type_t, size_t);
    size_t (*get_alignment)(ggml_backend_buffer_type_t);
    size_t (*get_max_size)(ggml_backend_buffer_type_t);
    size_t (*get_alloc_size)(ggml_backend_buffer_type_t, const ggml_tensor *);
    bool (*is_host)(ggml_backend_buffer_type_t);
    ggml_backend_dev_t device;
    void *context;
};
struct ggml_backend_buffer {
    void (*free_buffer)(ggml_backend_buffer_t);
    void *(*get_base)(ggml_backend_buffer_t);
    ggml_status (*init_tensor)(ggml_backend_buffer_t, ggml_tensor *);
    void (*memset_tensor)(ggml_backend_buffer_t, ggml_tensor *, uint8_t, size_t, size_t);
    void (*set_tensor)(ggml_backend_buffer_t, ggml_tensor *, const void *, size_t, size_t);
    void (*get_tensor)(ggml_backend_buffer_t, const ggml_tensor *, void *, size_t, size_t);
    void *set_tensor_2d, *get_tensor_2d;
    bool (*cpy_tensor)(ggml_backend_buffer_t, const ggml_tensor *, ggml_tensor *);
    void (*clear)(ggml_backend_buffer_t, uint8_t);
    void (*reset)(ggml_backend_buffer_t);
    ggml_backend_buffer_type_t buft;
    void *context;
    size_t size;
    enum ggml_backend_buffer_usage usage;
};
struct ggml_compute_params {
    int ith, nth;  // this thread of so many
    size_t wsize;
    void *wdata;  // shared by all threads
    struct ggml_threadpool *threadpool;
    bool use_ref;
};
void ggml_barrier(struct ggml_threadpool *);
void ggml_threadpool_chunk_set(struct ggml_threadpool *, int);
int ggml_threadpool_chunk_add(struct ggml_threadpool *, int);
}
namespace ggml::cpu {
class tensor_traits {
  public:
    virtual ~tensor_traits();
    virtual bool work_size(int threads, const ggml_tensor *op, size_t &size) = 0;
    virtual bool compute_forward(ggml_compute_params *params, ggml_tensor *op) = 0;
};
class extra_buffer_type {
  public:
    virtual ~extra_buffer_type();
    virtual bool supports_op(ggml_backend_dev_t device, const ggml_tensor *op) = 0;
    virtual tensor_traits *get_tensor_traits(const ggml_tensor *op) = 0;
};
}  // namespace ggml::cpu
std::vector<ggml_backend_buffer_type_t> &ggml_backend_cpu_get_extra_buffer_types();
