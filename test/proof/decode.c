/* decode.c - the certificates of few rows against caches of int16, against the f64 reference on what the codes stand for.
 *
 *   decode [--rows N] [--seed S] [--case I]
 *
 * Calls of every kind in turn until N rows (1500) were decoded from planes; those computed densely are counted beside them. For every
 * element of every row: |o - exact o| <= cert + the rounding term of plain f32 code (check.h); cert <= tolerance, of the largest |v|
 * that the row sees; the same for lse and its bound; the statistics say what the outputs say. The same sequence in [B,H,S,D], with
 * other threads, in pages and slots of a padded batch, leaves the same bits. Kinds place low bytes, scales and values where a bound
 * without one of its parts is exceeded: `err / cert` is the share of the certificate that the error was. */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>

static uint64_t state;
static int64_t number(int64_t lo, int64_t hi) { return lo + (int64_t)(random_bits(&state) % (uint64_t)(hi - lo + 1)); }
static int chance(int percent) { return number(0, 99) < percent; }
static double normal(void) { return random_normal(&state); }
static double sign_of(int64_t bit) { return bit & 1 ? 1 : -1; }
static void *get(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p) abort();
    memset(p, 255, bytes);
    return p;
}

/* ------------------------------------------------------------------------------------------------------ a call
 * k, v: codes, [kv_len][kv_heads][dim], multiples of 1/256; scales [kv_len][kv_heads]. */
typedef struct call {
    attn_desc d;
    float *q, *k_scale, *v_scale;
    double *k, *v;
    int kind;
    int64_t hole;                   /* a key with a scale that is not finite, or -1 */
} call;
static double *k_at(call *c, int64_t j, int64_t h) { return c->k + (j * c->d.kv_heads + h) * c->d.head_dim; }
static double *v_at(call *c, int64_t j, int64_t h) { return c->v + (j * c->d.kv_heads + h) * c->d.v_dim; }
static float *q_at(call *c, int64_t i, int64_t h) { return c->q + (i * c->d.heads + h) * c->d.head_dim; }
#define EACH_Q(c) for (int64_t h = 0; h < (c)->d.heads; h++) for (int64_t i = 0; i < (c)->d.q_len; i++)
#define EACH_K(c) for (int64_t h = 0; h < (c)->d.kv_heads; h++) for (int64_t j = 0; j < (c)->d.kv_len; j++)

/* A row as append would quantise it: codes and scale of x. */
static void quantise(double *x, int64_t n, float *scale)
{
    double most = 0;
    for (int64_t e = 0; e < n; e++) most = fmax(most, fabs(x[e]));
    *scale = (float)(most / 127.49609375);
    for (int64_t e = 0; e < n; e++) x[e] = *scale > 0 ? fmax(-32639, fmin(32639, rint(256 * x[e] / (double)*scale))) / 256 : 0;
}
static void quantise_all(call *c)
{
    EACH_K(c) quantise(k_at(c, j, h), c->d.head_dim, &c->k_scale[j * c->d.kv_heads + h]);
    EACH_K(c) quantise(v_at(c, j, h), c->d.v_dim, &c->v_scale[j * c->d.kv_heads + h]);
}

