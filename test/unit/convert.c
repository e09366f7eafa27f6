/* convert.c - attn_convert: layouts and dtypes in every direction, bit for bit. */
#include "unit.h"

static const int types[] = { ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64 };

static void convert(const void *src, int src_type, void *dst, int dst_type, int64_t n)
{
    int64_t shape[4] = { 1, 1, 1, n };
    attn_in in = { 0 };
    attn_out out = { 0 };
    in.data = src, in.dtype = src_type;
    out.data = dst, out.dtype = dst_type;
    assert_ok(attn_convert(shape, in, out, NULL));
}

/* All 2^16 values widen to exactly what they are, and narrow back to the same bits; a NaN stays a NaN of the same sign. */
static void all_values(int type)
{
    enum { N = 65536 };
    static const int wide[] = { ATTN_F32, ATTN_F64 };
    uint16_t *bits = malloc(N * 2), *back = malloc(N * 2);
    double *values = malloc(N * 8);
    for (int i = 0; i < N; i++) bits[i] = (uint16_t)i;
    for (int w = 0; w < 2; w++) {
        convert(bits, type, values, wide[w], N);
        for (int i = 0; i < N; i++) {
            double want = element_get(bits, type, i), got = element_get(values, wide[w], i);
            if (isnan(want) ? !isnan(got) : got != want || signbit(got) != signbit(want)) fail_msg("0x%04x: %.17g", i, got);
        }
        convert(values, wide[w], back, type, N);
        for (int i = 0; i < N; i++) {
            if (isnan(element_get(bits, type, i))) assert_true(isnan(element_get(back, type, i)) && !((bits[i] ^ back[i]) & 0x8000));
            else if (back[i] != bits[i]) fail_msg("0x%04x comes back as 0x%04x", i, back[i]);
        }
    }
    convert(bits, type, back, type, N);
    assert_memory_equal(back, bits, N * 2);
    free(bits);
    free(back);
    free(values);
}
/* A NaN of f64, with any payload, becomes the default one of 16 bits, of the same sign: as on a GPU. */
static void test_wide_nan(void **state)
{
    static const uint64_t nan[] = { 0x7ff8000000000000u, 0xfff8000000000000u, 0x7ff0000000000001u, 0x7ffabcdef0000000u, 0xfff4000000000000u };
    static const uint16_t want[2][5] = { { 0x7e00, 0xfe00, 0x7e00, 0x7e00, 0xfe00 }, { 0x7fc0, 0xffc0, 0x7fc0, 0x7fc0, 0xffc0 } };
    uint16_t got[5];
    (void)state;
    for (int t = 0; t < 2; t++) {
        convert(nan, ATTN_F64, got, types[t + 1], 5);
        assert_memory_equal(got, want[t], sizeof got);
    }
}
static void test_all_f16(void **state) { (void)state; all_values(ATTN_F16); }
static void test_all_bf16(void **state) { (void)state; all_values(ATTN_BF16); }

/* f32 and f64 round once to nearest even: random bits, and ties with their neighbours; against the conversion of unit.h. */
static void test_rounding(void **state)
{
    enum { N = 300000 };
    uint64_t r = 3;
    float *f = malloc(N * 4);
    double *d = malloc(N * 8);
    uint16_t *got = malloc(N * 2);
    (void)state;
    for (int t = 1; t < 3; t++) {
        for (int i = 0; i < N; i++) {
            uint32_t u = (uint32_t)random_bits(&r);
            if (i % 3 == 1) {                   /* half way between two values, or one place beside */
                uint16_t h = (uint16_t)(random_bits(&r) & 0x7fff);
                float mid = (float)((element_get(&h, types[t], 0) + element_get((h++, &h), types[t], 0)) / 2);
                memcpy(&u, &mid, 4);
                u = u + (uint32_t)(random_bits(&r) % 3) - 1;
            }
            if (i % 3 == 2) u = (uint32_t)(random_bits(&r) & 0x807fffffu) | (uint32_t)(100 + random_bits(&r) % 45) << 23;
            memcpy(&f[i], &u, 4);
            d[i] = ldexp(random_gauss(&r), (int)(random_bits(&r) % 60) - 40);
            if (i % 2) d[i] = (double)f[i] * (1 + 0x1p-40 * (double)(int)(random_bits(&r) % 3 - 1));
        }
        convert(f, ATTN_F32, got, types[t], N);
        for (int i = 0; i < N; i++) {
            uint16_t want;
            element_put(&want, types[t], 0, (double)f[i]);
            if (isnan(f[i]) ? !isnan(element_get(got, types[t], i)) : got[i] != want)
                fail_msg("f32 %a to dtype %d: 0x%04x, not 0x%04x", (double)f[i], types[t], got[i], want);
        }
        convert(d, ATTN_F64, got, types[t], N);
        for (int i = 0; i < N; i++) {
            uint16_t want;
            element_put(&want, types[t], 0, d[i]);
            if (isnan(d[i]) ? !isnan(element_get(got, types[t], i)) : got[i] != want)
                fail_msg("f64 %a to dtype %d: 0x%04x, not 0x%04x", d[i], types[t], got[i], want);
        }
    }
    convert(d, ATTN_F64, f, ATTN_F32, N);
    for (int i = 0; i < N; i++) assert_true(isnan(d[i]) ? isnan(f[i]) : f[i] == (float)d[i]);
    free(f);
    free(d);
    free(got);
}

