/* timing.c - the timing harness: how often it calls, and that its figures agree with each other and with the clock. */
#include "unit.h"
#include <time.h>

static int64_t calls;
static void tick(void *user)
{
    const double until = attn_seconds() + *(double *)user;
    calls++;
    while (attn_seconds() < until) { }
}

static void test_counts(void **state)
{
    static const struct { int64_t warmup, iterations; } rows[] = { { 0, 1 }, { 0, 2 }, { 3, 1 }, { 5, 100 }, { 1, 1000 } };
    double length = 0;
    (void)state;
    for (int64_t i = 0; i < COUNT(rows); i++) {
        attn_timing_opts o = { 0 };
        attn_timing t;
        o.warmup = rows[i].warmup, o.iterations = rows[i].iterations;
        calls = 0;
        assert_ok(attn_time(tick, &length, &o, &t));
        assert_true(t.n >= rows[i].iterations);
        assert_true(calls >= t.n + o.warmup && calls <= t.n + o.warmup + 1);
    }
}

static void test_figures(void **state)
{
    attn_timing_opts o = { 0 };
    attn_timing t;
    double length = 200e-6;
    (void)state;
    o.iterations = 60;
    o.flops = 3e6, o.bytes = 5e6, o.tokens = 7;
    assert_ok(attn_time(tick, &length, &o, &t));
    assert_true(t.first >= length && t.min >= length);
    assert_true(t.min <= t.p50 && t.p50 <= t.p95 && t.p95 <= t.p99 && t.p99 <= t.max);
    assert_true(t.min <= t.mean && t.mean <= t.max);
    assert_true(t.stddev >= 0 && t.stddev <= t.max - t.min);
    assert_true(fabs(t.ops_per_s * t.p50 - 1) < 1e-9);
    assert_true(fabs(t.tokens_per_s * t.p50 / 7 - 1) < 1e-9);
    assert_true(fabs(t.gflops * 1e9 * t.p50 / 3e6 - 1) < 1e-9);
    assert_true(fabs(t.gbytes_per_s * 1e9 * t.p50 / 5e6 - 1) < 1e-9);
}

static void test_one_call(void **state)
{
    attn_timing_opts o = { 0 };
    attn_timing t;
    double length = 1e-4;
    (void)state;
    o.iterations = 1;
    assert_ok(attn_time(tick, &length, &o, &t));
    assert_int_equal(t.n, 1);
    assert_true(t.stddev == 0 && t.min == t.max && t.p50 == t.min && t.p99 == t.min);
    assert_true(t.tokens_per_s == 0 && t.gflops == 0 && t.gbytes_per_s == 0);
}

static void test_min_seconds(void **state)
{
    attn_timing_opts o = { 0 };
    attn_timing t;
    double length = 1e-3, before;
    (void)state;
    o.min_seconds = 0.05;
    before = attn_seconds();
    assert_ok(attn_time(tick, &length, &o, &t));
    assert_true(t.n >= 2 && t.n <= 51);
    assert_true((double)t.n * t.mean >= 0.049);
    assert_true(attn_seconds() - before < 20);
    o.iterations = 80;                          /* both: the larger */
    assert_ok(attn_time(tick, &length, &o, &t));
    assert_true(t.n >= 80);
}

static void test_clock(void **state)
{
    struct timespec ts = { 0, 20000000 };
    double a = attn_seconds(), b;
    (void)state;
    nanosleep(&ts, NULL);
    b = attn_seconds();
    assert_true(b - a >= 0.0199 && b - a < 10);
    for (int i = 0; i < 10000; i++) {
        a = b;
        b = attn_seconds();
        assert_true(b >= a);
    }
}

static void test_machine(void **state)
{
    (void)state;
    assert_true(attn_peak_gflops(ATTN_F32, 1) > 0.1);
    assert_true(attn_peak_gflops(ATTN_BF16, 1) > 0.1);
    assert_true(attn_bandwidth_gbytes(1 << 14, 1) > 0.05);
    assert_true(attn_bandwidth_gbytes(1 << 24, 2) > 0.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts), cmocka_unit_test(test_figures), cmocka_unit_test(test_one_call),
        cmocka_unit_test(test_min_seconds), cmocka_unit_test(test_clock), cmocka_unit_test(test_machine),
    };
    return cmocka_run_group_tests_name("timing", tests, NULL, NULL);
}
