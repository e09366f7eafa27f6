/* validate.c - every status of the list is returned by a description of its own that breaks one rule, with outputs, inputs and
 * memory untouched. A status without a case is a failure; the few that cannot be provoked here are skipped by name. */
#include "unit.h"
#include <sys/wait.h>
#include <unistd.h>

enum { B = 2, SQ = 3, SK = 5, H = 4, HK = 2, D = 8 };

/* All tensors of a call in one piece of memory, so that one comparison shows that nothing was written. Elements are double so
 * that a case may call a tensor f64. */
typedef struct tensors {
    double q[B * SQ * H * D], k[B * SK * HK * D], v[B * SK * HK * D], o[B * SQ * H * D];
    double bias[B * H * SQ * SK], dout[B * SQ * H * D], dq[B * SQ * H * D], dk[B * SK * HK * D], dv[B * SK * HK * D];
    float lse[B * H * SQ], dlse[B * H * SQ], dbias[B * H * SQ * SK], sink[H], dsink[H];
    double new_k[B * 2 * HK * D], new_v[B * 2 * HK * D];
    float cert[B * H * SQ];
    attn_statistics told;
    float scale[B * SK * HK], rotary[2 * 16 * D];
    unsigned char mask[B * H * SQ * SK];
    int32_t cu_q[B + 1], cu_k[B + 1], used_q[B], used_k[B], start[B], slot[B], table[B * 3], cu_new[B + 1];
} tensors;

typedef struct context {
    attn_desc d;
    attn_grad g;
    tensors *t;
    const attn_desc *desc;              /* what is passed: NULL in some cases */
    const attn_grad *grad;
    attn_plan plan, *to_plan;
    attn_pool pool;
    attn_alloc alloc;
    int64_t parts, shape[4], count;
    attn_in part_o[2], src;
    const float *part_lse[2];
    attn_out dst;
    attn_backend backend;
    attn_timing_opts opts;
    char message[64];
} context;

typedef attn_status call(context *c);

static attn_status FORWARD(context *c) { return attn_forward(c->desc); }
static attn_status BACKWARD(context *c) { return attn_backward(c->desc, c->grad); }
static attn_status QUERY(context *c) { return attn_query(c->desc, NULL, c->to_plan); }
static attn_status MERGE(context *c) { return attn_merge(c->desc, c->parts, c->part_o, c->part_lse); }
static attn_status CONVERT(context *c) { return attn_convert(c->parts ? c->shape : NULL, c->src, c->dst, NULL); }
static attn_status MERGE_NO_O(context *c) { return attn_merge(c->desc, c->parts, NULL, c->part_lse); }
static attn_status MERGE_NO_LSE(context *c) { return attn_merge(c->desc, c->parts, c->part_o, NULL); }
static attn_status CONVERT_ON(context *c) { return attn_convert(c->shape, c->src, c->dst, c->desc); }
static void no_run(void *user, void (*task)(void *, int64_t), void *arg, int64_t n) { (void)user, (void)task, (void)arg, (void)n; }
static attn_status REGISTER(context *c) { return attn_register(&c->backend); }
static void nothing(void *user) { (void)user; }
static void no_task(void *arg, int64_t i) { (void)arg, (void)i; }
static attn_status TIME(context *c)
{
    attn_timing t;
    return attn_time(c->parts ? nothing : NULL, NULL, &c->opts, &t);
}
static attn_status TIME_NULL(context *c)
{
    attn_timing t;
    return attn_time(nothing, NULL, c->parts ? &c->opts : NULL, c->parts ? NULL : &t);
}
static attn_status PARALLEL(context *c) { return attn_parallel(c->desc, c->parts ? no_task : NULL, NULL, c->count); }
static attn_status PACKED(context *c) { return attn_packed_qkv(c->parts ? &c->d : NULL, c->t->q, c->src.dtype, c->src.layout); }
static attn_status PACKED_GRAD(context *c)
{
    return attn_packed_dqkv(c->desc, c->parts ? &c->g : NULL, c->t->q, c->src.dtype, c->src.layout);
}
static attn_status HIP(context *c) { (void)c; return attn_hip_register(); }
static attn_status FILL_REGISTRY(context *c)
{
    static char name[1000][8];
    for (int i = 0; i < 1000; i++) {
        attn_status s;
        snprintf(name[i], sizeof name[i], "b%d", i);
        c->backend.name = name[i];
        s = attn_register(&c->backend);
        if (s) {                                        /* 16 are the most, beside those of attn.h, which end with the reference */
            int all = 0, own = 0;
            while (attn_backend_at(all)) all++;
            while (strcmp(attn_backend_at(own++)->name, "reference")) {}
            assert_int_equal(all - own, 16);
            return s;
        }
    }
    return ATTN_OK;
}
static attn_status OTHER(context *c)             /* a backend that is not one of attn.h's */
{
    c->backend.name = c->d.backend = "other";
    return attn_backend_find("other") || !attn_register(&c->backend) ? attn_forward(c->desc) : ATTN_OK;
}
static attn_status in_child(const char *what)    /* the environment is read once: a process of its own */
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        setenv("ATTN_ISA", "sse9", 1);
        unit_again("validate", what);
        _exit(255);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? (attn_status)WEXITSTATUS(status) : ATTN_OK;
}

static attn_status IN_CHILD(context *c) { (void)c; return in_child("--forward"); }
static attn_status CONVERT_IN_CHILD(context *c) { (void)c; return in_child("--convert"); }

static attn_status plan_any(void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan)
{
    (void)user, (void)d, (void)g, (void)plan;
    return ATTN_ERR_DECLINED;
}
static attn_status run_any(void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan)
{
    (void)user, (void)d, (void)g, (void)plan;
    return ATTN_OK;
}
static void *no_memory(void *user, size_t size, size_t align) { (void)user, (void)size, (void)align; return NULL; }
static void put_nothing(void *user, void *p, size_t size) { (void)user, (void)p, (void)size; }

/* ------------------------------------------------------------------------------------------ valid starting points */
static void packed(context *c)
{
    static const int32_t cu_q[B + 1] = { 0, 3, 6 }, cu_k[B + 1] = { 0, 5, 10 };
    memcpy(c->t->cu_q, cu_q, sizeof cu_q);
    memcpy(c->t->cu_k, cu_k, sizeof cu_k);
    c->d.seq.cu_q = c->t->cu_q;
    c->d.seq.cu_k = c->t->cu_k;
    c->d.seq.total_q = 6;
    c->d.seq.total_k = 10;
}

static void packed_to(context *c, int32_t q, int32_t total_q, int32_t k, int32_t total_k)        /* sequences that differ in length */
{
    packed(c);
    c->t->cu_q[1] = q, c->t->cu_q[2] = total_q, c->t->cu_k[1] = k, c->t->cu_k[2] = total_k;
    c->d.seq.total_q = total_q, c->d.seq.total_k = total_k;
}

static void packed_q(context *c)                 /* alone; in memory the lengths go on, as those of a larger batch do */
{
    packed(c);
    c->t->cu_k[0] = 9;
    c->d.seq.cu_k = NULL;
    c->d.seq.total_k = 0;
}

static void used(context *c, int32_t n)
{
    for (int b = 0; b < B; b++) c->t->used_k[b] = n, c->t->used_q[b] = SQ, c->t->start[b] = 0;
    c->d.seq.used_k = c->t->used_k;
}

static void paged(context *c)
{
    static const int32_t table[B * 3] = { 0, 1, 2, 3, 4, 2 };
    memcpy(c->t->table, table, sizeof table);
    c->d.seq.block_table = c->t->table;
    c->d.seq.page_size = 2;
    c->d.seq.pages = 5;
    c->d.seq.max_pages = 3;
    used(c, 4);
}

static void slots(context *c)
{
    c->t->slot[0] = 1, c->t->slot[1] = 0;
    c->d.seq.slot = c->t->slot;
    c->d.seq.slots = B;
}

static void append(context *c)
{
    used(c, 3);
    c->d.append.k.data = c->t->new_k;
    c->d.append.v.data = c->t->new_v;
    c->d.append.k_cache = c->t->k;
    c->d.append.v_cache = c->t->v;
    c->d.append.len = 2;
}

static void one_token(context *c)                       /* which is appended again and again */
{
    append(c);
    for (int a = 0; a < 3; a++) c->d.append.k.stride[a] = c->d.append.v.stride[a] = ATTN_BROADCAST;
}

static void rotary(context *c)
{
    append(c);
    c->d.append.rotary_cos = c->t->rotary;
    c->d.append.rotary_sin = c->t->rotary + 16 * D;
    c->d.append.rotary_dim = D;
    c->d.append.rotary_rows = 16;
}

static void cu_new(context *c, int32_t a, int32_t b)
{
    append(c);
    c->t->cu_new[0] = 0, c->t->cu_new[1] = a, c->t->cu_new[2] = b;
    c->d.append.cu = c->t->cu_new;
    c->d.append.total = b;
}

static void quantised(context *c)
{
    c->d.k.dtype = c->d.v.dtype = ATTN_INT8;
    c->d.k.scale = c->d.v.scale = c->t->scale;
}

static void planes(context *c)                          /* data is not read: the call is refused before */
{
    quantised(c);
    c->d.k.dtype = c->d.v.dtype = ATTN_INT16;
    c->d.head_dim = c->d.v_dim = 16;
}

static void blocks(context *c)
{
    c->d.k.dtype = ATTN_Q8_0, c->d.v.dtype = ATTN_Q4_0;
    c->d.head_dim = c->d.v_dim = 32;
}

static void cached(context *c) { quantised(c), rotary(c), c->d.append.k_scale = c->d.append.v_scale = c->t->scale; }
static void bias(context *c) { c->d.bias.data = c->t->bias; }
static void sink(context *c) { c->d.sink = c->t->sink; }
static void strides(int64_t s[3], int64_t a, int64_t b, int64_t h) { s[0] = a, s[1] = b, s[2] = h; }

static void workspace(context *c, size_t offset, size_t less)
{
    static char room[1 << 20] __attribute__((aligned(64)));
    c->d.backend = "standard";
    assert_ok(attn_query(&c->d, NULL, &c->plan));
    assert_true(c->plan.workspace_size > 0 && c->plan.workspace_size < sizeof room - 64);
    c->d.workspace = room + offset;
    c->d.workspace_size = c->plan.workspace_size - less;
}

/* an address from which few bytes are left, and none of which is ours */
#define LAST_PAGE ((void *)(UINTPTR_MAX - 63))

static void no_data(context *c)
{
    c->d.q.data = c->d.k.data = c->d.v.data = c->d.o.data = NULL;
    c->d.lse = NULL;
}

