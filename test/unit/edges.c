/* edges.c - values at the edge of f32, of memory and of validity, on every backend. */
#include "unit.h"
#include <fenv.h>
#include <float.h>
#include <sys/wait.h>
#include <unistd.h>

enum { B = 2, Q = 5, K = 300, D = 8 };
static float q[B * Q * D], k[B * K * D], v[B * K * D], o[B * Q * D], want[B * Q * D], lse[B * Q], dout[B * Q * D];
static const char *const fast[] = { "flash", "standard" };

static void normals(float *x, int64_t n, uint64_t seed)
{
    uint64_t r = seed;
    for (int64_t i = 0; i < n; i++) x[i] = (float)random_gauss(&r);
}

static attn_desc make(void)
{
    attn_desc d = { 0 };
    normals(q, B * Q * D, 1), normals(k, B * K * D, 2), normals(v, B * K * D, 3), normals(dout, B * Q * D, 4);
    d.batch = B, d.q_len = Q, d.kv_len = K, d.heads = 1, d.head_dim = D;
    d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o, d.lse = lse;
    return d;
}

static double apart(const float *a, const float *b, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double e = fabs((double)a[i] - (double)b[i]);
        if (!(e <= most)) most = e;                 /* a NaN stays */
    }
    return most;
}

/* forward by the reference and by each other backend */
static void compare(attn_desc d, double tolerance)
{
    static float want_lse[B * Q];
    d.backend = "reference";
    d.o.data = want;
    assert_int_equal(attn_forward(&d), ATTN_OK);
    memcpy(want_lse, lse, sizeof lse);
    d.o.data = o;
    for (int64_t i = 0; i < COUNT(fast); i++) {
        d.backend = fast[i];
        assert_int_equal(attn_forward(&d), ATTN_OK);
        assert_true(apart(o, want, B * Q * D) <= tolerance);
        for (int64_t r = 0; r < B * Q; r++) {
            assert_true(lse[r] > -INFINITY);
            assert_true(fabsf(lse[r] - want_lse[r]) <= 1e-6f * (1 + fabsf(want_lse[r])));
        }
    }
}

static void test_scale(void **state)
{
    static const float scales[] = { 1e-39f, 1e-30f, 1e-3f };
    (void)state;
    for (int64_t i = 0; i < COUNT(scales); i++) {
        attn_desc d = make();
        d.flags = ATTN_SCALE | ATTN_CAUSAL;
        d.scale = scales[i];
        compare(d, 1e-5);
    }
    attn_desc d = make();
    memset(q, 0, sizeof q);
    d.flags = ATTN_SCALE;
    d.scale = 3e38f;
    compare(d, 1e-5);
}

/* A scale below 1e-30, of products that are as large as it is small: with and without a softcap. */
static void test_tiny_scale(void **state)
{
    (void)state;
    for (int capped = 0; capped < 2; capped++) {
        attn_desc d = make();
        for (int64_t i = 0; i < B * Q * D; i++) q[i] *= 3e15f;
        for (int64_t i = 0; i < B * K * D; i++) k[i] *= 3e15f;
        d.flags = ATTN_SCALE;
        d.scale = 1e-31f;
        d.softcap = capped ? 1 : 0;
        compare(d, 1e-5);
    }
}

static void test_softcap(void **state)
{
    static const float caps[] = { 1e-45f, 1e-40f, FLT_MIN / 2, FLT_MIN, 1e-30f, 1e-3f, 1, 1e30f, 3e37f, FLT_MAX };
    (void)state;
    for (int64_t i = 0; i < COUNT(caps); i++) {
        attn_desc d = make();
        d.softcap = caps[i];
        compare(d, 1e-5);
    }
    static const struct { float q_and_k, scale, cap; } small[] = { { 1e6f, 1e-12f, 1e29f }, { 1e16f, 1e-32f, 1e26f }, { 1e15f, 1e-30f, 1e30f } };
    for (int n = 0; n < 3; n++) {               /* scale / softcap is subnormal, 2^63 times it too, the scores are not small */
        attn_desc d = make();
        for (int64_t i = 0; i < B * Q * D; i++) q[i] *= small[n].q_and_k;
        for (int64_t i = 0; i < B * K * D; i++) k[i] *= small[n].q_and_k;
        d.flags = ATTN_SCALE, d.scale = small[n].scale, d.softcap = small[n].cap;
        compare(d, 1e-5);
    }
}

/* A sink far from the scores: its power of 2, or theirs, is the more exact the less of the row it is. */
static void test_far_sink(void **state)
{
    (void)state;
    for (float at = -140; at <= 140; at += 4.7f) {
        static float sink[1];
        attn_desc d = make();
        sink[0] = at;
        for (int64_t i = 0; i < B * Q * D; i++) q[i] = 0;
        for (int64_t i = 0; i < B * K * D; i++) v[i] = fabsf(v[i]);
        d.sink = sink, d.backend = "reference", d.o.data = want;
        assert_int_equal(attn_forward(&d), ATTN_OK);
        d.o.data = o;
        for (int64_t b = 0; b < COUNT(fast); b++) {
            d.backend = fast[b];
            assert_int_equal(attn_forward(&d), ATTN_OK);
            for (int64_t i = 0; i < B * Q * D; i++)
                if (!(fabsf(o[i] - want[i]) <= 1e-6f * want[i] + 1e-36f)) fail_msg("%s, sink %g: %g, not %g", fast[b], (double)at, (double)o[i], (double)want[i]);
        }
    }
}

/* a whole row under a bias of -FLT_MAX still sees its keys */
static void test_lowest_bias(void **state)
{
    static float bias[K];
    (void)state;
    for (int64_t j = 0; j < K; j++) bias[j] = -FLT_MAX;
    attn_desc d = make();
    d.bias.data = bias;
    for (int a = 0; a < 3; a++) d.bias.stride[a] = ATTN_BROADCAST;
    compare(d, 1e-5);
}

/* dbias with dropout, where the first key of a sequence stands at any place */
static void test_dbias_dropout(void **state)
{
    static float bias[K], dbias[K], expected[K], dq[B * Q * D], dk[B * K * D], dv[B * K * D];
    (void)state;
    for (int32_t first = 0; first < 5; first++) {
        attn_desc d = make();
        attn_grad g = { 0 };
        int32_t start[B] = { first, 7 };
        normals(bias, K, 5);
        d.seq.start_k = start;
        d.bias.data = bias;
        for (int a = 0; a < 3; a++) d.bias.stride[a] = ATTN_BROADCAST;
        d.dropout = 0.5f, d.seed = 11;
        d.backend = "reference";
        assert_int_equal(attn_forward(&d), ATTN_OK);
        g.dout.data = dout, g.dq.data = dq, g.dk.data = dk, g.dv.data = dv, g.dbias = expected;
        assert_int_equal(attn_backward(&d, &g), ATTN_OK);
        g.dbias = dbias;
        for (int64_t i = 0; i < COUNT(fast); i++) {
            d.backend = fast[i];
            assert_int_equal(attn_backward(&d, &g), ATTN_OK);
            assert_true(apart(dbias, expected, K) < 1e-5);
        }
    }
}

/* A key whose random word is the rate itself, times 2^32, is kept, and dropped at the next larger rate. */
static void test_dropout_rate(void **state)
{
    enum { AT = 8, SEED = 7 };
    static const char *const all[] = { "reference", "flash", "standard" };
    static const uint32_t counter[4] = { AT / 4, 0, 0, 0 }, key[2] = { SEED, 0 };
    uint32_t word[4];
    (void)state;
    unit_philox(counter, key, word);
    const float rate = (float)(word[AT % 4] / 4294967296.0);
    assert_true((double)rate * 4294967296.0 == (double)word[AT % 4]);           /* exact in f32 */
    for (int n = 0; n < 3 * 2; n++) {
        const int kept = n % 2;
        attn_desc d = make();
        memset(q, 0, sizeof q), memset(k, 0, sizeof k), memset(v, 0, sizeof v);
        for (int c = 0; c < D; c++) v[AT * D + c] = K;
        d.batch = d.q_len = 1, d.dropout = kept ? rate : nextafterf(rate, 1), d.seed = SEED, d.backend = all[n / 2];
        assert_int_equal(attn_forward(&d), ATTN_OK);
        for (int c = 0; c < D; c++) assert_true(fabs((double)o[c] * (1 - (double)d.dropout) - kept) <= 1e-4);
    }
}

