// SPDX-License-Identifier: MIT
// Lane loops and mask functions shared by the vector units.
#ifndef LANES_H
#define LANES_H
#include "hipsim.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif
#define LANES(...)                                                                                                                         \
  do {                                                                                                                                     \
    if (n == 64) {                                                                                                                         \
      for (int l = 0; l < 64; l++) { __VA_ARGS__ }                                                                                         \
    } else {                                                                                                                               \
      for (int l = 0; l < 32; l++) { __VA_ARGS__ }                                                                                         \
    }                                                                                                                                      \
  } while (0)
#define EACH(l, m) for (u64 m_##l = (m); m_##l && ((l) = __builtin_ctzll(m_##l), 1); m_##l &= m_##l - 1)

static inline void blend32(u32 *d, const u32 *s, u64 m, int n) {
#ifdef __AVX512F__
  for (int i = 0; i < n; i += 16) _mm512_mask_storeu_epi32(d + i, (__mmask16)(m >> i), _mm512_load_si512(s + i));
#elif defined(__AVX2__)
  if (m == (n == 64 ? ~0ull : 0xffffffffull)) {
    LANES(d[l] = s[l];);
    return;
  }
  __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  for (int i = 0; i < n; i += 8) {
    __m256i on = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)(m >> i)), bit), bit);
    __m256i *at = (__m256i *)(d + i);
    _mm256_storeu_si256(at, _mm256_blendv_epi8(_mm256_loadu_si256(at), _mm256_loadu_si256((const __m256i *)(s + i)), on));
  }
#else
  for (int h = 0; h < n; h += 32) {
    u32 b = m >> h;
    for (int l = 0; l < 32; l++) {
      u32 k = -(b >> l & 1);
      d[h + l] = (s[h + l] & k) | (d[h + l] & ~k);
    }
  }
