/* merge.c - attn_merge against its definition, row by row; and that merging, converting and appending neither follow nor change the
 * caller's rounding mode. */
#include "unit.h"
#include <fenv.h>

/* ------------------------------------------------------------------------------------------ the merge */
typedef struct merge_case {
    const char *name;
    int64_t b, s, h, dv, parts;
    int o, part;                                /* dtypes; part -1: a different one in each part */
    int sink, packed, strided;
} merge_case;

static const merge_case cases[] = {
    { .name = "no parts", .b = 1, .s = 2, .h = 2, .dv = 5, .parts = 0 },
    { .name = "no parts, sink", .b = 1, .s = 2, .h = 2, .dv = 5, .parts = 0, .sink = 1 },
    { .name = "one part", .b = 2, .s = 3, .h = 2, .dv = 64, .parts = 1, .o = ATTN_F64, .part = ATTN_F64 },
    { .name = "63 columns", .b = 1, .s = 5, .h = 3, .dv = 63, .parts = 2, .o = ATTN_F64, .part = ATTN_F64 },
    { .name = "65 columns", .b = 1, .s = 5, .h = 3, .dv = 65, .parts = 3, .o = ATTN_F64, .part = ATTN_F64, .sink = 1 },
    { .name = "200 columns, strides", .b = 2, .s = 7, .h = 4, .dv = 200, .parts = 4, .o = ATTN_F64, .part = ATTN_F64, .strided = 1 },
    { .name = "f32", .b = 3, .s = 17, .h = 2, .dv = 130, .parts = 3, .o = ATTN_F32, .part = ATTN_F32 },
    { .name = "every type", .b = 2, .s = 9, .h = 3, .dv = 129, .parts = 4, .o = ATTN_F16, .part = -1, .sink = 1, .strided = 1 },
    { .name = "packed", .b = 3, .s = 9, .h = 3, .dv = 96, .parts = 3, .o = ATTN_BF16, .part = -1, .packed = 1, .sink = 1 },
    { .name = "on threads", .b = 2, .s = 151, .h = 3, .dv = 70, .parts = 3, .o = ATTN_F32, .part = -1, .sink = 1 },
    { .name = "more parts than have their weights kept", .b = 1, .s = 40, .h = 1, .dv = 70, .parts = 40, .o = ATTN_F32, .part = -1, .sink = 1 },
    { .name = "one column, many parts", .b = 1, .s = 40, .h = 1, .dv = 1, .parts = 9, .o = ATTN_F64, .part = ATTN_F64, .sink = 1 },
};
enum { MOST = 40 };

typedef struct merge {
    attn_desc d;
    attn_in o[MOST];
    const float *lse[MOST];
    float *own_lse[MOST], sink[8];
    void *mem[MOST + 1];
    int32_t cu[4];
    int64_t batch, tokens, size;                /* batch entries and tokens of the tensors; elements of one */
} merge;

/* Rows by number: 1 of 7 has an empty part 0, 1 of 11 is empty in every part, 1 of 13 has a NaN lse in its last part, 1 of 17
 * in its first, 1 of 19 in one part and nothing in the others; the o of an empty part is NaN. */
