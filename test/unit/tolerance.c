/* tolerance.c - calls with a tolerance, of prefill: which rows are computed from codes, what their certificates promise and need, what is sampled and
 * told. Random ones are in proof/adaptive.c, those that decode from int16 in planes.c and proof/decode.c. */
#include "unit.h"

enum { H = 2, D = 4, NUMBERS = 576000 };
static float numbers[3][NUMBERS];

static void fill_all(void)
{
    uint64_t r = 31;
    for (int t = 0; t < 3; t++)
        for (int64_t i = 0; i < NUMBERS; i++) numbers[t][i] = (float)random_gauss(&r);
}
static attn_desc make(int64_t batch, int64_t q_len, int64_t kv_len)
{
    attn_desc d = { 0 };
    d.batch = batch, d.heads = H, d.kv_heads = 1, d.head_dim = D, d.q_len = q_len, d.kv_len = kv_len;
    d.q.data = numbers[0], d.k.data = numbers[1], d.v.data = numbers[2];
    return d;
}
/* AVX-512 without VNNI alone: see test_adaptive_chosen of registry.c. */
static int no_products(const attn_desc *d)
{
    attn_plan plan;
    return attn_query(d, NULL, &plan) == ATTN_ERR_DECLINED && strstr(plan.why, "processor has no products");
}

/* A tolerance, and sequences of which some are long enough for codes and others are not: rows of both kinds in one call. */
static void test_mixed_tolerance(void **state)
{
    static const int32_t keys[4] = { 1000, 100, 700, 0 }, rows[4] = { 256, 200, 30, 256 };
    enum { ROWS = 4 * 256 * H };
    static float o[ROWS * D], want[ROWS * D], cert[ROWS], sum;
    attn_statistics s;
    attn_desc d = make(4, 256, 1000);
    (void)state;
    d.seq.used_k = keys, d.seq.used_q = rows, d.scale = 0.1f, d.flags = ATTN_SCALE, d.threads = 2;
    d.backend = "reference", d.o.data = want;
    assert_ok(attn_forward(&d));
    d.backend = "adaptive", d.o.data = o, d.tolerance = 0.02f, d.cert = cert, d.statistics = &s;
    if (no_products(&d)) skip();
    memset(o, 0xff, sizeof o);
    assert_ok(attn_forward(&d));
    for (int64_t i = 0; i < ROWS; i++) {
        const int64_t row = i / H % 256;
        for (int64_t c = 0; c < D && row < rows[i / H / 256]; c++)
            if (!(fabs((double)o[i * D + c] - (double)want[i * D + c]) <= 0.05))
                fail_msg("row %d of sequence %d: %g, not %g", (int)row, (int)(i / H / 256), (double)o[i * D + c], (double)want[i * D + c]);
        sum += cert[(i / H / 256 * H + i % H) * 256 + row];
    }
    assert_true(s.tiles_int16 > 0 && s.tiles_f32 > 0 && s.why[0] && sum > 0);       /* both kinds were there */
}

/* A quantile: rows that the values of one chunk, of codes far too coarse for them, move by 0.02, and rows that see nothing of it. The guess
 * before is of other keys. Whether the rows stay follows from the share of them within the tolerance; one in four is beyond it, then
 * all but the first. */
enum { SAMPLED_ROWS = 384, SAMPLED_KEYS = 1280 };
static void sampled_call(attn_desc *d, int all, float quantile, float *o, float *cert, attn_statistics *told)
{
    static float q[SAMPLED_ROWS * D], k[SAMPLED_KEYS * D], v[SAMPLED_KEYS * D];
    memset(q, 0, sizeof q), memset(d, 0, sizeof *d), memset(cert, 0xff, SAMPLED_ROWS * 4), memset(told, 0xff, sizeof *told);
    for (int64_t i = 0; i < SAMPLED_ROWS; i++) q[i * D] = (all ? i < 24 : i % 4 != 0) ? 40 : 0;
    for (int64_t j = 0; j < SAMPLED_KEYS; j++)
        for (int64_t c = 0; c < D; c++)
            k[j * D + c] = c == 0 && j >= 640, v[j * D + c] = j == 200 && c == 0 ? 1000 : j / 128 == 1 ? 0.2f : numbers[2][j * D + c] * 0.1f;
    d->batch = d->heads = 1, d->head_dim = D, d->q_len = SAMPLED_ROWS, d->kv_len = SAMPLED_KEYS, d->scale = 1, d->flags = ATTN_SCALE;
    d->q.data = q, d->k.data = k, d->v.data = v, d->o.data = o, d->backend = "reference";
    assert_ok(attn_forward(d));
    d->backend = "adaptive", d->flags |= ATTN_TOLERANCE_ABSOLUTE, d->tolerance = 0.01f, d->quantile = quantile, d->cert = cert, d->statistics = told;
}

static double most_off(const float *got, const float *want, int64_t n)
{
    double off = 0;
    for (int64_t c = 0; c < n; c++) {
        const double x = fabs((double)got[c] - (double)want[c]);
        if (!(x < INFINITY)) return INFINITY;
        if (x > off) off = x;
    }
    return off;
}
static double row_off(const float *got, const float *want) { return most_off(got, want, D); }

static void test_sampled(void **state)
{
    static const float quantiles[] = { 0.3f, 0.4f, 0.8f, 0.99f, 0.5f, 0 };
    static float o[SAMPLED_ROWS * D], want[SAMPLED_ROWS * D], cert[SAMPLED_ROWS];
    (void)state;
    for (int n = 0; n < COUNT(quantiles); n++) {
        const int all = n == 4, stay = n < 2, certified = n == 5 || n == 3;      /* 0.99: too many would have to be compared */
        int64_t beyond = 0, dense = 0;
        double most = 0;
        attn_statistics s;
        attn_desc d;
        sampled_call(&d, all, quantiles[n], want, cert, &s);
        d.o.data = o;
        if (no_products(&d)) skip();
        assert_ok(attn_forward(&d));
        for (int64_t i = 0; i < SAMPLED_ROWS; i++) {
            const double off = row_off(o + i * D, want + i * D);
            if (!(off <= (double)cert[i] + 1e-4)) fail_msg("row %d: off by %g, cert %g", (int)i, off, (double)cert[i]);
            beyond += off > 0.0101, dense += cert[i] == 0;
            most = fmax(most, off);
        }
        if (beyond != (stay ? SAMPLED_ROWS / 4 : 0)) fail_msg("quantile %g: %d rows beyond the tolerance", (double)quantiles[n], (int)beyond);
        assert_int_equal(s.rows_redone, stay ? 0 : dense);
        assert_true(stay ? dense == 0 : certified ? dense == s.rows_redone && !s.rows_sampled : dense == SAMPLED_ROWS);
        if (certified) continue;
        assert_true(s.rows_sampled >= 24 && s.rows_sampled <= SAMPLED_ROWS / 5);
        assert_true(stay ? s.rows_beyond > 0 && s.rows_beyond <= s.rows_sampled / 2 : s.rows_beyond == 0);
        if (fabs((double)s.sampled_error - (stay ? most : 0)) > 1e-4) fail_msg("sampled error %g, not %g", (double)s.sampled_error, most);
    }
}

/* Each sampled row is held against what it may be off by itself: the first rows do not see the huge value of a chunk, and may be off by
 * little; the others, which see it, are certified. Half of the rows may be off, so these stay; a tenth may not. */
static void test_sampled_seen(void **state)
{
    enum { FEW = 45 };
    static float o[SAMPLED_ROWS * D], want[SAMPLED_ROWS * D], cert[SAMPLED_ROWS];
    (void)state;
    for (int n = 0; n < 6; n++) {
        int64_t beyond = 0;
        attn_statistics s;
        attn_desc d;
        const float quantile = n % 2 ? 0.5f : 0.9f;
        const int late = n > 3;                             /* the last rows are those that do not see it */
        const int64_t large = late ? 0 : SAMPLED_KEYS - 1;
        sampled_call(&d, 0, quantile, want, cert, &s);
        memset((void *)(uintptr_t)d.q.data, 0, SAMPLED_ROWS * D * 4);
        for (int64_t j = 0; j < SAMPLED_KEYS; j++)
            for (int64_t c = 0; c < D; c++)
                ((float *)(uintptr_t)d.v.data)[j * D + c] = j == large ? 1000 * (c == 0) : j / 128 == large / 128 ? 0.2f : numbers[2][j * D + c] * 0.1f;
        d.flags = ATTN_SCALE | ATTN_CAUSAL | ATTN_OFFSET, d.offset = SAMPLED_KEYS - 1 - FEW, d.q_len = SAMPLED_ROWS - 7 * n;
        if (late) d.flags = ATTN_SCALE | ATTN_WINDOW_LEFT | ATTN_OFFSET, d.offset = 0, d.window_left = d.q_len - 1 - FEW;
        d.backend = "reference", d.tolerance = d.quantile = 0, d.cert = NULL, d.statistics = NULL;
        assert_ok(attn_forward(&d));
        d.backend = "adaptive", d.tolerance = 0.01f, d.quantile = quantile, d.cert = cert, d.statistics = &s, d.o.data = o;
        if (no_products(&d)) skip();
        assert_ok(attn_forward(&d));
        for (int64_t i = 0; i < d.q_len; i++) beyond += row_off(o + i * D, want + i * D) > ((late ? i >= d.q_len - FEW : i < FEW) ? 0.005 : 10);
        assert_true(s.rows_sampled > 0);
        if (n % 2) assert_true(s.rows_redone == 0 && beyond == FEW && s.rows_beyond == s.rows_sampled);
        else assert_true(beyond == 0 && s.rows_redone == FEW && s.rows_beyond == 0);
    }
}

/* A few rows stand out by their certificates and are off by much: they are computed again, with the others of the first that are compared, and what is
 * told of sampled rows is of those that stay. */
static void test_sampled_redone(void **state)
{
    static float o[SAMPLED_ROWS * D], want[SAMPLED_ROWS * D], cert[SAMPLED_ROWS];
    (void)state;
    for (int n = 0; n < 4; n++) {
        double most = 0;
        attn_statistics s;
        attn_desc d;
        sampled_call(&d, 0, 0.9f, want, cert, &s);
        float *q = (float *)(uintptr_t)d.q.data, *k = (float *)(uintptr_t)d.k.data;
        for (int64_t i = 0; i < SAMPLED_ROWS; i++)
            for (int64_t c = 0; c < D; c++) q[i * D + c] = i % 128 == 5 ? (c == 1) * 40 : (c == 0) * (1.4f + 0.1f * (float)n);
        for (int64_t j = 128; j < 256; j++) k[j * D + 1] = 1;
        d.backend = "reference", d.flags = ATTN_SCALE, d.tolerance = d.quantile = 0, d.cert = NULL, d.statistics = NULL;
        assert_ok(attn_forward(&d));
        d.backend = "adaptive", d.flags |= ATTN_TOLERANCE_ABSOLUTE, d.tolerance = 0.01f, d.quantile = 0.9f, d.cert = cert, d.statistics = &s, d.o.data = o;
        if (no_products(&d)) skip();
        assert_ok(attn_forward(&d));
        for (int64_t i = 0; i < SAMPLED_ROWS; i++) {
            assert_true(i % 128 != 5 || cert[i] == 0);
            most = fmax(most, row_off(o + i * D, want + i * D));
        }
        assert_true(s.rows_redone >= 3 && s.rows_redone < s.rows_sampled && s.rows_beyond == 0 && most > 0.001 && most <= 0.01);
        if (fabs((double)s.sampled_error - most) > 1e-4) fail_msg("sampled error %g, not %g", (double)s.sampled_error, most);
    }
}

