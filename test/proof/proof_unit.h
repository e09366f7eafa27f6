/* proof_unit.h - what the unit tests among the proofs share: cmocka, memory freed at the end of a test, contiguous problems. */
#ifndef PROOF_UNIT_H
#define PROOF_UNIT_H
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "proof.h"

static void *blocks[256];
static int n_blocks;
static uint64_t values = 7;

SHARED void *get(int64_t n, size_t size) {               /* freed at the end of the test */
    void *p = calloc((size_t)(n > 0 ? n : 1), size);
    assert_true(p && n_blocks < 256);
    return blocks[n_blocks++] = p;
}
SHARED int teardown(void **state) {
    (void)state;
    while (n_blocks) free(blocks[--n_blocks]);
    return 0;
}
SHARED void *random_of(int32_t dtype, int64_t n) {
    void *p = get(n, dtype_size(dtype));
    for (int64_t i = 0; i < n; i++) element_put(p, dtype, i, random_normal(&values));
    return p;
}
SHARED float *floats(int64_t n) { return (float *)random_of(ATTN_F32, n); }
SHARED int32_t *ints(int64_t n, const int32_t *from) {
    int32_t *p = (int32_t *)get(n, 4);
    memcpy(p, from, (size_t)n * 4);
    return p;
}
SHARED void ok(attn_status s) {
    if (s) fail_msg("%s: %s", attn_status_name(s), attn_status_text(s));
}
SHARED void near_(double got, double want, double allowed, const char *what) {
    if (!is_finite(got) || !(fabs(got - want) <= allowed)) fail_msg("%s: %.17g, not %.17g +- %.3g", what, got, want, allowed);
}
/* o f64 and an lse for a description that has none */
SHARED void give_outputs(attn_desc *d) {
    int64_t rows = proof_lse_count(d);
    memset(&d->o, 0, sizeof d->o);
    d->o.dtype = ATTN_F64;
    d->o.data = get(rows * proof_v_dim(d), 8);
    d->lse = (float *)get(rows, 4);
    d->backend = "reference";
}
/* contiguous q, k, v of one type; o in f64 */
SHARED attn_desc problem(int64_t batch, int64_t q_len, int64_t kv_len, int64_t heads, int64_t kv_heads, int64_t dim, int64_t v_dim, int32_t dtype) {
    attn_desc d;
    memset(&d, 0, sizeof d);
    d.batch = batch, d.q_len = q_len, d.kv_len = kv_len, d.heads = heads, d.kv_heads = kv_heads, d.head_dim = dim, d.v_dim = v_dim;
    d.q.dtype = d.k.dtype = d.v.dtype = dtype;
    d.q.data = random_of(dtype, batch * q_len * heads * dim);
    d.k.data = random_of(dtype, batch * kv_len * kv_heads * dim);
    d.v.data = random_of(dtype, batch * kv_len * kv_heads * v_dim);
    give_outputs(&d);
    return d;
}
SHARED void same_bytes(const void *a, const void *b, size_t n, const char *what) {
    if (memcmp(a, b, n)) fail_msg("%s differ", what);
}
SHARED const void *offset_in(const void *p, int64_t n, int32_t dtype) { return (const char *)p + n * (int64_t)dtype_size(dtype); }

/* tests of a group, in a table that main fills */
#define TEST(f) {#f, f, NULL, teardown, NULL}
#define WITH(f, name, state) {name, f, NULL, teardown, (void *)(uintptr_t)(state)}
#endif
