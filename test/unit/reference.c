/* reference.c - the reference backend on its own: cases computed by hand, every gradient against finite differences in f64, and
 * identities that attention has. */
#include "unit.h"

/* ------------------------------------------------------------------------------------------ who sees whom
 * With a scale of 0 every visible key has the same weight, and with an identity as values o shows which keys those are. */
typedef struct seen {
    const char *name;
    int64_t sq, sk;
    uint32_t flags;
    int64_t offset, left, right;
    const char *keys;                           /* by hand: a row for each query, 1 visible */
} seen;

static const seen seen_rows[] = {
    { "everything", 2, 3, 0, 0, 0, 0, "111 111" },
    { "causal square", 3, 3, ATTN_CAUSAL, 0, 0, 0, "100 110 111" },
    { "causal bottom right, more keys", 2, 4, ATTN_CAUSAL, 0, 0, 0, "1110 1111" },
    { "causal bottom right, more queries", 4, 2, ATTN_CAUSAL, 0, 0, 0, "00 00 10 11" },
    { "causal top left, more keys", 2, 4, ATTN_CAUSAL | ATTN_TOP_LEFT, 0, 0, 0, "1000 1100" },
    { "causal top left, more queries", 4, 2, ATTN_CAUSAL | ATTN_TOP_LEFT, 0, 0, 0, "10 11 11 11" },
    { "causal offset 1", 3, 4, ATTN_CAUSAL | ATTN_OFFSET, 1, 0, 0, "1100 1110 1111" },
    { "causal offset -2", 4, 3, ATTN_CAUSAL | ATTN_OFFSET, -2, 0, 0, "000 000 100 110" },
    { "causal offset 0 of a flag", 2, 3, ATTN_CAUSAL | ATTN_OFFSET, 0, 0, 0, "100 110" },
    { "window 1 left", 4, 4, ATTN_WINDOW_LEFT, 0, 1, 0, "1111 1111 0111 0011" },
    { "window 0 left", 3, 3, ATTN_WINDOW_LEFT, 0, 0, 0, "111 011 001" },
    { "window 1 right", 3, 4, ATTN_WINDOW_RIGHT | ATTN_TOP_LEFT, 0, 0, 1, "1100 1110 1111" },
    { "window 0 right is causal", 3, 3, ATTN_WINDOW_RIGHT, 0, 0, 0, "100 110 111" },
    { "window 1 left 1 right", 4, 4, ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, 0, 1, 1, "1100 1110 0111 0011" },
    { "window 0 0 is the diagonal", 3, 3, ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, 0, 0, 0, "100 010 001" },
    { "causal window 1", 4, 4, ATTN_CAUSAL | ATTN_WINDOW_LEFT, 0, 1, 0, "1000 1100 0110 0011" },
    { "causal window bottom right", 2, 4, ATTN_CAUSAL | ATTN_WINDOW_LEFT, 0, 1, 0, "0110 0011" },
    { "window beside all keys", 2, 2, ATTN_WINDOW_LEFT | ATTN_OFFSET, 5, 1, 0, "00 00" },
    { "causal cuts a wide right window", 2, 2, ATTN_CAUSAL | ATTN_WINDOW_RIGHT, 0, 0, 9, "10 11" },
    { "window sides that saturate", 2, 2, ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, 0, INT64_MAX, INT64_MAX, "11 11" },
    { "offset that saturates", 2, 2, ATTN_CAUSAL | ATTN_OFFSET, INT64_MAX, 0, 0, "11 11" },
    { "window about a far offset", 2, 2, ATTN_WINDOW_LEFT | ATTN_OFFSET, INT64_MIN + 1, INT64_MAX, 0, "11 11" },
};

static void test_seen(void **state)
{
    const seen *r = *state;
    problem_case c = { .b = 1, .sq = r->sq, .sk = r->sk, .h = 1, .d = 1, .dv = r->sk, .flags = r->flags | ATTN_SCALE,
                       .offset = r->offset, .left = r->left, .right = r->right };
    problem p;
    c.o = c.kv = ATTN_F64;
    p = problem_make(&c, 1);
    for (int64_t j = 0; j < r->sk * r->sk; j++) element_put((void *)(uintptr_t)p.d.v.data, ATTN_F64, j, j % (r->sk + 1) == 0);
    p.d.backend = "reference";
    assert_ok(attn_forward(&p.d));
    for (int64_t i = 0; i < r->sq; i++) {
        const char *row = r->keys + i * (r->sk + 1);
        int n = 0;
        for (int64_t j = 0; j < r->sk; j++) n += row[j] == '1';
        for (int64_t j = 0; j < r->sk; j++) {
            double want = row[j] == '1' ? 1.0 / n : 0;
            if (fabs(element_get(p.d.o.data, ATTN_F64, i * r->sk + j) - want) > 1e-15) fail_msg("query %d key %d", (int)i, (int)j);
        }
        if (n == 0) assert_true(isinf(p.d.lse[i]) && p.d.lse[i] < 0);
        else assert_true(fabs((double)p.d.lse[i] - log(n)) < 1e-7);
    }
    problem_free(&p);
}

/* ------------------------------------------------------------------------------------------ by hand */
typedef struct by_hand {
    const char *name;
    double q, k[2], v[2];                       /* one query, two keys, head_dim 1 */
    float scale, softcap, alibi;
    int sink;
    float sink_value;
    double bias[2];
    int has_bias;
    double o, lse;
} by_hand;

