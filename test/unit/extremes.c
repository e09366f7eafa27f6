/* extremes.c - scores, sinks and lengths at the ends of f32's range, and values that are not finite, forward and backward, on
 * every backend: what they spoil, and what they must not. */
#include "unit.h"
#include <float.h>

static const char *const fast[] = { "flash", "standard" };

/* ------------------------------------------------------------------------------------------ helpers */
/* [b][s][h][d] f32 problem of the case, with every gradient */
static problem make(const problem_case *c, uint64_t seed)
{
    problem p = problem_make(c, seed);
    problem_grad(&p, seed);
    return p;
}

static void forward(problem *p, const char *backend)
{
    p->d.backend = backend;
    assert_ok(attn_forward(&p->d));
}

/* the bias of one row of all batch entries and heads, where it is not broadcast over queries */
static void set_bias(problem *p, int64_t i, float x)
{
    float *bias = (float *)(uintptr_t)p->d.bias.data;
    for (int64_t j = 0; j < p->d.kv_len; j++) bias[i * p->d.kv_len + j] = x;
}

enum { DQ, DK, DV, DBIAS, DSINK, GRADS };
static const char *const grad_name[] = { "dq", "dk", "dv", "dbias", "dsink" };

typedef struct gradients { double *x[GRADS]; int64_t n[GRADS]; } gradients;

/* dense shapes, bias [1][1][q][k] */
static gradients grads_make(const problem *p)
{
    const attn_desc *d = &p->d;
    gradients g = { { NULL }, { d->batch * d->q_len * d->heads * d->head_dim, d->batch * d->kv_len * p->hk * d->head_dim,
                                d->batch * d->kv_len * p->hk * p->dv, d->q_len * d->kv_len, d->heads } };
    for (int i = 0; i < GRADS; i++) g.x[i] = calloc((size_t)g.n[i] + 1, sizeof(double));
    return g;
}
static void grads_free(gradients *g) { for (int i = 0; i < GRADS; i++) free(g->x[i]); }

static void grads_run(problem *p, const char *backend, gradients *g)
{
    const void *from[GRADS] = { p->g.dq.data, p->g.dk.data, p->g.dv.data, p->g.dbias, p->g.dsink };
    p->d.backend = backend;
    assert_ok(attn_backward(&p->d, &p->g));
    for (int i = 0; i < GRADS; i++)
        for (int64_t n = 0; from[i] && n < g->n[i]; n++) g->x[i][n] = (double)((const float *)from[i])[n];
}

static float bias_of(const attn_desc *d, int64_t i, int64_t j)
{
    return d->bias.data ? ((const float *)d->bias.data)[i * d->kv_len + j] : 0;
}
static int sees(const attn_desc *d, int64_t i, int64_t j)
{
    if ((d->flags & ATTN_CAUSAL) && j > i + d->kv_len - d->q_len) return 0;
    return bias_of(d, i, j) != -INFINITY;
}

/* the two-pass loops of a textbook in f32, with p = exp(min(s - lse, 0)); one batch entry, one head */
static void naive(const problem *p, gradients *g)
{
    const attn_desc *d = &p->d;
    const float *q = d->q.data, *k = d->k.data, *v = d->v.data, *o = d->o.data, *dout = p->g.dout.data;
    const int64_t D = d->head_dim, E = p->dv;
    const float scale = (float)(1 / sqrt((double)D));
    for (int i = 0; i < GRADS; i++) memset(g->x[i], 0, (size_t)g->n[i] * sizeof(double));
    for (int64_t i = 0; i < d->q_len; i++) {
        float delta = -p->g.dlse[i];
        for (int64_t c = 0; c < E; c++) delta += dout[i * E + c] * o[i * E + c];
        if (d->sink && d->lse[i] > -INFINITY)
            g->x[DSINK][0] = (float)g->x[DSINK][0] - expf(fminf(d->sink[0] - d->lse[i], 0)) * delta;
        for (int64_t j = 0; j < d->kv_len; j++) {
            float s = 0, dp = 0, x, ds;
            if (!sees(d, i, j) || d->lse[i] == -INFINITY) continue;
            for (int64_t c = 0; c < D; c++) s += q[i * D + c] * k[j * D + c];
            for (int64_t c = 0; c < E; c++) dp += dout[i * E + c] * v[j * E + c];
            x = expf(fminf(s * scale + bias_of(d, i, j) - d->lse[i], 0));
            ds = x * (dp - delta);
            for (int64_t c = 0; c < D; c++) {
                g->x[DQ][i * D + c] = (float)g->x[DQ][i * D + c] + ds * scale * k[j * D + c];
                g->x[DK][j * D + c] = (float)g->x[DK][j * D + c] + ds * scale * q[i * D + c];
            }
            for (int64_t c = 0; c < E; c++) g->x[DV][j * E + c] = (float)g->x[DV][j * E + c] + x * dout[i * E + c];
            g->x[DBIAS][i * d->kv_len + j] = ds;
        }
    }
}

/* Every element within 4 x the worst error of the naive loops, in units of the largest gradient of its kind. */
static void assert_gradients(problem *p, const char *backend)
{
    gradients exact = grads_make(p), loops = grads_make(p), got = grads_make(p);
    char text[200] = "";
    grads_run(p, "reference", &exact);
    naive(p, &loops);
    grads_run(p, backend, &got);
    for (int i = 0; i < GRADS; i++) {
        double worst = 0x1p-22, top = 0;
        for (int64_t n = 0; n < got.n[i]; n++) {
            worst = fmax(worst, fabs(loops.x[i][n] - exact.x[i][n]));
            top = fmax(top, fabs(exact.x[i][n]));
        }
        for (int64_t n = 0; n < got.n[i]; n++)
            if (!(fabs(got.x[i][n] - exact.x[i][n]) <= 4 * worst + 0x1p-22 * top))
                snprintf(text, sizeof text, "%s: %s[%d] = %.9g, not %.9g +- %.3g", backend, grad_name[i], (int)n, got.x[i][n],
                         exact.x[i][n], 4 * worst);
    }
    grads_free(&exact), grads_free(&loops), grads_free(&got);
    if (*text) fail_msg("%s", text);
}

