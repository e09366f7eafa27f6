/* lengths.c - sequences of very different lengths in one batch: keys split at some and not at others, rows and keys beyond the used
 * ones, first keys that are no multiple of anything; every backend against the reference. */
#include "unit.h"

enum { B = 8, H = 2, D = 4, MOST = 18000 };
static const int32_t some_k[B] = { 0, 1, 1023, 2047, 2048, 2049, 5000, 17413 }, reversed_k[B] = { 16384, 4097, 4096, 2048, 40, 7, 1, 0 };
static float numbers[3][B * MOST * D], bias[H * 40 * 700], dout[B * 400 * H * D];

static void fill_all(void)
{
    uint64_t r = 31;
    for (int t = 0; t < 3; t++)
        for (int64_t i = 0; i < COUNT(numbers[0]); i++) numbers[t][i] = (float)random_gauss(&r);
    for (int64_t i = 0; i < COUNT(bias); i++) bias[i] = (float)random_gauss(&r);
    for (int64_t i = 0; i < COUNT(dout); i++) dout[i] = (float)random_gauss(&r);
}
static attn_desc make(int64_t batch, int64_t q_len, int64_t kv_len)
{
    attn_desc d = { 0 };
    d.batch = batch, d.heads = H, d.kv_heads = 1, d.head_dim = D, d.q_len = q_len, d.kv_len = kv_len;
    d.q.data = numbers[0], d.k.data = numbers[1], d.v.data = numbers[2];
    return d;
}
static void same(const float *got, const float *want, int64_t n, double allowed, const char *backend, const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        if (isinf(want[i]) && got[i] == want[i]) continue;
        if (!(fabs((double)got[i] - (double)want[i]) <= allowed * (1 + fabs((double)want[i]))))
            fail_msg("%s, %s %lld: %g, not %g", backend, what, (long long)i, (double)got[i], (double)want[i]);
    }
}

/* A few rows of many keys: each sequence is cut, or not, by its own length, on one thread and side by side. The workspace is as
 * large as asked for, and nothing behind it is touched. */
static void forward(attn_desc d, const char *what)
{
    static const char *const names[] = { "flash", "standard" };
    const int64_t rows = d.batch * d.q_len * d.heads, n = rows * d.head_dim;
    float *o = malloc((size_t)n * 4), *want = malloc((size_t)n * 4), *lse = malloc((size_t)rows * 4), *want_lse = malloc((size_t)rows * 4);
    d.backend = "reference", d.o.data = want, d.lse = want_lse;
    assert_ok(attn_forward(&d));
    d.o.data = o, d.lse = lse;
    for (int i = 0; i < 2; i++)
        for (d.threads = 1; d.threads <= 4; d.threads += 3) {
            attn_plan plan;
            char *room = NULL;
            d.backend = names[i], d.workspace = NULL, d.workspace_size = 0;
            assert_ok(attn_query(&d, NULL, &plan));
            assert_int_equal(posix_memalign((void **)(void *)&room, 64, plan.workspace_size + 8192), 0);
            memset(room, 0xff, plan.workspace_size), memset(room + plan.workspace_size, 0x33, 8192);
            if (plan.workspace_size) d.workspace = room, d.workspace_size = plan.workspace_size;
            memset(o, 0xff, (size_t)n * 4), memset(lse, 0xff, (size_t)rows * 4);
            assert_ok(attn_forward(&d));
            same(o, want, n, 2e-6, d.backend, what), same(lse, want_lse, rows, 2e-6, d.backend, what);
            for (int k = 0; k < 8192; k++) if (room[plan.workspace_size + (size_t)k] != 0x33) fail_msg("%s writes behind its workspace, %s", d.backend, what);
            free(room);
        }
    free(o), free(want), free(lse), free(want_lse);
}
static void test_splits(void **state)
{
    static const int32_t rows[B] = { 3, 0, 1, 2, 3, 3, 2, 1 }, first[B] = { 0, 0, 5, 1, 2, 2000, 3, 1024 };
    (void)state;
    for (int causal = 0; causal < 2; causal++)
        for (int ragged = 0; ragged < 4; ragged++) {
            attn_desc d = make(B, 3, MOST);
            d.flags = causal ? ATTN_CAUSAL : 0;
            d.seq.used_k = ragged % 2 ? reversed_k : some_k;
            if (ragged == 1) d.seq.used_q = rows;
            if (ragged == 2) d.seq.start_k = first;
            d.seq.used_k = ragged == 2 ? (const int32_t[B]){ 0, 1, 1028, 2048, 2052, 4049, 5003, 17413 } : d.seq.used_k;
            forward(d, ragged == 0 ? "used_k" : ragged == 1 ? "used_q" : ragged == 2 ? "start_k" : "reversed");
        }
}
/* Few rows of many: only those that are used may count as work of the later splits. */
static void test_few_rows_used(void **state)
{
    static const int32_t used[3][2] = { { 100, 3 }, { 128, 0 }, { 1, 127 } };
    static const int32_t keys[2] = { 2600, 2100 };
    (void)state;
    for (int i = 0; i < 3; i++) {
        attn_desc d = make(2, 400, 2600);
        d.seq.used_q = used[i], d.seq.used_k = keys;
        forward(d, "few rows used");
    }
}

