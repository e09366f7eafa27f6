// SPDX-License-Identifier: MIT
// Every matrix instruction against a plain matrix product; small integers, so results are exact.
// Lane layouts are written out here from AMD's documents, independently of the simulator.
#include "common.h"
#include <string>
typedef _Float16 h4 __attribute__((ext_vector_type(4))); typedef _Float16 h8 __attribute__((ext_vector_type(8))); typedef _Float16 h16 __attribute__((ext_vector_type(16)));
typedef short s2 __attribute__((ext_vector_type(2))); typedef short s4 __attribute__((ext_vector_type(4))); typedef short s8 __attribute__((ext_vector_type(8))); typedef short s16 __attribute__((ext_vector_type(16)));
typedef float f2 __attribute__((ext_vector_type(2))); typedef float f4 __attribute__((ext_vector_type(4))); typedef float f8 __attribute__((ext_vector_type(8))); typedef float f16v __attribute__((ext_vector_type(16))); typedef float f32v __attribute__((ext_vector_type(32)));
typedef int i2 __attribute__((ext_vector_type(2))); typedef int i4 __attribute__((ext_vector_type(4))); typedef int i8v __attribute__((ext_vector_type(8))); typedef int i16v __attribute__((ext_vector_type(16))); typedef int i32v __attribute__((ext_vector_type(32)));
typedef double d4 __attribute__((ext_vector_type(4)));
enum { F32, F16, BF16, I8, U8, I4, U4, FP8, BF8, F64, XF32, I32 };
static int bits_of(int t) { switch (t) { case F32: case XF32: case I32: return 32; case F16: case BF16: return 16; case I4: case U4: return 4; case F64: return 64; default: return 8; } }
static bool fnuz;
static uint8_t enc8(double v, bool bf8) {        // exact for small integers
  int mb = bf8 ? 2 : 3, bias = (bf8 ? 15 : 7) + fnuz; if (v == 0) return 0;
  int e; double m = frexp(fabs(v), &e); return (v < 0 ? 0x80 : 0) | (e - 1 + bias) << mb | (int)((m * 2 - 1) * (1 << mb));
}
static uint64_t enc(int t, double v) {
  switch (t) {
    case F32: case XF32: { float f = v; uint32_t u; memcpy(&u, &f, 4); return u; }
    case F16: { _Float16 h = v; uint16_t u; memcpy(&u, &h, 2); return u; }
    case BF16: { float f = v; uint32_t u; memcpy(&u, &f, 4); return u >> 16; }
    case F64: { uint64_t u; memcpy(&u, &v, 8); return u; }
    case FP8: return enc8(v, false); case BF8: return enc8(v, true);
    case I32: return (uint32_t)(int)v;
    default: return (uint64_t)(int)v & ((1u << bits_of(t)) - 1);
  }
}
static double dec(int t, uint64_t x) {
  switch (t) {
    case F32: { uint32_t u = x; float f; memcpy(&f, &u, 4); return f; }
    case F16: { uint16_t u = x; _Float16 f; memcpy(&f, &u, 2); return (double)f; }
    case BF16: { uint32_t u = x << 16; float f; memcpy(&f, &u, 4); return f; }
    case F64: { double d; memcpy(&d, &x, 8); return d; }
    default: return (int32_t)x;
  }
}
struct Desc { int wmma, M, N, K, B, at, bt, dt, wave, opsel; };
static void put(std::vector<uint32_t> &r, int regs, int lane, int elem, int bits, uint64_t v) {
  if (bits == 64) { r[lane * regs + 2 * elem] = (uint32_t)v; r[lane * regs + 2 * elem + 1] = v >> 32; return; }
  int per = 32 / bits; r[lane * regs + elem / per] |= (uint32_t)v << (elem % per * bits);
}
static uint64_t get(const std::vector<uint32_t> &r, int regs, int lane, int elem, int bits) {
  if (bits == 64) return r[lane * regs + 2 * elem] | (uint64_t)r[lane * regs + 2 * elem + 1] << 32;
  int per = 32 / bits; return r[lane * regs + elem / per] >> (elem % per * bits) & (bits == 32 ? ~0u : (1u << bits) - 1);
}
// position of output element e of lane l
static void out_pos(const Desc &d, int l, int e, int &b, int &i, int &n) {
  if (d.wmma == 11) { b = 0; n = l % 16; i = e * (d.wave / 16) + l / 16; return; }
  if (d.wmma == 12) { b = 0; n = l % 16; i = 8 * (l / 16 % 2) + 4 * (l / 32) + e; return; }
  if (d.at == F64) { if (d.M == 16) { b = 0; i = 4 * e + l / 16; n = l % 16; } else { b = l / 4 % 4; i = l / 16; n = l % 4; } return; }
  if (d.M == 32) { b = e / 16; i = 8 * (e % 16 / 4) + 4 * (l / 32) + e % 4; n = l % 32; }
  else if (d.M == 16) { b = e / 4; i = 4 * (l / 16) + e % 4; n = l % 16; }
  else { b = l / 4; i = e; n = l % 4; }
}
// input element e of lane l: block, row (or column), k
static void in_pos(const Desc &d, int dim, int per, int l, int e, int &b, int &i, int &k) {
  if (d.wmma == 11) { b = 0; i = l % 16; k = e; return; }
  if (d.wmma == 12) { b = 0; i = l % 16; k = d.wave == 32 && bits_of(d.at) == 16 ? 8 * (e / 4) + 4 * (l / 16) + e % 4 : d.wave == 64 && bits_of(d.at) < 16 && per * 4 == d.K ? 2 * per * (l / 16 % 2) + per * (l / 32) + e : per * (l / 16) + e; if (k >= d.K) k = -1; return; }
  if (d.at == F64 && d.M == 4) { b = l / 4 % 4; i = l % 4; k = l / 16; return; }
  i = l % dim; int g = l / dim;
  if (d.B == 1) { b = 0; k = g * per + e; } else { b = g; k = e; }
}
template <class K, class A, class Bt, class C> void run(const char *name, K kernel, A *, Bt *, C *, Desc d, int cbsz = 0, int abid = 0, int blgp = 0) {
  const int W = d.wave, ra = sizeof(A) / 4, rb = sizeof(Bt) / 4, rc = sizeof(C) / 4, ab = bits_of(d.at), bb = bits_of(d.bt), db = bits_of(d.dt);
  std::vector<double> a(d.B * d.M * d.K), b(d.B * d.K * d.N), c(d.B * d.M * d.N), ref;
  auto small = [](int t) { int v = (int)(rng() % 9) - 4; return t == U8 || t == U4 ? abs(v) + 3 : v; };
  for (auto &x : a) x = small(d.at); for (auto &x : b) x = small(d.bt); for (auto &x : c) x = (int)(rng() % 21) - 10;
  std::vector<uint32_t> va(W * ra), vb(W * rb), vc(W * rc);
  int pa = ra * 32 / ab, pb = rb * 32 / bb, bi, i, k, n;
  for (int l = 0; l < W; l++) {
    for (int e = 0; e < pa; e++) { in_pos(d, d.M, pa, l, e, bi, i, k); if (k >= 0) put(va, ra, l, e, ab, enc(d.at, a[(bi * d.M + i) * d.K + k])); }
    for (int e = 0; e < pb; e++) { in_pos(d, d.N, pb, l, e, bi, n, k); if (k >= 0) put(vb, rb, l, e, bb, enc(d.bt, b[(bi * d.K + k) * d.N + n])); }
  }
  int ne = d.B * d.M * d.N / W;                        // outputs per lane
  bool wide = db == 16 && d.wmma == 11;                // one half of each register
  auto slot = [&](int e) { return wide ? 2 * e + d.opsel : e; };
  for (int l = 0; l < W; l++) for (int e = 0; e < ne; e++) { out_pos(d, l, e, bi, i, n); put(vc, rc, l, slot(e), db, enc(d.dt, c[(bi * d.M + i) * d.N + n])); }
  if (blgp) {                                          // B lanes come from other lanes
    auto t = vb;
    for (int l = 0; l < 64; l++) { int s = blgp == 1 ? l & 31 : blgp == 2 ? l | 32 : blgp == 3 ? (l + 16) & 63 : 16 * (blgp - 4) + (l & 15); for (int r = 0; r < rb; r++) t[l * rb + r] = vb[s * rb + r]; }
    for (int l = 0; l < W; l++) for (int e = 0; e < pb; e++) { in_pos(d, d.N, pb, l, e, bi, n, k); b[(bi * d.K + k) * d.N + n] = dec(d.bt, get(t, rb, l, e, bb)); }
  }
  Dev<uint32_t> da(va), dbv(vb), dc(vc), dd(vc.size());
  kernel<<<dim3(1), dim3(W), 0, 0>>>((A *)da.p, (Bt *)dbv.p, (C *)dc.p, (C *)dd.p);
  hipError_t e0 = hipGetLastError();
  if (e0 != hipSuccess) { result(name, false, hipGetErrorString(e0)); return; }
  auto o = dd.get(); int bad = 0; char msg[200] = "";
  for (int l = 0; l < W; l++) for (int e = 0; e < ne; e++) {
    out_pos(d, l, e, bi, i, n); double s = c[(bi * d.M + i) * d.N + n];
    int abk = cbsz ? (bi & ~((1 << cbsz) - 1)) + abid : bi;
    for (k = 0; k < d.K; k++) s += a[(abk * d.M + i) * d.K + k] * b[(bi * d.K + k) * d.N + n];
    double g = dec(d.dt, get(o, rc, l, slot(e), db));
    if (g != s && !bad++) snprintf(msg, sizeof msg, "lane %d element %d (block %d row %d col %d): got %g want %g", l, e, bi, i, n, g, s);
  }
  if (bad) snprintf(msg + strlen(msg), sizeof msg - strlen(msg), " (%d bad)", bad);
  result(name, !bad, msg);
}
#if defined(__gfx90a__) || defined(__gfx942__)
#define CD(...) __VA_ARGS__
#else
#define CD(...)
#endif
#if defined(__gfx90a__)
#define C2(...) __VA_ARGS__
#else
#define C2(...)
#endif
#if defined(__gfx942__)
#define C3(...) __VA_ARGS__
#else
#define C3(...)
#endif
#if defined(__gfx1100__) && !defined(WAVE64)
#define R3(...) __VA_ARGS__
#else
#define R3(...)
#endif
#if defined(__gfx1201__) && !defined(WAVE64)
#define R4(...) __VA_ARGS__
#else
#define R4(...)
#endif
#define KERN(name, A, B, C, G, ...) __global__ void name(A *a, B *b, C *c, C *d) { G(int l = threadIdx.x; d[l] = __VA_ARGS__;) }
#define MF(G, X) \
 X(CD, f32_32x32x1, mfma_f32_32x32x1f32, float, float, f32v, 32,32,1,2, F32,F32,F32) X(CD, f32_16x16x1, mfma_f32_16x16x1f32, float, float, f16v, 16,16,1,4, F32,F32,F32) X(CD, f32_4x4x1, mfma_f32_4x4x1f32, float, float, f4, 4,4,1,16, F32,F32,F32) X(CD, f32_32x32x2, mfma_f32_32x32x2f32, float, float, f16v, 32,32,2,1, F32,F32,F32) X(CD, f32_16x16x4, mfma_f32_16x16x4f32, float, float, f4, 16,16,4,1, F32,F32,F32) \
 X(CD, f16_32x32x4, mfma_f32_32x32x4f16, h4, h4, f32v, 32,32,4,2, F16,F16,F32) X(CD, f16_16x16x4, mfma_f32_16x16x4f16, h4, h4, f16v, 16,16,4,4, F16,F16,F32) X(CD, f16_4x4x4, mfma_f32_4x4x4f16, h4, h4, f4, 4,4,4,16, F16,F16,F32) X(CD, f16_32x32x8, mfma_f32_32x32x8f16, h4, h4, f16v, 32,32,8,1, F16,F16,F32) X(CD, f16_16x16x16, mfma_f32_16x16x16f16, h4, h4, f4, 16,16,16,1, F16,F16,F32) \
 X(CD, bf1k_32x32x4, mfma_f32_32x32x4bf16_1k, s4, s4, f32v, 32,32,4,2, BF16,BF16,F32) X(CD, bf1k_16x16x4, mfma_f32_16x16x4bf16_1k, s4, s4, f16v, 16,16,4,4, BF16,BF16,F32) X(CD, bf1k_4x4x4, mfma_f32_4x4x4bf16_1k, s4, s4, f4, 4,4,4,16, BF16,BF16,F32) X(CD, bf1k_32x32x8, mfma_f32_32x32x8bf16_1k, s4, s4, f16v, 32,32,8,1, BF16,BF16,F32) X(CD, bf1k_16x16x16, mfma_f32_16x16x16bf16_1k, s4, s4, f4, 16,16,16,1, BF16,BF16,F32) \
 X(C2, bf_32x32x2, mfma_f32_32x32x2bf16, s2, s2, f32v, 32,32,2,2, BF16,BF16,F32) X(C2, bf_16x16x2, mfma_f32_16x16x2bf16, s2, s2, f16v, 16,16,2,4, BF16,BF16,F32) X(C2, bf_4x4x2, mfma_f32_4x4x2bf16, s2, s2, f4, 4,4,2,16, BF16,BF16,F32) X(C2, bf_32x32x4, mfma_f32_32x32x4bf16, s2, s2, f16v, 32,32,4,1, BF16,BF16,F32) X(C2, bf_16x16x8, mfma_f32_16x16x8bf16, s2, s2, f4, 16,16,8,1, BF16,BF16,F32) \
 X(CD, i8_32x32x4, mfma_i32_32x32x4i8, int, int, i32v, 32,32,4,2, I8,I8,I32) X(CD, i8_16x16x4, mfma_i32_16x16x4i8, int, int, i16v, 16,16,4,4, I8,I8,I32) X(CD, i8_4x4x4, mfma_i32_4x4x4i8, int, int, i4, 4,4,4,16, I8,I8,I32) X(C2, i8_32x32x8, mfma_i32_32x32x8i8, int, int, i16v, 32,32,8,1, I8,I8,I32) X(C2, i8_16x16x16, mfma_i32_16x16x16i8, int, int, i4, 16,16,16,1, I8,I8,I32) \
 X(C3, i8_32x32x16, mfma_i32_32x32x16_i8, long, long, i16v, 32,32,16,1, I8,I8,I32) X(C3, i8_16x16x32, mfma_i32_16x16x32_i8, long, long, i4, 16,16,32,1, I8,I8,I32) X(C3, xf32_16x16x8, mfma_f32_16x16x8_xf32, f2, f2, f4, 16,16,8,1, XF32,XF32,F32) X(C3, xf32_32x32x4, mfma_f32_32x32x4_xf32, f2, f2, f16v, 32,32,4,1, XF32,XF32,F32) \
 X(C3, fp8_16x16x32, mfma_f32_16x16x32_fp8_fp8, long, long, f4, 16,16,32,1, FP8,FP8,F32) X(C3, bf8_16x16x32, mfma_f32_16x16x32_bf8_bf8, long, long, f4, 16,16,32,1, BF8,BF8,F32) X(C3, fp8bf8_32x32x16, mfma_f32_32x32x16_fp8_bf8, long, long, f16v, 32,32,16,1, FP8,BF8,F32) X(C3, bf8fp8_32x32x16, mfma_f32_32x32x16_bf8_fp8, long, long, f16v, 32,32,16,1, BF8,FP8,F32) \
 X(CD, f64_16x16x4, mfma_f64_16x16x4f64, double, double, d4, 16,16,4,1, F64,F64,F64) X(CD, f64_4x4x4, mfma_f64_4x4x4f64, double, double, double, 4,4,4,4, F64,F64,F64)