/* One row of bias for all heads and queries: its gradient is a long sum, added to a number that is large beside each term. */
static void test_shared_dbias(void **state)
{
    enum { ROWS = 2000, HEADS = 2, KEYS = 9, N = ROWS * HEADS * 8 };
    static float query[N], key[KEYS * HEADS * 8], value[KEYS * HEADS * 8], out[N], upper[N], sums[ROWS * HEADS], dq[N], dk[KEYS * HEADS * 8],
        dv[KEYS * HEADS * 8], bias[KEYS];
    float dbias[3][KEYS];
    attn_desc d = { 0 };
    attn_grad g = { 0 };
    (void)state;
    normals(query, N, 5), normals(key, COUNT(key), 6), normals(value, COUNT(value), 7), normals(upper, N, 8), normals(bias, KEYS, 9);
    d.batch = 1, d.q_len = ROWS, d.kv_len = KEYS, d.heads = HEADS, d.head_dim = 8;
    d.q.data = query, d.k.data = key, d.v.data = value, d.o.data = out, d.lse = sums;
    d.bias.data = bias;
    for (int a = 0; a < 3; a++) d.bias.stride[a] = ATTN_BROADCAST;
    assert_ok(attn_forward(&d));
    g.dout.data = upper, g.dq.data = dq, g.dk.data = dk, g.dv.data = dv;
    d.flags |= ATTN_ACCUMULATE;
    for (int n = 0; n < 3; n++) {
        for (int j = 0; j < KEYS; j++) dbias[n][j] = 4000;
        g.dbias = dbias[n];
        d.backend = n ? fast[n - 1] : "reference";
        assert_ok(attn_backward(&d, &g));
        assert_true(apart(dbias[n], dbias[0], KEYS) <= 4000 * 0x1p-23);
    }
}

/* Few rows add to what is in dk and dv, whose dims fill vectors: each gradient is 3 more than without ATTN_ACCUMULATE. */
static void test_few_added(void **state)
{
    enum { ROWS = 3, KEYS = 70, DIM = 64, N = KEYS * DIM };
    static float query[ROWS * DIM], key[N], value[N], out[ROWS * DIM], upper[ROWS * DIM], dq[2][ROWS * DIM], dk[2][N], dv[2][N];
    float sums[ROWS];
    (void)state;
    normals(query, ROWS * DIM, 30), normals(key, N, 31), normals(value, N, 32), normals(upper, ROWS * DIM, 33);
    for (int n = 0; n < 2; n++) {
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        d.batch = d.heads = 1, d.q_len = ROWS, d.kv_len = KEYS, d.head_dim = DIM, d.backend = "flash";
        d.q.data = query, d.k.data = key, d.v.data = value, d.o.data = out, d.lse = sums;
        assert_ok(attn_forward(&d));
        d.flags = n ? ATTN_ACCUMULATE : 0;
        for (int i = 0; i < N; i++) dk[n][i] = dv[n][i] = 3;
        for (int i = 0; i < ROWS * DIM; i++) dq[n][i] = 3;
        g.dout.data = upper, g.dq.data = dq[n], g.dk.data = dk[n], g.dv.data = dv[n];
        assert_ok(attn_backward(&d, &g));
    }
    for (int i = 0; i < N; i++) dk[0][i] += 3, dv[0][i] += 3;
    for (int i = 0; i < ROWS * DIM; i++) dq[0][i] += 3;
    assert_true(apart(dk[1], dk[0], N) <= 1e-6 && apart(dv[1], dv[0], N) <= 1e-6 && apart(dq[1], dq[0], ROWS * DIM) <= 1e-6);
}

/* an entry that reads a slot to which another one appends sees the appended key, whatever its place in the batch */
static void test_shared_slot(void **state)
{
    static float nk[D], nv[D];
    const int32_t used[B] = { 10, 9 }, slot[B] = { 0, 0 }, cu[B + 1] = { 0, 0, 1 };
    static const char *const all[] = { "reference", "flash", "standard" };
    (void)state;
    for (int64_t i = 0; i < COUNT(all); i++) {
        attn_desc d = make();
        normals(nk, D, 6), normals(nv, D, 7);
        d.seq.used_k = used, d.seq.slot = slot, d.seq.slots = 1;
        d.append.k.data = nk, d.append.v.data = nv, d.append.k_cache = k, d.append.v_cache = v;
        d.append.len = 1, d.append.cu = cu, d.append.total = 1;
        d.backend = all[i];
        assert_int_equal(attn_forward(&d), ATTN_OK);
        if (i == 0) memcpy(want, o, sizeof o);
        assert_true(apart(o, want, B * Q * D) < 1e-5);
    }
}

/* slots that lie one before the other are counted backwards, as those of a dense cache are forwards */
static void test_slots_backwards(void **state)
{
    enum { SLOTS = 4, KEYS = B * K / SLOTS };
    static const char *const all[] = { "reference", "flash", "standard" };
    (void)state;
    for (int32_t n = 0; n < 3 * SLOTS; n++) {
        const int32_t slot = n % SLOTS, behind = (SLOTS - 1) * KEYS * D;
        attn_desc d = make();
        d.batch = 1, d.kv_len = KEYS, d.backend = all[n / SLOTS], d.o.data = want;
        d.k.data = k + behind - slot * KEYS * D, d.v.data = v + behind - slot * KEYS * D;
        assert_int_equal(attn_forward(&d), ATTN_OK);
        d.seq.slot = &slot, d.seq.slots = SLOTS, d.k.data = k + behind, d.v.data = v + behind, d.o.data = o;
        d.k.stride[0] = d.v.stride[0] = -KEYS * D, d.k.stride[1] = d.k.stride[2] = d.v.stride[1] = d.v.stride[2] = D;
        assert_int_equal(attn_forward(&d), ATTN_OK);
        assert_memory_equal(o, want, Q * D * sizeof *o);
    }
}
/* new tokens of all sequences that lie one before the other, with at most one of each */
static void test_append_backwards(void **state)
{
    static const char *const all[] = { "reference", "flash", "standard" };
    static const int32_t used[B] = { 10, 9 }, cu[B + 1] = { 0, 1, 2 };
    static float fresh[2][3 * D];
    (void)state;
    normals(fresh[0], 3 * D, 6), normals(fresh[1], 3 * D, 7);
    for (int i = 0; i < 3; i++) {
        attn_desc d = make();
        d.seq.used_k = used, d.append.k_cache = k, d.append.v_cache = v, d.backend = all[i];
        d.append.k.data = fresh[0] + D, d.append.v.data = fresh[1] + D, d.append.cu = cu, d.append.len = 1, d.append.total = 2;
        d.append.k.stride[0] = d.append.v.stride[0] = 2 * D, d.append.k.stride[1] = d.append.v.stride[1] = -D, d.append.k.stride[2] = d.append.v.stride[2] = D;
        assert_int_equal(attn_forward(&d), ATTN_OK);
        for (int b = 0; b < B; b++) {
            assert_memory_equal(k + (b * K + used[b]) * D, fresh[0] + (1 - b) * D, D * sizeof *k);
            assert_memory_equal(v + (b * K + used[b]) * D, fresh[1] + (1 - b) * D, D * sizeof *v);
        }
    }
}

/* An entry without new tokens and rows has no position that could lie beyond the rotary tables. */
static void test_idle_rotary(void **state)
{
    static const char *const all[] = { "reference", "flash", "standard" };
    static const int32_t used_q[B] = { 0, 1 }, used_k[B] = { 100, 3 }, fresh[B + 1] = { 0, 0, 1 };
    static float table[8 * D / 2];
    (void)state;
    for (int i = 0; i < 3; i++) {
        attn_desc d = make();
        d.seq.used_q = used_q, d.seq.used_k = used_k, d.backend = all[i];
        d.append.k.data = d.append.v.data = dout, d.append.k_cache = k, d.append.v_cache = v, d.append.cu = fresh, d.append.len = d.append.total = 1;
        d.append.rotary_cos = d.append.rotary_sin = table, d.append.rotary_dim = D, d.append.rotary_rows = 8;
        assert_int_equal(attn_forward(&d), ATTN_OK);
        d.append.rotary_rows = 3;
        assert_int_equal(attn_forward(&d), ATTN_ERR_ROTARY_ROWS);
    }
}

/* what an append writes has the same bits from every backend: values that two roundings would spoil, infinities, NaNs of any
 * payload, rotated in whole, in part or not at all */