/* Whether keys are split follows from the used rows: those of a padded sequence have the bits that they have alone. */
static void test_split_bits(void **state)
{
    enum { USED = 20, PADDED = 300, KEYS = 5000 };
    static const int32_t used[1] = { USED };
    static float o[2][PADDED * H * D], lse[2][PADDED * H];
    (void)state;
    for (int padded = 0; padded < 2; padded++) {
        attn_desc d = make(1, padded ? PADDED : USED, KEYS);
        d.flags = ATTN_CAUSAL | ATTN_OFFSET, d.offset = KEYS - USED, d.backend = "flash", d.o.data = o[padded], d.lse = lse[padded];
        if (padded) d.seq.used_q = used;
        assert_ok(attn_forward(&d));
    }
    assert_memory_equal(o[1], o[0], USED * H * D * 4);
    for (int h = 0; h < H; h++) assert_memory_equal(lse[1] + h * PADDED, lse[0] + h * USED, USED * 4);
}

/* All keys that there is room for, just fewer than are cut, as many, and one more: the second split has a place in the workspace. */
static void test_two_splits(void **state)
{
    static const int64_t rows[] = { 5, 48, 128 };
    (void)state;
    for (int64_t keys = 2047; keys <= 2049; keys++)
        for (int i = 0; i < 3; i++) forward(make(1, rows[i], keys), "two splits");
}

/* Rows of two tiles, each with a partial of as many splits as there may be; dims of which a block has 64 keys; more keys than one sum
 * in f32, of more rows than are cut: all in the workspace, all beside the reference. */
static void test_largest(void **state)
{
    enum { DIM = 1030 };
    uint16_t *x = malloc(2 * 300 * DIM * 2);
    attn_desc d = make(1, 1, 300);
    uint64_t r = 10;
    (void)state;
    forward(make(1, 49, 16384), "partials of two tiles");
    forward(make(1, 130, 16500), "spans of many rows");
    attn_desc whole = make(1, 260, 16385);                  /* whole vectors of o, as which one block alone could be written */
    whole.heads = 1, whole.head_dim = 16;
    forward(whole, "a span of one key");
    fill(x, ATTN_BF16, 2 * 300 * DIM, 1, &r);
    d.heads = 1, d.head_dim = DIM, d.k.data = x, d.v.data = x + 300 * DIM, d.k.dtype = d.v.dtype = ATTN_BF16;
    forward(d, "many dims");
    free(x);
}
/* More dims than one sum of products takes, and scores whose exponentials have no f32. */
static void test_long_dims(void **state)
{
    enum { DIM = 4200, ROWS = 20, KEYS = 70 };
    static float o[2][ROWS * D], lse[2][ROWS];
    (void)state;
    for (int n = 0; n < 3; n++) {
        attn_desc d = make(1, ROWS, KEYS);
        d.heads = 1, d.head_dim = DIM, d.v_dim = D, d.scale = 3, d.flags = ATTN_SCALE | (n == 2 ? ATTN_CAUSAL : 0);
        d.backend = n ? "flash" : "reference", d.o.data = o[n > 0], d.lse = lse[n > 0];
        if (n == 2) d.backend = "reference", d.o.data = o[0], d.lse = lse[0], assert_ok(attn_forward(&d)), d.backend = "flash", d.o.data = o[1], d.lse = lse[1];
        assert_ok(attn_forward(&d));
        if (n) same(o[1], o[0], ROWS * D, 1e-3, "flash", "o of many dims"), same(lse[1], lse[0], ROWS, 1e-5, "flash", "lse of many dims");
    }
}

