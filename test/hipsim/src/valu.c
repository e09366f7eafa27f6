// SPDX-License-Identifier: MIT
// Vector ALU. Every operation is a row of the table at the end: name, operand types, lane kernel.
// Types (destination:sources)
//   f f32   h f16 (lanes hold it as float)   b bf16 (as float)   d f64
//   u 32-bit word   q 64-bit word (literal zero-extended)   l 64-bit word (literal sign-extended)
//   w 16-bit word zero-extended   s 16-bit word sign-extended   m lane mask in scalar registers
// an upper case source type is the destination register itself (v_fmac and friends).
#include "lanes.h"
#include <math.h>
#include <fenv.h>
#include <stdlib.h>
#include <ctype.h>
#include <immintrin.h>

// ---------------------------------------------------------------- operand fetch
static inline u64 all_lanes(int n) { return ~0ull >> (64 - n); }
u64 dpp_valid(const Wave *w, const Inst *in) {
  const Dpp *p = in->dpp;
  u64 ex = wave_exec(w), all = all_lanes(w->n), v = 0;
  if (p->fi || ex == all) return p->valid & all;
  for (int l = 0; l < w->n; l++) v |= (u64)((p->valid >> l & 1) && (ex >> p->src[l] & 1)) << l;
  return v;
}
// 32 raw bits per lane of register `part` of source i; DPP and SDWA selection applied
const u32 *fetch_raw32(Wave *w, const Inst *in, const Operand *o, int i, int part, u32 *buf) {
  int n = w->n;
  if (o->kind == O_CONST) {
    fill32(buf, part ? o->bits >> 32 : (u32)o->bits, n);
    if (!in->sdwa) return buf;
  } else if (o->kind == O_SGPR) {
    fill32(buf, o->reg == S_NULL ? 0 : w->s[o->reg + part], n);
    if (!in->sdwa) return buf;
  }
  const u32 *r = o->kind == O_VGPR ? w->v[o->reg + part] : buf;
  if (in->dpp && i == 0 && o->kind == O_VGPR) {
    gather_lanes(buf, r, in->dpp->src, dpp_valid(w, in), n);
    r = buf;
  }
  if (in->sdwa && i < 2) {
    int s = in->sdwa->sel[i + 1];
    if (s != 6 || o->sext) {
      int sh = s < 4 ? s * 8 : s < 6 ? (s - 4) * 16 : 0, bits = s < 4 ? 8 : s < 6 ? 16 : 32;
      int up = 32 - bits;
      if (o->sext) LANES(buf[l] = (u32)((i32)(r[l] >> sh << up) >> up););
      else LANES(buf[l] = r[l] >> sh << up >> up;);
      r = buf;
    }
  }
  return r;
}
static const u64 *fetch_raw64(Wave *w, const Inst *in, const Operand *o, int i, u64 *buf) {
  int n = w->n;
  if (o->kind == O_CONST) {
    fill64(buf, o->bits, n);
    return buf;
  }
  if (o->kind == O_SGPR) {
    fill64(buf, o->reg == S_NULL ? 0 : s64(w, o->reg), n);
    return buf;
  }
  if (in->dpp && i == 0) {
    u32 a[MAXLANE], b[MAXLANE];
    join64(buf, fetch_raw32(w, in, o, 0, 0, a), fetch_raw32(w, in, o, 0, 1, b), n);
  } else join64(buf, w->v[o->reg], w->v[o->reg + 1], n);
  return buf;
}
static void flush_f32(u32 *b, int n) { LANES(b[l] = (b[l] & 0x7f800000) ? b[l] : b[l] & 0x80000000;); }

// Source i converted to its type; returns buf or the register row itself. What needs no work source() has found before.
static const void *fetch(Wave *w, const Inst *in, int i, void *buf) {
  const Operand *o = &in->src[i];
  char t = in->types[i];
  int n = w->n;
  u32 *b = buf;
  switch (t) {
    case 'u':
    case 'i':
    case 'f': {
      const u32 *r = fetch_raw32(w, in, o, i, 0, b);
      if (o->neg || o->abs) {
        u32 am = o->abs ? 0x7fffffff : ~0u, nm = o->neg ? 0x80000000 : 0;
        LANES(b[l] = (r[l] & am) ^ nm;);
        r = b;
      }
      if (t == 'f' && !(w->mode & 0x10)) {
        if (r != b) memcpy(b, r, n * 4);
        flush_f32(b, n);
        r = b;
      }
      return r;
    }
    case 'h':
    case 'b': {
      const u32 *r = fetch_raw32(w, in, o, i, 0, b);
      u32 sh = in->op_sel >> i & 1 ? 16 : 0, am = o->abs ? 0x7fff : 0xffff, nm = o->neg ? 0x8000 : 0;
      LANES(b[l] = ((r[l] >> sh) & am) ^ nm;);
      if (t == 'b') LANES(b[l] <<= 16;);
      else h2f_row((float *)b, b, n);
      return b;
    }
    case 'w':
    case 's': {
      const u32 *r = fetch_raw32(w, in, o, i, 0, b);
      u32 sh = in->op_sel >> i & 1 ? 16 : 0;
      if (in->sdwa && o->sext) sh = 0;
      if (t == 'w') LANES(b[l] = (r[l] >> sh) & 0xffff;);
      else LANES(b[l] = (i32)(i16)(r[l] >> sh););
      return b;
    }
    case 'd': {
      u64 *q = buf;
      fetch_raw64(w, in, o, i, q);
      if (o->neg || o->abs) {
        u64 am = o->abs ? ~0ull >> 1 : ~0ull, nm = o->neg ? 1ull << 63 : 0;
        LANES(q[l] = (q[l] & am) ^ nm;);
      }
      return q;
    }
    case 'q':
    case 'l': return fetch_raw64(w, in, o, i, buf);
    case 'm': {
      u64 m = get_mask(w, o);
      unpack_mask(b, m, n);
      return b;
    }
  }
  return buf;
}

// ---------------------------------------------------------------- result store
static void omod_clamp_f(float *f, const Inst *in, const Wave *w) {
  int n = w->n;
  if (in->omod) {
    float k = in->omod == 1 ? 2.0f : in->omod == 2 ? 4.0f : 0.5f;
    LANES(f[l] *= k;);
  }
  if (in->clamp) LANES(f[l] = f[l] > 0 ? (f[l] < 1 ? f[l] : 1.0f) : f[l] != f[l] && !w->dx10 ? f[l] : 0.0f;);
}
static void blend16(Wave *w, const Inst *in, const u32 *r, u64 m) {
  int n = w->n;
  u32 *d = w->v[in->dst.reg], tmp[MAXLANE] __attribute__((aligned(64)));
  if (in->op_sel >> 3 & 1) LANES(tmp[l] = (d[l] & 0xffff) | r[l] << 16;);
  else if (in->keep_hi) LANES(tmp[l] = (d[l] & 0xffff0000) | (r[l] & 0xffff););
  else LANES(tmp[l] = r[l] & 0xffff;);
  blend32(d, tmp, m, n);
}
static void sdwa_store(Wave *w, const Inst *in, const u32 *r, u64 m) {
  const Sdwa *s = in->sdwa;
  u32 *d = w->v[in->dst.reg];
  int sh = s->sel[0] < 4 ? s->sel[0] * 8 : s->sel[0] < 6 ? (s->sel[0] - 4) * 16 : 0;
  u32 mask = s->sel[0] < 4 ? 0xff : s->sel[0] < 6 ? 0xffff : ~0u;
  u32 keep = s->unused == 2 ? ~(mask << sh) : 0;                                // UNUSED_PRESERVE
  u32 above = s->unused == 1 ? ~((mask << sh) | ((1u << sh) - 1)) : 0;          // UNUSED_SEXT
  u32 sign = (mask >> 1 ^ mask) << sh, t[MAXLANE] __attribute__((aligned(64)));
  int n = w->n;
  LANES(u32 x = (r[l] & mask) << sh; t[l] = x | (d[l] & keep) | (x & sign ? above : 0););
  blend32(d, t, m, n);
}
void store_rows(Wave *w, const Inst *in, const void *res, char t) {
  int n = w->n;
  u64 m = write_mask(w, in);
  if (in->dpp && !in->dpp->bound) m &= dpp_valid(w, in);
  u32 *r = (u32 *)res;
  switch (t) {
    case 'f':
      if (in->omod | in->clamp) omod_clamp_f((float *)r, in, w);
      if (!(w->mode & 0x20)) flush_f32(r, n);
      if (in->sdwa) sdwa_store(w, in, r, m);
      else blend32(w->v[in->dst.reg], r, m, n);
      break;
    case 'u':
    case 'i':
      if (in->sdwa) sdwa_store(w, in, r, m);
      else blend32(w->v[in->dst.reg], r, m, n);
      break;
    case 'h':
    case 'b':
      if (in->omod | in->clamp) omod_clamp_f((float *)r, in, w);
      if (t == 'h') f2h_row(r, (float *)r, n);
      else LANES(r[l] = f2bf(asf(r[l])););
      if (in->sdwa) {
        sdwa_store(w, in, r, m);
        break;
      }
      blend16(w, in, r, m);
      break;
    case 'w':
    case 's':
      if (in->sdwa) {
        LANES(r[l] &= 0xffff;);
        sdwa_store(w, in, r, m);
        break;
      }
      blend16(w, in, r, m);
      break;
    case 'd':
      if (in->omod) {
        double k = in->omod == 1 ? 2 : in->omod == 2 ? 4 : 0.5;
        double *d = (double *)res;
        LANES(d[l] *= k;);
      }
      if (in->clamp) {
        double *d = (double *)res;
        LANES(d[l] = d[l] > 0 ? (d[l] < 1 ? d[l] : 1) : 0;);
      }
      // fall through
    case 'q':
    case 'l': {
      u32 lo[MAXLANE] __attribute__((aligned(64))), hi[MAXLANE] __attribute__((aligned(64)));
      split64(lo, hi, res, n);
      blend32(w->v[in->dst.reg], lo, m, n);
      blend32(w->v[in->dst.reg + 1], hi, m, n);
      break;
    }
  }
}
static inline void round_enter(const Wave *w, const Inst *in) {
  // hardware: 0 nearest even, 1 up, 2 down, 3 toward zero
  static const int fe[4] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  char t = in->types[0];
  fesetround(fe[t == 'f' ? w->mode & 3 : w->mode >> 2 & 3]);
}

// Sources that are a row of registers or of a constant as they are
static void plain_sources(Inst *in) {
  for (int i = 0; i < 3; i++) {
    const Operand *o = &in->src[i];
    char t = in->types[i];
    in->plain[i] = P_NOT;
    if (in->slow || o->neg || o->abs || !t || !strchr("uif", t)) continue;
    if (o->kind == O_VGPR) in->plain[i] = t == 'f' ? P_FLOAT : P_ROW;
    else if (o->kind == O_CONST && o->row) in->plain[i] = P_CONST;
    else if (o->kind == O_SGPR && o->reg != S_NULL) in->plain[i] = P_SCALAR;
  }
}
static inline const void *source(Wave *w, const Inst *in, int i) {
  switch (in->plain[i]) {
    case P_FLOAT:
      if (!(w->mode & 0x10)) break;
      // fall through
    case P_ROW: return w->v[in->src[i].reg];
    case P_CONST: return in->src[i].row;
    case P_SCALAR:
      if (in->types[i] == 'f' && !(w->mode & 0x10)) break;
      fill32((u32 *)w->tmp[i], w->s[in->src[i].reg], w->n);
      return w->tmp[i];
  }
  return fetch(w, in, i, w->tmp[i]);
}

