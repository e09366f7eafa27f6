// SPDX-License-Identifier: MIT
// Host API: device properties, memory, events, modules, occupancy, errors. usage: api CODE_OBJECT
#include "common.h"
#include <string>
extern "C" __global__ void scale(float *a, float k, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) a[i] *= k; }
__global__ void __launch_bounds__(256) uses_lds(int *o) { __shared__ int s[4096]; for (int i = threadIdx.x; i < 4096; i += blockDim.x) s[i] = i; __syncthreads(); o[threadIdx.x] = s[4095 - threadIdx.x]; }
#define OK(name, c) result(name, c)
int main(int argc, char **argv) {
  hipDeviceProp_t p; int n, v; CHECK(hipGetDeviceCount(&n)); CHECK(hipSetDevice(0)); CHECK(hipGetDeviceProperties(&p, 0));
  std::string g = p.gcnArchName; bool cdna = g[3] == '9';
  OK("count", n == 1); OK("bad device", hipSetDevice(1) == hipErrorInvalidDevice && hipGetLastError() == hipErrorInvalidDevice && hipGetLastError() == hipSuccess);
  OK("warp size", p.warpSize == (cdna ? 64 : 32)); OK("lds", p.sharedMemPerBlock == 65536); OK("threads", p.maxThreadsPerBlock == 1024); OK("major", p.major == (cdna ? 9 : g.find("gfx11") == 0 ? 11 : 12));
  CHECK(hipDeviceGetAttribute(&v, hipDeviceAttributeWarpSize, 0)); OK("attribute", v == p.warpSize); CHECK(hipDeviceGetAttribute(&v, hipDeviceAttributeMultiprocessorCount, 0)); OK("CUs", v == p.multiProcessorCount && v > 0);
  CHECK(hipRuntimeGetVersion(&v)); OK("version", v > 50000000); CHECK(hipDriverGetVersion(&v));
  size_t f0, f1, t; CHECK(hipMemGetInfo(&f0, &t)); float *d, *h; CHECK(hipMalloc((void **)&d, 4000)); CHECK(hipMemGetInfo(&f1, &t)); OK("mem info", t == p.totalGlobalMem && f0 - f1 == 4000);
  hipPointerAttribute_t pa; CHECK(hipPointerGetAttributes(&pa, d + 10)); OK("pointer device", pa.memoryType == hipMemoryTypeDevice && pa.devicePointer == d + 10);
  CHECK(hipHostMalloc((void **)&h, 4000, 0)); CHECK(hipPointerGetAttributes(&pa, h)); OK("pointer host", pa.memoryType == hipMemoryTypeHost); int local; OK("pointer other", hipPointerGetAttributes(&pa, &local) == hipErrorInvalidValue); (void)hipGetLastError();
  void *big; OK("out of memory", hipMalloc(&big, (size_t)1 << 45) == hipErrorOutOfMemory); (void)hipGetLastError();
  OK("bad free", hipFree((void *)0x1234) == hipErrorInvalidValue); (void)hipGetLastError();
  hipStream_t s; hipEvent_t e0, e1; CHECK(hipStreamCreateWithFlags(&s, hipStreamNonBlocking)); CHECK(hipEventCreate(&e0)); CHECK(hipEventCreate(&e1));
  for (int i = 0; i < 1000; i++) h[i] = i;
  CHECK(hipEventRecord(e0, s)); CHECK(hipMemcpyAsync(d, h, 4000, hipMemcpyHostToDevice, s)); hipLaunchKernelGGL(scale, dim3(4), dim3(256), 0, s, d, 2.0f, 1000); CHECK(hipMemcpyAsync(h, d, 4000, hipMemcpyDeviceToHost, s)); CHECK(hipEventRecord(e1, s)); CHECK(hipStreamSynchronize(s)); CHECK(hipEventSynchronize(e1));
  float ms = -1; CHECK(hipEventElapsedTime(&ms, e0, e1)); OK("stream", h[999] == 1998 && ms >= 0); OK("query", hipEventQuery(e1) == hipSuccess && hipStreamQuery(s) == hipSuccess);
  static float reg[256]; for (int i = 0; i < 256; i++) reg[i] = 1; CHECK(hipHostRegister(reg, sizeof reg, 0)); float *rd; CHECK(hipHostGetDevicePointer((void **)&rd, reg, 0)); scale<<<dim3(1), dim3(256), 0, 0>>>(rd, 5.0f, 256); CHECK(hipDeviceSynchronize()); OK("registered", reg[255] == 5); CHECK(hipHostUnregister(reg));
  CHECK(hipMemsetAsync(d, 0xff, 4000, s)); CHECK(hipMemsetD32(d, 7, 10)); CHECK(hipMemcpy(h, d, 4000, hipMemcpyDefault)); OK("memset", ((int *)h)[9] == 7 && ((int *)h)[10] == -1);
  void *a; CHECK(hipMallocAsync(&a, 100, s)); CHECK(hipFreeAsync(a, s));
  hipFuncAttributes fa; CHECK(hipFuncGetAttributes(&fa, (const void *)uses_lds)); OK("func attributes", fa.sharedSizeBytes == 16384 && fa.maxThreadsPerBlock == 256 && fa.numRegs > 0);
  CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&n, (const void *)uses_lds, 256, 0)); OK("occupancy lds", n == (cdna ? 4 : 8));
  CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&n, (const void *)scale, 256, 0)); OK("occupancy", n == 8);
  CHECK(hipFuncSetAttribute((const void *)uses_lds, hipFuncAttributeMaxDynamicSharedMemorySize, 40000)); OK("too much lds", hipFuncSetAttribute((const void *)uses_lds, hipFuncAttributeMaxDynamicSharedMemorySize, 70000) == hipErrorInvalidValue); (void)hipGetLastError();
  int *o = (int *)d; uses_lds<<<dim3(1), dim3(256), 0, 0>>>(o); CHECK(hipGetLastError());
  uses_lds<<<dim3(1), dim3(0), 0, 0>>>(o); OK("empty block", hipPeekAtLastError() == hipErrorInvalidValue && hipGetLastError() == hipErrorInvalidValue);
  uses_lds<<<dim3(1), dim3(256), 50000, 0>>>(o); OK("dynamic too large", hipGetLastError() == hipErrorInvalidValue);
  OK("error text", !strcmp(hipGetErrorName(hipErrorOutOfMemory), "hipErrorOutOfMemory") && strlen(hipGetErrorString(hipErrorInvalidValue)) > 5);
  if (argc > 1) {
    hipModule_t m; hipFunction_t k; CHECK(hipModuleLoad(&m, argv[1])); CHECK(hipModuleGetFunction(&k, m, "scale")); OK("missing kernel", hipModuleGetFunction(&k, m, "nothing") == hipErrorNotFound); (void)hipGetLastError(); CHECK(hipModuleGetFunction(&k, m, "scale"));
    for (int i = 0; i < 1000; i++) h[i] = i; CHECK(hipMemcpyHtoD(d, h, 4000)); float kf = 3; int cnt = 1000; void *params[] = {&d, &kf, &cnt}; CHECK(hipModuleLaunchKernel(k, 4, 1, 1, 256, 1, 1, 0, 0, params, nullptr));
    struct { float *a; float k; int n; } packed = {d, 2, 1000}; size_t ps = sizeof packed; void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &ps, HIP_LAUNCH_PARAM_END}; CHECK(hipModuleLaunchKernel(k, 4, 1, 1, 256, 1, 1, 0, 0, nullptr, extra));
    CHECK(hipMemcpyDtoH(h, d, 4000)); OK("module launch", h[999] == 5994); CHECK(hipModuleUnload(m));
    OK("missing file", hipModuleLoad(&m, "/nonexistent") == hipErrorFileNotFound); (void)hipGetLastError();
  }
  CHECK(hipFree(d)); CHECK(hipHostFree(h)); CHECK(hipEventDestroy(e0)); CHECK(hipEventDestroy(e1)); CHECK(hipStreamDestroy(s));
  return finish("api");
}
