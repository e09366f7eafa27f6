/* types.c - every mix of types: which backend answers, and with which bits.
 *
 *   choice   attn_query on every combination of types, each in a random description of everything else that a caller can set: the
 *            automatic choice is flash, and the reference for f64 in q, k, v or dout alone, which the plan then says
 *   bits     q, k, v, dout in their own types (scales are powers of two) against the same numbers widened to f32 beforehand, with
 *            other strides: the same bits; o and the gradients in their own types against those in f32, rounded once. Where the kernel
 *            multiplies bf16 as such (its name says so), against the same numbers in bf16
 *
 * Run with ATTN_ISA set, it tests that instruction set, or says that the machine lacks it. */
#include "proof_unit.h"

enum { FLOATS = 3, KV = 5, OUTS = 4 };                  /* the first so many of these are for q and dout, k and v, outputs */
static const int32_t float_types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
static const int32_t kv_types[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_INT8, ATTN_FP8_E4M3, ATTN_F64};
static const char *const fast[] = {"flash", "standard"};

static uint64_t random_below(uint64_t n) { return random_bits(&values) % n; }
static int one_in(uint64_t n) { return random_below(n) == 0; }
static int64_t one_of(const int64_t *list, int64_t n) { return list[random_below((uint64_t)n)]; }
#define ONE_OF(...) one_of((const int64_t[]){__VA_ARGS__}, (int64_t)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)))
static int quantised(int32_t t) { return t == ATTN_INT8 || t == ATTN_FP8_E4M3; }

/* -------------------------------------------------------------------------------------------------------- choice */
enum { ROOM = 64 };                                     /* entries of each array of lengths */
typedef struct probe {
    attn_desc d;
    attn_grad g;
    int backward;
    int32_t cu_q[ROOM], cu_k[ROOM], used_q[ROOM], used_k[ROOM], start[ROOM], slot[ROOM], table[ROOM], cu_new[ROOM];
    double somewhere[8];                                /* what no query touches */
} probe;

