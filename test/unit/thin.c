/* thin.c - few rows on keys and values where they lie: every type of a cache, dims that fill vectors and dims that do not, one to
 * eight rows, pages of any size, and scales from 2^-124 to 2^115, with q to match: what is multiplied late may neither overflow nor
 * be lost. Every ISA that runs here, against the reference. */
#include "unit.h"

enum { KV = 300, MOST_ROWS = 8, MOST_DIM = 136, PAGES = KV };
static const int32_t types[] = { ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_INT8, ATTN_FP8_E4M3, ATTN_Q8_0, ATTN_Q4_0, ATTN_INT16 };


typedef struct cache {
    int64_t dim, kv, page;                      /* page 0: no pages */
    void *k, *v;
    float k_scale[2 * KV + 2 * PAGES], v_scale[2 * KV + 2 * PAGES], q[MOST_ROWS * MOST_DIM], most; /* |v| at most */
    int32_t table[PAGES], used;
} cache;

static int scaled(int32_t type) { return type == ATTN_INT8 || type == ATTN_INT16 || type == ATTN_FP8_E4M3; }
static double code(uint64_t *r)                         /* of fp8, but NaN */
{
    int c = (int)(random_bits(r) & 255);
    return c % 128 == 127 ? c - 1 : c;
}
/* Keys in pages lie backwards, so that nothing is right by chance. */
static void fill_cache(cache *c, int32_t type, double q_size, double k_scale, double v_scale, uint64_t seed)
{
    uint64_t r = seed;
    const int64_t slots = c->page ? (c->kv + c->page - 1) / c->page * c->page : c->kv;
    const size_t room = (size_t)dtype_bytes(type, whole_pieces(slots * c->dim, type));
    c->k = malloc(room), c->v = malloc(room);
    for (int64_t i = 0; i < slots * c->dim; i++) {
        double k = random_normal(&r), v = random_normal(&r);
        if (type == ATTN_INT8 || type == ATTN_Q8_0) k = rint(k * 36), v = rint(v * 36);
        if (type == ATTN_Q4_0) k = fmax(-8, fmin(7, rint(k * 3))), v = fmax(-8, fmin(7, rint(v * 3)));
        if (is_blocks(type) && i % 32 == 0) {
            const double unit = type == ATTN_Q8_0 ? 0.02 : 0.3;
            block_scale(c->k, type, i, unit * (0.5 + random_unit(&r))), block_scale(c->v, type, i, unit * (0.5 + random_unit(&r)));
        }
        if (type == ATTN_INT16) k = rint(k * 7000) / 256, v = rint(v * 7000) / 256;
        if (type == ATTN_FP8_E4M3) k = code(&r), v = code(&r);
        element_put(c->k, type, i, k), element_put(c->v, type, i, v);
    }
    for (int64_t i = 0; i < slots; i++) {
        c->k_scale[i] = (float)(k_scale * (0.5 + random_unit(&r)));
        c->v_scale[i] = (float)(v_scale * (0.5 + random_unit(&r)));
    }
    for (int64_t i = 0; i < MOST_ROWS * c->dim; i++) c->q[i] = (float)(q_size * random_normal(&r));
    for (int64_t p = 0; c->page && p < slots / c->page; p++) c->table[p] = (int32_t)(slots / c->page - 1 - p);
    c->used = (int32_t)c->kv;
    c->most = 0;
    for (int64_t i = 0; i < slots * c->dim; i++)
        c->most = fmaxf(c->most, (float)(fabs(element_get(c->v, type, i)) * (scaled(type) ? fabsf(c->v_scale[i / c->dim]) : 1)));
}
static void drop_cache(cache *c) { free(c->k), free(c->v); }

