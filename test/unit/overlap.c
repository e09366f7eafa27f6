/* overlap.c - which tensors count as apart: never two that share a byte, always two that share none. Small boxes at random against
 * a map of their bytes, through attn_convert; then the views that people have: packed tensors, q beside a cache, k and v in one. */
#include "unit.h"

enum { ARENA = 1 << 14, BOXES = 60000 };

/* A box whose axes are nested, as an output's must be; an input's may have any steps. Strides in elements. */
typedef struct box { int64_t first, shape[4], stride[3]; int type; } box;

static int64_t random_range(uint64_t *r, int64_t low, int64_t high) { return low + (int64_t)(random_bits(r) % (uint64_t)(high - low + 1)); }

static void nested(uint64_t *r, box *b)
{
    int order[3] = { 0, 1, 2 };
    int64_t step = b->shape[3];
    for (int i = 2; i > 0; i--) {
        int j = (int)random_range(r, 0, i), t = order[i];
        order[i] = order[j], order[j] = t;
    }
    for (int i = 0; i < 3; i++) {
        step += random_range(r, 0, 3) ? 0 : random_range(r, 1, 9);
        b->stride[order[i]] = step;
        step *= b->shape[order[i]];
    }
}

/* the bytes of it; 0 when it leaves the arena */
static int64_t mark(const box *b, unsigned char *map, unsigned char value)
{
    const int64_t size = dtype_size(b->type);
    int64_t shared = 0;
    for (int64_t i = 0; i < b->shape[0] * b->shape[1] * b->shape[2]; i++) {
        int64_t first = b->first + at(b->stride, i / b->shape[2] / b->shape[1], i / b->shape[2] % b->shape[1], i % b->shape[2]) * size;
        if (first < 0 || first + b->shape[3] * size > ARENA) return -1;
        for (int64_t n = first; n < first + b->shape[3] * size; n++) shared += map[n] & ~value, map[n] |= value;
    }
    return shared;
}

static attn_status convert(char *arena, const box *from, const box *to)
{
    attn_in in = { 0 };
    attn_out out = { 0 };
    attn_desc one = { 0 };
    one.threads = 1;
    in.data = arena + from->first, in.dtype = from->type;
    out.data = arena + to->first, out.dtype = to->type;
    for (int a = 0; a < 3; a++) {
        in.stride[a] = from->stride[a] ? from->stride[a] : ATTN_BROADCAST;
        out.stride[a] = to->stride[a];
    }
    return attn_convert(from->shape, in, out, &one);
}

/* Steps of the input: those of the output in bytes, some of them changed, or any at all. */
static void beside(uint64_t *r, const box *to, box *from)
{
    const int64_t size = dtype_size(from->type), other = dtype_size(to->type);
    for (int a = 0; a < 3; a++) {
        from->stride[a] = to->stride[a] * other / size;
        if (random_range(r, 0, 11) == 0) from->stride[a] = random_range(r, -40, 200);
        if (random_range(r, 0, 15) == 0) from->stride[a] = -from->stride[a];
        if (random_range(r, 0, 31) == 0) from->stride[a] = 0;
    }
    from->first = to->first + random_range(r, -64, 64) * (random_range(r, 0, 1) ? size : 64);
    from->first -= ((from->first % size) + size) % size;
}

static void test_boxes(void **state)
{
    static const int types[] = { ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64 };
    static char arena[ARENA] __attribute__((aligned(64)));
    unsigned char *map = malloc(ARENA);
    int64_t apart = 0, shared = 0, interleaved = 0;
    uint64_t r = 5;
    (void)state;
    for (int n = 0; n < BOXES; n++) {
        box to = { 0 }, from;
        for (int a = 0; a < 4; a++) to.shape[a] = random_range(&r, 1, a == 3 ? 9 : 5);
        to.type = types[random_range(&r, 0, 3)];
        to.first = ARENA / 2 + 64 * random_range(&r, -4, 4);
        nested(&r, &to);
        from = to;
        from.type = types[random_range(&r, 0, 3)];
        beside(&r, &to, &from);
        memset(map, 0, ARENA);
        if (mark(&to, map, 1) || mark(&from, map, 2) < 0) continue;
        memset(map, 0, ARENA);
        mark(&to, map, 1);
        const int both = mark(&from, map, 2) > 0;
        const attn_status s = convert(arena, &from, &to);
        if (both && s != ATTN_ERR_OVERLAP) fail_msg("box %d: bytes are shared, and %s", n, attn_status_name(s));
        if (!both && s) fail_msg("box %d: no byte is shared, and %s", n, attn_status_name(s));
        shared += both, apart += !both;
        int64_t low = ARENA, high = 0;
        for (int64_t i = 0; i < ARENA; i++)
            if (map[i] & 2) low = i < low ? i : low, high = i;
        for (int64_t i = low; i <= high; i++)
            if (!both && map[i] & 1) { interleaved++; break; }
    }
    free(map);
    print_message("%d share bytes, %d do not, of which %d lie within each other\n", (int)shared, (int)apart, (int)interleaved);
    assert_true(shared > BOXES / 10 && interleaved > BOXES / 50);
}

