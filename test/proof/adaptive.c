/* adaptive.c - the certificates of calls with a tolerance, against the f64 reference.
 *
 *   adaptive [--rows N] [--seed S] [--case I] [--verbose]
 *
 * Calls of every kind in turn until N rows (20000) were computed from int16 codes; those computed densely are counted beside them.
 * For every element of every row: |o - exact o| <= cert + the rounding term of plain f32 code (check.h); cert <= tolerance, of the
 * largest |v| that the row sees; the same for lse and its bound; the statistics say what the outputs say; a second call with other
 * strides, threads and neighbours leaves the same bits. The adversarial kinds place numbers where codes are worst, so that a bound
 * without one of its parts is exceeded: `err / cert` is the share of the certificate that the error was. */
#include "check.h"
#include <stdio.h>
#include <stdlib.h>

static uint64_t state;
static int64_t number(int64_t lo, int64_t hi) { return lo + (int64_t)(random_bits(&state) % (uint64_t)(hi - lo + 1)); }
static int chance(int percent) { return number(0, 99) < percent; }
static double normal(void) { return random_normal(&state); }
static double sign_of(int64_t bit) { return bit & 1 ? 1 : -1; }

/* ------------------------------------------------------------------------------------------------------ a call */
enum { MOST_HEADS = 6 };
typedef struct call {
    attn_desc d;
    attn_statistics told;
    double *q, *k, *v;              /* [tokens][heads][dim], as they were made; the tensors have their own types and strides */
    double *most_v;                 /* [kv_len][kv_heads] largest |v| of a key */
    int kind;
    int64_t round;                  /* calls of this kind before */
    int64_t hole;                   /* a key with a number that is not finite, or -1 */
} call;
static int64_t kv_heads(const call *c) { return c->d.kv_heads; }

/* dims - 1 equal elements of such a row lie nearly on a code: (46280 - sqrt(dims) / 2) / sqrt(dims - 1) is nearly whole */
static int64_t even_dims(void)
{
    for (;;) {
        const int64_t n = number(20, 70);
        const double y = (46280 - 0.5 * sqrt((double)n)) / sqrt((double)(n - 1));
        if (fabs(y - floor(y + 0.5)) < 0.05) return n;
    }
}
static double *q_at(call *c, int64_t i, int64_t h) { return c->q + (i * c->d.heads + h) * c->d.head_dim; }
static double *k_at(call *c, int64_t j, int64_t h) { return c->k + (j * kv_heads(c) + h) * c->d.head_dim; }
static double *v_at(call *c, int64_t j, int64_t h) { return c->v + (j * kv_heads(c) + h) * c->d.v_dim; }
#define EACH_Q(c) for (int64_t h = 0; h < (c)->d.heads; h++) for (int64_t i = 0; i < (c)->d.q_len; i++)
#define EACH_K(c) for (int64_t h = 0; h < kv_heads(c); h++) for (int64_t j = 0; j < (c)->d.kv_len; j++)

/* The keys [*lo, *hi) that row i sees. */
static void range_of(const attn_desc *d, int64_t i, int64_t *lo, int64_t *hi)
{
    const int64_t at = i + (d->flags & ATTN_OFFSET ? d->offset : d->kv_len - d->q_len);
    *lo = d->flags & ATTN_WINDOW_LEFT && at > d->window_left ? at - d->window_left : 0;
    *hi = d->flags & ATTN_CAUSAL && at + 1 < d->kv_len ? at + 1 : d->kv_len;
    if (*lo >= *hi) *lo = *hi = 0;
}

/* -------------------------------------------------------------------------------------------------- ordinary data */
static void iid(call *c, double q_size)
{
    EACH_Q(c) for (int64_t e = 0; e < c->d.head_dim; e++) q_at(c, i, h)[e] = normal() * q_size;
    EACH_K(c) for (int64_t e = 0; e < c->d.head_dim; e++) k_at(c, j, h)[e] = normal();
    const double size = ldexp(1, (int)number(-8, 3));
    EACH_K(c) for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = normal() * size;
}
static void make_iid(call *c) { iid(c, 0.3 + 1.5 * random_unit(&state)); }
static void make_peaked(call *c) { iid(c, 8); }
static void make_hopeless(call *c) { iid(c, 40 + 400 * random_unit(&state)); }
static void make_many(call *c) { iid(c, 0.2 + 0.8 * random_unit(&state)); }     /* rows that look at many keys */
static void make_sink_local(call *c)
{
    iid(c, 0.5);
    EACH_Q(c) q_at(c, i, h)[0] = 6, q_at(c, i, h)[1] = 3 * cos(0.05 * (double)i), q_at(c, i, h)[2] = 3 * sin(0.05 * (double)i);
    EACH_K(c) k_at(c, j, h)[0] = j ? 0 : 10, k_at(c, j, h)[1] = 3 * cos(0.05 * (double)j), k_at(c, j, h)[2] = 3 * sin(0.05 * (double)j);
}
static void make_topics(call *c)
{
    double topic[4][520];
    iid(c, 0.4);
    for (int n = 0; n < 4; n++) for (int64_t e = 0; e < c->d.head_dim; e++) topic[n][e] = 0.8 * normal();
    EACH_Q(c) for (int64_t e = 0; e < c->d.head_dim; e++) q_at(c, i, h)[e] += topic[i / 37 % 4][e];
    EACH_K(c) for (int64_t e = 0; e < c->d.head_dim; e++) k_at(c, j, h)[e] += topic[j / 53 % 4][e];
}
static void make_retrieval(call *c)             /* each query has one key */
{
    iid(c, 0.2);
    EACH_Q(c) {
        const double *key = k_at(c, (i * 7 + 3) % c->d.kv_len, h * kv_heads(c) / c->d.heads);
        for (int64_t e = 0; e < c->d.head_dim; e++) q_at(c, i, h)[e] += 1.5 * key[e];
    }
}
static void make_constant(call *c)
{
    const double a = normal(), b = normal(), x = 3 * normal();
    EACH_Q(c) for (int64_t e = 0; e < c->d.head_dim; e++) q_at(c, i, h)[e] = a;
    EACH_K(c) for (int64_t e = 0; e < c->d.head_dim; e++) k_at(c, j, h)[e] = b;
    EACH_K(c) for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = x;
}
static void make_huge_key(call *c)
{
    iid(c, 0.5);
    const int64_t j = number(0, c->d.kv_len - 1);
    const double size = chance(50) ? 1e18 : 20;
    for (int64_t h = 0; h < kv_heads(c); h++) k_at(c, j, h)[number(0, c->d.head_dim - 1)] = size * sign_of(number(0, 1));
}
static void make_huge_value(call *c)
{
    iid(c, 0.5);
    const int64_t j = number(c->d.kv_len / 2, c->d.kv_len - 1);
    const double size = chance(50) ? 1e18 : 1000;
    for (int64_t h = 0; h < kv_heads(c); h++) v_at(c, j, h)[number(0, c->d.v_dim - 1)] = size * sign_of(number(0, 1));
}
static void make_cancelling(call *c)
{
    iid(c, 0.1);
    EACH_K(c) for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] += 1e4 * sign_of(j);
}
static void make_sizes(call *c)                 /* rows and keys of every size, most of them far from 1 */
{
    iid(c, 1);
    EACH_Q(c) for (int64_t e = 0, n = number(-90, 2); e < c->d.head_dim; e++) q_at(c, i, h)[e] *= ldexp(1, (int)n);
    EACH_K(c) for (int64_t e = 0, n = number(-90, 2); e < c->d.head_dim; e++) k_at(c, j, h)[e] *= ldexp(1, (int)n);
    EACH_K(c) for (int64_t e = 0, n = chance(5) ? 0 : number(-90, 0); e < c->d.v_dim; e++) v_at(c, j, h)[e] *= ldexp(1, (int)n);
}
/* One number that is not finite. Rows that do not see it, of which one fails or nearly all do, keep their bits beside rows that do. */
static void make_hole(call *c)
{
    const int64_t alone = number(0, c->d.q_len - 1), what = c->round % 3;
    iid(c, 0.5);
    c->hole = c->d.kv_len / 24 * (c->round < 2 ? 23 : number(6, 23));     /* among the keys by which it is guessed what pays */
    double *row = (c->round < 2 ? c->round == 1 : chance(50)) ? k_at(c, c->hole, 0) : v_at(c, c->hole, 0);
    row[0] = chance(70) ? INFINITY : NAN;
    EACH_Q(c) {
        int64_t lo, hi;
        range_of(&c->d, i, &lo, &hi);
        const double size = what == 1 ? (i == alone ? 4000 : 1) : what == 2 ? (c->hole >= lo && c->hole < hi ? 0 : 40) : 1;
        for (int64_t e = 0; e < c->d.head_dim; e++) q_at(c, i, h)[e] *= size;
    }
}