static void probe_strides(int64_t stride[3], int32_t *layout, int64_t n1, int64_t n2, int64_t dim, int written) {
    const int kind = (int)random_below(7);
    const int64_t gap = ONE_OF(0, 1, 3, 16), row = dim + gap, token = n2 * row + gap;
    *layout = kind == 1 ? ATTN_BHSD : ATTN_BSHD;
    if (kind < 2) return;
    stride[2] = row, stride[1] = token, stride[0] = n1 * token + gap;
    if (kind == 2) stride[1] = row, stride[2] = n1 * row + gap, stride[0] = n2 * stride[2];
    for (int a = 0; a < 3; a++)
        if (stride[a] == 0) stride[a] = 1;
    if (written) return;
    if (kind == 3) stride[random_below(3)] = ATTN_BROADCAST;
    if (kind == 4) stride[random_below(3)] *= -1;
}
static void probe_scores(attn_in *t, const attn_desc *d) {
    int64_t step = d->kv_len + ONE_OF(0, 5) + 1;
    const int64_t n[3] = {d->batch, d->heads, d->q_len};
    for (int a = 2; a >= 0; a--) {
        t->stride[a] = one_in(3) ? ATTN_BROADCAST : step;
        if (t->stride[a] == step) step *= n[a] + 1;
    }
}
/* lengths and tables, all as short as the least that every one of them allows */
static void probe_lengths(probe *p) {
    attn_desc *d = &p->d;
    attn_seq *s = &d->seq;
    const int kind = (int)random_below(6);              /* 0, 1: contiguous */
    const int64_t q = d->q_len < 64 ? d->q_len : 64, k = d->kv_len < 64 ? d->kv_len : 64;
    for (int b = 0; b < ROOM; b++) {
        p->cu_q[b] = (int32_t)(b < d->batch ? b * q : d->batch * q), p->cu_k[b] = (int32_t)(b < d->batch ? b * k : d->batch * k);
        p->used_q[b] = (int32_t)(q - (q > 1)), p->used_k[b] = (int32_t)(k - k / 3), p->start[b] = (int32_t)(k / 4);
        p->slot[b] = (int32_t)(2 * b + 1), p->table[b] = b, p->cu_new[b] = (int32_t)(b < d->batch ? b : d->batch);
    }
    if (kind == 2) s->cu_q = p->cu_q, s->total_q = d->batch * q;
    if (kind == 2 && one_in(2)) s->cu_k = p->cu_k, s->total_k = d->batch * k;
    if (kind == 3 && one_in(2)) s->used_q = p->used_q;
    if (kind >= 3) s->used_k = p->used_k;
    if (kind >= 3 && one_in(2)) s->start_k = p->start;
    if (p->backward || kind < 4) return;
    if (kind == 4) s->slot = p->slot, s->slots = 2 * d->batch + 1;
    if (kind == 5) {
        s->block_table = p->table, s->page_size = ONE_OF(64, 96, 1 << 20);
        s->max_pages = d->kv_len / s->page_size + 1;
        s->pages = ROOM;
        if (s->max_pages * d->batch > ROOM) s->block_table = NULL, s->page_size = s->max_pages = s->pages = 0;
    }
    if (one_in(2) || k / 3 < 1) return;
    attn_append *a = &d->append;
    a->len = 1;
    if (one_in(3)) a->cu = p->cu_new, a->total = d->batch;
    a->k.data = a->v.data = p->somewhere;
    a->k.dtype = float_types[random_below(4)], a->v.dtype = float_types[random_below(4)];
    a->k_cache = a->v_cache = p->somewhere;
    if (quantised(d->k.dtype)) a->k_scale = (float *)(void *)p->somewhere;
    if (quantised(d->v.dtype)) a->v_scale = (float *)(void *)p->somewhere;
    if (d->head_dim < 2 || one_in(2)) return;
    a->rotary_cos = a->rotary_sin = (float *)(void *)p->somewhere;
    a->rotary_dim = d->head_dim / 2 * 2, a->rotary_rows = 256;
    if (d->q_len > 128) a->rotary_rows = d->q_len + 256;
    if (one_in(2)) d->flags |= ATTN_ROTARY_INTERLEAVED;
}
static void probe_masks(probe *p) {
    static const float scales[] = {0, -0.5f, 0x1p-140f, 0x1p-20f, 0x1p100f}, caps[] = {0x1p-140f, 0.5f, 30, 0x1p120f};
    attn_desc *d = &p->d;
    if (one_in(2)) d->flags |= ATTN_CAUSAL;
    if (one_in(4)) d->flags |= ATTN_WINDOW_LEFT, d->window_left = ONE_OF(0, 1, 100, INT64_MAX);
    if (one_in(4)) d->flags |= ATTN_WINDOW_RIGHT, d->window_right = ONE_OF(0, 1, 100, INT64_MAX);
    if (one_in(4)) d->flags |= ATTN_TOP_LEFT;
    else if (one_in(4)) d->flags |= ATTN_OFFSET, d->offset = ONE_OF(0, -7, 1000, INT64_MIN, INT64_MAX);
    if (one_in(4)) d->flags |= ATTN_SCALE, d->scale = scales[random_below(5)];
    if (one_in(4)) d->softcap = caps[random_below(4)];
    if (one_in(4) && d->kv_len < UINT32_MAX) d->dropout = one_in(2) ? 0.1f : 0x1.fffffep-1f, d->seed = 1;
    if (one_in(3)) {
        d->bias.data = p->somewhere, d->bias.dtype = float_types[random_below(4)];
        probe_scores(&d->bias, d);
    }
    if (one_in(3)) {
        d->mask.data = p->somewhere, d->mask.dtype = ATTN_BOOL;
        probe_scores(&d->mask, d);
    }
    if (one_in(4)) d->alibi = (float *)(void *)p->somewhere;
    if (one_in(4)) d->sink = (float *)(void *)p->somewhere;
    if (one_in(2)) d->lse = (float *)(void *)p->somewhere;
    d->threads = (int32_t)ONE_OF(0, 0, 1, 2, 7, 1024);
}
/* everything but the types */
static void probe_make(probe *p) {
    attn_desc *d = &p->d;
    d->backend = "auto";                                /* not what the environment names */
    d->batch = ONE_OF(0, 1, 1, 2, 3);
    d->kv_heads = ONE_OF(0, 1, 2, 8);
    d->heads = (d->kv_heads ? d->kv_heads : 1) * ONE_OF(1, 1, 4, 5);
    d->head_dim = ONE_OF(1, 2, 3, 17, 32, 64, 80, 128, 192, 256, 300, 576, 4096);
    d->v_dim = one_in(2) ? 0 : ONE_OF(1, 5, 33, 64, 128, 512);
    d->q_len = ONE_OF(0, 1, 1, 2, 5, 16, 100, 513, 4096, (int64_t)1 << 20);
    d->kv_len = ONE_OF(0, 1, 2, 7, 64, 1000, 2048, 5000, 1 << 17, (int64_t)1 << 33);
    const int64_t kvh = proof_kv_heads(d), dv = proof_v_dim(d);
    probe_lengths(p);
    const int cache = d->append.len > 0;
    const proof_view kv = proof_kv_view(d, d->k.stride, 0, 1), q = proof_rows_view(d, d->q.stride, 0, 1);
    probe_strides(d->q.stride, &d->q.layout, q.n[1], d->heads, d->head_dim, 0);
    probe_strides(d->k.stride, &d->k.layout, kv.n[1], kvh, d->head_dim, cache);
    probe_strides(d->v.stride, &d->v.layout, kv.n[1], kvh, dv, cache);
    probe_strides(d->o.stride, &d->o.layout, q.n[1], d->heads, dv, 1);
    int32_t ignored;
    if (d->k.scale) probe_strides(d->k.scale_stride, &ignored, kv.n[1], kvh, 1, 1);
    if (d->v.scale) probe_strides(d->v.scale_stride, &ignored, kv.n[1], kvh, 1, 1);
    if (cache) {
        d->k.data = d->v.data = p->somewhere;
        probe_strides(d->append.k.stride, &d->append.k.layout, d->append.cu ? d->append.total : 1, kvh, d->head_dim, 0);
        probe_strides(d->append.v.stride, &d->append.v.layout, d->append.cu ? d->append.total : 1, kvh, dv, 0);
    }
    probe_masks(p);
    if (!p->backward) return;
    attn_grad *g = &p->g;
    probe_strides(g->dout.stride, &g->dout.layout, q.n[1], d->heads, dv, 0);
    probe_strides(g->dq.stride, &g->dq.layout, q.n[1], d->heads, d->head_dim, 1);
    probe_strides(g->dk.stride, &g->dk.layout, kv.n[1], kvh, d->head_dim, 1);
    probe_strides(g->dv.stride, &g->dv.layout, kv.n[1], kvh, dv, 1);
    if (one_in(2)) g->dlse = (float *)(void *)p->somewhere;
    if (d->bias.data && one_in(2)) g->dbias = (float *)(void *)p->somewhere;
    if (d->sink && one_in(2)) g->dsink = (float *)(void *)p->somewhere;
    if (one_in(3)) d->flags |= ATTN_ACCUMULATE;
}
static void probe_fail(const probe *p, const attn_plan *plan, const char *what) {
    const attn_desc *d = &p->d;
    fail_msg("%s: %s %s by %s, %s\n%s  q k v o %d %d %d %d, dout dq dk dv %d %d %d %d, batch %lld q %lld k %lld heads %lld/%lld dim %lld/%lld "
             "flags %u append %lld", what, p->backward ? "backward" : "forward", d->message, plan->backend, plan->kernel, plan->why,
             d->q.dtype, d->k.dtype, d->v.dtype, d->o.dtype, p->g.dout.dtype, p->g.dq.dtype, p->g.dk.dtype, p->g.dv.dtype,
             (long long)d->batch, (long long)d->q_len, (long long)d->kv_len, (long long)d->heads, (long long)d->kv_heads,
             (long long)d->head_dim, (long long)d->v_dim, d->flags, (long long)d->append.len);
}
/* The tensor whose type only the reference computes in, or NULL. */
static const char *only_reference(const probe *p) {
    return p->d.q.dtype == ATTN_F64                        ? "q is f64"
           : p->d.k.dtype == ATTN_F64                      ? "k is f64"
           : p->d.v.dtype == ATTN_F64                      ? "v is f64"
           : p->backward && p->g.dout.dtype == ATTN_F64    ? "dout is f64"
                                                           : NULL;
}
static void probe_check(probe *p) {
    char text[200] = "";
    attn_plan plan;
    const char *only = only_reference(p), *flash;
    p->d.message = text, p->d.message_size = sizeof text;
    attn_status s = attn_query(&p->d, p->backward ? &p->g : NULL, &plan);
    if (s) probe_fail(p, &plan, attn_status_name(s));
    flash = strstr(plan.why, "flash: ");
    if (!only) {
        if (strcmp(plan.backend, "flash") || strncmp(plan.kernel, "flash_", 6) || strcmp(plan.isa, attn_isa()) || flash)
            probe_fail(p, &plan, "the automatic choice is not flash");
        return;
    }
    if (strcmp(plan.backend, "reference") || !strstr(plan.kernel, "_f64")) probe_fail(p, &plan, "f64 and not the reference");
    if (!flash || strncmp(flash + 7, only, strlen(only)) || !strstr(plan.why, "standard: "))
        probe_fail(p, &plan, "the plan does not say why it is the reference");
}
/* Combination n of the types of q, k, v, o, and of dout, dq, dk, dv. */
static void probe_types(probe *p, int64_t n) {
    attn_desc *d = &p->d;
    attn_grad *g = &p->g;
    d->q.dtype = float_types[n % 4], d->k.dtype = kv_types[n / 4 % 6], d->v.dtype = kv_types[n / 24 % 6], d->o.dtype = float_types[n / 144 % 4];
    g->dout.dtype = float_types[random_below(4)], g->dq.dtype = float_types[random_below(4)];
    g->dk.dtype = float_types[random_below(4)], g->dv.dtype = float_types[random_below(4)];
    if (quantised(d->k.dtype)) d->k.scale = (float *)(void *)p->somewhere;
    if (quantised(d->v.dtype)) d->v.scale = (float *)(void *)p->somewhere;
    p->backward = !d->k.scale && !d->v.scale && n / 576 % 2;
}
static void choice(void **state) {
    enum { TYPES = 4 * 6 * 6 * 4 * 2, EACH = 60 };
    static probe p;
    (void)state;
    for (int64_t n = 0; n < (int64_t)TYPES * EACH; n++) {
        memset(&p, 0, sizeof p);
        probe_types(&p, n % TYPES);
        probe_make(&p);
        probe_check(&p);
    }
}

