/* backends.c - standard and flash against the reference over a case table, forward and backward, by the rules of how exact is
 * right in unit.h. A case that one of them declines is a failure.
 * Run with ATTN_ISA set, it tests that instruction set, or says that the machine lacks it. */
#include "unit.h"

#define CAUSAL ATTN_CAUSAL
#define LEFT ATTN_WINDOW_LEFT
#define RIGHT ATTN_WINDOW_RIGHT

static const problem_case rows[] = {
    { .name = "one", .b = 1, .sq = 1, .sk = 1, .h = 1, .d = 1 },
    { .name = "one key", .b = 2, .sq = 5, .sk = 1, .h = 2, .d = 64 },
    { .name = "one query", .b = 3, .sq = 1, .sk = 300, .h = 4, .d = 64 },
    { .name = "no keys", .b = 2, .sq = 3, .sk = 0, .h = 2, .d = 64 },
    { .name = "no queries", .b = 2, .sq = 0, .sk = 3, .h = 2, .d = 64 },
    { .name = "no batch", .b = 0, .sq = 3, .sk = 3, .h = 2, .d = 64 },
    { .name = "128 x 128 x 64", .b = 1, .sq = 128, .sk = 128, .h = 2, .d = 64 },
    { .name = "257 x 255 x 32", .b = 2, .sq = 257, .sk = 255, .h = 2, .d = 32 },
    { .name = "31 x 1030 x 128", .b = 1, .sq = 31, .sk = 1030, .h = 1, .d = 128 },
    { .name = "300 x 17 x 80", .b = 1, .sq = 300, .sk = 17, .h = 3, .d = 80 },
    { .name = "head_dim 3", .b = 1, .sq = 33, .sk = 47, .h = 2, .d = 3 },
    { .name = "head_dim 17, v_dim 33", .b = 1, .sq = 33, .sk = 47, .h = 2, .d = 17, .dv = 33 },
    { .name = "head_dim 100", .b = 1, .sq = 65, .sk = 63, .h = 2, .d = 100 },
    { .name = "head_dim 192, v_dim 128", .b = 1, .sq = 40, .sk = 70, .h = 2, .d = 192, .dv = 128 },
    { .name = "head_dim 256", .b = 1, .sq = 70, .sk = 70, .h = 1, .d = 256, .flags = CAUSAL },
    { .name = "head_dim 288", .b = 1, .sq = 19, .sk = 70, .h = 1, .d = 288 },
    { .name = "head_dim 576, v_dim 512", .b = 1, .sq = 9, .sk = 70, .h = 2, .hk = 1, .d = 576, .dv = 512 },
    { .name = "v_dim 1", .b = 1, .sq = 40, .sk = 70, .h = 2, .d = 16, .dv = 1 },
    { .name = "causal", .b = 2, .sq = 130, .sk = 130, .h = 2, .d = 64, .flags = CAUSAL },
    { .name = "causal, more keys", .b = 1, .sq = 70, .sk = 300, .h = 2, .d = 64, .flags = CAUSAL },
    { .name = "causal, more queries", .b = 1, .sq = 200, .sk = 70, .h = 2, .d = 64, .flags = CAUSAL },
    { .name = "causal top left", .b = 1, .sq = 70, .sk = 200, .h = 2, .d = 64, .flags = CAUSAL | ATTN_TOP_LEFT },
    { .name = "causal offset", .b = 1, .sq = 70, .sk = 90, .h = 2, .d = 64, .flags = CAUSAL | ATTN_OFFSET, .offset = -7 },
    { .name = "window", .b = 1, .sq = 300, .sk = 300, .h = 2, .d = 64, .flags = LEFT | RIGHT, .left = 33, .right = 17 },
    { .name = "causal window", .b = 1, .sq = 200, .sk = 300, .h = 2, .d = 64, .flags = CAUSAL | LEFT, .left = 50 },
    { .name = "window 0 0", .b = 1, .sq = 70, .sk = 70, .h = 2, .d = 64, .flags = LEFT | RIGHT },
    { .name = "right window", .b = 1, .sq = 70, .sk = 90, .h = 2, .d = 64, .flags = RIGHT, .right = 5 },
    { .name = "GQA 8/2", .b = 2, .sq = 65, .sk = 100, .h = 8, .hk = 2, .d = 64, .flags = CAUSAL },
    { .name = "GQA 6/1, one query", .b = 2, .sq = 1, .sk = 200, .h = 6, .hk = 1, .d = 128 },
    { .name = "BHSD", .b = 2, .sq = 65, .sk = 100, .h = 4, .hk = 2, .d = 64, .layout = ATTN_BHSD },
    { .name = "rows with gaps", .b = 2, .sq = 65, .sk = 100, .h = 4, .hk = 2, .d = 33, .gap = 7 },
    { .name = "BHSD rows with gaps", .b = 2, .sq = 65, .sk = 100, .h = 2, .d = 64, .gap = 1, .layout = ATTN_BHSD },
    { .name = "scale", .b = 1, .sq = 65, .sk = 100, .h = 2, .d = 64, .flags = ATTN_SCALE, .scale = 0.3f },
    { .name = "scale 0", .b = 1, .sq = 65, .sk = 100, .h = 2, .d = 64, .flags = ATTN_SCALE },
    { .name = "negative scale", .b = 1, .sq = 65, .sk = 100, .h = 2, .d = 64, .flags = ATTN_SCALE, .scale = -0.2f },
    { .name = "large scores", .b = 1, .sq = 65, .sk = 100, .h = 2, .d = 64, .amplitude = 30 },
    { .name = "peaked", .b = 1, .sq = 65, .sk = 300, .h = 2, .d = 64, .amplitude = 5 },
    { .name = "softcap", .b = 1, .sq = 65, .sk = 100, .h = 2, .d = 64, .softcap = 20, .amplitude = 2 },
    { .name = "ALiBi", .b = 1, .sq = 65, .sk = 100, .h = 4, .d = 64, .alibi = 1, .flags = CAUSAL },
    { .name = "sink", .b = 1, .sq = 65, .sk = 100, .h = 2, .d = 64, .sink = 1 },
    { .name = "sink, empty rows", .b = 1, .sq = 65, .sk = 20, .h = 2, .d = 64, .sink = 1, .flags = CAUSAL },
    { .name = "bias", .b = 2, .sq = 65, .sk = 100, .h = 2, .d = 64, .bias = HAS },
    { .name = "bias over batch and queries", .b = 2, .sq = 65, .sk = 100, .h = 2, .d = 64, .bias = HAS | ONE_BATCH | ONE_QUERY },
    { .name = "bf16 bias", .b = 2, .sq = 65, .sk = 100, .h = 2, .d = 64, .bias = HAS | ONE_HEAD, .bias_t = ATTN_BF16 },
    { .name = "mask", .b = 2, .sq = 65, .sk = 100, .h = 2, .d = 64, .mask = HAS },
    { .name = "mask over heads", .b = 2, .sq = 65, .sk = 100, .h = 2, .d = 64, .mask = HAS | ONE_HEAD, .flags = CAUSAL },
    { .name = "everything", .b = 2, .sq = 65, .sk = 100, .h = 4, .hk = 2, .d = 64, .dv = 40, .softcap = 5, .alibi = 1, .sink = 1,
      .bias = HAS | ONE_BATCH, .mask = HAS | ONE_HEAD, .flags = CAUSAL | LEFT, .left = 60 },
    { .name = "f32 to f16", .b = 1, .sq = 65, .sk = 100, .h = 2, .d = 64, .o = ATTN_F16 },
    { .name = "f32 to bf16", .b = 1, .sq = 65, .sk = 100, .h = 2, .d = 64, .o = ATTN_BF16 },
    { .name = "f16", .b = 1, .sq = 65, .sk = 100, .h = 4, .hk = 2, .d = 64, .q = ATTN_F16, .kv = ATTN_F16, .o = ATTN_F16,
      .flags = CAUSAL },
    { .name = "bf16", .b = 1, .sq = 65, .sk = 100, .h = 4, .hk = 2, .d = 64, .q = ATTN_BF16, .kv = ATTN_BF16, .o = ATTN_BF16,
      .flags = CAUSAL },
    { .name = "f16 head_dim 17 to f32", .b = 1, .sq = 35, .sk = 50, .h = 2, .d = 17, .q = ATTN_F16, .kv = ATTN_F16 },
    { .name = "bf16 head_dim 33 to f32", .b = 1, .sq = 35, .sk = 50, .h = 2, .d = 33, .q = ATTN_BF16, .kv = ATTN_BF16 },
    { .name = "f32 queries, f16 cache, one query", .b = 2, .sq = 1, .sk = 300, .h = 8, .hk = 2, .d = 128, .kv = ATTN_F16 },
    { .name = "f32 queries, bf16 cache", .b = 1, .sq = 65, .sk = 100, .h = 4, .hk = 2, .d = 64, .kv = ATTN_BF16, .flags = CAUSAL },
    { .name = "f16 queries, f32 keys, f16 values", .b = 1, .sq = 65, .sk = 100, .h = 2, .d = 64, .q = ATTN_F16, .other_v = 1 },
    { .name = "f32 queries, bf16 keys, f32 values to f16", .b = 1, .sq = 35, .sk = 70, .h = 2, .d = 33, .dv = 17, .kv = ATTN_BF16,
      .other_v = 1, .o = ATTN_F16, .other_grads = 1 },
    { .name = "bf16 queries, f16 keys, bf16 values, gradients of other types", .b = 2, .sq = 35, .sk = 70, .h = 4, .hk = 2, .d = 40,
      .q = ATTN_BF16, .kv = ATTN_F16, .other_v = 1, .other_grads = 2, .gap = 3, .flags = CAUSAL },
    { .name = "f32 queries, bf16 cache and gradient, v_dim above head_dim", .b = 1, .sq = 40, .sk = 50, .h = 2, .d = 32, .dv = 64,
      .kv = ATTN_BF16, .o = ATTN_BF16 },
    { .name = "dropout", .b = 2, .sq = 35, .sk = 50, .h = 2, .d = 32, .dropout = 0.3f },
};

