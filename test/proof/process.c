/* process.c - the library as a guest of its process: signals, cancelled threads, processors that it may use, threads woken only for
 * work that is worth it, unloading and exit. What is read once is looked at in a process of its own. Built plain and with OpenMP. */
#define _GNU_SOURCE
#include "proof_threads.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <signal.h>
#include <sys/wait.h>

static attn_desc threads_of(int n)
{
    attn_desc d;
    memset(&d, 0, sizeof d);
    d.threads = n;
    return d;
}

/* ------------------------------------------------------------------------------------------ signals */
typedef struct masks { pthread_t caller; int foreign, open[65]; } masks;

SHARED void look_at_mask(void *arg, int64_t i)
{
    masks *m = (masks *)arg;
    sigset_t now;
    meet(NULL, i);
    if (pthread_equal(pthread_self(), m->caller)) return;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int s = 1; s < 65; s++) m->open[s] = sigismember(&now, s) == 0;
    __atomic_store_n(&m->foreign, 1, __ATOMIC_SEQ_CST);
}
static int handled;
SHARED void handle(int s) { (void)s; __atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST); }

static void signals(void **state)
{
    (void)state;
#ifdef _OPENMP
    skip();                                              /* its threads are the runtime's */
#else
    static const int own[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS};
    const attn_desc d = threads_of(2);
    masks m = {pthread_self(), 0, {0}};
    sigset_t before, after, usr;
    struct sigaction act;
    attn_shutdown();                                     /* the threads start within this call */
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    arrived = missed = 0;
    ok(attn_parallel(&d, look_at_mask, &m, 2));
    assert_true(!missed && m.foreign);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int s = 1; s < 65; s++) {
        int raised_by_itself = s == SIGKILL || s == SIGSTOP || (s >= 32 && s < SIGRTMIN);
        for (size_t i = 0; i < sizeof own / sizeof *own; i++) raised_by_itself |= s == own[i];
        if (m.open[s] != raised_by_itself) fail_msg("signal %d is %s in a thread of the library", s, m.open[s] ? "let in" : "blocked");
        assert_int_equal(sigismember(&before, s), sigismember(&after, s));
    }
    /* blocked in this thread, the only one of the host: nobody may take it */
    memset(&act, 0, sizeof act);
    act.sa_handler = handle;
    sigaction(SIGUSR1, &act, NULL);
    sigemptyset(&usr), sigaddset(&usr, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr, NULL);
    for (int n = 0; n < 20; n++) kill(getpid(), SIGUSR1);
    assert_true(two_at_once(attn_parallel));
    sigpending(&after);
    assert_int_equal(sigismember(&after, SIGUSR1), 1);
    assert_int_equal(handled, 0);
    pthread_sigmask(SIG_UNBLOCK, &usr, NULL);
    assert_int_equal(handled, 1);
#endif
}

/* ------------------------------------------------------------------------------------------ cancelled in a call */
typedef struct victim { attn_desc d; pthread_t self; int begun, go, returned; int64_t tasks; } victim;

