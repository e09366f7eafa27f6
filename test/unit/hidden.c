/* hidden.c - masks and biases that hide whole blocks, ends of rows or holes in them: every shape a program gives them, as a boolean
 * mask and as a bias of -infinity in each of its types, beside the reference; and what is hidden may be NaN. */
#include "unit.h"
#include <float.h>

enum { MOST_Q = 70, MOST_K = 2300, D = 24, HEADS = 2 };
static float q[HEADS * MOST_Q * D], k[HEADS * MOST_K * D], v[HEADS * MOST_K * D], o[2][HEADS * MOST_Q * D], lse[2][HEADS * MOST_Q];
static unsigned char mask[MOST_Q * MOST_K];
static float bias[MOST_Q * MOST_K];
static uint16_t half[MOST_Q * MOST_K];

/* Whether query i of q_len sees key j of kv. */
typedef int shape(int64_t i, int64_t j, int64_t q_len, int64_t kv);
static int triangle(int64_t i, int64_t j, int64_t q_len, int64_t kv) { return j - (kv - q_len) <= i; }
static int upper(int64_t i, int64_t j, int64_t q_len, int64_t kv) { (void)q_len, (void)kv; return j >= 20 * i; }
static int band(int64_t i, int64_t j, int64_t q_len, int64_t kv) { const int64_t at = i * kv / q_len; return j > at - 9 && j < at + 5; }
static int blocks(int64_t i, int64_t j, int64_t q_len, int64_t kv) { return i * 4 / q_len == j * 4 / kv; }
static int ends(int64_t i, int64_t j, int64_t q_len, int64_t kv) { (void)i, (void)q_len; return j == 0 || j == kv - 1; }
static int one_key(int64_t i, int64_t j, int64_t q_len, int64_t kv) { (void)q_len; return j == i * 37 % kv; }
static int odd(int64_t i, int64_t j, int64_t q_len, int64_t kv) { (void)q_len, (void)kv; return (i + j) % 2; }
static int sparse(int64_t i, int64_t j, int64_t q_len, int64_t kv) { (void)q_len, (void)kv; return (i * 7919 + j * 104729) % 97 == 0; }
static int far_hole(int64_t i, int64_t j, int64_t q_len, int64_t kv) { (void)i, (void)q_len; return j < 3 || (j > kv / 2 && j < kv - 5); }
static int all(int64_t i, int64_t j, int64_t q_len, int64_t kv) { (void)i, (void)j, (void)q_len, (void)kv; return 1; }
static int none(int64_t i, int64_t j, int64_t q_len, int64_t kv) { (void)i, (void)j, (void)q_len, (void)kv; return 0; }
static int some_rows(int64_t i, int64_t j, int64_t q_len, int64_t kv) { (void)j, (void)q_len, (void)kv; return i % 3 == 1; }
static const struct { shape *sees; const char *name; } shapes[] = {
    { triangle, "triangle" }, { upper, "upper" }, { band, "band" }, { blocks, "blocks" }, { ends, "ends" }, { one_key, "one key" }, { odd, "odd" },
    { sparse, "sparse" }, { far_hole, "far hole" }, { all, "all" }, { none, "none" }, { some_rows, "some rows" } };

/* The mask, or the bias, of all heads. */
static void by_mask(attn_desc *d, int64_t kv)
{
    d->mask.data = mask, d->mask.dtype = ATTN_BOOL, d->mask.stride[0] = d->mask.stride[1] = ATTN_BROADCAST, d->mask.stride[2] = kv;
}
static void by_bias(attn_desc *d, int64_t kv)
{
    d->bias.data = bias, d->bias.stride[0] = d->bias.stride[1] = ATTN_BROADCAST, d->bias.stride[2] = kv;
}
static void same(const attn_desc *d, const char *what, const char *name)
{
    for (int64_t i = 0; i < d->q_len * HEADS * D; i++)
        if (!(fabsf(o[1][i] - o[0][i]) <= 1e-5f))
            fail_msg("%s, %s, %lld x %lld: o[%lld] is %g, not %g", what, name, (long long)d->q_len, (long long)d->kv_len, (long long)i, (double)o[1][i], (double)o[0][i]);
    for (int64_t i = 0; i < d->q_len * HEADS; i++)
        if (lse[1][i] != lse[0][i] && !(fabsf(lse[1][i] - lse[0][i]) <= 1e-5f * (1 + fabsf(lse[0][i]))))
            fail_msg("%s, %s, %lld x %lld: lse[%lld] is %g, not %g", what, name, (long long)d->q_len, (long long)d->kv_len, (long long)i, (double)lse[1][i], (double)lse[0][i]);
}
/* how: 0 a mask, 1 to 3 a bias of f32, f16, bf16, 4 both, where the bias hides what the mask leaves of odd keys. */
static void check_shape(int64_t q_len, int64_t kv, int which, int how, uint32_t flags)
{
    attn_desc d = { 0 };
    d.batch = 1, d.heads = HEADS, d.q_len = q_len, d.kv_len = kv, d.head_dim = (which + how) % 2 ? D : 16, d.v_dim = D, d.threads = 1, d.flags = flags;
    d.q.data = q, d.k.data = k, d.v.data = v;
    for (int64_t i = 0; i < q_len; i++)
        for (int64_t j = 0; j < kv; j++) {
            const int sees = shapes[which].sees(i, j, q_len, kv);
            mask[i * kv + j] = (unsigned char)(sees ? 1 + j % 255 : 0);
            bias[i * kv + j] = (how == 4 ? j % 2 : sees) ? (float)(j % 5) - 2 : -INFINITY;
            element_put(half, how == 2 ? ATTN_F16 : ATTN_BF16, i * kv + j, (double)bias[i * kv + j]);
        }
    if (how == 0 || how == 4) by_mask(&d, kv);
    if (how > 0) {
        by_bias(&d, kv);
        if (how == 2 || how == 3) d.bias.data = half, d.bias.dtype = how == 2 ? ATTN_F16 : ATTN_BF16;
    }
    for (int b = 0; b < 2; b++) {
        d.backend = b ? "flash" : "reference", d.o.data = o[b], d.lse = lse[b];
        assert_ok(attn_forward(&d));
    }
    same(&d, how == 0 ? "mask" : how == 4 ? "mask and bias" : "bias", shapes[which].name);
}
static void fill_tensors(void)
{
    uint64_t r = 5;
    for (int64_t i = 0; i < COUNT(q); i++) q[i] = (float)random_normal(&r);
    for (int64_t i = 0; i < COUNT(k); i++) k[i] = (float)random_normal(&r), v[i] = (float)random_normal(&r);
}
static void test_shapes(void **state)
{
    static const int64_t sizes[][2] = { { 70, 70 }, { 33, 300 }, { 13, 2300 }, { 1, 130 }, { 5, 64 }, { 70, 9 } };
    (void)state;
    fill_tensors();
    for (int w = 0; w < (int)COUNT(shapes); w++)
        for (int how = 0; how < 5; how++)
            for (int n = 0; n < (int)COUNT(sizes); n++) check_shape(sizes[n][0], sizes[n][1], w, how, (w + how + n) % 4 == 3 ? ATTN_CAUSAL : 0);
}
/* Keys and values that nobody sees are NaN: at both ends, in a hole, and all that one row sees. */
static void test_nan(void **state)
{
    (void)state;
    fill_tensors();
    for (int64_t j = 0; j < 150; j++) {
        const int hidden = j < 40 || (j > 80 && j < 90) || j > 130;
        for (int64_t e = 0; e < HEADS * D && hidden; e++) k[j * HEADS * D + e] = j % 2 ? NAN : -INFINITY, v[j * HEADS * D + e] = j % 3 ? NAN : INFINITY;
    }
    for (int how = 0; how < 2; how++)
        for (int64_t rows = 1; rows < 20; rows += 9) {
            attn_desc d = { 0 };
            d.batch = 1, d.heads = HEADS, d.q_len = rows, d.kv_len = 150, d.head_dim = D, d.threads = 1;
            d.q.data = q, d.k.data = k, d.v.data = v;
            for (int64_t i = 0; i < rows * 150; i++) {
                const int64_t j = i % 150;
                mask[i] = !(j < 40 || (j > 80 && j < 90) || j > 130), bias[i] = mask[i] ? 0 : -INFINITY;
            }
            if (how) by_bias(&d, 150);
            else by_mask(&d, 150);
            for (int b = 0; b < 2; b++) {
                d.backend = b ? "flash" : "reference", d.o.data = o[b], d.lse = lse[b];
                assert_ok(attn_forward(&d));
            }
            same(&d, how ? "bias" : "mask", "hidden NaN");
        }
}
/* V of whole vectors is read where it lies: a NaN in any key reaches the rows that see it, and no other; with a window the first keys
 * of a block are passed over. */
