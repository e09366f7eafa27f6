/* adaptive.c - what a tolerance buys: calls with one beside the plain call, in turn; `make adaptive`.
 *
 * usage: adaptive [--data NAME] [--dim D] [--threads N]
 *
 * Batch 1, 8 heads, [B,S,H,D], f32, workspace given. Speed: the median over pairs of calls, one after the other, of how many times as
 * fast the call with the tolerance is. Errors: of 64 rows a head against f64 loops; certificates: of all rows; both as a share of the
 * largest |v|. A target is the speed that this library sets itself. */
#define _GNU_SOURCE
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include "../common/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEADS = 8, LONGEST = 4096, WIDEST = 128, FLOATS = LONGEST * HEADS * WIDEST };
static float *q, *k, *v, *o[2], *cert;
static uint64_t state = 1;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static void *get(size_t bytes)
{
    void *p;
    if (posix_memalign(&p, 4096, bytes)) exit(2);
    memset(p, 0, bytes);
    return p;
}
static void check(attn_status s)
{
    if (!s) return;
    fprintf(stderr, "%s\n", attn_status_text(s));
    exit(2);
}

/* ---- data: N(0,1), and on top of it what makes rows peak ---- */
static float *at(float *x, int64_t i, int64_t h, int64_t dim) { return x + (i * HEADS + h) * dim; }
static void iid(int64_t len, int64_t dim, double size)
{
    for (int64_t n = 0; n < len * HEADS * dim; n++) {
        q[n] = (float)(size * random_gauss(&state));
        k[n] = (float)random_gauss(&state);
        v[n] = (float)random_gauss(&state);
    }
}
/* a first key that every row looks at, and neighbours */
static void sink_local(int64_t len, int64_t dim)
{
    iid(len, dim, 0.5);
    for (int64_t i = 0; i < len; i++)
        for (int64_t h = 0; h < HEADS; h++) {
            float *a = at(q, i, h, dim), *b = at(k, i, h, dim);
            a[0] = 4;
            b[0] = i ? 0 : 2 * sqrtf((float)dim);
            for (int64_t e = 0; e < 8; e++) {
                a[1 + 2 * e] = b[1 + 2 * e] = 2 * cosf((float)i * 0.2f / (float)(1 << e));
                a[2 + 2 * e] = b[2 + 2 * e] = 2 * sinf((float)i * 0.2f / (float)(1 << e));
            }
        }
}
/* stretches of eight topics; rows look at those of their own */
static void topics(int64_t len, int64_t dim)
{
    static float topic[8][WIDEST];
    iid(len, dim, 0.7);
    for (int n = 0; n < 8; n++)
        for (int64_t e = 0; e < dim; e++) topic[n][e] = (float)(0.7 * random_gauss(&state));
    for (int64_t i = 0; i < len; i++)
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t e = 0; e < dim; e++) {
                at(q, i, h, dim)[e] += topic[i / 97 % 8][e];
                at(k, i, h, dim)[e] += topic[i / 97 % 8][e];
            }
}
/* each row looks at one key somewhere */
static void retrieval(int64_t len, int64_t dim)
{
    iid(len, dim, 0.3);
    for (int64_t i = 0; i < len; i++)
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t e = 0; e < dim; e++) at(q, i, h, dim)[e] += at(k, (i * 7919 + 13) % len, h, dim)[e];
}
static void plain(int64_t len, int64_t dim) { iid(len, dim, 1); }
static void hopeless(int64_t len, int64_t dim) { iid(len, dim, 100); }