static void until(const int *flag) { while (!__atomic_load_n(flag, __ATOMIC_SEQ_CST)) usleep(1000); }
static void hold(void *arg, int64_t i)                   /* the caller's task ends, another thread's waits */
{
    victim *v = (victim *)arg;
    meet(NULL, i);
    if (pthread_equal(pthread_self(), v->self)) return;
    __atomic_store_n(&v->begun, 1, __ATOMIC_SEQ_CST);
    until(&v->go);
}
SHARED void *in_parallel(void *arg)
{
    victim *v = (victim *)arg;
    v->self = pthread_self();
    attn_parallel(&v->d, hold, v, 2);
    v->returned = 1;
    pthread_testcancel();
    return NULL;
}
static void slow_run(void *user, void (*task)(void *, int64_t), void *arg, int64_t n)
{
    victim *v = (victim *)user;
    __atomic_store_n(&v->begun, 1, __ATOMIC_SEQ_CST);
    until(&v->go);                                       /* cancellation points */
    for (int64_t i = 0; i < n; i++) task(arg, i);
}
static void *in_forward(void *arg)
{
    victim *v = (victim *)arg;
    v->returned = attn_forward(&v->d) == ATTN_OK;
    pthread_testcancel();
    return NULL;
}
static void cancel_in(void *(*body)(void *), victim *v)
{
    pthread_t t;
    void *result = NULL;
    assert_int_equal(pthread_create(&t, NULL, body, v), 0);
    until(&v->begun);
    usleep(20000);                                       /* the caller now waits for the other thread */
    pthread_cancel(t);
    usleep(20000);
    __atomic_store_n(&v->go, 1, __ATOMIC_SEQ_CST);
    pthread_join(t, &result);
    assert_true(result == PTHREAD_CANCELED);
    assert_int_equal(v->returned, 1);
}
static void cancelled(void **state)
{
    victim v;
    (void)state;
#ifndef _OPENMP
    memset(&v, 0, sizeof v);
    v.d.threads = 2, arrived = missed = 0;
    cancel_in(in_parallel, &v);
    assert_true(two_at_once(attn_parallel));             /* nobody holds the threads any more */
#endif
    memset(&v, 0, sizeof v);
    const attn_pool pool = {slow_run, &v, 2};
    v.d = problem(1, 300, 300, 2, 2, 64, 64, ATTN_F32);
    v.d.backend = "flash", v.d.pool = &pool, v.d.o.dtype = ATTN_F32;
    const int64_t alive = unit_alive;
    cancel_in(in_forward, &v);
    assert_true(unit_alive == alive);                    /* nor any memory */
    int before;
    attn_shutdown();                                     /* nor is a thread spared that could be cancelled before */
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    assert_int_equal(before, PTHREAD_CANCEL_ENABLE);
}