/* ------------------------------------------------------------------------------------------ X(status, name, call, what breaks it) */
#define CASES(X) \
    X(ERR_HEADS, three_kv_heads_for_four, FORWARD, d->kv_heads = 3) \
    X(ERR_HEADS, more_kv_heads, FORWARD, d->kv_heads = 8) \
    X(ERR_NULL_DESC, forward, FORWARD, c->desc = NULL) \
    X(ERR_NULL_DESC, backward, BACKWARD, c->desc = NULL) \
    X(ERR_NULL_DESC, query, QUERY, c->desc = NULL) \
    X(ERR_NULL_DESC, merge, MERGE, c->desc = NULL) \
    X(ERR_NULL_Q, q, FORWARD, d->q.data = NULL) \
    X(ERR_NULL_K, k, FORWARD, d->k.data = NULL) \
    X(ERR_NULL_V, v, FORWARD, d->v.data = NULL) \
    X(ERR_NULL_O, o, FORWARD, d->o.data = NULL) \
    X(ERR_NULL_O, o_of_merge, MERGE, d->o.data = NULL) \
    X(ERR_NEGATIVE_SIZE, batch, FORWARD, d->batch = -1) \
    X(ERR_NEGATIVE_SIZE, q_len, FORWARD, d->q_len = -1) \
    X(ERR_NEGATIVE_SIZE, kv_len, FORWARD, d->kv_len = INT64_MIN) \
    X(ERR_NEGATIVE_SIZE, heads, FORWARD, d->heads = -4) \
    X(ERR_NEGATIVE_SIZE, kv_heads, FORWARD, d->kv_heads = -2) \
    X(ERR_NEGATIVE_SIZE, head_dim, FORWARD, d->head_dim = -8) \
    X(ERR_NEGATIVE_SIZE, v_dim, FORWARD, d->v_dim = -8) \
    X(ERR_HEADS_ZERO, heads, FORWARD, d->heads = 0) \
    X(ERR_HEAD_DIM, head_dim, FORWARD, d->head_dim = 0) \
    X(ERR_OVERFLOW, product_of_sizes, FORWARD, d->kv_len = INT64_MAX / 16) \
    X(ERR_OVERFLOW, batch_and_length, FORWARD, d->batch = d->kv_len = (int64_t)1 << 40) \
    X(ERR_OVERFLOW, stride, FORWARD, strides(d->q.stride, INT64_MAX / 2, D * H, D)) \
    X(ERR_OVERFLOW, stride_backwards, QUERY, d->batch = 17, strides(d->q.stride, -((int64_t)1 << 60), H * D, D)) \
    X(ERR_OVERFLOW, most_of_a_stride_backwards, QUERY, strides(d->k.stride, INT64_MIN + 1, HK * D, D)) \
    X(ERR_OVERFLOW, k_scale_stride, QUERY, quantised(c), strides(d->k.scale_stride, INT64_MAX / 2, HK, 1)) \
    X(ERR_OVERFLOW, v_scale_stride, QUERY, quantised(c), d->batch = 4, strides(d->v.scale_stride, INT64_MAX / 2 + 9, HK, 1)) \
    X(ERR_STRIDE_MIXED, token_stride_alone, FORWARD, d->q.stride[1] = H * D) \
    X(ERR_STRIDE_MIXED, o_without_head_stride, FORWARD, strides(d->o.stride, SQ * H * D, H * D, 0)) \
    X(ERR_STRIDE_MIXED, k_batch_stride_0, FORWARD, strides(d->k.stride, 0, HK * D, D)) \
    X(ERR_STRIDE_MIXED, k_scale_batch_stride_0, FORWARD, quantised(c), strides(d->k.scale_stride, 0, 1, 1)) \
    X(ERR_STRIDE_MIXED, v_scale_without_head_stride, FORWARD, quantised(c), strides(d->v.scale_stride, SK * HK, HK, 0)) \
    X(ERR_STRIDE_NEGATIVE, o, FORWARD, strides(d->o.stride, SQ * H * D, -H * D, D)) \
    X(ERR_STRIDE_ALIAS, o_broadcast, FORWARD, strides(d->o.stride, ATTN_BROADCAST, H * D, D)) \
    X(ERR_STRIDE_NEGATIVE, dq, BACKWARD, strides(g->dq.stride, SQ * H * D, H * D, -D)) \
    X(ERR_STRIDE_NEGATIVE, dbias_of_a_bias_backwards, BACKWARD, d->bias.data = (float *)c->t->bias + (SQ - 1) * SK, g->dbias = c->t->dbias, \
      strides(d->bias.stride, H * SQ * SK, SQ * SK, -SK)) \
    X(ERR_STRIDE_ALIAS, o_heads, FORWARD, strides(d->o.stride, SQ * H * D, H * D, D - 1)) \
    X(ERR_STRIDE_ALIAS, o_heads_of_one_token, FORWARD, d->batch = d->q_len = 1, strides(d->o.stride, 0, 0, D - 1)) \
    X(ERR_STRIDE_ALIAS, o_tokens_of_one_head, FORWARD, d->heads = d->kv_heads = 1, strides(d->o.stride, SQ * D, D - 1, 0)) \
    X(ERR_STRIDE_ALIAS, o_tokens_on_heads, FORWARD, strides(d->o.stride, SQ * H * D, D, D)) \
    X(ERR_STRIDE_ALIAS, dk_batches, BACKWARD, strides(g->dk.stride, HK * D, HK * D, D)) \
    X(ERR_LAYOUT, q, FORWARD, d->q.layout = 2) \
    X(ERR_LAYOUT, o, FORWARD, d->o.layout = -1) \
    X(ERR_LAYOUT, mask, FORWARD, d->mask.data = c->t->mask, d->mask.dtype = ATTN_BOOL, d->mask.layout = 2) \
    X(ERR_LAYOUT, bias, FORWARD, bias(c), d->bias.layout = -1) \
    X(ERR_DTYPE, k, FORWARD, d->k.dtype = 10) \
    X(ERR_DTYPE, v, FORWARD, d->v.dtype = -1) \
    X(ERR_DTYPE, bias, FORWARD, bias(c), d->bias.dtype = 10) \
    X(ERR_DTYPE, mask, FORWARD, d->mask.data = c->t->mask, d->mask.dtype = -1) \
    X(ERR_DECLINED, adaptive_of_f64, QUERY, no_data(c), d->backend = "adaptive", d->tolerance = 0.01f, d->q_len = d->kv_len = 1024, \
      d->q.dtype = ATTN_F64) \
    X(ERR_OVERFLOW, dims, QUERY, no_data(c), d->head_dim = INT32_MAX) \
    X(ERR_OVERFLOW, total_q, QUERY, packed(c), no_data(c), d->seq.total_q = INT64_MAX / 6400) \
    X(ERR_OVERFLOW, total_q_and_heads, QUERY, packed(c), no_data(c), d->seq.total_q = INT64_MAX / 3) \
    X(ERR_OVERFLOW, entries_of_tables, QUERY, paged(c), d->seq.page_size = 1, d->seq.max_pages = INT64_MAX / 2 + 1) \
    X(ERR_OVERFLOW, bytes_of_tables, QUERY, paged(c), d->seq.page_size = 1, d->seq.max_pages = INT64_MAX / 8) \
    X(ERR_OVERFLOW, rotary_rows, QUERY, rotary(c), d->append.rotary_rows = INT64_MAX / 4) \
    X(ERR_DTYPE, q, FORWARD, d->q.dtype = 10) \
    X(ERR_DTYPE, o, FORWARD, d->o.dtype = -1) \
    X(ERR_DTYPE_Q, int8, FORWARD, d->q.dtype = ATTN_INT8) \
    X(ERR_DTYPE_KV, bool_k, FORWARD, d->k.dtype = ATTN_BOOL) \
    X(ERR_DTYPE_KV, bool_v, FORWARD, d->v.dtype = ATTN_BOOL) \
    X(ERR_DTYPE_O, fp8, FORWARD, d->o.dtype = ATTN_FP8_E4M3) \
    X(ERR_DTYPE_BIAS, bool_bias, FORWARD, bias(c), d->bias.dtype = ATTN_BOOL) \
    X(ERR_DTYPE_MASK, f32_mask, FORWARD, d->mask.data = c->t->mask, d->mask.dtype = ATTN_F32) \
    X(ERR_QUANT_SCALE, k, FORWARD, quantised(c), d->k.scale = NULL) \
    X(ERR_QUANT_SCALE, v, FORWARD, quantised(c), d->v.scale = NULL) \
    X(ERR_PLANES, head_dim, FORWARD, planes(c), d->head_dim = 8, d->v_dim = 16) \
    X(ERR_PLANES, v_dim, FORWARD, planes(c), d->v_dim = 24) \
    X(ERR_PLANES, k_stride, FORWARD, planes(c), strides(d->k.stride, SK * HK * 16, HK * 16 + 8, 16)) \
    X(ERR_PLANES, v_stride, FORWARD, planes(c), strides(d->v.stride, 8 - SK * HK * 16, HK * 16, 16)) \
    X(ERR_BLOCKS, head_dim, FORWARD, blocks(c), d->head_dim = 48, d->v_dim = 32) \
    X(ERR_BLOCKS, v_dim, FORWARD, blocks(c), d->v_dim = 16) \
    X(ERR_BLOCKS, k_stride, FORWARD, blocks(c), strides(d->k.stride, SK * HK * 32, HK * 32 + 16, 32)) \
    X(ERR_BLOCKS, v_stride, FORWARD, blocks(c), strides(d->v.stride, 8 - SK * HK * 32, HK * 32, 32)) \
    X(ERR_SCALE_UNUSED, blocks, FORWARD, blocks(c), d->v.scale = c->t->scale) \
    X(ERR_ALIGN, blocks, FORWARD, blocks(c), d->k.data = (const char *)c->t->k + 1) \
    X(ERR_DTYPE_Q, q8_0, FORWARD, d->q.dtype = ATTN_Q8_0) \
    X(ERR_DTYPE_O, q4_0, FORWARD, d->o.dtype = ATTN_Q4_0) \
    X(ERR_QUANT_SCALE, int16, FORWARD, planes(c), d->v.scale = NULL) \
    X(ERR_DTYPE_Q, int16, FORWARD, d->q.dtype = ATTN_INT16) \
    X(ERR_SCALE_UNUSED, q, FORWARD, d->q.scale = c->t->scale) \
    X(ERR_SCALE_UNUSED, f32_k, FORWARD, d->k.scale = c->t->scale) \
    X(ERR_SCALE_UNUSED, mask, FORWARD, d->mask.data = c->t->mask, d->mask.dtype = ATTN_BOOL, d->mask.scale = c->t->scale) \
    X(ERR_OVERLAP, o_over_q, FORWARD, d->o.data = c->t->q) \
    X(ERR_OVERLAP, o_over_end_of_v, FORWARD, d->o.data = (float *)c->t->v + B * SK * HK * D - 1) \
    X(ERR_OVERLAP, lse_in_o, FORWARD, d->lse = (float *)c->t->o + 5) \
    X(ERR_OVERLAP, lse_at_the_end_of_wide_o, FORWARD, d->v_dim = 2 * D, d->lse = (float *)c->t->o + B * SQ * H * 2 * D - 1) \
    X(ERR_OVERLAP, lse_over_used_k, FORWARD, used(c, 2), d->lse = (float *)(void *)c->t->used_k) \
    X(ERR_OVERLAP, o_over_cu_q, FORWARD, packed(c), d->o.data = c->t->cu_q) \
    X(ERR_OVERLAP, dk_over_dv, BACKWARD, g->dk.data = g->dv.data) \
    X(ERR_OVERLAP, dq_over_dout, BACKWARD, g->dq.data = c->t->dout) \
    X(ERR_OVERLAP, dsink_over_lse, BACKWARD, sink(c), g->dsink = c->t->lse) \
    X(ERR_STRIDE_ALIAS, appended_k_broadcast, FORWARD, append(c), strides(d->k.stride, SK * HK * D, HK * D, ATTN_BROADCAST)) \
    X(ERR_STRIDE_ALIAS, appended_v_broadcast, FORWARD, append(c), strides(d->v.stride, SK * HK * D, HK * D, ATTN_BROADCAST)) \
    X(ERR_STRIDE_ALIAS, appended_k_scale_broadcast, FORWARD, cached(c), strides(d->k.scale_stride, SK * HK, HK, ATTN_BROADCAST)) \
    X(ERR_STRIDE_ALIAS, appended_v_scale_broadcast, FORWARD, cached(c), strides(d->v.scale_stride, SK * HK, HK, ATTN_BROADCAST)) \
    X(ERR_SCALE, nan_scale, FORWARD, d->flags = ATTN_SCALE, d->scale = NAN) \
    X(ERR_SCALE, infinite_scale, FORWARD, d->flags = ATTN_SCALE, d->scale = INFINITY) \
    X(ERR_SCALE_FLAG, no_flag, FORWARD, d->scale = 0.5f) \
    X(ERR_SOFTCAP, negative, FORWARD, d->softcap = -1) \
    X(ERR_SOFTCAP, nan_softcap, FORWARD, d->softcap = NAN) \
    X(ERR_SOFTCAP, infinite, FORWARD, d->softcap = INFINITY) \
    X(ERR_DROPOUT, one, FORWARD, d->dropout = 1) \
    X(ERR_DROPOUT, negative, FORWARD, d->dropout = -0.1f) \
    X(ERR_DROPOUT, nan_dropout, FORWARD, d->dropout = NAN) \
    X(ERR_OFFSET_FLAG, no_flag, FORWARD, d->offset = 1) \
    X(ERR_OFFSET_BOTH, both, FORWARD, d->flags = ATTN_CAUSAL | ATTN_TOP_LEFT | ATTN_OFFSET) \
    X(ERR_WINDOW_FLAG, left, FORWARD, d->window_left = 1) \
    X(ERR_WINDOW_FLAG, right, FORWARD, d->flags = ATTN_WINDOW_LEFT, d->window_right = 1) \
    X(ERR_WINDOW_NEGATIVE, left, FORWARD, d->flags = ATTN_WINDOW_LEFT, d->window_left = -1) \
    X(ERR_WINDOW_NEGATIVE, right, FORWARD, d->flags = ATTN_WINDOW_RIGHT, d->window_right = -1) \
    X(ERR_FLAGS, unknown, FORWARD, d->flags = 1u << 30) \
    X(ERR_PHILOX_RANGE, philox_offset, FORWARD, d->dropout = 0.5f, d->philox_offset = (uint64_t)1 << 32) \
    X(ERR_PHILOX_RANGE, q_len, QUERY, no_data(c), d->dropout = 0.5f, d->q_len = (int64_t)1 << 32) \
    X(ERR_PHILOX_RANGE, kv_len, QUERY, no_data(c), d->dropout = 0.5f, d->kv_len = (int64_t)1 << 32) \
    X(ERR_PHILOX_RANGE, batch_and_heads, QUERY, no_data(c), d->dropout = 0.5f, d->batch = (int64_t)1 << 30) \
    X(ERR_THREADS, convert, CONVERT_ON, d->threads = -1) \
    X(ERR_THREADS, parallel, PARALLEL, d->threads = -1) \
    X(ERR_THREADS, minus_one, FORWARD, d->threads = -1) \
    X(ERR_BACKEND_UNKNOWN, forward, FORWARD, d->backend = "nonesuch") \
    X(ERR_BACKEND_UNKNOWN, query, QUERY, d->backend = "nonesuch") \
    X(ERR_DECLINED, flash_of_f64, FORWARD, d->backend = "flash", d->q.dtype = d->k.dtype = d->v.dtype = ATTN_F64) \
    X(ERR_WORKSPACE_SMALL, one_byte_less, FORWARD, workspace(c, 0, 1)) \
    X(ERR_WORKSPACE_ALIGN, by_four, FORWARD, workspace(c, 4, 0)) \
    X(ERR_WORKSPACE_ALIGN, by_32, FORWARD, workspace(c, 32, 0)) \
    X(ERR_ALIGN, q, FORWARD, d->q.data = (const char *)c->t->q + 2) \
    X(ERR_ALIGN, f16_k, FORWARD, d->q.dtype = d->k.dtype = d->v.dtype = ATTN_F16, d->k.data = (const char *)c->t->k + 1) \
    X(ERR_ALIGN, bias, FORWARD, d->bias.data = (const char *)c->t->bias + 1) \
    X(ERR_ALIGN, o, FORWARD, d->o.data = (char *)c->t->o + 3) \
    X(ERR_ALIGN, lse, FORWARD, d->lse = (float *)(void *)((char *)c->t->lse + 2)) \
    X(ERR_ALIGN, used_k, FORWARD, d->seq.used_k = (const int32_t *)(const void *)((const char *)c->t->used_k + 1)) \
    X(ERR_ALIGN, used_k_query, QUERY, d->seq.used_k = (const int32_t *)(const void *)((const char *)c->t->used_k + 1)) \
    X(ERR_ALIGN, dq, BACKWARD, c->g.dq.data = (char *)c->t->dq + 2) \
    X(ERR_ALIGN, dsink, BACKWARD, d->sink = c->t->sink, c->g.dsink = (float *)(void *)((char *)c->t->dsink + 1)) \
    X(ERR_ADDRESS, q, FORWARD, d->q.data = LAST_PAGE) \
    X(ERR_ADDRESS, o, FORWARD, d->o.data = LAST_PAGE) \
    X(ERR_ADDRESS, lse, FORWARD, d->lse = LAST_PAGE) \
    X(ERR_ADDRESS, below_0, FORWARD, d->k.data = (void *)4096, strides(d->k.stride, -8192, HK * D, D)) \
    X(ERR_ADDRESS, dk, BACKWARD, g->dk.data = LAST_PAGE) \
    X(ERR_ADDRESS, workspace, FORWARD, workspace(c, 0, 0), d->workspace_size = SIZE_MAX) \
    X(ERR_ADDRESS, part_o, MERGE, c->part_o[1].data = LAST_PAGE) \
    X(ERR_ADDRESS, part_lse, MERGE, c->part_lse[1] = LAST_PAGE) \
    X(ERR_ADDRESS, merge_lse, MERGE, d->lse = LAST_PAGE) \
    X(ERR_ADDRESS, source, CONVERT, c->src.data = LAST_PAGE) \
    X(ERR_ADDRESS, destination, CONVERT, c->dst.data = LAST_PAGE) \
    X(ERR_WORKSPACE_OVERLAP, first_bytes_of_o, FORWARD, workspace(c, 0, 0), d->o.data = c->d.workspace) \
    X(ERR_WORKSPACE_OVERLAP, last_bytes_of_lse, FORWARD, workspace(c, 128, 0), \
      d->lse = (float *)c->d.workspace - B * H * SQ + 1) \
    X(ERR_WORKSPACE_OVERLAP, q, FORWARD, workspace(c, 0, 0), d->q.data = (char *)c->d.workspace + 128) \
    X(ERR_WORKSPACE_OVERLAP, sink, FORWARD, workspace(c, 0, 0), \
      d->sink = (float *)(void *)((char *)c->d.workspace + d->workspace_size - 4)) \
    X(ERR_WORKSPACE_OVERLAP, k_cache, FORWARD, append(c), workspace(c, 0, 0), \
      d->k.data = d->append.k_cache = (char *)c->d.workspace + 256) \
    X(ERR_WORKSPACE_OVERLAP, new_v, FORWARD, append(c), workspace(c, 0, 0), d->append.v.data = c->d.workspace) \
    X(ERR_WORKSPACE_OVERLAP, used_k, FORWARD, used(c, 3), workspace(c, 0, 0), \
      d->seq.used_k = memcpy((char *)c->d.workspace + 64, c->t->used_k, sizeof c->t->used_k)) \
    X(ERR_WORKSPACE_OVERLAP, dv, BACKWARD, workspace(c, 0, 0), d->workspace_size += 1 << 16, \
      g->dv.data = (char *)c->d.workspace + d->workspace_size - 8) \
    X(ERR_WORKSPACE_NULL, size_alone, FORWARD, d->workspace_size = 64) \
    X(ERR_MEMORY, caller_has_none, FORWARD, d->backend = "standard", c->alloc.get = no_memory, c->alloc.put = put_nothing, \
      d->alloc = &c->alloc) \
    X(ERR_POOL, no_run, FORWARD, c->pool.threads = 2, d->pool = &c->pool) \
    X(ERR_POOL, no_threads, FORWARD, c->pool.run = no_run, d->pool = &c->pool) \
    X(ERR_POOL, convert, CONVERT_ON, c->pool.run = no_run, d->pool = &c->pool) \
    X(ERR_POOL, parallel, PARALLEL, c->pool.run = no_run, d->pool = &c->pool) \
    X(ERR_ALLOC, get_alone, FORWARD, c->alloc.get = no_memory, d->alloc = &c->alloc) \
    X(ERR_ALLOC, put_alone, FORWARD, c->alloc.put = put_nothing, d->alloc = &c->alloc) \
    X(ERR_ISA, unknown, IN_CHILD, ) \
    X(ERR_DEVICE, no_gpu_backend, FORWARD, d->flags = ATTN_DEVICE) \
    X(ERR_DEVICE_INDEX, minus_one, FORWARD, d->device = -1) \
    X(ERR_SEQ_HOST, no_device, FORWARD, d->flags = ATTN_SEQ_HOST) \
    X(ERR_MESSAGE, size_alone, FORWARD, d->message = NULL) \
    X(ERR_TOO_LARGE, standard_of_a_million_tokens, QUERY, no_data(c), d->backend = "standard", \
      d->q_len = d->kv_len = (int64_t)1 << 24) \
    X(ERR_CU_FIRST, q, FORWARD, packed(c), c->t->cu_q[0] = 1) \
    X(ERR_CU_FIRST, k, FORWARD, packed(c), c->t->cu_k[0] = -1) \
    X(ERR_CU_FALLS, q, FORWARD, packed(c), c->t->cu_q[2] = 2, d->seq.total_q = 2) \
    X(ERR_CU_FALLS, k, FORWARD, packed(c), c->t->cu_k[2] = 4, d->seq.total_k = 4) \
    X(ERR_CU_LAST, q, FORWARD, packed(c), d->seq.total_q = 5) \
    X(ERR_CU_LAST, k, FORWARD, packed(c), d->seq.total_k = 11) \
    X(ERR_CU_LONG, q, FORWARD, packed(c), c->t->cu_q[1] = 4) \
    X(ERR_CU_LONG, k, FORWARD, packed(c), d->kv_len = 4) \
    X(ERR_CU_DEVICE, q, FORWARD, packed(c), d->flags = ATTN_DEVICE, d->q_len = 0) \
    X(ERR_CU_DEVICE, k, QUERY, packed(c), d->flags = ATTN_DEVICE, d->kv_len = 0) \
    X(ERR_DEVICE, nothing_packed, FORWARD, packed(c), d->flags = ATTN_DEVICE, d->q_len = 0, d->seq.total_q = 0) \
    X(ERR_CU_FALLS, longest, FORWARD, packed(c), d->q_len = 0, c->t->cu_q[1] = 9) \
    X(ERR_CU_LAST, longest, FORWARD, packed(c), d->kv_len = 0, c->t->cu_k[2] = 11) \
    X(ERR_CU_LAST, no_total_q, FORWARD, packed(c), d->q_len = 0, d->seq.total_q = 0) \
    X(ERR_CU_LAST, no_total_k, FORWARD, packed(c), d->kv_len = 0, d->seq.total_k = 0) \
    X(ERR_ALIGN, longest, FORWARD, packed(c), d->q_len = 0, d->seq.cu_q = (const int32_t *)(const void *)((const char *)c->t->cu_q + 1)) \
    X(ERR_OVERFLOW, longest, FORWARD, packed(c), d->q_len = 0, d->batch = (int64_t)1 << 60) \
    X(ERR_TOTAL_FLAG, q, FORWARD, d->seq.total_q = 6) \
    X(ERR_TOTAL_FLAG, k, FORWARD, d->seq.total_k = 10) \
    X(ERR_TOTAL_NEGATIVE, q, FORWARD, packed(c), d->seq.total_q = -1) \
    X(ERR_TOTAL_NEGATIVE, k, FORWARD, packed(c), d->seq.total_k = -1) \
    X(ERR_USED_Q, beyond, FORWARD, used(c, 5), d->seq.used_q = c->t->used_q, c->t->used_q[1] = SQ + 1) \
    X(ERR_USED_Q, beyond_its_own, FORWARD, packed_q(c), used(c, 5), d->seq.used_q = c->t->used_q, c->t->used_q[0] = SQ + 1) \
    X(ERR_USED_Q, negative, FORWARD, used(c, 5), d->seq.used_q = c->t->used_q, c->t->used_q[0] = -1) \
    X(ERR_USED_Q, beyond_its_packed_range, FORWARD, packed_to(c, 1, 3, 5, 10), c->d.seq.cu_k = NULL, c->d.seq.total_k = 0, used(c, 5), d->q_len = 0, \
      d->seq.used_q = c->t->used_q, c->t->used_q[0] = c->t->used_q[1] = 2) \
    X(ERR_USED_K, beyond, FORWARD, used(c, SK + 1)) \
    X(ERR_USED_K, beyond_its_own, FORWARD, packed(c), used(c, 5), c->t->used_k[0] = SK + 1, c->t->used_q[0] = 15) \
    X(ERR_USED_K, negative, FORWARD, used(c, -1)) \
    X(ERR_USED_K, beyond_its_packed_range, FORWARD, packed_to(c, 3, 6, 3, 8), used(c, 5)) \
    X(ERR_USED_K, of_device_tensors_in_host_memory, FORWARD, used(c, SK + 1), d->flags = ATTN_DEVICE | ATTN_SEQ_HOST) \
    X(ERR_START_K, beyond_used_k, FORWARD, used(c, 2), d->seq.start_k = c->t->start, c->t->start[1] = 3) \
    X(ERR_START_K, negative, FORWARD, used(c, 2), d->seq.start_k = c->t->start, c->t->start[0] = -1) \
    X(ERR_START_K, among_new_keys, FORWARD, append(c), d->seq.start_k = c->t->start, c->t->start[1] = 4) \
    X(ERR_START_K, beyond_its_packed_range, FORWARD, packed_to(c, 3, 6, 3, 8), d->seq.start_k = c->t->start, c->t->start[0] = 4) \
    X(ERR_SLOT, beyond, FORWARD, slots(c), c->t->slot[0] = B) \
    X(ERR_SLOT, negative, FORWARD, slots(c), c->t->slot[1] = -1) \
    X(ERR_SLOT, fewer_than_sequences, FORWARD, slots(c), d->seq.slots = 1) \
    X(ERR_SLOTS_FLAG, slots_alone, FORWARD, d->seq.slots = B) \
    X(ERR_SLOTS_FLAG, slot_alone, FORWARD, slots(c), d->seq.slots = 0) \
    X(ERR_SLOTS_FLAG, negative, FORWARD, slots(c), d->seq.slots = -1) \
    X(ERR_SLOT_CU, cu_k, FORWARD, packed(c), slots(c)) \
    X(ERR_SLOT_CU, pages, FORWARD, paged(c), slots(c)) \
    X(ERR_SLOT_TWICE, append, FORWARD, append(c), slots(c), c->t->slot[0] = 0) \
    X(ERR_PAGE_SIZE, zero, FORWARD, paged(c), d->seq.page_size = 0) \
    X(ERR_PAGE_SIZE, no_pages, FORWARD, paged(c), d->seq.pages = 0) \
    X(ERR_PAGE_SIZE, no_max_pages, FORWARD, paged(c), d->seq.max_pages = 0) \
    X(ERR_PAGE_FLAG, page_size_alone, FORWARD, d->seq.page_size = 2) \
    X(ERR_PAGE_FLAG, pages_alone, FORWARD, d->seq.pages = 2) \
    X(ERR_PAGE_FLAG, max_pages_alone, FORWARD, d->seq.max_pages = 2) \
    X(ERR_PAGE_USED, without_used_k, FORWARD, paged(c), d->seq.used_k = NULL) \
    X(ERR_PAGE_CU, cu_k, FORWARD, paged(c), packed(c)) \
    X(ERR_PAGE_CAPACITY, kv_len_7_of_6, FORWARD, paged(c), d->kv_len = 7) \
    X(ERR_PAGE_RANGE, beyond, FORWARD, paged(c), c->t->table[3] = 5) \
    X(ERR_PAGE_RANGE, negative, FORWARD, paged(c), c->t->table[0] = -1) \
    X(ERR_PAGE_RANGE, appended_to, FORWARD, append(c), paged(c), d->append.len = 1, c->t->table[2] = 5) \
    X(ERR_PAGE_RANGE, first_appended_to, FORWARD, append(c), paged(c), used(c, 0), d->append.len = 1, c->t->table[0] = -1) \
    X(ERR_PAGE_RANGE, only_appended_to, FORWARD, append(c), paged(c), used(c, 2), c->t->start[0] = 2, d->seq.start_k = c->t->start, d->append.len = 2, c->t->table[1] = 5) \
    X(ERR_PAGE_TWICE, same_last_page, FORWARD, append(c), paged(c), used(c, 3), c->t->table[4] = 2, c->t->table[5] = 0) \
    X(ERR_APPEND_USED, without_used_k, FORWARD, append(c), d->seq.used_k = NULL) \
    X(ERR_APPEND_CU, cu_k, FORWARD, append(c), packed(c)) \
    X(ERR_APPEND_CACHE, other_k, FORWARD, append(c), d->append.k_cache = c->t->new_k) \
    X(ERR_APPEND_CACHE, no_v, FORWARD, append(c), d->append.v_cache = NULL) \
    X(ERR_APPEND_NULL, len_alone, FORWARD, append(c), d->append.k.data = NULL) \
    X(ERR_APPEND_NULL, k_without_v, FORWARD, append(c), d->append.v.data = NULL) \
    X(ERR_APPEND_DTYPE, int8, FORWARD, append(c), d->append.k.dtype = ATTN_INT8) \
    X(ERR_APPEND_LEN, no_room, FORWARD, append(c), used(c, 4)) \
    X(ERR_APPEND_LEN, negative, FORWARD, append(c), d->append.len = -1) \
    X(ERR_APPEND_LEN, no_room_for_those_of_one, FORWARD, cu_new(c, 2, 3), used(c, 4)) \
    X(ERR_APPEND_LEN, end_beyond_64_bits, FORWARD, one_token(c), d->append.len = INT64_MAX - 2) \
    X(ERR_APPEND_LEN, most_of_64_bits, FORWARD, one_token(c), d->append.len = INT64_MAX) \
    X(ERR_APPEND_SCALE, no_k_scale, FORWARD, append(c), quantised(c)) \
    X(ERR_APPEND_SCALE, other_v_scale, FORWARD, cached(c), d->append.v_scale = c->t->scale + 1) \
    X(ERR_APPEND_NULL, len_without_both, FORWARD, append(c), d->append.k.data = d->append.v.data = NULL) \
    X(ERR_APPEND_CU_NEW, cu_of_nothing, FORWARD, cu_new(c, 1, 2), d->append.k.data = d->append.v.data = NULL, d->append.len = 0, \
      d->append.total = 0) \
    X(ERR_APPEND_CU_NEW, total_of_nothing, FORWARD, d->append.total = 2) \
    X(ERR_APPEND_CU_NEW, negative_total, FORWARD, cu_new(c, 1, 2), d->flags = ATTN_DEVICE, d->append.total = -1) \
    X(ERR_APPEND_SCALE, other_k_scale, FORWARD, cached(c), d->append.k_scale = c->t->scale + 1) \
    X(ERR_ROTARY_NULL, no_cos, FORWARD, rotary(c), d->append.rotary_cos = NULL) \
    X(ERR_ROTARY_NULL, no_dim, FORWARD, rotary(c), d->append.rotary_dim = 0) \
    X(ERR_ROTARY_DIM, negative, FORWARD, rotary(c), d->append.rotary_dim = -2) \
    X(ERR_ROTARY_ROWS, negative, FORWARD, rotary(c), d->flags = ATTN_DEVICE, d->append.rotary_rows = -1) \
    X(ERR_BACKWARD_QUANT, int8_k, BACKWARD, d->k.dtype = ATTN_INT8, d->k.scale = c->t->scale) \
    X(ERR_DEVICE, longest_in_host_memory, FORWARD, packed(c), d->flags = ATTN_DEVICE | ATTN_SEQ_HOST, d->q_len = 0) \
    X(ERR_MERGE_PARTS, no_array_of_o, MERGE_NO_O, ) \
    X(ERR_ADDRESS, merge_sink, MERGE, d->sink = (const float *)(UINTPTR_MAX - 7)) \
    X(ERR_CONVERT_SHAPE, negative_batch, CONVERT, c->shape[0] = -1) \
    X(ERR_CONVERT_SHAPE, negative_tokens, CONVERT, c->shape[1] = -1) \
    X(ERR_CONVERT_SHAPE, negative_dim, CONVERT, c->shape[3] = -1) \
    X(ERR_POOL, convert_no_run, CONVERT_ON, c->pool.threads = 2, d->pool = &c->pool) \
    X(ERR_ISA, convert, CONVERT_IN_CHILD, ) \
    X(ERR_TIME_NULL, no_options, TIME_NULL, c->parts = 0) \
    X(ERR_TIME_NULL, no_result, TIME_NULL, ) \
    X(ERR_PACKED_LAYOUT, two_ungrouped, PACKED, c->src.layout = 2, d->kv_heads = d->heads) \
    X(ERR_APPEND_CU_NEW, total_alone, FORWARD, append(c), d->append.total = 2) \
    X(ERR_APPEND_CU_NEW, first, FORWARD, cu_new(c, 1, 2), c->t->cu_new[0] = 1) \
    X(ERR_APPEND_CU_NEW, step_above_len, FORWARD, cu_new(c, 0, 3)) \
    X(ERR_APPEND_CU_NEW, first_step_above_len, FORWARD, cu_new(c, 3, 3)) \
    X(ERR_APPEND_CU_NEW, first_step_negative, FORWARD, cu_new(c, -1, 1)) \
    X(ERR_APPEND_CU_NEW, total, FORWARD, cu_new(c, 1, 2), d->append.total = 3) \
    X(ERR_ROTARY_NULL, no_sin, FORWARD, rotary(c), d->append.rotary_sin = NULL) \
    X(ERR_ROTARY_NULL, no_rows, FORWARD, rotary(c), d->append.rotary_rows = 0) \
    X(ERR_ROTARY_NULL, dim_alone, FORWARD, append(c), d->append.rotary_dim = 4) \
    X(ERR_ROTARY_NULL, rows_alone, FORWARD, append(c), d->append.rotary_rows = 4) \
    X(ERR_ROTARY_DIM, odd, FORWARD, rotary(c), d->append.rotary_dim = 3) \
    X(ERR_ROTARY_DIM, beyond_head_dim, FORWARD, rotary(c), d->append.rotary_dim = D + 2) \
    X(ERR_ROTARY_ROWS, position_beyond, FORWARD, rotary(c), d->append.rotary_rows = 4) \
    X(ERR_ROTARY_ROWS, query_beyond, FORWARD, rotary(c), d->append.len = 1, d->append.rotary_rows = 5) \
    X(ERR_ROTARY_ROWS, new_key_beyond, FORWARD, rotary(c), d->q_len = 1, d->append.rotary_rows = 4) \
    X(ERR_ROTARY_APPEND, no_append, FORWARD, rotary(c), d->append.len = 0, d->append.k.data = d->append.v.data = NULL, \
      d->append.k_cache = d->append.v_cache = NULL) \
    X(ERR_ROTARY_FLAG, no_tables, FORWARD, append(c), d->flags = ATTN_ROTARY_INTERLEAVED) \
    X(ERR_NULL_GRAD, null, BACKWARD, c->grad = NULL) \
    X(ERR_NULL_DOUT, dout, BACKWARD, g->dout.data = NULL) \
    X(ERR_NULL_LSE, lse, BACKWARD, d->lse = NULL) \
    X(ERR_NULL_DQKV, dq, BACKWARD, g->dq.data = NULL) \
    X(ERR_NULL_DQKV, dk, BACKWARD, g->dk.data = NULL) \
    X(ERR_NULL_DQKV, dv, BACKWARD, g->dv.data = NULL) \
    X(ERR_DTYPE_GRAD, int8_dout, BACKWARD, g->dout.dtype = ATTN_INT8) \
    X(ERR_DTYPE_GRAD, bool_dk, BACKWARD, g->dk.dtype = ATTN_BOOL) \
    X(ERR_DTYPE_GRAD, int8_dv, BACKWARD, g->dv.dtype = ATTN_INT8) \
    X(ERR_DTYPE_GRAD, fp8_dq, BACKWARD, g->dq.dtype = ATTN_FP8_E4M3) \
    X(ERR_BIAS_SCALE, no_bias, FORWARD, d->bias_scale = c->t->scale) \
    X(ERR_DBIAS, no_bias, BACKWARD, g->dbias = c->t->dbias) \
    X(ERR_DSINK, no_sink, BACKWARD, g->dsink = c->t->dsink) \
    X(ERR_BACKWARD_CACHE, slot, BACKWARD, slots(c)) \
    X(ERR_BACKWARD_CACHE, append, BACKWARD, append(c)) \
    X(ERR_BACKWARD_PAGED, paged, BACKWARD, paged(c)) \
    X(ERR_BACKWARD_QUANT, int8, BACKWARD, quantised(c)) \
    X(ERR_BACKWARD_QUANT, int8_v, BACKWARD, d->v.dtype = ATTN_INT8, d->v.scale = c->t->scale) \
    X(ERR_ACCUMULATE, forward, FORWARD, d->flags = ATTN_ACCUMULATE) \
    X(ERR_DBIAS_DTYPE, heads_overlap, BACKWARD, bias(c), g->dbias = c->t->dbias, strides(d->bias.stride, H * SQ * SK, SK, SK)) \
    X(ERR_REGISTER_NULL, no_plan, REGISTER, c->backend.plan = NULL) \
    X(ERR_REGISTER_NULL, no_run, REGISTER, c->backend.run = NULL) \
    X(ERR_REGISTER_NULL, no_name, REGISTER, c->backend.name = NULL) \
    X(ERR_REGISTER_ABI, other_version, REGISTER, c->backend.abi = ATTN_ABI + ((uint64_t)1 << 32)) \
    X(ERR_REGISTER_ABI, zero, REGISTER, c->backend.abi = 0) \
    X(ERR_REGISTER_NAME, taken, REGISTER, c->backend.name = "reference") \
    X(ERR_REGISTER_NAME, empty, REGISTER, c->backend.name = "") \
    X(ERR_REGISTER_NAME, automatic, REGISTER, c->backend.name = "auto") \
    X(ERR_REGISTER_NAME, long_name, REGISTER, c->backend.name = "abcdefghijklmnopqrstuvwxyz012345") \
    X(ERR_TOLERANCE, negative, FORWARD, d->tolerance = -0.01f) \
    X(ERR_TOLERANCE, nan_tolerance, QUERY, d->tolerance = NAN) \
    X(ERR_TOLERANCE, infinite, FORWARD, d->tolerance = INFINITY) \
    X(ERR_TOLERANCE_OFF, cert, FORWARD, d->cert = c->t->cert) \
    X(ERR_TOLERANCE_OFF, statistics, FORWARD, d->statistics = &c->t->told) \
    X(ERR_TOLERANCE_OFF, absolute, FORWARD, d->flags = ATTN_TOLERANCE_ABSOLUTE) \
    X(ERR_TOLERANCE_OFF, quantile, FORWARD, d->quantile = 0.9f) \
    X(ERR_QUANTILE, one, FORWARD, d->tolerance = 0.01f, d->quantile = 1) \
    X(ERR_QUANTILE, negative, QUERY, d->tolerance = 0.01f, d->quantile = -0.5f) \
    X(ERR_QUANTILE, nan_quantile, FORWARD, d->tolerance = 0.01f, d->quantile = NAN) \
    X(ERR_TOLERANCE_GRAD, backward, BACKWARD, d->tolerance = 0.01f) \
    X(ERR_TOLERANCE_DEVICE, device, FORWARD, d->tolerance = 0.01f, d->flags = ATTN_DEVICE) \
    X(ERR_TOLERANCE_OTHER, registered, OTHER, d->tolerance = 0.01f) \
    X(ERR_TOLERANCE_MERGE, merge, MERGE, d->tolerance = 0.01f) \
    X(ERR_TOLERANCE_MERGE, small, MERGE, d->tolerance = 1e-7f) \
    X(ERR_DECLINED, adaptive_without_tolerance, FORWARD, d->backend = "adaptive") \
    X(ERR_DECLINED, adaptive_few_rows, FORWARD, d->backend = "adaptive", d->tolerance = 0.01f) \
    X(ERR_OVERLAP, cert_over_lse, FORWARD, d->tolerance = 0.01f, d->cert = c->t->lse) \
    X(ERR_OVERLAP, statistics_over_v, FORWARD, d->tolerance = 0.01f, d->statistics = (attn_statistics *)(void *)c->t->v) \
    X(ERR_ALIGN, cert, FORWARD, d->tolerance = 0.01f, d->cert = (float *)(void *)((char *)c->t->cert + 2)) \
    X(ERR_ALIGN, statistics, QUERY, d->tolerance = 0.01f, d->statistics = (attn_statistics *)(void *)((char *)&c->t->told + 4)) \
    X(ERR_ADDRESS, cert, FORWARD, d->tolerance = 0.01f, d->cert = LAST_PAGE) \
    X(ERR_WORKSPACE_OVERLAP, cert, FORWARD, workspace(c, 0, 0), d->tolerance = 0.01f, d->cert = c->d.workspace) \
    X(ERR_REGISTER_FULL, many, FILL_REGISTRY, ) \
    X(ERR_MERGE_PARTS, negative, MERGE, c->parts = -1) \
    X(ERR_MERGE_PARTS, no_array_of_lse, MERGE_NO_LSE, ) \
    X(ERR_MERGE_LSE, no_lse, MERGE, c->part_lse[1] = NULL) \
    X(ERR_ALIGN, part_lse, MERGE, c->part_lse[1] = (const float *)(const void *)((const char *)c->part_lse[1] + 1)) \
    X(ERR_MERGE_O, no_o, MERGE, c->part_o[1].data = NULL) \
    X(ERR_MERGE_O, int8, MERGE, c->part_o[0].dtype = ATTN_INT8) \
    X(ERR_CONVERT_SHAPE, null, CONVERT, c->parts = 0) \
    X(ERR_CONVERT_SHAPE, negative, CONVERT, c->shape[2] = -1) \
    X(ERR_CONVERT_DTYPE, int8, CONVERT, c->src.dtype = ATTN_INT8) \
    X(ERR_BLOCKS, convert_dim, CONVERT, c->src.dtype = ATTN_Q8_0) \
    X(ERR_BLOCKS, convert_to, CONVERT, c->dst.dtype = ATTN_Q4_0) \
    X(ERR_CONVERT_NULL, source, CONVERT, c->src.data = NULL) \
    X(ERR_CONVERT_NULL, destination, CONVERT, c->dst.data = NULL) \
    X(ERR_OVERLAP, convert_in_place, CONVERT, c->dst.data = c->t->q + 1) \
    X(ERR_TIME_NULL, no_function, TIME, c->parts = 0) \
    X(ERR_TIME_OPTS, no_iterations, TIME, c->opts.iterations = 0) \
    X(ERR_TIME_OPTS, negative_warmup, TIME, c->opts.warmup = -1) \
    X(ERR_TIME_OPTS, negative_iterations, TIME, c->opts.iterations = -1, c->opts.min_seconds = 1e-6) \
    X(ERR_TIME_OPTS, negative_seconds, TIME, c->opts.min_seconds = -1) \
    X(ERR_TIME_OPTS, endless, TIME, c->opts.min_seconds = HUGE_VAL) \
    X(ERR_TIME_OPTS, no_number_of_seconds, TIME, c->opts.min_seconds = (double)NAN) \
    X(ERR_QUERY_NULL, no_plan, QUERY, c->to_plan = NULL) \
    X(ERR_NULL_DESC, parallel, PARALLEL, c->desc = NULL) \
    X(ERR_PARALLEL, no_task, PARALLEL, c->parts = 0) \
    X(ERR_PARALLEL, negative_count, PARALLEL, c->count = -1) \
    X(ERR_PACKED_LAYOUT, two, PACKED, c->src.layout = 2) \
    X(ERR_PACKED_LAYOUT, grouped_side_by_side, PACKED, c->src.layout = ATTN_QKV_H3D, d->heads = 4, d->kv_heads = 2) \
    X(ERR_PACKED_LAYOUT, wide_v_side_by_side, PACKED, c->src.layout = ATTN_QKV_H3D, d->kv_heads = d->heads, d->v_dim = d->head_dim + 1) \
    X(ERR_PACKED_LAYOUT, gradients, PACKED_GRAD, c->src.layout = -1) \
    X(ERR_NULL_DESC, packed, PACKED, c->parts = 0) \
    X(ERR_NULL_DESC, packed_grad, PACKED_GRAD, c->desc = NULL) \
    X(ERR_NULL_GRAD, packed, PACKED_GRAD, c->parts = 0) \
    X(ERR_HEADS, packed, PACKED, d->heads = 4, d->kv_heads = 3) \
    X(ERR_HEAD_DIM, packed, PACKED, d->head_dim = 0) \
    X(ERR_DTYPE, packed, PACKED, c->src.dtype = 77) \
    X(ERR_DTYPE_Q, packed, PACKED, c->src.dtype = ATTN_INT8) \
    X(ERR_DTYPE_GRAD, packed, PACKED_GRAD, c->src.dtype = ATTN_BOOL) \
    X(ERR_OVERFLOW, packed, PACKED, d->q_len = INT64_MAX / 64) \
    X(ERR_NO_GPU_COMPILER, register, HIP, )

