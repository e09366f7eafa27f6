/* proof.h - what the proofs and the GPU tests share: random valid descriptions with their data, and a backend beside the reference.
 *
 *   proof_rng    random numbers from a seed, or from the bytes of a fuzzer
 *   proof_make   one description with every buffer bound, allocated to the byte and filled; whatever no row may see is NaN
 *   proof_reset  puts outputs and caches back as they were before a call
 *   proof_solve  the reference's answer in f64, and the sums that the comparison rule needs
 *   proof_check  compares what a backend left in the outputs with it; returns NULL or a sentence
 *
 * Addresses and lengths are computed here once more, not taken from attn.h. */
#ifndef PROOF_H
#define PROOF_H
#include "check.h"
#include <stdio.h>
#include <stdlib.h>


/* ------------------------------------------------------------------------------------------ random numbers */
typedef struct proof_rng {
    uint64_t state;
    const uint8_t *bytes;                                /* a fuzzer's; then choices come from them until they end */
    size_t left;
} proof_rng;

SHARED int64_t proof_int(proof_rng *r, int64_t lo, int64_t hi) {            /* in [lo, hi] */
    uint64_t n = (uint64_t)(hi - lo) + 1, x = 0;
    if (!r->bytes) x = random_bits(&r->state);
    else for (uint64_t m = n - 1; m && r->left; m >>= 8, r->left--) x = x << 8 | *r->bytes++;
    return lo + (int64_t)(n ? x % n : x);
}
SHARED int proof_chance(proof_rng *r, int percent) { return proof_int(r, 0, 99) >= 100 - percent; }
/* every byte 255: a NaN in f16, bf16, f32, f64 and fp8 */
SHARED void proof_poison(void *p, size_t bytes) { memset(p, 255, bytes); }

/* ------------------------------------------------------------------------------------------------- features */
#define PROOF_FEATURES(X) \
    X(F32, "q k v f32") X(F16, "q k v f16") X(BF16, "q k v bf16") X(F64, "f64 among q, k, v") X(MIXED, "q, k, v of different types") \
    X(INT8, "int8 among k, v") X(FP8, "fp8 among k, v") X(INT16, "int16 among k, v") X(BLOCKS, "q8_0 or q4_0 among k, v") X(O_OTHER, "o of another type than q") \
    X(BHSD, "layout BHSD") X(STRIDED, "strides with gaps") X(NEGATIVE, "negative stride") X(BROADCAST, "broadcast k or v") \
    X(QKV, "packed QKV buffer") X(GQA, "grouped heads") X(VDIM, "v_dim != head_dim") X(WIDE, "head_dim > 256") \
    X(CAUSAL, "causal") X(WINDOW, "window") X(OFFSET, "top-left or numeric offset") X(SCALE, "own scale") X(SOFTCAP, "softcap") \
    X(BIAS, "bias") X(MASK, "bool mask") X(ALIBI, "alibi") X(SINK, "sink") X(DROPOUT, "dropout") \
    X(PACKED, "packed") X(PADDED, "padded") X(SLOTS, "cache slots") X(PAGED, "pages") X(APPEND, "append") X(ROTARY, "rotary") \
    X(DECODE, "one query") X(FEW, "few rows, many keys") X(LONG, "long keys") X(CONSTANT, "equal values") X(EMPTY, "an empty dimension") X(NONFINITE, "a visible NaN or infinity") \
    X(GRAD64, "o or a gradient f64") X(DOUT64, "dout f64") X(DLSE, "dlse") X(DBIAS, "dbias") X(DSINK, "dsink") X(ACCUMULATE, "accumulate")
enum {
#define X(name, text) PROOF_BIT_##name,
    PROOF_FEATURES(X)
#undef X
    PROOF_FEATURE_COUNT
};
#define X(name, text) SHARED const uint64_t PROOF_##name = (uint64_t)1 << PROOF_BIT_##name;
PROOF_FEATURES(X)
#undef X
SHARED const char *const proof_feature_name[] = {
#define X(name, text) text,
    PROOF_FEATURES(X)
#undef X
};

/* ---------------------------------------------------------------------------------------------------- cases */
enum { PROOF_IN, PROOF_OUT, PROOF_CACHE };               /* never written; written; written by append only */
typedef struct proof_buffer {
    char *mem, *pristine, *solved;                       /* now; before the call; after the reference's, an output's after a plain one */
    size_t bytes;
    int kind;
} proof_buffer;

typedef struct proof_case {
    attn_desc d;
    attn_grad g;
    int backward, accumulate;                            /* ATTN_ACCUMULATE is set in backward calls only */
    int plain;                                           /* proof_draw_plain */
    int own_types;                                       /* q, k, v, o and the gradients: each a type of its own */
    int overflow;                                        /* an extent beyond 2^40 elements: nothing was bound */
    uint64_t features, data;                             /* data: state of the generator of values */
    double constant;                                     /* not 0: every value of a kind is this one, but those of q 0 where q_amplitude is */
    double max_v;                                        /* the largest finite |v| */
    float tolerance, *cert;                              /* proof_tolerate */
    int p_rounded;                                       /* proof_run_tolerant: the plain call rounds P */
    uint32_t tolerance_flag;
    attn_statistics told;
    proof_buffer buffer[40];
    int buffers;
    char message[256];
} proof_case;

SHARED void *proof_alloc(proof_case *c, size_t bytes, int kind) {
    proof_buffer *b = &c->buffer[c->buffers++];
    b->mem = (char *)malloc(bytes ? bytes : 1), b->pristine = b->solved = NULL, b->bytes = bytes, b->kind = kind;
    if (!b->mem) abort();
    proof_poison(b->mem, bytes);
    return b->mem;
}
SHARED void proof_free(proof_case *c) {
    for (int i = 0; i < c->buffers; i++) free(c->buffer[i].mem), free(c->buffer[i].pristine), free(c->buffer[i].solved);
    c->buffers = 0;
}
SHARED void proof_freeze(proof_case *c) {
    for (int i = 0; i < c->buffers; i++) {
        proof_buffer *b = &c->buffer[i];
        if (!b->pristine) b->pristine = (char *)malloc(b->bytes ? b->bytes : 1);
        if (!b->pristine) abort();
        memcpy(b->pristine, b->mem, b->bytes);
    }
}
SHARED void proof_reset(proof_case *c) {
    for (int i = 0; i < c->buffers; i++)
        if (c->buffer[i].kind != PROOF_IN) memcpy(c->buffer[i].mem, c->buffer[i].pristine, c->buffer[i].bytes);
}
SHARED void proof_keep_solved(proof_case *c, int kind) {
    for (int i = 0; i < c->buffers; i++) {
        proof_buffer *b = &c->buffer[i];
        if (b->kind != kind) continue;
        if (!b->solved) b->solved = (char *)malloc(b->bytes ? b->bytes : 1);
        if (!b->solved) abort();
        memcpy(b->solved, b->mem, b->bytes);
    }
}
/* nothing of this kind differs from what it was before the call */
SHARED int proof_untouched(const proof_case *c, int kind) {
    for (int i = 0; i < c->buffers; i++)
        if (c->buffer[i].kind == kind && memcmp(c->buffer[i].mem, c->buffer[i].pristine, c->buffer[i].bytes)) return 0;
    return 1;
}

/* the case as a call */
SHARED attn_desc proof_desc(const proof_case *c, int backward) {
    attn_desc d = c->d;
    if (backward && c->accumulate) d.flags |= ATTN_ACCUMULATE;
    if (d.bias.data || d.mask.data) return d;             /* whose rows lie by q_len and kv_len */
    if (d.seq.cu_q && d.seq.total_q % 2) d.q_len = 0;     /* the longest, for the call to find */
    if (d.seq.cu_k && d.seq.total_k % 2) d.kv_len = 0;
    return d;
}
/* The case is a call with its tolerance, or again one without. */
SHARED void proof_tolerate(proof_case *c, int tolerant) {
    attn_desc *d = &c->d;
    d->flags = (d->flags & ~(uint32_t)ATTN_TOLERANCE_ABSOLUTE) | (tolerant ? c->tolerance_flag : 0);
    d->quantile = tolerant && d->kv_len % 4 == 0 ? 0.9f : 0;
    d->tolerance = tolerant ? c->tolerance : 0, d->cert = tolerant ? c->cert : NULL, d->statistics = tolerant ? &c->told : NULL;
    proof_poison(&c->told, sizeof c->told);
}
SHARED attn_status proof_query(const proof_case *c, int backward, attn_plan *plan) {
    const attn_desc d = proof_desc(c, backward);
    return attn_query(&d, backward ? &c->g : NULL, plan);
}
SHARED attn_status proof_call(const proof_case *c, int backward) {
    const attn_desc d = proof_desc(c, backward);
    return backward ? attn_backward(&d, &c->g) : attn_forward(&d);
}

/* All bytes that a call may have written, caches among them, one buffer after another. */
SHARED size_t proof_output_bytes(const proof_case *c) {
    size_t n = 0;
    for (int i = 0; i < c->buffers; i++) n += c->buffer[i].kind == PROOF_IN ? 0 : c->buffer[i].bytes;
    return n;
}
SHARED void proof_take_outputs(const proof_case *c, char *to) {
    for (int i = 0; i < c->buffers; i++)
        if (c->buffer[i].kind != PROOF_IN) memcpy(to, c->buffer[i].mem, c->buffer[i].bytes), to += c->buffer[i].bytes;
}

/* The shape of the first three dimensions as the tensor is stored, and its strides with the defaults filled in. */
typedef struct proof_view { int64_t n[3], s[3], dim; } proof_view;

SHARED proof_view proof_dense(const int64_t stride[3], int32_t layout, int64_t n0, int64_t n1, int64_t n2, int64_t dim) {
    proof_view w = {{n0, n1, n2}, {0, 0, 0}, dim};
    if (stride[0] || stride[1] || stride[2])
        for (int i = 0; i < 3; i++) w.s[i] = stride[i] == ATTN_BROADCAST ? 0 : stride[i];
    else if (layout == ATTN_BHSD) w.s[0] = n1 * n2 * dim, w.s[1] = dim, w.s[2] = n1 * dim;
    else w.s[0] = n1 * n2 * dim, w.s[1] = n2 * dim, w.s[2] = dim;
    return w;
}
SHARED int64_t proof_kv_heads(const attn_desc *d) { return d->kv_heads ? d->kv_heads : d->heads; }
SHARED int64_t proof_v_dim(const attn_desc *d) { return d->v_dim ? d->v_dim : d->head_dim; }
SHARED proof_view proof_rows_view(const attn_desc *d, const int64_t stride[3], int32_t layout, int64_t dim) {
    const int packed = d->seq.cu_q != NULL;
    return proof_dense(stride, layout, packed ? 1 : d->batch, packed ? d->seq.total_q : d->q_len, d->heads, dim);
}
SHARED proof_view proof_kv_view(const attn_desc *d, const int64_t stride[3], int32_t layout, int64_t dim) {
    const attn_seq *s = &d->seq;
    int64_t n0 = s->cu_k ? 1 : s->block_table ? s->pages : s->slot ? s->slots : d->batch;
    int64_t n1 = s->cu_k ? s->total_k : s->block_table ? s->page_size : d->kv_len;
    return proof_dense(stride, layout, n0, n1, proof_kv_heads(d), dim);
}
SHARED proof_view proof_new_view(const attn_desc *d, const attn_in *x, int64_t dim) {     /* append.k, append.v */
    const attn_append *a = &d->append;
    return proof_dense(x->stride, x->layout, a->cu ? 1 : d->batch, a->cu ? a->total : a->len, proof_kv_heads(d), dim);
}
SHARED proof_view proof_score_view(const attn_desc *d, const attn_in *x) {                /* bias, mask */
    return proof_dense(x->stride, ATTN_BSHD, d->batch, d->heads, d->q_len, d->kv_len);
}
/* The elements below and above the first one that the view reaches; 0 when the extent is beyond all reason. */
SHARED int proof_extent(const proof_view *w, int64_t *below, int64_t *above) {
    *below = *above = 0;
    if (!w->n[0] || !w->n[1] || !w->n[2] || !w->dim) return 1;
    long double lo = 0, hi = (long double)w->dim;
    for (int i = 0; i < 3; i++) {
        long double reach = (long double)w->s[i] * (long double)(w->n[i] - 1);
        if (w->n[i] < 0 || w->dim < 0) return 0;
        if (reach < 0) lo -= reach; else hi += reach;
    }
    if (lo + hi > 0x1p40L) return 0;
    *below = (int64_t)lo, *above = (int64_t)hi;
    return 1;
}
SHARED int64_t proof_at(const proof_view *w, int64_t a, int64_t b, int64_t c) { return a * w->s[0] + b * w->s[1] + c * w->s[2]; }