static const by_hand hand_rows[] = {
    { "weights 1/4 and 3/4", 1, { 0, 1.0986122886681098 }, { 4, 8 }, 1, 0, 0, 0, 0, { 0, 0 }, 0, 7, 1.3862943611198906 },
    { "default scale of head_dim 1", 2, { 0, 0.5493061443340549 }, { 4, 8 }, 0, 0, 0, 0, 0, { 0, 0 }, 0, 7, 1.3862943611198906 },
    { "scale 1/2", 2, { 0, 1.0986122886681098 }, { 4, 8 }, 0.5f, 0, 0, 0, 0, { 0, 0 }, 0, 7, 1.3862943611198906 },
    { "negative scale", 1, { 0, -1.0986122886681098 }, { 4, 8 }, -1, 0, 0, 0, 0, { 0, 0 }, 0, 7, 1.3862943611198906 },
    { "a sink takes a third", 0, { 1, 2 }, { 3, 6 }, 1, 0, 0, 1, 0, { 0, 0 }, 0, 3, 1.0986122886681098 },
    /* softcap 2: 2 tanh(3/2) = 1.8102965 and 0: o = 10 / (1 + exp(-1.8102965)) */
    { "softcap 2 of a score of 3", 3, { 1, 0 }, { 10, 0 }, 1, 2, 0, 0, 0, { 0, 0 }, 0, 8.593977060, 1.961819984 },
    /* offset 1: distances 1 and 0, slope 1/2: o = 10 / (1 + exp(1/2)) */
    { "ALiBi of slope 1/2", 0, { 1, 1 }, { 10, 0 }, 1, 0, 0.5f, 0, 0, { 0, 0 }, 0, 3.775406688, 0.474076984 },
    { "bias of ln 3 on the second", 0, { 1, 1 }, { 4, 8 }, 1, 0, 0, 0, 0, { 0, 1.0986122886681098 }, 1, 7, 1.3862943611198906 },
    { "a bias of -infinity hides", 0, { 1, 1 }, { 4, 8 }, 1, 0, 0, 0, 0, { -INFINITY, 0 }, 1, 8, 0 },
    { "scores of 10000", 100, { 100, 100 }, { 4, 8 }, 1, 0, 0, 0, 0, { 0, 0 }, 0, 6, 10000.693147180559 },
    { "scores of -10000", 100, { -100, -100 }, { 4, 8 }, 1, 0, 0, 0, 0, { 0, 0 }, 0, 6, -9999.306852819441 },
    { "softcap before the bias", 1000, { 1, 0 }, { 10, 0 }, 1, 2, 0, 0, 0, { -2, 0 }, 1, 5, 0.6931471805599453 },
};

static void test_by_hand(void **state)
{
    const by_hand *r = *state;
    attn_desc d = { 0 };
    double o = 99;
    float lse = 99;
    d.batch = d.q_len = d.heads = d.head_dim = 1;
    d.kv_len = 2;
    d.q.data = &r->q, d.k.data = r->k, d.v.data = r->v, d.o.data = &o, d.lse = &lse;
    d.q.dtype = d.k.dtype = d.v.dtype = d.o.dtype = d.bias.dtype = ATTN_F64;
    if (r->scale < 0 || r->scale > 0) d.flags = ATTN_SCALE, d.scale = r->scale;
    d.softcap = r->softcap;
    if (r->alibi > 0) d.alibi = &r->alibi;
    if (r->sink) d.sink = &r->sink_value;
    if (r->has_bias) d.bias.data = r->bias;
    assert_ok(attn_forward(&d));
    if (!(fabs(o - r->o) < 1e-8)) fail_msg("o %.12g, not %.12g", o, r->o);
    if (!(fabs((double)lse - r->lse) <= 1e-7 * (1 + fabs(r->lse)))) fail_msg("lse %.9g, not %.9g", (double)lse, r->lse);
}

/* Query head h uses key/value head h / (heads / kv_heads). */
static void test_heads_by_hand(void **state)
{
    double q[6] = { 0 }, k[3] = { 0 }, v[3] = { 10, 20, 30 }, o[6];
    attn_desc d = { 0 };
    (void)state;
    d.batch = d.q_len = d.kv_len = d.head_dim = 1;
    d.heads = 6, d.kv_heads = 3;
    d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o;
    d.q.dtype = d.k.dtype = d.v.dtype = d.o.dtype = ATTN_F64;
    assert_ok(attn_forward(&d));
    for (int h = 0; h < 6; h++) assert_true(o[h] == v[h / 2]);
}

/* One key: p is 1 whatever the score, so dv = dout and, with dlse, ds = dlse. */
static void test_gradient_by_hand(void **state)
{
    double q[2] = { 1, 2 }, k[2] = { 3, 5 }, v[1] = { 7 }, o[1], dout[1] = { 11 }, dq[2], dk[2], dv[1];
    float lse[1], dlse[1] = { 0.5f };
    attn_desc d = { 0 };
    attn_grad g = { 0 };
    (void)state;
    d.batch = d.q_len = d.kv_len = d.heads = 1;
    d.head_dim = 2, d.v_dim = 1;
    d.flags = ATTN_SCALE, d.scale = 0.125f;
    d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o, d.lse = lse;
    d.q.dtype = d.k.dtype = d.v.dtype = d.o.dtype = ATTN_F64;
    g.dout.data = dout, g.dlse = dlse, g.dq.data = dq, g.dk.data = dk, g.dv.data = dv;
    g.dout.dtype = g.dq.dtype = g.dk.dtype = g.dv.dtype = ATTN_F64;
    assert_ok(attn_forward(&d));
    assert_true(o[0] == 7 && lse[0] == 1.625f);         /* (1 * 3 + 2 * 5) / 8, exactly */
    assert_ok(attn_backward(&d, &g));
    assert_true(fabs(dv[0] - 11) < 1e-12);
    assert_true(fabs(dq[0] - 3 * 0.125 * 0.5) < 1e-12 && fabs(dq[1] - 5 * 0.125 * 0.5) < 1e-12);
    assert_true(fabs(dk[0] - 1 * 0.125 * 0.5) < 1e-12 && fabs(dk[1] - 2 * 0.125 * 0.5) < 1e-12);
}

