/* adaptive.c - what a tolerance buys: calls with one beside the plain call, in turn; `make adaptive`.
 *
 * usage: adaptive [--data NAME] [--dim D] [--threads N] [--bf16 1] [--decode 1]
 *
 * Batch 1, 8 heads, [B,S,H,D], f32 or bf16, workspace given. Speed: the median over pairs of calls, one after the other, of how many times as
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
static float *q, *k, *v, *cert;
static void *o[2], *narrow[3];                  /* q, k and v in bf16, whose values the f32 ones have then */
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
/* rows that look at few of their keys, as many heads do: queries three times as long */
static void sharper(int64_t len, int64_t dim)
{
    for (int64_t n = 0; n < len * HEADS * dim; n++) q[n] *= 3;
}
static void sharp_local(int64_t len, int64_t dim) { sink_local(len, dim), sharper(len, dim); }
static void sharp_topics(int64_t len, int64_t dim) { topics(len, dim), sharper(len, dim); }

static void make_narrow(int64_t len, int64_t dim)
{
    float *wide[3] = { q, k, v };
    for (int n = 0; n < 3; n++)
        for (int64_t i = 0; i < len * HEADS * dim; i++) {
            attn__put_f32(narrow[n], ATTN_BF16, i, wide[n][i]);
            wide[n][i] = (float)attn__get_f32(narrow[n], ATTN_BF16, i);
        }
}

/* The largest difference of o from f64 loops over 64 rows a head; *rounded: what f32 may round in such a row, over the largest |v|;
 * *stored: what o's type may. */
static double error_of(const attn_desc *d, double *rounded, double *stored)
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
                const double off = fabs(row[e] / sum - (double)attn__get_f32(d->o.data, d->o.dtype, (i * HEADS + h) * dim + e));
                if (off > most) most = off;
                if (d->o.dtype == ATTN_BF16) *stored = fmax(*stored, fabs(row[e] / sum) * 0x1p-8);
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
static attn_desc describe(int64_t len, int64_t dim, int causal, int threads, int bf16)
{
    attn_desc d;
    memset(&d, 0, sizeof d);
    d.batch = 1;
    d.heads = HEADS;
    d.q_len = d.kv_len = len;
    d.head_dim = dim;
    d.flags = causal ? ATTN_CAUSAL : 0;
    d.threads = threads;
    d.q.data = bf16 ? narrow[0] : q;
    d.k.data = bf16 ? narrow[1] : k;
    d.v.data = bf16 ? narrow[2] : v;
    d.o.data = o[0];
    d.q.dtype = d.k.dtype = d.v.dtype = d.o.dtype = bf16 ? ATTN_BF16 : ATTN_F32;
    return d;
}
static void room(attn_desc *d)
{
    attn_plan plan;
    check(attn_query(d, NULL, &plan));
    d->workspace = get(plan.workspace_size + 64);
    d->workspace_size = plan.workspace_size;
}
static void measure(const char *name, attn_desc exact, double tolerance, double quantile, double target)
{
    attn_statistics told;
    attn_desc d = exact;
    double ratio[512], spent = 0, most = 0;
    int n = 0;
    d.o.data = o[1];
    d.tolerance = (float)tolerance;
    d.quantile = (float)quantile;
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
    double rounded = 0, stored = 0;
    const double tiles = (double)(told.tiles_int16 + told.tiles_f32), error = error_of(&d, &rounded, &stored) / most;
    char asked[32];
    snprintf(asked, sizeof asked, quantile > 0 ? "%g, %g" : "%g", tolerance, quantile);
    printf("| %s%s | %d | %d | %s | %.2f | %g | %.0f%% | %.0f%% | %d | %.1e | %.1e |\n", name, d.flags & ATTN_CAUSAL ? ", causal" : "", (int)d.q_len,
        (int)d.head_dim, asked, ratio[n / 2], target, 100 * (double)told.tiles_int16 / tiles,
        100 * (double)told.tiles_skipped / tiles, (int)told.rows_redone, error, (double)told.largest_cert / most);
    fflush(stdout);
    if (error * most > (double)told.largest_cert + rounded * most + stored) {
        fprintf(stderr, "an error beyond the certificate\n");
        exit(1);
    }
    free(exact.workspace);
    free(d.workspace);
}