/* ------------------------------------------------------------------------------------------------ adversarial data
 * Elements 1.. of q, or of k, are equal but for their signs, and lie on codes; element 0 of the other is 32760 steps, so that its
 * other elements may lie 0.49 steps from a code, all to the side that moves the score by as much as the lengths allow. */
static double pattern(int64_t e) { return sign_of(e / 3 + e); }
/* row[1..] = step * (whole + 0.49 * pattern * side), the whole numbers with a product of 0 with the pattern */
static void off_codes(double *row, int64_t n, double step, double side)
{
    row[0] = 32760 * step;
    for (int64_t e = 1; e < n; e++) {
        const double whole = e + 1 < n || (n - 1) % 2 == 0 ? (e & 1 ? 1 : -1) * pattern(e) * (double)(100 + e / 2 * 17 % 2000) : 0;
        row[e] = step * (((e - 1) / 2 * 2 + 2 < n ? whole : 0) + 0.49 * pattern(e) * side);
    }
    for (int64_t e = 1; e + 1 < n; e += 2) {    /* the two of a pair are the same number */
        const double whole = (double)(100 + e * 17 % 2000);
        row[e] = step * (whole * pattern(e) + 0.49 * pattern(e) * side);
        row[e + 1] = step * (-whole * pattern(e + 1) + 0.49 * pattern(e + 1) * side);
    }
}
static void on_codes(double *row, int64_t n, double size)
{
    row[0] = 0;
    for (int64_t e = 1; e < n; e++) row[e] = size * pattern(e);
}
/* The signs of values, the same number of both in the chunk or in all; v = side */
static void sides(call *c, int one_chunk, int64_t chunk, double *side)
{
    for (int64_t j = 0; j < c->d.kv_len; j++) side[j] = one_chunk && j / 128 != chunk ? 0 : sign_of(j);
    EACH_K(c) for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = e ? normal() * 0.3 : sign_of(j);
}
static void make_k_codes(call *c)
{
    const double step = 1e-3, eta = 1e-3 * (double)number(3, 25), n = (double)c->d.head_dim - 1;
    double side[1024];
    sides(c, chance(50), number(0, c->d.kv_len / 128), side);
    EACH_Q(c) on_codes(q_at(c, i, h), c->d.head_dim, eta / ((double)c->d.scale * step * 0.49 * n));
    EACH_K(c) off_codes(k_at(c, j, h), c->d.head_dim, step, side[j]);
}
static void make_q_codes(call *c)
{
    const double step = 1e-3, eta = 1e-3 * (double)number(3, 25), n = (double)c->d.head_dim - 1;
    const int one = chance(50);
    double side[1024];
    sides(c, one, number(0, c->d.kv_len / 128), side);
    EACH_Q(c) off_codes(q_at(c, i, h), c->d.head_dim, step, 1);
    EACH_K(c) on_codes(k_at(c, j, h), c->d.head_dim, side[j] * eta / ((double)c->d.scale * step * 0.49 * n));
}
static void make_v_codes(call *c)
{
    const double step = ldexp(1, (int)number(-12, 3)), side = sign_of(number(0, 1));
    EACH_Q(c) for (int64_t e = 0; e < c->d.head_dim; e++) q_at(c, i, h)[e] = 0;
    EACH_K(c) for (int64_t e = 0; e < c->d.head_dim; e++) k_at(c, j, h)[e] = normal();
    EACH_K(c) for (int64_t e = 0; e < c->d.v_dim; e++)
        v_at(c, j, h)[e] = step * (e == 1 && j % 128 == 5 ? 2047 * side : (double)(j % 64 * 30 - 960) + 0.499 * side);
}
/* A key of p 1 in each chunk; p of the others is just below half a code or a whole one, or in each second chunk of each second call on both sides
 * of it with values of both signs; the values of one head lie above o, those of the other below, of the first in each second call twice as far. */
static void make_p_codes(call *c)
{
    const double n = (double)c->d.head_dim - 1, size = 2 + random_unit(&state);
    EACH_Q(c) on_codes(q_at(c, i, h), c->d.head_dim, size);
    EACH_K(c) {
        const int even = !(c->round & 1), two = even && h && (j / 128 & 1);
        const double side = sign_of(h);
        const double code = two && j & 1 ? 0.51 : c->round % 4 == 1 ? 0.99 : 0.49, score = log(code / 16383);
        on_codes(k_at(c, j, h), c->d.head_dim, j % 128 == 64 ? 0 : score / ((double)c->d.scale * n * size));
        for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = j % 128 == 64 ? (even && !h ? -side : 0) : two && j & 1 ? -side : side;
    }
}
/* A few long keys among short ones, in one chunk: bounds by means, or by another chunk's, are too small. Here queries are off their
 * codes, below those keys are. */
