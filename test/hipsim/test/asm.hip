// SPDX-License-Identifier: MIT
// Instructions that compilers pick rarely, one inline assembly statement each, against a host expression.
// V: vector operands a, b, c and previous destination o; S: scalar operands. Input kinds: I integers, H pairs of small f16,
// F floats. Guards: CD gfx90a and gfx942, C3 gfx942, RD gfx1100 and gfx1201, R3 gfx1100, R4 gfx1201, ALL.
#include "common.h"
#include <string>
#include <algorithm>
typedef uint32_t u32; typedef int32_t i32; typedef uint64_t u64; typedef int64_t i64; typedef uint16_t u16t; typedef int16_t i16t;
static float F(u32 u) { float f; memcpy(&f, &u, 4); return f; }
static u32 U(float f) { u32 u; memcpy(&u, &f, 4); return u; }
static double H(u32 u) { u16t s = u; _Float16 h; memcpy(&h, &s, 2); return (double)(float)h; }
static u32 hb(double d) { _Float16 h = (_Float16)(float)d; u16t s; memcpy(&s, &h, 2); return s; }     // exact for the inputs used
static u32 rtz(float x) { u32 h = hb(x); return fabs(H(h)) > fabs(x) ? h - 1 : h; }
static u32 keep(u32 old, u32 lo) { return (old & 0xffff0000) | (lo & 0xffff); }
static bool gfx9;
static u32 W(u32 old, u32 lo) { return gfx9 ? lo & 0xffff : keep(old, lo); }                           // 16-bit results: gfx9 clears the upper half
template <class T> static T mn(T a, T b) { return a < b ? a : b; }
template <class T> static T mx(T a, T b) { return a > b ? a : b; }
template <class T> static T md(T a, T b, T c) { return mx(mn(a, b), mn(mx(a, b), c)); }
static int s16(u32 x) { return (i16t)x; }
static int sat(int x) { return md(x, -32768, 32767); }
static u32 PK(u32 lo, u32 hi) { return (lo & 0xffff) | hi << 16; }
static double fmx(double a, double b, double c) { return a * b + c; }
#if defined(__gfx90a__) || defined(__gfx942__)
#define D_CD(...) __VA_ARGS__
#else
#define D_CD(...)
#endif
#if defined(__gfx942__)
#define D_C3(...) __VA_ARGS__
#else
#define D_C3(...)
#endif
#if defined(__gfx1100__) || defined(__gfx1201__)
#define D_RD(...) __VA_ARGS__
#else
#define D_RD(...)
#endif
#if defined(__gfx1100__)
#define D_R3(...) __VA_ARGS__
#else
#define D_R3(...)
#endif
#if defined(__gfx1201__)
#define D_R4(...) __VA_ARGS__
#else
#define D_R4(...)
#endif
#define D_ALL(...) __VA_ARGS__
#if defined(__gfx1201__)
#define NUM "_num"
#else
#define NUM ""
#endif
#define L(x) (H(x))
#define HI(x) (H((x) >> 16))
#define TESTS(V, S) \
 V(pk_fma_f16, ALL, H, "v_pk_fma_f16 %0, %1, %2, %3", PK(hb(fmx(L(a), L(b), L(c))), hb(fmx(HI(a), HI(b), HI(c))))) V(pk_fma_sel, ALL, H, "v_pk_fma_f16 %0, %1, %2, %3 op_sel:[1,0,0] op_sel_hi:[0,1,1] neg_lo:[0,1,0] neg_hi:[0,0,1]", PK(hb(fmx(HI(a), -L(b), L(c))), hb(fmx(L(a), HI(b), -HI(c))))) \
 V(pk_max_f16, ALL, H, "v_pk_max" NUM "_f16 %0, %1, %2", PK(hb(mx(L(a), L(b))), hb(mx(HI(a), HI(b))))) V(pk_min_f16, ALL, H, "v_pk_min" NUM "_f16 %0, %1, %2", PK(hb(mn(L(a), L(b))), hb(mn(HI(a), HI(b))))) V(pk_minimum, R4, H, "v_pk_minimum_f16 %0, %1, %2", PK(hb(mn(L(a), L(b))), hb(mn(HI(a), HI(b))))) V(pk_maximum, R4, H, "v_pk_maximum_f16 %0, %1, %2", PK(hb(mx(L(a), L(b))), hb(mx(HI(a), HI(b))))) V(pk_fmac, RD, H, "v_pk_fmac_f16 %0, %1, %2", PK(hb(fmx(L(a), L(b), L(o))), hb(fmx(HI(a), HI(b), HI(o))))) \
 V(pk_const, ALL, H, "v_pk_mul_f16 %0, %1, 2.0 op_sel_hi:[1,0]", PK(hb(L(a) * 2), hb(HI(a) * 2))) V(pk_clamp, ALL, H, "v_pk_add_f16 %0, %1, %2 clamp", PK(hb(md(L(a) + L(b), 0.0, 1.0)), hb(md(HI(a) + HI(b), 0.0, 1.0)))) \
 V(pk_sub_u16, ALL, I, "v_pk_sub_u16 %0, %1, %2", PK(a - b, (a >> 16) - (b >> 16))) V(pk_add_i16c, ALL, I, "v_pk_add_i16 %0, %1, %2 clamp", PK(sat(s16(a) + s16(b)), sat(s16(a >> 16) + s16(b >> 16)))) V(pk_sub_u16c, ALL, I, "v_pk_sub_u16 %0, %1, %2 clamp", PK(mx((int)(a & 0xffff) - (int)(b & 0xffff), 0), mx((int)(a >> 16) - (int)(b >> 16), 0))) V(pk_mad_i16, ALL, I, "v_pk_mad_i16 %0, %1, %2, %3", PK(a * b + c, (a >> 16) * (b >> 16) + (c >> 16))) V(pk_max_u16, ALL, I, "v_pk_max_u16 %0, %1, %2", PK(mx(a & 0xffff, b & 0xffff), mx(a >> 16, b >> 16))) V(pk_min_i16, ALL, I, "v_pk_min_i16 %0, %1, %2", PK(mn(s16(a), s16(b)), mn(s16(a >> 16), s16(b >> 16)))) \
 V(mixhi, ALL, H, "v_fma_mixhi_f16 %0, %1, %2, %3 op_sel:[0,1,0] op_sel_hi:[1,1,1]", PK(o, hb(fmx(L(a), HI(b), L(c))))) V(mixlo, ALL, H, "v_fma_mixlo_f16 %0, %1, %2, -%3 op_sel:[1,0,1] op_sel_hi:[1,1,1]", PK(hb(fmx(HI(a), L(b), -HI(c))), o >> 16)) V(mix32, ALL, H, "v_fma_mix_f32 %0, |%1|, %2, 1.0 op_sel:[0,1,0] op_sel_hi:[1,1,0]", U((float)(fabs(L(a)) * HI(b) + 1))) \
 V(fma_f16, CD, H, "v_fma_f16 %0, %1, -%2, %3", keep(o, hb(fmx(L(a), -L(b), L(c))))) V(fma_f16s, ALL, H, "v_fma_f16 %0, %1, %2, %3 op_sel:[1,0,1,1]", PK(o, hb(fmx(HI(a), L(b), HI(c))))) V(fmac_f16, RD, H, "v_fmac_f16 %0, %1, %2", keep(o, hb(fmx(L(a), L(b), L(o))))) V(min_f16, ALL, H, "v_min" NUM "_f16 %0, %1, %2", W(o, hb(mn(L(a), L(b))))) V(max_f16, ALL, H, "v_max" NUM "_f16 %0, %1, %2", W(o, hb(mx(L(a), L(b))))) \
 V(min3_f16, ALL, H, "v_min3" NUM "_f16 %0, %1, %2, %3", W(o, hb(mn(mn(L(a), L(b)), L(c))))) V(max3_f16, ALL, H, "v_max3" NUM "_f16 %0, %1, %2, %3", W(o, hb(mx(mx(L(a), L(b)), L(c))))) V(med3_f16, ALL, H, "v_med3" NUM "_f16 %0, %1, %2, %3", W(o, hb(md(L(a), L(b), L(c))))) V(maxmin_f16, RD, H, "v_maxmin" NUM "_f16 %0, %1, %2, %3", keep(o, hb(mn(mx(L(a), L(b)), L(c))))) V(minmax_f16, RD, H, "v_minmax" NUM "_f16 %0, %1, %2, %3", keep(o, hb(mx(mn(L(a), L(b)), L(c))))) V(minimum_f16, R4, H, "v_minimum_f16 %0, %1, %2", keep(o, hb(mn(L(a), L(b))))) V(maximum3_f16, R4, H, "v_maximum3_f16 %0, %1, %2, %3", keep(o, hb(mx(mx(L(a), L(b)), L(c))))) \
 V(ceil_f16, ALL, H, "v_ceil_f16 %0, %1", W(o, hb(ceil(L(a))))) V(trunc_f16, ALL, H, "v_trunc_f16 %0, %1", W(o, hb(trunc(L(a))))) V(rndne_f16, ALL, H, "v_rndne_f16 %0, %1", W(o, hb(rint(L(a))))) V(fract_f16, ALL, H, "v_fract_f16 %0, |%1|", W(o, hb(fabs(L(a)) - floor(fabs(L(a)))))) V(exp_f16, ALL, H, "v_exp_f16 %0, %1", W(o, hb(exp2(L(a))))) V(log_f16, ALL, H, "v_log_f16 %0, |%1|", W(o, hb(log2(fabs(L(a)))))) V(rcp_f16, ALL, H, "v_rcp_f16 %0, %1", W(o, hb(1 / L(a)))) V(rsq_f16, ALL, H, "v_rsq_f16 %0, |%1|", W(o, hb(1 / sqrt(fabs(L(a)))))) V(sqrt_f16, ALL, H, "v_sqrt_f16 %0, |%1|", W(o, hb(sqrt(fabs(L(a)))))) V(ldexp_f16, ALL, H, "v_ldexp_f16 %0, %1, 3", W(o, hb(L(a) * 8))) V(subrev_f16, ALL, H, "v_subrev_f16 %0, %1, %2", W(o, hb(L(b) - L(a)))) V(pack_f16, ALL, H, "v_pack_b32_f16 %0, %1, %2 op_sel:[1,0,0]", PK(a >> 16, b)) \
 V(cvt_pkrtz, CD, F, "v_cvt_pkrtz_f16_f32 %0, %1, %2", PK(rtz(F(a)), rtz(F(b)))) V(cvt_pk_rtz, RD, F, "v_cvt_pk_rtz_f16_f32 %0, %1, %2", PK(rtz(F(a)), rtz(F(b)))) V(cvt_f16_u16, ALL, I, "v_cvt_f16_u16 %0, %1", W(o, hb((double)(a & 0xffff)))) V(cvt_f16_i16, ALL, I, "v_cvt_f16_i16 %0, %1", W(o, hb((double)s16(a)))) V(cvt_u16_f16, ALL, H, "v_cvt_u16_f16 %0, |%1|", W(o, (u32)fabs(L(a)))) V(cvt_i16_f16, ALL, H, "v_cvt_i16_f16 %0, %1", W(o, (u32)(int)L(a))) V(cvt_u32_u16, RD, I, "v_cvt_u32_u16 %0, %1", a & 0xffff) V(cvt_i32_i16, RD, I, "v_cvt_i32_i16 %0, %1", (u32)s16(a)) \
 V(ub1, ALL, I, "v_cvt_f32_ubyte1 %0, %1", U(a >> 8 & 255)) V(ub2, ALL, I, "v_cvt_f32_ubyte2 %0, %1", U(a >> 16 & 255)) V(ub3, ALL, I, "v_cvt_f32_ubyte3 %0, %1", U(a >> 24)) V(pk_i16_i32, ALL, I, "v_cvt_pk_i16_i32 %0, %1, %2", PK(sat((i32)md((i64)(i32)a, (i64)-40000, (i64)40000)), sat((i32)md((i64)(i32)b, (i64)-40000, (i64)40000)))) V(pk_u16_u32, ALL, I, "v_cvt_pk_u16_u32 %0, %1, %2", PK(mn(a, 65535u), mn(b, 65535u))) V(pk_u8_f32, ALL, F, "v_cvt_pk_u8_f32 %0, |%1|, 2, %3", (c & ~0xff0000u) | (u32)rint(fabs(F(a))) << 16) V(cvt_nearest, RD, F, "v_cvt_nearest_i32_f32 %0, %1", (u32)(int)floor((double)F(a) + 0.5)) V(cvt_flr, CD, F, "v_cvt_flr_i32_f32 %0, %1", (u32)(int)floorf(F(a))) \
 V(pknorm_i16, CD, F, "v_cvt_pknorm_i16_f32 %0, %1, %2", PK((u32)(int)rint(md((double)F(a), -1.0, 1.0) * 32767), (u32)(int)rint(md((double)F(b), -1.0, 1.0) * 32767))) V(pknorm_u16, RD, F, "v_cvt_pk_norm_u16_f32 %0, %1, %2", PK((u32)rintf(md(F(a), 0.0f, 1.0f) * 65535), (u32)rintf(md(F(b), 0.0f, 1.0f) * 65535))) \
 V(med3_f32, ALL, F, "v_med3" NUM "_f32 %0, %1, -%2, %3", U(md(F(a), -F(b), F(c)))) V(minimum_f32, R4, F, "v_minimum_f32 %0, %1, %2", U(mn(F(a), F(b)))) V(maximum3_f32, R4, F, "v_maximum3_f32 %0, %1, %2, %3", U(mx(mx(F(a), F(b)), F(c)))) V(minimummaximum, R4, F, "v_minimummaximum_f32 %0, %1, %2, %3", U(mx(mn(F(a), F(b)), F(c)))) V(maxmin_f32, RD, F, "v_maxmin" NUM "_f32 %0, %1, %2, %3", U(mn(mx(F(a), F(b)), F(c)))) V(dx9, RD, F, "v_mul_dx9_zero_f32 %0, %1, %2", U(F(a) * F(b))) V(legacy, CD, F, "v_mul_legacy_f32 %0, %1, 0", U(0.0f)) V(rsq_f32, ALL, F, "v_rsq_f32 %0, |%1|", U((float)(1 / sqrt(fabs((double)F(a)))))) V(sin_f32, ALL, F, "v_sin_f32 %0, %1", U((float)sin((F(a) - rint((double)F(a))) * 6.28318530717958647693))) V(cos_f32, ALL, F, "v_cos_f32 %0, %1", U((float)cos((F(a) - rint((double)F(a))) * 6.28318530717958647693))) V(clampomod, ALL, F, "v_mul_f32 %0, %1, %2 clamp mul:4", U(md(F(a) * F(b) * 4, 0.0f, 1.0f))) V(div2, ALL, F, "v_add_f32 %0, %1, |%2| div:2", U((F(a) + fabsf(F(b))) * 0.5f)) \
 V(max3_i32, ALL, I, "v_max3_i32 %0, %1, %2, %3", mx(mx((i32)a, (i32)b), (i32)c)) V(min3_u32, ALL, I, "v_min3_u32 %0, %1, %2, %3", mn(mn(a, b), c)) V(med3_u32, ALL, I, "v_med3_u32 %0, %1, %2, %3", md(a, b, c)) V(med3_i32, ALL, I, "v_med3_i32 %0, %1, %2, %3", (u32)md((i32)a, (i32)b, (i32)c)) V(maxmin_u32, RD, I, "v_maxmin_u32 %0, %1, %2, %3", mn(mx(a, b), c)) V(minmax_i32, RD, I, "v_minmax_i32 %0, %1, %2, %3", (u32)mx(mn((i32)a, (i32)b), (i32)c)) V(min3_i16, ALL, I, "v_min3_i16 %0, %1, %2, %3", W(o, mn(mn(s16(a), s16(b)), s16(c)))) V(max3_u16, ALL, I, "v_max3_u16 %0, %1, %2, %3 op_sel:[1,0,0,0]", W(o, mx(mx(a >> 16, b & 0xffff), c & 0xffff))) V(med3_i16, ALL, I, "v_med3_i16 %0, %1, %2, %3", W(o, md(s16(a), s16(b), s16(c)))) V(mad_i16, ALL, I, "v_mad_i16 %0, %1, %2, %3", keep(o, a * b + c)) V(min_u16, ALL, I, "v_min_u16 %0, %1, %2", W(o, mn(a & 0xffff, b & 0xffff))) V(max_i16, ALL, I, "v_max_i16 %0, %1, %2", W(o, mx(s16(a), s16(b)))) \
 V(mad_u32_u16, ALL, I, "v_mad_u32_u16 %0, %1, %2, %3", (a & 0xffff) * (b & 0xffff) + c) V(mad_i32_i16, ALL, I, "v_mad_i32_i16 %0, %1, %2, %3 op_sel:[1,0,0]", (u32)(s16(a >> 16) * s16(b)) + c) V(mad_i24, ALL, I, "v_mad_i32_i24 %0, %1, %2, %3", (u32)((i64)((i32)(a << 8) >> 8) * ((i32)(b << 8) >> 8)) + c) V(mulhi_u24, ALL, I, "v_mul_hi_u32_u24 %0, %1, %2", (u32)((u64)(a & 0xffffff) * (b & 0xffffff) >> 32)) V(mulhi_i24, ALL, I, "v_mul_hi_i32_i24 %0, %1, %2", (u32)((i64)((i32)(a << 8) >> 8) * ((i32)(b << 8) >> 8) >> 32)) V(bfm, ALL, I, "v_bfm_b32 %0, %1, %2", ((1u << (a & 31)) - 1) << (b & 31)) V(sad_u16, ALL, I, "v_sad_u16 %0, %1, %2, %3", (u32)abs((int)(a & 0xffff) - (int)(b & 0xffff)) + (u32)abs((int)(a >> 16) - (int)(b >> 16)) + c) V(sad_u32, ALL, I, "v_sad_u32 %0, %1, %2, %3", (a > b ? a - b : b - a) + c) V(addclamp, CD, I, "v_add_u32 %0, %1, %2 clamp", a + b < a ? ~0u : a + b) V(and_b16, RD, I, "v_and_b16 %0, %1, %2", keep(o, a & b)) V(not_b16, RD, I, "v_not_b16 %0, %1", keep(o, ~a)) V(swap, ALL, I, "v_mov_b32 %0, %1\n\tv_mov_b32 v40, %2\n\tv_swap_b32 %0, v40\n\tv_lshl_add_u32 %0, %0, 1, v40", 2 * b + a) \
 V(dot2_bf16, RD, I, "v_dot2_f32_bf16 %0, 1.0, 1.0, 0", U(1.0f)) V(dot2_f16_f16, RD, H, "v_dot2_f16_f16 %0, %1, 1.0, 0", keep(o, hb(L(a)))) V(dot8_u32, ALL, I, "v_dot8_u32_u4 %0, %1, %2, %3", ({ u32 r = c; for (int i = 0; i < 32; i += 4) r += (a >> i & 15) * (b >> i & 15); r; })) V(dot2_u32, CD, I, "v_dot2_u32_u16 %0, %1, %2, %3", c + (a & 0xffff) * (b & 0xffff) + (a >> 16) * (b >> 16)) V(dot2_i32, CD, I, "v_dot2_i32_i16 %0, %1, %2, %3", c + (u32)(s16(a) * s16(b)) + (u32)(s16(a >> 16) * s16(b >> 16))) \
 S(nand, ALL, "s_nand_b32 %0, %1, %2", ~(a & b)) S(nor, ALL, "s_nor_b32 %0, %1, %2", ~(a | b)) S(xnor, ALL, "s_xnor_b32 %0, %1, %2", ~(a ^ b)) S(orn2, CD, "s_orn2_b32 %0, %1, %2", a | ~b) S(or_not1, RD, "s_or_not1_b32 %0, %1, %2", a | ~b) S(bfm_, ALL, "s_bfm_b32 %0, %1, %2", ((1u << (a & 31)) - 1) << (b & 31)) S(absdiff, ALL, "s_absdiff_i32 %0, %1, %2", (i32)a > (i32)b ? a - b : b - a) S(l1, ALL, "s_lshl1_add_u32 %0, %1, %2", (a << 1) + b) S(l4, ALL, "s_lshl4_add_u32 %0, %1, %2\n\ts_addc_u32 %0, %0, 0", (a << 4) + b + (((u64)a << 4) + b > 0xffffffffull)) S(ll, ALL, "s_pack_ll_b32_b16 %0, %1, %2", PK(a, b)) S(lh, ALL, "s_pack_lh_b32_b16 %0, %1, %2", (a & 0xffff) | (b & 0xffff0000)) S(hh, ALL, "s_pack_hh_b32_b16 %0, %1, %2", a >> 16 | (b & 0xffff0000)) S(bcnt0, ALL, "s_bcnt0_i32_b32 %0, %1", (u32)__builtin_popcount(~a)) S(quad, ALL, "s_quadmask_b32 %0, %1", ({ u32 r = 0; for (int i = 0; i < 8; i++) r |= (u32)((a >> 4 * i & 15) != 0) << i; r; })) S(wqm, ALL, "s_wqm_b32 %0, %1", ({ u32 r = 0; for (int i = 0; i < 8; i++) if (a >> 4 * i & 15) r |= 15u << 4 * i; r; })) \
 S(le_i, ALL, "s_cmp_le_i32 %1, %2\n\ts_cselect_b32 %0, 7, %1", (i32)a <= (i32)b ? 7 : a) S(shr, ALL, "s_lshr_b32 %0, %1, %2", a >> (b & 31)) S(sar, ALL, "s_ashr_i32 %0, %1, %2", (u32)((i32)a >> (b & 31))) S(shl, ALL, "s_lshl_b32 %0, %1, %2", a << (b & 31)) S(bfe, ALL, "s_bfe_u32 %0, %1, 0x90005", a >> 5 & 511) S(bfei, ALL, "s_bfe_i32 %0, %1, 0x9001c", (u32)((i32)a >> 28)) S(cmpk, CD, "s_mov_b32 %0, %1\n\ts_cmpk_lt_i32 %0, 0x1234\n\ts_cselect_b32 %0, 1, 0", (i32)a < 0x1234) S(cmpku, R3, "s_mov_b32 %0, %1\n\ts_cmpk_ge_u32 %0, 0xf234\n\ts_cselect_b32 %0, 1, 0", a >= 0xf234) S(cmov, ALL, "s_mov_b32 %0, %2\n\ts_cmp_lt_u32 %1, %2\n\ts_cmov_b32 %0, %1", a < b ? a : b) S(add_ov, ALL, "s_add_i32 %0, %1, %2\n\ts_cselect_b32 %0, 5, %0", (i64)(i32)a + (i32)b != (i32)(a + b) ? 5 : a + b) S(subb, ALL, "s_sub_u32 %0, %1, %2\n\ts_subb_u32 %0, %0, 3", a - b - 3 - (a < b)) S(mulhi, ALL, "s_mul_hi_i32 %0, %1, %2", (u32)((i64)(i32)a * (i32)b >> 32)) S(bitset, ALL, "s_mov_b32 %0, %1\n\ts_bitset1_b32 %0, %2\n\ts_bitset0_b32 %0, 3", (a | 1u << (b & 31)) & ~8u) S(bitcmp, ALL, "s_bitcmp1_b32 %1, %2\n\ts_cselect_b32 %0, 1, 2", a >> (b & 31) & 1 ? 1 : 2) S(cvtpk, R4, "s_cvt_pk_rtz_f16_f32 %0, 1.0, 0x40490fdb", 0x42483c00u) S(maxf, R4, "s_max_num_f32 %0, 2.0, 0.5\n\ts_minimum_f32 %0, %0, 1.0", U(1.0f)) S(fmac16, R4, "s_mov_b32 %0, 0x3c00\n\ts_fmac_f16 %0, 2.0, 4.0", 0x4880u) S(floor16, R4, "s_mov_b32 %0, 0xc180\n\ts_floor_f16 %0, %0", 0xc200u)
