/* bench_unit.c - the parts of attn_bench that judge, called one by one: it is compiled with attn_bench.c in it.
 *   - every output, in every type and pass, corrupted in several ways by a backend of the test's own, is `wrong`; left alone it
 *     is `ok`, on smooth, peaked, masked and grouped cases too;
 *   - AdaAttn's modes: certificates that are too small, or beyond the tolerance, are `wrong`; the bound of the rank mode is met by
 *     an error as large as it;
 *   - what memory does not suffice for is said, not `ok`;
 *   - the rank test, the intervals, the processes of a comparison.
 * The last line is `N passed, N failed, N skipped`. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
static long allocations_left = -1;              /* until one fails; -1: none does */
static void *scarce(size_t size) { return allocations_left >= 0 && allocations_left-- == 0 ? NULL : malloc(size); }
static void *scarce_zeros(size_t n, size_t size) { return allocations_left >= 0 && allocations_left-- == 0 ? NULL : calloc(n, size); }
static bool no_tensors;
static int scarce_tensor(void **p, size_t align, size_t size) { return no_tensors ? ENOMEM : posix_memalign(p, align, size); }
#define posix_memalign scarce_tensor
#define malloc scarce
#define calloc scarce_zeros
#define ATTN_IMPLEMENTATION
#include "attn.h"
/* What the machine's rates were asked for; `asked_only`: 2 for a bf16 peak, else 1, and nothing is measured. */
static struct { int asked_only, peaks, bandwidths; int32_t dtype, threads; size_t bytes; const void *isa; const double *samples; } probed;
static double probed_peak(int32_t dtype, int32_t threads)
{
    probed.peaks++, probed.dtype = dtype, probed.threads = threads, probed.isa = attn__machine()->isa;
    if (probed.samples) return *probed.samples++;
    return !probed.asked_only ? attn_peak_gflops(dtype, threads) : dtype == ATTN_BF16 ? 2 : 1;
}
static double probed_bandwidth(size_t bytes, int32_t threads)
{
    probed.bandwidths++, probed.bytes = bytes, probed.threads = threads;
    return probed.asked_only ? 1 : attn_bandwidth_gbytes(bytes, threads);
}
#define attn_peak_gflops probed_peak
#define attn_bandwidth_gbytes probed_bandwidth
#define main attn_bench_main
#include "attn_bench.c"
#undef main
#undef posix_memalign
#undef malloc
#undef calloc

attn_status attn_hip_register(void) { return ATTN_ERR_NO_GPU_COMPILER; }
static struct { double kernel; size_t bytes; } gpu;   /* of its last call; bytes 0: there is none */
attn_status attn_hip_last_times(double *kernel, double *total, size_t *bytes)
{
    (void)total;
    if (!gpu.bytes) return ATTN_ERR_NO_GPU_COMPILER;
    *kernel = gpu.kernel, *bytes = gpu.bytes;
    return ATTN_OK;
}

static int passed, bad, skipped;

static bool expect(bool right, const char *format, ...)
{
    va_list args;
    if (right) {
        passed++;
        return true;
    }
    bad++;
    fputs("failed: ", stdout);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    fputc('\n', stdout);
    if (getenv("CMOCKA_TEST_ABORT")) exit(1);           /* as cmocka's programs do then: the first failure is enough */
    return false;
}

static int open_files(void)
{
    int n = 0;
    for (int file = 0; file < 256; file++) n += fcntl(file, F_GETFD) >= 0;
    return n;
}

/* Whether what was written has all of these texts, and none of those that begin with '!'. */
static void expect_said(const char *what, FILE *f, const char *const *texts)
{
    static char all[1 << 16];
    rewind(f);
    all[fread(all, 1, sizeof all - 1, f)] = 0;
    fclose(f);
    for (; *texts; texts++) {
        bool absent = **texts == '!';
        expect(absent == !strstr(all, *texts + absent), "%s: %s \"%s\" in:\n%s", what, absent ? "there is" : "no", *texts + absent, all);
    }
}
#define SAID(what, f, ...) expect_said(what, f, (const char *const[]){ __VA_ARGS__, NULL })

/* ------------------------------------------------------------------------------------------ a backend that errs
 * It computes by flash, then spoils one output. */
enum { NOTHING, ZERO, NEGATED, TIMES_5, ONE_ELEMENT, ONE_ROW, SWAPPED, TWO_PERCENT, NOT_A_NUMBER, FAULTS, TINY, FINITE_ALL, ONE_PERCENT, HALF_PERCENT, NO_NUMBERS };
static const char *const fault_names[] = { "left alone", "zeroed", "negated", "times -5", "with one element doubled",
                                           "with one row zeroed", "with two heads swapped", "2% off", "with a NaN" };
enum { SPOIL_O, SPOIL_LSE, SPOIL_DQ, SPOIL_DK, SPOIL_DV, OUTPUTS };
static const char *const output_names[] = { "o", "lse", "dq", "dk", "dv" };
static int fault, spoiled;

static double *read_all(const attn_out *t, int64_t n)
{
    double *x = malloc((size_t)n * sizeof *x);
    widen(x, &(attn_out){ .data = t->data, .dtype = t->dtype }, 0, 0, 0, 1, n);
    return x;
}

static void write_all(const attn_out *t, const double *x, int64_t n)
{
    int64_t shape[4] = { 1, 1, 1, n };
    attn_convert(shape, (attn_in){ .data = x, .dtype = ATTN_F64 }, (attn_out){ .data = t->data, .dtype = t->dtype }, NULL);
}

/* heads are [tokens][heads][width], or for lse [heads][tokens] with width 1 */
static void spoil(const attn_out *t, int64_t batch, int64_t tokens, int64_t heads, int64_t width, bool lse)
{
    int64_t n = batch * tokens * heads * width, largest = 0, row = tokens / 2 * (lse ? 1 : heads);
    int64_t step = lse ? 1 : heads * width, head = lse ? tokens : width;
    double *x = read_all(t, n);
    for (int64_t i = 0; i < n; i++) {
        largest = fabs(x[i]) > fabs(x[largest]) ? i : largest;
        if (fault != ONE_ELEMENT && fault != ONE_ROW && fault != SWAPPED && fault != NOT_A_NUMBER && fault != FINITE_ALL)
            x[i] *= fault == ZERO ? 0 : fault == NEGATED ? -1 : fault == TIMES_5 ? -5 : fault == TWO_PERCENT ? 1.02 : fault == TINY ? 1 + 0x1p-14 : fault == ONE_PERCENT ? 1.01 : fault == HALF_PERCENT ? 1.005 : fault == NO_NUMBERS ? NAN : 1;
    }
    for (int64_t c = 0; c < width && fault == ONE_ROW; c++)
        x[row * width + c] = 0;
    for (int64_t i = 0; i < tokens && fault == SWAPPED; i++)
        for (int64_t c = 0; c < width; c++) {
            double *a = &x[i * step + c], *b = a + head, kept = *a;
            *a = *b, *b = kept;
        }
    for (int64_t i = 0; i < n && fault == FINITE_ALL; i++)
        x[i] = isfinite(x[i]) ? x[i] : 0;
    if (fault == ONE_ELEMENT || fault == NOT_A_NUMBER)
        x[largest] *= fault == ONE_ELEMENT ? 2 : NAN;
    write_all(t, x, n);
    free(x);
}

static attn_status erring_plan(void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan)
{
    const attn_backend *flash = attn_backend_find("flash");
    (void)user;
    return flash->plan(flash->user, d, g, plan);
}

static attn_status erring_run(void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan)
{
    const attn_backend *flash = attn_backend_find("flash");
    attn_status s = flash->run(flash->user, d, g, plan);
    const attn_out *out[] = { &d->o, NULL, g ? &g->dq : NULL, g ? &g->dk : NULL, g ? &g->dv : NULL };
    attn_out lse = { .data = d->lse };
    const int64_t tokens[] = { d->q_len, d->q_len, d->q_len, d->kv_len, d->kv_len };
    const int64_t heads[] = { d->heads, d->heads, d->heads, d->kv_heads, d->kv_heads };
    const int64_t widths[] = { d->v_dim, 1, d->head_dim, d->head_dim, d->v_dim };
    (void)user;
    out[SPOIL_LSE] = d->lse ? &lse : NULL;
    if ((spoiled >= SPOIL_DQ) == (g != NULL) && out[spoiled])
        spoil(out[spoiled], d->batch, tokens[spoiled], heads[spoiled], widths[spoiled], spoiled == SPOIL_LSE);
    return s;
}

/* A case of these axes, of which nothing is computed. */
static bench_case case_of(const char *line)
{
    char text[128];
    grid g = parse_line(line);
    bench_case c = { .suite = find_suite("shape") };
    for (int a = 0; a < AXES; a++) c.v[a] = g.value[a][0];
    expect(!resolve_case(&c, &g, text), "no case: %s", line);
    return c;
}

static bool made_problem(const char *line, problem *p)
{
    grid g = parse_line(line);
    bench_case c = { .suite = find_suite("shape") };
    char text[128];
    for (int a = 0; a < AXES; a++) c.v[a] = g.value[a][0];
    return expect(!resolve_case(&c, &g, text) && problem_make(&c, NULL, p), "no case: %s", line);
}

/* The row that a backend gets of what measures a case; `whole`: every row is verified, however long it takes. */
static row judged(const char *line, const char *backend, bool whole, void (*measure)(job *))
{
    static bench b;
    grid g = parse_line(line);
    bench_case c = { .suite = find_suite("shape") };
    problem p;
    char text[128];
    for (int a = 0; a < AXES; a++)
        c.v[a] = g.value[a][0];
    row r = new_row(&c, backend);
    b.selection = WHOLE;
    b.opt.verify = whole;
    if (resolve_case(&c, &g, text) || !problem_make(&c, NULL, &p)) {
        remark(&r, "failed", "no case: %s", line);
        return r;
    }
    promise x;
    take_mode(&p, &c, backend, &x);
    if (p.d.tolerance > 0 && c.v[SEQ] >= 384)
        p.d.backend = "adaptive";               /* by name it has codes on every machine */
    job j = { .b = &b, .c = &c, .p = &p, .r = &r, .pass = c.v[PASS] };
    if (plan_problem(&j))
        measure(&j);
    problem_free(&p);
    return r;
}

/* That of its plan alone. */
static void plan_alone(job *j) { (void)j; }

/* That of the first, verified call. */
static void verify(job *j) { first_call(j); }
static row verified(const char *line, const char *backend, bool whole) { return judged(line, backend, whole, verify); }

/* ------------------------------------------------------------------------------------------------ AdaAttn's modes */
/* Errors without their certificates are errors. */
static void without_certificates(job *j)
{
    if (!first_call(j)) return;
    take_workspace(j->p);
    j->p->d.lse = j->p->lse;
    run_pass(j->p, FWD);
    memset(j->p->cert, 0, (size_t)(j->p->d.batch * j->p->d.heads * j->p->d.q_len) * sizeof *j->p->cert);
    if (!(check(j->p, FWD, 1e18).worst <= 1)) remark(j->r, "wrong", "without certificates");
}
static void beyond_tolerance(job *j)
{
    if (!first_call(j)) return;
    j->r->tolerance = 1e-6;
    note_promise(j);
}
static void other_largest(job *j)
{
    if (!first_call(j)) return;
    j->p->promise->told.largest_cert *= 2;
    note_promise(j);
}
static void missing_certificate(job *j)
{
    if (!first_call(j)) return;
    j->p->cert[3] = NAN;
    note_promise(j);
}
/* Keys (1, side / 8), queries (1, delta): one dimension is enough, and what it leaves out is eta for each key, of the sign of its value. */
static void tight_bound(job *j)
{
    problem *p = j->p;
    float *q = (float *)(uintptr_t)p->d.q.data, *k = (float *)(uintptr_t)p->d.k.data, *v = (float *)(uintptr_t)p->d.v.data;
    const double eta = 0.008;
    for (int64_t n = 0; n < p->d.kv_len; n++) k[2 * n] = 1, k[2 * n + 1] = v[2 * n] = v[2 * n + 1] = n & 1 ? -1 : 1, k[2 * n + 1] /= 8;
    for (int64_t n = 0; n < p->d.q_len; n++) q[2 * n] = 1, q[2 * n + 1] = (float)(eta * 8 * sqrt(2));
    if (!first_call(j)) return;
    expect(row_ok(j->r), "tight bound: %s %s", j->r->status, j->r->note);
    expect(p->promise->rank == 1, "tight bound: %g dimensions", p->promise->rank);
    expect(p->promise->effective > 1 && p->promise->effective < 1.5, "tight bound: effective rank %g", p->promise->effective);
    expect(j->r->max_abs_err > 0.99 * j->r->max_cert && j->r->max_abs_err <= j->r->max_cert, "tight bound: error %g, certificate %g",
           j->r->max_abs_err, j->r->max_cert);
    without_certificates(j);
}
static void test_modes(void)
{
    static const char *const lines_[] = { "seq-len=400 num-heads=4 num-kv-heads=2 head-dim=24 policy=speed",
                                          "seq-len=390 num-heads=2 head-dim=20 v-dim=12 batch-size=2 policy=speed pass=fwd+bwd",
                                          "seq-len=390 num-heads=2 head-dim=20 causal=1 policy=speed" };
    static void (*const faults[])(job *) = { without_certificates, beyond_tolerance, other_largest, missing_certificate };
    for (int i = 0; i < COUNT(lines_); i++)
        for (int m = 0; m < 2; m++) {
            const char *mode = m ? "rank" : "precision";
            row r = verified(lines_[i], mode, true);
            size_t length = strlen(r.note);
            expect(row_ok(&r) && length && strcmp(r.note + length - 2 * (length > 1), "; "), "%s, %s: %s '%s'", mode, lines_[i], r.status, r.note);
            expect(!strstr(r.note, "effective rank") == !m, "%s, %s: '%s'", mode, lines_[i], r.note);
            if (!(r.max_cert > 0) && strstr(r.note, "products of int16")) {      /* AVX-512 without VNNI */
                skipped++;
                continue;
            }
            expect(r.tolerance == (double)0.01f && r.max_cert > 0 && r.max_cert < 0.01 * 8, "%s, %s: certificate %g", mode, lines_[i], r.max_cert);
            for (int f = m; f < COUNT(faults); f++) {            /* rank sums all dimensions of such data, without much error */
                r = judged(lines_[i], mode, true, faults[f]);
                expect(!strcmp(r.status, "wrong"), "%s, %s: fault %d is %s, %s", mode, lines_[i], f, r.status, r.note);
            }
        }
    row timed = judged("seq-len=400 num-heads=2 head-dim=24 policy=speed iterations=3", "precision", true, measure_time);
    expect(row_ok(&timed) && timed.p50_ms > 0 && isnan(timed.peak_fraction) && isnan(timed.bandwidth_fraction), "precision: %g of the peak", timed.peak_fraction);
    free(timed.samples_ms.x);
    row r = judged("seq-len=64 num-heads=1 head-dim=2 policy=speed", "rank", true, tight_bound);
    expect(!strcmp(r.status, "wrong"), "tight bound, without certificates: %s %s", r.status, r.note);
    for (int pass = 0; pass < 3; pass++) {       /* what rank is made of, and the queries and keys that it turns; a backward is exact */
        static const char *const passes[] = { "fwd", "bwd", "fwd+bwd" };
        char line[128];
        snprintf(line, sizeof line, "batch-size=2 seq-len=32 kv-len=48 num-heads=4 num-kv-heads=2 head-dim=16 policy=speed pass=%s", passes[pass]);
        row rank = judged(line, "rank", true, plan_alone), plain = judged(line, "flash", true, plan_alone);
        int64_t more = rank.workspace_bytes - plain.workspace_bytes, turned = 2 * 16 * 4 * (4 * 32 + 2 * 48);
        expect(pass == BWD ? !more : more >= turned && more < turned + 4 * 100, "rank, %s: %d bytes more than flash, of which %d are turned", passes[pass], (int)more, (int)turned);
        const char *kernel = !strncmp(rank.kernel, "basis + ", 8) ? rank.kernel + 8 : pass == BWD ? rank.kernel : "not of a basis";
        expect(*kernel && !strcmp(kernel, plain.kernel), "rank, %s: kernel %s, of flash %s", passes[pass], rank.kernel, plain.kernel);
    }
    r = verified("seq-len=64 head-dim=16 policy=quality", "precision", true);
    expect(row_ok(&r) && r.max_cert == 0 && strstr(r.note, "fewer rows"), "stays dense: %s %s", r.status, r.note);
    r = verified("seq-len=64 head-dim=16 policy=quality", "flash", true);
    expect(row_ok(&r) && !*r.note && isnan(r.max_cert) && isnan(r.tolerance), "flash beside a policy: %s", r.note);
}

/* A gradient may be off by four times what the naive loops lose at worst, in each element by its weight; and in 16 bits by two units
 * of its terms. */
static void test_gradient_bound(bool narrow)
{
    static const double off[2][4] = { { 3.9e-3, 4.1e-3, -3.9e-3, -4.1e-3 }, { 1.9 * 0x1p-11, 2.1 * 0x1p-11, -1.9 * 0x1p-11, -2.1 * 0x1p-11 } };
    problem p;
    if (!made_problem(narrow ? " seq-len=3 num-heads=1 head-dim=8 pass=bwd dtype=f16" : " seq-len=3 num-heads=1 head-dim=8 pass=bwd", &p)) return;
    p.d.backend = narrow ? "coarse" : "flash";
    gradient_slice s = { .p = &p };
    s.d = slice(&p.d, 0, 0, 0, 3, 0, 3, true), s.g = p.g;
    const attn_out *out[] = { &p.g.dq, &p.g.dk, &p.g.dv };
    double got[24], lost[24];
    expect(make_gradient_slice(&s), "no slice");
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < 4; i++) {
            verdict v = { .status = ATTN_OK };
            for (int e = 0; e < 24; e++) {
                const int weight = 1 + e % 2;
                s.of[t].exact[e] = 0, s.of[t].naive[e] = !narrow && e == 5 ? 2e-3f : 0;
                s.of[t].weighted[e] = narrow ? 0 : weight, s.of[t].terms[e] = narrow ? weight : 0;
                lost[e] = off[narrow][i] * weight;
            }
            write_all(out[t], lost, 24);
            compare_gradient(&s, t, got, &v);
            expect((v.worst <= 1) == (i % 2 == 0) && v.worst > 0.9 && v.rows == 3, "%s off by %g of its weight is %g times the error allowed", output_names[SPOIL_DQ + t], off[narrow][i], v.worst);
        }
    free(s.doubles);
    free(s.floats);
    problem_free(&p);
}

/* Certificates as large as they may be: the tolerance times the largest value that the row sees, of its own sequence and key head;
 * a value grows with the place of its key. */
static void test_certificates(void)
{
    enum { QUERIES = 30, KEYS = 40 };
    problem p;
    if (!made_problem(" batch-size=2 seq-len=30 kv-len=40 num-heads=4 num-kv-heads=2 head-dim=8 causal=1 policy=speed", &p)) return;
    float *v = (float *)(uintptr_t)p.d.v.data;
    for (int n = 0; n < 2 * KEYS * 2; n++)
        for (int e = 0; e < 8; e++) v[8 * n + e] = e == 5 ? -(float)(1 + n / 2 % KEYS + n % 2 * 100 + n / 2 / KEYS * 1000) : 0.5f;
    for (int large = 0; large < 2; large++) {
        promise x = { .cert = p.cert, .told = { .rows = 2 * 4 * QUERIES, .tiles_int16 = 3, .tiles_f32 = 7, .rows_redone = 5 } };
        row r = null_row();
        job j = { .p = &p, .r = &r };
        snprintf(r.status, sizeof r.status, "ok");
        r.tolerance = 0.125, p.promise = &x;
        for (int n = 0; n < 2 * 4 * QUERIES; n++) {
            const int i = n % QUERIES, h = n / QUERIES % 4, b = n / QUERIES / 4;
            p.cert[n] = (float)(1 + i + KEYS - QUERIES + h / 2 * 100 + b * 1000) * (large && i < 3 ? 0.1251f : 0.125f);
            x.told.largest_cert = fmaxf(x.told.largest_cert, p.cert[n]);
        }
        note_promise(&j);
        expect(row_ok(&r) == !large && r.max_cert == (double)x.told.largest_cert, "certificates %s: %s %s", large ? "that are larger" : "as large as they may be", r.status, r.note);
        expect(strstr(r.note, "int16 in 3 of 10 tiles, 5 rows redone") != NULL, "what was done: %s", r.note);
    }
    int left = 0;
    poison(&p);                                  /* what is not written is no certificate */
    for (int n = 0; n < 2 * 4 * QUERIES; n++) left += !isnan(p.cert[n]) + !isnan(p.lse[n]);
    expect(!left, "%d certificates and lse are not poisoned", left);
    p.promise = NULL;
    problem_free(&p);
}

static void test_faults(const char *line, bool backward)
{
    for (spoiled = 0; spoiled < (backward ? OUTPUTS : SPOIL_DQ); spoiled++)
        for (fault = 0; fault < FAULTS; fault++) {
            row r = verified(line, "erring", true);
            expect(!strcmp(r.status, fault ? "wrong" : "ok"), "%s: %s %s: %s %s", line, output_names[spoiled],
                   fault_names[fault], r.status, r.note);
            /* a wrong lse makes wrong gradients too */
            if (fault && spoiled == SPOIL_LSE)
                expect(strstr(r.note, "; largest error of o and gradients ") != NULL, "%s: lse %s is noted as: %s", line, fault_names[fault], r.note);
            bool named = !fault || spoiled == SPOIL_LSE || (strstr(r.note, output_names[spoiled]) && (fault == NOT_A_NUMBER || r.max_abs_err > 0));
            expect(named, "%s: %s %s is noted as: %s", line, output_names[spoiled], fault_names[fault], r.note);
        }
    spoiled = SPOIL_O, fault = NOTHING;
}

static void test_verification(void)
{
    static const char *const dtypes[] = { "f32", "f16", "bf16" }, *const passes[] = { "fwd", "bwd", "fwd+bwd" };
    static const char *const shapes[] = { "batch-size=2 seq-len=20 kv-len=24 num-heads=4 num-kv-heads=2 head-dim=16",
                                          "seq-len=17 num-heads=2 head-dim=8 causal=1 v-dim=12" };
    char line[256];
    for (int t = 0; t < 3; t++)
        for (int p = 0; p < 3; p++)
            for (int s = 0; s < COUNT(shapes); s++) {
                snprintf(line, sizeof line, " %s dtype=%s pass=%s", shapes[s], dtypes[t], passes[p]);
                test_faults(line, p > 0);
            }
    test_faults(" seq-len=40 num-heads=2 head-dim=8 mask=blocks pass=fwd+bwd", true);
}

/* In f32 much less than that is wrong: the bounds follow the sizes of the terms, whatever the scale. */
static void test_tiny(void)
{
    static const char *const lines[] = { " seq-len=12 num-heads=2 head-dim=64 pass=fwd+bwd", " seq-len=12 num-heads=2 head-dim=8 pass=fwd+bwd",
                                         " batch-size=2 seq-len=90 num-heads=2 head-dim=128 pass=fwd+bwd" };
    double usual = reference_flops;
    for (int i = 0; i < COUNT(lines); i++)
        for (int whole = 0; whole < 2; whole++)
            for (spoiled = 0; spoiled < OUTPUTS; spoiled++) {
                reference_flops = whole ? usual : 1;
                fault = TINY;
                row r = verified(lines[i], "erring", whole);
                expect(!strcmp(r.status, "wrong"), "%s, %s 6e-5 off: %s", lines[i], output_names[spoiled], r.status);
            }
    reference_flops = usual;
    spoiled = SPOIL_O, fault = NOTHING;
}

/* ------------------------------------------------------------------------------------------ a coarse backend
 * Loops in f64, but that P and dS are brought to 16 bits: rounded, or cut. */
static bool cuts;
static double coarse(double x, int32_t dtype)
{
    float f = (float)x, y;
    uint32_t bits, drop = dtype == ATTN_F16 ? 0x1fff : 0xffff;
    if (!cuts) memcpy(&bits, &f, 4), bits += drop / 2 + 1, memcpy(&f, &bits, 4);
    memcpy(&bits, &f, 4), bits &= ~drop, memcpy(&y, &bits, 4);
    return y;
}

static attn_status coarse_plan(void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan)
{
    attn_status s = erring_plan(user, d, g, plan);
    plan->workspace_size = 0;
    return s;
}

static attn_status coarse_run(void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan)
{
    const int64_t n = d->q_len, m = d->kv_len, w = d->head_dim, tokens = d->heads * w;     /* all heads alike, [B,S,H,D] */
    const int32_t t = d->q.dtype;
    double *room = calloc((size_t)(2 * m + 8 * n * w + 8 * m * w), sizeof *room), *p = room, *dp = p + m, *x[8];
    (void)user, (void)plan;
    for (int i = 0; i < 8; i++) x[i] = dp + m + i * (n > m ? n : m) * w;
    for (int64_t r = 0; r < d->batch * d->heads; r++) {
        const int64_t b = r / d->heads, h = r % d->heads;
        const attn_in dout = g ? g->dout : d->q;
        const attn_in *in[] = { &d->q, &d->k, &d->v, &dout };
        const attn_out *out[] = { &d->o, g ? &g->dq : NULL, g ? &g->dk : NULL, g ? &g->dv : NULL };
        for (int i = 0; i < 4; i++)
            for (int64_t e = 0; e < n * w; e++) x[i][e] = (double)attn__get_f32(in[i]->data, t, (b * n + e / w) * tokens + h * w + e % w), x[4 + i][e] = 0;
        for (int64_t i = 0; i < n; i++) {
            const double *q = x[0] + i * w, *dy = x[3] + i * w;
            double top = -INFINITY, sum = 0, delta = 0;
            for (int64_t j = 0; j < m; j++) {
                p[j] = dp[j] = 0;
                for (int64_t c = 0; c < w; c++) p[j] += (double)d->scale * q[c] * x[1][j * w + c], dp[j] += dy[c] * x[2][j * w + c];
                top = fmax(top, p[j]);
            }
            for (int64_t j = 0; j < m; j++) sum += p[j] = exp(p[j] - top);
            for (int64_t j = 0; j < m && !g; j++)
                for (int64_t c = 0; c < w; c++) x[4][i * w + c] += coarse(p[j], t) / sum * x[2][j * w + c];
            if (!g && d->lse) d->lse[r * n + i] = (float)(top + log(sum));
            for (int64_t c = 0; c < w && g; c++) delta += dy[c] * (double)attn__get_f32(d->o.data, t, (b * n + i) * tokens + h * w + c);
            for (int64_t j = 0; j < m && g; j++) {
                const double weight = p[j] / sum, ds = coarse(weight * (dp[j] - delta), t) * (double)d->scale;
                for (int64_t c = 0; c < w; c++) {
                    x[5][i * w + c] += ds * x[1][j * w + c];
                    x[6][j * w + c] += ds * q[c];
                    x[7][j * w + c] += coarse(weight, t) * dy[c];
                }
            }
        }
        for (int i = g ? 1 : 0; i < (g ? 4 : 1); i++)
            for (int64_t e = 0; e < n * w; e++) attn__put_f32(out[i]->data, t, (b * n + e / w) * tokens + h * w + e % w, (float)x[4 + i][e]);
    }
    free(room);
    return ATTN_OK;
}

/* P is taken to be of 16 bits where tensors are, but not of a backend of attn.h. */
static void test_weight_units(void)
{
    static const char *const ours[] = { "reference", "standard", "flash", "adaptive", "erring" };
    problem p;
    if (!made_problem(" seq-len=3 num-heads=1 head-dim=8 dtype=f16", &p)) return;
    for (int i = 0; i < COUNT(ours); i++) {
        p.d.backend = ours[i];
        const double unit = weight_unit(&p.d, false), back = weight_unit(&p.d, true), other = i < 4 ? 0 : unit_of(ATTN_F16);
        expect(unit == other && back == other, "%s: units of P %g, %g", ours[i], unit, back);
    }
    problem_free(&p);
}

/* A row that is not finite says nothing of the scale, and hides none. */
static void test_scaled_rows(void)
{
    enum { WIDTH = 8 };
    static const double holes[] = { 0, NAN, INFINITY };
    for (int i = 0; i < 2 * COUNT(holes); i++) {
        verdict v = { .status = ATTN_OK };
        for (int r = 0; r < 200; r++) {
            double exact[WIDTH], got[WIDTH];
            for (int e = 0; e < WIDTH; e++) exact[e] = (double)normal(91, (uint64_t)(r * WIDTH + e)), got[e] = exact[e] * (i % 2 ? 1.01 : 1);
            if (holes[i / 2] != 0 && r == 7) got[3] = exact[3] = holes[i / 2];
            add_to_scale(&v.scale[OF_OUTPUT], got, exact, WIDTH, ATTN_F16, 0);
        }
        judge_scales(&v);
        expect(i % 2 ? v.worst > 1 && !strcmp(v.worst_in, "scale of o") : !(v.worst > 1), "rows with a %g, times %g: %g of the error allowed", holes[i / 2], i % 2 ? 1.01 : 1.0, v.worst);
    }
}

