/* planes.c - caches of int16, whose high and low bytes lie in planes: where each byte is, every code, what an append writes, every
 * layout, and what is refused. Against bytes counted here, and the f64 reference on the values that the codes stand for. */
#include "unit.h"

enum { PIECE = 8192, HALF = 4096 };

static uint64_t state = 1;

/* ---- one key alone is its value: every pair of bytes, in vectors of every width ---- */
static void test_codes(void **unused)
{
    enum { HEADS = 1024, DIM = 64 };
    static char codes[16 * PIECE];
    static float scale[HEADS], o[HEADS * DIM], k[HEADS * 16], q[HEADS * 16];
    (void)unused;
    for (int64_t i = 0; i < HEADS * DIM; i++) codes[i / HALF * PIECE + i % HALF] = (char)(i >> 8), codes[i / HALF * PIECE + HALF + i % HALF] = (char)(i & 255);
    for (int64_t h = 0; h < HEADS; h++) scale[h] = 0.5f;
    for (int b = 0; b < 3; b++) {
        attn_desc d = { 0 };
        d.batch = d.q_len = d.kv_len = 1, d.heads = HEADS, d.head_dim = 16, d.v_dim = DIM, d.backend = b == 0 ? "reference" : b == 1 ? "flash" : "standard";
        d.q.data = q, d.k.data = k, d.v.data = codes, d.v.dtype = ATTN_INT16, d.v.scale = scale, d.o.data = o;
        assert_ok(attn_forward(&d));
        for (int64_t i = 0; i < HEADS * DIM; i++) {
            const float want = 0.5f * ((float)(int8_t)(i >> 8) + (float)(int8_t)(i & 255) / 256);
            if (o[i] < want || o[i] > want) fail_msg("%s: code %04x is %g, not %g", d.backend, (unsigned)i, (double)o[i], (double)want);
        }
    }
}

/* ---- layouts ---- */
enum { BSHD, BHSD, SPACED, BACKWARDS, PAGED, SLOTS };
typedef struct layout_case { const char *name; int how; int64_t page; } layout_case;
static const layout_case layouts[] = { { "[B,S,H,D]", BSHD, 0 }, { "[B,H,S,D]", BHSD, 0 }, { "spaced", SPACED, 0 }, { "backwards", BACKWARDS, 0 },
    { "pages of 1", PAGED, 1 }, { "pages of 3", PAGED, 3 }, { "pages of 64", PAGED, 64 }, { "slots", SLOTS, 0 } };
typedef struct shape { int64_t batch, q_len, kv_len, heads, kv_heads, dim, v_dim; uint32_t flags; int32_t other; /* type of v, or int16 */ } shape;
static const shape shapes[] = {
    { 1, 1, 300, 4, 1, 128, 128, 0, ATTN_INT16 },  { 2, 1, 70, 4, 2, 64, 64, 0, ATTN_INT16 },    { 1, 3, 130, 2, 2, 48, 80, ATTN_CAUSAL, ATTN_INT16 },
    { 2, 20, 40, 3, 1, 16, 32, ATTN_CAUSAL, ATTN_INT16 }, { 1, 1, 2500, 8, 2, 64, 64, 0, ATTN_INT16 }, { 1, 5, 65, 1, 1, 96, 112, 0, ATTN_F16 },
    { 3, 1, 1, 2, 1, 32, 32, 0, ATTN_INT16 },      { 1, 70, 90, 2, 1, 64, 128, ATTN_CAUSAL, ATTN_F32 } };

/* k or v in a layout, in memory of its own that is whole pieces; value: the same in f64, dense. */
typedef struct tensor { attn_in in; char *codes; float *scale; double *value; } tensor;
static tensor tensor_make(const layout_case *l, int64_t units, int64_t each, int64_t heads, int64_t dim)
{
    const int64_t gap = l->how == SPACED ? 16 : 0, rows = units * each * heads, n = whole_pieces(rows * (dim + gap), ATTN_INT16);
    const int64_t first = l->how == BACKWARDS ? n : 0;     /* data begins behind a whole piece, and most elements are before it */
    tensor t = { { 0 }, malloc((size_t)(n + first + HALF) * 2), malloc((size_t)rows * 4), malloc((size_t)(rows * dim) * 8) };
    memset(t.codes, 0x55, (size_t)(n + first + HALF) * 2);
    dense(t.in.stride, l->how == BHSD ? ATTN_BHSD : ATTN_BSHD, each, heads, dim + gap);
    for (int a = 0; a < 3 && l->how == BACKWARDS; a++) t.in.stride[a] = -t.in.stride[a];
    t.in.dtype = ATTN_INT16, t.in.data = t.codes + 2 * first, t.in.scale = t.scale;
    for (int64_t r = 0; r < rows; r++) {
        t.scale[r] = (float)(0.01 * (1 + random_unit(&state)));
        for (int64_t e = 0; e < dim; e++) {
            const double code = fmax(-127.49609375, fmin(127.49609375, rint(9000 * random_normal(&state)) / 256));
            element_put(t.codes + 2 * first, ATTN_INT16, at(t.in.stride, r / heads / each, r / heads % each, r % heads) + e, code);
            t.value[r * dim + e] = (double)t.scale[r] * code;
        }
    }
    return t;
}
static void tensor_free(tensor *t) { free(t->codes), free(t->scale), free(t->value); }
static void compare(const attn_desc *d, const shape *s, const char *name, const double *want, const float *want_lse, const double *size,
                    const double *pv, const double *lse_size, double most)
{
    const float *o = d->o.data;
    for (int64_t i = 0; i < s->batch * s->q_len * s->heads * s->v_dim; i++)
        if (!(fabs((double)o[i] - want[i]) <= allowed_o(ATTN_F32, want[i], size[i], pv[i], 0, most)))
            fail_msg("%s, %s, dim %d: o[%d] is %g, not %g", d->backend, name, (int)s->dim, (int)i, (double)o[i], want[i]);
    for (int64_t i = 0; i < s->batch * s->q_len * s->heads; i++)
        if (!(fabs((double)d->lse[i] - (double)want_lse[i]) <= allowed_lse((double)want_lse[i], lse_size[i])))
            fail_msg("%s, %s, dim %d: lse[%d] is %g, not %g", d->backend, name, (int)s->dim, (int)i, (double)d->lse[i], (double)want_lse[i]);
}
static void check_layout(const shape *s, const layout_case *l)
{
    const int64_t per = l->page ? (s->kv_len + l->page - 1) / l->page : 1, each = l->page ? l->page : s->kv_len;
    const int64_t units = l->how == PAGED ? s->batch * per + 2 : l->how == SLOTS ? s->batch + 2 : s->batch;
    const int64_t rows = s->batch * s->q_len * s->heads, n = rows * s->v_dim;
    int32_t *table = malloc((size_t)(s->batch * per) * 4), *used = malloc((size_t)s->batch * 4), *slot = malloc((size_t)s->batch * 4);
    for (int64_t i = 0; i < s->batch * per; i++) table[i] = (int32_t)(units - 1 - i);
    for (int64_t b = 0; b < s->batch; b++) used[b] = (int32_t)s->kv_len, slot[b] = (int32_t)(units - 1 - b);
    float *q = malloc((size_t)(rows * s->dim) * 4), *lse = malloc((size_t)rows * 8), *o = malloc((size_t)n * 4);
    double *exact = malloc((size_t)n * 24), *lse_size = malloc((size_t)rows * 8);
    for (int64_t i = 0; i < rows * s->dim; i++) q[i] = (float)random_normal(&state);
    tensor k = tensor_make(l, units, each, s->kv_heads, s->dim), v = tensor_make(l, units, each, s->kv_heads, s->v_dim);
    attn_desc d = { 0 };
    d.batch = s->batch, d.q_len = s->q_len, d.kv_len = s->kv_len, d.heads = s->heads, d.kv_heads = s->kv_heads, d.head_dim = s->dim, d.v_dim = s->v_dim;
    d.flags = s->flags, d.threads = 2, d.q.data = q, d.k = k.in, d.v = v.in, d.lse = lse;
    if (l->how == PAGED) d.seq.block_table = table, d.seq.used_k = used, d.seq.page_size = each, d.seq.pages = units, d.seq.max_pages = per;
    if (l->how == SLOTS) d.seq.slot = slot, d.seq.slots = units;
    /* the same description, its k and v in f64, dense */
    attn_desc e = d;
    e.k = e.v = (attn_in){ .dtype = ATTN_F64 };
    e.k.data = k.value, e.v.data = v.value, e.o.data = exact, e.o.dtype = ATTN_F64, e.lse = lse + rows, e.backend = "reference";
    assert_ok(attn_forward(&e));
    assert_ok(unit_bounds(&e, exact + n, exact + 2 * n, lse_size));
    uint16_t *half = NULL;
    float *wide = NULL;
    if (s->other == ATTN_F16 || s->other == ATTN_F32) {     /* v of another type beside k of int16 */
        const int64_t count = units * each * s->kv_heads * s->v_dim;
        half = malloc((size_t)count * 2), wide = malloc((size_t)count * 4);
        for (int64_t i = 0; i < count; i++) {
            element_put(half, ATTN_F16, i, v.value[i]), wide[i] = (float)v.value[i];
            v.value[i] = s->other == ATTN_F16 ? element_get(half, ATTN_F16, i) : (double)wide[i];
        }
        d.v = (attn_in){ .dtype = s->other };
        d.v.data = s->other == ATTN_F16 ? (void *)half : wide;
        assert_ok(attn_forward(&e));
        assert_ok(unit_bounds(&e, exact + n, exact + 2 * n, lse_size));
    }
    for (int b = 0; b < 3; b++) {
        d.backend = b == 0 ? "reference" : b == 1 ? "flash" : "standard", d.o.data = o;
        memset(o, 0xff, (size_t)n * 4);
        assert_ok(attn_forward(&d));
        compare(&d, s, l->name, exact, lse + rows, exact + n, exact + 2 * n, lse_size, 5);
    }
    free(half), free(wide), free(table), free(used), free(slot), free(q), free(lse), free(o), free(exact), free(lse_size);
    tensor_free(&k), tensor_free(&v);
}
static void test_layouts(void **unused)
{
    (void)unused;
    for (int64_t l = 0; l < COUNT(layouts); l++)
        for (int64_t s = 0; s < COUNT(shapes); s++) check_layout(&shapes[s], &layouts[l]);
}