/* Rows that are computed again have the bits of a call without a tolerance, whether they lie together or are picked out of others, which are not
 * computed with them; so have those that a NaN spoils. The keys of few rows are split. */
static void test_redone_bits(void **state)
{
    enum { ROWS = 400, KEYS = 2304, DIM = 64, OUT = ROWS * H * DIM };
    static float q[OUT], k[KEYS * DIM], v[KEYS * DIM], o[OUT], want[OUT], lse[ROWS * H], want_lse[ROWS * H], cert[ROWS * H];
    static uint16_t narrow[3][KEYS * DIM];
    float *const wide[3] = { q, k, v };
    const int64_t count[3] = { OUT, KEYS * DIM, KEYS * DIM };
    (void)state;
    for (int n = 0; n < 32; n++) {
        const int type = n % 4 == 3 ? ATTN_BF16 : n % 4 == 2 ? ATTN_F16 : ATTN_F32, spoiled = n / 4 % 2, together = n / 8 == 1, causal = n / 8 == 2, split = n / 8 == 3;
        const int64_t rows = split ? 120 : ROWS, keys = split ? KEYS : n % 2 ? 1025 : 1280;     /* a last block of one key */
        int64_t again = 0, tiles = 0;
        attn_statistics s;
        attn_desc d = make(1, rows, keys);
        for (int64_t i = 0; i < OUT; i++) {
            const int64_t row = i / H / DIM;                        /* of these the codes of the other elements are too coarse */
            q[i] = i % DIM == 11 && (together ? row >= 51 && row < 61 : row % 16 == 5) ? 3000 : numbers[0][i];
        }
        for (int64_t i = 0; i < KEYS * DIM; i++) k[i] = i % DIM == 11 ? 0 : numbers[1][i], v[i] = numbers[2][i];
        if (spoiled) v[(keys - 10) * DIM + 3] = NAN;                       /* where causal, of some rows */
        for (int t = 0; t < 3 && type != ATTN_F32; t++) {
            const int64_t shape[4] = { 1, count[t], 1, 1 };
            attn_in from = { 0 };
            attn_out to = { 0 };
            from.data = wide[t], from.dtype = ATTN_F32, to.data = narrow[t], to.dtype = type;
            assert_ok(attn_convert(shape, from, to, NULL));
        }
        d.head_dim = DIM, d.flags = causal ? ATTN_CAUSAL : 0;
        d.q.data = type == ATTN_F32 ? (void *)q : narrow[0], d.k.data = type == ATTN_F32 ? (void *)k : narrow[1], d.v.data = type == ATTN_F32 ? (void *)v : narrow[2];
        d.q.dtype = d.k.dtype = d.v.dtype = type, d.backend = "flash", d.o.data = want, d.lse = want_lse;
        assert_ok(attn_forward(&d));
        d.backend = "adaptive", d.o.data = o, d.lse = lse, d.tolerance = 0.01f, d.cert = cert, d.statistics = &s;
        if (no_products(&d)) skip();
        assert_ok(attn_forward(&d));
        for (int64_t i = 0; i < rows * H; i++) {
            const int64_t row = i / H, at = i % H * rows + row;
            if (cert[at] != 0) continue;
            again++, tiles += causal ? (keys - rows + row) / 128 + 1 : (keys + 127) / 128;
            if (memcmp(o + i * DIM, want + i * DIM, DIM * 4) || memcmp(lse + at, want_lse + at, 4)) fail_msg("way %d: row %d, head %d is not as without a tolerance", n, (int)row, (int)(i % H));
        }
        assert_true(again >= 7 * H && s.rows_redone == again && s.rows == rows * H);
        if (!split) assert_int_equal(s.tiles_f32, tiles);           /* no other row */
        assert_true(s.tiles_int16 > 0 && (spoiled || again < rows * H / 8));
    }
}

/* One key in 500 is much longer than the others, and makes the codes of its chunk too coarse for all rows that see it: that is known once keys are
 * packed, and the unit's rows are computed as without a tolerance. */
static void test_long_keys(void **state)
{
    enum { N = 2048, DIM = 128 };
    static float q[N * DIM], k[N * DIM], v[N * DIM], o[N * DIM], want[N * DIM], cert[N];
    attn_statistics told;
    attn_desc d = make(1, N, N);
    (void)state;
    if (EMULATED) skip();
    for (int64_t i = 0; i < N * DIM; i++)
        q[i] = numbers[0][i % COUNT(numbers[0])], v[i] = numbers[2][i % COUNT(numbers[2])], k[i] = numbers[1][i % COUNT(numbers[1])] * (i / DIM % 500 == 77 ? 20.0f : 1);
    d.heads = 1, d.head_dim = DIM, d.flags = ATTN_CAUSAL, d.q.data = q, d.k.data = k, d.v.data = v, d.backend = "flash", d.o.data = want;
    assert_ok(attn_forward(&d));
    d.backend = "adaptive", d.o.data = o, d.tolerance = 0.01f, d.cert = cert, d.statistics = &told;
    if (no_products(&d)) skip();
    assert_ok(attn_forward(&d));
    if (told.tiles_int16 == 0 || told.rows_redone != N) fail_msg("%d of %d rows are computed again, %s", (int)told.rows_redone, N, told.why);
    assert_memory_equal(o, want, sizeof o);
}

/* The same of so many keys that sums are kept in f64 beside. */
static void test_redone_many_keys(void **state)
{
    enum { ROWS = 272, KEYS = 20000, DIM = 64 };
    static float q[ROWS * DIM], k[KEYS * DIM], v[KEYS * DIM], o[ROWS * DIM], want[ROWS * DIM], cert[ROWS];
    int64_t again = 0;
    attn_desc d = make(1, ROWS, KEYS);
    (void)state;
    if (EMULATED) skip();
    for (int64_t i = 0; i < ROWS * DIM; i++) q[i] = i % DIM == 11 && i / DIM % 16 == 5 ? 3000 : numbers[0][i];
    for (int64_t i = 0; i < KEYS * DIM; i++) k[i] = i % DIM == 11 ? 0 : numbers[1][i % COUNT(numbers[1])], v[i] = 0.57f + numbers[2][i % COUNT(numbers[2])];
    d.heads = 1, d.head_dim = DIM, d.q.data = q, d.k.data = k, d.v.data = v, d.backend = "flash", d.o.data = want;
    assert_ok(attn_forward(&d));
    d.backend = "adaptive", d.o.data = o, d.tolerance = 0.01f, d.cert = cert;
    if (no_products(&d)) skip();
    assert_ok(attn_forward(&d));
    for (int64_t i = 0; i < ROWS; i++) {
        if (cert[i] != 0) continue;
        again++;
        if (memcmp(o + i * DIM, want + i * DIM, DIM * 4)) fail_msg("row %d is not as without a tolerance", (int)i);
    }
    if (again < 4 || again == ROWS) fail_msg("%d rows of %d are computed again", (int)again, ROWS);
}

/* The same of rows that are decoded: the first and the last of eight, whose values flash reads where they lie. Those between
 * are computed beside them, and are written as they were certified. */
static void test_decode_redone_bits(void **state)
{
    enum { ROWS = 8, KEYS = 1024, DIM = 64 };
    attn_statistics told;
    static float q[ROWS * DIM], scale[KEYS], o[ROWS * DIM], want[ROWS * DIM], lse[ROWS], want_lse[ROWS], cert[ROWS];
    static int8_t codes[2][2 * KEYS * DIM];
    (void)state;
    for (int64_t i = 0; i < ROWS * DIM; i++) q[i] = numbers[0][i] * 0.5f;
    for (int n = 0; n < 2; n++)
        for (int64_t i = 0; i < 2 * KEYS * DIM; i++) codes[n][i] = (int8_t)fmax(-127, fmin(127, (double)numbers[1 + n][i] * 40));
    for (int64_t e = DIM - 1; e < KEYS * DIM; e += DIM) codes[0][e + e / ATTN_PLANE * ATTN_PLANE] = codes[0][e + e / ATTN_PLANE * ATTN_PLANE + ATTN_PLANE] = 0;
    for (int64_t j = 0; j < KEYS; j++) scale[j] = (1 + (float)(j % 7) / 10) / 64;
    q[DIM - 1] = q[ROWS * DIM - 1] = 30000;                         /* where keys are 0 */
    attn_desc d = make(1, ROWS, KEYS);
    d.heads = 1, d.head_dim = DIM, d.q.data = q, d.k.data = codes[0], d.v.data = codes[1], d.k.dtype = d.v.dtype = ATTN_INT16, d.k.scale = d.v.scale = scale;
    d.backend = "flash", d.o.data = want, d.lse = want_lse;
    assert_ok(attn_forward(&d));
    d.backend = "adaptive", d.o.data = o, d.lse = lse, d.tolerance = 0.01f, d.cert = cert, d.statistics = &told;
    if (no_products(&d)) skip();
    assert_ok(attn_forward(&d));
    const int codes_of_q = strstr(attn_isa(), "avx512") != NULL;    /* others multiply by q itself */
    if (codes_of_q) assert_true(told.rows_redone == 2 && told.tiles_f32 == 2 * KEYS / 128);
    for (int64_t r = 0; r < ROWS; r++) {
        const int again = r == 0 || r == ROWS - 1, same = !memcmp(o + r * DIM, want + r * DIM, DIM * 4) && !memcmp(lse + r, want_lse + r, 4);
        if (!again) assert_true(cert[r] > 0);
        if ((codes_of_q && again != (cert[r] == 0)) || same != (cert[r] == 0)) fail_msg("row %d: certificate %g, %s as without a tolerance", (int)r, (double)cert[r], same ? "just" : "not");
        if (!(row_off(o + r * DIM, want + r * DIM) <= (double)cert[r] + 1e-6)) fail_msg("row %d is off by %g, certificate %g", (int)r, row_off(o + r * DIM, want + r * DIM), (double)cert[r]);
    }
}

/* Rows that are decoded, with scores too large for the codes of q: that is known before anything is read, of some sizes before values are; where it is so
 * of a third of the rows, all are computed exactly, at once. Beside a sequence whose rows have hope, too. */