static const char *backend_names[2] = { "standard", "flash" };

static void forward(const problem_case *c, int backend)
{
    problem p = problem_make(c, 31);
    attn_plan plan;
    p.d.backend = backend_names[backend];
    if (attn_query(&p.d, NULL, &plan)) fail_msg("%s declines: %s", p.d.backend, plan.why);
    assert_string_equal(plan.backend, p.d.backend);
    assert_ok(attn_forward(&p.d));
    assert_as_reference(&p, forward_p_unit(&p.d));
    problem_free(&p);
}

static void test_standard(void **state) { forward(*state, 0); }
static void test_flash(void **state) { forward(*state, 1); }

/* ------------------------------------------------------------------------------------------ backward
 * The yardstick: plain loops in f32, two passes, from the same o and lse. Rows of the gradients are dense f32, GQA summed. It has
 * no dropout, the last row of the table. */
typedef struct naive { float *dq, *dk, *dv; } naive;

static int visible(const attn_desc *d, int64_t b, int64_t h, int64_t i, int64_t j)
{
    int64_t x = i + (d->flags & ATTN_TOP_LEFT ? 0 : d->flags & ATTN_OFFSET ? d->offset : d->kv_len - d->q_len);
    if (d->flags & ATTN_CAUSAL && j > x) return 0;
    if (d->flags & ATTN_WINDOW_LEFT && j < x - d->window_left) return 0;
    if (d->flags & ATTN_WINDOW_RIGHT && j > x + d->window_right) return 0;
    return !d->mask.data || ((const unsigned char *)d->mask.data)[at(d->mask.stride, b, h, i) + j];
}

