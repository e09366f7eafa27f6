/* parallel.c - the same bits for any number of threads and the caller's own, and attn_parallel as its equivalent loop. */
#include "unit.h"
#include <pthread.h>

static const problem_case rows[] = {
    { .name = "causal GQA", .b = 2, .sq = 150, .sk = 170, .h = 4, .hk = 2, .d = 64, .flags = ATTN_CAUSAL },
    { .name = "one long row", .b = 1, .sq = 1, .sk = 3000, .h = 2, .hk = 1, .d = 64 },
    { .name = "one head", .b = 1, .sq = 270, .sk = 270, .h = 1, .d = 40, .dv = 24 },
    { .name = "window", .b = 3, .sq = 90, .sk = 130, .h = 3, .d = 32, .flags = ATTN_WINDOW_LEFT, .left = 20 },
    { .name = "bias, sink, softcap", .b = 2, .sq = 50, .sk = 70, .h = 4, .hk = 2, .d = 32, .bias = HAS | ONE_BATCH, .sink = 1,
      .softcap = 5 },
    { .name = "bf16", .b = 2, .sq = 100, .sk = 120, .h = 4, .hk = 2, .d = 64, .q = ATTN_BF16, .kv = ATTN_BF16, .o = ATTN_BF16 },
};

/* A pool of the caller: threads started for each call, tasks handed out from the last to the first. */
typedef struct job { void (*task)(void *arg, int64_t i); void *arg; int64_t next; } job;
static int64_t pool_calls;

static void *worker(void *p)
{
    job *j = p;
    int64_t i;
    while ((i = __atomic_sub_fetch(&j->next, 1, __ATOMIC_RELAXED)) >= 0) j->task(j->arg, i);
    return NULL;
}

static void run(void *user, void (*task)(void *arg, int64_t i), void *arg, int64_t n)
{
    job j = { task, arg, n };
    pthread_t t[3];
    int k = 0;
    ++*(int64_t *)user;
    while (k < 3 && !pthread_create(&t[k], NULL, worker, &j)) k++;
    worker(&j);
    while (k--) pthread_join(t[k], NULL);
}

/* all outputs of a forward and a backward call, one after the other */
static int64_t results(const problem *p, char *out, int back)
{
    const attn_desc *d = &p->d;
    const struct { const void *data; int64_t bytes; } part[] = {
        { d->o.data, extent(d->o.stride, d->batch, d->q_len, d->heads, p->dv) * dtype_size(d->o.dtype) },
        { d->lse, d->batch * d->heads * d->q_len * 4 },
        { back ? p->g.dq.data : NULL, extent(p->g.dq.stride, d->batch, d->q_len, d->heads, d->head_dim) * dtype_size(d->q.dtype) },
        { back ? p->g.dk.data : NULL, extent(p->g.dk.stride, d->batch, d->kv_len, p->hk, d->head_dim) * dtype_size(d->k.dtype) },
        { back ? p->g.dv.data : NULL, extent(p->g.dv.stride, d->batch, d->kv_len, p->hk, p->dv) * dtype_size(d->v.dtype) },
        { back ? p->g.dbias : NULL, d->heads * d->q_len * d->kv_len * 4 },
        { back ? p->g.dsink : NULL, d->heads * 4 },
    };
    int64_t n = 0;
    for (int64_t i = 0; i < COUNT(part); i++)
        if (part[i].data) {
            if (out) memcpy(out + n, part[i].data, (size_t)part[i].bytes);
            n += part[i].bytes;
        }
    return n;
}