static void make_few_long(call *c)
{
    const double step = 1e-3, n = (double)c->d.head_dim - 1;
    const int64_t chunk = number(0, (c->d.kv_len - 1) / 128);
    double square = 0;
    EACH_Q(c) off_codes(q_at(c, i, h), c->d.head_dim, step, 1);
    for (int64_t e = 1; e < c->d.head_dim; e++) square += q_at(c, 0, 0)[e] * q_at(c, 0, 0)[e];
    EACH_K(c) {
        const int few = j / 128 == chunk && j % 16 == 0;
        on_codes(k_at(c, j, h), c->d.head_dim, 0.02 * sign_of(j / 16) / ((double)c->d.scale * step * 0.49 * n));
        for (int64_t e = 1; e < c->d.head_dim && !few; e++) k_at(c, j, h)[e] = -4 / ((double)c->d.scale * square) * q_at(c, 0, 0)[e];
        for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = few ? sign_of(j / 16) : 0;
    }
}
static void make_few(call *c)
{
    const double step = 1e-3, n = (double)c->d.head_dim - 1;
    const int64_t chunk = number(0, (c->d.kv_len - 1) / 128);
    EACH_Q(c) on_codes(q_at(c, i, h), c->d.head_dim, 0.02 / ((double)c->d.scale * step * 0.49 * n));
    EACH_K(c) {
        const int few = j / 128 == chunk && j % 16 == 0;
        on_codes(k_at(c, j, h), c->d.head_dim, few ? 0 : -4 / ((double)c->d.scale * n * q_at(c, 0, 0)[1] * pattern(1)));
        if (few) off_codes(k_at(c, j, h), c->d.head_dim, step, sign_of(j / 16));
        for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = few ? sign_of(j / 16) : 0;
    }
}
/* The last keys lie 120 below the others, but for one that is so long that what its codes leave out of q lifts it above all: its
 * computed share is 0. Every other call has no such key. */
static void make_far(call *c)
{
    const double off = 0.49 / 32760, n = (double)c->d.head_dim - 1, scale = (double)c->d.scale;
    const int64_t first = c->d.kv_len / 128 * 128 - 128, at = first + number(0, 127);
    EACH_Q(c) for (int64_t e = 0; e < c->d.head_dim; e++) q_at(c, i, h)[e] = e ? off : 1;
    EACH_K(c) {
        for (int64_t e = 0; e < c->d.head_dim; e++)
            k_at(c, j, h)[e] = j < first ? 0 : !e ? -120 / scale : j == at && c->round % 2 ? 130 / (scale * n * off) : 0;
        for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = j == at ? 1 : number(-1000, 1000) * 1e-3;
    }
}

/* Bytes, which the filter has: as above, but for one key of each head that all rows look at. All others, left out but for those beside
 * it, are heavier than their codes say, or the codes of q, by as much as may be; their values lie as far from its value as any. */
static double byte_most(void) { return strcmp(attn_isa(), "avx2") ? 127 : 63; }
static void off_bytes(double *row, int64_t n, double step)
{
    row[0] = (byte_most() + 0.01) * step;
    for (int64_t e = 1; e < n; e++) row[e] = step * 0.49 * pattern(e);
    for (int64_t e = 1; e + 1 < n; e += 2) row[e] += step * pattern(e) * (double)(e * 7 % 40), row[e + 1] -= step * pattern(e + 1) * (double)(e * 7 % 40);
}
/* Key `at` becomes the one that is looked at: e^score as heavy as `light` of the others. Of q on codes its elements lie on codes, too. */
static void looked_at(call *c, int64_t at, double light, double eta, int on)
{
    const double score = log((double)c->d.kv_len / light) + eta, n = (double)c->d.head_dim - 1;
    c->d.flags = ATTN_SCALE, c->d.offset = c->d.window_left = 0;
    EACH_K(c) {
        double *k = k_at(c, j, h);
        for (int64_t e = 0; e < c->d.head_dim && j == at; e++)
            k[e] = !on ? (e ? 0 : score / ((double)c->d.scale * q_at(c, 0, 0)[0])) : e ? score / ((double)c->d.scale * n * q_at(c, 0, 0)[1] * pattern(1)) * pattern(e) : 0;
        for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = j == at ? -1 : 1;
    }
}
static const double byte_step = 1e-2;
static void make_k_bytes(call *c)
{
    const double eta = 0.05 * (double)number(2, 10), n = (double)c->d.head_dim - 1;
    EACH_Q(c) on_codes(q_at(c, i, h), c->d.head_dim, eta / ((double)c->d.scale * byte_step * 0.49 * n));
    EACH_K(c) off_bytes(k_at(c, j, h), c->d.head_dim, byte_step);
    looked_at(c, number(0, c->d.kv_len - 1), 0.05, eta, 1);
}
static void make_q_bytes(call *c)
{
    const double eta = 0.05 * (double)number(2, 10), n = (double)c->d.head_dim - 1;
    EACH_Q(c) off_bytes(q_at(c, i, h), c->d.head_dim, byte_step);
    EACH_K(c) on_codes(k_at(c, j, h), c->d.head_dim, eta / ((double)c->d.scale * byte_step * 0.49 * n));
    looked_at(c, number(0, c->d.kv_len - 1), 0.05, eta, 0);
}
/* A value that is no number among those left out, which some rows of a group see; the first of these looks at all keys, so that with a 0
 * in that place its group leaves none out */
static void make_bytes_hole(call *c)
{
    make_q_bytes(c);
    looked_at(c, number(0, 100), 0.05, 0.3, 0);
    c->d.flags |= ATTN_CAUSAL;
    c->hole = c->d.kv_len - c->d.q_len / 2;
    v_at(c, c->hole, 0)[0] = NAN;
    for (int64_t h = 0; h < c->d.heads; h++) q_at(c, c->d.q_len - c->d.q_len / 2, h)[0] = 0;
}
/* The key is lighter than its codes say, so that more is left out than the tolerance allows */
static void make_bytes_light(call *c)
{
    const double eta = 0.8, n = (double)c->d.head_dim - 1, scale = (double)c->d.scale, whole = ceil(log((double)c->d.kv_len / 0.14) / (eta / 0.49) + 0.49);
    const int64_t at = number(0, c->d.kv_len - 1);
    make_k_bytes(c);
    EACH_Q(c) on_codes(q_at(c, i, h), c->d.head_dim, eta / (scale * byte_step * 0.49 * n));
    EACH_K(c) {
        const double score = eta / 0.49 * (whole - 0.49) - log((double)c->d.kv_len / 0.14);
        double *k = k_at(c, j, h);
        on_codes(k, c->d.head_dim, score / (scale * n * q_at(c, 0, 0)[1] * pattern(1)));
        for (int64_t e = 0; e < c->d.head_dim && j == at; e++) k[e] = e ? byte_step * (whole - 0.49) * pattern(e) : (byte_most() + 0.01) * byte_step;
        for (int64_t e = 0; e < c->d.v_dim; e++) v_at(c, j, h)[e] = j == at ? -1 : 1;
    }
}