static naive naive_backward(const problem *p)
{
    const attn_desc *d = &p->d;
    int64_t group = d->heads / p->hk;
    float scale = d->flags & ATTN_SCALE ? d->scale : (float)(1 / sqrt((double)d->head_dim));
    naive n;
    n.dq = calloc((size_t)(d->batch * d->q_len * d->heads * d->head_dim + 1), 4);
    n.dk = calloc((size_t)(d->batch * d->kv_len * p->hk * d->head_dim + 1), 4);
    n.dv = calloc((size_t)(d->batch * d->kv_len * p->hk * p->dv + 1), 4);
    for (int64_t b = 0; b < d->batch; b++)
    for (int64_t h = 0; h < d->heads; h++)
    for (int64_t i = 0; i < d->q_len; i++) {
        int64_t qi = at(d->q.stride, b, i, h), oi = at(d->o.stride, b, i, h), di = at(p->g.dout.stride, b, i, h);
        float lse = d->lse[(b * d->heads + h) * d->q_len + i], sum = 0;
        float dlse = p->g.dlse ? p->g.dlse[(b * d->heads + h) * d->q_len + i] : 0;
        for (int64_t c = p->dv; c-- > 0;)       /* from the other end than dp below: with one key they would cancel exactly */
            sum += (float)element_get(p->g.dout.data, p->g.dout.dtype, di + c) * (float)element_get(d->o.data, d->o.dtype, oi + c);
        for (int64_t j = 0; j < d->kv_len; j++) {
            int64_t kj = at(d->k.stride, b, j, h / group), vj = at(d->v.stride, b, j, h / group);
            float s = 0, prob, dp = 0, ds, slope = 1;
            if (!visible(d, b, h, i, j)) continue;
            for (int64_t c = 0; c < d->head_dim; c++)
                s += (float)element_get(d->q.data, d->q.dtype, qi + c) * (float)element_get(d->k.data, d->k.dtype, kj + c);
            s *= scale;
            if (d->softcap > 0) {
                float t = tanhf(s / d->softcap);
                s = d->softcap * t;
                slope = 1 - t * t;
            }
            if (d->bias.data) s += (float)element_get(d->bias.data, d->bias.dtype, at(d->bias.stride, b, h, i) + j);
            if (d->alibi) s -= d->alibi[h] * fabsf((float)(i + d->kv_len - d->q_len - j));
            prob = expf(s - lse);
            for (int64_t c = 0; c < p->dv; c++) {
                float g = (float)element_get(p->g.dout.data, p->g.dout.dtype, di + c);
                dp += g * (float)element_get(d->v.data, d->v.dtype, vj + c);
                n.dv[((b * d->kv_len + j) * p->hk + h / group) * p->dv + c] += prob * g;
            }
            ds = prob * (dp - sum + dlse) * slope * scale;
            for (int64_t c = 0; c < d->head_dim; c++) {
                n.dq[((b * d->q_len + i) * d->heads + h) * d->head_dim + c] += ds * (float)element_get(d->k.data, d->k.dtype, kj + c);
                n.dk[((b * d->kv_len + j) * p->hk + h / group) * d->head_dim + c] += ds * (float)element_get(d->q.data, d->q.dtype, qi + c);
            }
        }
    }
    return n;
}

