/* hip_emulate.h - NVIDIA's matrix unit on an AMD chip with waves of 32, for tests: the kernels for sm_80 run in the simulator.
 *
 *   hipcc -x hip --offload-arch=gfx1100 -include test/gpu/hip_emulate.h [-DHIP_EMULATE_EARLY] -I. -c attn_hip.c
 *
 * The same names as in attn_hip.c, written with lane exchanges and LDS accesses from the layouts of the PTX manual ("Matrix Fragments
 * for mma.m16n8k16", "ldmatrix", "cp.async"). Asynchronous copies arrive at wait(), as late as they may; with HIP_EMULATE_EARLY at
 * once, as early as they may: a kernel that is right with both, and free of LDS races with both, waits where it must. */
#ifndef HIP_EMULATE_H
#define HIP_EMULATE_H
#if defined(__HIP__)
#include <hip/hip_runtime.h>
#include "attn.h"
#define GPU_EMULATED 1
#define GPU_UNITS UNIT_SM80

__device__ static __forceinline__ uint32_t hip_emulate_lane(void) { return threadIdx.x % 32; }
/* Word x of lane `from`. */
__device__ static __forceinline__ uint32_t hip_emulate_read(uint32_t x, uint32_t from) {
    return (uint32_t)__builtin_amdgcn_ds_bpermute((int)(from * 4), (int)x);
}
template <int DTYPE> __device__ static __forceinline__ float hip_emulate_half(uint32_t x, int upper) {
    const uint16_t bits = (uint16_t)(upper ? x >> 16 : x);
    if constexpr (DTYPE == ATTN_F16) return (float)__builtin_bit_cast(_Float16, bits);
    else return __uint_as_float((uint32_t)bits << 16);
}

/* Row r (0..15) and k (0..15) of A: lane 4 (r % 8) + k % 8 / 2, register r / 8 + 2 (k / 8), half k % 2.
   k and column c (0..7) of B: lane 4 c + k % 8 / 2, register k / 8, half k % 2.
   Row r and column c of the sum: lane 4 (r % 8) + c / 2, register 2 (r / 8) + c % 2. */
template <int DTYPE> __device__ static __attribute__((noinline)) float4 hip_emulate_mma(float4 sum, uint4 left4, uint32_t b0, uint32_t b1) {
    const uint32_t lane = hip_emulate_lane(), row = lane / 4, column = lane % 4 * 2;
    const uint32_t a[4] = {left4.x, left4.y, left4.z, left4.w};
    float c[4] = {sum.x, sum.y, sum.z, sum.w};
    #pragma unroll
    for (int upper_k = 0; upper_k < 2; upper_k++)
        #pragma unroll
        for (uint32_t pair = 0; pair < 4; pair++) {
            uint32_t left[2], right[2];
            #pragma unroll
            for (uint32_t n = 0; n < 2; n++) {
                left[n] = hip_emulate_read(a[n + 2 * upper_k], 4 * row + pair);
                right[n] = hip_emulate_read(upper_k ? b1 : b0, 4 * (column + n) + pair);
            }
            #pragma unroll
            for (int half = 0; half < 2; half++)
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    c[e] = fmaf(hip_emulate_half<DTYPE>(left[e / 2], half), hip_emulate_half<DTYPE>(right[e % 2], half), c[e]);
        }
    return make_float4(c[0], c[1], c[2], c[3]);
}
template <int DTYPE> __device__ static __forceinline__ void gpu_mma(
    float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    const float4 sum = hip_emulate_mma<DTYPE>(make_float4(c[0], c[1], c[2], c[3]), make_uint4(a[0], a[1], a[2], a[3]), b0, b1);
    c[0] = sum.x;
    c[1] = sum.y;
    c[2] = sum.z;
    c[3] = sum.w;
}

/* Lane l gives the address of row l % 8 of matrix l / 8. */
template <bool TRANSPOSED> __device__ static __attribute__((noinline)) uint4 hip_emulate_ldmatrix(uint32_t own) {
    const uint32_t lane = hip_emulate_lane();
    uint32_t x[4];
    #pragma unroll
    for (uint32_t n = 0; n < 4; n++)
        if constexpr (TRANSPOSED) {
            const uint32_t first = hip_emulate_read(own, 8 * n + lane % 4 * 2), second = hip_emulate_read(own, 8 * n + lane % 4 * 2 + 1);
            const uint32_t low = *(const __attribute__((address_space(3))) uint16_t *)(uintptr_t)(first + lane / 4 * 2);
            const uint32_t high = *(const __attribute__((address_space(3))) uint16_t *)(uintptr_t)(second + lane / 4 * 2);
            x[n] = low | high << 16;
        } else {
            const uint32_t at = hip_emulate_read(own, 8 * n + lane / 4);
            x[n] = *(const __attribute__((address_space(3))) uint32_t *)(uintptr_t)(at + lane % 4 * 4);
        }
    return make_uint4(x[0], x[1], x[2], x[3]);
}
template <bool TRANSPOSED> __device__ static __forceinline__ void gpu_ldmatrix(uint32_t (&x)[4], const char *row) {
    typedef const __attribute__((address_space(3))) char *lds_pointer;
    const uint4 four = hip_emulate_ldmatrix<TRANSPOSED>((uint32_t)(uintptr_t)(lds_pointer)row);
    x[0] = four.x;
    x[1] = four.y;
    x[2] = four.z;
    x[3] = four.w;
}

/* All that is under way arrives at wait(): the kernels know no other group. */
struct gpu_copies {
#if !defined(HIP_EMULATE_EARLY)
    enum { MOST = 96 };
    int32_t count = 0;
    char *to[MOST];
    const char *from[MOST];                                 /* NULL: zeros */
#endif
    __device__ static void now(char *to_lds, const char *from_memory) {
        const uint4 zero = make_uint4(0, 0, 0, 0);
        *(uint4 *)to_lds = from_memory ? *(const uint4 *)from_memory : zero;
    }
    __device__ void copy(char *to_lds, const char *from_memory, bool take) {
#if defined(HIP_EMULATE_EARLY)
        now(to_lds, take ? from_memory : NULL);
#else
        if (count == MOST) __builtin_trap();
        to[count] = to_lds;
        from[count++] = take ? from_memory : NULL;
#endif
    }
    __device__ void commit() {}
    __device__ void wait() {
#if !defined(HIP_EMULATE_EARLY)
        for (int32_t n = 0; n < count; n++) now(to[n], from[n]);
        count = 0;
#endif
    }
};
#endif
#endif