/* ---- decode: one token, 32 heads on 8 of keys, dim 128, from int16, beside dense calls on f32 and f16 ---- */
enum { D_HEADS = 32, D_KV = 8, D_DIM = 128, D_KEYS = 16384, D_ROWS = D_KEYS * D_KV };
static double *row_of(const attn_in *t, int64_t j, int64_t h, double *row)
{
    for (int64_t e = 0; e < D_DIM; e++)
        row[e] = (double)t->scale[j * D_KV + h] * (double)attn__get_f32(t->data, t->dtype, (j * D_KV + h) * D_DIM + e);
    return row;
}
/* As error_of, of all rows, on what the codes stand for. */
static double decode_error(const attn_desc *d, double *rounded)
{
    double most = 0, row[D_DIM], o_row[D_DIM], *p = get(D_KEYS * 8);
    for (int64_t h = 0; h < D_HEADS; h++) {
        const float *query = (const float *)d->q.data + h * D_DIM;
        const double scale = (double)(float)(1 / sqrt((double)D_DIM));
        double top = -1e300, sum = 0;
        for (int64_t j = 0; j < D_KEYS; j++) {
            double terms = 0;
            row_of(&d->k, j, h / 4, row);
            p[j] = 0;
            for (int64_t e = 0; e < D_DIM; e++) p[j] += (double)query[e] * row[e], terms += fabs((double)query[e] * row[e]);
            p[j] *= scale;
            *rounded = fmax(*rounded, 16 * 0x1p-24 * (scale * terms + fabs(p[j]) + 4));
            top = fmax(top, p[j]);
        }
        memset(o_row, 0, sizeof o_row);
        for (int64_t j = 0; j < D_KEYS; j++) {
            p[j] = exp(p[j] - top);
            sum += p[j];
            row_of(&d->v, j, h / 4, row);
            for (int64_t e = 0; e < D_DIM; e++) o_row[e] += p[j] * row[e];
        }
        for (int64_t e = 0; e < D_DIM; e++) most = fmax(most, fabs(o_row[e] / sum - (double)((const float *)d->o.data)[h * D_DIM + e]));
    }
    free(p);
    return most;
}
/* over[n]: how many times as fast as d[n] the call d[3] is, the median over rounds of all four, one after the other; what the two
 * of int16 leave in L3 is not found by the other. */
