/* beyond.c - what goes beyond the peers, for every backend that accepts the call: a NaN reaches only the rows that see it, empty
 * and fully masked problems, offsets past 2^31 elements, huge and denormal scores, and bitwise batch invariance. */
#define _GNU_SOURCE
#include "proof_unit.h"
#include <sys/mman.h>

static int runs;                                         /* of backends, in this test: none at all is a failure */
static int declined(proof_case *c, int i, int backward) {
    attn_plan plan;
    c->d.backend = attn_backend_at(i)->name;
    attn_status s = proof_query(c, backward, &plan);
    if (s && s != ATTN_ERR_DECLINED) fail_msg("%s: %s", c->d.backend, c->message);
    runs += s == ATTN_OK;
    return s != ATTN_OK;
}
static void some_runs(int at_least) {
    if (runs < at_least) fail_msg("only %d runs", runs);
    runs = 0;
}
/* a case by hand: the description in c->d, then its memory */
static const proof_draw plain_draw = {1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
static void bind(proof_case *c, double k_amplitude, double v_amplitude, proof_draw draw) {
    attn_desc *d = &c->d;
    c->data = 11;
    d->message = c->message, d->message_size = sizeof c->message;
    proof_bind_all(c, &draw);
    assert_false(c->overflow);
    attn_in *x[2] = {&d->k, &d->v};
    const double amplitude[2] = {k_amplitude, v_amplitude};
    for (int n = 0; n < 2; n++) {
        proof_view w = proof_kv_view(d, x[n]->stride, x[n]->layout, n ? proof_v_dim(d) : d->head_dim);
        if (amplitude[n] < 1 || amplitude[n] > 1) proof_fill_view(c, x[n]->dtype, (void *)(uintptr_t)x[n]->data, &w, amplitude[n]);
    }
    proof_freeze(c);
}
static attn_desc shape(int64_t batch, int64_t q_len, int64_t kv_len, int64_t heads, int64_t kv_heads, int64_t dim, int32_t dtype) {
    attn_desc d;
    memset(&d, 0, sizeof d);
    d.batch = batch, d.q_len = q_len, d.kv_len = kv_len, d.heads = heads, d.kv_heads = kv_heads, d.head_dim = dim;
    d.q.dtype = d.k.dtype = d.v.dtype = d.o.dtype = dtype;
    return d;
}

/* ------------------------------------------------------------------------------------------------- non-finite */
typedef struct target { attn_in *x; const float *scale; int64_t at; int in_v; proof_view w; } target;

/* does row (b, i, h) see a key that lies at the spoiled address? */
static int sees(const attn_desc *d, const target *t, int64_t b, int64_t i, int64_t h) {
    const proof_seq s = proof_seq_of(d, b);
    for (int64_t j = 0; j < s.kv_len - s.add; j++)
        if (proof_visible(d, &s, b, h, i, j) && proof_token(d, &t->w, b, s.start + j, h / (d->heads / proof_kv_heads(d))) == t->at) return 1;
    return 0;
}
static void write_element(proof_case *c, const void *p, int32_t dtype, double x) {
    for (int i = 0; i < c->buffers; i++) {
        const proof_buffer *b = &c->buffer[i];
        if ((const char *)p < b->mem || (const char *)p >= b->mem + b->bytes) continue;
        element_put(b->mem + ((const char *)p - b->mem), dtype, 0, x), element_put(b->pristine + ((const char *)p - b->mem), dtype, 0, x);
    }
}
/* Runs with a 0 and with a NaN, or -infinity in v, in one key: rows that do not see it keep their bits, the others show it. */
static void spoil_and_compare(proof_case *c, uint64_t *pick) {
    attn_desc *d = &c->d;
    const int64_t rows = proof_lse_count(d), dv = proof_v_dim(d), b = (int64_t)(random_bits(pick) % (uint64_t)d->batch);
    const proof_seq s = proof_seq_of(d, b);
    if (s.used == s.start) return;
    target t;
    t.in_v = (int)(random_bits(pick) % 2);
    t.x = t.in_v ? &d->v : &d->k;
    const int quantised = t.x->scale != NULL;
    const int64_t dim = t.in_v ? dv : d->head_dim, e = (int64_t)(random_bits(pick) % (uint64_t)dim);
    const int64_t token = s.start + (int64_t)(random_bits(pick) % (uint64_t)(s.used - s.start)), head = (int64_t)(random_bits(pick) % (uint64_t)proof_kv_heads(d));
    t.w = quantised ? proof_kv_view(d, t.x->scale_stride, ATTN_BSHD, 1) : proof_kv_view(d, t.x->stride, t.x->layout, dim);
    t.at = proof_token(d, &t.w, b, token, head);
    const int32_t type = quantised ? ATTN_F32 : is_blocks(t.x->dtype) ? ATTN_F16 : t.x->dtype;     /* a block's scale is that of e, too */
    const void *p = quantised                ? (const void *)(t.x->scale + t.at)
                    : is_blocks(t.x->dtype) ? (const void *)block_of((void *)(uintptr_t)t.x->data, t.x->dtype, t.at + e)
                                            : (const void *)((const char *)t.x->data + (t.at + e) * dtype_size(type));
    char *o = (char *)get(rows * dv, 8);
    float *lse = (float *)get(rows, 4);
    const proof_view w = proof_rows_view(d, d->o.stride, d->o.layout, dv);
    const size_t size = dtype_size(d->o.dtype);
    for (int spoiled = 0; spoiled < 2; spoiled++) {
        write_element(c, p, type, spoiled ? (double)float_of(t.in_v ? 0xff800000 : 0x7fc00000) : 0);
        proof_reset(c);
        ok(attn_forward(d));
        for (int64_t bb = 0; bb < d->batch; bb++) {
            const proof_seq z = proof_seq_of(d, bb);
            for (int64_t q = 0; q < z.rows; q++)
                for (int64_t h = 0; h < d->heads; h++) {
                    const int64_t row = proof_lse_at(d, bb, q, h);
                    char *got = (char *)d->o.data + proof_row(d, &w, bb, q, h) * (int64_t)size, *kept = o + row * dv * 8;
                    if (!spoiled) {
                        memcpy(kept, got, (size_t)dv * size), lse[row] = d->lse ? d->lse[row] : 0;
                        continue;
                    }
                    if (!sees(d, &t, bb, q, h)) {
                        if (memcmp(kept, got, (size_t)dv * size) || (d->lse && float_bits(lse[row]) != float_bits(d->lse[row])))
                            fail_msg("%s: a row that does not see the NaN changed (b %d, i %d, h %d)", d->backend, (int)bb, (int)q, (int)h);
                    } else if (t.in_v && !(d->dropout > 0)) {
                        if (is_finite(element_get(got, d->o.dtype, quantised ? 0 : e))) fail_msg("%s: a visible infinity in v is lost", d->backend);
                    } else if (!t.in_v && d->lse && is_finitef(d->lse[row]) && !(d->dropout > 0)) fail_msg("%s: a visible NaN in k is lost", d->backend);
                }
        }
    }
    write_element(c, p, type, 0);
}
static void nonfinite_random(void **state) {
    (void)state;
    for (int64_t n = 0; n < 200; n++) {
        proof_rng r = {(uint64_t)n * 7919 + 5, NULL, 0};
        proof_case c;
        uint64_t pick = (uint64_t)n;
        proof_make(&c, &r, (int64_t)1 << 18);
        /* an inf - inf elsewhere would hide what is looked for, and a score of 0 * NaN has no sign */
        if (!(c.features & PROOF_NONFINITE) && c.d.batch && c.d.heads)
            for (int i = 0; attn_backend_at(i); i++)
                if (!declined(&c, i, 0)) spoil_and_compare(&c, &pick);
        proof_free(&c);
        teardown(NULL);
    }
    some_runs(150);
}
/* tiles that are only partly visible, in the dtypes of a fast kernel: by causality, a window, a mask, a bias of -infinity */
static void nonfinite_tiles(void **state) {
    (void)state;
    for (int n = 0; n < 36; n++) {
        proof_case c;
        proof_draw draw = plain_draw;
        uint64_t pick = (uint64_t)n * 31 + 1;
        memset(&c, 0, sizeof c);
        c.d = shape(2, n % 2 ? 150 : 4, 150 + 40 * (n / 6 % 3), 2, 1, n % 8 ? 64 : 33, n < 18 ? ATTN_F32 : n % 3);
        if (n % 6 == 0) c.d.flags = ATTN_WINDOW_RIGHT | ATTN_WINDOW_LEFT, c.d.window_left = 40, c.d.window_right = 3;
        if (n % 6 == 1 || n == 14) c.d.flags = ATTN_CAUSAL;
        if (n % 6 == 3 || n % 6 == 4) c.features |= PROOF_MASK, c.d.mask.dtype = ATTN_BOOL;
        if (n % 6 == 5 || n % 6 == 2) c.features |= PROOF_BIAS, draw.hidden_percent = 30;
        bind(&c, 1, 1, draw);
        for (int i = 0; attn_backend_at(i); i++)
            for (int k = 0; k < (i ? 1 : 6) && !declined(&c, i, 0); k++) spoil_and_compare(&c, &pick);
        proof_free(&c);
        teardown(NULL);
    }
    some_runs(36);
}

/* ------------------------------------------------------------------------------------------- empty and masked */
static void expect_empty(const proof_case *c) {
    const attn_desc *d = &c->d;
    const proof_view w = proof_rows_view(d, d->o.stride, d->o.layout, proof_v_dim(d));
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t i = 0; i < proof_seq_of(d, b).rows; i++)
            for (int64_t h = 0; h < d->heads; h++) {
                for (int64_t e = 0; e < w.dim; e++) {
                    double x = element_get(d->o.data, d->o.dtype, proof_row(d, &w, b, i, h) + e);
                    if (!is_finite(x) || x > 0 || x < 0) fail_msg("%s: o of an empty row is %g", d->backend, x);
                }
                const float lse = d->lse[proof_lse_at(d, b, i, h)];
                if (d->sink) near_(lse, d->sink[h], 8 * CHECK_U * fabsf(d->sink[h]), "lse of an empty row with a sink");
                else if (float_bits(lse) != 0xff800000) fail_msg("%s: lse of an empty row is %g", d->backend, lse);
            }
}
typedef struct empty_case { const char *name; int64_t batch, q_len, kv_len; int how, sink; } empty_case;
enum { NOTHING, FALSE_MASK, BIAS_INF, FAR_WINDOW, USED_0, START_END, BEFORE };
static const empty_case empties[] = {
    {"kv_len 0", 2, 5, 0, NOTHING, 0},           {"kv_len 0 with a sink", 2, 5, 0, NOTHING, 1},
    {"q_len 0", 2, 0, 7, NOTHING, 0},            {"batch 0", 0, 5, 7, NOTHING, 0},
    {"q_len 0 and kv_len 0", 2, 0, 0, NOTHING, 1}, {"mask all false", 2, 70, 90, FALSE_MASK, 0},
    {"mask all false with a sink", 2, 70, 90, FALSE_MASK, 1}, {"bias all -infinity", 2, 70, 90, BIAS_INF, 0},
    {"window far away", 2, 70, 90, FAR_WINDOW, 1}, {"used_k 0", 2, 70, 90, USED_0, 0},
    {"start_k = used_k", 2, 70, 90, START_END, 1}, {"causal before the first key", 2, 70, 90, BEFORE, 0},
};
static void empty_rows(void **state) {
    const empty_case *e = (const empty_case *)*state;
    for (int32_t dtype = ATTN_F32; dtype <= ATTN_F64; dtype++) {
        proof_case c;
        proof_draw draw = plain_draw;
        memset(&c, 0, sizeof c);
        c.d = shape(e->batch, e->q_len, e->kv_len, 4, 2, 24, dtype);
        c.backward = 1;
        c.g.dout.dtype = c.g.dq.dtype = c.g.dk.dtype = c.g.dv.dtype = dtype;
        draw.sink = e->sink, draw.dsink = e->sink;
        if (e->how == FALSE_MASK) c.features |= PROOF_MASK, c.d.mask.dtype = ATTN_BOOL;
        if (e->how == BIAS_INF) c.features |= PROOF_BIAS, draw.hidden_percent = 100;
        if (e->how == FAR_WINDOW) c.d.flags = ATTN_WINDOW_LEFT | ATTN_OFFSET, c.d.offset = 1000, c.d.window_left = 100;
        if (e->how == BEFORE) c.d.flags = ATTN_CAUSAL | ATTN_OFFSET, c.d.offset = -70;
        static const int32_t zero[2] = {0, 0}, end[2] = {9, 90};
        if (e->how == USED_0) c.d.seq.used_k = zero;
        if (e->how == START_END) c.d.seq.used_k = c.d.seq.start_k = end;
        bind(&c, 1, 1, draw);
        if (e->how == FALSE_MASK) {
            memset((void *)(uintptr_t)c.d.mask.data, 0, (size_t)(e->batch * 4 * e->q_len * e->kv_len));
            proof_freeze(&c);
        }
        if (!e->kv_len) c.d.k.data = c.d.v.data = NULL;
        if (!e->batch || !e->q_len) c.d.q.data = NULL;
        for (int i = 0; attn_backend_at(i); i++) {
            c.d.backend = attn_backend_at(i)->name;
            proof_reset(&c);
            if (declined(&c, i, 0)) continue;
            ok(attn_forward(&c.d));
            expect_empty(&c);
            if (declined(&c, i, 1)) continue;
            ok(attn_backward(&c.d, &c.g));
            const attn_out outs[3] = {c.g.dq, c.g.dk, c.g.dv};
            const int64_t n[3] = {e->batch * e->q_len * 4 * 24, e->batch * e->kv_len * 2 * 24, e->batch * e->kv_len * 2 * 24};
            for (int o = 0; o < 3; o++)
                for (int64_t x = 0; x < n[o]; x++) {
                    double g = element_get(outs[o].data, dtype, x);
                    if (!is_finite(g) || g > 0 || g < 0) fail_msg("%s: gradient %g of a call that sees nothing", c.d.backend, g);
                }
        }
        proof_free(&c);
    }
    some_runs(4);
}