/* Not to be provoked here, each with its reason. */
static const struct { attn_status status; const char *reason; } not_here[] = {
    { ATTN_ERR_TEAM, "needs a team: test/proof/threads.c" },
    { ATTN_ERR_SIZE, "needs sizes of 32 bits: test/proof/sizes.c" },
    { ATTN_ERR_NO_MALLOC, "needs a build with ATTN_NO_MALLOC: test/build/embedded.sh" },
    { ATTN_ERR_NO_BACKWARD, "needs a build with ATTN_NO_BACKWARD: test/build/embedded.sh" },
    { ATTN_ERR_NO_CONVERT, "needs a build with ATTN_NO_CONVERT: test/build/embedded.sh" },
    { ATTN_ERR_ONLY_F32, "needs a build with ATTN_ONLY_F32: test/build/embedded.sh" },
    { ATTN_ERR_NO_DEVICE, "needs a build with a GPU compiler" },
    { ATTN_ERR_GPU_ARCH, "needs a build with a GPU compiler" },
    { ATTN_ERR_GPU_MEMORY, "needs a GPU" },
    { ATTN_ERR_GPU_POINTER, "needs a GPU" },
    { ATTN_ERR_GPU_WORKSPACE, "needs a GPU" },
    { ATTN_ERR_GPU_STICKY, "needs a GPU" },
    { ATTN_ERR_GPU, "needs a GPU" },
    { ATTN_ERR_MPI_COMM, "needs ATTN_MPI: test/mpi/mpi_fixed.h" },
    { ATTN_ERR_MPI_SPLIT, "needs ATTN_MPI: test/mpi/mpi_fixed.h" },
    { ATTN_ERR_MPI_METHOD, "needs ATTN_MPI: test/mpi/mpi_fixed.h" },
    { ATTN_ERR_MPI_CUT, "needs ATTN_MPI: test/mpi/mpi_fixed.h" },
    { ATTN_ERR_MPI_DIFFERS, "needs ATTN_MPI: test/mpi/mpi_fixed.h" },
    { ATTN_ERR_MPI_MASK, "needs ATTN_MPI: test/mpi/mpi_fixed.h" },
    { ATTN_ERR_MPI_CACHE, "needs ATTN_MPI: test/mpi/mpi_fixed.h" },
    { ATTN_ERR_MPI_DEVICE, "needs ATTN_MPI and a GPU: test/mpi/mpi_device.h" },
    { ATTN_ERR_MPI_HEADS, "needs ATTN_MPI: test/mpi/mpi_fixed.h" },
    { ATTN_ERR_MPI_WORKSPACE, "needs ATTN_MPI: test/mpi/mpi_fixed.h" },
    { ATTN_ERR_MPI_TOLERANCE, "needs ATTN_MPI: test/mpi/mpi_fixed.h" },
    { ATTN_ERR_MPI_PLANES, "needs ATTN_MPI: test/mpi/mpi_fixed.h" },
    { ATTN_ERR_MPI_MESSAGES, "needs ATTN_MPI: test/mpi/mpi_fixed.h" },
    { ATTN_ERR_MPI, "needs ATTN_MPI: test/mpi/mpi_fixed.h" },
};