/* A scale that would be subnormal is 0, and so are the codes, whoever writes the cache. */
static void test_append_tiny(void **state)
{
    static const char *const all[] = { "reference", "flash", "standard" };
    static const int32_t types[] = { ATTN_INT8, ATTN_FP8_E4M3 }, used[1] = { 0 };
    float fresh[D], rest[D];
    (void)state;
    for (int n = 0; n < 2 * 3 * 2; n++) {
        const int tiny = n / 6;
        unsigned char cache[2][D];
        float scale[2] = { 9, 9 };
        attn_desc d = make();
        for (int e = 0; e < D; e++) fresh[e] = (float)(e - 3) * (tiny ? 0x1p-124f : 0x1p-110f);
        memset(cache, 77, sizeof cache);
        d.batch = d.heads = d.kv_heads = d.q_len = d.kv_len = 1, d.backend = all[n / 2 % 3], d.o.data = rest, d.seq.used_k = used;
        d.k.data = cache[0], d.v.data = cache[1], d.k.dtype = d.v.dtype = types[n % 2], d.k.scale = scale, d.v.scale = scale + 1;
        d.append.len = 1, d.append.k.data = d.append.v.data = fresh, d.append.k_cache = cache[0], d.append.v_cache = cache[1];
        d.append.k_scale = scale, d.append.v_scale = scale + 1;
        assert_int_equal(attn_forward(&d), ATTN_OK);
        for (int t = 0; t < 2; t++) {
            for (int e = 0; e < D; e++) assert_int_equal(cache[t][e] != 0, !tiny && e != 3);
            assert_true(tiny ? scale[t] == 0 : scale[t] > 0);
        }
    }
}
/* A scale follows from its own row alone, of any number of dims: not from the head behind it, which is larger. */
static void test_append_tail(void **state)
{
    enum { DIM = 12 };
    static const char *const all[] = { "flash", "standard" };
    static const int32_t types[] = { ATTN_INT8, ATTN_FP8_E4M3 }, used[1] = { 0 };
    float query[2 * DIM] = { 0 }, out[2 * DIM];
    (void)state;
    for (int n = 0; n < 4 * 2 * 2; n++) {
        double fresh[2 * DIM];
        unsigned char cache[2][2 * DIM];
        float scale[2][2];
        attn_desc d = { 0 };
        for (int i = 0; i < 2 * DIM; i++) element_put(fresh, n % 4, i, i < DIM ? (i == 5 ? -2 : 1) : 1000);
        d.batch = d.q_len = d.kv_len = 1, d.heads = 2, d.head_dim = DIM, d.backend = all[n / 4 % 2], d.q.data = query, d.o.data = out, d.seq.used_k = used;
        d.k.data = cache[0], d.v.data = cache[1], d.k.dtype = d.v.dtype = types[n / 8], d.k.scale = scale[0], d.v.scale = scale[1];
        d.append.len = 1, d.append.k.data = d.append.v.data = fresh, d.append.k.dtype = d.append.v.dtype = n % 4;
        d.append.k_cache = cache[0], d.append.v_cache = cache[1], d.append.k_scale = scale[0], d.append.v_scale = scale[1];
        assert_int_equal(attn_forward(&d), ATTN_OK);
        for (int i = 0; i < 4; i++) assert_true(scale[i / 2][i % 2] == (i % 2 ? 1000.0f : 2.0f) / (n / 8 ? 448 : 127));
    }
}
static void test_append_bits(void **state)
{
    enum { T = 3, BYTES = T * D * 8 };
    static const double hard[T][D] = {
        { 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11 - 0x1p-40, -1 - 0x1p-8 - 0x1p-40, 3 + 0x1p-7 - 0x1p-45, 0x1p-25 + 0x1p-60, 0x1p-24 + 0x1p-25 - 0x1p-55,
          65520 - 0x1p-30, -0x1p-133 },
        { 1e300, -1e300, 1e-300, INFINITY, 3.4e38, -3.4e38, 0x1.fffffefp127, -0.0 },
        { 1, 2, 3, 4, 5, 6, 7, 8 },
    };
    static const int32_t used[1] = { 0 };
    static const char *const all[] = { "reference", "flash", "standard" };
    float cosine[T * D / 2], sine[T * D / 2];
    normals(cosine, T * D / 2, 8), normals(sine, T * D / 2, 9);
    (void)state;
    for (int fresh = ATTN_F32; fresh <= ATTN_F64; fresh++)
        for (int cached = ATTN_F32; cached <= ATTN_FP8_E4M3; cached++)
            for (int64_t rotary = 0; rotary <= D && cached != ATTN_F64; rotary += 4) {
                unsigned char rows[BYTES], cache[2][BYTES], expected[2][BYTES];
                float scale[2][T], scales[2][T];
                const size_t size = fresh == ATTN_F64 ? 8 : fresh == ATTN_F32 ? 4 : 2;
                memcpy(rows, hard, sizeof hard);
                if (fresh != ATTN_F64) {
                    const int64_t shape[4] = { 1, T, 1, D };
                    assert_int_equal(attn_convert(shape, (attn_in){ .data = hard, .dtype = ATTN_F64 }, (attn_out){ .data = rows, .dtype = fresh }, NULL), ATTN_OK);
                }
                memset(rows + (2 * D + 1) * size, 255, size);               /* negative, all of its payload */
                memset(rows + (2 * D + 6) * size, 127, size);
                rows[(2 * D + 6) * size] = 1;
                if (fresh == ATTN_BF16) rows[(2 * D + 6) * size] = 129;     /* 7f01 were a number */
                for (int64_t i = 0; i < COUNT(all); i++) {
                    attn_desc d = make();
                    memset(cache, 0, sizeof cache), memset(scale, 0, sizeof scale);
                    d.batch = 1, d.kv_len = T, d.q_len = 1, d.seq.used_k = used, d.backend = all[i];
                    if (cached < ATTN_F64) d.q.dtype = cached;               /* its values do not matter here */
                    d.k.data = d.append.k_cache = cache[0], d.v.data = d.append.v_cache = cache[1], d.k.dtype = d.v.dtype = cached;
                    if (cached > ATTN_F64) d.k.scale = d.append.k_scale = scale[0], d.v.scale = d.append.v_scale = scale[1];
                    d.append.k.data = d.append.v.data = rows, d.append.k.dtype = d.append.v.dtype = fresh, d.append.len = T;
                    if (rotary) d.append.rotary_cos = cosine, d.append.rotary_sin = sine, d.append.rotary_dim = rotary, d.append.rotary_rows = T;
                    assert_int_equal(attn_forward(&d), ATTN_OK);
                    if (i == 0) memcpy(expected, cache, sizeof cache), memcpy(scales, scale, sizeof scale);
                    if (memcmp(cache, expected, sizeof cache) || memcmp(scale, scales, sizeof scale))
                        fail_msg("%s: dtype %d into a cache of dtype %d, rotary_dim %d: other bits than the reference's", all[i], fresh, cached, (int)rotary);
                }
            }
}