/* ---- append: bytes, scales, every backend alike ---- */
enum { AB = 2, AN = 5, AROOM = 40, AH = 3, AD = 48 };
static void append_desc(attn_desc *d, float *fresh, void *k, void *v, float *ks, float *vs, const int32_t *used)
{
    static float q[AB * AN * AH * AD], o[AB * AN * AH * AD];
    memset(d, 0, sizeof *d);
    d->batch = AB, d->q_len = AN, d->kv_len = AROOM, d->heads = AH, d->head_dim = AD, d->q.data = q, d->o.data = o, d->seq.used_k = used;
    d->k.data = d->append.k_cache = k, d->v.data = d->append.v_cache = v, d->k.scale = d->append.k_scale = ks, d->v.scale = d->append.v_scale = vs;
    d->k.dtype = d->v.dtype = ATTN_INT16, d->append.k.data = d->append.v.data = fresh, d->append.len = AN;
}
static void test_append(void **unused)
{
    enum { PIECES = (AB * AROOM * AH * AD + HALF - 1) / HALF };
    static signed char k[3][PIECES * PIECE], v[3][PIECES * PIECE];
    static float fresh[AB * AN * AH * AD], ks[3][AB * AROOM * AH], vs[3][AB * AROOM * AH], table[2 * AROOM * 8];
    static const int32_t used[AB] = { 3, 33 }, start[AB] = { 2, 5 };
    (void)unused;
    for (int rotary = 0; rotary < 3; rotary++) {              /* 2: positions count from the first key */
        for (int64_t i = 0; i < COUNT(fresh); i++) fresh[i] = (float)(random_normal(&state) * exp(4 * random_normal(&state)));
        for (int64_t i = 0; i < COUNT(table); i++) table[i] = (float)cos(0.37 * (double)i);
        for (int e = 0; e < AD; e++) fresh[e] = 0, fresh[AD + e] = 0x1p-130f * (float)e, fresh[2 * AD + e] = e == 7 ? INFINITY : 1;
        for (int e = 0; e < AD; e++) fresh[4 * AD + e] = 0x1.8p-120f * (float)(e + 1) / AD, fresh[5 * AD + e] = e ? 0 : 0x1p-126f * (32639.0f / 256);
        for (int e = 0; e < AD; e++) fresh[3 * AD + e] = (float)(e - 24) * (127.49609375f / 24) / 256; /* products of halves: ties */
        for (int b = 0; b < 3; b++) {
            attn_desc d;
            memset(k[b], 0x66, sizeof k[b]), memset(v[b], 0x66, sizeof v[b]), memset(ks[b], 0, sizeof ks[b]), memset(vs[b], 0, sizeof vs[b]);
            append_desc(&d, fresh, k[b], v[b], ks[b], vs[b], used);
            d.backend = b == 0 ? "reference" : b == 1 ? "flash" : "standard";
            if (rotary) d.append.rotary_cos = table, d.append.rotary_sin = table + AROOM * 8, d.append.rotary_dim = 16, d.append.rotary_rows = AROOM;
            if (rotary == 2) d.seq.start_k = start;
            assert_ok(attn_forward(&d));
        }
        for (int b = 1; b < 3; b++) {
            assert_memory_equal(k[b], k[0], sizeof k[0]), assert_memory_equal(v[b], v[0], sizeof v[0]);
            assert_memory_equal(ks[b], ks[0], sizeof ks[0]), assert_memory_equal(vs[b], vs[0], sizeof vs[0]);
        }
        /* v is never rotated: its bytes, and those that nobody wrote */
        for (int64_t r = 0; r < AB * AROOM * AH; r++) {
            const int64_t b = r / AH / AROOM, t = r / AH % AROOM, h = r % AH;
            const int fresh_row = t >= used[b] && t < used[b] + AN;
            const float *x = fresh + (fresh_row ? ((b * AN + t - used[b]) * AH + h) * AD : 0);
            float amax = 0, scale;
            int finite = 1;
            for (int e = 0; e < AD && fresh_row; e++) amax = fmaxf(amax, fabsf(x[e])), finite &= is_finitef(x[e]);
            scale = amax / (32639.0f / 256);
            if (scale < 0x1p-126f) scale = 0;
            if (fresh_row && finite) assert_true(float_bits(vs[0][r]) == float_bits(scale));
            if (fresh_row && !finite) assert_true(vs[0][r] != vs[0][r]);
            for (int e = 0; e < AD; e++) {
                const int64_t i = r * AD + e, high = i / HALF * PIECE + i % HALF;
                volatile float ratio = finite && scale > 0 && fresh_row ? x[e] / scale : 0;
                const double code = fmax(-32639, fmin(32639, nearbyint(256 * (double)ratio))), most = floor((code + 128) / 256);
                const signed char want[2] = { (signed char)(fresh_row ? most : 0x66), (signed char)(fresh_row ? code - 256 * most : 0x66) };
                if (v[0][high] != want[0] || v[0][high + HALF] != want[1])
                    fail_msg("token %d, head %d, %d: bytes %d and %d, not %d and %d", (int)t, (int)h, e, v[0][high], v[0][high + HALF], want[0], want[1]);
            }
        }
    }
}

/* ---- what lies in a tensor's last piece is the tensor's; misaligned rows are refused ---- */
static void test_overlap(void **unused)
{
    static char room[4 * PIECE];
    static float fresh[16], scale[64];
    static const int32_t used[1] = { 1 };
    static const struct { int64_t o; attn_status s; } places[] = { { 0, ATTN_ERR_OVERLAP }, { HALF - 64, ATTN_ERR_OVERLAP }, { PIECE - 64, ATTN_ERR_OVERLAP }, { PIECE, ATTN_OK } };
    (void)unused;
    for (int64_t n = 0; n < COUNT(places); n++) {
        attn_desc d = { 0 };
        d.batch = d.heads = d.q_len = 1, d.kv_len = 2, d.head_dim = 16, d.q.data = fresh, d.seq.used_k = used;
        d.k.data = room, d.v.data = room + 2 * PIECE, d.k.dtype = d.v.dtype = ATTN_INT16, d.k.scale = scale, d.v.scale = scale + 32;
        d.o.data = room + places[n].o;
        assert_int_equal(attn_forward(&d), places[n].s);
        d.o.data = room + 2 * PIECE + places[n].o;
        assert_int_equal(attn_forward(&d), places[n].s);
    }
}

/* ---- a cache whose rows may lie in two pieces, by any of its strides, is not decoded from planes ---- */
static void test_across(void **unused)
{
    static char codes[2 * ATTN_PLANE];
    static float scale[1], q[2 * 64], o[2 * 64];
    (void)unused;
    for (int n = 0; n < 7; n++) {
        attn_desc d = { 0 };
        attn_plan plan;
        d.batch = 2, d.heads = d.kv_heads = 2, d.q_len = 1, d.kv_len = 4096, d.head_dim = 64, d.backend = "adaptive", d.tolerance = 0.05f;
        d.q.data = q, d.k.data = codes, d.v.data = codes, d.o.data = o, d.k.dtype = d.v.dtype = ATTN_INT16, d.k.scale = d.v.scale = scale;
        d.k.stride[0] = d.v.stride[0] = 4096 * 192, d.k.stride[1] = d.v.stride[1] = 192, d.k.stride[2] = d.v.stride[2] = 64;
        if (n) (n % 2 ? d.k.stride : d.v.stride)[(n - 1) / 2] += 16;
        const attn_status s = attn_query(&d, NULL, &plan);
        if (s != (n ? ATTN_ERR_DECLINED : ATTN_OK) || (n && !strstr(plan.why, "two pieces"))) fail_msg("case %d: %s, %s", n, attn_status_name(s), plan.why);
    }
}

/* ---- decode ---- */
static void fill_codes(char *k, char *v, size_t bytes, uint64_t *r)
{
    for (size_t i = 0; i < bytes; i++) k[i] = (char)(int)(random_unit(r) * 60 - 30), v[i] = (char)(int)(random_unit(r) * 60 - 30);
}
/* One query of 64 dims against so many keys in planes, with a tolerance of 0.05. */
static attn_desc decoded(int64_t keys, const float *q, const char *k, const char *v, const float *k_scale, const float *v_scale, float *o)
{
    attn_desc d = { 0 };
    d.batch = d.heads = d.q_len = 1, d.kv_len = keys, d.head_dim = 64, d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o;
    d.k.dtype = d.v.dtype = ATTN_INT16, d.k.scale = k_scale, d.v.scale = v_scale, d.tolerance = 0.05f, d.backend = "adaptive";
    return d;
}
/* The same by the reference, in f64. */
static void exactly(attn_desc d, double *o)
{
    d.backend = "reference", d.o.data = o, d.o.dtype = ATTN_F64, d.tolerance = 0, d.flags &= ~(uint32_t)ATTN_TOLERANCE_ABSOLUTE, d.cert = NULL, d.statistics = NULL, d.lse = NULL;
    assert_ok(attn_forward(&d));
}