/* No keys, or none visible: o = 0 and lse = -infinity, or the sink; no queries, no batch: nothing at all. */
static void test_empty(void **state)
{
    static const problem_case none = { .b = 2, .sq = 3, .h = 2, .d = 4 };
    problem p = problem_make(&none, 3);
    float sink[2] = { 1.5f, -2 };
    (void)state;
    p.d.backend = "reference";
    assert_ok(attn_forward(&p.d));
    for (int i = 0; i < 48; i++) assert_true(element_get(p.d.o.data, ATTN_F32, i) == 0 && !signbit(element_get(p.d.o.data, ATTN_F32, i)));
    for (int i = 0; i < 12; i++) assert_true(isinf(p.d.lse[i]) && p.d.lse[i] < 0);
    p.d.sink = sink;
    assert_ok(attn_forward(&p.d));
    for (int i = 0; i < 12; i++) assert_true(p.d.lse[i] == sink[i / 3 % 2]);
    p.d.q_len = 0;
    p.d.o.data = NULL;
    assert_ok(attn_forward(&p.d));
    p.d.batch = 0;
    p.d.kv_len = 5;
    p.d.q.data = p.d.k.data = p.d.v.data = NULL;
    p.d.lse = NULL;
    assert_ok(attn_forward(&p.d));
    problem_free(&p);
}

/* The sums that the other backends are judged by. Scores of 0 have an error e of 4, and values of 1 a sum of p |v| of 1: for o it is 2 e. */
static void test_bounds(void **state)
{
    enum { ROWS = 2, KEYS = 10, DIM = 4 };
    float q[ROWS * DIM] = { 0 }, k[KEYS * DIM] = { 0 }, v[KEYS * DIM], o[ROWS * DIM], lse[ROWS];
    double bound[ROWS * DIM], pv[ROWS * DIM], bound_lse[ROWS];
    attn_desc d = { 0 };
    (void)state;
    for (int i = 0; i < KEYS * DIM; i++) v[i] = 1;
    d.batch = d.heads = 1, d.q_len = ROWS, d.kv_len = KEYS, d.head_dim = DIM;
    d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o, d.lse = lse;
    assert_ok(unit_bounds(&d, bound, pv, bound_lse));
    for (int i = 0; i < ROWS; i++) assert_true(fabs(bound_lse[i] - 4) < 1e-9);
    for (int i = 0; i < ROWS * DIM; i++) assert_true(fabs(pv[i] - 1) < 1e-9 && fabs(bound[i] - 8) < 1e-9);
}

/* Softcap of scores on either side of itself: 100 tanh(0.99) and 100 tanh(1.01), of which o tells the difference. */
static void test_softcap_digits(void **state)
{
    const float q = 1, k[2] = { 99, 101 };
    const double v[2] = { 1, 0 }, want = 0.30154122807814996;
    double o = 0;
    attn_desc d = { 0 };
    (void)state;
    d.batch = d.heads = d.q_len = d.head_dim = 1, d.kv_len = 2, d.softcap = 100, d.flags = ATTN_SCALE, d.scale = 1, d.backend = "reference";
    d.q.data = &q, d.k.data = k, d.v.data = v, d.v.dtype = ATTN_F64, d.o.data = &o, d.o.dtype = ATTN_F64;
    assert_ok(attn_forward(&d));
    if (!(fabs(o / want - 1) <= 1e-13)) fail_msg("o %.17g, not %.17g", o, want);
}

