// torch_ext.cpp - attn.h as an operator of PyTorch, with its gradients.
//
//   torch=$(python3 -c 'import torch; print(torch.__path__[0])')
//   c++ -O2 -std=c++20 -I. -isystem $torch/include -isystem $torch/include/torch/csrc/api/include -shared -fPIC examples/torch_ext.cpp -o attn_torch.so -pthread -L$torch/lib -Wl,-rpath,$torch/lib -Wl,--no-as-needed -lc10 -ltorch_cpu -ltorch && python3 -c 'import torch; torch.ops.load_library("./attn_torch.so")'
//
//   o = torch.ops.attn.attention(q, k, v, causal)        # as scaled_dot_product_attention: [B,H,S,D]
//
// Tensors stay where they are: any strides, but for the last dimension, f32, f16 or bf16. k and v may
// have fewer heads than q.
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <torch/all.h>
#include <torch/library.h>

namespace {

void must(attn_status s) { TORCH_CHECK(s == ATTN_OK, "attn: ", attn_status_text(s)); }

int32_t dtype_of(const torch::Tensor &t) {
    switch (t.scalar_type()) {
        case torch::kFloat:    return ATTN_F32;
        case torch::kHalf:     return ATTN_F16;
        case torch::kBFloat16: return ATTN_BF16;
        default:               TORCH_CHECK(false, "attn: f32, f16 or bf16, not ", t.scalar_type());
    }
}

/* [B,H,S,D] to {batch, token, head}; a stride of 0, as expand() leaves it, says so. */
template <class tensor> void place(tensor &to, const torch::Tensor &t) {
    const int axes[3] = {0, 2, 1};
    to.data = t.data_ptr();
    to.dtype = dtype_of(t);
    for (int a = 0; a < 3; a++)
        to.stride[a] = t.stride(axes[a]) ? t.stride(axes[a]) : ATTN_BROADCAST;
}

torch::Tensor dense_rows(const torch::Tensor &t) {
    TORCH_CHECK(t.device().is_cpu() && t.dim() == 4, "attn: CPU tensors [B,H,S,D]");
    return t.stride(3) == 1 ? t : t.contiguous();
}

attn_desc describe(const torch::Tensor &q, const torch::Tensor &k, const torch::Tensor &v,
    const torch::Tensor &o, const torch::Tensor &lse, bool causal) {
    attn_desc d = {};
    d.batch = q.size(0), d.heads = q.size(1), d.q_len = q.size(2), d.head_dim = q.size(3);
    d.kv_heads = k.size(1), d.kv_len = k.size(2), d.v_dim = v.size(3);
    d.flags = causal ? ATTN_CAUSAL | ATTN_TOP_LEFT : 0; /* as is_causal counts */
    d.threads = at::get_num_threads();
    place(d.q, q), place(d.k, k), place(d.v, v), place(d.o, o);
    d.lse = lse.data_ptr<float>();
    return d;
}

struct attention : torch::autograd::Function<attention> {
    static torch::Tensor forward(torch::autograd::AutogradContext *ctx, const torch::Tensor &q_in,
        const torch::Tensor &k_in, const torch::Tensor &v_in, bool causal) {
        const torch::Tensor q = dense_rows(q_in), k = dense_rows(k_in), v = dense_rows(v_in);
        torch::Tensor o = torch::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options());
        torch::Tensor lse =
            torch::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(torch::kFloat));
        const attn_desc d = describe(q, k, v, o, lse, causal);
        must(attn_forward(&d));
        ctx->save_for_backward({q, k, v, o, lse});
        ctx->saved_data["causal"] = causal;
        return o;
    }

    static torch::autograd::variable_list backward(
        torch::autograd::AutogradContext *ctx, torch::autograd::variable_list grads) {
        const auto saved = ctx->get_saved_variables();
        const torch::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
        const torch::Tensor dout = dense_rows(grads[0]);
        const torch::MemoryFormat dense = torch::MemoryFormat::Contiguous;
        torch::Tensor dq = torch::empty_like(q, dense), dk = torch::empty_like(k, dense),
                      dv = torch::empty_like(v, dense);
        const attn_desc d =
            describe(q, k, v, saved[3], saved[4], ctx->saved_data["causal"].toBool());
        attn_grad g = {};
        place(g.dout, dout), place(g.dq, dq), place(g.dk, dk), place(g.dv, dv);
        must(attn_backward(&d, &g));
        return {dq, dk, dv, torch::Tensor()};
    }
};

torch::Tensor apply(
    const torch::Tensor &q, const torch::Tensor &k, const torch::Tensor &v, bool causal) {
    return attention::apply(q, k, v, causal);
}

} // namespace

TORCH_LIBRARY(attn, m) {
    m.def("attention(Tensor q, Tensor k, Tensor v, bool causal) -> Tensor", apply);
}