#define X(status, name, how, ...) \
    static void break_##status##_##name(context *c, attn_desc *d, attn_grad *g) { (void)c, (void)d, (void)g; __VA_ARGS__; }
CASES(X)
#undef X

typedef struct row {
    const char *name;
    attn_status status;
    call *how;
    void (*spoil)(context *c, attn_desc *d, attn_grad *g);
} row;
static const row rows[] = {
#define X(status, name, how, ...) { #status " " #name, ATTN_##status, how, break_##status##_##name },
    CASES(X)
#undef X
};

static const struct { attn_status status; const char *name; } statuses[] = {
#define X(name, number, text) { ATTN_##name, "ATTN_" #name },
    ATTN_STATUS_LIST(X)
#undef X
};

/* a context of which every call is valid */
static void make(context *c, tensors *t)
{
    uint64_t r = 7;
    attn_desc *d = &c->d;
    memset(c, 0, sizeof *c);
    memset(t, 0, sizeof *t);
    for (int64_t i = 0; i < COUNT(t->q); i++) ((float *)t->q)[i] = (float)random_gauss(&r);
    for (int64_t i = 0; i < COUNT(t->k); i++) ((float *)t->k)[i] = ((float *)t->v)[i] = (float)random_gauss(&r);
    memset(t->o, 0x5a, sizeof t->o);
    c->t = t;
    d->batch = B, d->q_len = SQ, d->kv_len = SK, d->heads = H, d->kv_heads = HK, d->head_dim = D;
    d->q.data = t->q, d->k.data = t->k, d->v.data = t->v, d->o.data = t->o, d->lse = t->lse;
    d->message = c->message;
    d->message_size = sizeof c->message;
    c->g.dout.data = t->dout, c->g.dq.data = t->dq, c->g.dk.data = t->dk, c->g.dv.data = t->dv;
    c->desc = d;
    c->grad = &c->g;
    c->to_plan = &c->plan;
    c->parts = 2;
    c->count = 1;
    c->part_o[0].data = t->dout, c->part_o[1].data = t->dq;
    c->part_lse[0] = c->part_lse[1] = t->dlse;
    c->shape[0] = B, c->shape[1] = SQ, c->shape[2] = H, c->shape[3] = D;
    c->src.data = t->q;
    c->dst.data = t->o;
    c->backend.name = "validate";
    c->backend.abi = ATTN_ABI;
    c->backend.plan = plan_any;
    c->backend.run = run_any;
    c->opts.iterations = 1;
}

