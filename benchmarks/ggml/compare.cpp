// Runs operations of ggml on the GPU and on the CPU and compares what they compute.
//
// Prints each operation that differs, then PASS or FAIL; exits with 0 or 1. `compare NAME` runs one of them.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml-cuda.h"
#include "ggml.h"

namespace {

ggml_backend_t gpu, cpu;
const char *only = nullptr;
int passed = 0, failed = 0;
std::mt19937 noise(1);

// Values that all differ, so that sorting them has one result.
std::vector<float> values(size_t count) {
    std::vector<float> out(count);
    for (size_t i = 0; i < count; ++i) out[i] = 2.0f * i / count - 1;
    std::shuffle(out.begin(), out.end(), noise);
    return out;
}

// Indices from 0 to 3; two of one row differ, as the experts of one token do.
std::vector<int32_t> indices(const ggml_tensor *tensor) {
    std::vector<int32_t> out(ggml_nelements(tensor));
    for (size_t i = 0; i < out.size(); ++i) out[i] = tensor->ne[0] == 2 ? (i / 2 + i % 2) % 4 : noise() % 4;
    return out;
}

void fill(ggml_tensor *tensor) {
    if (tensor->type == GGML_TYPE_I32) {
        ggml_backend_tensor_set(tensor, indices(tensor).data(), 0, ggml_nbytes(tensor));
        return;
    }
    const auto plain = values(ggml_nelements(tensor));
    std::vector<uint8_t> bytes(ggml_nbytes(tensor));
    if (tensor->type == GGML_TYPE_F32) {
        std::memcpy(bytes.data(), plain.data(), bytes.size());
    } else {
        const std::vector<float> weights(tensor->ne[0], 1.0f);
        const int64_t rows = plain.size() / tensor->ne[0];
        ggml_quantize_chunk(tensor->type, plain.data(), bytes.data(), 0, rows, tensor->ne[0], weights.data());
    }
    ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
}

std::vector<float> contents(const ggml_tensor *tensor) {
    std::vector<uint8_t> bytes(ggml_nbytes(tensor));
    ggml_backend_tensor_get(tensor, bytes.data(), 0, bytes.size());
    std::vector<float> out(ggml_nelements(tensor));
    for (size_t i = 0; i < out.size(); ++i) {
        switch (tensor->type) {
        case GGML_TYPE_F32: out[i] = reinterpret_cast<const float *>(bytes.data())[i]; break;
        case GGML_TYPE_I32: out[i] = reinterpret_cast<const int32_t *>(bytes.data())[i]; break;
        case GGML_TYPE_F16: out[i] = ggml_fp16_to_fp32(reinterpret_cast<const ggml_fp16_t *>(bytes.data())[i]); break;
        default: std::printf("no way to read a %s\n", ggml_type_name(tensor->type)); std::exit(2);
        }
    }
    return out;
}

// The square of the difference over the square of what the CPU computes; `worst` keeps the largest of all nodes.
bool difference(int, ggml_tensor *of_gpu, ggml_tensor *of_cpu, void *worst) {
    if (!ggml_is_contiguous(of_gpu)) return true;
    const auto got = contents(of_gpu), wanted = contents(of_cpu);
    double off = 0, all = 1e-12;
    for (size_t i = 0; i < got.size(); ++i) {
        off += std::isnan(got[i]) != std::isnan(wanted[i]) ? 1e9 : std::pow(double(got[i]) - wanted[i], 2);
        all += std::pow(double(wanted[i]), 2);
    }
    auto &most = *static_cast<double *>(worst);
    most = std::max(most, off / all);
    return true;
}

void run(const std::string &name, double limit, const std::function<ggml_tensor *(ggml_context *)> &build) {
    if (only && name != only) return;
    ggml_context *context = ggml_init({ggml_tensor_overhead() * 64 + ggml_graph_overhead(), nullptr, true});
    ggml_cgraph *graph = ggml_new_graph(context);
    ggml_tensor *result = build(context);
    ggml_build_forward_expand(graph, result);
    ggml_backend_buffer_t memory = ggml_backend_alloc_ctx_tensors(context, gpu);
    for (auto *tensor = ggml_get_first_tensor(context); tensor; tensor = ggml_get_next_tensor(context, tensor)) {
        if (tensor->op == GGML_OP_NONE && !tensor->view_src) fill(tensor);
    }
    double worst = 0;
    const bool ran = ggml_backend_supports_op(gpu, result) &&
                     ggml_backend_compare_graph_backend(gpu, cpu, graph, difference, &worst, nullptr, 0);
    const bool same = ran && worst <= limit;
    (same ? passed : failed) += 1;
    if (!same) std::printf("%s: %s, %g where %g is allowed\n", name.c_str(), ran ? "differs" : "did not run", worst, limit);
    ggml_backend_buffer_free(memory);
    ggml_free(context);
}

ggml_tensor *plain(ggml_context *context, int width, int height, int depth = 1, int count = 1) {
    return ggml_new_tensor_4d(context, GGML_TYPE_F32, width, height, depth, count);
}

ggml_tensor *numbers(ggml_context *context, int count) { return ggml_new_tensor_1d(context, GGML_TYPE_I32, count); }

// Matrices of every type by vectors and by matrices, and rows of them: their tables are constants that units share.
void quantized() {
    for (ggml_type type :
         {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q8_0,
          GGML_TYPE_Q2_K, GGML_TYPE_Q3_K, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ2_XS,
          GGML_TYPE_IQ2_S, GGML_TYPE_IQ3_XXS, GGML_TYPE_IQ3_S, GGML_TYPE_IQ1_S, GGML_TYPE_IQ1_M, GGML_TYPE_IQ4_NL,
          GGML_TYPE_IQ4_XS}) {
        const std::string name = ggml_type_name(type);
        for (int columns : {1, 3, 8, 64}) {
            run("mul_mat " + name + " by " + std::to_string(columns), 1e-3, [=](auto *c) {
                return ggml_mul_mat(c, ggml_new_tensor_2d(c, type, 512, 256), plain(c, 512, columns));
            });
        }
        run("get_rows " + name, 1e-7,
            [=](auto *c) { return ggml_get_rows(c, ggml_new_tensor_2d(c, type, 256, 16), numbers(c, 9)); });
    }
    run("mul_mat_id", 1e-3, [](auto *c) {
        auto *experts = ggml_new_tensor_3d(c, GGML_TYPE_Q4_0, 256, 128, 4);
        return ggml_mul_mat_id(c, experts, plain(c, 256, 2, 16), ggml_new_tensor_2d(c, GGML_TYPE_I32, 2, 16));
    });
}

void by_element() {
    run("add", 1e-9, [](auto *c) { return ggml_add(c, plain(c, 100, 30, 4), plain(c, 100, 1)); });
    run("mul", 1e-9, [](auto *c) { return ggml_mul(c, plain(c, 100, 30, 4), plain(c, 100, 30, 4)); });
    run("div", 1e-9, [](auto *c) { return ggml_div(c, plain(c, 101, 31), plain(c, 101, 31)); });
    run("silu", 1e-9, [](auto *c) { return ggml_silu(c, plain(c, 100, 30)); });
    run("gelu", 1e-6, [](auto *c) { return ggml_gelu(c, plain(c, 100, 30)); });
    run("tanh", 1e-9, [](auto *c) { return ggml_tanh(c, plain(c, 100, 30)); });
    run("sigmoid", 1e-9, [](auto *c) { return ggml_sigmoid(c, plain(c, 100, 30)); });
    run("swiglu", 1e-9, [](auto *c) { return ggml_swiglu(c, plain(c, 128, 30)); });
    run("scale", 1e-12, [](auto *c) { return ggml_scale(c, plain(c, 16, 16, 3), 3.0f); });
    run("clamp", 1e-12, [](auto *c) { return ggml_clamp(c, plain(c, 16, 16, 3), -0.5f, 0.5f); });
    run("cast f16", 1e-12, [](auto *c) { return ggml_cast(c, plain(c, 100, 70), GGML_TYPE_F16); });
    run("rope", 1e-7, [](auto *c) { return ggml_rope(c, plain(c, 128, 8, 6), numbers(c, 6), 128, 0); });
    run("rope neox", 1e-7, [](auto *c) { return ggml_rope(c, plain(c, 128, 8, 6), numbers(c, 6), 128, 2); });
}

void by_row() {
    run("soft_max", 1e-9, [](auto *c) { return ggml_soft_max(c, plain(c, 333, 30)); });
    run("soft_max wide", 1e-9, [](auto *c) { return ggml_soft_max(c, plain(c, 4096, 8)); });
    run("soft_max masked", 1e-12, [](auto *c) { return ggml_soft_max(c, ggml_diag_mask_inf(c, plain(c, 16, 16, 3), 0)); });
    run("rms_norm", 1e-9, [](auto *c) { return ggml_rms_norm(c, plain(c, 512, 30), 1e-6f); });
    run("norm", 1e-9, [](auto *c) { return ggml_norm(c, plain(c, 512, 30), 1e-6f); });
    run("group_norm", 1e-8, [](auto *c) { return ggml_group_norm(c, plain(c, 64, 30, 32), 8, 1e-6f); });
    run("l2_norm", 1e-9, [](auto *c) { return ggml_l2_norm(c, plain(c, 512, 30), 1e-6f); });
    run("argsort", 1e-12, [](auto *c) { return ggml_argsort(c, plain(c, 200, 7), GGML_SORT_ORDER_ASC); });
    run("argsort wide", 1e-12, [](auto *c) { return ggml_argsort(c, plain(c, 5000, 3), GGML_SORT_ORDER_DESC); });
    run("argmax", 1e-12, [](auto *c) { return ggml_argmax(c, plain(c, 1000, 7)); });
    run("sum", 1e-7, [](auto *c) { return ggml_sum(c, ggml_sqr(c, plain(c, 1000, 7))); });
    run("sum_rows", 1e-7, [](auto *c) { return ggml_sum_rows(c, plain(c, 1000, 7)); });
    run("mean", 1e-7, [](auto *c) { return ggml_mean(c, plain(c, 1000, 7)); });
    run("cumsum", 1e-7, [](auto *c) { return ggml_cumsum(c, plain(c, 1000, 7)); });
}

void by_shape() {
    run("concat", 1e-12, [](auto *c) { return ggml_concat(c, plain(c, 100, 7, 3), plain(c, 100, 7, 2), 2); });
    run("repeat", 1e-12, [](auto *c) { return ggml_repeat(c, plain(c, 10, 7), plain(c, 40, 21)); });
    run("transpose", 1e-12, [](auto *c) { return ggml_cont(c, ggml_transpose(c, plain(c, 100, 70))); });
    run("pad", 1e-12, [](auto *c) { return ggml_pad(c, plain(c, 16, 16, 3), 3, 2, 0, 0); });
    run("upscale", 1e-9, [](auto *c) { return ggml_upscale(c, plain(c, 16, 16, 3), 2, GGML_SCALE_MODE_NEAREST); });
    run("pool_2d", 1e-9,
        [](auto *c) { return ggml_pool_2d(c, plain(c, 16, 16, 3), GGML_OP_POOL_AVG, 2, 2, 2, 2, 0, 0); });
    run("im2col", 1e-9, [](auto *c) {
        return ggml_im2col(c, plain(c, 3, 3, 3, 4), plain(c, 16, 16, 3, 2), 1, 1, 1, 1, 1, 1, true, GGML_TYPE_F32);
    });
    run("conv_2d_dw", 1e-8, [](auto *c) {
        return ggml_conv_2d_dw_direct(c, plain(c, 3, 3, 1, 8), plain(c, 16, 16, 8, 2), 1, 1, 1, 1, 1, 1);
    });
    run("ssm_conv", 1e-8, [](auto *c) { return ggml_ssm_conv(c, plain(c, 13, 512), plain(c, 4, 512)); });
}

} // namespace

int main(int count, char **arguments) {
    if (count > 1) only = arguments[1];
    gpu = ggml_backend_cuda_init(0);
    cpu = ggml_backend_cpu_init();
    if (!gpu || !cpu) {
        std::printf("no GPU\nFAIL\n");
        return 1;
    }
    quantized();
    by_element();
    by_row();
    by_shape();
    std::printf("%d operations the same, %d not\n%s\n", passed, failed, failed || !passed ? "FAIL" : "PASS");
    return failed || !passed;
}