static const struct {
    const char *name;
    void (*make)(call *);
    int even;                       /* head_dim must be one of even_dims, the types f32, and the tolerance large */
    int wide;                       /* numbers that f16 has not */
} kinds[] = {
    { "iid", make_iid, 0, 0 }, { "sink + local", make_sink_local, 0, 0 }, { "topics", make_topics, 0, 0 }, { "retrieval", make_retrieval, 0, 0 },
    { "constant", make_constant, 0, 0 }, { "peaked", make_peaked, 0, 0 }, { "k off codes", make_k_codes, 1, 0 }, { "q off codes", make_q_codes, 1, 0 },
    { "v off codes", make_v_codes, 1, 0 }, { "p off codes", make_p_codes, 1, 0 }, { "few keys off", make_few, 1, 0 }, { "few keys long", make_few_long, 1, 0 },
    { "far below", make_far, 1, 1 }, { "huge key", make_huge_key, 0, 1 },
    { "huge value", make_huge_value, 0, 1 }, { "cancelling", make_cancelling, 0, 0 }, { "sizes", make_sizes, 0, 1 }, { "not finite", make_hole, 0, 0 },
    { "hopeless", make_hopeless, 0, 0 },
    { "bytes, not finite", make_bytes_hole, 1, 0 }, { "bytes, light", make_bytes_light, 1, 0 },
    { "k off bytes", make_k_bytes, 1, 0 }, { "q off bytes", make_q_bytes, 1, 0 }, { "many keys", make_many, 0, 0 },
};
enum { KINDS = sizeof kinds / sizeof *kinds };
static struct { int64_t calls, rows, int16, filtered, again; double tightest, error, cert, tightest_filtered; } seen[KINDS];
static struct { int64_t rows, left_out; double tightest; } chosen;    /* of calls of bf16 whose backend is not named: rows with a certificate */
static const float quantiles[] = { 0.5f, 0.9f, 0.99f };
static struct { int64_t rows, beyond; } sampled[3];     /* of the calls with each of them: rows from codes, off by more than the tolerance */

/* --------------------------------------------------------------------------------------------- making and running */
static void *get(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p) abort();
    memset(p, 255, bytes);
    return p;
}
/* [tokens][heads][dim] in f64 as a tensor of its own type, in BHSD where asked; x becomes what the type holds */
static attn_in tensor(double *x, int64_t tokens, int64_t heads, int64_t dim, int32_t dtype, int bhsd)
{
    attn_in t;
    memset(&t, 0, sizeof t);
    void *p = get((size_t)(tokens * heads * dim * dtype_size(dtype)));
    for (int64_t i = 0; i < tokens; i++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t e = 0; e < dim; e++) {
                const int64_t from = (i * heads + h) * dim + e, to = bhsd ? (h * tokens + i) * dim + e : from;
                element_put(p, dtype, to, x[from]);
                x[from] = element_get(p, dtype, to);
            }
    t.data = p, t.dtype = dtype, t.layout = bhsd ? ATTN_BHSD : ATTN_BSHD;
    return t;
}
static int draw_masks(attn_desc *d)
{
    const int64_t what = number(0, 5);
    if (what >= 2) d->flags |= what == 2 ? 0 : ATTN_CAUSAL;
    if (what == 4) d->flags |= ATTN_WINDOW_LEFT, d->window_left = number(385, 600);
    if (what == 5) d->flags |= ATTN_OFFSET, d->offset = number(0, d->kv_len);
    return what;
}
static void draw(call *c, int64_t n)
{
    static const int64_t dims[] = { 8, 8, 16, 33, 40, 64, 128 };
    static const double share[] = { 1e-4, 1e-3, 3e-3, 1e-2, 1e-2, 3e-2 };
    attn_desc *d = &c->d;
    const int kind = (int)(n % KINDS);
    memset(c, 0, sizeof *c);
    c->kind = kind, c->round = n / KINDS, c->hole = -1;
    const int64_t group = number(1, 3);
    d->batch = 1, d->kv_heads = kinds[kind].make == make_p_codes ? 2 : number(1, 2), d->heads = d->kv_heads * group;
    d->q_len = number(200, 330) / group, d->kv_len = number(390, 560);
    if (!kinds[kind].even && chance(15)) d->q_len = number(400, 900) / group, d->kv_len = number(390, 420);   /* more than a unit */
    d->head_dim = kinds[kind].even ? even_dims() : dims[number(0, 6)];
    d->v_dim = dims[number(0, 6)];
    d->scale = (float)(1 / sqrt((double)d->head_dim)), d->flags = ATTN_SCALE;
    draw_masks(d);
    d->tolerance = (float)(kinds[kind].even ? 0.2 : share[number(0, 5)]);
    if (chance(30)) d->flags |= ATTN_TOLERANCE_ABSOLUTE;
    if (n % 5 == 4) d->quantile = quantiles[n / 5 % 3];
    if (kinds[kind].make == make_hole && c->round < 2)  /* some rows do not see it, and are computed from codes */
        d->tolerance = 0.03f, d->flags = ATTN_SCALE | ATTN_CAUSAL, d->offset = d->window_left = 0;
    if (kinds[kind].make == make_many) {        /* too many for each alone to keep to the tolerance */
        d->kv_heads = 1, d->heads = group, d->kv_len = number(1024, 1400), d->head_dim = dims[number(3, 6)];
        d->scale = (float)(1 / sqrt((double)d->head_dim)), d->tolerance = 1e-3f, d->flags = ATTN_SCALE, d->quantile = 0, d->offset = d->window_left = 0;
        if (chance(30)) d->flags |= ATTN_CAUSAL;
    }
    c->q = (double *)get((size_t)(d->q_len * d->heads * d->head_dim) * 8);
    c->k = (double *)get((size_t)(d->kv_len * d->kv_heads * d->head_dim) * 8);
    c->v = (double *)get((size_t)(d->kv_len * d->kv_heads * d->v_dim) * 8);
    kinds[kind].make(c);
}
static void largest_v(call *c)
{
    c->most_v = (double *)get((size_t)(c->d.kv_len * c->d.kv_heads) * 8);
    EACH_K(c) {
        double most = 0;
        for (int64_t e = 0; e < c->d.v_dim; e++) {
            const double size = absolute(v_at(c, j, h)[e]);
            if (is_finite(size) && size > most) most = size;
        }
        c->most_v[j * c->d.kv_heads + h] = most;
    }
}
/* One run of the call. */
typedef struct answer { attn_statistics told; float *cert, *lse; double *o; } answer;
static attn_status run(const call *c, const int32_t *types, const char *backend, int bhsd, int threads, answer *a)
{
    attn_desc d = c->d;
    const int64_t rows = d.q_len * d.heads, n = rows * d.v_dim;
    d.q = tensor(c->q, d.q_len, d.heads, d.head_dim, types[0], bhsd);
    d.k = tensor(c->k, d.kv_len, d.kv_heads, d.head_dim, types[1], bhsd);
    d.v = tensor(c->v, d.kv_len, d.kv_heads, d.v_dim, types[2], bhsd);
    d.o.dtype = types[3], d.o.layout = bhsd ? ATTN_BHSD : ATTN_BSHD;
    d.o.data = get((size_t)(n * dtype_size(types[3])));
    a->cert = (float *)get((size_t)rows * 4), a->lse = (float *)get((size_t)rows * 4), a->o = (double *)get((size_t)n * 8);
    d.cert = a->cert, d.lse = a->lse, d.statistics = &a->told, d.threads = threads, d.backend = backend;
    const attn_status s = attn_forward(&d);
    for (int64_t i = 0; i < d.q_len; i++)
        for (int64_t h = 0; h < d.heads; h++)
            for (int64_t e = 0; e < d.v_dim; e++)
                a->o[(i * d.heads + h) * d.v_dim + e] =
                    element_get(d.o.data, d.o.dtype, (bhsd ? h * d.q_len + i : i * d.heads + h) * d.v_dim + e);
    free((void *)(uintptr_t)d.q.data), free((void *)(uintptr_t)d.k.data), free((void *)(uintptr_t)d.v.data), free(d.o.data);
    return s;
}
static void answer_free(answer *a) { free(a->cert), free(a->lse), free(a->o); }