/* In 16 bits an output that is scaled by half a percent is wrong, a P of 16 bits is not, even where it is cut. */
static void test_scales(void)
{
    static const char *const dtypes[] = { "f16", "bf16" }, *const datas[] = { "random", "smooth", "peaked", "tenth", "steep" };
    char line[256];
    for (int whole = 0; whole < 2; whole++)
        for (int t = 0; t < 2; t++) {
            snprintf(line, sizeof line, " batch-size=2 seq-len=64 num-heads=4 head-dim=32 pass=fwd+bwd dtype=%s", dtypes[t]);
            const double usual = reference_flops;
            reference_flops = whole ? usual : 1;
            for (spoiled = 0; spoiled < OUTPUTS; spoiled++)
                for (fault = ONE_PERCENT; fault <= HALF_PERCENT && spoiled != SPOIL_LSE; fault++) {
                    row r = verified(line, "erring", whole);
                    expect(!strcmp(r.status, "wrong") && strstr(r.note, output_names[spoiled]), "%s%s, %s times %g: %s %s", line, whole ? "" : ", sampled", output_names[spoiled],
                           fault == ONE_PERCENT ? 1.01 : 1.005, r.status, r.note);
                }
            spoiled = SPOIL_O, fault = NOTHING;
            for (int i = 0; i < 2 * COUNT(datas); i++) {
                char with[300];
                snprintf(with, sizeof with, "%s data=%s", line, datas[i / 2]);
                cuts = i % 2;
                row r = verified(with, "coarse", whole);
                expect(row_ok(&r), "%s%s, P is %s: %s %s", with, whole ? "" : ", sampled", cuts ? "cut" : "rounded", r.status, r.note);
            }
            reference_flops = usual;
        }
}

/* Which rows are sampled: the first of the first group, the last of the last, around the edges of tiles, then any. */
static void test_sampled_rows(void)
{
    enum { ROWS = 700, RUN = 8, GROUPS = 5 };
    int64_t group, seen[GROUPS] = { 0 }, lowest = ROWS, highest = 0;
    expect(sampled_run(0, 1, RUN, ROWS, &group, GROUPS) == 0 && group == 0, "the first run");
    expect(sampled_run(1, 1, RUN, ROWS, &group, GROUPS) == ROWS - RUN && group == GROUPS - 1, "the second run");
    expect(sampled_run(2, 1, RUN, ROWS, &group, GROUPS) == 2 && sampled_run(4, 1, RUN, ROWS, &group, GROUPS) == 28, "runs across an edge");
    expect(sampled_run(11, 1, RUN, ROWS, &group, GROUPS) == 508, "the last edge: %d", (int)sampled_run(11, 1, RUN, ROWS, &group, GROUPS));
    expect(sampled_run(3, 1, RUN, 18, &group, GROUPS) == 10, "an edge near the end: %d", (int)sampled_run(3, 1, RUN, 18, &group, GROUPS));
    for (int64_t k = 2; k < 400; k++) {
        int64_t at = sampled_run(k, 1, RUN, ROWS, &group, GROUPS);
        if (!expect(at >= 0 && at <= ROWS - RUN && group >= 0 && group < GROUPS, "run %d begins at %d of group %d", (int)k, (int)at, (int)group)) return;
        seen[group]++;
        if (k > 20) lowest = min64(lowest, at), highest = -min64(-highest, -at);
    }
    for (int g = 0; g < GROUPS; g++) expect(seen[g] > 40, "group %d is sampled %d times", g, (int)seen[g]);
    expect(lowest < 20 && highest > ROWS - RUN - 20, "rows %d to %d are sampled", (int)lowest, (int)highest);
    bool ends = false;
    for (int64_t k = 20; k < 60; k++) ends |= sampled_run(k, 1, RUN, RUN + 1, &group, GROUPS) == 1;
    expect(ends, "the last row is never sampled");
}

/* The same where the reference would take too long, and only some of the rows are checked. */
static void test_sampled(void)
{
    static const char *const line = " batch-size=2 seq-len=90 kv-len=70 num-heads=4 num-kv-heads=2 head-dim=8 dtype=f16 pass=fwd+bwd";
    static const int faults[] = { NOTHING, ZERO, NEGATED, TIMES_5, SWAPPED, TWO_PERCENT };
    double usual = reference_flops;
    reference_flops = 1;
    for (spoiled = 0; spoiled < OUTPUTS; spoiled++)
        for (int f = 0; f < COUNT(faults); f++) {
            fault = faults[f];
            row r = verified(line, "erring", false);
            expect(!strcmp(r.status, fault ? "wrong" : "ok"), "sampled: %s %s: %s %s", output_names[spoiled], fault_names[fault],
                   r.status, r.note);
            expect(r.rows_verified >= SAMPLED_ROWS && r.rows_verified < 4 * 2 * 90 + 2 * 2 * 70, "%d rows", (int)r.rows_verified);
        }
    row all = verified(line, "flash", true);     /* of o and dq, of dk and dv */
    expect(row_ok(&all) && all.rows_verified == 2 * 4 * 2 * 90 + 2 * 2 * 2 * 70, "--verify: %d rows", (int)all.rows_verified);
    reference_flops = usual;
    spoiled = SPOIL_O, fault = NOTHING;
}

/* What is right is `ok`: by every backend, on data of every kind. */
static void test_right(void)
{
    static const char *const lines[] = { " seq-len=65 num-heads=2 head-dim=40 data=smooth",
                                         " seq-len=65 num-heads=2 head-dim=40 data=peaked causal=1",
                                         " seq-len=65 num-heads=2 head-dim=40 data=steep",
                                         " seq-len=65 num-heads=2 head-dim=40 data=tenth mask=random",
                                         " seq-len=65 num-heads=2 head-dim=40 data=tenfold window-left=9 window-right=0",
                                         " seq-len=65 kv-len=30 num-heads=4 num-kv-heads=1 head-dim=40 causal=1",
                                         " seq-len=1 kv-len=200 num-heads=2 head-dim=128",
                                         " seq-len=70 num-heads=2 head-dim=24 layout=bhsd mask=blocks" };
    static const char *const dtypes[] = { "f32", "f16", "bf16" }, *const backends[] = { "standard", "flash", "erring" };
    char line[256];
    for (int i = 0; i < COUNT(lines); i++)
        for (int t = 0; t < 3; t++)
            for (int k = 0; k < 3; k++) {
                snprintf(line, sizeof line, "%s dtype=%s pass=fwd+bwd", lines[i], dtypes[t]);
                row r = verified(line, backends[k], true);
                expect(row_ok(&r), "%s by %s: %s %s", line, backends[k], r.status, r.note);
            }
}

/* What a case cannot have is told, not run. */
static void test_contradictions(void)
{
    static const char *const lines[][2] = {
        { " seq-len=1 kv-len=64 num-heads=2 head-dim=16 append=1 kv-dtype=int16", "--kv-dtype int16: not in cases that append" },
        { " seq-len=8 num-heads=2 head-dim=16 pass=bwd kv-dtype=int16", "--backward: not defined for a quantised --kv-dtype" },
        { " seq-len=8 num-heads=2 head-dim=48 kv-dtype=q8_0", "--kv-dtype q8_0 and q4_0: dims are multiples of 32" },
        { " seq-len=8 num-heads=2 head-dim=32 v-dim=16 kv-dtype=q4_0", "--kv-dtype q8_0 and q4_0: dims are multiples of 32" },
        { " seq-len=8 num-heads=3 num-kv-heads=2 head-dim=16", "--num-kv-heads 2: must divide --num-heads 3" },
    };
    for (int i = 0; i < COUNT(lines); i++) {
        grid g = parse_line(lines[i][0]);
        bench_case c = { .suite = find_suite("shape") };
        char text[128];
        for (int a = 0; a < AXES; a++) c.v[a] = g.value[a][0];
        const char *told = resolve_case(&c, &g, text);
        expect(told && !strcmp(told, lines[i][1]), "%s: %s", lines[i][0], told ? told : "taken");
    }
}

/* Of two axes that contradict each other the one that the user gave is named; what a filter leaves out contradicts nothing. */
static void test_named(void)
{
    static const struct { const char *line; axis given; const char *says; } cases[] = {
        { " seq-len=8 num-heads=2 head-dim=16 pass=bwd page-size=16", PAGE, "--page-size: not in cases with a backward" },
        { " seq-len=8 num-heads=2 head-dim=16 pass=bwd page-size=16", PASS, "--backward: not defined for --page-size" },
        { " seq-len=8 num-heads=2 head-dim=16 pass=bwd kv-dtype=int8", KV_DTYPE, "--kv-dtype int8: not in cases with a backward" },
        { " seq-len=8 num-heads=3 num-kv-heads=2 head-dim=16", HEADS, "--num-heads 3: must be a multiple of --num-kv-heads 2" },
        { " seq-len=8 num-heads=3 embed-dim=64", HEADS, "--num-heads 3: must divide --embed-dim 64" },
        { " seq-len=8 num-heads=3 embed-dim=64", EMBED, "--embed-dim 64: must be a multiple of --num-heads 3" },
        { " seq-len=8 num-heads=2 head-dim=16 page-size=16 layout=bhsd", LAYOUT, "--layout bhsd: not in cases with pages" },
        { " seq-len=8 num-heads=2 head-dim=16 page-size=16 layout=bhsd", PAGE, "--page-size: not with --layout bhsd, a page is [page_size, heads, dim]" },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        grid g = parse_line(cases[i].line), user = { .count[DTYPE] = 0 };
        bench_case c = { .suite = find_suite("shape") };
        char text[128];
        for (int a = 0; a < AXES; a++) c.v[a] = g.value[a][0];
        user.count[cases[i].given] = 1;
        const char *told = resolve_case(&c, &user, text);
        expect(told && !strcmp(told, cases[i].says), "%s: %s", cases[i].line, told ? told : "taken");
        bench b = { .opt = { .filter = "S9" } };
        bench s = { .opt = { .suites = "shape", .user = user } };
        expect(!add_case(&s, &c) && !s.case_count && s.left_out == 1 && !strcmp(s.left_out_why, cases[i].says), "%s is left out of a suite: '%s'", cases[i].line, s.left_out_why);
        expect(!add_case(&b, &c) && !b.case_count, "%s refuses what --filter leaves out", cases[i].line);
        free(b.case_places), free(s.case_places);
    }
}

/* What follows from the axes that are given. */
static void test_resolved(void)
{
    static const struct { const char *line; int64_t dim, v_dim, kv_heads, kv; } cases[] = {
        { " seq-len=8 num-heads=8 num-kv-heads=2 embed-dim=64", 8, 8, 2, 8 },
        { " seq-len=8 num-heads=4 embed-dim=64 v-dim=24", 16, 24, 4, 8 },
        { " seq-len=8 kv-len=9 num-heads=8 num-kv-heads=4 head-dim=seq", 8, 8, 4, 9 },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        grid g = parse_line(cases[i].line);
        bench_case c = { .suite = find_suite("shape") };
        char text[128];
        for (int a = 0; a < AXES; a++) c.v[a] = g.value[a][0];
        expect(!resolve_case(&c, &g, text), "no case: %s", cases[i].line);
        expect(c.v[DIM] == cases[i].dim && c.v[V_DIM] == cases[i].v_dim && c.v[KV_HEADS] == cases[i].kv_heads && c.v[KV] == cases[i].kv,
               "%s: D %d, value %d, %d key heads, %d keys", cases[i].line, (int)c.v[DIM], (int)c.v[V_DIM], (int)c.v[KV_HEADS], (int)c.v[KV]);
    }
}

/* A window has two sides. */
static void test_window_flag(void)
{
    static const char *const argv[] = { "attn_bench", "--window", "3,4", "--seq-len", "8" };
    options o;
    expect(!parse_flags(COUNT(argv), (char **)(uintptr_t)argv, &o), "--window 3,4 is refused");
    expect(o.user.count[LEFT] == 1 && o.user.value[LEFT][0] == 3 && o.user.count[RIGHT] == 1 && o.user.value[RIGHT][0] == 4, "--window 3,4 is %d,%d", (int)o.user.value[LEFT][0], (int)o.user.value[RIGHT][0]);
}

/* A case is chosen when its name has the text in it. */
static void test_filter(void)
{
    static const struct { const char *filter; int cases; } cases[] = {
        { NULL, 1 }, { "B1 S8 H2 D16 causal", 1 }, { "S8 H2", 1 }, { "causal", 1 }, { "S9", 0 }, { "B1 S8 H2 D16 causal cold", 0 },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        bench b = { .opt = { .filter = cases[i].filter } };
        grid g = parse_line(" seq-len=8 num-heads=2 head-dim=16 causal=1");
        bench_case c = { .suite = find_suite("shape") };
        for (int a = 0; a < AXES; a++) c.v[a] = g.value[a][0];
        expect(!add_case(&b, &c) && b.case_count == cases[i].cases, "--filter %s chooses %d cases", cases[i].filter ? cases[i].filter : "", (int)b.case_count);
        free(b.cases), free(b.case_places);
    }
}

/* Many cases are chosen in the order of their axes, each once, however they are measured, and in a time that grows as their number does. */
static void test_many_cases(void)
{
    enum { MANY = 30000 };
    static bench b;
    bench_case c = case_of(" seq-len=8 num-heads=2 head-dim=16");
    clock_t start = clock();
    for (int i = 0; i < 2 * MANY; i++) {
        c.v[SEED] = i % MANY * 7919 % MANY, c.v[ITERATIONS] = 1 + i / MANY;
        add_case(&b, &c);
    }
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    bool ordered = b.case_count == MANY;
    for (int i = 0; i < MANY && ordered; i++) ordered = b.cases[i].v[SEED] == i * 7919 % MANY && b.cases[i].v[ITERATIONS] == 1;
    expect(ordered, "%d cases are chosen, not %d in order", (int)b.case_count, MANY);
    expect(seconds < 3, "%d cases are chosen in %.1f s", MANY, seconds);
    c.suite = find_suite("memory");
    expect(!add_case(&b, &c) && b.case_count == MANY + 1, "a case of another suite is not chosen");
    c.variant = &variants[0];
    expect(!add_case(&b, &c) && !add_case(&b, &c) && b.case_count == MANY + 2, "a variant is not chosen once");
    free(b.cases), free(b.case_places);
}

/* The same by sampled rows, which are slices of the problem: of every tensor that a case may have. */
static void test_right_sampled(void)
{
    static const char *const lines[] = { " seq-len=90 num-heads=4 num-kv-heads=2 head-dim=8 mask=random batch-size=3",
                                         " seq-len=90 num-heads=4 num-kv-heads=2 head-dim=8 mask=blocks batch-size=2",
                                         " seq-len=90 kv-len=120 num-heads=4 num-kv-heads=2 head-dim=8 causal=1 layout=bhsd batch-size=2",
                                         " seq-len=3 kv-len=120 num-heads=4 num-kv-heads=2 head-dim=16 causal=1 kv-dtype=int8 batch-size=3",
                                         " seq-len=3 kv-len=120 num-heads=4 num-kv-heads=2 head-dim=16 causal=1 kv-dtype=fp8 batch-size=3",
                                         " seq-len=3 kv-len=300 num-heads=4 num-kv-heads=2 head-dim=16 causal=1 kv-dtype=int16 batch-size=3",
                                         " seq-len=3 kv-len=300 num-heads=4 num-kv-heads=2 head-dim=32 causal=1 kv-dtype=q8_0 batch-size=3",
                                         " seq-len=2 kv-len=64 num-heads=4 num-kv-heads=2 head-dim=64 v-dim=32 causal=1 page-size=8 kv-dtype=q4_0 batch-size=3",
                                         " seq-len=1 kv-len=64 num-heads=4 num-kv-heads=2 head-dim=32 causal=1 append=1 kv-dtype=q4_0 batch-size=3",
                                         " seq-len=3 kv-len=40 num-heads=4 num-kv-heads=2 head-dim=48 v-dim=16 layout=bhsd kv-dtype=int16 batch-size=2",
                                         " seq-len=2 kv-len=64 num-heads=4 num-kv-heads=2 head-dim=16 causal=1 page-size=8 kv-dtype=int16 batch-size=3",
                                         " seq-len=1 kv-len=64 num-heads=4 num-kv-heads=2 head-dim=16 causal=1 append=1 batch-size=3",
                                         " seq-len=1 kv-len=64 num-heads=4 num-kv-heads=2 head-dim=16 causal=1 append=1 kv-dtype=int8 batch-size=3",
                                         " seq-len=2 kv-len=64 num-heads=4 num-kv-heads=2 head-dim=16 causal=1 page-size=8 batch-size=3",
                                         " seq-len=2 kv-len=64 num-heads=4 num-kv-heads=2 head-dim=16 causal=1 page-size=8 kv-dtype=int8 batch-size=3" };
    double usual = reference_flops;
    for (int i = 0; i < COUNT(lines); i++)
        for (int whole = 0; whole < 2; whole++) {
            reference_flops = whole ? usual : 1;
            fault = NOTHING;
            row r = verified(lines[i], "erring", whole);
            expect(row_ok(&r) && r.rows_verified > 0, "%s by %s rows: %s %s", lines[i], whole ? "all" : "sampled", r.status, r.note);
            expect(r.max_abs_err >= 0 && r.max_abs_err < 0.02, "%s: the largest error is %g", lines[i], r.max_abs_err);
            spoiled = SPOIL_O, fault = TWO_PERCENT;
            r = verified(lines[i], "erring", whole);
            expect(!strcmp(r.status, "wrong"), "%s by %s rows, 2%% off: %s", lines[i], whole ? "all" : "sampled", r.status);
            expect(r.max_abs_err > 1e-3 && r.max_abs_err < 0.2, "%s, 2%% off: the largest error is %g", lines[i], r.max_abs_err);
            fault = NOTHING;
        }
    reference_flops = usual;
}

/* A row that sees no key has the lse -infinity: neither a NaN nor a number will do. */
static void test_empty_rows(void)
{
    static const char *const line = " seq-len=50 kv-len=20 num-heads=2 head-dim=16 causal=1";
    verdict v = { 0 };
    fault = NOTHING;
    row r = verified(line, "erring", true);
    expect(row_ok(&r), "%s: %s", line, r.note);
    spoiled = SPOIL_LSE, fault = ZERO;          /* 0 * -infinity is a NaN */
    r = verified(line, "erring", true);
    expect(!strcmp(r.status, "wrong"), "NaN for -infinity in lse is %s", r.status);
    fault = FINITE_ALL;
    r = verified(line, "erring", true);
    expect(!strcmp(r.status, "wrong"), "0 for -infinity in lse is %s", r.status);
    fault = NOTHING;
    compare_lse(&v, NAN, -INFINITY, 1);
    expect(!(v.worst <= 1), "lse NaN for -infinity passes");
    v.worst = 0, compare_lse(&v, INFINITY, -INFINITY, 1);
    expect(!(v.worst <= 1), "lse infinity for -infinity passes");
    v.worst = 0, compare_lse(&v, 0, -INFINITY, 1);
    expect(!(v.worst <= 1), "lse 0 for -infinity passes");
    v.worst = 0, compare_lse(&v, -FLT_MAX, -INFINITY, 1);
    expect(!(v.worst <= 1), "lse -FLT_MAX for -infinity passes");
    v.worst = 0, compare_lse(&v, -INFINITY, 0, 1);
    expect(!(v.worst <= 1), "lse -infinity for 0 passes");
    v.worst = 0, compare_lse(&v, -INFINITY, -INFINITY, 1);
    expect(v.worst <= 1, "lse -infinity for itself does not pass");
}

/* ------------------------------------------------------------------------------------------ modules
 * What the projections write is what the attention reads: of a step with a cache the keys and values that are appended, and of the
 * cache nothing but their places. */
static void test_projected(const char *name, const module *w, int part, const attn_in *t)
{
    double *x = read_all(&(attn_out){ .data = (void *)(uintptr_t)t->data, .dtype = t->dtype }, w->tokens * w->width[part]), worst = 0;
    for (int64_t i = 0; i < w->tokens; i++)
        for (int64_t k = 0; k < w->width[part]; k++) {
            exact_sum want = { 0, 0 };
            sum_terms(&want, w->embed, w->x + i * w->embed, 1, w->w[part] + k * w->embed, 1);
            worst = fmax(worst, fabs(x[i * w->width[part] + k] - want.sum) / (want.size + 1));
        }
    expect(worst < 1e-3, "%s is not what the projection gave: off by %g", name, worst);
    free(x);
}

static int64_t changed_tokens(const attn_in *t, const char *before, int64_t tokens, int64_t bytes)
{
    int64_t changed = 0;
    for (int64_t i = 0; i < tokens; i++)
        changed += memcmp((const char *)t->data + i * bytes, before + i * bytes, (size_t)bytes) != 0;
    return changed;
}

static void test_module(const char *line, bool appends)
{
    grid g = parse_line(line);
    bench_case c = { .suite = find_suite("shape") };
    char blas[192], text[128];
    module w = { .sgemm = find_openblas(blas) };
    void *library = library_open(OPENBLAS), *symbol = library ? library_symbol(library, "openblas_get_num_threads") : NULL;
    problem p;
    attn_status s = ATTN_OK;
    if (!w.sgemm) {
        expect(!library, "OpenBLAS is there, and is not found: %s", blas);
        skipped++;
        printf("skipped: a module,%s: %s\n", line, blas);
        return;
    }
    int (*threads)(void) = NULL;
    memcpy(&threads, &symbol, sizeof threads);
    expect(!strncmp(blas, "OpenBLAS ", 9) && blas[9] && (!threads || threads() == 1), "'%s' on %d threads", blas, threads ? threads() : 0);
    for (int a = 0; a < AXES; a++)
        c.v[a] = g.value[a][0];
    if (!expect(!resolve_case(&c, &g, text) && problem_make(&c, NULL, &p), "no case: %s", line))
        return;
    make_module(&w, &p, &c);
    double square = 0, count = 0;
    for (int i = 0; i < PROJECTIONS; i++)
        for (int64_t e = 0; e < w.width[i] * w.embed; e++) square += (double)w.w[i][e] * (double)w.w[i][e] * (double)w.embed, count++;
    expect(square > 0.8 * count && square < 1.2 * count, "%s: weights of a variance of %g / embed", line, square / count);
    const attn_in *t[] = { &p.d.q, appends ? &p.d.append.k : &p.d.k, appends ? &p.d.append.v : &p.d.v };
    const int64_t token = c.v[KV_HEADS] * c.v[DIM] * (c.v[DTYPE] ? 2 : 4), tokens = c.v[BATCH] * c.v[KV];
    char *before = malloc((size_t)(2 * tokens * token));
    memcpy(before, p.d.k.data, (size_t)(tokens * token));
    memcpy(before + tokens * token, p.d.v.data, (size_t)(tokens * token));
    module_forward(&w, &p, &s);
    expect(!s, "%s: %s", line, attn_status_text(s));
    test_projected("q", &w, OF_Q, t[OF_Q]);
    test_projected("k", &w, OF_K, t[OF_K]);
    test_projected("v", &w, OF_V, t[OF_V]);
    if (appends) {
        int64_t k = changed_tokens(&p.d.k, before, tokens, token), v = changed_tokens(&p.d.v, before + tokens * token, tokens, token);
        expect(k == w.tokens && v == w.tokens, "%s: %d keys and %d values of the cache have changed", line, (int)k, (int)v);
    }
    expect(check_products(&w, FWD), "%s: the products of the module", line);
    for (int64_t e = 0; e < w.tokens * w.embed; e++)
        w.y[e] += 1;
    expect(!check_products(&w, FWD), "%s: a wrong output of the module passes", line);
    int hit = 0;
    for (int i = 0; i < p.owned_count; i++) hit += margins_hit(&p.owned[i]);
    expect(!hit, "%s: %d tensors are written to beyond their ends", line, hit);
    free(before);
    problem_free(&p);
}

/* A module of small numbers whose products are summed here: an error of a ten-thousandth in any of them is seen. */
static void test_products(void)
{
    enum { TOKENS = 3, EMBED = 4, MOST = 24 };
    static float room[20][MOST];
    int used = 0;
    module w = { .tokens = TOKENS, .embed = EMBED, .width = { 5, 2, 3, 6 } };
    float **const given_[] = { &w.x, &w.dy, &w.w[OF_Q], &w.w[OF_K], &w.w[OF_V], &w.w[OF_O], &w.wide[OF_O], &w.wide_grad[OF_Q], &w.wide_grad[OF_K], &w.wide_grad[OF_V] };
    float **const products[] = { &w.wide[OF_Q], &w.wide[OF_K], &w.wide[OF_V], &w.y, &w.dw[OF_Q], &w.dw[OF_K], &w.dw[OF_V], &w.dw[OF_O], &w.wide_grad[OF_O], &w.dx };
    for (int i = 0; i < COUNT(given_); i++, used++)
        for (int e = 0; e < MOST; e++) (*given_[i] = room[used])[e] = normal(81, (uint64_t)(i * MOST + e)) * 0x1p-20f;
    for (int i = 0; i < COUNT(products); i++) *products[i] = room[used++];
#define SUM(to, n, x, x_step, y, y_step) do { exact_sum sum_ = { 0, 0 }; sum_terms(&sum_, n, x, x_step, y, y_step); (to) = (float)sum_.sum; } while (0)
    const int64_t wo = w.width[OF_O];
    for (int64_t t = OF_Q; t <= OF_V; t++)
        for (int64_t k = 0, width = w.width[t]; k < width; k++) {
            for (int64_t i = 0; i < TOKENS; i++) SUM(w.wide[t][i * width + k], EMBED, w.x + i * EMBED, 1, w.w[t] + k * EMBED, 1);
            for (int64_t e = 0; e < EMBED; e++) SUM(w.dw[t][k * EMBED + e], TOKENS, w.wide_grad[t] + k, width, w.x + e, EMBED);
        }
    for (int64_t i = 0; i < TOKENS; i++) {
        for (int64_t k = 0; k < wo; k++) SUM(w.wide_grad[OF_O][i * wo + k], EMBED, w.dy + i * EMBED, 1, w.w[OF_O] + k, wo);
        for (int64_t e = 0; e < EMBED; e++) {
            exact_sum dx = { 0, 0 };
            SUM(w.y[i * EMBED + e], wo, w.wide[OF_O] + i * wo, 1, w.w[OF_O] + e * wo, 1);
            for (int t = OF_Q; t <= OF_V; t++) sum_terms(&dx, w.width[t], w.wide_grad[t] + i * w.width[t], 1, w.w[t] + e, EMBED);
            w.dx[i * EMBED + e] = (float)dx.sum;
        }
    }
    for (int64_t e = 0; e < EMBED; e++)
        for (int64_t k = 0; k < wo; k++) SUM(w.dw[OF_O][e * wo + k], TOKENS, w.dy + e, EMBED, w.wide[OF_O] + k, wo);
#undef SUM
    expect(check_products(&w, FWD_BWD) && check_products(&w, FWD), "right products are wrong");
    for (int i = 0; i < COUNT(products); i++) {
        float kept[MOST];
        memcpy(kept, *products[i], sizeof kept);
        for (int e = 0; e < MOST; e++) (*products[i])[e] *= 1.0001f;
        expect(!check_products(&w, FWD_BWD) && check_products(&w, FWD) == (i > 3), "product %d a ten-thousandth off", i);
        memcpy(*products[i], kept, sizeof kept);
    }
}

/* OpenBLAS is told the family of the processor, by the ISA in use, where the user has told it none. */
static void test_openblas_core(void)
{
    static const struct { const char *isa, *user, *core; } cases[] = {
        { "portable", "", NULL }, { "avx2", "", "HASWELL" }, { "avx512", "", "SKYLAKEX" }, { "avx2", "Zen", "Zen" }, { "avx512", "Zen", "Zen" } };
    char blas[192], kept[64];
    const char *was = getenv("OPENBLAS_CORETYPE");
    const attn__kernels *forced = attn__machine()->isa;
    snprintf(kept, sizeof kept, "%s", was ? was : "");
    find_openblas(blas);                         /* it has read it by now */
    for (int i = 0; i < COUNT(cases); i++) {
        attn__kernels isa = *attn__isa_at(0, &(uint32_t){ 0 });
        isa.name = cases[i].isa;
        unsetenv("OPENBLAS_CORETYPE");
        if (*cases[i].user) setenv("OPENBLAS_CORETYPE", cases[i].user, 1);
        attn__machine_known.isa = &isa;
        find_openblas(blas);
        attn__machine_known.isa = forced;
        const char *core = getenv("OPENBLAS_CORETYPE");
        expect(cases[i].core ? core && !strcmp(core, cases[i].core) : !core, "%s: a core of %s", cases[i].isa, core ? core : "none");
    }
    if (was) setenv("OPENBLAS_CORETYPE", kept, 1);
    else unsetenv("OPENBLAS_CORETYPE");
}

/* ------------------------------------------------------------------------------------------ published figures
 * Each stands in the row of the case and backend that it is of, in the whole suite. */
