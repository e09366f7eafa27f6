/* identity.c - the whole contract in the reference, each piece held against an identity or against plain arithmetic by hand. */
#include "proof_unit.h"

/* ---------------------------------------------------------------------------------------------- lengths and pages */
enum { BATCH = 3, QL = 5, CAP = 37, HEADS = 4, KVH = 2, DIM = 6, VDIM = 5 };

/* k, v of sequence b, tokens [0, CAP), moved into pages of the size and order given; all the rest NaN */
static void paged_is_contiguous(void **state) {
    static const int64_t sizes[] = {1, 3, 7, 16, 37, 64};
    static const int32_t used[BATCH] = {37, 20, 0}, start[BATCH] = {0, 3, 0};
    (void)state;
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        attn_desc a = problem(BATCH, QL, CAP, HEADS, KVH, DIM, VDIM, ATTN_F32), b = a;
        a.flags = b.flags = ATTN_CAUSAL;
        a.seq.used_k = b.seq.used_k = ints(BATCH, used), a.seq.start_k = b.seq.start_k = ints(BATCH, start);
        const int64_t ps = sizes[n], per = (CAP + ps - 1) / ps, pages = BATCH * per + 2;
        float *k = (float *)get(pages * ps * KVH * DIM, 4), *v = (float *)get(pages * ps * KVH * VDIM, 4);
        proof_poison(k, (size_t)(pages * ps * KVH * DIM) * 4), proof_poison(v, (size_t)(pages * ps * KVH * VDIM) * 4);
        int32_t *table = (int32_t *)get(BATCH * per, 4);
        for (int64_t s = 0; s < BATCH; s++)
            for (int64_t p = 0; p < per; p++) table[s * per + p] = (int32_t)(pages - 1 - (p * BATCH + s));
        for (int64_t s = 0; s < BATCH; s++)
            for (int64_t t = start[s]; t < used[s]; t++) {
                int64_t to = table[s * per + t / ps] * ps + t % ps;
                memcpy(k + to * KVH * DIM, (const float *)a.k.data + (s * CAP + t) * KVH * DIM, KVH * DIM * 4);
                memcpy(v + to * KVH * VDIM, (const float *)a.v.data + (s * CAP + t) * KVH * VDIM, KVH * VDIM * 4);
            }
        b.k.data = k, b.v.data = v, b.seq.block_table = table;
        b.seq.page_size = ps, b.seq.pages = pages, b.seq.max_pages = per;
        give_outputs(&b);
        ok(attn_forward(&a)), ok(attn_forward(&b));
        same_bytes(a.o.data, b.o.data, BATCH * QL * HEADS * VDIM * 8, "o, paged and contiguous,");
        same_bytes(a.lse, b.lse, BATCH * QL * HEADS * 4, "lse, paged and contiguous,");
    }
}
static void slots_are_contiguous(void **state) {
    static const int32_t slot[BATCH] = {4, 0, 4}, used[BATCH] = {9, 37, 20};
    (void)state;
    attn_desc a = problem(6, QL, CAP, HEADS, KVH, DIM, VDIM, ATTN_F32);
    a.batch = BATCH;
    a.seq.slot = ints(BATCH, slot), a.seq.slots = 6, a.seq.used_k = ints(BATCH, used);
    ok(attn_forward(&a));
    for (int64_t b = 0; b < BATCH; b++) {
        attn_desc one = a;
        memset(&one.seq, 0, sizeof one.seq);
        one.batch = 1, one.kv_len = used[b];
        one.q.data = (const float *)a.q.data + b * QL * HEADS * DIM;
        one.k.data = (const float *)a.k.data + slot[b] * CAP * KVH * DIM;
        one.v.data = (const float *)a.v.data + slot[b] * CAP * KVH * VDIM;
        give_outputs(&one);
        ok(attn_forward(&one));
        same_bytes((double *)a.o.data + b * QL * HEADS * VDIM, one.o.data, QL * HEADS * VDIM * 8, "o of a slot and alone");
    }
}
static void packed_is_a_loop(void **state) {
    static const int32_t cu_q[] = {0, 5, 5, 6, 20}, cu_k[] = {0, 9, 12, 12, 40};
    (void)state;
    attn_desc a = problem(1, 20, 40, HEADS, KVH, DIM, VDIM, ATTN_F32);
    a.batch = 4, a.q_len = 14, a.kv_len = 28, a.flags = ATTN_CAUSAL | ATTN_WINDOW_LEFT, a.window_left = 9;
    a.seq.cu_q = ints(5, cu_q), a.seq.cu_k = ints(5, cu_k), a.seq.total_q = 20, a.seq.total_k = 40;
    a.alibi = floats(HEADS), a.sink = floats(HEADS);
    a.dropout = 0.25f, a.seed = 99;
    ok(attn_forward(&a));
    for (int b = 0; b < 4; b++) {
        attn_desc one = a;
        memset(&one.seq, 0, sizeof one.seq);
        one.batch = 1, one.q_len = cu_q[b + 1] - cu_q[b], one.kv_len = cu_k[b + 1] - cu_k[b];
        one.q.data = (const float *)a.q.data + cu_q[b] * HEADS * DIM;
        one.k.data = (const float *)a.k.data + cu_k[b] * KVH * DIM, one.v.data = (const float *)a.v.data + cu_k[b] * KVH * VDIM;
        give_outputs(&one);
        ok(attn_forward(&one));
        if (b == 0) same_bytes((double *)a.o.data, one.o.data, (size_t)one.q_len * HEADS * VDIM * 8, "o, packed with dropout and alone,");
        for (int h = 0; h < HEADS; h++)
            for (int64_t i = 0; i < one.q_len; i++)
                assert_int_equal(float_bits(a.lse[h * 20 + cu_q[b] + i]), float_bits(one.lse[h * one.q_len + i]));
    }
    a.dropout = 0, a.seed = 0;                           /* without dropout every sequence is as alone */
    ok(attn_forward(&a));
    for (int b = 0; b < 4; b++) {
        attn_desc one = a;
        memset(&one.seq, 0, sizeof one.seq);
        one.batch = 1, one.q_len = cu_q[b + 1] - cu_q[b], one.kv_len = cu_k[b + 1] - cu_k[b];
        one.q.data = (const float *)a.q.data + cu_q[b] * HEADS * DIM;
        one.k.data = (const float *)a.k.data + cu_k[b] * KVH * DIM, one.v.data = (const float *)a.v.data + cu_k[b] * KVH * VDIM;
        give_outputs(&one);
        ok(attn_forward(&one));
        same_bytes((double *)a.o.data + cu_q[b] * HEADS * VDIM, one.o.data, (size_t)one.q_len * HEADS * VDIM * 8, "o, packed and alone,");
    }
}
/* the gradients of a packed call are those of each sequence alone */
static void packed_gradients(void **state) {
    static const int32_t cu_q[] = {0, 5, 5, 6, 20}, cu_k[] = {0, 9, 12, 12, 40};
    (void)state;
    attn_desc a = problem(1, 20, 40, HEADS, KVH, DIM, VDIM, ATTN_F64);
    attn_grad g;
    memset(&g, 0, sizeof g);
    a.batch = 4, a.q_len = 14, a.kv_len = 28, a.flags = ATTN_CAUSAL;
    a.seq.cu_q = ints(5, cu_q), a.seq.cu_k = ints(5, cu_k), a.seq.total_q = 20, a.seq.total_k = 40;
    g.dout.dtype = g.dq.dtype = g.dk.dtype = g.dv.dtype = ATTN_F64;
    g.dout.data = random_of(ATTN_F64, 20 * HEADS * VDIM);
    g.dq.data = get(20 * HEADS * DIM, 8), g.dk.data = get(40 * KVH * DIM, 8), g.dv.data = get(40 * KVH * VDIM, 8);
    ok(attn_forward(&a)), ok(attn_backward(&a, &g));
    for (int b = 0; b < 4; b++) {
        attn_desc one = a;
        attn_grad r = g;
        memset(&one.seq, 0, sizeof one.seq);
        one.batch = 1, one.q_len = cu_q[b + 1] - cu_q[b], one.kv_len = cu_k[b + 1] - cu_k[b];
        one.q.data = (const double *)a.q.data + cu_q[b] * HEADS * DIM;
        one.k.data = (const double *)a.k.data + cu_k[b] * KVH * DIM, one.v.data = (const double *)a.v.data + cu_k[b] * KVH * VDIM;
        give_outputs(&one);
        r.dout.data = (const double *)g.dout.data + cu_q[b] * HEADS * VDIM;
        r.dq.data = get(one.q_len * HEADS * DIM, 8);
        r.dk.data = get(one.kv_len * KVH * DIM, 8), r.dv.data = get(one.kv_len * KVH * VDIM, 8);
        ok(attn_forward(&one)), ok(attn_backward(&one, &r));
        same_bytes((double *)g.dq.data + cu_q[b] * HEADS * DIM, r.dq.data, (size_t)(one.q_len * HEADS * DIM) * 8, "dq");
        same_bytes((double *)g.dk.data + cu_k[b] * KVH * DIM, r.dk.data, (size_t)(one.kv_len * KVH * DIM) * 8, "dk");
        same_bytes((double *)g.dv.data + cu_k[b] * KVH * VDIM, r.dv.data, (size_t)(one.kv_len * KVH * VDIM) * 8, "dv");
    }
}
/* used_q, used_k, start_k with buffer columns of bias and mask: as a call on the valid part alone */
static void padded_is_alone(void **state) {
    static const int32_t used_q[] = {5, 2, 0}, used_k[] = {30, 37, 12}, start[] = {4, 0, 12};
    (void)state;
    attn_desc a = problem(BATCH, QL, CAP, HEADS, KVH, DIM, VDIM, ATTN_F32);
    a.seq.used_q = ints(BATCH, used_q), a.seq.used_k = ints(BATCH, used_k), a.seq.start_k = ints(BATCH, start);
    a.bias.data = floats(BATCH * HEADS * QL * CAP), a.alibi = floats(HEADS);
    a.flags = ATTN_CAUSAL;
    ok(attn_forward(&a));
    for (int64_t b = 0; b < BATCH; b++) {
        attn_desc one = a;
        memset(&one.seq, 0, sizeof one.seq);
        one.batch = 1, one.q_len = used_q[b], one.kv_len = used_k[b] - start[b];
        one.q.data = (const float *)a.q.data + b * QL * HEADS * DIM;
        one.k.data = (const float *)a.k.data + (b * CAP + start[b]) * KVH * DIM;
        one.v.data = (const float *)a.v.data + (b * CAP + start[b]) * KVH * VDIM;
        one.bias.data = (const float *)a.bias.data + b * HEADS * QL * CAP + start[b];
        one.bias.stride[0] = HEADS * QL * CAP, one.bias.stride[1] = QL * CAP, one.bias.stride[2] = CAP;
        give_outputs(&one);
        ok(attn_forward(&one));
        same_bytes((double *)a.o.data + b * QL * HEADS * VDIM, one.o.data, (size_t)(one.q_len * HEADS * VDIM) * 8, "o, padded and alone,");
        for (int64_t i = used_q[b]; i < QL; i++)
            for (int64_t e = 0; e < HEADS * VDIM; e++) assert_true(((double *)a.o.data)[(b * QL + i) * HEADS * VDIM + e] == 0);
    }
}

