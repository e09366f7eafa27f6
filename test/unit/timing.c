/* timing.c - the timing harness: how often it calls, and every figure that it computes, from a clock that the test turns itself. */
#include "unit.h"
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The library's clock: the real one, or `hand`, which only the test moves. clock_gettime of this program goes before libc's. */
static int by_hand;
static double hand;
static const double *laps;                      /* every second reading is one of these after the reading before it */
static int64_t readings, laps_n;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (!by_hand) return (int)syscall(SYS_clock_gettime, clock, t);
    if (laps && readings++ % 2) hand += laps[readings / 2 - 1 < laps_n ? readings / 2 - 1 : laps_n - 1];
    t->tv_sec = (time_t)hand;
    t->tv_nsec = (long)((hand - (double)t->tv_sec) * 1e9 + 0.5);
    return 0;
}

/* Calls of a known length: the first, those that warm up, then what counts. */
typedef struct script { int64_t calls, warm, n; const double *length; } script;
static void tick(void *user)
{
    script *s = user;
    const int64_t i = s->calls++ - s->warm;
    hand += s->calls == 1 ? 7 : i < 0 ? 11 : s->length[i % s->n];
}
static attn_timing timed(const double *length, int64_t n, attn_timing_opts o, int64_t want)
{
    script s = { 0, o.warmup > 1 ? o.warmup : 1, n, length };
    attn_timing t;
    memset(&t, 0xff, sizeof t);
    by_hand = 1, hand = 1, laps = NULL;
    assert_ok(attn_time(tick, &s, &o, &t));
    by_hand = 0;
    assert_int_equal(t.n, want);
    assert_int_equal(s.calls, s.warm + want);
    assert_true(fabs(t.first - 7) < 1e-8);
    return t;
}
static void is(double got, double want, const char *what)
{
    if (!(fabs(got - want) <= 1e-6 * fabs(want) + 1e-12)) fail_msg("%s is %.9g, not %.9g", what, got, want);
}

static void test_counts(void **state)
{
    static const struct { int64_t warmup, iterations; double min_seconds; int64_t n; } rows[] = {
        { 0, 1, 0, 1 }, { 1, 2, 0, 2 }, { 2, 2, 0, 2 }, { 3, 1, 0, 1 }, { 5, 100, 0, 100 }, { 1, 1000, 0, 1000 },
        { 0, 0, 0.5, 2 }, { 0, 0, 0.51, 3 }, { 0, 5, 0.5, 5 }, { 0, 2, 1, 4 }, { 0, 0, 16, 64 }, { 0, 0, 16.1, 65 }, { 2, 0, 50, 200 },
        { 0, 65, 0, 65 }, { 0, 70000, 0, 70000 },
    };
    static const double quarter = 0.25;
    (void)state;
    for (int64_t i = 0; i < COUNT(rows); i++) {
        attn_timing_opts o = { 0 };
        o.warmup = rows[i].warmup, o.iterations = rows[i].iterations, o.min_seconds = rows[i].min_seconds;
        attn_timing t = timed(&quarter, 1, o, rows[i].n);
        is(t.mean, 0.25, "mean"), is(t.min, 0.25, "min"), is(t.max, 0.25, "max"), is(t.p99, 0.25, "p99");
        assert_true(t.stddev < 1e-7);
        assert_int_equal(unit_alive, 0);
    }
}