/* Many tokens: one part of a packed tensor into another, whatever lies between the batch entries, and tokens before batch entries. */
static void test_long_views(void **state)
{
    enum { BATCH = 41, TOKENS = 300, PARTS = 3, HEADS = 2, DIM = 3, TOKEN = PARTS * HEADS * DIM };
    float *all = calloc(TOKENS * (BATCH * TOKEN + 40) + TOKEN, 4);
    const int64_t shape[4] = { BATCH, TOKENS, HEADS, DIM };
    (void)state;
    for (int64_t n = 0; n < 40 * 12; n++) {
        const int64_t gap = n / 12, from = n / 4 % 3, to = (from + 1 + n % 2) % 3;
        attn_in in = { 0 };
        attn_out out = { 0 };
        in.data = all + from * HEADS * DIM, out.data = all + to * HEADS * DIM;
        in.stride[0] = n & 2 ? TOKEN : TOKENS * TOKEN + gap, in.stride[1] = n & 2 ? BATCH * TOKEN + gap : TOKEN, in.stride[2] = DIM;
        memcpy(out.stride, in.stride, sizeof in.stride);
        assert_ok(attn_convert(shape, in, out, NULL));
        out.data = all + from * HEADS * DIM + (n & 1 ? 1 : HEADS * DIM - 1);
        assert_int_equal(attn_convert(shape, in, out, NULL), ATTN_ERR_OVERLAP);
    }
    free(all);
}

/* Keys 2^60 bytes apart, of which one is used: a span of 2^61 bytes is too long to tell what lies between, so what begins within it
 * counts as shared. Half as far apart they are looked at. */
static void test_far_apart(void **state)
{
    static float m[2048];
    static const int32_t used = 1;
    (void)state;
    for (int twice = 0; twice < 2 && sizeof(void *) == 8; twice++) {        /* a pointer of 32 bits has no such keys */
        attn_desc d = { 0 };
        d.batch = d.heads = d.q_len = 1, d.kv_len = 3, d.head_dim = 4, d.seq.used_k = &used;
        d.q.data = m, d.v.data = m + 16, d.k.data = m + 256, d.o.data = m + 1024;
        d.k.stride[0] = d.k.stride[2] = 4, d.k.stride[1] = INT64_C(1) << (57 + twice);
        assert_int_equal(attn_forward(&d), twice ? ATTN_ERR_OVERLAP : ATTN_OK);
    }
}

/* int16 has no gaps, whatever its strides: keys of one piece between two rows of o. */
static void test_int16_between_rows(void **state)
{
    enum { KEYS = 128, DIM = ATTN_PLANE / KEYS, PIECE = ATTN_PLANE / 2 };       /* a piece, in floats */
    static float m[PIECE + 4 * DIM], v[KEYS * DIM], scale[KEYS];
    (void)state;
    for (int64_t off = -1; off < 2; off++) {
        attn_desc d = { 0 };
        d.batch = d.heads = 1, d.q_len = 2, d.kv_len = KEYS, d.head_dim = DIM;
        d.q.data = d.v.data = v, d.k.data = m + 2 * DIM, d.k.dtype = ATTN_INT16, d.k.scale = scale;
        d.o.data = m + DIM + off, d.o.stride[0] = 2 * (PIECE + DIM), d.o.stride[1] = PIECE + DIM, d.o.stride[2] = DIM;
        assert_int_equal(attn_forward(&d), off ? ATTN_ERR_OVERLAP : ATTN_OK);
    }
}

/* New keys and values into a cache of int16 in one buffer, k beside v in each token or in each batch entry: pieces of one lie between
 * those of the other. One piece further they are the same ones. */