/* ------------------------------------------------------------------------------------------ finite differences */
static const problem_case gradient_rows[] = {
    { .name = "plain", .b = 2, .sq = 3, .sk = 4, .h = 2, .d = 3 },
    { .name = "causal square", .b = 1, .sq = 4, .sk = 4, .h = 2, .d = 2, .flags = ATTN_CAUSAL },
    { .name = "causal bottom right", .b = 1, .sq = 2, .sk = 5, .h = 1, .d = 3, .flags = ATTN_CAUSAL },
    { .name = "causal with empty rows", .b = 1, .sq = 5, .sk = 3, .h = 1, .d = 3, .flags = ATTN_CAUSAL },
    { .name = "causal top left", .b = 1, .sq = 3, .sk = 5, .h = 1, .d = 3, .flags = ATTN_CAUSAL | ATTN_TOP_LEFT },
    { .name = "causal offset", .b = 1, .sq = 3, .sk = 5, .h = 1, .d = 3, .flags = ATTN_CAUSAL | ATTN_OFFSET, .offset = -1 },
    { .name = "window", .b = 1, .sq = 5, .sk = 5, .h = 1, .d = 2, .flags = ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, .left = 1,
      .right = 2 },
    { .name = "GQA", .b = 2, .sq = 3, .sk = 3, .h = 4, .hk = 2, .d = 2 },
    { .name = "one kv head, BHSD", .b = 2, .sq = 2, .sk = 3, .h = 3, .hk = 1, .d = 2, .layout = ATTN_BHSD },
    { .name = "v_dim above head_dim", .b = 1, .sq = 3, .sk = 3, .h = 2, .d = 2, .dv = 5 },
    { .name = "v_dim below head_dim", .b = 1, .sq = 3, .sk = 3, .h = 2, .d = 5, .dv = 1 },
    { .name = "scale", .b = 1, .sq = 3, .sk = 3, .h = 1, .d = 3, .flags = ATTN_SCALE, .scale = -0.75f },
    { .name = "softcap", .b = 1, .sq = 3, .sk = 4, .h = 2, .d = 3, .softcap = 1.25f, .amplitude = 1.5 },
    { .name = "ALiBi", .b = 1, .sq = 3, .sk = 4, .h = 3, .d = 2, .alibi = 1 },
    { .name = "ALiBi softcap sink causal", .b = 1, .sq = 4, .sk = 4, .h = 2, .d = 2, .alibi = 1, .softcap = 2, .sink = 1,
      .flags = ATTN_CAUSAL },
    { .name = "sink", .b = 2, .sq = 3, .sk = 3, .h = 2, .d = 2, .sink = 1 },
    { .name = "sink with empty rows", .b = 1, .sq = 4, .sk = 2, .h = 2, .d = 2, .sink = 1, .flags = ATTN_CAUSAL },
    { .name = "bias", .b = 2, .sq = 2, .sk = 3, .h = 2, .d = 2, .bias = HAS },
    { .name = "bias over batch", .b = 2, .sq = 2, .sk = 3, .h = 2, .d = 2, .bias = HAS | ONE_BATCH },
    { .name = "bias over heads", .b = 2, .sq = 2, .sk = 3, .h = 2, .d = 2, .bias = HAS | ONE_HEAD },
    { .name = "bias over queries", .b = 2, .sq = 2, .sk = 3, .h = 2, .d = 2, .bias = HAS | ONE_QUERY },
    { .name = "bias over all three", .b = 2, .sq = 2, .sk = 3, .h = 2, .d = 2, .bias = HAS | ONE_BATCH | ONE_HEAD | ONE_QUERY },
    { .name = "mask", .b = 2, .sq = 3, .sk = 4, .h = 2, .d = 2, .mask = HAS },
    { .name = "mask over batch and heads, bias, GQA", .b = 2, .sq = 3, .sk = 4, .h = 2, .hk = 1, .d = 2,
      .mask = HAS | ONE_BATCH | ONE_HEAD, .bias = HAS | ONE_QUERY, .softcap = 3 },
    { .name = "dropout", .b = 2, .sq = 3, .sk = 6, .h = 2, .d = 2, .dropout = 0.25f },
    { .name = "dropout, sink, causal", .b = 1, .sq = 4, .sk = 5, .h = 2, .d = 2, .dropout = 0.5f, .sink = 1, .flags = ATTN_CAUSAL },
    { .name = "everything", .b = 2, .sq = 4, .sk = 5, .h = 4, .hk = 2, .d = 3, .dv = 2, .softcap = 2, .alibi = 1, .sink = 1,
      .bias = HAS | ONE_BATCH, .mask = HAS | ONE_HEAD, .flags = ATTN_CAUSAL | ATTN_WINDOW_LEFT | ATTN_SCALE, .left = 3,
      .scale = 0.6f },
};

/* lse in f64, which attn.h gives as f32 only: with 1 as the only value, o = 1 - exp(sink - lse). Without a sink one of 0 is added
 * and taken off again. */
static void lse_f64(const problem *p, double *lse)
{
    attn_desc d = p->d;
    int64_t n = d.batch * d.kv_len * p->hk;
    double *ones = malloc(((size_t)n + 1) * sizeof *ones);
    float zero[16] = { 0 };
    const float *sink = d.sink ? d.sink : zero;
    for (int64_t i = 0; i < n; i++) ones[i] = 1;
    memset(&d.v, 0, sizeof d.v);
    memset(&d.o, 0, sizeof d.o);
    d.v.data = ones, d.v.dtype = ATTN_F64;
    d.o.data = lse, d.o.dtype = ATTN_F64, d.o.layout = ATTN_BHSD;
    d.v_dim = 1, d.dropout = 0, d.seed = 0, d.lse = NULL, d.sink = sink;
    assert_ok(attn_forward(&d));
    for (int64_t i = 0; i < d.batch * d.heads * d.q_len; i++) {
        double s = (double)sink[i / d.q_len % d.heads];
        lse[i] = p->d.sink ? s - log1p(-lse[i]) : lse[i] > 0 ? log(lse[i] / (1 - lse[i])) : -INFINITY;
    }
    free(ones);
}

static double loss(const problem *p)            /* sum(dout * o) + sum(dlse * lse) */
{
    double sum = 0, lse[256];
    int64_t rows = p->d.batch * p->d.heads * p->d.q_len;
    attn_desc d = p->d;
    d.lse = NULL;
    assert_ok(attn_forward(&d));
    for (int64_t i = 0; i < rows * p->dv; i++) sum += element_get(p->g.dout.data, ATTN_F64, i) * element_get(d.o.data, ATTN_F64, i);
    lse_f64(p, lse);
    for (int64_t i = 0; i < rows; i++) sum += isinf(lse[i]) ? 0 : (double)p->g.dlse[i] * lse[i];
    return sum;
}