static void test_nan_in_place(void **state)
{
    enum { KEYS = 200, ROWS = 12, DIM = 32 };
    (void)state;
    for (int64_t at = 0; at < KEYS; at++)
        for (int how = 0; how < 4; how++) {             /* 2 a mask, 3 a bias that hides as much */
            attn_desc d = { 0 };
            fill_tensors();
            d.batch = 1, d.heads = HEADS, d.q_len = ROWS, d.kv_len = KEYS, d.head_dim = at % 2 ? DIM / 2 : DIM, d.v_dim = DIM, d.threads = 1;
            d.flags = how >= 2 ? 0 : ATTN_CAUSAL | (how ? ATTN_WINDOW_LEFT : 0), d.window_left = how == 1 ? 3 : 0;
            d.q.data = q, d.k.data = k, d.v.data = v;
            for (int64_t i = 0; i < ROWS * KEYS; i++) mask[i] = i % KEYS % 2 == i / KEYS % 2, bias[i] = mask[i] ? 0.5f : -INFINITY;
            if (how == 2) by_mask(&d, KEYS);
            if (how == 3) by_bias(&d, KEYS);
            v[at * HEADS * DIM + at % (HEADS * DIM)] = NAN;
            for (int b = 0; b < 2; b++) {
                d.backend = b ? "flash" : "reference", d.o.data = o[b];
                assert_ok(attn_forward(&d));
            }
            for (int64_t i = 0; i < ROWS * HEADS * DIM; i++)
                if (o[0][i] != o[0][i] ? o[1][i] == o[1][i] : !(fabsf(o[1][i] - o[0][i]) <= 1e-5f))
                    fail_msg("NaN in key %lld, %d: o[%lld] is %g, not %g", (long long)at, how, (long long)i, (double)o[1][i], (double)o[0][i]);
        }
}
/* The same of gradients: what a mask, a bias, ATTN_CAUSAL or a window hides from a row reaches nothing of it, however few rows there are: what is
 * finite beside a NaN has the bits of a call with a 0 there. */
static void test_nan_gradients(void **state)
{
    enum { KEYS = 150, ROWS = 12, DIM = 16, ALL = HEADS * KEYS * DIM };
    static const int64_t counts[] = { ROWS, 1, 3, 8, 4, 2 };
    static const char *const hides[] = { "a mask", "a bias", "ATTN_CAUSAL", "a window" };
    static float dout[HEADS * ROWS * DIM], grads[2][3][ALL], zero[3][ALL], o_zero[HEADS * ROWS * DIM], lse_zero[HEADS * ROWS];
    (void)state;
    for (int n = 0; n < 96; n++) {
        const int how = n % 4, value = n / 4 % 2;
        const int64_t rows = counts[n / 8 % COUNT(counts)], at = how < 2 ? n * 53 % KEYS : KEYS - ROWS + n * 5 % ROWS;
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        fill_tensors();
        d.batch = 1, d.heads = HEADS, d.q_len = rows, d.kv_len = KEYS, d.head_dim = DIM, d.threads = 1, d.q.data = q, d.k.data = k, d.v.data = v;
        for (int64_t i = 0; i < COUNT(dout); i++) dout[i] = v[COUNT(v) - 1 - i];
        for (int64_t i = 0; i < rows * KEYS; i++) mask[i] = i % KEYS % 2 == i / KEYS % 2, bias[i] = mask[i] ? 0.5f : -INFINITY;
        if (how == 0) by_mask(&d, KEYS);
        if (how == 1) by_bias(&d, KEYS);
        if (how >= 2) d.flags = how == 2 ? ATTN_CAUSAL : ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, d.window_left = d.window_right = how == 2 ? 0 : 4;
        (value ? v : k)[(at * HEADS + n % HEADS) * DIM + n % DIM] = n % 3 ? NAN : INFINITY;
        for (int b = 0; b < 3; b++) {
            float (*to)[ALL] = grads[b > 0];
            int64_t bad = 0;
            d.backend = b == 0 ? "reference" : b == 1 ? "flash" : "standard";
            d.o.data = o[0], d.lse = lse[0], g.dout.data = dout, g.dq.data = to[0], g.dk.data = to[1], g.dv.data = to[2];
            if (b == 0) assert_ok(attn_forward(&d));
            assert_ok(attn_backward(&d, &g));
            float *spoiled = (value ? v : k) + (at * HEADS + n % HEADS) * DIM + n % DIM, kept = *spoiled;
            attn_desc as_zero = d;
            *spoiled = 0, as_zero.o.data = o_zero, as_zero.lse = lse_zero, as_zero.backend = "reference";
            assert_ok(attn_forward(&as_zero));
            as_zero.backend = d.backend, g.dq.data = zero[0], g.dk.data = zero[1], g.dv.data = zero[2];
            assert_ok(attn_backward(&as_zero, &g));
            *spoiled = kept;
            for (int t = 0; t < 3; t++)
                for (int64_t i = 0; i < (t ? KEYS : rows) * HEADS * DIM; i++)
                    if (n % 3 && isfinite(to[t][i]) && memcmp(&to[t][i], &zero[t][i], sizeof(float)))
                        fail_msg("%s of key %d by %s, %d rows, %s: gradient %d[%d] is %a, %a with a 0 there", value ? "v" : "k", (int)at, hides[how], (int)rows, d.backend, t, (int)i, (double)to[t][i], (double)zero[t][i]);
            for (int t = 0; t < 3; t++)
                for (int64_t i = 0; i < (t ? KEYS : rows) * HEADS * DIM; i++) {
                    const float want = grads[0][t][i], got = to[t][i];
                    bad += !isfinite(want);
                    if (isfinite(want) ? !(fabsf(got - want) <= 1e-5f * (1 + fabsf(want))) : isfinite(got))
                        fail_msg("%s of key %d by %s, %d rows, %s: gradient %d[%d] is %g, not %g", value ? "v" : "k", (int)at, hides[how], (int)rows, d.backend, t, (int)i, (double)got, (double)want);
                }
            const int seen = how < 2 ? rows > 1 || at % 2 == 0 : how == 2 || at >= KEYS - rows - 4;
            assert_true((bad > 0) == seen && bad <= (rows + 2 * KEYS) * DIM);   /* some of one head, never of both */
        }
    }
}
/* A dout that is no number spoils its own row and the keys that this sees: no key behind it, whatever the other rows, and no other row. */
static void test_nan_dout(void **state)
{
    enum { ROWS = 8, DIM = 16, ALL = ROWS * DIM };
    static float dout[ALL], grads[3][ALL];
    (void)state;
    fill_tensors();
    for (int n = 0; n < 2 * 2 * ROWS * 2; n++) {
        const int64_t rows = n < 2 * 2 * ROWS ? ROWS : 3, at = n / 4 % rows;
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        d.batch = d.heads = 1, d.q_len = d.kv_len = rows, d.head_dim = DIM, d.flags = ATTN_CAUSAL, d.threads = 1, d.backend = n & 1 ? "standard" : "flash";
        d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o[0], d.lse = lse[0];
        for (int64_t i = 0; i < ALL; i++) dout[i] = v[COUNT(v) - 1 - i];
        dout[at * DIM + 3] = n & 2 ? INFINITY : NAN;
        g.dout.data = dout, g.dq.data = grads[0], g.dk.data = grads[1], g.dv.data = grads[2];
        assert_ok(attn_forward(&d));
        assert_ok(attn_backward(&d, &g));
        assert_true(!isfinite(grads[2][3]));                /* dv of the first key, which every row sees */
        for (int t = 0; t < 3; t++)
            for (int64_t i = 0; i < rows * DIM; i++)
                if ((t ? i / DIM > at : i / DIM != at) && !isfinite(grads[t][i])) fail_msg("%s, row %d: gradient %d[%d] is %g", d.backend, (int)at, t, (int)i, (double)grads[t][i]);
    }
}
/* Rows of more dims than are summed at a time where a NaN is hidden, their last part not whole: of o, and of gradients. */
static void test_nan_wide(void **state)
{
    enum { KEYS = 340, ROWS = 6, DIM = 300, ALL = KEYS * DIM };
    static float dout[ROWS * DIM], grads[3][3][ALL];
    (void)state;
    for (int n = 0; n < 4; n++) {
        const int64_t at = n < 2 ? 7 : KEYS - 8;
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        fill_tensors();
        d.batch = d.heads = 1, d.q_len = ROWS, d.kv_len = KEYS, d.head_dim = DIM, d.threads = 1, d.q.data = q, d.k.data = k, d.v.data = v;
        for (int64_t i = 0; i < ROWS * KEYS; i++) mask[i] = i % KEYS % 2 == i / KEYS % 2;
        for (int64_t i = 0; i < COUNT(dout); i++) dout[i] = v[COUNT(v) - 1 - i];
        by_mask(&d, KEYS);
        (n % 2 ? v : k)[at * DIM + 3] = NAN;
        for (int b = 0; b < 3; b++) {
            d.backend = b == 0 ? "reference" : b == 1 ? "flash" : "standard";
            d.o.data = o[b > 0], d.lse = lse[b > 0], g.dout.data = dout, g.dq.data = grads[b][0], g.dk.data = grads[b][1], g.dv.data = grads[b][2];
            assert_ok(attn_forward(&d));
            for (int64_t i = 0; i < ROWS * DIM; i++)
                if (isfinite(o[0][i]) ? !(fabsf(o[b > 0][i] - o[0][i]) <= 1e-5f) : isfinite(o[1][i]) && b)
                    fail_msg("NaN in key %d, %s: o[%d] is %g, not %g", (int)at, d.backend, (int)i, (double)o[b > 0][i], (double)o[0][i]);
            d.lse = lse[0];
            assert_ok(attn_backward(&d, &g));
            for (int t = 0; t < 3; t++)
                for (int64_t i = 0; i < (t ? KEYS : ROWS) * DIM; i++) {
                    const float want = grads[0][t][i], got = grads[b][t][i];
                    if (isfinite(want) ? !(fabsf(got - want) <= 1e-5f * (1 + fabsf(want))) : isfinite(got))
                        fail_msg("NaN in key %d, %s: gradient %d[%d] is %g, not %g", (int)at, d.backend, t, (int)i, (double)got, (double)want);
                }
        }
    }
}
/* bf16 in and out, which some machines multiply as it is, two keys at a time: a NaN of V reaches its column of the rows that see it, and
 * changes no bit elsewhere from what a 0 there leaves. Lengths, windows and masks begin and end within pairs of keys. */