/* ---------------------------------------------------------------------------------------------------------- bits */
enum { DENSE, PACKED, PADDED, SLOTS, PAGED, APPEND };
typedef struct shape {
    const char *name;
    int64_t batch, q_len, kv_len, heads, kv_heads, dim, v_dim;
    uint32_t flags;
    int64_t left;
    int seq, extras, dropout, backward;
} shape;
static const shape shapes[] = {
    {"one query, one key", 1, 1, 1, 1, 1, 64, 64, 0, 0, DENSE, 0, 0, 1},
    {"one key", 2, 3, 1, 2, 2, 40, 24, 0, 0, DENSE, 0, 0, 1},
    {"V where it lies: few rows", 1, 5, 200, 2, 2, 64, 64, 0, 0, DENSE, 0, 0, 0},
    {"V where it lies: one dense head", 1, 48, 128, 1, 1, 64, 64, 0, 0, DENSE, 0, 0, 0},
    {"rows", 1, 50, 131, 2, 2, 64, 64, 0, 0, DENSE, 0, 0, 1},
    {"odd dims, causal", 2, 33, 37, 2, 2, 33, 17, ATTN_CAUSAL, 0, DENSE, 0, 0, 1},
    {"window", 1, 70, 90, 2, 2, 16, 16, ATTN_CAUSAL | ATTN_WINDOW_LEFT, 20, DENSE, 0, 0, 1},
    {"heads that share keys, one query", 2, 1, 300, 8, 2, 128, 128, 0, 0, DENSE, 0, 0, 0},
    {"heads that share keys", 1, 9, 70, 6, 2, 40, 40, ATTN_CAUSAL, 0, DENSE, 0, 0, 1},
    {"key splits", 1, 1, 2300, 2, 1, 32, 32, 0, 0, DENSE, 0, 0, 0},
    {"extras", 2, 20, 45, 2, 1, 24, 24, ATTN_CAUSAL, 0, DENSE, 1, 0, 1},
    {"dropout", 2, 20, 45, 2, 2, 24, 24, 0, 0, DENSE, 0, 1, 1},
    {"packed", 3, 12, 20, 2, 1, 24, 24, ATTN_CAUSAL, 0, PACKED, 0, 0, 1},
    {"padded", 3, 12, 40, 2, 1, 24, 24, ATTN_CAUSAL, 0, PADDED, 0, 0, 1},
    {"slots", 3, 2, 40, 2, 1, 24, 24, ATTN_CAUSAL, 0, SLOTS, 0, 0, 0},
    {"pages", 3, 2, 40, 4, 2, 24, 32, ATTN_CAUSAL, 0, PAGED, 0, 0, 0},
    {"append", 3, 2, 40, 4, 2, 24, 32, ATTN_CAUSAL, 0, APPEND, 0, 0, 0},
};