SHARED double proof_cost(const attn_desc *d) {            /* batch * heads * q * k * (D + Dv), of which a fused multiply-add each */
    const double rows = (double)(d->seq.cu_q ? d->seq.total_q : d->batch * d->q_len);
    return rows * (double)d->heads * (double)d->kv_len * (double)(d->head_dim + proof_v_dim(d));
}

/* Sequence b: its rows in the q buffer, and where its keys lie in the kv buffer. */
typedef struct proof_seq {
    int64_t q0, rows, q_len;                             /* first row of a packed buffer, rows in the buffer, valid rows */
    int64_t k0, start, used, add0, add, kv_len;          /* first token of a packed buffer, .. of the append, keys in all */
} proof_seq;
SHARED proof_seq proof_seq_of(const attn_desc *d, int64_t b) {
    const attn_seq *s = &d->seq;
    proof_seq r = {0, d->q_len, 0, 0, 0, 0, 0, 0, 0};
    int64_t cap = d->kv_len;
    if (s->cu_q) r.q0 = s->cu_q[b], r.rows = s->cu_q[b + 1] - s->cu_q[b];
    if (s->cu_k) r.k0 = s->cu_k[b], cap = s->cu_k[b + 1] - s->cu_k[b];
    r.q_len = s->used_q ? s->used_q[b] : r.rows;
    r.start = s->start_k ? s->start_k[b] : 0;
    r.used = s->used_k ? s->used_k[b] : cap;
    if (d->append.k.data || d->append.len) {
        r.add = d->append.cu ? d->append.cu[b + 1] - d->append.cu[b] : d->append.len;
        r.add0 = d->append.cu ? d->append.cu[b] : 0;
    }
    r.kv_len = r.used - r.start + r.add;
    return r;
}
/* Offset of the row of buffer token t (counted from the sequence's buffer, before start_k) and head h in k, v or their scales. */
SHARED int64_t proof_token(const attn_desc *d, const proof_view *w, int64_t b, int64_t t, int64_t h) {
    const attn_seq *s = &d->seq;
    if (s->cu_k) return proof_at(w, 0, s->cu_k[b] + t, h);
    if (s->block_table) return proof_at(w, s->block_table[b * s->max_pages + t / s->page_size], t % s->page_size, h);
    return proof_at(w, s->slot ? s->slot[b] : b, t, h);
}
SHARED int64_t proof_row(const attn_desc *d, const proof_view *w, int64_t b, int64_t i, int64_t h) {
    return d->seq.cu_q ? proof_at(w, 0, d->seq.cu_q[b] + i, h) : proof_at(w, b, i, h);
}
SHARED int64_t proof_lse_at(const attn_desc *d, int64_t b, int64_t i, int64_t h) {
    return d->seq.cu_q ? h * d->seq.total_q + d->seq.cu_q[b] + i : (b * d->heads + h) * d->q_len + i;
}
SHARED int64_t proof_lse_count(const attn_desc *d) { return d->heads * (d->seq.cu_q ? d->seq.total_q : d->batch * d->q_len); }

/* the case in words */
SHARED void proof_describe(const proof_case *c) {
    const attn_desc *d = &c->d;
    printf("batch %lld q_len %lld kv_len %lld heads %lld/%lld dim %lld/%lld dtype %d %d %d -> %d flags %u offset %lld window %lld %lld "
           "scale %g softcap %g dropout %g threads %d append %lld pages %lld x %lld\n  features:",
           (long long)d->batch, (long long)d->q_len, (long long)d->kv_len, (long long)d->heads, (long long)d->kv_heads,
           (long long)d->head_dim, (long long)d->v_dim, d->q.dtype, d->k.dtype, d->v.dtype, d->o.dtype, d->flags,
           (long long)d->offset, (long long)d->window_left, (long long)d->window_right, d->scale, d->softcap, d->dropout,
           d->threads, (long long)d->append.len, (long long)d->seq.pages, (long long)d->seq.page_size);
    for (int f = 0; f < PROOF_FEATURE_COUNT; f++)
        if (c->features >> f & 1) printf(" [%s]", proof_feature_name[f]);
    for (int64_t b = 0; b < d->batch; b++) {
        proof_seq s = proof_seq_of(d, b);
        printf("\n  sequence %lld: rows %lld q_len %lld start %lld used %lld add %lld kv_len %lld", (long long)b, (long long)s.rows,
               (long long)s.q_len, (long long)s.start, (long long)s.used, (long long)s.add, (long long)s.kv_len);
    }
    printf("\n");
}

/* --------------------------------------------------------------------------------- binding: memory and values */
SHARED void *proof_bind(proof_case *c, proof_view w, int32_t dtype, int kind) {
    int64_t below, above;
    if (dtype < 0 || dtype > ATTN_Q4_0 || !proof_extent(&w, &below, &above)) { c->overflow = 1; return NULL; }
    below = whole_pieces(below, dtype), above = whole_pieces(above, dtype);
    if (below + above > (int64_t)1 << 26) { c->overflow = 1; return NULL; }
    if (is_blocks(dtype) && (below | above) % 32) { c->overflow = 1; return NULL; }
    return (char *)proof_alloc(c, (size_t)dtype_bytes(dtype, below + above), kind) + dtype_bytes(dtype, below);
}
SHARED double proof_value(proof_case *c, int32_t dtype, double amplitude) {
    if (is_blocks(dtype)) return c->constant > 0 ? 5 : dtype == ATTN_Q8_0 ? (double)(int64_t)(random_bits(&c->data) % 256) - 128 : (double)(int64_t)(random_bits(&c->data) % 16) - 8;
    if (c->constant > 0) return dtype == ATTN_INT8 ? 57 : dtype == ATTN_INT16 ? 57.25 : dtype == ATTN_FP8_E4M3 ? 0x33 : amplitude * c->constant;
    if (dtype == ATTN_INT16) return (double)(random_bits(&c->data) % 65280) / 256 - 127.5;
    if (dtype == ATTN_INT8) return (double)((int64_t)(random_bits(&c->data) % 256) - 128);
    if (dtype == ATTN_FP8_E4M3) { uint64_t x = random_bits(&c->data) & 255; return (double)((x & 127) == 127 ? x - 1 : x); }
    return random_normal(&c->data) * amplitude;
}
SHARED void proof_fill_row(proof_case *c, int32_t dtype, void *p, int64_t at, int64_t n, double amplitude) {
    for (int64_t i = 0; i < n; i++) {
        if (is_blocks(dtype) && i % 32 == 0) {
            const double step = dtype == ATTN_Q8_0 ? 0x1p-8 : 0x1p-4;
            block_scale(p, dtype, at + i, step * (c->constant > 0 ? 3 : (double)(random_bits(&c->data) % 15) - 7));
        }
        element_put(p, dtype, at + i, proof_value(c, dtype, amplitude));
    }
}
SHARED void proof_fill_view(proof_case *c, int32_t dtype, void *p, const proof_view *w, double amplitude) {
    for (int64_t a = 0; a < w->n[0]; a++)
        for (int64_t b = 0; b < w->n[1]; b++)
            for (int64_t e = 0; e < w->n[2]; e++) proof_fill_row(c, dtype, p, proof_at(w, a, b, e), w->dim, amplitude);
}
SHARED float *proof_floats(proof_case *c, int64_t n, double amplitude) {
    float *p = (float *)proof_alloc(c, (size_t)n * 4, PROOF_IN);
    proof_fill_row(c, ATTN_F32, p, 0, n, amplitude);
    return p;
}

typedef struct proof_draw {                              /* choices that are not part of the description */
    double q_amplitude, hidden_percent;
    int qkv, lse, dlse, dbias, dsink, nonfinite, alibi, sink, rotary, off_codes;
} proof_draw;