static void test_nan_bf16(void **state)
{
    enum { ROWS = 11, DIM = 20 };
    static uint16_t x[3][HEADS * 200 * DIM], out[2][HEADS * ROWS * DIM];
    static const int64_t lengths[] = { 1, 2, 33, 61, 67, 130, 199 };
    (void)state;
    for (int64_t l = 0; l < 7; l++)
        for (int how = 0; how < 5; how++)                   /* causal, window, mask, bias, everything seen */
            for (int64_t kv = lengths[l], at = kv - 1 - (kv - 1) % 3; at >= 0; at -= kv > 61 ? 5 : 1) {
                attn_desc d = { 0 };
                const int64_t dim = at * 7 % DIM, rows = kv == 61 ? 1 : ROWS, left = kv == 61 ? 5 : 4;
                fill_tensors();
                for (int t = 0; t < 3; t++)
                    for (int64_t i = 0; i < HEADS * 200 * DIM; i++) element_put(x[t], ATTN_BF16, i, (double)(t ? t == 1 ? k : v : q)[i % (HEADS * ROWS * DIM)]);
                d.batch = 1, d.heads = HEADS, d.q_len = rows, d.kv_len = kv, d.head_dim = d.v_dim = DIM, d.threads = 1, d.backend = "flash";
                d.flags = how == 0 ? ATTN_CAUSAL : how == 1 ? ATTN_CAUSAL | ATTN_WINDOW_LEFT : 0, d.window_left = how == 1 ? left : 0;
                d.q.data = x[0], d.k.data = x[1], d.v.data = x[2];
                d.q.dtype = d.k.dtype = d.v.dtype = d.o.dtype = ATTN_BF16;
                for (int64_t i = 0; i < rows * kv; i++) mask[i] = (i % kv + i / kv) % 3 != 0, bias[i] = mask[i] ? 0.5f : -INFINITY;
                if (how == 2) d.mask.data = mask, d.mask.dtype = ATTN_BOOL, d.mask.stride[0] = d.mask.stride[1] = ATTN_BROADCAST, d.mask.stride[2] = kv;
                if (how == 3) d.bias.data = bias, d.bias.stride[0] = d.bias.stride[1] = ATTN_BROADCAST, d.bias.stride[2] = kv;
                for (int n = 0; n < 2; n++) {
                    x[2][(at * HEADS + 1) * DIM + dim] = n ? 0x7fc0 : 0, d.o.data = out[n];
                    assert_ok(attn_forward(&d));
                }
                for (int64_t i = 0; i < rows; i++) {
                    const int64_t end = i + kv - rows, lo = how == 1 ? end - left : 0;
                    const int sees = how < 2 ? at <= end && at >= lo : how < 4 ? mask[i * kv + at] : 1;
                    for (int64_t e = i * HEADS * DIM; e < (i + 1) * HEADS * DIM; e++) {
                        const int there = e == (i * HEADS + 1) * DIM + dim;
                        if (sees && there ? (out[1][e] & 0x7fff) > 0x7f80 : out[0][e] == out[1][e]) continue;
                        fail_msg("%lld keys, NaN in key %lld, %d: row %lld, o[%lld] is %04x, %04x without it", (long long)kv, (long long)at, how,
                                 (long long)i, (long long)e, out[1][e], out[0][e]);
                    }
                }
            }
}
/* Many rows, some of whose keys have values that are not finite, here and there or in a stretch: the bits of what does not see one are those of a
 * call with zeros there. */