static void differentiate(const problem *p, const char *what, const void *param, int dtype, const void *grad, int grad_dtype,
                          int64_t n, double tolerance)
{
    void *x = (void *)(uintptr_t)param;
    for (int64_t i = 0; i < n; i++) {
        double x0 = element_get(x, dtype, i), slope[2], g = element_get(grad, grad_dtype, i), want;
        for (int k = 0; k < 2; k++) {           /* central differences, h and h / 2, extrapolated */
            double h = ldexp(1, -9 - k), up;
            element_put(x, dtype, i, x0 + h);
            up = loss(p);
            element_put(x, dtype, i, x0 - h);
            slope[k] = (up - loss(p)) / (2 * h);
        }
        element_put(x, dtype, i, x0);
        want = (4 * slope[1] - slope[0]) / 3;
        if (!(fabs(g - want) <= tolerance + dtype_unit(grad_dtype) * fabs(want)))
            fail_msg("%s[%d] = %.10g, not %.10g", what, (int)i, g, want);
    }
}

static void test_gradient(void **state)
{
    problem_case c = *(const problem_case *)*state;
    problem p;
    double lse_max = 0;
    int64_t n_bias;
    int64_t strides[3];
    void *o;
    c.q = c.kv = c.o = c.bias_t = ATTN_F64;
    p = problem_make(&c, 11);
    p.d.threads = 1;
    p.d.backend = "reference";
    problem_grad(&p, 11);
    assert_ok(attn_forward(&p.d));
    assert_ok(attn_backward(&p.d, &p.g));
    for (int64_t i = 0; i < c.b * c.h * c.sq; i++)
        if (!isinf(p.d.lse[i])) lse_max = fmax(lse_max, fabs((double)p.d.lse[i]));
    lse_max = 1e-6 * (1 + lse_max);
    o = p.d.o.data;                             /* the loss writes its o elsewhere */
    p.d.o.data = malloc((size_t)(c.b * c.sq * c.h * p.dv) * 8);
    differentiate(&p, "dq", p.d.q.data, ATTN_F64, p.g.dq.data, ATTN_F64, c.b * c.sq * c.h * c.d, lse_max);
    differentiate(&p, "dk", p.d.k.data, ATTN_F64, p.g.dk.data, ATTN_F64, c.b * c.sk * p.hk * c.d, lse_max);
    differentiate(&p, "dv", p.d.v.data, ATTN_F64, p.g.dv.data, ATTN_F64, c.b * c.sk * p.hk * p.dv, lse_max);
    if (c.bias) {
        n_bias = scores_strides(strides, &c, c.bias);
        differentiate(&p, "dbias", p.d.bias.data, ATTN_F64, p.g.dbias, ATTN_F32, n_bias, lse_max);
    }
    if (c.sink) differentiate(&p, "dsink", p.d.sink, ATTN_F32, p.g.dsink, ATTN_F32, c.h, lse_max);
    free(p.d.o.data);
    p.d.o.data = o;
    problem_free(&p);
}

/* ATTN_ACCUMULATE adds to what is there. */
static void test_accumulate(void **state)
{
    problem_case c = { .b = 2, .sq = 3, .sk = 4, .h = 4, .hk = 2, .d = 3, .dv = 2, .bias = HAS | ONE_BATCH, .sink = 1,
                       .q = ATTN_F64, .kv = ATTN_F64, .o = ATTN_F64 };
    problem p = problem_make(&c, 5);
    struct { void *data; int dtype; int64_t n; double first[512]; } out[5] = { { 0 } };
    int64_t strides[3];
    (void)state;
    problem_grad(&p, 5);
    assert_ok(attn_forward(&p.d));
    assert_ok(attn_backward(&p.d, &p.g));
    out[0].data = p.g.dq.data, out[0].dtype = ATTN_F64, out[0].n = 2 * 3 * 4 * 3;
    out[1].data = p.g.dk.data, out[1].dtype = ATTN_F64, out[1].n = 2 * 4 * 2 * 3;
    out[2].data = p.g.dv.data, out[2].dtype = ATTN_F64, out[2].n = 2 * 4 * 2 * 2;
    out[3].data = p.g.dbias, out[3].n = scores_strides(strides, &c, c.bias);
    out[4].data = p.g.dsink, out[4].n = 4;
    for (int k = 0; k < 5; k++)
        for (int64_t i = 0; i < out[k].n; i++) {
            out[k].first[i] = element_get(out[k].data, out[k].dtype, i);
            element_put(out[k].data, out[k].dtype, i, 100 + (double)i);
        }
    p.d.flags |= ATTN_ACCUMULATE;
    assert_ok(attn_backward(&p.d, &p.g));
    for (int k = 0; k < 5; k++)
        for (int64_t i = 0; i < out[k].n; i++) {
            double got = element_get(out[k].data, out[k].dtype, i), want = 100 + (double)i + out[k].first[i];
            if (!(fabs(got - want) <= dtype_unit(out[k].dtype) * 256)) fail_msg("output %d [%d]: %.9g, not %.9g", k, (int)i, got, want);
        }
    problem_free(&p);
}

/* ------------------------------------------------------------------------------------------ identities */
static const problem_case identity_case = { .b = 2, .sq = 5, .sk = 7, .h = 4, .hk = 2, .d = 3, .dv = 2, .q = ATTN_F64,
                                            .kv = ATTN_F64, .o = ATTN_F64, .bias_t = ATTN_F64 };

static void *copy(const void *p, int64_t bytes)
{
    void *c = malloc((size_t)bytes);
    memcpy(c, p, (size_t)bytes);
    return c;
}

static void assert_near(const double *a, const double *b, int64_t n, double tolerance)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(a[i] - b[i]) <= tolerance * (1 + fabs(b[i])))) fail_msg("[%d]: %.17g, not %.17g", (int)i, a[i], b[i]);
}

