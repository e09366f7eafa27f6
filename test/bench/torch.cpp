// torch.cpp - PyTorch's scaled_dot_product_attention as a plugin of attn_bench, through libtorch. `make peers` builds it
// where Python has the package torch:
//
//   torch=$(python3 -c 'import torch; print(torch.__path__[0])')
//   c++ -O2 -std=c++20 -I. -I$torch/include -I$torch/include/torch/csrc/api/include -shared -fPIC test/bench/torch.cpp
//       -o build/torch.so -L$torch/lib -Wl,-rpath,$torch/lib -Wl,--no-as-needed -lc10 -ltorch_cpu -ltorch
//   ./attn_bench --plugin build/torch.so --seq-len 1024 --backward
//
// The forward is the operator that scaled_dot_product_attention takes on a CPU, which returns lse beside o; the backward is
// autograd's through it. Tensors are views of the caller's memory. What PyTorch allocates for its results is part of its
// call, and so is the copy from there to where attn.h wants them, a small part of either.
#include "attn.h"
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <cstdio>
#include <cstring>
#include <exception>
#include <torch/csrc/autograd/autograd.h>
#include <tuple>
#include <vector>

namespace {

at::ScalarType type_of(int32_t dtype)
{
    return dtype == ATTN_F16 ? at::kHalf : dtype == ATTN_BF16 ? at::kBFloat16 : at::kFloat;
}

// A [batch, tokens, heads, dim] of attn.h as PyTorch's [batch, heads, tokens, dim], in place.
at::Tensor view(const void *data, int32_t dtype, const int64_t stride[3], int64_t batch, int64_t tokens, int64_t heads, int64_t dim)
{
    return at::from_blob(const_cast<void *>(data), { batch, heads, tokens, dim }, { stride[0], stride[2], stride[1], 1 },
                         at::TensorOptions().dtype(type_of(dtype)));
}

struct tensors { at::Tensor q, k, v, o, lse; };

tensors views_of(const attn_desc *d)
{
    return { view(d->q.data, d->q.dtype, d->q.stride, d->batch, d->q_len, d->heads, d->head_dim),
             view(d->k.data, d->k.dtype, d->k.stride, d->batch, d->kv_len, d->kv_heads, d->head_dim),
             view(d->v.data, d->v.dtype, d->v.stride, d->batch, d->kv_len, d->kv_heads, d->v_dim),
             view(d->o.data, d->o.dtype, d->o.stride, d->batch, d->q_len, d->heads, d->v_dim),
             d->lse ? at::from_blob(d->lse, { d->batch, d->heads, d->q_len }, at::kFloat) : at::Tensor() };
}

// o and lse. As in scaled_dot_product_attention with enable_gqa, heads that share keys get a copy of them each.
std::tuple<at::Tensor, at::Tensor> attention(const attn_desc *d, const at::Tensor &q, at::Tensor k, at::Tensor v)
{
    if (int64_t share = d->heads / d->kv_heads; share > 1) {
        k = k.repeat_interleave(share, 1);
        v = v.repeat_interleave(share, 1);
    }
    bool causal = d->flags & ATTN_CAUSAL && d->q_len > 1;
    return at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, causal, {}, static_cast<double>(d->scale));
}

// PyTorch's causal mask is aligned to the top left; one query that sees all keys needs none.
bool mask_is_theirs(const attn_desc *d)
{
    int64_t offset = d->flags & (ATTN_OFFSET | ATTN_TOP_LEFT) ? d->offset : d->kv_len - d->q_len;
    return !(d->flags & ATTN_CAUSAL) || (d->q_len > 1 ? offset == 0 : offset >= d->kv_len - 1);
}

const char *why_not(const attn_desc *d, const attn_grad *g)
{
    const uint32_t known = ATTN_CAUSAL | ATTN_SCALE | ATTN_TOP_LEFT | ATTN_OFFSET;
    if (d->q.dtype > ATTN_BF16 || d->k.dtype != d->q.dtype || d->v.dtype != d->q.dtype || d->o.dtype != d->q.dtype)
        return "one type for q, k, v and o: f32, f16 or bf16";
    if (d->head_dim != d->v_dim) return "head_dim and v_dim differ";
    if (d->flags & ~known || !mask_is_theirs(d)) return "no windows, and causal with as many keys as queries";
    if (d->bias.data || d->mask.data || d->alibi || d->sink || d->softcap > 0 || d->dropout > 0)
        return "no bias, mask, ALiBi, sink, softcap or dropout";
    if (d->seq.cu_q || d->seq.cu_k || d->seq.used_q || d->seq.used_k || d->seq.start_k || d->seq.slot || d->seq.block_table
        || d->append.len)
        return "no lengths per sequence";
    if (!d->batch || !d->q_len || !d->kv_len) return "nothing to compute";
    if (g && (g->dlse || g->dbias || g->dsink)) return "gradients of q, k and v alone";
    return nullptr;
}