static void test_nan_stretches(void **state)
{
    enum { ROWS = 131, KEYS = 300, DIM = 32, N = HEADS * KEYS * DIM };
    static const int32_t types[] = { ATTN_F32, ATTN_F16, ATTN_BF16 };
    static float all[3][3][N], out[2][HEADS * ROWS * DIM];
    static unsigned char bad[KEYS];
    uint64_t r = 77;
    (void)state;
    for (int n = 0; n < 9; n++)
        for (int64_t i = 0; i < N; i++) element_put(all[n / 3][n % 3], types[n / 3], i, random_gauss(&r));
    for (int n = 0; n < (EMULATED ? 120 : 600); n++) {
        const int32_t type = types[n % 3];
        float (*x)[N] = all[n % 3];
        const int how = n / 3 % 4;
        const int64_t stretch = n / 12 % 3 ? 1 + (int64_t)(random_bits(&r) % 40) : 1, first = (int64_t)(random_bits(&r) % (uint64_t)(KEYS - stretch)), head = n % HEADS, dim = n * 5 % DIM;
        attn_desc d = { 0 };
        d.batch = 1, d.heads = HEADS, d.q_len = ROWS, d.kv_len = KEYS, d.head_dim = DIM, d.threads = 1, d.backend = "flash";
        d.flags = (how == 3 ? ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT : ATTN_CAUSAL) | (how == 1 ? ATTN_WINDOW_LEFT : 0) | ATTN_OFFSET;
        d.offset = how == 2 ? 60 : KEYS - ROWS, d.window_left = how == 0 || how == 2 ? 0 : 45, d.window_right = how == 3 ? 7 : 0;
        d.q.data = x[0], d.k.data = x[1], d.v.data = x[2], d.o.data = out[0], d.q.dtype = d.k.dtype = d.v.dtype = d.o.dtype = type;
        for (int64_t j = 0; j < KEYS; j++) bad[j] = j >= first && j < first + stretch && (n % 2 || j == first || j == first + stretch - 1);
        for (int b = 0; b < 2; b++) {
            for (int64_t j = 0; j < KEYS; j++)
                if (bad[j]) element_put(x[2], type, (j * HEADS + head) * DIM + dim, b == 0 ? 0 : j % 3 ? NAN : INFINITY);
            d.o.data = out[b];
            assert_ok(attn_forward(&d));
        }
        for (int64_t j = 0; j < KEYS; j++)
            if (bad[j]) element_put(x[2], type, (j * HEADS + head) * DIM + dim, 0.5);
        for (int64_t i = 0; i < ROWS * HEADS * DIM; i++) {
            const int64_t at = i / HEADS / DIM + d.offset, lo = d.flags & ATTN_WINDOW_LEFT ? at - d.window_left : 0, hi = at + d.window_right;
            int sees = 0;
            for (int64_t j = lo < 0 ? 0 : lo; j <= hi && j < KEYS; j++) sees |= bad[j];
            sees = sees && i / DIM % HEADS == head && i % DIM == dim;
            const double got = element_get(out[1], type, i), want = element_get(out[0], type, i);
            if (sees ? isfinite(got) : memcmp(&got, &want, sizeof got) != 0)
                fail_msg("%d: type %d, keys from %d, %d: row %d, o[%d] is %g, %g without", n, (int)type, (int)first, (int)stretch, (int)(i / HEADS / DIM), (int)i, got, want);
        }
    }
}
/* Few rows on many keys, whose values are read where they lie, one of them NaN or infinite: in the rows that see it, and in no other; heads beside keep
 * their bits. By windows, and by masks that hide other keys of each head. */
enum { FEW_KV = 400, FEW_HEADS = 6, FEW_DIM = 64, FEW_ROWS = 8 };
static int few_sees(int how, int64_t i, int64_t j, int64_t rows, int64_t h)
{
    const int64_t at = i + FEW_KV - rows;
    switch (how) {
    case 0: return j <= at;
    case 1: return j <= at && j >= at - 100;
    case 2: return j >= 9 * h + i && j < FEW_KV - 7 * h && j % 13 != i;
    default: return i < 6 ? j < 100 : j != 150;             /* which rows 6 and 7 alone come near */
    }
}
static void test_nan_few_rows(void **state)
{
    static const int64_t keys[] = { 0, 3, 53, 99, 150, 292, 294, 296, 299, 300, 365, 392, 396, 399 };
    static const float values[] = { NAN, INFINITY };
    static const int32_t types[] = { ATTN_F32, ATTN_F16, ATTN_BF16 };
    static float x[3][FEW_KV * FEW_HEADS * FEW_DIM], out[3][FEW_ROWS * FEW_HEADS * FEW_DIM], clean[FEW_ROWS * FEW_HEADS * FEW_DIM];
    static unsigned char seen[FEW_HEADS * FEW_ROWS * FEW_KV];
    (void)state;
    for (int n = 0; n < 3 * 4 * 3; n++) {
        const int how = n / 3 % 4;
        const int64_t rows = how == 3 ? 8 : n / 12 == 0 ? 1 : n / 12 == 1 ? 4 : 7, bytes = n % 3 ? 2 : 4;
        attn_desc d = { 0 };
        d.batch = 1, d.q_len = rows, d.kv_len = FEW_KV, d.heads = FEW_HEADS, d.head_dim = FEW_DIM, d.threads = 1;
        fill_tensors();
        for (int t = 0; t < 3; t++)
            for (int64_t i = 0; i < COUNT(x[0]); i++) element_put(x[t], types[n % 3], i, (double)v[(i + 5000 * t) % COUNT(v)]);
        d.q.data = x[0], d.k.data = x[1], d.v.data = x[2], d.q.dtype = d.k.dtype = d.v.dtype = types[n % 3];
        d.flags = how == 0 ? ATTN_CAUSAL : how == 1 ? ATTN_CAUSAL | ATTN_WINDOW_LEFT : 0, d.window_left = how == 1 ? 100 : 0;
        for (int64_t i = 0; i < FEW_HEADS * rows * FEW_KV; i++) seen[i] = (unsigned char)few_sees(how, i / FEW_KV % rows, i % FEW_KV, rows, i / FEW_KV / rows);
        if (how >= 2) d.mask.data = seen, d.mask.dtype = ATTN_BOOL;
        d.backend = "reference", d.o.data = clean;
        assert_ok(attn_forward(&d));
        d.backend = "flash", d.o.data = out[0];
        assert_ok(attn_forward(&d));
        for (int m = 0; m < COUNT(keys) * COUNT(values); m++) {
            const int asked = !EMULATED || (m + n) % 7 == 0;    /* the reference too; what does not see the value is as without it */
            const int64_t j = keys[m / 2], h = m % FEW_HEADS, dim = m * 7 % FEW_DIM, at = (j * FEW_HEADS + h) * FEW_DIM + dim;
            if (EMULATED && (m + n / 3) % 3) continue;
            const double kept = element_get(x[2], types[n % 3], at);
            element_put(x[2], types[n % 3], at, (double)values[m % 2]);
            for (int b = 1; b < 2 + asked; b++) {
                d.backend = b == 1 ? "flash" : "reference", d.o.data = out[b];
                assert_ok(attn_forward(&d));
            }
            element_put(x[2], types[n % 3], at, kept);
            for (int64_t i = 0; i < rows * FEW_HEADS * FEW_DIM; i++) {
                const int64_t head = i / FEW_DIM % FEW_HEADS, row = i / FEW_DIM / FEW_HEADS;
                const int spoiled = head == h && i % FEW_DIM == dim && few_sees(how, row, j, rows, h), other = head != h && memcmp(out[0] + i, out[1] + i, 4);
                const double got = (double)out[1][i], want = (double)(asked ? out[2] : clean)[i];
                if (spoiled == isfinite(got) || (asked && spoiled == isfinite(want)) || (!spoiled && !(fabs(got - want) <= (bytes == 4 ? 1e-5 : 1e-2))) || other)
                    fail_msg("%d, %lld rows, dtype %d, %g in key %lld of head %lld: row %lld, o[%lld] is %g, not %g%s", how, (long long)rows, types[n % 3], (double)values[m % 2],
                             (long long)j, (long long)h, (long long)row, (long long)i, got, want, other ? ", of another head" : "");
            }
        }
    }
}
/* A NaN that one of few rows sees, in the second block of keys, of which the others see later keys alone: what they have of the first block is
 * relative to the largest score of each. More keys are in two splits, each looked at by itself. */