static void test_int16_side_by_side(void **state)
{
    enum { BATCH = 2, KV = 2, WIDE = ATTN_PLANE / KV, TOKENS = 3, NEW = BATCH * KV * WIDE };
    static int8_t buffer[BATCH * (TOKENS * 2 + 1) * 2 * ATTN_PLANE];
    static float q[NEW], o[NEW], added[NEW], scale[2][BATCH * TOKENS * KV];
    static const int32_t used[BATCH] = { 1, 2 };
    (void)state;
    for (int n = 0; n < 4; n++) {
        const int in_token = n % 2, shared = n / 2;
        const int64_t apart = ATTN_PLANE * ((in_token ? 1 : TOKENS) + shared);
        attn_desc d = { 0 };
        d.batch = BATCH, d.heads = KV, d.q_len = 1, d.kv_len = TOKENS, d.head_dim = WIDE, d.seq.used_k = used;
        d.q.data = q, d.o.data = o, d.k.data = buffer, d.v.data = buffer + 2 * apart;
        d.k.dtype = d.v.dtype = ATTN_INT16;
        d.k.stride[0] = d.v.stride[0] = 2 * TOKENS * ATTN_PLANE, d.k.stride[1] = d.v.stride[1] = (in_token ? 2 : 1) * ATTN_PLANE;
        d.k.stride[2] = d.v.stride[2] = WIDE;
        d.k.scale = scale[0], d.v.scale = scale[1], d.append.k_scale = scale[0], d.append.v_scale = scale[1];
        d.append.k.data = d.append.v.data = added, d.append.k_cache = buffer, d.append.v_cache = buffer + 2 * apart, d.append.len = 1;
        assert_int_equal(attn_forward(&d), shared ? ATTN_ERR_OVERLAP : ATTN_OK);
    }
}

/* Keys that go backwards from a tensor's begin: they lie in the piece before it, which is the tensor's as a whole. */
static void test_int16_backwards(void **state)
{
    enum { KEYS = 4, DIM = 16, PIECE = 2 * ATTN_PLANE, BYTES = DIM * sizeof(float) };
    static const struct { int64_t at; int apart; } places[] = { { PIECE - BYTES, 1 }, { PIECE, 0 }, { PIECE + ATTN_PLANE - KEYS * DIM, 0 }, { 2 * PIECE - BYTES, 0 },
        { 2 * PIECE, 0 }, { 3 * PIECE - BYTES, 0 }, { 3 * PIECE, 1 } };
    static float buffer[4 * PIECE / sizeof(float)], v[KEYS * DIM], scale[KEYS];
    (void)state;
    for (int64_t n = 0; n < COUNT(places); n++) {
        attn_desc d = { 0 };
        d.batch = d.heads = d.q_len = 1, d.kv_len = KEYS, d.head_dim = DIM, d.threads = 1;
        d.q.data = d.v.data = v, d.k.data = (char *)buffer + 2 * PIECE, d.k.dtype = ATTN_INT16, d.k.scale = scale;
        d.k.stride[0] = d.k.stride[2] = DIM, d.k.stride[1] = -DIM, d.o.data = (char *)buffer + places[n].at;
        assert_int_equal(attn_forward(&d), places[n].apart ? ATTN_OK : ATTN_ERR_OVERLAP);
    }
}

/* New tokens reach as far as they are many, k by head_dim and v by v_dim each, with cu those of all sequences one after the other: o
 * may begin behind them, and not at their last element. */
static void test_new_tokens(void **state)
{
    enum { DIM = 4, WIDE = 12, KEYS = 3 };
    static float m[256], cache[2][2 * KEYS * WIDE];
    static const int32_t used[2] = { 0, 1 }, cu[3] = { 0, 1, 2 };
    (void)state;
    for (int n = 0; n < 8; n++) {
        const int packed = n & 1, of_v = n >> 1 & 1, common = n >> 2;
        attn_desc d = { 0 };
        d.batch = 2, d.heads = d.q_len = 1, d.kv_len = KEYS, d.head_dim = DIM, d.v_dim = WIDE, d.seq.used_k = used;
        d.q.data = m + 128, d.k.data = d.append.k_cache = cache[0], d.v.data = d.append.v_cache = cache[1];
        d.append.k.data = of_v ? m + 200 : m, d.append.v.data = of_v ? m : m + 200, d.append.len = 1;
        if (packed) d.append.cu = cu, d.append.total = 2;
        d.o.data = m + 2 * (of_v ? WIDE : DIM) - common;
        const attn_status s = attn_forward(&d), want = common ? ATTN_ERR_OVERLAP : ATTN_OK;
        if (s != want) fail_msg("%s%s, %d in common: %s", of_v ? "v" : "k", packed ? " with cu" : "", common, attn_status_name(s));
    }
}

