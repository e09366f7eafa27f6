// SPDX-License-Identifier: MIT
// Number formats: f16, bf16, fp8/bf8.
#include "hipsim.h"
#include <math.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

float h2f(u16 h) {
  u32 s = (u32)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
  if (e == 31) return asf(s | 0x7f800000 | m << 13 | (m ? 0x400000 : 0));
  if (e == 0) {
    float f = (float)m * 0x1p-24f;
    return asf(asu(f) | s);
  }
  return asf(s | (e + 112) << 23 | m << 13);
}
static u16 pack_h(u32 u, bool rtz) {
  u32 s = u >> 16 & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000) return s | 0x7e00 | (a >> 13 & 0x3ff);
  if (a == 0x7f800000) return s | 0x7c00;
  if (a >= 0x47800000) return s | (rtz ? 0x7bff : 0x7c00);
  if (a < 0x33000000) return s;
  int e = a >> 23;
  u32 m = (a & 0x7fffff) | 0x800000;
  int sh = e >= 113 ? 13 : 126 - e; // bits dropped
  u32 q = m >> sh, rest = m & ((1u << sh) - 1), half = 1u << (sh - 1);
  if (!rtz && (rest > half || (rest == half && (q & 1)))) q++;
  return s | (e >= 113 ? ((e - 113) << 10) + q : q);
}
u16 f2h(float f) { return pack_h(asu(f), false); }
u16 f2h_rtz(float f) { return pack_h(asu(f), true); }
float bf2f(u16 b) { return asf((u32)b << 16); }
u16 f2bf(float f) {
  u32 u = asu(f);
  return (u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

void half2f_row(float *d, const u32 *s, int shift, int n) {
#ifdef __AVX512F__
  for (int l = 0; l < n; l += 16)
    _mm512_storeu_ps(d + l, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_loadu_si512(s + l), (unsigned)shift))));
#elif defined(__F16C__)
  for (int l = 0; l < n; l += 8) {
    __m256i x = _mm256_and_si256(_mm256_srli_epi32(_mm256_loadu_si256((const void *)(s + l)), shift), _mm256_set1_epi32(0xffff));
    __m128i p = _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    _mm256_storeu_ps(d + l, _mm256_cvtph_ps(p));
  }
#else
  for (int l = 0; l < n; l++) d[l] = h2f(s[l] >> shift & 0xffff);
#endif
}
void h2f_row(float *d, const u32 *s, int n) { half2f_row(d, s, 0, n); }
void f2h_row(u32 *d, const float *s, int n) {
#ifdef __AVX512F__
  for (int l = 0; l < n; l += 16)
    _mm512_storeu_si512(d + l, _mm512_cvtepu16_epi32(_mm512_cvtps_ph(_mm512_loadu_ps(s + l), _MM_FROUND_CUR_DIRECTION)));
#elif defined(__F16C__)
  for (int l = 0; l < n; l += 8)
    _mm256_storeu_si256((void *)(d + l), _mm256_cvtepu16_epi32(_mm256_cvtps_ph(_mm256_loadu_ps(s + l), _MM_FROUND_CUR_DIRECTION)));
#else
  for (int l = 0; l < n; l++) d[l] = f2h(s[l]);
#endif
}

// 8-bit floats: fp8 = e4m3, bf8 = e5m2; fnuz: the gfx942 flavour (bias one higher, no infinity, NaN = 0x80).
float fp8_to_f(u8 x, bool fnuz, bool bf8) {
  int mb = bf8 ? 2 : 3, bias = (bf8 ? 15 : 7) + fnuz, e = (x & 0x7f) >> mb, m = x & ((1 << mb) - 1);
  float sign = x & 0x80 ? -1.0f : 1.0f;
  if (fnuz) {
    if (x == 0x80) return NAN;
  } else if (bf8) {
    if (e == 31) return m ? NAN : sign * INFINITY;
  } else if ((x & 0x7f) == 0x7f) return NAN;
  return sign * (e ? ldexpf((float)(m | 1 << mb), e - bias - mb) : ldexpf((float)m, 1 - bias - mb));
}
u8 f_to_fp8(float f, bool fnuz, bool bf8, bool sr, u32 rnd) {
  int mb = bf8 ? 2 : 3, bias = (bf8 ? 15 : 7) + fnuz;
  u8 s = asu(f) >> 24 & 0x80, nan = fnuz ? 0x80 : s | 0x7f;
  float lim = fnuz ? (bf8 ? 57344.0f : 240.0f) : (bf8 ? 57344.0f : 448.0f);
  if (isnan(f)) return nan;
  float a = fabsf(f);
  u8 over = !fnuz && bf8 ? s | 0x7c : nan;
  if (isinf(f)) return over;
  if (a == 0) return fnuz ? 0 : s;
  int e;
  frexpf(a, &e);
  int lsb = (e - 1 < 1 - bias ? 1 - bias : e - 1) - mb; // exponent of the last kept bit
  double q = ldexp(a, -lsb), r;
  if (sr) r = floor(q + (double)(rnd >> 8) / 16777216.0);
  else {
    r = floor(q);
    double d = q - r;
    if (d > 0.5 || (d == 0.5 && fmod(r, 2) != 0)) r += 1;
  }
  if (ldexp(r, lsb) > lim) return over;
  if (r == 0) return fnuz ? 0 : s;
  u32 iv = (u32)r;
  int be = lsb + mb + bias;
  if (iv >= (2u << mb)) {
    iv >>= 1;
    be++;
  }
  return s | (iv < (1u << mb) ? iv : (u32)(be << mb) + (iv - (1u << mb)));
}
// p + c rounded to odd: a later rounding to a narrower format is then exact
double fma_odd(double p, double c) {
  double s = p + c, bb = s - p, err = (p - (s - bb)) + (c - bb);
  u64 u = asq(s);
  if (err != 0 && err == err && !(u & 1) && (u << 1) < 0xffe0000000000000ull) u += (err > 0) == !(u >> 63) ? 1 : -1;
  return asd(u);
}