/* ---- a scale that is not finite shows in o, whatever the tolerance ---- */
static void test_scales(void **unused)
{
    enum { KEYS = 4096, DIM = 64 };
    static char codes[2][KEYS * DIM * 2];
    static float scale[2][KEYS], q[DIM], o[DIM];
    uint64_t r = 5;
    (void)unused;
    fill_codes(codes[0], codes[1], sizeof codes[0], &r);
    for (int64_t i = 0; i < DIM; i++) q[i] = (float)random_normal(&r);
    for (int bad = 0; bad < 6; bad++) {         /* none; a scale of k, of v; near the last key; none, but those of v are negative */
        attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale[0], scale[1], o);
        attn_statistics told;
        for (int64_t j = 0; j < KEYS; j++) scale[0][j] = scale[1][j] = 0.004f;
        for (int64_t j = 0; j < KEYS && bad == 5; j++) scale[1][j] = -0.004f;
        if (bad % 5) scale[(bad - 1) % 2][bad < 3 ? 2010 : KEYS - 1] = bad % 2 ? NAN : INFINITY;
        d.statistics = &told;
        assert_ok(attn_forward(&d));
        int finite = 0;
        for (int64_t i = 0; i < DIM; i++) finite += isfinite(o[i]) != 0;
        if (finite != (bad % 5 ? 0 : DIM)) fail_msg("case %d: %d of the outputs are finite", bad, finite);
        if (bad % 5 == 0) assert_true(told.rows == 1 && told.rows_redone == 0 && told.tiles_int16 == KEYS / 128 && told.bytes < KEYS * DIM * 4);
    }
}

/* ---- what was read of the sequence before, which is longer, does not count as read of this one ---- */
static void test_after_longer(void **unused)
{
    enum { KEYS = 2176, SHORT = 2020, DIM = 64 };
    static char codes[2][2 * KEYS * DIM * 2];
    static float scale[2][2 * KEYS], q[2 * DIM], o[2][2 * DIM], cert[2][2];
    static const int32_t used[2] = { KEYS, SHORT };
    uint64_t r = 31;
    (void)unused;
    fill_codes(codes[0], codes[1], sizeof codes[0], &r);
    for (int64_t j = 0; j < 2 * KEYS; j++) scale[0][j] = scale[1][j] = 0.004f;
    for (int n = 0; n < 8; n++) {               /* the first looks at all keys alike */
        attn_statistics told[3];
        for (int64_t i = 0; i < 2 * DIM; i++) q[i] = i < DIM ? 0 : (float)((10 + 10 * n) * random_normal(&r));
        for (int way = 0; way < 3; way++) {     /* each alone, both on one thread */
            const int64_t first = way == 1;
            attn_desc d = decoded(KEYS, q + first * DIM, codes[0] + 2 * first * KEYS * DIM, codes[1] + 2 * first * KEYS * DIM, scale[0], scale[1], o[way / 2] + first * DIM);
            d.batch = way == 2 ? 2 : 1, d.threads = 1, d.seq.used_k = used + first, d.cert = cert[way / 2] + first, d.statistics = told + way;
            assert_ok(attn_forward(&d));
        }
        assert_int_equal(told[2].bytes, told[0].bytes + told[1].bytes);
        assert_memory_equal(o[0], o[1], sizeof o[0]);
        assert_memory_equal(cert[0], cert[1], sizeof cert[0]);
    }
}

/* ---- codes of the other sign with scales of the other sign are the same numbers: the same bits, and as much is known of them ---- */
static void test_signs(void **unused)
{
    enum { KEYS = 2100, DIM = 64 };
    static char codes[2][(KEYS * DIM + HALF - 1) / HALF * PIECE];
    static float scale[2][KEYS], q[2 * DIM], o[2][2 * DIM], cert[2][2];
    uint64_t r = 37;
    (void)unused;
    for (int n = 0; n < 3 * 4; n++) {
        const double sign[2] = { n % 2 ? -1 : 1, n / 2 % 2 ? -1 : 1 };
        attn_statistics told[2];
        if (n % 4 == 0)
            for (int64_t i = 0; i < 2 * DIM; i++) q[i] = (float)((10 + 6 * n) * random_normal(&r));
        for (int other = 0; other < 2; other++) {
            uint64_t same = (uint64_t)(n / 4);
            attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale[0], scale[1], o[other]);
            for (int t = 0; t < 2; t++)
                for (int64_t i = 0; i < KEYS * DIM; i++) {
                    if (i % DIM == 0) scale[t][i / DIM] = (float)((other ? sign[t] : 1) * 0.004 * (0.5 + random_unit(&same)));
                    const int high = (int)(random_unit(&same) * 60 - 30), low = (int)(random_unit(&same) * 255 - 127);
                    element_put(codes[t], ATTN_INT16, i, (other ? sign[t] : 1) * (high + low / 256.0));
                }
            d.q_len = 1 + n / 4 % 2, d.cert = cert[other], d.statistics = told + other;
            assert_ok(attn_forward(&d));
        }
        if (memcmp(o[0], o[1], sizeof o[0]) || memcmp(cert[0], cert[1], sizeof cert[0]) || told[0].bytes != told[1].bytes || told[0].rows_redone != told[1].rows_redone)
            fail_msg("call %d: o is %g, not %g, cert %g, not %g, %lld bytes are read, not %lld", n, (double)o[1][0], (double)o[0][0], (double)cert[1][0], (double)cert[0][0],
                     (long long)told[1].bytes, (long long)told[0].bytes);
    }
}

/* ---- scales of v lie as they like, whatever those of k do: token after token or head after head, in pages too ---- */
static void test_strides_of_scales(void **unused)
{
    enum { PAGE = 100, PAGES = 13, H = 2, DIM = 64, KEYS = PAGE * PAGES };
    static char codes[2][(KEYS * H * DIM + HALF - 1) / HALF * PIECE];
    static float scale[2][3][KEYS * H], q[H * DIM], o[4][H * DIM];
    static int32_t table[PAGES];
    static const int32_t used = KEYS;
    uint64_t r = 41;
    (void)unused;
    fill_codes(codes[0], codes[1], sizeof codes[0], &r);
    for (int64_t i = 0; i < H * DIM; i++) q[i] = (float)(20 * random_normal(&r));
    for (int32_t p = 0; p < PAGES; p++) table[p] = PAGES - 1 - p;
    for (int64_t i = 0; i < 2 * KEYS * H; i++) {
        const int64_t t = i % 2, j = i / 2 / H, h = i / 2 % H;
        scale[t][0][j * H + h] = scale[t][1][(j / PAGE * H + h) * PAGE + j % PAGE] = scale[t][2][h * KEYS + j] = (float)(0.004 * (0.5 + random_unit(&r)));
    }
    for (int n = 0; n < 4; n++)                 /* by high bytes, and exactly */
        for (int way = 0; way < 4; way++) {
            const int paged = n % 2;
            attn_desc d = decoded(KEYS, q, codes[0], codes[1], NULL, NULL, o[way]);
            attn_in *t[2] = { &d.k, &d.v };
            d.heads = d.kv_heads = H;
            if (n >= 2) d.tolerance = 0, d.backend = "flash";
            if (paged) d.seq.block_table = table, d.seq.page_size = PAGE, d.seq.pages = d.seq.max_pages = PAGES, d.seq.used_k = &used;
            for (int m = 0; m < 2; m++) {
                const int apart = m ? way / 2 : way % 2;
                t[m]->scale = scale[m][!apart ? 0 : paged ? 1 : 2];
                t[m]->scale_stride[0] = (paged ? PAGE : KEYS) * H, t[m]->scale_stride[1] = apart ? 1 : H, t[m]->scale_stride[2] = !apart ? 1 : paged ? PAGE : KEYS;
            }
            assert_ok(attn_forward(&d));
            assert_memory_equal(o[0], o[way], sizeof o[0]);
        }
}

/* ---- windows of several splits begin anywhere in a chunk: each key counts once, with its own chunk's scales ---- */
static void test_windows(void **unused)
{
    enum { KEYS = 4000, DIM = 64 };
    static char codes[2][(KEYS * DIM + HALF - 1) / HALF * PIECE];
    static float scale[2][KEYS], q[DIM], o[DIM], cert[1];
    static double want[DIM];
    uint64_t r = 43;
    (void)unused;
    fill_codes(codes[0], codes[1], sizeof codes[0], &r);
    for (int n = 0; n < 24; n++) {
        attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale[0], scale[1], o);
        attn_statistics told;
        double most = 0, worst = 0;
        for (int64_t j = 0; j < KEYS; j++) scale[0][j] = scale[1][j] = j / 64 % 2 ? 0.004f : 0.0005f;
        for (int64_t i = 0; i < DIM; i++) q[i] = (float)((10 + 5 * n) * random_normal(&r));
        d.flags = ATTN_CAUSAL | ATTN_WINDOW_LEFT, d.window_left = 1200 + 113 * n, d.cert = cert, d.statistics = &told;
        assert_ok(attn_forward(&d));
        exactly(d, want);
        for (int64_t i = (KEYS - 1 - d.window_left) * DIM; i < KEYS * DIM; i++) most = fmax(most, fabs(element_get(codes[1], ATTN_INT16, i) * (double)scale[1][i / DIM]));
        for (int64_t i = 0; i < DIM; i++) worst = fmax(worst, fabs((double)o[i] - want[i]));
        if (!(worst <= (double)cert[0] + 1e-5 * most) || !cert_kept(cert[0], 0.05 * most) || told.bytes > (d.window_left + 128) * DIM * 4)
            fail_msg("window %d: off by %g, cert %g of %g, %lld bytes", (int)d.window_left, worst, (double)cert[0], 0.05 * most, (long long)told.bytes);
    }
}