/* Few rows, and dims whose products are summed in parts: the first ones of each row are its own. */
static void test_long_dims_of_few(void **state)
{
    static const int64_t dims[] = { 510, 520, 1030, 2100 };
    static float o[2][6 * D], lse[2][6];
    (void)state;
    for (int n = 0; n < 4; n++)
        for (int64_t rows = 1; rows <= 6; rows++)
            for (int f = 0; f < 2; f++) {
                attn_desc d = make(1, f ? 1 : rows, 100);
                d.heads = f ? rows : 1, d.head_dim = dims[n], d.v_dim = D;
                for (int b = 0; b < 2; b++) {
                    d.backend = b ? "flash" : "reference", d.o.data = o[b], d.lse = lse[b];
                    assert_ok(attn_forward(&d));
                }
                same(o[1], o[0], rows * D, 1e-5, "flash", "o of few rows"), same(lse[1], lse[0], rows, 1e-5, "flash", "lse of few rows");
            }
}

/* Sixteen heads of one unit, each with its sums of spans: what they need beside each other is in the workspace. Keys overlap, to be few. */
static void test_gang(void **state)
{
    enum { HEADS = 16, DIM = 64, STEP = DIM + 1, KEYS = 16500 };
    float *x = malloc((size_t)(KEYS * STEP + HEADS * DIM) * 4);
    attn_desc d = make(1, 1, KEYS);
    uint64_t r = 9;
    (void)state;
    fill(x, ATTN_F32, KEYS * STEP + HEADS * DIM, 1, &r);
    d.heads = d.kv_heads = HEADS, d.head_dim = DIM, d.k.data = d.v.data = x;
    for (int64_t a = 0; a < 3; a++) d.k.stride[a] = d.v.stride[a] = a == 2 ? DIM : STEP;
    forward(d, "a gang");
    free(x);
}

/* Gradients where the first key is no multiple of four, in more than one block of keys: dropout's words, bias columns, dbias. */
static void test_first_key(void **state)
{
    static const char *const names[] = { "reference", "flash", "standard" };
    static const int32_t starts[4][2] = { { 0, 0 }, { 1, 3 }, { 2, 601 }, { 255, 130 } }, used[2] = { 700, 650 };
    static float o[2 * 40 * H * D], lse[2 * 40 * H], grads[3][4][2 * 700 * H * D];
    (void)state;
    for (int i = 0; i < 4; i++)
        for (int dropped = 0; dropped < 2; dropped++) {
            attn_desc d = make(2, 40, 700);
            attn_grad g = { 0 };
            d.seq.start_k = starts[i], d.seq.used_k = used, d.flags = i % 2 ? ATTN_CAUSAL : 0;
            d.bias.data = bias, d.bias.stride[0] = ATTN_BROADCAST, d.bias.stride[1] = 40 * 700, d.bias.stride[2] = 700;
            d.o.data = o, d.lse = lse, d.dropout = dropped ? 0.3f : 0, d.seed = 5;
            d.softcap = i == 3 ? 3 : 0;
            g.dout.data = dout;
            d.backend = "reference";
            assert_ok(attn_forward(&d));
            for (int k = 0; k < 3; k++) {
                float *t[4] = { grads[k][0], grads[k][1], grads[k][2], malloc(sizeof bias) };
                d.backend = names[k];
                g.dq.data = t[0], g.dk.data = t[1], g.dv.data = t[2], g.dbias = t[3];
                assert_ok(attn_backward(&d, &g));
                static float want[COUNT(bias)];
                if (k == 0) memcpy(want, t[3], sizeof bias);
                same(t[0], grads[0][0], 2 * 40 * H * D, 1e-5, names[k], "dq");
                same(t[1], grads[0][1], 2 * 700 * D, 1e-5, names[k], "dk"), same(t[2], grads[0][2], 2 * 700 * D, 1e-5, names[k], "dv");
                same(t[3], want, COUNT(bias), 1e-5, names[k], "dbias");
                free(t[3]);
            }
        }
}

