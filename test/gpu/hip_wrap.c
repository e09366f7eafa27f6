/* hip_wrap.c - stands between the program and the HIP runtime (linked with --wrap): counts what is alive, makes any call fail, and while
 * a stream is as if it was captured into a graph refuses what a graph cannot hold or what would not be the same in a replay.
 *
 * The list of calls is test/gpu/hip.mk's as well: HIP_WRAPPED there and the macros here name the same functions. */
#include <hip/hip_runtime_api.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int64_t hip_alive, hip_calls, hip_allocations, hip_fail_at;
int hip_fail_error = hipErrorOutOfMemory;
/* How many devices there are, -1: as the runtime has them. Else all are its first one, and all memory is that of hip_memory_device. */
int hip_devices = -1, hip_memory_device;
static __thread int current;

const char *hip_fail_function = "";

/* Within a capture: calls that were refused, and what was launched, all of it, as one number. */
int hip_capturing;
int64_t hip_refused;
uint64_t hip_launched;
/* Launches become nodes; what asks without waiting stays outside. Allocations, copies from and to the host and what waits do not replay. */
static int in_a_graph(const char *function) {
    static const char *const may[] = {"hipLaunchKernel", "hipMemsetAsync", "hipSetDevice", "hipGetDevice", "hipGetDeviceProperties", "hipDeviceGetAttribute",
                                      "hipPointerGetAttributes", "hipFuncSetAttribute", "hipFuncGetAttributes", "hipGetDeviceCount", "hipPeekAtLastError"};
    for (size_t i = 0; i < sizeof may / sizeof *may; i++)
        if (!strcmp(function, may[i])) return 1;
    return 0;
}
static int refused(const char *function) {
    if (!hip_capturing || in_a_graph(function)) return 0;
    return __atomic_add_fetch(&hip_refused, 1, __ATOMIC_RELAXED) > 0;
}
/* As if another thread captured a stream in the mode that is usual: of a thread that is not relaxed these spoil that, the waits on ROCm.
 * hip_unordered: as versions of ROCm have it, nothing is allocated in stream order then, and no event is waited for, whatever the mode. */
int hip_captured_elsewhere, hip_unordered;
static __thread int relaxed;
static int spoils(const char *function) {
    static const char *const unsafe[] = {"hipMalloc", "hipHostMalloc", "hipFree", "hipHostFree", "hipMemcpy", "hipDeviceSynchronize", "hipStreamSynchronize",
                                         "hipEventSynchronize"};
    for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++)
        if (hip_captured_elsewhere && !relaxed && !strcmp(function, unsafe[i])) return __atomic_add_fetch(&hip_refused, 1, __ATOMIC_RELAXED) > 0;
    return 0;
}
static void launched(const void *f, dim3 g, dim3 b, size_t l) {
    const uint64_t part[] = {(uint64_t)(uintptr_t)f, g.x, g.y, g.z, b.x, b.y, b.z, l};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) hip_launched = (hip_launched ^ part[i]) * 0x100000001b3u + 1;
}

/* Device memory that every address is taken for, while launches are looked at and not made, or NULL; the most threads of a launch along x.
 * Those that no device takes are refused in any case. */
const void *hip_dry;
uint64_t hip_threads;

/* The most copies in streams that nothing of the host's had waited for yet. */
int64_t hip_ahead;
static void waited(const char *function) {
    static int64_t copies;
    if (!strcmp(function, "hipMemcpyAsync")) {
        const int64_t n = __atomic_add_fetch(&copies, 1, __ATOMIC_RELAXED);
        if (n > __atomic_load_n(&hip_ahead, __ATOMIC_RELAXED)) __atomic_store_n(&hip_ahead, n, __ATOMIC_RELAXED);
    } else if (strstr(function, "Synchronize")) __atomic_store_n(&copies, 0, __ATOMIC_RELAXED);
}

/* the linker's names of a call, which on CUDA is a macro */
#define JOINED(a, b) a##b
#define REAL(f) JOINED(__real_, f)
#define WRAP(f) JOINED(__wrap_, f)