static void test_nan_two_blocks(void **state)
{
    enum { ROWS = 4, AT = 1100 };
    (void)state;
    for (int how = 0; how < 4 * HEADS; how++) {
        const int64_t keys = how % 4 < 2 ? 1500 : 2200;
        attn_desc d = { 0 };
        fill_tensors();
        d.batch = 1, d.heads = HEADS, d.q_len = ROWS, d.kv_len = keys, d.head_dim = how % 2 ? D : 16, d.v_dim = D, d.threads = 1, d.q.data = q, d.k.data = k, d.v.data = v;
        for (int64_t e = 1290 * HEADS * D; e < keys * HEADS * D; e++) k[e] *= 2;
        for (int64_t i = 0; i < ROWS * keys; i++) {
            const int64_t row = i / keys, j = i % keys;
            mask[i] = row == 0 || j < 700 + 50 * row || j >= 1290 + row, bias[i] = mask[i] ? 0.25f : -INFINITY;
        }
        if (how % 2) by_bias(&d, keys);
        else by_mask(&d, keys);
        v[(AT * HEADS + how / 4) * D + 20] = NAN;
        for (int b = 0; b < 2; b++) {
            d.backend = b ? "flash" : "reference", d.o.data = o[b];
            assert_ok(attn_forward(&d));
        }
        for (int64_t i = 0; i < ROWS * HEADS * D; i++)
            if (o[0][i] != o[0][i] ? o[1][i] == o[1][i] : !(fabsf(o[1][i] - o[0][i]) <= 1e-5f))
                fail_msg("%s, NaN of head %d: o[%d] is %g, not %g", how % 2 ? "bias" : "mask", how / 4, (int)i, (double)o[1][i], (double)o[0][i]);
    }
}
/* Few rows beside a mask or a bias: what does not see a value, or a scale, that is not finite has the bits of a call with 0 there; and a query that is
 * no number spoils its own row alone. */
static void test_nan_few_bits(void **state)
{
    enum { PADDED = 50, KEYS = 520, DIM = 128, N = KEYS * 2 * DIM };    /* rows, where some are not used */
    static const int32_t types[] = { ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_INT8 };
    static const struct { int64_t rows, group, keys, dim; } calls[] = { { 1, 1, 513, 128 }, { 1, 4, 300, 128 }, { 2, 1, 270, 128 }, { 4, 2, 520, 128 }, { 3, 1, 100, 64 }, { 1, 2, 40, 20 }, { 5, 1, 290, 112 }, { 5, 2, 290, 112 }, { 3, 4, 300, 64 }, { 11, 1, 520, 128 } };
    static float all[4][3][N], out[2][PADDED * 8 * DIM], scale[KEYS * 2];
    static unsigned char hide[8 * PADDED * KEYS];
    static float add[8 * PADDED * KEYS];
    uint64_t r = 9;
    (void)state;
    for (int t = 0; t < 12; t++)
        for (int64_t i = 0; i < N; i++) {
            if (t < 9 || t % 3 == 0) element_put(all[t / 3][t % 3], t % 3 ? types[t / 3] : ATTN_F32, i, random_gauss(&r));
            else ((int8_t *)all[t / 3][t % 3])[i] = (int8_t)(random_bits(&r) % 255 - 127);
        }
    for (int64_t i = 0; i < COUNT(scale); i++) scale[i] = 0.01f + 1e-4f * (float)(i % 50);
    for (int n = 0; n < 10 * 4 * 12; n++) {
        const int call = n % 10, type = n / 10 % 4, turn = n / 40;
        const int64_t rows = turn % 5 == 4 ? PADDED : calls[call].rows, keys = calls[call].keys, dim = calls[call].dim, kv = turn % 2 + 1, heads = kv * calls[call].group;
        const int64_t at = (int64_t)(random_bits(&r) % (uint64_t)keys), h = at % kv, c = at * 7 % dim;
        const double bad = turn % 3 ? NAN : INFINITY;
        const int32_t used_q = (int32_t)calls[call].rows, used_k = (int32_t)keys;
        float (*x)[N] = all[type];
        attn_desc d = { 0 };
        d.batch = 1, d.q_len = rows, d.kv_len = keys, d.heads = heads, d.kv_heads = kv, d.head_dim = dim, d.threads = 1, d.backend = "flash";
        d.q.data = x[0], d.k.data = x[1], d.v.data = x[2], d.k.dtype = d.v.dtype = types[type];
        if (type == 3) d.k.scale = d.v.scale = scale;
        if (rows == PADDED) d.seq.used_q = &used_q, d.seq.used_k = &used_k;
        const int64_t sees_of = turn % 4 == 3 ? 100 : 60;                /* in a hundred */
        for (int64_t i = 0; i < heads * rows * keys; i++) {
            hide[i] = (int64_t)(random_bits(&r) % 100) < sees_of;
            if (i % keys == at) hide[i] = turn % 4 == 0 ? 0 : turn % 4 == 1 ? i / keys % 2 == 0 : hide[i];
            add[i] = hide[i] ? (float)(i % 5) - 2 : -INFINITY;
        }
        if (turn % 2) d.mask.data = hide, d.mask.dtype = ATTN_BOOL;
        else d.bias.data = add;
        const int query = turn == 11;
        float scales[2] = { 0, (float)bad }, kept = x[0][3];
        static float v_scale[KEYS * 2];
        memcpy(v_scale, scale, sizeof scale);
        if (type == 3) d.v.scale = v_scale;
        for (int b = 0; b < 2; b++) {
            if (query) x[0][3] = b ? NAN : kept;
            else if (type == 3) v_scale[at * kv + h] = scales[b];
            else element_put(x[2], types[type], (at * kv + h) * dim + c, b ? bad : 0);
            d.o.data = out[b];
            assert_ok(attn_forward(&d));
        }
        if (query) x[0][3] = kept;
        else if (type < 3) element_put(x[2], types[type], (at * kv + h) * dim + c, 0.5);
        for (int64_t i = 0; i < rows * heads * dim; i++) {
            const int64_t head = i / dim % heads, row = i / dim / heads, of = head / calls[call].group;
            const int there = row >= used_q ? 0 : query ? row == 0 && head == 0 : hide[(head * rows + row) * keys + at] && of == h && (type == 3 || i % dim == c);
            if (there ? isfinite(out[1][i]) : memcmp(out[0] + i, out[1] + i, 4) != 0)
                fail_msg("call %d, type %d, turn %d, key %d of head %d: row %d of head %d, o[%d] is %.9g, %.9g without", call, (int)types[type], turn, (int)at, (int)h, (int)row, (int)head, (int)i,
                         (double)out[1][i], (double)out[0][i]);
        }
    }
}
/* A bias of NaN hides nothing: the row is NaN, however few they are. */
static void test_nan_bias(void **state)
{
    (void)state;
    fill_tensors();
    for (int64_t at = 0; at < 200; at += 13) {
        attn_desc d = { 0 };
        d.batch = 1, d.heads = HEADS, d.q_len = 1, d.kv_len = 200, d.head_dim = D, d.threads = 1, d.backend = "flash";
        d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o[0];
        for (int64_t j = 0; j < 200; j++) bias[j] = j == at ? NAN : -INFINITY;
        d.bias.data = bias, d.bias.stride[0] = d.bias.stride[1] = d.bias.stride[2] = ATTN_BROADCAST;
        assert_ok(attn_forward(&d));
        for (int64_t i = 0; i < HEADS * D; i++) assert_true(o[0][i] != o[0][i]);
    }
}