/* rows all of whose scores are -infinity, from keys with an infinite element: 0, whatever V holds. Standard raises such scores to a finite
 * lowest. */
static void infinite_scores(void **state) {
    enum { ROWS = 20, KEYS = 3, DIM = 16 };
    static float q[ROWS * DIM], k[KEYS * DIM], v[KEYS * DIM], o[ROWS * DIM];
    static const char *const all[] = {"reference", "flash"};
    (void)state;
    for (int x = 0; x < ROWS * DIM; x++) q[x] = x % DIM ? 0.1f * (float)(x % 7 - 3) : 1;
    for (int x = 0; x < KEYS * DIM; x++) k[x] = x % DIM ? 0.1f * (float)(x % 5) : -INFINITY, v[x] = x % DIM == 1 ? INFINITY : 0.3f;
    for (int i = 0; i < 2; i++)
        for (int rows = 1; rows <= ROWS; rows += ROWS - 1) {
            attn_desc d;
            memset(&d, 0, sizeof d);
            d.batch = d.heads = 1, d.q_len = rows, d.kv_len = KEYS, d.head_dim = DIM, d.backend = all[i];
            d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o;
            for (int x = 0; x < rows * DIM; x++) o[x] = 7;
            ok(attn_forward(&d));
            for (int x = 0; x < rows * DIM; x++)
                if (o[x] < 0 || o[x] > 0 || o[x] != o[x]) fail_msg("%s: %d rows, o[%d] is %g", all[i], rows, x, (double)o[x]);
        }
}