static void test_row(void **state)
{
    const row *r = *state;
    context c;
    tensors *t = malloc(sizeof *t), *before = malloc(sizeof *t);
    attn_status s;
    int64_t alive;
    make(&c, t);
    r->spoil(&c, &c.d, &c.g);
    memcpy(before, t, sizeof *t);
    alive = unit_alive;
    memset(&c.plan, 0x55, sizeof c.plan);
    s = r->how(&c);
    if (s != r->status) fail_msg("%s, not %s (%s)", attn_status_name(s), attn_status_name(r->status), c.message);
    assert_memory_equal(t, before, sizeof *t);
    assert_int_equal(unit_alive, alive);
    if (r->how == QUERY && c.to_plan) {         /* nothing is planned; who declined, the plan may say */
        assert_true(c.plan.workspace_size == 0 && c.plan.threads == 0 && c.plan.splits == 0);
        assert_true(!c.plan.backend[0] && !c.plan.kernel[0] && !c.plan.isa[0] && memchr(c.plan.why, 0, sizeof c.plan.why));
    }
    if ((r->how == FORWARD || r->how == BACKWARD) && c.desc && c.d.message) assert_true(strlen(c.message) > 0);
    free(t);
    free(before);
}

/* The starting points themselves are valid: what a row reports comes from what it broke. */
static void test_valid(void **state)
{
    static void (*const start[])(context *) = { NULL, packed, paged, slots, append, rotary, quantised, bias, sink };
    tensors *t = malloc(sizeof *t);
    context c;
    (void)state;
    for (int64_t i = 0; i < COUNT(start); i++) {
        attn_status s;
        make(&c, t);
        if (start[i]) start[i](&c);
        s = FORWARD(&c);
        if (s) fail_msg("start %d: %s (%s)", (int)i, attn_status_name(s), c.message);
    }
    make(&c, t);
    strcpy(c.message, "of the call before");
    assert_ok(FORWARD(&c));
    assert_string_equal(c.message, "");
    make(&c, t);                                        /* a bias lies by head and query whatever the layout of the others is */
    bias(&c), c.d.bias.layout = c.d.mask.layout = ATTN_BHSD, c.d.mask.data = t->mask, c.d.mask.dtype = ATTN_BOOL;
    assert_ok(FORWARD(&c));
    for (int none = 0; none < 2; none++) {              /* what has no elements need not be there */
        make(&c, t);
        if (none) c.d.q_len = 0, c.d.q.data = c.d.o.data = c.d.lse = NULL, c.g.dout.data = c.g.dq.data = NULL;
        else c.d.kv_len = 0, c.d.k.data = c.d.v.data = NULL, c.g.dk.data = c.g.dv.data = NULL;
        assert_ok(FORWARD(&c));
        assert_ok(BACKWARD(&c));
        c.part_o[0].data = c.part_o[1].data = c.part_lse[0] = c.part_lse[1] = NULL;
        if (none) assert_ok(MERGE(&c));
    }
    make(&c, t);
    rotary(&c), c.d.flags |= ATTN_ROTARY_INTERLEAVED;
    assert_ok(FORWARD(&c));
    make(&c, t);                                        /* a row for the last new key, which no query has */
    rotary(&c), c.d.q_len = 1, c.d.append.rotary_rows = 5;
    assert_ok(FORWARD(&c));
    make(&c, t);
    c.d.batch = 1, strides(c.d.o.stride, ATTN_BROADCAST, H * D, D);
    assert_ok(FORWARD(&c));
    make(&c, t);
    c.d.q_len = 1, strides(c.d.o.stride, H * D, ATTN_BROADCAST, D);
    assert_ok(FORWARD(&c));
    make(&c, t);
    c.d.heads = c.d.kv_heads = 1, strides(c.d.o.stride, SQ * D, D, ATTN_BROADCAST);
    assert_ok(FORWARD(&c));
    make(&c, t);                                        /* pages of which no key is used */
    paged(&c), used(&c, 0), c.d.kv_len = 0, c.d.k.data = c.d.v.data = NULL;
    assert_ok(FORWARD(&c));
    make(&c, t);                                        /* positions are counted from start_k on: 1 to 3 are those of three queries */
    rotary(&c), c.d.seq.start_k = t->start, t->start[0] = t->start[1] = 2, c.d.append.rotary_rows = 4;
    assert_ok(FORWARD(&c));
    make(&c, t);
    rotary(&c), c.d.seq.start_k = t->start, t->start[0] = t->start[1] = 2, c.d.append.rotary_rows = 3;
    assert_int_equal(FORWARD(&c), ATTN_ERR_ROTARY_ROWS);
    make(&c, t);                                        /* a sequence that is over needs no row, however long it is */
    rotary(&c), cu_new(&c, 2, 2), c.d.seq.used_q = t->used_q, t->used_q[1] = 0;
    t->used_k[0] = 1, t->used_k[1] = SK, c.d.append.rotary_rows = SQ + 1;
    assert_ok(FORWARD(&c));
    make(&c, t);                                        /* one without a token has no page */
    paged(&c), c.d.seq.start_k = t->start, t->start[1] = t->used_k[1] = 3, t->table[4] = 99;
    assert_ok(FORWARD(&c));
    make(&c, t);                                        /* the next batch entry begins where the last row ends, not its gap */
    strides(c.d.o.stride, (SQ - 1) * (H * D + 4) + H * D, H * D + 4, D);
    assert_ok(FORWARD(&c));
    make(&c, t);
    assert_ok(BACKWARD(&c));
    make(&c, t);
    assert_ok(QUERY(&c));
    make(&c, t);
    assert_ok(MERGE(&c));
    make(&c, t);
    assert_ok(CONVERT(&c));
    make(&c, t);
    assert_ok(TIME(&c));
    make(&c, t);
    assert_ok(PARALLEL(&c));
    free(t);
}

