/* alloc.c - memory: no allocation with a workspace from the second call on, attn_query's size enough to the byte and one byte
 * less refused, every allocation failing in turn survived. Linked with --wrap for every allocating function of libc, so that
 * whatever the library calls is counted. */
#define _GNU_SOURCE
#include "proof_unit.h"
#include <sys/mman.h>
#include <unistd.h>

static int64_t allocations;                              /* by any thread */
#define WRAP(type, name, params, args) \
    type __real_##name params; \
    type __wrap_##name params; \
    type __wrap_##name params { __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED); return __real_##name args; }
WRAP(void *, malloc, (size_t n), (n))
WRAP(void *, calloc, (size_t n, size_t m), (n, m))
WRAP(void *, realloc, (void *p, size_t n), (p, n))
WRAP(void *, aligned_alloc, (size_t a, size_t n), (a, n))
WRAP(int, posix_memalign, (void **p, size_t a, size_t n), (p, a, n))
WRAP(void *, mmap, (void *p, size_t n, int r, int f, int fd, off_t at), (p, n, r, f, fd, at))

/* n bytes, 64-byte aligned, whose end lies less than 64 bytes before an unreadable page; the page before is unreadable too */
typedef struct guarded { char *all, *p; size_t bytes; } guarded;
static guarded guard(size_t n) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (n + page - 1) / page * page + page;
    guarded g;
    g.bytes = body + 2 * page;
    g.all = (char *)mmap(NULL, g.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.all != MAP_FAILED);
    assert_int_equal(mprotect(g.all + page, body, PROT_READ | PROT_WRITE), 0);
    g.p = g.all + page + body - (n + 63) / 64 * 64;
    memset(g.all + page, 0xa5, body);
    return g;
}
/* the slack of less than 64 bytes that a guard page cannot watch */
static void unguard(guarded *g, size_t n) {
    for (size_t i = n; i % 64; i++) assert_int_equal((unsigned char)g->p[i], 0xa5);
    munmap(g->all, g->bytes);
}