static void test_decode_hopeless(void **state)
{
    enum { ROWS = 4, KEYS = 4096, DIM = 128, ALL = 2 * KEYS * DIM };
    static const struct { float size[ROWS]; int redone, dense, keys; } cases[] = {
        { { 1, 1, 1, 1 }, 0, 0, 1 },   { { 30, 30, 30, 30 }, 0, 1, 0 }, { { 1, 30, 1, 30 }, 0, 1, 0 },
        { { 1, 1, 1, 30 }, 1, 0, 1 },  { { 9, 9, 9, 9 }, 0, 1, 1 },     { { 9, 1, 1, 9 }, 0, 1, 1 },
        { { 11, 11, 11, 11 }, 0, 1, 0 }, { { 7, 7, 7, 7 }, 0, 0, 1 },    /* what the codes of q leave out is not lost once more */
    };
    static float q[2 * ROWS * DIM], x[2][KEYS * DIM], scale[2][KEYS], o[2 * ROWS * DIM], want[2 * ROWS * DIM], cert[2 * ROWS];
    static int8_t codes[2][2 * KEYS * DIM];
    attn_statistics one = { 0 };
    int32_t used[2] = { 0 };
    (void)state;
    for (int n = 0; n < 2; n++)
        for (int64_t i = 0; i < KEYS * DIM; i++) x[n][i] = numbers[1 + n][i % COUNT(numbers[1])];
    attn_desc d = make(1, 0, KEYS);
    d.heads = ROWS, d.kv_heads = 1, d.head_dim = DIM, d.k.data = codes[0], d.v.data = codes[1], d.k.dtype = d.v.dtype = ATTN_INT16, d.k.scale = scale[0], d.v.scale = scale[1];
    d.append.k.data = x[0], d.append.v.data = x[1], d.append.k_cache = codes[0], d.append.v_cache = codes[1], d.append.k_scale = scale[0], d.append.v_scale = scale[1];
    d.append.len = KEYS, d.seq.used_k = used;
    assert_ok(attn_forward(&d));
    memset(&d.append, 0, sizeof d.append);
    used[0] = used[1] = KEYS, d.q_len = 1, d.q.data = q;
    d.k.stride[0] = d.v.stride[0] = ATTN_BROADCAST, d.k.stride[1] = d.k.stride[2] = d.v.stride[1] = d.v.stride[2] = DIM;
    d.k.scale_stride[0] = d.v.scale_stride[0] = ATTN_BROADCAST, d.k.scale_stride[1] = d.k.scale_stride[2] = d.v.scale_stride[1] = d.v.scale_stride[2] = 1;
    for (int n = 0; n < 3 * COUNT(cases); n++) {
        const int c = n / 3, beside = n % 3 > 0, at = n % 3 == 2 ? ROWS : 0;    /* a sequence with hope is behind it or before it */
        attn_statistics told;
        d.batch = 1 + beside, d.threads = n % 3 == 1 ? 2 : 1;
        for (int64_t i = 0; i < 2 * ROWS * DIM; i++) q[i] = (i / DIM / ROWS == at / ROWS ? cases[c].size[i / DIM % ROWS] : 1) * numbers[0][i % (ROWS * DIM)];
        d.backend = "flash", d.o.data = want, d.tolerance = 0, d.cert = NULL, d.statistics = NULL;
        assert_ok(attn_forward(&d));
        d.backend = "adaptive", d.o.data = o, d.tolerance = 0.01f, d.cert = cert, d.statistics = &told;
        if (no_products(&d)) skip();
        assert_ok(attn_forward(&d));
        if (strstr(attn_isa(), "avx512")) {
            const int64_t bytes = beside ? told.bytes - one.bytes : told.bytes;
            if (told.rows_redone != cases[c].redone || (told.why[0] != 0) != cases[c].dense || (bytes == 0) != !cases[c].keys || (cases[c].dense && bytes > KEYS * DIM))
                fail_msg("case %d: %d rows computed twice, %d bytes of %d, '%s'", n, (int)told.rows_redone, (int)bytes, 2 * ALL, told.why);
            if (cases[c].dense && memcmp(o + at * DIM, want + at * DIM, ROWS * DIM * sizeof *o)) fail_msg("case %d: not as without a tolerance", n);
        }
        if (n == 0) one = told;
        for (int64_t r = 0; r < (1 + beside) * ROWS; r++)
            if (!(row_off(o + r * DIM, want + r * DIM) <= (double)cert[r] + 1e-5)) fail_msg("case %d, row %d is off by %g, certificate %g", n, (int)r, row_off(o + r * DIM, want + r * DIM), (double)cert[r]);
    }
}

/* The largest share of its certificate that a row of a head needs, beyond `rounded`, which is more than f32 rounds: no more than all of it. */
static double share_needed(attn_desc *d, double rounded)
{
    enum { MOST_ROWS = 300 };
    static float o[MOST_ROWS * D], want[MOST_ROWS * D], cert[MOST_ROWS];
    const float tolerance = d->tolerance;
    attn_statistics told;
    double most = 0;
    assert_true(d->heads == 1 && d->q_len <= MOST_ROWS);
    d->o.data = want, d->backend = "reference", d->tolerance = 0;
    assert_ok(attn_forward(d));
    d->flags |= ATTN_TOLERANCE_ABSOLUTE, d->backend = "adaptive", d->tolerance = tolerance, d->o.data = o, d->cert = cert, d->statistics = &told;
    if (no_products(d)) skip();
    assert_ok(attn_forward(d));
    assert_true(told.tiles_int16 > 0 && told.rows_redone == 0);
    for (int64_t i = 0; i < d->q_len; i++) {
        const double is = row_off(o + i * D, want + i * D);
        if (!(is <= (double)cert[i] + rounded)) fail_msg("row %d is off by %g, cert %g", (int)i, is, (double)cert[i]);
        if (cert[i] > 0) most = fmax(most, is / (double)cert[i]);
    }
    return most;
}

/* One key of one value, alone with weight in its chunk, of which the codes leave as much as they can, all on one side; the other keys have no
 * value: what rows are off by is as much as it can be. */
static void test_worst_key(void **state)
{
    enum { ROWS = 300, KEYS = 1280, AT = 200 };
    static float q[ROWS * D], k[KEYS * D], v[KEYS * D];
    double most = 0;
    (void)state;
    for (int n = 0; n < 8; n++) {
        const float off = (float)(n / 2 + 1) * 0.18f, step = 1.0f / 32767, side = n % 2 ? -0.49f : 0.49f;
        attn_desc d = make(1, ROWS, KEYS);
        memset(k, 0, sizeof k), memset(v, 0, sizeof v);
        for (int64_t i = 0; i < ROWS * D; i++) q[i] = i % D ? off / (3 * 0.49f * step) : 0;
        for (int64_t j = AT / 128 * 128; j < AT / 128 * 128 + 128; j++)
            for (int64_t c = 1; c < D; c++) k[j * D + c] = j == AT ? side * step : -20 / (3 * q[1]);
        k[AT * D] = v[AT * D] = 1;
        d.heads = 1, d.scale = 1, d.flags = ATTN_SCALE, d.q.data = q, d.k.data = k, d.v.data = v;
        d.tolerance = 0.02f;
        most = fmax(most, share_needed(&d, 1e-8));
    }
    if (!(most > 0.5)) fail_msg("at most %g of a certificate was needed", most);
}

/* A value far from the others is the first of its chunk: it counts for the step of the codes and for what they leave of it. */
static void test_first_of_chunk(void **state)
{
    enum { ROWS = 300, KEYS = 512 };
    static float q[ROWS * D], v[KEYS * D];
    attn_desc d = make(1, ROWS, KEYS);
    (void)state;
    for (int64_t i = 0; i < ROWS * D; i++) q[i] = 0.1f * numbers[0][i];
    memcpy(v, numbers[2], sizeof v);
    v[128 * D] = 100;
    d.heads = 1, d.q.data = q, d.v.data = v, d.tolerance = 0.02f;
    share_needed(&d, 1e-4);
}

/* All keys have weight, half of the scores are too large by what codes leave and half too small, and values are far apart on their sides: what each
 * moves adds up, and a certificate that does not multiply them is too small a hundred times. */
static void test_worst_keys(void **state)
{
    enum { ROWS = 300, KEYS = 1280 };
    static float q[ROWS * D], k[KEYS * D], v[KEYS * D];
    const float step = 1.0f / 32767;
    double most = 0;
    (void)state;
    for (int n = 0; n < 3; n++) {
        const float off = (float)(n + 1) * 0.06f;
        attn_desc d = make(1, ROWS, KEYS);
        for (int64_t i = 0; i < ROWS * D; i++) q[i] = i % D ? off / ((D - 1) * 0.49f * step) : 0;
        for (int64_t i = 0; i < KEYS * D; i++) {
            const float side = i / D % 2 ? -1 : 1;
            k[i] = i % D ? side * 0.49f * step : 1, v[i] = side * 100;
        }
        d.heads = 1, d.scale = 1, d.flags = ATTN_SCALE, d.q.data = q, d.k.data = k, d.v.data = v;
        d.tolerance = 90;
        most = fmax(most, share_needed(&d, 1e-3));
    }
    if (!(most > 0.4)) fail_msg("at most %g of a certificate was needed", most);
}

/* In which column a value lies says nothing of a row's certificate, with singular values or without. */
static void test_columns(void **state)
{
    enum { ROWS = 300, KEYS = 1280, V_DIM = 40 };
    static float v[2][KEYS * V_DIM], o[2][ROWS * V_DIM], cert[2][ROWS];
    (void)state;
    for (int64_t i = 0; i < KEYS * V_DIM; i++) {
        v[0][i] = numbers[2][i] * (float)(1 + i % V_DIM * (i % V_DIM)) * 1e-3f;
        v[1][i / V_DIM * V_DIM + V_DIM - 1 - i % V_DIM] = v[0][i];
    }
    for (int many = 0; many < 2; many++) {
        for (int back = 0; back < 2; back++) {
            attn_statistics told;
            attn_desc d = make(1, ROWS, KEYS);
            d.heads = 1, d.v_dim = V_DIM, d.v.data = v[back], d.o.data = o[back], d.cert = cert[back], d.statistics = &told, d.tolerance = 0.05f, d.backend = "adaptive";
            if (no_products(&d)) skip();
            unit_spectrum(many);
            const attn_status s = attn_forward(&d);
            unit_spectrum(0);
            assert_ok(s);
            assert_true(told.tiles_int16 > 0 && told.rows_redone == 0 && cert[back][0] > 0);
        }
        assert_memory_equal(cert[0], cert[1], sizeof cert[0]);
        for (int64_t i = 0; i < ROWS * V_DIM; i++) assert_true(o[0][i] == o[1][i / V_DIM * V_DIM + V_DIM - 1 - i % V_DIM]);
    }
}

/* Scores of which codes say nothing: all is computed as a plain call has it, and the statistics say so. */
static void test_hopeless(void **state)
{
    enum { ROWS = 300, KEYS = 1280 };
    static float q[ROWS * H * D], o[2][ROWS * H * D], cert[ROWS * H];
    attn_statistics told;
    attn_desc d = make(1, ROWS, KEYS);
    (void)state;
    for (int64_t i = 0; i < COUNT(q); i++) q[i] = 150 * numbers[0][i];
    d.q.data = q, d.o.data = o[0], d.backend = "flash";
    assert_ok(attn_forward(&d));
    d.o.data = o[1], d.backend = "adaptive", d.tolerance = 0.01f, d.cert = cert, d.statistics = &told;
    if (no_products(&d)) skip();
    for (int named = 1; named >= 0; named--) {
        d.backend = named ? "adaptive" : NULL;
        memset(o[1], 0xff, sizeof o[1]), memset(cert, 0xff, sizeof cert), memset(&told, 0xff, sizeof told);
        assert_ok(attn_forward(&d));
        assert_memory_equal(o[1], o[0], sizeof o[0]);
        for (int64_t i = 0; i < ROWS * H; i++) assert_true(cert[i] == 0);
        assert_true(told.tiles_int16 == 0 && told.rows_redone == 0 && told.tiles_f32 == ROWS * H * KEYS / 128 && told.why[0]);
    }
}

/* Rows of which every second head, or every second query, looks at few keys: whether codes pay is not guessed from the others alone. */
static void test_every_second(void **state)
{
    enum { ROWS = 1024, DIM = 64, HEADS = 4 };
    static float q[ROWS * HEADS * DIM], k[ROWS * DIM], o[ROWS * HEADS * DIM];
    uint64_t r = 41;
    (void)state;
    for (int64_t i = 0; i < COUNT(k); i++) k[i] = (float)random_gauss(&r);
    for (int n = 0; n < 8; n++) {
        attn_statistics told;
        attn_desc d = { 0 };
        const int by_head = n & 1, of = n / 4 ? 4 : 2, which = (n & 2) / 2;
        for (int64_t i = 0; i < COUNT(q); i++) {
            const int64_t query = i / DIM / HEADS, head = i / DIM % HEADS;
            q[i] = (float)random_gauss(&r) * ((by_head ? head : query) % of == (which ? of - 1 : 0) ? 16 : 1);
        }
        d.batch = 1, d.heads = HEADS, d.kv_heads = 1, d.q_len = d.kv_len = ROWS, d.head_dim = DIM, d.q.data = q, d.k.data = d.v.data = k, d.o.data = o;
        d.backend = "adaptive", d.tolerance = 0.01f, d.statistics = &told;
        if (no_products(&d)) skip();
        assert_ok(attn_forward(&d));
        if (told.rows_redone * 20 > told.rows) fail_msg("%s %d of %d looks at few keys: %d of %d rows computed twice", by_head ? "head" : "query", which, of, (int)told.rows_redone, (int)told.rows);
    }
}