static void test_every_status_has_a_case(void **state)
{
    int missing = 0;
    (void)state;
    for (int64_t i = 1; i < COUNT(statuses); i++) {
        int found = 0;
        for (int64_t j = 0; j < COUNT(rows); j++) found |= rows[j].status == statuses[i].status;
        for (int64_t j = 0; j < COUNT(not_here); j++) found |= not_here[j].status == statuses[i].status;
        if (!found) print_message("no case for %s\n", statuses[i].name), missing++;
    }
    assert_int_equal(missing, 0);
}

static void test_skipped(void **state)
{
    const char *reason = *state;
    print_message("skipped: %s\n", reason);
    skip();
}

/* ------------------------------------------------------------------------------------------ appended to twice */
typedef struct writers { int64_t batch, max_pages, page_size, pages; int32_t *table, *used, *cu; } writers;

static writers writers_make(int64_t batch, int64_t max_pages, int64_t page_size, int64_t pages)
{
    writers w = { batch, max_pages, page_size, pages, NULL, NULL, NULL };
    w.table = calloc((size_t)(batch * max_pages) + 1, 4);
    w.used = calloc((size_t)batch + 1, 4), w.cu = calloc((size_t)batch + 2, 4);
    return w;
}
static void writers_free(writers *w) { free(w->table), free(w->used), free(w->cu); }

static attn_status writers_query(const writers *w, int slots)
{
    static float one;
    attn_desc d = { 0 };
    attn_plan plan;
    d.batch = w->batch, d.q_len = 1, d.heads = 1, d.head_dim = 1, d.kv_len = w->max_pages * w->page_size, d.backend = "reference";
    d.seq.used_k = w->used;
    if (slots) d.seq.slot = w->table, d.seq.slots = w->pages;
    else d.seq.block_table = w->table, d.seq.page_size = w->page_size, d.seq.pages = w->pages, d.seq.max_pages = w->max_pages;
    d.append.k.data = d.append.v.data = &one, d.append.cu = w->cu, d.append.total = w->cu[w->batch];
    d.append.len = w->max_pages * w->page_size;
    return attn_query(&d, NULL, &plan);
}
/* one place of the table for each page that is written; returns how many */
static int64_t writers_places(const writers *w, int slots, int64_t *place)
{
    int64_t n = 0;
    for (int64_t b = 0; b < w->batch; b++) {
        const int64_t from = w->used[b], to = from + w->cu[b + 1] - w->cu[b];
        if (slots && to > from) place[n++] = b;
        for (int64_t p = from / w->page_size; !slots && to > from && p * w->page_size < to; p++) place[n++] = b * w->max_pages + p;
    }
    return n;
}
/* Random batches, few and many writers, pages near each other and far apart: with distinct pages, then with two that are the same,
 * then with a page shared by one that writes and one that does not. */