/* ------------------------------------------------------------------------------------------ layouts
 * The ways a tensor {B, S, H, D} can lie in memory; packed: the key of a QKV tensor [B, S, 3, H, D]. */
enum { B = 2, S = 5, H = 3, D = 7 };
enum { BSHD, BSHD_ZERO, BHSD, BHSD_ZERO, PACKED, GAPS, WAYS };

static void lay(int way, int64_t stride[3], int32_t *layout, int64_t *first, int64_t *size)
{
    *layout = way == BHSD || way == BHSD_ZERO ? ATTN_BHSD : ATTN_BSHD;
    *first = 0;
    *size = B * S * H * D;
    dense(stride, *layout, S, H, D);
    if (way == PACKED) stride[0] = S * 3 * H * D, stride[1] = 3 * H * D, *first = H * D, *size = B * S * 3 * H * D;
    if (way == GAPS) stride[2] = D + 3, stride[1] = H * (D + 3) + 1, stride[0] = S * stride[1] + 11, *size = B * stride[0];
}

static void test_layouts(void **state)
{
    (void)state;
    for (int way = 0; way < WAYS * WAYS; way++)
        for (int type = 0; type < COUNT(types) * COUNT(types); type++) {
            int t0 = types[type % COUNT(types)], t1 = types[type / COUNT(types)];
            int64_t shape[4] = { B, S, H, D }, first[2], size[2], stride[2][3], seen = 0;
            attn_in in = { 0 };
            attn_out out = { 0 };
            char *src, *dst, *before;
            uint64_t r = 9;
            lay(way % WAYS, stride[0], &in.layout, &first[0], &size[0]);
            lay(way / WAYS, stride[1], &out.layout, &first[1], &size[1]);
            src = malloc((size_t)(size[0] * dtype_size(t0)));
            dst = malloc((size_t)(size[1] * dtype_size(t1)));
            before = malloc((size_t)(size[1] * dtype_size(t1)));
            fill(src, t0, size[0], 1, &r);
            memset(dst, 0x5a, (size_t)(size[1] * dtype_size(t1)));
            memcpy(before, dst, (size_t)(size[1] * dtype_size(t1)));
            in.data = src + first[0] * dtype_size(t0), in.dtype = t0;
            out.data = dst + first[1] * dtype_size(t1), out.dtype = t1;
            if (way % WAYS != BSHD_ZERO && way % WAYS != BHSD_ZERO) memcpy(in.stride, stride[0], sizeof in.stride);
            if (way / WAYS != BSHD_ZERO && way / WAYS != BHSD_ZERO) memcpy(out.stride, stride[1], sizeof out.stride);
            assert_ok(attn_convert(shape, in, out, NULL));
            for (int64_t i = 0; i < B * S * H; i++)
                for (int64_t c = 0; c < D; c++) {
                    int64_t b = i / H / S, s = i / H % S, h = i % H;
                    int64_t from = first[0] + at(stride[0], b, s, h) + c, to = first[1] + at(stride[1], b, s, h) + c;
                    double once;
                    element_put(&once, t1, 0, element_get(src, t0, from));
                    if (element_get(dst, t1, to) != element_get(&once, t1, 0)) fail_msg("ways %d, dtypes %d to %d", way, t0, t1);
                    memcpy(before + to * dtype_size(t1), dst + to * dtype_size(t1), (size_t)dtype_size(t1));
                    seen++;
                }
            assert_int_equal(seen, B * S * H * D);
            assert_memory_equal(dst, before, size[1] * dtype_size(t1));         /* and nothing else was written */
            free(src);
            free(dst);
            free(before);
        }
}