static void merge_make(merge *out, const merge_case *c, uint64_t seed)
{
    static const int types[] = { ATTN_F64, ATTN_F32, ATTN_BF16, ATTN_F16 };
    uint64_t r = seed;
    memset(out, 0, sizeof *out);
    attn_desc *d = &out->d;
    d->batch = c->b, d->q_len = c->s, d->kv_len = 1, d->heads = c->h, d->head_dim = 1, d->v_dim = c->dv;
    out->batch = c->packed ? 1 : c->b, out->tokens = c->packed ? 2 + c->s * (c->b - 1) : c->s;
    if (c->packed) {
        for (int i = 1; i <= c->b; i++) out->cu[i] = 2 + (int32_t)c->s * (i - 1);
        d->seq.cu_q = out->cu, d->seq.total_q = out->tokens;
    }
    const int64_t rows = out->batch * out->tokens * c->h, gap = c->strided ? 3 : 0;
    out->size = rows * (c->dv + gap);
    d->o.dtype = c->o;
    if (gap) d->o.stride[0] = out->tokens * c->h * (c->dv + gap), d->o.stride[1] = c->dv + gap, d->o.stride[2] = out->tokens * (c->dv + gap);
    d->o.data = out->mem[MOST] = malloc((size_t)(out->size * 8));
    d->lse = malloc((size_t)rows * 4);
    memset(d->o.data, 0xee, (size_t)(out->size * 8));
    for (int64_t h = 0; h < c->h; h++) out->sink[h] = (float)(2 * random_gauss(&r));
    if (c->sink) d->sink = out->sink;
    for (int64_t p = 0; p < c->parts; p++) {
        out->o[p].dtype = c->part < 0 ? types[p % 4] : c->part;
        out->o[p].data = out->mem[p] = malloc((size_t)(out->size * 8));
        out->lse[p] = out->own_lse[p] = malloc((size_t)rows * 4);
        if (p % 2) memcpy(out->o[p].stride, d->o.stride, sizeof d->o.stride);
        for (int64_t i = 0; i < out->size; i++) element_put(out->mem[p], out->o[p].dtype, i, random_gauss(&r));
        for (int64_t i = 0; i < rows; i++) {
            const int empty = i % 11 == 10 || (i % 7 == 6 && p == 0);
            out->own_lse[p][i] = empty ? -INFINITY : (float)(3 * random_gauss(&r) + (i % 5 == 4 ? 200 : 0));
            if ((i % 13 == 12 && p == c->parts - 1) || (i % 17 == 16 && p == 0)) out->own_lse[p][i] = NAN;
            if (i % 19 == 18) out->own_lse[p][i] = p == i / 19 % c->parts ? NAN : -INFINITY;
        }
    }
}
static const int64_t *strides(const merge *m, const int64_t *given, int64_t dense[3])
{
    dense[0] = m->tokens * m->d.heads * m->d.v_dim, dense[1] = m->d.heads * m->d.v_dim, dense[2] = m->d.v_dim;
    return given[0] || given[1] || given[2] ? given : dense;
}
static void merge_free(merge *m)
{
    for (int i = 0; i <= MOST; i++) free(m->mem[i]);
    for (int i = 0; i < MOST; i++) free(m->own_lse[i]);
    free(m->d.lse);
}

/* One row: lse = log(sum of exp(lse_p), sink), o = sum of exp(lse_p - lse) o_p. A NaN is passed on; without any key, 0. */
static void check_row(const merge *m, int64_t parts, int64_t b, int64_t i, int64_t h)
{
    const int64_t row = (b * m->d.heads + h) * m->tokens + i;
    int64_t dense[3];
    double max = m->d.sink ? (double)m->sink[h] : -INFINITY, sum;
    int nan = 0;
    for (int64_t p = 0; p < parts; p++) {
        nan |= isnan(m->lse[p][row]);
        if ((double)m->lse[p][row] > max) max = (double)m->lse[p][row];
    }
    const int empty = !nan && isinf(max);
    sum = m->d.sink ? exp((double)m->sink[h] - max) : 0;
    for (int64_t p = 0; p < parts; p++) sum += empty ? 0 : exp((double)m->lse[p][row] - max);
    const double lse = empty ? -INFINITY : max + log(sum), got = (double)m->d.lse[row];
    if (nan ? !isnan(got) : empty ? got != lse : fabs(got - lse) > 1e-6 * (1 + fabs(lse))) fail_msg("row %d: lse %g, not %g", (int)row, got, lse);
    for (int64_t c = 0; c < m->d.v_dim; c++) {
        double want = 0, size = 0;
        for (int64_t p = 0; p < parts && !nan && !empty; p++) {
            if (isinf(m->lse[p][row])) continue;
            const double x = element_get(m->o[p].data, m->o[p].dtype, at(strides(m, m->o[p].stride, dense), b, i, h) + c);
            want += exp((double)m->lse[p][row] - max) / sum * x;
            size += exp((double)m->lse[p][row] - max) / sum * fabs(x);
        }
        const double x = element_get(m->d.o.data, m->d.o.dtype, at(strides(m, m->d.o.stride, dense), b, i, h) + c);
        if (nan ? !isnan(x) : !(fabs(x - want) <= 1e-14 * size + dtype_unit(m->d.o.dtype) * fabs(want) + 1e-7 * (m->d.o.dtype == ATTN_F16)))
            fail_msg("row %d column %d: %.17g, not %.17g", (int)row, (int)c, x, want);
    }
}