static void test_published(void)
{
    static const struct { const char *suite; int64_t batch, seq, heads, dim; const char *backend, *pass; double ms; } figures[] = {
#define CPU(s, ms) { "rocmforge", 1, s, 1, s, "flash", "fwd", ms }
        CPU(32, 0.033463), CPU(64, 0.264199), CPU(128, 2.588), CPU(256, 22.293), CPU(512, 348.592),
#define GUIDE(b, s, h, d, standard, flash) \
        { "flash_v2", b, s, h, d, "standard", "fwd", standard }, { "flash_v2", b, s, h, d, "flash", "fwd", flash }
        GUIDE(1, 32, 4, 16, 0.15, 0.08), GUIDE(1, 64, 8, 32, 0.42, 0.18), GUIDE(2, 128, 8, 32, 1.25, 0.45),
        GUIDE(4, 256, 16, 64, 8.32, 2.85), GUIDE(8, 512, 16, 64, 32.15, 9.87), GUIDE(16, 512, 32, 64, 128.42, 35.21),
        GUIDE(32, 1024, 32, 128, 512.35, 125.67), GUIDE(64, 1024, 64, 128, 2048.92, 458.23),
        GUIDE(1, 1024, 25, 64, 3.081, 1.665),
#define BACKWARD(b, s, h, d, ms) { "flash_v2", b, s, h, d, "flash", "bwd", ms }
        BACKWARD(1, 32, 4, 16, 0.12), BACKWARD(1, 64, 8, 32, 0.28), BACKWARD(2, 128, 8, 32, 0.72),
        BACKWARD(4, 256, 16, 64, 4.58), BACKWARD(8, 512, 16, 64, 15.92),
        { "adaattn", 2, 128, 8, 64, "standard", "fwd", 45.374 }, { "adaattn", 2, 128, 8, 64, "standard", "fwd+bwd", 51.294 },
#undef CPU
#undef GUIDE
#undef BACKWARD
    };
    static bench b;
    b.selection = WHOLE;
    for (int i = 0; i < COUNT(lines); i++)
        if (lines[i].when & WHOLE)
            expand(&b, find_suite(lines[i].suite), lines[i].axes, NULL);
    for (int i = 0; i < COUNT(figures); i++) {
        bool found = false;
        for (int64_t k = 0; k < b.case_count; k++) {
            row r = new_row(&b.cases[k], figures[i].backend);
            find_published(&r);
            found |= !strcmp(r.suite, figures[i].suite) && r.batch == figures[i].batch && r.q_len == figures[i].seq
                  && r.heads == figures[i].heads && r.head_dim == figures[i].dim && !strcmp(r.pass, figures[i].pass)
                  && r.theirs == figures[i].ms;
        }
        expect(found, "published, %s B%d S%d H%d D%d %s %s: %g ms stands in no row", figures[i].suite, (int)figures[i].batch,
               (int)figures[i].seq, (int)figures[i].heads, (int)figures[i].dim, figures[i].backend, figures[i].pass,
               figures[i].ms);
    }
    free(b.cases), free(b.case_places);
}

/* ------------------------------------------------------------------------------------------ plots
 * A text is one string of a gnuplot script, whatever is in it. */
static void test_parameters(void)
{
    static const struct { const char *text, *line; } cases[] = {
        { "plain", "x = 'plain'\n" },
        { "it's", "x = 'it''s'\n" },
        { "'; system 'touch PWNED'; y = '", "x = '''; system ''touch PWNED''; y = '''\n" },
        { "a\nsystem 'b'\n", "x = 'a system ''b'' '\n" },
        { "\"`ls`\" \\n $(ls) @m %s {^_&~}", "x = '\"`ls`\" \\n $(ls) @m %s {^_&~}'\n" },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        char got[256] = "";
        FILE *f = tmpfile();
        if (!expect(f != NULL, "no temporary file"))
            return;
        set_parameter(f, "x", cases[i].text);
        rewind(f);
        size_t n = fread(got, 1, sizeof got - 1, f);
        fclose(f);
        expect(n == strlen(cases[i].line) && !strcmp(got, cases[i].line), "the parameter %s is %s", cases[i].text, got);
    }
}

/* ------------------------------------------------------------------------------------------ statistics */
static list numbers(const char *text)
{
    list of = { NULL, 0 };
    char copy[256];
    snprintf(copy, sizeof copy, "%s", text);
    expect(parse_list(copy, &of), "%s is no list", text);
    return of;
}

/* Counted by hand over all ways to deal the numbers to two runs. */
static void test_rank_test(void)
{
    static const struct { const char *x, *y; double p; } cases[] = {
        { "1 2 3", "4 5 6", 0.1 },
        { "4 5 6", "1 2 3", 0.1 },
        { "1 3 5 7 9", "2 4 6 8 10 12", 1 },
        { "1 2 3 4 5", "6 7 8 9 10", 0.007936507936507936 },
        { "1 2 3 4 9", "5 6 7 8 10", 0.047619047619047616 },
        { "1 1 2 2 3", "2 3 3 4 4 5", 0.45454545454545453 },
        { "5 5 5 5 5", "5 5 5 5 5 5", 1 },
        { "1.1 1.2 1.3 1.4 1.5 1.6", "1.15 1.25 1.9 2.0 2.1 2.2 2.3 2.4", 1 },
        { "1 1.01 1.02 1.3 1.31 1.32 1.33", "1.15 1.16 1.17 1.18 1.5 1.51 1.52", 0.19230769230769232 },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        list x = numbers(cases[i].x), y = numbers(cases[i].y);
        double p = rank_test(x, y);
        expect(fabs(p - cases[i].p) <= 1e-12, "p of %s and %s: %.17g, not %.17g", cases[i].x, cases[i].y, p, cases[i].p);
        free(x.x), free(y.x);
    }
    /* drawn ways: none is as far apart as what was seen */
    double low[20], high[20];
    for (int i = 0; i < 20; i++) low[i] = i, high[i] = 100 + i;
    double least = rank_test((list){ low, 20 }, (list){ high, 20 });
    expect(least > 0 && least < 1.5 / 4000 && least > 0.5 / 4000, "p of two runs far apart: %g", least);
    expect(isnan(rank_test((list){ NULL, 0 }, (list){ low, 20 })) && isnan(rank_test((list){ low, 20 }, (list){ NULL, 0 })), "a run without numbers");
    /* where only some ways are drawn, equal runs look uneven at most as often as p says */
    enum { N = 12, RUNS = 200 };
    int below[3] = { 0, 0, 0 };
    for (int run = 0; run < RUNS; run++) {
        double x[N], y[N];
        for (int i = 0; i < N; i++) x[i] = (double)normal(71, (uint64_t)(run * N + i)), y[i] = (double)normal(72, (uint64_t)(run * N + i));
        double p = rank_test((list){ x, N }, (list){ y, N });
        for (int i = 0; i < 3; i++) below[i] += p < 0.25 * (i + 1);
    }
    for (int i = 0; i < 3; i++) expect(below[i] < 50 * (i + 1) + 24 && below[i] > 25 * (i + 1), "%d of %d below %g", below[i], RUNS, 0.25 * (i + 1));
}

/* The interval is that of 2000 draws, one by one. */
static void test_draws(void)
{
    enum { CALLS = 30, DRAWS = 2000 };
    double x[CALLS], y[CALLS], ratios[DRAWS];
    comparison c = { .processes = 1 };
    for (int i = 0; i < CALLS; i++) x[i] = 10 + (double)normal(53, (uint64_t)i), y[i] = 11 + (double)normal(54, (uint64_t)i);
    const list old = { x, CALLS }, now = { y, CALLS };
    qsort(x, CALLS, sizeof *x, by_size), qsort(y, CALLS, sizeof *y, by_size);
    for (int i = 0; i < DRAWS; i++) ratios[i] = quantile_of_draws(now, mix((uint64_t)(2 * i))) / quantile_of_draws(old, mix((uint64_t)(2 * i + 1)));
    qsort(ratios, DRAWS, sizeof *ratios, by_size);
    compare_lists(&c, old, now);
    expect(c.low == quantile(ratios, DRAWS, 0.025) && c.high == quantile(ratios, DRAWS, 0.975) && c.low < c.high, "interval [%g, %g] of 2000 draws", c.low, c.high);
}

/* The interval holds the true ratio about as often as it says, is as wide as it must be, and the same in every run. */
static void test_bootstrap(void)
{
    enum { RUNS = 200, CALLS = 30 };
    int held = 0;
    double x[CALLS], y[CALLS], width = 0;
    for (int r = 0; r < RUNS; r++) {
        comparison c, again;
        for (int i = 0; i < CALLS; i++)
            x[i] = 10 + (double)normal(51, (uint64_t)(r * CALLS + i)), y[i] = 11 + (double)normal(52, (uint64_t)(r * CALLS + i));
        samples old = gather(&(list){ x, CALLS }, 1, 1), now = gather(&(list){ y, CALLS }, 1, 1);
        c = compare_samples(&old, &now);
        again = compare_samples(&old, &now);
        free_samples(&old), free_samples(&now);
        expect(c.low <= c.ratio && c.ratio <= c.high && c.low == again.low && c.high == again.high, "interval [%g, %g]", c.low, c.high);
        held += c.low <= 1.1 && 1.1 <= c.high;
        width += (c.high - c.low) / RUNS;
    }
    expect(held >= RUNS * 90 / 100, "95%% intervals hold the ratio in %d of %d runs", held, RUNS);
    /* the lowest tenth of 30 normal calls of 10% spreads by 1.7 * 0.1 / sqrt(30) */
    expect(width > 0.12 && width < 0.24, "width %g", width);
}

/* What several processes have measured: samples in order, each where its process put it; and a spread between processes is no
 * slowdown, however many calls each of them makes. */
static void test_processes(void)
{
    double a[] = { 3, 1, 8 }, b[] = { 9, 2 };
    list two[] = { { a, 3 }, { b, 2 } };
    samples s = gather(two, 2, 2);
    static const double sorted[] = { 2, 4, 6, 16, 18 };
    bool right = s.processes == 2 && s.all.n == 5 && s.medians[0] == 6 && s.medians[1] == 11;
    for (int i = 0; i < 5; i++)
        right = right && s.all.x[i] == sorted[i];
    expect(right, "samples of two processes");
    free_samples(&s);
    enum { MOST = 25, CALLS = 40, RUNS = 60 };
    double x[2][MOST][CALLS];
    list lists[2][MOST];
    /* half of the processes are in a state that is slower by so much; so many of 60 runs may be judged otherwise */
    static const struct { double state, slower; int processes; const char *verdict; int otherwise; } cases[] = {
        { 0.5, 1, 5, "unclear", 2 },   { 0, 1.15, 5, "slower", 0 }, { 0, 1 / 1.15, 5, "faster", 0 }, { 0, 1, 5, "same", 0 },
        { 0.16, 1, 25, "same", 6 },    { 0.5, 1, 25, "same", 6 },   { 0.16, 1.15, 25, "slower", 6 }, { 0.3, 1 / 1.15, 25, "faster", 6 },
        { 0.04, 1.15, 25, "slower", 0 },
    };
    for (int k = 0; k < COUNT(cases); k++)
        for (int r = 0, wrong = 0; r < RUNS; r++) {
            const int processes = cases[k].processes;
            for (int side = 0; side < 2; side++)
                for (int p = 0; p < processes; p++) {
                    uint64_t of = (uint64_t)((r * 2 + side) * processes + p);
                    double state = draw(61, of) % 2 ? 1 + cases[k].state : 1;
                    for (uint64_t i = 0; i < CALLS; i++)
                        x[side][p][i] = state * (side ? cases[k].slower : 1) * (1 + 0.01 * fabs((double)normal(62, of * CALLS + i)));
                    lists[side][p] = (list){ x[side][p], CALLS };
                }
            samples old = gather(lists[0], processes, 1), now = gather(lists[1], processes, 1);
            comparison c = compare_samples(&old, &now);
            wrong += strcmp(c.verdict, cases[k].verdict) != 0;
            if (r == RUNS - 1)
                expect(wrong <= cases[k].otherwise, "%d of %d runs of case %d are not %s", wrong, RUNS, k, cases[k].verdict);
            free_samples(&old), free_samples(&now);
        }
}

/* Medians of processes are ranked where both sides have five; else the samples are, of whichever side there are fewer. */
static void test_fewer_processes(void)
{
    double x[6] = { 1, 1.01, 1.02, 1.03, 1.04, 1.05 };
    list one[6];
    for (int i = 0; i < 6; i++) one[i] = (list){ x + i, 1 };
    for (int n = 3; n <= 6; n++)
        for (int m = 3; m <= 6; m++) {
            samples old = gather(one, n, 1), now = gather(one, m, 1);
            comparison c = compare_samples(&old, &now);
            expect(c.processes == (n < m ? n : m), "%d and %d processes count as %d", n, m, c.processes);
            free_samples(&old), free_samples(&now);
        }
}

/* A sum of so many terms may be off by 2^-24 of their sizes for each. */
static void test_exact_sum(void)
{
    for (int n = 1; n <= 64; n *= 4)
        for (int side = -1; side <= 1; side += 2) {
            const exact_sum exact = { .sum = 0, .size = 3 };
            const float most = (float)n * 3 * 0x1p-24f * (float)side;
            expect(is_sum(&exact, n, most) && !is_sum(&exact, n, most * 1.001f), "%d terms, off by %g", n, (double)most);
        }
}

/* What the samples cannot tell is unclear; tails are those of all calls. */
static void test_unclear(void)
{
    static const struct { const char *old, *now, *verdict; double p95; } cases[] = {
        { "1 1.01 1.02 1.03 1.04 1.05 1.06 1.07", "1.13 1.15 1.17 0.99 1.19 1.21 1.22 1.23", "unclear", 1.15 },
        { "1 1 1 1 1 1 1 1.3", "1 1 1 1 1 1 1 1", "same", 1 / 1.195 },
        { "1 1.3 1.35 1.4 1.5 1.6", "1 1.3 1.35 1.4 1.5 1.6", "unclear", 1 },
        { "1 1.01 1.01 1.02 1.02", "1 1.01 1.01 1.02 1.02", "same", 1 },
        { "1 2 3", "1 2 3", "too few", 1 },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        list x = numbers(cases[i].old), y = numbers(cases[i].now), one[2][MOST_PROCESSES];
        for (int64_t k = 0; k < x.n; k++) one[0][k] = (list){ x.x + k, 1 }, one[1][k] = (list){ y.x + k, 1 };
        samples old = gather(one[0], (int)x.n, 1), now = gather(one[1], (int)y.n, 1);
        comparison c = compare_samples(&old, &now);
        expect(!strcmp(c.verdict, cases[i].verdict) && c.processes == (int)x.n, "case %d, p %g, [%g, %g]: %s", i, c.p, c.low, c.high, c.verdict);
        expect(fabs(c.p95 - cases[i].p95) < 0.02, "p95 of case %d: %g times", i, c.p95);
        free_samples(&old), free_samples(&now);
        free(x.x), free(y.x);
    }
}

static void test_median_interval(void)
{
    static const struct { int64_t n, outside; } cases[] = { { 1, 0 }, { 5, 0 }, { 6, 0 }, { 9, 1 }, { 10, 1 }, { 20, 5 },
                                                            { 50, 17 }, { 100, 39 }, { 1000, 468 }, { 1001, 469 } };
    for (int i = 0; i < COUNT(cases); i++)
        expect(outside_median(cases[i].n) == cases[i].outside, "%d of %d outside", (int)outside_median(cases[i].n), (int)cases[i].n);
}

/* ------------------------------------------------------------------------------------------ what samples say */
static bool near(double got, double want) { return fabs(got - want) <= 1e-9 * fabs(want); }

/* Twenty samples, 1 .. 20 ms out of order: every number of the row by hand. */
static void test_summary(void)
{
    double x[20];
    problem p = { 0 };
    row r = null_row();
    for (int i = 0; i < 20; i++) x[i] = 1e-3 * (1 + i * 7 % 20);
    p.flops = 21e6, p.bytes = 42e6;
    summarize(&r, (list){ x, 20 }, &p, 5);
    expect(r.iterations == 20 && near(r.mean_ms, 10.5) && near(r.stddev_ms, sqrt(35)) && near(r.min_ms, 1) && near(r.max_ms, 20),
           "%d samples, mean %g +- %g, %g to %g", (int)r.iterations, r.mean_ms, r.stddev_ms, r.min_ms, r.max_ms);
    expect(near(r.p50_ms, 10.5) && near(r.kernel_ms, 10.5) && near(r.p95_ms, 19.05) && near(r.p99_ms, 19.81), "p50 %g, p95 %g, p99 %g",
           r.p50_ms, r.p95_ms, r.p99_ms);
    expect(near(r.p50_low_ms, 6) && near(r.p50_high_ms, 15), "the median's interval is %g to %g", r.p50_low_ms, r.p50_high_ms);
    expect(near(r.ops_per_s, 1e3 / 10.5) && near(r.tokens_per_s, 5e3 / 10.5) && near(r.gflops, 2) && near(r.gbytes_per_s, 4),
           "%g calls, %g tokens a second, %g GFLOP/s, %g GB/s", r.ops_per_s, r.tokens_per_s, r.gflops, r.gbytes_per_s);
    double close[7];
    for (int i = 0; i < 7; i++) close[i] = 0.3 + 1e-9 * i;
    r = null_row();
    summarize(&r, (list){ close, 7 }, &p, 5);
    expect(fabs(r.stddev_ms - 1e-6 * sqrt(28.0 / 6)) < 1e-10, "a spread of nanoseconds: %g ms", r.stddev_ms);
    r = null_row();
    summarize(&r, (list){ x, 1 }, &p, 5);
    expect(r.iterations == 1 && isnan(r.stddev_ms) && near(r.p99_ms, 1) && isnan(r.p50_low_ms) && isnan(r.p50_high_ms), "one sample");
    for (int n = 5; n <= 6; n++) {
        r = null_row();
        summarize(&r, (list){ x, n }, &p, 5);
        expect(n < 6 ? isnan(r.p50_low_ms) && isnan(r.p50_high_ms) : r.p50_low_ms == r.min_ms && r.p50_high_ms == r.max_ms, "%d samples: %g to %g", n, r.p50_low_ms, r.p50_high_ms);
    }
    r = null_row();
    summarize(&r, (list){ x, 0 }, &p, 5);
    expect(r.iterations == NO_INT && isnan(r.p50_ms), "no sample");
    x[0] = 0;
    summarize(&r, (list){ x, 1 }, &p, 5);
    expect(r.p50_ms == 0 && isnan(r.ops_per_s) && isnan(r.gflops), "a call of no time has the rate %g", r.ops_per_s);
    double three[] = { 5, 1, 4 }, two[] = { 4, 1 };
    expect(median(three, 3) == 4 && median(two, 2) == 2.5 && isnan(median(two, 0)), "medians");
    expect(near(deviation(three, 3), sqrt(13.0 / 3)) && isnan(deviation(three, 1)), "deviation %g", deviation(three, 3));
    keep_samples(&r, (list){ two, 2 });
    expect(r.samples_ms.x == two && r.samples_ms.n == 2 && two[0] == 1000 && two[1] == 4000, "samples are kept as %g, %g ms", two[0], two[1]);
}

static void test_outliers(void)
{
    static const struct { double p50, max, first; const char *note; } cases[] = {
        { 1, 3, 3, "" },      { 1, 3.1, 1, "outlier: the slowest call took 3.1 times the median" },
        { 0.02, 0.069, 0.02, "" }, { 0.02, 0.071, 0.02, "outlier: the slowest call took 3.5 times the median" },
        { 0.05, 0.1, 0.249, "" },  { 0.05, 0.1, 0.251, "slow first run: 5.0 times the median" },
        { 1, 1, 3.2, "slow first run: 3.2 times the median" },
        { 1, 4, 5, "outlier: the slowest call took 4.0 times the median; slow first run: 5.0 times the median" },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        row r = null_row();
        r.p50_ms = cases[i].p50, r.max_ms = cases[i].max, r.first_run_ms = cases[i].first;
        note_outliers(&r);
        expect(!strcmp(r.note, cases[i].note), "median %g, slowest %g, first %g: '%s'", r.p50_ms, r.max_ms, r.first_run_ms, r.note);
    }
}

/* 1e9 operations and bytes a second: 20 operations for a pair, the workspace twice. */
static void test_bound(void)
{
    static const struct { double flops, pairs, bytes; int64_t workspace; double overhead_ms, p50_ms; const char *bound; } cases[] = {
        { 1000, 0, 1000, 0, 0, 1, "compute" },   { 999, 0, 1000, 0, 0, 1, "bandwidth" }, { 800, 10, 1000, 0, 0, 1, "compute" },
        { 800, 9, 1000, 0, 0, 1, "bandwidth" },  { 1000, 0, 600, 200, 0, 1, "compute" }, { 1000, 0, 600, 201, 0, 1, "bandwidth" },
        { 1000, 0, 1002, -1, 0, 1, "bandwidth" }, { 1000, 0, 1001, NO_INT, 0, 1, "bandwidth" }, { 1000, 0, 1000, -1, 0, 1, "compute" },
        { 1000, 0, 1, 0, 0.5, 1, "compute" },    { 1000, 0, 1, 0, 0.51, 1, "overhead" }, { 1000, 0, 1, 0, NAN, 1, "compute" },
        /* an empty call that takes longer than what the work leaves of this one */
        { 800000, 0, 1, 0, 2, 1, "compute" },    { 510000, 0, 1, 0, 0.9, 1, "compute" }, { 490000, 0, 1, 0, 0.9, 1, "overhead" },
        { 1, 0, 800000, 0, 2, 1, "bandwidth" }, { 1, 0, 1, 400000, 2, 1, "overhead" }, { 0, 40000, 1, 0, 2, 1, "compute" }, { 2000000, 0, 1, 0, 2, 1, "compute" },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        row r = null_row();
        r.flops = cases[i].flops, r.bytes = cases[i].bytes, r.workspace_bytes = cases[i].workspace;
        r.overhead_ms = cases[i].overhead_ms, r.p50_ms = cases[i].p50_ms;
        const char *bound = bound_of(&r, cases[i].pairs, 1e9, 1e9);
        expect(!strcmp(bound, cases[i].bound), "bound of case %d: %s, not %s", i, bound, cases[i].bound);
        expect(workspace_of(&r) == (double)(cases[i].workspace > 0 ? cases[i].workspace : 0), "workspace of case %d", i);
    }
    row r = null_row();
    r.flops = 1000, r.bytes = 1000, r.overhead_ms = 0, r.p50_ms = 1;
    expect(!*bound_of(&r, 0, 1e9, 0), "a bound without a bandwidth: %s", bound_of(&r, 0, 1e9, 0));
    expect(!strcmp(bound_of(&r, 0, 2e9, 1e9), "bandwidth") && !strcmp(bound_of(&r, 0, 1e9, 2e9), "compute"), "peak and bandwidth");
}

static void counting_call(void *user);
/* Sampled again after the calls, up to three times where they were faster; the larger of the samples counts. Calls of 8 MFLOP and 2 MB. */
static void test_sampled_again(void)
{
    static const struct { double ms, peak, bandwidth; int peaks, bandwidths; double peak_share, bandwidth_share; const char *note; int64_t workspace; } cases[] = {
        { 8, 0.5, 0.125, 1, 1, 0.5, 0.25, "", 0 }, { 2, 0.5, 0.125, 3, 1, NAN, 1, "no share of the peak: 2.00 of", 0 }, { 1, 16, 8, 1, 1, 0.5, 0.25, "", 1000000 },
        { 1, 5, 1.5, 3, 3, NAN, NAN, "no share of the bandwidth: 1.33 of", 0 }, { 8, 0.5, 0.125, 1, 2, 0.5, 0.25, "", 1000001 },      /* it spills */
    };
    bench_case c = { .suite = find_suite("shape") };
    c.v[SEQ] = 2, c.v[DTYPE] = c.v[KV_DTYPE] = ATTN_BF16;
    for (int i = 0; i < COUNT(cases); i++) {
        bench b = { .selection = QUICK };
        row r = null_row();
        problem p = { .flops = 8e6, .bytes = 2e6 };
        job j = { .b = &b, .c = &c, .p = &p, .r = &r, .reference = true, .call = counting_call, .peak = cases[i].peak, .bandwidth = cases[i].bandwidth };
        for (int n = 0; n < 3; n++) {
            j.seconds.x = grow(j.seconds.x, n, sizeof *j.seconds.x);
            j.seconds.x[j.seconds.n++] = 1e-3 * cases[i].ms;
        }
        r.c = &c, r.flops = p.flops, r.bytes = p.bytes, r.workspace_bytes = cases[i].workspace, probed.peaks = probed.bandwidths = 0;
        snprintf(r.backend, sizeof r.backend, "flash");
        finish_timing(&j);
        expect(probed.peaks == cases[i].peaks && probed.bandwidths == cases[i].bandwidths && probed.bytes == 64 + 2000000 + (cases[i].bandwidths == 2 ? 1000001 : 0), "case %d: the peak is sampled %d times, the bandwidth %d times", i, probed.peaks, probed.bandwidths);
        expect(isnan(cases[i].peak_share) ? isnan(r.peak_fraction) : near(r.peak_fraction, cases[i].peak_share), "case %d: share %g of the peak", i, r.peak_fraction);
        expect(isnan(cases[i].bandwidth_share) ? isnan(r.bandwidth_fraction) : near(r.bandwidth_fraction, cases[i].bandwidth_share), "case %d: share %g of the bandwidth", i, r.bandwidth_fraction);
        expect(*cases[i].note ? strstr(r.note, cases[i].note) != NULL : !*r.note, "case %d: '%s'", i, r.note);
        /* what is learned of a backend, from calls that are long enough */
        expect(near(*rate_of(&b, r.backend), cases[i].ms > 1 ? 8e9 / cases[i].ms : 5e10), "case %d: a rate of %g", i, *rate_of(&b, r.backend));
        free(r.samples_ms.x);
    }
}

/* After each call numbers have a point again, whatever locale it has set. */
static void foreign_call(void *user)
{
    (void)user;
    setlocale(LC_NUMERIC, "C.UTF-8");
}
static void test_locale(void)
{
    bench_case c = { .suite = find_suite("shape") };
    job j = { .c = &c };
    list seconds = { NULL, 0 };
    expect(sample_calls(&j, foreign_call, &(timing_plan){ 1, 2, 0 }, &seconds) && seconds.n == 2, "calls of another locale are not timed");
    expect(!strcmp(setlocale(LC_NUMERIC, NULL), "C"), "numbers are written in the locale %s", setlocale(LC_NUMERIC, NULL));
    free(seconds.x);
}

/* The peak of a forced ISA is the largest sampled, of its type and threads; sampled again where a row was faster. */
static void test_forced_isa(void)
{
    static const double samples[] = { 40, 60, 50, 70, 10, 20, 30, 5 };
    static const struct { int threads; double reached; int samples; const char *says; } rows[] = {
        { 901, 30, 1, " 40.0 " }, { 901, 55, 2, " 60.0 " }, { 901, 55, 3, " 60.0 " }, { 901, 65, 4, " 70.0 " }, { 902, 90, 7, " 30.0 " }, { 902, 1, 8, " 30.0 " },
    };
    char *isa = getenv("ATTN_ISA"), kept[32] = "";
    snprintf(kept, sizeof kept, "%s", isa ? isa : "");
    setenv("ATTN_ISA", "portable", 1);
    probed.samples = samples;
    for (int i = 0; i < COUNT(rows); i++) {
        bench_case c = { .suite = find_suite("shape") };
        row r = null_row();
        c.v[THREADS] = rows[i].threads, r.c = &c, r.gflops = rows[i].reached;
        note_forced_isa(&r);
        expect(strstr(r.note, rows[i].says) && probed.samples == samples + rows[i].samples, "row %d, %d samples: %s", i, (int)(probed.samples - samples), r.note);
    }
    probed.samples = NULL;
    unsetenv("ATTN_ISA");
    if (*kept) setenv("ATTN_ISA", kept, 1);
}

/* A case that takes more memory than there is, unless its tensors have been made. */
static void test_fits(void)
{
    bench_case c = { .suite = find_suite("shape") };
    for (int a = 0; a < COUNT(axes); a++) c.v[a] = axes[a].normal;
    c.v[BATCH] = c.v[SEQ] = 1, c.v[HEADS] = c.v[KV_HEADS] = 8, c.v[DIM] = c.v[V_DIM] = 64, c.v[DTYPE] = c.v[KV_DTYPE] = ATTN_F32, c.v[PASS] = FWD;
    c.v[KV] = (int64_t)(1.2 * available_memory() / (2 * 8 * 64 * 4));
    for (int made = 0; made < 2; made++) {
        row r = new_row(&c, "flash");
        const bool fits = plan_row(&c, "flash", made, &r);
        expect(fits == made, "tensors that are %s: %s %s", made ? "there" : "to be made", r.status, r.note);
    }
}