/* ------------------------------------------------------------------------------------------------------- caches */
typedef struct cache_case { const char *name; int32_t cache, fresh; int rotary, interleaved; } cache_case;
static const cache_case cache_cases[] = {
    {"append f32", ATTN_F32, ATTN_F32, 0, 0},
    {"append f32 rotary", ATTN_F32, ATTN_F32, 1, 0},
    {"append f32 rotary interleaved", ATTN_F32, ATTN_F32, 1, 1},
    {"append f16 from f32 rotary", ATTN_F16, ATTN_F32, 1, 0},
    {"append bf16", ATTN_BF16, ATTN_BF16, 0, 0},
    {"append f64", ATTN_F64, ATTN_F64, 0, 0},
    {"append int8", ATTN_INT8, ATTN_F32, 1, 0},
    {"append fp8", ATTN_FP8_E4M3, ATTN_BF16, 1, 1},
};
enum { STEPS = 7, ROOM = 16 };

static attn_desc with_cache(const cache_case *c, const int32_t used[BATCH], const int32_t start[BATCH]) {
    attn_desc d = problem(BATCH, STEPS, ROOM, HEADS, KVH, DIM, VDIM, ATTN_F32);
    d.k.dtype = d.v.dtype = c->cache;
    d.k.data = get(BATCH * ROOM * KVH * DIM, 8), d.v.data = get(BATCH * ROOM * KVH * VDIM, 8);
    if (c->cache == ATTN_INT8 || c->cache == ATTN_FP8_E4M3) d.k.scale = (float *)get(BATCH * ROOM * KVH, 4), d.v.scale = (float *)get(BATCH * ROOM * KVH, 4);
    d.append.k_cache = (void *)(uintptr_t)d.k.data, d.append.v_cache = (void *)(uintptr_t)d.v.data;
    d.append.k_scale = (float *)(uintptr_t)d.k.scale, d.append.v_scale = (float *)(uintptr_t)d.v.scale;
    d.append.k.dtype = d.append.v.dtype = c->fresh;
    d.append.k.data = random_of(c->fresh, BATCH * STEPS * KVH * DIM), d.append.v.data = random_of(c->fresh, BATCH * STEPS * KVH * VDIM);
    d.append.len = STEPS;
    d.seq.used_k = ints(BATCH, used), d.seq.start_k = ints(BATCH, start);
    if (c->rotary) {
        d.append.rotary_dim = 4, d.append.rotary_rows = ROOM;
        d.append.rotary_cos = floats(ROOM * 2), d.append.rotary_sin = floats(ROOM * 2);
        if (c->interleaved) d.flags |= ATTN_ROTARY_INTERLEAVED;
    }
    d.flags |= ATTN_CAUSAL;
    return d;
}
/* One call with all new keys and causal rows, against a call for each new key. */
static void append_one_by_one(void **state) {
    const cache_case *c = (const cache_case *)*state;
    static const int32_t used[] = {0, 5, 9}, start[] = {0, 2, 9};
    attn_desc a = with_cache(c, used, start), b = a;
    int64_t kn = BATCH * ROOM * KVH * DIM, vn = BATCH * ROOM * KVH * VDIM, sn = BATCH * ROOM * KVH * 4;
    /* keys before the call: appended by a call of their own, so that both caches begin alike */
    attn_desc first = a;
    int32_t zero[BATCH] = {0, 0, 0};
    first.seq.used_k = ints(BATCH, zero), first.seq.start_k = NULL;
    ok(attn_forward(&first));
    first.seq.used_k = ints(BATCH, (const int32_t[]){7, 7, 7});
    ok(attn_forward(&first));
    b.k.data = get(kn, 8), b.v.data = get(vn, 8);
    memcpy((void *)(uintptr_t)b.k.data, a.k.data, (size_t)kn * dtype_size(c->cache));
    memcpy((void *)(uintptr_t)b.v.data, a.v.data, (size_t)vn * dtype_size(c->cache));
    b.append.k_cache = (void *)(uintptr_t)b.k.data, b.append.v_cache = (void *)(uintptr_t)b.v.data;
    if (a.k.scale) {
        float *ks = (float *)get(sn, 1), *vs = (float *)get(sn, 1);
        memcpy(ks, a.k.scale, (size_t)sn), memcpy(vs, a.v.scale, (size_t)sn);
        b.k.scale = b.append.k_scale = ks, b.v.scale = b.append.v_scale = vs;
    }
    ok(attn_forward(&a));
    for (int64_t step = 0; step < STEPS; step++) {
        attn_desc one = b;
        int32_t at[BATCH];
        for (int i = 0; i < BATCH; i++) at[i] = (int32_t)(used[i] + step);
        one.seq.used_k = ints(BATCH, at);
        one.q_len = one.append.len = 1;
        one.q.data = offset_in(a.q.data, step * HEADS * DIM, ATTN_F32);
        one.append.k.data = offset_in(a.append.k.data, step * KVH * DIM, c->fresh);
        one.append.v.data = offset_in(a.append.v.data, step * KVH * VDIM, c->fresh);
        attn_in *views[3] = {&one.q, &one.append.k, &one.append.v};
        int64_t width[3] = {HEADS * DIM, KVH * DIM, KVH * VDIM}, dims[3] = {DIM, DIM, VDIM};
        for (int i = 0; i < 3; i++) views[i]->stride[0] = STEPS * width[i], views[i]->stride[1] = width[i], views[i]->stride[2] = dims[i];
        give_outputs(&one);
        ok(attn_forward(&one));
        for (int64_t i = 0; i < BATCH; i++)
            same_bytes((double *)a.o.data + (i * STEPS + step) * HEADS * VDIM, (double *)one.o.data + i * HEADS * VDIM,
                       HEADS * VDIM * 8, "o, appended at once and one by one,");
    }
    same_bytes(a.k.data, b.k.data, (size_t)kn * dtype_size(c->cache), "k caches");
    same_bytes(a.v.data, b.v.data, (size_t)vn * dtype_size(c->cache), "v caches");
    if (a.k.scale) same_bytes(a.k.scale, b.k.scale, (size_t)sn, "k scales"), same_bytes(a.v.scale, b.v.scale, (size_t)sn, "v scales");
}
/* append.cu: a different number for each sequence, against a call for each sequence */
static void append_packed(void **state) {
    static const int32_t used[] = {0, 5, 9}, start[] = {0, 2, 9}, cu[] = {0, 3, 3, 7};
    static const cache_case c = {"", ATTN_F32, ATTN_F32, 1, 0};
    (void)state;
    attn_desc a = with_cache(&c, used, start);
    for (int64_t i = 0; i < BATCH * ROOM * KVH * DIM; i++) element_put(a.append.k_cache, ATTN_F32, i, random_normal(&values));
    for (int64_t i = 0; i < BATCH * ROOM * KVH * VDIM; i++) element_put(a.append.v_cache, ATTN_F32, i, random_normal(&values));
    float *k = (float *)get(BATCH * ROOM * KVH * DIM, 4), *v = (float *)get(BATCH * ROOM * KVH * VDIM, 4);
    memcpy(k, a.k.data, BATCH * ROOM * KVH * DIM * 4), memcpy(v, a.v.data, BATCH * ROOM * KVH * VDIM * 4);
    a.append.cu = ints(4, cu), a.append.total = 7;
    ok(attn_forward(&a));
    for (int b = 0; b < BATCH; b++) {
        attn_desc one = a;
        one.batch = 1, one.append.cu = NULL, one.append.total = 0, one.append.len = cu[b + 1] - cu[b];
        one.q.data = (const float *)a.q.data + b * STEPS * HEADS * DIM;
        one.seq.used_k = a.seq.used_k + b, one.seq.start_k = a.seq.start_k + b;
        one.k.data = one.append.k_cache = k + b * ROOM * KVH * DIM, one.v.data = one.append.v_cache = v + b * ROOM * KVH * VDIM;
        one.append.k.data = (const float *)a.append.k.data + cu[b] * KVH * DIM;
        one.append.v.data = (const float *)a.append.v.data + cu[b] * KVH * VDIM;
        if (!one.append.len) continue;                   /* nothing new, and rotary is applied on append only */
        give_outputs(&one);
        ok(attn_forward(&one));
        same_bytes((double *)a.o.data + b * STEPS * HEADS * VDIM, one.o.data, STEPS * HEADS * VDIM * 8, "o");
        same_bytes(one.k.data, (const float *)a.k.data + b * ROOM * KVH * DIM, ROOM * KVH * DIM * 4, "k cache");
        same_bytes(one.v.data, (const float *)a.v.data + b * ROOM * KVH * VDIM, ROOM * KVH * VDIM * 4, "v cache");
    }
}
/* both kinds of pairs, every product and sum in f32, q as well as k */
static void rotary_by_hand(void **state) {
    static const int32_t used[] = {0, 5, 9}, start[] = {0, 2, 9};
    (void)state;
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        const cache_case c = {"", ATTN_F32, ATTN_F32, 1, interleaved};
        attn_desc a = with_cache(&c, used, start), b;
        for (int64_t i = 0; i < BATCH * ROOM * KVH * DIM; i++) element_put(a.append.k_cache, ATTN_F32, i, random_normal(&values));
        float *turned[2] = {(float *)get(BATCH * STEPS * HEADS * DIM, 4), (float *)get(BATCH * STEPS * KVH * DIM, 4)};
        const float *from[2] = {(const float *)a.q.data, (const float *)a.append.k.data};
        const int64_t heads[2] = {HEADS, KVH};
        for (int which = 0; which < 2; which++)
            for (int64_t r = 0; r < BATCH * STEPS * heads[which]; r++) {
                int64_t i = r / heads[which] % STEPS, s = r / heads[which] / STEPS, position = used[s] - start[s] + i;
                const float *x = from[which] + r * DIM;
                float *y = turned[which] + r * DIM;
                memcpy(y, x, DIM * 4);
                for (int n = 0; n < 2; n++) {
                    const int one = interleaved ? 2 * n : n, two = interleaved ? 2 * n + 1 : n + 2;
                    const float cosine = a.append.rotary_cos[position * 2 + n], sine = a.append.rotary_sin[position * 2 + n];
                    volatile float p = x[one] * cosine, q = x[two] * sine, u = x[two] * cosine, w = x[one] * sine;
                    y[one] = p - q, y[two] = u + w;
                }
            }
        b = a;
        b.q.data = turned[0], b.append.k.data = turned[1];
        b.append.rotary_cos = b.append.rotary_sin = NULL, b.append.rotary_dim = b.append.rotary_rows = 0;
        b.flags &= ~(uint32_t)ATTN_ROTARY_INTERLEAVED;
        give_outputs(&b);
        ok(attn_forward(&a));
        float *k = (float *)get(BATCH * ROOM * KVH * DIM, 4);
        memcpy(k, a.k.data, BATCH * ROOM * KVH * DIM * 4);
        ok(attn_forward(&b));
        same_bytes(k, b.k.data, BATCH * ROOM * KVH * DIM * 4, "rotated keys");
        same_bytes(a.o.data, b.o.data, BATCH * STEPS * HEADS * VDIM * 8, "o");
    }
}
/* codes and scales of an append, written out; then attention over them against the same values in f64 */
static uint8_t fp8_by_search(float x) {                  /* the nearest of all codes, ties to the even one */
    int best = 0;
    for (int code = 0; code < 127; code++) {
        float here = fabsf(float_of_fp8((uint8_t)code) - fabsf(x)), there = fabsf(float_of_fp8((uint8_t)best) - fabsf(x));
        if (here < there || (!(here > there) && code % 2 == 0)) best = code;
    }
    return (uint8_t)(best | (x < 0 ? 128 : 0));
}
static void quantised_by_hand(void **state) {
    const cache_case *c = (const cache_case *)*state;
    static const int32_t used[] = {0, 0, 0};
    attn_desc d = with_cache(c, used, used);
    const float top = c->cache == ATTN_INT8 ? 127 : 448;
    float *fresh[2] = {(float *)(uintptr_t)d.append.k.data, (float *)(uintptr_t)d.append.v.data};
    const int64_t dims[2] = {DIM, VDIM};
    for (int e = 0; e < DIM; e++) fresh[0][e] = 0x1p-130f * (float)e;           /* a key too small for a scale */
    for (int e = 0; e < VDIM; e++) fresh[1][e] = 0;
    for (int e = 0; e < DIM; e++) fresh[0][DIM + e] = (float)e * 254;           /* codes 0, 25.4, ..: rounding */
    for (int e = 0; e < VDIM; e++) {                                            /* a scale just below the least, and the least */
        fresh[1][VDIM + e] = top * 0x1.8p-127f * (float)(e + 1) / VDIM;
        fresh[1][2 * VDIM + e] = top * 0x1p-126f * (float)(e + 1) / VDIM;
    }
    element_put(fresh[0], ATTN_F32, KVH * DIM * STEPS, 127), element_put(fresh[0], ATTN_F32, KVH * DIM * STEPS + 1, 2.5);
    ok(attn_forward(&d));
    double *plain[2] = {(double *)get(BATCH * ROOM * KVH * DIM, 8), (double *)get(BATCH * ROOM * KVH * VDIM, 8)};
    for (int which = 0; which < 2; which++)
        for (int64_t r = 0; r < BATCH * STEPS * KVH; r++) {
            const float *x = fresh[which] + r * dims[which];
            const int64_t b = r / KVH / STEPS, t = r / KVH % STEPS, at = (b * ROOM + t) * KVH + r % KVH;
            const void *codes = which ? d.v.data : d.k.data;
            const float scale_got = (which ? d.v.scale : d.k.scale)[at];
            float amax = 0;
            for (int64_t e = 0; e < dims[which]; e++) amax = fabsf(x[e]) > amax ? fabsf(x[e]) : amax;
            volatile float scale = amax / top;
            if (scale < 0x1p-126f) scale = 0;
            assert_int_equal(float_bits(scale_got), float_bits(scale));
            for (int64_t e = 0; e < dims[which]; e++) {
                volatile float ratio = scale > 0 ? x[e] / scale : 0;
                double code = c->cache == ATTN_INT8 ? nearbyint((double)ratio) : (double)float_of_fp8(fp8_by_search(ratio));
                if (code > top) code = top;
                if (code < -top) code = -top;
                double got = element_get(codes, c->cache, at * dims[which] + e);
                if (got < code || got > code) fail_msg("code %g of %g / %g, not %g", got, x[e], scale, code);
                plain[which][at * dims[which] + e] = (double)scale * code;
            }
        }
    attn_desc hand = d;
    memset(&hand.append, 0, sizeof hand.append);
    hand.flags &= ~(uint32_t)ATTN_ROTARY_INTERLEAVED;
    hand.seq.used_k = ints(BATCH, (const int32_t[]){STEPS, STEPS, STEPS});
    hand.k.dtype = hand.v.dtype = ATTN_F64, hand.k.data = plain[0], hand.v.data = plain[1], hand.k.scale = hand.v.scale = NULL;
    give_outputs(&hand);
    ok(attn_forward(&hand));
    for (int64_t i = 0; i < BATCH * STEPS * HEADS * VDIM; i++)
        near_(((double *)d.o.data)[i], ((double *)hand.o.data)[i], 1e-12, "o, quantised and dequantised by hand");
}
static void quantised_nonfinite(void **state) {
    const cache_case *c = (const cache_case *)*state;
    static const int32_t used[] = {0, 0, 0};
    attn_desc d = with_cache(c, used, used);
    float *k = (float *)(uintptr_t)d.append.k.data;
    k[1] = float_of(0x7fc00000), k[DIM] = float_of(0xff800000);
    ok(attn_forward(&d));
    for (int h = 0; h < 2; h++) {
        assert_true((float_bits(d.k.scale[h]) & 0x7fffffff) > 0x7f800000);
        for (int e = 0; e < DIM; e++) assert_int_equal(((const uint8_t *)d.k.data)[h * DIM + e], 0);
    }
}

