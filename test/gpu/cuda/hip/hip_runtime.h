/* hip_runtime.h - as hip_runtime_api.h beside it, for what nvcc compiles. */
#include "hip_runtime_api.h"