static void assert_forward_and_backward(problem *p)
{
    for (int64_t i = 0; i < COUNT(fast); i++) {
        forward(p, fast[i]);
        assert_as_reference(p, 0);
        forward(p, "reference");
        assert_gradients(p, fast[i]);
    }
}

/* ------------------------------------------------------------------------------------------ huge biases and sinks */
static const float huge[] = { -1e9f, -1e20f, -2e38f, -2.4e38f, -3e38f, -FLT_MAX, 1e9f, 1e20f, 2.4e38f, 3e38f, FLT_MAX };

/* rows of which every key has the same huge bias, as additive padding masks have it, between ordinary ones */
static void test_huge_bias(void **state)
{
    static const problem_case c = { "", 1, 7, 300, 1, 0, 8, 0, .bias = HAS | ONE_BATCH | ONE_HEAD };
    (void)state;
    for (int64_t n = 0; n < COUNT(huge); n++)
        for (int causal = 0; causal < 2; causal++) {
            problem p = make(&c, (uint64_t)n);
            p.d.flags = causal ? ATTN_CAUSAL : 0;
            set_bias(&p, 1, huge[n]), set_bias(&p, 3, huge[n]), set_bias(&p, 6, huge[n]);
            assert_forward_and_backward(&p);
            problem_free(&p);
        }
}

/* two huge biases in a row: the larger one takes it all; and sums with ALiBi beyond f32's range */
static void test_two_biases(void **state)
{
    static const problem_case c = { "", 1, 7, 300, 1, 0, 8, 0, .bias = HAS | ONE_BATCH | ONE_HEAD };
    (void)state;
    for (int64_t n = 0; n < COUNT(huge); n++)
        for (int64_t m = 0; m < COUNT(huge); m++) {
            problem p = make(&c, (uint64_t)n);
            float *bias = (float *)(uintptr_t)p.d.bias.data;
            for (int64_t j = 0; j < p.d.kv_len; j++) bias[3 * p.d.kv_len + j] = j % 7 ? huge[n] : huge[m];
            assert_forward_and_backward(&p);
            problem_free(&p);
        }
    for (int64_t n = 0; n < COUNT(huge); n++) {
        problem p = make(&c, 1);
        const float slope = 1e36f;
        set_bias(&p, 2, huge[n]);
        p.d.alibi = &slope;
        for (int64_t i = 0; i < COUNT(fast); i++) {
            forward(&p, fast[i]);
            for (int64_t e = 0; e < p.d.q_len * p.dv; e++) assert_true(isfinite(((float *)p.d.o.data)[e]));
            for (int64_t r = 0; r < p.d.q_len; r++) assert_true(isfinite(p.d.lse[r]));
        }
        problem_free(&p);
    }
    /* every key is hundreds away: the score that is highest lies beyond f32, and lse at its end */
    problem p = make(&c, 1);
    const float slope = 1e35f;
    set_bias(&p, 2, -FLT_MAX);
    p.d.alibi = &slope, p.d.flags |= ATTN_OFFSET, p.d.offset = 1000;
    for (int64_t i = 0; i < COUNT(fast); i++) {
        forward(&p, fast[i]);
        assert_true(p.d.lse[2] == -FLT_MAX);
        for (int64_t e = 0; e < p.d.q_len * p.dv; e++) assert_true(isfinite(((float *)p.d.o.data)[e]));
    }
    problem_free(&p);
}

/* large scores from q and k alone */
static void test_huge_products(void **state)
{
    static const double amplitude[] = { 1e3, 1e5, 1e10, 1e15, 1e18 };
    (void)state;
    for (int64_t n = 0; n < COUNT(amplitude); n++)
        for (int extras = 0; extras < 2; extras++) {
            const problem_case c = { "", 1, 7, 300, 1, 0, 8, 0, .amplitude = amplitude[n],
                                     .bias = extras ? HAS | ONE_BATCH | ONE_HEAD : 0 };
            problem p = problem_make(&c, (uint64_t)n);
            for (int64_t i = 0; i < COUNT(fast); i++) {
                forward(&p, fast[i]);
                assert_as_reference(&p, 0);
            }
            problem_free(&p);
        }
}

static void test_huge_sink(void **state)
{
    static const problem_case c = { "", 1, 7, 300, 1, 0, 8, 0, .sink = 1, .bias = HAS | ONE_BATCH | ONE_HEAD };
    (void)state;
    for (int64_t n = 0; n < COUNT(huge); n++) {
        problem p = make(&c, (uint64_t)n);
        *(float *)(uintptr_t)p.d.sink = huge[n];
        set_bias(&p, 2, -INFINITY);                     /* sees nothing: lse is the sink */
        set_bias(&p, 4, huge[(n + 3) % COUNT(huge)]);
        assert_forward_and_backward(&p);
        for (int64_t i = 0; i < COUNT(fast); i++) {
            forward(&p, fast[i]);
            assert_true(p.d.lse[2] == huge[n]);
        }
        problem_free(&p);
    }
}

/* parts of which one has a lse at the end of the range */
static void test_huge_merge(void **state)
{
    (void)state;
    for (int64_t n = 0; n < COUNT(huge); n++) {
        const float one = 1, three = 3, a = huge[n], b = huge[n], tiny = -INFINITY;
        const float *lse[] = { &a, &b, &tiny };
        float o = -1, l = -1;
        attn_in parts[3] = { { .data = &one }, { .data = &three }, { .data = &one } };
        attn_desc d = { 0 };
        d.batch = d.q_len = d.heads = d.head_dim = 1, d.o.data = &o, d.lse = &l;
        assert_ok(attn_merge(&d, 3, parts, lse));
        assert_true(o == 2);
        assert_true(fabsf(l - a) <= 1 + 0x1p-22f * fabsf(a));
        d.sink = &a;
        assert_ok(attn_merge(&d, 2, parts, lse));
        assert_true(fabsf(o - 4.0f / 3) < 1e-6f);
    }
}