static void test_roofline(void)
{
    char *isa = getenv("ATTN_ISA"), kept[32] = "";
    snprintf(kept, sizeof kept, "%s", isa ? isa : "");
    unsetenv("ATTN_ISA");
    bench_case c = { .suite = find_suite("shape") };
    for (int i = 0; i < 5; i++) {
        row r = null_row();
        r.c = &c, probed.asked_only = true;
        r.gflops = i == 1 ? 101 : i == 3 ? 500 : 50, r.gbytes_per_s = i == 4 ? 21 : 5;
        if (i == 2) setenv("ATTN_ISA", "portable", 1);
        else unsetenv("ATTN_ISA");
        place_under_roofline(&r, 100, 20);
        note_forced_isa(&r);
        probed.asked_only = false;
        expect(i & 1 ? isnan(r.peak_fraction) : r.peak_fraction == 0.5, "share %g of the peak", r.peak_fraction);
        expect(r.peak_gflops == 100 && r.bandwidth_gbs == 20, "shares of %g GFLOP/s and %g GB/s", r.peak_gflops, r.bandwidth_gbs);
        expect(i == 4 ? isnan(r.bandwidth_fraction) : r.bandwidth_fraction == 0.25, "share %g of the bandwidth", r.bandwidth_fraction);
        const char *says = i == 0 ? "" : i == 1 ? "no share of the peak: 1.01 of the peak sampled, the machine was disturbed" : i == 3 ? "no share of the peak: 5.00 of the peak sampled, more than vectors can" : i == 4 ? "no share of the bandwidth: 1.05 of that sampled" : "ATTN_ISA=portable: the peak of this ISA is 1.0 GFLOP/s";
        expect(i ? strstr(r.note, says) == r.note : !*r.note, "the roofline notes: '%s'", r.note);
    }
    unsetenv("ATTN_ISA");
    row none = null_row();
    none.c = &c, none.gflops = 50, none.gbytes_per_s = 5;
    place_under_roofline(&none, 100, 0);            /* there was no memory to measure a bandwidth in */
    expect(none.peak_gflops == 100 && isnan(none.bandwidth_gbs), "a share of no bandwidth: %g", none.bandwidth_gbs);
    expect(none.peak_fraction == 0.5 && isnan(none.bandwidth_fraction) && !*none.note, "a share %g of no bandwidth: '%s'", none.bandwidth_fraction, none.note);
    probed.asked_only = true;
    test_sampled_again();
    probed.asked_only = false;
    if (*kept) setenv("ATTN_ISA", kept, 1);
}

/* ------------------------------------------------------------------------------------------ which calls are timed */
static int calls;
static void counting_call(void *user)
{
    job *j = user;
    calls++;
    if (j->kernel_count && !--j->kernel_count) j->status = ATTN_ERR_MEMORY;      /* the call that fails */
}
static void waiting_call(void *user)
{
    struct timespec wait = { 0, 2000000 };
    counting_call(user);
    nanosleep(&wait, NULL);
}

static void test_sampling(void)
{
    bench_case c = { .suite = find_suite("shape") };
    bench b = { .selection = QUICK };
    row r = null_row();
    problem p = { 0 };
    job j = { .b = &b, .c = &c, .p = &p, .r = &r };
    list s = { NULL, 0 };
    calls = 0;
    expect(sample_calls(&j, counting_call, &(timing_plan){ 3, 5, 0 }, &s) && s.n == 5 && calls == 8, "3 + 5 calls: %d, %d kept", calls, (int)s.n);
    expect(sample_calls(&j, counting_call, &(timing_plan){ 0, 2, 0 }, &s) && s.n == 7 && calls == 10, "and 2 more: %d, %d kept", calls, (int)s.n);
    bool real = true;
    s.n = 0;
    sample_calls(&j, waiting_call, &(timing_plan){ 0, 3, 0 }, &s);
    for (int64_t i = 0; i < s.n; i++) real = real && s.x[i] >= 2e-3;
    expect(real, "a call that waits 2 ms has taken less");
    s.n = 0, calls = 0;
    bool ended = sample_calls(&j, waiting_call, &(timing_plan){ 0, 1, 0.005 }, &s);
    double spent = 0;
    for (int64_t i = 0; i < s.n; i++) spent += s.x[i];
    expect(ended && spent >= 0.005 && (s.n == 1 || spent - s.x[s.n - 1] < 0.005), "5 ms of calls of 2 ms: %d calls, %g s", (int)s.n, spent);
    s.n = 0, calls = 0, j.kernel_count = 4;
    expect(!sample_calls(&j, counting_call, &(timing_plan){ 0, 9, 0 }, &s) && calls == 4, "a failure ends it after %d calls", calls);
    j.status = ATTN_OK, calls = 0, interrupted = 1;
    expect(!sample_calls(&j, counting_call, &(timing_plan){ 0, 9, 0 }, &s) && calls == 1, "an interruption ends it after %d calls", calls);
    interrupted = 0;
    /* the turns of a row: its iterations, no more; warmed up in full at first, later by one call, or not at all where calls are long */
    for (int is_long = 0; is_long < 2; is_long++)
        for (int64_t n = 1; n < 40; n += 6) {
            calls = 0, s.n = 0;
            j.seconds = s, j.plan = (timing_plan){ 3, n, 0 }, j.call = counting_call, r.first_run_ms = is_long ? 51 : 50;
            int turns = 0;
            for (int turn = 0; turn < TURNS; turn++) {
                int64_t before = j.seconds.n;
                time_turn(&j, turn, TURNS);
                turns += turn && j.seconds.n > before;
                expect(j.seconds.n - before <= n / TURNS + 1, "turn %d of %d calls has %d", turn, (int)n, (int)(j.seconds.n - before));
            }
            int warm = 3 + (is_long ? 0 : turns);
            expect(j.seconds.n == n && calls == n + warm, "%d calls in turns: %d timed, %d in all, not %d", (int)n, (int)j.seconds.n, calls,
                   (int)(n + warm));
            s = j.seconds;
        }
    j.plan = (timing_plan){ 0, 1, 0.008 }, j.seconds.n = 0;      /* for so long at least: every turn has its part */
    time_turn(&j, 3, TURNS);
    expect(j.seconds.n > 0, "a turn of a millisecond has no call");
    s = j.seconds;
    free(s.x);
    /* how many: at most a second's worth, three at least, as many as the user says, three of the reference */
    static const struct { int64_t n, given; int selection; const char *backend; double each; int64_t want; } counts[] = {
        { 50, 0, QUICK, "flash", 0.001, 50 }, { 50, 0, QUICK, "flash", 0.1, 10 },   { 50, 0, QUICK, "flash", 5, 3 },
        { 50, 0, WHOLE, "flash", 5, 12 },     { 50, 1, QUICK, "flash", 5, 50 },     { 50, 0, QUICK, "reference", 0.001, 3 },
        { 2, 1, QUICK, "reference", 0.001, 2 }, { 50, 0, QUICK, "flash", 0.3, 3 },  { 50, 0, DEFAULT, "standard", 0.2, 5 },
    };
    for (int i = 0; i < COUNT(counts); i++) {
        b.selection = counts[i].selection, b.opt.user.count[ITERATIONS] = (int)counts[i].given, c.v[ITERATIONS] = counts[i].n;
        int64_t n = calls_of(&b, &c, counts[i].backend, counts[i].each * (1 - 1e-12));
        expect(n == counts[i].want, "case %d makes %d calls, not %d", i, (int)n, (int)counts[i].want);
    }
}

static void test_rates(void)
{
    bench b = { .selection = QUICK };
    expect(*rate_of(&b, "reference") == 5e8 && *rate_of(&b, "standard") == 1e10 && *rate_of(&b, "flash") == 5e10, "first rates");
    *rate_of(&b, "standard") = 3;
    expect(*rate_of(&b, "standard") == 3 && *rate_of(&b, "reference") == 5e8 && *rate_of(&b, "flash") == 5e10, "a rate that was learned");
    for (int i = 0; i < 2 * MOST_BACKENDS; i++) {
        char name[32];
        snprintf(name, sizeof name, "other%d", i);
        expect(*rate_of(&b, name) == 5e10, "rate of %s", name);
    }
    expect(*rate_of(&b, "standard") == 3 && *rate_of(&b, "reference") == 5e8, "the rates of others are kept");
    /* the GPU's clock: the last n calls, of those that are kept */
    job j = { .b = &b };
    expect(isnan(kernel_median(&j, 5)), "no kernel was timed");
    for (int i = 1; i <= 5; i++) j.kernel[j.kernel_count++] = i * i;
    expect(kernel_median(&j, 9) == 9 && kernel_median(&j, 2) == 20.5 && kernel_median(&j, 1) == 25, "medians of kernels");
    for (int i = 0; i < KERNEL_TIMES; i++) j.kernel[j.kernel_count++ % KERNEL_TIMES] = 7;
    expect(kernel_median(&j, 1000) == 7, "kernels beyond the last %d", KERNEL_TIMES);
    row r = null_row();
    job on_gpu = { .b = &b, .r = &r, .gpu = true }, on_cpu = { .b = &b, .r = &r };
    for (int i = 1; i <= 3; i++) {
        gpu.kernel = i * i, gpu.bytes = 100 * (size_t)i;
        note_kernel(&on_gpu), note_kernel(&on_cpu);
    }
    on_gpu.status = ATTN_ERR_MEMORY, gpu.bytes = 7;
    note_kernel(&on_gpu);
    expect(on_gpu.kernel_count == 3 && kernel_median(&on_gpu, 9) == 4 && r.device_bytes == 300, "%d kernels of a GPU, the last with %d bytes", (int)on_gpu.kernel_count, (int)r.device_bytes);
    expect(!on_cpu.kernel_count, "a kernel of a call on the CPU");
    gpu.bytes = 0;
}

/* The total is of calls that are given no workspace: a warm-up, a quarter of the calls, three at least; of long ones one. */
static int given;
static void counts_workspaces(void *user)
{
    job *j = user;
    given += j->p->d.workspace != NULL;
    waiting_call(user);
}
static void test_total(void)
{
    static const struct { double p50; int64_t timed; int calls; } cases[] = { { 1, 24, 7 }, { 1, 4, 4 }, { 101, 24, 1 } };
    bench_case c = { .suite = find_suite("shape") };
    bench b = { .selection = QUICK };
    problem p = { 0 };
    for (int i = 0; i < COUNT(cases); i++) {
        row r = null_row();
        job j = { .b = &b, .c = &c, .p = &p, .r = &r };
        r.p50_ms = cases[i].p50, calls = given = 0;
        expect(give_workspace(&p, 64) && p.d.workspace, "no workspace");
        time_total(&j, counts_workspaces, cases[i].timed);
        expect(calls == cases[i].calls && !given && !p.d.workspace && p.owned_count == 0, "total of case %d: %d calls, %d with a workspace", i, calls, given);
        expect(r.total_ms >= 2, "total of case %d: %g ms", i, r.total_ms);
    }
}

static void test_cold(void)
{
    bench_case c = { .suite = find_suite("shape") };
    c.v[THREADS] = 1;
    expect(flush_size() == min64(2 * last_cache() > SMALLEST_FLUSH ? 2 * last_cache() : SMALLEST_FLUSH, 1 << 30), "flushes %lld bytes", (long long)flush_size());
    expect(flush_caches(&c), "caches are not flushed");
    int64_t lines = flush_buffer.size / 64, touched = 0, each = flush_buffer.size / FLUSH_TASKS, whole = each / 64 * FLUSH_TASKS;
    for (int64_t i = 0; i < lines; i++) touched += flush_buffer.x[64 * i] == 1;
    expect(touched >= whole && touched <= lines, "%lld of %lld lines are walked through", (long long)touched, (long long)lines);
    job j = { .c = &c };
    list s = { NULL, 0 };
    for (int cold = 0; cold < 2; cold++) {
        const int before = flush_buffer.x[0];
        c.v[COLD] = cold;
        sample_calls(&j, counting_call, &(timing_plan){ 2, 3, 0 }, &s);
        expect(flush_buffer.x[0] - before == 3 * cold, "caches are flushed %d times for 3 %s calls", flush_buffer.x[0] - before, cold ? "cold" : "warm");
    }
    free(s.x);
}

/* ------------------------------------------------------------------------------------------ properties
 * A backend that is right, but for one thing. */
enum { STEADY, NEVER_THE_SAME, BY_THREADS, BY_BATCH, NOT_FINITE, OTHER_DV, WITH_LSE, WITHOUT_LSE, SLOW, SCRIBBLES, OTHER_DK, FAILS_TWICE,
       LAZY, LATE, WRITES_Q, WRITES_V, WRITES_DOUT, BEHIND_O, BEFORE_O, BEHIND_LSE, BEHIND_DV, BEHIND_WORKSPACE, LEAVES_ROW, LEAVES_LSE, FAILS_LATER, SLOW_ONCE };
static int moody, runs, large_runs;      /* large: no empty call */
static int64_t most_queries;            /* of a call */
static int other_inputs;                /* calls with a mask, pages or appended keys */
/* What it writes where it must not, or leaves unwritten. */
static void trespass(const attn_desc *d, const attn_grad *g)
{
    const int64_t rows = d->batch * d->q_len * d->heads;
    float *o = d->o.data, *end = o + rows * d->v_dim;
    if (moody == LATE && runs > 2) for (float *x = o; x < end; x++) *x *= 1.01f;
    if (moody == WRITES_Q) ((float *)(uintptr_t)d->q.data)[3] = 9;
    if (moody == WRITES_V) memset((void *)(uintptr_t)d->v.data, 0, (size_t)(d->batch * d->kv_len * d->kv_heads * d->v_dim) * sizeof(float));
    if (moody == WRITES_DOUT && g) ((float *)(uintptr_t)g->dout.data)[1] += 1;
    if (moody == BEHIND_O) *end = 1;
    if (moody == BEFORE_O) o[-1] = 1;
    if (moody == BEHIND_LSE && d->lse) d->lse[rows] = 1;
    if (moody == BEHIND_DV && g) ((float *)g->dv.data)[d->batch * d->kv_len * d->kv_heads * d->v_dim] = 1;
    if (moody == BEHIND_WORKSPACE && d->workspace) ((char *)d->workspace)[d->workspace_size] = 1;
    if (moody == LEAVES_ROW) memset(o + rows / 2 * d->v_dim, 0xff, (size_t)d->v_dim * sizeof *o);
    if (moody == LEAVES_LSE && d->lse) memset(d->lse + rows / 2, 0xff, sizeof *d->lse);
}

static attn_status fickle_run(void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan)
{
    const attn_backend *flash = attn_backend_find("flash");
    if (moody == LAZY && runs >= 2) return ATTN_OK;
    attn_status s = flash->run(flash->user, d, g, plan);
    (void)user;
    runs++;
    most_queries = d->q_len > most_queries ? d->q_len : most_queries;
    other_inputs += d->mask.data || d->seq.block_table || d->append.len;
    trespass(d, g);
    if (moody == FAILS_TWICE && runs == 2) return ATTN_ERR_MEMORY;
    large_runs += d->q_len > 1;
    if (moody == FAILS_LATER && large_runs == 8) {
        memset(d->o.data, 0xff, sizeof(float));
        return ATTN_ERR_MEMORY;
    }
    float *last = (float *)d->o.data + d->batch * d->q_len * d->heads * d->v_dim - 1;
    bool now = moody == NEVER_THE_SAME ? runs % 3 == 0 : moody == BY_THREADS ? d->threads == 8 : moody == BY_BATCH ? d->batch == 1 : moody == NOT_FINITE;
    if (!g && now) *last = moody == NOT_FINITE ? INFINITY : *last * (1 + 0x1p-22f);
    if (!g && (moody == WITH_LSE || moody == WITHOUT_LSE) && (moody == WITH_LSE) == (d->lse != NULL)) *last *= 2;
    if (g && moody == OTHER_DV && runs % 3 == 0) *(float *)g->dv.data *= 1 + 0x1p-22f;
    if (g && moody == OTHER_DK && d->batch == 1) *(float *)g->dk.data *= 1 + 0x1p-22f;
    for (int64_t i = 0; g && moody == SCRIBBLES && runs == 2 && i < d->q_len * d->heads * d->v_dim; i++) ((float *)(uintptr_t)g->dout.data)[i] += 1;
    if (moody == SLOW) nanosleep(&(struct timespec){ 0, 3000000 }, NULL);
    if (moody == SLOW_ONCE && runs == 1) nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
    return s;
}

static void batching_restores(job *j)
{
    const attn_desc d = j->p->d;
    measure_batching(j);
    expect(j->p->d.batch == 3 && j->p->d.q.data == d.q.data && j->p->d.v.data == d.v.data, "batching leaves the problem with %d sequences", (int)j->p->d.batch);
}
static void test_properties(void)
{
    static const char *const line = " batch-size=3 seq-len=20 num-heads=2 head-dim=8", *const both = " batch-size=2 seq-len=9 num-heads=2 head-dim=8 pass=fwd+bwd";
    static const struct { void (*measure)(job *); int mood; const char *says; } cases[] = {
        { measure_determinism, STEADY, NULL }, { measure_determinism, NEVER_THE_SAME, "other bits on another run" },
        { measure_thread_count, STEADY, NULL }, { measure_thread_count, BY_THREADS, "other bits with 8 threads" },
        { measure_batching, STEADY, NULL },     { measure_batching, BY_BATCH, "sequence 2 alone has other bits" },
        { measure_finite, STEADY, NULL },       { measure_finite, NOT_FINITE, "1 elements are NaN or infinite" },
        { measure_determinism, LAZY, "other bits on another run" }, { measure_batching, LAZY, "sequence 1 alone has other bits" },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        moody = cases[i].mood, runs = 0;
        row r = judged(line, "fickle", false, cases[i].measure);
        bool right = cases[i].says ? !strcmp(r.status, "wrong") && strstr(r.note, cases[i].says) != NULL : row_ok(&r);
        expect(right, "property %d, mood %d: %s %s", i, moody, r.status, r.note);
        /* one call, and three, five or each sequence's more */
        int more = cases[i].measure == measure_thread_count ? 5 : 3;
        if (!moody && cases[i].measure != measure_finite) expect(runs == 1 + more, "property %d makes %d calls", i, runs);
    }
    for (int pass = BWD; pass <= FWD_BWD; pass++) {     /* every output of every sequence */
        static const char *const outputs[] = { NULL, " pass=bwd", " pass=fwd+bwd" };
        char text[256];
        snprintf(text, sizeof text, "%s%s", line, outputs[pass]);
        for (moody = STEADY; moody <= OTHER_DK; moody += OTHER_DK) {
            row r = judged(text, "fickle", false, measure_batching);
            expect(moody ? !strcmp(r.status, "wrong") && strstr(r.note, "sequence 1 alone has other bits") : row_ok(&r), "batching with gradients, mood %d: %s %s",
                   moody, r.status, r.note);
        }
    }
    moody = OTHER_DV, runs = 0;
    row other = judged(both, "fickle", false, measure_determinism);
    expect(!strcmp(other.status, "wrong") && strstr(other.note, "other bits on another run"), "another dv on another run: %s %s", other.status, other.note);
    moody = STEADY;
    static const char *const indirect[] = { " kv-dtype=int8", " kv-dtype=int16", " page-size=8" };
    for (int i = 0; i < COUNT(indirect); i++) {
        char text[256];
        snprintf(text, sizeof text, " batch-size=3 seq-len=2 kv-len=64 num-heads=2 head-dim=16 causal=1%s", indirect[i]);
        row r = judged(text, "fickle", false, measure_batching);
        expect(!strcmp(r.status, "declined"), "sequences out of%s: %s %s", indirect[i], r.status, r.note);
    }
    static void (*const measures[])(job *) = { measure_determinism, measure_thread_count, measure_finite, measure_gradient, measure_loss };
    for (int i = 0; i < COUNT(measures); i++) {
        row r = judged(both, "flash", false, measures[i]);
        expect(row_ok(&r), "property %d with gradients: %s %s", i, r.status, r.note);
    }
    judged(line, "fickle", false, batching_restores);
    moody = FAILS_TWICE, runs = 0;
    row fails = judged(line, "fickle", false, measure_batching);
    expect(!strcmp(fails.status, "failed") && !strcmp(fails.note, "out of memory"), "a sequence alone that fails: %s %s", fails.status, fails.note);
    fails = judged(" measure=gradient seq-len=6 num-heads=2 head-dim=8 pass=bwd", "failing", true, measure_gradient);
    expect(!strcmp(fails.status, "failed") && !strcmp(fails.note, "out of memory"), "gradients that fail: %s %s", fails.status, fails.note);
    moody = STEADY;
    runs = 0;                                    /* one call in f16, one in f32 */
    row same = judged(" measure=loss seq-len=20 num-heads=2 head-dim=8 dtype=f16", "fickle", false, measure_loss);
    expect(row_ok(&same) && runs == 2, "f32 by another backend than f16: %d calls, %s", runs, same.note);
    moody = FAILS_TWICE, runs = 0;
    same = judged(" measure=loss seq-len=20 num-heads=2 head-dim=8 dtype=f16", "fickle", false, measure_loss);
    expect(!strcmp(same.note, "not compared with f32: out of memory"), "f32 that fails beside f16: %s", same.note);
    moody = STEADY;
    /* gradients by differences: each of them is looked at */
    for (spoiled = SPOIL_DQ; spoiled < OUTPUTS; spoiled++) {
        fault = NOTHING;
        row r = judged(both, "erring", false, measure_gradient);
        expect(row_ok(&r) && r.rows_verified == 72 && r.max_abs_err > 0 && r.max_abs_err < 2e-6, "gradient: %s, error %g in %d", r.note,
               r.max_abs_err, (int)r.rows_verified);
        fault = TWO_PERCENT;
        r = judged(both, "erring", false, measure_gradient);
        expect(!row_ok(&r), "%s 2%% off by finite differences: %s, error %g", output_names[spoiled], r.status, r.max_abs_err);
        fault = NO_NUMBERS;
        r = judged(both, "erring", false, measure_gradient);
        expect(!row_ok(&r) && isinf(r.max_abs_err), "%s that is no number: %s, error %g", output_names[spoiled], r.status, r.max_abs_err);
    }
    for (int i = 0; i < 2; i++) {                /* dk and dv have the type of k and v, and its rounding */
        char text[256];
        snprintf(text, sizeof text, "%s kv-dtype=%s", both, i ? "bf16" : "f16");
        row r = judged(text, "flash", false, measure_gradient);
        expect(row_ok(&r), "gradient,%s: %s %s", text, r.status, r.note);
        spoiled = SPOIL_DV, fault = TWO_PERCENT;
        r = judged(text, "erring", false, measure_gradient);
        expect(!row_ok(&r), "gradient,%s, dv 2%% off: %s", text, r.status);
        spoiled = SPOIL_DQ, fault = TINY;       /* that of q is not rounded so */
        r = judged(text, "erring", false, measure_gradient);
        expect(!row_ok(&r), "gradient,%s, dq 6e-5 off: %s", text, r.status);
    }
    /* relative to what is large: twice as much is at most 2 off */
    spoiled = SPOIL_DV, fault = NEGATED;
    row large = judged(" batch-size=2 seq-len=9 num-heads=2 head-dim=8 pass=fwd+bwd data=peaked", "erring", false, measure_gradient);
    expect(large.max_abs_err > 0.1 && large.max_abs_err < 2, "gradients negated are %g off", large.max_abs_err);
    spoiled = SPOIL_O, fault = NOTHING;
    row f32 = judged(line, "flash", false, measure_loss), f16 = judged(" seq-len=40 num-heads=2 head-dim=8 dtype=bf16", "flash", false, measure_loss);
    double most = 0, mean = 0;
    expect(row_ok(&f32) && !*f32.note, "f32 loses against f32: %s", f32.note);
    expect(sscanf(f16.note, "against f32 it loses up to %lf, %lf on average", &most, &mean) == 2 && most > mean && most > 1e-4 && most < 0.02 && mean > 1e-6,
           "bf16: %s", f16.note);
}

/* On the GPU the kernel is timed by its own clock, and there is no share of the peak of the CPU. */
static void time_on_gpu(job *j)
{
    j->gpu = true, gpu.kernel = 2, gpu.bytes = 55, probed.peaks = probed.bandwidths = 0;
    measure_time(j);
    gpu.bytes = 0;
    expect(j->p->d.message == j->p->message && j->p->d.message_size > 0, "what fails behind the timed calls says nothing");
}
static void test_gpu_rows(void)
{
    row r = judged(" seq-len=20 num-heads=2 head-dim=8 iterations=3 warmup=0", "flash", false, time_on_gpu);
    expect(row_ok(&r) && r.kernel_ms == 2000 && r.total_ms == r.p50_ms && r.device_bytes == 55, "on a GPU: kernel %g ms, total %g, %d bytes of the device", r.kernel_ms, r.total_ms, (int)r.device_bytes);
    expect(!probed.peaks && !probed.bandwidths && isnan(r.peak_fraction) && isnan(r.bandwidth_fraction) && !*r.bound, "on a GPU: %g of the peak of the CPU", r.peak_fraction);
    free(r.samples_ms.x);
}

/* A row is finished once: again changes nothing. */
static void finish_twice(job *j)
{
    measure_time(j);
    row before = *j->r;
    finish_timing(j);
    expect(!memcmp(&before, j->r, sizeof before) && before.samples_ms.n == 3, "a finished row has changed");
}

/* Calls that are long are not warmed up, unless the user says so. */
static void test_warm_up(void)
{
    static const struct { double ms; bool asked, reference; int want; } cases[] = {
        { 0.01, false, false, 3 }, { 5000, false, false, 0 }, { 5000, true, false, 3 }, { 0.01, false, true, 0 }, { 0.01, true, true, 3 } };
    for (int i = 0; i < COUNT(cases); i++) {
        bench_case c = { .suite = find_suite("shape") };
        bench b = { .selection = QUICK, .opt = { .repeated = true, .user.count[WARMUP] = cases[i].asked } };
        row r = null_row();
        problem p = { 0 };
        promise x = { 0 };
        job j = { .b = &b, .c = &c, .p = &p, .r = &r, .reference = cases[i].reference };
        p.promise = &x;                         /* of which no peak is sampled */
        c.v[WARMUP] = 3, c.v[ITERATIONS] = 50, r.first_run_ms = cases[i].ms, probed.peaks = 0;
        start_timing(&j, counting_call, 1);
        expect(j.plan.warmup == cases[i].want, "case %d is warmed up by %d calls, not %d", i, (int)j.plan.warmup, cases[i].want);
        expect(isnan(j.peak) && isnan(j.bandwidth) && !probed.peaks, "a mode has a peak of %g and a bandwidth of %g", j.peak, j.bandwidth);
        expect(isnan(r.overhead_ms), "a process that repeats measures an overhead of %g", r.overhead_ms);
    }
    for (int is_long = 0; is_long < 2; is_long++) {     /* --min-time makes no calls fewer, and those that are long no more */
        bench_case c = { .suite = find_suite("shape") };
        bench b = { .selection = QUICK, .opt = { .repeated = true, .min_time = 0.5 } };
        row r = null_row();
        problem p = { 0 };
        promise x = { 0 };
        job j = { .b = &b, .c = &c, .p = &p, .r = &r };
        p.promise = &x;
        c.v[ITERATIONS] = 50, r.first_run_ms = is_long ? 100 : 0.01;
        start_timing(&j, counting_call, 1);
        expect(j.plan.iterations == (is_long ? 9 : 50) && j.plan.min_seconds == 0.5, "--min-time: %d calls, %g s", (int)j.plan.iterations, j.plan.min_seconds);
    }
    row twice = judged(" seq-len=20 num-heads=2 head-dim=8 iterations=3", "flash", false, finish_twice);
    free(twice.samples_ms.x);
}

/* rocmforge's untimed calls are no more than the timed ones, unless the user says how many. */
static void test_brief_warm_up(void)
{
    static const struct { const char *suite; int iterations, warmup, want; } cases[] = {
        { "rocmforge", 1, -1, 1 }, { "rocmforge", 4, -1, 4 }, { "rocmforge", 50, -1, 10 }, { "rocmforge", 1, 7, 7 }, { "openpi", 1, -1, 10 } };
    for (int i = 0; i < COUNT(cases); i++) {
        bench b = { .selection = QUICK };
        put_axis(&b.opt.user, ITERATIONS, cases[i].iterations);
        if (cases[i].warmup >= 0) put_axis(&b.opt.user, WARMUP, cases[i].warmup);
        expand(&b, find_suite(cases[i].suite), "seq-len=32 warmup=10 iterations=100", NULL);
        expect(b.case_count == 1 && b.cases[0].v[WARMUP] == cases[i].want, "%s, %d calls: %d untimed", cases[i].suite, cases[i].iterations, b.case_count ? (int)b.cases[0].v[WARMUP] : -1);
        free(b.cases), free(b.case_places);
    }
}

/* What announces a row counts the exponentials, of which a narrow head has more than products; so does the rate that it learns. */
static void learn_rate(job *j)
{
    measure_time(j);
    expect(j->r->p50_ms > 1 && near(*rate_of(j->b, j->r->backend) * j->r->p50_ms, 1e3 * (2 * 20 * 20 * (2 * 16 + 20))), "%g operations a second learned", *rate_of(j->b, j->r->backend));
}
static void test_estimate(void)
{
    bench b = { .selection = WHOLE };
    bench_case c = case_of(" measure=memory seq-len=16384 num-heads=1 head-dim=1");
    expect(near(estimate(&b, &c, "flash"), 16384.0 * 16384 * (4 + 20) / 5e10 + 1e-5 + 0.1), "an estimate of %g s", estimate(&b, &c, "flash"));
    moody = SLOW;
    row r = judged(" seq-len=20 num-heads=2 head-dim=8 iterations=3 warmup=0", "fickle", false, learn_rate);
    free(r.samples_ms.x);
    moody = STEADY;
}

static void without_workspace(job *j)
{
    no_tensors = true;
    first_call(j);
    no_tensors = false;
}