/* A first key that is far longer than the others, as that of a language model is: it is among those that are looked at. */
static void test_long_first(void **state)
{
    enum { ROWS = 1024, DIM = 64 };
    static float k[ROWS * DIM], o[ROWS * DIM];
    attn_statistics told;
    attn_desc d = make(1, ROWS, ROWS);
    (void)state;
    for (int64_t i = 0; i < COUNT(k); i++) k[i] = numbers[1][i] * (i < DIM ? 100 : 1);
    d.heads = 1, d.head_dim = DIM, d.k.data = k, d.o.data = o, d.backend = "adaptive", d.tolerance = 0.01f, d.statistics = &told;
    if (no_products(&d)) skip();
    assert_ok(attn_forward(&d));
    if (told.rows_redone * 20 > told.rows || !told.why[0]) fail_msg("%d of %d rows computed twice, '%s'", (int)told.rows_redone, (int)told.rows, told.why);
}

/* Numbers beyond those that have codes, and values whose squares are 0, or which are: computed once, as a plain call has it, and the statistics say why. */
static void test_without_codes(void **state)
{
    enum { ROWS = 300, KEYS = 1280 };
    static float x[3][KEYS * H * D], o[2][ROWS * H * D], cert[ROWS * H];
    static const float by[][3] = { { 0x1p-60f, 0x1p60f, 1 }, { 0x1p60f, 0x1p-60f, 1 }, { 1, 1, 0x1p60f }, { 1, 1, 0x1p-60f }, { 1, 1, 0x1p-132f }, { 1, 1, 0 } };
    (void)state;
    for (int n = 0; n < COUNT(by); n++) {
        attn_statistics told;
        attn_desc d = make(1, ROWS, KEYS);
        for (int t = 0; t < 3; t++) for (int64_t i = 0; i < COUNT(x[0]); i++) x[t][i] = by[n][t] * (numbers[t][i] + (numbers[t][i] < 0 ? -1.0f : 1.0f));
        d.q.data = x[0], d.k.data = x[1], d.v.data = x[2], d.o.data = o[0], d.backend = "flash";
        assert_ok(attn_forward(&d));
        d.o.data = o[1], d.backend = "adaptive", d.tolerance = 0.01f, d.cert = cert, d.statistics = &told;
        if (no_products(&d)) skip();
        assert_ok(attn_forward(&d));
        assert_memory_equal(o[1], o[0], sizeof o[0]);
        if (told.rows_redone || told.tiles_int16 || !told.why[0]) fail_msg("%d: %d rows computed twice, '%s'", n, (int)told.rows_redone, told.why);
    }
}

/* Rows for which two keys tie, of scores that codes say little of: in runs, or scattered. Of each call the share that was asked for keeps to the
 * tolerance, whether rows are sampled or, where there are too few, certified. */
static void test_sampled_share(void **state)
{
    enum { DIM = 64, MOST_ROWS = 4608 };
    static float q[MOST_ROWS * DIM], k[MOST_ROWS * DIM], v[MOST_ROWS * DIM], o[MOST_ROWS * DIM], want[MOST_ROWS * DIM];
    uint64_t r = 5;
    (void)state;
    const int quick = strcmp(attn_isa(), "portable") != 0;        /* portable code takes many times as long for the same draws */
    for (int n = 0; n < (quick ? 4 : 2); n++) {
        const int scattered = n % 2, rows = n / 2 ? MOST_ROWS : MOST_ROWS / 2;
        int missed = 0;
        int64_t sampled = 0;
        for (int seed = 0; seed < (n / 2 || !quick ? 2 : 6); seed++) {
            const int64_t from = (int64_t)(random_bits(&r) % 368);
            int64_t beyond = 0;
            attn_statistics told;
            attn_desc d = { 0 };
            for (int64_t i = 0; i < rows * DIM; i++) q[i] = (float)random_gauss(&r), k[i] = (float)random_gauss(&r), v[i] = random_bits(&r) & 1 ? 1 : -1;
            for (int64_t i = 0; i < rows; i++) {
                if (scattered ? random_bits(&r) % 384 >= 16 : i % 384 < from || i % 384 >= from + 16) continue;
                const float *a = k + (int64_t)(random_bits(&r) % (uint64_t)rows) * DIM, *b = k + (int64_t)(random_bits(&r) % (uint64_t)rows) * DIM;
                double aa = 0, bb = 0, ab = 0;
                for (int c = 0; c < DIM; c++) aa += (double)a[c] * (double)a[c], bb += (double)b[c] * (double)b[c], ab += (double)a[c] * (double)b[c];
                const double all = aa * bb - ab * ab;
                for (int c = 0; c < DIM && all > 1; c++) q[i * DIM + c] = (float)(2400 / all * ((bb - ab) * (double)a[c] + (aa - ab) * (double)b[c]));
            }
            d.batch = d.heads = 1, d.q_len = d.kv_len = rows, d.head_dim = DIM, d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = want, d.backend = "flash";
            assert_ok(attn_forward(&d));
            d.o.data = o, d.backend = "adaptive", d.tolerance = 0.001f, d.quantile = 0.99f, d.statistics = &told;
            if (no_products(&d)) skip();
            assert_ok(attn_forward(&d));
            for (int64_t i = 0; i < rows; i++) beyond += most_off(o + i * DIM, want + i * DIM, DIM) > 0.00105;
            missed += 100 * beyond > rows, sampled += told.rows_sampled;
            assert_true(told.tiles_int16 > 0);
        }
        if (missed > 1) fail_msg("%d rows, %s: %d calls with less than a share of 0.99 within the tolerance", rows, scattered ? "scattered" : "in runs", missed);
        assert_true(n / 2 == 0 || sampled > 0);
    }
}

/* Rows whose keys are cut into splits are not sampled: each keeps to the tolerance by its certificate. */
static void test_sampled_splits(void **state)
{
    enum { ROWS = 240, KEYS = 2304 };
    static float v[KEYS * D], o[ROWS * D], want[ROWS * D], cert[ROWS];
    attn_statistics told;
    attn_desc d = make(1, ROWS, KEYS);
    (void)state;
    for (int64_t j = 0; j < KEYS; j++)
        for (int64_t c = 0; c < D; c++) v[j * D + c] = j == 200 && c == 0 ? 1000 : j / 128 == 1 ? 0.2f : numbers[2][j * D + c] * 0.1f;
    d.heads = 1, d.v.data = v, d.scale = 0.1f, d.flags = ATTN_SCALE, d.backend = "reference", d.o.data = want;
    assert_ok(attn_forward(&d));
    d.flags = ATTN_SCALE | ATTN_TOLERANCE_ABSOLUTE, d.backend = "adaptive", d.tolerance = 0.01f, d.quantile = 0.5f, d.o.data = o, d.cert = cert, d.statistics = &told;
    if (no_products(&d)) skip();
    assert_ok(attn_forward(&d));
    assert_true(told.tiles_int16 > 0 && told.rows_redone > 0);
    assert_int_equal(told.rows_sampled, 0);
    for (int64_t i = 0; i < ROWS; i++) assert_true(cert[i] <= 0.01f && row_off(o + i * D, want + i * D) <= 0.0101);
}

/* More rows than a unit has, of five heads to a kv head: a unit begins at any of them. The certificates of a head that looks at all keys
 * alike are all the same and no other's; each row has the tiles that it sees. */
static void test_group_units(void **state)
{
    enum { HEADS = 5, ROWS = 420, KEYS = 1280 };
    static float o[HEADS * ROWS * D], cert[HEADS * ROWS], q[HEADS * ROWS * D];
    (void)state;
    for (int causal = 0; causal < 2; causal++)
        for (int alike = 0; alike < HEADS; alike++) {
            int64_t tiles = 0;
            attn_statistics told;
            attn_desc d = make(1, ROWS, KEYS);
            for (int64_t i = 0; i < COUNT(q); i++) q[i] = i / D % HEADS == alike ? 0 : numbers[0][i];
            d.heads = HEADS, d.q.data = q, d.o.data = o, d.cert = cert, d.statistics = &told, d.tolerance = 0.1f, d.backend = "adaptive";
            d.flags = causal ? ATTN_CAUSAL | ATTN_OFFSET : 0, d.offset = causal ? 700 : 0;
            if (no_products(&d)) skip();
            assert_ok(attn_forward(&d));
            for (int64_t i = 0; i < ROWS; i++) tiles += HEADS * (((causal && 700 + i + 1 < KEYS ? 700 + i + 1 : KEYS) + 127) / 128);
            assert_int_equal(told.rows, HEADS * ROWS);
            assert_int_equal(told.rows_redone, 0);
            assert_int_equal(told.tiles_int16 + told.tiles_f32, tiles);
            assert_true(told.tiles_int16 > told.tiles_f32);
            for (int64_t i = 0; i < HEADS * ROWS && !causal; i++)       /* 0: of a unit of few rows */
                if (cert[i] > 0 && (cert[i] == cert[alike * ROWS]) != (i / ROWS == alike)) fail_msg("row %d of head %d: cert %g, %g of head %d", (int)(i % ROWS), (int)(i / ROWS), (double)cert[i], (double)cert[alike * ROWS], alike);
        }
}

/* What is told follows from no thread: the largest error of lse is that of all rows. */
static void test_told_by_threads(void **state)
{
    enum { HEADS = 16, ROWS = 384, KEYS = 1280 };
    static float o[HEADS * ROWS * D], lse[HEADS * ROWS], q[HEADS * ROWS * D];
    attn_statistics told, one = { 0 };
    (void)state;
    for (int64_t i = 0; i < COUNT(q); i++) q[i] = numbers[0][i] * (float)(1 + i % (HEADS * D) / D);     /* each head has errors of its own */
    static const attn_pool pool = { backwards, NULL, 4 };   /* the last of them finds most to do */
    for (int32_t threads = 1; threads <= 5; threads++) {
        attn_desc d = make(1, ROWS, KEYS);
        d.heads = HEADS, d.kv_heads = HEADS, d.q.data = q, d.o.data = o, d.lse = lse, d.backend = "adaptive", d.tolerance = 0.05f;
        d.statistics = &told, d.threads = threads;
        if (threads == 5) d.pool = &pool, d.threads = 0;
        if (no_products(&d)) skip();
        assert_ok(attn_forward(&d));
        if (threads == 1) one = told;
        assert_true(told.lse_error > 0 && told.tiles_int16 > 0);
        assert_memory_equal(&told, &one, sizeof told);
    }
}

/* The same of a host that has more threads than certificates have places, and runs their tasks from the last to the first; bf16 has certificates of its
 * own where its products are exact. */