/* -------------------------------------------------------------------------------------------------- ordinary data */
static void iid(call *c, double q_size)
{
    EACH_Q(c) for (int64_t e = 0; e < c->d.head_dim; e++) q_at(c, i, h)[e] = (float)(normal() * q_size);
    EACH_K(c) for (int64_t e = 0; e < c->d.head_dim; e++) k_at(c, j, h)[e] = normal();
    EACH_K(c) for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = normal();
}
static void make_iid(call *c) { iid(c, 0.3 + 1.5 * random_unit(&state)), quantise_all(c); }
static void make_peaked(call *c) { iid(c, 6), quantise_all(c); }
static void make_sink_local(call *c)
{
    iid(c, 0.5);
    EACH_Q(c) q_at(c, i, h)[0] = 6, q_at(c, i, h)[1] = 3;
    EACH_K(c) k_at(c, j, h)[0] = j ? 0 : 10, k_at(c, j, h)[1] = j > c->d.kv_len - 90 ? 4 : 0;
    quantise_all(c);
}
static void make_retrieval(call *c)
{
    iid(c, 0.2);
    EACH_Q(c) {
        const double *key = k_at(c, number(0, c->d.kv_len - 1), h * c->d.kv_heads / c->d.heads);
        for (int64_t e = 0; e < c->d.head_dim; e++) q_at(c, i, h)[e] += (float)(1.5 * key[e]);
    }
    quantise_all(c);
}
static void make_topics(call *c)
{
    double topic[4][128];
    iid(c, 0.4);
    for (int n = 0; n < 4; n++) for (int64_t e = 0; e < c->d.head_dim; e++) topic[n][e] = normal();
    EACH_Q(c) for (int64_t e = 0; e < c->d.head_dim; e++) q_at(c, i, h)[e] += (float)topic[h % 4][e];
    EACH_K(c) for (int64_t e = 0; e < c->d.head_dim; e++) k_at(c, j, h)[e] += topic[j / 153 % 4][e];
    quantise_all(c);
}
static void make_constant(call *c)
{
    const double a = normal(), b = normal(), x = 3 * normal();
    EACH_Q(c) for (int64_t e = 0; e < c->d.head_dim; e++) q_at(c, i, h)[e] = (float)a;
    EACH_K(c) for (int64_t e = 0; e < c->d.head_dim; e++) k_at(c, j, h)[e] = b;
    EACH_K(c) for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = x;
    quantise_all(c);
}
static void make_cancelling(call *c)
{
    iid(c, 0.1);
    EACH_K(c) for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] += 1e4 * sign_of(j);
    quantise_all(c);
}
static void make_huge_key(call *c)
{
    const double size = chance(50) ? 1e15 : 30;
    iid(c, 0.5);
    for (int64_t h = 0; h < c->d.kv_heads; h++) k_at(c, number(0, c->d.kv_len - 1), h)[number(0, c->d.head_dim - 1)] = size * sign_of(number(0, 1));
    quantise_all(c);
}
static void make_huge_value(call *c)
{
    const double size = chance(50) ? 1e15 : 1000;
    iid(c, 0.5);
    for (int64_t h = 0; h < c->d.kv_heads; h++) v_at(c, number(0, c->d.kv_len - 1), h)[number(0, c->d.v_dim - 1)] = size * sign_of(number(0, 1));
    quantise_all(c);
}
static void make_sizes(call *c)                 /* scales of every size and sign, 0 too, most of them far from 1 */
{
    make_iid(c);
    EACH_K(c) c->k_scale[j * c->d.kv_heads + h] *= (float)(chance(3) ? 0 : ldexp(sign_of(number(0, 1)), (int)number(-90, 2)));
    EACH_K(c) c->v_scale[j * c->d.kv_heads + h] *= (float)(chance(3) ? 0 : ldexp(sign_of(number(0, 1)), (int)(chance(5) ? 0 : number(-90, 0))));
}
/* Codes that append never writes: scales far larger than the rows, bytes of any size, -128 too. */
static void make_loose(call *c)
{
    const double share = chance(50) ? 1 : 0.01 + 0.99 * random_unit(&state);
    iid(c, 0.5);
    EACH_K(c) for (int64_t e = 0; e < c->d.head_dim; e++) k_at(c, j, h)[e] = (double)number(-128, 127) + (double)number(-128, 127) / 256;
    EACH_K(c) for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = floor(share * (double)number(-128, 127)) + (double)number(-128, 127) / 256;
    EACH_K(c) c->k_scale[j * c->d.kv_heads + h] = c->v_scale[j * c->d.kv_heads + h] = 0.02f;
}
static void make_hole(call *c)
{
    make_iid(c);
    c->hole = number(0, c->d.kv_len - 1);
    (chance(50) ? c->k_scale : c->v_scale)[c->hole * c->d.kv_heads] = chance(50) ? INFINITY : NAN;
}

/* ------------------------------------------------------------------------------------------------ adversarial data
 * Low bytes of k all on the side of q that moves the score as far as they can: up for keys whose values are above, down for the
 * others. High bytes are `high` times a pattern that q is orthogonal to. */