static void workspace(void **state) {
    int checked = 0, with_workspace = 0;
    (void)state;
    for (int64_t n = 0; n < 120; n++) {
        proof_rng r = {(uint64_t)n * 271 + 9, NULL, 0};
        proof_case c;
        proof_make(&c, &r, (int64_t)1 << 17);
        attn_desc *d = &c.d;
        d->threads = (int32_t)(n % 3) + 1;
        for (int i = 0; attn_backend_at(i); i++)
            for (int backward = 0; backward <= c.backward; backward++) {
                attn_plan plan, again;
                d->backend = attn_backend_at(i)->name, d->workspace = NULL, d->workspace_size = 0;
                if (proof_query(&c, backward, &plan)) continue;
                ok(proof_query(&c, backward, &again));
                assert_true(again.workspace_size == plan.workspace_size);
                proof_reset(&c);
                if (backward) {
                    attn_desc forward = *d;
                    forward.backend = "reference";
                    ok(attn_forward(&forward));
                }
                if (!plan.workspace_size) {              /* then there is nothing to allocate at all */
                    ok(proof_call(&c, backward));
                    int64_t before = allocations;
                    ok(proof_call(&c, backward));
                    if (allocations != before) fail_msg("case %d, %s: %d allocations without a workspace", (int)n, d->backend, (int)(allocations - before));
                    checked++;
                    continue;
                }
                guarded w = guard(plan.workspace_size);
                d->workspace = w.p, d->workspace_size = plan.workspace_size;
                ok(proof_call(&c, backward));
                int64_t before = allocations;
                ok(proof_call(&c, backward));
                if (allocations != before) fail_msg("case %d, %s: %d allocations in spite of a workspace", (int)n, d->backend, (int)(allocations - before));
                proof_reset(&c);
                d->workspace_size--;
                assert_int_equal(proof_call(&c, backward), ATTN_ERR_WORKSPACE_SMALL);
                assert_true(proof_untouched(&c, PROOF_OUT) && proof_untouched(&c, PROOF_CACHE));
                d->workspace_size++;
                d->workspace = w.p + 32;                 /* refused before it is touched */
                assert_int_equal(proof_call(&c, backward), ATTN_ERR_WORKSPACE_ALIGN);
                assert_true(proof_untouched(&c, PROOF_OUT) && proof_untouched(&c, PROOF_CACHE));
                unguard(&w, plan.workspace_size);
                checked++, with_workspace++;
            }
        d->workspace = NULL, d->workspace_size = 0;
        proof_free(&c);
    }
    if (checked < 100 || !with_workspace) fail_msg("only %d checked, %d with a workspace", checked, with_workspace);
}
/* The backend for calls with a tolerance gets one; it takes no backward and nothing small. */
static int takes(attn_desc *d, int backward) {
    attn_plan plan;
    if (strcmp(d->backend, "adaptive")) return 1;
    d->tolerance = 0.01f;
    return !backward && attn_query(d, NULL, &plan) != ATTN_ERR_DECLINED;
}
/* the size is the same for every content, and does not shrink as a length grows */
static void never_shrinks(void **state) {
    int grown = 0;
    (void)state;
    for (int i = 0; attn_backend_at(i); i++)
        for (int which = 0; which < 4; which++)          /* q_len beside few and many keys, kv_len beside many rows and one */
            for (int backward = 0; backward < 2; backward++)
                for (int causal = 0; causal < 2; causal++) {
                    size_t last = 0;
                    for (int64_t n = 0; n < 5000; n += n < 300 ? 1 : 61) {
                        attn_desc d;
                        attn_grad g;
                        attn_plan plan;
                        memset(&d, 0, sizeof d), memset(&g, 0, sizeof g);
                        d.batch = 2, d.heads = 4, d.head_dim = 64, d.q_len = which < 2 ? n : which == 2 ? 77 : 1;
                        d.kv_len = which == 0 ? 77 : which == 1 ? 5000 : n, d.kv_heads = 2;
                        d.flags = causal ? ATTN_CAUSAL : 0, d.backend = attn_backend_at(i)->name, d.threads = 4;
                        if (!takes(&d, backward)) continue;
                        ok(attn_query(&d, backward ? &g : NULL, &plan));
                        if (plan.workspace_size < last) fail_msg("%s: the workspace shrinks, q_len %d kv_len %d", d.backend, (int)d.q_len, (int)d.kv_len);
                        grown += plan.workspace_size > last;
                        last = plan.workspace_size;
                    }
                }
    assert_true(grown > 1000);
}
/* nor does it as one of several packed sequences grows */
/* The same where few queries are decoded with a tolerance, and more are not. */
static void never_shrinks_decoded(void **state) {
    static const int dims[] = {64, 96, 256};
    static const float scale = 1;
    (void)state;
    for (int n = 0; n < 3 * 3 * 2 * 2; n++) {
        const int64_t group = 1 + 2 * (n / 3 % 3);
        attn_desc d = {0};
        attn_plan plan;
        size_t last = 0;
        d.batch = 1 + n / 18 % 2 * 2, d.kv_heads = 2, d.heads = 2 * group, d.head_dim = dims[n % 3], d.kv_len = n / 9 % 2 ? 8192 : 2048;
        d.threads = 3, d.tolerance = 0.01f;
        d.k.dtype = d.v.dtype = ATTN_INT16, d.k.scale = d.v.scale = &scale;
        for (d.q_len = 0; d.q_len <= 240; d.q_len += d.q_len < 20 ? 1 : 20) {
            assert_int_equal(attn_query(&d, NULL, &plan), ATTN_OK);
            if (plan.workspace_size < last)
                fail_msg("%s: the workspace shrinks, head_dim %d, groups of %d, q_len %d", plan.kernel, (int)d.head_dim, (int)group, (int)d.q_len);
            last = plan.workspace_size;
        }
    }
}