/* A call is timed without lse and verified with it: both have to be right. Its first run is told in ms. */
static void test_first_call(void)
{
    static const char *const line = " batch-size=3 seq-len=20 num-heads=2 head-dim=8";
    for (moody = WITH_LSE; moody <= WITHOUT_LSE; moody++) {
        row r = verified(line, "fickle", true);
        expect(!strcmp(r.status, "wrong") && r.max_abs_err > 1e-3, "o is wrong %s lse: %s, error %g", moody == WITH_LSE ? "with" : "without", r.status, r.max_abs_err);
    }
    row never = verified(line, "failing", true);
    expect(!strcmp(never.status, "failed") && !strcmp(never.note, "out of memory"), "a first call that fails: %s %s", never.status, never.note);
    never = judged(line, "standard", true, without_workspace);
    expect(!strcmp(never.status, "failed") && !strcmp(never.note, "out of memory"), "no room for the workspace: %s %s", never.status, never.note);
    moody = FAILS_TWICE, runs = 0;
    row twice = verified(line, "fickle", true);
    expect(!strcmp(twice.status, "failed") && !strcmp(twice.note, "the second call, with lse: out of memory"), "a second call that fails: %s %s", twice.status, twice.note);
    for (int last = 0; last < 2; last++) {       /* one of 20, or that after 5 */
        moody = FAILS_LATER, large_runs = 0;
        row later = judged(last ? " batch-size=3 seq-len=20 num-heads=2 head-dim=8 iterations=5 warmup=0" : " batch-size=3 seq-len=20 num-heads=2 head-dim=8 iterations=20 warmup=1",
                           "fickle", true, measure_time);
        expect(!strcmp(later.status, "failed") && !strcmp(later.note, "out of memory") && large_runs == 8, "a timed call that fails: %s '%s' after %d calls", later.status, later.note, large_runs);
    }
    moody = SLOW;
    double start = attn_seconds();
    row r = verified(line, "fickle", true);
    double all = 1e3 * (attn_seconds() - start);
    expect(row_ok(&r) && r.first_run_ms >= 3 && r.first_run_ms < all, "a first run of 3 ms takes %g", r.first_run_ms);
    moody = STEADY;
}

/* The overhead is that of an empty call of the same backend: without mask or pages, with data of its own where those of the case come
 * from a file. Peak and bandwidth are sampled before the calls. */
static void overhead_of_file(job *j)
{
    bench_case c = *j->c;
    job of = *j;
    c.v[DATA] = FROM_FILE;
    of.c = &c;
    runs = other_inputs = 0;
    expect(measure_overhead(&of) > 0 && runs > 0 && !other_inputs, "the overhead of a call with data of a file: %d calls, %d with a mask or pages", runs, other_inputs);
    probed.asked_only = 1;
    start_timing(&of, counting_call, 1);
    probed.asked_only = 0;
    expect(of.peak == 1 && of.bandwidth == 1, "before the calls a peak of %g and a bandwidth of %g", of.peak, of.bandwidth);
}
static void test_overhead(void)
{
    moody = STEADY;
    judged("seq-len=64 num-heads=2 head-dim=16 mask=random", "fickle", false, overhead_of_file);
    judged("seq-len=64 num-heads=2 head-dim=16 causal=1 page-size=16", "fickle", false, overhead_of_file);
}

/* A call writes to its outputs, all of them, and to nothing else; the inputs are as before, for whoever is next. */
static void inputs_are_kept(job *j)
{
    problem fresh;
    if (!expect(problem_make(j->c, NULL, &fresh), "no problem")) return;
    first_call(j);
    const void *const got[] = { j->p->d.q.data, j->p->d.v.data, j->p->g.dout.data }, *const want[] = { fresh.d.q.data, fresh.d.v.data, fresh.g.dout.data };
    for (int i = 0; i < COUNT(got); i++)
        expect(!want[i] || !memcmp(got[i], want[i], (size_t)(j->p->d.batch * j->p->d.q_len * j->p->d.heads * 8) * 4), "mood %d: input %d is changed", moody, i);
    expect(j->p->d.backend && !strcmp(j->p->d.backend, "fickle") && j->p->d.workspace, "mood %d: another call", moody);
    expect(!j->p->d.lse == (j->pass == FWD), "mood %d: the calls to be timed have %s lse", moody, j->p->d.lse ? "an" : "no");
    problem_free(&fresh);
}
static void test_trespasses(void)
{
    static const char *const fwd = " batch-size=3 seq-len=400 num-heads=2 head-dim=8 threads=1 iterations=3 warmup=0",
                      *const bwd = " batch-size=3 seq-len=20 num-heads=2 head-dim=8 pass=bwd threads=1 iterations=3 warmup=0";
    static const struct { int mood; bool backward; void (*measure)(job *); const char *says; } cases[] = {
        { LAZY, false, measure_time, "o: 19200 elements are not written" }, { LAZY, true, measure_time, "dv: 960 elements are not written" },
        { LATE, false, measure_time, "o: " },
        { WRITES_Q, false, inputs_are_kept, "it wrote to its q" },     { WRITES_V, false, inputs_are_kept, "it wrote to its v" },
        { WRITES_V, true, inputs_are_kept, "it wrote to its v" },      { WRITES_DOUT, true, inputs_are_kept, "it wrote to its dout" },
        { BEHIND_O, false, verify, "it wrote beside its o" },          { BEFORE_O, false, verify, "it wrote beside its o" },
        { BEHIND_LSE, false, verify, "it wrote beside its lse" },      { BEHIND_DV, true, verify, "it wrote beside its dv" },
        { BEHIND_WORKSPACE, false, verify, "it wrote beside its workspace" },
        { LEAVES_ROW, false, verify, "o: 8 elements are not written" }, { LEAVES_LSE, false, verify, "lse: 1 elements are not written" },
        { STEADY, false, measure_time, NULL }, { STEADY, true, measure_time, NULL },
    };
    const double usual = reference_flops;
    reference_flops = 1;                        /* rows are sampled */
    for (int i = 0; i < COUNT(cases); i++) {
        moody = cases[i].mood, runs = 0;
        row r = judged(cases[i].backward ? bwd : fwd, "fickle", false, cases[i].measure);
        bool right = cases[i].says ? !strcmp(r.status, "wrong") && strstr(r.note, cases[i].says) : row_ok(&r);
        expect(right, "mood %d: %s %s", moody, r.status, r.note);
        if (cases[i].measure == measure_time) free(r.samples_ms.x);
    }
    reference_flops = usual;
    moody = STEADY;
}

/* An output of 16 bits that is one unit off is wrong: all values are 1.5, and so is what is right. */
static void one_unit_off(job *j)
{
    problem *p = j->p;
    uint16_t *v = (uint16_t *)(uintptr_t)p->d.v.data, *o = p->d.o.data, one_and_a_half = p->d.v.dtype == ATTN_BF16 ? 0x3fc0 : 0x3e00;
    for (int64_t i = 0; i < p->d.kv_len * p->d.kv_heads * p->d.v_dim; i++) v[i] = one_and_a_half;
    if (!first_call(j)) return;
    p->d.lse = p->lse;
    expect(!run_pass(p, FWD) && o[5] == one_and_a_half && check(p, FWD, 1e18).worst <= 1, "values of 1.5 give %x", o[5]);
    for (int i = -1; i <= 1; i += 2) {
        o[5] = (uint16_t)(one_and_a_half + i);
        verdict x = check(p, FWD, 1e18);
        expect(!x.status && x.worst > 1 && x.worst < 2, "one unit off is %g times the error allowed", x.worst);
    }
}
static void small_values(job *j)
{
    float *v = (float *)(uintptr_t)j->p->d.v.data;
    for (int64_t i = 0; i < j->p->d.kv_len * j->p->d.kv_heads * j->p->d.v_dim; i++) v[i] *= 0x1p-40f;
    first_call(j);
}
static void test_units(void)
{
    for (fault = NOTHING; fault <= TWO_PERCENT; fault += TWO_PERCENT) {      /* small numbers of f32 are as precise as others */
        row r = judged(" seq-len=12 num-heads=2 head-dim=8", "erring", true, small_values);
        expect(row_ok(&r) == !fault, "values of 2^-40 %s: %s %s", fault_names[fault], r.status, r.note);
    }
    fault = NOTHING;
    static const char *const lines_[] = { " seq-len=12 num-heads=2 head-dim=8 dtype=bf16", " seq-len=12 num-heads=2 head-dim=8 dtype=f16" };
    for (int i = 0; i < COUNT(lines_); i++) {
        row r = judged(lines_[i], "flash", true, one_unit_off);
        expect(row_ok(&r), "%s: %s %s", lines_[i], r.status, r.note);
    }
}

/* A prefill that would take the f64 reference minutes is left out, said, and no time to the first token made up; its steps are timed. */
static void slow_reference(job *j)
{
    double *rate = rate_of(j->b, "reference"), usual = *rate;
    j->reference = true, j->b->opt.verify = false, *rate = (j->p->flops + 20 * j->p->pairs) / 7;
    measure_time(j);
    *rate = usual;
}
static void generate_by_reference(job *j)
{
    double *rate = rate_of(j->b, "reference"), usual = *rate;
    j->reference = true, *rate = 1e9;
    measure_generate(j);
    *rate = usual;
}
static void test_no_prefill(void)
{
    row r = judged(" seq-len=1 kv-len=30000 num-heads=2 head-dim=16 causal=1 iterations=2 warmup=0 threads=1", "reference", false, generate_by_reference);
    expect(row_ok(&r) && strstr(r.note, "no prefill: the reference would take about 76 s") == r.note && isnan(r.ttft_ms) && isnan(r.ttft_stddev_ms) && r.p50_ms > 0 && r.iterations == 2,
           "%s: first token %g +- %g ms, %d steps of %g", r.note, r.ttft_ms, r.ttft_stddev_ms, (int)r.iterations, r.p50_ms);
    free(r.samples_ms.x);
    row skip = judged(" seq-len=8 num-heads=2 head-dim=8", "reference", false, slow_reference);
    expect(!strcmp(skip.status, "skipped") && !strcmp(skip.note, "the f64 reference would take about 7 s a call") && isnan(skip.p50_ms), "a slow reference: %s %s", skip.status, skip.note);
}

/* Time to first token: the prefills and a step, within the time that all of it took. */
static void test_generation(void)
{
    double start = attn_seconds();
    row r = judged(" seq-len=1 kv-len=300 num-heads=4 num-kv-heads=2 head-dim=32 causal=1 iterations=9 warmup=0", "flash", false, measure_generate);
    double all = 1e3 * (attn_seconds() - start);
    expect(row_ok(&r) && r.ttft_ms > r.p50_ms && r.ttft_ms < all && r.ttft_stddev_ms > 0 && r.ttft_stddev_ms < all, "%s: first token %g +- %g ms of %g",
           r.note, r.ttft_ms, r.ttft_stddev_ms, all);
    expect(r.iterations == 9 && r.samples_ms.n == 9 && r.first_run_ms > 0 && r.first_run_ms < all && r.p50_ms < all, "%d steps", (int)r.iterations);
    expect(r.peak_fraction > 0 && r.total_ms > 0 && r.total_ms < all && r.overhead_ms > 0 && r.overhead_ms < all && *r.bound, "step: total %g, empty %g, %s",
           r.total_ms, r.overhead_ms, r.bound);
    expect(near(r.tokens_per_s, 1e3 / r.p50_ms) && near(r.ops_per_s, 1e3 / r.p50_ms) && near(r.gflops, r.flops * 1e-6 / r.p50_ms), "rates of a step");
    free(r.samples_ms.x);
    moody = STEADY, most_queries = 0;
    r = judged(" seq-len=1 kv-len=300 num-heads=4 num-kv-heads=2 head-dim=32 causal=1 iterations=9 warmup=0", "fickle", false, measure_generate);
    expect(row_ok(&r) && most_queries == 300, "a prefill of 300 tokens has %d queries", (int)most_queries);
    free(r.samples_ms.x);
    bench_case c = { .suite = find_suite("shape") };
    grid g = parse_line(" seq-len=20 kv-len=20 num-heads=2 head-dim=8 causal=1");
    char text[128];
    for (int a = 0; a < AXES; a++) c.v[a] = g.value[a][0];
    double seconds[PREFILLS] = { 0 };
    problem p;
    row mine = new_row(&c, "flash");
    if (!expect(!resolve_case(&c, &g, text) && problem_make(&c, NULL, &p), "no case")) return;
    p.d.backend = "fickle";
    static bench b;
    job j = { .b = &b, .c = &c, .p = &p, .r = &mine };
    runs = 0, moody = STEADY;
    int64_t n = time_prefills(&j, &c, seconds);
    bool real = true;
    for (int64_t i = 0; i < n; i++) real = real && seconds[i] > 0 && seconds[i] < all;
    expect(n == PREFILLS && runs == PREFILLS + 1 && row_ok(&mine) && real, "%d prefills by %d calls, the first of %g s", (int)n, runs, seconds[0]);
    moody = LAZY;
    expect(time_prefills(&j, &c, seconds) && !strcmp(mine.status, "wrong") && strstr(mine.note, "o: 320 elements are not written") == mine.note, "a lazy prefill: %s", mine.note);
    moody = STEADY, mine = new_row(&c, "flash");
    p.d.backend = "none";
    expect(time_prefills(&j, &c, seconds) == 0 && strstr(mine.note, "no prefill: ") == mine.note, "a prefill that cannot run: %s", mine.note);
    no_tensors = true;
    n = time_prefills(&j, &c, seconds);
    no_tensors = false;
    expect(!n, "%d prefills without memory for one", (int)n);
    problem_free(&p);
}

/* ------------------------------------------------------------------------------------------ memory */
static void test_memory(void)
{
    footprint f = { ATTN_OK, 0, 0, 0 };
    void *a = counted_get(&f, 100, 1), *b = counted_get(&f, 50, 64);
    expect(a && b && (uintptr_t)b % 64 == 0 && f.now == 150 && f.peak == 150, "two blocks: %d, %d", (int)f.now, (int)f.peak);
    counted_put(&f, a, 100), counted_put(&f, NULL, 7);
    a = counted_get(&f, 60, 64);
    expect(f.now == 110 && f.peak == 150, "one given back: %d, %d", (int)f.now, (int)f.peak);
    counted_put(&f, a, 60), counted_put(&f, b, 50);
    expect(f.now == 0 && f.peak == 150, "all given back: %d, %d", (int)f.now, (int)f.peak);
    int64_t before = peak_resident_bytes(), size = 300 << 20;
    volatile char *big = malloc((size_t)size);          /* volatile: otherwise clang leaves it out */
    for (int64_t i = 0; i < size; i += 4096) big[i] = 1;
    int64_t after = peak_resident_bytes();
    expect(before > 1 << 20 && (after - before > size / 2 || before > size) && after < before + 2 * size, "the peak went from %lld to %lld bytes",
           (long long)before, (long long)after);
    free((void *)big);
}

/* The row of a call that had a process of its own, which is this program again, and has not the memory that this process had. */
static void memory_without_plan(job *j)
{
    j->r->workspace_bytes = 0;
    measure_memory(j);
}
static void memory_on_gpu(job *j)
{
    j->gpu = true, gpu.kernel = 1, gpu.bytes = 77;
    memory_without_plan(j);
    gpu.bytes = 0;
}
static void test_memory_rows(void)
{
    static const char *const line = " measure=memory seq-len=64 num-heads=2 head-dim=16";
    const int before = open_files();
    row r = judged(line, "standard", false, memory_without_plan);
    expect(open_files() == before, "the pipe to a process is left open");
    expect(row_ok(&r) && !*r.note && r.workspace_bytes > 0 && near(r.matrix_share, (double)r.workspace_bytes / (4 * 2 * 64 * 64)), "%s: %d bytes, %g of the scores", r.note,
           (int)r.workspace_bytes, r.matrix_share);
    expect(r.peak_rss_bytes > 1 << 20 && r.peak_rss_bytes < peak_resident_bytes() && r.bytes == 4 * 4 * 64 * 2 * 16, "the process took %lld bytes, for tensors of %g", (long long)r.peak_rss_bytes, r.bytes);
    r = judged(line, "failing", false, measure_memory);
    expect(!strcmp(r.status, "failed") && !strcmp(r.note, attn_status_text(ATTN_ERR_MEMORY)), "a call that failed in its process: %s %s", r.status, r.note);
    expect(r.peak_rss_bytes == NO_INT && isnan(r.matrix_share), "a call that failed took %lld bytes", (long long)r.peak_rss_bytes);
    r = judged(line, "standard", false, memory_on_gpu);
    expect(row_ok(&r) && r.workspace_bytes > 0 && r.device_bytes == 77 && r.peak_rss_bytes == NO_INT, "on a GPU: %d bytes, %d of the device", (int)r.workspace_bytes, (int)r.device_bytes);
    bench_case c = case_of(line);
    footprint none = footprint_of(&c, "coarse");
    expect(!none.status && none.peak == 0 && none.rss > 0, "a call without a workspace took %d bytes", (int)none.peak);
}

/* ------------------------------------------------------------------------------------------ programs and files */
static void test_programs(void)
{
    static const char *const good[] = { "true", NULL }, *const ill[] = { "false", NULL }, *const none[] = { "./there is no such program", NULL };
    expect(run_program(good, -1, -1), "a program that ends well does not");
    expect(!run_program(ill, -1, -1), "a program that fails ends well");
    expect(!run_program(none, -1, -1), "a program that is not there ends well");
}

/* A file that is written is read again, whatever its header's length; its numbers begin at a multiple of 64 bytes. */
static void test_npy(const char *path)
{
    static const struct { int dims; int64_t shape[4]; int32_t dtype; } cases[] = {
        { 1, { 6 }, ATTN_F32 }, { 2, { 2, 3 }, ATTN_F16 }, { 4, { 1, 1, 2, 3 }, ATTN_F32 }, { 4, { 1, 2, 3, 1 }, ATTN_F16 }, { 2, { 3000000000, 0 }, ATTN_F32 },
    };
    unsigned char x[24], whole[512];
    for (int i = 0; i < 24; i++) x[i] = (unsigned char)(7 * i);
    for (int i = 0; i < COUNT(cases); i++) {
        npy a = { .data = (char *)x, .dims = cases[i].dims, .count = cases[i].shape[1] || i == 0 ? 6 : 0, .dtype = cases[i].dtype }, b;
        memcpy(a.shape, cases[i].shape, sizeof a.shape);
        if (!expect(!write_npy(path, &a), "file %d is not written", i)) continue;
        FILE *f = fopen(path, "rb");
        size_t bytes = (size_t)attn__bytes(a.dtype, a.count), n = f ? fread(whole, 1, sizeof whole, f) : 0;
        if (f) fclose(f);
        expect(n % 64 == bytes && whole[8] + 256 * whole[9] + 10 + bytes == n, "the header of file %d: %d bytes, it says %d", i, (int)(n - bytes), whole[8] + 10);
        if (!expect(!read_npy(path, &b), "file %d is not read", i)) continue;
        bool same = b.dims == a.dims && b.count == a.count && b.dtype == a.dtype && !memcmp(b.shape, a.shape, (size_t)a.dims * sizeof *a.shape);
        expect(same && !memcmp(b.data, x, bytes), "file %d is another one when it is read", i);
        free(b.data);
    }
    npy other = { .dims = 0 };
    const char *why = parse_npy_header("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", &other);
    expect(why && strstr(why, "Fortran"), "Fortran order: %s", why ? why : "taken");
}

/* --output: the file is written; where it cannot be, the run has an exit code that says so. */
static void test_output(const char *path)
{
    static const char *const line = " seq-len=5 num-heads=2 head-dim=8";
    static bench b;
    static files in;
    problem p;
    npy o;
    grid g = parse_line(line);
    bench_case c = { .suite = find_suite("shape") };
    char text[128], nowhere[128];
    for (int a = 0; a < AXES; a++) c.v[a] = g.value[a][0];
    if (!expect(!resolve_case(&c, &g, text) && problem_make(&c, NULL, &p), "no case: %s", line)) return;
    name_case(&c);
    snprintf(nowhere, sizeof nowhere, "%s/file", path);        /* below a file */
    in.q = (npy){ .dims = 4, .shape = { 1, 5, 2, 8 }, .dtype = ATTN_F32 };
    b.files = &in, b.cases = &c, b.case_count = 1;
    for (int i = 0; i < 2; i++) {
        part x = { .made = true, .r = new_row(&c, "flash"), .d = p.d };
        x.j = (job){ .b = &b, .c = &c, .p = &p, .r = &x.r };
        expect(!run_pass(&p, FWD), "no call");
        b.opt.output = i ? nowhere : path;
        finish_part(&b, &x);
        expect(b.file_code == (i ? EXIT_BAD : 0) && b.row_count == i + 1, "output %d: exit code %d", i, b.file_code);
    }
    if (expect(!read_npy(path, &o), "no output")) {
        expect(o.count == 80 && o.shape[2] == 2 && !memcmp(o.data, p.d.o.data, 320), "the output is another one");
        free(o.data);
    }
    free(b.rows);
    problem_free(&p);
}

static void test_files(void)
{
    char path[] = "/tmp/bench_unit.XXXXXX";
    int file = mkstemp(path);
    if (!expect(file >= 0, "no temporary file")) return;
    close(file);
    test_npy(path);
    test_output(path);
    unlink(path);
}

/* ------------------------------------------------------------------------------------------ the comparison of runs */
static void test_machines(void)
{
    baseline old = { .path = "x", .isa = "avx2", .cpu = "A processor" };
    expect(!check_machine(&old, "avx2", "A processor"), "the same machine is another one");
    expect(check_machine(&old, "avx512", "A processor") == EXIT_BAD, "another ISA is compared");
    expect(check_machine(&old, "avx2", "Another processor") == EXIT_BAD, "another processor is compared");
}

static void test_comparison_parts(void)
{
    static const struct { int64_t n, m; double p; } least[] = { { 1, 1, 1 }, { 3, 3, 0.1 }, { 5, 5, 2.0 / 252 }, { 2, 4, 2.0 / 15 }, { 4, 2, 2.0 / 15 } };
    for (int i = 0; i < COUNT(least); i++)
        expect(near(least_p(least[i].n, least[i].m), least[i].p), "the least p of %d and %d is %g", (int)least[i].n, (int)least[i].m,
               least_p(least[i].n, least[i].m));
    double old_peaks[] = { 90, 100, 110 }, new_peaks[] = { 85, 80, 75 };
    measured was = { .n = 3 }, now = { .n = 3 };
    memcpy(was.peaks, old_peaks, sizeof old_peaks), memcpy(now.peaks, new_peaks, sizeof new_peaks);
    expect(near(slower_clock(&now, &was), 1.1), "no clock is %g times slower", slower_clock(&now, &was));
    now.peaks[0] = 300, now.peaks[1] = 95, now.peaks[2] = 80;
    expect(near(slower_clock(&now, &was), 100.0 / 95), "medians of clocks: %g", slower_clock(&now, &was));
    expect(slower_clock(&was, &now) == 1, "a faster clock counts: %g", slower_clock(&was, &now));
    now.peaks[1] = NAN, now.n = 0;
    expect(slower_clock(&now, &was) == 1, "no clock known");
    for (int at = 0; at < 25; at++) {               /* one process of 25 has no peak */
        now.n = was.n = 25;
        for (int i = 0; i < 25; i++) was.peaks[i] = 100 + (i * 7 % 25 - 12) * 0.01, now.peaks[i] = 92 + (i * 11 % 25 - 12) * 0.01;
        now.peaks[at] = NAN, was.peaks[24 - at] = INFINITY;
        double factor = slower_clock(&now, &was);
        expect(fabs(factor - 100.0 / 92) < 0.001, "no peak of process %d: a clock %g times slower", at, factor);
    }
    for (int loaded = 0; loaded <= 25; loaded++) {  /* others' load beside so many of 25 processes is no slower clock, but beside nearly all */
        now.n = was.n = 25;
        for (int i = 0; i < 25; i++) was.peaks[i] = 100, now.peaks[i] = i < loaded ? 62 : 100;
        double factor = slower_clock(&now, &was);
        expect(loaded <= 21 ? factor == 1 : loaded < 24 || near(factor, 1.1), "load beside %d processes: a clock %g times slower", loaded, factor);
        for (int i = 0; i < 25; i++) now.peaks[i] = i < loaded ? 130 : 90;
        factor = slower_clock(&now, &was);          /* nor do a few faster ones hide one */
        expect(loaded ? loaded < 13 || factor == 1 : near(factor, 1.1), "%d processes were faster: a clock %g times slower", loaded, factor);
    }
    now.n = was.n = SURE_PROCESSES - 1;             /* of few the medians tell */
    for (int i = 0; i < now.n; i++) was.peaks[i] = 100, now.peaks[i] = i ? 95 : 300;
    expect(near(slower_clock(&now, &was), 100.0 / 95), "of few: %g", slower_clock(&now, &was));
    double all[200], room[MOST_PROCESSES];
    for (int i = 0; i < 200; i++) all[i] = i;
    list few = thinned((list){ all, 200 }, room);
    expect(few.n == MOST_PROCESSES && few.x[0] == 0 && few.x[few.n - 1] == 199 && near(few.x[21], 199.0 / 3), "thinned to %d", (int)few.n);
    few = thinned((list){ all, 3 }, room);
    expect(few.n == 3 && few.x[1] == 1 && few.x[2] == 2, "three stay three");
    few = thinned((list){ all + 5, 1 }, room);
    expect(few.n == 1 && few.x[0] == 5, "one stays one");
    bench_case c = { .suite = find_suite("shape") };
    row x = new_row(&c, "flash"), y = x;
    x.samples_ms = (list){ all, 3 };
    expect(is_compared(&x) && !is_compared(&y) && is_same_row(&x, &y), "a row and itself");
    remark(&x, "failed", "x");
    expect(!is_compared(&x), "a row that failed is compared");
    expect(find_fault(&x, 1, &y) == &x && !find_fault(&y, 1, &x), "a row that failed is no fault");
    static const size_t texts[] = { offsetof(row, suite), offsetof(row, name), offsetof(row, backend), offsetof(row, dtype), offsetof(row, kv_dtype), offsetof(row, pass) };
    for (int i = 0; i < COUNT(texts); i++) {
        row z = y;
        snprintf((char *)&z + texts[i], 8, "?");
        expect(!is_same_row(&z, &y), "rows that differ in text %d are the same", i);
    }
    row z = y;
    z.threads = y.threads + 1;
    expect(!is_same_row(&z, &y), "rows of other threads are the same");
    options o = { 0 };
    o.processes = 7;
    expect(processes_of(&o) == 1, "processes without a baseline");
    o.baseline = "x";
    expect(processes_of(&o) == 7, "processes given");
    o.processes = 0;
    expect(processes_of(&o) == DEFAULT_PROCESSES, "processes by default");
    o.baseline = NULL, o.save_baseline = "x";
    expect(processes_of(&o) == DEFAULT_PROCESSES, "processes of a run that is saved");
}

/* Rows of five processes beside saved ones: what a slower clock explains is taken out, and nothing else. */
static void test_compared_rows(void)
{
    enum { PROCESSES = 5, CALLS = 8 };
    static const struct { double clock, slower, taken_out; const char *verdict; } cases[] = {
        { 1, 1, 1, "same" },     { 1, 1.25, 1, "slower" },    { 0.92, 1 / 0.92, 1 / 0.92, "same" }, { 0.8, 1.25, 1.1, "slower" },
        { 1.25, 1, 1, "same" },  { 1.25, 1.25, 1, "slower" }, { 1, 0.8, 1, "faster" },              { 0.8, 1, 1, "same" },
    };
    bench_case c = { .suite = find_suite("shape") };
    static double x[2][PROCESSES][CALLS];
    row rows[2][PROCESSES + 1];
    for (int k = 0; k < COUNT(cases); k++) {
        bench b = { 0 };
        for (int now = 0; now < 2; now++)
            for (int p = 0; p < PROCESSES; p++) {
                row *r = &rows[now][p];
                *r = new_row(&c, "flash");
                for (int i = 0; i < CALLS; i++) x[now][p][i] = (now ? cases[k].slower : 1) * (1 + 1e-3 * (i * 3 % CALLS) + 1e-4 * p);
                r->samples_ms = (list){ x[now][p], CALLS };
                r->peak_fraction = 0.5, r->gflops = 50 * (now ? cases[k].clock : 1);
            }
        for (int now = 0; now < 2; now++) rows[now][PROCESSES] = new_row(&c, "standard");       /* with no samples */
        baseline old = { .rows = rows[0], .count = PROCESSES + 1 };
        int64_t slow = compare_rows(&b, rows[1], 1, rows[1] + 1, PROCESSES, &old);
        if (expect(b.comparison_count == 1, "case %d: %d rows compared", k, (int)b.comparison_count)) {
            expect(!strcmp(b.comparisons->verdict, cases[k].verdict), "clock %g, %g times as long: %s", cases[k].clock, cases[k].slower,
                   b.comparisons->verdict);
            expect(slow == !strcmp(cases[k].verdict, "slower"), "%d are slower", (int)slow);
            expect(fabs(b.comparisons->ratio - cases[k].slower / cases[k].taken_out) < 1e-3, "the ratio is %g", b.comparisons->ratio);
            FILE *f = tmpfile();
            print_comparisons(f, &b);
            if (cases[k].taken_out > 1) SAID("a clock", f, cases[k].taken_out > 1.09 ? "; but for a clock 1.10x slower\n" : "; but for a clock 1.09x slower\n");
            else SAID("no clock", f, "!clock");
            expect(fabs(b.comparisons->old_ms - 1) < 0.02, "saved %g ms are %g", 1.0, b.comparisons->old_ms);
            expect(b.comparisons->now == &rows[1][0] && b.comparisons->old == &rows[0][0], "rows of case %d", k);
        }
        free(b.comparisons);
        b.comparisons = NULL, b.comparison_count = 0;
        snprintf(rows[0][0].dtype, sizeof rows[0][0].dtype, "f16");
        old.count = 1;
        expect(compare_rows(&b, rows[1], 1, NULL, 0, &old) == 0 && !b.comparison_count, "a row that was never saved is compared");
    }
}