/* A cache reaches as far as its slots, however few sequences there are. */
static void test_slots(void **state)
{
    enum { DIM = 4, KEYS = 3, SLOTS = 4, CACHE = SLOTS * KEYS * DIM };
    static float m[CACHE + DIM], other[CACHE], q[DIM];
    static const int32_t slot = SLOTS - 1;
    (void)state;
    for (int n = 0; n < 4; n++) {
        attn_desc d = { 0 };
        d.batch = d.heads = d.q_len = 1, d.kv_len = KEYS, d.head_dim = DIM, d.seq.slot = &slot, d.seq.slots = SLOTS;
        d.q.data = q, d.k.data = n & 1 ? other : m, d.v.data = n & 1 ? m : other, d.o.data = m + CACHE - n / 2;
        assert_int_equal(attn_forward(&d), n / 2 ? ATTN_ERR_OVERLAP : ATTN_OK);
    }
}

/* ------------------------------------------------------------------------------------------ views */
enum { B = 3, S = 5, CAP = 9, H = 4, HK = 2, D = 8, ALL = (H + 2 * HK) * D };

static void set3(int64_t s[3], int64_t batch, int64_t token, int64_t head) { s[0] = batch, s[1] = token, s[2] = head; }

static float *random_floats(int64_t n, uint64_t seed)
{
    float *p = malloc((size_t)n * 4);
    uint64_t r = seed;
    fill(p, ATTN_F32, n, 1, &r);
    return p;
}

/* every row of a view, one after the other */
static void gather(const void *from, const int64_t stride[3], int64_t b, int64_t s, int64_t h, float *to)
{
    for (int64_t i = 0; i < b * s * h; i++)
        memcpy(to + i * D, (const float *)from + at(stride, i / h / s, i / h % s, i % h), D * 4);
}

/* Gradients into one packed tensor, the batch entries `gap` elements further apart than their tokens reach; `per_head`: q, k, v of a
 * head beside each other. */
static void packed_gradients(int64_t gap, int per_head)
{
    enum { TOKEN = 3 * H * D };
    const int64_t batch = S * TOKEN + gap, part = per_head ? D : H * D, head = per_head ? 3 * D : D;
    float *packed = random_floats(B * batch, 1), *grads = random_floats(B * batch, 2), *dout = random_floats(B * S * H * D, 3);
    float o[B * S * H * D], lse[B * H * S], plain[3][B * S * H * D], want[3][B * S * H * D], got[B * S * H * D];
    attn_desc d = { 0 };
    attn_grad g = { 0 };
    attn_in *in[3] = { &d.q, &d.k, &d.v };
    attn_out *out[3] = { &g.dq, &g.dk, &g.dv };
    d.batch = B, d.q_len = d.kv_len = S, d.heads = H, d.head_dim = D;
    d.o.data = o, d.lse = lse, g.dout.data = dout;
    for (int i = 0; i < 3; i++) {
        int64_t stride[3] = { batch, TOKEN, head };
        gather(packed + i * part, stride, B, S, H, plain[i]);
        in[i]->data = plain[i], out[i]->data = want[i];
    }
    assert_ok(attn_forward(&d));
    assert_ok(attn_backward(&d, &g));
    for (int i = 0; i < 3; i++) {
        in[i]->data = packed + i * part, out[i]->data = grads + i * part;
        set3(in[i]->stride, batch, TOKEN, head), set3(out[i]->stride, batch, TOKEN, head);
    }
    assert_ok(attn_backward(&d, &g));
    for (int i = 0; i < 3; i++) {
        gather(out[i]->data, out[i]->stride, B, S, H, got);
        assert_memory_equal(got, want[i], sizeof got);
    }
    out[1]->data = grads + part - 1;                    /* by one element */
    assert_int_equal(attn_backward(&d, &g), ATTN_ERR_OVERLAP);
    free(packed), free(grads), free(dout);
}
static void test_packed_gradients(void **state)
{
    (void)state;
    for (int per_head = 0; per_head < 2; per_head++)
        for (int64_t gap = 0; gap < 200; gap += gap < 9 ? 1 : 47) packed_gradients(gap, per_head);
}

