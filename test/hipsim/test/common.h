// SPDX-License-Identifier: MIT
// Shared by the tests: error checking, random numbers, result comparison.
#pragma once
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#define CHECK(x) do { hipError_t e_ = (x); if (e_ != hipSuccess) { printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #x, hipGetErrorString(e_)); exit(1); } } while (0)
static int failures, passes;
static uint64_t rng_state = 0x853c49e6748fea9bull;
static inline uint64_t rng() { uint64_t x = rng_state; x ^= x << 13; x ^= x >> 7; x ^= x << 17; return rng_state = x; }
template <class T> struct Dev {           // device copy of a host vector
  T *p = nullptr; size_t n;
  explicit Dev(const std::vector<T> &v) : n(v.size()) { CHECK(hipMalloc((void **)&p, n * sizeof(T))); CHECK(hipMemcpy(p, v.data(), n * sizeof(T), hipMemcpyHostToDevice)); }
  explicit Dev(size_t k) : n(k) { CHECK(hipMalloc((void **)&p, n * sizeof(T))); CHECK(hipMemset(p, 0, n * sizeof(T))); }
  std::vector<T> get() const { std::vector<T> v(n); CHECK(hipMemcpy(v.data(), p, n * sizeof(T), hipMemcpyDeviceToHost)); return v; }
  ~Dev() { (void)hipFree(p); }
};
static inline void result(const char *name, bool ok, const char *detail = "") { if (ok) passes++; else { failures++; printf("FAIL %s %s\n", name, detail); } }
static inline int finish(const char *what) {
  hipDeviceProp_t p; CHECK(hipGetDeviceProperties(&p, 0));
  printf("%-8s %-10s %4d passed, %d failed\n", what, p.gcnArchName, passes, failures);
  return failures != 0;
}
template <class T> bool same(T a, T b) { return memcmp(&a, &b, sizeof a) == 0; }
template <> inline bool same(float a, float b) { return memcmp(&a, &b, 4) == 0 || (a != a && b != b); }
template <> inline bool same(double a, double b) { return memcmp(&a, &b, 8) == 0 || (a != a && b != b); }