/* ------------------------------------------------------------------------------------------ what is worth a thread */
static int64_t woken;
static void count_run(void *user, void (*task)(void *, int64_t), void *arg, int64_t n)
{
    (void)user;
    woken++;
    for (int64_t i = 0; i < n; i++) task(arg, i);
}
enum { CAPACITY = 32768 };
static int wakes(const attn_desc *in, const attn_grad *g)
{
    static const attn_pool pool = {count_run, NULL, 4};
    attn_desc d = *in;
    attn_plan plan;
    d.pool = &pool, woken = 0;
    ok(attn_query(&d, g, &plan));
    ok(g ? attn_backward(&d, g) : attn_forward(&d));
    assert_int_equal(plan.threads > 1, woken > 0);
    return woken > 0;
}
static void worth_waking(void **state)
{
    static const char *const backends[] = {"flash", "standard"};
    int32_t one[2] = {1, 1}, all[2] = {CAPACITY, CAPACITY}, most[2] = {CAPACITY - 1, CAPACITY - 1}, cu[3] = {0, 1, 2}, cu_long[3] = {0, 1, CAPACITY};
    (void)state;
    for (int i = 0; i < 2; i++) {
        attn_desc full = problem(2, 1, CAPACITY, 2, 2, 64, 64, ATTN_F32), d;
        attn_grad g;
        full.backend = backends[i], full.o.dtype = ATTN_F32;
        memset(&g, 0, sizeof g);
        g.dout.data = full.q.data, g.dq.data = get(2 * 2 * 64, 4);
        g.dk.data = get((int64_t)2 * CAPACITY * 2 * 64, 4), g.dv.data = get((int64_t)2 * CAPACITY * 2 * 64, 4);
        assert_true(wakes(&full, NULL));
        d = full, d.seq.used_k = all;
        assert_true(wakes(&d, NULL) && wakes(&d, &g));
        d = full, d.seq.used_k = one;
        assert_false(wakes(&d, NULL));
        assert_false(wakes(&d, &g));
        d.seq.used_k = all, d.seq.start_k = most;
        assert_false(wakes(&d, NULL));
        d = full, d.flags = ATTN_CAUSAL | ATTN_TOP_LEFT;             /* sees the first key alone */
        assert_false(wakes(&d, NULL));
        d = full, d.flags = ATTN_CAUSAL | ATTN_WINDOW_LEFT, d.window_left = 16;
        assert_false(wakes(&d, NULL));
        d.window_left = CAPACITY / 2;
        assert_true(wakes(&d, NULL));
        d = problem(2, 64, 1024, 2, 2, 64, 64, ATTN_F32);            /* rows that together see more than each */
        d.backend = backends[i], d.o.dtype = ATTN_F32, d.flags = ATTN_CAUSAL | ATTN_WINDOW_LEFT, d.window_left = 16;
        assert_false(wakes(&d, NULL));
        d.window_left = 1000;
        assert_true(wakes(&d, NULL));
        d.flags = 0, d.window_left = 0, d.seq.used_q = one;          /* rows that see no key */
        assert_false(wakes(&d, NULL));
        d = full, d.flags = ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, d.window_left = d.window_right = INT64_MAX;
        assert_true(wakes(&d, NULL));
        d = full, d.q_len = 1, d.seq.cu_k = cu, d.seq.total_k = 2;     /* kv_len is an upper bound */
        assert_false(wakes(&d, NULL));
        d.seq.cu_k = cu_long, d.seq.total_k = CAPACITY;
        assert_true(wakes(&d, NULL));
        teardown(NULL);
    }
}
/* The same for the rows of an append: one token of a call that might bring many. */
static void worth_waking_append(void **state)
{
    int32_t used[2] = {0, 0}, few[3] = {0, 1, 2}, many[3] = {0, 100, 2000};
    (void)state;
    attn_desc d = problem(2, 8, 2048, 2, 2, 64, 64, ATTN_F32);
    d.backend = "flash", d.o.dtype = ATTN_F32, d.seq.used_k = used;
    d.append.k.data = d.append.v.data = floats(2000 * 2 * 64);
    d.append.k_cache = (void *)(uintptr_t)d.k.data, d.append.v_cache = (void *)(uintptr_t)d.v.data;
    d.append.len = 2000, d.append.cu = few, d.append.total = 2;
    assert_false(wakes(&d, NULL));
    d.append.cu = many, d.append.total = 2000;
    assert_true(wakes(&d, NULL));
    /* few new tokens before work that is worth it: the threads come once less */
    const int64_t both = woken;
    int32_t nearly[2] = {2000, 2000};
    attn_desc late = d;
    late.append.cu = NULL, late.append.total = 0, late.append.len = 1, late.seq.used_k = nearly;
    assert_true(wakes(&late, NULL));
    assert_int_equal(woken, both - 1);
    teardown(NULL);
}
/* New tokens that several threads write, each row rotated and rounded in a place of its own: the cache has the bytes of one thread's. */
static void append_on_threads(void **state)
{
    enum { NEW = 400, HEADS = 8, DIM = 64 };
    int32_t used[2] = {0, 3};
    (void)state;
    attn_desc d = problem(2, 8, 512, HEADS, HEADS, DIM, DIM, ATTN_F16);
    float *angles[2] = {(float *)(uintptr_t)floats(512 * DIM / 2), (float *)(uintptr_t)floats(512 * DIM / 2)};
    const size_t bytes = (size_t)2 * 512 * HEADS * DIM * 2;
    char *cache[2][2];
    d.backend = "flash", d.o.dtype = ATTN_F32, d.seq.used_k = used, d.append.len = NEW;
    d.append.k.data = floats(2 * NEW * HEADS * DIM), d.append.v.data = floats(2 * NEW * HEADS * DIM);
    d.append.rotary_cos = angles[0], d.append.rotary_sin = angles[1], d.append.rotary_dim = DIM, d.append.rotary_rows = 512;
    for (int n = 0; n < 2; n++) cache[n][0] = (char *)get((int64_t)bytes, 1), cache[n][1] = (char *)get((int64_t)bytes, 1);
    for (int run = 0; run < 20; run++)
        for (int n = run > 0; n < 2; n++) {
            memset(cache[n][0], 0, bytes), memset(cache[n][1], 0, bytes);
            d.k.data = d.append.k_cache = cache[n][0], d.v.data = d.append.v_cache = cache[n][1], d.threads = n ? 4 : 1;
            ok(attn_forward(&d));
            assert_true(!memcmp(cache[n][0], cache[0][0], bytes) && !memcmp(cache[n][1], cache[0][1], bytes));
        }
    teardown(NULL);
}