/* Scores that f32 has exactly, of any size: from them the lse is subtracted before anything is rounded. An lse that is too small, by
 * rounding or as of another call, makes no p above 1. */
static void test_exact_scores(void **state)
{
    enum { KEYS = 40, ROWS = 12, DIM = 4, ALL = KEYS * DIM };
    static const char *const backends[] = { "reference", "flash", "standard" };
    static const float sizes[] = { 1, 60, 1000, 16000, -16000, 100000, -100000, 1048576 };
    static float q[ROWS * DIM], k[ALL], v[ALL], dout[ROWS * DIM], o[ROWS * DIM], lse[ROWS], grads[2][3][ALL];
    uint64_t r = 79;
    (void)state;
    for (int n = 0; n < 2 * COUNT(sizes); n++) {
        const float size = sizes[n / 2];
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        for (int i = 0; i < ALL; i++) v[i] = (float)random_gauss(&r), k[i] = i % DIM == 0 ? size : i % DIM == 1 ? (float)(i / DIM % 7) : 0;
        for (int i = 0; i < ROWS * DIM; i++) dout[i] = (float)random_gauss(&r), q[i] = i % DIM == 0 ? 1 : i % DIM == 1 ? (float)(i / DIM % 5) * 0.5f : 0;
        d.batch = d.heads = 1, d.q_len = ROWS, d.kv_len = KEYS, d.head_dim = DIM, d.scale = 1, d.flags = ATTN_SCALE | (n % 4 > 1 ? ATTN_CAUSAL : 0);
        d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o, d.lse = lse, d.threads = 1;
        for (int b = 0; b < 3; b++) {
            float (*to)[ALL] = grads[b > 0];
            d.backend = backends[b], g.dout.data = dout, g.dq.data = to[0], g.dk.data = to[1], g.dv.data = to[2];
            if (b == 0) {
                assert_ok(attn_forward(&d));
                for (int i = 0; i < ROWS && n % 2; i++) lse[i] -= 3;
            }
            assert_ok(attn_backward(&d, &g));
            for (int t = 0; t < 3; t++)
                for (int i = 0; i < (t ? KEYS : ROWS) * DIM; i++) {
                    const double want = (double)grads[0][t][i], off = fabs((double)to[t][i] - want);
                    if (!(off <= 4e-6 * (t == 0 && i % DIM == 0 ? fabs((double)size) + 1 : 1) * (n % 2 ? 20 : 1)))
                        fail_msg("%s, scores of %g%s: gradient %d[%d] is %g, not %g", d.backend, (double)size, n % 2 ? ", lse too small" : "", t, i, (double)to[t][i], want);
                }
        }
    }
}
/* Gradients that f32 holds, of a scale and of q and k that together are ordinary: dS is scaled before it is multiplied by either. */
static void test_scales_apart(void **state)
{
    enum { KEYS = 24, ROWS = 10, DIM = 8, ALL = KEYS * DIM };
    static const char *const backends[] = { "reference", "flash", "standard" };
    static const struct { float scale, q, k; } cases[] = { { 1e-27f, 1e37f, 1e-10f }, { 1e-27f, 1e-10f, 1e37f }, { 1e-20f, 1e33f, 1e-13f }, { 1e-20f, 1e-13f, 1e33f } };
    static float q[ROWS * DIM], k[ALL], v[ALL], dout[ROWS * DIM], o[ROWS * DIM], lse[ROWS], grads[2][3][ALL];
    uint64_t r = 80;
    (void)state;
    for (int n = 0; n < 4; n++) {
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        for (int i = 0; i < ALL; i++) v[i] = (float)random_gauss(&r), k[i] = (float)(0.3 * random_gauss(&r)) * cases[n].k;
        for (int i = 0; i < ROWS * DIM; i++) dout[i] = (float)random_gauss(&r), q[i] = (float)(0.3 * random_gauss(&r)) * cases[n].q;
        d.batch = d.heads = 1, d.q_len = ROWS, d.kv_len = KEYS, d.head_dim = DIM, d.scale = cases[n].scale, d.flags = ATTN_SCALE;
        d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o, d.lse = lse, d.threads = 1;
        for (int b = 0; b < 3; b++) {
            float (*to)[ALL] = grads[b > 0];
            d.backend = backends[b], g.dout.data = dout, g.dq.data = to[0], g.dk.data = to[1], g.dv.data = to[2];
            if (b == 0) assert_ok(attn_forward(&d));
            assert_ok(attn_backward(&d, &g));
            for (int t = 0; t < 3; t++) {
                double most = 0;
                for (int i = 0; i < (t ? KEYS : ROWS) * DIM; i++) most = fmax(most, fabs((double)grads[0][t][i]));
                for (int i = 0; i < (t ? KEYS : ROWS) * DIM; i++) {
                    const double want = (double)grads[0][t][i];
                    if (most > 1e-30 && !(fabs((double)to[t][i] - want) <= 1e-5 * most))
                        fail_msg("%s, scale %g, q %g, k %g: gradient %d[%d] is %g, not %g", d.backend, (double)cases[n].scale, (double)cases[n].q, (double)cases[n].k, t, i, (double)to[t][i], want);
                }
            }
        }
    }
}

/* Scores beyond 2^16 of which quarters tell the weights: of each the difference to the largest is exact, and its exp as near as ever. */
static void test_steps_of_huge_scores(void **state)
{
    enum { KEYS = 8, DIM = 2 };
    const float q[DIM] = { 1000, 1 };
    float k[KEYS * DIM], v[KEYS];
    double want = 0, sum = 0;
    (void)state;
    for (int j = 0; j < KEYS; j++) {
        k[j * DIM] = 100, k[j * DIM + 1] = 0.25f * (float)j, v[j] = (float)j;
        want += j * exp(0.25 * j), sum += exp(0.25 * j);
    }
    for (int64_t b = 0; b < COUNT(fast); b++) {
        float o = -1;
        attn_desc d = { 0 };
        d.batch = d.heads = d.q_len = d.v_dim = 1, d.kv_len = KEYS, d.head_dim = DIM, d.flags = ATTN_SCALE, d.scale = 1, d.backend = fast[b];
        d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = &o;
        assert_ok(attn_forward(&d));
        if (!(fabs((double)o - want / sum) <= 1e-3)) fail_msg("%s: o is %.9g, not %.9g", fast[b], (double)o, want / sum);
    }
}