/* A product of multiplier and bias that has no f32 hides no more than the bias does, which is finite. */
static void test_large_bias_scale(void **state)
{
    static const char *const backends[] = { "reference", "flash", "standard" };
    static const float by[HEADS] = { 8, 3e38f };
    (void)state;
    fill_tensors();
    for (int64_t rows = 1; rows < 20; rows += 9) {
        const int64_t keys = rows == 10 ? 64 : 70;             /* whole vectors, and not */
        attn_desc d = { 0 };
        for (int64_t i = 0; i < rows * keys; i++) bias[i] = i % 3 ? -INFINITY : i % keys < 35 ? -FLT_MAX : -3e38f;
        d.batch = 1, d.heads = HEADS, d.q_len = rows, d.kv_len = keys, d.head_dim = D, d.q.data = q, d.k.data = k, d.v.data = v;
        d.bias.data = bias, d.bias_scale = by, d.bias.stride[0] = d.bias.stride[1] = ATTN_BROADCAST, d.bias.stride[2] = keys;
        for (int b = 0; b < 3; b++) {
            d.backend = backends[b], d.o.data = o[b > 0], d.lse = lse[b > 0];
            assert_ok(attn_forward(&d));
            for (int64_t i = 0; i < rows * HEADS * D; i++) if (!(fabsf(o[b > 0][i]) < 10)) fail_msg("%s: o[%d] = %g", d.backend, (int)i, (double)o[b > 0][i]);
            for (int64_t r = 0; r < rows * HEADS; r++) {        /* not those of an empty row */
                float sum = 0;
                for (int64_t c = 0; c < D; c++) sum += fabsf(o[b > 0][r * D + c]);
                assert_true(sum > 0 && !isnan(lse[b > 0][r]));
            }
        }
    }
}
static int same_or_nan(float got, float want)
{
    return got == want || (isnan(got) && isnan(want)) || fabsf(got - want) < 1e-5f * (1 + fabsf(want));
}
/* A multiplier near the smallest normal number, whose quarter is none, of a bias near the largest. */
static void test_small_bias_scale(void **state)
{
    static const char *const backends[] = { "reference", "flash", "standard" };
    static const float by[HEADS] = { 2e-38f, -4.5e-38f };
    (void)state;
    fill_tensors();
    for (int64_t rows = 1; rows < 20; rows += 9) {
        const int64_t keys = rows == 10 ? 64 : 70;
        attn_desc d = { 0 };
        for (int64_t i = 0; i < rows * keys; i++) bias[i] = 3e37f * (float)(i % 21 - 10);
        d.batch = 1, d.heads = HEADS, d.q_len = rows, d.kv_len = keys, d.head_dim = D, d.q.data = q, d.k.data = k, d.v.data = v;
        d.bias.data = bias, d.bias_scale = by, d.bias.stride[0] = d.bias.stride[1] = ATTN_BROADCAST, d.bias.stride[2] = keys;
        for (int b = 0; b < 3; b++) {
            d.backend = backends[b], d.o.data = o[b > 0], d.lse = lse[b > 0];
            assert_ok(attn_forward(&d));
            for (int64_t i = 0; b && i < rows * HEADS * D; i++)
                if (!same_or_nan(o[1][i], o[0][i])) fail_msg("%s: o[%d] = %g, not %g", d.backend, (int)i, (double)o[1][i], (double)o[0][i]);
        }
    }
}
/* A bias of +infinity times a negative multiplier, and any times an infinite one: no weight, which is no row where that is all it sees. */
static void test_infinite_bias_scale(void **state)
{
    static const char *const backends[] = { "reference", "flash", "standard" };
    static const float by[][HEADS] = { { -1, -3e38f }, { -INFINITY, -0.5f } };
    (void)state;
    fill_tensors();
    for (int n = 0; n < 8; n++) {
        const int64_t rows = n % 2 ? 10 : 1, keys = n / 2 % 2 ? 64 : 70;
        attn_desc d = { 0 };
        for (int64_t i = 0; i < rows * keys; i++) bias[i] = i % keys < 5 && i / keys % 2 ? 0 : i / keys % 3 == 2 ? 3 : INFINITY;
        d.batch = 1, d.heads = HEADS, d.q_len = rows, d.kv_len = keys, d.head_dim = D, d.q.data = q, d.k.data = k, d.v.data = v;
        d.bias.data = bias, d.bias_scale = by[n / 4], d.bias.stride[0] = d.bias.stride[1] = ATTN_BROADCAST, d.bias.stride[2] = keys;
        for (int b = 0; b < 3; b++) {
            d.backend = backends[b], d.o.data = o[b > 0], d.lse = lse[b > 0];
            assert_ok(attn_forward(&d));
            for (int64_t i = 0; b && i < rows * HEADS * D; i++)
                if (!same_or_nan(o[1][i], o[0][i])) fail_msg("%s: o[%d] = %g, not %g", d.backend, (int)i, (double)o[1][i], (double)o[0][i]);
            for (int64_t r = 0; b && r < rows * HEADS; r++)
                if (!same_or_nan(lse[1][r], lse[0][r])) fail_msg("%s: lse[%d] = %g, not %g", d.backend, (int)r, (double)lse[1][r], (double)lse[0][r]);
        }
    }
}
/* A multiplier that is no number, or infinite, spoils what it multiplies: no gradient of a key that the row does not see, whose bias another head
 * shares, and nothing that is added to. */
static void test_bias_scale_spoils(void **state)
{
    enum { ROWS = 40, KEYS = 150, WAS = 5 };
    static const char *const backends[] = { "reference", "flash", "standard" };
    static const float by[][HEADS] = { { INFINITY, 1 }, { 1, NAN }, { -INFINITY, NAN } };
    static float dbias[2][ROWS * KEYS], grads[3][HEADS * KEYS * D];
    (void)state;
    fill_tensors();
    for (int n = 0; n < 12; n++) {
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        for (int64_t i = 0; i < ROWS * KEYS; i++) bias[i] = i / KEYS == 7 ? -INFINITY : 0.25f;
        for (int64_t i = 0; i < ROWS * KEYS; i++) mask[i] = i % KEYS != 3;
        d.batch = 1, d.heads = HEADS, d.q_len = ROWS, d.kv_len = KEYS, d.head_dim = D, d.q.data = q, d.k.data = k, d.v.data = v, d.flags = ATTN_CAUSAL | ATTN_TOP_LEFT;
        d.o.data = o[0], d.lse = lse[0], d.bias_scale = by[n % 3];
        by_bias(&d, KEYS);
        if (n & 1) by_mask(&d, KEYS);
        d.backend = "reference";
        assert_ok(attn_forward(&d));
        if (n >= 6) d.flags |= ATTN_ACCUMULATE;
        g.dout.data = q, g.dq.data = grads[0], g.dk.data = grads[1], g.dv.data = grads[2];
        for (int b = 0; b < 3; b++) {
            d.backend = backends[b], g.dbias = dbias[b > 0];
            memset(grads, 0, sizeof grads);
            for (int64_t i = 0; i < ROWS * KEYS; i++) g.dbias[i] = WAS;
            assert_ok(attn_backward(&d, &g));
            for (int64_t i = 0; i < ROWS * KEYS; i++) {
                const int sees = i % KEYS <= i / KEYS && i / KEYS != 7 && (!(n & 1) || i % KEYS != 3);
                if (!sees && g.dbias[i] != (n >= 6 ? WAS : 0)) fail_msg("%s, %d: dbias[%d][%d], which no row sees, is %g", d.backend, n, (int)(i / KEYS), (int)(i % KEYS), (double)g.dbias[i]);
                if (b && !same_or_nan(dbias[1][i], dbias[0][i])) fail_msg("%s, %d: dbias[%d][%d] is %g, not %g", d.backend, n, (int)(i / KEYS), (int)(i % KEYS), (double)dbias[1][i], (double)dbias[0][i]);
            }
        }
    }
}
/* A multiplier for each head of a bias that heads share: the bits of a bias of their own, times a power of 2, and the gradient that is its
 * sum. -infinity hides, whatever the multiplier: 0 and negative ones too. */