static void test_merge(void **state)
{
    const merge_case *c = *state;
    for (int o_alone = 0; o_alone < 2; o_alone++) {
        merge m;
        merge_make(&m, c, 5);
        /* an empty part's o is not read */
        for (int64_t p = 0; p < c->parts; p++)
            for (int64_t row = 0; row < m.batch * m.tokens * c->h; row++) {
                int64_t dense[3];
                const int64_t i = row % m.tokens, h = row / m.tokens % c->h, b = row / m.tokens / c->h;
                for (int64_t k = 0; k < c->dv && isinf(m.lse[p][row]); k++)
                    element_put(m.mem[p], m.o[p].dtype, at(strides(&m, m.o[p].stride, dense), b, i, h) + k, NAN);
            }
        float *lse = m.d.lse;
        if (o_alone) {                          /* lse is optional, and what was there stays */
            m.d.lse = NULL;
            assert_ok(attn_merge(&m.d, c->parts, m.o, m.lse));
            m.d.lse = lse;
            char *alone = malloc((size_t)(m.size * 8));
            memcpy(alone, m.d.o.data, (size_t)(m.size * 8));
            assert_ok(attn_merge(&m.d, c->parts, m.o, m.lse));
            assert_memory_equal(alone, m.d.o.data, m.size * 8);
            free(alone);
        } else {
            assert_ok(attn_merge(&m.d, c->parts, m.o, m.lse));
            for (int64_t b = 0; b < m.batch; b++)
                for (int64_t i = 0; i < m.tokens; i++)
                    for (int64_t h = 0; h < c->h; h++) check_row(&m, c->parts, b, i, h);
            const int64_t gap = m.d.o.stride[0] ? 3 : 0;            /* the elements between rows are not ours */
            for (int64_t i = 0; gap && i < m.size; i++)
                if (i % (c->dv + gap) >= c->dv) {
                    const char *p = (const char *)m.d.o.data + i * dtype_size(c->o);
                    for (int64_t k = 0; k < dtype_size(c->o); k++) assert_int_equal((unsigned char)p[k], 0xee);
                }
        }
        m.d.lse = lse;
        merge_free(&m);
    }
}

/* No byte of an output may lie in an input or in the other output: o in each part's o and lse, the last bytes included. */
static void test_overlap(void **state)
{
    static const merge_case c = { .b = 2, .s = 3, .h = 2, .dv = 8, .parts = 2, .o = ATTN_F32, .part = ATTN_F32, .sink = 1 };
    enum { ROWS = 12, BYTES = ROWS * 8 * 4 };
    static char block[BYTES * 3] __attribute__((aligned(64)));
    const struct { int which; int64_t bytes; } things[] = { { 0, BYTES }, { 1, ROWS * 4 }, { 2, BYTES }, { 3, ROWS * 4 }, { 4, 2 * 4 } };
    (void)state;
    for (int a = 0; a < 2; a++)                 /* o, lse against lse, a part's o, a part's lse, the sink */
        for (int k = a + 1; k < 5; k++)
            for (int64_t shift = -things[k].bytes; shift <= things[a].bytes; shift += 4) {
                merge m;
                merge_make(&m, &c, 6);
                m.d.kv_heads = 1;               /* a sink is of each query head */
                void *o = m.d.o.data;
                float *lse = m.d.lse;
                char *mine = block + BYTES, *other = mine + shift;
                memset(block, 0, sizeof block);
                if (a == 0) m.d.o.data = mine; else m.d.lse = (float *)(void *)mine;
                if (k == 1) m.d.lse = (float *)(void *)other;
                else if (k == 2) m.o[1].data = other;
                else if (k == 3) m.lse[1] = (float *)(void *)other;
                else m.d.sink = (float *)(void *)other;
                const int apart = shift <= -things[k].bytes || shift >= things[a].bytes;
                assert_int_equal(attn_merge(&m.d, 2, m.o, m.lse), apart ? ATTN_OK : ATTN_ERR_OVERLAP);
                m.d.o.data = o, m.d.lse = lse;
                merge_free(&m);
            }
}