/* ---- a scale that is no number counts for the rows that see its key, and for no other ---- */
static void test_scales_seen(void **unused)
{
    enum { KEYS = 2050, DIM = 64 };
    static char codes[2][(KEYS * DIM + HALF - 1) / HALF * PIECE];
    static float scale[2][KEYS], q[2 * DIM], o[2 * DIM], cert[2];
    uint64_t r = 13;
    (void)unused;
    fill_codes(codes[0], codes[1], sizeof codes[0], &r);
    for (int64_t i = 0; i < 2 * DIM; i++) q[i] = (float)random_normal(&r);
    for (int bad = 0; bad < 4; bad++) {
        attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale[0], scale[1], o);
        for (int64_t j = 0; j < KEYS; j++) scale[0][j] = scale[1][j] = 0.004f;
        scale[bad % 2][KEYS - 1] = bad < 2 ? NAN : INFINITY;
        d.q_len = 2, d.flags = ATTN_CAUSAL;
        d.cert = cert;
        assert_ok(attn_forward(&d));
        assert_true(cert[0] > 0 && cert[1] == 0);
        for (int64_t i = 0; i < 2 * DIM; i++) if (!isfinite(o[i]) != (i >= DIM)) fail_msg("case %d: o[%d] is %g", bad, (int)i, (double)o[i]);
    }
}

/* ---- nearly all weight is on a key whose value is 0, a little on one whose value is not read, and all that its high bytes leave of its score is on
 * one side: what the row is off by is as much as it can be ---- */
static void test_worst_key(void **unused)
{
    enum { KEYS = 1100, DIM = 64, MAIN = 100, AT = 500 };
    static const int low[] = { 10, 50, 100, 127, -10, -50, -100, -128 };
    static char codes[2][(KEYS * DIM + HALF - 1) / HALF * PIECE];
    static float scale[2][KEYS], q[DIM], o[DIM], cert[1];
    static double want[DIM];
    double most = 0;
    (void)unused;
    for (int64_t i = 0; i < DIM; i++) q[i] = 1;
    for (int n = 0; n < 8 * 4; n++) {
        const int high = 6 + n / 8;
        attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale[0], scale[1], o);
        attn_statistics told;
        memset(codes, 0, sizeof codes);
        for (int64_t j = 0; j < KEYS; j++) {
            scale[0][j] = j == MAIN ? 0.0075f : 0.05f, scale[1][j] = j == AT ? 0.01f : 1e-6f;
            for (int64_t e = 0; e < DIM; e++) element_put(codes[0], ATTN_INT16, j * DIM + e, j == MAIN ? 127 : j == AT ? high + low[n % 8] / 256.0 : -127);
        }
        for (int64_t e = 0; e < DIM; e++) element_put(codes[1], ATTN_INT16, AT * DIM + e, 127 + 127 / 256.0);
        exactly(d, want);
        d.tolerance = 0.15f, d.flags = ATTN_TOLERANCE_ABSOLUTE, d.cert = cert, d.statistics = &told;
        assert_ok(attn_forward(&d));
        for (int64_t i = 0; i < DIM; i++) {
            const double off = fabs((double)o[i] - want[i]);
            if (!(off <= (double)cert[0] + 1e-6)) fail_msg("high %d, low %d: off by %g, cert %g", high, low[n % 8], off, (double)cert[0]);
            if (cert[0] > 0) most = fmax(most, off / (double)cert[0]);
        }
    }
    if (!(most > 0.85)) fail_msg("at most %g of a certificate was needed", most);
}

/* ---- a key whose low bytes move its score by nearly 5, its weight from 0.001 to 0.15: no bound by the first powers of that holds, so it is corrected,
 * though by such a bound the tolerance would allow it as it is ---- */
static void test_far_key(void **unused)
{
    enum { KEYS = 2048, DIM = 64, AT = 777 };
    static char codes[2][(KEYS * DIM + HALF - 1) / HALF * PIECE];
    static float scale[2][KEYS], q[DIM], o[DIM], cert[1];
    static double want[DIM];
    (void)unused;
    for (int64_t i = 0; i < DIM; i++) q[i] = 1;
    for (int64_t j = 0; j < KEYS; j++) {
        scale[0][j] = j == AT ? 1.25f : 1e-6f, scale[1][j] = j == AT ? 1 : 1e-3f;
        for (int64_t e = 0; e < DIM; e++) {
            element_put(codes[0], ATTN_INT16, j * DIM + e, j == AT ? 127 / 256.0 - (e ? 0 : 44) : 0);
            element_put(codes[1], ATTN_INT16, j * DIM + e, j == AT ? 127 : -1);
        }
    }
    attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale[0], scale[1], o);
    exactly(d, want);
    d.tolerance = 0.06f, d.flags = ATTN_TOLERANCE_ABSOLUTE, d.cert = cert;
    assert_ok(attn_forward(&d));
    for (int64_t i = 0; i < DIM; i++)
        if (!(fabs((double)o[i] - want[i]) <= (double)cert[0] + 1e-5)) fail_msg("off by %g, cert %g", fabs((double)o[i] - want[i]), (double)cert[0]);
}

/* ---- what the low bytes of the largest key add to its score may be as much as f32 has powers of two: the second row asks for the other keys, whose
 * weights are as small as can be for the first ---- */
static void test_far_maximum(void **unused)
{
    enum { KEYS = 1100, DIM = 64, MAIN = 500 };
    static char codes[2][(KEYS * DIM + HALF - 1) / HALF * PIECE];
    static float scale[2][KEYS], q[2 * DIM], o[2 * DIM], cert[2], lse[2], want_lse[2];
    static double want[2 * DIM];
    int certified = 0;
    (void)unused;
    for (int64_t i = 0; i < DIM; i++) q[i] = 0.25f, q[DIM + i] = -0.25f;
    for (int n = -240; n <= 240; n++) {
        const double up = n / 2.0 + (n % 3) * 0.2, most = n % 4 ? 1 : 1e6;      /* nats, of low bytes of 127 or -127 in 63 dims; |v| */
        attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale[0], scale[1], o);
        attn_statistics told;
        memset(codes, 0, sizeof codes);
        for (int64_t j = 0; j < KEYS; j++) {
            scale[0][j] = n % 2 ? 0.01f : 0.0005f, scale[1][j] = (float)most / 127;
            for (int64_t e = 0; e < DIM; e++) element_put(codes[0], ATTN_INT16, j * DIM + e, 1), element_put(codes[1], ATTN_INT16, j * DIM + e, j == MAIN ? 127 : -127);
        }
        scale[0][MAIN] = (float)(fabs(up) / (63 * 127 / 256.0 * 0.25 / 8));
        for (int64_t e = 0; e < DIM; e++) element_put(codes[0], ATTN_INT16, MAIN * DIM + e, e == 0 ? 127 : up < 0 ? -127 / 256.0 : 127 / 256.0);
        d.heads = 2, d.kv_heads = 1, d.cert = cert, d.lse = lse, d.statistics = &told;
        attn_desc ref = d;
        ref.lse = want_lse, ref.backend = "reference", ref.o.data = want, ref.o.dtype = ATTN_F64, ref.tolerance = 0, ref.cert = NULL, ref.statistics = NULL;
        assert_ok(attn_forward(&ref));
        assert_ok(attn_forward(&d));
        for (int64_t i = 0; i < 2 * DIM; i++) {
            const double off = fabs((double)o[i] - want[i]);
            if (!(off <= (double)cert[i / DIM] + 4e-6 * most)) fail_msg("%g nats: o[%d] is %g, not %g, cert %g", up, (int)i, (double)o[i], want[i], (double)cert[i / DIM]);
        }
        for (int r = 0; r < 2; r++) {
            const double off = fabs((double)lse[r] - (double)want_lse[r]);
            if (!(off <= (double)told.lse_error + 4e-6 * fmax(1, fabs((double)want_lse[r])))) fail_msg("%g nats: lse %g, not %g", up, (double)lse[r], (double)want_lse[r]);
            certified += cert[r] > 0;
        }
    }
    if (certified < 300) fail_msg("%d rows were certified", certified);
}

/* ---- a window of both sides: 1024 keys are decoded from planes, one less is computed exactly ---- */
static void test_window(void **unused)
{
    enum { KEYS = 3000, DIM = 64 };
    static char codes[2][(KEYS * DIM + HALF - 1) / HALF * PIECE];
    static float scale[KEYS], q[DIM], o[DIM];
    uint64_t r = 6;
    (void)unused;
    fill_codes(codes[0], codes[1], sizeof codes[0], &r);
    for (int64_t j = 0; j < KEYS; j++) scale[j] = 0.004f;
    for (int64_t i = 0; i < DIM; i++) q[i] = (float)random_normal(&r);
    for (int less = 0; less < 2; less++) {
        attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale, scale, o);
        attn_statistics told;
        d.statistics = &told;
        d.flags = ATTN_OFFSET | ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, d.offset = 1500, d.window_left = 600 - less, d.window_right = 423;
        assert_ok(attn_forward(&d));
        if ((told.tiles_int16 > 0) == less) fail_msg("%d keys: %d tiles from planes, %s", 1024 - less, (int)told.tiles_int16, told.why);
    }
}