static void test_told_by_many_threads(void **state)
{
    enum { BATCH = 8, N = 256, HEADS = 4, DIM = 64, ALL = BATCH * N * HEADS * DIM };
    static uint16_t x[ALL], o[ALL];
    static const attn_pool pool = { backwards, NULL, 100 };
    attn_statistics told[2];
    (void)state;
    for (int64_t i = 0; i < ALL; i++) x[i] = (uint16_t)(0x3f00 + i % 97 + (i > ALL / 2 ? 0 : 128));
    for (int n = 0; n < 2; n++) {
        attn_desc d = make(BATCH, N, N);
        d.heads = d.kv_heads = HEADS, d.head_dim = DIM, d.q.data = d.k.data = d.v.data = x, d.o.data = o;
        d.q.dtype = d.k.dtype = d.v.dtype = d.o.dtype = ATTN_BF16, d.tolerance = 0.01f, d.statistics = &told[n];
        if (n) d.pool = &pool;
        else d.threads = 1;
        assert_ok(attn_forward(&d));
    }
    assert_memory_equal(&told[0], &told[1], sizeof told[0]);
}

/* A backend that is named keeps a tolerance exactly: every cert is 0, whatever was there, and the statistics say who computed. */
static void test_other_named(void **state)
{
    enum { N = 768, DIM = 32 };
    static const char *const names[] = { "flash", "standard", "reference" };
    static float o[N * H * DIM], cert[N * H];
    (void)state;
    for (int b = 0; b < 3; b++) {
        attn_statistics told;
        attn_desc d = make(1, N, N);
        d.head_dim = DIM, d.backend = "adaptive", d.tolerance = 0.01f;
        if (no_products(&d)) skip();
        memset(&told, 0x55, sizeof told);
        for (int i = 0; i < N * H; i++) cert[i] = 7;
        d.backend = names[b], d.o.data = o, d.cert = cert, d.statistics = &told;
        assert_ok(attn_forward(&d));
        for (int i = 0; i < N * H; i++) assert_true(cert[i] == 0);
        assert_true(told.tiles_f32 == H * N * N / 128 && told.rows == N * H && told.tiles_int16 == 0 && told.largest_cert == 0 && told.mass_skipped == 0);
        d.backend = NULL;
        attn_plan plan;
        assert_ok(attn_query(&d, NULL, &plan));
        if (!strcmp(plan.backend, "adaptive")) assert_string_equal(told.why, "another backend was named");
    }
}

/* Tiles are left out of those that a row sees, which others of its unit see more of; a row that is computed again leaves none out. */
static void test_tiles_of_causal(void **state)
{
    enum { ROWS = 1024, KEYS = 4096, DIM = 64 };
    static float q[ROWS * DIM], k[KEYS * DIM], v[KEYS * DIM], o[ROWS * DIM];
    uint64_t r = 6;
    (void)state;
    for (int64_t i = 0; i < COUNT(q); i++) q[i] = 1;
    for (int64_t i = 0; i < KEYS * DIM; i++) {
        const float x = (float)random_gauss(&r);
        k[i] = i / DIM < 128 ? 2 : -1 + x / 16, v[i] = x;
    }
    for (int again = 0; again < 2; again++) {
        attn_statistics told;
        attn_desc d = make(1, ROWS, KEYS);
        d.heads = d.kv_heads = 1, d.head_dim = DIM, d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o, d.flags = ATTN_CAUSAL;
        d.backend = "adaptive", d.tolerance = 0.01f, d.statistics = &told;
        if (again) v[(KEYS - 1) * DIM] = 1e16f;         /* a number without a code, which the last row sees */
        if (no_products(&d)) skip();
        assert_ok(attn_forward(&d));
        if (told.tiles_skipped == 0) skip();            /* integers are said to cost less */
        assert_int_equal(told.rows_redone, again);
        assert_true(told.tiles_skipped == told.tiles_f32 - ROWS - again * (KEYS / 128 - 1));
    }
}

/* What P in bf16 costs a row is in its certificate, to the bit: 2^-8 of the largest |v| that it sees, of a row that sees what is not finite 0.
 * P is rounded from a tolerance of 0.004 on, of no absolute one. */
static void test_certs_of_rounding(void **state)
{
    enum { ROWS = 150, KEYS = 200, HEADS = 6, KV = 3, DIM = 8 };
    static const struct { uint32_t flags; int64_t left, right; } cases[] = {
        { 0, 0, 0 }, { ATTN_CAUSAL, 0, 0 }, { ATTN_CAUSAL | ATTN_WINDOW_LEFT, 37, 0 }, { ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, 5, 9 }, { ATTN_WINDOW_LEFT, 150, 0 },
        { ATTN_CAUSAL | ATTN_TOP_LEFT, 0, 0 }, { ATTN_CAUSAL | ATTN_WINDOW_LEFT | ATTN_TOP_LEFT, 90, 0 } };
    static uint16_t q[ROWS * HEADS * DIM], k[KEYS * KV * DIM], v[KEYS * KV * DIM], o[ROWS * HEADS * DIM];
    static float cert[ROWS * HEADS];
    static const int32_t used[1] = { ROWS - 3 };
    uint64_t r = 5;
    (void)state;
    for (int64_t i = 0; i < COUNT(q); i++) element_put(q, ATTN_BF16, i, random_gauss(&r));
    for (int64_t i = 0; i < COUNT(k); i++) element_put(k, ATTN_BF16, i, random_gauss(&r)), element_put(v, ATTN_BF16, i, random_gauss(&r) * (i / (KV * DIM) == 30 ? 100 : 1));
    element_put(v, ATTN_BF16, 120 * KV * DIM + DIM + 2, INFINITY);              /* of one head */
    for (int n = 0; n < COUNT(cases) * 2; n++) {
        attn_desc d = make(1, ROWS, KEYS);
        attn_plan plan;
        attn_statistics told[2];
        d.heads = HEADS, d.kv_heads = KV, d.head_dim = DIM, d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o, d.threads = 1 + n % 3;
        d.q.dtype = d.k.dtype = d.v.dtype = d.o.dtype = ATTN_BF16, d.flags = cases[n / 2].flags, d.window_left = cases[n / 2].left, d.window_right = cases[n / 2].right;
        if (n % 2) d.seq.used_q = used;
        assert_ok(attn_query(&d, NULL, &plan));
        const int can = strstr(plan.kernel, "p_bf16") != NULL;
        d.tolerance = nextafterf(0.004f, 0);
        assert_ok(attn_query(&d, NULL, &plan));
        assert_null(strstr(plan.kernel, "p_bf16"));
        d.flags |= ATTN_TOLERANCE_ABSOLUTE, d.tolerance = 0.01f;
        assert_ok(attn_query(&d, NULL, &plan));
        assert_null(strstr(plan.kernel, "p_bf16"));
        d.flags &= ~(uint32_t)ATTN_TOLERANCE_ABSOLUTE, d.tolerance = 0.004f;
        assert_ok(attn_query(&d, NULL, &plan));
        assert_int_equal(strstr(plan.kernel, "p_bf16") != NULL, can);
        d.cert = cert, d.statistics = &told[0];
        assert_ok(attn_forward(&d));
        const int64_t rows = n % 2 ? used[0] : ROWS, offset = d.flags & ATTN_TOP_LEFT ? 0 : KEYS - rows;
        double all = 0;
        for (int64_t h = 0; h < HEADS; h++)
            for (int64_t i = 0; i < ROWS; i++) {
                double seen = 0;
                for (int64_t j = 0; j < KEYS && i < rows; j++) {
                    if ((d.flags & ATTN_CAUSAL && j > i + offset) || (d.flags & ATTN_WINDOW_LEFT && j < i + offset - d.window_left) ||
                        (d.flags & ATTN_WINDOW_RIGHT && j > i + offset + d.window_right)) continue;
                    for (int64_t c = 0; c < DIM; c++) seen = fmax(seen, fabs(element_get(v, ATTN_BF16, (j * KV + h / 2) * DIM + c)));
                }
                const double want = can && seen < 1e30 ? seen / 256 : 0;
                all = fmax(all, want);
                if ((double)cert[h * ROWS + i] != want) fail_msg("case %d, head %d, row %d: %g, not %g", n, (int)h, (int)i, (double)cert[h * ROWS + i], want);
            }
        assert_true((double)told[0].largest_cert == all);
        d.cert = NULL, d.statistics = &told[1];
        assert_ok(attn_forward(&d));
        assert_memory_equal(&told[0], &told[1], sizeof told[0]);
    }
}

/* Keys left out of more keys than are summed at once, which are folded in f64; and rows and keys whose codes all are the largest there are. */
static void test_left_out(void **state)
{
    enum { ROWS = 1024, DIM = 64, MOST = 20480 };
    static const int64_t keys[] = { 4096, MOST };
    float *memory = malloc(sizeof(float) * (size_t)(3 * ROWS + 2 * MOST) * DIM), *q = memory, *out[2] = { q + ROWS * DIM, q + 2 * ROWS * DIM }, *k = q + 3 * ROWS * DIM, *v = k + MOST * DIM;
    static float cert[ROWS];
    uint64_t r = 3;
    (void)state;
    assert_non_null(memory);
    const int vectors = !strncmp(attn_isa(), "avx", 3);     /* codes of bytes pay there */
    for (int n = 0; n < (vectors && !SLOW ? 2 : 1); n++) {
        attn_statistics told;
        attn_desc d = make(1, ROWS, keys[n]);
        for (int64_t i = 0; i < ROWS * DIM; i++) q[i] = 1;
        for (int64_t i = 0; i < keys[n] * DIM; i++) {
            const int heavy = i / DIM / 128 == 5;
            const float x = (float)random_gauss(&r);
            k[i] = heavy ? 2 : -1 + x / 16, v[i] = x + (float)heavy;
        }
        d.heads = d.kv_heads = 1, d.head_dim = DIM, d.q.data = q, d.k.data = k, d.v.data = v, d.threads = 1;
        for (int with = 0; with < 2; with++) {
            d.o.data = out[with];
            if (with) d.tolerance = 0.01f, d.cert = cert, d.statistics = &told;
            assert_ok(attn_forward(&d));
        }
        d.backend = "adaptive";
        if (vectors && !no_products(&d)) assert_true(told.tiles_skipped > 0);
        for (int64_t i = 0; i < ROWS * DIM; i++)
            if (!(fabsf(out[1][i] - out[0][i]) <= cert[i / DIM] + 1e-5f))
                fail_msg("%lld keys: o[%lld] is off by %g, its certificate %g", (long long)keys[n], (long long)i, (double)fabsf(out[1][i] - out[0][i]), (double)cert[i / DIM]);
    }
    free(memory);
}

/* So many keys that what they weigh is known of some of the rows at a time: the last of them, which look elsewhere, come in a turn of their own. */
static void test_left_out_in_turns(void **state)
{
    enum { ROWS = 384, KEYS = 360000, DIM = 32, STRETCH = 200, LAST = ROWS - 12 };
    static float q[ROWS * DIM], k[KEYS + DIM], v[KEYS + DIM], o[2][ROWS * DIM], cert[ROWS];
    attn_statistics told;
    uint64_t r = 4;
    (void)state;
    if (strncmp(attn_isa(), "avx", 3) || SLOW) skip();              /* codes of bytes pay there */
    for (int64_t i = 0; i < ROWS * DIM; i++) q[i] = i / DIM < LAST ? 2 : -2;
    for (int64_t i = 0; i < KEYS + DIM; i++) {
        v[i] = (float)random_gauss(&r);
        k[i] = v[i] / 64 + (i >= 5000 && i < 5000 + STRETCH ? 2 : i >= 300000 && i < 300000 + STRETCH ? -2 : 0);
    }
    for (int with = 0; with < 2; with++) {
        attn_desc d = make(1, ROWS, KEYS);
        d.heads = d.kv_heads = 1, d.head_dim = DIM, d.q.data = q, d.k.data = k, d.v.data = v, d.threads = 1, d.o.data = o[with];
        for (int a = 0; a < 3; a++) d.k.stride[a] = d.v.stride[a] = 1;  /* each key begins one number behind the last */
        if (with) d.tolerance = 0.01f, d.cert = cert, d.statistics = &told, d.backend = "adaptive";
        if (with && no_products(&d)) skip();
        assert_ok(attn_forward(&d));
    }
    if (strstr(attn_isa(), "avx512")) assert_true(told.tiles_skipped > 0 && told.rows_redone == 0);
    for (int64_t i = 0; i < ROWS * DIM; i++)
        if (!(fabsf(o[1][i] - o[0][i]) <= cert[i / DIM] + 1e-5f)) fail_msg("o[%d] is off by %g, its certificate %g", (int)i, (double)fabsf(o[1][i] - o[0][i]), (double)cert[i / DIM]);
}

