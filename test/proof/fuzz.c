/* fuzz.c - libFuzzer: the bytes choose a description and its data, then break it: sizes, strides, flags, pointers, the contents of
 * every length and table, and the gradients' own. Built with the address and undefined sanitizers. A failure, beyond a crash or a leak, is: an output
 * touched by a refused call, an input written, a description that attn_query refuses and attn_forward takes, a difference from the
 * reference. A last byte that is a multiple of 16 asks for a tolerance, with rows and keys enough for codes: then a row may be wrong by
 * its certificate and no more, and the tolerance, cert and statistics are broken too. Without libFuzzer (-DFUZZ_MAIN) the program runs the files named. */
#include "proof.h"
#include <stddef.h>

typedef struct field { size_t at, size; } field;
typedef struct pointer { const char *name; size_t at; } pointer;
#define FIELD(name) {offsetof(attn_desc, name), sizeof((attn_desc *)0)->name}
static const field fields[] = {
    FIELD(batch), FIELD(q_len), FIELD(kv_len), FIELD(heads), FIELD(kv_heads), FIELD(head_dim), FIELD(v_dim), FIELD(offset),
    FIELD(window_left), FIELD(window_right), FIELD(philox_offset), FIELD(q.stride[0]), FIELD(q.stride[1]), FIELD(q.stride[2]),
    FIELD(k.stride[0]), FIELD(k.stride[1]), FIELD(k.stride[2]), FIELD(v.stride[0]), FIELD(v.stride[1]), FIELD(v.stride[2]),
    FIELD(o.stride[0]), FIELD(o.stride[1]), FIELD(o.stride[2]), FIELD(bias.stride[0]), FIELD(bias.stride[1]), FIELD(bias.stride[2]),
    FIELD(mask.stride[0]), FIELD(mask.stride[1]), FIELD(mask.stride[2]), FIELD(k.scale_stride[0]), FIELD(k.scale_stride[1]),
    FIELD(v.scale_stride[2]), FIELD(seq.total_q), FIELD(seq.total_k), FIELD(seq.slots), FIELD(seq.page_size), FIELD(seq.pages),
    FIELD(seq.max_pages), FIELD(append.len), FIELD(append.total), FIELD(append.rotary_dim), FIELD(append.rotary_rows),
    FIELD(append.k.stride[0]), FIELD(append.k.stride[1]), FIELD(append.v.stride[2]), FIELD(workspace_size),
    FIELD(q.dtype), FIELD(k.dtype), FIELD(v.dtype), FIELD(o.dtype), FIELD(bias.dtype), FIELD(mask.dtype), FIELD(append.k.dtype),
    FIELD(append.v.dtype), FIELD(q.layout), FIELD(k.layout), FIELD(o.layout), FIELD(flags), FIELD(threads), FIELD(device),
    FIELD(scale), FIELD(softcap), FIELD(dropout),
};
#define POINTER(name) {#name, offsetof(attn_desc, name)}
static const pointer pointers[] = {
    POINTER(q.data), POINTER(k.data), POINTER(v.data), POINTER(o.data), POINTER(lse), POINTER(bias.data),
    POINTER(mask.data), POINTER(alibi), POINTER(sink), POINTER(k.scale), POINTER(v.scale), POINTER(q.scale),
    POINTER(seq.cu_q), POINTER(seq.cu_k), POINTER(seq.used_q), POINTER(seq.used_k), POINTER(seq.start_k),
    POINTER(seq.slot), POINTER(seq.block_table), POINTER(append.k.data), POINTER(append.v.data),
    POINTER(append.k_cache), POINTER(append.v_cache), POINTER(append.k_scale), POINTER(append.cu),
    POINTER(append.rotary_cos), POINTER(append.rotary_sin), POINTER(bias_scale),
};
#define GRAD_FIELD(name) {offsetof(attn_grad, name), sizeof((attn_grad *)0)->name}
static const field grad_fields[] = {
    GRAD_FIELD(dout.stride[0]), GRAD_FIELD(dout.stride[1]), GRAD_FIELD(dout.stride[2]), GRAD_FIELD(dq.stride[0]), GRAD_FIELD(dq.stride[1]),
    GRAD_FIELD(dq.stride[2]), GRAD_FIELD(dk.stride[0]), GRAD_FIELD(dk.stride[1]), GRAD_FIELD(dk.stride[2]), GRAD_FIELD(dv.stride[0]),
    GRAD_FIELD(dv.stride[1]), GRAD_FIELD(dv.stride[2]), GRAD_FIELD(dout.dtype), GRAD_FIELD(dq.dtype), GRAD_FIELD(dk.dtype),
    GRAD_FIELD(dv.dtype), GRAD_FIELD(dout.layout), GRAD_FIELD(dq.layout), GRAD_FIELD(dk.layout), GRAD_FIELD(dv.layout),
};
#define GRAD_POINTER(name) {#name, offsetof(attn_grad, name)}
static const pointer grad_pointers[] = {
    GRAD_POINTER(dout.data), GRAD_POINTER(dlse), GRAD_POINTER(dq.data), GRAD_POINTER(dk.data), GRAD_POINTER(dv.data),
    GRAD_POINTER(dbias), GRAD_POINTER(dsink),
};
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
enum { N_FIELDS = COUNT(fields), N_POINTERS = COUNT(pointers), N_GRAD_FIELDS = COUNT(grad_fields), N_GRAD_POINTERS = COUNT(grad_pointers) };
static const int64_t numbers[] = {0, 1, -1, 2, 3, 7, 64, 1000, INT32_MAX, (int64_t)INT32_MAX + 1, INT64_MAX, INT64_MIN, INT64_MAX / 2, INT64_MIN + 1};

