/* attn.h - attention for C and C++: one header, no dependencies.          version 1.0.0, MIT licence (end of file)

   In ONE source file:            and then, anywhere:
     #define ATTN_IMPLEMENTATION    #include "attn.h"
     #include "attn.h"

     attn_desc d = {0};                       // zero means default; in C++: attn_desc d = {};
     d.batch = 1; d.heads = 8; d.q_len = d.kv_len = 1024; d.head_dim = 64;
     d.q.data = q; d.k.data = k; d.v.data = v;  // float [batch][tokens][heads][head_dim]
     d.o.data = o;
     d.flags = ATTN_CAUSAL;
     attn_status s = attn_forward(&d);
     if (s) fprintf(stderr, "%s\n", attn_status_text(s));

   Build: cc -O2 your.c -pthread   (gcc or clang; no flags choose the instruction set, it is chosen at run time)

   CONTENTS - search for the anchor
     >>manual      what it is, what it does not do, semantics, macros, how to add a dtype / an ISA / a backend
     >>api         declarations: statuses, description, backends, timing
     >>platform    compilers, ISA detection, rounding mode, memory, time
     >>status      status texts
     >>describe    defaults, validation: one rule a line
     >>reference   f64 loops to be checked by eye: what every other backend is compared with
     >>dtype       f16, bf16, fp8 <-> f32, scalar
     >>threads     pool, parallel loops
     >>sequence    one sequence of a batch: lengths, addresses, visible range
     >>append      rotary embedding, quantisation, writing new keys to a cache
     >>ops_portable >>ops_avx2 >>ops_avx512   about a dozen named vector operations each
     >>dispatch    which ISA, kernel tables, tile sizes
     >>layout      layout and dtype conversion
     >>standard    attention with the whole score matrix in memory
     >>flash       tiled online softmax: planning and scheduling
     >>backends    registry, automatic choice
     >>public      the functions of >>api
     >>timing      timing harness, measured peak and bandwidth
     >>kernel      the one template body, compiled once per ISA
*/
/* ================================================================================================ >>api ==== */
#ifndef ATTN_H
#define ATTN_H
#include <stddef.h>
#include <stdint.h>

#if defined(ATTN_STATIC)
  #if defined(__GNUC__)
    #define ATTN_API static __attribute__((unused))
  #else
    #define ATTN_API static
  #endif
#elif !defined(ATTN_API)
  #define ATTN_API extern
