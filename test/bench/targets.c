/* targets.c - the speeds that the CPU backend sets itself, each measured beside what it is compared with; `make targets`.
 *
 * usage: targets [--part NAME]      NAME: forward, backward, types, layouts, masks, decode, short, threads, fixed, convert, compile
 *
 * A share of the peak: this thread's processor time of a call against that of a loop of independent FMAs run just before and just after
 * it, the faster of the two. A ratio of two calls: both in turn. Always the median over the pairs of 0.3 s or more, and of the medians
 * of five rounds through the table. With several threads the clock of the wall counts. Batch 1, 8 heads, [B,S,H,D], workspace given,
 * no lse, unless the line says otherwise. */
#define _GNU_SOURCE
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include "../common/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { FLOATS = 1 << 23 };              /* of each tensor, the largest of any line */
static float *tensor[9];                /* q, k, v, o, dout, dq, dk, dv, bias */
static unsigned char *mask;
static float lse[1 << 17], slopes[64], sinks[64];
static int32_t cu[9];
static const char *part;

/* ---- a call ---- */
typedef struct call {
    attn_desc d;
    attn_grad g;
    int backward;
    double flops;                       /* of the pairs that are visible */
} call;

static void *get(size_t bytes)
{
    void *p;
    if (posix_memalign(&p, 4096, bytes)) {
        fprintf(stderr, "out of memory\n");
        exit(2);
    }
    return p;
}
static void check(attn_status s)
{
    if (s) {
        fprintf(stderr, "%s\n", attn_status_text(s));
        exit(2);
    }
}
static call make(int64_t q_len, int64_t kv_len, int64_t dim, uint32_t flags)
{
    call c;
    memset(&c, 0, sizeof c);
    c.d.batch = 1;
    c.d.heads = 8;
    c.d.q_len = q_len;
    c.d.kv_len = kv_len;
    c.d.head_dim = dim;
    c.d.flags = flags;
    c.d.threads = 1;
    c.d.backend = "flash";
    c.d.q.data = tensor[0];
    c.d.k.data = tensor[1];
    c.d.v.data = tensor[2];
    c.d.o.data = tensor[3];
    c.g.dout.data = tensor[4];
    c.g.dq.data = tensor[5];
    c.g.dk.data = tensor[6];
    c.g.dv.data = tensor[7];
    return c;
}
static call square(int64_t len, int64_t dim, int causal)
{
    return make(len, len, dim, causal ? ATTN_CAUSAL : 0);
}
/* 16-bit copies of the random numbers, once a type */
static void narrow(call *c, int32_t dtype)
{
    static uint16_t *copy[3][3];
    attn_in *in[] = { &c->d.q, &c->d.k, &c->d.v };
    attn_out *out[] = { &c->d.o, &c->g.dq, &c->g.dk, &c->g.dv };
    for (int n = 0; n < 3; n++) {
        if (!copy[dtype][n]) {
            copy[dtype][n] = get(FLOATS * 2);
            for (int64_t i = 0; i < FLOATS; i++)
                copy[dtype][n][i] = dtype == ATTN_F16 ? attn__f32_to_f16(tensor[n][i]) : attn__f32_to_bf16(tensor[n][i]);
        }
        in[n]->data = copy[dtype][n];
        in[n]->dtype = dtype;
    }
    for (int n = 0; n < 4; n++) out[n]->dtype = dtype;
    c->g.dout.data = copy[dtype][0];
    c->g.dout.dtype = dtype;
}
/* Counts the visible pairs, makes the workspace, and for a backward call the lse. */
static void ready(call *c)
{
    attn_plan plan;
    attn_desc *d = &c->d;
    double pairs = 0;
    for (int64_t b = 0; b < d->batch; b++) {
        int64_t q = d->seq.cu_q ? d->seq.cu_q[b + 1] - d->seq.cu_q[b] : d->q_len, k = d->seq.cu_q ? q : d->kv_len;
        for (int64_t i = 0; i < q; i++) {
            int64_t hi = d->flags & ATTN_CAUSAL ? i + k - q + 1 : k,
                    lo = d->flags & ATTN_WINDOW_LEFT ? i + k - q - d->window_left : 0;
            if (d->flags & ATTN_WINDOW_RIGHT && i + k - q + d->window_right + 1 < hi) hi = i + k - q + d->window_right + 1;
            if (hi > (lo > 0 ? lo : 0)) pairs += (double)(hi - (lo > 0 ? lo : 0));
        }
    }
    c->flops = 2.0 * pairs * (double)d->heads * (double)(d->head_dim + (d->v_dim ? d->v_dim : d->head_dim)) * (c->backward ? 2.5 : 1);
    if (c->backward) {
        d->lse = lse;
        check(attn_forward(d));
    }
    check(attn_query(d, c->backward ? &c->g : NULL, &plan));
    d->workspace = get(plan.workspace_size + 64);
    d->workspace_size = plan.workspace_size;
}
static void done(call *c) { free(c->d.workspace); }
static void run(const call *c) { check(c->backward ? attn_backward(&c->d, &c->g) : attn_forward(&c->d)); }

