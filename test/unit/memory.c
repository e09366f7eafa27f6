/* memory.c - every allocation fails in turn, through the caller's allocator and through ATTN_MALLOC: the call says so, writes no
 * output, leaks nothing, and works the next time. */
#include "unit.h"

static const problem_case forward_case = { .b = 2, .sq = 40, .sk = 60, .h = 4, .hk = 2, .d = 32, .flags = ATTN_CAUSAL };

/* an allocator that fails at one of its calls and checks what is returned to it */
typedef struct arena { int64_t made, fail_at, alive; } arena;

static void *arena_get(void *user, size_t size, size_t align)
{
    arena *a = user;
    void *p = NULL;
    int64_t n = __atomic_add_fetch(&a->made, 1, __ATOMIC_RELAXED);
    if (align != 64) fail_msg("an alignment of %d", (int)align);        /* what vectors and cache lines want */
    if (n == a->fail_at || posix_memalign(&p, 64, size + 64)) return NULL;
    memcpy(p, &size, sizeof size);              /* kept in front: put must give the same size */
    __atomic_add_fetch(&a->alive, 1, __ATOMIC_RELAXED);
    return (char *)p + 64;
}

static void arena_put(void *user, void *p, size_t size)
{
    arena *a = user;
    if (!p) return;
    assert_memory_equal((char *)p - 64, &size, sizeof size);
    __atomic_sub_fetch(&a->alive, 1, __ATOMIC_RELAXED);
    free((char *)p - 64);
}

/* ------------------------------------------------------------------------------------------ the calls */
enum { FORWARD, BACKWARD, CONVERT, MERGE, PARALLEL };

typedef struct row { const char *name; int call; const char *backend; } row;
static const row rows[] = {
    { "reference forward", FORWARD, "reference" }, { "standard forward", FORWARD, "standard" },
    { "flash forward", FORWARD, "flash" },         { "automatic forward", FORWARD, NULL },
    { "reference backward", BACKWARD, "reference" }, { "standard backward", BACKWARD, "standard" },
    { "flash backward", BACKWARD, "flash" },       { "convert", CONVERT, NULL }, { "merge", MERGE, NULL },
};

static void touch_nothing(void *arg, int64_t i) { (void)arg, (void)i; }

static attn_status call(const row *r, problem *p)
{
    switch (r->call) {
    case FORWARD: return attn_forward(&p->d);
    case BACKWARD: return attn_backward(&p->d, &p->g);
    case MERGE: {
        attn_in o = p->g.dout;
        const float *lse = p->g.dlse;
        return attn_merge(&p->d, 1, &o, &lse);
    }
    case CONVERT: {
        int64_t shape[4] = { 2, 40, 4, 32 };
        return attn_convert(shape, p->d.q, p->d.o, &p->d);
    }
    default: return attn_parallel(&p->d, touch_nothing, NULL, 100);
    }
}

static size_t snapshot(const problem *p, char *to)      /* every byte that the call can reach */
{
    size_t n = 0;
    for (int i = 0; i < p->blocks; i++) {
        if (to) memcpy(to + n, p->block[i], p->size[i]);
        n += p->size[i];
    }
    return n;
}

static void every_failure(const row *r, int own)
{
    problem p = problem_make(&forward_case, 61);
    arena a = { 0, 0, 0 };
    attn_alloc alloc = { arena_get, arena_put, &a };
    char *before, *after, *good;
    size_t n;
    int64_t fail_at, failures = 0;
    attn_status s = ATTN_ERR_MEMORY;
    problem_grad(&p, 61);
    p.d.threads = 2;
    p.d.backend = r->backend;
    if (own) p.d.alloc = &alloc;
    n = snapshot(&p, NULL);
    before = malloc(n), after = malloc(n), good = malloc(n);
    attn_shutdown();
    if (r->call == BACKWARD) {
        attn_desc d = p.d;
        d.backend = "reference", d.alloc = NULL;
        assert_ok(attn_forward(&d));
    }
    snapshot(&p, before);
    assert_ok(call(r, &p));
    snapshot(&p, good);
    for (fail_at = 1; fail_at < 200; fail_at++) {
        int64_t alive;
        attn_shutdown();
        for (int i = 0, done = 0; i < p.blocks; done += (int)p.size[i], i++) memcpy(p.block[i], before + done, p.size[i]);
        alive = unit_alive;
        a.made = 0, a.fail_at = own ? fail_at : 0;
        unit_made = 0, unit_fail_at = own ? 0 : fail_at;
        s = call(r, &p);
        unit_fail_at = 0;
        snapshot(&p, after);
        if (s == ATTN_OK) assert_memory_equal(after, good, n);  /* without the threads that could not start, say */
        else {
            if (s != ATTN_ERR_MEMORY) fail_msg("%s", attn_status_name(s));
            assert_memory_equal(after, before, n);
            failures++;
        }
        attn_shutdown();
        assert_int_equal(a.alive, 0);
        assert_true(unit_alive <= alive);
        if ((own ? a.made : unit_made) < fail_at) break;        /* it did not come to that allocation */
    }
    assert_true(fail_at < 200 && s == ATTN_OK);
    print_message("%d allocations, %d refusals\n", (int)fail_at - 1, (int)failures);
    free(before);
    free(after);
    free(good);
    problem_free(&p);
}