/* A sequence of few rows, whose keys are split, beside one of many, of which keys may be left out: it has the bits that it has alone. */
static void test_few_beside_many(void **state)
{
    enum { ROWS = 600, FEW = 220, KEYS = 4096, DIM = 64 };
    static const int32_t used[2] = { ROWS, FEW };
    static float q[2 * ROWS * DIM], k[KEYS * DIM], v[KEYS * DIM], o[2][2 * ROWS * DIM], cert[2][2 * ROWS];
    attn_statistics told;
    uint64_t r = 5;
    (void)state;
    for (int64_t i = 0; i < COUNT(q); i++) q[i] = 1;
    for (int64_t i = 0; i < KEYS * DIM; i++) {
        const float x = (float)random_gauss(&r);
        k[i] = i / DIM / 128 == 5 ? 2 : -1 + x / 16, v[i] = x;
    }
    for (int alone = 0; alone < 2; alone++) {
        attn_desc d = make(2 - alone, alone ? FEW : ROWS, KEYS);
        d.heads = d.kv_heads = 1, d.head_dim = DIM, d.q.data = q, d.k.data = k, d.v.data = v, d.threads = 1, d.backend = "adaptive", d.tolerance = 0.01f;
        for (int a = 0; a < 3; a++) d.k.stride[a] = d.v.stride[a] = a == 0 ? ATTN_BROADCAST : DIM;
        if (!alone) d.seq.used_q = used;
        d.o.data = o[alone], d.cert = cert[alone], d.statistics = &told;
        if (no_products(&d)) skip();
        assert_ok(attn_forward(&d));
        if (!alone && strstr(attn_isa(), "avx512")) assert_true(told.tiles_skipped > 0);    /* elsewhere integers are said to cost less */
    }
    assert_memory_equal(o[0] + ROWS * DIM, o[1], FEW * DIM * sizeof **o);
    assert_memory_equal(cert[0] + ROWS, cert[1], FEW * sizeof **cert);
}

/* What is told of lse is of one that was asked for: where keys are left out, and where all are computed from codes. */
/* Errors of two units that differ by less than what they are rounded up by: the larger is told, whoever comes first. */
static void test_close_errors(void **state)
{
    enum { ROWS = 1024, HEADS = 8, DIM = 16 };
    static float x[3][ROWS * HEADS * DIM], o[ROWS * HEADS * DIM], lse[ROWS * HEADS];
    attn_statistics told;
    float first = 0;
    (void)state;
    for (int t = 0; t < 3; t++)
        for (int64_t i = 0; i < COUNT(x[t]); i++) x[t][i] = numbers[t][i % NUMBERS] * (t ? 1 : 1e-8f);
    for (int n = 0; n < 12; n++) {
        attn_desc d = make(1, ROWS, ROWS);
        d.heads = d.kv_heads = HEADS, d.head_dim = DIM, d.q.data = x[0], d.k.data = x[1], d.v.data = x[2], d.o.data = o, d.lse = lse;
        d.backend = "adaptive", d.tolerance = 0.05f, d.statistics = &told, d.threads = n % 4 + 1;
        if (no_products(&d)) skip();
        assert_ok(attn_forward(&d));
        if (n == 0) first = told.lse_error;
        assert_true(told.tiles_int16 > 0);
        if (memcmp(&first, &told.lse_error, sizeof first)) fail_msg("%d threads: lse_error %a, not %a", (int)d.threads, (double)told.lse_error, (double)first);
    }
}
/* o in f16, a little below what f16 has, and what is computed with a tolerance a little above: from codes, whose largest value is in another
 * column, and without keys that would have pulled o down. */
static void test_within_f16(void **state)
{
    enum { ROWS = 640, DIM = 128, KEYS = 4096 };
    static float k[KEYS * DIM], v[KEYS * DIM], q[ROWS * DIM], cert[ROWS], exact[ROWS * DIM];
    static uint16_t o[ROWS * DIM];
    int64_t near = 0;
    (void)state;
    for (int n = 0; n < 5; n++) {
        const int left_out = n == 4;
        attn_desc d = make(1, ROWS, left_out ? KEYS : ROWS);
        attn_statistics told;
        for (int64_t i = 0; i < d.kv_len * DIM; i++) {
            const int heavy = i / DIM / 128 == 8;
            k[i] = !left_out ? numbers[1][i % NUMBERS] : i % DIM ? 0.1f * numbers[1][i % NUMBERS] : heavy ? 3 : 0;
            v[i] = (n % 2 ? -1.0f : 1.0f) * (left_out ? (heavy ? 65530.0f : 60000.0f) : i % DIM ? 65519.0f : 70000.0f + 500.0f * (float)n);
        }
        for (int64_t i = 0; i < COUNT(q); i++) q[i] = left_out ? (i % DIM ? 0.1f * numbers[0][i] : 35) : numbers[0][i];
        d.heads = 1, d.head_dim = DIM, d.q.data = q, d.k.data = k, d.v.data = v, d.backend = "flash", d.o.data = exact;
        assert_ok(attn_forward(&d));
        d.o.data = o, d.o.dtype = ATTN_F16, d.backend = "adaptive", d.tolerance = 0.01f, d.cert = cert, d.statistics = &told;
        if (no_products(&d)) skip();
        unit_filter(left_out);
        const attn_status s = attn_forward(&d);
        unit_filter(0);
        assert_ok(s);
        near += told.rows_redone;
        assert_true(left_out || told.tiles_int16 > 0);
        for (int64_t i = 0; i < ROWS * DIM; i++) {
            const double got = element_get(o, ATTN_F16, i);
            if (fabs((double)exact[i]) < 65519.5 && !(fabs(got - (double)exact[i]) <= (double)cert[i / DIM] + 17))
                fail_msg("%s, %d: %g, not %g, cert %g", left_out ? "keys left out" : "codes", n, got, (double)exact[i], (double)cert[i / DIM]);
        }
    }
    assert_true(near > 0);
}
static void test_lse_error(void **state)
{
    enum { ROWS = 512, KEYS = 4096, DIM = 32 };
    static float q[ROWS * DIM], k[KEYS * DIM], v[KEYS * DIM], o[ROWS * DIM], lse[ROWS];
    (void)state;
    for (int n = 0; n < 4; n++) {
        const int left_out = n < 2, asked = n % 2;
        attn_statistics told;
        attn_desc d = make(1, ROWS, KEYS);
        for (int64_t i = 0; i < COUNT(q); i++) q[i] = i % DIM ? 0.1f * numbers[0][i] : left_out ? 40 : 0;
        for (int64_t i = 0; i < COUNT(k); i++) k[i] = i % DIM ? 0.1f * numbers[1][i] : i / DIM / 128 == 8 ? 3 : 0, v[i] = numbers[2][i];
        d.heads = 1, d.head_dim = DIM, d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o, d.lse = asked ? lse : NULL;
        d.backend = "adaptive", d.tolerance = 0.01f, d.statistics = &told;
        if (no_products(&d)) skip();
        unit_filter(left_out);
        const attn_status s = attn_forward(&d);
        unit_filter(0);
        assert_ok(s);
        assert_true(left_out ? told.tiles_skipped > 0 && told.mass_skipped > 0 : told.tiles_int16 > 0);
        if ((told.lse_error > 0) != asked) fail_msg("%s, %s: lse_error %g", left_out ? "keys left out" : "codes", asked ? "with an lse" : "without", (double)told.lse_error);
    }
}

/* Many keys, whose scores rise by a little from chunk to chunk: the sum so far is multiplied each time by a factor just below 1, which is rounded alike
 * each time. lse is off by no more than is told. */
static void test_lse_many_keys(void **state)
{
    enum { ROWS = 256, MOST = 400000 };
    static const struct { int64_t keys; double rise; } rows[] = { { 200000, 4.2e-8 }, { 400000, 4.35009036e-8 } };
    static float q[ROWS], k[MOST], v[MOST], o[ROWS], cert[ROWS], lse[ROWS], want[1];
    static double exact_o[1], size_o[1], size_pv[1], size_lse[1];
    (void)state;
    for (int64_t n = 0; n < COUNT(rows); n++) {
        attn_statistics told;
        attn_desc d = make(1, 1, rows[n].keys);
        for (int64_t i = 0; i < ROWS; i++) q[i] = 1;
        for (int64_t j = 0; j < rows[n].keys; j++) k[j] = (float)((double)(j / 128) * rows[n].rise), v[j] = 1;
        d.heads = d.head_dim = 1, d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = exact_o, d.o.dtype = ATTN_F64, d.lse = want, d.backend = "reference";
        assert_ok(attn_forward(&d));
        assert_ok(unit_bounds(&d, size_o, size_pv, size_lse));
        d.q_len = ROWS, d.o.data = o, d.o.dtype = ATTN_F32, d.lse = lse, d.cert = cert, d.statistics = &told, d.backend = "adaptive", d.tolerance = 0.01f;
        if (no_products(&d)) skip();
        assert_ok(attn_forward(&d));
        assert_true(told.tiles_int16 > 0 && told.rows_redone == 0);
        for (int64_t i = 0; i < ROWS; i++) {
            const double off = fabs((double)lse[i] - (double)want[0]);
            if (!(off <= (double)told.lse_error + allowed_lse((double)want[0], size_lse[0])))
                fail_msg("%d keys: lse %.9g, not %.9g, off by %g, told %g", (int)rows[n].keys, (double)lse[i], (double)want[0], off, (double)told.lse_error);
        }
    }
}

/* An absolute tolerance counts in the units of v, from the guess to the certificate: with both 64 times as large or small all is the same. */
static void test_absolute_units(void **state)
{
    enum { ROWS = 400, KEYS = 1280 };
    static float v[KEYS * D], o[2][ROWS * H * D], cert[2][ROWS * H];
    attn_statistics told[3];
    (void)state;
    for (int n = 0; n < 3; n++) {
        const float unit = n == 0 ? 1 : n == 1 ? 64 : 1.0f / 64;
        attn_desc d = make(1, ROWS, KEYS);
        for (int64_t i = 0; i < COUNT(v); i++) v[i] = unit * numbers[2][i];
        d.flags = ATTN_TOLERANCE_ABSOLUTE, d.tolerance = 0.03f * unit, d.backend = "adaptive", d.v.data = v, d.o.data = o[n > 0], d.cert = cert[n > 0], d.statistics = &told[n];
        if (no_products(&d)) skip();
        assert_ok(attn_forward(&d));
        assert_true(told[n].tiles_int16 > 0 && told[n].tiles_int16 == told[0].tiles_int16 && told[n].rows_redone == told[0].rows_redone);
        for (int64_t i = 0; n && i < ROWS * H; i++) assert_true(cert[1][i] == unit * cert[0][i]);
        for (int64_t i = 0; n && i < ROWS * H * D; i++) assert_true(o[1][i] == unit * o[0][i]);
    }
}

