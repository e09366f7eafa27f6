/* check.h - what every test shares: random numbers (random.h), the elements of every dtype, how exact is right, and the inside of
 * the library that impl.c shows.
 *
 * Elements are made and read as bits and on integers, so that a host built with -Ofast makes the same data and sees the same faults.
 * Written apart from attn.h, which they judge. */
#ifndef CHECK_H
#define CHECK_H
#include <fenv.h>
#include "attn.h"
#include "random.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------- from impl.c
 * An allocator that counts, and fails at one; the sums of the rule below; the library's own Philox. */
extern int64_t unit_alive, unit_made, unit_fail_at;
attn_status unit_bounds(const attn_desc *d, double *o, double *pv, double *lse);
void unit_spectrum(int always);
void unit_filter(int always);
void unit_l2(int64_t bytes);
void unit_left_out(unsigned char *left);
double unit_eigenvalue(const float *X, int64_t rows, int64_t n, float *room);
void unit_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4]);

/* ------------------------------------------------------------------------------------ elements of every dtype */
SHARED int64_t dtype_size(int32_t dtype)
{
    static const int64_t size[] = { 4, 2, 2, 8, 1, 1, 1, 2, 0, 0 };        /* 0: no element by itself */
    return size[dtype];
}
/* q8_0 and q4_0: 32 elements in 34 and 18 bytes. */
SHARED int is_blocks(int32_t dtype) { return dtype == ATTN_Q8_0 || dtype == ATTN_Q4_0; }
SHARED int64_t dtype_bytes(int32_t dtype, int64_t n) { return is_blocks(dtype) ? n / 32 * (dtype == ATTN_Q8_0 ? 34 : 18) : n * dtype_size(dtype); }
SHARED unsigned char *block_of(void *data, int32_t dtype, int64_t i)
{
    return (unsigned char *)data + (i >= 0 ? i / 32 : -((31 - i) / 32)) * (dtype == ATTN_Q8_0 ? 34 : 18);
}
SHARED uint32_t float_bits(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
SHARED uint64_t double_bits(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
SHARED float float_of(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }
SHARED int is_finite(double x) { return (double_bits(x) >> 52 & 2047) != 2047; }
SHARED int is_finitef(float x) { return (float_bits(x) >> 23 & 255) != 255; }

/* x in 16 bits, `fraction` of them after the point, smallest exponent `emin`: rounded once, to nearest even; NaN is the default one */
SHARED uint16_t encode16(double x, int fraction, int emin)
{
    const uint64_t u = double_bits(x), m = u & 0xfffffffffffffu;
    const uint32_t sign = (uint32_t)(u >> 48) & 0x8000, infinity = 0x7fffu >> fraction << fraction;
    const int biased = (int)(u >> 52 & 2047), e = biased - 1023 > emin ? biased - 1023 : emin;
    const int shift = 52 - fraction + (e - (biased - 1023));            /* of the significand to the last place that is kept */
    uint64_t all = m | (uint64_t)1 << 52, kept, rest, half;
    if (biased == 2047) return (uint16_t)(sign | infinity | (m ? 1u << (fraction - 1) : 0));
    if (shift > 54 || !biased) return (uint16_t)sign;
    kept = all >> shift, rest = all & (((uint64_t)1 << shift) - 1), half = (uint64_t)1 << (shift - 1);
    kept += rest > half || (rest == half && (kept & 1));
    kept += (uint64_t)(e - emin) << fraction;                           /* a carry goes to the exponent, as it should */
    return (uint16_t)(sign | (kept < infinity ? (uint32_t)kept : infinity));
}
SHARED float float_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
    if (e == 31) return float_of(sign | 0x7f800000 | m << 13);
    if (e) return float_of(sign | (e + 112) << 23 | m << 13);
    return (sign ? -1.0f : 1.0f) * (float)m * 0x1p-24f;
}
SHARED float float_of_fp8(uint8_t c)                    /* OCP e4m3fn */
{
    uint32_t sign = (uint32_t)(c & 128) << 24, e = c >> 3 & 15, m = c & 7;
    if ((c & 127) == 127) return float_of(0x7fc00000);
    if (e) return float_of(sign | (e + 120) << 23 | m << 20);
    return (sign ? -1.0f : 1.0f) * (float)m * 0x1p-9f;
}
/* The high byte of element i of int16. */
SHARED int64_t high_at(int64_t i)
{
    const int64_t piece = i >= 0 ? i / 4096 : -((4095 - i) / 4096);
    return 8192 * piece + (i - 4096 * piece);
}
/* Elements of a cache of int16 whose room is counted: whole pieces. */
SHARED int64_t whole_pieces(int64_t n, int32_t dtype) { return dtype == ATTN_INT16 ? (n + 4095) / 4096 * 4096 : n; }
SHARED double element_get(const void *data, int32_t dtype, int64_t i)
{
    const char *p = (const char *)data + i * dtype_size(dtype);
    double x = 0;
    float f = 0;
    uint16_t h = 0;
    if (is_blocks(dtype)) {
        const unsigned char *b = block_of((void *)(uintptr_t)data, dtype, i);
        const int64_t e = i & 31;
        memcpy(&h, b, 2);
        return (double)float_of_f16(h) * (dtype == ATTN_Q8_0 ? (double)(signed char)b[2 + e] : (double)((e < 16 ? b[2 + e] & 15 : b[2 + e - 16] >> 4) - 8));
    }
    switch (dtype) {
    case ATTN_F64: memcpy(&x, p, 8); return x;
    case ATTN_F32: memcpy(&f, p, 4); return (double)f;
    case ATTN_F16: memcpy(&h, p, 2); return (double)float_of_f16(h);
    case ATTN_BF16: memcpy(&h, p, 2); return (double)float_of((uint32_t)h << 16);
    case ATTN_INT8: return (double)*(const int8_t *)p;
    case ATTN_INT16:
        p = (const char *)data + high_at(i);
        return (double)*(const int8_t *)p + (double)*(const int8_t *)(p + 4096) / 256;
    case ATTN_FP8_E4M3: return (double)float_of_fp8(*(const uint8_t *)p);
    default: return *(const uint8_t *)p != 0;
    }
}
/* int8, int16, fp8 and blocks: x is the code itself; int16: in units of 1/256, the high byte the nearest */
SHARED void element_put(void *data, int32_t dtype, int64_t i, double x)
{
    if (is_blocks(dtype)) {
        unsigned char *b = block_of(data, dtype, i) + 2;
        const int64_t e = i & 31;
        if (dtype == ATTN_Q8_0) b[e] = (unsigned char)(signed char)x;
        else if (e < 16) b[e] = (unsigned char)((b[e] & 240) | ((int)x + 8));
        else b[e - 16] = (unsigned char)((b[e - 16] & 15) | ((int)x + 8) << 4);
        return;
    }
    char *p = (char *)data + i * dtype_size(dtype);
    float f = (float)x;
    uint16_t h = dtype == ATTN_F16 ? encode16(x, 10, -14) : encode16(x, 7, -126);
    switch (dtype) {
    case ATTN_F64: memcpy(p, &x, 8); break;
    case ATTN_F32: memcpy(p, &f, 4); break;
    case ATTN_F16: case ATTN_BF16: memcpy(p, &h, 2); break;
    case ATTN_BOOL: *(uint8_t *)p = x != 0; break;
    case ATTN_INT16:
        p = (char *)data + high_at(i);
        *(int8_t *)p = (int8_t)floor(x + 0.5), *(int8_t *)(p + 4096) = (int8_t)(256 * (x - floor(x + 0.5)));
        break;
    default: *(uint8_t *)p = (uint8_t)(int)x;
    }
}

/* The scale of the block that element i lies in. */
SHARED void block_scale(void *data, int32_t dtype, int64_t i, double x)
{
    const uint16_t h = encode16(x, 10, -14);
    memcpy(block_of(data, dtype, i), &h, 2);
}

/* ------------------------------------------------------------------------------------------ how exact is right
 * What an output may differ from the reference by (`want`, f64), from the sums that unit_bounds leaves. p_unit: unit of P where a
 * kernel rounds it to 16 bits, else 0; max_v: the largest finite |v|. */
#define CHECK_U 0x1p-24                                 /* u of the rule */
SHARED double dtype_unit(int32_t dtype)                 /* unit roundoff of a store */
{
    return dtype == ATTN_F64 ? 0x1p-53 : dtype == ATTN_F16 ? 0x1p-11 : dtype == ATTN_BF16 ? 0x1p-8 : 0x1p-24;
}
SHARED double dtype_tiny(int32_t dtype) { return dtype == ATTN_F16 ? 0x1p-25 : 0; }     /* half of its smallest number */
SHARED double absolute(double x) { return x < 0 ? -x : x; }
SHARED double allowed_o(int32_t dtype, double want, double o_sum, double pv_sum, double p_unit, double max_v)
{
    return 8 * CHECK_U * o_sum + 2 * p_unit * pv_sum + dtype_unit(dtype) * absolute(want) + dtype_tiny(dtype) + 0x1p-120 * (1 + max_v);
}
/* unit of P in a plain forward call of the CPU's: the kernel's name says where P is rounded, to the nearest: half of what cutting loses */
SHARED double forward_p_unit(const attn_desc *d)
{
    attn_plan plan;
    return attn_query(d, NULL, &plan) == ATTN_OK && strstr(plan.kernel, "p_bf16") ? 0x1p-9 : 0;
}
SHARED double allowed_lse(double want, double lse_sum) { return 8 * CHECK_U * (absolute(want) + lse_sum); }
/* Is an element right: as near to a finite reference as it may be, and not finite where that is not? */
SHARED int element_right(double got, double want, double allowed)
{
    return is_finite(want) ? is_finite(got) && absolute(got - want) <= allowed : !is_finite(got);
}

#ifdef FE_UPWARD                /* wasm has one mode */
/* Whether sums of f32 are rounded by `mode`: fegetround of glibc knows the mode of the x87 alone. */
SHARED int sums_round(int mode)
{
    volatile float one = 1, less = 0x1p-30f, more = 0x1.8p-24f;
    const int up = one + less > 1, down = -one - less < -1, near = one + more > 1;
    return mode == FE_UPWARD ? up : mode == FE_DOWNWARD ? down : mode == FE_TOWARDZERO ? !up && !down && !near : !up && !down && near;
}
#endif
/* A row of a call with a tolerance may be wrong by its certificate beside what the rule allows, and its certificate is no more than
 * was asked for. most: the largest finite |v| that the row sees. */
SHARED double cert_limit(const attn_desc *d, double most)
{
    return (double)d->tolerance * (d->flags & ATTN_TOLERANCE_ABSOLUTE ? 1 : most);
}
SHARED int cert_kept(float cert, double limit) { return is_finitef(cert) && cert >= 0 && (double)cert <= limit; }
/* What is wrong with the statistics of a call with these certificates, whose rows see so many tiles of 128 keys; or NULL. */
SHARED const char *statistics_wrong(const attn_statistics *t, const float *cert, int64_t rows, int64_t tiles)
{
    int64_t dense = 0;
    float most = 0;
    for (int64_t n = 0; n < rows; n++) {
        dense += cert[n] == 0;
        if (cert[n] > most) most = cert[n];
    }
    if (t->rows != rows) return "statistics: not as many rows as there are";
    if (t->largest_cert != most) return "statistics: another largest certificate";
    if (t->rows_redone < 0 || t->rows_redone > dense) return "statistics: more rows redone than have a certificate of 0";
    if (!is_finitef(t->lse_error) || t->lse_error < 0) return "statistics: no error of lse";
    if (t->tiles_skipped < 0 || t->tiles_skipped > tiles) return "statistics: more tiles left out than there are";
    if (t->tiles_int16 < 0 || t->tiles_int16 > tiles || t->tiles_int16 + t->tiles_f32 < tiles) return "statistics: other tiles than there are";
    if (!t->tiles_int16 && t->tiles_f32 != tiles) return "statistics: other tiles than there are, all dense";
    if (t->rows_sampled < 0 || t->rows_sampled > rows || t->rows_beyond < 0 || t->rows_beyond > t->rows_sampled) return "statistics: rows sampled";
    if (!is_finitef(t->sampled_error) || t->sampled_error < 0 || (t->sampled_error > 0 && !t->rows_sampled)) return "statistics: error of rows sampled";
    if (t->tiles_int16 < tiles && !t->tiles_skipped && !t->why[0]) return "statistics: tiles that stayed dense, and no reason";
    return NULL;
}
#endif
