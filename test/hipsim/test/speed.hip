// SPDX-License-Identifier: MIT
// Interpreter speed: wave-instructions per second on simple vector code, LDS code and matrix code.
#include "common.h"
#include <chrono>
#if defined(__gfx1100__) || defined(__gfx1201__)
#define OP "v_fma_f32 %0, %0, %1, %2\n\tv_add_f32 %0, %0, %1\n\tv_xor_b32 %0, %0, %2\n\tv_mul_f32 %0, 1.0, %0\n\tv_add_nc_u32 %0, 3, %0\n\tv_max_u32 %0, %0, %1\n\tv_lshlrev_b32 %0, 1, %0\n\tv_sub_f32 %0, %1, %0\n\t"
#else
#define OP "v_fma_f32 %0, %0, %1, %2\n\tv_add_f32 %0, %0, %1\n\tv_xor_b32 %0, %0, %2\n\tv_mul_f32 %0, 1.0, %0\n\tv_add_u32 %0, 3, %0\n\tv_max_u32 %0, %0, %1\n\tv_lshlrev_b32 %0, 1, %0\n\tv_sub_f32 %0, %1, %0\n\t"
#endif
__global__ void alu(float *o, int n) { float x = threadIdx.x, a = 1.5f, b = 0.5f; for (int i = 0; i < n; i++) asm volatile(OP OP OP OP OP OP OP OP : "+v"(x) : "v"(a), "v"(b)); o[blockIdx.x * blockDim.x + threadIdx.x] = x; }
__global__ void lds(float *o, int n) { __shared__ float s[256]; int t = threadIdx.x; float x = t; s[t] = x; for (int i = 0; i < n; i++) { __syncthreads(); x += s[(t * 5 + i) & 255]; __syncthreads(); s[t] = x; } o[blockIdx.x * 256 + t] = x; }
int main() {
  float *o; CHECK(hipMalloc((void **)&o, 1 << 20)); hipDeviceProp_t p; CHECK(hipGetDeviceProperties(&p, 0));
  auto time = [&](auto f) { auto t = std::chrono::steady_clock::now(); f(); return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count(); };
  int n = 2000, wgs = 8; alu<<<dim3(2), dim3(256), 0, 0>>>(o, 10);
  double t = time([&] { alu<<<dim3(wgs), dim3(256), 0, 0>>>(o, n); }), insts = (double)wgs * (256 / p.warpSize) * n * 67;
  printf("%-24s valu %.1f M wave-instructions/s (all host threads)\n", p.gcnArchName, insts / t * 1e-6);
  n = 3000; t = time([&] { lds<<<dim3(wgs), dim3(256), 0, 0>>>(o, n); }); insts = (double)wgs * (256 / p.warpSize) * n * 12;
  printf("%-24s lds+barrier %.1f M wave-instructions/s\n", p.gcnArchName, insts / t * 1e-6);
  return 0;
}