/* --------------------------------------------------------------------------------------------------------- merge */
static void merged_is_whole(void **state) {
    static const int64_t cuts[][6] = {{0, 37}, {0, 20, 37}, {0, 1, 1, 37}, {0, 5, 9, 30, 37}, {0, 0, 37, 37}};
    (void)state;
    for (size_t n = 0; n < sizeof cuts / sizeof *cuts; n++)
        for (int sink = 0; sink < 2; sink++) {
            attn_desc d = problem(BATCH, QL, CAP, HEADS, KVH, DIM, VDIM, ATTN_F32), whole;
            if (sink) d.sink = floats(HEADS);
            whole = d;
            give_outputs(&whole);
            ok(attn_forward(&whole));
            attn_in parts[5];
            const float *lse[5];
            int64_t n_parts = 0;
            for (; n_parts == 0 || cuts[n][n_parts] < CAP || (n_parts < 5 && cuts[n][n_parts + 1] == CAP); n_parts++) {
                attn_desc p = d;
                p.sink = NULL, p.kv_len = cuts[n][n_parts + 1] - cuts[n][n_parts];
                p.k.data = (const float *)d.k.data + cuts[n][n_parts] * KVH * DIM;
                p.v.data = (const float *)d.v.data + cuts[n][n_parts] * KVH * VDIM;
                p.k.stride[0] = CAP * KVH * DIM, p.k.stride[1] = KVH * DIM, p.k.stride[2] = DIM;
                p.v.stride[0] = CAP * KVH * VDIM, p.v.stride[1] = KVH * VDIM, p.v.stride[2] = VDIM;
                give_outputs(&p);
                ok(attn_forward(&p));
                memset(&parts[n_parts], 0, sizeof *parts);
                parts[n_parts].data = p.o.data, parts[n_parts].dtype = ATTN_F64, lse[n_parts] = p.lse;
                if (n_parts == 4) { n_parts++; break; }
            }
            ok(attn_merge(&d, n_parts, parts, lse));
            for (int64_t i = 0; i < BATCH * QL * HEADS * VDIM; i++)
                near_(((double *)d.o.data)[i], ((double *)whole.o.data)[i], 3e-6, "o, merged and whole");
            for (int64_t i = 0; i < BATCH * QL * HEADS; i++) near_(d.lse[i], whole.lse[i], 3e-6, "lse, merged and whole");
        }
}
static void merge_of_nothing(void **state) {
    (void)state;
    for (int sink = 0; sink < 2; sink++)
        for (int64_t n_parts = 0; n_parts < 3; n_parts++) {
            attn_desc d = problem(1, QL, 0, HEADS, KVH, DIM, VDIM, ATTN_F32);
            attn_in parts[2];
            const float *lse[2];
            for (int i = 0; i < 2; i++) {
                attn_desc p = d;
                give_outputs(&p);
                ok(attn_forward(&p));
                memset(&parts[i], 0, sizeof *parts);
                parts[i].data = p.o.data, parts[i].dtype = ATTN_F64, lse[i] = p.lse;
            }
            if (sink) d.sink = floats(HEADS);
            proof_poison(d.o.data, QL * HEADS * VDIM * 8);
            ok(attn_merge(&d, n_parts, n_parts ? parts : NULL, n_parts ? lse : NULL));
            for (int64_t i = 0; i < QL * HEADS * VDIM; i++) assert_true(((double *)d.o.data)[i] == 0);
            for (int64_t i = 0; i < QL * HEADS; i++) {
                if (sink) near_(d.lse[i], d.sink[i / QL], 1e-6, "lse of an empty row with a sink");
                else assert_int_equal(float_bits(d.lse[i]), 0xff800000);
            }
        }
}