/* ------------------------------------------------------------------------------------------ windows without end */
static int64_t saturated(int64_t a, int64_t b)
{
    if (b > 0 && a > INT64_MAX - b) return INT64_MAX;
    if (b < 0 && a < INT64_MIN - b) return INT64_MIN;
    return a + b;
}

static int saturated_sees(int64_t i, int64_t j, int64_t offset, int64_t left, int64_t right)
{
    const int64_t top = saturated(i, offset);
    return j >= saturated(top, -left) && j <= saturated(top, right);
}

static void test_far_windows(void **state)
{
    enum { Q = 5, K = 9 };
    static const int64_t far[] = { 0, 2, INT64_C(1) << 61, (INT64_C(1) << 62) - 1, INT64_C(1) << 62, (INT64_C(1) << 62) + 3,
                                   INT64_MAX - 3, INT64_MAX };
    static const char *const all[] = { "reference", "flash", "standard" };
    float zero[K] = { 0 }, v[K], o[Q], lse[Q];
    (void)state;
    for (int64_t j = 0; j < K; j++) v[j] = (float)j;
    for (int64_t a = 0; a < COUNT(far); a++)
    for (int64_t l = 0; l < COUNT(far); l++)
    for (int64_t r = 0; r < COUNT(far); r++)
    for (int sign = -1; sign < 2; sign += 2)
    for (int64_t n = 0; n < COUNT(all); n++) {
        attn_desc d = { 0 };
        d.batch = d.heads = d.head_dim = 1, d.q_len = Q, d.kv_len = K, d.backend = all[n];
        d.q.data = d.k.data = zero, d.v.data = v, d.o.data = o, d.lse = lse;
        d.flags = ATTN_OFFSET | ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT;
        d.offset = sign * far[a], d.window_left = far[l], d.window_right = far[r];
        assert_ok(attn_forward(&d));
        for (int64_t i = 0; i < Q; i++) {
            double sum = 0, count = 0;
            for (int64_t j = 0; j < K; j++)
                if (saturated_sees(i, j, d.offset, d.window_left, d.window_right)) sum += (double)j, count++;
            if (count > 0 ? !(fabs((double)o[i] - sum / count) < 1e-5) : o[i] != 0 || lse[i] != -INFINITY)
                fail_msg("%s: offset %lld, window %lld, %lld: o[%d] = %g, not %g", all[n], (long long)d.offset,
                         (long long)d.window_left, (long long)d.window_right, (int)i, (double)o[i], sum / count);
        }
    }
}

/* Products of a head_dim of any size: the sums of few dims are added in two steps more. */
static void test_very_many_dims(void **state)
{
    enum { MOST = 131072, ROWS = 40 };
    static const int64_t dims[] = { 4096, 4100, 16384, MOST }, rows[] = { 1, 4, ROWS };
    static const char *const names[] = { "flash", "standard" };
    float *q = malloc((size_t)(ROWS * MOST) * 4), *k = malloc((size_t)(ROWS * MOST) * 4), v[ROWS], o[ROWS], want[ROWS], lse[2][ROWS], g[4][ROWS], *dq[2];
    (void)state;
    dq[0] = malloc((size_t)(ROWS * MOST) * 4), dq[1] = malloc((size_t)(ROWS * MOST) * 4);
    for (int64_t n = 0; n < COUNT(dims) - (SLOW ? 1 : 0); n++)
        for (int64_t r = 0; r < COUNT(rows); r++)
            for (int64_t keys = 1; keys <= ROWS; keys += ROWS - 1) {
                attn_desc d = { 0 };
                for (int64_t i = 0; i < ROWS * dims[n]; i++) q[i] = 0.7f, k[i] = i / dims[n] % 2 ? 0.69f : 0.7f;
                for (int i = 0; i < ROWS; i++) v[i] = i % 2 ? -1.0f : 1.0f;
                d.batch = d.heads = 1, d.q_len = rows[r], d.kv_len = keys, d.head_dim = dims[n], d.v_dim = 1, d.flags = ATTN_SCALE, d.scale = 128.0f / (float)dims[n];
                d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = want, d.lse = lse[0], d.backend = "reference";
                assert_ok(attn_forward(&d));
                for (int b = 0; b < 2; b++) {
                    d.o.data = o, d.lse = lse[1], d.backend = names[b];
                    assert_ok(attn_forward(&d));
                    const double e = 2 * 63 + 4;
                    for (int64_t i = 0; i < rows[r]; i++)
                        if (!(fabs((double)lse[1][i] - (double)lse[0][i]) <= 8 * 0x1p-24 * (e + 66)) || !(fabs((double)o[i] - (double)want[i]) <= 8 * 0x1p-24 * 2 * e))
                            fail_msg("%s, %lld dims, %lld rows, %lld keys: lse %.9g, not %.9g; o %.9g, not %.9g", names[b], (long long)dims[n], (long long)rows[r],
                                     (long long)keys, (double)lse[1][i], (double)lse[0][i], (double)o[i], (double)want[i]);
                }
                if (r != 1 || keys == 1) continue;
                for (int b = 0; b < 2; b++) {            /* the same products in the backward */
                    attn_grad x = { 0 };
                    d.backend = b ? "flash" : "reference", d.o.data = want, d.lse = lse[0];
                    x.dout.data = v, x.dq.data = dq[b], x.dk.data = k + 0, x.dv.data = g[b];
                    x.dk.data = malloc((size_t)(ROWS * dims[n]) * 4);
                    assert_ok(attn_backward(&d, &x));
                    free(x.dk.data);
                }
                for (int64_t i = 0; i < keys; i++) if (!(fabsf(g[1][i] - g[0][i]) <= 1e-4f * fabsf(g[0][i]) + 1e-6f)) fail_msg("%lld dims: dv %g, not %g", (long long)dims[n], (double)g[1][i], (double)g[0][i]);
            }
    free(q), free(k), free(dq[0]), free(dq[1]);
}