static void test_permuted_keys(void **state)
{
    static const int order[7] = { 3, 6, 0, 5, 1, 4, 2 };
    problem p = problem_make(&identity_case, 21);
    int64_t n = 2 * 5 * 4 * 2;
    double *o, *k = copy(p.d.k.data, 2 * 7 * 2 * 3 * 8), *v = copy(p.d.v.data, 2 * 7 * 2 * 2 * 8);
    (void)state;
    assert_ok(attn_forward(&p.d));
    o = copy(p.d.o.data, n * 8);
    for (int b = 0; b < 2; b++)
        for (int j = 0; j < 7; j++) {
            memcpy((double *)(uintptr_t)p.d.k.data + (b * 7 + j) * 6, k + (b * 7 + order[j]) * 6, 6 * 8);
            memcpy((double *)(uintptr_t)p.d.v.data + (b * 7 + j) * 4, v + (b * 7 + order[j]) * 4, 4 * 8);
        }
    assert_ok(attn_forward(&p.d));
    assert_near(p.d.o.data, o, n, 1e-14);
    free(o);
    free(k);
    free(v);
    problem_free(&p);
}

/* Negative strides walk the keys backwards: the same as the keys reversed in memory, bit for bit. */
static void test_negative_strides(void **state)
{
    problem p = problem_make(&identity_case, 22);
    int64_t n = 2 * 5 * 4 * 2;
    double *o, *k = copy(p.d.k.data, 2 * 7 * 2 * 3 * 8), *v = copy(p.d.v.data, 2 * 7 * 2 * 2 * 8);
    const void *k_data = p.d.k.data, *v_data = p.d.v.data;
    (void)state;
    for (int b = 0; b < 2; b++)
        for (int j = 0; j < 7; j++) {
            memcpy((double *)(uintptr_t)k_data + (b * 7 + j) * 6, k + (b * 7 + 6 - j) * 6, 6 * 8);
            memcpy((double *)(uintptr_t)v_data + (b * 7 + j) * 4, v + (b * 7 + 6 - j) * 4, 4 * 8);
        }
    assert_ok(attn_forward(&p.d));
    o = copy(p.d.o.data, n * 8);
    p.d.k.data = k + 6 * 6, p.d.v.data = v + 6 * 4;
    p.d.k.stride[1] = -6, p.d.v.stride[1] = -4;
    assert_ok(attn_forward(&p.d));
    assert_memory_equal(p.d.o.data, o, n * 8);
    free(o);
    free(k);
    free(v);
    problem_free(&p);
}

static void test_shifted_scores(void **state)
{
    problem_case c = identity_case;
    problem p;
    int64_t n = 2 * 5 * 4 * 2;
    double *o;
    float *lse;
    (void)state;
    c.bias = HAS;
    p = problem_make(&c, 23);
    assert_ok(attn_forward(&p.d));
    o = copy(p.d.o.data, n * 8);
    lse = copy(p.d.lse, 40 * 4);
    for (int64_t i = 0; i < 2 * 4 * 5 * 7; i++) ((double *)(uintptr_t)p.d.bias.data)[i] += 64;
    assert_ok(attn_forward(&p.d));
    assert_near(p.d.o.data, o, n, 1e-12);
    for (int i = 0; i < 40; i++) assert_true(fabsf(p.d.lse[i] - (lse[i] + 64)) < 1e-5f);
    free(o);
    free(lse);
    problem_free(&p);
}

/* Keys cut in three, one part empty, computed apart and merged; a sink counts once. */
static void test_split_and_merge(void **state)
{
    static const int64_t cut[4] = { 0, 3, 3, 7 };
    problem_case c = identity_case;
    problem p;
    double part[3][2 * 5 * 4 * 2], whole[2 * 5 * 4 * 2];
    float lse[3][40], whole_lse[40];
    attn_in o[3];
    const float *lses[3] = { lse[0], lse[1], lse[2] };
    (void)state;
    for (int sink = 0; sink < 2; sink++) {
        c.sink = sink;
        p = problem_make(&c, 24);
        assert_ok(attn_forward(&p.d));
        memcpy(whole, p.d.o.data, sizeof whole);
        memcpy(whole_lse, p.d.lse, sizeof whole_lse);
        memset(o, 0, sizeof o);
        for (int i = 0; i < 3; i++) {
            attn_desc d = p.d;
            d.kv_len = cut[i + 1] - cut[i];
            d.k.data = (const double *)d.k.data + cut[i] * 6;
            d.v.data = (const double *)d.v.data + cut[i] * 4;
            d.o.data = part[i];
            d.lse = lse[i];
            d.sink = NULL;
            assert_ok(attn_forward(&d));
            o[i].data = part[i];
            o[i].dtype = ATTN_F64;
        }
        assert_ok(attn_merge(&p.d, 3, o, lses));
        assert_near(p.d.o.data, whole, COUNT(whole), 1e-6);
        for (int i = 0; i < 40; i++) assert_true(fabsf(p.d.lse[i] - whole_lse[i]) < 1e-6f * (1 + fabsf(whole_lse[i])));
        problem_free(&p);
    }
}

/* No parts: an empty row. */
static void test_merge_nothing(void **state)
{
    problem p = problem_make(&identity_case, 25);
    (void)state;
    assert_ok(attn_merge(&p.d, 0, NULL, NULL));
    for (int i = 0; i < 80; i++) assert_true(element_get(p.d.o.data, ATTN_F64, i) == 0);
    for (int i = 0; i < 40; i++) assert_true(isinf(p.d.lse[i]) && p.d.lse[i] < 0);
    problem_free(&p);
}