static float dropout;                           /* of check_rows */
/* One sequence of heads = group, q_len queries; a window is of 101 keys on the left. */
static void check_rows(cache *c, int32_t type, int64_t group, int64_t q_len, uint32_t flags)
{
    float o[2][MOST_ROWS * MOST_DIM], lse[2][MOST_ROWS];
    attn_desc d = { 0 };
    d.batch = 1, d.heads = group, d.kv_heads = 1, d.q_len = q_len, d.kv_len = c->kv, d.head_dim = c->dim, d.threads = 1, d.flags = flags;
    d.q.data = c->q, d.k.data = c->k, d.v.data = c->v, d.k.dtype = d.v.dtype = type;
    d.window_left = flags & ATTN_WINDOW_LEFT ? 101 : 0, d.dropout = dropout, d.seed = 3;
    if (scaled(type)) d.k.scale = c->k_scale, d.v.scale = c->v_scale;
    if (c->page) {
        d.seq.block_table = c->table, d.seq.page_size = c->page, d.seq.max_pages = (c->kv + c->page - 1) / c->page;
        d.seq.pages = d.seq.max_pages, d.seq.used_k = &c->used;
    }
    for (int i = 0; i < 2; i++) {
        d.backend = i ? "flash" : "reference", d.o.data = o[i], d.lse = lse[i];
        assert_ok(attn_forward(&d));
    }
    for (int64_t i = 0; i < group * q_len * c->dim; i++)
        if (!(fabs((double)o[1][i] - (double)o[0][i]) <= 4e-6 * (double)c->most + 0x1p-120))
            fail_msg("type %d, dim %lld, %lld x %lld rows, page %lld: o[%lld] is %g, not %g", (int)type, (long long)c->dim, (long long)group,
                     (long long)q_len, (long long)c->page, (long long)i, (double)o[1][i], (double)o[0][i]);
    for (int64_t i = 0; i < group * q_len; i++)
        if (!(fabsf(lse[1][i] - lse[0][i]) <= 1e-5f * (1 + fabsf(lse[0][i]))))
            fail_msg("type %d, dim %lld: lse[%lld] is %g, not %g", (int)type, (long long)c->dim, (long long)i, (double)lse[1][i], (double)lse[0][i]);
}