/* ------------------------------------------------------------------------------------------ a host's own OpenMP
 * The library is built without it and has its pool; a host with an OpenMP runtime has this function. */
#ifndef _OPENMP
static int in_region;
int omp_in_parallel(void);
int omp_in_parallel(void) { return in_region; }
#endif
static void host_region(void **state)
{
    (void)state;
#ifdef _OPENMP
    skip();                                              /* threads.c has regions of its own */
#else
    attn_desc d = problem(1, 300, 300, 2, 2, 64, 64, ATTN_F32);
    attn_plan plan;
    d.backend = "flash", d.threads = 2, d.o.dtype = ATTN_F32;
    for (int round = 0; round < 2; round++) {
        attn_shutdown();
        in_region = 1;
        ok(attn_query(&d, NULL, &plan));
        assert_int_equal(plan.threads, 1);
        ok(attn_forward(&d));
        in_region = 0;
        for (int ms = 0; ms < 10000 && threads_alive() != 1; ms++) usleep(1000);
        assert_int_equal(threads_alive(), 1);            /* none was started */
        ok(attn_query(&d, NULL, &plan));
        assert_int_equal(plan.threads, 2);
    }
    teardown(NULL);
#endif
}

/* ------------------------------------------------------------------------------------------ what is read once */
/* attn_threads() of a new process, after `prepare` */
static int threads_seen(void (*prepare)(void))
{
    pid_t child = fork();
    int how = -1;
    assert_true(child >= 0);
    if (!child) {
        unsetenv("ATTN_THREADS");
        prepare();
        execl("/proc/self/exe", "process", "--threads", (char *)NULL);
        _exit(255);
    }
    waitpid(child, &how, 0);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}
static int processors(cpu_set_t *set) { return sched_getaffinity(0, sizeof *set, set) ? 0 : CPU_COUNT(set); }
static void nothing(void) { unsetenv("OMP_NUM_THREADS"); }
static void last_only(void)
{
    cpu_set_t all, one;
    int last = 0;
    unsetenv("OMP_NUM_THREADS");
    processors(&all);
    for (int i = 0; i < CPU_SETSIZE; i++) if (CPU_ISSET(i, &all)) last = i;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    sched_setaffinity(0, sizeof one, &one);
}
SHARED void one_thread(void) { setenv("OMP_NUM_THREADS", "1", 1); }
static void five_threads(void) { setenv("OMP_NUM_THREADS", "5", 1); }

static void allowed_processors(void **state)
{
    cpu_set_t set;
    const int n = processors(&set);
    (void)state;
    assert_int_equal(threads_seen(nothing), n);
    assert_int_equal(threads_seen(last_only), 1);
#ifdef _OPENMP
    assert_int_equal(threads_seen(one_thread), 1);
    assert_int_equal(threads_seen(five_threads), 5);
#else
    assert_int_equal(threads_seen(five_threads), n);     /* is not OpenMP's */
#endif
    if (n < 2) { print_message("skipped: there is one processor\n"); skip(); }
}