/* ------------------------------------------------------------------------------------------ the caller's rounding mode */
static const int modes[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };

/* The same bytes in every mode, and the mode is the caller's again. `what` writes n bytes at most to out. */
static void in_every_mode(void (*what)(char *out), size_t n)
{
    char *want = malloc(n), *got = malloc(n);
    for (int i = 0; i < 4; i++) {
        memset(got, 0, n), memset(want, 0, i ? 0 : n);
        fesetround(modes[i]);
        what(i ? got : want);
        const int after = sums_round(modes[i]) ? fegetround() : -1;
        fesetround(FE_TONEAREST);
        assert_int_equal(after, modes[i]);
        if (i) assert_memory_equal(got, want, n);
    }
    free(want), free(got);
}
/* Data is made before: what makes it would round too. */
static merge rounded;
static void merge_into(char *out)
{
    attn_status s = attn_merge(&rounded.d, 3, rounded.o, rounded.lse);
    memcpy(out, &s, sizeof s);
    memcpy(out + 8, rounded.d.o.data, (size_t)(rounded.size * 8));
}
static void test_merge_mode(void **state)
{
    (void)state;
    for (int64_t i = 3; i < COUNT(cases); i++) {
        if (cases[i].parts < 3) continue;
        merge_make(&rounded, &cases[i], 7);
        assert_ok(attn_merge(&rounded.d, 3, rounded.o, rounded.lse));
        in_every_mode(merge_into, (size_t)(rounded.size * 8 + 8));
        merge_free(&rounded);
    }
}

/* A query computes with numbers too, and says the same. */
static void query_into(char *out)
{
    attn_desc d = { 0 };
    attn_plan plan;
    d.batch = 2, d.heads = 3, d.q_len = 300, d.kv_len = 500, d.head_dim = 40, d.flags = ATTN_CAUSAL;
    const attn_status s = attn_query(&d, NULL, &plan);
    memcpy(out, &s, sizeof s), memcpy(out + 8, &plan.workspace_size, sizeof plan.workspace_size), memcpy(out + 16, &plan.threads, sizeof plan.threads);
}
static void test_query_mode(void **state)
{
    (void)state;
    in_every_mode(query_into, 24);
}

/* Parts of numbers below the least normal one: their mean is no 0, of any type. */
static void test_small_parts(void **state)
{
    enum { DIM = 40 };
    static float part[2][DIM], lse[2][1], o[DIM];
    static double wide[2][DIM], got[DIM];
    (void)state;
    for (int i = 0; i < 2 * DIM; i++) part[i / DIM][i % DIM] = 0x1p-149f * (float)(2 * i + 2), wide[i / DIM][i % DIM] = 0x1p-1070 * (i + 1);
    for (int n = 0; n < 2; n++) {
        attn_desc d = { 0 };
        attn_in in[2] = { { 0 }, { 0 } };
        const float *from[2] = { lse[0], lse[1] };
        for (int p = 0; p < 2; p++) in[p].data = n ? (void *)wide[p] : part[p], in[p].dtype = n ? ATTN_F64 : ATTN_F32;
        d.batch = d.q_len = d.kv_len = d.heads = 1, d.head_dim = d.v_dim = DIM;
        d.o.data = n ? (void *)got : o, d.o.dtype = n ? ATTN_F64 : ATTN_F32;
        assert_ok(attn_merge(&d, 2, in, from));
        for (int i = 0; i < DIM; i++) {
            const double want = n ? 0.5 * (wide[0][i] + wide[1][i]) : 0x1p-149 * (2 * i + 2 + DIM), is = n ? got[i] : (double)o[i];
            if (is < want || is > want) fail_msg("%s: %g, not %g", n ? "f64" : "f32", is, want);
        }
    }
}