static void test_types(void **state)
{
    static const int64_t dims[] = { 1, 8, 30, 33, 44, 64, 72, 112, 128, 136 }, rows[][2] = { { 1, 1 }, { 2, 1 }, { 4, 1 }, { 1, 3 }, { 2, 3 }, { 8, 1 }, { 1, 8 }, { 5, 1 } },
                         keys[] = { 64, 65, 191, 300 };
    (void)state;
    for (int64_t t = 0; t < COUNT(types); t++)
        for (int64_t n = 0; n < COUNT(dims); n++)
            for (int64_t r = 0; r < COUNT(rows); r++) {
                if ((types[t] == ATTN_INT16 && dims[n] % 16) || (is_blocks(types[t]) && dims[n] % 32)) continue;
                cache c = { dims[n], keys[(t + n + r) % 4], 0, NULL, NULL, { 0 }, { 0 }, { 0 }, 0, { 0 }, 0 };
                fill_cache(&c, types[t], 1, 0.02, 0.02, (uint64_t)(t * 100 + n * 10 + r));
                check_rows(&c, types[t], rows[r][0], rows[r][1], r % 2 ? ATTN_CAUSAL : 0);
                drop_cache(&c);
            }
}
static void test_pages(void **state)
{
    static const int64_t pages[] = { 1, 3, 16, 64, 127, 300 };
    (void)state;
    for (int64_t t = 0; t < COUNT(types); t++)
        for (int64_t n = 0; n < COUNT(pages); n++) {
            cache c = { n % 2 || is_blocks(types[t]) ? 64 : 48, 299, pages[n], NULL, NULL, { 0 }, { 0 }, { 0 }, 0, { 0 }, 0 };
            fill_cache(&c, types[t], 1, 0.02, 0.02, (uint64_t)(t * 100 + n));
            check_rows(&c, types[t], 4, 1, 0);
            drop_cache(&c);
        }
}
/* q k v stays where f32 can hold it, whatever the codes, scales and queries are on the way. */
/* Windows of few rows begin and end within a block; words of dropout come in fours. */
static void test_windows(void **state)
{
    static const int64_t keys[] = { 64, 130, 191, 259, 290, 299, 300 };
    (void)state;
    for (int64_t t = 0; t < COUNT(types); t++)
        for (int64_t n = 0; n < COUNT(keys); n++)
            for (int64_t q_len = 1; q_len <= 7; q_len += 3)
                for (int drop = 0; drop < 2; drop++) {
                    cache c = { 64, keys[n], 0, NULL, NULL, { 0 }, { 0 }, { 0 }, 0, { 0 }, 0 };
                    fill_cache(&c, types[t], 1, 0.02, 0.02, (uint64_t)(t * 100 + n));
                    dropout = drop ? 0.25f : 0;
                    check_rows(&c, types[t], n % 2 ? 1 : q_len == 1 ? 4 : 1, q_len, ATTN_CAUSAL | (n % 3 ? ATTN_WINDOW_LEFT : 0));
                    drop_cache(&c);
                }
    dropout = 0;
}
static void test_scales(void **state)
{
    static const double sizes[][3] = { /* of q, of K's scales, of V's; the first three lose the small codes of fp8 however they are read */
        { 0x1p122, 0x1p-124, 1 }, { 30, 0x1p-8, 0x1p-119 }, { 30, 0x1p-8, -0x1p-119 },
        { 0x1p110, 0x1p-116, 1 }, { 0x1p112, 0x1p-114, 0x1p-100 }, { 0x1p-110, 0x1p100, 0x1p100 }, { 1, 0x1p-8, 0x1p-112 }, { 1, 0x1p-8, 0x1p-104 },
        { 1, 0x1p-8, 0x1p115 }, { 0x1p20, 0x1p-28, 0x1p-81 }, { 0x1p82, 0x1p-90, 0x1p-79 }, { 0x1p79, 0x1p-86, 0 }, { 0, 0x1p100, 0x1p-60 } };
    (void)state;
    for (int64_t t = 0; t < COUNT(types); t++)
        for (int64_t n = types[t] == ATTN_INT8 ? 0 : 3; n < COUNT(sizes) && scaled(types[t]); n++)
            for (int64_t dim = 32; dim <= 64; dim += 16) {
                cache c = { dim, 200, 0, NULL, NULL, { 0 }, { 0 }, { 0 }, 0, { 0 }, 0 };
                fill_cache(&c, types[t], sizes[n][0], sizes[n][1], sizes[n][2], (uint64_t)n);
                check_rows(&c, types[t], 4, 1, 0);
                check_rows(&c, types[t], 1, 1, 0);
                drop_cache(&c);
            }
}
/* One key of another scale among ordinary ones, and one that is 0. */
static void test_odd_scale(void **state)
{
    static const float odd[] = { 0, 0x1p-126f, 0x1p-90f, 0x1p90f, -0.02f };
    (void)state;
    for (int64_t n = 0; n < COUNT(odd); n++)
        for (int64_t at = 0; at < 200; at += 37) {
            cache c = { 64, 200, 0, NULL, NULL, { 0 }, { 0 }, { 0 }, 0, { 0 }, 0 };
            fill_cache(&c, ATTN_INT8, 1, 0.02, 0.02, (uint64_t)at);
            c.v_scale[at] = odd[n], c.most = fmaxf(c.most, 127 * fabsf(odd[n]));
            if (fabsf(odd[n]) < 1) c.k_scale[(at + 7) % 200] = odd[n];
            check_rows(&c, ATTN_INT8, 4, 1, 0);
            drop_cache(&c);
        }
}

/* A key whose scale is infinite has no finite score: rows that see it are not finite, those that do not are as with a 0 there. */
static void test_infinite_scale(void **state)
{
    static float o[3][4 * 64];
    (void)state;
    for (int64_t at = 0; at < 200; at += 13)
        for (int run = 0; run < 3; run++) {                     /* the reference, flash; flash with a 0 */
            cache c = { 64, 200, 0, NULL, NULL, { 0 }, { 0 }, { 0 }, 0, { 0 }, 0 };
            attn_desc d = { 0 };
            fill_cache(&c, ATTN_INT8, 1, 0.02, 0.02, (uint64_t)at);
            c.k_scale[at] = run == 2 ? 0 : INFINITY;
            d.batch = d.heads = 1, d.q_len = 4, d.kv_len = 200, d.head_dim = 64, d.flags = ATTN_CAUSAL | ATTN_OFFSET, d.offset = 100;
            d.q.data = c.q, d.k.data = c.k, d.v.data = c.v, d.k.dtype = d.v.dtype = ATTN_INT8, d.k.scale = c.k_scale, d.v.scale = c.v_scale;
            d.o.data = o[run], d.backend = run ? "flash" : "reference", d.threads = 1;
            assert_ok(attn_forward(&d));
            drop_cache(&c);
            for (int64_t i = 0; i < 4 * 64 && run == 1; i++)
                if (!isfinite(o[0][i]) && isfinite(o[1][i])) fail_msg("key %lld: o[%lld] is finite", (long long)at, (long long)i);
            for (int64_t i = 0; i < 4 && run == 2; i++)
                if (100 + i < at) assert_memory_equal(o[1] + i * 64, o[2] + i * 64, 64 * sizeof(float));
        }
}

