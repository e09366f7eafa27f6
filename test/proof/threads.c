/* threads.c - threads: the same bits for any number of them and for the caller's pool, nested calls, calls from two threads
 * at once, from an OpenMP region, after a fork, after attn_shutdown. Built plain, with OpenMP, and with the thread sanitizer
 * (there without fork and OpenMP, which give false alarms). */
#define _GNU_SOURCE
#include "proof_threads.h"
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#if defined(__SANITIZE_THREAD__)
#define TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN 1
#endif
#endif

enum { CASES = 40, BIG = 22 };
#if defined(TSAN)
enum { ROUNDS = 4 };                                     /* each takes ten times as long */
#else
enum { ROUNDS = 12 };
#endif

static int takes(proof_case *c, const char *backend, int backward) {
    attn_plan plan;
    c->d.backend = backend;
    return proof_query(c, backward, &plan) == ATTN_OK;
}
static int run(proof_case *c, int backward) {
    proof_reset(c);
    attn_status s = proof_call(c, 0);
    if (!s && backward) s = proof_call(c, 1);
    return s == ATTN_OK;
}

/* ------------------------------------------------------------------------------------------ a pool of the caller's */
static int pool_runs, mode_lost;
typedef struct job { void (*task)(void *, int64_t); void *arg; int64_t n, next; } job;
static void *work(void *p) {                             /* in a rounding mode of its own: a task sets what it needs, and resets it */
    job *j = (job *)p;
    const int mode = fegetround();
    fesetround(FE_UPWARD);
    for (int64_t i; (i = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED)) < j->n;) {
        j->task(j->arg, i);
        if (fegetround() != FE_UPWARD || !sums_round(FE_UPWARD)) __atomic_store_n(&mode_lost, 1, __ATOMIC_RELAXED);
    }
    fesetround(mode);
    return NULL;
}
static void pool_run(void *user, void (*task)(void *, int64_t), void *arg, int64_t n) {
    job j = {task, arg, n, 0};
    pthread_t t[3];
    (void)user;
    pool_runs++;
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&t[i], NULL, work, &j), 0);
    work(&j);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
}
static void backwards_run(void *user, void (*task)(void *, int64_t), void *arg, int64_t n) {   /* any order is allowed */
    (void)user;
    while (n--) task(arg, n);
}

static void same_bits(void **state) {
    static const attn_pool mine = {pool_run, NULL, 4}, reversed = {backwards_run, NULL, 2};
    static const int counts[] = {1, 2, 3, 5, 8};
    int compared = 0, threaded = 0;
    (void)state;
    for (int64_t n = 0; n < CASES; n++) {
        proof_rng r = {(uint64_t)n * 131 + 17, NULL, 0};
        proof_case c;
        proof_make(&c, &r, (int64_t)1 << (n % 3 ? 18 : BIG));
        threaded += proof_cost(&c.d) > 1e6;
        char *want = (char *)get((int64_t)proof_output_bytes(&c), 1), *got = (char *)get((int64_t)proof_output_bytes(&c), 1);
        for (int i = 0; attn_backend_at(i); i++)
            for (int backward = 0; backward <= c.backward; backward++) {
                if (!takes(&c, attn_backend_at(i)->name, 0) || (backward && !takes(&c, attn_backend_at(i)->name, 1))) continue;
                for (int k = 0; k < 7; k++) {
                    c.d.pool = k == 5 ? &mine : k == 6 ? &reversed : NULL;
                    c.d.threads = k < 5 ? counts[k] : 0;
                    assert_true(run(&c, backward));
                    proof_take_outputs(&c, k ? got : want);
                    if (k && memcmp(want, got, proof_output_bytes(&c)))
                        fail_msg("case %d, %s %s: other bits with %d threads%s", (int)n, c.d.backend, backward ? "backward" : "forward",
                                 c.d.threads, c.d.pool ? " of the caller's pool" : "");
                    compared++;
                }
                c.d.pool = NULL;
            }
        proof_free(&c);
        teardown(NULL);
    }
    assert_true(compared > CASES);
    assert_true(pool_runs > 0 && threaded >= 4 && !mode_lost);
}