#define DEFV(n, G, kind, text, e) __global__ void v_##n(const u32 *a, const u32 *b, const u32 *c, u32 *o) { D_##G(int t = threadIdx.x; u32 r = o[t]; asm volatile(text : "+&v"(r) : "v"(a[t]), "v"(b[t]), "v"(c[t]) : "vcc", "v40"); o[t] = r;) } static u32 r_##n(u32 a, u32 b, u32 c, u32 o) { return (u32)(e); }
#define DEFS(n, G, text, e) __global__ void s_##n(const u32 *a, const u32 *b, const u32 *c, u32 *o) { D_##G(u32 r; int i = blockIdx.x; u32 x = __builtin_amdgcn_readfirstlane(a[i]), y = __builtin_amdgcn_readfirstlane(b[i]); asm volatile(text : "=&s"(r) : "s"(x), "s"(y) : "scc"); o[i] = r;) } static u32 q_##n(u32 a, u32 b) { return (u32)(e); }
TESTS(DEFV, DEFS)
typedef void (*Kern)(const u32 *, const u32 *, const u32 *, u32 *);
static std::vector<u32> make(char k, int n) {
  std::vector<u32> v(n);
  for (auto &x : v) { x = rng(); if (k == 'I' && rng() % 4 == 0) x >>= rng() & 31; if (k == 'H') { auto h = [] { return hb((double)((int)(rng() % 2047) - 1023 | 1) / 64.0 ); }; x = PK(h(), h()); } if (k == 'F') { float f = (float)((int)(rng() % 65535) - 32767 | 1) / 512.0f; memcpy(&x, &f, 4); } }
  return v;
}
int main() {
  hipDeviceProp_t p; CHECK(hipGetDeviceProperties(&p, 0)); std::string g = p.gcnArchName; g = g.substr(0, g.find(':')); gfx9 = g[3] == '9';
  bool CD = gfx9, C3 = g == "gfx942", RD = !gfx9, R3 = g == "gfx1100", R4 = g == "gfx1201", ALL = true; (void)C3; (void)R3;
  auto run = [&](const char *name, bool on, char kind, Kern k, auto ref, bool scalar) {
    if (!on) return;
    const int n = 256; auto a = make(kind, n), b = make(kind, n), c = make(kind, n), o = make(kind, n); Dev<u32> da(a), db(b), dc(c), d(o);
    k<<<dim3(scalar ? n : 1), dim3(scalar ? 64 : n), 0, 0>>>(da.p, db.p, dc.p, d.p); CHECK(hipGetLastError());
    auto r = d.get(); int bad = 0; char m[160] = "";
    for (int i = 0; i < n; i++) { u32 e = ref(a[i], b[i], c[i], o[i]); if (r[i] != e && !bad++) snprintf(m, sizeof m, "a=%08x b=%08x c=%08x old=%08x: got %08x want %08x", a[i], b[i], c[i], o[i], r[i], e); }
    if (bad) snprintf(m + strlen(m), sizeof m - strlen(m), " (%d bad)", bad);
    result(name, !bad, m);
  };
#define RUNV(n, G, kind, text, e) run(#n, G, #kind[0], v_##n, r_##n, false);
#define RUNS(n, G, text, e) run("s_" #n, G, 'I', s_##n, [](u32 a, u32 b, u32, u32) { return q_##n(a, b); }, true);
  TESTS(RUNV, RUNS)
  return finish("asm");
}