/* Each allocation on the way to a verdict fails once: no row is `ok` then that was not verified. */
static void loss(job *j) { if (first_call(j)) measure_loss(j); }
static void (*const on_scarce_memory[])(job *) = { verify, loss, measure_finite };
static void test_scarce_memory(void)
{
    static const char *const lines[] = { " seq-len=20 num-heads=4 num-kv-heads=2 head-dim=8 pass=bwd", " seq-len=20 num-heads=2 head-dim=8 dtype=f16",
                                         " measure=finite seq-len=20 num-heads=2 head-dim=8 pass=fwd+bwd" };
    for (int k = 0; k < COUNT(lines); k++) {
        int failures = 0;
        for (long n = 0; n < 200; n++) {
            allocations_left = n;
            row r = judged(lines[k], "flash", true, on_scarce_memory[k]);
            const bool hit = allocations_left < 0;
            allocations_left = -1;
            failures += hit && strcmp(r.status, "ok");
            expect(!hit || strcmp(r.status, "ok") || k == 1, "%s: ok, though allocation %ld failed", lines[k], n);
            if (!hit) break;
        }
        expect(failures >= 4, "%s: %d allocations failed", lines[k], failures);
    }
}

/* ------------------------------------------------------------------------------------------ a saved run, read again */
#define MARKED "# attn_bench baseline 3, avx2, A processor, of two names\n"
#define HEADED "suite,case,backend,dtype,kv_dtype,pass,threads,status,samples_ms,p50_ms,a column of another program\n"
static const char *read_back(const char *text, baseline *to)
{
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", text);
    memset(to, 0, sizeof *to);
    return parse_baseline(copy, to);
}
static void test_saved_runs(void)
{
    static const struct { const char *text, *wrong; } refused[] = {
        { "suite,case\n", "is not a run" }, { "# attn_bench baseline 1, avx2, A processor\n" HEADED, "of another version" },
        { "# attn_bench baseline x\n" HEADED, "of another version" }, { "# attn_bench baseline 3, avx2, A processor", "is truncated" },
        { "# attn_bench baseline \n3;x," HEADED, "is truncated" },
        { MARKED, "no line of headings" }, { MARKED "suite,case,backend,dtype,kv_dtype,pass,threads,status\n", "no column samples_ms" },
        { MARKED "case,suite,backend,dtype,kv_dtype,pass,status,samples_ms\n", "no column threads" }, { MARKED HEADED, "has no rows" },
        { MARKED HEADED "s,c,flash,f32,f32,fwd,1,ok,1 2\n", "row 1 is truncated" }, { MARKED HEADED "s,c,flash,f32,f32,fwd,1,ok,1 2,1,,,\n", "row 1 has too many" },
        { MARKED HEADED "s,c,flash,f32,f32,fwd,1,ok,1 2,1,", "row 1 is truncated" }, { MARKED HEADED "s,c,flash,f32,f32,fwd,one,ok,1 2,1,\n", "row 1 has a wrong number" },
        { MARKED HEADED "s,c,flash,f32,f32,fwd,1,ok,1 2,1.5x,\n", "row 1 has a wrong number" }, { MARKED HEADED "s,c,flash,f32,f32,fwd,1,ok,1;2,1,\n", "row 1 has a wrong number" },
        { MARKED HEADED "s,c,flash,f32,f32,fwd,1,ok,1 -2,1,\n", "row 1 has a wrong number" }, { MARKED HEADED "s,c,flash,f32,f32,fwd,1,ok,1 inf,1,\n", "row 1 has a wrong number" },
        { MARKED HEADED "s,c,flash,f32,f32,fwd,1,ok,1 2,1,\ns,c,flash,f32,f32,fwd,1,ok,1 2,1\n", "row 2 is truncated" },
        { MARKED HEADED "s,c,flash,f32,f32,fwd,1,ok,1 2,1,\n", "is truncated: it ends after row 1" }, { MARKED HEADED "s,c,flash,f32,f32,fwd,1,ok,1 2,1,\n# en", "is truncated" },
        { MARKED HEADED "s,c,flash,f32,f32,fwd,1,ok,1 2,1,\n# end\ns,c,flash,f32,f32,fwd,1,ok,1 2,1,\n", "is truncated" }, { MARKED HEADED "# end\n", "has no rows" },
        { MARKED HEADED "s,\"c,flash,f32,f32,fwd,1,ok,1 2,1,\n", "row 1 is truncated" }, { MARKED HEADED "s,\"c\"x,flash,f32,f32,fwd,1,ok,1 2,1,\n", "row 1 is truncated" },
    };
    baseline b;
    const char *wrong = read_back(MARKED HEADED "prefill,\"a, \"\"b\"\"\",flash,f16,int8,bwd,3,ok,1.5 2 0.25,1.5,what it says\n,,standard,f32,f32,fwd,,declined,,,\n# end\n", &b);
    expect(!wrong && b.count == 2 && !strcmp(b.isa, "avx2") && !strcmp(b.cpu, "A processor, of two names"), "a saved run: %s, %d rows, %s, %s",
           wrong ? wrong : "read", (int)b.count, b.isa, b.cpu);
    if (!wrong && b.count == 2) {
        const row *r = b.rows;
        expect(!strcmp(r->suite, "prefill") && !strcmp(r->name, "a, \"b\"") && !strcmp(r->backend, "flash") && !strcmp(r->dtype, "f16") && !strcmp(r->kv_dtype, "int8") &&
               !strcmp(r->pass, "bwd") && r->threads == 3 && !strcmp(r->status, "ok") && r->p50_ms == 1.5, "row 1: %s, %s, %s", r->suite, r->name, r->pass);
        expect(r->samples_ms.n == 3 && r->samples_ms.x[0] == 1.5 && r->samples_ms.x[1] == 2 && r->samples_ms.x[2] == 0.25, "%d samples", (int)r->samples_ms.n);
        expect(!*r[1].suite && !strcmp(r[1].backend, "standard") && r[1].threads == NO_INT && isnan(r[1].p50_ms) && !r[1].samples_ms.n, "row 2: %s", r[1].backend);
    }
    free_baseline(&b);
    wrong = read_back("# attn_bench baseline 3, avx2, A processor\r\ncase,suite,backend,dtype,kv_dtype,pass,threads,status,samples_ms\r\na\rb,s,flash,f32,f32,fwd,1,ok,1 2\r\n# end\r\n", &b);
    expect(!wrong && b.count == 1 && !strcmp(b.cpu, "A processor") && !strcmp(b.rows[0].name, "a\rb") && b.rows[0].samples_ms.n == 2, "lines that end with CR LF: %s", wrong ? wrong : "read");
    free_baseline(&b);
    for (int n = 0; n < (int)(sizeof refused / sizeof *refused); n++) {
        wrong = read_back(refused[n].text, &b);
        expect(wrong && strstr(wrong, refused[n].wrong), "text %d of a saved run: \"%s\", not \"%s\"", n, wrong ? wrong : "read", refused[n].wrong);
        free_baseline(&b);
    }
}

/* ------------------------------------------------------------------------------------------ what follows from rows
 * Rows of a test, with numbers that are followed by hand; and what the program prints of them. */
enum { MOST_MADE = 24 };
static struct { bench b; bench_case cases[MOST_MADE]; row rows[MOST_MADE]; } made;

static void forget_rows(void)
{
    memset(&made, 0, sizeof made);
    made.b.cases = made.cases, made.b.rows = made.rows;
    snprintf(made.b.no_gpu, sizeof made.b.no_gpu, "none");
}

/* A row whose calls all take so many ms, and so many bytes of workspace. */
static row *add_made(const char *suite_name, const char *line, const char *backend, double ms, int64_t workspace)
{
    grid g = parse_line(line);
    bench_case c = { .suite = find_suite(suite_name) }, *to = made.cases;
    char text[128];
    for (int a = 0; a < AXES; a++) c.v[a] = g.value[a][0];
    expect(!resolve_case(&c, &g, text), "no case: %s", line);
    name_case(&c);
    while (to < made.cases + made.b.case_count && (to->suite != c.suite || memcmp(to->v, c.v, sizeof c.v))) to++;
    if (to == made.cases + made.b.case_count) *to = c, made.b.case_count++;
    row *r = &made.rows[made.b.row_count++];
    *r = new_row(to, backend);
    r->mean_ms = r->p50_ms = r->min_ms = r->max_ms = r->p95_ms = ms, r->stddev_ms = 0;
    r->ops_per_s = 1e3 / ms, r->tokens_per_s = 1e3 / ms * (double)(r->batch * r->q_len);
    r->workspace_bytes = workspace, r->bytes = tensor_bytes(to);
    return r;
}

static void derive_made(void)
{
    for (int64_t i = 0; i < made.b.row_count; i++) derive_row(&made.b, &made.rows[i]);
    derive_series(&made.b);
}

/* What is written to stderr from then on, and an end to it. */
static FILE *said;
static int stderr_was;
static void hear(void)
{
    fflush(stderr);
    said = tmpfile(), stderr_was = dup(STDERR_FILENO);
    dup2(fileno(said), STDERR_FILENO);
}
static FILE *heard(void)
{
    fflush(stderr);
    dup2(stderr_was, STDERR_FILENO);
    close(stderr_was);
    return said;
}

/* What was refused before the calls of others were interrupted is a row, what was cut short is none. */
static void test_interrupted_rows(void)
{
    static const char *const states[] = { "ok", "refused", "declined", "skipped", "wrong", "failed" };
    static bench b;
    static part x;
    bench_case c = case_of(" seq-len=8 num-heads=2 head-dim=16");
    interrupted = SIGINT;
    hear();
    for (int i = 0; i < COUNT(states); i++) {
        memset(&x, 0, sizeof x);
        x.r = new_row(&c, "flash");
        remark(&x.r, states[i], "x");
        finish_part(&b, &x);
    }
    fclose(heard());
    interrupted = 0;
    bool left = b.row_count == 3;
    for (int i = 0; i < 3 && left; i++) left = !strcmp(b.rows[i].status, states[i + 1]);
    expect(left, "of rows of an interrupted case %d are left", (int)b.row_count);
    free(b.rows);
}

/* A saved run of these rows, each by so many processes that are `spread` apart. */
typedef struct saved_row { const char *name, *status; double ms, spread; int processes; } saved_row;
static void save_rows(const char *path, const char *cpu, const saved_row *rows, int count)
{
    FILE *f = fopen(path, "w");
    fprintf(f, "# attn_bench baseline 3, avx2, %s\n" HEADED, cpu);
    for (int r = 0; r < count; r++)
        for (int p = 0; p < rows[r].processes; p++) {
            fprintf(f, "s,%s,flash,f32,f32,fwd,1,%s,", rows[r].name, rows[r].status);
            for (int i = 0; i < 8 && !strcmp(rows[r].status, "ok"); i++) fprintf(f, "%s%g", i ? " " : "", rows[r].ms * (1 + rows[r].spread * (p - 2)) * (1 + 1e-3 * (i * 5 % 8)));
            fprintf(f, ",%g,\n", rows[r].ms);
        }
    fputs("# end\n", f);
    fclose(f);
}

/* Two saved runs: which rows are compared, counted and named, and by which code the comparison ends. */
static void test_judged_runs(void)
{
    static const saved_row was[] = { { "slow", "ok", 1, 1e-3, 5 },  { "same", "ok", 1, 1e-3, 5 },  { "wide", "ok", 1, 0.2, 5 },   { "bad", "ok", 1, 1e-3, 5 },
                                     { "gone", "ok", 1, 1e-3, 5 },  { "lost", "ok", 1, 1e-3, 5 },  { "ever", "wrong", 1, 0, 5 },  { "mixed", "ok", 1, 1e-3, 4 },
                                     { "mixed", "failed", 1, 0, 1 } };
    static const saved_row is[] = { { "slow", "ok", 1.5, 1e-3, 5 }, { "same", "ok", 1, 1e-3, 5 },  { "wide", "ok", 1.1, 0.2, 5 }, { "bad", "wrong", 1, 0, 5 },
                                    { "lost", "declined", 1, 0, 5 }, { "ever", "ok", 1, 1e-3, 5 }, { "new", "ok", 1, 1e-3, 5 },   { "mixed", "ok", 3, 1e-3, 5 } };
    static const struct { int from, count, to, now_count; bool few; int code; const char *said[7]; } cases[] = {
        { 0, COUNT(was), 0, COUNT(is), false, EXIT_WRONG, { "s bad flash fwd was measured, and is wrong now\n", "2 of its rows were not measured now\n", "2 rows of this run were not measured in it\n", "3 rows compared, 1 slower, 1 unclear\n", "!process", "!mixed", NULL } },
        { 1, 2, 1, 2, false, 0, { "2 rows compared, 0 slower, 1 unclear\n", "!not measured now", "!not measured in", "!process", NULL } },
        { 0, 1, 0, 1, false, EXIT_WRONG, { "1 rows compared, 1 slower, 0 unclear\n", NULL } },
        { 2, 1, 2, 1, false, 0, { "1 rows compared, 0 slower, 1 unclear\n", NULL } },
        { 1, 1, 1, 1, true, 0, { "1 rows compared, 0 slower, 0 unclear\n", "calls of 2 process(es) are compared as if each were one: --processes 10 and more are surer\n", NULL } },
        { 3, 1, 3, 1, false, EXIT_WRONG, { "s bad flash fwd was measured, and is wrong now\n", "0 rows compared, 0 slower", NULL } },
        { 4, 1, 6, 1, false, EXIT_BAD, { ": 0 rows compared, none of its rows is one of this run's\n", "1 of its rows were not measured", NULL } },
    };
    char folder[] = "/tmp/bench_unit.XXXXXX", paths[2][64], flag[256];
    if (!expect(mkdtemp(folder) != NULL, "no temporary folder")) return;
    for (int i = 0; i < 2; i++) snprintf(paths[i], sizeof paths[i], "%s/%s", folder, i ? "now" : "old");
    FILE *kept = document;
    document = tmpfile();
    for (int k = 0; k < COUNT(cases); k++) {
        bench b = { .opt = { .baseline = paths[0], .saved = paths[1] } };
        saved_row rows[2][COUNT(was)];
        memcpy(rows[0], was + cases[k].from, (size_t)cases[k].count * sizeof *was);
        memcpy(rows[1], is + cases[k].to, (size_t)cases[k].now_count * sizeof *is);
        if (cases[k].few) rows[0][0].processes = 2;
        save_rows(paths[0], "A processor", rows[0], cases[k].count);
        save_rows(paths[1], "A processor", rows[1], cases[k].now_count);
        hear();
        int code = compare_saved(&b);
        expect_said("a comparison", heard(), cases[k].said);
        expect(code == cases[k].code, "comparison %d ends with %d", k, code);
        free(b.comparisons);
    }
    fclose(document);
    document = kept;
    /* what cannot be compared: the flag, the path and the reason, in this order */
    bench b = { .opt = { .baseline = paths[0], .saved = paths[1] } };
    for (int which = 0; which < 2; which++) {
        save_rows(paths[!which], "A processor", was, 1);
        unlink(paths[which]);
        snprintf(flag, sizeof flag, "attn_bench: --%s %s: No such file", which ? "saved" : "baseline", paths[which]);
        hear();
        expect(compare_saved(&b) == EXIT_BAD, "no file %d, and it is compared", which);
        SAID("a missing file", heard(), flag);
    }
    save_rows(paths[0], "A processor", was, 1);
    save_rows(paths[1], "Another", was, 1);
    hear();
    expect(compare_saved(&b) == EXIT_BAD, "runs of two processors are compared");
    snprintf(flag, sizeof flag, "attn_bench: --baseline %s: mismatch: it was saved", paths[0]);
    SAID("two processors", heard(), flag, "mismatch: it was saved on A processor, avx2; this is Another, avx2: nothing");
    FILE *cut = fopen(paths[1], "w");
    fputs(MARKED HEADED "s,c,flash,f32,f32,fwd,1,ok,1 2,1,\n", cut);
    fclose(cut);
    hear();
    expect(compare_saved(&b) == EXIT_BAD, "a run that is cut off is compared");
    SAID("a run that is cut off", heard(), "is truncated: it ends after row 1\n");
    baseline got;
    snprintf(flag, sizeof flag, "attn_bench: --saved %s: Is a directory", folder);
    hear();
    expect(load_baseline("saved", folder, &got) == EXIT_BAD && !got.rows, "a folder is read");
    SAID("a folder", heard(), flag);
    /* a run of more than 64 KiB */
    static saved_row many[1000];
    for (int i = 0; i < COUNT(many); i++) many[i] = (saved_row){ "many", "ok", i + 1, 0, 1 };
    save_rows(paths[0], "A processor", many, COUNT(many));
    if (expect(!load_baseline("baseline", paths[0], &got) && got.count == COUNT(many), "a long file: %d rows", (int)got.count)) {
        expect(got.rows[0].p50_ms == 1 && got.rows[999].p50_ms == 1000 && got.rows[999].samples_ms.n == 8, "its last row: %g ms", got.rows[999].p50_ms);
        free_baseline(&got);
    }
    for (int i = 0; i < 2; i++) unlink(paths[i]);
    rmdir(folder);
}

/* More calls than are drawn from: their quantiles stand for them. */
static void test_many_calls(void)
{
    enum { CALLS = 20 * MOST_PROCESSES };
    static double x[2][CALLS];
    for (int i = 0; i < CALLS; i++) x[0][i] = 1 + 1e-3 * (i * 7 % CALLS), x[1][i] = 1.5 * x[0][i];
    list one[] = { { x[0], CALLS } }, two[] = { { x[1], CALLS } };
    samples old = gather(one, 1, 1), now = gather(two, 1, 1);
    comparison c = compare_samples(&old, &now);
    expect(!strcmp(c.verdict, "slower") && c.processes == 1 && fabs(c.ratio - 1.5) < 0.01 && fabs(c.p95 - 1.5) < 1e-9, "%s: %g, %g", c.verdict, c.ratio, c.p95);
    free_samples(&old), free_samples(&now);
}

/* On a terminal it is shown how many processes there are to come; one that measures nothing ends it. */
static void test_progress(void)
{
    static const char *const argv[] = { "attn_bench", "--version" };
    bench b = { .argc = COUNT(argv), .argv = (char **)(uintptr_t)argv };
    int terminal = posix_openpt(O_RDWR | O_NOCTTY), side = terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal) ? open(ptsname(terminal), O_RDWR | O_NOCTTY) : -1;
    if (side < 0) {
        skipped++;
        printf("skipped: what is shown on a terminal\n");
        return;
    }
    hear();
    dup2(side, STDERR_FILENO);
    const int before = open_files();
    allocations_left = 0;
    bool good = repeat_run(&b);
    allocations_left = -1;
    expect(!good, "without memory a process is one of them");
    good = repeat_runs(&b, 7);
    const int after = open_files();
    fclose(heard());
    close(side);
    FILE *f = tmpfile();
    char text[256];
    for (ssize_t n; (n = read(terminal, text, sizeof text)) > 0;) fwrite(text, 1, (size_t)n, f);
    close(terminal);
    expect(before == after, "a process leaves %d files open", after - before);
    expect(!good && !b.repeat_count, "a process that measures nothing is one of %d", (int)b.repeat_count);
    SAID("a terminal", f, "\r[1 of 7 processes more]\033[K", "\r\033[Kattn_bench: a process more did not measure what this one did");
}

/* What looks slower is measured again by processes of their own: it stays slower only where these say so. */
static void test_confirmed(void)
{
    static const char *const argv[] = { "attn_bench", "--seq-len", "32", "--num-heads", "2", "--head-dim", "16", "--backend", "flash", "--iterations", "8", "--threads", "1" };
    for (int slower = 0; slower < 2; slower++) {
        bench b = { .argc = COUNT(argv), .argv = (char **)(uintptr_t)argv, .opt = { .save_baseline = "x", .processes = 5 } };
        if (!expect(repeat_runs(&b, 5) && b.repeat_count == 5, "%d rows of 5 processes", (int)b.repeat_count)) return;
        /* what was saved: a thousandth of the time, or as many times as long */
        row saved[5];
        double x[5][8];
        for (int p = 0; p < 5; p++) {
            saved[p] = b.repeats[p];
            expect(b.repeats[p].samples_ms.n == 8 && !strcmp(b.repeats[p].backend, "flash"), "%d samples of %s", (int)b.repeats[p].samples_ms.n, b.repeats[p].backend);
            for (int i = 0; i < 8; i++) x[p][i] = b.repeats[p].samples_ms.x[i] * (slower ? 1e-3 : 1e3);
            saved[p].samples_ms = (list){ x[p], 8 };
        }
        baseline old = { .rows = saved, .count = 5 };
        comparison c = { .verdict = "slower", .now = b.repeats, .old = saved, .ratio = 7 };
        b.comparisons = &c, b.comparison_count = 1;
        int64_t n = confirm_slower(&b, &old);
        expect(n == slower && !strcmp(c.verdict, slower ? "slower" : "faster"), "%d are slower, the row is %s", (int)n, c.verdict);
        expect(slower ? c.ratio == 7 : c.ratio < 0.01, "shown with a ratio of %g", c.ratio);
        expect(c.now == b.repeats, "another row is shown");
        expect(b.repeat_count == 5, "%d repeats", (int)b.repeat_count);
        free_rows(b.repeats, b.repeat_count);
    }
}

/* What a case moves and computes, counted by hand. */
static void test_counts(void)
{
    static const struct { const char *axes; double bytes, flops; } cases[] = {
        { "", 1152 + 960, 5760 },          { " pass=bwd", 2 * (1152 + 960) + 96, 14400 }, { " pass=fwd+bwd", 2 * (1152 + 960) + 96, 20160 }, /* 24 rows of lse */
        { " causal=1", 1152 + 960, 4608 }, { " kv-dtype=int8", 1152 + 480 + 160, 5760 }, { " kv-dtype=f32", 1152 + 1920, 5760 },
        { " mask=blocks", 1152 + 960 + 15, 0 },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        char line[256], text[128];
        snprintf(line, sizeof line, " batch-size=2 seq-len=3 kv-len=5 num-heads=4 num-kv-heads=2 head-dim=8 v-dim=16 dtype=f16%s", cases[i].axes);
        grid g = parse_line(line);
        bench_case c = { .suite = find_suite("shape") };
        problem p;
        for (int a = 0; a < AXES; a++) c.v[a] = g.value[a][0];
        if (!expect(!resolve_case(&c, &g, text) && problem_make(&c, NULL, &p), "no case: %s", line)) continue;
        expect(p.bytes == cases[i].bytes && (!cases[i].flops || p.flops == cases[i].flops), "%s: %g bytes, %g FLOPs", line, p.bytes, p.flops);
        expect(score_bytes(&c) == 480, "%s: %g bytes of scores", line, score_bytes(&c));
        problem_free(&p);
    }
}

/* x, the four weights and y: what a module reads and writes, and with the gradients twice; a cache beside them. */
static void test_module_bytes(void)
{
    static const struct { const char *axes; double bytes; } cases[] = {
        { "", 3670016 }, { " pass=bwd", 2 * 3670016.0 }, { " pass=fwd+bwd", 2 * 3670016.0 }, { " kv-len=192 append=1 kv-dtype=f16", 3670016 + 2 * 192 * 2 * 128 * 2 },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        char line[256];
        snprintf(line, sizeof line, "batch-size=2 seq-len=128 num-heads=8 num-kv-heads=2 head-dim=64%s", cases[i].axes);
        bench_case c = case_of(line);
        expect(module_bytes(&c) == cases[i].bytes, "%s: %g bytes of a module", line, module_bytes(&c));
    }
}

/* What a call holds is more than what it reads: keys left of a window, a module's weights, a mask as it is stored. */
static void test_held(void)
{
    static const char *const window = " seq-len=16 kv-len=4096 num-heads=8 head-dim=64 window-left=4 window-right=4";
    bench_case c = case_of(window), plain = case_of(" seq-len=16 kv-len=32 num-heads=2 head-dim=8"), module_ = case_of(" measure=module seq-len=9 num-heads=2 head-dim=8 pass=bwd");
    problem p;
    row r = new_row(&c, "flash");
    r.workspace_bytes = 1000;
    if (expect(problem_make(&c, NULL, &p), "no case")) {
        expect(total_bytes(&r) == 4.0 * 2 * (16 + 4096) * 8 * 64 + 1000, "a call of a window holds %g bytes", total_bytes(&r));
        expect(p.bytes == 4.0 * 2 * (16 + 20) * 8 * 64, "and moves %g", p.bytes);
        problem_free(&p);
    }
    expect(held_bytes(&module_) == 2 * 4 * 9 * 16 * 4 + 4 * 9 * 2 + 2 * 4 * (2 * 9 * 16 + 4 * 16 * 16), "a module holds %g bytes", held_bytes(&module_));
    double none = tensor_bytes(&plain);
    plain.v[MASK] = FILE_MASK, plain.mask_bytes = 32;
    expect(tensor_bytes(&plain) == none + 32, "a mask of one row has %g bytes", tensor_bytes(&plain) - none);
    plain.mask_bytes = 0;
    expect(tensor_bytes(&plain) == none + 16 * 32, "a mask of all rows has %g bytes", tensor_bytes(&plain) - none);
}

/* Curves over the length: with as many keys as queries, with the same keys, or in steps of one token. */
static void test_series(void)
{
    static const struct { const char *a, *b; bool same; } cases[] = {
        { " seq-len=64", " seq-len=128", true }, { " seq-len=64 kv-len=128", " seq-len=64 kv-len=2048", false }, { " seq-len=64 kv-len=128", " seq-len=128", false },
        { " seq-len=64 kv-len=128", " seq-len=128 kv-len=128", true }, { " seq-len=128", " seq-len=128 kv-len=128", false },
        { " seq-len=64 kv-len=512", " seq-len=128 kv-len=512", true }, { " seq-len=64", " seq-len=64 kv-len=128", false },
        { " measure=generate seq-len=1 kv-len=64 causal=1", " measure=generate seq-len=1 kv-len=128 causal=1", true }, { " seq-len=64", " seq-len=128 head-dim=32", false },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        bench_case a = case_of(cases[i].a), b = case_of(cases[i].b);
        row x = new_row(&a, "flash"), y = new_row(&b, "flash"), z = new_row(&b, "standard");
        expect(same_series(&x, &y, SEQ, KV) == cases[i].same && same_series(&y, &x, SEQ, KV) == cases[i].same, "%s and%s: one series", cases[i].a, cases[i].b);
        expect(!same_series(&x, &z, SEQ, KV), "two backends in one series");
    }
}

static void test_derived(void)
{
    static const char *const line = "seq-len=64 num-heads=2 head-dim=16";       /* 32768 bytes of tensors */
    forget_rows();
    row *standard = add_made("flash_v2", line, "standard", 8, 30000), *flash = add_made("flash_v2", line, "flash", 2, 1000);
    standard->mean_ms = 7;
    derive_made();
    expect(near(flash->speedup_vs_standard, 4) && near(standard->speedup_vs_standard, 1), "speedup %g", flash->speedup_vs_standard);
    expect(near(flash->memory_factor, 62768.0 / 33768) && near(flash->memory_reduction, 1 - 33768.0 / 62768), "memory: %g times, %g less",
           flash->memory_factor, flash->memory_reduction);
    expect(!any_wrong(&made.b), "a row is wrong");
    remark(flash, "declined", "x");
    expect(!any_wrong(&made.b), "what is declined is wrong");
    remark(flash, "failed", "x");
    expect(any_wrong(&made.b), "what failed is not wrong");
    /* S^2 from a 16th of the longest on; shorter calls are not of the law. Output and lse are 260 bytes a token. */
    static const int64_t lengths[] = { 1024, 32, 64, 256 };
    forget_rows();
    for (int i = 0; i < COUNT(lengths); i++) {
        char text[64];
        double square = (double)(lengths[i] * lengths[i]);
        snprintf(text, sizeof text, "seq-len=%d num-heads=1 head-dim=64", (int)lengths[i]);
        add_made("memory", text, "flash", lengths[i] == 32 ? 50 : 1e-3 * square, 1000 * lengths[i] * lengths[i] - 260 * lengths[i]);
    }
    made.rows[1].workspace_bytes = 1 << 30;
    derive_made();
    power_law law = fit_power_law(&made.b, made.rows, median_of);
    expect(near(law.exponent, 2) && law.from == 64 && law.to == 1024 && law.points == 3, "time ~ S^%g from %d to %d", law.exponent, (int)law.from, (int)law.to);
    for (int i = 0; i < 4; i++)
        expect(near(made.rows[i].time_exponent, 2) && near(made.rows[i].memory_exponent, 2), "exponents of row %d: %g, %g", i, made.rows[i].time_exponent,
               made.rows[i].memory_exponent);
    made.b.cases = made.cases, made.b.case_count = made.b.row_count;     /* more of the series is to come: none yet */
    for (int i = 0; i < 4; i++) {
        row r = made.rows[i];
        r.time_exponent = r.memory_exponent = NAN;
        derive_row(&made.b, &r);
        expect(isfinite(r.time_exponent) == (i == 3) && isfinite(r.memory_exponent) == (i == 3), "row %d is printed with exponents %g, %g", i, r.time_exponent,
               r.memory_exponent);
    }
    made.b.cases = NULL, made.b.case_count = 0;
    made.b.row_count = 3;                        /* 1024, 32 and 64: of two lengths nothing is fitted */
    law = fit_power_law(&made.b, made.rows, median_of);
    expect(isnan(law.exponent) && law.points == 2, "time ~ S^%g of %d points", law.exponent, (int)law.points);
    made.b.row_count = 4;
    FILE *f = tmpfile();
    print_exponents(f, &made.b);
    SAID("exponents", f, "as far as S 1024 (f32, kv f32, fwd, ", " time ~ S^2.00 from S 64 on, memory ~ S^2.00 from S 64 on\n");
    for (int i = 0; i < 4; i++) made.rows[i].threads = 1;
    print_exponents(f = tmpfile(), &made.b);
    SAID("exponents", f, ", 1 thread): time ~ S^2.00");
}