/* ------------------------------------------------------------------------------------------------- a team */
typedef struct teamwork {
    proof_case *c;
    attn_team team;
    pthread_barrier_t all;
    const char *want;
    char *got;
    int backward, rounds, wrong;
    int32_t came;
} teamwork;
static void *member(void *p) {
    teamwork *w = (teamwork *)p;
    const int me = __atomic_fetch_add(&w->came, 1, __ATOMIC_RELAXED);
    char *mine = (char *)malloc(proof_output_bytes(w->c) + 1);
    for (int round = 0; round < w->rounds; round++) {
        const struct timespec late = {0, 1000 * ((round * 7 + me * 5) % 11) * (round % 3 == 2)};    /* some rounds at once, some one after the other */
        if (!me) proof_reset(w->c);
        pthread_barrier_wait(&w->all);
        nanosleep(&late, NULL);
        const attn_desc d[2] = {proof_desc(w->c, 0), proof_desc(w->c, 1)};
        attn_status s = attn_forward_team(&d[0], &w->team);
        if (!w->backward && !s) {                        /* complete for whoever returns, and when */
            proof_take_outputs(w->c, mine);
            if (memcmp(mine, w->want, proof_output_bytes(w->c))) __atomic_store_n(&w->wrong, 2, __ATOMIC_RELAXED);
        }
        pthread_barrier_wait(&w->all);
        if (w->backward && !s) s = attn_backward_team(&d[1], &w->c->g, &w->team);
        if (s) __atomic_store_n(&w->wrong, 1, __ATOMIC_RELAXED);
        pthread_barrier_wait(&w->all);
        if (!me) {
            proof_take_outputs(w->c, w->got);
            if (memcmp(w->got, w->want, proof_output_bytes(w->c))) __atomic_store_n(&w->wrong, 2, __ATOMIC_RELAXED);
        }
        pthread_barrier_wait(&w->all);
    }
    free(mine);
    return NULL;
}
static void team(void **state) {
    static const attn_team no_one, many = {.threads = 32768};
    int compared = 0;
    (void)state;
    for (int64_t n = 0; n < CASES; n++) {
        proof_rng r = {(uint64_t)n * 137 + 5, NULL, 0};
        proof_case c;
        proof_make(&c, &r, (int64_t)1 << (n % 3 ? 18 : 21));
        char *want = (char *)get((int64_t)proof_output_bytes(&c), 1), *got = (char *)get((int64_t)proof_output_bytes(&c), 1);
        for (int i = 0; i < 2; i++) {
            const char *backend = i ? "standard" : "flash";
            if (!takes(&c, backend, 0) || (c.backward && !takes(&c, backend, 1))) continue;
            c.d.threads = 1;
            assert_true(run(&c, c.backward));
            proof_take_outputs(&c, want);
            c.d.threads = 0;
            for (int32_t threads = 1; threads <= 5; threads += threads) {
                teamwork w = {.c = &c, .want = want, .got = got, .backward = c.backward, .rounds = ROUNDS};
                pthread_t t[8];
                w.team.threads = threads;
                pthread_barrier_init(&w.all, NULL, (unsigned)threads);
                for (int k = 0; k < threads; k++) assert_int_equal(pthread_create(&t[k], NULL, member, &w), 0);
                for (int k = 0; k < threads; k++) pthread_join(t[k], NULL);
                pthread_barrier_destroy(&w.all);
                if (w.wrong) fail_msg("case %d, %s: a team of %d has other %s", (int)n, backend, (int)threads, w.wrong == 1 ? "statuses" : "bits");
                compared++;
            }
            /* one thread that makes every member's call: the first computes, the others find it done */
            attn_team lonely = {.threads = 3};
            for (int round = 0; round < 2; round++) {
                proof_reset(&c);
                for (int k = 0; k < 3; k++) {
                    const attn_desc d = proof_desc(&c, 0);
                    ok(attn_forward_team(&d, &lonely));
                    if (k == 0 && !c.backward) proof_take_outputs(&c, got), same_bytes(got, want, proof_output_bytes(&c), "outputs of the first of a team");
                }
            }
        }
        proof_free(&c);
        teardown(NULL);
    }
    assert_true(compared > CASES);
    /* what is wrong is every member's status; the team can be used again */
    attn_desc d = problem(1, 8, 64, 2, 2, 8, 8, ATTN_F32), bad = d;
    attn_team pair = {.threads = 2}, none = no_one, most = many;
    char said[128];
    d.backend = "flash", bad.heads = 3, bad.kv_heads = 2, bad.message = said, bad.message_size = sizeof said;
    for (int round = 0; round < 3; round++) {
        for (int k = 0; k < 2; k++) assert_int_equal(attn_forward_team(&bad, &pair), ATTN_ERR_HEADS);
        for (int k = 0; k < 2; k++) assert_int_equal(attn_forward_team(&d, &pair), ATTN_OK);
        for (int k = 0; k < 2; k++) assert_int_equal(attn_forward_team(NULL, &pair), ATTN_ERR_NULL_DESC);
        for (int k = 0; k < 2; k++) assert_int_equal(attn_backward_team(&d, NULL, &pair), ATTN_ERR_NULL_GRAD);
    }
    assert_true(strstr(said, "heads") != NULL);
    /* more tasks than a team counts at a time: 40000 rows are appended */
    attn_desc big = problem(20000, 1, 1, 2, 2, 32, 32, ATTN_F32);
    const size_t bytes = (size_t)20000 * 2 * 32 * 4;
    float *caches[2] = {(float *)get((int64_t)bytes, 1), (float *)get((int64_t)bytes, 1)};
    big.backend = "flash", big.append.k = big.k, big.append.v = big.v, big.append.len = 1, big.seq.used_k = (int32_t *)get(20000, 4);
    big.k.data = big.append.k_cache = caches[0], big.v.data = big.append.v_cache = caches[1];
    for (int k = 0; k < 2; k++) ok(attn_forward_team(&big, &pair));
    same_bytes(caches[0], big.append.k.data, bytes, "k"), same_bytes(caches[1], big.append.v.data, bytes, "v");
    assert_int_equal(attn_forward_team(&d, NULL), ATTN_ERR_TEAM);
    assert_int_equal(attn_forward_team(&d, &none), ATTN_ERR_TEAM);
    assert_int_equal(attn_forward_team(&d, &most), ATTN_ERR_TEAM);
    teardown(NULL);
}