static void test_row(void **state)
{
    static const int threads[] = { 1, 2, 3, 5, 8, 0 };
    attn_pool pool = { run, &pool_calls, 4 };
    for (int i = 0; attn_backend_at(i); i++)
        for (int back = 0; back < 2 && strcmp(attn_backend_at(i)->name, "adaptive"); back++) {  /* it needs a tolerance, and more rows */
            problem p = problem_make(*state, 51);
            attn_plan plan;
            char *first, *now;
            int64_t n;
            problem_grad(&p, 51);
            p.d.backend = attn_backend_at(i)->name;
            if (attn_query(&p.d, back ? &p.g : NULL, &plan)) fail_msg("%s declines: %s", p.d.backend, plan.why);
            n = results(&p, NULL, back);
            first = malloc((size_t)n);
            now = malloc((size_t)n);
            for (int64_t t = 0; t <= COUNT(threads); t++) {
                p.d.threads = t < COUNT(threads) ? threads[t] : 0;
                p.d.pool = t < COUNT(threads) ? NULL : &pool;
                for (int again = 0; again < (t ? 1 : 2); again++) {
                    if (!back) assert_ok(attn_forward(&p.d));
                    else {
                        if (t + again == 0) assert_ok(attn_forward(&p.d));
                        assert_ok(attn_backward(&p.d, &p.g));
                    }
                    results(&p, t + again ? now : first, back);
                    if (t + again && memcmp(now, first, (size_t)n))
                        fail_msg("%s %s: other bits with %d threads", p.d.backend, back ? "backward" : "forward", p.d.threads);
                }
            }
            free(first);
            free(now);
            problem_free(&p);
        }
}

/* Key splits, side by side with several threads, that are longer than a span: v_dims of which blocks have few keys. Every page is the
 * same one, so that many keys need little memory. */
static void test_long_splits(void **state)
{
    enum { ROWS = 2, PAGE = 1000, PAGES = 40 };
    static const int64_t dims[][2] = { { 128, 192 }, { 256, 320 }, { 640, 640 } };
    static const int32_t table[PAGES] = { 0 }, used = PAGE * PAGES;
    (void)state;
    for (int64_t n = 0; n < COUNT(dims); n++) {
        const problem_case c = { .b = 1, .sq = ROWS, .sk = PAGE, .h = 1, .d = dims[n][0], .dv = dims[n][1] };
        problem p = problem_make(&c, 52);
        char *first, *now;
        int64_t bytes;
        p.d.kv_len = used, p.d.seq.used_k = &used, p.d.backend = "flash";
        p.d.seq.block_table = table, p.d.seq.page_size = PAGE, p.d.seq.pages = 1, p.d.seq.max_pages = PAGES;
        bytes = results(&p, NULL, 0);
        first = malloc((size_t)bytes), now = malloc((size_t)bytes);
        for (p.d.threads = 1; p.d.threads < 5; p.d.threads += 3) {
            assert_ok(attn_forward(&p.d));
            results(&p, p.d.threads == 1 ? first : now, 0);
        }
        if (memcmp(now, first, (size_t)bytes)) fail_msg("head_dim %d, v_dim %d: other bits with 4 threads", (int)dims[n][0], (int)dims[n][1]);
        free(first), free(now);
        problem_free(&p);
    }
}

/* ------------------------------------------------------------------------------------------ attn_parallel */
static void mark(void *arg, int64_t i) { __atomic_add_fetch((int *)arg + i, 1, __ATOMIC_RELAXED); }

static void nested(void *arg, int64_t i)
{
    attn_desc d = { 0 };
    (void)i;
    assert_ok(attn_parallel(&d, mark, arg, 100));
}

static void test_each_once(void **state)
{
    static const int64_t counts[] = { 0, 1, 2, 3, 17, 1000 };
    attn_pool pool = { run, &pool_calls, 4 };
    (void)state;
    for (int64_t c = 0; c < COUNT(counts); c++)
        for (int threads = 0; threads < 10; threads++) {
            int seen[1001] = { 0 };
            attn_desc d = { 0 };
            d.threads = threads;
            if (threads == 9) d.threads = 0, d.pool = &pool;
            assert_ok(attn_parallel(&d, mark, seen, counts[c]));
            for (int64_t i = 0; i < 1001; i++) assert_int_equal(seen[i], i < counts[c]);
        }
    assert_true(pool_calls > 0);
    /* one thread is asked for: the caller's, whatever the pool has */
    const int64_t calls = pool_calls, shape[4] = { 1, 300, 1, 300 };
    static float from[300 * 300], to[300 * 300];
    int seen[50] = { 0 };
    attn_desc d = { 0 };
    d.threads = 1, d.pool = &pool;
    assert_ok(attn_parallel(&d, mark, seen, 50));
    assert_ok(attn_convert(shape, (attn_in){ .data = from }, (attn_out){ .data = to }, &d));
    assert_int_equal(pool_calls, calls);
    d.threads = 2;
    assert_ok(attn_convert(shape, (attn_in){ .data = from }, (attn_out){ .data = to }, &d));
    assert_int_equal(pool_calls, calls + 1);
}

