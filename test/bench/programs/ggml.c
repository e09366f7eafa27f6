/* ggml.c - ggml's operator FLASH_ATTN_EXT on the CPU by attn.h: test/bench/programs.sh builds it into ggml and sends the operator here.
 *
 * Each of ggml's threads takes every nth pair of sequence and key head, with one thread of attn.h: ggml's own pool is all there is.
 * What attn.h has no words for goes on to ggml: quantised keys (blocks of q8_0, q4_0 ..), ALiBi (ggml multiplies the mask by it), and
 * the run that ggml itself takes for the reference. ATTN_GGML_COUNT in the environment: how many calls went where, on stderr. */
#define ATTN_IMPLEMENTATION
#define ATTN_STATIC
#include "attn.h"
#include "ggml-cpu-impl.h"
#include "ops.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void attn_ggml_flash_attn_ext(const struct ggml_compute_params *params, struct ggml_tensor *dst);

static int calls[2];
static void tell(void) { fprintf(stderr, "FLASH_ATTN_EXT: %d calls by attn.h, %d by ggml\n", calls[0], calls[1]); }
static void count(int which)
{
    if (calls[0] + calls[1] == 0 && getenv("ATTN_GGML_COUNT")) atexit(tell);
    calls[which]++;
}
static int dtype_of(const struct ggml_tensor *t)
{
    return t->type == GGML_TYPE_F32 ? ATTN_F32 : t->type == GGML_TYPE_F16 ? ATTN_F16 : t->type == GGML_TYPE_BF16 ? ATTN_BF16 : -1;
}
/* A tensor [dim, tokens, heads, batch] of ggml, strides in bytes, from (batch, head) on; an extent of 1 is shared. */
static attn_in view(const struct ggml_tensor *t, int64_t b, int64_t h)
{
    const int64_t size = (int64_t)ggml_type_size(t->type);
    attn_in x = { 0 };
    x.data = (const char *)t->data + (t->ne[3] > 1 ? b : 0) * (int64_t)t->nb[3] + (t->ne[2] > 1 ? h : 0) * (int64_t)t->nb[2];
    x.dtype = dtype_of(t);
    x.stride[0] = ATTN_BROADCAST, x.stride[1] = (int64_t)t->nb[1] / size, x.stride[2] = (int64_t)t->nb[2] / size;
    return x;
}
static int shared_or(int64_t extent, int64_t all) { return extent == 1 || extent == all; }
static int takes(const struct ggml_tensor *dst)
{
    const struct ggml_tensor *q = dst->src[0], *k = dst->src[1], *v = dst->src[2], *mask = dst->src[3];
    const float alibi = ((const float *)dst->op_params)[1];
    if (q->type != GGML_TYPE_F32 || dtype_of(k) < 0 || dtype_of(v) < 0 || alibi > 0) return 0;
    if (k->ne[2] != v->ne[2] || !shared_or(k->ne[3], q->ne[3]) || !shared_or(v->ne[3], q->ne[3])) return 0;
    return !mask || (mask->type == GGML_TYPE_F16 && shared_or(mask->ne[2], q->ne[2]) && shared_or(mask->ne[3], q->ne[3]));
}
/* The queries of one key head of one sequence. */
static attn_status unit(const struct ggml_tensor *dst, int64_t b, int64_t kv_head)
{
    const struct ggml_tensor *q = dst->src[0], *k = dst->src[1], *v = dst->src[2], *mask = dst->src[3], *sinks = dst->src[4];
    const int64_t group = q->ne[2] / k->ne[2], h = kv_head * group;
    attn_desc d = { 0 };
    d.batch = 1, d.heads = group, d.kv_heads = 1, d.q_len = q->ne[1], d.kv_len = k->ne[1], d.head_dim = q->ne[0], d.v_dim = v->ne[0];
    d.q = view(q, b, h), d.k = view(k, b, kv_head), d.v = view(v, b, kv_head);
    if (mask) {
        d.bias = view(mask, b, h);
        d.bias.stride[2] = d.bias.stride[1];
        d.bias.stride[1] = mask->ne[2] > 1 ? (int64_t)(mask->nb[2] / sizeof(uint16_t)) : ATTN_BROADCAST;
    }
    if (sinks) d.sink = (const float *)sinks->data + h;
    d.o.data = (char *)dst->data + b * (int64_t)dst->nb[3] + h * (int64_t)dst->nb[1];
    d.o.stride[0] = (int64_t)(dst->nb[3] / sizeof(float));
    d.o.stride[1] = (int64_t)(dst->nb[2] / sizeof(float)), d.o.stride[2] = (int64_t)(dst->nb[1] / sizeof(float));
    d.flags = ATTN_SCALE, d.threads = 1;
    d.scale = ((const float *)dst->op_params)[0], d.softcap = ((const float *)dst->op_params)[2];
    return attn_forward(&d);
}
void attn_ggml_flash_attn_ext(const struct ggml_compute_params *params, struct ggml_tensor *dst)
{
    const int taken = !params->use_ref && takes(dst);
    const int64_t heads = dst->src[1]->ne[2], units = dst->src[0]->ne[3] * heads;
    if (params->ith == 0 && !params->use_ref) count(!taken);
    if (!taken) {
        ggml_compute_forward_flash_attn_ext(params, dst);
        return;
    }
    for (int64_t u = params->ith; u < units; u += params->nth) {
        const attn_status s = unit(dst, u / heads, u % heads);
        if (s) GGML_ABORT("attn.h: %s", attn_status_text(s));
    }
}