attn_status plan(void *, const attn_desc *d, const attn_grad *g, attn_plan *p)
{
    if (const char *why = why_not(d, g)) {
        std::snprintf(p->why, sizeof p->why, "%s", why);
        return ATTN_ERR_DECLINED;
    }
    p->kernel = g ? "autograd of sdpa" : "sdpa";
    p->isa = "torch";
    p->workspace_size = 0;
    p->threads = d->threads ? d->threads : at::get_num_threads();
    p->splits = 1;
    return ATTN_OK;
}

// What autograd keeps between a forward and its backward. A training step builds it with the forward, so that it is kept
// here as long as the calls are of one forward: the same tensors and the same lse.
struct graph {
    std::vector<int64_t> call;                  // what tells one forward from another, without its numbers
    at::Tensor lse, q, k, v, o;                 // lse: as the caller gave it
};
graph kept;

std::vector<int64_t> call_of(const attn_desc *d)
{
    int32_t scale;
    std::memcpy(&scale, &d->scale, sizeof scale);
    std::vector<int64_t> call = { d->batch, d->heads, d->kv_heads, d->q_len, d->kv_len, d->head_dim, d->q.dtype, d->flags, scale };
    for (const attn_in *t : { &d->q, &d->k, &d->v }) {
        call.push_back(static_cast<int64_t>(reinterpret_cast<uintptr_t>(t->data)));
        call.insert(call.end(), t->stride, t->stride + 3);
    }
    return call;
}

void keep(const attn_desc *d, const tensors &t)
{
    kept.call = call_of(d);
    kept.lse = t.lse.clone();
    kept.q = t.q.detach().requires_grad_(true);
    kept.k = t.k.detach().requires_grad_(true);
    kept.v = t.v.detach().requires_grad_(true);
    kept.o = std::get<0>(attention(d, kept.q, kept.k, kept.v));
}

void forward(const attn_desc *d, const tensors &t)
{
    at::NoGradGuard none;
    at::Tensor o, lse;
    std::tie(o, lse) = attention(d, t.q, t.k, t.v);
    t.o.copy_(o);
    if (t.lse.defined()) t.lse.copy_(lse);
}

void backward(const attn_desc *d, const attn_grad *g, const tensors &t)
{
    if (kept.call != call_of(d) || !at::equal(kept.lse, t.lse)) keep(d, t);
    at::Tensor dout = view(g->dout.data, g->dout.dtype, g->dout.stride, d->batch, d->q_len, d->heads, d->v_dim);
    auto gradients = torch::autograd::grad({ kept.o }, { kept.q, kept.k, kept.v }, { dout }, true);
    at::NoGradGuard none;
    view(g->dq.data, g->dq.dtype, g->dq.stride, d->batch, d->q_len, d->heads, d->head_dim).copy_(gradients[0]);
    view(g->dk.data, g->dk.dtype, g->dk.stride, d->batch, d->kv_len, d->kv_heads, d->head_dim).copy_(gradients[1]);
    view(g->dv.data, g->dv.dtype, g->dv.stride, d->batch, d->kv_len, d->kv_heads, d->v_dim).copy_(gradients[2]);
}

attn_status run(void *, const attn_desc *d, const attn_grad *g, const attn_plan *p)
{
    try {                                       // nothing is thrown through C
        if (at::get_num_threads() != p->threads) at::set_num_threads(p->threads);
        tensors t = views_of(d);
        if (g) backward(d, g, t);
        else forward(d, t);
        return ATTN_OK;
    } catch (const std::exception &e) {
        if (d->message) std::snprintf(d->message, d->message_size, "PyTorch: %.200s", e.what());
        return ATTN_ERR_DECLINED;
    }
}

void shutdown(void *) { kept = graph(); }

} // namespace

extern "C" attn_status attn_plugin_register(attn_status (*add)(const attn_backend *))
{
    static const attn_backend torch = { "torch", ATTN_ABI, plan, run, nullptr, nullptr, shutdown, nullptr, nullptr };
    return add(&torch);
}