/* A window or a causal edge is the boolean mask of the same keys, bit for bit, forward and backward. */
static void test_window_is_mask(void **state)
{
    static const struct { uint32_t flags; int64_t offset, left, right; } windows[] = {
        { ATTN_CAUSAL, 0, 0, 0 }, { ATTN_CAUSAL | ATTN_WINDOW_LEFT, 0, 2, 0 }, { ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, 0, 1, 0 },
        { ATTN_WINDOW_RIGHT | ATTN_TOP_LEFT, 0, 0, 3 }, { ATTN_WINDOW_LEFT | ATTN_CAUSAL | ATTN_OFFSET, -1, 0, 0 },
    };
    (void)state;
    for (int64_t w = 0; w < COUNT(windows); w++) {
        problem_case c = identity_case;
        problem p;
        unsigned char mask[5 * 7];
        double *o, *dq, *dk;
        c.flags = windows[w].flags, c.offset = windows[w].offset, c.left = windows[w].left, c.right = windows[w].right;
        p = problem_make(&c, 26);
        problem_grad(&p, 26);
        assert_ok(attn_forward(&p.d));
        assert_ok(attn_backward(&p.d, &p.g));
        o = copy(p.d.o.data, 80 * 8);
        dq = copy(p.g.dq.data, 120 * 8);
        dk = copy(p.g.dk.data, 84 * 8);
        for (int64_t i = 0; i < 5; i++)
            for (int64_t j = 0; j < 7; j++) {
                int64_t x = i + (c.flags & ATTN_TOP_LEFT ? 0 : c.flags & ATTN_OFFSET ? c.offset : 2);
                int seen_ = 1;
                if (c.flags & ATTN_CAUSAL && j > x) seen_ = 0;
                if (c.flags & ATTN_WINDOW_LEFT && j < x - c.left) seen_ = 0;
                if (c.flags & ATTN_WINDOW_RIGHT && j > x + c.right) seen_ = 0;
                mask[i * 7 + j] = (unsigned char)(seen_ * 0x80);
            }
        p.d.flags = 0, p.d.offset = p.d.window_left = p.d.window_right = 0;
        p.d.mask.data = mask;
        p.d.mask.dtype = ATTN_BOOL;
        p.d.mask.stride[0] = p.d.mask.stride[1] = ATTN_BROADCAST, p.d.mask.stride[2] = 7;
        assert_ok(attn_forward(&p.d));
        assert_ok(attn_backward(&p.d, &p.g));
        assert_memory_equal(p.d.o.data, o, 80 * 8);
        assert_memory_equal(p.g.dq.data, dq, 120 * 8);
        assert_memory_equal(p.g.dk.data, dk, 84 * 8);
        free(o);
        free(dq);
        free(dk);
        problem_free(&p);
    }
}

/* Grouped heads are the same as key/value heads repeated: o bit for bit, dk as the sum over the group. */
static void test_gqa_is_repeated(void **state)
{
    problem p = problem_make(&identity_case, 27);
    double k[2][7][4][3], v[2][7][4][2], dk[2][7][4][3], dv[2][7][4][2], *o, *dq;
    (void)state;
    problem_grad(&p, 27);
    assert_ok(attn_forward(&p.d));
    assert_ok(attn_backward(&p.d, &p.g));
    o = copy(p.d.o.data, 80 * 8);
    dq = copy(p.g.dq.data, 120 * 8);
    for (int i = 0; i < 14; i++)
        for (int h = 0; h < 4; h++) {
            memcpy(k[i / 7][i % 7][h], (const double *)p.d.k.data + (i * 2 + h / 2) * 3, 24);
            memcpy(v[i / 7][i % 7][h], (const double *)p.d.v.data + (i * 2 + h / 2) * 2, 16);
        }
    {
        attn_desc d = p.d;
        attn_grad g = p.g;
        d.kv_heads = 4;
        d.k.data = k, d.v.data = v, g.dk.data = dk, g.dv.data = dv;
        dense(d.k.stride, ATTN_BSHD, 7, 4, 3), dense(g.dk.stride, ATTN_BSHD, 7, 4, 3);
        dense(d.v.stride, ATTN_BSHD, 7, 4, 2), dense(g.dv.stride, ATTN_BSHD, 7, 4, 2);
        assert_ok(attn_forward(&d));
        assert_ok(attn_backward(&d, &g));
        assert_memory_equal(d.o.data, o, 80 * 8);
        assert_memory_equal(g.dq.data, dq, 120 * 8);
    }
    for (int i = 0; i < 14; i++)
        for (int h = 0; h < 2; h++) {
            const double *a = dk[i / 7][i % 7][2 * h], *b = dk[i / 7][i % 7][2 * h + 1];
            for (int c = 0; c < 3; c++)
                assert_true(fabs(((double *)p.g.dk.data)[(i * 2 + h) * 3 + c] - (a[c] + b[c])) < 1e-12);
        }
    free(o);
    free(dq);
    problem_free(&p);
}