/* ------------------------------------------------------------------------------------------ unloading, exit */
static int unload(const char *path)                      /* 0, or the step that went wrong */
{
    for (int round = 0; round < 3; round++) {
        void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol = lib ? dlsym(lib, "attn_parallel") : NULL;
        parallel_call *parallel;
        if (!symbol) return 1;
        memcpy(&parallel, &symbol, sizeof parallel);
        if (!two_at_once(parallel)) return 2;
        if (dlclose(lib)) return 3;
        if (dlopen(path, RTLD_NOW | RTLD_NOLOAD)) return 4;
        /* the kernel counts a thread for a moment after it was joined */
        for (int ms = 0; ms < 10000 && threads_alive() != 1; ms++) usleep(1000);
        if (threads_alive() != 1) return 5;
        usleep(20000);
    }
    return 0;
}
static void unloaded(void **state)
{
    char path[4096];
    int how = -1;
    (void)state;
#if defined(_OPENMP) || defined(__SANITIZE_ADDRESS__)
    skip();                                              /* the threads are those of the runtime's own library */
#endif
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 16);
    assert_true(n > 0);
    path[n] = 0;
    strcpy(strrchr(path, '/'), "/attn.so");
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) { alarm(60); _exit(unload(path)); }
    waitpid(child, &how, 0);
    if (how) fail_msg("unloading: %s %d", WIFEXITED(how) ? "step" : "signal", WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how));
}

static void leave(void *arg, int64_t i) { meet(NULL, i); if (!pthread_equal(pthread_self(), *(pthread_t *)arg)) exit(7); else usleep(100000000); }
static void hold_for_ever(void *arg, int64_t i) { meet(NULL, i); (void)arg; for (;;) usleep(1000000); }
static void *call_for_ever(void *arg) { const attn_desc d = threads_of(2); attn_parallel(&d, hold_for_ever, arg, 2); return NULL; }

/* ways for a process to end while threads of the library sleep, work, or end it themselves */
static int end_of_process(int way)
{
    pthread_t self = pthread_self(), other;
    const attn_desc d = threads_of(2);
    int how = -1;
    pid_t child = fork();
    if (!child) {
        alarm(60);                                       /* an exit that waits for ever */
        if (way == 0) exit(two_at_once(attn_parallel) ? 7 : 1);
        if (way == 1) { arrived = 0; attn_parallel(&d, leave, &self, 2); }
        if (way == 2) {
            arrived = 0;
            pthread_create(&other, NULL, call_for_ever, NULL);
            while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < 2) usleep(1000);
            exit(7);
        }
        if (way == 3) {                                  /* a child of the child, which has no threads */
            pid_t grandchild = two_at_once(attn_parallel) ? fork() : -1;
            if (!grandchild) exit(7);
            waitpid(grandchild, &how, 0);
            exit(WIFEXITED(how) ? WEXITSTATUS(how) : 1);
        }
        _exit(2);
    }
    waitpid(child, &how, 0);
    return WIFEXITED(how) && WEXITSTATUS(how) == 7;
}
static void ends(void **state)
{
    (void)state;
#ifdef _OPENMP
    skip();
#endif
    attn_shutdown();
    for (int way = 0; way < 4; way++)
        if (!end_of_process(way)) fail_msg("way %d to end a process", way);
}