/* ---- few rows are used of many units: those behind are as empty as anywhere ---- */
static void test_padding(void **unused)
{
    enum { KEYS = 4096, DIM = 64, ROWS = 1000, USED = 2 };
    static const int32_t used[1] = { USED };
    static char codes[2][(KEYS * DIM + HALF - 1) / HALF * PIECE];
    static float scale[KEYS], q[ROWS * DIM], o[ROWS * DIM], lse[ROWS], cert[ROWS];
    attn_statistics told;
    attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale, scale, o);
    uint64_t r = 9;
    (void)unused;
    fill_codes(codes[0], codes[1], sizeof codes[0], &r);
    for (int64_t j = 0; j < KEYS; j++) scale[j] = 0.004f;
    for (int64_t i = 0; i < USED * DIM; i++) q[i] = (float)random_normal(&r);
    memset(o, 0xff, sizeof o), memset(lse, 0xff, sizeof lse), memset(cert, 0xff, sizeof cert);
    d.q_len = ROWS, d.lse = lse;
    d.statistics = &told, d.cert = cert;
    d.seq.used_q = used;
    assert_ok(attn_forward(&d));
    assert_true(told.tiles_int16 > 0);
    for (int64_t i = 0; i < ROWS; i++) assert_true(i < USED ? isfinite(lse[i]) && cert[i] > 0 : lse[i] == -INFINITY && cert[i] == 0);
    for (int64_t i = USED * DIM; i < ROWS * DIM; i++) assert_true(o[i] == 0);
}

/* ---- more keys than decode.c draws: as many splits as there may be, of 1024 keys and of more ---- */
static void test_many_keys(void **unused)
{
    enum { MOST = 20000, DIM = 64 };
    static const int64_t keys[] = { 8192, 8193, 12000, 16384, MOST };
    static char codes[2][(MOST * DIM + HALF - 1) / HALF * PIECE];
    static float scale[2][MOST], q[DIM], o[DIM], cert[1];
    static double want[DIM];
    attn_statistics one;
    uint64_t r = 8;
    (void)unused;
    fill_codes(codes[0], codes[1], sizeof codes[0], &r);
    for (int64_t j = 0; j < MOST; j++) scale[0][j] = j / 128 % 4 ? 1e-4f : 0.05f, scale[1][j] = 0.004f;  /* most chunks hold no weight */
    for (int64_t i = 0; i < DIM; i++) q[i] = (float)(4.4 * random_normal(&r));
    for (int64_t n = 0; n < COUNT(keys) * 2; n++) {
        attn_desc d = decoded(keys[n / 2], q, codes[0], codes[1], scale[0], scale[1], o);
        attn_statistics told;
        exactly(d, want);
        d.cert = cert, d.statistics = &told, d.threads = 1 + (int)(n % 2) * 3;
        memset(o, 0xff, sizeof o);
        assert_ok(attn_forward(&d));
        assert_true(told.tiles_int16 == (d.kv_len + 127) / 128 && told.rows_redone == 0 && cert[0] > 0 && cert[0] <= 0.05f * 0.13f);
        assert_true(told.mass_skipped > 0 && told.tiles_skipped > 0);
        if (n % 2) assert_memory_equal(&told, &one, sizeof told);       /* statistics follow from no thread either */
        one = told;
        for (int64_t i = 0; i < DIM; i++)
            if (!(fabs((double)o[i] - want[i]) <= (double)cert[0] + 1e-6)) fail_msg("%d keys: o[%d] = %g, not %g", (int)d.kv_len, (int)i, (double)o[i], want[i]);
    }
}

/* ---- a group whose second split has no value that counts, behind a sequence of which all count; and what is told of the row that skips
 * most, whether it is the last or not ---- */
static void test_skipped(void **unused)
{
    enum { KEYS = 4096, DIM = 64, GROUP = 4 };
    static char codes[2][(KEYS * DIM + HALF - 1) / HALF * PIECE];
    static float scale[2][2 * KEYS], q[2 * GROUP * DIM], o[2 * GROUP * DIM], cert[2 * GROUP], mass[2];
    static double want[2 * GROUP * DIM];
    attn_statistics told;
    attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale[0], scale[1], o);
    uint64_t r = 10;
    (void)unused;
    fill_codes(codes[0], codes[1], sizeof codes[0], &r);
    for (int64_t j = 0; j < 2 * KEYS; j++) scale[0][j] = j < KEYS || (j - KEYS) / 1024 != 1 ? 0.05f : 1e-4f, scale[1][j] = 0.004f;
    for (int64_t i = 0; i < 2 * GROUP * DIM; i++) q[i] = (float)(i < GROUP * DIM ? 0 : 5 * random_normal(&r));
    d.batch = 2, d.kv_heads = 1, d.heads = GROUP;
    d.k.stride[0] = d.v.stride[0] = ATTN_BROADCAST, d.k.stride[1] = d.k.stride[2] = d.v.stride[1] = d.v.stride[2] = DIM;
    d.k.scale_stride[0] = d.v.scale_stride[0] = KEYS, d.k.scale_stride[1] = d.k.scale_stride[2] = d.v.scale_stride[1] = d.v.scale_stride[2] = 1;
    exactly(d, want);
    d.cert = cert, d.statistics = &told, d.threads = 1;
    memset(o, 0xff, sizeof o);
    assert_ok(attn_forward(&d));
    if (told.rows_redone || told.tiles_skipped < 1024 / 128 * GROUP) fail_msg("%d rows redone, %d tiles skipped of %d, %s", (int)told.rows_redone, (int)told.tiles_skipped, (int)told.tiles_int16, told.why);
    for (int64_t i = 0; i < 2 * GROUP * DIM; i++)
        if (!(fabs((double)o[i] - want[i]) <= (double)cert[i / DIM] + 1e-6)) fail_msg("o[%d] = %g, not %g", (int)i, (double)o[i], want[i]);
    for (int last = 0; last < 2; last++) {              /* of weights that are all one nothing is skipped */
        d.heads = 1, d.q.data = last ? q + (GROUP - 1) * DIM : q + GROUP * DIM;
        d.q.stride[0] = last ? DIM : -GROUP * DIM, d.q.stride[1] = d.q.stride[2] = DIM;
        d.k.scale = scale[0] + KEYS, d.k.scale_stride[0] = ATTN_BROADCAST;
        assert_ok(attn_forward(&d));
        mass[last] = told.mass_skipped;
    }
    assert_true(mass[0] > 0 && mass[0] == mass[1]);
}
/* ---- how many rows a sequence has says its own length, not the bound of all; of more than are decoded the statistics say so. A row that is
 * computed again, for a scale that it alone sees, leaves out no tile ---- */
static void test_rows_by_length(void **unused)
{
    enum { KEYS = 2048, DIM = 64, MOST = 16 };
    static char codes[2][(KEYS * DIM + HALF - 1) / HALF * PIECE];
    static float scale[2][KEYS], q[MOST * DIM], o[MOST * DIM];
    static const int32_t cu[2] = { 0, 1 }, one[1] = { 1 }, all[1] = { MOST };
    (void)unused;
    for (int64_t i = 0; i < MOST * DIM; i++) q[i] = 1;
    for (int64_t j = 0; j < KEYS; j++) {
        scale[0][j] = scale[1][j] = 0.225f;
        for (int64_t e = 0; e < DIM; e++) element_put(codes[0], ATTN_INT16, j * DIM + e, j < 128 ? 0 : -7), element_put(codes[1], ATTN_INT16, j * DIM + e, (double)(j * e % 200) - 100);
    }
    for (int n = 0; n < 4; n++) {
        attn_statistics told;
        attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale[0], scale[1], o);
        d.q_len = n < 3 ? MOST : 2, d.statistics = &told;
        if (n == 0) d.seq.cu_q = cu, d.seq.total_q = 1;
        if (n == 1) d.seq.used_q = one;
        if (n == 2) d.seq.used_q = all;
        if (n == 3) d.flags = ATTN_CAUSAL, scale[1][KEYS - 1] = NAN;
        assert_ok(attn_forward(&d));
        if (n == 2) {
            assert_string_equal(told.why, "fewer keys, or more rows for so many dims, than high bytes pay for");
            assert_true(told.bytes == 0);
            continue;
        }
        assert_string_equal(told.why, "");
        assert_true(told.bytes > 0 && told.rows_redone == (n == 3));
        assert_int_equal(told.tiles_skipped, KEYS / 128 - 1);
    }
}

/* Weights that lie half between their codes, times values that lie half between their high bytes, off to the same side: 8 keys
 * weigh 15 times as much as the others, whose weights have codes of a fifteenth of the largest. */
static void test_weights_between_codes(void **unused)
{
    enum { KEYS = 1024, DIM = 128, HEAVY = 15 };
    static char codes[2][(KEYS * DIM + HALF - 1) / HALF * PIECE];
    static float scale[2][KEYS], q[DIM], o[DIM], cert[1];
    static double want[DIM];
    attn_statistics told;
    attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale[0], scale[1], o);
    (void)unused;
    memset(codes, 0, sizeof codes);
    q[0] = 1;
    for (int64_t j = 0; j < KEYS; j++) {
        const int heavy = j % 128 == 5;
        scale[0][j] = heavy ? (float)(log(HEAVY) / 127 * sqrt(DIM)) : 0;
        scale[1][j] = heavy ? 1 : (float)((floor(32767.0 / HEAVY) + 0.51) / 32767 * HEAVY);
        element_put(codes[0], ATTN_INT16, j * DIM, 127);
        for (int64_t e = 0; e < DIM; e++) element_put(codes[1], ATTN_INT16, j * DIM + e, 126.5);
    }
    d.head_dim = d.v_dim = DIM, d.tolerance = 0.005f;
    exactly(d, want);
    d.cert = cert, d.statistics = &told;
    assert_ok(attn_forward(&d));
    if (told.rows_redone || !(cert[0] > 0.4f)) fail_msg("%d rows redone, certificate %g, %s", (int)told.rows_redone, (double)cert[0], told.why);
    for (int64_t e = 0; e < DIM; e++)
        if (!(fabs((double)o[e] - want[e]) <= (double)cert[0] + 1e-3)) fail_msg("o[%d] = %.9g, not %.9g, certificate %g", (int)e, (double)o[e], want[e], (double)cert[0]);
}