/* ---- clocks ---- */
static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static int up(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
typedef struct samples { double x[2048], spent; int n; } samples;
static int enough(const samples *s) { return s->n == 2048 || (s->spent > 0.3 && s->n >= 9); }
static double median(samples *s)
{
    qsort(s->x, (size_t)s->n, sizeof *s->x, up);
    return s->x[s->n / 2];
}
/* The FMA peak of this thread now, FLOP/s. */
static double peak(double share)
{
    const attn__kernels *isa = attn__machine()->isa;
    int64_t n = share < 2e-3 ? 1 << 12 : 1 << 15;
    double t = seconds(CLOCK_THREAD_CPUTIME_ID);
    isa->fma_chain(n);
    return 2.0 * (double)(isa->MR * isa->NV * isa->W) * (double)n / (seconds(CLOCK_THREAD_CPUTIME_ID) - t);
}
static double timed(const call *c, int64_t times, clockid_t clock)
{
    double t = seconds(clock);
    for (int64_t i = 0; i < times; i++) run(c);
    return (seconds(clock) - t) / (double)times;
}
/* Calls for 0.3 ms at least. */
static int64_t batch(const call *c)
{
    run(c);
    double t = timed(c, 1, CLOCK_MONOTONIC);
    return t < 2e-4 ? (int64_t)(3e-4 / t) + 1 : 1;
}
static double of_peak(call c)
{
    static samples s;
    ready(&c);
    int64_t times = batch(&c);
    double one = timed(&c, 1, CLOCK_THREAD_CPUTIME_ID);
    for (s.n = 0, s.spent = 0; !enough(&s);) {
        double before = peak(one), t = timed(&c, times, CLOCK_THREAD_CPUTIME_ID), after = peak(one);
        s.x[s.n++] = c.flops / t / (before > after ? before : after);
        s.spent += t * (double)times;
    }
    done(&c);
    return median(&s);
}
/* Speed of a over speed of b, per FLOP. */
static double against(call a, call b, clockid_t clock)
{
    static samples s;
    ready(&a);
    ready(&b);
    int64_t na = batch(&a), nb = batch(&b);
    for (s.n = 0, s.spent = 0; !enough(&s);) {
        double t0 = timed(&b, nb, clock), t = timed(&a, na, clock), t1 = timed(&b, nb, clock);
        s.x[s.n++] = a.flops / t / (b.flops / (0.5 * (t0 + t1)));
        s.spent += t * (double)na;
    }
    done(&a);
    done(&b);
    return median(&s);
}

/* ---- the table: its lines are measured ROUNDS times, one round after the other, and the median counts ---- */
enum { ROUNDS = 5, LINES = 192 };
typedef struct row {
    char what[120];
    const char *part, *unit;
    double measured[ROUNDS], target[ROUNDS];
    int at_least;
} row;
static row table[LINES];
static const char *section;
static int rounds = 1, round_now, lines;

static int wanted(const char *name)
{
    section = name;
    return !part || strcmp(part, name) == 0;
}
/* at_least: or at most */
static void line(const char *what, double measured, double target, int at_least, const char *unit)
{
    row *t = &table[lines++];
    snprintf(t->what, sizeof t->what, "%s", what);
    t->part = section;
    t->unit = unit;
    t->at_least = at_least;
    t->measured[round_now] = measured;
    t->target[round_now] = target;
}
static void print_table(void)
{
    int missed = 0;
    for (int n = 0; n < lines; n++) {
        row *t = &table[n];
        if (n == 0 || strcmp(t->part, t[-1].part)) printf("| **%s** | | | |\n", t->part);
        qsort(t->measured, (size_t)rounds, sizeof *t->measured, up);
        qsort(t->target, (size_t)rounds, sizeof *t->target, up);
        double measured = t->measured[rounds / 2], target = t->target[rounds / 2];
        int met = t->at_least ? measured >= target - 0.0005 : measured <= target;
        printf(t->unit[0] ? "| %s | %.4g%s | %.4g%s | %s |\n" : "| %s | %.3f%s | %.2f%s | %s |\n", t->what, measured, t->unit, target,
            t->unit, met ? "met" : "**not met**");
        missed += !met;
    }
    fprintf(stderr, "%d lines, %d not met\n", lines, missed);
}
static const char *text(const char *format, int64_t a, int64_t b)
{
    static char out[200];
    snprintf(out, sizeof out, format, (int)a, (int)b);
    return out;
}

static void heads_first(call *c)
{
    c->d.q.layout = c->d.k.layout = c->d.v.layout = c->d.o.layout = ATTN_BHSD;
    c->g.dout.layout = c->g.dq.layout = c->g.dk.layout = c->g.dv.layout = ATTN_BHSD;
}

static void forward(int avx2)
{
    static const struct { int64_t len, dim, v_dim; int causal; double target; } rows[] = {
        { 1024, 64, 0, 0, 0.86 }, { 1024, 128, 0, 0, 0.89 }, { 2048, 64, 0, 1, 0.82 }, { 2048, 128, 0, 1, 0.85 },
        { 1024, 256, 0, 0, 0.88 }, { 1024, 192, 0, 0, 0.88 }, { 1024, 32, 0, 0, 0.75 }, { 1024, 72, 0, 0, 0.80 },
        { 1024, 80, 0, 0, 0.80 }, { 1024, 96, 0, 0, 0.80 }, { 1024, 112, 0, 0, 0.80 }, { 1024, 96, 64, 0, 0.80 },
        { 1024, 64, 128, 0, 0.80 }, { 1024, 33, 0, 0, 0.55 }, { 128, 64, 0, 0, 0.80 }, { 256, 64, 0, 0, 0.82 },
        { 512, 64, 0, 0, 0.84 }, { 128, 64, 0, 1, 0.62 },
    };
    if (avx2 && wanted("AVX2")) {
        line("of its own peak: S 1024, D 64", of_peak(square(1024, 64, 0)), 0.78, 1, "");
        line("the same, D 128", of_peak(square(1024, 128, 0)), 0.82, 1, "");
        return;
    }
    for (size_t n = 0; n < 2 * (sizeof rows / sizeof *rows) && wanted("forward"); n++) {
        char what[100];
        const int bhsd = n & 1, v_dim = (int)rows[n / 2].v_dim;
        call c = square(rows[n / 2].len, rows[n / 2].dim, rows[n / 2].causal);
        c.d.v_dim = v_dim;
        if (bhsd) heads_first(&c);
        snprintf(what, sizeof what, "S %d, D %d%s%s%s", (int)rows[n / 2].len, (int)rows[n / 2].dim,
            !v_dim ? "" : v_dim == 64 ? ", v_dim 64" : ", v_dim 128", rows[n / 2].causal ? ", causal" : "", bhsd ? ", [B,H,S,D]" : "");
        line(what, of_peak(c), rows[n / 2].target, 1, "");
    }
}

static void backward(void)
{
    static const struct { int64_t len, dim; int causal; double target; } rows[] = {
        { 1024, 64, 0, 0.86 }, { 1024, 128, 0, 0.88 }, { 2048, 64, 1, 0.77 }, { 2048, 128, 1, 0.80 },
    };
    for (size_t n = 0; n < 2 * (sizeof rows / sizeof *rows) && wanted("backward"); n++) {
        static const char *const what[] = { "S %d, D %d", "S %d, D %d, [B,H,S,D]", "S %d, D %d, causal", "S %d, D %d, causal, [B,H,S,D]" };
        call c = square(rows[n / 2].len, rows[n / 2].dim, rows[n / 2].causal);
        c.backward = 1;
        if (n & 1) heads_first(&c);
        line(text(what[rows[n / 2].causal * 2 + (n & 1)], rows[n / 2].len, rows[n / 2].dim), of_peak(c), rows[n / 2].target, 1, "");
    }
}

/* 16-bit types: the share of the peak that f32 has, less 0.03 */
static void types(void)
{
    for (int n = 0; n < 8 && wanted("types"); n++) {
        int64_t dim = n & 1 ? 128 : 64;
        int32_t dtype = n & 2 ? ATTN_F16 : ATTN_BF16;
        call wide = square(1024, dim, 0), small = wide;
        wide.backward = small.backward = n >= 4;
        narrow(&small, dtype);
        double f32 = of_peak(wide), now = of_peak(small);
        char what[100];
        snprintf(what, sizeof what, "%s%s, D %d", dtype == ATTN_F16 ? "f16" : "bf16", n >= 4 ? " backward" : "", (int)dim);
        line(what, now, f32 - 0.03, 1, "");
    }
}

/* Caches of codes: |x| <= 1/2 in int8 or e4m3, one scale for each token and head; or ggml's blocks. */
static void quantise(call *c, int32_t dtype)
{
    static uint8_t codes[2][FLOATS / 32 * 34];
    static float scales[1 << 16];
    const int int8 = dtype == ATTN_INT8;
    attn_in *in[] = { &c->d.k, &c->d.v };
    for (int64_t i = 0; i < 1 << 16; i++) scales[i] = 1.0f / (int8 ? 254 : 448);
    for (int n = 0; n < 2; n++) {
        if (attn__is_blocks(dtype)) {
            const int64_t shape[4] = { 1, 1, 1, FLOATS };
            const attn_in from = { .data = tensor[n + 1] };
            const attn_out to = { .data = codes[n], .dtype = dtype };
            attn_convert(shape, from, to, NULL);
            in[n]->data = codes[n], in[n]->dtype = dtype;
            continue;
        }
        for (int64_t i = 0; i < FLOATS; i++)
            codes[n][i] = int8 ? (uint8_t)(int8_t)(tensor[n + 1][i] * 254) : attn__f32_to_fp8(tensor[n + 1][i] * 448);
        in[n]->data = codes[n], in[n]->dtype = dtype, in[n]->scale = scales;
    }
}
/* f32 queries over a smaller cache, as models are run: no slower than over a cache in f32 */
static void caches(void)
{
    static const struct { const char *name; int32_t dtype; } rows[] = { { "f16", ATTN_F16 }, { "bf16", ATTN_BF16 },
        { "int8", ATTN_INT8 }, { "fp8", ATTN_FP8_E4M3 } };
    for (int n = 0; n < 8 && wanted("types"); n++) {
        const int decode = n / 4;
        call wide = decode ? make(1, 8192, 128, 0) : square(512, 64, 0), small, all;
        if (decode) wide.d.heads = 32, wide.d.kv_heads = 8;
        small = all = wide;
        if (rows[n % 4].dtype <= ATTN_BF16) {
            narrow(&all, rows[n % 4].dtype);
            small.d.k = all.d.k, small.d.v = all.d.v;
        } else quantise(&small, rows[n % 4].dtype);
        char what[100];
        snprintf(what, sizeof what, "f32 queries, %s cache over f32 cache, %s", rows[n % 4].name,
            decode ? "1 x 8192, 32 heads on 8, D 128" : "512 x 512, D 64");
        line(what, against(small, wide, CLOCK_THREAD_CPUTIME_ID), decode ? 1 : 0.95, 1, "");
    }
}

static void layouts(void)
{
    for (int n = 0; n < 8 && wanted("layouts"); n++) {
        int64_t len = 1024, dim = n & 1 ? 128 : 64;
        call a = square(len, dim, 0), b = a;
        a.backward = b.backward = n >= 4;
        heads_first(&b);
        if (n & 2) {                                                        /* [tokens][3][heads][dim] */
            attn_in *in[] = { &a.d.q, &a.d.k, &a.d.v };
            for (int t = 0; t < 3; t++) {
                in[t]->data = tensor[0] + t * 8 * dim;
                in[t]->stride[0] = len * 24 * dim;
                in[t]->stride[1] = 24 * dim;
                in[t]->stride[2] = dim;
            }
        }
        char what[100];
        snprintf(what, sizeof what, "%s over [B,H,S,D], D %d%s", n & 2 ? "packed q, k, v" : "[B,S,H,D]", (int)dim, n >= 4 ? ", backward" : "");
        line(what, against(a, b, CLOCK_THREAD_CPUTIME_ID), 0.98, 1, "");
    }
}

static void masks(void)
{
    static const char *const names[] = { "boolean mask", "bias", "ALiBi", "softcap", "dropout", "sink", "window 256 left",
        "window 128 left, 128 right", "packed: 8 sequences of 128", "q times 16", "q times 64" };
    for (int n = 0; n < 11 && wanted("masks"); n++) {
        call plain = square(1024, 64, 0), c = plain;
        float *large = NULL;
        if (n == 0) c.d.mask.data = mask, c.d.mask.dtype = ATTN_BOOL;
        if (n == 1) c.d.bias.data = tensor[8];
        if (n == 0 || n == 1) {
            attn_in *t = n ? &c.d.bias : &c.d.mask;
            t->stride[0] = t->stride[1] = ATTN_BROADCAST;
            t->stride[2] = 1024;
        }
        if (n == 2) c.d.alibi = slopes;
        if (n == 3) c.d.softcap = 30;
        if (n == 4) c.d.dropout = 0.1f, c.d.seed = 3;
        if (n == 5) c.d.sink = sinks;
        if (n == 6) c.d.flags = ATTN_WINDOW_LEFT | ATTN_CAUSAL, c.d.window_left = 256;
        if (n == 7) c.d.flags = ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, c.d.window_left = c.d.window_right = 128;
        if (n == 8) {
            plain = square(128, 64, 0);
            plain.d.batch = 8;
            for (int b = 0; b <= 8; b++) cu[b] = 128 * b;
            c.d.batch = 8;
            c.d.q_len = c.d.kv_len = 128;
            c.d.seq.cu_q = c.d.seq.cu_k = cu;
            c.d.seq.total_q = c.d.seq.total_k = 1024;
        }
        if (n >= 9) {
            large = get(FLOATS * 4);
            for (int64_t i = 0; i < FLOATS; i++) large[i] = tensor[0][i] * (n == 9 ? 16 : 64);
            c.d.q.data = large;
        }
        line(names[n], against(c, plain, CLOCK_THREAD_CPUTIME_ID), n >= 9 ? 0.95 : 0.8, 1, "");
        free(large);
    }
}

/* ---- few rows, short sequences ---- */
/* A cache of `count` elements that are random enough: copies of one block, of no page that is another's. */
static void *repeated(const void *block, size_t bytes, size_t block_bytes)
{
    char *p = get(bytes);
    for (size_t n = 0; n < bytes; n += block_bytes) memcpy(p + n, block, bytes - n < block_bytes ? bytes - n : block_bytes);
    return p;
}
static volatile float kept;
/* Time to read the same bytes over that of the call. */
static double of_bandwidth(call c, size_t bytes)
{
    static samples s;
    const attn__kernels *isa = attn__machine()->isa;
    ready(&c);
    int64_t times = batch(&c);
    for (s.n = 0, s.spent = 0; !enough(&s);) {
        double read = 0, took;
        for (int n = 0; n < 2; n++) {                                       /* before the call and after it */
            double t = seconds(CLOCK_THREAD_CPUTIME_ID);
            for (int64_t i = 0; i < times; i++) kept = isa->read(c.d.k.data, (int64_t)(bytes / 4)) + isa->read(c.d.v.data, (int64_t)(bytes / 4));
            read += 0.5 * (seconds(CLOCK_THREAD_CPUTIME_ID) - t);
            if (!n) took = timed(&c, times, CLOCK_THREAD_CPUTIME_ID) * (double)times;
        }
        s.x[s.n++] = read / took;
        s.spent += took;
    }
    done(&c);
    return median(&s);
}
static void decode(void)
{
    static const struct { const char *name; int32_t dtype; double target; } types_of[] = { { "f32", ATTN_F32, 0.93 },
        { "bf16", ATTN_BF16, 0.88 }, { "f16", ATTN_F16, 0.88 }, { "int8", ATTN_INT8, 0.75 }, { "fp8", ATTN_FP8_E4M3, 0.75 },
        { "q8_0", ATTN_Q8_0, 0.65 }, { "q4_0", ATTN_Q4_0, 0.65 } };
    static const struct { int64_t batch, kv; int bhsd; } sizes[] = { { 1, 8192, 0 }, { 8, 8192, 0 }, { 1, 65536, 0 }, { 8, 65536, 0 }, { 1, 65536, 1 } };
    static float *scales;
    for (int n = 0; n < 35 && wanted("decode"); n++) {
        const int64_t batch = sizes[n / 7].batch, kv = sizes[n / 7].kv, count = batch * kv * 8 * 128;
        const int32_t dtype = types_of[n % 7].dtype;
        const size_t size = (size_t)attn__bytes(dtype, count), piece = (size_t)attn__bytes(dtype, FLOATS);
        char what[100];
        call c = make(1, kv, 128, 0);
        c.d.batch = batch, c.d.heads = 32, c.d.kv_heads = 8;
        if (sizes[n / 7].bhsd) heads_first(&c);
        if (dtype == ATTN_F16 || dtype == ATTN_BF16) narrow(&c, dtype);
        else if (dtype != ATTN_F32) quantise(&c, dtype);
        if (c.d.k.scale) {
            if (!scales) {
                scales = get((size_t)(8 * 65536 * 8) * 4);
                for (int64_t i = 0; i < 8 * 65536 * 8; i++) scales[i] = 1.0f / 254;
            }
            c.d.k.scale = c.d.v.scale = scales;
        }
        void *k = repeated(c.d.k.data, size, piece), *v = repeated(c.d.v.data, size, piece);
        c.d.k.data = k, c.d.v.data = v;
        snprintf(what, sizeof what, "32 heads on 8, D 128, batch %d, %d keys, %s%s, of the bandwidth", (int)batch, (int)kv, types_of[n % 7].name,
            sizes[n / 7].bhsd ? ", [B,H,S,D]" : "");
        line(what, of_bandwidth(c, size), types_of[n % 7].target, 1, "");
        free(k), free(v);
    }
    for (int n = 0; n < 2 && wanted("decode"); n++) {                       /* every page elsewhere */
        const int32_t page = n ? 1 : 16, pages = 8192 / page;
        call plain = make(1, 8192, 128, 0), c;
        plain.d.heads = 32, plain.d.kv_heads = 8;
        int32_t *tables = get((size_t)pages * 4), used = 8192;
        for (int64_t i = 0; i < pages; i++) tables[i] = (int32_t)((i * 2654435761u) % (uint32_t)pages);
        c = plain;
        c.d.seq.block_table = tables, c.d.seq.page_size = page, c.d.seq.max_pages = c.d.seq.pages = pages, c.d.seq.used_k = &used;
        line(text("pages of %d over contiguous, 8192 keys", page, 0), against(c, plain, CLOCK_THREAD_CPUTIME_ID), n ? 0.85 : 0.98, 1, "");
        free(tables);
    }
    if (!wanted("decode")) return;
    call whisper = make(1, 1500, 64, 0);
    whisper.d.heads = 20;
    line("20 heads, D 64, 1500 keys, of the bandwidth", of_bandwidth(whisper, (size_t)1500 * 20 * 64 * 4), 0.85, 1, "");
    for (int rows = 4; rows <= 8; rows += 4) {
        call one = make(1, 8192, 128, 0), several;
        one.d.heads = 32, one.d.kv_heads = 8;
        several = one;
        several.d.q_len = rows;
        line(text("%d queries against 8192 keys, times one", rows, 0), rows / against(several, one, CLOCK_THREAD_CPUTIME_ID), rows / 8.0 + 1, 0, " x");
    }
}
static void short_rows(void)
{
    static const struct { const char *what; int64_t batch, heads, q, k, dim; int bias; double target; } rows[] = {
        { "S 16, D 64, 12 heads, batch 8", 8, 12, 16, 16, 64, 0, 0.50 }, { "S 32", 8, 12, 32, 32, 64, 0, 0.62 },
        { "S 64", 8, 12, 64, 64, 64, 0, 0.70 }, { "S 128", 8, 12, 128, 128, 64, 0, 0.78 }, { "S 197", 8, 12, 197, 197, 64, 0, 0.80 },
        { "4096 queries, 77 keys, D 64, 8 heads", 1, 8, 4096, 77, 64, 0, 0.78 }, { "the same, D 40", 1, 8, 4096, 77, 40, 0, 0.68 },
        { "64 windows of 49, D 32, 4 heads", 64, 4, 49, 49, 32, 0, 0.50 }, { "the same with a bias of a head", 64, 4, 49, 49, 32, 1, 0.45 },
    };
    for (size_t n = 0; n < 2 * (sizeof rows / sizeof *rows) && wanted("short"); n++) {
        char what[100];
        call c = make(rows[n / 2].q, rows[n / 2].k, rows[n / 2].dim, 0), other;
        c.d.batch = rows[n / 2].batch, c.d.heads = rows[n / 2].heads;
        if (rows[n / 2].bias) {
            c.d.bias.data = tensor[8];
            c.d.bias.stride[0] = ATTN_BROADCAST, c.d.bias.stride[1] = 49 * 49, c.d.bias.stride[2] = 49;
        }
        other = c;
        heads_first(&other);
        snprintf(what, sizeof what, "%s%s", rows[n / 2].what, n & 1 ? ", [B,S,H,D] over [B,H,S,D]" : ", [B,H,S,D]");
        line(what, n & 1 ? against(c, other, CLOCK_THREAD_CPUTIME_ID) : of_peak(other), n & 1 ? 0.95 : rows[n / 2].target, 1, "");
    }
    for (int n = 0; n < 4 && wanted("short"); n++) {                        /* the unit that multiplies bf16, where there is one */
        static const double target[] = { 0.75, 0.82, 0.75, 0.75 };
        char what[100];
        call c = square(1024, n & 1 ? 128 : 64, 0);
        c.backward = n >= 2;
        narrow(&c, ATTN_BF16);
        snprintf(what, sizeof what, "bf16%s, S 1024, D %d, of the peak of bf16", n >= 2 ? " backward" : "", n & 1 ? 128 : 64);
        line(what, of_peak(c) * attn_peak_gflops(ATTN_F32, 1) / attn_peak_gflops(ATTN_BF16, 1), target[n], 1, "");
    }
    if (!wanted("short")) return;
    call gqa = square(1024, 128, 1), wide = square(1024, 256, 0);
    gqa.d.heads = 32, gqa.d.kv_heads = 8;
    gqa.backward = wide.backward = 1;
    line("backward, 32 heads on 8, S 1024, D 128, causal", of_peak(gqa), 0.80, 1, "");
    line("backward, S 1024, D 256", of_peak(wide), 0.82, 1, "");
    for (int n = 0; n < 2 && attn_threads() >= 2; n++) {
        call one = square(n ? 1024 : 256, 64, 0), two;
        one.d.heads = 1;
        two = one;
        two.d.threads = 2;
        line(text("two threads over one, one head, S %d, D 64", n ? 1024 : 256, 0), against(two, one, CLOCK_MONOTONIC), n ? 1.85 : 1.5, 1, "");
    }
}

/* Speed of two threads over that of one, divided by what two threads do to the peak. */
static void threads(void)
{
    static const struct { const char *what; int64_t heads, q, k; int causal; } rows[] = {
        { "8 heads, S 1024", 8, 1024, 1024, 0 }, { "8 heads, S 1024, causal", 8, 1024, 1024, 1 },
        { "one head, S 2048", 1, 2048, 2048, 0 }, { "one head, S 2048, causal", 1, 2048, 2048, 1 },
        { "one head, 16 queries, 65536 keys", 1, 16, 65536, 0 },
    };
    if (attn_threads() < 2) {
        if (wanted("threads") && !round_now) fprintf(stderr, "skipped: threads, there is one processor\n");
        return;
    }
    for (int n = 0; n < 10 && wanted("threads"); n++) {
        call one = make(rows[n % 5].q, rows[n % 5].k, 64, rows[n % 5].causal ? ATTN_CAUSAL : 0), two;
        if (n >= 5 && rows[n % 5].k > 2048) continue;
        one.d.heads = rows[n % 5].heads;
        one.backward = n >= 5;
        two = one;
        two.d.threads = 2;
        double peaks = attn_peak_gflops(ATTN_F32, 2) / attn_peak_gflops(ATTN_F32, 1);
        char what[100];
        snprintf(what, sizeof what, "%s%s", rows[n % 5].what, n >= 5 ? ", backward" : "");
        line(what, against(two, one, CLOCK_MONOTONIC) / peaks, 0.95, 1, "");
    }
}

/* attn_query of prompts appended to pages of one token, and of one token each appended to slots. */
static double checking(int64_t batch, int32_t len, int slots)
{
    static samples s;
    call c = make(len, len, 64, 0);
    attn_plan plan;
    int32_t *places = get((size_t)(batch * len) * 4), *used = get((size_t)batch * 4);
    for (int64_t n = 0; n < batch * len; n++) places[n] = (int32_t)(batch * len - 1 - n);
    memset(used, 0, (size_t)batch * 4);
    c.d.batch = batch;
    c.d.seq.used_k = used;
    c.d.append.k = c.d.q;
    c.d.append.v = c.d.q;
    c.d.append.k_cache = tensor[1];
    c.d.append.v_cache = tensor[2];
    c.d.append.len = len;
    if (slots) c.d.seq.slot = places, c.d.seq.slots = batch;
    else c.d.seq.block_table = places, c.d.seq.page_size = 1, c.d.seq.max_pages = len, c.d.seq.pages = batch * len;
    for (s.n = 0; s.n < 101;) {
        double t = seconds(CLOCK_THREAD_CPUTIME_ID);
        check(attn_query(&c.d, NULL, &plan));
        s.x[s.n++] = (seconds(CLOCK_THREAD_CPUTIME_ID) - t) * 1e6;
    }
    free(places);
    free(used);
    return median(&s);
}

static void fixed(void)
{
    static const struct { const char *what; int64_t heads, kv_heads, q, k, dim; int threads; } rows[] = {
        { "workspace, 8 heads, S 512, D 64", 8, 8, 512, 512, 64, 1 },
        { "workspace, 8 heads, S 32768, D 256", 8, 8, 32768, 32768, 256, 1 },
        { "workspace, 32 heads on 8, S 32768, D 128, two threads", 32, 8, 32768, 32768, 128, 2 },
        { "workspace, 8 heads on 1, S 32768, D 160, two threads", 8, 1, 32768, 32768, 160, 2 },
        { "workspace, one head, 16 queries, 65536 keys, D 256, two threads", 1, 1, 16, 65536, 256, 2 },
    };
    if (!wanted("fixed")) return;
    static samples s;
    call c = square(1, 64, 0);
    c.d.heads = 1;
    ready(&c);
    for (s.n = 0; s.n < 301;) {
        double t = timed(&c, 2000, CLOCK_THREAD_CPUTIME_ID);
        s.x[s.n++] = t * 1e9;
    }
    line("a call: one head, one query, one key, D 64", median(&s), 250, 0, " ns");
    done(&c);
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        attn_plan plan;
        c = make(rows[n].q, rows[n].k, rows[n].dim, 0);
        c.d.heads = rows[n].heads;
        c.d.kv_heads = rows[n].kv_heads;
        c.d.threads = rows[n].threads;
        check(attn_query(&c.d, NULL, &plan));
        line(rows[n].what, (double)plan.workspace_size / plan.threads / (1 << 20), 2, 0, " MiB a thread");
    }
    line("query: 8 prompts of 8192 tokens appended to pages of one", checking(8, 8192, 0), 1000, 0, " us");
    line("query: a token appended to each of 4096 slots", checking(4096, 1, 1), 100, 0, " us");
}