/* A whole number of the description becomes a neighbour, another bit, or one of the list. */
static void break_number(void *p, size_t size, proof_rng *r) {
    int64_t x = 0;
    memcpy(&x, p, size);
    x = proof_chance(r, 50) ? (int64_t)((uint64_t)x + (uint64_t)proof_int(r, -3, 3)) : proof_chance(r, 30) ? x ^ (int64_t)1 << proof_int(r, 0, 12) : numbers[proof_int(r, 0, 13)];
    memcpy(p, &x, size);
}

/* Breaks one thing. Floats come from a short list: an overflow of f32 where f64 has none would be no fault. */
static void break_one(attn_desc *d, const proof_case *c, proof_rng *r) {
    static const uint32_t floats[] = {0, 0x3f800000, 0xbf800000, 0x3f000000, 0x7fc00000, 0x7f800000, 0xff800000, 0x80000000, 0x3f7fffff, 0x42480000};
    const int what = (int)proof_int(r, 0, 3);
    if (what == 0) {                                     /* the content of a length or a table */
        const int32_t *const tables[] = {d->seq.cu_q, d->seq.cu_k, d->seq.used_q, d->seq.used_k, d->seq.start_k, d->seq.slot, d->seq.block_table, d->append.cu};
        const int32_t *table = tables[proof_int(r, 0, 7)];
        for (int i = 0; table && i < c->buffers; i++)
            if (c->buffer[i].mem == (const char *)table && c->buffer[i].bytes >= 4) {
                int64_t at = proof_int(r, 0, (int64_t)(c->buffer[i].bytes / 4) - 1), old = table[at];
                int32_t x = (int32_t)(proof_chance(r, 50) ? old + proof_int(r, -2, 2) : numbers[proof_int(r, 0, 13)]);
                memcpy(c->buffer[i].mem + at * 4, &x, 4), memcpy(c->buffer[i].pristine + at * 4, &x, 4);
            }
    } else if (what == 1) {                              /* a pointer: none, or another one's */
        char *p = (char *)d + pointers[proof_int(r, 0, N_POINTERS - 1)].at, *q = (char *)d + pointers[proof_int(r, 0, N_POINTERS - 1)].at;
        if (proof_chance(r, 50)) memset(p, 0, sizeof(void *)); else memcpy(p, q, sizeof(void *));
    } else {
        const int64_t i = proof_int(r, 0, N_FIELDS - 1);
        char *p = (char *)d + fields[i].at;
        if (i >= N_FIELDS - 3) { memcpy(p, &floats[proof_int(r, 0, 9)], 4); return; }
        break_number(p, fields[i].size, r);
    }
}
/* Breaks one thing of the gradients: a pointer becomes none, another gradient's or one of the description's. */
static void break_grad(proof_case *c, proof_rng *r) {
    if (proof_chance(r, 60)) {
        const field *f = &grad_fields[proof_int(r, 0, N_GRAD_FIELDS - 1)];
        break_number((char *)&c->g + f->at, f->size, r);
        return;
    }
    char *p = (char *)&c->g + grad_pointers[proof_int(r, 0, N_GRAD_POINTERS - 1)].at;
    const int to = (int)proof_int(r, 0, 2);
    if (to == 0) memset(p, 0, sizeof(void *));
    else if (to == 1) memcpy(p, (char *)&c->g + grad_pointers[proof_int(r, 0, N_GRAD_POINTERS - 1)].at, sizeof(void *));
    else memcpy(p, (char *)&c->d + pointers[proof_int(r, 0, N_POINTERS - 1)].at, sizeof(void *));
}
/* Do the bytes [p - below, p + above) lie in one buffer? A null pointer is the library's to refuse. */
static int inside(const proof_case *c, const void *p, int64_t below, int64_t above) {
    if (!p) return 1;
    for (int i = 0; i < c->buffers; i++) {
        const char *m = c->buffer[i].mem;
        if ((const char *)p < m || (const char *)p > m + c->buffer[i].bytes) continue;
        if ((const char *)p - m >= below && m + c->buffer[i].bytes - (const char *)p >= above) return 1;
    }
    return 0;
}
static int view_inside(const proof_case *c, const void *p, proof_view w, int32_t dtype) {
    int64_t below, above;
    if (dtype < 0 || dtype > ATTN_Q4_0 || !proof_extent(&w, &below, &above)) return 0;
    below = whole_pieces(below, dtype), above = whole_pieces(above, dtype);
    return inside(c, p, dtype_bytes(dtype, (below + 31) / 32 * 32), dtype_bytes(dtype, (above + 31) / 32 * 32)) || (!is_blocks(dtype) && inside(c, p, dtype_bytes(dtype, below), dtype_bytes(dtype, above)));
}
/* Do the arrays of lengths have as many entries as the description says? What reads a description reads them. */
static int tables_inside(const proof_case *c) {
    const attn_seq *s = &c->d.seq;
    const int64_t n = c->d.batch, pages = s->max_pages;
    if (n < 0 || n > 4096 || pages < 0 || pages > 4096) return 0;
    const struct { const int32_t *p; int64_t n; } tables[] = {{s->cu_q, n + 1}, {s->cu_k, n + 1}, {s->used_q, n}, {s->used_k, n},
                                                              {s->start_k, n}, {s->slot, n}, {s->block_table, n * pages}, {c->d.append.cu, n + 1}};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (!inside(c, tables[i].p, 0, tables[i].n * 4)) return 0;
    return 1;
}
/* Would a valid call with this description stay within our memory? Products are bounded first: sizes may be anything. */
static int contained(const proof_case *c) {
    const attn_desc *d = &c->d;
    const attn_seq *s = &d->seq;
    const attn_append *a = &d->append;
    const int64_t sizes[] = {d->batch, d->q_len, d->kv_len, d->heads, d->kv_heads, d->head_dim, d->v_dim, s->total_q, s->total_k, s->slots, s->page_size,
                             s->pages, s->max_pages, a->len, a->total, a->rotary_dim, a->rotary_rows};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] < 0 || sizes[i] > 4096) return 0;
    if ((double)d->batch * (double)d->heads * (double)d->q_len * (double)(d->kv_len + s->total_k + a->len) * (double)(d->head_dim + d->v_dim) > 0x1p20) return 0;
    const int64_t dv = proof_v_dim(d), rows = proof_lse_count(d) * 4;
    if (!tables_inside(c)) return 0;
    return view_inside(c, d->q.data, proof_rows_view(d, d->q.stride, d->q.layout, d->head_dim), d->q.dtype) &&
           view_inside(c, d->o.data, proof_rows_view(d, d->o.stride, d->o.layout, dv), d->o.dtype) &&
           view_inside(c, d->k.data, proof_kv_view(d, d->k.stride, d->k.layout, d->head_dim), d->k.dtype) &&
           view_inside(c, d->v.data, proof_kv_view(d, d->v.stride, d->v.layout, dv), d->v.dtype) &&
           view_inside(c, d->k.scale, proof_kv_view(d, d->k.scale_stride, 0, 1), ATTN_F32) &&
           view_inside(c, d->v.scale, proof_kv_view(d, d->v.scale_stride, 0, 1), ATTN_F32) &&
           view_inside(c, d->bias.data, proof_score_view(d, &d->bias), d->bias.dtype) &&
           view_inside(c, d->mask.data, proof_score_view(d, &d->mask), d->mask.dtype) &&
           view_inside(c, a->k.data, proof_new_view(d, &a->k, d->head_dim), a->k.dtype) &&
           view_inside(c, a->v.data, proof_new_view(d, &a->v, dv), a->v.dtype) &&
           inside(c, d->lse, 0, rows) && inside(c, d->alibi, 0, d->heads * 4) && inside(c, d->sink, 0, d->heads * 4) && inside(c, d->bias_scale, 0, d->heads * 4) &&
           inside(c, a->rotary_cos, 0, a->rotary_rows * a->rotary_dim * 2) && inside(c, a->rotary_sin, 0, a->rotary_rows * a->rotary_dim * 2) &&
           (!a->k_cache || a->k_cache == d->k.data) && (!a->v_cache || a->v_cache == d->v.data);
}
/* The same of the gradients, of a description that is contained. */
static int grad_contained(const proof_case *c) {
    const attn_desc *d = &c->d;
    const attn_grad *g = &c->g;
    for (int i = 0; i < PROOF_G_DBIAS; i++) {
        const attn_out out = proof_grad_out(c, i);
        if (!view_inside(c, out.data, proof_grad_view(c, i), out.dtype)) return 0;
    }
    return view_inside(c, g->dout.data, proof_rows_view(d, g->dout.stride, g->dout.layout, proof_v_dim(d)), g->dout.dtype) &&
           view_inside(c, g->dbias, proof_grad_view(c, PROOF_G_DBIAS), ATTN_F32) && inside(c, g->dsink, 0, d->heads * 4) &&
           inside(c, g->dlse, 0, proof_lse_count(d) * 4);
}
static void fault(const proof_case *c, const char *what) {
    const attn_desc *d = &c->d;
    fprintf(stderr, "fuzz: %s: %s\n  batch %lld q_len %lld kv_len %lld heads %lld/%lld dim %lld/%lld dtype %d %d %d -> %d flags %u append %lld\n",
            d->backend ? d->backend : "auto", what, (long long)d->batch, (long long)d->q_len, (long long)d->kv_len, (long long)d->heads,
            (long long)d->kv_heads, (long long)d->head_dim, (long long)d->v_dim, d->q.dtype, d->k.dtype, d->v.dtype, d->o.dtype, d->flags,
            (long long)d->append.len);
    for (int i = 0; i < c->buffers; i++) {
        const proof_buffer *b = &c->buffer[i];
        if (!memcmp(b->mem, b->pristine, b->bytes)) continue;
        fprintf(stderr, "  changed, %s:", b->kind == PROOF_IN ? "input" : b->kind == PROOF_OUT ? "output" : "cache");
        for (int k = 0; k < N_POINTERS; k++) {
            const char *p;
            memcpy(&p, (const char *)d + pointers[k].at, sizeof p);
            if (p >= b->mem && p < b->mem + b->bytes) fprintf(stderr, " %s", pointers[k].name);
        }
        for (int k = 0; k < N_GRAD_POINTERS; k++) {
            const char *p;
            memcpy(&p, (const char *)&c->g + grad_pointers[k].at, sizeof p);
            if (p >= b->mem && p < b->mem + b->bytes) fprintf(stderr, " %s", grad_pointers[k].name);
        }
        fprintf(stderr, "\n");
    }
    abort();
}
/* Has a number that the call may read a size that only a broken type or pointer gives it? Products of such leave f32 where f64 still
 * holds them: the answers are not compared then. */