/* The layout changes addresses only; strides of 0 mean dense in the stated layout. */
static void test_bhsd_is_bshd(void **state)
{
    problem_case c = identity_case;
    problem p = problem_make(&c, 28), t;
    (void)state;
    c.layout = ATTN_BHSD;
    t = problem_make(&c, 28);
    for (int b = 0; b < 2; b++)
        for (int h = 0; h < 4; h++) {
            for (int i = 0; i < 5; i++)
                memcpy((double *)(uintptr_t)t.d.q.data + ((b * 4 + h) * 5 + i) * 3,
                       (const double *)p.d.q.data + ((b * 5 + i) * 4 + h) * 3, 24);
            for (int j = 0; j < 7 && h < 2; j++) {
                memcpy((double *)(uintptr_t)t.d.k.data + ((b * 2 + h) * 7 + j) * 3,
                       (const double *)p.d.k.data + ((b * 7 + j) * 2 + h) * 3, 24);
                memcpy((double *)(uintptr_t)t.d.v.data + ((b * 2 + h) * 7 + j) * 2,
                       (const double *)p.d.v.data + ((b * 7 + j) * 2 + h) * 2, 16);
            }
        }
    assert_ok(attn_forward(&p.d));
    for (int zero = 0; zero < 2; zero++) {
        if (zero)
            for (int i = 0; i < 3; i++) t.d.q.stride[i] = t.d.k.stride[i] = t.d.v.stride[i] = t.d.o.stride[i] = 0;
        memset(t.d.o.data, 0, 80 * 8);
        assert_ok(attn_forward(&t.d));
        for (int b = 0; b < 2; b++)
            for (int h = 0; h < 4; h++)
                for (int i = 0; i < 5; i++)
                    assert_memory_equal((double *)t.d.o.data + ((b * 4 + h) * 5 + i) * 2,
                                        (double *)p.d.o.data + ((b * 5 + i) * 4 + h) * 2, 16);
        assert_memory_equal(t.d.lse, p.d.lse, 40 * 4);
    }
    problem_free(&p);
    problem_free(&t);
}

/* Every mix of input dtypes computes on the values: as f64 tensors of the same values, bit for bit; o rounds once. */
static void test_mixed_dtypes(void **state)
{
    static const int types[4] = { ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64 };
    (void)state;
    for (int i = 0; i < 64; i++) {
        problem_case c = identity_case;
        problem p, wide;
        double want[80];
        c.q = types[i % 4], c.kv = types[i / 4 % 4], c.bias_t = types[i / 16], c.bias = HAS | ONE_BATCH;
        p = problem_make(&c, 29);
        c.q = c.kv = c.bias_t = ATTN_F64;
        wide = problem_make(&c, 29);
        p.d.backend = wide.d.backend = "reference";
        for (int j = 0; j < 120; j++) element_put((void *)(uintptr_t)wide.d.q.data, ATTN_F64, j, element_get(p.d.q.data, p.d.q.dtype, j));
        for (int j = 0; j < 84; j++) element_put((void *)(uintptr_t)wide.d.k.data, ATTN_F64, j, element_get(p.d.k.data, p.d.k.dtype, j));
        for (int j = 0; j < 56; j++) element_put((void *)(uintptr_t)wide.d.v.data, ATTN_F64, j, element_get(p.d.v.data, p.d.v.dtype, j));
        for (int j = 0; j < 140; j++)
            element_put((void *)(uintptr_t)wide.d.bias.data, ATTN_F64, j, element_get(p.d.bias.data, p.d.bias.dtype, j));
        assert_ok(attn_forward(&wide.d));
        assert_ok(attn_forward(&p.d));
        assert_memory_equal(p.d.o.data, wide.d.o.data, 80 * 8);
        memcpy(want, wide.d.o.data, sizeof want);
        for (int t = 0; t < 3; t++) {
            wide.d.o.dtype = types[t];
            assert_ok(attn_forward(&wide.d));
            for (int j = 0; j < 80; j++) {
                double once;
                element_put(&once, types[t], 0, want[j]);
                assert_true(element_get(wide.d.o.data, types[t], j) == element_get(&once, types[t], 0));
            }
        }
        problem_free(&p);
        problem_free(&wide);
    }
}

/* A stride of ATTN_BROADCAST reads one key and value for the whole batch. */
static void test_broadcast_batch(void **state)
{
    problem p = problem_make(&identity_case, 30);
    double *o;
    (void)state;
    memcpy((double *)(uintptr_t)p.d.k.data + 42, p.d.k.data, 42 * 8);
    memcpy((double *)(uintptr_t)p.d.v.data + 28, p.d.v.data, 28 * 8);
    assert_ok(attn_forward(&p.d));
    o = copy(p.d.o.data, 80 * 8);
    p.d.k.stride[0] = p.d.v.stride[0] = ATTN_BROADCAST;
    assert_ok(attn_forward(&p.d));
    assert_memory_equal(p.d.o.data, o, 80 * 8);
    free(o);
    problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads_by_hand), cmocka_unit_test(test_gradient_by_hand), cmocka_unit_test(test_empty),
        cmocka_unit_test(test_bounds), cmocka_unit_test(test_softcap_digits),
        cmocka_unit_test(test_accumulate), cmocka_unit_test(test_permuted_keys), cmocka_unit_test(test_negative_strides),
        cmocka_unit_test(test_shifted_scores), cmocka_unit_test(test_split_and_merge), cmocka_unit_test(test_merge_nothing),
        cmocka_unit_test(test_window_is_mask), cmocka_unit_test(test_gqa_is_repeated), cmocka_unit_test(test_bhsd_is_bshd),
        cmocka_unit_test(test_mixed_dtypes), cmocka_unit_test(test_broadcast_batch),
    };
    return RUN_ROWS(seen_rows, test_seen) + RUN_ROWS(hand_rows, test_by_hand) + RUN_ROWS(gradient_rows, test_gradient)
         + cmocka_run_group_tests_name("identities", tests, NULL, NULL);
}