static void test_own(void **state) { every_failure(*state, 1); }
static void test_default_malloc(void **state) { every_failure(*state, 0); }

/* A caller's allocator is the only one used: malloc is not called once the threads run. */
static void test_nothing_else(void **state)
{
    problem p = problem_make(&forward_case, 62);
    arena a = { 0, 0, 0 };
    attn_alloc alloc = { arena_get, arena_put, &a };
    int64_t made;
    (void)state;
    p.d.alloc = &alloc;
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = { "reference", "standard", "flash" };
        p.d.backend = names[i];
        assert_ok(attn_forward(&p.d));
        made = unit_made;
        assert_ok(attn_forward(&p.d));
        assert_int_equal(unit_made, made);
        assert_int_equal(a.alive, 0);
    }
    problem_free(&p);
}

/* A caller's workspace of exactly the size that the plan says: nothing behind it is written where keys are split among threads. */
static void test_behind_workspace(void **state)
{
    enum { BEHIND = 1 << 16 };
    static const problem_case c = { .b = 2, .sq = 8, .sk = 4096, .h = 3, .d = 16 };
    problem p = problem_make(&c, 63);
    attn_plan plan;
    char *room;
    (void)state;
    p.d.backend = "flash", p.d.threads = 2;
    assert_ok(attn_query(&p.d, NULL, &plan));
    assert_int_equal(posix_memalign((void **)&room, 64, plan.workspace_size + BEHIND), 0);
    memset(room + plan.workspace_size, 0x5a, BEHIND);
    p.d.workspace = room, p.d.workspace_size = plan.workspace_size;
    assert_ok(attn_forward(&p.d));
    for (int i = 0; i < BEHIND; i++) assert_int_equal(room[plan.workspace_size + (size_t)i], 0x5a);
    free(room);
    problem_free(&p);
}

/* The bound of packed sequences may be far above them: what is planned, and done, is as for the longest that there can be. */
static void test_packed_bound(void **state)
{
    static const int64_t bound[] = { 70, INT32_MAX };
    static float x[70 * 2 * 32], o[2][70 * 2 * 32], lse[2 * 70], gradient[3][70 * 2 * 32];
    static const int32_t cu[] = { 0, 30, 70 };
    size_t size[2][2];
    uint64_t r = 3;
    (void)state;
    for (size_t i = 0; i < COUNT(x); i++) x[i] = (float)random_gauss(&r);
    for (int n = 0; n < 2; n++) {
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        attn_plan plan;
        d.batch = d.heads = 2, d.q_len = bound[n], d.kv_len = 70, d.head_dim = 32, d.seq.cu_q = d.seq.cu_k = cu, d.seq.total_q = d.seq.total_k = 70;
        d.q.data = d.k.data = d.v.data = x, d.o.data = o[n], d.lse = lse, d.backend = "flash";
        g.dout.data = x, g.dq.data = gradient[0], g.dk.data = gradient[1], g.dv.data = gradient[2];
        for (int backward = 0; backward < 2; backward++) {
            assert_ok(attn_query(&d, backward ? &g : NULL, &plan));
            size[n][backward] = plan.workspace_size;
            assert_ok(backward ? attn_backward(&d, &g) : attn_forward(&d));
        }
    }
    assert_memory_equal(size[0], size[1], sizeof size[0]);
    assert_memory_equal(o[0], o[1], sizeof o[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_nothing_else), cmocka_unit_test(test_behind_workspace),
        cmocka_unit_test(test_packed_bound) };
    return run_rows("caller's allocator", rows, COUNT(rows), sizeof rows[0], test_own)
         + run_rows("ATTN_MALLOC", rows, COUNT(rows), sizeof rows[0], test_default_malloc)
         + cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
