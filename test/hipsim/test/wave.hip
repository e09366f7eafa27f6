// SPDX-License-Identifier: MIT
// Lane exchange, LDS, atomics, buffers, scratch, launch geometry, device variables.
#include "common.h"
#include <string>
#include <functional>
typedef unsigned u32; typedef unsigned long long u64; typedef unsigned short u16t;
typedef _Float16 h2 __attribute__((ext_vector_type(2)));
typedef u32 u4 __attribute__((ext_vector_type(4)));
#if defined(__gfx90a__) || defined(__gfx942__)
#define CDNA 1
#endif
#if defined(__gfx1100__) || defined(__gfx1201__)
#define RDNA 1
#endif
static int W; static std::string G; static bool cdna, rdna;

#define KI(name, e) __global__ void name(const int *in, int *out) { int t = threadIdx.x; int v = in[t]; (void)v; out[t] = (e); }
#define DPP(v, c, rm, bm, bc) __builtin_amdgcn_update_dpp(-7, v, c, rm, bm, bc)
KI(k_shfl, __shfl(v, (t * 7 + 3) & (warpSize - 1))) KI(k_shfl_up, __shfl_up(v, 3)) KI(k_shfl_down, __shfl_down(v, 5)) KI(k_shfl_xor, __shfl_xor(v, 9)) KI(k_shfl_w, __shfl_xor(v, 3, 8) + __shfl(v, 2, 16) * 3)
KI(k_rfl, __builtin_amdgcn_readfirstlane(v)) KI(k_rl, __builtin_amdgcn_readlane(v, 11)) KI(k_wl, ({ int r = v; asm volatile("v_writelane_b32 %0, %1, 5" : "+v"(r) : "s"(77)); r; }))
KI(k_any, __any(v > 0x7ffffff0) * 2 + __all(v != 12345)) KI(k_mbcnt, (int)__lane_id())
__global__ void k_ballot(const int *in, u64 *out) { int t = threadIdx.x; u64 m = __ballot(in[t] > 0); out[t] = m + __popcll(m); }
__global__ void k_divergent(const int *in, int *out) { int t = threadIdx.x, v = in[t]; if (t & 1) { v = __shfl_xor(v, 2); if (t & 4) v += __builtin_amdgcn_readfirstlane(v); } else { for (int i = 0; i < (t & 7); i++) v = v * 3 + i; } out[t] = v; }
KI(d_quad, DPP(v, 0x1b, 15, 15, true)) KI(d_quad2, DPP(v, 0xb1, 15, 15, false)) KI(d_shl, DPP(v, 0x103, 15, 15, true)) KI(d_shr, DPP(v, 0x115, 15, 15, true)) KI(d_ror, DPP(v, 0x124, 15, 15, true)) KI(d_mir, DPP(v, 0x140, 15, 15, true)) KI(d_hmir, DPP(v, 0x141, 15, 15, true))
KI(d_shl_nb, DPP(v, 0x103, 15, 15, false)) KI(d_mask, DPP(v, 0x121, 5, 6, true)) KI(d_mask_nb, DPP(v, 0x111, 10, 9, false))
KI(d_add, v + DPP(v, 0x128, 15, 15, true))
__global__ void d_max(const float *in, float *out) { float v = in[threadIdx.x]; out[threadIdx.x] = fmaxf(v, __int_as_float(__builtin_amdgcn_update_dpp(0, __float_as_int(v), 0x128, 15, 15, true))); }
__global__ void d_exec(const int *in, int *out) { int t = threadIdx.x, v = in[t]; out[t] = -1; if (t % 3) out[t] = DPP(v, 0x111, 15, 15, true); }
#ifdef CDNA
#define OC(e) (e)
#define OR(e) 0
#else
#define OC(e) 0
#define OR(e) (e)
#endif
KI(d_bc15, OC(DPP(v, 0x142, 15, 15, true))) KI(d_bc31, OC(DPP(v, 0x143, 15, 15, true))) KI(d_wshl, OC(DPP(v, 0x130, 15, 15, true))) KI(d_wshr, OC(DPP(v, 0x138, 15, 15, true))) KI(d_wrol, OC(DPP(v, 0x134, 15, 15, true))) KI(d_wror, OC(DPP(v, 0x13c, 15, 15, true)))
KI(d_share, OR(DPP(v, 0x155, 15, 15, true))) KI(d_xmask, OR(DPP(v, 0x166, 15, 15, true))) KI(d_dpp8, OR(__builtin_amdgcn_mov_dpp8(v, 0x3d6a21))) KI(d_newbc, OC(DPP(v, 0x153, 15, 15, true)))
KI(k_pl16, OR(__builtin_amdgcn_permlane16(0, v, 0x67452301, 0xefcdab89, false, false))) KI(k_plx16, OR(__builtin_amdgcn_permlanex16(0, v, 0x01234567, 0x89abcdef, false, false)))
#if defined(__gfx1201__)
KI(k_pl16v, __builtin_amdgcn_permlane16_var(0, v, t * 5, false, false)) KI(k_plx16v, __builtin_amdgcn_permlanex16_var(0, v, t * 3 + 1, false, false))
#else
KI(k_pl16v, 0) KI(k_plx16v, 0)
#endif
KI(k_swz_swap, __builtin_amdgcn_ds_swizzle(v, 0x401f)) KI(k_swz_rev, __builtin_amdgcn_ds_swizzle(v, 0x7c1f)) KI(k_swz_bc, __builtin_amdgcn_ds_swizzle(v, 0x0018)) KI(k_swz_quad, __builtin_amdgcn_ds_swizzle(v, 0x801b)) KI(k_bperm, __builtin_amdgcn_ds_bpermute(((t * 5 + 1) & 31) * 4, v)) KI(k_perm, __builtin_amdgcn_ds_permute(((t * 5 + 1) & (warpSize - 1)) * 4, v))