/* --------------------------------------------------------------------------------------------------- far offsets */
/* The same problem compact and in views of which every dimension's step passes 2^31 elements, up and down. */
static void far_offsets(void **state) {
    enum { QN = 3, KN = 3, H = 2, D = 8 };
    (void)state;
    for (int32_t dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++) {
        const size_t size = dtype_size(dtype);
        const int64_t step = ((int64_t)1 << 31) + 4096;
        const size_t bytes = (size_t)step * 2 * size + ((size_t)1 << 20);
        char *far = (char *)mmap(NULL, bytes * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (far == MAP_FAILED) skip();
        proof_case c;
        memset(&c, 0, sizeof c);
        c.d = shape(1, QN, KN, H, H, D, dtype);
        bind(&c, 1, 1, plain_draw);
        attn_in *ins[3] = {&c.d.q, &c.d.k, &c.d.v};
        attn_desc d = c.d;
        attn_in *far_ins[3] = {&d.q, &d.k, &d.v};
        for (int n = 0; n < 3; n++) {
            const int down = n == 1;
            char *base = far + bytes * (size_t)n + (down ? (size_t)step * 2 * size : 0);
            far_ins[n]->stride[0] = 1, far_ins[n]->stride[1] = down ? -step : step, far_ins[n]->stride[2] = D;
            far_ins[n]->data = base;
            for (int64_t t = 0; t < 3; t++)
                memcpy(base + t * (down ? -step : step) * (int64_t)size, (const char *)ins[n]->data + t * H * D * (int64_t)size, H * D * size);
        }
        d.o.data = far + bytes * 3, d.o.stride[0] = 3 * step, d.o.stride[1] = step, d.o.stride[2] = D;
        for (int i = 0; attn_backend_at(i); i++) {
            if (declined(&c, i, 0)) continue;
            proof_reset(&c);
            ok(attn_forward(&c.d));
            float lse[QN * H];
            memcpy(lse, c.d.lse, sizeof lse);
            d.backend = c.d.backend;
            ok(attn_forward(&d));
            same_bytes(lse, c.d.lse, sizeof lse, "lse, near and far,");
            for (int64_t t = 0; t < QN; t++)
                same_bytes((char *)d.o.data + t * step * (int64_t)size, (char *)c.d.o.data + t * H * D * (int64_t)size, H * D * size, "o, near and far,");
        }
        proof_free(&c);
        munmap(far, bytes * 4);
    }
    some_runs(3);
}

/* Rows of a mask and of a bias, gradients of it, pages, parts of a merge and rows of a conversion whose steps pass 2^31 elements: the bytes of
 * the same near by. */
enum { FAR_N = 5, FAR_D = 16, FAR_WAYS = 7 };            /* a mask, a bias, its gradient, pages of one and of two tokens, merge, conversion */
static attn_status far_call(int way, const char *backend, int64_t step, void *memory, float *out) {
    enum { N = FAR_N, D = FAR_D };
    const float *x = floats(3 * N * D);
    float *lse = (float *)get(N, 4), *o = (float *)get(N * D, 4), *at = (float *)memory;
    attn_desc d = shape(1, N, N, 1, 1, D, ATTN_F32);
    d.q.data = x, d.k.data = x + N * D, d.v.data = x + 2 * N * D, d.o.data = way == 2 ? o : out, d.lse = lse, d.threads = 1, d.backend = backend;
    for (int i = 0; i < N && way != 0; i++) memcpy(at + i * step, x + (way == 1 || way == 2 ? 0 : 2 * N * D) + i * D, D * 4);
    if (way == 0) {
        unsigned char *mask = (unsigned char *)memory;
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) mask[i * step + j] = (i + j) % 3 != 0;
        d.mask.data = mask, d.mask.dtype = ATTN_BOOL, d.mask.stride[0] = d.mask.stride[1] = ATTN_BROADCAST, d.mask.stride[2] = step;
    } else if (way <= 2) {
        d.bias.data = at, d.bias.stride[0] = d.bias.stride[1] = ATTN_BROADCAST, d.bias.stride[2] = step;
    } else if (way <= 4) {
        static const int32_t table[N] = {4, 0, 3, 1, 2};
        static const int32_t used = N;
        d.v.stride[0] = step, d.v.stride[1] = d.v.stride[2] = D, d.v.data = at;
        memcpy(d.k.stride, d.v.stride, sizeof d.k.stride), d.k.data = at;
        d.seq.block_table = table, d.seq.page_size = way - 2, d.seq.pages = d.seq.max_pages = N, d.seq.used_k = &used, d.q_len = 1;
    } else if (way == 5) {
        attn_in part;
        const float *parts[1] = {lse};
        memset(&part, 0, sizeof part);
        d.lse = NULL, part.data = at, part.stride[0] = N * step, part.stride[1] = step, part.stride[2] = D;
        return attn_merge(&d, 1, &part, parts);
    } else {
        const int64_t all[4] = {1, N, 1, D};
        attn_in src;
        attn_out dst;
        memset(&src, 0, sizeof src), memset(&dst, 0, sizeof dst);
        src.data = at, src.stride[0] = N * step, src.stride[1] = step, src.stride[2] = D, dst.data = out;
        return attn_convert(all, src, dst, NULL);
    }
    attn_status s = attn_forward(&d);
    if (s || way != 2) return s;
    attn_grad g;
    memset(&g, 0, sizeof g);
    g.dout.data = x + 2 * N * D, g.dq.data = get(N * D, 4), g.dk.data = get(N * D, 4), g.dv.data = get(N * D, 4), g.dbias = at + N * step;
    s = attn_backward(&d, &g);
    for (int i = 0; i < N; i++) memcpy(out + i * D, g.dbias + i * step, N * 4);
    return s;
}
static void far_rows(void **state) {
    const int64_t step = ((int64_t)1 << 30) + 4096;
    const size_t bytes = (size_t)step * FAR_N * 4 * 2;
    void *far = sizeof(void *) < 8 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    (void)state;
    if (far == MAP_FAILED) skip();
    for (int way = 0; way < FAR_WAYS; way++)
        for (int i = 0; attn_backend_at(i); i++) {
            const uint64_t drawn = values;
            float *near_by = (float *)get(FAR_N * FAR_D, 4), *far_off = (float *)get(FAR_N * FAR_D, 4);
            const attn_status s = far_call(way, attn_backend_at(i)->name, 16 * FAR_D, get(16 * FAR_D * FAR_N * 2, 4), near_by);
            if (s == ATTN_ERR_DECLINED || s == ATTN_ERR_DEVICE) continue;
            if (s) fail_msg("way %d, %s: %s", way, attn_backend_at(i)->name, attn_status_text(s));
            values = drawn;
            ok(far_call(way, attn_backend_at(i)->name, step, far, far_off));
            if (memcmp(near_by, far_off, FAR_N * FAR_D * 4)) fail_msg("way %d, %s: other bytes far off than near by", way, attn_backend_at(i)->name);
            runs++;
            teardown(NULL);
        }
    munmap(far, bytes);
    some_runs(3 * FAR_WAYS);
}

