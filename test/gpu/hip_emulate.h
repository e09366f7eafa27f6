/* hip_emulate.h - NVIDIA's matrix units on an AMD chip with waves of 32, for tests: the kernels for sm_80 and sm_90a run in the simulator.
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
#if !defined(GPU_UNITS)
#define GPU_UNITS UNIT_SM80
#endif

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

/* "movmatrix": element (r, c) of the input is half c % 2 of lane 4 r + c / 2. */
__device__ static __forceinline__ uint32_t gpu_turned(uint32_t two) {
    const uint32_t row = hip_emulate_lane() / 4, column = hip_emulate_lane() % 4 * 2;
    const uint32_t first = hip_emulate_read(two, 4 * column + row / 2), second = hip_emulate_read(two, 4 * (column + 1) + row / 2);
    return row % 2 ? first >> 16 | (second & 0xffff0000u) : (first & 0xffffu) | second << 16;
}

/* All that is under way arrives at wait(): the kernels know no other group. */
struct gpu_copies {
    enum { GRAIN = 2048 };                                  /* of LDS, 16 rows of a panel: a bit for each that was written, and products might not see */
    uint32_t dirty[4] = {0, 0, 0, 0};
#if !defined(HIP_EMULATE_EARLY)
    enum { MOST = 96 };
    int32_t count = 0;
    char *to[MOST];
    const char *from[MOST];                                 /* NULL: zeros */
#endif
    __device__ void store(char *to_lds, uint4 x) {
        const uint32_t at = (uint32_t)(uintptr_t)(__attribute__((address_space(3))) char *)to_lds;
        *(uint4 *)to_lds = x;
        dirty[at / GRAIN / 32] |= 1u << at / GRAIN % 32;
    }
    __device__ void now(char *to_lds, const char *from_memory) {
        const uint4 zero = make_uint4(0, 0, 0, 0);
        store(to_lds, from_memory ? *(const uint4 *)from_memory : zero);
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

/* wgmma, m64n64k16: of 16 rows, those of this warp. The descriptor of B by the PTX manual ("Matrix Descriptor", "Strides", "128B swizzling"):
   bits 0-13, 16-29, 32-45 the address and the two offsets in units of 16 bytes, 62-63 the swizzle, 49-51 where in its period of 1024 bytes
   the address lies. Element (n, k) lies, before addresses are swizzled,
     K-major      n % 8 * 128 + n / 8 * stride + 2 k                                         (k < 16: within a row of 128 bytes)
     transposed   n % 64 * 2 + n / 64 * leading + k % 8 * 128 + k / 8 * stride
   bytes behind the address. The product is gfx1100's own, 16 x 16 at a time, from 0: A row l % 16, B column l % 16, all k in a lane; sum
   register r: row 2 r + l / 16, column l % 16. */
typedef __attribute__((address_space(3))) const char *hip_lds;
typedef __attribute__((address_space(5))) float hip_private_float;
typedef __attribute__((address_space(5))) const uint32_t hip_private_word;
__device__ static __forceinline__ uint32_t hip_swizzled(uint32_t at) { return at ^ (at >> 7 & 7) << 4; }
/* LEFT_LDS: a is a descriptor of 64 rows as well, K-major. */
template <int DTYPE, int TRANSPOSED, int LEFT_LDS> __device__ static __attribute__((noinline)) void hip_emulate_wgmma(
    hip_private_float *c, hip_private_word *a, uint64_t left_lds, uint64_t b, bool add) {
    typedef uint32_t words8 __attribute__((ext_vector_type(8)));
    typedef float float8 __attribute__((ext_vector_type(8)));
    typedef short short16 __attribute__((ext_vector_type(16)));
    typedef _Float16 half16 __attribute__((ext_vector_type(16)));
    const uint32_t lane = hip_emulate_lane(), at = (uint32_t)(b & 0x3fff) << 4, stride = (uint32_t)(b >> 32 & 0x3fff) << 4;
    if (b >> 62 != 1 || (b >> 49 & 7) || (at >> 7 & 7)) __builtin_trap();
    words8 left;
    #pragma unroll
    for (uint32_t w = 0; w < 8; w++) {
        if (LEFT_LDS) {
            const uint32_t m = threadIdx.x / 32 % 4 * 16 + lane % 16, rows = (uint32_t)(left_lds & 0x3fff) << 4, of_eight = (uint32_t)(left_lds >> 32 & 0x3fff) << 4;
            left[w] = *(const __attribute__((address_space(3))) uint32_t *)(uintptr_t)hip_swizzled(rows + m % 8 * 128 + m / 8 * of_eight + 4 * w);
            continue;
        }
        const uint32_t from = 4 * (lane % 8) + w % 4, low = hip_emulate_read(a[w / 4 * 2], from), high = hip_emulate_read(a[w / 4 * 2 + 1], from);
        left[w] = lane & 8 ? high : low;
    }
    for (uint32_t n0 = 0; n0 < 64; n0 += 16) {
        const uint32_t n = n0 + lane % 16;
        words8 right;
        #pragma unroll
        for (uint32_t w = 0; w < 8; w++) {
            if (TRANSPOSED) {
                uint32_t x[2];
                #pragma unroll
                for (uint32_t e = 0; e < 2; e++) {
                    const uint32_t k = 2 * w + e, address = hip_swizzled(at + 2 * n + k % 8 * 128 + k / 8 * stride);
                    x[e] = *(const __attribute__((address_space(3))) uint16_t *)(uintptr_t)address;
                }
                right[w] = x[0] | x[1] << 16;
            } else right[w] = *(const __attribute__((address_space(3))) uint32_t *)(uintptr_t)hip_swizzled(at + n % 8 * 128 + n / 8 * stride + 4 * w);
        }
        float8 sum = {0, 0, 0, 0, 0, 0, 0, 0};
        if constexpr (DTYPE == ATTN_F16)
            sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(__builtin_bit_cast(half16, left), __builtin_bit_cast(half16, right), sum);
        else sum = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(short16, left), __builtin_bit_cast(short16, right), sum);
        #pragma unroll
        for (uint32_t e = 0; e < 8; e++) {                 /* row lane / 4 + 8 (e % 4 / 2), column 8 (e / 4) + lane % 4 * 2 + e % 2 */
            const uint32_t from = e / 4 * 8 + lane % 4 * 2 + e % 2 + lane / 4 % 2 * 16;
            uint32_t x = 0;
            #pragma unroll
            for (uint32_t r = 0; r < 4; r++) {
                const uint32_t got = hip_emulate_read(__float_as_uint(sum[e % 4 / 2 * 4 + r]), from);
                x = lane / 8 == r ? got : x;
            }
            hip_private_float *to = c + (n0 / 8 + e / 4) * 4 + e % 4;
            *to = add ? *to + __uint_as_float(x) : __uint_as_float(x);
        }
    }
}
/* What the warps of a warpgroup said of their products: each adds what it issued once, the first of them takes three times as much away. */
__device__ static uint32_t hip_emulate_said[8][2];
/* Products are made when they are waited for, from the registers and the LDS of then; with HIP_EMULATE_EARLY at once. It traps on what a
   chip does not promise to do right: LDS that this thread wrote and did not publish, registers without a fence since the last group,
   products that nobody waited for, and warps of a warpgroup that did not issue the same ones. HIPSIM_THREADS=1: one workgroup at a time. */
struct gpu_wgmma : gpu_copies {
    enum { MOST_PRODUCTS = 64 };
    struct product {
        hip_private_float *c;
        hip_private_word *a;                               /* NULL: in LDS */
        uint64_t left_lds, b;
        int32_t how, commit;                               /* the commits before its own */
    } product[MOST_PRODUCTS];
    int32_t products = 0, commits = 0;
    uint32_t issued = 0;
    bool fenced = false, open = false;
    __device__ static uint32_t address(const char *in_lds) { return (uint32_t)(uintptr_t)(hip_lds)in_lds; }
    __device__ void publish() { dirty[0] = dirty[1] = dirty[2] = dirty[3] = 0; }
    template <class... R> __device__ __forceinline__ void fence(R &...) { fenced = true; }
    template <int DTYPE> __device__ static void make(const struct product &x) {
        if (x.how & 2) hip_emulate_wgmma<DTYPE, 1, 0>(x.c, x.a, 0, x.b, x.how & 1);
        else if (x.how & 8) hip_emulate_wgmma<DTYPE, 0, 1>(x.c, x.a, x.left_lds, x.b, x.how & 1);
        else hip_emulate_wgmma<DTYPE, 0, 0>(x.c, x.a, 0, x.b, x.how & 1);
    }
    template <int DTYPE, int TRANSPOSED> __device__ __forceinline__ void mma(float (*c)[4], const uint32_t (&a)[4], uint64_t b, bool add) {
        const struct product x = {(hip_private_float *)&c[0][0], (hip_private_word *)&a[0], 0, b, add | TRANSPOSED << 1 | (DTYPE == ATTN_F16) << 2, commits};
        begin<DTYPE>(x);
    }
    template <int DTYPE> __device__ __forceinline__ void mma_lds(float (*c)[4], uint64_t a, uint64_t b, bool add) {
        const struct product x = {(hip_private_float *)&c[0][0], (hip_private_word *)0, a, b, add | (DTYPE == ATTN_F16) << 2 | 8, commits};
        if (a >> 62 != 1 || (a >> 49 & 7) || (a >> 3 & 7) || unpublished(a, 4)) __builtin_trap();
        begin<DTYPE>(x);
    }
    /* Of `grains` from the descriptor's first row on; the next stage may be on its way in. */
    __device__ bool unpublished(uint64_t rows, uint32_t grains) const {
        const uint32_t from = ((uint32_t)(rows & 0x3fff) << 4) / GRAIN;
        for (uint32_t n = from; n < from + grains; n++)
            if (dirty[n / 32 & 3] >> n % 32 & 1) return true;
        return false;
    }
    template <int DTYPE> __device__ __forceinline__ void begin(const struct product &x) {
        if (unpublished(x.b, x.how & 2 ? 1 : 4) || !fenced || products == MOST_PRODUCTS) __builtin_trap();
        issued = issued * 31 + (uint32_t)x.b + (uint32_t)x.left_lds + (x.how & 1);
        open = true;
#if defined(HIP_EMULATE_EARLY)
        make<DTYPE>(x);
#else
        product[products++] = x;
#endif
    }
    __device__ void commit_products() { fenced = false, commits++; }
    /* LEFT: of how many commits the products are still under way: as many as may be. */
    template <int LEFT = 0, class... R> __device__ __forceinline__ void wait_products(R &...) { arrive(commits - LEFT); }
    __device__ __attribute__((noinline)) void arrive(int32_t before) {
        int32_t left = 0;
        for (int32_t n = 0; n < products; n++)
            if (product[n].commit >= before) product[left++] = product[n];
            else if (product[n].how & 4) make<ATTN_F16>(product[n]);
            else make<ATTN_BF16>(product[n]);
        products = left;
        open = left != 0;
    }
    __device__ ~gpu_wgmma() {
        const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        if (open) __builtin_trap();
        if (lane) return;
        uint32_t *said = hip_emulate_said[warp / 4];
        atomicAdd(&said[0], warp % 4 ? issued : 0u - 3 * issued);
        __threadfence();
        if (atomicAdd(&said[1], 1u) % 4 == 3 && atomicAdd(&said[0], 0u)) __builtin_trap();
    }
};
#endif
#endif
