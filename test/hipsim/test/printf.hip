// SPDX-License-Identifier: MIT
// Device printf against the host's.
#include "common.h"
#include <unistd.h>
#define LINE "t=%3d [%-8s] %8.3f %e %x %llu %c %5d%% %*d %s\n", t, "abc", t * 0.5f, 1e-3 * t, t * 17, 123456789012345ull, 'A' + t % 26, t, 6, -t, t & 1 ? "a longer string that needs several packets to travel" : ""
__global__ void k(int *a) { int t = threadIdx.x; if (t % 40 == 3) printf(LINE); a[t] = t; }
int main() {
  int *p, fd[2], out = dup(1); CHECK(hipMalloc((void **)&p, 4096));
  fflush(stdout); if (pipe(fd)) return 1;
  dup2(fd[1], 1);
  k<<<dim3(1), dim3(256), 0, 0>>>(p); CHECK(hipDeviceSynchronize());
  fflush(stdout); dup2(out, 1); close(fd[1]);
  char got[8192] = "", want[8192] = ""; size_t n = 0; ssize_t r;
  while ((r = read(fd[0], got + n, sizeof got - 1 - n)) > 0) n += r;
  got[n] = 0; n = 0;
  for (int t = 0; t < 256; t++) if (t % 40 == 3) n += snprintf(want + n, sizeof want - n, LINE);
  result("printf", !strcmp(got, want), got);
  return finish("printf");
}
