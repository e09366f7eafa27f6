/* hip_fault.c - a kernel that writes where nothing is: afterwards the device reports an error until the process ends. */
#include <hip/hip_runtime.h>

__global__ void hip_fault_kernel(int *p) { *p = 1; }
extern "C" void hip_fault(void);
extern "C" void hip_fault(void) {
    hip_fault_kernel<<<1, 1>>>((int *)16);
    (void)hipDeviceSynchronize();
}