static void low_keys(call *c, double q_size, double scale)
{
    EACH_Q(c) for (int64_t e = 0; e < c->d.head_dim; e++) q_at(c, i, h)[e] = (float)(q_size * sign_of(e / 2));
    EACH_K(c) for (int64_t e = 0; e < c->d.head_dim; e++)
        k_at(c, j, h)[e] = 60 * sign_of(e) + sign_of(e / 2) * (j % 2 ? 127 : -128) / 256;
    EACH_K(c) c->k_scale[j * c->d.kv_heads + h] = (float)scale;
}
/* eta that a high byte leaves, of such data */
static double size_for(const call *c, double eta, double scale) { return eta / ((double)c->d.scale * (double)c->d.head_dim * scale / 2); }
static void values(call *c, double low)
{
    EACH_K(c) for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = 127 * sign_of(j) + low / 256;
    EACH_K(c) c->v_scale[j * c->d.kv_heads + h] = 0.01f;
}
static void make_k_low(call *c)
{
    low_keys(c, size_for(c, 1e-3 * (double)number(2, 12), 0.01), 0.01);
    values(c, 0);
}
static void make_v_low(call *c)                 /* each value is above its high byte, or each below */
{
    make_iid(c);
    const double low = chance(50) ? 127 : -128;
    EACH_K(c) for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = (double)number(-100, 100) + low / 256;
}
/* Most keys are far below the others, and hold the values on the other side: what is left out is missed. */
static void make_left_out(call *c)
{
    const double gap = 3 + 6 * random_unit(&state), n = (double)c->d.head_dim, every = (double)number(3, 60);
    EACH_Q(c) for (int64_t e = 0; e < c->d.head_dim; e++) q_at(c, i, h)[e] = (float)sign_of(e);
    EACH_K(c) {
        const int near = j % (int64_t)every == 0;
        for (int64_t e = 0; e < c->d.head_dim; e++) k_at(c, j, h)[e] = near ? 0 : -127 * sign_of(e);
        for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = near ? -127 : 127;
        c->k_scale[j * c->d.kv_heads + h] = (float)(gap / (127 * n * (double)c->d.scale)), c->v_scale[j * c->d.kv_heads + h] = 0.01f;
    }
}
/* As k low, but one key in 16 alone is off, and those are above all others: bounds by means are too small. */
static void make_few(call *c)
{
    const double scale = 0.01, n = (double)c->d.head_dim, size = size_for(c, 0.02, scale);
    low_keys(c, size, scale);
    EACH_K(c) {
        const int few = j % 16 == 0;
        for (int64_t e = 0; e < c->d.head_dim; e++) {
            if (!few) k_at(c, j, h)[e] = -rint(256 * 4 / (n * size * scale * (double)c->d.scale)) / 256 * sign_of(e / 2);
            if (!few) k_at(c, j, h)[e] = fmax(-127, fmin(127, k_at(c, j, h)[e]));
            if (few) k_at(c, j, h)[e] = 60 * sign_of(e) + sign_of(e / 2) * (j % 32 ? 127 : -128) / 256;
        }
        for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = few ? 127 * sign_of(j / 16) : 0;
        c->v_scale[j * c->d.kv_heads + h] = 0.01f;
    }
}
/* A key lies far below the others by its high bytes, and above all by its low ones, so large is its scale. */
static void make_far(call *c)
{
    const int64_t at = number(0, c->d.kv_len - 1);
    const double n = (double)c->d.head_dim, scale = 400 / ((double)c->d.scale * n);
    make_iid(c);
    EACH_Q(c) for (int64_t e = 0; e < c->d.head_dim; e++) q_at(c, i, h)[e] = 1;
    for (int64_t h = 0; h < c->d.kv_heads; h++) {
        for (int64_t e = 0; e < c->d.head_dim; e++) k_at(c, at, h)[e] = (e ? 0 : -0.3 * n) + 120.0 / 256;
        k_at(c, at, h)[0] = floor(-0.3 * n);
        c->k_scale[at * c->d.kv_heads + h] = (float)scale;
    }
}
/* One long key among short ones holds the value on the other side: another key's scale for it is too small. */
static void make_long(call *c)
{
    const int64_t at = number(0, c->d.kv_len - 1);
    const double scale = 0.01, n = (double)c->d.head_dim;
    low_keys(c, size_for(c, 0.0005, scale), scale);
    values(c, 0);
    EACH_K(c) for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = j == at ? 127 : -127;
    for (int64_t h = 0; h < c->d.kv_heads; h++) {
        for (int64_t e = 0; e < c->d.head_dim; e++) k_at(c, at, h)[e] = sign_of(e / 2) * 127 / 256 + (e % 2 ? 0 : sign_of(e / 2) * floor(20 * 16 / n));
        c->k_scale[at * c->d.kv_heads + h] = (float)(scale * 600);
    }
}

/* q lies half a step from its codes, all to the side that moves scores; its codes are orthogonal to k. */
static void make_q_codes(call *c)
{
    const double n = (double)c->d.head_dim - 2, eta = 0.02, step = eta / ((double)c->d.scale * 0.01 * 127 * 0.49 * n);
    c->d.tolerance = 0.1f, c->d.flags &= ~(uint32_t)ATTN_TOLERANCE_ABSOLUTE;
    EACH_Q(c) for (int64_t e = 0; e < c->d.head_dim; e++)
        q_at(c, i, h)[e] = (float)(step * (e == 0 ? 32767 : e == 1 ? 0 : 1200 * sign_of(e) + 0.49 * sign_of(e / 2)));
    EACH_K(c) for (int64_t e = 0; e < c->d.head_dim; e++) k_at(c, j, h)[e] = e < 2 ? 0 : 127 * sign_of(e / 2) * sign_of(j);
    EACH_K(c) c->k_scale[j * c->d.kv_heads + h] = 0.01f;
    values(c, 0);
}