static double value_of(int32_t dtype) {
    uint64_t x = random_below(255);
    if (dtype == ATTN_INT8) return (double)x - 127;
    if (dtype == ATTN_FP8_E4M3) return (double)((x & 127) == 127 ? x - 1 : x);          /* a code, no NaN */
    return random_normal(&values);
}
/* Memory for a view whose elements begin at a multiple of their size and of nothing more, all of it random. */
static void *give(const proof_view *w, int32_t dtype) {
    int64_t below, above;
    assert_true(proof_extent(w, &below, &above));
    char *p = (char *)get(below + above + 1, dtype_size(dtype)) + dtype_size(dtype);
    for (int64_t i = 0; i < below + above; i++) element_put(p, dtype, i, value_of(dtype));
    return p;
}
static void odd_strides(int64_t stride[3], proof_view w, int which) {
    const int64_t row = w.dim + which % 3, token = w.n[2] * row + which % 5;
    if (which % 2) { stride[1] = row, stride[2] = w.n[1] * row + 1, stride[0] = w.n[2] * stride[2]; return; }
    stride[2] = row, stride[1] = token, stride[0] = w.n[1] * token;
}
static void give_in(attn_in *t, int32_t dtype, proof_view w, proof_view z, int which) {
    odd_strides(t->stride, w, which);
    t->dtype = dtype;
    w = proof_dense(t->stride, 0, w.n[0], w.n[1], w.n[2], w.dim);
    t->data = give(&w, dtype);
    if (!quantised(dtype)) return;
    odd_strides(t->scale_stride, z, which + 1);
    z = proof_dense(t->scale_stride, 0, z.n[0], z.n[1], z.n[2], 1);
    float *scale = (float *)give(&z, ATTN_F32);
    int64_t below, above;
    proof_extent(&z, &below, &above);
    /* powers of two: where few rows multiply scores and P by them, no rounding differs */
    for (int64_t i = 0; i < above; i++) scale[i] = (float)ldexp(dtype == ATTN_INT8 ? 0x1p-8 : 0x1p-10, (int)random_below(5));
    t->scale = scale;
}
static void give_out(attn_out *t, int32_t dtype, proof_view w, int which) {
    odd_strides(t->stride, w, which);
    t->dtype = dtype;
    w = proof_dense(t->stride, 0, w.n[0], w.n[1], w.n[2], w.dim);
    t->data = give(&w, dtype);
}
/* The same numbers in dense f32: value = scale * code, rounded to f32. */
static const float *widened(const void *data, int32_t dtype, const proof_view *w, const float *scale, const proof_view *z) {
    float *to = (float *)get(w->n[0] * w->n[1] * w->n[2] * w->dim, 4), *p = to;
    for (int64_t r = 0; r < w->n[0] * w->n[1] * w->n[2]; r++) {
        const int64_t a = r / w->n[2] / w->n[1], b = r / w->n[2] % w->n[1], c = r % w->n[2];
        for (int64_t e = 0; e < w->dim; e++) {
            volatile float x = (float)element_get(data, dtype, proof_at(w, a, b, c) + e);
            if (scale) x = scale[proof_at(z, a, b, c)] * x;
            *p++ = x;
        }
    }
    return to;
}
/* Typed rows against dense f32 ones, rounded once. */
static void same_rounded(const attn_out *t, proof_view w, const float *from, const char *what) {
    const size_t size = dtype_size(t->dtype);
    w = proof_dense(t->stride, 0, w.n[0], w.n[1], w.n[2], w.dim);
    for (int64_t r = 0; r < w.n[0] * w.n[1] * w.n[2]; r++)
        for (int64_t e = 0; e < w.dim; e++, from++) {
            const int64_t at = proof_at(&w, r / w.n[2] / w.n[1], r / w.n[2] % w.n[1], r % w.n[2]) + e;
            uint64_t want = 0, got = 0;
            element_put(&want, t->dtype, 0, *from);
            memcpy(&got, (const char *)t->data + (size_t)at * size, size);
            if (got != want) fail_msg("%s, row %lld, element %lld: %.9g, not %.9g", what, (long long)r, (long long)e, element_get(&got, t->dtype, 0), *from);
        }
}
static void give_lengths(const shape *s, attn_desc *d) {
    static const int32_t cu_q[] = {0, 12, 12, 19}, cu_k[] = {0, 20, 23, 36}, used_q[] = {12, 5, 0}, used_k[] = {37, 20, 9}, start[] = {3, 0, 9};
    static const int32_t slot[] = {4, 0, 2}, table[] = {9, 1, 2, 17, 4, 5, 16, 7, 8, 0, 10, 11, 12, 13, 14, 15, 6, 3};
    attn_seq *q = &d->seq;
    if (s->seq == PACKED) q->cu_q = ints(4, cu_q), q->cu_k = ints(4, cu_k), q->total_q = 19, q->total_k = 36;
    if (s->seq >= PADDED) q->used_k = ints(3, used_k), q->start_k = ints(3, start);
    if (s->seq == PADDED) q->used_q = ints(3, used_q);
    if (s->seq == SLOTS) q->slot = ints(3, slot), q->slots = 5;
    if (s->seq == PAGED) q->block_table = ints(18, table), q->page_size = 7, q->pages = 18, q->max_pages = 6;
}
static void give_extras(const shape *s, attn_desc *d) {
    if (s->dropout) d->dropout = 0.25f, d->seed = 5;
    if (!s->extras) return;
    d->softcap = 3, d->alibi = floats(s->heads), d->sink = floats(s->heads), d->bias.data = random_of(ATTN_F16, s->q_len * s->kv_len);
    d->bias.dtype = ATTN_F16;
    d->bias.stride[0] = d->bias.stride[1] = ATTN_BROADCAST, d->bias.stride[2] = s->kv_len;
}
/* Combination n of types for the shape, no f64 to be read but o: it takes 75 to see all of q, k, v, and 27 backward. */
static void typed(const shape *s, int64_t n, attn_desc *d) {
    memset(d, 0, sizeof *d);
    d->batch = s->batch, d->q_len = s->q_len, d->kv_len = s->kv_len, d->heads = s->heads, d->kv_heads = s->kv_heads;
    d->head_dim = s->dim, d->v_dim = s->v_dim, d->flags = s->flags, d->window_left = s->left;
    d->threads = 1 + (int32_t)(n % 2);
    give_lengths(s, d);
    give_extras(s, d);
    const int64_t kv = s->backward && n < 27 ? FLOATS : KV;
    const proof_view z = proof_kv_view(d, d->k.stride, 0, 1);
    give_in(&d->q, float_types[n % FLOATS], proof_rows_view(d, d->q.stride, 0, s->dim), z, (int)n);
    give_in(&d->k, kv_types[n / FLOATS % kv], proof_kv_view(d, d->k.stride, 0, s->dim), z, (int)n / 2);
    give_in(&d->v, kv_types[n / FLOATS / kv % kv], proof_kv_view(d, d->v.stride, 0, s->v_dim), z, (int)n / 3);
    give_out(&d->o, float_types[(n + n / 9) % OUTS], proof_rows_view(d, d->o.stride, 0, s->v_dim), (int)n / 4);
    d->lse = (float *)get(proof_lse_count(d), 4);
    if (s->seq != APPEND) return;
    attn_append *a = &d->append;
    a->len = 2;
    a->k.dtype = float_types[n % 4], a->v.dtype = float_types[n / 4 % 4];
    a->k.data = random_of(a->k.dtype, s->batch * a->len * s->kv_heads * s->dim);
    a->v.data = random_of(a->v.dtype, s->batch * a->len * s->kv_heads * s->v_dim);
    a->k_cache = (void *)(uintptr_t)d->k.data, a->k_scale = (float *)(uintptr_t)d->k.scale;
    a->v_cache = (void *)(uintptr_t)d->v.data, a->v_scale = (float *)(uintptr_t)d->v.scale;
}
static void widen_in(attn_in *t, proof_view w, proof_view z) {
    const proof_view from = proof_dense(t->stride, t->layout, w.n[0], w.n[1], w.n[2], w.dim);
    z = proof_dense(t->scale_stride, 0, z.n[0], z.n[1], z.n[2], 1);
    const float *data = widened(t->data, t->dtype, &from, t->scale, &z);
    memset(t, 0, sizeof *t);
    t->data = data;
}
/* The description over the same numbers in dense f32, a cache with what was appended to it. */
static attn_desc wide_of(const shape *s, const attn_desc *d) {
    attn_desc f = *d;
    const proof_view z = proof_kv_view(d, (int64_t[3]){0, 0, 0}, 0, 1);
    widen_in(&f.q, proof_rows_view(d, d->q.stride, 0, s->dim), z);
    widen_in(&f.k, proof_kv_view(d, d->k.stride, 0, s->dim), z);
    widen_in(&f.v, proof_kv_view(d, d->v.stride, 0, s->v_dim), z);
    memset(&f.o, 0, sizeof f.o);
    f.o.data = get(proof_lse_count(d) * s->v_dim, 4);
    f.lse = (float *)get(proof_lse_count(d), 4);
    memset(&f.append, 0, sizeof f.append);
    if (s->seq == APPEND) f.seq.used_k = ints(3, (const int32_t[]){39, 22, 11});
    return f;
}
/* n numbers of dense f32 that are bf16, as bf16. */
static void narrow_in(attn_in *t, int64_t n) {
    void *data = get(n, 2);
    for (int64_t i = 0; i < n; i++) element_put(data, ATTN_BF16, i, element_get(t->data, ATTN_F32, i));
    t->data = data, t->dtype = ATTN_BF16;
}
static int64_t kv_rows(const attn_desc *d) {
    const proof_view w = proof_kv_view(d, (int64_t[3]){0, 0, 0}, 0, 1);
    return w.n[0] * w.n[1] * w.n[2];
}
static int backward_bf16(const attn_desc *d, const attn_grad *g) {
    attn_plan plan;
    ok(attn_query(d, g, &plan));
    return strstr(plan.kernel, "bf16") != NULL;
}
/* Where the typed call multiplies bf16 as such, the other one does too: what is bf16 in the former stays so, with other strides. Returns
 * whether P is rounded, and o with it. */