/* 1 .. n seconds, shuffled. */
static void test_figures(void **state)
{
    static const int64_t sizes[] = { 1, 2, 3, 4, 5, 20, 64, 65, 101, 300 };
    (void)state;
    for (int64_t k = 0; k < COUNT(sizes); k++) {
        const int64_t n = sizes[k];
        double length[300], m = (double)n;
        attn_timing_opts o = { 0 };
        uint64_t r = (uint64_t)n;
        for (int64_t i = 0; i < n; i++) length[i] = (double)(i + 1);
        for (int64_t i = n - 1; i > 0; i--) {
            const int64_t j = (int64_t)(random_bits(&r) % (uint64_t)(i + 1));
            const double x = length[i];
            length[i] = length[j], length[j] = x;
        }
        o.warmup = k, o.iterations = n;
        o.flops = 3e6, o.bytes = 5e6, o.tokens = 7;
        attn_timing t = timed(length, n, o, n);
        is(t.min, 1, "min"), is(t.max, m, "max"), is(t.mean, (m + 1) / 2, "mean");
        is(t.stddev, n > 1 ? sqrt(m * (m + 1) / 12) : 0, "stddev");
        is(t.p50, 1 + 0.5 * (m - 1), "p50"), is(t.p95, 1 + 0.95 * (m - 1), "p95"), is(t.p99, 1 + 0.99 * (m - 1), "p99");
        is(t.ops_per_s, 1 / t.p50, "ops/s"), is(t.tokens_per_s, 7 / t.p50, "tokens/s");
        is(t.gflops, 3e-3 / t.p50, "gflops"), is(t.gbytes_per_s, 5e-3 / t.p50, "GB/s");
    }
    const double once[] = { 2, 2, 2, 90 };                  /* a slow call has no part in the rates */
    attn_timing_opts o = { 0 };
    o.iterations = 4, o.flops = 3e6, o.bytes = 5e6, o.tokens = 7;
    const attn_timing t = timed(once, 4, o, 4);
    is(t.mean, 24, "mean"), is(t.ops_per_s, 0.5, "ops/s"), is(t.tokens_per_s, 3.5, "tokens/s"), is(t.gflops, 1.5e-3, "gflops"), is(t.gbytes_per_s, 2.5e-3, "GB/s");
}

/* No time at all: no rate is infinite. What cannot be allocated is said, and nothing is lost. */
static void test_limits(void **state)
{
    static const double none = 0, quarter = 0.25;
    script s = { 0, 1, 1, &quarter };
    attn_timing_opts o = { 0 };
    attn_timing t;
    (void)state;
    o.iterations = 3, o.flops = o.bytes = o.tokens = 1;
    t = timed(&none, 1, o, 3);
    assert_true(t.ops_per_s == 0 && t.tokens_per_s == 0 && t.gflops == 0 && t.gbytes_per_s == 0 && t.stddev == 0);
    o.iterations = 0, o.min_seconds = 50;
    by_hand = 1;
    for (int64_t nth = 1; nth <= 3; nth++) {            /* 64 durations, then 128, then 256 */
        unit_fail_at = unit_made + nth;
        assert_int_equal(attn_time(tick, &s, &o, &t), ATTN_ERR_MEMORY);
        assert_int_equal(unit_alive, 0);
    }
    unit_fail_at = 0;
    assert_ok(attn_time(tick, &s, &o, &t));
    by_hand = 0;
    assert_int_equal(unit_alive, 0);
}

static void test_clock(void **state)
{
    struct timespec ts = { 0, 20000000 };
    double a = attn_seconds(), b;
    (void)state;
    nanosleep(&ts, NULL);
    b = attn_seconds();
    assert_true(b - a >= 0.0199);
    for (int i = 0; i < 10000; i++) {
        a = b;
        b = attn_seconds();
        assert_true(b >= a);
    }
    by_hand = 1, laps = NULL, hand = 1234.5678;
    is(attn_seconds(), 1234.5678, "the clock");
    by_hand = 0;
}

/* What a probe that takes these laps, one after the other, measures: two too short, which double the work, then twelve. */
#define SHORT 0.0005, 0.0019
#define LAPS(best) SHORT, 0.004, 0.005, 0.004, 0.006, best, 0.004, 0.0041, 0.004, 0.004, 0.004, 0.004, 0.004
static const double f32_laps[] = { LAPS(0.003), LAPS(0.0025) };
static double measured_by(const double *these, int64_t n, double (*what)(int64_t arg, int32_t threads), int64_t arg, int32_t threads)
{
    by_hand = 1, hand = 1, laps = these, laps_n = n, readings = 0;
    const double x = what(arg, threads);
    by_hand = 0, laps = NULL;
    return x;
}
static double measured(double (*what)(int64_t arg, int32_t threads), int64_t arg, int32_t threads)
{
    const double x = measured_by(f32_laps, COUNT(f32_laps), what, arg, threads);
    assert_int_equal(unit_alive, 0);
    return x;
}
static double peak(int64_t dtype, int32_t threads) { return attn_peak_gflops((int32_t)dtype, threads); }
static double bandwidth(int64_t bytes, int32_t threads) { return attn_bandwidth_gbytes((size_t)bytes, threads); }