static void decode_ratios(const attn_desc *d, double *over)
{
    static const int order[4] = { 2, 0, 3, 1 };
    double ratio[3][64], spent = 0;
    int n = 0;
    for (int i = 0; i < 4; i++) check(attn_forward(&d[i]));
    for (; n < 64 && (n < 7 || spent < 0.6); n++) {
        double took[4];
        for (int i = 0; i < 4; i++) {
            const double t = seconds();
            check(attn_forward(&d[order[i]]));
            spent += took[order[i]] = seconds() - t;
        }
        for (int i = 0; i < 3; i++) ratio[i][n] = took[i] / took[3];
    }
    check(attn_forward(&d[3]));                     /* o is that of all four */
    for (int i = 0; i < 3; i++) {
        qsort(ratio[i], (size_t)n, sizeof *ratio[i], up);
        over[i] = ratio[i][n / 2];
    }
}
static void decode_data(int kind, float *query, float *keys, float *values)
{
    for (int64_t i = 0; i < D_HEADS * D_DIM; i++) query[i] = (float)random_gauss(&state);
    for (int64_t i = 0; i < D_ROWS * D_DIM; i++) keys[i] = (float)random_gauss(&state), values[i] = (float)random_gauss(&state);
    for (int64_t h = 0; h < D_HEADS && kind; h++)
        for (int64_t e = 0; e < D_DIM; e++) {
            float *x = query + h * D_DIM + e;
            *x *= kind == 1 ? 0.5f : 0.3f;
            if (kind == 1) keys[h / 4 * D_DIM + e] += 2 * *x;                           /* a first key that rows look at */
            else *x += 1.5f * keys[((h * 7919 + 13) % D_KEYS * D_KV + h / 4) * D_DIM + e];  /* a key for each row */
        }
}
static int decode_table(int threads)
{
    static const char *const names[] = { "iid", "sink", "retrieval" };
    static const double tolerances[] = { 1e-2, 3e-3, 1e-3 };
    float *keys = get(D_ROWS * D_DIM * 4), *values = get(D_ROWS * D_DIM * 4), *query = get(D_HEADS * D_DIM * 4), *out = get(D_HEADS * D_DIM * 4);
    char *half[2] = { get(D_ROWS * D_DIM * 2), get(D_ROWS * D_DIM * 2) }, *codes[2] = { get(D_ROWS * D_DIM * 2), get(D_ROWS * D_DIM * 2) };
    float *scales[2] = { get(D_ROWS * 4), get(D_ROWS * 4) }, *bound = get(D_HEADS * 4);
    attn_isa();                                     /* the machine is known before a part of the library is called alone */
    for (int kind = 0; kind < 3; kind++) {
        double most = 0, over[3];
        attn_desc d[4];
        decode_data(kind, query, keys, values);
        for (int64_t r = 0; r < D_ROWS; r++)
            for (int n = 0; n < 2; n++) {
                float row[2][D_DIM];            /* which are written over */
                for (int copy = 0; copy < 2; copy++) memcpy(row[copy], (n ? values : keys) + r * D_DIM, sizeof row[copy]);
                attn__append_put(row[0], D_DIM, ATTN_F16, half[n], r * D_DIM, NULL);
                attn__append_put(row[1], D_DIM, ATTN_INT16, codes[n], r * D_DIM, scales[n] + r);
            }
        for (int64_t i = 0; i < D_ROWS * D_DIM; i++) most = fmax(most, fabs((double)values[i]));
        for (int n = 0; n < 4; n++) {
            memset(&d[n], 0, sizeof d[n]);
            d[n].batch = d[n].q_len = 1, d[n].heads = D_HEADS, d[n].kv_heads = D_KV, d[n].kv_len = D_KEYS, d[n].head_dim = D_DIM, d[n].threads = threads;
            d[n].q.data = query, d[n].o.data = out;
            d[n].k.data = n == 0 ? (void *)keys : n == 1 ? half[0] : codes[0], d[n].v.data = n == 0 ? (void *)values : n == 1 ? half[1] : codes[1];
            d[n].k.dtype = d[n].v.dtype = n == 0 ? ATTN_F32 : n == 1 ? ATTN_F16 : ATTN_INT16;
            if (n >= 2) d[n].k.scale = scales[0], d[n].v.scale = scales[1];
            room(&d[n]);
        }
        for (int t = 0; t < 3; t++) {
            attn_statistics told;
            double rounded = 0;
            free(d[3].workspace);
            d[3].workspace = NULL, d[3].workspace_size = 0;
            d[3].tolerance = (float)tolerances[t], d[3].cert = bound, d[3].statistics = &told;
            room(&d[3]);
            decode_ratios(d, over);
            const double error = decode_error(&d[3], &rounded) / most;
            printf("| %s | %g | %.2f | %.2f | %.2f | %.2f | %d | %.1e | %.1e | %s |\n", names[kind], tolerances[t], over[0], over[1], over[2],
                (double)told.bytes / (8.0 * D_ROWS * D_DIM), (int)told.rows_redone, error, (double)told.largest_cert / most, told.why);
            fflush(stdout);
            if (error * most > (double)told.largest_cert + rounded * most) return fprintf(stderr, "an error beyond the certificate\n"), 1;
        }
        for (int n = 0; n < 4; n++) free(d[n].workspace);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*make)(int64_t len, int64_t dim); int pays, diffuse, sharp; } kinds[] = {
        { "iid", plain, 1, 1, 0 }, { "sink + local", sink_local, 1, 0, 0 }, { "topics", topics, 1, 0, 0 }, { "retrieval", retrieval, 0, 0, 0 },
        { "sharp sink + local", sharp_local, 0, 0, 1 }, { "sharp topics", sharp_topics, 0, 0, 1 }, { "hopeless", hopeless, 0, 0, 0 },
    };
    static const double tolerances[] = { 1e-2, 1e-3, 1e-4 };
    static const int64_t lens[] = { 128, 768, 2048, LONGEST };      /* 768: hardly more than where it begins to pay */
    const char *only = NULL;
    int threads = 1, only_dim = 0, bf16 = 0, decode = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--data")) only = argv[i + 1];
        else if (!strcmp(argv[i], "--dim")) only_dim = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--threads")) threads = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--bf16")) bf16 = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--decode")) decode = atoi(argv[i + 1]);
    }
    if (decode) return decode_table(threads);
    q = get(FLOATS * 4), k = get(FLOATS * 4), v = get(FLOATS * 4);
    o[0] = get(FLOATS * 4), o[1] = get(FLOATS * 4);
    cert = get(LONGEST * HEADS * 4);
    for (int n = 0; n < 3; n++) narrow[n] = get(FLOATS * 2);
    attn_isa();
    for (int n = 0; n < 7; n++)
        for (int64_t dim = 64; dim <= 128; dim += 64)
            for (int at_len = 0; at_len < 4; at_len++) {
                const int64_t len = lens[at_len];
                if ((only && strcmp(only, kinds[n].name)) || (only_dim && only_dim != dim)) continue;
                kinds[n].make(len, dim);
                if (bf16) make_narrow(len, dim);
                for (int t = 0; t < 3; t++)
                    measure(kinds[n].name, describe(len, dim, 0, threads, bf16), tolerances[t], 0,
                        len < 2048 || bf16 ? 0.97 : t == 0 && kinds[n].sharp && len == LONGEST ? 2 : t == 0 && kinds[n].pays ? dim == 64 ? 1.3 : 1.6 : t == 1 && kinds[n].diffuse ? 1.15 : 0.97);
                if (len >= 2048) measure(kinds[n].name, describe(len, dim, 1, threads, bf16), 1e-2, 0, 0.97);
                for (int t = 1; t < 3 && len >= 768; t++) measure(kinds[n].name, describe(len, dim, 0, threads, bf16), tolerances[t], 0.99, 0.97);
            }
    return 0;
}