/* Products of bf16 as it is, of more dims than are multiplied at a time: as those of the same numbers in f32. */
static void test_very_many_dims_of_bf16(void **state)
{
    enum { MOST = 16384, ROWS = 20 };
    static const int64_t dims[] = { 8192, MOST, 1026 };
    static uint16_t half[2][ROWS * MOST];
    static float wide[2][ROWS * MOST];
    float v[ROWS], o[2][ROWS], lse[2][ROWS];
    uint64_t random = 3;
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int64_t i = 0; i < ROWS * MOST; i++) element_put(half[t], ATTN_BF16, i, 1 + random_unit(&random)), wide[t][i] = (float)element_get(half[t], ATTN_BF16, i);
    for (int i = 0; i < ROWS; i++) v[i] = i % 3 ? -1.0f : 1.0f;
    for (int64_t n = 0; n < COUNT(dims); n++) {
        for (int b = 0; b < 2; b++) {
            attn_desc d = { 0 };
            d.batch = d.heads = 1, d.q_len = d.kv_len = ROWS, d.head_dim = dims[n], d.v_dim = 1, d.flags = ATTN_SCALE, d.scale = 4.0f / (float)dims[n], d.backend = "flash";
            d.q.data = b ? (void *)half[0] : (void *)wide[0], d.k.data = b ? (void *)half[1] : (void *)wide[1], d.q.dtype = d.k.dtype = b ? ATTN_BF16 : ATTN_F32;
            d.v.data = v, d.o.data = o[b], d.lse = lse[b];
            assert_ok(attn_forward(&d));
        }
        for (int i = 0; i < ROWS; i++)
            if (!(fabsf(o[1][i] - o[0][i]) <= 1e-4f && fabsf(lse[1][i] - lse[0][i]) <= 1e-4f))
                fail_msg("%lld dims: o %g, not %g; lse %g, not %g", (long long)dims[n], (double)o[1][i], (double)o[0][i], (double)lse[1][i], (double)lse[0][i]);
    }
}

/* scale over softcap is far below what f32 has, products are not: their scores are next to nothing, where tanh has a slope of 1. */
static void test_slope_of_tiny_scale(void **state)
{
    enum { KEYS = 3 };
    static const float k[KEYS] = { 0x1p50f, -0x1p50f, 0x1p49f }, v[KEYS] = { 1, 2, -1 }, q[2] = { 0x1p50f, -0x1p50f }, dout[2] = { 1, 0.5f };
    static const char *const all[] = { "reference", "flash", "standard" };
    static const float of[][2] = { { 0x1p-120f, 0x1p20f }, { 0x1p-110f, 0x1p90f } };     /* scale, softcap: far below, and farther */
    float o[2], lse[2], dq[3][2], dk[3][KEYS], dv[KEYS];
    (void)state;
    for (int n = 0; n < 6; n++) {
        const int b = n % 3;
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        d.batch = d.heads = d.head_dim = 1, d.q_len = 2, d.kv_len = KEYS, d.threads = 1, d.backend = all[b];
        d.flags = ATTN_SCALE, d.scale = of[n / 3][0], d.softcap = of[n / 3][1];
        d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o, d.lse = lse;
        g.dout.data = dout, g.dq.data = dq[b], g.dk.data = dk[b], g.dv.data = dv;
        assert_ok(attn_forward(&d));
        assert_ok(attn_backward(&d, &g));
        for (int i = 0; i < 2; i++) assert_true(fabsf(dq[b][i] - dq[0][i]) <= 1e-5f * fabsf(dq[0][i]) && fabsf(dq[b][i]) > 0x1p-75f);
        for (int j = 0; j < KEYS; j++) assert_true(fabsf(dk[b][j] - dk[0][j]) <= 1e-5f * fabsf(dk[0][j]));
    }
}

/* Where the softcap is saturated no gradient goes through it, however large q and k are. */
static void test_saturated_softcap(void **state)
{
    static const char *const names[] = { "flash", "standard" };
    static const float caps[] = { 30, 5, 1e-3f };
    (void)state;
    for (int n = 0; n < 6; n++) {
        float q[64], k[128], v[128], dout[64], o[64], lse[1], dq[64], dk[128], dv[128];
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        for (int i = 0; i < 64; i++) q[i] = 1e4f, k[i] = 1e4f, k[64 + i] = n < 3 ? 2e4f : -2e4f, v[i] = 1, v[64 + i] = -1, dout[i] = 1;
        d.batch = d.heads = d.q_len = 1, d.kv_len = 2, d.head_dim = 64, d.softcap = caps[n % 3];
        d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o, d.lse = lse;
        g.dout.data = dout, g.dq.data = dq, g.dk.data = dk, g.dv.data = dv;
        for (int b = 0; b < 2; b++) {
            d.backend = names[b];
            assert_ok(attn_forward(&d));
            if (n < 3) for (int i = 0; i < 64; i++) assert_true(o[i] == 0);      /* both are exactly the softcap */
            assert_ok(attn_backward(&d, &g));
            for (int i = 0; i < 128; i++) if (dk[i] != 0 || dq[i % 64] != 0) fail_msg("%s, softcap %g: dq %g, dk %g", names[b], (double)caps[n % 3], (double)dq[i % 64], (double)dk[i]);
        }
    }
}

/* ------------------------------------------------------------------------------------------ the sign of zero */
/* values so small that their products vanish, in rows that see few of the keys: the bits, zeros' signs included, are the same for
 * any number of threads, and alone or in a batch */