/* ------------------------------------------------------------------------------------------------- attn_parallel */
static int64_t visits[1000];
static void visit(void *arg, int64_t i) {
    if (i >= 0 && i < *(int64_t *)arg) __atomic_add_fetch(&visits[i], 1, __ATOMIC_RELAXED);
    else __atomic_add_fetch(&visits[999], 1000000, __ATOMIC_RELAXED);
}
static void every_index_once(void **state) {
    static const int64_t counts[] = {0, 1, 2, 3, 7, 64, 500};
    (void)state;
    for (int32_t threads = 1; threads <= 8; threads++)
        for (int n = 0; n < 7 * 20; n++) {
            attn_desc where;
            int64_t count = counts[n % 7];
            memset(&where, 0, sizeof where), memset(visits, 0, sizeof visits);
            where.threads = threads;
            ok(attn_parallel(&where, visit, &count, count));
            for (int64_t i = 0; i < 1000; i++) assert_int_equal(visits[i], i < count);
        }
}

/* ----------------------------------------------------------------------------------------- who takes part */
/* The threads of this process, none of the library among them. The kernel lists a thread for a moment after it was joined: until the fewest seen so
   far are left, for ten seconds at most. */
static int fewest = 1 << 30;
static int threads_settled(void) {
    attn_shutdown();
    for (int ms = 0; ms < 10000 && threads_alive() > fewest; ms++) usleep(1000);
    const int n = threads_alive();
    if (n < fewest) fewest = n;
    return n;
}
static pthread_t who[64];
static int n_who;
static void note(void *arg, int64_t i) {
    pthread_mutex_t *lock = (pthread_mutex_t *)arg;
    int k = 0;
    (void)i;
    pthread_mutex_lock(lock);
    while (k < n_who && !pthread_equal(who[k], pthread_self())) k++;
    if (k == n_who && n_who < 64) who[n_who++] = pthread_self();
    pthread_mutex_unlock(lock);
    usleep(50);                                          /* so that another one has the time to come */
}
/* As many as were asked for, however many are there from the calls before; and the caller is one of them. */
static void no_more_than_asked(void **state) {
    static const int32_t asked[] = {8, 1, 2, 3, 5, 2, 8, 1};
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    (void)state;
    for (int round = 0; round < 24; round++) {
        attn_desc where;
        memset(&where, 0, sizeof where);
        where.threads = asked[round % 8];
        n_who = 0;
        ok(attn_parallel(&where, note, &lock, 60));
        if (n_who > where.threads) fail_msg("%d threads, %d were asked for", n_who, (int)where.threads);
        int mine = 0;
        for (int k = 0; k < n_who; k++) mine |= pthread_equal(who[k], pthread_self());
        if (where.threads == 1) assert_true(mine);
    }
}
static float numbers[4][2048 * 64];
/* Threads that a call starts where none are: how many there are after it. */
static int started_by(int64_t rows, int64_t keys, int32_t threads, const char *backend, int backward) {
    attn_desc d;
    attn_grad g;
    static float lse[512], grads[3][512 * 64];
    memset(&d, 0, sizeof d), memset(&g, 0, sizeof g);
    d.batch = d.heads = 1, d.head_dim = 64, d.q_len = rows, d.kv_len = keys, d.threads = threads, d.backend = backend;
    d.q.data = numbers[0], d.k.data = numbers[1], d.v.data = numbers[2], d.o.data = numbers[3], d.lse = lse;
    g.dout.data = numbers[0], g.dq.data = grads[0], g.dk.data = grads[1], g.dv.data = grads[2];
    const int before = threads_settled();
    if (backward) ok(attn_backward(&d, &g)); else ok(attn_forward(&d));
    return threads_alive() - before;
}
static int started_by_conversion(int64_t n, int32_t threads) {
    const int64_t shape[4] = {1, n / 64, 1, 64};
    attn_in in;
    attn_out out;
    attn_desc where;
    memset(&in, 0, sizeof in), memset(&out, 0, sizeof out), memset(&where, 0, sizeof where);
    in.data = numbers[0], out.data = numbers[3], where.threads = threads;
    const int before = threads_settled();
    ok(attn_convert(shape, in, out, &where));
    return threads_alive() - before;
}
/* Small work wakes nobody; large work exactly those that were asked for. */
static void none_for_small_work(void **state) {
    static const char *const names[] = {"flash", "standard", "reference"};
    (void)state;
#if defined(_OPENMP)
    skip();                                              /* whose threads are not ours to count */
#endif
    attn_shutdown();
    usleep(300000);                                      /* those of the tests before are gone for good */
    for (int i = 0; i < 3; i++)
        for (int backward = 0; backward < 2; backward++)
            for (int32_t threads = 0; threads <= 6; threads++) {
                const int small = started_by(4, 64, threads, names[i], backward), large = started_by(512, 512, threads, names[i], backward);
                const int most = i == 2 ? 0 : (threads ? threads : attn_threads()) - 1;
                if (small) fail_msg("%s %s: %d threads for 4 rows of 64 keys", names[i], backward ? "backward" : "forward", small);
                if (large > most || (most > 0 && large < 1)) fail_msg("%s %s: %d threads started, %d to be had", names[i], backward ? "backward" : "forward", large, most);
                /* as many tiles as threads: none is spared */
                if (!backward && i == 0 && threads == 3) assert_int_equal(large, 2);
            }
    for (int32_t threads = 1; threads <= 4; threads++) {
        assert_int_equal(started_by_conversion(1024, threads), 0);
        assert_int_equal(started_by_conversion(2048 * 64, threads), threads - 1);
    }
    attn_shutdown();
}