/* A length of 0 beside cu stands for the longest: the same bits and the same workspace as with that number. */
static void test_longest(void **state)
{
    static const int32_t cu_q[5] = { 0, 7, 7, 10, 11 }, cu_k[5] = { 0, 0, 40, 45, 46 }, none[5] = { 0 };
    static const char *const backend[] = { "reference", "standard", "flash" };
    static float o[2][11 * H * D], lse[2][11 * H], grads[2][3][46 * H * D];
    (void)state;
    for (int n = 0; n < 12; n++) {
        attn_plan plan[2];
        for (int given = 0; given < 2; given++) {
            attn_desc d = make(4, given ? 7 : 0, given ? 40 : 0);
            attn_grad g = { 0 };
            d.seq.cu_q = cu_q, d.seq.cu_k = cu_k, d.seq.total_q = 11, d.seq.total_k = 46, d.backend = backend[n % 3];
            if (n / 3 == 1) d.seq.cu_k = NULL, d.seq.total_k = 0, d.kv_len = 9;              /* the keys are not packed */
            if (n / 3 == 2) d.seq.cu_q = none, d.seq.total_q = 0;                            /* 0 is the longest */
            if (n / 3 == 3) d.seq.cu_k = none, d.seq.total_k = 0;
            d.flags = ATTN_CAUSAL, d.o.data = o[given], d.lse = lse[given];
            g.dout.data = dout, g.dq.data = grads[given][0], g.dk.data = grads[given][1], g.dv.data = grads[given][2];
            assert_ok(attn_query(&d, NULL, &plan[given]));
            assert_ok(attn_forward(&d));
            assert_ok(attn_backward(&d, &g));
        }
        assert_memory_equal(o[0], o[1], sizeof o[0]);
        assert_memory_equal(lse[0], lse[1], sizeof lse[0]);
        assert_memory_equal(grads[0], grads[1], sizeof grads[0]);
        if (n < 6) assert_int_equal(plan[0].workspace_size, plan[1].workspace_size);
    }
}

/* All products of a score are the same number: what their sum loses, it loses at each. lse is within the rule of tolerances.md. */
static void test_equal_products(void **state)
{
    static const int64_t dims[] = { 33, 64, 65, 80, 128, 200, 256, 512, 1100 }, keys[] = { 1, 5, 70 }, queries[] = { 1, 3, 8, 20 };
    static const char *const backend[] = { "flash", "standard" };
    static float q[20 * 1100], k[70 * 1100], v[70 * 1100], o[20 * 1100], lse[20];
    uint64_t r = 7;
    (void)state;
    for (int n = 0; n < 2 * 9 * 3 * 4 * 4; n++) {
        attn_desc d = { 0 };
        const double a = 0.01 + 3 * random_unit(&r), b = 0.01 + 3 * random_unit(&r);
        d.backend = backend[n % 2], d.head_dim = dims[n / 2 % 9], d.kv_len = keys[n / 18 % 3], d.q_len = queries[n / 54 % 4];
        for (int64_t i = 0; i < d.q_len * d.head_dim; i++) q[i] = (float)a;
        for (int64_t i = 0; i < d.kv_len * d.head_dim; i++) k[i] = (float)b, v[i] = 1;
        d.batch = d.heads = 1, d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o, d.lse = lse, d.threads = 1;
        assert_ok(attn_forward(&d));
        const double score = (double)(float)a * (double)(float)b * (double)d.head_dim * (double)(float)(1 / sqrt((double)d.head_dim));
        const double want = score + log((double)d.kv_len), allowed = allowed_lse(want, 2 * score + 4);
        for (int64_t i = 0; i < d.q_len; i++)
            if (!(fabs((double)lse[i] - want) <= allowed))
                fail_msg("%s, %d queries, %d keys, head_dim %d: lse %.9g, not %.9g: %.2f of what may be lost", d.backend, (int)d.q_len, (int)d.kv_len,
                         (int)d.head_dim, (double)lse[i], want, fabs((double)lse[i] - want) / allowed);
    }
}

/* Dropout of whole tiles of rows that see keys from the middle of a block on. */
static void test_dropped_window(void **state)
{
    enum { ROWS = 400, KEYS = 400, DIM = 8 };
    static const char *const names[] = { "reference", "flash", "standard" };
    static float o[ROWS * DIM], lse[ROWS], grads[2][3][KEYS * DIM];
    (void)state;
    for (int left = 10; left <= 130; left += 40) {
        attn_desc d = make(1, ROWS, KEYS);
        attn_grad g = { 0 };
        d.heads = 1, d.head_dim = DIM, d.flags = ATTN_CAUSAL | ATTN_WINDOW_LEFT, d.window_left = left, d.dropout = 0.3f, d.seed = 5, d.o.data = o, d.lse = lse;
        for (int b = 0; b < 3; b++) {
            float (*to)[KEYS * DIM] = grads[b > 0];
            d.backend = names[b], g.dout.data = dout, g.dq.data = to[0], g.dk.data = to[1], g.dv.data = to[2];
            if (b == 0) assert_ok(attn_forward(&d));
            assert_ok(attn_backward(&d, &g));
            for (int t = 0; t < 3 && b; t++) same(to[t], grads[0][t], KEYS * DIM, 1e-5, names[b], "a gradient of what a window leaves");
        }
    }
}

