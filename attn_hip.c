/* attn_hip.c - the GPU backend "hip" of attn.h: attention and its gradients on AMD and NVIDIA.
 *
 *   AMD       hipcc -x hip -O3 --offload-arch=gfx942 -c attn_hip.c     one for each chip to run on
 *   NVIDIA    nvcc -x cu -O3 -std=c++17 -arch=sm_80 -c attn_hip.c      CUDA 11.7 and later
 *     with the kernels of Hopper too: -gencode arch=compute_80,code=compute_80
 *                                     -gencode arch=compute_90a,code=sm_90a    in place of -arch
 *   neither   cc -c attn_hip.c       the same functions, which answer ATTN_ERR_NO_GPU_COMPILER
 *
 *   attn_hip_register();             // once; attn_query then says what "hip" would do, or why not
 *   d.flags |= ATTN_DEVICE;          // tensors in device memory: in place, on d.stream, no waiting
 *   d.backend = "hip";               // tensors in host memory: staged; done when the call returns
 *   attn_forward(&d);                // and attn_backward(&d, &g) alike
 *
 * CONTENTS - search for the anchor
 *   >>arch      the only place with a chip #if: the units of a chip, its waves and instructions
 *   >>fragment  operands and accumulators of each matrix unit under the same names
 *   >>params    what a kernel is told; sequences, visible ranges
 *   >>mask      one score of a general kernel; dropout; the end of a row; values not finite
 *   >>scalar    the kernel of every chip and every size
 *   >>cache     pages, codes, mixed types; append
 *   >>decode    few rows against many keys
 *   >>backward  the gradients, on every chip and for every size
 *   >>kernel16  f16 and bf16 on a matrix unit
 *   >>gradients on a matrix unit, of any type
 *   >>kernel32  f32: matrix unit or FMA
 *   >>kernel16 mma.sync   the same on NVIDIA: mma.sync, wgmma; gradients on wgmma, few rows on
 *               mma.sync
 *   >>table     one row per instantiation: the dispatcher
 *   >>convert   layout and dtype conversion
 *   >>merge     attn_merge
 *   >>parts     keys computed in parts, joined
 *   >>host      devices, errors, staging, timing
 *   >>register  the backend
 *
 * CHIPS  matrix unit: gfx90a, gfx942, gfx950, gfx9-4-generic (MFMA); gfx1100..1103,
 *   gfx1150..1152, gfx1200, gfx1201 (WMMA); sm_80 and later (mma.sync), of sm_90a the forward of
 *   dims above 32 and the gradients of dims up to 128, of aligned rows without masks, too (wgmma).
 *   f32 is FMA but for MFMA.
 *   Every other chip: f32 by FMA, its gradients so from gfx10 on, f16 and bf16 by the scalar kernel,
 *   which also serves dims above 256.
 * TAKES  q of f32, f16 or bf16, k and v of those or int8 or fp8, each its own; o and bias of any
 *   float type; any strides, heads, head_dim, v_dim; every mask, packed and padded sequences, cache
 *   slots, pages; append, rotated and quantised to the bits of the CPU; lse. P is rounded to the
 *   type of v where q, k and v share one of 16 bits. Backward: q, k and v of one type f32, f16 or
 *   bf16; o, dq, dk and dv of any float type, dout but f64; dlse, dbias, dsink; P and dS are rounded
 *   to the type of q on a matrix unit of 16 bits (plan.kernel begins with flash_), and stay f32
 *   elsewhere.
 *   attn_merge, attn_convert and attn_mpi_* of device tensors.
 * DECODE  the keys of a sequence with up to 64 rows in use and more than 256 keys are cut into
 *   parts that run side by side and are joined in order: of up to 16 rows into at most 64 parts, 4,
 *   or 3 on NVIDIA, for each compute unit over the kv heads; of more rows into at most 16, 2 over
 *   the heads; each a multiple of 256 keys. That follows from the sequence's own rows and keys, the heads and the
 *   device, so that its bits do not depend on the batch. Not with dropout. Up to 16 rows have a
 *   kernel of their own, on every chip: multiply-adds, K and V read once for 8 rows of a group,
 *   caches as they lie: f32, f16, bf16, int8 or fp8, in rows, slots or pages, q of any type. It
 *   wants k and v of one type, head_dim and v_dim of multiples of 8 up to 256; others take the
 *   kernel of the call. Where not all rows of q, k and v begin at multiples of 16 bytes (8 for
 *   codes) it is one that computes 256 dims of all. From sm_80 on f16 and bf16 of up to 128 dims,
 *   q of the same type, are multiplied by mma.sync, with P rounded to that type.
 * SLOW  what has no kernel on tiles yet, and runs on the scalar ones. Dims above 256; a backward of
 *   what is computed in f32 and has dims above 128, and all such on NVIDIA and on chips before gfx90a
 *   or gfx10; dbias everywhere. In f32, at a quarter of the speed of 16 bits or less: f32, what is
 *   LAID OUT so, a dout of another type than q, and the gradients of f16 on gfx90a, whose unit of 16
 *   bits takes subnormals for 0. A backward with masks, of rows that follow each other backwards or
 *   are no multiples of 16 bytes, or of dims that are no multiples of 8, makes each weight alone.
 *   f16 with an o of another type takes about 1.4 times as long as with one of f16, tiles of weights
 *   below 2^-26 of a row's largest 2 to 5 times; dims above 128, 64 on gfx11, have the kernel of masks
 *   there, 1.7 times.
 * LAID OUT  as rows of one type before they are read, by every kernel but that of DECODE: pages in
 *   device memory; q, k and v of different types, codes among them, then all three in f32; so too
 *   16-bit caches with rotary embedding, whose q stays in f32. The bits are those of the same keys in
 *   such rows. Of a sequence only keys that some row sees. Pages in host memory are put in order
 *   while they are copied.
 * DOES NOT (attn_query says so): f64 in q, k, v or dout, which only the reference computes in;
 *   int16, q8_0 and q4_0; a backward of mixed types; more than 2^31 - 2^16 tokens or sequences, or
 *   65535 heads; rows or keys that a kernel has 2^32 threads for, as the scalar one for 2^27 rows.
 * BITS  of a sequence are those of its kernel, whatever else is in the batch, in whatever order work
 *   ends. The kernel follows from the whole description: whether all rows of a tensor, those of its
 *   other sequences too, begin at multiples of 16 bytes (SLOW, DECODE). Between kernels the last
 *   bits differ.
 * LIMITS  On tiles of f32 and bf16 weights reach 2^8 before they are measured anew: where the sum
 *   of exp(score - maximum) |v| is 2^120 or more, o may be infinite or NaN. The matrix unit of
 *   gfx90a takes subnormal f16 for 0; forward q, k and v go there times 2^10, but where that is too
 *   much for an element of 64 or more, or not finite: of q in its own row, of k or v in all rows of
 *   the workgroups that meet it, up to 256 each, seen or hidden by a mask. There elements below
 *   2^-14, of all three, count as 0: for v o is off by up to 2^-14, for q or k a score by up to
 *   2^-14 |scale| times the sum of |k| or |q|. f16 has P times 2^12: where v of the larger weights is
 *   0, those below 2^-26 of a row's largest, on gfx90a, or 2^-36 are missing from an o of f16, and
 *   those below 2^-104 from every other. Gradients of f16 lose those below 2^-25 of the largest of
 *   their row or key.
 *   A score that its bias or ALiBi takes beyond FLT_MAX counts as FLT_MAX, of its sign: such keys
 *   weigh the same. With -ffast-math, which clang has no pragma against on GPUs, NaN and infinity
 *   may not show.
 * MEMORY  device tensors: none but plan.workspace_size bytes, for the arrays of attn_seq under
 *   ATTN_SEQ_HOST, in a backward 4 for each row of each head, in an append 4 for each sequence,
 *   with rotary embedding q in f32, for parts an o in f32 of each, of as many sequences at a time
 *   as 32 MiB hold, and what is LAID OUT: q, and k and v of as many sequences of kv_len keys at a
 *   time as 64 MiB hold, or of one; of 256 keys each where DECODE has up to 16 rows and no start_k.
 *   Without a workspace they are allocated in stream order, and so is the table of more than 64
 *   parts of a merge; where the runtime cannot do that, as on the default stream before ROCm 6 or,
 *   in some later versions, while any stream is captured, the call waits until it is done. Host
 *   tensors: buffers that are kept for the next call until attn_shutdown(), or until memory runs
 *   out, for the results of all of it and for two pieces of the rest: a piece is about an eighth, or
 *   all where a batch shares dsink or a dbias; results are written when all of the work has
 *   succeeded.
 *   What is appended is written before the rest of the call and taken back if that fails.
 * GRAPHS  with a workspace a device call is kernel launches alone, which follow from the description:
 *   it can be captured into a graph and replayed, with other numbers in its tensors and other lengths
 *   in device memory. Those of ATTN_SEQ_HOST stay as they were captured. attn_hip_last_times makes
 *   its thread record events, which are for calls outside of graphs.
 *   Calls with host tensors, attn_mpi_* and attn_shutdown() may run while another thread captures.
 * THREADS  calls from several threads run side by side. Host tensors are copied by the CPU threads
 *   that the description allows, which plan.threads leaves out. A process forked off one that used
 *   the GPU is refused. A call for another device than the thread's makes that the thread's, and at
 *   the end the former again, of which CUDA makes a context then: hipSetDevice(d.device) first avoids
 *   it. Before hipDeviceReset come attn_shutdown() and the end of the other threads that asked for
 *   times. POSIX systems.
 *
 * ATTN_BENCH  make HIPCC=hipcc HIPFLAGS="-O3 --offload-arch=gfx1100"     with the GPU in it
 *   ./attn_bench --backend hip,flash --seq-len 256 --head-dim 64
 * EXAMPLE     hipcc -x hip -O3 -I. examples/device.c attn_hip.c -o device -pthread && ./device
 *
 * CHOICE  device tensors: the automatic choice takes "hip"; lengths that ATTN_SEQ_HOST leaves in
 *   host memory may change once the call returns. Host tensors go to the GPU only where asked:
 *   d.backend = "hip", or attn_set_default("hip"); they are copied through pinned buffers, in
 *   pieces that overlap with the kernels. attn_convert with ATTN_DEVICE converts layout and dtype
 *   on the GPU, to the same bits as the CPU.
 *
 * STATUS  A refused or failed call leaves host results untouched.
 *   160 ERR_NO_GPU_COMPILER  from attn_hip_register: a plain C compiler made this file
 *   161 ERR_NO_DEVICE        no GPU, or no such `device`: attn_query says which
 *   162 ERR_GPU_ARCH         the program has no code for the chip found: add its --offload-arch. Some
 *                            versions of ROCm say so of every device where one has none, as a
 *                            processor's own GPU: hide that by HIP_VISIBLE_DEVICES
 *   163 ERR_GPU_MEMORY       no device memory left, or no pinned memory
 *   164 ERR_GPU_POINTER      with ATTN_DEVICE a pointer that is not memory of that device; without
 *                            it, one that is. The message names it. Lengths, slots and pages are read
 *                            before that, on the host unless they are the device's by the flags
 *   165 ERR_GPU_WORKSPACE    the workspace of a device call is not device memory
 *   166 ERR_GPU_STICKY       a kernel, anybody's, has failed, and the runtime now refuses all work
 *                            (ROCm often ends the process instead)
 *   167 ERR_GPU              any other error of the runtime, with its text in `message`
 *    44                      from a CPU backend: it does not take ATTN_DEVICE. A device pointer
 *                            without that flag is not noticed by a CPU backend, which then reads it
 *                            as host memory: always set the flag for device tensors
 *
 * PROVED  on an NVIDIA H100: make test-cuda, figures in test/results/h100.md. For AMD without a GPU:
 *   none was at hand. The simulator of test/hipsim executes the machine code that the compiler made
 *   for a chip, and checks every memory access, race and barrier. It counts instructions and the
 *   cycles of each unit (test/results/hip_report.md) but has no latencies, caches or clock: it shows
 *   that results are right, not how long a call takes.
 *     NVIDIA sm_90a                             run on an H100
 *     gfx90a, gfx942, gfx1100, gfx1201          run in the simulator: make test-hip
 *     gfx1151, gfx906, gfx908, gfx1030, others  compiled, not run: test/gpu/hip.sh compile full
 *     gfx1101..1103, gfx1150, gfx1152, gfx1200  the code of their families' chips above; not
 *                                               compiled by the tests
 *     NVIDIA sm_80 and later                    compiled; the kernels on mma.sync, run on an H100
 *                                               as code for sm_90, are the same source. Those and
 *                                               wgmma's in the simulator, which emulates both:
 *                                               make test-hip
 *   Compilers: clang 19 with the headers of HIP 5.2 (test/hipsim/hipcc), nvcc 13.0. To try it:
 *     make HIPCC=test/hipsim/hipcc
 *     ./attn_bench --backend hip,flash --seq-len 256 --head-dim 64 */
#include "attn.h"
#if !defined(__HIPCC__) && !defined(__HIP__) && !defined(__CUDACC__)
attn_status attn_hip_register(void) { return ATTN_ERR_NO_GPU_COMPILER; }
attn_status attn_hip_last_times(
    double *kernel_seconds, double *total_seconds, size_t *device_bytes) {
    if (kernel_seconds) *kernel_seconds = 0;
    if (total_seconds) *total_seconds = 0;
    if (device_bytes) *device_bytes = 0;
    return ATTN_ERR_NO_GPU_COMPILER;
}
#else
#if defined(__CUDACC__) && !defined(__HIP__) /* nvcc: HIP's names for CUDA's calls */
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#define GPU_ON_CUDA 1
#define hipError_t cudaError_t
#define hipSuccess cudaSuccess
#define hipErrorOutOfMemory cudaErrorMemoryAllocation
#define hipErrorInvalidValue cudaErrorInvalidValue
#define hipErrorNoDevice cudaErrorNoDevice
#define hipErrorInvalidDevice cudaErrorInvalidDevice
#define hipErrorInvalidDeviceFunction cudaErrorInvalidDeviceFunction
#define hipErrorNoBinaryForGpu cudaErrorNoKernelImageForDevice
#define hipErrorInvalidImage cudaErrorInvalidKernelImage
#define hipErrorInvalidKernelFile cudaErrorInvalidPtx
#define hipErrorSharedObjectInitFailed cudaErrorSharedObjectInitFailed
#define hipErrorNotSupported cudaErrorNotSupported
#define hipErrorIllegalAddress cudaErrorIllegalAddress
#define hipErrorLaunchFailure cudaErrorLaunchFailure
#define hipErrorAssert cudaErrorAssert
#define hipErrorECCNotCorrectable cudaErrorECCUncorrectable
#define hipErrorLaunchTimeOut cudaErrorLaunchTimeout
#define hipGetErrorString cudaGetErrorString
#define hipGetLastError cudaGetLastError
#define hipPeekAtLastError cudaPeekAtLastError
#define hipGetDeviceCount cudaGetDeviceCount
#define hipGetDevice cudaGetDevice
#define hipSetDevice cudaSetDevice
#define hipDeviceProp_t cudaDeviceProp
#define hipGetDeviceProperties cudaGetDeviceProperties
#define hipFuncAttributes cudaFuncAttributes
#define hipFuncGetAttributes cudaFuncGetAttributes
#define hipPointerAttribute_t cudaPointerAttributes
#define hipPointerGetAttributes cudaPointerGetAttributes
#define hipMemoryTypeDevice cudaMemoryTypeDevice
#define hipMemoryTypeManaged cudaMemoryTypeManaged
#define hipMalloc cudaMalloc
#define hipFree cudaFree
#define hipMallocAsync cudaMallocAsync
#define hipFreeAsync cudaFreeAsync
#define hipHostMalloc cudaHostAlloc
#define hipHostFree cudaFreeHost
#define hipMemcpyAsync cudaMemcpyAsync
#define hipMemsetAsync cudaMemsetAsync
#define hipMemcpyHostToDevice cudaMemcpyHostToDevice
#define hipMemcpyDeviceToHost cudaMemcpyDeviceToHost
#define hipStream_t cudaStream_t
#define hipStreamCreateWithFlags cudaStreamCreateWithFlags
#define hipStreamNonBlocking cudaStreamNonBlocking
#define hipStreamSynchronize cudaStreamSynchronize
#define hipStreamDestroy cudaStreamDestroy
#define hipStreamCaptureMode cudaStreamCaptureMode
#define hipStreamCaptureModeRelaxed cudaStreamCaptureModeRelaxed
#define hipThreadExchangeStreamCaptureMode cudaThreadExchangeStreamCaptureMode
#define hipErrorStreamCaptureUnsupported cudaErrorStreamCaptureUnsupported
#define hipEvent_t cudaEvent_t
#define hipEventCreate cudaEventCreate
#define hipEventRecord cudaEventRecord
#define hipEventSynchronize cudaEventSynchronize
#define hipEventElapsedTime cudaEventElapsedTime
#define hipEventDestroy cudaEventDestroy
#define hipLaunchKernel cudaLaunchKernel
#else
#include <hip/hip_runtime.h>
#define GPU_ON_CUDA 0
#endif
#if defined(__clang__) /* no chip uses every helper, nor every kernel a body */
#pragma clang diagnostic ignored "-Wunused-function"
#pragma clang diagnostic ignored "-Wunneeded-internal-declaration"
#pragma clang diagnostic ignored "-Wunused-parameter"
#pragma clang diagnostic ignored "-Wdeprecated-pragma" /* of __AMDGCN_WAVEFRONT_SIZE */
#elif GPU_ON_CUDA
#pragma nv_diag_suppress 128 /* a loop over powers of two that has none for some widths */
#pragma nv_diag_suppress 177
#endif
#define GPU_UNROLL _Pragma("unroll")
#define GPU_NO_UNROLL _Pragma("unroll 1")
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
/* ================================================================================ >>arch ====
   The only place with a chip #if. GPU_UNITS is what a chip has; a kernel is a template, its body is
   compiled for the chips that have its unit alone, and its row of the table names that unit. A chip
   is one block here; a unit that a newer chip adds is one more bit, beside those that it keeps. */
enum {
    UNIT_SCALAR = 0, /* every chip */
    UNIT_MFMA = 1,   /* f16 and bf16 */
    UNIT_WMMA11 = 2,
    UNIT_WMMA12 = 4,
    UNIT_SM80 = 8,
    UNIT_MFMA_F32 = 16, /* f32 */
    F16_FLUSHES = 32,   /* the matrix unit takes subnormal f16 for 0 */
    UNIT_SM90 = 64,     /* wgmma, beside what UNIT_SM80 has; sm_90a alone, not sm_90 or later */
    UNIT_FMA = 128      /* f32 by multiply-adds, among lanes as a matrix unit has them */
};
#if defined(__GFX9__)
#define GPU_WAVE 64                    /* lanes of a wave */
#elif defined(__AMDGCN_WAVEFRONT_SIZE) /* -mwavefrontsize64: from gfx10 on only with a clang that
                                          * defines this, as those up to 21 do */
#define GPU_WAVE __AMDGCN_WAVEFRONT_SIZE
#else
#define GPU_WAVE 32
#endif
#if defined(GPU_UNITS) /* the tests emulate one */
#elif defined(__gfx90a__)
#define GPU_UNITS (UNIT_MFMA | UNIT_MFMA_F32 | F16_FLUSHES)
#elif defined(__gfx942__) || defined(__gfx950__) || defined(__gfx9_4_generic__)
#define GPU_UNITS (UNIT_MFMA | UNIT_MFMA_F32)
#elif defined(__GFX10__) && GPU_WAVE == 32
#define GPU_UNITS UNIT_FMA
#elif defined(__GFX11__) && GPU_WAVE == 32
#define GPU_UNITS (UNIT_WMMA11 | UNIT_FMA)
#elif defined(__gfx1250__) || \
    defined(__gfx1251__) /* other matrix instructions than the rest of GFX12 */
#define GPU_UNITS UNIT_SCALAR
#elif defined(__GFX12__) && GPU_WAVE == 32
#define GPU_UNITS (UNIT_WMMA12 | UNIT_FMA)
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GPU_UNITS (UNIT_SM80 | UNIT_SM90)
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define GPU_UNITS UNIT_SM80
#else
#define GPU_UNITS UNIT_SCALAR
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800 && !defined(ATTN_HIP_OLD_CHIPS)
#warning "attn_hip.c: f16, bf16 are slow on this chip: -arch=sm_80? (or define ATTN_HIP_OLD_CHIPS)"
#endif

/* clang 15 and 16 have neither the ballots by the width of a wave nor gfx12, for which they
 * make no code. */
#if defined(__clang_major__) && __clang_major__ < 18
#define GPU_BALLOT(x) __builtin_amdgcn_uicmp((unsigned)(x), 0u, 33)
#define GPU_WMMA12_F16(a, b, c) ((void)(a), (void)(b), (c))
#define GPU_WMMA12_BF16(a, b, c) ((void)(a), (void)(b), (c))
#else
#if GPU_WAVE == 64
#define GPU_BALLOT(x) __builtin_amdgcn_ballot_w64(x)
#else
#define GPU_BALLOT(x) __builtin_amdgcn_ballot_w32(x)
#endif
#define GPU_WMMA12_F16(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c)
#define GPU_WMMA12_BF16(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c)
#endif

#if defined(__HIP_DEVICE_COMPILE__)
#if __has_builtin(__builtin_amdgcn_exp2f) /* in a line of its own: gcc 9 does not know the word */
#define GPU_HAS_EXP2 1
#endif
#endif
/* Instructions with a name of their own on each side. Within one unit in the last place, subnormal
 * results may be 0. */
__device__ static inline float gpu_exp2(float x) {
#if defined(GPU_HAS_EXP2)
    return __builtin_amdgcn_exp2f(x);
#elif defined(__CUDA_ARCH__)
    float y; /* exp2f has three more instructions, for subnormal results */
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}
/* The lesser, or NaN where x is: most is known to be none. */
__device__ static __forceinline__ float gpu_min(float x, float most) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(most));
    return y;
#else
    return x > most ? most : x;
#endif
}
__device__ static inline float gpu_rcp(float x) {
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_rcpf(x);
#else
    return 1.0f / x;
#endif
}
__device__ static inline uint16_t gpu_f16_bits(float x) {
#if GPU_ON_CUDA
    return __half_as_ushort(__float2half_rn(x));
#else
    return __builtin_bit_cast(uint16_t, (_Float16)x);
#endif
}
__device__ static inline float gpu_f16_value(uint16_t x) {
#if GPU_ON_CUDA
    return __half2float(__ushort_as_half(x));
#else
    return (float)__builtin_bit_cast(_Float16, x);
#endif
}

/* By its bits: of a float -ffast-math says that it is none. */
__device__ static inline bool gpu_is_nan(float x) {
    return (__float_as_uint(x) & 0x7fffffffu) > 0x7f800000u;
}
/* x < limit, which is at most 0 and known to the compiler: no NaN is, and it takes one comparison. */
__device__ static __forceinline__ bool gpu_is_below(float x, float limit) {
    const uint32_t first = (__float_as_uint(limit) | 0x80000000u) + 1;
    return __float_as_uint(x) - first <= 0xff800000u - first;
}
/* bf16 in the upper half, to nearest even. */
__device__ static inline uint32_t gpu_bf16_upper(float x) {
    const uint32_t u = __float_as_uint(x);
    /* a NaN stays one: rounding could carry it into infinity */
    return gpu_is_nan(x) ? u | 0x400000u : u + 0x7fffu + (u >> 16 & 1u);
}
__device__ static inline uint16_t gpu_bf16_bits(float x) {
    return (uint16_t)(gpu_bf16_upper(x) >> 16);
}
/* The larger ones of two pairs of 16 bits. */
__device__ static __forceinline__ uint32_t gpu_max2(uint32_t a, uint32_t b) {
#if GPU_ON_CUDA
    return __vmaxu2(a, b);
#else
    typedef uint16_t u16x2 __attribute__((ext_vector_type(2)));
    return __builtin_bit_cast(uint32_t,
        __builtin_elementwise_max(__builtin_bit_cast(u16x2, a), __builtin_bit_cast(u16x2, b)));
#endif
}
/* Bytes of a and b by selector; 0..3 are those of b, 4..7 those of a. */
__device__ static __forceinline__ uint32_t gpu_bytes(uint32_t a, uint32_t b, uint32_t selector) {
#if GPU_ON_CUDA
    return __byte_perm(b, a,
        (selector & 15) | (selector >> 4 & 0xf0) | (selector >> 8 & 0xf00) |
            (selector >> 12 & 0xf000));
#else
    return __builtin_amdgcn_perm(a, b, selector);
#endif
}
/* Two values side by side, rounded to nearest even. */
template <int DTYPE> __device__ static __forceinline__ uint32_t gpu_pack(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t x;
    if constexpr (DTYPE == ATTN_F16)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    return x;
#else
#if !GPU_ON_CUDA
    if constexpr (DTYPE == ATTN_F16) {
        typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));
        const f16x2 two = {(_Float16)low, (_Float16)high};
        return __builtin_bit_cast(uint32_t, two);
    }
#endif
    return DTYPE == ATTN_F16 ? gpu_f16_bits(low) | (uint32_t)gpu_f16_bits(high) << 16
                             : gpu_bytes(gpu_bf16_upper(high), gpu_bf16_upper(low), 0x07060302u);
#endif
}

/* The compiler knows nothing of x any more: it can neither widen nor hoist what is computed from
   it; x is in registers, and what precedes it before what follows. */
template <class T> __device__ static inline void gpu_pin(T &x) {
#if defined(__HIP_DEVICE_COMPILE__)
    asm volatile("" : "+v"(x));
#elif defined(__CUDA_ARCH__)
    asm volatile("" : "+r"(x));
#else
    (void)x;
#endif
}
#if defined(__CUDA_ARCH__)
__device__ static inline void gpu_pin(float &x) { asm volatile("" : "+f"(x)); }
template <class T, int N> __device__ static __forceinline__ void gpu_pin(T (&x)[N]) {
    GPU_UNROLL for (int n = 0; n < N; n++)
        gpu_pin(x[n]);
}
#endif
/* Of what a pointer that is kept through a loop points to: memory, never LDS. What may be either is
   read by an instruction that LDS's counter counts too, in no order, so that each wait for LDS then
   waits for memory. */
#if GPU_ON_CUDA
#define GPU_GLOBAL
#else
#define GPU_GLOBAL __attribute__((address_space(1)))
#endif
/* The thread's index, for addresses and masks that are to be made where they are used and not
 * kept in registers. */
__device__ static inline int32_t gpu_thread(void) {
    int32_t t = (int32_t)threadIdx.x;
    gpu_pin(t);
    return t;
}
/* No instruction moves across. */
__device__ static inline void gpu_fence(void) {
#if defined(__HIP_DEVICE_COMPILE__)
    __builtin_amdgcn_sched_barrier(0);
#endif
}
/* Where lanes of a wave run on their own: what one writes next, the others have read. */
__device__ static inline void gpu_wave_has_read(void) {
#if defined(__CUDA_ARCH__)
    __syncwarp();
#endif
}

/* A kernel's arguments, read anew: what is needed early and late does not stay in scalar
   registers between. Without optimization nothing stays anywhere, clang has no scalar register for
   the constraint, and a function that is not part of the kernel does not know the arguments. */
template <class P> __device__ static __forceinline__ const P &gpu_reload(const P &p) {
#if !GPU_ON_CUDA && defined(__HIP_DEVICE_COMPILE__) && defined(__OPTIMIZE__)
    auto *at = __builtin_amdgcn_kernarg_segment_ptr();
    asm volatile("" : "+s"(at));
    return *(const P *)at;
#else
    return p;
#endif
}

/* Of a wave. lane: the same in all of it */
#if GPU_ON_CUDA
__device__ static inline uint64_t gpu_wave_ballot(bool x) { return __ballot_sync(0xffffffffu, x); }
__device__ static inline float gpu_wave_read(float x, int lane) {
    return __shfl_sync(0xffffffffu, x, lane);
}
__device__ static inline float gpu_wave_xor(float x, int mask) {
    return __shfl_xor_sync(0xffffffffu, x, mask);
}
__device__ static inline int32_t gpu_uniform(int32_t x) { return x; }
#else
__device__ static inline uint64_t gpu_wave_ballot(bool x) { return GPU_BALLOT(x); }
__device__ static inline float gpu_wave_read(float x, int lane) {
    return __int_as_float(__builtin_amdgcn_readlane(__float_as_int(x), lane));
}
__device__ static inline float gpu_wave_xor(float x, int mask) {
    return __shfl_xor(x, mask, GPU_WAVE);
}
/* x is the same in the whole wave: into a scalar register. */
__device__ static inline int32_t gpu_uniform(int32_t x) {
    return __builtin_amdgcn_readfirstlane(x);
}
#endif
__device__ static inline uint64_t gpu_wave_read_bits(uint64_t x, int lane) {
    const float low = gpu_wave_read(__uint_as_float((uint32_t)x), lane),
                high = gpu_wave_read(__uint_as_float((uint32_t)(x >> 32)), lane);
    return (uint64_t)__float_as_uint(high) << 32 | __float_as_uint(low);
}
/* The value of a lane that each lane names for itself. */
__device__ static inline float gpu_wave_pick(float x, int32_t lane) {
#if GPU_ON_CUDA
    return __shfl_sync(0xffffffffu, x, lane);
#elif defined(__HIP_DEVICE_COMPILE__)
    return __int_as_float(__builtin_amdgcn_ds_bpermute(4 * lane, __float_as_int(x)));
#else
    return x + (float)lane;
#endif
}
__device__ static inline int32_t gpu_wave_pick(int32_t x, int32_t lane) {
    return __float_as_int(gpu_wave_pick(__int_as_float(x), lane));
}
__device__ static inline float gpu_wave_max(float x) { /* a NaN does not count */
    for (int mask = GPU_WAVE / 2; mask; mask /= 2) x = fmaxf(x, gpu_wave_xor(x, mask));
    return x;
}
__device__ static inline float gpu_wave_sum(float x) {
    for (int mask = GPU_WAVE / 2; mask; mask /= 2) x += gpu_wave_xor(x, mask);
    return x;
}
/* The value of lane n of 8, of which this thread is number t in its workgroup: of gpu_thread, or
   the lane numbers of all n are held in registers across loops. */
__device__ static inline float gpu_of_eight(float x, int32_t t, int n) {
#if GPU_ON_CUDA
    return __shfl_sync(0xffffffffu, x, (t & 24) + n);
#else
    return __shfl(x, (t & 56) + n);
#endif
}
/* The value of the next lane among 8, lane 7 that of lane 0. */
__device__ static inline float gpu_rotate8(float x) {
#if defined(__HIP_DEVICE_COMPILE__) && \
    (defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__))
    /* selectors of 3 bits: lane n reads lane (n + 1) % 8 */
    return __int_as_float(__builtin_amdgcn_mov_dpp8(
        __float_as_int(x), 1 | 2 << 3 | 3 << 6 | 4 << 9 | 5 << 12 | 6 << 15 | 7 << 18 | 0 << 21));
#elif GPU_ON_CUDA
    return __shfl_sync(0xffffffffu, x, (int)((threadIdx.x & 24u) | ((threadIdx.x + 1) & 7u)));
#else
    return __shfl(x, (int)((threadIdx.x & 56u) | ((threadIdx.x + 1) & 7u)));
#endif
}
/* ============================================================================ >>fragment ====
   One interface over the matrix units. A tile is TILE keys (or output dims) by TILE queries, and
   every product is S^T = K Q^T or O^T = V^T P^T: the left operand comes from LDS, the right one is
   Q or P in registers.

     lane l of a wave:   half = l / TILE (0 or 1), its query (column of every tile) = l % TILE
     operand, 16 k:      row l % TILE of the right operand, k = 8 half .. 8 half + 7: 16 bytes a
                         lane (gfx11 wants all 16 k in both halves: 32 bytes a lane)
     left operand:       the same, but row left_row(l) of the tile: a permutation, chosen so that
     accumulator:        registers 8c .. 8c + 7 are rows 16c + 8 half .. + 7 of the tile,
                         column l % TILE

                         rows of a tile        registers of half 0   of half 1
                         16c      .. 16c + 7   8c .. 8c + 7
                         16c + 8  .. 16c + 15                        8c .. 8c + 7

   So eight scores in a row of a lane are eight keys in a row, they feed the second product from
   where they are, one mask formula serves every unit, and every access to LDS, q and o is 16 bytes.
   Which k of the hardware an element meets does not matter as long as both operands agree.

   m and l of a lane belong to QUERIES queries: 1 here, 2 on a unit that computes
   S = Q K^T (mma.sync). */
template <int UNIT> struct gpu_unit;
#if GPU_ON_CUDA
struct alignas(8) gpu_u32x2 {
    uint32_t of[2];
    __device__ __forceinline__ uint32_t &operator[](int n) { return of[n]; }
    __device__ __forceinline__ uint32_t operator[](int n) const { return of[n]; }
};
struct alignas(16) gpu_u32x4 {
    uint32_t of[4];
    __device__ __forceinline__ uint32_t &operator[](int n) { return of[n]; }
    __device__ __forceinline__ uint32_t operator[](int n) const { return of[n]; }
};
struct gpu_f32x2 {
    float of[2];
    __device__ __forceinline__ float operator[](int n) const { return of[n]; }
};
__device__ static __forceinline__ gpu_f32x2 operator*(gpu_f32x2 a, gpu_f32x2 b) {
    return {{a.of[0] * b.of[0], a.of[1] * b.of[1]}};
}
__device__ static __forceinline__ gpu_f32x2 operator*(gpu_f32x2 a, float b) {
    return {{a.of[0] * b, a.of[1] * b}};
}
__device__ static __forceinline__ gpu_f32x2 operator+(gpu_f32x2 a, gpu_f32x2 b) {
    return {{a.of[0] + b.of[0], a.of[1] + b.of[1]}};
}
__device__ static __forceinline__ gpu_f32x2 operator-(gpu_f32x2 a, gpu_f32x2 b) {
    return {{a.of[0] - b.of[0], a.of[1] - b.of[1]}};
}
#else
typedef uint32_t gpu_u32x2 __attribute__((ext_vector_type(2)));
typedef uint32_t gpu_u32x4 __attribute__((ext_vector_type(4)));
typedef uint32_t gpu_u32x8 __attribute__((ext_vector_type(8)));
typedef float gpu_f32x2 __attribute__((ext_vector_type(2)));
typedef float gpu_f32x8 __attribute__((ext_vector_type(8)));
typedef float gpu_f32x16 __attribute__((ext_vector_type(16)));
typedef short gpu_i16x4 __attribute__((ext_vector_type(4)));
typedef short gpu_i16x8 __attribute__((ext_vector_type(8)));
typedef short gpu_i16x16 __attribute__((ext_vector_type(16)));
typedef _Float16 gpu_f16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 gpu_f16x8 __attribute__((ext_vector_type(8)));
typedef _Float16 gpu_f16x16 __attribute__((ext_vector_type(16)));

/* Two P, rounded towards zero: bf16 has no conversion on these chips, and one byte permutation does
   it. The kernel takes the mean error out again (gpu_p_bias). */
template <int DTYPE> __device__ static inline uint32_t gpu_truncate2(float low, float high) {
    if constexpr (DTYPE == ATTN_F16)
        return __builtin_bit_cast(uint32_t, __builtin_amdgcn_cvt_pkrtz(low, high));
    else return gpu_bytes(__float_as_uint(high), __float_as_uint(low), 0x07060302u);
}

/* What units whose lanes have one column share: >>gradients asks for it. */
template <int TILE> struct gpu_one_column {
    /* CUTS: P and ds are cut towards zero. ANEW: what is made of a right operand is not kept */
    enum { COLUMNS = 1, CUTS = 1, ANEW = 0 };
    __device__ static int first_row(int lane) { return 8 * (lane / TILE); }
    __device__ static int column(int lane, int) { return lane % TILE; }
    /* of sum n of a lane, rows from its first on */
    __device__ static constexpr int column_of(int) { return 0; }
    __device__ static constexpr int row_of(int n) { return n / 8 * 16 + n % 8; }
    template <int DTYPE> __device__ static uint32_t pack(float low, float high) {
        return gpu_truncate2<DTYPE>(low, high);
    }
};
/* A unit whose lanes hold the 8 k of their half. chunk(lane), of each unit: the 16-byte chunk of a
   16-k step in which a lane's elements begin; left_chunk(lane): those of its left operand. */
struct gpu_half_operand {
    typedef gpu_u32x4 operand, weights;
    /* The operand of the chunk at chunk(lane), and of the one after it where it takes both. */
    __device__ static operand whole(gpu_u32x4 low, gpu_u32x4) { return low; }
    /* The right operand of which this lane has the k of its half. */
    __device__ static operand exchange(gpu_u32x4 own) { return own; }
};
/* What MFMA of 32 x 32 share (gfx90a, gfx942), wave64. A: row l % 32; D: row 8 (r / 4) + 4 (l / 32)
   + r % 4. Bits 2 and 3 of a left row swap. */
struct gpu_mfma : gpu_half_operand, gpu_one_column<32> {
    enum {
        TILE = 32,
        WAVE = 64,
        QUERIES = 1,
        SCORES_START_AT_MAX = 0,
        LIGHT_DIMS = 128,
        LATE_V = 0,
        RING = 2,
        STEPWISE = 1
    };
    typedef gpu_f32x16 acc;
    __device__ static int left_row(int lane) {
        return (lane & 19) | (lane & 4) << 1 | (lane & 8) >> 1;
    }
    __device__ static int chunk(int lane) { return lane / TILE; }
    __device__ static int left_chunk(int lane) { return chunk(lane); }
    /* The value of the lane with the other half of this lane's query. */
    __device__ static float other_half(float x) { return gpu_wave_xor(x, 32); }
    __device__ static float column_max(float x) { return fmaxf(x, other_half(x)); }
};
/* 32x32x8: k = 4 (l / 32) + e. An operand of 16 k is two of the instruction's. */
template <> struct gpu_unit<UNIT_MFMA> : gpu_mfma {
    template <int DTYPE> __device__ static acc mma(operand a, operand b, acc c) {
        /* names of their own: clang 19's bit cast of a.hi reads a.lo */
        const gpu_u32x2 a0 = a.lo, a1 = a.hi, b0 = b.lo, b1 = b.hi;
        return half<DTYPE>(a1, b1, half<DTYPE>(a0, b0, c));
    }
    template <int DTYPE> __device__ static acc half(gpu_u32x2 a, gpu_u32x2 b, acc c) {
        if constexpr (DTYPE == ATTN_F16)
            return __builtin_amdgcn_mfma_f32_32x32x8f16(
                __builtin_bit_cast(gpu_f16x4, a), __builtin_bit_cast(gpu_f16x4, b), c, 0, 0, 0);
        else
            return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(
                __builtin_bit_cast(gpu_i16x4, a), __builtin_bit_cast(gpu_i16x4, b), c, 0, 0, 0);
    }
};
/* f32, 32x32x2: lane l holds A[l % 32][l / 32] and B[l / 32][l % 32]. */
__device__ static inline gpu_f32x16 gpu_mfma_f32(float a, float b, gpu_f32x16 c) {
    return __builtin_amdgcn_mfma_f32_32x32x2f32(a, b, c, 0, 0, 0);
}
/* An operand of 8 k, 4 of each half, is four of the instruction's; nothing is rounded. */
template <> struct gpu_unit<UNIT_MFMA_F32> : gpu_mfma {
    enum { CUTS = 0 };
    typedef gpu_f32x8 weights;
    template <int> __device__ static acc mma(operand a, operand b, acc c) {
        GPU_UNROLL for (int e = 0; e < 4; e++)
            c = gpu_mfma_f32(__uint_as_float(a[e]), __uint_as_float(b[e]), c);
        return c;
    }
    __device__ static acc multiply_add(float a, float b, acc c) { return gpu_mfma_f32(a, b, c); }
    /* f32's largest where x is beyond, or a NaN */
    __device__ static float finite(float x) {
        return __builtin_amdgcn_fmed3f(x, -0x1.fffffep127f, 0x1.fffffep127f);
    }
};

/* What both WMMA 16x16x16 units share. */
struct gpu_wmma : gpu_one_column<16> {
    enum { TILE = 16, WAVE = 32, QUERIES = 1, SCORES_START_AT_MAX = 1 };
    typedef gpu_f32x8 acc;
    __device__ static uint32_t swap_halves(uint32_t x) {
        return __builtin_amdgcn_permlanex16(x, x, 0x76543210u, 0xfedcba98u, false, false);
    }
    __device__ static float other_half(float x) {
        return __uint_as_float(swap_halves(__float_as_uint(x)));
    }
    __device__ static float column_max(float x) { return fmaxf(x, other_half(x)); }
};

/* f32 without a matrix unit, wave32: 16 x 16 x 2 by multiply-adds, which take their left factor from a
   lane of the 16 that this one is of (DPP, from gfx10 on), at no cost. B: k = l / 16, column l % 16; D:
   rows 8 (l / 16) + r. Of A a lane has row 8 (l / 16) + l % 8; of 16 lanes the first 8 have the k that
   their half has of B, the others that of the other half. The compiler makes no such multiply-adds by
   itself (clang 19 leaves a move for each). */
template <> struct gpu_unit<UNIT_FMA> : gpu_wmma, gpu_half_operand {
    enum { LATE_V = 0, RING = 2, STEPWISE = 1, CUTS = 0, SCORES_START_AT_MAX = 0, ANEW = 1 };
    typedef gpu_f32x8 weights;
    __device__ static int left_row(int lane) { return lane / TILE * 8 + lane % 8; }
    __device__ static int left_chunk(int lane) { return (lane / 8 ^ lane / TILE) & 1; }
    __device__ static int chunk(int lane) { return lane / TILE; }
    template <int> __device__ static acc mma(operand a, operand b, acc c) {
        GPU_UNROLL for (int e = 0; e < 4; e++)
            c = multiply_add(__uint_as_float(a[e]), __uint_as_float(b[e]), c);
        return c;
    }
    __device__ static acc multiply_add(float a, float b, acc c) {
#if defined(__HIP_DEVICE_COMPILE__)
        /* every lane is there; that the others would count as 0 saves a copy of b for them. It is not
           in asm below, for the compiler has to see that b is read: it may come from exp2 */
        const float other = __int_as_float(__builtin_amdgcn_permlanex16(
            __float_as_int(b), __float_as_int(b), 0x76543210u, 0xfedcba98u, false, true));
        float c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3], c4 = c[4], c5 = c[5], c6 = c[6],
              c7 = c[7];
        /* clang-format off */
#define GPU_SHARE(c, b, lane) \
    "v_fmac_f32_dpp %" #c ", %8, %" #b " row_share:" #lane " row_mask:0xf bank_mask:0xf\n\t"
        asm(GPU_SHARE(0, 9, 0) GPU_SHARE(1, 9, 1) GPU_SHARE(2, 9, 2) GPU_SHARE(3, 9, 3)
            GPU_SHARE(4, 9, 4) GPU_SHARE(5, 9, 5) GPU_SHARE(6, 9, 6) GPU_SHARE(7, 9, 7)
            GPU_SHARE(0, 10, 8) GPU_SHARE(1, 10, 9) GPU_SHARE(2, 10, 10) GPU_SHARE(3, 10, 11)
            GPU_SHARE(4, 10, 12) GPU_SHARE(5, 10, 13) GPU_SHARE(6, 10, 14) GPU_SHARE(7, 10, 15)
            : "+&v"(c0), "+&v"(c1), "+&v"(c2), "+&v"(c3), "+&v"(c4), "+&v"(c5), "+&v"(c6), "+&v"(c7)
            : "v"(a), "v"(b), "v"(other));
        /* clang-format on */
#undef GPU_SHARE
        const acc sum = {c0, c1, c2, c3, c4, c5, c6, c7};
        return sum;
#else
        return c + a * b; /* never run */
#endif
    }
    /* f32's largest where x is beyond, or a NaN */
    __device__ static float finite(float x) {
        return __builtin_amdgcn_fmed3f(x, -0x1.fffffep127f, 0x1.fffffep127f);
    }
};
/* gfx11, wave32. A: row l % 16, all k, the same in both halves; D: row 2r + l / 16. */
template <> struct gpu_unit<UNIT_WMMA11> : gpu_wmma {
    enum { LATE_V = 1, RING = 2, STEPWISE = 1, LIGHT_DIMS = 64 };
    typedef gpu_u32x8 operand, weights;
    __device__ static int left_row(int lane) { return (lane & 1) << 3 | (lane & 14) >> 1; }
    __device__ static int chunk(int) { return 0; }
    __device__ static int left_chunk(int) { return 0; }
    __device__ static operand whole(gpu_u32x4 low, gpu_u32x4 high) {
        operand a;
        a.lo = low;
        a.hi = high;
        return a;
    }
    template <int DTYPE> __device__ static acc mma(operand a, operand b, acc c) {
        if constexpr (DTYPE == ATTN_F16)
            return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(
                __builtin_bit_cast(gpu_f16x16, a), __builtin_bit_cast(gpu_f16x16, b), c);
        else
            return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(
                __builtin_bit_cast(gpu_i16x16, a), __builtin_bit_cast(gpu_i16x16, b), c);
    }
    __device__ static operand exchange(gpu_u32x4 own) {
        const bool upper = threadIdx.x & 16;
        operand b;
        for (int n = 0; n < 4; n++) {
            const uint32_t other = swap_halves(own[n]);
            b[n] = upper ? other : own[n];
            b[4 + n] = upper ? own[n] : other;
        }
        return b;
    }
};

/* gfx12, wave32. A: row l % 16, k = 8 (e / 4) + 4 (l / 16) + e % 4; D: row 8 (l / 16) + r. */
template <> struct gpu_unit<UNIT_WMMA12> : gpu_wmma, gpu_half_operand {
    enum { LATE_V = 0, RING = 4, STEPWISE = 1, LIGHT_DIMS = 128 };
    __device__ static int left_row(int lane) { return lane & 15; }
    __device__ static int chunk(int lane) { return lane / TILE; }
    __device__ static int left_chunk(int lane) { return chunk(lane); }
    template <int DTYPE> __device__ static acc mma(operand a, operand b, acc c) {
        if constexpr (DTYPE == ATTN_F16)
            return GPU_WMMA12_F16(
                __builtin_bit_cast(gpu_f16x8, a), __builtin_bit_cast(gpu_f16x8, b), c);
        else
            return GPU_WMMA12_BF16(
                __builtin_bit_cast(gpu_i16x8, a), __builtin_bit_cast(gpu_i16x8, b), c);
    }
};
#endif
#if GPU_ON_CUDA || defined(GPU_EMULATED)
#if !defined(GPU_EMULATED) /* the tests have the same in plain HIP */
/* c += a b */
template <int DTYPE>
__device__ static __forceinline__ void gpu_mma(
    float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if constexpr (DTYPE == ATTN_F16)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/* Four matrices of 8 rows of 16 bytes; lane l has the address of row l % 8 of matrix l / 8, and
   gets of each matrix elements 2 (l % 4) + {0, 1} of row l / 4; transposed: element l / 4 of rows 2
   (l % 4) + {0, 1}. */
template <bool TRANSPOSED>
__device__ static __forceinline__ void gpu_ldmatrix(uint32_t (&x)[4], const char *row) {
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
            : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
            : "r"(at)
            : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
            : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
            : "r"(at)
            : "memory");
}
#endif

/* Eight sums of a lane in two accumulators side by side. */
struct gpu_sums8 {
    float of[2][4];
    __device__ __forceinline__ gpu_sums8() {}
    __device__ __forceinline__ explicit gpu_sums8(float x) {
        GPU_UNROLL for (int n = 0; n < 8; n++)
            of[n / 4][n % 4] = x;
    }
    __device__ __forceinline__ float &operator[](int n) { return of[n / 4][n % 4]; }
    __device__ __forceinline__ float operator[](int n) const { return of[n / 4][n % 4]; }
};
__device__ static __forceinline__ void gpu_pin(gpu_sums8 &) {}
/* mma.sync m16n8k16 twice, for tiles of 16 x 16 whose columns are the instruction's rows: the right
   operand is its A, the left one its B, by ldmatrix. A lane has two columns. For >>gradients: the
   forward has a kernel of its own. */
template <> struct gpu_unit<UNIT_SM80> {
    enum { TILE = 16, WAVE = 32, RING = 2, STEPWISE = 0, COLUMNS = 2, CUTS = 0, ANEW = 0 };
    enum { SCORES_START_AT_MAX = 0 };
    typedef gpu_u32x4 operand, weights;
    typedef gpu_sums8 acc;
    __device__ static constexpr int column_of(int n) { return n % 4 / 2; }
    __device__ static constexpr int row_of(int n) { return n / 4 * 8 + n % 2; }
    __device__ static __forceinline__ int first_row(int lane) { return lane % 4 * 2; }
    __device__ static __forceinline__ int column(int lane, int y) { return lane / 4 + 8 * y; }
    __device__ static __forceinline__ int left_row(int lane) { return lane / 16 * 8 + lane % 8; }
    __device__ static __forceinline__ int chunk(int lane) { return lane / 8 % 2; }
    __device__ static __forceinline__ int left_chunk(int lane) { return chunk(lane); }
    __device__ static __forceinline__ operand left(const char *from, uint32_t at) {
        uint32_t x[4];
        gpu_ldmatrix<false>(x, from + at);
        const operand b = {x[0], x[1], x[2], x[3]};
        return b;
    }
    template <int DTYPE> __device__ static __forceinline__ acc mma(operand b, operand a, acc c) {
        const uint32_t x[4] = {a[0], a[1], a[2], a[3]};
        gpu_mma<DTYPE>(c.of[0], x, b[0], b[1]);
        gpu_mma<DTYPE>(c.of[1], x, b[2], b[3]);
        return c;
    }
    template <int DTYPE> __device__ static __forceinline__ uint32_t pack(float low, float high) {
        return gpu_pack<DTYPE>(low, high);
    }
    __device__ static __forceinline__ operand exchange(gpu_u32x4 own) { return own; }
    __device__ static __forceinline__ float column_max(float x) {
        x = fmaxf(x, gpu_wave_xor(x, 1));
        return fmaxf(x, gpu_wave_xor(x, 2));
    }
};
#endif
/* ============================================================================== >>params ====
   What a kernel is told, filled in by >>host from the resolved description, and what one sequence
   of the batch makes of it. Device arrays of lengths are clamped here, never trusted. */
/* elements: {batch, token, head}; bias, mask {batch, head, query} */
struct gpu_tensor {
    const char *data;
    int64_t stride[3];
};

/* What a kernel must be able to do beside visible ranges; a plain one has none of them. MASK_SCALE:
   a scale outside (2^-100, 2^100); MASK_LIGHT: an o that shows f16's light weights (gpu_light). */
enum {
    MASK_SOFTCAP = 1,
    MASK_BIAS = 2,
    MASK_BOOL = 4,
    MASK_ALIBI = 8,
    MASK_DROPOUT = 16,
    MASK_SCALE = 32,
    MASK_LIGHT = 64
};

/* A call of few rows and many keys has few workgroups, one for each head and query tile. So the
   keys of such a sequence are cut into parts, each of them a sequence of its own: fewer keys, from
   a later one on. A launch takes the parts of sequences with from .. to rows in use, or it leaves out
   all that have parts; the launch after the parts joins them (>>parts). Where keys are cut follows
   from the sequence's own rows and keys, the heads and the device: never from its neighbours. */
struct gpu_cut {
    float *sums;      /* [batch << shift][heads][rows] {maximum, sum}; NULL: no launch of parts */
    int32_t from, to; /* rows in use of a sequence; to 0: none has parts */
    int32_t most[2];  /* parts of a sequence of few rows, and of more */
    int32_t shift;    /* blockIdx.z = sequence << shift | part */
    int32_t rows;     /* of a part, that there is room for */
};
#ifndef GPU_PART_KEYS
#define GPU_PART_KEYS 256 /* a part has a multiple of it */
#endif
enum { GPU_FEW_ROWS = 16, GPU_CUT_ROWS = 64 };
__host__ __device__ static inline int32_t gpu_part_keys(int32_t k_len, int32_t most) {
    const int32_t step = GPU_PART_KEYS * most;
    return (k_len / step + (k_len % step != 0)) * GPU_PART_KEYS;
}
/* The parts of a sequence: 1 where it is computed whole. */
__host__ __device__ static inline int32_t gpu_parts_of(
    const gpu_cut &c, int32_t rows, int32_t k_len) {
    if (!c.to || rows < c.from || rows > c.to || k_len <= GPU_PART_KEYS) return 1;
    const int32_t keys = gpu_part_keys(k_len, c.most[rows > GPU_FEW_ROWS]);
    return k_len / keys + (k_len % keys != 0);
}

struct gpu_params {
    gpu_tensor q, k, v, o, bias, mask;
    gpu_cut cut;
    float *lse;
    const float *alibi, *sink, *bias_scale;
    const int32_t *cu_q, *cu_k, *used_q, *used_k, *start_k, *slot; /* NULL: not given */
    int64_t total_q, total_k, slots;
    int32_t batch, heads, kv_heads, group; /* group = heads / kv_heads */
    /* q_len, kv_len: capacity, or the bound of packed sequences */
    int32_t q_len, kv_len, head_dim, v_dim;
    int32_t o_dtype, bias_dtype; /* ATTN_F32 .. ATTN_F64 */
    int32_t masks;               /* MASK_ bits in use */
    int32_t q_tiles;             /* query tiles of a (batch, head): grid.x */
    /* ATTN_CAUSAL, ATTN_WINDOW_*, ATTN_TOP_LEFT, ATTN_OFFSET */
    uint32_t flags;
    float scale, scale_log2;                        /* scale; scale * log2(e) */
    float softcap, softcap_before, softcap_inverse; /* gpu_capped */
    int64_t offset, window_left, window_right;
    /* dropped where the Philox word is below it */
    uint32_t dropout_below;
    float dropout_scale; /* 1 / (1 - rate) */
    /* bh_first: of this launch's (batch 0, head 0) in the call */
    uint32_t seed[2], philox_offset, bh_first;
};

/* One sequence: row i of head h is q.data + q_base + i * q.stride[1] + h * q.stride[2] (elements),
 * key j alike. */
struct gpu_seq {
    int64_t q_base, k_base, v_base, o_base;
    int64_t lse_base, lse_head; /* lse[lse_base + h * lse_head + i] */
    /* buffer column of key 0 in a row of bias or mask */
    int64_t column;
    int64_t k_batch, k_first; /* where pages do not say it: key j is token k_first + j */
    /* rows to be written; rows that see keys; keys; of a part, where it begins in the sequence */
    int32_t b, q_rows, q_used, k_len, first;
    int64_t offset; /* of the whole sequence */
};

__device__ static inline int32_t gpu_clamp(int64_t x, int64_t lo, int64_t hi) {
    return (int32_t)(x < lo ? lo : x > hi ? hi : x);
}

__device__ static inline int64_t gpu_sat_add(int64_t a, int64_t b) {
    int64_t s = (int64_t)((uint64_t)a + (uint64_t)b);
    return a > 0 && b > 0 && s < 0 ? INT64_MAX : a < 0 && b < 0 && s >= 0 ? INT64_MIN : s;
}
/* list[i], clamped to [lo, hi]. The same for the whole wave, and no kernel writes what it reads here:
 * by the scalar unit, where there is one. */
__device__ static inline int32_t gpu_length(
    const int32_t *list, int32_t i, int64_t lo, int64_t hi) {
#if defined(__HIP_DEVICE_COMPILE__)
    return gpu_clamp(
        ((const __attribute__((address_space(4))) int32_t *)(uintptr_t)list)[i], lo, hi);
#else
    return gpu_clamp(list[i], lo, hi);
#endif
}
__device__ static inline gpu_seq gpu_whole_sequence(const gpu_params &p, int32_t b) {
    gpu_seq s;
    int64_t q_first = 0, q_rows = p.q_len, k_first = 0, capacity = p.kv_len;
    if (p.cu_q) {
        q_first = gpu_length(p.cu_q, b, 0, p.total_q);
        q_rows = gpu_clamp(gpu_length(p.cu_q, b + 1, q_first, p.total_q) - q_first, 0, p.q_len);
    }
    if (p.cu_k) {
        k_first = gpu_length(p.cu_k, b, 0, p.total_k);
        capacity = gpu_clamp(gpu_length(p.cu_k, b + 1, k_first, p.total_k) - k_first, 0, p.kv_len);
    }
    int64_t used = p.used_k ? gpu_length(p.used_k, b, 0, capacity) : capacity;
    int64_t start = p.start_k ? gpu_length(p.start_k, b, 0, used) : 0;
    int64_t q_batch = p.cu_q ? 0 : b, k_batch = p.cu_k   ? 0
                                                : p.slot ? gpu_length(p.slot, b, 0, p.slots - 1)
                                                         : b;
    s.b = b;
    s.q_rows = (int32_t)q_rows;
    s.q_used = p.used_q ? gpu_length(p.used_q, b, 0, q_rows) : (int32_t)q_rows;
    s.k_len = (int32_t)(used - start);
    s.first = 0;
    s.column = start;
    s.k_batch = k_batch;
    s.k_first = k_first + start;
    s.q_base = q_batch * p.q.stride[0] + q_first * p.q.stride[1];
    s.o_base = q_batch * p.o.stride[0] + q_first * p.o.stride[1];
    s.k_base = k_batch * p.k.stride[0] + (k_first + start) * p.k.stride[1];
    s.v_base = k_batch * p.v.stride[0] + (k_first + start) * p.v.stride[1];
    s.lse_base = p.cu_q ? q_first : (int64_t)b * p.heads * p.q_len;
    s.lse_head = p.cu_q ? p.total_q : p.q_len;
    s.offset = p.flags & ATTN_TOP_LEFT ? 0
               : p.flags & ATTN_OFFSET ? p.offset
                                       : (int64_t)s.k_len - s.q_used;
    return s;
}
/* The sequence becomes its part, or nothing where this launch is not about it. */
__device__ static inline void gpu_take_part(const gpu_params &p, gpu_seq &s, int32_t z) {
    const int32_t parts = gpu_parts_of(p.cut, s.q_used, s.k_len),
                  part = z & ((1 << p.cut.shift) - 1);
    if (p.cut.sums ? parts == 1 || part >= parts : parts > 1) {
        s.q_rows = s.q_used = s.k_len = 0;
        return;
    }
    if (!p.cut.sums) return;
    const int32_t keys = gpu_part_keys(s.k_len, p.cut.most[s.q_used > GPU_FEW_ROWS]),
                  first = part * keys;
    s.q_rows = s.q_used; /* the others are of the join */
    s.k_len = min(keys, s.k_len - first);
    s.first = first;
    s.column += first;
    s.k_first += first;
    s.k_base += first * p.k.stride[1];
    s.v_base += first * p.v.stride[1];
    s.o_base = z * p.o.stride[0];
    s.lse_base = (int64_t)z * p.heads * p.cut.rows;
    s.lse_head = p.cut.rows;
}
/* Of blockIdx.z. */
__device__ static inline gpu_seq gpu_sequence(const gpu_params &p, int32_t z) {
    gpu_seq s = gpu_whole_sequence(p, p.cut.sums ? z >> p.cut.shift : z);
    if (p.cut.to) gpu_take_part(p, s, z);
    return s;
}

/* What rows [i0, i0 + rows) of a sequence see, said here and nowhere else. Causal masks and windows
   are two shifts of the diagonal: row i0 + r sees keys [lo_shift + r, hi_shift + r), both clamped
   to [0, k_len], the first to [0, lo_most]. [lo, hi): keys that some row sees; [whole_lo,
   whole_hi): that all rows see. */
struct gpu_range {
    int32_t lo, hi; /* none unless lo < hi */
};
struct gpu_reach {
    int32_t lo_shift, hi_shift, lo_most;
    int32_t lo, hi, whole_lo, whole_hi;
};
/* Row i0 + r. Neither end falls as r grows. */
__device__ static inline gpu_range gpu_reach_row(
    const gpu_reach &e, const gpu_seq &s, int32_t i0, int32_t r) {
    /* a shift is at most k_len: no sum passes 2^31 */
    gpu_range k;
    k.lo = e.lo_shift > e.lo_most - r ? e.lo_most : max(e.lo_shift + r, 0);
    k.hi = e.hi_shift > s.k_len - r ? s.k_len : max(e.hi_shift + r, 0);
    if (i0 + r >= s.q_used) k.hi = 0;
    return k;
}
/* Row i sees keys [min(lo + i, lo_most), hi + i) of the whole sequence, as far as there are any.
   i + offset saturates before the window is taken from it: lo_most is what that leaves. */
struct gpu_diagonals {
    int64_t lo, hi, lo_most;
};
__device__ static inline gpu_diagonals gpu_diagonals_of(const gpu_params &p, const gpu_seq &s) {
    gpu_diagonals to = {INT64_MIN, INT64_MAX, INT64_MAX};
    if (p.flags & ATTN_WINDOW_LEFT) {
        to.lo = gpu_sat_add(s.offset, -p.window_left);
        to.lo_most = INT64_MAX - p.window_left;
    }
    if (p.flags & ATTN_WINDOW_RIGHT) to.hi = gpu_sat_add(gpu_sat_add(s.offset, p.window_right), 1);
    if (p.flags & ATTN_CAUSAL) {
        const int64_t diagonal = gpu_sat_add(s.offset, 1);
        if (diagonal < to.hi) to.hi = diagonal;
    }
    return to;
}
__device__ static inline gpu_reach gpu_reach_of(
    const gpu_params &p, const gpu_seq &s, int32_t i0, int32_t rows) {
    const gpu_diagonals to = gpu_diagonals_of(p, s);
    gpu_reach e;
    const int64_t row0 = (int64_t)i0 - s.first;
    e.lo_most = s.k_len;
    if (p.flags & ATTN_WINDOW_LEFT) e.lo_most = gpu_clamp(to.lo_most - s.first, 0, s.k_len);
    e.lo_shift = gpu_clamp(gpu_sat_add(to.lo, row0), -rows, s.k_len);
    e.hi_shift = gpu_clamp(gpu_sat_add(to.hi, row0), -rows, s.k_len);
    const int32_t last = max(min(rows, s.q_used - i0), 1) - 1; /* of those in use, or none sees */
    const gpu_range first_row = gpu_reach_row(e, s, i0, 0),
                    last_row = gpu_reach_row(e, s, i0, last);
    e.lo = first_row.lo;
    e.hi = last_row.hi;
    e.whole_lo = last_row.lo;
    e.whole_hi = first_row.hi;
    return e;
}
/* Row i alone. */
__device__ static inline gpu_range gpu_visible(const gpu_params &p, const gpu_seq &s, int32_t i) {
    return gpu_reach_row(gpu_reach_of(p, s, i, 1), s, i, 0);
}

/* The rows that see key j, masks and biases aside. */
__device__ static inline gpu_range gpu_rows_of(const gpu_params &p, const gpu_seq &s, int32_t j) {
    const gpu_diagonals to = gpu_diagonals_of(p, s);
    const int64_t next = (int64_t)s.first + j + 1;
    gpu_range rows = {gpu_clamp(gpu_sat_add(next, -to.hi), 0, s.q_used), s.q_used};
    if (to.lo != INT64_MIN && next <= to.lo_most)
        rows.hi = gpu_clamp(gpu_sat_add(next, -to.lo), 0, s.q_used);
    return rows;
}

/* May 16-bit q, k and v be read 16 bytes at a time? */
__device__ static inline bool gpu_aligned16(const gpu_params &p) {
    int64_t bits = p.head_dim | p.v_dim;
    for (int n = 0; n < 3; n++) bits |= p.q.stride[n] | p.k.stride[n] | p.v.stride[n];
    return bits % 8 == 0 &&
           ((uintptr_t)p.q.data | (uintptr_t)p.k.data | (uintptr_t)p.v.data) % 16 == 0;
}

/* ================================================================================ >>mask ====
   One score of a general kernel: softcap, bias, ALiBi, boolean mask, and the dropout words. The
   order is the contract's: cap, add, hide. Ranges (causal, windows, lengths) are gpu_reach's; j is
   always a key of the sequence here, since bias and mask columns beyond need not exist. */
#define GPU_FLT_MAX 3.40282347e38f
#define GPU_LOG2E 1.44269504f
#define GPU_LN2 0.693147181f
#define GPU_NEG_INF __uint_as_float(0xff800000u)
/* on the bits: no -ffast-math folds it */
__device__ static inline bool gpu_is_finite(float x) {
    return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

/* One element of dtype ATTN_F32, F16, BF16 or F64, and back, rounded to nearest even. */
__device__ static inline float gpu_get(const char *data, int32_t dtype, int64_t at) {
    switch (dtype) {
        case ATTN_F32:  return ((const float *)data)[at];
        case ATTN_F16:  return gpu_f16_value(((const uint16_t *)data)[at]);
        case ATTN_BF16: return __uint_as_float((uint32_t)((const uint16_t *)data)[at] << 16);
        default:        return (float)((const double *)data)[at];
    }
}
__device__ static inline void gpu_put(char *data, int32_t dtype, int64_t at, float x) {
    switch (dtype) {
        case ATTN_F32:  ((float *)data)[at] = x; break;
        case ATTN_F16:  ((uint16_t *)data)[at] = gpu_f16_bits(x); break;
        case ATTN_BF16: ((uint16_t *)data)[at] = gpu_bf16_bits(x); break;
        default:        ((double *)data)[at] = (double)x; break;
    }
}

/* x to elements d .. of a row, as many as width has, one after the other from the first register, so
   that the code of the types is there once: x is lost. */
template <int N>
__device__ static inline void gpu_put_each(
    char *row, int32_t dtype, int32_t d, int32_t width, float (&x)[N]) {
    GPU_NO_UNROLL for (int32_t at = d; at < min(d + N, width); at++) {
        gpu_put(row, dtype, at, x[0]);
        GPU_UNROLL for (int n = 0; n + 1 < N; n++)
            x[n] = x[n + 1];
    }
}

/* f64 to f32 towards the odd neighbour: a second rounding to fewer bits is then as if it
 * were the first. */
__device__ static inline float gpu_round_to_odd(double x) {
    float f = (float)x;
    uint32_t u = __float_as_uint(f);
    if ((double)f == x || x != x || (u & 1)) return f;
    return __uint_as_float(fabs((double)f) < fabs(x) ? u + 1 : u - 1);
}
/* The same in f64, rounded once. A NaN of 16 bits is the default one, of x's sign. */
__device__ static inline double gpu_get64(const char *data, int32_t dtype, int64_t at) {
    return dtype == ATTN_F64 ? ((const double *)data)[at] : (double)gpu_get(data, dtype, at);
}
__device__ static inline void gpu_put64(char *data, int32_t dtype, int64_t at, double x) {
    if (dtype == ATTN_F64) ((double *)data)[at] = x;
    else if (dtype == ATTN_F32) ((float *)data)[at] = (float)x;
    else if (x != x)
        ((uint16_t *)data)[at] = (uint16_t)((uint64_t)__double_as_longlong(x) >> 48 & 0x8000) |
                                 (dtype == ATTN_F16 ? 0x7e00 : 0x7fc0);
    else gpu_put(data, dtype, at, gpu_round_to_odd(x));
}

/* tanh, relative error below 4u: near 0 an odd polynomial (1 - 2 / .. would cancel), elsewhere
   1 - 2 / (exp(2|x|) + 1). */
__device__ static inline float gpu_tanh(float x) {
    float a = fabsf(x), u = x * x, p = 0.0162556777f;
    float far = fmaf(-2.0f, gpu_rcp(gpu_exp2(a * 2.88539008f) + 1.0f), 1.0f);
    p = fmaf(p, u, -0.0525789803f);
    p = fmaf(p, u, 0.133193342f);
    p = fmaf(p, u, -0.333328897f);
    p = fmaf(p * u, a, a);
    return copysignf(a < 0.5625f ? p : far, x);
}

/* tanh(score / softcap). The score is multiplied by a power of two before: no inverse is subnormal. */
__device__ static inline float gpu_capped(const gpu_params &p, float score) {
    return gpu_tanh(score * p.softcap_before * p.softcap_inverse);
}

/* sum + rest += x, for terms that are not below 0. */
__device__ static inline void gpu_add_to(float &sum, float &rest, float x) {
    const float next = sum + x;
    rest += x - (next - sum);
    sum = next;
}

/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011): the words of keys 4 * (j / 4) .. + 3 of row
   i. bh: b * heads + h, as this launch counts them. */
struct gpu_words {
    uint32_t w[4];
};
__device__ static inline gpu_words gpu_philox_of(
    const gpu_params &p, uint32_t bh, uint32_t i, uint32_t j) {
    uint32_t c0 = j / 4, c1 = i, c2 = p.bh_first + bh, c3 = p.philox_offset, k0 = p.seed[0],
             k1 = p.seed[1];
    for (int round = 0; round < 10; round++) {
        uint32_t hi0 = __umulhi(0xD2511F53u, c0), lo0 = 0xD2511F53u * c0;
        uint32_t hi1 = __umulhi(0xCD9E8D57u, c2), lo1 = 0xCD9E8D57u * c2;
        c0 = hi1 ^ c1 ^ k0;
        c2 = hi0 ^ c3 ^ k1;
        c1 = lo1;
        c3 = lo0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    gpu_words r = {{c0, c1, c2, c3}};
    return r;
}
/* Of the workgroup's head. */
__device__ static inline gpu_words gpu_philox(const gpu_params &p, uint32_t i, uint32_t j) {
    return gpu_philox_of(p, blockIdx.z * (uint32_t)p.heads + blockIdx.y, i, j);
}

/* What the masks need to know of row i of head h: made once a row. */
struct gpu_row {
    /* elements: key 0 of the row in bias and mask */
    int64_t bias, mask;
    double place;       /* i + offset: exact below 2^53 */
    float slope, share; /* of ALiBi; what the bias goes times */
};
__device__ static inline gpu_row gpu_row_of(
    const gpu_params &p, const gpu_seq &s, int32_t h, int32_t i) {
    gpu_row r;
    r.bias = s.b * p.bias.stride[0] + h * p.bias.stride[1] + i * p.bias.stride[2] + s.column;
    r.mask = s.b * p.mask.stride[0] + h * p.mask.stride[1] + i * p.mask.stride[2] + s.column;
    r.place = (double)i + (double)s.offset - (double)s.first;
    r.slope = p.masks & MASK_ALIBI ? p.alibi[h] : 0.0f;
    r.share = p.bias_scale ? p.bias_scale[h] : 1.0f;
    return r;
}

/* A finite f64 bias beyond f32 stays finite: -1e300 is small, only -infinity hides. */
__device__ static inline float gpu_bias_at(const gpu_params &p, const gpu_row &r, int32_t j) {
    if (p.bias_dtype != ATTN_F64) return gpu_get(p.bias.data, p.bias_dtype, r.bias + j);
    double x = ((const double *)p.bias.data)[r.bias + j];
    if (fabs(x) <= 1.7976931348623157e308)
        x = fmin(fmax(x, -(double)GPU_FLT_MAX), (double)GPU_FLT_MAX);
    return (float)x;
}

/* Hidden by mask or bias? */
__device__ static inline bool gpu_hidden(const gpu_params &p, const gpu_row &r, int32_t j) {
    if ((p.masks & MASK_BOOL) && ((const uint8_t *)p.mask.data)[r.mask + j] == 0) return true;
    return (p.masks & MASK_BIAS) && __float_as_uint(gpu_bias_at(p, r, j)) == 0xff800000u;
}

/* From scale * dot(q_i, k_j) to the score: softcap, bias, ALiBi, boolean mask (not dropout).
   -infinity where the key is hidden, whatever the product was; NaN and +infinity of a bias stay.
   What is finite stays finite, so that a row of -FLT_MAX biases is no empty row; for that the
   scores of general kernels are natural ones, and only their distance from the maximum goes
   to log 2. */
__device__ static inline float gpu_modify(
    const gpu_params &p, const gpu_row &r, int32_t j, float score) {
    float given = 0.0f;
    if (p.masks & MASK_SOFTCAP) score = p.softcap * gpu_capped(p, score);
    const bool finite = gpu_is_finite(score);
    if (p.masks & MASK_BIAS) {
        given = gpu_bias_at(p, r, j);
        score = fmaf(given, r.share, score);
    }
    if (p.masks & MASK_ALIBI) score = fmaf(-r.slope, (float)fabs(r.place - (double)j), score);
    if (finite && gpu_is_finite(given) && gpu_is_finite(r.share) && gpu_is_finite(r.slope))
        score = fminf(fmaxf(score, -GPU_FLT_MAX), GPU_FLT_MAX);
    if ((p.masks & MASK_BIAS) && __float_as_uint(given) == 0xff800000u) score = GPU_NEG_INF;
    if ((p.masks & MASK_BOOL) && ((const uint8_t *)p.mask.data)[r.mask + j] == 0)
        score = GPU_NEG_INF;
    return score;
}
/* The same of any key from 0 on, -infinity if the row does not see it. last: of the sequence. */
__device__ static inline float gpu_modify_in(
    const gpu_params &p, const gpu_row &r, gpu_range see, int32_t last, int32_t j, float score) {
    const float x = gpu_modify(p, r, min(j, last), score);
    return j >= see.lo && j < see.hi ? x : GPU_NEG_INF;
}

/* The scores of keys key0 + n, n not below 0; -infinity for those that the row does not see. One
   comparison: fewer lane masks at once. */
struct gpu_seen {
    uint32_t from, keys;
    __device__ __forceinline__ gpu_seen(gpu_range see, int32_t key0)
        : from((uint32_t)(key0 - see.lo)), keys((uint32_t)max(see.hi - see.lo, 0)) {}
    __device__ __forceinline__ bool has(int n) const { return from + (uint32_t)n < keys; }
    __device__ __forceinline__ float operator()(int n, float score) const {
        return has(n) ? score : GPU_NEG_INF;
    }
};

/* Dropout: key j's word of its four; what is left of a weight that the row's sum has. */
__device__ static inline uint32_t gpu_word_of(gpu_words r, int32_t j) {
    return j & 2 ? (j & 1 ? r.w[3] : r.w[2]) : (j & 1 ? r.w[1] : r.w[0]);
}
__device__ static inline float gpu_kept(const gpu_params &p, uint32_t word, float weight) {
    return word < p.dropout_below ? 0.0f : weight * p.dropout_scale;
}
/* Where P has 16 bits: dropped keys count in the row's sum, which is kept here, but not in the
   maximum that P is measured by: what is kept may be small beside what is dropped, and f16 has no
   room for that. */
struct gpu_all_keys {
    float max, sum, rest;
    __device__ __forceinline__ void begin() {
        max = GPU_NEG_INF;
        sum = rest = 0.0f;
    }
    /* The scores of keys j .. j + N - 1 of row i; those dropped become -infinity. */
    template <int N>
    __device__ __forceinline__ void drop(const gpu_params &p, int32_t i, int32_t j, float (&x)[N]) {
        float top = max, more = 0.0f;
        GPU_UNROLL for (int e = 0; e < N; e++)
            top = fmaxf(top, x[e]);
        const float at = top == GPU_NEG_INF ? 0.0f : top, old = gpu_exp2((max - at) * GPU_LOG2E);
        GPU_UNROLL for (int e = 0; e < N; e++)
            more += gpu_exp2((x[e] - at) * GPU_LOG2E);
        sum *= old;
        rest *= old;
        max = top;
        gpu_add_to(sum, rest, more);
        gpu_words words;
        GPU_UNROLL for (int e = 0; e < N; e++) {
            if (e % 4 == 0) words = gpu_philox(p, (uint32_t)i, (uint32_t)(j + e));
            if ((N < 4 ? gpu_word_of(words, j + e) : words.w[e % 4]) < p.dropout_below)
                x[e] = GPU_NEG_INF;
        }
    }
};

/* The end of a row: what its sums are to be multiplied by, and its lse. row_max: what the weights
   were measured by, as a natural score; row_sum: of those weights, 0 where no key was seen.
   Against a sink far above the scores, whose distance is wanted to the last bit, diff + rest
   is that distance. */
struct gpu_end {
    float factor, lse;
    bool alive; /* it has seen a key whose score is not -infinity */
    /* A sink far above leaves a factor of 0, and what is not finite has to show all the same. */
    __device__ bool kept() const { return alive || factor != 0.0f; }
};
__device__ static inline float gpu_exp_of(float x, float rest) {
    const float log2e = 1.44269502f, log2e_rest = 1.92596303e-8f, y = x * log2e;
    const float tail = fmaf(x, log2e, -y) + fmaf(x, log2e_rest, rest * log2e);
    return gpu_exp2(y) * (fabsf(y) < 1e30f ? fmaf(tail, GPU_LN2, 1.0f) : 1.0f);
}
__device__ static inline gpu_end gpu_end_of(
    const gpu_params &p, int32_t h, float row_max, float row_sum) {
    const float sink = p.sink ? p.sink[h] : GPU_NEG_INF;
    gpu_end e = {0.0f, sink, row_sum != 0.0f};
    if (row_sum == 0.0f) return e;
    if (!p.sink || __float_as_uint(sink) == 0xff800000u) {
        e.factor = 1.0f / row_sum;
        e.lse = row_max + logf(row_sum);
        return e;
    }
    const float diff = row_max - sink, back = diff - row_max;
    float rest = (row_max - (diff - back)) - (sink + back);
    if (!(fabsf(diff) < 1e30f)) rest = 0.0f;
    /* the sink is the maximum; one of +infinity or NaN makes NaN */
    const bool above = diff < 0.0f;
    const float old = above ? gpu_exp_of(diff, rest) : 1.0f;
    const float sum = row_sum * old + (above ? gpu_exp2(sink - sink) : gpu_exp_of(-diff, -rest));
    e.factor = old / sum;
    /* log1p: beside the sink the keys may be too small to show in a sum with 1 */
    e.lse = above ? sink + log1pf(row_sum * old) + (sink - sink) : row_max + logf(sum);
    return e;
}
/* The end of a row of a part, which is not that of the row: its o has the sum 1. A part whose
   scores are all -infinity has the sum 0 and an o of 0, or NaN where a value is not finite: the row
   may go on. */
__device__ static inline gpu_end gpu_finish_part(const gpu_params &p, const gpu_seq &s, int32_t h,
    int32_t i, bool speaks, float row_max, float row_sum) {
    const bool used = i < s.q_used, alive = used && row_sum != 0.0f;
    const gpu_end e = {alive ? 1.0f / row_sum : used ? 1.0f : 0.0f, 0.0f, alive};
    float *sums = p.cut.sums + 2 * (s.lse_base + h * s.lse_head + i);
    if (!speaks || i >= s.q_rows) return e;
    sums[0] = alive ? row_max : GPU_NEG_INF;
    sums[1] = alive ? row_sum : 0.0f;
    return e;
}
/* The same of row i, 0 beyond the rows in use; the thread that speaks for it stores its lse. */
__device__ static inline gpu_end gpu_finish(const gpu_params &p, const gpu_seq &s, int32_t h,
    int32_t i, bool speaks, float row_max, float row_sum) {
    if (p.cut.sums) return gpu_finish_part(p, s, h, i, speaks, row_max, row_sum);
    const gpu_end e = gpu_end_of(p, h, row_max, i < s.q_used ? row_sum : 0.0f);
    if (p.lse && speaks && i < s.q_rows) p.lse[s.lse_base + h * s.lse_head + i] = e.lse;
    return e;
}
__device__ static inline char *gpu_o_row(
    const gpu_params &p, const gpu_seq &s, int32_t h, int32_t i) {
    const int32_t bytes = p.o_dtype == ATTN_F32 ? 4 : p.o_dtype == ATTN_F64 ? 8 : 2;
    return (char *)p.o.data + (s.o_base + i * p.o.stride[1] + h * p.o.stride[2]) * bytes;
}

/* Long sums. A sum of N terms taken in turn may be off by N / 2 units of its last place, and is
   where the terms are alike. So now and then the upper bits of each sum of a row of o go to memory,
   to where that element of o will be, which is nobody else's; what stays is small beside them,
   and so is its last place. When the maximum by which the sums are measured has changed, what lies
   there is multiplied by alpha as it is read. mask: of the bits that go; 0 for lanes that carry
   nothing, which do the arithmetic all the same: a branch around the accumulators costs copies. */
#ifndef GPU_CARRY_KEYS
/* of 16 bits, between two carries: P itself is good for 2^-9 or 2^-12 */
#define GPU_CARRY_KEYS 4096
#endif
__device__ static inline float gpu_carry(float stored, float alpha, uint32_t mask, float &sum) {
    const float old = stored * alpha;
    const float upper = __uint_as_float(__float_as_uint(old + sum) & mask);
    sum = (old - upper) + sum;
    return upper;
}
/* A score is a long sum too: products are added in turn over so many dims, then their sums are. */
enum { GPU_SUM_DIMS = 64 };
/* Terms of any sign and size. */
__device__ static inline void gpu_add_any(float &sum, float &rest, float x) {
    const float next = sum + x, part = next - sum;
    rest += (sum - (next - part)) + (x - part);
    sum = next;
}

/* A matrix product turns the 0 of a hidden key into NaN where V is not finite. So the kernels put
   0 for such values in every tile that some row sees in part, and remember that they did; then,
   with o stored, the workgroup comes here and makes o[i][d] a NaN for each of its rows [row0, row0
   + rows) that sees a key with a non-finite v[j][d]: the rows that do not see it keep the bits
   of a run with a 0 there. alive: of LDS, one word a row, 0 for rows whose o is 0 because their
   scores are all -infinity. A wave has a row in each lane, and walks over the keys that they see;
   which dims of a key are bad is a ballot. It ends when each row has met all dims. DTYPE: of v. All
   threads call it, after a __syncthreads(). */
template <int DTYPE> __device__ static inline bool gpu_bad_value(const char *v, int64_t at) {
    if (DTYPE == ATTN_F32) return !gpu_is_finite(((const float *)v)[at]);
    uint32_t exponent = DTYPE == ATTN_F16 ? 0x7c00u : 0x7f80u;
    return (((const uint16_t *)v)[at] & exponent) == exponent;
}
/* Of dims d0 + lane, the bits of those that row `row` sees a bad value in. keys: [lo, hi) of
 * the whole wave */
template <int DTYPE>
__device__ static __forceinline__ uint64_t gpu_bad_dims(const gpu_params &p, const gpu_seq &s,
    int32_t h, int32_t d0, gpu_range keys, gpu_range see, const gpu_row &row) {
    enum { AT_ONCE = 2 };
    const int32_t left = p.v_dim - d0, lane = (int32_t)threadIdx.x % GPU_WAVE;
    const uint64_t all = left < 64 ? ((uint64_t)1 << left) - 1 : ~(uint64_t)0;
    const uint64_t wanted = GPU_WAVE == 32 ? all & 0xffffffffu : all;
    const int64_t first = s.v_base + h / p.group * p.v.stride[2] + d0 + (lane < left ? lane : 0);
    uint64_t met = 0;
    for (int32_t j = keys.lo; j < keys.hi; j += AT_ONCE) {
        uint64_t bad[AT_ONCE], any = 0;
        GPU_UNROLL for (int n = 0; n < AT_ONCE; n++) {
            const int32_t key = j < keys.hi - n ? j + n : j;
            bad[n] = gpu_wave_ballot(gpu_bad_value<DTYPE>(p.v.data, first + key * p.v.stride[1]));
            any |= bad[n];
        }
        if (!(any & wanted)) continue;
        /* some row sees them, and has not met all of them */
        if (!gpu_wave_ballot((any & wanted & ~met) && see.lo < j + AT_ONCE && j < see.hi)) continue;
        GPU_NO_UNROLL for (int n = 0; n < AT_ONCE; n++)
            if ((bad[n] & wanted & ~met) && j + n >= see.lo && j + n < see.hi &&
                !gpu_hidden(gpu_reload(p), row, j + n))
                met |= bad[n] & wanted;
        if (!gpu_wave_ballot(met != wanted && see.hi > j + AT_ONCE)) break;
    }
    return met;
}
template <int DTYPE>
__device__ static __forceinline__ void gpu_poison_rows(
    const gpu_params &arguments, int32_t h, int32_t row0, int32_t rows, const uint32_t *alive) {
    const float nan = __uint_as_float(0x7fc00000u);
    const int32_t lane = (int32_t)threadIdx.x % GPU_WAVE,
                  q_used = gpu_sequence(gpu_reload(arguments), (int32_t)blockIdx.z).q_used;
    const int32_t end = row0 + rows < q_used ? row0 + rows : q_used;
    for (int32_t r0 = (int32_t)threadIdx.x / GPU_WAVE * GPU_WAVE; row0 + r0 < end;
        r0 += (int32_t)blockDim.x) {
        const int32_t i0 = row0 + r0, last = (i0 + GPU_WAVE < end ? i0 + GPU_WAVE : end) - 1;
        const int32_t i = i0 + lane < last ? i0 + lane : last;
        /* the arguments anew for each step: scalar registers */
        const gpu_params &p = gpu_reload(arguments);
        const gpu_seq s = gpu_sequence(p, (int32_t)blockIdx.z);
        const gpu_reach reach = gpu_reach_of(p, s, i0, last + 1 - i0);
        const gpu_range keys = {reach.lo, reach.hi}, none = {0, 0};
        const gpu_range see =
            i0 + lane <= last && alive[i - row0] ? gpu_reach_row(reach, s, i0, lane) : none;
        const gpu_row row = gpu_row_of(p, s, h, i);
        for (int32_t d0 = 0; d0 < gpu_reload(arguments).v_dim; d0 += GPU_WAVE) {
            const gpu_params &of_values = gpu_reload(arguments);
            const uint64_t bad = gpu_bad_dims<DTYPE>(
                of_values, gpu_sequence(of_values, (int32_t)blockIdx.z), h, d0, keys, see, row);
            const gpu_params &of_o = gpu_reload(arguments);
            const int64_t o_base =
                gpu_sequence(of_o, (int32_t)blockIdx.z).o_base + h * of_o.o.stride[2] + d0 + lane;
            for (int32_t n = 0; i0 + n <= last; n++) {
                const uint64_t dims = gpu_wave_read_bits(bad, n);
                if (dims >> lane & 1)
                    gpu_put((char *)of_o.o.data, of_o.o_dtype, o_base + (i0 + n) * of_o.o.stride[1],
                        nan);
            }
        }
    }
}
/* Does any of the workgroup's waves say so? words: of LDS, one a wave; nobody reads that part of
   LDS any more. */
template <int WAVES> __device__ static inline bool gpu_any_wave(bool x, uint32_t *words) {
    const int32_t t = gpu_thread();
    const bool any = gpu_wave_ballot(x) != 0;
    if (t % GPU_WAVE == 0) words[t / GPU_WAVE] = any;
    __syncthreads();
    uint32_t all = 0;
    for (int w = 0; w < WAVES; w++) all |= words[w];
    return all != 0;
}
/* The last that a workgroup does. bad: the thread met a value that is not finite; it has rows row +
   n * STEP, n < ROWS, of the workgroup's BM, bit n of alive for each, and is one that speaks
   for them. words: of LDS, which is free, WAVES + BM. */
template <int DTYPE, int WAVES, int BM, int ROWS, int STEP>
__device__ static __forceinline__ void gpu_poison(const gpu_params &p, int32_t h, int32_t row0,
    bool bad, uint32_t *words, bool speaks, int32_t row, uint32_t alive) {
    if (!gpu_any_wave<WAVES>(bad, words)) return;
    words += WAVES;
    if (speaks)
        for (int n = 0; n < ROWS; n++) words[row + n * STEP] = p.cut.sums || (alive >> n & 1u);
    __syncthreads();
    gpu_poison_rows<DTYPE>(p, h, row0, BM, words);
}
/* ============================================================================== >>scalar ====
   The kernel of chips without a matrix unit, and of dims beyond every tile. A wave computes a row:
   its lanes take a key each, then an output dim each. Nothing is kept per key, LDS is not used, and
   a value is touched only by a row that sees its key. */
/* A sum of products over `dims`, GPU_SUM_DIMS at a time: add(c, n, sum) adds those of dims c to c + n to
   four sums, for their rounding and for their latency; n is STEP, or 1 where fewer are left. */
template <int STEP, class ADD>
__device__ static __forceinline__ float gpu_dot(int32_t dims, const ADD &add) {
    float all = 0;
    for (int32_t c = 0; c < dims;) {
        const int32_t end = c + GPU_SUM_DIMS < dims ? c + GPU_SUM_DIMS : dims;
        float sum[4] = {0, 0, 0, 0};
        for (; c + STEP <= end; c += STEP) add(c, STEP, sum);
        for (; c < end; c++) add(c, 1, sum);
        all += (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
    return all;
}
/* scale * dot(q_i, k_j). WIDE: rows are whole multiples of 16 bytes, at such addresses, and the sums
   are the same. */
template <int DTYPE, bool WIDE>
__device__ static inline float gpu_scalar_score(const gpu_params &p, int64_t q_at, int64_t k_at) {
    constexpr int SIZE = DTYPE == ATTN_F32 ? 4 : 2, PIECE = 16 / SIZE;
    if constexpr (WIDE)
        return p.scale * gpu_dot<PIECE>(p.head_dim, [&](int32_t c, int n, float *sum) {
            const uint4 q = *(const uint4 *)(p.q.data + (q_at + c) * SIZE),
                        k = *(const uint4 *)(p.k.data + (k_at + c) * SIZE);
            for (int e = 0; e < n; e++)
                sum[e % 4] = fmaf(gpu_get((const char *)&q, DTYPE, e),
                    gpu_get((const char *)&k, DTYPE, e), sum[e % 4]);
        });
    return p.scale * gpu_dot<4>(p.head_dim, [&](int32_t c, int n, float *sum) {
        for (int e = 0; e < n; e++)
            sum[e] = fmaf(gpu_get(p.q.data, DTYPE, q_at + c + e),
                gpu_get(p.k.data, DTYPE, k_at + c + e), sum[e]);
    });
}

/* o and lse of row i of head h, by one wave. DIMS: output dims that a lane holds; more dims
   than its lanes * DIMS take another pass over the keys. The arguments, too many for the scalar
   registers, are read anew by each step. */
template <int DTYPE, bool WIDE, int DIMS>
__device__ static __forceinline__ void gpu_scalar_row(
    const gpu_params &arguments, int32_t h, int32_t i) {
    const gpu_params &p = gpu_reload(arguments);
    const gpu_seq s = gpu_sequence(p, (int32_t)blockIdx.z);
    const int32_t lane = (int32_t)threadIdx.x % GPU_WAVE;
    const gpu_range keys = gpu_visible(p, s, i);
    const gpu_row row = gpu_row_of(p, s, h, i);
    const int64_t q_at = s.q_base + i * p.q.stride[1] + h * p.q.stride[2],
                  k_base = s.k_base + h / p.group * p.k.stride[2],
                  v_base = s.v_base + h / p.group * p.v.stride[2];

    for (int32_t c0 = 0; c0 < p.v_dim; c0 += GPU_WAVE * DIMS) {
        float row_max = GPU_NEG_INF, row_sum = 0, sum_rest = 0, acc[DIMS], rest[DIMS];
        for (int n = 0; n < DIMS; n++) acc[n] = rest[n] = 0;
        for (int32_t j0 = keys.lo; j0 < keys.hi; j0 += GPU_WAVE) {
            /* 1. a score per lane */
            const int32_t j = j0 + lane;
            const gpu_params &of_scores = gpu_reload(p);
            const bool seen = j < keys.hi && !gpu_hidden(of_scores, row, j);
            float score = GPU_NEG_INF;
            if (seen)
                score = gpu_modify(of_scores, row, j,
                    gpu_scalar_score<DTYPE, WIDE>(
                        of_scores, q_at, k_base + j * of_scores.k.stride[1]));
            uint64_t seen_keys = gpu_wave_ballot(seen);

            /* 2. online softmax. `base` stands in for a maximum of -infinity, under which each
             * weight is 0 */
            const float new_max = fmaxf(row_max, gpu_wave_max(score)),
                        base = new_max == GPU_NEG_INF ? 0.0f : new_max;
            float weight = gpu_exp2((score - base) * GPU_LOG2E);
            const float old = gpu_exp2((row_max - base) * GPU_LOG2E);
            row_max = new_max;
            row_sum *= old;
            sum_rest *= old;
            gpu_add_to(row_sum, sum_rest, weight);
            if (p.masks & MASK_DROPOUT) {
                const gpu_params &again = gpu_reload(p);
                const gpu_words r = gpu_philox(again, (uint32_t)i, (uint32_t)j);
                weight = gpu_kept(again, gpu_word_of(r, j), weight);
            }

            /* 3. a dim per lane: of the keys seen the values, a weight of 0 times infinity being a
             * NaN by contract */
            const gpu_params &of_values = gpu_reload(p);
            float part[DIMS];
            for (int n = 0; n < DIMS; n++) part[n] = 0;
            for (; seen_keys; seen_keys &= seen_keys - 1) {
                const int from = __ffsll((unsigned long long)seen_keys) - 1;
                const float w = gpu_wave_read(weight, from);
                const int64_t values = v_base + (j0 + from) * of_values.v.stride[1];
                for (int n = 0; n < DIMS; n++) {
                    const int32_t c = c0 + n * GPU_WAVE + lane;
                    if (c < of_values.v_dim)
                        part[n] = fmaf(w, gpu_get(of_values.v.data, DTYPE, values + c), part[n]);
                }
            }
            for (int n = 0; n < DIMS; n++) {
                acc[n] *= old;
                rest[n] *= old;
                gpu_add_any(acc[n], rest[n], part[n]);
            }
        }

        /* 4. a sum of 0: nothing but scores of -infinity, or no key. A factor of 0 may also be that
         * of a sink far above, beside which a NaN is one still */
        const gpu_params &end = gpu_reload(p);
        const gpu_seq seq = gpu_sequence(end, (int32_t)blockIdx.z);
        const gpu_end e = gpu_finish(
            end, seq, h, i, c0 == 0 && lane == 0, row_max, gpu_wave_sum(row_sum + sum_rest));
        char *o = gpu_o_row(end, seq, h, i);
        for (int n = 0; n < DIMS; n++) {
            const int32_t c = c0 + n * GPU_WAVE + lane;
            const float x = e.kept() ? (acc[n] + rest[n]) * e.factor : 0.0f;
            if (c < end.v_dim) gpu_put(o, end.o_dtype, c, x);
        }
    }
}

/* The kernels: a unit for each wave of the grid's x, and so on in steps. */
__device__ static inline int64_t gpu_first_unit(void) {
    return (int64_t)blockIdx.x * (blockDim.x / GPU_WAVE) +
           gpu_uniform((int32_t)threadIdx.x / GPU_WAVE);
}
__device__ static inline int64_t gpu_units_step(void) {
    return (int64_t)gridDim.x * (blockDim.x / GPU_WAVE);
}

/* grid {q_tiles, heads, batch}, any number of waves */
enum { GPU_SCALAR_ROWS = 8 };
template <int DTYPE, bool WIDE>
__global__ void __launch_bounds__(256) gpu_scalar_forward(gpu_params p) {
    const gpu_seq s = gpu_sequence(p, (int32_t)blockIdx.z);
    const int32_t first = (int32_t)blockIdx.x * GPU_SCALAR_ROWS;
    const int32_t end = first + GPU_SCALAR_ROWS < s.q_rows ? first + GPU_SCALAR_ROWS : s.q_rows;
    for (int32_t i = first + (int32_t)threadIdx.x / GPU_WAVE; i < end;
        i += (int32_t)blockDim.x / GPU_WAVE)
        gpu_scalar_row<DTYPE, WIDE, 8>(p, (int32_t)blockIdx.y, i);
}
#define GPU_ROW_SCALAR(name, DTYPE, align) \
    {name, UNIT_SCALAR, DTYPE, INT32_MAX, INT32_MAX, ~0, GPU_SCALAR_ROWS, 256, 0, align, \
        (const void *)gpu_scalar_forward<DTYPE, (align == 16)>},
/* clang-format off */
#define GPU_ROWS_SCALAR \
    GPU_ROW_SCALAR("scalar_f32", ATTN_F32, 16) GPU_ROW_SCALAR("scalar_f32_any", ATTN_F32, 1) \
    GPU_ROW_SCALAR("scalar_f16", ATTN_F16, 16) GPU_ROW_SCALAR("scalar_f16_any", ATTN_F16, 1) \
    GPU_ROW_SCALAR("scalar_bf16", ATTN_BF16, 16) GPU_ROW_SCALAR("scalar_bf16_any", ATTN_BF16, 1)
/* clang-format on */
/* =============================================================================== >>cache ====
   Caches as text is generated from them: pages, int8 and fp8 codes, q, k and v of different types.
   Parts of few rows read them where they lie (>>decode). For every other kernel rows of one type are
   laid out first: that of all three, or f32. And what goes before the call: new keys and values into
   the cache, rotated and quantised to the bits that the CPU makes. */
struct gpu_codes {
    const float *scale; /* NULL: the tensor has no codes */
    int64_t stride[3];
    int32_t dtype;
};
struct gpu_cache_params {
    gpu_params call; /* the first member: other kernels are launched with the same arguments */
    gpu_codes k, v;
    const int32_t *table; /* [batch][max_pages]; NULL: no pages */
    int64_t max_pages;
    int32_t page_size, pages;
    int32_t q_dtype;
};

/* e4m3 is a sign, 4 bits of exponent with a bias of 7, 3 of fraction: 448 at most, no infinity. */
__device__ static inline float gpu_fp8_value(uint32_t code) {
    const uint32_t sign = (code & 0x80u) << 24, a = code & 0x7fu;
    const float small = (float)a * 0.001953125f; /* 2^-9 */
    if (a == 0x7fu) return __uint_as_float(sign | 0x7fc00000u);
    return __uint_as_float(sign | (a < 8 ? __float_as_uint(small) : (a << 20) + 0x3c000000u));
}
__device__ static inline uint8_t gpu_fp8_bits(float x) {
    const uint32_t u = __float_as_uint(x), sign = u >> 24 & 0x80u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint8_t)(sign | 0x7fu);
    if (a >= 0x43e00000u) return (uint8_t)(sign | 0x7eu);
    if (a < 0x3a800000u) return (uint8_t)sign;
    /* m / 2^shift, to nearest even; below 2^-6 a subnormal */
    const bool normal = a >= 0x3c800000u;
    const uint32_t m = normal ? a - 0x3c000000u : (a & 0x7fffffu) | 0x800000u,
                   shift = normal ? 20 : 141 - (a >> 23);
    const uint32_t code = (m + ((1u << (shift - 1)) - 1) + (m >> shift & 1u)) >> shift;
    return (uint8_t)(sign | (code > 0x7eu ? 0x7eu : code));
}
/* gpu_get and gpu_put with codes, which are without their scale. */
__device__ static inline float gpu_get_any(const char *data, int32_t dtype, int64_t at) {
    if (dtype == ATTN_INT8) return (float)((const int8_t *)data)[at];
    if (dtype == ATTN_FP8_E4M3) return gpu_fp8_value(((const uint8_t *)data)[at]);
    return gpu_get(data, dtype, at);
}
__device__ static inline void gpu_put_code(char *data, int32_t dtype, int64_t at, float x) {
    if (dtype == ATTN_INT8) ((int8_t *)data)[at] = (int8_t)rintf(fminf(fmaxf(x, -127.0f), 127.0f));
    else ((uint8_t *)data)[at] = gpu_fp8_bits(x);
}

/* Where key j of a sequence lies: page and place, or batch entry and token. Tables in device memory
   are clamped, as lengths are. */
struct gpu_place {
    int64_t batch, token;
};
__device__ static inline gpu_place gpu_place_of(
    const gpu_cache_params &p, const gpu_seq &s, int32_t j) {
    gpu_place at = {s.k_batch, s.k_first + j};
    if (!p.table) return at;
    const uint32_t t = (uint32_t)at.token, page = t / (uint32_t)p.page_size;
    at.batch = gpu_clamp(p.table[s.b * p.max_pages + page], 0, p.pages - 1);
    at.token = t - page * (uint32_t)p.page_size;
    return at;
}
__device__ static inline int64_t gpu_element(
    const gpu_place &at, const int64_t *stride, int32_t head) {
    return at.batch * stride[0] + at.token * stride[1] + head * stride[2];
}
__device__ static inline float gpu_scale_of(const gpu_codes &x, const gpu_place &at, int32_t head) {
    return x.scale ? x.scale[gpu_element(at, x.stride, head)] : 1.0f;
}

/* ---- rows of one type ---- */
struct gpu_lay_params {
    gpu_cache_params from;
    char *k, *v;   /* [sequence][keys][kv_heads][dim] */
    float *q;      /* [row][heads][head_dim]; NULL: q stays where it is */
    int32_t *used; /* [sequence]: used_k of what is laid out */
    int64_t keys;
    int32_t dtype; /* of k and v there */
    bool decode;   /* parts of few rows are read where they lie */
};
/* A row, by one wave: as it is, or each code times its scale, as the contract has it: an infinite
   scale makes a NaN of a 0. */
__device__ static __forceinline__ void gpu_lay_row(const gpu_lay_params &p, const gpu_tensor &from,
    const gpu_codes &codes, const gpu_place &place, int32_t head, char *to, int32_t dim) {
    const int64_t at = gpu_element(place, from.stride, head);
    const float scale = gpu_scale_of(codes, place, head);
    for (int32_t c = (int32_t)threadIdx.x % GPU_WAVE; c < dim; c += GPU_WAVE) {
        if (p.dtype != ATTN_F32)
            ((uint16_t *)(void *)to)[c] = ((const uint16_t *)(const void *)from.data)[at + c];
        else ((float *)(void *)to)[c] = scale * gpu_get_any(from.data, codes.dtype, at + c);
    }
}
/* grid {any, kv_heads, any}: keys and rows of q, sequences. What no kernel of rows will read is left
   out: sequences of parts that decode reads, and tiles that no row sees. */
enum { GPU_LAY_TILE = 256 }; /* a multiple of every kernel's */
__global__ static void __launch_bounds__(256) gpu_lay_kernel(gpu_lay_params p) {
    const gpu_params &call = p.from.call;
    const int32_t head = (int32_t)blockIdx.y, size = p.dtype == ATTN_F32 ? 4 : 2;
    for (int32_t b = (int32_t)blockIdx.z; b < call.batch; b += (int32_t)gridDim.z) {
        const gpu_seq s = gpu_whole_sequence(call, b);
        const bool elsewhere =
            p.decode && s.q_used <= GPU_FEW_ROWS && gpu_parts_of(call.cut, s.q_used, s.k_len) > 1;
        if (blockIdx.x == 0 && head == 0 && threadIdx.x == 0)
            p.used[b] = (int32_t)s.column + s.k_len;
        if (elsewhere || s.q_used == 0) continue;
        const gpu_reach seen = gpu_reach_of(call, s, 0, s.q_used);
        const int64_t begin = seen.lo / GPU_LAY_TILE * GPU_LAY_TILE,
                      last = ((int64_t)seen.hi + GPU_LAY_TILE - 1) / GPU_LAY_TILE * GPU_LAY_TILE,
                      end = seen.lo >= seen.hi ? begin
                            : last < s.k_len   ? last
                                               : s.k_len;
        for (int64_t j = begin + gpu_first_unit(); j < end; j += gpu_units_step()) {
            const gpu_place place = gpu_place_of(p.from, s, (int32_t)j);
            const int64_t row = (b * p.keys + s.column + j) * call.kv_heads + head;
            gpu_lay_row(
                p, call.k, p.from.k, place, head, p.k + row * call.head_dim * size, call.head_dim);
            gpu_lay_row(
                p, call.v, p.from.v, place, head, p.v + row * call.v_dim * size, call.v_dim);
        }
        const int64_t first = call.cu_q ? s.lse_base : (int64_t)b * call.q_len,
                      rows = p.q ? (int64_t)s.q_used * call.group : 0;
        for (int64_t u = gpu_first_unit(); u < rows; u += gpu_units_step()) {
            const int64_t i = u / call.group, h = head * call.group + u % call.group;
            float *to = p.q + ((first + i) * call.heads + h) * call.head_dim;
            for (int32_t c = (int32_t)threadIdx.x % GPU_WAVE; c < call.head_dim; c += GPU_WAVE)
                to[c] = gpu_get(call.q.data, p.from.q_dtype,
                    s.q_base + i * call.q.stride[1] + h * call.q.stride[2] + c);
        }
    }
}

/* ---- append ---- */
struct gpu_append_params {
    gpu_cache_params cache; /* used_k is that before the call */
    gpu_tensor k, v;        /* what is new, {batch, token, head} */
    int32_t k_dtype, v_dtype;
    const int32_t *cu; /* [batch + 1]; NULL: len tokens each */
    int64_t len, total;
    const float *cosine, *sine; /* [rotary_rows][rotary_dim / 2]; NULL: nothing is rotated */
    int64_t rotary_rows;
    int32_t rotary_dim;
    bool apart; /* the new rows go to [batch][len] or, with cu, [total], not behind the old ones */
    int32_t *used_after; /* [batch]: used_k of the call that follows; NULL: not wanted */
    float *q;            /* [rows][heads][head_dim], rotated */
};
/* Of a sequence: token `first` of the new tensors becomes key s.k_len. */
struct gpu_added {
    int64_t first;
    int32_t count;
};
__device__ static inline gpu_added gpu_added_of(const gpu_append_params &p, const gpu_seq &s) {
    gpu_added a = {0, (int32_t)p.len};
    if (p.cu) {
        a.first = gpu_clamp(p.cu[s.b], 0, p.total);
        a.count = gpu_clamp(gpu_clamp(p.cu[s.b + 1], a.first, p.total) - a.first, 0, p.len);
    }
    a.count = gpu_clamp(p.cache.call.kv_len - s.column - s.k_len, 0, a.count);
    return a;
}
/* x * y rounded, whatever is added to it: of floats or doubles. */
#if GPU_ON_CUDA
__device__ static inline float gpu_product(float x, float y) { return __fmul_rn(x, y); }
__device__ static inline double gpu_product(double x, double y) { return __dmul_rn(x, y); }
#else
template <class T> __device__ static inline T gpu_product(T x, T y) {
    T z = x * y;
    gpu_pin(z);
    return z;
}
#endif
__device__ static inline float gpu_quotient(float x, float y) {
#if GPU_ON_CUDA
    return __fdiv_rn(x, y);
#else
    return x / y;
#endif
}
/* A row that is to be rotated, or not: then position is -1. */
struct gpu_new_row {
    const char *data;
    int64_t at, position;
    int32_t dtype, dim;
};
/* Its element c. once: it will be rounded to fewer bits than f32 has. */
__device__ static __forceinline__ float gpu_new_value(
    const gpu_append_params &arguments, const gpu_new_row &x, int32_t c, bool once) {
    const gpu_append_params &p = gpu_reload(arguments);
    if (x.position < 0 || c >= p.rotary_dim)
        return once && x.dtype == ATTN_F64 ? gpu_round_to_odd(((const double *)x.data)[x.at + c])
                                           : gpu_get(x.data, x.dtype, x.at + c);
    const int32_t half = p.rotary_dim / 2;
    const bool pairs = p.cache.call.flags & ATTN_ROTARY_INTERLEAVED;
    const int32_t angle = pairs      ? c / 2
                          : c < half ? c
                                     : c - half,
                  other = pairs      ? c ^ 1
                          : c < half ? c + half
                                     : c - half;
    const int64_t at = gpu_clamp(x.position, 0, p.rotary_rows - 1) * (int64_t)half + angle;
    const float own = gpu_product(gpu_get(x.data, x.dtype, x.at + c), p.cosine[at]),
                turn = gpu_product(gpu_get(x.data, x.dtype, x.at + other), p.sine[at]);
    return c < other ? own - turn : own + turn;
}
/* A NaN becomes the default one. */
__device__ static inline void gpu_put_new(char *data, int32_t dtype, int64_t at, float x) {
    if ((__float_as_uint(x) & 0x7fffffffu) <= 0x7f800000u) gpu_put(data, dtype, at, x);
    else if (dtype == ATTN_F32) ((uint32_t *)data)[at] = 0x7fc00000u;
    else ((uint16_t *)data)[at] = dtype == ATTN_F16 ? 0x7e00 : 0x7fc0;
}
/* A row of a cache, by one wave: rounded, or quantised with a scale at scale_at. Nothing is kept:
   values are made anew for the codes. */
__device__ static __forceinline__ void gpu_append_row(const gpu_append_params &p,
    const gpu_new_row &x, const gpu_tensor &cache, const gpu_codes &codes, int64_t at,
    int64_t scale_at) {
    const int32_t lane = (int32_t)threadIdx.x % GPU_WAVE;
    char *data = (char *)cache.data;
    if (!codes.scale) {
        const bool narrow = codes.dtype != ATTN_F32;
        for (int32_t c = lane; c < x.dim; c += GPU_WAVE)
            gpu_put_new(data, codes.dtype, at + c, gpu_new_value(p, x, c, narrow));
        return;
    }
    /* as bits: ordered like magnitudes, NaN and infinity on top */
    uint32_t amax = 0;
    for (int32_t c = lane; c < x.dim; c += GPU_WAVE)
        amax = max(amax, __float_as_uint(gpu_new_value(p, x, c, false)) & 0x7fffffffu);
    for (int mask = GPU_WAVE / 2; mask; mask /= 2)
        amax = max(amax, __float_as_uint(gpu_wave_xor(__uint_as_float(amax), mask)));
    const bool finite = amax < 0x7f800000u;
    float scale = gpu_quotient(__uint_as_float(amax), codes.dtype == ATTN_INT8 ? 127.0f : 448.0f);
    if (__float_as_uint(scale) < 0x00800000u) scale = 0.0f;
    if (lane == 0) ((float *)codes.scale)[scale_at] = finite ? scale : __uint_as_float(0x7fc00000u);
    for (int32_t c = lane; c < x.dim; c += GPU_WAVE)
        gpu_put_code(data, codes.dtype, at + c,
            finite && scale > 0.0f ? gpu_quotient(gpu_new_value(p, x, c, false), scale) : 0.0f);
}
/* New token n of a sequence, in one head of k or v. What it needs is made anew for each of them,
   which spares scalar registers. */
template <bool KEY>
__device__ static __forceinline__ void gpu_append_token(
    const gpu_append_params &arguments, int32_t b, int32_t head, int32_t n) {
    const gpu_append_params &p = gpu_reload(arguments);
    const gpu_params &call = p.cache.call;
    const gpu_seq s = gpu_whole_sequence(call, b);
    const gpu_place from = {p.cu ? 0 : b, gpu_added_of(p, s).first + n};
    const gpu_place to = p.apart ? from : gpu_place_of(p.cache, s, s.k_len + n);
    const gpu_tensor &fresh = KEY ? p.k : p.v, &cache = KEY ? call.k : call.v;
    const gpu_codes &codes = KEY ? p.cache.k : p.cache.v;
    const gpu_new_row x = {fresh.data, gpu_element(from, fresh.stride, head),
        KEY && p.cosine ? (int64_t)s.k_len + n : -1, KEY ? p.k_dtype : p.v_dtype,
        KEY ? call.head_dim : call.v_dim};
    gpu_append_row(p, x, cache, codes, gpu_element(to, cache.stride, head),
        gpu_element(to, codes.stride, head));
}
/* grid {any, kv_heads, any}: new tokens, sequences. */
__global__ static void __launch_bounds__(256) gpu_append_kernel(gpu_append_params p) {
    for (int32_t b = (int32_t)blockIdx.z; b < p.cache.call.batch; b += (int32_t)gridDim.z) {
        const gpu_seq s = gpu_sequence(p.cache.call, b);
        const gpu_added added = gpu_added_of(p, s);
        if (p.used_after && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
            p.used_after[b] = (int32_t)s.column + s.k_len + added.count;
        for (int64_t u = gpu_first_unit(); u < added.count; u += gpu_units_step()) {
            gpu_append_token<true>(p, b, (int32_t)blockIdx.y, (int32_t)u);
            gpu_append_token<false>(p, b, (int32_t)blockIdx.y, (int32_t)u);
        }
    }
}
/* grid {any, heads, any}: rows of q, sequences. q goes on in f32. */
__global__ static void __launch_bounds__(256) gpu_rotate_kernel(gpu_append_params p) {
    const gpu_params &call = p.cache.call;
    const int32_t h = (int32_t)blockIdx.y, lane = (int32_t)threadIdx.x % GPU_WAVE;
    for (int32_t b = (int32_t)blockIdx.z; b < call.batch; b += (int32_t)gridDim.z) {
        const gpu_seq s = gpu_sequence(call, b);
        const int64_t first = call.cu_q ? s.lse_base : (int64_t)b * call.q_len;
        for (int64_t i = gpu_first_unit(); i < s.q_rows; i += gpu_units_step()) {
            const gpu_new_row x = {call.q.data,
                s.q_base + i * call.q.stride[1] + h * call.q.stride[2], s.k_len + i,
                p.cache.q_dtype, call.head_dim};
            float *to = p.q + ((first + i) * call.heads + h) * call.head_dim;
            for (int32_t c = lane; c < call.head_dim; c += GPU_WAVE)
                to[c] = gpu_new_value(p, x, c, false);
        }
    }
}
/* ============================================================================== >>decode ====
   Parts of sequences of few rows, as text is generated: K and V go from memory to registers once
   for ROWS rows, which are those of all heads of a group, row r being row r / group of head
   r % group. Bound by memory: it is a kernel of multiply-adds, the same on every chip, and P stays in f32.

     lane l of a group of LANES:  dims 8 l .. 8 l + 7 of q and o of every row, and of a key
     load t of KEYS:              key t * GROUPS + group of the wave's tile, 8 elements a lane
     score (row r, load t):       a sum over the lanes of a group; number r * KEYS + t of N. Half of
                                  them changes sides in each step of the sum, so that lane l ends
                                  with OWN of them, from number l * N / LANES on, all of one row
     o += p v:                    a lane asks for p of the one that has it

   A wave takes every WAVES-th tile; its groups and then the waves are summed in a fixed order,
   which is the same for every ROWS. V of a tile is on its way during its scores, K of the next tile
   during its products. Long sums are carried to LDS, to where the waves are joined at the end. */

/* Eight elements as they lie in memory. */
template <int KV> struct gpu_eight {
    enum {
        SIZE = KV == ATTN_F32                      ? 4
               : KV == ATTN_F16 || KV == ATTN_BF16 ? 2
                                                   : 1,
        WORDS = 2 * SIZE
    };
    uint32_t word[WORDS];
    /* 0 where they lie beyond the row. */
    __device__ __forceinline__ void keep(bool inside) {
        GPU_UNROLL for (int n = 0; n < WORDS; n++)
            word[n] = inside ? word[n] : 0;
    }
    /* WIDE: they begin at a multiple of 16 bytes, or of 8 where they are codes; else of an element. */
    template <bool WIDE> __device__ __forceinline__ void read(const char *at) {
        if constexpr (!WIDE)
            __builtin_memcpy(word, __builtin_assume_aligned(at, SIZE), sizeof word);
        else if constexpr (WORDS == 2) {
            const uint2 x = *(const uint2 *)at;
            word[0] = x.x;
            word[1] = x.y;
        } else GPU_UNROLL
            for (int n = 0; n < WORDS; n += 4) {
                const uint4 x = *(const uint4 *)(at + 4 * n);
                word[n] = x.x;
                word[n + 1] = x.y;
                word[n + 2] = x.z;
                word[n + 3] = x.w;
            }
    }
    __device__ __forceinline__ float operator[](int e) const {
        if constexpr (KV == ATTN_F32) return __uint_as_float(word[e]);
        else if constexpr (KV == ATTN_BF16)
            return __uint_as_float(e % 2 ? word[e / 2] & 0xffff0000u : word[e / 2] << 16);
        else if constexpr (KV == ATTN_F16)
            return gpu_f16_value((uint16_t)(word[e / 2] >> e % 2 * 16));
        else {
            const uint32_t code = word[e / 4] >> e % 4 * 8 & 0xffu;
            return KV == ATTN_INT8 ? (float)(int8_t)code : gpu_fp8_value(code);
        }
    }
};
/* Of COUNT values the sums over lanes that differ in the bits DISTANCE .. LAST of their numbers.
   While there are two, the upper lane of a pair goes on with the upper half. */
template <int COUNT, int DISTANCE, int LAST, int N>
__device__ static __forceinline__ void gpu_fold(float (&x)[N], int32_t lane) {
    if constexpr (DISTANCE >= LAST) {
        constexpr int HALF = COUNT / 2;
        if constexpr (HALF == 0) x[0] += gpu_wave_xor(x[0], DISTANCE);
        GPU_UNROLL for (int n = 0; n < HALF; n++) {
            const float low = x[n], high = x[n + HALF];
            const bool upper = lane & DISTANCE;
            x[n] = (upper ? high : low) + gpu_wave_xor(upper ? low : high, DISTANCE);
        }
        gpu_fold<HALF ? HALF : 1, DISTANCE / 2, LAST>(x, lane);
    }
}

#ifndef GPU_CARRY_DECODE
#define GPU_CARRY_DECODE 128 /* terms of a sum between two carries */
#endif
/* Where the keys of a wave's tile of TILE are, whatever is made of them, and the rows of its block. */
template <int TILE, int THREADS> struct gpu_decode_keys {
    enum { WAVES = THREADS / GPU_WAVE, STEP = WAVES * TILE };

    const gpu_cache_params &arguments;
    gpu_reach reach;
    int32_t b, k_batch, k_first, k_len, first_row, rows;
    int32_t page, token, entry; /* where key lane of the tile lies; the table's next */

    __device__ __forceinline__ explicit gpu_decode_keys(const gpu_cache_params &p) : arguments(p) {}
    /* Anew at each use: cheaper than what is made of it in registers through the loop. */
    __device__ __forceinline__ static int32_t lane() { return gpu_thread() % GPU_WAVE; }
    __device__ __forceinline__ static int32_t row_of(const gpu_params &p, int32_t r) {
        return r / p.group;
    }
    __device__ __forceinline__ static int32_t head_of(const gpu_params &p, int32_t r) {
        return (int32_t)blockIdx.y * p.group + r % p.group;
    }
    /* The table's entry of key lane of tile j, on its way: by the first lane of each page. */
    __device__ __forceinline__ void look_up(const gpu_cache_params &p, int32_t j) {
        const uint32_t key = (uint32_t)(k_first + min(j + lane(), k_len - 1)),
                       size = (uint32_t)p.page_size;
        if (p.table && lane() < TILE && (lane() == 0 || key % size == 0))
            entry = p.table[b * p.max_pages + key / size];
    }
    __device__ __forceinline__ void place(const gpu_cache_params &p, int32_t j) {
        const int32_t key = min(lane(), k_len - 1 - j); /* of the tile */
        token = k_first + j + key;
        page = k_batch;
        if (!p.table) return;
        token = (int32_t)((uint32_t)token % (uint32_t)p.page_size);
        page = gpu_clamp(gpu_wave_pick(entry, max(key - token, 0)), 0, p.pages - 1);
    }
    /* Where a key of tile j lies. */
    __device__ __forceinline__ gpu_place place_of(
        const gpu_cache_params &p, int32_t j, int32_t key) const {
        gpu_place at = {k_batch, k_first + min(j + key, k_len - 1)};
        if (p.table) {
            at.batch = gpu_wave_pick(page, key);
            at.token = gpu_wave_pick(token, key);
        }
        return at;
    }
    /* Up to `most` rows of the sequence; what they see. False: there are none. */
    __device__ __forceinline__ bool begin(const gpu_params &p, const gpu_seq &seq, int32_t most) {
        b = seq.b;
        k_batch = (int32_t)seq.k_batch;
        k_first = (int32_t)seq.k_first;
        k_len = seq.k_len;
        first_row = (int32_t)blockIdx.x * most;
        rows = seq.q_used * p.group;
        if (first_row >= rows) return false;
        const int32_t i0 = row_of(p, first_row);
        reach = gpu_reach_of(p, seq, i0, row_of(p, min(first_row + most, rows) - 1) - i0 + 1);
        entry = 0;
        return true;
    }
    /* What row r of the block sees. */
    __device__ __forceinline__ gpu_range seen_by(
        const gpu_params &p, const gpu_seq &seq, int32_t r) const {
        const int32_t i0 = row_of(p, first_row);
        return gpu_reach_row(reach, seq, i0, row_of(p, min(first_row + r, rows - 1)) - i0);
    }
    /* The wave's first tile; none where it begins at reach.hi or later. */
    __device__ __forceinline__ int32_t first_tile() const {
        const int32_t wave = gpu_uniform((int32_t)threadIdx.x / GPU_WAVE),
                      j = reach.lo / STEP * STEP + wave * TILE;
        return j + TILE <= reach.lo ? j + STEP : j;
    }
    __device__ __forceinline__ bool sees_all(const gpu_params &p, int32_t j) const {
        return !(p.masks & (MASK_BOOL | MASK_BIAS)) && j >= reach.whole_lo &&
               j + TILE <= reach.whole_hi;
    }
    /* Row r of the block over all waves: what their sums, which went times 1 / lower, are to be
       multiplied by, and its end. */
    template <class SHARED>
    __device__ __forceinline__ void join_row(
        const gpu_params &p, const gpu_seq &seq, SHARED &lds, int32_t r, float lower) const {
        float top = GPU_NEG_INF, total = 0;
        for (int w = 0; w < WAVES; w++) top = fmaxf(top, lds.max[w][r]);
        const float base = top == GPU_NEG_INF ? 0.0f : top;
        for (int w = 0; w < WAVES; w++) {
            const float by = gpu_exp2((lds.max[w][r] - base) * GPU_LOG2E);
            total += lds.sum[w][r] * by;
            lds.sum[w][r] = by * lower;
        }
        const int32_t row = first_row + r;
        lds.factor[r] = 0.0f;
        if (row < rows)
            lds.factor[r] =
                gpu_finish_part(p, seq, head_of(p, row), row_of(p, row), true, top, total * lower)
                    .factor;
    }
};
template <int KV, int D>
constexpr int gpu_decode_tile = GPU_WAVE / (D / 8) * (KV == ATTN_F32 ? 2 : 4);
template <int KV, int D, int ROWS, bool WIDE>
struct gpu_decode : gpu_decode_keys<gpu_decode_tile<KV, D>, 256> {
    typedef gpu_decode_keys<gpu_decode_tile<KV, D>, 256> B;
    using B::arguments, B::first_row, B::head_of, B::lane, B::page, B::reach, B::row_of, B::rows,
        B::token, B::STEP, B::WAVES;
    enum {
        LANES = D / 8,
        GROUPS = GPU_WAVE / LANES,
        KEYS = KV == ATTN_F32 ? 2 : 4,
        TILE = GROUPS * KEYS,
        N = ROWS * KEYS,
        OWN = N > LANES ? N / LANES : 1,
        REPEAT = N < LANES ? LANES / N : 1, /* lanes that end with the same score */
        ROW_LANES = LANES / ROWS,
        SUMS = ROWS * 8, /* of o, in a lane; LEFT of them when the groups are summed */
        LEFT = SUMS / GROUPS,
        CARRY = GPU_CARRY_DECODE * WAVES * GROUPS, /* keys between two carries */
        CODES = KV == ATTN_INT8 || KV == ATTN_FP8_E4M3
    };
    struct shared {
        float max[WAVES][ROWS], sum[WAVES][ROWS]; /* sum: then the factor of the wave's sums */
        float sums[OWN][256];                     /* of each thread, that were carried */
        float factor[ROWS];
        float4 q[2][ROWS * LANES];
        union {
            float o[WAVES / 2][SUMS * LANES];
            uint16_t upper[WAVES][SUMS * LANES]; /* of the sums that were carried */
        };
    };

    gpu_range see; /* of the lane's row */
    shared &lds;
    float o[SUMS];
    float row_max, sum[OWN]; /* of the lane's row, and of its keys alone */
    float carried;           /* the row_max of what the row has carried; -infinity: nothing */
    float x[N];              /* scores, then weights: OWN of them; below 0: not seen */
    gpu_eight<KV> k[KEYS], v[KEYS];
    float k_scale, v_scale; /* of key lane of the tile */

    __device__ __forceinline__ gpu_decode(const gpu_cache_params &p, shared &block)
        : B(p), lds(block) {}
    __device__ __forceinline__ int32_t group() const { return lane() / LANES; }
    __device__ __forceinline__ int32_t dim() const { return lane() % LANES * 8; }
    /* The first lane of the group: made anew, or every lane that is asked has a register. */
    __device__ __forceinline__ int32_t group_lane() const {
        int32_t first = lane() / LANES * LANES;
        gpu_pin(first);
        return first;
    }
    __device__ __forceinline__ int32_t own_row() const { return lane() % LANES / ROW_LANES; }
    /* The key of own score n, from the tile's first on. */
    __device__ __forceinline__ int32_t own_key(int n) const {
        const int32_t number = OWN > 1 ? lane() % LANES * OWN : lane() % LANES / REPEAT;
        return (number % KEYS + n) * GROUPS + group();
    }

    /* ---- memory ---- */

    /* Row n of q to LDS, by its lanes. */
    template <int Q>
    __device__ __forceinline__ void load_q_of(
        const gpu_params &p, const gpu_seq &seq, int32_t n, int32_t c) {
        const int32_t r = min(first_row + n, rows - 1), d = 8 * c < p.head_dim ? 8 * c : 0;
        const int64_t at =
            seq.q_base + row_of(p, r) * p.q.stride[1] + head_of(p, r) * p.q.stride[2] + d;
        gpu_eight<Q> x;
        x.template read<WIDE>(p.q.data + at * gpu_eight<Q>::SIZE);
        x.keep(8 * c < p.head_dim);
        lds.q[0][n * LANES + c] = make_float4(x[0], x[1], x[2], x[3]);
        lds.q[1][n * LANES + c] = make_float4(x[4], x[5], x[6], x[7]);
    }
    __device__ __forceinline__ void load_q(const gpu_cache_params &p, const gpu_seq &seq) {
        const int32_t t = (int32_t)threadIdx.x, n = t / LANES, c = t % LANES;
        if (t < ROWS * LANES) {
            if (p.q_dtype == ATTN_F32) load_q_of<ATTN_F32>(p.call, seq, n, c);
            else if (p.q_dtype == ATTN_F16) load_q_of<ATTN_F16>(p.call, seq, n, c);
            else load_q_of<ATTN_BF16>(p.call, seq, n, c);
        }
        __syncthreads();
    }
    /* The keys of tile j, or values, on their way. Lanes beyond the last dim read the first. */
    template <bool KEY> __device__ __forceinline__ void load(const gpu_cache_params &p, int32_t j) {
        const gpu_tensor &from = KEY ? p.call.k : p.call.v;
        const gpu_codes &codes = KEY ? p.k : p.v;
        const int32_t d = dim() < (KEY ? p.call.head_dim : p.call.v_dim) ? dim() : 0;
        GPU_UNROLL for (int t = 0; t < KEYS; t++) {
            const gpu_place key = B::place_of(p, j, t * GROUPS + group());
            const int64_t at = gpu_element(key, from.stride, (int32_t)blockIdx.y) + d;
            (KEY ? k[t] : v[t]).template read<WIDE>(from.data + at * gpu_eight<KV>::SIZE);
        }
        if (CODES && lane() < TILE) {
            const gpu_place own = {page, token};
            (KEY ? k_scale : v_scale) = gpu_scale_of(codes, own, (int32_t)blockIdx.y);
        }
    }
    /* Element by element of what load t brought: each code times its scale. */
    template <bool KEY>
    __device__ __forceinline__ void values_of(
        int t, const gpu_eight<KV> &from, float (&to)[8]) const {
        float scale = 1.0f;
        if (CODES) scale = gpu_wave_pick(KEY ? k_scale : v_scale, t * GROUPS + group());
        GPU_UNROLL for (int e = 0; e < 8; e++)
            to[e] = CODES ? scale * from[e] : from[e];
    }

    /* ---- a tile ---- */

    __device__ __forceinline__ void scores(const gpu_params &p) {
        enum { AT_ONCE = 2 };
        const bool inside = dim() < p.head_dim;
        GPU_UNROLL for (int t0 = 0; t0 < KEYS; t0 += AT_ONCE) {
            int32_t at = lane() % LANES; /* where q is: not kept in registers */
            float key[AT_ONCE][8];
            gpu_pin(at);
            GPU_UNROLL for (int t = 0; t < AT_ONCE; t++)
                values_of<true>(t0 + t, k[t0 + t], key[t]);
            GPU_UNROLL for (int r = 0; r < ROWS; r++) {
                const float4 low = lds.q[0][r * LANES + at], high = lds.q[1][r * LANES + at];
                const float q[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
                GPU_UNROLL for (int t = 0; t < AT_ONCE; t++) {
                    float dot = q[0] * key[t][0];
                    GPU_UNROLL for (int e = 1; e < 8; e++)
                        dot = fmaf(q[e], key[t][e], dot);
                    x[r * KEYS + t0 + t] = inside ? dot : 0.0f;
                }
                gpu_fence(); /* one after the other: registers */
            }
        }
        gpu_fold<N, LANES / 2, 1>(x, lane());
    }
    /* The own scores go round, for loops whose code is there once. */
    __device__ __forceinline__ void turn() {
        const float first = x[0];
        GPU_UNROLL for (int n = 0; n + 1 < OWN; n++)
            x[n] = x[n + 1];
        x[OWN - 1] = first;
    }
    /* Scores to weights, and the sums to a maximum that has grown. */
    __device__ __forceinline__ void weights(const gpu_params &p, int32_t j) {
        uint32_t seen = 0;
        float top = row_max;
        GPU_NO_UNROLL for (int n = 0; n < OWN; n++, turn()) {
            const int32_t key = j + own_key(n);
            bool sees = key >= see.lo && key < see.hi;
            x[0] *= p.scale;
            if (p.masks & ~MASK_SCALE) {
                const int32_t r = min(first_row + own_row(), rows - 1);
                const gpu_row row = gpu_row_of(
                    p, gpu_sequence(p, (int32_t)blockIdx.z), head_of(p, r), row_of(p, r));
                sees = sees && !gpu_hidden(p, row, key);
                if (sees) x[0] = gpu_modify(p, row, key, x[0]);
            }
            if (sees) top = fmaxf(top, x[0]);
            seen |= (uint32_t)sees << n;
        }
        GPU_UNROLL for (int mask = 1; mask < ROW_LANES; mask *= 2)
            top = fmaxf(top, gpu_wave_xor(top, mask));
        GPU_UNROLL for (int mask = LANES; mask < GPU_WAVE; mask *= 2)
            top = fmaxf(top, gpu_wave_xor(top, mask));
        const float base = top == GPU_NEG_INF ? 0.0f : top;
        if (gpu_wave_ballot(top > row_max)) {
            const float old = gpu_exp2((row_max - base) * GPU_LOG2E);
            const int32_t first = group_lane();
            GPU_UNROLL for (int n = 0; n < OWN; n++)
                sum[n] *= old;
            GPU_UNROLL for (int r = 0; r < ROWS; r++) {
                const float of_row = gpu_wave_pick(old, first + r * ROW_LANES);
                GPU_UNROLL for (int e = 0; e < 8; e++)
                    o[r * 8 + e] *= of_row;
            }
        }
        row_max = top;
        GPU_UNROLL for (int n = 0; n < OWN; n++) {
            const float w = gpu_exp2((x[n] - base) * GPU_LOG2E);
            sum[n] += seen >> n & 1 ? w : 0.0f;
            x[n] = seen >> n & 1 ? w : -1.0f;
        }
    }
    /* o += p v of load t, of which the lanes have their weights in `own`. WHOLE: every row sees the
       key; else a value that a row does not see is not touched. */
    template <bool WHOLE>
    __device__ __forceinline__ void product(int t, const gpu_eight<KV> &from, float own) {
        const int32_t first = group_lane();
        float value[8];
        values_of<false>(t, from, value);
        GPU_UNROLL for (int r = 0; r < ROWS; r++) {
            const int32_t number = r * KEYS + t;
            const float w = gpu_wave_pick(own, first + (OWN > 1 ? number / OWN : number * REPEAT));
            GPU_UNROLL for (int e = 0; e < 8; e++) {
                const float next = fmaf(w, value[e], o[r * 8 + e]);
                o[r * 8 + e] = WHOLE || !(w < 0.0f) ? next : o[r * 8 + e];
            }
        }
        gpu_fence(); /* one after the other: registers */
    }
    __device__ __forceinline__ void products(bool whole) {
        if (whole) {
            GPU_UNROLL for (int t = 0; t < KEYS; t++)
                product<true>(t, v[t], x[t % OWN]);
            return;
        }
        GPU_NO_UNROLL for (int t = 0; t < KEYS; t++, turn()) {
            product<false>(t, v[0], x[0]);
            GPU_UNROLL for (int n = 0; n + 1 < KEYS; n++)
                v[n] = v[n + 1];
        }
    }
    /* What rows that see key j or later have summed: o over the groups, its upper half to LDS, what
       is left to the first group; and the sum of each key alone. Rows that end before do nothing:
       then no row's bits depend on those of its block. BACK: what lies in LDS into the sums. */
    template <bool BACK> __device__ __forceinline__ void carry(int32_t j) {
        const int32_t first_lane = group_lane(), thread = gpu_thread();
        const bool reads = carried != GPU_NEG_INF, goes = BACK ? reads : see.hi > j;
        const uint64_t rows_read = gpu_wave_ballot(reads), rows_go = gpu_wave_ballot(goes);
        const float alpha = reads ? gpu_exp2((carried - row_max) * GPU_LOG2E) : 0.0f;
        uint16_t *upper = lds.upper[thread / GPU_WAVE] + thread % LANES;
        if (goes) {
            GPU_UNROLL for (int n = 0; n < OWN; n++) {
                const float there = reads ? lds.sums[n][thread] : 0.0f;
                if (BACK) sum[n] += there * alpha;
                else lds.sums[n][thread] = gpu_carry(there, alpha, 0xffffff00u, sum[n]);
            }
            carried = row_max;
        }
        GPU_UNROLL for (int r = 0; r < ROWS; r++) {
            const float of_row = gpu_wave_pick(alpha, first_lane + r * ROW_LANES);
            float there[8] = {0.0f};
            if (!(rows_go >> r * ROW_LANES & 1)) continue;
            if (rows_read >> r * ROW_LANES & 1) GPU_UNROLL
                for (int e = 0; e < 8; e++)
                    there[e] = __uint_as_float((uint32_t)upper[(r * 8 + e) * LANES] << 16);
            gpu_wave_has_read(); /* the groups have the same words */
            GPU_UNROLL for (int e = 0; e < 8; e++) {
                float &x = o[r * 8 + e];
                if (BACK) {
                    x += first_lane == 0 ? there[e] * of_row : 0.0f;
                    continue;
                }
                GPU_UNROLL for (int mask = LANES; mask < GPU_WAVE; mask *= 2)
                    x += gpu_wave_xor(x, mask);
                upper[(r * 8 + e) * LANES] =
                    (uint16_t)(__float_as_uint(gpu_carry(there[e], of_row, 0xffff0000u, x)) >> 16);
                x = first_lane == 0 ? x : 0.0f;
            }
            gpu_fence(); /* one after the other: registers */
        }
    }
    /* Every WAVES-th tile that some row sees. */
    __device__ __forceinline__ void walk() {
        const int32_t end = reach.hi;
        int32_t j = B::first_tile();
        if (j >= end) return;
        B::look_up(gpu_reload(arguments), j);
        B::place(gpu_reload(arguments), j);
        load<true>(gpu_reload(arguments), j);
        B::look_up(gpu_reload(arguments), j + STEP);
        while (j < end) {
            const int32_t stop = min(end, (int32_t)((uint32_t)j / CARRY + 1) * CARRY);
            for (; j < stop; j += STEP) {
                load<false>(gpu_reload(arguments), j);
                scores(gpu_reload(arguments).call);
                if (j + STEP < end) {
                    B::place(gpu_reload(arguments), j + STEP);
                    load<true>(gpu_reload(arguments), j + STEP);
                    B::look_up(gpu_reload(arguments), j + 2 * STEP);
                }
                gpu_fence();
                weights(gpu_reload(arguments).call, j);
                products(B::sees_all(gpu_reload(arguments).call, j));
            }
            if (j < end) carry<false>(j);
        }
    }

    /* ---- the end ---- */

    /* The sum of the lane's row over the wave: first of each load alone, then in pairs. */
    __device__ __forceinline__ float wave_sum() {
        GPU_UNROLL for (int n = 0; n < OWN; n++) GPU_UNROLL
            for (int mask = LANES; mask < GPU_WAVE; mask *= 2) sum[n] += gpu_wave_xor(sum[n], mask);
        float all = sum[0];
        if (OWN == 2) all = sum[0] + sum[OWN - 1];
        if (OWN == 4) all = (sum[0] + sum[OWN / 4]) + (sum[OWN / 2] + sum[OWN - 1]);
        GPU_UNROLL for (int mask = REPEAT; mask < ROW_LANES; mask *= 2)
            all += gpu_wave_xor(all, mask);
        return all;
    }
    __device__ __forceinline__ void finish(const gpu_params &p) {
        const gpu_seq seq = gpu_sequence(p, (int32_t)blockIdx.z);
        const int32_t wave = gpu_uniform((int32_t)threadIdx.x / GPU_WAVE);
        carry<true>(0);
        const float all = wave_sum();
        if (lane() < LANES && lane() % ROW_LANES == 0) {
            lds.max[wave][own_row()] = row_max;
            lds.sum[wave][own_row()] = all;
        }
        gpu_fold<SUMS, GPU_WAVE / 2, LANES>(o, lane());
        __syncthreads();
        if ((int32_t)threadIdx.x < ROWS) B::join_row(p, seq, lds, (int32_t)threadIdx.x, 1.0f);
        __syncthreads();
        GPU_UNROLL for (int n = 0; n < LEFT; n++)
            o[n] *= lds.sum[wave][(group() * LEFT + n) / 8];
        GPU_UNROLL for (int half = WAVES / 2; half; half /= 2) {
            if (wave >= half && wave < 2 * half) {
                GPU_UNROLL for (int n = 0; n < LEFT; n++)
                    lds.o[wave - half][n * GPU_WAVE + lane()] = o[n];
            }
            __syncthreads();
            if (wave < half) {
                GPU_UNROLL for (int n = 0; n < LEFT; n++)
                    o[n] += lds.o[wave][n * GPU_WAVE + lane()];
            }
            __syncthreads();
        }
        if (wave == 0) store(p, seq);
    }
    __device__ __forceinline__ void store(const gpu_params &p, const gpu_seq &seq) {
        GPU_UNROLL for (int n = 0; n < LEFT; n++) {
            const int32_t number = group() * LEFT + n, row = first_row + number / 8,
                          c = dim() + number % 8;
            if (row < rows && c < p.v_dim)
                ((float *)gpu_o_row(p, seq, head_of(p, row), row_of(p, row)))[c] =
                    o[n] * lds.factor[number / 8];
        }
    }
    __device__ __forceinline__ void run() {
        const gpu_cache_params &p = gpu_reload(arguments); /* pointers of it are to memory */
        const gpu_seq seq = gpu_sequence(p.call, (int32_t)blockIdx.z);
        if (!B::begin(p.call, seq, ROWS)) return;
        see = B::seen_by(p.call, seq, own_row());
        row_max = carried = GPU_NEG_INF;
        k_scale = v_scale = 0.0f;
        GPU_UNROLL for (int n = 0; n < OWN; n++)
            sum[n] = 0.0f;
        GPU_UNROLL for (int n = 0; n < SUMS; n++)
            o[n] = 0.0f;

        load_q(p, seq);
        walk();
        finish(gpu_reload(arguments).call);
    }
};
/* grid {blocks of rows, kv_heads, z of parts} */
template <int KV, int D, int ROWS, bool WIDE>
__global__ void __launch_bounds__(256) gpu_decode_parts(gpu_cache_params p) {
    __shared__ typename gpu_decode<KV, D, ROWS, WIDE>::shared lds;
    gpu_decode<KV, D, ROWS, WIDE> f(p, lds);
    f.run();
}
#define GPU_ROW_DECODE(name, KV, D, ROWS, WIDE) \
    {name, UNIT_SCALAR, KV, D, ROWS, 256, WIDE, (const void *)gpu_decode_parts<KV, D, ROWS, WIDE>},
/* Of 256 dims. AMD's chips read 16 bytes from any address: the code is the same. */
#if defined(__CUDACC__) && !defined(__HIP__)
#define GPU_ROW_DECODE_WIDE(name, KV) GPU_ROW_DECODE("decode_" name "_d256", KV, 256, 8, true)
#else
#define GPU_ROW_DECODE_WIDE(name, KV)
#endif
#define GPU_ROW_DECODE_ANY(name, KV) \
    GPU_ROW_DECODE_WIDE(name, KV) GPU_ROW_DECODE("decode_" name "_any", KV, 256, 8, false)
#define GPU_ROWS_DECODE_KV(name, KV) \
    GPU_ROW_DECODE("decode_" name "_d64", KV, 64, 4, true) \
    GPU_ROW_DECODE("decode_" name "_d64", KV, 64, 8, true) \
    GPU_ROW_DECODE("decode_" name "_d128", KV, 128, 4, true) \
    GPU_ROW_DECODE("decode_" name "_d128", KV, 128, 8, true) \
    GPU_ROW_DECODE_ANY(name, KV)
/* clang-format off */
#define GPU_ROWS_DECODE \
    GPU_ROW_DECODE("decode_f32_d64", ATTN_F32, 64, 8, true) \
    GPU_ROW_DECODE("decode_f32_d128", ATTN_F32, 128, 8, true) \
    GPU_ROW_DECODE_ANY("f32", ATTN_F32) \
    GPU_ROWS_DECODE_KV("f16", ATTN_F16) GPU_ROWS_DECODE_KV("bf16", ATTN_BF16) \
    GPU_ROWS_DECODE_KV("int8", ATTN_INT8) GPU_ROWS_DECODE_KV("fp8", ATTN_FP8_E4M3)
/* clang-format on */
/* ============================================================================ >>backward ====
   The gradients, on every chip and for every size, from the lse and o of the forward call:

       p = exp(s - lse)          dp = dropout * dout_i . v_j       D = dout_i . o_i - dlse_i
       ds = p (dp - D)           dbias = ds                        dsink = - sum p_sink D
       dv_j = sum dropout p dout_i    dk_j = sum ds slope q_i      dq_i = sum ds slope k_j

   slope being the scale times that of the softcap. A wave computes a row of dq, or a key of dk and
   dv over all heads of its group: its lanes take a key or a row each, then a dim each. For dbias a
   lane owns an element and goes through what is broadcast to it. Each kernel makes the pairs that
   it needs anew and owns what it writes, so that there are no atomics and every sum has one order.
   Only a row that sees a key touches it, and only its own values. */
struct gpu_grad_params {
    gpu_params call; /* the first member: gpu_reload reads the arguments as either */
    gpu_tensor dout, dq, dk, dv;
    const float *dlse;
    float *dbias, *dsink;
    float *delta; /* D of each row, where lse has it */
    /* ATTN_F32 .. ATTN_F64; dtype: of q, k, v */
    int32_t dtype, dout_dtype, dq_dtype, dk_dtype, dv_dtype;
};

/* The tokens of k and v that are the sequence's, keys or not: as gpu_sequence has them. */
struct gpu_tokens {
    int64_t first, count;
};
__device__ static inline gpu_tokens gpu_tokens_of(const gpu_params &p, int32_t b) {
    gpu_tokens k = {0, p.kv_len};
    if (p.cu_k) {
        k.first = gpu_length(p.cu_k, b, 0, p.total_k);
        k.count = gpu_clamp(gpu_length(p.cu_k, b + 1, k.first, p.total_k) - k.first, 0, p.kv_len);
    }
    return k;
}
/* Row i of a tensor like q or o; token t of the sequence, in one like k or v: elements. */
__device__ static inline int64_t gpu_row_at(
    const gpu_params &p, const gpu_seq &s, const gpu_tensor &x, int32_t h, int32_t i) {
    const int64_t batch = p.cu_q ? 0 : s.b, first = p.cu_q ? s.lse_base : 0;
    return batch * x.stride[0] + (first + i) * x.stride[1] + h * x.stride[2];
}
__device__ static inline int64_t gpu_token_at(
    const gpu_params &p, const gpu_seq &s, const gpu_tensor &x, int32_t kv_head, int64_t t) {
    const int64_t batch = p.cu_k ? 0 : s.b;
    return batch * x.stride[0] + (gpu_tokens_of(p, s.b).first + t) * x.stride[1] +
           kv_head * x.stride[2];
}
__device__ static inline int64_t gpu_lse_at(const gpu_seq &s, int32_t h, int32_t i) {
    return s.lse_base + h * s.lse_head + i;
}
/* The sum over LANES lanes side by side, in every lane its own rounding: the first speaks. */
template <int LANES = GPU_WAVE>
__device__ static inline float gpu_wave_sum_any(float sum, float rest) {
    for (int mask = LANES / 2; mask; mask /= 2) {
        const float more = gpu_wave_xor(sum, mask), more_rest = gpu_wave_xor(rest, mask);
        gpu_add_any(sum, rest, more);
        rest += more_rest;
    }
    return sum + rest;
}
/* sum + rest goes to an element of a gradient, or is added to what is there: of a token that is not
   valid that stays, bit for bit. */
__device__ static inline void gpu_put_grad(
    const gpu_params &p, const gpu_tensor &x, int32_t dtype, int64_t at, float sum, float rest) {
    char *data = (char *)x.data;
    if (p.flags & ATTN_ACCUMULATE) {
        if (sum == 0.0f && rest == 0.0f) return;
        if (dtype == ATTN_F64) {
            ((double *)data)[at] += (double)sum + (double)rest;
            return;
        }
        gpu_add_any(sum, rest, gpu_get(data, dtype, at));
    }
    gpu_put(data, dtype, at, sum + rest);
}

/* dot(x, y) of n elements, in four sums as a score is; y has DTYPE, x another type perhaps. */
template <int DTYPE>
__device__ static inline float gpu_grad_dot(
    const char *x, int32_t dtype, int64_t x_at, const char *y, int64_t y_at, int32_t n) {
    return gpu_dot<4>(n, [&](int32_t c, int step, float *sum) {
        for (int e = 0; e < step; e++)
            sum[e] = fmaf(gpu_get(x, dtype, x_at + c + e), gpu_get(y, DTYPE, y_at + c + e), sum[e]);
    });
}

/* What a row and a key that it sees are to each other. */
struct gpu_pair {
    float weight; /* p after dropout: of dout_i in dv_j */
    float ds;     /* the gradient of the score, and of the bias */
    float dx;     /* the gradient of dot(q_i, k_j) */
};
/* exp(score - lse), at most 1: an lse that was rounded may lie far below a score as large. 0 in a
   row that saw nothing. */
__device__ static inline float gpu_probability(float score, float lse) {
    const float x = score - lse;
    return __float_as_uint(lse) == 0xff800000u ? 0.0f : gpu_exp2((x > 0 ? 0.0f : x) * GPU_LOG2E);
}
/* scale * dot(q_i, k_j), and dot(dout_i, v_j). */
template <int DTYPE>
__device__ static __forceinline__ float gpu_pair_score(
    const gpu_params &arguments, const gpu_seq &s, int32_t h, int32_t i, int32_t j) {
    const gpu_params &p = gpu_reload(arguments);
    return gpu_scalar_score<DTYPE, false>(p, s.q_base + i * p.q.stride[1] + h * p.q.stride[2],
        s.k_base + h / p.group * p.k.stride[2] + j * p.k.stride[1]);
}
template <int DTYPE>
__device__ static __forceinline__ float gpu_pair_dp(
    const gpu_grad_params &arguments, const gpu_seq &s, int32_t h, int32_t i, int32_t j) {
    const gpu_grad_params &g = gpu_reload(arguments);
    const gpu_params &p = g.call;
    const int64_t x = gpu_row_at(p, s, g.dout, h, i),
                  y = s.v_base + h / p.group * p.v.stride[2] + j * p.v.stride[1];
    return g.dout_dtype == DTYPE
               ? gpu_grad_dot<DTYPE>(g.dout.data, DTYPE, x, p.v.data, y, p.v_dim)
               : gpu_grad_dot<DTYPE>(g.dout.data, g.dout_dtype, x, p.v.data, y, p.v_dim);
}
__device__ static __forceinline__ gpu_pair gpu_pair_from(const gpu_grad_params &arguments,
    const gpu_seq &s, const gpu_row &row, int32_t h, int32_t i, int32_t j, float x, float dp) {
    const gpu_grad_params &g = gpu_reload(arguments);
    const gpu_params &p = g.call;
    const int64_t l = gpu_lse_at(s, h, i);
    const float weight = gpu_probability(gpu_modify(p, row, j, x), p.lse[l]);
    float factor = 1.0f, slope = p.scale;
    if (p.masks & MASK_DROPOUT) {
        const gpu_words r = gpu_philox_of(
            p, (uint32_t)s.b * (uint32_t)p.heads + (uint32_t)h, (uint32_t)i, (uint32_t)j);
        factor = gpu_kept(p, gpu_word_of(r, j), 1.0f);
    }
    if (p.masks & MASK_SOFTCAP) {
        const float t = gpu_capped(p, x);
        slope *= (1.0f - t) * (1.0f + t);
    }
    gpu_pair pair;
    pair.weight = weight * factor;
    pair.ds = weight * (factor * dp - g.delta[l]);
    pair.dx = pair.ds * slope;
    return pair;
}
template <int DTYPE>
__device__ static __forceinline__ gpu_pair gpu_pair_of(const gpu_grad_params &arguments,
    const gpu_seq &s, const gpu_row &row, int32_t h, int32_t i, int32_t j) {
    const float x = gpu_pair_score<DTYPE>(arguments.call, s, h, i, j),
                dp = gpu_pair_dp<DTYPE>(arguments, s, h, i, j);
    return gpu_pair_from(arguments, s, row, h, i, j, x, dp);
}

/* Dims c0 + n * GPU_WAVE + lane of a sum over keys or rows. */
template <int DIMS> struct gpu_dims {
    float sum[DIMS], rest[DIMS];
    __device__ __forceinline__ void clear() {
        for (int n = 0; n < DIMS; n++) sum[n] = rest[n] = 0;
    }
    /* Adds the rows at + l * step, each times the weight of lane l, for the lanes l of a set: a sum
       from zero, for the sake of long ones. */
    __device__ __forceinline__ void add(uint64_t lanes, float weight, const char *data,
        int32_t dtype, int64_t at, int64_t step, int32_t dims) {
        float part[DIMS];
        for (int n = 0; n < DIMS; n++) part[n] = 0;
        for (; lanes; lanes &= lanes - 1) {
            const int from = __ffsll((unsigned long long)lanes) - 1;
            const float w = gpu_wave_read(weight, from);
            for (int n = 0; n < DIMS; n++) {
                const int32_t c = n * GPU_WAVE + (int32_t)threadIdx.x % GPU_WAVE;
                if (c < dims)
                    part[n] = fmaf(w, gpu_get(data, dtype, at + from * step + c), part[n]);
            }
        }
        for (int n = 0; n < DIMS; n++) gpu_add_any(sum[n], rest[n], part[n]);
    }
    __device__ __forceinline__ void put(
        const gpu_params &p, const gpu_tensor &x, int32_t dtype, int64_t at, int32_t dims) const {
        for (int n = 0; n < DIMS; n++) {
            const int32_t c = n * GPU_WAVE + (int32_t)threadIdx.x % GPU_WAVE;
            if (c < dims) gpu_put_grad(p, x, dtype, at + c, sum[n], rest[n]);
        }
    }
};

/* dq of row i of head h, by one wave: lanes take a key each. More dims than its lanes * DIMS take
   another pass over the keys. */
template <int DTYPE, int DIMS>
__device__ static __forceinline__ void gpu_dq_row(
    const gpu_grad_params &arguments, int32_t h, int32_t i) {
    enum { PASS = GPU_WAVE * DIMS };
    const gpu_grad_params &g = gpu_reload(arguments);
    const gpu_params &p = g.call;
    const gpu_seq s = gpu_sequence(p, (int32_t)blockIdx.z);
    const int32_t lane = (int32_t)threadIdx.x % GPU_WAVE;
    const gpu_range keys = gpu_visible(p, s, i);
    const gpu_row row = gpu_row_of(p, s, h, i);
    const int64_t k_base = s.k_base + h / p.group * p.k.stride[2];
    for (int32_t c0 = 0; c0 < p.head_dim; c0 += PASS) {
        gpu_dims<DIMS> dq;
        dq.clear();
        for (int32_t j0 = keys.lo; j0 < keys.hi; j0 += GPU_WAVE) {
            const int32_t j = j0 + lane;
            const bool seen = j < keys.hi && !gpu_hidden(gpu_reload(p), row, j);
            float dx = 0;
            if (seen) dx = gpu_pair_of<DTYPE>(arguments, s, row, h, i, j).dx;
            const gpu_params &of_keys = gpu_reload(p);
            dq.add(gpu_wave_ballot(seen), dx, of_keys.k.data, DTYPE,
                k_base + j0 * of_keys.k.stride[1] + c0, of_keys.k.stride[1], of_keys.head_dim - c0);
        }
        const gpu_grad_params &end = gpu_reload(arguments);
        dq.put(end.call, end.dq, end.dq_dtype, gpu_row_at(end.call, s, end.dq, h, i) + c0,
            end.call.head_dim - c0);
    }
}

/* dk and dv of token t of the sequence's k and v, by one wave: lanes take a row each. 0 where the
   token is no key. */
template <int DTYPE, int DIMS>
__device__ static __forceinline__ void gpu_dkv_token(
    const gpu_grad_params &arguments, int32_t kv_head, int64_t t) {
    enum { PASS = GPU_WAVE * DIMS };
    const gpu_grad_params &g = gpu_reload(arguments);
    const gpu_params &p = g.call;
    const gpu_seq s = gpu_sequence(p, (int32_t)blockIdx.z);
    const int32_t lane = (int32_t)threadIdx.x % GPU_WAVE, j = (int32_t)(t - s.column);
    const gpu_range none = {0, 0}, rows = j >= 0 && j < s.k_len ? gpu_rows_of(p, s, j) : none;
    for (int32_t c0 = 0; c0 < max(p.head_dim, p.v_dim); c0 += PASS) {
        gpu_dims<DIMS> dk, dv;
        dk.clear();
        dv.clear();
        for (int32_t h = kv_head * p.group; h < (kv_head + 1) * p.group; h++)
            for (int32_t i0 = rows.lo; i0 < rows.hi; i0 += GPU_WAVE) {
                const int32_t i = i0 + lane;
                /* anew: scalar registers */
                const gpu_seq own = gpu_sequence(gpu_reload(p), (int32_t)blockIdx.z);
                const gpu_row row = gpu_row_of(gpu_reload(p), own, h, i);
                const bool seen = i < rows.hi && !gpu_hidden(gpu_reload(p), row, j);
                gpu_pair pair = {0, 0, 0};
                if (seen) pair = gpu_pair_of<DTYPE>(arguments, own, row, h, i, j);
                const gpu_grad_params &of_rows = gpu_reload(arguments);
                const gpu_params &q = of_rows.call;
                const uint64_t lanes = gpu_wave_ballot(seen);
                dk.add(lanes, pair.dx, q.q.data, DTYPE,
                    own.q_base + i0 * q.q.stride[1] + h * q.q.stride[2] + c0, q.q.stride[1],
                    q.head_dim - c0);
                dv.add(lanes, pair.weight, of_rows.dout.data, of_rows.dout_dtype,
                    gpu_row_at(q, own, of_rows.dout, h, i0) + c0, of_rows.dout.stride[1],
                    q.v_dim - c0);
            }
        const gpu_grad_params &end = gpu_reload(arguments);
        dk.put(end.call, end.dk, end.dk_dtype, gpu_token_at(end.call, s, end.dk, kv_head, t) + c0,
            end.call.head_dim - c0);
        dv.put(end.call, end.dv, end.dv_dtype, gpu_token_at(end.call, s, end.dv, kv_head, t) + c0,
            end.call.v_dim - c0);
    }
}

/* One element of dbias: the sum over what is broadcast to it, of batch b0, head h0, row i0. */
template <int DTYPE>
__device__ static __forceinline__ void gpu_dbias_element(
    const gpu_grad_params &arguments, int32_t b0, int32_t h0, int32_t i0, int32_t column) {
    const gpu_params &p = gpu_reload(arguments.call);
    const int64_t *step = p.bias.stride;
    float sum = 0, rest = 0;
    for (int32_t b = b0; b < (step[0] ? b0 + 1 : p.batch); b++) {
        const gpu_seq s = gpu_sequence(gpu_reload(p), b);
        const int32_t j = (int32_t)(column - s.column);
        if (j < 0 || j >= s.k_len) continue;
        const gpu_range rows = gpu_rows_of(gpu_reload(p), s, j);
        const int32_t lo = step[2] ? max(i0, rows.lo) : rows.lo,
                      hi = step[2] ? min(i0 + 1, rows.hi) : rows.hi;
        for (int32_t h = h0; h < (step[1] ? h0 + 1 : p.heads); h++)
            for (int32_t i = lo; i < hi; i++) {
                const gpu_params &again = gpu_reload(p);
                const gpu_row row = gpu_row_of(again, s, h, i);
                if (gpu_hidden(again, row, j)) continue;
                gpu_add_any(
                    sum, rest, row.share * gpu_pair_of<DTYPE>(arguments, s, row, h, i, j).ds);
            }
    }
    const gpu_grad_params &g = gpu_reload(arguments);
    const gpu_tensor dbias = {(const char *)g.dbias, {0, 0, 0}};
    gpu_put_grad(
        p, dbias, ATTN_F32, b0 * step[0] + h0 * step[1] + i0 * step[2] + column, sum, rest);
}
/* Eight elements, 0 beyond the first n. wide: of 16 bits, all of them, at a multiple of 16 bytes. */
__device__ static inline void gpu_get8(
    const char *data, int32_t dtype, int64_t at, int32_t n, bool wide, float (&x)[8]) {
    if (wide) {
        const uint4 eight = *(const uint4 *)(data + 2 * at);
        const uint32_t two[4] = {eight.x, eight.y, eight.z, eight.w};
        GPU_UNROLL for (int e = 0; e < 8; e++) {
            const uint32_t half = two[e / 2] >> e % 2 * 16 & 0xffffu;
            x[e] = dtype == ATTN_F16 ? gpu_f16_value((uint16_t)half) : __uint_as_float(half << 16);
        }
    } else
        for (int e = 0; e < 8; e++) x[e] = e < n ? gpu_get(data, dtype, at + e) : 0.0f;
}
__device__ static inline bool gpu_is_wide(
    const gpu_tensor &x, int32_t dtype, int64_t at, int32_t dims) {
    return (dtype == ATTN_F16 || dtype == ATTN_BF16) && dims % 8 == 0 &&
           ((uintptr_t)x.data + 2 * (uintptr_t)at) % 16 == 0;
}
/* grid {any, heads, batch}: GPU_DELTA_ROWS rows. A row has LANES lanes, of 8 dims at a time each. */
enum { GPU_DELTA_ROWS = 32 };
__global__ static void __launch_bounds__(256) gpu_delta_kernel(gpu_grad_params g) {
    enum { LANES = 8, ROWS = GPU_WAVE / LANES };
    const gpu_params &p = g.call;
    const gpu_seq s = gpu_sequence(p, (int32_t)blockIdx.z);
    const int32_t h = (int32_t)blockIdx.y, lane = (int32_t)threadIdx.x % GPU_WAVE;
    for (int64_t u = gpu_first_unit() * ROWS; u < s.q_used; u += gpu_units_step() * ROWS) {
        const int64_t row = u + lane / LANES;
        const int32_t i = (int32_t)min(row, (int64_t)s.q_used - 1);
        const int64_t o_at = gpu_row_at(p, s, p.o, h, i), dout_at = gpu_row_at(p, s, g.dout, h, i),
                      l = gpu_lse_at(s, h, i);
        const bool o_wide = gpu_is_wide(p.o, p.o_dtype, o_at, p.v_dim),
                   dout_wide = gpu_is_wide(g.dout, g.dout_dtype, dout_at, p.v_dim);
        float sum = 0, rest = 0;
        for (int32_t c = lane % LANES * 8; c < p.v_dim; c += LANES * 8) {
            float x[8], y[8];
            gpu_get8(g.dout.data, g.dout_dtype, dout_at + c, p.v_dim - c, dout_wide, x);
            gpu_get8(p.o.data, p.o_dtype, o_at + c, p.v_dim - c, o_wide, y);
            GPU_UNROLL for (int e = 0; e < 8; e++) {
                float upper = x[e] * y[e];
                gpu_pin(upper); /* or a multiply-add makes it anew, with the lower half in it */
                gpu_add_any(sum, rest, upper);
                rest += fmaf(x[e], y[e], -upper);
            }
        }
        if (g.dlse && lane % LANES == 0) gpu_add_any(sum, rest, -g.dlse[l]);
        const float delta = gpu_wave_sum_any<LANES>(sum, rest);
        if (lane % LANES == 0 && row < s.q_used) g.delta[l] = delta;
    }
}
/* grid {any, heads, batch}: rows. */
template <int DTYPE> __global__ void __launch_bounds__(256) gpu_dq_kernel(gpu_grad_params g) {
    const int32_t rows = gpu_sequence(g.call, (int32_t)blockIdx.z).q_rows;
    for (int64_t u = gpu_first_unit(); u < rows; u += gpu_units_step())
        gpu_dq_row<DTYPE, 8>(g, (int32_t)blockIdx.y, (int32_t)u);
}
/* grid {any, kv_heads, batch}: tokens. */
template <int DTYPE> __global__ void __launch_bounds__(256) gpu_dkv_kernel(gpu_grad_params g) {
    const int64_t tokens = gpu_tokens_of(g.call, (int32_t)blockIdx.z).count;
    for (int64_t u = gpu_first_unit(); u < tokens; u += gpu_units_step())
        gpu_dkv_token<DTYPE, 8>(g, (int32_t)blockIdx.y, u);
}
/* grid {any, heads and sequences that dbias has}: GPU_WAVE columns of a row that it has. */
template <int DTYPE> __global__ void __launch_bounds__(256) gpu_dbias_kernel(gpu_grad_params g) {
    const int64_t rows = g.call.bias.stride[2] ? g.call.q_len : 1,
                  pieces = ((int64_t)g.call.kv_len + GPU_WAVE - 1) / GPU_WAVE;
    for (int64_t u = gpu_first_unit(); u < rows * pieces; u += gpu_units_step()) {
        const int64_t column = u % pieces * GPU_WAVE + threadIdx.x % GPU_WAVE;
        if (column < g.call.kv_len)
            gpu_dbias_element<DTYPE>(g, (int32_t)blockIdx.z, (int32_t)blockIdx.y,
                (int32_t)(u / pieces), (int32_t)column);
    }
}
/* grid {heads}, one wave: lanes take a row each. */
__global__ static void __launch_bounds__(64) gpu_dsink_kernel(gpu_grad_params g) {
    const gpu_params &p = g.call;
    const int32_t h = (int32_t)blockIdx.x, lane = (int32_t)threadIdx.x;
    float sum = 0, rest = 0;
    if (lane >= GPU_WAVE) return;
    for (int32_t b = 0; b < p.batch; b++) {
        const gpu_seq s = gpu_sequence(p, b);
        for (int32_t i = lane; i < s.q_used; i += GPU_WAVE) {
            const int64_t l = gpu_lse_at(s, h, i);
            const float lse = p.lse[l];
            if (__float_as_uint(lse) == 0xff800000u) continue; /* saw nothing, not even the sink */
            gpu_add_any(sum, rest, -gpu_probability(p.sink[h], lse) * g.delta[l]);
        }
    }
    const gpu_tensor dsink = {(const char *)g.dsink, {0, 0, 0}};
    sum = gpu_wave_sum_any(sum, rest);
    if (lane == 0) gpu_put_grad(p, dsink, ATTN_F32, h, sum, 0.0f);
}
#define GPU_ROW_BACKWARD(name, DTYPE) \
    {name, UNIT_SCALAR, DTYPE, INT32_MAX, ~0, 1, \
        {{(const void *)gpu_dq_kernel<DTYPE>, 0, 0}, {(const void *)gpu_dkv_kernel<DTYPE>, 0, 0}, \
            {NULL, 0, 0}}, \
        (const void *)gpu_dbias_kernel<DTYPE>},
/* clang-format off */
#define GPU_ROWS_BACKWARD \
    GPU_ROW_BACKWARD("scalar_f32_backward", ATTN_F32) \
    GPU_ROW_BACKWARD("scalar_f16_backward", ATTN_F16) \
    GPU_ROW_BACKWARD("scalar_bf16_backward", ATTN_BF16)
/* clang-format on */
/* ============================================================================ >>kernel16 ====
   Flash attention forward for f16 and bf16. A workgroup computes BM = WAVES * TILE query rows of
   one head, a wave TILE of them; K and V pass through LDS in tiles of BN keys:

     s = mma(k, q)                 scores, transposed: a lane has BN / 2 keys of one query
     p = exp2(s * scale - m)       m moves only when a maximum outgrows it (gpu_p_bias)
     o = o * alpha + mma(v, p)     o transposed as well: a lane has D / 2 dims of its query

   Tile t + 1 travels from memory to registers while tile t is computed, then to the other half
   of LDS: one barrier a tile. Tiles hidden from the whole workgroup are not visited; `middle`
   tiles, whole for every row and followed by another such, take the loop without masks, clamps
   and checks; the others are `edge` tiles. Kernels that mask or load element by element know
   edge tiles alone. */

/* Of two halves side by side: the sign's place of those whose exponent is all ones, into
   which that carries. */
template <int DTYPE> __device__ static inline uint32_t gpu_not_finite2(uint32_t x) {
    const uint32_t exponent = DTYPE == ATTN_F16 ? 0x7c007c00u : 0x7f807f80u;
    const uint32_t one = DTYPE == ATTN_F16 ? 0x04000400u : 0x00800080u;
    return ((x & exponent) + one) & 0x80008000u;
}
/* Elements d .. d + 7 of a row of o, as many as v_dim has. */
template <int DTYPE> __device__ static __forceinline__ uint4 gpu_pack8(const float (&x)[8]) {
    return make_uint4(gpu_pack<DTYPE>(x[0], x[1]), gpu_pack<DTYPE>(x[2], x[3]),
        gpu_pack<DTYPE>(x[4], x[5]), gpu_pack<DTYPE>(x[6], x[7]));
}
template <int ALIGN>
__device__ static __forceinline__ void gpu_store8(
    const gpu_params &p, char *row, int32_t d, float (&x)[8]) {
    if (ALIGN >= 16 && p.o_dtype != ATTN_F64) {
        if (d >= p.v_dim) return;
        if (p.o_dtype == ATTN_F32) {
            *(float4 *)(row + 4 * d) = make_float4(x[0], x[1], x[2], x[3]);
            *(float4 *)(row + 4 * d + 16) = make_float4(x[4], x[5], x[6], x[7]);
        } else
            *(uint4 *)(row + 2 * d) =
                p.o_dtype == ATTN_F16 ? gpu_pack8<ATTN_F16>(x) : gpu_pack8<ATTN_BF16>(x);
    } else gpu_put_each(row, p.o_dtype, d, p.v_dim, x);
}
/* Addresses in LDS. XORs spread what is read or written together over the banks, and keep constant
   steps constant: at(a ^ c) = at(a) ^ at(c) up to whole lines.
   K:   row of a key, 16-byte chunks moved by the key's low bits. */
__device__ static constexpr uint32_t gpu_k_swizzle(uint32_t key) {
    return ((key ^ (key >> 1 & 4)) & 7) << 4;
}
template <class S> __device__ static inline uint32_t gpu_k_at(uint32_t key, uint32_t chunk) {
    return key * S::K_ROW + (chunk << 4 ^ gpu_k_swizzle(key));
}
/* V^T: row of a dim. 64 keys fill a line of 128 bytes, of 32 keys two rows share one, of 16 four. */
template <class S> __device__ static constexpr uint32_t gpu_v_swizzle(uint32_t d) {
    if (S::BN == 16) return ((d & 3) * 2 ^ (d >> 3 & 3) * 2 ^ (d >> 5 & 1)) << 4;
    if (S::BN == 64) return ((d & 7) ^ (d >> 3 & 1) * 7 ^ (d >> 4 & 3)) << 4;
    return ((d & 1) * 4 ^ (d >> 1 & 1) ^ (d >> 1 & 2) ^ (d >> 3 & 1) * 6 ^ (d >> 4 & 3)) << 4;
}
template <class S> __device__ static inline uint32_t gpu_v_at(uint32_t d, uint32_t key) {
    return S::K_BYTES + S::v_line(d) + ((key >> 3 << 4) ^ gpu_v_swizzle<S>(d)) + (key & 4) * 2;
}

/* P is cut off towards zero, which makes it too small by a factor that for many keys is F = 1 +
   2^-bits / (2 ln 2) on average. So m is log2(F) below the maximum and the end multiplies with F /
   l: the largest key's p is F, cut to 1, and exact; the mean error of the others is gone. P also
   goes times 2^RAISE and m follows the maximum when that has grown by 2^GROWTH: together they fill
   f16's range, so that P's subnormals, which MI200 takes for 0, begin at 2^-26 of the largest key.
   mma.sync rounds to nearest: it has RAISE and GROWTH alone. */
template <int DTYPE> struct gpu_p_bias {
    static constexpr bool F16 = DTYPE == (int)ATTN_F16;
    static constexpr float F = F16 ? 1.00035220f : 1.00281763f;
    static constexpr float LOG2_F = F16 ? 0.00050803f : 0.00405932f;
    static constexpr float RAISE = F16 ? 12.0f : 0.0f, GROWTH = F16 ? 3.0f : 8.0f;
    static constexpr float LOG2 = LOG2_F + RAISE;
    /* What m is for an lse whose sum goes times 2^-RAISE: two numbers of about RAISE would cancel. m is in
       units that `unit` makes natural ones. */
    static constexpr float LOWER = F16 ? 0x1p-12f : 1.0f;
    __device__ static float raised(float m, float unit) {
        return F16 ? fmaf(m, unit, 8.31776619f) - 2.2855852e-8f
                   : m * unit; /* 12 ln 2 in two parts */
    }
};

/* f16 has few bits for weights below 2^-14, which is 2^-26 of a row's largest, and none below 2^-24:
   an o of another type shows that where v of the larger ones is 0. Where a tile has such weights they
   are multiplied before the others, times 2^26, 2^52 or 2^78, by sums that are at that scale
   meanwhile, which changes no bit of them: between two carries they are below 2^43, in a decode below
   2^50 where there may be so many powers. y is log 2 of such a weight. */
template <int DTYPE> struct gpu_light {
    static constexpr int MASK = DTYPE == (int)ATTN_F16 ? MASK_LIGHT : 0, STEP = 26, LAST = 78;
    static constexpr float LEAST = -14.0f, FROM = LEAST + STEP;
    __device__ static float power(int by) { return __uint_as_float((uint32_t)(127 + by) << 23); }
    /* Those of 2^by: y + by is below FROM and not below this. */
    __device__ static float until(int by) { return by == LAST ? GPU_NEG_INF : LEAST; }
    /* y, or 0 of a key that is not seen. */
    __device__ static float seen(float y) { return y < -1e30f ? 0.0f : y; }
    /* The weight of y + by, whose score is gone then, or 0 where it is not one of 2^by. */
    __device__ static float take(float y, float until, float &score) {
        const bool has = y < FROM && y >= until;
        score = has ? GPU_NEG_INF : score;
        return has ? gpu_exp2(y) : 0.0f;
    }
    /* The highest power that some lane of the wave has one of, of a sum of so many keys in turn. */
    __device__ static int first(float least, int32_t keys) {
        int by = 0;
        GPU_UNROLL for (int n = STEP; MASK && n <= LAST; n += STEP)
            if (goes_on(least, n) && (n < LAST || keys < 1 << 19)) by = n;
        return by;
    }
    /* Has some lane of the wave one of 2^by or a higher power? least: the least of its y. */
    __device__ static bool goes_on(float least, int by) {
        return by <= LAST && gpu_wave_ballot(least + (float)by < FROM);
    }
};

/* Is a row's maximum so far from 0 that a score's exponent by one multiply-add, which has its rounding
   error, could be well above 0? m is in log 2. Such a row subtracts the maximum first. */
__device__ static inline bool gpu_far(float m) { return fabsf(m) > 0x1p20f; }

/* Non-finite halves become the largest finite value; bad collects what changed. */
template <int DTYPE> __device__ static inline uint32_t gpu_make_finite(uint32_t x, uint32_t &bad) {
#if GPU_ON_CUDA
    const uint32_t top = DTYPE == ATTN_F16 ? 0x7bff7bffu : 0x7f7f7f7fu,
                   these = (gpu_not_finite2<DTYPE>(x) >> 15) * 0xffffu,
                   y = (x & ~these) | (these & ((x & 0x80008000u) | top));
#else
    const short top = DTYPE == ATTN_F16 ? 0x7bff : 0x7f7f;
    typedef short i16x2 __attribute__((ext_vector_type(2)));
    typedef unsigned short u16x2 __attribute__((ext_vector_type(2)));
    i16x2 a = __builtin_bit_cast(i16x2, x), positive = {top, top};
    a = __builtin_elementwise_min(a, positive);
    u16x2 b = __builtin_bit_cast(u16x2, a),
          negative = {(unsigned short)(0x8000 | top), (unsigned short)(0x8000 | top)};
    b = __builtin_elementwise_min(b, negative);
    const uint32_t y = __builtin_bit_cast(uint32_t, b);
#endif
    bad |= x ^ y;
    return y;
}

/* N words from memory, by one load. */
template <int N> __device__ static inline void gpu_words_copy(uint32_t (&to)[N], const char *from) {
    if constexpr (N == 1) to[0] = *(const uint32_t *)from;
    else if constexpr (N == 2) {
        const gpu_u32x2 x = *(const gpu_u32x2 *)from;
        to[0] = x[0];
        to[1] = x[1];
    } else {
        const gpu_u32x4 x = *(const gpu_u32x4 *)from;
        to[0] = x[0];
        to[1] = x[1];
        to[2] = x[2];
        to[3] = x[3];
    }
}

/* Eight elements from d on of a row of dim elements that begins at `row`; 0 beyond its end. */
__device__ static inline gpu_u32x4 gpu_row_chunk(
    const char *row, int32_t d, int32_t dim, bool aligned) {
    gpu_u32x4 x = {0, 0, 0, 0};
    if (aligned) {
        if (d < dim) x = *(const gpu_u32x4 *)(row + 2 * d);
    } else {
        GPU_UNROLL for (int e = 0; e < 8; e++) {
            const bool inside = d + e < dim; /* a select: branches here cost registers */
            const uint32_t value = *(const uint16_t *)(row + 2 * (inside ? d + e : dim - 1));
            x[e / 2] |= (inside ? value : 0) << e % 2 * 16;
        }
    }
    return x;
}

/* Elements d and d + 1 of a row of dim elements, 0 beyond its end. */
__device__ static inline uint32_t gpu_row_pair(
    const char *row, int32_t d, int32_t dim, bool aligned) {
    if (aligned) return d < dim ? *(const uint32_t *)(row + 2 * d) : 0;
    const uint16_t *x = (const uint16_t *)row;
    return (d < dim ? x[d] : 0) | (d + 1 < dim ? (uint32_t)x[d + 1] << 16 : 0);
}

/* What a row of the table says of a kernel on fragments, and what follows for each of them. */
template <int UNIT_, int DTYPE_, int D_, int WAVES_, int BN_, int MASKS_, int ALIGN_>
struct gpu_shape { /* numbers, for C++20 has no arithmetic of two enumerations */
    static constexpr int UNIT = UNIT_, DTYPE = DTYPE_, D = D_, WAVES = WAVES_, BN = BN_,
                         MASKS = MASKS_, ALIGN = ALIGN_;
    typedef gpu_unit<UNIT_> U;
    static constexpr int TILE = (int)U::TILE, THREADS = WAVES * (int)U::WAVE, BM = WAVES * TILE,
                         STEPS = D / 16, /* products of 16 k for a tile of scores */
        DIM_TILES = D / TILE, K_ROW = D < 64 ? 128 : 2 * D, /* bytes in LDS: of a row */
        K_BYTES = BN * K_ROW,                               /* as rows */
        V_BYTES = 2 * BN * D;                               /* transposed */
    __device__ static constexpr uint32_t v_line(uint32_t d) { return d * BN / 64 * 128; }
};
#if !GPU_ON_CUDA
template <int UNIT_, int DTYPE_, int D_, int WAVES_, int BN_, int MASKS_, int ALIGN_>
struct gpu_shape16 : gpu_shape<UNIT_, DTYPE_, D_, WAVES_, BN_, MASKS_, ALIGN_> {
    typedef gpu_shape<UNIT_, DTYPE_, D_, WAVES_, BN_, MASKS_, ALIGN_> B;
    enum {
        KEY_TILES = BN_ / B::TILE,
        KEY_STEPS = BN_ / 16,
        CHUNKS = D_ / 8, /* of 16 bytes in a row of K */
        K_PER_THREAD = BN_ * CHUNKS / B::THREADS,
        V_DIMS = BN_ / 4 * D_ / B::THREADS, /* dims of V a thread transposes, of 4 keys */
        CARRY = GPU_CARRY_KEYS / BN_,       /* tiles between two carries of the sums */
        LIFT = (GPU_UNITS & F16_FLUSHES) && DTYPE_ == (int)ATTN_F16,
        /* K is stored and V fetched between the products: fewer registers */
        LATE_V = (B::U::LATE_V && D_ >= 128) || D_ >= 256,
        K_ROWS_APART = B::THREADS / CHUNKS,
        V_WORDS = V_DIMS / 2,
        STAGE = B::K_BYTES + B::V_BYTES,
        LDS = 2 * STAGE,
        /* The left operands of a tile in the order in which they are multiplied, K's and then V's; so
           many are under way while one is. Where they run on, V's first ones are on their way before
           the last of K are multiplied, and where they run over the next tile's before the last of
           V: where there are registers. */
        K_OPERANDS = KEY_TILES * B::STEPS,
        V_OPERANDS = KEY_STEPS * B::DIM_TILES,
        RING = UNIT_ == UNIT_MFMA && D_ == 128 ? 4 : B::U::RING,
        RUNS_OVER = D_ < 256 && (D_ > 32 || ALIGN_ >= 16),
        RUNS_ON = RUNS_OVER && !(LIFT && D_ == 64),
        FROM_ANEW = D_ >= 256 || (LIFT && D_ == 64), /* where k and v are read from is not kept */
        STORE_AT = V_OPERANDS / 2,
        /* waves of a SIMD that there are to be registers for */
        PER_SIMD = UNIT_ == UNIT_MFMA && D_ == 64 && !MASKS_ ? 4 : WAVES_ / 4
    };
    static_assert((K_OPERANDS + V_OPERANDS) % RING == 0, "an operand has one place in the ring");
};

/* Two f16 products; 2^10 and 1, twice. */
enum : uint32_t { GPU_LIFT = 0x64006400u, GPU_NO_LIFT = 0x3c003c00u };
__device__ static inline uint32_t gpu_multiply2_f16(uint32_t a, uint32_t b) {
    typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));
    const f16x2 product = __builtin_bit_cast(f16x2, a) * __builtin_bit_cast(f16x2, b);
    return __builtin_bit_cast(uint32_t, product);
}

template <class S> struct gpu_flash16 {
    typedef typename S::U U;
    typedef typename U::operand operand;
    typedef typename U::acc acc;
    enum {
        D = S::D,
        BN = S::BN,
        TILE = S::TILE,
        ACC = sizeof(acc) / 4,
        SCORES = S::KEY_TILES * ACC,
        GENERAL = (S::MASKS & ~MASK_LIGHT) != 0,
        FROM_MAX = U::SCORES_START_AT_MAX && !GENERAL
    };

    char *lds;
    const gpu_params &arguments;
    int32_t head, wave_row; /* the wave's first row */
    int32_t k_len, head_dim, v_width;
    bool aligned;                    /* k, v: 16-byte chunks; else element by element */
    gpu_range see;                   /* keys of row i */
    gpu_range wave_sees, wave_whole; /* keys that a row, and that every row of the wave sees */
    gpu_row row;
    /* from units of s, natural ones in general kernels, to log 2, and back */
    float scale, unscale;

    operand q[S::STEPS];
    acc s[S::KEY_TILES], o[S::DIM_TILES];
    float m, base, row_sum, sum_rest; /* in units of s; base: m, or 0 as long as m is -infinity */
    float carried;                    /* the m of what was carried; -infinity: nothing was */
    float shift;                      /* of MFMA's plain kernels: what scores in log 2 go by, */
    bool some_far;                    /* and whether a row of the wave subtracts base before that */
    gpu_all_keys all;                 /* with dropout */
    uint32_t bad;                     /* not 0: some V was made finite */
    /* Where the matrix unit takes subnormals for 0, q, k and v go there times 2^10. A row of q that
       is too large for that goes as it is; k or v that are (64 and above) make the workgroup pass
       once more, and then both go as they are. */
    uint32_t lift, overflow; /* 2^10 or 1, twice, in f16; not 0: k or v were too large */
    float unlift;            /* for the scores */

    const GPU_GLOBAL char *k_data, *v_data; /* key 0 of the head */
    int64_t k_stride, v_stride;             /* bytes */
    uint32_t k_from, v_from, k_to, v_to, k_read, v_read;
    gpu_u32x4 k_next[S::K_PER_THREAD];
    uint32_t v_next[4][S::V_WORDS];
    operand ring[S::RING]; /* left operands on their way */

    __device__ __forceinline__ gpu_flash16(char *shared, const gpu_params &p)
        : lds(shared), arguments(p) {}

    /* From the thread's index anew at each use: cheaper than registers through the loop. */
    __device__ __forceinline__ static uint32_t thread() {
        uint32_t t = threadIdx.x;
        gpu_pin(t);
        return t;
    }
    __device__ __forceinline__ static int32_t lane() { return (int32_t)(thread() % U::WAVE); }
    __device__ __forceinline__ int32_t my_row() const { return wave_row + lane() % TILE; }

    /* ---- from memory to LDS ---- */

    /* Byte offset of key r of a tile from the tile's lowest address. */
    __device__ __forceinline__ uint32_t key_offset(uint32_t r, int64_t stride) const {
        return stride < 0 ? (uint32_t)(BN - 1 - r) * (uint32_t)-stride : r * (uint32_t)stride;
    }
    __device__ __forceinline__ gpu_u32x4 *k_place(uint32_t stage, uint32_t r) const {
        return (gpu_u32x4 *)(lds + ((stage + k_to) ^ gpu_k_swizzle(r * S::K_ROWS_APART)) +
                             r * S::K_ROWS_APART * S::K_ROW);
    }
    /* What this thread brings in: a chunk of rows k_row, k_row + K_ROWS_APART .. of K; V_DIMS dims
       of 4 keys of V, 8 groups of dims times 2 of keys side by side: writes of 8 bytes that meet
       no bank twice. */
    struct place {
        uint32_t k_row, k_chunk, v_key, v_dim;
    };
    __device__ __forceinline__ place my_place() const {
        const uint32_t groups = (uint32_t)D / (uint32_t)S::V_DIMS / 8;
        const uint32_t t = thread();
        const place a = {t / S::CHUNKS, t % S::CHUNKS, (t / 16 / groups * 2 + (t >> 3 & 1)) * 4,
            (t / 16 % groups * 8 + t % 8) * S::V_DIMS};
        return a;
    }
    /* Beyond head_dim a thread repeats its row's last chunk, in the same wave, so K's padding in
       LDS keeps the 0 that it gets here. V's padding makes rows of O^T that nobody stores: any
       value will do. */
    __device__ __forceinline__ place my_place_inside() const {
        place a = my_place();
        const uint32_t last = (uint32_t)(head_dim + 7) / 8 - 1;
        if (a.k_chunk > last) a.k_chunk = last;
        if (aligned && (int32_t)a.v_dim >= v_width) a.v_dim = 0;
        return a;
    }
    __device__ __forceinline__ void place_threads() {
        const place own = my_place(), inside = my_place_inside();
        k_to = gpu_k_at<S>(own.k_row, own.k_chunk);
        v_to = gpu_v_at<S>(own.v_dim, own.v_key);
        if (own.k_chunk != inside.k_chunk) {
            const gpu_u32x4 zero = {0, 0, 0, 0};
            for (uint32_t r = 0; r < S::K_PER_THREAD; r++)
                for (uint32_t stage = 0; stage < 2; stage++) *k_place(stage * S::STAGE, r) = zero;
            k_to = gpu_k_at<S>(inside.k_row, inside.k_chunk);
        }
        k_from = from_k();
        v_from = from_v();
    }
    /* Byte offsets of what this thread reads in a whole tile, kept where there are registers. */
    __device__ __forceinline__ uint32_t from_k() const {
        const place my = my_place_inside();
        return key_offset(my.k_row, k_stride) + my.k_chunk * 16;
    }
    __device__ __forceinline__ uint32_t from_v() const {
        const place my = my_place_inside();
        return key_offset(my.v_key, v_stride) + my.v_dim * 2;
    }

    /* Tile t into registers. EDGE: keys beyond the last one repeat it. */
    template <bool EDGE> __device__ __forceinline__ void fetch_k(int32_t t) {
        const int64_t first = (int64_t)t * BN;
        const char *k = (const char *)k_data + (first + (k_stride < 0 ? BN - 1 : 0)) * k_stride;
        if constexpr (S::ALIGN >= 16 && !EDGE) {
            if (S::FROM_ANEW) k_from = from_k();
            /* 32 bits beside a scalar base: widened outside the loop it would be a 64-bit sum */
            gpu_pin(k_from);
            GPU_UNROLL for (uint32_t r = 0; r < S::K_PER_THREAD; r++)
                k_next[r] =
                    *(const gpu_u32x4 *)(k + (int64_t)(r * S::K_ROWS_APART) * k_stride + k_from);
        } else {
            const place my = my_place_inside();
            const uint32_t last = (uint32_t)(k_len - 1 - (int32_t)first);
            GPU_UNROLL for (uint32_t r = 0; r < S::K_PER_THREAD; r++) {
                const uint32_t j = my.k_row + r * S::K_ROWS_APART, clamped = j < last ? j : last;
                if (S::ALIGN >= 16)
                    k_next[r] =
                        *(const gpu_u32x4 *)(k + (key_offset(clamped, k_stride) + my.k_chunk * 16));
                else
                    k_next[r] = gpu_row_chunk((const char *)k_data + (first + clamped) * k_stride,
                        (int32_t)my.k_chunk * 8, head_dim, aligned);
            }
        }
    }
    template <bool EDGE> __device__ __forceinline__ void fetch_v(int32_t t) {
        const int64_t first = (int64_t)t * BN;
        const char *v = (const char *)v_data + (first + (v_stride < 0 ? BN - 1 : 0)) * v_stride;
        if constexpr (S::ALIGN >= 16 && !EDGE) {
            if (S::FROM_ANEW) v_from = from_v();
            gpu_pin(v_from);
            GPU_UNROLL for (int r = 0; r < 4; r++)
                gpu_words_copy<S::V_WORDS>(v_next[r], v + r * v_stride + v_from);
        } else {
            const place my = my_place_inside();
            const uint32_t last = (uint32_t)(k_len - 1 - (int32_t)first);
            GPU_UNROLL for (uint32_t r = 0; r < 4; r++) {
                const uint32_t j = my.v_key + r, clamped = j < last ? j : last;
                if (S::ALIGN >= 16) {
                    gpu_words_copy<S::V_WORDS>(
                        v_next[r], v + (key_offset(clamped, v_stride) + my.v_dim * 2));
                    continue;
                }
                const char *from = (const char *)v_data + (first + clamped) * v_stride;
                GPU_UNROLL for (int n = 0; n < S::V_WORDS; n++)
                    v_next[r][n] = 0;
                if (aligned) {
                    gpu_words_copy<S::V_WORDS>(v_next[r], from + 2 * my.v_dim);
                } else {
                    GPU_UNROLL for (int e = 0; e < S::V_DIMS; e++) {
                        const int32_t d = (int32_t)my.v_dim + e;
                        const uint32_t value =
                            ((const uint16_t *)from)[d < v_width ? d : v_width - 1];
                        v_next[r][e / 2] |= value << e % 2 * 16;
                    }
                }
            }
        }
    }
    __device__ __forceinline__ uint32_t lifted(uint32_t x) {
        if constexpr (!S::LIFT) return x;
        const uint32_t y = gpu_multiply2_f16(x, lift);
        overflow |= gpu_not_finite2<ATTN_F16>(y);
        return y;
    }
    __device__ __forceinline__ void store_k(uint32_t stage) {
        GPU_UNROLL for (uint32_t r = 0; r < S::K_PER_THREAD; r++) {
            gpu_u32x4 x = k_next[r];
            GPU_UNROLL for (int n = 0; n < 4; n++)
                x[n] = lifted(x[n]);
            *k_place(stage, r) = x;
        }
    }
    template <bool EDGE> __device__ __forceinline__ void store_v(uint32_t stage) {
        GPU_UNROLL for (int n = 0; n < S::V_WORDS; n++) {
            uint32_t x[4];
            GPU_UNROLL for (int r = 0; r < 4; r++) {
                x[r] = lifted(v_next[r][n]);
                if (EDGE) x[r] = gpu_make_finite<S::DTYPE>(x[r], bad);
            }
            GPU_UNROLL for (uint32_t e = 0; e < 2; e++) {
                const uint32_t d = 2 * n + e, pick = e ? 0x07060302u : 0x05040100u;
                const gpu_u32x2 keys = {gpu_bytes(x[1], x[0], pick), gpu_bytes(x[3], x[2], pick)};
                *(gpu_u32x2 *)(lds + ((stage + v_to) ^ gpu_v_swizzle<S>(d)) + S::v_line(d)) = keys;
            }
        }
    }

    /* ---- operands ---- */

    __device__ __forceinline__ void place_lanes() {
        const uint32_t left = (uint32_t)U::left_row(lane()), chunk = (uint32_t)U::chunk(lane());
        k_read = gpu_k_at<S>(left, chunk);
        v_read = gpu_v_at<S>(left, chunk * 8);
    }
    __device__ __forceinline__ static operand operand_at(const char *from, uint32_t at) {
        return U::whole(*(const gpu_u32x4 *)(from + at), *(const gpu_u32x4 *)(from + (at ^ 16)));
    }
    /* Keys TILE tile .. of K, dims 16 step .. */
    __device__ __forceinline__ operand k_operand(
        uint32_t stage, uint32_t tile, uint32_t step) const {
        const uint32_t low = (step & 3) << 5;
        return operand_at(lds + tile * TILE * S::K_ROW + (step >> 2) * 128, (stage + k_read) ^ low);
    }
    /* Dims TILE tile .. of V^T, keys 16 step .. */
    __device__ __forceinline__ operand v_operand(
        uint32_t stage, uint32_t tile, uint32_t step) const {
        const uint32_t low = step << 5 ^ gpu_v_swizzle<S>(tile * TILE);
        return operand_at(lds + S::v_line(tile * TILE), (stage + v_read) ^ low);
    }
    __device__ __forceinline__ void lift_q() {
        uint32_t large = 0;
        GPU_UNROLL for (int n = 0; n < S::STEPS; n++) GPU_UNROLL
            for (int c = 0; c < (int)sizeof(operand) / 4; c++)
                large |= gpu_not_finite2<ATTN_F16>(gpu_multiply2_f16(q[n][c], GPU_LIFT));
        const bool whole_row = U::other_half(large ? 1.0f : 0.0f) == 0 && !large;
        const uint32_t by = whole_row ? GPU_LIFT : GPU_NO_LIFT;
        GPU_UNROLL for (int n = 0; n < S::STEPS; n++) GPU_UNROLL
            for (int c = 0; c < (int)sizeof(operand) / 4; c++)
                q[n][c] = gpu_multiply2_f16(q[n][c], by);
        unlift = (whole_row ? 0x1p-10f : 1.0f) * (lift == GPU_LIFT ? 0x1p-10f : 1.0f);
        if (!GENERAL) {
            scale = gpu_reload(arguments).scale_log2 * unlift;
            unscale = 1.0f / scale;
        }
    }
    __device__ __forceinline__ void load_q(const gpu_params &p, const gpu_seq &seq) {
        const int32_t i = my_row(), row_i = i < seq.q_used ? i : seq.q_used - 1;
        const char *from =
            p.q.data + 2 * (seq.q_base + row_i * p.q.stride[1] + head * p.q.stride[2]);
        GPU_UNROLL for (int n = 0; n < S::STEPS; n++) {
            gpu_u32x4 x[2];
            GPU_UNROLL for (int c = 0; c < (int)sizeof(operand) / 16; c++)
                x[c] = gpu_row_chunk(from, 16 * n + 8 * (U::chunk(lane()) + c), head_dim, aligned);
            q[n] = U::whole(x[0], x[1]);
        }
        if constexpr (S::LIFT) lift_q();
    }

/* ---- a tile ---- */

/* Score n of SCORES; its key, from the lane's first on. */
#define GPU_SCORE(n) s[(n) / ACC][(n) % ACC]
    __device__ __forceinline__ static constexpr int key_of(int n) { return n / 8 * 16 + n % 8; }

    /* Nothing moves across: where registers are short or latency is the compiler's to guess. */
    __device__ __forceinline__ void step_done() const {
        if (U::STEPWISE || D >= 256) gpu_fence();
    }
    /* Operand n of K_OPERANDS + V_OPERANDS, into its place in the ring. */
    __device__ __forceinline__ void take(uint32_t stage, int n) {
        const int v = n - S::K_OPERANDS;
        ring[n % S::RING] = v < 0 ? k_operand(stage, n / S::STEPS, n % S::STEPS)
                                  : v_operand(stage, v % S::DIM_TILES, v / S::DIM_TILES);
    }
    /* The first ones from n on. */
    __device__ __forceinline__ void take_first(uint32_t stage, int n) {
        GPU_UNROLL for (int i = 0; i < S::RING; i++)
            take(stage, n + i);
        step_done();
    }
    __device__ __forceinline__ void products_qk(uint32_t stage) {
        if (!S::RUNS_OVER) take_first(stage, 0);
        GPU_UNROLL for (int tile = 0; tile < S::KEY_TILES; tile++) {
            acc sum = FROM_MAX ? acc(-base) : acc(0.0f);
            GPU_UNROLL for (int step = 0; step < S::STEPS; step++) {
                const int n = tile * S::STEPS + step;
                sum = U::template mma<S::DTYPE>(ring[n % S::RING], q[step], sum);
                if (S::RUNS_ON || n + S::RING < S::K_OPERANDS) take(stage, n + S::RING);
                step_done();
                if ((step + 1) % (GPU_SUM_DIMS / 16) == 0 || step + 1 == S::STEPS) {
                    s[tile] = step < GPU_SUM_DIMS / 16 ? sum : s[tile] + sum;
                    sum = acc(0.0f);
                }
            }
        }
    }
    /* Softcap, bias, ALiBi, boolean mask, ranges and dropout. Eight scores at a time in the first
       registers, which then go round: the code is there once. */
    __device__ __forceinline__ void modify(int32_t key0) {
        const gpu_params &p = gpu_reload(arguments);
        const gpu_row own = row;
        GPU_NO_UNROLL for (int c = 0; c < S::KEY_STEPS; c++, key0 += 16) {
            float x[8];
            GPU_UNROLL for (int e = 0; e < 8; e++)
                x[e] = gpu_modify_in(p, own, see, k_len - 1, key0 + e,
                    GPU_SCORE(e) * (S::LIFT ? p.scale * unlift : p.scale));
            if (p.masks & MASK_DROPOUT) all.drop(p, my_row(), key0, x);
            GPU_UNROLL for (int n = 0; n < SCORES; n++)
                GPU_SCORE(n) = n + 8 < SCORES ? GPU_SCORE((n + 8) % SCORES) : x[n % 8];
        }
    }
    /* Keys at and beyond see.hi, or before see.lo, of a tile that a row of the wave
     * sees in part. */
    template <bool LEFT> __device__ __forceinline__ void hide(int32_t key0) {
        const int32_t end = see.hi - key0, begin = see.lo - key0;
        GPU_UNROLL for (int n = 0; n < SCORES; n++) {
            const bool hidden = LEFT ? key_of(n) < begin : key_of(n) >= end;
            GPU_SCORE(n) = hidden ? GPU_NEG_INF : GPU_SCORE(n);
        }
    }
    /* m follows the maximum of a row only when that has grown by more than 2^GROWTH, and a row does
       so for itself alone, so that its bits do not depend on its neighbours. */
    __device__ __forceinline__ void follow_max() {
        const float bias = gpu_p_bias<S::DTYPE>::LOG2 * unscale;
        float top = GPU_NEG_INF;
        GPU_UNROLL for (int n = 0; n < SCORES; n++)
            top = fmaxf(top, GPU_SCORE(n));
        /* A general row may be as far from 0 as f32 reaches: there m is the maximum itself, and the
           factor of P joins in weights(). Elsewhere top and the bias count from base. */
        if (!FROM_MAX && !GENERAL) top -= base;
        const float limit = m == GPU_NEG_INF
                                ? GPU_NEG_INF
                                : (GENERAL ? 0.0f : bias) + gpu_p_bias<S::DTYPE>::GROWTH * unscale;
        if (gpu_wave_ballot((GENERAL ? top - base : top) > limit)) {
            top = fmaxf(top, U::other_half(top));
            const bool grows = (GENERAL ? top - base : top) > limit;
            const float up = grows ? top - bias : 0.0f, next = !GENERAL ? base + up
                                                               : grows  ? top
                                                                        : base;
            const float alpha = !grows             ? 1.0f
                                : m == GPU_NEG_INF ? 0.0f
                                : GENERAL          ? gpu_exp2((base - next) * scale)
                                                   : gpu_exp2(-up * scale);
            if (FROM_MAX) {
                GPU_UNROLL for (int tile = 0; tile < S::KEY_TILES; tile++)
                    s[tile] -= up;
            }
            if (grows) m = base = next;
            if (!FROM_MAX && !GENERAL) {
                const bool far = gpu_far(base * scale);
                shift = far ? 0.0f : -base * scale;
                some_far = gpu_wave_ballot(far) != 0;
            }
            row_sum *= alpha;
            sum_rest *= alpha;
            GPU_UNROLL for (int tile = 0; tile < S::DIM_TILES; tile++)
                o[tile] *= alpha;
        }
        GPU_UNROLL for (int tile = 0; tile < S::DIM_TILES; tile++)
            gpu_pin(o[tile]);
    }
    /* Of scores: log 2 of their weights. */
    template <class X> __device__ __forceinline__ X exponent(X x) const {
        return GENERAL    ? (x - base) * scale + gpu_p_bias<S::DTYPE>::LOG2
               : FROM_MAX ? x * scale
                          : x * scale + shift;
    }
    /* p of key step c in place of the scores; returns their right operand. */
    __device__ __forceinline__ operand weights(int c, gpu_f32x2 &sum) {
        gpu_f32x2 w[4];
        GPU_UNROLL for (int e = 0; e < 4; e++) {
            const gpu_f32x2 x = {GPU_SCORE(8 * c + 2 * e), GPU_SCORE(8 * c + 2 * e + 1)};
            const gpu_f32x2 y = exponent(x);
            w[e].x = gpu_exp2(y.x);
            w[e].y = gpu_exp2(y.y);
            sum = c + e ? sum + w[e] : w[e];
        }
        gpu_u32x4 own;
        GPU_UNROLL for (int e = 0; e < 4; e++)
            own[e] = gpu_truncate2<S::DTYPE>(w[e].x, w[e].y);
        return U::exchange(own);
    }
    /* The products of light weights (gpu_light), whose scores are -infinity then. Of a key step at a
       time in the first registers, which then go round: the code is there once. */
    __device__ __forceinline__ void products_light(uint32_t stage) {
        typedef gpu_light<S::DTYPE> light;
        float least = -GPU_NEG_INF;
        GPU_UNROLL for (int n = 0; n < SCORES; n++)
            least = fminf(least, GPU_SCORE(n));
        if (!gpu_wave_ballot(exponent(least) < light::LEAST)) return;
        least = 0.0f;
        GPU_UNROLL for (int n = 0; n < SCORES; n++)
            least = fminf(least, light::seen(exponent(GPU_SCORE(n))));
        GPU_NO_UNROLL for (int by = light::STEP; light::goes_on(least, by); by += light::STEP) {
            const float until = light::until(by), up = (float)by;
            float sum = 0.0f;
            GPU_UNROLL for (int tile = 0; tile < S::DIM_TILES; tile++)
                o[tile] *= light::power(by);
            GPU_NO_UNROLL for (int step = 0; step < S::KEY_STEPS; step++) {
                gpu_u32x4 own;
                float x[8], top = 0.0f;
                GPU_UNROLL for (int e = 0; e < 4; e++) {
                    float w[2];
                    GPU_UNROLL for (int i = 0; i < 2; i++) {
                        float &score = x[2 * e + i];
                        score = GPU_SCORE(2 * e + i);
                        w[i] = light::take(exponent(score) + up, until, score);
                        top = fmaxf(top, w[i]);
                        sum += w[i];
                    }
                    own[e] = gpu_truncate2<S::DTYPE>(w[0], w[1]);
                }
                GPU_UNROLL for (int n = 0; n < SCORES; n++)
                    GPU_SCORE(n) = n + 8 < SCORES ? GPU_SCORE((n + 8) % SCORES) : x[n % 8];
                if (!gpu_wave_ballot(top > 0.0f)) continue;
                uint32_t from = stage;
                gpu_pin(from); /* or addresses are kept through the loop of tiles */
                const operand p = U::exchange(own);
                GPU_UNROLL for (int tile = 0; tile < S::DIM_TILES; tile++) {
                    o[tile] = U::template mma<S::DTYPE>(v_operand(from, tile, step), p, o[tile]);
                    gpu_fence();
                }
            }
            gpu_add_to(row_sum, sum_rest, sum * light::power(-by));
            GPU_UNROLL for (int tile = 0; tile < S::DIM_TILES; tile++)
                o[tile] *= light::power(-by);
        }
        if (S::RUNS_ON) take_first(stage, S::K_OPERANDS); /* so that none is kept meanwhile */
    }
    template <bool EDGE> __device__ __forceinline__ void scores(int32_t t, uint32_t stage) {
        const int32_t key0 = t * BN + 8 * (lane() / TILE);
        products_qk(stage);
        if (GENERAL) {
            modify(key0);
        } else if (EDGE) {
            if ((t + 1) * BN > wave_whole.hi) hide<false>(key0);
            if (t * BN < wave_whole.lo) hide<true>(key0);
        }
    }
    /* What the next tile brings is stored among the products, and the last ones come after the
       barrier: when every wave has read all of this stage, and the next one can be read. EDGE: not
       every wave is here, and all that is done after the products. */
    template <bool EDGE> __device__ __forceinline__ void products_pv(uint32_t stage) {
        enum { END = S::K_OPERANDS + S::V_OPERANDS, RUNS_OVER = S::RUNS_OVER && !EDGE };
        gpu_f32x2 sum;
        if (!GENERAL && !FROM_MAX && some_far) {
            const float less = gpu_far(base * scale) ? base : 0.0f;
            GPU_UNROLL for (int n = 0; n < SCORES; n++)
                GPU_SCORE(n) -= less;
        }
        if constexpr (S::MASKS & gpu_light<S::DTYPE>::MASK)
            if (!GENERAL || gpu_reload(arguments).o_dtype != ATTN_F16) products_light(stage);
        if (!S::RUNS_ON) take_first(stage, S::K_OPERANDS);
        GPU_UNROLL for (int step = 0; step < S::KEY_STEPS; step++) {
            const operand w = weights(step, sum);
            GPU_UNROLL for (int tile = 0; tile < S::DIM_TILES; tile++) {
                const int v = step * S::DIM_TILES + tile, n = S::K_OPERANDS + v, next = n + S::RING;
                if (RUNS_OVER && v == S::STORE_AT) store<false>(S::STAGE - stage);
                if (RUNS_OVER && next == END) __syncthreads();
                o[tile] = U::template mma<S::DTYPE>(ring[n % S::RING], w, o[tile]);
                if (next < END) take(stage, next);
                else if (RUNS_OVER) take(S::STAGE - stage, next - END);
                step_done();
            }
        }
        gpu_add_to(row_sum, sum_rest, sum.x + sum.y);
        GPU_UNROLL for (int tile = 0; tile < S::DIM_TILES; tile++)
            gpu_pin(o[tile]);
    }
    template <bool EDGE> __device__ __forceinline__ void store(uint32_t stage) {
        if (!S::LATE_V) store_k(stage);
        store_v<EDGE>(stage);
    }
    template <bool EDGE> __device__ __forceinline__ void fetch_k_of(int32_t next) {
        if (!EDGE || (next + 1) * BN <= k_len) fetch_k<false>(next);
        else fetch_k<true>(next);
    }
    template <bool EDGE> __device__ __forceinline__ void fetch_v_of(int32_t next) {
        if (!EDGE || (next + 1) * BN <= k_len) fetch_v<false>(next);
        else fetch_v<true>(next);
    }
    /* Tile t from this stage, tile `next` to the other one. `active`: this wave sees keys
     * of tile t. */
    template <bool EDGE>
    __device__ __forceinline__ void tile(int32_t t, int32_t next, uint32_t stage, bool active) {
        const uint32_t other = S::STAGE - stage;
        fetch_k_of<EDGE>(next);
        if (!S::LATE_V) fetch_v_of<EDGE>(next);
        if (!EDGE || active) scores<EDGE>(t, stage);
        if (S::LATE_V) {
            store_k(other);
            fetch_v_of<EDGE>(next);
        }
        if (!EDGE || active) {
            follow_max();
            products_pv<EDGE>(stage);
        }
        if (S::RUNS_OVER && !EDGE) return;
        store<EDGE>(other);
        __syncthreads();
        if (S::RUNS_OVER) take_first(other, 0);
    }

    /* ---- long sums ---- */

    /* The upper halves of eight sums, as bf16 at the front of the row of o, whatever its type. */
    __device__ __forceinline__ gpu_u32x4 upper_read(const char *row, int32_t d) const {
        return gpu_row_chunk(row, d, v_width, S::ALIGN >= 16);
    }
    __device__ __forceinline__ void upper_write(char *row, int32_t d, gpu_u32x4 x) const {
        if (S::ALIGN >= 16) {
            if (d < v_width) *(gpu_u32x4 *)(row + 2 * d) = x;
        } else GPU_NO_UNROLL
            for (int32_t at = d; at < min(d + 8, v_width); at++) {
                ((uint16_t *)row)[at] = (uint16_t)x[0];
                x[0] = x[0] >> 16 | x[1] << 16;
                x[1] = x[1] >> 16 | x[2] << 16;
                x[2] = x[2] >> 16 | x[3] << 16;
                x[3] >>= 16;
            }
    }
    /* To memory; or, at the end, what is there back into the sums. */
    template <bool BACK> __device__ __forceinline__ void carry() {
        const gpu_params &p = gpu_reload(arguments);
        const gpu_seq seq = gpu_sequence(p, (int32_t)blockIdx.z);
        const bool first = carried == GPU_NEG_INF, mine = my_row() < seq.q_used && m != GPU_NEG_INF,
                   reads = mine && !first;
        const float alpha = reads ? gpu_exp2((carried - m) * scale) : 0.0f;
        const uint32_t mask = mine ? 0xffff0000u : 0u;
        char *row_o = gpu_o_row(p, seq, head, my_row());
        GPU_UNROLL for (int tile = 0; tile < S::DIM_TILES; tile++) {
            GPU_UNROLL for (int c = 0; c < ACC / 8; c++) {
                const int32_t d = tile * TILE + 16 * c + 8 * (lane() / TILE);
                gpu_u32x4 x = {0, 0, 0, 0};
                if (reads) x = upper_read(row_o, d);
                GPU_UNROLL for (int e = 0; e < 8; e++) {
                    const uint32_t there = e % 2 ? x[e / 2] & 0xffff0000u : x[e / 2] << 16;
                    float sum = o[tile][8 * c + e];
                    if (BACK) {
                        sum += __uint_as_float(there) * alpha;
                    } else { /* beyond v_width it is lost, and nobody stores it */
                        const uint32_t upper =
                            __float_as_uint(gpu_carry(__uint_as_float(there), alpha, mask, sum));
                        x[e / 2] = e % 2 ? (x[e / 2] & 0xffffu) | upper
                                         : (x[e / 2] & 0xffff0000u) | upper >> 16;
                    }
                    o[tile][8 * c + e] = sum;
                }
                if (!BACK && mine) upper_write(row_o, d, x);
            }
            gpu_pin(o[tile]); /* one after the other: registers */
        }
        if (mine) carried = m;
    }

    /* ---- the end ---- */

    /* o and lse of the lane's row; returns whether it is alive. */
    __device__ __forceinline__ bool finish() {
        const gpu_params &p = gpu_reload(arguments);
        const gpu_seq seq = gpu_sequence(p, (int32_t)blockIdx.z);
        const int32_t i = my_row();
        const bool dropout = GENERAL && (p.masks & MASK_DROPOUT);
        /* in weights that are 1 at m */
        float sum = row_sum + sum_rest, factor = gpu_p_bias<S::DTYPE>::F;
        sum += U::other_half(sum);
        float top = m == GPU_NEG_INF ? GPU_NEG_INF
                    : GENERAL        ? base
                                     : gpu_p_bias<S::DTYPE>::raised(base, unlift * p.scale);
        const float one =
            GENERAL ? gpu_exp2(-gpu_p_bias<S::DTYPE>::LOG2) : gpu_p_bias<S::DTYPE>::LOWER;
        sum *= one;
        factor *= one;
        if (S::LIFT && lift == GPU_LIFT) factor *= 0x1p-10f;
        if (dropout) {
            const float sum0 = all.sum + all.rest, sum1 = U::other_half(sum0),
                        max1 = U::other_half(all.max), both = fmaxf(all.max, max1);
            const float at = both == GPU_NEG_INF ? 0.0f : both;
            sum = sum0 * gpu_exp2((all.max - at) * GPU_LOG2E) +
                  sum1 * gpu_exp2((max1 - at) * GPU_LOG2E);
            factor *= p.dropout_scale * gpu_exp2((top - at) * GPU_LOG2E);
            top = both;
        }
        /* each visible key's p is 0 only where its score is -infinity */
        const gpu_end e = gpu_finish(p, seq, head, i, lane() < TILE, top, sum);
        if (i >= seq.q_rows) return false;
        factor *= e.factor;
        char *to = gpu_o_row(p, seq, head, i);
        GPU_UNROLL for (int tile = 0; tile < S::DIM_TILES; tile++) GPU_UNROLL
            for (int c = 0; c < ACC / 8; c++) {
                float x[8];
                GPU_UNROLL for (int n = 0; n < 8; n++)
                    x[n] = e.kept() ? o[tile][8 * c + n] * factor : 0.0f;
                gpu_store8<S::ALIGN>(p, to, tile * TILE + 16 * c + 8 * (lane() / TILE), x);
            }
        return e.alive;
    }

    /* Everything about the lane's row and the head's tensors. */
    __device__ __forceinline__ void begin_row() {
        const gpu_params &p = gpu_reload(arguments);
        const gpu_seq seq = gpu_sequence(p, (int32_t)blockIdx.z);
        const int32_t i = my_row(), kv_head = head / p.group;
        k_stride = 2 * p.k.stride[1];
        v_stride = 2 * p.v.stride[1];
        k_data = (const GPU_GLOBAL char *)p.k.data + 2 * (seq.k_base + kv_head * p.k.stride[2]);
        v_data = (const GPU_GLOBAL char *)p.v.data + 2 * (seq.v_base + kv_head * p.v.stride[2]);
        k_len = seq.k_len;
        head_dim = p.head_dim;
        v_width = p.v_dim;
        aligned = S::ALIGN >= 16 || gpu_aligned16(p);
        if (GENERAL) row = gpu_row_of(p, seq, head, i < seq.q_used ? i : seq.q_used - 1);
        gpu_fence();
        load_q(p, seq);
        gpu_fence();
        see = gpu_visible(p, seq, i);
    }
    /* Tiles [t, end) for the workgroup, [whole, whole_end) of them whole for all of its rows. */
    struct tiles {
        int32_t t, end, whole, whole_end;
    };
    __device__ __forceinline__ tiles find_tiles(int32_t row0) {
        const gpu_params &p = gpu_reload(arguments);
        const gpu_seq seq = gpu_sequence(p, (int32_t)blockIdx.z);
        wave_sees = wave_whole = {0, 0};
        if (row0 >= seq.q_used) return tiles{0, 0, 0, 0}; /* without it 6 scalar registers more */
        const gpu_reach all = gpu_reach_of(p, seq, row0, S::BM);
        gpu_fence(); /* one after the other: scalar registers */
        const gpu_reach own = gpu_reach_of(p, seq, wave_row, TILE);
        wave_sees = {own.lo, own.hi};
        wave_whole = {own.whole_lo, own.whole_hi};
        const tiles n = {
            all.lo / BN, (all.hi + BN - 1) / BN, (all.whole_lo + BN - 1) / BN, all.whole_hi / BN};
        return n;
    }
    __device__ __forceinline__ void begin_sums(uint32_t by) {
        lift = by;
        unlift = 1.0f;
        /* without MASK_SCALE in (2^-100, 2^100) */
        scale = GENERAL ? GPU_LOG2E : gpu_reload(arguments).scale_log2;
        unscale = GENERAL ? GPU_LN2 : 1.0f / scale;
        m = carried = GPU_NEG_INF;
        base = shift = row_sum = sum_rest = 0;
        some_far = false;
        all.begin();
        bad = overflow = 0;
        GPU_UNROLL for (int tile = 0; tile < S::DIM_TILES; tile++)
            o[tile] = acc(0.0f);
    }
    /* All tiles, into m, row_sum and o. */
    __device__ __forceinline__ void pass(int32_t row0, uint32_t by) {
        const tiles n = find_tiles(row0);
        int32_t t = n.t;
        begin_sums(by);
        if (t < n.end) {
            begin_row();
            place_threads();
            place_lanes();
            fetch_k<true>(t);
            fetch_v<true>(t);
            store_k(0);
            store_v<true>(0);
            __syncthreads();
            if (S::RUNS_OVER) take_first(0, 0);
        }
        /* middle tiles: whole, and so is the next, unless there is none */
        const int32_t middle_end = n.whole_end == n.end ? n.end : n.whole_end - 1;
        uint32_t stage = 0;
        while (t < n.end) {
            const int32_t left = S::CARRY - t % S::CARRY,
                          stop = n.end - t < left ? n.end : t + left;
            if (left == S::CARRY && t > n.t) carry<false>();
            if constexpr (!GENERAL && S::ALIGN >= 16) {
                const int32_t middle_stop = middle_end < stop ? middle_end : stop;
                for (; t >= n.whole && t < middle_stop; t++, stage = S::STAGE - stage)
                    tile<false>(t, t + 1 < n.end ? t + 1 : t, stage, true);
            }
            if (t < stop) {
                const bool active = t * BN < wave_sees.hi && (t + 1) * BN > wave_sees.lo;
                tile<true>(t, t + 1 < n.end ? t + 1 : t, stage, active);
                t++;
                stage = S::STAGE - stage;
            }
        }
        /* the last tile has read operands that nobody multiplies: before LDS serves others */
        if (S::RUNS_OVER) __syncthreads();
    }
    __device__ __forceinline__ void run() {
        const int32_t wave = gpu_uniform((int32_t)threadIdx.x / U::WAVE);
        /* late rows see most keys under a causal mask: they begin first */
        const int32_t row0 = (int32_t)(gridDim.x - 1 - blockIdx.x) * S::BM;
        if (row0 >= gpu_sequence(gpu_reload(arguments), (int32_t)blockIdx.z).q_rows) return;
        head = (int32_t)blockIdx.y;
        wave_row = row0 + wave * TILE;
        pass(row0, S::LIFT ? GPU_LIFT : GPU_NO_LIFT);
        if constexpr (S::LIFT) { /* not a loop: around all this it takes scalar registers */
            const bool large = gpu_any_wave<S::WAVES>(overflow != 0, (uint32_t *)lds);
            __syncthreads();
            if (large) pass(row0, GPU_NO_LIFT);
        }
        if (gpu_wave_ballot(carried != GPU_NEG_INF)) carry<true>();
        const bool alive = finish();
        gpu_poison<S::DTYPE, S::WAVES, S::BM, 1, 0>(arguments, head, row0, bad != 0,
            (uint32_t *)lds, lane() < TILE, my_row() - row0, alive);
    }
};

template <class S>
__global__ void __launch_bounds__(S::THREADS, S::PER_SIMD) gpu_flash16_forward(gpu_params p) {
    if constexpr (GPU_UNITS & (int)S::UNIT) {
        __shared__ __attribute__((aligned(128))) char lds[S::LDS];
        gpu_flash16<S> f(lds, p);
        f.run();
    }
}

/* Rows of the table: affects speed, never results. Per shape: plain and aligned; plain, for any
   alignment and stride, with the same bits but of a NaN; of f16 the same for an o of another type, up
   to as many dims as there are registers for; and everything, masks too, for any alignment. */
#define GPU_SHAPE_16(UNIT, DTYPE, D, WAVES, BN, MASKS, ALIGN) \
    gpu_shape16<UNIT, DTYPE, D, WAVES, BN, MASKS, ALIGN>
#define GPU_ROW_16(name, UNIT, DTYPE, D, WAVES, BN, MASKS, ALIGN) \
    {name, UNIT, DTYPE, D, D, MASKS, GPU_SHAPE_16(UNIT, DTYPE, D, WAVES, BN, MASKS, ALIGN)::BM, \
        GPU_SHAPE_16(UNIT, DTYPE, D, WAVES, BN, MASKS, ALIGN)::THREADS, 0, ALIGN, \
        (const void *)gpu_flash16_forward<GPU_SHAPE_16(UNIT, DTYPE, D, WAVES, BN, MASKS, ALIGN)>},
#define GPU_ROW_16_WIDE(name, UNIT, DTYPE, D, WAVES, BN) \
    GPU_ROW_16(name, UNIT, DTYPE, D, WAVES, BN, \
        (D > gpu_unit<UNIT>::LIGHT_DIMS ? 0 : gpu_light<DTYPE>::MASK), 2)
#define GPU_ROWS_16_D(name, UNIT, DTYPE, D, WAVES, MASK_WAVES, BN) \
    GPU_ROW_16("flash_" name "_d" #D, UNIT, DTYPE, D, WAVES, BN, 0, 16) \
    GPU_ROW_16("flash_" name "_d" #D "_any", UNIT, DTYPE, D, MASK_WAVES, BN, 0, 2) \
    GPU_ROW_16_WIDE("flash_" name "_d" #D "_wide", UNIT, DTYPE, D, MASK_WAVES, BN) \
    GPU_ROW_16("flash_" name "_d" #D "_masks", UNIT, DTYPE, D, MASK_WAVES, BN, ~0, 2)
/*                                             D  waves  keys a tile */
#define GPU_ROWS_16_MFMA(name, DTYPE, WAVES256) \
    GPU_ROWS_16_D(name, UNIT_MFMA, DTYPE, 32, 4, 4, 64) \
    GPU_ROWS_16_D(name, UNIT_MFMA, DTYPE, 64, 8, 8, 64) \
    GPU_ROWS_16_D(name, UNIT_MFMA, DTYPE, 128, 8, 8, 64) \
    GPU_ROWS_16_D(name, UNIT_MFMA, DTYPE, 256, WAVES256, 4, 32)
#define GPU_ROWS_16_WMMA11(name, DTYPE) \
    GPU_ROWS_16_D(name, UNIT_WMMA11, DTYPE, 32, 8, 8, 64) \
    GPU_ROWS_16_D(name, UNIT_WMMA11, DTYPE, 64, 16, 16, 64) \
    GPU_ROWS_16_D(name, UNIT_WMMA11, DTYPE, 128, 8, 8, 32) \
    GPU_ROWS_16_D(name, UNIT_WMMA11, DTYPE, 256, 8, 8, 32)
#define GPU_ROWS_16_WMMA12(name, DTYPE) \
    GPU_ROWS_16_D(name, UNIT_WMMA12, DTYPE, 32, 8, 8, 64) \
    GPU_ROWS_16_D(name, UNIT_WMMA12, DTYPE, 64, 16, 16, 64) \
    GPU_ROWS_16_D(name, UNIT_WMMA12, DTYPE, 128, 16, 16, 64) \
    GPU_ROWS_16_D(name, UNIT_WMMA12, DTYPE, 256, 8, 8, 32)
/* clang-format off */
#define GPU_ROWS_16 \
    GPU_ROWS_16_MFMA("bf16", ATTN_BF16, 8) GPU_ROWS_16_MFMA("f16", ATTN_F16, 4) \
    GPU_ROWS_16_WMMA11("bf16", ATTN_BF16) GPU_ROWS_16_WMMA11("f16", ATTN_F16) \
    GPU_ROWS_16_WMMA12("bf16", ATTN_BF16) GPU_ROWS_16_WMMA12("f16", ATTN_F16)
/* clang-format on */
#endif
/* ============================================================================ >>gradients ====
   The gradients on a matrix unit. A kernel has columns, TILE of them a wave, and
   passes over rows, BN at a time: dq has queries for columns and keys for rows, dk and dv the other
   way round. left is what rows have, k and v or q and dout; right is what columns have:

     s  = left q or k  . right k or q        x += left^T ds
     dp = left dout or v . right v or dout   y += left^T p         (dv alone)

   left lies in LDS as rows and transposed, right and the sums are in registers, all of them
   transposed as in >>kernel16: weights feed the second products from where the scores were. P and
   ds are rounded to 16 bits there, cut towards zero as P is there. Rows come in order and each sum
   has one owner: the same bits on every run. In f16 the P and the ds of a column go times a power
   of two that follows the largest so far. A lane has COLUMNS columns: one, or with mma.sync two,
   whose products are turned over and whose P and ds are rounded to nearest. Of 256 dims, but with
   MFMA, two waves share their columns (SPLIT): each has half of the dims of right and of the sums,
   and what these make of s and dp is added up through LDS.

   In f32 (F32) left lies in LDS as rows alone, which serve both products, and P and ds stay what they
   are. Whatever type q, k, v and dout have becomes f32 when it is loaded: so the gradients of f16 on a
   unit that takes subnormals for 0, and of a dout of another type, are computed there too. Where no
   matrix unit multiplies f32, multiply-adds stand for one (UNIT_FMA). */
/* f32: rows or keys between two carries of sums: what is allowed is some 64 units */
enum { GPU_CARRY_F32 = 128 };
enum { GRAD_DQ = 1, GRAD_DK = 2, GRAD_DV = 4 };
template <int UNIT_, int DTYPE_, int D_, int KIND_, int WAVES_, int BN_, int MASKS_, int ALIGN_>
struct gpu_grad_shape : gpu_shape<UNIT_, DTYPE_, D_, WAVES_, BN_, MASKS_, ALIGN_> {
    typedef gpu_shape<UNIT_, DTYPE_, D_, WAVES_, BN_, MASKS_, ALIGN_> B;
    /* two waves share their columns: each has half of the dims, of right as of the sums */
    static constexpr int SPLIT = D_ == 256 && UNIT_ != UNIT_MFMA, D_WAVE = D_ / (1 + SPLIT),
                         BM = B::BM / (1 + SPLIT), DIM_TILES = D_WAVE / B::TILE;
    enum {
        F32 = UNIT_ == UNIT_MFMA_F32 || UNIT_ == UNIT_FMA,
        KEYS = !(KIND_ & GRAD_DQ), /* columns are keys */
        X = !!(KIND_ & (GRAD_DQ | GRAD_DK)),
        Y = !!(KIND_ & GRAD_DV),
        ROW_TILES = BN_ / B::TILE,
        STEPS = D_WAVE / (F32 ? 8 : 16), /* products of 16 or 8 k for a tile of scores */
        K_ROW = F32 ? 4 * D_ : B::K_ROW, /* bytes in LDS: of a row, of all, transposed */
        K_BYTES = BN_ * K_ROW,
        V_BYTES = F32 ? 0 : B::V_BYTES,
        DIMS = BN_ / 4 * D_ / B::THREADS, /* that a thread brings, of 4 rows */
        WORDS = DIMS / 2,
        FIRST = K_BYTES + X * V_BYTES,                      /* of q or k */
        SECOND = F32 ? K_BYTES : X * K_BYTES + Y * V_BYTES, /* of dout or v */
        /* steps of the second right operand that lie in LDS: where there are no registers for them */
        PARKED = UNIT_ == UNIT_FMA                 ? X * (D_WAVE == 128 ? STEPS - 1 : 0)
                 : UNIT_ == UNIT_WMMA11            ? X * (D_WAVE == 128     ? 7
                                                             : D_WAVE == 64 ? 3 * Y
                                                                            : 0)
                 : X && D_WAVE == 256              ? 2
                 : X && Y && D_WAVE == 128 && !F32 ? (UNIT_ == UNIT_MFMA ? 3 : 5)
                                                   : 0,
        /* left operands under way while one is multiplied; whether those of the next products are
           before what is made of these, where there are registers */
        RING = UNIT_ == UNIT_MFMA && D_WAVE == (KEYS ? 64 : 128) ? 4
               : UNIT_ == UNIT_WMMA12 && D_WAVE == 128 && KEYS   ? 2
                                                                 : B::U::RING,
        RUNS_ON =
            !F32 && UNIT_ != UNIT_SM80 && !(UNIT_ == UNIT_WMMA11 && X && (D_WAVE == 128 || !KEYS)),
        /* the same of parked operands; the step of the products before which rows are told */
        PARKS_EARLY = RUNS_ON || DTYPE_ != (int)ATTN_F16,
        TOLD_AT = STEPS - (UNIT_ == UNIT_WMMA11 && D_WAVE == 128 ? 1 : 2),
        PARK_STEP = 32 * B::TILE * B::WAVES, /* bytes */
        PARK = FIRST + SECOND,
        /* F32: tiles of the first sums before (carry) that lie in LDS, for want of registers too */
        BEFORE = UNIT_ != UNIT_FMA ? 0
                 : D_ == 128       ? 4
                 : X && Y          ? 3
                                   : 0,
        BEFORE_AT = PARK + PARKED * PARK_STEP,
        BEFORE_TILE = (int)sizeof(typename B::U::acc) * B::THREADS, /* bytes */
        HALVES_AT = BEFORE_AT + BEFORE * BEFORE_TILE, /* of scores, and of what v and dout make */
        LDS = HALVES_AT + SPLIT * (1 + X) * (int)sizeof(typename B::U::acc) * B::THREADS,
        KEEPS = !MASKS_ && (!X || !Y || UNIT_ == UNIT_WMMA12 || D_WAVE < 128 || F32) &&
                !(SPLIT && X && UNIT_ == UNIT_WMMA11),
        CARRY = GPU_CARRY_F32 / BN_, /* F32: tiles between two sums of sums */
        PER_SIMD = D_WAVE > (F32 ? 64 : 128) || (F32 && X && Y)
                       ? 1
                       : 2, /* waves: each has 512 or 256 registers */
        /* a 0 for products to start from, where they do: for gfx11's clang 19 makes one anew for each */
        ZERO = UNIT_ == UNIT_WMMA11 && D_WAVE < 128 && MASKS_,
        RANGED = DTYPE_ == (int)ATTN_F16
    };
    static_assert(B::THREADS >= 2 * BN_, "");
    static_assert(!SPLIT || (ROW_TILES == 1 && !(X && Y) && !F32), "");
    /* What follows from it stays in registers through the loop where there are some. */
    __device__ static __forceinline__ uint32_t thread() {
        return KEEPS ? threadIdx.x : (uint32_t)gpu_thread();
    }
};

/* A tensor whose rows a kernel passes over. */
struct gpu_grad_rows {
    const GPU_GLOBAL char *data; /* of row 0 */
    int64_t stride;              /* bytes */
    int32_t dims, dtype;
};

/* Rows of `left` on their way to LDS, to byte AT: a thread has DIMS dims of 4 rows, 8 groups of dims
   times 2 of rows side by side. */
template <class S, bool ROWS, bool TRANSPOSED, int AT> struct gpu_grad_left {
    uint32_t next[4][S::WORDS];
    uint32_t own; /* offset() in a tile wholly of rows; KEEPS: made once */

    struct place {
        uint32_t row, dim;
    };
    __device__ static __forceinline__ place mine() {
        const uint32_t groups = (uint32_t)S::D / (uint32_t)S::DIMS / 8, t = S::thread();
        const place a = {(t / 16 / groups * 2 + (t >> 3 & 1)) * 4,
            (t / 16 % groups * 8 + t % 8) * (uint32_t)S::DIMS};
        return a;
    }
    /* Bytes from a tile's begin to what the thread brings of its row r. Where rows are aligned
       neither stride nor tile passes 32 bits. */
    __device__ static __forceinline__ uint32_t offset(const gpu_grad_rows &x, uint32_t r) {
        const place my = mine();
        return (my.row + r) * (uint32_t)x.stride + dim_offset(x);
    }
    __device__ static __forceinline__ uint32_t dim_offset(const gpu_grad_rows &x) {
        const uint32_t dim = mine().dim;
        return (int32_t)dim < x.dims ? dim * 2 : 0;
    }
    __device__ __forceinline__ void begin(const gpu_grad_rows &x) { own = offset(x, 0); }
    /* Tile t of `rows` rows. EDGE: there may be some beyond the last, which repeat it. */
    template <bool EDGE>
    __device__ __forceinline__ void fetch(const gpu_grad_rows &x, int32_t t, int32_t rows) {
        const int32_t begin = t * S::BN, last = rows - 1 - begin;
        const char *first = (const char *)x.data + begin * x.stride;
        if constexpr (S::ALIGN >= 16 && !EDGE) {
            if (!S::KEEPS) own = offset(x, 0);
            gpu_pin(own); /* 32 bits beside a scalar base */
            GPU_UNROLL for (int r = 0; r < 4; r++)
                gpu_words_copy<S::WORDS>(next[r], first + r * x.stride + own);
            return;
        }
        if constexpr (S::ALIGN >= 16) {
            const uint32_t most =
                (uint32_t)min(last, (int32_t)S::BN - 1) * (uint32_t)x.stride + dim_offset(x);
            GPU_UNROLL for (uint32_t r = 0; r < 4; r++)
                gpu_words_copy<S::WORDS>(next[r], first + min(offset(x, r), most));
        } else {
            const place my = mine();
            GPU_UNROLL for (int r = 0; r < 4; r++) {
                const uint16_t *from =
                    (const uint16_t *)(first + min((int32_t)my.row + r, last) * x.stride);
                GPU_UNROLL for (int n = 0; n < S::WORDS; n++)
                    next[r][n] = 0;
                GPU_UNROLL for (int e = 0; e < S::DIMS; e++) {
                    const int32_t d = (int32_t)my.dim + e;
                    const uint32_t value = from[d < x.dims ? d : x.dims - 1];
                    next[r][e / 2] |= (d < x.dims ? value : 0) << e % 2 * 16;
                }
            }
        }
    }
    /* FINITE: what is transposed is made finite, and bad says whether anything was not. */
    template <bool FINITE>
    __device__ __forceinline__ void store(char *lds, const gpu_grad_rows &x, uint32_t &bad) {
        static_assert(S::DIMS >= 2 && S::DIMS <= 8, "");
        const place my = mine();
        if (x.dims < (int32_t)S::D) {
            const uint32_t keep = (int32_t)my.dim < x.dims ? ~0u : 0u;
            GPU_UNROLL for (int r = 0; r < 4; r++) GPU_UNROLL
                for (int n = 0; n < S::WORDS; n++) next[r][n] &= keep;
        }
        if constexpr (ROWS) {
            const uint32_t to = gpu_k_at<S>(my.row, my.dim / 8) + my.dim % 8 * 2;
            GPU_UNROLL for (uint32_t r = 0; r < 4; r++) {
                char *at = lds + AT + (to ^ r << 4) + r * S::K_ROW;
                if constexpr (S::WORDS == 1) *(uint32_t *)at = next[r][0];
                else if constexpr (S::WORDS == 2) {
                    const gpu_u32x2 w = {next[r][0], next[r][1]};
                    *(gpu_u32x2 *)at = w;
                } else {
                    const gpu_u32x4 w = {next[r][0], next[r][1], next[r][2], next[r][3]};
                    *(gpu_u32x4 *)at = w;
                }
            }
        }
        if constexpr (TRANSPOSED) {
            const uint32_t to = gpu_v_at<S>(my.dim, my.row) - S::K_BYTES;
            char *base = lds + AT + (ROWS ? S::K_BYTES : 0);
            GPU_UNROLL for (int n = 0; n < S::WORDS; n++) {
                uint32_t w[4];
                GPU_UNROLL for (int r = 0; r < 4; r++)
                    w[r] = FINITE ? gpu_make_finite<S::DTYPE>(next[r][n], bad) : next[r][n];
                GPU_UNROLL for (uint32_t e = 0; e < 2; e++) {
                    const uint32_t d = 2 * n + e, pick = e ? 0x07060302u : 0x05040100u;
                    const gpu_u32x2 four = {
                        gpu_bytes(w[1], w[0], pick), gpu_bytes(w[3], w[2], pick)};
                    *(gpu_u32x2 *)(base + (to ^ gpu_v_swizzle<S>(d)) + S::v_line(d)) = four;
                }
            }
        }
    }
};

#if GPU_ON_CUDA
template <class S, int AT> struct gpu_grad_left_f32 {};
#else
/* Dims d .. d + 3 of a row of any type, 0 beyond `dims`. */
__device__ static __forceinline__ gpu_u32x4 gpu_row_floats(
    const char *row, int32_t d, int32_t dims, int32_t dtype, bool aligned) {
    gpu_u32x4 x = {0, 0, 0, 0};
    if (!aligned) {
        GPU_UNROLL for (int e = 0; e < 4; e++)
            if (d + e < dims) x[e] = __float_as_uint(gpu_get(row, dtype, d + e));
    } else if (d < dims) {
        if (dtype == ATTN_F32) return *(const gpu_u32x4 *)(row + 4 * d);
        const gpu_u32x2 two = *(const gpu_u32x2 *)(row + 2 * d);
        GPU_UNROLL for (int e = 0; e < 4; e++) {
            const uint32_t half = two[e / 2] >> e % 2 * 16 & 0xffffu;
            x[e] = dtype == ATTN_BF16 ? half << 16 : __float_as_uint(gpu_f16_value((uint16_t)half));
        }
    }
    return x;
}
/* The same of F32, as rows alone: a thread has 4 dims of every STEP-th row. */
template <class S, int AT> struct gpu_grad_left_f32 {
    enum { PIECES = S::D / 4, LOADS = S::BN * PIECES / S::THREADS, STEP = S::THREADS / PIECES };
    gpu_u32x4 next[LOADS];

    __device__ __forceinline__ void begin(const gpu_grad_rows &) {}
    template <bool EDGE>
    __device__ __forceinline__ void fetch(const gpu_grad_rows &x, int32_t t, int32_t rows) {
        const int32_t my = (int32_t)S::thread(), d = my % PIECES * 4,
                      first = t * S::BN + my / PIECES;
        GPU_UNROLL for (int n = 0; n < LOADS; n++)
            next[n] =
                gpu_row_floats((const char *)x.data + min(first + n * STEP, rows - 1) * x.stride, d,
                    x.dims, x.dtype, S::ALIGN >= 16);
    }
    template <bool FINITE>
    __device__ __forceinline__ void store(char *lds, const gpu_grad_rows &, uint32_t &bad) {
        const uint32_t my = S::thread();
        GPU_UNROLL for (int n = 0; n < LOADS; n++) {
            if (FINITE) GPU_UNROLL
                for (int e = 0; e < 4; e++) bad |= !gpu_is_finite(__uint_as_float(next[n][e]));
            *(gpu_u32x4 *)(lds + AT + gpu_k_at<S>(my / PIECES + n * STEP, my % PIECES)) = next[n];
        }
    }
};
#endif
template <bool F32, class A, class B> struct gpu_either {
    typedef B type;
};
template <class A, class B> struct gpu_either<true, A, B> {
    typedef A type;
};

template <class S> struct gpu_grad_matrix {
    typedef typename S::U U;
    typedef typename U::operand operand;
    typedef typename U::weights weights; /* of 16 rows, as the second products take them */
    typedef typename U::acc acc;
    enum {
        D = S::D,
        BN = S::BN,
        TILE = S::TILE,
        ACC = sizeof(acc) / 4,
        EIGHTS = S::DIM_TILES * ACC / 8, /* of a lane's sums */
        GENERAL = S::MASKS != 0,
        DP_FIRST = GENERAL || S::SPLIT, /* before what is made of s */
        COLUMNS = U::COLUMNS,           /* of a lane */
        TOLD = S::KEYS && !GENERAL,
        /* s and dp are added up from -lse and -D on */
        FROM_TOLD = U::SCORES_START_AT_MAX && !DP_FIRST,
        /* dq of f16: P has what ds goes times in its exponent */
        RAISED = S::RANGED && FROM_TOLD && !S::KEYS,
        TWICE = U::SCORES_START_AT_MAX && (D < 128 || !S::X || !S::Y),
        FIRST_T = S::F32 ? 0 : S::K_BYTES, /* where the transposed ones begin */
        SECOND_T = S::FIRST + (S::F32 ? 0 : S::X * S::K_BYTES),
        /* Left operands of a tile of rows, numbered as they are multiplied: for s, dp, y and x; with
           DP_FIRST s and dp come first. */
        OF_SUMS = S::DIM_TILES * ACC / 8,
        AT_DP = S::STEPS + (DP_FIRST ? 0 : S::Y * OF_SUMS),
        AT_Y = S::STEPS + (DP_FIRST ? S::X * S::STEPS : 0),
        AT_X = S::STEPS * (1 + S::X) + S::Y * OF_SUMS,
        OPERANDS = AT_X + S::X * OF_SUMS
    };

    char *lds;
    float *told; /* TOLD: in LDS, of BN rows lse, then D; FROM_TOLD: -lse / scale and -D */
    const gpu_grad_params &arguments;
    int32_t head, wave_column;
    int32_t rows;           /* that there are */
    gpu_range see[COLUMNS]; /* rows of the lane's columns */
    gpu_range wave_sees;    /* that some column of the wave sees */
    operand first[S::STEPS], second[S::X ? S::STEPS - S::PARKED : 1]; /* right */
    acc x[S::X ? S::DIM_TILES : 1], y[S::Y ? S::DIM_TILES : 1], zero;
    /* FROM_TOLD: what the next products start from; or without KEYS those of s and of dp always */
    acc start, start_dp;
    /* F32: the sums of what came before the CARRY tiles that are in x and y; of x, or else of y, the
       last BEFORE tiles lie in LDS */
    acc x_before[S::F32 && S::X ? S::DIM_TILES - S::BEFORE : 1],
        y_before[S::F32 && S::Y ? S::DIM_TILES - (S::X ? 0 : S::BEFORE) : 1];
    /* RANGED: what ds and P go times. TWICE: WMMA's chips multiply two registers by two others. */
    typedef typename gpu_either<TWICE, gpu_f32x2, float>::type factor;
    factor x_by[COLUMNS], y_by[COLUMNS];
    float limit[COLUMNS];               /* a -log2 P below it is to be looked at: probabilities() */
    float lse[COLUMNS], delta[COLUMNS]; /* of the lane's columns, queries; lse as log2_of has it */
    float score_scale, score_unscale;   /* to log 2, and back */
    uint32_t rows_at, turned_at;    /* where the lane reads in what lies as rows and transposed */
    operand ring[S::RING];          /* left operands on their way */
    operand from_lds[2];            /* right ones that lie there */
    uint64_t bad_first, bad_second; /* not 0: a lane of the wave made some finite */

    int32_t next_head;
    gpu_grad_rows from_first, from_second;
    typename gpu_either<S::F32, gpu_grad_left_f32<S, 0>, gpu_grad_left<S, true, S::X != 0, 0>>::type
        left_first;
    typename gpu_either<S::F32, gpu_grad_left_f32<S, S::FIRST>,
        gpu_grad_left<S, S::X != 0, S::Y != 0, S::FIRST>>::type left_second;
    const GPU_GLOBAL float *told_lse, *told_delta; /* of row 0 of next_head */
    float told_next;
    bool tells_delta; /* which of them the thread brings */

    __device__ __forceinline__ gpu_grad_matrix(
        char *shared, float *rows_told, const gpu_grad_params &g)
        : lds(shared), told(rows_told), arguments(g) {}
    __device__ __forceinline__ static int32_t lane() { return (int32_t)(S::thread() % U::WAVE); }
    __device__ __forceinline__ int32_t my_column(int y) const {
        return wave_column + U::column(lane(), y);
    }
    /* The first dim of the wave's. */
    __device__ __forceinline__ static int32_t dim0() {
        return S::SPLIT ? (int32_t)(S::thread() / U::WAVE % 2) * S::D_WAVE : 0;
    }
    __device__ __forceinline__ gpu_seq sequence() const {
        return gpu_sequence(gpu_reload(arguments).call, (int32_t)blockIdx.z);
    }

    /* ---- what a column sees ---- */

    /* Columns in use: queries, or those of the tokens of k and v that are keys. */
    __device__ static __forceinline__ gpu_range columns(const gpu_seq &s) {
        gpu_range c = {0, s.q_used};
        if (S::KEYS) {
            c.lo = (int32_t)s.column;
            c.hi = c.lo + s.k_len;
        }
        return c;
    }
    /* Rows that column c sees. */
    __device__ static __forceinline__ gpu_range rows_seen(
        const gpu_params &p, const gpu_seq &s, int32_t c) {
        const gpu_range none = {0, 0}, used = columns(s);
        if (c < used.lo || c >= used.hi) return none;
        return S::KEYS ? gpu_rows_of(p, s, c - used.lo) : gpu_visible(p, s, c);
    }
    /* Rows that some, and that all of n columns from c0 on see, of those in use: neither end falls
       from one to the next. */
    struct reach {
        gpu_range some, all;
    };
    __device__ static __forceinline__ reach reach_of(
        const gpu_params &p, const gpu_seq &s, int32_t c0, int32_t n) {
        const gpu_range used = columns(s);
        const int32_t low = max(c0, used.lo), high = min(c0 + n, used.hi) - 1;
        reach e = {{0, 0}, {0, 0}};
        if (low > high) return e;
        const gpu_range a = rows_seen(p, s, low), b = rows_seen(p, s, high);
        e.some = {a.lo, b.hi};
        e.all = {b.lo, a.hi};
        return e;
    }

    /* ---- from memory ---- */

    /* Steps n < STEPS - KEPT go to LDS, where a lane finds its own 8 k of a step and what the other
       half has of them: nobody else's, so there is no barrier. */
    template <int KEPT>
    __device__ __forceinline__ void load_operands(
        operand (&to)[KEPT], int y, const char *from, int32_t dims, int32_t dtype) const {
        if constexpr (S::F32) {
            GPU_UNROLL for (int n = 0; n < S::STEPS; n++) {
                const int own = n - (S::STEPS - KEPT), half = U::chunk(lane());
                const gpu_u32x4 x =
                    gpu_row_floats(from, 8 * n + 4 * half, dims, dtype, S::ALIGN >= 16);
                if (own < 0) *(gpu_u32x4 *)(parked(n) + half * (16 * TILE)) = x;
                else to[own] = x;
            }
        } else if constexpr (COLUMNS > 1) {
            GPU_UNROLL for (int n = 0; n < S::STEPS; n++) GPU_UNROLL
                for (int half = 0; half < 2; half++)
                    to[n][2 * half + y] = gpu_row_pair(from,
                        dim0() + 16 * n + 8 * half + U::first_row(lane()), dims, S::ALIGN >= 16);
        } else GPU_UNROLL
            for (int n = 0; n < S::STEPS; n++) {
                gpu_u32x4 c[2];
                const int own = n - (S::STEPS - KEPT), d = dim0() + 16 * n + 8 * (lane() / TILE);
                if (S::ALIGN < 16) gpu_fence(); /* one after the other: registers */
                if (own < 0) {
                    *(gpu_u32x4 *)(parked(n) + lane() / TILE * (16 * TILE)) =
                        gpu_row_chunk(from, d, dims, S::ALIGN >= 16);
                    continue;
                }
                GPU_UNROLL for (int e = 0; e < (int)sizeof(operand) / 16; e++)
                    c[e] = gpu_row_chunk(
                        from, dim0() + 16 * n + 8 * (U::chunk(lane()) + e), dims, S::ALIGN >= 16);
                to[own < 0 ? 0 : own] = U::whole(c[0], c[1]);
            }
    }
    __device__ __forceinline__ char *parked(int n) const {
        return lds + S::PARK + n * S::PARK_STEP + S::thread() / U::WAVE * (32 * TILE) +
               lane() % TILE * 16;
    }
    /* lse in base 2, log2 of F below it, which raises P by F (gpu_p_bias). A row that saw nothing
       has a P of 0. */
    __device__ __forceinline__ static constexpr float log2_of_f() {
        return U::CUTS ? gpu_p_bias<S::DTYPE>::LOG2_F : 0.0f;
    }
    __device__ __forceinline__ static float log2_of(float x) {
        return __float_as_uint(x) == 0xff800000u ? -x : fmaf(x, GPU_LOG2E, -log2_of_f());
    }
    /* RAISED: the largest bits of f16 in the column's row of dout, whose steps are in registers where
       none is parked. */
    __device__ __forceinline__ uint32_t largest_of(const char *from, int32_t dims) const {
        uint32_t two = 0;
        if constexpr (S::PARKED == 0) {
            for (const operand &step : second) GPU_UNROLL
                for (int e = 0; e < (int)sizeof(operand) / 4; e++)
                    two = gpu_max2(two, step[e] & 0x7fff7fffu);
        } else GPU_UNROLL
            for (int d = 0; d < D; d += 8) {
                const gpu_u32x4 eight = gpu_row_chunk(from, d, dims, S::ALIGN >= 16);
                GPU_UNROLL for (int e = 0; e < 4; e++)
                    two = gpu_max2(two, eight[e] & 0x7fff7fffu);
            }
        return (uint32_t)U::column_max((float)max(two & 0xffffu, two >> 16));
    }
    /* RAISED: the power of two to begin with, as large as 2^100, but so that no P of 1 with it, times
       dp - D, is beyond f32. largest: of dout, its bits in f16; |dp| is below 2^23 times that. */
    __device__ __forceinline__ static float raise_below(uint32_t largest, float d) {
        const int32_t of_dp = 23 - 14 + (int32_t)(largest >> 10),
                      of_d = (int32_t)(__float_as_uint(fabsf(d)) >> 23) - 126;
        const int32_t power = min(100, 126 - max(of_dp, of_d));
        return __uint_as_float((uint32_t)(127 + power) << 23);
    }
    /* FROM_TOLD, of the lane's column, a query */
    __device__ __forceinline__ void start_at_lse() {
        const float raise = RAISED ? power_of(x_by[0]) : 0.0f;
        limit[0] = least() - raise;
        start = acc((raise - lse[0]) * score_unscale);
        gpu_pin(start);
    }
    __device__ __forceinline__ void load_right() {
        const gpu_grad_params &g = gpu_reload(arguments);
        const gpu_params &p = g.call;
        const gpu_seq s = sequence();
        const gpu_range used = columns(s);
        GPU_UNROLL for (int y = 0; y < COLUMNS; y++) {
            const int32_t c = max(min(my_column(y), used.hi - 1), used.lo),
                          kv_head = head / p.group;
            const int64_t j = c - used.lo;
            const int32_t size = bytes_of(g.dtype);
            if (S::KEYS) {
                const char *k = p.k.data, *v = p.v.data;
                k += size * (s.k_base + j * p.k.stride[1] + kv_head * p.k.stride[2]);
                v += size * (s.v_base + j * p.v.stride[1] + kv_head * p.v.stride[2]);
                load_operands(first, y, k, p.head_dim, g.dtype);
                if constexpr (S::X) load_operands(second, y, v, p.v_dim, g.dtype);
            } else {
                const int64_t l = gpu_lse_at(s, head, c);
                load_operands(first, y, p.q.data + size * gpu_row_at(p, s, p.q, head, c),
                    p.head_dim, g.dtype);
                if constexpr (S::X)
                    load_operands(second, y,
                        g.dout.data + bytes_of(g.dout_dtype) * gpu_row_at(p, s, g.dout, head, c),
                        p.v_dim, g.dout_dtype);
                lse[y] = log2_of(p.lse[l]);
                delta[y] = g.delta[l];
                if (!FROM_TOLD) continue;
                if constexpr (RAISED) {
                    const char *from = g.dout.data + 2 * gpu_row_at(p, s, g.dout, head, c);
                    x_by[y] = factor_of(raise_below(largest_of(from, p.v_dim), delta[y]));
                }
                start_dp = acc(-delta[y]);
                gpu_pin(start_dp);
                start_at_lse();
            }
        }
    }
    __device__ __forceinline__ static int32_t bytes_of(int32_t dtype) {
        return S::F32 && dtype == ATTN_F32 ? 4 : 2;
    }
    /* What is fetched from now on is of head h. */
    __device__ __forceinline__ void of_head(int32_t h) {
        const gpu_grad_params &g = gpu_reload(arguments);
        const gpu_params &p = g.call;
        const gpu_seq s = sequence();
        const int32_t kv_head = h / p.group;
        const int32_t dtype = S::KEYS ? g.dout_dtype : g.dtype, size_a = bytes_of(g.dtype),
                      size_b = bytes_of(dtype);
        const char *a, *b;
        next_head = h;
        if (S::KEYS) {
            a = p.q.data + size_a * gpu_row_at(p, s, p.q, h, 0);
            b = g.dout.data + size_b * gpu_row_at(p, s, g.dout, h, 0);
            told_lse = (const GPU_GLOBAL float *)p.lse + gpu_lse_at(s, h, 0);
            told_delta = (const GPU_GLOBAL float *)g.delta + gpu_lse_at(s, h, 0);
        } else {
            a = p.k.data + size_a * (s.k_base + kv_head * p.k.stride[2]);
            b = p.v.data + size_b * (s.v_base + kv_head * p.v.stride[2]);
        }
        from_first = {(const GPU_GLOBAL char *)a, size_a * (S::KEYS ? p.q : p.k).stride[1],
            p.head_dim, g.dtype};
        from_second = {(const GPU_GLOBAL char *)b, size_b * (S::KEYS ? g.dout : p.v).stride[1],
            p.v_dim, dtype};
    }
    /* TOLD: a thread brings the lse or the D of a row, all of them by the same load. */
    template <bool EDGE> __device__ __forceinline__ void fetch(int32_t t) {
        left_first.template fetch<EDGE>(from_first, t, rows);
        left_second.template fetch<EDGE>(from_second, t, rows);
        fetch_told<EDGE>(t);
    }
    template <bool EDGE> __device__ __forceinline__ void fetch_told(int32_t t) {
        if (!TOLD) return;
        const int32_t i = (int32_t)S::thread() % BN, begin = t * BN;
        const GPU_GLOBAL float *from = (tells_delta ? told_delta : told_lse) + begin;
        told_next = from[EDGE ? min(i, rows - 1 - begin) : i];
    }
    template <bool EDGE> __device__ __forceinline__ void store() {
        uint32_t first_met = 0, second_met = 0;
        left_first.template store<EDGE>(lds, from_first, first_met);
        left_second.template store<EDGE>(lds, from_second, second_met);
        if (EDGE && S::X) bad_first |= gpu_wave_ballot(first_met != 0);
        if (EDGE && S::Y) bad_second |= gpu_wave_ballot(second_met != 0);
        if (!TOLD) return;
        const float log2 = log2_of(told_next);
        told[S::thread()] = tells_delta ? (FROM_TOLD ? -told_next : told_next)
                                        : (FROM_TOLD ? -log2 * score_unscale : log2);
    }
    /* What the thread brought: -lse or D. */
    __device__ __forceinline__ float told_value() const {
        return tells_delta ? told_next : -log2_of(told_next);
    }

    /* ---- a tile ---- */

    __device__ __forceinline__ static operand operand_at(const char *from, uint32_t at) {
        if constexpr (COLUMNS > 1) return U::left(from, at);
        else
            return U::whole(
                *(const gpu_u32x4 *)(from + at), *(const gpu_u32x4 *)(from + (at ^ 16)));
    }
    __device__ __forceinline__ static void step_done() {
        if (U::STEPWISE) gpu_fence();
    }
    /* What is made of it is not kept either. */
    __device__ __forceinline__ static uint32_t again(uint32_t at) {
        if (!S::KEEPS) gpu_pin(at);
        return at;
    }
    __device__ __forceinline__ void place_lanes() {
        const uint32_t row = (uint32_t)U::left_row(lane()), chunk = (uint32_t)U::left_chunk(lane());
        rows_at = gpu_k_at<S>(row, dim0() / 8 + chunk);
        turned_at = S::F32 ? gpu_k_at<S>(8 * chunk, row / 4) + row % 4 * 4 /* dim `row` of a row */
                           : gpu_v_at<S>(dim0() + row, chunk * 8) - S::K_BYTES;
    }
    /* Step n of rows TILE tile .. of what lies as rows from byte `from` on. */
    __device__ __forceinline__ operand in_rows(uint32_t from, uint32_t tile, uint32_t n) const {
        return operand_at(
            lds + from + tile * TILE * S::K_ROW + (n >> 2) * 128, again(rows_at) ^ (n & 3) << 5);
    }
    /* Operand n of OF_SUMS of the same rows of what lies transposed. */
    __device__ __forceinline__ operand in_turned(uint32_t from, uint32_t tile, uint32_t n) const {
        const uint32_t step = tile * (TILE / 16) + n / S::DIM_TILES, dims = n % S::DIM_TILES * TILE;
        return operand_at(
            lds + from + S::v_line(dims), again(turned_at) ^ (step << 5 ^ gpu_v_swizzle<S>(dims)));
    }
    /* Operand n of a tile of rows, or of the next one, into its place in the ring. */
    __device__ __forceinline__ void take(int tile, int n) {
        if (n >= OPERANDS) {
            n -= OPERANDS;
            tile++;
        }
        if (tile >= S::ROW_TILES) return;
        operand &a = ring[(tile * OPERANDS + n) % S::RING];
        if (n < S::STEPS) a = in_rows(0, tile, n);
        else if (S::X && n >= AT_DP && n < (int)AT_DP + S::STEPS)
            a = in_rows(S::FIRST, tile, n - AT_DP);
        else if constexpr (!S::F32) {
            if (S::Y && n >= AT_Y && n < AT_Y + OF_SUMS) a = in_turned(SECOND_T, tile, n - AT_Y);
            else a = in_turned(FIRST_T, tile, n - AT_X);
        }
    }
    __device__ __forceinline__ void take_first(int tile, int n) {
        GPU_UNROLL for (int i = 0; i < S::RING; i++)
            take(tile, n + i);
        step_done();
    }
    /* Rows TILE tile .., operands n0 .., times right, of which the first steps lie in LDS. F32: what
       follows is not read this way. */
    template <int KEPT>
    __device__ __forceinline__ acc product(
        int tile, int n0, operand (&right)[KEPT], acc &of_rows, int32_t place) {
        enum { PARKED = S::STEPS - KEPT };
        acc sum = !FROM_TOLD ? (S::ZERO ? zero : acc(0.0f)) : S::KEYS || n0 == 0 ? start : start_dp;
        if (!S::RUNS_ON) {
            if (n0 == AT_DP && !S::PARKS_EARLY) GPU_UNROLL
                for (int n = 0; n < 2; n++) take_parked(n);
            take_first(tile, n0);
        }
        GPU_UNROLL for (int step = 0; step < S::STEPS; step++) {
            const int n = n0 + step;
            if constexpr (U::ANEW)
                if (step >= PARKED) gpu_pin(right[step < PARKED ? 0 : step - PARKED]);
            if (step == S::TOLD_AT) {
                if (!FROM_TOLD) read_told(of_rows, place);
                else if (S::X && !S::Y && n0 == 0) read_told(start, BN + place);
            }
            sum = U::template mma<S::DTYPE>(ring[(tile * OPERANDS + n) % S::RING],
                step < PARKED ? from_lds[step % 2] : right[step < PARKED ? 0 : step - PARKED], sum);
            if (S::RUNS_ON || step + S::RING < S::STEPS) take(tile, n + S::RING);
            if (S::PARKS_EARLY || n0 == AT_DP) take_parked(n + 2 - AT_DP);
            step_done();
        }
        return sum;
    }
    /* Step n of the second right operand, where it lies in LDS. */
    __device__ __forceinline__ void take_parked(int n) {
        if (n < 0 || n >= S::PARKED) return;
        if constexpr (COLUMNS == 1) {
            const char *from = parked(n) + (uint32_t)U::chunk(lane()) * (16 * TILE);
            from_lds[n % 2] =
                U::whole(*(const gpu_u32x4 *)from, *(const gpu_u32x4 *)(from + 16 * TILE));
        }
    }
    /* sums += operands n0 .. of a tile of rows, DIM_TILES for 16 rows, times w. F32: as rows, from
       byte `from` on; where some are hidden they are made finite here. */
    template <bool EDGE>
    __device__ __forceinline__ void add(acc (&sums)[S::DIM_TILES], uint32_t from, int tile, int n0,
        const weights (&w)[ACC / 8], int32_t then) {
        if constexpr (S::F32) {
            const uint32_t read = again(turned_at);
            const char *base = lds + from + tile * TILE * S::K_ROW;
            enum { ALL = ACC * S::DIM_TILES, AHEAD = U::ANEW && GENERAL ? 2 : 4 };
            float a[AHEAD];
            GPU_UNROLL for (int n = -AHEAD; n < ALL; n++) {
                const uint32_t next = n + AHEAD, row = next / S::DIM_TILES;
                if (n >= 0) {
                    acc &sum = sums[n % S::DIM_TILES];
                    const float x = a[n % AHEAD];
                    sum = U::multiply_add(EDGE ? U::finite(x) : x,
                        w[n / S::DIM_TILES / 8][n / S::DIM_TILES % 8], sum);
                }
                const uint32_t dims = next % S::DIM_TILES * (4 * TILE); /* bytes */
                if (next < ALL)
                    a[next % AHEAD] =
                        *(const float *)(base + (16 * (row / 8) + row % 8) * S::K_ROW +
                                         dims / 128 * 128 + (read ^ (row % 8) << 4 ^ dims % 128));
                step_done();
            }
        } else {
            if (!S::RUNS_ON) take_first(tile, n0);
            GPU_UNROLL for (int n = 0; n < OF_SUMS; n++) {
                acc &sum = sums[n % S::DIM_TILES];
                if (FROM_TOLD && n + 2 == OF_SUMS && then >= 0) read_told(start, then);
                sum = U::template mma<S::DTYPE>(
                    ring[(tile * OPERANDS + n0 + n) % S::RING], w[n / S::DIM_TILES], sum);
                if (S::RUNS_ON || n + S::RING < OF_SUMS) take(tile, n0 + n + S::RING);
                if (S::PARKS_EARLY) take_parked(n0 + n + 2 - AT_DP);
                step_done();
                if ((n + 1) % S::DIM_TILES == 0) GPU_UNROLL
                    for (int i = 0; i < S::DIM_TILES; i++) gpu_pin(sums[i]);
            }
        }
    }
    /* The lane's row n of ACC of a tile of rows, from its first on, and its column. */
    __device__ __forceinline__ static constexpr int row_of(int n) { return U::row_of(n); }
    __device__ __forceinline__ static constexpr int column_of(int n) { return U::column_of(n); }

    /* What the lane's rows have in told, from `place` on. */
    __device__ __forceinline__ void read_told(acc &to, int32_t place) const {
        if (TOLD) GPU_UNROLL
            for (int n = 0; n < ACC; n++) to[n] = told[place + row_of(n)];
    }
    /* Of two rows, or of the lane's column: MFMA's chips multiply and add two at a time. */
    __device__ __forceinline__ static gpu_f32x2 told_of(const acc &of_rows, float own, int n) {
        const gpu_f32x2 both = {S::KEYS ? of_rows[n] : own, S::KEYS ? of_rows[n + 1] : own};
        return both;
    }
    /* What P is rounded to forgives that it is a little above 1. */
    __device__ __forceinline__ static constexpr float least() { return S::F32 ? 0.0f : -0x1p-12f; }
    /* Scores to P, which is at most 1 but for rounding, whatever lse is; RAISED: times x_by. row0: the
       lane's first row of the tile; of_rows: their lse, without FROM_TOLD. */
    template <bool EDGE>
    __device__ __forceinline__ void probabilities(acc &s, int32_t row0, const acc &of_rows) {
        const float scale = -score_scale;
        float low[COLUMNS];
        bool any = false;
        GPU_UNROLL for (int n = 0; n < COLUMNS; n++)
            low[n] = -GPU_NEG_INF;
        GPU_UNROLL for (int n = 0; n < ACC; n += 2) {
            const gpu_seen seen(see[column_of(n)], row0);
            const gpu_f32x2 x = {s[n], s[n + 1]},
                            y = FROM_TOLD ? x * scale
                                          : x * scale + told_of(of_rows, lse[column_of(n)], n);
            GPU_UNROLL for (int e = 0; e < 2; e++)
                s[n + e] = EDGE && !seen.has(row_of(n + e)) ? -GPU_NEG_INF : y[e];
            float &of = low[column_of(n)];
            of = fminf(fminf(of, s[n]), s[n + 1]);
        }
        GPU_UNROLL for (int n = 0; n < COLUMNS; n++)
            any |= low[n] < limit[n];
        /* asked of all at once: of each it takes two operations more */
        if (gpu_wave_ballot(any)) {
            const float one = RAISED ? limit[0] - least() : 0.0f; /* of a P of 1 */
            GPU_UNROLL for (int n = 0; n < ACC; n++) {
                const float x = s[n];
                const bool above =
                    RAISED ? x < limit[0] && !gpu_is_nan(x) : gpu_is_below(x, least());
                s[n] = above ? one : x;
            }
            if constexpr (S::RANGED && S::Y) {
                float top[COLUMNS];
                GPU_UNROLL for (int n = 0; n < COLUMNS; n++) {
                    /* as if it were at most 2^-4: 2^15 is not too large for a P of 1 either */
                    const float most = gpu_exp2(-fmaxf(low[n], 4.0f));
                    top[n] = low[n] < least_of_range(y_by[n]) ? most : 0.0f;
                }
                fall(top, y, y_by);
                GPU_UNROLL for (int n = 0; n < COLUMNS; n++)
                    limit[n] = fmaxf(least_of_range(y_by[n]), least());
            }
        }
        GPU_UNROLL for (int n = 0; n < ACC; n++)
            s[n] = gpu_exp2(-s[n]);
    }
    /* dp to ds; dp of what is hidden may be anything. of_rows: their D, without FROM_TOLD. */
    template <bool EDGE>
    __device__ __forceinline__ void gradients(
        const acc &p, acc &dp, int32_t row0, const acc &of_rows) const {
        GPU_UNROLL for (int n = 0; n < ACC; n += 2) {
            const gpu_seen seen(see[column_of(n)], row0);
            const gpu_f32x2 x = {dp[n], dp[n + 1]}, w = {p[n], p[n + 1]},
                            ds = FROM_TOLD ? w * x
                                           : w * (x - told_of(of_rows, delta[column_of(n)], n));
            GPU_UNROLL for (int e = 0; e < 2; e++)
                dp[n + e] = EDGE && !seen.has(row_of(n + e)) ? 0.0f : ds[e];
        }
    }
    /* The same with softcap, bias, ALiBi, masks and dropout. Few at a time in the first registers,
       which then go round: the code is there once. */
    __device__ __forceinline__ void weights_of_masks(acc &s, acc &dp, int32_t row0) const {
        enum { FEW = 2 };
        const float f = U::CUTS ? gpu_p_bias<S::DTYPE>::F : 1.0f;
        GPU_NO_UNROLL for (int n0 = 0; n0 < ACC; n0 += FEW) {
            const int32_t c = my_column(column_of(n0));
            const gpu_range sees = column_of(n0) ? see[COLUMNS - 1] : see[0];
            float w[FEW], ds[FEW];
            GPU_UNROLL for (int e = 0; e < FEW; e++) {
                const gpu_grad_params &g = gpu_reload(arguments);
                const gpu_seq own = sequence();
                const int32_t row = row0 + row_of(n0) + e, i = S::KEYS ? row : c,
                              j = S::KEYS ? c - (int32_t)own.column : row;
                gpu_pair pair = {0, 0, 0};
                if (row >= sees.lo && row < sees.hi) {
                    const gpu_row r = gpu_row_of(g.call, own, head, i);
                    if (!gpu_hidden(g.call, r, j))
                        pair = gpu_pair_from(
                            g, own, r, head, i, j, g.call.scale * s[e], S::X ? dp[e] : 0.0f);
                }
                w[e] = pair.weight * f;
                ds[e] = pair.dx * f;
            }
            GPU_UNROLL for (int n = 0; n < ACC; n++) {
                s[n] = n + FEW < ACC ? s[(n + FEW) % ACC] : w[n % FEW];
                if constexpr (S::X) dp[n] = n + FEW < ACC ? dp[(n + FEW) % ACC] : ds[n % FEW];
            }
        }
    }
    static constexpr float MOST = 65504.0f, LOG2_MOST = 15.99f; /* of f16; and less than its log2 */
    __device__ __forceinline__ static factor factor_of(float x) {
        if constexpr (TWICE) {
            gpu_f32x2 two = {x, x};
            gpu_pin(two); /* not the same register twice */
            return two;
        } else return x;
    }
    /* 1 / x of a power of two that is a factor. */
    __device__ __forceinline__ static float one_over(float x) {
        return __uint_as_float((254u << 23) - __float_as_uint(x));
    }
    __device__ __forceinline__ static float one_of(float by) { return by; }
    __device__ __forceinline__ static float one_of(gpu_f32x2 by) { return by[0]; }
    __device__ __forceinline__ static float power_of(factor by) {
        return (float)((int32_t)(__float_as_uint(one_of(by)) >> 23) - 127);
    }
    /* -log2 of the P that is f16's largest once it went times `by`. */
    __device__ __forceinline__ static float least_of_range(factor by) {
        return power_of(by) - LOG2_MOST;
    }
    /* top: the largest weight of the lane's rows if, times `by`, it is above f16's largest, else 0.
       Then `by` falls until the column's largest is in [2^11, 2^12): others may be 2^25 times as
       small before a bit is lost, or 16 times as large before it falls again. */
    __device__ __forceinline__ static float fallen(float top, factor &by) {
        top = U::column_max(top);
        const float next = __uint_as_float((254u + 11u - (__float_as_uint(top) >> 23)) << 23),
                    alpha = top > 0.0f ? next * one_over(one_of(by)) : 1.0f;
        if (top > 0.0f) by = factor_of(next);
        return alpha;
    }
    __device__ __forceinline__ static void fall(
        float (&top)[COLUMNS], acc (&sums)[S::DIM_TILES], factor (&by)[COLUMNS]) {
        float alpha[COLUMNS];
        GPU_UNROLL for (int y = 0; y < COLUMNS; y++)
            alpha[y] = fallen(top[y], by[y]);
        GPU_UNROLL for (int tile = 0; tile < S::DIM_TILES; tile++) {
            if constexpr (COLUMNS == 1) sums[tile] *= alpha[0];
            else GPU_UNROLL
                for (int n = 0; n < ACC; n++) sums[tile][n] *= alpha[column_of(n)];
        }
    }
    /* The same of weights at hand, which with RAISED went times `by` already. */
    __device__ __forceinline__ void follow(
        acc &w, acc (&sums)[S::DIM_TILES], factor (&by)[COLUMNS]) {
        float top[COLUMNS];
        bool any = false;
        GPU_UNROLL for (int y = 0; y < COLUMNS; y++)
            top[y] = 0.0f;
        GPU_UNROLL for (int n = 0; n < ACC; n++)
            top[column_of(n)] = fmaxf(top[column_of(n)], fabsf(w[n]));
        GPU_UNROLL for (int n = 0; n < COLUMNS; n++)
            any |= top[n] * (RAISED ? 1.0f : one_of(by[n])) > MOST;
        if (!gpu_wave_ballot(any)) return;
        const float over = one_over(one_of(by[0]));
        GPU_UNROLL for (int n = 0; n < COLUMNS; n++) {
            if (RAISED) top[n] *= over;
            if (!(top[n] * one_of(by[n]) > MOST)) top[n] = 0.0f;
        }
        fall(top, sums, by);
        if constexpr (RAISED) {
            w *= one_of(by[0]) * over;
            start_at_lse();
        }
    }
    __device__ __forceinline__ static weights rounded(
        const acc &w, int c, const factor (&by)[COLUMNS]) {
        if constexpr (S::F32) {
            weights own;
            GPU_UNROLL for (int e = 0; e < 8; e++)
                own[e] = w[8 * c + e];
            return own;
        } else {
            gpu_u32x4 own;
            GPU_UNROLL for (int e = 0; e < 4; e++) {
                const int n = 8 * c + 2 * e;
                gpu_f32x2 two = {w[n], w[n + 1]};
                if (S::RANGED && !RAISED) two = two * by[column_of(n)];
                own[e] = U::template pack<S::DTYPE>(two[0], two[1]);
            }
            return U::exchange(own);
        }
    }
    /* SPLIT: each wave adds to its own what the other's dims make; a + b is b + a. */
    __device__ __forceinline__ void both_halves(acc &s, acc &dp) const {
        float *at = (float *)(lds + S::HALVES_AT);
        const uint32_t own = S::thread(), other = own ^ (uint32_t)U::WAVE;
        GPU_UNROLL for (int n = 0; n < ACC; n++) {
            at[n * S::THREADS + own] = s[n];
            if (S::X) at[(ACC + n) * S::THREADS + own] = dp[n];
        }
        __syncthreads();
        GPU_UNROLL for (int n = 0; n < ACC; n++) {
            s[n] += at[n * S::THREADS + other];
            if (S::X) dp[n] += at[(ACC + n) * S::THREADS + other];
        }
    }
    /* Tile t; before the last product, where registers are free, the next one is fetched. */
    template <bool EDGE> __device__ __forceinline__ void tile(int32_t t, int32_t next) {
        if (FROM_TOLD) read_told(start, U::first_row(lane()));
        if (S::RUNS_ON) take_first(0, 0);
        GPU_UNROLL for (int n = 0; n < S::ROW_TILES; n++) {
            const int32_t place = n * TILE + U::first_row(lane());
            const bool last = n + 1 == S::ROW_TILES;
            const int32_t then = last ? -1 : place + TILE;
            weights w[ACC / 8];
            acc of_rows = acc(0.0f), s = product(n, 0, first, of_rows, place), dp = acc(0.0f),
                of_dp = acc(0.0f);
            if constexpr (S::X && DP_FIRST) dp = product(n, AT_DP, second, of_dp, BN + place);
            if constexpr (S::SPLIT) both_halves(s, dp);
            if (GENERAL) weights_of_masks(s, dp, t * BN + place);
            else probabilities<EDGE>(s, t * BN + place, of_rows);
            if (last && !S::X) fetch<EDGE>(next);
            if constexpr (S::Y) {
                if (S::RANGED && GENERAL) follow(s, y, y_by);
                GPU_UNROLL for (int c = 0; c < ACC / 8; c++)
                    w[c] = rounded(s, c, y_by);
                add<EDGE>(y, SECOND_T, n, AT_Y, w, S::X ? BN + place : then);
            }
            if constexpr (S::X) {
                if (!DP_FIRST) dp = product(n, AT_DP, second, of_dp, BN + place);
                if (!GENERAL) gradients<EDGE>(s, dp, t * BN + place, of_dp);
                if (S::RANGED) follow(dp, x, x_by);
                GPU_UNROLL for (int c = 0; c < ACC / 8; c++)
                    w[c] = rounded(dp, c, x_by);
                if (last) fetch<EDGE>(next);
                add<EDGE>(x, FIRST_T, n, AT_X, w, then);
            }
        }
    }

    /* ---- the end ---- */

    /* The dim of a lane's sum n. */
    __device__ __forceinline__ static int32_t dim_of(int n) {
        return dim0() + n / ACC * TILE + row_of(n % ACC) + U::first_row(lane());
    }
    __device__ __forceinline__ bool sees_any(int y) const { return see[y].lo < see[y].hi; }
    /* Two dims at element `at`; dtype: not f64. */
    __device__ __forceinline__ static void put_two(
        const gpu_tensor &to, int32_t dtype, int64_t at, float low, float high) {
        char *data = (char *)to.data + (dtype == ATTN_F32 ? 4 : 2) * at;
        if (dtype == ATTN_F32) *(float2 *)data = make_float2(low, high);
        else
            *(uint32_t *)data =
                dtype == ATTN_F16 ? gpu_pack<ATTN_F16>(low, high) : gpu_pack<ATTN_BF16>(low, high);
    }
    /* Sums of column y to its row of `to`, times two factors, 16 bytes at a time, or two of a lane
       with two columns; 0 where it sees nothing at all. */
    __device__ __forceinline__ void put_wide(const acc (&sums)[S::DIM_TILES], int y, float by,
        float scale, const gpu_tensor &to, int32_t dtype, int64_t at, int32_t dims) const {
        if constexpr (COLUMNS > 1) {
            GPU_UNROLL for (int n = 0; n < S::DIM_TILES * ACC; n += 2) {
                const int32_t d = dim_of(n);
                if (column_of(n % ACC) != y || d >= dims) continue;
                const float low = sees_any(y) ? sums[n / ACC][n % ACC] * by * scale : 0.0f,
                            high = sees_any(y) ? sums[n / ACC][n % ACC + 1] * by * scale : 0.0f;
                put_two(to, dtype, at + d, low, high);
            }
        } else {
            GPU_UNROLL for (int n = 0; n < EIGHTS; n++) {
                const int32_t d = dim_of(8 * n);
                char *data = (char *)to.data + (dtype == ATTN_F32 ? 4 : 2) * (at + d);
                float v[8];
                GPU_UNROLL for (int e = 0; e < 8; e++)
                    v[e] = sees_any(y) ? sums[8 * n / ACC][8 * n % ACC + e] * by * scale : 0.0f;
                if (d >= dims) continue;
                if (dtype == ATTN_F32) {
                    ((float4 *)data)[0] = make_float4(v[0], v[1], v[2], v[3]);
                    ((float4 *)data)[1] = make_float4(v[4], v[5], v[6], v[7]);
                } else
                    *(uint4 *)data =
                        dtype == ATTN_F16 ? gpu_pack8<ATTN_F16>(v) : gpu_pack8<ATTN_BF16>(v);
            }
        }
    }
    /* The same for any type, alignment and ATTN_ACCUMULATE: one sum at a time from the first
       register, and the others move up, so that the code is there once. */
    __device__ __forceinline__ void put_each(acc (&sums)[S::DIM_TILES], int y, float by,
        float scale, const gpu_tensor &to, int32_t dtype, int64_t at, int32_t dims) const {
        GPU_NO_UNROLL for (int n = 0; n < EIGHTS; n++) GPU_NO_UNROLL
            for (int e = 0; e < 8; e++) {
                const int32_t d = dim_of(8 * n + e);
                const float sum = sums[0][0], value = sees_any(y) ? sum * by * scale : 0.0f;
                GPU_UNROLL for (int i = 0; i + 1 < 8 * EIGHTS; i++)
                    sums[i / ACC][i % ACC] = sums[(i + 1) / ACC][(i + 1) % ACC];
                if (COLUMNS > 1) sums[S::DIM_TILES - 1][ACC - 1] = sum; /* for the next column */
                if (d < dims && column_of(e) == y)
                    gpu_put_grad(gpu_reload(arguments).call, to, dtype, at + d, value, 0.0f);
            }
    }
    /* over: the power of two that the sums went times. */
    __device__ __forceinline__ void put(acc (&sums)[S::DIM_TILES], int y, float over, float scale,
        const gpu_tensor &to, int32_t dtype, int64_t at, int32_t dims) const {
        const bool wide = S::ALIGN >= 16 && dtype != ATTN_F64 &&
                          !(gpu_reload(arguments).call.flags & ATTN_ACCUMULATE);
        const float by = S::RANGED ? one_over(over) : 1.0f;
        if (wide) put_wide(sums, y, by, scale, to, dtype, at, dims);
        else put_each(sums, y, by, scale, to, dtype, at, dims);
    }
    __device__ __forceinline__ void finish() {
        const gpu_grad_params &g = gpu_reload(arguments);
        const gpu_params &p = g.call;
        const gpu_seq s = sequence();
        const int32_t kv_head = head / p.group;
        const float scale = GENERAL ? 1.0f : p.scale;
        GPU_UNROLL for (int n = 0; n < COLUMNS; n++) {
            const int32_t c = my_column(n);
            if (c >= (S::KEYS ? gpu_tokens_of(p, s.b).count : s.q_rows)) return;
            if constexpr (!S::KEYS)
                put(x, n, one_of(x_by[n]), scale, g.dq, g.dq_dtype, gpu_row_at(p, s, g.dq, head, c),
                    p.head_dim);
            if constexpr (S::KEYS && S::X)
                put(x, n, one_of(x_by[n]), scale, g.dk, g.dk_dtype,
                    gpu_token_at(p, s, g.dk, kv_head, c), p.head_dim);
            if constexpr (S::Y)
                put(y, n, one_of(y_by[n]), 1.0f, g.dv, g.dv_dtype,
                    gpu_token_at(p, s, g.dv, kv_head, c), p.v_dim);
        }
    }
    /* As gpu_poison: the products had finite values where left is not finite, of rows that some
       column does not see. Element d of every column that sees such a row becomes a NaN. A wave for
       its own columns, a lane for a column, then for a dim. */
    __device__ __forceinline__ void poison(bool of_first, const gpu_tensor &to, int32_t dtype) {
        if (dim0()) return; /* SPLIT: the other wave has all dims */
        const int32_t c = wave_column + lane() % TILE, h0 = head,
                      dims = gpu_reload(arguments).call.head_dim;
        const gpu_range sees =
            COLUMNS == 1 ? see[0] : rows_seen(gpu_reload(arguments).call, sequence(), c);
        const int32_t most = of_first ? dims : gpu_reload(arguments).call.v_dim;
        const int32_t group = S::KEYS ? gpu_reload(arguments).call.group : 1;
        for (int32_t d0 = 0; d0 < most; d0 += U::WAVE) {
            const int32_t d = d0 + lane() < most ? d0 + lane() : d0;
            uint64_t met = 0;
            for (int32_t h = h0; h < h0 + group; h++) {
                of_head(h);
                const gpu_params &p = gpu_reload(arguments).call;
                const gpu_seq s = sequence();
                const gpu_grad_rows from = of_first ? from_first : from_second;
                for (int32_t row = wave_sees.lo; row < wave_sees.hi; row++) {
                    const char *at = (const char *)from.data + row * from.stride;
                    const uint64_t bad =
                        gpu_wave_ballot(S::F32 ? !gpu_is_finite(gpu_get(at, from.dtype, d))
                                               : gpu_bad_value<S::DTYPE>(at, d));
                    const bool asks = (bad & ~met) && row >= sees.lo && row < sees.hi;
                    if (!gpu_wave_ballot(asks)) continue;
                    const int32_t j = S::KEYS ? c - (int32_t)s.column : row;
                    if (asks && !gpu_hidden(p, gpu_row_of(p, s, h, S::KEYS ? row : c), j))
                        met |= bad;
                }
            }
            const gpu_params &p = gpu_reload(arguments).call;
            const gpu_seq s = sequence();
            for (int n = 0; n < TILE; n++) {
                const uint64_t dims_met = gpu_wave_read_bits(met, n);
                const int64_t at = S::KEYS ? gpu_token_at(p, s, to, h0 / p.group, wave_column + n)
                                           : gpu_row_at(p, s, to, h0, wave_column + n);
                if (d0 + lane() < most && (dims_met >> lane() & 1))
                    gpu_put((char *)to.data, dtype, at + d, __uint_as_float(0x7fc00000u));
            }
        }
    }

    /* Long sums: of many equal terms rounding errors have one sign. Which rows are summed together
       follows from their own numbers, so that a sequence's bits do not depend on where it lies. */
    __device__ __forceinline__ void carry() {
        if constexpr (S::F32) {
            if constexpr (S::X) add_up(x, x_before);
            if constexpr (S::Y) add_up(y, y_before);
        }
    }
    template <int KEPT>
    __device__ __forceinline__ void add_up(acc (&sums)[S::DIM_TILES], acc (&before)[KEPT]) const {
        GPU_UNROLL for (int n = 0; n < S::DIM_TILES; n++) {
            if (n < KEPT) before[n < KEPT ? n : 0] += sums[n];
            else GPU_UNROLL
                for (int e = 0; e < ACC; e++) *in_lds(n - KEPT, e) += sums[n][e];
            sums[n] = acc(0.0f);
        }
    }
    __device__ __forceinline__ float *in_lds(int n, int e) const {
        return (float *)(lds + S::BEFORE_AT + n * S::BEFORE_TILE) + e * S::THREADS + S::thread();
    }
    template <int KEPT> __device__ __forceinline__ void begin_sums(acc (&before)[KEPT]) const {
        for (acc &sum : before) sum = acc(0.0f);
        GPU_UNROLL for (int n = 0; n < S::DIM_TILES - KEPT; n++) GPU_UNROLL
            for (int e = 0; e < ACC; e++) *in_lds(n, e) = 0.0f;
    }
    template <int KEPT>
    __device__ __forceinline__ void end_sums(
        acc (&sums)[S::DIM_TILES], const acc (&before)[KEPT]) const {
        GPU_UNROLL for (int n = 0; n < S::DIM_TILES; n++) {
            if (n < KEPT) sums[n] = before[n < KEPT ? n : 0];
            else GPU_UNROLL
                for (int e = 0; e < ACC; e++) sums[n][e] = *in_lds(n - KEPT, e);
        }
    }
    /* Tile t of head h is in registers; the next one is when this returns. */
    template <bool EDGE>
    __device__ __forceinline__ void step(int32_t t, int32_t next, int32_t next_of, bool active) {
        store<EDGE>();
        __syncthreads();
        if (next_of != next_head) of_head(next_of);
        if (!EDGE || S::SPLIT || active) tile<EDGE>(t, next);
        else fetch<EDGE>(next);
        if (S::F32 && (t + 1) % S::CARRY == 0) carry();
        __syncthreads();
    }
    /* Left rows fetched from here on are the first ones. */
    __device__ __forceinline__ void begin_left() {
        left_first.begin(from_first);
        left_second.begin(from_second);
    }
    /* f: this, or what is made of it. */
    template <class F> __device__ __forceinline__ void pass(F &f, int32_t h1, const reach &all) {
        const int32_t begin = all.some.lo / BN, end = (all.some.hi + BN - 1) / BN;
        const int32_t whole = GENERAL ? end : (all.all.lo + BN - 1) / BN,
                      whole_end = all.all.hi / BN, h0 = head;
        /* tiles below `middle` are followed by one wholly of rows */
        const int32_t inside = rows / BN, middle = min(whole_end, end <= inside ? end : inside - 1);
        of_head(h0);
        f.begin_left();
        f.template fetch<true>(begin);
        for (; head < h1; head++) {
            for (int32_t t = begin; t < end;) {
                const bool more = head + 1 < h1;
                const int32_t over = more ? begin : end - 1, over_of = more ? head + 1 : head;
                /* a loop of its own: beside an edge in one the sums are copied for every tile */
                if constexpr (!GENERAL)
                    for (; t >= whole && t < middle; t++) {
                        const bool last = t + 1 == end;
                        f.template step<false>(t, last ? over : t + 1, last ? over_of : head, true);
                    }
                if (t < end) {
                    const bool last = t + 1 == end,
                               active = t * BN < wave_sees.hi && (t + 1) * BN > wave_sees.lo;
                    f.template step<true>(t, last ? over : t + 1, last ? over_of : head, active);
                    t++;
                }
            }
            carry();
        }
        head = h0;
    }
    /* under a causal mask late queries see most keys, and early keys most queries */
    __device__ __forceinline__ static int32_t first_column() {
        return (int32_t)(S::KEYS ? blockIdx.x : gridDim.x - 1 - blockIdx.x) * S::BM;
    }
    /* Heads, columns and what they see, of GROUP waves that skip rows together; false: no column. */
    template <int GROUP> __device__ __forceinline__ bool place_columns(reach &all) {
        const gpu_params &p = gpu_reload(arguments).call;
        const gpu_seq s = sequence();
        const int32_t wave = gpu_uniform((int32_t)threadIdx.x / U::WAVE);
        const int32_t column0 = first_column();
        if (column0 >= (S::KEYS ? gpu_tokens_of(p, s.b).count : s.q_rows)) return false;
        head = (int32_t)blockIdx.y * (S::KEYS ? p.group : 1);
        wave_column = column0 + wave / (1 + S::SPLIT) * TILE;
        rows = S::KEYS ? s.q_used : s.k_len;
        all = reach_of(p, s, column0, S::BM);
        wave_sees = reach_of(
            p, s, GROUP > 1 ? column0 + wave / GROUP * (GROUP * TILE) : wave_column, GROUP * TILE)
                        .some;
        GPU_UNROLL for (int n = 0; n < COLUMNS; n++)
            see[n] = rows_seen(p, s, my_column(n));
        return true;
    }
    __device__ __forceinline__ void run() {
        const gpu_params &p = gpu_reload(arguments).call;
        reach all;
        if (!place_columns<1>(all)) return;
        GPU_UNROLL for (int n = 0; n < COLUMNS; n++) {
            x_by[n] = y_by[n] = factor_of(0x1p100f);
            limit[n] = S::RANGED && S::Y ? least_of_range(y_by[n]) : least();
        }
        for (acc &sum : x) sum = acc(0.0f);
        for (acc &sum : y) sum = acc(0.0f);
        if constexpr (S::F32 && S::X) begin_sums(x_before);
        if constexpr (S::F32 && S::Y) begin_sums(y_before);
        bad_first = bad_second = 0;
        zero = acc(0.0f);
        if (S::ZERO) gpu_pin(zero);
        tells_delta = S::thread() / BN % 2;
        if (BN % (int)U::WAVE == 0) tells_delta = gpu_uniform((int32_t)tells_delta);
        if (all.some.lo < all.some.hi) {
            score_scale = p.scale_log2;
            score_unscale = gpu_rcp(score_scale);
            load_right();
            place_lanes();
            pass(*this, head + (S::KEYS ? p.group : 1), all);
            if constexpr (S::F32 && S::X) end_sums(x, x_before);
            if constexpr (S::F32 && S::Y) end_sums(y, y_before);
        }
        finish();
        poison_all();
    }
    __device__ __forceinline__ void poison_all() {
        const gpu_grad_params &g = gpu_reload(arguments);
        uint32_t *words = (uint32_t *)lds;
        if (S::X && gpu_any_wave<S::WAVES>(bad_first != 0, words))
            poison(true, S::KEYS ? g.dk : g.dq, S::KEYS ? g.dk_dtype : g.dq_dtype);
        if (S::Y && gpu_any_wave<S::WAVES>(bad_second != 0, words + S::WAVES))
            poison(false, g.dv, g.dv_dtype);
    }
};
template <class S>
__global__ void __launch_bounds__(S::THREADS, S::PER_SIMD)
    gpu_grad_matrix_kernel(gpu_grad_params g) {
    if constexpr ((GPU_UNITS & (int)S::UNIT) && !(S::RANGED && (GPU_UNITS & F16_FLUSHES))) {
        __shared__ __attribute__((aligned(128))) char lds[S::LDS];
        __shared__
            __attribute__((aligned(16))) float told[gpu_grad_matrix<S>::TOLD ? S::THREADS : 1];
        gpu_grad_matrix<S> f(lds, told, g);
        f.run();
    }
}

/* Rows of the table: affects speed, never results, but for what a type is rounded to. As in
   >>kernel16, a plain one, one of any alignment, one of everything. */
#define GPU_GRAD_PART(UNIT, DTYPE, D, KIND, WAVES, BN, MASKS, ALIGN) \
    {(const void *) \
            gpu_grad_matrix_kernel<gpu_grad_shape<UNIT, DTYPE, D, KIND, WAVES, BN, MASKS, ALIGN>>, \
        gpu_grad_shape<UNIT, DTYPE, D, KIND, WAVES, BN, MASKS, ALIGN>::BM, \
        gpu_grad_shape<UNIT, DTYPE, D, KIND, WAVES, BN, MASKS, ALIGN>::THREADS, 0}
/* dk and dv by one kernel, or where their sums do not fit beside k and v by two */
#define GPU_GRAD_BOTH(UNIT, DTYPE, D, WAVES, BN, MASKS, ALIGN) \
    GPU_GRAD_PART(UNIT, DTYPE, D, GRAD_DK | GRAD_DV, WAVES, BN, MASKS, ALIGN), {NULL, 0, 0, 0}
#define GPU_GRAD_EACH(UNIT, DTYPE, D, WAVES, BN, MASKS, ALIGN) \
    GPU_GRAD_PART(UNIT, DTYPE, D, GRAD_DK, WAVES, BN, MASKS, ALIGN), \
        GPU_GRAD_PART(UNIT, DTYPE, D, GRAD_DV, WAVES, BN, MASKS, ALIGN)
#define GPU_ROW_GRAD_16(name, UNIT, DTYPE, D, PARTS, WAVES, BN, MASKS, ALIGN) \
    {name "_backward", UNIT, DTYPE, D, MASKS, ALIGN, \
        {GPU_GRAD_PART(UNIT, DTYPE, D, GRAD_DQ, WAVES, BN, MASKS, ALIGN), \
            PARTS(UNIT, DTYPE, D, WAVES, BN, MASKS, ALIGN)}, \
        (const void *)gpu_dbias_kernel<DTYPE>},
#define GPU_ROWS_GRAD_16_D(name, UNIT, DTYPE, D, PARTS, WAVES, BN) \
    GPU_ROW_GRAD_16("flash_" name "_d" #D, UNIT, DTYPE, D, PARTS, WAVES, BN, 0, 16) \
    GPU_ROW_GRAD_16("flash_" name "_d" #D "_masks", UNIT, DTYPE, D, PARTS, WAVES, BN, ~0, 1)
/*                                                                 waves, rows a tile */
#define GPU_ROWS_GRAD_16_UNIT(name, UNIT, DTYPE, PARTS128) \
    GPU_ROWS_GRAD_16_D(name, UNIT, DTYPE, 32, GPU_GRAD_BOTH, GPU_GRAD_WAVES(UNIT, 32), 64) \
    GPU_ROWS_GRAD_16_D(name, UNIT, DTYPE, 64, GPU_GRAD_BOTH, GPU_GRAD_WAVES(UNIT, 64), 32) \
    GPU_ROWS_GRAD_16_D(name, UNIT, DTYPE, 128, PARTS128, GPU_GRAD_WAVES(UNIT, 128), 32) \
    GPU_ROWS_GRAD_16_D(name, UNIT, DTYPE, 256, GPU_GRAD_EACH, 4, GPU_GRAD_ROWS_256(UNIT))
/* a wave of 512 registers has room for the sums and operands of 256 dims; elsewhere two share them */
#define GPU_GRAD_ROWS_256(UNIT) ((UNIT) == UNIT_MFMA ? 32 : 16)
#define GPU_GRAD_WAVES(UNIT, D) (((UNIT) == UNIT_MFMA && (D) < 128) || (UNIT) == UNIT_SM80 ? 4 : 8)
/* q, k and v of DTYPE, whatever dout is: the kernels are the same for each */
#define GPU_ROWS_GRAD_F32(UNIT, unit, dtype, DTYPE) \
    GPU_ROWS_GRAD_F32_D(UNIT, unit "_" dtype "_d64", DTYPE, 64, GPU_GRAD_BOTH) \
    GPU_ROWS_GRAD_F32_D(UNIT, unit "_" dtype "_d128", DTYPE, 128, GPU_GRAD_EACH)
#define GPU_ROWS_GRAD_F32_D(UNIT, name, DTYPE, D, PARTS) \
    GPU_ROW_GRAD_F32(UNIT, name, DTYPE, D, PARTS, 0, 16) \
    GPU_ROW_GRAD_F32(UNIT, name "_masks", DTYPE, D, PARTS, ~0, 1)
#define GPU_GRAD_F32_WAVES(UNIT, D) ((UNIT) == UNIT_FMA && (D) < 128 ? 8 : 4)
#define GPU_GRAD_F32_ROWS(UNIT, D) ((UNIT) == UNIT_FMA && (D) == 128 ? 16 : 32)
#define GPU_ROW_GRAD_F32(UNIT, name, DTYPE, D, PARTS, MASKS, ALIGN) \
    {name "_backward", UNIT, DTYPE, D, MASKS, ALIGN, \
        {GPU_GRAD_PART(UNIT, ATTN_F32, D, GRAD_DQ, GPU_GRAD_F32_WAVES(UNIT, D), \
             GPU_GRAD_F32_ROWS(UNIT, D), MASKS, ALIGN), \
            PARTS(UNIT, ATTN_F32, D, GPU_GRAD_F32_WAVES(UNIT, D), GPU_GRAD_F32_ROWS(UNIT, D), \
                MASKS, ALIGN)}, \
        (const void *)gpu_dbias_kernel<DTYPE>},
#define GPU_ROWS_GRAD_F32_UNIT(UNIT, unit) \
    GPU_ROWS_GRAD_F32(UNIT, unit, "f32", ATTN_F32) \
    GPU_ROWS_GRAD_F32(UNIT, unit, "f16", ATTN_F16) \
    GPU_ROWS_GRAD_F32(UNIT, unit, "bf16", ATTN_BF16)
/* clang-format off */
#if GPU_ON_CUDA || defined(GPU_EMULATED)
#define GPU_ROWS_BACKWARD_32
#define GPU_ROWS_BACKWARD_16 \
    GPU_ROWS_GRAD_16_UNIT("bf16", UNIT_SM80, ATTN_BF16, GPU_GRAD_EACH) \
    GPU_ROWS_GRAD_16_UNIT("f16", UNIT_SM80, ATTN_F16, GPU_GRAD_EACH)
#else
#define GPU_ROWS_BACKWARD_32 \
    GPU_ROWS_GRAD_F32_UNIT(UNIT_MFMA_F32, "mfma32") GPU_ROWS_GRAD_F32_UNIT(UNIT_FMA, "fma32")
#define GPU_ROWS_BACKWARD_16 \
    GPU_ROWS_GRAD_16_UNIT("bf16", UNIT_MFMA, ATTN_BF16, GPU_GRAD_BOTH) \
    GPU_ROWS_GRAD_16_UNIT("f16", UNIT_MFMA, ATTN_F16, GPU_GRAD_BOTH) \
    GPU_ROWS_GRAD_16_UNIT("bf16", UNIT_WMMA11, ATTN_BF16, GPU_GRAD_EACH) \
    GPU_ROWS_GRAD_16_UNIT("f16", UNIT_WMMA11, ATTN_F16, GPU_GRAD_EACH) \
    GPU_ROWS_GRAD_16_UNIT("bf16", UNIT_WMMA12, ATTN_BF16, GPU_GRAD_BOTH) \
    GPU_ROWS_GRAD_16_UNIT("f16", UNIT_WMMA12, ATTN_F16, GPU_GRAD_BOTH)
#endif
/* clang-format on */
/* ============================================================================== >>kernel32 ====
   f32 flash attention forward, one kernel for matrix units (MFMA 32x32x2) and one for plain
   multiply-adds. In both a workgroup owns BM query rows of one head and walks over tiles of keys,
   from the first that any of its rows sees to the last: [lo, hi) of gpu_reach; tiles in [whole_lo,
   whole_hi) are seen by all rows and take no mask. Scores are natural ones, which reach as far as
   f32 does: q is multiplied by the scale when it is loaded, or gpu_modify makes them; only their
   distance from the maximum goes to log 2. The maximum of a row is followed lazily: only where a
   tile exceeds it by 8 ln 2 are the sums rescaled, so that the weights stay below 2^8 and the one
   branch of the loop is seldom taken. That is decided for each row by itself: its bits depend on
   no other row. */

extern __shared__ float4 gpu_lds[]; /* what the table's row asks for */

/* Elements c .. c + 3 of a row of dim elements, 0 beyond it; no address outside the row. ALIGN 16:
   dim is a multiple of 4 and the row begins at a multiple of 16 bytes. `fill` takes what `fetch`
   brought, so that it can be in flight. */
template <int ALIGN>
__device__ static inline float4 gpu_fetch4(const float *row, int32_t c, int32_t dim) {
    if (ALIGN == 16) return *(const float4 *)(row + min(c, dim - 4));
    float4 x;
    x.x = row[min(c, dim - 1)];
    x.y = row[min(c + 1, dim - 1)];
    x.z = row[min(c + 2, dim - 1)];
    x.w = row[min(c + 3, dim - 1)];
    return x;
}
template <int ALIGN> __device__ static inline float4 gpu_fill4(float4 x, int32_t c, int32_t dim) {
    x.x = c < dim ? x.x : 0.0f;
    x.y = c + (ALIGN == 16 ? 0 : 1) < dim ? x.y : 0.0f;
    x.z = c + (ALIGN == 16 ? 0 : 2) < dim ? x.z : 0.0f;
    x.w = c + (ALIGN == 16 ? 0 : 3) < dim ? x.w : 0.0f;
    return x;
}
/* The same of a row of q, times the scale. */
template <int ALIGN>
__device__ static inline float4 gpu_load_q4(const float *row, int32_t c, int32_t dim, float scale) {
    const float4 x = gpu_fill4<ALIGN>(gpu_fetch4<ALIGN>(row, c, dim), c, dim);
    return make_float4(x.x * scale, x.y * scale, x.z * scale, x.w * scale);
}
/* Thread t's pieces of rows j + t / PIECES + n * STEP of k or v, on their way; rows beyond the last
   key repeat it. The 32-bit row and stride, which the compiler is kept from widening, make an
   address a single multiply-add. */
template <int PIECES, int STEP, int ALIGN, int LOADS>
__device__ static __forceinline__ void gpu_fetch_rows(float4 (&next)[LOADS], const float *x,
    int64_t stride, int32_t t, int32_t j, int32_t k_len, int32_t dim) {
    const int64_t far = 4 * stride;
    int32_t step = (int32_t)far; /* ALIGN 16: below 2^31 */
    gpu_pin(step);
    x += j * stride;
    GPU_UNROLL for (int n = 0; n < LOADS; n++) {
        int32_t row = min(t / PIECES + n * STEP, k_len - 1 - j);
        gpu_pin(row);
        const float *at =
            (const float *)((const char *)x + (ALIGN == 16 ? (int64_t)row * step : row * far));
        next[n] = gpu_fetch4<ALIGN>(at, t % PIECES * 4, dim);
    }
}
/* What gpu_fill4 does, for values: 0 where they are not finite, which `bad` remembers: in a vector
   register, made here and now, since the compiler would rather keep the lane masks of every
   comparison until the end. */
template <int ALIGN>
__device__ static inline float4 gpu_tame4(float4 x, int32_t c, int32_t dim, int32_t &bad) {
    const bool fx = gpu_is_finite(x.x), fy = gpu_is_finite(x.y), fz = gpu_is_finite(x.z),
               fw = gpu_is_finite(x.w);
    bad = fx && fy && fz && fw ? bad : 1;
    gpu_pin(bad);
    x.x = fx ? x.x : 0.0f;
    x.y = fy ? x.y : 0.0f;
    x.z = fz ? x.z : 0.0f;
    x.w = fw ? x.w : 0.0f;
    return gpu_fill4<ALIGN>(x, c, dim);
}

/* What becomes of a row's sums: their upper bits go to memory, or at the end, with those that lie
   there, and times factor, o itself. o of 32 bits and more has room for 16 of a sum's bits, others,
   as bf16, for 8, more than they show. */
struct gpu_settling {
    float alpha, factor;
    uint32_t reads, mask; /* ~0: the row has carried before; of gpu_carry */
    int32_t width;        /* elements that are written */
    int32_t held, to;     /* types of what lies there and of what is written */
};
template <bool LAST>
__device__ static inline gpu_settling gpu_settle_of(
    const gpu_params &p, bool mine, bool carried, float alpha) {
    gpu_settling c;
    const bool wide = p.o_dtype == ATTN_F32 || p.o_dtype == ATTN_F64;
    c.reads = mine && carried ? ~0u : 0u;
    c.mask = !mine ? 0u : wide ? 0xffffff00u : 0xffff0000u;
    c.alpha = c.reads ? alpha : 0.0f;
    c.factor = 1.0f;
    c.width = mine ? p.v_dim : 0;
    c.held = wide ? p.o_dtype : (int32_t)ATTN_BF16;
    c.to = LAST ? p.o_dtype : c.held;
    return c;
}
/* Sums of elements d .. d + 3 of o, as many as v_dim has; those beyond it are lost. */
template <int ALIGN, bool LAST>
__device__ static __forceinline__ void gpu_settle4(
    const gpu_params &p, const gpu_settling &c, char *row, int32_t d, float (&x)[4]) {
    const bool whole = ALIGN == 16 && p.o_dtype == ATTN_F32;
    const int32_t end = p.v_dim - 1;
    float y[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    gpu_pin(d);
    if (gpu_wave_ballot(c.reads != 0)) {
        if (whole) {
            const float4 z = *(const float4 *)(row + 4 * min(d, p.v_dim - 4));
            y[0] = z.x;
            y[1] = z.y;
            y[2] = z.z;
            y[3] = z.w;
        } else if (c.held == ATTN_F32) GPU_UNROLL
            for (int n = 0; n < 4; n++) y[n] = ((const float *)row)[min(d + n, end)];
        else if (c.held == ATTN_BF16) GPU_UNROLL
            for (int n = 0; n < 4; n++)
                y[n] = __uint_as_float((uint32_t)((const uint16_t *)row)[min(d + n, end)] << 16);
        else GPU_UNROLL
            for (int n = 0; n < 4; n++) y[n] = (float)((const double *)row)[min(d + n, end)];
    }
    GPU_UNROLL for (int n = 0; n < 4; n++) {
        y[n] = __uint_as_float(__float_as_uint(y[n]) & c.reads);
        if (LAST) y[n] = c.factor == 0.0f ? 0.0f : fmaf(y[n], c.alpha, x[n]) * c.factor;
        else y[n] = gpu_carry(y[n], c.alpha, c.mask, x[n]);
        gpu_pin(x[n]);
    }
    if (!whole) gpu_put_each(row, c.to, d, c.width, y);
    else if (d < c.width) *(float4 *)(row + 4 * d) = make_float4(y[0], y[1], y[2], y[3]);
}

/* All tiles that some row of the workgroup sees, from multiples of BN keys on: masked ones, whole
   ones, masked ones. Now and then the sums are carried. */
template <class K> __device__ static __forceinline__ void gpu_walk32(K &w, const gpu_params &p) {
    enum { BN = K::BN };
    const int32_t start = w.reach.lo & -BN, end = w.reach.hi;
    int32_t whole = (w.reach.whole_lo + BN - 1) & -BN, whole_end = w.reach.whole_hi & -BN;
    if (K::MASKS || whole >= whole_end) whole = whole_end = end;
    for (int32_t j = start; j < end;) {
        const int32_t left = GPU_CARRY_F32 - j % GPU_CARRY_F32,
                      stop = end - j < left ? end : j + left;
        if (left == GPU_CARRY_F32 && j > start) w.template settle<false>(gpu_reload(p));
        for (; j < whole && j < stop; j += BN) w.template tile<true>(p, j);
        for (; j < whole_end && j < stop; j += BN) w.template tile<false>(p, j);
        if (j >= whole_end) whole = whole_end = end;
    }
}

#if !GPU_ON_CUDA
/* ---- MFMA: S^T = K Q^T, O^T = V^T P^T, a wave 32 queries, a tile 32 keys ----
   Lane (half, l) = (lane / 32, lane % 32) holds query l of the wave in both products:
     q[c]     q[l][8c + 4 half .. + 3], the B operand of four steps, whose A operand is one 16-byte
              read of row l of K
     s[r]     the score of key 8 (r / 4) + 4 half + r % 4: exactly what step r of the second
              product takes as B, with that row of V as A: nothing moves between the products
     o[t][r]  with y = 8 (r / 4) + 4 half + r % 4 dim gpu_mfma_dim(t, y): lane l reads V at the
              dims of y = l for all t with one or two reads
   K rows lie in LDS with their 16-byte pieces permuted, piece ^ (key & 7), so that 8 lanes reading
   the same piece of 8 rows meet all banks once. V is read along its rows and needs none. Two
   stages: the next tile is on its way to registers during the products and stored after them. */
template <int D> __device__ static constexpr int gpu_mfma_dim(int t, int y) {
    return D >= 128 ? t / 4 * 128 + 4 * y + t % 4 : D / 32 * y + t;
}

template <int D, int WAVES, int STAGES, int ALIGN, bool GENERAL> struct gpu_mfma32 {
    enum {
        THREADS = 64 * WAVES,
        BM = 32 * WAVES,
        BN = 32,
        PIECES = D / 4,
        STEP = THREADS / PIECES,
        LOADS = BN / STEP,
        TILES = D / 32,
        TILE = BN * PIECES,
        MASKS = GENERAL,
        AHEAD = D < 256 /* what is multiplied next is on its way: where there are registers */
    };
    gpu_seq seq;
    gpu_reach reach, own; /* of the workgroup; of this wave, for it to sit out the rest */
    gpu_row row;
    int32_t i; /* the lane's row */
    const float *k, *v;
    float4 *lds; /* the stage in use */
    float4 q[D / 8], next_k[LOADS], next_v[LOADS];
    gpu_f32x16 o[TILES], s;
    float v_row[2][TILES];
    /* the maximum, or 0 while there is none; from where it is raised */
    float base, limit, row_sum, sum_rest;
    /* the maximum of what was carried; -infinity: nothing was */
    float carried;
    gpu_range see;
    int32_t bad;

    __device__ __forceinline__ static int32_t row0(const gpu_params &p) {
        return (p.q_tiles - 1 - (int32_t)blockIdx.x) * BM; /* causal: the long tiles first */
    }
    __device__ __forceinline__ static int32_t own_thread() {
        return ALIGN == 4 ? gpu_thread() : (int32_t)threadIdx.x;
    }
    /* The lane's row of those of the workgroup. */
    __device__ __forceinline__ static int32_t my_row() {
        return gpu_thread() / 64 * 32 + gpu_thread() % 32;
    }
    /* The key of score r, from the lane's first on. */
    __device__ __forceinline__ static constexpr int key_of(int r) { return r / 4 * 8 + r % 4; }

    /* Rows j .. j + 31 of k or v, on their way. */
    template <bool KEY> __device__ __forceinline__ void fetch(const gpu_params &p, int32_t j) {
        gpu_fetch_rows<PIECES, STEP, ALIGN>(KEY ? next_k : next_v, KEY ? k : v,
            (KEY ? p.k : p.v).stride[1], own_thread(), j, seq.k_len, KEY ? p.head_dim : p.v_dim);
    }
    template <bool KEY> __device__ __forceinline__ void store(const gpu_params &p) {
        const int32_t t = own_thread(), piece = t % PIECES, row0 = t / PIECES;
        GPU_UNROLL for (int n = 0; n < LOADS; n++) {
            const int32_t row = row0 + n * STEP;
            if (KEY)
                lds[row * PIECES + (piece ^ (row & 7))] =
                    gpu_fill4<ALIGN>(next_k[n], 4 * piece, p.head_dim);
            else
                lds[TILE + row * PIECES + piece] =
                    gpu_tame4<ALIGN>(next_v[n], 4 * piece, p.v_dim, bad);
        }
    }

    /* Piece c of the lane's row of K. Byte addresses, the piece being exclusive-or: of eight pieces
       one base and immediate offsets make all */
    __device__ __forceinline__ float4 piece_of_k(int c) const {
        const int32_t lane = (int32_t)threadIdx.x % 64, half = lane / 32, l = lane % 32;
        const uint32_t at = (uint32_t)(l * PIECES + (half ^ (l & 7)));
        return (lds + (at ^ (2 * c & 7)))[2 * c & ~7];
    }
    __device__ __forceinline__ static void step_done() {
        if (AHEAD) gpu_fence();
    }
    /* s = K q */
    __device__ __forceinline__ void scores() {
        gpu_f32x16 sum;
        float4 k[2];
        if (AHEAD) k[0] = piece_of_k(0);
        GPU_UNROLL for (int c = 0; c < D / 8; c++) {
            const int next = c + AHEAD;
            if (next < D / 8) k[next % 2] = piece_of_k(next);
            else row_of_v(0);
            step_done();
            if (c % (GPU_SUM_DIMS / 8) == 0) GPU_UNROLL
                for (int r = 0; r < 16; r++) sum[r] = 0.0f;
            sum = gpu_mfma_f32(k[c % 2].x, q[c].x, sum);
            sum = gpu_mfma_f32(k[c % 2].y, q[c].y, sum);
            sum = gpu_mfma_f32(k[c % 2].z, q[c].z, sum);
            sum = gpu_mfma_f32(k[c % 2].w, q[c].w, sum);
            step_done();
            if ((c + 1) % (GPU_SUM_DIMS / 8) == 0 || c + 1 == D / 8)
                s = c < GPU_SUM_DIMS / 8 ? sum : s + sum;
        }
    }

    __device__ __forceinline__ void turn(void) {
        const float x[4] = {s[0], s[1], s[2], s[3]};
        GPU_UNROLL for (int r = 0; r < 12; r++)
            s[r] = s[r + 4];
        GPU_UNROLL for (int n = 0; n < 4; n++)
            s[12 + n] = x[n];
    }
    template <bool MASKED> __device__ __forceinline__ void weights(const gpu_params &p, int32_t j) {
        const int32_t half = (int32_t)threadIdx.x % 64 / 32;
        /* 1. the mask */
        if (GENERAL) {
            /* four keys at a time in a loop, by turning the scores round: what the masks need
             * is needed once */
            GPU_NO_UNROLL for (int g = 0; g < 4; g++) {
                const gpu_params &again = gpu_reload(p);
                GPU_UNROLL for (int n = 0; n < 4; n++) {
                    const int32_t key = j + 8 * g + 4 * half + n;
                    s[n] = gpu_modify_in(again, row, see, seq.k_len - 1, key, again.scale * s[n]);
                }
                turn();
            }
        } else if (MASKED) {
            const gpu_seen seen(see, j + 4 * half);
            GPU_UNROLL for (int r = 0; r < 16; r++)
                s[r] = seen(key_of(r), s[r]);
        }

        /* 2. the maximum; both halves of a query decide alike */
        float top = fmaxf(s[0], s[1]);
        GPU_UNROLL for (int r = 2; r < 16; r += 2)
            top = fmaxf(fmaxf(top, s[r]), s[r + 1]);
        if (gpu_wave_ballot(top > limit)) {
            top = fmaxf(top, gpu_wave_xor(top, 32));
            if (top > limit) {
                const float old = limit == GPU_NEG_INF ? 0.0f : gpu_exp2((base - top) * GPU_LOG2E);
                base = top;
                limit = top + 8.0f * GPU_LN2;
                row_sum *= old;
                sum_rest *= old;
                GPU_UNROLL for (int t = 0; t < TILES; t++)
                    o[t] *= old;
            }
        }

        /* 3. p = exp(s - max), in pairs for the packed instructions; dropout takes some once
         * they are summed */
        gpu_f32x2 sum = {0.0f, 0.0f};
        GPU_UNROLL for (int r = 0; r < 16; r += 2) {
            gpu_f32x2 x = {s[r], s[r + 1]};
            x = (x - base) * GPU_LOG2E;
            x[0] = gpu_exp2(x[0]);
            x[1] = gpu_exp2(x[1]);
            sum += x;
            s[r] = x[0];
            s[r + 1] = x[1];
        }
        gpu_add_to(row_sum, sum_rest, sum[0] + sum[1]);
        if (GENERAL && (p.masks & MASK_DROPOUT)) {
            GPU_NO_UNROLL for (int g = 0; g < 4; g++) {
                const gpu_words w = gpu_philox(p, (uint32_t)i, (uint32_t)(j + 8 * g + 4 * half));
                GPU_UNROLL for (int n = 0; n < 4; n++)
                    s[n] = gpu_kept(p, w.w[n], s[n]);
                turn();
            }
        }
    }

    /* Row r of V for the lane, on its way. */
    __device__ __forceinline__ void row_of_v(int r) {
        const int32_t lane = (int32_t)threadIdx.x % 64, half = lane / 32, l = lane % 32;
        const float *v = (const float *)(lds + TILE) + 4 * half * D + key_of(r) * D;
        float *x = v_row[r % 2];
        if (D == 32) x[0] = v[l];
        else if (D == 64) *(float2 *)x = *(const float2 *)(v + 2 * l);
        else GPU_UNROLL
            for (int t = 0; t < TILES; t += 4)
                *(float4 *)(x + t) = *(const float4 *)(v + 32 * t + 4 * l);
    }
    /* o += V p */
    __device__ __forceinline__ void values() {
        GPU_UNROLL for (int r = 0; r < 16; r++) {
            if (r + AHEAD < 16) row_of_v(r + AHEAD);
            step_done();
            GPU_UNROLL for (int t = 0; t < TILES; t++)
                o[t] = gpu_mfma_f32(v_row[r % 2][t], s[r], o[t]);
            step_done();
        }
    }

    /* ---- the sums ---- */

    /* Four dims in the order of memory: group g of 4, n of TILES; element m is in tile_of,
       register_of; the first is dim_of. */
    __device__ __forceinline__ static constexpr int tile_of(int n, int m) {
        return D >= 128 ? n / 4 * 4 + m : (4 * n + m) % TILES;
    }
    __device__ __forceinline__ static constexpr int register_of(int g, int n, int m) {
        return 4 * g + (D >= 128 ? n % 4 : (4 * n + m) / TILES);
    }
    __device__ __forceinline__ static int32_t dim_of(int g, int n, int32_t half) {
        return gpu_mfma_dim<D>(tile_of(n, 0), 4 * g + 4 * half + register_of(g, n, 0));
    }
    /* Both halves of a row hold a part of its sum, and o of half its dims. */
    template <bool LAST> __device__ __forceinline__ uint32_t settle(const gpu_params &p) {
        const gpu_seq s = gpu_sequence(p, (int32_t)blockIdx.z);
        const int32_t h = (int32_t)blockIdx.y, half = gpu_thread() % 64 / 32,
                      i = row0(p) + my_row();
        gpu_settling c = gpu_settle_of<LAST>(p, i < s.q_used && limit != GPU_NEG_INF,
            carried != GPU_NEG_INF, gpu_exp2((carried - base) * GPU_LOG2E));
        uint32_t alive = 0;
        if (c.mask) carried = base;
        if (LAST) {
            float sum = row_sum + sum_rest;
            sum += gpu_wave_xor(sum, 32);
            const gpu_end e =
                gpu_finish(p, s, h, i, half == 0, limit == GPU_NEG_INF ? GPU_NEG_INF : base, sum);
            c.factor = e.factor;
            c.width = i < s.q_rows ? p.v_dim : 0;
            alive = e.alive;
        }
        char *to = gpu_o_row(p, s, h, min(i, s.q_rows - 1));
        float x[4][TILES][4]; /* all at once: clang takes twice as long for parts */
        GPU_UNROLL for (int g = 0; g < 4; g++) GPU_UNROLL
            for (int n = 0; n < TILES; n++) GPU_UNROLL
                for (int m = 0; m < 4; m++) {
                    x[g][n][m] = o[tile_of(n, m)][register_of(g, n, m)];
                    gpu_pin(x[g][n][m]);
                }
        GPU_UNROLL for (int g = 0; g < 4; g++) GPU_UNROLL
            for (int n = 0; n < TILES; n++) {
                gpu_settle4<ALIGN, LAST>(p, c, to, dim_of(g, n, half), x[g][n]);
                gpu_fence(); /* one after the other: registers */
            }
        GPU_UNROLL for (int g = 0; g < 4; g++) GPU_UNROLL
            for (int n = 0; n < TILES; n++) GPU_UNROLL
                for (int m = 0; m < 4; m++) o[tile_of(n, m)][register_of(g, n, m)] = x[g][n][m];
        return alive;
    }

    /* One tile of keys, and the next one on its way. With two stages of LDS that is stored beside
       the tile in use, one barrier a tile. With one stage the next K takes the place of this one
       after the scores, V after the second product. */
    template <bool MASKED> __device__ __forceinline__ void tile(const gpu_params &p, int32_t j) {
        const bool active = !MASKED || (j + BN > own.lo && j < own.hi);
        fetch<true>(p, j + BN);
        if (STAGES == 2) fetch<false>(p, j + BN);
        if (active) scores();
        if (STAGES == 1) {
            __syncthreads();
            store<true>(p);
            fetch<false>(p, j + BN);
        }
        if (active) {
            weights<MASKED>(p, j);
            values();
        }
        if (STAGES == 1) {
            __syncthreads();
            store<false>(p);
        } else {
            lds = gpu_lds + (2 * TILE - (lds - gpu_lds));
            store<true>(p);
            store<false>(p);
            __syncthreads();
        }
    }
    __device__ __forceinline__ void run(const gpu_params &p) {
        seq = gpu_sequence(p, (int32_t)blockIdx.z);
        const int32_t i0 = row0(p), h = (int32_t)blockIdx.y;
        if (i0 >= seq.q_rows) return;
        reach = gpu_reach_of(p, seq, i0, BM);
        const int32_t lane = (int32_t)threadIdx.x % 64, half = lane / 32;
        const int32_t wave = gpu_uniform((int32_t)threadIdx.x / 64), r = 32 * wave + lane % 32;
        i = i0 + r;
        limit = carried = GPU_NEG_INF;
        base = row_sum = sum_rest = 0.0f;
        bad = 0;
        see = gpu_reach_row(reach, seq, i0, r);
        GPU_UNROLL for (int t = 0; t < TILES; t++) GPU_UNROLL
            for (int n = 0; n < 16; n++) o[t][n] = 0.0f;
        const int32_t row_i = min(i, seq.q_used - 1);
        if (GENERAL) row = gpu_row_of(p, seq, h, row_i);

        if (reach.lo < reach.hi) {
            const float *from =
                (const float *)p.q.data + seq.q_base + h * p.q.stride[2] + row_i * p.q.stride[1];
            GPU_UNROLL for (int c = 0; c < D / 8; c++)
                q[c] = gpu_load_q4<ALIGN>(
                    from, 8 * c + 4 * half, p.head_dim, GENERAL ? 1.0f : p.scale);
            const int32_t kv_head = h / p.group;
            k = (const float *)p.k.data + seq.k_base + kv_head * p.k.stride[2];
            v = (const float *)p.v.data + seq.v_base + kv_head * p.v.stride[2];
            own = gpu_reach_of(p, seq, i0 + 32 * wave, 32);

            lds = gpu_lds;
            fetch<true>(p, reach.lo & -BN);
            fetch<false>(p, reach.lo & -BN);
            store<true>(p);
            store<false>(p);
            __syncthreads();
            gpu_walk32(*this, p);
        }
        const uint32_t alive = settle<true>(gpu_reload(p));
        gpu_poison<ATTN_F32, WAVES, BM, 1, 0>(
            gpu_reload(p), h, i0, bad != 0, (uint32_t *)gpu_lds, half == 0, my_row(), alive);
    }
};

template <int D, int WAVES, int STAGES, int OCCUPANCY, int ALIGN, bool GENERAL>
__global__ void __launch_bounds__(64 * WAVES, OCCUPANCY) gpu_mfma32_forward(gpu_params p) {
    if constexpr (GPU_UNITS & UNIT_MFMA_F32) {
        gpu_mfma32<D, WAVES, STAGES, ALIGN, GENERAL> w;
        w.run(p);
    }
}
#define GPU_ROW_MFMA32(name, D, WAVES, STAGES, OCCUPANCY, ALIGN, GENERAL) \
    {name, UNIT_MFMA_F32, ATTN_F32, D, D, GENERAL ? ~0 : 0, 32 * WAVES, 64 * WAVES, \
        STAGES * 2 * 32 * D * 4, ALIGN, \
        (const void *)gpu_mfma32_forward<D, WAVES, STAGES, OCCUPANCY, ALIGN, GENERAL>},
#define GPU_ROWS_MFMA32(D, WAVES, STAGES, OCCUPANCY) \
    GPU_ROW_MFMA32("mfma32_d" #D, D, WAVES, STAGES, OCCUPANCY, 16, false) \
    GPU_ROW_MFMA32("mfma32_d" #D "_a4", D, WAVES, STAGES, WAVES / 4, 4, false) \
    GPU_ROW_MFMA32("mfma32_d" #D "_masks", D, WAVES, STAGES, WAVES / 4, 4, true)
#else
#define GPU_ROWS_MFMA32(D, WAVES, STAGES, OCCUPANCY)
#endif

/* ---- FMA: chips without f32 matrix products ---- 8 lanes share QUERIES rows of q; each of them
   has KEYS of the 8 KEYS keys of a tile, and D / 8 dims of o:
     s[a][b]     row QUERIES (thread / 8) + a, key KEYS (lane % 8) + b of the tile
     o[a][m]     dims 4 (lane % 8) + 32 m .. + 3 of that row
   The scores take q and K from LDS, four dims at a time. For the second product the weights go
   round the 8 lanes: in turn n a lane has those of lane (lane + n) % 8, and reads the rows of V
   that belong to them, so that the loop is short and each weight moves by one DPP8 instruction for
   D / 8 multiply-adds. The 16-byte pieces of K rows are permuted, piece ^ (key / KEYS % 8): then
   the 8 lanes meet all banks once, as they do in V by their dims. One buffer for K, then V; the
   next of them is on its way in registers meanwhile. */
template <int D, int QUERIES, int KEYS, int ALIGN, bool GENERAL> struct gpu_fma32 {
    enum {
        THREADS = 128,
        BM = THREADS / 8 * QUERIES,
        BN = 8 * KEYS,
        PIECES = D / 4,
        STEP = THREADS / PIECES,
        LOADS = BN / STEP,
        DIMS = D / 32,
        MASKS = GENERAL
    };
    static constexpr float rise = 8.0f * GPU_LN2;

    gpu_seq seq;
    gpu_reach reach;
    int32_t first_row; /* of the workgroup */
    const float *k, *v;
    float4 o[QUERIES][DIMS], next[LOADS];
    float s[QUERIES][KEYS];
    /* from where the maximum is raised: `rise` above it, or -infinity */
    float limit[QUERIES], row_sum[QUERIES];
    /* Lane a of 8 has of row a: the maximum of what was carried, or -infinity; the row's sum until
       then. Where registers are short they lie in LDS, each thread's own. */
    enum { CARRIED, TOTAL, TOTAL_REST, KEPT, KEPT_IN_LDS = D == 64 && QUERIES == 8 };
    float kept_here[KEPT_IN_LDS ? 1 : KEPT];
    __device__ __forceinline__ float kept(int n) const {
        if constexpr (KEPT_IN_LDS)
            return ((const float *)(gpu_lds + (BM + BN) * PIECES))[n * THREADS + gpu_thread()];
        else return kept_here[n];
    }
    __device__ __forceinline__ void keep(int n, float x) {
        if constexpr (KEPT_IN_LDS)
            ((float *)(gpu_lds + (BM + BN) * PIECES))[n * THREADS + gpu_thread()] = x;
        else kept_here[n] = x;
    }
    int32_t bad;

    __device__ __forceinline__ static int32_t row0(const gpu_params &p) {
        return (p.q_tiles - 1 - (int32_t)blockIdx.x) * BM;
    }
    __device__ __forceinline__ static float4 *buffer() { return gpu_lds + BM * PIECES; }

    /* The maximum, or 0 while there is none. */
    __device__ __forceinline__ float base(int a) const {
        return limit[a] == GPU_NEG_INF ? 0.0f : limit[a] - rise;
    }
    template <bool KEY> __device__ __forceinline__ void fetch(const gpu_params &p, int32_t j) {
        gpu_fetch_rows<PIECES, STEP, ALIGN>(next, KEY ? k : v, (KEY ? p.k : p.v).stride[1],
            gpu_thread(), j, seq.k_len, KEY ? p.head_dim : p.v_dim);
    }
    template <bool KEY> __device__ __forceinline__ void store(const gpu_params &p) {
        const int32_t t = gpu_thread(), piece = t % PIECES, row0 = t / PIECES;
        GPU_UNROLL for (int n = 0; n < LOADS; n++) {
            const int32_t row = row0 + n * STEP;
            if (KEY)
                buffer()[row * PIECES + (piece ^ (row / KEYS & 7))] =
                    gpu_fill4<ALIGN>(next[n], 4 * piece, p.head_dim);
            else
                buffer()[row * PIECES + piece] = gpu_tame4<ALIGN>(next[n], 4 * piece, p.v_dim, bad);
        }
    }

    /* The sums of the next row become those of row 0. */
    __device__ __forceinline__ void turn_sums() {
        const float first_limit = limit[0], first_sum = row_sum[0];
        GPU_UNROLL for (int a = 0; a + 1 < QUERIES; a++) {
            limit[a] = limit[a + 1];
            row_sum[a] = row_sum[a + 1];
        }
        limit[QUERIES - 1] = first_limit;
        row_sum[QUERIES - 1] = first_sum;
        GPU_UNROLL for (int m = 0; m < DIMS; m++) {
            const float4 x = o[0][m];
            GPU_UNROLL for (int a = 0; a + 1 < QUERIES; a++)
                o[a][m] = o[a + 1][m];
            o[QUERIES - 1][m] = x;
        }
    }
    /* The sums to memory and to lane a of a row's; at the end, o. One row after the other in the
       first registers: the code is there once. */
    template <bool LAST> __device__ __forceinline__ uint32_t settle(const gpu_params &p) {
        const gpu_seq s = gpu_sequence(p, (int32_t)blockIdx.z);
        const int32_t h = (int32_t)blockIdx.y, t = gpu_thread(), lane = t % 8,
                      i0 = row0(p) + t / 8 * QUERIES;
        uint32_t alive = 0;
        GPU_NO_UNROLL for (int a = 0; a < QUERIES; a++, turn_sums()) {
            const float held = gpu_of_eight(kept(CARRIED), t, a);
            gpu_settling c = gpu_settle_of<LAST>(p, i0 + a < s.q_used && limit[0] != GPU_NEG_INF,
                held != GPU_NEG_INF, gpu_exp2((held - base(0)) * GPU_LOG2E));
            float sum = row_sum[0];
            GPU_UNROLL for (int mask = 1; mask < 8; mask *= 2)
                sum += gpu_wave_xor(sum, mask);
            if (LAST) {
                sum += gpu_of_eight(kept(TOTAL) + kept(TOTAL_REST), t, a) * c.alpha;
                const gpu_end e = gpu_finish(p, s, h, i0 + a, lane == 0,
                    limit[0] == GPU_NEG_INF ? GPU_NEG_INF : base(0), sum);
                c.factor = e.factor;
                c.width = i0 + a < s.q_rows ? p.v_dim : 0;
                alive |= (uint32_t)e.alive << a;
            } else if (c.mask) {
                row_sum[0] = 0.0f;
                if (lane == a) {
                    float total = kept(TOTAL) * c.alpha, rest = kept(TOTAL_REST) * c.alpha;
                    gpu_add_to(total, rest, sum);
                    keep(TOTAL, total);
                    keep(TOTAL_REST, rest);
                    keep(CARRIED, base(0));
                }
            }
            char *row = gpu_o_row(p, s, h, min(i0 + a, s.q_rows - 1));
            GPU_UNROLL for (int m = 0; m < DIMS; m++) {
                float x[4] = {o[0][m].x, o[0][m].y, o[0][m].z, o[0][m].w};
                gpu_settle4<ALIGN, LAST>(p, c, row, 4 * lane + 32 * m, x);
                o[0][m] = make_float4(x[0], x[1], x[2], x[3]);
                gpu_fence(); /* one after the other: registers */
            }
        }
        return alive;
    }

    /* sum = q K, over pieces [c, end) of 4 dims */
    __device__ __forceinline__ void products(float (&sum)[QUERIES][KEYS], int32_t c, int32_t end) {
        const int32_t t = gpu_thread(), lane = t % 8;
        const float4 *query = gpu_lds + t / 8 * QUERIES * PIECES;
        const float4 *key = buffer() + lane * KEYS * PIECES;
        GPU_UNROLL for (int a = 0; a < QUERIES; a++) GPU_UNROLL
            for (int b = 0; b < KEYS; b++) sum[a][b] = 0.0f;
        GPU_NO_UNROLL for (; c < end; c++) {
            float4 q[QUERIES];
            GPU_UNROLL for (int a = 0; a < QUERIES; a++)
                q[a] = query[a * PIECES + c];
            const float4 *at = key + (c ^ lane);
            /* two keys at a time, in an order whose neighbours can issue as a pair: four registers
             * in four banks */
            float4 k0 = at[0], k1 = at[PIECES];
            GPU_UNROLL for (int b = 0; b < KEYS; b += 2) {
                const float4 x = k0, y = k1;
                if (b + 2 < KEYS) {
                    k0 = at[(b + 2) * PIECES];
                    k1 = at[(b + 3) * PIECES];
                }
                GPU_UNROLL for (int a = 0; a < QUERIES; a++) {
                    sum[a][b] = fmaf(q[a].x, x.x, sum[a][b]);
                    sum[a][b + 1] = fmaf(q[a].y, y.y, sum[a][b + 1]);
                }
                GPU_UNROLL for (int a = 0; a < QUERIES; a++) {
                    sum[a][b] = fmaf(q[a].y, x.y, sum[a][b]);
                    sum[a][b + 1] = fmaf(q[a].x, y.x, sum[a][b + 1]);
                }
                GPU_UNROLL for (int a = 0; a < QUERIES; a++) {
                    sum[a][b] = fmaf(q[a].z, x.z, sum[a][b]);
                    sum[a][b + 1] = fmaf(q[a].w, y.w, sum[a][b + 1]);
                }
                GPU_UNROLL for (int a = 0; a < QUERIES; a++) {
                    sum[a][b] = fmaf(q[a].w, x.w, sum[a][b]);
                    sum[a][b + 1] = fmaf(q[a].z, y.z, sum[a][b + 1]);
                }
                gpu_fence();
            }
        }
    }
    /* s = q K */
    __device__ __forceinline__ void scores() {
        products(s, 0, min(GPU_SUM_DIMS, D) / 4);
        GPU_NO_UNROLL for (int c = GPU_SUM_DIMS / 4; c < PIECES; c += GPU_SUM_DIMS / 4) {
            float sum[QUERIES][KEYS];
            products(sum, c, c + GPU_SUM_DIMS / 4);
            GPU_UNROLL for (int a = 0; a < QUERIES; a++) GPU_UNROLL
                for (int b = 0; b < KEYS; b++) s[a][b] += sum[a][b];
        }
    }

    /* The next row of scores becomes row 0, for loops over rows that registers cannot index. */
    __device__ __forceinline__ void turn(void) {
        GPU_UNROLL for (int b = 0; b < KEYS; b++) {
            const float x = s[0][b];
            GPU_UNROLL for (int a = 0; a + 1 < QUERIES; a++)
                s[a][b] = s[a + 1][b];
            s[QUERIES - 1][b] = x;
        }
    }
    template <bool MASKED> __device__ __forceinline__ void weights(const gpu_params &p, int32_t j) {
        const int32_t h = (int32_t)blockIdx.y, i0 = first_row;
        const int32_t t = gpu_thread(), lane = t % 8, r0 = t / 8 * QUERIES;
        const int32_t j0 = j + lane * KEYS;
        /* 1. the mask */
        if (GENERAL) {
            GPU_NO_UNROLL for (int a = 0; a < QUERIES; a++) {
                const gpu_range see = gpu_reach_row(reach, seq, i0, r0 + a);
                const gpu_params &again = gpu_reload(p);
                const gpu_row row = gpu_row_of(again, seq, h, min(i0 + r0 + a, seq.q_used - 1));
                GPU_UNROLL for (int b = 0; b < KEYS; b++)
                    s[0][b] = gpu_modify_in(
                        again, row, see, seq.k_len - 1, j0 + b, again.scale * s[0][b]);
                turn();
            }
        } else if (MASKED) {
            GPU_UNROLL for (int a = 0; a < QUERIES; a++) {
                const gpu_seen seen(gpu_reach_row(reach, seq, i0, r0 + a), j0);
                GPU_UNROLL for (int b = 0; b < KEYS; b++)
                    s[a][b] = seen(b, s[a][b]);
            }
        }

        /* 2. the maximum; the 8 lanes of a row decide alike */
        float top[QUERIES];
        bool raise = false;
        GPU_UNROLL for (int a = 0; a < QUERIES; a++) {
            top[a] = fmaxf(s[a][0], s[a][1]);
            GPU_UNROLL for (int b = 2; b < KEYS; b += 2)
                top[a] = fmaxf(fmaxf(top[a], s[a][b]), s[a][b + 1]);
            raise |= top[a] > limit[a];
        }
        if (gpu_wave_ballot(raise)) {
            GPU_UNROLL for (int a = 0; a < QUERIES; a++) {
                GPU_UNROLL for (int mask = 1; mask < 8; mask *= 2)
                    top[a] = fmaxf(top[a], gpu_wave_xor(top[a], mask));
                const bool up = top[a] > limit[a];
                const float old = !up ? 1.0f
                                  : limit[a] == GPU_NEG_INF
                                      ? 0.0f
                                      : gpu_exp2((limit[a] - (top[a] + rise)) * GPU_LOG2E);
                limit[a] = up ? top[a] + rise : limit[a];
                row_sum[a] *= old;
                GPU_UNROLL for (int m = 0; m < DIMS; m++) {
                    o[a][m].x *= old;
                    o[a][m].y *= old;
                    o[a][m].z *= old;
                    o[a][m].w *= old;
                }
            }
        }

        /* 3. p = exp(s - max); dropout takes some once they are summed */
        GPU_UNROLL for (int a = 0; a < QUERIES; a++) {
            const float max = base(a);
            GPU_UNROLL for (int b = 0; b < KEYS; b++) {
                s[a][b] = gpu_exp2((s[a][b] - max) * GPU_LOG2E);
                row_sum[a] += s[a][b];
            }
        }
        if (GENERAL && (p.masks & MASK_DROPOUT)) {
            GPU_NO_UNROLL for (int a = 0; a < QUERIES; a++) {
                GPU_UNROLL for (int b = 0; b < KEYS; b += 4) {
                    const gpu_words w = gpu_philox(p, (uint32_t)(i0 + r0 + a), (uint32_t)(j0 + b));
                    GPU_UNROLL for (int n = 0; n < 4; n++)
                        s[0][b + n] = gpu_kept(p, w.w[n], s[0][b + n]);
                }
                turn();
            }
        }
    }

    /* o += p V */
    __device__ __forceinline__ void values() {
        const int32_t lane = gpu_thread() % 8;
        const float4 *value = buffer() + (lane * KEYS) * PIECES + lane;
        float4 v, ahead = value[0];
        GPU_NO_UNROLL for (int n = 0; n < 8; n++) {
            GPU_UNROLL for (int b = 0; b < KEYS; b++) GPU_UNROLL
                for (int m = 0; m < DIMS; m++) {
                    v = ahead;
                    if (m + 1 < DIMS) ahead = value[b * PIECES + 8 * (m + 1)];
                    else if (b + 1 < KEYS) ahead = value[(b + 1) * PIECES];
                    else {
                        value = buffer() + (lane + n + 1 & 7) * KEYS * PIECES + lane;
                        ahead = value[0];
                    }
                    if (DIMS > 2 && b % 2 && m + 1 == DIMS) gpu_fence(); /* nor is it put off */
                    GPU_UNROLL for (int a = 0; a < QUERIES; a++) {
                        o[a][m].x = fmaf(s[a][b], v.x, o[a][m].x);
                        o[a][m].y = fmaf(s[a][b], v.y, o[a][m].y);
                        o[a][m].z = fmaf(s[a][b], v.z, o[a][m].z);
                        o[a][m].w = fmaf(s[a][b], v.w, o[a][m].w);
                    }
                    if (DIMS <= 2 && b % 2 && m + 1 == DIMS) gpu_fence();
                }
            GPU_UNROLL for (int a = 0; a < QUERIES; a++) GPU_UNROLL
                for (int b = 0; b < KEYS; b++) s[a][b] = gpu_rotate8(s[a][b]);
        }
    }

    template <bool MASKED> __device__ __forceinline__ void tile(const gpu_params &p, int32_t j) {
        fetch<false>(p, j);
        scores();
        __syncthreads();
        store<false>(p);
        fetch<true>(p, j + BN);
        weights<MASKED>(p, j);
        __syncthreads();
        values();
        __syncthreads();
        store<true>(p);
        __syncthreads();
    }
    __device__ __forceinline__ void run(const gpu_params &at_first) {
        seq = gpu_sequence(at_first, (int32_t)blockIdx.z);
        first_row = row0(at_first);
        if (first_row >= seq.q_rows) return;
        reach = gpu_reach_of(at_first, seq, first_row, BM);
        const gpu_params &p = gpu_reload(at_first);
        const int32_t h = (int32_t)blockIdx.y;
        k = (const float *)p.k.data + seq.k_base + h / p.group * p.k.stride[2];
        v = (const float *)p.v.data + seq.v_base + h / p.group * p.v.stride[2];
        bad = 0;
        keep(CARRIED, GPU_NEG_INF);
        keep(TOTAL, 0.0f);
        keep(TOTAL_REST, 0.0f);
        GPU_UNROLL for (int a = 0; a < QUERIES; a++) {
            row_sum[a] = 0.0f;
            limit[a] = GPU_NEG_INF;
            GPU_UNROLL for (int m = 0; m < DIMS; m++)
                o[a][m] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        if (reach.lo < reach.hi) {
            const float *q = (const float *)p.q.data + seq.q_base + h * p.q.stride[2];
            const float scale = GENERAL ? 1.0f : p.scale;
            const int32_t piece = (int32_t)threadIdx.x % PIECES;
            fetch<true>(p, reach.lo & -BN);
            for (int32_t r = (int32_t)threadIdx.x / PIECES; r < BM; r += STEP)
                gpu_lds[r * PIECES + piece] =
                    gpu_load_q4<ALIGN>(q + min(first_row + r, seq.q_used - 1) * p.q.stride[1],
                        4 * piece, p.head_dim, scale);
            store<true>(p);
            __syncthreads();
            gpu_walk32(*this, p);
        }
        const uint32_t alive = settle<true>(gpu_reload(p));
        gpu_poison<ATTN_F32, THREADS / GPU_WAVE, BM, QUERIES, 1>(gpu_reload(p), h, row0(p),
            bad != 0, (uint32_t *)gpu_lds, (int32_t)threadIdx.x % 8 == 0,
            (int32_t)threadIdx.x / 8 * QUERIES, alive);
    }
};

template <int D, int QUERIES, int KEYS, int ALIGN, bool GENERAL>
__global__ void __launch_bounds__(128) gpu_fma32_forward(gpu_params p) {
    if constexpr (!(GPU_UNITS & UNIT_MFMA_F32)) {
        gpu_fma32<D, QUERIES, KEYS, ALIGN, GENERAL> w;
        w.run(p);
    }
}
#define GPU_ROW_FMA32(name, D, QUERIES, KEYS, ALIGN, GENERAL) \
    {name, UNIT_SCALAR, ATTN_F32, D, D, GENERAL ? ~0 : 0, 16 * QUERIES, 128, \
        (16 * QUERIES + 8 * KEYS) * D * 4 + (D == 64 && QUERIES == 8 ? 3 * 128 * 4 : 0), ALIGN, \
        (const void *)gpu_fma32_forward<D, QUERIES, KEYS, ALIGN, GENERAL>},
#define GPU_ROWS_FMA32(D, QUERIES, KEYS, MASKS_QUERIES) \
    GPU_ROW_FMA32("fma32_d" #D, D, QUERIES, KEYS, 16, false) \
    GPU_ROW_FMA32("fma32_d" #D "_a4", D, QUERIES, KEYS, 4, false) \
    GPU_ROW_FMA32("fma32_d" #D "_masks", D, MASKS_QUERIES, KEYS, 4, true)

/* The matrix rows come first and take all that the others take: those are for chips
 * without the unit. */
/* clang-format off */
#define GPU_ROWS_32 \
    GPU_ROWS_MFMA32(32, 4, 2, 3) \
    GPU_ROWS_MFMA32(64, 8, 2, 4) GPU_ROWS_MFMA32(128, 8, 2, 2) GPU_ROWS_MFMA32(256, 4, 1, 1) \
        GPU_ROWS_FMA32(32, 8, 8, 4) GPU_ROWS_FMA32(64, 8, 8, 4) GPU_ROWS_FMA32(128, 4, 8, 4) \
            GPU_ROWS_FMA32(256, 2, 4, 2)
/* clang-format on */
/* ======================================================================= >>kernel16 mma.sync ====
   f16 and bf16 flash attention forward for NVIDIA, sm_80 and later. A warp owns 16 BLOCKS query
   rows, a workgroup BM = WAVES times as many of one head; K and V come by cp.async, two stages
   of BN keys (BLOCKS = 1, m64n64k16 and no ldmatrix but for q on wgmma, see below):

     s = q k^T        mma.sync m16n8k16: A = q, B = K by ldmatrix
     p = exp2(s * scale - m)
     o = o * alpha + p v         A = p where it is, B = V by ldmatrix.trans

   Lane l, accumulator of 16 rows by 8 keys (dims for o), element e: row l / 4 + 8 (e / 2), key 2
   (l % 4) + e % 2. So a lane has QUERIES = 2 BLOCKS rows (query y: block y / 2, upper half if y is
   odd), four lanes share a row, and two accumulators side by side are the A operand of the second
   product, once rounded to 16 bits:

     A  a[0] row l / 4, k 2 (l % 4) + {0, 1}   a[1] row + 8   a[2] k + 8   a[3] row + 8, k + 8
     B  b[0] k 2 (l % 4) + {0, 1}, column l / 4              b[1] k + 8

   wgmma (sm_90a) takes four warps' 64 rows together, each warp's registers as above, and reads B from
   LDS itself, of panels of 64 dims whose rows of 128 bytes are swizzled (place, descriptor). What
   follows from that: the four warps skip a tile together, what threads wrote to LDS is published
   before the barrier, and registers of products under way are left alone. */
#if GPU_ON_CUDA || defined(GPU_EMULATED)
#if !defined(GPU_EMULATED)
/* Copies of 16 bytes from memory to LDS that go on beside the arithmetic: there after wait(), for
   the thread that began them. take: or 16 bytes of 0, and nothing is read. */
struct gpu_copies {
    __device__ __forceinline__ void copy(char *to, const char *from, bool take) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                         (uint32_t)__cvta_generic_to_shared(to)),
            "l"(__cvta_generic_to_global(from)), "r"(take ? 16 : 0)
            : "memory");
    }
    __device__ __forceinline__ void commit() {
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    __device__ __forceinline__ void wait() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }
    /* An ordinary store to LDS. */
    __device__ __forceinline__ void store(char *to, uint4 x) { *(uint4 *)to = x; }
};
#define GPU_F4(c) "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
#define GPU_WGMMA(TYPE) \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %37, 0;" \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE \
                 " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20," \
                 "%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, p, 1, " \
                 "1, %38;}" \
        : GPU_F4(c[0]), GPU_F4(c[1]), GPU_F4(c[2]), GPU_F4(c[3]), GPU_F4(c[4]), GPU_F4(c[5]), \
        GPU_F4(c[6]), GPU_F4(c[7]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add), "n"(TRANSPOSED))
#define GPU_WGMMA_LDS(TYPE) \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0;" \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE \
                 " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20," \
                 "%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0;}" \
        : GPU_F4(c[0]), GPU_F4(c[1]), GPU_F4(c[2]), GPU_F4(c[3]), GPU_F4(c[4]), GPU_F4(c[5]), \
        GPU_F4(c[6]), GPU_F4(c[7]) \
        : "l"(a), "l"(b), "r"((int)add))
/* Products of a warpgroup, which go on beside its arithmetic. */
struct gpu_wgmma : gpu_copies {
    __device__ __forceinline__ static uint32_t address(const char *in_lds) {
        return (uint32_t)__cvta_generic_to_shared(in_lds);
    }
    /* What this thread wrote to LDS is there for products, of everybody behind the next barrier. */
    __device__ __forceinline__ void publish() {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    /* Products that follow find the values of these registers. */
    template <class... R> __device__ __forceinline__ void fence(R &...registers) {
        (gpu_pin(registers), ...);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    }
    /* c = a b, or c += a b: 64 rows of a, 16 of each warp; c of 64 columns. b: the descriptor of 64
       columns by 16 k in LDS, of rows of columns where TRANSPOSED, else of rows of k. */
    template <int DTYPE, int TRANSPOSED>
    __device__ __forceinline__ void mma(
        float (*c)[4], const uint32_t (&a)[4], uint64_t b, bool add) {
        if constexpr (DTYPE == ATTN_F16) GPU_WGMMA("f16");
        else GPU_WGMMA("bf16");
    }
    /* The same, with a in LDS too: the descriptor of 64 rows of k. */
    template <int DTYPE>
    __device__ __forceinline__ void mma_lds(float (*c)[4], uint64_t a, uint64_t b, bool add) {
        if constexpr (DTYPE == ATTN_F16) GPU_WGMMA_LDS("f16");
        else GPU_WGMMA_LDS("bf16");
    }
    __device__ __forceinline__ void commit_products() {
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }
    /* All products but those of the last LEFT commits are done: these registers have them. */
    template <int LEFT = 0, class... R>
    __device__ __forceinline__ void wait_products(R &...registers) {
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
        (gpu_pin(registers), ...);
    }
};
/* Lane l has elements 2 (l % 4) + {0, 1} of row l / 4 of a matrix of 8 x 8 halves: those of the
   matrix that is turned over. */
__device__ static __forceinline__ uint32_t gpu_turned(uint32_t two) {
    uint32_t x;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(x) : "r"(two));
    return x;
}
#endif
template <int UNIT> struct gpu_async : gpu_copies {};
template <> struct gpu_async<UNIT_SM90> : gpu_wgmma {};
/* wgmma: where in a panel of 64 dims of `rows` rows 16 bytes lie, of a tile that has panels one after
   the other: XORs spread the eight rows that are read together over the banks. */
__device__ static __forceinline__ uint32_t gpu_panel_place(
    uint32_t r, uint32_t chunk, uint32_t rows) {
    return chunk / 8 * (rows * 128) + r * 128 + ((chunk ^ r) % 8 << 4);
}
/* The descriptor of rows that begin at byte `at` of LDS, a multiple of 1024 but for the 32 bytes of a
   step: its place and the 1024 bytes between groups of 8 rows, both in units of 16 bytes; 1 in the
   upper bits: the swizzle of 128. What leads from one panel to the next, 1 here, nothing reads. */
__device__ static __forceinline__ uint64_t gpu_descriptor(uint32_t at) {
    return (uint64_t)(1u << 30 | 1024 >> 4) << 32 | 1u << 16 | (at >> 4 & 0x3fffu);
}
/* What a descriptor grows by where rows begin so many bytes further. */
__device__ static constexpr uint64_t gpu_further(uint32_t bytes) { return bytes >> 4; }
/* LDS that begins at a multiple of 1024 bytes, the period of the swizzle. */
extern __shared__ __attribute__((aligned(1024))) float4 gpu_lds_1024[];

template <int UNIT_, int DTYPE_, int D_, int WAVES_, int BLOCKS_, int BN_, int Q_IN_LDS_,
    int OCCUPANCY_, int MASKS_, int ALIGN_>
struct gpu_shape_mma {
    enum {
        UNIT = UNIT_,
        DTYPE = DTYPE_,
        D = D_,
        MASKS = MASKS_,
        /* beside light weights there are registers for half of that */
        HALF = MASKS_ == (int)MASK_LIGHT,
        BLOCKS = HALF ? 1 : BLOCKS_,
        WAVES = WAVES_ * BLOCKS_ / BLOCKS,
        BN = BN_,
        Q_IN_LDS = Q_IN_LDS_,
        OCCUPANCY = HALF ? OCCUPANCY_ / 2 : OCCUPANCY_,
        ALIGN = ALIGN_
    };
    enum {
        THREADS = 32 * WAVES,
        ROWS = 16 * BLOCKS,
        WGMMA = UNIT_ == (int)UNIT_SM90,
        GROUP = WGMMA ? 4 : 1,                 /* warps that multiply together, and skip together */
        AHEAD = WGMMA && D_ == 128 && !MASKS_, /* scores of the next tile beside this one's rest */
        BM = WAVES * ROWS,
        QUERIES = 2 * BLOCKS,
        STEPS = D / 16,
        KEY_TILES = BN / 8,
        DIM_TILES = D / 8,
        KEY_STEPS = BN / 16,
        CHUNKS = D / 8,
        PITCH = 2 * D,              /* of 16 bytes in a row of K or V; bytes of a row */
        LINE = WGMMA ? 128 : PITCH, /* from a row to the next */
        APART = THREADS / CHUNKS,
        LOADS = BN_ / APART, /* rows of a tile that a thread brings in */
        V_AT = BN_ * PITCH,
        STAGE = 2 * V_AT,
        Q_AT = 2 * STAGE,
        LDS = Q_AT + (Q_IN_LDS ? BM * PITCH : 0)
    };
    static_assert(APART % (WGMMA ? 8 : 4) == 0 && LDS >= 4 * (WAVES + BM), "");
    static_assert(!WGMMA || (BLOCKS == 1 && WAVES % 4 == 0 && D % 64 == 0 && BN % 64 == 0), "");
};

template <class S> struct gpu_flash_mma {
    enum {
        D = S::D,
        BN = S::BN,
        BLOCKS = S::BLOCKS,
        QUERIES = S::QUERIES,
        SCORES = 2 * S::KEY_TILES,
        DIMS = 2 * S::DIM_TILES, /* of a row, in a lane */
        GENERAL = (S::MASKS & ~MASK_LIGHT) != 0,
        CUTS = D <= GPU_SUM_DIMS ? 1 : D / GPU_SUM_DIMS /* of a score's products */
    };

    char *lds;
    gpu_async<S::UNIT> copies;
    bool aligned; /* q, k, v: chunks of 16 bytes; else element by element */
    gpu_reach reach;
    /* from units of s, natural ones in general kernels, to log 2 */
    float scale;

    uint32_t q[S::Q_IN_LDS ? 1 : BLOCKS][S::Q_IN_LDS ? 1 : S::STEPS][4];
    float s[BLOCKS][S::KEY_TILES][4], o[BLOCKS][S::DIM_TILES][4];
    float next[S::AHEAD ? CUTS : 1][S::AHEAD ? S::KEY_TILES : 1][4]; /* AHEAD: scores under way */
    /* m: what P is measured by, in units of s; -infinity: no key yet */
    float m[QUERIES], row_sum[QUERIES], sum_rest[QUERIES];
    float carried[QUERIES];    /* the m of what was carried; -infinity: nothing was */
    gpu_all_keys all[QUERIES]; /* with dropout */
    uint32_t bad;              /* not 0: some V was not finite */
    bool lights;               /* of a general kernel: o shows light weights */

    const char *k_data, *v_data; /* key 0 of the head */

    static constexpr float RAISE = gpu_p_bias<S::DTYPE>::RAISE;

    __device__ __forceinline__ explicit gpu_flash_mma(char *shared) : lds(shared) {}

    /* What is made of the thread's index is made anew wherever it is wanted:
     * registers are dearer. */
    __device__ static __forceinline__ int32_t head() { return (int32_t)blockIdx.y; }
    /* Of the workgroup. Late rows see most keys under a causal mask: they begin first. */
    __device__ static __forceinline__ int32_t row0() {
        int32_t x = (int32_t)blockIdx.x;
        gpu_pin(x);
        return ((int32_t)gridDim.x - 1 - x) * S::BM;
    }
    __device__ static __forceinline__ int32_t quad_lane() { return gpu_thread() % 4; }
    __device__ static __forceinline__ int32_t warp_row() { return gpu_thread() / 32 * S::ROWS; }
    /* Of the warps that multiply together. */
    __device__ static __forceinline__ int32_t group_row() {
        return gpu_thread() / (32 * S::GROUP) * (S::GROUP * S::ROWS);
    }
    /* A lane's row y, counted from the workgroup's first. */
    __device__ static __forceinline__ int32_t row_of(int y) {
        const int32_t x = gpu_thread();
        return x / 32 * S::ROWS + 8 * y + x % 32 / 4;
    }
    /* Where in a tile this thread's first chunk goes, and where this lane's rows of the
       first operands are: keys as B of the first product; rows of q as A, and keys as B of
       the second one. */
    __device__ static __forceinline__ uint32_t to(uint32_t rows) {
        const uint32_t x = (uint32_t)gpu_thread();
        return place(x / S::CHUNKS, x % S::CHUNKS, rows);
    }
    __device__ static __forceinline__ uint32_t k_read() {
        const uint32_t x = (uint32_t)gpu_thread();
        return place(x / 16 % 2 * 8 + x % 8, x / 8 % 2, 0);
    }
    __device__ static __forceinline__ uint32_t v_read() {
        const uint32_t x = (uint32_t)gpu_thread();
        return place(x / 8 % 2 * 8 + x % 8, x / 16 % 2, 0);
    }

    /* ---- from memory to LDS ---- */

    /* XORs spread the eight rows that an ldmatrix reads, and the chunks of a row, over the banks.
       Constant steps of 16 rows or of a chunk's upper bits are plain offsets. wgmma wants panels of
       64 dims, each of `rows` rows of 128 bytes. */
    __device__ static __forceinline__ uint32_t place(uint32_t r, uint32_t chunk, uint32_t rows) {
        if constexpr (S::WGMMA) return gpu_panel_place(r, chunk, rows);
        return r * S::PITCH + ((chunk ^ (D == 32 ? r >> 1 & 3 : r & 7)) << 4);
    }
    /* The place of a thread's chunk n; its first one is in a row whose number has not the
     * bits of APART. */
    __device__ static __forceinline__ uint32_t further(uint32_t first, int n) {
        return (first ^ (uint32_t)(n * S::APART & (D == 32 ? 0 : 7)) << 4) + n * S::APART * S::LINE;
    }
    /* Eight elements, chunk by chunk or, from rows that lie anywhere, one by one; 0 beyond dim
     * and where !take. */
    __device__ __forceinline__ void bring(
        char *to_lds, const char *from, int32_t d, int32_t dim, bool take) {
        if (S::ALIGN >= 16 || aligned) {
            take = take && d < dim;
            copies.copy(to_lds, from, take);
        } else {
            uint32_t x[4] = {0, 0, 0, 0};
            GPU_UNROLL for (int e = 0; e < 8; e++)
                if (take && d + e < dim)
                    x[e / 2] |= (uint32_t)((const uint16_t *)from)[e] << e % 2 * 16;
            copies.store(to_lds, make_uint4(x[0], x[1], x[2], x[3]));
        }
    }
    /* Tile t of K or of V. EDGE: it may end beyond the last key. */
    template <bool EDGE>
    __device__ __forceinline__ void bring_tile(
        const gpu_params &p, const gpu_seq &seq, int32_t t, bool key) {
        const int32_t x = gpu_thread(), j0 = t * BN + x / S::CHUNKS, d = x % S::CHUNKS * 8;
        char *to_lds = lds + (t & 1) * S::STAGE + (key ? 0 : S::V_AT);
        const uint32_t first = to(BN);
        const int64_t stride = 2 * (key ? p.k.stride[1] : p.v.stride[1]);
        const char *base = (key ? k_data : v_data) + 2 * d, *from = base + j0 * stride;
        GPU_UNROLL for (int n = 0; n < S::LOADS; n++) {
            const int32_t j = j0 + n * S::APART;
            if (EDGE) from = base + min(j, seq.k_len - 1) * stride;
            else if (n) from += S::APART * stride;
            bring(to_lds + further(first, n), from, d, key ? p.head_dim : p.v_dim,
                !EDGE || j < seq.k_len);
        }
    }
    template <bool EDGE>
    __device__ __forceinline__ void fetch(const gpu_params &p, const gpu_seq &seq, int32_t t) {
        bring_tile<EDGE>(p, seq, t, true);
        bring_tile<EDGE>(p, seq, t, false);
        copies.commit();
    }
    /* What this thread brought of V: 0 where it is not finite. */
    __device__ __forceinline__ void tame(uint32_t stage) {
        char *values = lds + stage + S::V_AT;
        const uint32_t first = to(BN);
        GPU_UNROLL for (int n = 0; n < S::LOADS; n++) {
            char *at = values + further(first, n);
            const uint4 v = *(const uint4 *)at;
            uint32_t x[4] = {v.x, v.y, v.z, v.w}, met = 0;
            GPU_UNROLL for (int w = 0; w < 4; w++) {
                const uint32_t these = gpu_not_finite2<S::DTYPE>(x[w]);
                x[w] &= ~((these >> 15) * 0xffffu);
                met |= these;
            }
            if (met) copies.store(at, make_uint4(x[0], x[1], x[2], x[3]));
            bad |= met;
        }
    }
    __device__ __forceinline__ void load_q(const gpu_params &p, const gpu_seq &seq) {
        const char *base = p.q.data + 2 * (seq.q_base + head() * p.q.stride[2]);
        if (S::Q_IN_LDS) {
            const int32_t x = gpu_thread(), r0 = x / S::CHUNKS, d = x % S::CHUNKS * 8;
            const uint32_t first = to(S::BM);
            GPU_UNROLL for (int n = 0; n < S::BM / S::APART; n++)
                bring(lds + S::Q_AT + further(first, n),
                    base +
                        2 * (min(row0() + r0 + n * S::APART, seq.q_used - 1) * p.q.stride[1] + d),
                    d, p.head_dim, true);
        } else {
            GPU_UNROLL for (int n = 0; n < 4 * BLOCKS; n++) {
                const int32_t i = min(row0() + row_of(n / 4 * 2 + n % 2), seq.q_used - 1);
                const char *from = base + 2 * (i * p.q.stride[1]);
                GPU_UNROLL for (int step = 0; step < S::STEPS; step++) {
                    const int32_t d = 16 * step + n / 2 % 2 * 8 + quad_lane() * 2;
                    q[S::Q_IN_LDS ? 0 : n / 4][S::Q_IN_LDS ? 0 : step][n % 4] =
                        gpu_row_pair(from, d, p.head_dim, S::ALIGN >= 16 || aligned);
                }
            }
        }
    }

    /* ---- a tile ---- */

    /* Of row y score n of SCORES and sum n of DIMS; its key or dim, from the lane's first on. */
    __device__ __forceinline__ float &score(int y, int n) {
        return s[y / 2][n / 2][y % 2 * 2 + n % 2];
    }
    __device__ __forceinline__ float &sum_of(int y, int n) {
        return o[y / 2][n / 2][y % 2 * 2 + n % 2];
    }
    __device__ __forceinline__ static constexpr int key_of(int n) { return n / 2 * 8 + n % 2; }

    /* The rows of a lane, of `rows` in all, begin at `read`; 16 elements further is a step. */
    __device__ __forceinline__ const char *step_of(
        uint32_t base, uint32_t read, int step, int rows = BN) const {
        return lds + base + (read ^ (uint32_t)(step & 3) << 5) +
               (step >> 2) * (S::WGMMA ? rows * 128 : 128);
    }
    /* Of 64 rows of K, or of 16 of V, that begin at `at` of LDS. */
    __device__ __forceinline__ uint64_t descriptor(uint32_t at) const {
        if constexpr (S::WGMMA) return gpu_descriptor(copies.address(lds + at));
        return 0;
    }
    __device__ __forceinline__ void products_qk(uint32_t stage) {
        float sum[BLOCKS][S::KEY_TILES][4];
        const uint32_t keys = k_read(), q_read = S::Q_IN_LDS ? v_read() : 0;
        const uint64_t keys_at = descriptor(stage);
        const uint32_t queries = S::Q_IN_LDS ? S::Q_AT + warp_row() * S::LINE : 0;
        uint32_t all[S::STEPS][BLOCKS][4]; /* those in flight stay as they are */
        GPU_UNROLL for (int step = 0; step < S::STEPS; step++) {
            uint32_t(&a)[BLOCKS][4] = all[step];
            GPU_UNROLL for (int b = 0; b < BLOCKS; b++)
                if (S::Q_IN_LDS) {
                    gpu_ldmatrix<false>(
                        a[b], step_of(queries + b * 16 * S::LINE, q_read, step, S::BM));
                } else {
                    GPU_UNROLL for (int e = 0; e < 4; e++)
                        a[b][e] = q[S::Q_IN_LDS ? 0 : b][S::Q_IN_LDS ? 0 : step][e];
                }
            if constexpr (S::WGMMA) {
                const int cut = step % (GPU_SUM_DIMS / 16);
                if (cut) copies.fence(a);
                else copies.fence(sum, a);
                GPU_UNROLL for (int n = 0; n < BN / 64; n++)
                    copies.template mma<S::DTYPE, false>(&sum[0][8 * n], a[0],
                        keys_at +
                            gpu_further(step / 4 * (BN * 128) + n * (64 * 128) + step % 4 * 32),
                        cut != 0);
                copies.commit_products();
                if (cut + 1 == GPU_SUM_DIMS / 16 || step + 1 == S::STEPS) copies.wait_products(sum);
            } else {
                if (step % (GPU_SUM_DIMS / 16) == 0) GPU_UNROLL
                    for (int b = 0; b < BLOCKS; b++) GPU_UNROLL
                        for (int n = 0; n < S::KEY_TILES; n++) GPU_UNROLL
                            for (int e = 0; e < 4; e++) sum[b][n][e] = 0.0f;
                GPU_UNROLL for (int n = 0; n < S::KEY_TILES; n += 2) {
                    uint32_t k[4];
                    gpu_ldmatrix<false>(k, step_of(stage + n * 8 * S::PITCH, keys, step));
                    GPU_UNROLL for (int b = 0; b < BLOCKS; b++) {
                        gpu_mma<S::DTYPE>(sum[b][n], a[b], k[0], k[1]);
                        gpu_mma<S::DTYPE>(sum[b][n + 1], a[b], k[2], k[3]);
                    }
                }
            }
            if ((step + 1) % (GPU_SUM_DIMS / 16) == 0 || step + 1 == S::STEPS) GPU_UNROLL
                for (int b = 0; b < BLOCKS; b++) GPU_UNROLL
                    for (int n = 0; n < S::KEY_TILES; n++) GPU_UNROLL
                        for (int e = 0; e < 4; e++)
                            s[b][n][e] =
                                step < GPU_SUM_DIMS / 16 ? sum[b][n][e] : s[b][n][e] + sum[b][n][e];
        }
    }
    /* Softcap, bias, ALiBi, boolean mask, ranges and dropout. Eight keys at a time in the first
       registers, which then go round: the code is there once. */
    __device__ __forceinline__ void modify(const gpu_params &p, const gpu_seq &seq, int32_t key0) {
        gpu_row row[QUERIES];
        gpu_range sees[QUERIES];
        GPU_UNROLL for (int y = 0; y < QUERIES; y++) {
            row[y] = gpu_row_of(p, seq, head(), min(row0() + row_of(y), seq.q_used - 1));
            sees[y] = gpu_reach_row(reach, seq, row0(), row_of(y));
        }
        GPU_NO_UNROLL for (int n = 0; n < S::KEY_TILES; n++, key0 += 8) {
            GPU_UNROLL for (int y = 0; y < QUERIES; y++) {
                float x[2];
                GPU_UNROLL for (int e = 0; e < 2; e++)
                    x[e] = gpu_modify_in(
                        p, row[y], sees[y], seq.k_len - 1, key0 + e, score(y, e) * p.scale);
                if (p.masks & MASK_DROPOUT) all[y].drop(p, row0() + row_of(y), key0, x);
                GPU_UNROLL for (int n = 0; n < SCORES; n++)
                    score(y, n) = n + 2 < SCORES ? score(y, (n + 2) % SCORES) : x[n % 2];
            }
        }
    }
    /* Keys that a row does not see. key0: of the lane's first score */
    __device__ __forceinline__ void hide(const gpu_seq &seq, int32_t key0) {
        GPU_UNROLL for (int y = 0; y < QUERIES; y++) {
            const gpu_seen seen(gpu_reach_row(reach, seq, row0(), row_of(y)), key0);
            GPU_UNROLL for (int n = 0; n < SCORES; n++)
                score(y, n) = seen(key_of(n), score(y, n));
        }
    }
    __device__ __forceinline__ float base_of(int y) const {
        return m[y] == GPU_NEG_INF ? 0.0f : m[y];
    }
    /* m follows the maximum of a row only when that has grown by more than 2^GROWTH, and a row does
       so for itself alone, so that its bits do not depend on its neighbours. */
    __device__ __forceinline__ void follow_max() {
        float top[QUERIES];
        bool grows = false;
        GPU_UNROLL for (int y = 0; y < QUERIES; y++) {
            top[y] = GPU_NEG_INF;
            GPU_UNROLL for (int n = 0; n < SCORES; n++)
                top[y] = fmaxf(top[y], score(y, n));
            grows |= (top[y] - m[y]) * scale > gpu_p_bias<S::DTYPE>::GROWTH;
        }
        if (!gpu_wave_ballot(grows)) return;
        GPU_UNROLL for (int y = 0; y < QUERIES; y++) {
            top[y] = fmaxf(top[y], gpu_wave_xor(top[y], 1));
            top[y] = fmaxf(top[y], gpu_wave_xor(top[y], 2));
            if (!((top[y] - m[y]) * scale > gpu_p_bias<S::DTYPE>::GROWTH)) continue;
            const float alpha = gpu_exp2((m[y] - top[y]) * scale);
            m[y] = top[y];
            row_sum[y] *= alpha;
            sum_rest[y] *= alpha;
            GPU_UNROLL for (int n = 0; n < DIMS; n++)
                sum_of(y, n) *= alpha;
        }
    }
    /* Log 2 of a score's weight, by its row's shift. A general row may be as far from 0 as numbers go. */
    __device__ __forceinline__ float exponent(float x, float shift) const {
        return GENERAL ? fmaf(x + shift, scale, RAISE) : fmaf(x, scale, shift);
    }
    /* o += a V, of key step `step`. */
    __device__ __forceinline__ void multiply(
        uint32_t stage, int step, const uint32_t (&a)[BLOCKS][4]) {
        GPU_UNROLL for (int n = 0; n < S::DIM_TILES; n += 2) {
            uint32_t v[4];
            gpu_ldmatrix<true>(v, step_of(stage + S::V_AT + step * 16 * S::LINE, v_read(), n / 2));
            GPU_UNROLL for (int b = 0; b < BLOCKS; b++) {
                gpu_mma<S::DTYPE>(o[b][n], a[b], v[0], v[1]);
                gpu_mma<S::DTYPE>(o[b][n + 1], a[b], v[2], v[3]);
            }
        }
    }
    /* The products of light weights (gpu_light), whose scores are -infinity then. By mma.sync on every
       chip: each warp may have its own. */
    __device__ __forceinline__ void products_light(uint32_t stage, const float (&shift)[QUERIES]) {
        typedef gpu_light<S::DTYPE> light;
        float least = 0.0f;
        GPU_UNROLL for (int y = 0; y < QUERIES; y++) {
            float low = -GPU_NEG_INF;
            GPU_UNROLL for (int n = 0; n < SCORES; n++)
                low = fminf(low, score(y, n));
            least = fminf(least, exponent(low, shift[y]));
        }
        if (!gpu_wave_ballot(least < light::LEAST)) return;
        least = 0.0f;
        GPU_UNROLL for (int y = 0; y < QUERIES; y++) GPU_UNROLL
            for (int n = 0; n < SCORES; n++)
                least = fminf(least, light::seen(exponent(score(y, n), shift[y])));
        GPU_NO_UNROLL for (int by = light::STEP; light::goes_on(least, by); by += light::STEP) {
            const float until = light::until(by), up = (float)by;
            GPU_UNROLL for (int y = 0; y < QUERIES; y++) {
                GPU_UNROLL for (int n = 0; n < DIMS; n++)
                    sum_of(y, n) *= light::power(by);
            }
            float sum[QUERIES] = {};
            GPU_UNROLL for (int step = 0; step < S::KEY_STEPS; step++) {
                uint32_t a[BLOCKS][4];
                GPU_UNROLL for (int b = 0; b < BLOCKS; b++) GPU_UNROLL
                    for (int n = 0; n < 4; n++) {
                        const int y = 2 * b + n % 2;
                        float w[2];
                        GPU_UNROLL for (int i = 0; i < 2; i++) {
                            float &x = score(y, 4 * step + n / 2 * 2 + i);
                            w[i] = light::take(exponent(x, shift[y]) + up, until, x);
                            sum[y] += w[i];
                        }
                        a[b][n] = gpu_pack<S::DTYPE>(w[0], w[1]);
                    }
                multiply(stage, step, a);
            }
            GPU_UNROLL for (int y = 0; y < QUERIES; y++) {
                gpu_add_to(row_sum[y], sum_rest[y], sum[y] * light::power(-by));
                GPU_UNROLL for (int n = 0; n < DIMS; n++)
                    sum_of(y, n) *= light::power(-by);
            }
        }
    }
    __device__ __forceinline__ void products_pv(uint32_t stage) {
        const uint64_t values_at = descriptor(stage + S::V_AT);
        float sum[QUERIES], shift[QUERIES];
        bool far = false;
        GPU_UNROLL for (int y = 0; y < QUERIES; y++) {
            sum[y] = 0.0f;
            shift[y] = GENERAL ? -base_of(y) : fmaf(-base_of(y), scale, RAISE);
            far |= gpu_far(shift[y]);
        }
        if (!GENERAL && gpu_wave_ballot(far)) GPU_UNROLL
            for (int y = 0; y < QUERIES; y++) {
                const float less = gpu_far(shift[y]) ? base_of(y) : 0.0f;
                GPU_UNROLL for (int n = 0; n < SCORES; n++)
                    score(y, n) -= less;
                if (gpu_far(shift[y])) shift[y] = RAISE;
            }
        if constexpr (S::MASKS & gpu_light<S::DTYPE>::MASK)
            if (!GENERAL || lights) products_light(stage, shift);
        uint32_t all[S::KEY_STEPS][BLOCKS][4]; /* as of the scores */
        GPU_UNROLL for (int step = 0; step < S::KEY_STEPS; step++) {
            uint32_t(&a)[BLOCKS][4] = all[step];
            GPU_UNROLL for (int b = 0; b < BLOCKS; b++) GPU_UNROLL
                for (int n = 0; n < 4; n++) {
                    const int y = 2 * b + n % 2;
                    const float *x = &s[b][2 * step + n / 2][n % 2 * 2];
                    const float low = gpu_exp2(exponent(x[0], shift[y])),
                                high = gpu_exp2(exponent(x[1], shift[y]));
                    sum[y] += low + high;
                    a[b][n] = gpu_pack<S::DTYPE>(low, high);
                }
            if constexpr (S::WGMMA) { /* beside the exponentials of the next step */
                if (step) copies.fence(a);
                else copies.fence(o, a);
                GPU_UNROLL for (int n = 0; n < D / 64; n++)
                    copies.template mma<S::DTYPE, true>(&o[0][8 * n], a[0],
                        values_at + gpu_further(n * (BN * 128) + step * (16 * 128)), true);
                copies.commit_products();
            } else multiply(stage, step, a);
        }
        if constexpr (S::AHEAD) copies.wait_products(o, next);
        else if constexpr (S::WGMMA) copies.wait_products(o);
        GPU_UNROLL for (int y = 0; y < QUERIES; y++)
            gpu_add_to(row_sum[y], sum_rest[y], sum[y]);
    }
    /* The upper halves of this lane's sums to memory, as bf16 at the front of the row of o,
       whatever its type; or, at the end, what is there back into the sums. */
    template <bool BACK>
    __device__ __forceinline__ void carry(const gpu_params &p, const gpu_seq &seq) {
        GPU_UNROLL for (int y = 0; y < QUERIES; y++) {
            const int32_t i = row0() + row_of(y);
            const bool first = carried[y] == GPU_NEG_INF;
            if (i >= seq.q_used || m[y] == GPU_NEG_INF || (BACK && first)) continue;
            const float alpha = first ? 0.0f : gpu_exp2((carried[y] - m[y]) * scale);
            uint16_t *there = (uint16_t *)gpu_o_row(p, seq, head(), i);
            GPU_UNROLL for (int n = 0; n < DIMS; n++) {
                const int32_t d = key_of(n) + 2 * quad_lane();
                float &sum = sum_of(y, n);
                if (d >= p.v_dim) continue;
                const float x = first ? 0.0f : __uint_as_float((uint32_t)there[d] << 16);
                if (BACK) sum += x * alpha;
                else
                    there[d] =
                        (uint16_t)(__float_as_uint(gpu_carry(x, alpha, 0xffff0000u, sum)) >> 16);
            }
            carried[y] = m[y];
        }
    }
    /* Tile t, which is on its way to this stage, the next one to the other. EDGE: some row may
       see it in part, or the next one may end beyond the last key. One barrier: everything that a
       thread brought is there before it, and everyone is done with the other stage. */
    template <bool EDGE>
    __device__ __forceinline__ void tile(
        const gpu_params &p, const gpu_seq &seq, int32_t t, int32_t end) {
        const uint32_t stage = (uint32_t)(t & 1) * S::STAGE;
        copies.wait();
        if (EDGE) tame(stage);
        if constexpr (S::WGMMA) copies.publish();
        __syncthreads();
        if (t + 1 < end) fetch<EDGE>(p, seq, t + 1);
        bool masked = false;
        if (EDGE) {
            const int32_t first_row = group_row(),
                          last_row =
                              min(first_row + (int32_t)(S::GROUP * S::ROWS), seq.q_used - row0()) -
                              1;
            if (last_row < first_row) return;
            const gpu_range first = gpu_reach_row(reach, seq, row0(), first_row);
            const gpu_range last = gpu_reach_row(reach, seq, row0(), last_row);
            if (t * BN >= last.hi || (t + 1) * BN <= first.lo) return;
            masked = (t + 1) * BN > first.hi || t * BN < last.lo;
        }
        products_qk(stage);
        const int32_t key0 = t * BN + quad_lane() * 2;
        if (GENERAL) modify(p, seq, key0);
        else if (EDGE && masked) hide(seq, key0);
        follow_max();
        products_pv(stage);
    }

    /* The products of the scores of the tile in this stage begin. */
    __device__ __forceinline__ void start_qk(uint32_t stage) {
        if constexpr (S::AHEAD) {
            const uint64_t keys = descriptor(stage);
            copies.fence(next, q);
            GPU_UNROLL for (int step = 0; step < S::STEPS; step++) GPU_UNROLL
                for (int n = 0; n < BN / 64; n++)
                    copies.template mma<S::DTYPE, false>(&next[step * 16 / GPU_SUM_DIMS][8 * n],
                        q[0][step],
                        keys + gpu_further(step / 4 * (BN * 128) + n * (64 * 128) + step % 4 * 32),
                        step % (GPU_SUM_DIMS / 16) != 0);
            copies.commit_products();
        }
    }
    /* Of 0 .. end: the tiles that some row of the warps that multiply together sees. */
    __device__ __forceinline__ gpu_range group_tiles(const gpu_seq &seq, int32_t end) {
        const int32_t first_row = group_row(),
                      last_row =
                          min(first_row + (int32_t)(S::GROUP * S::ROWS), seq.q_used - row0()) - 1;
        gpu_range tiles = {end, end};
        if (last_row < first_row) return tiles;
        tiles.lo = gpu_reach_row(reach, seq, row0(), first_row).lo / BN;
        tiles.hi = (gpu_reach_row(reach, seq, row0(), last_row).hi + BN - 1) / BN;
        return tiles;
    }
    /* AHEAD: tile t, whose scores are made; V of t and K of t + 1 are on their way to their stages,
       and what is fetched here goes to the other ones, where V of t - 1 and K of t were. The
       products of tile t + 1 go on beside the exponentials of this one. */
    template <bool EDGE>
    __device__ __forceinline__ void tile_ahead(
        const gpu_params &p, const gpu_seq &seq, int32_t t, int32_t end) {
        if constexpr (S::AHEAD) {
            const uint32_t stage = (uint32_t)(t & 1) * S::STAGE;
            copies.wait();
            if (EDGE) tame(stage);
            copies.publish();
            __syncthreads();
            if (!EDGE || t + 2 < end) bring_tile<EDGE>(p, seq, t + 2, true);
            if (!EDGE || t + 1 < end) bring_tile<EDGE>(p, seq, t + 1, false);
            copies.commit();
            GPU_UNROLL for (int n = 0; n < S::KEY_TILES; n++) GPU_UNROLL
                for (int e = 0; e < 4; e++) {
                    s[0][n][e] = next[0][n][e];
                    GPU_UNROLL for (int cut = 1; cut < CUTS; cut++)
                        s[0][n][e] += next[cut][n][e];
                }
            if (EDGE) {
                const gpu_range tiles = group_tiles(seq, end);
                if (t + 1 >= tiles.lo && t + 1 < tiles.hi) start_qk(stage ^ S::STAGE);
                if (t >= tiles.lo && t < tiles.hi) {
                    hide(seq, t * BN + quad_lane() * 2);
                    follow_max();
                    products_pv(stage);
                } else copies.wait_products(next);
            } else {
                start_qk(stage ^ S::STAGE);
                follow_max();
                products_pv(stage);
            }
        }
    }

    /* ---- the end ---- */

    /* x[n]: this lane's two of eight dims of group n. Then lane q of four has all eight of group q,
     * in x[0] .. x[3]. */
    __device__ __forceinline__ void turn(float (&x)[4][2]) const {
        GPU_UNROLL for (int distance = 1; distance < 4; distance *= 2) {
            const bool upper = gpu_thread() & distance;
            GPU_UNROLL for (int n = 0; n < 4; n++) {
                if (n & distance) continue;
                GPU_UNROLL for (int e = 0; e < 2; e++) {
                    const float got = gpu_wave_xor(upper ? x[n][e] : x[n + distance][e], distance);
                    x[n][e] = upper ? got : x[n][e];
                    x[n + distance][e] = upper ? x[n + distance][e] : got;
                }
            }
        }
    }
    __device__ __forceinline__ void finish(const gpu_params &p, const gpu_seq &seq) {
        uint32_t alive = 0;
        GPU_UNROLL for (int y = 0; y < QUERIES; y++) {
            const int32_t i = row0() + row_of(y);
            float sum = (row_sum[y] + sum_rest[y]) * gpu_p_bias<S::DTYPE>::LOWER,
                  top = m[y] == GPU_NEG_INF ? GPU_NEG_INF
                        : GENERAL           ? m[y]
                                            : m[y] * p.scale,
                  kept = gpu_p_bias<S::DTYPE>::LOWER;
            sum += gpu_wave_xor(sum, 1);
            sum += gpu_wave_xor(sum, 2);
            if (GENERAL && (p.masks & MASK_DROPOUT)) {
                float both = fmaxf(all[y].max, gpu_wave_xor(all[y].max, 1));
                both = fmaxf(both, gpu_wave_xor(both, 2));
                const float at = both == GPU_NEG_INF ? 0.0f : both;
                sum = (all[y].sum + all[y].rest) * gpu_exp2((all[y].max - at) * GPU_LOG2E);
                sum += gpu_wave_xor(sum, 1);
                sum += gpu_wave_xor(sum, 2);
                kept *= p.dropout_scale * gpu_exp2((top - at) * GPU_LOG2E);
                top = both;
            }
            const gpu_end e = gpu_finish(p, seq, head(), i, quad_lane() == 0, top, sum);
            const float factor = e.factor * kept;
            alive |= (uint32_t)e.alive << y;
            char *row = gpu_o_row(p, seq, head(), i);
            GPU_UNROLL for (int g = 0; g < S::DIM_TILES; g += 4) {
                float x[4][2], z[8];
                GPU_UNROLL for (int n = 0; n < 8; n++)
                    x[n / 2][n % 2] = e.kept() ? sum_of(y, 2 * g + n) * factor : 0.0f;
                turn(x);
                GPU_UNROLL for (int n = 0; n < 8; n++)
                    z[n] = x[n / 2][n % 2];
                if (i < seq.q_rows) gpu_store8<S::ALIGN>(p, row, (g + quad_lane()) * 8, z);
            }
        }
        __syncthreads(); /* LDS is free */
        gpu_poison<S::DTYPE, S::WAVES, S::BM, QUERIES, 8>(
            p, head(), row0(), bad != 0, (uint32_t *)lds, quad_lane() == 0, row_of(0), alive);
    }

    __device__ __forceinline__ void run(const gpu_params &p) {
        const gpu_seq seq = gpu_sequence(p, (int32_t)blockIdx.z);
        if (row0() >= seq.q_rows) return;
        aligned = S::ALIGN >= 16 || gpu_aligned16(p);
        lights = GENERAL && p.o_dtype != ATTN_F16;
        scale = GENERAL ? GPU_LOG2E : p.scale_log2; /* without MASK_SCALE in (2^-100, 2^100) */
        bad = 0;
        GPU_UNROLL for (int y = 0; y < QUERIES; y++) {
            m[y] = carried[y] = GPU_NEG_INF;
            row_sum[y] = sum_rest[y] = 0.0f;
            all[y].begin();
            GPU_UNROLL for (int n = 0; n < DIMS; n++)
                sum_of(y, n) = 0.0f;
        }

        reach = gpu_reach_of(p, seq, row0(), S::BM);
        int32_t t = reach.lo / BN;
        const int32_t end = (reach.hi + BN - 1) / BN;
        if (reach.lo < reach.hi) {
            const int32_t kv_head = head() / p.group;
            k_data = p.k.data + 2 * (seq.k_base + kv_head * p.k.stride[2]);
            v_data = p.v.data + 2 * (seq.v_base + kv_head * p.v.stride[2]);
            load_q(p, seq);
            /* middle tiles: whole for all rows, and so is the next, unless there is none; AHEAD:
             * and so are the next two */
            const int32_t whole = (reach.whole_lo + BN - 1) / BN,
                          whole_end = GENERAL ? 0 : reach.whole_hi / BN;
            const int32_t middle_end = S::AHEAD           ? whole_end - 2
                                       : whole_end == end ? end
                                                          : whole_end - 1;
            if constexpr (S::AHEAD) {
                bring_tile<true>(p, seq, t, true);
                copies.commit();
                copies.wait();
                copies.publish();
                __syncthreads();
                bring_tile<true>(p, seq, t, false);
                if (t + 1 < end) bring_tile<true>(p, seq, t + 1, true);
                copies.commit();
                start_qk((uint32_t)(t & 1) * S::STAGE);
                copies.wait_products(next);
            } else fetch<true>(p, seq, t);
            const int32_t start = t, period = GPU_CARRY_KEYS / BN;
            while (t < end) {
                const int32_t left = period - t % period, stop = end - t < left ? end : t + left;
                if (left == period && t > start) carry<false>(p, seq);
                for (; t >= whole && t < middle_end && t < stop; t++)
                    if (S::AHEAD) tile_ahead<false>(p, seq, t, end);
                    else tile<false>(p, seq, t, end);
                if (t < stop) {
                    if (S::AHEAD) tile_ahead<true>(p, seq, t++, end);
                    else tile<true>(p, seq, t++, end);
                }
            }
        }
        /* made anew, so that the loop need not keep it */
        const gpu_params &again = gpu_reload(p);
        int32_t b = (int32_t)blockIdx.z;
        gpu_pin(b);
        const gpu_seq last = gpu_sequence(again, b);
        carry<true>(again, last);
        gpu_wave_has_read(); /* rows of o that are written now, at other places */
        finish(again, last);
    }
};

#if GPU_ON_CUDA && !(defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700)
/* its address may be taken without a copy of it */
#define GPU_PARAMS const __grid_constant__ gpu_params
#define GPU_GRAD_PARAMS const __grid_constant__ gpu_grad_params
#define GPU_CACHE_PARAMS const __grid_constant__ gpu_cache_params
#else
#define GPU_PARAMS gpu_params
#define GPU_GRAD_PARAMS gpu_grad_params
#define GPU_CACHE_PARAMS gpu_cache_params
#endif
template <class S>
__global__ void __launch_bounds__(S::THREADS, S::OCCUPANCY) gpu_flash_mma_forward(GPU_PARAMS p) {
    if constexpr (GPU_UNITS & (int)S::UNIT) {
        gpu_flash_mma<S> f((char *)(S::WGMMA ? gpu_lds_1024 : gpu_lds));
        f.run(p);
    }
}

/* ---- gradients on wgmma ---- */

/* As gpu_grad_matrix, of the same columns and rows. A warpgroup has 64 columns, its warps 16 each, as
   the rows of wgmma: s and dp are sums in the order of the forward's scores, P and ds turn into its
   operands where they are, and x and y have a column's dims. Columns and tiles of rows lie in LDS,
   each once: products read it as rows and turned alike. So what no column may multiply by is made
   finite there when s and dp are done. */
template <class S> struct gpu_grad_wgmma : gpu_grad_matrix<S> {
    typedef gpu_grad_matrix<S> B;
    using B::arguments, B::head, B::lds, B::rows, B::see, B::told, B::wave_column;
    using B::next_head, B::from_first, B::from_second, B::bad_first, B::bad_second;
    enum {
        D = S::D,
        BN = S::BN,
        BM = S::BM,
        ROW_TILES = BN / 8,
        DIM_TILES = D / 8,
        CHUNKS = D / 8,
        APART = S::THREADS / CHUNKS,
        OWN = BM * 2 * D,  /* bytes of the columns of q or k; those of dout or v follow */
        TILE = BN * 2 * D, /* of a tile of k or q; that of v or dout follows */
        STAGE = 2 * TILE,
        /* the last products of a tile go on until the scores of the next are there, where there is
           room for another stage and nothing else touches the sums (follow): else ptxas lets no
           product go on */
        LATE = D == 64 && !S::RANGED,
        STAGES = LATE ? 3 : 2,
        TOLD_AT = 2 * OWN + STAGES * STAGE,
        LDS = TOLD_AT + STAGES * 2 * BN * 4
    };
    static_assert(APART % 8 == 0 && BN % APART == 0 && BM % APART == 0 && BM % 64 == 0, "");
    static_assert(B::COLUMNS == 2 && S::X && !S::SPLIT && S::THREADS >= 2 * BN, "");

    gpu_async<UNIT_SM90> copies;
    float s[ROW_TILES][4], dp[ROW_TILES][4];
    float sum_x[DIM_TILES][4], sum_y[S::Y ? DIM_TILES : 1][4];
    float by_x[2], by_y[2]; /* what ds and P of f16 go times */
    float own_lse[2], own_delta[2];
    int32_t stage; /* what the next tile goes to, of STAGES */

    __device__ __forceinline__ gpu_grad_wgmma(char *shared, const gpu_grad_params &g)
        : B(shared, (float *)(shared + TOLD_AT), g) {}
    __device__ static __forceinline__ int32_t quad_lane() { return gpu_thread() % 4; }
    __device__ __forceinline__ uint64_t descriptor(uint32_t at) const {
        return gpu_descriptor(copies.address(lds + at));
    }

    /* ---- from memory ---- */

    /* N rows from row `first` on, of which those outside [low, high] are the ones at the ends, to byte
       `to` of LDS. */
    template <int N, bool EDGE>
    __device__ __forceinline__ void bring(
        uint32_t to, const gpu_grad_rows &x, int32_t first, int32_t low, int32_t high) {
        const int32_t my = gpu_thread(), r0 = my / CHUNKS, d = my % CHUNKS * 8;
        const uint32_t place = gpu_panel_place(r0, my % CHUNKS, N);
        const char *base = (const char *)x.data + 2 * d, *from = base + (first + r0) * x.stride;
        GPU_UNROLL for (int n = 0; n < N / APART; n++) {
            if (EDGE) from = base + max(min(first + r0 + n * APART, high), low) * x.stride;
            else if (n) from += APART * x.stride;
            copies.copy(lds + to + place + n * APART * 128, from, d < x.dims);
        }
    }
    __device__ __forceinline__ void begin_left() { stage = 0; }
    template <bool EDGE> __device__ __forceinline__ void fetch(int32_t t) {
        const uint32_t to = 2 * OWN + (uint32_t)stage * STAGE;
        bring<BN, EDGE>(to, from_first, t * BN, 0, rows - 1);
        bring<BN, EDGE>(to + TILE, from_second, t * BN, 0, rows - 1);
        copies.commit();
        this->template fetch_told<EDGE>(t);
    }
    __device__ __forceinline__ void load_columns() {
        const gpu_grad_params &g = gpu_reload(arguments);
        const gpu_params &p = g.call;
        const gpu_seq q = B::sequence();
        const gpu_range used = B::columns(q);
        const int32_t kv_head = head / p.group, column0 = B::first_column();
        const char *a, *b;
        if (S::KEYS) { /* of column 0, where that is a token or not */
            a = p.k.data + 2 * (q.k_base - used.lo * p.k.stride[1] + kv_head * p.k.stride[2]);
            b = p.v.data + 2 * (q.v_base - used.lo * p.v.stride[1] + kv_head * p.v.stride[2]);
        } else {
            a = p.q.data + 2 * gpu_row_at(p, q, p.q, head, 0);
            b = g.dout.data + 2 * gpu_row_at(p, q, g.dout, head, 0);
            GPU_UNROLL for (int y = 0; y < 2; y++) {
                const int64_t l =
                    gpu_lse_at(q, head, max(min(B::my_column(y), used.hi - 1), used.lo));
                own_lse[y] = -B::log2_of(p.lse[l]);
                own_delta[y] = g.delta[l];
            }
        }
        const gpu_grad_rows first = {(const GPU_GLOBAL char *)a,
                                2 * (S::KEYS ? p.k : p.q).stride[1], p.head_dim, g.dtype},
                            second = {(const GPU_GLOBAL char *)b,
                                2 * (S::KEYS ? p.v : g.dout).stride[1], p.v_dim, g.dtype};
        bring<BM, true>(0, first, column0, used.lo, used.hi - 1);
        bring<BM, true>(OWN, second, column0, used.lo, used.hi - 1);
        copies.commit();
    }
    /* What this thread brought of a tile: 0 where it is not finite; whether some was not. */
    __device__ __forceinline__ uint64_t tame(uint32_t at) {
        const int32_t my = gpu_thread();
        char *first = lds + at + gpu_panel_place(my / CHUNKS, my % CHUNKS, BN);
        uint32_t met = 0;
        GPU_UNROLL for (int n = 0; n < BN / APART; n++) {
            char *here = first + n * APART * 128;
            const uint4 v = *(const uint4 *)here;
            uint32_t x[4] = {v.x, v.y, v.z, v.w}, bad = 0;
            GPU_UNROLL for (int w = 0; w < 4; w++)
                x[w] = gpu_make_finite<S::DTYPE>(x[w], bad);
            if (bad) copies.store(here, make_uint4(x[0], x[1], x[2], x[3]));
            met |= bad;
        }
        return gpu_wave_ballot(met != 0);
    }

    /* ---- a tile ---- */

    /* sums = columns . rows: scores or dp over the dims of both, from bytes `own` and `tile` on. */
    __device__ __forceinline__ void start(
        float (&sums)[ROW_TILES][4], uint32_t own, uint32_t tile) {
        const uint64_t left = descriptor(own + gpu_thread() / 128 * (64 * 128)),
                       right = descriptor(tile);
        copies.fence(sums);
        GPU_UNROLL for (int step = 0; step < D / 16; step++) GPU_UNROLL
            for (int n = 0; n < BN / 64; n++)
                copies.template mma_lds<S::DTYPE>(&sums[8 * n],
                    left + gpu_further(step / 4 * (BM * 128) + step % 4 * 32),
                    right + gpu_further(step / 4 * (BN * 128) + n * (64 * 128) + step % 4 * 32),
                    step != 0);
        copies.commit_products();
    }
    /* sums += weights . rows, of the tile that begins at `tile`; weights go times `by`. */
    __device__ __forceinline__ void add(float (&sums)[DIM_TILES][4], const float (&w)[ROW_TILES][4],
        const float (&by)[2], uint32_t (&a)[BN / 16][4], uint32_t tile) {
        GPU_UNROLL for (int step = 0; step < BN / 16; step++) GPU_UNROLL
            for (int n = 0; n < 4; n++) {
                const float *two = &w[2 * step + n / 2][n % 2 * 2];
                a[step][n] = S::RANGED ? gpu_pack<S::DTYPE>(two[0] * by[n % 2], two[1] * by[n % 2])
                                       : gpu_pack<S::DTYPE>(two[0], two[1]);
            }
        const uint64_t right = descriptor(tile);
        copies.fence(sums, a);
        GPU_UNROLL for (int step = 0; step < BN / 16; step++) GPU_UNROLL
            for (int n = 0; n < D / 64; n++)
                copies.template mma<S::DTYPE, true>(&sums[8 * n], a[step],
                    right + gpu_further(n * (BN * 128) + step * (16 * 128)), true);
        copies.commit_products();
    }
    /* The weights are less than f16's largest once they went times `by`: it falls as in B::fall. */
    __device__ __forceinline__ void follow(
        const float (&w)[ROW_TILES][4], float (&sums)[DIM_TILES][4], float (&by)[2]) {
        float top[2] = {0.0f, 0.0f};
        GPU_UNROLL for (int m = 0; m < ROW_TILES; m++) GPU_UNROLL
            for (int e = 0; e < 4; e++) top[e / 2] = fmaxf(top[e / 2], fabsf(w[m][e]));
        const bool any = top[0] * by[0] > B::MOST || top[1] * by[1] > B::MOST;
        if (!gpu_wave_ballot(any)) return;
        GPU_UNROLL for (int y = 0; y < 2; y++) {
            const float alpha = B::fallen(top[y] * by[y] > B::MOST ? top[y] : 0.0f, by[y]);
            GPU_UNROLL for (int n = 0; n < DIM_TILES; n++) GPU_UNROLL
                for (int e = 0; e < 2; e++) sums[n][2 * y + e] *= alpha;
        }
    }
    /* Score e of 4 of row tile m: -lse or D of its row, or of its column, y = e / 2. */
    __device__ __forceinline__ float told_of(
        const float *rows_told, const float (&own)[2], int m, int e) const {
        return S::KEYS ? rows_told[8 * m + e % 2] : own[e / 2];
    }
    template <bool EDGE>
    __device__ __forceinline__ void probabilities(int32_t row0, const float *rows_lse) {
        const float scale = this->score_scale;
        const gpu_seen seen[2] = {gpu_seen(see[0], row0), gpu_seen(see[1], row0)};
        GPU_UNROLL for (int m = 0; m < ROW_TILES; m++) GPU_UNROLL
            for (int e = 0; e < 4; e++) {
                const float x =
                    gpu_min(fmaf(s[m][e], scale, told_of(rows_lse, own_lse, m, e)), -B::least());
                s[m][e] = gpu_exp2(EDGE ? seen[e / 2](8 * m + e % 2, x) : x);
            }
    }
    template <bool EDGE>
    __device__ __forceinline__ void gradients(int32_t row0, const float *rows_delta) {
        const gpu_seen seen[2] = {gpu_seen(see[0], row0), gpu_seen(see[1], row0)};
        GPU_UNROLL for (int m = 0; m < ROW_TILES; m++) GPU_UNROLL
            for (int e = 0; e < 4; e++) {
                const float ds = s[m][e] * (dp[m][e] - told_of(rows_delta, own_delta, m, e));
                dp[m][e] = EDGE && !seen[e / 2].has(8 * m + e % 2) ? 0.0f : ds;
            }
    }
    /* One barrier, and two more beside an edge: everything that a thread brought is there before it,
       and everyone is done with the stage that is fetched to: with LATE of the tile before the last. */
    template <bool EDGE>
    __device__ __forceinline__ void step(int32_t t, int32_t next, int32_t next_of, bool active) {
        const uint32_t tile = 2 * OWN + (uint32_t)stage * STAGE;
        float *of_tile = told + stage * (2 * BN);
        copies.wait();
        if (S::KEYS && gpu_thread() < 2 * BN) of_tile[gpu_thread()] = B::told_value();
        copies.publish();
        __syncthreads();
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        if (next_of != next_head) B::of_head(next_of);
        fetch<EDGE>(next);
        uint32_t p16[S::Y ? BN / 16 : 1][4], ds16[BN / 16][4];
        const int32_t row0 = t * BN + quad_lane() * 2;
        const float *rows_told = of_tile + quad_lane() * 2;
        if (!EDGE || active) {
            start(s, 0, tile);
            start(dp, OWN, tile + TILE);
            copies.template wait_products<1>(s);
            probabilities<EDGE>(row0, rows_told);
        }
        if (EDGE) {
            if (active) copies.wait_products(dp);
            __syncthreads();
            bad_first |= tame(tile);
            if (S::Y) bad_second |= tame(tile + TILE);
            copies.publish();
            __syncthreads();
        }
        if (EDGE && !active) return wait_sums();
        if constexpr (S::Y) {
            if (S::RANGED) follow(s, sum_y, by_y);
            add(sum_y, s, by_y, p16, tile + TILE);
        }
        if (!EDGE) copies.template wait_products<S::Y>(dp);
        gradients<EDGE>(row0, rows_told + BN);
        if (S::RANGED) follow(dp, sum_x, by_x);
        add(sum_x, dp, by_x, ds16, tile);
        if (EDGE || !LATE) wait_sums();
    }
    __device__ __forceinline__ void wait_sums() {
        if constexpr (S::Y) copies.wait_products(sum_x, sum_y);
        else copies.wait_products(sum_x);
    }

    /* ---- the end ---- */

    /* Sums of column y to its row of `to`; 0 where it sees nothing at all. By two, or where a type
       or ATTN_ACCUMULATE wants it one by one: from the first register, and all move up, so that the
       code is there once. */
    __device__ __forceinline__ void put(float (&sums)[DIM_TILES][4], int y, float by, float scale,
        const gpu_tensor &to, int32_t dtype, int64_t at, int32_t dims) const {
        const float factor = scale * (S::RANGED ? B::one_over(by) : 1.0f);
        const bool any = B::sees_any(y);
        if (dtype != ATTN_F64 && !(gpu_reload(arguments).call.flags & ATTN_ACCUMULATE)) {
            GPU_UNROLL for (int n = 0; n < DIM_TILES; n++) {
                const int32_t d = 8 * n + 2 * quad_lane();
                if (d < dims)
                    B::put_two(to, dtype, at + d, any ? sums[n][2 * y] * factor : 0.0f,
                        any ? sums[n][2 * y + 1] * factor : 0.0f);
            }
            return;
        }
        GPU_NO_UNROLL for (int n = 0; n < DIM_TILES; n++) {
            const float two[2] = {sums[0][2 * y], sums[0][2 * y + 1]};
            const int32_t d = 8 * n + 2 * quad_lane();
            GPU_UNROLL for (int e = 0; e < 2; e++) {
                if (d + e < dims)
                    gpu_put_grad(gpu_reload(arguments).call, to, dtype, at + d + e,
                        any ? two[e] * factor : 0.0f, 0.0f);
                GPU_UNROLL for (int i = 0; i + 1 < DIM_TILES; i++)
                    sums[i][2 * y + e] = sums[i + 1][2 * y + e];
            }
        }
    }
    __device__ __forceinline__ void finish() {
        const gpu_grad_params &g = gpu_reload(arguments);
        const gpu_params &p = g.call;
        const gpu_seq q = B::sequence();
        const int32_t kv_head = head / p.group;
        GPU_UNROLL for (int y = 0; y < 2; y++) {
            const int32_t c = B::my_column(y);
            if (c >= (S::KEYS ? gpu_tokens_of(p, q.b).count : q.q_rows)) return;
            put(sum_x, y, by_x[y], p.scale, S::KEYS ? g.dk : g.dq,
                S::KEYS ? g.dk_dtype : g.dq_dtype,
                S::KEYS ? gpu_token_at(p, q, g.dk, kv_head, c) : gpu_row_at(p, q, g.dq, head, c),
                p.head_dim);
            if constexpr (S::Y)
                put(sum_y, y, by_y[y], 1.0f, g.dv, g.dv_dtype, gpu_token_at(p, q, g.dv, kv_head, c),
                    p.v_dim);
        }
    }
    __device__ __forceinline__ void run() {
        const gpu_params &p = gpu_reload(arguments).call;
        typename B::reach all;
        if (!this->template place_columns<4>(all)) return;
        GPU_UNROLL for (int y = 0; y < 2; y++)
            by_x[y] = by_y[y] = 0x1p100f;
        GPU_UNROLL for (int n = 0; n < DIM_TILES; n++) GPU_UNROLL
            for (int e = 0; e < 4; e++) {
                sum_x[n][e] = 0.0f;
                if (S::Y) sum_y[S::Y ? n : 0][e] = 0.0f;
            }
        bad_first = bad_second = 0;
        this->tells_delta = gpu_thread() / BN % 2;
        if (all.some.lo < all.some.hi) {
            this->score_scale = p.scale_log2;
            load_columns();
            B::pass(*this, head + (S::KEYS ? p.group : 1), all);
            wait_sums();
            copies.wait(); /* the last tile is fetched once more */
            __syncthreads();
        }
        finish();
        B::poison_all();
    }
};
template <class S>
__global__ void __launch_bounds__(S::THREADS, 1) gpu_grad_wgmma_kernel(GPU_GRAD_PARAMS g) {
    if constexpr (GPU_UNITS & (int)UNIT_SM90) {
        gpu_grad_wgmma<S> f((char *)gpu_lds_1024, g);
        f.run();
    }
}
/* a warpgroup each, two workgroups at a time: they do not wait for one another */
#define GPU_PART_WGMMA(DTYPE, D, KIND, BN) \
    {(const void *)gpu_grad_wgmma_kernel<gpu_grad_shape<UNIT_SM80, DTYPE, D, KIND, 4, BN, 0, 16>>, \
        gpu_grad_shape<UNIT_SM80, DTYPE, D, KIND, 4, BN, 0, 16>::BM, \
        gpu_grad_shape<UNIT_SM80, DTYPE, D, KIND, 4, BN, 0, 16>::THREADS, \
        gpu_grad_wgmma<gpu_grad_shape<UNIT_SM80, DTYPE, D, KIND, 4, BN, 0, 16>>::LDS}
#define GPU_ROW_GRAD_WGMMA(name, DTYPE, D) \
    {"flash_" name "_wgmma_backward", UNIT_SM90, DTYPE, D, 0, 16, \
        {GPU_PART_WGMMA(DTYPE, D, GRAD_DQ, 64), GPU_PART_WGMMA(DTYPE, D, GRAD_DK | GRAD_DV, 64), \
            {NULL, 0, 0, 0}}, \
        (const void *)gpu_dbias_kernel<DTYPE>},
#define GPU_ROWS_GRAD_WGMMA(name, DTYPE) \
    GPU_ROW_GRAD_WGMMA(name "_d64", DTYPE, 64) GPU_ROW_GRAD_WGMMA(name "_d128", DTYPE, 128)
#define GPU_ROWS_BACKWARD_NV \
    GPU_ROWS_GRAD_WGMMA("bf16", ATTN_BF16) GPU_ROWS_GRAD_WGMMA("f16", ATTN_F16)

/* ---- few rows on mma.sync ---- */

/* As gpu_decode, of 8 rows of 16 bits and with P rounded to them; K and V are the left operands. They go
   from memory to registers as they are: a sum over dims or keys may take them in any order, so a lane
   reads 16 bytes of a row at a time, dims 32 c + 8 (l % 4) of keys l / 4 + {0, 8} (chunk c), which are
   four k of two steps, and dims 64 h + 8 (l / 4) of keys 2 (l % 4) + {0, 1, 8, 9}, of which pairs of keys
   are rows 2 n and 2 n + 1 of product n of half h.

     s = K q^T    lane l: keys l / 4 and l / 4 + 8, rows 2 (l % 4) + {0, 1}: score 2 t + y of key l / 4 +
                  8 t and row 2 (l % 4) + y
     o = V^T p    p turned over; dims 64 h + 8 (l / 4) + 2 n + {0, 1}, the same rows

   A wave's sum is one of every sixteen keys of every WAVES-th tile, in turn: short beside what P loses. */
template <int KV, int D> struct gpu_decode_mma : gpu_decode_keys<16, 128> {
    enum { ROWS = 8, TILE = 16, CHUNKS = D / 32, HALVES = D / 64, DIM_TILES = D / 16 };
    static_assert(D % 64 == 0, "");
    struct shared {
        float max[WAVES][ROWS], sum[WAVES][ROWS]; /* sum: then the factor of the wave's sums */
        float factor[ROWS];
        float o[WAVES / 2][ROWS * D];
    };
    static constexpr float RAISE = gpu_p_bias<KV>::RAISE;

    shared &lds;
    uint4 q[CHUNKS], k[2][CHUNKS], v[HALVES][4];
    float x[4], o[DIM_TILES][4];
    float m[2], row_sum[2], sum_rest[2];
    gpu_range see[2];

    __device__ __forceinline__ gpu_decode_mma(const gpu_cache_params &p, shared &block)
        : gpu_decode_keys<16, 128>(p), lds(block) {}
    __device__ __forceinline__ static int32_t quad() { return lane() / 4; }
    /* The lane's row y. */
    __device__ __forceinline__ static int32_t own_row(int y) { return lane() % 4 * 2 + y; }
    __device__ __forceinline__ static uint32_t word(const uint4 &of, int n) {
        return n == 0 ? of.x : n == 1 ? of.y : n == 2 ? of.z : of.w;
    }
    /* Eight elements, 0 beyond `dims`. */
    __device__ __forceinline__ static uint4 eight(const char *row, int32_t d, int32_t dims) {
        uint4 x = make_uint4(0, 0, 0, 0);
        if (d < dims) x = *(const uint4 *)(row + 2 * d);
        return x;
    }
    __device__ __forceinline__ void load_q(const gpu_params &p, const gpu_seq &seq) {
        const int32_t r = min(first_row + quad(), rows - 1);
        const char *from = p.q.data + 2 * (seq.q_base + row_of(p, r) * p.q.stride[1] +
                                              head_of(p, r) * p.q.stride[2]);
        GPU_UNROLL for (int c = 0; c < CHUNKS; c++)
            q[c] = eight(from, 32 * c + lane() % 4 * 8, p.head_dim);
    }
    __device__ __forceinline__ const char *row_at(
        const gpu_cache_params &p, const gpu_tensor &of, int32_t j, int32_t key) const {
        return of.data + 2 * gpu_element(place_of(p, j, key), of.stride, (int32_t)blockIdx.y);
    }
    __device__ __forceinline__ void load_k(const gpu_cache_params &p, int32_t j) {
        GPU_UNROLL for (int t = 0; t < 2; t++) {
            const char *from = row_at(p, p.call.k, j, 8 * t + quad());
            GPU_UNROLL for (int c = 0; c < CHUNKS; c++)
                k[t][c] = eight(from, 32 * c + lane() % 4 * 8, p.call.head_dim);
        }
    }
    __device__ __forceinline__ void load_v(const gpu_cache_params &p, int32_t j) {
        GPU_UNROLL for (int n = 0; n < 4; n++) {
            const char *from = row_at(p, p.call.v, j, lane() % 4 * 2 + n % 2 + n / 2 * 8);
            GPU_UNROLL for (int h = 0; h < HALVES; h++)
                v[h][n] = eight(from, 64 * h + 8 * quad(), p.call.v_dim);
        }
    }
    __device__ __forceinline__ void scores() {
        float sum[4];
        GPU_UNROLL for (int c = 0; c < CHUNKS; c++) {
            if (c % (GPU_SUM_DIMS / 32) == 0) GPU_UNROLL
                for (int e = 0; e < 4; e++) sum[e] = 0.0f;
            GPU_UNROLL for (int n = 0; n < 4; n += 2) {
                const uint32_t a[4] = {
                    word(k[0][c], n), word(k[1][c], n), word(k[0][c], n + 1), word(k[1][c], n + 1)};
                gpu_mma<KV>(sum, a, word(q[c], n), word(q[c], n + 1));
            }
            if ((c + 1) % (GPU_SUM_DIMS / 32) == 0) GPU_UNROLL
                for (int e = 0; e < 4; e++) x[e] = c < GPU_SUM_DIMS / 32 ? sum[e] : x[e] + sum[e];
        }
    }
    /* Scores to natural ones; a bit for each that is seen. One at a time from the first register, and
       the others move up, so that the code is there once. */
    __device__ __forceinline__ uint32_t modify(const gpu_params &p, int32_t j) {
        uint32_t seen = 0;
        GPU_NO_UNROLL for (int n = 0; n < 4; n++) {
            const int32_t key = j + n / 2 * 8 + quad();
            const gpu_range sees = n % 2 ? see[1] : see[0];
            bool takes = key >= sees.lo && key < sees.hi;
            float score = x[0] * p.scale;
            if (p.masks & ~MASK_SCALE) {
                const int32_t r = min(first_row + own_row(n % 2), rows - 1);
                const gpu_row row = gpu_row_of(
                    p, gpu_sequence(p, (int32_t)blockIdx.z), head_of(p, r), row_of(p, r));
                takes = takes && !gpu_hidden(p, row, key);
                if (takes) score = gpu_modify(p, row, key, score);
            }
            GPU_UNROLL for (int i = 0; i < 3; i++)
                x[i] = x[i + 1];
            x[3] = score;
            seen |= (uint32_t)takes << n;
        }
        return seen;
    }
    /* The sums to a maximum that has grown by 2^GROWTH, of each row by itself, as in the forward. */
    __device__ __forceinline__ void follow_max(uint32_t seen) {
        float top[2] = {GPU_NEG_INF, GPU_NEG_INF};
        bool grows = false;
        GPU_UNROLL for (int n = 0; n < 4; n++)
            if (seen >> n & 1) top[n % 2] = fmaxf(top[n % 2], x[n]);
        GPU_UNROLL for (int y = 0; y < 2; y++)
            grows |= (top[y] - m[y]) * GPU_LOG2E > gpu_p_bias<KV>::GROWTH;
        if (!gpu_wave_ballot(grows)) return;
        GPU_UNROLL for (int y = 0; y < 2; y++) {
            GPU_UNROLL for (int mask = 4; mask < 32; mask *= 2)
                top[y] = fmaxf(top[y], gpu_wave_xor(top[y], mask));
            if (!((top[y] - m[y]) * GPU_LOG2E > gpu_p_bias<KV>::GROWTH)) continue;
            const float alpha = gpu_exp2((m[y] - top[y]) * GPU_LOG2E);
            m[y] = top[y];
            row_sum[y] *= alpha;
            sum_rest[y] *= alpha;
            GPU_UNROLL for (int n = 0; n < 2 * DIM_TILES; n++)
                o[n / 2][n % 2 * 2 + y] *= alpha;
        }
    }
    /* Log 2 of the weight of score n. */
    __device__ __forceinline__ float exponent(int n) const {
        const float base = m[n % 2] == GPU_NEG_INF ? 0.0f : m[n % 2];
        return fmaf(x[n] - base, GPU_LOG2E, RAISE);
    }
    /* Weights, times 2^by, as right operands. */
    __device__ __forceinline__ void weights(const float (&w)[4], int by, uint32_t (&b)[2]) {
        GPU_UNROLL for (int t = 0; t < 2; t++) {
            b[t] = gpu_turned(gpu_pack<KV>(w[2 * t], w[2 * t + 1]));
            gpu_add_to(row_sum[t], sum_rest[t], (w[t] + w[2 + t]) * gpu_light<KV>::power(-by));
        }
    }
    /* Left operand n: word e of its four. */
    __device__ __forceinline__ uint32_t values(int n, int e) const {
        const uint4(&of)[4] = v[n / 4];
        return gpu_bytes(word(of[e / 2 * 2 + 1], n % 4), word(of[e / 2 * 2], n % 4),
            e % 2 ? 0x07060302u : 0x05040100u);
    }
    __device__ __forceinline__ void products(const uint32_t (&b)[2]) {
        GPU_UNROLL for (int n = 0; n < DIM_TILES; n++) {
            const uint32_t a[4] = {values(n, 0), values(n, 1), values(n, 2), values(n, 3)};
            gpu_mma<KV>(o[n], a, b[0], b[1]);
        }
    }
    /* Where values are not finite that some row may not see: of those that see one the sum is a NaN,
       which a second product finds; for the others they are 0. */
    __device__ __forceinline__ void spoiled_products(const uint32_t (&b)[2], uint32_t seen) {
        const uint32_t one = KV == ATTN_F16 ? 0x3c00u : 0x3f80u;
        uint32_t sees[2];
        GPU_UNROLL for (int t = 0; t < 2; t++)
            sees[t] =
                gpu_turned((seen >> 2 * t & 1 ? one : 0) | (seen >> 2 * t & 2 ? one << 16 : 0));
        GPU_UNROLL for (int n = 0; n < DIM_TILES; n++) {
            uint32_t a[4], bad[4];
            float met[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            GPU_UNROLL for (int e = 0; e < 4; e++) {
                const uint32_t these = gpu_not_finite2<KV>(values(n, e)) >> 15;
                a[e] = values(n, e) & ~(these * 0xffffu);
                bad[e] = these * one;
            }
            gpu_mma<KV>(o[n], a, b[0], b[1]);
            gpu_mma<KV>(met, bad, sees[0], sees[1]);
            GPU_UNROLL for (int e = 0; e < 4; e++)
                if (met[e] > 0.0f) o[n][e] = __uint_as_float(0x7fc00000u);
        }
    }
    __device__ __forceinline__ bool spoiled() const {
        uint32_t bad = 0;
        GPU_UNROLL for (int n = 0; n < 16 * HALVES; n++)
            bad |= gpu_not_finite2<KV>(word(v[n / 16][n / 4 % 4], n % 4));
        return gpu_wave_ballot(bad != 0) != 0;
    }
    /* Light weights (gpu_light) go first, so that the code is there once. */
    __device__ __forceinline__ void products_of(uint32_t seen, bool bad) {
        typedef gpu_light<KV> light;
        float least = 0.0f;
        GPU_UNROLL for (int n = 0; n < 4; n++)
            if (seen >> n & 1) least = fminf(least, light::seen(exponent(n)));
        int by = light::first(least, (reach.hi - reach.lo) / WAVES);
        GPU_NO_UNROLL for (; by >= 0; by -= light::STEP) {
            uint32_t b[2];
            float w[4];
            GPU_UNROLL for (int n = 0; n < 4; n++) {
                const float y = exponent(n) + (float)by;
                w[n] = !(seen >> n & 1) ? 0.0f
                       : by             ? light::take(y, light::until(by), x[n])
                                        : gpu_exp2(y);
            }
            weights(w, by, b);
            if (by) scale_sums(light::power(by));
            if (bad) spoiled_products(b, by ? 0 : seen);
            else products(b);
            if (by) scale_sums(light::power(-by));
        }
    }
    __device__ __forceinline__ void scale_sums(float factor) {
        GPU_UNROLL for (int n = 0; n < 4 * DIM_TILES; n++)
            o[n / 4][n % 4] *= factor;
    }
    __device__ __forceinline__ void walk() {
        const int32_t end = reach.hi;
        int32_t j = first_tile();
        if (j >= end) return;
        look_up(gpu_reload(arguments), j);
        place(gpu_reload(arguments), j);
        load_k(gpu_reload(arguments), j);
        look_up(gpu_reload(arguments), j + STEP);
        for (; j < end; j += STEP) {
            uint32_t seen = 15;
            load_v(gpu_reload(arguments), j);
            scores();
            if (j + STEP < end) {
                place(gpu_reload(arguments), j + STEP);
                load_k(gpu_reload(arguments), j + STEP);
                look_up(gpu_reload(arguments), j + 2 * STEP);
            }
            const gpu_params &p = gpu_reload(arguments).call;
            const bool whole = sees_all(p, j);
            if (whole && !(p.masks & ~MASK_SCALE)) GPU_UNROLL
                for (int n = 0; n < 4; n++) x[n] *= p.scale;
            else seen = modify(p, j);
            follow_max(seen);
            products_of(seen, !whole && spoiled());
        }
    }
    __device__ __forceinline__ void finish(const gpu_params &p) {
        const gpu_seq seq = gpu_sequence(p, (int32_t)blockIdx.z);
        const int32_t wave = (int32_t)threadIdx.x / GPU_WAVE;
        GPU_UNROLL for (int y = 0; y < 2; y++) {
            float sum = row_sum[y] + sum_rest[y];
            GPU_UNROLL for (int mask = 4; mask < 32; mask *= 2)
                sum += gpu_wave_xor(sum, mask);
            if (quad() == 0) {
                lds.max[wave][own_row(y)] = m[y];
                lds.sum[wave][own_row(y)] = sum;
            }
        }
        __syncthreads();
        if ((int32_t)threadIdx.x < ROWS)
            join_row(p, seq, lds, (int32_t)threadIdx.x, gpu_p_bias<KV>::LOWER);
        __syncthreads();
        GPU_UNROLL for (int n = 0; n < 4 * DIM_TILES; n++)
            o[n / 4][n % 4] *= lds.sum[wave][own_row(n % 2)];
        GPU_UNROLL for (int half = WAVES / 2; half; half /= 2) {
            if (wave >= half && wave < 2 * half) GPU_UNROLL
                for (int n = 0; n < 4 * DIM_TILES; n++)
                    lds.o[wave - half][n * GPU_WAVE + lane()] = o[n / 4][n % 4];
            __syncthreads();
            if (wave < half) GPU_UNROLL
                for (int n = 0; n < 4 * DIM_TILES; n++)
                    o[n / 4][n % 4] += lds.o[wave][n * GPU_WAVE + lane()];
            __syncthreads();
        }
        if (wave) return;
        GPU_UNROLL for (int y = 0; y < 2; y++) {
            const int32_t r = own_row(y), row = first_row + r;
            if (row >= rows) continue;
            float *to = (float *)gpu_o_row(p, seq, head_of(p, row), row_of(p, row));
            const float by = lds.factor[r];
            GPU_UNROLL for (int n = 0; n < DIM_TILES; n++) {
                const int32_t d = n / 4 * 64 + 8 * quad() + n % 4 * 2;
                if (d < p.v_dim) to[d] = o[n][y] * by, to[d + 1] = o[n][2 + y] * by;
            }
        }
    }
    __device__ __forceinline__ void run() {
        const gpu_params &p = gpu_reload(arguments).call;
        const gpu_seq seq = gpu_sequence(p, (int32_t)blockIdx.z);
        if (!begin(p, seq, ROWS)) return;
        GPU_UNROLL for (int y = 0; y < 2; y++) {
            see[y] = seen_by(p, seq, own_row(y));
            m[y] = GPU_NEG_INF;
            row_sum[y] = sum_rest[y] = 0.0f;
        }
        GPU_UNROLL for (int n = 0; n < 4 * DIM_TILES; n++)
            o[n / 4][n % 4] = 0.0f;
        load_q(p, seq);
        walk();
        finish(gpu_reload(arguments).call);
    }
};
/* as gpu_decode_parts */
template <int KV, int D>
__global__ void __launch_bounds__(128) gpu_decode_mma_parts(GPU_CACHE_PARAMS p) {
    if constexpr (GPU_UNITS & (int)UNIT_SM80) {
        __shared__ typename gpu_decode_mma<KV, D>::shared lds;
        gpu_decode_mma<KV, D> f(p, lds);
        f.run();
    }
}
#define GPU_ROW_DECODE_MMA(name, KV, D) \
    {name, UNIT_SM80, KV, D, 8, 128, true, (const void *)gpu_decode_mma_parts<KV, D>},
#define GPU_ROWS_DECODE_MMA(name, KV) \
    GPU_ROW_DECODE_MMA("decode_" name "_d64_mma", KV, 64) \
    GPU_ROW_DECODE_MMA("decode_" name "_d128_mma", KV, 128)
#define GPU_ROWS_DECODE_NV \
    GPU_ROWS_DECODE_MMA("bf16", ATTN_BF16) GPU_ROWS_DECODE_MMA("f16", ATTN_F16)

/* Rows of the table, as those of kernel 16: aligned, of any alignment, and with every mask. */
#define GPU_ROW_NV(UNIT, name, DTYPE, D, MASKS, ALIGN, ...) \
    {name, UNIT, DTYPE, D, D, MASKS, gpu_shape_mma<UNIT, DTYPE, D, __VA_ARGS__, MASKS, ALIGN>::BM, \
        gpu_shape_mma<UNIT, DTYPE, D, __VA_ARGS__, MASKS, ALIGN>::THREADS, \
        gpu_shape_mma<UNIT, DTYPE, D, __VA_ARGS__, MASKS, ALIGN>::LDS, ALIGN, \
        (const void *) \
            gpu_flash_mma_forward<gpu_shape_mma<UNIT, DTYPE, D, __VA_ARGS__, MASKS, ALIGN>>},
#define GPU_ROW_MMA(...) GPU_ROW_NV(UNIT_SM80, __VA_ARGS__)
#define GPU_ROW_WGMMA(...) GPU_ROW_NV(UNIT_SM90, __VA_ARGS__)
#define GPU_WIDE(DTYPE, D) (D > 128 ? 0 : gpu_light<DTYPE>::MASK)
/* D, masks, alignment, then warps, blocks of 16 rows, keys a tile, q in LDS, workgroups at a time */
#define GPU_ROWS_MMA32(name, DTYPE) \
    GPU_ROW_MMA("flash_" name "_d32", DTYPE, 32, 0, 16, 4, 2, 64, 1, 3) \
    GPU_ROW_MMA("flash_" name "_d32_any", DTYPE, 32, 0, 2, 4, 2, 64, 1, 3) \
    GPU_ROW_MMA("flash_" name "_d32_wide", DTYPE, 32, GPU_WIDE(DTYPE, 32), 2, 4, 2, 64, 1, 3) \
    GPU_ROW_MMA("flash_" name "_d32_masks", DTYPE, 32, ~0, 2, 4, 1, 64, 0, 3)
#define GPU_ROWS_MMA(name, DTYPE) \
    GPU_ROW_MMA("flash_" name "_d64", DTYPE, 64, 0, 16, 4, 2, 64, 0, 2) \
    GPU_ROW_MMA("flash_" name "_d64_any", DTYPE, 64, 0, 2, 4, 2, 64, 0, 2) \
    GPU_ROW_MMA("flash_" name "_d64_wide", DTYPE, 64, GPU_WIDE(DTYPE, 64), 2, 4, 2, 64, 0, 2) \
    GPU_ROW_MMA("flash_" name "_d64_masks", DTYPE, 64, ~0, 2, 8, 1, 64, 0, 1) \
    GPU_ROW_MMA("flash_" name "_d128", DTYPE, 128, 0, 16, 4, 2, 32, 1, 2) \
    GPU_ROW_MMA("flash_" name "_d128_any", DTYPE, 128, 0, 2, 4, 2, 32, 1, 2) \
    GPU_ROW_MMA("flash_" name "_d128_wide", DTYPE, 128, GPU_WIDE(DTYPE, 128), 2, 4, 2, 32, 1, 2) \
    GPU_ROW_MMA("flash_" name "_d128_masks", DTYPE, 128, ~0, 2, 8, 1, 32, 0, 1) \
    GPU_ROW_MMA("flash_" name "_d256", DTYPE, 256, 0, 16, 8, 1, 32, 0, 1) \
    GPU_ROW_MMA("flash_" name "_d256_any", DTYPE, 256, 0, 2, 8, 1, 32, 0, 1) \
    GPU_ROW_MMA("flash_" name "_d256_masks", DTYPE, 256, ~0, 2, 4, 1, 16, 1, 2)
#define GPU_ROWS_WGMMA_D(name, DTYPE, D, WAVES, Q_IN_LDS, OCCUPANCY) \
    GPU_ROW_WGMMA(name, DTYPE, D, 0, 16, WAVES, 1, 64, Q_IN_LDS, OCCUPANCY) \
    GPU_ROW_WGMMA(name "_any", DTYPE, D, 0, 2, WAVES, 1, 64, Q_IN_LDS, OCCUPANCY) \
    GPU_ROW_WGMMA( \
        name "_wide", DTYPE, D, GPU_WIDE(DTYPE, D), 2, WAVES, 1, 64, Q_IN_LDS, OCCUPANCY) \
    GPU_ROW_WGMMA(name "_masks", DTYPE, D, ~0, 2, 8, 1, 64, Q_IN_LDS, 1)
#define GPU_ROWS_WGMMA(name, DTYPE) \
    GPU_ROWS_WGMMA_D("flash_" name "_d64_wgmma", DTYPE, 64, 4, 0, 4) \
    GPU_ROWS_WGMMA_D("flash_" name "_d128_wgmma", DTYPE, 128, 4, 0, 2) \
    GPU_ROWS_WGMMA_D("flash_" name "_d256_wgmma", DTYPE, 256, 8, 1, 1)
/* a row of dims up to 32 would fill half of wgmma's panel */
/* clang-format off */
#define GPU_ROWS_NV \
    GPU_ROWS_MMA32("bf16", ATTN_BF16) GPU_ROWS_MMA32("f16", ATTN_F16) \
    GPU_ROWS_WGMMA("bf16", ATTN_BF16) GPU_ROWS_WGMMA("f16", ATTN_F16) \
    GPU_ROWS_MMA("bf16", ATTN_BF16) GPU_ROWS_MMA("f16", ATTN_F16)
/* clang-format on */
#else
#define GPU_ROWS_NV
#define GPU_ROWS_BACKWARD_NV
#define GPU_ROWS_DECODE_NV
#endif

/* =============================================================================== >>table ====
   One row per instantiation: the table is the dispatcher. The first row that fits wins, so that
   within a type they stand from the special to the general. */
#ifndef GPU_ROWS_16
#define GPU_ROWS_16
#endif
#ifndef GPU_ROWS_32
#define GPU_ROWS_32
#endif
#ifndef GPU_ROWS_BACKWARD_16
#define GPU_ROWS_BACKWARD_16
#endif
#ifndef GPU_ROWS_BACKWARD_32
#define GPU_ROWS_BACKWARD_32
#endif
struct gpu_kernel {
    const char *name;
    int32_t units, dtype;           /* what it needs; dtype of q, k, v */
    int32_t head_dim, v_dim;        /* at most */
    int32_t masks;                  /* MASK_ bits that it can do */
    int32_t bm, threads, lds_bytes; /* query rows a workgroup, its threads, dynamic LDS */
    int32_t align; /* bytes: what every pointer, stride and row of q, k, v and o is a multiple of */
    const void *function;
};
static const gpu_kernel gpu_kernels[] = {GPU_ROWS_16 GPU_ROWS_NV GPU_ROWS_32 GPU_ROWS_SCALAR};

/* Of the parts of few rows: rows stand with those for fewer first. */
struct gpu_decode_kernel {
    const char *name;
    int32_t units;            /* on a matrix unit q is of the same type too */
    int32_t dtype, dim, rows; /* dtype of k and v; head_dim and v_dim at most; rows at a time */
    int32_t threads;
    bool wide; /* it wants gpu_reads_wide */
    const void *function;
};
static const gpu_decode_kernel gpu_decode_kernels[] = {GPU_ROWS_DECODE_NV GPU_ROWS_DECODE};

/* The kernels of a backward: of dq, of dk and dv or of each, and of dbias. */
struct gpu_grad_part {
    const void *function;
    /* queries or keys of a workgroup, its threads, dynamic LDS; 0: a wave for each of them */
    int32_t bm, threads, lds_bytes;
};
struct gpu_grad_kernel {
    const char *name;
    int32_t units, dtype; /* of q, k, v; on a matrix unit of 16 bits of dout too */
    int32_t dim;          /* head_dim and v_dim at most */
    int32_t masks, align; /* as in gpu_kernel, of dout, dq, dk and dv too */
    gpu_grad_part part[3];
    const void *dbias;
};
static const gpu_grad_kernel gpu_grad_kernels[] = {
    GPU_ROWS_BACKWARD_NV GPU_ROWS_BACKWARD_16 GPU_ROWS_BACKWARD_32 GPU_ROWS_BACKWARD};

static int32_t gpu_masks_of(const attn_desc *d) {
    const float small = 7.8886091e-31f, large = 1.2676506e30f; /* 2^-100, 2^100 */
    return (d->softcap > 0 ? MASK_SOFTCAP : 0) | (d->bias.data ? MASK_BIAS : 0) |
           (d->mask.data ? MASK_BOOL : 0) | (d->alibi ? MASK_ALIBI : 0) |
           (d->dropout > 0 ? MASK_DROPOUT : 0) |
           (d->scale > small && d->scale < large ? 0 : MASK_SCALE);
}
/* Of a dtype that attn.h has let through. */
static const struct {
    const char *text;
    int32_t bytes, shift; /* of a block: its bytes, and 1 << shift elements */
    bool quantised;
} gpu_dtypes[] = {
#define GPU_X(name, number, text, bytes, elements, kind, most) \
    {text, bytes, __builtin_ctz(elements), ATTN__PICK_##kind(false, true, true, false)},
    ATTN_DTYPE_LIST(GPU_X)
#undef GPU_X
};
/* The bytes of n elements, and of the way to element n: of whole blocks, backwards too. */
static int64_t gpu_bytes(int32_t dtype, int64_t n) {
    return (n >> gpu_dtypes[dtype].shift) * gpu_dtypes[dtype].bytes;
}
/* The largest power of two up to 16 that divides the address and every stride that is stepped
 * along, in bytes. */
static int32_t gpu_align_of(
    const void *data, const int64_t *stride, const int64_t *extent, int32_t dtype) {
    uint64_t bits = 16 | (uint64_t)(uintptr_t)data;
    for (int a = 0; a < 3; a++)
        if (extent[a] > 1) bits |= (uint64_t)gpu_bytes(dtype, stride[a]);
    return (int32_t)(bits & (~bits + 1));
}
static void gpu_extent_q(const attn_desc *d, int64_t *e) {
    e[0] = d->seq.cu_q ? 1 : d->batch;
    e[1] = d->seq.cu_q ? d->seq.total_q : d->q_len;
    e[2] = d->heads;
}
static void gpu_extent_k(const attn_desc *d, int64_t *e) {
    const attn_seq *s = &d->seq;
    e[0] = s->block_table ? s->pages : s->cu_k ? 1 : s->slot ? s->slots : d->batch;
    e[1] = s->block_table ? s->page_size : s->cu_k ? s->total_k : d->kv_len;
    e[2] = d->kv_heads;
}
static void gpu_extent_new(const attn_desc *d, int64_t *e) {
    e[0] = d->append.cu ? 1 : d->batch;
    e[1] = d->append.cu ? d->append.total : d->append.len;
    e[2] = d->kv_heads;
}
static bool gpu_has_append(const attn_desc *d) { return d->append.k.data != NULL; }

/* The alignment that a kernel may count on, the pad between rows being anything. Kernels with wide
   loads also step through a tile of k and v by 32 bits. Staged tensors are aligned but for the
   length of their rows. */
static int32_t gpu_common_align(const attn_desc *d) {
    const int64_t size = gpu_bytes(d->q.dtype, 1), far = (int64_t)1 << 24;
    int64_t eq[3], ek[3];
    int32_t align = 16;
    gpu_extent_q(d, eq);
    gpu_extent_k(d, ek);
    if (d->flags & ATTN_DEVICE) {
        /* element by element every row writes o as it lies */
        const int32_t of_o = gpu_align_of(d->o.data, d->o.stride, eq, d->o.dtype);
        const int32_t of[4] = {gpu_align_of(d->q.data, d->q.stride, eq, d->q.dtype),
            of_o < size ? (int32_t)size : of_o,
            gpu_align_of(d->k.data, d->k.stride, ek, d->k.dtype),
            gpu_align_of(d->v.data, d->v.stride, ek, d->v.dtype)};
        for (int n = 0; n < 4; n++)
            if (of[n] < align) align = of[n];
        if (ek[1] > 1 && (llabs(d->k.stride[1]) >= far || llabs(d->v.stride[1]) >= far))
            return (int32_t)size;
    } else if (d->kv_heads * (d->head_dim + d->v_dim) >= far / 4) return (int32_t)size;
    while ((d->head_dim | d->v_dim) * size % align) align /= 2;
    return align;
}

/* Whether q, k and v may be of that type. */
static bool gpu_takes_type(int32_t dtype) {
    return dtype == ATTN_F32 || dtype == ATTN_F16 || dtype == ATTN_BF16 || dtype == ATTN_INT8 ||
           dtype == ATTN_FP8_E4M3;
}
/* The one function that picks a kernel, of rows of one type: plan and run ask it with the same
   description. Without a single key no kernel but the scalar one is sure not to read any. Never NULL. */
static const gpu_kernel *gpu_pick(const attn_desc *d, int32_t units) {
    const bool light = d->q.dtype == ATTN_F16 && d->o.dtype != ATTN_F16;
    const int32_t align = gpu_common_align(d), masks = gpu_masks_of(d) | (light ? MASK_LIGHT : 0);
    int64_t ek[3];
    gpu_extent_k(d, ek);
    const bool keys = d->kv_len > 0 && ek[0] > 0 && ek[1] > 0;
    const gpu_kernel *row = gpu_kernels;
    for (;; row++)
        if (row->dtype == d->q.dtype && !(row->units & ~units) &&
            (keys || row->head_dim == INT32_MAX) && d->head_dim <= row->head_dim &&
            d->v_dim <= row->v_dim && !(masks & ~row->masks) && align >= row->align)
            return row;
}
/* Whether eight elements of q, k and v begin where gpu_eight wants them, if they lie in device memory
   as they do here: the same kernel, and so the same bits, whether they are staged or not. */
static bool gpu_reads_wide(const attn_desc *d) {
    const attn_in *in[3] = {&d->q, &d->k, &d->v};
    int64_t e[2][3];
    gpu_extent_q(d, e[0]);
    gpu_extent_k(d, e[1]);
    for (int n = 0; n < 3; n++) {
        const int64_t eight = gpu_bytes(in[n]->dtype, 8);
        if (gpu_align_of(in[n]->data, in[n]->stride, e[n > 0], in[n]->dtype) <
            (eight < 16 ? eight : 16))
            return false;
    }
    return true;
}
/* The kernel of parts of few rows; NULL: that of the call does. Which of the two no address decides:
   the workspace follows from it. */
static const gpu_decode_kernel *gpu_pick_decode(const attn_desc *d, int32_t units) {
    const int64_t few = d->q_len < GPU_FEW_ROWS ? d->q_len : GPU_FEW_ROWS,
                  rows = few * (d->heads / d->kv_heads);
    const bool wide = gpu_reads_wide(d);
    if (d->k.dtype != d->v.dtype || d->head_dim % 8 || d->v_dim % 8) return NULL;
    for (const gpu_decode_kernel &row : gpu_decode_kernels)
        if (row.dtype == d->k.dtype && row.dim >= d->head_dim && row.dim >= d->v_dim &&
            !(row.units & ~units) && (row.units == UNIT_SCALAR || d->q.dtype == row.dtype) &&
            (row.rows >= rows || row.rows == 8) && (wide || !row.wide))
            return &row;
    return NULL;
}
/* The same of a backward: 16 where every row can be read and written 16 bytes at a time, dims are
   multiples of 8, and the rows that are read follow each other within 32 bits; else 1. */
static int32_t gpu_grad_align(const attn_desc *d, const attn_grad *g) {
    const attn_in *in[4] = {&d->q, &g->dout, &d->k, &d->v};
    const attn_out *out[3] = {&g->dq, &g->dk, &g->dv};
    const int64_t far = (int64_t)1 << 24;
    int64_t e[2][3];
    gpu_extent_q(d, e[0]);
    gpu_extent_k(d, e[1]);
    if (d->head_dim % 8 || d->v_dim % 8) return 1;
    for (int n = 0; n < 4; n++)
        if (gpu_align_of(in[n]->data, in[n]->stride, e[n > 1], in[n]->dtype) < 16 ||
            (e[n > 1][1] > 1 && (in[n]->stride[1] < 0 || in[n]->stride[1] >= far)))
            return 1;
    for (int n = 0; n < 3; n++)
        if (gpu_align_of(out[n]->data, out[n]->stride, e[n > 0], out[n]->dtype) < 16) return 1;
    return d->flags & ATTN_DEVICE || d->heads * (d->head_dim + d->v_dim) < far ? 16 : 1;
}
static const gpu_grad_kernel *gpu_pick_grad(const attn_desc *d, const attn_grad *g, int32_t units) {
    const int32_t align = gpu_grad_align(d, g), masks = gpu_masks_of(d);
    const bool flushes = d->q.dtype == ATTN_F16 && (units & F16_FLUSHES);
    const gpu_grad_kernel *row = gpu_grad_kernels;
    for (;; row++)
        if (row->dtype == d->q.dtype && !(row->units & ~units) &&
            (row->units == UNIT_SCALAR || (row->units & (UNIT_MFMA_F32 | UNIT_FMA)) ||
                (g->dout.dtype == row->dtype && !flushes)) &&
            d->head_dim <= row->dim && d->v_dim <= row->dim && !(masks & ~row->masks) &&
            align >= row->align)
            return row;
}
/* ============================================================================= >>convert ====
   Layout and dtype conversion: dst = src, rounded once, to nearest even. Bitwise what attn_convert
   does on the CPU. Or dst = dst + src, for what comes from other ranks. */
struct gpu_convert_params {
    const char *src;
    char *dst;
    int64_t src_stride[3], dst_stride[3], tokens, heads, dim, rows; /* in elements; dim: one row */
    int32_t src_dtype, dst_dtype; /* equal: elements of `unit` bytes are copied */
    int32_t unit, rows_per_block, add;
};

/* A NaN keeps its sign and what the type has room for of its payload, whatever the device's own
   instructions do. False: it is none. */
__device__ static inline bool gpu_convert_nan(
    const gpu_convert_params &p, int64_t to, int64_t from) {
    uint64_t x; /* as f64 */
    switch (p.src_dtype) {
        case ATTN_F64: x = ((const uint64_t *)p.src)[from]; break;
        case ATTN_F32: {
            const uint64_t u = ((const uint32_t *)p.src)[from];
            x = (u >> 31) << 63 | (u >> 23 & 0xff) / 0xff * 0x7ff << 52 | (u & 0x7fffff) << 29;
            break;
        }
        case ATTN_F16: {
            const uint64_t u = ((const uint16_t *)p.src)[from];
            x = (u >> 15) << 63 | (u >> 10 & 0x1f) / 0x1f * 0x7ff << 52 | (u & 0x3ff) << 42;
            break;
        }
        case ATTN_BF16: {
            const uint64_t u = ((const uint16_t *)p.src)[from];
            x = (u >> 15) << 63 | (u >> 7 & 0xff) / 0xff * 0x7ff << 52 | (u & 0x7f) << 45;
            break;
        }
        default: return false;
    }
    if ((x << 1) >> 1 <= (uint64_t)0x7ff << 52) return false;
    /* a shift: as it is; gpu_put64 has its own */
    if (p.src_dtype == ATTN_BF16 && p.dst_dtype == ATTN_F32) return false;
    if (p.src_dtype == ATTN_F64 && p.dst_dtype != ATTN_F32) return false;
    x |= (uint64_t)1 << 51; /* quiet */
    const uint32_t sign = (uint32_t)(x >> 63);
    const uint64_t payload = x << 12 >> 12;
    switch (p.dst_dtype) {
        case ATTN_F64: ((uint64_t *)p.dst)[to] = x; return true;
        case ATTN_F32:
            ((uint32_t *)p.dst)[to] = sign << 31 | 0x7f800000u | (uint32_t)(payload >> 29);
            return true;
        case ATTN_F16:
            ((uint16_t *)p.dst)[to] = (uint16_t)(sign << 15 | 0x7c00u | (uint32_t)(payload >> 42));
            return true;
        case ATTN_BF16:
            ((uint16_t *)p.dst)[to] = (uint16_t)(sign << 15 | 0x7f80u | (uint32_t)(payload >> 45));
            return true;
    }
    return false;
}
__device__ static inline void gpu_convert_one(
    const gpu_convert_params &p, int64_t to, int64_t from) {
    if (!p.add && p.src_dtype != p.dst_dtype && gpu_convert_nan(p, to, from)) return;
    if (p.add) {
        gpu_put64(p.dst, p.dst_dtype, to,
            gpu_get64(p.dst, p.dst_dtype, to) + gpu_get64(p.src, p.src_dtype, from));
    } else if (p.src_dtype == p.dst_dtype) {
        switch (p.unit) {
            case 1:  ((uint8_t *)p.dst)[to] = ((const uint8_t *)p.src)[from]; break;
            case 2:  ((uint16_t *)p.dst)[to] = ((const uint16_t *)p.src)[from]; break;
            case 4:  ((uint32_t *)p.dst)[to] = ((const uint32_t *)p.src)[from]; break;
            case 8:  ((uint64_t *)p.dst)[to] = ((const uint64_t *)p.src)[from]; break;
            default: ((uint4 *)p.dst)[to] = ((const uint4 *)p.src)[from]; break;
        }
    } else if (p.src_dtype == ATTN_F64) {
        gpu_put64(p.dst, p.dst_dtype, to, ((const double *)p.src)[from]);
    } else gpu_put(p.dst, p.dst_dtype, to, gpu_get(p.src, p.src_dtype, from));
}
__global__ static void __launch_bounds__(256) gpu_convert_kernel(gpu_convert_params p) {
    const int64_t first = (int64_t)blockIdx.x * p.rows_per_block;
    const int64_t left = p.rows - first, rows = left < p.rows_per_block ? left : p.rows_per_block;
    int64_t r = first + threadIdx.x / p.dim, c = threadIdx.x % p.dim;
    const int64_t row_step = 256 / p.dim, step = 256 % p.dim;
    while (r < first + rows) {
        int64_t token, b;
        if (p.rows <= UINT32_MAX) { /* a division in 64 bits is a hundred instructions */
            token = (uint32_t)r / (uint32_t)p.heads;
            b = (uint32_t)token / (uint32_t)p.tokens;
        } else {
            token = r / p.heads;
            b = token / p.tokens;
        }
        const int64_t h = r - token * p.heads, t = token - b * p.tokens;
        gpu_convert_one(p, b * p.dst_stride[0] + t * p.dst_stride[1] + h * p.dst_stride[2] + c,
            b * p.src_stride[0] + t * p.src_stride[1] + h * p.src_stride[2] + c);
        r += row_step;
        c += step;
        if (c >= p.dim) {
            c -= p.dim;
            r++;
        }
    }
}

/* Sequence lengths from host memory travel in the arguments of a launch: they may change as soon
 * as it returns. */
enum { GPU_WORDS = 480 };
struct gpu_word_block {
    int32_t n, word[GPU_WORDS];
};
__global__ static void __launch_bounds__(64) gpu_store_words(int32_t *to, gpu_word_block from) {
    for (int32_t i = (int32_t)threadIdx.x; i < from.n; i += 64) to[i] = from.word[i];
}

/* What the loader chose for this chip: its units are told by the LDS that this kernel
   declares. So the host has no list of chips, and finds out whether there is code for the chip,
   without a launch. */
enum { GPU_PROBE_BYTES = 256 }; /* times any sum of units: LDS has 64 KiB, NVIDIA's 48 */
__global__ static void __launch_bounds__(64) gpu_probe(int32_t *out) {
    __shared__ volatile int32_t units[GPU_PROBE_BYTES / 4 * (GPU_UNITS + 1)];
    for (uint32_t i = threadIdx.x; i < sizeof units / 4; i += 64) {
        units[i] = out[i];
        out[i] = units[i];
    }
}

/* ================================================================================ >>merge ====
   Parts of a row, each over keys of its own, become the row over all of them: attn_merge of the
   CPU, operation by operation in f64, to the same bits but for which NaN it is, which chips say
   each in their own way. */
enum { GPU_PARTS = 64 }; /* that travel in the arguments of a launch */
struct gpu_part {
    gpu_tensor o;
    const float *lse;
    int64_t dtype;
};
struct gpu_merge_params {
    gpu_tensor o;
    float *lse; /* of o and of every part: [batch][heads][tokens] */
    const float *sink;
    const gpu_part *more; /* more parts than those below: all of them */
    int64_t rows, tokens;
    int32_t heads, parts, v_dim, o_dtype;
    gpu_part part[GPU_PARTS];
};
__device__ static inline double gpu_power_of_2(int64_t e) {
    return __longlong_as_double((long long)((uint64_t)(e + 1023) << 52));
}
__device__ static inline double gpu_exp64(double x) {
    if (x != x) return x;
    if (x > 709.8) return __longlong_as_double(0x7ff0000000000000ll);
    if (x < -745.2) return 0;
    int64_t n = (int64_t)(gpu_product(x, 1.4426950408889634) + (x < 0 ? -0.5 : 0.5));
    const double r = (x - gpu_product((double)n, 6.93147180369123816490e-01)) -
                     gpu_product((double)n, 1.90821492927058770002e-10);
    const double inverse[14] = {1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040,
        1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600,
        1.0 / 6227020800.0, 1.0 / 87178291200.0};
    double p = 0;
    GPU_UNROLL for (int k = 13; k >= 0; k--)
        p = gpu_product(p + inverse[k], r);
    p = 1 + p;
    for (; n > 1000; n -= 1000) p *= gpu_power_of_2(1000);
    for (; n < -1000; n += 1000) p *= gpu_power_of_2(-1000);
    return p * gpu_power_of_2(n);
}
/* Of a sum of exponentials: x is at least 1, or NaN or infinite. */
__device__ static inline double gpu_log64(double x) {
    const double inverse[11] = {1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15,
        1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
    const uint64_t u = (uint64_t)__double_as_longlong(x);
    if (!(x < __longlong_as_double(0x7ff0000000000000ll))) return x;
    int64_t e = (int64_t)(u >> 52) - 1023;
    double m = __longlong_as_double((long long)((u & 0xfffffffffffffull) | 0x3ff0000000000000ull));
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    const double z = (m - 1) / (m + 1), zz = gpu_product(z, z);
    double p = 0;
    GPU_UNROLL for (int k = 10; k >= 0; k--)
        p = gpu_product(p + inverse[k], zz);
    return gpu_product((double)e, 6.93147180369123816490e-01) +
           (2 * z + (gpu_product(2 * z, p) + gpu_product((double)e, 1.90821492927058770002e-10)));
}
/* What the parts of a row are measured by: their largest lse, and the sum of exp(lse - max). */
struct gpu_merge_sum {
    double max, sum;
    bool empty;
};
__device__ static inline gpu_merge_sum gpu_merge_sum_of(
    const gpu_merge_params &p, const gpu_part *part, int32_t h, int64_t at) {
    const double none = -__longlong_as_double(0x7ff0000000000000ll);
    gpu_merge_sum m = {p.sink ? (double)p.sink[h] : none, 0, true};
    for (int32_t n = 0; n < p.parts; n++) {
        const double lse = (double)part[n].lse[at];
        m.empty = m.empty && lse == none;
        if (lse > m.max || lse != lse) m.max = lse;
    }
    if (m.empty) return m;
    if (p.sink) m.sum += gpu_exp64((double)p.sink[h] - m.max);
    for (int32_t n = 0; n < p.parts; n++) m.sum += gpu_exp64((double)part[n].lse[at] - m.max);
    return m;
}
/* What is finite stays finite. */
__device__ static inline float gpu_finite_lse(double lse) {
    const double most = 3.4028234663852886e38;
    if (fabs(lse) < __longlong_as_double(0x7ff0000000000000ll)) lse = fmin(fmax(lse, -most), most);
    return (float)lse;
}
/* Row i of head h of batch entry b, by one wave. */
__device__ static inline void gpu_merge_row(
    const gpu_merge_params &p, int64_t b, int32_t h, int64_t i) {
    const gpu_part *part = p.more ? p.more : p.part;
    const int32_t lane = (int32_t)threadIdx.x % GPU_WAVE;
    const int64_t at = (b * p.heads + h) * p.tokens + i;
    const gpu_merge_sum m = gpu_merge_sum_of(p, part, h, at);
    for (int32_t c = lane; c < p.v_dim; c += GPU_WAVE) {
        double x = 0;
        for (int32_t n = 0; n < p.parts && !m.empty; n++) {
            const float lse = part[n].lse[at];
            if (__float_as_uint(lse) == 0xff800000u) continue; /* an empty part: o is not read */
            const int64_t *step = part[n].o.stride;
            x += gpu_product(gpu_exp64((double)lse - m.max) / m.sum,
                gpu_get64(part[n].o.data, (int32_t)part[n].dtype,
                    b * step[0] + i * step[1] + h * step[2] + c));
        }
        gpu_put64((char *)p.o.data, p.o_dtype,
            b * p.o.stride[0] + i * p.o.stride[1] + h * p.o.stride[2] + c, x);
    }
    if (!p.lse || lane) return;
    p.lse[at] = gpu_finite_lse(m.empty ? m.max : m.max + gpu_log64(m.sum));
}
/* grid {any}: rows. */
__global__ static void __launch_bounds__(256) gpu_merge_kernel(gpu_merge_params p) {
    for (int64_t u = gpu_first_unit(); u < p.rows; u += gpu_units_step()) {
        const int64_t of_head = u / p.tokens, b = of_head / p.heads;
        gpu_merge_row(p, b, (int32_t)(of_head - b * p.heads), u - of_head * p.tokens);
    }
}

/* ---- rows over several ranks: as attn_mpi_* of the CPU, to the same bits but for that sign ---- */
/* Where the numbers of row i of head h of batch entry b lie. */
struct gpu_state_row {
    double *state;
    int64_t o, lse;
};
__device__ static inline gpu_state_row gpu_state_row_of(const attn_joining &j, int64_t u) {
    const int64_t of_head = u / j.rows, i = u - of_head * j.rows, b = of_head / j.heads,
                  h = of_head - b * j.heads, token = (j.batch + b) * j.tokens + j.token + i;
    return {j.state + (token * j.heads + h) * (j.v_dim + 2),
        b * j.o.stride[0] + i * j.o.stride[1] + h * j.o.stride[2], u};
}
/* One part more, of lse `most` and a sum of 1: what the row and the part are multiplied by. */
struct gpu_state_join {
    double max, sum, shrink, weight;
};
__device__ static inline gpu_state_join gpu_state_join_of(double max, double sum, double most) {
    if (sum != 0 && !(most > max) && most == most) {
        const double weight = gpu_exp64(most - max);
        return {max, sum + weight, 1, weight};
    }
    const double shrink = sum == 0 ? 0 : gpu_exp64(max - most), one = gpu_exp64(most - most);
    return {most, gpu_product(sum, shrink) + one, shrink, one}; /* NaN of an infinity */
}
__device__ static inline bool gpu_is_none(float lse) { return __float_as_uint(lse) == 0xff800000u; }
/* Both: grid {any}, rows. */
__global__ static void __launch_bounds__(256) gpu_state_join_kernel(attn_joining j) {
    const int32_t lane = (int32_t)threadIdx.x % GPU_WAVE;
    for (int64_t u = gpu_first_unit(); u < j.batches * j.heads * j.rows; u += gpu_units_step()) {
        const gpu_state_row row = gpu_state_row_of(j, u);
        const float lse = j.lse[row.lse];
        if (gpu_is_none(lse)) continue; /* an empty part: o is not read */
        const gpu_state_join s = gpu_state_join_of(row.state[0], row.state[1], (double)lse);
        gpu_wave_has_read();
        for (int64_t c = lane; c < j.v_dim; c += GPU_WAVE)
            row.state[2 + c] =
                gpu_product(row.state[2 + c], s.shrink) +
                gpu_product(s.weight, gpu_get64((const char *)j.o.data, j.o.dtype, row.o + c));
        if (lane) continue;
        row.state[0] = s.max;
        row.state[1] = s.sum;
    }
}
__global__ static void __launch_bounds__(256) gpu_state_finish_kernel(attn_joining j) {
    const int32_t lane = (int32_t)threadIdx.x % GPU_WAVE;
    for (int64_t u = gpu_first_unit(); u < j.batches * j.heads * j.rows; u += gpu_units_step()) {
        const gpu_state_row row = gpu_state_row_of(j, u);
        const float sink = j.sink ? j.sink[u / j.rows % j.heads] : GPU_NEG_INF;
        gpu_state_join s = {row.state[0], row.state[1], 1, 0};
        const bool keys = s.sum != 0;
        if (!gpu_is_none(sink)) s = gpu_state_join_of(s.max, s.sum, (double)sink);
        const bool empty = s.sum == 0;
        for (int64_t c = lane; c < j.v_dim; c += GPU_WAVE)
            gpu_put64((char *)j.o.data, j.o.dtype, row.o + c,
                keys ? gpu_product(row.state[2 + c], s.shrink) / s.sum : 0);
        if (j.lse && !lane)
            j.lse[row.lse] = empty ? GPU_NEG_INF : gpu_finite_lse(s.max + gpu_log64(s.sum));
    }
}

/* ================================================================================ >>parts ====
   The rows of sequences whose keys were computed in parts: o = sum_n w_n o_n / sum_n w_n over the
   parts n in order, with w_n = sum_n exp(maximum_n - maximum), and the sink once. */
struct gpu_join_params {
    gpu_params call;   /* cut: as the parts had it */
    const float *part; /* [batch << shift][heads][rows][v_dim] */
};
/* Row i of head h, by one wave. */
__device__ static inline void gpu_join_row(
    const gpu_join_params &j, const gpu_seq &s, int32_t parts, int32_t h, int32_t i) {
    enum { DIMS = 4 };
    const gpu_params &p = j.call;
    const int32_t lane = (int32_t)threadIdx.x % GPU_WAVE, all = i < s.q_used ? parts : 0;
    const int64_t at = (((int64_t)s.b << p.cut.shift) * p.heads + h) * p.cut.rows + i,
                  step = (int64_t)p.heads * p.cut.rows;
    float top = GPU_NEG_INF;
    for (int32_t n = lane; n < all; n += GPU_WAVE)
        top = fmaxf(top, p.cut.sums[2 * (at + n * step)]);
    top = gpu_wave_max(top);
    const float base = top == GPU_NEG_INF ? 0.0f : top;
    for (int32_t c0 = 0; c0 < p.v_dim; c0 += GPU_WAVE * DIMS) {
        float sum = 0, rest = 0, o[DIMS], o_rest[DIMS];
        for (int d = 0; d < DIMS; d++) o[d] = o_rest[d] = 0;
        for (int32_t n = 0; n < all; n++) {
            const float *of = p.cut.sums + 2 * (at + n * step),
                        *x = j.part + (at + n * step) * p.v_dim;
            const float w = of[1] * gpu_exp2((of[0] - base) * GPU_LOG2E);
            gpu_add_to(sum, rest, w);
            for (int d = 0; d < DIMS; d++) {
                const int32_t c = c0 + d * GPU_WAVE + lane;
                if (c < p.v_dim) gpu_add_any(o[d], o_rest[d], w * x[c]);
            }
        }
        const gpu_end e = gpu_end_of(p, h, top, sum + rest);
        const int64_t l = s.lse_base + h * s.lse_head + i;
        if (p.lse && c0 == 0 && lane == 0) p.lse[l] = e.lse;
        for (int d = 0; d < DIMS; d++) {
            const int32_t c = c0 + d * GPU_WAVE + lane;
            const float x = e.alive ? (o[d] + o_rest[d]) * e.factor : 0.0f;
            if (c < p.v_dim) gpu_put(gpu_o_row(p, s, h, i), p.o_dtype, c, x);
        }
    }
}
/* grid {any, heads, batch}: rows. */
__global__ static void __launch_bounds__(256) gpu_join_kernel(gpu_join_params arguments) {
    const gpu_join_params &j = gpu_reload(arguments);
    const gpu_seq s = gpu_whole_sequence(j.call, (int32_t)blockIdx.z);
    const int32_t parts = gpu_parts_of(j.call.cut, s.q_used, s.k_len);
    if (parts == 1) return;
    for (int64_t u = gpu_first_unit(); u < s.q_rows; u += gpu_units_step())
        gpu_join_row(j, s, parts, (int32_t)blockIdx.y, (int32_t)u);
}

/* ================================================================================ >>host ====
   Devices, errors, staging. No call here prints: each leaves a status,
   and a phrase in plan->why. */
#ifndef GPU_CHUNK_BYTES
#define GPU_CHUNK_BYTES (2 << 20) /* pieces of host tensors are at least so large */
#endif
#ifndef GPU_BATCH_MAX
#define GPU_BATCH_MAX 65535 /* sequences in a launch: grid.z */
#endif
enum { GPU_HEADS_MAX = 65535 }; /* grid.y */

static attn_status gpu_say(attn_plan *plan, attn_status s, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(plan->why, sizeof plan->why, format, args);
    va_end(args);
    return s;
}
/* Errors that the runtime reports again and again, until the process ends. ROCm says hipErrorLaunchFailure
   of a launch that it refuses, too, and from 7.0 on remembers it: after that one all is well. */
static bool gpu_is_sticky(hipError_t e) {
#if GPU_ON_CUDA
    if (e == hipErrorLaunchFailure || e == cudaErrorMisalignedAddress ||
        e == cudaErrorIllegalInstruction || e == cudaErrorHardwareStackError ||
        e == cudaErrorInvalidPc || e == cudaErrorInvalidAddressSpace)
        return true;
#endif
    return e == hipErrorIllegalAddress || e == hipErrorAssert || e == hipErrorECCNotCorrectable ||
           e == hipErrorLaunchTimeOut;
}
/* What runtimes say of a chip that there is no code for: ROCm, by its version, four of these; CUDA
   also that its driver is too old for the PTX. */
static bool gpu_is_no_code(hipError_t e) {
#if GPU_ON_CUDA
    if (e == cudaErrorUnsupportedPtxVersion) return true;
#endif
    return e == hipErrorNoBinaryForGpu || e == hipErrorInvalidDeviceFunction ||
           e == hipErrorInvalidKernelFile || e == hipErrorInvalidImage ||
           e == hipErrorSharedObjectInitFailed;
}
static attn_status gpu_failed(attn_plan *plan, hipError_t e, const char *call) {
    const attn_status s = e == hipErrorOutOfMemory ? ATTN_ERR_GPU_MEMORY
                          : e == hipErrorNoDevice || e == hipErrorInvalidDevice ? ATTN_ERR_NO_DEVICE
                          : gpu_is_no_code(e)                                   ? ATTN_ERR_GPU_ARCH
                          : gpu_is_sticky(e) ? ATTN_ERR_GPU_STICKY
                                             : ATTN_ERR_GPU;
    (void)hipGetLastError(); /* it was reported: the caller's next check shall not meet it */
    return gpu_say(plan, s, "%s: %s", call, hipGetErrorString(e));
}
#define GPU_TRY(call, args) \
    do { \
        hipError_t gpu_e = call args; \
        if (gpu_e != hipSuccess) return gpu_failed(plan, gpu_e, #call); \
    } while (0)

static double gpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- devices: looked at once each ---- */
struct gpu_device {
    int32_t known, units, compute_units;
    char isa[32]; /* lives as long as the library: attn_plan.isa */
};
enum { GPU_DEVICES = 64 };
static gpu_device gpu_devices_found[GPU_DEVICES];
static pthread_mutex_t gpu_lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t gpu_process; /* that first used the GPU */

static bool gpu_is_child(void) {
    return __atomic_load_n(&gpu_process, __ATOMIC_RELAXED) != getpid();
}
static attn_status gpu_forked(attn_plan *plan) {
    const pid_t now = getpid();
    pid_t none = 0;
    if (__atomic_compare_exchange_n(
            &gpu_process, &none, now, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
        none == now)
        return ATTN_OK;
    return gpu_say(plan, ATTN_ERR_GPU, "the process was forked off one that had used the GPU");
}
/* index: the thread's device */
static attn_status gpu_look(int32_t index, attn_plan *plan, gpu_device *found) {
    hipDeviceProp_t prop;
    hipFuncAttributes probe;
    hipError_t e;
    *found = gpu_devices_found[index];
    if (found->known) return ATTN_OK;
    GPU_TRY(hipGetDeviceProperties, (&prop, index));
#if GPU_ON_CUDA
    snprintf(found->isa, sizeof found->isa, "sm_%d%d", prop.major, prop.minor);
#else
    snprintf(found->isa, sizeof found->isa, "%.*s", (int)strcspn(prop.gcnArchName, ":"),
        prop.gcnArchName);
#endif
    found->compute_units = prop.multiProcessorCount;
    e = hipFuncGetAttributes(&probe, (const void *)gpu_probe);
    if (gpu_is_no_code(e) || (!e && probe.sharedSizeBytes < GPU_PROBE_BYTES)) {
        (void)hipGetLastError();
        return gpu_say(plan, ATTN_ERR_GPU_ARCH, "device %d is a %s", (int)index, found->isa);
    }
    if (e != hipSuccess) return gpu_failed(plan, e, "hipFuncGetAttributes");
    found->units = (int32_t)(probe.sharedSizeBytes / GPU_PROBE_BYTES) - 1;
    found->known = 1;
    gpu_devices_found[index] = *found;
    return ATTN_OK;
}
/* Makes the device named the thread's. Then, whatever came of it, gpu_leave. */
struct gpu_visit {
    int32_t before, changed, relaxed;
    hipStreamCaptureMode mode; /* of the thread before it was relaxed */
};
static attn_status gpu_enter(int32_t index, attn_plan *plan, gpu_device *found, gpu_visit *v) {
    int count = 0, before = 0;
    v->changed = v->relaxed = 0;
    if (gpu_forked(plan)) return ATTN_ERR_GPU;
    const hipError_t earlier = hipPeekAtLastError();
    const char *text = hipGetErrorString(earlier);
    if (gpu_is_sticky(earlier)) return gpu_say(plan, ATTN_ERR_GPU_STICKY, "%s", text);
    hipError_t e = hipGetDeviceCount(&count);
    if (e == hipSuccess && count == 0) e = hipErrorNoDevice;
    if (e != hipSuccess) { /* whatever else it says: no driver, a driver too old */
        const attn_status failed = gpu_failed(plan, e, "hipGetDeviceCount");
        return failed == ATTN_ERR_GPU_MEMORY || failed == ATTN_ERR_GPU_STICKY ? failed
                                                                              : ATTN_ERR_NO_DEVICE;
    }
    if (index >= count || index >= GPU_DEVICES)
        return gpu_say(plan, ATTN_ERR_NO_DEVICE, "device %d of %d", (int)index, count);
    GPU_TRY(hipGetDevice, (&before));
    v->before = before;
    if (before != index) GPU_TRY(hipSetDevice, (index));
    v->changed = before != index;
    pthread_mutex_lock(&gpu_lock);
    attn_status s = gpu_look(index, plan, found);
    pthread_mutex_unlock(&gpu_lock);
    return s;
}
/* Until gpu_tighten the thread may allocate, free and wait while another one captures a stream into a
   graph: none of it is about that stream. */
static void gpu_relax(gpu_visit *v) {
    v->mode = hipStreamCaptureModeRelaxed;
    v->relaxed = hipThreadExchangeStreamCaptureMode(&v->mode) == hipSuccess;
    if (!v->relaxed) (void)hipGetLastError();
}
static void gpu_tighten(gpu_visit *v) {
    if (v->relaxed && hipThreadExchangeStreamCaptureMode(&v->mode) != hipSuccess)
        (void)hipGetLastError();
    v->relaxed = 0;
}
static void gpu_leave(gpu_visit *v) {
    gpu_tighten(v);
    if (v->changed && hipSetDevice(v->before) != hipSuccess) (void)hipGetLastError();
}

/* *yes: p is memory of the device (managed memory is); or, with any_device, memory that the
 * host cannot reach. */
static attn_status gpu_is_device_memory(
    const void *p, int32_t device, bool any_device, bool *yes, attn_plan *plan) {
    hipPointerAttribute_t a;
    memset(&a, 0, sizeof a);
    *yes = false;
    hipError_t e = hipPointerGetAttributes(&a, p);
    if (e == hipErrorInvalidValue) {
        (void)hipGetLastError(); /* ordinary host memory */
        return ATTN_OK;
    }
    if (e != hipSuccess) return gpu_failed(plan, e, "hipPointerGetAttributes");
#if GPU_ON_CUDA || HIP_VERSION_MAJOR >= 6
    bool managed = a.type == hipMemoryTypeManaged, on_device = a.type == hipMemoryTypeDevice;
#if !GPU_ON_CUDA
    managed |= a.isManaged != 0; /* which some versions say of memory of another type */
#endif
#else
    const bool managed = a.isManaged, on_device = a.memoryType == hipMemoryTypeDevice;
#endif
    *yes = any_device ? on_device && !managed : managed || (on_device && a.device == device);
    return ATTN_OK;
}

struct gpu_pointer {
    const char *name;
    const void *p;
};
enum { GPU_POINTERS = 40 };
/* The pointers of a call, but those of empty tensors and, with `host_seq`, of sequence arrays. */
static int gpu_pointers(const attn_desc *d, const attn_grad *g, bool host_seq, gpu_pointer *list) {
    const attn_grad none = {}, *grad = g ? g : &none;
    const attn_append *a = &d->append;
    int64_t eq[3], ek[3], en[3];
    int n = 0;
    gpu_extent_q(d, eq);
    gpu_extent_k(d, ek);
    gpu_extent_new(d, en);
    /* of packed sequences bias, mask and dbias have q_len rows, whatever total_q is */
    const bool q = eq[0] && eq[1], k = ek[0] && ek[1], added = en[0] && en[1],
               pairs = d->batch && d->q_len && d->kv_len;
    const gpu_pointer all[] = {{"q", q ? d->q.data : NULL}, {"k", k ? d->k.data : NULL},
        {"v", k ? d->v.data : NULL}, {"o", q ? d->o.data : NULL}, {"lse", q ? d->lse : NULL},
        {"bias", pairs ? d->bias.data : NULL}, {"mask", pairs ? d->mask.data : NULL},
        {"alibi", d->alibi}, {"sink", d->sink}, {"bias_scale", d->bias_scale},
        {"dout", q ? grad->dout.data : NULL}, {"dlse", q ? grad->dlse : NULL},
        {"dq", q ? grad->dq.data : NULL}, {"dk", k ? grad->dk.data : NULL},
        {"dv", k ? grad->dv.data : NULL}, {"dbias", pairs ? grad->dbias : NULL},
        {"dsink", grad->dsink}, {"seq.cu_q", host_seq ? NULL : d->seq.cu_q},
        {"seq.cu_k", host_seq ? NULL : d->seq.cu_k},
        {"seq.used_q", host_seq ? NULL : d->seq.used_q},
        {"seq.used_k", host_seq ? NULL : d->seq.used_k},
        {"seq.start_k", host_seq ? NULL : d->seq.start_k},
        {"seq.slot", host_seq ? NULL : d->seq.slot},
        {"seq.block_table", host_seq ? NULL : d->seq.block_table},
        {"k.scale", k ? d->k.scale : NULL}, {"v.scale", k ? d->v.scale : NULL},
        {"append.k", added ? a->k.data : NULL}, {"append.v", added ? a->v.data : NULL},
        {"append.cu", host_seq ? NULL : a->cu}, {"append.rotary_cos", a->rotary_cos},
        {"append.rotary_sin", a->rotary_sin}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].p) list[n++] = all[i];
    return n;
}

/* ---- launch ---- */
#define GPU_SMALLEST 1.17549435e-38f /* 2^-126 */
static gpu_params gpu_params_of(const attn_desc *d) {
    gpu_params p;
    memset(&p, 0, sizeof p);
    const attn_in *in[5] = {&d->q, &d->k, &d->v, &d->bias, &d->mask};
    gpu_tensor *to[5] = {&p.q, &p.k, &p.v, &p.bias, &p.mask};
    for (int n = 0; n < 5; n++) {
        to[n]->data = (const char *)in[n]->data;
        memcpy(to[n]->stride, in[n]->stride, sizeof to[n]->stride);
    }
    p.o.data = (const char *)d->o.data;
    memcpy(p.o.stride, d->o.stride, sizeof p.o.stride);
    /* no step is taken along an axis of one, whatever its stride says: kernels may add
     * tiles of it */
    int64_t eq[3], ek[3];
    gpu_extent_q(d, eq);
    gpu_extent_k(d, ek);
    for (int a = 0; a < 3; a++) {
        if (eq[a] <= 1) p.q.stride[a] = p.o.stride[a] = 0;
        if (ek[a] <= 1) p.k.stride[a] = p.v.stride[a] = 0;
    }
    p.lse = d->lse;
    p.alibi = d->alibi;
    p.bias_scale = d->bias_scale;
    p.sink = d->sink;
    p.cu_q = d->seq.cu_q;
    p.cu_k = d->seq.cu_k;
    p.used_q = d->seq.used_q;
    p.used_k = d->seq.used_k;
    p.start_k = d->seq.start_k;
    p.slot = d->seq.slot;
    p.total_q = d->seq.total_q;
    p.total_k = d->seq.total_k;
    p.slots = d->seq.slots;
    p.batch = (int32_t)d->batch;
    p.heads = (int32_t)d->heads;
    p.kv_heads = (int32_t)d->kv_heads;
    p.group = p.heads / p.kv_heads;
    p.q_len = (int32_t)d->q_len;
    p.kv_len = (int32_t)d->kv_len;
    p.head_dim = (int32_t)d->head_dim;
    p.v_dim = (int32_t)d->v_dim;
    p.o_dtype = d->o.dtype;
    p.bias_dtype = d->bias.dtype;
    p.masks = gpu_masks_of(d);
    p.flags = d->flags;
    p.scale = d->scale;
    p.scale_log2 = (float)((double)d->scale * 1.4426950408889634);
    /* its inverse is finite */
    p.softcap = d->softcap > 0 && d->softcap < GPU_SMALLEST ? GPU_SMALLEST : d->softcap;
    p.softcap_before = p.softcap > 1 ? 0.25f : 1.0f;
    p.softcap_inverse = 1 / (p.softcap * p.softcap_before);
    p.offset = d->offset;
    p.window_left = d->window_left;
    p.window_right = d->window_right;
    p.dropout_below = (uint32_t)((double)d->dropout * 4294967296.0);
    p.dropout_scale = (float)(1 / (1 - (double)d->dropout));
    p.seed[0] = (uint32_t)d->seed;
    p.seed[1] = (uint32_t)(d->seed >> 32);
    p.philox_offset = (uint32_t)d->philox_offset;
    return p;
}
static gpu_codes gpu_codes_of(const attn_in *x, const int64_t *extent) {
    gpu_codes c = {x->scale, {0, 0, 0}, x->dtype};
    for (int a = 0; a < 3; a++)
        if (extent[a] > 1) c.stride[a] = x->scale_stride[a];
    return c;
}
static gpu_cache_params gpu_cache_params_of(const attn_desc *d) {
    const int64_t most = INT32_MAX; /* of pages and tokens, that a table can name */
    gpu_cache_params p;
    int64_t ek[3];
    memset(&p, 0, sizeof p);
    gpu_extent_k(d, ek);
    p.call = gpu_params_of(d);
    p.k = gpu_codes_of(&d->k, ek);
    p.v = gpu_codes_of(&d->v, ek);
    p.table = d->seq.block_table;
    p.max_pages = d->seq.max_pages;
    p.page_size = (int32_t)(d->seq.page_size < most ? d->seq.page_size : most);
    p.pages = (int32_t)(d->seq.pages < most ? d->seq.pages : most);
    p.q_dtype = d->q.dtype;
    return p;
}
/* The same call from sequence b0 on. */
static void gpu_skip(gpu_params *p, const attn_desc *d, int64_t b0) {
    if (p->cu_q) p->cu_q += b0;
    else {
        p->q.data += gpu_bytes(d->q.dtype, b0 * p->q.stride[0]);
        p->o.data += gpu_bytes(d->o.dtype, b0 * p->o.stride[0]);
        if (p->lse) p->lse += b0 * d->heads * d->q_len;
    }
    if (p->cu_k) p->cu_k += b0;
    else if (p->slot) p->slot += b0;
    else if (!d->seq.block_table) {
        p->k.data += gpu_bytes(d->k.dtype, b0 * p->k.stride[0]);
        p->v.data += gpu_bytes(d->v.dtype, b0 * p->v.stride[0]);
    }
    if (p->used_q) p->used_q += b0;
    if (p->used_k) p->used_k += b0;
    if (p->start_k) p->start_k += b0;
    if (p->bias.data) p->bias.data += gpu_bytes(d->bias.dtype, b0 * p->bias.stride[0]);
    if (p->mask.data) p->mask.data += b0 * p->mask.stride[0];
    p->bh_first += (uint32_t)(b0 * d->heads);
}
static void gpu_skip_cache(gpu_cache_params *p, const attn_desc *d, int64_t b0) {
    gpu_skip(&p->call, d, b0);
    if (p->table) p->table += b0 * p->max_pages;
    if (p->table || p->call.cu_k || p->call.slot) return;
    if (p->k.scale) p->k.scale += b0 * p->k.stride[0];
    if (p->v.scale) p->v.scale += b0 * p->v.stride[0];
}
/* Where a call's kernels go, and where what is wrong is said. */
struct gpu_queue {
    hipStream_t stream;
    attn_plan *plan;
};
/* A kernel that takes its work by gpu_first_unit: `units` waves of each head and sequence, in
   workgroups of four waves of 64 lanes or eight of 32. None where there is nothing. */
struct gpu_work {
    int64_t units, heads, batch;
};
static attn_status gpu_launch_units(
    const gpu_queue *to, const void *kernel, void *params, gpu_work w) {
    const int64_t groups = (w.units + 3) / 4, most = 1 << 20;
    attn_plan *plan = to->plan;
    void *args[] = {params};
    if (!w.units || !w.heads || !w.batch) return ATTN_OK;
    GPU_TRY(hipLaunchKernel,
        (kernel,
            dim3((uint32_t)(groups < most ? groups : most), (uint32_t)w.heads, (uint32_t)w.batch),
            dim3(256), args, 0, to->stream));
    return ATTN_OK;
}

/* ---- launch of an attention ---- */
/* How many parts the keys of a sequence may have: as many as give each compute unit some workgroups
   where it is alone. wide: more than GPU_FEW_ROWS rows, which have a workgroup each head. */
static int32_t gpu_parts_most(const attn_desc *d, const gpu_device *device, bool wide) {
    const int64_t heads = wide ? d->heads : d->kv_heads, most = wide ? 16 : 64,
                  each = wide          ? 2
                         : GPU_ON_CUDA ? 3 /* side by side there: a fourth would come last */
                                       : 4,
                  want = (each * device->compute_units + heads - 1) / heads;
    return (int32_t)(want < 1 ? 1 : want < most ? want : most);
}
/* Every row is of one of two classes, by the rows of its sequence: few, wide. */
static gpu_cut gpu_cut_of(const attn_desc *d, const gpu_device *device) {
    gpu_cut c;
    memset(&c, 0, sizeof c);
    if (d->dropout > 0) return c; /* whose words are those of a key's number in the sequence */
    c.from = 1;
    c.to = GPU_CUT_ROWS;
    for (int wide = 0; wide < 2; wide++) c.most[wide] = gpu_parts_most(d, device, wide);
    return c;
}
/* The cut of a class; where a call has none of it, to is 0. */
static gpu_cut gpu_cut_class(const attn_desc *d, const gpu_cut *all, bool wide) {
    gpu_cut c = *all;
    const int64_t parts = (d->kv_len + GPU_PART_KEYS - 1) / GPU_PART_KEYS;
    if (wide) c.from = GPU_FEW_ROWS + 1;
    else if (c.to) c.to = GPU_FEW_ROWS;
    const bool ragged = d->seq.cu_q || d->seq.used_q;
    if (parts <= 1 || c.most[wide] == 1 || d->q_len < c.from || (d->q_len > c.to && !ragged))
        c.to = 0;
    c.rows = (int32_t)(d->q_len < c.to ? d->q_len : c.to);
    while (c.to && (int64_t)1 << c.shift < (parts < c.most[wide] ? parts : c.most[wide])) c.shift++;
    return c;
}
static int64_t gpu_pad64(int64_t bytes) { return (bytes + 63) / 64 * 64; }
/* Bytes of o and of the sums of a sequence's parts; what sequences at a time share. */
enum { GPU_PARTS_BYTES = 32 << 20 };
static int64_t gpu_part_bytes(const attn_desc *d, const gpu_cut *c) {
    return c->to ? (d->heads * c->rows * (d->v_dim + 2) * 4 << c->shift) : 0;
}
/* Of a call like d whose rows and keys may be fewer: so it never shrinks as they grow. */
static size_t gpu_parts_bytes(const attn_desc *d, const gpu_cut *all) {
    attn_desc few = *d;
    int64_t most = 0;
    for (int wide = 0; wide < 2; wide++) {
        const int64_t rows = wide ? GPU_CUT_ROWS : GPU_FEW_ROWS;
        if (d->q_len > rows) few.q_len = rows;
        else few.q_len = d->q_len;
        const gpu_cut c = gpu_cut_class(&few, all, wide);
        const int64_t each = gpu_part_bytes(&few, &c),
                      share = each > GPU_PARTS_BYTES ? each : GPU_PARTS_BYTES,
                      bytes = each && d->batch > share / each ? share : each * d->batch;
        if (bytes > most) most = bytes;
    }
    return (size_t)gpu_pad64(most);
}

/* ---- what is laid out as rows of one type before it is read: of as many sequences at a time as there
   is room for ---- */
#ifndef GPU_LAY_BYTES
#define GPU_LAY_BYTES (64 << 20)
#endif
static int64_t gpu_rows_total(const attn_desc *d) {
    return d->seq.cu_q ? d->seq.total_q : d->batch * d->q_len;
}
struct gpu_lay {
    bool on, q;                          /* anything; q too */
    int32_t dtype;                       /* of k and v */
    int64_t keys, each, at_once;         /* of a sequence; bytes of a dim of them; sequences */
    int64_t kv_bytes, used_bytes, bytes; /* of k and v; of used; of all */
};
/* Pages of host memory are put in order as they are staged. decode: whether parts of few rows are read
   where they lie; of a call of no others there are few keys left. */
static gpu_lay gpu_lay_of(const attn_desc *d, const gpu_cut *cut, bool decode) {
    gpu_lay l;
    memset(&l, 0, sizeof l);
    const bool same = d->q.dtype == d->k.dtype && d->k.dtype == d->v.dtype;
    if (d->q_len == 0 || (same && !(d->seq.block_table && (d->flags & ATTN_DEVICE)))) return l;
    l.on = true;
    l.dtype = same ? d->q.dtype : (int32_t)ATTN_F32;
    l.q = d->q.dtype != l.dtype;
    l.keys = d->kv_len;
    if (decode && !d->seq.start_k && d->q_len <= GPU_FEW_ROWS && l.keys > GPU_PART_KEYS &&
        gpu_cut_class(d, cut, false).to)
        l.keys = GPU_PART_KEYS;
    const int64_t huge = (int64_t)1 << 60, dims = d->head_dim + d->v_dim;
    l.each = l.keys * d->kv_heads * gpu_bytes(l.dtype, 1);
    /* what no memory holds is not had */
    const int64_t share = (double)l.each * (double)dims < (double)huge ? l.each * dims + 128 : huge,
                  most = share > GPU_LAY_BYTES ? share : GPU_LAY_BYTES,
                  sequences = most / share < d->batch ? most / share : d->batch;
    l.at_once = sequences < GPU_BATCH_MAX ? sequences : GPU_BATCH_MAX;
    l.kv_bytes = gpu_pad64(most / share < d->batch ? most : d->batch * share);
    l.used_bytes = gpu_pad64(d->batch * 4);
    l.bytes = l.used_bytes + l.kv_bytes +
              (l.q ? gpu_pad64(gpu_rows_total(d) * d->heads * d->head_dim * 4) : 0);
    return l;
}
static void gpu_rows_strides(int64_t *stride, int64_t tokens, int64_t heads, int64_t dim) {
    stride[2] = dim;
    stride[1] = heads * dim;
    stride[0] = tokens * stride[1];
}
/* The description of the rows laid out, without their addresses. */
static attn_desc gpu_laid_out(const attn_desc *d, const gpu_lay *l) {
    attn_desc to = *d;
    if (!l->on) return to;
    attn_in *kv[2] = {&to.k, &to.v};
    for (int n = 0; n < 2; n++) {
        kv[n]->data = NULL;
        kv[n]->scale = NULL;
        kv[n]->dtype = l->dtype;
        gpu_rows_strides(kv[n]->stride, l->keys, d->kv_heads, n ? d->v_dim : d->head_dim);
    }
    to.seq.cu_k = to.seq.slot = to.seq.block_table = NULL;
    if (!l->q) return to;
    to.q.data = NULL;
    to.q.dtype = l->dtype;
    gpu_rows_strides(to.q.stride, d->q_len, d->heads, d->head_dim);
    return to;
}

/* d: every pointer in device memory. bh_first: see gpu_params. cut: of the whole call, of which d
   may be a piece. room: for what is laid out, then gpu_parts_bytes. */
struct gpu_forward {
    const attn_desc *d;
    const gpu_kernel *kernel;
    const gpu_decode_kernel *decode;
    int64_t bh_first;
    gpu_cut cut;
    char *room;
    gpu_queue to;
    gpu_lay lay;
    int64_t laid; /* the first of the sequences that are laid out */
};
/* The arguments of sequences [b0, b0 + n), for kernels that read them where they lie. */
static gpu_cache_params gpu_forward_params(const gpu_forward *f, int64_t b0, int64_t n) {
    gpu_cache_params p = gpu_cache_params_of(f->d);
    p.call.bh_first = (uint32_t)f->bh_first;
    gpu_skip_cache(&p, f->d, b0);
    p.call.batch = (int32_t)n;
    return p;
}
/* What is laid out of them, and where. */
static gpu_lay_params gpu_lay_params_of(const gpu_forward *f, int64_t b0, int64_t n) {
    const attn_desc *d = f->d;
    const gpu_lay *l = &f->lay;
    const int64_t b = b0 - f->laid, k_bytes = gpu_pad64(l->at_once * l->each * d->head_dim);
    gpu_lay_params p;
    memset(&p, 0, sizeof p);
    p.from = gpu_forward_params(f, b0, n);
    p.from.call.cut = f->cut;
    p.used = (int32_t *)(void *)f->room + b0;
    p.k = f->room + l->used_bytes + b * l->each * d->head_dim;
    p.v = f->room + l->used_bytes + k_bytes + b * l->each * d->v_dim;
    p.keys = l->keys;
    p.dtype = l->dtype;
    p.decode = f->decode != NULL;
    if (l->q)
        p.q = (float *)(void *)(f->room + l->used_bytes + l->kv_bytes) +
              (d->seq.cu_q ? 0 : b0 * d->q_len * d->heads * d->head_dim);
    return p;
}
/* The arguments for kernels of rows. */
static gpu_cache_params gpu_rows_params(const gpu_forward *f, int64_t b0, int64_t n) {
    if (!f->lay.on) return gpu_forward_params(f, b0, n);
    const attn_desc to = gpu_laid_out(f->d, &f->lay);
    const gpu_lay_params at = gpu_lay_params_of(f, b0, n);
    const gpu_params rows = gpu_params_of(&to);
    gpu_cache_params p = at.from;
    p.call.k = rows.k;
    p.call.v = rows.v;
    p.call.k.data = at.k;
    p.call.v.data = at.v;
    if (at.q) {
        p.call.q = rows.q;
        p.call.q.data = (const char *)at.q;
    }
    p.call.cu_k = p.call.slot = NULL;
    p.call.used_k = at.used;
    return p;
}
static attn_status gpu_launch_lay(const gpu_forward *f, int64_t n) {
    const attn_desc *d = f->d;
    gpu_lay_params p = gpu_lay_params_of(f, f->laid, n);
    const int64_t rows = p.q ? d->q_len * (d->heads / d->kv_heads) : 0,
                  units = p.keys > rows ? p.keys : rows, most = 4096;
    /* capacity says little of how much there is: waves take more than one */
    const gpu_work all = {units < most ? units : most, d->kv_heads, n};
    return gpu_launch_units(&f->to, (const void *)gpu_lay_kernel, &p, all);
}
/* CUDA wants to be asked for more dynamic LDS than 48 KiB. */
static attn_status gpu_allow_lds(attn_plan *plan, const void *function, int32_t bytes) {
#if GPU_ON_CUDA
    if (bytes > 48 << 10) {
        hipError_t e =
            cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        if (e != hipSuccess) return gpu_failed(plan, e, "cudaFuncSetAttribute");
    }
#endif
    (void)plan, (void)function, (void)bytes;
    return ATTN_OK;
}
static attn_status gpu_launch_tiles(
    const gpu_forward *f, gpu_cache_params *p, int64_t rows, int64_t z) {
    const gpu_kernel *kernel = f->kernel;
    attn_plan *plan = f->to.plan;
    p->call.q_tiles = (int32_t)((rows + kernel->bm - 1) / kernel->bm);
    void *args[] = {p}; /* the kernels take p->call alone */
    GPU_TRY(hipLaunchKernel,
        (kernel->function, dim3((uint32_t)p->call.q_tiles, (uint32_t)f->d->heads, (uint32_t)z),
            dim3((uint32_t)kernel->threads), args, (size_t)kernel->lds_bytes, f->to.stream));
    return ATTN_OK;
}
static attn_status gpu_launch_decode(
    const gpu_forward *f, const gpu_decode_kernel *kernel, gpu_cache_params *p, int64_t z) {
    const int64_t rows = (int64_t)p->call.cut.rows * p->call.group;
    attn_plan *plan = f->to.plan;
    void *args[] = {p};
    GPU_TRY(hipLaunchKernel, (kernel->function,
                                 dim3((uint32_t)((rows + kernel->rows - 1) / kernel->rows),
                                     (uint32_t)f->d->kv_heads, (uint32_t)z),
                                 dim3((uint32_t)kernel->threads), args, 0, f->to.stream));
    return ATTN_OK;
}
/* Those of sequences [first, end) of a class that have parts: as many at a time as there is room for. */
static attn_status gpu_launch_parts(const gpu_forward *f, bool wide, int64_t first, int64_t end) {
    const attn_desc *d = f->d;
    const gpu_cut cut = gpu_cut_class(d, &f->cut, wide);
    const int64_t each = gpu_part_bytes(d, &cut);
    const bool decode = !wide && f->decode;
    char *parts = f->room + f->lay.bytes;
    if (!each) return ATTN_OK;
    int64_t at_once = each < GPU_PARTS_BYTES ? GPU_PARTS_BYTES / each : 1;
    if (at_once > GPU_BATCH_MAX >> cut.shift)
        at_once = GPU_BATCH_MAX >> cut.shift ? GPU_BATCH_MAX >> cut.shift : 1;
    for (int64_t b0 = first; b0 < end; b0 += at_once) {
        const int64_t n = end - b0 < at_once ? end - b0 : at_once;
        gpu_cache_params p = decode ? gpu_forward_params(f, b0, n) : gpu_rows_params(f, b0, n);
        gpu_join_params join = {p.call, (const float *)(void *)parts};
        const int64_t rows = (n << cut.shift) * d->heads * cut.rows;
        p.call.cut = cut;

        p.call.cut.sums = (float *)(void *)parts + rows * d->v_dim;
        join.call.cut = p.call.cut;
        p.call.o.data = parts;
        p.call.o.stride[1] = d->v_dim;
        p.call.o.stride[2] = cut.rows * d->v_dim;
        p.call.o.stride[0] = d->heads * p.call.o.stride[2];
        p.call.o_dtype = ATTN_F32;
        const gpu_work all = {d->q_len, d->heads, n};
        attn_status s = decode ? gpu_launch_decode(f, f->decode, &p, n << cut.shift)
                               : gpu_launch_tiles(f, &p, cut.rows, n << cut.shift);
        if (!s) s = gpu_launch_units(&f->to, (const void *)gpu_join_kernel, &join, all);
        if (s) return s;
    }
    return ATTN_OK;
}
/* Whether every sequence of the call has parts: their lengths are those of the call. */
static bool gpu_all_in_parts(const attn_desc *d, const gpu_cut *cut) {
    const attn_seq *s = &d->seq;
    return !s->cu_q && !s->used_q && !s->cu_k && !s->used_k && !s->start_k &&
           gpu_parts_of(*cut, (int32_t)d->q_len, (int32_t)d->kv_len) > 1;
}
/* Sequences [first, end) by kernels of rows. */
static attn_status gpu_launch_sequences(const gpu_forward *f, int64_t first, int64_t end) {
    const attn_desc *d = f->d;
    attn_status s = ATTN_OK;
    for (int64_t b0 = first; b0 < end && !s && !gpu_all_in_parts(d, &f->cut); b0 += GPU_BATCH_MAX) {
        const int64_t left = end - b0, n = left < GPU_BATCH_MAX ? left : GPU_BATCH_MAX;
        gpu_cache_params p = gpu_rows_params(f, b0, n);
        p.call.cut = f->cut;
        s = gpu_launch_tiles(f, &p, d->q_len, n);
    }
    for (int wide = f->decode != NULL; wide < 2 && !s; wide++)
        s = gpu_launch_parts(f, wide, first, end);
    return s;
}
static attn_status gpu_launch(gpu_forward *f) {
    const attn_desc *d = f->d;
    const bool decode_alone = f->decode && d->q_len <= GPU_FEW_ROWS && gpu_all_in_parts(d, &f->cut);
    const int64_t step = f->lay.on ? f->lay.at_once : d->batch;
    attn_status s = ATTN_OK;
    if (d->batch == 0 || d->q_len == 0) return ATTN_OK;
    s = gpu_allow_lds(f->to.plan, f->kernel->function, f->kernel->lds_bytes);
    for (f->laid = 0; f->laid < d->batch && !s && !decode_alone; f->laid += step) {
        const int64_t left = d->batch - f->laid, n = left < step ? left : step;
        if (f->lay.on) s = gpu_launch_lay(f, n);
        if (!s) s = gpu_launch_sequences(f, f->laid, f->laid + n);
    }
    return s || !f->decode ? s : gpu_launch_parts(f, false, 0, d->batch);
}

/* ---- launch of append: new keys and values into the cache, q rotated ---- */
/* Room for used_k after the append, then for q. */
static size_t gpu_append_used_bytes(const attn_desc *d) {
    return gpu_has_append(d) ? (size_t)gpu_pad64(d->batch * 4) : 0;
}
static size_t gpu_append_q_bytes(const attn_desc *d) {
    const int64_t elements = gpu_rows_total(d) * d->heads * d->head_dim;
    return d->append.rotary_cos ? (size_t)gpu_pad64(elements * 4) : 0;
}
/* The call that is left: longer caches, and q in f32 where it was rotated. */
static attn_desc gpu_after_append(const attn_desc *d, const int32_t *used, const float *q) {
    attn_desc left = *d;
    if (!gpu_has_append(d)) return left;
    memset(&left.append, 0, sizeof left.append);
    left.flags &= ~(uint32_t)ATTN_ROTARY_INTERLEAVED;
    left.seq.used_k = used;
    if (!d->append.rotary_cos) return left;
    left.q.data = q;
    left.q.dtype = ATTN_F32;
    gpu_rows_strides(left.q.stride, d->q_len, d->heads, d->head_dim);
    return left;
}
static gpu_append_params gpu_append_params_of(const attn_desc *d) {
    const attn_append *a = &d->append;
    gpu_append_params p;
    memset(&p, 0, sizeof p);
    p.cache = gpu_cache_params_of(d);
    p.k.data = (const char *)a->k.data;
    p.v.data = (const char *)a->v.data;
    memcpy(p.k.stride, a->k.stride, sizeof p.k.stride);
    memcpy(p.v.stride, a->v.stride, sizeof p.v.stride);
    p.k_dtype = a->k.dtype;
    p.v_dtype = a->v.dtype;
    p.cu = a->cu;
    p.len = a->len;
    p.total = a->total;
    p.cosine = a->rotary_cos;
    p.sine = a->rotary_sin;
    p.rotary_rows = a->rotary_rows;
    p.rotary_dim = (int32_t)a->rotary_dim;
    return p;
}
static attn_status gpu_launch_append(
    const gpu_queue *to, const attn_desc *d, gpu_append_params *p) {
    const int64_t batch = d->batch < GPU_BATCH_MAX ? d->batch : GPU_BATCH_MAX;
    const gpu_work rows = {d->q_len, d->heads, batch},
                   tokens = {d->append.len > 0 ? d->append.len : 1, d->kv_heads, batch};
    attn_status s = ATTN_OK;
    if (p->cosine) s = gpu_launch_units(to, (const void *)gpu_rotate_kernel, p, rows);
    return s ? s : gpu_launch_units(to, (const void *)gpu_append_kernel, p, tokens);
}

/* ---- launch of a backward ---- */
/* d, g: every pointer in device memory. delta: room for a float a row. */
struct gpu_grad_call {
    const attn_desc *d;
    const attn_grad *g;
    const gpu_grad_kernel *kernel;
    int64_t bh_first; /* see gpu_params */
    float *delta;
    gpu_queue to;
};
static gpu_grad_params gpu_grad_params_of(const gpu_grad_call *c) {
    const attn_desc *d = c->d;
    const attn_grad *g = c->g;
    gpu_grad_params p;
    memset(&p, 0, sizeof p);
    p.call = gpu_params_of(d);
    p.call.bh_first = (uint32_t)c->bh_first;
    const attn_out *out[3] = {&g->dq, &g->dk, &g->dv};
    gpu_tensor *to[3] = {&p.dq, &p.dk, &p.dv};
    for (int n = 0; n < 3; n++) {
        to[n]->data = (const char *)out[n]->data;
        memcpy(to[n]->stride, out[n]->stride, sizeof to[n]->stride);
    }
    p.dout.data = (const char *)g->dout.data;
    memcpy(p.dout.stride, g->dout.stride, sizeof p.dout.stride);
    int64_t extent[3];
    gpu_extent_q(d, extent);
    for (int a = 0; a < 3; a++) /* as q's */
        if (extent[a] <= 1) p.dout.stride[a] = 0;
    p.dtype = d->q.dtype;
    p.dout_dtype = g->dout.dtype;
    p.dq_dtype = g->dq.dtype;
    p.dk_dtype = g->dk.dtype;
    p.dv_dtype = g->dv.dtype;
    p.dlse = g->dlse;
    p.dbias = g->dbias;
    p.dsink = g->dsink;
    p.delta = c->delta;
    return p;
}
static void gpu_skip_grad(gpu_grad_params *p, const attn_desc *d, const attn_grad *g, int64_t b0) {
    gpu_skip(&p->call, d, b0);
    if (!p->call.cu_q) {
        const int64_t rows = b0 * d->heads * d->q_len;
        p->dout.data += gpu_bytes(g->dout.dtype, b0 * p->dout.stride[0]);
        p->dq.data += gpu_bytes(g->dq.dtype, b0 * p->dq.stride[0]);
        if (p->dlse) p->dlse += rows;
        p->delta += rows;
    }
    if (!p->call.cu_k) {
        p->dk.data += gpu_bytes(g->dk.dtype, b0 * p->dk.stride[0]);
        p->dv.data += gpu_bytes(g->dv.dtype, b0 * p->dv.stride[0]);
    }
    if (p->dbias) p->dbias += b0 * d->bias.stride[0];
}
static attn_status gpu_launch_grad_part(
    const gpu_queue *to, const gpu_grad_part *part, gpu_grad_params *p, gpu_work w) {
    attn_plan *plan = to->plan;
    void *args[] = {p};
    if (!part->function || !w.units || !w.heads || !w.batch) return ATTN_OK;
    if (!part->bm) return gpu_launch_units(to, part->function, p, w);
    const int64_t groups = (w.units + part->bm - 1) / part->bm;
    const attn_status s = gpu_allow_lds(plan, part->function, part->lds_bytes);
    if (s) return s;
    GPU_TRY(hipLaunchKernel,
        (part->function, dim3((uint32_t)groups, (uint32_t)w.heads, (uint32_t)w.batch),
            dim3((uint32_t)part->threads), args, (size_t)part->lds_bytes, to->stream));
    return ATTN_OK;
}
/* D, dq, dk and dv of sequences [b0, b0 + n). */
static attn_status gpu_launch_rows(const gpu_grad_call *c, int64_t b0, int64_t n) {
    const attn_desc *d = c->d;
    gpu_grad_params p = gpu_grad_params_of(c);
    gpu_skip_grad(&p, d, c->g, b0);
    p.call.batch = (int32_t)n;
    const gpu_work rows = {d->q_len, d->heads, n}, keys = {d->kv_len, d->kv_heads, n};
    const gpu_work few = {(rows.units + GPU_DELTA_ROWS - 1) / GPU_DELTA_ROWS, d->heads, n};
    attn_status s = gpu_launch_units(&c->to, (const void *)gpu_delta_kernel, &p, few);
    for (int part = 0; part < 3 && !s; part++)
        s = gpu_launch_grad_part(&c->to, &c->kernel->part[part], &p, part ? keys : rows);
    return s;
}
/* dbias of n of its batch entries, from b0 on; one that the whole batch shares is a sum over
   all of it. */
static attn_status gpu_launch_dbias(const gpu_grad_call *c, int64_t b0, int64_t n) {
    const attn_desc *d = c->d;
    const int64_t *step = d->bias.stride, rows = step[2] ? d->q_len : d->q_len > 0,
                  pieces = (d->kv_len + 31) / 32;
    gpu_grad_params p = gpu_grad_params_of(c);
    gpu_skip_grad(&p, d, c->g, b0);
    const gpu_work elements = {rows * pieces, step[1] ? d->heads : 1, n};
    return gpu_launch_units(&c->to, c->kernel->dbias, &p, elements);
}
static attn_status gpu_launch_grad(const gpu_grad_call *c) {
    const attn_desc *d = c->d;
    const bool own_bias = c->g->dbias && d->bias.stride[0];
    attn_status s = ATTN_OK;
    for (int64_t b0 = 0; b0 < d->batch && !s; b0 += GPU_BATCH_MAX) {
        const int64_t left = d->batch - b0, n = left < GPU_BATCH_MAX ? left : GPU_BATCH_MAX;
        s = gpu_launch_rows(c, b0, n);
        if (!s && own_bias) s = gpu_launch_dbias(c, b0, n);
    }
    if (!s && c->g->dbias && !own_bias) s = gpu_launch_dbias(c, 0, d->batch > 0);
    if (s || !c->g->dsink) return s;
    gpu_grad_params p = gpu_grad_params_of(c);
    attn_plan *plan = c->to.plan;
    void *args[] = {&p};
    GPU_TRY(hipLaunchKernel, ((const void *)gpu_dsink_kernel, dim3((uint32_t)d->heads), dim3(64),
                                 args, 0, c->to.stream));
    return ATTN_OK;
}

/* ---- buffers, streams and events that are kept from call to call; one call at a time has
 * a context ---- */
struct gpu_slot { /* a piece of a host call under way */
    char *pinned, *device;
    size_t pinned_size, device_size;
    hipStream_t stream;
    hipEvent_t start, stop; /* around its kernel */
    int32_t busy;
};
struct gpu_context {
    gpu_context *next;
    int32_t device;
    gpu_slot slot[2];
    char *out; /* pinned: results, until all of the work has succeeded */
    size_t out_size;
};
static gpu_context *gpu_idle;

static void gpu_context_destroy(gpu_context *c) {
    for (int n = 0; n < 2; n++) {
        gpu_slot *s = &c->slot[n];
        if (s->pinned) (void)hipHostFree(s->pinned);
        if (s->device) (void)hipFree(s->device);
        if (s->start) (void)hipEventDestroy(s->start);
        if (s->stop) (void)hipEventDestroy(s->stop);
        if (s->stream) (void)hipStreamDestroy(s->stream);
    }
    if (c->out) (void)hipHostFree(c->out);
    (void)hipGetLastError();
    free(c);
}
static void gpu_context_put(gpu_context *c) {
    if (gpu_is_child()) return; /* the parent's, as what holds the lock may be */
    pthread_mutex_lock(&gpu_lock);
    c->next = gpu_idle;
    gpu_idle = c;
    pthread_mutex_unlock(&gpu_lock);
}
/* After a call that ended so: what the runtime has refused is not used again. */
static void gpu_context_back(gpu_context *c, attn_status s) {
    if (s == ATTN_ERR_GPU || s == ATTN_ERR_GPU_STICKY) gpu_context_destroy(c);
    else gpu_context_put(c);
}
/* What no call holds goes; returns 0 where there is nothing. */
static int gpu_drop_idle(void) {
    pthread_mutex_lock(&gpu_lock);
    gpu_context *c = gpu_idle;
    gpu_idle = NULL;
    pthread_mutex_unlock(&gpu_lock);
    if (!c) return 0;
    int before = 0;
    gpu_visit visit;
    memset(&visit, 0, sizeof visit);
    visit.changed = hipGetDevice(&before) == hipSuccess;
    visit.before = before;
    gpu_relax(&visit);
    while (c) {
        gpu_context *next = c->next;
        (void)hipSetDevice(c->device);
        gpu_context_destroy(c);
        c = next;
    }
    gpu_leave(&visit);
    return 1;
}
/* Whether to ask again for memory of which there was too little: what is kept for later calls went. */
static bool gpu_makes_room(hipError_t e) { return e == hipErrorOutOfMemory && gpu_drop_idle(); }
static attn_status gpu_context_fill(gpu_context *c, attn_plan *plan) {
    for (int n = 0; n < 2; n++) {
        gpu_slot *s = &c->slot[n];
        s->busy = 0;
        if (!s->stream) GPU_TRY(hipStreamCreateWithFlags, (&s->stream, hipStreamNonBlocking));
        if (!s->start) GPU_TRY(hipEventCreate, (&s->start));
        if (!s->stop) GPU_TRY(hipEventCreate, (&s->stop));
    }
    return ATTN_OK;
}
static attn_status gpu_context_get(int32_t device, gpu_context **found, attn_plan *plan) {
    pthread_mutex_lock(&gpu_lock);
    gpu_context **at = &gpu_idle, *c;
    while (*at && (*at)->device != device) at = &(*at)->next;
    c = *at;
    if (c) *at = c->next;
    pthread_mutex_unlock(&gpu_lock);
    if (!c) {
        c = (gpu_context *)calloc(1, sizeof *c);
        if (!c) return ATTN_ERR_MEMORY;
        c->device = device;
    }
    attn_status s = gpu_context_fill(c, plan);
    if (s) {
        gpu_context_back(c, s);
        return s;
    }
    *found = c;
    return ATTN_OK;
}
/* A buffer of at least `want` bytes, pinned or of the device. */
static attn_status gpu_reserve(char **p, size_t *have, size_t want, bool pinned, attn_plan *plan) {
    if (*have >= want) return ATTN_OK;
    if (*p) {
        char *old = *p;
        *p = NULL;
        *have = 0;
        if (pinned) GPU_TRY(hipHostFree, (old));
        else GPU_TRY(hipFree, (old));
    }
    hipError_t e;
    do e = pinned ? hipHostMalloc((void **)p, want, 0) : hipMalloc((void **)p, want);
    while (gpu_makes_room(e));
    if (e != hipSuccess) return gpu_failed(plan, e, pinned ? "hipHostMalloc" : "hipMalloc");
    *have = want;
    return ATTN_OK;
}

/* ---- times of a thread's last call ---- */
struct gpu_times {
    double kernel, total, start;
    size_t bytes;
    int32_t wanted, pending; /* wanted: device calls too; pending: `events` were recorded */
    gpu_context *events;
};
static __thread gpu_times gpu_last;
static pthread_key_t gpu_last_key;
static pthread_once_t gpu_last_once = PTHREAD_ONCE_INIT;
static void gpu_last_end(void *events) {
    gpu_context_put((gpu_context *)events);
} /* a thread ends */
static int32_t gpu_last_keyed;
static void gpu_last_begin(void) {
    gpu_last_keyed = !pthread_key_create(&gpu_last_key, gpu_last_end);
}
/* Where this library is unloaded, a thread that ends later must not call gpu_last_end. */
__attribute__((destructor)) static void gpu_last_unload(void) {
    if (gpu_last_keyed) (void)pthread_key_delete(gpu_last_key);
}
static void gpu_last_release(void) {
    if (!gpu_last.events) return;
    (void)pthread_setspecific(gpu_last_key, NULL);
    gpu_context_put(gpu_last.events);
    gpu_last.events = NULL;
    gpu_last.pending = 0;
}
/* The slot whose events go around a device call's kernels, or NULL. */
static gpu_slot *gpu_last_slot(int32_t device, attn_plan *plan, attn_status *s) {
    if (!gpu_last.wanted) return NULL;
    if (gpu_last.events && gpu_last.events->device != device) gpu_last_release();
    if (!gpu_last.events) {
        (void)pthread_once(&gpu_last_once, gpu_last_begin);
        if ((*s = gpu_context_get(device, &gpu_last.events, plan)) != ATTN_OK) {
            gpu_last.events = NULL;
            return NULL;
        }
        (void)pthread_setspecific(gpu_last_key, gpu_last.events);
    }
    return gpu_last.events->slot;
}
attn_status attn_hip_last_times(
    double *kernel_seconds, double *total_seconds, size_t *device_bytes) {
    gpu_times *t = &gpu_last;
    float ms = 0;
    gpu_visit visit;
    attn_status s = ATTN_OK;
    t->wanted = 1;
    if (t->pending && !gpu_is_child()) {
        t->pending = 0;
        gpu_relax(&visit);
        if (hipEventSynchronize(t->events->slot->stop) != hipSuccess ||
            hipEventElapsedTime(&ms, t->events->slot->start, t->events->slot->stop) != hipSuccess) {
            (void)hipGetLastError();
            s = ATTN_ERR_GPU;
        }
        gpu_tighten(&visit);
        t->kernel = 1e-3 * (double)ms;
        t->total = gpu_now() - t->start;
    }
    if (kernel_seconds) *kernel_seconds = t->kernel;
    if (total_seconds) *total_seconds = t->total;
    if (device_bytes) *device_bytes = t->bytes;
    return s;
}

/* ---- device tensors: in place, on the caller's stream ---- */
/* Memory for what a stream does next. */
struct gpu_block {
    void *p;
    bool in_order; /* of the stream */
};
/* On the default stream ROCm 5.2 crashes and some refuse; 5.2 also calls NULL a success. Some of ROCm 6
   and 7 allocate in no stream's order while any stream is captured. */
#if !GPU_ON_CUDA && HIP_VERSION_MAJOR < 6
#define GPU_IN_ORDER(stream) (stream)
#else
#define GPU_IN_ORDER(stream) true
#endif
static attn_status gpu_block_get(gpu_block *b, size_t bytes, hipStream_t stream, attn_plan *plan) {
    const char *call = "hipMallocAsync";
    hipError_t e;
    do {
        e = GPU_IN_ORDER(stream) ? hipMallocAsync(&b->p, bytes, stream) : hipErrorNotSupported;
        if (e == hipSuccess && !b->p) e = hipErrorOutOfMemory;
    } while (gpu_makes_room(e));
    b->in_order = e == hipSuccess;
    if (e == hipErrorNotSupported || e == hipErrorStreamCaptureUnsupported ||
        (e == hipErrorInvalidValue && !stream)) {
        gpu_visit visit;
        (void)hipGetLastError();
        call = "hipMalloc";
        gpu_relax(&visit);
        do e = hipMalloc(&b->p, bytes);
        while (gpu_makes_room(e));
        gpu_tighten(&visit);
    }
    return e == hipSuccess ? ATTN_OK : gpu_failed(plan, e, call);
}
static void gpu_block_put(const gpu_block *b, hipStream_t stream) {
    if (b->p && b->in_order) (void)hipFreeAsync(b->p, stream);
    else if (b->p) {
        gpu_visit visit;
        gpu_relax(&visit);
        (void)hipStreamSynchronize(stream);
        (void)hipFree(b->p);
        gpu_tighten(&visit);
    }
}
struct gpu_array {
    const int32_t **p;
    int64_t n;
};
enum { GPU_ARRAYS = 8 };
static int gpu_arrays(attn_desc *d, gpu_array *list) {
    const gpu_array all[] = {{&d->seq.cu_q, d->batch + 1}, {&d->seq.cu_k, d->batch + 1},
        {&d->seq.used_q, d->batch}, {&d->seq.used_k, d->batch}, {&d->seq.start_k, d->batch},
        {&d->seq.slot, d->batch}, {&d->seq.block_table, d->batch * d->seq.max_pages},
        {&d->append.cu, d->batch + 1}};
    int n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (*all[i].p) list[n++] = all[i];
    return n;
}
/* Bytes of a device call's workspace: sequence arrays from host memory, then what a backward keeps
   of each row, or what an append leaves to the call, what is laid out and the parts of its keys. */
static size_t gpu_workspace_arrays(const attn_desc *d) {
    attn_desc copy = *d;
    gpu_array list[GPU_ARRAYS];
    size_t bytes = 0;
    if ((d->flags & (ATTN_DEVICE | ATTN_SEQ_HOST)) != (ATTN_DEVICE | ATTN_SEQ_HOST)) return 0;
    for (int n = gpu_arrays(&copy, list); n-- > 0;) bytes += (size_t)list[n].n * 4;
    return (size_t)gpu_pad64((int64_t)bytes);
}
static size_t gpu_delta_bytes(const attn_desc *d) {
    int64_t e[3];
    gpu_extent_q(d, e);
    return (size_t)gpu_pad64(e[0] * e[1] * e[2] * 4);
}
static size_t gpu_workspace(const attn_desc *d, const attn_grad *g, const gpu_device *device) {
    if (!(d->flags & ATTN_DEVICE)) return 0;
    if (g) return gpu_workspace_arrays(d) + gpu_delta_bytes(d);
    const attn_desc left = gpu_after_append(d, NULL, NULL);
    const gpu_cut cut = gpu_cut_of(d, device);
    return gpu_workspace_arrays(d) + gpu_append_used_bytes(d) + gpu_append_q_bytes(d) +
           (size_t)gpu_lay_of(&left, &cut, gpu_pick_decode(&left, device->units) != NULL).bytes +
           gpu_parts_bytes(d, &cut);
}
/* The sequence arrays of d go to device memory at `to`, which d then names. */
static attn_status gpu_store_arrays(
    attn_desc *d, int32_t *to, hipStream_t stream, attn_plan *plan) {
    gpu_array list[GPU_ARRAYS];
    gpu_word_block block;
    const int arrays = gpu_arrays(d, list);
    int32_t *at = to;
    block.n = 0;
    for (int a = 0; a < arrays; a++)
        for (int64_t i = 0; i < list[a].n; i++) {
            block.word[block.n++] = (*list[a].p)[i];
            if (block.n < GPU_WORDS && (a < arrays - 1 || i < list[a].n - 1)) continue;
            void *args[] = {&at, &block};
            GPU_TRY(hipLaunchKernel,
                ((const void *)gpu_store_words, dim3(1), dim3(64), args, 0, stream));
            at += block.n;
            block.n = 0;
        }
    for (int a = 0; a < arrays; a++) {
        *list[a].p = to;
        to += list[a].n;
    }
    return ATTN_OK;
}
/* The kernel of few rows, once what is new has been appended. */
static const gpu_decode_kernel *gpu_pick_decode_after(const attn_desc *d, int32_t units) {
    const attn_desc left = gpu_after_append(d, NULL, NULL);
    return gpu_pick_decode(&left, units);
}
/* The kernels of a forward call. f.room: the workspace behind the arrays. */
static attn_status gpu_launch_forward(gpu_forward f) {
    const attn_desc *d = f.d;
    char *workspace = f.room;
    if (!gpu_has_append(d)) {
        f.lay = gpu_lay_of(d, &f.cut, f.decode != NULL);
        return gpu_launch(&f);
    }
    gpu_append_params p = gpu_append_params_of(d);
    p.used_after = (int32_t *)(void *)workspace;
    p.q = (float *)(void *)(workspace + gpu_append_used_bytes(d));
    const attn_desc left = gpu_after_append(d, p.used_after, p.q);
    const attn_status s = gpu_launch_append(&f.to, d, &p);
    f.d = &left;
    f.lay = gpu_lay_of(&left, &f.cut, f.decode != NULL);
    f.room = workspace + gpu_append_used_bytes(d) + gpu_append_q_bytes(d);
    return s ? s : gpu_launch(&f);
}
static attn_status gpu_run_device(const attn_desc *in, const attn_grad *g, const gpu_kernel *kernel,
    const gpu_device *device, attn_plan *plan) {
    attn_desc d = *in;
    gpu_pointer list[GPU_POINTERS];
    hipStream_t stream = (hipStream_t)d.stream;
    const bool host_seq = d.flags & ATTN_SEQ_HOST;
    const size_t need = gpu_workspace(&d, g, device), arrays = gpu_workspace_arrays(&d);
    gpu_block own = {NULL, false};
    attn_status s = ATTN_OK;
    bool good = true;
    for (int n = gpu_pointers(&d, g, host_seq, list), i = 0; i < n; i++) {
        if ((s = gpu_is_device_memory(list[i].p, d.device, false, &good, plan)) != ATTN_OK)
            return s;
        if (!good)
            return gpu_say(plan, ATTN_ERR_GPU_POINTER, "%s is not memory of device %d",
                list[i].name, (int)d.device);
    }
    if (d.workspace &&
        (s = gpu_is_device_memory(d.workspace, d.device, false, &good, plan)) != ATTN_OK)
        return s;
    if (!good) return ATTN_ERR_GPU_WORKSPACE;

    gpu_slot *timed = gpu_last_slot(d.device, plan, &s);
    if (s) return s;
    gpu_last.bytes = need;
    if (need && !d.workspace) {
        if ((s = gpu_block_get(&own, need, stream, plan)) != ATTN_OK) return s;
        d.workspace = own.p;
    }
    if (arrays) s = gpu_store_arrays(&d, (int32_t *)d.workspace, stream, plan);
    hipError_t e = hipSuccess;
    if (!s && timed) e = hipEventRecord(timed->start, stream);
    char *rest = (char *)d.workspace + arrays;
    const gpu_grad_call call = {&d, g, g ? gpu_pick_grad(in, g, device->units) : NULL, 0,
        (float *)(void *)rest, {stream, plan}};
    const gpu_forward forward = {&d, kernel, gpu_pick_decode_after(&d, device->units), 0,
        gpu_cut_of(&d, device), rest, call.to, {}, 0};
    if (!s && !e) s = g ? gpu_launch_grad(&call) : gpu_launch_forward(forward);
    if (!s && !e && timed) e = hipEventRecord(timed->stop, stream);
    if (!s && e) s = gpu_failed(plan, e, "hipEventRecord");
    gpu_last.pending = !s && timed;
    gpu_block_put(&own, stream);
    return s;
}

/* ---- host tensors ---- */
/* A box of a strided host tensor and its place in a staging buffer. {batch, token, head}; an axis
   of stride 0 has extent 1 and is stored once. Of batch entry b only tokens [lo[b], hi[b]) are
   touched, where given. Slots and pages are put in order: those axes are whole. */
struct gpu_box {
    char *user, *staged;
    int64_t extent[3], user_step[3], staged_step[3], row; /* steps and row in bytes */
    const int32_t *lo, *hi, *slot, *pages;
    int64_t page_size, max_pages;
    int64_t tokens_per_task, tasks;
};
enum { GPU_BOXES = 8 };
struct gpu_copy {
    gpu_box box[GPU_BOXES];
    int32_t boxes, scatter;
    int64_t bytes;
};

static void gpu_copy_task(void *arg, int64_t task) {
    const gpu_copy *c = (const gpu_copy *)arg;
    const gpu_box *x = c->box;
    for (; task >= x->tasks; x++) task -= x->tasks;
    const int64_t per_batch = x->tasks / (x->extent[0] ? x->extent[0] : 1), b = task / per_batch;
    int64_t t = task % per_batch * x->tokens_per_task, end = t + x->tokens_per_task;
    if (end > x->extent[1]) end = x->extent[1];
    if (x->lo && t < x->lo[b]) t = x->lo[b];
    if (x->hi && end > x->hi[b]) end = x->hi[b];
    for (; t < end; t++)
        for (int64_t h = 0; h < x->extent[2]; h++) {
            const int64_t page = x->pages  ? x->pages[b * x->max_pages + t / x->page_size]
                                 : x->slot ? x->slot[b]
                                           : b,
                          token = x->pages ? t % x->page_size : t;
            char *user =
                x->user + page * x->user_step[0] + token * x->user_step[1] + h * x->user_step[2];
            char *staged =
                x->staged + b * x->staged_step[0] + t * x->staged_step[1] + h * x->staged_step[2];
            if (c->scatter) memcpy(user, staged, (size_t)x->row);
            else memcpy(staged, user, (size_t)x->row);
        }
}
static void gpu_copy_run(const attn_desc *d, gpu_copy *c) {
    int64_t tasks = 0;
    for (int n = 0; n < c->boxes; n++) tasks += c->box[n].tasks;
    if (c->bytes < 256 << 10)
        for (int64_t n = 0; n < tasks; n++) gpu_copy_task(c, n);
    else (void)attn_parallel(d, gpu_copy_task, c, tasks);
}
/* Rows of a host tensor, for a box; each is to lie at a multiple of `ld` bytes in the buffer. */
struct gpu_rows {
    char *user, *staged;
    const int64_t *extent, *stride; /* in elements of `dtype` */
    int32_t dtype;
    int64_t row, ld; /* in bytes */
    const int32_t *lo, *hi;
    const attn_seq *cache; /* NULL: batch entries lie as they are counted */
    int64_t b0;            /* of cache: the first entry */
};
/* The axes of k and v, batch first, that are whole as staged even where their stride is 0. */
static int gpu_whole_axes(const attn_seq *cache) {
    return !cache ? 0 : cache->block_table ? 2 : cache->slot ? 1 : 0;
}
/* Heads that lie side by side become one row. */
static void gpu_copy_add(gpu_copy *c, const gpu_rows &r) {
    gpu_box *x = &c->box[c->boxes];
    memset(x, 0, sizeof *x);
    if (!r.extent[0] || !r.extent[1] || !r.extent[2] || !r.row) return;
    int64_t step = r.ld;
    for (int a = 2; a >= 0; a--) {
        x->extent[a] = r.stride[a] == 0 && a >= gpu_whole_axes(r.cache) ? 1 : r.extent[a];
        x->user_step[a] = gpu_bytes(r.dtype, r.stride[a]);
        x->staged_step[a] = step;
        step *= x->extent[a];
    }
    x->user = r.user;
    x->staged = r.staged;
    x->row = r.row;
    x->lo = r.lo, x->hi = r.hi;
    if (r.cache && r.cache->block_table) {
        x->pages = r.cache->block_table + r.b0 * r.cache->max_pages;
        x->page_size = r.cache->page_size, x->max_pages = r.cache->max_pages;
    } else if (r.cache && r.cache->slot) x->slot = r.cache->slot + r.b0;
    if (x->extent[2] > 1 && r.row == r.ld && x->user_step[2] == r.row) {
        x->row *= x->extent[2];
        x->extent[2] = 1;
    }
    const int64_t token_bytes = x->row * x->extent[2], per_task = (64 << 10) / token_bytes;
    x->tokens_per_task = per_task < 1 ? 1 : per_task;
    x->tasks = x->extent[0] * ((x->extent[1] + x->tokens_per_task - 1) / x->tokens_per_task);
    c->bytes += x->extent[0] * x->extent[1] * token_bytes;
    c->boxes++;
}

/* Sequences [b0, b0 + nb) and kv heads [g0, g0 + ng), all of them where nb > 1; what lies where in
   the block that goes to the device. */
struct gpu_chunk {
    int64_t b0, nb, g0, ng, q0, q_tokens, k0, k_tokens; /* packed: first token and tokens */
    size_t q, k, v, k_scale, v_scale, bias, mask, alibi, sink, bias_scale, seq, in_bytes, lse,
        out_bytes; /* o at in_bytes, lse behind it; what is laid out and parts behind both */
};
static size_t gpu_grow(size_t *at, int64_t bytes) {
    const size_t here = *at;
    *at = (here + (size_t)bytes + 255) / 256 * 256;
    return here;
}
static int64_t gpu_pad(int64_t bytes) { return (bytes + 15) / 16 * 16; }
static int64_t gpu_axes(const int64_t *extent, const int64_t *stride) { /* rows that are stored */
    int64_t n = 1;
    for (int a = 0; a < 3; a++) n *= stride[a] == 0 && extent[a] > 0 ? 1 : extent[a];
    return n;
}
struct gpu_extents {
    int64_t q[3], k[3], bias[3];
};
static gpu_extents gpu_chunk_extents(const attn_desc *d, const gpu_chunk *c) {
    const int64_t heads = c->ng * (d->heads / d->kv_heads);
    const gpu_extents e = {{d->seq.cu_q ? 1 : c->nb, c->q_tokens, heads},
        {d->seq.cu_k ? 1 : c->nb, c->k_tokens, c->ng}, {c->nb, heads, d->q_len}};
    return e;
}
/* K and V of slots and pages are stored once per sequence. */
static int64_t gpu_k_rows(const attn_desc *d, const int64_t *extent, const int64_t *stride) {
    int64_t per_sequence[3];
    for (int a = 0; a < 3; a++) per_sequence[a] = a < gpu_whole_axes(&d->seq) ? 1 : stride[a];
    return gpu_axes(extent, per_sequence);
}
static void gpu_chunk_layout(const attn_desc *d, gpu_chunk *c) {
    const int32_t *cu_q = d->seq.cu_q, *cu_k = d->seq.cu_k;
    size_t at = 0;
    c->q0 = cu_q ? cu_q[c->b0] : 0;
    c->q_tokens = cu_q ? cu_q[c->b0 + c->nb] - c->q0 : d->q_len;
    c->k0 = cu_k ? cu_k[c->b0] : 0;
    c->k_tokens = cu_k ? cu_k[c->b0 + c->nb] - c->k0 : d->kv_len;
    const gpu_extents e = gpu_chunk_extents(d, c);
    const int64_t q_row = gpu_pad(gpu_bytes(d->q.dtype, d->head_dim)),
                  k_row = gpu_pad(gpu_bytes(d->k.dtype, d->head_dim)),
                  v_row = gpu_pad(gpu_bytes(d->v.dtype, d->v_dim)),
                  o_row = gpu_pad(gpu_bytes(d->o.dtype, d->v_dim)), heads = e.q[2];
    c->q = gpu_grow(&at, gpu_axes(e.q, d->q.stride) * q_row);
    c->k = gpu_grow(&at, gpu_k_rows(d, e.k, d->k.stride) * k_row);
    c->v = gpu_grow(&at, gpu_k_rows(d, e.k, d->v.stride) * v_row);
    c->k_scale = gpu_grow(&at, d->k.scale ? gpu_k_rows(d, e.k, d->k.scale_stride) * 4 : 0);
    c->v_scale = gpu_grow(&at, d->v.scale ? gpu_k_rows(d, e.k, d->v.scale_stride) * 4 : 0);
    c->bias = gpu_grow(&at,
        d->bias.data ? gpu_bytes(d->bias.dtype, gpu_axes(e.bias, d->bias.stride) * d->kv_len) : 0);
    c->mask = gpu_grow(&at, d->mask.data ? gpu_axes(e.bias, d->mask.stride) * d->kv_len : 0);
    c->alibi = gpu_grow(&at, d->alibi ? heads * 4 : 0);
    c->sink = gpu_grow(&at, d->sink ? heads * 4 : 0);
    c->bias_scale = gpu_grow(&at, d->bias_scale ? heads * 4 : 0);
    c->seq = gpu_grow(&at, (c->nb + 1) * 4 * 5);
    c->in_bytes = at;
    at = 0;
    (void)gpu_grow(&at, e.q[0] * e.q[1] * heads * o_row);
    c->lse = at;
    (void)gpu_grow(&at, d->lse ? e.q[0] * e.q[1] * heads * 4 : 0);
    c->out_bytes = at;
}
/* Room for the parts of a chunk, and for what is laid out. */
static size_t gpu_chunk_room(
    const attn_desc *d, const gpu_chunk *c, const gpu_cut *cut, int32_t units) {
    attn_desc piece = *d;
    piece.batch = c->nb;
    piece.heads = c->ng * (d->heads / d->kv_heads);
    piece.kv_heads = c->ng;
    piece.seq.total_q = c->q_tokens;
    return (size_t)gpu_lay_of(&piece, cut, gpu_pick_decode(d, units) != NULL).bytes +
           gpu_parts_bytes(&piece, cut);
}
/* The chunks in order: *c from {0} on; false after the last. */
static bool gpu_chunk_next(const attn_desc *d, int64_t nb, int64_t ng, gpu_chunk *c) {
    if (c->nb == 0) c->b0 = c->g0 = 0;
    else if (c->g0 + c->ng < d->kv_heads) c->g0 += c->ng;
    else {
        c->g0 = 0;
        c->b0 += c->nb;
    }
    if (c->b0 >= d->batch) return false;
    c->nb = d->batch - c->b0 < nb ? d->batch - c->b0 : nb;
    c->ng = d->kv_heads - c->g0 < ng ? d->kv_heads - c->g0 : ng;
    gpu_chunk_layout(d, c);
    return true;
}
/* Strides of what gpu_copy_add stores. */
static void gpu_staged_strides(
    int64_t *stride, const int64_t *extent, int64_t ld, const attn_seq *cache) {
    for (int a = 2; a >= 0; a--) {
        if (stride[a] == 0 && a >= gpu_whole_axes(cache)) continue;
        stride[a] = ld;
        ld *= extent[a];
    }
}
/* Rows of k or v, or their scales: a shared row of a broadcast axis is whole, whatever the
   lengths. t: a tensor of the chunk's call; its rows are `row` bytes, `ld` in the block. */
static void gpu_stage_keys(const attn_desc *d, const gpu_chunk *c, gpu_copy *copy, attn_in *t,
    char *staged, int64_t row, int64_t ld) {
    const gpu_extents e = gpu_chunk_extents(d, c);
    const attn_seq *s = &d->seq;
    const int whole = gpu_whole_axes(s);
    const int64_t first =
        (s->cu_k || whole ? 0 : c->b0) * t->stride[0] + c->k0 * t->stride[1] + c->g0 * t->stride[2];
    const bool all =
        s->cu_k || (t->stride[0] == 0 && whole < 1) || (t->stride[1] == 0 && whole < 2);
    gpu_copy_add(
        copy, {(char *)(uintptr_t)t->data + gpu_bytes(t->dtype, first), staged, e.k, t->stride,
                  t->dtype, row, ld, all || !s->start_k ? NULL : s->start_k + c->b0,
                  all || !s->used_k ? NULL : s->used_k + c->b0, s, c->b0});
    gpu_staged_strides(t->stride, e.k, ld / gpu_bytes(t->dtype, 1), s);
}
/* k and v of the chunk and their scales. */
static void gpu_stage_kv(const attn_desc *d, const gpu_chunk *c, char *pinned, char *device,
    gpu_copy *copy, attn_desc *out) {
    attn_in *all[2] = {&out->k, &out->v};
    const int64_t dim[2] = {d->head_dim, d->v_dim};
    const size_t place[2] = {c->k, c->v}, scale_place[2] = {c->k_scale, c->v_scale};
    for (int n = 0; n < 2; n++) {
        attn_in *t = all[n];
        const int64_t row = gpu_bytes(t->dtype, dim[n]);
        gpu_stage_keys(d, c, copy, t, pinned + place[n], row, gpu_pad(row));
        t->data = device + place[n];
        if (!t->scale) continue;
        attn_in scale;
        memset(&scale, 0, sizeof scale);
        scale.data = t->scale;
        memcpy(scale.stride, t->scale_stride, sizeof scale.stride);
        gpu_stage_keys(d, c, copy, &scale, pinned + scale_place[n], 4, 4);
        memcpy(t->scale_stride, scale.stride, sizeof scale.stride);
        t->scale = (const float *)(void *)(device + scale_place[n]);
    }
}
/* q of the chunk, and the room for o. */
static void gpu_stage_q(const attn_desc *d, const gpu_chunk *c, char *pinned, char *device,
    gpu_copy *copy, attn_desc *out) {
    const gpu_extents e = gpu_chunk_extents(d, c);
    const int64_t h0 = c->g0 * (d->heads / d->kv_heads),
                  o_row = gpu_pad(gpu_bytes(d->o.dtype, d->v_dim));
    attn_in *t = &out->q;
    const int64_t row = gpu_bytes(t->dtype, d->head_dim), ld = gpu_pad(row),
                  first = (d->seq.cu_q ? 0 : c->b0) * t->stride[0] + c->q0 * t->stride[1] +
                          h0 * t->stride[2];
    const bool all = d->seq.cu_q || !d->seq.used_q || t->stride[0] == 0 || t->stride[1] == 0;
    gpu_copy_add(
        copy, {(char *)(uintptr_t)t->data + gpu_bytes(t->dtype, first), pinned + c->q, e.q,
                  t->stride, t->dtype, row, ld, NULL, all ? NULL : d->seq.used_q + c->b0, NULL, 0});
    gpu_staged_strides(t->stride, e.q, ld / gpu_bytes(t->dtype, 1), NULL);
    t->data = device + c->q;
    out->o.data = device + c->in_bytes;
    for (int a = 0; a < 3; a++) out->o.stride[a] = 1;
    gpu_staged_strides(out->o.stride, e.q, o_row / gpu_bytes(d->o.dtype, 1), NULL);
    out->lse = d->lse ? (float *)(device + c->in_bytes + c->lse) : NULL;
}
/* Bias and mask: rows of kv_len. */
static void gpu_stage_masks(const attn_desc *d, const gpu_chunk *c, char *pinned, char *device,
    gpu_copy *copy, attn_desc *out) {
    const gpu_extents e = gpu_chunk_extents(d, c);
    const int64_t h0 = c->g0 * (d->heads / d->kv_heads);
    attn_in *all[2] = {&out->bias, &out->mask};
    const size_t place[2] = {c->bias, c->mask};
    for (int n = 0; n < 2; n++) {
        attn_in *t = all[n];
        if (!t->data) continue;
        const int64_t first = c->b0 * t->stride[0] + h0 * t->stride[1],
                      row = gpu_bytes(t->dtype, d->kv_len);
        gpu_copy_add(
            copy, {(char *)(uintptr_t)t->data + gpu_bytes(t->dtype, first), pinned + place[n],
                      e.bias, t->stride, t->dtype, row, row, NULL, NULL, NULL, 0});
        gpu_staged_strides(t->stride, e.bias, d->kv_len, NULL);
        t->data = device + place[n];
    }
}
/* What is small: alibi, sink, multipliers of the bias, lengths. */
static void gpu_stage_small(
    const attn_desc *d, const gpu_chunk *c, char *pinned, char *device, attn_desc *out) {
    const int64_t group = d->heads / d->kv_heads, h0 = c->g0 * group, heads = c->ng * group;
    if (d->alibi) memcpy(pinned + c->alibi, d->alibi + h0, (size_t)heads * 4);
    if (d->sink) memcpy(pinned + c->sink, d->sink + h0, (size_t)heads * 4);
    if (d->bias_scale) memcpy(pinned + c->bias_scale, d->bias_scale + h0, (size_t)heads * 4);
    out->alibi = d->alibi ? (const float *)(device + c->alibi) : NULL;
    out->sink = d->sink ? (const float *)(device + c->sink) : NULL;
    out->bias_scale = d->bias_scale ? (const float *)(device + c->bias_scale) : NULL;
    out->seq.slot = out->seq.block_table = NULL;
    out->seq.slots = out->seq.pages = out->seq.page_size = out->seq.max_pages = 0;
    gpu_array list[GPU_ARRAYS];
    int32_t *to = (int32_t *)(pinned + c->seq), *on_device = (int32_t *)(device + c->seq);
    for (int n = gpu_arrays(out, list), a = 0; a < n; a++) {
        const int32_t *from = *list[a].p + c->b0;
        const bool cu = list[a].p == &out->seq.cu_q || list[a].p == &out->seq.cu_k;
        for (int64_t b = 0; b < c->nb + cu; b++) to[b] = from[b] - (cu ? from[0] : 0);
        *list[a].p = on_device;
        to += c->nb + 1;
        on_device += c->nb + 1;
    }
    out->seq.total_q = d->seq.cu_q ? c->q_tokens : 0;
    out->seq.total_k = d->seq.cu_k ? c->k_tokens : 0;
    out->batch = c->nb;
    out->kv_heads = c->ng;
    out->heads = heads;
}
/* Fills the pinned block and describes the chunk, with addresses in the device's block. */
static void gpu_stage_in(
    const attn_desc *d, const gpu_chunk *c, char *pinned, char *device, attn_desc *out) {
    gpu_copy copy;
    memset(&copy, 0, sizeof copy);
    *out = *d;
    gpu_stage_q(d, c, pinned, device, &copy, out);
    gpu_stage_kv(d, c, pinned, device, &copy, out);
    gpu_stage_masks(d, c, pinned, device, &copy, out);
    gpu_copy_run(d, &copy);
    gpu_stage_small(d, c, pinned, device, out);
}
/* The chunk's o and lse to the caller's tensors. */
static void gpu_stage_out(const attn_desc *d, const gpu_chunk *c, char *pinned) {
    const gpu_extents e = gpu_chunk_extents(d, c);
    const int64_t h0 = c->g0 * (d->heads / d->kv_heads), row = gpu_bytes(d->o.dtype, d->v_dim);
    const int64_t b = d->seq.cu_q ? 0 : c->b0;
    const int64_t first = b * d->o.stride[0] + c->q0 * d->o.stride[1] + h0 * d->o.stride[2];
    /* a stride is never 0 where the extent is above 1 */
    const int64_t stride[3] = {e.q[0] > 1 ? d->o.stride[0] : 1, e.q[1] > 1 ? d->o.stride[1] : 1,
        e.q[2] > 1 ? d->o.stride[2] : 1};
    gpu_copy copy;
    memset(&copy, 0, sizeof copy);
    copy.scatter = 1;
    gpu_copy_add(&copy, {(char *)d->o.data + gpu_bytes(d->o.dtype, first), pinned, e.q, stride,
                            d->o.dtype, row, gpu_pad(row), NULL, NULL, NULL, 0});
    if (d->lse) {
        const int64_t tokens = d->seq.cu_q ? d->seq.total_q : d->q_len;
        const int64_t extent[3] = {e.q[0], e.q[2], 1}, step[3] = {d->heads * tokens, tokens, 1};
        gpu_copy_add(
            &copy, {(char *)(d->lse + b * step[0] + h0 * step[1] + c->q0), pinned + c->lse, extent,
                       step, ATTN_F32, e.q[1] * 4, e.q[1] * 4, NULL, NULL, NULL, 0});
    }
    gpu_copy_run(d, &copy);
}
/* The slot's kernel is done: its time counts, its pinned block is free. */
static attn_status gpu_slot_wait(gpu_slot *s, attn_plan *plan) {
    float ms = 0;
    if (!s->busy) return ATTN_OK;
    s->busy = 0;
    hipError_t e = hipEventSynchronize(s->stop);
    if (e == hipErrorStreamCaptureUnsupported) { /* some of ROCm 7, whatever the thread's mode */
        (void)hipGetLastError();
        e = hipStreamSynchronize(s->stream);
    }
    if (e != hipSuccess) return gpu_failed(plan, e, "hipEventSynchronize");
    if (hipEventElapsedTime(&ms, s->start, s->stop) == hipSuccess)
        gpu_last.kernel += 1e-3 * (double)ms;
    else (void)hipGetLastError(); /* the results are there all the same */
    return ATTN_OK;
}
/* No pointer of the call may be device memory. */
static attn_status gpu_host_pointers(const attn_desc *d, const attn_grad *g, attn_plan *plan) {
    gpu_pointer list[GPU_POINTERS];
    attn_status st;
    for (int n = gpu_pointers(d, g, false, list), i = 0; i < n; i++) {
        bool bad = false;
        if ((st = gpu_is_device_memory(list[i].p, d->device, true, &bad, plan)) != ATTN_OK)
            return st;
        if (bad)
            return gpu_say(plan, ATTN_ERR_GPU_POINTER,
                "%s is device memory, and ATTN_DEVICE is not set", list[i].name);
    }
    return ATTN_OK;
}

/* ---- the same of a backward ---- */
/* Where the tensors of a backward lie in the block that goes to the device, behind the chunk's own,
   of which o and lse are inputs here; what comes back lies at `out`, and is counted from there. */
struct gpu_grad_layout {
    size_t o, lse, dout, dlse, out, delta, bytes;
    size_t dq, dk, dv, dbias, dsink, out_bytes;
};
static gpu_grad_layout gpu_grad_layout_of(
    const attn_desc *d, const attn_grad *g, const gpu_chunk *c) {
    const gpu_extents e = gpu_chunk_extents(d, c);
    const int64_t rows = e.q[0] * e.q[1] * e.q[2], keys = e.k[0] * e.k[1] * e.k[2];
    gpu_grad_layout l;
    size_t at = c->in_bytes + c->out_bytes;
    l.o = c->in_bytes;
    l.lse = c->in_bytes + c->lse;
    l.dout =
        gpu_grow(&at, gpu_axes(e.q, g->dout.stride) * gpu_pad(gpu_bytes(g->dout.dtype, d->v_dim)));
    l.dlse = gpu_grow(&at, g->dlse ? rows * 4 : 0);
    l.out = at;
    at = 0;
    l.dq = gpu_grow(&at, rows * gpu_pad(gpu_bytes(g->dq.dtype, d->head_dim)));
    l.dk = gpu_grow(&at, keys * gpu_pad(gpu_bytes(g->dk.dtype, d->head_dim)));
    l.dv = gpu_grow(&at, keys * gpu_pad(gpu_bytes(g->dv.dtype, d->v_dim)));
    l.dbias = gpu_grow(&at, g->dbias ? gpu_axes(e.bias, d->bias.stride) * d->kv_len * 4 : 0);
    l.dsink = gpu_grow(&at, g->dsink ? e.q[2] * 4 : 0);
    l.out_bytes = at;
    at += l.out;
    l.delta = gpu_grow(&at, rows * 4);
    l.bytes = at;
    return l;
}
/* Between the caller's dq, dk, dv, dbias, dsink of the chunk and their copies at `at`. */
static void gpu_copy_grads(const attn_desc *d, const attn_grad *g, const gpu_chunk *c,
    const gpu_grad_layout *l, char *at, bool scatter) {
    const gpu_extents e = gpu_chunk_extents(d, c);
    const int64_t h0 = c->g0 * (d->heads / d->kv_heads);
    const attn_out *out[3] = {&g->dq, &g->dk, &g->dv};
    const size_t place[3] = {l->dq, l->dk, l->dv};
    gpu_copy copy;
    memset(&copy, 0, sizeof copy);
    copy.scatter = scatter;
    for (int n = 0; n < 3; n++) {
        const int64_t *step = out[n]->stride,
                      first =
                          n ? (d->seq.cu_k ? 0 : c->b0) * step[0] + c->k0 * step[1] +
                                  c->g0 * step[2]
                            : (d->seq.cu_q ? 0 : c->b0) * step[0] + c->q0 * step[1] + h0 * step[2],
                      row = gpu_bytes(out[n]->dtype, n == 2 ? d->v_dim : d->head_dim);
        gpu_copy_add(
            &copy, {(char *)out[n]->data + gpu_bytes(out[n]->dtype, first), at + place[n],
                       n ? e.k : e.q, step, out[n]->dtype, row, gpu_pad(row), NULL, NULL, NULL, 0});
    }
    if (g->dbias)
        gpu_copy_add(
            &copy, {(char *)(g->dbias + c->b0 * d->bias.stride[0] + h0 * d->bias.stride[1]),
                       at + l->dbias, e.bias, d->bias.stride, ATTN_F32, d->kv_len * 4,
                       d->kv_len * 4, NULL, NULL, NULL, 0});
    gpu_copy_run(d, &copy);
    if (!g->dsink) return;
    if (scatter) memcpy(g->dsink + h0, at + l->dsink, (size_t)e.q[2] * 4);
    else memcpy(at + l->dsink, g->dsink + h0, (size_t)e.q[2] * 4);
}
/* Fills the pinned block; *on_device and *grad are the chunk with addresses in the device's. */
static void gpu_stage_grad(const attn_desc *d, const attn_grad *g, const gpu_chunk *c,
    const gpu_grad_layout *l, const gpu_slot *s, attn_desc *on_device, attn_grad *grad) {
    const gpu_extents e = gpu_chunk_extents(d, c);
    const int64_t h0 = c->g0 * (d->heads / d->kv_heads), b = d->seq.cu_q ? 0 : c->b0,
                  tokens = d->seq.cu_q ? d->seq.total_q : d->q_len;
    const attn_in of_o = {d->o.data, {d->o.stride[0], d->o.stride[1], d->o.stride[2]}, d->o.dtype},
                  *in[2] = {&of_o, &g->dout};
    const float *of_row[2] = {d->lse, g->dlse};
    const size_t place[2] = {l->o, l->dout}, row_place[2] = {l->lse, l->dlse};
    const int64_t row_extent[3] = {e.q[0], e.q[2], 1}, row_step[3] = {d->heads * tokens, tokens, 1};
    gpu_copy copy;
    memset(&copy, 0, sizeof copy);
    gpu_stage_in(d, c, s->pinned, s->device, on_device);
    for (int n = 0; n < 2; n++) {
        const int64_t *step = in[n]->stride, row = gpu_bytes(in[n]->dtype, d->v_dim),
                      first = b * step[0] + c->q0 * step[1] + h0 * step[2];
        gpu_copy_add(&copy,
            {(char *)(uintptr_t)in[n]->data + gpu_bytes(in[n]->dtype, first), s->pinned + place[n],
                e.q, step, in[n]->dtype, row, gpu_pad(row), NULL, NULL, NULL, 0});
        if (of_row[n])
            gpu_copy_add(
                &copy, {(char *)(uintptr_t)(of_row[n] + b * row_step[0] + h0 * row_step[1] + c->q0),
                           s->pinned + row_place[n], row_extent, row_step, ATTN_F32, e.q[1] * 4,
                           e.q[1] * 4, NULL, NULL, NULL, 0});
    }
    gpu_copy_run(d, &copy);
    if (d->flags & ATTN_ACCUMULATE) gpu_copy_grads(d, g, c, l, s->pinned + l->out, false);

    *grad = *g;
    grad->dout.data = s->device + l->dout;
    gpu_staged_strides(grad->dout.stride, e.q,
        gpu_pad(gpu_bytes(g->dout.dtype, d->v_dim)) / gpu_bytes(g->dout.dtype, 1), NULL);
    attn_out *out[3] = {&grad->dq, &grad->dk, &grad->dv};
    const size_t out_place[3] = {l->dq, l->dk, l->dv};
    for (int n = 0; n < 3; n++) {
        const int64_t row = gpu_bytes(out[n]->dtype, n == 2 ? d->v_dim : d->head_dim);
        out[n]->data = s->device + l->out + out_place[n];
        for (int a = 0; a < 3; a++) out[n]->stride[a] = 1;
        gpu_staged_strides(
            out[n]->stride, n ? e.k : e.q, gpu_pad(row) / gpu_bytes(out[n]->dtype, 1), NULL);
    }
    if (g->dlse) grad->dlse = (const float *)(s->device + l->dlse);
    if (g->dbias) grad->dbias = (float *)(s->device + l->out + l->dbias);
    if (g->dsink) grad->dsink = (float *)(s->device + l->out + l->dsink);
}

/* ---- a call in pieces: copies run beside the kernels ---- */
struct gpu_host_call {
    const attn_desc *d;
    const attn_grad *g; /* NULL: forward */
    const gpu_kernel *kernel;
    const gpu_grad_kernel *grad;
    gpu_cut cut; /* forward: of the whole call, as the kernels are */
    int32_t units;
};
/* in_bytes go to the device; out_bytes come back, from `out` on; of its block of `bytes`. */
struct gpu_piece {
    gpu_chunk c;
    gpu_grad_layout l; /* of a backward */
    size_t in_bytes, out, out_bytes, bytes;
};
/* The pieces in order: *p from {0} on; false after the last. */
static bool gpu_piece_next(const gpu_host_call *h, int64_t nb, int64_t ng, gpu_piece *p) {
    if (!gpu_chunk_next(h->d, nb, ng, &p->c)) return false;
    if (h->g) {
        p->l = gpu_grad_layout_of(h->d, h->g, &p->c);
        p->out = p->l.out;
        p->out_bytes = p->l.out_bytes;
        p->in_bytes = p->out + (h->d->flags & ATTN_ACCUMULATE ? p->out_bytes : 0);
        p->bytes = p->l.bytes;
    } else {
        p->out = p->in_bytes = p->c.in_bytes;
        p->out_bytes = p->c.out_bytes;
        p->bytes = p->out + p->out_bytes + gpu_chunk_room(h->d, &p->c, &h->cut, h->units);
    }
    return true;
}
static attn_status gpu_launch_piece(const gpu_host_call *h, const gpu_piece *p, gpu_slot *s,
    const attn_desc *d, const attn_grad *g, attn_plan *plan) {
    const int64_t first = p->c.b0 * h->d->heads + p->c.g0 * (h->d->heads / h->d->kv_heads);
    const gpu_queue to = {s->stream, plan};
    if (h->g) {
        const gpu_grad_call call = {
            d, g, h->grad, first, (float *)(void *)(s->device + p->l.delta), to};
        return gpu_launch_grad(&call);
    }
    gpu_forward forward = {d, h->kernel, gpu_pick_decode(h->d, h->units), first, h->cut,
        s->device + p->out + p->out_bytes, to, {}, 0};
    forward.lay = gpu_lay_of(d, &h->cut, forward.decode != NULL);
    return gpu_launch(&forward);
}
static attn_status gpu_run_pieces(
    const gpu_host_call *h, int64_t nb, int64_t ng, gpu_context *x, attn_plan *plan) {
    attn_status st;
    size_t out_at = 0;
    int n = 0;
    gpu_piece p;
    for (memset(&p, 0, sizeof p); gpu_piece_next(h, nb, ng, &p); n ^= 1) {
        gpu_slot *s = &x->slot[n];
        attn_desc d;
        attn_grad g;
        if ((st = gpu_slot_wait(s, plan)) != ATTN_OK) return st;
        if (h->g) gpu_stage_grad(h->d, h->g, &p.c, &p.l, s, &d, &g);
        else gpu_stage_in(h->d, &p.c, s->pinned, s->device, &d);
        GPU_TRY(
            hipMemcpyAsync, (s->device, s->pinned, p.in_bytes, hipMemcpyHostToDevice, s->stream));
        GPU_TRY(hipEventRecord, (s->start, s->stream));
        s->busy = 1;
        st = gpu_launch_piece(h, &p, s, &d, &g, plan);
        if (st) {
            s->busy = 0;
            return st;
        }
        GPU_TRY(hipEventRecord, (s->stop, s->stream));
        if (p.out_bytes)
            GPU_TRY(hipMemcpyAsync, (x->out + out_at, s->device + p.out, p.out_bytes,
                                        hipMemcpyDeviceToHost, s->stream));
        out_at += p.out_bytes;
    }
    for (n = 0; n < 2; n++) {
        if ((st = gpu_slot_wait(&x->slot[n], plan)) != ATTN_OK) return st;
        GPU_TRY(hipStreamSynchronize, (x->slot[n].stream));
    }
    return ATTN_OK;
}
/* About eight pieces of so many sequences, or kv heads of one, none of them small. What is a sum over
   a batch or over heads keeps them together. */
static void gpu_piece_size(const gpu_host_call *h, int64_t *nb, int64_t *ng) {
    const attn_desc *d = h->d;
    const float *dbias = h->g ? h->g->dbias : NULL;
    const bool of_batch =
                   d->batch == 1 || !h->g || (!h->g->dsink && (!dbias || d->bias.stride[0] != 0)),
               of_heads = !dbias || d->bias.stride[1] != 0;
    size_t total = 0;
    gpu_piece p;
    memset(&p, 0, sizeof p);
    while (gpu_piece_next(h, 1, d->kv_heads, &p)) total += p.in_bytes + p.out_bytes;
    const size_t want = total / 8 > GPU_CHUNK_BYTES ? total / 8 : GPU_CHUNK_BYTES,
                 each = total / (size_t)d->batch + 1;
    *nb = !of_batch ? d->batch : want / each < 1 ? 1 : (int64_t)(want / each);
    *ng = *nb > 1 || want >= each || !of_heads
              ? d->kv_heads
              : (int64_t)((double)want / (double)each * (double)d->kv_heads);
    if (*ng < 1) *ng = 1;
}
/* Results only when all of it went well. */
static attn_status gpu_run_host(const gpu_host_call *h, attn_plan *plan) {
    const attn_desc *d = h->d;
    gpu_context *x;
    gpu_piece p;
    attn_status st;
    size_t in = 0, out = 0, block = 0;
    int64_t nb, ng, pieces = 0;
    if ((st = gpu_host_pointers(d, h->g, plan)) != ATTN_OK) return st;
    if (d->batch == 0) {
        if (h->g && h->g->dsink && !(d->flags & ATTN_ACCUMULATE))
            memset(h->g->dsink, 0, (size_t)d->heads * 4);
        return ATTN_OK;
    }
    gpu_piece_size(h, &nb, &ng);
    memset(&p, 0, sizeof p);
    while (gpu_piece_next(h, nb, ng, &p)) {
        if (p.in_bytes > in) in = p.in_bytes;
        if (p.bytes > block) block = p.bytes;
        out += p.out_bytes;
        pieces++;
    }
    if ((st = gpu_context_get(d->device, &x, plan)) != ATTN_OK) return st;
    st = gpu_reserve(&x->out, &x->out_size, out, true, plan);
    for (int n = 0; n < 2 && n < pieces && !st; n++) {
        st = gpu_reserve(&x->slot[n].pinned, &x->slot[n].pinned_size, in, true, plan);
        if (!st) st = gpu_reserve(&x->slot[n].device, &x->slot[n].device_size, block, false, plan);
        gpu_last.bytes += block;
    }
    if (!st) st = gpu_run_pieces(h, nb, ng, x, plan);
    if (st)
        for (int n = 0; n < 2; n++) (void)hipStreamSynchronize(x->slot[n].stream);
    else {
        char *at = x->out;
        for (memset(&p, 0, sizeof p); gpu_piece_next(h, nb, ng, &p); at += p.out_bytes)
            if (h->g) gpu_copy_grads(d, h->g, &p.c, &p.l, at, true);
            else gpu_stage_out(d, &p.c, at);
    }
    gpu_context_back(x, st);
    return st;
}

/* ---- append to caches in host memory: a call of its own, before the attention ----
   What is new goes to the device, rows come back as they belong into the caches, and change places
   with what lies there; back again if the rest of the call fails. */
struct gpu_append_layout {
    size_t k, v, q, seq, cosine, sine, in_bytes;
    size_t new_k, new_v, k_scale, v_scale, rotated, bytes; /* these come back */
};
static gpu_append_layout gpu_append_layout_of(const attn_desc *d) {
    const attn_append *a = &d->append;
    gpu_append_layout l;
    int64_t en[3], eq[3];
    size_t at = 0;
    gpu_extent_new(d, en);
    gpu_extent_q(d, eq);
    const int64_t rows = en[0] * en[1] * en[2],
                  table = a->rotary_cos ? a->rotary_rows * a->rotary_dim * 2 : 0;
    l.k = gpu_grow(&at, gpu_axes(en, a->k.stride) * gpu_pad(gpu_bytes(a->k.dtype, d->head_dim)));
    l.v = gpu_grow(&at, gpu_axes(en, a->v.stride) * gpu_pad(gpu_bytes(a->v.dtype, d->v_dim)));
    l.q = gpu_grow(
        &at, a->rotary_cos ? gpu_axes(eq, d->q.stride) * gpu_pad(gpu_bytes(d->q.dtype, d->head_dim))
                           : 0);
    l.seq = gpu_grow(&at, (d->batch + 1) * 4 * GPU_ARRAYS);
    l.cosine = gpu_grow(&at, table);
    l.sine = gpu_grow(&at, table);
    l.in_bytes = at;
    l.new_k = gpu_grow(&at, rows * gpu_bytes(d->k.dtype, d->head_dim));
    l.new_v = gpu_grow(&at, rows * gpu_bytes(d->v.dtype, d->v_dim));
    l.k_scale = gpu_grow(&at, d->k.scale ? rows * 4 : 0);
    l.v_scale = gpu_grow(&at, d->v.scale ? rows * 4 : 0);
    l.rotated = gpu_grow(&at, (int64_t)gpu_append_q_bytes(d));
    l.bytes = at;
    return l;
}
/* A tensor to the pinned block; *t is then that in the device's. */
static void gpu_stage_whole(
    gpu_copy *copy, attn_in *t, const int64_t *extent, int64_t dim, char *pinned, char *device) {
    const int64_t row = gpu_bytes(t->dtype, dim), ld = gpu_pad(row);
    gpu_copy_add(copy, {(char *)(uintptr_t)t->data, pinned, extent, t->stride, t->dtype, row, ld,
                           NULL, NULL, NULL, 0});
    gpu_staged_strides(t->stride, extent, ld / gpu_bytes(t->dtype, 1), NULL);
    t->data = device;
}
/* The caches of the append's own call: dense, of the new rows alone. */
static void gpu_stage_new(
    attn_in *cache, const int64_t *extent, int64_t dim, char *rows, char *scales) {
    cache->data = rows;
    for (int a = 0; a < 3; a++) cache->stride[a] = cache->scale_stride[a] = 1;
    gpu_staged_strides(cache->stride, extent, dim, NULL);
    gpu_staged_strides(cache->scale_stride, extent, 1, NULL);
    if (cache->scale) cache->scale = (const float *)(void *)scales;
}
/* Fills the pinned block of d's append; what the kernels are told, with the addresses that the
   device has for it. */
static gpu_append_params gpu_stage_append(
    const attn_desc *d, const gpu_append_layout *l, const gpu_slot *s) {
    const size_t table = (size_t)(d->append.rotary_rows * d->append.rotary_dim * 2);
    attn_desc own = *d;
    attn_append *a = &own.append;
    gpu_copy copy;
    gpu_array list[GPU_ARRAYS];
    int64_t en[3], eq[3];
    gpu_extent_new(d, en);
    gpu_extent_q(d, eq);
    memset(&copy, 0, sizeof copy);
    own.seq.slot = own.seq.block_table = NULL;
    gpu_stage_whole(&copy, &a->k, en, d->head_dim, s->pinned + l->k, s->device + l->k);
    gpu_stage_whole(&copy, &a->v, en, d->v_dim, s->pinned + l->v, s->device + l->v);
    if (a->rotary_cos) {
        gpu_stage_whole(&copy, &own.q, eq, d->head_dim, s->pinned + l->q, s->device + l->q);
        memcpy(s->pinned + l->cosine, a->rotary_cos, table);
        memcpy(s->pinned + l->sine, a->rotary_sin, table);
        a->rotary_cos = (const float *)(void *)(s->device + l->cosine);
        a->rotary_sin = (const float *)(void *)(s->device + l->sine);
    }
    gpu_copy_run(d, &copy);
    size_t at = l->seq;
    for (int n = gpu_arrays(&own, list), i = 0; i < n; i++) {
        memcpy(s->pinned + at, *list[i].p, (size_t)list[i].n * 4);
        *list[i].p = (const int32_t *)(void *)(s->device + at);
        at += (size_t)list[i].n * 4;
    }
    gpu_stage_new(&own.k, en, d->head_dim, s->device + l->new_k, s->device + l->k_scale);
    gpu_stage_new(&own.v, en, d->v_dim, s->device + l->new_v, s->device + l->v_scale);
    gpu_append_params p = gpu_append_params_of(&own);
    p.apart = true;
    p.q = (float *)(void *)(s->device + l->rotated);
    for (int i = 0; i < 3; i++) { /* those of a buffer with other extents than the cache */
        p.cache.call.k.stride[i] = own.k.stride[i];
        p.cache.call.v.stride[i] = own.v.stride[i];
        p.cache.k.stride[i] = own.k.scale_stride[i];
        p.cache.v.stride[i] = own.v.scale_stride[i];
    }
    return p;
}
/* There and back; x->out: what lies behind in_bytes. */
static attn_status gpu_run_append(
    const attn_desc *d, const gpu_append_layout *l, gpu_context *x, attn_plan *plan) {
    gpu_slot *s = &x->slot[0];
    const gpu_queue to = {s->stream, plan};
    gpu_append_params p = gpu_stage_append(d, l, s);
    GPU_TRY(hipMemcpyAsync, (s->device, s->pinned, l->in_bytes, hipMemcpyHostToDevice, s->stream));
    GPU_TRY(hipEventRecord, (s->start, s->stream));
    const attn_status st = gpu_launch_append(&to, d, &p);
    if (st) return st;
    GPU_TRY(hipEventRecord, (s->stop, s->stream));
    s->busy = 1;
    if (l->bytes > l->in_bytes)
        GPU_TRY(hipMemcpyAsync, (x->out, s->device + l->in_bytes, l->bytes - l->in_bytes,
                                    hipMemcpyDeviceToHost, s->stream));
    GPU_TRY(hipStreamSynchronize, (s->stream));
    return gpu_slot_wait(s, plan);
}
static void gpu_swap(char *a, char *b, int64_t bytes) {
    for (int64_t n = 0; n < bytes; n++) {
        const char old = a[n];
        a[n] = b[n];
        b[n] = old;
    }
}
/* New rows change places with the bytes of the cache. rows: dense, {batch or 1, token, head}. */
static void gpu_exchange(const attn_desc *d, const attn_in *cache, const int64_t *stride,
    int64_t row, char *data, char *rows) {
    const attn_seq *q = &d->seq;
    const attn_append *a = &d->append;
    for (int64_t b = 0; b < d->batch; b++) {
        const int64_t first = a->cu ? a->cu[b] : b * a->len,
                      n = a->cu ? a->cu[b + 1] - a->cu[b] : a->len;
        for (int64_t i = 0; i < n; i++) {
            const int64_t t = q->used_k[b] + i;
            const int64_t batch = q->block_table
                                      ? q->block_table[b * q->max_pages + t / q->page_size]
                                  : q->slot ? q->slot[b]
                                            : b,
                          token = q->block_table ? t % q->page_size : t;
            for (int64_t h = 0; h < d->kv_heads; h++)
                gpu_swap(data + (batch * stride[0] + token * stride[1] + h * stride[2]) *
                                    gpu_bytes(cache->dtype, 1),
                    rows + ((first + i) * d->kv_heads + h) * row, row);
        }
    }
}
static void gpu_exchange_all(const attn_desc *d, const gpu_append_layout *l, char *out) {
    const attn_append *a = &d->append;
    attn_in scale;
    memset(&scale, 0, sizeof scale); /* f32 */
    out -= l->in_bytes;
    gpu_exchange(d, &d->k, d->k.stride, gpu_bytes(d->k.dtype, d->head_dim), (char *)a->k_cache,
        out + l->new_k);
    gpu_exchange(
        d, &d->v, d->v.stride, gpu_bytes(d->v.dtype, d->v_dim), (char *)a->v_cache, out + l->new_v);
    if (a->k_scale)
        gpu_exchange(d, &scale, d->k.scale_stride, 4, (char *)a->k_scale, out + l->k_scale);
    if (a->v_scale)
        gpu_exchange(d, &scale, d->v.scale_stride, 4, (char *)a->v_scale, out + l->v_scale);
}
static attn_status gpu_run_host_append(
    const attn_desc *d, const gpu_kernel *kernel, const gpu_device *device, attn_plan *plan) {
    const gpu_append_layout l = gpu_append_layout_of(d);
    const size_t used = l.in_bytes; /* of the pinned block: used_k of the rest */
    gpu_context *x;
    attn_status st = gpu_host_pointers(d, NULL, plan);
    if (st || d->batch == 0) return st;
    if ((st = gpu_context_get(d->device, &x, plan)) != ATTN_OK) return st;
    gpu_slot *s = &x->slot[0];
    st = gpu_reserve(&x->out, &x->out_size, l.bytes - l.in_bytes, true, plan);
    if (!st) st = gpu_reserve(&s->pinned, &s->pinned_size, used + (size_t)d->batch * 4, true, plan);
    if (!st) st = gpu_reserve(&s->device, &s->device_size, l.bytes, false, plan);
    gpu_last.bytes += l.bytes;
    if (!st && (st = gpu_run_append(d, &l, x, plan)) != ATTN_OK)
        (void)hipStreamSynchronize(s->stream);
    if (!st) {
        int32_t *after = (int32_t *)(void *)(s->pinned + used);
        for (int64_t b = 0; b < d->batch; b++)
            after[b] =
                d->seq.used_k[b] +
                (int32_t)(d->append.cu ? d->append.cu[b + 1] - d->append.cu[b] : d->append.len);
        const float *q = (const float *)(void *)(x->out + (l.rotated - l.in_bytes));
        const attn_desc left = gpu_after_append(d, after, q);
        gpu_exchange_all(d, &l, x->out);
        const gpu_host_call call = {
            &left, NULL, kernel, NULL, gpu_cut_of(&left, device), device->units};
        st = gpu_run_host(&call, plan);
        if (st) gpu_exchange_all(d, &l, x->out);
    }
    gpu_context_back(x, st);
    return st;
}

/* ============================================================================ >>register ==== */
static const gpu_kernel *gpu_pick_forward(const attn_desc *d, int32_t units) {
    const attn_desc left = gpu_after_append(d, NULL, NULL);
    const gpu_cut none = {};
    const gpu_lay lay = gpu_lay_of(&left, &none, false);
    const attn_desc rows = gpu_laid_out(&left, &lay);
    return gpu_pick(&rows, units);
}
static attn_status gpu_takes(const attn_desc *d, const attn_grad *g, attn_plan *plan) {
    const int64_t most = INT32_MAX - 65535; /* tiles end beyond the last row and key */
    const int32_t type[3] = {d->q.dtype, d->k.dtype, d->v.dtype};
    for (int n = 0; n < 3; n++)
        if (!gpu_takes_type(type[n]))
            return gpu_say(plan, ATTN_ERR_DECLINED, "%s: %s", gpu_dtypes[type[n]].text,
                type[n] == ATTN_F64 ? "only the reference takes it, from host memory"
                                    : "flash takes it, from host memory");
    if (g && g->dout.dtype == ATTN_F64)
        return gpu_say(
            plan, ATTN_ERR_DECLINED, "dout in f64: only the reference takes it, from host memory");
    if (g && (d->q.dtype != d->k.dtype || d->k.dtype != d->v.dtype))
        return gpu_say(plan, ATTN_ERR_DECLINED, "q, k and v of a backward differ in type");
    if (d->q_len > most || d->kv_len > most || d->batch > most || d->heads > GPU_HEADS_MAX ||
        d->seq.total_q > most || d->seq.total_k > most || d->append.len > most ||
        d->append.total > most)
        return gpu_say(plan, ATTN_ERR_DECLINED,
            "more than 2^31 - 2^16 tokens or sequences, or %d heads", GPU_HEADS_MAX);
    return ATTN_OK;
}
/* Runtimes take launches of fewer than 2^32 threads along x. Kernels that have a workgroup for each tile
   ask for them; the others take more than one unit a wave. */
static bool gpu_launches(int64_t rows, int32_t bm, int32_t threads) {
    return bm == 0 || (rows + bm - 1) / bm * threads <= (int64_t)UINT32_MAX;
}
static bool gpu_launches_grad(const attn_desc *d, const gpu_grad_kernel *kernel) {
    bool all = true;
    for (int n = 0; n < 3; n++)
        all = all &&
              gpu_launches(n ? d->kv_len : d->q_len, kernel->part[n].bm, kernel->part[n].threads);
    return all;
}
static attn_status gpu_plan(void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan) {
    gpu_device device;
    gpu_visit visit;
    (void)user;
    attn_status s = gpu_enter(d->device, plan, &device, &visit);
    gpu_leave(&visit);
    if (s) {
        if (!plan->why[0]) gpu_say(plan, s, "%s", attn_status_text(s));
        return s;
    }
    if ((s = gpu_takes(d, g, plan)) != ATTN_OK) return s;
    const gpu_kernel *forward = gpu_pick_forward(d, device.units);
    const gpu_grad_kernel *backward = g ? gpu_pick_grad(d, g, device.units) : NULL;
    const char *name = g ? backward->name : forward->name;
    if (g ? !gpu_launches_grad(d, backward)
          : !gpu_launches(d->q_len, forward->bm, forward->threads))
        return gpu_say(plan, ATTN_ERR_DECLINED, "2^32 threads or more of %s", name);
    plan->kernel = name;
    plan->isa = gpu_devices_found[d->device].isa;
    plan->workspace_size = gpu_workspace(d, g, &device);
    plan->threads = plan->splits = 1;
    if (!g) {
        const gpu_cut cut = gpu_cut_of(d, &device);
        const gpu_decode_kernel *decode = gpu_pick_decode_after(d, device.units);
        plan->splits = gpu_parts_of(cut, (int32_t)d->q_len, (int32_t)d->kv_len);
        if (plan->splits > 1 && d->q_len <= GPU_FEW_ROWS && decode) plan->kernel = decode->name;
    }
    return ATTN_OK;
}
static attn_status gpu_run(
    void *user, const attn_desc *d, const attn_grad *g, const attn_plan *planned) {
    attn_plan *plan =
        (attn_plan *)(uintptr_t)planned; /* attn.h takes the reason of a failure from its `why` */
    gpu_device device;
    gpu_visit visit;
    (void)user;
    gpu_last.pending = 0;
    gpu_last.start = gpu_now();
    gpu_last.kernel = gpu_last.total = 0;
    gpu_last.bytes = 0;
    attn_status s = gpu_enter(d->device, plan, &device, &visit);
    if (!s) {
        const gpu_kernel *kernel = gpu_pick_forward(d, device.units);
        if (!(d->flags & ATTN_DEVICE)) gpu_relax(&visit);
        if (d->flags & ATTN_DEVICE) s = gpu_run_device(d, g, kernel, &device, plan);
        else if (gpu_has_append(d)) s = gpu_run_host_append(d, kernel, &device, plan);
        else {
            const gpu_host_call call = {d, g, kernel, g ? gpu_pick_grad(d, g, device.units) : NULL,
                gpu_cut_of(d, &device), device.units};
            s = gpu_run_host(&call, plan);
        }
    }
    gpu_leave(&visit);
    gpu_last.total = gpu_now() - gpu_last.start;
    return s;
}
/* The sentence of a call that attn.h hands on as it is. */
static void gpu_tell(const attn_desc *d, attn_status s, const attn_plan *plan) {
    if (d->message && d->message_size)
        snprintf(d->message, d->message_size, "%s%s%s", s ? attn_status_text(s) : "",
            s && plan->why[0] ? ": " : "", s ? plan->why : "");
}
static attn_status gpu_convert_run(
    const gpu_convert_params *p, const attn_desc *where, attn_plan *plan) {
    gpu_device device;
    gpu_visit visit;
    bool good = true;
    const gpu_pointer list[2] = {{"the source", p->src}, {"the destination", p->dst}};
    attn_status s = gpu_enter(where->device, plan, &device, &visit);
    for (int n = 0; n < 2 && !s; n++) {
        s = gpu_is_device_memory(list[n].p, where->device, false, &good, plan);
        if (!s && !good)
            s = gpu_say(plan, ATTN_ERR_GPU_POINTER, "%s is not memory of device %d", list[n].name,
                (int)where->device);
    }
    if (!s) {
        void *args[] = {(void *)(uintptr_t)p};
        const int64_t blocks = (p->rows + p->rows_per_block - 1) / p->rows_per_block;
        const hipError_t e = hipLaunchKernel((const void *)gpu_convert_kernel,
            dim3((uint32_t)blocks), dim3(256), args, 0, (hipStream_t)where->stream);
        if (e != hipSuccess) s = gpu_failed(plan, e, "hipLaunchKernel");
    }
    gpu_leave(&visit);
    return s;
}
static attn_status gpu_convert(void *user, const int64_t shape[4], const attn_in *src,
    const attn_out *dst, const attn_desc *where) {
    const int64_t from = gpu_bytes(src->dtype, 1);
    gpu_convert_params p;
    attn_plan plan;
    (void)user;
    memset(&p, 0, sizeof p);
    p.src = (const char *)src->data;
    p.dst = (char *)dst->data;
    p.src_dtype = src->dtype;
    p.dst_dtype = dst->dtype;
    p.tokens = shape[1];
    p.heads = shape[2];
    p.dim = shape[3];
    p.unit = (int32_t)from;
    memcpy(p.src_stride, src->stride, sizeof p.src_stride);
    memcpy(p.dst_stride, dst->stride, sizeof p.dst_stride);
    if (p.heads == 1 ||
        (p.src_stride[2] == p.dim && p.dst_stride[2] == p.dim)) { /* one long row per token */
        p.dim *= p.heads;
        p.heads = 1;
    }
    p.add = (where->flags & ATTN_ACCUMULATE) != 0;
    /* the same type: the largest unit that everything is a multiple of */
    if (src->dtype == dst->dtype && !p.add) {
        const int64_t extent[3] = {shape[0], p.tokens, p.heads};
        const int32_t a = gpu_align_of(p.src, p.src_stride, extent, src->dtype),
                      b = gpu_align_of(p.dst, p.dst_stride, extent, dst->dtype);
        int64_t unit = a < b ? a : b;
        while (p.dim * from % unit) unit /= 2;
        if (unit > from) {
            for (int n = 0; n < 3; n++) {
                p.src_stride[n] = extent[n] > 1 ? p.src_stride[n] * from / unit : 0;
                p.dst_stride[n] = extent[n] > 1 ? p.dst_stride[n] * from / unit : 0;
            }
            p.dim = p.dim * from / unit;
            p.unit = (int32_t)unit;
        }
    }
    p.rows = shape[0] * p.tokens * p.heads;
    const int64_t many = (p.rows >> 23) + 1, few = 4096 / p.dim + 1; /* below 2^32 threads */
    p.rows_per_block = (int32_t)(many > few ? many : few);
    plan.why[0] = 0;
    attn_status s = gpu_convert_run(&p, where, &plan);
    gpu_tell(where, s, &plan);
    return s;
}
/* A part as the caller described it: all strides 0 are dense in its layout. */
static gpu_part gpu_part_of(const attn_desc *d, const attn_in *o, const float *lse) {
    gpu_part x = {
        {(const char *)o->data, {o->stride[0], o->stride[1], o->stride[2]}}, lse, o->dtype};
    int64_t e[3];
    gpu_extent_q(d, e);
    int64_t *to = x.o.stride;
    const bool by_head = o->layout == ATTN_BHSD;
    if (!to[0] && !to[1] && !to[2]) {
        to[1] = by_head ? d->v_dim : e[2] * d->v_dim;
        to[2] = by_head ? e[1] * d->v_dim : d->v_dim;
        to[0] = e[1] * e[2] * d->v_dim;
    }
    for (int a = 0; a < 3; a++)
        if (to[a] == ATTN_BROADCAST || e[a] <= 1) to[a] = 0;
    return x;
}
static attn_status gpu_merge_pointers(
    const attn_desc *d, const gpu_part *part, int64_t parts, attn_plan *plan) {
    const gpu_pointer own[3] = {{"o", d->o.data}, {"lse", d->lse}, {"sink", d->sink}};
    attn_status s = ATTN_OK;
    for (int64_t n = 0; n < 3 + 2 * parts && !s; n++) {
        const gpu_part *x = n < 3 ? NULL : &part[(n - 3) / 2];
        const gpu_pointer of_part = {!x || n % 2 ? "o of a part" : "lse of a part",
            !x || n % 2 ? (x ? x->o.data : NULL) : (const char *)x->lse};
        const gpu_pointer at = x ? of_part : own[n];
        bool good = true;
        if (at.p) s = gpu_is_device_memory(at.p, d->device, false, &good, plan);
        if (!s && !good)
            s = gpu_say(plan, ATTN_ERR_GPU_POINTER, "%s is not memory of device %d", at.name,
                (int)d->device);
    }
    return s;
}
/* Many parts: their table goes to device memory, a launch for each piece. */
static attn_status gpu_store_parts(
    const gpu_queue *to, void *table, const gpu_part *part, int64_t parts) {
    const int64_t words = parts * (int64_t)(sizeof *part / 4);
    attn_plan *plan = to->plan;
    for (int64_t n = 0; n < words; n += GPU_WORDS) {
        gpu_word_block block;
        int32_t *at = (int32_t *)table + n;
        block.n = (int32_t)(words - n < GPU_WORDS ? words - n : GPU_WORDS);
        memcpy(block.word, (const int32_t *)(const void *)part + n, (size_t)block.n * 4);
        void *args[] = {&at, &block};
        GPU_TRY(hipLaunchKernel,
            ((const void *)gpu_store_words, dim3(1), dim3(64), args, 0, to->stream));
    }
    return ATTN_OK;
}
static attn_status gpu_merge_run(
    const attn_desc *d, const gpu_part *part, int64_t parts, attn_plan *plan) {
    const gpu_queue to = {(hipStream_t)d->stream, plan};
    gpu_device device;
    gpu_visit visit;
    gpu_block table = {NULL, false};
    gpu_merge_params p;
    int64_t e[3];
    gpu_extent_q(d, e);
    memset(&p, 0, sizeof p);
    p.o.data = (const char *)d->o.data;
    memcpy(p.o.stride, d->o.stride, sizeof p.o.stride);
    p.lse = d->lse;
    p.sink = d->sink;
    p.tokens = e[1];
    p.rows = e[0] * e[1] * e[2];
    p.heads = (int32_t)d->heads;
    p.parts = (int32_t)parts;
    p.v_dim = (int32_t)d->v_dim;
    p.o_dtype = d->o.dtype;
    if (p.rows == 0) return ATTN_OK;
    attn_status s = gpu_enter(d->device, plan, &device, &visit);
    if (!s) s = gpu_merge_pointers(d, part, parts, plan);
    if (!s && parts > GPU_PARTS) {
        s = gpu_block_get(&table, (size_t)parts * sizeof *part, to.stream, plan);
        if (!s) s = gpu_store_parts(&to, table.p, part, parts);
        p.more = (const gpu_part *)table.p;
    } else if (!s && parts) memcpy(p.part, part, (size_t)parts * sizeof *part);
    const gpu_work rows = {p.rows, 1, 1};
    if (!s) s = gpu_launch_units(&to, (const void *)gpu_merge_kernel, &p, rows);
    gpu_block_put(&table, to.stream);
    gpu_leave(&visit);
    return s;
}
static attn_status gpu_merge(
    void *user, const attn_desc *d, int64_t parts, const attn_in *o, const float *const *lse) {
    attn_plan plan;
    (void)user;
    plan.why[0] = 0;
    gpu_part few[GPU_PARTS], *all = few;
    attn_status s = ATTN_OK;
    if (parts > INT32_MAX || d->heads > INT32_MAX) s = ATTN_ERR_DECLINED;
    else if (parts > GPU_PARTS) all = (gpu_part *)malloc((size_t)parts * sizeof *all);
    if (!all) s = ATTN_ERR_MEMORY;
    for (int64_t n = 0; n < parts && !s; n++) all[n] = gpu_part_of(d, &o[n], lse[n]);
    if (!s) s = gpu_merge_run(d, all, parts, &plan);
    if (all != few) free(all);
    gpu_tell(d, s, &plan);
    return s;
}
/* ---- what attn_mpi_* ask for ---- */
static attn_status gpu_get_memory(void *user, const attn_desc *where, void **p, size_t bytes) {
    gpu_device device;
    gpu_visit visit;
    attn_plan plan;
    (void)user;
    plan.why[0] = 0;
    attn_status s = gpu_enter(where->device, &plan, &device, &visit);
    if (!s) {
        gpu_relax(&visit);
        hipError_t e;
        do e = hipMalloc(p, bytes);
        while (gpu_makes_room(e));
        if (e != hipSuccess) s = gpu_failed(&plan, e, "hipMalloc");
    }
    gpu_leave(&visit);
    return s;
}
static void gpu_put_memory(void *user, const attn_desc *where, void *p) {
    gpu_device device;
    gpu_visit visit;
    attn_plan plan;
    (void)user;
    plan.why[0] = 0;
    const attn_status s = gpu_enter(where->device, &plan, &device, &visit);
    if (gpu_is_child()) return; /* the parent's */
    gpu_relax(&visit);
    if (!s) (void)hipStreamSynchronize((hipStream_t)where->stream);
    (void)hipFree(p); /* whatever went wrong */
    gpu_leave(&visit);
}
static attn_status gpu_copy_bytes(const attn_desc *where, void *to, const void *from, size_t bytes,
    int32_t to_host, attn_plan *plan) {
    hipStream_t stream = (hipStream_t)where->stream;
    if (bytes && !from) GPU_TRY(hipMemsetAsync, (to, 0, bytes, stream));
    else if (bytes)
        GPU_TRY(hipMemcpyAsync,
            (to, from, bytes, to_host ? hipMemcpyDeviceToHost : hipMemcpyHostToDevice, stream));
    if (from || !bytes) GPU_TRY(hipStreamSynchronize, (stream));
    return ATTN_OK;
}
static attn_status gpu_copy(
    void *user, const attn_desc *where, void *to, const void *from, size_t bytes, int32_t to_host) {
    gpu_device device;
    gpu_visit visit;
    attn_plan plan;
    (void)user;
    plan.why[0] = 0;
    attn_status s = gpu_enter(where->device, &plan, &device, &visit);
    if (!s) {
        gpu_relax(&visit);
        s = gpu_copy_bytes(where, to, from, bytes, to_host, &plan);
    }
    gpu_leave(&visit);
    return s;
}
static attn_status gpu_state_run(
    const attn_desc *where, const attn_joining *given, const void *kernel) {
    gpu_device device;
    gpu_visit visit;
    attn_plan plan;
    attn_joining j = *given;
    const gpu_queue to = {(hipStream_t)where->stream, &plan};
    const gpu_work rows = {j.batches * j.heads * j.rows, 1, 1};
    plan.why[0] = 0;
    attn_status s = gpu_enter(where->device, &plan, &device, &visit);
    if (!s) s = gpu_launch_units(&to, kernel, &j, rows);
    gpu_leave(&visit);
    return s;
}
static attn_status gpu_join(void *user, const attn_desc *where, const attn_joining *j) {
    (void)user;
    return gpu_state_run(where, j, (const void *)gpu_state_join_kernel);
}
static attn_status gpu_finish_joined(void *user, const attn_desc *where, const attn_joining *j) {
    (void)user;
    return gpu_state_run(where, j, (const void *)gpu_state_finish_kernel);
}
#if defined(__CUDACC__) && !defined(__HIP__)
#define GPU_RUNTIME "cuda"
#else
#define GPU_RUNTIME "rocm"
#endif
static const attn_device_calls gpu_device_calls = {
    GPU_RUNTIME, gpu_get_memory, gpu_put_memory, gpu_copy, gpu_join, gpu_finish_joined};

/* What no call holds goes; the calling thread's events too. */
static void gpu_shutdown(void *user) {
    (void)user;
    gpu_last_release();
    if (!gpu_is_child()) (void)gpu_drop_idle(); /* a child, or nobody used the GPU */
}

static bool gpu_registered(void) {
    const attn_backend *there = attn_backend_find("hip");
    return there && there->plan == gpu_plan;
}
/* Registers whatever is there: without a GPU attn_query says so. A second time changes nothing. */
attn_status attn_hip_register(void) {
    attn_backend b;
    if (gpu_registered()) return ATTN_OK;
    memset(&b, 0, sizeof b);
    b.name = "hip";
    b.abi = ATTN_ABI;
    b.plan = gpu_plan;
    b.run = gpu_run;
    b.convert = gpu_convert;
    b.shutdown = gpu_shutdown;
    b.merge = gpu_merge;
    b.device = &gpu_device_calls;
    const attn_status s = attn_register(&b);
    return s == ATTN_ERR_REGISTER_NAME && gpu_registered() ? ATTN_OK : s; /* by another thread */
}
#endif /* a GPU compiler */