/* A sink of +infinity, or one that is no number: the same lse from every backend, of rows without keys the sink itself. */
static void test_infinite_sink(void **state)
{
    static const char *const all[] = { "reference", "flash", "standard" };
    enum { ROWS = 8, KEYS = 5, DIM = 16 };
    static float qs[ROWS * DIM], ks[KEYS * DIM], os[ROWS * DIM], told[ROWS];
    float sink[1];
    (void)state;
    for (int i = 0; i < ROWS * DIM; i++) qs[i] = (float)(i % 7) - 3;
    for (int i = 0; i < KEYS * DIM; i++) ks[i] = (float)(i % 5) - 2;
    for (int b = 0; b < COUNT(all); b++)
        for (int n = 0; n < 2; n++) {
            attn_desc d = { 0 };
            sink[0] = n ? NAN : INFINITY;
            d.batch = d.heads = 1, d.q_len = ROWS, d.kv_len = KEYS, d.head_dim = DIM, d.flags = ATTN_CAUSAL;       /* 3 rows see no key */
            d.q.data = qs, d.k.data = d.v.data = ks, d.o.data = os, d.lse = told, d.sink = sink, d.backend = all[b];
            assert_ok(attn_forward(&d));
            for (int r = 0; r < ROWS; r++)
                if (r < ROWS - KEYS && !n ? !(told[r] == INFINITY) : !isnan(told[r])) fail_msg("%s, sink %g, row %d: %g", all[b], (double)sink[0], r, (double)told[r]);
        }
}
/* A sink for each head of a group, of which some rows see no key: their lse is that of their own head. */
static void test_sinks_of_heads(void **state)
{
    enum { HEADS = 6, KV_HEADS = 2, ROWS = 5, KEYS = 3, DIM = 4 };
    static const char *const all[] = { "reference", "flash", "standard" };
    static const float sink[HEADS] = { 0.5f, -1, 2, 1.5f, -0.25f, 3 };
    static float qs[ROWS * HEADS * DIM], ks[KEYS * KV_HEADS * DIM], os[3][ROWS * HEADS * DIM], told[3][HEADS * ROWS];
    (void)state;
    normals(qs, COUNT(qs), 21), normals(ks, COUNT(ks), 22);
    for (int b = 0; b < 3; b++) {
        attn_desc d = { 0 };
        d.batch = 1, d.heads = HEADS, d.kv_heads = KV_HEADS, d.q_len = ROWS, d.kv_len = KEYS, d.head_dim = DIM, d.flags = ATTN_CAUSAL, d.backend = all[b];
        d.q.data = qs, d.k.data = d.v.data = ks, d.o.data = os[b], d.lse = told[b], d.sink = sink;
        assert_ok(attn_forward(&d));
        for (int64_t i = 0; i < HEADS * ROWS; i++)
            if (i % ROWS < ROWS - KEYS ? told[b][i] != sink[i / ROWS] : !(fabsf(told[b][i] - told[0][i]) <= 1e-6f * (1 + fabsf(told[0][i]))))
                fail_msg("%s, head %d, row %d: lse is %g", all[b], (int)(i / ROWS), (int)(i % ROWS), (double)told[b][i]);
        for (int64_t i = 0; i < COUNT(qs); i++) assert_true(fabsf(os[b][i] - os[0][i]) <= 1e-6f);
    }
}
/* a sink of -infinity and a row without keys: no gradient, and no NaN */
static void test_empty_sink(void **state)
{
    static float dq[B * Q * D], dk[1], dv[1], dsink[1];
    static const float sink[1] = { -INFINITY };
    static const char *const all[] = { "reference", "flash", "standard" };
    (void)state;
    for (int64_t i = 0; i < COUNT(all); i++) {
        attn_desc d = make();
        attn_grad g = { 0 };
        d.kv_len = 0, d.sink = sink, d.backend = all[i];
        assert_int_equal(attn_forward(&d), ATTN_OK);
        g.dout.data = dout, g.dq.data = dq, g.dk.data = dk, g.dv.data = dv, g.dsink = dsink;
        dsink[0] = 5;
        assert_int_equal(attn_backward(&d, &g), ATTN_OK);
        assert_true(dsink[0] == 0);
    }
}