/* The same scores of a tiny scale and tiny q, but huge scales of keys: what is multiplied with the latter must not be flushed to 0. */
static void make_tiny_units(call *c)
{
    const int all = (int)number(70, 127), scale = (int)number(all > 100 ? all - 60 : 40, all > 96 ? 96 : all), q = all - scale;
    make_k_low(c);
    EACH_K(c) for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = 127 * (j % 2 ? 1 : -1);
    c->d.scale = (float)ldexp((double)c->d.scale, -scale);
    EACH_Q(c) for (int64_t e = 0; e < c->d.head_dim; e++) q_at(c, i, h)[e] = (float)ldexp((double)q_at(c, i, h)[e], -q);
    EACH_K(c) c->k_scale[j * c->d.kv_heads + h] = (float)ldexp((double)c->k_scale[j * c->d.kv_heads + h], scale + q);
}

static const struct { const char *name; void (*make)(call *); } kinds[] = {
    { "iid", make_iid }, { "peaked", make_peaked }, { "sink + local", make_sink_local }, { "topics", make_topics }, { "retrieval", make_retrieval },
    { "constant", make_constant }, { "cancelling", make_cancelling }, { "huge key", make_huge_key }, { "huge value", make_huge_value },
    { "sizes", make_sizes }, { "loose scales", make_loose }, { "not finite", make_hole }, { "k low", make_k_low }, { "q off codes", make_q_codes }, { "v low", make_v_low },
    { "left out", make_left_out }, { "few keys off", make_few }, { "far below", make_far }, { "one long key", make_long },
    { "tiny units", make_tiny_units } };
enum { KINDS = sizeof kinds / sizeof *kinds };
static struct { int64_t calls, rows, planes, redone; double tightest, error, cert, bytes; } seen[KINDS];

/* --------------------------------------------------------------------------------------------- making and running */
static void range_of(const attn_desc *d, int64_t i, int64_t *lo, int64_t *hi)
{
    const int64_t at = i + d->kv_len - d->q_len;
    *lo = d->flags & ATTN_WINDOW_LEFT && at > d->window_left ? at - d->window_left : 0;
    *hi = d->flags & ATTN_CAUSAL ? at + 1 : d->kv_len;
}
static void draw(call *c, int64_t n)
{
    static const int64_t dims[] = { 16, 32, 64, 64, 128, 128 };
    static const double share[] = { 6e-4, 1e-3, 3e-3, 1e-2, 1e-2, 3e-2, 0.1 };
    attn_desc *d = &c->d;
    memset(c, 0, sizeof *c);
    c->kind = (int)(n % KINDS), c->hole = -1;
    d->q_len = number(1, 3), d->kv_heads = number(1, 2), d->heads = d->kv_heads * number(1, d->q_len == 3 ? 2 : 4);
    d->batch = 1, d->kv_len = chance(20) ? number(1100, 5000) : number(1024 + 130, 2300);
    d->head_dim = dims[number(0, 5)], d->v_dim = dims[number(0, 5)];
    d->scale = (float)(1 / sqrt((double)d->head_dim)), d->flags = ATTN_SCALE;
    if (chance(60)) d->flags |= ATTN_CAUSAL;
    if (chance(20)) d->flags |= ATTN_WINDOW_LEFT, d->window_left = number(1030, 1100);
    d->tolerance = (float)share[number(0, 6)];
    if (chance(20)) d->flags |= ATTN_TOLERANCE_ABSOLUTE;
    c->q = (float *)get((size_t)(d->q_len * d->heads * d->head_dim) * 4);
    c->k = (double *)get((size_t)(d->kv_len * d->kv_heads * d->head_dim) * 8), c->v = (double *)get((size_t)(d->kv_len * d->kv_heads * d->v_dim) * 8);
    c->k_scale = (float *)get((size_t)(d->kv_len * d->kv_heads) * 4), c->v_scale = (float *)get((size_t)(d->kv_len * d->kv_heads) * 4);
    kinds[c->kind].make(c);
}
typedef struct answer { attn_statistics told; float *cert, *lse, *o; unsigned char *left; attn_status status; } answer;       /* left: unit_left_out */
static void answer_free(answer *a) { free(a->cert), free(a->lse), free(a->o), free(a->left); }