/* The same sequence behind another one of a packed batch, whose rows and keys are shorter. */
static attn_status run_packed(const call *c, answer *a)
{
    attn_desc d = c->d;
    const int64_t q0 = number(1, 40), k0 = number(1, 60), tq = q0 + d.q_len, tk = k0 + d.kv_len;
    int32_t cu_q[3] = { 0, (int32_t)q0, (int32_t)tq }, cu_k[3] = { 0, (int32_t)k0, (int32_t)tk };
    const size_t row[3] = { (size_t)(d.heads * d.head_dim), (size_t)(d.kv_heads * d.head_dim), (size_t)(d.kv_heads * d.v_dim) };
    double *all[3] = { (double *)get((size_t)tq * row[0] * 8), (double *)get((size_t)tk * row[1] * 8), (double *)get((size_t)tk * row[2] * 8) };
    const double *from[3] = { c->q, c->k, c->v };
    const int64_t first[3] = { q0, k0, k0 }, len[3] = { d.q_len, d.kv_len, d.kv_len };
    for (int n = 0; n < 3; n++) {
        for (size_t i = 0; i < (size_t)first[n] * row[n]; i++) all[n][i] = normal();
        memcpy(all[n] + (size_t)first[n] * row[n], from[n], (size_t)len[n] * row[n] * 8);
    }
    d.batch = 2, d.seq.cu_q = cu_q, d.seq.cu_k = cu_k, d.seq.total_q = tq, d.seq.total_k = tk;
    d.q = tensor(all[0], tq, d.heads, d.head_dim, ATTN_F32, 0), d.k = tensor(all[1], tk, d.kv_heads, d.head_dim, ATTN_F32, 0);
    d.v = tensor(all[2], tk, d.kv_heads, d.v_dim, ATTN_F32, 0);
    float *o = (float *)get((size_t)(tq * d.heads * d.v_dim) * 4), *cert = (float *)get((size_t)(tq * d.heads) * 4);
    float *lse = (float *)get((size_t)(tq * d.heads) * 4);
    a->cert = (float *)get((size_t)(d.q_len * d.heads) * 4), a->lse = (float *)get((size_t)(d.q_len * d.heads) * 4);
    a->o = (double *)get((size_t)(d.q_len * d.heads * d.v_dim) * 8);
    d.o.data = o, d.cert = cert, d.lse = lse, d.backend = "adaptive", d.threads = 2;
    const attn_status s = attn_forward(&d);
    for (int64_t n = 0; n < d.q_len * d.heads * d.v_dim; n++) a->o[n] = (double)o[q0 * d.heads * d.v_dim + n];
    for (int64_t h = 0; h < d.heads; h++) {
        memcpy(a->cert + h * d.q_len, cert + h * tq + q0, (size_t)d.q_len * 4);
        memcpy(a->lse + h * d.q_len, lse + h * tq + q0, (size_t)d.q_len * 4);
    }
    for (int n = 0; n < 3; n++) free(all[n]);
    free((void *)(uintptr_t)d.q.data), free((void *)(uintptr_t)d.k.data), free((void *)(uintptr_t)d.v.data), free(o), free(cert), free(lse);
    return s;
}

/* The same sequence in pages, behind some that are not valid; its last keys are appended by the call, and rows behind its own are
 * unused. */
static attn_status run_paged(const call *c, answer *a)
{
    attn_desc d = c->d;
    const int64_t size = number(5, 90), gap = number(0, 9), fresh = number(1, 30), old = d.kv_len - fresh, more = number(0, 5);
    const int64_t per = (gap + d.kv_len + size - 1) / size, pages = per + 2, q = d.q_len + more;
    const int64_t k_row = d.kv_heads * d.head_dim, v_row = d.kv_heads * d.v_dim, rows = d.q_len * d.heads;
    int32_t used_q = (int32_t)d.q_len, used_k = (int32_t)(gap + old), start = (int32_t)gap, *table = (int32_t *)get((size_t)per * 4);
    float *k = (float *)get((size_t)(pages * size * k_row) * 4), *v = (float *)get((size_t)(pages * size * v_row) * 4);
    double *rest = (double *)get((size_t)(q * d.heads * d.head_dim) * 8);
    for (int64_t n = 0; n < per; n++) table[n] = (int32_t)(pages - 1 - n);
    for (int64_t j = 0; j < old; j++) {
        const int64_t to = table[(gap + j) / size] * size + (gap + j) % size;
        for (int64_t e = 0; e < k_row; e++) k[to * k_row + e] = (float)c->k[j * k_row + e];
        for (int64_t e = 0; e < v_row; e++) v[to * v_row + e] = (float)c->v[j * v_row + e];
    }
    for (int64_t n = 0; n < q * d.heads * d.head_dim; n++) rest[n] = n < rows * d.head_dim ? c->q[n] : 1;
    d.q = tensor(rest, q, d.heads, d.head_dim, ATTN_F32, 0), d.q_len = q, d.kv_len = per * size;
    d.append.k = tensor(c->k + old * k_row, fresh, d.kv_heads, d.head_dim, ATTN_F32, 0);
    d.append.v = tensor(c->v + old * v_row, fresh, d.kv_heads, d.v_dim, ATTN_F32, 0);
    d.k.data = d.append.k_cache = k, d.v.data = d.append.v_cache = v, d.append.len = fresh;
    d.seq.used_q = &used_q, d.seq.used_k = &used_k, d.seq.start_k = &start, d.seq.block_table = table;
    d.seq.page_size = size, d.seq.pages = pages, d.seq.max_pages = per;
    float *o = (float *)get((size_t)(q * d.heads * d.v_dim) * 4), *cert = (float *)get((size_t)(q * d.heads) * 4);
    float *lse = (float *)get((size_t)(q * d.heads) * 4);
    a->cert = (float *)get((size_t)rows * 4), a->lse = (float *)get((size_t)rows * 4), a->o = (double *)get((size_t)(rows * d.v_dim) * 8);
    d.o.data = o, d.cert = cert, d.lse = lse, d.backend = "adaptive", d.threads = 2;
    const attn_status s = attn_forward(&d);
    for (int64_t n = 0; n < rows * d.v_dim; n++) a->o[n] = (double)o[n];
    for (int64_t h = 0; h < d.heads; h++) {
        memcpy(a->cert + h * used_q, cert + h * q, (size_t)used_q * 4);
        memcpy(a->lse + h * used_q, lse + h * q, (size_t)used_q * 4);
    }
    free((void *)(uintptr_t)d.q.data), free((void *)(uintptr_t)d.append.k.data), free((void *)(uintptr_t)d.append.v.data);
    free(k), free(v), free(rest), free(table), free(o), free(cert), free(lse);
    return s;
}