/* dbias and dsink of heads in groups, however the bias is shared, with softcap, with a multiplier for each head, and with lengths behind which dlse is no 0 */
static void test_grouped_dbias(void **state)
{
    enum { ROWS = 5, KEYS = 20, HEADS = 6, KV_HEADS = 2, DIM = 16, N = B * ROWS * HEADS * DIM, KV = B * KEYS * KV_HEADS * DIM, MOST = B * HEADS * ROWS * KEYS };
    static float query[N], key[KV], value[KV], out[N], sums[B * HEADS * ROWS], upper[N], above[B * HEADS * ROWS], dq[N], dk[KV], dv[KV], bias[MOST], sink[HEADS];
    static float dbias[3][MOST], dsink[3][HEADS];
    static const int32_t used_q[B] = { ROWS - 2, ROWS };
    static const float times[HEADS] = { 0.5f, -1, 1, 0.25f, 0, -0.75f };
    (void)state;
    normals(query, N, 10), normals(key, KV, 11), normals(value, KV, 12), normals(upper, N, 13), normals(above, COUNT(above), 14), normals(bias, MOST, 15), normals(sink, HEADS, 16);
    for (int n = 0; n < 16; n++) {
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        d.batch = B, d.q_len = ROWS, d.kv_len = KEYS, d.heads = HEADS, d.kv_heads = KV_HEADS, d.head_dim = DIM;
        d.q.data = query, d.k.data = key, d.v.data = value, d.o.data = out, d.lse = sums, d.sink = sink, d.softcap = n & 1 ? 1.5f : 0, d.seq.used_q = used_q;
        d.bias.data = bias, d.bias.stride[0] = n & 1 ? HEADS * ROWS * KEYS : ATTN_BROADCAST, d.bias.stride[1] = n & 2 ? ROWS * KEYS : ATTN_BROADCAST, d.bias.stride[2] = n & 4 ? KEYS : ATTN_BROADCAST;
        if (n & 8) d.bias_scale = times;
        g.dout.data = upper, g.dlse = above, g.dq.data = dq, g.dk.data = dk, g.dv.data = dv;
        for (int b = 0; b < 3; b++) {
            d.backend = b ? fast[b - 1] : "reference";
            assert_ok(attn_forward(&d));
            for (int64_t i = 0; i < MOST; i++) dbias[b][i] = 3;         /* and what is no element of it stays */
            g.dbias = dbias[b], g.dsink = dsink[b];
            assert_ok(attn_backward(&d, &g));
            if (!(apart(dbias[b], dbias[0], MOST) <= 1e-5)) fail_msg("%s, bias shared %d: dbias is off by %g", d.backend, n, apart(dbias[b], dbias[0], MOST));
            if (!(apart(dsink[b], dsink[0], HEADS) <= 1e-5)) fail_msg("%s, bias shared %d: dsink is off by %g", d.backend, n, apart(dsink[b], dsink[0], HEADS));
        }
    }
}
/* gradients of a bias that sequences share, or do not, by whatever way so many threads compute it: the same bits, in its rows alone, and right */
static void test_dbias_of_threads(void **state)
{
    enum { BATCH = 4, ROWS = 70, KEYS = 140, GAP = KEYS + 5, HEADS = 6, KV_HEADS = 3, DIM = 16, N = BATCH * ROWS * HEADS * DIM, KV = BATCH * KEYS * KV_HEADS * DIM, MOST = BATCH * HEADS * ROWS * GAP };
    static const int32_t used_q[BATCH] = { ROWS - 2, 1, 0, ROWS }, start_k[BATCH] = { 0, 35, 7, 3 }, used_k[BATCH] = { KEYS, KEYS - 10, 50, 3 };
    static const int32_t cu_q[BATCH + 1] = { 0, 9, 9, 10, 10 + ROWS };
    static const float times[HEADS] = { 0.5f, -1, 1, 0.25f, 0, -0.75f };
    static const int32_t threads[] = { 1, 2, 3, 7, 16 };
    static float query[N], key[KV], value[KV], out[N], sums[BATCH * HEADS * ROWS], upper[N], bias[MOST], dbias[2][MOST], dq[2][N], dk[2][KV], dv[2][KV];
    (void)state;
    normals(query, N, 20), normals(key, KV, 21), normals(value, KV, 22), normals(upper, N, 23), normals(bias, MOST, 24);
    for (int n = 0; n < 128; n++) {
        if (n >= 32 && n % 3) continue;
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        d.batch = BATCH, d.q_len = ROWS, d.kv_len = KEYS, d.heads = HEADS, d.kv_heads = KV_HEADS, d.head_dim = DIM, d.seq.used_q = used_q;
        d.q.data = query, d.k.data = key, d.v.data = value, d.o.data = out, d.lse = sums, d.softcap = n & 4 ? 1.5f : 0;
        d.bias.data = bias, d.bias.stride[0] = n & 1 ? HEADS * ROWS * GAP : ATTN_BROADCAST, d.bias.stride[1] = ROWS * GAP, d.bias.stride[2] = GAP;
        if (n & 8) d.seq.start_k = start_k, d.seq.used_k = used_k, d.bias_scale = times;
        if (n & 16) d.flags |= ATTN_CAUSAL;
        if (n & 32) d.seq.cu_q = cu_q, d.seq.total_q = 10 + ROWS, d.seq.used_q = NULL;
        if (n & 64) d.bias.stride[0] /= n & 1 ? ROWS : 1, d.bias.stride[1] = GAP, d.bias.stride[2] = ATTN_BROADCAST;
        g.dout.data = upper;
        assert_ok(attn_forward(&d));
        if (n & 2) d.flags |= ATTN_ACCUMULATE;
        for (int t = -1; t < COUNT(threads); t++) {                     /* -1: the reference; 0: what the others must be */
            const attn_pool pool = { backwards, NULL, t < 0 ? 1 : threads[t] };
            const int to = t != 0;
            for (int64_t i = 0; i < MOST; i++) dbias[to][i] = 3;
            for (int64_t i = 0; i < N; i++) dq[to][i] = 3;
            for (int64_t i = 0; i < KV; i++) dk[to][i] = dv[to][i] = 3;
            d.backend = t < 0 ? "reference" : "flash", d.pool = t < 0 ? NULL : &pool;
            g.dq.data = dq[to], g.dk.data = dk[to], g.dv.data = dv[to], g.dbias = dbias[to];
            assert_ok(attn_backward(&d, &g));
            for (int64_t i = 0; i < MOST; i++)
                if (i % GAP >= KEYS && dbias[to][i] != 3) fail_msg("%d, %d threads: %g between rows of dbias", n, pool.threads, (double)dbias[to][i]);
            if (t == 0 && !(apart(dbias[0], dbias[1], MOST) <= 1e-4)) fail_msg("%d: dbias is off by %g", n, apart(dbias[0], dbias[1], MOST));
            if (t <= 0) continue;
            if (memcmp(dbias[0], dbias[1], sizeof dbias[0]) != 0) fail_msg("%d: dbias of %d threads has other bits", n, pool.threads);
            if (memcmp(dq[0], dq[1], sizeof dq[0]) != 0 || memcmp(dk[0], dk[1], sizeof dk[0]) != 0 || memcmp(dv[0], dv[1], sizeof dv[0]) != 0)
                fail_msg("%d: gradients of %d threads have other bits", n, pool.threads);
        }
    }
}
/* one key with a bias that f32 does not hold, or with none: the row has its value whatever that is, and nothing where it is hidden */
static void test_bias_alone(void **state)
{
    static const double of[] = { -1e300, 1e300, -1.7976931348623157e308, 1.7976931348623157e308, -3.5e38, -INFINITY };
    static const char *const all[] = { "reference", "flash", "standard" };
    (void)state;
    for (int n = 0; n < 3 * COUNT(of); n++) {
        const double *one = &of[n / 3];
        attn_desc d = make();
        d.batch = d.q_len = d.kv_len = 1, d.bias.data = one, d.bias.dtype = ATTN_F64, d.backend = all[n % 3];
        assert_ok(attn_forward(&d));
        for (int c = 0; c < D; c++)
            if (o[c] != (*one > -INFINITY ? v[c] : 0)) fail_msg("%s, bias %g: o is %g, not %g", d.backend, *one, (double)o[c], (double)v[c]);
        if ((lse[0] == -INFINITY) != (*one == -INFINITY) || isnan(lse[0])) fail_msg("%s, bias %g: lse %g", d.backend, *one, (double)lse[0]);
    }
}
/* scales of k and of v that an append writes with strides of their own */
static void test_append_scales(void **state)
{
    enum { TOKENS = 4, HEADS = 2, DIM = 16, N = TOKENS * HEADS * DIM };
    static const char *const all[] = { "reference", "flash", "standard" };
    static const int32_t none[1] = { 0 };
    static int8_t codes[2][N];
    static float fresh[2][N], scale[2][TOKENS * HEADS], out[HEADS * DIM];
    (void)state;
    for (int i = 0; i < N; i++) fresh[0][i] = 127.0f * (float)(1 + i / DIM), fresh[1][i] = 127.0f * (float)(20 + i / DIM);
    for (int n = 0; n < 3 * 4; n++) {
        attn_desc d = { 0 };
        d.batch = 1, d.kv_len = TOKENS, d.heads = HEADS, d.head_dim = DIM, d.k.data = codes[0], d.v.data = codes[1], d.k.dtype = d.v.dtype = ATTN_INT8, d.seq.used_k = none;
        d.q.data = q, d.o.data = out, d.backend = all[n / 4];
        d.k.scale = scale[0], d.v.scale = scale[1], d.append.k_scale = scale[0], d.append.v_scale = scale[1];
        for (int k_or_v = 0; k_or_v < 2; k_or_v++) {
            attn_in *t = k_or_v ? &d.v : &d.k;
            t->scale_stride[0] = TOKENS * HEADS, t->scale_stride[1] = n >> k_or_v & 1 ? 1 : HEADS, t->scale_stride[2] = n >> k_or_v & 1 ? TOKENS : 1;
        }
        d.append.k.data = fresh[0], d.append.v.data = fresh[1], d.append.k_cache = codes[0], d.append.v_cache = codes[1], d.append.len = TOKENS;
        assert_ok(attn_forward(&d));
        for (int i = 0; i < 2 * TOKENS * HEADS; i++) {
            const int v_of = i / (TOKENS * HEADS), t = i / HEADS % TOKENS, h = i % HEADS;
            const float right = (float)(1 + 19 * v_of + t * HEADS + h), is = scale[v_of][n >> v_of & 1 ? h * TOKENS + t : t * HEADS + h];
            if (is != right) fail_msg("%s, strides %d: scale of %c, token %d, head %d is %g, not %g", d.backend, n % 4, v_of ? 'v' : 'k', t, h, (double)is, (double)right);
        }
    }
}
/* without queries, or sequences, dbias stays as it is, however its bias is shared */
static void test_no_queries(void **state)
{
    static const char *const all[] = { "reference", "flash", "standard" };
    static const float bias[B * Q * K];
    static float dbias[B * Q * K], dk[B * K * D], dv[B * K * D];
    (void)state;
    for (int n = 0; n < 6 * 8; n++) {
        attn_desc d = make();
        attn_grad g = { 0 };
        const int64_t of[] = { n & 1 ? Q * K : ATTN_BROADCAST, n & 2 ? Q * K : ATTN_BROADCAST, n & 4 ? K : ATTN_BROADCAST };
        if (n < 24) d.q_len = 0;
        else d.batch = 0, g.dout.data = dout, g.dq.data = o;
        d.bias.data = bias, d.backend = all[n / 8 % 3], memcpy(d.bias.stride, of, sizeof of);
        for (int64_t i = 0; i < COUNT(dbias); i++) dbias[i] = 3;
        g.dk.data = dk, g.dv.data = dv, g.dbias = dbias;
        assert_int_equal(attn_backward(&d, &g), ATTN_OK);
        for (int64_t i = 0; i < COUNT(dbias); i++) assert_true(dbias[i] == 3);
    }
}
/* in a process that lets floating point exceptions trap, values that are hidden and not finite raise none */
static void test_traps(void **state)
{
    (void)state;
#if defined(__GLIBC__) && defined(__x86_64__)
    enum { N = 64, DIM = 32 };
    static float x[N * DIM], value[N * DIM], out[N * DIM], sums[N], grads[3][N * DIM];
    static unsigned char hide[N * N];
    static const char *const all[] = { "flash", "standard", "reference" };
    for (int64_t i = 0; i < N * DIM; i++) x[i] = value[i] = (float)(i % 17) - 8;
    for (int64_t i = 0; i < N * N; i++) hide[i] = i % N > 3 && i / N != 5;
    value[0] = INFINITY, value[DIM + 1] = 3e38f;
    for (int n = 0; n < 3; n++) {
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        d.batch = d.heads = 1, d.q_len = d.kv_len = N, d.head_dim = DIM, d.threads = 1, d.backend = all[n];
        d.q.data = d.k.data = x, d.v.data = value, d.o.data = out, d.lse = sums, d.mask.data = hide, d.mask.dtype = ATTN_BOOL;
        g.dout.data = x, g.dq.data = grads[0], g.dk.data = grads[1], g.dv.data = grads[2];
        assert_true(feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW) >= 0);
        const attn_status forward = attn_forward(&d), backward = attn_backward(&d, &g);
        const int left = fegetexcept();
        fedisableexcept(FE_ALL_EXCEPT);
        assert_ok(forward), assert_ok(backward);
        assert_int_equal(left, FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
    }
#else
    skip();
#endif
}