enum { PLAIN, HEADS_FIRST, PAGED, SLOTS };
/* The sequence's keys as a cache: `first` tokens before them that are not valid, in pages, or in the second of three slots. */
typedef struct cache { attn_in in; int32_t *table; int64_t pages, size; } cache;
static cache cache_make(const call *c, const double *x, const float *scale, int64_t dim, int how, int64_t first, int64_t size)
{
    const attn_desc *d = &c->d;
    const int64_t hk = d->kv_heads, room = first + d->kv_len, per = (room + size - 1) / size;
    const int64_t units = how == PAGED ? per + 2 : how == SLOTS ? 3 : 1, each = how == PAGED ? size : room, rows = units * each * hk;
    cache t;
    memset(&t, 0, sizeof t);
    char *codes = (char *)get((size_t)whole_pieces(rows * dim, ATTN_INT16) * 2);
    float *scales = (float *)get((size_t)rows * 4);     /* NaN where no key is */
    t.table = (int32_t *)get((size_t)per * 4), t.pages = units, t.size = size;
    for (int64_t p = 0; p < per; p++) t.table[p] = (int32_t)(units - 1 - p);
    for (int64_t j = 0; j < d->kv_len; j++)
        for (int64_t h = 0; h < hk; h++) {
            const int64_t at = first + j, token = how == PAGED ? t.table[at / size] * size + at % size : how == SLOTS ? each + at : at;
            const int64_t row = how == HEADS_FIRST ? h * each + token : token * hk + h;
            for (int64_t e = 0; e < dim; e++) element_put(codes, ATTN_INT16, row * dim + e, x[(j * hk + h) * dim + e]);
            scales[token * hk + h] = scale[j * hk + h];
        }
    t.in.data = codes, t.in.dtype = ATTN_INT16, t.in.layout = how == HEADS_FIRST ? ATTN_BHSD : ATTN_BSHD, t.in.scale = scales;
    return t;
}
static void cache_free(cache *t) { free((void *)(uintptr_t)t->in.data), free((void *)(uintptr_t)t->in.scale), free(t->table); }
/* One run: with `other`, behind a sequence of the batch that has no keys, and rows of its own beyond the used ones. */
static answer run(const call *c, int how, int threads, const char *backend)
{
    attn_desc d = c->d;
    const int64_t more = how >= PAGED ? number(0, 2) : 0, batch = how >= PAGED ? 2 : 1, q_len = d.q_len + more, first = how >= PAGED ? number(0, 140) : 0;
    const int64_t q_row = d.heads * d.head_dim, size = number(5, 200), rows = d.q_len * d.heads;
    cache k = cache_make(c, c->k, c->k_scale, d.head_dim, how, first, size), v = cache_make(c, c->v, c->v_scale, d.v_dim, how, first, size);
    int32_t used_q[2] = { 0, (int32_t)d.q_len }, used_k[2] = { 0, (int32_t)(first + d.kv_len) }, start[2] = { 0, (int32_t)first }, slot[2] = { 2, 1 };
    float *q = (float *)get((size_t)(batch * q_len * q_row) * 4), *o = (float *)get((size_t)(batch * q_len * d.heads * d.v_dim) * 4);
    float *cert = (float *)get((size_t)(batch * q_len * d.heads) * 4), *lse = (float *)get((size_t)(batch * q_len * d.heads) * 4);
    memset(q, 0, (size_t)(batch * q_len * q_row) * 4);
    memcpy(q + (batch - 1) * q_len * q_row, c->q, (size_t)(d.q_len * q_row) * 4);
    answer a = { { 0 }, (float *)get((size_t)rows * 4), (float *)get((size_t)rows * 4), (float *)get((size_t)(rows * d.v_dim) * 4), NULL, ATTN_OK };
    d.batch = batch, d.q_len = q_len, d.q.data = q, d.o.data = o, d.k = k.in, d.v = v.in, d.lse = lse, d.threads = threads, d.backend = backend;
    if (d.tolerance > 0) d.cert = cert, d.statistics = &a.told;
    if (how == PAGED || how == SLOTS) d.seq.used_q = used_q, d.seq.used_k = used_k, d.seq.start_k = start, d.kv_len += first;
    int32_t *table = (int32_t *)get((size_t)(2 * ((first + c->d.kv_len + size - 1) / size)) * 4);
    if (how == PAGED) {
        const int64_t per = (first + c->d.kv_len + size - 1) / size;
        for (int64_t p = 0; p < per; p++) table[p] = 0, table[per + p] = k.table[p];
        d.seq.block_table = table, d.seq.page_size = size, d.seq.pages = k.pages, d.seq.max_pages = per;
    }
    if (how == SLOTS) d.seq.slot = slot, d.seq.slots = 3;
    if (how == PLAIN) a.left = (unsigned char *)get((size_t)(rows * d.kv_len)), unit_left_out(a.left);
    a.status = attn_forward(&d);
    unit_left_out(NULL);
    memcpy(a.o, o + (batch - 1) * q_len * d.heads * d.v_dim, (size_t)(rows * d.v_dim) * 4);
    for (int64_t h = 0; h < d.heads; h++) {
        memcpy(a.cert + h * c->d.q_len, cert + ((batch - 1) * d.heads + h) * q_len, (size_t)c->d.q_len * 4);
        memcpy(a.lse + h * c->d.q_len, lse + ((batch - 1) * d.heads + h) * q_len, (size_t)c->d.q_len * 4);
    }
    cache_free(&k), cache_free(&v), free(q), free(o), free(cert), free(lse), free(table);
    return a;
}