/* A block of f64 with a number beyond f32, which is infinite there: no number at all, as append writes it. */
static void test_block_beyond(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        double x[32] = { 1e300, 1, -2 };
        unsigned char block[34];
        uint16_t scale;
        convert(x, ATTN_F64, block, t ? ATTN_Q4_0 : ATTN_Q8_0, 32);
        memcpy(&scale, block, 2);
        assert_int_equal(scale, 0x7e00);
        x[0] = 3e38;
        convert(x, ATTN_F64, block, t ? ATTN_Q4_0 : ATTN_Q8_0, 32);
        memcpy(&scale, block, 2);
        assert_int_equal(scale & 0x7fff, 0x7bff);
    }
}

/* Large copies in another order, which some processors write past their caches, and pretended ones: whole lines and not, at every place
 * of 64 bytes; rows come to where they belong, and nothing else is written. */
void unit_stream(int always);
void unit_l2(int64_t bytes);
static void test_streamed(void **state)
{
    static const int64_t width[] = { 64, 128, 192, 48, 60 };            /* bytes of a row */
    (void)state;
    unit_stream(1);
    unit_l2(1);
    for (int64_t w = 0; w < COUNT(width); w++)
        for (int64_t off = 0; off <= 64; off += 4)
            for (int type = 0; type < 2; type++)
                for (int way = 0; way < 4; way++) {
                    const int64_t size = dtype_size(type ? ATTN_BF16 : ATTN_F32), dim = width[w] / size, gap = way & 2 ? 64 / size : 0;
                    int64_t shape[4] = { B, S, H, dim };
                    char src[B * S * H * 192], dst[64 + B * S * H * 256 + 64 + 64], want[sizeof dst];
                    char *to = dst + (64 - (uintptr_t)dst % 64) + off;
                    attn_in in = { 0 };
                    attn_out out = { 0 };
                    uint64_t r = 11;
                    for (size_t i = 0; i < sizeof src; i++) src[i] = (char)random_bits(&r);
                    memset(dst, 0x5a, sizeof dst);
                    memset(want, 0x5a, sizeof want);
                    in.data = src, in.dtype = out.dtype = type ? ATTN_BF16 : ATTN_F32;
                    in.layout = way & 1 ? ATTN_BHSD : ATTN_BSHD;
                    out.data = to;
                    out.stride[2] = way & 1 ? dim + gap : S * (dim + gap), out.stride[1] = way & 1 ? H * (dim + gap) : dim + gap;
                    out.stride[0] = S * H * (dim + gap);
                    assert_ok(attn_convert(shape, in, out, NULL));
                    for (int64_t b = 0; b < B; b++)
                        for (int64_t s = 0; s < S; s++)
                            for (int64_t h = 0; h < H; h++)
                                memcpy(want + (to - dst) + at(out.stride, b, s, h) * size,
                                       src + (way & 1 ? (b * H + h) * S + s : (b * S + s) * H + h) * width[w], (size_t)width[w]);
                    if (memcmp(dst, want, sizeof dst)) fail_msg("rows of %d bytes, %d bytes behind a line, way %d", (int)width[w], (int)off, way);
                }
    for (int n = 0; n < 8; n++) {                   /* rows that begin at lines but for a stride, each in turn; heads of 3, 5, 9 and 17 numbers more */
        enum { T = 40, G = 3, W = 32, MOST = B * G * (T * W + 32) + 64 };
        static float src[B * T * G * W], dst[MOST + 16], want[MOST + 16];
        const int64_t more = n < 4 ? 1 : 16 * (n - 3) + 1;
        int64_t shape[4] = { B, T, G, W };
        float *to = dst + (64 - (uintptr_t)dst % 64) / 4, *expect = want + (to - dst);
        attn_in in = { 0 };
        attn_out out = { 0 };
        for (int64_t i = 0; i < COUNT(src); i++) src[i] = (float)i;
        for (int64_t i = 0; i < COUNT(dst); i++) dst[i] = want[i] = -1;
        in.data = src, out.data = to;
        out.stride[1] = W, out.stride[2] = T * W + (n % 2 ? more % 32 : 0), out.stride[0] = G * (T * W + 32) - (n % 2 ? 0 : more % 32);
        assert_ok(attn_convert(shape, in, out, NULL));
        for (int64_t b = 0; b < B; b++)
            for (int64_t t = 0; t < T; t++)
                for (int64_t h = 0; h < G; h++) memcpy(expect + at(out.stride, b, t, h), src + ((b * T + t) * G + h) * W, W * 4);
        if (memcmp(dst, want, sizeof dst)) fail_msg("strides %d", n);
    }
    unit_l2(0);
    unit_stream(0);
}