enum { VALUES = 4000 };
static double values[VALUES];
static int from_type, to_type;
static char source[VALUES * 8];
static void convert_into(char *out)
{
    const int64_t shape[4] = { 1, 10, 4, VALUES / 40 };
    attn_in in = { 0 };
    attn_out to = { 0 };
    in.data = source, in.dtype = from_type, in.layout = ATTN_BHSD;
    to.data = out, to.dtype = to_type;
    if (attn_convert(shape, in, to, NULL)) out[0] = 'x';
}
static void test_convert_mode(void **state)
{
    uint64_t r = 8;
    (void)state;
    for (int i = 0; i < VALUES; i++) values[i] = random_gauss(&r) * pow(2, 40 * random_unit(&r) - 30);
    for (from_type = ATTN_F32; from_type <= ATTN_F64; from_type++)
        for (to_type = ATTN_F32; to_type <= ATTN_F64; to_type++) {
            for (int i = 0; i < VALUES; i++) element_put(source, from_type, i, values[i]);
            in_every_mode(convert_into, VALUES * 8);
        }
}

/* Two sequences of one key append three, rotated, to caches of each type. */
enum { HEADS = 2, DIM = 64, ROOM = 5, NEW = 3, CACHE = 2 * ROOM * HEADS * DIM };
static int cache_type;
static const char *appending;
static float new_q[2 * NEW * HEADS * DIM], new_k[2 * NEW * HEADS * DIM], new_v[2 * NEW * HEADS * DIM], cosine[ROOM * DIM / 2], sine[ROOM * DIM / 2];
static void append_into(char *out)
{
    static const int32_t used[2] = { 1, 0 };
    attn_desc d = { 0 };
    char *k = out, *v = out + CACHE * 8;
    float *k_scale = (float *)(void *)(out + CACHE * 16), *v_scale = k_scale + CACHE;
    d.batch = 2, d.heads = d.kv_heads = HEADS, d.head_dim = DIM, d.q_len = NEW, d.kv_len = ROOM;
    d.backend = appending, d.flags = ATTN_CAUSAL;
    d.q.data = new_q, d.k.data = k, d.v.data = v, d.o.data = v_scale + CACHE;
    d.k.dtype = d.v.dtype = cache_type;
    if (cache_type == ATTN_INT8 || cache_type == ATTN_FP8_E4M3) d.k.scale = d.append.k_scale = k_scale, d.v.scale = d.append.v_scale = v_scale;
    d.seq.used_k = used;
    d.append.len = NEW, d.append.k.data = new_k, d.append.v.data = new_v, d.append.k_cache = k, d.append.v_cache = v;
    d.append.rotary_cos = cosine, d.append.rotary_sin = sine, d.append.rotary_dim = DIM, d.append.rotary_rows = ROOM;
    d.threads = 1;
    const attn_status s = attn_forward(&d);
    memcpy(out + CACHE * 28, &s, sizeof s);
}
static void test_append_mode(void **state)
{
    static const int types[] = { ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_INT8, ATTN_FP8_E4M3 };
    uint64_t r = 9;
    (void)state;
    for (int64_t i = 0; i < COUNT(new_k); i++) new_q[i] = (float)random_gauss(&r), new_k[i] = (float)random_gauss(&r), new_v[i] = (float)random_gauss(&r);
    for (int64_t i = 0; i < COUNT(cosine); i++) cosine[i] = (float)cos((double)i), sine[i] = (float)sin((double)i);
    for (int64_t i = 0; i < 3; i++)
        for (int64_t t = 0; t < COUNT(types); t++) {
            static char probe[CACHE * 28 + 16];
            static const char *const names[] = { "reference", "flash", "standard" };
            attn_status s;
            appending = names[i], cache_type = types[t];
            append_into(probe);
            memcpy(&s, probe + CACHE * 28, sizeof s);
            if (s == ATTN_ERR_DECLINED && i > 0) continue;
            assert_ok(s);
            in_every_mode(append_into, sizeof probe);
        }
}