SHARED int proof_quantised(int32_t dtype) { return dtype == ATTN_INT8 || dtype == ATTN_FP8_E4M3 || dtype == ATTN_INT16; }      /* with an array of scales */
SHARED int proof_codes(int32_t dtype) { return proof_quantised(dtype) || is_blocks(dtype); }
SHARED void proof_bind_kv(proof_case *c, attn_in *x, int64_t dim) {
    attn_desc *d = &c->d;
    const int quant = proof_quantised(x->dtype);
    const int adds = d->append.len > 0, kind = adds ? PROOF_CACHE : PROOF_IN;
    proof_view w = proof_kv_view(d, x->stride, x->layout, dim);
    proof_view z = proof_kv_view(d, x->scale_stride, ATTN_BSHD, 1);
    if (!x->data) x->data = proof_bind(c, w, x->dtype, kind);
    if (quant) x->scale = (float *)proof_bind(c, z, ATTN_F32, kind);
    if (c->overflow) return;
    for (int64_t b = 0; b < d->batch; b++) {
        proof_seq s = proof_seq_of(d, b);
        for (int64_t t = s.start; t < s.used; t++)
            for (int64_t h = 0; h < w.n[2]; h++) {
                proof_fill_row(c, x->dtype, (void *)(uintptr_t)x->data, proof_token(d, &w, b, t, h), dim, 1);
                if (quant) {
                    int64_t at = proof_token(d, &z, b, t, h);
                    double step = x->dtype == ATTN_FP8_E4M3 ? 0x1p-8 : 0x1p-6;
                    double times = c->constant > 0 ? 3 : (double)(random_bits(&c->data) % 7 + 1);
                    element_put((void *)(uintptr_t)x->scale, ATTN_F32, at, step * times * 0.25);
                }
            }
    }
}
SHARED void proof_bind_scores(proof_case *c, proof_draw *draw) {
    attn_desc *d = &c->d;
    if (c->features & PROOF_BIAS) {
        proof_view w = proof_score_view(d, &d->bias);
        d->bias.data = proof_bind(c, w, d->bias.dtype, PROOF_IN);
        if (!c->overflow) {
            proof_fill_view(c, d->bias.dtype, (void *)(uintptr_t)d->bias.data, &w, 1);
            for (int64_t n = 0, all = draw->hidden_percent > 0 ? w.n[0] * w.n[1] * w.n[2] * w.dim : 0; n < all; n++)
                if ((double)(random_bits(&c->data) % 100) < draw->hidden_percent) {
                    int64_t col = n % w.dim, r = n / w.dim;
                    int64_t at = proof_at(&w, r / w.n[2] / w.n[1], r / w.n[2] % w.n[1], r % w.n[2]) + col;
                    element_put((void *)(uintptr_t)d->bias.data, d->bias.dtype, at, (double)float_of(0xff800000));
                }
        }
    }
    if (c->features & PROOF_MASK) {
        proof_view w = proof_score_view(d, &d->mask);
        d->mask.data = proof_bind(c, w, ATTN_BOOL, PROOF_IN);
        for (int64_t a = 0; !c->overflow && a < w.n[0] * w.n[1] * w.n[2]; a++) {
            uint8_t *row = (uint8_t *)(uintptr_t)d->mask.data + proof_at(&w, a / w.n[2] / w.n[1], a / w.n[2] % w.n[1], a % w.n[2]);
            uint64_t none = random_bits(&c->data) % 16;    /* one row in 16 sees nothing */
            for (int64_t j = 0; j < w.dim; j++) {
                uint64_t x = random_bits(&c->data);
                row[j] = (uint8_t)(none && x % 4 ? x >> 8 | 1 : 0);
            }
        }
    }
    /* where one bias serves several heads, mostly each takes its own share of it; decided without a draw, so that inputs kept stay what they are */
    if (d->bias.data && !c->overflow && (d->q_len + d->kv_len + d->heads + (d->bias.stride[1] == ATTN_BROADCAST)) % 2) {
        float *share = proof_floats(c, d->heads, 1);
        share[0] = d->kv_len % 3 ? -0.5f : 0;
        d->bias_scale = share;
    }
    if (draw->alibi) {
        float *slope = proof_floats(c, d->heads, 0.25);
        d->alibi = slope;
    }
    if (draw->sink) d->sink = proof_floats(c, d->heads, 2);
}
SHARED void proof_bind_append(proof_case *c, proof_draw *draw) {
    attn_desc *d = &c->d;
    attn_append *a = &d->append;
    if (!a->len) return;
    attn_in *news[2] = {&a->k, &a->v};
    int64_t dims[2] = {d->head_dim, proof_v_dim(d)}, rows = 1;
    for (int i = 0; i < 2; i++) {
        proof_view w = proof_new_view(d, news[i], dims[i]);
        news[i]->data = proof_bind(c, w, news[i]->dtype, PROOF_IN);
        for (int64_t b = 0; !c->overflow && b < d->batch; b++) {
            proof_seq s = proof_seq_of(d, b);
            for (int64_t t = 0; t < s.add; t++)
                for (int64_t h = 0; h < w.n[2]; h++) {
                    int64_t at = a->cu ? proof_at(&w, 0, s.add0 + t, h) : proof_at(&w, b, t, h);
                    proof_fill_row(c, news[i]->dtype, (void *)(uintptr_t)news[i]->data, at, dims[i], 1);
                }
        }
    }
    a->k_cache = (void *)(uintptr_t)d->k.data, a->v_cache = (void *)(uintptr_t)d->v.data;
    a->k_scale = (float *)(uintptr_t)d->k.scale, a->v_scale = (float *)(uintptr_t)d->v.scale;
    if (draw->rotary && d->head_dim >= 2) {
        for (int64_t b = 0; b < d->batch; b++) {
            proof_seq s = proof_seq_of(d, b);
            int64_t n = s.used - s.start + (s.q_len > s.add ? s.q_len : s.add);
            if (s.rows > s.q_len && s.used - s.start + s.rows > n) n = s.used - s.start + s.rows;
            if (n > rows) rows = n;
        }
        a->rotary_rows = rows;
        a->rotary_cos = proof_floats(c, rows * a->rotary_dim / 2, 0.5);
        a->rotary_sin = proof_floats(c, rows * a->rotary_dim / 2, 0.5);
    }
}
/* Gradients: dout is poisoned where no row is valid; outputs hold old values for ATTN_ACCUMULATE. */
SHARED void proof_bind_grad(proof_case *c, proof_draw *draw) {
    attn_desc *d = &c->d;
    attn_grad *g = &c->g;
    const int64_t dv = proof_v_dim(d);
    attn_out *outs[3] = {&g->dq, &g->dk, &g->dv};
    proof_view w = proof_rows_view(d, g->dout.stride, g->dout.layout, dv);
    g->dout.data = proof_bind(c, w, g->dout.dtype, PROOF_IN);
    if (!c->overflow)
        for (int64_t b = 0; b < d->batch; b++) {
            proof_seq s = proof_seq_of(d, b);
            for (int64_t i = 0; i < s.q_len; i++)
                for (int64_t h = 0; h < d->heads; h++)
                    proof_fill_row(c, g->dout.dtype, (void *)(uintptr_t)g->dout.data, proof_row(d, &w, b, i, h), dv, 1);
        }
    for (int i = 0; i < 3; i++) {
        int64_t dim = i == 2 ? dv : d->head_dim;
        proof_view x = i ? proof_kv_view(d, outs[i]->stride, outs[i]->layout, dim)
                         : proof_rows_view(d, outs[i]->stride, outs[i]->layout, dim);
        if (i && draw->qkv) outs[i]->data = (char *)g->dq.data + (size_t)((i == 1 ? d->heads : d->heads + proof_kv_heads(d)) * d->head_dim) * dtype_size(g->dq.dtype);
        else if (draw->qkv) outs[i]->data = proof_bind(c, proof_dense((int64_t[3]){0, 0, 0}, 0, x.n[0], x.n[1], 1, x.s[1]), g->dq.dtype, PROOF_OUT);
        else outs[i]->data = proof_bind(c, x, outs[i]->dtype, PROOF_OUT);
        if (c->overflow) return;
        if (c->accumulate) proof_fill_view(c, outs[i]->dtype, outs[i]->data, &x, 1);
    }
    if (draw->dlse) g->dlse = proof_floats(c, proof_lse_count(d), 1);
    if (draw->dsink) {
        g->dsink = (float *)proof_alloc(c, (size_t)d->heads * 4, PROOF_OUT);
        if (c->accumulate) proof_fill_row(c, ATTN_F32, g->dsink, 0, d->heads, 1);
    }
    if (draw->dbias) {
        proof_view x = proof_score_view(d, &d->bias);
        g->dbias = (float *)proof_bind(c, x, ATTN_F32, PROOF_OUT);
        if (!c->overflow && c->accumulate) proof_fill_view(c, ATTN_F32, g->dbias, &x, 1);
    }
}
/* A NaN in one key, or an infinity in one value, that some row may see. */
SHARED void proof_spoil(proof_case *c) {
    attn_desc *d = &c->d;
    for (int64_t b = 0; b < d->batch; b++) {
        proof_seq s = proof_seq_of(d, b);
        if (s.used == s.start || random_bits(&c->data) % 2) continue;
        const int in_v = (int)(random_bits(&c->data) % 2);
        attn_in *x = in_v ? &d->v : &d->k;
        if (x->dtype > ATTN_F64) continue;
        int64_t dim = in_v ? proof_v_dim(d) : d->head_dim, n = (int64_t)(random_bits(&c->data) >> 1);
        proof_view w = proof_kv_view(d, x->stride, x->layout, dim);
        int64_t at = proof_token(d, &w, b, s.start + n % (s.used - s.start), n % w.n[2]) + n % dim;
        element_put((void *)(uintptr_t)x->data, x->dtype, at, (double)float_of(in_v ? 0xff800000 : 0x7fc00000));
        c->features |= PROOF_NONFINITE;
    }
}
/* f32 values where codes of int16 are worst (>>adaptive), so that a bound without one of its parts is exceeded. What the codes leave
 * out of k, or out of q, moves the scores of even keys by eta and those of odd ones by -eta, and so moves o towards the values of the
 * even; or all values but a few large ones lie 0.499 steps above their codes. PROOF_LATE_V: the values of early keys are small, so that
 * rows which see no others keep to no share of them, and are redone. */
enum { PROOF_OFF_K = 1, PROOF_OFF_Q, PROOF_OFF_V, PROOF_LATE_V };
SHARED void proof_put_pair(void *data, int64_t at, int64_t dim, double first, double second) {
    for (int64_t e = 0; e < dim; e++) element_put(data, ATTN_F32, at + e, e == 0 ? first : e == 1 ? second : 0);
}
SHARED void proof_off_codes(proof_case *c, int what) {
    attn_desc *d = &c->d;
    const int64_t dim = d->head_dim, dv = proof_v_dim(d);
    const proof_view vq = proof_rows_view(d, d->q.stride, d->q.layout, dim), vk = proof_kv_view(d, d->k.stride, d->k.layout, dim);
    const proof_view vv = proof_kv_view(d, d->v.stride, d->v.layout, dv);
    const double scale = d->flags & ATTN_SCALE ? (double)d->scale : 1 / sqrt((double)dim), step = 1e-3, eta = 1e-2;
    const double whole = 32760 * step, left = 0.49 * step, one = scale > 0 ? eta / (scale * left) : 0;
    void *q = (void *)(uintptr_t)d->q.data, *k = (void *)(uintptr_t)d->k.data, *v = (void *)(uintptr_t)d->v.data;
    for (int64_t b = 0; b < d->batch; b++) {
        const proof_seq s = proof_seq_of(d, b);
        for (int64_t i = 0; i < s.q_len && what != PROOF_LATE_V; i++)
            for (int64_t h = 0; h < d->heads; h++)
                proof_put_pair(q, proof_row(d, &vq, b, i, h), dim, what == PROOF_OFF_Q ? whole : 0, what == PROOF_OFF_Q ? left : what == PROOF_OFF_K ? one : 0);
        for (int64_t t = s.start; t < s.used; t++)
            for (int64_t h = 0; h < proof_kv_heads(d); h++) {
                const double side = t & 1 ? -1 : 1, code = t % 64 == 5 ? 2047 : (double)(t % 16) + 0.499;
                const int64_t at = proof_token(d, &vv, b, t, h);
                if (what != PROOF_LATE_V)
                    proof_put_pair(k, proof_token(d, &vk, b, t, h), dim, what == PROOF_OFF_K ? whole : 0, side * (what == PROOF_OFF_K ? left : one));
                for (int64_t e = 0; e < dv; e++)
                    element_put(v, ATTN_F32, at + e, what == PROOF_OFF_V    ? ldexp(code, -9)
                                                     : what == PROOF_LATE_V ? random_normal(&c->data) * (t < s.start + s.kv_len - s.q_len / 2 ? 1e-3 : 1)
                                                                            : side);
            }
    }
}
/* Allocates and fills everything that the description (sizes, strides, flags, seq) speaks of. */
SHARED void proof_bind_all(proof_case *c, proof_draw *draw) {
    attn_desc *d = &c->d;
    const int64_t dv = proof_v_dim(d);
    proof_view w = proof_rows_view(d, d->q.stride, d->q.layout, d->head_dim);
    if (draw->qkv) {                                     /* one buffer [batch][tokens][heads + 2 kv_heads][head_dim] */
        char *p = (char *)proof_bind(c, proof_dense((int64_t[3]){0, 0, 0}, 0, w.n[0], w.n[1], 1, w.s[1]), d->q.dtype, PROOF_IN);
        d->q.data = p;
        d->k.data = p + (size_t)(d->heads * d->head_dim) * dtype_size(d->q.dtype);
        d->v.data = p + (size_t)((d->heads + proof_kv_heads(d)) * d->head_dim) * dtype_size(d->q.dtype);
    } else d->q.data = proof_bind(c, w, d->q.dtype, PROOF_IN);
    if (c->overflow) return;
    for (int64_t b = 0; b < d->batch; b++) {
        proof_seq s = proof_seq_of(d, b);
        for (int64_t i = 0; i < s.q_len; i++)
            for (int64_t h = 0; h < d->heads; h++)
                proof_fill_row(c, d->q.dtype, (void *)(uintptr_t)d->q.data, proof_row(d, &w, b, i, h), d->head_dim, draw->q_amplitude);
    }
    proof_bind_kv(c, &d->k, d->head_dim);
    proof_bind_kv(c, &d->v, dv);
    d->o.data = proof_bind(c, proof_rows_view(d, d->o.stride, d->o.layout, dv), d->o.dtype, PROOF_OUT);
    if (draw->lse) d->lse = (float *)proof_alloc(c, (size_t)proof_lse_count(d) * 4, PROOF_OUT);
    if (c->tolerance > 0) c->cert = (float *)proof_alloc(c, (size_t)proof_lse_count(d) * 4, PROOF_OUT);
    if (!c->overflow) proof_bind_scores(c, draw);
    if (!c->overflow) proof_bind_append(c, draw);
    if (!c->overflow && c->backward) proof_bind_grad(c, draw);
    if (!c->overflow && draw->off_codes) proof_off_codes(c, draw->off_codes);
    if (!c->overflow && draw->nonfinite) proof_spoil(c);
    c->max_v = 8;                                        /* |v| <= 3.5, times the largest int8 or fp8 value of a scale */
    proof_freeze(c);
}

/* --------------------------------------------------------------------------------------- random descriptions */
/* unit: of the gaps */
SHARED void proof_stride_of(proof_case *c, proof_rng *r, int64_t stride[3], int32_t *layout, proof_view w, int output, int64_t unit) {
    int kind = (int)proof_int(r, 0, 9);
    if (kind < 4) { *layout = ATTN_BSHD; return; }
    if (kind < 6) { *layout = ATTN_BHSD; c->features |= PROOF_BHSD; return; }
    /* a random order of the three dimensions, a gap after each */
    int order[3] = {0, 1, 2};
    for (int i = 2; i > 0; i--) { int j = (int)proof_int(r, 0, i), t = order[i]; order[i] = order[j], order[j] = t; }
    int64_t step = w.dim + (w.dim ? 0 : 1) + (proof_chance(r, 50) ? proof_int(r, 0, 9) * unit : 0);
    for (int i = 0; i < 3; i++) {
        stride[order[i]] = step;
        step = step * (w.n[order[i]] > 0 ? w.n[order[i]] : 1) + (proof_chance(r, 30) ? proof_int(r, 1, 40) * unit : 0);
    }
    c->features |= PROOF_STRIDED;
    if (output) return;
    int which = (int)proof_int(r, 0, 2);
    if (kind == 8) stride[which] = -stride[which], c->features |= PROOF_NEGATIVE;
    if (kind == 9) stride[which] = ATTN_BROADCAST, c->features |= PROOF_BROADCAST;
}
SHARED void proof_stride(proof_case *c, proof_rng *r, int64_t stride[3], int32_t *layout, proof_view w, int output) {
    proof_stride_of(c, r, stride, layout, w, output || c->plain, c->plain ? 8 : 1);
}
SHARED void proof_score_stride(proof_case *c, proof_rng *r, attn_in *x, int plain) {
    const attn_desc *d = &c->d;
    const int64_t n[3] = {d->batch, d->heads, d->q_len};
    if (proof_chance(r, 40)) return;
    int64_t step = d->kv_len + (proof_chance(r, 50) ? proof_int(r, 0, 9) : 0);
    if (!step) step = 1;
    for (int i = 2; i >= 0; i--) {
        if (proof_chance(r, 40)) { x->stride[i] = ATTN_BROADCAST; continue; }
        x->stride[i] = !plain && proof_chance(r, 10) ? -step : step;
        step *= n[i] > 0 ? n[i] : 1;
    }
}
SHARED int32_t *proof_ints(proof_case *c, int64_t n) { return (int32_t *)proof_alloc(c, (size_t)n * 4, PROOF_IN); }