/* Q, K and V apart, packed into one tensor, and apart again. */
static void test_packed_round_trip(void **state)
{
    float part[3][B * H * S * D], packed[B * S * 3 * H * D], back[3][B * H * S * D];
    int64_t shape[4] = { B, S, H, D };
    uint64_t r = 13;
    (void)state;
    fill(part, ATTN_F32, 3 * B * H * S * D, 1, &r);
    for (int i = 0; i < 3; i++) {
        attn_in in = { 0 };
        attn_out out = { 0 };
        in.data = part[i], in.layout = ATTN_BHSD;
        out.data = packed + i * H * D;
        out.stride[0] = S * 3 * H * D, out.stride[1] = 3 * H * D, out.stride[2] = D;
        assert_ok(attn_convert(shape, in, out, NULL));
    }
    for (int i = 0; i < 3; i++) {
        attn_in in = { 0 };
        attn_out out = { 0 };
        in.data = packed + i * H * D;
        in.stride[0] = S * 3 * H * D, in.stride[1] = 3 * H * D, in.stride[2] = D;
        out.data = back[i], out.layout = ATTN_BHSD;
        assert_ok(attn_convert(shape, in, out, NULL));
    }
    assert_memory_equal(back, part, sizeof part);
}

/* Where element c of head h of q, k or v lies in its token of a packed buffer, written down once more. */
static int64_t in_token(int layout, int which, int64_t h, int64_t c, int64_t heads, int64_t kv, int64_t dim, int64_t v_dim)
{
    if (layout == ATTN_QKV_H3D) return (h * 3 + which) * dim + c;
    return which == 0 ? h * dim + c : which == 1 ? (heads + h) * dim + c : (heads + kv) * dim + h * v_dim + c;
}
/* Forward and backward of a packed buffer, and of its tensors apart: the same bits, and every element of dqkv written. Sequences of
 * 5 tokens, or with cu of 3 and 7; q_len is then left to the call. */