static void test_bias_scale(void **state)
{
    enum { ROWS = 9, KEYS = 70, SIZE = ROWS * KEYS, OUT = HEADS * ROWS * D, KV = HEADS * KEYS * D };
    static const float scales[][HEADS] = { { 0.5f, -2 }, { 0, 4 }, { -1, 1 } };
    static const char *const backends[] = { "reference", "flash", "standard" };
    static float own[HEADS * SIZE], own_grad[HEADS * SIZE], grad[SIZE], dout[OUT], gradients[2][3][KV + OUT];
    (void)state;
    for (int n = 0; n < 9; n++) {
        const float *by = scales[n / 3];
        attn_desc d = { 0 }, e;
        attn_grad g = { 0 };
        fill_tensors();
        for (int64_t i = 0; i < OUT; i++) dout[i] = v[i] + 0.5f * k[i];
        d.batch = 1, d.heads = HEADS, d.q_len = ROWS, d.kv_len = KEYS, d.head_dim = D, d.backend = backends[n % 3], d.threads = 1;
        d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o[0], d.lse = lse[0], d.bias.data = bias, d.bias_scale = by;
        d.bias.stride[0] = d.bias.stride[1] = ATTN_BROADCAST, d.bias.stride[2] = KEYS;
        for (int64_t i = 0; i < SIZE; i++) bias[i] = (i * 7919) % 5 ? k[i % KV] : -INFINITY;
        for (int64_t i = 0; i < SIZE; i++) if (i % KEYS == 11) bias[i] = -INFINITY;
        v[11 * HEADS * D + 3] = NAN;                    /* that no row sees */
        for (int64_t i = 0; i < HEADS * SIZE; i++) own[i] = bias[i % SIZE] == -INFINITY ? -INFINITY : by[i / SIZE] * bias[i % SIZE];
        e = d, e.bias.data = own, e.bias_scale = NULL, e.o.data = o[1], e.lse = lse[1];
        memset(e.bias.stride, 0, sizeof e.bias.stride);
        assert_ok(attn_forward(&d));
        assert_ok(attn_forward(&e));
        assert_memory_equal(o[0], o[1], sizeof(float) * OUT);
        assert_memory_equal(lse[0], lse[1], sizeof(float) * HEADS * ROWS);
        for (int64_t i = 0; i < OUT; i++) assert_true(isfinite(o[0][i]));
        g.dout.data = dout;
        for (int m = 0; m < 2; m++) {
            g.dq.data = gradients[m][0], g.dk.data = gradients[m][1], g.dv.data = gradients[m][2], g.dbias = m ? own_grad : grad;
            assert_ok(attn_backward(m ? &e : &d, &g));
        }
        for (int t = 0; t < 3; t++) assert_memory_equal(gradients[0][t], gradients[1][t], sizeof(float) * (t ? KV : OUT));
        for (int64_t i = 0; i < SIZE; i++) {
            const double sum = (double)by[0] * own_grad[i] + (double)by[1] * own_grad[SIZE + i];
            if (!(fabs(grad[i] - sum) <= 1e-6) || !isfinite(grad[i])) fail_msg("%s: dbias[%lld] is %g, not %g", backends[n % 3], (long long)i, (double)grad[i], sum);
        }
    }
}

/* A mask and a bias, each of strides of its own: a value that is NaN reaches the rows for which neither hides it. */
static void test_two_strides(void **state)
{
    enum { KEYS = 90, ROWS = 20 };
    (void)state;
    for (int n = 0; n < 16; n++) {
        attn_desc d = { 0 };
        fill_tensors();
        v[50 * HEADS * D + 7] = NAN;                /* head 0 */
        d.batch = 1, d.heads = HEADS, d.q_len = ROWS, d.kv_len = KEYS, d.head_dim = n & 8 ? 16 : D, d.v_dim = D, d.q.data = q, d.k.data = k, d.v.data = v;
        memset(mask, 1, sizeof mask);
        for (int64_t i = 0; i < ROWS * HEADS * KEYS; i++) bias[i] = i % KEYS == 50 && i / KEYS % 3 ? -INFINITY : 1;
        for (int64_t i = 0; i < ROWS * HEADS * KEYS && n & 8; i++)  /* of each row and head other first keys; most of row 0 */
            if (i % KEYS < 2 * (ROWS - i / KEYS % ROWS) + 3 * (i / KEYS / ROWS)) bias[i] = -INFINITY;
        for (int64_t i = 0; i < ROWS * KEYS; i += KEYS) mask[i + 50] = i / KEYS % 4 != 0;
        d.mask.data = mask, d.mask.dtype = ATTN_BOOL, d.mask.stride[0] = d.mask.stride[1] = ATTN_BROADCAST, d.mask.stride[2] = n & 1 ? ATTN_BROADCAST : KEYS;
        if (n & 1) mask[50] = 1;
        d.bias.data = bias, d.bias.stride[0] = ATTN_BROADCAST, d.bias.stride[1] = n & 2 ? ROWS * KEYS : ATTN_BROADCAST, d.bias.stride[2] = KEYS;
        for (int b = 0; b < 2; b++) {
            d.backend = b ? n & 4 ? "flash" : "standard" : "reference", d.o.data = o[b];
            assert_ok(attn_forward(&d));
        }
        for (int64_t i = 0; i < ROWS * HEADS * D; i++)
            if (o[0][i] != o[0][i] ? o[1][i] == o[1][i] : !(fabsf(o[1][i] - o[0][i]) <= 1e-5f))
                fail_msg("%s, %d: o[%lld] is %g, not %g", d.backend, (int)n & 3, (long long)i, (double)o[1][i], (double)o[0][i]);
    }
}

/* With a tolerance that allows P in bf16, a row's certificate is 2^-8 of the largest |v| that it sees, whatever the others see: values
 * fall, rise or jump along the keys, some are infinite. With smaller ones, or such as need scores, it is 0. */
