// minimal.cpp - grouped-query attention from C++, with tensors as [batch, heads, tokens, dim], and what attn_query says of it.
//
//   c++ -O2 -I. examples/minimal.cpp -o minimal -pthread && ./minimal
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <cstdio>
#include <vector>

int main() {
    const int64_t batch = 2, heads = 8, kv_heads = 2, tokens = 300, dim = 64;
    std::vector<float> q(batch * heads * tokens * dim, 0.5f),
        k(batch * kv_heads * tokens * dim, 0.25f);
    std::vector<float> v(batch * kv_heads * tokens * dim, 1.0f), o(q.size());

    attn_desc d = {};
    d.batch = batch;
    d.heads = heads;
    d.kv_heads = kv_heads;
    d.q_len = d.kv_len = tokens;
    d.head_dim = dim;
    d.q.data = q.data();
    d.k.data = k.data();
    d.v.data = v.data();
    d.o.data = o.data();
    d.q.layout = d.k.layout = d.v.layout = d.o.layout = ATTN_BHSD;
    d.flags = ATTN_CAUSAL;

    attn_plan plan;
    attn_status s = attn_query(&d, nullptr, &plan);
    if (s == ATTN_OK) s = attn_forward(&d);
    if (s != ATTN_OK) {
        std::fprintf(stderr, "%s\n", attn_status_text(s));
        return 1;
    }
    std::printf(
        "%s, kernel %s, %zu bytes of workspace\n", plan.backend, plan.kernel, plan.workspace_size);
    for (float x : o)
        if (x < 0.99999f || x > 1.00001f) return 1; // an average of ones
    return 0;
}