/* Gradients that are added to: a sequence shorter than others is cut into its own number of splits, and none is counted twice. */
static void test_added_splits(void **state)
{
    enum { Q = 16, KEYS = 2048 };
    static const int32_t used[2] = { 300, KEYS };
    static float o[2 * Q * H * D], lse[2 * H * Q], grads[2][3][2 * KEYS * D];
    (void)state;
    for (int threads = 1; threads <= 4; threads += 3)
        for (int added = 0; added < 2; added++) {
            attn_desc d = make(2, Q, KEYS);
            attn_grad g = { 0 };
            d.backend = "flash", d.threads = threads, d.seq.used_k = used, d.o.data = o, d.lse = lse;
            g.dout.data = dout, g.dq.data = grads[added][0], g.dk.data = grads[added][1], g.dv.data = grads[added][2];
            for (int t = 0; t < 3; t++) for (int64_t i = 0; i < COUNT(grads[0][0]); i++) grads[added][t][i] = added ? 1 : 0;
            if (added) d.flags = ATTN_ACCUMULATE;
            else assert_ok(attn_forward(&d));
            assert_ok(attn_backward(&d, &g));
            for (int t = 0; added && t < 3; t++) {
                for (int64_t i = 0; i < COUNT(grads[0][0]); i++) grads[0][t][i] += 1;
                same(grads[1][t], grads[0][t], COUNT(grads[0][0]), 2e-6, "flash", t == 0 ? "dq" : t == 1 ? "dk" : "dv");
            }
        }
}

/* Tokens that are not valid have no gradient: with ATTN_ACCUMULATE their bits stay, -0 and subnormal numbers too. */
static void test_not_added(void **state)
{
    enum { Q = 21, KEYS = 150 };
    static const char *const names[] = { "reference", "flash", "standard" };
    static const int32_t types[] = { ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64 };
    static const int32_t used_q[] = { 5, 0 }, used_k[] = { 100, 90 }, start_k[] = { 0, 30 };
    static float o[2 * Q * H * D], lse[2 * H * Q];
    static double was[3][2 * KEYS * H * D], grads[3][2 * KEYS * H * D];
    (void)state;
    for (int n = 0; n < 3 * COUNT(types); n++) {
        attn_desc d = make(2, Q, KEYS);
        attn_grad g = { 0 };
        attn_out *const out[] = { &g.dq, &g.dk, &g.dv };
        const int32_t type = types[n / 3];
        const size_t size = dtype_size(type);
        d.backend = names[n % 3], d.seq.used_q = used_q, d.seq.used_k = used_k, d.seq.start_k = start_k, d.o.data = o, d.lse = lse;
        assert_ok(attn_forward(&d));
        d.flags |= ATTN_ACCUMULATE;
        for (int t = 0; t < 3; t++) {
            const uint64_t top = (uint64_t)1 << (8 * size - 1);          /* -0, and the least number but 0 */
            for (int64_t i = 0; i < COUNT(was[0]); i++) {
                const uint64_t bits = i % 3 == 0 ? top : i % 3 == 1 ? 1 : 0;
                memcpy((char *)was[t] + (size_t)i * size, &bits, size);
            }
            memcpy(grads[t], was[t], sizeof was[t]);
            out[t]->data = grads[t], out[t]->dtype = type;
        }
        g.dout.data = dout;
        assert_ok(attn_backward(&d, &g));
        for (int t = 0; t < 3; t++)
            for (int64_t b = 0; b < 2; b++)
                for (int64_t i = 0; i < (t ? KEYS : Q); i++) {
                    const int valid = t ? i >= start_k[b] && i < used_k[b] : i < used_q[b];
                    const int64_t heads = t ? d.kv_heads ? d.kv_heads : H : H, row = heads * D, at = (b * (t ? KEYS : Q) + i) * row;
                    if (!valid && memcmp((char *)grads[t] + (size_t)at * size, (char *)was[t] + (size_t)at * size, (size_t)row * size))
                        fail_msg("%s, type %d: %s of token %d of %d, which is not valid, does not stay", d.backend, (int)type, t == 0 ? "dq" : t == 1 ? "dk" : "dv", (int)i, (int)b);
                }
    }
}