/* Padding has no part in how the rows of a sequence are dealt to units, nor in what their certificates are. */
static void test_padded_units(void **state)
{
    enum { USED = 480, ROWS = 8000, KEYS = 1280 };
    static float o[2][ROWS * D], cert[2][ROWS];
    static const int32_t used[1] = { USED };
    (void)state;
    for (int padded = 0; padded < 2; padded++) {
        attn_desc d = make(1, padded ? ROWS : USED, KEYS);
        d.heads = 1, d.flags = ATTN_OFFSET | ATTN_CAUSAL, d.offset = 780, d.backend = "adaptive", d.tolerance = 0.05f, d.o.data = o[padded], d.cert = cert[padded], d.threads = 1;
        if (padded) d.seq.used_q = used;
        if (no_products(&d)) skip();
        assert_ok(attn_forward(&d));
    }
    assert_true(cert[0][0] > 0);
    assert_memory_equal(o[1], o[0], USED * D * 4);
    assert_memory_equal(cert[1], cert[0], USED * 4);
}

/* Rows of scores that codes say nothing of have no certificate at all, and do not stay. */
static void test_sampled_far(void **state)
{
    static float o[SAMPLED_ROWS * D], cert[SAMPLED_ROWS];
    attn_statistics s;
    attn_desc d;
    (void)state;
    sampled_call(&d, 0, 0.3f, o, cert, &s);
    for (int64_t i = 13; i < SAMPLED_ROWS; i += 48) ((float *)(uintptr_t)d.q.data)[i * D] = 1e6f;
    if (no_products(&d)) skip();
    assert_ok(attn_forward(&d));
    assert_int_equal(s.rows_redone, SAMPLED_ROWS / 48);
    for (int64_t i = 0; i < SAMPLED_ROWS; i++) assert_true(isfinite(cert[i]) && (cert[i] == 0) == (i % 48 == 13));
}

/* Rows that see no key have a certificate of 0, which is what they may be off by: they are not computed again. */
static void test_nothing_seen(void **state)
{
    enum { ROWS = 1500, KEYS = 1480, NONE = 20 };
    static float o[ROWS * D], cert[ROWS];
    (void)state;
    for (int f16 = 0; f16 < 2; f16++) {
        attn_statistics told;
        attn_desc d = make(1, ROWS, KEYS);
        d.heads = 1, d.flags = ATTN_CAUSAL | ATTN_OFFSET, d.offset = -NONE, d.backend = "adaptive", d.tolerance = 0.05f;
        d.o.data = o, d.o.dtype = f16 ? ATTN_F16 : ATTN_F32, d.cert = cert, d.statistics = &told;
        if (no_products(&d)) skip();
        memset(o, 0xff, sizeof o);
        assert_ok(attn_forward(&d));
        assert_true(told.tiles_int16 > 0);
        assert_int_equal(told.rows_redone, 0);
        for (int64_t i = 0; i < NONE * D; i++) assert_true(element_get(o, d.o.dtype, i) == 0 && cert[i / D] == 0);
    }
}

/* Every row of this call is computed from codes, and no tile otherwise. */
static void assert_all_int16(attn_desc *d)
{
    static float o[256 * 64];
    attn_statistics told;
    assert_true(d->heads == 1 && d->q_len * d->head_dim <= COUNT(o) && d->kv_len % 128 == 0);
    d->backend = "adaptive", d->o.data = o, d->statistics = &told;
    if (no_products(d)) skip();
    assert_ok(attn_forward(d));
    assert_int_equal(told.tiles_int16, d->q_len * d->kv_len / 128);
    assert_int_equal(told.tiles_f32, 0);
}

/* Scores that rise over the keys: the weights that were summed up count less with each larger one, and their squares still less. What is guessed
 * from them, by singular values, is that codes do. */
static void test_rising(void **state)
{
    enum { ROWS = 256, KEYS = 2048, DIM = 64 };
    static float q[ROWS * DIM], k[KEYS * DIM];
    attn_desc d = make(1, ROWS, KEYS);
    (void)state;
    for (int64_t i = 0; i < COUNT(q); i++) q[i] = numbers[0][i] + (i % DIM ? 0 : 4);
    for (int64_t i = 0; i < COUNT(k); i++) k[i] = i % DIM ? numbers[1][i] : 1 + 4 * (float)(i / DIM) / KEYS;
    d.heads = 1, d.head_dim = DIM, d.q.data = q, d.k.data = k, d.tolerance = 0.0017f;
    assert_all_int16(&d);
}

/* Queries so small that anything behind their dims, which fill no vector, would be longer than they are. */
static void test_small_queries(void **state)
{
    enum { ROWS = 256, DIM = 21 };
    static float q[ROWS * DIM];
    attn_desc d = make(1, ROWS, 512);
    (void)state;
    for (int64_t i = 0; i < COUNT(q); i++) q[i] = 1e-3f * numbers[0][i];
    d.heads = 1, d.head_dim = DIM, d.q.data = q, d.flags = ATTN_SCALE, d.scale = 220, d.tolerance = 0.01f;
    assert_all_int16(&d);
}

/* More than 512 dims of keys or of values, whatever would compute them: codes, keys left out, decode. */
static void test_wide_declined(void **state)
{
    (void)state;
    for (int n = 0; n < 3 * 2; n++) {
        const int64_t wide = n / 2 < 2 ? 513 : 1024;        /* rows of int16 have to lie in one piece */
        attn_plan plan;
        attn_desc d = make(1, n / 2 < 2 ? 512 : 1, n / 2 == 1 ? 4096 : 1024);
        d.head_dim = n % 2 ? wide : 64, d.v_dim = n % 2 ? 64 : wide, d.tolerance = 0.02f, d.backend = "adaptive";
        d.q.data = d.k.data = d.v.data = NULL;
        if (n / 2 == 2) d.k.dtype = d.v.dtype = ATTN_INT16, d.k.scale = d.v.scale = numbers[0];
        assert_int_equal(attn_query(&d, NULL, &plan), ATTN_ERR_DECLINED);
        if (!strstr(plan.why, "adaptive: head_dim or v_dim is above 512\n")) fail_msg("no word of the dims in:\n%s", plan.why);
    }
}

/* A sink has no codes: whoever names adaptive is told so, and who names nothing in the statistics. */
static void test_sink_declined(void **state)
{
    enum { ROWS = 1024 };
    static const float sink[H] = { 1, -1 };
    static float o[ROWS * H * D];
    attn_statistics told;
    attn_plan plan;
    attn_desc d = make(1, ROWS, ROWS);
    (void)state;
    d.sink = sink, d.tolerance = 0.01f, d.backend = "adaptive";
    assert_int_equal(attn_query(&d, NULL, &plan), ATTN_ERR_DECLINED);
    if (!strstr(plan.why, "adaptive: attention sink\n")) fail_msg("no word of the sink in:\n%s", plan.why);
    d.backend = NULL, d.o.data = o, d.statistics = &told;
    assert_ok(attn_forward(&d));
    assert_string_equal(told.why, "attention sink");
    assert_int_equal(told.tiles_f32, H * ROWS * ROWS / 128);
}

/* Nor has a scale up to 2^-100, or from 2^100 on. */
static void test_scale_declined(void **state)
{
    static const float scales[] = { 0x1p-100f, 0x1p100f, 0x1p120f, -0x1p-3f, 0, 0x1.000002p-100f, 0x1.fffffep99f };
    (void)state;
    for (int n = 0; n < COUNT(scales); n++) {
        attn_plan plan;
        attn_desc d = make(1, 1024, 1024);
        d.flags |= ATTN_SCALE, d.scale = scales[n], d.tolerance = 0.01f, d.backend = "adaptive";
        const attn_status s = attn_query(&d, NULL, &plan);
        const int told = strstr(plan.why, "adaptive: softcap, bias, mask, ALiBi or an extreme scale\n") != NULL;
        if (n < 5) assert_int_equal(s, ATTN_ERR_DECLINED);
        if (told != (n < 5)) fail_msg("scale %g: %s", (double)scales[n], plan.why);
    }
}

/* Of what is computed exactly, tiles of 128 keys are told from the first that a row sees, not from the first of all. */
static void test_told_of_window(void **state)
{
    static float o[H * D];
    attn_statistics told;
    attn_desc d = make(1, 1, 1024);
    (void)state;
    d.softcap = 1, d.tolerance = 0.01f, d.flags = ATTN_CAUSAL | ATTN_WINDOW_LEFT, d.o.data = o, d.statistics = &told;
    for (d.window_left = 0; d.window_left < 1100; d.window_left += 1 + d.window_left / 2) {
        assert_ok(attn_forward(&d));
        const int64_t first = d.window_left < 1023 ? 1023 - d.window_left : 0;
        assert_true(told.rows == H && told.tiles_int16 == 0);
        assert_int_equal(told.tiles_f32, H * (8 - first / 128));
    }
}

/* Why f64 stays exact: nobody named a backend. */
static void test_why_f64(void **state)
{
    enum { ROWS = 256, KEYS = 640 };
    static double x[KEYS * D], o[ROWS * D];
    attn_statistics told;
    attn_desc d = make(1, ROWS, KEYS);
    (void)state;
    d.heads = 1, d.tolerance = 0.01f, d.statistics = &told, d.q.data = d.k.data = d.v.data = x, d.o.data = o;
    d.q.dtype = d.k.dtype = d.v.dtype = d.o.dtype = ATTN_F64;
    assert_ok(attn_forward(&d));
    assert_string_equal(told.why, "q is f64, and only the reference computes in f64");
    d.backend = "reference", d.q.data = d.k.data = d.v.data = numbers[0], d.q.dtype = d.k.dtype = d.v.dtype = ATTN_F32;
    assert_ok(attn_forward(&d));
    assert_true(told.why[0] && !strstr(told.why, "f64"));
}

/* A million keys, of which each row sees a few: they take no room of their own, and the rows are in many units of few rows each. */
static void test_million_keys(void **state)
{
    enum { ROWS = 3000 };
    static float o[ROWS * D];
    attn_statistics told;
    attn_plan plan;
    attn_desc d = make(1, ROWS, (int64_t)1 << 20);
    (void)state;
    for (int a = 0; a < 3; a++) d.k.stride[a] = d.v.stride[a] = ATTN_BROADCAST;
    d.heads = 1, d.flags = ATTN_CAUSAL | ATTN_WINDOW_LEFT, d.window_left = 600, d.backend = "adaptive", d.tolerance = 0.05f, d.threads = 1;
    d.o.data = o, d.statistics = &told;
    if (no_products(&d)) skip();
    assert_ok(attn_query(&d, NULL, &plan));
    if (plan.workspace_size >= 16 << 20) fail_msg("workspace of %d bytes", (int)plan.workspace_size);
    memset(o, 0xff, sizeof o);
    assert_ok(attn_forward(&d));
    assert_int_equal(told.rows, ROWS);
    for (int64_t i = 0; i < COUNT(o); i++) assert_true(fabsf(o[i] - numbers[2][i % D]) <= 0.2f);
}

