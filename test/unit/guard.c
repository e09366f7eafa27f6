/* guard.c - every tensor hard against pages that cannot be touched, at its end and at its beginning: one byte read or written
 * outside is a crash. */
#include "unit.h"
#include <sys/mman.h>
#include <unistd.h>

static int at_end;

static size_t span(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page + (size == 0 ? page : 0);
}

static void *guarded_get(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = span(size);
    char *p = mmap(NULL, n + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || (size && mprotect(p + page, n, PROT_READ | PROT_WRITE))) return NULL;
    return p + page + (at_end ? n - size : 0);
}

static void guarded_put(void *p, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = span(size);
    munmap((char *)p - (at_end ? n - size : 0) - page, n + 2 * page);
}

#define TYPES(t) .q = t, .kv = t, .o = t
static const problem_case rows[] = {
    { .name = "one", .b = 1, .sq = 1, .sk = 1, .h = 1, .d = 1 },
    { .name = "f32 33 x 65 x 17", .b = 2, .sq = 33, .sk = 65, .h = 3, .d = 17 },
    { .name = "f32 causal 64", .b = 1, .sq = 67, .sk = 71, .h = 2, .d = 64, .flags = ATTN_CAUSAL },
    { .name = "f32 head_dim 5, v_dim 3", .b = 1, .sq = 9, .sk = 35, .h = 2, .d = 5, .dv = 3 },
    { .name = "f32 head_dim 80, v_dim 100, GQA", .b = 2, .sq = 19, .sk = 35, .h = 4, .hk = 2, .d = 80, .dv = 100 },
    { .name = "f32 BHSD", .b = 2, .sq = 19, .sk = 35, .h = 2, .d = 33, .layout = ATTN_BHSD },
    { .name = "f32 gaps", .b = 2, .sq = 19, .sk = 35, .h = 2, .d = 31, .gap = 5 },
    { .name = "f32 BHSD gaps", .b = 2, .sq = 19, .sk = 35, .h = 2, .d = 31, .gap = 3, .layout = ATTN_BHSD },
    { .name = "f32 one query", .b = 2, .sq = 1, .sk = 203, .h = 4, .hk = 1, .d = 65 },
    { .name = "f32 window", .b = 1, .sq = 50, .sk = 90, .h = 1, .d = 20, .flags = ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, .left = 9 },
    { .name = "f32 bias and mask", .b = 2, .sq = 21, .sk = 37, .h = 2, .d = 20, .bias = HAS, .mask = HAS, .sink = 1, .alibi = 1 },
    { .name = "f32 mask", .b = 2, .sq = 21, .sk = 37, .h = 2, .d = 20, .mask = HAS },
    { .name = "f32 broadcast bias and mask", .b = 2, .sq = 21, .sk = 37, .h = 2, .d = 20, .bias = HAS | ONE_BATCH | ONE_QUERY,
      .mask = HAS | ONE_HEAD | ONE_BATCH },
    { .name = "f32 no keys", .b = 2, .sq = 21, .sk = 0, .h = 2, .d = 20 },
    { .name = "f64", .b = 2, .sq = 21, .sk = 37, .h = 2, .d = 13, TYPES(ATTN_F64), .bias = HAS, .bias_t = ATTN_F64 },
    { .name = "f16", .b = 2, .sq = 33, .sk = 65, .h = 3, .d = 17, TYPES(ATTN_F16), .flags = ATTN_CAUSAL },
    { .name = "f16 head_dim 64", .b = 1, .sq = 35, .sk = 67, .h = 2, .d = 64, TYPES(ATTN_F16), .bias = HAS, .bias_t = ATTN_F16 },
    { .name = "bf16", .b = 2, .sq = 33, .sk = 65, .h = 3, .d = 17, TYPES(ATTN_BF16), .flags = ATTN_CAUSAL },
    { .name = "f16 one query", .b = 2, .sq = 1, .sk = 203, .h = 3, .d = 61, .dv = 120, TYPES(ATTN_F16) },
    { .name = "bf16 one query", .b = 2, .sq = 1, .sk = 130, .h = 4, .hk = 1, .d = 72, .dv = 57, TYPES(ATTN_BF16) },
    { .name = "bf16 three queries", .b = 1, .sq = 3, .sk = 90, .h = 4, .hk = 2, .d = 24, .dv = 83, TYPES(ATTN_BF16) },
    { .name = "bf16 gaps", .b = 2, .sq = 33, .sk = 65, .h = 2, .d = 30, TYPES(ATTN_BF16), .gap = 1 },
};

