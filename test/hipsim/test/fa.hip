// SPDX-License-Identifier: MIT
// Flash attention forward on the matrix instructions of each architecture, against a double precision reference.
#include "common.h"
#include "fa_kernel.h"
static float to_f(elt e) {
#ifdef BF16
  union { unsigned u; float f; } w; w.u = (unsigned)(unsigned short)e << 16; return w.f;
#else
  return (float)e;
#endif
}
static void one(int Sq, int Sk, int BH, int causal, int nw) {
  hipDeviceProp_t p; CHECK(hipGetDeviceProperties(&p, 0));
  int W_ = p.warpSize; float scale = 0.125f;
  std::vector<elt> q((size_t)BH * Sq * D), k((size_t)BH * Sk * D), v((size_t)BH * Sk * D);
  auto r = [] { return from_f((float)((double)(int64_t)rng() * 0x1p-63) * 1.5f); };
  for (auto &x : q) x = r(); for (auto &x : k) x = r(); for (auto &x : v) x = r();
  Dev<elt> dq(q), dk(k), dv(v); Dev<float> o((size_t)BH * Sq * D), l((size_t)BH * Sq);
  size_t lds = (2 * BK * (D + 8) + nw * 16 * BK) * 2;
  CHECK(hipFuncSetAttribute((const void *)fa_fwd, hipFuncAttributeMaxDynamicSharedMemorySize, (int)lds));
  fa_fwd<<<dim3((Sq + 16 * nw - 1) / (16 * nw), BH), dim3(nw * W_), lds, 0>>>(dq.p, dk.p, dv.p, o.p, l.p, Sq, Sk, scale, causal);
  CHECK(hipGetLastError()); CHECK(hipDeviceSynchronize());
  auto O = o.get(), L = l.get(); double worst = 0, worstl = 0;
  for (int b = 0; b < BH; b++) for (int i = 0; i < Sq; i++) {
    std::vector<double> s(Sk); double m = -1e300, sum = 0, acc[D] = {0};
    int lim = causal ? i + Sk - Sq : Sk - 1;
    for (int j = 0; j <= lim && j < Sk; j++) { double t = 0; for (int d = 0; d < D; d++) t += (double)to_f(q[((size_t)b * Sq + i) * D + d]) * to_f(k[((size_t)b * Sk + j) * D + d]); s[j] = t * scale; m = fmax(m, s[j]); }
    for (int j = 0; j <= lim && j < Sk; j++) { double e = exp(s[j] - m); sum += e; for (int d = 0; d < D; d++) acc[d] += e * to_f(v[((size_t)b * Sk + j) * D + d]); }
    for (int d = 0; d < D; d++) worst = fmax(worst, fabs(acc[d] / sum - O[((size_t)b * Sq + i) * D + d]));
    worstl = fmax(worstl, fabs(m + log(sum) - L[(size_t)b * Sq + i]));
  }
#ifdef BF16
  double tol = 8e-3;
#else
  double tol = 1.5e-3;
#endif
  char n[100]; snprintf(n, sizeof n, "fa Sq=%d Sk=%d causal=%d waves=%d: max err O %.2e L %.2e", Sq, Sk, causal, nw, worst, worstl);
  if (getenv("VERBOSE")) puts(n);
  result(n, worst < tol && worstl < 2e-5);
}
int main() {
  one(64, 64, 2, 0, 4); one(100, 100, 2, 1, 4); one(128, 96, 1, 0, 2); one(33, 130, 2, 1, 1); one(256, 256, 2, 1, 4);
  return finish("fa");
}