/* The host takes small numbers for 0: a query, a merge and a call judge what they are given as ever, and leave the host its state. */
#if defined(__x86_64__)
#include <xmmintrin.h>
#define GET_STATE() _mm_getcsr()
#define SET_STATE(x) _mm_setcsr(x)
enum { FLUSH = 0x8040 };
#elif defined(__aarch64__)
static unsigned get_fpcr(void) { uint64_t x; __asm__ volatile("mrs %0, fpcr" : "=r"(x)); return (unsigned)x; }
static void set_fpcr(uint64_t x) { __asm__ volatile("msr fpcr, %0" : : "r"(x)); }
#define GET_STATE() get_fpcr()
#define SET_STATE(x) set_fpcr(x)
enum { FLUSH = 1 << 24 };
#else
#define GET_STATE() 0u
#define SET_STATE(x) (void)(x)
enum { FLUSH = 0 };
#endif
static void test_host_flushes(void **state)
{
    enum { ROWS = 1024 };
    static float o[ROWS * H * D], cert[ROWS * H];
    (void)state;
    for (int n = 0; n < 6; n++) {
        const attn_status wanted = n == 2 ? ATTN_ERR_PHILOX_RANGE : n == 3 ? ATTN_ERR_SCALE_FLAG : n == 4 ? ATTN_ERR_TOLERANCE_OFF : n == 5 ? ATTN_ERR_TOLERANCE_MERGE : ATTN_OK;
        attn_plan plan[2];
        attn_in part = { .data = numbers[0] };
        const float *lse = cert;
        attn_desc d = make(1, ROWS, ROWS);
        d.o.data = o, d.threads = 1;
        if (n < 2 || n == 5) d.tolerance = 1e-40f;
        if (n == 1) d.cert = cert;
        if (n == 2) d.dropout = 1e-40f, d.philox_offset = (uint64_t)1 << 40;
        if (n == 3) d.scale = 1e-40f;
        if (n == 4) d.quantile = 1e-40f;
        for (int flushes = 0; flushes < 2; flushes++) {
            const unsigned before = GET_STATE(), set = before | (flushes ? FLUSH : 0);
            SET_STATE(set);
            const attn_status query = n < 5 ? attn_query(&d, NULL, &plan[flushes]) : attn_merge(&d, 1, &part, &lse), call = n < 5 ? attn_forward(&d) : wanted;
            const unsigned after = GET_STATE();
            SET_STATE(before);
            if (query != wanted || call != wanted) fail_msg("%d, %d: %s, the call %s", n, flushes, attn_status_name(query), attn_status_name(call));
            assert_true(((after ^ set) & FLUSH) == 0);
        }
        if (!wanted) assert_true(plan[0].backend == plan[1].backend && plan[0].workspace_size == plan[1].workspace_size);
    }
}

/* The rows of a sequence are cut into parts of which none is too small for the packing, whatever their number. */
static void test_even_units(void **state)
{
    static float o[2400 * D];
    (void)state;
    for (int64_t n = 1100; n < 2400; n += 60) {
        attn_statistics told;
        attn_desc d = make(1, n, n);
        d.heads = 1, d.scale = 0.1f, d.flags = ATTN_SCALE, d.backend = "adaptive", d.tolerance = 0.05f, d.o.data = o, d.statistics = &told;
        if (no_products(&d)) skip();
        assert_ok(attn_forward(&d));
        if (told.tiles_f32 || told.why[0]) fail_msg("%d rows: %d tiles of f32, '%s'", (int)n, (int)told.tiles_f32, told.why);
    }
}

/* Two sequences on one thread have the bits and the certificates that each has alone: the second, of longer keys, is bounded by singular values, and
 * how long keys of the first might be does not count. */
static void test_after_another(void **state)
{
    enum { ROWS = 420, KEYS = 1100, DIM = 64 };
    static float q[2 * ROWS * DIM], k[2 * KEYS * DIM], v[2 * KEYS * DIM], o[2][2 * ROWS * DIM], cert[2][2 * ROWS];
    attn_statistics told;
    uint64_t r = 77;
    (void)state;
    for (int64_t i = 0; i < 2 * ROWS * DIM; i++) q[i] = (float)random_gauss(&r);
    for (int64_t i = 0; i < 2 * KEYS * DIM; i++) k[i] = (float)(random_gauss(&r) * (i < KEYS * DIM ? 0.05 : 1)), v[i] = (float)random_gauss(&r);
    for (int way = 0; way < 3; way++) {
        const int64_t first = way == 1;
        attn_desc d = { 0 };
        d.batch = way == 2 ? 2 : 1, d.heads = 1, d.q_len = ROWS, d.kv_len = KEYS, d.head_dim = DIM, d.threads = 1, d.backend = "adaptive", d.tolerance = 0.001f;
        d.q.data = q + first * ROWS * DIM, d.k.data = k + first * KEYS * DIM, d.v.data = v + first * KEYS * DIM;
        d.o.data = o[way / 2] + first * ROWS * DIM, d.cert = cert[way / 2] + first * ROWS, d.statistics = &told;
        if (no_products(&d)) skip();
        assert_ok(attn_forward(&d));
        assert_true(told.rows_redone < ROWS / 2);
    }
    assert_memory_equal(o[0], o[1], sizeof o[0]);
    assert_memory_equal(cert[0], cert[1], sizeof cert[0]);
}

/* A cache of int16 with room for KEYS_INT16 keys. */
enum { KEYS_INT16 = 10380, DIM_INT16 = 64, ROWS_INT16 = 6 };
static attn_desc decode_call(float *o)
{
    static int8_t planes[(KEYS_INT16 * DIM_INT16 / ATTN_PLANE + 1) * ATTN_PLANE * 2];
    static float scale[KEYS_INT16];
    attn_desc d = { 0 };
    for (int64_t i = 0; i < COUNT(planes); i++) planes[i] = (int8_t)(i * 7 % 200 - 100);
    for (int64_t j = 0; j < KEYS_INT16; j++) scale[j] = 0.001f;
    d.batch = 1, d.heads = 4, d.kv_heads = 1, d.q_len = ROWS_INT16, d.kv_len = KEYS_INT16, d.head_dim = DIM_INT16, d.q.data = numbers[0], d.o.data = o;
    d.k.data = d.v.data = planes, d.k.dtype = d.v.dtype = ATTN_INT16, d.k.scale = d.v.scale = scale, d.tolerance = 0.01f;
    return d;
}
/* Its workspace follows from the description: not from how long the sequence is, nor from who calls. */
static void nested_call(void *arg, int64_t i)
{
    attn_desc *d = (attn_desc *)arg;
    if (i == 0) d->device = (int32_t)attn_forward(d);
}
static void test_decode_workspace(void **state)
{
    static float o[4 * ROWS_INT16 * DIM_INT16];
    int32_t used_q = ROWS_INT16, used_k = KEYS_INT16;
    attn_plan plan[2];
    attn_desc d = decode_call(o), w = { 0 };
    (void)state;
    d.seq.used_q = &used_q, d.seq.used_k = &used_k, d.threads = 5, d.backend = "adaptive", w.threads = 2;
    assert_ok(attn_query(&d, NULL, &plan[0]));
    void *memory = malloc(plan[0].workspace_size + 64);
    d.workspace = (void *)(((uintptr_t)memory + 63) & ~(uintptr_t)63), d.workspace_size = plan[0].workspace_size;
    for (used_k = KEYS_INT16; used_k > 100; used_k = used_k / 3) {
        assert_ok(attn_query(&d, NULL, &plan[1]));
        assert_true(plan[1].workspace_size == plan[0].workspace_size);
        assert_ok(attn_forward(&d));
        attn_parallel(&w, nested_call, &d, 2);
        assert_ok((attn_status)d.device);
    }
    free(memory);
}
static void in_order(void *user, void (*task)(void *, int64_t), void *arg, int64_t n)
{
    (void)user;
    for (int64_t i = 0; i < n; i++) task(arg, i);
}
/* What a decode tells is the same where the first of four threads does all the work, the others none. */
static void test_decode_told_by_threads(void **state)
{
    static float o[ROWS_INT16 * DIM_INT16], q[DIM_INT16];
    static const attn_pool pool = { in_order, NULL, 4 };
    attn_statistics told[2];
    (void)state;
    for (int i = 0; i < DIM_INT16; i++) q[i] = 150 * numbers[0][i];
    for (int n = 0; n < 2; n++) {
        attn_desc d = decode_call(o);
        d.heads = d.q_len = 1, d.q.data = q, d.statistics = &told[n], d.tolerance = 0.05f, d.backend = "adaptive";
        if (n) d.pool = &pool;
        else d.threads = 1;
        assert_ok(attn_forward(&d));
    }
    assert_true(told[0].mass_skipped > 0);
    assert_memory_equal(&told[0], &told[1], sizeof told[0]);
}
/* Rows that see no key are not why others were computed exactly; more rows than are ever decoded are a matter of the description. */
static void test_decode_told(void **state)
{
    static float o[4 * ROWS_INT16 * DIM_INT16];
    int32_t used_q = 1;
    attn_statistics told;
    attn_desc d = decode_call(o);
    (void)state;
    d.heads = 1, d.q_len = 2, d.seq.used_q = &used_q, d.backend = "adaptive", d.statistics = &told;
    assert_ok(attn_forward(&d));
    assert_true(told.tiles_int16 > 0);
    assert_string_equal(told.why, "");
    d = decode_call(o), d.backend = "adaptive";
    assert_int_equal(attn_forward(&d), ATTN_ERR_DECLINED);
    d.heads = 1;
    assert_ok(attn_forward(&d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed_tolerance), cmocka_unit_test(test_sampled), cmocka_unit_test(test_sampled_seen), cmocka_unit_test(test_sampled_redone), cmocka_unit_test(test_redone_bits), cmocka_unit_test(test_redone_many_keys), cmocka_unit_test(test_long_keys), cmocka_unit_test(test_decode_redone_bits), cmocka_unit_test(test_decode_hopeless), cmocka_unit_test(test_worst_key), cmocka_unit_test(test_first_of_chunk),
        cmocka_unit_test(test_worst_keys), cmocka_unit_test(test_columns), cmocka_unit_test(test_left_out_in_turns), cmocka_unit_test(test_hopeless), cmocka_unit_test(test_every_second), cmocka_unit_test(test_without_codes), cmocka_unit_test(test_long_first), cmocka_unit_test(test_sampled_splits), cmocka_unit_test(test_sampled_share), cmocka_unit_test(test_group_units),
        cmocka_unit_test(test_told_by_threads), cmocka_unit_test(test_told_by_many_threads), cmocka_unit_test(test_left_out), cmocka_unit_test(test_few_beside_many), cmocka_unit_test(test_close_errors), cmocka_unit_test(test_within_f16), cmocka_unit_test(test_lse_error), cmocka_unit_test(test_lse_many_keys), cmocka_unit_test(test_absolute_units), cmocka_unit_test(test_padded_units),
        cmocka_unit_test(test_sampled_far), cmocka_unit_test(test_nothing_seen), cmocka_unit_test(test_rising), cmocka_unit_test(test_small_queries),
        cmocka_unit_test(test_wide_declined), cmocka_unit_test(test_sink_declined), cmocka_unit_test(test_scale_declined), cmocka_unit_test(test_certs_of_rounding), cmocka_unit_test(test_other_named), cmocka_unit_test(test_tiles_of_causal), cmocka_unit_test(test_told_of_window), cmocka_unit_test(test_million_keys), cmocka_unit_test(test_host_flushes), cmocka_unit_test(test_why_f64),
        cmocka_unit_test(test_after_another), cmocka_unit_test(test_even_units), cmocka_unit_test(test_decode_workspace), cmocka_unit_test(test_decode_told), cmocka_unit_test(test_decode_told_by_threads),
    };
    fill_all();
    return cmocka_run_group_tests_name("tolerance", tests, NULL, NULL);
}