/* Threads with fixed work, the batch alone, threads with the batch. */
static void test_scaling(void)
{
    forget_rows();
    static const struct { int threads, batch; double ms; } runs_[] = { { 4, 4, 16 }, { 2, 1, 8 }, { 4, 1, 4 }, { 4, 3, 7 }, { 1, 1, 12 } };
    for (int i = 0; i < COUNT(runs_); i++) {
        char text[96];
        snprintf(text, sizeof text, "threads=%d batch-size=%d seq-len=8", runs_[i].threads, runs_[i].batch);
        add_made("scaling", text, "flash", runs_[i].ms, 0);
    }
    for (int again = 0; again < 2; again++) {           /* nothing is said twice */
        const row *r = made.rows;
        derive_series(&made.b);
        expect(near(r[2].efficiency, 0.75) && !strcmp(r[2].note, "3.00x the throughput of 1 thread(s), efficiency 75%"), "strong: %g, %s", r[2].efficiency, r[2].note);
        expect(near(r[1].efficiency, 0.75) && !strcmp(r[1].note, "1.50x the throughput of 1 thread(s), efficiency 75%"), "two threads: %g, %s", r[1].efficiency, r[1].note);
        expect(near(r[0].efficiency, 0.75) && !strcmp(r[0].note, "1.00x the throughput of 1 sequence(s); 3.00x the throughput of 1 thread(s) with as much work each, "
               "efficiency 75%"), "weak: %g, %s", r[0].efficiency, r[0].note);
        expect(isnan(r[3].efficiency) && !strcmp(r[3].note, "1.71x the throughput of 1 sequence(s)"), "a batch alone: %g, %s", r[3].efficiency, r[3].note);
        expect(isnan(r[4].efficiency) && !*r[4].note, "the base: %g, %s", r[4].efficiency, r[4].note);
    }
    const suite *s = find_suite("scaling");      /* the guide's figures, beside these */
    FILE *f = tmpfile();
    if (expect(s->conclude != NULL, "scaling concludes nothing")) s->conclude(f, &made.b, s);
    SAID("the guide's scaling", f, "scaling, ours of suite scaling: n |", "| 4 | 3.42 | 1 | 3.68 | 3 | 0.75 |\n", "| 16 | 10.24 | not run | - | not run | not run |\n");
}

/* Standard clearly faster in one case of three, slower in one, within the spread in one. */
static void test_crossover(void)
{
    static const struct { const char *line; double standard, flash; } cases[] = {
        { "seq-len=16 num-heads=1 head-dim=8", 1, 2 }, { "seq-len=32 num-heads=1 head-dim=8", 2, 1 }, { "seq-len=48 num-heads=1 head-dim=8", 1, 1.05 },
    };
    forget_rows();
    for (int i = 0; i < COUNT(cases); i++) {
        row *pair[] = { add_made("memory", cases[i].line, "standard", cases[i].standard, 0), add_made("memory", cases[i].line, "flash", cases[i].flash, 0) };
        for (int k = 0; k < 2; k++) pair[k]->threads = 1000;
        for (int k = 0; k < 2 && i == 2; k++) pair[k]->min_ms = 0.9, pair[k]->max_ms = 1.1;
    }
    add_made("memory", cases[0].line, "reference", 9, 0);
    derive_made();
    FILE *f = tmpfile();
    print_crossover(f, &made.b);
    SAID("crossover", f, "- standard is faster than flash at memory B1 S16 H1 D8 thr 1000 f32 fwd: 2.00x\n", "!S32", "!S48", "!none");
    end_json(f = tmpfile(), &made.b);
    SAID("crossover of the document", f, "\"crossover\": {\"cases\": 3, \"standard_faster\": [{\"suite\": \"memory\", \"case\": \"B1 S16 H1 D8\", "
         "\"dtype\": \"f32\", \"kv_dtype\": \"f32\", \"pass\": \"fwd\", \"seed\": 1, \"threads\": 1000, \"factor\": 2}]},\n \"verdict\": null, \"interrupted\": false}");
    made.b.rows += 2, made.b.row_count -= 3;
    print_crossover(f = tmpfile(), &made.b);
    SAID("no crossover", f, "- crossover of flash over standard: none, flash wins or ties in all of 2 cases\n", "!faster",
         "  - in 1 of them its median is slower, by no more than calls differ\n");
    made.rows[5].speedup_vs_standard = 1;
    print_crossover(f = tmpfile(), &made.b);
    SAID("no slower median", f, "none, flash wins or ties in all of 2 cases\n", "!slower");
    /* rows of one name are told apart by what else they have, in notes too */
    forget_rows();
    char line[96];
    snprintf(line, sizeof line, "seq-len=16 num-heads=1 head-dim=8 kv-dtype=f16 threads=%d", (int)attn_threads() + 2);
    add_made("memory", line, "standard", 1, 0), remark(add_made("memory", line, "flash", 2, 0), NULL, "a note");
    derive_made();
    print_crossover(f = tmpfile(), &made.b);
    snprintf(line, sizeof line, "kv f16 thr %d", (int)attn_threads() + 2);
    SAID("a crossover", f, "B1 S16 H1 D8", line);
    write_grid(f = tmpfile(), &made.b, find_suite("memory"));
    snprintf(line, sizeof line, "kv f16 thr %d, flash, fwd: a note\n", (int)attn_threads() + 2);
    SAID("a note", f, line);
    row a = null_row(), r = a;
    a.p50_low_ms = 1, a.p50_high_ms = 2, r.p50_low_ms = 2.1, r.p50_high_ms = 2.2, a.max_ms = r.max_ms = 9, r.min_ms = 0;
    expect(clearly_faster(&a, &r) && !clearly_faster(&r, &a), "intervals apart");
    r.p50_low_ms = 1.9;
    expect(!clearly_faster(&a, &r), "intervals that overlap");
    r.p50_low_ms = NAN, r.min_ms = 2.1;
    expect(clearly_faster(&a, &r), "few calls, all of them apart");
    r.min_ms = 1.9;
    expect(!clearly_faster(&a, &r), "few calls that overlap");
}

/* The targets at the longest length, each at its edge. */
static void test_openpi(void)
{
    static const struct { double time, memory, exponent; const char *status; bool reached; } cases[] = {
        { 16, 51, 2, "ok", true },    { 14, 51, 2, "ok", false },  { 16, 49, 2, "ok", false },     { 16, 51, 2.3, "ok", true },
        { 16, 51, 2.4, "ok", false }, { 16, 51, 1.6, "ok", false }, { 16, 51, 2, "wrong", false }, { 16, 51, 2, "failed", false },
        { 16, 51, 2, "declined", false }, { 16, 51, 2, "skipped", true }, { 16, 51, 2, "refused", true },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        char time[128], memory[128];
        forget_rows();
        for (int n = 64; n >= 16; n /= 4) {      /* the longest decides */
            char line[96];
            snprintf(line, sizeof line, "seq-len=%d dtype=f16", n);
            row *r = add_made("openpi", line, "flash", 1, 0);
            r->max_abs_err = 0, r->speedup_vs_standard = n == 64 ? 1 / (1 - cases[i].time / 100) : n == 16 && cases[i].reached ? 0.5 : 9;
            snprintf(line, sizeof line, "measure=memory seq-len=%d dtype=f16", n);
            r = add_made("openpi", line, "flash", NAN, 0);
            r->memory_reduction = n == 64 ? cases[i].memory / 100 : cases[i].reached ? 0.1 : 0.9;
            add_made("openpi", line, "standard", NAN, 0)->memory_exponent = cases[i].exponent;
        }
        snprintf(add_made("openpi", "seq-len=16 dtype=f16", "standard", 1, 0)->status, 16, "%s", cases[i].status);
        const suite *s = find_suite("openpi");
        judgement want = cases[i].reached ? REACHED : NOT_REACHED;
        expect(judge_openpi(&made.b, s) == want && judge_suites(&made.b) == want,
               "openpi, %g%% less time, %g%% less memory, S^%g, %s: %s", cases[i].time, cases[i].memory, cases[i].exponent, cases[i].status,
               cases[i].reached ? "not reached" : "reached");
        FILE *f = tmpfile();
        conclude_openpi(f, &made.b, s);
        snprintf(time, sizeof time, "  - %.1f%% less time than standard at B1 S64 H8 D64 f16 (target 15 to 25%%): %s\n", cases[i].time, cases[i].time < 15 ? "NOT reached" : "reached");
        snprintf(memory, sizeof memory, "  - %.1f%% less memory than standard at memory B1 S64 H8 D64 f16 (target 50 to 80%%): %s\n", cases[i].memory,
                 cases[i].memory < 50 ? "NOT reached" : "reached");
        SAID("openpi", f, cases[i].reached ? "measured: reached" : "measured: NOT reached", time, memory);
    }
    for (int right = 0; right < 2; right++) {    /* no target measured: no verdict, but for what is wrong */
        forget_rows();
        add_made("openpi", "seq-len=16 dtype=f16", "flash", 1, 0)->max_abs_err = 0;
        snprintf(add_made("openpi", "seq-len=16 dtype=f16", "standard", 1, 0)->status, 16, "%s", right ? "refused" : "wrong");
        judgement got = judge_openpi(&made.b, find_suite("openpi"));
        expect(got == (right ? NOT_JUDGED : NOT_REACHED) && judge_suites(&made.b) == got, "openpi without targets: %d", (int)got);
        FILE *f = tmpfile();
        conclude_openpi(f, &made.b, find_suite("openpi"));
        SAID("openpi", f, right ? "measured: not run" : "measured: NOT reached", "15 to 25%): not run");
    }
    forget_rows();                               /* memory alone verifies nothing; another backend that declines is no fault of ours */
    add_made("openpi", "measure=memory seq-len=64 dtype=f16", "flash", NAN, 0)->memory_reduction = 0.6;
    snprintf(add_made("openpi", "seq-len=16 dtype=f16", "another", 1, 0)->status, 16, "declined");
    expect(judge_openpi(&made.b, find_suite("openpi")) == REACHED, "openpi of memory alone");
    FILE *alone = tmpfile();
    conclude_openpi(alone, &made.b, find_suite("openpi"));
    SAID("openpi of memory alone", alone, "measured: reached", "  - 0 rows right, 0 wrong, failed or declined: not run\n");
    for (int worst = 0; worst < 3; worst++) {    /* of one length the row that saves least, wherever it stands */
        static const int heads[] = { 2, 4, 8 };
        forget_rows();
        for (int i = 0; i < 3; i++) {
            char lines_[2][96];
            for (int k = 0; k < 2; k++) snprintf(lines_[k], sizeof lines_[k], "%sseq-len=64 num-heads=%d", k ? "measure=memory " : "", heads[i]);
            add_made("openpi", lines_[0], "flash", 1, 0)->speedup_vs_standard = i == worst ? 1.1 : 3;
            add_made("openpi", lines_[1], "flash", NAN, 0)->memory_reduction = i == worst ? 0.4 : 0.7;
            add_made("openpi", lines_[1], "standard", NAN, 0)->memory_exponent = i == worst ? 1.5 : 2.1;
        }
        char at[2][96];
        for (int k = 0; k < 2; k++)
            snprintf(at[k], sizeof at[k], "  - %.1f%% less %s than standard at %sB1 S64 H%d D64 (", k ? 40 : 100 - 100 / 1.1, k ? "memory" : "time", k ? "memory " : "", heads[worst]);
        FILE *order = tmpfile();
        conclude_openpi(order, &made.b, find_suite("openpi"));
        SAID("openpi, of three rows of one length", order, at[0], at[1], "memory of standard ~ S^1.50 (");
        expect(judge_openpi(&made.b, find_suite("openpi")) == NOT_REACHED, "openpi, row %d of three saves least: reached", worst);
    }
    forget_rows();                               /* tensors as large as the scores; what standard has besides is not theirs */
    static const char *const line = "measure=memory seq-len=64 num-heads=2 head-dim=16";
    add_made("openpi", line, "standard", NAN, 32768), add_made("openpi", line, "flash", NAN, 0);
    derive_made();
    FILE *f = tmpfile();
    print_score_share(f, &made.b, find_suite("openpi"));
    SAID("share of the scores", f, ": the score matrix is 50.0% of the memory of standard, which is 2 times that of flash\n");
}

static void test_adaattn(void)
{
    static const char *const line = "seq-len=64 num-heads=2 head-dim=16", *const both = "seq-len=64 num-heads=2 head-dim=16 pass=fwd+bwd";
    forget_rows();
    add_made("adaattn", line, "standard", 8, 30000);
    add_made("adaattn", line, "flash", 2, 1000)->stddev_ms = 0.3;
    add_made("adaattn", both, "standard", 12, 30000);
    add_made("adaattn", both, "flash", 4, 1000)->stddev_ms = 0.4;
    FILE *f = tmpfile();
    conclude_adaattn(f, &made.b, find_suite("adaattn"));
    SAID("adaattn", f, "Times are means with standard deviations, as theirs; tok/s and what is relative are of medians.\n", "  - flash B1 S64 H2 D16: forward 2.000+-0.300 ms, backward 4.000+-0.400 ms, total 6.000+-0.500 ms, 32000 tok/s, memory 0.03377 MB; "
         "relative to dense: forward 4.00, memory 1.86, backward 3.00, total 3.33\n");
    made.rows[1].stddev_ms = NAN;                /* of a single call */
    conclude_adaattn(f = tmpfile(), &made.b, find_suite("adaattn"));
    SAID("adaattn, one call", f, "forward 2.000 ms, backward 4.000+-0.400 ms, total 6.000 ms, 32000 tok/s", "!nan");
    print_their_flops(f = tmpfile(), &made.b);
    SAID("FLOPs of no module", f, "the backward 2.5 times that\n");
    row *module = add_made("adaattn", "measure=module project=1 seq-len=64", "flash", 2, 0);
    print_their_flops(f = tmpfile(), &made.b);
    SAID("FLOPs of a module that is not measured", f, "the backward 2.5 times that\n");
    module->gflops = 1;
    print_their_flops(f = tmpfile(), &made.b);
    SAID("FLOPs of a module", f, "the backward 2.5 times that; those of a module count its projections too\n");
    static const char *const speed = "seq-len=64 policy=speed", *const speed_both = "seq-len=64 policy=speed pass=fwd+bwd";
    forget_rows();
    add_made("adaattn", speed, "standard", 1, 0), add_made("adaattn", speed, "flash", 4, 0);
    row *r = add_made("adaattn", speed, "precision", 2, 0);
    r->max_abs_err = 1e-3, r->max_cert = 2e-3;
    add_made("adaattn", speed_both, "flash", 6, 0), add_made("adaattn", speed_both, "precision", 2, 0);
    print_modes(f = tmpfile(), &made.b, find_suite("adaattn"));
    SAID("modes", f, "| precision | 2.00, 3.00, 2.50 | 0.50, 0.33, 0.40 | 1.00e-03 | 2.00e-03 |\n");
    made.rows[2].max_abs_err = 1.319e-3, made.rows[2].max_cert = 2.3001e-3;
    print_modes(f = tmpfile(), &made.b, find_suite("adaattn"));
    SAID("a certificate rounded up", f, " | 1.32e-03 | 2.31e-03 |\n");
    /* what tells rows of one name apart stands in every line */
    made.rows[2].threads = 1000;
    print_modes(f = tmpfile(), &made.b, find_suite("adaattn"));
    SAID("modes", f, "speed thr 1000 | precision |");
    forget_rows();
    add_made("adaattn", "seq-len=64 dtype=bf16 seed=7", "flash", 2, 0);
    conclude_adaattn(f = tmpfile(), &made.b, find_suite("adaattn"));
    SAID("adaattn", f, "  - flash B1 S64 H8 D64 seed 7 bf16: forward");
    forget_rows();
    add_made("tune", "seq-len=64 kv-dtype=f16", "flash", 2, 0), add_made("tune", "seq-len=64", "flash", 3, 0);
    hear();
    print_fastest(&made.b);
    SAID("the fastest", heard(), "fastest: B1 S64 H8 D64 kv f16 f32 fwd, 2 ms; B1 S64 H8 D64 f32 fwd, 3 ms\n");
}

static void test_guide(void)
{
    static const char *const passes[] = { "fwd", "bwd", "fwd+bwd" };
    static const double ms[] = { 2, 6, 8 }, gbytes[] = { 30, 50, 20 };
    const suite *s = find_suite("flash_v2");
    char line[128];
    forget_rows();
    for (int pass = 0; pass < 3; pass++)
        for (int least = 0; least < 2; least++) {
            snprintf(line, sizeof line, "seq-len=32 num-heads=%d head-dim=16 dtype=f16 pass=%s", least ? 8 : 4, passes[pass]);
            row *r = add_made("flash_v2", line, "flash", ms[pass], 0);
            find_published(r);
            r->gbytes_per_s = gbytes[pass] - 10 * least, r->bandwidth_fraction = least ? 0.5 : 0.25;
            if (pass == FWD_BWD) r->speedup_vs_standard = 2.5;
        }
    expect(near(made.rows[0].ratio, 0.04) && near(made.rows[2].ratio, 0.02) && isnan(made.rows[1].ratio), "over theirs: %g, %g", made.rows[0].ratio,
           made.rows[2].ratio);
    for (int n = 2; n >= 1; n--)
        for (int threads = 1; threads <= n; threads++) {
            snprintf(line, sizeof line, "threads=%d batch-size=%d seq-len=256", threads, n);
            add_made("flash_v2", line, "flash", threads == 2 ? 1.25 : 1, 0);
        }
    static const char *const memory = "measure=memory seq-len=64 num-heads=32 head-dim=64 dtype=f16";
    add_made("flash_v2", memory, "standard", NAN, 2000000), add_made("flash_v2", memory, "flash", NAN, 1000);
    derive_row(&made.b, &made.rows[made.b.row_count - 1]);
    FILE *f = tmpfile();
    conclude_guide(f, &made.b, s);
    SAID("the guide", f, "| B1 S32 H4 D16 f16 | flash | 2 | 6 | 8 | 3.00 | 1.50 | 2.50 |\n", "| B1 S32 H8 D16 f16 | flash | 2 | 6 | 8 | 3.00 | - | 2.50 |\n",
         "\n| flash_v2 memory, MiB |", "| S 64 | 0.5 | 2.907 | 0.2 | 1.001 | 2.5x | 2.9x |\n", "| 2 | 1.85 | 2 | 1.92 | 1.6 | 0.8 |\n",
         "bandwidth, forward: theirs 612 of 864 GB/s (70.8%); ours, the most: 30 GB/s (25.0% of a read loop), B1 S32 H4 D16 f16 flash\n",
         "bandwidth, backward: theirs 545 of 864 GB/s (63.1%); ours, the most: 50 GB/s", "bandwidth, both: theirs 578 of 864 GB/s (66.9%); ours, the most: 20 GB/s",
         "block 64 for S 32, D 16: 18 KiB of shared memory; infeasible as published (the block exceeds the sequence); fits NVIDIA L20 (99 KiB), H100, H200 (227 KiB)",
         "block 128 for S 64, D 32: 72 KiB", "fits NVIDIA L20 (99 KiB), H100, H200 (227 KiB), AMD gfx950 (160 KiB); a block of 64 needs 20 KiB\n",
         "block 256 for S 128, D 64: 288 KiB", "fits no chip listed; a block of 128 needs 80 KiB\n");
    print_published(f = tmpfile(), &made.b, s);
    SAID("published", f, "| B1 S32 H4 D16 | flash | fwd | 0.08 ms | - | 2 ms | 0.04 |\n", "| B1 S32 H4 D16 | flash | bwd | 0.12 ms | - | 6 ms | 0.02 |\n",
         "| B1 S64 H8 D32 | flash | fwd | 0.18 ms | - | not run | - |\n", "!| fwd+bwd |", "!| hip |");
    print_published(f = tmpfile(), &made.b, find_suite("rocmforge"));
    SAID("published", f, "| B1 S32 H1 D32 | their CPU | fwd | 33.463 us | 956280 |", "| B1 S64 H1 D64 | their CPU | fwd | 264.199 us | 242242 |",
         "| B1 S128 H1 D128 | their CPU | fwd | 2.588 ms | 49452 |", "| B1 S256 H1 D256 | their CPU | fwd | 22.293 ms | 11484 |",
         "| B1 S512 H1 D512 | their CPU | fwd | 348.592 ms | 1469 |");
}

static void test_advice(void)
{
    static const char *const lines_[] = { "seq-len=64 num-heads=2 head-dim=16", "seq-len=96 num-heads=2 head-dim=16" };
    forget_rows();
    for (int i = 0; i < 2; i++)
        for (int flash = 0; flash < 2; flash++) {
            row *r = add_made("memory", lines_[i], flash ? "flash" : "standard", i ? flash ? 2.05 : 2 : flash ? 2 : 5, 0);
            snprintf(r->bound, sizeof r->bound, i ? "bandwidth" : "compute");
            r->peak_fraction = r->bandwidth_fraction = 0.5;
            if (i) r->stddev_ms = 0.2, r->min_ms = 1;
        }
    FILE *f = tmpfile();
    print_advice(f, &made.b);
    SAID("advice", f, "| B1 S64 H2 D16 | f32 | fwd | flash | 2 | compute: 50% of peak, 50% of bandwidth | near the peak", "| B1 S96 H2 D16 | f32 | fwd | flash | 2.05",
         "bandwidth: 50% of peak, 50% of bandwidth | near the speed of memory", "!| standard |", "!far from");
    /* a limit that is far away is none */
    for (int i = 0; i < 4; i++) *(i < 2 ? &made.rows[i].peak_fraction : &made.rows[i].bandwidth_fraction) = 0.49;
    print_advice(f = tmpfile(), &made.b);
    SAID("advice far from the peak", f, "compute: 49% of peak, 50% of bandwidth | far from its limit", "bandwidth: 50% of peak, 49% of bandwidth | far from its limit", "!near");
    for (int i = 2; i < 4; i++) made.rows[i].bandwidth_fraction = NAN;
    print_advice(f = tmpfile(), &made.b);
    SAID("advice without a measure", f, "| how near its limit it is was not measured |\n");
    /* rows of one name are told apart, where a column is missing and in the curves of a plot */
    char label[256], title[1024];
    forget_rows();
    row *r = add_made("decode", "seq-len=1 kv-len=64 num-heads=2 head-dim=16 kv-dtype=f16 pass=bwd seed=3", "flash", 1, 0);
    r->threads = attn_threads();
    case_label(&made.b, r, label);
    expect(strstr(label, " bwd") && strstr(label, " kv f16") && strstr(label, " seed 3"), "the label of a row: %s", label);
    curve_title(r, title);
    expect(strstr(title, "kv f16") && strstr(title, "seed 3"), "the title of a curve: %s", title);
}

/* ------------------------------------------------------------------------------------------ what is written */
static void test_written(void)
{
    static const struct { double ms; const char *text; } times[] = {
        { 0.05, "50.00 us" }, { 0.0999, "99.90 us" }, { 0.5, "0.500 ms" }, { 150, "150.0 ms" }, { 5000, "5000 ms" }, { 20000, "20.00 s" }, { 0, "0.000 us" },
    };
    static const struct { double x; const char *text; } reals[] = { { 0, "0.000" }, { 5e-4, "5.00e-04" }, { 2e7, "2.00e+07" }, { -12.5, "-12.50" }, { 1234.5, "1234" },
                                                            { 0.001319, "0.00132" }, { 0.0011, "0.00110" }, { -0.00999, "-0.00999" }, { 0.0123, "0.012" } };
    static const struct { double x; const char *text; } bounds[] = { { 0.001319, "0.00132" }, { 0.001311, "0.00132" }, { 0.0011, "0.00110" }, { 5.001e-4, "5.01e-04" }, { 9.991e-4, "1.00e-03" },
                                                                     { 0.009991, "0.01000" }, { 0.01201, "0.013" }, { 0.12301, "0.124" }, { 1.0001, "1.001" }, { 0, "0.000" }, { 2, "2.000" }, { 1e-30, "1.00e-30" } };
    char text[256];
    for (int i = 0; i < COUNT(times); i++) {
        format_time(times[i].ms, text, sizeof text);
        expect(!strcmp(text, times[i].text), "%g ms is %s", times[i].ms, text);
    }
    for (int i = 0; i < COUNT(reals); i++) {
        format_real(reals[i].x, text, sizeof text);
        expect(!strcmp(text, reals[i].text), "%g is %s", reals[i].x, text);
    }
    for (int i = 0; i < COUNT(bounds); i++) {
        row c = null_row();
        c.max_cert = bounds[i].x;
        expect(!strcmp(cell(&c, find_field("max_cert"), text), bounds[i].text), "a certificate of %g is %s", bounds[i].x, text);
    }
    forget_rows();
    row *r = add_made("memory", "seq-len=64 num-heads=2 head-dim=16 causal=1 threads=3 kv-dtype=f16", "flash", 2, 1048576), plain = *r;
    r->p50_low_ms = 1.9, r->p50_high_ms = 2.1;
    expect(!strcmp(cell(r, find_field("p50_ms"), text), "2.000 ms +-5.0%"), "p50: %s", text);
    r->p50_low_ms = 1, r->p50_high_ms = 3;
    expect(!strcmp(cell(r, find_field("p50_ms"), text), "2.000 ms +-50%"), "p50: %s", text);
    r->p50_low_ms = 1.9, r->p50_high_ms = 4;
    expect(!strcmp(cell(r, find_field("p50_ms"), text), "2.000 ms -5+100%"), "p50: %s", text);
    r->p50_low_ms = 1, r->p50_high_ms = 2.1;
    expect(!strcmp(cell(r, find_field("p50_ms"), text), "2.000 ms -50+5%"), "p50: %s", text);
    expect(!strcmp(cell(r, find_field("workspace_bytes"), text), "1.0 MiB"), "bytes: %s", text);
    r->ttft_ms = 3, r->ttft_stddev_ms = 0.5;
    expect(!strcmp(cell(r, find_field("ttft_ms"), text), "3.000 ms +-0.500 ms"), "first token: %s", text);
    if (attn_threads() != 3) {
        case_label(&made.b, r, text);
        expect(!strcmp(text, "B1 S64 H2 D16 causal kv f16 thr 3"), "the label of a row: %s", text);
    }
    FILE *f = tmpfile();
    csv_text(f, "a\nb"), csv_text(f, "|"), csv_text(f, "c,d"), csv_text(f, "|"), csv_text(f, "e\"f"), csv_text(f, "|"), csv_text(f, "g h");
    SAID("csv", f, "\"a\nb\"|\"c,d\"|\"e\"\"f\"|g h");
    json_string(f = tmpfile(), "a\"b\\c\nd\x01");
    json_number(f, "x", INFINITY), json_number(f, "y", NAN), json_number(f, "z", 0.5);
    SAID("json", f, "\"a\\\"b\\\\c\\u000ad\\u0001\", \"x\": null, \"y\": null, \"z\": 0.5");
    r->gflops = INFINITY, r->p99_ms = NAN;
    write_json_line(f = tmpfile(), r, true);
    SAID("a row of json", f, "   {\"suite\": \"memory\"", "\"causal\": true", "\"gflops\": null", "\"p99_ms\": null", "\"p50_ms\": 2,", "\"kv_dtype\": \"f16\"", "!inf", "!nan");
    begin_json(f = tmpfile(), &(bench){ .fma_peak = 100, .dot_peak = 300, .bandwidth = 7 });
    SAID("context", f, "\"fma_peak_gflops\": 100, \"dot_peak_gflops\": 300, \"read_bandwidth_gbytes\": 7, \"command\": []");
    r->seed = 7;
    comparison c = { .now = r, .old = &plain, .now_ms = 5, .old_ms = 4, .ratio = 1.25, .low = 1.125, .high = 1.5, .p95 = 1.5, .p99 = 2, .clock = 1, .p = 0.25, .verdict = "slower" };
    made.b.comparisons = &c, made.b.comparison_count = 1;
    json_comparisons(f = tmpfile(), &made.b);
    SAID("a comparison in json", f, "\"threads\": 3, \"seed\": 7, \"old_ms\": 4, \"new_ms\": 5, \"delta\": 0.25, \"delta_low\": 0.125, \"delta_high\": 0.5, \"delta_p95\": 0.5, \"delta_p99\": 1, \"clock\": 1, \"p\": 0.25, \"verdict\": \"slower\"}");
    print_comparisons(f = tmpfile(), &made.b);
    SAID("a comparison", f, "slower   4.000 ms   5.000 ms  +25.0%  +12.5%  +50.0%     0.25  +50.0% +100.0% B1 S64 H2 D16 causal flash, f32 fwd, 3 thr, kv f16, seed 7\n");
}