/* ---- whole chunks are left out whose low bytes would move all weights up by what the bound allows, and whose values lie opposite to the one that is
 * read; the first chunk has hidden keys too, with scales of any size or none ---- */
static void test_chunks_left_out(void **unused)
{
    enum { KEYS = 2048, DIM = 64, HIDDEN = 64, MAIN = KEYS - 1 };
    static char codes[2][(KEYS * DIM + HALF - 1) / HALF * PIECE];
    static float scale[2][KEYS], q[DIM], o[DIM], cert[1];
    static double want[DIM];
    (void)unused;
    for (int64_t e = 0; e < DIM; e++) q[e] = 1;
    for (int64_t j = 0; j < KEYS; j++)
        for (int64_t e = 0; e < DIM; e++) {
            element_put(codes[0], ATTN_INT16, j * DIM + e, j == MAIN ? 0 : -7 + 127 / 256.0);
            element_put(codes[1], ATTN_INT16, j * DIM + e, j == MAIN ? 127 : -127);
        }
    for (int n = 0; n < 5; n++) {
        attn_statistics told;
        attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale[0], scale[1], o);
        for (int64_t j = 0; j < KEYS; j++) scale[0][j] = 0.225f, scale[1][j] = 1;
        for (int64_t j = 0; j < HIDDEN && n; j++) scale[n % 2][j] = n < 3 ? 1e4f : NAN;
        d.flags = ATTN_WINDOW_LEFT, d.window_left = KEYS - 1 - HIDDEN;
        exactly(d, want);
        d.cert = cert, d.statistics = &told;
        assert_ok(attn_forward(&d));
        if (told.rows_redone || told.bytes > (KEYS + 4) * DIM || told.tiles_skipped < KEYS / 128 - 1)
            fail_msg("case %d: %d rows redone, %d bytes, %d tiles skipped, %s", n, (int)told.rows_redone, (int)told.bytes, (int)told.tiles_skipped, told.why);
        for (int64_t e = 0; e < DIM; e++) {
            const double off = fabs((double)o[e] - want[e]);
            if (!(off <= (double)cert[0] + 1e-4) || !(off > 0.75 * (double)cert[0])) fail_msg("case %d: o[%d] = %g, not %g, certificate %g", n, (int)e, (double)o[e], want[e], (double)cert[0]);
        }
    }
}

/* ---- as many dims as are decoded, all of one sign: products of bytes sum up to nearly what 32 bits hold ---- */
static void test_sums_of_many_dims(void **unused)
{
    enum { KEYS = 1024, DIM = 512 };
    static char codes[2][KEYS * DIM * 2];
    static float scale[KEYS], q[DIM], o[DIM], cert[1];
    static double want[DIM];
    attn_statistics told;
    attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale, scale, o);
    (void)unused;
    for (int64_t j = 0; j < KEYS; j++) {
        scale[j] = 0.002f;
        for (int64_t e = 0; e < DIM; e++) element_put(codes[0], ATTN_INT16, j * DIM + e, j % 3 ? 127 : -128), element_put(codes[1], ATTN_INT16, j * DIM + e, j % 3 ? 100 : -100);
    }
    for (int64_t e = 0; e < DIM; e++) q[e] = 0.5f;
    d.head_dim = d.v_dim = DIM;
    exactly(d, want);
    d.cert = cert, d.statistics = &told;
    assert_ok(attn_forward(&d));
    if (told.bytes == 0) fail_msg("not decoded: %s", told.why);
    for (int64_t e = 0; e < DIM; e++)
        if (!(fabs((double)o[e] - want[e]) <= (double)cert[0] + 1e-6)) fail_msg("o[%d] = %.9g, not %.9g, certificate %g", (int)e, (double)o[e], want[e], (double)cert[0]);
}

/* ---- where nearly all bytes would be read, rows are computed exactly: that costs less ---- */
/* o in f16, just within it, where the high bytes of values stand for a little more. */
static void test_within_f16(void **unused)
{
    enum { KEYS = 4096, DIM = 128 };
    static char codes[2][KEYS * DIM * 2];
    static float q[DIM], x[2][KEYS * DIM], scale[2][KEYS], cert[1];
    static uint16_t o[DIM];
    int32_t used = 0;
    uint64_t r = 7;
    attn_desc d = { 0 };
    (void)unused;
    for (int64_t i = 0; i < KEYS * DIM; i++) x[0][i] = (float)(2 * random_unit(&r) - 1), x[1][i] = i % DIM ? 65304.0f : 70250.0f;
    memcpy(q, x[0], sizeof q);
    d.batch = d.heads = 1, d.head_dim = DIM, d.kv_len = KEYS, d.seq.used_k = &used;
    d.k.data = codes[0], d.v.data = codes[1], d.k.dtype = d.v.dtype = ATTN_INT16, d.k.scale = scale[0], d.v.scale = scale[1];
    d.append.k.data = x[0], d.append.v.data = x[1], d.append.len = KEYS;
    d.append.k_cache = codes[0], d.append.v_cache = codes[1], d.append.k_scale = scale[0], d.append.v_scale = scale[1];
    assert_ok(attn_forward(&d));
    memset(&d.append, 0, sizeof d.append);
    used = KEYS;
    d.q_len = 1, d.q.data = q, d.o.data = o, d.o.dtype = ATTN_F16, d.tolerance = 0.01f, d.cert = cert, d.backend = "adaptive";
    for (int up = 0; up < 2; up++) {            /* values of half the size: from high bytes, and certified */
        for (int64_t j = 0; j < KEYS && up; j++) scale[1][j] /= 2;
        assert_ok(attn_forward(&d));
        assert_true((cert[0] > 0) == up);
        if (!(fabs(element_get(o, ATTN_F16, 1) - (up ? 32652 : 65304)) <= (double)cert[0] + 17)) fail_msg("%g, cert %g", element_get(o, ATTN_F16, 1), (double)cert[0]);
    }
}
static void test_all_read(void **unused)
{
    enum { KEYS = 3000, DIM = 64 };
    static char codes[2][(KEYS * DIM + HALF - 1) / HALF * PIECE];
    static float scale[KEYS], q[DIM], o[DIM], cert[1];
    uint64_t r = 12;
    (void)unused;
    fill_codes(codes[0], codes[1], sizeof codes[0], &r);
    for (int64_t j = 0; j < KEYS; j++) scale[j] = 0.004f;
    for (int64_t i = 0; i < DIM; i++) q[i] = (float)(3 * random_normal(&r));
    for (int fine = 0; fine < 2; fine++) {
        attn_statistics told;
        attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale, scale, o);
        d.tolerance = fine ? 0.0006f : 0.05f, d.cert = cert, d.statistics = &told;
        assert_ok(attn_forward(&d));
        assert_string_equal(told.why, fine ? "nearly all bytes would be read, or scores have no bound, or a coarse one" : "");
        if ((cert[0] == 0) != fine || (told.bytes < KEYS * DIM * 4) == 0) fail_msg("tolerance %g: %d redone, cert %g, %lld bytes of %d", (double)d.tolerance, (int)told.rows_redone, (double)cert[0], (long long)told.bytes, KEYS * DIM * 4);
    }
}

/* ---- only one of k and v lies in planes: rows are not decoded from them ---- */
static void test_one_of_two(void **unused)
{
    enum { KEYS = 2048, DIM = 64 };
    static char codes[(KEYS * DIM + HALF - 1) / HALF * PIECE];
    static float scale[KEYS], q[DIM], other[KEYS * DIM], o[2][DIM];
    uint64_t r = 14;
    (void)unused;
    for (int64_t i = 0; i < (int64_t)sizeof codes; i++) codes[i] = (char)(int)(random_unit(&r) * 60 - 30);
    for (int64_t j = 0; j < KEYS; j++) scale[j] = 0.004f;
    for (int64_t i = 0; i < KEYS * DIM; i++) other[i] = (float)random_normal(&r), q[i % DIM] = other[i];
    for (int v = 0; v < 2; v++) {
        attn_plan plan;
        attn_desc d = { 0 };
        d.batch = d.q_len = d.heads = 1, d.kv_len = KEYS, d.head_dim = DIM, d.q.data = q, d.k.data = d.v.data = other, d.tolerance = 0.05f;
        attn_in *planes = v ? &d.v : &d.k;
        planes->data = codes, planes->dtype = ATTN_INT16, planes->scale = scale;
        d.backend = "adaptive";
        assert_int_equal(attn_query(&d, NULL, &plan), ATTN_ERR_DECLINED);
        for (int b = 0; b < 2; b++) {
            d.backend = b ? "flash" : NULL, d.o.data = o[b];
            assert_ok(attn_forward(&d));
        }
        assert_memory_equal(o[0], o[1], sizeof o[0]);
    }
}