// LDS of all widths; dynamic LDS; several waves
template <class T> __global__ void k_lds(const T *in, T *out) { __shared__ T s[256]; int t = threadIdx.x, n = blockDim.x; s[t] = in[t]; __syncthreads(); T a = s[n - 1 - t], b = s[(t * 3 + 1) % n]; out[t] = t & 1 ? a : b; }
__global__ void k_dyn(const int *in, int *out) { extern __shared__ int sh[]; int t = threadIdx.x, n = blockDim.x; sh[t] = in[blockIdx.x * n + t]; sh[t + n] = t; __syncthreads(); out[blockIdx.x * n + t] = sh[n - 1 - t] + sh[n + ((t + 5) % n)]; }
__global__ void k_half(const u16t *in, u16t *out) { __shared__ u16t s[512]; int t = threadIdx.x; for (int i = 0; i < 2; i++) s[t + 256 * i] = in[t + 256 * i]; __syncthreads(); u32 p = s[t * 2] | (u32)s[511 - t] << 16; out[t] = (u16t)(p * 3 >> 5); out[t + 256] = s[(t * 7) & 511]; }
__global__ void k_bytes(const unsigned char *in, int *out) { __shared__ signed char s[1024]; int t = threadIdx.x; for (int i = 0; i < 4; i++) s[t * 4 + i] = in[t * 4 + i]; __syncthreads(); out[t] = s[(t * 13) & 1023] + s[1023 - t] * 256; }
__global__ void k_2addr(const u64 *in, u64 *out) { __shared__ u64 s[1024]; int t = threadIdx.x; for (int i = 0; i < 4; i++) s[t + 256 * i] = in[t] + i; __syncthreads(); int r = 255 - t; out[t] = s[r] + s[r + 256] * 3 + s[r + 512] * 5 + s[r + 768] * 7; }
__global__ void k_reduce(const float *in, float *out, int n) { __shared__ float s[32]; int t = threadIdx.x; float v = 0; for (int i = t; i < n; i += blockDim.x) v += in[blockIdx.x * n + i]; for (int m = warpSize / 2; m; m >>= 1) v += __shfl_xor(v, m); if (!(t % warpSize)) s[t / warpSize] = v; __syncthreads(); if (!t) { float r = 0; for (int i = 0; i < (int)(blockDim.x / warpSize); i++) r += s[i]; out[blockIdx.x] = r; } }
__global__ void k_pipeline(const int *in, int *out, int rounds) { __shared__ int s[2][256]; int t = threadIdx.x; s[0][t] = in[t]; for (int r = 0; r < rounds; r++) { __syncthreads(); s[(r + 1) & 1][t] = s[r & 1][(t + 37) & 255] * 3 + s[r & 1][(t * 5) & 255]; } __syncthreads(); out[t] = s[rounds & 1][t]; }
// atomics
__global__ void k_lds_atom(const int *in, u32 *out) {
  __shared__ u32 s[16]; __shared__ float f[2]; __shared__ u64 q[3]; int t = threadIdx.x; u32 v = in[t];
  if (t < 16) s[t] = t == 3 || t == 4 ? 0x7fffffff : t == 6 ? ~0u : 0; if (t < 2) f[t] = 0; if (t < 3) q[t] = 0;
  __syncthreads();
  atomicAdd(&s[0], v); atomicSub(&s[1], v); atomicMax((int *)&s[2], (int)v); atomicMin((int *)&s[3], (int)v); atomicMin(&s[4], v); atomicMax(&s[5], v); atomicAnd(&s[6], v | 0xffff0000); atomicOr(&s[7], v & 0xff); atomicXor(&s[8], v); __builtin_amdgcn_atomic_inc32(&s[9], 100, __ATOMIC_RELAXED, "agent"); __builtin_amdgcn_atomic_dec32(&s[10], 50, __ATOMIC_RELAXED, "agent");
  u32 tick = atomicAdd(&s[11], 1u); atomicAdd(&s[12], tick); atomicExch(&s[13], 7u); atomicAdd(&f[0], 0.5f); atomicAdd(&q[0], (u64)v); atomicMax(&q[1], (u64)v << 20); u32 old, c = s[14]; do { old = c; c = atomicCAS(&s[14], old, old + 3); } while (c != old); atomicAdd(&s[15], 2u);
  __syncthreads();
  if (t < 16) out[t] = s[t]; if (!t) { out[16] = __float_as_int(f[0]); out[17] = (u32)q[0]; out[18] = q[0] >> 32; out[19] = (u32)q[1]; out[20] = q[1] >> 32; }
}
__global__ void k_glob_atom(const int *in, u32 *s, float *f, u64 *q, double *d, h2 *h) {
  int t = blockIdx.x * blockDim.x + threadIdx.x; u32 v = in[threadIdx.x];
  atomicAdd(&s[0], v); atomicSub(&s[1], v); atomicMax((int *)&s[2], (int)v); atomicMin((int *)&s[3], (int)v); atomicMin(&s[4], v); atomicMax(&s[5], v); atomicAnd(&s[6], v | 0xffff0000); atomicOr(&s[7], v & 0xff); atomicXor(&s[8], v); __builtin_amdgcn_atomic_inc32(&s[9], 100, __ATOMIC_RELAXED, "agent"); __builtin_amdgcn_atomic_dec32(&s[10], 50, __ATOMIC_RELAXED, "agent");
  u32 tick = atomicAdd(&s[11], 1u); atomicAdd(&s[12], tick); atomicExch(&s[13], 7u); atomicCAS(&s[14], 0u, 9u);
  unsafeAtomicAdd(&f[t & 3], 0.25f); atomicAdd(&q[0], (u64)v << 16); atomicMax(&q[1], (u64)v << 20); atomicAdd(&d[0], 0.5);
  float *m = &f[4]; u32 *mp = (u32 *)m, c = *mp, o; do { o = c; c = atomicCAS(mp, o, __float_as_uint(fmaxf(__uint_as_float(o), (float)t))); } while (c != o);
  (void)h;
}
// buffers, flat, scratch, LDS DMA
__global__ void k_buffer(int *in, int *out, int n) {
  int t = threadIdx.x;
  __amdgpu_buffer_rsrc_t r = __builtin_amdgcn_make_buffer_rsrc(in, 0, n * 4,
#if defined(CDNA)
    0x27000
#else
    0x31027000
#endif
  ), w = __builtin_amdgcn_make_buffer_rsrc(out, 0, 1024,
#if defined(CDNA)
    0x27000
#else
    0x31027000
#endif
  );
  int a = __builtin_amdgcn_raw_buffer_load_b32(r, t * 4, 0, 0), b = __builtin_amdgcn_raw_buffer_load_b32(r, t * 4 + 16, 8, 0); short c = __builtin_amdgcn_raw_buffer_load_b16(r, t * 2, 0, 0);
  __builtin_amdgcn_raw_buffer_store_b32(a + b * 3 + c, w, t * 4, 0, 0);
}
__global__ void k_flat(int *a, int *out, int sel) { __shared__ int s[256]; int l[4] = {1, 2, 3, 4}; int t = threadIdx.x; s[t] = a[t] * 2; l[t & 3] += t; __syncthreads(); volatile int *p = t % 3 == 0 ? &s[(t + 1) & 255] : t % 3 == 1 ? &a[(t + 2) & 255] : &l[(t + sel) & 3]; int v = *p; if (t % 3 == 2) *p = v + 5; out[t] = v + l[(t + sel) & 3]; }
__global__ void k_dma(const u32 *a, u32 *out) {
#if defined(__gfx942__)
  __shared__ u32 s[512]; int t = threadIdx.x, w = t / 64;
  __builtin_amdgcn_global_load_lds((const __attribute__((address_space(1))) u32 *)(a + t), (__attribute__((address_space(3))) u32 *)(s + w * 64), 4, 0, 0);
  __builtin_amdgcn_s_waitcnt(0); __syncthreads(); out[t] = s[255 - t];
#endif
}
#if defined(CDNA)
extern "C" __device__ void buffer_load_lds(__amdgpu_buffer_rsrc_t, __attribute__((address_space(3))) void *, int, int, int, int, int) __asm("llvm.amdgcn.raw.ptr.buffer.load.lds");
#endif
__global__ void k_bufdma(u32 *a, u32 *out) {      // buffer load to LDS
#if defined(CDNA)
  __shared__ u32 s[256]; int t = threadIdx.x, w = t / 64;
  __amdgpu_buffer_rsrc_t r = __builtin_amdgcn_make_buffer_rsrc(a, 0, 1024, 0x27000);
  buffer_load_lds(r, (__attribute__((address_space(3))) void *)(s + w * 64), 4, t * 4, 0, 0, 0);
  __builtin_amdgcn_s_waitcnt(0); __syncthreads(); out[t] = s[255 - t];
#endif
}
__device__ int dvar[64]; __constant__ float cvar[8]; __device__ int dinit = 42;
__global__ void k_vars(int *out, float *fo) { int t = threadIdx.x; out[t] = dvar[t] + dinit; fo[t] = cvar[t & 7] * 2; if (t < 4) dvar[t] = t * 100; }
__global__ void k_geom(u32 *out) { u32 b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x, t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; out[b * blockDim.x * blockDim.y * blockDim.z + t] = b * 1000 + t + (blockIdx.x << 20) + (threadIdx.y << 24) + (threadIdx.z << 28); }
__global__ void k_time(u64 *out) { u64 a = clock64(); __builtin_amdgcn_s_sleep(1); u64 b = clock64(), c = __builtin_readcyclecounter(); out[threadIdx.x] = (b > a) + 2 * (c < (1ull << 60)); }
// uniform values: scalar float on gfx12
__global__ void k_uniform(float *out, float a, float b, int n, u32 m) { float r = a; for (int i = 0; i < n; i++) { r = r * b + (float)i; r = fmaxf(fminf(r, 50.0f), -50.0f); if (r < 3.0f) r += floorf(a * 1.5f) + truncf(b); else r -= ceilf(b) * rintf(a); } _Float16 h = (_Float16)r; h = h * (_Float16)1.5f + (_Float16)m; out[threadIdx.x] = r + (float)h + (float)(int)r + (float)(m >> 3) + __builtin_fmaf(a, b, r); }
// registers addressed by a run-time index
__global__ void k_movrel(const int *in, int *out, int k) { typedef int v16 __attribute__((ext_vector_type(16))); int t = threadIdx.x; v16 x; for (int i = 0; i < 16; i++) x[i] = in[t] * (i + 1); x[k & 15] += 5; int j = __builtin_amdgcn_readfirstlane(k * 3); out[t] = x[j & 15] + x[k & 15] * 2; }
__global__ void k_dot(const u32 *a, const u32 *b, float *fo, int *io) {
  int t = threadIdx.x; h2 x, y; u32 ua = a[t] & 0x3bff3bff, ub = b[t] & 0xbbffbbff; memcpy(&x, &ua, 4); memcpy(&y, &ub, 4);
  fo[t] = __builtin_amdgcn_fdot2(x, y, 1.5f, false);
#if defined(CDNA)
  io[t] = __builtin_amdgcn_sdot4(a[t], b[t], 7, false) + __builtin_amdgcn_udot4(a[t], b[t], 3, false) + __builtin_amdgcn_sdot8(a[t], b[t], 1, false);
#else
  io[t] = __builtin_amdgcn_sudot4(true, a[t], true, b[t], 7, false) + __builtin_amdgcn_udot4(a[t], b[t], 3, false) + __builtin_amdgcn_sudot8(true, a[t], true, b[t], 1, false);
#endif
}
__global__ void k_misc(const u32 *a, const u32 *b, u32 *o) {
  int t = threadIdx.x; u32 x = a[t], y = b[t];
  o[t] = __builtin_amdgcn_perm(x, y, 0x05010700 + (x & 3)) + __builtin_amdgcn_alignbit(x, y, t & 31) * 3 + __builtin_amdgcn_alignbyte(x, y, t & 3) * 5 + __builtin_amdgcn_ubfe(x, t & 31, 7) * 7 + __builtin_amdgcn_sbfe(y, t & 15, 9) * 11 + __builtin_amdgcn_sad_u8(x, y, 13) + __builtin_amdgcn_lerp(x, y, 0x01010101) + __mul24((int)x, (int)y);
}
__global__ void k_fp8(const float *a, float *o, u32 *p) {
#if defined(__gfx942__) || defined(__gfx1201__)
  int t = threadIdx.x; u32 r = __builtin_amdgcn_cvt_pk_fp8_f32(a[t], a[t] * 0.5f, 0, false); r = __builtin_amdgcn_cvt_pk_bf8_f32(a[t] * 2, a[t] * 4, r, true); p[t] = r;
  o[t] = __builtin_amdgcn_cvt_f32_fp8(r, 0) + 1000 * __builtin_amdgcn_cvt_f32_fp8(r, 1) + 1e6f * __builtin_amdgcn_cvt_f32_bf8(r, 2) + 1e10f * __builtin_amdgcn_cvt_f32_bf8(r, 3);
#endif
}
__global__ void k_asm(const u32 *a, u32 *o) {     // encodings the compiler rarely picks
  int t = threadIdx.x; u32 x = a[t], r = 0, s = 0;
#if defined(CDNA)
  asm volatile("v_add_u32_sdwa %0, %1, %1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:WORD_1" : "=v"(r) : "v"(x));
  asm volatile("v_accvgpr_write_b32 a3, %1\n\ts_nop 4\n\tv_accvgpr_read_b32 %0, a3" : "=v"(s) : "v"(x) : "a3");
  r += s;
  asm volatile("v_mov_b32_sdwa %0, sext(%1) dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_2" : "+v"(r) : "v"(x));
#elif defined(RDNA)
  asm volatile("v_mov_b32_dpp %0, %1 dpp8:[7,6,5,4,3,2,1,0]" : "=v"(r) : "v"(x));
  asm volatile("v_add_nc_u16 %0, %1, %1 op_sel:[1,0,1]" : "+v"(r) : "v"(x));
  asm volatile("v_cmp_lt_u32_dpp vcc_lo, %1, %1 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf bound_ctrl:1\n\tv_cndmask_b32 %0, 0, 1, vcc_lo" : "=v"(s) : "v"(x) : "vcc");
  r += s;
#endif
  o[t] = r;
}
typedef short bf2 __attribute__((ext_vector_type(2)));
__global__ void k_pkatom(h2 *g, bf2 *b, double *d, h2 *o) {     // packed and double atomics
  int t = threadIdx.x; (void)t; h2 v = {(_Float16)0.5f, (_Float16)-1.0f}; bf2 w = {0x3f00, (short)0xbf80};
#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx1201__)
  __builtin_amdgcn_global_atomic_fadd_v2f16((__attribute__((address_space(1))) h2 *)(g + (t & 1)), v);
#endif
#if defined(__gfx942__) || defined(__gfx1201__)
  __shared__ h2 s[2]; if (t < 2) s[t] = (h2)(_Float16)0.0f; __syncthreads();
  __builtin_amdgcn_global_atomic_fadd_v2bf16((__attribute__((address_space(1))) bf2 *)(b + (t & 1)), w);
  __builtin_amdgcn_ds_atomic_fadd_v2f16((__attribute__((address_space(3))) h2 *)(s + (t & 1)), v); __syncthreads(); if (t < 2) o[t] = s[t];
#endif
#if defined(CDNA)
  __builtin_amdgcn_global_atomic_fadd_f64((__attribute__((address_space(1))) double *)d, 0.25); __builtin_amdgcn_global_atomic_fmax_f64((__attribute__((address_space(1))) double *)(d + 1), (double)t); __builtin_amdgcn_global_atomic_fmin_f64((__attribute__((address_space(1))) double *)(d + 2), -(double)t);
#endif
}
template <class T> using V = std::vector<T>;
static void lanes(const char *name, void (*k)(const int *, int *), std::function<int(const V<int> &, int)> ref, int n = 0) {
  if (!n) n = W;
  V<int> in(n); for (auto &x : in) x = (int)rng(); Dev<int> d(in), o((size_t)n);
  k<<<dim3(1), dim3(n), 0, 0>>>(d.p, o.p); CHECK(hipGetLastError());
  auto r = o.get(); char m[100] = ""; int bad = 0;
  for (int l = 0; l < n; l++) { int e = ref(in, l); if (r[l] != e && !bad++) snprintf(m, sizeof m, "lane %d: got %d want %d", l, r[l], e); }
  result(name, !bad, m);
}
template <class T> static void lds(const char *name, int n) {
  V<T> in(n); for (auto &x : in) { unsigned char b[sizeof(T)]; for (auto &c : b) c = rng(); memcpy(&x, b, sizeof(T)); } Dev<T> d(in), o((size_t)n);
  k_lds<T><<<dim3(1), dim3(n), 0, 0>>>(d.p, o.p); CHECK(hipGetLastError());
  auto r = o.get(); bool ok = true; for (int t = 0; t < n; t++) { T e = t & 1 ? in[n - 1 - t] : in[(t * 3 + 1) % n]; ok &= !memcmp(&e, &r[t], sizeof(T)); }
  result(name, ok);
}
struct B12 { u32 x[3]; };
int main() {
  hipDeviceProp_t p; CHECK(hipGetDeviceProperties(&p, 0)); W = p.warpSize; G = p.gcnArchName; G = G.substr(0, G.find(':')); cdna = W == 64; rdna = !cdna;
  typedef const V<int> &I;
  lanes("shfl", k_shfl, [](I a, int l) { return a[(l * 7 + 3) & (W - 1)]; }); lanes("shfl_up", k_shfl_up, [](I a, int l) { return a[l >= 3 ? l - 3 : l]; }); lanes("shfl_down", k_shfl_down, [](I a, int l) { return a[l + 5 < W ? l + 5 : l]; }); lanes("shfl_xor", k_shfl_xor, [](I a, int l) { return a[l ^ 9]; });
  lanes("shfl width", k_shfl_w, [](I a, int l) { return (int)((u32)a[l ^ 3] + (u32)a[(l & ~15) + 2] * 3); });
  lanes("readfirstlane", k_rfl, [](I a, int) { return a[0]; }); lanes("readlane", k_rl, [](I a, int) { return a[11]; }); lanes("writelane", k_wl, [](I a, int l) { return l == 5 ? 77 : a[l]; }); lanes("any/all", k_any, [](I a, int) { bool y = false, z = true; for (int x : a) { y |= x > 0x7ffffff0; z &= x != 12345; } return y * 2 + z; }); lanes("mbcnt", k_mbcnt, [](I, int l) { return l; });
  { V<int> in(W); for (auto &x : in) x = (int)rng(); Dev<int> d(in); Dev<u64> o((size_t)W); k_ballot<<<dim3(1), dim3(W), 0, 0>>>(d.p, o.p); u64 m = 0; for (int l = 0; l < W; l++) m |= (u64)(in[l] > 0) << l; bool ok = true; for (u64 x : o.get()) ok &= x == m + __builtin_popcountll(m); result("ballot", ok); }
  lanes("divergent", k_divergent, [](I a, int l) { if (l & 1) { auto f = [&](int k) { return a[k ^ 2]; }; int v = f(l); if (l & 4) v = (int)((u32)v + (u32)f(5)); return v; } u32 v = a[l]; for (int i = 0; i < (l & 7); i++) v = v * 3 + i; return (int)v; });
  lanes("dpp quad_perm", d_quad, [](I a, int l) { return a[l ^ 3]; }); lanes("dpp quad_perm nb", d_quad2, [](I a, int l) { return a[l ^ 1]; }); lanes("dpp row_shl", d_shl, [](I a, int l) { return (l & 15) + 3 < 16 ? a[l + 3] : 0; }); lanes("dpp row_shr", d_shr, [](I a, int l) { return (l & 15) >= 5 ? a[l - 5] : 0; }); lanes("dpp row_ror", d_ror, [](I a, int l) { return a[(l & ~15) | ((l - 4) & 15)]; }); lanes("dpp mirror", d_mir, [](I a, int l) { return a[l ^ 15]; }); lanes("dpp half_mirror", d_hmir, [](I a, int l) { return a[l ^ 7]; });
  lanes("dpp keep old", d_shl_nb, [](I a, int l) { return (l & 15) + 3 < 16 ? a[l + 3] : -7; }); lanes("dpp masks", d_mask, [](I a, int l) { return (5 >> (l >> 4) & 1) && (6 >> (l >> 2 & 3) & 1) ? a[(l & ~15) | ((l - 1) & 15)] : -7; }); lanes("dpp masks nb", d_mask_nb, [](I a, int l) { return (10 >> (l >> 4) & 1) && (9 >> (l >> 2 & 3) & 1) && (l & 15) ? a[l - 1] : -7; });
  lanes("dpp add", d_add, [](I a, int l) { return (int)((u32)a[l] + (u32)a[l ^ 8]); }); lanes("dpp exec", d_exec, [](I a, int l) { return l % 3 == 0 ? -1 : (l & 15) && (l - 1) % 3 ? a[l - 1] : 0; });
  { V<float> in(W); for (auto &x : in) x = (float)(int)rng(); Dev<float> d(in), o((size_t)W); d_max<<<dim3(1), dim3(W), 0, 0>>>(d.p, o.p); auto r = o.get(); bool ok = true; for (int l = 0; l < W; l++) ok &= r[l] == fmaxf(in[l], in[l ^ 8]); result("dpp max f32", ok); }
  if (cdna) {
    lanes("dpp row_bcast15", d_bc15, [](I a, int l) { return l >= 16 ? a[(l & ~15) - 1] : 0; }); lanes("dpp row_bcast31", d_bc31, [](I a, int l) { return l >= 32 ? a[31] : 0; }); lanes("dpp wave_shl", d_wshl, [](I a, int l) { return l < 63 ? a[l + 1] : 0; }); lanes("dpp wave_shr", d_wshr, [](I a, int l) { return l ? a[l - 1] : 0; }); lanes("dpp wave_rol", d_wrol, [](I a, int l) { return a[(l + 1) & 63]; }); lanes("dpp wave_ror", d_wror, [](I a, int l) { return a[(l - 1) & 63]; }); lanes("dpp row_newbcast", d_newbc, [](I a, int l) { return a[(l & ~15) | 3]; });
  } else {
    lanes("dpp row_share", d_share, [](I a, int l) { return a[(l & ~15) | 5]; }); lanes("dpp row_xmask", d_xmask, [](I a, int l) { return a[l ^ 6]; }); lanes("dpp8", d_dpp8, [](I a, int l) { return a[(l & ~7) | (0x3d6a21 >> (3 * (l & 7)) & 7)]; });
    lanes("permlane16", k_pl16, [](I a, int l) { return a[l ^ 1]; }); lanes("permlanex16", k_plx16, [](I a, int l) { u64 s = 0x89abcdef01234567ull; return a[((l & ~15) ^ 16) | (int)(s >> (4 * (l & 15)) & 15)]; });
    if (G == "gfx1201") { lanes("permlane16_var", k_pl16v, [](I a, int l) { return a[(l & ~15) | ((l * 5) & 15)]; }); lanes("permlanex16_var", k_plx16v, [](I a, int l) { return a[((l & ~15) ^ 16) | ((l * 3 + 1) & 15)]; }); }
  }
  lanes("swizzle swap16", k_swz_swap, [](I a, int l) { return a[l ^ 16]; }); lanes("swizzle reverse", k_swz_rev, [](I a, int l) { return a[l ^ 31]; }); lanes("swizzle broadcast", k_swz_bc, [](I a, int l) { return a[l & ~7]; }); lanes("swizzle quad", k_swz_quad, [](I a, int l) { return a[l ^ 3]; });
  lanes("bpermute", k_bperm, [](I a, int l) { return a[(l * 5 + 1) & 31]; }); lanes("permute", k_perm, [](I a, int l) { for (int s = 0; s < W; s++) if (((s * 5 + 1) & (W - 1)) == l) return a[s]; return 0; });
  lds<unsigned char>("lds b8", 256); lds<u16t>("lds b16", 256); lds<u32>("lds b32", 256); lds<u64>("lds b64", 256); lds<B12>("lds b96", 192); lds<u4>("lds b128", 256);
  { V<int> in(1024); for (auto &x : in) x = (int)rng(); Dev<int> d(in), o((size_t)1024); k_dyn<<<dim3(4), dim3(256), 2048, 0>>>(d.p, o.p); auto r = o.get(); bool ok = true; for (int b = 0; b < 4; b++) for (int t = 0; t < 256; t++) ok &= r[b * 256 + t] == (int)((u32)in[b * 256 + 255 - t] + (t + 5) % 256); result("dynamic lds", ok); }
  { V<u16t> in(512); for (auto &x : in) x = rng(); Dev<u16t> d(in), o((size_t)512); k_half<<<dim3(1), dim3(256), 0, 0>>>(d.p, o.p); auto r = o.get(); bool ok = true; for (int t = 0; t < 256; t++) { u32 q = in[t * 2] | (u32)in[511 - t] << 16; ok &= r[t] == (u16t)(q * 3 >> 5) && r[t + 256] == in[(t * 7) & 511]; } result("lds d16", ok); }
  { V<unsigned char> in(1024); for (auto &x : in) x = rng(); Dev<unsigned char> d(in); Dev<int> o((size_t)256); k_bytes<<<dim3(1), dim3(256), 0, 0>>>(d.p, o.p); auto r = o.get(); bool ok = true; for (int t = 0; t < 256; t++) ok &= r[t] == (signed char)in[(t * 13) & 1023] + (signed char)in[1023 - t] * 256; result("lds bytes", ok); }
  { V<u64> in(256); for (auto &x : in) x = rng(); Dev<u64> d(in), o((size_t)256); k_2addr<<<dim3(1), dim3(256), 0, 0>>>(d.p, o.p); auto r = o.get(); bool ok = true; for (int t = 0; t < 256; t++) { u64 v = in[255 - t]; ok &= r[t] == v + (v + 1) * 3 + (v + 2) * 5 + (v + 3) * 7; } result("lds 2addr", ok); }
  { V<float> in(4000); for (auto &x : in) x = (float)(int)(rng() % 100); Dev<float> d(in), o((size_t)4); k_reduce<<<dim3(4), dim3(256), 0, 0>>>(d.p, o.p, 1000); auto r = o.get(); bool ok = true; for (int b = 0; b < 4; b++) { float s = 0; for (int i = 0; i < 1000; i++) s += in[b * 1000 + i]; ok &= s == r[b]; } result("reduce", ok); }
  { V<int> in(256); for (auto &x : in) x = (int)rng(); Dev<int> d(in), o((size_t)256); k_pipeline<<<dim3(1), dim3(256), 0, 0>>>(d.p, o.p, 9); V<u32> a(in.begin(), in.end()), b(256); for (int r = 0; r < 9; r++) { for (int t = 0; t < 256; t++) b[t] = a[(t + 37) & 255] * 3 + a[(t * 5) & 255]; a.swap(b); } auto r = o.get(); bool ok = true; for (int t = 0; t < 256; t++) ok &= (u32)r[t] == a[t]; result("barriers", ok); }
  auto atom = [](const V<int> &in, int times, V<u32> s) { u32 n = 0; for (int k = 0; k < times; k++) for (int x : in) { u32 v = x; s[0] += v; s[1] -= v; if ((int)v > (int)s[2]) s[2] = v; if ((int)v < (int)s[3]) s[3] = v; if (v < s[4]) s[4] = v; if (v > s[5]) s[5] = v; s[6] &= v | 0xffff0000; s[7] |= v & 0xff; s[8] ^= v; s[9] = s[9] >= 100 ? 0 : s[9] + 1; s[10] = s[10] == 0 || s[10] > 50 ? 50 : s[10] - 1; s[12] += n++; } s[11] = n; s[13] = 7; return s; };
  { V<int> in(256); for (auto &x : in) x = (int)rng(); Dev<int> d(in); Dev<u32> o((size_t)32); k_lds_atom<<<dim3(1), dim3(256), 0, 0>>>(d.p, o.p); V<u32> s(16); s[3] = s[4] = 0x7fffffff; s[6] = ~0u; s = atom(in, 1, s); s[14] = 768; s[15] = 512; auto r = o.get(); char m[100] = ""; bool ok = true; for (int i = 0; i < 16; i++) if (r[i] != s[i]) { ok = false; snprintf(m, 100, "slot %d: %u want %u", i, r[i], s[i]); }
    u64 q0 = 0, q1 = 0; for (int x : in) { q0 += (u32)x; u64 v = (u64)(u32)x << 20; if (v > q1) q1 = v; } float f = 128; u32 fb; memcpy(&fb, &f, 4); if (r[16] != fb || r[17] != (u32)q0 || r[18] != q0 >> 32 || r[19] != (u32)q1 || r[20] != q1 >> 32) { ok = false; strcpy(m, "float or 64-bit"); } result("lds atomics", ok, m); }
  { V<int> in(256); for (auto &x : in) x = (int)rng(); Dev<int> d(in); V<u32> s(16); s[3] = s[4] = 0x7fffffff; s[6] = ~0u; Dev<u32> ds(s); Dev<float> f((size_t)8); Dev<u64> q((size_t)4); Dev<double> dd((size_t)2); Dev<h2> h((size_t)4); k_glob_atom<<<dim3(4), dim3(256), 0, 0>>>(d.p, ds.p, f.p, q.p, dd.p, h.p); CHECK(hipGetLastError()); s = atom(in, 4, s); s[14] = 9; auto r = ds.get(); char m[100] = ""; bool ok = true; for (int i = 0; i < 15; i++) if (r[i] != s[i]) { ok = false; snprintf(m, 100, "slot %d: %u want %u", i, r[i], s[i]); }
    auto fr = f.get(); for (int i = 0; i < 4; i++) if (fr[i] != 64) ok = false, strcpy(m, "float add"); if (fr[4] != 1023) ok = false, strcpy(m, "float max by cas"); u64 q0 = 0, q1 = 0; for (int x : in) { q0 += 4 * ((u64)(u32)x << 16); u64 v = (u64)(u32)x << 20; if (v > q1) q1 = v; } auto qr = q.get(); if (qr[0] != q0 || qr[1] != q1) ok = false, strcpy(m, "64-bit"); if (dd.get()[0] != 512) ok = false, strcpy(m, "double"); result("global atomics", ok, m); }
  { V<int> in(256); for (auto &x : in) x = (int)rng(); Dev<int> d(in), o((size_t)256); k_buffer<<<dim3(1), dim3(256), 0, 0>>>(d.p, o.p, 200); CHECK(hipGetLastError()); auto r = o.get(); bool ok = true; for (int t = 0; t < 256; t++) { auto at = [&](int i) { return i < 200 ? (u32)in[i] : 0u; }; short c = (short)(at(t / 2) >> (t & 1 ? 16 : 0)); ok &= (u32)r[t] == at(t) + at(t + 6) * 3 + (u32)(int)c; } result("buffers", ok); }
  { V<int> in(256); for (auto &x : in) x = (int)(rng() % 100000); Dev<int> d(in), o((size_t)256); k_flat<<<dim3(1), dim3(256), 0, 0>>>(d.p, o.p, 1); CHECK(hipGetLastError()); auto r = o.get(); bool ok = true; for (int t = 0; t < 256; t++) { int l[4] = {1, 2, 3, 4}; l[t & 3] += t; int v = t % 3 == 0 ? in[(t + 1) & 255] * 2 : t % 3 == 1 ? in[(t + 2) & 255] : l[(t + 1) & 3]; if (t % 3 == 2) l[(t + 1) & 3] = v + 5; ok &= r[t] == v + l[(t + 1) & 3]; } result("flat", ok); }
  if (G == "gfx942") { V<u32> in(256); for (auto &x : in) x = rng(); Dev<u32> d(in), o((size_t)256); k_dma<<<dim3(1), dim3(256), 0, 0>>>(d.p, o.p); CHECK(hipGetLastError()); auto r = o.get(); bool ok = true; for (int t = 0; t < 256; t++) ok &= r[t] == in[255 - t]; result("global_load_lds", ok); }
  if (cdna) { V<u32> in(256); for (auto &x : in) x = rng(); Dev<u32> d(in), o((size_t)256); k_bufdma<<<dim3(1), dim3(256), 0, 0>>>(d.p, o.p); CHECK(hipGetLastError()); auto r = o.get(); bool ok = true; for (int t = 0; t < 256; t++) ok &= r[t] == in[255 - t]; result("buffer_load lds", ok); }
  { int hv[64]; float cv[8]; for (int i = 0; i < 64; i++) hv[i] = i * i; for (int i = 0; i < 8; i++) cv[i] = i + 0.5f; CHECK(hipMemcpyToSymbol(HIP_SYMBOL(dvar), hv, sizeof hv)); CHECK(hipMemcpyToSymbol(HIP_SYMBOL(cvar), cv, sizeof cv)); Dev<int> o((size_t)64); Dev<float> f((size_t)64); k_vars<<<dim3(1), dim3(64), 0, 0>>>(o.p, f.p); auto r = o.get(); auto fr = f.get(); bool ok = true; for (int t = 0; t < 64; t++) ok &= r[t] == hv[t] + 42 && fr[t] == cv[t & 7] * 2; CHECK(hipMemcpyFromSymbol(hv, HIP_SYMBOL(dvar), 16)); for (int t = 0; t < 4; t++) ok &= hv[t] == t * 100; result("device variables", ok); }
  { dim3 g(3, 2, 2), b(5, 3, 4); Dev<u32> o((size_t)12 * 60); k_geom<<<g, b, 0, 0>>>(o.p); auto r = o.get(); bool ok = true; for (u32 i = 0; i < 720; i++) { u32 bb = i / 60, t = i % 60; ok &= r[i] == bb * 1000 + t + ((bb % 3) << 20) + ((t / 5 % 3) << 24) + ((t / 15) << 28); } result("geometry", ok); }
  { Dev<u64> o((size_t)64); k_time<<<dim3(1), dim3(64), 0, 0>>>(o.p); CHECK(hipGetLastError()); bool ok = true; for (u64 x : o.get()) ok &= x == 3; result("clock", ok); }
  { Dev<float> o((size_t)64); float a = 1.7f, b = 0.9f; int n = 12; u32 m = 77; k_uniform<<<dim3(1), dim3(64), 0, 0>>>(o.p, a, b, n, m); CHECK(hipGetLastError()); float r = a; for (int i = 0; i < n; i++) { r = r * b + (float)i; r = fmaxf(fminf(r, 50.0f), -50.0f); if (r < 3.0f) r += floorf(a * 1.5f) + truncf(b); else r -= ceilf(b) * rintf(a); } _Float16 h = (_Float16)r; h = (_Float16)((float)(_Float16)((float)h * 1.5f) + (float)(_Float16)(float)m); float e = r + (float)h + (float)(int)r + (float)(m >> 3) + fmaf(a, b, r); char t[80]; snprintf(t, 80, "%g want %g", o.get()[0], e); result("uniform float", o.get()[63] == e, t); }
  for (int k = 0; k < 3; k++) { V<int> in(W); for (auto &x : in) x = (int)(rng() % 1000); Dev<int> d(in), o((size_t)W); k_movrel<<<dim3(1), dim3(W), 0, 0>>>(d.p, o.p, k * 5 + 2); CHECK(hipGetLastError()); auto r = o.get(); bool ok = true; for (int t = 0; t < W; t++) { int x[16], i = k * 5 + 2; for (int j = 0; j < 16; j++) x[j] = in[t] * (j + 1); x[i & 15] += 5; ok &= r[t] == x[(i * 3) & 15] + x[i & 15] * 2; } result("indexed registers", ok); }
  { V<u32> a(64), b(64); for (auto &x : a) x = rng(); for (auto &x : b) x = rng(); Dev<u32> da(a), db(b), o((size_t)64); Dev<float> f((size_t)64); Dev<int> io((size_t)64); k_dot<<<dim3(1), dim3(64), 0, 0>>>(da.p, db.p, f.p, io.p); CHECK(hipGetLastError()); auto fr = f.get(); auto ir = io.get(); bool okf = true, oki = true;
    for (int t = 0; t < 64; t++) { u32 ua = a[t] & 0x3bff3bff, ub = b[t] & 0xbbffbbff; h2 x, y; memcpy(&x, &ua, 4); memcpy(&y, &ub, 4); auto z = [](_Float16 h) { float v = (float)h; return G == "gfx90a" && fabsf(v) < 0x1p-14f ? 0.0f : v; }; double e = 1.5 + (double)z(x.x) * z(y.x) + (double)z(x.y) * z(y.y); okf &= fabs(fr[t] - e) < 1e-6; int s = 0; for (int i = 0; i < 32; i += 8) s += (signed char)(a[t] >> i) * (signed char)(b[t] >> i) + (int)((a[t] >> i & 255) * (b[t] >> i & 255)); for (int i = 0; i < 32; i += 4) s += ((int)(a[t] << (28 - i)) >> 28) * ((int)(b[t] << (28 - i)) >> 28); oki &= ir[t] == s + 11; } result("dot2 f16", okf); result("dot4 dot8", oki);
    k_misc<<<dim3(1), dim3(64), 0, 0>>>(da.p, db.p, o.p); auto r = o.get(); bool ok = true; for (u32 t = 0; t < 64; t++) { u32 x = a[t], y = b[t], sel = 0x05010700 + (x & 3), pm = 0; u64 c = (u64)x << 32 | y; for (int i = 0; i < 4; i++) pm |= (u32)(c >> (8 * (sel >> (8 * i) & 7)) & 255) << (8 * i); u32 sad = 13, lp = 0; for (int i = 0; i < 32; i += 8) { sad += abs((int)(x >> i & 255) - (int)(y >> i & 255)); lp |= (((x >> i & 255) + (y >> i & 255) + 1) >> 1 & 255) << i; } u32 e = pm + (u32)(c >> (t & 31)) * 3 + (u32)(c >> (8 * (t & 3))) * 5 + (x >> (t & 31) & 127) * 7 + (u32)((int)(y << (23 - (t & 15))) >> 23) * 11 + sad + lp + (u32)((int)(x << 8) >> 8) * (u32)((int)(y << 8) >> 8); ok &= e == r[t]; } result("perm align bfe sad", ok);
    k_asm<<<dim3(1), dim3(64), 0, 0>>>(da.p, o.p); CHECK(hipGetLastError()); r = o.get(); ok = true; for (u32 t = 0; t < 64; t++) { u32 x = a[t], e; if (cdna) { e = (x >> 8 & 255) + (x >> 16) + x; e = (e & 0xffff) | (u32)(u16t)(short)(signed char)(x >> 16) << 16; } else { e = a[t ^ 7]; e = (e & 0xffff) | ((x >> 16) + (x & 0xffff)) << 16; e += a[t ^ 1] < x; } ok &= e == r[t]; } result("sdwa, agpr, dpp8, op_sel", ok); }
  if (G == "gfx942" || G == "gfx1201") { bool fn = G == "gfx942"; V<float> in(64); for (int i = 0; i < 64; i++) in[i] = (i % 8 + 8) / 8.0f * (i < 32 ? 1 : -1) * exp2f(i % 5); Dev<float> d(in), o((size_t)64); Dev<u32> pk((size_t)64); k_fp8<<<dim3(1), dim3(64), 0, 0>>>(d.p, o.p, pk.p); CHECK(hipGetLastError()); auto pr = pk.get(); auto orr = o.get(); bool ok = true; (void)fn;
    for (int i = 0; i < 64; i++) { auto q = [](float v, int mb) { int e; float m = frexpf(v, &e); return ldexpf(rintf(ldexpf(m, mb + 1)), e - mb - 1); }; float a = q(in[i], 3), b = q(in[i] * 0.5f, 3), c = q(in[i] * 2, 2), e2 = q(in[i] * 4, 2); float s = a + 1000 * b; s = fmaf(1e6f, c, 0) + s; s = 1e10f * e2 + s; ok &= fabsf(orr[i] - s) <= fabsf(s) * 1e-5f; int bias = 7 + fn, e; frexpf(a, &e); ok &= ((pr[i] >> 3 & 15) == (u32)(e - 1 + bias)); } result("fp8 conversions", ok); }
  if (G != "gfx1100") {
    Dev<h2> g((size_t)2), o((size_t)2); Dev<bf2> b((size_t)2); Dev<double> d((size_t)3); k_pkatom<<<dim3(1), dim3(256), 0, 0>>>(g.p, b.p, d.p, o.p); CHECK(hipGetLastError()); auto gr = g.get(), orr = o.get(); auto br = b.get(); auto dr = d.get(); bool ok = true;
    for (int i = 0; i < 2; i++) { ok &= (float)gr[i].x == 64 && (float)gr[i].y == -128; if (G != "gfx90a") ok &= (u16t)br[i].x == 0x4280 && (u16t)br[i].y == 0xc300 && (float)orr[i].x == 64 && (float)orr[i].y == -128; }
    if (cdna) ok &= dr[0] == 64 && dr[1] == 255 && dr[2] == -255; result("packed and double atomics", ok);
  }
  return finish("wave");
}