static void test_row(void **state)
{
    int taken = 0;
    unit_get = guarded_get;
    unit_put = guarded_put;
    for (int i = 0; attn_backend_at(i); i++)
        for (at_end = 0; at_end < 2; at_end++) {
            problem p = problem_make(*state, 71);
            attn_plan plan;
            attn_desc d;
            problem_grad(&p, 71);
            p.d.backend = attn_backend_at(i)->name;
            d = p.d;
            if (attn_query(&p.d, NULL, &plan) == ATTN_OK) {
                assert_ok(attn_forward(&p.d));
                taken++;
            } else {
                d.backend = "reference";
                assert_ok(attn_forward(&d));
            }
            if (attn_query(&p.d, &p.g, &plan) == ATTN_OK) {
                assert_ok(attn_backward(&p.d, &p.g));
                taken++;
            }
            problem_free(&p);
        }
    unit_get = plain_get;
    unit_put = plain_put;
    assert_true(taken >= 4);                    /* the reference alone makes four */
}

/* Conversions between all dtypes, odd sizes. */
static void test_convert(void **state)
{
    static const int types[] = { ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64 };
    (void)state;
    for (at_end = 0; at_end < 2; at_end++)
        for (int t = 0; t < 16; t++)
            for (int64_t d = 1; d < 40; d += 6) {
                int64_t shape[4] = { 2, 3, 5, d }, n = 30 * d;
                attn_in in = { 0 };
                attn_out out = { 0 };
                size_t from = (size_t)(n * dtype_size(types[t % 4])), to = (size_t)(n * dtype_size(types[t / 4]));
                in.data = guarded_get(from), in.dtype = types[t % 4];
                out.data = guarded_get(to), out.dtype = types[t / 4], out.layout = ATTN_BHSD;
                assert_ok(attn_convert(shape, in, out, NULL));
                guarded_put((void *)(uintptr_t)in.data, from);
                guarded_put(out.data, to);
            }
}

/* Decode with a tolerance from int16 whose last piece is nearly full, or has one key, as each piece has: rows behind the last key lie behind the memory. */
static void test_planes(void **state)
{
    enum { DIM = 64, HALF = ATTN_PLANE };
    (void)state;
    for (at_end = 0; at_end < 2; at_end++)
        for (int n = 0; n < 4; n++) {                       /* rows look at all keys, or at some */
            const int few = n % 2, keys = n < 2 ? 1087 : 1025;
            const int64_t step = n < 2 ? DIM : HALF;
            const size_t size = (size_t)(keys * step + HALF - 1) / HALF * HALF * 2, each = (size_t)keys * 4;
            signed char *k = guarded_get(size), *v = guarded_get(size);
            float *scale = guarded_get(each), *q = guarded_get(DIM * 4), *o = guarded_get(DIM * 4);
            attn_statistics told;
            attn_desc d = { 0 };
            for (size_t i = 0; i < size; i++) k[i] = (signed char)(i * 37 % 255 - 127), v[i] = (signed char)(i * 91 % 255 - 127);
            for (int i = 0; i < keys; i++) scale[i] = few ? 0.05f : 0.005f;
            for (int i = 0; i < DIM; i++) q[i] = (float)(i % 5);
            d.batch = d.heads = d.q_len = 1, d.kv_len = keys, d.head_dim = DIM, d.tolerance = 0.05f, d.backend = "adaptive", d.statistics = &told;
            d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o, d.k.dtype = d.v.dtype = ATTN_INT16, d.k.scale = d.v.scale = scale;
            d.k.stride[0] = d.v.stride[0] = keys * step, d.k.stride[1] = d.v.stride[1] = step, d.k.stride[2] = d.v.stride[2] = DIM;
            assert_ok(attn_forward(&d));
            if (!(told.bytes > 0)) fail_msg("not decoded: %s", told.why);
            guarded_put(k, size), guarded_put(v, size), guarded_put(scale, each), guarded_put(q, DIM * 4), guarded_put(o, DIM * 4);
        }
}