static void valu_exec(Wave *w, const Inst *in) {
  const void *a = source(w, in, 0), *b = a, *c = a;
  if (in->nsrc > 1) b = source(w, in, 1);
  if (in->nsrc > 2) c = source(w, in, 2);
  if (__builtin_expect(w->mode & 15, 0)) {
    round_enter(w, in);
    in->kern(w->out, a, b, c, w->n);
    store_rows(w, in, w->out, in->dst.kind ? in->types[7] : 0);
    fesetround(FE_TONEAREST);
  } else {
    in->kern(w->out, a, b, c, w->n);
    store_rows(w, in, w->out, in->types[7]);
  }
  if (in->vmask_dst) set_mask(w, in->sdst.reg, pack_mask((u32 *)(w->out + MAXLANE), w->n) & write_mask(w, in));
}
// The same of whole rows of 32 bits, stored as they are: no modifier, DPP, SDWA or carry
static void plain_exec(Wave *w, const Inst *in) {
  if (__builtin_expect((w->mode & 0x3f) != 0x30, 0)) { // rounds, or f32 without denormal numbers
    valu_exec(w, in);
    return;
  }
  const void *a = source(w, in, 0), *b = in->nsrc > 1 ? source(w, in, 1) : a, *c = in->nsrc > 2 ? source(w, in, 2) : a;
  in->kern(w->out, a, b, c, w->n);
  blend32(w->v[in->dst.reg], (u32 *)w->out, wave_exec(w), w->n);
}
static void cmp_exec(Wave *w, const Inst *in) {
  const void *a = source(w, in, 0), *b = source(w, in, 1);
  in->kern(w->out, a, b, b, w->n);
  u64 ex = write_mask(w, in);
  if (in->dpp && !in->dpp->bound) ex &= dpp_valid(w, in);
  u64 m = pack_mask((u32 *)w->out, w->n) & ex;
  if (in->dst.kind) set_mask(w, in->dst.reg, m);
  if (in->sub) {
    w->s[S_EXEC] = (u32)m;
    if (w->n == 64) w->s[S_EXEC + 1] = m >> 32;
  }
}

// ---------------------------------------------------------------- lane kernels
#define K(name, D, A, B, C, ...)                                                                                                           \
  static void name(void *restrict pd, const void *restrict pa, const void *restrict pb, const void *restrict pc, int n) {                  \
    D *restrict d = pd;                                                                                                                    \
    const A *restrict xa = pa;                                                                                                             \
    const B *restrict xb = pb;                                                                                                             \
    const C *restrict xc = pc;                                                                                                             \
    (void)xa;                                                                                                                              \
    (void)xb;                                                                                                                              \
    (void)xc;                                                                                                                              \
    LANES(A a = xa[l]; B b = xb[l]; C c = xc[l]; (void)a; (void)b; (void)c; d[l] = (__VA_ARGS__););                                        \
  }
#define KF(name, ...) K(name, float, float, float, float, __VA_ARGS__)
#define KD(name, ...) K(name, double, double, double, double, __VA_ARGS__)
#define KU(name, ...) K(name, u32, u32, u32, u32, __VA_ARGS__)
#define KI(name, ...) K(name, i32, i32, i32, i32, __VA_ARGS__)
#define KQ(name, ...) K(name, u64, u64, u64, u64, __VA_ARGS__)
// with a mask result in the second half of the output
#define KCARRY(name, sum, carry)                                                                                                           \
  static void name(void *restrict pd, const void *restrict pa, const void *restrict pb, const void *restrict pc, int n) {                  \
    u32 *restrict d = pd, *restrict cy = (u32 *)((u64 *)pd + MAXLANE);                                                                     \
    const u32 *xa = pa, *xb = pb, *xc = pc;                                                                                                \
    LANES(u32 a = xa[l]; u32 b = xb[l]; u32 c = xc[l]; (void)c; d[l] = (sum); cy[l] = (carry););                                           \
  }

// gcc turns these into vector code; -0 < +0, and a NaN loses against a number
static inline float minf(float a, float b) { return b != b ? a : a != a ? b : a < b || (a == b && asu(a) >> 31) ? a : b; }
static inline float maxf(float a, float b) { return b != b ? a : a != a ? b : a > b || (a == b && !(asu(a) >> 31)) ? a : b; }
static inline double mind(double a, double b) { return b != b ? a : a != a ? b : a < b || (a == b && asq(a) >> 63) ? a : b; }
static inline double maxd(double a, double b) { return b != b ? a : a != a ? b : a > b || (a == b && !(asq(a) >> 63)) ? a : b; }
static inline float minimumf(float a, float b) { return a != a ? a : b != b ? b : minf(a, b); }
static inline float maximumf(float a, float b) { return a != a ? a : b != b ? b : maxf(a, b); }
static inline double minimumd(double a, double b) { return a != a ? a : b != b ? b : mind(a, b); }
static inline double maximumd(double a, double b) { return a != a ? a : b != b ? b : maxd(a, b); }
static inline float med3f(float a, float b, float c) {
  if (a != a || b != b || c != c) return minf(minf(a, b), c);
  float m = maxf(maxf(a, b), c);
  return m == a ? maxf(b, c) : m == b ? maxf(a, c) : maxf(a, b);
}
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MED3(a, b, c) MAX(MIN(a, b), MIN(MAX(a, b), c))
static inline float ftz(float f) {
  u32 u = asu(f);
  return asf(u & 0x7f800000 ? u : u & 0x80000000);
}
// 2^f for |f| <= 1/2, relative error below 1e-15; of a number or of a vector
#define EXP2_POLY(NAME, T)                                                                                                                 \
  static inline T NAME(T f) {                                                                                                              \
    T x = f * 0.69314718055994530942, p = 1.0 / 6227020800.0 + (T){0};                                                                     \
    p = p * x + 1.0 / 479001600;                                                                                                           \
    p = p * x + 1.0 / 39916800;                                                                                                            \
    p = p * x + 1.0 / 3628800;                                                                                                             \
    p = p * x + 1.0 / 362880;                                                                                                              \
    p = p * x + 1.0 / 40320;                                                                                                               \
    p = p * x + 1.0 / 5040;                                                                                                                \
    p = p * x + 1.0 / 720;                                                                                                                 \
    p = p * x + 1.0 / 120;                                                                                                                 \
    p = p * x + 1.0 / 24;                                                                                                                  \
    p = p * x + 1.0 / 6;                                                                                                                   \
    p = p * x + 0.5;                                                                                                                       \
    p = p * x + 1;                                                                                                                         \
    return p * x + 1;                                                                                                                      \
  }