SHARED int64_t proof_length(proof_rng *r) {
    switch (proof_int(r, 0, 5)) {
    case 0: return 1;
    case 1: return proof_int(r, 0, 8);
    case 2: return proof_int(r, 1, 40);
    case 3: return proof_int(r, 0, 15) * 16 + proof_int(r, -1, 1) * (proof_int(r, 0, 1));
    default: return proof_int(r, 0, 300);
    }
}
/* Whether descriptions have a tolerance, and mostly rows and keys enough for codes of int16; 0 draws what was drawn before there
 * were any. */
SHARED int proof_tolerant;
/* A random split of [0, total] into lengths of at most `limit`, as cumulated offsets. */
SHARED int32_t *proof_cu(proof_case *c, proof_rng *r, int64_t batch, int64_t limit, int64_t *total) {
    int32_t *cu = proof_ints(c, batch + 1);
    cu[0] = 0;
    for (int64_t b = 0; b < batch; b++)
        cu[b + 1] = cu[b] + (int32_t)(proof_chance(r, 10) ? 0 : proof_chance(r, proof_tolerant ? 70 : 30) ? limit : proof_int(r, 0, limit));
    *total = cu[batch];
    return cu;
}
SHARED int32_t proof_dtype(proof_rng *r) { return (int32_t)proof_int(r, ATTN_F32, ATTN_F64); }

SHARED void proof_draw_tolerance(proof_case *c, proof_rng *r, proof_draw *draw) {
    static const float tolerances[] = {1e-1f, 1e-1f, 3e-2f, 1e-2f, 1e-2f, 1e-3f, 1e-4f, 1e-5f};
    attn_desc *d = &c->d;
    if (!proof_tolerant) return;
    c->tolerance = tolerances[proof_int(r, 0, 7)];
    c->tolerance_flag = proof_chance(r, 30) ? ATTN_TOLERANCE_ABSOLUTE : 0;
    if (d->q.dtype || d->k.dtype || d->v.dtype || d->append.len || d->head_dim < 2 || !proof_chance(r, 60)) return;
    draw->off_codes = (int)proof_int(r, PROOF_OFF_K, PROOF_LATE_V), c->tolerance = 1e-1f, c->tolerance_flag = 0;
    if (draw->off_codes == PROOF_LATE_V) d->flags |= ATTN_CAUSAL, c->features |= PROOF_CAUSAL;
}
/* A shape for codes: what the cost does not allow is taken from the batch, the heads and the dimensions, but for widths that int16
 * rounds up. */
SHARED void proof_draw_many(proof_case *c, proof_rng *r, int64_t cap) {
    attn_desc *d = &c->d;
    const int64_t group = proof_int(r, 1, 3), rows = proof_chance(r, 15) ? proof_int(r, 400, 900) : proof_int(r, 192, 300);
    d->batch = proof_int(r, 1, 2), d->kv_heads = proof_int(r, 1, 2), d->heads = d->kv_heads * group;
    d->q_len = (rows + group - 1) / group, d->kv_len = proof_chance(r, 15) ? proof_int(r, 1000, 1400) : proof_int(r, 384, 600);
    const int few = !r->bytes && proof_chance(r, 25);
    if (few) c->features |= PROOF_FEW, d->q_len = proof_int(r, 1, 8 / group), d->kv_len = proof_int(r, 1000, 1600);
    while (proof_cost(d) > (double)cap) {
        if (d->batch > 1) d->batch--;
        else if (d->kv_heads > 1) d->heads /= d->kv_heads, d->kv_heads = 1;
        else if (d->head_dim > 1) d->head_dim -= (d->head_dim + 7) / 8, d->v_dim -= (d->v_dim + 7) / 8;
        else if (d->v_dim > 1) d->v_dim -= (d->v_dim + 7) / 8;
        else return;
    }
}
/* Of 100 descriptions, so many have few rows and many keys. */
SHARED int proof_long_percent = 10;
SHARED void proof_draw_shape(proof_case *c, proof_rng *r, int64_t cap) {
    attn_desc *d = &c->d;
    static const int64_t common[] = {16, 32, 40, 64, 64, 64, 80, 96, 128, 128, 128, 160, 192, 256};
    d->batch = proof_chance(r, 2) ? 0 : proof_int(r, 1, 4);
    d->kv_heads = proof_int(r, 1, 4);
    d->heads = d->kv_heads * (proof_chance(r, 50) ? 1 : proof_int(r, 1, 8));
    if (d->heads == d->kv_heads && proof_chance(r, 50)) d->kv_heads = 0;
    d->head_dim = proof_chance(r, 60) ? common[proof_int(r, 0, 13)] : proof_int(r, 1, 288);
    if (proof_chance(r, 20)) d->v_dim = proof_chance(r, 50) ? common[proof_int(r, 0, 13)] : proof_int(r, 1, 288);
    switch (proof_int(r, 0, 49)) {
    case 47: d->head_dim = 512, d->v_dim = 0; break;
    case 48: d->head_dim = 576, d->v_dim = 512; break;
    case 49: d->head_dim = 192, d->v_dim = 128; break;
    default: break;
    }
    d->q_len = proof_length(r);
    d->kv_len = proof_chance(r, 30) ? d->q_len : proof_length(r);
    if (d->q_len < 0) d->q_len = 0;
    if (d->kv_len < 0) d->kv_len = 0;
    if (proof_chance(r, proof_long_percent)) {           /* several key blocks, and key splits where there are few rows */
        d->kv_len = proof_int(r, 300, proof_chance(r, 50) ? 1200 : 5000);
        d->q_len = proof_chance(r, 50) ? 1 : proof_int(r, 1, 24);
        d->heads = proof_kv_heads(d) * proof_int(r, 1, 2), d->batch = proof_int(r, 1, 2);
        if (cap < (int64_t)1 << 20) cap = (int64_t)1 << 20;
        if (proof_chance(r, 10)) {                       /* several spans of key blocks */
            d->kv_len = proof_int(r, 5000, 40000), d->q_len = proof_int(r, 1, 3), d->head_dim = proof_int(r, 1, 12), d->v_dim = 0;
            d->heads = d->kv_heads = d->batch = 1;
        }
        c->features |= PROOF_LONG;
    }
    if (proof_tolerant) proof_draw_many(c, r, cap), c->features &= ~PROOF_LONG;
    for (; !proof_tolerant;) {                           /* shrink the longest until the case is cheap enough */
        double cost = (double)(d->batch * d->heads) * (double)(d->q_len * d->kv_len) * (double)(d->head_dim + proof_v_dim(d));
        if (cost <= (double)cap) break;
        if (d->batch > 1 && proof_chance(r, 40)) d->batch--;
        else if (d->heads > proof_kv_heads(d) && proof_chance(r, 40)) d->heads -= proof_kv_heads(d);
        else if (d->kv_heads > 1 && proof_chance(r, 30)) d->heads = d->heads / d->kv_heads, d->kv_heads = 1;
        else if (d->q_len > d->kv_len) d->q_len = d->q_len * 3 / 4;
        else d->kv_len = d->kv_len * 3 / 4;
    }
    if (d->heads != proof_kv_heads(d)) c->features |= PROOF_GQA;
    if (proof_v_dim(d) != d->head_dim) c->features |= PROOF_VDIM;
    if (d->head_dim > 256) c->features |= PROOF_WIDE;
    if (d->q_len == 1) c->features |= PROOF_DECODE;
    if (!d->q_len || !d->kv_len || !d->batch) c->features |= PROOF_EMPTY;
}
/* Lengths and addresses: 0 contiguous, 1 packed, 2 padded, 3 slots, 4 pages; the last three possibly with append. */
SHARED void proof_draw_seq(proof_case *c, proof_rng *r, int kind) {
    attn_desc *d = &c->d;
    attn_seq *s = &d->seq;
    const int64_t n = d->batch;
    int used_k = 0, used_q = 0, start = 0;
    if (kind == 1) {
        int both = (int)proof_int(r, 0, 3);              /* mostly q and k, sometimes one of them */
        if (both != 1) s->cu_q = proof_cu(c, r, n, d->q_len, &s->total_q);
        if (both != 2) s->cu_k = proof_cu(c, r, n, d->kv_len, &s->total_k);
        used_k = used_q = start = 0;
        if (proof_chance(r, 20)) used_k = proof_chance(r, 70), used_q = proof_chance(r, 50), start = proof_chance(r, 50);
        c->features |= PROOF_PACKED;
    }
    if (kind == 2) used_k = proof_chance(r, 80), used_q = proof_chance(r, 50), start = proof_chance(r, 50), c->features |= PROOF_PADDED;
    if (kind >= 3) used_k = 1, used_q = proof_chance(r, 20), start = proof_chance(r, 25);
    if (kind >= 2 && proof_chance(r, 40) && d->kv_len) {
        used_k = 1;
        d->append.len = proof_chance(r, 50) && d->q_len && d->q_len <= d->kv_len ? d->q_len : proof_int(r, 1, d->kv_len < 9 ? d->kv_len : 9);
        c->features |= PROOF_APPEND;
    }
    if (used_q) s->used_q = proof_ints(c, n);
    if (used_k) s->used_k = proof_ints(c, n);
    if (start) s->start_k = proof_ints(c, n);
    if (d->append.len && proof_chance(r, 30)) d->append.cu = proof_cu(c, r, n, d->append.len, &d->append.total);
    for (int64_t b = 0; b < n; b++) {
        int64_t rows = s->cu_q ? s->cu_q[b + 1] - s->cu_q[b] : d->q_len;
        int64_t cap = s->cu_k ? s->cu_k[b + 1] - s->cu_k[b] : d->kv_len;
        int64_t add = d->append.cu ? d->append.cu[b + 1] - d->append.cu[b] : d->append.len;
        int64_t used = proof_chance(r, proof_tolerant ? 70 : 20) ? cap - add : proof_int(r, 0, cap - add);
        if (used_q) ((int32_t *)(uintptr_t)s->used_q)[b] = (int32_t)(proof_chance(r, proof_tolerant ? 70 : 30) ? rows : proof_int(r, 0, rows));
        if (used_k) ((int32_t *)(uintptr_t)s->used_k)[b] = (int32_t)used;
        else used = cap;
        if (start) ((int32_t *)(uintptr_t)s->start_k)[b] = (int32_t)(proof_chance(r, proof_tolerant ? 20 : 50) ? proof_int(r, 0, used) : proof_int(r, 0, used / 4));
    }
    if (kind == 3) {                                     /* distinct slots where something is appended */
        int32_t *slot = proof_ints(c, n);
        s->slots = n + proof_int(r, 1, 3);
        for (int64_t b = 0; b < n; b++) slot[b] = (int32_t)((b * 5 + 2) % s->slots);
        for (int64_t b = 0; b < n; b++)
            for (int64_t a = 0; a < b; a++)
                if (slot[a] == slot[b]) s->slots = n + 4;                   /* 5 and slots share a factor */
        for (int64_t b = 0; b < n; b++) slot[b] = (int32_t)((s->slots - 1 - b + (s->slots == n + 4)) % s->slots);
        if (n > 1 && !d->append.len && proof_chance(r, 20)) slot[1] = slot[0];
        s->slot = slot;
        c->features |= PROOF_SLOTS;
    }
    if (kind == 4) {                                     /* a random permutation of the pages, some unused */
        s->page_size = proof_chance(r, 50) ? (int64_t)1 << proof_int(r, 0, 6) : proof_int(r, 1, 64);
        s->max_pages = (d->kv_len + s->page_size - 1) / s->page_size + proof_int(r, 0, 1);
        if (!s->max_pages) s->max_pages = 1;
        s->pages = (n ? n : 1) * s->max_pages + proof_int(r, 0, 3);
        int32_t *table = proof_ints(c, n * s->max_pages), *all = (int32_t *)malloc((size_t)s->pages * 4);
        if (!all) abort();
        for (int64_t i = 0; i < s->pages; i++) all[i] = (int32_t)i;
        for (int64_t i = s->pages - 1; i > 0; i--) {
            int64_t j = (int64_t)(random_bits(&c->data) % (uint64_t)(i + 1));
            int32_t t = all[i]; all[i] = all[j], all[j] = t;
        }
        memcpy(table, all, (size_t)(n * s->max_pages) * 4);
        free(all);
        if (n > 1 && proof_chance(r, 30))                /* a shared prefix: the full pages of the first two sequences */
            for (int64_t p = 0; (p + 1) * s->page_size <= s->used_k[0] && (p + 1) * s->page_size <= s->used_k[1]; p++)
                table[s->max_pages + p] = table[p];
        s->block_table = table;
        c->features |= PROOF_PAGED;
    }
}
/* Of 100 descriptions, so many take the type of each tensor by itself; 0 draws exactly what was drawn before there were any. */
SHARED int proof_mixed_percent = 30;
/* Of 100 descriptions with codes, so many have codes of int16 in k, v or both; their rows are whole multiples of 16, and those of most
 * decodes powers of 2: none lies across two pairs of planes. So many more have q8_0 or q4_0 there, rows of whole blocks. */