/* Quantised caches with their scales, lengths and a block table, contiguous and in pages of 3 tokens. */
static void test_caches(void **state)
{
    enum { B = 2, SQ = 3, SK = 12, H = 4, HK = 2, D = 13, PAGE = 3, PAGES = SK / PAGE };
    static const int types[] = { ATTN_INT8, ATTN_FP8_E4M3, ATTN_F16, ATTN_F32, ATTN_Q8_0, ATTN_Q4_0 };
    static const size_t n = B * SK * HK, queries = B * SQ * H;
    (void)state;
    for (at_end = 0; at_end < 2; at_end++)
        for (int64_t t = 0; t < COUNT(types); t++)
            for (int paged = 0; paged < 2; paged++) {
                const size_t dim = is_blocks(types[t]) ? 64 : D;
                size_t cache = (size_t)dtype_bytes(types[t], (int64_t)(n * dim));
                unsigned char *k = guarded_get(cache), *v = guarded_get(cache);
                float *scale = guarded_get(n * 4), *q = guarded_get(queries * dim * 4), *o = guarded_get(queries * dim * 4);
                float *lse = guarded_get(queries * 4);
                int32_t *used = guarded_get(B * 4), *table = guarded_get(B * PAGES * 4);
                attn_desc d = { 0 };
                for (size_t i = 0; i < cache; i++) k[i] = v[i] = (unsigned char)(i * 7 % 100);
                for (size_t i = 0; i < n; i++) scale[i] = 0.01f;
                for (size_t i = 0; i < queries * dim; i++) q[i] = (float)(i % 5);
                for (int i = 0; i < B * PAGES; i++) table[i] = B * PAGES - 1 - i;
                used[0] = SK, used[1] = SK - 1;
                d.batch = B, d.q_len = SQ, d.kv_len = SK, d.heads = H, d.kv_heads = HK, d.head_dim = (int64_t)dim;
                d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o, d.lse = lse;
                d.k.dtype = d.v.dtype = types[t];
                if (types[t] == ATTN_INT8 || types[t] == ATTN_FP8_E4M3) d.k.scale = d.v.scale = scale;
                else if (types[t] == ATTN_F16) d.q.dtype = ATTN_F16;
                d.seq.used_k = used;
                if (paged) {
                    d.seq.block_table = table;
                    d.seq.page_size = PAGE, d.seq.pages = B * PAGES, d.seq.max_pages = PAGES;
                }
                for (int i = 0; attn_backend_at(i); i++) {
                    if (!strcmp(attn_backend_at(i)->name, "adaptive")) continue;    /* a tolerance, and more rows */
                    d.backend = attn_backend_at(i)->name;
                    assert_ok(attn_forward(&d));
                }
                guarded_put(k, cache), guarded_put(v, cache), guarded_put(scale, n * 4), guarded_put(q, queries * dim * 4);
                guarded_put(o, queries * dim * 4), guarded_put(lse, queries * 4), guarded_put(used, B * 4);
                guarded_put(table, B * PAGES * 4);
            }
}

/* Appended keys, and rotary tables with a row for each position that is used and no more: queries of padding have none. */
static void test_append(void **state)
{
    enum { B = 2, SQ = 4, SK = 12, H = 4, HK = 2, D = 16, ROWS = 9 };
    static const size_t cache = B * SK * HK * D * 4, fresh = B * HK * D * 4, table = ROWS * D / 2 * 4, queries = B * SQ * H * D * 4;
    static const int32_t used_k[B] = { 5, 7 }, used_q[B] = { 1, 2 };
    (void)state;
    for (at_end = 0; at_end < 2; at_end++) {
        float *k = guarded_get(cache), *v = guarded_get(cache), *new_k = guarded_get(fresh), *new_v = guarded_get(fresh);
        float *cosine = guarded_get(table), *sine = guarded_get(table), *q = guarded_get(queries), *o = guarded_get(queries);
        attn_desc d = { 0 };
        d.batch = B, d.q_len = SQ, d.kv_len = SK, d.heads = H, d.kv_heads = HK, d.head_dim = D;
        d.q.data = q, d.k.data = d.append.k_cache = k, d.v.data = d.append.v_cache = v, d.o.data = o;
        d.append.k.data = new_k, d.append.v.data = new_v, d.append.len = 1, d.seq.used_k = used_k, d.seq.used_q = used_q;
        d.append.rotary_cos = cosine, d.append.rotary_sin = sine, d.append.rotary_dim = D, d.append.rotary_rows = ROWS;
        for (int i = 0; attn_backend_at(i); i++) {
            d.backend = attn_backend_at(i)->name;
            if (strcmp(d.backend, "adaptive")) assert_ok(attn_forward(&d));         /* which wants a tolerance, and more rows */
        }
        guarded_put(k, cache), guarded_put(v, cache), guarded_put(new_k, fresh), guarded_put(new_v, fresh);
        guarded_put(cosine, table), guarded_put(sine, table), guarded_put(q, queries), guarded_put(o, queries);
    }
}