/* --------------------------------------------------------------------------------- the very first call */
static pthread_barrier_t gate;
static void *first_call(void *arg) {
    float *o = (float *)arg;
    static const float q[8] = {1, 2, 3, 4, 5, 6, 7, 8}, kv[24] = {1, 2, 3, 0, 1, 2, 3, 1, 2, 1, 2, 3, 4, 5, 6, 1, 1, 2, 3, 5, 8, 1, 2, 3};
    attn_desc d;
    attn_plan plan;
    memset(&d, 0, sizeof d);
    d.batch = d.heads = d.q_len = 1, d.head_dim = 8, d.kv_len = 3;
    d.q.data = q, d.k.data = d.v.data = kv, d.o.data = o;
    pthread_barrier_wait(&gate);
    if (attn_query(&d, NULL, &plan) || attn_forward(&d) || !attn_backend_find("flash") || attn_threads() < 1 || !strcmp(attn_isa(), "none")) o[0] = 1e9f;
    return NULL;
}
/* Nothing was asked of the library yet: whatever is found out once is found out by all of these at once. */
static void first_calls_race(void **state) {
    pthread_t t[4];
    float o[4][8];
    (void)state;
    assert_int_equal(pthread_barrier_init(&gate, NULL, 4), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&t[i], NULL, first_call, o[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    for (int i = 1; i < 4; i++) assert_memory_equal(o[i], o[0], sizeof o[0]);
    assert_true(o[0][0] < 100);
    pthread_barrier_destroy(&gate);
}

/* --------------------------------------------------------------------------------- many calls, each with its own data */
enum { CALLS = 12 };
typedef struct calls { proof_case c[CALLS]; char *want[CALLS]; int failures; } calls;

static void calls_make(calls *all) {
    memset(all, 0, sizeof *all);
    for (int n = 0, seed = 0; n < CALLS; seed++) {
        proof_rng r = {(uint64_t)seed * 77 + 3, NULL, 0};
        proof_make(&all->c[n], &r, (int64_t)1 << 22);
        /* work enough to wake the threads: 2e6 operations; less runs on its caller */
        if (!takes(&all->c[n], "flash", 0) || proof_cost(&all->c[n].d) < 1e6) { proof_free(&all->c[n]); continue; }
        all->c[n].d.threads = 1;
        assert_true(run(&all->c[n], 0));
        all->want[n] = (char *)get((int64_t)proof_output_bytes(&all->c[n]), 1);
        proof_take_outputs(&all->c[n], all->want[n]);
        all->c[n].d.threads = 3;
        n++;
    }
}
static void calls_one(void *arg, int64_t i) {
    calls *all = (calls *)arg;
    proof_case *c = &all->c[i % CALLS];
    char *got = (char *)malloc(proof_output_bytes(c) + 1);
    if (!got || !run(c, 0)) { __atomic_add_fetch(&all->failures, 1, __ATOMIC_RELAXED); free(got); return; }
    proof_take_outputs(c, got);
    if (memcmp(got, all->want[i % CALLS], proof_output_bytes(c))) __atomic_add_fetch(&all->failures, 1, __ATOMIC_RELAXED);
    free(got);
}
static void calls_free(calls *all) {
    for (int i = 0; i < CALLS; i++) proof_free(&all->c[i]);
}
static void nested(void **state) {                       /* from the tasks of the library's own pool */
    calls all;
    attn_desc where;
    (void)state;
    calls_make(&all);
    memset(&where, 0, sizeof where);
    where.threads = 3;
    for (int i = 0; i < 5; i++) ok(attn_parallel(&where, calls_one, &all, CALLS));
    assert_int_equal(all.failures, 0);
    calls_free(&all);
}
static calls two;
static int halves[2] = {0, 1};
static void *half(void *first) {
    for (int round = 0; round < 8; round++)
        for (int i = *(int *)first; i < CALLS; i += 2) calls_one(&two, i);
    return NULL;
}
static void two_threads(void **state) {
    pthread_t a, b;
    (void)state;
    calls_make(&two);
    attn_shutdown();                                     /* both also race to start the pool */
    assert_int_equal(pthread_create(&a, NULL, half, &halves[0]), 0);
    assert_int_equal(pthread_create(&b, NULL, half, &halves[1]), 0);
    pthread_join(a, NULL), pthread_join(b, NULL);
    assert_int_equal(two.failures, 0);
    calls_free(&two);
}
static void openmp_region(void **state) {
    (void)state;
#if defined(_OPENMP) && !defined(TSAN)
    calls all;
    calls_make(&all);
    for (int round = 0; round < 5; round++) {
        #pragma omp parallel for num_threads(3) schedule(dynamic)
        for (int i = 0; i < CALLS; i++) calls_one(&all, i);
    }
    assert_int_equal(all.failures, 0);
    calls_free(&all);
#else
    skip();
#endif
}
static void fork_after_use(void **state) {
    (void)state;
#if defined(TSAN) || defined(_OPENMP)
    skip();                                              /* an OpenMP runtime does not survive a fork */
#else
    calls all;
    calls_make(&all);
    for (int i = 0; i < CALLS; i++) calls_one(&all, i);
    for (int round = 0; round < 3; round++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            alarm(20);                                   /* a child that waits for threads it does not have */
            for (int i = 0; i < CALLS; i++) calls_one(&all, i);
            int alone = !two_at_once(attn_parallel);
            if (round == 1) attn_shutdown();
            _exit(all.failures != 0 || alone);
        }
        int how = -1;
        waitpid(child, &how, 0);
        assert_int_equal(how, 0);
        for (int i = 0; i < CALLS; i++) calls_one(&all, i);
    }
    assert_int_equal(all.failures, 0);
    calls_free(&all);
#endif
}
SHARED void forks(void *arg, int64_t i) {
    if (i) return;
    pid_t child = fork();
    if (!child) {                                        /* in no task any more: its calls may have threads of their own */
        attn_desc d;
        attn_plan plan;
        sigset_t none;
        sigemptyset(&none), pthread_sigmask(SIG_SETMASK, &none, NULL);     /* a thread of the pool would never hear the alarm */
        memset(&d, 0, sizeof d);
        d.batch = 1, d.heads = 4, d.q_len = d.kv_len = 512, d.head_dim = 64, d.threads = 2;
        alarm(20);
        _exit(attn_query(&d, NULL, &plan) != ATTN_OK || plan.threads != 2 || !two_at_once(attn_parallel));
    }
    waitpid(child, (int *)arg, 0);
}
static void fork_in_a_task(void **state) {
    (void)state;
#if defined(TSAN) || defined(_OPENMP)
    skip();
#else
    attn_desc where;
    int how = -1;
    memset(&where, 0, sizeof where);
    where.threads = 2;
    ok(attn_parallel(&where, forks, &how, 2));
    assert_int_equal(how, 0);
#endif
}
static int held;
SHARED void hold(void *arg, int64_t i) {
    meet(arg, i);
    while (!__atomic_load_n(&held, __ATOMIC_SEQ_CST)) usleep(1000);
}
typedef struct { int32_t threads; void (*task)(void *arg, int64_t i); } many;
SHARED void *run_many(void *arg) {
    const many *m = arg;
    attn_desc where;
    memset(&where, 0, sizeof where);
    where.threads = m->threads;
    attn_parallel(&where, m->task, NULL, m->threads);
    return arg;
}
static void fork_while_others_work(void **state) {       /* which they never end in the child: its calls do not wait for them */
    (void)state;
#if defined(TSAN) || defined(_OPENMP)
    skip();
#else
    many holding = {2, hold};
    pthread_t other;
    int how = -1;
    held = arrived = missed = 0;
    assert_int_equal(pthread_create(&other, NULL, run_many, &holding), 0);
    while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < 2) usleep(1000);
    pid_t child = fork();
    if (!child) {
        alarm(20);
        _exit(!two_at_once(attn_parallel));
    }
    waitpid(child, &how, 0);
    __atomic_store_n(&held, 1, __ATOMIC_SEQ_CST);
    pthread_join(other, NULL);
    assert_int_equal(how, 0);
    assert_true(two_at_once(attn_parallel));
#endif
}
SHARED void idle(void *arg, int64_t i) { (void)arg, (void)i; }
static void fork_at_start(void **state) {                /* of so many threads, which takes milliseconds: what their caller holds, nobody gives back in the child */
    (void)state;
#if defined(TSAN) || defined(_OPENMP)
    skip();
#else
    for (int round = 0; round < 3; round++) {
        many thousand = {1000, idle};
        pthread_t other;
        int how = -1;
        attn_shutdown();
        assert_int_equal(pthread_create(&other, NULL, run_many, &thousand), 0);
        for (int looks = 0; looks < 10000 && threads_alive() < 20; looks++);
        pid_t child = fork();
        if (!child) {
            alarm(20);
            _exit(!two_at_once(attn_parallel));
        }
        waitpid(child, &how, 0);
        pthread_join(other, NULL);
        assert_int_equal(how, 0);
    }
    attn_shutdown();
#endif
}
static void shutdown_and_again(void **state) {
    calls all;
    (void)state;
    calls_make(&all);
    attn_shutdown(), attn_shutdown();
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < CALLS; i++) calls_one(&all, i);
        assert_true(two_at_once(attn_parallel));
        attn_shutdown();
    }
    assert_int_equal(all.failures, 0);
    calls_free(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {TEST(first_calls_race), TEST(same_bits), TEST(team), TEST(every_index_once), TEST(no_more_than_asked), TEST(none_for_small_work), TEST(nested), TEST(two_threads), TEST(openmp_region), TEST(fork_after_use), TEST(fork_while_others_work), TEST(fork_in_a_task), TEST(fork_at_start), TEST(shutdown_and_again)};
    alarm(300);                                          /* a deadlock is a failure, not a wait */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    attn_shutdown();
    return failed;
}