/* sizes that no memory holds are refused before any sum of theirs overflows */
static void test_huge(void **state)
{
    attn_plan plan;
    (void)state;
    attn_desc d = make();
    d.head_dim = (int64_t)1 << 58;
    assert_int_equal(attn_query(&d, NULL, &plan), ATTN_ERR_OVERFLOW);
    d = make();
    d.kv_len = (int64_t)283796062672454640;
    for (int a = 0; a < 3; a++) d.k.stride[a] = d.v.stride[a] = ATTN_BROADCAST;
    assert_int_equal(attn_query(&d, NULL, &plan), ATTN_ERR_OVERFLOW);
    d = make();
    d.head_dim = 4, d.kv_len = INT64_MAX / (72 * 30);        /* 40 bytes for each of 72 elements of a key are too many, 20 were not */
    for (int a = 0; a < 3; a++) d.k.stride[a] = d.v.stride[a] = ATTN_BROADCAST;
    assert_int_equal(attn_query(&d, NULL, &plan), ATTN_ERR_OVERFLOW);
    d = make();
    d.q_len = (int64_t)1 << 55;
    assert_int_equal(attn_query(&d, NULL, &plan), ATTN_ERR_OVERFLOW);
}

static void nothing(void *user) { (void)user; }
static void stop(void *user) { (void)user; _exit(7); }