/* Parts of rows, of every type and of dims that end within a line, and their lse. */
static void test_merge(void **state)
{
    enum { ROWS = 3, PARTS = 3 };
    static const int64_t dims[] = { 1, 5, 16, 17, 63, 64, 65, 100, 128, 130 };
    (void)state;
    for (at_end = 0; at_end < 2; at_end++)
        for (int64_t n = 0; n < COUNT(dims); n++)
            for (int type = ATTN_F32; type <= ATTN_F64; type++) {
                const size_t size = (size_t)dtype_bytes(type, ROWS * dims[n]);
                attn_in part[PARTS] = { { 0 } };
                const float *lse[PARTS];
                float *sums[PARTS];
                attn_desc d = { 0 };
                for (int p = 0; p < PARTS; p++) {
                    void *data = guarded_get(size);
                    lse[p] = sums[p] = guarded_get(ROWS * 4);
                    for (int64_t i = 0; i < ROWS * dims[n]; i++) element_put(data, type, i, 2);
                    for (int i = 0; i < ROWS; i++) sums[p][i] = (float)p;
                    part[p].data = data, part[p].dtype = type;
                }
                void *o = guarded_get(size);
                d.batch = d.heads = 1, d.q_len = ROWS, d.head_dim = dims[n], d.o.data = o, d.o.dtype = type, d.lse = guarded_get(ROWS * 4);
                assert_ok(attn_merge(&d, PARTS, part, lse));
                for (int64_t i = 0; i < ROWS * dims[n]; i++) assert_true(fabs(element_get(o, type, i) - 2) <= 1e-6);
                guarded_put(o, size), guarded_put(d.lse, ROWS * 4);
                for (int p = 0; p < PARTS; p++) guarded_put((void *)(uintptr_t)part[p].data, size), guarded_put(sums[p], ROWS * 4);
            }
}

/* The workspace of calls that need one for more than a tile: just as large as attn_query says, of so many threads and heads. */
static void test_workspace(void **state)
{
    enum { KEYS = 64, DIM = 64, MOST = 5 };
    static float cache[2][MOST * KEYS * MOST * DIM], fresh[2][MOST * 8 * MOST * DIM], q[MOST * 8 * MOST * DIM], o[MOST * 8 * MOST * DIM];
    static const int32_t used[MOST] = { 0 };
    (void)state;
    at_end = 1;
    for (int n = 0; n < 4 * 4 * 3; n++) {
        attn_desc d = { 0 };
        attn_plan plan;
        d.threads = 1 + n % 4, d.batch = 1 + n / 4 % 4 / 2 * (MOST - 1), d.heads = 1 + n / 4 % 2 * (MOST - 1), d.q_len = n / 16 * 4, d.kv_len = KEYS, d.head_dim = DIM;
        d.q.data = q, d.o.data = o, d.k.data = d.append.k_cache = cache[0], d.v.data = d.append.v_cache = cache[1], d.seq.used_k = used;
        d.append.k.data = fresh[0], d.append.v.data = fresh[1], d.append.len = 8;
        for (int b = 0; b < 3; b++) {
            d.backend = b == 0 ? "flash" : b == 1 ? "standard" : "reference";
            assert_ok(attn_query(&d, NULL, &plan));
            const size_t room = (plan.workspace_size + 63) / 64 * 64;      /* it begins at a line */
            d.workspace = guarded_get(room), d.workspace_size = plan.workspace_size;
            assert_ok(attn_forward(&d));
            guarded_put(d.workspace, room);
        }
    }
}