/* at most 4 times the error of the yardstick, and the rounding of the output's type */
static void assert_gradient(const char *what, const attn_out *got, const double *want, const float *yard, int64_t b, int64_t s,
                            int64_t h, int64_t d)
{
    double error = 0;
    for (int64_t i = 0; i < b * s * h * d; i++) error = fmax(error, fabs((double)yard[i] - want[i]));
    for (int64_t i = 0; i < b * s * h; i++)
        for (int64_t c = 0; c < d; c++) {
            double x = element_get(got->data, got->dtype, at(got->stride, i / h / s, i / h % s, i % h) + c), w = want[i * d + c];
            double allowed = 4 * error + dtype_unit(got->dtype) * fabs(w) + (got->dtype == ATTN_F16 ? 0x1p-25 : 0x1p-120);
            if (!(fabs(x - w) <= allowed))
                fail_msg("%s[%d,%d] = %.9g, not %.9g +- %.2g", what, (int)i, (int)c, x, w, allowed);
        }
}

static void backward(const problem_case *row, int backend)
{
    const problem_case c = *row;
    problem p = problem_make(&c, 37), f;
    attn_plan plan;
    naive n;
    int64_t n_dq = c.b * c.sq * c.h * c.d, n_dk = c.b * c.sk * p.hk * c.d, n_dv = c.b * c.sk * p.hk * p.dv;
    double *want = calloc((size_t)(n_dq + n_dk + n_dv) + 1, 8);
    problem_grad(&p, 37);
    p.d.backend = backend_names[backend];
    if (attn_query(&p.d, &p.g, &plan)) fail_msg("%s declines: %s", p.d.backend, plan.why);
    f = p;                                      /* the reference, from the same o and lse */
    p.d.backend = "reference";
    assert_ok(attn_forward(&p.d));
    f.d.backend = "reference";
    f.g.dq.data = want, f.g.dk.data = want + n_dq, f.g.dv.data = want + n_dq + n_dk;
    f.g.dq.dtype = f.g.dk.dtype = f.g.dv.dtype = ATTN_F64;
    dense(f.g.dq.stride, ATTN_BSHD, c.sq, c.h, c.d);
    dense(f.g.dk.stride, ATTN_BSHD, c.sk, p.hk, c.d);
    dense(f.g.dv.stride, ATTN_BSHD, c.sk, p.hk, p.dv);
    assert_ok(attn_backward(&f.d, &f.g));
    n = naive_backward(&p);
    p.d.backend = backend_names[backend];
    assert_ok(attn_backward(&p.d, &p.g));
    assert_gradient("dq", &p.g.dq, want, n.dq, c.b, c.sq, c.h, c.d);
    assert_gradient("dk", &p.g.dk, want + n_dq, n.dk, c.b, c.sk, p.hk, c.d);
    assert_gradient("dv", &p.g.dv, want + n_dq + n_dk, n.dv, c.b, c.sk, p.hk, p.dv);
    free(n.dq);
    free(n.dk);
    free(n.dv);
    free(want);
    problem_free(&p);
}