/* kv heads that lie beside each other are read together, those that lie apart one after the other: the bits are the same, and those
 * of keys in pages and of any number of threads too. The heads are views of one buffer, so that long sequences stay small. */
typedef struct heads_of { int64_t group, q_len, kv_heads, dim, v_dim, kv, token, head; uint32_t flags; int extras; } heads_of;
static const heads_of gangs[] = {
    { 4, 1, 8, 128, 128, 150, 1024, 128, 0, 0 }, { 4, 1, 8, 32, 32, 1500, 256, 32, 0, 0 }, { 1, 1, 20, 64, 64, 200, 1280, 64, 0, 0 },  { 4, 1, 2, 64, 64, 5000, 128, 64, 0, 0 },
    { 1, 1, 32, 16, 48, 70, 1536, 48, 0, 1 },    { 2, 1, 16, 8, 8, 2049, 128, 8, 0, 2 },   { 1, 3, 4, 64, 64, 1300, 256, 64, ATTN_CAUSAL, 0 },
    { 1, 4, 8, 32, 32, 1025, 300, 36, ATTN_CAUSAL, 1 }, { 3, 1, 6, 72, 64, 333, 432, 72, 0, 2 }, { 1, 1, 2, 256, 256, 33000, 8, 2, 0, 0 },
    { 2, 1, 2, 512, 64, 5000, 8, 4, 0, 0 },       { 2, 1, 8, 24, 24, 3000, 192, 24, ATTN_CAUSAL | ATTN_WINDOW_LEFT, 0 },
    { 1, 2, 2, 8, 8, 64, 16, 8, ATTN_CAUSAL, 0 }, { 8, 1, 4, 64, 64, 400, 256, 64, 0, 0 },     { 1, 1, 2, 385, 385, 17000, 10, 3, 0, 0 },
    { 1, 3, 2, 33, 5, 700, 70, 35, ATTN_CAUSAL, 0 },     { 1, 1, 16, 130, 130, 130, 2080, 130, 0, 1 } };