/* Bytes read and written a second, of memcpy's between buffers of the same size as the f32 side. */
static void convert(void)
{
    static const char *const names[] = { "f32", "f16", "bf16" };
    static const struct { int32_t from, to; int transpose; int64_t dim; } rows[] = {
        { ATTN_F32, ATTN_F32, 1, 64 }, { ATTN_F32, ATTN_F32, 1, 128 }, { ATTN_F32, ATTN_BF16, 0, 64 }, { ATTN_BF16, ATTN_F32, 0, 64 },
        { ATTN_F32, ATTN_F16, 0, 64 }, { ATTN_F16, ATTN_F32, 0, 64 }, { ATTN_F32, ATTN_BF16, 1, 64 }, { ATTN_F32, ATTN_BF16, 1, 128 },
        { ATTN_F16, ATTN_BF16, 0, 64 }, { ATTN_BF16, ATTN_BF16, 1, 64 },
    };
    for (size_t n = 0; n < sizeof rows / sizeof *rows && wanted("convert"); n++) {
        static samples s;
        int64_t shape[4] = { 1, FLOATS / 8 / rows[n].dim, 8, rows[n].dim };
        attn_in src = { tensor[0], { 0, 0, 0 }, rows[n].from, ATTN_BSHD, NULL, { 0, 0, 0 } };
        attn_out dst = { tensor[3], { 0, 0, 0 }, rows[n].to, rows[n].transpose ? ATTN_BHSD : ATTN_BSHD };
        attn_desc where;
        memset(&where, 0, sizeof where);
        where.threads = 1;
        double bytes = FLOATS * (double)((rows[n].from ? 2 : 4) + (rows[n].to ? 2 : 4));
        size_t whole = (size_t)(bytes / 2);                                 /* memcpy: as many bytes read and written */
        for (s.n = 0, s.spent = 0; !enough(&s);) {
            double t0 = seconds(CLOCK_THREAD_CPUTIME_ID);
            memcpy(tensor[4], tensor[1], whole);
            double t1 = seconds(CLOCK_THREAD_CPUTIME_ID);
            check(attn_convert(shape, src, dst, &where));
            double t2 = seconds(CLOCK_THREAD_CPUTIME_ID);
            memcpy(tensor[4], tensor[1], whole);
            double t3 = seconds(CLOCK_THREAD_CPUTIME_ID);
            s.x[s.n++] = 0.5 * (t1 - t0 + t3 - t2) / (t2 - t1);
            s.spent += t2 - t1;
        }
        char what[100];
        snprintf(what, sizeof what, "%s to %s%s, D %d", names[rows[n].from], names[rows[n].to],
            rows[n].transpose ? ", [B,S,H,D] to [B,H,S,D]" : "", (int)rows[n].dim);
        line(what, median(&s), 0.8, 1, "");
    }
}