static void test_append_twice(void **state)
{
    uint64_t r = 23;
    int64_t refused = 0;
    (void)state;
    for (int n = 0; n < 400; n++) {
        const int slots = n % 4 == 3;
        const int64_t batch = 1 + (int64_t)(random_bits(&r) % (n % 8 ? 9 : 300)), most = slots ? 1 : 1 + (int64_t)(random_bits(&r) % (n % 16 ? 20 : 3000));
        const int64_t pages = n % 3 ? batch * most + (int64_t)(random_bits(&r) % 9) : INT32_MAX - (int64_t)(random_bits(&r) % 1000);
        writers w = writers_make(batch, most, 1 + (int64_t)(random_bits(&r) % 5), pages);
        int64_t *place = calloc((size_t)(batch * most) + 1, 8), step = pages / (batch * most), count;
        for (int64_t i = 0; i < batch * most; i++) w.table[i] = (int32_t)(i * step);
        for (int64_t i = batch * most - 1; i > 0; i--) {
            int64_t j = (int64_t)(random_bits(&r) % (uint64_t)(i + 1));
            int32_t t = w.table[i];
            w.table[i] = w.table[j], w.table[j] = t;
        }
        for (int64_t b = 0; b < batch; b++) {
            const int64_t all = most * w.page_size, from = (int64_t)(random_bits(&r) % (uint64_t)(all + 1));
            w.used[b] = (int32_t)from;
            w.cu[b + 1] = w.cu[b] + (int32_t)(random_bits(&r) % 4 ? random_bits(&r) % (uint64_t)(all - from + 1) : 0);
        }
        assert_ok(writers_query(&w, slots));
        count = writers_places(&w, slots, place);
        for (int k = 0; k < 4 && count > 1; k++, refused++) {
            const int64_t a = (int64_t)(random_bits(&r) % (uint64_t)count), b = (a + 1 + (int64_t)(random_bits(&r) % (uint64_t)(count - 1))) % count;
            const int32_t old = w.table[place[a]];
            w.table[place[a]] = w.table[place[b]];
            assert_int_equal(writers_query(&w, slots), slots ? ATTN_ERR_SLOT_TWICE : ATTN_ERR_PAGE_TWICE);
            w.table[place[a]] = old;
        }
        for (int64_t i = 0, at = 0; i < batch * most && count > 0; i++) {      /* all others read the first page that is written */
            while (at < count && place[at] < i) at++;
            if (at == count || place[at] != i) w.table[i] = w.table[place[0]];
        }
        assert_ok(writers_query(&w, slots));
        free(place);
        writers_free(&w);
    }
    assert_true(refused > 500);
}
/* One of three entries appends less than nothing; first and last are as they should be, and no step is above len. */
static void test_append_falls(void **state)
{
    static const int32_t cu[4] = { 0, 1, 0, 1 };
    writers w = writers_make(3, 1, 4, 3);
    (void)state;
    for (int32_t b = 0; b < 3; b++) w.table[b] = b, w.used[b] = 1;
    for (int slots = 0; slots < 2; slots++) {
        memset(w.cu, 0, sizeof cu);
        assert_ok(writers_query(&w, slots));
        memcpy(w.cu, cu, sizeof cu);
        assert_int_equal(writers_query(&w, slots), ATTN_ERR_APPEND_CU_NEW);
    }
    writers_free(&w);
}
/* A million pages, side by side and far apart: each with each would take an hour. */
static void test_append_many(void **state)
{
    (void)state;
    for (int far = 0; far < 2; far++)
        for (int slots = 0; slots < 2; slots++) {
            const int64_t n = far ? 1 << 17 : 1 << 20, batch = slots ? n : 8;
            writers w = writers_make(batch, n / batch, 1, far ? INT32_MAX : n);
            for (int64_t i = 0; i < n; i++) w.table[i] = (int32_t)(i * 40503 % n * (w.pages / n));
            for (int64_t b = 0; b < batch; b++) w.cu[b + 1] = w.cu[b] + (int32_t)(n / batch);
            assert_ok(writers_query(&w, slots));
            w.table[n - 1] = w.table[0];
            assert_int_equal(writers_query(&w, slots), slots ? ATTN_ERR_SLOT_TWICE : ATTN_ERR_PAGE_TWICE);
            writers_free(&w);
        }
}
/* Numbers where one pass over them ends and the next begins. */
static void test_append_borders(void **state)
{
    enum { N = 5000, BORDER = 1 << 18 };
    (void)state;
    for (int slots = 0; slots < 2; slots++) {
        writers w = writers_make(N, 1, 1, 2 * BORDER);
        for (int32_t b = 0; b < N; b++) w.table[b] = b, w.cu[b + 1] = b + 1;
        for (int32_t twice = BORDER - 2; twice < BORDER + 3; twice++) {
            w.table[7] = w.table[N - 3] = twice;
            assert_int_equal(writers_query(&w, slots), slots ? ATTN_ERR_SLOT_TWICE : ATTN_ERR_PAGE_TWICE);
            w.table[7] = 7;
            assert_ok(writers_query(&w, slots));
        }
        writers_free(&w);
    }
}

/* numbers and names are distinct and never change sign; texts are sentences of their own; any other number has a text too */
static void test_texts(void **state)
{
    (void)state;
    for (int64_t i = 0; i < COUNT(statuses); i++) {
        const char *text = attn_status_text(statuses[i].status);
        assert_non_null(text);
        assert_true(strlen(text) > 5);
        assert_string_equal(attn_status_name(statuses[i].status), statuses[i].name);
        for (int64_t j = 0; j < i; j++) {
            assert_int_not_equal(statuses[i].status, statuses[j].status);
            assert_string_not_equal(text, attn_status_text(statuses[j].status));
        }
    }
    assert_non_null(attn_status_text((attn_status)9999));
    assert_non_null(attn_status_name((attn_status)-1));
}

/* a sentence about types names those that its rule lets through, and no other */
static int names(attn_status status, const char *type)
{
    const char *text = attn_status_text(status), *at = text;
    const size_t n = strlen(type);
    while ((at = strstr(at, type)) != NULL && (at == text || at[-1] != ' ' || (at[n] && at[n] != ' '))) at++;
    return at != NULL;
}
static void test_texts_of_types(void **state)
{
#define X(name, number, text, bytes, elements, kind, most) {number, text},
    static const struct { int32_t number; const char *text; } types[] = {ATTN_DTYPE_LIST(X)};
#undef X
    static const attn_status refused[] = {ATTN_ERR_DTYPE_Q, ATTN_ERR_DTYPE_KV, ATTN_ERR_DTYPE_KV, ATTN_ERR_DTYPE_O, ATTN_ERR_DTYPE_BIAS, ATTN_ERR_DTYPE_MASK};
    tensors *t = malloc(sizeof *t);
    context c;
    (void)state;
    for (int64_t i = 0; i < COUNT(types) * COUNT(refused); i++) {
        const attn_status rule = refused[i % COUNT(refused)];
        const char *type = types[i / COUNT(refused)].text;
        make(&c, t);
        c.d.bias.data = t->bias, c.d.mask.data = t->mask, c.d.mask.dtype = ATTN_BOOL;
        int32_t *of[] = {&c.d.q.dtype, &c.d.k.dtype, &c.d.v.dtype, &c.d.o.dtype, &c.d.bias.dtype, &c.d.mask.dtype};
        *of[i % COUNT(refused)] = types[i / COUNT(refused)].number;
        const attn_status s = attn_query(&c.d, NULL, &c.plan);
        if (names(rule, type) == (s == rule)) fail_msg("'%s', and %s gives %s", attn_status_text(rule), type, attn_status_name(s));
        if (rule == ATTN_ERR_DTYPE_KV) assert_int_equal(names(ATTN_ERR_QUANT_SCALE, type), s == ATTN_ERR_QUANT_SCALE);
    }
    free(t);
}

/* a message never passes the end of its buffer */
static void test_message_bounds(void **state)
{
    tensors *t = malloc(sizeof *t);
    context c;
    (void)state;
    for (size_t size = 1; size < 40; size++) {
        make(&c, t);
        memset(c.message, 'x', sizeof c.message);
        c.d.message_size = size;
        c.d.kv_heads = 3;
        assert_int_equal(attn_forward(&c.d), ATTN_ERR_HEADS);
        assert_true(memchr(c.message, 0, size) != NULL);
        assert_int_equal(c.message[size], 'x');
    }
    free(t);
}

/* A message ends in what is refused, or in the text of the status where that is all. */
static void misaligned_k(context *c) { c->d.k.data = (const char *)c->d.k.data + 1; }
static void typeless_o(context *c) { c->d.o.dtype = 99; }
static void masked_v(context *c) { c->d.v.dtype = ATTN_BOOL; }
static void unscaled_v(context *c) { quantised(c), c->d.v.scale = NULL; }
static void scaled_q(context *c) { c->d.q.scale = c->t->lse; }
static void layout_of_bias(context *c) { bias(c), c->d.bias.layout = 7; }
static void typeless_mask(context *c) { c->d.mask.data = c->t->mask, c->d.mask.dtype = 99; }
static void close_k(context *c) { append(c), c->d.k.stride[0] = 1, c->d.k.stride[1] = 1, c->d.k.stride[2] = 1; }
static void append_type(context *c) { append(c), c->d.append.v.dtype = 99; }
static void falling_q(context *c) { packed(c), ((int32_t *)(uintptr_t)c->d.seq.cu_q)[1] = -1; }
static void long_k(context *c) { packed(c), c->d.kv_len = 1; }
static void used_k(context *c) { paged(c), ((int32_t *)(uintptr_t)c->d.seq.used_k)[B - 1] = -1; }
static void page(context *c) { paged(c), ((int32_t *)(uintptr_t)c->d.seq.block_table)[c->d.seq.max_pages + 1] = -1; }
static void page_beyond(context *c) { paged(c), c->t->table[c->d.seq.max_pages + 1] = (int32_t)c->d.seq.pages; }
static void slot(context *c) { slots(c), ((int32_t *)(uintptr_t)c->d.seq.slot)[0] = 99; }
static void slot_twice(context *c) { append(c), slots(c), c->t->slot[0] = c->t->slot[B - 1]; }
static void page_twice(context *c) { append(c), paged(c), used(c, 3), c->t->table[4] = 2, c->t->table[5] = 0; }
static void keys_beyond(context *c) { rotary(c), c->d.append.rotary_rows = 4, c->d.q_len = 1, c->t->used_k[B - 1]--; }
static void q_len_beyond(context *c) { rotary(c), c->d.append.len = 1, c->d.append.rotary_rows = 5; }
static void old_keys_beyond(context *c) { keys_beyond(c), c->t->used_k[B - 1] = 5, c->d.append.len = 0; }
static void used_q_beyond(context *c) { q_len_beyond(c), c->t->used_q[0] = 1, c->t->used_q[1] = 3, c->d.seq.used_q = c->t->used_q; }
static void cu_q_beyond(context *c) { packed_q(c), rotary(c), c->d.q_len = 5, c->t->cu_q[1] = 1, c->d.append.len = 1, c->d.append.rotary_rows = 5; }
static void long_new(context *c) { cu_new(c, 1, 4); }
static void o_on_k(context *c) { c->d.o.data = c->t->k; }
static void lse_on_o(context *c) { c->d.lse = (float *)(void *)c->t->o; }
static void dv_on_dk(context *c) { c->g.dv.data = c->g.dk.data; }
static void dq_type(context *c) { c->g.dq.dtype = 99; }
static void second_part(context *c) { c->part_o[1].dtype = 99; }
static void heads(context *c) { c->d.kv_heads = 3; }
static void test_message_names(void **state)
{
    static const struct { void (*spoil)(context *); call *how; const char *what; } cases[] = {
        { misaligned_k, FORWARD, ": k" }, { misaligned_k, QUERY, ": k" }, { misaligned_k, MERGE, ": k" }, { typeless_o, FORWARD, ": o" }, { masked_v, FORWARD, ": v" },
        { unscaled_v, FORWARD, ": v" }, { scaled_q, FORWARD, ": q" }, { layout_of_bias, FORWARD, ": bias" }, { typeless_mask, FORWARD, ": mask" },
        { close_k, FORWARD, ": k" }, { append_type, FORWARD, ": append.v" }, { falling_q, FORWARD, ": cu_q[1]" }, { long_k, FORWARD, ": cu_k[1]" },
        { used_k, FORWARD, ": used_k[1]" }, { page, QUERY, NULL }, { page_beyond, FORWARD, NULL }, { slot, FORWARD, ": slot[0]" }, { slot_twice, FORWARD, ": slot[1]" }, { page_twice, FORWARD, ": block_table[4]" },
        { keys_beyond, FORWARD, ": used_k[0]" }, { old_keys_beyond, FORWARD, ": used_k[1]" }, { q_len_beyond, FORWARD, ": q_len" }, { used_q_beyond, FORWARD, ": used_q[1]" }, { cu_q_beyond, FORWARD, ": cu_q[2]" }, { long_new, FORWARD, ": append.cu[2]" }, { o_on_k, FORWARD, ": o and k" }, { lse_on_o, FORWARD, ": lse and o" },
        { dv_on_dk, BACKWARD, ": dv and dk" }, { dq_type, BACKWARD, ": dq" }, { second_part, MERGE, ": parts[1]" }, { heads, FORWARD, "" },
    };
    tensors *t = malloc(sizeof *t);
    (void)state;
    for (int i = 0; i < COUNT(cases); i++) {
        context c;
        char want[512], got[512] = "", entry[32];
        make(&c, t);
        cases[i].spoil(&c);
        c.d.message = got, c.d.message_size = sizeof got;
        snprintf(entry, sizeof entry, ": block_table[%d]", (int)c.d.seq.max_pages + 1);
        attn_status s = cases[i].how(&c);
        assert_int_not_equal(s, ATTN_OK);
        snprintf(want, sizeof want, "%s%s", attn_status_text(s), cases[i].what ? cases[i].what : entry);
        assert_string_equal(got, want);
    }
    free(t);
}