/* The caller's threads have a mode of their own; enough is appended for them to take part. */
static int as_was(void)
{
    volatile float one = 1, least = 0x1p-140f;
    return sums_round(FE_UPWARD) && one * least > 0 && fegetround() == FE_UPWARD;
}
static void upward(void *user, void (*task)(void *arg, int64_t i), void *arg, int64_t n)
{
    ++*(int *)user;
    for (int64_t i = 0; i < n; i++) {
        fesetround(FE_UPWARD);
        task(arg, i);
        *(int *)user += as_was() ? 0 : 1000;
    }
    fesetround(FE_TONEAREST);
}
static void test_pool_mode(void **state)
{
    enum { TOKENS = 128, N = 2 * TOKENS * HEADS * DIM };
    static float data[3][N], o[N], tables[TOKENS * DIM / 2];
    static const int32_t used[2] = { 0, 0 };
    static const int types[] = { ATTN_BF16, ATTN_F32, ATTN_INT8 };
    static float caches[2][2][N], scales[2][2][N / DIM];
    int runs = 0;
    attn_pool pool = { upward, &runs, 3 };
    uint64_t r = 10;
    (void)state;
    for (int64_t i = 0; i < N; i++) data[0][i] = (float)random_gauss(&r), data[1][i] = (float)random_gauss(&r), data[2][i] = (float)random_gauss(&r);
    for (int64_t i = 0; i < COUNT(tables); i++) tables[i] = (float)cos((double)i);
    for (int n = 0; n < 2 * COUNT(types); n++) {
        const int own = n % 2;
        attn_desc d = { 0 };
        d.batch = 2, d.heads = d.kv_heads = HEADS, d.head_dim = DIM, d.q_len = d.kv_len = TOKENS, d.backend = "flash";
        d.q.data = data[0], d.k.data = caches[own][0], d.v.data = caches[own][1], d.o.data = o;
        d.k.dtype = d.v.dtype = types[n / 2];
        if (types[n / 2] == ATTN_INT8) d.k.scale = d.append.k_scale = scales[own][0], d.v.scale = d.append.v_scale = scales[own][1];
        d.seq.used_k = used;
        d.append.len = TOKENS, d.append.k.data = data[1], d.append.v.data = data[2];
        d.append.k_cache = caches[own][0], d.append.v_cache = caches[own][1];
        d.append.rotary_cos = d.append.rotary_sin = tables, d.append.rotary_dim = DIM, d.append.rotary_rows = TOKENS;
        d.threads = own ? 0 : 1, d.pool = own ? &pool : NULL;
        assert_ok(attn_forward(&d));
        if (!own) continue;
        assert_true(runs >= 2 && runs < 1000);              /* append and attention; no task left another mode */
        assert_memory_equal(caches[1], caches[0], sizeof caches[0]), assert_memory_equal(scales[1], scales[0], sizeof scales[0]);
        runs = 0;
    }

    static float merged[2][N], lse[4][2 * TOKENS * HEADS];
    attn_in parts[4] = { { 0 } };
    const float *lses[4];
    for (int p = 0; p < 4; p++) {
        parts[p].data = data[p % 3], lses[p] = lse[p];
        for (int64_t i = 0; i < 2 * TOKENS * HEADS; i++) lse[p][i] = (float)random_gauss(&r);
    }
    runs = 0;
    for (int own = 0; own < 2; own++) {
        attn_desc d = { 0 };
        d.batch = 2, d.heads = HEADS, d.head_dim = DIM, d.q_len = TOKENS, d.o.data = merged[own];
        d.threads = own ? 0 : 1, d.pool = own ? &pool : NULL;
        assert_ok(attn_merge(&d, 4, parts, lses));
    }
    assert_true(runs == 1);
    assert_memory_equal(merged[1], merged[0], sizeof merged[0]);
}