#endif
}
static inline u64 pack_mask(const u32 *s, int n) { // nonzero lanes
  u64 m = 0;
#ifdef __AVX512F__
  for (int i = 0; i < n; i += 16) {
    __m512i x = _mm512_load_si512(s + i);
    m |= (u64)_mm512_test_epi32_mask(x, x) << i;
  }
#elif defined(__AVX2__)
  for (int i = 0; i < n; i += 8) {
    __m256i none = _mm256_cmpeq_epi32(_mm256_loadu_si256((const __m256i *)(s + i)), _mm256_setzero_si256());
    m |= (u64)(u8)~_mm256_movemask_ps(_mm256_castsi256_ps(none)) << i;
  }
#else
  for (int l = 0; l < n; l++) m |= (u64)(s[l] != 0) << l;
#endif
  return m;
}
// d = a b + c, rounded as the host is set: compilers leave loops of fmaf as they are under -frounding-math
static inline void fma_row(float *d, const float *a, const float *b, const float *c, int n) {
#ifdef __AVX512F__
  for (int l = 0; l < n; l += 16)
    _mm512_storeu_ps(d + l, _mm512_fmadd_ps(_mm512_loadu_ps(a + l), _mm512_loadu_ps(b + l), _mm512_loadu_ps(c + l)));
#elif defined(__FMA__)
  for (int l = 0; l < n; l += 8)
    _mm256_storeu_ps(d + l, _mm256_fmadd_ps(_mm256_loadu_ps(a + l), _mm256_loadu_ps(b + l), _mm256_loadu_ps(c + l)));
#else
  LANES(d[l] = __builtin_fmaf(a[l], b[l], c[l]););
#endif
}
static inline void unpack_mask(u32 *d, u64 m, int n) { // 1 in the lanes of m, 0 in the others
#ifdef __AVX512F__
  for (int i = 0; i < n; i += 16) _mm512_storeu_si512(d + i, _mm512_maskz_set1_epi32((__mmask16)(m >> i), 1));
#else
  LANES(d[l] = m >> l & 1;);
#endif
}
// Of the lanes of m, which are not none: the least and the greatest, and what bits any has
typedef struct {
  u64 lo, hi, any;
} Span;
static inline Span span64(const u64 *s, u64 m, int n) {
#ifdef __AVX512F__
  __m512i lo = _mm512_set1_epi64(-1), hi = _mm512_setzero_si512(), any = hi;
  for (int i = 0; i < n; i += 8) {
    const __mmask8 on = (__mmask8)(m >> i);
    const __m512i x = _mm512_maskz_loadu_epi64(on, s + i);
    lo = _mm512_mask_min_epu64(lo, on, lo, x);
    hi = _mm512_max_epu64(hi, x);
    any = _mm512_or_si512(any, x);
  }
  return (Span){_mm512_reduce_min_epu64(lo), _mm512_reduce_max_epu64(hi), (u64)_mm512_reduce_or_epi64(any)};
#else
  Span r = {~0ull, 0, 0};
  int l;
  (void)n;
  EACH(l, m) {
    r.lo = s[l] < r.lo ? s[l] : r.lo;
    r.hi = s[l] > r.hi ? s[l] : r.hi;
    r.any |= s[l];
  }
  return r;
#endif
}
static inline bool all_of(const u64 *s, u64 first, u64 step, u64 m, int n) { // lane l of m is first + step l
#ifdef __AVX512F__
  u64 eight[8];
  for (int l = 0; l < 8; l++) eight[l] = first + step * (u64)l;
  __m512i want = _mm512_loadu_si512(eight);
  __mmask8 differs = 0;
  for (int i = 0; i < n; i += 8) {
    differs |= _mm512_mask_cmpneq_epi64_mask((__mmask8)(m >> i), _mm512_loadu_si512(s + i), want);
    want = _mm512_add_epi64(want, _mm512_set1_epi64((i64)(8 * step)));
  }
  return !differs;
#else
  int l;
  (void)n;
  EACH(l, m) if (s[l] != first + step * (u64)l) return false;
  return true;
#endif
}
// d[l] = s[from[l]] in the lanes of m, 0 in the others
static inline void gather_lanes(u32 *d, const u32 *s, const u8 *from, u64 m, int n) {
#ifdef __AVX512F__
  // 32 lanes are two vectors, and of 64 the upper half another two
  const int up = n == 64 ? 32 : 0;
  const __m512i s0 = _mm512_loadu_si512(s), s1 = _mm512_loadu_si512(s + 16), s2 = _mm512_loadu_si512(s + up), s3 = _mm512_loadu_si512(s + up + 16);
  for (int i = 0; i < n; i += 16) {
    const __m512i at = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(from + i)));
    const __m512i low = _mm512_permutex2var_epi32(s0, at, s1), high = _mm512_permutex2var_epi32(s2, at, s3);
    _mm512_storeu_si512(d + i, _mm512_maskz_mov_epi32((__mmask16)(m >> i), _mm512_mask_mov_epi32(low, _mm512_test_epi32_mask(at, _mm512_set1_epi32(32)), high)));
  }
#else
  for (int l = 0; l < n; l++) d[l] = m >> l & 1 ? s[from[l]] : 0;
#endif
}
static inline void fill32(u32 *d, u32 x, int n) { LANES(d[l] = x;); }
static inline void fill64(u64 *d, u64 x, int n) { LANES(d[l] = x;); }
static inline void split64(u32 *lo, u32 *hi, const u64 *s, int n) { LANES(lo[l] = (u32)s[l]; hi[l] = s[l] >> 32;); }
static inline void join64(u64 *d, const u32 *lo, const u32 *hi, int n) { LANES(d[l] = lo[l] | (u64)hi[l] << 32;); }

// vector register row of operand o (register i of the group)
static inline u32 *vrow(Wave *w, const Operand *o, int i) { return w->v[o->reg + i]; }
const u32 *fetch_raw32(Wave *w, const Inst *in, const Operand *o, int i, int part, u32 *buf);
void store_rows(Wave *w, const Inst *in, const void *res, char type);
static inline u64 write_mask(const Wave *w, const Inst *in) { return wave_exec(w) & (in->dpp ? in->dpp->enable : ~0ull); }
u64 dpp_valid(const Wave *w, const Inst *in);
static inline u32 scalar_of(const Wave *w, const Operand *o) { return o->kind == O_CONST ? (u32)o->bits : w->s[o->reg]; }
static inline u64 scalar64_of(const Wave *w, const Operand *o) {
  return o->kind == O_CONST ? o->bits : o->nreg == 1 ? w->s[o->reg] : s64(w, o->reg);
}
#endif