#define MK(G, name, fn, A, B, C, ...) KERN(k_##name, A, B, C, G, __builtin_amdgcn_##fn(a[l], b[l], c[l], 0, 0, 0))
MF(, MK)
KERN(k_cbsz, h4, h4, f16v, CD, __builtin_amdgcn_mfma_f32_16x16x4f16(a[l], b[l], c[l], 2, 3, 0))
KERN(k_cbsz1, float, float, f32v, CD, __builtin_amdgcn_mfma_f32_32x32x1f32(a[l], b[l], c[l], 1, 1, 0))
KERN(k_blgp1, float, float, f32v, CD, __builtin_amdgcn_mfma_f32_32x32x1f32(a[l], b[l], c[l], 0, 0, 1))
KERN(k_blgp3, h4, h4, f16v, CD, __builtin_amdgcn_mfma_f32_16x16x4f16(a[l], b[l], c[l], 0, 0, 3))
KERN(k_blgp6, h4, h4, f16v, CD, __builtin_amdgcn_mfma_f32_16x16x4f16(a[l], b[l], c[l], 0, 0, 6))
KERN(k_w3_f16, h16, h16, f8, R3, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a[l], b[l], c[l]))
KERN(k_w3_bf16, s16, s16, f8, R3, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a[l], b[l], c[l]))
KERN(k_w3_hh, h16, h16, h16, R3, __builtin_amdgcn_wmma_f16_16x16x16_f16_w32(a[l], b[l], c[l], false))
KERN(k_w3_hh1, h16, h16, h16, R3, __builtin_amdgcn_wmma_f16_16x16x16_f16_w32(a[l], b[l], c[l], true))
KERN(k_w3_bb, s16, s16, s16, R3, __builtin_amdgcn_wmma_bf16_16x16x16_bf16_w32(a[l], b[l], c[l], false))
KERN(k_w3_iu8, i4, i4, i8v, R3, __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a[l], true, b[l], c[l], false))
KERN(k_w3_u8, i4, i4, i8v, R3, __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(false, a[l], true, b[l], c[l], true))
KERN(k_w3_iu4, i2, i2, i8v, R3, __builtin_amdgcn_wmma_i32_16x16x16_iu4_w32(true, a[l], true, b[l], c[l], false))
KERN(k_w3_u4, i2, i2, i8v, R3, __builtin_amdgcn_wmma_i32_16x16x16_iu4_w32(false, a[l], false, b[l], c[l], false))
KERN(k_w4_f16, h8, h8, f8, R4, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a[l], b[l], c[l]))
KERN(k_w4_bf16, s8, s8, f8, R4, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a[l], b[l], c[l]))
KERN(k_w4_hh, h8, h8, h8, R4, __builtin_amdgcn_wmma_f16_16x16x16_f16_w32_gfx12(a[l], b[l], c[l]))
KERN(k_w4_bb, s8, s8, s8, R4, __builtin_amdgcn_wmma_bf16_16x16x16_bf16_w32_gfx12(a[l], b[l], c[l]))
KERN(k_w4_iu8, i2, i2, i8v, R4, __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a[l], true, b[l], c[l], false))
KERN(k_w4_u8, i2, i2, i8v, R4, __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(false, a[l], true, b[l], c[l], true))
KERN(k_w4_iu4, int, int, i8v, R4, __builtin_amdgcn_wmma_i32_16x16x16_iu4_w32_gfx12(true, a[l], true, b[l], c[l], false))
KERN(k_w4_iu4x32, i2, i2, i8v, R4, __builtin_amdgcn_wmma_i32_16x16x32_iu4_w32_gfx12(true, a[l], false, b[l], c[l], false))
KERN(k_w4_fp8, i2, i2, f8, R4, __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(a[l], b[l], c[l]))
KERN(k_w4_bf8, i2, i2, f8, R4, __builtin_amdgcn_wmma_f32_16x16x16_bf8_bf8_w32_gfx12(a[l], b[l], c[l]))
KERN(k_w4_fp8bf8, i2, i2, f8, R4, __builtin_amdgcn_wmma_f32_16x16x16_fp8_bf8_w32_gfx12(a[l], b[l], c[l]))
KERN(k_w4_bf8fp8, i2, i2, f8, R4, __builtin_amdgcn_wmma_f32_16x16x16_bf8_fp8_w32_gfx12(a[l], b[l], c[l]))
#ifdef WAVE64
#if defined(__gfx1201__)
#define R7(...) __VA_ARGS__
#else
#define R7(...)
#endif
KERN(k_w7_f16, h4, h4, f4, R7, __builtin_amdgcn_wmma_f32_16x16x16_f16_w64_gfx12(a[l], b[l], c[l]))
KERN(k_w7_bf16, s4, s4, f4, R7, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w64_gfx12(a[l], b[l], c[l]))
KERN(k_w7_hh, h4, h4, h4, R7, __builtin_amdgcn_wmma_f16_16x16x16_f16_w64_gfx12(a[l], b[l], c[l]))
KERN(k_w7_iu8, int, int, i4, R7, __builtin_amdgcn_wmma_i32_16x16x16_iu8_w64_gfx12(true, a[l], true, b[l], c[l], false))
KERN(k_w7_iu4, int, int, i4, R7, __builtin_amdgcn_wmma_i32_16x16x16_iu4_w64_gfx12(true, a[l], true, b[l], c[l], false))
KERN(k_w7_iu4x32, int, int, i4, R7, __builtin_amdgcn_wmma_i32_16x16x32_iu4_w64_gfx12(true, a[l], true, b[l], c[l], false))
KERN(k_w7_fp8, int, int, f4, R7, __builtin_amdgcn_wmma_f32_16x16x16_fp8_bf8_w64_gfx12(a[l], b[l], c[l]))
#if defined(__gfx1100__)
#define R6(...) __VA_ARGS__
#else
#define R6(...)
#endif
typedef short s8w __attribute__((ext_vector_type(8)));
KERN(k_w6_f16, h16, h16, f4, R6, __builtin_amdgcn_wmma_f32_16x16x16_f16_w64(a[l], b[l], c[l]))
KERN(k_w6_bf16, s16, s16, f4, R6, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w64(a[l], b[l], c[l]))
KERN(k_w6_hh, h16, h16, h8, R6, __builtin_amdgcn_wmma_f16_16x16x16_f16_w64(a[l], b[l], c[l], false))
KERN(k_w6_iu8, i4, i4, i4, R6, __builtin_amdgcn_wmma_i32_16x16x16_iu8_w64(true, a[l], true, b[l], c[l], false))
#endif