static void test_gangs(void **state)
{
    static const int64_t pages[] = { 0, 1, 16, 100 };
    static const float slopes[32] = { 0.01f, 0.02f, 0.001f }, sinks[32] = { 0.5f, -1, 2 };
    (void)state;
    for (int64_t n = 0; n < COUNT(gangs); n++)
        for (int64_t t = 0; t < COUNT(types) - 1; t++) {                /* planes are never read so */
            const heads_of *s = gangs + n;
            const int64_t H = s->kv_heads, heads = s->group * H, size = s->kv * s->token + s->head * H + s->dim + s->v_dim,
                          rows = 2 * s->q_len * heads, most = (s->kv + 99) / 100 * 100;
            if (s->kv > 3000 && types[t] != (s->kv > 10000 ? ATTN_F32 : ATTN_F16)) continue;
            if (s->kv > 1000 && t > 0 && (n + t) % 3) continue;
            if (is_blocks(types[t]) && (s->dim | s->v_dim | s->token | s->head) % 32) continue;
            uint64_t r = (uint64_t)(n * 10 + t);
            /* two sequences; behind each copy keys that pages may reach */
            const int64_t copy = (2 * size + 100 * s->token + 31) / 32 * 32;
            char *beside[2], *apart[2];
            float *scale = malloc((size_t)(2 * (most + 100) * H) * sizeof *scale), *q = malloc((size_t)(rows * s->dim) * sizeof *q),
                  *o[2], *lse[2];
            int32_t *table = malloc((size_t)(2 * most) * sizeof *table), used[2] = { (int32_t)s->kv, (int32_t)(s->kv - s->kv / 3) };
            for (int kv = 0; kv < 2; kv++) {
                beside[kv] = malloc((size_t)dtype_bytes(types[t], copy)), apart[kv] = malloc((size_t)dtype_bytes(types[t], copy * H));
                for (int64_t i = 0; i < copy; i++) {
                    double x = random_normal(&r);
                    if (is_blocks(types[t]) && i % 32 == 0) block_scale(beside[kv], types[t], i, (types[t] == ATTN_Q8_0 ? 0.02 : 0.3) * (0.5 + random_unit(&r)));
                    if (types[t] == ATTN_Q4_0) x = fmax(-8, fmin(7, rint(x * 3)));
                    element_put(beside[kv], types[t], i, types[t] == ATTN_INT8 || types[t] == ATTN_Q8_0 ? rint(x * 36) : types[t] == ATTN_FP8_E4M3 ? code(&r) : x);
                }
                for (int64_t h = 0; h < H; h++)
                    memcpy(apart[kv] + dtype_bytes(types[t], h * copy), beside[kv] + dtype_bytes(types[t], h * s->head),
                           (size_t)dtype_bytes(types[t], copy - h * s->head));
                o[kv] = malloc((size_t)(rows * s->v_dim) * sizeof **o), lse[kv] = malloc((size_t)rows * sizeof **lse);
            }
            for (int64_t i = 0; i < 2 * (most + 100) * H; i++) scale[i] = (float)(0.02 * (0.5 + random_unit(&r)));
            for (int64_t i = 0; i < rows * s->dim; i++) q[i] = (float)random_normal(&r);
            attn_desc d = { 0 };
            d.batch = 2, d.q_len = s->q_len, d.kv_len = s->kv, d.heads = heads, d.kv_heads = H, d.head_dim = s->dim, d.v_dim = s->v_dim;
            d.flags = s->flags, d.window_left = s->flags & ATTN_WINDOW_LEFT ? 777 : 0, d.backend = "flash", d.q.data = q, d.k.dtype = d.v.dtype = types[t], d.seq.used_k = used;
            if (s->extras == 1) d.alibi = slopes, d.softcap = 20;
            if (s->extras == 2) d.sink = sinks;
            for (int a = 0; a < 3; a++) d.k.stride[a] = d.v.stride[a] = a == 0 ? size : a == 1 ? s->token : copy;
            if (scaled(types[t])) {
                d.k.scale = d.v.scale = scale;
                for (int a = 0; a < 3; a++) d.k.scale_stride[a] = d.v.scale_stride[a] = a == 0 ? most * H : a == 1 ? H : 1;
            }
            d.k.data = apart[0], d.v.data = apart[1], d.o.data = o[0], d.lse = lse[0], d.threads = 1;
            assert_ok(attn_forward(&d));
            d.k.data = beside[0], d.v.data = beside[1], d.o.data = o[1], d.lse = lse[1];
            d.k.stride[2] = d.v.stride[2] = s->head;
            for (int64_t p = 0; p < COUNT(pages); p++)
                for (int32_t threads = 1; threads < (s->kv > 1000 ? 3 : 4); threads++) {
                    attn_desc paged = d;
                    const int64_t page = pages[p], each_has = page ? (s->kv + page - 1) / page : 0;
                    if (page && (s->kv > 3000 || scaled(types[t]) || is_blocks(types[t]))) continue;
                    if (page) {                     /* the second sequence has the pages behind those of the first */
                        for (int64_t i = 0; i < 2 * each_has; i++) table[i] = (int32_t)i;
                        paged.seq.block_table = table, paged.seq.page_size = page, paged.seq.pages = 2 * each_has, paged.seq.max_pages = each_has;
                        paged.k.stride[0] = paged.v.stride[0] = page * s->token;
                        if (each_has * page * s->token > size) continue;
                        paged.batch = 1;
                    }
                    paged.threads = threads;
                    memset(o[1], 0, (size_t)(rows * s->v_dim) * sizeof **o), memset(lse[1], 0, (size_t)rows * sizeof **lse);
                    assert_ok(attn_forward(&paged));
                    const size_t done = (size_t)(page ? rows / 2 : rows);
                    if (memcmp(o[0], o[1], done * (size_t)s->v_dim * sizeof **o) || memcmp(lse[0], lse[1], done * sizeof **lse))
                        fail_msg("case %lld, type %d, pages of %lld, %d threads: other bits than of heads apart", (long long)n, (int)types[t],
                                 (long long)page, (int)threads);
                }
            for (int kv = 0; kv < 2; kv++) free(beside[kv]), free(apart[kv]), free(o[kv]), free(lse[kv]);
            free(scale), free(q), free(table);
        }
}