/* The largest difference of o from f64 loops over 64 rows a head; *rounded: what f32 may round in such a row, over the largest |v|. */
static double error_of(const attn_desc *d, double *rounded)
{
    const int64_t len = d->q_len, dim = d->head_dim;
    double most = 0, *p = get((size_t)len * 8), *row = get((size_t)dim * 8);
    for (int64_t h = 0; h < HEADS; h++)
        for (int64_t n = 0; n < 64; n++) {
            const int64_t i = n * (len - 1) / 63, keys = d->flags & ATTN_CAUSAL ? i + 1 : len;
            const double scale = (double)(float)(1 / sqrt((double)dim));
            double top = -1e300, sum = 0;
            for (int64_t j = 0; j < keys; j++) {
                double terms = 0;
                p[j] = 0;
                for (int64_t e = 0; e < dim; e++) {
                    const double term = (double)at(q, i, h, dim)[e] * (double)at(k, j, h, dim)[e];
                    p[j] += term;
                    terms += fabs(term);
                }
                p[j] *= scale;
                if (16 * 0x1p-24 * (scale * terms + fabs(p[j]) + 4) > *rounded) *rounded = 16 * 0x1p-24 * (scale * terms + fabs(p[j]) + 4);
                if (p[j] > top) top = p[j];
            }
            memset(row, 0, (size_t)dim * 8);
            for (int64_t j = 0; j < keys; j++) {
                p[j] = exp(p[j] - top);
                sum += p[j];
                for (int64_t e = 0; e < dim; e++) row[e] += p[j] * (double)at(v, j, h, dim)[e];
            }
            for (int64_t e = 0; e < dim; e++) {
                const double off = fabs(row[e] / sum - (double)at(d->o.data, i, h, dim)[e]);
                if (off > most) most = off;
            }
        }
    free(p);
    free(row);
    return most;
}
static int up(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static attn_desc describe(int64_t len, int64_t dim, int causal, int threads, int which)
{
    attn_desc d;
    memset(&d, 0, sizeof d);
    d.batch = 1;
    d.heads = HEADS;
    d.q_len = d.kv_len = len;
    d.head_dim = dim;
    d.flags = causal ? ATTN_CAUSAL : 0;
    d.threads = threads;
    d.q.data = q;
    d.k.data = k;
    d.v.data = v;
    d.o.data = o[which];
    return d;
}
static void room(attn_desc *d)
{
    attn_plan plan;
    check(attn_query(d, NULL, &plan));
    d->workspace = get(plan.workspace_size + 64);
    d->workspace_size = plan.workspace_size;
}
static void measure(const char *name, attn_desc exact, double tolerance, double target)
{
    attn_statistics told;
    attn_desc d = exact;
    double ratio[512], spent = 0, most = 0;
    int n = 0;
    d.o.data = o[1];
    d.tolerance = (float)tolerance;
    d.cert = cert;
    d.statistics = &told;
    room(&exact);
    room(&d);
    check(attn_forward(&exact));
    for (check(attn_forward(&d)); n < 512 && (n < 3 || spent < 0.4); n++) {
        const double t0 = seconds();
        check(attn_forward(&exact));
        const double t1 = seconds();
        check(attn_forward(&d));
        const double t2 = seconds();
        ratio[n] = (t1 - t0) / (t2 - t1);
        spent += t2 - t0;
    }
    qsort(ratio, (size_t)n, sizeof *ratio, up);
    for (int64_t i = 0; i < d.q_len * HEADS * d.head_dim; i++) most = fabs((double)v[i]) > most ? fabs((double)v[i]) : most;
    double rounded = 0;
    const double tiles = (double)(told.tiles_int16 + told.tiles_f32), error = error_of(&d, &rounded) / most;
    printf("| %s%s | %d | %d | %g | %.2f | %s | %.0f%% | %d | %.1e | %.1e |\n", name, d.flags & ATTN_CAUSAL ? ", causal" : "", (int)d.q_len,
        (int)d.head_dim, tolerance, ratio[n / 2], target > 1 ? target > 1.5 ? "1.6" : "1.3" : "0.97", 100 * (double)told.tiles_int16 / tiles,
        (int)told.rows_redone, error, (double)told.largest_cert / most);
    fflush(stdout);
    if (error * most > (double)told.largest_cert + rounded * most) {
        fprintf(stderr, "an error beyond the certificate\n");
        exit(1);
    }
    free(exact.workspace);
    free(d.workspace);
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*make)(int64_t len, int64_t dim); int pays; } kinds[] = {
        { "iid", plain, 1 }, { "sink + local", sink_local, 1 }, { "topics", topics, 1 }, { "retrieval", retrieval, 0 }, { "hopeless", hopeless, 0 },
    };
    static const double tolerances[] = { 1e-2, 1e-3, 1e-4 };
    const char *only = NULL;
    int threads = 1, only_dim = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--data")) only = argv[i + 1];
        else if (!strcmp(argv[i], "--dim")) only_dim = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--threads")) threads = atoi(argv[i + 1]);
    }
    q = get(FLOATS * 4), k = get(FLOATS * 4), v = get(FLOATS * 4), o[0] = get(FLOATS * 4), o[1] = get(FLOATS * 4);
    cert = get(LONGEST * HEADS * 4);
    for (int n = 0; n < 5; n++)
        for (int64_t dim = 64; dim <= 128; dim += 64)
            for (int64_t len = 128; len <= LONGEST; len *= len == 128 ? 16 : 2) {
                if ((only && strcmp(only, kinds[n].name)) || (only_dim && only_dim != dim)) continue;
                kinds[n].make(len, dim);
                for (int t = 0; t < 3; t++)
                    measure(kinds[n].name, describe(len, dim, 0, threads, 0), tolerances[t],
                        t == 0 && kinds[n].pays && len >= 2048 ? dim == 64 ? 1.3 : 1.6 : 0.97);
                if (len >= 2048) measure(kinds[n].name, describe(len, dim, 1, threads, 0), 1e-2, 0.97);
            }
    return 0;
}