enum { P_ROWS = 210, P_KEYS = 700, P_HEADS = 4, P_DIM = 20 };
static const struct { int64_t rows, keys, group; uint32_t flags; int64_t offset, left, right; int used; } p_calls[] = {
    { 70, 90, 1, 0, 0, 0, 0, 0 }, { 210, 210, 2, ATTN_CAUSAL, 0, 0, 0, 0 }, { 130, 700, 1, ATTN_CAUSAL, 570, 0, 0, 0 }, { 210, 300, 4, ATTN_CAUSAL, -40, 0, 0, 1 },
    { 200, 400, 1, ATTN_CAUSAL | ATTN_WINDOW_LEFT, 100, 33, 0, 0 }, { 210, 210, 2, ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, 0, 5, 3, 1 },
    { 150, 700, 2, ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, 20, 300, 40, 0 }, { 200, 700, 1, ATTN_WINDOW_LEFT, 100, 0, 0, 0 }, { 210, 60, 1, ATTN_WINDOW_RIGHT, -100, 0, 0, 0 },
    { 3, 600, 1, ATTN_CAUSAL, 597, 0, 0, 0 }, { 65, 1, 4, 0, 0, 0, 0, 0 }, { 210, 700, 1, ATTN_CAUSAL | ATTN_WINDOW_LEFT, 0, 64, 0, 0 },
};
static double p_size(int how, int64_t j) { return how == 0 ? ldexp(1, -(int)(j / 8)) : how == 1 ? ldexp(1, (int)(j / 8)) : ldexp(1, (int)(j * 7919 % 41) - 20); }
/* The largest |v| that query i sees of head g of the keys, given that of each key: [keys][kv_heads]. */
static double p_seen(const attn_desc *d, const double *of_key, int64_t i, int64_t keys, int64_t g)
{
    double most = 0;
    for (int64_t j = 0; j < keys; j++) {
        const int64_t apart = j - i - d->offset;
        if (((d->flags & ATTN_CAUSAL) && apart > 0) || ((d->flags & ATTN_WINDOW_LEFT) && apart < -d->window_left) || ((d->flags & ATTN_WINDOW_RIGHT) && apart > d->window_right))
            continue;
        most = fmax(most, of_key[j * d->kv_heads + g]);
    }
    return most;
}
static void check_rounded(int n, int how, int threads)
{
    static const attn_pool pool = { backwards, NULL, 2 };
    static uint16_t x[3][2 * P_KEYS * P_HEADS * P_DIM], out[2 * P_ROWS * P_HEADS * P_DIM];
    static float cert[2 * P_ROWS * P_HEADS], want[2 * P_ROWS * P_HEADS * P_DIM];
    static double of_key[2 * P_KEYS * P_HEADS];
    const int32_t used_k[2] = { (int32_t)p_calls[n].keys * 2 / 3, (int32_t)p_calls[n].keys }, used_q[2] = { (int32_t)p_calls[n].rows, (int32_t)p_calls[n].rows - 7 };
    attn_statistics told;
    attn_plan plan;
    attn_desc d = { 0 };
    uint64_t state = 5;
    d.batch = 2, d.q_len = p_calls[n].rows, d.kv_len = p_calls[n].keys, d.heads = P_HEADS, d.kv_heads = P_HEADS / p_calls[n].group, d.head_dim = P_DIM, d.threads = threads, d.pool = n % 4 == 1 ? &pool : NULL;
    d.flags = p_calls[n].flags | ATTN_OFFSET, d.offset = p_calls[n].offset, d.window_left = p_calls[n].left, d.window_right = p_calls[n].right;
    if (p_calls[n].used) d.seq.used_k = used_k, d.seq.used_q = used_q;
    for (int64_t i = 0; i < 2 * (d.q_len > d.kv_len ? d.q_len : d.kv_len) * P_HEADS * P_DIM; i++)
        for (int t = 0; t < 3; t++)
            element_put(x[t], ATTN_BF16, i, random_gauss(&state) * (t == 2 ? p_size(how, i / P_DIM / d.kv_heads % d.kv_len) : 1));
    if (how == 2) element_put(x[2], ATTN_BF16, (d.kv_len / 2 * d.kv_heads) * P_DIM + 3, INFINITY);
    memset(of_key, 0, sizeof of_key);
    for (int64_t i = 0; i < 2 * d.kv_len * d.kv_heads * P_DIM; i++) of_key[i / P_DIM] = fmax(of_key[i / P_DIM], fabs(element_get(x[2], ATTN_BF16, i)));
    d.q.data = x[0], d.k.data = x[1], d.v.data = x[2], d.o.data = want, d.q.dtype = d.k.dtype = d.v.dtype = ATTN_BF16, d.backend = "reference";
    assert_ok(attn_forward(&d));
    d.backend = NULL, d.o.data = out, d.o.dtype = ATTN_BF16, d.tolerance = 0.004f, d.cert = cert, d.statistics = &told;
    memset(cert, 0xff, sizeof cert);
    assert_ok(attn_query(&d, NULL, &plan));
    const int rounds = strstr(plan.kernel, "p_bf16") != NULL;
    assert_ok(attn_forward(&d));
    float largest = 0;
    for (int64_t r = 0; r < 2 * P_HEADS * d.q_len; r++) {
        const int64_t b = r / d.q_len / P_HEADS, h = r / d.q_len % P_HEADS, i = r % d.q_len, g = h / p_calls[n].group;
        const int seen = !p_calls[n].used || i < used_q[b];
        const double most = seen ? p_seen(&d, of_key + b * d.kv_len * d.kv_heads, i, p_calls[n].used ? used_k[b] : d.kv_len, g) : 0;
        if (!(most < INFINITY)) continue;               /* nothing is promised of it */
        if ((double)cert[r] != (rounds ? most / 256 : 0)) fail_msg("%d, %d: row %d has %g of %g", n, how, (int)r, (double)cert[r], most);
        largest = cert[r] > largest ? cert[r] : largest;
        for (int64_t c = 0; c < P_DIM && seen; c++) {
            const int64_t at = ((b * d.q_len + i) * P_HEADS + h) * P_DIM + c;
            const double off = fabs(element_get(out, ATTN_BF16, at) - (double)want[at]);
            if (!(off <= (double)cert[r] + fabs((double)want[at]) / 256 + 1e-5 * most)) fail_msg("%d, %d: row %d is off by %g of %g", n, how, (int)r, off, most);
        }
    }
    assert_true(told.largest_cert == largest);
    d.cert = NULL, memset(&told, 0xff, sizeof told);    /* the largest alone */
    assert_ok(attn_forward(&d));
    assert_true(told.largest_cert == largest);
    d.cert = cert;
    for (int less = 0; less < 6; less++) {
        static const float sink[P_HEADS];
        static const unsigned char open_mask[P_KEYS] = { 1 };
        d.tolerance = less == 0 ? 0.0039f : 0.004f, d.backend = less == 1 ? "flash" : NULL;
        d.flags = p_calls[n].flags | ATTN_OFFSET | (less == 2 ? ATTN_TOLERANCE_ABSOLUTE : 0);
        d.softcap = less == 3 ? 30 : 0, d.sink = less == 4 ? sink : NULL;
        d.mask.data = less == 5 ? open_mask : NULL, d.mask.dtype = ATTN_BOOL, d.mask.stride[0] = d.mask.stride[1] = d.mask.stride[2] = ATTN_BROADCAST;
        memset(cert, 0xff, sizeof cert);
        assert_ok(attn_forward(&d));
        for (int64_t r = 0; r < 2 * P_HEADS * d.q_len; r++) assert_true(cert[r] == 0);
        assert_true(told.largest_cert == 0);
    }
}
static void test_rounded(void **state)
{
    (void)state;
    for (int n = 0; n < COUNT(p_calls); n++)
        for (int how = 0; how < 3; how++)
            if (!EMULATED || how == n % 3) check_rounded(n, how, n % 2 + 1);
}

/* Few rows, of which one sees a NaN among the first keys: what the others see of later ones is as ever, though each hides others there. */
static void test_nan_before_masks(void **state)
{
    enum { KEYS = 4096, DIM = 64, MOST = 8 };
    static float query[MOST * DIM], key[KEYS * DIM], value[KEYS * DIM], out[2][MOST * DIM];
    static unsigned char hides[MOST * KEYS];
    uint64_t r = 31;
    (void)state;
    for (int64_t i = 0; i < MOST * DIM; i++) query[i] = (float)random_normal(&r);
    for (int64_t i = 0; i < KEYS * DIM; i++) key[i] = (float)random_normal(&r) / 4, value[i] = (float)random_normal(&r);
    value[5 * DIM] = NAN;
    for (int rows = 2; rows <= MOST; rows++) {
        if (EMULATED && rows % 3 != 2) continue;
        attn_desc d = { 0 };
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < KEYS; j++) hides[i * KEYS + j] = !(j == 5 && i) && !(j >= 2100 && j < 2160 && j % rows == i);
        d.batch = d.heads = 1, d.q_len = rows, d.kv_len = KEYS, d.head_dim = DIM, d.threads = 1;
        d.q.data = query, d.k.data = key, d.v.data = value, d.mask.data = hides, d.mask.dtype = ATTN_BOOL;
        for (int b = 0; b < 2; b++) {
            d.backend = b ? "flash" : "reference", d.o.data = out[b];
            assert_ok(attn_forward(&d));
        }
        for (int64_t i = 0; i < rows * DIM; i++)
            if (i ? !(fabsf(out[1][i] - out[0][i]) <= 1e-5f) : !isnan(out[1][0])) fail_msg("%d rows: o[%d] is %g, not %g", rows, (int)i, (double)out[1][i], (double)out[0][i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_nan_before_masks), cmocka_unit_test(test_shapes), cmocka_unit_test(test_nan), cmocka_unit_test(test_nan_in_place), cmocka_unit_test(test_nan_wide), cmocka_unit_test(test_nan_gradients), cmocka_unit_test(test_nan_dout), cmocka_unit_test(test_nan_bf16), cmocka_unit_test(test_nan_stretches), cmocka_unit_test(test_nan_few_rows), cmocka_unit_test(test_nan_two_blocks), cmocka_unit_test(test_nan_few_bits), cmocka_unit_test(test_nan_bias), cmocka_unit_test(test_bias_scale), cmocka_unit_test(test_large_bias_scale), cmocka_unit_test(test_infinite_bias_scale), cmocka_unit_test(test_bias_scale_spoils), cmocka_unit_test(test_small_bias_scale), cmocka_unit_test(test_two_strides), cmocka_unit_test(test_rounded) };
    return cmocka_run_group_tests_name("hidden", tests, NULL, NULL);
}