/* ---- sequences that are no multiple of the threads: none behind the last is decoded ---- */
static void test_behind_the_last(void **unused)
{
    enum { KEYS = 1100, DIM = 64, BATCH = 5 };
    static char codes[2][(KEYS * DIM + HALF - 1) / HALF * PIECE];
    static float scale[KEYS], q[2 * BATCH * DIM], o[2 * BATCH * DIM], lse[2 * BATCH], cert[2 * BATCH];
    uint64_t r = 15;
    (void)unused;
    fill_codes(codes[0], codes[1], sizeof codes[0], &r);
    for (int64_t j = 0; j < KEYS; j++) scale[j] = 0.004f;
    for (int64_t i = 0; i < 2 * BATCH * DIM; i++) q[i] = (float)random_normal(&r);
    for (int64_t batch = 1; batch <= BATCH; batch++)
        for (int32_t threads = 1; threads <= 4; threads++) {
            attn_statistics told;
            attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale, scale, o);
            for (int64_t i = 0; i < 2 * BATCH * DIM; i++) o[i] = 5, lse[i / DIM] = cert[i / DIM] = 5;
            d.batch = batch, d.lse = lse;
            d.k.stride[0] = d.v.stride[0] = ATTN_BROADCAST, d.k.stride[1] = d.k.stride[2] = d.v.stride[1] = d.v.stride[2] = DIM;
            d.k.scale_stride[0] = d.v.scale_stride[0] = ATTN_BROADCAST, d.k.scale_stride[1] = d.k.scale_stride[2] = d.v.scale_stride[1] = d.v.scale_stride[2] = 1;
            d.cert = cert, d.statistics = &told, d.threads = threads;
            assert_ok(attn_forward(&d));
            assert_true(told.rows == batch && told.tiles_int16 == batch * ((KEYS + 127) / 128));
            for (int64_t i = 0; i < 2 * BATCH; i++) if ((o[i * DIM] == 5 && lse[i] == 5 && cert[i] == 5) != (i >= batch)) fail_msg("%d sequences on %d threads: row %d", (int)batch, (int)threads, (int)i);
        }
}

/* ---- heads that look at few of their keys wait for the others: as many as the workspace has room for, which is as large as attn_query says ---- */
static void test_kept_heads(void **unused)
{
    enum { HEADS = 4, SEQUENCES = 4, KEYS = 2048, DIM = 128, PAIRS = HEADS * SEQUENCES, BEHIND = 1 << 20 };
    static char codes[2][PAIRS * KEYS * DIM / HALF * PIECE];
    static float scale[PAIRS * KEYS], q[PAIRS * DIM], o[PAIRS * DIM], want[PAIRS * DIM], cert[PAIRS];
    uint64_t r = 23;
    (void)unused;
    fill_codes(codes[0], codes[1], sizeof codes[0], &r);
    for (int64_t j = 0; j < PAIRS * KEYS; j++) scale[j] = 0.004f;
    for (int64_t i = 0; i < PAIRS * DIM; i++) q[i] = (float)(4 * (random_unit(&r) - 0.5));
    for (int batch = 1; batch <= SEQUENCES; batch++)
        for (int threads = 1; threads <= 3; threads += 2) {
            attn_desc d = { 0 };
            attn_plan plan;
            d.batch = batch, d.heads = d.kv_heads = HEADS, d.q_len = 1, d.kv_len = KEYS, d.head_dim = DIM, d.threads = threads;
            d.q.data = q, d.k.data = codes[0], d.v.data = codes[1], d.o.data = want, d.k.dtype = d.v.dtype = ATTN_INT16, d.k.scale = d.v.scale = scale;
            d.backend = "flash";
            assert_ok(attn_forward(&d));
            d.o.data = o, d.cert = cert, d.tolerance = 0.01f, d.backend = "adaptive";
            assert_ok(attn_query(&d, NULL, &plan));
            char *room = unit_get(plan.workspace_size + BEHIND + 64), *workspace = room + (64 - (uintptr_t)room % 64) % 64;
            memset(workspace, 0x5b, plan.workspace_size + BEHIND);
            d.workspace = workspace, d.workspace_size = plan.workspace_size;
            assert_ok(attn_forward(&d));
            for (int64_t i = 0; i < BEHIND; i++)
                if (workspace[plan.workspace_size + (size_t)i] != 0x5b) fail_msg("%d sequences, %d threads: byte %d behind the workspace", batch, threads, (int)i);
            for (int64_t i = 0; i < batch * HEADS * DIM; i++)
                if (!(fabs((double)o[i] - (double)want[i]) <= (double)cert[i / DIM] + 1e-6)) fail_msg("%d sequences: o[%d] = %g, not %g", batch, (int)i, (double)o[i], (double)want[i]);
            unit_put(room, plan.workspace_size + BEHIND + 64);
        }
}

/* ---- what is known of all keys that there may be of a head takes as much room as 256 MiB or one head need, on however many threads, and the bits do not tell how many heads begin together ---- */
static void test_room_of_threads(void **unused)
{
    enum { HEADS = 8, PAGE = 1024, PAGES = 3, DIM = 32, KEYS = 1 << 19 };
    static char codes[2][PAGES * PAGE * HEADS * DIM / HALF * PIECE];
    static float scale[PAGES * PAGE * HEADS], q[HEADS * DIM], o[2][HEADS * DIM], cert[2][HEADS];
    static int32_t table[KEYS / PAGE];
    uint64_t r = 29;
    (void)unused;
    if (sizeof(void *) < 8) skip();                      /* there 256 MiB may be more than there is */
    attn_desc most = { 0 };
    attn_plan huge;
    most.batch = most.heads = most.kv_heads = most.q_len = 1, most.kv_len = 150000000000000, most.head_dim = DIM, most.threads = 1024;
    most.q.data = q, most.k.data = most.v.data = codes[0], most.o.data = o[0], most.k.dtype = most.v.dtype = ATTN_INT16, most.k.scale = most.v.scale = scale;
    for (int i = 0; i < 3; i++) most.k.stride[i] = most.v.stride[i] = most.k.scale_stride[i] = most.v.scale_stride[i] = ATTN_BROADCAST;
    most.backend = "adaptive", most.tolerance = 0.01f;
    assert_ok(attn_query(&most, NULL, &huge));           /* one head's, and nothing wraps */
    assert_true((double)huge.workspace_size > 70.0 * (double)most.kv_len && (double)huge.workspace_size < 90.0 * (double)most.kv_len);
    size_t last = 0;
    most.threads = 16;
    for (most.kv_len = 2000; most.kv_len < 30000000; most.kv_len += most.kv_len / 8) {     /* nor does it shrink */
        assert_ok(attn_query(&most, NULL, &huge));
        if (huge.workspace_size < last) fail_msg("%lld keys: %zu bytes, %zu for less", (long long)most.kv_len, huge.workspace_size, last);
        last = huge.workspace_size;
    }
    fill_codes(codes[0], codes[1], sizeof codes[0], &r);
    for (int64_t j = 0; j < PAGES * PAGE * HEADS; j++) scale[j] = 0.004f;
    for (int64_t i = 0; i < HEADS * DIM; i++) q[i] = (float)(4 * (random_unit(&r) - 0.5));
    for (int64_t i = 0; i < KEYS / PAGE; i++) table[i] = (int32_t)(i % PAGES);
    for (int n = 0; n < (EMULATED ? 2 : 4); n++) {       /* few keys, and all: then not all heads begin at once */
        const int32_t used_k = n < 2 ? 2500 : KEYS;
        attn_desc d = { 0 };
        attn_plan plan, plain;
        d.batch = 1, d.heads = d.kv_heads = HEADS, d.q_len = 1, d.kv_len = KEYS, d.head_dim = DIM, d.threads = n % 2 ? 64 : 1;
        d.seq.block_table = table, d.seq.page_size = PAGE, d.seq.max_pages = KEYS / PAGE, d.seq.pages = PAGES, d.seq.used_k = &used_k;
        d.q.data = q, d.k.data = codes[0], d.v.data = codes[1], d.o.data = o[n % 2], d.k.dtype = d.v.dtype = ATTN_INT16, d.k.scale = d.v.scale = scale;
        d.backend = "flash";
        assert_ok(attn_query(&d, NULL, &plain));
        d.backend = "adaptive", d.cert = cert[n % 2], d.tolerance = 0.01f;
        assert_ok(attn_query(&d, NULL, &plan));
        if (plan.workspace_size > plain.workspace_size + ((size_t)288 << 20)) fail_msg("%d threads: %zu bytes, %zu without a tolerance", (int)d.threads, plan.workspace_size, plain.workspace_size);
        assert_ok(attn_forward(&d));
        if (n % 2) assert_memory_equal(o[0], o[1], sizeof o[0]);
        if (n % 2) assert_memory_equal(cert[0], cert[1], sizeof cert[0]);
    }
}

/* ---- a row of a group that is no number leaves the others as they are ---- */
static void test_bad_row(void **unused)
{
    enum { KEYS = 3000, DIM = 64, GROUP = 4 };
    static char codes[2][(KEYS * DIM + HALF - 1) / HALF * PIECE];
    static float scale[KEYS], q[GROUP * DIM], o[GROUP * DIM], cert[GROUP];
    static double want[GROUP * DIM];
    uint64_t r = 11;
    (void)unused;
    fill_codes(codes[0], codes[1], sizeof codes[0], &r);
    for (int64_t j = 0; j < KEYS; j++) scale[j] = 0.004f;
    for (int bad = 0; bad < 2 * GROUP; bad++) {
        attn_statistics told;
        attn_desc d = decoded(KEYS, q, codes[0], codes[1], scale, scale, o);
        for (int64_t i = 0; i < GROUP * DIM; i++) q[i] = i == bad / 2 * DIM + 5 ? (bad % 2 ? NAN : INFINITY) : (float)random_normal(&r);
        d.kv_heads = 1, d.heads = GROUP;
        exactly(d, want);
        d.cert = cert, d.statistics = &told;
        assert_ok(attn_forward(&d));
        if (told.rows_redone != 1) fail_msg("row %d is no number: %d rows are computed again", bad / 2, (int)told.rows_redone);
        for (int64_t i = 0; i < GROUP * DIM; i++)
            if (i / DIM == bad / 2) assert_true(cert[bad / 2] == 0 && isnan(o[i]) == isnan(want[i]));
            else if (!(cert[i / DIM] > 0 && fabs((double)o[i] - want[i]) <= (double)cert[i / DIM] + 1e-6))
                fail_msg("row %d is no number: o[%d] = %g, not %g", bad / 2, (int)i, (double)o[i], want[i]);
    }
}