EXP2_POLY(exp2_poly, double)
#ifdef __AVX512F__
EXP2_POLY(exp2_poly8, __m512d)
#endif
static inline float exp2_f(float a) {
  double x = a < -200 ? -200 : a > 200 ? 200 : a;
  double k = __builtin_rint(x), r = exp2_poly(x - k);
  u64 u = (u64)(i64)((i32)k + 1023) << 52;
  return a != a ? a : (float)(r * asd(u));
}
static inline float rsq_f(float a) { return a == 0 ? asf((asu(a) & 0x80000000) | 0x7f800000) : (float)(1.0 / sqrt((double)a)); }
static inline float ldexp_f(float a, i32 b) {
  i32 e = b < -400 ? -400 : b > 400 ? 400 : b;
  return (float)((double)a * asd((u64)(e + 1023) << 52));
}
static inline i32 cvt_i(double a) { return a != a ? 0 : a >= 2147483647.0 ? 2147483647 : a <= -2147483648.0 ? INT32_MIN : (i32)a; }
static inline u32 cvt_u(double a) { return a != a || a <= 0 ? 0 : a >= 4294967295.0 ? 0xffffffffu : (u32)(i64)a; }
static inline u16 cvt_u16(float a) { return a != a || a <= 0 ? 0 : a >= 65535 ? 65535 : (u16)a; }
static inline i16 cvt_i16(float a) { return a != a ? 0 : a >= 32767 ? 32767 : a <= -32768 ? -32768 : (i16)a; }
static inline float fract_f(float a) {
  float r = a - floorf(a);
  return r != r ? r : r > 0x1.fffffep-1f ? 0x1.fffffep-1f : r;
}
static inline double fract_d(double a) {
  double r = a - floor(a);
  return r > 0x1.fffffffffffffp-1 ? 0x1.fffffffffffffp-1 : r;
}
static float sin_turn(float a) {
  double t = a;
  if (isinf(a) || a != a) return NAN;
  t -= __builtin_rint(t);
  return (float)sin(t * 6.28318530717958647693);
}
static float cos_turn(float a) {
  double t = a;
  if (isinf(a) || a != a) return NAN;
  t -= __builtin_rint(t);
  return (float)cos(t * 6.28318530717958647693);
}
static int fp_class(u64 u, int eb, int mb) {
  u64 e = u >> mb & ((1ull << eb) - 1), m = u & ((1ull << mb) - 1);
  int s = u >> (eb + mb) & 1;
  if (e == (1ull << eb) - 1) return m ? (m >> (mb - 1) & 1 ? 2 : 1) : s ? 4 : 512;
  if (e == 0) return m ? (s ? 16 : 128) : s ? 32 : 64;
  return s ? 8 : 256;
}
static float fmah(float a, float b, float c) { // a*b+c rounded to odd at float precision (f16 result follows)
  u64 u = asq(fma_odd((double)a * b, c));
  u64 low = u & 0x1fffffff;
  u &= ~0x1fffffffull;
  u |= (u64)(low != 0) << 29;
  return (float)asd(u);
}
static u32 bcnt(u32 x) { return __builtin_popcount(x); }
static u32 brev(u32 x) {
  x = __builtin_bswap32(x);
  x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
  x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
  return (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
}
static u32 perm_byte(u64 s, u32 sel) {
  if (sel < 8) return s >> (8 * sel) & 0xff;
  if (sel < 12) return s >> (16 * (sel - 8) + 15) & 1 ? 0xff : 0;
  return sel == 12 ? 0 : 0xff;
}
static u32 perm(u32 a, u32 b, u32 c) {
  u64 s = (u64)a << 32 | b;
  u32 r = 0;
  for (int i = 0; i < 4; i++) r |= perm_byte(s, c >> (8 * i) & 0xff) << (8 * i);
  return r;
}
static u32 sad8(u32 a, u32 b, u32 c) {
  for (int i = 0; i < 4; i++) c += abs((int)(a >> 8 * i & 255) - (int)(b >> 8 * i & 255));
  return c;
}
static u32 lerp8(u32 a, u32 b, u32 c) {
  u32 r = 0;
  for (int i = 0; i < 32; i += 8) r |= (((a >> i & 255) + (b >> i & 255) + (c >> i & 1)) >> 1 & 255) << i;
  return r;
}

KF(k_fadd, a + b)
KF(k_fsub, a - b)
KF(k_fsubrev, b - a)
KF(k_fmul, a * b)
KF(k_fmul_legacy, a == 0 || b == 0 ? 0.0f : a * b)
static void k_fma(void *d, const void *a, const void *b, const void *c, int n) { fma_row(d, a, b, c, n); }
KF(k_fma_legacy, a == 0 || b == 0 ? 0.0f + c : __builtin_fmaf(a, b, c))
KF(k_mad, ftz(ftz(a * b) + c))
KF(k_fmah, fmah(a, b, c))
KF(k_madh, a * b + c)
KF(k_fmin, minf(a, b))
KF(k_fmax, maxf(a, b))
KF(k_fminimum, minimumf(a, b))
KF(k_fmaximum, maximumf(a, b))
KF(k_fmin3, minf(minf(a, b), c))
KF(k_fmax3, maxf(maxf(a, b), c))
KF(k_fmed3, med3f(a, b, c))
KF(k_fminmax, maxf(minf(a, b), c))
KF(k_fmaxmin, minf(maxf(a, b), c))
KF(k_fminimum3, minimumf(minimumf(a, b), c))
KF(k_fmaximum3, maximumf(maximumf(a, b), c))
KF(k_fminimummaximum, maximumf(minimumf(a, b), c))
KF(k_fmaximumminimum, minimumf(maximumf(a, b), c))
KF(k_ffloor, __builtin_floorf(a))
KF(k_fceil, __builtin_ceilf(a))
KF(k_ftrunc, __builtin_truncf(a))
KF(k_frndne, __builtin_rintf(a))
KF(k_ffract, fract_f(a))
KF(k_fid, a)
#ifdef __AVX512F__
static inline __m256 ftz8(__m256 x) { // as ftz
  __m256i bits = _mm256_castps_si256(x), none = _mm256_cmpeq_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(0x7f800000)), _mm256_setzero_si256());
  return _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_and_si256(none, _mm256_set1_epi32(0x7fffffff)), bits));
}
static void k_fexp(void *pd, const void *pa, const void *pb, const void *pc, int n) { // ftz(exp2_f(ftz(a))), eight at a time
  float *d = pd;
  const float *a = pa;
  (void)pb, (void)pc;
  for (int l = 0; l < n; l += 8) {
    __m256 v = ftz8(_mm256_loadu_ps(a + l));
    __m512d x = _mm512_max_pd(_mm512_min_pd(_mm512_cvtps_pd(v), _mm512_set1_pd(200)), _mm512_set1_pd(-200));
    __m512d k = _mm512_roundscale_pd(x, _MM_FROUND_CUR_DIRECTION), p = exp2_poly8(_mm512_sub_pd(x, k));
    __m512i e = _mm512_slli_epi64(_mm512_cvtepi32_epi64(_mm256_add_epi32(_mm512_cvttpd_epi32(k), _mm256_set1_epi32(1023))), 52);
    __m256 r = ftz8(_mm512_cvtpd_ps(_mm512_mul_pd(p, _mm512_castsi512_pd(e))));
    _mm256_storeu_ps(d + l, _mm256_blendv_ps(r, v, _mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
  }
}
#else
KF(k_fexp, ftz(exp2_f(ftz(a))))
#endif
KF(k_flog, (float)log2((double)ftz(a)))
KF(k_frcp, ftz((float)(1.0 / (double)ftz(a))))
KF(k_frsq, rsq_f(ftz(a)))
KF(k_fsqrt, (float)sqrt((double)ftz(a)))
KF(k_fsin, sin_turn(a))
KF(k_fcos, cos_turn(a))
KF(k_hexp, exp2_f(a))
KF(k_hlog, (float)log2((double)a))
KF(k_hrcp, (float)(1.0 / (double)a))
KF(k_hrsq, rsq_f(a))
KF(k_hsqrt, (float)sqrt((double)a))
KF(k_fmant, isinf(a) || a != a ? a : frexpf(a, &(int){0}))
K(k_fexpo, i32, float, float, float, ({ int e = 0; if (!isinf(a) && a == a) frexpf(a, &e); e; }))
K(k_fldexp, float, float, i32, i32, ldexp_f(a, b))
KD(k_dadd, a + b)
KD(k_dmul, a * b)
KD(k_dfma, __builtin_fma(a, b, c))
KD(k_dmin, mind(a, b))
KD(k_dmax, maxd(a, b))
KD(k_dminimum, minimumd(a, b))
KD(k_dmaximum, maximumd(a, b))
KD(k_dfloor, __builtin_floor(a))
KD(k_dceil, __builtin_ceil(a))
KD(k_dtrunc, __builtin_trunc(a))
KD(k_drndne, __builtin_rint(a))
KD(k_dfract, fract_d(a))
KD(k_drcp, 1.0 / a)
KD(k_drsq, 1.0 / sqrt(a))
KD(k_dsqrt, sqrt(a))
KD(k_dmant, isinf(a) || a != a ? a : frexp(a, &(int){0}))
K(k_dexpo, i32, double, double, double, ({ int e = 0; if (!isinf(a) && a == a) frexp(a, &e); e; }))
K(k_dldexp, double, double, i32, i32, ldexp(a, b))
static const u64 two_over_pi[19] = { // fraction bits of 2/pi, 64 at a time (1216 bits)
    0xA2F9836E4E441529ull, 0xFC2757D1F534DDC0ull, 0xDB6295993C439041ull, 0xFE5163ABDEBBC561ull, 0xB7246E3A424DD2E0ull,
    0x06492EEA09D1921Cull, 0xFE1DEB1CB129A73Eull, 0xE88235F52EBB4484ull, 0xE99C7026B45F7E41ull, 0x3991D639835339F4ull,
    0x9C845F8BBDF9283Bull, 0x1FF897FFDE05980Full, 0xEF2F118B5A0A6D1Full, 0x6D367ECF27CB09B7ull, 0x4F463F669E5FEA2Dull,
    0x7527BAC7EBE5F17Bull, 0x3D0739F78A5292EAull, 0x6BFB5FB1F8D5D085ull, 0x6033046FC7B6BABFull};
static double trig_preop(double a, u32 b) {
  int e = asq(a) >> 52 & 0x7ff, shift = (b & 31) * 53;
  if (e > 1077) shift += e - 1077;
  u64 hi = 0;
  for (int i = 0; i < 53; i++) {
    int p = shift + i;
    hi = hi << 1 | (p < 1216 ? two_over_pi[p / 64] >> (63 - p % 64) & 1 : 0);
  }
  return ldexp((double)hi, (e >= 1968 ? 128 : 0) - 53 - shift);
}
K(k_trig_preop, double, double, u32, u32, trig_preop(a, b))
KU(k_mov, a)
KU(k_not, ~a)
KU(k_and, a & b)
KU(k_or, a | b)
KU(k_xor, a ^ b)
KU(k_xnor, ~(a ^ b))
KU(k_or3, a | b | c)
KU(k_xor3, a ^ b ^ c)
KU(k_and_or, (a & b) | c)
KU(k_add, a + b)
KU(k_sub, a - b)
KU(k_subrev, b - a)
KU(k_add3, a + b + c)
KU(k_lshl_add, (a << (b & 31)) + c)
KU(k_add_lshl, (a + b) << (c & 31))
KU(k_lshl_or, (a << (b & 31)) | c)
KU(k_xad, (a ^ b) + c)
KU(k_lshlrev, b << (a & 31))
KU(k_lshrrev, b >> (a & 31))
K(k_ashrrev, i32, u32, i32, i32, b >> (a & 31))
KU(k_lshl, a << (b & 31))
KU(k_lshr, a >> (b & 31))
KU(k_add_sat, a + b < a ? ~0u : a + b)
KU(k_sub_sat, a < b ? 0 : a - b)
KU(k_subrev_sat, b < a ? 0 : b - a)
static inline i32 sat32(i64 x) { return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (i32)x; }
static inline i32 sat16(i32 x) { return x > 32767 ? 32767 : x < -32768 ? -32768 : x; }
KI(k_iadd_sat, sat32((i64)a + b))
KI(k_isub_sat, sat32((i64)a - b))
KI(k_imin, MIN(a, b))
KI(k_imax, MAX(a, b))
KU(k_umin, MIN(a, b))
KU(k_umax, MAX(a, b))
KI(k_imin3, MIN(MIN(a, b), c))
KI(k_imax3, MAX(MAX(a, b), c))
KI(k_imed3, MED3(a, b, c))
KU(k_umin3, MIN(MIN(a, b), c))
KU(k_umax3, MAX(MAX(a, b), c))
KU(k_umed3, MED3(a, b, c))
KI(k_imaxmin, MIN(MAX(a, b), c))
KI(k_iminmax, MAX(MIN(a, b), c))
KU(k_umaxmin, MIN(MAX(a, b), c))
KU(k_uminmax, MAX(MIN(a, b), c))
KU(k_mul_lo, a * b)
KU(k_mul_hi, (u32)((u64)a * b >> 32))
K(k_imul_hi, i32, i32, i32, i32, (i32)((i64)a * b >> 32))
#define S24(x) ((i32)((u32)(x) << 8) >> 8)
KU(k_mul_u24, (a & 0xffffff) * (b & 0xffffff))
K(k_mul_i24, u32, u32, u32, u32, (u32)((i64)S24(a) * S24(b)))
KU(k_mul_hi_u24, (u32)((u64)(a & 0xffffff) * (b & 0xffffff) >> 32))
K(k_mul_hi_i24, u32, u32, u32, u32, (u32)((u64)((i64)S24(a) * S24(b)) >> 32))
KU(k_mad_u24, (a & 0xffffff) * (b & 0xffffff) + c)
KU(k_mad_i24, (u32)((i64)S24(a) * S24(b)) + c)
KU(k_bfe, (c & 31) == 0 ? 0 : (a >> (b & 31)) & ((1u << (c & 31)) - 1))
K(k_ibfe, i32, i32, u32, u32, (c & 31) == 0 ? 0 : (i32)((u32)(a >> (b & 31)) << (32 - (c & 31))) >> (32 - (c & 31)))
KU(k_bfi, (a & b) | (~a & c))
KU(k_bfm, ((1u << (a & 31)) - 1) << (b & 31))
KU(k_bcnt, bcnt(a) + b)
KU(k_bfrev, brev(a))
KU(k_ffbh, a ? (u32)__builtin_clz(a) : ~0u)
KU(k_ffbl, a ? (u32)__builtin_ctz(a) : ~0u)
KI(k_ffbh_i, a == 0 || a == -1 ? -1 : __builtin_clz(a < 0 ? ~a : a))
KU(k_alignbit, (u32)(((u64)a << 32 | b) >> (c & 31)))
KU(k_alignbyte, (u32)(((u64)a << 32 | b) >> (8 * (c & 3))))
KU(k_perm, perm(a, b, c))
KU(k_sad_u8, sad8(a, b, c))
KU(k_lerp, lerp8(a, b, c))
KU(k_sad_u32, (a > b ? a - b : b - a) + c)
KU(k_sad_u16, (u32)abs((int)(a & 0xffff) - (int)(b & 0xffff)) + (u32)abs((int)(a >> 16) - (int)(b >> 16)) + c)
K(k_mbcnt_lo, u32, u32, u32, u32, b + bcnt(a & (l < 32 ? (1u << (l & 31)) - 1 : ~0u)))
K(k_mbcnt_hi, u32, u32, u32, u32, b + bcnt(a & (l < 32 ? 0 : (1u << (l & 31)) - 1)))
KU(k_cndmask, c ? b : a)
K(k_lshlrev64, u64, u32, u64, u64, b << (a & 63))
K(k_lshrrev64, u64, u32, u64, u64, b >> (a & 63))
K(k_ashrrev64, i64, u32, i64, i64, b >> (a & 63))
KQ(k_mov64, a)
KQ(k_add64, a + b)
K(k_lshl_add64, u64, u64, u32, u64, (a << (b & 7)) + c)
KCARRY(k_add_co, a + b, (a + b) < a)
KCARRY(k_sub_co, a - b, a < b)
KCARRY(k_subrev_co, b - a, b < a)
KCARRY(k_addc, a + b + c, ((u64)a + b + c) >> 32)
KCARRY(k_subb, a - b - c, (u64)a < (u64)b + c)
KCARRY(k_subbrev, b - a - c, (u64)b < (u64)a + c)
static void k_mad64u(void *restrict pd, const void *restrict pa, const void *restrict pb, const void *restrict pc, int n) {
  u64 *d = pd;
  u32 *cy = (u32 *)(d + MAXLANE);
  const u32 *a = pa, *b = pb;
  const u64 *c = pc;
  LANES(u64 p = (u64)a[l] * b[l]; u64 s = p + c[l]; d[l] = s; cy[l] = s < p;);
}
static void k_mad64i(void *restrict pd, const void *restrict pa, const void *restrict pb, const void *restrict pc, int n) {
  u64 *d = pd;
  u32 *cy = (u32 *)(d + MAXLANE);
  const i32 *a = pa, *b = pb;
  const i64 *c = pc;
  LANES(i64 p = (i64)a[l] * b[l]; d[l] = (u64)p + (u64)c[l]; cy[l] = (p ^ c[l]) < 0 ? 0 : ((i64)d[l] ^ p) < 0;);
}
KI(k_mul16, (a * b))
KI(k_mad16, (i32)((u32)a * (u32)b + (u32)c))
KU(k_lshl16, b << (a & 15))
KU(k_lshr16, b >> (a & 15))
K(k_ashr16, i32, u32, i32, i32, b >> (a & 15))
KI(k_iadd16_sat, sat16(a + b))
KI(k_isub16_sat, sat16(a - b))
KU(k_uadd16_sat, MIN(a + b, 65535u))
KI(k_usub16_sat, MAX(a - b, 0))
KI(k_umad16_sat, (i32)MIN((i64)a * b + c, (i64)65535))
KI(k_imad16_sat, sat16(a * b + c))
// conversions
K(k_f_i, float, i32, i32, i32, (float)a)
K(k_f_u, float, u32, u32, u32, (float)a)
K(k_i_f, i32, float, float, float, cvt_i(a))
K(k_u_f, u32, float, float, float, cvt_u(a))
K(k_i_f_near, i32, float, float, float, cvt_i(floor((double)a + 0.5)))
K(k_i_f_floor, i32, float, float, float, cvt_i(floorf(a)))
K(k_d_f, double, float, float, float, a)
K(k_f_d, float, double, double, double, (float)a)
K(k_d_i, double, i32, i32, i32, a)
K(k_d_u, double, u32, u32, u32, a)
K(k_i_d, i32, double, double, double, cvt_i(a))
K(k_u_d, u32, double, double, double, cvt_u(a))
K(k_f_ub0, float, u32, u32, u32, (float)(a & 255))
K(k_f_ub1, float, u32, u32, u32, (float)(a >> 8 & 255))
K(k_f_ub2, float, u32, u32, u32, (float)(a >> 16 & 255))
K(k_f_ub3, float, u32, u32, u32, (float)(a >> 24))
K(k_u16_f, u32, float, float, float, cvt_u16(a))
K(k_i16_f, i32, float, float, float, cvt_i16(a))
KU(k_id, a)
K(k_pkrtz, u32, float, float, float, f2h_rtz(a) | (u32)f2h_rtz(b) << 16)
K(k_pk_i16_i32, u32, i32, i32, i32, (u16)sat16(a) | (u32)(u16)sat16(b) << 16)
K(k_pk_u16_u32, u32, u32, u32, u32, MIN(a, 65535u) | MIN(b, 65535u) << 16)
K(k_pk_i16_f32, u32, float, float, float, (u16)cvt_i16(a) | (u32)(u16)cvt_i16(b) << 16)
K(k_pk_u16_f32, u32, float, float, float, cvt_u16(a) | (u32)cvt_u16(b) << 16)
static inline i16 norm_i(float a) { return a != a ? 0 : (i16)rintf(MED3(a, -1.0f, 1.0f) * 32767.0f); }
static inline u16 norm_u(float a) { return a != a ? 0 : (u16)rintf(MED3(a, 0.0f, 1.0f) * 65535.0f); }
K(k_pknorm_i, u32, float, float, float, (u16)norm_i(a) | (u32)(u16)norm_i(b) << 16)
K(k_pknorm_u, u32, float, float, float, norm_u(a) | (u32)norm_u(b) << 16)
K(k_norm_i, u32, float, float, float, (u16)norm_i(a))
K(k_norm_u, u32, float, float, float, norm_u(a))
K(k_pk_u8, u32, float, u32, u32, ({ u32 sh = (b & 3) * 8; u32 v = a != a || a <= 0 ? 0 : a >= 255 ? 255 : (u32)rintf(a); (c & ~(255u << sh)) | v << sh; }))
K(k_pack, u32, u32, u32, u32, (a & 0xffff) | b << 16)
K(k_class_f, u32, u32, u32, u32, fp_class(a, 8, 23) & b)
K(k_class_d, u32, u64, u32, u32, fp_class(a, 11, 52) & b)
K(k_class_h, u32, u32, u32, u32, fp_class(a & 0xffff, 5, 10) & b)
// dot products: left to right
KU(k_dot4_u8, ({ u32 r = c; for (int i = 0; i < 32; i += 8) r += (a >> i & 255) * (b >> i & 255); r; }))
K(k_dot4_i8, i32, u32, u32, i32, ({ i32 r = c; for (int i = 0; i < 32; i += 8) r += (i8)(a >> i) * (i8)(b >> i); r; }))
KU(k_dot8_u4, ({ u32 r = c; for (int i = 0; i < 32; i += 4) r += (a >> i & 15) * (b >> i & 15); r; }))
K(k_dot8_i4, i32, u32, u32, i32, ({ i32 r = c; for (int i = 0; i < 32; i += 4) r += ((i32)(a << (28 - i)) >> 28) * ((i32)(b << (28 - i)) >> 28); r; }))
K(k_dot2_u16, u32, u32, u32, u32, c + (a & 0xffff) * (b & 0xffff) + (a >> 16) * (b >> 16))
K(k_dot2_i16, i32, i32, i32, i32, c + (i16)a * (i16)b + (a >> 16) * (b >> 16))

// v_div_scale, v_div_fixup (v_div_fmas reads VCC and is below)
static float div_scale_f(float s0, float den, float num, u32 *vcc) {
  int ed = asu(den) >> 23 & 255, en = asu(num) >> 23 & 255;
  *vcc = 0;
  if (num == 0 || den == 0) return NAN;
  bool den_denorm = ed == 0, rcp_denorm = ed >= 253 && ed < 255 && (fabs(1.0 / (double)den) < 0x1p-126),
       q_denorm = fabs((double)num / den) < 0x1p-126;
  if (en - ed >= 96) {
    *vcc = 1;
    return asu(s0) == asu(den) ? ldexp_f(s0, 64) : s0;
  }
  if (den_denorm) return ldexp_f(s0, 64);
  if (rcp_denorm && q_denorm) {
    *vcc = 1;
    return asu(s0) == asu(den) ? ldexp_f(s0, -64) : s0;
  }
  if (rcp_denorm) return ldexp_f(s0, -64);
  if (q_denorm) {
    *vcc = 1;
    return asu(s0) == asu(num) ? ldexp_f(s0, 64) : s0;
  }
  if (en <= 23) return ldexp_f(s0, 64);
  return s0;
}
static double div_scale_d(double s0, double den, double num, u32 *vcc) {
  int ed = asq(den) >> 52 & 2047, en = asq(num) >> 52 & 2047;
  *vcc = 0;
  if (num == 0 || den == 0) return NAN;
  bool rcp_denorm = ed >= 2045 && ed < 2047 && fabs(1.0 / den) < 0x1p-1022, q_denorm = fabs(num / den) < 0x1p-1022;
  if (en - ed >= 768) {
    *vcc = 1;
    return asq(s0) == asq(den) ? ldexp(s0, 128) : s0;
  }
  if (ed == 0) return ldexp(s0, 128);
  if (rcp_denorm && q_denorm) {
    *vcc = 1;
    return asq(s0) == asq(den) ? ldexp(s0, -128) : s0;
  }
  if (rcp_denorm) return ldexp(s0, -128);
  if (q_denorm) {
    *vcc = 1;
    return asq(s0) == asq(num) ? ldexp(s0, 128) : s0;
  }
  if (en <= 53) return ldexp(s0, 128);
  return s0;
}
static void k_div_scale_f(void *restrict pd, const void *restrict pa, const void *restrict pb, const void *restrict pc, int n) {
  float *d = pd;
  u32 *cy = (u32 *)((u64 *)pd + MAXLANE);
  const float *a = pa, *b = pb, *c = pc;
  LANES(d[l] = div_scale_f(a[l], b[l], c[l], &cy[l]););
}
static void k_div_scale_d(void *restrict pd, const void *restrict pa, const void *restrict pb, const void *restrict pc, int n) {
  double *d = pd;
  u32 *cy = (u32 *)((u64 *)pd + MAXLANE);
  const double *a = pa, *b = pb, *c = pc;
  LANES(d[l] = div_scale_d(a[l], b[l], c[l], &cy[l]););
}
static float div_fixup_f(float q, float den, float num) {
  u32 s = (asu(den) ^ asu(num)) & 0x80000000;
  int ed = asu(den) >> 23 & 255, en = asu(num) >> 23 & 255;
  if (num != num) return asf(asu(num) | 0x400000);
  if (den != den) return asf(asu(den) | 0x400000);
  if ((den == 0 && num == 0) || (isinf(den) && isinf(num))) return asf(0xffc00000);
  if (den == 0 || isinf(num)) return asf(s | 0x7f800000);
  if (isinf(den) || num == 0) return asf(s);
  if (en - ed < -150) return asf(s);
  if (q != q) return asf(s | 0x7f800000); // the iteration overflowed
  return asf((asu(q) & 0x7fffffff) | s);
}
static double div_fixup_d(double q, double den, double num) {
  u64 s = (asq(den) ^ asq(num)) & (1ull << 63);
  int ed = asq(den) >> 52 & 2047, en = asq(num) >> 52 & 2047;
  if (num != num) return asd(asq(num) | 1ull << 51);
  if (den != den) return asd(asq(den) | 1ull << 51);
  if ((den == 0 && num == 0) || (isinf(den) && isinf(num))) return asd(0xfff8ull << 48);
  if (den == 0 || isinf(num)) return asd(s | 0x7ffull << 52);
  if (isinf(den) || num == 0) return asd(s);
  if (en - ed < -1075) return asd(s);
  if (q != q) return asd(s | 0x7ffull << 52);
  return asd((asq(q) & ~(1ull << 63)) | s);
}
KF(k_div_fixup_f, div_fixup_f(a, b, c))
KD(k_div_fixup_d, div_fixup_d(a, b, c))
static void div_fmas_f(Wave *w, const Inst *in) {
  const float *a = source(w, in, 0), *b = source(w, in, 1), *c = source(w, in, 2);
  u64 vcc = w->n == 64 ? s64(w, S_VCC) : w->s[S_VCC];
  float *d = (float *)w->out;
  for (int l = 0; l < w->n; l++) {
    if (vcc >> l & 1) d[l] = (float)(fma_odd((double)a[l] * b[l], c[l]) * ((asu(c[l]) >> 23 & 255) > 127 ? 0x1p64 : 0x1p-64));
    else d[l] = __builtin_fmaf(a[l], b[l], c[l]);
  }
  store_rows(w, in, d, 'f');
}
static void div_fmas_d(Wave *w, const Inst *in) {
  const double *a = source(w, in, 0), *b = source(w, in, 1), *c = source(w, in, 2);
  u64 vcc = w->n == 64 ? s64(w, S_VCC) : w->s[S_VCC];
  double *d = (double *)w->out;
  for (int l = 0; l < w->n; l++) {
    if (vcc >> l & 1) { // one rounding only, also when the scaled result is denormal
      double s = (asq(c[l]) >> 52 & 2047) > 1023 ? 0x1p128 : 0x1p-128;
      d[l] = (double)((long double)__builtin_fma(a[l], b[l], c[l]) * s);
    } else d[l] = __builtin_fma(a[l], b[l], c[l]);
  }
  store_rows(w, in, d, 'd');
}

// ---------------------------------------------------------------- comparisons
#define CMPS(T, X)                                                                                                                         \
  X(lt, T, a < b)                                                                                                                          \
  X(eq, T, a == b) X(le, T, a <= b) X(gt, T, a > b) X(ne, T, a != b) X(ge, T, a >= b) X(lg, T, a<b || a> b) X(o, T, a == a && b == b)      \
      X(u, T, a != a || b != b) X(nge, T, !(a >= b)) X(nlg, T, !(a < b || a > b)) X(ngt, T, !(a > b)) X(nle, T, !(a <= b))                 \
          X(neq, T, !(a == b)) X(nlt, T, !(a < b)) X(f, T, 0) X(t, T, 1)
#define CK(cond, T, e)                                                                                                                     \
  static void cmp_##cond##_##T(void *restrict pd, const void *restrict pa, const void *restrict pb, const void *restrict pc, int n) {      \
    (void)pc;                                                                                                                              \
    u32 *restrict d = pd;                                                                                                                  \
    const T *restrict xa = pa;                                                                                                             \
    const T *restrict xb = pb;                                                                                                             \
    LANES(T a = xa[l]; T b = xb[l]; (void)a; (void)b; d[l] = (e) ? ~0u : 0;);                                                              \
  }
#define CROW(cond, T, e) {#cond, cmp_##cond##_##T},
CMPS(float, CK)
CMPS(double, CK)
CMPS(i32, CK)
CMPS(u32, CK)
CMPS(i64, CK)
CMPS(u64, CK)
typedef struct {
  const char *cond;
  Kern k;
} CmpRow;
static const CmpRow cmp_f[] = {CMPS(float, CROW){0, 0}}, cmp_d[] = {CMPS(double, CROW){0, 0}}, cmp_i[] = {CMPS(i32, CROW){0, 0}},
                    cmp_u[] = {CMPS(u32, CROW){0, 0}}, cmp_l[] = {CMPS(i64, CROW){0, 0}}, cmp_q[] = {CMPS(u64, CROW){0, 0}};

// ---------------------------------------------------------------- operations between lanes and to scalar registers
static void readfirstlane(Wave *w, const Inst *in) {
  u64 ex = wave_exec(w);
  int l = ex ? __builtin_ctzll(ex) : 0;
  set_s(w, in->dst.reg, in->src[0].kind == O_VGPR ? w->v[in->src[0].reg][l] : scalar_of(w, &in->src[0]));
}
static void readlane(Wave *w, const Inst *in) { set_s(w, in->dst.reg, w->v[in->src[0].reg][scalar_of(w, &in->src[1]) & (w->n - 1)]); }
static void writelane(Wave *w, const Inst *in) { w->v[in->dst.reg][scalar_of(w, &in->src[1]) & (w->n - 1)] = scalar_of(w, &in->src[0]); }
static void permlane16(Wave *w, const Inst *in) { // in->sub: 1 = crosses to the other row
  u64 sel = scalar_of(w, &in->src[1]) | (u64)scalar_of(w, &in->src[2]) << 32, ex = wave_exec(w);
  const u32 *a = w->v[in->src[0].reg];
  u32 *d = w->v[in->dst.reg], *r = (u32 *)w->out;
  bool fi = in->op_sel & 1, bc = in->op_sel & 2;
  for (int l = 0; l < w->n; l++) {
    int s = (l & ~15) ^ (in->sub ? 16 : 0);
    s |= sel >> (4 * (l & 15)) & 15;
    r[l] = fi || (ex >> s & 1) ? a[s] : bc ? 0 : d[l];
  }
  blend32(d, r, ex, w->n);
}
static void permlane16_var(Wave *w, const Inst *in) {
  u64 ex = wave_exec(w);
  const u32 *a = w->v[in->src[0].reg], *sel = w->v[in->src[1].reg];
  u32 *d = w->v[in->dst.reg], *r = (u32 *)w->out;
  bool fi = in->op_sel & 1, bc = in->op_sel & 2;
  for (int l = 0; l < w->n; l++) {
    int s = ((l & ~15) ^ (in->sub ? 16 : 0)) | (sel[l] & 15);
    r[l] = fi || (ex >> s & 1) ? a[s] : bc ? 0 : d[l];
  }
  blend32(d, r, ex, w->n);
}
static void permlane64(Wave *w, const Inst *in) {
  const u32 *a = w->v[in->src[0].reg];
  u32 *r = (u32 *)w->out;
  if (w->n != 64) return;
  for (int l = 0; l < 64; l++) r[l] = a[l ^ 32];
  blend32(w->v[in->dst.reg], r, wave_exec(w), 64);
}
static void v_swap(Wave *w, const Inst *in) {
  u32 *a = w->v[in->dst.reg], *b = w->v[in->src[0].reg];
  u64 ex = wave_exec(w);
  int l;
  EACH(l, ex) {
    u32 t = a[l];
    a[l] = b[l];
    b[l] = t;
  }
}
static void permlane_swap(Wave *w, const Inst *in) { // v_permlane32_swap / 16_swap: odd rows of dst <-> even rows of src
  u32 *a = w->v[in->dst.reg], *b = w->v[in->src[0].reg];
  int k = in->sub;
  for (int l = 0; l < w->n; l++)
    if (!(l & k)) {
      u32 t = a[l | k];
      a[l | k] = b[l];
      b[l] = t;
    }
}
static void movrel(Wave *w, const Inst *in) { // sub bit0: source relative, bit1: destination relative
  int m = w->s[S_M0], so = in->sub & 1 ? m : 0, dof = in->sub & 2 ? m : 0;
  const u32 *a;
  u32 buf[MAXLANE] __attribute__((aligned(64)));
  if (in->sub & 4) {
    so = m & 0x3ff;
    dof = m >> 16 & 0x3ff;
  }
  if (in->src[0].kind == O_VGPR) {
    if (in->src[0].reg + so >= 256) kernel_fail(w, in, 0, "relative register v%d is out of range", in->src[0].reg + so);
    a = w->v[in->src[0].reg + so];
  } else {
    fill32(buf, scalar_of(w, &in->src[0]), w->n);
    a = buf;
  }
  if (in->dst.reg + dof >= 256) kernel_fail(w, in, 0, "relative register v%d is out of range", in->dst.reg + dof);
  memcpy(w->out, a, w->n * 4);
  blend32(w->v[in->dst.reg + dof], (u32 *)w->out, wave_exec(w), w->n);
}
static void scalar_trans(Wave *w, const Inst *in) { // v_s_exp_f32 and friends: one value, scalar result
  float x[MAXLANE], y[MAXLANE];
  u32 r = scalar_of(w, &in->src[0]);
  const Operand *o = &in->src[0];
  bool h = in->types[0] == 'h';
  float a = h ? h2f(r) : asf(r);
  if (o->abs) a = fabsf(a);
  if (o->neg) a = -a;
  for (int i = 0; i < 32; i++) x[i] = a;
  in->kern(y, x, x, x, 32);
  if (in->omod | in->clamp) {
    int n = w->n;
    w->n = 32;
    omod_clamp_f(y, in, w);
    w->n = n;
  }
  set_s(w, in->dst.reg, h ? f2h(y[0]) : asu(y[0]));
}

// ---------------------------------------------------------------- packed (VOP3P)
// half `hi` of source i as raw 16 bits
static void half_of(Wave *w, const Inst *in, int i, int hi, bool isfloat, u32 *out) {
  const Operand *o = &in->src[i];
  u32 buf[MAXLANE] __attribute__((aligned(64)));
  int n = w->n;
  const u32 *r = fetch_raw32(w, in, o, i, 0, buf);
  int sh = ((hi ? in->op_sel_hi : in->op_sel) >> i & 1) ? 16 : 0;
  u32 ng = isfloat && ((hi ? in->neg_hi : in->neg_lo) >> i & 1) ? 0x8000 : 0;
  LANES(out[l] = ((r[l] >> sh) & 0xffff) ^ ng;);
}
static void packed_exec(Wave *w, const Inst *in) { // in->types[0]: h (f16), s, w (16-bit integers)
  char t = in->types[0];
  int n = w->n;
  u32 lo[MAXLANE] __attribute__((aligned(64)));
  for (int hi = 0; hi < 2; hi++) {
    for (int i = 0; i < in->nsrc; i++) {
      u32 *b = (u32 *)w->tmp[i];
      half_of(w, in, i, hi, t == 'h', b);
      if (t == 'h') h2f_row((float *)b, b, n);
      else if (t == 's') LANES(b[l] = (i32)(i16)b[l];);
    }
    in->kern(w->out, w->tmp[0], w->tmp[1], w->tmp[2], n);
    u32 *r = (u32 *)w->out;
    if (t == 'h') {
      if (in->clamp) omod_clamp_f((float *)r, in, w);
      f2h_row(r, (float *)r, n);
    }
    if (!hi) memcpy(lo, r, n * 4);
    else LANES(r[l] = (lo[l] & 0xffff) | r[l] << 16;);
  }
  u64 m = write_mask(w, in);
  if (in->dpp && !in->dpp->bound) m &= dpp_valid(w, in);
  blend32(w->v[in->dst.reg], (u32 *)w->out, m, n);
}
static void packed_f32(Wave *w, const Inst *in) { // v_pk_{fma,mul,add}_f32, v_pk_mov_b32
  int n = w->n;
  u32 res[2][MAXLANE] __attribute__((aligned(64)));
  for (int hi = 0; hi < 2; hi++) {
    for (int i = 0; i < in->nsrc; i++) {
      const Operand *o = &in->src[i];
      u32 *b = (u32 *)w->tmp[i];
      int part = (hi ? in->op_sel_hi : in->op_sel) >> i & 1;
      if (in->sub) part = i == hi ? in->op_sel >> i & 1 : 0; // v_pk_mov_b32: dst.lo from src0, dst.hi from src1
      const u32 *r = fetch_raw32(w, in, o, 1, part, b);
      u32 ng = (hi ? in->neg_hi : in->neg_lo) >> i & 1 ? 0x80000000 : 0;
      LANES(b[l] = r[l] ^ ng;);
    }
    if (in->sub) memcpy(res[hi], w->tmp[hi], n * 4);
    else {
      in->kern(res[hi], w->tmp[0], w->tmp[1], w->tmp[2], n);
      if (in->clamp) omod_clamp_f((float *)res[hi], in, w);
    }
  }
  u64 m = write_mask(w, in);
  blend32(w->v[in->dst.reg], res[0], m, n);
  blend32(w->v[in->dst.reg + 1], res[1], m, n);
}
static const float *mix_src(Wave *w, const Inst *in, int i) {
  const Operand *o = &in->src[i];
  u32 *b = (u32 *)w->tmp[i];
  int n = w->n;
  const u32 *r = b;
  if (in->op_sel_hi >> i & 1) {
    if (o->kind == O_CONST && o->isfloat) fill32(b, asu(h2f(f2h(o->fval))), n);
    else half2f_row((float *)b, fetch_raw32(w, in, o, i, 0, b), in->op_sel >> i & 1 ? 16 : 0, n);
  } else if (o->kind == O_CONST && o->isfloat) fill32(b, asu((float)o->fval), n);
  else r = fetch_raw32(w, in, o, i, 0, b);
  if (o->neg | o->abs) {
    const u32 am = o->abs ? 0x7fffffff : ~0u, nm = o->neg ? 0x80000000 : 0;
    LANES(b[l] = (r[l] & am) ^ nm;);
    r = b;
  }
  return (const float *)r;
}
static void fma_mix(Wave *w, const Inst *in) { // sub: 0 f32 result, 1 low half, 2 high half
  const float *a = mix_src(w, in, 0), *b = mix_src(w, in, 1), *c = mix_src(w, in, 2);
  float *d = (float *)w->out;
  int n = w->n;
  fma_row(d, a, b, c, n);
  if (!in->sub) {
    store_rows(w, in, d, 'f');
    return;
  }
  if (in->clamp) omod_clamp_f(d, in, w);
  f2h_row((u32 *)d, d, n);
  u32 *v = w->v[in->dst.reg], *r = (u32 *)d;
  if (in->sub == 1) LANES(r[l] = (v[l] & 0xffff0000) | r[l];);
  else LANES(r[l] = (v[l] & 0xffff) | r[l] << 16;);
  u64 m = write_mask(w, in);
  if (in->dpp && !in->dpp->bound) m &= dpp_valid(w, in);
  blend32(v, r, m, n);
}
static void dot2_f(Wave *w, const Inst *in) { // sub: 0 f16->f32, 1 bf16->f32, 2 f16->f16, 3 bf16->bf16
  int n = w->n;
  float *d = (float *)w->out;
  bool bf = in->sub & 1;
  u32 x[2][2][MAXLANE] __attribute__((aligned(64)));
  for (int i = 0; i < 2; i++)
    for (int hi = 0; hi < 2; hi++) {
      half_of(w, in, i, hi, true, x[i][hi]);
      if (bf) LANES(x[i][hi][l] <<= 16;);
      else h2f_row((float *)x[i][hi], x[i][hi], n);
      if (w->ln->arch->id == GFX90A) {
        float lim = bf ? 0x1p-126f : 0x1p-14f, *f = (float *)x[i][hi];
        LANES(f[l] = fabsf(f[l]) < lim ? 0.0f : f[l];);
      } // MI200 flushes denormals here
    }
  const float *c = source(w, in, 2);
  bool nc = in->neg_lo >> 2 & 1 && !in->src[2].neg, ac = in->neg_hi >> 2 & 1;
  for (int l = 0; l < n; l++) {
    float z = c[l];
    if (ac) z = fabsf(z);
    if (nc) z = -z;
    z = __builtin_fmaf(asf(x[0][0][l]), asf(x[1][0][l]), z);
    if (in->sub == 2) z = h2f(f2h(z));
    if (in->sub == 3) z = bf2f(f2bf(z));
    d[l] = __builtin_fmaf(asf(x[0][1][l]), asf(x[1][1][l]), z);
  }
  store_rows(w, in, d, in->sub < 2 ? 'f' : in->sub == 2 ? 'h' : 'b');
}
static void dot_iu(Wave *w, const Inst *in) { // v_dot4_i32_iu8, v_dot8_i32_iu4: signedness in neg_lo
  u32 b0[MAXLANE], b1[MAXLANE], b2[MAXLANE];
  int n = w->n, bits = in->sub;
  const u32 *a = fetch_raw32(w, in, &in->src[0], 0, 0, b0), *b = fetch_raw32(w, in, &in->src[1], 1, 0, b1),
            *c = fetch_raw32(w, in, &in->src[2], 2, 0, b2);
  bool sa = in->neg_lo & 1, sb = in->neg_lo & 2;
  i32 *d = (i32 *)w->out;
  for (int l = 0; l < n; l++) {
    i64 r = (i32)c[l];
    for (int i = 0; i < 32; i += bits) {
      i32 x = a[l] >> i & ((1 << bits) - 1), y = b[l] >> i & ((1 << bits) - 1);
      if (sa) x = (i32)((u32)x << (32 - bits)) >> (32 - bits);
      if (sb) y = (i32)((u32)y << (32 - bits)) >> (32 - bits);
      r += x * y;
    }
    d[l] = in->clamp ? sat32(r) : (i32)r;
  }
  store_rows(w, in, d, 'u');
}
static void cvt_from_fp8(Wave *w, const Inst *in) { // sub bit0: bf8, bit1: packed pair
  u32 b0[MAXLANE];
  int n = w->n;
  bool bf8 = in->sub & 1, fnuz = w->ln->arch->gen == 9;
  const u32 *a = fetch_raw32(w, in, &in->src[0], 0, 0, b0);
  u32 r0[MAXLANE] __attribute__((aligned(64))), r1[MAXLANE] __attribute__((aligned(64)));
  u64 m = write_mask(w, in);
  if (in->dpp && !in->dpp->bound) m &= dpp_valid(w, in);
  int byte = in->sub & 2 ? (in->op_sel & 1) * 2 : in->byte_sel; // gfx942 selects the byte with SDWA
  for (int l = 0; l < n; l++) {
    r0[l] = asu(fp8_to_f(a[l] >> (8 * byte), fnuz, bf8));
    r1[l] = asu(fp8_to_f(a[l] >> (8 * byte + 8), fnuz, bf8));
  }
  blend32(w->v[in->dst.reg], r0, m, n);
  if (in->sub & 2) blend32(w->v[in->dst.reg + 1], r1, m, n);
}
static void cvt_pk_fp8(Wave *w, const Inst *in) { // two f32 -> one half of the destination
  bool bf8 = in->sub & 1, fnuz = w->ln->arch->gen == 9;
  int n = w->n;
  const float *a = source(w, in, 0), *b = source(w, in, 1);
  u32 *d = w->v[in->dst.reg], *r = (u32 *)w->out;
  int sh = in->op_sel >> 3 & 1 ? 16 : 0;
  for (int l = 0; l < n; l++) {
    u32 p = f_to_fp8(a[l], fnuz, bf8, false, 0) | f_to_fp8(b[l], fnuz, bf8, false, 0) << 8;
    r[l] = (d[l] & ~(0xffffu << sh)) | p << sh;
  }
  blend32(d, r, write_mask(w, in), n);
}
static void cvt_sr_fp8(Wave *w, const Inst *in) { // stochastic rounding into one byte
  bool bf8 = in->sub & 1, fnuz = w->ln->arch->gen == 9;
  const float *a = source(w, in, 0);
  u32 b1[MAXLANE];
  const u32 *rnd = fetch_raw32(w, in, &in->src[1], 1, 0, b1);
  u32 *d = w->v[in->dst.reg], *r = (u32 *)w->out;
  int sh = 8 * (in->byte_sel | (in->op_sel >> 2 & 3));
  for (int l = 0; l < w->n; l++) r[l] = (d[l] & ~(0xffu << sh)) | (u32)f_to_fp8(a[l], fnuz, bf8, true, rnd[l]) << sh;
  blend32(d, r, write_mask(w, in), w->n);
}
static void nop_exec(Wave *w, const Inst *in) {
  (void)w;
  (void)in;
}

// ---------------------------------------------------------------- table
enum { KEEP = 1 /* gfx9: keeps the high half */, PK = 2 };
typedef struct {
  const char *name, *types;
  Kern k;
  ExecFn fn;
  u8 cls, flags, sub;
  Kern sat;
} Row;
#define R(n, t, k)                                                                                                                         \
  { n, t, k, valu_exec, C_VALU, 0, 0, NULL }
#define RSAT(n, t, k, s)                                                                                                                   \
  { n, t, k, valu_exec, C_VALU, 0, 0, s }
#define RC(n, t, k, c)                                                                                                                     \
  { n, t, k, valu_exec, c, 0, 0, NULL }
#define RF(n, t, k, f)                                                                                                                     \
  { n, t, k, valu_exec, C_VALU, f, 0, NULL }
#define X(n, t, fn, sub)                                                                                                                   \
  { n, t, NULL, fn, C_VALU, 0, sub, NULL }
#define P(n, t, k)                                                                                                                         \
  { n, t, k, packed_exec, C_PACKED, PK, 0, NULL }
#define PS(n, t, k, s)                                                                                                                     \
  { n, t, k, packed_exec, C_PACKED, PK, 0, s }
static const Row rows[] = {
  R("v_mov_b32", "u:u", k_mov),
  R("v_mov_b64", "q:q", k_mov64),
  R("v_mov_b16", "w:w", k_id),
  R("v_accvgpr_read_b32|v_accvgpr_write_b32|v_accvgpr_mov_b32|v_accvgpr_read|v_accvgpr_write", "u:u", k_mov),
  R("v_add_f32", "f:ff", k_fadd),
  R("v_sub_f32", "f:ff", k_fsub),
  R("v_subrev_f32", "f:ff", k_fsubrev),
  R("v_mul_f32", "f:ff", k_fmul),
  R("v_mul_legacy_f32|v_mul_dx9_zero_f32", "f:ff", k_fmul_legacy),
  R("v_fma_f32", "f:fff", k_fma),
  R("v_fma_legacy_f32|v_fma_dx9_zero_f32", "f:fff", k_fma_legacy),
  R("v_fmac_f32", "f:ffF", k_fma),
  R("v_fmac_legacy_f32|v_fmac_dx9_zero_f32", "f:ffF", k_fma_legacy),
  R("v_fmaak_f32|v_fmamk_f32", "f:fff", k_fma),
  R("v_mad_f32|v_madak_f32|v_madmk_f32", "f:fff", k_mad),
  R("v_mac_f32", "f:ffF", k_mad),
  R("v_min_f32|v_min_num_f32", "f:ff", k_fmin),
  R("v_max_f32|v_max_num_f32", "f:ff", k_fmax),
  R("v_min_legacy_f32", "f:ff", k_fmin),
  R("v_minimum_f32", "f:ff", k_fminimum),
  R("v_maximum_f32", "f:ff", k_fmaximum),
  R("v_min3_f32|v_min3_num_f32", "f:fff", k_fmin3),
  R("v_max3_f32|v_max3_num_f32", "f:fff", k_fmax3),
  R("v_med3_f32|v_med3_num_f32", "f:fff", k_fmed3),
  R("v_minmax_f32|v_minmax_num_f32", "f:fff", k_fminmax),
  R("v_maxmin_f32|v_maxmin_num_f32", "f:fff", k_fmaxmin),
  R("v_minimum3_f32", "f:fff", k_fminimum3),
  R("v_maximum3_f32", "f:fff", k_fmaximum3),
  R("v_minimummaximum_f32", "f:fff", k_fminimummaximum),
  R("v_maximumminimum_f32", "f:fff", k_fmaximumminimum),
  R("v_floor_f32", "f:f", k_ffloor),
  R("v_ceil_f32", "f:f", k_fceil),
  R("v_trunc_f32", "f:f", k_ftrunc),
  R("v_rndne_f32", "f:f", k_frndne),
  R("v_fract_f32", "f:f", k_ffract),
  RC("v_exp_f32|v_exp_legacy_f32", "f:f", k_fexp, C_TRANS),
  RC("v_log_f32|v_log_legacy_f32", "f:f", k_flog, C_TRANS),
  RC("v_rcp_f32|v_rcp_iflag_f32", "f:f", k_frcp, C_TRANS),
  RC("v_rsq_f32", "f:f", k_frsq, C_TRANS),
  RC("v_sqrt_f32", "f:f", k_fsqrt, C_TRANS),
  RC("v_sin_f32", "f:f", k_fsin, C_TRANS),
  RC("v_cos_f32", "f:f", k_fcos, C_TRANS),
  R("v_frexp_mant_f32", "f:f", k_fmant),
  R("v_frexp_exp_i32_f32", "u:f", k_fexpo),
  R("v_ldexp_f32", "f:fu", k_fldexp),
  // f16
  R("v_add_f16", "h:hh", k_fadd),
  R("v_sub_f16", "h:hh", k_fsub),
  R("v_subrev_f16", "h:hh", k_fsubrev),
  R("v_mul_f16", "h:hh", k_fmul),
  RF("v_fma_f16", "h:hhh", k_fmah, KEEP),
  R("v_fmac_f16", "h:hhH", k_fmah),
  R("v_fmaak_f16|v_fmamk_f16", "h:hhh", k_fmah),
  RF("v_mad_f16", "h:hhh", k_madh, KEEP),
  R("v_mad_legacy_f16|v_madak_f16|v_madmk_f16", "h:hhh", k_madh),
  R("v_mac_f16", "h:hhH", k_madh),
  R("v_min_f16|v_min_num_f16", "h:hh", k_fmin),
  R("v_max_f16|v_max_num_f16", "h:hh", k_fmax),
  R("v_minimum_f16", "h:hh", k_fminimum),
  R("v_maximum_f16", "h:hh", k_fmaximum),
  R("v_min3_f16|v_min3_num_f16", "h:hhh", k_fmin3),
  R("v_max3_f16|v_max3_num_f16", "h:hhh", k_fmax3),
  R("v_med3_f16|v_med3_num_f16", "h:hhh", k_fmed3),
  R("v_minmax_f16|v_minmax_num_f16", "h:hhh", k_fminmax),
  R("v_maxmin_f16|v_maxmin_num_f16", "h:hhh", k_fmaxmin),
  R("v_minimum3_f16", "h:hhh", k_fminimum3),
  R("v_maximum3_f16", "h:hhh", k_fmaximum3),
  R("v_minimummaximum_f16", "h:hhh", k_fminimummaximum),
  R("v_maximumminimum_f16", "h:hhh", k_fmaximumminimum),
  R("v_floor_f16", "h:h", k_ffloor),
  R("v_ceil_f16", "h:h", k_fceil),
  R("v_trunc_f16", "h:h", k_ftrunc),
  R("v_rndne_f16", "h:h", k_frndne),
  R("v_fract_f16", "h:h", k_ffract),
  RC("v_exp_f16", "h:h", k_hexp, C_TRANS),
  RC("v_log_f16", "h:h", k_hlog, C_TRANS),
  RC("v_rcp_f16", "h:h", k_hrcp, C_TRANS),
  RC("v_rsq_f16", "h:h", k_hrsq, C_TRANS),
  RC("v_sqrt_f16", "h:h", k_hsqrt, C_TRANS),
  RC("v_sin_f16", "h:h", k_fsin, C_TRANS),
  RC("v_cos_f16", "h:h", k_fcos, C_TRANS),
  R("v_frexp_mant_f16", "h:h", k_fmant),
  R("v_frexp_exp_i16_f16", "w:h", k_fexpo),
  R("v_ldexp_f16", "h:hs", k_fldexp),
  RF("v_div_fixup_f16", "h:hhh", k_div_fixup_f, KEEP),
  R("v_pack_b32_f16", "u:ww", k_pack),
  R("v_cndmask_b16", "w:wwm", k_cndmask),
  R("v_not_b16", "w:w", k_not),
  R("v_and_b16", "w:ww", k_and),
  R("v_or_b16", "w:ww", k_or),
  R("v_xor_b16", "w:ww", k_xor),
  // f64
  RC("v_add_f64", "d:dd", k_dadd, C_F64),
  RC("v_mul_f64", "d:dd", k_dmul, C_F64),
  RC("v_fma_f64", "d:ddd", k_dfma, C_F64),
  RC("v_fmac_f64", "d:ddD", k_dfma, C_F64),
  RC("v_min_f64|v_min_num_f64", "d:dd", k_dmin, C_F64),
  RC("v_max_f64|v_max_num_f64", "d:dd", k_dmax, C_F64),
  RC("v_minimum_f64", "d:dd", k_dminimum, C_F64),
  RC("v_maximum_f64", "d:dd", k_dmaximum, C_F64),
  RC("v_floor_f64", "d:d", k_dfloor, C_F64),
  RC("v_ceil_f64", "d:d", k_dceil, C_F64),
  RC("v_trunc_f64", "d:d", k_dtrunc, C_F64),
  RC("v_rndne_f64", "d:d", k_drndne, C_F64),
  RC("v_fract_f64", "d:d", k_dfract, C_F64),
  RC("v_rcp_f64", "d:d", k_drcp, C_F64),
  RC("v_rsq_f64", "d:d", k_drsq, C_F64),
  RC("v_sqrt_f64", "d:d", k_dsqrt, C_F64),
  RC("v_frexp_mant_f64", "d:d", k_dmant, C_F64),
  RC("v_frexp_exp_i32_f64", "u:d", k_dexpo, C_F64),
  RC("v_ldexp_f64", "d:du", k_dldexp, C_F64),
  RC("v_trig_preop_f64", "d:du", k_trig_preop, C_F64),
  // division
  RC("v_div_scale_f32", "fm:fff", k_div_scale_f, C_VALU),
  RC("v_div_scale_f64", "dm:ddd", k_div_scale_d, C_F64),
  R("v_div_fixup_f32", "f:fff", k_div_fixup_f),
  RC("v_div_fixup_f64", "d:ddd", k_div_fixup_d, C_F64),
  X("v_div_fmas_f32", "f:fff", div_fmas_f, 0),
  X("v_div_fmas_f64", "d:ddd", div_fmas_d, 0),
  // bits and integers
  R("v_not_b32", "u:u", k_not),
  R("v_and_b32", "u:uu", k_and),
  R("v_or_b32", "u:uu", k_or),
  R("v_xor_b32", "u:uu", k_xor),
  R("v_xnor_b32", "u:uu", k_xnor),
  R("v_or3_b32", "u:uuu", k_or3),
  R("v_xor3_b32", "u:uuu", k_xor3),
  R("v_and_or_b32", "u:uuu", k_and_or),
  RSAT("v_add_u32|v_add_nc_u32", "u:uu", k_add, k_add_sat),
  RSAT("v_sub_u32|v_sub_nc_u32", "u:uu", k_sub, k_sub_sat),
  RSAT("v_subrev_u32|v_subrev_nc_u32", "u:uu", k_subrev, k_subrev_sat),
  RSAT("v_add_i32|v_add_nc_i32", "u:uu", k_add, k_iadd_sat),
  RSAT("v_sub_i32|v_sub_nc_i32", "u:uu", k_sub, k_isub_sat),
  R("v_add3_u32", "u:uuu", k_add3),
  R("v_lshl_add_u32", "u:uuu", k_lshl_add),
  R("v_add_lshl_u32", "u:uuu", k_add_lshl),
  R("v_lshl_or_b32", "u:uuu", k_lshl_or),
  R("v_xad_u32", "u:uuu", k_xad),
  R("v_lshlrev_b32", "u:uu", k_lshlrev),
  R("v_lshrrev_b32", "u:uu", k_lshrrev),
  R("v_ashrrev_i32", "u:uu", k_ashrrev),
  R("v_lshl_b32", "u:uu", k_lshl),
  R("v_lshr_b32", "u:uu", k_lshr),
  R("v_min_i32", "u:uu", k_imin),
  R("v_max_i32", "u:uu", k_imax),
  R("v_min_u32", "u:uu", k_umin),
  R("v_max_u32", "u:uu", k_umax),
  R("v_min3_i32", "u:uuu", k_imin3),
  R("v_max3_i32", "u:uuu", k_imax3),
  R("v_med3_i32", "u:uuu", k_imed3),
  R("v_min3_u32", "u:uuu", k_umin3),
  R("v_max3_u32", "u:uuu", k_umax3),
  R("v_med3_u32", "u:uuu", k_umed3),
  R("v_maxmin_i32", "u:uuu", k_imaxmin),
  R("v_minmax_i32", "u:uuu", k_iminmax),
  R("v_maxmin_u32", "u:uuu", k_umaxmin),
  R("v_minmax_u32", "u:uuu", k_uminmax),
  R("v_mul_lo_u32", "u:uu", k_mul_lo),
  R("v_mul_hi_u32", "u:uu", k_mul_hi),
  R("v_mul_hi_i32", "u:uu", k_imul_hi),
  R("v_mul_u32_u24", "u:uu", k_mul_u24),
  R("v_mul_i32_i24", "u:uu", k_mul_i24),
  R("v_mul_hi_u32_u24", "u:uu", k_mul_hi_u24),
  R("v_mul_hi_i32_i24", "u:uu", k_mul_hi_i24),
  R("v_mad_u32_u24", "u:uuu", k_mad_u24),
  R("v_mad_i32_i24", "u:uuu", k_mad_i24),
  R("v_bfe_u32", "u:uuu", k_bfe),
  R("v_bfe_i32", "u:uuu", k_ibfe),
  R("v_bfi_b32", "u:uuu", k_bfi),
  R("v_bfm_b32", "u:uu", k_bfm),
  R("v_bcnt_u32_b32", "u:uu", k_bcnt),
  R("v_bfrev_b32", "u:u", k_bfrev),
  R("v_ffbh_u32|v_clz_i32_u32", "u:u", k_ffbh),
  R("v_ffbl_b32|v_ctz_i32_b32", "u:u", k_ffbl),
  R("v_ffbh_i32|v_cls_i32", "u:u", k_ffbh_i),
  R("v_alignbit_b32", "u:uuu", k_alignbit),
  R("v_alignbyte_b32", "u:uuu", k_alignbyte),
  R("v_perm_b32", "u:uuu", k_perm),
  R("v_sad_u8", "u:uuu", k_sad_u8),
  R("v_sad_u16", "u:uuu", k_sad_u16),
  R("v_sad_u32", "u:uuu", k_sad_u32),
  R("v_lerp_u8", "u:uuu", k_lerp),
  R("v_mbcnt_lo_u32_b32", "u:uu", k_mbcnt_lo),
  R("v_mbcnt_hi_u32_b32", "u:uu", k_mbcnt_hi),
  R("v_cndmask_b32", "u:uum", k_cndmask),
  R("v_lshlrev_b64", "q:uq", k_lshlrev64),
  R("v_lshrrev_b64", "q:uq", k_lshrrev64),
  R("v_ashrrev_i64", "q:ul", k_ashrrev64),
  R("v_add_u64|v_add_nc_u64", "q:qq", k_add64),
  R("v_lshl_add_u64", "q:quq", k_lshl_add64),
  R("v_add_co_u32", "um:uu", k_add_co),
  R("v_sub_co_u32", "um:uu", k_sub_co),
  R("v_subrev_co_u32", "um:uu", k_subrev_co),
  R("v_addc_co_u32|v_add_co_ci_u32", "um:uum", k_addc),
  R("v_subb_co_u32|v_sub_co_ci_u32", "um:uum", k_subb),
  R("v_subbrev_co_u32|v_subrev_co_ci_u32", "um:uum", k_subbrev),
  R("v_mad_u64_u32|v_mad_co_u64_u32", "qm:uuq", k_mad64u),
  R("v_mad_i64_i32|v_mad_co_i64_i32", "qm:uul", k_mad64i),
  RSAT("v_add_u16|v_add_nc_u16", "w:ww", k_add, k_uadd16_sat),
  RSAT("v_sub_u16|v_sub_nc_u16", "w:ww", k_sub, k_usub16_sat),
  R("v_subrev_u16", "w:ww", k_subrev),
  RSAT("v_add_i16|v_add_nc_i16", "s:ss", k_add, k_iadd16_sat),
  RSAT("v_sub_i16|v_sub_nc_i16", "s:ss", k_sub, k_isub16_sat),
  R("v_mul_lo_u16", "w:ww", k_mul16),
  {"v_mad_u16", "w:www", k_mad16, valu_exec, C_VALU, KEEP, 0, k_umad16_sat},
  {"v_mad_i16", "s:sss", k_mad16, valu_exec, C_VALU, KEEP, 0, k_imad16_sat},
  R("v_mad_legacy_u16|v_mad_legacy_i16", "w:www", k_mad16),
  R("v_lshlrev_b16", "w:ww", k_lshl16),
  R("v_lshrrev_b16", "w:ww", k_lshr16),
  R("v_ashrrev_i16", "s:ws", k_ashr16),
  R("v_min_u16", "w:ww", k_umin),
  R("v_max_u16", "w:ww", k_umax),
  R("v_min_i16", "s:ss", k_imin),
  R("v_max_i16", "s:ss", k_imax),
  R("v_min3_u16", "w:www", k_umin3),
  R("v_max3_u16", "w:www", k_umax3),
  R("v_med3_u16", "w:www", k_umed3),
  R("v_min3_i16", "s:sss", k_imin3),
  R("v_max3_i16", "s:sss", k_imax3),
  R("v_med3_i16", "s:sss", k_imed3),
  R("v_mad_u32_u16", "u:wwu", k_mad16),
  R("v_mad_i32_i16", "u:ssu", k_mad16),
  // conversions
  R("v_cvt_f32_i32", "f:u", k_f_i),
  R("v_cvt_f32_u32", "f:u", k_f_u),
  R("v_cvt_i32_f32", "u:f", k_i_f),
  R("v_cvt_u32_f32", "u:f", k_u_f),
  R("v_cvt_rpi_i32_f32|v_cvt_nearest_i32_f32", "u:f", k_i_f_near),
  R("v_cvt_flr_i32_f32|v_cvt_floor_i32_f32", "u:f", k_i_f_floor),
  R("v_cvt_f16_f32", "h:f", k_fid),
  R("v_cvt_f32_f16", "f:h", k_fid),
  RC("v_cvt_f64_f32", "d:f", k_d_f, C_F64),
  RC("v_cvt_f32_f64", "f:d", k_f_d, C_F64),
  RC("v_cvt_f64_i32", "d:u", k_d_i, C_F64),
  RC("v_cvt_f64_u32", "d:u", k_d_u, C_F64),
  RC("v_cvt_i32_f64", "u:d", k_i_d, C_F64),
  RC("v_cvt_u32_f64", "u:d", k_u_d, C_F64),
  R("v_cvt_f32_ubyte0", "f:u", k_f_ub0),
  R("v_cvt_f32_ubyte1", "f:u", k_f_ub1),
  R("v_cvt_f32_ubyte2", "f:u", k_f_ub2),
  R("v_cvt_f32_ubyte3", "f:u", k_f_ub3),
  R("v_cvt_f16_u16", "h:w", k_f_u),
  R("v_cvt_f16_i16", "h:s", k_f_i),
  R("v_cvt_u16_f16", "w:h", k_u16_f),
  R("v_cvt_i16_f16", "s:h", k_i16_f),
  R("v_cvt_u32_u16", "u:w", k_id),
  R("v_cvt_i32_i16", "u:s", k_id),
  R("v_cvt_pkrtz_f16_f32|v_cvt_pk_rtz_f16_f32", "u:ff", k_pkrtz),
  R("v_cvt_pk_i16_i32", "u:uu", k_pk_i16_i32),
  R("v_cvt_pk_u16_u32", "u:uu", k_pk_u16_u32),
  R("v_cvt_pk_i16_f32", "u:ff", k_pk_i16_f32),
  R("v_cvt_pk_u16_f32", "u:ff", k_pk_u16_f32),
  R("v_cvt_pknorm_i16_f32|v_cvt_pk_norm_i16_f32", "u:ff", k_pknorm_i),
  R("v_cvt_pknorm_u16_f32|v_cvt_pk_norm_u16_f32", "u:ff", k_pknorm_u),
  R("v_cvt_pknorm_i16_f16|v_cvt_pk_norm_i16_f16", "u:hh", k_pknorm_i),
  R("v_cvt_pknorm_u16_f16|v_cvt_pk_norm_u16_f16", "u:hh", k_pknorm_u),
  R("v_cvt_norm_i16_f16", "w:h", k_norm_i),
  R("v_cvt_norm_u16_f16", "w:h", k_norm_u),
  R("v_cvt_pk_u8_f32", "u:fuu", k_pk_u8),
  X("v_cvt_f32_fp8", "f:u", cvt_from_fp8, 0),
  X("v_cvt_f32_bf8", "f:u", cvt_from_fp8, 1),
  X("v_cvt_pk_f32_fp8", "q:u", cvt_from_fp8, 2),
  X("v_cvt_pk_f32_bf8", "q:u", cvt_from_fp8, 3),
  X("v_cvt_pk_fp8_f32", "u:ff", cvt_pk_fp8, 0),
  X("v_cvt_pk_bf8_f32", "u:ff", cvt_pk_fp8, 1),
  X("v_cvt_sr_fp8_f32", "u:fu", cvt_sr_fp8, 0),
  X("v_cvt_sr_bf8_f32", "u:fu", cvt_sr_fp8, 1),
  // lanes
  X("v_readfirstlane_b32", "u:u", readfirstlane, 0),
  X("v_readlane_b32", "u:uu", readlane, 0),
  X("v_writelane_b32", "u:uu", writelane, 0),
  X("v_permlane16_b32", "u:uuu", permlane16, 0),
  X("v_permlanex16_b32", "u:uuu", permlane16, 1),
  X("v_permlane16_var_b32", "u:uu", permlane16_var, 0),
  X("v_permlanex16_var_b32", "u:uu", permlane16_var, 1),
  X("v_permlane64_b32", "u:u", permlane64, 0),
  X("v_swap_b32", "u:u", v_swap, 0),
  X("v_permlane32_swap_b32", "u:u", permlane_swap, 32),
  X("v_permlane16_swap_b32", "u:u", permlane_swap, 16),
  X("v_movrels_b32", "u:u", movrel, 1),
  X("v_movreld_b32", "u:u", movrel, 2),
  X("v_movrelsd_b32", "u:u", movrel, 3),
  X("v_movrelsd_2_b32", "u:u", movrel, 4),
  X("v_nop", "", nop_exec, 0),
  X("v_clrexcp", "", nop_exec, 0),
  X("v_pipeflush", "", nop_exec, 0),
  {"v_s_exp_f32", "f:f", k_fexp, scalar_trans, C_TRANS, 0, 0, NULL},
  {"v_s_log_f32", "f:f", k_flog, scalar_trans, C_TRANS, 0, 0, NULL},
  {"v_s_rcp_f32", "f:f", k_frcp, scalar_trans, C_TRANS, 0, 0, NULL},
  {"v_s_rsq_f32", "f:f", k_frsq, scalar_trans, C_TRANS, 0, 0, NULL},
  {"v_s_sqrt_f32", "f:f", k_fsqrt, scalar_trans, C_TRANS, 0, 0, NULL},
  {"v_s_exp_f16", "h:h", k_hexp, scalar_trans, C_TRANS, 0, 0, NULL},
  {"v_s_log_f16", "h:h", k_hlog, scalar_trans, C_TRANS, 0, 0, NULL},
  {"v_s_rcp_f16", "h:h", k_hrcp, scalar_trans, C_TRANS, 0, 0, NULL},
  {"v_s_rsq_f16", "h:h", k_hrsq, scalar_trans, C_TRANS, 0, 0, NULL},
  {"v_s_sqrt_f16", "h:h", k_hsqrt, scalar_trans, C_TRANS, 0, 0, NULL},
  // packed
  P("v_pk_add_f16", "h:hh", k_fadd),
  P("v_pk_mul_f16", "h:hh", k_fmul),
  P("v_pk_fma_f16", "h:hhh", k_fmah),
  P("v_pk_fmac_f16", "h:hhH", k_fmah),
  P("v_pk_min_f16|v_pk_min_num_f16", "h:hh", k_fmin),
  P("v_pk_max_f16|v_pk_max_num_f16", "h:hh", k_fmax),
  P("v_pk_minimum_f16", "h:hh", k_fminimum),
  P("v_pk_maximum_f16", "h:hh", k_fmaximum),
  PS("v_pk_add_u16", "w:ww", k_add, k_uadd16_sat),
  PS("v_pk_sub_u16", "w:ww", k_sub, k_usub16_sat),
  PS("v_pk_add_i16", "s:ss", k_add, k_iadd16_sat),
  PS("v_pk_sub_i16", "s:ss", k_sub, k_isub16_sat),
  P("v_pk_mul_lo_u16", "w:ww", k_mul16),
  PS("v_pk_mad_u16", "w:www", k_mad16, k_umad16_sat),
  PS("v_pk_mad_i16", "s:sss", k_mad16, k_imad16_sat),
  P("v_pk_min_u16", "w:ww", k_umin),
  P("v_pk_max_u16", "w:ww", k_umax),
  P("v_pk_min_i16", "s:ss", k_imin),
  P("v_pk_max_i16", "s:ss", k_imax),
  P("v_pk_lshlrev_b16", "w:ww", k_lshl16),
  P("v_pk_lshrrev_b16", "w:ww", k_lshr16),
  P("v_pk_ashrrev_i16", "s:ss", k_ashr16),
  {"v_pk_fma_f32", "f:fff", k_fma, packed_f32, C_PACKED, PK, 0, NULL},
  {"v_pk_mul_f32", "f:ff", k_fmul, packed_f32, C_PACKED, PK, 0, NULL},
  {"v_pk_add_f32", "f:ff", k_fadd, packed_f32, C_PACKED, PK, 0, NULL},
  {"v_pk_mov_b32", "u:uu", NULL, packed_f32, C_PACKED, PK, 1, NULL},
  X("v_fma_mix_f32|v_mad_mix_f32", "f:fff", fma_mix, 0),
  X("v_fma_mixlo_f16|v_mad_mixlo_f16", "h:fff", fma_mix, 1),
  X("v_fma_mixhi_f16|v_mad_mixhi_f16", "h:fff", fma_mix, 2),
  {"v_dot2_f32_f16", "f:hhf", NULL, dot2_f, C_PACKED, PK, 0, NULL},
  {"v_dot2c_f32_f16|v_dot2acc_f32_f16", "f:hhF", NULL, dot2_f, C_PACKED, PK, 0, NULL},
  {"v_dot2_f32_bf16", "f:bbf", NULL, dot2_f, C_PACKED, PK, 1, NULL},
  {"v_dot2c_f32_bf16", "f:bbF", NULL, dot2_f, C_PACKED, PK, 1, NULL},
  {"v_dot2_f16_f16", "h:hhh", NULL, dot2_f, C_PACKED, PK, 2, NULL},
  {"v_dot2_bf16_bf16", "b:bbb", NULL, dot2_f, C_PACKED, PK, 3, NULL},
  RC("v_dot4_u32_u8", "u:uuu", k_dot4_u8, C_PACKED),
  RC("v_dot4_i32_i8", "u:uuu", k_dot4_i8, C_PACKED),
  RC("v_dot4c_i32_i8", "u:uuU", k_dot4_i8, C_PACKED),
  RC("v_dot8_u32_u4", "u:uuu", k_dot8_u4, C_PACKED),
  RC("v_dot8_i32_i4", "u:uuu", k_dot8_i4, C_PACKED),
  RC("v_dot8c_i32_i4", "u:uuU", k_dot8_i4, C_PACKED),
  RC("v_dot2_u32_u16", "u:uuu", k_dot2_u16, C_PACKED),
  RC("v_dot2_i32_i16", "u:uuu", k_dot2_i16, C_PACKED),
  RC("v_dot2c_i32_i16", "u:uuU", k_dot2_i16, C_PACKED),
  {"v_dot4_i32_iu8", "u:uuu", NULL, dot_iu, C_PACKED, PK, 8, NULL},
  {"v_dot8_i32_iu4", "u:uuu", NULL, dot_iu, C_PACKED, PK, 4, NULL},
};

static bool name_in(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *p = list; p; p = strchr(p, '|'), p = p ? p + 1 : NULL)
    if (!strncmp(p, name, n) && (p[n] == 0 || p[n] == '|')) return true;
  return false;
}
static bool cmp_bind(Inst *in, const char *mn, Operand *o, int n) {
  bool x = !strncmp(mn, "v_cmpx_", 7);
  const char *c = mn + (x ? 7 : 6), *us = strrchr(mn, '_');
  char cond[16];
  snprintf(cond, sizeof cond, "%.*s", (int)(us - c), c);
  const CmpRow *t = NULL;
  const char *ty = NULL, *s = us + 1;
  static const char *const types[] = {"ff", "hh", "dd", "uu", "ss", "ww", "ll", "qq"};
  if (!strcmp(s, "f32")) t = cmp_f, ty = types[0];
  else if (!strcmp(s, "f16")) t = cmp_f, ty = types[1];
  else if (!strcmp(s, "f64")) t = cmp_d, ty = types[2];
  else if (!strcmp(s, "i32")) t = cmp_i, ty = types[3];
  else if (!strcmp(s, "u32")) t = cmp_u, ty = types[3];
  else if (!strcmp(s, "i16")) t = cmp_i, ty = types[4];
  else if (!strcmp(s, "u16")) t = cmp_u, ty = types[5];
  else if (!strcmp(s, "i64")) t = cmp_l, ty = types[6];
  else if (!strcmp(s, "u64")) t = cmp_q, ty = types[7];
  if (!t) return false;
  in->kern = NULL;
  if (!strcmp(cond, "class")) {
    if (ty[0] == 'f') in->kern = k_class_f, ty = "fu";
    else if (ty[0] == 'd') in->kern = k_class_d, ty = "du";
    else in->kern = k_class_h, ty = "wu";
  } else {
    if (!strcmp(cond, "tru")) strcpy(cond, "t");
    for (; t->cond; t++)
      if (!strcmp(t->cond, cond)) in->kern = t->k;
  }
  if (!in->kern) return false;
  char *tt = in->types;
  memcpy(tt, ty, 2);
  in->slow = in->dpp || in->sdwa;
  in->fn = cmp_exec;
  in->cls = ty[0] == 'd' ? C_F64 : C_VALU;
  in->sub = x;
  in->nsrc = 2;
  int k = 0;
  if (n == 3) {
    in->dst = o[0];
    k = 1;
  } else if (n != 2) return false;
  for (int i = 0; i < 2; i++) {
    in->src[i] = o[k + i];
    operand_finish(&in->src[i], ty[i]);
  }
  // v_cmp_class on raw bits must see the value before any flush; f16 sign modifiers live on bit 15
  if (ty[1] == 'u' && ty[0] == 'f') tt[0] = 'u';
  plain_sources(in);
  return true;
}