/* ------------------------------------------------------------------------------------------------------- dropout */
static void philox_vectors(void **state) {               /* Random123's kat_vectors, philox4x32 10 */
    static const uint32_t kat[][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof kat / sizeof *kat; i++) {
        uint32_t mine[4], theirs[4];
        proof_philox(kat[i], kat[i] + 4, mine), unit_philox(kat[i], kat[i] + 4, theirs);
        assert_memory_equal(mine, kat[i] + 6, 16);
        assert_memory_equal(theirs, kat[i] + 6, 16);
    }
}
/* with the unit matrix for v, o is the matrix of the probabilities: which are kept, and their factor */
static void dropout_mask(void **state) {
    (void)state;
    attn_desc d = problem(2, 9, 23, 2, 2, 4, 23, ATTN_F32), without;
    for (int64_t i = 0; i < 2 * 23 * 2 * 23; i++) element_put((void *)(uintptr_t)d.v.data, ATTN_F32, i, i % 23 == i / 46 % 23);
    without = d;
    give_outputs(&without);
    ok(attn_forward(&without));
    d.dropout = 0.375f, d.seed = 0x123456789abcdefu, d.philox_offset = 77;
    ok(attn_forward(&d));
    for (int64_t b = 0; b < 2; b++)
        for (int64_t i = 0; i < 9; i++)
            for (int64_t h = 0; h < 2; h++)
                for (int64_t j = 0; j < 23; j++) {
                    int64_t at = ((b * 9 + i) * 2 + h) * 23 + j;
                    double want = proof_kept(&d, b, h, i, j) ? ((double *)without.o.data)[at] * (float)(1 / (1 - 0.375)) : 0;
                    near_(((double *)d.o.data)[at], want, 1e-12, "p with dropout");
                }
    same_bytes(d.lse, without.lse, 2 * 9 * 2 * 4, "lse with and without dropout");
}
static void dropout_mean(void **state) {
    enum { SEEDS = 400, N = 2 * 3 * 2 * 4 };
    (void)state;
    attn_desc d = problem(2, 3, 19, 2, 2, 4, 4, ATTN_F32), without = d;
    double sum[N] = {0}, square[N] = {0};
    give_outputs(&without);
    ok(attn_forward(&without));
    d.dropout = 0.25f;
    for (int seed = 0; seed < SEEDS; seed++) {
        d.seed = (uint64_t)seed;
        ok(attn_forward(&d));
        for (int i = 0; i < N; i++) { double x = ((double *)d.o.data)[i]; sum[i] += x, square[i] += x * x; }
    }
    for (int i = 0; i < N; i++) {
        double mean = sum[i] / SEEDS, var = square[i] / SEEDS - mean * mean;
        assert_true(var > 0);
        near_(mean, ((double *)without.o.data)[i], 5 * sqrt(var / SEEDS), "mean over seeds");
    }
}