/* What lies in the padding of q, and how much of it there is, changes no bit: products of codes that might overflow are scaled first. */
static void test_padding_of_q(void **state)
{
    enum { KEYS = 1300, DIM = 128, MOST = 10 };          /* more keys than a block has, of rows fewer or more than a tile has */
    static const struct { int64_t used, most; float padding; int64_t large; } rows[] = {
        { 3, 4, 1e30f, -1 }, { 3, 4, INFINITY, -1 }, { 3, 9, 0, 2 }, { 8, 10, 0, 4 }, { 8, 10, 1, 0 }, { 1, 2, -1e35f, -1 } };
    static float q[MOST * DIM], scale[KEYS], o[2][MOST * DIM], lse[2][MOST];
    static uint8_t kv[2][KEYS * DIM];
    (void)state;
    for (int64_t n = 0; n < COUNT(rows) * 2; n++) {
        const int64_t used = rows[n / 2].used;
        const int32_t length = (int32_t)used;
        uint64_t r = (uint64_t)n;
        for (int64_t i = 0; i < MOST * DIM; i++) q[i] = i < used * DIM ? (float)random_normal(&r) : rows[n / 2].padding;
        if (rows[n / 2].large >= 0) q[rows[n / 2].large * DIM] = 1e30f;
        for (int64_t i = 0; i < KEYS; i++) scale[i] = (float)(0.01 * (0.5 + random_unit(&r)));
        for (int64_t i = 0; i < 2 * KEYS * DIM; i++) kv[i % 2][i / 2] = (uint8_t)(n % 2 ? random_unit(&r) * 100 : random_unit(&r) * 256);
        attn_desc d = { 0 };
        d.batch = d.heads = 1, d.q_len = used, d.kv_len = KEYS, d.head_dim = DIM, d.threads = 1, d.backend = "flash";
        d.q.data = q, d.k.data = kv[0], d.v.data = kv[1], d.k.dtype = d.v.dtype = n % 2 ? ATTN_FP8_E4M3 : ATTN_INT8, d.k.scale = d.v.scale = scale;
        d.o.data = o[0], d.lse = lse[0];
        assert_ok(attn_forward(&d));
        d.q_len = rows[n / 2].most, d.seq.used_q = &length, d.o.data = o[1], d.lse = lse[1];
        assert_ok(attn_forward(&d));
        if (memcmp(o[0], o[1], (size_t)(used * DIM) * sizeof **o) || memcmp(lse[0], lse[1], (size_t)used * sizeof **lse))
            fail_msg("%lld rows of %lld, padding %g: other bits than without padding", (long long)used, (long long)rows[n / 2].most, (double)rows[n / 2].padding);
    }
}
/* One number of q that is large, in any row and dim, also behind those of v: products of codes with it might overflow. Fewer or more dims of v than of q
 * and k. */