/* ------------------------------------------------------------------------------------------------------- judging */
static char wrong[400];
#define WRONG(...) return snprintf(wrong, sizeof wrong, __VA_ARGS__), 0
static int same(const call *c, const answer *a, const answer *b, const char *what)
{
    const int64_t rows = c->d.q_len * c->d.heads;
    if (b->status) WRONG("%s: %s", what, attn_status_text(b->status));
    if (memcmp(a->o, b->o, (size_t)(rows * c->d.v_dim) * 4)) WRONG("o differs %s", what);
    if (memcmp(a->cert, b->cert, (size_t)rows * 4)) WRONG("cert differs %s", what);
    if (memcmp(a->lse, b->lse, (size_t)rows * 4)) WRONG("lse differs %s", what);
    return 1;
}
typedef struct exact { double *o, *o_size, *pv, *lse_size; float *lse; } exact;
/* What keys left out are of the sum of a row that sees [lo, hi). */
static double left_out(call *c, const answer *a, int64_t i, int64_t h, int64_t lo, int64_t hi)
{
    const int64_t kv = h * c->d.kv_heads / c->d.heads;
    double max = -INFINITY, all = 0, out = 0;
    double *s = (double *)get((size_t)c->d.kv_len * 8);
    for (int64_t j = lo; j < hi; j++) {
        s[j] = 0;
        for (int64_t e = 0; e < c->d.head_dim; e++) s[j] += (double)q_at(c, i, h)[e] * k_at(c, j, kv)[e];
        s[j] *= (double)c->d.scale * (double)c->k_scale[j * c->d.kv_heads + kv];
        max = fmax(max, s[j]);
    }
    for (int64_t j = lo; j < hi; j++) {
        all += exp(s[j] - max);
        if (a->left[(h * c->d.q_len + i) * c->d.kv_len + j]) out += exp(s[j] - max);
    }
    free(s);
    return out / all;
}
static int judge_row(call *c, const answer *a, const exact *x, int64_t i, int64_t h, int64_t *skipped, double *mass)
{
    const attn_desc *d = &c->d;
    const int64_t row = h * d->q_len + i, at = (i * d->heads + h) * d->v_dim, kv = h * d->kv_heads / d->heads;
    const double cert = (double)a->cert[row];
    double most = 0, error = 0;
    int64_t lo, hi;
    range_of(d, i, &lo, &hi);
    for (int64_t j = lo; j < hi; j++)
        for (int64_t e = 0; e < d->v_dim; e++) {
            const double size = fabs(v_at(c, j, kv)[e] * (double)c->v_scale[j * d->kv_heads + kv]);
            if (is_finite(size) && size > most) most = size;
        }
    if (!is_finitef(a->cert[row]) || !(cert >= 0)) WRONG("row %d, head %d: cert %g", (int)i, (int)h, cert);
    const double limit = (double)d->tolerance * (d->flags & ATTN_TOLERANCE_ABSOLUTE ? 1 : most);
    if (!(cert <= limit)) WRONG("row %d, head %d: cert %g beyond the tolerance, %g", (int)i, (int)h, cert, limit);
    for (int64_t e = 0; e < d->v_dim; e++) {
        const double got = (double)a->o[at + e], want = x->o[at + e];
        if (!is_finite(want)) {
            if (is_finite(got)) WRONG("row %d, head %d: o[%d] is finite", (int)i, (int)h, (int)e);
            continue;
        }
        const double off = fabs(got - want), rounded = allowed_o(ATTN_F32, want, x->o_size[at + e], x->pv[at + e], 0, most);
        if (!is_finite(got) || !(off <= cert + rounded))
            WRONG("row %d, head %d: o[%d] = %.9g, reference %.9g, off by %g, cert %g and rounding %g", (int)i, (int)h, (int)e, got, want, off, cert, rounded);
        if (off - rounded > error) error = off - rounded;
    }
    if (is_finitef(x->lse[row]) && is_finite(x->lse_size[row])) {
        const double off = fabs((double)a->lse[row] - (double)x->lse[row]), allowed = (double)a->told.lse_error + allowed_lse((double)x->lse[row], x->lse_size[row]);
        if (!(off <= allowed)) WRONG("row %d, head %d: lse off by %g, told %g", (int)i, (int)h, off, (double)a->told.lse_error);
    }
    for (int64_t j0 = 0; j0 < d->kv_len && cert > 0; j0 += 128) {
        int used = 0;
        for (int64_t j = j0; j < j0 + 128 && j < d->kv_len; j++) used += !a->left[row * d->kv_len + j];
        *skipped += !used && lo < j0 + 128 && hi > j0;
    }
    if (cert > 0) {
        const double out = left_out(c, a, i, h, lo, hi);
        if (!(out <= (double)a->told.mass_skipped * (1 + x->lse_size[row] * 8 * 0x1p-24) + 1e-30))
            WRONG("row %d, head %d: %g of its sum left out, told %g", (int)i, (int)h, out, (double)a->told.mass_skipped);
        *mass = fmax(*mass, out);
        seen[c->kind].planes++;
        seen[c->kind].tightest = fmax(seen[c->kind].tightest, error / cert);
        if (most > 0) seen[c->kind].error = fmax(seen[c->kind].error, error / most), seen[c->kind].cert = fmax(seen[c->kind].cert, cert / most);
    }
    return 1;
}
static int judge_told(const call *c, const answer *a)
{
    const attn_desc *d = &c->d;
    const attn_statistics *t = &a->told;
    const double all = (double)(d->kv_len * d->kv_heads) * 2 * (double)(d->head_dim + d->v_dim);
    int64_t tiles = 0, dense = 0;
    float most = 0;
    for (int64_t n = 0; n < d->q_len * d->heads; n++) {
        dense += a->cert[n] == 0;
        most = a->cert[n] > most ? a->cert[n] : most;
    }
    for (int64_t i = 0; i < d->q_len; i++) {
        int64_t lo, hi;
        range_of(d, i, &lo, &hi);
        tiles += d->heads * ((hi + 127) / 128 - lo / 128);
    }
    if (t->rows != d->q_len * d->heads) WRONG("statistics: %d rows", (int)t->rows);
    if (t->largest_cert != most) WRONG("statistics: largest cert %g, not %g", (double)t->largest_cert, (double)most);
    if (t->rows_redone < 0 || t->rows_redone > dense) WRONG("statistics: %d rows redone, %d with a cert of 0", (int)t->rows_redone, (int)dense);
    if (t->tiles_int16 > tiles || t->tiles_int16 + t->tiles_f32 < tiles) WRONG("statistics: %d and %d of %d tiles", (int)t->tiles_int16, (int)t->tiles_f32, (int)tiles);
    if (t->tiles_skipped < 0 || t->tiles_skipped > t->tiles_int16) WRONG("statistics: %d tiles skipped", (int)t->tiles_skipped);
    if (!t->why[0] != (t->tiles_int16 == tiles)) WRONG("statistics: %d of %d tiles from planes, and why: '%s'", (int)t->tiles_int16, (int)tiles, t->why);
    if (!(t->mass_skipped >= 0 && t->mass_skipped < 1)) WRONG("statistics: mass %g", (double)t->mass_skipped);
    if (!((double)t->bytes >= all / 2 * (double)d->head_dim / (double)(d->head_dim + d->v_dim) * 0.2 && (double)t->bytes <= all))
        WRONG("statistics: %g bytes of %g", (double)t->bytes, all);
    seen[c->kind].bytes += (double)t->bytes / all;
    return 1;
}
static int judge(call *c, const answer *a)
{
    attn_desc d = c->d;
    const int64_t rows = d.q_len * d.heads, n = rows * d.v_dim;
    exact x = { (double *)get((size_t)n * 8), (double *)get((size_t)n * 8), (double *)get((size_t)n * 8), (double *)get((size_t)rows * 8),
                (float *)get((size_t)rows * 4) };
    cache k = cache_make(c, c->k, c->k_scale, d.head_dim, PLAIN, 0, 64), v = cache_make(c, c->v, c->v_scale, d.v_dim, PLAIN, 0, 64);
    int64_t skipped = 0;
    double mass = 0;
    int fine = judge_told(c, a);
    d.q.data = c->q, d.k = k.in, d.v = v.in, d.o.data = x.o, d.o.dtype = ATTN_F64, d.lse = x.lse, d.backend = "reference";
    d.tolerance = 0, d.flags &= ~(uint32_t)ATTN_TOLERANCE_ABSOLUTE;
    if (attn_forward(&d) || unit_bounds(&d, x.o_size, x.pv, x.lse_size)) abort();
    for (int64_t i = 0; i < d.q_len && fine; i++)
        for (int64_t h = 0; h < d.heads && fine; h++) fine = judge_row(c, a, &x, i, h, &skipped, &mass);
    if (fine && skipped != a->told.tiles_skipped) snprintf(wrong, sizeof wrong, "statistics: %d tiles skipped, not %d", (int)a->told.tiles_skipped, (int)skipped), fine = 0;
    cache_free(&k), cache_free(&v), free(x.o), free(x.o_size), free(x.pv), free(x.lse_size), free(x.lse);
    return fine;
}
static int one(uint64_t seed, int64_t n)
{
    static const struct { int how, threads; const char *what; } others[] = {
        { HEADS_FIRST, 3, "in [B,H,S,D] with three threads" }, { PAGED, 2, "in pages of a padded batch" }, { SLOTS, 4, "in a slot of a padded batch" } };
    call c;
    state = seed * 1000003 + (uint64_t)n;
    draw(&c, n);
    answer a = run(&c, PLAIN, 1, "adaptive");
    if (a.status) WRONG("%s", attn_status_text(a.status));
    int fine = judge(&c, &a);
    for (int k = 0; k < 3 && fine; k++) {
        answer b = run(&c, others[k].how, others[k].threads, "adaptive");
        fine = same(&c, &a, &b, others[k].what);
        answer_free(&b);
    }
    seen[c.kind].calls++, seen[c.kind].rows += c.d.q_len * c.d.heads, seen[c.kind].redone += a.told.rows_redone;
    answer_free(&a), free(c.q), free(c.k), free(c.v), free(c.k_scale), free(c.v_scale);
    return fine;
}

