/* llmc.h - llm.c's attention by attn.h: a packed [B, T, 3 C] buffer of q, k and v, and one for their gradients, which are added to. It
 * needs neither of the program's two [B, heads, T, T] tensors, but an lse [B, heads, T]. */
#ifndef LLMC_H
#define LLMC_H
#include "attn.h"

static attn_desc describe(float *out, float *lse, float *inp, int B, int T, int C, int NH)
{
    attn_desc d = { 0 };
    d.batch = B, d.q_len = T, d.heads = NH, d.head_dim = C / NH, d.flags = ATTN_CAUSAL, d.o.data = out, d.lse = lse;
    attn_packed_qkv(&d, inp, ATTN_F32, ATTN_QKV_3HD);
    return d;
}
static attn_status ours_forward(float *out, float *lse, float *inp, int B, int T, int C, int NH)
{
    const attn_desc d = describe(out, lse, inp, B, T, C, NH);
    return attn_forward(&d);
}
static attn_status ours_backward(float *dinp, float *dout, float *out, float *lse, float *inp, int B, int T, int C, int NH)
{
    attn_desc d = describe(out, lse, inp, B, T, C, NH);
    attn_grad g = { 0 };
    d.flags |= ATTN_ACCUMULATE, g.dout.data = dout;
    attn_packed_dqkv(&d, &g, dinp, ATTN_F32, ATTN_QKV_3HD);
    return attn_backward(&d, &g);
}
#endif