/* ----------------------------------------------------------------------------------------------------- gradients */
static attn_grad gradient(const attn_desc *d, int dlse, int bias) {
    attn_grad g;
    int64_t qn = d->batch * d->q_len * d->heads, kn = d->batch * d->kv_len * d->kv_heads;
    memset(&g, 0, sizeof g);
    g.dout.dtype = g.dq.dtype = g.dk.dtype = g.dv.dtype = ATTN_F64;
    g.dout.data = random_of(ATTN_F64, qn * d->v_dim);
    g.dq.data = get(qn * d->head_dim, 8), g.dk.data = get(kn * d->head_dim, 8), g.dv.data = get(kn * d->v_dim, 8);
    if (dlse) g.dlse = floats(qn);
    if (bias) g.dbias = (float *)get(qn * d->kv_len, 4);
    if (d->sink) g.dsink = (float *)get(d->heads, 4);
    return g;
}
/* with dout 0 only dlse speaks: dq = scale sum_j dlse_i p_ij k_j, dv = 0, dsink = sum dlse_i p_sink; and the two add up */
static void dlse_by_hand(void **state) {
    (void)state;
    attn_desc d = problem(1, QL, CAP, 2, 1, DIM, VDIM, ATTN_F64);
    d.sink = floats(2);
    ok(attn_forward(&d));
    attn_grad both = gradient(&d, 1, 0), only = both, none = both;
    only.dout.data = get(QL * 2 * VDIM, 8), none.dlse = NULL;
    attn_grad *each[2] = {&only, &none};
    for (int i = 0; i < 2; i++) {
        each[i]->dq.data = get(QL * 2 * DIM, 8), each[i]->dk.data = get(CAP * DIM, 8), each[i]->dv.data = get(CAP * VDIM, 8);
        each[i]->dsink = (float *)get(2, 4);
    }
    ok(attn_backward(&d, &both)), ok(attn_backward(&d, &only)), ok(attn_backward(&d, &none));
    const double *q = (const double *)d.q.data, *k = (const double *)d.k.data, scale = (float)(1 / sqrt((double)DIM));
    double sink[2] = {0, 0};
    for (int i = 0; i < QL; i++)
        for (int h = 0; h < 2; h++) {
            double want[DIM] = {0}, lse = d.lse[h * QL + i];
            for (int j = 0; j < CAP; j++) {
                double s = 0;
                for (int e = 0; e < DIM; e++) s += q[(i * 2 + h) * DIM + e] * k[j * DIM + e];
                for (int e = 0; e < DIM; e++) want[e] += scale * (double)both.dlse[h * QL + i] * exp(scale * s - lse) * k[j * DIM + e];
            }
            for (int e = 0; e < DIM; e++) near_(((double *)only.dq.data)[(i * 2 + h) * DIM + e], want[e], 1e-9, "dq of dlse");
            sink[h] += (double)both.dlse[h * QL + i] * exp((double)d.sink[h] - lse);
        }
    for (int h = 0; h < 2; h++) near_(only.dsink[h], sink[h], 1e-6, "dsink of dlse");
    for (int i = 0; i < CAP * VDIM; i++) assert_true(((double *)only.dv.data)[i] == 0);
    for (int i = 0; i < QL * 2 * DIM; i++) near_(((double *)both.dq.data)[i], ((double *)only.dq.data)[i] + ((double *)none.dq.data)[i], 1e-9, "dq");
    for (int i = 0; i < CAP * DIM; i++) near_(((double *)both.dk.data)[i], ((double *)only.dk.data)[i] + ((double *)none.dk.data)[i], 1e-9, "dk");
}
static void accumulate_adds(void **state) {
    (void)state;
    attn_desc d = problem(2, QL, CAP, HEADS, KVH, DIM, VDIM, ATTN_F64);
    d.sink = floats(HEADS), d.bias.data = floats(2 * HEADS * QL * CAP);
    ok(attn_forward(&d));
    attn_grad fresh = gradient(&d, 1, 1), added = fresh;
    const int64_t n[3] = {2 * QL * HEADS * DIM, 2 * CAP * KVH * DIM, 2 * CAP * KVH * VDIM}, nb = 2 * HEADS * QL * CAP;
    void *old[3], *now[3];
    for (int i = 0; i < 3; i++) {
        old[i] = random_of(ATTN_F64, n[i]), now[i] = get(n[i], 8);
        memcpy(now[i], old[i], (size_t)n[i] * 8);
    }
    float *old_bias = floats(nb), *old_sink = floats(HEADS);
    added.dq.data = now[0], added.dk.data = now[1], added.dv.data = now[2];
    added.dbias = (float *)get(nb, 4), added.dsink = (float *)get(HEADS, 4);
    memcpy(added.dbias, old_bias, (size_t)nb * 4), memcpy(added.dsink, old_sink, HEADS * 4);
    for (int i = 0; i < 3; i++) proof_poison(i == 0 ? fresh.dq.data : i == 1 ? fresh.dk.data : fresh.dv.data, (size_t)n[i] * 8);
    proof_poison(fresh.dbias, (size_t)nb * 4), proof_poison(fresh.dsink, HEADS * 4);
    ok(attn_backward(&d, &fresh));
    d.flags |= ATTN_ACCUMULATE;
    ok(attn_backward(&d, &added));
    const void *plain[3] = {fresh.dq.data, fresh.dk.data, fresh.dv.data};
    for (int i = 0; i < 3; i++)
        for (int64_t e = 0; e < n[i]; e++) near_(((double *)now[i])[e], ((double *)old[i])[e] + ((const double *)plain[i])[e], 1e-11, "an accumulated gradient");
    for (int64_t e = 0; e < nb; e++) near_(added.dbias[e], (double)old_bias[e] + fresh.dbias[e], 1e-6, "accumulated dbias");
    for (int64_t e = 0; e < HEADS; e++) near_(added.dsink[e], (double)old_sink[e] + fresh.dsink[e], 4e-6, "accumulated dsink");
}
/* dbias of a broadcast bias is that of the full bias, summed over the dimensions that it shares; in every backend */
static void dbias_in(const char *backend, int shape, int gap) {
    const int64_t extent[3] = {2, HEADS, QL};
    attn_desc d = problem(2, QL, CAP, HEADS, KVH, DIM, VDIM, ATTN_F32), full;
    int64_t stride[3], step = CAP + 3 * gap, count;
    attn_plan plan;
    for (int i = 2; i >= 0; i--) stride[i] = shape >> i & 1 ? 0 : step, step *= shape >> i & 1 ? 1 : extent[i];
    count = step;
    d.bias.data = floats(count);
    for (int i = 0; i < 3; i++) d.bias.stride[i] = stride[i] ? stride[i] : ATTN_BROADCAST;
    d.o.dtype = ATTN_F32, d.backend = backend;
    full = d;
    float *wide = (float *)get(2 * HEADS * QL * CAP, 4);
    for (int64_t r = 0; r < 2 * HEADS * QL; r++)
        memcpy(wide + r * CAP, (const float *)d.bias.data + r / QL / HEADS * stride[0] + r / QL % HEADS * stride[1] + r % QL * stride[2], CAP * 4);
    full.bias.data = wide;
    memset(full.bias.stride, 0, sizeof full.bias.stride);
    full.o.data = get(2 * QL * HEADS * VDIM, 8), full.lse = (float *)get(2 * QL * HEADS, 4);
    attn_grad g = gradient(&d, 0, 0), f = g;
    g.dout.dtype = g.dq.dtype = g.dk.dtype = g.dv.dtype = f.dout.dtype = f.dq.dtype = f.dk.dtype = f.dv.dtype = ATTN_F32;
    g.dout.data = f.dout.data = random_of(ATTN_F32, 2 * QL * HEADS * VDIM);
    g.dbias = (float *)get(count, 4), f.dbias = (float *)get(2 * HEADS * QL * CAP, 4);
    if (attn_query(&d, &g, &plan) == ATTN_ERR_DECLINED) return;
    ok(attn_forward(&d)), ok(attn_forward(&full));
    same_bytes(d.o.data, full.o.data, 2 * QL * HEADS * VDIM * 4, "o with a broadcast and a full bias");
    proof_poison(g.dbias, (size_t)count * 4);
    ok(attn_backward(&full, &f)), ok(attn_backward(&d, &g));
    double *sum = (double *)get(count, 8);
    for (int64_t r = 0; r < 2 * HEADS * QL; r++)
        for (int64_t j = 0; j < CAP; j++)
            sum[r / QL / HEADS * stride[0] + r / QL % HEADS * stride[1] + r % QL * stride[2] + j] += f.dbias[r * CAP + j];
    for (int64_t r = 0; r < 2 * HEADS * QL; r++)
        for (int64_t j = 0; j < CAP; j++) {
            int64_t at = r / QL / HEADS * stride[0] + r / QL % HEADS * stride[1] + r % QL * stride[2] + j;
            near_(g.dbias[at], sum[at], 1e-5, "dbias");
        }
    if (gap)                                             /* what lies between the rows is not written */
        for (int e = CAP; e < CAP + 3; e++) assert_int_equal(float_bits(g.dbias[e]), 0xffffffff);
}
static void dbias_broadcast(void **state) {
    (void)state;
    for (int i = 0; attn_backend_at(i); i++)
        for (int n = 0; n < 16; n++) dbias_in(attn_backend_at(i)->name, n / 2, n % 2), teardown(NULL);
}

