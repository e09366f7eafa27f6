/* unit.h - what the unit tests share: cmocka, problems made from rows of a case table, and a backend beside the reference. */
#ifndef UNIT_H
#define UNIT_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "check.h"

#define COUNT(a) ((int64_t)(sizeof(a) / sizeof((a)[0])))
/* 1 in a build with sanitizers, which is thirty times slower: what takes minutes there is left to the others */
#if defined __has_feature
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif
/* in an emulator, which is ten times slower, too */
#define EMULATED (getenv("UNIT_AGAIN") != NULL)
#define SLOW (SANITIZED || EMULATED)

SHARED int dtype_after(int dtype, int steps) { return dtype == ATTN_F64 ? dtype : (dtype + steps) % 3; }

/* ------------------------------------------------------------------------------------------ memory
 * Every tensor has its own block of the exact size, so that a sanitizer sees the first byte beyond. guard.c replaces get and put. */
SHARED void *plain_get(size_t size) { return calloc(1, size ? size : 1); }
SHARED void plain_put(void *p, size_t size) { (void)size; free(p); }
SHARED void *(*unit_get)(size_t size) = plain_get;
SHARED void (*unit_put)(void *p, size_t size) = plain_put;

/* ------------------------------------------------------------------------------------------ problems */
enum { HAS = 1, ONE_BATCH = 2, ONE_HEAD = 4, ONE_QUERY = 8 };   /* of bias and mask: present, and broadcast over .. */

typedef struct problem_case {
    const char *name;
    int64_t b, sq, sk, h, hk, d, dv;            /* hk, dv: 0 as in attn_desc */
    uint32_t flags;
    int64_t offset, left, right;
    float scale, softcap, dropout;
    int bias, mask, alibi, sink;
    int q, kv, o, bias_t;                       /* dtypes */
    int other_v;                                /* 1: v is of the type after that of k, of f32, f16, bf16; 2: of the one after that */
    int other_grads;                            /* 1: dout, dq, dk, dv are of the type after that of o, q, k, v; 2: likewise */
    int layout;
    int64_t gap;                                /* unused elements between tokens */
    double amplitude;                           /* of q and k; 0: 1 */
} problem_case;

typedef struct problem {
    attn_desc d;
    attn_grad g;
    int64_t hk, dv, gap;
    int other_grads;
    void *block[32];
    size_t size[32];
    int blocks;
} problem;

SHARED void *problem_get(problem *p, int64_t n, int dtype)
{
    size_t size = (size_t)(n * dtype_size(dtype));
    assert_true(p->blocks < 32);
    p->size[p->blocks] = size;
    p->block[p->blocks] = unit_get(size);
    assert_non_null(p->block[p->blocks]);
    return p->block[p->blocks++];
}

/* {batch, token, head} strides with `gap` unused elements after each row of heads (BSHD) or of elements (BHSD) */
SHARED void spaced(int64_t stride[3], int layout, int64_t s, int64_t h, int64_t d, int64_t gap)
{
    stride[1] = layout == ATTN_BHSD ? d + gap : h * d + gap;
    stride[2] = layout == ATTN_BHSD ? s * (d + gap) : d;
    stride[0] = layout == ATTN_BHSD ? h * stride[2] : s * stride[1];
}

SHARED void dense(int64_t stride[3], int layout, int64_t s, int64_t h, int64_t d) { spaced(stride, layout, s, h, d, 0); }

SHARED int64_t extent(const int64_t stride[3], int64_t b, int64_t s, int64_t h, int64_t d)
{
    return b * s * h * d != 0 ? (b - 1) * stride[0] + (s - 1) * stride[1] + (h - 1) * stride[2] + d : 0;
}

SHARED void fill(void *data, int dtype, int64_t n, double amplitude, uint64_t *r)
{
    for (int64_t i = 0; i < n; i++) element_put(data, dtype, i, amplitude * random_gauss(r));
}