bool valu_bind(Inst *in, const char *mn, Operand *o, int n, const Arch *a, char *err, size_t errlen) {
  if (!strncmp(mn, "v_cmp", 5)) return cmp_bind(in, mn, o, n);
  const Row *r = NULL;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (name_in(rows[i].name, mn)) {
      r = &rows[i];
      break;
    }
  if (!r) return false;
  in->cls = r->cls;
  in->sub = r->sub;
  in->fn = r->fn;
  in->kern = r->k;
  if (in->clamp && r->sat) {
    in->kern = r->sat;
    in->clamp = 0;
  } else if (in->clamp && r->types[0] && strchr("uwsq", r->types[0]) && r->fn == valu_exec) {
    snprintf(err, errlen, "clamp on this instruction");
    return false;
  }
  const char *colon = strchr(r->types, ':');
  char *tt = in->types;
  if (!colon) {
    tt[7] = 0;
    return true;
  }
  tt[7] = r->types[0];
  int k = 0, ns = strlen(colon + 1);
  if (k >= n) return false;
  in->dst = o[k++];
  if (r->types[1] == 'm') {
    if (k >= n) return false;
    in->sdst = o[k++];
    in->vmask_dst = 1;
    if (in->sdst.kind != O_SGPR) return false;
  }
  in->nsrc = ns;
  for (int i = 0; i < ns; i++) {
    char t = colon[1 + i];
    tt[i] = tolower(t);
    if (isupper(t)) {
      in->src[i] = in->dst;
    } else {
      if (k >= n) {
        snprintf(err, errlen, "operand count");
        return false;
      }
      in->src[i] = o[k++];
    }
    if (in->fn == packed_exec && t == 'h' && in->src[i].kind == O_CONST) operand_finish(&in->src[i], 'p');
    else if (in->fn == packed_exec && in->src[i].kind == O_CONST) operand_finish(&in->src[i], 'u');
    else if (in->fn == dot2_f && i < 2) operand_finish(&in->src[i], in->sub & 1 ? 'b' : 'p');
    else operand_finish(&in->src[i], tt[i]);
  }
  if (k != n) {
    snprintf(err, errlen, "operand count");
    return false;
  }
  in->keep_hi = a->gen >= 10 || (r->flags & KEEP);
  if (in->fn == permlane16 || in->fn == permlane16_var)
    ;
  else if (strchr("hws", tt[7]) || strchr("hwsb", tt[0])) in->slow = 1;
  if (in->dpp || in->sdwa) in->slow = 1;
  plain_sources(in);
  if (in->fn == valu_exec && !in->slow && !in->omod && !in->clamp && !in->vmask_dst && in->dst.kind == O_VGPR && strchr("fui", tt[7]))
    in->fn = plain_exec;
  return true;
}
