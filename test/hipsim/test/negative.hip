// SPDX-License-Identifier: MIT
// Programs with one bug each: every check must fire. usage: negative CASE; the runner greps the message.
#include "common.h"
typedef unsigned u32;
__global__ void oob_read(const float *a, float *o, int n) { int t = blockIdx.x * blockDim.x + threadIdx.x; o[t & 63] = a[t + n]; }
__global__ void oob_write(float *a, int n) { a[threadIdx.x + n] = 1; }
__global__ void oob_x4(const float4 *a, float *o) { o[threadIdx.x] = a[threadIdx.x].w; }
__global__ void copy(const float *a, float *o) { o[threadIdx.x] = a[threadIdx.x]; }
__global__ void race_missing_sync(const int *a, int *o) { __shared__ int s[256]; int t = threadIdx.x; s[t] = a[t]; /* no __syncthreads() */ o[t] = s[255 - t]; }
__global__ void race_second_sync(const int *a, int *o) { __shared__ int s[256]; int t = threadIdx.x, v = 0; for (int i = 0; i < 3; i++) { s[t] = a[t] + i; __syncthreads(); v += s[255 - t]; /* missing here */ } o[t] = v; }
__global__ void race_write_write(int *o) { __shared__ int s[64]; int t = threadIdx.x; s[t & 63] = t; __syncthreads(); o[t] = s[t & 63]; }
__global__ void uninit_lds(int *o) { __shared__ int s[256]; int t = threadIdx.x; if (t != 77) s[t] = t; __syncthreads(); o[t] = s[255 - t]; }
__global__ void lds_oob(int *o, int n) { extern __shared__ int s[]; int t = threadIdx.x; s[t + n] = t; __syncthreads(); o[t] = s[t + n]; }
__global__ void big_lds(int *o) { extern __shared__ int s[]; s[threadIdx.x] = 1; __syncthreads(); o[threadIdx.x] = s[threadIdx.x ^ 1]; }
__global__ void div_barrier(int *o) { __shared__ int s[256]; int t = threadIdx.x; s[t] = t; if (t < 128) { __syncthreads(); o[t] = s[t ^ 64]; } else { o[t] = s[t]; __syncthreads(); o[t] += 1; } }
__global__ void lane_barrier(int *o) { __shared__ int s[64]; int t = threadIdx.x; s[t] = t; if (t & 1) { __builtin_amdgcn_s_barrier(); s[t] += 1; } o[t] = s[t]; }
__global__ void global_ww(int *o) { o[threadIdx.x] = blockIdx.x; }
__global__ void global_rw(int *o, int *p) { if (blockIdx.x == 0) o[threadIdx.x] = 3; else p[threadIdx.x] = o[threadIdx.x]; }
__global__ void trap(int *o) { if (o[threadIdx.x] == 0) __builtin_trap(); }
__global__ void null_read(int *o, int *p) { o[threadIdx.x] = p[threadIdx.x]; }
__global__ void endless(int *o) { volatile int *p = o; while (*p == 0) ; }
__global__ void misaligned(float *o, int off) { extern __shared__ char c[]; double *d = (double *)(c + off); if (threadIdx.x < 8) d[threadIdx.x * 2] = 1; __syncthreads(); o[threadIdx.x] = threadIdx.x < 8 ? (float)d[threadIdx.x * 2] : 0; }
__global__ void stack_oob(int *o, int n) { int l[8]; for (int i = 0; i < 8; i++) l[i] = i + threadIdx.x; volatile int *v = l; v[n + threadIdx.x * 0] = 3; o[threadIdx.x] = v[threadIdx.x & 7]; }
__global__ void unsupported(int *o) { asm volatile("s_sethalt 1"); o[0] = 1; }
__global__ void __launch_bounds__(64) bounds64(int *o) { o[threadIdx.x] = 1; }
#if defined(__gfx1100__)
typedef _Float16 h16 __attribute__((ext_vector_type(16))); typedef float f8 __attribute__((ext_vector_type(8)));
__global__ void wmma_norep(const _Float16 *a, float *o) { int l = threadIdx.x; h16 x, y; for (int i = 0; i < 16; i++) { x[i] = a[(l & 15) * 16 + i]; y[i] = a[l * 16 + i]; } f8 c = {0}; c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, c); for (int i = 0; i < 8; i++) o[l * 8 + i] = c[i]; }
#else
__global__ void wmma_norep(const _Float16 *, float *) {}
#endif
#if defined(__gfx1201__)
typedef _Float16 h8 __attribute__((ext_vector_type(8))); typedef float g8 __attribute__((ext_vector_type(8)));
__global__ void wmma_exec(const void *av, void *ov) { const h8 *a = (const h8 *)av; g8 *o = (g8 *)ov; int l = threadIdx.x; if (l < 20) { g8 c = {0}; o[l] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a[l], a[l], c); } }
#else
__global__ void wmma_exec(const void *, void *) {}
#endif
template <class T> T *alloc(size_t n) { T *p; CHECK(hipMalloc((void **)&p, n * sizeof(T))); CHECK(hipMemset(p, 0, n * sizeof(T))); return p; }
int main(int argc, char **argv) {
  const char *c = argc > 1 ? argv[1] : ""; int *o = alloc<int>(4096); float *f = alloc<float>(4096); hipError_t e = hipSuccess;
#define CASE(n) if (!strcmp(c, n))
  CASE("oob_read") { float *a = alloc<float>(100); oob_read<<<dim3(1), dim3(64), 0, 0>>>(a, f, 37); }
  CASE("oob_before") { float *a = alloc<float>(100); oob_read<<<dim3(1), dim3(64), 0, 0>>>(a, f, -1); }
  CASE("oob_write") { float *a = alloc<float>(64); oob_write<<<dim3(1), dim3(64), 0, 0>>>(a, 1); }
  CASE("oob_x4") { float *a = alloc<float>(63 * 4 + 3); oob_x4<<<dim3(1), dim3(64), 0, 0>>>((float4 *)a, f); }
  CASE("use_after_free") { float *a = alloc<float>(100); CHECK(hipFree(a)); copy<<<dim3(1), dim3(64), 0, 0>>>(a, f); }
  CASE("host_pointer") { float h[64] = {0}; copy<<<dim3(1), dim3(64), 0, 0>>>(h, f); }
  CASE("null_read") null_read<<<dim3(1), dim3(64), 0, 0>>>(o, nullptr);
  CASE("memcpy_oob") { float *a = alloc<float>(64), h[80] = {0}; e = hipMemcpy(a, h, sizeof h, hipMemcpyHostToDevice); }
  CASE("race_missing_sync") race_missing_sync<<<dim3(1), dim3(256), 0, 0>>>(o, o + 1024);
  CASE("race_second_sync") race_second_sync<<<dim3(1), dim3(256), 0, 0>>>(o, o + 1024);
  CASE("race_write_write") race_write_write<<<dim3(1), dim3(256), 0, 0>>>(o);
  CASE("uninit_lds") uninit_lds<<<dim3(1), dim3(256), 0, 0>>>(o);
  CASE("lds_oob") lds_oob<<<dim3(1), dim3(64), 256, 0>>>(o, 1);
  CASE("lds_ok") lds_oob<<<dim3(1), dim3(64), 260, 0>>>(o, 1);
  CASE("big_lds") { big_lds<<<dim3(1), dim3(64), 65540, 0>>>(o); e = hipGetLastError(); }
  CASE("many_threads") { big_lds<<<dim3(1), dim3(1056), 8192, 0>>>(o); e = hipGetLastError(); }
  CASE("launch_bounds") { bounds64<<<dim3(1), dim3(128), 0, 0>>>(o); e = hipGetLastError(); }
  CASE("div_barrier") div_barrier<<<dim3(1), dim3(256), 0, 0>>>(o);
  CASE("lane_barrier") lane_barrier<<<dim3(1), dim3(64), 0, 0>>>(o);
  CASE("global_ww") global_ww<<<dim3(2), dim3(64), 0, 0>>>(o);
  CASE("global_rw") global_rw<<<dim3(2), dim3(64), 0, 0>>>(o, o + 1024);
  CASE("trap") trap<<<dim3(1), dim3(64), 0, 0>>>(o);
  CASE("endless") endless<<<dim3(1), dim3(64), 0, 0>>>(o);
  CASE("misaligned") misaligned<<<dim3(1), dim3(64), 1024, 0>>>(f, 4);
  CASE("stack_oob") stack_oob<<<dim3(1), dim3(64), 0, 0>>>(o, 1 << 20);
  CASE("unsupported") unsupported<<<dim3(1), dim3(64), 0, 0>>>(o);
  CASE("wmma_norep") { _Float16 *a = alloc<_Float16>(1024), h[1024]; for (int i = 0; i < 1024; i++) h[i] = i; CHECK(hipMemcpy(a, h, sizeof h, hipMemcpyHostToDevice)); wmma_norep<<<dim3(1), dim3(32), 0, 0>>>(a, f); }
  CASE("wmma_exec") wmma_exec<<<dim3(1), dim3(32), 0, 0>>>((const void *)f, (void *)f);
  CASE("poison") { int *p; CHECK(hipMalloc((void **)&p, 256)); int v = 0; CHECK(hipMemcpy(&v, p, 4, hipMemcpyDeviceToHost)); printf("fresh memory %08x\n", v); }
  if (e == hipSuccess) e = hipDeviceSynchronize();
  printf("end %s\n", hipGetErrorName(e));
  return e != hipSuccess;
}