/* every backend that takes the case against the reference's answer; frees the case */
static void solve_and_compare(proof_case *c, int n) {
    proof_answer a;
    ok(proof_solve(c, &a));
    for (int i = 0; attn_backend_at(i); i++) {
        if (declined(c, i, 0)) continue;
        proof_reset(c);
        ok(attn_forward(&c->d));
        const char *wrong = proof_check(c, &a, forward_p_unit(&c->d));
        if (wrong) fail_msg("%s, case %d: %s", c->d.backend, n, wrong);
    }
    proof_answer_free(&a);
    proof_free(c);
}

/* ------------------------------------------------------------------------------------------------- extreme values */
typedef struct extreme { const char *name; double q, k, v; int32_t dtype; double later; } extreme;    /* later: of the keys from 520 on */
static const extreme extremes[] = {
    {"scores of 1e4, f32", 100, 35, 1, ATTN_F32, 0},      {"scores of 1e4, f16", 100, 35, 1, ATTN_F16, 0},
    {"scores of 1e4, bf16", 100, 35, 1, ATTN_BF16, 0},    {"scores of 1e5, f32", 1000, 35, 1, ATTN_F32, 0},
    {"denormal q and k", 0x1p-130, 0x1p-130, 1, ATTN_F32, 0}, {"denormal v", 1, 1, 0x1p-130, ATTN_F32, 0},
    {"denormal bf16", 0x1p-128, 1, 0x1p-128, ATTN_BF16, 0},   {"denormal f16", 1, 0x1p-18, 0x1p-18, ATTN_F16, 0},
    {"tiny v, f16", 1, 1, 0x1p-22, ATTN_F16, 0},           {"large v, f32", 1, 1, 0x1p100, ATTN_F32, 0},
    {"large v, f16", 1, 1, 10000, ATTN_F16, 0},
    {"scores that fall from 1e4 to 1e2", 100, 35, 1, ATTN_F32, 0.35},  {"scores that rise from 1e2 to 1e4", 100, 0.35, 1, ATTN_F32, 35},
};
static void extreme_values(void **state) {
    const extreme *x = (const extreme *)*state;
    for (int n = 0; n < 3; n++) {
        proof_case c;
        proof_draw draw = plain_draw;
        memset(&c, 0, sizeof c);
        c.d = shape(2, n == 0 ? 1 : x->later > 0 ? 9 : 50, x->later > 0 ? 1600 : 200, 4, 2, 64, x->dtype);
        c.d.flags = n % 2 ? ATTN_CAUSAL : 0;
        draw.q_amplitude = x->q;
        bind(&c, x->k, x->v, draw);
        c.max_v = 4 * x->v;
        proof_view w = proof_kv_view(&c.d, c.d.k.stride, c.d.k.layout, 64);
        for (int64_t row = 0; x->later > 0 && row < 2 * 2 * (1600 - 1040); row++)
            proof_fill_row(&c, x->dtype, (void *)(uintptr_t)c.d.k.data, proof_at(&w, row % 2, 1040 + row / 4, row / 2 % 2), 64, x->later);
        proof_freeze(&c);
        solve_and_compare(&c, n);
    }
    some_runs(3);
}