static int bf16_of(const shape *s, const attn_desc *d, attn_desc *f) {
    attn_plan plan, other;
    ok(attn_query(d, NULL, &plan));
    const int rounds = strstr(plan.kernel, "p_bf16") != NULL;
    if (!strstr(plan.kernel, "bf16")) return 0;
    if (d->q.dtype == ATTN_BF16 && d->k.dtype == ATTN_BF16) narrow_in(&f->q, proof_lse_count(d) * s->dim), narrow_in(&f->k, kv_rows(d) * s->dim);
    if (rounds) narrow_in(&f->v, kv_rows(d) * s->v_dim), f->o.dtype = ATTN_BF16;
    ok(attn_query(f, NULL, &other));
    assert_string_equal(plan.kernel, other.kernel);
    return rounds;
}
static void bits(void **state) {
    const shape *s = (const shape *)*state;
    for (int backend = 0; backend < 2; backend++)
        for (int64_t n = 0; n < FLOATS * KV * KV; n++) {
            attn_desc d, f;
            typed(s, s->backward ? n + 27 : n, &d);
            d.backend = fast[backend];
            ok(attn_forward(&d));
            f = wide_of(s, &d);
            const int rounds = bf16_of(s, &d, &f);
            ok(attn_forward(&f));
            const proof_view rows = proof_rows_view(&d, d.o.stride, 0, s->v_dim), dense = proof_rows_view(&d, (int64_t[3]){0, 0, 0}, 0, s->v_dim);
            same_rounded(&d.o, rows, rounds ? widened(f.o.data, ATTN_BF16, &dense, NULL, NULL) : (const float *)f.o.data, "o");
            same_bytes(d.lse, f.lse, (size_t)proof_lse_count(&d) * 4, "lse");
            teardown(NULL);
        }
}
/* gradient i of typed, in the type and strides of combination n, and in dense f32 with the same old values */
static void give_gradients(const shape *s, const attn_desc *d, int64_t n, attn_grad *g, attn_grad *w) {
    attn_out *to[] = {&g->dq, &g->dk, &g->dv}, *wide[] = {&w->dq, &w->dk, &w->dv};
    const int64_t dim[] = {s->dim, s->dim, s->v_dim};
    const int accumulate = (d->flags & ATTN_ACCUMULATE) != 0;
    memset(g, 0, sizeof *g), memset(w, 0, sizeof *w);
    const proof_view rows = proof_rows_view(d, g->dout.stride, 0, s->v_dim);
    give_in(&g->dout, float_types[(n + n / 3) % FLOATS], rows, rows, (int)n / 5);
    w->dout = g->dout;
    widen_in(&w->dout, rows, rows);
    for (int i = 0; i < 3; i++) {
        /* f64 is added to in f64: no f32 holds that */
        const int32_t dtype = float_types[(n / (i + 1) + i) % (accumulate ? FLOATS : OUTS)];
        const proof_view v = i ? proof_kv_view(d, to[i]->stride, 0, dim[i]) : proof_rows_view(d, to[i]->stride, 0, dim[i]);
        give_out(to[i], dtype, v, (int)n / (i + 2));
        const proof_view x = proof_dense(to[i]->stride, 0, v.n[0], v.n[1], v.n[2], v.dim);
        wide[i]->data = (void *)(uintptr_t)widened(to[i]->data, dtype, &x, NULL, NULL);
    }
    if (d->sink) g->dsink = (float *)get(s->heads, 4), w->dsink = (float *)get(s->heads, 4);
    if (d->bias.data) g->dbias = (float *)get(s->q_len * s->kv_len, 4), w->dbias = (float *)get(s->q_len * s->kv_len, 4);
}
static void gradient_bits(void **state) {
    const shape *s = (const shape *)*state;
    for (int backend = 0; backend < 2; backend++)
        for (int64_t n = 0; n < 27; n++) {
            attn_desc d, f;
            attn_grad g, w;
            typed(s, n, &d);
            d.backend = fast[backend];
            ok(attn_forward(&d));
            f = wide_of(s, &d);
            f.lse = d.lse;
            const proof_view rows = proof_rows_view(&d, d.o.stride, 0, s->v_dim);
            f.o.data = (void *)(uintptr_t)widened(d.o.data, d.o.dtype, &rows, NULL, NULL);
            if (n % 3 == 1) d.flags |= ATTN_ACCUMULATE, f.flags |= ATTN_ACCUMULATE;
            give_gradients(s, &d, n, &g, &w);
            if (backward_bf16(&d, &g) && d.q.dtype == ATTN_BF16 && d.k.dtype == ATTN_BF16)
                narrow_in(&f.q, proof_lse_count(&d) * s->dim), narrow_in(&f.k, kv_rows(&d) * s->dim);
            if (backward_bf16(&d, &g) && g.dout.dtype == ATTN_BF16 && d.v.dtype == ATTN_BF16)
                narrow_in(&w.dout, proof_lse_count(&d) * s->v_dim), narrow_in(&f.v, kv_rows(&d) * s->v_dim);
            ok(attn_backward(&d, &g));
            ok(attn_backward(&f, &w));
            same_rounded(&g.dq, proof_rows_view(&d, g.dq.stride, 0, s->dim), (const float *)w.dq.data, "dq");
            same_rounded(&g.dk, proof_kv_view(&d, g.dk.stride, 0, s->dim), (const float *)w.dk.data, "dk");
            same_rounded(&g.dv, proof_kv_view(&d, g.dv.stride, 0, s->v_dim), (const float *)w.dv.data, "dv");
            if (g.dsink) same_bytes(g.dsink, w.dsink, (size_t)s->heads * 4, "dsink");
            if (g.dbias) same_bytes(g.dbias, w.dbias, (size_t)(s->q_len * s->kv_len) * 4, "dbias");
            teardown(NULL);
        }
}
/* A gradient in f64 is added to in f64: what f32 would have rounded off is kept. */
static void accumulates_in_f64(void **state) {
    (void)state;
    for (int backend = 0; backend < 2; backend++) {
        attn_desc d;
        attn_grad g, w;
        typed(&shapes[4], 0, &d);
        d.backend = fast[backend];
        ok(attn_forward(&d));
        give_gradients(&shapes[4], &d, 0, &g, &w);
        attn_out *to[] = {&g.dq, &g.dk, &g.dv};
        double *kept[3];
        for (int i = 0; i < 3; i++) {
            const int64_t rows = i ? 131 * 2 : 50 * 2;
            memset(to[i], 0, sizeof *to[i]);
            to[i]->dtype = ATTN_F64, to[i]->data = get(rows * 64, 8), kept[i] = (double *)get(rows * 64, 8);
        }
        ok(attn_backward(&d, &g));
        for (int i = 0; i < 3; i++) {
            memcpy(kept[i], to[i]->data, (size_t)(i ? 131 * 2 : 50 * 2) * 64 * 8);
            for (int64_t e = 0; e < (i ? 131 * 2 : 50 * 2) * 64; e++) ((double *)to[i]->data)[e] = 1 + 0x1p-40;
        }
        d.flags |= ATTN_ACCUMULATE;
        ok(attn_backward(&d, &g));
        for (int i = 0; i < 3; i++)
            for (int64_t e = 0; e < (i ? 131 * 2 : 50 * 2) * 64; e++)
                near_(((double *)to[i]->data)[e], 1 + 0x1p-40 + kept[i][e], 0x1p-24 * fabs(kept[i][e]) + 0x1p-51, "accumulated");
        teardown(NULL);
    }
}
/* What no other backend computes in: by name it is refused with its reason. */
static void f64_is_refused_by_name(void **state) {
    (void)state;
    for (int backend = 0; backend < 2; backend++)
        for (int which = 0; which < 4; which++) {
            static const char *const names[] = {"q is f64", "k is f64", "v is f64", "dout is f64"};
            char text[200];
            attn_desc d;
            attn_grad g, w;
            typed(&shapes[4], 0, &d);
            give_gradients(&shapes[4], &d, 0, &g, &w);
            attn_in *in[] = {&d.q, &d.k, &d.v, &g.dout};
            in[which]->dtype = ATTN_F64, in[which]->data = get(1 << 18, 8);
            d.message = text, d.message_size = sizeof text, d.backend = fast[backend];
            if (which < 3) assert_int_equal(attn_forward(&d), ATTN_ERR_DECLINED);
            assert_int_equal(attn_backward(&d, &g), ATTN_ERR_DECLINED);
            assert_non_null(strstr(text, names[which]));
            teardown(NULL);
        }
}