/* More threads than the probe has places for results, in a task: one thread runs them all. */
static void peak_of_many(void *to, int64_t i) { *(double *)to = measured_by(&f32_laps[6], 1, peak, ATTN_F32, 1026), (void)i; }

/* As many chains of fused multiply-adds as a tile has vectors, two operations a lane: 4 * 2^14 steps of them in 3 ms. Twelve chains of
 * vdpbf16ps: 64 operations. */
static void test_peak(void **state)
{
    const double lanes = !strcmp(attn_isa(), "avx512") ? 16 : !strcmp(attn_isa(), "avx2") ? 8 : 4;
    const double chains = !strcmp(attn_isa(), "avx512") || !strcmp(attn_isa(), "neon") ? 24 : 12;
    double dot = 0;
    (void)state;
#if defined(__x86_64__)
    if (lanes == 16 && __builtin_cpu_supports("avx512bf16")) dot = 12 * 64 * 65536 / 0.0025 * 1e-9;
#endif
    assert_true(attn_peak_gflops(99, 1) == 0 && attn_peak_gflops(-1, 1) == 0);
    for (int32_t threads = 1; threads <= 3; threads++) {
        const double f32 = chains * 2 * lanes * 65536 / 0.003 * 1e-9;
        is(measured(peak, ATTN_F32, threads), threads * f32, "peak of f32");
        is(measured(peak, ATTN_F16, threads), threads * f32, "peak of f16");
        is(measured(peak, ATTN_BF16, threads), threads * (dot > f32 ? dot : f32), "peak of bf16");
    }
    is(measured(peak, ATTN_F32, 0), measured(peak, ATTN_F32, attn_threads()), "peak of all threads");
    assert_int_equal(readings, 28);
    if (SANITIZED) {            /* who else would see a result beside them */
        const attn_desc d = { 0 };
        double all = 0;
        assert_ok(attn_parallel(&d, peak_of_many, &all, 1));
        is(all, 1026 * chains * 2 * lanes * 16384 / 0.003 * 1e-9, "peak of 1026 threads");
    }
}

/* Each thread reads its share, a multiple of 512 bytes, and at least that: four times in 3 ms. */
static void test_bandwidth(void **state)
{
    static const struct { int64_t bytes; int32_t threads; double read; } rows[] = {
        { 1 << 20, 1, 1 << 20 }, { 1 << 20, 2, 1 << 20 }, { 100, 1, 512 }, { 100, 3, 1536 }, { 10000, 1, 9728 }, { 10000, 3, 9216 },
    };
    (void)state;
    for (int64_t i = 0; i < COUNT(rows); i++)
        is(measured(bandwidth, rows[i].bytes, rows[i].threads), 4 * rows[i].read / 0.003 * 1e-9, "bandwidth");
    is(measured(bandwidth, 1 << 20, 0), measured(bandwidth, 1 << 20, attn_threads()), "bandwidth of all threads");
    unit_fail_at = unit_made + 1;
    assert_true(attn_bandwidth_gbytes(1 << 20, 1) == 0);
    unit_fail_at = 0;
    assert_int_equal(unit_alive, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts), cmocka_unit_test(test_figures), cmocka_unit_test(test_limits), cmocka_unit_test(test_clock),
        cmocka_unit_test(test_peak), cmocka_unit_test(test_bandwidth),
    };
    return cmocka_run_group_tests_name("timing", tests, NULL, NULL);
}