/* dsink of heads of two groups, whose lse and dlse are no numbers behind the queries that count: each head has its own, and nothing of those is read. */
static void test_sinks_of_used_rows(void **state)
{
    enum { Q = 4, KEYS = 9, HEADS = 4, N = Q * HEADS * D };
    static const char *const names[] = { "reference", "flash", "standard" };
    static const float sink[HEADS] = { 0.5f, -1, 1, 2 };
    static const int32_t used_q[] = { 2, 1 };
    static float o[2 * N], lse[2 * HEADS * Q], dlse[2 * HEADS * Q], dq[2 * N], dk[2 * KEYS * 2 * D], dv[2 * KEYS * 2 * D];
    float dsink[3][HEADS];
    (void)state;
    for (int n = 0; n < 3; n++) {
        attn_desc d = make(2, Q, KEYS);
        attn_grad g = { 0 };
        d.heads = HEADS, d.kv_heads = 2, d.backend = names[n], d.seq.used_q = used_q, d.sink = sink, d.o.data = o, d.lse = lse;
        assert_ok(attn_forward(&d));
        for (int i = 0; i < 2 * HEADS * Q; i++) {
            const int used = i % Q < used_q[i / (HEADS * Q)];
            dlse[i] = used ? 0.1f * (float)(i % 7) : NAN;
            if (!used) lse[i] = NAN;
        }
        g.dout.data = dout, g.dlse = dlse, g.dq.data = dq, g.dk.data = dk, g.dv.data = dv, g.dsink = dsink[n];
        assert_ok(attn_backward(&d, &g));
        for (int h = 0; h < HEADS; h++)
            if (!(fabsf(dsink[n][h] - dsink[0][h]) <= 1e-4f)) fail_msg("%s: dsink[%d] is %g, not %g", names[n], h, (double)dsink[n][h], (double)dsink[0][h]);
    }
    for (int h = 0; h < HEADS; h++) assert_true(isfinite(dsink[0][h]) && fabsf(dsink[0][h]) > 1e-3f);
}

/* A row that sees no key beside one that does has the sink's lse, and nothing as its o. */
static void test_sink_alone(void **state)
{
    enum { Q = 4, KEYS = 2 };
    static const char *const names[] = { "reference", "flash", "standard" };
    float sink[H], o[Q * H * D], lse[H * Q];
    (void)state;
    for (int h = 0; h < H; h++) sink[h] = 0.5f - (float)h;
    for (int n = 0; n < 3; n++) {
        attn_desc d = make(1, Q, KEYS);
        d.flags = ATTN_CAUSAL, d.backend = names[n], d.sink = sink, d.o.data = o, d.lse = lse;
        assert_ok(attn_forward(&d));
        for (int h = 0; h < H; h++)
            for (int i = 0; i < Q - KEYS; i++) {
                if (lse[h * Q + i] != sink[h]) fail_msg("%s: lse[%d][%d] is %g, not %g", names[n], h, i, (double)lse[h * Q + i], (double)sink[h]);
                for (int c = 0; c < D; c++) assert_true(o[(i * H + h) * D + c] == 0);
            }
    }
}

/* standard needs no byte behind its workspace, where q and k are far longer than v. */
static void test_standard_workspace(void **state)
{
    enum { Q = 70, KEYS = 300, DIM = 1024 };
    static float q[Q * DIM], k[KEYS * DIM], o[2][Q];
    attn_plan plan;
    attn_desc d = make(1, Q, KEYS);
    (void)state;
    for (int i = 0; i < Q * DIM; i++) q[i] = numbers[0][i];
    for (int i = 0; i < KEYS * DIM; i++) k[i] = numbers[1][i % 70000];
    d.heads = d.kv_heads = 1, d.head_dim = DIM, d.v_dim = 1, d.backend = "standard", d.threads = 1, d.q.data = q, d.k.data = k, d.o.data = o[0];
    assert_ok(attn_forward(&d));
    assert_ok(attn_query(&d, NULL, &plan));
    char *memory = malloc(plan.workspace_size + (1 << 20) + 64), *from = (char *)(((uintptr_t)memory + 63) & ~(uintptr_t)63), *end = from + plan.workspace_size;
    memset(memory, 0x55, plan.workspace_size + (1 << 20) + 64);
    d.workspace = from, d.workspace_size = plan.workspace_size, d.o.data = o[1];
    assert_ok(attn_forward(&d));
    for (int i = 0; i < 1 << 20; i++) if (end[i] != 0x55) fail_msg("byte %d behind the workspace", i);
    assert_memory_equal(o[0], o[1], sizeof o[0]);
    free(memory);
}