/* New f64 keys and values are rounded to the cache's type once, whatever the type of the other cache: just above the middle of two
 * numbers of 16 bits, where f32 would stop at the middle. */
static void appends_round_once(void **state) {
    static const double step[] = {0, 0x1p-11, 0x1p-8};  /* half of the last place of 1 in f16, bf16 */
    (void)state;
    for (int backend = 0; backend < 2; backend++)
        for (int64_t n = 0; n < 9; n++) {
            shape s = {"", 1, 1, 4, 1, 1, 20, 20, 0, 0, DENSE, 0, 0, 0};
            attn_desc d;
            typed(&s, FLOATS * (n % 3 + KV * (n / 3)), &d);
            d.seq.used_k = ints(1, (const int32_t[]){2}), d.append.len = 1;
            d.backend = fast[backend];
            d.append.k_cache = (void *)(uintptr_t)d.k.data, d.append.v_cache = (void *)(uintptr_t)d.v.data;
            attn_in *news[] = {&d.append.k, &d.append.v}, *caches[] = {&d.k, &d.v};
            for (int i = 0; i < 2; i++) {
                double *x = (double *)get(20, 8);
                for (int e = 0; e < 20; e++) x[e] = 1 + step[caches[i]->dtype] + 0x1p-40;
                news[i]->data = x, news[i]->dtype = ATTN_F64;
            }
            ok(attn_forward(&d));
            for (int i = 0; i < 2; i++)
                for (int e = 0; e < 20; e++)
                    near_(element_get(caches[i]->data, caches[i]->dtype, 2 * caches[i]->stride[1] + e), 1 + 2 * step[caches[i]->dtype], 0, "a new element");
            teardown(NULL);
        }
}