/* Processor seconds that the compiler takes for the implementation: make's CC, or cc. Once: the first round. */
static void compile(void)
{
    static const struct { const char *flag; double target; } rows[] = { { "-O0", 20 }, { "-O1", 8 }, { "-O2", 20 } };
    static double took[3];
    for (int n = 0; n < 3 && wanted("compile"); n++) {
        struct rusage before, after;
        int how = 0;
        const char *cc = getenv("CC") ? getenv("CC") : "cc";
        getrusage(RUSAGE_CHILDREN, &before);
        pid_t child = round_now ? 0 : fork();
        if (!child && !round_now) {
            execlp(cc, cc, "-std=c99", rows[n].flag, "-DATTN_IMPLEMENTATION", "-x", "c", "-c", "attn.h", "-o", "/dev/null", (char *)NULL);
            _exit(127);
        }
        if (!round_now) waitpid(child, &how, 0);
        if (how) {
            fprintf(stderr, "%s does not compile attn.h\n", cc);
            exit(2);
        }
        getrusage(RUSAGE_CHILDREN, &after);
        if (!round_now)
            took[n] = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) + (double)(after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
                      1e-6 * (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec);
        line(text("the implementation, -O%d", rows[n].flag[2] - '0', 0), took[n], rows[n].target, 0, " s");
    }
}