SHARED int proof_planes_percent = 35, proof_blocks_percent = 30;
SHARED int32_t proof_type16 = 0;                         /* ATTN_F16 or ATTN_BF16: q, k and v are not all of the other */
SHARED int64_t proof_whole(int64_t dim, int power) {
    int64_t least = 16;
    while (power && 2 * least <= dim) least *= 2;
    return power ? least : (dim + 15) / 16 * 16;
}
SHARED void proof_draw_planes(proof_case *c, proof_rng *r) {
    attn_desc *d = &c->d;
    /* of a fuzzer's bytes none is spent: what the others stand for stays */
    const int chosen = r->bytes ? (int)(r->left % 100) : (int)proof_int(r, 0, 99), which = r->bytes ? chosen % 4 : (int)proof_int(r, 0, c->features & PROOF_FEW ? 9 : 3);
    /* of few rows fewer: certified decodes want int16 in both */
    if (chosen >= 100 - (c->features & PROOF_FEW ? proof_blocks_percent / 4 : proof_blocks_percent)) {
        const int32_t other = chosen % 2 ? ATTN_Q8_0 : ATTN_Q4_0;
        if (which != 1) d->k.dtype = which == 3 ? ATTN_Q8_0 + ATTN_Q4_0 - other : other, d->head_dim = (d->head_dim + 31) / 32 * 32;
        if (which != 2) d->v.dtype = other, d->v_dim = (proof_v_dim(d) + 31) / 32 * 32;
        c->features = (c->features & ~PROOF_VDIM) | (proof_v_dim(d) != d->head_dim ? PROOF_VDIM : 0);
        return;
    }
    if (chosen >= proof_planes_percent && !(c->features & PROOF_FEW)) return;
    const int power = c->features & PROOF_FEW && proof_chance(r, 80);
    if (which != 1) d->k.dtype = ATTN_INT16, d->head_dim = proof_whole(d->head_dim, power);
    if (which != 2) d->v.dtype = ATTN_INT16, d->v_dim = proof_whole(proof_v_dim(d), power);
    c->features = (c->features & ~PROOF_VDIM) | (proof_v_dim(d) != d->head_dim ? PROOF_VDIM : 0);
}
/* a type of its own, rarely f64: only the reference takes that */
SHARED int32_t proof_own_type(proof_rng *r, int quantised) {
    if (quantised && proof_chance(r, 40)) return proof_chance(r, 50) ? ATTN_INT8 : ATTN_FP8_E4M3;
    return proof_chance(r, 4) ? ATTN_F64 : (int32_t)proof_int(r, ATTN_F32, ATTN_BF16);
}
SHARED void proof_type_features(proof_case *c) {
    const attn_desc *d = &c->d;
    const int32_t q = d->q.dtype, k = d->k.dtype, v = d->v.dtype;
    const uint64_t of[] = {PROOF_F32, PROOF_F16, PROOF_BF16, PROOF_F64};
    if (q == k && q == v) c->features |= of[q];
    if (k != v || (q != k && !proof_codes(k))) c->features |= PROOF_MIXED;
    if (q == ATTN_F64 || k == ATTN_F64 || v == ATTN_F64) c->features |= PROOF_F64;
    if (k == ATTN_INT8 || v == ATTN_INT8) c->features |= PROOF_INT8;
    if (k == ATTN_FP8_E4M3 || v == ATTN_FP8_E4M3) c->features |= PROOF_FP8;
    if (k == ATTN_INT16 || v == ATTN_INT16) c->features |= PROOF_INT16;
    if (is_blocks(k) || is_blocks(v)) c->features |= PROOF_BLOCKS;
    if (d->o.dtype != q) c->features |= PROOF_O_OTHER;
}
SHARED void proof_draw_types(proof_case *c, proof_rng *r, int quantised) {
    attn_desc *d = &c->d;
    int kind = (int)proof_int(r, 0, 9);
    d->q.dtype = kind < 4 ? ATTN_F32 : kind < 6 ? ATTN_F16 : kind < 8 ? ATTN_BF16 : kind == 8 ? ATTN_F64 : proof_dtype(r);
    d->k.dtype = d->v.dtype = d->o.dtype = d->q.dtype;
    if (kind == 9) d->k.dtype = proof_dtype(r), d->v.dtype = proof_dtype(r), d->o.dtype = proof_dtype(r);
    if (proof_chance(r, 25)) d->o.dtype = proof_dtype(r);
    if (quantised) d->k.dtype = d->v.dtype = proof_chance(r, 50) ? ATTN_INT8 : ATTN_FP8_E4M3;
    /* not from a fuzzer's bytes: what they stand for stays */
    if (!r->bytes && proof_mixed_percent && proof_chance(r, proof_mixed_percent)) {
        c->own_types = 1;
        d->q.dtype = proof_own_type(r, 0), d->o.dtype = proof_dtype(r);
        d->k.dtype = proof_own_type(r, quantised), d->v.dtype = proof_own_type(r, quantised);
    }
    if (proof_type16) {                                  /* the other type of 16 bits alone: the one that was built */
        const int32_t other = ATTN_F16 + ATTN_BF16 - proof_type16;
        if (d->q.dtype == other && d->k.dtype == other && d->v.dtype == other) {
            d->q.dtype = d->k.dtype = d->v.dtype = proof_type16;
            if (d->o.dtype == other) d->o.dtype = proof_type16;
        }
    }
    if (quantised && proof_planes_percent) proof_draw_planes(c, r);
    if (d->append.len) {
        attn_in *news[2] = {&d->append.k, &d->append.v};
        const attn_in *caches[2] = {&d->k, &d->v};
        news[0]->dtype = news[1]->dtype = proof_chance(r, 80) && !quantised ? d->k.dtype : proof_dtype(r);
        if (proof_chance(r, 5)) news[1]->dtype = proof_dtype(r);
        for (int i = 0; i < 2 && c->own_types; i++)
            news[i]->dtype = proof_chance(r, 50) && !proof_codes(caches[i]->dtype) ? caches[i]->dtype : proof_dtype(r);
    }
    proof_type_features(c);
}
SHARED void proof_draw_masks(proof_case *c, proof_rng *r, proof_draw *draw, int plain) {
    attn_desc *d = &c->d;
    int64_t longest = d->q_len > d->kv_len ? d->q_len : d->kv_len;
    if (proof_chance(r, 40)) d->flags |= ATTN_CAUSAL, c->features |= PROOF_CAUSAL;
    if (proof_chance(r, 15)) d->flags |= ATTN_WINDOW_LEFT, d->window_left = proof_chance(r, 5) ? INT64_MAX : proof_int(r, 0, longest + 1);
    if (proof_chance(r, 15)) d->flags |= ATTN_WINDOW_RIGHT, d->window_right = proof_chance(r, 5) ? INT64_MAX : proof_int(r, 0, longest + 1);
    if (d->flags & (ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT)) c->features |= PROOF_WINDOW;
    if (proof_chance(r, 12)) d->flags |= ATTN_TOP_LEFT, c->features |= PROOF_OFFSET;
    else if (proof_chance(r, 12)) {
        d->flags |= ATTN_OFFSET, c->features |= PROOF_OFFSET;
        d->offset = proof_chance(r, 5) ? proof_int(r, -1, 0) + INT64_MAX * proof_int(r, 0, 1) : proof_int(r, -longest - 2, longest + 2);
    }
    if (proof_chance(r, 12)) {
        d->flags |= ATTN_SCALE, c->features |= PROOF_SCALE;
        d->scale = (float)proof_int(r, -8, 8) * 0.0625f;
    }
    if (proof_chance(r, 10)) d->softcap = (float)proof_int(r, 1, 60) * 0.5f, c->features |= PROOF_SOFTCAP;
    if (proof_chance(r, c->backward ? 30 : 15)) {
        d->bias.dtype = proof_chance(r, 60) ? ATTN_F32 : proof_dtype(r);
        proof_score_stride(c, r, &d->bias, plain);
        c->features |= PROOF_BIAS;
    }
    if (proof_chance(r, 15)) {
        d->mask.dtype = ATTN_BOOL;
        proof_score_stride(c, r, &d->mask, 0);
        c->features |= PROOF_MASK;
    }
    draw->alibi = proof_chance(r, 12), draw->sink = proof_chance(r, 12);
    if (draw->alibi) c->features |= PROOF_ALIBI;
    if (draw->sink) c->features |= PROOF_SINK;
    if (proof_chance(r, 10)) {
        d->dropout = (float)proof_int(r, 1, 15) * 0.0625f;
        d->seed = random_bits(&c->data), d->philox_offset = random_bits(&c->data) >> 32;
        c->features |= PROOF_DROPOUT;
    }
    if (!(c->features & PROOF_FEW) || proof_chance(r, 20)) return;          /* most decodes have none of what codes decline */
    const attn_in none = {0};
    d->bias = d->mask = none, d->softcap = d->dropout = 0, draw->alibi = draw->sink = 0;
    c->features &= ~(PROOF_SOFTCAP | PROOF_BIAS | PROOF_MASK | PROOF_ALIBI | PROOF_SINK | PROOF_DROPOUT);
}
/* Of 100 descriptions without codes and append, so many are what kernels of matrix units are fastest at, which is seldom drawn
 * otherwise: one type of 16 bits, dims of multiples of 8, rows that begin at 16 bytes, no masks but ranges; so many of them keep their masks. */