/* A sum is rounded once: a part alone, of f64, becomes what attn_convert makes of it. */
static void test_rounded_once(void **state)
{
    enum { N = 70 };
    static const int types[] = { ATTN_F32, ATTN_F16, ATTN_BF16 };
    double part[N];
    const float lse[1] = { 0.5f }, *lses[1] = { lse };
    (void)state;
    for (int i = 0; i < N; i++) part[i] = (1 + ldexp(1, -(i % 7 == 0 ? 24 : i % 7 < 4 ? 11 : 8)) + ldexp(i % 2 ? 1 : -1, -40)) * (i % 3 ? 1 : -1);
    for (int t = 0; t < 3; t++) {
        float want[N], got[N];
        const int64_t shape[4] = { 1, 1, 1, N };
        attn_in in = { 0 };
        attn_out out = { 0 };
        attn_desc d = { 0 };
        memset(want, 0, sizeof want), memset(got, 0, sizeof got);
        in.data = part, in.dtype = ATTN_F64;
        out.data = want, out.dtype = types[t];
        assert_ok(attn_convert(shape, in, out, NULL));
        d.batch = d.q_len = d.kv_len = d.heads = d.head_dim = 1, d.v_dim = N, d.o.data = got, d.o.dtype = types[t];
        assert_ok(attn_merge(&d, 1, &in, lses));
        assert_memory_equal(got, want, sizeof want);
    }
}

/* A sink of infinity or NaN: the lse of a row of empty parts is the sink; of one that has keys it is no number. */
static void test_infinite_sink(void **state)
{
    enum { ROWS = 2 };
    static const float none[ROWS] = { -INFINITY, -INFINITY }, some[ROWS] = { 1, 2 };
    static float part[ROWS * 4], o[ROWS * 4], lse[ROWS];
    const float *lses[2];
    attn_in parts[2] = { { 0 } };
    (void)state;
    parts[0].data = parts[1].data = part;
    for (int n = 0; n < 8; n++) {
        const float sink[1] = { n & 1 ? NAN : INFINITY };
        const int count = n >> 1 & 3;
        attn_desc d = { 0 };
        lses[0] = none, lses[1] = count == 3 ? some : none;
        d.batch = d.heads = 1, d.head_dim = 4, d.q_len = ROWS, d.o.data = o, d.lse = lse, d.sink = sink;
        assert_ok(attn_merge(&d, count < 3 ? count : 2, parts, lses));
        for (int i = 0; i < ROWS; i++)
            if (count < 3 && !(n & 1) ? !(lse[i] == INFINITY) || !(o[i * 4] == 0) : !isnan(lse[i])) fail_msg("sink %g, %d parts: lse %g, o %g", (double)sink[0], count, (double)lse[i], (double)o[i * 4]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlap), cmocka_unit_test(test_small_parts), cmocka_unit_test(test_merge_mode), cmocka_unit_test(test_query_mode), cmocka_unit_test(test_convert_mode), cmocka_unit_test(test_append_mode),
        cmocka_unit_test(test_pool_mode), cmocka_unit_test(test_rounded_once), cmocka_unit_test(test_infinite_sink),
    };
    return RUN_ROWS(cases, test_merge) + cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