SHARED int64_t at(const int64_t stride[3], int64_t b, int64_t s, int64_t h)
{
    int64_t i = 0;
    if (stride[0] != ATTN_BROADCAST) i += b * stride[0];
    if (stride[1] != ATTN_BROADCAST) i += s * stride[1];
    if (stride[2] != ATTN_BROADCAST) i += h * stride[2];
    return i;
}

/* Random values; the gaps hold NaN (bytes of 0xff in every dtype), which nobody may use. */
SHARED void in_random(problem *p, attn_in *t, int dtype, int layout, int64_t b, int64_t s, int64_t h, int64_t d, double amplitude,
                    uint64_t *r)
{
    int64_t n;
    void *data;
    spaced(t->stride, layout, s, h, d, p->gap);
    n = extent(t->stride, b, s, h, d);
    data = problem_get(p, n, dtype);
    memset(data, 0xff, (size_t)(n * dtype_size(dtype)));
    for (int64_t i = 0; i < b * s * h; i++)
        for (int64_t c = 0; c < d; c++)
            element_put(data, dtype, at(t->stride, i / h / s, i / h % s, i % h) + c, amplitude * random_gauss(r));
    t->data = data;
    t->dtype = dtype;
    t->layout = layout;
}

SHARED void out_empty(problem *p, attn_out *t, int dtype, int layout, int64_t b, int64_t s, int64_t h, int64_t d)
{
    int64_t n;
    spaced(t->stride, layout, s, h, d, p->gap);
    n = extent(t->stride, b, s, h, d);
    t->data = problem_get(p, n, dtype);
    memset(t->data, 0x5a, (size_t)(n * dtype_size(dtype)));
    t->dtype = dtype;
    t->layout = layout;
}

/* bias or mask [batch, heads, q_len, kv_len] with the dimensions in `how` broadcast; returns its number of elements */
SHARED int64_t scores_strides(int64_t stride[3], const problem_case *c, int how)
{
    int64_t n = c->sk;
    stride[2] = how & ONE_QUERY ? ATTN_BROADCAST : n;
    n *= how & ONE_QUERY ? 1 : c->sq;
    stride[1] = how & ONE_HEAD ? ATTN_BROADCAST : n;
    n *= how & ONE_HEAD ? 1 : c->h;
    stride[0] = how & ONE_BATCH ? ATTN_BROADCAST : n;
    return n * (how & ONE_BATCH ? 1 : c->b);
}

SHARED problem problem_make(const problem_case *c, uint64_t seed)
{
    problem p;
    uint64_t r = seed;
    int64_t hk = c->hk ? c->hk : c->h, dv = c->dv ? c->dv : c->d, n;
    double amplitude = c->amplitude > 0 ? c->amplitude : 1;
    memset(&p, 0, sizeof p);
    p.hk = hk;
    p.dv = dv;
    p.gap = c->gap;
    p.other_grads = c->other_grads;
    p.d.batch = c->b;
    p.d.q_len = c->sq;
    p.d.kv_len = c->sk;
    p.d.heads = c->h;
    p.d.kv_heads = c->hk;
    p.d.head_dim = c->d;
    p.d.v_dim = c->dv;
    p.d.flags = c->flags;
    p.d.offset = c->offset;
    p.d.window_left = c->left;
    p.d.window_right = c->right;
    p.d.scale = c->scale;
    p.d.softcap = c->softcap;
    p.d.dropout = c->dropout;
    p.d.seed = c->dropout > 0 ? 42 : 0;
    in_random(&p, &p.d.q, c->q, c->layout, c->b, c->sq, c->h, c->d, amplitude, &r);
    in_random(&p, &p.d.k, c->kv, c->layout, c->b, c->sk, hk, c->d, amplitude, &r);
    in_random(&p, &p.d.v, dtype_after(c->kv, c->other_v), c->layout, c->b, c->sk, hk, dv, 1, &r);
    out_empty(&p, &p.d.o, c->o, c->layout, c->b, c->sq, c->h, dv);
    p.d.lse = problem_get(&p, c->b * c->h * c->sq, ATTN_F32);
    if (c->bias) {
        void *data;
        n = scores_strides(p.d.bias.stride, c, c->bias);
        data = problem_get(&p, n, c->bias_t);
        fill(data, c->bias_t, n, 1, &r);
        p.d.bias.data = data;
        p.d.bias.dtype = c->bias_t;
    }
    if (c->mask) {
        unsigned char *data;
        n = scores_strides(p.d.mask.stride, c, c->mask);
        data = problem_get(&p, n, ATTN_BOOL);
        for (int64_t i = 0; i < n; i++) data[i] = random_bits(&r) % 4 ? (unsigned char)(1u << random_bits(&r) % 8) : 0;
        p.d.mask.data = data;
        p.d.mask.dtype = ATTN_BOOL;
    }
    if (c->alibi) {
        float *slope = problem_get(&p, c->h, ATTN_F32);
        for (int64_t i = 0; i < c->h; i++) slope[i] = ldexpf(1, -(int)(i % 8) - 1);
        p.d.alibi = slope;
    }
    if (c->sink) {
        float *sink = problem_get(&p, c->h, ATTN_F32);
        for (int64_t i = 0; i < c->h; i++) sink[i] = (float)(rint(256 * random_gauss(&r)) / 256);
        p.d.sink = sink;
    }
    return p;
}