/* The same of few rows of many kv heads, which one unit takes together, and of keys that are split, side by side or one part after the
 * other, or folded. Keys begin less than a row of heads apart: it is the sizes that count. */
static void test_workspace_of_gangs(void **state)
{
    enum { KEYS = 16500, HEADS = 16, DIM = 16, ROWS = 260, STEP = DIM + 1 };
    static float cache[KEYS * STEP + HEADS * DIM], q[ROWS * HEADS * DIM], o[ROWS * HEADS * DIM];
    static const struct { int32_t threads; int64_t kv_heads, group, q_len, kv_len, v_dim; } cases[] = {
        { 1, 16, 1, 1, 70, 16 },   { 1, 16, 1, 2, 70, 12 },   { 1, 16, 1, 4, 70, 16 }, { 1, 16, 1, 8, 70, 5 },     { 1, 8, 2, 2, 70, 16 },     { 3, 16, 1, 3, 70, 16 },
        { 1, 16, 1, 4, 2100, 16 }, { 2, 16, 1, 1, 2100, 12 }, { 1, 8, 1, 6, 2100, 5 }, { 1, 16, 1, 2, KEYS, 16 },  { 1, 16, 1, 1, KEYS, 5 },   { 2, 4, 2, 1, KEYS, 16 },
        { 2, 1, 1, 97, 2100, 16 }, { 3, 1, 1, 100, 4200, 5 }, { 2, 1, 2, 60, 2100, 16 }, { 1, 1, 1, 200, 2100, 16 }, { 1, 1, 1, 250, 2100, 5 }, { 4, 1, 1, 256, 2100, 16 },
        { 1, 1, 1, 50, 2100, 16 }, { 2, 1, 1, 120, KEYS, 16 },
    };
    (void)state;
    at_end = 1;
    for (int64_t i = 0; i < COUNT(cache); i++) cache[i] = (float)(i * 7 % 13) / 8;
    for (int n = 0; n < COUNT(cases); n++) {
        attn_desc d = { 0 };
        attn_plan plan;
        d.threads = cases[n].threads, d.batch = 1, d.kv_heads = cases[n].kv_heads, d.heads = d.kv_heads * cases[n].group;
        d.q_len = cases[n].q_len, d.kv_len = cases[n].kv_len, d.head_dim = DIM, d.v_dim = cases[n].v_dim;
        d.q.data = q, d.o.data = o, d.k.data = d.v.data = cache;
        for (int v = 0; v < 2; v++) {
            int64_t *stride = v ? d.v.stride : d.k.stride;
            stride[0] = KEYS * STEP, stride[1] = STEP, stride[2] = DIM;
        }
        assert_ok(attn_query(&d, NULL, &plan));
        const size_t room = (plan.workspace_size + 63) / 64 * 64;
        d.workspace = guarded_get(room), d.workspace_size = plan.workspace_size;
        assert_ok(attn_forward(&d));
        guarded_put(d.workspace, room);
    }
}

/* The guard itself works: the byte behind and the byte before cannot be touched. */
static void test_guard(void **state)
{
    static const size_t sizes[] = { 1, 4096, 4097, 10000 };
    (void)state;
    for (at_end = 0; at_end < 2; at_end++)
        for (int64_t i = 0; i < COUNT(sizes); i++) {
            char *p = guarded_get(sizes[i]), *outside = at_end ? p + sizes[i] : p - 1;
            int fd[2];
            assert_int_equal(pipe(fd), 0);
            assert_int_equal(write(fd[1], p, 1), 1);
            assert_int_equal(write(fd[1], outside, 1), -1);     /* EFAULT */
            close(fd[0]), close(fd[1]);
            guarded_put(p, sizes[i]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_guard), cmocka_unit_test(test_convert), cmocka_unit_test(test_caches), cmocka_unit_test(test_planes), cmocka_unit_test(test_append), cmocka_unit_test(test_merge), cmocka_unit_test(test_workspace), cmocka_unit_test(test_workspace_of_gangs) };
    return RUN_ROWS(rows, test_row) + cmocka_run_group_tests_name("caches and conversions", tests, NULL, NULL);
}