static void packed_views(int layout, int64_t heads, int64_t kv, int64_t dim, int64_t v_dim, int type, int cu)
{
    enum { TOKENS = 10 };
    static const int32_t ends[3] = { 0, 3, 10 };
    const int64_t h[3] = { heads, kv, kv }, w[3] = { dim, dim, v_dim }, row = (heads + kv) * dim + kv * v_dim, size = dtype_size(type);
    char *qkv = malloc((size_t)(TOKENS * row * size)), *dqkv = malloc((size_t)(TOKENS * row * size)), *part[3], *dpart[3];
    float *o[2], *lse = malloc(TOKENS * 8 * 4), *dout = malloc((size_t)(TOKENS * heads * v_dim * 4));
    uint64_t r = 5;
    attn_desc d = { 0 }, packed;
    attn_grad g = { 0 }, dpacked;
    attn_in *in[3] = { &d.q, &d.k, &d.v };
    attn_out *out[3] = { &g.dq, &g.dk, &g.dv };
    fill(qkv, type, TOKENS * row, 1, &r), fill(dout, ATTN_F32, TOKENS * heads * v_dim, 1, &r);
    memset(dqkv, 0x5a, (size_t)(TOKENS * row * size));
    d.batch = 2, d.q_len = cu ? 0 : 5, d.heads = heads, d.kv_heads = kv == heads ? 0 : kv, d.head_dim = dim, d.v_dim = v_dim == dim ? 0 : v_dim;
    if (cu) d.seq.cu_q = ends, d.seq.total_q = TOKENS;
    d.lse = lse, d.flags = ATTN_CAUSAL, g.dout.data = dout;
    packed = d, dpacked = g;
    assert_ok(attn_packed_qkv(&packed, qkv, type, layout));
    assert_ok(attn_packed_dqkv(&packed, &dpacked, dqkv, type, layout));
    d.kv_len = d.q_len, d.seq.cu_k = d.seq.cu_q, d.seq.total_k = d.seq.total_q;
    for (int i = 0; i < 3; i++) {
        part[i] = malloc((size_t)(TOKENS * h[i] * w[i] * size)), dpart[i] = malloc((size_t)(TOKENS * h[i] * w[i] * size));
        for (int64_t n = 0; n < TOKENS * h[i] * w[i]; n++)
            memcpy(part[i] + n * size, qkv + (n / w[i] / h[i] * row + in_token(layout, i, n / w[i] % h[i], n % w[i], heads, kv, dim, v_dim)) * size,
                   (size_t)size);
        in[i]->data = part[i], in[i]->dtype = type, out[i]->data = dpart[i], out[i]->dtype = type;
    }
    for (int i = 0; i < 2; i++) {
        attn_desc *one = i ? &packed : &d;
        one->o.data = o[i] = malloc((size_t)(TOKENS * heads * v_dim * 4));
        assert_ok(attn_forward(one));
        assert_ok(attn_backward(one, i ? &dpacked : &g));
    }
    assert_memory_equal(o[0], o[1], TOKENS * heads * v_dim * 4);
    for (int i = 0; i < 3; i++)
        for (int64_t n = 0; n < TOKENS * h[i] * w[i]; n++)
            assert_memory_equal(dpart[i] + n * size,
                                dqkv + (n / w[i] / h[i] * row + in_token(layout, i, n / w[i] % h[i], n % w[i], heads, kv, dim, v_dim)) * size, size);
    for (int i = 0; i < 3; i++) free(part[i]), free(dpart[i]);
    free(o[0]), free(o[1]), free(lse), free(dout), free(qkv), free(dqkv);
}
static void test_packed_views(void **state)
{
    static const int64_t shape[][4] = { { 2, 2, 4, 4 }, { 1, 1, 3, 3 }, { 4, 2, 5, 3 }, { 3, 1, 2, 7 } };
    (void)state;
    for (int64_t i = 0; i < COUNT(shape); i++)
        for (int n = 0; n < 12; n++) {
            const int64_t *s = shape[i];
            const int layout = n % 2 ? ATTN_QKV_H3D : ATTN_QKV_3HD;
            if (layout == ATTN_QKV_H3D && (s[0] != s[1] || s[2] != s[3])) continue;
            packed_views(layout, s[0], s[1], s[2], s[3], n / 4, n / 2 % 2);
        }
}
/* What was in the description goes: a scale, strides, lengths of other keys. No buffer: no data. */
static void test_packed_overwrites(void **state)
{
    static const int32_t cu[2] = { 0, S };
    static float qkv[3 * S * H * D];
    attn_desc d = { 0 };
    (void)state;
    d.batch = 1, d.q_len = S, d.kv_len = 99, d.heads = H, d.head_dim = D;
    d.k.scale = qkv, d.k.scale_stride[1] = 4, d.k.layout = ATTN_BHSD, d.v.stride[0] = -7, d.seq.cu_k = cu, d.seq.total_k = 98;
    assert_ok(attn_packed_qkv(&d, qkv, ATTN_F32, ATTN_QKV_3HD));
    assert_true(d.kv_len == S && !d.seq.cu_k && !d.seq.total_k && !d.k.scale && !d.k.layout && d.v.stride[0] == S * 3 * H * D);
    assert_true(d.k.data == qkv + H * D && d.v.data == qkv + 2 * H * D);
    assert_ok(attn_packed_qkv(&d, NULL, ATTN_F32, ATTN_QKV_H3D));
    assert_true(!d.q.data && !d.k.data && !d.v.data);
}

/* Lengths of keys are those of queries, whatever stood there before; those in a GPU's memory are not looked at, before and after. No
 * buffer of gradients: no data. */