int main(void) {
    static const cache_case int8 = {"", ATTN_INT8, ATTN_F32, 0, 0}, fp8 = {"", ATTN_FP8_E4M3, ATTN_F32, 0, 0};
    struct CMUnitTest tests[64] = {
        TEST(paged_is_contiguous), TEST(slots_are_contiguous), TEST(packed_is_a_loop), TEST(packed_gradients), TEST(padded_is_alone),
        TEST(append_packed), TEST(rotary_by_hand), WITH(quantised_by_hand, "int8 by hand", &int8), WITH(quantised_by_hand, "fp8 by hand", &fp8),
        WITH(quantised_nonfinite, "int8 of NaN", &int8), WITH(quantised_nonfinite, "fp8 of infinity", &fp8),
        TEST(merged_is_whole), TEST(merge_of_nothing), TEST(philox_vectors), TEST(dropout_mask), TEST(dropout_mean),
        TEST(dlse_by_hand), TEST(accumulate_adds), TEST(dbias_broadcast),
    };
    size_t n = 0;
    while (tests[n].test_func) n++;
    for (size_t i = 0; i < sizeof cache_cases / sizeof *cache_cases; i++) {
        const struct CMUnitTest t = WITH(append_one_by_one, cache_cases[i].name, &cache_cases[i]);
        tests[n++] = t;
    }
    return _cmocka_run_group_tests("identity", tests, n, NULL, NULL);
}