/* Every code of int8 and fp8, in vectors of every width: one key is seen alone, and o is its value, NaN included. */
static void every_code(void **state) {
    const float scale = 0.75f;
    (void)state;
    for (int backend = 0; backend < 2; backend++)
        for (int64_t n = 0; n < 2 * 40; n++) {
            const int32_t type = n % 2 ? ATTN_INT8 : ATTN_FP8_E4M3;
            const int64_t width = n < 2 ? 256 : n / 2;
            attn_desc d = problem(1, 1, 1, 1, 1, 8, width, ATTN_F32);
            uint8_t *codes = (uint8_t *)get(width, 1);
            for (int64_t c = 0; c < width; c++) codes[c] = (uint8_t)(c + 7 * n);
            d.v.data = codes, d.v.dtype = type, d.v.scale = &scale;
            d.backend = fast[backend];
            ok(attn_forward(&d));
            for (int64_t c = 0; c < width; c++) {
                const double want = 0.75 * element_get(codes, type, c), got = ((double *)d.o.data)[c];
                if (is_finite(want)) near_(got, want, 0x1p-20 * fabs(want), "the value of a code");
                else assert_false(is_finite(got));
            }
            teardown(NULL);
        }
}

int main(void) {
    struct CMUnitTest tests[64] = {TEST(choice), TEST(accumulates_in_f64), TEST(f64_is_refused_by_name), TEST(appends_round_once),
                                   TEST(every_code)};
    size_t n = 5;
    if (getenv("ATTN_ISA") && strcmp(getenv("ATTN_ISA"), attn_isa())) {
        printf("skipped: this machine lacks %s\n0 passed, 0 failed, 1 skipped\n", getenv("ATTN_ISA"));
        return 0;
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        static char names[64][80];
        const struct CMUnitTest forward = WITH(bits, shapes[i].name, &shapes[i]);
        tests[n++] = forward;
        if (!shapes[i].backward) continue;
        snprintf(names[n], sizeof names[n], "%s, backward", shapes[i].name);
        const struct CMUnitTest backward = WITH(gradient_bits, names[n], &shapes[i]);
        tests[n++] = backward;
    }
    return _cmocka_run_group_tests("types", tests, n, NULL, NULL);
}