/* A saved row has a cell for each heading, where it says nothing too: it is read as it was written. */
static void test_saved_rows(void)
{
    static char text[1 << 14];
    double ms[] = { 2, 3 };
    baseline b = { .path = "x" };
    forget_rows();
    row *r = add_made("memory", "seq-len=64 num-heads=2 head-dim=16 kv-dtype=f16 pass=bwd threads=3", "flash", 2.5, NO_INT);
    r->samples_ms = (list){ ms, 2 };
    FILE *f = tmpfile();
    fputs(MARKED, f), begin_csv(f, &made.b), write_csv_row(f, &made.b, r), write_csv_row(f, &made.b, r), fputs(BASELINE_END, f);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    const char *wrong = parse_baseline(text, &b);
    if (expect(!wrong && b.count == 2, "saved rows: %s", wrong ? wrong : "not two")) {
        const row *got = &b.rows[1];
        expect(is_same_row(got, r) && got->threads == 3 && got->p50_ms == 2.5 && got->samples_ms.n == 2 && got->samples_ms.x[1] == 3 && isnan(got->gflops),
               "a saved row: %s, %s, %g ms", got->name, got->pass, got->p50_ms);
    }
    free_baseline(&b);
    /* a file has the rows of the run and those of the processes after it */
    char path[] = "/tmp/bench_unit.XXXXXX";
    int file = mkstemp(path);
    if (!expect(file >= 0, "no temporary file")) return;
    close(file);
    bench *run = &made.b;
    row repeats[] = { *r, *r };
    r = add_made("memory", "seq-len=65 num-heads=2 head-dim=16", "flash", 3.5, NO_INT);
    repeats[0].p50_ms = 4.5, repeats[1].p50_ms = 5.5;
    run->repeats = repeats, run->repeat_count = 2;
    expect(!save_baseline(run, path) && !load_baseline("baseline", path, &b) && b.count == 4, "%d rows are saved, not 4", (int)b.count);
    for (int i = 0; i < 4 && b.count == 4; i++) expect(b.rows[i].p50_ms == 2.5 + i, "row %d has %g ms", i, b.rows[i].p50_ms);
    run->repeats = NULL, run->repeat_count = 0;
    free_baseline(&b);
    unlink(path);
}

/* Each row in one result file; the points of memory and of traffic. */
static void test_reported(void)
{
    forget_rows();
    for (int n = 64; n <= 128; n += 64)
        for (int flash = 0; flash < 2; flash++) {
            char line[96];
            snprintf(line, sizeof line, "seq-len=%d num-heads=2 head-dim=16", n);
            row *r = add_made("memory", line, flash ? "flash" : "standard", n / 64, flash ? 0 : 32768);
            r->gflops = 5, r->p95_ms = 1.5 * r->p50_ms, r->max_ms = 2 * r->p50_ms, r->min_ms = 0.5 * r->p50_ms;
        }
    expect(near(plot_memory(made.rows), 0.0625) && near(x_bytes(made.rows), 0.03125), "points at %g MiB, %g MiB", plot_memory(made.rows), x_bytes(made.rows));
    FILE *f = tmpfile();
    write_points(f, &made.b);
    SAID("points", f, "time.svg,1,standard: B1 H2 D16 f32 fwd", ",0,0,64,1,0.5,1.5\n", "time.svg,2,flash: B1 H2 D16 f32 fwd", ",0,1,64,1,0.5,1.5\n",
         ",0,1,64,0.03125,0.03125,0.03125\n", ",0,0,64,0.0625,0.0625,0.0625\n", ",0,0,0.03125,5,5,5\n");
    add_made("memory", "measure=memory seq-len=64", "flash", NAN, 0), add_made("memory", "measure=loss seq-len=64", "flash", NAN, 0);
    add_made("memory", "measure=generate seq-len=1 kv-len=64", "flash", 1, 0);
    reports[0].write(f = tmpfile(), &made.b);
    SAID(reports[0].name, f, "\"case\": \"B1 S64", "\"case\": \"generate ", "!\"case\": \"memory ", "!\"case\": \"loss ");
    reports[1].write(f = tmpfile(), &made.b);
    SAID(reports[1].name, f, "\"case\": \"memory ", "!\"case\": \"B1 ", "!\"case\": \"generate ", "!\"case\": \"loss ");
    reports[2].write(f = tmpfile(), &made.b);
    SAID(reports[2].name, f, "\"case\": \"loss ", "!\"case\": \"B1 ", "!\"case\": \"generate ", "!\"case\": \"memory ");
}

/* ------------------------------------------------------------------------------------------ metrics
 * Heads 0 and 1 read a head of keys that are all alike, heads 2 and 3 one whose first key has all of the weight. */
/* Keys of which half the heads see all as one and the other half one alone. */
static void known_keys(problem *p)
{
    float *q = (float *)(uintptr_t)p->d.q.data, *k = (float *)(uintptr_t)p->d.k.data;
    for (int64_t i = 0; i < p->d.q_len * p->d.heads * 8; i++) q[i] = 1;
    for (int64_t i = 0; i < p->d.kv_len * 2 * 8; i++) k[i] = i / 8 % 2 ? i < 16 ? 20 : 0 : 0.25f;
}
static void metrics_of_known(job *j)
{
    known_keys(j->p);
    measure_metrics(j);
}
static void test_metrics(void)
{
    enum { KEYS = 150 };
    bench_case c = { .suite = find_suite("shape") };
    grid g = parse_line(" seq-len=3 kv-len=150 num-heads=4 num-kv-heads=2 head-dim=8");
    char text[128];
    problem p;
    double weight[KEYS];
    for (int a = 0; a < AXES; a++) c.v[a] = g.value[a][0];
    if (!expect(!resolve_case(&c, &g, text) && problem_make(&c, NULL, &p), "no case")) return;
    known_keys(&p);
    expect(!run_pass(&p, FWD), "no call");
    for (int h = 0; h < 4; h++) {
        head_metrics m = { 0, 0 };
        add_row_metrics(&p, 0, h, 1, weight, &m);
        double entropy = h < 2 ? log(KEYS) : 0, sparsity = h < 2 ? 1.0 / KEYS : 149.0 / KEYS;
        expect(fabs(m.entropy - entropy) < 1e-4 && fabs(m.sparsity - sparsity) < 1e-9, "head %d: entropy %g, sparsity %g", h, m.entropy, m.sparsity);
    }
    problem_free(&p);
    if (!made_problem(" batch-size=2 seq-len=3 kv-len=150 num-heads=4 num-kv-heads=2 head-dim=8", &p)) return;
    known_keys(&p);                              /* of the second sequence alone, whose lse is its own */
    memcpy((char *)(uintptr_t)p.d.q.data + 3 * 32 * 4, p.d.q.data, 3 * 32 * 4);
    memcpy((char *)(uintptr_t)p.d.k.data + KEYS * 16 * 4, p.d.k.data, KEYS * 16 * 4);
    expect(!run_pass(&p, FWD), "no call");
    for (int i = 0; i < 12; i++) p.d.lse[i] = 0;
    for (int h = 0; h < 4; h++) {
        head_metrics m = { 0, 0 };
        add_row_metrics(&p, 1, h, 1, weight, &m);
        expect(fabs(m.entropy - (h < 2 ? log(KEYS) : 0)) < 1e-4, "head %d of the second sequence: entropy %g", h, m.entropy);
    }
    problem_free(&p);
    row r = judged(" measure=metrics seq-len=16 num-heads=2 head-dim=8", "flash", true, measure_metrics);
    expect(row_ok(&r) && strstr(r.note, " of 2.77, sparsity 0."), "metrics: %s", r.note);
    r = judged(" measure=metrics seq-len=16 num-heads=2 head-dim=8 mask=blocks", "flash", true, measure_metrics);
    expect(!strcmp(r.status, "declined") && !strstr(r.note, "entropy"), "metrics of a masked call: %s %s", r.status, r.note);
    r = judged(" measure=metrics seq-len=3 kv-len=150 num-heads=10 num-kv-heads=2 head-dim=8", "flash", true, metrics_of_known);
    expect(row_ok(&r) && strstr(r.note, "heads 5.01 5.01 5.01 5.01 5.01 0.00 0.00 0.00 of 5.01, sparsity 0.50"), "metrics of ten heads: %s", r.note);
}

/* A figure stands beside the case that it is of, and beside no other. */
static void test_not_published(void)
{
    static const char *const others[] = { " causal=1", " mask=random", " kv-len=65", " data=random", " batch-size=2", " pass=bwd", " head-dim=32",
                                          " window-left=0 window-right=0", " window-left=9", " v-dim=32", " page-size=16", " append=1",
                                          " dtype=f16", " kv-dtype=int8", " cold=1" };
    forget_rows();
    row *r = add_made("rocmforge", "seq-len=64 head-dim=64 num-heads=1 data=smooth", "flash", 2, 0);
    r->mean_ms = 3;
    find_published(r);
    expect(r->theirs == 0.264199 && r->their_tokens_per_s == 242242 && near(r->ratio, 0.1320995), "theirs is %g ms, over ours %g", r->theirs, r->ratio);
    row *wrong = add_made("rocmforge", "seq-len=64 head-dim=64 num-heads=1 data=smooth", "standard", 2, 0);
    remark(wrong, "wrong", "x");
    find_published(wrong);
    expect(isnan(wrong->theirs) && isnan(wrong->their_tokens_per_s) && isnan(wrong->ratio), "what is wrong has a speedup of %g over %g ms", wrong->ratio, wrong->theirs);
    for (int i = 0; i < COUNT(others); i++) {
        char line[128];
        snprintf(line, sizeof line, "seq-len=64 num-heads=1%s%s%s", strstr(others[i], "head-dim") ? "" : " head-dim=64", strstr(others[i], "data") ? "" : " data=smooth", others[i]);
        r = add_made("rocmforge", line, "flash", 2, 0);
        find_published(r);
        expect(isnan(r->theirs) && isnan(r->ratio), "%s has the published figure %g", line, r->theirs);
    }
}

/* From 16 tokens on the kernel alone is faster than flash, from 64 on the call with its copies. */
static void test_gpu_table(void)
{
    static const struct { const char *line; double flash, kernel, total; } cases[] = {
        { "seq-len=64 num-heads=2 head-dim=16", 8, 1, 4 }, { "seq-len=16 num-heads=2 head-dim=16", 2, 1, 4 }, { "seq-len=8 num-heads=2 head-dim=16", 1, 2, 3 },
    };
    forget_rows();
    *made.b.no_gpu = 0;
    for (int i = 0; i < COUNT(cases); i++) {
        add_made("memory", cases[i].line, "flash", cases[i].flash, 0);
        row *r = add_made("memory", cases[i].line, "hip", cases[i].total, 0);
        r->total_ms = cases[i].total, r->kernel_ms = cases[i].kernel, r->flops = 5e6, r->device_bytes = 2048;
    }
    FILE *f = tmpfile();
    print_gpu(f, &made.b);
    SAID("CPU against GPU", f, "| memory B1 S64 H2 D16 | f32 | fwd | 8 | 1 | 4 | 8 | 2 | 5 | 2.0 KiB |\n", "| memory B1 S16 H2 D16 | f32 | fwd | 2 | 1 | 4 | 2 | 0.5 | 5 |",
         "with the copies of host tensors it pays from S = 64 on, its kernel alone from S = 16 on\n");
}

/* ------------------------------------------------------------------------------------------ data */
static void test_data(void)
{
    enum { SIZE = 16 * 2 * 8 };
    static const char *const lines_[] = { "", " seed=7", " data=tenth", " data=tenfold", " data=peaked", " data=steep", " data=smooth", " mask=random", " mask=random seed=7" };
    static const double gains[][2] = { { 1, 1 }, { 0, 0 }, { 0.1, 0.1 }, { 10, 10 }, { 8, 1 }, { 64, 1 }, { 0, 0 }, { 1, 1 }, { 0, 0 } };
    problem p[COUNT(lines_)];
    for (int i = 0; i < COUNT(lines_); i++) {
        char line[128];
        snprintf(line, sizeof line, " seq-len=16 num-heads=2 head-dim=8 pass=bwd%s", lines_[i]);
        if (!made_problem(line, &p[i])) return;
        const float *x[] = { p[i].d.q.data, p[i].d.k.data, p[i].d.v.data, p[i].g.dout.data }, *plain[] = { p->d.q.data, p->d.k.data, p->d.v.data, p->g.dout.data };
        int other = 0, alike = 0;
        for (int t = 0; t < 4; t++)
            for (int e = 0; e < SIZE; e++) {
                double smooth = 0.1 * (t == 0 ? sin(0.01 * e) : t == 1 ? cos(0.01 * e) : tan(0.01 * e));
                double gain = gains[i][t > 0];
                if (gain && strcmp(lines_[i], " data=smooth")) other += fabs((double)x[t][e] - gain * (double)plain[t][e]) > 1e-6 * gain;
                if (!strcmp(lines_[i], " data=smooth") && t < 3) other += fabs((double)x[t][e] - smooth) > 1e-6 * (1 + fabs(smooth));
                if (strstr(lines_[i], "seed")) alike += x[t][e] == plain[t][e];
                for (int u = 0; u < t && strcmp(lines_[i], " data=smooth"); u++) alike += x[t][e] == x[u][e];
            }
        expect(!other && alike < SIZE / 8, "data of \"%s\": %d elements are others, %d those of another tensor or seed", lines_[i], other, alike);
    }
    const unsigned char *one = p[7].d.mask.data, *two = p[8].d.mask.data;
    int seen = 0, apart = 0;
    for (int e = 0; e < 256; e++) seen += one[e], apart += one[e] != two[e];
    expect(seen > 90 && seen < 170 && apart > 60, "a random mask has %d of 256, with another seed %d others", seen, apart);
    for (int i = 0; i < COUNT(lines_); i++) problem_free(&p[i]);
    if (!made_problem(" seq-len=16 mask=blocks", p)) return;
    one = p->d.mask.data, seen = 0;
    for (int e = 0; e < 256; e++) seen += one[e] == (e % 16 < (e < 12 * 16 ? 12 : e < 14 * 16 ? 14 : 16));
    expect(seen == 256, "the mask of blocks is right in %d of 256 places", seen);
    problem_free(p);
    if (!made_problem(" batch-size=2 seq-len=1 kv-len=64 num-heads=1 head-dim=8 causal=1 page-size=8", p)) return;
    int times[16] = { 0 }, home = 0;
    for (int i = 0; i < 16; i++) times[p->d.seq.block_table[i] & 15]++, home += p->d.seq.block_table[i] == i;
    for (int i = 0; i < 16; i++) expect(times[i] == 1, "page %d is in the table %d times", i, times[i]);
    expect(home < 10, "%d of 16 pages are where they would be without a table", home);
    problem_free(p);
}

/* What is looked at of a call's bits, and for what is not finite: each output. */
static void test_outputs(void)
{
    problem p;
    size_t size, again;
    if (!made_problem(" seq-len=9 num-heads=2 head-dim=8 pass=fwd+bwd", &p)) return;
    expect(!run_pass(&p, FWD_BWD), "no call");
    char *first = snapshot(&p, &size), *at[] = { p.d.o.data, (char *)p.d.lse, p.g.dq.data, p.g.dk.data, p.g.dv.data };
    for (int i = 0; i < OUTPUTS; i++) {
        at[i][5] ^= 1;
        char *other = snapshot(&p, &again);
        expect(again == size && memcmp(first, other, size), "another bit of %s goes unnoticed", output_names[i]);
        at[i][5] ^= 1;
        free(other);
    }
    free(first);
    problem_free(&p);
    fault = NOT_A_NUMBER;
    for (spoiled = 0; spoiled < OUTPUTS; spoiled++) {
        row r = judged(spoiled < SPOIL_DQ ? " measure=finite seq-len=9 num-heads=2 head-dim=8" : " measure=finite seq-len=9 num-heads=2 head-dim=8 pass=fwd+bwd", "erring",
                       false, measure_finite);
        expect(strstr(r.note, "1 elements are NaN or infinite") != NULL, "a NaN in %s: %s", output_names[spoiled], r.note);
    }
    spoiled = SPOIL_O, fault = NOTHING;
    moody = LEAVES_LSE;                          /* in the middle of it */
    row middle = judged(" measure=finite seq-len=20 num-heads=4 head-dim=8", "fickle", false, measure_finite);
    moody = STEADY;
    expect(strstr(middle.note, "1 elements are NaN or infinite") != NULL, "a NaN in lse: %s", middle.note);
    /* rows that see no key have an lse of -infinity */
    row none = judged(" measure=finite seq-len=33 kv-len=20 causal=1 num-heads=2 head-dim=8", "flash", false, measure_finite);
    expect(!*none.note && row_ok(&none), "rows that see nothing: %s", none.note);
    row r = judged(" batch-size=2 seq-len=9 num-heads=2 head-dim=8 iterations=3 warmup=0", "flash", false, measure_time);
    expect(near(r.tokens_per_s, 18e3 / r.p50_ms) && near(r.ops_per_s, 1e3 / r.p50_ms), "tokens of two sequences");
    free(r.samples_ms.x);
}

/* A module beside what was published of its case, or without the memory that it needs. */
static void published_module(job *j)
{
    static bench_case c;
    c = case_of(" measure=module project=1 batch-size=2 seq-len=128 num-heads=8 head-dim=64");
    j->r->c = &c;
    snprintf(j->r->suite, sizeof j->r->suite, "adaattn");
    measure_module(j);
}
static void module_without_memory(job *j)
{
    j->p->failed = true;
    measure_module(j);
}

/* A module's row verifies what its backward reads too: here the backend writes there, once. */
static void test_module_rows(void)
{
    static const char *const passes[] = { "bwd", "fwd+bwd" };
    char blas[192], line[128];
    if (!find_openblas(blas)) {
        skipped++;
        printf("skipped: rows of a module: %s\n", blas);
        return;
    }
    for (int i = 0; i < 4; i++) {
        snprintf(line, sizeof line, " measure=module seq-len=9 num-heads=2 head-dim=8 iterations=1 warmup=0 threads=1 pass=%s", passes[i % 2]);
        moody = i < 2 ? STEADY : SCRIBBLES, runs = 0;
        row r = judged(line, "fickle", true, measure_module);
        bool told = !strcmp(r.status, "wrong") && strstr(r.note, "a product of the module is wrong");
        expect(moody || r.flops == (i % 2 ? 18144 + 3 * 18432 : 12960 + 2 * 18432), "a module's %s has %g FLOPs", passes[i % 2], r.flops);
        expect(moody || (r.p50_ms > 0 && r.samples_ms.n == 1 && r.first_run_ms > 0), "a module's %s is not timed", passes[i % 2]);
        expect(moody ? told : row_ok(&r), "a module's %s, dout %s: %s %s", passes[i % 2], moody ? "changed" : "left alone", r.status, r.note);
        free(r.samples_ms.x);
    }
    moody = STEADY;
    snprintf(line, sizeof line, " measure=module seq-len=9 num-heads=2 head-dim=8 iterations=1 warmup=0 threads=1");
    row r = judged(line, "flash", false, published_module);
    expect(row_ok(&r) && r.theirs == 45.374 && near(r.ratio, 45.374 / r.p50_ms), "a module's published figure: %g ms, over ours %g", r.theirs, r.ratio);
    free(r.samples_ms.x);
    moody = SLOW_ONCE, runs = 0;                 /* the first run is that of all of the module */
    r = judged(line, "fickle", false, measure_module);
    expect(row_ok(&r) && r.first_run_ms >= 20, "a module's first run of 20 ms: %g", r.first_run_ms);
    free(r.samples_ms.x);
    moody = STEADY;
    r = judged(line, "flash", false, module_without_memory);
    expect(!strcmp(r.status, "failed") && !strcmp(r.note, attn_status_text(ATTN_ERR_MEMORY)) && isnan(r.p50_ms), "a module without memory: %s %s", r.status, r.note);
}

/* Of numbers that are not finite an infinity is not the other one; all else is for the rule of the library. */
static void nan_in_query(job *j) { ((float *)(uintptr_t)j->p->d.q.data)[16 * 5] = NAN; first_call(j); }
static void nan_in_value(job *j) { ((float *)(uintptr_t)j->p->d.v.data)[16 * 5] = NAN; first_call(j); }
static void test_infinities(void)
{
    static const double x[] = { INFINITY, -INFINITY, NAN, 1 };
    static const bool same[4][4] = { { 1, 1, 1, 0 }, { 1, 1, 1, 0 }, { 1, 1, 1, 0 }, { 0, 0, 0, 1 } };
    static const double allowed[] = { 1e-6, INFINITY, NAN, 0 };
    for (int i = 0; i < 16; i++) {
        for (int a = 0; a < COUNT(allowed); a++) {      /* the bound of what is not finite is not finite, and the next does not undo it */
            verdict v = { .status = ATTN_OK };
            compare(&v, x[i / 4], x[i % 4], allowed[a]);
            compare(&v, 1, 1 + 1e-7, 1e-6);
            expect((v.max_error < 1) == same[i / 4][i % 4] && (v.worst <= 1) == same[i / 4][i % 4], "%g for %g within %g: error %g, worst %g", x[i / 4],
                   x[i % 4], allowed[a], v.max_error, v.worst);
        }
    }
    /* a NaN in q, in a value: the reference is not finite there, and 0 is wrong in o as in lse */
    for (int nth = 0; nth < 2; nth++)
        for (spoiled = SPOIL_O; spoiled <= SPOIL_LSE; spoiled++)
            for (fault = NOTHING; fault <= FINITE_ALL; fault += FINITE_ALL) {
                row r = judged(" seq-len=9 num-heads=2 head-dim=8 causal=1", "erring", true, nth ? nan_in_value : nan_in_query);
                bool right = !fault || (nth && spoiled == SPOIL_LSE);        /* v is not in lse */
                expect(row_ok(&r) == right, "a NaN in %s, %s %s: %s %s", nth ? "v" : "q", output_names[spoiled], fault ? "made finite" : "kept", r.status, r.note);
            }
    spoiled = SPOIL_O, fault = NOTHING;
}

/* What is no UTF-8 does not reach a document: overlong forms, surrogates, what is cut off, beyond U+10FFFF. */
static void test_utf8(void)
{
    static const struct { const char *text, *want; } cases[] = {
        { "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z", "\"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\"" }, { "x\xff", "\"x\xef\xbf\xbd\"" }, { "\xc3", "\"\xef\xbf\xbd\"" },
        { "\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"" }, { "\xe0\x80\xaf!", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd!\"" },
        { "\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" }, { "\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
        { "\x80", "\"\xef\xbf\xbd\"" }, { "\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\"" }, { "\xed\x9f\xbf\xee\x80\x80", "\"\xed\x9f\xbf\xee\x80\x80\"" },
    };
    for (int i = 0; i < COUNT(cases); i++) {
        char got[64] = "";
        FILE *f = fmemopen(got, sizeof got, "w");
        json_string(f, cases[i].text);
        fclose(f);
        expect(!strcmp(got, cases[i].want), "text %d: %s", i, got);
    }
}

/* Peak and bandwidth are those of the case: its type, its threads, its bytes, or what no cache holds. */
static void test_probes(void)
{
    bench_case c = { .suite = find_suite("shape") };
    bench b = { .selection = QUICK };
    probed.asked_only = 1;
    c.v[DTYPE] = ATTN_BF16, c.v[KV_DTYPE] = ATTN_INT8, c.v[THREADS] = 3;
    const attn__kernels *forced = attn__machine()->isa;
    attn__machine_known.isa = NULL;             /* as where ATTN_ISA names what is not there */
    expect(best_peak(ATTN_F32, 1) == 1 && probed.isa && !attn__machine()->isa, "the best ISA is probed, and then as it was");
    attn__machine_known.isa = forced;
    expect(peak_now(&c) == 1 && probed.dtype == ATTN_F32, "the peak of type %d, of products in f32", (int)probed.dtype);
    c.v[KV_DTYPE] = ATTN_BF16;
    expect(peak_now(&c) == 2 && probed.dtype == ATTN_BF16 && probed.threads == 3, "the peak of type %d on %d threads", (int)probed.dtype, (int)probed.threads);
    bandwidth_of(&c, 1000);
    expect(probed.bytes >= 1000 && probed.bytes < 2000 && probed.threads == 3, "the bandwidth of %zu bytes on %d threads", probed.bytes, (int)probed.threads);
    bandwidth_of(&c, 1e12);
    expect(probed.bytes >= 1 << 30 && probed.bytes < (size_t)1 << 31, "the bandwidth of %zu bytes", probed.bytes);
    c.v[COLD] = 1;
    bandwidth_of(&c, 1000);
    expect(probed.bytes >= (size_t)flush_size(), "cold, the bandwidth of %zu bytes", probed.bytes);
    measure_machine(&b);
    expect(b.fma_peak == 1 && b.dot_peak == 2 && b.bandwidth == 1 && probed.threads == 0, "peaks %g and %g", b.fma_peak, b.dot_peak);
    probed.asked_only = 0;
}

/* A call that fails. */
static attn_status failing_run(void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan)
{
    (void)user, (void)d, (void)g, (void)plan;
    return ATTN_ERR_MEMORY;
}

int main(int argc, char **argv)
{
    static const attn_backend erring = { "erring", ATTN_ABI, erring_plan, erring_run, NULL, NULL, NULL, NULL, NULL };
    static const attn_backend coarse_ = { "coarse", ATTN_ABI, coarse_plan, coarse_run, NULL, NULL, NULL, NULL, NULL };
    attn_register(&coarse_);
    static const attn_backend fickle = { "fickle", ATTN_ABI, erring_plan, fickle_run, NULL, NULL, NULL, NULL, NULL };
    attn_register(&erring);
    static const attn_backend failing = { "failing", ATTN_ABI, erring_plan, failing_run, NULL, NULL, NULL, NULL, NULL };
    attn_register(&fickle);
    attn_register(&failing);
    if (argc > 1) return attn_bench_main(argc, argv);   /* the process of a memory row */
    test_scarce_memory();
    test_saved_runs();
    test_interrupted_rows();
    test_sampled_rows();
    test_sampled();
    test_certificates();
    test_scaled_rows();
    test_weight_units();
    test_gradient_bound(false);
    test_gradient_bound(true);
    test_right();
    test_right_sampled();
    test_contradictions();
    test_named();
    test_resolved();
    test_filter();
    test_many_cases();
    test_window_flag();
    test_empty_rows();
    test_products();
    test_module(" seq-len=9 num-heads=4 num-kv-heads=2 head-dim=8 causal=1", false);
    test_module(" seq-len=9 num-heads=4 num-kv-heads=2 head-dim=8 causal=1 dtype=f16", false);
    test_module(" batch-size=2 seq-len=70 num-heads=4 num-kv-heads=2 head-dim=8 causal=1", false);       /* more rows than a task has */
    test_module(" seq-len=1 kv-len=20 num-heads=4 num-kv-heads=2 head-dim=8 causal=1 append=1", true);
    test_module(" batch-size=2 seq-len=1 kv-len=20 num-heads=4 num-kv-heads=2 head-dim=8 causal=1 append=1 dtype=f16", true);
    test_openblas_core();
    test_published();
    test_parameters();
    test_rank_test();
    test_infinities();
    test_utf8();
    test_draws();
    test_unclear();
    test_median_interval();
    test_summary();
    test_outliers();
    test_bound();
    test_roofline();
    test_fits();
    test_forced_isa();
    test_locale();
    test_sampling();
    test_warm_up();
    test_brief_warm_up();
    test_estimate();
    test_total();
    test_rates();
    test_gpu_rows();
    test_properties();
    test_first_call();
    test_units();
    test_generation();
    test_memory();
    test_memory_rows();
    test_programs();
    test_files();
    test_comparison_parts();
    test_machines();
    test_compared_rows();
    test_judged_runs();
    test_many_calls();
    test_progress();
    test_confirmed();
    test_counts();
    test_held();
    test_series();
    test_derived();
    test_scaling();
    test_crossover();
    test_openpi();
    test_adaattn();
    test_guide();
    test_advice();
    test_overhead();
    test_module_bytes();
    test_written();
    test_saved_rows();
    test_reported();
    test_metrics();
    test_not_published();
    test_gpu_table();
    test_data();
    test_outputs();
    test_module_rows();
    test_probes();
    /* those that take longest */
    test_no_prefill();
    test_cold();
    test_processes();
    test_fewer_processes();
    test_exact_sum();
    test_tiny();
    test_verification();
    test_bootstrap();
    test_scales();
    test_trespasses();
    test_modes();
    attn_shutdown();
    printf("%d passed, %d failed, %d skipped\n", passed, bad, skipped);
    return bad > 0;
}