static void test_nested(void **state)
{
    int seen[100] = { 0 };
    attn_desc d = { 0 };
    (void)state;
    d.threads = 4;
    assert_ok(attn_parallel(&d, nested, seen, 20));
    for (int i = 0; i < 100; i++) assert_int_equal(seen[i], 20);
}

/* A task may make any number of calls: all of them stay on its thread, and it cannot end the threads that it runs on. */
static __thread int own_call;
static int strayed;
static void stays(void *arg, int64_t i)
{
    mark(arg, i);
    if (!own_call) __atomic_store_n(&strayed, 1, __ATOMIC_RELAXED);
}
static void calls_again(void *arg, int64_t i)
{
    attn_desc d = { 0 };
    (void)i;
    own_call = 1;
    d.threads = 4;
    for (int n = 0; n < 3; n++) {
        assert_ok(attn_parallel(&d, stays, arg, 100));
        attn_shutdown();
    }
    own_call = 0;
}
static void test_calls_again(void **state)
{
    int seen[100] = { 0 };
    attn_desc d = { 0 };
    (void)state;
    d.threads = 4;
    alarm(100);                                         /* who waits for itself waits for ever */
    assert_ok(attn_parallel(&d, calls_again, seen, 20));
    alarm(0);
    for (int i = 0; i < 100; i++) assert_int_equal(seen[i], 60);
    assert_int_equal(strayed, 0);
}

static void test_shutdown(void **state)
{
    (void)state;
    assert_true(attn_threads() >= 1);
    for (int i = 0; i < 3; i++) {
        int seen[50] = { 0 };
        attn_desc d = { 0 };
        d.threads = 3;
        assert_ok(attn_parallel(&d, mark, seen, 50));
        for (int j = 0; j < 50; j++) assert_int_equal(seen[j], 1);
        attn_shutdown();
        attn_shutdown();
    }
    assert_int_equal(unit_alive, 0);
}

/* A team has 32767 threads at most. They may come one after the other: the first does all the work, the last leaves the team as it was. */
static void test_largest_team(void **state)
{
    enum { MOST = 32767 };
    static float x[8], o[8];
    attn_team team = { 0 };
    attn_desc d = { 0 };
    (void)state;
    d.batch = d.heads = d.q_len = d.kv_len = 1, d.head_dim = 8, d.q.data = d.k.data = d.v.data = x, d.o.data = o;
    x[3] = 3, team.threads = MOST;
    for (int n = 0; n < MOST; n++) {
        assert_ok(attn_forward_team(&d, &team));
        if (!(fabsf(o[3] - 3) < 1e-5f) || team.came != (n + 1) % MOST) fail_msg("call %d: %g, %d came", n, (double)o[3], (int)team.came);
    }
    team.threads = MOST + 1;
    assert_int_equal(attn_forward_team(&d, &team), ATTN_ERR_TEAM);
    assert_int_equal(team.came, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_once), cmocka_unit_test(test_nested), cmocka_unit_test(test_calls_again), cmocka_unit_test(test_largest_team), cmocka_unit_test(test_shutdown),
    };
    const struct CMUnitTest splits[] = { cmocka_unit_test(test_long_splits) };
    return RUN_ROWS(rows, test_row) + cmocka_run_group_tests_name("splits", splits, NULL, NULL)
         + cmocka_run_group_tests_name("attn_parallel", tests, NULL, NULL);
}