/* ------------------------------------------------------------------------------------------ a caller's stack */
static void call_all(attn_desc d)
{
    d.threads = 1;
    for (int32_t i = 0; attn_backend_at(i); i++) {
        attn_plan plan;
        d.backend = attn_backend_at(i)->name, d.o.dtype = strcmp(d.backend, "reference") ? ATTN_F32 : ATTN_F64;
        if (!attn_query(&d, NULL, &plan)) ok(attn_forward(&d));
        attn_grad g;
        memset(&g, 0, sizeof g);
        g.dout.data = d.o.data, g.dout.dtype = d.o.dtype;
        g.dq.data = get(d.q_len * d.heads * d.head_dim, 4), g.dk.data = get(d.kv_len * d.kv_heads * d.head_dim, 4), g.dv.data = get(d.kv_len * d.kv_heads * d.v_dim, 4);
        if (!attn_query(&d, &g, &plan)) ok(attn_backward(&d, &g));
    }
}
static void *on_a_small_stack(void *done)
{
    static const int32_t appended[2] = { 100, 70 }, slot[2] = { 1, 0 };
    static float scale[2][2 * 1500 * 2];
    attn_desc d = problem(1, 300, 1300, 4, 2, 128, 128, ATTN_F32);
    call_all(d);
    d.softcap = 2, d.dropout = 0.3f, d.seed = 1;
    call_all(d);
    d.softcap = d.dropout = 0, d.tolerance = 0.01f;
    call_all(d);
    call_all(problem(1, 3, 200, 2, 2, 1000, 1000, ATTN_F32));
    call_all(problem(1, 1, 1500, 4, 2, 128, 128, ATTN_BF16));
    d = problem(2, 1, 1500, 4, 2, 128, 128, ATTN_INT8);
    d.q.dtype = ATTN_F32, d.q.data = floats(2 * 4 * 128);
    for (int i = 0; i < 2 * 1500 * 2; i++) scale[0][i] = scale[1][i] = 0.01f;
    d.k.scale = scale[0], d.v.scale = scale[1];
    d.seq.used_k = appended, d.seq.slot = slot, d.seq.slots = 2;
    d.append.k.data = d.append.v.data = floats(2 * 2 * 128), d.append.len = 1;
    d.append.k_cache = (void *)(uintptr_t)d.k.data, d.append.v_cache = (void *)(uintptr_t)d.v.data, d.append.k_scale = scale[0], d.append.v_scale = scale[1];
    call_all(d);
    const int64_t shape[4] = { 1, 300, 4, 128 };
    ok(attn_convert(shape, (attn_in){ .data = floats(300 * 4 * 128) }, (attn_out){ .data = get(300 * 4 * 128, 4), .dtype = ATTN_F16, .layout = ATTN_BHSD }, NULL));
    *(int *)done = 1;
    return NULL;
}
static void small_stack(void **state)
{
    pthread_attr_t how;
    pthread_t id;
    int done = 0;
    (void)state;
    pthread_attr_init(&how);
    assert_int_equal(pthread_attr_setstacksize(&how, 64 << 10), 0);
    assert_int_equal(pthread_create(&id, &how, on_a_small_stack, &done), 0);
    pthread_join(id, NULL);
    assert_true(done);
}

/* A fork while another thread is in the very first call: what that finds out about the machine takes a second here. The child has calls of its
 * own. */
static int slow, slowly;
int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    if (slow) { __atomic_store_n(&slowly, 1, __ATOMIC_SEQ_CST); usleep(1000000); }
    const long known = syscall(SYS_sched_getaffinity, pid, bytes, set);
    if (known >= 0) memset((char *)set + known, 0, bytes - (size_t)known);
    return known < 0 ? -1 : 0;
}
static void *first_call(void *p) { attn_threads(); return p; }
static int fork_first(void)
{
    pthread_t other;
    int how = -1;
    slow = 1;
    pthread_create(&other, NULL, first_call, NULL);
    while (!__atomic_load_n(&slowly, __ATOMIC_SEQ_CST)) usleep(1000);
    const pid_t child = fork();
    if (!child) { alarm(20); slow = 0; _exit(attn_threads() >= 1 && two_at_once(attn_parallel) ? 7 : 1); }
    waitpid(child, &how, 0);
    pthread_join(other, NULL);
    return WIFEXITED(how) && WEXITSTATUS(how) == 7 && attn_threads() >= 1 ? 0 : 1;
}
static void forked_at_first(void **state)
{
    int how = -1;
    (void)state;
#if defined(_OPENMP) || defined(TSAN)
    skip();
#endif
    const pid_t child = fork();
    if (!child) { execl("/proc/self/exe", "process", "--fork-first", (char *)NULL); _exit(9); }
    waitpid(child, &how, 0);
    assert_int_equal(how, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {TEST(signals), TEST(cancelled), TEST(worth_waking), TEST(worth_waking_append), TEST(append_on_threads), TEST(host_region),
                                       TEST(allowed_processors), TEST(unloaded), TEST(small_stack), TEST(forked_at_first), TEST(ends)};
    if (argc > 1 && !strcmp(argv[1], "--threads")) return attn_threads();
    if (argc > 1 && !strcmp(argv[1], "--fork-first")) return fork_first();
    alarm(300);                                          /* a deadlock is a failure, not a wait */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    attn_shutdown();
    return failed;
}