SHARED int proof_plain_percent, proof_masked_percent = 0;
SHARED void proof_draw_plain(proof_case *c, proof_rng *r, proof_draw *draw) {
    attn_desc *d = &c->d;
    const attn_in none = {0};
    c->plain = 1, c->own_types = 0;
    d->head_dim = d->head_dim > 256 ? 128 : (d->head_dim + 7) / 8 * 8;
    d->v_dim = d->v_dim > 256 ? 128 : (d->v_dim + 7) / 8 * 8;
    d->q.dtype = d->k.dtype = d->v.dtype = d->o.dtype = proof_type16 ? proof_type16 : proof_chance(r, 50) ? ATTN_F16 : ATTN_BF16;
    if (!proof_masked_percent || !proof_chance(r, proof_masked_percent)) {
        d->bias = d->mask = none, d->softcap = 0, draw->alibi = draw->sink = 0;
        c->features &= ~(PROOF_SOFTCAP | PROOF_BIAS | PROOF_MASK | PROOF_ALIBI | PROOF_SINK);
    }
    d->dropout = 0;
    c->features &= ~(PROOF_DROPOUT | PROOF_F32 | PROOF_F16 | PROOF_BF16 | PROOF_F64 | PROOF_MIXED | PROOF_O_OTHER | PROOF_VDIM | PROOF_WIDE);
    if (proof_v_dim(d) != d->head_dim) c->features |= PROOF_VDIM;
    proof_type_features(c);
}
/* A packed QKV buffer, where all three can live in one. */
SHARED int proof_draw_qkv(proof_case *c, proof_rng *r, int kind) {
    attn_desc *d = &c->d;
    int64_t step = (d->heads + 2 * proof_kv_heads(d)) * d->head_dim;
    int fits = kind == 0 && d->q_len == d->kv_len && d->q_len > 0 && d->batch > 0 && d->k.dtype == d->q.dtype && d->v.dtype == d->q.dtype;
    if (!fits || !proof_chance(r, 40)) return 0;
    d->v_dim = 0;
    c->features = (c->features & ~PROOF_VDIM) | PROOF_QKV;
    attn_in *in[3] = {&d->q, &d->k, &d->v};
    attn_out *out[3] = {&c->g.dq, &c->g.dk, &c->g.dv};
    for (int i = 0; i < 3; i++) {
        in[i]->stride[0] = out[i]->stride[0] = d->q_len * step;
        in[i]->stride[1] = out[i]->stride[1] = step;
        in[i]->stride[2] = out[i]->stride[2] = d->head_dim;
        out[i]->dtype = d->q.dtype;
    }
    return 1;
}
/* Strides of t are multiples of it; in a decode rows of powers of 2 stay within their planes. */
SHARED int64_t proof_unit(const proof_case *c, const attn_in *t, int64_t dim) {
    return c->plain ? 8 : is_blocks(t->dtype) ? 32 : t->dtype != ATTN_INT16 ? 1 : c->features & PROOF_FEW ? dim : 16;
}
/* One case. cap bounds batch * heads * q * k * (D + Dv). */
SHARED void proof_make(proof_case *c, proof_rng *r, int64_t cap) {
    attn_desc *d = &c->d;
    proof_draw draw = {1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
    memset(c, 0, sizeof *c);
    c->data = r->bytes ? r->left * 0x9e3779b97f4a7c15u : random_bits(&r->state);
    proof_draw_shape(c, r, cap);
    int roll = (int)proof_int(r, 0, 99), kind = roll < 45 ? 0 : roll < 65 ? 1 : roll < 78 ? 2 : roll < 88 ? 3 : 4;
    proof_draw_seq(c, r, kind);
    const int quantised = kind != 1 && (proof_chance(r, kind ? 25 : 5) || (c->features & PROOF_FEW && proof_chance(r, 75)));
    c->backward = kind <= 2 && !quantised && !d->append.len && proof_chance(r, 60);
    proof_draw_types(c, r, quantised);
    proof_draw_masks(c, r, &draw, c->backward);
    if (proof_plain_percent && !quantised && !d->append.len && proof_chance(r, proof_plain_percent)) proof_draw_plain(c, r, &draw);
    draw.qkv = proof_draw_qkv(c, r, kind);
    const int64_t dv = proof_v_dim(d);
    if (!draw.qkv) {
        int fixed = d->append.len > 0 || c->plain;       /* a cache that is written has the strides of an output */
        proof_stride(c, r, d->q.stride, &d->q.layout, proof_rows_view(d, d->q.stride, 0, d->head_dim), 0);
        proof_stride_of(c, r, d->k.stride, &d->k.layout, proof_kv_view(d, d->k.stride, 0, d->head_dim), fixed, proof_unit(c, &d->k, d->head_dim));
        proof_stride_of(c, r, d->v.stride, &d->v.layout, proof_kv_view(d, d->v.stride, 0, dv), fixed, proof_unit(c, &d->v, dv));
        int32_t ignored;
        if (quantised) {
            proof_view w = proof_kv_view(d, d->k.scale_stride, 0, 1);
            uint64_t kept = c->features;                 /* the strides of a scale are no feature */
            for (int i = 0; i < 2; i++) proof_stride(c, r, i ? d->v.scale_stride : d->k.scale_stride, &ignored, w, 1);
            c->features = kept;
        }
        if (d->append.len) {
            proof_stride(c, r, d->append.k.stride, &d->append.k.layout, proof_new_view(d, &d->append.k, d->head_dim), 0);
            proof_stride(c, r, d->append.v.stride, &d->append.v.layout, proof_new_view(d, &d->append.v, dv), 0);
        }
    }
    proof_stride(c, r, d->o.stride, &d->o.layout, proof_rows_view(d, d->o.stride, 0, dv), 1);
    if (d->append.len && d->head_dim >= 2 && proof_chance(r, 40)) {
        draw.rotary = 1;
        d->append.rotary_dim = proof_chance(r, 50) ? d->head_dim / 2 * 2 : 2 * proof_int(r, 1, d->head_dim / 2);
        if (proof_chance(r, 50)) d->flags |= ATTN_ROTARY_INTERLEAVED;
        c->features |= PROOF_ROTARY;
    }
    draw.q_amplitude = proof_chance(r, 10) ? 16 : 1;
    if (!c->backward && proof_chance(r, 8)) {            /* equal terms: what a sum loses, it loses at every one */
        const int64_t which = proof_int(r, 1, 9);
        draw.q_amplitude = which % 2, c->constant = 0.5 + 0.07 * (double)which;      /* the products of a score too */
        c->features |= PROOF_CONSTANT;
    }
    draw.hidden_percent = proof_chance(r, 30) ? 10 : 0;
    draw.lse = c->backward || proof_chance(r, 70);
    draw.nonfinite = !c->backward && proof_chance(r, proof_tolerant ? 20 : 8);
    d->threads = (int32_t)proof_int(r, 0, 3);
    if (c->backward) {
        attn_grad *g = &c->g;
        /* otherwise the types that a training step has */
        const int other = proof_chance(r, 15) | c->own_types;
        g->dout.dtype = c->own_types ? proof_own_type(r, 0) : other ? proof_dtype(r) : d->o.dtype;
        proof_stride(c, r, g->dout.stride, &g->dout.layout, proof_rows_view(d, g->dout.stride, 0, dv), 0);
        if (!draw.qkv) {
            g->dq.dtype = other ? proof_dtype(r) : d->q.dtype;
            g->dk.dtype = other ? proof_dtype(r) : d->k.dtype;
            g->dv.dtype = other ? proof_dtype(r) : d->v.dtype;
            proof_stride(c, r, g->dq.stride, &g->dq.layout, proof_rows_view(d, g->dq.stride, 0, d->head_dim), 1);
            proof_stride(c, r, g->dk.stride, &g->dk.layout, proof_kv_view(d, g->dk.stride, 0, d->head_dim), 1);
            proof_stride(c, r, g->dv.stride, &g->dv.layout, proof_kv_view(d, g->dv.stride, 0, dv), 1);
        }
        draw.dlse = proof_chance(r, 30);
        draw.dbias = (c->features & PROOF_BIAS) && proof_chance(r, 75);
        draw.dsink = draw.sink && proof_chance(r, 60);
        if (g->dq.dtype == ATTN_F64 || g->dk.dtype == ATTN_F64 || g->dv.dtype == ATTN_F64 || d->o.dtype == ATTN_F64) c->features |= PROOF_GRAD64;
        if (g->dout.dtype == ATTN_F64) c->features |= PROOF_DOUT64;
        if (draw.dlse) c->features |= PROOF_DLSE;
        if (draw.dbias) c->features |= PROOF_DBIAS;
        if (draw.dsink) c->features |= PROOF_DSINK;
        if (proof_chance(r, 25)) c->accumulate = 1, c->features |= PROOF_ACCUMULATE;
    }
    proof_draw_tolerance(c, r, &draw);
    d->message = c->message, d->message_size = sizeof c->message;
    proof_bind_all(c, &draw);
}

/* ------------------------------------------------------------------------------------------ the comparison rule */
enum { PROOF_G_DQ, PROOF_G_DK, PROOF_G_DV, PROOF_G_DBIAS, PROOF_G_DSINK, PROOF_G_COUNT };
typedef struct proof_grad_answer {                       /* element i is that of the caller's output, counted from its lowest */
    proof_view view;
    int64_t below, count;
    double *exact, *naive, *size;                        /* f64; f32 loops; sum of |terms|, weighted as in the rule for o */
    double *terms;                                       /* of dq, dk, dv: sum of |terms| */
    double worst;                                        /* largest error of the naive loops in units of size */
} proof_grad_answer;
typedef struct proof_answer {
    double *o, *o_size, *pv_size, *lse_size;             /* o is dense: row, head, v_dim */
    float *lse;
    proof_grad_answer grad[PROOF_G_COUNT];
} proof_answer;

SHARED void *proof_zeros(int64_t n, size_t size) {
    void *p = calloc((size_t)(n > 0 ? n : 1), size);
    if (!p) abort();
    return p;
}
SHARED void proof_answer_free(proof_answer *a) {
    free(a->o), free(a->o_size), free(a->pv_size), free(a->lse_size), free(a->lse);
    for (int i = 0; i < PROOF_G_COUNT; i++) free(a->grad[i].exact), free(a->grad[i].naive), free(a->grad[i].size), free(a->grad[i].terms);
    memset(a, 0, sizeof *a);
}
SHARED attn_status proof_solve(proof_case *c, proof_answer *a) {
    attn_desc d = c->d;
    const int64_t rows = proof_lse_count(&d), n = rows * proof_v_dim(&d);
    memset(a, 0, sizeof *a);
    a->o = (double *)proof_zeros(n, 8), a->o_size = (double *)proof_zeros(n, 8), a->pv_size = (double *)proof_zeros(n, 8);
    a->lse = (float *)proof_zeros(rows, 4), a->lse_size = (double *)proof_zeros(rows, 8);
    memset(&d.o, 0, sizeof d.o);
    d.o.data = a->o, d.o.dtype = ATTN_F64, d.lse = a->lse, d.backend = "reference";
    attn_status s = attn_forward(&d);
    if (s) return s;
    proof_keep_solved(c, PROOF_CACHE);
    proof_reset(c);
    s = unit_bounds(&d, a->o_size, a->pv_size, a->lse_size);
    proof_reset(c);
    /* the sink is one more key of the sum for lse: its e is |sink| + 4 */
    for (int64_t b = 0; d.sink && b < d.batch; b++)
        for (int64_t i = 0; i < proof_seq_of(&d, b).rows; i++)
            for (int64_t h = 0; h < d.heads; h++) {
                int64_t l = proof_lse_at(&d, b, i, h);
                const double share = exp((double)d.sink[h] - a->lse[l]);
                if (share != 0) a->lse_size[l] += share * (absolute(d.sink[h]) + 4);       /* not 0 times infinity */
            }
    return s;
}
/* The bytes of an output that belong to no element are as before. */
SHARED int proof_gaps_kept(const proof_case *c, const void *data, int32_t dtype, const proof_view *views, int n_views) {
    const size_t size = dtype_size(dtype);
    for (int i = 0; i < c->buffers; i++) {
        const proof_buffer *b = &c->buffer[i];
        if ((const char *)data < b->mem || (const char *)data >= b->mem + b->bytes) continue;
        char *copy = (char *)proof_zeros((int64_t)b->bytes, 1);
        memcpy(copy, b->mem, b->bytes);
        int64_t at = (const char *)data - b->mem;
        for (int k = 0; k < n_views; k++)
            for (int64_t x = 0; x < views[k].n[0]; x++)
                for (int64_t y = 0; y < views[k].n[1]; y++)
                    for (int64_t z = 0; z < views[k].n[2]; z++) {
                        int64_t from = at + proof_at(&views[k], x, y, z) * (int64_t)size;
                        memcpy(copy + from, b->pristine + from, (size_t)views[k].dim * size);
                    }
        int same = !memcmp(copy, b->pristine, b->bytes);
        free(copy);
        return same;
    }
    return 1;
}
/* What the last forward call left in o, lse and the caches against the answer. p_unit: unit of P where a kernel rounds it to
 * 16 bits, else 0. Returns NULL or what is wrong. */
SHARED const char *proof_check(const proof_case *c, const proof_answer *a, double p_unit) {
    static char text[256];
    const attn_desc *d = &c->d;
    const int64_t dv = proof_v_dim(d);
    if (!proof_untouched(c, PROOF_IN)) return "an input was written";
    for (int i = 0; i < c->buffers; i++)
        if (c->buffer[i].kind == PROOF_CACHE && memcmp(c->buffer[i].mem, c->buffer[i].solved, c->buffer[i].bytes))
            return "the cache differs from the reference's";
    proof_view w = proof_rows_view(d, d->o.stride, d->o.layout, dv);
    for (int64_t b = 0; b < d->batch; b++) {
        proof_seq s = proof_seq_of(d, b);
        for (int64_t i = 0; i < s.rows; i++)
            for (int64_t h = 0; h < d->heads; h++) {
                int64_t row = d->seq.cu_q ? s.q0 + i : b * d->q_len + i, from = (row * d->heads + h) * dv;
                int64_t at = proof_row(d, &w, b, i, h), l = proof_lse_at(d, b, i, h);
                const double cert = d->cert ? (double)d->cert[l] : 0;
                for (int64_t e = 0; e < dv; e++) {
                    double got = element_get(d->o.data, d->o.dtype, at + e), want = a->o[from + e];
                    double allowed = allowed_o(d->o.dtype, want, a->o_size[from + e], a->pv_size[from + e], p_unit, c->max_v);
                    if (element_right(got, want, cert + allowed)) continue;
                    snprintf(text, sizeof text, "o[b %lld, i %lld, h %lld, %lld] = %.9g, reference %.9g, allowed %.3g, cert %.3g",
                             (long long)b, (long long)i, (long long)h, (long long)e, got, want, allowed, cert);
                    return text;
                }
                if (!d->lse) continue;
                double got = d->lse[l], want = a->lse[l], allowed = allowed_lse(want, a->lse_size[l]);
                if (cert > 0) allowed += (double)c->told.lse_error;
                if (float_bits(a->lse[l]) == 0xff800000 ? float_bits(d->lse[l]) == 0xff800000 : element_right(got, want, allowed)) continue;
                snprintf(text, sizeof text, "lse[b %lld, h %lld, i %lld] = %.9g, reference %.9g, allowed %.3g",
                         (long long)b, (long long)h, (long long)i, got, want, allowed);
                return text;
            }
    }
    if (!proof_gaps_kept(c, d->o.data, d->o.dtype, &w, 1)) return "bytes between the rows of o were written";
    return NULL;
}

/* ------------------------------------------------------------------------------------------------- gradients */
SHARED void proof_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4]) {   /* Salmon et al. 2011 */
    uint32_t c[4], k[2] = {key[0], key[1]};
    memcpy(c, ctr, sizeof c);
    for (int round = 0; round < 10; round++, k[0] += 0x9e3779b9u, k[1] += 0xbb67ae85u) {
        uint64_t x = (uint64_t)0xd2511f53u * c[0], y = (uint64_t)0xcd9e8d57u * c[2];
        uint32_t n[4] = {(uint32_t)(y >> 32) ^ c[1] ^ k[0], (uint32_t)y, (uint32_t)(x >> 32) ^ c[3] ^ k[1], (uint32_t)x};
        memcpy(c, n, sizeof c);
    }
    memcpy(out, c, sizeof c);
}
SHARED int proof_kept(const attn_desc *d, int64_t b, int64_t h, int64_t i, int64_t j) {
    const uint32_t ctr[4] = {(uint32_t)(j / 4), (uint32_t)i, (uint32_t)(b * d->heads + h), (uint32_t)d->philox_offset};
    const uint32_t key[2] = {(uint32_t)d->seed, (uint32_t)(d->seed >> 32)};
    uint32_t word[4];
    proof_philox(ctr, key, word);
    return (double)word[j % 4] >= floor((double)d->dropout * 0x1p32);
}
SHARED int64_t proof_saturate(int64_t a, int64_t b) {
    if (a > 0 && b > INT64_MAX - a) return INT64_MAX;
    if (a < 0 && b < INT64_MIN - a) return INT64_MIN;
    return a + b;
}
/* may query i of sequence b see key j, both counted within the sequence; a bias of -infinity hides the key */
SHARED int proof_visible(const attn_desc *d, const proof_seq *s, int64_t b, int64_t h, int64_t i, int64_t j) {
    int64_t offset = d->flags & ATTN_TOP_LEFT ? 0 : d->flags & ATTN_OFFSET ? d->offset : s->kv_len - s->q_len;
    int64_t centre = proof_saturate(offset, i);
    if (i >= s->q_len) return 0;
    if ((d->flags & ATTN_CAUSAL) && j > centre) return 0;
    if ((d->flags & ATTN_WINDOW_LEFT) && j < proof_saturate(centre, -d->window_left)) return 0;
    if ((d->flags & ATTN_WINDOW_RIGHT) && j > proof_saturate(centre, d->window_right)) return 0;
    if (d->mask.data) {
        proof_view w = proof_score_view(d, &d->mask);
        if (!((const uint8_t *)d->mask.data)[proof_at(&w, b, h, i) + s->start + j]) return 0;
    }
    if (d->bias.data) {
        proof_view w = proof_score_view(d, &d->bias);
        double bias = element_get(d->bias.data, d->bias.dtype, proof_at(&w, b, h, i) + s->start + j);
        if (!is_finite(bias) && float_bits((float)bias) == 0xff800000) return 0;
    }
    return 1;
}
SHARED void proof_row_floats(int32_t dtype, const void *p, int64_t at, int64_t n, float *x) {
    for (int64_t e = 0; e < n; e++) x[e] = (float)element_get(p, dtype, at + e);
}
SHARED float proof_dot(const float *x, const float *y, int64_t n, double *size) {
    float sum = 0;
    double a = 0;
    for (int64_t e = 0; e < n; e++) sum += x[e] * y[e], a += fabs((double)x[e] * (double)y[e]);
    *size = a;
    return sum;
}
/* The two-pass loops of any textbook in f32: p from the lse given, then every gradient; beside each sum the sum of its sizes. */
SHARED void proof_naive(const proof_case *c, proof_answer *a) {
    const attn_desc *d = &c->d;
    const attn_grad *g = &c->g;
    const int64_t dim = d->head_dim, dv = proof_v_dim(d), kvh = proof_kv_heads(d);
    proof_grad_answer *dq = &a->grad[PROOF_G_DQ], *dk = &a->grad[PROOF_G_DK], *dvv = &a->grad[PROOF_G_DV];
    proof_grad_answer *db = &a->grad[PROOF_G_DBIAS], *dsk = &a->grad[PROOF_G_DSINK];
    proof_view vq = proof_rows_view(d, d->q.stride, d->q.layout, dim), vk = proof_kv_view(d, d->k.stride, d->k.layout, dim);
    proof_view vv = proof_kv_view(d, d->v.stride, d->v.layout, dv), vo = proof_rows_view(d, d->o.stride, d->o.layout, dv);
    proof_view vdo = proof_rows_view(d, g->dout.stride, g->dout.layout, dv), vb = proof_score_view(d, &d->bias);
    const float scale = d->flags & ATTN_SCALE ? d->scale : (float)(1 / sqrt((double)dim));
    const float keep = (float)(1 / (1 - (double)d->dropout));
    float *k = (float *)proof_zeros(d->kv_len * dim, 4), *v = (float *)proof_zeros(d->kv_len * dv, 4);
    float *q = (float *)proof_zeros(dim, 4), *o = (float *)proof_zeros(dv, 4), *dout = (float *)proof_zeros(dv, 4);
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t h = 0; h < d->heads; h++) {
            const proof_seq s = proof_seq_of(d, b);
            const int64_t hk = h / (d->heads / kvh);
            const int64_t offset = d->flags & ATTN_TOP_LEFT ? 0 : d->flags & ATTN_OFFSET ? d->offset : s.kv_len - s.q_len;
            for (int64_t j = 0; j < s.kv_len; j++) {
                proof_row_floats(d->k.dtype, d->k.data, proof_token(d, &vk, b, s.start + j, hk), dim, k + j * dim);
                proof_row_floats(d->v.dtype, d->v.data, proof_token(d, &vv, b, s.start + j, hk), dv, v + j * dv);
            }
            for (int64_t i = 0; i < s.q_len; i++) {
                const float lse = d->lse[proof_lse_at(d, b, i, h)];
                if (!is_finitef(lse)) continue;
                proof_row_floats(d->q.dtype, d->q.data, proof_row(d, &vq, b, i, h), dim, q);
                proof_row_floats(d->o.dtype, d->o.data, proof_row(d, &vo, b, i, h), dv, o);
                proof_row_floats(g->dout.dtype, g->dout.data, proof_row(d, &vdo, b, i, h), dv, dout);
                const float dl = g->dlse ? g->dlse[proof_lse_at(d, b, i, h)] : 0;
                double delta_size, s_size, dp_size;
                const float delta = proof_dot(dout, o, dv, &delta_size);
                const int64_t rq = proof_row(d, &dq->view, b, i, h) + dq->below;
                if (dsk->naive) {
                    float p = expf(d->sink[h] < lse ? d->sink[h] - lse : 0);
                    dsk->naive[h] = (float)dsk->naive[h] + p * (dl - delta);
                    dsk->size[h] += p * (fabs((double)d->sink[h]) + fabs((double)lse) + 4) * (delta_size + fabsf(dl));
                }
                for (int64_t j = 0; j < s.kv_len; j++) {
                    if (!proof_visible(d, &s, b, h, i, j)) continue;
                    float x = scale * proof_dot(q, k + j * dim, dim, &s_size), slope = 1;
                    double e = fabsf(scale) * s_size + 4 + fabsf(lse);
                    if (d->softcap > 0) { float t = tanhf(x / d->softcap); x = d->softcap * t, slope = 1 - t * t; }
                    e += fabsf(x);
                    if (d->bias.data) {
                        float bias = (float)element_get(d->bias.data, d->bias.dtype, proof_at(&vb, b, h, i) + s.start + j);
                        if (d->bias_scale) bias *= d->bias_scale[h];
                        x += bias, e += fabsf(bias);
                    }
                    if (d->alibi) {
                        float far = d->alibi[h] * (float)fabs((double)i + (double)offset - (double)j);
                        x -= far, e += fabsf(far);
                    }
                    const float p = expf(x < lse ? x - lse : 0);
                    const float m = d->dropout > 0 ? proof_kept(d, b, h, i, j) ? keep : 0 : 1;
                    const float dp = proof_dot(dout, v + j * dv, dv, &dp_size), ds = p * (m * dp - delta + dl);
                    const double ds_size = p * e * (m * dp_size + delta_size + fabsf(dl));
                    const int64_t rk = proof_token(d, &dk->view, b, s.start + j, hk) + dk->below;
                    const int64_t rv = proof_token(d, &dvv->view, b, s.start + j, hk) + dvv->below;
                    if (db->naive) {
                        int64_t at = proof_at(&db->view, b, h, i) + s.start + j + db->below;
                        const float share = d->bias_scale ? d->bias_scale[h] : 1;
                        db->naive[at] = (float)db->naive[at] + share * ds, db->size[at] += fabsf(share) * ds_size;
                    }
                    const float dx = ds * slope * scale;
                    const double dx_size = ds_size * fabsf(scale);
                    for (int64_t n = 0; n < dim; n++) {
                        dq->naive[rq + n] = (float)dq->naive[rq + n] + dx * k[j * dim + n];
                        dq->size[rq + n] += dx_size * fabsf(k[j * dim + n]), dq->terms[rq + n] += fabs((double)dx * k[j * dim + n]);
                        dk->naive[rk + n] = (float)dk->naive[rk + n] + dx * q[n];
                        dk->size[rk + n] += dx_size * fabsf(q[n]), dk->terms[rk + n] += fabs((double)dx * q[n]);
                    }
                    for (int64_t n = 0; n < dv; n++) {
                        dvv->naive[rv + n] = (float)dvv->naive[rv + n] + p * m * dout[n];
                        dvv->size[rv + n] += (double)p * m * e * fabsf(dout[n]), dvv->terms[rv + n] += fabs((double)p * m * dout[n]);
                    }
                }
            }
        }
    free(k), free(v), free(q), free(o), free(dout);
}
/* The reference's forward call; what it leaves in o and lse is an input from then on. */
SHARED attn_status proof_forward(proof_case *c) {
    c->d.backend = "reference";
    const attn_status s = proof_call(c, 0);
    const char *const o = (const char *)c->d.o.data, *const lse = (const char *)c->d.lse;
    for (int i = 0; i < c->buffers; i++) {
        proof_buffer *b = &c->buffer[i];
        if ((o >= b->mem && o < b->mem + b->bytes) || (lse >= b->mem && lse < b->mem + b->bytes)) b->kind = PROOF_IN;
        if (b->kind == PROOF_IN) memcpy(b->pristine, b->mem, b->bytes);
    }
    return s;
}
SHARED attn_out proof_grad_out(const proof_case *c, int which) {
    attn_out bias = {c->g.dbias, {c->d.bias.stride[0], c->d.bias.stride[1], c->d.bias.stride[2]}, ATTN_F32, 0};
    attn_out sink = {c->g.dsink, {1, 1, 1}, ATTN_F32, 0};
    return which == PROOF_G_DQ ? c->g.dq : which == PROOF_G_DK ? c->g.dk : which == PROOF_G_DV ? c->g.dv : which == PROOF_G_DBIAS ? bias : sink;
}
SHARED proof_view proof_grad_view(const proof_case *c, int which) {
    const attn_desc *d = &c->d;
    const attn_out x = proof_grad_out(c, which);
    const proof_view sink = {{1, 1, 1}, {0, 0, 0}, d->heads};
    switch (which) {
    case PROOF_G_DQ: return proof_rows_view(d, x.stride, x.layout, d->head_dim);
    case PROOF_G_DK: return proof_kv_view(d, x.stride, x.layout, d->head_dim);
    case PROOF_G_DV: return proof_kv_view(d, x.stride, x.layout, proof_v_dim(d));
    case PROOF_G_DBIAS: return proof_score_view(d, &d->bias);
    default: return sink;
    }
}
/* o and lse must hold the forward result. Runs the reference in f64 and the naive loops; NULL or a sentence. */
SHARED const char *proof_solve_grad(proof_case *c, proof_answer *a) {
    static char text[160];
    static const char *const name[PROOF_G_COUNT] = {"dq", "dk", "dv", "dbias", "dsink"};
    attn_desc d = c->d;
    attn_grad g = c->g;
    attn_out *outs[3] = {&g.dq, &g.dk, &g.dv};
    float *bias = NULL, *sink = NULL;
    for (int i = 0; i < PROOF_G_COUNT; i++) {
        proof_grad_answer *x = &a->grad[i];
        const attn_out out = proof_grad_out(c, i);
        int64_t above;
        x->view = proof_grad_view(c, i);
        if (!out.data && i >= PROOF_G_DBIAS) continue;
        proof_extent(&x->view, &x->below, &above);
        x->count = x->below + above;
        x->exact = (double *)proof_zeros(x->count, 8), x->naive = (double *)proof_zeros(x->count, 8);
        x->size = (double *)proof_zeros(x->count, 8), x->terms = (double *)proof_zeros(x->count, 8);
        if (c->accumulate)
            for (int64_t n = 0; n < x->count; n++) x->exact[n] = element_get(out.data, out.dtype, n - x->below);
    }
    for (int i = 0; i < 3; i++) outs[i]->data = a->grad[i].exact + a->grad[i].below, outs[i]->dtype = ATTN_F64;
    for (int i = PROOF_G_DBIAS; i <= PROOF_G_DSINK; i++) {
        proof_grad_answer *x = &a->grad[i];
        if (!x->exact) continue;
        float *f = (float *)proof_zeros(x->count, 4);
        for (int64_t n = 0; n < x->count; n++) f[n] = (float)x->exact[n];
        if (i == PROOF_G_DBIAS) bias = f, g.dbias = f + x->below; else sink = f, g.dsink = f;
    }
    d.backend = "reference";
    if (c->accumulate) d.flags |= ATTN_ACCUMULATE;
    attn_status s = attn_backward(&d, &g);
    for (int64_t n = 0; bias && n < a->grad[PROOF_G_DBIAS].count; n++) a->grad[PROOF_G_DBIAS].exact[n] = bias[n];
    for (int64_t n = 0; sink && n < a->grad[PROOF_G_DSINK].count; n++) a->grad[PROOF_G_DSINK].exact[n] = sink[n];
    free(bias), free(sink);
    if (s) return attn_status_text(s);
    proof_naive(c, a);
    for (int i = 0; i < PROOF_G_COUNT; i++) {
        proof_grad_answer *x = &a->grad[i];
        const attn_out out = proof_grad_out(c, i);
        if (!x->exact) continue;
        x->worst = CHECK_U;
        for (int64_t m = 0; m < x->view.n[0] * x->view.n[1] * x->view.n[2] * x->view.dim; m++) {
            int64_t r = m / x->view.dim, n = x->below + m % x->view.dim;
            n += proof_at(&x->view, r / x->view.n[2] / x->view.n[1], r / x->view.n[2] % x->view.n[1], r % x->view.n[2]);
            double old = c->accumulate ? element_get(out.data, out.dtype, n - x->below) : 0;
            double error = absolute(old + x->naive[n] - x->exact[n]), rounding = absolute(x->exact[n]) * 0x1p-23 + 0x1p-100;
            if (!is_finite(x->exact[n]) || error > 256 * CHECK_U * x->size[n] + rounding) {
                snprintf(text, sizeof text, "reference %s[%lld] = %.9g, by naive f32 loops %.9g", name[i], (long long)m,
                         x->exact[n], old + x->naive[n]);
                return text;
            }
            if (x->size[n] > 0x1p-80 && error > x->worst * x->size[n]) x->worst = error / x->size[n];
        }
    }
    return NULL;
}
/* What the last backward call left against the answer. p_unit: unit of P and ds where a kernel rounds them to 16 bits, else 0: as for o,
 * twice of it is allowed of each term. */