static int wild(const proof_case *c) {
    const attn_desc *d = &c->d;
    const attn_grad *g = &c->g;
    const struct { const void *p; int32_t dtype; } read[] = {
        {g->dout.data, g->dout.dtype}, {g->dlse, ATTN_F32}, {g->dq.data, g->dq.dtype}, {g->dk.data, g->dk.dtype}, {g->dv.data, g->dv.dtype},
        {g->dbias, ATTN_F32}, {g->dsink, ATTN_F32}, {d->o.data, d->o.dtype}, {d->lse, ATTN_F32},
        {d->q.data, d->q.dtype}, {d->k.data, d->k.dtype}, {d->v.data, d->v.dtype}, {d->bias.data, d->bias.dtype},
        {d->append.k.data, d->append.k.dtype}, {d->append.v.data, d->append.v.dtype}, {d->k.scale, ATTN_F32}, {d->v.scale, ATTN_F32},
        {d->alibi, ATTN_F32}, {d->sink, ATTN_F32}, {d->append.rotary_cos, ATTN_F32}, {d->append.rotary_sin, ATTN_F32}, {d->bias_scale, ATTN_F32},
    };
    for (size_t t = 0; t < sizeof read / sizeof *read; t++)
        for (int i = 0; read[t].p && i < c->buffers; i++) {
            const char *p = (const char *)read[t].p, *m = c->buffer[i].mem;
            if (read[t].dtype < 0 || read[t].dtype > ATTN_Q4_0 || is_blocks(read[t].dtype)) return 1;    /* any scale of a block */
            if (read[t].dtype == ATTN_INT16) break;      /* none is beyond 128 */
            const int64_t size = (int64_t)dtype_size(read[t].dtype);
            if (p < m || p >= m + c->buffer[i].bytes) continue;
            m += (p - m) % size;
            for (int64_t n = (c->buffer[i].mem + c->buffer[i].bytes - m) / size; n--; m += size) {
                double x = element_get(m, read[t].dtype, 0);
                if (is_finite(x) && absolute(x) > 0x1p24) return 1;
            }
        }
    return 0;
}
static const char *compared(const proof_case *c, const proof_answer *a, int broken) {
    if (!broken || !wild(c)) return proof_check(c, a, forward_p_unit(&c->d));
    return proof_untouched(c, PROOF_IN) ? NULL : "an input was written";
}
static int all_untouched(const proof_case *c) {
    return proof_untouched(c, PROOF_IN) && proof_untouched(c, PROOF_OUT) && proof_untouched(c, PROOF_CACHE);
}
static int points_into(const proof_buffer *b, const void *from, size_t at) {
    const char *p;
    memcpy(&p, (const char *)from + at, sizeof p);
    return p >= b->mem && p < b->mem + b->bytes;
}
/* A buffer that exchanged pointers made the home of outputs alone is an output now: of o and lse, or of gradients. */
static void new_outputs(proof_case *c, int backward) {
    for (int i = 0; i < c->buffers; i++) {
        proof_buffer *b = &c->buffer[i];
        int out = 0, in = 0;
        for (int k = 0; k < N_POINTERS; k++) {
            if (!points_into(b, &c->d, pointers[k].at)) continue;
            if (!backward && (!strcmp(pointers[k].name, "o.data") || !strcmp(pointers[k].name, "lse"))) out = 1; else in = 1;
        }
        for (int k = 0; backward && k < N_GRAD_POINTERS; k++) {
            if (!points_into(b, &c->g, grad_pointers[k].at)) continue;
            if (strcmp(grad_pointers[k].name, "dout.data") && strcmp(grad_pointers[k].name, "dlse")) out = 1; else in = 1;
        }
        if (out && !in) b->kind = PROOF_OUT;
    }
}
/* Is one gradient where another is? An empty one may be: what lies between its rows is the other's. */
static int one_on_another(const attn_grad *g) {
    const void *const to[] = {g->dq.data, g->dk.data, g->dv.data, g->dbias, g->dsink};
    for (int i = 0; i < COUNT(to); i++)
        for (int k = 0; k < i; k++)
            if (to[i] && to[i] == to[k]) return 1;
    return 0;
}
/* The backward call that belongs to a valid forward one: its gradients are broken as well, and compared where they are not. */
static void gradients(proof_case *c, proof_rng *r, int broken) {
    proof_answer a;
    attn_plan plan;
    const int64_t breaks = proof_int(r, 0, 2);
    memset(&a, 0, sizeof a);
    const attn_status s = proof_forward(c);
    proof_reset(c);                                         /* what it appended */
    if (s) return;
    for (int i = 0; i < breaks && r->left > 1; i++, broken++) break_grad(c, r);
    new_outputs(c, 1);
    c->d.backend = NULL;
    const int safe = grad_contained(c);
    if (proof_query(c, 1, &plan)) {
        if (!all_untouched(c)) fault(c, "attn_query wrote");
        if (proof_call(c, 1) == ATTN_OK) fault(c, "attn_backward takes what attn_query refuses");
        if (!all_untouched(c)) fault(c, "a refused call wrote");
    } else if (safe) {
        const int whole = c->g.dq.data && c->g.dk.data && c->g.dv.data && c->g.dout.data;
        const char *unknown = broken && (!whole || one_on_another(&c->g) || wild(c)) ? "not compared" : proof_solve_grad(c, &a);
        if (!broken && unknown) fault(c, unknown);
        for (int i = 0; attn_backend_at(i); i++) {
            c->d.backend = attn_backend_at(i)->name;
            if (proof_query(c, 1, &plan)) continue;
            proof_reset(c);
            const attn_status t = proof_call(c, 1);             /* refused: attn_query takes pointers that are NULL */
            const char *wrong = t ? broken ? all_untouched(c) ? NULL : "a refused call wrote" : c->message
                              : !unknown ? proof_check_grad(c, &a, 0) : proof_untouched(c, PROOF_IN) ? NULL : "an input was written";
            if (wrong) fault(c, wrong);
        }
    }
    proof_answer_free(&a);
}
static int told_untouched(const proof_case *c) {
    attn_statistics none;
    proof_poison(&none, sizeof none);
    return !memcmp(&none, &c->told, sizeof none);
}
/* Breaks the tolerance or what belongs to it; whether such a call must be refused. */
static int break_tolerance(proof_case *c) {
    static const uint32_t floats[] = {0, 0x80000000, 0xbf800000, 0x7fc00000, 0x7f800000, 0xff800000, 0x00000001, 0x3f800000};
    attn_desc *d = &c->d;
    void *const taken[] = {d->o.data, d->lse, (void *)(uintptr_t)d->q.data, (void *)(uintptr_t)d->v.data};
    const uint64_t x = random_bits(&c->data);
    switch (x % 5) {
    case 4: memcpy(&d->quantile, &floats[x >> 8 & 7], 4); return (x >> 8 & 7) > 1 && (x >> 8 & 7) != 6;
    case 0: memcpy(&d->tolerance, &floats[x >> 8 & 7], 4); return (x >> 8 & 7) < 6;
    case 1: d->cert = (float *)taken[x >> 8 & 3]; return d->cert && inside(c, d->cert, 0, 4) && proof_lse_count(d) > 0;
    case 2: d->cert = NULL; return 0;
    default: d->statistics = NULL; return 0;
    }
}
/* A valid call with its tolerance: refused, and nothing written, or within its certificates. */
static void tolerances(proof_case *c, const proof_answer *a, int broken) {
    static const char *const backends[] = {"adaptive", "flash"};        /* with codes, and exact */
    attn_plan plan;
    for (int i = 0; i < COUNT(backends) && inside(c, c->cert, 0, proof_lse_count(&c->d) * 4); i++) {
        c->d.backend = backends[i];
        proof_tolerate(c, 1);
        proof_reset(c);
        if (proof_query(c, 0, &plan)) {
            if (proof_call(c, 0) == ATTN_OK) fault(c, "attn_forward takes what attn_query refuses");
            if (!all_untouched(c) || !told_untouched(c)) fault(c, "a refused call wrote");
            continue;
        }
        if (!broken) {
            const char *wrong = proof_run_tolerant(c, a, backends[i]);
            if (wrong) fault(c, wrong);
        }
        proof_tolerate(c, 1);
        proof_reset(c);
        const int refused = break_tolerance(c);
        const attn_status s = proof_call(c, 0);
        if (refused && s == ATTN_OK) fault(c, "a broken tolerance or cert is taken");
        if (s ? !all_untouched(c) || !told_untouched(c) : !proof_untouched(c, PROOF_IN)) fault(c, "a call with a broken tolerance wrote");
    }
    proof_tolerate(c, 0);
}
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    proof_rng r = {0, data, size};
    proof_case c;
    proof_answer a;
    attn_plan plan;
    const int64_t breaks = proof_int(&r, 0, 4);
    proof_tolerant = size && data[size - 1] % 16 == 0;
    proof_make(&c, &r, (int64_t)1 << (proof_tolerant ? 18 : 12));
    const attn_desc whole = c.d;
    int broken = 0;
    for (; r.left > 2 && broken < breaks; broken++) break_one(&c.d, &c, &r);
    c.d.message = whole.message, c.d.message_size = whole.message_size;     /* ours to give */
    c.d.workspace = NULL;
    if (broken) new_outputs(&c, 0);
    const int safe = contained(&c);
    if (!tables_inside(&c))                 /* not the library's to find out: the call goes without them */
        memset(&c.d.seq, 0, sizeof c.d.seq), c.d.append.cu = NULL;
    const attn_status asked = attn_query(&c.d, NULL, &plan);
    if (!all_untouched(&c)) fault(&c, "attn_query wrote");
    if (asked) {
        attn_status s = attn_forward(&c.d);
        if (!s) fault(&c, "attn_forward takes what attn_query refuses");
        if (!all_untouched(&c)) fault(&c, "a refused call wrote");
        /* accumulation is refused for a forward call alone */
        if (c.backward && attn_query(&c.d, &c.g, &plan) && attn_backward(&c.d, &c.g) == ATTN_OK)
            fault(&c, "attn_backward takes what attn_query refuses");
        if (!all_untouched(&c)) fault(&c, "a refused call wrote");
    } else if (safe) {
        attn_status s = proof_solve(&c, &a);
        proof_reset(&c);
        if (s && !all_untouched(&c)) fault(&c, "a refused call wrote");
        for (int i = 0; !s && attn_backend_at(i); i++) {
            c.d.backend = attn_backend_at(i)->name;
            if (attn_query(&c.d, NULL, &plan)) continue;
            proof_reset(&c);
            attn_status t = attn_forward(&c.d);
            /* proof_solve brought its own o and lse: those of a broken description may be refused */
            const char *wrong = !t ? compared(&c, &a, broken) : !broken ? attn_status_text(t) : all_untouched(&c) ? NULL : "a refused call wrote";
            if (wrong) fault(&c, wrong);
        }
        if (!s && c.tolerance > 0) tolerances(&c, &a, broken);
        proof_answer_free(&a);
        proof_reset(&c);
        if (!s && c.backward) gradients(&c, &r, broken);
    }
    proof_free(&c);
    return 0;
}
#ifdef FUZZ_MAIN
int main(int argc, char **argv) {
    static uint8_t bytes[1 << 16];
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (!f) { fprintf(stderr, "fuzz: cannot read %s\n", argv[i]); return 2; }
        size_t n = fread(bytes, 1, sizeof bytes, f);
        fclose(f);
        LLVMFuzzerTestOneInput(bytes, n);
    }
    printf("%d passed, 0 failed, 0 skipped\n", argc - 1);
    return 0;
}
#endif