int main(int argc, char **argv)
{
    int64_t rows = 1500, only = -1, passed = 0, failed = 0, n = 0, planes = 0;
    uint64_t seed = 1;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        if (!strcmp(argv[i], "--rows")) rows = atoll(value), i++;
        else if (!strcmp(argv[i], "--seed")) seed = (uint64_t)atoll(value), i++;
        else if (!strcmp(argv[i], "--case")) only = atoll(value), i++;
        else return fprintf(stderr, "decode: %s?\n", argv[i]), 2;
    }
    if (getenv("ATTN_ISA") && strcmp(getenv("ATTN_ISA"), attn_isa())) {
        printf("skipped: this machine lacks %s\n0 passed, 0 failed, 1 skipped\n", getenv("ATTN_ISA"));
        return 0;
    }
    for (n = only >= 0 ? only : 0; only >= 0 ? n == only : planes < rows || n < 2 * KINDS; n++) {
        if (one(seed, n)) passed++;
        else if (failed++ < 10) printf("FAILED: --seed %llu --case %lld, %s: %s\n", (unsigned long long)seed, (long long)n, kinds[n % KINDS].name, wrong);
        planes = 0;
        for (int k = 0; k < KINDS; k++) planes += seen[k].planes;
        if (failed >= 10) break;
    }
    printf("| data | calls | rows | from planes | redone | bytes | largest err / max v | largest cert / max v | largest err / cert |\n|---|---|---|---|---|---|---|---|---|\n");
    for (int k = 0; k < KINDS; k++)
        printf("| %s | %lld | %lld | %lld | %lld | %.2f | %.2e | %.2e | %.3f |\n", kinds[k].name, (long long)seen[k].calls, (long long)seen[k].rows,
               (long long)seen[k].planes, (long long)seen[k].redone, seen[k].bytes / (double)(seen[k].calls ? seen[k].calls : 1), seen[k].error,
               seen[k].cert, seen[k].tightest);
    for (int k = 0; k < KINDS && only < 0 && !failed && rows >= 1500; k++)     /* what no call decoded proves nothing */
        if (!seen[k].planes && ++failed) printf("FAILED: %s: no row was decoded from planes\n", kinds[k].name);
    printf("%lld passed, %lld failed, 0 skipped\n", (long long)passed, (long long)failed);
    return failed != 0;
}