#endif
#ifdef __cplusplus
extern "C" {
#endif

#define ATTN_VERSION   10000            /* major * 10000 + minor * 100 + patch */
#define ATTN_BROADCAST INT64_MIN        /* a stride: every index reads the same element (a plain 0 means "dense") */

/* dtypes. INT8 and FP8_E4M3 are for k and v caches only, BOOL (one byte, non-zero = may attend) for masks only. */
enum { ATTN_F32 = 0, ATTN_F16 = 1, ATTN_BF16 = 2, ATTN_F64 = 3, ATTN_INT8 = 4, ATTN_FP8_E4M3 = 5, ATTN_BOOL = 6 };

/* layout of a tensor whose strides are all 0: [batch, tokens, heads, dim] or [batch, heads, tokens, dim] */
enum { ATTN_BSHD = 0, ATTN_BHSD = 1 };

/* flags of attn_desc */
enum {
    ATTN_CAUSAL = 1,                    /* key j is visible to query i iff j <= i + offset */
    ATTN_WINDOW_LEFT = 2,               /* and iff j >= i + offset - window_left */
    ATTN_WINDOW_RIGHT = 4,              /* and iff j <= i + offset + window_right */
    ATTN_TOP_LEFT = 8,                  /* offset = 0; default: kv_len - q_len of the sequence (bottom-right) */
    ATTN_OFFSET = 16,                   /* offset = attn_desc.offset */
    ATTN_SCALE = 32,                    /* scale = attn_desc.scale; default (float)(1 / sqrt((double)head_dim)) */
    ATTN_ROTARY_INTERLEAVED = 64,       /* rotary pairs (0,1),(2,3),..; default pairs (0,n/2),(1,n/2+1),.. */
    ATTN_DEVICE = 128,                  /* tensors are device memory: GPU backends only */
    ATTN_SEQ_HOST = 256,                /* with ATTN_DEVICE: the arrays of attn_seq are host memory */
    ATTN_ACCUMULATE = 512               /* backward: add to dq, dk, dv, dbias, dsink instead of overwriting */
};

/* Statuses: X(name, number, sentence). One per validation rule; a number never changes and is never reused. */
#define ATTN_STATUS_LIST(X) \
    X(OK,                     0, "success") \
    X(ERR_HEADS,              1, "heads must be a multiple of kv_heads") \
    X(ERR_NULL_DESC,          2, "the description is NULL") \
    X(ERR_NULL_Q,             3, "q.data is NULL and q is not empty") \
    X(ERR_NULL_K,             4, "k.data is NULL and k is not empty") \
    X(ERR_NULL_V,             5, "v.data is NULL and v is not empty") \
    X(ERR_NULL_O,             6, "o.data is NULL and o is not empty") \
    X(ERR_NEGATIVE_SIZE,      7, "batch, q_len, kv_len, heads, kv_heads, head_dim and v_dim must not be negative") \
    X(ERR_HEADS_ZERO,         8, "heads must be at least 1") \
    X(ERR_HEAD_DIM,           9, "head_dim must be at least 1") \
    X(ERR_OVERFLOW,          10, "the extent of a tensor overflows 63 bits of bytes") \
    X(ERR_STRIDE_MIXED,      11, "some strides of a tensor are 0 and others are not: write ATTN_BROADCAST for a stride of 0") \
    X(ERR_STRIDE_NEGATIVE,   12, "an output, the bias of a dbias, or a cache appended to has a negative stride") \
    X(ERR_STRIDE_ALIAS,      13, "the strides of an output make two of its rows overlap") \
    X(ERR_LAYOUT,            14, "layout must be ATTN_BSHD or ATTN_BHSD") \
    X(ERR_DTYPE,             15, "unknown dtype") \
    X(ERR_DTYPE_Q,           16, "q must be f32, f16, bf16 or f64") \
    X(ERR_DTYPE_KV,          17, "k and v must be f32, f16, bf16, f64, int8 or fp8") \
    X(ERR_DTYPE_O,           18, "o must be f32, f16, bf16 or f64") \
    X(ERR_DTYPE_BIAS,        19, "bias must be f32, f16, bf16 or f64") \
    X(ERR_DTYPE_MASK,        20, "mask must be ATTN_BOOL") \
    X(ERR_QUANT_SCALE,       21, "an int8 or fp8 tensor needs its scale array") \
    X(ERR_SCALE_UNUSED,      22, "a scale array is given for a tensor that is neither int8 nor fp8 k or v") \
    X(ERR_OVERLAP,           23, "an output overlaps an input or another output") \
    X(ERR_SCALE,             24, "scale must be finite") \
    X(ERR_SCALE_FLAG,        25, "scale is given without ATTN_SCALE") \
    X(ERR_SOFTCAP,           26, "softcap must be finite and not negative") \
    X(ERR_DROPOUT,           27, "dropout must lie in [0, 1)") \
    X(ERR_OFFSET_FLAG,       28, "offset is given without ATTN_OFFSET") \
    X(ERR_OFFSET_BOTH,       29, "ATTN_TOP_LEFT and ATTN_OFFSET are both set") \
    X(ERR_WINDOW_FLAG,       30, "window_left or window_right is given without its flag") \
    X(ERR_WINDOW_NEGATIVE,   31, "a window side must not be negative") \
    X(ERR_FLAGS,             32, "an unknown flag is set") \
    X(ERR_PHILOX_RANGE,      33, "dropout needs philox_offset, q_len, kv_len and batch * heads below 2^32") \
    X(ERR_THREADS,           34, "threads must not be negative") \
    X(ERR_BACKEND_UNKNOWN,   35, "no backend of that name is registered") \
    X(ERR_DECLINED,          36, "the backend named does not take this call: attn_query says why") \
    X(ERR_NOT_YET,           37, "this feature is not built yet") \
    X(ERR_WORKSPACE_SMALL,   38, "the workspace is smaller than attn_query says") \
    X(ERR_WORKSPACE_ALIGN,   39, "the workspace is not aligned to 64 bytes") \
    X(ERR_MEMORY,            40, "out of memory") \
    X(ERR_POOL,              41, "a pool needs a run function and at least 1 thread") \
    X(ERR_ALLOC,             42, "an allocator needs both get and put") \
    X(ERR_ISA,               43, "ATTN_ISA names an instruction set that this build or machine lacks") \
    X(ERR_DEVICE,            44, "tensors are device memory and no registered backend takes them") \
    X(ERR_DEVICE_INDEX,      45, "device must not be negative") \
    X(ERR_SEQ_HOST,          46, "ATTN_SEQ_HOST is for device tensors only") \
    X(ERR_MESSAGE,           47, "message_size is given without message") \
    X(ERR_WORKSPACE_NULL,    48, "workspace_size is given without workspace") \
    X(ERR_TOO_LARGE,         49, "the score matrix does not fit in this machine's memory") \
    X(ERR_CU_FIRST,          60, "the first entry of cu_q or cu_k must be 0") \
    X(ERR_CU_FALLS,          61, "cu_q or cu_k falls") \
    X(ERR_CU_LAST,           62, "the last entry of cu_q or cu_k must be total_q or total_k") \
    X(ERR_CU_LONG,           63, "a packed sequence is longer than q_len or kv_len") \
    X(ERR_TOTAL_FLAG,        64, "total_q or total_k is given without cu_q or cu_k") \
    X(ERR_TOTAL_NEGATIVE,    65, "total_q and total_k must not be negative") \
    X(ERR_USED_Q,            66, "used_q must lie in [0, length of the sequence]") \
    X(ERR_USED_K,            67, "used_k must lie in [0, capacity of the sequence]") \
    X(ERR_START_K,           68, "start_k must lie in [0, used_k]") \
    X(ERR_SLOT,              69, "slot must lie in [0, slots)") \
    X(ERR_SLOTS_FLAG,        70, "slots is given without slot, or slot without slots") \
    X(ERR_SLOT_CU,           71, "slot cannot be combined with cu_k or with pages") \
    X(ERR_SLOT_TWICE,        72, "two batch entries append to one cache slot") \
    X(ERR_PAGE_SIZE,         73, "a block table needs page_size, pages and max_pages of at least 1") \
    X(ERR_PAGE_FLAG,         74, "page_size, pages or max_pages is given without block_table") \
    X(ERR_PAGE_USED,         75, "a block table needs used_k") \
    X(ERR_PAGE_CU,           76, "block_table cannot be combined with cu_k") \
    X(ERR_PAGE_CAPACITY,     77, "kv_len exceeds max_pages * page_size") \
    X(ERR_PAGE_RANGE,        78, "an entry of the block table lies outside [0, pages)") \
    X(ERR_PAGE_TWICE,        79, "two batch entries append to one page") \
    X(ERR_APPEND_USED,       90, "append needs used_k") \
    X(ERR_APPEND_CU,         91, "append cannot be combined with cu_k") \
    X(ERR_APPEND_CACHE,      92, "append.k_cache and append.v_cache must equal k.data and v.data") \
    X(ERR_APPEND_NULL,       93, "append.len is given without append.k.data and append.v.data, or the reverse") \
    X(ERR_APPEND_DTYPE,      94, "append.k and append.v must be f32, f16, bf16 or f64") \
    X(ERR_APPEND_LEN,        95, "append.len must not be negative, and used_k + appended tokens must fit the capacity") \
    X(ERR_APPEND_SCALE,      96, "append.k_scale and append.v_scale must equal k.scale and v.scale of a quantised cache") \
    X(ERR_APPEND_CU_NEW,     97, "append.cu must begin with 0, never fall, end with append.total, no step above append.len") \
    X(ERR_ROTARY_NULL,       98, "rotary embedding needs rotary_cos, rotary_sin, rotary_dim and rotary_rows together") \
    X(ERR_ROTARY_DIM,        99, "rotary_dim must be even and lie in [2, head_dim]") \
    X(ERR_ROTARY_ROWS,      100, "a position lies beyond rotary_rows") \
    X(ERR_ROTARY_APPEND,    101, "rotary embedding is applied on append only") \
    X(ERR_ROTARY_FLAG,      102, "ATTN_ROTARY_INTERLEAVED is set without rotary tables") \
    X(ERR_NULL_GRAD,        110, "the gradient description is NULL") \
    X(ERR_NULL_DOUT,        111, "dout.data is NULL and dout is not empty") \
    X(ERR_NULL_LSE,         112, "backward needs the lse of the forward call") \
    X(ERR_NULL_DQKV,        113, "dq.data, dk.data or dv.data is NULL and not empty") \
    X(ERR_DTYPE_GRAD,       114, "dout, dq, dk and dv must be f32, f16, bf16 or f64") \
    X(ERR_DBIAS,            115, "dbias is given without a bias") \
    X(ERR_DSINK,            116, "dsink is given without a sink") \
    X(ERR_BACKWARD_CACHE,   117, "backward of cache slots or append is not defined") \
    X(ERR_BACKWARD_PAGED,   118, "backward of a paged cache is not defined") \
    X(ERR_BACKWARD_QUANT,   119, "backward of a quantised cache is not defined") \
    X(ERR_ACCUMULATE,       120, "ATTN_ACCUMULATE is for backward only") \
    X(ERR_DBIAS_DTYPE,      121, "dbias is f32 in the strides of the bias: the bias strides must not alias unless ATTN_BROADCAST") \
    X(ERR_REGISTER_NULL,    130, "a backend needs a name, plan and run") \
    X(ERR_REGISTER_ABI,     131, "the backend was compiled against another version of attn.h") \
    X(ERR_REGISTER_NAME,    132, "a backend of that name is registered already, or the name is empty, 'auto' or longer than 31 characters") \
    X(ERR_REGISTER_FULL,    133, "no more backends can be registered") \
    X(ERR_MERGE_PARTS,      140, "parts must not be negative, and with parts the part arrays must not be NULL") \
    X(ERR_MERGE_LSE,        141, "a part has no lse") \
    X(ERR_MERGE_O,          142, "a part's o is NULL, of a dtype other than f32, f16, bf16, f64, or strided wrongly") \
    X(ERR_CONVERT_SHAPE,    143, "shape is NULL or has a negative size") \
    X(ERR_CONVERT_DTYPE,    144, "conversion is between f32, f16, bf16 and f64") \
    X(ERR_CONVERT_NULL,     145, "the source or destination of a conversion is NULL and not empty") \
    X(ERR_TIME_NULL,        146, "timing needs a function and a result") \
    X(ERR_TIME_OPTS,        147, "timing needs iterations or min_seconds, none of them negative") \
    X(ERR_QUERY_NULL,       148, "attn_query needs a plan to fill") \
    X(ERR_PARALLEL,         149, "attn_parallel needs a task and a count that is not negative") \
    X(ERR_NO_GPU_COMPILER,  160, "attn_hip.c was not built with a GPU compiler") \
    X(ERR_NO_DEVICE,        161, "no GPU is present") \
    X(ERR_GPU_ARCH,         162, "attn_hip.c was not built for the GPU found") \
    X(ERR_GPU_MEMORY,       163, "out of device memory") \
    X(ERR_GPU_POINTER,      164, "a pointer is not device memory of the device named") \
    X(ERR_GPU_WORKSPACE,    165, "the workspace is not device memory") \
    X(ERR_GPU_STICKY,       166, "the GPU reports an error of an earlier call") \
    X(ERR_GPU,              167, "the GPU runtime reports an error: see the message buffer")

typedef enum attn_status {
#define ATTN__X(name, number, text) ATTN_##name = number,
    ATTN_STATUS_LIST(ATTN__X)
#undef ATTN__X
    ATTN__STATUS_MAX = 0x7fffffff
} attn_status;

/* A tensor that is read. The last dimension is dense; the others have strides in elements. */
typedef struct attn_in {
    const void *data;
    int64_t stride[3];          /* q k v dout: of {batch, token, head}; bias, mask: of {batch, head, query}. Negative is
                                   allowed, ATTN_BROADCAST is a stride of 0; all three 0: dense in `layout` */
    int32_t dtype, layout;
    const float *scale;         /* int8 and fp8 k, v: value = scale * code, one scale per (token, kv head) */
    int64_t scale_stride[3];    /* elements, {batch, token, kv head}; all 0: dense [batch, tokens, kv_heads] */
} attn_in;

/* A tensor that is written. Strides as above, but never negative or ATTN_BROADCAST. */
typedef struct attn_out {
    void *data;
    int64_t stride[3];
    int32_t dtype, layout;
} attn_out;

/* Lengths and addresses per sequence: int32, all optional. Host memory; with ATTN_DEVICE device memory unless ATTN_SEQ_HOST.
 * Host arrays are validated and may change after the call returns; device arrays are clamped.
 *   packed   cu_q: q and o are [total_q, heads, dim], sequence b is tokens cu_q[b] .. cu_q[b+1]-1, lse is [heads, total_q];
 *            q_len is then an upper bound of the lengths. cu_k, total_k, kv_len alike. Batch strides are not used.
 *   padded   used_q[b], used_k[b]: end of the valid tokens in sequence b's buffer (its packed range with cu);
 *            start_k[b]: its first valid key. Key j of a sequence is buffer token start_k + j.
 *   slots    k, v are [slots, kv_len, kv_heads, dim], sequence b is at slot[b].
 *   paged    k, v are [pages, page_size, kv_heads, dim]; token t of sequence b is at page block_table[b * max_pages + t / page_size],
 *            place t % page_size; kv_len is the capacity, at most max_pages * page_size; used_k is needed. */
typedef struct attn_seq {
    const int32_t *cu_q, *cu_k;                 /* [batch + 1] */
    const int32_t *used_q, *used_k, *start_k;   /* [batch] */
    const int32_t *slot;                        /* [batch] */
    const int32_t *block_table;                 /* [batch][max_pages] */
    int64_t total_q, total_k;                   /* tokens of the packed buffers */
    int64_t slots, page_size, pages, max_pages;
} attn_seq;

/* New keys and values, written into the cache at used_k[b] .. before anything else; used_k stays the caller's, so that a repeated
 * call is safe. With rotary tables q and the new k are rotated at position used_k[b] - start_k[b] + i:
 *   out1 = x1 * cos - x2 * sin, out2 = x2 * cos + x1 * sin, every product and sum rounded to f32;
 * new k is then rounded once to the cache's dtype, or quantised; q stays in the arithmetic of the kernel. */
typedef struct attn_append {
    attn_in k, v;                               /* [batch, len, kv_heads, dim]; with cu [total, kv_heads, dim] */
    void *k_cache, *v_cache;                    /* must equal desc.k.data, desc.v.data: the permission to write there */
    float *k_scale, *v_scale;                   /* must equal desc.k.scale, desc.v.scale for int8 and fp8 */
    int64_t len;                                /* new tokens of each sequence (with cu: an upper bound) */
    const int32_t *cu;                          /* optional [batch + 1]: a different number of new tokens for each sequence */
    int64_t total;                              /* tokens of append.k with cu */
    const float *rotary_cos, *rotary_sin;       /* dense [rotary_rows, rotary_dim / 2] */
    int64_t rotary_dim, rotary_rows;
} attn_append;

/* The caller's threads. run is equivalent to: for (i = 0; i < n; i++) task(arg, i); in any order and on any threads, then return. */
typedef struct attn_pool {
    void (*run)(void *user, void (*task)(void *arg, int64_t i), void *arg, int64_t n);
    void *user;
    int32_t threads;
} attn_pool;

/* The caller's memory. get returns NULL on failure; align is a power of two. */
typedef struct attn_alloc {
    void *(*get)(void *user, size_t size, size_t align);
    void (*put)(void *user, void *p, size_t size);
    void *user;
} attn_alloc;

/* One attention problem. Zero it, then set what differs from the default.
 * q [batch, q_len, heads, head_dim]  k [batch, kv_len, kv_heads, head_dim]  v [batch, kv_len, kv_heads, v_dim]
 * o [batch, q_len, heads, v_dim]     bias, mask [batch, heads, q_len, kv_len]  lse [batch, heads, q_len] f32, dense
 *   s(i,j) = scale * dot(q_i, k_j);  s = softcap * tanh(s / softcap);  s += bias(i,j) - alibi[h] * |i + offset - j|
 *   o_i = sum_j exp(s(i,j) - lse_i) v_j over the visible keys j;  lse_i = log(exp(sink[h]) + sum_j exp(s(i,j)))
 * A row that sees no key: o = 0, lse = -infinity (with a sink: the sink). */
typedef struct attn_desc {
    int64_t batch, q_len, kv_len, heads;
    int64_t kv_heads;                           /* 0: heads */
    int64_t head_dim;
    int64_t v_dim;                              /* 0: head_dim */
    attn_in q, k, v, bias, mask;                /* bias, mask: optional */
    attn_out o;
    float *lse;                                 /* forward: optional output; backward: input */
    const float *alibi, *sink;                  /* optional, [heads] */
    uint32_t flags;
    float scale;                                /* read with ATTN_SCALE */
    float softcap, dropout;                     /* 0: off */
    int64_t offset, window_left, window_right;  /* each read with its flag */
    uint64_t seed, philox_offset;               /* dropout: Philox4x32-10, see the manual */
    attn_seq seq;
    attn_append append;
    const char *backend;                        /* NULL or "auto": automatic choice */
    void *stream;                               /* GPU: the stream to run on, asynchronously */
    int32_t device, threads;                    /* GPU index; CPU threads, 0: all */
    const attn_pool *pool;                      /* NULL: the library's own threads */
    const attn_alloc *alloc;                    /* NULL: malloc and free */
    void *workspace;                            /* 64-byte aligned; NULL: through alloc, for the time of the call */
    size_t workspace_size;
    char *message;                              /* optional: on failure a text, zero terminated */
    size_t message_size;
} attn_desc;

/* Gradients. dout is shaped like o, dq like q, dk like k, dv like v; dlse like lse (optional).
 * dbias (optional, f32) has the strides and the broadcast shape of the bias; dsink (optional) [heads]. */
typedef struct attn_grad {
    attn_in dout;
    const float *dlse;
    attn_out dq, dk, dv;
    float *dbias, *dsink;
} attn_grad;

/* What a call would do. The strings live as long as the library. */
typedef struct attn_plan {
    const char *backend, *kernel, *isa;
    size_t workspace_size;                      /* bytes */
    int32_t threads;                            /* at most that many work on it */
    int32_t splits;                             /* key splits of the longest sequence */
    char why[1024];                             /* a line for each backend that declines: "name: reason\n" */
} attn_plan;

/* A backend. To add one, fill this in and call attn_register; examples/backend.c is one in a file.
 * Order of calls: plan, then, when it returned ATTN_OK and the call is a real one, run with that same plan.
 *   plan  pure, touches no tensor: returns ATTN_OK and fills kernel, isa, workspace_size, threads, splits; or returns a status
 *         and writes the reason, one short phrase, to plan->why. g is NULL for a forward call.
 *   run   computes. d->workspace has plan->workspace_size bytes, 64-byte aligned.
 * Both get the description resolved: valid, no default left (kv_heads, v_dim, scale and every stride are set, ATTN_BROADCAST
 * is 0, offset 0 under ATTN_TOP_LEFT, ATTN_SCALE set). */
typedef struct attn_backend {
    const char *name;
    uint64_t abi;                               /* ATTN_ABI */
    attn_status (*plan)(void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan);
    attn_status (*run)(void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan);
    void *user;
} attn_backend;
#define ATTN_ABI ((uint64_t)ATTN_VERSION << 32 | (uint64_t)(sizeof(attn_desc) << 16 | sizeof(attn_grad) << 4))

typedef struct attn_timing_opts {
    int64_t warmup;                             /* untimed calls; the very first call of all is reported as `first` */
    int64_t iterations;                         /* timed calls at least; 0: as min_seconds asks */
    double min_seconds;                         /* go on until this much time was measured */
    double flops, bytes, tokens;                /* of one call, for the rates */
} attn_timing_opts;
typedef struct attn_timing {                    /* seconds */
    int64_t n;
    double first, mean, stddev, min, max, p50, p95, p99;
    double ops_per_s, tokens_per_s, gflops, gbytes_per_s;   /* by the median */
} attn_timing;

/* o, and lse if not NULL, from q, k, v. Refused calls return a status and leave the outputs untouched. */
ATTN_API attn_status attn_forward(const attn_desc *d);
/* The gradients of a forward call: reads d->o and d->lse as that call left them. */
ATTN_API attn_status attn_backward(const attn_desc *d, const attn_grad *g);
/* What a call with this description would run, the workspace it needs, and why every other backend declines. Touches no tensor;
 * data pointers may be NULL. g NULL: forward. */
ATTN_API attn_status attn_query(const attn_desc *d, const attn_grad *g, attn_plan *plan);
/* The attention over the union of key sets from the parts' o and lse: d gives shape, o, lse, sink (added once; the parts are
 * computed without it). lse[p] is shaped like d->lse. 0 parts is an empty row. */
ATTN_API attn_status attn_merge(const attn_desc *d, int64_t parts, const attn_in *o, const float *const *lse);
/* dst = src for a tensor of shape {batch, tokens, heads, dim}, any strides and layouts, f32, f16, bf16, f64, rounding to nearest even.
 * where: threads, pool (may be NULL). [B,S,H*D] is BSHD; a packed QKV tensor is three views. */
ATTN_API attn_status attn_convert(const int64_t shape[4], attn_in src, attn_out dst, const attn_desc *where);

ATTN_API attn_status attn_register(const attn_backend *b);          /* copies *b */
ATTN_API const attn_backend *attn_backend_at(int32_t i);            /* in order of registration; NULL past the last */
ATTN_API const attn_backend *attn_backend_find(const char *name);   /* NULL: unknown */
ATTN_API attn_status attn_set_default(const char *name);            /* NULL or "auto": automatic again */
/* for (i = 0; i < n; i++) task(arg, i); on the threads that the description asks for. For backends. */
ATTN_API attn_status attn_parallel(const attn_desc *where, void (*task)(void *arg, int64_t i), void *arg, int64_t n);

ATTN_API const char *attn_status_text(attn_status s);               /* never NULL */
ATTN_API const char *attn_status_name(attn_status s);               /* "ATTN_ERR_HEADS" */
ATTN_API const char *attn_isa(void);                                /* "avx512", "avx2" or "portable": what this machine runs */
ATTN_API int32_t     attn_threads(void);                            /* threads that 0 stands for */
ATTN_API void        attn_shutdown(void);                           /* joins and frees the lazily started threads; usable again after */
#ifndef ATTN_NO_TIMING
ATTN_API attn_status attn_time(void (*fn)(void *), void *user, const attn_timing_opts *opts, attn_timing *t);
ATTN_API double      attn_seconds(void);                            /* monotonic clock */
ATTN_API double      attn_peak_gflops(int32_t dtype, int32_t threads);          /* measured now: f32 FMA; f16, bf16: or native dot, the larger */
ATTN_API double      attn_bandwidth_gbytes(size_t bytes, int32_t threads);      /* measured now: reading a buffer of so many bytes */
#endif
extern attn_status   attn_hip_register(void);                       /* defined by attn_hip.c only */

#ifdef __cplusplus
}
#endif
#endif /* ATTN_H */