static void test_zero_signs(void **state)
{
    enum { S = 400, D = 16 };
    static float q[S * D], k[S * D], v[S * D], dout[S * D], lse[S], o[S * D], out[4][S * D], first[4][S * D];
    uint64_t r = 5;
    (void)state;
    for (int64_t i = 0; i < S * D; i++) {
        q[i] = (float)random_gauss(&r), k[i] = (float)random_gauss(&r);
        v[i] = random_bits(&r) % 2 ? 1.5e-38f : -1.5e-38f;
        dout[i] = random_bits(&r) % 2 ? 1.5e-38f : -1.5e-38f;
    }
    for (int mask = 0; mask < 2; mask++)
    for (int64_t n = 0; n < COUNT(fast); n++)
    for (int32_t threads = 1; threads < 9; threads++) {
        static unsigned char hidden[S];
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        for (int64_t j = 0; j < S; j++) hidden[j] = (unsigned char)(j % 3 == 0);
        d.batch = d.heads = 1, d.q_len = d.kv_len = S, d.head_dim = D, d.threads = threads, d.backend = fast[n];
        d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = out[0], d.lse = lse, d.flags = ATTN_CAUSAL;
        if (mask) {
            d.mask.data = hidden, d.mask.dtype = ATTN_BOOL;
            for (int a = 0; a < 3; a++) d.mask.stride[a] = ATTN_BROADCAST;
        }
        assert_ok(attn_forward(&d));
        memcpy(o, out[0], sizeof o);
        d.o.data = o;
        g.dout.data = dout, g.dq.data = out[1], g.dk.data = out[2], g.dv.data = out[3];
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            if (accumulate) {
                for (int64_t i = 0; i < S * D; i++) out[1][i] = out[2][i] = out[3][i] = -0.0f;
                d.flags |= ATTN_ACCUMULATE;
            }
            assert_ok(attn_backward(&d, &g));
            if (threads == 1 && !accumulate) memcpy(first, out, sizeof first);
            for (int t = 0; t < 4; t++)
                for (int64_t i = 0; i < S * D; i++)
                    if (memcmp(&first[t][i], &out[t][i], 4) && !(accumulate && first[t][i] == 0 && out[t][i] == 0))
                        fail_msg("%s, %d threads: output %d, element %d is %g, with one thread %g", fast[n], (int)threads, t,
                                 (int)i, (double)out[t][i], (double)first[t][i]);
        }
    }
}

/* ------------------------------------------------------------------------------------------ long sums */
/* equal scores and equal values: the mean is the value, whatever the length; sums that grow term by term drift */
static void test_constant_values(void **state)
{
    static const struct { int64_t q, k, d; } shapes[] = { { 1, 64, 8 },      { 3, 128, 8 },     { 1, 1000, 8 },  { 7, 1024, 64 },
                                                          { 300, 4096, 8 },  { 300, 16384, 4 }, { 7, 20000, 64 }, { 1, 262144, 4 },
                                                          { 257, 66000, 4 }, { 257, 30000, 1024 } };
    static const float values[] = { 0.57f, 0.7f, 1.0f / 3, -0.3f };     /* of the first a sum of blocks loses most */
    (void)state;
    for (int64_t n = 0; n < COUNT(shapes); n++)
    for (int64_t m = 0; m < COUNT(values); m++)
    for (int64_t b = 0; b < COUNT(fast); b++) {
        const int64_t dim = shapes[n].d, rows = shapes[n].q;
        if (SLOW && shapes[n].k * rows > 1000000) continue;          /* a minute each, and no access that shorter ones have not */
        if (shapes[n].k * rows > 6000000 && m > 0) continue;         /* the long ones once */
        float *q = calloc((size_t)dim, 4), *v = calloc((size_t)dim, 4), *o = calloc((size_t)(rows * dim), 4);
        float *lse = calloc((size_t)rows, 4), worst = 0, far = 0;
        attn_desc d = { 0 };
        for (int64_t c = 0; c < dim; c++) v[c] = values[m];
        d.batch = d.heads = 1, d.q_len = rows, d.kv_len = shapes[n].k, d.head_dim = dim, d.backend = fast[b];
        d.q.data = d.k.data = q, d.v.data = v, d.o.data = o, d.lse = lse;
        for (int a = 0; a < 3; a++) d.q.stride[a] = d.k.stride[a] = d.v.stride[a] = ATTN_BROADCAST;
        assert_ok(attn_forward(&d));
        for (int64_t i = 0; i < rows * dim; i++) worst = fmaxf(worst, fabsf(o[i] - values[m]));
        for (int64_t i = 0; i < rows; i++) far = fmaxf(far, (float)fabs((double)lse[i] - log((double)d.kv_len)));
        free(q), free(v), free(o), free(lse);
        /* the rule of tolerances.md with e = 4: 8 u (4 + 4) |v|, and 8 u (lse + 4) */
        if (!(worst <= 64 * 0x1p-24f * fabsf(values[m])) || !(far <= 8 * 0x1p-24 * (log((double)d.kv_len) + 4)))
            fail_msg("%s: %lld keys of %g: off by %g (%.2f of the allowed), lse by %g", fast[b], (long long)d.kv_len,
                     (double)values[m], (double)worst, (double)worst / (64 * 0x1p-24 * fabs((double)values[m])), (double)far);
    }
}

/* the same for what the backward sums over rows (dk, dv) and over keys (dq) */
static void test_constant_gradients(void **state)
{
    enum { S = 6000, D = 4 };
    static float one[D], x[S * D], lse[S], o[S * D], dq[S * D], dk[D * 8], dv[D * 8];
    (void)state;
    for (int64_t i = 0; i < S; i++) lse[i] = (float)log(8.0);
    for (int64_t i = 0; i < S * D; i++) x[i] = 0.7f, o[i] = 0;
    for (int c = 0; c < D; c++) one[c] = 1;
    for (int64_t b = 0; b < COUNT(fast); b++) {
        /* 8 keys of v = 0 seen by S rows of dout 0.7: dv = S * 0.7 / 8 */
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        float zero[D * 8] = { 0 };
        d.batch = d.heads = 1, d.q_len = S, d.kv_len = 8, d.head_dim = D, d.backend = fast[b];
        d.q.data = zero, d.k.data = zero, d.v.data = zero, d.o.data = o, d.lse = lse;
        for (int a = 0; a < 3; a++) d.q.stride[a] = ATTN_BROADCAST;
        g.dout.data = x, g.dq.data = dq, g.dk.data = dk, g.dv.data = dv;
        assert_ok(attn_backward(&d, &g));
        for (int64_t i = 0; i < 8 * D; i++) {
            const double want = S * (double)0.7f * exp(-(double)lse[0]), off = fabs((double)dv[i] - want) / want;
            if (!(off < 100 * 0x1p-24)) fail_msg("%s: dv is off by %.3g of itself", fast[b], off);
        }
        (void)one;
    }
}