static void test_standard_backward(void **state) { backward(*state, 0); }
static void test_flash_backward(void **state) { backward(*state, 1); }

/* ------------------------------------------------------------------------------------------ not finite
 * A NaN or infinity in a key or a value reaches the rows that see it; all others have the bits of a run with a 0 there. */
static void test_poison(void **state)
{
    static const problem_case c = { .b = 2, .sq = 70, .sk = 90, .h = 2, .d = 40, .flags = ATTN_CAUSAL | ATTN_WINDOW_LEFT, .left = 30 };
    static const double poison[] = { NAN, INFINITY, -INFINITY };
    (void)state;
    for (int backend = 0; backend < 2; backend++)
        for (int where = 0; where < 2; where++)
            for (int64_t k = 0; k < COUNT(poison); k++)
                for (int64_t j = 3; j < 90; j += 29) {
                    problem p = problem_make(&c, 41);
                    const attn_in *t = where ? &p.d.v : &p.d.k;
                    int64_t at_ = at(t->stride, 1, j, 1) + 5, n = 2 * 70 * 2 * 40;
                    float *o = malloc((size_t)n * 4);
                    p.d.backend = backend_names[backend];
                    element_put((void *)(uintptr_t)t->data, ATTN_F32, at_, 0);
                    assert_ok(attn_forward(&p.d));
                    memcpy(o, p.d.o.data, (size_t)n * 4);
                    element_put((void *)(uintptr_t)t->data, ATTN_F32, at_, poison[k]);
                    assert_ok(attn_forward(&p.d));
                    for (int64_t b = 0; b < 2; b++)
                    for (int64_t h = 0; h < 2; h++)
                    for (int64_t i = 0; i < 70; i++) {
                        int sees = b == 1 && h == 1 && j <= i + 20 && j >= i + 20 - 30;
                        int64_t e = at(p.d.o.stride, b, i, h);
                        if (!sees && memcmp((float *)p.d.o.data + e, o + e, 40 * 4))
                            fail_msg("%s: row %d,%d,%d does not see key %d", p.d.backend, (int)b, (int)h, (int)i, (int)j);
                        if (sees && where && isfinite(((float *)p.d.o.data)[e + 5]))
                            fail_msg("%s: row %d sees value %d and is finite", p.d.backend, (int)i, (int)j);
                        if (sees && !where && isnan(poison[k]) && isfinite(((float *)p.d.o.data)[e]))
                            fail_msg("%s: row %d sees key %d and is finite", p.d.backend, (int)i, (int)j);
                    }
                    free(o);
                    problem_free(&p);
                }
}