static void test_many_iterations(void **state)
{
    attn_timing t;
    attn_timing_opts few = { 0 }, many = { 0 };
    int status = 0;
    (void)state;
    few.iterations = 200000;
    assert_int_equal(attn_time(nothing, NULL, &few, &t), ATTN_OK);
    assert_int_equal(t.n, 200000);
    many.iterations = (int64_t)1 << 61;             /* begins, with no memory for all of them */
    pid_t child = fork();
    if (!child) {
        attn_time(stop, NULL, &many, &t);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* a table may hold anything for pages wholly before the first valid key */
static void test_freed_pages(void **state)
{
    const int32_t table[B][4] = { { -1, 0, 1, 2 }, { -1, -1, 3, 4 } }, used[B] = { 16, 15 }, start[B] = { 4, 9 };
    attn_desc d = make();
    (void)state;
    d.kv_len = 16;
    d.seq.block_table = &table[0][0], d.seq.page_size = 4, d.seq.pages = 5, d.seq.max_pages = 4;
    d.seq.used_k = used, d.seq.start_k = start;
    compare(d, 1e-5);
    const int32_t early[B] = { 3, 9 };
    d.seq.start_k = early;
    assert_int_equal(attn_forward(&d), ATTN_ERR_PAGE_RANGE);
    /* and where no key is left, in the midst of a page too */
    const int32_t none[B] = { 3, 0 };
    d.seq.used_k = d.seq.start_k = none;
    assert_int_equal(attn_forward(&d), ATTN_OK);
    const int32_t one[B] = { 3, 1 };
    d.seq.used_k = one;
    assert_int_equal(attn_forward(&d), ATTN_ERR_PAGE_RANGE);
}

static void query(void *arg, int64_t i)
{
    attn_plan plan;
    attn_desc d = make();
    (void)i;
    d.batch = 1, d.head_dim = 1, d.q_len = 1008, d.kv_len = 520, d.threads = 2, d.o.data = NULL;
    assert_int_equal(attn_query(&d, NULL, &plan), ATTN_OK);
    *(size_t *)arg = plan.workspace_size;
}
/* the workspace never shrinks as a length grows */
static void workspace_bounded(void)
{
    for (int64_t length = 1, last = 0; length < 5000; length += 37) {
        attn_plan plan;
        attn_desc d = make();
        d.batch = 1, d.q_len = 1008, d.kv_len = length, d.threads = 2;
        assert_int_equal(attn_query(&d, NULL, &plan), ATTN_OK);
        assert_true((int64_t)plan.workspace_size >= last);
        last = (int64_t)plan.workspace_size;
    }
    /* nor where the keys get too many for one sum in f32: 16 blocks; queries of other types are packed */
    static const int64_t wide[] = { 8, 64, 128, 256, 512 }, many[] = { 1, 40, 200, 1008, 5000 };
    for (int n = 0; n < 5 * 5 * 2; n += SLOW ? 7 : 1) {
        size_t last = 0;
        for (int64_t length = 1024; length < 40000; length += length % 2 ? 1023 : 1) {
            attn_plan plan;
            attn_desc d = make();
            d.batch = 1, d.q_len = many[n / 5 % 5], d.kv_len = length, d.head_dim = wide[n % 5], d.threads = 1, d.backend = "flash";
            d.q.dtype = n < 5 * 5 ? ATTN_F32 : ATTN_F16;
            assert_int_equal(attn_query(&d, NULL, &plan), ATTN_OK);
            if (plan.workspace_size < last) fail_msg("%d queries, %d keys, dim %d: %d bytes, %d before", (int)d.q_len, (int)length, (int)d.head_dim, (int)plan.workspace_size, (int)last);
            last = plan.workspace_size;
        }
    }
    /* nor as q_len grows; and up to head_dim 256 flash takes 2 MiB a thread at most, whatever the lengths, heads and threads */
    static const int64_t dims[] = { 33, 64, 128, 256 }, kv_heads[] = { 1, 2, 8 }, q_lens[] = { 1, 16, 96, 97, 128, 257, 5000 };
    for (int n = 0; n < 4 * 3 * 4 * 3; n += SLOW ? 5 : 1) {
        size_t last = 0;
        for (int i = 0; i < 7; i++) {
            attn_plan plan;
            attn_desc d = make();
            d.batch = 1, d.heads = 8, d.kv_heads = kv_heads[n / 4 % 3], d.head_dim = dims[n % 4], d.backend = "flash";
            d.q_len = q_lens[i], d.kv_len = (int64_t)1000 << 2 * (n / 12 % 4), d.threads = 1 << 2 * (n / 48);
            assert_int_equal(attn_query(&d, NULL, &plan), ATTN_OK);
            assert_true(plan.workspace_size >= last && plan.workspace_size <= (size_t)d.threads << 21);
            last = plan.workspace_size;
        }
    }
}
/* nor that of gradients, from no key and no query on, whatever a dbias shares */
static void backward_bounded(void)
{
    static const int64_t lengths[] = { 0, 1, 2, 63, 64, 300, 1000, 2500 };
    static float data[1];
    for (int n = 0; n < 2 * 2 * 3 * 2 * 8; n += SLOW ? 3 : 1) {
        size_t last = 0;
        for (int i = 0; i < COUNT(lengths); i++) {
            attn_plan plan;
            attn_desc d = make();
            attn_grad g = { 0 };
            d.batch = 4, d.heads = 4, d.kv_heads = 2, d.threads = 1 + n % 2 * 3, d.lse = data, d.backend = n / 2 % 2 ? "standard" : "flash";
            d.q_len = n / 12 % 2 ? lengths[i] : lengths[n / 24], d.kv_len = n / 12 % 2 ? lengths[n / 24] : lengths[i];
            d.bias.data = data, g.dbias = data;
            if (n / 4 % 3) {
                d.bias.stride[2] = d.kv_len + 1;
                d.bias.stride[1] = n / 4 % 3 == 2 ? ATTN_BROADCAST : d.bias.stride[2] * d.q_len + 1;
                d.bias.stride[0] = n / 4 % 3 == 1 ? ATTN_BROADCAST : 4 * (d.bias.stride[2] * d.q_len + 1);
            }
            const attn_status s = attn_query(&d, &g, &plan);
            if (s) fail_msg("%s", attn_status_text(s));
            if (plan.workspace_size < last) fail_msg("%s, %d queries, %d keys, case %d: %d bytes, %d before", d.backend, (int)d.q_len, (int)d.kv_len, n / 4 % 3, (int)plan.workspace_size, (int)last);
            last = plan.workspace_size;
        }
    }
}
/* nor does it on other processors; and it is the same from inside a task */
static void test_workspace(void **state)
{
    size_t outside, inside = 0;
    attn_desc where = { 0 };
    (void)state;
    query(&outside, 0);
    assert_int_equal(attn_parallel(&where, query, &inside, 1), ATTN_OK);
    assert_int_equal(outside, inside);
    for (int64_t l2 = 256 << 10; l2 <= 2 << 20; l2 *= 8) {
        unit_l2(l2);
        workspace_bounded();
        backward_bounded();
    }
    unit_l2(0);
}

/* Along an extent of 1 a stride is never taken, whatever it says. */
static void test_unused_stride(void **state)
{
    static float dq[2 * D], dk[2 * D], dv[2 * D];
    const int64_t far[] = { INT64_MAX / 16, -(INT64_MAX / 16), INT64_MAX };
    (void)state;
    for (int64_t i = 0; i < 6; i++) {
        attn_desc d = make();
        attn_grad g = { 0 };
        attn_in *in[] = { &d.q, &d.k, &d.v, &g.dout };
        attn_out *out[] = { &d.o, &g.dq, &g.dk, &g.dv };
        d.batch = d.q_len = d.kv_len = 1;
        d.heads = 2;
        d.backend = fast[i % 2];
        g.dout.data = dout, g.dq.data = dq, g.dk.data = dk, g.dv.data = dv;
        for (int n = 0; n < 4; n++)
            for (int a = 0; a < 3; a++) {
                in[n]->stride[a] = a == 1 ? far[i / 2] : D;
                out[n]->stride[a] = a == 1 && far[i / 2] > 0 ? far[i / 2] : D;
            }
        assert_int_equal(attn_forward(&d), ATTN_OK);
        assert_true(apart(o, v, 2 * D) <= 1e-5);                            /* a lone key has all the weight */
        assert_int_equal(attn_backward(&d, &g), ATTN_OK);
        assert_true(apart(dv, dout, 2 * D) <= 1e-5);
    }
}

/* More keys than standard scores at a time, 2^20, of which the last few are seen: one key, broadcast. */
static void test_million_keys(void **state)
{
    static const char *const all[] = { "reference", "flash", "standard" };
    (void)state;
    for (int64_t i = 0; i < COUNT(all); i++) {
        attn_desc d = make();
        double score = 0;
        for (int e = 0; e < D; e++) score += (double)q[e] * (double)k[e] / sqrt(D);
        d.batch = d.q_len = 1, d.kv_len = (1 << 20) + 100, d.threads = 1, d.backend = all[i];
        for (int a = 0; a < 3; a++) d.k.stride[a] = d.v.stride[a] = ATTN_BROADCAST;
        d.flags = ATTN_CAUSAL | ATTN_WINDOW_LEFT, d.window_left = 50;
        assert_int_equal(attn_forward(&d), ATTN_OK);
        assert_true(apart(o, v, D) <= 1e-5 && fabs((double)lse[0] - score - log(51)) <= 1e-5);
    }
}

/* what is no tensor's business is refused */
static void test_refused(void **state)
{
    static float bias[B * Q * K];
    attn_desc d = make();
    attn_pool pool = { NULL, NULL, 2 };
    (void)state;
    d.bias.data = bias, d.bias.scale = bias;
    assert_int_equal(attn_forward(&d), ATTN_ERR_SCALE_UNUSED);
    d.bias.scale = NULL, d.bias.layout = 77;
    assert_int_equal(attn_forward(&d), ATTN_ERR_LAYOUT);
    d = make();
    d.sink = lse;
    assert_int_equal(attn_merge(&d, 0, NULL, NULL), ATTN_ERR_OVERLAP);
    d.sink = NULL, d.flags = ATTN_DEVICE;
    assert_int_equal(attn_merge(&d, 0, NULL, NULL), ATTN_ERR_DEVICE);
    d = make();
    d.pool = &pool;
    size_t unused;
    assert_int_equal(attn_parallel(&d, query, &unused, 1), ATTN_ERR_POOL);
}

/* where the rows of a unit end, which threads and neighbours have a say in, changes no bit: under causality a unit may be the first to see one key of a block */
static void test_unit_ends(void **state)
{
    enum { H = 16, QMOST = 120, KMOST = 300, DIM = 16 };
    static const int keys[] = { 2, 5, 17, 33, 65, 257, 290 };
    static float x[3][KMOST * H * DIM], out[2][(QMOST + 70) * H * DIM], sums[2][(QMOST + 70) * H];
    (void)state;
    for (int n = 0; n < 3; n++) normals(x[n], COUNT(x[n]), 7 + (uint64_t)n);
    for (int n = 0; n < COUNT(keys); n++)
        for (int rows = 17; rows <= QMOST; rows += keys[n] > 100 || SLOW ? 13 : 1) {
            attn_desc d = { 0 };
            const int32_t cu_q[] = { 0, rows, rows + 70 }, cu_k[] = { 0, keys[n], keys[n] };
            d.batch = 1, d.q_len = rows, d.kv_len = keys[n], d.heads = H, d.kv_heads = 1, d.head_dim = DIM, d.flags = ATTN_CAUSAL, d.backend = "flash";
            d.q.data = x[0], d.k.data = x[1], d.v.data = x[2], d.threads = 1;
            for (int other = 0; other < 3; other++) {               /* alone; on threads; packed beside queries that see nothing */
                d.o.data = out[other > 0], d.lse = sums[other > 0];
                if (other == 1) d.threads = 2 + rows % 7;
                if (other == 2) d.batch = 2, d.seq.cu_q = cu_q, d.seq.cu_k = cu_k, d.seq.total_q = rows + 70, d.seq.total_k = keys[n], d.q_len = rows > 70 ? rows : 70;
                assert_int_equal(attn_forward(&d), ATTN_OK);
                int same = !memcmp(out[0], out[1], (size_t)(rows * H * DIM) * sizeof **out) || !other;
                for (int h = 0; h < H && other; h++) same &= !memcmp(sums[0] + h * rows, sums[1] + h * (other == 2 ? rows + 70 : rows), (size_t)rows * sizeof **sums);
                if (!same) fail_msg("%d queries, %d keys: other bits %s", rows, keys[n], other == 1 ? "on threads" : "beside others");
            }
        }
}

/* the same of calls drawn at random, backward too: a sequence alone, on threads, packed between two others, whose rows and keys end anywhere, and with room behind it */
typedef struct drawn { attn_desc d; int64_t before_q, before_k, after_q, after_k; } drawn;
enum { DRAWN_TOKENS = 1700, DRAWN_WIDTH = 16 * 64, DRAWN_RESULTS = 5, DRAWN_TYPES = 3, DRAWN_APART = 977, DRAWN_ROOM = 64 << 20 };
static int64_t drawn_one(uint64_t *r, const int64_t *of, int64_t n) { return of[random_bits(r) % (uint64_t)n]; }
static drawn draw_ends(uint64_t *r)
{
    static const int64_t keys[] = { 2, 2, 4, 8, 16, 17, 32, 33, 64, 128, 192, 256, 384, 512, 640, 1024 }, rows[] = { 4, 8, 40, 120, 120, 120, 200 },
                         heads[] = { 1, 2, 3, 4, 8, 16, 16 }, dims[] = { 4, 8, 16, 16, 24, 33, 64 };
    static const int32_t types[] = { ATTN_F32, ATTN_F32, ATTN_F16, ATTN_BF16 };
    drawn x;
    memset(&x, 0, sizeof x);
    attn_desc *d = &x.d;
    d->batch = 1, d->head_dim = drawn_one(r, dims, COUNT(dims)), d->v_dim = random_bits(r) % 4 ? 0 : drawn_one(r, dims, COUNT(dims));
    d->heads = drawn_one(r, heads, COUNT(heads)), d->kv_heads = random_bits(r) % 2 || d->heads % 2 ? d->heads : random_bits(r) % 4 ? 1 : d->heads / 2;
    d->q_len = 1 + (int64_t)(random_bits(r) % (uint64_t)drawn_one(r, rows, COUNT(rows)));
    const int64_t end = drawn_one(r, keys, COUNT(keys)) + (int64_t)(random_bits(r) % 6) - 2;
    d->kv_len = end > 0 ? end : 1;
    d->q.dtype = d->k.dtype = d->v.dtype = types[random_bits(r) % COUNT(types)];
    d->o.dtype = random_bits(r) % 2 ? ATTN_F32 : d->q.dtype;
    d->backend = random_bits(r) % 4 ? "flash" : "standard";
    if (random_bits(r) % 4) d->flags |= ATTN_CAUSAL;
    if (random_bits(r) % 4 == 0) d->flags |= ATTN_WINDOW_LEFT, d->window_left = (int64_t)(random_bits(r) % 300);
    if (random_bits(r) % 6 == 0) d->flags |= ATTN_WINDOW_RIGHT, d->window_right = (int64_t)(random_bits(r) % 60);
    if (random_bits(r) % 4 == 0) d->flags |= ATTN_OFFSET, d->offset = (int64_t)(random_bits(r) % (uint64_t)(2 * d->kv_len + 2)) - d->kv_len / 2;
    x.before_q = (int64_t)(random_bits(r) % 90), x.after_q = (int64_t)(random_bits(r) % 90);
    x.before_k = (int64_t)(random_bits(r) % 300), x.after_k = (int64_t)(random_bits(r) % 300);
    return x;
}
/* o, dq, dk and dv of a token lie where its inputs do, lse by heads, `stride` rows apart from `from` on */
static int64_t drawn_result(const drawn *x, int n, int64_t stride, int64_t from, char *const *out, char *to)
{
    const attn_desc *d = &x->d;
    const int64_t v_dim = d->v_dim ? d->v_dim : d->head_dim, q_row = d->heads * d->head_dim, rows[] = { d->q_len, d->q_len, d->kv_len, d->kv_len },
                  width[] = { d->heads * v_dim, q_row, d->kv_heads * d->head_dim, d->kv_heads * v_dim }, size = n ? 4 : (int64_t)dtype_size(d->o.dtype);
    if (n == 4) {
        for (int64_t h = 0; h < d->heads; h++) memcpy(to + h * d->q_len * 4, out[4] + (h * stride + from) * 4, (size_t)d->q_len * 4);
        return d->heads * d->q_len * 4;
    }
    const int64_t at = n < 2 ? x->before_q : x->before_k;
    memcpy(to, out[n] + at * width[n] * size, (size_t)(rows[n] * width[n] * size));
    return rows[n] * width[n] * size;
}
static void test_drawn_ends(void **state)
{
    static char *in[DRAWN_TYPES], *out[DRAWN_RESULTS], *alone[DRAWN_RESULTS], *got;
    uint64_t r = 3;
    int backwards = 0;
    (void)state;
    const int draws = SLOW ? 60 : 2000;
    const size_t most = (size_t)DRAWN_TOKENS * DRAWN_WIDTH * 4;
    for (int t = 0; t < DRAWN_TYPES; t++) {                          /* of each type numbers that q, k, v and dout take from another place on */
        in[t] = malloc(most + 4 * DRAWN_APART * 4), assert_non_null(in[t]);
        for (int64_t i = 0; i < (int64_t)DRAWN_TOKENS * DRAWN_WIDTH + 4 * DRAWN_APART; i++) element_put(in[t], t, i, random_normal(&r));
    }
    for (int n = 0; n < DRAWN_RESULTS; n++) out[n] = malloc(most), alone[n] = malloc(most), assert_true(out[n] && alone[n]);
    got = malloc(most), assert_non_null(got);
    char *memory = malloc(DRAWN_ROOM + 64), *room = memory + 64 - (uintptr_t)memory % 64;
    assert_non_null(memory);
    for (int n = 0; n < draws; n++) {
        drawn x = draw_ends(&r);
        attn_desc *d = &x.d;
        const int backward = d->q_len * d->kv_len * d->heads < 40000 && random_bits(&r) % 2;
        const int64_t v_dim = d->v_dim ? d->v_dim : d->head_dim, tokens_q = x.before_q + d->q_len + x.after_q, tokens_k = x.before_k + d->kv_len + x.after_k;
        const int64_t width[] = { d->heads * d->head_dim, d->kv_heads * d->head_dim, d->kv_heads * v_dim, d->heads * v_dim };
        const int32_t cu_q[] = { 0, (int32_t)x.before_q, (int32_t)(x.before_q + d->q_len), (int32_t)tokens_q }, cu_k[] = { 0, (int32_t)x.before_k, (int32_t)(x.before_k + d->kv_len), (int32_t)tokens_k };
        assert_true(tokens_k <= DRAWN_TOKENS);
        unit_l2((int64_t)256 << (10 + n % 4));
        const size_t size = dtype_size(d->q.dtype);
        const char *from[4];
        for (int t = 0; t < 4; t++) from[t] = in[d->q.dtype] + (size_t)(t * DRAWN_APART) * size;
        backwards += backward;
        const int32_t used_q = (int32_t)d->q_len, used_k = (int32_t)d->kv_len;
        for (int way = 0; way < 4; way++) {                          /* alone; on threads; packed between others; with room behind it */
            attn_desc a = *d;
            attn_grad g = { 0 };
            const size_t at_q = way != 2 ? (size_t)x.before_q : 0, at_k = way != 2 ? (size_t)x.before_k : 0;
            a.threads = way ? 2 + n % 7 : 1;
            if (way == 2) a.batch = 3, a.seq.cu_q = cu_q, a.seq.cu_k = cu_k, a.seq.total_q = tokens_q, a.seq.total_k = tokens_k;
            if (way == 2 && a.q_len < 90) a.q_len = 90;
            if (way == 2 && a.kv_len < 300) a.kv_len = 300;
            if (way == 3) a.q_len += x.after_q, a.kv_len += x.after_k, a.seq.used_q = &used_q, a.seq.used_k = &used_k;
            a.q.data = from[0] + at_q * (size_t)width[0] * size, a.k.data = from[1] + at_k * (size_t)width[1] * size, a.v.data = from[2] + at_k * (size_t)width[2] * size;
            a.o.data = out[0] + at_q * (size_t)width[3] * dtype_size(a.o.dtype), a.lse = (float *)(void *)out[4];
            g.dout.data = from[3] + at_q * (size_t)width[3] * size, g.dout.dtype = d->q.dtype;
            g.dq.data = out[1] + at_q * (size_t)width[0] * 4, g.dk.data = out[2] + at_k * (size_t)width[1] * 4, g.dv.data = out[3] + at_k * (size_t)width[2] * 4;
            for (int pass = 0; pass <= backward; pass++) {           /* what lies in the workspace changes nothing */
                attn_plan plan;
                assert_ok(attn_query(&a, pass ? &g : NULL, &plan));
                assert_true(plan.workspace_size <= DRAWN_ROOM);
                memset(room, way ? 255 : 0, (size_t)plan.workspace_size);
                a.workspace = room, a.workspace_size = plan.workspace_size;
                assert_int_equal(pass ? attn_backward(&a, &g) : attn_forward(&a), ATTN_OK);
            }
            for (int result = 0; result < DRAWN_RESULTS; result++) {
                if (result % 4 && !backward) continue;
                const int64_t bytes = drawn_result(&x, result, way == 2 ? tokens_q : a.q_len, way == 2 ? x.before_q : 0, out, way ? got : alone[result]);
                if (way && memcmp(alone[result], got, (size_t)bytes))
                    fail_msg("case %d, %s, %lld queries, %lld keys, result %d: other bits %s", n, d->backend, (long long)d->q_len, (long long)d->kv_len, result, way == 1 ? "on threads" : way == 2 ? "beside others" : "with room behind it");
            }
        }
    }
    unit_l2(0);
    assert_true(backwards > draws / 10);
    for (int t = 0; t < DRAWN_TYPES; t++) free(in[t]);
    for (int n = 0; n < DRAWN_RESULTS; n++) free(out[n]), free(alone[n]);
    free(got), free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scale), cmocka_unit_test(test_tiny_scale), cmocka_unit_test(test_softcap), cmocka_unit_test(test_far_sink), cmocka_unit_test(test_lowest_bias),
        cmocka_unit_test(test_dbias_dropout), cmocka_unit_test(test_dropout_rate), cmocka_unit_test(test_shared_dbias), cmocka_unit_test(test_few_added), cmocka_unit_test(test_shared_slot), cmocka_unit_test(test_slots_backwards), cmocka_unit_test(test_append_backwards), cmocka_unit_test(test_append_tiny), cmocka_unit_test(test_append_tail), cmocka_unit_test(test_append_bits), cmocka_unit_test(test_idle_rotary),
        cmocka_unit_test(test_sinks_of_heads), cmocka_unit_test(test_empty_sink), cmocka_unit_test(test_no_queries), cmocka_unit_test(test_grouped_dbias), cmocka_unit_test(test_dbias_of_threads), cmocka_unit_test(test_bias_alone), cmocka_unit_test(test_append_scales), cmocka_unit_test(test_traps), cmocka_unit_test(test_infinite_sink),
        cmocka_unit_test(test_huge), cmocka_unit_test(test_many_iterations), cmocka_unit_test(test_freed_pages),
        cmocka_unit_test(test_workspace), cmocka_unit_test(test_unused_stride), cmocka_unit_test(test_million_keys), cmocka_unit_test(test_refused), cmocka_unit_test(test_unit_ends), cmocka_unit_test(test_drawn_ends),
    };
    return cmocka_run_group_tests_name("edges", tests, NULL, NULL);
}