/* dout, dlse, and room for every gradient that the problem has */
SHARED void problem_grad(problem *p, uint64_t seed)
{
    uint64_t r = seed ^ 0xd0;
    attn_desc *d = &p->d;
    int64_t rows = d->batch * d->heads * d->q_len;
    const int other = p->other_grads;
    float *dlse;
    in_random(p, &p->g.dout, dtype_after(d->o.dtype, other), d->o.layout, d->batch, d->q_len, d->heads, p->dv, 1, &r);
    dlse = problem_get(p, rows, ATTN_F32);
    fill(dlse, ATTN_F32, rows, 1, &r);
    p->g.dlse = dlse;
    out_empty(p, &p->g.dq, dtype_after(d->q.dtype, other), d->q.layout, d->batch, d->q_len, d->heads, d->head_dim);
    out_empty(p, &p->g.dk, dtype_after(d->k.dtype, other), d->k.layout, d->batch, d->kv_len, p->hk, d->head_dim);
    out_empty(p, &p->g.dv, dtype_after(d->v.dtype, other), d->v.layout, d->batch, d->kv_len, p->hk, p->dv);
    if (d->bias.data) {
        int64_t n = d->kv_len;
        n *= d->bias.stride[2] == ATTN_BROADCAST ? 1 : d->q_len;
        n *= d->bias.stride[1] == ATTN_BROADCAST ? 1 : d->heads;
        n *= d->bias.stride[0] == ATTN_BROADCAST ? 1 : d->batch;
        p->g.dbias = problem_get(p, n, ATTN_F32);
    }
    if (d->sink) p->g.dsink = problem_get(p, d->heads, ATTN_F32);
}

SHARED void problem_free(problem *p)
{
    while (p->blocks--) unit_put(p->block[p->blocks], p->size[p->blocks]);
}

SHARED void assert_ok(attn_status s)
{
    if (s != ATTN_OK) fail_msg("%s: %s", attn_status_name(s), attn_status_text(s));
}

/* attn_pool.run of a host that runs tasks from the last to the first */
SHARED void backwards(void *user, void (*task)(void *arg, int64_t i), void *arg, int64_t n)
{
    (void)user;
    while (n > 0) task(arg, --n);
}

SHARED double max_abs(const void *data, int dtype, int64_t n)     /* of the finite ones: gaps are NaN */
{
    double m = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(element_get(data, dtype, i))) m = fmax(m, fabs(element_get(data, dtype, i)));
    return m;
}

/* ------------------------------------------------------------------------------------------ how exact is right
 * Compares p->d.o and p->d.lse, as a backend left them, with the reference in f64. u_p: unit roundoff to which that backend rounds
 * the probabilities, 0 if they stay f32. */