static void test_large_q(void **state)
{
    enum { KEYS = 150, DIM = 48, V_DIM = 80, ROWS = 5 };
    static float q[ROWS * DIM], k_scale[KEYS], v_scale[KEYS], o[2][ROWS * V_DIM], lse[2][ROWS];
    static uint8_t kv[2][KEYS * V_DIM];
    (void)state;
    for (int64_t n = 0; n < 2 * ROWS * 3; n++) {
        const int64_t row = n / 2 % ROWS, at = n / 2 / ROWS * (DIM / 2 - 1);    /* dims 0, 23, 46 */
        uint64_t r = (uint64_t)n;
        attn_desc d = { 0 };
        for (int64_t i = 0; i < ROWS * DIM; i++) q[i] = (float)random_normal(&r);
        q[row * DIM + at] = 0x1p122f;
        for (int64_t i = 0; i < KEYS; i++) k_scale[i] = 0x1p-124f * (float)(0.5 + random_unit(&r)), v_scale[i] = (float)(0.01 + 0.01 * random_unit(&r));
        for (int64_t i = 0; i < 2 * COUNT(kv[0]); i++) kv[i % 2][i / 2] = (uint8_t)(random_unit(&r) * 256);
        d.batch = 1, d.heads = ROWS, d.kv_heads = d.q_len = 1, d.kv_len = KEYS, d.head_dim = DIM, d.v_dim = n % 2 ? V_DIM : 16, d.threads = 1;
        d.q.data = q, d.k.data = kv[0], d.v.data = kv[1], d.k.dtype = d.v.dtype = ATTN_INT8, d.k.scale = k_scale, d.v.scale = v_scale;
        for (int b = 0; b < 2; b++) {
            d.backend = b ? "flash" : "reference", d.o.data = o[b], d.lse = lse[b];
            assert_ok(attn_forward(&d));
        }
        for (int64_t i = 0; i < ROWS * d.v_dim; i++)
            if (!(fabsf(o[1][i] - o[0][i]) <= 1e-4f)) fail_msg("%lld of row %lld, v_dim %d: o[%d] is %g, not %g", (long long)at, (long long)row, (int)d.v_dim, (int)i, (double)o[1][i], (double)o[0][i]);
        for (int64_t i = 0; i < ROWS; i++) assert_true(fabsf(lse[1][i] - lse[0][i]) <= 1e-5f * (1 + fabsf(lse[0][i])));
    }
}
/* Of kv heads that are read together each has scales of its own size, with q to match: whether they go to the products is asked head by head. */
static void test_scales_of_heads(void **state)
{
    enum { KEYS = 200, DIM = 64, H = 4, GROUP = 2 };
    static float q[H * GROUP * DIM], scale[KEYS * H], ones[KEYS * H], o[2][H * GROUP * DIM], lse[2][H * GROUP];
    static uint8_t kv[2][KEYS * H * DIM];
    (void)state;
    for (int64_t n = 0; n < 4 * H; n++) {
        const int fp8 = n % 2 == 1;
        uint64_t r = (uint64_t)n;
        attn_desc d = { 0 };
        for (int64_t i = 0; i < 2 * COUNT(kv[0]); i++) kv[i % 2][i / 2] = (uint8_t)(fp8 ? random_unit(&r) * 100 : random_unit(&r) * 256);
        for (int64_t i = 0; i < COUNT(scale); i++) {
            scale[i] = (float)((i % H == n / 4 ? 0x1p-8 : 0x1p-124) * (n / 2 % 2 ? 1 : 0.5) * (0.5 + random_unit(&r)));
            ones[i] = 0.02f;
        }
        for (int64_t i = 0; i < COUNT(q); i++) q[i] = (float)((i / DIM / GROUP == n / 4 ? 0.1 : 0x1p119) * random_normal(&r));
        d.batch = d.q_len = 1, d.heads = H * GROUP, d.kv_heads = H, d.kv_len = KEYS, d.head_dim = DIM, d.threads = 1, d.backend = "flash";
        d.q.data = q, d.k.data = kv[0], d.v.data = kv[1], d.k.dtype = d.v.dtype = fp8 ? ATTN_FP8_E4M3 : ATTN_INT8;
        d.k.scale = scale, d.v.scale = ones, d.o.data = o[0], d.lse = lse[0];
        assert_ok(attn_forward(&d));
        for (int64_t h = 0; h < H; h++) {           /* alone */
            attn_desc one = d;
            one.heads = GROUP, one.kv_heads = 1;
            one.q.data = q + h * GROUP * DIM, one.k.data = kv[0] + h * DIM, one.v.data = kv[1] + h * DIM, one.k.scale = scale + h, one.v.scale = ones + h;
            one.k.stride[0] = one.v.stride[0] = KEYS * H * DIM, one.k.stride[1] = one.v.stride[1] = H * DIM, one.k.stride[2] = one.v.stride[2] = DIM;
            for (int a = 0; a < 3; a++) one.k.scale_stride[a] = one.v.scale_stride[a] = a == 0 ? KEYS * H : a == 1 ? H : 1;
            one.o.data = o[1] + h * GROUP * DIM, one.lse = lse[1] + h * GROUP;
            assert_ok(attn_forward(&one));
        }
        for (int64_t i = 0; i < COUNT(o[0]); i++)
            if (!isfinite(o[0][i]) || memcmp(o[0] + i, o[1] + i, 4)) fail_msg("call %d: o[%d] is %g, not %g", (int)n, (int)i, (double)o[0][i], (double)o[1][i]);
        assert_memory_equal(lse[0], lse[1], sizeof lse[0]);
    }
}
int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_types), cmocka_unit_test(test_pages), cmocka_unit_test(test_windows), cmocka_unit_test(test_scales), cmocka_unit_test(test_odd_scale),
                                       cmocka_unit_test(test_infinite_scale), cmocka_unit_test(test_gangs), cmocka_unit_test(test_padding_of_q), cmocka_unit_test(test_large_q),
                                       cmocka_unit_test(test_scales_of_heads) };
    return cmocka_run_group_tests_name("thin", tests, NULL, NULL);
}