int main() {
  hipDeviceProp_t p; CHECK(hipGetDeviceProperties(&p, 0)); std::string g = p.gcnArchName; g = g.substr(0, g.find(':'));
  bool CD_ = g == "gfx90a" || g == "gfx942", C2_ = g == "gfx90a", C3_ = g == "gfx942"; fnuz = CD_;
#define RUN(name, A, B, C, ...) run(#name, k_##name, (A *)0, (B *)0, (C *)0, Desc{__VA_ARGS__})
#define MR(G, name, fn, A, B, C, M, N, K, Bk, at, bt, dt) if (G##_) RUN(name, A, B, C, 0, M, N, K, Bk, at, bt, dt, 64, 0);
  MF(, MR)
  if (CD_) {
    run("cbsz2 abid3", k_cbsz, (h4 *)0, (h4 *)0, (f16v *)0, Desc{0, 16, 16, 4, 4, F16, F16, F32, 64, 0}, 2, 3);
    run("cbsz1 abid1", k_cbsz1, (float *)0, (float *)0, (f32v *)0, Desc{0, 32, 32, 1, 2, F32, F32, F32, 64, 0}, 1, 1);
    run("blgp1", k_blgp1, (float *)0, (float *)0, (f32v *)0, Desc{0, 32, 32, 1, 2, F32, F32, F32, 64, 0}, 0, 0, 1);
    run("blgp3", k_blgp3, (h4 *)0, (h4 *)0, (f16v *)0, Desc{0, 16, 16, 4, 4, F16, F16, F32, 64, 0}, 0, 0, 3);
    run("blgp6", k_blgp6, (h4 *)0, (h4 *)0, (f16v *)0, Desc{0, 16, 16, 4, 4, F16, F16, F32, 64, 0}, 0, 0, 6);
  }
#ifdef WAVE64
  if (g == "gfx1201") {
    RUN(w7_f16, h4, h4, f4, 12, 16, 16, 16, 1, F16, F16, F32, 64, 0); RUN(w7_bf16, s4, s4, f4, 12, 16, 16, 16, 1, BF16, BF16, F32, 64, 0); RUN(w7_hh, h4, h4, h4, 12, 16, 16, 16, 1, F16, F16, F16, 64, 0); RUN(w7_iu8, int, int, i4, 12, 16, 16, 16, 1, I8, I8, I32, 64, 0);
    RUN(w7_iu4, int, int, i4, 12, 16, 16, 16, 1, I4, I4, I32, 64, 0); RUN(w7_iu4x32, int, int, i4, 12, 16, 16, 32, 1, I4, I4, I32, 64, 0); RUN(w7_fp8, int, int, f4, 12, 16, 16, 16, 1, FP8, BF8, F32, 64, 0);
    return finish("wmma64");
  }
  RUN(w6_f16, h16, h16, f4, 11, 16, 16, 16, 1, F16, F16, F32, 64, 0); RUN(w6_bf16, s16, s16, f4, 11, 16, 16, 16, 1, BF16, BF16, F32, 64, 0); RUN(w6_hh, h16, h16, h8, 11, 16, 16, 16, 1, F16, F16, F16, 64, 0); RUN(w6_iu8, i4, i4, i4, 11, 16, 16, 16, 1, I8, I8, I32, 64, 0);
  return finish("wmma64");
#endif
  if (g == "gfx1100") {
    RUN(w3_f16, h16, h16, f8, 11, 16, 16, 16, 1, F16, F16, F32, 32, 0); RUN(w3_bf16, s16, s16, f8, 11, 16, 16, 16, 1, BF16, BF16, F32, 32, 0); RUN(w3_hh, h16, h16, h16, 11, 16, 16, 16, 1, F16, F16, F16, 32, 0); RUN(w3_hh1, h16, h16, h16, 11, 16, 16, 16, 1, F16, F16, F16, 32, 1); RUN(w3_bb, s16, s16, s16, 11, 16, 16, 16, 1, BF16, BF16, BF16, 32, 0);
    RUN(w3_iu8, i4, i4, i8v, 11, 16, 16, 16, 1, I8, I8, I32, 32, 0); RUN(w3_u8, i4, i4, i8v, 11, 16, 16, 16, 1, U8, I8, I32, 32, 0); RUN(w3_iu4, i2, i2, i8v, 11, 16, 16, 16, 1, I4, I4, I32, 32, 0); RUN(w3_u4, i2, i2, i8v, 11, 16, 16, 16, 1, U4, U4, I32, 32, 0);
  }
  if (g == "gfx1201") {
    RUN(w4_f16, h8, h8, f8, 12, 16, 16, 16, 1, F16, F16, F32, 32, 0); RUN(w4_bf16, s8, s8, f8, 12, 16, 16, 16, 1, BF16, BF16, F32, 32, 0); RUN(w4_hh, h8, h8, h8, 12, 16, 16, 16, 1, F16, F16, F16, 32, 0); RUN(w4_bb, s8, s8, s8, 12, 16, 16, 16, 1, BF16, BF16, BF16, 32, 0);
    RUN(w4_iu8, i2, i2, i8v, 12, 16, 16, 16, 1, I8, I8, I32, 32, 0); RUN(w4_u8, i2, i2, i8v, 12, 16, 16, 16, 1, U8, I8, I32, 32, 0); RUN(w4_iu4, int, int, i8v, 12, 16, 16, 16, 1, I4, I4, I32, 32, 0); RUN(w4_iu4x32, i2, i2, i8v, 12, 16, 16, 32, 1, I4, U4, I32, 32, 0);
    RUN(w4_fp8, i2, i2, f8, 12, 16, 16, 16, 1, FP8, FP8, F32, 32, 0); RUN(w4_bf8, i2, i2, f8, 12, 16, 16, 16, 1, BF8, BF8, F32, 32, 0); RUN(w4_fp8bf8, i2, i2, f8, 12, 16, 16, 16, 1, FP8, BF8, F32, 32, 0); RUN(w4_bf8fp8, i2, i2, f8, 12, 16, 16, 16, 1, BF8, FP8, F32, 32, 0);
  }
  return finish("matrix");
}