int main(int argc, char **argv)
{
    uint64_t x = 1;
    int avx2 = getenv("ATTN_ISA") != NULL && strcmp(getenv("ATTN_ISA"), "avx2") == 0;
    if (argc != 1 && (argc != 3 || strcmp(argv[1], "--part") != 0)) {
        fprintf(stderr, "usage: targets [--part forward|backward|types|layouts|masks|decode|short|threads|fixed|convert|compile]\n");
        return 1;
    }
    if (argc == 3) part = argv[2];
    for (int n = 0; n < 9; n++) {
        tensor[n] = get(FLOATS * 4);
        for (int64_t i = 0; i < FLOATS; i++) tensor[n][i] = (float)(random_unit(&x) - 0.5);
    }
    mask = get(1 << 20);
    memset(mask, 1, 1 << 20);
    for (int n = 0; n < 64; n++) slopes[n] = 0.01f * (float)n;
    if (!part) rounds = ROUNDS;
    if (!avx2) {
        time_t now = time(NULL);
        char date[20];
        strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
        printf("# Speeds of the CPU backend beside their targets\n\nWritten by `make targets` on %s: %s, %d processors, %.0f GFLOP/s a "
               "thread, median of %d rounds. How each line is measured: test/bench/targets.c.\n\n"
               "| one thread, 8 heads, f32 unless said | measured | target | |\n|---|---|---|---|\n",
            date, attn_isa(), attn_threads(), attn_peak_gflops(ATTN_F32, 1), rounds);
    }
    for (; round_now < rounds; round_now++) {
        lines = 0;
        forward(avx2);
        if (avx2 && !part) continue;                                        /* a part is asked for by name */
        backward();
        types();
        caches();
        layouts();
        masks();
        decode();
        short_rows();
        threads();
        fixed();
        convert();
        compile();
    }
    print_table();
    return 0;
}