SHARED void assert_as_reference(const problem *p, double u_p)
{
    attn_desc d = p->d;
    int64_t rows = d.batch * d.heads * d.q_len, n = rows * p->dv;
    double *o = calloc((size_t)n + 1, 8), *bound = calloc((size_t)n + 1, 8), *pv = calloc((size_t)n + 1, 8);
    double *bound_lse = calloc((size_t)rows + 1, 8);
    float *lse = calloc((size_t)rows + 1, 4);
    double v_max = max_abs(d.v.data, d.v.dtype, extent(d.v.stride, d.batch, d.kv_len, p->hk, p->dv)), worst = 0;
    const char *fault = NULL;
    char text[160] = "";
    d.o.data = o;
    d.o.dtype = ATTN_F64;
    dense(d.o.stride, ATTN_BSHD, d.q_len, d.heads, p->dv);
    d.lse = lse;
    d.backend = "reference";
    assert_ok(unit_bounds(&d, bound, pv, bound_lse));       /* writes o and lse as well: not those that are compared */
    for (int64_t b = 0; b < d.batch; b++)
    for (int64_t h = 0; h < d.heads; h++)
    for (int64_t i = 0; i < d.q_len; i++) {
        int64_t row = (b * d.heads + h) * d.q_len + i;
        double got = p->d.lse[row], want = lse[row], allowed;
        allowed = allowed_lse(want, bound_lse[row]);
        if (isinf(want) ? got != want : !(fabs(got - want) <= allowed)) {
            fault = "lse";
            snprintf(text, sizeof text, "lse[%d,%d,%d] = %.9g, not %.9g +- %.2g", (int)b, (int)h, (int)i, got, want, allowed);
        }
        for (int64_t c = 0; c < p->dv; c++) {
            int64_t e = ((b * d.q_len + i) * d.heads + h) * p->dv + c;
            got = element_get(p->d.o.data, p->d.o.dtype, at(p->d.o.stride, b, i, h) + c);
            want = o[e];
            allowed = allowed_o(p->d.o.dtype, want, bound[e], pv[e], u_p, v_max);
            if (!(fabs(got - want) <= allowed)) {
                fault = "o";
                snprintf(text, sizeof text, "o[%d,%d,%d,%d] = %.9g, not %.9g +- %.2g", (int)b, (int)i, (int)h, (int)c, got, want,
                         allowed);
            }
            worst = fmax(worst, fabs(got - want) / allowed);
        }
    }
    free(o);
    free(bound);
    free(pv);
    free(bound_lse);
    free(lse);
    if (fault) fail_msg("%s (worst %.2f of the allowed)", text, worst);
}

/* This program anew in place of the process; UNIT_AGAIN is the command where an emulator runs it. */
SHARED void unit_again(const char *name, const char *argument)
{
    if (getenv("UNIT_AGAIN")) execl("/bin/sh", "sh", "-c", "exec $UNIT_AGAIN \"$1\"", name, argument, (char *)NULL);
    execl("/proc/self/exe", name, argument, (char *)NULL);
}

/* ------------------------------------------------------------------------------------------ a test for each row of a table */
SHARED int run_rows(const char *group, const void *rows, int64_t n, size_t row_size, CMUnitTestFunction test)
{
    struct CMUnitTest *tests = calloc((size_t)n, sizeof *tests);
    int failed;
    for (int64_t i = 0; i < n; i++) {
        const char *row = (const char *)rows + (size_t)i * row_size;
        memcpy(&tests[i].name, row, sizeof tests[i].name);          /* the first member of a row is its name */
        tests[i].test_func = test;
        tests[i].initial_state = (void *)(uintptr_t)row;
    }
    failed = _cmocka_run_group_tests(group, tests, (size_t)n, NULL, NULL);
    free(tests);
    return failed;
}
#define RUN_ROWS(rows, test) run_rows(#rows, rows, COUNT(rows), sizeof (rows)[0], test)

#endif