/* Several key blocks of a fast kernel, of which some rows see none of the first, or none of the last. */
static void several_blocks(void **state) {
    (void)state;
    for (int n = 0; n < 6; n++) {
        proof_case c;
        memset(&c, 0, sizeof c);
        c.d = shape(1, n % 2 ? 40 : 260, 2300, 2, 1, 24, n < 4 ? ATTN_F32 : ATTN_BF16);
        c.d.flags = ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT | ATTN_OFFSET;
        c.d.window_left = 90, c.d.window_right = 30;
        c.d.offset = n < 2 ? 900 : n < 4 ? 1900 : -100;
        bind(&c, 1, 1, plain_draw);
        solve_and_compare(&c, n);
    }
    some_runs(12);
}

/* --------------------------------------------------------------------------------------------- batch invariance */
typedef struct member { const char *name; int64_t q_len, kv_len, heads, kv_heads, dim, v_dim; int32_t dtype; uint32_t flags; int bias, mask, alibi, sink; float softcap; int64_t left; } member;
static const member members[] = {
    {"prefill f32", 70, 130, 4, 4, 64, 0, ATTN_F32, ATTN_CAUSAL, 0, 0, 0, 0, 0, 0},
    {"prefill long f32", 200, 300, 2, 1, 40, 0, ATTN_F32, 0, 0, 0, 0, 0, 0, 0},
    {"decode f32", 1, 250, 8, 2, 128, 0, ATTN_F32, 0, 0, 0, 0, 0, 0, 0},
    {"decode f16", 1, 300, 4, 1, 64, 0, ATTN_F16, ATTN_CAUSAL, 0, 0, 0, 1, 0, 0},
    {"decode long f32", 1, 2600, 4, 2, 64, 0, ATTN_F32, 0, 0, 0, 0, 0, 0, 0},
    {"few queries long bf16", 11, 4100, 2, 1, 32, 0, ATTN_BF16, ATTN_CAUSAL, 0, 0, 0, 1, 0, 0},
    {"prefill two blocks f32", 60, 1400, 2, 2, 32, 0, ATTN_F32, ATTN_CAUSAL, 0, 0, 0, 0, 0, 0},
    {"few queries bf16", 3, 111, 6, 3, 80, 72, ATTN_BF16, ATTN_CAUSAL, 0, 0, 1, 0, 0, 0},
    {"f16 window", 65, 129, 4, 2, 32, 0, ATTN_F16, ATTN_CAUSAL | ATTN_WINDOW_LEFT, 0, 0, 0, 0, 0, 30},
    {"bf16 softcap", 33, 64, 2, 2, 96, 0, ATTN_BF16, 0, 0, 0, 0, 1, 20, 0},
    {"f32 bias and mask", 40, 75, 4, 2, 17, 0, ATTN_F32, 0, 1, 1, 0, 0, 0, 0},
    {"wide head", 9, 50, 2, 1, 288, 0, ATTN_F32, ATTN_CAUSAL, 0, 0, 0, 0, 0, 0},
    {"one key", 5, 1, 2, 2, 16, 0, ATTN_F32, 0, 0, 0, 0, 1, 0, 0},
    {"int8 cache", 3, 190, 4, 2, 64, 0, ATTN_INT8, ATTN_CAUSAL, 0, 0, 0, 0, 0, 0},
    {"fp8 cache", 1, 190, 4, 2, 64, 0, ATTN_FP8_E4M3, ATTN_CAUSAL, 0, 0, 0, 0, 0, 0},
    {"f64", 9, 50, 2, 1, 20, 0, ATTN_F64, ATTN_CAUSAL, 0, 0, 0, 0, 0, 0},
};
typedef struct arrangement { const char *name; int batch, position, packed_q, packed_k, pad_q, pad_k, start, page, slots, bhsd, threads; } arrangement;
static const arrangement arrangements[] = {
    {"alone", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
    {"alone, 3 threads", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3},
    {"alone, BHSD", 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2},
    {"first of 3", 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2},
    {"last of 4", 4, 3, 0, 0, 0, 0, 0, 0, 0, 0, 2},
    {"padded right", 2, 1, 0, 0, 7, 45, 0, 0, 0, 0, 1},
    {"padded right, far", 2, 0, 0, 0, 90, 700, 0, 0, 0, 0, 2},
    {"padded left", 2, 0, 0, 0, 0, 21, 21, 0, 0, 0, 1},
    {"padded both sides", 3, 1, 0, 0, 3, 33, 17, 0, 0, 1, 2},
    {"packed", 4, 2, 1, 1, 0, 0, 0, 0, 0, 0, 2},
    {"packed, first", 3, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1},
    {"packed q only", 3, 1, 1, 0, 0, 12, 5, 0, 0, 0, 1},
    {"pages of 16", 2, 1, 0, 0, 0, 5, 0, 16, 0, 0, 2},
    {"pages of 1", 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1},
    {"pages of 7, padded left", 3, 1, 0, 0, 2, 30, 19, 7, 0, 0, 2},
    {"pages of 256, packed q", 3, 2, 1, 0, 0, 9, 3, 256, 0, 0, 1},
    {"slots", 3, 1, 0, 0, 0, 40, 0, 0, 1, 0, 2},
    {"slots, padded left", 2, 0, 0, 0, 0, 40, 31, 0, 1, 1, 1},
};
enum { OTHER_Q = 37, OTHER_K = 150 };                    /* lengths of the other sequences where they may differ */

static void arrange(proof_case *c, const member *m, const arrangement *a, const proof_case *alone) {
    attn_desc *d = &c->d;
    proof_draw draw = plain_draw;
    const int32_t plain_type = m->dtype == ATTN_INT8 || m->dtype == ATTN_FP8_E4M3 ? ATTN_F16 : m->dtype;
    memset(c, 0, sizeof *c);
    *d = shape(a->batch, m->q_len + a->pad_q, m->kv_len + a->pad_k, m->heads, m->kv_heads, m->dim, plain_type);
    d->v_dim = m->v_dim, d->flags = m->flags, d->softcap = m->softcap, d->window_left = m->left, d->threads = a->threads;
    d->k.dtype = d->v.dtype = m->dtype;
    d->q.layout = d->k.layout = d->v.layout = d->o.layout = a->bhsd ? ATTN_BHSD : ATTN_BSHD;
    const int ragged_q = a->packed_q || a->pad_q, ragged_k = a->packed_k || a->pad_k || a->page || a->slots;
    int32_t *cu_q = (int32_t *)get(a->batch + 1, 4), *cu_k = (int32_t *)get(a->batch + 1, 4);
    int32_t *used_q = (int32_t *)get(a->batch, 4), *used_k = (int32_t *)get(a->batch, 4), *start = (int32_t *)get(a->batch, 4);
    for (int b = 0; b < a->batch; b++) {
        int64_t q = b == a->position || !ragged_q ? m->q_len : OTHER_Q + b, k = b == a->position || !ragged_k ? m->kv_len : OTHER_K + b;
        if (!a->packed_q && q > d->q_len) q = d->q_len;
        if (!a->packed_k && k > d->kv_len - a->start) k = d->kv_len - a->start;
        cu_q[b + 1] = cu_q[b] + (int32_t)q, cu_k[b + 1] = cu_k[b] + (int32_t)k;
        start[b] = (int32_t)(b == a->position || b % 2 ? a->start : 0), used_q[b] = (int32_t)q, used_k[b] = start[b] + (int32_t)k;
        if (a->packed_q && q > d->q_len) d->q_len = q;
        if (a->packed_k && k > d->kv_len) d->kv_len = k;
    }
    if (a->packed_q) d->seq.cu_q = cu_q, d->seq.total_q = cu_q[a->batch];
    else if (a->pad_q) d->seq.used_q = used_q;
    if (a->packed_k) d->seq.cu_k = cu_k, d->seq.total_k = cu_k[a->batch];
    else if (ragged_k) d->seq.used_k = used_k;
    if (a->start) d->seq.start_k = start;
    if (a->page) {
        attn_seq *s = &d->seq;
        s->page_size = a->page, s->max_pages = (d->kv_len + a->page - 1) / a->page, s->pages = a->batch * s->max_pages + 3;
        int32_t *table = (int32_t *)get(a->batch * s->max_pages, 4);
        for (int64_t i = 0; i < a->batch * s->max_pages; i++) table[i] = (int32_t)(s->pages - 1 - i);
        s->block_table = table;
    }
    if (a->slots) {
        int32_t *slot = (int32_t *)get(a->batch, 4);
        for (int b = 0; b < a->batch; b++) slot[b] = a->batch - b;
        d->seq.slot = slot, d->seq.slots = a->batch + 2;
    }
    c->features = (m->bias ? PROOF_BIAS : 0) | (m->mask ? PROOF_MASK : 0);
    if (m->mask) d->mask.dtype = ATTN_BOOL;
    c->backward = !a->page && !a->slots && plain_type == m->dtype;
    c->g.dout.dtype = c->g.dq.dtype = c->g.dk.dtype = c->g.dv.dtype = plain_type;
    draw.alibi = m->alibi, draw.sink = m->sink;
    bind(c, 1, 1, draw);
    if (!alone) return;
    /* the member's own data in place of what was drawn */
    const attn_desc *s = &alone->d;
    attn_desc to = *d, from = *s;
    const int64_t b = a->position, dv = proof_v_dim(d);
    const proof_seq z = proof_seq_of(d, b);
    d->alibi = s->alibi, d->sink = s->sink, d->bias_scale = s->bias_scale;
    attn_in *rows[2][2] = {{&to.q, &from.q}, {&c->g.dout, (attn_in *)(uintptr_t)&alone->g.dout}};
    for (int n = 0; n < (c->backward ? 2 : 1); n++) {
        const int64_t dim = n ? dv : d->head_dim;
        proof_view w = proof_rows_view(d, rows[n][0]->stride, rows[n][0]->layout, dim), v = proof_rows_view(s, rows[n][1]->stride, rows[n][1]->layout, dim);
        const size_t size = dtype_size(plain_type);
        for (int64_t i = 0; i < m->q_len; i++)
            for (int64_t h = 0; h < m->heads; h++)
                memcpy((char *)(uintptr_t)rows[n][0]->data + proof_row(d, &w, b, i, h) * (int64_t)size,
                       (const char *)rows[n][1]->data + proof_row(s, &v, 0, i, h) * (int64_t)size, (size_t)dim * size);
    }
    attn_in *keys[2][2] = {{&to.k, &from.k}, {&to.v, &from.v}};
    for (int n = 0; n < 2; n++) {
        const int64_t dim = n ? dv : d->head_dim;
        attn_in *x = keys[n][0], *y = keys[n][1];
        proof_view w = proof_kv_view(d, x->stride, x->layout, dim), v = proof_kv_view(s, y->stride, y->layout, dim);
        proof_view ws = proof_kv_view(d, x->scale_stride, 0, 1), vs = proof_kv_view(s, y->scale_stride, 0, 1);
        const size_t size = dtype_size(m->dtype);
        for (int64_t j = 0; j < m->kv_len; j++)
            for (int64_t h = 0; h < m->kv_heads; h++) {
                memcpy((char *)(uintptr_t)x->data + proof_token(d, &w, b, z.start + j, h) * (int64_t)size,
                       (const char *)y->data + proof_token(s, &v, 0, j, h) * (int64_t)size, (size_t)dim * size);
                if (x->scale) ((float *)(uintptr_t)x->scale)[proof_token(d, &ws, b, z.start + j, h)] = y->scale[proof_token(s, &vs, 0, j, h)];
            }
    }
    attn_in *scores[2][2] = {{&to.bias, &from.bias}, {&to.mask, &from.mask}};
    for (int n = 0; n < 2; n++) {
        attn_in *x = scores[n][0], *y = scores[n][1];
        if (!x->data) continue;
        proof_view w = proof_score_view(d, x), v = proof_score_view(s, y);
        const size_t size = dtype_size(x->dtype);
        for (int64_t i = 0; i < m->q_len; i++)
            for (int64_t h = 0; h < m->heads; h++)
                memcpy((char *)(uintptr_t)x->data + (proof_at(&w, b, h, i) + z.start) * (int64_t)size, (const char *)y->data + proof_at(&v, 0, h, i) * (int64_t)size, (size_t)m->kv_len * size);
    }
    proof_freeze(c);
}
/* o, lse, dq, dk, dv of the member, gathered in one buffer */
static size_t gather(const proof_case *c, const member *m, int64_t b, int backward, char *to) {
    const attn_desc *d = &c->d;
    const proof_seq z = proof_seq_of(d, b);
    char *begin = to;
    const attn_out *rows[2] = {&d->o, &c->g.dq}, *keys[2] = {&c->g.dk, &c->g.dv};
    for (int n = 0; n < (backward ? 2 : 1); n++) {
        const proof_view w = proof_rows_view(d, rows[n]->stride, rows[n]->layout, n ? d->head_dim : proof_v_dim(d));
        const size_t size = dtype_size(rows[n]->dtype);
        for (int64_t i = 0; i < m->q_len; i++)
            for (int64_t h = 0; h < d->heads; h++, to += (size_t)w.dim * size)
                memcpy(to, (char *)rows[n]->data + proof_row(d, &w, b, i, h) * (int64_t)size, (size_t)w.dim * size);
    }
    for (int n = 0; n < (backward ? 2 : 0); n++) {
        const proof_view w = proof_kv_view(d, keys[n]->stride, keys[n]->layout, n ? proof_v_dim(d) : d->head_dim);
        const size_t size = dtype_size(keys[n]->dtype);
        for (int64_t j = 0; j < m->kv_len; j++)
            for (int64_t h = 0; h < m->kv_heads; h++, to += (size_t)w.dim * size)
                memcpy(to, (char *)keys[n]->data + proof_token(d, &w, b, z.start + j, h) * (int64_t)size, (size_t)w.dim * size);
    }
    for (int64_t i = 0; i < m->q_len; i++)
        for (int64_t h = 0; h < d->heads; h++, to += 4) memcpy(to, &d->lse[proof_lse_at(d, b, i, h)], 4);
    return (size_t)(to - begin);
}
static void batch_invariance(void **state) {
    const member *m = (const member *)*state;
    proof_case alone;
    const int64_t room = 8 * (2 * m->q_len * m->heads + 2 * m->kv_len * m->kv_heads) * 300;
    char *want[16][2] = {{NULL, NULL}}, *got = (char *)get(room, 1);
    size_t bytes[16][2] = {{0, 0}};
    arrange(&alone, m, &arrangements[0], NULL);
    for (size_t n = 0; n < sizeof arrangements / sizeof *arrangements; n++) {
        const arrangement *a = &arrangements[n];
        proof_case c;
        arrange(&c, m, a, &alone);
        for (int i = 0; attn_backend_at(i) && i < 16; i++)
            for (int backward = 0; backward <= c.backward; backward++) {
                if (declined(&c, i, backward)) {
                    if (want[i][backward] && backward == 0) fail_msg("%s takes the sequence alone but declines \"%s\"", c.d.backend, a->name);
                    continue;
                }
                if (!backward) proof_reset(&c), ok(attn_forward(&c.d));
                else ok(attn_backward(&c.d, &c.g));
                size_t size = gather(&c, m, a->position, backward, got);
                if (n == 0) {
                    bytes[i][backward] = size;
                    memcpy(want[i][backward] = (char *)get(room, 1), got, size);
                } else if (want[i][backward] && (size != bytes[i][backward] || memcmp(got, want[i][backward], size)))
                    fail_msg("%s %s: other bits %s than alone", c.d.backend, backward ? "backward" : "forward", a->name);
            }
        proof_free(&c);
    }
    proof_free(&alone);
    some_runs((int)(sizeof arrangements / sizeof *arrangements));
}

int main(void) {
    struct CMUnitTest tests[80] = {TEST(nonfinite_random), TEST(nonfinite_tiles), TEST(infinite_scores), TEST(far_offsets), TEST(far_rows), TEST(several_blocks)};
    size_t n = 0;
    while (tests[n].test_func) n++;
    for (size_t i = 0; i < sizeof empties / sizeof *empties; i++) {
        const struct CMUnitTest t = WITH(empty_rows, empties[i].name, &empties[i]);
        tests[n++] = t;
    }
    for (size_t i = 0; i < sizeof extremes / sizeof *extremes; i++) {
        const struct CMUnitTest t = WITH(extreme_values, extremes[i].name, &extremes[i]);
        tests[n++] = t;
    }
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const struct CMUnitTest t = WITH(batch_invariance, members[i].name, &members[i]);
        tests[n++] = t;
    }
    return _cmocka_run_group_tests("beyond", tests, n, NULL, NULL);
}