/* ---- what is told of bytes and tiles, where it can be counted by hand ---- */
static void test_told(void **unused)
{
    enum { KEYS = 8321, DIM = 64, V_DIM = 128 };            /* 65 chunks and a key, which the first of two rows does not see */
    static char codes[2][(KEYS * V_DIM + HALF - 1) / HALF * PIECE];
    static float scale[2][KEYS], q[2 * DIM], o[2 * V_DIM], cert[2], lse[2];
    uint64_t r = 8;
    (void)unused;
    fill_codes(codes[0], codes[1], sizeof codes[0], &r);
    for (int64_t j = 0; j < KEYS; j++) scale[0][j] = j / 128 % 4 ? 1e-4f : 0.05f, scale[1][j] = 0.004f;
    for (int zero = 0; zero < 2; zero++) {
        attn_desc d = { 0 };
        attn_statistics told;
        for (int64_t i = 0; i < 2 * DIM; i++) q[i] = zero ? 0 : (float)(8 * random_normal(&r));
        d.batch = d.heads = 1, d.q_len = 2, d.kv_len = KEYS, d.head_dim = DIM, d.v_dim = V_DIM, d.flags = ATTN_CAUSAL | ATTN_TOLERANCE_ABSOLUTE;
        d.q.data = q, d.k.data = codes[0], d.v.data = codes[1], d.o.data = o, d.k.dtype = d.v.dtype = ATTN_INT16, d.k.scale = scale[0], d.v.scale = scale[1];
        d.backend = "adaptive", d.tolerance = 0.006f, d.cert = cert, d.statistics = &told;
        assert_ok(attn_forward(&d));
        assert_true(told.rows == 2 && told.rows_redone == 0 && told.tiles_int16 == 65 + 66 && told.tiles_f32 == 0);
        assert_true(told.largest_cert == (cert[0] > cert[1] ? cert[0] : cert[1]));
        if (zero) assert_true(told.tiles_skipped == 0 && told.bytes == KEYS * (DIM + V_DIM));     /* all weights are one: high bytes, of all */
        else assert_true(told.tiles_skipped == 48 + 49);                                            /* three chunks in four hold nothing */
        assert_true(told.lse_error == 0);
        d.lse = lse;
        assert_ok(attn_forward(&d));
        assert_true(told.lse_error > 0);                                                            /* of an lse that was asked for */
    }
}

/* ---- a cert is written where all is computed exactly, too, and without statistics ---- */
static void test_exact_cert(void **unused)
{
    static const char *const backend[] = { NULL, "flash", "standard", "reference" };
    static float x[5 * 16], o[16];
    (void)unused;
    for (int b = 0; b < 4; b++) {
        float cert[2] = { 5, 5 };
        attn_desc d = { 0 };
        d.batch = d.q_len = 1, d.heads = 2, d.kv_len = 5, d.head_dim = 8, d.q.data = d.k.data = d.v.data = x, d.o.data = o;
        d.tolerance = 0.01f, d.cert = cert, d.backend = backend[b];
        assert_ok(attn_forward(&d));
        assert_true(cert[0] == 0 && cert[1] == 0);
    }
}

/* ---- who asks for little in numbers may ask for much as a share: a small tolerance is no reason against planes where it is absolute ---- */
static void test_absolute(void **unused)
{
    static float scale;
    static char codes[2];
    (void)unused;
    if (strncmp(attn_isa(), "avx", 3)) skip();          /* where it has to be named */
    for (int absolute = 0; absolute < 2; absolute++) {
        attn_desc d = { 0 };
        attn_plan plan;
        d.batch = d.heads = d.q_len = 1, d.kv_len = 4096, d.head_dim = 64, d.k.data = d.v.data = codes, d.k.dtype = d.v.dtype = ATTN_INT16;
        d.k.scale = d.v.scale = &scale, d.tolerance = 1e-3f, d.flags = absolute ? ATTN_TOLERANCE_ABSOLUTE : 0;
        assert_ok(attn_query(&d, NULL, &plan));
        assert_string_equal(plan.backend, absolute ? "adaptive" : "flash");
        if (absolute) assert_string_equal(plan.kernel, "adaptive_decode");
    }
}

/* ---- high bytes are read first of few rows, for their dims, unless the backend is named ---- */
static void test_rows_for_dims(void **unused)
{
    enum { KEYS = 2048 };
    static const struct { int64_t dim, rows; int decoded; } cases[] = { { 32, 1, 0 }, { 64, 1, 1 }, { 64, 2, 0 }, { 128, 4, 1 }, { 128, 5, 0 }, { 256, 8, 1 } };
    static char codes[2][KEYS * 256 / HALF * PIECE];
    static float scale[KEYS], q[8 * 256], o[8 * 256];
    uint64_t r = 21;
    (void)unused;
    if (strncmp(attn_isa(), "avx", 3)) skip();          /* where it has to be named */
    for (int k = 0; k < 2; k++)
        for (size_t n = 0; n < sizeof codes[0]; n++) codes[k][n] = (char)(int)(random_unit(&r) * 256);
    for (int64_t j = 0; j < KEYS; j++) scale[j] = 0.01f;
    for (int n = 0; n < 8 * 256; n++) q[n] = (float)random_normal(&r);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++)
        for (int named = 0; named < 2; named++) {
            attn_desc d = { 0 };
            attn_statistics told;
            d.batch = d.kv_heads = d.q_len = 1, d.heads = cases[n].rows, d.kv_len = KEYS, d.head_dim = cases[n].dim;
            d.q.data = q, d.k.data = codes[0], d.v.data = codes[1], d.o.data = o, d.k.dtype = d.v.dtype = ATTN_INT16, d.k.scale = d.v.scale = scale;
            d.backend = named ? "adaptive" : NULL, d.tolerance = 0.01f, d.statistics = &told;
            assert_ok(attn_forward(&d));
            if (named || cases[n].decoded) assert_true(told.bytes > 0 && told.why[0] == 0);
            else assert_true(told.bytes == 0 && strstr(told.why, "high bytes"));
        }
}

/* ---- one key in eight weighs 50 times as much as those around it, so that no chunk tells what it costs to leave these out: over all of them more than
 * the tolerance, and they are read ---- */
static void test_light_among_heavy(void **unused)
{
    enum { MOST = 20000, DIM = 64 };
    static const int64_t keys[] = { 3000, 8192, MOST };
    static char codes[2][(MOST * DIM + HALF - 1) / HALF * PIECE];
    static float scale[2][MOST], q[DIM], o[DIM], cert[1];
    static double want[DIM];
    (void)unused;
    memset(codes[0], 0, sizeof codes[0]);
    for (int64_t j = 0; j < MOST; j++) {
        scale[0][j] = 0.25f, scale[1][j] = 0.01f;
        element_put(codes[0], ATTN_INT16, j * DIM, j % 8 ? 0 : 127);
        for (int64_t e = 0; e < DIM; e++) element_put(codes[1], ATTN_INT16, j * DIM + e, j % 8 ? -100 : 100);
    }
    q[0] = 1;
    for (int64_t n = 0; n < COUNT(keys) * 2; n++) {
        attn_desc d = decoded(keys[n / 2], q, codes[0], codes[1], scale[0], scale[1], o);
        attn_statistics told;
        d.tolerance = n % 2 ? 0.3f : 0.1f, d.cert = cert, d.statistics = &told;
        exactly(d, want);
        assert_ok(attn_forward(&d));
        if (told.rows_redone || !(cert[0] > 0) || told.mass_skipped > 0)
            fail_msg("%d keys: %d rows redone, certificate %g, %g skipped, %s", (int)d.kv_len, (int)told.rows_redone, (double)cert[0], (double)told.mass_skipped, told.why);
        for (int64_t i = 0; i < DIM; i++)
            if (!(fabs((double)o[i] - want[i]) <= (double)cert[0] + 1e-6)) fail_msg("%d keys: o[%d] = %g, not %g", (int)d.kv_len, (int)i, (double)o[i], want[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_codes), cmocka_unit_test(test_layouts), cmocka_unit_test(test_append), cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_across), cmocka_unit_test(test_scales), cmocka_unit_test(test_after_longer), cmocka_unit_test(test_signs), cmocka_unit_test(test_strides_of_scales), cmocka_unit_test(test_windows), cmocka_unit_test(test_scales_seen), cmocka_unit_test(test_worst_key), cmocka_unit_test(test_far_key), cmocka_unit_test(test_far_maximum), cmocka_unit_test(test_window), cmocka_unit_test(test_padding), cmocka_unit_test(test_many_keys), cmocka_unit_test(test_skipped), cmocka_unit_test(test_bad_row), cmocka_unit_test(test_kept_heads), cmocka_unit_test(test_room_of_threads), cmocka_unit_test(test_behind_the_last), cmocka_unit_test(test_one_of_two), cmocka_unit_test(test_all_read), cmocka_unit_test(test_within_f16), cmocka_unit_test(test_told), cmocka_unit_test(test_exact_cert), cmocka_unit_test(test_absolute), cmocka_unit_test(test_rows_for_dims),
        cmocka_unit_test(test_rows_by_length), cmocka_unit_test(test_weights_between_codes), cmocka_unit_test(test_sums_of_many_dims), cmocka_unit_test(test_chunks_left_out), cmocka_unit_test(test_light_among_heavy) };
    return cmocka_run_group_tests_name("planes", tests, NULL, NULL);
}