/* Scores that grow along the keys, so that every span of blocks has a larger maximum than the one before. */
static void test_growing_scores(void **state)
{
    (void)state;
    for (int64_t b = 0; b < COUNT(fast); b++) {
        /* more than one span, which the standard backend has after 4096 keys */
        const problem_case c = { "", 1, SLOW ? 40 : 260, b ? 5000 : 20000, 1, 0, 8, 0, .flags = 0 };
        problem p = problem_make(&c, 9);
        float *k = (float *)(uintptr_t)p.d.k.data;
        for (int64_t j = 0; j < c.sk * c.d; j++) k[j] *= 12 * (float)(j / c.d) / (float)c.sk;
        forward(&p, fast[b]);
        assert_as_reference(&p, 0);
        problem_free(&p);
    }
}

/* Sequences of several spans: right, and the same bits for any number of threads, alone, beside a longer one, and left padded; a
 * NaN in a value that few rows see leaves the others their bits; the workspace never shrinks. */
static void test_long_sequences(void **state)
{
    enum { D = 256, K = 4500, PAD = 77 };
    static const int64_t rows[] = { 1, 13, 260 };
    static const problem_case c = { "", 2, 260, K + PAD, 1, 0, D, 0, .flags = ATTN_CAUSAL };
    problem p = problem_make(&c, 3);
    float *k = (float *)(uintptr_t)p.d.k.data, *v = (float *)(uintptr_t)p.d.v.data;
    (void)state;
    /* entry 1 is entry 0, PAD keys later */
    memcpy((float *)(uintptr_t)p.d.q.data + p.d.q.stride[0], p.d.q.data, (size_t)p.d.q.stride[0] * 4);
    memcpy(k + (K + 2 * PAD) * D, k, (size_t)(K * D) * 4);
    memcpy(v + (K + 2 * PAD) * D, v, (size_t)(K * D) * 4);
    for (int64_t n = 0; n < COUNT(rows) - (SLOW ? 1 : 0); n++) {
        const int64_t q = rows[n], size = q * D;
        p.d.q_len = q;
        for (int64_t b = 0; b < COUNT(fast); b++) {
            float *first = malloc((size_t)size * 4), last = v[(K - 1) * D];
            int32_t used[2] = { K, K + PAD }, start[2] = { 0, 0 };
            p.d.backend = fast[b];
            for (int32_t threads = 1; threads < 6; threads += 3)
                for (int how = 0; how < 3; how++) {
                    attn_desc d = p.d;
                    const float *o = d.o.data;
                    d.threads = threads;
                    d.seq.used_k = used, d.seq.start_k = start;
                    start[1] = how == 1 ? PAD : 0;
                    if (how == 2) d.batch = 1, d.kv_len = K, d.seq.used_k = d.seq.start_k = NULL;
                    assert_ok(attn_forward(&d));
                    if (threads == 1 && how == 0) memcpy(first, o, (size_t)size * 4);
                    assert_memory_equal(first, o, (size_t)size * 4);
                    if (how == 1) assert_memory_equal(first, o + d.o.stride[0], (size_t)size * 4);
                }
            attn_desc alone = p.d;
            alone.batch = 1, alone.kv_len = K;
            if (q > 1) {                /* the last key, which only the last row sees */
                v[(K - 1) * D] = NAN;
                assert_ok(attn_forward(&alone));
                assert_memory_equal(first, alone.o.data, (size_t)(size - D) * 4);
                assert_true(isnan(((float *)alone.o.data)[size - D]));
                v[(K - 1) * D] = last;
            }
            free(first);
        }
    }
    problem_free(&p);
    for (int64_t dim = 8; dim <= 512; dim *= SLOW ? 8 : 2)
    for (int32_t threads = 1; threads < 9; threads *= 2)
    for (int64_t q = 1; q < 2000; q = q * 5 + 1) {
        size_t last = 0;
        for (int64_t keys = 900; keys < 1000000; keys += keys / 9) {
            attn_plan plan;
            attn_desc d = { 0 };
            d.batch = d.heads = 1, d.q_len = q, d.kv_len = keys, d.head_dim = dim, d.threads = threads, d.backend = "flash";
            assert_ok(attn_query(&d, NULL, &plan));
            assert_true(plan.workspace_size >= last);
            last = plan.workspace_size;
        }
    }
}

/* ------------------------------------------------------------------------------------------ denormals */
/* Where the machine can, a call takes them for 0: values that are nothing else have a mean of 0, not of 0x1p-130. */
static void test_denormal_values(void **state)
{
#if defined __x86_64__ || defined __aarch64__
    enum { KEYS = 80, DIM = 8 };
    float q[DIM] = { 0 }, k[KEYS * DIM] = { 0 }, v[KEYS * DIM], o[DIM];
    for (int i = 0; i < KEYS * DIM; i++) v[i] = 0x1p-130f;
    for (int64_t b = 0; b < COUNT(fast); b++) {
        attn_desc d = { 0 };
        d.batch = d.heads = d.q_len = 1, d.kv_len = KEYS, d.head_dim = DIM, d.backend = fast[b];
        d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o;
        assert_ok(attn_forward(&d));
        for (int c = 0; c < DIM; c++) assert_int_equal(float_bits(o[c]), 0);
    }
#endif
    (void)state;
}