SHARED const char *proof_check_grad(const proof_case *c, const proof_answer *a, double p_unit) {
    static char text[256];
    static const char *const name[PROOF_G_COUNT] = {"dq", "dk", "dv", "dbias", "dsink"};
    if (!proof_untouched(c, PROOF_IN)) return "an input was written";
    for (int i = 0; i < PROOF_G_COUNT; i++) {
        const proof_grad_answer *x = &a->grad[i];
        const attn_out out = proof_grad_out(c, i);
        if (!x->exact) continue;
        for (int64_t m = 0; m < x->view.n[0] * x->view.n[1] * x->view.n[2] * x->view.dim; m++) {
            int64_t r = m / x->view.dim, n = m % x->view.dim;
            n += proof_at(&x->view, r / x->view.n[2] / x->view.n[1], r / x->view.n[2] % x->view.n[1], r % x->view.n[2]);
            double got = element_get(out.data, out.dtype, n), want = x->exact[n + x->below];
            double allowed = 4 * x->worst * x->size[n + x->below] + 2 * p_unit * x->terms[n + x->below] +
                             (dtype_unit(out.dtype) + CHECK_U) * absolute(want) +
                             dtype_tiny(out.dtype) + 0x1p-100;
            if (is_finite(got) && absolute(got - want) <= allowed) continue;
            snprintf(text, sizeof text, "%s[%lld] = %.9g, reference %.9g, allowed %.3g", name[i], (long long)m, got, want, allowed);
            return text;
        }
    }
    if (!(c->features & PROOF_QKV)) {
        for (int i = 0; i < 4; i++)
            if (a->grad[i].exact) {
                const attn_out out = proof_grad_out(c, i);
                proof_view w = a->grad[i].view;
                if (!proof_gaps_kept(c, out.data, out.dtype, &w, 1)) return "bytes between the rows of a gradient were written";
            }
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------------ certificates
 * The largest finite element of |v| of buffer token t. */
SHARED double proof_most_v(const attn_desc *d, const proof_view *v, const proof_view *scale, int64_t b, int64_t t, int64_t h) {
    const int64_t at = proof_token(d, v, b, t, h);
    double step = 1, most = 0;
    if (d->v.scale) step = absolute(element_get(d->v.scale, ATTN_F32, proof_token(d, scale, b, t, h)));
    for (int64_t e = 0; e < v->dim; e++) {
        const double x = step * absolute(element_get(d->v.data, d->v.dtype, at + e));
        if (is_finite(x) && x > most) most = x;
    }
    return most;
}
/* The certificates of the rows of sequence b and kv head; NULL or a sentence. */
SHARED const char *proof_check_certs_of(const proof_case *c, const attn_desc *d, int64_t b, int64_t kv_head, int64_t *tiles) {
    static char text[256];
    const proof_seq s = proof_seq_of(d, b);
    const proof_view v = proof_kv_view(d, d->v.stride, d->v.layout, proof_v_dim(d)), scale = proof_kv_view(d, d->v.scale_stride, ATTN_BSHD, 1);
    const int64_t group = d->heads / proof_kv_heads(d);
    double *size = (double *)proof_zeros(s.kv_len, 8);
    for (int64_t j = 0; j < s.kv_len; j++) size[j] = proof_most_v(d, &v, &scale, b, s.start + j, kv_head);
    text[0] = 0;
    for (int64_t i = 0; i < s.rows && !text[0]; i++) {
        int64_t first = -1, last = -1;
        double most = 0;
        for (int64_t j = 0; j < s.kv_len; j++) {
            if (!proof_visible(d, &s, b, 0, i, j)) continue;
            if (first < 0) first = j;
            last = j, most = size[j] > most ? size[j] : most;
        }
        *tiles += first < 0 ? 0 : group * (last / 128 - first / 128 + 1);
        for (int64_t h = kv_head * group; h < (kv_head + 1) * group; h++) {
            const float cert = c->cert[proof_lse_at(d, b, i, h)];
            if (cert_kept(cert, c->d.quantile > 0 ? HUGE_VAL : cert_limit(&c->d, most))) continue;
            snprintf(text, sizeof text, "cert[b %lld, h %lld, i %lld] = %.9g, tolerance %.9g of %.9g", (long long)b, (long long)h, (long long)i,
                     (double)cert, (double)c->d.tolerance, most);
        }
    }
    free(size);
    return text[0] ? text : NULL;
}
/* Do rows without a certificate have the bits of a plain call, which proof_keep_solved kept? */
SHARED int proof_dense_kept(const proof_case *c, const void *data, int64_t at, int64_t bytes) {
    for (int i = 0; i < c->buffers; i++) {
        const proof_buffer *b = &c->buffer[i];
        const char *p = (const char *)data + at;
        if (p >= b->mem && p < b->mem + b->bytes) return !memcmp(p, b->solved + (p - b->mem), (size_t)bytes);
    }
    return !bytes;
}
SHARED const char *proof_check_dense(const proof_case *c) {
    static char text[160];
    const attn_desc *d = &c->d;
    const int64_t dv = proof_v_dim(d), size = dtype_size(d->o.dtype);
    const proof_view w = proof_rows_view(d, d->o.stride, d->o.layout, dv);
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t i = 0, rows = proof_seq_of(d, b).rows; i < rows; i++)
            for (int64_t h = 0; h < d->heads; h++) {
                const int64_t l = proof_lse_at(d, b, i, h);
                if (c->cert[l] > 0) continue;
                if (proof_dense_kept(c, d->o.data, proof_row(d, &w, b, i, h) * size, dv * size) &&
                    (!d->lse || proof_dense_kept(c, d->lse, l * 4, 4))) continue;
                snprintf(text, sizeof text, "cert[b %lld, h %lld, i %lld] is 0, and the row's bits are not those of a plain call", (long long)b,
                         (long long)h, (long long)i);
                return text;
            }
    return NULL;
}
/* What the last call with the tolerance left against the answer, and against the outputs of a plain call, which proof_keep_solved
 * kept. */
SHARED const char *proof_check_tolerant(const proof_case *c, const proof_answer *a) {
    attn_desc d = c->d;
    int64_t tiles = 0;
    const char *wrong = proof_check(c, a, forward_p_unit(&d));
    memset(&d.mask, 0, sizeof d.mask), memset(&d.bias, 0, sizeof d.bias);      /* tiles are of the ranges that rows see */
    for (int64_t n = 0; n < d.batch * proof_kv_heads(&d) && !wrong; n++)
        wrong = proof_check_certs_of(c, &d, n / proof_kv_heads(&d), n % proof_kv_heads(&d), &tiles);
    if (!wrong) wrong = statistics_wrong(&c->told, c->cert, proof_lse_count(&d), tiles);
    return wrong || c->p_rounded ? wrong : proof_check_dense(c);
}
/* Rows that the last call computed from codes. */
SHARED int64_t proof_coded(const proof_case *c) {
    int64_t coded = 0;
    for (int64_t n = 0; n < proof_lse_count(&c->d); n++) coded += c->cert[n] > 0;
    return coded;
}
/* A call with the tolerance, of a backend that takes it, beside the plain call whose bits dense rows have: its own, for adaptive that
 * of flash; but where the plain call rounds P, which none with a tolerance does. NULL or what is wrong; leaves the case tolerant. */
SHARED const char *proof_run_tolerant(proof_case *c, const proof_answer *a, const char *backend) {
    const int codes = !strcmp(backend, "adaptive");
    proof_tolerate(c, 0);
    proof_reset(c);
    c->d.backend = codes ? "flash" : backend;
    attn_status s = proof_call(c, 0);
    c->p_rounded = forward_p_unit(&c->d) > 0;
    proof_keep_solved(c, PROOF_OUT);
    proof_tolerate(c, 1);
    proof_reset(c);
    c->d.backend = backend;
    if (!s) s = proof_call(c, 0);
    if (s) return attn_status_text(s);
    const char *wrong = proof_check_tolerant(c, a);
    return wrong ? wrong : !codes && proof_coded(c) ? "an exact backend left a certificate above 0" : NULL;
}
#endif