static void test_packed_lengths(void **state)
{
    static const int32_t cu[3] = { 0, 3, 8 };
    static float qkv[8 * 3 * H * D], dqkv[8 * 3 * H * D];
    (void)state;
    for (int n = 0; n < 4; n++) {
        const int layout = n % 2 ? ATTN_QKV_H3D : ATTN_QKV_3HD;
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        d.batch = 2, d.q_len = 5, d.kv_len = -1, d.heads = H, d.head_dim = D, d.seq.cu_q = cu, d.seq.total_q = 8;
        if (n / 2) d.flags = ATTN_DEVICE;
        assert_ok(attn_packed_qkv(&d, qkv, ATTN_F32, layout));
        assert_true(d.kv_len == 5 && d.seq.cu_k == cu && d.seq.total_k == 8);
        assert_ok(attn_packed_dqkv(&d, &g, dqkv, ATTN_F32, layout));
        assert_true(g.dq.data == dqkv && g.dk.data == dqkv + (n % 2 ? D : H * D) && g.dv.data == dqkv + 2 * (n % 2 ? D : H * D));
        d.kv_len = -1;
        assert_ok(attn_packed_dqkv(&d, &g, NULL, ATTN_F32, layout));
        assert_true(!g.dq.data && !g.dk.data && !g.dv.data);
    }
}

/* Sources may be broadcast or walked backwards. */
static void test_source_strides(void **state)
{
    float src[4] = { 1, 2, 3, 4 }, dst[8];
    int64_t shape[4] = { 2, 2, 1, 2 };
    attn_in in = { 0 };
    attn_out out = { 0 };
    (void)state;
    in.data = src + 2, in.stride[0] = ATTN_BROADCAST, in.stride[1] = -2, in.stride[2] = 2;
    out.data = dst;
    assert_ok(attn_convert(shape, in, out, NULL));
    for (int b = 0; b < 2; b++)
        assert_true(dst[4 * b] == 3 && dst[4 * b + 1] == 4 && dst[4 * b + 2] == 1 && dst[4 * b + 3] == 2);
}

/* The same for any number of threads; an empty tensor needs no memory. */
static void test_threads_and_empty(void **state)
{
    enum { N = 64 * 33 * 4 * 20 };
    int64_t shape[4] = { 64, 33, 4, 20 }, none[4] = { 2, 0, 3, 4 };
    float *src = malloc(N * 4);
    uint16_t *one = malloc(N * 2), *many = malloc(N * 2);
    attn_in in = { 0 };
    attn_out out = { 0 };
    attn_desc where = { 0 };
    uint64_t r = 17;
    (void)state;
    fill(src, ATTN_F32, N, 1, &r);
    in.data = src, out.dtype = ATTN_BF16, out.layout = ATTN_BHSD;
    where.threads = 1, out.data = one;
    assert_ok(attn_convert(shape, in, out, &where));
    for (int threads = 2; threads < 9; threads++) {
        where.threads = threads, out.data = many;
        memset(many, 0, N * 2);
        assert_ok(attn_convert(shape, in, out, &where));
        assert_memory_equal(one, many, N * 2);
    }
    in.data = NULL, out.data = NULL;
    assert_ok(attn_convert(none, in, out, NULL));
    free(src);
    free(one);
    free(many);
}

/* Blocks of 32, byte for byte as ggml writes them: its formulas, in f32 rounded at each step. Numbers that it leaves undefined: a block
 * that is not finite is NaN, scales and codes stop at their largest. */