static void never_shrinks_packed(void **state) {
    enum { SEQUENCES = 8 };
    int32_t cu[SEQUENCES + 1];
    int checked = 0;
    (void)state;
    for (int i = 0; attn_backend_at(i); i++)
        for (int64_t dim = 1; dim < 80; dim += dim < 17 ? 1 : 31)
            for (int threads = 1; threads <= SEQUENCES; threads *= 2)
                for (int backward = 0; backward < 2; backward++) {
                    size_t last = 0;
                    for (int32_t n = 1; n < 600; n += n < 9 ? 1 : 97) {
                        attn_desc d;
                        attn_grad g;
                        attn_plan plan;
                        memset(&d, 0, sizeof d), memset(&g, 0, sizeof g);
                        for (int b = 0; b <= SEQUENCES; b++) cu[b] = b ? n + b - 1 : 0;
                        d.batch = SEQUENCES, d.heads = 1, d.head_dim = dim, d.q_len = n, d.kv_len = 77, d.seq.cu_q = cu, d.seq.total_q = cu[SEQUENCES];
                        d.backend = attn_backend_at(i)->name, d.threads = threads;
                        if (!takes(&d, backward)) continue;
                        ok(attn_query(&d, backward ? &g : NULL, &plan));
                        if (plan.workspace_size < last)
                            fail_msg("%s: the workspace shrinks, head_dim %d, %d threads, a sequence of %d", d.backend, (int)dim, threads, (int)n);
                        last = plan.workspace_size, checked++;
                    }
                }
    assert_true(checked > 1000);
}
/* the k-th allocation fails, k = 1, 2, .. until a call gets by with fewer */
static int64_t given, given_alive, given_fail_at;
static void *give(void *user, size_t size, size_t align) {
    void *p = NULL;
    (void)user;
    if (++given == given_fail_at || posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, size ? size : 1)) return NULL;
    given_alive++;
    return p;
}
static void take_back(void *user, void *p, size_t size) {
    (void)user, (void)size;
    if (p) given_alive--;
    free(p);
}
static void failing(void **state) {
    const attn_alloc mine = {give, take_back, NULL};
    int refused = 0;
    (void)state;
    for (int64_t n = 0; n < 60; n++) {
        proof_rng r = {(uint64_t)n * 577 + 1, NULL, 0};
        proof_case c;
        proof_make(&c, &r, (int64_t)1 << 15);
        for (int i = 0; attn_backend_at(i); i++)
            for (int own = 0; own < 2; own++)
                for (int backward = 0; backward <= c.backward; backward++) {
                    attn_plan plan;
                    c.d.backend = attn_backend_at(i)->name, c.d.alloc = own ? &mine : NULL;
                    if (proof_query(&c, backward, &plan)) continue;
                    for (int64_t k = 1; k < 1000; k++) {
                        attn_shutdown();                 /* so that the pool's own memory is among them */
                        const int64_t alive = unit_alive;
                        proof_reset(&c);
                        unit_made = given = 0, *(own ? &given_fail_at : &unit_fail_at) = k;
                        attn_status s = proof_call(&c, backward);
                        const int64_t made = own ? given : unit_made;
                        unit_fail_at = given_fail_at = 0;
                        attn_shutdown();
                        if (unit_alive != alive || given_alive) fail_msg("case %d, %s: allocation %d failed and memory leaked", (int)n, c.d.backend, (int)k);
                        if (s) {
                            assert_int_equal(s, ATTN_ERR_MEMORY);
                            assert_true(proof_untouched(&c, PROOF_OUT) && proof_untouched(&c, PROOF_CACHE));
                            refused++;
                        }
                        if (made < k) { ok(s); break; }
                    }
                }
        c.d.alloc = NULL;
        proof_free(&c);
    }
    assert_true(refused > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(workspace), TEST(never_shrinks), TEST(never_shrinks_decoded), TEST(never_shrinks_packed), TEST(failing)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    attn_shutdown();
    return failed;
}