/* First keys of packed sequences: columns of a bias and of a mask are counted from where the sequence begins. */
static void test_packed_first_key(void **state)
{
    enum { Q = 6, KEYS = 90, TOTAL_Q = 10, TOTAL_K = 150 };
    static const int32_t cu_q[] = { 0, Q, TOTAL_Q }, cu_k[] = { 0, KEYS, TOTAL_K }, start_k[] = { 3, 17 };
    static const char *const names[] = { "reference", "flash", "standard" };
    static unsigned char mask[2 * Q * KEYS];
    static float o[3][TOTAL_Q * H * D], lse[3][TOTAL_Q * H];
    (void)state;
    for (int64_t i = 0; i < COUNT(mask); i++) mask[i] = i * 7919 % 5 > 0;
    for (int n = 0; n < 4; n++)
        for (int b = 0; b < 3; b++) {
            attn_desc d = make(2, 0, 0);
            d.seq.cu_q = cu_q, d.seq.cu_k = cu_k, d.seq.total_q = TOTAL_Q, d.seq.total_k = TOTAL_K, d.seq.start_k = start_k;
            if (n & 1) d.bias.data = bias;
            if (n & 2) d.mask.data = mask, d.mask.dtype = ATTN_BOOL, d.mask.stride[0] = Q * KEYS, d.mask.stride[1] = ATTN_BROADCAST, d.mask.stride[2] = KEYS;
            d.backend = names[b], d.o.data = o[b], d.lse = lse[b];
            assert_ok(attn_forward(&d));
            same(o[b], o[0], COUNT(o[0]), 1e-5, d.backend, "o");
            same(lse[b], lse[0], COUNT(lse[0]), 1e-5, d.backend, "lse");
        }
}
/* Splits of which no row sees a key, by a window the first, by an offset the later ones; values of more dims than keys. Whatever was in the memory
 * before is not joined. */
static void test_unseen_splits(void **state)
{
    enum { KEYS = 2500, DIM = 8, V_DIM = 40, ROWS = 60 };
    static float o[2][ROWS * H * V_DIM], lse[2][ROWS * H];
    (void)state;
    for (int n = 0; n < 8; n++) {
        attn_desc d = make(1, n & 1 ? ROWS : 2, KEYS);
        d.head_dim = DIM, d.v_dim = V_DIM, d.flags = n & 2 ? ATTN_CAUSAL | ATTN_OFFSET : ATTN_CAUSAL | ATTN_WINDOW_LEFT;
        if (n & 2) d.offset = 70;
        else d.window_left = 100;
        d.threads = n & 4 ? 3 : 1;
        for (int b = 0; b < 2; b++) {
            d.backend = b ? "flash" : "reference", d.o.data = o[b], d.lse = lse[b];
            assert_ok(attn_forward(&d));
        }
        same(o[1], o[0], d.q_len * H * V_DIM, 1e-5, d.backend, "o");
        same(lse[1], lse[0], d.q_len * H, 1e-5, d.backend, "lse");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_added), cmocka_unit_test(test_sinks_of_used_rows), cmocka_unit_test(test_sink_alone), cmocka_unit_test(test_standard_workspace), cmocka_unit_test(test_dropped_window), cmocka_unit_test(test_split_bits), cmocka_unit_test(test_added_splits),
        cmocka_unit_test(test_largest), cmocka_unit_test(test_long_dims), cmocka_unit_test(test_long_dims_of_few),
        cmocka_unit_test(test_equal_products),
        cmocka_unit_test(test_longest), cmocka_unit_test(test_splits), cmocka_unit_test(test_unseen_splits), cmocka_unit_test(test_packed_first_key), cmocka_unit_test(test_few_rows_used), cmocka_unit_test(test_two_splits), cmocka_unit_test(test_gang), cmocka_unit_test(test_first_key),
    };
    fill_all();
    return cmocka_run_group_tests_name("lengths", tests, NULL, NULL);
}