/* What an append call leaves: caches and o. */
typedef struct append_call { attn_desc d; int32_t used[B], table[B * 3]; float fresh_k[B * 2 * HK * D], fresh_v[B * 2 * HK * D], o[B * 2 * H * D]; } append_call;

static void append_start(append_call *c)
{
    uint64_t r = 11;
    memset(c, 0, sizeof *c);
    fill(c->fresh_k, ATTN_F32, COUNT(c->fresh_k), 1, &r);
    fill(c->fresh_v, ATTN_F32, COUNT(c->fresh_v), 1, &r);
    c->d.batch = B, c->d.q_len = 2, c->d.kv_len = CAP, c->d.heads = H, c->d.kv_heads = HK, c->d.head_dim = D;
    for (int b = 0; b < B; b++) c->used[b] = 3 + b;
    c->d.seq.used_k = c->used;
    c->d.append.k.data = c->fresh_k, c->d.append.v.data = c->fresh_v, c->d.append.len = 2;
    c->d.o.data = c->o;
}
static void caches(append_call *c, float *k, float *v, const float *q)
{
    c->d.k.data = c->d.append.k_cache = k, c->d.v.data = c->d.append.v_cache = v, c->d.q.data = q;
}

/* q, k and v of a token in one row of a buffer that is the cache as well. */
static void test_q_beside_cache(void **state)
{
    (void)state;
    for (int64_t gap = 0; gap < 3 * ALL; gap += gap < 5 ? 1 : 37) {
        const int64_t batch = CAP * ALL + gap;
        float *all = random_floats(B * batch, 7), k[B * CAP * HK * D], v[B * CAP * HK * D], q[B * 2 * H * D], got[B * CAP * HK * D];
        append_call apart, beside_q;
        int64_t stride[3] = { batch, ALL, D };
        append_start(&apart), append_start(&beside_q);
        gather(all, stride, B, 2, H, q);
        gather(all + H * D, stride, B, CAP, HK, k), gather(all + (H + HK) * D, stride, B, CAP, HK, v);
        caches(&apart, k, v, q);
        assert_ok(attn_forward(&apart.d));
        caches(&beside_q, all + H * D, all + (H + HK) * D, all);
        memcpy(beside_q.d.q.stride, stride, sizeof stride), memcpy(beside_q.d.k.stride, stride, sizeof stride);
        memcpy(beside_q.d.v.stride, stride, sizeof stride);
        assert_ok(attn_forward(&beside_q.d));
        assert_memory_equal(beside_q.o, apart.o, sizeof apart.o);
        gather(all + H * D, stride, B, CAP, HK, got);
        assert_memory_equal(got, k, sizeof k);
        gather(all + (H + HK) * D, stride, B, CAP, HK, got);
        assert_memory_equal(got, v, sizeof v);
        beside_q.d.q.data = all + HK * D + 1;           /* its last head reaches one element into k */
        assert_int_equal(attn_forward(&beside_q.d), ATTN_ERR_OVERLAP);
        free(all);
    }
}