/* ------------------------------------------------------------------------------------------------------- judging */
static char wrong[400];
#define WRONG(...) return snprintf(wrong, sizeof wrong, __VA_ARGS__), 0
/* Rows that do not see the key `without` (-1: all) have the same bits. */
static int same(const call *c, const answer *a, const answer *b, int64_t without, const char *what)
{
    const attn_desc *d = &c->d;
    for (int64_t i = 0; i < d->q_len; i++) {
        int64_t lo, hi;
        range_of(d, i, &lo, &hi);
        for (int64_t h = 0; h < d->heads && !(without >= lo && without < hi); h++) {
            const int64_t at = (i * d->heads + h) * d->v_dim, row = h * d->q_len + i;
            if (memcmp(a->o + at, b->o + at, (size_t)d->v_dim * 8)) WRONG("o of row %d, head %d differs %s", (int)i, (int)h, what);
            if (memcmp(a->cert + row, b->cert + row, 4)) WRONG("cert of row %d, head %d differs %s", (int)i, (int)h, what);
            if (memcmp(a->lse + row, b->lse + row, 4)) WRONG("lse of row %d, head %d differs %s", (int)i, (int)h, what);
        }
    }
    return 1;
}
static int same_again(const call *c, const answer *a, answer *b, attn_status s, int64_t without, const char *what)
{
    const int fine = s ? 0 : same(c, a, b, without, what);
    if (s) snprintf(wrong, sizeof wrong, "%s: %s", what, attn_status_text(s));
    answer_free(b);
    return fine;
}
typedef struct exact { double *o, *o_size, *pv, *lse_size; float *lse; } exact;
/* as the call decides; bounded by singular values too; keys are left out; the same, all of bf16, and no backend named */
enum { FROM_CODES, MANY, FILTERED, HOWS, CHOSEN = HOWS };
static int judge_row(const call *c, const answer *a, int how, const exact *x, int32_t type, int64_t i, int64_t h)
{
    const attn_desc *d = &c->d;
    const int64_t row = h * d->q_len + i, at = (i * d->heads + h) * d->v_dim;
    const double cert = (double)a->cert[row];
    double most = 0, all = 0, error = 0;
    int64_t lo, hi;
    range_of(d, i, &lo, &hi);
    for (int64_t j = 0; j < d->kv_len; j++) {
        const double size = c->most_v[j * d->kv_heads + h * d->kv_heads / d->heads];
        if (size > all) all = size;
        if (j >= lo && j < hi && size > most) most = size;
    }
    if (!cert_kept(a->cert[row], d->quantile > 0 ? INFINITY : cert_limit(d, most)))
        WRONG("row %d, head %d: cert %g, beyond the tolerance, %g", (int)i, (int)h, cert, cert_limit(d, most));
    for (int64_t e = 0; e < d->v_dim; e++) {
        const double got = a->o[at + e], want = x->o[at + e];
        const double off = absolute(got - want), rounded = allowed_o(type, want, x->o_size[at + e], x->pv[at + e], 0, all);
        /* a score of -infinity: no rule says how exact */
        if (is_finite(want) && c->hole >= lo && c->hole < hi && !is_finite(rounded)) continue;
        if (!element_right(got, want, cert + rounded))
            WRONG("row %d, head %d: o[%d] = %.9g, reference %.9g, off by %g, cert %g and rounding %g", (int)i, (int)h, (int)e, got, want,
                  off, cert, rounded);
        if (is_finite(want) && off - rounded > error) error = off - rounded;
    }
    if (is_finitef(x->lse[row]) && is_finite(x->lse_size[row])) {
        const double off = absolute((double)a->lse[row] - (double)x->lse[row]);
        const double allowed = (double)a->told.lse_error + allowed_lse((double)x->lse[row], x->lse_size[row]);
        if (!(off <= allowed)) WRONG("row %d, head %d: lse %.9g, reference %.9g, off by %g, told %g and rounding %g", (int)i, (int)h, (double)a->lse[row], (double)x->lse[row], off,
                                    (double)a->told.lse_error, allowed_lse((double)x->lse[row], x->lse_size[row]));
    }
    for (int k = 0; k < 3 && cert > 0; k++) {
        if (d->quantile != quantiles[k]) continue;
        sampled[k].rows++, sampled[k].beyond += error > cert_limit(d, most);
    }
    if (cert > 0 && how == CHOSEN) {
        chosen.rows++, chosen.left_out += a->told.tiles_skipped > 0;
        if (error / cert > chosen.tightest) chosen.tightest = error / cert;
    } else if (cert > 0 && how == FILTERED) {
        seen[c->kind].filtered++;
        if (error / cert > seen[c->kind].tightest_filtered) seen[c->kind].tightest_filtered = error / cert;
    } else if (cert > 0) {
        seen[c->kind].int16 += how == FROM_CODES;
        if (error / cert > seen[c->kind].tightest) seen[c->kind].tightest = error / cert;
        if (most > 0 && error / most > seen[c->kind].error) seen[c->kind].error = error / most;
        if (most > 0 && cert / most > seen[c->kind].cert) seen[c->kind].cert = cert / most;
    }
    return 1;
}
static int judge_told(const call *c, const answer *a, int how)
{
    const attn_desc *d = &c->d;
    const attn_statistics *t = &a->told;
    int64_t tiles = 0;
    for (int64_t i = 0; i < d->q_len; i++) {
        int64_t lo, hi;
        range_of(d, i, &lo, &hi);
        if (hi > lo) tiles += d->heads * ((hi + 127) / 128 - lo / 128);
    }
    const char *text = statistics_wrong(t, a->cert, d->q_len * d->heads, tiles);
    if (text) WRONG("%s", text);
    if (!(d->quantile > 0) && t->rows_sampled) WRONG("statistics: %d rows sampled, and no quantile", (int)t->rows_sampled);
    if (how == FILTERED) seen[c->kind].again += t->rows_redone;
    if (how < FILTERED && !t->why[0] != (t->tiles_int16 == tiles)) WRONG("statistics: %d of %d tiles are int16, and why: '%s'", (int)t->tiles_int16, (int)tiles, t->why);
    return 1;
}
/* The answers of the HOWS from `first` on. */
static int judge(const call *c, const int32_t *types, const answer *a, int first, int hows)
{
    attn_desc d = c->d;
    const int64_t rows = d.q_len * d.heads, n = rows * d.v_dim;
    exact x = { (double *)get((size_t)n * 8), (double *)get((size_t)n * 8), (double *)get((size_t)n * 8), (double *)get((size_t)rows * 8),
                (float *)get((size_t)rows * 4) };
    int fine = 1;
    for (int how = 0; how < hows && fine; how++) fine = judge_told(c, a + how, first + how);
    d.q = tensor(c->q, d.q_len, d.heads, d.head_dim, types[0], 0);
    d.k = tensor(c->k, d.kv_len, d.kv_heads, d.head_dim, types[1], 0);
    d.v = tensor(c->v, d.kv_len, d.kv_heads, d.v_dim, types[2], 0);
    d.o.data = x.o, d.o.dtype = ATTN_F64, d.lse = x.lse, d.backend = "reference";
    d.tolerance = d.quantile = 0, d.flags &= ~(uint32_t)ATTN_TOLERANCE_ABSOLUTE;
    if (attn_forward(&d) || unit_bounds(&d, x.o_size, x.pv, x.lse_size)) abort();
    for (int64_t i = 0; i < d.q_len && fine; i++)
        for (int64_t h = 0; h < d.heads && fine; h++)
            for (int how = 0; how < hows && fine; how++) fine = judge_row(c, a + how, first + how, &x, types[3], i, h);
    free((void *)(uintptr_t)d.q.data), free((void *)(uintptr_t)d.k.data), free((void *)(uintptr_t)d.v.data);
    free(x.o), free(x.o_size), free(x.pv), free(x.lse_size), free(x.lse);
    return fine;
}
static void as(int how) { unit_spectrum(how == MANY), unit_filter(how >= FILTERED); }
/* The call of bf16 as the automatic choice has it, where a processor with products of bf16 rounds P. Its data are bf16 then. */
static int chosen_right(call *c)
{
    static const int32_t types[4] = { ATTN_BF16, ATTN_BF16, ATTN_BF16, ATTN_BF16 };
    answer a, b;
    if (!(c->d.flags & ATTN_TOLERANCE_ABSOLUTE) && chance(70)) c->d.tolerance = 0.004f + 1e-4f * (float)number(0, 40);      /* hardly more than P costs */
    as(CHOSEN);
    attn_status s = run(c, types, NULL, 0, 2, &a);
    if (s) WRONG("of bf16: %s", attn_status_text(s));
    free(c->most_v);
    largest_v(c);
    int fine = judge(c, types, &a, CHOSEN, 1);
    if (fine) fine = same_again(c, &a, &b, run(c, types, NULL, 1, 3, &b), -1, "of bf16, in [B,H,S,D] with three threads");
    answer_free(&a);
    return fine;
}
/* Call `n`; whether it kept its promises. */
static int one(uint64_t seed, int64_t n)
{
    call c;
    answer all[HOWS], b;
    int32_t types[4] = { ATTN_F32, ATTN_F32, ATTN_F32, ATTN_F32 };
    state = seed * 1000003 + (uint64_t)n;
    draw(&c, n);
    const int plain = kinds[c.kind].even || chance(70);
    for (int i = 0; i < 4 && !plain && !kinds[c.kind].wide; i++) types[i] = (int32_t)number(ATTN_F32, ATTN_BF16);
    for (int how = 0; how < HOWS; how++) {
        as(how);
        const attn_status s = run(&c, types, "adaptive", 0, how ? 2 : 1, all + how);
        if (s) WRONG("%s", attn_status_text(s));
    }
    largest_v(&c);
    int fine = judge(&c, types, all, FROM_CODES, HOWS);
    const int again = (int)((c.round + c.kind) % HOWS);
    const answer a = all[again];
    as(again);
    if (fine) fine = same_again(&c, &a, &b, run(&c, types, "adaptive", 1, 3, &b), -1, "in [B,H,S,D] with three threads");
    if (fine && plain) fine = same_again(&c, &a, &b, run_packed(&c, &b), -1, "packed behind another sequence");
    if (fine && plain) fine = same_again(&c, &a, &b, run_paged(&c, &b), -1, "in pages, padded, appended to");
    if (fine && c.hole >= 0) {
        for (int64_t e = 0; e < c.d.head_dim; e++) if (!is_finite(k_at(&c, c.hole, 0)[e])) k_at(&c, c.hole, 0)[e] = 0;
        for (int64_t e = 0; e < c.d.v_dim; e++) if (!is_finite(v_at(&c, c.hole, 0)[e])) v_at(&c, c.hole, 0)[e] = 0;
        const attn_status s = run(&c, types, "adaptive", 0, 1, &b);
        if (!s && (a.told.rows_sampled || b.told.rows_sampled)) answer_free(&b);        /* spoiled rows are not compared: manual, 4 */
        else fine = same_again(&c, &a, &b, s, c.hole, "from a call with a 0 in that place");
    }
    if (fine && chance(50)) fine = chosen_right(&c);
    as(FROM_CODES);
    seen[c.kind].calls++, seen[c.kind].rows += c.d.q_len * c.d.heads;
    for (int how = 0; how < HOWS; how++) answer_free(all + how);
    free(c.q), free(c.k), free(c.v), free(c.most_v);
    return fine;
}
/* The bound of an eigenvalue beside the eigenvalue itself, by f64: rows of one direction, of few, of as many as there are dims. */
static int eigenvalue_right(uint64_t seed)
{
    enum { MOST_ROWS = 300, MOST_DIMS = 128 };
    static float X[MOST_ROWS * MOST_DIMS], room[2 * MOST_DIMS * MOST_DIMS];
    static double x[MOST_DIMS], next[MOST_ROWS];
    state = seed * 977 + 5;
    for (int n = 0; n < 120; n++) {
        const int64_t dims = 16 * number(1, MOST_DIMS / 16), rows = number(1, MOST_ROWS), rank = n % 3 ? number(1, 4) : dims;
        const double size = ldexp(1, (int)number(-20, 40));
        double largest = 0;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t c = 0; c < dims; c++) X[i * dims + c] = 0;
        for (int64_t k = 0; k < rank; k++) {
            for (int64_t c = 0; c < dims; c++) x[c] = normal();
            for (int64_t i = 0; i < rows; i++) {
                const double by = rank < dims ? normal() : i % dims == k;
                for (int64_t c = 0; c < dims; c++) X[i * dims + c] += (float)(size * by * x[c]);
            }
        }
        for (int64_t c = 0; c < dims; c++) x[c] = normal();
        for (int turn = 0; turn < 300; turn++) {        /* the power method */
            double length = 0;
            for (int64_t i = 0; i < rows; i++) {
                next[i] = 0;
                for (int64_t c = 0; c < dims; c++) next[i] += (double)X[i * dims + c] * x[c];
            }
            for (int64_t c = 0; c < dims; c++) {
                x[c] = 0;
                for (int64_t i = 0; i < rows; i++) x[c] += (double)X[i * dims + c] * next[i];
                length += x[c] * x[c];
            }
            largest = sqrt(length);
            for (int64_t c = 0; c < dims; c++) x[c] /= largest;
        }
        if (n % 4 == 1) {           /* the inverse of the matrix is too small for f32 */
            const double more = sqrt(ldexp(1.2, 126) / largest);
            for (int64_t i = 0; i < rows * dims; i++) X[i] = (float)((double)X[i] * more);
            largest *= more * more;
        }
        const double bound = unit_eigenvalue(X, rows, dims, room);
        if (!(bound >= largest * 0.99999 && (bound <= largest * 1.25 || n % 4 == 1)))
            WRONG("%d rows of %d dims: eigenvalue %g, at most %g", (int)rows, (int)dims, largest, bound);
    }
    return 1;
}
static int takes_none(void)
{
    static float x[400 * 8];
    attn_desc d;
    attn_plan plan;
    memset(&d, 0, sizeof d);
    d.batch = d.heads = 1, d.q_len = d.kv_len = 400, d.head_dim = 8, d.tolerance = 0.01f, d.backend = "adaptive";
    d.q.data = d.k.data = d.v.data = x, d.o.data = x;
    const attn_status s = attn_query(&d, NULL, &plan);
    if (s) printf("skipped: %s: %s\n", attn_isa(), plan.why);
    return s != ATTN_OK;
}