/* What fails leaves an error behind, as the runtime's own calls do: that there is no device -1. */
hipError_t REAL(hipSetDevice)(int n);
static int fails(const char *function) {
    waited(function);
    if (__atomic_add_fetch(&hip_calls, 1, __ATOMIC_RELAXED) != hip_fail_at && strcmp(function, hip_fail_function) && !refused(function) && !spoils(function)) return 0;
    if (strcmp(function, "hipPeekAtLastError")) (void)REAL(hipSetDevice)(-1);
    return 1;
}
static hipError_t alive(hipError_t e, int change) {
    if (e == hipSuccess) __atomic_add_fetch(&hip_alive, change, __ATOMIC_RELAXED);
    return e;
}

/* PARAMETERS and ARGUMENTS are in parentheses. MAKE: one thing more is alive. DROP: one less; freeing NULL is not counted, and a
 * freeing call never fails. CALL: neither. */
#define MAKE(f, PARAMETERS, ARGUMENTS, allocates) \
    hipError_t REAL(f) PARAMETERS; hipError_t WRAP(f) PARAMETERS; \
    hipError_t WRAP(f) PARAMETERS { \
        __atomic_add_fetch(&hip_allocations, allocates, __ATOMIC_RELAXED); \
        if (hip_unordered && !strcmp(#f, "hipMallocAsync")) return hipErrorStreamCaptureUnsupported; \
        return fails(#f) ? (hipError_t)hip_fail_error : alive(REAL(f) ARGUMENTS, 1); \
    }
#define DROP(f, PARAMETERS, ARGUMENTS, what) \
    hipError_t REAL(f) PARAMETERS; hipError_t WRAP(f) PARAMETERS; \
    hipError_t WRAP(f) PARAMETERS { return (what) && (refused(#f) || spoils(#f)) ? (hipError_t)hip_fail_error : alive(REAL(f) ARGUMENTS, (what) ? -1 : 0); }
#define CALL(f, PARAMETERS, ARGUMENTS) \
    hipError_t REAL(f) PARAMETERS; hipError_t WRAP(f) PARAMETERS; \
    hipError_t WRAP(f) PARAMETERS { return fails(#f) ? (hipError_t)hip_fail_error : REAL(f) ARGUMENTS; }

MAKE(hipMalloc, (void **p, size_t n), (p, n), 1)
MAKE(hipHostMalloc, (void **p, size_t n, unsigned flags), (p, n, flags), 1)
MAKE(hipMallocAsync, (void **p, size_t n, hipStream_t s), (p, n, s), 1)
MAKE(hipHostRegister, (void *p, size_t n, unsigned flags), (p, n, flags), 0)
MAKE(hipStreamCreate, (hipStream_t *s), (s), 0)
MAKE(hipStreamCreateWithFlags, (hipStream_t *s, unsigned flags), (s, flags), 0)
MAKE(hipEventCreate, (hipEvent_t *e), (e), 0)
MAKE(hipEventCreateWithFlags, (hipEvent_t *e, unsigned flags), (e, flags), 0)
DROP(hipFree, (void *p), (p), p)
DROP(hipHostFree, (void *p), (p), p)
DROP(hipFreeAsync, (void *p, hipStream_t s), (p, s), p)
DROP(hipHostUnregister, (void *p), (p), p)
DROP(hipStreamDestroy, (hipStream_t s), (s), s)
DROP(hipEventDestroy, (hipEvent_t e), (e), e)
CALL(hipMemcpy, (void *d, const void *s, size_t n, hipMemcpyKind k), (d, s, n, k))
CALL(hipMemcpyAsync, (void *d, const void *s, size_t n, hipMemcpyKind k, hipStream_t t), (d, s, n, k, t))
CALL(hipMemcpy2DAsync, (void *d, size_t dp, const void *s, size_t sp, size_t w, size_t h, hipMemcpyKind k, hipStream_t t), (d, dp, s, sp, w, h, k, t))
CALL(hipMemsetAsync, (void *p, int v, size_t n, hipStream_t t), (p, v, n, t))
hipError_t REAL(hipLaunchKernel)(const void *f, dim3 g, dim3 b, void **a, size_t l, hipStream_t t);
hipError_t WRAP(hipLaunchKernel)(const void *f, dim3 g, dim3 b, void **a, size_t l, hipStream_t t);
hipError_t WRAP(hipLaunchKernel)(const void *f, dim3 g, dim3 b, void **a, size_t l, hipStream_t t) {
    const uint64_t threads = (uint64_t)g.x * b.x;
    if (hip_capturing) launched(f, g, b, l);
    if (threads > UINT32_MAX || g.y > 65535 || g.z > 65535) return hipErrorInvalidValue;
    if (threads > hip_threads) hip_threads = threads;
    if (hip_dry) return hipSuccess;
    return fails("hipLaunchKernel") ? (hipError_t)hip_fail_error : REAL(hipLaunchKernel)(f, g, b, a, l, t);
}
CALL(hipStreamSynchronize, (hipStream_t t), (t))
CALL(hipDeviceSynchronize, (void), ())
CALL(hipStreamWaitEvent, (hipStream_t t, hipEvent_t e, unsigned flags), (t, e, flags))
CALL(hipEventRecord, (hipEvent_t e, hipStream_t t), (e, t))
hipError_t REAL(hipEventSynchronize)(hipEvent_t e);
hipError_t WRAP(hipEventSynchronize)(hipEvent_t e);
hipError_t WRAP(hipEventSynchronize)(hipEvent_t e) {
    if (hip_unordered) return hipErrorStreamCaptureUnsupported;
    return fails("hipEventSynchronize") ? (hipError_t)hip_fail_error : REAL(hipEventSynchronize)(e);
}
CALL(hipEventElapsedTime, (float *ms, hipEvent_t a, hipEvent_t b), (ms, a, b))
CALL(hipPeekAtLastError, (void), ())
hipError_t REAL(hipThreadExchangeStreamCaptureMode)(hipStreamCaptureMode *mode);
hipError_t WRAP(hipThreadExchangeStreamCaptureMode)(hipStreamCaptureMode *mode);
hipError_t WRAP(hipThreadExchangeStreamCaptureMode)(hipStreamCaptureMode *mode) {
    if (fails("hipThreadExchangeStreamCaptureMode")) return (hipError_t)hip_fail_error;
    relaxed = *mode == hipStreamCaptureModeRelaxed;
    return REAL(hipThreadExchangeStreamCaptureMode)(mode);
}
CALL(hipFuncSetAttribute, (const void *f, hipFuncAttribute a, int v), (f, a, v))
CALL(hipFuncGetAttributes, (struct hipFuncAttributes *a, const void *f), (a, f))

/* ELSE: the same of devices that are not there (hip_devices). */
#define DEVICE_CALL(f, PARAMETERS, ARGUMENTS, ELSE) \
    hipError_t REAL(f) PARAMETERS; hipError_t WRAP(f) PARAMETERS; \
    hipError_t WRAP(f) PARAMETERS { \
        if (fails(#f)) return (hipError_t)hip_fail_error; \
        if (hip_devices < 0) return REAL(f) ARGUMENTS; \
        ELSE \
    }
#define THERE(n, e) ((n) >= 0 && (n) < hip_devices ? (e) : hipErrorInvalidDevice)
DEVICE_CALL(hipGetDeviceCount, (int *n), (n), *n = hip_devices; return hip_devices ? hipSuccess : hipErrorNoDevice;)
DEVICE_CALL(hipSetDevice, (int n), (n), return THERE(n, (current = n, hipSuccess));)
DEVICE_CALL(hipGetDevice, (int *n), (n), *n = current; return hipSuccess;)
DEVICE_CALL(hipGetDeviceProperties, (hipDeviceProp_t *p, int n), (p, n), return THERE(n, REAL(hipGetDeviceProperties)(p, 0));)
DEVICE_CALL(hipDeviceGetAttribute, (int *v, hipDeviceAttribute_t a, int n), (v, a, n), return THERE(n, REAL(hipDeviceGetAttribute)(v, a, 0));)
DEVICE_CALL(hipPointerGetAttributes, (hipPointerAttribute_t *a, const void *p), (a, hip_dry ? hip_dry : p),
            hipError_t e = REAL(hipPointerGetAttributes)(a, p); a->device = hip_memory_device; return e;)