/* ------------------------------------------------------------------------------------------ overlap, to the byte */
static void masks(context *c) { c->d.mask.data = c->t->mask, c->d.mask.dtype = ATTN_BOOL; }
static void starts(context *c) { used(c, 4), c->d.seq.start_k = c->t->start, c->d.seq.used_q = c->t->used_q; }
static void alibis(context *c) { c->d.alibi = c->t->sink; }
static void shares(context *c) { bias(c), c->d.bias_scale = c->t->sink; }
static void new_lengths(context *c) { cu_new(c, 2, 3); }
static void dlse(context *c) { c->g.dlse = c->t->dlse; }
static void dbias(context *c) { bias(c), c->g.dbias = c->t->dbias; }
static void dsink(context *c) { sink(c), c->g.dsink = c->t->dsink; }
static void tolerates(context *c) { c->d.tolerance = 0.01f, c->d.cert = c->t->cert, c->d.statistics = &c->t->told; }
#define IN(call, set, field, bytes) { call, set, #field, offsetof(context, field), bytes }
enum { ROWS = B * H * SQ, NEW_K = B * 2 * HK * D };
static const struct array { call *how; void (*set)(context *c); const char *name; size_t at; int64_t bytes; } inputs[] = {
    IN(FORWARD, NULL, d.q.data, ROWS * D * 4), IN(FORWARD, NULL, d.k.data, B * SK * HK * D * 4), IN(FORWARD, NULL, d.v.data, B * SK * HK * D * 4),
    IN(FORWARD, quantised, d.k.scale, B * SK * HK * 4), IN(FORWARD, quantised, d.v.scale, B * SK * HK * 4),
    IN(FORWARD, bias, d.bias.data, ROWS * SK * 4), IN(FORWARD, masks, d.mask.data, ROWS * SK), IN(FORWARD, alibis, d.alibi, H * 4),
    IN(FORWARD, sink, d.sink, H * 4), IN(FORWARD, shares, d.bias_scale, H * 4), IN(FORWARD, packed, d.seq.cu_q, B * 4 + 4),
    IN(FORWARD, packed, d.seq.cu_k, B * 4 + 4), IN(FORWARD, starts, d.seq.used_q, B * 4), IN(FORWARD, starts, d.seq.used_k, B * 4), IN(FORWARD, starts, d.seq.start_k, B * 4),
    IN(FORWARD, slots, d.seq.slot, B * 4), IN(FORWARD, paged, d.seq.block_table, B * 3 * 4), IN(FORWARD, append, d.append.k.data, NEW_K * 4),
    IN(FORWARD, append, d.append.v.data, NEW_K * 4), IN(FORWARD, rotary, d.append.rotary_cos, 16 * D * 2),
    IN(FORWARD, rotary, d.append.rotary_sin, 16 * D * 2), IN(FORWARD, new_lengths, d.append.cu, B * 4 + 4),
    IN(BACKWARD, NULL, d.q.data, ROWS * D * 4), IN(BACKWARD, NULL, d.k.data, B * SK * HK * D * 4), IN(BACKWARD, NULL, d.v.data, B * SK * HK * D * 4),
    IN(BACKWARD, NULL, d.o.data, ROWS * D * 4), IN(BACKWARD, NULL, d.lse, ROWS * 4), IN(BACKWARD, NULL, g.dout.data, ROWS * D * 4),
    IN(BACKWARD, dlse, g.dlse, ROWS * 4), IN(BACKWARD, bias, d.bias.data, ROWS * SK * 4), IN(BACKWARD, masks, d.mask.data, ROWS * SK),
    IN(BACKWARD, alibis, d.alibi, H * 4), IN(BACKWARD, sink, d.sink, H * 4), IN(BACKWARD, packed, d.seq.cu_q, B * 4 + 4),
    IN(BACKWARD, starts, d.seq.used_k, B * 4), IN(BACKWARD, shares, d.bias_scale, H * 4),
}, outputs[] = {
    IN(FORWARD, NULL, d.o.data, ROWS * D * 4), IN(FORWARD, NULL, d.lse, ROWS * 4), IN(FORWARD, tolerates, d.cert, ROWS * 4),
    IN(FORWARD, tolerates, d.statistics, sizeof(attn_statistics)), IN(FORWARD, cached, d.append.k_scale, B * SK * HK * 4),
    IN(FORWARD, cached, d.append.v_scale, B * SK * HK * 4), IN(BACKWARD, NULL, g.dq.data, ROWS * D * 4),
    IN(BACKWARD, NULL, g.dk.data, B * SK * HK * D * 4), IN(BACKWARD, NULL, g.dv.data, B * SK * HK * D * 4), IN(BACKWARD, dbias, g.dbias, ROWS * SK * 4),
    IN(BACKWARD, dsink, g.dsink, H * 4),
};
static char *pointer_at(const context *c, size_t field)
{
    char *p;
    memcpy(&p, (const char *)c + field, sizeof p);
    return p;
}
/* Both in a room of their own, `other` behind or before `out`, touching it or with an element in common. */
static void overlap(const struct array *out, const struct array *other, int behind, int common)
{
    static char room[1 << 14] __attribute__((aligned(64)));
    static tensors t;
    context c;
    make(&c, &t);
    if (out->set) out->set(&c);
    if (other->set) other->set(&c);
    if (strstr(out->name, "statistics") || strstr(other->name, "statistics")) common *= 2;     /* of elements of 8 bytes */
    char *o = room + sizeof room / 2, *p = behind ? o + out->bytes - common : o - other->bytes + common;
    const char *from = pointer_at(&c, other->at);
    if (other->bytes % 4) p -= (p - room) & 3;
    memmove(p, from, (size_t)other->bytes);             /* lengths and tables stay valid */
    memcpy((char *)&c + out->at, &o, sizeof o);
    memcpy((char *)&c + other->at, &p, sizeof p);
    if (strstr(out->name, "append.k_scale")) c.d.k.scale = (const float *)(const void *)o;
    if (strstr(out->name, "append.v_scale")) c.d.v.scale = (const float *)(const void *)o;
    const attn_status s = out->how(&c), want = common ? ATTN_ERR_OVERLAP : ATTN_OK;
    if (s != want) fail_msg("%s with %s %s it, %d bytes in common: %s, not %s", out->name, other->name, behind ? "behind" : "before", common,
                            attn_status_name(s), attn_status_name(want));
}
static void test_overlap(void **state)
{
    (void)state;
    for (int64_t i = 0; i < COUNT(outputs); i++) {
        for (int64_t j = 0; j < COUNT(inputs) * 4; j++)
            if (outputs[i].how == inputs[j / 4].how && outputs[i].set != cached) overlap(&outputs[i], &inputs[j / 4], j % 4 > 1, j % 2 * 4);
        for (int64_t j = 0; j < COUNT(outputs) * 4; j++)
            if (i != j / 4 && outputs[i].how == outputs[j / 4].how && outputs[i].set != cached && outputs[j / 4].set != cached)
                overlap(&outputs[i], &outputs[j / 4], j % 4 > 1, j % 2 * 4);
        for (int64_t j = 0; j < 4; j++)
            if (outputs[i].set == cached) overlap(&outputs[i], &inputs[0], j > 1, j % 2 * 4), overlap(&outputs[i], &outputs[0], j > 1, j % 2 * 4);
    }
}

/* Each of these but the mask, of bytes, has elements of 4 bytes, and begins at a multiple of 4. */
static void unaligned(const struct array *a, int by)
{
    static tensors t;
    context c;
    make(&c, &t);
    if (a->set) a->set(&c);
    const char *p = pointer_at(&c, a->at) + by;
    memcpy((char *)&c + a->at, &p, sizeof p);
    if (strstr(a->name, "append.k_scale")) c.d.k.scale = (const float *)(const void *)p;
    if (strstr(a->name, "append.v_scale")) c.d.v.scale = (const float *)(const void *)p;
    char told[256] = "", want[256];
    c.d.message = told, c.d.message_size = sizeof told;
    const attn_status s = a->how(&c);
    if (s != ATTN_ERR_ALIGN) fail_msg("%s, off by %d: %s", a->name, by, attn_status_name(s));
    /* d.q.data is told as q, d.seq.cu_q as cu_q, what is appended with the cache's scales as these */
    const char *name = a->name + 2;
    name = strstr(name, "k_scale") ? "k.scale" : strstr(name, "v_scale") ? "v.scale" : strstr(name, "rotary") ? strstr(name, "rotary") : name;
    name += strncmp(name, "seq.", 4) ? 0 : 4;
    const char *end = strstr(name, ".data");
    snprintf(want, sizeof want, "%s: %.*s", attn_status_text(s), (int)(end ? end - name : (long)strlen(name)), name);
    if (a->how != CONVERT && strcmp(told, want)) fail_msg("%s, off by %d, is told as \"%s\"", a->name, by, told);
}
static void test_aligned(void **state)
{
    (void)state;
    for (int64_t i = 0; i < COUNT(inputs) * 3; i++)
        if (!strstr(inputs[i / 3].name, "mask")) unaligned(&inputs[i / 3], 1 + (int)(i % 3));
    for (int64_t i = 0; i < COUNT(outputs) * 3; i++) unaligned(&outputs[i / 3], 1 + (int)(i % 3));
}

int main(int argc, char **argv)
{
    enum { OTHERS = 10 };
    struct CMUnitTest others[OTHERS + COUNT(not_here)] = {
        cmocka_unit_test(test_valid), cmocka_unit_test(test_every_status_has_a_case), cmocka_unit_test(test_texts),
        cmocka_unit_test(test_message_bounds), cmocka_unit_test(test_message_names), cmocka_unit_test(test_append_twice), cmocka_unit_test(test_append_many), cmocka_unit_test(test_append_borders),
        cmocka_unit_test(test_overlap), cmocka_unit_test(test_texts_of_types), cmocka_unit_test(test_aligned),
        cmocka_unit_test(test_append_falls)
    };
    if (argc > 1 && (!strcmp(argv[1], "--forward") || !strcmp(argv[1], "--convert"))) {
        static tensors t;
        static context c;
        make(&c, &t);
        return (int)(argv[1][2] == 'f' ? FORWARD(&c) : CONVERT(&c));
    }
    for (int64_t i = 0; i < COUNT(not_here); i++) {
        others[OTHERS + i].name = attn_status_name(not_here[i].status);
        others[OTHERS + i].test_func = test_skipped;
        others[OTHERS + i].initial_state = (void *)(uintptr_t)not_here[i].reason;
    }
    return cmocka_run_group_tests_name("validate", others, NULL, NULL) + RUN_ROWS(rows, test_row);
}