/* The simple figure: 2e-6 for N(0,1) data, head_dim <= 128, S <= 1024. */
static void test_simple_figure(void **state)
{
    static const problem_case c = { .b = 1, .sq = 64, .sk = 1024, .h = 2, .d = 128 };
    (void)state;
    for (int backend = 0; backend < 2; backend++) {
        problem p = problem_make(&c, 43);
        float *o;
        p.d.backend = "reference";
        assert_ok(attn_forward(&p.d));
        o = malloc(64 * 2 * 128 * 4);
        memcpy(o, p.d.o.data, 64 * 2 * 128 * 4);
        p.d.backend = backend_names[backend];
        assert_ok(attn_forward(&p.d));
        for (int i = 0; i < 64 * 2 * 128; i++) assert_true(fabsf(o[i] - ((float *)p.d.o.data)[i]) <= 2e-6f);
        free(o);
        problem_free(&p);
    }
}

/* Where a machine has products of bf16, dP = dout V^T is one of them when those two are bf16, whatever q is. */
static void test_bf16_dp(void **state)
{
    char kernel[2][64];
    (void)state;
    for (int t = 0; t < 2; t++) {
        const problem_case c = { .b = 1, .sq = 40, .sk = 50, .h = 2, .d = 32, .q = t ? ATTN_BF16 : ATTN_F32, .kv = ATTN_BF16, .o = ATTN_BF16 };
        problem p = problem_make(&c, 44);
        attn_plan plan;
        problem_grad(&p, 44);
        p.d.backend = "flash";
        assert_ok(attn_query(&p.d, &p.g, &plan));
        snprintf(kernel[t], sizeof kernel[t], "%s", plan.kernel);
        problem_free(&p);
    }
    assert_string_equal(kernel[0], kernel[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_poison), cmocka_unit_test(test_simple_figure), cmocka_unit_test(test_bf16_dp) };
    const char *isa = getenv("ATTN_ISA");
    problem_case one = { .b = 1, .sq = 1, .sk = 1, .h = 1, .d = 1 };
    problem p = problem_make(&one, 1);
    attn_status s = attn_forward(&p.d);
    problem_free(&p);
    if (isa && s == ATTN_ERR_ISA) {
        printf("skipped: this machine has no %s\n0 passed, 0 failed, 1 skipped\n", isa);
        return 0;
    }
    if (isa && strcmp(isa, attn_isa())) {
        printf("ATTN_ISA=%s runs %s\n", isa, attn_isa());
        return 1;
    }
    return run_rows("standard", rows, COUNT(rows), sizeof rows[0], test_standard)
         + run_rows("flash", rows, COUNT(rows), sizeof rows[0], test_flash)
         + run_rows("standard backward", rows, COUNT(rows) - 1, sizeof rows[0], test_standard_backward)
         + run_rows("flash backward", rows, COUNT(rows) - 1, sizeof rows[0], test_flash_backward)
         + cmocka_run_group_tests_name("not finite", tests, NULL, NULL);
}