static void block_want(const float *x, int32_t type, unsigned char *to)
{
    volatile float top = 0, scale, inverse = 0, y;
    int finite = 1;
    uint16_t h;
    for (int i = 0; i < 32; i++) {
        finite &= isfinite(x[i]);
        if (fabsf(x[i]) > fabsf(top)) top = x[i];
    }
    scale = type == ATTN_Q8_0 ? fabsf(top) / 127 : top / -8;
    if (fabsf(scale) > 65504) scale = copysignf(65504, scale);
    if (fabsf(scale) >= 0x1p-126f) inverse = 1 / scale;
    h = finite ? encode16((double)scale, 10, -14) : 0x7e00;
    memcpy(to, &h, 2);
    for (int i = 0; i < 32; i++) {
        y = finite ? x[i] * inverse : 0;
        if (type == ATTN_Q8_0) {
            to[2 + i] = (unsigned char)(signed char)fmax(-127, fmin(127, round((double)y)));
            continue;
        }
        y = fmaxf(-8, fminf(8, y));
        y = y + 8.5f;
        const int code = (int)fminf(15, floorf(y));
        to[2 + i % 16] = (unsigned char)(i < 16 ? code : (to[2 + i % 16] | code << 4));
    }
}
static void test_blocks(void **state)
{
    enum { BLOCKS = 64 };
    static const int32_t of[] = { ATTN_Q8_0, ATTN_Q4_0 };
    static float x[32 * BLOCKS], back[32 * BLOCKS];
    static unsigned char want[34 * BLOCKS], got[34 * BLOCKS];
    static double wide[32 * BLOCKS];
    static uint16_t half[32 * BLOCKS];
    uint64_t r = 5;
    (void)state;
    for (int kind = 0; kind < 200; kind++)
        for (int t = 0; t < 2; t++) {
            const int64_t each = of[t] == ATTN_Q8_0 ? 34 : 18;
            for (int i = 0; i < 32 * BLOCKS; i++) {
                const double u = 2 * random_unit(&r) - 1;
                const uint32_t bits = (uint32_t)random_bits(&r);
                x[i] = (float)(kind % 9 == 0 ? u : kind % 9 == 1 ? rint(127 * u) / 2 : kind % 9 == 2 ? rint(16 * u) / 4 : kind % 9 == 3 ? ldexp(u, (int)(bits % 60) - 40)
                       : kind % 9 == 4 ? (i % 32 == 7 ? u : 0) : kind % 9 == 5 ? ldexp(u, 24) : kind % 9 == 6 ? ldexp(u, -130 + i / 32 % 16) : 0);
                if (kind % 9 == 7) x[i] = float_of(bits);        /* any bits: most blocks have one that is not finite, or a huge one */
                if (kind % 9 == 8) x[i] = float_of(bits & 0xbfffffff);
                if (i < 64) x[i] = i < 32 ? 0 : -0.0f;           /* q4_0 has a scale of -0 for them */
                else if (i < 96) x[i] = i == 67 ? -0x1p-149f : 0;        /* and of 0 for the smallest number below 0 */
            }
            for (int b = 0; b < BLOCKS; b++) block_want(x + 32 * b, of[t], want + b * each);
            memset(got, 0x5a, sizeof got);
            convert(x, ATTN_F32, got, of[t], 32 * BLOCKS);
            if (memcmp(got, want, (size_t)(each * BLOCKS))) fail_msg("type %d, kind %d: other bytes", (int)of[t], kind);
            if (each == 18) assert_true(got[18 * BLOCKS] == 0x5a);
            convert(got, of[t], back, ATTN_F32, 32 * BLOCKS);
            convert(got, of[t], wide, ATTN_F64, 32 * BLOCKS);
            convert(got, of[t], half, ATTN_F16, 32 * BLOCKS);
            for (int i = 0; i < 32 * BLOCKS; i++) {
                const double e = element_get(want, of[t], i);
                const uint16_t h = encode16(e, 10, -14);
                if (isnan(e) ? !isnan(back[i]) || !isnan(wide[i]) : (double)back[i] != e || wide[i] != e || half[i] != h)
                    fail_msg("type %d, kind %d: element %d is %g, %g", (int)of[t], kind, i, (double)back[i], wide[i]);
            }
            for (int i = 0; i < 32 * BLOCKS; i++) wide[i] = (double)x[i];
            memset(got, 0, sizeof got);
            convert(wide, ATTN_F64, got, of[t], 32 * BLOCKS);
            assert_memory_equal(got, want, each * BLOCKS);
        }
}
/* Heads and tokens of blocks in any order; one kind of block to the other is as by way of f32. */
static void test_block_layouts(void **state)
{
    enum { WIDTH = 64, N = 2 * 3 * 2 * WIDTH };
    static float x[N], y[N], z[N];
    static unsigned char a[N / 32 * 34], b[N / 32 * 34 + 64], c[N / 32 * 18], e[N / 32 * 18];
    const int64_t shape[4] = { 2, 3, 2, WIDTH };
    uint64_t r = 9;
    attn_in in = { 0 };
    attn_out out = { 0 };
    (void)state;
    fill(x, ATTN_F32, N, 1, &r);
    in.data = x, out.data = a, out.dtype = ATTN_Q8_0, out.layout = ATTN_BHSD;
    assert_ok(attn_convert(shape, in, out, NULL));
    in.data = a, in.dtype = ATTN_Q8_0, in.layout = ATTN_BHSD, out.data = y, out.dtype = ATTN_F32, out.layout = ATTN_BSHD;
    assert_ok(attn_convert(shape, in, out, NULL));
    for (int i = 0; i < N; i++) assert_true(fabsf(x[i] - y[i]) <= 0.02f * 2);
    out.data = b + 34, out.dtype = ATTN_Q8_0;                    /* the same blocks in the other order */
    assert_ok(attn_convert(shape, in, out, NULL));
    convert(b + 34, ATTN_Q8_0, z, ATTN_F32, N);
    assert_memory_equal(y, z, sizeof y);
    out.data = c, out.dtype = ATTN_Q4_0;
    assert_ok(attn_convert(shape, in, out, NULL));
    convert(y, ATTN_F32, e, ATTN_Q4_0, N);
    assert_memory_equal(c, e, sizeof c);
    convert(c, ATTN_Q4_0, a, ATTN_Q8_0, N);
    convert(c, ATTN_Q4_0, z, ATTN_F32, N);
    convert(z, ATTN_F32, b, ATTN_Q8_0, N);
    assert_memory_equal(a, b, sizeof a);
    const int64_t one[4] = { 1, 3, 1, WIDTH };                   /* steps that are never taken may be any */
    const int64_t odd[3] = { 7, WIDTH, 5 };
    memcpy(in.stride, odd, sizeof odd), memcpy(out.stride, odd, sizeof odd);
    in.data = x, in.dtype = ATTN_F32;
    assert_ok(attn_convert(one, in, out, NULL));
    convert(x, ATTN_F32, e, ATTN_Q4_0, 3 * WIDTH);
    assert_memory_equal(c, e, 3 * WIDTH / 32 * 18);
    in.stride[1] = WIDTH + 1;
    assert_ok(attn_convert(one, in, out, NULL));                 /* of floats they may be */
    out.stride[1] = WIDTH + 1;
    assert_int_equal(attn_convert(one, in, out, NULL), ATTN_ERR_BLOCKS);
}