/* [pages][2][page_size][heads][dim], or [batch][2][capacity][heads][dim] without pages; heads_first: [..][heads][page_size][dim] */
static void combined_cache(int64_t page, int heads_first)
{
    const int64_t tokens = page ? page : CAP, blocks = page ? B * 3 : B, half = tokens * HK * D, n = blocks * half;
    float *both = random_floats(2 * n, 9), *k = malloc((size_t)n * 4), *v = malloc((size_t)n * 4), *q = random_floats(B * 2 * H * D, 8);
    append_call apart, one;
    append_start(&apart), append_start(&one);
    for (int64_t b = 0; b < blocks; b++) {
        memcpy(k + b * half, both + 2 * b * half, (size_t)half * 4);
        memcpy(v + b * half, both + (2 * b + 1) * half, (size_t)half * 4);
    }
    caches(&apart, k, v, q), caches(&one, both, both + half, q);
    append_call *each[2] = { &apart, &one };
    for (int i = 0; i < 2; i++) {
        attn_desc *d = &each[i]->d;
        set3(d->k.stride, (i + 1) * half, heads_first ? D : HK * D, heads_first ? tokens * D : D);
        memcpy(d->v.stride, d->k.stride, sizeof d->k.stride);
        if (!page) continue;
        for (int32_t p = 0; p < B * 3; p++) each[i]->table[p] = (p * 4 + 2) % (B * 3);
        d->seq.block_table = each[i]->table, d->seq.page_size = page, d->seq.pages = B * 3, d->seq.max_pages = 3;
        d->kv_len = 3 * page;
    }
    assert_ok(attn_forward(&apart.d));
    assert_ok(attn_forward(&one.d));
    assert_memory_equal(one.o, apart.o, sizeof one.o);
    for (int64_t b = 0; b < blocks; b++) {
        assert_memory_equal(k + b * half, both + 2 * b * half, half * 4);
        assert_memory_equal(v + b * half, both + (2 * b + 1) * half, half * 4);
    }
    one.d.v.data = one.d.append.v_cache = both + half - 1;
    assert_int_equal(attn_forward(&one.d), ATTN_ERR_OVERLAP);
    free(both), free(k), free(v), free(q);
}
static void test_combined_cache(void **state)
{
    (void)state;
    for (int heads_first = 0; heads_first < 2; heads_first++)
        for (int64_t page = 0; page < 8; page += page ? 1 : 3) combined_cache(page, heads_first);
}

/* The scales of int8 beside their codes, in one row for each token. */
static void test_scales_beside_codes(void **state)
{
    enum { ROW = HK * (D + 4) };
    signed char *cache = calloc(2 * B * CAP, 64);
    float *q = random_floats(B * 2 * H * D + 2048, 8);
    append_call c;
    (void)state;
    append_start(&c);
    c.d.q.data = q;
    attn_in *in[2] = { &c.d.k, &c.d.v };
    for (int i = 0; i < 2; i++) {
        signed char *first = cache + i * B * CAP * ROW;
        in[i]->dtype = ATTN_INT8, in[i]->data = first, in[i]->scale = (float *)(void *)(first + HK * D);
        set3(in[i]->stride, CAP * ROW, ROW, D), set3(in[i]->scale_stride, CAP * ROW / 4, ROW / 4, 1);
    }
    c.d.append.k_cache = cache, c.d.append.v_cache = cache + B * CAP * ROW;
    c.d.append.k_scale = (float *)(uintptr_t)c.d.k.scale, c.d.append.v_scale = (float *)(uintptr_t)c.d.v.scale;
    assert_ok(attn_forward(&c.d));
    for (int b = 0; b < B; b++)
        for (int h = 0; h < HK; h++) {
            float most = 0, scale;
            for (int i = 0; i < D; i++) most = fmaxf(most, fabsf(c.fresh_k[(b * 2 * HK + h) * D + i]));
            memcpy(&scale, cache + (b * CAP + c.used[b]) * ROW + HK * D + h * 4, 4);
            assert_true(scale == most / 127);
        }
    for (int i = 0; i < 2; i++) set3(in[i]->stride, CAP * 64, 64, D);
    for (int apart = -HK * D; apart <= HK * D; apart++) {           /* codes of k and v in one row: bytes may share but one */
        c.d.v.data = c.d.append.v_cache = cache + HK * D + apart, c.d.k.data = c.d.append.k_cache = cache + HK * D;
        c.d.append.v_scale = q, c.d.v.scale = q, c.d.append.k_scale = (float *)q + 4096 / 4, c.d.k.scale = q + 4096 / 4;
        c.d.q.data = c.fresh_k;
        const attn_status s = attn_forward(&c.d);
        if (apart == -HK * D || apart == HK * D ? s : s != ATTN_ERR_OVERLAP) fail_msg("%d apart: %s", apart, attn_status_name(s));
    }
    free(cache), free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_boxes), cmocka_unit_test(test_long_views), cmocka_unit_test(test_far_apart), cmocka_unit_test(test_int16_between_rows), cmocka_unit_test(test_int16_side_by_side), cmocka_unit_test(test_int16_backwards), cmocka_unit_test(test_new_tokens), cmocka_unit_test(test_slots), cmocka_unit_test(test_packed_gradients),
        cmocka_unit_test(test_q_beside_cache),
        cmocka_unit_test(test_combined_cache), cmocka_unit_test(test_scales_beside_codes),
    };
    return cmocka_run_group_tests_name("overlap", tests, NULL, NULL);
}