/* ------------------------------------------------------------------------------------------ not finite, and contained */
enum { IN_BIAS, IN_Q, IN_K, IN_V, IN_DOUT, IN_SINK, IN_ALIBI, PLACES };
static const char *const place_name[] = { "bias", "q", "k", "v", "dout", "sink", "alibi" };

static float *place(problem *p, int which, int64_t at)
{
    const void *data[] = { p->d.bias.data, p->d.q.data, p->d.k.data, p->d.v.data, p->g.dout.data, p->d.sink, p->d.alibi };
    return data[which] ? (float *)(uintptr_t)data[which] + at : NULL;
}

/* One value is not finite: what the reference leaves finite stays finite, and right. */
static void test_contained(void **state)
{
    static const problem_case cases[] = {
        { "small", 1, 8, 8, 1, 0, 4, 0, .flags = ATTN_CAUSAL, .bias = HAS | ONE_BATCH | ONE_HEAD, .sink = 1, .alibi = 1 },
        { "blocks", 1, 150, 310, 1, 0, 8, 0, .flags = ATTN_CAUSAL, .bias = HAS | ONE_BATCH | ONE_HEAD, .sink = 1, .alibi = 1 },
        { "plain", 1, 150, 150, 1, 0, 8, 0, .flags = ATTN_CAUSAL },
    };
    static const float odd[] = { NAN, INFINITY, -INFINITY };
    (void)state;
    for (int64_t n = 0; n < COUNT(cases); n++)
    for (int which = 0; which < PLACES; which++)
    for (int64_t x = 0; x < COUNT(odd); x++)
    for (int64_t spot = 0; spot < 3; spot += SLOW ? 2 : 1) {
        problem p = make(&cases[n], (uint64_t)(n + spot));
        const int64_t sizes[] = { p.d.q_len * p.d.kv_len, p.d.q_len * p.d.head_dim, p.d.kv_len * p.d.head_dim,
                                  p.d.kv_len * p.dv, p.d.q_len * p.dv, 1, 1 };
        const int64_t at = spot == 0 ? 0 : spot == 1 ? sizes[which] / 2 : sizes[which] - 1;
        gradients exact, got;
        const float *want_o;
        if (!place(&p, which, 0) || (sizes[which] == 1 && spot)) { problem_free(&p); continue; }
        *place(&p, which, at) = odd[x];
        forward(&p, "reference");
        want_o = memcpy(malloc(p.size[3]), p.d.o.data, p.size[3]);
        exact = grads_make(&p), got = grads_make(&p);
        grads_run(&p, "reference", &exact);
        for (int64_t b = 0; b < COUNT(fast); b++) {
            forward(&p, fast[b]);
            for (int64_t e = 0; e < p.d.q_len * p.dv; e++) {
                const double o = (double)((float *)p.d.o.data)[e], want = (double)want_o[e];
                if (isfinite(want) ? !(fabs(o - want) < 1e-4) : isfinite(o))
                    fail_msg("%s, %s: %g in %s at %d: o[%d] = %g, not %g", cases[n].name, fast[b], (double)odd[x],
                             place_name[which], (int)at, (int)e, o, want);
            }
            forward(&p, "reference");
            grads_run(&p, fast[b], &got);
            for (int i = 0; i < GRADS; i++)
                for (int64_t e = 0; e < exact.n[i]; e++)
                    if (isfinite(exact.x[i][e]) ? !(fabs(got.x[i][e] - exact.x[i][e]) < 1e-3 * (1 + fabs(exact.x[i][e])))
                                                : isfinite(got.x[i][e]))
                        fail_msg("%s, %s: %g in %s at %d: %s[%d] = %g, not %g", cases[n].name, fast[b], (double)odd[x],
                                 place_name[which], (int)at, grad_name[i], (int)e, got.x[i][e], exact.x[i][e]);
        }
        grads_free(&exact), grads_free(&got);
        free((void *)(uintptr_t)want_o);
        problem_free(&p);
    }
}

/* keys of -infinity beside a mask, a bias, a sink: no key with a score, so an empty row, whatever else is described */
static void test_keys_of_infinity(void **state)
{
    enum { K = 70 };
    static const float one = 1, sink = 0.5f;
    float k[K], v[K], bias[K] = { 0 };
    unsigned char mask[K];
    (void)state;
    for (int64_t j = 0; j < K; j++) k[j] = -INFINITY, v[j] = (float)j, mask[j] = 1;
    for (int how = 0; how < 8; how++)
    for (int64_t n = 0; n < COUNT(fast); n++) {
        float o = -1, lse = -1;
        attn_desc d = { 0 };
        d.batch = d.q_len = d.heads = d.head_dim = 1, d.kv_len = K, d.backend = fast[n];
        d.q.data = &one, d.k.data = k, d.v.data = v, d.o.data = &o, d.lse = &lse;
        if (how & 1) d.mask.data = mask, d.mask.dtype = ATTN_BOOL;
        if (how & 2) d.bias.data = bias;
        if (how & 4) d.sink = &sink;
        assert_ok(attn_forward(&d));
        assert_true(o == 0);
        assert_true(lse == (how & 4 ? sink : -INFINITY));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_huge_bias),       cmocka_unit_test(test_two_biases),        cmocka_unit_test(test_huge_products),
        cmocka_unit_test(test_huge_sink),       cmocka_unit_test(test_huge_merge),        cmocka_unit_test(test_far_windows),
        cmocka_unit_test(test_exact_scores),      cmocka_unit_test(test_scales_apart),
        cmocka_unit_test(test_steps_of_huge_scores), cmocka_unit_test(test_denormal_values),
        cmocka_unit_test(test_very_many_dims), cmocka_unit_test(test_very_many_dims_of_bf16), cmocka_unit_test(test_saturated_softcap), cmocka_unit_test(test_slope_of_tiny_scale), cmocka_unit_test(test_zero_signs),      cmocka_unit_test(test_constant_values),   cmocka_unit_test(test_constant_gradients),
        cmocka_unit_test(test_long_sequences),  cmocka_unit_test(test_growing_scores),
        cmocka_unit_test(test_contained),         cmocka_unit_test(test_keys_of_infinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