/* Many sequences of one token and few of many, in one task: each step to the next head, token and sequence is one that some shape takes. */
static void test_shapes(void **state)
{
    static const int64_t shapes[][4] = { { 64, 1, 2, 8 }, { 1, 64, 2, 8 }, { 5, 1, 1, 8 }, { 3, 4, 1, 8 }, { 2, 2, 2, 4 }, { 7, 3, 5, 1 }, { 1, 1, 64, 3 } };
    (void)state;
    for (int64_t n = 0; n < COUNT(shapes); n++)
        for (int32_t threads = 1; threads < 4; threads++)
            for (int t = 0; t < 2; t++) {                /* bytes copied, and values narrowed */
                const int64_t *e = shapes[n], count = e[0] * e[1] * e[2] * e[3];
                static float x[1024], back[1024];
                static unsigned char middle[1024 * 4];
                const int32_t type = t ? ATTN_F16 : ATTN_F32;
                attn_desc where = { 0 };
                attn_in in = { 0 };
                attn_out out = { 0 };
                for (int64_t i = 0; i < count; i++) x[i] = (float)i;
                where.threads = threads;
                in.data = x, out.data = middle, out.dtype = type, out.layout = ATTN_BHSD;
                assert_ok(attn_convert(e, in, out, &where));
                for (int64_t b = 0, i = 0; b < e[0]; b++)
                    for (int64_t s = 0; s < e[1]; s++)
                        for (int64_t h = 0; h < e[2]; h++)
                            for (int64_t c = 0; c < e[3]; c++, i++)
                                if (element_get(middle, type, ((b * e[2] + h) * e[1] + s) * e[3] + c) != (double)i)
                                    fail_msg("shape %lld, type %d: element %lld is elsewhere", (long long)n, (int)type, (long long)i);
                in.data = middle, in.dtype = type, in.layout = ATTN_BHSD, out.data = back, out.dtype = ATTN_F32, out.layout = ATTN_BSHD;
                assert_ok(attn_convert(e, in, out, &where));
                assert_memory_equal(x, back, (size_t)count * sizeof *x);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_f16), cmocka_unit_test(test_all_bf16), cmocka_unit_test(test_rounding), cmocka_unit_test(test_wide_nan),
        cmocka_unit_test(test_layouts), cmocka_unit_test(test_streamed), cmocka_unit_test(test_packed_round_trip), cmocka_unit_test(test_packed_views),
        cmocka_unit_test(test_packed_overwrites), cmocka_unit_test(test_packed_lengths), cmocka_unit_test(test_source_strides),
        cmocka_unit_test(test_threads_and_empty), cmocka_unit_test(test_blocks), cmocka_unit_test(test_block_beyond), cmocka_unit_test(test_block_layouts), cmocka_unit_test(test_shapes),
    };
    return cmocka_run_group_tests_name("convert", tests, NULL, NULL);
}