int main(int argc, char **argv)
{
    int64_t rows = 20000, only = -1, passed = 0, failed = 0, n = 0, int16 = 0;
    uint64_t seed = 1;
    int verbose = 0;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        if (!strcmp(argv[i], "--verbose")) verbose = 1;
        else if (!strcmp(argv[i], "--rows")) rows = atoll(value), i++;
        else if (!strcmp(argv[i], "--seed")) seed = (uint64_t)atoll(value), i++;
        else if (!strcmp(argv[i], "--case")) only = atoll(value), i++;
        else return fprintf(stderr, "adaptive: %s?\n", argv[i]), 2;
    }
    if (takes_none()) return printf("0 passed, 0 failed, 1 skipped\n"), 0;
    if (eigenvalue_right(seed)) passed++;
    else failed++, printf("FAILED: --seed %llu: %s\n", (unsigned long long)seed, wrong);
    for (n = only >= 0 ? only : 0; only >= 0 ? n == only : int16 < rows || n < 2 * KINDS; n++) {
        if (one(seed, n)) passed++;
        else if (failed++ < 10) printf("FAILED: --seed %llu --case %lld, %s: %s\n", (unsigned long long)seed, (long long)n, kinds[n % KINDS].name, wrong);
        int16 = 0;
        for (int k = 0; k < KINDS; k++) int16 += seen[k].int16;
        if (failed >= 10) break;
    }
    printf("| data | calls | rows | of int16 | largest err / max v | largest cert / max v | largest err / cert | with keys left out | redone | err / cert |\n");
    printf("|---|---|---|---|---|---|---|---|---|---|\n");
    for (int k = 0; k < KINDS; k++)
        printf("| %s | %lld | %lld | %lld | %.2e | %.2e | %.3f | %lld | %lld | %.3f |\n", kinds[k].name, (long long)seen[k].calls, (long long)seen[k].rows,
               (long long)seen[k].int16, seen[k].error, seen[k].cert, seen[k].tightest, (long long)seen[k].filtered, (long long)seen[k].again, seen[k].tightest_filtered);
    printf("%lld rows of bf16, as chosen, with a certificate, %lld of calls with keys left out; largest err / cert %.3f\n", (long long)chosen.rows, (long long)chosen.left_out,
           chosen.tightest);
    for (int k = 0; k < 3; k++) {
        const double beyond = sampled[k].rows ? (double)sampled[k].beyond / (double)sampled[k].rows : 0;
        printf("%lld rows of int16 with a quantile of %g, %.5f of them beyond the tolerance\n", (long long)sampled[k].rows, (double)quantiles[k], beyond);
        if (only < 0 && beyond > 1 - (double)quantiles[k] && ++failed) printf("FAILED: less than a share of %g within the tolerance\n", (double)quantiles[k]);
    }
    const int many = KINDS - 1;         /* a bound that is too large promises nothing either */
    if (only < 0 && 2 * seen[many].int16 < seen[many].rows && ++failed)
        printf("FAILED: %s: %lld of %lld rows from codes\n", kinds[many].name, (long long)seen[many].int16, (long long)seen[many].rows);
    for (int k = 0; k < 4 && only < 0; k++)
        if (20 * seen[k].again > seen[k].filtered && ++failed)
            printf("FAILED: %s: %lld rows redone, %lld not\n", kinds[k].name, (long long)seen[k].again, (long long)seen[k].filtered);
    for (int k = KINDS - 3; k < KINDS - 1 && only < 0; k++)
        if (10 * seen[k].filtered < 9 * seen[k].rows && ++failed)
            printf("FAILED: %s: %lld of %lld rows without light keys\n", kinds[k].name, (long long)seen[k].filtered, (long long)seen[k].rows);
    /* what no call computed from codes proves nothing */
    for (int k = 0; k < KINDS && only < 0 && !failed && rows >= 100000; k++)
        if (!seen[k].int16 && ++failed) printf("FAILED: %s: no row was computed from codes\n", kinds[k].name);
    if (verbose) printf("%s, %lld rows of int16\n", attn_isa(), (long long)int16);
    printf("%lld passed, %lld failed, 0 skipped\n", (long long)passed, (long long)failed);
    return failed != 0;
}
