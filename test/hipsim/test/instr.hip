// SPDX-License-Identifier: MIT
// The same functions run on the device and on the host; results must agree bit for bit (X) or within a
// relative error (M, for math library functions). Each runs twice: one work-item per value (vector unit), and one
// workgroup per value with uniform operands (scalar unit).
#include "common.h"
#include <string>
typedef _Float16 h2 __attribute__((ext_vector_type(2)));
typedef short s2 __attribute__((ext_vector_type(2)));
typedef unsigned short us2 __attribute__((ext_vector_type(2)));
typedef float f2v __attribute__((ext_vector_type(2)));
typedef unsigned u32; typedef int i32; typedef unsigned long long u64; typedef long long i64;
typedef unsigned short u16t; typedef short i16t;
struct In { u32 u, v, w; float a, b, c; double x, y, z; _Float16 h, g, k; u16t s, t; u64 p, q; float m, n; };
#define HD __host__ __device__ static
HD u32 bits(float f) { u32 u; memcpy(&u, &f, 4); return u; }
HD float flt(u32 u) { float f; memcpy(&f, &u, 4); return f; }
HD u32 hbits(h2 f) { u32 u; memcpy(&u, &f, 4); return u; }
HD h2 mkh(u32 u) { h2 f; memcpy(&f, &u, 4); return f; }
HD s2 mks(u32 u) { s2 f; memcpy(&f, &u, 4); return f; }
HD us2 mkus(u32 u) { us2 f; memcpy(&f, &u, 4); return f; }
HD u32 frs(s2 f) { u32 u; memcpy(&u, &f, 4); return u; }
HD u32 frus(us2 f) { u32 u; memcpy(&u, &f, 4); return u; }
HD u16t rawh(_Float16 f) { u16t u; memcpy(&u, &f, 2); return u; }
HD bool hn(_Float16 f) { return f != f; }
__host__ __device__ __attribute__((noinline)) static float callee(float a, int n) { float r = a; for (int i = 0; i < n; i++) r = r * 1.25f + a; return r; }
__host__ __device__ __attribute__((noinline)) static u64 callee2(u64 a, u32 b) { return a * 31 + b; }
HD u32 sw(u32 x) { switch (x % 11) { case 0: return x + 1; case 1: return x * 3; case 2: return x ^ 77; case 3: return x >> 3; case 4: return ~x; case 5: return x - 9; case 6: return x | 5; case 7: return x & 0xff0ff; case 8: return x << 3; case 9: return x * x; default: return 0; } }
HD u32 table(u32 i) { static const u32 t[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3}; return t[i & 15]; }
HD u32 localarr(u32 a, u32 b) { u32 t[24]; for (int i = 0; i < 24; i++) t[i] = a * i + b; for (int i = 0; i < 40; i++) { u32 j = (a >> (i & 15)) % 24, k = (b + i * 7) % 24; t[j] += t[k] ^ i; } u32 s = 0; for (int i = 0; i < 24; i++) s = s * 33 + t[i]; return s; }
HD u32 vecidx(u32 a, u32 b) { typedef u32 v8 __attribute__((ext_vector_type(8))); v8 x = {a, b, a + b, a ^ b, a * 3, b * 5, ~a, ~b}; x[a & 7] += 17; return x[b & 7] + x[(a >> 3) & 7]; }
HD u64 bytearr(u32 a) { unsigned char t[16]; for (int i = 0; i < 16; i++) t[i] = a >> (i & 15); short *s = (short *)t; u64 r = 0; for (int i = 0; i < 8; i++) r = r * 7 + (u16t)s[(a + i) & 7]; return r + t[a & 15]; }
HD float loopf(float a, u32 n) { float s = 0; for (u32 i = 0; i < (n & 31); i++) { if (i & 1) s += a; else s -= a * 0.5f; if (s > 100) break; } return s; }
HD u32 crc(u32 a) { u32 c = ~a; for (int i = 0; i < 32; i++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1; return c; }
HD float cvt_sat(float a) { return fminf(fmaxf(a, -1e9f), 1e9f); }
HD u16t bfr(float f) { u32 u = bits(f); return (u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16; }

#define ALL(X, M) \
 X(addf, float, i.a + i.b) X(subf, float, i.a - i.b) X(mulf, float, i.a * i.b) X(divf, float, i.a / i.b) X(fmaf_, float, __builtin_fmaf(i.a, i.b, i.c)) X(fnma, float, __builtin_fmaf(-i.a, i.b, i.c)) X(fma_abs, float, __builtin_fmaf(__builtin_fabsf(i.a), i.b, -__builtin_fabsf(i.c))) \
 X(rcpdiv, float, 1.0f / i.b) X(divc, float, i.a / 3.0f) X(sqrtf_, float, __builtin_sqrtf(__builtin_fabsf(i.a))) X(minf, float, i.a < i.b ? i.a : i.b) X(maxf, float, i.a > i.b ? i.a : i.b) X(fminf_, float, i.m < i.n ? fminf(i.m, i.n) : fminf(i.n, 2.0f)) X(fmaxf_, float, fmaxf(i.m, i.n)) \
 X(med3f, float, fmaxf(fminf(i.m, 2.0f), -3.0f)) X(min3f, float, fminf(fminf(i.m, i.n), 0.25f)) X(max3f, float, fmaxf(fmaxf(i.m, i.n), 0.25f)) X(clampf, float, fminf(fmaxf(i.m, 0.0f), 1.0f)) X(omod2, float, (i.m + i.n) * 2.0f) X(omodh, float, (i.m * i.n) * 0.5f) \
 X(floorf_, float, __builtin_floorf(i.a)) X(ceilf_, float, __builtin_ceilf(i.a)) X(truncf_, float, __builtin_truncf(i.a)) X(rintf_, float, __builtin_rintf(i.a)) X(roundf_, float, roundf(i.a)) X(fabsneg, float, -__builtin_fabsf(i.a)) X(copysign_, float, __builtin_copysignf(i.a, i.b)) X(fractf, float, i.m - __builtin_floorf(i.m)) \
 X(ldexp_, float, ldexpf(i.a, (int)(i.u % 300) - 150)) X(frexpm, float, ({ int e; float r = frexpf(i.m, &e); r + e; })) X(ilogb_, int, i.m == 0 ? 0 : ilogbf(i.m)) X(fmodf_, float, fmodf(i.m, i.n)) X(modff_, float, ({ float w; float r = modff(i.m, &w); r * 4 + w; })) X(remf, float, remainderf(i.m, i.n)) \
 X(cmpf, u32, (i.a < i.b) | (i.a <= i.b) << 1 | (i.a == i.b) << 2 | (i.a != i.b) << 3 | (i.a > i.b) << 4 | (i.a >= i.b) << 5 | __builtin_isunordered(i.a, i.b) << 6 | __builtin_islessgreater(i.a, i.b) << 7 | !(i.a < i.c) << 8 | !(i.a >= i.c) << 9) \
 X(classf, u32, __builtin_isnan(i.a) | __builtin_isinf(i.a) << 1 | (__builtin_isfinite(i.a) != 0) << 2 | (__builtin_isnormal(i.a) != 0) << 3 | (__builtin_signbit(i.a) != 0) << 4) \
 X(cvt_i, int, (int)cvt_sat(i.m)) X(cvt_u, u32, (u32)fabsf(cvt_sat(i.m))) X(cvt_fi, float, (float)(i32)i.u) X(cvt_fu, float, (float)i.u) X(cvt_f64, float, (float)(i64)i.p) X(cvt_fu64, float, (float)i.p) X(cvt_i64, i64, (i64)cvt_sat(i.m)) X(cvt_ub, float, (float)(i.u & 255) + (float)(i.u >> 8 & 255) * 2 + (float)(i.u >> 16 & 255) * 3 + (float)(i.u >> 24) * 4) \
 X(cvt_hf, u16t, rawh((_Float16)(i.m))) X(cvt_fh, float, hn(i.h) ? 0.0f : (float)i.h) X(cvt_df, double, (double)i.a) X(cvt_fd, float, (float)i.x) X(cvt_di, double, (double)(i32)i.u) X(cvt_du, double, (double)i.u) X(cvt_id, int, (int)(i.y * 1000)) X(cvt_dl, double, (double)(i64)i.p) X(cvt_dul, double, (double)i.p) X(cvt_ld, i64, (i64)(i.y * 1e6)) X(bfcvt, u16t, bfr(i.a)) \
 X(addd, double, i.x + i.y) X(muld, double, i.x * i.y) X(fmad, double, __builtin_fma(i.x, i.y, i.z)) X(divd, double, i.x / i.y) X(sqrtd, double, __builtin_sqrt(__builtin_fabs(i.x))) X(mind, double, fmin(i.y, i.z)) X(maxd, double, fmax(i.y, i.z)) X(floord, double, __builtin_floor(i.y * 100)) X(rintd, double, __builtin_rint(i.y * 100)) X(truncd, double, __builtin_trunc(i.y * 100)) X(ceild, double, __builtin_ceil(i.y * 100)) X(cmpd, u32, (i.x < i.y) | (i.x == i.y) << 1 | (i.x > i.y) << 2 | __builtin_isunordered(i.x, i.y) << 3) X(ldexpd, double, ldexp(i.y, (int)(i.u % 100) - 50)) \
 X(addu, u32, i.u + i.v) X(subu, u32, i.u - i.v) X(mulu, u32, i.u * i.v) X(mulhi, u32, (u32)((u64)i.u * i.v >> 32)) X(mulhis, i32, (i32)((i64)(i32)i.u * (i32)i.v >> 32)) X(mul24, u32, (i.u & 0xffffff) * (i.v & 0xffffff)) X(mad24, u32, (i.u & 0xffff) * (i.v & 0xffff) + i.w) X(muls24, i32, ((i32)(i.u << 8) >> 8) * ((i32)(i.v << 8) >> 8)) \
 X(divu, u32, i.u / (i.v | 1)) X(modu, u32, i.u % (i.v >> 12 | 1)) X(divs, i32, (i32)i.u / ((i32)i.v >> 8 | 1)) X(mods, i32, (i32)i.u % ((i32)i.v >> 20 | 1)) X(div7, u32, i.u / 7) X(div64, u64, i.p / (i.q >> 20 | 1)) X(mod64, u64, i.p % (i.q >> 30 | 1)) X(divs64, i64, (i64)i.p / ((i64)i.q >> 33 | 1)) X(mul64, u64, i.p * i.q) X(mulhi64, u64, (u64)((unsigned __int128)i.p * i.q >> 64)) X(add64, u64, i.p + i.q) X(sub64, u64, i.p - i.q) X(mad64, u64, (u64)i.u * i.v + i.p) X(mads64, i64, (i64)(i32)i.u * (i32)i.v + (i64)i.p) \
 X(add128, u64, (u64)((((unsigned __int128)i.q << 64 | i.p) + ((unsigned __int128)i.p << 64 | i.q)) >> 64)) X(sub128, u64, (u64)((((unsigned __int128)i.q << 64 | i.p) - ((unsigned __int128)i.p << 64 | i.q)) >> 64)) X(shl, u32, i.u << (i.v & 31)) X(shr, u32, i.u >> (i.v & 31)) X(sar, i32, (i32)i.u >> (i.v & 31)) X(shl64, u64, i.p << (i.v & 63)) X(shr64, u64, i.p >> (i.v & 63)) X(sar64, i64, (i64)i.p >> (i.v & 63)) X(andor, u32, (i.u & i.v) | i.w) X(or3, u32, i.u | i.v | i.w) X(xor3, u32, i.u ^ i.v ^ i.w) X(xnor, u32, ~(i.u ^ i.v)) X(bfi, u32, (i.u & i.v) | (~i.u & i.w)) X(bfe, u32, i.u >> 7 & 0x1ff) X(bfes, i32, (i32)(i.u << 9) >> 20) X(lshladd, u32, (i.u << 3) + i.v) X(addlshl, u32, (i.u + i.v) << 5) X(lshlor, u32, (i.u << 4) | i.v) X(add3, u32, i.u + i.v + i.w) X(xad, u32, (i.u ^ i.v) + i.w) \
 X(rotl, u32, __builtin_rotateleft32(i.u, i.v & 31)) X(rotr, u32, __builtin_rotateright32(i.u, 11)) X(fsh, u32, (u32)(((u64)i.u << 32 | i.v) >> (i.w & 31))) X(bswap, u32, __builtin_bswap32(i.u)) X(bswap64, u64, __builtin_bswap64(i.p)) X(brev, u32, __builtin_bitreverse32(i.u)) X(brev64, u64, __builtin_bitreverse64(i.p)) X(clz, u32, i.s ? __builtin_clz(i.s) : 77) X(ctz, u32, i.s ? __builtin_ctz((u32)i.s << 3) : 77) X(clz64, u32, i.p ? __builtin_clzll(i.p) : 0) X(ctz64, u32, i.p ? __builtin_ctzll(i.p << 5) : 0) X(popc, u32, __builtin_popcount(i.u)) X(popc64, u32, __builtin_popcountll(i.p)) X(ffs_, u32, __builtin_ffs(i.u)) X(clrsb, u32, __builtin_clrsb((i32)i.u >> (i.v & 31))) \
 X(mini, i32, (i32)i.u < (i32)i.v ? (i32)i.u : (i32)i.v) X(maxi, i32, (i32)i.u > (i32)i.v ? (i32)i.u : (i32)i.v) X(minu, u32, i.u < i.v ? i.u : i.v) X(maxu, u32, i.u > i.v ? i.u : i.v) X(med3i, i32, ({ i32 t = (i32)i.u < 1000 ? (i32)i.u : 1000; t > -50 ? t : -50; })) X(min3i, i32, ({ i32 t = (i32)i.u < (i32)i.v ? (i32)i.u : (i32)i.v; t < (i32)i.w ? t : (i32)i.w; })) X(max3u, u32, ({ u32 t = i.u > i.v ? i.u : i.v; t > i.w ? t : i.w; })) X(min64, i64, (i64)i.p < (i64)i.q ? (i64)i.p : (i64)i.q) X(abs_, i32, (i32)i.u < 0 ? -i.u : i.u) X(uaddsat, u32, __builtin_elementwise_add_sat(i.u, i.v)) X(usubsat, u32, __builtin_elementwise_sub_sat(i.u, i.v)) X(saddsat, i32, __builtin_elementwise_add_sat((i32)i.u, (i32)i.v)) X(ssubsat, i32, __builtin_elementwise_sub_sat((i32)i.u, (i32)i.v)) \
 X(cmpi, u32, (i.u < i.v) | ((i32)i.u < (i32)i.v) << 1 | (i.u == i.v) << 2 | (i.u >= i.w) << 3 | ((i32)i.u >= (i32)i.w) << 4 | (i.p < i.q) << 5 | ((i64)i.p < (i64)i.q) << 6 | (i.p == i.q) << 7 | ((i64)i.p >= (i64)i.q) << 8) X(sel, u32, i.u > i.v ? i.w : i.u * 3) X(sel64, u64, i.u > i.v ? i.p : i.q) X(cmp16, u32, (i.s < i.t) | ((i16t)i.s < (i16t)i.t) << 1 | (i.s == i.t) << 2 | ((i16t)i.s >= (i16t)i.t) << 3) \
 X(add16, u16t, (u16t)(i.s + i.t)) X(mul16, u16t, (u16t)(i.s * i.t)) X(mad16, u16t, (u16t)(i.s * i.t + (u16t)i.u)) X(shl16, u16t, (u16t)(i.s << (i.t & 15))) X(shr16, u16t, (u16t)(i.s >> (i.t & 15))) X(sar16, i16t, (i16t)((i16t)i.s >> (i.t & 15))) X(min16, i16t, (i16t)i.s < (i16t)i.t ? (i16t)i.s : (i16t)i.t) X(maxu16, u16t, i.s > i.t ? i.s : i.t) X(byte, u32, (unsigned char)(i.u + i.v)) X(sext8, i32, (signed char)i.u) X(sext16, i32, (i16t)i.u) X(mad16w, u32, (u32)i.s * i.t + i.w) \
 X(addh, u16t, ({ _Float16 r = i.h + i.g; hn(r) ? (u16t)0 : rawh(r); })) X(mulh, u16t, ({ _Float16 r = i.h * i.g; hn(r) ? (u16t)0 : rawh(r); })) X(subh, u16t, ({ _Float16 r = i.h - i.g; hn(r) ? (u16t)0 : rawh(r); })) X(divh, u16t, ({ _Float16 r = i.h / i.g; hn(r) ? (u16t)0 : rawh(r); })) X(cmph, u32, (i.h < i.g) | (i.h == i.g) << 1 | (i.h > i.g) << 2 | !(i.h >= i.g) << 3) X(floorh, u16t, ({ _Float16 r = (_Float16)__builtin_floorf((float)i.h); hn(r) ? (u16t)0 : rawh(r); })) X(hi_, int, (int)(hn(i.h) || __builtin_isinf((float)i.h) ? (_Float16)1 : i.h)) X(ih, u16t, rawh((_Float16)(i16t)i.s)) X(negh, u16t, ({ _Float16 r = -i.h * i.g; hn(r) ? (u16t)0 : rawh(r); })) \
 X(mixf, float, hn(i.h) ? 0.0f : __builtin_fmaf((float)i.h, i.m, (float)i.k)) X(mixh, u16t, ({ _Float16 r = (_Float16)__builtin_fmaf((float)i.h, i.m, i.n); hn(r) ? (u16t)0 : rawh(r); })) \
 X(pkadd, u32, ({ h2 r = mkh(i.u & 0x7bff7bff) + mkh(i.v & 0xfbfffbff); hbits(r); })) X(pkmul, u32, ({ h2 r = mkh(i.u & 0x3bff3bff) * mkh(i.v & 0xbbffbbff); hbits(r); })) X(pksub, u32, ({ h2 r = mkh(i.u & 0x3bff3bff) - mkh(i.v & 0xbbffbbff).yx; hbits(r); })) X(pkc, u32, ({ h2 r = mkh(i.u & 0x3bff3bff) * (_Float16)0.5f + (_Float16)1.0f; hbits(r); })) \
 X(pkaddi, u32, frs(mks(i.u) + mks(i.v))) X(pkmuli, u32, frus(mkus(i.u) * mkus(i.v))) X(pkshl, u32, frus(mkus(i.u) << (mkus(i.v) & (us2){15, 15}))) X(pkshr, u32, frus(mkus(i.u) >> (mkus(i.v) & (us2){15, 15}))) X(pksar, u32, frs(mks(i.u) >> (mks(i.v) & (s2){15, 15}))) X(pkmax, u32, frs(__builtin_elementwise_max(mks(i.u), mks(i.v)))) X(pkminu, u32, frus(__builtin_elementwise_min(mkus(i.u), mkus(i.v)))) X(pkmad, u32, frus(mkus(i.u) * mkus(i.v) + mkus(i.w))) X(pksat, u32, frus(__builtin_elementwise_add_sat(mkus(i.u), mkus(i.v)))) X(pkneg, u32, frs(-mks(i.u))) \
 X(pkf32, u64, ({ f2v r = (f2v){i.m, i.n} * (f2v){i.b, i.c} + (f2v){i.n, i.m}; u64 o; if (r.x != r.x) r.x = 0; if (r.y != r.y) r.y = 0; memcpy(&o, &r, 8); o; })) X(pkfma32, u64, ({ f2v r = __builtin_elementwise_fma((f2v){i.m, i.n}, (f2v){2.5f, 2.5f}, (f2v){i.n, i.m}); u64 o; memcpy(&o, &r, 8); o; })) \
 X(sw_, u32, sw(i.u)) X(table_, u32, table(i.u) + table(i.v >> 4) * 16) X(localarr_, u32, localarr(i.u, i.v)) X(vecidx_, u32, vecidx(i.u, i.v)) X(bytearr_, u64, bytearr(i.u)) X(loopf_, float, loopf(i.m, i.u)) X(crc_, u32, crc(i.u)) X(call_, float, callee(i.m, i.u & 7)) X(call2_, u64, callee2(i.p, i.u) ^ callee2(i.q, i.v)) \
 M(expf_, float, expf(i.m), 2e-7) M(exp2f_, float, exp2f(i.m), 2e-7) M(logf_, float, logf(fabsf(i.m)), 3e-7) M(log2f_, float, log2f(fabsf(i.m)), 3e-7) M(log10f_, float, log10f(fabsf(i.m)), 3e-7) M(sinf_, float, sinf(i.m), 4e-7) M(cosf_, float, cosf(i.m), 4e-7) M(sinbig, float, sinf(i.m * 1e6f), 4e-7) M(tanf_, float, tanf(i.m), 6e-7) M(powf_, float, powf(fabsf(i.m), i.n * 0.1f), 1e-6) M(erff_, float, erff(i.m), 4e-7) M(erfcf_, float, erfcf(i.m * 0.1f), 2e-6) M(tanhf_, float, tanhf(i.m), 4e-7) M(atanf_, float, atanf(i.m), 4e-7) M(atan2f_, float, atan2f(i.m, i.n), 6e-7) M(asinf_, float, asinf(fminf(fabsf(i.m), 1.0f)), 4e-7) M(sinhf_, float, sinhf(i.m), 4e-7) M(cbrtf_, float, cbrtf(i.m), 4e-7) M(rsqrtf_, float, 1.0f / sqrtf(fabsf(i.m)), 4e-7) M(hypotf_, float, hypotf(i.m, i.n), 4e-7) M(expm1f_, float, expm1f(i.m), 4e-7) M(log1pf_, float, log1pf(fabsf(i.m)), 4e-7) M(lgammaf_, float, lgammaf(fabsf(i.m) + 3), 2e-6) \
 M(exp_, double, exp(i.y), 1e-15) M(log_, double, log(fabs(i.y)), 1e-15) M(sin_, double, sin(i.y), 1e-15) M(sinbigd, double, sin(i.y * 1e14), 1e-15) M(pow_, double, pow(fabs(i.y), i.z), 1e-14) M(tanh_, double, tanh(i.y), 1e-15) M(erf_, double, erf(i.y), 1e-15)
#define DEFX(name, type, e) HD type f_##name(const In &i) { return e; } __global__ void k_##name(const In *in, type *out, int n) { int j = blockIdx.x * blockDim.x + threadIdx.x; if (j < n) out[j] = f_##name(in[j]); } \
  __global__ void u_##name(const In *__restrict__ in, type *__restrict__ out) { type r = f_##name(in[blockIdx.x]); if (threadIdx.x == 0) out[blockIdx.x] = r; }
#define DEFM(name, type, e, tol) DEFX(name, type, e)
ALL(DEFX, DEFM)

static std::vector<In> make(int n) {
  static const u32 sp[] = {0, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 1, 0x807fffff, 0x00800000, 0x7f7fffff, 0x3f800000, 0xbf800000, 0x3f000000, 0x4b000001, 0x3effffff, 0x7e800000, 0x00400000, 0x7f000001, 0x01000000};
  const int ns = sizeof sp / sizeof *sp;
  std::vector<In> r(n);
  for (int j = 0; j < n; j++) {
    In &i = r[j]; memset(&i, 0, sizeof i);
    i.u = rng(); i.v = rng(); i.w = rng(); i.p = rng(); i.q = rng(); i.s = rng(); i.t = rng();
    if (j % 7 == 0) i.v = i.u; if (j % 13 == 0) i.u >>= rng() & 31; if (j % 11 == 0) i.p >>= rng() & 63; if (j % 17 == 0) i.q = i.p; if (j % 3 == 0) i.p |= 0xffffffffull << (rng() & 32); if (j % 4 == 0) i.q |= 0xffffffffull << (rng() & 32); if (j % 23 == 0) i.p = ~0ull;
    auto rf = [&](int k) { return j < ns * ns && k < 2 ? flt(sp[k ? j / ns : j % ns]) : rng() % 5 ? flt((u32)rng()) : ldexpf((float)(i32)rng(), (int)(rng() % 60) - 60); };
    i.a = rf(0); i.b = rf(1); i.c = rf(2);
    i.m = ldexpf((float)(i32)rng(), -31 + (int)(rng() % 6)); i.n = ldexpf((float)(i32)rng(), -31 + (int)(rng() % 6));
    if (i.m == 0) i.m = 1; if (i.n == 0) i.n = 1;
    i.x = rng() % 3 ? (double)i.a * i.m : ldexp((double)(i64)rng(), (int)(rng() % 200) - 160); i.y = ldexp((double)(i64)rng(), -63 + (int)(rng() % 6)); i.z = ldexp((double)(i64)rng(), -63 + (int)(rng() % 4));
    u16t hb = rng(), gb = rng(), kb = rng() & 0xbfff; memcpy(&i.h, &hb, 2); memcpy(&i.g, &gb, 2); memcpy(&i.k, &kb, 2);
  }
  return r;
}
template <class T, class K, class U, class F> void run(const char *name, K k, U u, F f, const std::vector<In> &in, const Dev<In> &din, double tol) {
  int n = in.size(); Dev<T> out(n);
  k<<<dim3((n + 255) / 256), dim3(256), 0, 0>>>(din.p, out.p, n);
  CHECK(hipGetLastError());
  for (int pass = 0; pass < 2; pass++) {
  if (pass) { n = n < 300 ? n : 300; u<<<dim3(n), dim3(64), 0, 0>>>(din.p, out.p); CHECK(hipGetLastError()); }
  auto o = out.get(); int bad = 0; char d[400] = "";
  for (int j = 0; j < n; j++) {
    T e = f(in[j]); bool ok = same(o[j], e);
    if (!ok && tol > 0) { double x = (double)o[j], y = (double)e; ok = fabs(x - y) <= tol * fabs(y) + tol * 1e-2 || (x != x && y != y); }
    if (!ok && !bad++) { unsigned long long a = 0, b = 0; memcpy(&a, &o[j], sizeof(T)); memcpy(&b, &e, sizeof(T)); snprintf(d, sizeof d, "item %d: got %llx (%g) want %llx (%g)  u=%x v=%x a=%08x b=%08x c=%08x m=%g n=%g y=%g", j, a, (double)o[j], b, (double)e, in[j].u, in[j].v, bits(in[j].a), bits(in[j].b), bits(in[j].c), in[j].m, in[j].n, in[j].y); }
  }
  if (bad) snprintf(d + strlen(d), sizeof d - strlen(d), "  (%d bad)", bad);
  result((std::string(name) + (pass ? " uniform" : "")).c_str(), !bad, d);
  }
}
int main(int argc, char **argv) {
  auto in = make(argc > 1 ? atoi(argv[1]) : 2048); Dev<In> din(in);
#define RUNX(name, type, e) run<type>(#name, k_##name, u_##name, f_##name, in, din, 0);
#define RUNM(name, type, e, tol) run<type>(#name, k_##name, u_##name, f_##name, in, din, tol);
  ALL(RUNX, RUNM)
  return finish("instr");
}
