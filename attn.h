/* attn.h - attention for C and C++: one header, no dependencies.
   version 1.0.0, MIT licence (end of file)

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

   Build: cc -O2 your.c -pthread   (gcc or clang; on Windows without -pthread; no flags choose the
   instruction set, it is chosen at run time)

   CONTENTS - search for the anchor. A call runs downwards through the file: >>public resolves and
   checks the description, >>backends chooses, >>flash plans and shares out, >>kernel computes.
     >>manual      what it is, what it does not do, semantics, macros, how to add a dtype / an ISA
                   / a backend
     >>api         declarations: description, statuses, backends, timing
     >>platform    compilers, regions of an ISA, rounding mode, memory, exp and log in f64
     >>status      status texts
     >>dtype       sizes; f16, bf16, fp8, blocks <-> f32 and f64, scalar
     >>describe    defaults, validation: one rule a line
     >>sequence    one sequence of a batch: lengths, addresses, visible range
     >>threads     pool, a host's team, parallel loops
     >>dispatch    which ISA runs, cache sizes, environment
     >>public      forward, backward, query, merge, convert: the calls that compute
     >>backends    registry, automatic choice, which tries plans
     >>plan        what the plans below share: how scores are held, which calls they decline
     >>flash       tiled online softmax: tile sizes, planning, scheduling
     >>adaptive    the same with a tolerance: the certificate of a row, planning, rows redone
     >>gradients   the backward of flash and standard: planning, phases, scheduling
     >>standard    attention with the whole score matrix in memory
     >>split       once for all ISAs: rows and groups of flash, few rows, one key split after another
     >>blocks      once for all ISAs: blocks of keys and rows of backward, and of standard
     >>codes       once for all ISAs: rows with a certificate, from codes, without light keys, or
                   plane by plane
     >>append      rotary embedding, quantisation, writing new keys to a cache
     >>layout      layout and dtype conversion
     >>merge       parts of a row joined
     >>mpi         ATTN_MPI: a sequence spread over the ranks of a communicator
     >>reference   f64 loops to be checked by eye: what every other backend is compared with
     >>timing      timing harness, measured peak and bandwidth
     >>ops_portable >>ops_avx2 >>ops_avx512 >>ops_neon >>ops_simd128
                   about a dozen named vector operations each
     >>isas        the ISAs of this build, the best first
     >>kernel      the one template body, compiled once per ISA
       >>generic   operations that an ISA may leave out
       >>tile      the register tile: products of matrices
       >>pack      keys, values and queries as the tile reads them
       >>score     softcap, bias, ALiBi, masks, exp, dropout
       >>forward   flash, forward: what a row is, how it is finished and joined
       >>group     a few rows against a block of keys
       >>thin      the same for few rows, keys and values where they lie
       >>int16     rows of a unit from codes of int16, with their certificates; what keys weigh
       >>decode    few rows against a cache of int16, with their certificates
       >>backward  flash, backward
       >>matrix    standard, forward and backward
*/
/* ============================================================================== >>manual ====
 1. WHAT IT IS
   Scaled dot product attention, forward and backward, exact (no approximation, but where a
   tolerance asks for one), on the CPU, for C99 and C++11 on: four backends behind one description.
     flash      tiled online softmax, O(rows) memory, AVX-512, AVX2 + FMA, NEON, WebAssembly's SIMD
                or portable C chosen at run time
     adaptive   flash with a tolerance: faster, and a bound of each row's error beside it (4)
     standard   the whole score matrix in memory: the baseline that flash is measured against
     reference  plain f64 loops: what both are compared with, and what takes f64 data
   attn_hip.c adds the backend "hip" when compiled by a GPU compiler and registered by
   attn_hip_register().
   What it does NOT do: projections, layer norm, tokenising, models, files, printing, logging,
   exiting.

 2. SEMANTICS (tensors: see attn_desc)
   Query head h reads kv head h / (heads / kv_heads). offset = kv_len - q_len of the sequence
   unless ATTN_TOP_LEFT (0) or ATTN_OFFSET. # sees, . does not; 3 queries, 5 keys:

     causal           causal, TOP_LEFT    window left 1, right 0    causal, used_k 4
     # # # . .        # . . . .           . # # . .                 # # . . .
     # # # # .        # # . . .           . . # # .                 # # # . .
     # # # # #        # # # . .           . . . # #                 # # # # .

   Boolean mask: a non-zero byte may attend. Bias: added, times bias_scale[h]; -infinity hides a
   key, whose value is then never touched (+infinity times a negative bias_scale[h] leaves it seen,
   with a weight of 0). A NaN or infinity in a key or value reaches only the rows that see it.
   ALiBi: - alibi[h] * |i + offset - j|.
   Dropout: Philox4x32-10, key = seed, counter = {j / 4, i, b * heads + h, philox_offset}, word
   j % 4; p is kept iff the word is at least floor(rate * 2^32), and then multiplied by
   1 / (1 - rate); i and j count within the sequence. lse is not affected.
   Types: q, k, v and dout are f32, f16 or bf16, k and v also int8, int16, fp8, q8_0 or q4_0
   (forward), o and the gradients any float type: each its own. Flash and standard widen all to
   f32, and round nothing down, with one exception. AMD's processors from Zen 4 on multiply bf16
   twice as fast as f32. There flash multiplies q by k, and dout by v, as they are where both are
   bf16, which is exact and summed in f32; and in a forward call where v and o are bf16, and plan.kernel
   ends in "p_bf16", the probabilities too, each rounded to the nearest bf16 (where up to 5 rows share
   a key, or up to 12 and q or k is not bf16, mostly not). A call with o in f32, with most tolerances
   (4), or of backend standard, does not; one that rotates q with append multiplies q by k in f32, so
   a prefill of bf16 takes 1.4 times as long as one with q rotated and rounded by the caller and k
   appended before, by a q_len of 0.
   f64 in q, k, v or dout asks for f64 arithmetic, which the reference alone has: it is chosen
   then, and then only; plan.kernel ("forward_f64") and plan.why say so.
   Quantised caches: code = clamp(rint(x / scale)), scale = max |x| / 127 (int8) or / 448 (fp8)
   per token and kv head; int16: code = clamp(rint(256 x / scale)) / 256, scale = max |x| / 127.496,
   so that its high bytes alone are a cache of int8 (4); rows of it, and of f32 where the processor's
   caches hold them, that begin at multiples of 64 bytes, as those of malloc do not, are read by a
   decode step up to 1.5 times as fast as others. q8_0 and q4_0 have a scale in f16 for each 32
   elements, and no array of scales: append and attn_convert write the bytes that ggml does (where a
   scale would be beyond the range of f16: the largest one, and the codes clamped to it; below
   2^-126: codes of 0; where an element is not finite: a scale of NaN). int8, int16 and fp8 are
   written by append alone; with q_len 0 it does nothing else. There a scale below 2^-126 is 0, of a
   row that is not all finite NaN, both beside codes of 0.
   Backward: dq, dk, dv from dout, o, lse; dlse adds the gradient of lse; dbias is summed over
   broadcast axes. p = exp(score - lse) is at most 1, however the lse was rounded. A row whose
   keys all have a bias beyond about -1e6 has an lse too coarse for its own p: its gradients are up to
   as many times too large as it has keys. Hide keys by -infinity or a mask instead.
   Range of flash and standard, which compute in f32: the product of q and k, in each of its sums,
   and scale times it have to stay below FLT_MAX; a bias times its multiplier, a sink or an ALiBi
   term may be as large as f32 can say, and their sum with a score larger, without making a row
   empty or infinite; the products of dout with v and with o, in each of their sums, below FLT_MAX
   too. An lse beyond f32 is written as FLT_MAX or -FLT_MAX. A softcap of 2^100 and more counts as
   none. Products of q and k below 2^-126 are 0, which counts where scale is 2^100 and more;
   exp(score - row_max) below 2^-126 too, whatever dropout multiplies it by. An element, a scale or
   a multiplier that is subnormal may count as 0. The gradient of a score times scale has to lie
   within f32's normal numbers. |v| times the row's sum of exp(score - row_max), at most its number
   of keys, has to stay below FLT_MAX too: beyond that o is infinite where the exact mean is not
   (the reference's is finite). Sums over keys and over dims are cut into sums from zero, so that no
   error grows with their number.

 3. PROMISES
   The bits of a result (of a NaN: that it is one) depend on neither the number of threads, nor the
   host's rounding mode or -Ofast, nor, for one sequence, on its neighbours in the batch, its place,
   or whether it is packed, padded or paged (but dropout sees b).
   With a workspace (attn_query says how many bytes) no call allocates from the second on. Its size
   does not shrink as q_len, kv_len or the totals of packed tokens grow, and does not depend on the
   lengths of sequences; a larger batch may need less, where its threads need no key splits. Nothing
   prints, aborts or exits; a refused call leaves every output untouched. An output shares no byte
   with an input or another output, but as views that interleave: dq, dk and dv in one buffer, K
   and V in one cache. Calls on different data may run at the same time. An optimized build takes
   less than 64 KiB of a caller's stack.

 4. TOLERANCE AND CERTIFICATE
   attn_desc.tolerance says how much error you can bear; what is saved by it is time. 0.01 is a
   hundredth of the largest |v| that the row sees; with ATTN_TOLERANCE_ABSOLUTE it is 0.01. The call
   may then compute rows from 16-bit integers, or leave out keys that weigh next to nothing, and
   writes for each row what it proves of the result:

     |o - exact o| <= cert + what plain f32 code may round      every element of the row's o
     cert <= tolerance                                          for every finite input

   cert is a bound, not an estimate: it follows from this call's own numbers (>>adaptive has the
   proof), and mostly exceeds the error 10 to 100 times. A row whose cert would exceed the tolerance
   is computed again as without one: its cert is 0. lse is off by attn_statistics.lse_error at most,
   beyond rounding.
   With attn_desc.quantile, say 0.99, that share of rows is to keep to the tolerance, and cert may be
   above it (cert is a bound as before). Of each stretch of rows those of the largest cert, and some
   that are drawn, are computed both ways: where too many of them are beyond the tolerance, which is
   one for a high quantile, the stretch keeps to it row by row, by its certificates. Whatever the data,
   in 19 of 20 draws at least that share of the rows of a sequence keeps to the tolerance; the draw
   follows from where rows are, not from data. So some 60 rows of a stretch are computed both ways at
   0.99 (there are 16 of all heads and more, of 384 rows and more); where that were more than one in
   five, all rows keep to the tolerance. attn_statistics says how many were compared, how many of
   those that stayed were beyond, and the largest error found. It pays at 0.001, for prefill, and
   more at 0.97 than at 0.99; a decode step keeps to the tolerance in every row.
   Few rows, as in a decode step, are taken where k and v are int16: what append quantised counts as
   exact, scale * code. The high bytes of all keys are read, then those of the values and the low
   bytes that the tolerance asks for; attn_statistics.bytes says how much. Up to 8 rows (q_len times
   heads / kv_heads; fewer where dims are few, see below) against 1024 keys and more, dims that are
   powers of two from 64 (named: 16) to 512 with strides that are multiples of them, a tolerance of
   1/512 and above (Zen 4: 1/128; named: 1/2048), any that is absolute. The workspace has 78 bytes for
   each key that there may be: of one kv head for each thread as far as 256 MiB go, of one at least,
   or of all kv heads where these are more, as far as 32 MiB go.
   Taken: every dtype, layout and length, grouped heads, causal, windows, offsets, packed and
   padded sequences, slots, pages, append. Computed exactly, with the reason in attn_statistics.why
   and a cert of 0: softcap, bias, mask, ALiBi, sinks, dropout, a scale up to 2^-100 or from 2^100 on,
   few rows or keys (so each decode step from other dtypes), dims above 512, machines without AVX2,
   or with AVX-512 but not its VNNI, and rows for which the integers are too coarse and too few keys
   are light: that is guessed from some queries and keys before anything is packed, or follows from
   the scores by the high bytes. Refused: backward, device tensors, MPI, attn_merge, registered
   backends.
   Integers are for AVX-512 VNNI. They pay for prefill, from 640 tokens on, at a tolerance of 0.01: 1.2
   to 1.6 times as fast, less where causal or with fewer than 64 dims, and not below 24; at 0.001 where
   there are 1024 keys and more, head_dim is at most 256 and rows look at many of their keys: 1.1 to
   1.4 times (Zen 4, below 4096 keys: 0.85 to 1.25). Decode from int16 at 0.01 is 1.1 to 3 times as
   fast as without a tolerance where rows look at few of their keys; where they look at all, as fast
   with one row of 128 dims and up to 1.3 times slower with 4; as fast where scores are far too large
   for the codes of q, which scales tell before anything is read, and up to 1.5 times slower where they
   are hardly so, which the scores tell before values are read. It is compared with the exact decode of
   the same cache, which takes longer than one of f32 where that is in the processor's caches, 1.2 to
   1.7 times as long as one of f16 where 4 rows share a key, 1.7 to 2.5 times where none do, and is
   done of up to 1 row of 64 dims, 4 of 128, 8 of 256. Integers do not pay at 0.0005 and below, nor
   where scale |q| |k| is beyond some 50. Keys are left out, on AVX2 too, of 257 rows and more against
   2048 keys and more, where rows look at few of their keys: that pays at 0.001 nearly as at 0.01. What
   does not pay is as fast as without a tolerance, within 4 percent, but for such a decode, for rows on
   Zen 4 as said (up to 1.3 times slower at 0.001), and for bf16 below 0.004 (1.4 times slower) where
   its products are fast. There q, k, v and o of bf16 are computed from no integers, and from 0.004 on
   P is rounded to bf16 as it is without a tolerance, unless that is absolute: 2^-8 of the largest |v|
   that a row sees is in its cert then, where 0 is said above.
   "adaptive" named as the backend computes from integers on AVX2 and in portable C too, slower than
   flash; it declines a call of whose description alone follows that all would be computed exactly,
   where the automatic choice does so; what follows from the data is computed exactly by both.
   A row's certificate, and so whether it is computed again, depends on finite numbers of its own
   sequence, those that it does not see among them, and on nothing else: promise 3 holds for cert as
   for o, and what a row does not see may be NaN or infinite. Rows that are decoded together agree on
   what is read, and rows that a NaN spoils are not among those compared for a quantile: there a NaN
   that one row sees may change the bits of another, which keeps what it is promised.

 5. MACROS, before the #include; what the host defines for itself, such as K or min, behind it
     ATTN_IMPLEMENTATION   in one source file: the code
     ATTN_STATIC           everything static: a private copy, in a file with ATTN_IMPLEMENTATION
                           (attn_hip.c cannot reach it)
     ATTN_API              linkage of the public functions (default: extern)
     ATTN_HEADER           the name by which this file includes itself (default: "attn.h")
     ATTN_MALLOC(size), ATTN_FREE(p)                  instead of malloc and free
     ATTN_NO_THREADS, ATTN_NO_AVX2, ATTN_NO_AVX512, ATTN_NO_NEON, ATTN_NO_SIMD128,
     ATTN_NO_STANDARD, ATTN_NO_TIMING, ATTN_NO_REFERENCE, ATTN_NO_BACKWARD, ATTN_NO_CONVERT,
     ATTN_NO_GETENV, ATTN_NO_ADAPTIVE
                           leave that part out; what is asked of it gets a status of its own, a
                           backend ATTN_ERR_BACKEND_UNKNOWN; a tolerance is kept exactly; the
                           functions of timing are not even declared
     ATTN_NO_MALLOC        no malloc: a call needs a workspace or an allocator; attn_time is refused,
                           attn_bandwidth_gbytes is 0
     ATTN_ONLY_F32         no other type but for masks
     ATTN_ONLY_PORTABLE, ATTN_ONLY_AVX2, ATTN_ONLY_AVX512    that ISA alone
     ATTN_NO_EXTENSIONS    C99 alone, as for compilers other than gcc and clang: one thread (a pool
                           is not asked), portable code, the host's rounding mode and denormals;
                           the first call is to return before another thread makes one
     ATTN_UNALIGNED_MOVES  gcc for Windows: AVX too, given -Wa,-muse-unaligned-vector-move, or a gcc
                           that is patched to spill so, as Debian's is
     ATTN_MPI              attention over MPI too: includes <mpi.h>, needs its library (mpicc)
     ATTN_NO_OPTIMIZE      -O0 is left as it is, for a debugger; else gcc is asked for -O2
   -Ofast and -ffast-math are kept out of the code, but not by clang for 64-bit ARM and WebAssembly,
   where they are refused, nor with ATTN_NO_EXTENSIONS, where bits may differ. WebAssembly without
   shared memory has no threads.
   Compiled with -fopenmp it uses OpenMP's threads, else a small pthread pool; attn_desc.pool goes
   before both. The small pool is one call's at a time: a call that finds it taken is computed by its
   own thread alone, as is one that is made within a task or an OpenMP region. A host that calls an
   operator on all of its threads at once has attn_forward_team. A child after fork() may call at
   once; with -fopenmp only with threads = 1 or a pool of its own, for GNU's OpenMP hangs there.
   threads = 0 asks for as many as ATTN_THREADS says, or omp_get_max_threads(), or as there are
   processors that the calling thread may run on: read once, by the first call. How many wake
   follows from the lengths of the sequences, not from the room that they lie in. The pool's threads
   spin for 0.2 ms at most behind a call, where there is a processor for each, then sleep. They leave
   the host's signals alone, SIGTERM and SIGINT too: a main that ends by pthread_exit, so that the
   process ends with its other threads, calls attn_shutdown before. A thread that is cancelled in a
   call ends at its next cancellation point behind it, as far as the call holds the pool or memory,
   and the call itself is none; a shared object that is unloaded ends its threads (on Windows it
   stays loaded until attn_shutdown has ended them).
   Environment, read once: ATTN_ISA=avx512|avx2|neon|simd128|portable, ATTN_BACKEND=name (for calls
   that name none), ATTN_THREADS=1..1024 (for those whose threads are 0; anything else counts as not
   set). Empty ones count as not set. An ISA that is not there refuses every call (ATTN_ERR_ISA), a
   backend those that name none (ATTN_ERR_BACKEND_UNKNOWN).

 6. TO ADD
   a dtype     a row in ATTN_DTYPE_LIST (sizes, validation and messages follow it), one load and one
               store in >>dtype (every kernel takes it from there at once; a vector form goes into
               load_any and store_any in >>kernel), and a case in the reference's own
               attn__ref_read and attn__ref_write, of codes in attn__ref_most too; blocks have
               attn__put_block for a store, load_block in >>kernel, attn__ref_put_block
   an ISA      a room >>ops_<isa>, as >>ops_avx2: W, the register tile MR x NV, the type of a vector,
               ATTN__TARGET_<isa> and the eleven operations that >>ops_portable lists, within
               ATTN__REGION(<isa>); there too, with ATTN__KERNEL defined as <isa>, this file is
               included. Operations that have a generic form and that it has better: their bits in
               ATTN__OWN__<isa>. Then a row in >>isas, with what it needs of the processor, which
               attn__cpu_has in >>dispatch finds out
   a backend   fill in attn_backend, call attn_register: examples/backend.c. A GPU: one block in
               attn_hip.c
   a status    a line at the end of its group in ATTN_STATUS_LIST, and its rule in >>describe */

/* ================================================================================= >>api ==== */
#if defined(ATTN__KERNEL) && ATTN_VERSION != 10000
#error "attn.h includes another version of itself: define ATTN_HEADER as its name"
#endif
#ifndef ATTN_H
#define ATTN_H
#include <stddef.h>
#include <stdint.h>
#ifdef ATTN_MPI
#include <mpi.h>
#endif

#if defined(ATTN_STATIC)
#if (defined(__GNUC__) || defined(__clang__)) && !defined(ATTN_NO_EXTENSIONS)
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

#define ATTN_VERSION 10000       /* major * 10000 + minor * 100 + patch */
#define ATTN_BROADCAST INT64_MIN /* a stride: one element for every index (a plain 0 is "dense") */

/* dtypes: X(name, number, text, bytes of a block, elements of a block, kind, largest code). Numbers
 * count from 0; a block has a power of two of elements, of at most 8 bytes each.
 *   FLOAT   any tensor
 *   CODES   k and v caches only, times a scale of an array
 *   BLOCKS  k and v caches only, their scale in memory beside them
 *   MASK    masks only: one byte, non-zero = may attend
 * int16 is high + low / 256, two signed bytes in planes of their own. Of a tensor whose elements
 * are counted from data on, as strides do, each ATTN_PLANE elements are so many high bytes and
 * behind them as many low ones: element e has its high byte at data + e + e / ATTN_PLANE *
 * ATTN_PLANE (the quotient rounded down) and the low one ATTN_PLANE bytes on. So the tensor takes
 * whole pieces of 2 * ATTN_PLANE bytes; its head_dim or v_dim and strides are multiples of 16.
 * Pages of a multiple of ATTN_PLANE elements are copied as bytes; others share pieces.
 * q8_0 and q4_0 are blocks of 32 elements as ggml has them: an f16, times which every code of the
 * block counts, and behind it the codes: of q8_0 32 signed bytes; of q4_0 16 bytes, element i in
 * the low half of byte i, element 16 + i in its high half, less 8. Head_dim or v_dim and strides,
 * in elements, are multiples of 32 */
#define ATTN_PLANE 4096
#define ATTN_DTYPE_LIST(X) \
    X(F32, 0, "f32", 4, 1, FLOAT, 0) \
    X(F16, 1, "f16", 2, 1, FLOAT, 0) \
    X(BF16, 2, "bf16", 2, 1, FLOAT, 0) \
    X(F64, 3, "f64", 8, 1, FLOAT, 0) \
    X(INT8, 4, "int8", 1, 1, CODES, 127) \
    X(FP8_E4M3, 5, "fp8", 1, 1, CODES, 448) \
    X(BOOL, 6, "bool", 1, 1, MASK, 0) \
    X(INT16, 7, "int16", 2, 1, CODES, 127.49609375f) \
    X(Q8_0, 8, "q8_0", 34, 32, BLOCKS, 127) \
    X(Q4_0, 9, "q4_0", 18, 32, BLOCKS, 8)
/* clang-format off */
enum {
#define ATTN__X(name, number, text, bytes, elements, kind, most) ATTN_##name = number,
    ATTN_DTYPE_LIST(ATTN__X)
#undef ATTN__X
    ATTN__DTYPES
};
/* The texts of the dtypes that may be one thing or another, for sentences: " f32 f16 .." */
#define ATTN__PICK_FLOAT(float_, codes, blocks, mask) float_
#define ATTN__PICK_CODES(float_, codes, blocks, mask) codes
#define ATTN__PICK_BLOCKS(float_, codes, blocks, mask) blocks
#define ATTN__PICK_MASK(float_, codes, blocks, mask) mask
#define ATTN__IF_FLOAT(name, number, text, bytes, elements, kind, most) \
    ATTN__PICK_##kind(" " text, "", "", "")
#define ATTN__IF_KV(name, number, text, bytes, elements, kind, most) \
    ATTN__PICK_##kind(" " text, " " text, " " text, "")
#define ATTN__IF_SCALED(name, number, text, bytes, elements, kind, most) \
    ATTN__PICK_##kind("", " " text, "", "")
#define ATTN__IF_BLOCKS(name, number, text, bytes, elements, kind, most) \
    ATTN__PICK_##kind("", "", " " text, "")
#define ATTN__IF_MASK(name, number, text, bytes, elements, kind, most) \
    ATTN__PICK_##kind("", "", "", " " text)
#define ATTN__FLOATS ATTN_DTYPE_LIST(ATTN__IF_FLOAT)
#define ATTN__KVS ATTN_DTYPE_LIST(ATTN__IF_KV)
#define ATTN__SCALED ATTN_DTYPE_LIST(ATTN__IF_SCALED)
#define ATTN__IN_BLOCKS ATTN_DTYPE_LIST(ATTN__IF_BLOCKS)
#define ATTN__MASKS ATTN_DTYPE_LIST(ATTN__IF_MASK)
/* clang-format on */

/* layout of a tensor whose strides are all 0: [batch, tokens, heads, dim] or [batch,
 * heads, tokens, dim] */
enum { ATTN_BSHD = 0, ATTN_BHSD = 1 };

/* flags of attn_desc */
enum {
    ATTN_CAUSAL = 1,       /* key j is visible to query i iff j <= i + offset */
    ATTN_WINDOW_LEFT = 2,  /* and iff j >= i + offset - window_left: causal, window_left + 1 keys */
    ATTN_WINDOW_RIGHT = 4, /* and iff j <= i + offset + window_right */
    ATTN_TOP_LEFT = 8,     /* offset = 0; default: kv_len - q_len of the sequence (bottom-right) */
    ATTN_OFFSET = 16,      /* offset = attn_desc.offset */
    ATTN_SCALE = 32, /* scale = attn_desc.scale; default (float)(1 / sqrt((double)head_dim)) */
    ATTN_ROTARY_INTERLEAVED = 64, /* rotary pairs (0,1),(2,3),..; default (0,n/2),(1,n/2+1),.. */
    ATTN_DEVICE = 128,            /* tensors are device memory: GPU backends only */
    ATTN_SEQ_HOST = 256,          /* with ATTN_DEVICE: the arrays of attn_seq are host memory */
    ATTN_ACCUMULATE = 512, /* backward: add to dq, dk, dv, dbias, dsink instead of overwriting */
    ATTN_TOLERANCE_ABSOLUTE = 1024 /* tolerance is a number, not a share of the largest |v| */
};

/* A tensor that is read. The last dimension is dense; the others have strides in elements. Like
 * every array, it begins at a multiple of the size of its elements, q8_0 and q4_0 of 2. The stride of
 * an axis with one index counts for nothing. */
typedef struct attn_in {
    const void *data;
    /* q k v dout: strides of {batch, token, head}; bias, mask: of {batch, head, query}. Negative
     * ones are allowed, ATTN_BROADCAST is a stride of 0; all three 0: dense in `layout`, bias and
     * mask as above in either */
    int64_t stride[3];
    int32_t dtype, layout;
    /* int8, int16 and fp8 k, v: value = scale * code, one scale per (token, kv head) */
    const float *scale;
    /* elements, {batch, token, kv head}; all 0: dense [batch, tokens, kv_heads] */
    int64_t scale_stride[3];
} attn_in;

/* A tensor that is written. Strides as above, but never negative or ATTN_BROADCAST, and each at least
 * as far as the smaller ones and the dims reach. */
typedef struct attn_out {
    void *data;
    int64_t stride[3];
    int32_t dtype, layout;
} attn_out;

/* Lengths and addresses per sequence: int32, all optional. Host memory; with ATTN_DEVICE device
 * memory unless ATTN_SEQ_HOST. Host arrays are validated and may change after the call returns;
 * device arrays are clamped.
 *   packed   cu_q: q and o are [total_q, heads, dim], sequence b is tokens cu_q[b] .. cu_q[b+1]-1,
 *            lse is [heads, total_q]; q_len is then an upper bound of the lengths, 0: the longest
 *            of them (host memory only). cu_k, total_k, kv_len alike. Batch strides are not used.
 *   padded   used_q[b], used_k[b]: end of the valid tokens in sequence b's buffer (its packed
 *            range with cu); start_k[b]: its first valid key. Key j of a sequence is buffer token
 *            start_k + j; a column of bias, mask and dbias is a buffer token, key j's start_k + j.
 *            Of tokens that are not valid o, dq, dk and dv become 0, or stay with ATTN_ACCUMULATE,
 *            and lse -infinity, or the sink.
 *   slots    k, v are [slots, kv_len, kv_heads, dim], sequence b is at slot[b]. Sequences that share
 *            all keys, as the beams of a search over an encoder's do, are faster as queries of one.
 *   paged    k, v are [pages, page_size, kv_heads, dim]; token t of sequence b is at page
 *            block_table[b * max_pages + t / page_size], place t % page_size; kv_len is the
 *            capacity, at most max_pages * page_size; used_k is needed. The pages of tokens start_k[b]
 *            to used_k[b], and of those appended, are checked, whatever a window hides: in place of a
 *            page that is freed once it is left of the window, any page of the pool may stand. */
typedef struct attn_seq {
    const int32_t *cu_q, *cu_k;               /* [batch + 1] */
    const int32_t *used_q, *used_k, *start_k; /* [batch] */
    const int32_t *slot;                      /* [batch] */
    const int32_t *block_table;               /* [batch][max_pages] */
    int64_t total_q, total_k;                 /* tokens of the packed buffers */
    int64_t slots, page_size, pages, max_pages;
} attn_seq;

/* New keys and values, written into the cache at used_k[b] .. before anything else; used_k stays
 * the caller's, so that a repeated call is safe. With rotary tables q and the new k are rotated
 * at position used_k[b] - start_k[b] + i (fewer queries than new keys as if they were the first:
 * who wants the last alone appends with a q_len of 0, and attends with a q that is rotated):
 * out1 = x1 * cos - x2 * sin, out2 = x2 * cos + x1 * sin, every product and sum rounded to f32; new
 * k is then rounded once to the cache's dtype (a NaN to the default NaN), or quantised; q stays in
 * the arithmetic of the kernel. Tokens at other positions, as those of a tree, are rotated by the
 * caller. Where v is a part of k (MLA: one buffer, v_dim of its head_dim), the cache is read like
 * any other, but written by the caller. */
typedef struct attn_append {
    /* [batch, len, kv_heads, dim]; with cu [total, kv_heads, dim] */
    attn_in k, v;
    /* must equal desc.k.data, desc.v.data: the permission to write there */
    void *k_cache, *v_cache;
    /* must equal desc.k.scale, desc.v.scale for int8, int16 and fp8 */
    float *k_scale, *v_scale;
    /* new tokens of each sequence (with cu: an upper bound); 0 with k and v: none, but q is rotated */
    int64_t len;
    /* optional [batch + 1]: a different number of new tokens for each sequence */
    const int32_t *cu;
    int64_t total;                        /* tokens of append.k with cu */
    const float *rotary_cos, *rotary_sin; /* dense [rotary_rows, rotary_dim / 2] */
    int64_t rotary_dim, rotary_rows;
} attn_append;

/* The caller's threads. run is equivalent to: for (i = 0; i < n; i++) task(arg, i); in any order
 * and on any threads, then return. attn_desc.threads may ask for fewer than `threads`. */
typedef struct attn_pool {
    void (*run)(void *user, void (*task)(void *arg, int64_t i), void *arg, int64_t n);
    void *user;
    int32_t threads;
} attn_pool;

/* The caller's memory. get returns NULL on failure; align is a power of two. Calls on several threads
 * ask at once. */
typedef struct attn_alloc {
    void *(*get)(void *user, size_t size, size_t align);
    void (*put)(void *user, void *p, size_t size);
    void *user;
} attn_alloc;

/* What a call with a tolerance did: see the manual, 4. A tile is a row and 128 keys or less, of which
 * it sees one. */
typedef struct attn_statistics {
    /* those of a redone row, and of rows between two such that run along, count in both */
    int64_t tiles_int16, tiles_f32;
    int64_t tiles_skipped; /* of those, but of redone rows: none of their values was used */
    int64_t bytes;         /* decode from int16: of k and v, read but for rows computed exactly */
    int64_t rows;          /* of all heads, those that are not used too */
    int64_t rows_redone;   /* computed again, for their certificates */
    float largest_cert;    /* of any row, absolute */
    float lse_error;       /* of lse, where it is asked for, beyond what f32 code rounds */
    float mass_skipped;    /* of a row's sum, at most, by keys whose values were not used */
    /* with a quantile: rows that were computed both ways; of those that were kept, how many were off
     * by more than the tolerance, and the largest error, absolute */
    int64_t rows_sampled, rows_beyond;
    float sampled_error;
    char why[96]; /* why rows stayed dense; empty where none did */
} attn_statistics;

/* One attention problem. Zero it, then set what differs from the default.
 *   q [batch, q_len, heads, head_dim]          k [batch, kv_len, kv_heads, head_dim]
 *   o [batch, q_len, heads, v_dim]             v [batch, kv_len, kv_heads, v_dim]
 *   bias, mask [batch, heads, q_len, kv_len]   lse [batch, heads, q_len] f32, dense
 *   s(i,j) = scale * dot(q_i, k_j)
 *   s      = softcap * tanh(s / softcap)
 *   s     += bias_scale[h] * bias(i,j) - alibi[h] * |i + offset - j|
 *   lse_i  = log(exp(sink[h]) + sum_j exp(s(i,j)))   over the visible keys j
 *   o_i    = sum_j exp(s(i,j) - lse_i) v_j
 * A row that sees no key: o = 0, lse = -infinity (with a sink: the sink). A sink of NaN or +infinity
 * makes o and lse of its head NaN in all rows that are used. */
typedef struct attn_desc {
    int64_t batch, q_len, kv_len, heads;
    int64_t kv_heads; /* 0: heads */
    int64_t head_dim;
    int64_t v_dim;               /* 0: head_dim */
    attn_in q, k, v, bias, mask; /* bias, mask: optional */
    attn_out o;
    float *lse;                /* forward: optional output; backward: input */
    const float *alibi, *sink; /* optional, [heads] */
    uint32_t flags;
    float scale;                               /* read with ATTN_SCALE */
    float softcap, dropout;                    /* 0: off */
    int64_t offset, window_left, window_right; /* each read with its flag */
    uint64_t seed, philox_offset;              /* dropout: Philox4x32-10, see the manual */
    attn_seq seq;
    attn_append append;
    const char *backend;     /* NULL: see attn_set_default; "auto": automatic choice */
    void *stream;            /* GPU: the stream to run on, asynchronously */
    int32_t device, threads; /* GPU index; CPU threads, 0: all */
    const attn_pool *pool;   /* NULL: the library's own threads */
    const attn_alloc *alloc; /* NULL: malloc and free */
    /* 64-byte aligned; NULL: through alloc, for the time of the call */
    void *workspace;
    size_t workspace_size;
    /* optional: on failure a text, zero terminated: what is wrong, and of which tensor or entry of an
     * array, as "k", "o and v", "used_k[3]"; on success an empty one. It lies in no tensor */
    char *message;
    size_t message_size;
    /* Error that may be traded for speed, see the manual, 4. 0: none. A share of the largest |v|
     * that the row sees, or with ATTN_TOLERANCE_ABSOLUTE a number */
    float tolerance;
    float *cert; /* optional output, like lse: what no element of the row's o is wrong by */
    attn_statistics *statistics; /* optional output */
    /* 0: every row keeps to the tolerance, certified. Else, below 1, the share of rows that shall:
     * found out by computing some of them both ways */
    float quantile;
    /* optional, [heads]: what the bias of each head is multiplied by, as where heads share a bias; a
     * bias of -infinity hides its key whatever that is */
    const float *bias_scale;
} attn_desc;

/* Gradients. dout is shaped like o, dq like q, dk like k, dv like v; dlse like lse
 * (optional). dbias (optional, f32) has the strides and the broadcast shape of the bias;
 * dsink (optional) [heads]: dlse of a row that sees no key goes there, but of rows beyond used_q
 * nothing is read. Where q_len or batch is 0 dbias stays as it is; with
 * ATTN_ACCUMULATE a row of it that batch entries or heads share takes one part after the other. */
typedef struct attn_grad {
    attn_in dout;
    const float *dlse;
    attn_out dq, dk, dv;
    float *dbias, *dsink;
} attn_grad;

/* What a call would do. The strings live as long as the library. */
typedef struct attn_plan {
    const char *backend, *kernel, *isa;
    size_t workspace_size; /* bytes */
    int32_t threads;       /* at most that many work on it */
    int32_t splits;        /* key splits that run side by side */
    /* a line for each backend that declines: "name: reason\n" */
    char why[1024];
    uint64_t own[32]; /* what plan leaves for run: the backend's own */
} attn_plan;

/* clang-format off */
/* Statuses: X(name, number, sentence). One per validation rule; a number never changes and
 * is never reused. */
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
    X(ERR_OVERFLOW,          10, "the extent of a tensor overflows 63 bits of bytes, 8 to an element, or what a call keeps of it does") \
    X(ERR_STRIDE_MIXED,      11, "some strides of a tensor are 0 and others are not: three zeros alone stand for dense ones, ATTN_BROADCAST for a stride of 0") \
    X(ERR_STRIDE_NEGATIVE,   12, "an output, the bias of a dbias, or a cache appended to has a negative stride") \
    X(ERR_STRIDE_ALIAS,      13, "strides of an output overlap, or do not nest: each at least what the smaller ones reach") \
    X(ERR_LAYOUT,            14, "layout must be ATTN_BSHD or ATTN_BHSD") \
    X(ERR_DTYPE,             15, "unknown dtype") \
    X(ERR_DTYPE_Q,           16, "q must be one of" ATTN__FLOATS) \
    X(ERR_DTYPE_KV,          17, "k and v must be one of" ATTN__KVS) \
    X(ERR_DTYPE_O,           18, "o must be one of" ATTN__FLOATS) \
    X(ERR_DTYPE_BIAS,        19, "bias must be one of" ATTN__FLOATS) \
    X(ERR_DTYPE_MASK,        20, "mask must be" ATTN__MASKS) \
    X(ERR_QUANT_SCALE,       21, "k and v need a scale array where they are one of" ATTN__SCALED) \
    X(ERR_SCALE_UNUSED,      22, "a scale array is given for a tensor that is not k or v of one of" ATTN__SCALED) \
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
    X(ERR_BACKEND_UNKNOWN,   35, "no backend is registered by the name in attn_desc.backend, or else in ATTN_BACKEND") \
    X(ERR_DECLINED,          36, "no backend, or not the one named, takes this call: attn_query says why") \
    X(ERR_WORKSPACE_SMALL,   38, "the workspace is smaller than attn_query says") \
    X(ERR_WORKSPACE_ALIGN,   39, "the workspace is not aligned to 64 bytes") \
    X(ERR_MEMORY,            40, "out of memory") \
    X(ERR_POOL,              41, "a pool needs a run function and at least 1 thread") \
    X(ERR_TEAM,              59, "a team has at least 1 thread, at most 32767, and 1 with ATTN_NO_EXTENSIONS") \
    X(ERR_ALLOC,             42, "an allocator needs both get and put") \
    X(ERR_ISA,               43, "ATTN_ISA names an instruction set that this build or machine lacks, or the machine lacks all of the build's") \
    X(ERR_DEVICE,            44, "tensors are device memory and no registered backend takes them") \
    X(ERR_DEVICE_INDEX,      45, "device must not be negative") \
    X(ERR_SEQ_HOST,          46, "ATTN_SEQ_HOST is for device tensors only") \
    X(ERR_MESSAGE,           47, "message_size is given without message") \
    X(ERR_WORKSPACE_NULL,    48, "workspace_size is given without workspace") \
    X(ERR_TOO_LARGE,         49, "the score matrix does not fit in this machine's memory") \
    X(ERR_ALIGN,             50, "a tensor or array does not begin at a multiple of the size of its elements") \
    X(ERR_ADDRESS,           51, "a tensor, an array or the workspace passes the end of the address space") \
    X(ERR_WORKSPACE_OVERLAP, 52, "the workspace overlaps a tensor or an array of the call") \
    X(ERR_SIZE,              53, "the workspace needs more bytes than this build can address") \
    X(ERR_NO_MALLOC,         54, "this build has no malloc (ATTN_NO_MALLOC): it needs a workspace or an allocator") \
    X(ERR_NO_BACKWARD,       55, "this build has no backward (ATTN_NO_BACKWARD)") \
    X(ERR_NO_CONVERT,        56, "this build has no conversion (ATTN_NO_CONVERT)") \
    X(ERR_ONLY_F32,          57, "this build takes f32 alone (ATTN_ONLY_F32)") \
    X(ERR_CU_DEVICE,         58, "q_len or kv_len of 0 is the longest entry of cu_q or cu_k in host memory alone") \
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
    X(ERR_PAGE_TWICE,        79, "a page is appended to twice: by two batch entries, or by one whose new tokens meet it twice") \
    X(ERR_APPEND_USED,       90, "append needs used_k") \
    X(ERR_APPEND_CU,         91, "append cannot be combined with cu_k") \
    X(ERR_APPEND_CACHE,      92, "append.k_cache and append.v_cache must equal k.data and v.data") \
    X(ERR_APPEND_NULL,       93, "append.len is given without append.k.data and append.v.data, or one of them without the other") \
    X(ERR_APPEND_DTYPE,      94, "append.k and append.v must be one of" ATTN__FLOATS) \
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
    X(ERR_DTYPE_GRAD,       114, "dout, dq, dk and dv must be one of" ATTN__FLOATS) \
    X(ERR_DBIAS,            115, "dbias is given without a bias") \
    X(ERR_DSINK,            116, "dsink is given without a sink") \
    X(ERR_BACKWARD_CACHE,   117, "backward of cache slots or append is not defined") \
    X(ERR_BACKWARD_PAGED,   118, "backward of a paged cache is not defined") \
    X(ERR_BACKWARD_QUANT,   119, "backward of a quantised cache is not defined") \
    X(ERR_ACCUMULATE,       120, "ATTN_ACCUMULATE is for backward only") \
    X(ERR_DBIAS_DTYPE,      121, "dbias is f32 in the strides of the bias: the bias strides must not alias unless ATTN_BROADCAST") \
    X(ERR_BIAS_SCALE,       122, "bias_scale is given without a bias") \
    X(ERR_REGISTER_NULL,    130, "a backend needs a name, plan and run") \
    X(ERR_REGISTER_ABI,     131, "the backend was compiled against another version of attn.h") \
    X(ERR_REGISTER_NAME,    132, "a backend of that name is registered already, or the name is empty, 'auto' or longer than 31 characters") \
    X(ERR_REGISTER_FULL,    133, "no more backends can be registered") \
    X(ERR_MERGE_PARTS,      140, "parts must not be negative, and with parts the part arrays must not be NULL") \
    X(ERR_MERGE_LSE,        141, "a part has no lse") \
    X(ERR_MERGE_O,          142, "a part's o is NULL, strided or aligned wrongly, or of none of the dtypes" ATTN__FLOATS) \
    X(ERR_CONVERT_SHAPE,    143, "shape is NULL or has a negative size") \
    X(ERR_CONVERT_DTYPE,    144, "conversion is between two of" ATTN__FLOATS ATTN__IN_BLOCKS) \
    X(ERR_CONVERT_NULL,     145, "the source or destination of a conversion is NULL and not empty") \
    X(ERR_TIME_NULL,        146, "timing needs a function and a result") \
    X(ERR_TIME_OPTS,        147, "timing needs iterations or min_seconds, none of them negative or infinite") \
    X(ERR_QUERY_NULL,       148, "attn_query needs a plan to fill") \
    X(ERR_PARALLEL,         149, "attn_parallel needs a task and a count that is not negative") \
    X(ERR_PACKED_LAYOUT,    150, "a packed buffer is ATTN_QKV_3HD, or ATTN_QKV_H3D where heads is kv_heads and head_dim is v_dim") \
    X(ERR_TOLERANCE,        151, "tolerance must be finite and not negative") \
    X(ERR_TOLERANCE_OFF,    152, "cert, statistics, a quantile or ATTN_TOLERANCE_ABSOLUTE is given without a tolerance") \
    X(ERR_TOLERANCE_GRAD,   153, "backward takes no tolerance") \
    X(ERR_TOLERANCE_DEVICE, 154, "a tolerance is for host tensors") \
    X(ERR_TOLERANCE_OTHER,  155, "only the built-in backends take a tolerance") \
    X(ERR_TOLERANCE_MERGE,  156, "attn_merge takes no tolerance") \
    X(ERR_BLOCKS,           157, "q8_0 and q4_0 need dims and strides that are multiples of 32") \
    X(ERR_PLANES,           158, "int16 k and v need head_dim, v_dim and strides that are multiples of 16") \
    X(ERR_QUANTILE,         159, "quantile must be from 0 to below 1") \
    X(ERR_NO_GPU_COMPILER,  160, "attn_hip.c was not built with a GPU compiler") \
    X(ERR_NO_DEVICE,        161, "no GPU is present") \
    X(ERR_GPU_ARCH,         162, "attn_hip.c was not built for the GPU found") \
    X(ERR_GPU_MEMORY,       163, "out of device memory") \
    X(ERR_GPU_POINTER,      164, "a pointer is memory of the wrong kind, or of another device") \
    X(ERR_GPU_WORKSPACE,    165, "the workspace is not device memory") \
    X(ERR_GPU_STICKY,       166, "a kernel, of this call or an earlier one, has failed: the GPU takes no more") \
    X(ERR_GPU,              167, "the GPU runtime reports an error: see the message buffer") \
    X(ERR_MPI_COMM,         180, "MPI is not running, or the communicator is MPI_COMM_NULL or joins two groups") \
    X(ERR_MPI_SPLIT,        181, "attn_mpi is NULL, or its split is neither ATTN_MPI_RANGES nor ATTN_MPI_ZIGZAG") \
    X(ERR_MPI_METHOD,       182, "the method must be ring or ulysses, and ring for decode") \
    X(ERR_MPI_CUT,          183, "q_cut and k_cut must begin with 0, never fall and end with all tokens of q and k") \
    X(ERR_MPI_DIFFERS,      184, "the ranks give different descriptions") \
    X(ERR_MPI_MASK,         185, "over MPI masks follow from positions: no bias, mask or dropout") \
    X(ERR_MPI_CACHE,        186, "over MPI there are no cache slots, pages, append or rotary embedding") \
    X(ERR_MPI_DEVICE,       187, "over MPI the lengths of device tensors must be host memory: ATTN_SEQ_HOST") \
    X(ERR_MPI_HEADS,        188, "ulysses needs heads and kv_heads that are multiples of the ranks") \
    X(ERR_MPI_WORKSPACE,    189, "over MPI memory comes through alloc: a workspace is not taken") \
    X(ERR_MPI,              190, "MPI reports an error") \
    X(ERR_MPI_TOLERANCE,    191, "over MPI a tolerance is not taken") \
    X(ERR_MPI_PLANES,       192, "over MPI int16 k and v are not taken") \
    X(ERR_MPI_MESSAGES,     193, "messages must be ATTN_MPI_ASK, ATTN_MPI_STAGED or ATTN_MPI_DIRECT")

typedef enum attn_status {
#define ATTN__X(name, number, text) ATTN_##name = number,
    ATTN_STATUS_LIST(ATTN__X)
#undef ATTN__X
    ATTN__STATUS_MAX = 0x7fffffff
} attn_status;
/* clang-format on */

/* Rows that join others of the same queries, over other keys; or what the rows so joined become. A
 * row of state is [max, sum, x[v_dim]]: the largest lse, the sum of exp(lse - max), and that of
 * exp(lse - max) o. Where the sum is 0 the row has no keys yet, and max counts for nothing. */
typedef struct attn_joining {
    double *state; /* [batch][tokens][heads][2 + v_dim] */
    int64_t tokens, heads, v_dim;
    attn_out o;                          /* every stride set */
    float *lse;                          /* [batches][heads][rows] */
    const float *sink;                   /* of a finish: NULL or [heads], a part without a value */
    int64_t batch, batches, token, rows; /* o and lse are of `rows` tokens from `token` on */
} attn_joining;
/* What attn_mpi_* ask of a backend for device tensors, on where's device, in the order of where's
 * stream.
 *   get, put     device memory; put waits for what uses it
 *   copy         bytes between host and device, done when it returns; from NULL: zeros on the
 *                device, when the stream comes to it; 0 bytes: only waits for the stream
 *   join         a part's o (f32 or f64) and lse join the state; an lse of -infinity: o is not read
 *   finish       writes o and lse (which may be NULL) of the state and the sink */
typedef struct attn_device_calls {
    const char *runtime; /* "rocm" or "cuda": whose pointers they are, for MPI */
    attn_status (*get)(void *user, const attn_desc *where, void **p, size_t bytes);
    void (*put)(void *user, const attn_desc *where, void *p);
    attn_status (*copy)(void *user, const attn_desc *where, void *to, const void *from,
        size_t bytes, int32_t to_host);
    attn_status (*join)(void *user, const attn_desc *where, const attn_joining *j);
    attn_status (*finish)(void *user, const attn_desc *where, const attn_joining *j);
} attn_device_calls;

/* A backend. To add one, fill this in and call attn_register; examples/backend.c is one in a file.
 * Order of calls: plan, then, when it returned ATTN_OK and the call is a real one, run with that
 * same plan.
 *   plan  pure, touches no tensor: returns ATTN_OK and fills kernel, isa, workspace_size, threads,
 *         splits; or returns a status and writes the reason, one short phrase, to plan->why. g is
 *         NULL for a forward call.
 *   run   computes. d->workspace has plan->workspace_size bytes, 64-byte aligned; with
 *         ATTN_DEVICE it is what the caller gave, or NULL.
 *   convert   attn_convert for device tensors, everything checked, strides set. NULL: the backend
 *             has none. With ATTN_ACCUMULATE in where's flags dst is added to (attn_mpi_* ask so).
 *   shutdown  frees what run keeps for the next call; called by attn_shutdown. NULL: it keeps
 *             nothing.
 *   merge     attn_merge for device tensors, everything checked; the parts are as the caller
 *             described them, strides of 0 and all. NULL: the backend has none.
 * plan and run get the description resolved: valid, no default left (kv_heads, v_dim, scale and
 * every stride are set, ATTN_BROADCAST is 0, offset 0 under ATTN_TOP_LEFT, ATTN_SCALE set). */
typedef struct attn_backend {
    const char *name;
    uint64_t abi; /* ATTN_ABI */
    attn_status (*plan)(void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan);
    attn_status (*run)(void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan);
    void *user;
    attn_status (*convert)(void *user, const int64_t shape[4], const attn_in *src,
        const attn_out *dst, const attn_desc *where);
    void (*shutdown)(void *user);
    attn_status (*merge)(
        void *user, const attn_desc *d, int64_t parts, const attn_in *o, const float *const *lse);
    const attn_device_calls *device; /* NULL: no device tensors over MPI */
} attn_backend;
#define ATTN_ABI \
    (UINT64_C(1) * sizeof(attn_plan) / 8 << 48 | UINT64_C(1) * ATTN_VERSION << 32 | \
        sizeof(attn_desc) << 16 | sizeof(attn_grad) << 4 | sizeof(attn_backend) / sizeof(void *))

typedef struct attn_timing_opts {
    /* untimed calls, at least one: the very first call of all is reported as `first` */
    int64_t warmup;
    int64_t iterations;          /* timed calls at least; 0: as min_seconds asks */
    double min_seconds;          /* go on until this much time was measured */
    double flops, bytes, tokens; /* of one call, for the rates */
} attn_timing_opts;
typedef struct attn_timing { /* seconds */
    int64_t n;
    double first, mean, stddev, min, max, p50, p95, p99;
    double ops_per_s, tokens_per_s, gflops, gbytes_per_s; /* by the median */
} attn_timing;

/* o, and lse if not NULL, from q, k, v. Refused calls return a status and leave
 * the outputs untouched. */
ATTN_API attn_status attn_forward(const attn_desc *d);
/* The gradients of a forward call: reads d->o and d->lse as that call left them. */
ATTN_API attn_status attn_backward(const attn_desc *d, const attn_grad *g);
/* The same calls, made together by threads that the host has already: `threads` of them, each once
 * with the same description and team, at the same time or one after the other. The first to come
 * leads, at once: the inputs are complete before. Others compute what is left to compute, whoever
 * comes late finds it done. When a call returns, the outputs are complete and the status is that of
 * all. Before a team's next call all of its threads have returned. Threads that wait spin, and on
 * POSIX systems yield. The message is in the buffer of the first to come alone. d->pool is not asked:
 * how large a workspace is needed says a query without one, with as many d->threads. */
typedef struct attn_team {
    int32_t threads; /* set once, all else 0 */
    attn_status status;
    void *arg;
    void (*task)(void *arg, int64_t i);
    intptr_t n, first, word, ran, came, went, over;
} attn_team;
ATTN_API attn_status attn_forward_team(const attn_desc *d, attn_team *team);
ATTN_API attn_status attn_backward_team(const attn_desc *d, const attn_grad *g, attn_team *team);
/* What a call with this description would run, the workspace it needs, and why every other
 * backend declines. Touches no tensor; data pointers may be NULL, but an optional one that the call
 * will have (dbias, append's k and v, scales) is to be there. g NULL: forward. Where the call would
 * be refused, the plan is empty, of texts of "" and numbers of 0; where all backends declined it,
 * but for `why`. What a call alone can know is left to it: whether the workspace suffices or
 * overlaps, and tensors that are NULL, that overlap or pass the end of the address space. */
ATTN_API attn_status attn_query(const attn_desc *d, const attn_grad *g, attn_plan *plan);
/* The attention over the union of key sets from the parts' o and lse: d gives shape, o, lse,
 * sink (added once; the parts are computed without it). lse[p] is shaped like d->lse. 0 parts is
 * an empty row; a part whose lse are -infinity has an o, too, which counts for nothing. d's o and lse
 * are none of the parts': who joins parts as they come has two of each in turn. d's backend is not
 * asked, nor used_q: rows behind it are joined as the others. With ATTN_DEVICE every tensor is
 * device memory, the arrays o and lse themselves are not; it runs on d's device and stream. */
ATTN_API attn_status attn_merge(
    const attn_desc *d, int64_t parts, const attn_in *o, const float *const *lse);
/* dst = src for a tensor of shape {batch, tokens, heads, dim}, any strides and layouts, f32,
 * f16, bf16, f64, rounding to nearest even; in host memory q8_0 and q4_0 too, to the bytes that
 * ggml writes; int8, int16 and fp8, whose scales lie apart, are not taken. where: threads, pool (may
 * be NULL); with ATTN_DEVICE in its flags src and dst are device memory, and its device and stream
 * count. [B,S,H*D] is BSHD; a packed QKV tensor is three views, one of each of its parts. */
ATTN_API attn_status attn_convert(
    const int64_t shape[4], attn_in src, attn_out dst, const attn_desc *where);

/* q, k and v of a description as views of one buffer, what a product with one weight matrix leaves:
 * sets their data, dtype and strides, and kv_len, cu_k and total_k to q_len, cu_q and total_q. Set
 * batch, q_len, the heads, the dims and cu_q, total_q before. Of each token the buffer has
 *   ATTN_QKV_3HD   all heads of q, then those of k, then those of v: [heads + kv_heads][head_dim],
 *                  [kv_heads][v_dim]
 *   ATTN_QKV_H3D   [heads][3][head_dim]: q, k and v of a head side by side
 * attn_packed_dqkv does the same for dq, dk and dv, views of one buffer of that layout. */
enum { ATTN_QKV_3HD = 0, ATTN_QKV_H3D = 1 };
ATTN_API attn_status attn_packed_qkv(attn_desc *d, const void *qkv, int32_t dtype, int32_t layout);
ATTN_API attn_status attn_packed_dqkv(
    const attn_desc *d, attn_grad *g, void *dqkv, int32_t dtype, int32_t layout);

/* Copies *b and its name. For good: no call takes one back, and 16 are the most. */
ATTN_API attn_status attn_register(const attn_backend *b);
/* in order of registration; NULL past the last */
ATTN_API const attn_backend *attn_backend_at(int32_t i);
ATTN_API const attn_backend *attn_backend_find(const char *name); /* NULL: unknown */
/* The backend of calls that name none, unless ATTN_BACKEND in the environment says one; NULL or
 * "auto": automatic again. What it declines is refused, as where it is named. */
ATTN_API attn_status attn_set_default(const char *name);
/* For backends: for (i = 0; i < n; i++) task(arg, i); on the threads that *where asks for, which
 * must be there. */
ATTN_API attn_status attn_parallel(
    const attn_desc *where, void (*task)(void *arg, int64_t i), void *arg, int64_t n);

ATTN_API const char *attn_status_text(attn_status s); /* never NULL */
ATTN_API const char *attn_status_name(attn_status s); /* "ATTN_ERR_HEADS" */
/* "avx512", "avx2", "neon", "simd128", "portable"; "none" if ATTN_ISA asks in vain */
ATTN_API const char *attn_isa(void);
/* threads that 0 stands for: ATTN_THREADS in the environment, or OpenMP's, or the processors that
 * the first call might run on */
ATTN_API int32_t attn_threads(void);
/* joins and frees the lazily started threads, and what backends keep; usable again after. Waits for
 * a call that has the threads; within a task of theirs it does nothing */
ATTN_API void attn_shutdown(void);
#ifdef ATTN_MPI
/* Attention over the ranks of an MPI communicator: sequences that one machine cannot hold, or not
 * compute in time. The description is that of the whole call, the same on every rank: lengths,
 * heads, masks, and the arrays of attn_seq. Of q, k, v, o, lse and the gradients each rank holds
 * its own tokens alone, dense or in strides of its own; where it has none, they may be NULL. Tokens
 * are those of each sequence's buffer, or of the packed buffer where there is one; packed sequences
 * may cross ranks.
 *   ATTN_MPI_RANGES  rank r has the tokens [cut[r], cut[r + 1])
 *   ATTN_MPI_ZIGZAG  rank r has [cut[r], cut[r + 1]) and behind it [cut[n - 1 - r], cut[n - r]),
 *                    n = 2 * ranks: causal work is then even
 *   "ring"           keys and values go from rank to rank, as far as a rank follows that sees one
 *                    of them; each rank works on one part while the next arrives. In the backward
 *                    their gradients follow them in f32, and at last go home
 *   "ulysses"        all tokens of heads / ranks heads to each rank, and back: heads and kv_heads
 *                    must be multiples of the ranks
 * Taken: every dtype and layout, grouped heads, causal, windows, offsets, ALiBi, softcap, sinks,
 * packed and padded sequences. Refused: bias, mask, dropout, slots, pages, append, and a
 * workspace: memory, O(tokens / ranks), comes through alloc.
 * With ATTN_DEVICE on all ranks each rank's tensors lie in the memory of its GPU, the arrays of
 * attn_seq in host memory (ATTN_SEQ_HOST). Keys, gradients and what is joined stay there too, in
 * memory of the backend's; alloc gives what lies in host memory. The calls return when they are
 * done. Messages:
 *   ATTN_MPI_ASK     from device memory where MPI says that it can, else as ATTN_MPI_STAGED. An
 *                    Open MPI is asked by MPIX_Query_rocm_support and MPIX_Query_cuda_support, an
 *                    MPICH by MPIX_GPU_query_support; another is taken for one that cannot
 *   ATTN_MPI_STAGED  through host memory, which comes through alloc
 *   ATTN_MPI_DIRECT  from device memory
 * What a decode sends, queries and joined rows, are few: they go through host memory.
 * All ranks of the communicator make the call. A wrong argument on one of them is that status on
 * all, and descriptions that differ are ATTN_ERR_MPI_DIFFERS on all; outputs stay untouched, and
 * the message names the rank or the field. The bits of a result depend on the split and the number
 * of ranks, never on time. Ring and decode join parts by an lse in f32: rows whose scores lie beyond
 * +-3.4e38 come out wrong. Ranks and threads: MPI_THREAD_FUNNELED is enough, from the thread that
 * calls; the messages have tags from ATTN_MPI_TAG on. */
enum { ATTN_MPI_RANGES = 0, ATTN_MPI_ZIGZAG = 1 };
enum { ATTN_MPI_ASK = 0, ATTN_MPI_STAGED = 1, ATTN_MPI_DIRECT = 2 };
#ifndef ATTN_MPI_TAG
#define ATTN_MPI_TAG 24100 /* to ATTN_MPI_TAG + 3 */
#endif
#ifndef ATTN_MPI_PIECE
#define ATTN_MPI_PIECE 1073741824 /* bytes of a message at most: MPI counts in int */
#endif
/* Where a call's time went on this rank, in seconds, and the bytes that it sent to others. With
 * device tensors `compute` is what the rank waited for its GPU, which works on through `wait`. */
typedef struct attn_mpi_times {
    double total, compute, wait;
    int64_t sent;
    int32_t messages; /* ATTN_MPI_STAGED or ATTN_MPI_DIRECT; of host tensors ATTN_MPI_DIRECT */
} attn_mpi_times;
typedef struct attn_mpi {
    int32_t split;
    const char *method;           /* NULL: "ring" */
    const int64_t *q_cut, *k_cut; /* [ranks + 1], zigzag [2 * ranks + 1]: from 0 to all tokens */
    attn_mpi_times *times;        /* optional output */
    int32_t messages;             /* of device tensors: ATTN_MPI_ASK, .. */
} attn_mpi;
/* cut: `tokens` in even parts, untouched where there are no ranks. How many of them `rank` has. */
ATTN_API void attn_mpi_cut(int64_t tokens, int32_t split, int ranks, int64_t *cut);
ATTN_API int64_t attn_mpi_tokens(const int64_t *cut, int32_t split, int ranks, int rank);
ATTN_API attn_status attn_mpi_forward(const attn_desc *d, const attn_mpi *m, MPI_Comm comm);
/* dk and dv of the rank's own keys, dq of its queries; dsink, summed over all ranks, on each: as
 * exact as attn_backward's of at least 1024 rows at a time. */
ATTN_API attn_status attn_mpi_backward(
    const attn_desc *d, const attn_grad *g, const attn_mpi *m, MPI_Comm comm);
/* Forward for few queries and a cache that is spread over the ranks by k_cut (q_cut is not read):
 * q is that of rank 0, all queries; o and lse are complete on every rank. */
ATTN_API attn_status attn_mpi_decode(const attn_desc *d, const attn_mpi *m, MPI_Comm comm);
#endif
#ifndef ATTN_NO_TIMING
ATTN_API attn_status attn_time(
    void (*fn)(void *), void *user, const attn_timing_opts *opts, attn_timing *t);
ATTN_API double attn_seconds(void); /* monotonic clock */
/* measured now: f32 FMA, in which the others are computed, too; bf16: or its native dot, the larger;
 * 0 of a dtype that is none. threads: 0 or less: all */
ATTN_API double attn_peak_gflops(int32_t dtype, int32_t threads);
/* measured now: reading a buffer of so many bytes, 512 for each thread at least; 0 where there is no
 * memory for it */
ATTN_API double attn_bandwidth_gbytes(size_t bytes, int32_t threads);
#endif
/* Defined by attn_hip.c only. */
extern attn_status attn_hip_register(void);
/* This thread's last call of "hip", in seconds; any pointer may be NULL. kernel: between events
 * around the kernels; total: the call with its copies; device_bytes: GPU memory that it took.
 * Device tensors: waits for the call, and measures from its first use in the thread on; to be asked
 * before the call's stream is destroyed, and not while it is captured. */
extern attn_status attn_hip_last_times(
    double *kernel_seconds, double *total_seconds, size_t *device_bytes);

#ifdef __cplusplus
}
#endif
#endif /* ATTN_H */

/* ===============================================================================================
   IMPLEMENTATION. The guard keeps it out of the passes in which the header includes itself for
   >>kernel, and of those that a HIP compiler makes over the file for each chip. */
#if defined(ATTN_IMPLEMENTATION) && !defined(ATTN__KERNEL) && !defined(ATTN__IMPLEMENTED) && \
    !defined(__HIP_DEVICE_COMPILE__)
#define ATTN__IMPLEMENTED
#if defined(__clang__) && defined(__FAST_MATH__) && (defined(__aarch64__) || defined(__wasm__))
#error \
    "attn.h: clang has no pragma against -ffast-math (-Ofast) there: compile this file without it"
#endif
#ifndef ATTN_HEADER
#define ATTN_HEADER "attn.h" /* how this file includes itself: __FILE__ does not work there */
#endif

/* ============================================================================ >>platform ==== */
/* GNU: gcc and clang, clang-cl too, with attributes, inline assembly, vectors and atomics. Any
 * other compiler, and these with ATTN_NO_EXTENSIONS, gets plain C99: one thread, single floats. */
#if (defined(__GNUC__) || defined(__clang__)) && !defined(ATTN_NO_EXTENSIONS)
#define ATTN__GNU 1
#else
#define ATTN__GNU 0
#endif
/* Neither: a machine without an operating system. */
#if defined(_WIN32)
#define ATTN__WINDOWS 1
#define ATTN__POSIX 0
#else
#define ATTN__WINDOWS 0
#if defined(__unix__) || defined(__APPLE__) || defined(__HAIKU__) || defined(__wasi__)
#define ATTN__POSIX 1
#else
#define ATTN__POSIX 0
#endif
#endif
/* A small machine, without vectors, and a compiler that is asked for little code: it has no kernels
 * for few rows, no gangs, no splits side by side. */
#if !defined(ATTN__SMALL) /* a test has it elsewhere */
#if defined(__OPTIMIZE_SIZE__) && ATTN__GNU && !ATTN__POSIX && !ATTN__WINDOWS
#define ATTN__SMALL 1
#else
#define ATTN__SMALL 0
#endif
#endif
#if defined(__wasm__) && !defined(_REENTRANT) /* no thread beside, and no data of its own */
#define ATTN__THREAD_LOCAL
#if !defined(ATTN_NO_THREADS)
#define ATTN_NO_THREADS
#endif
#else
#define ATTN__THREAD_LOCAL __thread
#endif
/* Threads at all, the caller's pool too; those of the library. */
#define ATTN__PARALLEL (ATTN__GNU && (ATTN__POSIX || ATTN__WINDOWS))
#if ATTN__PARALLEL && !defined(ATTN_NO_THREADS) && !defined(_OPENMP)
#define ATTN__POOL 1
#else
#define ATTN__POOL 0
#endif

#include <stdlib.h>
#include <string.h>
#include <time.h>
#if ATTN__POSIX
#include <unistd.h>
#endif
#if ATTN__PARALLEL && ATTN__POSIX && !defined(ATTN_NO_THREADS)
#include <pthread.h>
#include <signal.h>
#endif
#if ATTN__PARALLEL && !defined(ATTN_NO_THREADS) && defined(_OPENMP)
#include <omp.h>
#endif
#if defined(ATTN_ONLY_PORTABLE) + defined(ATTN_ONLY_AVX2) + defined(ATTN_ONLY_AVX512) > 1
#error "one of ATTN_ONLY_PORTABLE, ATTN_ONLY_AVX2 and ATTN_ONLY_AVX512 is the only one"
#endif
#if (defined(ATTN_ONLY_AVX2) && defined(ATTN_NO_AVX2)) || \
    (defined(ATTN_ONLY_AVX512) && defined(ATTN_NO_AVX512))
#error "the ISA that ATTN_ONLY_ names is left out by ATTN_NO_"
#endif
/* the caller may have said so, too */
#if defined(ATTN_ONLY_PORTABLE) || defined(ATTN_ONLY_AVX512)
#undef ATTN_NO_AVX2
#define ATTN_NO_AVX2
#endif
#if defined(ATTN_ONLY_PORTABLE) || defined(ATTN_ONLY_AVX2)
#undef ATTN_NO_AVX512
#define ATTN_NO_AVX512
#endif
#if defined(ATTN_ONLY_PORTABLE)
#undef ATTN_NO_NEON
#undef ATTN_NO_SIMD128
#define ATTN_NO_NEON
#define ATTN_NO_SIMD128
#endif
/* gcc for Windows spills vectors of 32 and 64 bytes to a stack that is aligned to 16 (its bug
 * 54412) by instructions that fault there: harmless only where the assembler writes others. */
#if ATTN__WINDOWS && !defined(__clang__) && !defined(ATTN_UNALIGNED_MOVES)
#define ATTN__WIDE_SPILLS 0
#else
#define ATTN__WIDE_SPILLS 1
#endif
#if ATTN__GNU && defined(__x86_64__) && ATTN__WIDE_SPILLS && \
    !(defined(ATTN_NO_AVX2) && defined(ATTN_NO_AVX512))
#define ATTN__X86 1
#else
#define ATTN__X86 0
#endif
#if defined(ATTN_ONLY_AVX2) || defined(ATTN_ONLY_AVX512)
#define ATTN__PORTABLE 0
#if !ATTN__X86
#error \
    "ATTN_ONLY_AVX2 and ATTN_ONLY_AVX512 are for x86-64 and GNU extensions, and not for gcc on Windows"
#endif
#else
#define ATTN__PORTABLE 1
#endif
#if ATTN__X86
#include <cpuid.h>
#include <immintrin.h>
#endif
#if ATTN__GNU && defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__) && \
    !defined(ATTN_NO_NEON)
#define ATTN__NEON 1
#include <arm_neon.h>
#else
#define ATTN__NEON 0
#endif
#if ATTN__GNU && defined(__wasm_simd128__) && !defined(ATTN_NO_SIMD128)
#define ATTN__SIMD128 1
#include <wasm_simd128.h>
#else
#define ATTN__SIMD128 0
#endif
#if ATTN__X86 && !defined(ATTN_NO_AVX2)
#define ATTN__AVX2 1
#else
#define ATTN__AVX2 0
#endif
#if ATTN__X86 && !defined(ATTN_NO_AVX512)
#define ATTN__AVX512 1
#else
#define ATTN__AVX512 0
#endif
#if defined(ATTN_NO_MALLOC)
#undef ATTN_MALLOC
#undef ATTN_FREE
#define ATTN_MALLOC(size) ((void)(size), (void *)NULL)
#define ATTN_FREE(p) (void)(p)
#define ATTN__NO_MEMORY ATTN_ERR_NO_MALLOC
#else
#if defined(ATTN_MALLOC) != defined(ATTN_FREE)
#error "attn.h: ATTN_MALLOC and ATTN_FREE are defined together, or neither is"
#endif
#ifndef ATTN_MALLOC
#define ATTN_MALLOC(size) malloc(size)
#define ATTN_FREE(p) free(p)
#endif
#define ATTN__NO_MEMORY ATTN_ERR_MEMORY
#endif
/* What a build leaves out is asked for in conditions: no code is left of what they make dead. */
#if defined(ATTN_NO_BACKWARD)
#define ATTN__BACKWARD 0
#else
#define ATTN__BACKWARD 1
#endif
#if defined(ATTN_NO_CONVERT)
#define ATTN__CONVERT 0
#else
#define ATTN__CONVERT 1
#endif
#if defined(ATTN_NO_ADAPTIVE) || ATTN__SMALL
#define ATTN__ADAPTIVE 0
#else
#define ATTN__ADAPTIVE 1
#endif
#if ATTN__ADAPTIVE && !defined(ATTN_ONLY_F32)
#define ATTN__DECODE 1 /* few rows against int16, with a tolerance */
#else
#define ATTN__DECODE 0
#endif
#if defined(ATTN_ONLY_F32)
#define ATTN__ONLY_F32 1
#else
#define ATTN__ONLY_F32 0
#endif
#if defined(CLOCK_MONOTONIC)
typedef struct timespec attn__timespec;
#ifdef __wasi__ /* strict ISO C hides the function alone */
extern int clock_gettime(const struct __clockid *clock, attn__timespec *t);
#endif
#elif ATTN__POSIX /* strict ISO C hides it */
#define CLOCK_MONOTONIC 1
typedef struct attn__timespec {
    time_t tv_sec;
    long tv_nsec;
} attn__timespec;
extern int clock_gettime(int clock, attn__timespec *t);
#endif

/* What a strict standard, or the lack of _GNU_SOURCE, hides, under names of our own. */
#define ATTN__SYMBOL_(prefix, name) #prefix #name
#define ATTN__SYMBOL(prefix, name) ATTN__SYMBOL_(prefix, name)
#if ATTN__POOL && ATTN__POSIX
#define ATTN__LIBC(name) __asm__(ATTN__SYMBOL(__USER_LABEL_PREFIX__, name))
#ifdef __cplusplus
extern "C" {
#endif
#ifdef __linux__
extern int attn__libc_affinity(int pid, size_t bytes, void *mask) ATTN__LIBC(sched_getaffinity);
#endif
extern int attn__libc_sigfillset(void *set) ATTN__LIBC(sigfillset);
extern int attn__libc_sigdelset(void *set, int signal) ATTN__LIBC(sigdelset);
extern int attn__libc_sigmask(int how, const void *set, void *old) ATTN__LIBC(pthread_sigmask);
#ifdef __cplusplus
}
#endif
#if defined(SIG_SETMASK)
#define ATTN__SIG_SETMASK SIG_SETMASK
#elif defined(__linux__) && !defined(__mips__)
#define ATTN__SIG_SETMASK 2
#else
#define ATTN__SIG_SETMASK 3
#endif
#endif

/* Windows 7 or later, without windows.h, whose macros (near, far, small, ..) would reach all that
 * follows this file. A lock and a condition variable are a pointer each, 0 at first. */
#if ATTN__WINDOWS && ATTN__GNU
#if defined(__i386__) /* stdcall; a stack that its caller aligned to 4 bytes */
#define ATTN__WIN_CALL __attribute__((stdcall))
#define ATTN__WIN_ENTRY __attribute__((stdcall, force_align_arg_pointer))
#define ATTN__WIN(name, bytes) __asm__("_" #name "@" #bytes)
#else
#define ATTN__WIN_CALL
#define ATTN__WIN_ENTRY
#define ATTN__WIN(name, bytes) __asm__(#name)
#endif
#ifdef __cplusplus
extern "C" {
#endif
/* clang-format off */
extern int ATTN__WIN_CALL attn__win_counter(int64_t *now) ATTN__WIN(QueryPerformanceCounter, 4);
extern int ATTN__WIN_CALL attn__win_frequency(int64_t *each)
    ATTN__WIN(QueryPerformanceFrequency, 4);
extern int ATTN__WIN_CALL attn__win_memory(uint64_t status[8]) ATTN__WIN(GlobalMemoryStatusEx, 4);
#if ATTN__POOL
extern void *ATTN__WIN_CALL attn__win_self(void) ATTN__WIN(GetCurrentProcess, 0);
extern int ATTN__WIN_CALL attn__win_affinity(void *process, uintptr_t *mine, uintptr_t *all)
    ATTN__WIN(GetProcessAffinityMask, 12);
extern int ATTN__WIN_CALL attn__win_groups(void *process, uint16_t *count, uint16_t *groups)
    ATTN__WIN(GetProcessGroupAffinity, 12);
extern uint32_t ATTN__WIN_CALL attn__win_cpus(uint16_t group) ATTN__WIN(GetActiveProcessorCount, 4);
extern void ATTN__WIN_CALL attn__win_lock(void **lock) ATTN__WIN(AcquireSRWLockExclusive, 4);
extern unsigned char ATTN__WIN_CALL attn__win_try_lock(void **lock)
    ATTN__WIN(TryAcquireSRWLockExclusive, 4);
extern void ATTN__WIN_CALL attn__win_unlock(void **lock) ATTN__WIN(ReleaseSRWLockExclusive, 4);
extern int ATTN__WIN_CALL attn__win_sleep(void **signal, void **lock, uint32_t ms, uint32_t flags)
    ATTN__WIN(SleepConditionVariableSRW, 16);
extern void ATTN__WIN_CALL attn__win_wake_all(void **signal) ATTN__WIN(WakeAllConditionVariable, 4);
extern void *ATTN__WIN_CALL attn__win_thread(void *security, size_t stack,
    uint32_t(ATTN__WIN_CALL *run)(void *), void *arg, uint32_t flags, uint32_t *id)
    ATTN__WIN(CreateThread, 24);
extern uint32_t ATTN__WIN_CALL attn__win_wait(void *thread, uint32_t ms)
    ATTN__WIN(WaitForSingleObject, 8);
extern int ATTN__WIN_CALL attn__win_close(void *thread) ATTN__WIN(CloseHandle, 4);
extern int ATTN__WIN_CALL attn__win_module(uint32_t flags, const char *name, void **module)
    ATTN__WIN(GetModuleHandleExA, 12);
extern int ATTN__WIN_CALL attn__win_free(void *module) ATTN__WIN(FreeLibrary, 4);
extern void ATTN__WIN_CALL attn__win_exit(void *module, uint32_t code)
    ATTN__WIN(FreeLibraryAndExitThread, 8);
#endif
/* clang-format on */
#ifdef __cplusplus
}
#endif
#endif

/* -Ofast and -ffast-math fold NaN tests, reassociate sums and contract products: keep them out
 * of everything below. Explicit fused multiply-adds are operations of their own. */
#if defined(__clang__) && ATTN__GNU
#pragma clang diagnostic push /* a target without that pragma only warns */
#pragma clang diagnostic ignored "-Wignored-pragmas"
#pragma float_control(precise, on, push)
#pragma clang diagnostic pop
#pragma clang fp contract(off)
#elif ATTN__GNU
#pragma GCC push_options
/* at -O0 27 times slower; clang has no such pragma */
#if !defined(__OPTIMIZE__) && !defined(ATTN_NO_OPTIMIZE)
#pragma GCC optimize("O2")
#endif
#pragma GCC optimize("no-fast-math", "no-finite-math-only", "fp-contract=off")
#endif
#if defined(__GNUC__) || defined(__clang__)
#pragma GCC diagnostic push
#if !ATTN__GNU /* there are no attributes to say so */
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#if defined(__clang__)
/* types that are compared with themselves, where macros were expanded before */
#pragma GCC diagnostic ignored "-Wtautological-compare"
#else /* gcc 12's own avx512fintrin.h has undefined operands */
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#endif

/* The functions between begin and end are compiled for the instruction set that ATTN__TARGET_<isa>
 * names, whatever the compiler was told. */
#if ATTN__GNU
#define ATTN__PRAGMA(x) _Pragma(#x)
#else
#define ATTN__PRAGMA(x)
#endif
#if defined(__clang__)
#define ATTN__REGION_(target_of) \
    ATTN__PRAGMA(clang attribute push(__attribute__((target(target_of))), apply_to = function))
#define ATTN__REGION_END ATTN__PRAGMA(clang attribute pop)
#else
#define ATTN__REGION_(target_of) ATTN__PRAGMA(GCC push_options) ATTN__PRAGMA(GCC target(target_of))
#define ATTN__REGION_END ATTN__PRAGMA(GCC pop_options)
#endif
#define ATTN__REGION(isa) ATTN__REGION_(ATTN__TARGET_##isa)

/* Under -ffp-contract=fast clang fuses whatever the pragma says: outside the regions of an ISA
 * it gets nothing to fuse with. */
#if ATTN__GNU && defined(__clang__) && defined(__x86_64__)
#define ATTN__TARGET_plain "no-fma,no-fma4,no-avx512f"
#define ATTN__PLAIN_BEGIN ATTN__REGION(plain)
#define ATTN__PLAIN_END ATTN__REGION_END
#else
#define ATTN__PLAIN_BEGIN
#define ATTN__PLAIN_END
#endif
ATTN__PLAIN_BEGIN

/* Functions that must be inlined and loops that must be unrolled make a debugger's code ten times as
 * long; with the checks of a sanitizer they take minutes to compile. There the compiler decides. */
#if defined(__SANITIZE_ADDRESS__) || (defined(ATTN_NO_OPTIMIZE) && !defined(__OPTIMIZE__))
#define ATTN__FORCED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || \
    __has_feature(undefined_behavior_sanitizer)
#define ATTN__FORCED 0
#endif
#endif
#ifndef ATTN__FORCED
#define ATTN__FORCED 1
#endif

/* Every extension of the compilers, by a name of its own; each has a form in plain C. */
#define ATTN__ALIGN 64
#if ATTN__GNU
#define ATTN__ALWAYS static inline __attribute__((always_inline, unused))
#if ATTN__SMALL || !ATTN__FORCED
#define ATTN__INLINE static inline __attribute__((unused))
#else
#define ATTN__INLINE ATTN__ALWAYS
#endif
#define ATTN__NOINLINE static __attribute__((noinline, unused))
#define ATTN__UNUSED __attribute__((unused))
#define ATTN__VECTOR(bytes) __attribute__((vector_size(bytes)))
#define ATTN__PREFETCH(p, level) __builtin_prefetch(p, 0, level)
#define ATTN__OPAQUE(p) __asm__("" : "+r"(p)) /* what p is now, the compiler does not know */
#define ATTN__LOAD(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define ATTN__STORE(p, x) __atomic_store_n(p, x, __ATOMIC_RELEASE)
#define ATTN__CLAIM(p) (!__atomic_exchange_n(p, 1, __ATOMIC_ACQUIRE)) /* *p was 0, and is 1 */
#else
#define ATTN__INLINE static inline
#define ATTN__ALWAYS static inline
#define ATTN__NOINLINE static
#define ATTN__UNUSED
#define ATTN__PREFETCH(p, level) (void)(p)
#define ATTN__OPAQUE(p) (void)(p)
#define ATTN__LOAD(p) (*(p))
#define ATTN__STORE(p, x) (void)(*(p) = (x))
#define ATTN__CLAIM(p) (*(p) ? 0 : (*(p) = 1))
#endif
#if ATTN__PARALLEL
#define ATTN__NEXT(p) __atomic_fetch_add(p, 1, __ATOMIC_RELAXED)
#else
#define ATTN__NEXT(p) ((*(p))++)
#endif
#if !ATTN__FORCED
#define ATTN__UNROLL_TILE
#elif defined(__clang__)
#define ATTN__UNROLL_TILE ATTN__PRAGMA(clang loop unroll(full))
#else
#define ATTN__UNROLL_TILE ATTN__PRAGMA(GCC unroll 16)
#endif
#if ATTN__SMALL
#define ATTN__UNROLL
#else
#define ATTN__UNROLL ATTN__UNROLL_TILE
#endif
#if ATTN__GNU && (defined(__x86_64__) || defined(__i386__))
#define ATTN__PAUSE() __builtin_ia32_pause()
#else
#define ATTN__PAUSE() (void)0
#endif

ATTN__INLINE int64_t attn__min(int64_t a, int64_t b) { return a < b ? a : b; }
ATTN__INLINE int64_t attn__max(int64_t a, int64_t b) { return a > b ? a : b; }
ATTN__INLINE int64_t attn__clamp(int64_t x, int64_t lo, int64_t hi) {
    return attn__min(attn__max(x, lo), hi);
}
ATTN__INLINE int64_t attn__ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
ATTN__INLINE int64_t attn__round_up(int64_t a, int64_t b) { return attn__ceil_div(a, b) * b; }
/* *r = a + b, a * b; whether it does not fit. */
#if ATTN__GNU && !ATTN__SMALL
#define attn__add_overflows(a, b, r) __builtin_add_overflow(a, b, r)
#define attn__mul_overflows(a, b, r) __builtin_mul_overflow(a, b, r)
#else
ATTN__NOINLINE int attn__add_overflows(int64_t a, int64_t b, int64_t *r) {
    *r = (int64_t)((uint64_t)a + (uint64_t)b);
    return b < 0 ? a < INT64_MIN - b : a > INT64_MAX - b;
}
ATTN__NOINLINE int attn__mul_overflows(int64_t a, int64_t b, int64_t *r) {
    *r = (int64_t)((uint64_t)a * (uint64_t)b);
    if (a == 0 || b == 0) return 0;
    if (a == -1 || b == -1) return *r == INT64_MIN;
    return *r / b != a || *r % b != 0;
}
#endif
ATTN__INLINE int64_t attn__sat_add(int64_t a, int64_t b) {
    int64_t r;
    return attn__add_overflows(a, b, &r) ? (a < 0 ? INT64_MIN : INT64_MAX) : r;
}

/* Sizes in bytes, none negative: INT64_MAX where a sum or a product passes it. */
ATTN__INLINE int64_t attn__size_mul(int64_t a, int64_t b) {
    int64_t r;
    return attn__mul_overflows(a, b, &r) ? INT64_MAX : r;
}

/* A product whose rounding matters: not to be contracted into a following sum
 * by clang's -ffp-contract=fast. */
#if ATTN__GNU && defined(__clang__) && defined(__x86_64__)
#define ATTN__ROUNDED(x) __asm__("" : "+x"(x))
#elif defined(__clang__) && defined(__aarch64__)
#define ATTN__ROUNDED(x) __asm__("" : "+w"(x))
#else
#define ATTN__ROUNDED(x) (void)(x)
#endif
/* The x87 unit keeps more digits than a float has, and a float in a register with them, whatever
 * the language says. Rounded once more to 24 bits, a sum, product or quotient of two floats is what
 * one rounding gives: 64 >= 2 * 24 + 2. */
#if ATTN__GNU && defined(__i386__) && !defined(__SSE2_MATH__)
#define ATTN__F32(x) __asm__("" : "+m"(x))
#else
#define ATTN__F32(x) (void)(x)
#endif
ATTN__INLINE float attn__product(float a, float b) {
    float p = a * b;
    ATTN__ROUNDED(p);
    return p;
}
ATTN__INLINE double attn__product64(double a, double b) {
    double p = a * b;
    ATTN__ROUNDED(p);
    return p;
}

/* NaN and infinity on integer bits: under -ffast-math a floating-point test may be
 * folded to false. */
ATTN__INLINE uint32_t attn__bits(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
ATTN__INLINE float attn__float(uint32_t u) {
    float x;
    memcpy(&x, &u, 4);
    return x;
}
ATTN__INLINE uint64_t attn__bits64(double x) {
    uint64_t u;
    memcpy(&u, &x, 8);
    return u;
}
ATTN__INLINE double attn__double(uint64_t u) {
    double x;
    memcpy(&x, &u, 8);
    return x;
}
ATTN__INLINE int attn__is_nan(double x) {
    return (attn__bits64(x) & INT64_MAX) > 0x7ff0000000000000u;
}
ATTN__INLINE int attn__is_neg_inf(double x) { return attn__bits64(x) == 0xfff0000000000000u; }
ATTN__INLINE int attn__finite(float x) { return (attn__bits(x) & 0x7f800000u) != 0x7f800000u; }
#define ATTN__NEG_INF attn__float(0xff800000u)
/* To f32; a finite number stays finite. */
ATTN__INLINE float attn__nearest_f32(double x) {
    const double most = 3.4028234663852886e38;
    uint64_t size = attn__bits64(x) & INT64_MAX;
    if (size < 0x7ff0000000000000u && attn__double(size) > most)
        return (float)(x < 0 ? -most : most);
    return (float)x;
}

/* exp, log, tanh and sqrt in f64: no libm, and nothing that a vectoriser replaces by a coarser
 * version. Not inlined: within an ISA's region their products could be contracted. Errors below
 * 2 units in the last place (tested against libm). */
ATTN__NOINLINE double attn__ldexp(double x, int64_t e) {
    for (; e > 1000; e -= 1000) x *= attn__double((uint64_t)(1000 + 1023) << 52);
    for (; e < -1000; e += 1000) x *= attn__double((uint64_t)(-1000 + 1023) << 52);
    return x * attn__double((uint64_t)(e + 1023) << 52);
}

ATTN__NOINLINE double attn__exp(double x) {
    if ((attn__bits64(x) & INT64_MAX) > 0x7ff0000000000000u) return x; /* NaN */
    if (x > 709.8) return attn__double(0x7ff0000000000000u);
    if (x < -745.2) return 0;
    int64_t n = (int64_t)(x * 1.4426950408889634 + (x < 0 ? -0.5 : 0.5));
    double r =
        (x - (double)n * 6.93147180369123816490e-01) - (double)n * 1.90821492927058770002e-10;
    /* Taylor, |r| <= 0.35: 1 / k!, for a division takes as long as ten products */
    static const double inverse[14] = {1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720,
        1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600,
        1.0 / 6227020800.0, 1.0 / 87178291200.0};
    double p = 0;
    for (int k = 13; k >= 0; k--) p = (p + inverse[k]) * r;
    return attn__ldexp(1 + p, n);
}

ATTN__NOINLINE double attn__log(double x) {
    uint64_t u = attn__bits64(x);
    if ((u & INT64_MAX) == 0) return -attn__double(0x7ff0000000000000u);
    if (u >> 63 || u >= 0x7ff0000000000000u)
        return u == 0x7ff0000000000000u ? x : attn__double(0x7ff8000000000000u);
    int64_t e = 0;
    /* subnormal: 2^54 */
    if (u < 0x0010000000000000u) {
        u = attn__bits64(x * 18014398509481984.0);
        e = -54;
    }
    e += (int64_t)(u >> 52) - 1023;
    double m = attn__double((u & 0x000fffffffffffffu) | 0x3ff0000000000000u);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double z = (m - 1) / (m + 1), zz = z * z, p = 0;
    /* log m = 2 atanh z; divided beforehand: every row of o has a logarithm in its lse */
    static const double inverse[11] = {1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13,
        1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
    for (int k = 10; k >= 0; k--) p = (p + inverse[k]) * zz;
    return (double)e * 6.93147180369123816490e-01 +
           (2 * z + (2 * z * p + (double)e * 1.90821492927058770002e-10));
}

ATTN__NOINLINE double attn__tanh(double x) {
    double a = x < 0 ? -x : x, t;
    /* continued fraction */
    if (a < 0.5) {
        double c = 15;
        for (int k = 13; k >= 1; k -= 2) c = k + x * x / c;
        return x / c;
    }
    if ((attn__bits64(x) & INT64_MAX) > 0x7ff0000000000000u) return x;
    t = a > 20 ? 1 : 1 - 2 / (attn__exp(2 * a) + 1);
    return x < 0 ? -t : t;
}

ATTN__NOINLINE double attn__sqrt(double x) {
    if (!(x > 0)) return 0;
#if ATTN__GNU && defined(__SSE2__)
    __asm__("sqrtsd %0, %0" : "+x"(x));
    return x;
#else
    int64_t e = ((int64_t)(attn__bits64(x) >> 52) - 1023) / 2;
    double y = attn__ldexp(1, e);
    /* Newton, from within a factor 2 */
    for (int k = 0; k < 8; k++) y = 0.5 * (y + x / y);
    return y;
#endif
}

/* Rounding to nearest even, no traps; `flush` also sets FTZ and DAZ (denormal p are a 20-fold
 * cliff). Returns the old state. */
ATTN__INLINE uint64_t attn__fp_enter(int flush) {
#if ATTN__GNU && defined(__SSE2__)
    uint32_t old, now = 0x1f80u | (flush ? 0x8040u : 0);
    __asm__ volatile("stmxcsr %0" : "=m"(old));
    __asm__ volatile("ldmxcsr %0" : : "m"(now));
    return old;
#elif ATTN__GNU && defined(__aarch64__)
    uint64_t old, now = flush ? (uint64_t)1 << 24 : 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(old));
    __asm__ volatile("msr fpcr, %0" : : "r"(now));
    return old;
#else
    return (uint64_t)flush;
#endif
}
ATTN__INLINE void attn__fp_leave(uint64_t old) {
#if ATTN__GNU && defined(__SSE2__)
    uint32_t state = (uint32_t)old;
    __asm__ volatile("ldmxcsr %0" : : "m"(state));
#elif ATTN__GNU && defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(old));
#else
    (void)old;
#endif
}

/* The bytes of memory of the machine, as far as the system tells. */
static ATTN__UNUSED int64_t attn__physical_memory(void) {
#if ATTN__WINDOWS && ATTN__GNU
    uint64_t status[8] = {64}; /* its size in bytes; then, in the second, what is asked for */
    return attn__win_memory(status) ? (int64_t)status[1] : INT64_MAX;
#elif ATTN__POSIX
    return (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE);
#else
    return INT64_MAX;
#endif
}

/* Memory through the description's allocator, aligned to 64 bytes. */
static void *attn__get(const attn_alloc *a, size_t size) {
    if (size == 0) size = ATTN__ALIGN;
    if (a) return a->get(a->user, size, ATTN__ALIGN);
    char *raw = size > SIZE_MAX - 2 * ATTN__ALIGN
                    ? NULL
                    : (char *)ATTN_MALLOC(size + ATTN__ALIGN + sizeof(void *));
    if (!raw) return NULL;
    char *p = (char *)(((uintptr_t)raw + sizeof(void *) + ATTN__ALIGN - 1) &
                       ~(uintptr_t)(ATTN__ALIGN - 1));
    memcpy(p - sizeof(void *), &raw, sizeof raw);
    return p;
}
static void attn__put(const attn_alloc *a, void *p, size_t size) {
    if (!p) return;
    if (a) {
        a->put(a->user, p, size ? size : ATTN__ALIGN);
        return;
    }
    void *raw;
    memcpy(&raw, (char *)p - sizeof(void *), sizeof raw);
    ATTN_FREE(raw);
}

/* Text from byte `at` of `to` on, as much as fits; always terminated. Returns where it ends. */
static size_t attn__write(char *to, size_t size, size_t at, const char *text) {
    while (*text && at + 1 < size) to[at++] = *text++;
    if (at < size) to[at] = 0;
    return at;
}
static size_t attn__write_number(char *to, size_t size, size_t at, uint64_t n, int decimals) {
    char digits[32];
    size_t i = sizeof digits;
    digits[--i] = 0;
    for (int k = 0; k <= decimals || n; k++, n /= 10) {
        if (decimals && k == decimals) digits[--i] = '.';
        digits[--i] = (char)('0' + n % 10);
    }
    return attn__write(to, size, at, digits + i);
}
/* Bytes in GiB, two decimals. */
static size_t attn__write_gib(char *to, size_t size, size_t at, double bytes) {
    const double hundredths = bytes / 1073741824.0 * 100 + 0.5;
    uint64_t n = hundredths < 1e18 ? (uint64_t)hundredths : (uint64_t)1000000000 * 1000000000;
    return attn__write(to, size, attn__write_number(to, size, at, n, 2), " GiB");
}

/* ============================================================================== >>status ==== */
ATTN_API const char *attn_status_text(attn_status s) {
    switch ((int)s) {
#define ATTN__X(name, number, text) \
    case ATTN_##name: return text;
        ATTN_STATUS_LIST(ATTN__X)
#undef ATTN__X
        default: return "unknown status";
    }
}
ATTN_API const char *attn_status_name(attn_status s) {
    switch ((int)s) {
#define ATTN__X(name, number, text) \
    case ATTN_##name: return "ATTN_" #name;
        ATTN_STATUS_LIST(ATTN__X)
#undef ATTN__X
        default: return "unknown status";
    }
}

/* =============================================================================== >>dtype ====
   Scalar conversions between f32 and the small floats, on integer bits, to nearest even. A NaN
   stays a (quiet) NaN. */
enum { ATTN__FLOAT, ATTN__CODES, ATTN__BLOCKS, ATTN__MASK };
#define ATTN__LOG2(n) /* of a power of 2 up to 256 */ \
    (((n) > 1) + ((n) > 2) + ((n) > 4) + ((n) > 8) + ((n) > 16) + ((n) > 32) + ((n) > 64) + \
        ((n) > 128))
static const struct {
    int32_t number, bytes, shift, kind; /* of a block: its bytes, and 1 << shift elements */
    float most;                         /* the largest code */
} attn__dtypes[ATTN__DTYPES] = {
#define ATTN__X(name, number, text, bytes, elements, kind, most) \
    {number, bytes, ATTN__LOG2(elements), ATTN__##kind, most},
    ATTN_DTYPE_LIST(ATTN__X)
#undef ATTN__X
};
/* Of a dtype that attn__dtype_known knows: validated before anything else is asked of it. */
ATTN__INLINE int attn__dtype_known(int32_t t) {
    return t >= 0 && t < ATTN__DTYPES && attn__dtypes[t].number == t;
}
/* The bytes of n elements, and of the way to element n: of whole blocks, backwards too. */
ATTN__INLINE int64_t attn__bytes(int32_t t, int64_t n) {
    return (int64_t)((uint64_t)(n >> attn__dtypes[t].shift) * (uint64_t)attn__dtypes[t].bytes);
}
ATTN__INLINE int attn__is_float(int32_t t) { return attn__dtypes[t].kind == ATTN__FLOAT; }
ATTN__INLINE int attn__is_mask(int32_t t) { return attn__dtypes[t].kind == ATTN__MASK; }
/* Codes with their scale among them. */
ATTN__INLINE int attn__is_blocks(int32_t t) { return attn__dtypes[t].kind == ATTN__BLOCKS; }
/* Codes whose scales are an array. */
ATTN__INLINE int attn__is_scaled(int32_t t) { return attn__dtypes[t].kind == ATTN__CODES; }
/* A float of fewer bits than f32 has. */
ATTN__INLINE int attn__is_narrow(int32_t t) { return attn__is_float(t) && attn__bytes(t, 1) < 4; }
/* Byte of the high part of element `at` of int16; the low part lies ATTN_PLANE behind. */
ATTN__INLINE int64_t attn__high(int64_t at) { return at + (at & -(int64_t)ATTN_PLANE); }
/* At a multiple of the largest power of two in the bytes of a block. f64 may begin at a multiple of
 * 4 where pointers have 4 bytes. */
ATTN__INLINE int attn__aligned(const void *data, int32_t t) {
    const uintptr_t bytes = (uintptr_t)attn__dtypes[t].bytes, below = (bytes & (~bytes + 1)) - 1;
    return ((uintptr_t)data & below & (sizeof(void *) - 1)) == 0;
}

/* m / 2^s, ties to even; 1 <= s <= 31 */
ATTN__INLINE uint32_t attn__round_shift(uint32_t m, uint32_t s) {
    return (m + ((1u << (s - 1)) - 1) + ((m >> s) & 1)) >> s;
}
ATTN__INLINE float attn__f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, a = h & 0x7fff;
    if (a > 0x7c00) return attn__float(sign | 0x7fc00000u | a << 13);
    if (a == 0x7c00) return attn__float(sign | 0x7f800000u);
    if (a >= 0x400) return attn__float(sign | ((a << 13) + 0x38000000u));
    /* subnormal: a * 2^-24 */
    return attn__float(sign | attn__bits((float)a * attn__float(0x33800000u)));
}
ATTN__INLINE uint16_t attn__f32_to_f16(float x) {
    uint32_t u = attn__bits(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff, h;
    if (a > 0x7f800000) h = 0x7e00 | (a >> 13 & 0x3ff);
    else if (a >= 0x47800000) h = 0x7c00;
    else if (a >= 0x38800000) h = attn__round_shift(a - 0x38000000u, 13);
    else if (a < 0x33000000) h = 0;
    else h = attn__round_shift((a & 0x7fffff) | 0x800000, 126 - (a >> 23));
    return (uint16_t)(sign | h);
}
ATTN__INLINE float attn__bf16_to_f32(uint16_t h) { return attn__float((uint32_t)h << 16); }
ATTN__INLINE uint16_t attn__f32_to_bf16(float x) {
    uint32_t u = attn__bits(x);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
ATTN__INLINE float attn__fp8_to_f32(uint8_t c) {
    uint32_t sign = (uint32_t)(c & 0x80) << 24, a = c & 0x7f;
    if (a == 0x7f) return attn__float(sign | 0x7fc00000u);
    if (a >= 8) return attn__float(sign | ((a << 20) + 0x3c000000u));
    /* subnormal: a * 2^-9 */
    return attn__float(sign | attn__bits((float)a * attn__float(0x3b000000u)));
}
/* saturates at 448 */
ATTN__INLINE uint8_t attn__f32_to_fp8(float x) {
    uint32_t u = attn__bits(x), sign = u >> 24 & 0x80, a = u & 0x7fffffff, c;
    if (a > 0x7f800000) c = 0x7f;
    else if (a >= 0x43e00000) c = 0x7e;
    else if (a >= 0x3c800000) c = attn__round_shift(a - 0x3c000000u, 20);
    else if (a < 0x3a800000) c = 0;
    else c = attn__round_shift((a & 0x7fffff) | 0x800000, 141 - (a >> 23));
    return (uint8_t)(sign | (c > 0x7e && c != 0x7f ? 0x7e : c));
}
/* Sizes as bits: ordered as numbers are, NaN and infinity on top. */
ATTN__INLINE int32_t attn__size_bits(float x) { return (int32_t)(attn__bits(x) & 0x7fffffff); }
ATTN__INLINE int32_t attn__min32(int32_t a, int32_t b) { return a < b ? a : b; }
ATTN__INLINE int32_t attn__max32(int32_t a, int32_t b) { return a > b ? a : b; }
/* One load and one store of each dtype: element `at` as f32, and back. Codes come
 * without their scale. */
ATTN__INLINE float attn__get_F32(const void *p, int64_t at) { return ((const float *)p)[at]; }
ATTN__INLINE void attn__put_F32(void *p, int64_t at, float x) { ((float *)p)[at] = x; }
ATTN__INLINE float attn__get_F16(const void *p, int64_t at) {
    return attn__f16_to_f32(((const uint16_t *)p)[at]);
}
ATTN__INLINE void attn__put_F16(void *p, int64_t at, float x) {
    ((uint16_t *)p)[at] = attn__f32_to_f16(x);
}
ATTN__INLINE float attn__get_BF16(const void *p, int64_t at) {
    return attn__bf16_to_f32(((const uint16_t *)p)[at]);
}
ATTN__INLINE void attn__put_BF16(void *p, int64_t at, float x) {
    ((uint16_t *)p)[at] = attn__f32_to_bf16(x);
}
ATTN__INLINE float attn__get_F64(const void *p, int64_t at) {
    return attn__nearest_f32(((const double *)p)[at]);
}
ATTN__INLINE void attn__put_F64(void *p, int64_t at, float x) { ((double *)p)[at] = (double)x; }
ATTN__INLINE float attn__get_INT8(const void *p, int64_t at) {
    return (float)((const int8_t *)p)[at];
}
ATTN__INLINE float attn__to_integer(float x) { /* |x| < 2^22 */
    const float magic = 12582912.0f;
    float n = x + magic;
    ATTN__F32(n);
    return n - magic;
}
ATTN__INLINE void attn__put_INT8(void *p, int64_t at, float x) {
    const int32_t code = (int32_t)attn__to_integer(x);
    ((int8_t *)p)[at] = (int8_t)attn__max32(attn__min32(code, 127), -127);
}
ATTN__INLINE float attn__get_INT16(const void *p, int64_t at) {
    const int8_t *high = (const int8_t *)p + attn__high(at);
    return (float)high[0] + (float)high[ATTN_PLANE] / 256;
}
/* The high part is the nearest: the low one is at most half of its unit. */
ATTN__INLINE void attn__put_INT16(void *p, int64_t at, float x) { /* |x| < 2^14 */
    int8_t *high = (int8_t *)p + attn__high(at);
    const int32_t n = (int32_t)attn__to_integer(256 * x),
                  code = attn__max32(attn__min32(n, 32639), -32639),
                  most = ((code + 128 + 32768) >> 8) - 128;
    high[0] = (int8_t)most;
    high[ATTN_PLANE] = (int8_t)(code - 256 * most);
}
ATTN__INLINE float attn__get_FP8_E4M3(const void *p, int64_t at) {
    return attn__fp8_to_f32(((const uint8_t *)p)[at]);
}
ATTN__INLINE void attn__put_FP8_E4M3(void *p, int64_t at, float x) {
    ((uint8_t *)p)[at] = attn__f32_to_fp8(x);
}
/* Where the block of element `at` begins, and the element's number in it. */
ATTN__INLINE const uint8_t *attn__block(const void *p, int32_t dtype, int64_t at, int64_t *i) {
    *i = at & 31;
    return (const uint8_t *)p + attn__bytes(dtype, at - *i);
}
ATTN__INLINE float attn__half_at(const void *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return attn__f16_to_f32(h);
}
ATTN__INLINE float attn__get_Q8_0(const void *p, int64_t at) {
    int64_t i;
    const uint8_t *block = attn__block(p, ATTN_Q8_0, at, &i);
    return attn__half_at(block) * (float)(int8_t)block[2 + i];
}
ATTN__INLINE float attn__get_Q4_0(const void *p, int64_t at) {
    int64_t i;
    const uint8_t *block = attn__block(p, ATTN_Q4_0, at, &i);
    return attn__half_at(block) * (float)((block[2 + i % 16] >> i / 16 * 4 & 15) - 8);
}
ATTN__INLINE float attn__get_BOOL(const void *p, int64_t at) {
    return ((const uint8_t *)p)[at] != 0;
}
ATTN__INLINE void attn__put_BOOL(void *p, int64_t at, float x) { ((uint8_t *)p)[at] = x != 0; }
/* clang-format off */
ATTN__INLINE float attn__get_f32(const void *data, int32_t dtype, int64_t at) {
    if (ATTN__ONLY_F32) dtype = ATTN_F32;
    switch (dtype) {
#define ATTN__X(name, number, text, bytes, elements, kind, most) \
        case number: return attn__get_##name(data, at);
        ATTN_DTYPE_LIST(ATTN__X)
#undef ATTN__X
    }
    return attn__float(0x7fc00000u);
}
ATTN__INLINE void attn__put_f32(void *data, int32_t dtype, int64_t at, float x) {
    if (ATTN__ONLY_F32) dtype = ATTN_F32;
    switch (dtype) { /* blocks are written whole */
#define ATTN__CASE(name, number) case number: attn__put_##name(data, at, x); return;
#define ATTN__X(name, number, text, bytes, elements, kind, most) \
        ATTN__PICK_##kind(ATTN__CASE(name, number), ATTN__CASE(name, number), , \
            ATTN__CASE(name, number))
        ATTN_DTYPE_LIST(ATTN__X)
#undef ATTN__X
#undef ATTN__CASE
    }
}
/* clang-format on */
/* x[0 .. n) = elements at .., zeros up to width; and back. */
ATTN__NOINLINE void attn__get_values(
    float *x, int64_t width, const void *data, int32_t dtype, int64_t at, int64_t n) {
    const int64_t some = attn__clamp(n, 0, width);
    const int copied = dtype == ATTN_F32;
    if (copied && some) memcpy(x, (const float *)data + at, (size_t)some * sizeof *x);
    switch (copied ? -1 : dtype) { /* once, not for each element */
#define ATTN__X(name, number, text, bytes, elements, kind, most) \
    case number: \
        for (int64_t i = 0; i < some; i++) x[i] = attn__get_##name(data, at + i); \
        break;
        ATTN_DTYPE_LIST(ATTN__X)
#undef ATTN__X
    }
    for (int64_t i = some; i < width; i++) x[i] = 0;
}
/* The same, and a copy where there is no other type. */
ATTN__INLINE void attn__read(
    float *x, int64_t width, const void *data, int32_t dtype, int64_t at, int64_t n) {
    if (!ATTN__ONLY_F32) {
        attn__get_values(x, width, data, dtype, at, n);
        return;
    }
    for (int64_t i = 0; i < width; i++) x[i] = i < n ? ((const float *)data)[at + i] : 0;
}
/* Elements by sixteens, each to memory of their own, which is nothing else's: of loops that do so
 * compilers make vectors. int16 is written by whole sixteens of a plane. */
ATTN__INLINE void attn__put_16(
    void *data, int32_t dtype, int64_t bytes, int64_t at, const double *from) {
    char *to = (char *)data + (dtype == ATTN_INT16 ? attn__high(at) : attn__bytes(dtype, at));
    if (dtype != ATTN_INT16) memcpy(to, from, 16 * (size_t)bytes);
    else {
        memcpy(to, from, 16);
        memcpy(to + ATTN_PLANE, (const char *)from + ATTN_PLANE, 16);
    }
}
ATTN__NOINLINE void attn__put_values(
    void *data, int32_t dtype, int64_t at, const float *x, int64_t n) {
    int64_t i = 0;
    if (dtype == ATTN_F32) {
        if (n > 0) memcpy((float *)data + at, x, (size_t)n * sizeof *x);
        return;
    }
    for (; i + 16 <= n; i += 16) {
        float from[16];
        double to[16 + ATTN_PLANE / 8];
        memcpy(from, x + i, sizeof from);
        switch (dtype) { /* blocks are written whole */
#define ATTN__CASE(name, number, bytes) \
    case number: \
        for (int l = 0; l < 16; l++) attn__put_##name(to, l, from[l]); \
        attn__put_16(data, number, bytes, at + i, to); \
        break;
#define ATTN__X(name, number, text, bytes, elements, kind, most) \
    ATTN__PICK_##kind(ATTN__CASE(name, number, bytes), ATTN__CASE(name, number, bytes), , \
        ATTN__CASE(name, number, bytes))
            ATTN_DTYPE_LIST(ATTN__X)
#undef ATTN__X
#undef ATTN__CASE
        }
    }
    for (; i < n; i++) attn__put_f32(data, dtype, at + i, x[i]);
}
/* The bits of the largest size of n numbers, a multiple of 8: not finite from 0x7f800000 on. */
static int32_t attn__largest_size(const float *x, int64_t n) {
    int32_t most[8] = {0};
    for (int64_t i = 0; i < n; i += 8)
        for (int l = 0; l < 8; l++) most[l] = attn__max32(most[l], attn__size_bits(x[i + l]));
    for (int l = 1; l < 8; l++) most[0] = attn__max32(most[0], most[l]);
    return most[0];
}
/* A block from 32 numbers, byte for byte as ggml's quantize_row_q8_0_ref and quantize_row_q4_0_ref
 * write it (its ggml-quants.c): the scale in f32 is largest / 127 or, with its sign, / -8; each code
 * the number times the scale's reciprocal, to nearest, halves away from 0, or with q4_0 upwards;
 * then the scale is rounded to f16. Beyond what ggml defines: where a number is not finite all are
 * NaN; a scale is at most 65504, and codes stop at their largest; below 2^-126 it counts as 0. */
static void attn__put_block(void *data, int32_t dtype, int64_t at, const float *x) {
    const int wide = dtype == ATTN_Q8_0;
    uint8_t *block = (uint8_t *)data + attn__bytes(dtype, at);
    const int32_t most = attn__largest_size(x, 32);
    int32_t first = 0;
    float scale, times;
    uint8_t code[32];
    uint16_t h = 0x7e00;
    if (most >= 0x7f800000) {
        memcpy(block, &h, sizeof h);
        memset(block + 2, wide ? 0 : 0x88, wide ? 32 : 16);
        return;
    }
    while (!wide && attn__size_bits(x[first]) < most) first++;
    scale = wide ? attn__float((uint32_t)most) / 127 : (most ? x[first] : 0) / -8;
    ATTN__F32(scale);
    if (scale > 65504) scale = 65504;
    if (scale < -65504) scale = -65504;
    times = attn__size_bits(scale) < 0x00800000 ? 0 : 1 / scale;
    ATTN__F32(times);
    h = attn__f32_to_f16(scale);
    memcpy(block, &h, sizeof h);
    /* in integers, of which compilers make vectors; 16 bits behind the point, none of them rounded */
    for (int i = 0; i < 32 && wide; i++) {
        float y = x[i] * times;
        ATTN__F32(y);
        const int32_t sign = (int32_t)attn__bits(y) >> 31;
        y = 65536 * attn__float((uint32_t)attn__min32(attn__size_bits(y), 0x42fe0000));
        code[i] = (uint8_t)(((((int32_t)y + 32768) >> 16) ^ sign) - sign);
    }
    for (int i = 0; i < 32 && !wide; i++) {
        float y = x[i] * times;
        ATTN__F32(y);
        const uint32_t sign = attn__bits(y) & 0x80000000u;
        y = attn__float((uint32_t)attn__min32(attn__size_bits(y), 0x41000000) | sign) + 8.5f;
        ATTN__F32(y);
        code[i] = (uint8_t)attn__min32((int32_t)y, 15);
    }
    for (int i = 0; i < 16 && !wide; i++) code[i] = (uint8_t)(code[i] | code[i + 16] << 4);
    memcpy(block + 2, code, wide ? 32 : 16);
}
/* f64 to f32, towards the odd neighbour: rounded to 16 bits after that it is as if it had
 * been rounded once. */
ATTN__INLINE float attn__f64_to_odd(double x) {
    float f = (float)x;
    ATTN__F32(f);
    const uint64_t size = attn__bits64(x) & INT64_MAX,
                   rounded = attn__bits64((double)f) & INT64_MAX;
    const uint32_t u = attn__bits(f), moves = ~u & (size <= 0x7ff0000000000000u);
    return attn__float(u + (moves & (rounded < size)) - (moves & (rounded > size)));
}
/* What becomes a number of 16 bits when it is rounded once more; one NaN for all. */
ATTN__INLINE float attn__f64_narrow(double x) {
    return attn__is_nan(x)
               ? attn__float((uint32_t)(attn__bits64(x) >> 32 & 0x80000000u) | 0x7fc00000u)
               : attn__f64_to_odd(x);
}
/* The same in f64, each number rounded once. A NaN of 16 bits is the default one, read (positive)
 * and written (of x's sign). */
ATTN__INLINE double attn__get_f64(const void *data, int32_t dtype, int64_t at) {
    if (ATTN__ONLY_F32) dtype = ATTN_F32;
    if (dtype == ATTN_F64) return ((const double *)data)[at];
    const double x = (double)attn__get_f32(data, dtype, at);
    return dtype != ATTN_F32 && attn__is_nan(x) ? attn__double(0x7ff8000000000000u) : x;
}
ATTN__INLINE void attn__put_f64(void *data, int32_t dtype, int64_t at, double x) {
    float f = (float)x;
    if (ATTN__ONLY_F32) dtype = ATTN_F32;
    if (dtype == ATTN_F64) {
        ((double *)data)[at] = x;
        return;
    }
    if (dtype != ATTN_F32) f = attn__f64_narrow(x);
    attn__put_f32(data, dtype, at, f);
}

/* ============================================================================ >>describe ====
   Resolving a description: every default filled in, once, here; then one validation rule a line. */
#define ATTN__RULE(condition, status) \
    do { \
        if (!(condition)) return ATTN_##status; \
    } while (0)
#define ATTN__TRY(expression) \
    do { \
        attn_status attn__s = (expression); \
        if (attn__s) return attn__s; \
    } while (0)
/* What is refused, for the message: `what`, or what[entry], or what and other. */
typedef struct attn__refused {
    const char *what, *other;
    int64_t entry; /* -1: none */
} attn__refused;
static const attn__refused attn__nowhere = {NULL, NULL, -1};
/* The entry of an array that is looked at. */
#define ATTN__ENTRY(at, n) \
    do { \
        if (!ATTN__SMALL) (at)->entry = (n); \
    } while (0)
/* The same of what has a name. */
#define ATTN__RULE_OF(at, name, condition, status) \
    do { \
        if (!(condition)) { \
            if (!ATTN__SMALL) (at)->what = name; \
            return ATTN_##status; \
        } \
    } while (0)
#define ATTN__TRY_OF(at, name, expression) \
    do { \
        attn_status attn__s = (expression); \
        if (attn__s) { \
            if (!ATTN__SMALL) (at)->what = name; \
            return attn__s; \
        } \
    } while (0)

/* extent[3] in the order of the strides; order[] lists the axes from the outermost of
 * the dense layout. */
static attn_status attn__strides(
    int64_t *stride, const int64_t *extent, const int *order, int64_t dim) {
    int64_t span = dim;
    int dense = stride[0] == 0 && stride[1] == 0 && stride[2] == 0,
        some = dim && extent[0] && extent[1] && extent[2];
    if (dense) {
        for (int a = 2; a >= 0; a--) {
            stride[order[a]] = span;
            if (attn__mul_overflows(span, attn__max(extent[order[a]], 1), &span))
                return ATTN_ERR_OVERFLOW;
        }
        if (span <= INT64_MAX / 16) return ATTN_OK; /* as below */
    }
    span = dim;
    for (int a = 0; a < 3; a++) {
        int64_t reach;
        if (!dense && some && extent[a] > 1 && stride[a] == 0) return ATTN_ERR_STRIDE_MIXED;
        if (stride[a] == ATTN_BROADCAST) stride[a] = 0;
        if (extent[a] < 2) { /* never stepped along: a value that takes no pointer out of range */
            if (stride[a] < 0 || stride[a] > INT32_MAX / 16) stride[a] = dim;
            continue;
        }
        int64_t size = stride[a] < 0 ? -stride[a] : stride[a];
        if (attn__mul_overflows(size, extent[a] - 1, &reach) ||
            attn__add_overflows(span, reach, &span))
            return ATTN_ERR_OVERFLOW;
    }
    return span > INT64_MAX / 8 ? ATTN_ERR_OVERFLOW : ATTN_OK;
}

static const int attn__order_bshd[3] = {0, 1, 2}, attn__order_bhsd[3] = {0, 2, 1};
static int attn__layout_known(int32_t layout) { return layout == ATTN_BSHD || layout == ATTN_BHSD; }
static attn_status attn__layout_strides(
    int64_t *stride, int32_t layout, const int64_t *extent, int64_t dim) {
    ATTN__RULE(attn__layout_known(layout), ERR_LAYOUT);
    return attn__strides(
        stride, extent, layout == ATTN_BHSD ? attn__order_bhsd : attn__order_bshd, dim);
}

/* Rows of a written tensor must not overlap: from the smallest stride up, each step clears what
 * lies below it. */
static attn_status attn__no_alias(
    const int64_t *stride, const int64_t *extent, int64_t dim, int broadcast_ok) {
    int64_t span = dim;
    int done[3] = {0, 0, 0};
    if (!dim || !extent[0] || !extent[1] || !extent[2]) return ATTN_OK;
    for (int a = 0; a < 3; a++) {
        if (extent[a] < 2 || (broadcast_ok && stride[a] == 0)) {
            done[a] = 1;
            continue;
        }
        ATTN__RULE(stride[a] >= 0, ERR_STRIDE_NEGATIVE);
    }
    for (;;) {
        int least = -1;
        for (int a = 0; a < 3; a++)
            if (!done[a] && (least < 0 || stride[a] < stride[least])) least = a;
        if (least < 0) return ATTN_OK;
        ATTN__RULE(stride[least] >= span, ERR_STRIDE_ALIAS);
        span += stride[least] * (extent[least] - 1);
        done[least] = 1;
    }
}

/* The tokens that a tensor's strides run over: {batch or 1 or slots or pages, tokens, heads} */
static void attn__extent_q(const attn_desc *d, int64_t *e) {
    e[0] = d->seq.cu_q ? 1 : d->batch;
    e[1] = d->seq.cu_q ? d->seq.total_q : d->q_len;
    e[2] = d->heads;
}
static void attn__extent_k(const attn_desc *d, int64_t *e) {
    const attn_seq *s = &d->seq;
    e[0] = s->block_table ? s->pages : s->cu_k ? 1 : s->slot ? s->slots : d->batch;
    e[1] = s->block_table ? s->page_size : s->cu_k ? s->total_k : d->kv_len;
    e[2] = d->kv_heads;
}
static void attn__extent_new(const attn_desc *d, int64_t *e) {
    e[0] = d->append.cu ? 1 : d->batch;
    e[1] = d->append.cu ? d->append.total : d->append.len;
    e[2] = d->kv_heads;
}
static void attn__extent_bias(const attn_desc *d, int64_t *e) {
    e[0] = d->batch;
    e[1] = d->heads;
    e[2] = d->q_len;
}
/* rows of one head in lse and o */
ATTN__INLINE int64_t attn__rows_total(const attn_desc *d) {
    return d->seq.cu_q ? d->seq.total_q : d->batch * d->q_len;
}
/* The most that a sequence may have: the bound of packed ones may be larger than all of them. */
ATTN__INLINE int64_t attn__rows_most(const attn_desc *d) {
    return attn__min(d->q_len, attn__rows_total(d));
}
ATTN__INLINE int attn__has_rotary(const attn_desc *d) { return d->append.rotary_cos != NULL; }
ATTN__INLINE int attn__has_append(const attn_desc *d) { return d->append.k.data != NULL; }

/* Whether a row and all steps to other rows are multiples of `unit` elements, so that no vector of a
 * row lies in two pieces of int16, nor a row begins within a block. */
static int attn__whole(const int64_t *stride, const int64_t *extent, int64_t dim, int64_t unit) {
    int64_t all = dim;
    for (int a = 0; a < 3; a++) all |= extent[a] > 1 ? stride[a] : 0;
    return all % unit == 0;
}
static int attn__whole_blocks(
    int32_t dtype, const int64_t *stride, const int64_t *extent, int64_t dim) {
    return !attn__is_blocks(dtype) || attn__whole(stride, extent, dim, 32);
}
static attn_status attn__resolve_kv(attn_in *t, const int64_t *extent, int64_t dim) {
    static const int order[3] = {0, 1, 2};
    ATTN__RULE(attn__dtype_known(t->dtype), ERR_DTYPE);
    ATTN__RULE(!attn__is_mask(t->dtype), ERR_DTYPE_KV);
    ATTN__RULE(attn__aligned(t->data, t->dtype), ERR_ALIGN);
    ATTN__TRY(attn__layout_strides(t->stride, t->layout, extent, dim));
    ATTN__RULE(!ATTN__ONLY_F32 || t->dtype == ATTN_F32, ERR_ONLY_F32);
    if (ATTN__ONLY_F32 || !attn__is_scaled(t->dtype)) {
        ATTN__RULE(!t->scale, ERR_SCALE_UNUSED);
        ATTN__RULE(attn__whole_blocks(t->dtype, t->stride, extent, dim), ERR_BLOCKS);
        return ATTN_OK;
    }
    ATTN__RULE(t->scale, ERR_QUANT_SCALE);
    ATTN__RULE(t->dtype != ATTN_INT16 || attn__whole(t->stride, extent, dim, 16), ERR_PLANES);
    return attn__strides(t->scale_stride, extent, order, 1);
}
/* A tensor of floats, or in a conversion of blocks; `wrong` for another. */
static int attn__floats_or(int32_t dtype, attn_status wrong) {
    return attn__is_float(dtype) || (wrong == ATTN_ERR_CONVERT_DTYPE && attn__is_blocks(dtype));
}
static attn_status attn__resolve_in(
    attn_in *t, const int64_t *extent, int64_t dim, attn_status wrong) {
    ATTN__RULE(attn__dtype_known(t->dtype), ERR_DTYPE);
    if (!attn__floats_or(t->dtype, wrong)) return wrong;
    ATTN__RULE(!ATTN__ONLY_F32 || t->dtype == ATTN_F32, ERR_ONLY_F32);
    ATTN__RULE(attn__aligned(t->data, t->dtype), ERR_ALIGN);
    ATTN__RULE(!t->scale, ERR_SCALE_UNUSED);
    return attn__layout_strides(t->stride, t->layout, extent, dim);
}
static attn_status attn__resolve_out(
    attn_out *t, const int64_t *extent, int64_t dim, attn_status wrong) {
    ATTN__RULE(attn__dtype_known(t->dtype), ERR_DTYPE);
    if (!attn__floats_or(t->dtype, wrong)) return wrong;
    ATTN__RULE(!ATTN__ONLY_F32 || t->dtype == ATTN_F32, ERR_ONLY_F32);
    ATTN__RULE(attn__aligned(t->data, t->dtype), ERR_ALIGN);
    const int dense = t->stride[0] == 0 && t->stride[1] == 0 && t->stride[2] == 0;
    for (int a = 0; a < 3; a++)
        ATTN__RULE(t->stride[a] != ATTN_BROADCAST || extent[a] < 2, ERR_STRIDE_ALIAS);
    ATTN__TRY(attn__layout_strides(t->stride, t->layout, extent, dim));
    return dense ? ATTN_OK : attn__no_alias(t->stride, extent, dim, 0);
}

/* Sequence lengths and tables in host memory: the contents are checked too. */
ATTN__NOINLINE attn_status attn__check_cu(const int32_t *cu, int64_t batch, int64_t total,
    int64_t longest, const char *name, attn__refused *at) {
    int64_t most = 0, where = -1;
    ATTN__RULE_OF(at, name, cu[0] == 0, ERR_CU_FIRST);
    for (int64_t b = 0; b < batch; b++) {
        ATTN__ENTRY(at, b + 1);
        ATTN__RULE_OF(at, name, cu[b + 1] >= cu[b], ERR_CU_FALLS);
        if (most < (int64_t)cu[b + 1] - cu[b]) most = (int64_t)cu[b + 1] - cu[b], where = b + 1;
    }
    ATTN__RULE_OF(at, name, cu[batch] == total, ERR_CU_LAST); /* a total of 0 leaves longest at 0 */
    ATTN__ENTRY(at, where);
    ATTN__RULE_OF(at, name, most <= longest, ERR_CU_LONG);
    ATTN__ENTRY(at, -1);
    return ATTN_OK;
}
ATTN__INLINE int64_t attn__appended(const attn_desc *d, int64_t b) {
    if (!attn__has_append(d)) return 0;
    return d->append.cu ? (int64_t)d->append.cu[b + 1] - d->append.cu[b] : d->append.len;
}
/* A set of the numbers in [first, last), on the stack: attn_query allocates nothing. A bit for each
 * of them where that fits, else a hash table that holds 1 + number - first, 0: free. */
#define ATTN__SET_WORDS 8192
enum { ATTN__ADDED, ATTN__TWICE, ATTN__FULL };
typedef struct attn__set {
    int64_t first, last, beyond; /* beyond: the least number met that is at least last */
    uint32_t words, count;       /* words: a power of two for the hash table */
    int bitmap;
    uint32_t word[ATTN__SET_WORDS];
} attn__set;

static void attn__set_empty(attn__set *s, int64_t first, int64_t last, int64_t numbers) {
    s->first = first;
    s->last = last;
    s->beyond = INT64_MAX;
    s->count = 0;
    for (s->words = 32; s->words < ATTN__SET_WORDS && s->words < 2 * numbers; s->words *= 2) {}
    s->bitmap = last - first <= 32 * (int64_t)s->words;
    memset(s->word, 0, s->words * sizeof *s->word);
}
static int attn__set_add(attn__set *s, int64_t number) {
    if (number >= s->last) s->beyond = attn__min(s->beyond, number);
    if (number < s->first || number >= s->last) return ATTN__ADDED;
    uint32_t x = (uint32_t)(number - s->first), at = x * 2654435769u >> 19 & (s->words - 1);
    if (s->bitmap) {
        const uint32_t bit = 1u << x % 32, old = s->word[x / 32];
        s->word[x / 32] = old | bit;
        return old & bit ? ATTN__TWICE : ATTN__ADDED;
    }
    for (; s->word[at]; at = (at + 1) & (s->words - 1))
        if (s->word[at] == x + 1) return ATTN__TWICE;
    if (2 * s->count++ >= s->words) return ATTN__FULL;
    s->word[at] = x + 1;
    return ATTN__ADDED;
}
/* The slots that are appended to, or the pages, into the set; *count: how many; at: the last one. */
static int attn__appended_to(
    const attn_desc *d, attn__set *set, int64_t *count, attn__refused *at) {
    const attn_seq *s = &d->seq;
    *count = 0;
    for (int64_t b = 0; b < d->batch; b++) {
        const int64_t n = attn__appended(d, b);
        if (n == 0) continue;
        int64_t place = s->slot ? b : b * s->max_pages + s->used_k[b] / s->page_size,
                last = s->slot ? b : b * s->max_pages + (s->used_k[b] + n - 1) / s->page_size;
        *count += last - place + 1;
        for (; set && place <= last; place++) {
            ATTN__ENTRY(at, place);
            int how = attn__set_add(set, s->slot ? s->slot[place] : s->block_table[place]);
            if (how != ATTN__ADDED) return how;
        }
    }
    return ATTN__ADDED;
}
/* As many passes over the numbers as the set needs to hold all: one below 4096 of them or 262144
 * pages, otherwise one for each 2048 of them, or for each 262144 pages where they lie dense. */
ATTN__NOINLINE attn_status attn__check_append_twice(const attn_desc *d, attn__refused *at) {
    const attn_seq *s = &d->seq;
    const int64_t limit = attn__min(s->slot ? s->slots : s->pages, (int64_t)1 << 31),
                  dense = 32 * ATTN__SET_WORDS;
    attn__set set;
    int64_t count, again;
    attn__appended_to(d, NULL, &count, at);
    const int64_t passes = count <= ATTN__SET_WORDS / 2 ? 1 : attn__ceil_div(count, 2048);
    for (int64_t first = 0; first < limit; first = set.beyond) {
        int64_t width = attn__max(dense, (limit - first) / passes);
        int how = ATTN__FULL;
        for (; how == ATTN__FULL; width = attn__max(dense, width / 2)) {
            attn__set_empty(&set, first, attn__min(first + width, limit), count);
            how = attn__appended_to(d, &set, &again, at);
        }
        ATTN__RULE_OF(at, "slot", how != ATTN__TWICE || !s->slot, ERR_SLOT_TWICE);
        ATTN__RULE_OF(at, "block_table", how != ATTN__TWICE, ERR_PAGE_TWICE);
    }
    ATTN__ENTRY(at, -1);
    return ATTN_OK;
}
static attn_status attn__check_lengths(const attn_desc *d, attn__refused *at) {
    const attn_seq *s = &d->seq;
    if (s->cu_q) ATTN__TRY(attn__check_cu(s->cu_q, d->batch, s->total_q, d->q_len, "cu_q", at));
    if (s->cu_k) ATTN__TRY(attn__check_cu(s->cu_k, d->batch, s->total_k, d->kv_len, "cu_k", at));
    if (d->append.cu && attn__has_append(d)) {
        ATTN__RULE_OF(at, "append.cu",
            d->append.cu[0] == 0 && d->append.cu[d->batch] == d->append.total, ERR_APPEND_CU_NEW);
        for (int64_t b = 0; b < d->batch; b++) {
            int64_t n = attn__appended(d, b);
            ATTN__ENTRY(at, b + 1);
            ATTN__RULE_OF(at, "append.cu", n >= 0 && n <= d->append.len, ERR_APPEND_CU_NEW);
        }
        ATTN__ENTRY(at, -1);
    }
    if (!s->used_q && !s->used_k && !s->start_k && !s->slot) return ATTN_OK;
    for (int64_t b = 0; b < d->batch; b++) {
        ATTN__ENTRY(at, b);
        int64_t rows = s->cu_q ? (int64_t)s->cu_q[b + 1] - s->cu_q[b] : d->q_len;
        int64_t capacity = s->cu_k ? (int64_t)s->cu_k[b + 1] - s->cu_k[b] : d->kv_len;
        const int64_t used = s->used_k ? s->used_k[b] : capacity, n = attn__appended(d, b),
                      start = s->start_k ? s->start_k[b] : 0;
        if (s->used_q)
            ATTN__RULE_OF(at, "used_q", s->used_q[b] >= 0 && s->used_q[b] <= rows, ERR_USED_Q);
        ATTN__RULE_OF(at, "used_k", used >= 0 && used <= capacity, ERR_USED_K);
        ATTN__RULE_OF(at, "used_k", n <= capacity - used, ERR_APPEND_LEN);
        ATTN__RULE_OF(at, "start_k", start >= 0 && start <= used, ERR_START_K);
        if (s->slot) ATTN__RULE_OF(at, "slot", s->slot[b] >= 0 && s->slot[b] < s->slots, ERR_SLOT);
        if (attn__has_rotary(d)) {
            const int64_t q_used = s->used_q ? s->used_q[b] : rows;
            const int64_t rows_most = d->append.rotary_rows - (used - start),
                          least = !ATTN__SMALL && q_used ? attn__max(n, 1) : n; /* for a name */
            ATTN__RULE_OF(at, "used_k", least == 0 || least <= rows_most, ERR_ROTARY_ROWS);
            ATTN__ENTRY(at, s->used_q ? b : s->cu_q ? b + 1 : -1);
            ATTN__RULE_OF(at,
                s->used_q ? "used_q"
                : s->cu_q ? "cu_q"
                          : "q_len",
                q_used == 0 || q_used <= rows_most, ERR_ROTARY_ROWS);
            ATTN__ENTRY(at, b);
        }
        for (int64_t p = s->block_table ? start / s->page_size : 0;
            s->block_table && start < used + n && p * s->page_size < used + n; p++) {
            int32_t page = s->block_table[b * s->max_pages + p];
            if (page < 0 || page >= s->pages) ATTN__ENTRY(at, b * s->max_pages + p);
            ATTN__RULE_OF(at, "block_table", page >= 0 && page < s->pages, ERR_PAGE_RANGE);
        }
    }
    ATTN__ENTRY(at, -1);
    return attn__has_append(d) && (s->slot || s->block_table) ? attn__check_append_twice(d, at)
                                                              : ATTN_OK;
}

static attn_status attn__resolve_append(attn_desc *d, attn__refused *at) {
    attn_append *a = &d->append;
    int64_t e[3];
    int rotary = a->rotary_cos || a->rotary_sin || a->rotary_dim || a->rotary_rows;
    ATTN__RULE(!rotary || (a->rotary_cos && a->rotary_sin && a->rotary_dim && a->rotary_rows),
        ERR_ROTARY_NULL);
    ATTN__RULE(rotary || !(d->flags & ATTN_ROTARY_INTERLEAVED), ERR_ROTARY_FLAG);
    ATTN__RULE(a->len >= 0, ERR_APPEND_LEN);
    ATTN__RULE(!a->k.data == !a->v.data && (a->len == 0 || a->k.data), ERR_APPEND_NULL);
    if (!a->k.data) {
        ATTN__RULE(!rotary, ERR_ROTARY_APPEND);
        ATTN__RULE(!a->cu && !a->total, ERR_APPEND_CU_NEW);
        return ATTN_OK;
    }
    ATTN__RULE(a->cu || a->total == 0, ERR_APPEND_CU_NEW);
    ATTN__RULE(a->total >= 0, ERR_APPEND_CU_NEW);
    ATTN__RULE(!d->seq.cu_k, ERR_APPEND_CU);
    ATTN__RULE(d->seq.used_k, ERR_APPEND_USED);
    ATTN__RULE(a->k_cache == d->k.data && a->v_cache == d->v.data, ERR_APPEND_CACHE);
    ATTN__RULE(a->k_scale == d->k.scale && a->v_scale == d->v.scale, ERR_APPEND_SCALE);
    if (a->cu) a->len = attn__min(a->len, a->total);
    if (rotary) {
        int64_t bytes;
        ATTN__RULE(!attn__mul_overflows(a->rotary_rows, 4 * attn__max(d->head_dim, 1), &bytes),
            ERR_OVERFLOW);
        ATTN__RULE(a->rotary_dim >= 2 && a->rotary_dim <= d->head_dim && a->rotary_dim % 2 == 0,
            ERR_ROTARY_DIM);
        ATTN__RULE(a->rotary_rows > 0, ERR_ROTARY_ROWS);
    }
    attn__extent_new(d, e);
    ATTN__TRY_OF(at, "append.k", attn__resolve_in(&a->k, e, d->head_dim, ATTN_ERR_APPEND_DTYPE));
    ATTN__TRY_OF(at, "append.v", attn__resolve_in(&a->v, e, d->v_dim, ATTN_ERR_APPEND_DTYPE));
    attn__extent_k(d, e);
    ATTN__TRY_OF(at, "k", attn__no_alias(d->k.stride, e, d->head_dim, 0));
    ATTN__TRY_OF(at, "v", attn__no_alias(d->v.stride, e, d->v_dim, 0));
    if (attn__is_scaled(d->k.dtype))
        ATTN__TRY_OF(at, "k.scale", attn__no_alias(d->k.scale_stride, e, 1, 0));
    if (attn__is_scaled(d->v.dtype))
        ATTN__TRY_OF(at, "v.scale", attn__no_alias(d->v.scale_stride, e, 1, 0));
    return ATTN_OK;
}

/* Where statistics may begin: at multiples of 8, on i386 of 4. */
struct attn__statistics_behind {
    char first;
    attn_statistics told;
};
/* All that is neither a tensor nor a mask has elements of 4 bytes. X(array, its name) */
#define ATTN__ARRAYS(X) \
    X(d->seq.cu_q, "cu_q") \
    X(d->seq.cu_k, "cu_k") \
    X(d->seq.used_q, "used_q") \
    X(d->seq.used_k, "used_k") \
    X(d->seq.start_k, "start_k") \
    X(d->seq.slot, "slot") \
    X(d->seq.block_table, "block_table") \
    X(d->append.cu, "append.cu") \
    X(d->append.rotary_cos, "rotary_cos") \
    X(d->append.rotary_sin, "rotary_sin") \
    X(d->lse, "lse") \
    X(d->alibi, "alibi") \
    X(d->sink, "sink") \
    X(d->k.scale, "k.scale") \
    X(d->v.scale, "v.scale") \
    X(d->cert, "cert") \
    X(d->bias_scale, "bias_scale")
#define ATTN__ARRAYS_GRAD(X) \
    X(g->dlse, "dlse") \
    X(g->dbias, "dbias") \
    X(g->dsink, "dsink")
#define ATTN__ADD_ADDRESS(array, name) all |= (uintptr_t)(array);
#define ATTN__TELL(array, name) \
    if ((uintptr_t)(array) % 4) return name;
static int attn__arrays_aligned(const attn_desc *d, const attn_grad *g) {
    uintptr_t all = 0;
    ATTN__ARRAYS(ATTN__ADD_ADDRESS)
    if (g) { ATTN__ARRAYS_GRAD(ATTN__ADD_ADDRESS) }
    return all % 4 == 0 && (uintptr_t)d->statistics % (sizeof(struct attn__statistics_behind) -
                                                          sizeof(attn_statistics)) ==
                               0;
}
/* The first that is not. */
static const char *attn__array_askew(const attn_desc *d, const attn_grad *g) {
    ATTN__ARRAYS(ATTN__TELL)
    if (g) { ATTN__ARRAYS_GRAD(ATTN__TELL) }
    return "statistics";
}
#undef ATTN__ARRAYS
#undef ATTN__ARRAYS_GRAD
#undef ATTN__ADD_ADDRESS
#undef ATTN__TELL
static attn_status attn__resolve_seq(attn_desc *d) {
    attn_seq *s = &d->seq;
    int64_t capacity;
    ATTN__RULE(s->total_q >= 0 && s->total_k >= 0, ERR_TOTAL_NEGATIVE);
    ATTN__RULE((s->cu_q || !s->total_q) && (s->cu_k || !s->total_k), ERR_TOTAL_FLAG);
    ATTN__RULE(!s->slot == !s->slots && s->slots >= 0, ERR_SLOTS_FLAG);
    ATTN__RULE(!s->slot || (!s->cu_k && !s->block_table), ERR_SLOT_CU);
    if (!s->block_table) {
        ATTN__RULE(!s->page_size && !s->pages && !s->max_pages, ERR_PAGE_FLAG);
        return ATTN_OK;
    }
    ATTN__RULE(s->page_size >= 1 && s->pages >= 1 && s->max_pages >= 1, ERR_PAGE_SIZE);
    ATTN__RULE(!s->cu_k, ERR_PAGE_CU);
    ATTN__RULE(s->used_k, ERR_PAGE_USED);
    ATTN__RULE(!attn__mul_overflows(d->batch, s->max_pages, &capacity) && capacity <= INT64_MAX / 8,
        ERR_OVERFLOW);
    ATTN__RULE(!attn__mul_overflows(s->max_pages, s->page_size, &capacity), ERR_OVERFLOW);
    ATTN__RULE(d->kv_len <= capacity, ERR_PAGE_CAPACITY);
    return ATTN_OK;
}

static attn_status attn__resolve_grad(const attn_desc *d, attn_grad *g, attn__refused *at) {
    int64_t e[3];
    ATTN__RULE(!d->seq.slot && !attn__has_append(d), ERR_BACKWARD_CACHE);
    ATTN__RULE(!d->seq.block_table, ERR_BACKWARD_PAGED);
    ATTN__RULE(attn__is_float(d->k.dtype) && attn__is_float(d->v.dtype), ERR_BACKWARD_QUANT);
    attn__extent_q(d, e);
    ATTN__TRY_OF(at, "dout", attn__resolve_in(&g->dout, e, d->v_dim, ATTN_ERR_DTYPE_GRAD));
    ATTN__TRY_OF(at, "dq", attn__resolve_out(&g->dq, e, d->head_dim, ATTN_ERR_DTYPE_GRAD));
    attn__extent_k(d, e);
    ATTN__TRY_OF(at, "dk", attn__resolve_out(&g->dk, e, d->head_dim, ATTN_ERR_DTYPE_GRAD));
    ATTN__TRY_OF(at, "dv", attn__resolve_out(&g->dv, e, d->v_dim, ATTN_ERR_DTYPE_GRAD));
    ATTN__RULE(!g->dsink || d->sink, ERR_DSINK);
    ATTN__RULE(!g->dbias || d->bias.data, ERR_DBIAS);
    if (!g->dbias) return ATTN_OK;
    attn__extent_bias(d, e);
    attn_status s = attn__no_alias(d->bias.stride, e, d->kv_len, 1);
    return s == ATTN_ERR_STRIDE_ALIAS ? ATTN_ERR_DBIAS_DTYPE : s;
}

/* A length of 0 beside cu: the longest entry. Entries that fall are found later. */
static attn_status attn__resolve_longest(
    const attn_desc *d, const int32_t *cu, int64_t total, int64_t *length) {
    if (!cu || *length || total == 0) return ATTN_OK;
    ATTN__RULE(!(d->flags & ATTN_DEVICE) || (d->flags & ATTN_SEQ_HOST), ERR_CU_DEVICE);
    ATTN__RULE((uintptr_t)cu % sizeof *cu == 0, ERR_ALIGN);
    for (int64_t b = 0; b < d->batch; b++) *length = attn__max(*length, (int64_t)cu[b + 1] - cu[b]);
    return ATTN_OK;
}
/* room for every sum that plans memory */
static attn_status attn__check_sizes(const attn_desc *d) {
    int64_t n, dims;
    ATTN__RULE(!attn__mul_overflows(attn__max(d->batch, 1), d->heads, &n) &&
                   !attn__mul_overflows(n, attn__max(d->q_len, 1), &n) && n <= INT64_MAX / 8,
        ERR_OVERFLOW);
    ATTN__RULE(
        !attn__add_overflows(d->head_dim, d->v_dim, &dims) && dims < INT32_MAX, ERR_OVERFLOW);
    ATTN__RULE(!attn__mul_overflows(n, (dims + 64) * 40, &n), ERR_OVERFLOW);
    ATTN__RULE(!attn__mul_overflows(d->kv_len, (dims + 64) * 40, &n), ERR_OVERFLOW);
    return ATTN_OK;
}
static attn_status attn__resolve_sizes(attn_desc *d, attn__refused *at) {
    ATTN__RULE(
        d->batch >= 0 && d->q_len >= 0 && d->kv_len >= 0 && d->heads >= 0 && d->kv_heads >= 0,
        ERR_NEGATIVE_SIZE);
    ATTN__RULE(d->head_dim >= 0 && d->v_dim >= 0, ERR_NEGATIVE_SIZE);
    ATTN__RULE(d->heads >= 1, ERR_HEADS_ZERO);
    ATTN__RULE(d->head_dim >= 1, ERR_HEAD_DIM);
    if (d->kv_heads == 0) d->kv_heads = d->heads;
    if (d->v_dim == 0) d->v_dim = d->head_dim;
    ATTN__RULE(d->heads % d->kv_heads == 0, ERR_HEADS);
    ATTN__TRY(attn__check_sizes(d));
    ATTN__TRY_OF(at, "cu_q", attn__resolve_longest(d, d->seq.cu_q, d->seq.total_q, &d->q_len));
    ATTN__TRY_OF(at, "cu_k", attn__resolve_longest(d, d->seq.cu_k, d->seq.total_k, &d->kv_len));
    return attn__check_sizes(d);
}
static attn_status attn__resolve_scores(attn_desc *d) {
    ATTN__RULE((d->flags & ATTN_SCALE) || d->scale == 0, ERR_SCALE_FLAG);
    if (!(d->flags & ATTN_SCALE)) d->scale = (float)(1 / attn__sqrt((double)d->head_dim));
    d->flags |= ATTN_SCALE;
    ATTN__RULE(attn__finite(d->scale), ERR_SCALE);
    ATTN__RULE(attn__finite(d->softcap) && d->softcap >= 0, ERR_SOFTCAP);
    ATTN__RULE(attn__finite(d->dropout) && d->dropout >= 0 && d->dropout < 1, ERR_DROPOUT);
    ATTN__RULE((d->flags & ATTN_OFFSET) || d->offset == 0, ERR_OFFSET_FLAG);
    ATTN__RULE(!(d->flags & ATTN_OFFSET) || !(d->flags & ATTN_TOP_LEFT), ERR_OFFSET_BOTH);
    ATTN__RULE((d->flags & ATTN_WINDOW_LEFT) || d->window_left == 0, ERR_WINDOW_FLAG);
    ATTN__RULE((d->flags & ATTN_WINDOW_RIGHT) || d->window_right == 0, ERR_WINDOW_FLAG);
    ATTN__RULE(d->window_left >= 0 && d->window_right >= 0, ERR_WINDOW_NEGATIVE);
    return ATTN_OK;
}
static attn_status attn__resolve_tolerance(const attn_desc *d, const attn_grad *g) {
    ATTN__RULE(attn__finite(d->tolerance) && d->tolerance >= 0, ERR_TOLERANCE);
    ATTN__RULE(d->quantile >= 0 && d->quantile < 1, ERR_QUANTILE);
    ATTN__RULE(d->tolerance > 0 || (!d->cert && !d->statistics &&
                                       !(d->flags & ATTN_TOLERANCE_ABSOLUTE) && !(d->quantile > 0)),
        ERR_TOLERANCE_OFF);
    ATTN__RULE(!g || !(d->tolerance > 0), ERR_TOLERANCE_GRAD);
    ATTN__RULE(!(d->flags & ATTN_DEVICE) || !(d->tolerance > 0), ERR_TOLERANCE_DEVICE);
    return ATTN_OK;
}
static attn_status attn__resolve_call(const attn_desc *d, const attn_grad *g, attn__refused *at) {
    ATTN__RULE(g || !(d->flags & ATTN_ACCUMULATE), ERR_ACCUMULATE);
    ATTN__RULE((d->flags & ATTN_DEVICE) || !(d->flags & ATTN_SEQ_HOST), ERR_SEQ_HOST);
    if (d->dropout > 0)
        ATTN__RULE(d->philox_offset <= UINT32_MAX && d->q_len <= UINT32_MAX &&
                       d->kv_len <= UINT32_MAX && d->batch * d->heads <= UINT32_MAX,
            ERR_PHILOX_RANGE);
    ATTN__RULE(d->threads >= 0, ERR_THREADS);
    ATTN__RULE(d->device >= 0, ERR_DEVICE_INDEX);
    ATTN__RULE(!d->pool || (d->pool->run && d->pool->threads >= 1), ERR_POOL);
    ATTN__RULE(!d->alloc || (d->alloc->get && d->alloc->put), ERR_ALLOC);
    ATTN__RULE(d->message || !d->message_size, ERR_MESSAGE);
    ATTN__RULE(d->workspace || !d->workspace_size, ERR_WORKSPACE_NULL);
    ATTN__RULE((uintptr_t)d->workspace % ATTN__ALIGN == 0, ERR_WORKSPACE_ALIGN);
    ATTN__RULE_OF(at, attn__array_askew(d, g), attn__arrays_aligned(d, g), ERR_ALIGN);
    return ATTN_OK;
}
static attn_status attn__resolve_tensors(attn_desc *d, attn__refused *at) {
    int64_t e[3];
    attn__extent_q(d, e);
    ATTN__TRY_OF(at, "q", attn__resolve_in(&d->q, e, d->head_dim, ATTN_ERR_DTYPE_Q));
    ATTN__TRY_OF(at, "o", attn__resolve_out(&d->o, e, d->v_dim, ATTN_ERR_DTYPE_O));
    attn__extent_k(d, e);
    ATTN__TRY_OF(at, "k", attn__resolve_kv(&d->k, e, d->head_dim));
    ATTN__TRY_OF(at, "v", attn__resolve_kv(&d->v, e, d->v_dim));
    attn__extent_bias(d, e);
    ATTN__RULE(!d->bias_scale || d->bias.data, ERR_BIAS_SCALE);
    if (d->bias.data) {
        ATTN__RULE_OF(at, "bias", attn__dtype_known(d->bias.dtype), ERR_DTYPE);
        ATTN__RULE_OF(at, "bias", attn__is_float(d->bias.dtype), ERR_DTYPE_BIAS);
        ATTN__RULE_OF(at, "bias", !ATTN__ONLY_F32 || d->bias.dtype == ATTN_F32, ERR_ONLY_F32);
        ATTN__RULE_OF(at, "bias", attn__aligned(d->bias.data, d->bias.dtype), ERR_ALIGN);
        ATTN__RULE_OF(at, "bias", attn__layout_known(d->bias.layout), ERR_LAYOUT);
        ATTN__RULE_OF(at, "bias", !d->bias.scale, ERR_SCALE_UNUSED);
        ATTN__TRY_OF(at, "bias", attn__strides(d->bias.stride, e, attn__order_bshd, d->kv_len));
    }
    if (d->mask.data) {
        ATTN__RULE_OF(at, "mask", attn__dtype_known(d->mask.dtype), ERR_DTYPE);
        ATTN__RULE_OF(at, "mask", attn__is_mask(d->mask.dtype), ERR_DTYPE_MASK);
        ATTN__RULE_OF(at, "mask", attn__layout_known(d->mask.layout), ERR_LAYOUT);
        ATTN__RULE_OF(at, "mask", !d->mask.scale, ERR_SCALE_UNUSED);
        ATTN__TRY_OF(at, "mask", attn__strides(d->mask.stride, e, attn__order_bshd, d->kv_len));
    }
    return ATTN_OK;
}

/* in -> out with every default filled in; gin and gout NULL: forward. Touches lengths and tables
 * in host memory, no tensor. at: what is refused. */
static attn_status attn__resolve(
    const attn_desc *in, const attn_grad *gin, attn_desc *out, attn_grad *gout, attn__refused *at) {
    const uint32_t known = ATTN_CAUSAL | ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT | ATTN_TOP_LEFT |
                           ATTN_OFFSET | ATTN_SCALE | ATTN_ROTARY_INTERLEAVED | ATTN_DEVICE |
                           ATTN_SEQ_HOST | ATTN_ACCUMULATE | ATTN_TOLERANCE_ABSOLUTE;
    int64_t n;
    attn_desc *d = out;
    if (!ATTN__SMALL) *at = attn__nowhere;
    ATTN__RULE(in, ERR_NULL_DESC);
    *d = *in;
    ATTN__RULE(!(d->flags & ~known), ERR_FLAGS);
    ATTN__TRY(attn__resolve_sizes(d, at));
    ATTN__TRY(attn__resolve_scores(d));
    ATTN__TRY(attn__resolve_call(d, gin, at));
    ATTN__TRY(attn__resolve_tolerance(d, gin));
    ATTN__TRY(attn__resolve_seq(d));
    ATTN__RULE(!attn__mul_overflows(attn__rows_total(d), d->heads, &n) &&
                   !attn__mul_overflows(n, (d->head_dim + d->v_dim + 64) * 40, &n),
        ERR_OVERFLOW);
    ATTN__TRY(attn__resolve_tensors(d, at));
    ATTN__TRY(attn__resolve_append(d, at));
    if (!(d->flags & ATTN_DEVICE) || (d->flags & ATTN_SEQ_HOST))
        ATTN__TRY(attn__check_lengths(d, at));
    if (!ATTN__BACKWARD || !gin) return ATTN_OK;
    *gout = *gin;
    return attn__resolve_grad(d, gout, at);
}

/* The bytes that a tensor or an array occupies, for the overlap rule: rows of `row` bytes, the
 * first at `first`. */
typedef struct attn__span {
    uintptr_t first, last;          /* last < first: it passes the end of the address space */
    const int64_t *stride, *extent; /* in elements of `dtype`; an array: NULL */
    int64_t row;
    int32_t dtype;
    const char *name;
} attn__span;

/* bytes [low, high) from `data` on */
static void attn__span_reach(attn__span *s, const void *data, int64_t low, int64_t high) {
    const uint64_t at = (uintptr_t)data;
    s->first = (uintptr_t)(at - (uint64_t)-low);
    s->last = (uintptr_t)(at + (uint64_t)high);
    if ((uint64_t)-low > at || (uint64_t)high > UINTPTR_MAX - at) {
        s->first = 1;
        s->last = 0;
    }
}
/* Whether an axis of int16 steps within pieces, which belong to a tensor whole. */
ATTN__INLINE int attn__in_pieces(int32_t dtype, int64_t stride) {
    return dtype == ATTN_INT16 && stride % ATTN_PLANE != 0;
}
static void attn__span_of(attn__span *s, const void *data, const int64_t *stride,
    const int64_t *extent, int64_t dim, int32_t dtype) {
    int64_t low = 0, high = 0, least = 0, most = dim; /* steps of axes; a row, or pieces of int16 */
    s->dtype = dtype;
    s->row = attn__bytes(dtype, dim);
    s->stride = stride;
    s->extent = extent;
    s->first = s->last = (uintptr_t)data;
    if (!data || extent[0] == 0 || extent[1] == 0 || extent[2] == 0 || dim == 0) return;
    for (int a = 0; a < 3; a++) {
        const int64_t reach = stride[a] * (extent[a] - 1);
        const int within = attn__in_pieces(dtype, stride[a]);
        if (reach < 0) *(within ? &least : &low) += reach;
        else *(within ? &most : &high) += reach;
    }
    if (dtype == ATTN_INT16) { /* all of its pieces */
        least = least & -(int64_t)ATTN_PLANE;
        most = attn__round_up(most, ATTN_PLANE);
        s->row = attn__bytes(dtype, most - least);
    }
    attn__span_reach(s, data, attn__bytes(dtype, low + least), attn__bytes(dtype, high + most));
}
static void attn__span_flat(attn__span *s, const void *data, int64_t bytes) {
    s->dtype = ATTN_BOOL; /* of one byte */
    s->row = bytes;
    s->stride = s->extent = NULL;
    s->first = s->last = (uintptr_t)data;
    if (data) attn__span_reach(s, data, 0, bytes);
}

/* An axis of a tensor: `low` to `high` steps of so many bytes. */
typedef struct attn__axis {
    int64_t step, low, high;
} attn__axis;

/* The axes of a tensor, the smallest step first, and the bytes of its rows. Steps backwards from
 * `data` are steps forwards from `first`. Rows that touch are one longer row: an axis less. */
static int attn__span_axes(const attn__span *s, attn__axis *axis, int64_t *row) {
    int axes = 0, kept = 0;
    for (int a = 0; a < 3 && s->stride; a++) {
        int64_t stride = s->stride[a], step = attn__bytes(s->dtype, stride < 0 ? -stride : stride);
        int at = axes;
        if (s->extent[a] < 2 || step == 0 || attn__in_pieces(s->dtype, stride)) continue;
        for (; at > 0 && axis[at - 1].step > step; at--) axis[at] = axis[at - 1];
        axis[at].step = step;
        axis[at].low = 0;
        axis[at].high = s->extent[a] - 1;
        axes++;
    }
    *row = s->row;
    for (int a = 0; a < axes; a++) {
        if (axis[a].step <= *row) *row += axis[a].step * axis[a].high;
        else axis[kept++] = axis[a];
    }
    return kept;
}
/* Whether a sum of steps, the axes' largest first, can lie in [from, to]. Each number of steps
 * along the first axis that the others can still correct is tried: one to three where every step
 * clears what the smaller ones reach. Yes when more than *visits would have to be looked at. */
static int attn__steps_reach(
    const attn__axis *axis, int axes, int64_t from, int64_t to, int *visits) {
    int64_t low = 0, high = 0; /* what the smaller steps add at least and at most */
    if (axes == 0) return from <= 0 && 0 <= to;
    if (--*visits < 0) return 1;
    for (int a = 1; a < axes; a++) {
        low += axis[a].step * axis[a].low;
        high += axis[a].step * axis[a].high;
    }
    int64_t step = axis->step, n = (from - high) / step, last = (to - low) / step;
    if (n * step < from - high) n++; /* rounded up, and down */
    if (last * step > to - low) last--;
    n = attn__max(n, axis->low);
    last = attn__min(last, axis->high);
    if (axes == 1) return n <= last;
    for (; n <= last; n++)
        if (attn__steps_reach(axis + 1, axes - 1, from - n * step, to - n * step, visits)) return 1;
    return 0;
}
/* Whether no byte belongs to both. Exact: a row of `a` that begins A bytes after a->first and one
 * of b that begins B bytes after b->first share a byte iff apart - a_row < A - B < apart + b_row,
 * where `apart` is what b->first lies behind a->first. A - B is a sum of steps of a forwards and
 * of b backwards; along steps of the same size only their difference counts. So views of packed
 * QKV, q beside a packed cache, k beside v in each page or in each batch entry are told from
 * overlap whatever the sizes of their steps. Only steps that fit nowhere into each other exhaust
 * the visits, and then it says 0. */
ATTN__NOINLINE int attn__apart(const attn__span *a, const attn__span *b) {
    attn__axis of[2][3], axis[6];
    int64_t row[2], apart = (int64_t)((uint64_t)b->first - (uint64_t)a->first);
    int axes = 0, visits = 512,
        left[2] = {attn__span_axes(a, of[0], &row[0]), attn__span_axes(b, of[1], &row[1])};
    if (((uint64_t)(a->last - a->first) | (uint64_t)(b->last - b->first)) >> 61) return 0;
    while (left[0] || left[1]) { /* both merged, the largest step first */
        int64_t step[2] = {
            left[0] ? of[0][left[0] - 1].step : 0, left[1] ? of[1][left[1] - 1].step : 0};
        attn__axis next = {attn__max(step[0], step[1]), 0, 0};
        if (step[0] == next.step) next.high = of[0][--left[0]].high;
        if (step[1] == next.step) next.low = -of[1][--left[1]].high;
        axis[axes++] = next;
    }
    return !attn__steps_reach(axis, axes, apart - row[0] + 1, apart + row[1] - 1, &visits);
}
ATTN__INLINE int attn__disjoint(const attn__span *a, const attn__span *b) {
    return a->first >= b->last || b->first >= a->last || a->first == a->last ||
           b->first == b->last || attn__apart(a, b);
}

/* What a call reads and what it writes, as spans. */
typedef struct attn__spans {
    int64_t q[3], k[3], bias[3], added[3]; /* extents */
    attn__span in[24], out[8];
    int ins, outs;
} attn__spans;
static attn__span *attn__reads(attn__spans *t, const char *name) {
    if (!ATTN__SMALL) t->in[t->ins].name = name;
    return &t->in[t->ins++];
}
static attn__span *attn__writes(attn__spans *t, const char *name) {
    if (!ATTN__SMALL) t->out[t->outs].name = name;
    return &t->out[t->outs++];
}

static void attn__spans_seq(const attn_desc *d, attn__spans *t) {
    const attn_seq *s = &d->seq;
    const int64_t each = d->batch * 4;
    if (s->cu_q) attn__span_flat(attn__reads(t, "cu_q"), s->cu_q, each + 4);
    if (s->cu_k) attn__span_flat(attn__reads(t, "cu_k"), s->cu_k, each + 4);
    if (s->used_q) attn__span_flat(attn__reads(t, "used_q"), s->used_q, each);
    if (s->used_k) attn__span_flat(attn__reads(t, "used_k"), s->used_k, each);
    if (s->start_k) attn__span_flat(attn__reads(t, "start_k"), s->start_k, each);
    if (s->slot) attn__span_flat(attn__reads(t, "slot"), s->slot, each);
    if (s->block_table)
        attn__span_flat(attn__reads(t, "block_table"), s->block_table, each * s->max_pages);
    if (d->append.cu) attn__span_flat(attn__reads(t, "append.cu"), d->append.cu, each + 4);
}
/* k and v are read, or written where something is appended. */
static void attn__spans_kv(const attn_desc *d, attn__spans *t, int appends) {
    attn__span *(*const kv)(attn__spans *, const char *) = appends ? attn__writes : attn__reads;
    attn__span_of(kv(t, "k"), d->k.data, d->k.stride, t->k, d->head_dim, d->k.dtype);
    attn__span_of(kv(t, "v"), d->v.data, d->v.stride, t->k, d->v_dim, d->v.dtype);
    if (d->k.scale)
        attn__span_of(kv(t, "k.scale"), d->k.scale, d->k.scale_stride, t->k, 1, ATTN_F32);
    if (d->v.scale)
        attn__span_of(kv(t, "v.scale"), d->v.scale, d->v.scale_stride, t->k, 1, ATTN_F32);
    if (!appends) return;
    const attn_in *k = &d->append.k, *v = &d->append.v;
    attn__span_of(attn__reads(t, "append.k"), k->data, k->stride, t->added, d->head_dim, k->dtype);
    attn__span_of(attn__reads(t, "append.v"), v->data, v->stride, t->added, d->v_dim, v->dtype);
    if (!attn__has_rotary(d)) return;
    const int64_t table = d->append.rotary_rows * d->append.rotary_dim * 2;
    attn__span_flat(attn__reads(t, "rotary_cos"), d->append.rotary_cos, table);
    attn__span_flat(attn__reads(t, "rotary_sin"), d->append.rotary_sin, table);
}
static void attn__spans_grad(const attn_desc *d, const attn_grad *g, attn__spans *t) {
    const int64_t rows = attn__rows_total(d) * d->heads * 4;
    attn__span_of(attn__reads(t, "o"), d->o.data, d->o.stride, t->q, d->v_dim, d->o.dtype);
    attn__span_flat(attn__reads(t, "lse"), d->lse, rows);
    attn__span_of(
        attn__reads(t, "dout"), g->dout.data, g->dout.stride, t->q, d->v_dim, g->dout.dtype);
    if (g->dlse) attn__span_flat(attn__reads(t, "dlse"), g->dlse, rows);
    attn__span_of(attn__writes(t, "dq"), g->dq.data, g->dq.stride, t->q, d->head_dim, g->dq.dtype);
    attn__span_of(attn__writes(t, "dk"), g->dk.data, g->dk.stride, t->k, d->head_dim, g->dk.dtype);
    attn__span_of(attn__writes(t, "dv"), g->dv.data, g->dv.stride, t->k, d->v_dim, g->dv.dtype);
    if (g->dbias)
        attn__span_of(
            attn__writes(t, "dbias"), g->dbias, d->bias.stride, t->bias, d->kv_len, ATTN_F32);
    if (g->dsink) attn__span_flat(attn__writes(t, "dsink"), g->dsink, d->heads * 4);
}
static attn_status attn__check_spans(const attn__spans *t, attn__refused *at) {
    for (int i = 0; i < t->ins; i++)
        ATTN__RULE_OF(at, t->in[i].name, t->in[i].first <= t->in[i].last, ERR_ADDRESS);
    for (int i = 0; i < t->outs; i++) {
        const attn__span *out = &t->out[i];
        ATTN__RULE_OF(at, out->name, out->first <= out->last, ERR_ADDRESS);
        for (int j = 0; j < t->ins + i; j++) {
            const attn__span *other = j < t->ins ? &t->in[j] : &t->out[j - t->ins];
            const int apart = attn__disjoint(out, other);
            if (!ATTN__SMALL && !apart) at->other = other->name;
            ATTN__RULE_OF(at, out->name, apart, ERR_OVERLAP);
        }
    }
    return ATTN_OK;
}
static attn_status attn__check_workspace(
    const attn_desc *d, const attn__spans *t, attn__refused *at) {
    attn__span all;
    const uint64_t size = d->workspace_size;
    ATTN__RULE(size <= UINTPTR_MAX - (uintptr_t)d->workspace, ERR_ADDRESS);
    attn__span_flat(&all, d->workspace, size > INT64_MAX ? INT64_MAX : (int64_t)size);
    for (int i = 0; i < t->ins + t->outs; i++) {
        const attn__span *one = i < t->ins ? &t->in[i] : &t->out[i - t->ins];
        ATTN__RULE_OF(at, one->name, attn__disjoint(&all, one), ERR_WORKSPACE_OVERLAP);
    }
    return ATTN_OK;
}

/* Rules about data: pointers, overlap. Only for calls that compute. */
static attn_status attn__check_data(const attn_desc *d, const attn_grad *g, attn__refused *at) {
    attn__spans t;
    t.ins = t.outs = 0;
    attn__extent_q(d, t.q);
    attn__extent_k(d, t.k);
    attn__extent_bias(d, t.bias);
    attn__extent_new(d, t.added);
    int some_q = t.q[0] && t.q[1], some_k = t.k[0] && t.k[1] && d->kv_len;
    ATTN__RULE(d->q.data || !some_q, ERR_NULL_Q);
    ATTN__RULE(d->k.data || !some_k, ERR_NULL_K);
    ATTN__RULE(d->v.data || !some_k, ERR_NULL_V);
    ATTN__RULE(d->o.data || !some_q, ERR_NULL_O);
    if (ATTN__BACKWARD && g) {
        ATTN__RULE(g->dout.data || !some_q, ERR_NULL_DOUT);
        ATTN__RULE(d->lse || !some_q, ERR_NULL_LSE);
        ATTN__RULE(
            (g->dq.data || !some_q) && ((g->dk.data && g->dv.data) || !some_k), ERR_NULL_DQKV);
    }
    attn__span_of(attn__reads(&t, "q"), d->q.data, d->q.stride, t.q, d->head_dim, d->q.dtype);
    if (d->bias.data)
        attn__span_of(attn__reads(&t, "bias"), d->bias.data, d->bias.stride, t.bias, d->kv_len,
            d->bias.dtype);
    if (d->mask.data)
        attn__span_of(attn__reads(&t, "mask"), d->mask.data, d->mask.stride, t.bias, d->kv_len,
            d->mask.dtype);
    if (d->alibi) attn__span_flat(attn__reads(&t, "alibi"), d->alibi, d->heads * 4);
    if (d->sink) attn__span_flat(attn__reads(&t, "sink"), d->sink, d->heads * 4);
    if (d->bias_scale) attn__span_flat(attn__reads(&t, "bias_scale"), d->bias_scale, d->heads * 4);
    attn__spans_seq(d, &t);
    attn__spans_kv(d, &t, attn__has_append(d) && !g);
    if (ATTN__BACKWARD && g) {
        attn__spans_grad(d, g, &t);
    } else {
        attn__span_of(attn__writes(&t, "o"), d->o.data, d->o.stride, t.q, d->v_dim, d->o.dtype);
        const int64_t each = attn__rows_total(d) * d->heads * 4;
        if (d->lse) attn__span_flat(attn__writes(&t, "lse"), d->lse, each);
        if (d->cert) attn__span_flat(attn__writes(&t, "cert"), d->cert, each);
        if (d->statistics)
            attn__span_flat(attn__writes(&t, "statistics"), d->statistics, sizeof *d->statistics);
    }
    if (!ATTN__SMALL) *at = attn__nowhere;
    ATTN__TRY(attn__check_spans(&t, at));
    return d->workspace ? attn__check_workspace(d, &t, at) : ATTN_OK;
}

/* ============================================================================ >>sequence ====
   One sequence of a batch, for the fast backends: addresses of its rows and keys, and the keys
   that a row may see. */
typedef struct attn__sequence_view {
    int64_t b;
    /* row i is token q_first + i of batch q_batch; q_used rows are valid */
    int64_t q_batch, q_first, q_rows, q_used;
    /* key j is buffer token k_first + j; k_old of k_len were there before the append */
    int64_t k_batch, k_first, k_len, k_old;
    int64_t offset;
    const int32_t *pages;
} attn__sequence_view;

/* Whether sequences have lengths of their own; without them all are alike. */
static int attn__has_lengths(const attn_seq *s) {
    return s->cu_q || s->cu_k || s->used_q || s->used_k || s->start_k;
}
ATTN__NOINLINE attn__sequence_view attn__sequence(const attn_desc *d, int64_t b) {
    const attn_seq *q = &d->seq;
    attn__sequence_view s;
    int64_t capacity = q->cu_k ? (int64_t)q->cu_k[b + 1] - q->cu_k[b] : d->kv_len,
            base = q->cu_k ? q->cu_k[b] : 0;
    int64_t start = q->start_k ? q->start_k[b] : 0, used = q->used_k ? q->used_k[b] : capacity;
    s.b = b;
    s.q_batch = q->cu_q ? 0 : b;
    s.q_first = q->cu_q ? q->cu_q[b] : 0;
    s.q_rows = q->cu_q ? (int64_t)q->cu_q[b + 1] - q->cu_q[b] : d->q_len;
    s.q_used = q->used_q ? q->used_q[b] : s.q_rows;
    s.k_batch = q->cu_k ? 0 : q->slot ? q->slot[b] : b;
    s.k_first = base + start;
    s.k_old = used - start;
    s.k_len = s.k_old + attn__appended(d, b);
    s.offset = d->flags & ATTN_TOP_LEFT ? 0
               : d->flags & ATTN_OFFSET ? d->offset
                                        : s.k_len - s.q_used;
    s.pages = q->block_table ? q->block_table + b * q->max_pages : NULL;
    return s;
}
ATTN__INLINE int64_t attn__q_at(
    const attn__sequence_view *s, const int64_t *stride, int64_t i, int64_t h) {
    return s->q_batch * stride[0] + (s->q_first + i) * stride[1] + h * stride[2];
}
ATTN__INLINE int64_t attn__k_at(
    const attn_desc *d, const attn__sequence_view *s, const int64_t *stride, int64_t j, int64_t h) {
    int64_t t = s->k_first + j;
    if (s->pages)
        return s->pages[t / d->seq.page_size] * stride[0] + t % d->seq.page_size * stride[1] +
               h * stride[2];
    return s->k_batch * stride[0] + t * stride[1] + h * stride[2];
}
/* at[0 .. n) = the offsets of keys j .. j + n - 1. One division, whatever the pages. */
ATTN__NOINLINE void attn__keys_at(const attn_desc *d, const attn__sequence_view *s,
    const int64_t *stride, int64_t j, int64_t n, int64_t h, int64_t *at) {
    const int64_t first = s->k_first + j, size = s->pages ? d->seq.page_size : first + n;
    int64_t page = s->pages ? first / size : 0, token = first - page * size;
    const int single = s->pages && size == 1; /* a token each: without branches */
    for (int64_t i = 0; single && i < n; i++)
        at[i] = s->pages[first + i] * stride[0] + h * stride[2];
    for (int64_t i = single ? n : 0, run; i < n; i += run, page++, token = 0) {
        const int64_t step = stride[1],
                      base = (s->pages ? s->pages[page] : s->k_batch) * stride[0] + token * step +
                             h * stride[2];
        run = attn__min(n - i, size - token);
        for (int64_t r = 0; r < run; r++) at[i + r] = base + r * step;
    }
}
/* Offset of column 0 (key 0 of the sequence) in a row of the bias or mask. */
ATTN__INLINE int64_t attn__bias_at(
    const attn_desc *d, const attn__sequence_view *s, const int64_t *stride, int64_t i, int64_t h) {
    return s->b * stride[0] + h * stride[1] + i * stride[2] +
           (d->seq.start_k ? d->seq.start_k[s->b] : 0);
}
/* Whether element `at` of the bias is -infinity, which hides a key as a mask does. */
ATTN__NOINLINE int attn__hidden_by_bias(const attn_desc *d, int64_t at) {
    return attn__bits(attn__get_f32(d->bias.data, d->bias.dtype, at)) == 0xff800000u;
}
ATTN__INLINE int64_t attn__lse_at(
    const attn_desc *d, const attn__sequence_view *s, int64_t i, int64_t h) {
    return d->seq.cu_q ? h * d->seq.total_q + s->q_first + i : (s->b * d->heads + h) * d->q_len + i;
}
/* The rows [i, last] see no key outside [lo, hi), hi <= lo: none at all. For one row that is what
 * it sees; for more it is the union, for neither end ever falls from one row to the next. */
ATTN__INLINE void attn__rows_see_inline(const attn_desc *d, const attn__sequence_view *s, int64_t i,
    int64_t last, int64_t *lo, int64_t *hi) {
    int64_t from = attn__sat_add(i, s->offset);
    last = attn__min(last, s->q_used - 1);
    *lo = 0;
    *hi = i <= last ? s->k_len : 0;
    if (d->flags & ATTN_WINDOW_LEFT) *lo = attn__max(0, attn__sat_add(from, -d->window_left));
    if (d->flags & (ATTN_CAUSAL | ATTN_WINDOW_RIGHT)) {
        int64_t to = attn__sat_add(last, s->offset),
                right = d->flags & ATTN_CAUSAL ? 0 : d->window_right;
        *hi = attn__min(*hi, attn__sat_add(attn__sat_add(to, right), 1));
    }
    if (*hi <= *lo) *hi = *lo = 0;
}
/* The same, called: inlined everywhere it would be a twentieth of all code. */
ATTN__NOINLINE void attn__rows_see(const attn_desc *d, const attn__sequence_view *s, int64_t i,
    int64_t last, int64_t *lo, int64_t *hi) {
    attn__rows_see_inline(d, s, i, last, lo, hi);
}
/* Row i sees keys [lo, hi) at most; hi <= lo: none. */
ATTN__INLINE void attn__range(
    const attn_desc *d, const attn__sequence_view *s, int64_t i, int64_t *lo, int64_t *hi) {
    attn__rows_see(d, s, i, i, lo, hi);
}
/* Row i of head h, which sees keys [lo, hi) at most. */
typedef struct attn__query {
    const attn_desc *d;
    const attn__sequence_view *s;
    int64_t h, i, lo, hi;
} attn__query;
ATTN__INLINE attn__query attn__query_of(
    const attn_desc *d, const attn__sequence_view *s, int64_t h, int64_t i) {
    attn__query q = {d, s, h, i, 0, 0};
    attn__range(d, s, i, &q.lo, &q.hi);
    return q;
}
/* The same, of the keys [k0, k1). */
ATTN__INLINE attn__query attn__query_within(attn__query q, int64_t k0, int64_t k1) {
    q.lo = attn__max(q.lo, k0);
    q.hi = attn__min(q.hi, k1);
    return q;
}
/* Whether each of the rows [i, last] sees all of [k0, k1), k0 < k1. */
ATTN__NOINLINE int attn__all_see(const attn_desc *d, const attn__sequence_view *s, int64_t i,
    int64_t last, int64_t k0, int64_t k1) {
    int64_t lo, hi;
    attn__range(d, s, i, &lo, &hi);
    if (lo > k0 || hi < k1) return 0;
    attn__range(d, s, last, &lo, &hi);
    return lo <= k0 && hi >= k1;
}

/* ============================================================================= >>threads ====
   attn__parallel(n): equivalent to for (i = 0; i < n; i++) task(arg, i). Three ways: the
   caller's pool, OpenMP, or the library's own pthreads, started at the first use. A nested
   call, and a second call while the threads are busy, run on their caller. Each task sets the
   rounding mode itself. */
typedef void (*attn__task)(void *arg, int64_t i);
#if ATTN__PARALLEL
static ATTN__THREAD_LOCAL int attn__inside; /* this thread runs a task */
#else
enum { attn__inside };
#endif

static void attn__serial(attn__task task, void *arg, int64_t n) {
    for (int64_t i = 0; i < n; i++) task(arg, i);
}
/* A task wrapped so that calls from within it stay on their thread. */
typedef struct attn__wrapped {
    attn__task task;
    void *arg;
} attn__wrapped;
static ATTN__UNUSED void attn__run_inside(void *arg, int64_t i) {
    const attn__wrapped *w = (const attn__wrapped *)arg;
#if ATTN__PARALLEL
    int outer = attn__inside;
    attn__inside = 1;
    w->task(w->arg, i);
    attn__inside = outer;
#else
    w->task(w->arg, i);
#endif
}

#if ATTN__POOL && ATTN__WINDOWS
/* A process lies within one group of at most 64 processors, of which it has a mask, or, from
 * Windows 11 on, within all. */
static int64_t attn__windows_cpus(void) {
    uintptr_t mine = 0, all = 0;
    uint16_t groups = 64, group[64];
    int64_t n = 0;
    attn__win_affinity(attn__win_self(), &mine, &all);
    if (mine == all && attn__win_groups(attn__win_self(), &groups, group) && groups > 1)
        for (int i = 0; i < groups; i++) n += attn__win_cpus(group[i]);
    else
        for (; mine; mine &= mine - 1) n++;
    return n;
}
#endif
/* The processors that this thread may run on; with OpenMP the threads that its runtime takes. */
static int32_t attn__cpu_count(void) {
    int64_t n = 0;
#if !ATTN__PARALLEL || defined(ATTN_NO_THREADS)
    n = 1;
#elif defined(_OPENMP)
    n = omp_get_max_threads();
#elif ATTN__WINDOWS
    n = attn__windows_cpus();
#elif defined(__linux__)
    uint64_t mask[1024]; /* the kernel refuses less than it has processors for */
    for (size_t bytes = 128; n == 0 && bytes <= sizeof mask; bytes *= 2) {
        memset(mask, 0, sizeof mask);
        if (attn__libc_affinity(0, bytes, mask) < 0) continue;
        for (size_t i = 0; i < bytes / 8; i++)
            for (uint64_t left = mask[i]; left; left &= left - 1) n++;
    }
#endif
#if ATTN__POSIX
    if (n < 1) n = sysconf(_SC_NPROCESSORS_ONLN);
#endif
    return (int32_t)attn__clamp(n, 1, 1024);
}

/* A thread that is cancelled in the middle of a call would leave the pool locked for ever, and the
 * workspace behind: it is cancelled after the call. Returns the state before. */
static int attn__cancel_never(void) {
    int old = 0;
#if !defined(ATTN_NO_THREADS) && defined(PTHREAD_CANCEL_DISABLE)
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
#endif
    return old;
}
static void attn__cancel_as(int old) {
#if !defined(ATTN_NO_THREADS) && defined(PTHREAD_CANCEL_DISABLE)
    pthread_setcancelstate(old, &old);
#endif
    (void)old;
}

#if ATTN__POOL
#if defined(__ELF__)
#ifdef __cplusplus
extern "C" {
#endif
int omp_in_parallel(void) __attribute__((weak)); /* NULL unless the host uses OpenMP */
#ifdef __cplusplus
}
#endif
#endif

/* What the pool asks of the system: a lock, a signal that threads wait for, threads. */
#if ATTN__WINDOWS
typedef void *attn__lock, *attn__signal, *attn__thread;
#define ATTN__LOCK_INIT NULL
#define ATTN__SIGNAL_INIT NULL
static int attn__lock_try(attn__lock *l) { return attn__win_try_lock(l); }
static void attn__lock_take(attn__lock *l) { attn__win_lock(l); }
static void attn__lock_give(attn__lock *l) { attn__win_unlock(l); }
static void attn__signal_wait(attn__signal *s, attn__lock *l) {
    attn__win_sleep(s, l, UINT32_MAX, 0);
}
static void attn__signal_all(attn__signal *s) { attn__win_wake_all(s); }
#else
typedef pthread_mutex_t attn__lock;
typedef pthread_cond_t attn__signal;
typedef pthread_t attn__thread;
#define ATTN__LOCK_INIT PTHREAD_MUTEX_INITIALIZER
#define ATTN__SIGNAL_INIT PTHREAD_COND_INITIALIZER
static int attn__lock_try(attn__lock *l) { return !pthread_mutex_trylock(l); }
static void attn__lock_take(attn__lock *l) { pthread_mutex_lock(l); }
static void attn__lock_give(attn__lock *l) { pthread_mutex_unlock(l); }
static void attn__signal_wait(attn__signal *s, attn__lock *l) { pthread_cond_wait(s, l); }
static void attn__signal_all(attn__signal *s) { pthread_cond_broadcast(s); }
#endif

static struct {
    /* owner: held by the call that uses the threads; lock: guards what follows */
    attn__lock owner, lock;
    attn__signal wake, idle;
    attn__thread id[1024];
    int32_t started, want, spins; /* spins: ATTN__SPINS, or 0: more threads than processors */
    int stop;
    /* one per parallel loop; threads at work: also read without the lock while spinning */
    uint32_t generation, active;
    /* NULL once the loop is done: a late thread finds nothing */
    attn__wrapped *work;
    intptr_t n, next;
} attn__pool = {ATTN__LOCK_INIT, ATTN__LOCK_INIT, ATTN__SIGNAL_INIT, ATTN__SIGNAL_INIT, {0}, 0, 0,
    0, 0, 0, 0, NULL, 0, 0};
/* While calls follow one another, and at the end of one, a moment of spinning (50 to 200 us on x86)
 * saves a thread the sleep and the wake-up, which take as long as 256 x 256 of attention. */
#define ATTN__SPINS 4000
#define ATTN__SPIN_WHILE(spins, waiting) \
    for (int32_t k = (spins); k > 0 && (waiting); k--) ATTN__PAUSE()

static void attn__drain(attn__wrapped *work, intptr_t n) {
    for (;;) {
        intptr_t i = ATTN__NEXT(&attn__pool.next);
        if (i >= n) return;
        attn__run_inside(work, i);
    }
}
static void attn__worker(int32_t me) {
    attn__lock_take(&attn__pool.lock);
    uint32_t seen = 0;
    for (;;) {
        if (attn__pool.generation == seen && !attn__pool.stop) {
            const int32_t spins = me < attn__pool.want ? attn__pool.spins : 0;
            attn__lock_give(&attn__pool.lock);
            ATTN__SPIN_WHILE(spins, ATTN__LOAD(&attn__pool.generation) == seen);
            attn__lock_take(&attn__pool.lock);
        }
        while (attn__pool.generation == seen && !attn__pool.stop)
            attn__signal_wait(&attn__pool.wake, &attn__pool.lock);
        if (attn__pool.stop) break;
        seen = attn__pool.generation;
        if (!attn__pool.work || me >= attn__pool.want) continue;
        attn__wrapped *work = attn__pool.work;
        intptr_t n = attn__pool.n;
        ATTN__STORE(&attn__pool.active, attn__pool.active + 1);
        attn__lock_give(&attn__pool.lock);
        attn__drain(work, n);
        attn__lock_take(&attn__pool.lock);
        ATTN__STORE(&attn__pool.active, attn__pool.active - 1);
        if (attn__pool.active == 0) attn__signal_all(&attn__pool.idle);
    }
    attn__lock_give(&attn__pool.lock);
}
#if ATTN__WINDOWS
/* Each thread holds the module that its code lies in: a library that is freed stays until
 * attn_shutdown has ended them. A thread cannot be waited for while a library is being unloaded. */
static void *attn__module;
static uint32_t ATTN__WIN_ENTRY attn__thread_main(void *index) {
    attn__worker((int32_t)(intptr_t)index);
    attn__win_exit(attn__module, 0);
    return 0;
}
static void attn__pool_start(int32_t most) {
    const uint32_t from_address = 4;
    while (attn__pool.started < most && attn__pool.started < 1024) {
        attn__thread *id = &attn__pool.id[attn__pool.started];
        if (!attn__win_module(from_address, (const char *)&attn__module, &attn__module)) return;
        *id = attn__win_thread(
            NULL, 0, attn__thread_main, (void *)(intptr_t)attn__pool.started, 0, NULL);
        if (!*id) {
            attn__win_free(attn__module);
            return;
        }
        attn__pool.started++;
    }
}
static void attn__thread_join(attn__thread id) {
    attn__win_wait(id, UINT32_MAX);
    attn__win_close(id);
}
#else
static void attn__thread_join(attn__thread id) { pthread_join(id, NULL); }
static void *attn__thread_main(void *index) {
    attn__worker((int32_t)(intptr_t)index);
    return NULL;
}
static void attn__after_fork(void) { /* in the child no thread of the pool is left */
    pthread_mutex_init(&attn__pool.owner, NULL);
    pthread_mutex_init(&attn__pool.lock, NULL);
    pthread_cond_init(&attn__pool.wake, NULL);
    pthread_cond_init(&attn__pool.idle, NULL);
    attn__pool.started = 0;
    attn__pool.active = 0;
    attn__pool.stop = 0;
    attn__pool.work = NULL;
    attn__inside = 0;
}
/* Threads up to `most`, as far as the system gives them. Signals of the host are none of their
 * business: all are blocked but those that an instruction of their own raises. */
static void attn__pool_start(int32_t most) {
    /* clang-format off */
    static const int own[] = {SIGILL, SIGFPE, SIGSEGV,
#ifdef SIGBUS
        SIGBUS,
#endif
#ifdef SIGTRAP
        SIGTRAP,
#endif
#ifdef SIGSYS
        SIGSYS,
#endif
    };
    /* clang-format on */
    uint64_t blocked[16], before[16]; /* no system has more than 1024 signals */
    if (attn__pool.started >= most || attn__pool.started == 1024) return;
    attn__libc_sigfillset(blocked);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) attn__libc_sigdelset(blocked, own[i]);
    attn__libc_sigmask(ATTN__SIG_SETMASK, blocked, before);
    while (attn__pool.started < most && attn__pool.started < 1024) {
        if (pthread_create(&attn__pool.id[attn__pool.started], NULL, attn__thread_main,
                (void *)(intptr_t)attn__pool.started))
            break;
        attn__pool.started++;
    }
    attn__libc_sigmask(ATTN__SIG_SETMASK, before, NULL);
}
#endif
/* Joins them; the caller owns the pool. */
static void attn__pool_stop(void) {
    attn__lock_take(&attn__pool.lock);
    attn__pool.stop = 1;
    attn__signal_all(&attn__pool.wake);
    attn__lock_give(&attn__pool.lock);
    for (int32_t i = 0; i < attn__pool.started; i++) attn__thread_join(attn__pool.id[i]);
    attn__pool.started = 0;
    attn__pool.stop = 0;
}
#if ATTN__POSIX
/* A shared object that is unloaded takes the code of its threads away: they end before. Nothing is
 * waited for that may never come: a call that still runs, as one of another thread may at exit,
 * keeps them, and so does the end of the process within a task. */
__attribute__((destructor)) static void attn__unload(void) {
    if (attn__inside || !attn__lock_try(&attn__pool.owner)) return;
    attn__pool_stop();
    attn__lock_give(&attn__pool.owner);
}
#endif
static int32_t attn__processors(void);
static void attn__pool_run(attn__wrapped *work, int64_t n, int32_t threads) {
    if (n > INTPTR_MAX - 1024 || !attn__lock_try(&attn__pool.owner)) {
        attn__serial(attn__run_inside, work, n);
        return;
    }
    const int cancel = attn__cancel_never();
    const int32_t spins = threads <= attn__processors() ? ATTN__SPINS : 0;
    attn__lock_take(&attn__pool.lock);
    attn__pool_start(threads - 1);
    attn__pool.work = work;
    attn__pool.n = (intptr_t)n;
    attn__pool.want = threads - 1;
    attn__pool.spins = spins;
    attn__pool.next = 0;
    ATTN__NEXT(&attn__pool.generation);
    attn__signal_all(&attn__pool.wake);
    attn__lock_give(&attn__pool.lock);
    attn__drain(work, (intptr_t)n);
    attn__lock_take(&attn__pool.lock);
    attn__pool.work = NULL;
    attn__lock_give(&attn__pool.lock);
    ATTN__SPIN_WHILE(spins, ATTN__LOAD(&attn__pool.active));
    attn__lock_take(&attn__pool.lock);
    while (attn__pool.active) attn__signal_wait(&attn__pool.idle, &attn__pool.lock);
    attn__lock_give(&attn__pool.lock);
    attn__lock_give(&attn__pool.owner);
    attn__cancel_as(cancel);
}
#endif

ATTN_API void attn_shutdown(void) {
#if ATTN__POOL
    if (attn__inside) return; /* a task cannot end the threads that it runs on */
    const int cancel = attn__cancel_never();
    attn__lock_take(&attn__pool.owner);
    attn__pool_stop();
    attn__lock_give(&attn__pool.owner);
    attn__cancel_as(cancel);
#endif
    const attn_backend *b;
    for (int32_t i = 0; (b = attn_backend_at(i)) != NULL; i++)
        if (b->shutdown) b->shutdown(b->user);
}

/* The threads that a call may use: asked for, or those of the pool, or all; 1 inside a task or
 * an OpenMP region. */
static int32_t attn__threads_for(const attn_desc *d) {
#if !ATTN__PARALLEL
    (void)d;
    return 1;
#elif defined(ATTN_NO_THREADS)
    return d->pool && !attn__inside
               ? (d->threads ? (int32_t)attn__min(d->threads, d->pool->threads) : d->pool->threads)
               : 1;
#else
    int32_t most = d->pool ? d->pool->threads : attn_threads();
    if (attn__inside) return 1;
    if (d->pool) return d->threads ? (int32_t)attn__min(d->threads, most) : most;
#ifdef _OPENMP
    if (omp_in_parallel()) return 1;
#elif defined(__ELF__)
    if (omp_in_parallel && omp_in_parallel()) return 1;
#endif
    return d->threads ? (int32_t)attn__min(d->threads, 1024) : most;
#endif
}

static void attn__parallel(
    const attn_desc *d, int32_t threads, attn__task task, void *arg, int64_t n) {
    attn__wrapped work = {task, arg};
    if (!ATTN__PARALLEL || n <= 1 || threads <= 1 || attn__inside) {
        attn__serial(attn__run_inside, &work, n);
        return;
    }
    if (d->pool) {
        d->pool->run(d->pool->user, attn__run_inside, &work, n);
        return;
    }
#if defined(ATTN_NO_THREADS)
    attn__serial(attn__run_inside, &work, n);
#elif ATTN__POOL
    attn__pool_run(&work, n, threads);
#elif ATTN__PARALLEL
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t i = 0; i < n; i++) attn__run_inside(&work, i);
#endif
}

/* ---- a team: the host's own threads (attn_team) ----
   `word` is the number of a job, its lower 16 bits the next index of it that nobody has taken, or 65535
   while the job is written. A thread that read a job takes an index only if it still is that job. */
#define ATTN__TEAM_MOST 32767
#if ATTN__PARALLEL
#define ATTN__ADD(p) __atomic_fetch_add(p, 1, __ATOMIC_ACQ_REL)
static void attn__team_wait(uint32_t *spins) {
    ATTN__PAUSE();
#if ATTN__POSIX && !defined(ATTN_NO_THREADS)
    if (++*spins % 1024 == 0) sched_yield(); /* more threads than processors */
#else
    (void)spins;
#endif
}
static int attn__team_step(attn_team *t) {
    intptr_t word = ATTN__LOAD(&t->word);
    const intptr_t i = word & 65535, n = ATTN__LOAD(&t->n), first = ATTN__LOAD(&t->first);
    attn__task task = ATTN__LOAD(&t->task);
    void *arg = ATTN__LOAD(&t->arg);
    if (i >= n) return 0;
    if (!__atomic_compare_exchange_n(
            &t->word, &word, word + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return 1;
    task(arg, (int64_t)(first + i));
    ATTN__ADD(&t->ran);
    return 1;
}
static void attn__team_run(void *user, attn__task task, void *arg, int64_t n) {
    attn_team *t = (attn_team *)user;
    for (int64_t first = 0, count; first < n; first += count) {
        const uintptr_t number = ((uintptr_t)ATTN__LOAD(&t->word) >> 16) + 1;
        uint32_t spins = 0;
        count = attn__min(n - first, ATTN__TEAM_MOST);
        ATTN__STORE(&t->word, (intptr_t)(number << 16 | 65535));
        ATTN__STORE(&t->task, task);
        ATTN__STORE(&t->arg, arg);
        ATTN__STORE(&t->first, (intptr_t)first);
        ATTN__STORE(&t->n, (intptr_t)count);
        ATTN__STORE(&t->ran, 0);
        ATTN__STORE(&t->word, (intptr_t)((number + 1) << 16));
        while (attn__team_step(t)) {}
        while (ATTN__LOAD(&t->ran) < (intptr_t)count) attn__team_wait(&spins);
    }
}
#else
#define ATTN__ADD(p) ((*(p))++)
static void attn__team_run(void *user, attn__task task, void *arg, int64_t n) {
    (void)user;
    attn__serial(task, arg, n);
}
#endif

/* ============================================================================ >>dispatch ====
   Which ISA, how many threads, how large the caches: found once. ATTN_ISA forces an ISA,
   ATTN_BACKEND a backend, ATTN_THREADS how many threads. */
/* A tile of a product of matrices (>>tile). */
typedef void (*attn__mm)(int kind, const float *A, int64_t lda, const float *B, int64_t ldb,
    int64_t K, int64_t lead, float *C, int64_t ldc, float *x);
enum { ATTN__QK, ATTN__PV, ATTN__PV_LAST, ATTN__ATB };
/* The kernels of an ISA: the functions of >>kernel, compiled in its region. */
struct attn__rows;
struct attn__query;
struct attn__tile;
struct attn__group;
struct attn__thin;
struct attn__bwd_tile;
struct attn__bwd_how;
struct attn__adaptive;
struct attn__int16;
struct attn__coded_chunk;
struct attn__int16_group;
struct attn__listed;
struct attn__decode;
struct attn__bwd;
struct attn__std;
typedef struct attn__kernels {
    const char *name; /* of the ISA */
    int64_t W, MR, NV;
    /* thin reads narrow types where they lie, of dims that are a multiple of this; 0: it does not */
    int narrow_dims;
    const attn__mm *mm, *mm_bf16; /* [NV][MR]: vectors - 1, rows - 1; NULL: no products of bf16 */
    void (*tile_dots_long)(int64_t vectors, int64_t rows, const float *A, int64_t lda,
        const float *B, int64_t ldb, int64_t K, float *C, int64_t ldc, float *x);
    void (*mm_columns)(int kind, int64_t rows, int pairs, const float *A, int64_t lda,
        const float *B, int64_t ldb, int64_t K, int64_t lead, float *C, int64_t ldc,
        int64_t columns, float *x);
    void (*pack_k)(float *dst, const attn_desc *d, const attn__sequence_view *s, const attn_in *t,
        int64_t h, int64_t dim, int64_t j0, int64_t j1);
    void (*pack_single_k)(
        float *dst, const attn_desc *d, const attn__sequence_view *s, int64_t h, int64_t j);
    int (*pack_v)(float *dst, int64_t pad, const attn_desc *d, const attn__sequence_view *s,
        const attn_in *t, int64_t h, int64_t dim, int64_t j0, int64_t j1);
    void (*pack_q)(
        float *dst, const attn_desc *d, const attn__sequence_view *s, int64_t i, int64_t h);
    /* of bf16 as it is, or NULL */
    void (*pack_k_pairs)(float *dst, const attn_desc *d, const attn__sequence_view *s,
        const attn_in *t, int64_t h, int64_t dim, int64_t j0, int64_t j1);
    void (*pack_single_pairs)(
        float *dst, const attn_desc *d, const attn__sequence_view *s, int64_t h, int64_t j);
    int (*pack_v_pairs)(float *dst, int64_t pad, const attn_desc *d, const attn__sequence_view *s,
        int64_t h, int64_t j0, int64_t j1);
    void (*pairs_of_row)(float *P, int64_t c0, int64_t c1);
    float (*largest_v)(
        const attn_desc *d, const attn__sequence_view *s, int64_t h, int64_t j0, int64_t j1);
    int (*rows_bad)(const float *p, int64_t stride, int64_t n, int64_t dim);
    int (*bias_hides)(const attn_desc *d, int64_t at, int64_t n);
    void (*seen_row)(const struct attn__query *q, int pairs, const float *P, int64_t kb,
        const float *V, int64_t ldv, float *O, int64_t columns, float alpha);
    void (*finish)(const struct attn__rows *u, const struct attn__tile *t, int64_t r0, int64_t r1);
    float (*fma1)(float a, float b, float c);
    void (*exp2_pair)(float *a, float *b);
    void (*join)(const struct attn__rows *u, struct attn__tile *t, const float *O, const float *max,
        const float *sum);
    void (*group_scores)(const struct attn__group *g, float *max);
    void (*group_softmax)(const struct attn__group *g, float *max, float *alpha);
    int (*thin_moderate)(const float *x, int64_t n, float least);
    void (*thin_scale)(float *S, const float *scale, int64_t n);
    void (*thin_widen)(struct attn__thin *m, const float *scale, float *dst);
    void (*thin_dots)(const struct attn__thin *m);
    void (*thin_scores)(const struct attn__group *g, float *max);
    void (*thin_columns)(const struct attn__thin *m);
    void (*backward_rows)(const struct attn__bwd *job, const attn__sequence_view *s,
        int64_t kv_head, int64_t row0, int64_t rows);
    void (*bwd_row)(const struct attn__bwd *job, const attn__sequence_view *s,
        const struct attn__bwd_tile *t, const struct attn__bwd_how *how, int64_t r, int64_t start,
        int64_t end);
    void (*bwd_row_whole)(const struct attn__bwd *job, const struct attn__bwd_tile *t,
        const struct attn__bwd_how *how, int64_t r, int64_t width);
    void (*add_seen)(const unsigned char *seen, int64_t count, const float *A, int64_t step,
        const float *B, int64_t ldb, float *C, int64_t columns);
    void (*bwd_store)(const struct attn__bwd *job, const attn_out *out, int64_t at,
        const float *row, int64_t dim);
    void (*bwd_outer)(const struct attn__bwd *job, const attn_out *out, int64_t at, const float *A,
        int64_t lda, const float *B, int64_t ldb, int64_t rows, int64_t keys, int64_t dim,
        float *row);
    void (*backward_dq)(const struct attn__bwd *job, const attn__sequence_view *s, int64_t kv_head,
        int64_t row0, int64_t rows);
    void (*bias_rows)(const struct attn__bwd *job, const attn__sequence_view *s,
        const struct attn__bwd_tile *t, int64_t h0, int64_t h1, int64_t first, float *out,
        float scale, int bad);
    void (*standard_softmax)(const struct attn__std *job, const attn__sequence_view *s, int64_t h,
        int64_t row0, int64_t rows, float *S, float *stats);
    void (*convert_rows)(const attn_out *dst, int64_t dst_at, int64_t dst_step, const attn_in *src,
        int64_t src_at, int64_t src_step, int64_t rows, int64_t n);
    void (*narrow)(
        void *data, int32_t dtype, int64_t at, const float *src, int64_t dim, float factor);
    /* >>int16; NULL: no products of int16 */
    void (*int16_q)(const struct attn__adaptive *job, const struct attn__rows *u,
        const struct attn__int16 *t, int bytes);
    void (*int16_keys)(const struct attn__rows *u, const struct attn__int16 *t, int64_t j,
        int64_t j1, int64_t kb, int bytes, int32_t *packed, struct attn__coded_chunk *chunk);
    void (*int16_values)(const struct attn__adaptive *job, const struct attn__rows *u,
        const struct attn__int16 *t, int64_t j0, int64_t j1, int64_t kb, int bytes,
        struct attn__coded_chunk *chunk);
    void (*int16_chunk)(const struct attn__int16_group *g, int64_t j0, int64_t kb, int64_t ke);
    void (*filter_chunk)(const struct attn__int16_group *g, int64_t j0, int64_t kb, int64_t ke);
    float (*int16_certificate)(const struct attn__adaptive *job, const struct attn__rows *u,
        const struct attn__int16 *t, int64_t r);
    float (*square)(float *x, int64_t n);
    void (*int16_left)(const float *X, int64_t n, int64_t ld, const float *step, float *E);
    void (*int16_look)(const float *S, int64_t first, int64_t last, float power, double *sums);
    /* >>decode */
    void (*decode_begin)(const struct attn__decode *p);
    void (*decode_dots_int16)(const struct attn__decode *p, const struct attn__listed *l);
    int (*decode_columns_int16)(
        const struct attn__decode *p, const struct attn__listed *l, float *O, int fresh);
    void (*decode_scores)(const struct attn__decode *p);
    double (*decode_weigh)(const struct attn__decode *p, int64_t r);
    double (*decode_limit)(const struct attn__decode *p, int64_t r);
    double (*decode_loss)(
        const struct attn__decode *p, int64_t r, float least, int64_t step, int join);
    double (*decode_rest)(const struct attn__decode *p, int64_t r, double all);
    int (*decode_whole_chunks)(const struct attn__decode *p);
    void (*decode_correct)(const struct attn__decode *p, const struct attn__listed *l, int64_t j0);
    void (*decode_gather)(
        const struct attn__decode *p, const struct attn__listed *l, int64_t j0, float unit);
    void (*decode_sums)(const struct attn__decode *p, int64_t r, int64_t j0, int64_t n, double *to);
    float (*decode_certify)(const struct attn__decode *p, int64_t r, double *sum);
#ifndef ATTN_NO_TIMING
    float (*fma_chain)(int64_t n); /* n times 2 * W flops in MR * NV chains */
    float (*read)(const float *p, int64_t n);
#endif
} attn__kernels;

typedef struct attn__machine_info {
    const attn__kernels *isa;    /* NULL: ATTN_ISA asks for what is not there */
    int32_t processors, threads; /* how many threads where 0 are asked for */
    int64_t l2;                  /* bytes */
    uint32_t has;                /* ATTN__CPU_.. */
    char backend_name[32];
    const char *backend; /* ATTN_BACKEND or NULL */
} attn__machine_info;

/* 1, for tests: every ISA multiplies bf16 as such, by >>generic where it has no instruction */
#ifndef ATTN__ALL_BF16
#define ATTN__ALL_BF16 0
#endif
/* What an ISA may need of the processor, and row i of the table in >>isas; NULL past the last. */
enum {
    ATTN__CPU_AVX2 = 1,
    ATTN__CPU_AVX512 = 2,
    ATTN__CPU_VNNI = 4,
    ATTN__CPU_BF16 = 8,
    ATTN__CPU_FETCH_L2 = 16, /* how what decode reads is best fetched ahead */
    ATTN__CPU_STREAM = 32,   /* large copies in another order are best written past the caches */
    ATTN__CPU_ONE_FMA = 64   /* of 512 bits a cycle, beside which loads cost nothing */
};
static const attn__kernels *attn__isa_at(size_t i, uint32_t *needs);

#if ATTN__X86
static uint64_t attn__xgetbv(void) {
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}
static int attn__from_amd(void) {
    uint32_t a, b, c, d;
    return __get_cpuid(0, &a, &b, &c, &d) && b == 0x68747541; /* "Auth", enticAMD */
}
/* Whether vdpbf16ps does twice the products of an FMA, of 512 bits each: one a cycle on AMD's family
 * 19h (Zen 4), two on 1Ah (Zen 5), as many as FMAs. Intel's cores (Cooper Lake, Sapphire Rapids and
 * on) do one beside two FMAs: no more products, so f32 is as fast there. */
static int attn__fast_bf16(void) {
    uint32_t a, b, c, d;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a >> 5 & 1)) return 0;
    return attn__from_amd();
}
/* Zen 4: AMD's family 19h with AVX-512. Keys and values fetched into L2 and not into L1 make decode
 * from memory 1.1 to 1.7 times as fast (on Zen 5 0.87 times); rows that a conversion writes in another
 * order go past the caches 1.2 to 1.7 times as fast. It does one FMA of 512 bits a cycle. */
static int attn__zen4(void) {
    uint32_t a, b, c, d;
    return attn__from_amd() && __get_cpuid(1, &a, &b, &c, &d) &&
           (a >> 8 & 15) + (a >> 20 & 255) == 0x19;
}
/* AVX2 with FMA and F16C; AVX-512 F, DQ, BW, VL beside them; VNNI of 512 bits; products of bf16. All
 * need the operating system to save the registers. */
static uint32_t attn__cpu_has(int64_t *l2) {
    uint32_t a, b, c, d, c1, b7;
    if (!__get_cpuid(1, &a, &b, &c1, &d)) return 0;
    /* deterministic cache parameters: Intel, AMD */
    for (uint32_t leaf = 4; leaf; leaf = leaf == 4 ? 0x8000001du : 0)
        for (uint32_t i = 0; i < 8 && __get_cpuid_count(leaf, i, &a, &b, &c, &d) && (a & 31); i++)
            if ((a >> 5 & 7) == 2)
                *l2 = (int64_t)((b >> 22) + 1) * ((b >> 12 & 0x3ff) + 1) * ((b & 0xfff) + 1) *
                      ((int64_t)c + 1);
    /* OSXSAVE, AVX, FMA, F16C */
    const uint32_t need = 1u << 27 | 1u << 28 | 1u << 12 | 1u << 29;
    if ((c1 & need) != need || (attn__xgetbv() & 6) != 6) return 0;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c, &d) || !(b7 >> 5 & 1)) return 0;
    const uint32_t avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
    const int all = (b7 & avx512) == avx512 && (attn__xgetbv() & 0xe6) == 0xe6;
    return ATTN__CPU_AVX2 | (all ? ATTN__CPU_AVX512 : 0) |
           (all && (c >> 11 & 1) ? ATTN__CPU_VNNI : 0) |
           (all && attn__fast_bf16() ? ATTN__CPU_BF16 : 0) |
           (all && attn__zen4() ? ATTN__CPU_FETCH_L2 | ATTN__CPU_STREAM | ATTN__CPU_ONE_FMA : 0);
}
#else
static uint32_t attn__cpu_has(int64_t *l2) {
    (void)l2;
    return 0;
}
#endif

/* 1 to 1024 in decimal digits; 0: something else, or nothing. */
ATTN__UNUSED static int32_t attn__threads_of(const char *text) {
    int32_t n = 0;
    for (; text && *text >= '0' && *text <= '9' && n <= 1024; text++) n = n * 10 + (*text - '0');
    return text && !*text && n <= 1024 ? n : 0;
}
static void attn__machine_read(attn__machine_info *m) {
#ifdef ATTN_NO_GETENV
    const char *isa = NULL, *backend = NULL;
#else
    const char *isa = getenv("ATTN_ISA"), *backend = getenv("ATTN_BACKEND");
#endif
    memset(m, 0, sizeof *m);
    m->l2 = 1 << 20;
    m->processors = m->threads = attn__cpu_count();
#if ATTN__PARALLEL && !defined(ATTN_NO_THREADS) && !defined(ATTN_NO_GETENV)
    const int32_t threads = attn__threads_of(getenv("ATTN_THREADS"));
    if (threads) m->threads = threads;
#endif
    const uint32_t has = m->has = attn__cpu_has(&m->l2);
    const attn__kernels *k;
    uint32_t needs;
    for (size_t i = 0; !m->isa && (k = attn__isa_at(i, &needs)) != NULL; i++)
        if ((needs & ~has) == 0 && (!isa || !*isa || !strcmp(k->name, isa))) m->isa = k;
    if (!backend || !*backend) return;
    attn__write(m->backend_name, sizeof m->backend_name, 0,
        strlen(backend) < sizeof m->backend_name ? backend : "(too long)");
    m->backend = m->backend_name;
}
static attn__machine_info attn__machine_known;
static int attn__machine_claimed, attn__machine_ready, attn__registering;
#if ATTN__POOL && ATTN__POSIX
/* Who was at one of these in the parent is not there in the child. */
static void attn__in_child(void) {
    attn__after_fork();
    attn__machine_claimed = attn__machine_ready;
    attn__registering = 0;
}
/* Before anybody can be: threads that come here together have it called more than once. */
static void attn__survive_fork(void) {
    static int known;
    if (!ATTN__LOAD(&known) && !pthread_atfork(NULL, NULL, attn__in_child)) ATTN__STORE(&known, 1);
}
#else
static void attn__survive_fork(void) {}
#endif
ATTN__NOINLINE void attn__machine_once(void) {
    attn__survive_fork();
    if (ATTN__CLAIM(&attn__machine_claimed)) {
        attn__machine_read(&attn__machine_known);
        ATTN__STORE(&attn__machine_ready, 1);
    }
    while (!ATTN__LOAD(&attn__machine_ready)) {}
}
ATTN__INLINE const attn__machine_info *attn__machine(void) {
    if (!ATTN__LOAD(&attn__machine_ready)) attn__machine_once();
    return &attn__machine_known;
}

/* ============================================================================== >>public ==== */
/* Further down: >>backends, >>layout, >>merge. */
static attn_status attn__try_plan(
    const attn_backend *b, const attn_desc *d, const attn_grad *g, attn_plan *plan);
static attn_status attn__choose(
    const attn_desc *d, const attn_grad *g, attn_plan *plan, const attn_backend **chosen);
enum { ATTN__CONVERTS, ATTN__MERGES, ATTN__JOINS };
static attn_status attn__on_device(const attn_desc *where, int what, const attn_backend **found);
static void attn__convert(const int64_t shape[4], const attn_in *src, const attn_out *dst,
    int64_t elements, const attn_desc *where);
static void attn__merge(
    const attn_desc *d, int64_t parts, const attn_in *o, const float *const *lse);

static attn_status attn__tell(const attn_desc *d, attn_status s, const char *why) {
    if (!d || !d->message || !d->message_size) return s;
    size_t at = attn__write(d->message, d->message_size, 0, s ? attn_status_text(s) : "");
    if (!s || !*why) return s;
    at = attn__write(d->message, d->message_size, at, ": ");
    attn__write(d->message, d->message_size, at, why);
    return s;
}

static void attn__write_refused(const attn__refused *at, char *to, size_t size) {
    if (ATTN__SMALL) return;
    size_t n = attn__write(to, size, 0, at->what ? at->what : "");
    if (at->what && at->other) attn__write(to, size, attn__write(to, size, n, " and "), at->other);
    if (!at->what || at->other || at->entry < 0) return;
    n = attn__write_number(to, size, attn__write(to, size, n, "["), (uint64_t)at->entry, 0);
    attn__write(to, size, n, "]");
}
/* The same of a description that is refused. */
static attn_status attn__tell_refused(const attn_desc *d, attn_status s, const attn__refused *at) {
    char why[64] = "";
    attn__write_refused(at, why, sizeof why);
    return attn__tell(d, s, why);
}

/* cert and statistics of a call that was computed exactly: by another backend than adaptive. */
static void attn__tell_exact(const attn_desc *d, const attn_backend *b);
/* In a workspace of its own. */
static attn_status attn__run_allocated(
    const attn_backend *b, attn_desc *d, const attn_grad *g, const attn_plan *plan) {
    const int cancel = attn__cancel_never();
    attn_status s = d->alloc ? ATTN_ERR_MEMORY : ATTN__NO_MEMORY;
    d->workspace = attn__get(d->alloc, plan->workspace_size);
    if (d->workspace) s = b->run(b->user, d, g, plan);
    attn__put(d->alloc, d->workspace, plan->workspace_size);
    attn__cancel_as(cancel);
    return s;
}
static attn_status attn__checked_call(const attn_desc *in, const attn_grad *gin, attn_plan *plan) {
    attn_desc d;
    attn_grad g;
    const attn_backend *b;
    attn__refused at;
    attn_status s = attn__resolve(in, gin, &d, &g, &at);
    const attn_grad *gp = gin ? &g : NULL;
    if (!s) {
        ATTN__TRY(attn__choose(&d, gp, plan, &b));
        s = attn__check_data(&d, gp, &at);
    }
    if (s) {
        attn__write_refused(&at, plan->why, sizeof plan->why);
        return s;
    }
    if (d.workspace) {
        ATTN__RULE(d.workspace_size >= plan->workspace_size, ERR_WORKSPACE_SMALL);
        ATTN__TRY(b->run(b->user, &d, gp, plan));
    } else if (plan->workspace_size && !(d.flags & ATTN_DEVICE)) {
        ATTN__TRY(attn__run_allocated(b, &d, gp, plan));
    } else {
        ATTN__TRY(b->run(b->user, &d, gp, plan));
    }
    attn__tell_exact(&d, b);
    return ATTN_OK;
}

/* Rounding mode, FTZ and DAZ of the host do not reach the library: not even its constants. */
static attn_status attn__call(const attn_desc *in, const attn_grad *gin, attn_plan *plan) {
    uint64_t fp = attn__fp_enter(0);
    attn_status s = attn__checked_call(in, gin, plan);
    attn__fp_leave(fp);
    return s;
}

ATTN_API attn_status attn_forward(const attn_desc *d) {
    attn_plan plan;
    plan.why[0] = 0;
    return attn__tell(d, attn__call(d, NULL, &plan), plan.why);
}
ATTN_API attn_status attn_backward(const attn_desc *d, const attn_grad *g) {
    attn_plan plan;
    plan.why[0] = 0;
    if (!ATTN__BACKWARD) return attn__tell(d, ATTN_ERR_NO_BACKWARD, "");
    return attn__tell(d,
        g   ? attn__call(d, g, &plan)
        : d ? ATTN_ERR_NULL_GRAD
            : ATTN_ERR_NULL_DESC,
        plan.why);
}

/* One thread's share of a call; g NULL: forward. */
static attn_status attn__team_call(
    const attn_desc *d, const attn_grad *g, int backward, attn_team *t) {
    if (!t || t->threads < 1 || t->threads > (ATTN__PARALLEL ? ATTN__TEAM_MOST : 1))
        return attn__tell(d, ATTN_ERR_TEAM, "");
    if (ATTN__ADD(&t->came) == 0) {
        const attn_pool pool = {attn__team_run, t, t->threads};
        attn_desc led;
        if (d) led = *d, led.pool = &pool;
        t->status = backward ? attn_backward(d ? &led : NULL, g) : attn_forward(d ? &led : NULL);
        ATTN__STORE(&t->over, 1);
    }
#if ATTN__PARALLEL
    for (uint32_t spins = 0; !ATTN__LOAD(&t->over);)
        if (!attn__team_step(t)) attn__team_wait(&spins);
#endif
    const attn_status s = t->status;
    if (ATTN__ADD(&t->went) + 1 == t->threads) { /* the last leaves all as it was */
        t->over = t->went = t->n = 0;
        ATTN__STORE(&t->came, 0);
    }
    return s;
}
ATTN_API attn_status attn_forward_team(const attn_desc *d, attn_team *team) {
    return attn__team_call(d, NULL, 0, team);
}
ATTN_API attn_status attn_backward_team(const attn_desc *d, const attn_grad *g, attn_team *team) {
    return attn__team_call(d, g, 1, team);
}

static void attn__plan_nothing(attn_plan *plan) {
    memset(plan, 0, sizeof *plan);
    plan->backend = plan->kernel = plan->isa = "";
}
static attn_status attn__query_call(const attn_desc *in, const attn_grad *gin, attn_plan *plan) {
    attn_desc d;
    attn_grad g;
    attn_plan other;
    const attn_backend *chosen, *b;
    if (!plan) return attn__tell(in, ATTN_ERR_QUERY_NULL, "");
    attn__plan_nothing(plan);
    if (!ATTN__BACKWARD && gin) return attn__tell(in, ATTN_ERR_NO_BACKWARD, "");
    attn__refused at;
    attn_status s = attn__resolve(in, gin, &d, &g, &at);
    if (!s && !attn__machine()->isa) s = ATTN_ERR_ISA;
    if (s) return attn__tell_refused(in, s, &at);
    const attn_grad *gp = gin ? &g : NULL;
    s = attn__choose(&d, gp, plan, &chosen);
    attn__tell(in, s, plan->why);
    if (s) attn__plan_nothing(plan);
    if (s == ATTN_ERR_BACKEND_UNKNOWN || s == ATTN_ERR_TOLERANCE_OTHER)
        return s; /* nobody was asked */
    plan->why[0] = 0;
    size_t used = 0;
    for (int32_t i = 0; (b = attn_backend_at(i)) != NULL; i++) {
        if (attn__try_plan(b, &d, gp, &other) == ATTN_OK) continue;
        const char *line[] = {b->name, ": ", other.why, "\n"};
        for (int k = 0; k < 4; k++) used = attn__write(plan->why, sizeof plan->why, used, line[k]);
    }
    return s;
}
ATTN_API attn_status attn_query(const attn_desc *in, const attn_grad *gin, attn_plan *plan) {
    uint64_t fp = attn__fp_enter(0);
    attn_status s = attn__query_call(in, gin, plan);
    attn__fp_leave(fp);
    return s;
}

ATTN_API int32_t attn_threads(void) { return attn__machine()->threads; }
#if ATTN__POOL
static int32_t attn__processors(void) { return attn__machine()->processors; }
#endif
ATTN_API const char *attn_isa(void) {
    return attn__machine()->isa ? attn__machine()->isa->name : "none";
}

static attn_status attn__check_parallel(const attn_desc *where, attn__task task, int64_t n) {
    ATTN__RULE(where, ERR_NULL_DESC);
    ATTN__RULE(task && n >= 0, ERR_PARALLEL);
    ATTN__RULE(where->threads >= 0, ERR_THREADS);
    ATTN__RULE(!where->pool || (where->pool->run && where->pool->threads >= 1), ERR_POOL);
    return ATTN_OK;
}
ATTN_API attn_status attn_parallel(
    const attn_desc *where, void (*task)(void *arg, int64_t i), void *arg, int64_t n) {
    const attn_status s = attn__check_parallel(where, task, n);
    if (s) return attn__tell(where, s, "");
    attn__parallel(where, attn__threads_for(where), task, arg, n);
    return ATTN_OK;
}

/* Whether part p overlaps no output and has what a part needs; e: its extent. */
static attn_status attn__check_part(const attn_desc *d, const int64_t *e, const attn__span *out,
    const attn_in *o, const float *lse) {
    const int64_t rows = e[0] * e[1] * d->heads;
    attn_in t = *o;
    attn__span part[2];
    if (attn__resolve_in(&t, e, d->v_dim, ATTN_ERR_MERGE_O) || (!t.data && rows))
        return ATTN_ERR_MERGE_O;
    ATTN__RULE(lse || !rows, ERR_MERGE_LSE);
    ATTN__RULE((uintptr_t)lse % 4 == 0, ERR_ALIGN);
    attn__span_of(&part[0], t.data, t.stride, e, d->v_dim, t.dtype);
    attn__span_flat(&part[1], lse, rows * 4);
    for (int i = 0; i < 2; i++) ATTN__RULE(part[i].first <= part[i].last, ERR_ADDRESS);
    for (int i = 0; i < 4; i++) ATTN__RULE(attn__disjoint(&out[i / 2], &part[i % 2]), ERR_OVERLAP);
    return ATTN_OK;
}
static attn_status attn__check_merge(const attn_desc *d, int64_t parts, const attn_in *o,
    const float *const *lse, attn__refused *at) {
    int64_t e[3];
    attn__span out[2], sink;
    attn__extent_q(d, e);
    const int64_t rows = e[0] * e[1] * d->heads;
    ATTN__RULE(parts >= 0 && (parts == 0 || (o && lse)), ERR_MERGE_PARTS);
    ATTN__RULE(d->o.data || !rows, ERR_NULL_O);
    attn__span_of(&out[0], d->o.data, d->o.stride, e, d->v_dim, d->o.dtype);
    attn__span_flat(&out[1], d->lse, rows * 4);
    attn__span_flat(&sink, d->sink, d->heads * 4);
    for (int i = 0; i < 2; i++) ATTN__RULE(out[i].first <= out[i].last, ERR_ADDRESS);
    ATTN__RULE(sink.first <= sink.last, ERR_ADDRESS);
    ATTN__RULE(attn__disjoint(&out[0], &out[1]), ERR_OVERLAP);
    for (int i = 0; i < 2; i++) ATTN__RULE(attn__disjoint(&out[i], &sink), ERR_OVERLAP);
    for (int64_t p = 0; p < parts; p++) {
        ATTN__ENTRY(at, p);
        ATTN__TRY_OF(at, "parts", attn__check_part(d, e, out, &o[p], lse[p]));
    }
    return ATTN_OK;
}
static attn_status attn__merge_call(
    const attn_desc *in, int64_t parts, const attn_in *o, const float *const *lse) {
    attn_desc d;
    const attn_backend *device = NULL;
    attn__refused at;
    attn_status s = attn__resolve(in, NULL, &d, NULL, &at);
    if (!s && !attn__machine()->isa) s = ATTN_ERR_ISA;
    if (!s && d.tolerance > 0) s = ATTN_ERR_TOLERANCE_MERGE;
    if (!s && (d.flags & ATTN_DEVICE)) s = attn__on_device(&d, ATTN__MERGES, &device);
    if (!s) s = attn__check_merge(&d, parts, o, lse, &at);
    if (!s && device) return device->merge(device->user, &d, parts, o, lse);
    if (!s) attn__merge(&d, parts, o, lse);
    return attn__tell_refused(in, s, &at);
}
ATTN_API attn_status attn_merge(
    const attn_desc *in, int64_t parts, const attn_in *o, const float *const *lse) {
    uint64_t fp = attn__fp_enter(0);
    attn_status s = attn__merge_call(in, parts, o, lse);
    attn__fp_leave(fp);
    return s;
}

static attn_status attn__convert_call(
    const int64_t shape[4], attn_in src, attn_out dst, const attn_desc *where, attn__refused *at) {
    int64_t elements = 1;
    if (!ATTN__CONVERT) return ATTN_ERR_NO_CONVERT;
    ATTN__RULE(shape && shape[0] >= 0 && shape[1] >= 0 && shape[2] >= 0 && shape[3] >= 0,
        ERR_CONVERT_SHAPE);
    const attn_backend *device = NULL;
    if (where->flags & ATTN_DEVICE) {
        ATTN__TRY(attn__on_device(where, ATTN__CONVERTS, &device));
        ATTN__RULE(where->device >= 0, ERR_DEVICE_INDEX);
    }
    ATTN__RULE(where->threads >= 0, ERR_THREADS);
    ATTN__RULE(!where->pool || (where->pool->run && where->pool->threads >= 1), ERR_POOL);
    ATTN__RULE(attn__machine()->isa, ERR_ISA);
    ATTN__TRY_OF(at, "src", attn__resolve_in(&src, shape, shape[3], ATTN_ERR_CONVERT_DTYPE));
    ATTN__TRY_OF(at, "dst", attn__resolve_out(&dst, shape, shape[3], ATTN_ERR_CONVERT_DTYPE));
    ATTN__RULE_OF(
        at, "src", attn__whole_blocks(src.dtype, src.stride, shape, shape[3]), ERR_BLOCKS);
    ATTN__RULE_OF(
        at, "dst", attn__whole_blocks(dst.dtype, dst.stride, shape, shape[3]), ERR_BLOCKS);
    ATTN__RULE_OF(at, "src", !device || attn__is_float(src.dtype), ERR_CONVERT_DTYPE);
    ATTN__RULE_OF(at, "dst", !device || attn__is_float(dst.dtype), ERR_CONVERT_DTYPE);
    for (int a = 0; a < 4; a++)
        ATTN__RULE(!attn__mul_overflows(elements, shape[a], &elements), ERR_OVERFLOW);
    if (elements == 0) return ATTN_OK;
    ATTN__RULE_OF(at, "src", src.data, ERR_CONVERT_NULL);
    ATTN__RULE_OF(at, "dst", dst.data, ERR_CONVERT_NULL);
    attn__span from, to;
    attn__span_of(&from, src.data, src.stride, shape, shape[3], src.dtype);
    attn__span_of(&to, dst.data, dst.stride, shape, shape[3], dst.dtype);
    ATTN__RULE_OF(at, "src", from.first <= from.last, ERR_ADDRESS);
    ATTN__RULE_OF(at, "dst", to.first <= to.last, ERR_ADDRESS);
    ATTN__RULE(attn__disjoint(&from, &to), ERR_OVERLAP);
    if (device) {
        attn_desc all = *where;
        all.flags &= ~(uint32_t)ATTN_ACCUMULATE;
        return device->convert(device->user, shape, &src, &dst, &all);
    }
    attn__convert(shape, &src, &dst, elements, where);
    return ATTN_OK;
}
ATTN_API attn_status attn_convert(
    const int64_t shape[4], attn_in src, attn_out dst, const attn_desc *where) {
    attn__refused at = attn__nowhere;
    attn_desc all;
    memset(&all, 0, sizeof all);
    const attn_status s = attn__convert_call(shape, src, dst, where ? where : &all, &at);
    return attn__tell_refused(where, s, &at);
}

/* ============================================================================ >>backends ==== */
/* The built-in ones, each in a room of its own: >>flash, >>adaptive, >>standard, >>reference. */
static attn_status attn__flash_plan(
    void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan);
static attn_status attn__flash_run(
    void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan);
#if ATTN__ADAPTIVE
static attn_status attn__adaptive_plan(
    void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan);
static attn_status attn__adaptive_run(
    void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan);
#endif
#ifndef ATTN_NO_STANDARD
static attn_status attn__standard_plan(
    void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan);
static attn_status attn__standard_run(
    void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan);
#endif
#ifndef ATTN_NO_REFERENCE
static attn_status attn__ref_plan(
    void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan);
static attn_status attn__ref_run(
    void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan);
#endif

typedef struct attn__entry {
    attn_backend b;
    char name[32];
} attn__entry;
static attn__entry attn__registered[16];
static int32_t attn__registered_count;
static const char *attn__default_name; /* points into the registry or a built-in */

static const attn_backend attn__builtin[] = {
    {"flash", ATTN_ABI, attn__flash_plan, attn__flash_run, NULL, NULL, NULL, NULL, NULL},
#if ATTN__ADAPTIVE
    {"adaptive", ATTN_ABI, attn__adaptive_plan, attn__adaptive_run, NULL, NULL, NULL, NULL, NULL},
#endif
#ifndef ATTN_NO_STANDARD
    {"standard", ATTN_ABI, attn__standard_plan, attn__standard_run, NULL, NULL, NULL, NULL, NULL},
#endif
#ifndef ATTN_NO_REFERENCE
    {"reference", ATTN_ABI, attn__ref_plan, attn__ref_run, NULL, NULL, NULL, NULL, NULL},
#endif
};
#define ATTN__BUILTINS ((int32_t)(sizeof attn__builtin / sizeof *attn__builtin))

static int attn__is_builtin(const attn_backend *b) {
    int found = 0;
    for (int32_t i = 0; i < ATTN__BUILTINS; i++) found |= b == &attn__builtin[i];
    return found;
}

/* Automatic choice: the first that takes the call. Never by length, never by a timing. */
static const struct {
    uint32_t device;
    int tolerance; /* only where there is one */
    const char *name;
} attn__auto_table[] = {
    {ATTN_DEVICE, 0, "hip"},
    {0, 1, "adaptive"},
    {0, 0, "flash"},
    {0, 0, "standard"},
    {0, 0, "reference"},
};

ATTN_API const attn_backend *attn_backend_at(int32_t i) {
    if (i < 0) return NULL;
    if (i < ATTN__BUILTINS) return &attn__builtin[i];
    i -= ATTN__BUILTINS;
    return i < ATTN__LOAD(&attn__registered_count) ? &attn__registered[i].b : NULL;
}
ATTN_API const attn_backend *attn_backend_find(const char *name) {
    const attn_backend *b;
    for (int32_t i = 0; name && (b = attn_backend_at(i)) != NULL; i++)
        if (b->name == name || !strcmp(b->name, name)) return b;
    return NULL;
}
ATTN_API attn_status attn_register(const attn_backend *b) {
    attn_status s = ATTN_OK;
    ATTN__RULE(b && b->name && b->plan && b->run, ERR_REGISTER_NULL);
    ATTN__RULE(b->abi == ATTN_ABI, ERR_REGISTER_ABI);
    ATTN__RULE(
        *b->name && strlen(b->name) < sizeof attn__registered[0].name && strcmp(b->name, "auto"),
        ERR_REGISTER_NAME);
    attn__survive_fork();
    while (!ATTN__CLAIM(&attn__registering)) {}
    int32_t n = attn__registered_count;
    if (attn_backend_find(b->name)) s = ATTN_ERR_REGISTER_NAME;
    else if (n == (int32_t)(sizeof attn__registered / sizeof *attn__registered))
        s = ATTN_ERR_REGISTER_FULL;
    else {
        attn__entry *e = &attn__registered[n];
        e->b = *b;
        memcpy(e->name, b->name, strlen(b->name) + 1);
        e->b.name = e->name;
        ATTN__STORE(&attn__registered_count, n + 1);
    }
    ATTN__STORE(&attn__registering, 0);
    return s;
}
ATTN_API attn_status attn_set_default(const char *name) {
    const attn_backend *b = NULL;
    if (name && strcmp(name, "auto")) {
        b = attn_backend_find(name);
        ATTN__RULE(b, ERR_BACKEND_UNKNOWN);
    }
    ATTN__STORE(&attn__default_name, b ? b->name : NULL);
    return ATTN_OK;
}

static attn_status attn__try_plan(
    const attn_backend *b, const attn_desc *d, const attn_grad *g, attn_plan *plan) {
    plan->backend = b->name;
    plan->kernel = plan->isa = "";
    plan->workspace_size = 0;
    plan->threads = plan->splits = 1;
    plan->why[0] = 0;
    return b->plan(b->user, d, g, plan);
}

/* The name that is asked for; NULL: none. That in the description goes before the environment's,
 * that before attn_set_default's. */
static const char *attn__name_asked(const attn_desc *d) {
    const char *name = d->backend && strcmp(d->backend, "auto") ? d->backend : NULL;
    if (!name && !d->backend) name = attn__machine()->backend;
    if (!name && !d->backend) name = ATTN__LOAD(&attn__default_name);
    return name && strcmp(name, "auto") ? name : NULL;
}
static attn_status attn__named(const attn_desc *d, const attn_backend **named) {
    const char *name = attn__name_asked(d);
    *named = NULL;
    ATTN__RULE(attn__machine()->isa, ERR_ISA);
    if (!name) return ATTN_OK;
    ATTN__RULE((*named = attn_backend_find(name)) != NULL, ERR_BACKEND_UNKNOWN);
    return ATTN_OK;
}
/* The one function that chooses: for running, for the workspace and for attn_query. A name goes
 * before the table. A backend that was named and declines is an error. */
static attn_status attn__choose(
    const attn_desc *d, const attn_grad *g, attn_plan *plan, const attn_backend **chosen) {
    const attn_status named = attn__named(d, chosen);
    if (!ATTN__SMALL && named == ATTN_ERR_BACKEND_UNKNOWN)
        attn__write(plan->why, sizeof plan->why, 0, attn__name_asked(d));
    if (named) return named;
    if (*chosen) {
        /* those of this file say how exact they are */
        ATTN__RULE(!(d->tolerance > 0) || attn__is_builtin(*chosen), ERR_TOLERANCE_OTHER);
        return attn__try_plan(*chosen, d, g, plan);
    }
    attn_status last = d->flags & ATTN_DEVICE ? ATTN_ERR_DEVICE : ATTN_ERR_DECLINED;
    for (size_t i = 0; i < sizeof attn__auto_table / sizeof *attn__auto_table; i++) {
        if (attn__auto_table[i].device != (d->flags & ATTN_DEVICE)) continue;
        if (attn__auto_table[i].tolerance && !(d->tolerance > 0)) continue;
        const attn_backend *b = attn_backend_find(attn__auto_table[i].name);
        if (!b) continue;
        attn_status s = attn__try_plan(b, d, g, plan);
        if (s == ATTN_OK) {
            *chosen = b;
            return s;
        }
        /* standard needs more than flash, and nobody asked for loops in f64 */
        if (s == ATTN_ERR_SIZE && !attn__auto_table[i].tolerance) return s;
        last = s;
    }
    return last;
}

/* ================================================================================= >>plan ====
   What the plans of flash, standard and backward share: how scores are held, which calls they
   decline, how many threads are worth waking. */
/* For attn_bench --tune and --ablate, which include the implementation: other tile sizes than
 * those of >>flash and >>gradients, and optimizations turned off; for the tests the last. All 0
 * otherwise. Not for use while calls run. */
static struct attn__tuning {
    /* rows a unit, a multiple of 48; keys a block, a multiple of 64 dividing 1024 */
    int64_t BM, BN;
    int64_t BK;     /* backward: keys and rows a block, a multiple of 64 up to 256 */
    int v_in_place; /* V is read where it lies where that is possible */
    int no_splits;  /* keys are not split across threads */
    int no_flush;   /* denormal p are computed as such */
    int no_bf16;    /* bf16 is multiplied as f32 */
    int spectrum;   /* what is computed from codes is always bounded by singular values too */
    int filter;     /* keys are left out where that does not pay, too */
} attn__tuning;

/* Scores as the kernels hold them: `natural` times one is the score of the manual, `exp2` times one
 * its power of 2. Beside softcap, bias, mask or ALiBi they are held divided by 4, so that no sum of
 * finite terms leaves f32; else they are the products of q and k as they come. */
typedef struct attn__unit {
    float exp2;
    double natural;
} attn__unit;
#define ATTN__HELD 0.25f
#define ATTN__LOG2E 1.44269504088896341

static attn__unit attn__score_unit(const attn_desc *d, int extras) {
    attn__unit unit = {4 * (float)ATTN__LOG2E, 4};
    if (extras) return unit;
    unit.exp2 = (float)((double)d->scale * ATTN__LOG2E);
    unit.natural = (double)d->scale;
    return unit;
}
/* A power of 2 beyond 2^16, infinite or NaN: its rounding alone would be seen in exp2. */
ATTN__INLINE int attn__far(float power) { return (attn__bits(power) & 0x7fffffff) >= 0x47800000u; }
/* Sums relative to a maximum `from` are 2^(this) times those relative to `to`, from <= to. A
 * maximum is a score as held; sums are relative to its power of 2 in f32, or to itself where
 * that is far. */
ATTN__INLINE float attn__rescale(float from, float to, float exp2) {
    float power = attn__product(to, exp2);
    if (attn__bits(to) == 0xff800000u) return ATTN__NEG_INF;
    return attn__far(power) ? (from - to) * exp2 : attn__product(from, exp2) - power;
}
/* The score that sums are relative to. */
static double attn__row_top(float max, attn__unit unit) {
    float power = attn__product(max, unit.exp2);
    return attn__far(power) ? (double)max * unit.natural : (double)power / ATTN__LOG2E;
}
/* A softcap of 2^100 and more changes no score that f32 can tell from the rest. As bits: below
 * 2^-126 it would count as 0, and so as none, while denormals are flushed. */
ATTN__INLINE int attn__capped(const attn_desc *d) {
    return attn__bits(d->softcap) << 1 != 0 && attn__bits(d->softcap) < 0x71800000u;
}
/* scale / softcap, finite: times a score of 0 it must stay 0. A product is multiplied by *first
 * before: the ratio alone could be subnormal. */
ATTN__INLINE float attn__cap_ratio(const attn_desc *d, float *first) {
    const uint32_t bits = attn__bits(d->softcap);
    double cap = bits < 0x00800000u ? (double)bits * 1.4012984643248171e-45 : (double)d->softcap,
           r = (double)d->scale / cap, most = 3.4028234663852886e38, least = 1.0842021724855044e-19;
    *first = 1;
    /* 2^-63, and once more: products that this makes 0 have scores that are */
    for (int n = 0; n < 2 && (attn__bits((float)r) & 0x7fffffffu) < 0x00800000u; n++) {
        *first *= (float)least;
        r /= least;
    }
    return (float)(r > most ? most : r < -most ? -most : r);
}

/* Keys, of which products with V are summed from zero, dims, of which products with K are, and blocks,
 * of which sums are: what is added to one long f32 sum gets lost in its last place. Longer sequences
 * are summed in f64. */
#define ATTN__SUM_KEYS 128
#define ATTN__SUM_DIMS 64
#define ATTN__LONG_DIMS 4096 /* so many dims at a time, where there are more */
#define ATTN__SUM_BLOCKS 16
/* A sequence of at most so many rows is thin, of narrow types so many; keys of its blocks. */
#define ATTN__THIN_ROWS 8
#define ATTN__THIN_MOST 12
#define ATTN__THIN_FEW 5
#define ATTN__THIN_BLOCK 1024
/* kv heads of a sequence that one unit takes, where their keys lie beside each other: a power of two,
 * of so many at most, of so many rows of q and so many bytes of a key */
#define ATTN__GANG (ATTN__SMALL ? 1 : 16)
#define ATTN__GANG_ROWS 32
#define ATTN__GANG_BYTES 4096
/* Bytes of a row, in f64, where a span of keys is folded. */
static int64_t attn__span_bytes(int64_t v_pad) { return 8 * (v_pad + 1) + 4; }
/* The most rows that read keys where they lie; more are faster with keys that are packed. Measured on
 * Zen 4 by each ISA (thin products go by four rows). */
static int64_t attn__thin_rows_of(int32_t dtype, int64_t dim) {
    const int64_t W = attn__machine()->isa->W;
    const int codes = attn__is_scaled(dtype) || attn__is_blocks(dtype);
    if (W == 8 && codes) return ATTN__THIN_FEW;
    if (W < 16) return ATTN__THIN_ROWS;
    switch (dtype) {
        case ATTN_F16:
        case ATTN_BF16: return dim < 128 ? 10 : ATTN__THIN_MOST;
        case ATTN_INT8: return 10;
        case ATTN_Q8_0: return 9;
        default:        return ATTN__THIN_ROWS;
    }
}
/* pairs: what is packed is multiplied as bf16, P too. The manual (2) says how many rows round it. */
static int64_t attn__thin_rows(const attn_desc *d, int pairs) {
    if (d->head_dim > ATTN__LONG_DIMS) return 0;
    const int64_t most = attn__min(
        attn__thin_rows_of(d->k.dtype, d->head_dim), attn__thin_rows_of(d->v.dtype, d->v_dim));
    return pairs ? attn__min(most, ATTN__THIN_FEW) : most;
}
/* Floats behind a row of the score tile, so that rows do not share cache sets. */
#define ATTN__SCORE_PAD 16
/* Rows that go through a softmax together where there are at most so many keys, none of which a
 * window or causality hides. */
#define ATTN__GROUP_ROWS 16
#define ATTN__SHORT_KEYS (ATTN__SMALL ? 0 : 256)

/* What the CPU kernels do not take, for flash and standard alike. */
static attn_status attn__decline(attn_plan *plan, attn_status s, const char *why) {
    attn__write(plan->why, sizeof plan->why, 0, why);
    return s;
}
/* They compute in f32, and widen each tensor from its own type. f64 numbers would be rounded to it;
 * what is written, and o whoever reads it, may be f64. */
static attn_status attn__cpu_declines(const attn_desc *d, const attn_grad *g, attn_plan *plan) {
    if (d->flags & ATTN_DEVICE)
        return attn__decline(plan, ATTN_ERR_DEVICE, "tensors are device memory");
    const char *wide = d->q.dtype == ATTN_F64           ? "q"
                       : d->k.dtype == ATTN_F64         ? "k"
                       : d->v.dtype == ATTN_F64         ? "v"
                       : g && g->dout.dtype == ATTN_F64 ? "dout"
                                                        : NULL;
    if (!wide) return ATTN_OK;
#ifdef ATTN_NO_REFERENCE
    const char *only =
        " is f64, and only the reference computes in f64, which ATTN_NO_REFERENCE leaves out";
#else
    const char *only = " is f64, and only the reference computes in f64";
#endif
    attn__write(
        plan->why, sizeof plan->why, attn__write(plan->why, sizeof plan->why, 0, wide), only);
    return ATTN_ERR_DECLINED;
}
/* Whether the products of two types, of sums of so many dims, are those of bf16 as it is: exact, and
 * added in f32 as others are. */
static int attn__both_bf16(int32_t a, int32_t b, int64_t dim) {
    const attn__machine_info *m = attn__machine();
    return m->isa->mm_bf16 && (ATTN__ALL_BF16 || (m->has & ATTN__CPU_BF16)) &&
           !attn__tuning.no_bf16 && a == ATTN_BF16 && b == ATTN_BF16 && dim % 2 == 0 &&
           dim <= ATTN__LONG_DIMS;
}
/* Whether scores need more than the product. A scale whose product with log2 e could leave the
 * normal numbers counts too. */
static int attn__needs_extras(const attn_desc *d, int mask) {
    return attn__capped(d) || d->bias.data || mask || d->alibi ||
           !(d->scale > 7.8886091e-31f && d->scale < 1.2676506e30f);
}
/* The keys that a row of the sequence sees at most. */
static int64_t attn__keys_seen(const attn_desc *d, const attn__sequence_view *s) {
    int64_t lo, hi;
    attn__rows_see(d, s, 0, s->q_used - 1, &lo, &hi);
    if (!(d->flags & ATTN_WINDOW_LEFT) || !(d->flags & (ATTN_CAUSAL | ATTN_WINDOW_RIGHT)))
        return hi - lo;
    int64_t right = d->flags & ATTN_CAUSAL ? 0 : d->window_right;
    return attn__min(hi - lo, attn__sat_add(attn__sat_add(d->window_left, right), 1));
}
/* Whether a call of `times` the FLOPs of a forward call is worth waking threads for, of which each
 * takes 20 us to come: by the lengths that its sequences have, not by the room that they are in. */
static int attn__worth_waking(const attn_desc *d, double times) {
    const double each = 2 * times * (double)d->heads * (double)(d->head_dim + d->v_dim);
    double pairs = 0; /* of a row and a key that it may see, in one head */
    if ((double)attn__rows_total(d) * (double)d->kv_len * each < 2e6) return 0;
    const int64_t alike = attn__has_lengths(&d->seq) ? 1 : d->batch;
    for (int64_t b = 0; b < d->batch && pairs * each < 2e6; b += alike) {
        attn__sequence_view s = attn__sequence(d, b);
        pairs += (double)alike * (double)s.q_used * (double)attn__keys_seen(d, &s);
    }
    return pairs * each >= 2e6;
}
/* The threads that memory is planned for: those that the description asks for, wherever and
 * whatever the call. */
static int32_t attn__planned_threads(const attn_desc *d) {
    int32_t most = d->pool ? d->pool->threads : attn_threads();
    if (!ATTN__PARALLEL) return 1;
    if (d->threads && (!d->pool || d->threads < most)) most = d->threads;
    return (int32_t)attn__min(most, 1024);
}
static int32_t attn__useful_threads(const attn_desc *d, double times) {
    if (!ATTN__PARALLEL || !attn__worth_waking(d, times)) return 1;
    return (int32_t)attn__min(attn__threads_for(d), attn__planned_threads(d));
}
/* Whether `matrices` of all the scores fit in memory beside `fixed` bytes; *bytes:
 * what they take. */
static ATTN__UNUSED attn_status attn__scores_fit(const attn_desc *d, int64_t matrices, int64_t ld,
    int64_t fixed, int64_t *bytes, attn_plan *plan) {
    int64_t rows = attn__rows_total(d) * d->heads, memory = attn__physical_memory();
    if (memory <= 0) memory = (int64_t)(SIZE_MAX / 2); /* not known: what can be addressed */
    if (d->seq.cu_q) rows = d->batch * d->heads * d->q_len;
    if (!attn__mul_overflows(rows, 4 * matrices * ld, bytes) && *bytes <= memory / 10 * 9 - fixed)
        return ATTN_OK;
    const double need = (double)matrices * (double)rows * (double)d->kv_len * 4;
    size_t at = attn__write(plan->why, sizeof plan->why, 0, "the scores need ");
    at = attn__write_gib(plan->why, sizeof plan->why, at, need);
    at = attn__write(plan->why, sizeof plan->why, at, ", the machine has ");
    attn__write_gib(plan->why, sizeof plan->why, at, (double)memory);
    return ATTN_ERR_TOO_LARGE;
}
/* The workspace of a plan, refused where size_t cannot hold what attn__get makes of it. */
static attn_status attn__plan_bytes(attn_plan *plan, int64_t bytes) {
    if ((uint64_t)bytes <= SIZE_MAX - 4 * ATTN__ALIGN && bytes < INT64_MAX) {
        plan->workspace_size = (size_t)bytes;
        return ATTN_OK;
    }
    size_t at = attn__write(plan->why, sizeof plan->why, 0, "the workspace needs ");
    at = attn__write_gib(plan->why, sizeof plan->why, at, (double)bytes);
    attn__write(plan->why, sizeof plan->why, at, ", too many for size_t");
    return ATTN_ERR_SIZE;
}
/* The units of a job, each to the thread that takes it first; `scratch` bytes of the workspace
 * for each thread. */
typedef struct attn__share {
    void (*unit)(const void *job, int64_t u, char *scratch);
    const void *job;
    char *workspace;
    int64_t scratch, units;
    int32_t threads;
    intptr_t next;
} attn__share;
static void attn__share_task(void *arg, int64_t thread) {
    attn__share *s = (attn__share *)arg;
    uint64_t fp = attn__fp_enter(!attn__tuning.no_flush);
    for (;;) {
        int64_t u = s->threads == 1 ? s->next++ : ATTN__NEXT(&s->next); /* 4 ns less */
        if (u >= s->units) break;
        s->unit(s->job, u, s->workspace + thread * s->scratch);
    }
    attn__fp_leave(fp);
}
static void attn__share_run(const attn_desc *d, attn__share *s) {
    s->next = 0;
    if (s->units > 0) attn__parallel(d, s->threads, attn__share_task, s, s->threads);
}

/* =============================================================================== >>flash ====
   Tiled attention with an online softmax: Milakov and Gimelshein, "Online normalizer
   calculation for softmax", 2018; Dao et al., "FlashAttention", 2022. A unit of work is a tile
   of rows of one (sequence, kv head), or few rows of a gang of kv heads, against all its keys or
   one key split. Every row's arithmetic follows from the key blocks and splits of its own sequence
   alone; how rows are dealt to units and units to threads changes no bit. */
/* Further down: >>append, >>gradients. */
static int64_t attn__append_bytes(const attn_desc *d);
static void attn__append(const attn_desc *d, int32_t threads, void *workspace);
static attn_status attn__bwd_plan(
    const attn_desc *d, const attn_grad *g, int standard, attn_plan *plan);
static attn_status attn__bwd_run(const attn_desc *d, const attn_grad *g, const attn_plan *plan);

/* V is used where it lies; it is copied unless its address is a good one; it has to be copied. */
enum { ATTN__V_IN_PLACE, ATTN__V_IF_FAR, ATTN__V_COPIED };
/* What the kernels of the flash forward work on. A unit is a range of rows of one (sequence, kv
 * head): row r is query r / group of query head kv_head * group + r % group, so that a GQA group
 * shares one reading of K and V. */
typedef struct attn__flash {
    const attn_desc *d;
    int32_t threads, planned; /* that work on it; that have scratch */
    int64_t group;            /* heads / kv_heads */
    int64_t BM, BN;           /* rows a unit, keys a block */
    /* most units per (sequence, kv head): row tiles, key splits run side by side; rows of one */
    int64_t tiles, splits, rows_partial;
    int64_t gang; /* kv heads of a unit */
    int64_t thin; /* a sequence of at most so many rows is */
    /* v_dim, head_dim rounded up to whole vectors; a row of scores, padded
     * against cache aliasing */
    int64_t v_pad, q_pad, ld;
    /* keys summed in f32, then in f64; 0: no sequence is longer */
    int64_t span;
    int64_t scratch, bytes; /* of a thread; of all threads with the partials */
    attn__unit unit;
    /* scores need more than the product: softcap, bias, mask, ALiBi, scale <= 0 */
    int extras;
    /* rows are widened or gathered; otherwise used where they lie */
    int pack_q;
    int copy_v;        /* ATTN__V_.. */
    int straight_to_o; /* P V of one block may go to o as it is */
    /* of sequences that are not thin: Q K^T by products of bf16; P V, with P rounded to the nearest
     * number of these */
    int bf16_qk, bf16_pv;
    char *workspace; /* threads * scratch, then the partials of key splits */
    float *partial;  /* [batch * kv_heads][splits][rows_partial * (v_pad + 2)] */
    int64_t units;
    const struct attn__filter *filter; /* of >>adaptive: keys that are left out; NULL: none */
} attn__flash;
typedef char attn__flash_fits[sizeof(attn__flash) <= sizeof((attn_plan *)0)->own ? 1 : -1];
/* Keys a split of a sequence: a function of its own lengths and heads. Few rows and many keys
 * are cut into 16 splits at most. */
#define ATTN__SPLIT_ROWS 256
#define ATTN__SPLIT_KEYS 1024
static int64_t attn__split_keys(const attn__sequence_view *s, int64_t group) {
    if (s->q_used * group > ATTN__SPLIT_ROWS || s->k_len < 2 * ATTN__SPLIT_KEYS)
        return attn__max(s->k_len, 1);
    return ATTN__SPLIT_KEYS * attn__ceil_div(s->k_len, 16 * ATTN__SPLIT_KEYS);
}
typedef struct attn__rows { /* one unit */
    const attn__flash *job;
    attn__sequence_view s;
    int64_t kv_head, row0, rows;
    int64_t k0, k1; /* its keys */
} attn__rows;
/* Further down: >>split. */
static void attn__flash_rows(const attn__rows *u, int64_t heads, char *scratch, float *partial);
static void attn__flash_merge(
    const attn__rows *u, int64_t parts, const float *partial, char *scratch);

/* Whether the heads of a key lie farther from each other than keys do. */
static int attn__heads_apart(const attn_in *t) {
    const int64_t key = t->stride[1] < 0 ? -t->stride[1] : t->stride[1],
                  head = t->stride[2] < 0 ? -t->stride[2] : t->stride[2];
    return head >= key;
}
/* Floats of a row of scores where a sequence may be thin. */
static int64_t attn__flash_ld(const attn__flash *job) {
    const int64_t keys = attn__min(ATTN__THIN_BLOCK, attn__round_up(job->d->kv_len, 64));
    return (ATTN__SMALL ? job->BN : attn__max(job->BN, keys)) + ATTN__SCORE_PAD;
}
/* Floats for the scores of a group, whose rows are ld apart. */
static int64_t attn__scores_size(int64_t MR, int64_t ld) {
    const int64_t wide = attn__min(ld, ATTN__SHORT_KEYS + ATTN__SCORE_PAD);
    return attn__max(MR * ld, ATTN__GROUP_ROWS * wide);
}
/* Bytes of a thread for what is kept of each row of a gang: scores, O twice, Q, maxima and sums; of as
 * many rows as there may be. */
static int64_t attn__gang_bytes(const attn__flash *job) {
    const attn_desc *d = job->d;
    const int64_t rows = attn__min(attn__rows_most(d), ATTN__GANG_ROWS) * d->heads,
                  row = 4 * (attn__flash_ld(job) + 2 * (job->v_pad + 2) + job->q_pad);
    if (ATTN__SMALL || d->kv_heads == 1) return 0;
    return attn__min(rows, ATTN__GANG_ROWS) *
               (row + (job->span ? attn__span_bytes(job->v_pad) : 0)) +
           2 * ATTN__GANG * ATTN__ALIGN;
}
/* Whether so many units divide among the threads: evenly where one is like the other. */
static int attn__units_do(const attn__flash *job, int64_t units) {
    return job->threads == 1 || units >= 4 * job->threads ||
           (job->d->batch == 1 && units % job->threads == 0 && units > 0);
}
/* How many kv heads a unit takes: more than one where few rows read keys that lie head beside head,
 * which come fastest in the order of memory; packed, too, one head after the other. */
static int64_t attn__gang_of(const attn__flash *job) {
    const attn_desc *d = job->d;
    const int64_t rows = attn__rows_most(d) * job->group,
                  key = attn__max(
                      attn__bytes(d->k.dtype, d->head_dim), attn__bytes(d->v.dtype, d->v_dim));
    int64_t heads = d->kv_heads & -d->kv_heads;
    if (ATTN__SMALL || rows > attn__min(ATTN__THIN_ROWS, attn__machine()->isa->MR) ||
        job->tiles != 1 || d->k.dtype == ATTN_INT16 || d->v.dtype == ATTN_INT16 ||
        attn__heads_apart(&d->k) || attn__heads_apart(&d->v))
        return 1;
    while (heads > 1 && (heads > ATTN__GANG || heads * rows > ATTN__GANG_ROWS ||
                            heads * key > ATTN__GANG_BYTES ||
                            !attn__units_do(job, d->batch * d->kv_heads / heads * job->splits)))
        heads /= 2;
    return heads;
}
/* Bytes a thread for a tile of so many rows, with those of `second` rows of a later key split. */
static int64_t attn__tile_bytes(const attn__flash *job, int64_t rows, int64_t second) {
    int64_t BM = attn__round_up(attn__max(1, rows), 48);
    return attn__round_up(
        4 * (attn__scores_size(attn__machine()->isa->MR, attn__flash_ld(job)) +
                (BM + second) * (job->v_pad + 2) +
                job->BN * (job->d->head_dim + (job->copy_v != ATTN__V_IN_PLACE ? job->v_pad : 0)) +
                (job->pack_q ? BM * job->q_pad : 0)) +
            (job->span ? BM * attn__span_bytes(job->v_pad) : 0),
        ATTN__ALIGN);
}
/* The same, or of so few rows that they may be of a gang, where that is more. */
static int64_t attn__flash_scratch(const attn__flash *job, int64_t rows, int64_t second) {
    const int64_t few = attn__tile_bytes(job, attn__min(rows, 48), attn__min(second, 48)) +
                        attn__round_up(attn__gang_bytes(job), ATTN__ALIGN);
    return rows <= 48 ? few : attn__max(few, attn__tile_bytes(job, rows, second));
}
/* Keys whose sums are folded into f64 together; 0: all of them. */
static int64_t attn__span_keys(const attn_desc *d, int64_t BN) {
    return d->kv_len > ATTN__SUM_BLOCKS * BN ? ATTN__SUM_BLOCKS * BN : 0;
}
/* Key splits side by side only where rows alone give too few units, and only of as many rows as
 * need no more memory than many rows do: 9/16 MiB a thread for the partials. */
static void attn__splits_beside(attn__flash *job, int64_t rows, int64_t pairs) {
    const int64_t keys = job->d->kv_len, row = (job->v_pad + 2) * 4,
                  splits = attn__min(16, attn__ceil_div(keys, ATTN__SPLIT_KEYS)),
                  longest = ATTN__SPLIT_KEYS * attn__ceil_div(keys, 16 * ATTN__SPLIT_KEYS);
    attn__flash beside = *job; /* without a span, and with one where splits need it */
    int64_t side = (int64_t)job->planned * (9 << 16) / (pairs * 16 * row), one = 0;
    /* beyond 96 rows there is more than one tile, of up to 96 rows each */
    side = side > 96 + 144 ? attn__min(side - 144, ATTN__SPLIT_ROWS) : attn__min(side, 96);
    for (beside.span = 0;; beside.span = job->span) {
        const int64_t few = attn__min(rows, side);
        one = attn__flash_scratch(&beside, few, 0);
        job->bytes = attn__max(
            job->bytes, job->planned * one + (few + (few > 96 ? 144 : 0)) * pairs * splits * row);
        if (beside.span == job->span || attn__max(longest, 2 * ATTN__SPLIT_KEYS) <= job->span)
            break;
        side = attn__min(side, 96);
    }
    if (job->threads == 1 || pairs * job->tiles >= 4 * job->threads || rows > side ||
        attn__tuning.no_splits)
        return;
    job->splits = splits;
    job->scratch = one;
    job->span = beside.span;
}
/* Rows of a tile where there are more than 96: `room` bytes for them, *whole rows at most without a
 * span of keys and *cap with it. Fewer where that leaves less than two units a thread, one where
 * heads divide among the threads, four where units differ in work. */
static int64_t attn__flash_tile_rows(
    const attn__flash *job, int64_t rows, int64_t room, int64_t *cap, int64_t *whole) {
    const attn_desc *d = job->d;
    const int64_t pairs = attn__max(1, d->batch * d->kv_heads),
                  row = 4 * (job->v_pad + (job->pack_q ? job->q_pad : 0)),
                  each = /* units a thread */
                  d->flags & (ATTN_CAUSAL | ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT) ? 4
                  : job->threads % pairs                                          ? 2
                                                                                  : 1;
    *whole = attn__clamp(room / row / 48 * 48, 96, 2112);
    *cap = job->span ? room / (row + attn__span_bytes(job->v_pad)) / 48 * 48 : *whole;
    int64_t most = *cap = attn__clamp(*cap, 96, 2112);
    if (job->threads > 1) most = attn__min(most, attn__ceil_div(rows * pairs, each * job->threads));
    most = attn__max(96, most);
    return attn__ceil_div(rows, attn__ceil_div(rows, most)); /* tiles of equal size */
}
/* The workspace is planned for the largest unit and all threads that the description asks for: so it
 * is the same wherever the call is made from, and never shrinks as a length grows. */
static void attn__flash_memory(attn__flash *job, int64_t rows, int64_t cap, int64_t whole) {
    const int64_t second = job->d->kv_len >= 2 * ATTN__SPLIT_KEYS
                               ? attn__min(attn__round_up(attn__max(1, rows), 48), ATTN__SPLIT_ROWS)
                               : 0;
    job->scratch = attn__flash_scratch(job, attn__max(job->BM, attn__min(rows, cap)), second);
    if (job->span) { /* no less than for a length without a span */
        attn__flash shorter = *job;
        shorter.span = 0;
        job->scratch =
            attn__max(job->scratch, attn__flash_scratch(&shorter, attn__min(rows, whole), second));
    }
    job->planned = attn__planned_threads(job->d);
    job->bytes = job->planned * job->scratch;
}
#if ATTN__ADAPTIVE
/* Further down: >>adaptive. */
static int64_t attn__adaptive_fewer(const attn_desc *d);
static int attn__rounds_p(const attn_desc *d);
static void attn__flash_certs(const attn_desc *d, const attn__flash *job);
#else
static int attn__rounds_p(const attn_desc *d) { return !(d->tolerance > 0); }
#endif
static void attn__flash_shape(const attn_desc *d, attn__flash *job) {
    job->d = d;
    job->workspace = NULL;
    job->partial = NULL;
    job->threads = attn__useful_threads(d, 1);
    job->group = d->kv_heads == d->heads ? 1 : d->heads / d->kv_heads;
    const attn__machine_info *m = attn__machine();
    const int64_t lanes = m->isa->W; /* a power of two: no division in the way of a small call */
    job->v_pad = (d->v_dim + lanes - 1) & -lanes;
    job->q_pad = (d->head_dim + lanes - 1) & -lanes;
    job->extras = attn__needs_extras(d, 0);
    job->unit = attn__score_unit(d, job->extras);
    const int64_t rows = attn__rows_most(d) * job->group;
    job->pack_q = d->q.dtype != ATTN_F32 || attn__has_rotary(d) ||
                  (job->group > 1 && d->q_len > 1) || d->seq.cu_q;
    /* a copy pays where many rows read it, or few in blocks that do not stay in L1 */
    const int64_t readers = d->kv_len > ATTN__SHORT_KEYS ? 16 : 128;
    job->copy_v = d->v.dtype != ATTN_F32 || d->v_dim != job->v_pad || d->seq.block_table
                      ? ATTN__V_COPIED
                  : rows > readers && !attn__tuning.v_in_place ? ATTN__V_IF_FAR
                                                               : ATTN__V_IN_PLACE;

    job->straight_to_o =
        d->o.dtype == ATTN_F32 && d->v_dim == job->v_pad && (job->group == 1 || d->q_len == 1);

    job->bf16_qk = attn__both_bf16(d->q.dtype, d->k.dtype, d->head_dim) && !attn__has_rotary(d);
    job->bf16_pv = attn__both_bf16(d->v.dtype, d->o.dtype, 2) && attn__rounds_p(d);

    /* 3/8 of the L2 cache for the packed keys and values of a block, half where that is little. Q
     * and O may exceed it: they stream past once a block, and packing is shared by all rows of a
     * unit. Nearly 2 MiB with them */
    const int64_t l2 = attn__min(m->l2, 2 << 20), key = 4 * (d->head_dim + job->v_pad),
                  block = attn__max(l2 / 8 * 3, attn__min(l2 / 2, 256 << 10));
    job->BN = attn__tuning.BN ? attn__tuning.BN : 1024;
    while (!attn__tuning.BN && job->BN > 64 && job->BN * key > block) job->BN /= 2;
    int64_t room = (2 << 20) / 16 * 15 - job->BN * key -
                   4 * (attn__scores_size(m->isa->MR, job->BN + ATTN__SCORE_PAD) +
                           ATTN__SPLIT_ROWS * (job->v_pad + 2));
    job->span = attn__span_keys(d, job->BN);
    /* the same one block */
    job->BN = attn__min(job->BN, attn__round_up(attn__max(d->kv_len, 1), 64));
    job->ld = job->BN + ATTN__SCORE_PAD;
    job->thin = attn__thin_rows(d, job->bf16_qk && job->bf16_pv);
    if (rows <= ATTN__THIN_MOST || d->seq.used_q || d->seq.cu_q) job->ld = attn__flash_ld(job);
    const int64_t pairs = attn__max(1, d->batch * d->kv_heads);
    int64_t cap = 96, whole = 96, most = rows;
    if (ATTN__SMALL) most = attn__min(rows, 96);
    else if (rows > 96) most = attn__flash_tile_rows(job, rows, room, &cap, &whole);
    if (attn__tuning.BM) most = attn__min(rows, attn__tuning.BM);
    job->BM = attn__round_up(attn__max(1, most), 48);
    job->tiles = rows <= job->BM ? rows > 0 : attn__ceil_div(rows, job->BM);
    attn__flash_memory(job, rows, cap, whole);
    job->splits = 1;
    job->rows_partial = job->tiles > 1 ? job->BM : rows;
    if (!ATTN__SMALL && d->kv_len >= 2 * ATTN__SPLIT_KEYS && job->planned > 1 &&
        pairs < 4 * job->planned)
        attn__splits_beside(job, rows, pairs);
    job->gang = attn__gang_of(job);
    job->filter = NULL;
    job->units = d->batch * d->kv_heads / job->gang * job->tiles * job->splits;
}
static attn_status attn__flash_plan(
    void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan) {
    attn__flash job;
    (void)user;
    ATTN__TRY(attn__cpu_declines(d, g, plan));
    if (ATTN__BACKWARD && g) return attn__bwd_plan(d, g, 0, plan);
    attn__flash_shape(d, &job);
    static const char *const names[2][3] = {
        {"flash_forward", "flash_forward_qk_bf16", "flash_forward_p_bf16"},
        {"flash_forward_masked", "flash_forward_masked_qk_bf16", "flash_forward_masked_p_bf16"}};
    plan->kernel = names[job.extras][job.bf16_pv ? 2 : job.bf16_qk];
    plan->isa = attn__machine()->isa->name;
    plan->threads = job.threads;
    plan->splits = (int32_t)job.splits;
    memcpy(plan->own, &job, sizeof job);
    int64_t bytes = attn__sat_add(job.bytes, attn__append_bytes(d));
#if ATTN__ADAPTIVE
    const attn_backend *named;
    if (d->tolerance > 0 && attn__named(d, &named) == ATTN_OK && !named)
        bytes = attn__max(bytes, attn__adaptive_fewer(d));
#endif
    return attn__plan_bytes(plan, bytes);
}

/* Unit u of `gang` kv heads each: the last row tiles first, since causal rows see more keys the later
 * they are. `split` -1: all of them, or the merge. */
static int attn__flash_unit(
    const attn__flash *job, int64_t u, int64_t gang, int64_t split, attn__rows *r) {
    const int64_t heads = job->d->kv_heads / gang, all = job->d->batch * heads;
    int64_t tile = job->tiles - 1, b = 0;
    if (u >= all) {
        tile -= u / all;
        u %= all;
    }
    if (u >= heads) {
        b = u / heads;
        u %= heads;
    }
    r->job = job;
    r->s = attn__sequence(job->d, b);
    r->kv_head = u * gang;
    r->row0 = tile * job->BM;
    r->rows = attn__min(job->BM, r->s.q_rows * job->group - r->row0);
    r->k0 = 0;
    r->k1 = r->s.k_len;
    if (split < 0) return r->rows > 0;
    int64_t step = attn__split_keys(&r->s, job->group);
    r->k0 = split * step;
    r->k1 = attn__min(r->k0 + step, r->k1);
    return r->rows > 0 && (split == 0 || r->k0 < r->k1);
}
static void attn__flash_rows_unit(const void *arg, int64_t u, char *scratch) {
    const attn__flash *job = (const attn__flash *)arg;
    attn__rows r;
    int64_t unit = job->splits > 1 ? u / job->splits : u;
    int64_t split = job->splits > 1 ? u % job->splits : -1;
    if (!attn__flash_unit(job, unit, job->gang, split, &r)) return;
    attn__flash_rows(&r, job->gang, scratch,
        job->splits > 1 ? job->partial + (unit * job->gang * job->splits + split) *
                                             job->rows_partial * (job->v_pad + 2)
                        : NULL);
}
static void attn__flash_merge_unit(const void *arg, int64_t u, char *scratch) {
    const attn__flash *job = (const attn__flash *)arg;
    attn__rows r;
    if (!attn__flash_unit(job, u, 1, -1, &r)) return;
    int64_t parts = attn__max(1, attn__ceil_div(r.s.k_len, attn__split_keys(&r.s, job->group)));
    attn__flash_merge(
        &r, parts, job->partial + u * job->splits * job->rows_partial * (job->v_pad + 2), scratch);
}
/* Whether many rows read V where it lies as fast as a copy: whole cache lines that lie dense, where a
 * block is a quarter of L2 at most (a larger one needs the few pages of a copy); any lines where
 * products leave time for loads, unless rows lie so far apart that they share few cache sets. */
static int attn__v_is_near(const attn_desc *d, const attn__flash *job) {
    const attn__machine_info *m = attn__machine();
    const int64_t *at = d->v.stride, apart = (32 << 10) / 4;
    if (m->isa->W == 16 && (m->has & ATTN__CPU_ONE_FMA) && -apart < at[1] && at[1] < apart)
        return 1;
    return at[1] == d->v_dim && (uintptr_t)d->v.data % 64 == 0 && at[0] % 16 == 0 &&
           at[2] % 16 == 0 && d->v_dim % 16 == 0 &&
           job->BN * (d->head_dim + d->v_dim) * 4 <= m->l2 / 4;
}
/* The whole forward of a job that is shaped, in d->workspace; keys are appended already. */
static void attn__flash_compute(const attn_desc *d, attn__flash *job) {
    job->d = d;
    /* Memory was planned without what is known of V here. */
    if (job->copy_v == ATTN__V_IF_FAR && attn__v_is_near(d, job)) job->copy_v = ATTN__V_IN_PLACE;
    job->workspace = (char *)d->workspace;
    job->partial = (float *)(void *)(job->workspace + job->planned * job->scratch);
    attn__share share = {
        attn__flash_rows_unit, job, job->workspace, job->scratch, job->units, job->threads, 0};
    attn__share_run(d, &share);
    if (!ATTN__SMALL && job->splits > 1) {
        share.unit = attn__flash_merge_unit;
        share.units = job->units / job->splits * job->gang;
        attn__share_run(d, &share);
    }
#if ATTN__ADAPTIVE
    if (d->tolerance > 0) attn__flash_certs(d, job);
#endif
}
static attn_status attn__flash_run(
    void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan) {
    attn__flash job;
    (void)user;
    if (ATTN__BACKWARD && g) return attn__bwd_run(d, g, plan);
    memcpy(&job, plan->own, sizeof job);
    attn__append(d, job.threads, (char *)d->workspace + job.bytes);
    attn__flash_compute(d, &job);
    return ATTN_OK;
}

/* ============================================================================ >>adaptive ====
   The flash forward with a tolerance. Rows are computed from int16 codes of q, k, p and v, or without
   keys that weigh next to nothing, each with a certificate; rows whose certificate exceeds the
   tolerance are computed again as flash does.

   The certificate. A row has scores s_j, weights p_j = exp(s_j - m), o = sum p_j v_j / sum p_j. It
   was computed from q' and k'_j, the values of the codes, with scores s'_j, p'_j = exp(s'_j - m);
   their codes stand for w_j, p'_j rounded to a multiple of a unit, those of v_j for v'_j. So with
   o' = sum w_j v'_j / sum w_j, since sum w_j (v'_j - o') = 0 whatever m is:

     o - o' = [sum (p_j - w_j) (v_j - o') + sum w_j (v_j - v'_j)] / sum p_j

     |p_j - w_j|   <= p'_j (e^eta_j - 1) + min(p'_j, unit / 2)     p_j = p'_j e^(s_j - s'_j)
     |s_j - s'_j|  <= eta_j = scale (|q - q'| |k_j| + |q'| |k_j - k'_j|)   Cauchy and Schwarz, from
                      s_j - s'_j = scale ((q - q') . k_j + q' . (k_j - k'_j))
     |v_j - o'|    <= range = max over columns of max(most v - o', o' - least v)
     |v_j - v'_j|  <= step / 2, the step of the codes
     sum p_j       >= sum p'_j - sum p'_j (e^eta_j - 1)

     certificate = (range (score + rest) + value) / (mass - score)
       mass = sum p'_j, score = sum p'_j (e^eta_j - 1), rest = sum min(p'_j, unit / 2),
       value = sum w_j step / 2

   eta and the step are those of 128 keys: the largest |k_j| and |k_j - k'_j| of these. The same
   sums bound lse: |log sum p_j - log sum p'_j| <= -log(1 - score / sum p'_j).

   A row that looks at many keys is wrong by far less: errors of their scores cancel. With the
   matrices K of all keys, a row each, and E of all k_j - k'_j, sigma their largest singular values:

     |p_j - p'_j (1 + s_j - s'_j)|       <= p'_j eta_j^2                         eta_j <= 1
     |sum p'_j (s_j - s'_j) (v_j - o')|  <= range lambda sqrt(sum p'_j^2)
       lambda = scale (|q - q'| sigma(K) + |q'| sigma(E)), as sum x_j k_j = K^T x
     |sum (p'_j - w_j) (v_j - o')|       <= sqrt(sum (p'_j - w_j)^2) spread
       spread = max over columns of sqrt(sum v_j^2) + sqrt(keys) |o'|           Cauchy and Schwarz

     range (lambda sqrt(sum p'_j^2) + most eta score) + spread sqrt(sum (p'_j - w_j)^2)
     takes the place of range (score + rest)

   where that promises more: it costs the sums of squares, and sigma of the keys that the rows of a
   unit see. sigma(K)^2 is the largest eigenvalue of G = K^T K: with |.| the root of the sum of the
   squares of all elements it is at most |G|, and as that of G / |G| is the root of that of its
   square, at most |G| |(G / |G|)^2|^(1/2), and so on: attn__eigenvalue.
   Keys left out. Codes of one byte are too coarse to compute with, but bound what a chunk of 128 keys
   weighs in a row before the row is computed: sum p_j <= sum p'_j e^eta. Each group of rows leaves out
   the lightest chunks, of which no row loses more than its tolerance allows, and is computed from the
   others as flash does it. With o' the mean over keys that are kept:

     o - o' = sum over keys left out of p_j (v_j - o') / sum p_j
     certificate = range sum over chunks left out of sum p'_j e^eta / sum over keys kept of p_j

   which bounds what is missing in lse, too, without range. Whether it pays is guessed from the scores
   of a few rows (>>codes, attn__filter_worth).
   P in bf16, where products of bf16 are fast and the tolerance allows it, moves o by |p_j - bf16(p_j)|
   <= 2^-8 p_j of each key at most: 2^-8 times the largest |v_j| that the row sees, in every
   certificate of such a call.
   The residuals are measured, not assumed; what f32 rounds on the way to the certificate is made up
   for by factors above 1, and what it rounds in o itself beyond the rule for plain f32 code (the
   sums are joined every 128 keys) is a term of its own: attn__certificate.
   Bounds by residual norms: Zhang et al., "SageAttention", 2024, quantises as here but has none; blocks
   left out by an estimate: Zhang et al., "SpargeAttn", 2025; the online softmax is that of >>flash. */
#define ATTN__INT16_CHUNK 128
static void attn__no_certs(const attn_desc *d) {
    if (d->cert) memset(d->cert, 0, (size_t)(attn__rows_total(d) * d->heads) * sizeof *d->cert);
    if (d->statistics) memset(d->statistics, 0, sizeof *d->statistics);
}
/* statistics of a call none of whose rows was computed from codes, and why. */
static void attn__tell_dense(const attn_desc *d, const char *why) {
    attn_statistics *s = d->statistics;
    if (!s) return;
    s->rows = attn__rows_total(d) * d->heads;
    for (int64_t n = 0; n < d->batch; n++) {
        attn__sequence_view view = attn__sequence(d, n);
        for (int64_t i = 0; i < view.q_rows; i++) {
            int64_t lo, hi;
            attn__range(d, &view, i, &lo, &hi);
            if (hi > lo)
                s->tiles_f32 +=
                    d->heads * (attn__ceil_div(hi, ATTN__INT16_CHUNK) - lo / ATTN__INT16_CHUNK);
        }
    }
    attn__write(s->why, sizeof s->why, 0, why);
}
#if ATTN__ADAPTIVE
static int attn__named_adaptive(const attn_desc *d) {
    return d->backend && !strcmp(d->backend, "adaptive");
}
/* ---- P in bf16: o is off by sum |p_j - bf16(p_j)| |v_j| / sum p_j at most, 2^-8 of the largest |v_j| ---- */
#define ATTN__P_ROUNDING 0.00390625f
#define ATTN__P_ROUNDS 0.004f /* the least tolerance of such calls */
static const char *attn__exact_needed(const attn_desc *d);
/* Whether P may be rounded where bf16 is multiplied as it is: without a tolerance, or where it allows
 * that and what a row sees is known without its scores. */
static int attn__rounds_p(const attn_desc *d) {
    const attn_backend *named;
    if (!(d->tolerance > 0)) return 1;
    return d->tolerance >= ATTN__P_ROUNDS && !(d->flags & ATTN_TOLERANCE_ABSOLUTE) &&
           !attn__exact_needed(d) && attn__named(d, &named) == ATTN_OK && !named;
}
#define ATTN__SEEN_ROWS 64
/* The larger of `most` and the largest |v| of the keys [j, end), V of bf16. */
static float attn__largest_of(const attn__rows *u, int64_t j, int64_t end, float most) {
    const float own =
        j < end ? attn__machine()->isa->largest_v(u->job->d, &u->s, u->kv_head, j, end) : 0;
    return own > most ? own : most;
}
/* The keys [from, to), which queries share, and their largest |v|. */
typedef struct attn__shared_keys {
    int64_t from, to;
    float most;
} attn__shared_keys;
/* The largest |v| that each of the queries [i, i + n) sees, up to SEEN_ROWS of them. *shared are the
 * keys of the queries before, then of these. */
static void attn__queries_see(
    const attn__rows *u, int64_t i, int64_t n, attn__shared_keys *shared, float *seen) {
    int64_t lo[ATTN__SEEN_ROWS], hi[ATTN__SEEN_ROWS], first = INT64_MAX, from = 0, to = INT64_MAX;
    float left[ATTN__SEEN_ROWS], right = 0, before = 0;
    for (int64_t r = 0; r < n; r++) {
        attn__range(u->job->d, &u->s, i + r, &lo[r], &hi[r]);
        if (hi[r] <= lo[r]) continue;
        first = attn__min(first, lo[r]);
        from = attn__max(from, lo[r]);
        to = attn__min(to, hi[r]);
    }
    const int share = first <= from && from < to;
    if (share) { /* the keys before them are fewer than n: a query begins at most one further on */
        const int on = from == shared->from;
        shared->most = attn__largest_of(u, on ? shared->to : from, to, on ? shared->most : 0);
        shared->from = from;
        shared->to = to;
        for (int64_t j = from - 1; j >= first; j--)
            left[j - first] = before = attn__largest_of(u, j, j + 1, before);
    }
    for (int64_t r = 0; r < n; r++) {
        seen[r] = 0;
        if (hi[r] <= lo[r]) continue;
        if (share) {
            right = attn__largest_of(u, to, hi[r], right);
            to = hi[r];
            seen[r] = shared->most > right ? shared->most : right;
            if (lo[r] < from && left[lo[r] - first] > seen[r]) seen[r] = left[lo[r] - first];
        } else {
            seen[r] = attn__largest_of(u, lo[r], hi[r], 0);
        }
        if (!attn__finite(seen[r])) seen[r] = 0; /* of a row that is not finite */
    }
}
/* Certificates of a unit's rows, what P in bf16 costs them added to `cert` (NULL: 0). */
static void attn__add_rounding(const attn__rows *u, const float *cert, float *largest) {
    const attn_desc *d = u->job->d;
    const int64_t group = u->job->group, last = (u->row0 + u->rows - 1) / group;
    attn__shared_keys shared = {0, 0, 0};
    float seen[ATTN__SEEN_ROWS];
    int64_t row = u->row0;
    for (int64_t i = row / group; i <= last; i += ATTN__SEEN_ROWS) {
        const int64_t n = attn__min(ATTN__SEEN_ROWS, last + 1 - i),
                      end = attn__min((i + n) * group, u->row0 + u->rows);
        attn__queries_see(u, i, n, &shared, seen);
        for (; row < end; row++) {
            const int64_t h = u->kv_head * group + row % group;
            const float own =
                seen[row / group - i] * ATTN__P_ROUNDING + (cert ? cert[row - u->row0] : 0);
            if (own > *largest) *largest = own;
            if (d->cert) d->cert[attn__lse_at(d, &u->s, row / group, h)] = own;
        }
    }
}
static void attn__flash_certs_unit(const void *arg, int64_t n, char *scratch) {
    const attn__flash *job = (const attn__flash *)arg;
    attn__rows u;
    u.job = job;
    u.s = attn__sequence(job->d, n / job->d->kv_heads);
    u.kv_head = n % job->d->kv_heads;
    u.row0 = 0;
    u.rows = u.s.q_used * job->group;
    if (u.rows > 0) attn__add_rounding(&u, NULL, (float *)(void *)scratch);
}
/* cert of rows that flash computed. */
static void attn__flash_certs(const attn_desc *d, const attn__flash *job) {
    float largest[64][16];
    attn__no_certs(d);
    if (!job->bf16_pv || !(d->cert || d->statistics)) return;
    memset(largest, 0, sizeof largest);
    attn__share share = {attn__flash_certs_unit, job, (char *)largest, sizeof largest[0],
        d->batch * d->kv_heads, (int32_t)attn__min(job->threads, 64), 0};
    attn__share_run(d, &share);
    for (int n = 0; n < 64 && d->statistics; n++)
        if (largest[n][0] > d->statistics->largest_cert)
            d->statistics->largest_cert = largest[n][0];
}
/* Fewer rows of a unit, and fewer keys, do not make up for the packing. */
#define ATTN__INT16_FEW "fewer rows or keys than make up for packing them"
#define ATTN__INT16_ROWS 192
#define ATTN__INT16_KEYS 384   /* for who names the backend */
#define ATTN__INT16_CHOSEN 640 /* where it is chosen */
#define ATTN__INT16_DIM 512    /* most head_dim and v_dim */
#define ATTN__INT16_DIMS 24    /* fewest head_dim where it is chosen */
/* Codes of p are at most P_MOST = 2^P_POWER, codes of v V_MOST; products with P_KEYS keys sum up to
 * less than an int32 holds. */
#define ATTN__P_KEYS 64
#define ATTN__P_MOST 16383.0f
#define ATTN__P_POWER 13.999911f
#define ATTN__V_MOST 2047.0f
/* |codes of q|, |codes of k| <= NORM: so is the product of the two below 2^31, Cauchy and Schwarz */
#define ATTN__INT16_NORM 46280.0f
#define ATTN__INT16_MOST 32760.0f
/* Beyond LARGE in size a number has no code: rows that see one are computed densely. LEAST is what
 * a step is at least. */
#define ATTN__INT16_LARGE 1.12589991e15f  /* 2^50 */
#define ATTN__INT16_LEAST 8.47032947e-22f /* 2^-70 */
#define ATTN__SAMPLE_ROWS 24              /* of a unit, that are computed both ways at least */
#define ATTN__SAMPLE_FIRST 8              /* those of the largest certificates, before */
#define ATTN__PACKED_ROWS 24              /* packing the keys takes as long as so many rows */
#define ATTN__FILTER_KEYS 2048            /* fewer do not make up for the filter */
#define ATTN__FILTER_MANY 2048 /* rows of a unit: a look at all keys costs little beside them */
#define ATTN__BOUND_MOST 30000 /* of attn__int16.bound, in size */
/* Vectors of a tile of int16 products beside NV of an f32 tile: tiles divide a chunk. */
#define attn__int16_vectors(NV) ((NV) >= 4 ? 4 : (NV) >= 2 ? 2 : 1)
#define attn__bytes_vectors(NV) ((NV) >= 4 ? 2 : 1) /* of bytes: sums are held twice */

/* What the units of a thread count and bound. */
typedef struct attn__tally {
    int64_t int16, f32, rows, redone, few,
        coarse; /* few, coarse: rows that stayed dense, and why */
    int64_t skipped, bytes, sampled, beyond;
    float cert, lse, mass; /* mass: the largest share of a row's sum that was left out */
    float error;           /* of the rows that were sampled */
} attn__tally;
typedef struct attn__adaptive {
    const attn_desc *d;
    attn__flash flash; /* how rows are computed densely */
    int64_t BN, most;  /* keys packed at a time; rows of a unit */
    /* int16s of a row of q; columns of v and o; rows with those of a last group */
    int64_t q_pad, v_pad, rows_pad;
    int64_t kept, scratch; /* bytes of a thread: what flash may not use for its own, all */
    int64_t bytes, units;
    int64_t chunks; /* of 128 keys, of the longest sequence: what the filter has room for */
    /* whether sequences of many rows may be computed from codes, may have keys left out; the most
     * rows of those of few that are decoded, 0: none are */
    int int16, filter, decode;
    /* keys of the longest sequence that is decoded; bytes of one and a kv head; of all at a time; how
     * many begin at a time */
    int64_t keys, pair, pairs, side;
    int codes; /* decode multiplies codes of q */
} attn__adaptive;
#define ATTN__FAILED (-1.0f) /* beyond the tolerance: to be computed densely */
/* What 128 keys share. */
typedef struct attn__coded_chunk {
    float k_most, k_off; /* largest |k_j|, |k_j - k'_j| */
    float v_most, v_step,
        v_off; /* largest element of |v_j|, step of its codes, most of |v_j - v'_j| */
    int bad;   /* a number has no code */
} attn__coded_chunk;
static const char *attn__int16_declines(const attn_desc *d);
static int attn__filter_takes(const attn_desc *d);
static const char *attn__decode_declines(const attn_desc *d);
/* Arrays of a unit, one entry a row. */
enum {
    ATTN__ROW_FACTOR, /* s' = factor * k_step * dot */
    ATTN__ROW_OFF,    /* scale |q - q'| */
    ATTN__ROW_MOST,   /* scale |q'| */
    ATTN__ROW_MAX,    /* of dot * k_step */
    ATTN__ROW_SUM,    /* of w_j; then as in the certificate, relative to the maximum */
    ATTN__ROW_SCORE,
    ATTN__ROW_REST,
    ATTN__ROW_VALUE,
    ATTN__ROW_MASS,   /* of p'_j */
    ATTN__ROW_SQUARE, /* where singular values are known: of p'_j^2, of (p'_j - w_j)^2 */
    ATTN__ROW_LEFT,
    ATTN__ROW_SEEN, /* largest element of |v| that the row sees */
    ATTN__ROW_BIAS, /* filter: what products with codes of k are increased by */
    ATTN__ROW_BAD,  /* filter: NaN where it sees a number without a code, or q has one */
    ATTN__ROW_OUT,  /* filter: of what p of keys left out are at most, times 2^-AT */
    ATTN__ROW_AT,
    ATTN__ROW_ARRAYS
};
/* Of the keys that a unit sees. */
typedef struct attn__spectrum {
    int known;           /* 0: rows are bounded without */
    double k, k_off;     /* what the largest singular values are at most, of k_j, of k_j - k'_j */
    double eta_k, eta_e; /* the largest |k_j|, |k_j - k'_j| */
    double keys;
    float
        longer; /* the mean of chunks' longest keys for which codes are too coarse; not with `known` */
} attn__spectrum;
/* Chunks of keys that groups of rows leave out. */
typedef struct attn__filter {
    unsigned char *left;         /* [groups of `rows`][chunks] */
    int64_t rows, first, chunks; /* keys from `first` on */
    int64_t row0, ld;            /* of which rows, and how many, there are bounds */
} attn__filter;
#define ATTN__FILTER_ROOM (1 << 20) /* bounds at a time, or those of a group */
#define ATTN__SPECTRUM_DIM 256      /* most head_dim */
#define ATTN__SPECTRUM_KEYS 1024    /* fewer do not make up for it */
#define ATTN__SPECTRUM_SAMPLE 192   /* keys that a guess looks at */
#define ATTN__SQUARINGS 4           /* of a Gram matrix: each halves what its bound exceeds it by */
/* A thread's scratch; flash leaves what comes before k_step. */
typedef struct attn__int16 {
    attn__tally *tally;
    float *cert; /* [rows_pad], or ATTN__FAILED */
    attn__spectrum *spectrum;
    attn__filter *filter;
    float *row[ATTN__ROW_ARRAYS];
    float *O;              /* [rows_pad][v_pad] */
    float *sampled;        /* [listed_most][q_pad of flash]: q of the rows listed */
    int32_t *list;         /* rows that are computed beside each other as flash does it */
    float *k_step, *v_key; /* [BN] of a key: step of the codes, largest element of |v| */
    float *v_top, *v_low;  /* [v_pad] of a column: most v, most -v */
    float *v_length;       /* [v_pad] of a column: sum of v^2, then its root */
    float *S, *T;          /* scores of a group; a chunk in f32 */
    int32_t *K, *V;        /* [BN / tile][pairs of dims][tile], [BN / 2][v_pad]: pairs of codes */
    int16_t *Q, *P;        /* [rows_pad][q_pad], [MR][CHUNK] */
    unsigned char *bad;    /* [BN] */
    attn__coded_chunk *chunk; /* [BN / CHUNK] */
    /* filter: [chunks][filter->ld], what p of a row's keys sum up to at most, as 64 times its logarithm
     * to base 2; of a group, [chunks][2 MR + 1]: that as a share of what may be left out of a row,
     * and the largest of these; some rows of q */
    int16_t *bound;
    float *share, *some;
    float *X, *G; /* of a spectrum: a chunk [2][CHUNK][q_pad], [3][q_pad][q_pad] */
} attn__int16;
/* Further down: >>codes. */
static int attn__int16_worth(const attn__adaptive *job, const attn__rows *u, const attn__int16 *t);
static int attn__filter_worth(const attn__adaptive *job, const attn__rows *u, const attn__int16 *t);
static void attn__filter_rows(const attn__adaptive *job, const attn__rows *u, const attn__int16 *t);
static void attn__int16_rows(const attn__adaptive *job, const attn__rows *u, const attn__int16 *t);
static void attn__int16_write(const attn__adaptive *job, const attn__rows *u, const attn__int16 *t);
static const float *attn__adaptive_listed(const attn__adaptive *job, const attn__rows *u,
    const attn__int16 *t, int64_t n, const float **sum);
static void attn__listed_write(
    const attn__adaptive *job, const attn__rows *u, const attn__int16 *t, int64_t n);
/* Codes of bytes of a row, in fours of fours. */
static int64_t attn__bytes_pad(const attn_desc *d) { return attn__round_up(d->head_dim, 16); }
/* Rows of a unit, of so many of a sequence, that are to be drawn: see adaptive_sample. */
static int64_t attn__sampled_wanted(const attn_desc *d, int64_t units) {
    const double wanted = (0.5 + 2.6 / (double)units) / (1 - (double)d->quantile);
    return attn__max((int64_t)(wanted < 1e6 ? wanted : 1e6) + 1, ATTN__SAMPLE_ROWS);
}
/* So many rows are computed beside each other that do not lie so: a fifth of a unit. It does not pay
 * to compute more of it both ways. */
#define ATTN__SAMPLE_SHARE 5
static int64_t attn__listed_most(const attn__adaptive *job) {
    return job->flash.BM / ATTN__SAMPLE_SHARE + 1;
}
/* The parts of it, the next at byte *at; NULL, where only the bytes are asked for. */
static void *attn__int16_part(char *scratch, int64_t *at, int64_t bytes) {
    void *p = scratch ? scratch + *at : NULL;
    *at += attn__round_up(bytes, ATTN__ALIGN);
    return p;
}
/* Returns the bytes that flash may not have, with those of all in *bytes. */
static int64_t attn__int16_carve(
    const attn__adaptive *job, char *scratch, attn__int16 *t, int64_t *bytes) {
    const attn__kernels *isa = attn__machine()->isa;
    const int64_t rows = job->rows_pad, bytes_pad = attn__bytes_pad(job->d), BN = job->BN,
                  pairs = attn__max((job->d->head_dim + 1) / 2, bytes_pad / 4), v = job->v_pad,
                  chunks = BN / ATTN__INT16_CHUNK, MR = isa->MR,
                  score = 2 * MR * (ATTN__INT16_CHUNK + ATTN__SCORE_PAD),
                  room = attn__max(isa->W * (bytes_pad + isa->W), ATTN__INT16_CHUNK * v);
    int64_t at = 0;
#define ATTN__PART(type, count) \
    (type *)attn__int16_part(scratch, &at, (count) * (int64_t)sizeof(type))
    t->tally = ATTN__PART(attn__tally, 1);
    t->cert = ATTN__PART(float, rows); /* both where decode has them */
    t->spectrum = ATTN__PART(attn__spectrum, 1);
    t->filter = ATTN__PART(attn__filter, 1);
    for (int n = 0; n < ATTN__ROW_ARRAYS; n++) t->row[n] = ATTN__PART(float, rows);
    t->O = ATTN__PART(float, rows *v);
    t->sampled = ATTN__PART(float, attn__listed_most(job) * job->flash.q_pad);
    t->list = ATTN__PART(int32_t, attn__listed_most(job));
    t->v_top = ATTN__PART(float, v);
    t->v_low = ATTN__PART(float, v);
    unsigned char *left = ATTN__PART(unsigned char, attn__ceil_div(rows, 2 * MR) * job->chunks);
    if (scratch) t->filter->left = left;
    const int64_t kept = at;
    t->k_step = ATTN__PART(float, BN);
    t->v_key = ATTN__PART(float, BN);
    t->v_length = ATTN__PART(float, v);
    t->S = ATTN__PART(float, score);
    t->T = ATTN__PART(float, room);
    t->K = ATTN__PART(int32_t, BN *pairs);
    t->V = ATTN__PART(int32_t, BN / 2 * v);
    t->Q = ATTN__PART(int16_t, rows * job->q_pad);
    t->P = ATTN__PART(int16_t, score);
    t->bad = ATTN__PART(unsigned char, BN);
    t->chunk = ATTN__PART(attn__coded_chunk, chunks);
    t->bound = ATTN__PART(
        int16_t, attn__max(attn__min(job->chunks * rows, ATTN__FILTER_ROOM), job->chunks * 2 * MR));
    t->share = ATTN__PART(float, job->chunks * (2 * MR + 1));
    t->some = ATTN__PART(float, job->filter ? MR * job->q_pad : 0);
    const int64_t dim = job->d->head_dim <= ATTN__SPECTRUM_DIM ? job->q_pad : 0;
    t->X = ATTN__PART(float, 2 * ATTN__INT16_CHUNK * dim);
    t->G = ATTN__PART(float, 3 * dim * dim);
#undef ATTN__PART
    if (bytes) *bytes = at;
    return kept;
}
/* Whether o = O / sum and the exact o, which is off by cert at most, are both finite in f16, or o is
 * of another type. */
ATTN__NOINLINE int attn__within_f16(const attn_desc *d, const float *O, double sum, float cert) {
    double most = 0;
    if (d->o.dtype != ATTN_F16) return 1;
    for (int64_t c = 0; c < d->v_dim; c++) {
        const double x = (double)(O[c] < 0 ? -O[c] : O[c]);
        most = x > most ? x : most;
    }
    return most <= (65504 - (double)cert) * sum; /* a row that sees no key has 0 and 0 */
}
/* The certificate of a row of `chunks` sums, from its sums; above all that is rounded here. */
static float attn__certificate(
    const attn__int16 *t, int64_t r, double range, double spread, double most, int64_t chunks) {
    const attn__spectrum *all = t->spectrum;
    const double mass = (double)t->row[ATTN__ROW_MASS][r],
                 score = (double)t->row[ATTN__ROW_SCORE][r],
                 rest = (double)t->row[ATTN__ROW_REST][r],
                 value = (double)t->row[ATTN__ROW_VALUE][r], least = mass - 1.001 * score;
    if (!(least > 0)) return attn__float(0x7f800000u);
    double moved = range * score, left = range * rest;
    if (all->known) {
        const double off = (double)t->row[ATTN__ROW_OFF][r], q = (double)t->row[ATTN__ROW_MOST][r],
                     eta = off * all->eta_k + q * all->eta_e,
                     square = attn__sqrt((double)t->row[ATTN__ROW_SQUARE][r]),
                     many = range * ((off * all->k + q * all->k_off) * square + eta * score),
                     more = 1 + (double)chunks * 2e-7; /* roundings of the sums of squares */
        if (eta <= 1 && many * more < moved) moved = many * more;
        left += spread * attn__sqrt((double)t->row[ATTN__ROW_LEFT][r]) * more;
    }
    const double bound = (moved + left + value) / least,
                 rounded = (double)(chunks + 8) * (range + most) * 4.8e-7; /* 2^-21 */
    return (float)((bound * 1.001 + rounded) * 1.000001);
}
/* What row r may be off by. */
static double attn__allowed(const attn__adaptive *job, const attn__int16 *t, int64_t r) {
    const double most = (double)job->d->tolerance,
                 share = job->flash.bf16_pv ? most - 1.0001 * (double)ATTN__P_ROUNDING : most;
    return job->d->flags & ATTN_TOLERANCE_ABSOLUTE
               ? most
               : share * (double)t->row[ATTN__ROW_SEEN][r] * 0.999999;
}
/* Rows of a unit of the sequence at most: 16 units and more, where these are not too small to pack. */
static int64_t attn__adaptive_most(const attn__adaptive *job, const attn__sequence_view *s) {
    return attn__clamp(
        s->q_used * job->flash.group * job->d->kv_heads / 16, attn__min(job->most, 384), job->most);
}
/* How many rows of a unit are drawn, so that others may stay with a certificate beyond the tolerance;
 * 0 where none may. */
static int64_t attn__samples(const attn__adaptive *job, const attn__rows *u) {
    const int64_t group = job->flash.group, most = attn__adaptive_most(job, &u->s),
                  units = job->d->kv_heads * attn__ceil_div(u->s.q_used * group, most);
    if (!(job->d->quantile > 0) || attn__split_keys(&u->s, group) < u->s.k_len) return 0;
    const int64_t wanted = attn__sampled_wanted(job->d, attn__max(units, 1));
    return ATTN__SAMPLE_SHARE * wanted <= u->rows ? wanted : 0;
}
/* Tiles of the rows [r0, r1) of a unit. */
static int64_t attn__tiles(const attn__rows *u, int64_t r0, int64_t r1) {
    int64_t n = 0;
    for (int64_t r = r0; r < r1; r++) {
        int64_t lo, hi;
        attn__range(u->job->d, &u->s, (u->row0 + r) / u->job->group, &lo, &hi);
        if (hi > lo) n += attn__ceil_div(hi, ATTN__INT16_CHUNK) - lo / ATTN__INT16_CHUNK;
    }
    return n;
}

/* Decode. Few rows of a sequence against a cache of int16: keys and values are read where they lie,
 * plane by plane, each no further than the tolerance asks for. Values are scale * code, so what the
 * codes stand for is exact, and a low byte left out is an error of at most half the scale:
 *
 *   s'_j from the high bytes of k_j      |s_j - s'_j| <= eta_j = scale |q|_1 k_scale_j / 2
 *   v'_j from the high bytes of v_j      |v_j - v'_j| <= v_scale_j / 2
 *   key j left out, w_j = 0              |p_j - w_j| <= p'_j e^eta_j
 *   |v_j - o'| <= 128.5 v_scale_j + most |o'|
 *   w_j v_scale_j as codes, where the ISA has products of int16: of steps of the 32767th part of a
 *   chunk's largest, so half a step times 128 more, as long as a twentieth of the tolerance allows it
 *
 * in the certificate above. Scores come from the high bytes of all keys; then a key is left out, or
 * its value is read to the high bytes, its score corrected by the low ones of the key, its value by
 * those of the value: each where less would cost more than a threshold. It is as large as the sum
 * of what is left, by p'_j, allows: found in a sample, then summed over all keys. Keys between
 * others go with them where a chunk has few gaps. Keys whose eta is above 1 are always corrected.
 * Keys of a sequence are cut into splits, as flash does it, and each phase is done by splits or by
 * rows, so that no bit depends on threads. */
#if ATTN__DECODE
#define ATTN__DECODE_ROWS 8
#define ATTN__DECODE_ROOM \
    (32 << 20) /* for kv heads that are decoded split by split: they share pages */
#define ATTN__DECODE_SIDE (256 << 20) /* for those that threads have side by side */
#define ATTN__DECODE_KEYS 1024
/* Low bytes of most values would be read below; it does not pay below PAYS, which is larger where
 * products cost more than memory (Zen 4, of one product of 512 bits a cycle). */
#define ATTN__DECODE_FINEST 4.8828125e-4f /* 2^-11 */
#define ATTN__DECODE_PAYS (attn__machine()->has & ATTN__CPU_FETCH_L2 ? 7.8125e-3f : 1.953125e-3f)
#define ATTN__DECODE_COARSE 0.004f /* what codes of q leave out is small beside it */
enum {
    ATTN__DECODE_BEGIN,
    ATTN__DECODE_SCORES,
    ATTN__DECODE_CHOOSE,
    ATTN__DECODE_VALUES,
    ATTN__DECODE_FINISH,
    ATTN__DECODE_PHASES
};
/* What is read of a key. */
enum { ATTN__LEFT_OUT, ATTN__VALUE_HIGH, ATTN__KEY_LOW, ATTN__VALUE_LOW };
/* Sums over the keys of a split. */
enum {
    ATTN__DECODE_SUM,   /* of w_j */
    ATTN__DECODE_SKIP,  /* of p'_j of keys left out */
    ATTN__DECODE_GONE,  /* of p'_j e^eta_j of these */
    ATTN__DECODE_OFF,   /* of p'_j (e^eta_j - 1) of keys not corrected */
    ATTN__DECODE_FAR,   /* of most |p_j - w_j| times most |v_j| */
    ATTN__DECODE_VALUE, /* of w_j times most |v_j - v'_j| */
    ATTN__DECODE_SUMS
};
typedef struct attn__decode_part {
    float max[ATTN__DECODE_ROWS]; /* of the scores; NaN: the row is computed densely */
    double sum[ATTN__DECODE_ROWS][ATTN__DECODE_SUMS];
} attn__decode_part;
/* At the begin of the memory of a sequence and kv head. */
typedef struct attn__decode_kept {
    int64_t pair;
    int32_t later;    /* more low bytes and values are read than high ones have been */
    int32_t hopeless; /* nothing is read: all rows are computed densely */
} attn__decode_kept;
/* A chunk: its largest scales, that of k -1 where one is not finite. By rows: the sum of its weights and
 * the largest; what it adds, by the largest scales, to leave out a key, at most, and all of them; a
 * score's low bytes, of the mean key; a value's, at most, and all of them. */
typedef struct attn__decode_chunk {
    float k_top, v_top;
    struct {
        float weight, most, out, all_out, score, value, all_values;
        int gone; /* by these nothing is read */
    } row[ATTN__DECODE_ROWS];
} attn__decode_chunk;
typedef struct attn__decode {
    const attn__adaptive *job;
    attn__rows u;        /* its keys those of the split */
    int64_t first, last; /* keys that some row sees, from a whole chunk on */
    int64_t split, splits;
    attn__tally *tally;
    float *cert; /* [ROWS], of the thread */
    /* of the sequence and kv head: scores in powers of 2, weights by their maximum, [ROWS][ld];
     * scales, what is read of a key, [ld] */
    int64_t ld;
    float *S, *P, *k_scale, *v_scale, *level;
    float *Q;                 /* [ROWS][q_pad] */
    int16_t *code;            /* [ROWS][head_dim] of q, where there are */
    float *unit, *left;       /* of rows: products as powers of 2; what the codes of q leave out */
    float *max, *off, *limit; /* of rows: maximum, scale |q|_1 / 2, tolerance (NaN: dense) */
    float *range, *share;     /* of rows: what no |v| that they see is above; attn__decode_choose */
    int16_t *count;           /* [chunks][VALUE_LOW]: keys of which a level or more is read */
    attn__decode_chunk *chunk; /* [chunks] */
    attn__decode_part *part;   /* [splits] */
    attn__decode_kept *kept;
    float *O;            /* [splits][ROWS][v_pad] */
    float *T, *A, *room; /* of the thread: products, weights of a chunk; a chunk in f32 */
} attn__decode;
/* Further down: >>codes. */
static int attn__decode_level_of(
    const attn__decode *p, int64_t r, int64_t j0, float least, double *cost);
static int attn__decode_left_out(const attn__decode *p, int64_t r, int64_t j0, double *to);
static int attn__decode_hopeless(const attn__decode *p);
static void attn__decode_choose(const attn__decode *p);
static void attn__decode_values(const attn__decode *p);
static void attn__decode_finish(const attn__decode *p);
static void attn__decode_all_sums(const attn__decode *p, int64_t r, double *sum);
static void attn__decode_write(const attn__decode *p, int64_t r);
/* Whether all rows are to be computed densely. */
static int attn__decode_dense(const attn__decode *p) {
    int some = 0;
    for (int64_t r = 0; r < p->u.rows; r++) some |= attn__finite(p->limit[r]);
    return !some;
}
/* Whether rows of a tensor of int16 may lie in two pieces. */
static int attn__across(const attn_in *t, int64_t dim) {
    return ATTN_PLANE % dim || (t->stride[0] | t->stride[1] | t->stride[2]) % dim;
}
static int64_t attn__decode_splits(const attn__adaptive *job, const attn__sequence_view *s) {
    return attn__max(1, attn__ceil_div(s->k_len, attn__split_keys(s, job->flash.group)));
}
/* The most rows whose keys' high bytes are read first: prices and thresholds cost as much for each
 * row, however many dims a key has. Against the exact kernel that pays up to 1 row of 64 dims, 4 of
 * 128 (where rows look at few of their keys), 8 of 256. */
static int64_t attn__decode_rows(const attn_desc *d) {
    const int64_t dims = attn__min(d->head_dim, d->v_dim);
    return attn__named_adaptive(d) ? ATTN__DECODE_ROWS
                                   : attn__clamp((dims - 32) / 24, 0, ATTN__DECODE_ROWS);
}
/* Whether the used rows of the sequence are decoded. */
static int attn__decodes(const attn__adaptive *job, const attn__sequence_view *s) {
    const int64_t rows = s->q_used * job->flash.group;
    return rows > 0 && rows <= job->decode && attn__keys_seen(job->d, s) >= ATTN__DECODE_KEYS;
}
/* Returns the bytes of a sequence and kv head, at `pair`; *scratch: those of a thread. */
static int64_t attn__decode_carve(
    const attn__adaptive *job, char *pair, char *own, attn__decode *p, int64_t *scratch) {
    const int64_t rows = ATTN__DECODE_ROWS, chunk = rows * (ATTN__INT16_CHUNK + 16),
                  dim = attn__max(job->d->head_dim, job->d->v_dim);
    int64_t at = 0;
#define ATTN__PART(memory, type, count) \
    (type *)attn__int16_part(memory, &at, (count) * (int64_t)sizeof(type))
    p->tally = ATTN__PART(own, attn__tally, 1);
    p->cert = ATTN__PART(own, float, job->rows_pad);
    p->T = ATTN__PART(own, float, chunk);
    p->A = ATTN__PART(own, float, chunk);
    p->room = ATTN__PART(own, float, ATTN__INT16_CHUNK *dim);
    *scratch = at;
    at = 0;
    p->kept = ATTN__PART(pair, attn__decode_kept, 1);
    p->ld = attn__round_up(job->keys, ATTN__INT16_CHUNK) + 16;
    p->S = ATTN__PART(pair, float, rows * p->ld);
    p->P = ATTN__PART(pair, float, rows * p->ld);
    p->k_scale = ATTN__PART(pair, float, p->ld);
    p->v_scale = ATTN__PART(pair, float, p->ld);
    p->level = ATTN__PART(pair, float, p->ld);
    p->Q = ATTN__PART(pair, float, rows * job->flash.q_pad);
    p->code = ATTN__PART(pair, int16_t, rows * job->d->head_dim);
    p->unit = ATTN__PART(pair, float, rows);
    p->left = ATTN__PART(pair, float, rows);
    p->max = ATTN__PART(pair, float, rows);
    p->off = ATTN__PART(pair, float, rows);
    p->limit = ATTN__PART(pair, float, rows);
    p->range = ATTN__PART(pair, float, rows);
    p->share = ATTN__PART(pair, float, rows);
    p->count = ATTN__PART(pair, int16_t, p->ld / ATTN__INT16_CHUNK * ATTN__VALUE_LOW);
    p->chunk = ATTN__PART(pair, attn__decode_chunk, p->ld / ATTN__INT16_CHUNK);
    p->part = ATTN__PART(pair, attn__decode_part, 16);
    p->O = ATTN__PART(pair, float, 16 * rows * job->flash.v_pad);
#undef ATTN__PART
    return at;
}
#else
#define ATTN__DECODE_KEYS 0
#define ATTN__DECODE_FINEST 0
#define ATTN__DECODE_PAYS 0
static int attn__across(const attn_in *t, int64_t dim) { return t == NULL && dim == 0; }
static int64_t attn__decode_rows(const attn_desc *d) { return d == NULL; }
static int attn__decodes(const attn__adaptive *job, const attn__sequence_view *s) {
    return s == NULL && job == NULL;
}
#endif

static void attn__adaptive_shape(const attn_desc *d, attn__adaptive *job) {
    const attn__kernels *isa = attn__machine()->isa;
    const int64_t NI = attn__int16_vectors(isa->NV), each = 2 * (d->head_dim + d->v_dim);
    attn__int16 t;
    attn__flash *f = &job->flash;
    job->d = d;
    job->int16 = !attn__int16_declines(d);
    job->filter = attn__filter_takes(d);
    job->chunks = job->filter ? attn__ceil_div(d->kv_len, ATTN__INT16_CHUNK) + 1 : 0;
    job->decode = attn__decode_declines(d) ? 0 : (int)attn__decode_rows(d);
    attn__flash_shape(d, f);
    const int64_t rows = attn__rows_most(d) * f->group, plain = f->bytes;
    /* of int16, of which bytes_pad bytes have room in a row */
    job->q_pad = attn__round_up(d->head_dim, attn__max(isa->W, 8));
    job->v_pad = attn__round_up(d->v_dim, isa->W * attn__max(NI / 2, 1));
    /* half of L2, and of 1 MiB at least, for q and o; the codes of keys and values take 1/4 MiB */
    job->most = attn__clamp(attn__machine()->l2, 1 << 20, 2 << 20) / 4 * 3 /
                (2 * job->q_pad + 4 * job->v_pad);
    job->most = attn__clamp((job->most + 24) / 48 * 48, 96, 2112);
    f->BM = attn__round_up(attn__max(1, attn__min(rows, job->most)), 48);
    f->tiles = attn__ceil_div(rows, 96) + 1; /* at most */
    f->splits = 1;
    f->rows_partial = 0;
    f->span = attn__span_keys(d, f->BN); /* splits side by side may have none */
    attn__flash_memory(f, rows, job->most, job->most);
    job->BN = attn__clamp((1 << 17) / each / ATTN__INT16_CHUNK, 1, 8) * ATTN__INT16_CHUNK;
    job->BN = attn__min(job->BN, attn__round_up(attn__max(d->kv_len, 1), ATTN__INT16_CHUNK));
    job->rows_pad = f->BM + 16;
    job->kept = attn__int16_carve(job, NULL, &t, &job->scratch);
    job->scratch = attn__max(job->scratch, job->kept + f->scratch);
    job->keys = d->kv_len;
    job->pair = job->pairs = job->side = 0;
#if ATTN__DECODE
    attn__decode all;
    int64_t scratch;
    const int bytes = isa->W == 16 && (attn__machine()->has & ATTN__CPU_VNNI) != 0;
    job->codes = bytes && d->head_dim % 32 == 0 && !(d->flags & ATTN_TOLERANCE_ABSOLUTE) &&
                 d->tolerance > ATTN__DECODE_COARSE;
    if (job->decode) job->pair = attn__decode_carve(job, NULL, NULL, &all, &scratch);
    /* as much for those side by side as they may need, or for one */
    job->pairs = attn__max(
        attn__max(job->pair, attn__min(attn__size_mul(f->planned, job->pair), ATTN__DECODE_SIDE)),
        attn__min(attn__size_mul(d->kv_heads, job->pair), ATTN__DECODE_ROOM));
    if (job->decode) job->scratch = attn__max(job->scratch, scratch);
#endif
    job->bytes = attn__sat_add(
        attn__max(plain, attn__sat_add(attn__size_mul(f->planned, job->scratch), job->pairs)),
        attn__append_bytes(d));
    job->units = d->batch * d->kv_heads * f->tiles;
}
/* A reason why no row of the call would be computed from codes; NULL: none. Where it is a length,
 * what runs instead leaves the bits that this backend would. */
static const char *attn__exact_needed(const attn_desc *d) {
    if (!(d->tolerance > 0)) return "no tolerance is given";
    if (attn__needs_extras(d, d->mask.data != NULL))
        return "softcap, bias, mask, ALiBi or an extreme scale";
    if (d->dropout > 0) return "dropout";
    if (d->sink) return "attention sink";
    return NULL;
}
static int64_t attn__filter_keys(void) {
    return attn__tuning.filter ? 2 * ATTN__INT16_CHUNK : ATTN__FILTER_KEYS;
}
static int64_t attn__int16_keys(const attn_desc *d) {
    return attn__named_adaptive(d) ? ATTN__INT16_KEYS : ATTN__INT16_CHOSEN;
}
/* The same for sequences of many rows, against so many keys. */
static const char *attn__rows_decline(const attn_desc *d, int64_t keys) {
    const attn__kernels *isa = attn__machine()->isa;
    const int vnni = (attn__machine()->has & ATTN__CPU_VNNI) != 0;
    if (d->q_len * (d->heads / d->kv_heads) < ATTN__INT16_ROWS || d->kv_len < keys)
        return ATTN__INT16_FEW;
    if (d->head_dim > ATTN__INT16_DIM || d->v_dim > ATTN__INT16_DIM)
        return "head_dim or v_dim is above 512";
    if (!isa->int16_q || (isa->W == 16 && !vnni))
        return "the processor has no products of int16 that pay";
    return NULL;
}
static const char *attn__int16_declines(const attn_desc *d) {
    const char *why = attn__rows_decline(d, attn__int16_keys(d));
    if (why || attn__named_adaptive(d)) return why;
    if (attn__machine()->isa->W < 16) return "products of int16 do not pay without AVX-512 VNNI";
    if (d->head_dim < ATTN__INT16_DIMS) return "products of int16 do not pay with so few dims";
    return attn__both_bf16(d->q.dtype, d->k.dtype, d->head_dim) &&
                   attn__both_bf16(d->v.dtype, d->o.dtype, 2)
               ? "products of bf16 are as fast as those of int16"
               : NULL;
}
/* Whether keys may be left out: not of rows whose keys are split. */
static int attn__filter_takes(const attn_desc *d) {
    const int split = d->q_len * (d->heads / d->kv_heads) <= ATTN__SPLIT_ROWS &&
                      d->kv_len >= 2 * ATTN__SPLIT_KEYS;
    return !split && !attn__rows_decline(d, attn__filter_keys()) &&
           (attn__machine()->isa->W >= 8 || attn__named_adaptive(d));
}
/* The same for sequences of few rows, whose keys and values are int16. */
static const char *attn__decode_declines(const attn_desc *d) {
    const int absolute = (d->flags & ATTN_TOLERANCE_ABSOLUTE) != 0;
    if (!ATTN__DECODE || d->k.dtype != ATTN_INT16 || d->v.dtype != ATTN_INT16) return "";
    if (d->kv_len < ATTN__DECODE_KEYS) return ATTN__INT16_FEW;
    if (attn__across(&d->k, d->head_dim) || attn__across(&d->v, d->v_dim))
        return "rows of the cache lie in two pieces";
    if (d->head_dim > ATTN__INT16_DIM || d->v_dim > ATTN__INT16_DIM)
        return "head_dim or v_dim is above 512";
    if (!absolute && d->tolerance < ATTN__DECODE_FINEST) return "tolerance is below 1/2048";
    if (!absolute && d->tolerance < ATTN__DECODE_PAYS && !attn__named_adaptive(d))
        return "high bytes do not pay at so small a tolerance";
    if (attn__machine()->isa->W < 8 && !attn__named_adaptive(d))
        return "high bytes do not pay without AVX2";
    if (!attn__decode_rows(d)) return "high bytes do not pay with so few dims";
    if (!d->seq.cu_q && !d->seq.used_q &&
        attn__max(d->q_len, 1) * (d->heads / d->kv_heads) > attn__decode_rows(d))
        return "more rows for so many dims than high bytes pay for";
    return NULL;
}
static const char *attn__adaptive_declines(const attn_desc *d) {
    const char *why = attn__exact_needed(d), *few;
    if (why || attn__filter_takes(d) || !(why = attn__int16_declines(d))) return why;
    few = attn__decode_declines(d);
    return !few ? NULL : *few ? few : why;
}
/* Bytes of the same call with as few queries as are decoded, 0: none are. What is planned never shrinks
 * as q_len grows. */
static int64_t attn__adaptive_fewer(const attn_desc *d) {
    attn__adaptive job;
    attn_desc few = *d;
    few.q_len = attn__min(d->q_len, attn__decode_rows(d) / (d->heads / d->kv_heads));
    if (!ATTN__DECODE || few.q_len == d->q_len || attn__adaptive_declines(&few)) return 0;
    attn__adaptive_shape(&few, &job);
    return job.bytes;
}
static attn_status attn__adaptive_plan(
    void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan) {
    attn__adaptive job;
    (void)user;
    if (g) return attn__decline(plan, ATTN_ERR_DECLINED, "forward only");
    ATTN__TRY(attn__cpu_declines(d, g, plan));
    const char *why = attn__adaptive_declines(d);
    if (why) return attn__decline(plan, ATTN_ERR_DECLINED, why);
    attn__adaptive_shape(d, &job);
    plan->kernel = job.int16    ? "adaptive_int16"
                   : job.filter ? "adaptive_filter"
                                : "adaptive_decode";
    plan->isa = attn__machine()->isa->name;
    plan->threads = job.flash.threads;
    return attn__plan_bytes(plan, attn__max(job.bytes, attn__adaptive_fewer(d)));
}

/* Rows [r0, r1) of a unit as flash computes them. */
static void attn__adaptive_dense(
    const attn__adaptive *job, const attn__rows *u, int64_t r0, int64_t r1, const attn__int16 *t) {
    attn__rows part = *u;
    part.row0 += r0;
    part.rows = r1 - r0;
    attn__flash_rows(&part, 1, (char *)t->tally + job->kept, NULL);
    if (job->d->statistics) t->tally->f32 += attn__tiles(u, r0, r1);
}
/* The largest error of row r, whose sums as flash has them are O, relative to `sum`. */
static double attn__sampled_error(
    const attn__adaptive *job, const attn__int16 *t, int64_t r, const float *O, double sum) {
    const double own = (double)t->row[ATTN__ROW_SUM][r];
    double most = 0;
    for (int64_t c = 0; c < job->d->v_dim; c++) {
        const double off = (double)t->O[r * job->v_pad + c] / own - (double)O[c] / sum,
                     size = off < 0 ? -off : off;
        if (!(size <= most)) most = size;
    }
    return most;
}
/* Whether row r is to stay, with a certificate beyond the tolerance. */
static int attn__uncertified(const attn__adaptive *job, const attn__int16 *t, int64_t r) {
    return t->cert[r] != ATTN__FAILED && (double)t->cert[r] > attn__allowed(job, t, r);
}
/* Of the n rows listed, computed as flash does it too: how many are off by more than they may be. */
static int64_t attn__adaptive_compare(const attn__adaptive *job, const attn__rows *u,
    const attn__int16 *t, int64_t n, double *error) {
    const float *sum, *O = attn__adaptive_listed(job, u, t, n, &sum);
    int64_t beyond = 0;
    for (int64_t x = 0; x < n; x++) {
        const double off =
            attn__sampled_error(job, t, t->list[x], O + x * job->flash.v_pad, (double)sum[x]);
        beyond += !(off <= attn__allowed(job, t, t->list[x]));
        if (off > *error) *error = off;
    }
    t->tally->sampled += n;
    return beyond;
}
/* Lists the n rows that most exceed what they may be off by, by their certificates; none where all
 * exceed it about as much. */
static int64_t attn__adaptive_largest(
    const attn__adaptive *job, const attn__rows *u, const attn__int16 *t, int64_t n) {
    float *by = t->row[ATTN__ROW_REST]; /* which is in the certificates */
    int64_t found = 0;
    double sum = 0, rows = 0;
    for (int64_t r = 0; r < u->rows; r++) {
        by[r] = attn__uncertified(job, t, r)
                    ? (float)((double)t->cert[r] / (attn__allowed(job, t, r) + 1e-37))
                    : 0;
        sum += (double)by[r];
        rows += by[r] > 0;
    }
    for (; found < n; found++) {
        int64_t most = 0;
        for (int64_t r = 1; r < u->rows; r++)
            if (by[r] > by[most]) most = r;
        if (!(by[most] > 0) || (!found && (double)by[most] * rows < 3 * sum)) break;
        by[most] = 0;
        t->list[found] = (int32_t)most;
    }
    return found;
}
static uint64_t attn__unit_number(const attn__rows *u) {
    return (uint64_t)(u->row0 * 4096 + u->kv_head + 1);
}
/* One of [from, end), the same for the same number. */
static int64_t attn__anywhere(uint64_t number, int64_t from, int64_t end) {
    for (int i = 0; i < 3; i++) number = (number ^ number >> 31) * 0x9e3779b97f4a7c15u;
    return from + (int64_t)((number >> 33) % (uint64_t)(end - from));
}
/* Rows whose certificate is beyond the tolerance: are they to be computed again? Those of the largest
 * certificates, if these stand out, are compared with what flash computes, and while one of them is beyond, they are
 * computed again and more of them compared, up to an eighth of the unit; not where the quantile lets
 * as many be beyond. Of the others one is drawn in each of `all` equal parts. If more of these are
 * beyond than 19 draws in 20 have where a share 1 - quantile is, which is one for a high quantile,
 * all rows keep to the tolerance by their certificates.
 *
 * A unit that has a share f of rows beyond, whichever, stays so in (1 - f)^all of the draws, and of a
 * sequence of n units, each as bad as it can be, more than 1 - quantile is left where more than n (1
 * - quantile) / f stay: in less than 1 draw of 20 by all = (0.5 + 2.6 / n) / (1 - quantile), which
 * is the rule of three (Hanley and Lippman-Hand, "If nothing goes wrong, is everything all right?",
 * 1983) for n = 1. What is drawn follows from the unit's place, as all bits do, and not from data. */
static void attn__adaptive_sample(
    const attn__adaptive *job, const attn__rows *u, const attn__int16 *t) {
    const attn_desc *d = job->d;
    const double may = 1 - (double)d->quantile;
    const int64_t all = attn__samples(job, u);
    int64_t beyond = 0, redone = 0, left = 0, n;
    double error = 0;
    for (int64_t some = ATTN__SAMPLE_FIRST; 8 * may < 1; some *= 2) {
        n = attn__adaptive_largest(job, u, t, attn__min(some, u->rows / 8 - redone));
        error = 0;
        if (!n || !attn__adaptive_compare(job, u, t, n, &error)) break;
        for (int64_t x = 0; x < n; x++) t->cert[t->list[x]] = ATTN__FAILED;
        redone += n;
    }
    for (int64_t r = 0; r < u->rows; r++) left += attn__uncertified(job, t, r);
    const int64_t wanted = attn__ceil_div(all * left, u->rows);
    int64_t part = 0, at = 0, from = 0, drawn = -1;
    for (int64_t r = 0; r < u->rows; r++) {
        if (!attn__uncertified(job, t, r)) continue;
        if (at == from) {
            const int64_t end = left * (part + 1) / wanted;
            drawn = attn__anywhere(attn__unit_number(u) + ((uint64_t)part << 44), from, end);
            from = end;
        }
        if (at++ == drawn) t->list[part++] = (int32_t)r;
    }
    const double mean = may * (double)all, less = mean > 1 ? attn__sqrt(mean) - 1 : 0;
    if (part) beyond = attn__adaptive_compare(job, u, t, part, &error);
    if (beyond <= (int64_t)(less * less)) {
        t->tally->beyond += beyond;
        if ((float)error > t->tally->error) t->tally->error = (float)error;
        return;
    }
    for (int64_t r = 0; r < u->rows; r++)
        if (!((double)t->cert[r] <= attn__allowed(job, t, r))) t->cert[r] = ATTN__FAILED;
}
/* Whether there is a row whose certificate is beyond the tolerance. */
static int attn__some_beyond(const attn__adaptive *job, const attn__rows *u, const attn__int16 *t) {
    int64_t r = 0;
    while (r < u->rows && (double)t->cert[r] <= attn__allowed(job, t, r)) r++;
    return r < u->rows;
}
/* Failed rows again: those that lie together, or, where that is less, all of them in lists. Fewer than
 * `gap` rows between two of them run along, and are written over: the bits of a row follow from
 * its own certificate. */
static void attn__adaptive_redo(
    const attn__adaptive *job, const attn__rows *u, const attn__int16 *t, int64_t gap) {
    const int64_t most = attn__listed_most(job);
    int64_t failed = 0, along = 0, n = 0;
    for (int64_t r = 0, from = -gap - 1; r < u->rows; r++) {
        if (t->cert[r] != ATTN__FAILED) continue;
        along += r - from <= gap ? r - from : ATTN__PACKED_ROWS + 1;
        from = r;
        failed++;
    }
    t->tally->redone += failed;
    /* not where flash computes a split of the keys after the other */
    const int lists = attn__split_keys(&u->s, job->flash.group) >= u->s.k_len &&
                      failed + attn__ceil_div(failed, most) * ATTN__PACKED_ROWS < along;
    for (int64_t r = 0, end; r < u->rows; r = end) {
        end = r + 1;
        if (t->cert[r] != ATTN__FAILED) continue;
        if (lists) {
            t->list[n++] = (int32_t)r;
            failed--;
            if (n < most && failed > 0) continue;
            attn__listed_write(job, u, t, n);
            n = 0;
            continue;
        }
        for (int64_t next = end; next < attn__min(u->rows, end + gap); next++)
            if (t->cert[next] == ATTN__FAILED) end = next + 1;
        attn__adaptive_dense(job, u, r, end, t);
    }
}
/* Unit n, the last rows first. The rows of a unit follow from those of its sequence alone, for what
 * a unit's rows see is in all their certificates: 16 units and more of a sequence, where they do not
 * get too small for the packing. Rows beyond used_q are units of their own. */
static int attn__adaptive_rows(const attn__adaptive *job, int64_t n, attn__rows *u) {
    const int64_t pairs = job->d->batch * job->d->kv_heads, kv_heads = job->d->kv_heads;
    u->job = &job->flash;
    u->s = attn__sequence(job->d, n % pairs / kv_heads);
    u->kv_head = n % kv_heads;
    u->k0 = 0;
    u->k1 = u->s.k_len;
    const int64_t used = u->s.q_used * job->flash.group, all = u->s.q_rows * job->flash.group,
                  most = attn__adaptive_most(job, &u->s), tiles = attn__ceil_div(used, most),
                  tile = job->flash.tiles - 1 - n / pairs, blocks = attn__ceil_div(used, 48);
    if (tile < tiles) { /* blocks of 48 rows, as many in each as in another, or one more */
        u->row0 = tile * blocks / tiles * 48;
        u->rows = attn__min((tile + 1) * blocks / tiles * 48, used) - u->row0;
    } else {
        u->row0 = used + (tile - tiles) * job->most;
        u->rows = attn__min(job->most, all - u->row0);
    }
    return u->rows > 0;
}
/* The rows' certificates, as outputs. */
static void attn__adaptive_certs(
    const attn__adaptive *job, const attn__rows *u, const attn__int16 *t) {
    const attn_desc *d = job->d;
    const int64_t group = job->flash.group;
    for (int64_t r = 0; r < u->rows; r++)
        if (t->cert[r] == ATTN__FAILED) t->cert[r] = 0;
    if (job->flash.bf16_pv) {
        attn__add_rounding(u, t->cert, &t->tally->cert);
        return;
    }
    for (int64_t r = 0; r < u->rows; r++) {
        const int64_t row = u->row0 + r, h = u->kv_head * group + row % group;
        const float cert = t->cert[r];
        if (cert > t->tally->cert) t->tally->cert = cert;
        if (d->cert) d->cert[attn__lse_at(d, &u->s, row / group, h)] = cert;
    }
}
/* How the rows of a unit are computed. */
enum { ATTN__DENSE_FEW, ATTN__DENSE_COARSE, ATTN__FROM_INT16, ATTN__FILTERED };
static int attn__adaptive_how(
    const attn__adaptive *job, const attn__rows *u, const attn__int16 *t) {
    const int64_t rows = u->s.q_used * job->flash.group - u->row0;
    const int64_t keys = attn__keys_seen(job->d, &u->s);
    const int some = job->filter && rows >= ATTN__INT16_ROWS && keys >= attn__filter_keys() &&
                     attn__split_keys(&u->s, job->flash.group) >= u->s.k_len;
    if (some && attn__filter_worth(job, u, t)) return ATTN__FILTERED;
    if (!job->int16 || rows < ATTN__INT16_ROWS || keys < attn__int16_keys(job->d))
        return some ? ATTN__DENSE_COARSE : ATTN__DENSE_FEW;
    return attn__int16_worth(job, u, t) ? ATTN__FROM_INT16 : ATTN__DENSE_COARSE;
}
static void attn__adaptive_unit(const void *arg, int64_t n, char *scratch) {
    const attn__adaptive *job = (const attn__adaptive *)arg;
    attn__int16 t;
    attn__rows u;
    if (!attn__adaptive_rows(job, n, &u)) return;
    if (attn__decodes(job, &u.s) && u.row0 < u.s.q_used * job->flash.group) return;
    attn__int16_carve(job, scratch, &t, NULL);
    t.tally->rows += u.rows;
    const int how = attn__adaptive_how(job, &u, &t);
    if (how == ATTN__FROM_INT16) {
        if (job->d->statistics) t.tally->int16 += attn__tiles(&u, 0, u.rows);
        attn__int16_rows(job, &u, &t);
        if (attn__some_beyond(job, &u, &t)) attn__adaptive_sample(job, &u, &t);
        attn__adaptive_redo(job, &u, &t, 32);
        attn__int16_write(job, &u, &t);
    } else if (how == ATTN__FILTERED) {
        const int64_t before = t.tally->f32;
        attn__filter_rows(job, &u, &t);
        attn__adaptive_redo(job, &u, &t, 1); /* its rows are written already */
        if (job->d->statistics) t.tally->f32 = before + attn__tiles(&u, 0, u.rows);
    } else {
        if (u.row0 < u.s.q_used * job->flash.group) /* the others see no key */
            *(how == ATTN__DENSE_FEW ? &t.tally->few : &t.tally->coarse) += u.rows;
        attn__adaptive_dense(job, &u, 0, u.rows, &t);
        for (int64_t r = 0; r < u.rows; r++) t.cert[r] = ATTN__FAILED;
    }
    attn__adaptive_certs(job, &u, &t);
}
#if ATTN__DECODE
/* The keys that some row sees, from a whole chunk on. */
static void attn__decode_keys(attn__decode *p) {
    attn__rows_see(p->job->d, &p->u.s, 0, p->u.s.q_used - 1, &p->first, &p->last);
    p->first = p->first / ATTN__INT16_CHUNK * ATTN__INT16_CHUNK;
}
/* Whether the rows of a unit may be decoded: q and its codes lie in memory of the thread. */
static int attn__decode_worth(const attn__adaptive *job, const attn__rows *u, char *scratch) {
    attn__decode p;
    int64_t unused;
    if (!job->codes) return 1;
    attn__decode_carve(job, NULL, scratch, &p, &unused);
    p.job = job;
    p.u = *u;
    p.Q = p.room;
    p.code = (int16_t *)(void *)(p.Q + ATTN__DECODE_ROWS * job->flash.q_pad);
    p.unit = p.T;
    p.left = p.T + ATTN__DECODE_ROWS;
    p.off = p.T + 2 * ATTN__DECODE_ROWS;
    attn__decode_keys(&p);
    attn__machine()->isa->decode_begin(&p);
    return !attn__decode_hopeless(&p);
}
#else
static int attn__decode_worth(const attn__adaptive *job, const attn__rows *u, char *scratch) {
    return job && u && scratch;
}
#endif
/* Looks for a unit that does not stay dense: counted as a row of the thread. */
static void attn__adaptive_look(const void *arg, int64_t n, char *scratch) {
    const attn__adaptive *job = (const attn__adaptive *)arg;
    attn__int16 t;
    attn__rows u;
    attn__int16_carve(job, scratch, &t, NULL);
    int64_t first, last;
    if (t.tally->rows || !attn__adaptive_rows(job, n, &u)) return;
    attn__rows_see(job->d, &u.s, u.row0 / job->flash.group,
        (u.row0 + u.rows - 1) / job->flash.group, &first, &last);
    const int used = u.row0 < u.s.q_used * job->flash.group, decodes = attn__decodes(job, &u.s);
    if (used ? first >= last : decodes) return; /* nothing to do */
    const int how = !decodes                               ? attn__adaptive_how(job, &u, &t)
                    : attn__decode_worth(job, &u, scratch) ? ATTN__FROM_INT16
                                                           : ATTN__DENSE_COARSE;
    if (how == ATTN__DENSE_FEW) t.tally->few += u.rows;
    else if (how == ATTN__DENSE_COARSE) t.tally->coarse += u.rows;
    else t.tally->rows = 1;
}
#if ATTN__DECODE
/* A phase of the sequences and kv heads at `kept`, or of those of them that are `later`. */
typedef struct attn__decoding {
    const attn__adaptive *job;
    char *kept;
    int64_t count;
    int32_t phase, later;
} attn__decoding;
ATTN__INLINE attn__decode_kept *attn__decode_kept_at(const attn__decoding *now, int64_t n) {
    return (attn__decode_kept *)(void *)(now->kept + n * now->job->pair);
}
/* Tiles of the rows, and those of them none of whose values was read, but of rows to be redone. */
static void attn__decode_tiles(const attn__decode *p, attn__tally *tally) {
    tally->int16 += attn__tiles(&p->u, 0, p->u.rows);
    for (int64_t j0 = p->first; j0 < p->last; j0 += ATTN__INT16_CHUNK) {
        const int64_t end = attn__min(j0 + ATTN__INT16_CHUNK, p->last);
        int some = 0;
        for (int64_t j = j0; j < end; j++) some |= p->level[j] >= (float)ATTN__VALUE_HIGH;
        for (int64_t r = 0; r < p->u.rows && !some; r++) {
            int64_t lo, hi;
            attn__range(p->job->d, &p->u.s, r / p->job->flash.group, &lo, &hi);
            tally->skipped += p->cert[r] != ATTN__FAILED && lo < end && hi > j0;
        }
    }
}
/* The failed rows again, from the first to the last at once, which costs hardly more than one of them;
 * those between are written once more. */
static void attn__decode_redo(const attn__decode *p, const attn__int16 *t) {
    int64_t first = p->u.rows, end = 0, failed = 0, tiles = 0;
    for (int64_t r = 0; r < p->u.rows; r++) {
        if (p->cert[r] != ATTN__FAILED) continue;
        first = attn__min(first, r);
        end = r + 1;
        failed++;
        if (p->job->d->statistics) tiles += attn__tiles(&p->u, r, end);
    }
    if (!failed) return;
    t->tally->redone += failed;
    attn__adaptive_dense(p->job, &p->u, first, end, t);
    if (p->job->d->statistics) t->tally->f32 += tiles - attn__tiles(&p->u, first, end);
    for (int64_t r = first; r < end; r++)
        if (p->cert[r] != ATTN__FAILED) attn__decode_write(p, r);
}
static void attn__decode_unit(const void *arg, int64_t n, char *scratch) {
    const attn__decoding *now = (const attn__decoding *)arg;
    const attn__adaptive *job = now->job;
    const int64_t group = job->flash.group, heads = job->d->kv_heads, at = n % now->count,
                  pair = attn__decode_kept_at(now, at)->pair;
    attn__decode p;
    int64_t unused;
    p.u.s = attn__sequence(job->d, pair / heads);
    if (!attn__decodes(job, &p.u.s)) return;
    p.job = job;
    p.split = n / now->count;
    p.splits = attn__decode_splits(job, &p.u.s);
    if (p.split >= p.splits) return;
    attn__decode_carve(job, now->kept + at * job->pair, scratch, &p, &unused);
    if (now->phase >= ATTN__DECODE_VALUES && p.kept->later != now->later) return;
    const int64_t keys = attn__split_keys(&p.u.s, group);
    p.u.job = &job->flash;
    p.u.kv_head = pair % heads;
    p.u.row0 = 0;
    p.u.rows = p.u.s.q_used * group;
    p.u.k0 = p.split * keys;
    p.u.k1 = attn__min(p.u.k0 + keys, p.u.s.k_len);
    attn__decode_keys(&p);
    switch (now->phase) {
        case ATTN__DECODE_BEGIN:
            attn__machine()->isa->decode_begin(&p);
            p.kept->hopeless = attn__decode_hopeless(&p);
            break;
        case ATTN__DECODE_SCORES:
            if (!p.kept->hopeless) attn__machine()->isa->decode_scores(&p);
            break;
        case ATTN__DECODE_CHOOSE: attn__decode_choose(&p); break;
        case ATTN__DECODE_VALUES: attn__decode_values(&p); break;
        default:                  attn__decode_finish(&p);
    }
    if (now->phase != ATTN__DECODE_FINISH) return;
    attn__int16 t;
    attn__int16_carve(job, scratch, &t, NULL);
    t.tally->rows += p.u.rows;
    p.u.k0 = 0;
    p.u.k1 = p.u.s.k_len;
    if (attn__decode_dense(&p)) {
        t.tally->coarse += p.u.rows;
        attn__adaptive_dense(job, &p.u, 0, p.u.rows, &t);
    } else {
        if (job->d->statistics) attn__decode_tiles(&p, t.tally);
        attn__decode_redo(&p, &t);
    }
    attn__adaptive_certs(job, &p.u, &t);
}
static void attn__decode_phases(attn__decoding *now, attn__share *share, int32_t first) {
    const attn_desc *d = now->job->d;
    const int64_t splits = attn__min(16, attn__ceil_div(d->kv_len, ATTN__SPLIT_KEYS));
    now->later = first > ATTN__DECODE_BEGIN;
    for (now->phase = first; now->phase < ATTN__DECODE_PHASES && now->count; now->phase++) {
        const int by_splits =
            now->phase == ATTN__DECODE_SCORES || now->phase == ATTN__DECODE_VALUES;
        share->units = now->count * (by_splits ? splits : 1);
        attn__share_run(d, share);
    }
}
/* As many sequences and kv heads as there are threads, so that L2 holds what is known of them, and as
 * there is room for. Those that are `later` wait for as many as there is room for, and go split by
 * split together: kv heads share pages of memory, and processors know the addresses of few. */
static void attn__decode_run(attn__adaptive *job, char *workspace) {
    const int64_t pairs = job->d->batch * job->d->kv_heads;
    char *room = workspace + job->flash.planned * job->scratch;
    attn__decode all;
    int64_t unused;
    job->keys = 0;
    for (int64_t b = 0; b < job->d->batch; b++) {
        const attn__sequence_view s = attn__sequence(job->d, b);
        if (attn__decodes(job, &s)) job->keys = attn__max(job->keys, s.k_len);
    }
    if (!job->keys) return;
    job->pair = attn__decode_carve(job, NULL, NULL, &all, &unused);
    job->side = attn__clamp(job->pairs / job->pair, 1, job->flash.planned);
    int64_t kept = 0, first = 0;
    attn__decoding now = {job, room, 0, 0, 0};
    attn__share share = {
        attn__decode_unit, &now, workspace, job->scratch, 0, job->flash.threads, 0};
    while (first < pairs) {
        int32_t later = 0;
        now.kept = room + kept * job->pair;
        now.count = attn__min(job->side, pairs - first);
        for (int64_t n = 0; n < now.count; n++) {
            attn__decode_kept_at(&now, n)->pair = first++;
            attn__decode_kept_at(&now, n)->later = 0;
        }
        attn__decode_phases(&now, &share, ATTN__DECODE_BEGIN);
        for (int64_t n = 0; n < now.count; n++) later |= attn__decode_kept_at(&now, n)->later;
        kept += later ? now.count : 0;
        if (first < pairs && (kept + job->side) * job->pair <= job->pairs) continue;
        now.kept = room;
        now.count = kept;
        kept = 0;
        attn__decode_phases(&now, &share, ATTN__DECODE_VALUES);
    }
}
#endif
static const char *attn__adaptive_why(const attn__adaptive *job, int64_t few, int64_t coarse) {
    if (!coarse)
        return !few          ? ""
               : job->decode ? "fewer keys, or more rows for so many dims, than high bytes pay for"
                             : ATTN__INT16_FEW;
    return job->decode  ? "nearly all bytes would be read, or scores have no bound, or a coarse one"
           : job->int16 ? "codes of int16 are too coarse for the tolerance"
                        : "too few keys are light enough to be left out";
}
/* What the threads' tallies say together. */
static void attn__adaptive_tell(const attn__adaptive *job, const char *workspace) {
    attn_statistics *s = job->d->statistics;
    int64_t few = 0, coarse = 0;
    memset(s, 0, sizeof *s);
    for (int64_t i = 0; i < job->flash.threads; i++) {
        const attn__tally *t = (const attn__tally *)(const void *)(workspace + i * job->scratch);
        s->tiles_int16 += t->int16;
        s->tiles_f32 += t->f32;
        s->rows += t->rows;
        s->rows_redone += t->redone;
        s->tiles_skipped += t->skipped;
        s->bytes += t->bytes;
        s->rows_sampled += t->sampled;
        s->rows_beyond += t->beyond;
        if (t->error > s->sampled_error) s->sampled_error = t->error;
        if (t->mass > s->mass_skipped) s->mass_skipped = t->mass;
        few += t->few;
        coarse += t->coarse;
        if (t->cert > s->largest_cert) s->largest_cert = t->cert;
        if (t->lse > s->lse_error) s->lse_error = t->lse;
    }
    attn__write(s->why, sizeof s->why, 0, attn__adaptive_why(job, few, coarse));
}
/* Where no unit would be computed from codes, all rows go as a plain call has them go: the units of
 * that are larger. Returns the reason, or NULL: some unit would be. */
static const char *attn__adaptive_none(const attn__adaptive *job, char *workspace) {
    const attn_desc *d = job->d;
    attn__share share = {
        attn__adaptive_look, job, workspace, job->scratch, job->units, job->flash.threads, 0};
    int64_t few = 0, coarse = 0, found = 0;
    attn__share_run(d, &share);
    for (int64_t i = 0; i < job->flash.threads; i++) {
        attn__tally *t = (attn__tally *)(void *)(workspace + i * job->scratch);
        few += t->few;
        coarse += t->coarse;
        found += t->rows;
        memset(t, 0, sizeof *t);
    }
    return found ? NULL : attn__adaptive_why(job, few, coarse);
}
static attn_status attn__adaptive_run(
    void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan) {
    attn__adaptive job;
    attn__flash plain;
    char *workspace = (char *)d->workspace;
    (void)user, (void)g, (void)plan;
    attn__adaptive_shape(d, &job);
    attn__append(d, job.flash.threads, workspace + job.flash.planned * job.scratch + job.pairs);
    for (int64_t i = 0; i < job.flash.threads; i++)
        memset(workspace + i * job.scratch, 0, sizeof(attn__tally));
    const char *none = attn__adaptive_none(&job, workspace);
    if (none) {
        attn__flash_shape(d, &plain);
        attn__flash_compute(d, &plain);
        attn__tell_dense(d, none);
        return ATTN_OK;
    }
    attn__share share = {
        attn__adaptive_unit, &job, workspace, job.scratch, job.units, job.flash.threads, 0};
    attn__share_run(d, &share);
#if ATTN__DECODE
    if (job.decode) attn__decode_run(&job, workspace);
#endif
    if (d->statistics) attn__adaptive_tell(&job, workspace);
    return ATTN_OK;
}
#endif

static void attn__tell_exact(const attn_desc *d, const attn_backend *b) {
    if (!(d->tolerance > 0) || !strcmp(b->name, "adaptive")) return;
#if ATTN__ADAPTIVE
    attn_plan plan;
    const char *why = attn__cpu_declines(d, NULL, &plan) ? plan.why : attn__adaptive_declines(d);
#else
    const char *why = "this build has no adaptive backend (ATTN_NO_ADAPTIVE)";
#endif
    if (!ATTN__ADAPTIVE || strcmp(b->name, "flash") != 0) attn__no_certs(d);
    attn__tell_dense(d, why ? why : "another backend was named");
}

/* =========================================================================== >>gradients ====
   Shared by flash and standard: shape, phases, units. Flash: rows, key splits, dq, dbias,
   dsink; the first three in one where heads are enough for the threads, and dbias with the splits
   where no other unit has a share in it. Standard: rows, all P and dS, dK and dV, dQ; the rest is
   alike in both. */
enum { ATTN__STD_SCORES, ATTN__STD_KEYS, ATTN__STD_QUERIES };
typedef struct attn__bwd {
    const attn_desc *d;
    const attn_grad *g;
    int32_t threads, planned;
    int64_t group, splits;   /* the most splits of a sequence */
    int64_t rows, rows_most; /* of all heads; of a (sequence, kv head) at most */
    int64_t BQ, BK, ld, v_pad, q_pad;
    int64_t v_ld, q_ld; /* from row to row: v_pad, q_pad and perhaps a line more */
    int extras, standard;
    int phase; /* of the standard backward */
    /* a unit is all splits of a (sequence, kv head): its rows are held in the thread's own memory,
     * which caches keep from head to head. Otherwise a unit is one split, and the rows of all
     * heads are held. */
    int whole_heads;
    /* dbias is written by the splits: none of its elements is another kv head's or row's. Those that
     * the batch shares: a unit is a kv head of all sequences, in turn */
    int bias_at_once, in_turn;
    int64_t rows_held, first;                 /* rows held, the first of them */
    int64_t block_bytes, held_bytes, scratch; /* blocks of a thread; rows held; all of a thread */
    char *workspace;
    /* [rows]: lse; dout . o - dlse; not 0 where q or dout is not finite */
    float *lse, *delta, *bad;
    /* f32 copies [rows_held][q_ld], [rows_held][v_ld]; the same as pairs of bf16, in half of that,
     * where Q K^T, dO V^T are products of bf16; partials [splits][rows_held][q_ld] */
    float *q, *dout, *dq;
    int bf16_qk, bf16_dp;
    float *P, *dS; /* standard: [rows][ld] */
} attn__bwd;
/* Further down: >>blocks. */
static void attn__backward_split(const attn__bwd *job, const attn__sequence_view *s,
    int64_t kv_head, int64_t split, char *scratch);
static void attn__backward_bias(
    const attn__bwd *job, int64_t b0, int64_t h0, int64_t column, char *scratch);
#ifndef ATTN_NO_STANDARD
static void attn__standard_backward(const attn__bwd *job, const attn__sequence_view *s,
    int64_t kv_head, int64_t block, char *scratch);
#endif
typedef char attn__bwd_fits[sizeof(attn__bwd) <= sizeof((attn_plan *)0)->own ? 1 : -1];
/* Key splits of a sequence: a function of its own length and heads. Split n is the key blocks n,
 * n + splits, .. of one (sequence, kv head), which balances causal work. Each split adds to a dq of
 * its own; these partials are summed in order at the end. */
static int64_t attn__bwd_splits(int64_t k_len, int64_t kv_heads, int standard) {
    if (standard) return 1;
    return attn__max(1, attn__min(attn__min(8, attn__ceil_div(16, kv_heads)), k_len / 256));
}
/* The first of the rows of (sequence, kv head) in lse, delta, bad; row r is r beyond. In q, dout and
 * dq it is job->first less. */
static int64_t attn__bwd_row(const attn__bwd *job, const attn__sequence_view *s, int64_t kv_head) {
    return (s->q_batch * job->d->q_len + s->q_first) * job->d->heads +
           kv_head * job->group * s->q_rows;
}

/* Whether splits may write dbias: else, and with a softcap, whose slope is in dS, it is computed apart.
 * Without keys it has no element, and dense strides are 0. */
static int attn__bwd_bias_own(const attn__bwd *job) {
    const attn_desc *d = job->d;
    return job->g->dbias && !job->standard && !attn__capped(d) &&
           (d->kv_len == 0 || (d->bias.stride[2] && (d->bias.stride[1] || d->heads == 1)));
}
static void attn__bwd_shape(const attn_desc *d, const attn_grad *g, int standard, attn__bwd *job) {
    memset(job, 0, sizeof *job);
    job->d = d;
    job->g = g;
    job->standard = standard;
    job->threads = attn__useful_threads(d, 2.5);
    job->planned = attn__planned_threads(d);
    job->group = d->heads / d->kv_heads;
    job->splits = attn__bwd_splits(d->kv_len, d->kv_heads, standard);
    job->rows = attn__rows_total(d) * d->heads;
    job->rows_most = attn__rows_most(d) * job->group;
    job->v_pad = attn__round_up(d->v_dim, attn__machine()->isa->W);
    job->q_pad = attn__round_up(d->head_dim, attn__machine()->isa->W);
    job->extras = attn__needs_extras(d, d->mask.data != NULL);
    /* eight lines apart, the columns of a tile would share half of the L1 cache's sets */
    job->v_ld = job->v_pad + (job->v_pad % 128 == 0 ? 16 : 0);
    job->q_ld = job->q_pad + (job->q_pad % 128 == 0 ? 16 : 0);
    /* blocks of 128 take 0.8 MiB at dims of 256, 0.5 MiB at 128 */
    job->BQ = job->BK =
        job->q_pad + job->v_pad <= (attn__machine()->l2 < 2 << 20 ? 320 : 512) ? 128 : 64;
    if (attn__tuning.BK) job->BQ = job->BK = attn__tuning.BK;
    job->BK = attn__min(job->BK, attn__round_up(attn__max(d->kv_len, 1), 64));
    job->BQ = attn__min(job->BQ, attn__round_up(attn__max(job->rows_most, 1), 16));
    job->ld = attn__round_up(d->kv_len, job->BK) + ATTN__SCORE_PAD;
    job->block_bytes = 4 * (3 * job->BK * job->q_ld + 2 * job->BK * job->v_ld + 2 * job->BK +
                               2 * job->BQ * (job->BK + ATTN__SCORE_PAD));
    job->block_bytes = attn__round_up(job->block_bytes, ATTN__ALIGN);
    job->bf16_qk = !standard && attn__both_bf16(d->q.dtype, d->k.dtype, d->head_dim);
    job->bf16_dp = !standard && attn__both_bf16(g->dout.dtype, d->v.dtype, d->v_dim);
    int64_t pairs = d->batch * d->kv_heads,
            row = ((job->splits + 1) * job->q_ld + job->v_ld) * 4 +
                  (job->bf16_qk ? job->q_ld * 2 : 0) + (job->bf16_dp ? job->v_ld * 2 : 0),
            own = attn__round_up(row * job->rows_most, ATTN__ALIGN),
            all = attn__round_up(row * job->rows, ATTN__ALIGN);
    const int fits = !standard && attn__size_mul(job->planned, own) <= all,
              shared = d->batch > 1 && d->kv_len && !d->bias.stride[0];
    /* in turn, threads may wait for a third of the time: computed apart, dbias takes as long */
    job->in_turn = attn__bwd_bias_own(job) && shared && fits &&
                   2 * attn__round_up(d->kv_heads, job->planned) <= 3 * d->kv_heads;
    job->bias_at_once = attn__bwd_bias_own(job) && (!shared || job->in_turn);
    job->whole_heads =
        job->in_turn || (fits && (!g->dbias || job->bias_at_once) &&
                            (pairs % job->planned == 0 || pairs >= 4 * job->planned));
    job->rows_held = job->whole_heads ? job->rows_most : job->rows;
    job->held_bytes = job->whole_heads ? own : all;
    job->scratch = job->block_bytes + (job->whole_heads ? own : 0);
}
static attn_status attn__bwd_plan(
    const attn_desc *d, const attn_grad *g, int standard, attn_plan *plan) {
    attn__bwd job;
    int64_t scores = 0;
    attn__bwd_shape(d, g, standard, &job);
    int64_t each = attn__round_up(3 * job.rows * 4, ATTN__ALIGN),
            fixed = attn__sat_add(attn__sat_add(job.planned * job.scratch, each),
                job.whole_heads ? 0 : job.held_bytes);
    if (standard) ATTN__TRY(attn__scores_fit(d, 2, job.ld, fixed, &scores, plan));
    static const char *const names[2][2] = {{"flash_backward", "flash_backward_bf16"},
        {"flash_backward_masked", "flash_backward_masked_bf16"}};
    plan->kernel = standard ? "standard_backward" : names[job.extras][job.bf16_qk || job.bf16_dp];
    plan->isa = attn__machine()->isa->name;
    plan->threads = job.threads;
    plan->splits = (int32_t)job.splits;
    memcpy(plan->own, &job, sizeof job);
    return attn__plan_bytes(plan, attn__sat_add(fixed, scores));
}
/* The phases. A unit of all but the last two is a part of a (sequence, kv head): first the first
 * parts of all, then the second ones. */
#define ATTN__BWD_ROWS_UNIT 256 /* rows a unit of the phases of rows and of dq */
static int64_t attn__bwd_pairs(const attn__bwd *job) { return job->d->batch * job->d->kv_heads; }
static int64_t attn__bwd_part(
    const attn__bwd *job, int64_t u, attn__sequence_view *s, int64_t *kv_head) {
    const int64_t pairs = attn__bwd_pairs(job);
    *kv_head = u % pairs % job->d->kv_heads;
    *s = attn__sequence(job->d, u % pairs / job->d->kv_heads);
    return u / pairs;
}
/* Rows, and at the end dq: from row 256 * part on. */
static int64_t attn__bwd_rows_units(const attn__bwd *job) {
    return job->whole_heads
               ? 0
               : attn__bwd_pairs(job) * attn__ceil_div(job->rows_most, ATTN__BWD_ROWS_UNIT);
}
static void attn__bwd_rows_unit(const void *arg, int64_t u, char *scratch) {
    const attn__bwd *job = (const attn__bwd *)arg;
    attn__sequence_view s;
    int64_t kv_head, row0 = attn__bwd_part(job, u, &s, &kv_head) * ATTN__BWD_ROWS_UNIT,
                     rows = attn__min(ATTN__BWD_ROWS_UNIT, s.q_rows * job->group - row0);
    (void)scratch;
    attn__machine()->isa->backward_rows(job, &s, kv_head, row0, rows);
}
static void attn__bwd_dq_unit(const void *arg, int64_t u, char *scratch) {
    const attn__bwd *job = (const attn__bwd *)arg;
    attn__sequence_view s;
    int64_t kv_head, row0 = attn__bwd_part(job, u, &s, &kv_head) * ATTN__BWD_ROWS_UNIT,
                     rows = attn__min(ATTN__BWD_ROWS_UNIT, s.q_rows * job->group - row0);
    (void)scratch;
    attn__machine()->isa->backward_dq(job, &s, kv_head, row0, rows);
}
/* The pairs of rows held, behind their copies in f32. */
static float *attn__bwd_q_pairs(const attn__bwd *job) {
    return job->dout + job->rows_held * job->v_ld;
}
static float *attn__bwd_dout_pairs(const attn__bwd *job) {
    return attn__bwd_q_pairs(job) + (job->bf16_qk ? job->rows_held * (job->q_ld / 2) : 0);
}
/* Where the rows held lie. */
static void attn__bwd_lay(attn__bwd *job, char *at) {
    job->q = (float *)(void *)at;
    job->dout = job->q + job->rows_held * job->q_ld;
    job->dq = attn__bwd_dout_pairs(job) + (job->bf16_dp ? job->rows_held * (job->v_ld / 2) : 0);
}
/* Rows, splits and dq of a (sequence, kv head). */
static void attn__bwd_whole_head(
    const attn__bwd *job, const attn__sequence_view *s, int64_t kv_head, char *scratch) {
    const attn__kernels *k = attn__machine()->isa;
    int64_t splits = attn__bwd_splits(s->k_len, job->d->kv_heads, 0);
    attn__bwd own = *job;
    attn__bwd_lay(&own, scratch + job->block_bytes);
    own.first = attn__bwd_row(job, s, kv_head);
    k->backward_rows(&own, s, kv_head, 0, s->q_rows * job->group);
    for (int64_t part = 0; part < splits; part++)
        attn__backward_split(&own, s, kv_head, part, scratch);
    k->backward_dq(&own, s, kv_head, 0, s->q_rows * job->group);
}
/* Flash: key splits, or all that a (sequence, kv head) asks for. */
static int64_t attn__bwd_splits_units(const attn__bwd *job) {
    if (job->standard) return 0;
    if (job->in_turn) return job->d->kv_heads;
    return attn__bwd_pairs(job) * (job->whole_heads ? 1 : job->splits);
}
static void attn__bwd_splits_unit(const void *arg, int64_t u, char *scratch) {
    const attn__bwd *job = (const attn__bwd *)arg;
    attn__sequence_view s;
    int64_t kv_head, split = attn__bwd_part(job, u, &s, &kv_head);
    if (job->whole_heads) attn__bwd_whole_head(job, &s, kv_head, scratch);
    for (int64_t b = 1; b < job->d->batch && job->in_turn; b++) {
        s = attn__sequence(job->d, b);
        attn__bwd_whole_head(job, &s, kv_head, scratch);
    }
    if (job->whole_heads) return;
    if (split < attn__bwd_splits(s.k_len, job->d->kv_heads, 0))
        attn__backward_split(job, &s, kv_head, split, scratch);
}
#ifndef ATTN_NO_STANDARD
/* Standard: P and dS of all pairs, then dK and dV of key blocks, then dQ of row blocks. */
static int64_t attn__std_scores_units(const attn__bwd *job) {
    return job->standard ? attn__bwd_pairs(job) * attn__ceil_div(job->d->kv_len, job->BK) : 0;
}
static int64_t attn__std_keys_units(const attn__bwd *job) {
    return job->standard
               ? attn__bwd_pairs(job) * attn__max(attn__ceil_div(job->d->kv_len, job->BK), 1)
               : 0;
}
static int64_t attn__std_queries_units(const attn__bwd *job) {
    return job->standard ? attn__bwd_pairs(job) * attn__ceil_div(job->rows_most, job->BQ) : 0;
}
static void attn__std_unit(const void *arg, int64_t u, char *scratch) {
    const attn__bwd *job = (const attn__bwd *)arg;
    attn__sequence_view s;
    int64_t kv_head, block = attn__bwd_part(job, u, &s, &kv_head);
    attn__standard_backward(job, &s, kv_head, block, scratch);
}
#endif
/* dbias that splits do not write: blocks of keys of each distinct (batch entry, heads of a group) of
 * the bias; of one row for all queries the heads have units of their own. */
static int64_t attn__bwd_bias_together(const attn__bwd *job) {
    return job->d->bias.stride[2] ? job->group : 1;
}
static int64_t attn__bwd_bias_heads(const attn__bwd *job) {
    return job->d->bias.stride[1] ? job->d->heads / attn__bwd_bias_together(job) : 1;
}
static int64_t attn__bwd_bias_blocks(const attn__bwd *job) {
    return attn__ceil_div(job->d->kv_len, job->BK - 16);
}
static int64_t attn__bwd_bias_units(const attn__bwd *job) {
    const attn_desc *d = job->d;
    if (!job->g->dbias || job->bias_at_once) return 0;
    return (d->bias.stride[0] ? d->batch : attn__min(d->batch, 1)) * attn__bwd_bias_heads(job) *
           attn__bwd_bias_blocks(job);
}
static void attn__bwd_bias_unit(const void *arg, int64_t u, char *scratch) {
    const attn__bwd *job = (const attn__bwd *)arg;
    int64_t blocks = attn__bwd_bias_blocks(job), heads = attn__bwd_bias_heads(job);
    attn__backward_bias(job, u / blocks / heads, u / blocks % heads * attn__bwd_bias_together(job),
        u % blocks * (job->BK - 16), scratch);
}
/* dsink = - sum of exp(sink - lse) delta over batch and rows, in order, in f64 */
static int64_t attn__bwd_sink_units(const attn__bwd *job) {
    return job->g->dsink ? job->d->heads : 0;
}
static void attn__bwd_sink_unit(const void *arg, int64_t h, char *scratch) {
    const attn__bwd *job = (const attn__bwd *)arg;
    (void)scratch;
    const attn_desc *d = job->d;
    double sum = 0;
    for (int64_t b = 0; b < d->batch; b++) {
        attn__sequence_view s = attn__sequence(d, b);
        int64_t row = attn__bwd_row(job, &s, h / job->group) + h % job->group;
        for (int64_t i = 0; i < s.q_used; i++) {
            float lse = d->lse[attn__lse_at(d, &s, i, h)];
            if (attn__bits(lse) == 0xff800000u) continue; /* saw nothing, not even the sink */
            double x = (double)d->sink[h] - (double)lse;
            sum -= attn__exp(x > 0 ? 0 : x) * (double)job->delta[row + i * job->group];
        }
    }
    job->g->dsink[h] = (float)(d->flags & ATTN_ACCUMULATE ? (double)job->g->dsink[h] + sum : sum);
}
static const struct {
    int64_t (*units)(const attn__bwd *job);
    void (*unit)(const void *job, int64_t u, char *scratch);
    int phase;
} attn__bwd_phases[] = {
    {attn__bwd_rows_units, attn__bwd_rows_unit, 0},
    {attn__bwd_splits_units, attn__bwd_splits_unit, 0},
#ifndef ATTN_NO_STANDARD
    {attn__std_scores_units, attn__std_unit, ATTN__STD_SCORES},
    {attn__std_keys_units, attn__std_unit, ATTN__STD_KEYS},
    {attn__std_queries_units, attn__std_unit, ATTN__STD_QUERIES},
#endif
    {attn__bwd_rows_units, attn__bwd_dq_unit, 0},
    {attn__bwd_bias_units, attn__bwd_bias_unit, 0},
    {attn__bwd_sink_units, attn__bwd_sink_unit, 0},
};
static attn_status attn__bwd_run(const attn_desc *d, const attn_grad *g, const attn_plan *plan) {
    attn__bwd job;
    memcpy(&job, plan->own, sizeof job);
    job.d = d;
    job.g = g;
    job.workspace = (char *)d->workspace;
    job.lse = (float *)(void *)(job.workspace + job.planned * job.scratch);
    job.delta = job.lse + job.rows;
    job.bad = job.delta + job.rows;
    if (!job.whole_heads)
        attn__bwd_lay(&job, (char *)job.lse + attn__round_up(3 * job.rows * 4, ATTN__ALIGN));
    if (job.standard) {
        job.P = job.dq + job.rows * job.q_ld;
        job.dS = job.P + job.rows * job.ld;
    }
    for (size_t n = 0; n < sizeof attn__bwd_phases / sizeof *attn__bwd_phases; n++) {
        job.phase = attn__bwd_phases[n].phase;
        attn__share share = {attn__bwd_phases[n].unit, &job, job.workspace, job.scratch,
            attn__bwd_phases[n].units(&job), job.threads, 0};
        attn__share_run(d, &share);
    }
    return ATTN_OK;
}

/* ============================================================================ >>standard ====
   Attention as people write it without flash: the whole score matrix in memory, three passes
   over it, with the same register tiles as flash. The honest baseline of the tables. */
/* The standard backend: all scores in memory, three passes over them. */
typedef struct attn__std {
    const attn_desc *d;
    int pass; /* 0: S = Q K^T and masks, 1: softmax, 2: O = P V */
    int32_t threads, planned;
    int64_t BM, BN, ld, v_pad, q_pad, span, scratch, tiles; /* span: as attn__flash's */
    char *workspace;
    /* [batch][heads][q_len][ld]; [batch][heads][q_len][2]: max, sum */
    float *scores, *stats;
    int64_t units;
} attn__std;
typedef char attn__std_fits[sizeof(attn__std) <= sizeof((attn_plan *)0)->own ? 1 : -1];
#ifndef ATTN_NO_STANDARD
/* Further down: >>blocks. */
static void attn__standard_rows(const attn__std *job, const attn__sequence_view *s, int64_t h,
    int64_t row0, int64_t rows, char *scratch);
static void attn__standard_shape(const attn_desc *d, attn__std *job) {
    memset(job, 0, sizeof *job);
    job->d = d;
    job->BM = 48;
    job->BN = 256;
    job->v_pad = attn__round_up(d->v_dim, attn__machine()->isa->W);
    job->q_pad = attn__round_up(d->head_dim, attn__machine()->isa->W);
    job->ld = attn__round_up(attn__max(d->kv_len, 1), 16) + ATTN__SCORE_PAD;
    job->tiles = attn__ceil_div(d->q_len, job->BM);
    job->threads = attn__useful_threads(d, 1);
    job->planned = attn__planned_threads(d);
    job->units = d->batch * d->heads * job->tiles;
    job->span = attn__span_keys(d, job->BN);
    job->scratch = 4 * attn__max(job->BM * job->q_pad + job->BN * d->head_dim,
                           job->BM * (job->v_pad + 2) + job->BN * job->v_pad) +
                   (job->span ? job->BM * attn__span_bytes(job->v_pad) : 0) + ATTN__ALIGN;
    job->scratch = attn__round_up(job->scratch, ATTN__ALIGN);
}
static attn_status attn__standard_plan(
    void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan) {
    attn__std job;
    int64_t bytes;
    (void)user;
    ATTN__TRY(attn__cpu_declines(d, g, plan));
    if (ATTN__BACKWARD && g) return attn__bwd_plan(d, g, 1, plan);
    attn__standard_shape(d, &job);
    int64_t stats = 8 * d->batch * d->heads * d->q_len,
            fixed = attn__sat_add(
                attn__sat_add(job.planned * job.scratch, attn__append_bytes(d)), stats);
    ATTN__TRY(attn__scores_fit(d, 1, job.ld, fixed, &bytes, plan));
    memcpy(plan->own, &job, sizeof job);
    plan->kernel = "standard_forward";
    plan->isa = attn__machine()->isa->name;
    plan->threads = job.threads;
    return attn__plan_bytes(plan, attn__sat_add(bytes, fixed));
}
static void attn__standard_unit(const void *arg, int64_t u, char *scratch) {
    const attn__std *job = (const attn__std *)arg;
    int64_t tile = u % job->tiles, h = u / job->tiles % job->d->heads, row0 = tile * job->BM;
    attn__sequence_view s = attn__sequence(job->d, u / job->tiles / job->d->heads);
    if (row0 < s.q_rows)
        attn__standard_rows(job, &s, h, row0, attn__min(job->BM, s.q_rows - row0), scratch);
}
static attn_status attn__standard_run(
    void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan) {
    attn__std job;
    (void)user;
    if (ATTN__BACKWARD && g) return attn__bwd_run(d, g, plan);
    memcpy(&job, plan->own, sizeof job);
    job.d = d;
    job.workspace = (char *)d->workspace;
    char *p = job.workspace + job.planned * job.scratch;
    attn__append(d, job.threads, p);
    p += attn__append_bytes(d);
    job.scores = (float *)(void *)p;
    job.stats = job.scores + d->batch * d->heads * d->q_len * job.ld;
    for (job.pass = 0; job.pass < 3; job.pass++) {
        attn__share share = {
            attn__standard_unit, &job, job.workspace, job.scratch, job.units, job.threads, 0};
        attn__share_run(d, &share);
    }
    return ATTN_OK;
}
#endif

/* =============================================================================== >>split ====
   What the plans above share out, in the kernels of the ISA that runs, but compiled once: rows
   and groups of rows against blocks of keys, one key split after another. */
#define ATTN__LANES_MOST 16 /* of a vector, of any ISA */
#define ATTN__ROWS_MOST 8   /* of a tile */
#define ATTN__AHEAD 4
#define ATTN__LONG_ROW 256 /* bytes, of narrow types that are packed */
/* X(type): what k and v may be beside f32, each with code of its own. */
#if ATTN__ONLY_F32
#define ATTN__NARROW_TYPES(X)
#else
#define ATTN__NARROW_TYPES(X) \
    X(ATTN_F16) X(ATTN_BF16) X(ATTN_INT8) X(ATTN_FP8_E4M3) X(ATTN_INT16) X(ATTN_Q8_0) X(ATTN_Q4_0)
#endif
/* Of a thin sequence: how many keys are looked up at a time; how many bytes of them are fetched before
 * they are used, in at most so many keys. */
#define ATTN__THIN_CHUNK ATTN__SUM_KEYS
#define ATTN__THIN_BYTES 8192
#define ATTN__THIN_AHEAD 64
/* for (r = 0; r < rows; r += n): at most `most` at a time, as equal as may be; nothing is divided
 * where that is all rows at once. */
#define ATTN__EACH_OF(r, n, rows, most) \
    for (int64_t r = 0, n, left = (rows) > (most) ? attn__ceil_div(rows, most) : 1; \
        left > 0 && (n = left > 1 ? attn__ceil_div((rows) - r, left) : (rows) - r) > 0; \
        left--, r += n)
#define ATTN__EACH_TILE(isa, r, n, rows) ATTN__EACH_OF(r, n, rows, (isa)->MR)
/* floats of a vector for each row of a group, rounded up to tiles */
#define ATTN__MAXIMA ((ATTN__GROUP_ROWS + ATTN__ROWS_MOST) * ATTN__LANES_MOST)
#define ATTN__GROUPS 64
#define ATTN__TILE_MAX 256  /* rows, and keys, of a backward block */
#define ATTN__BIAS_KEYS 256 /* most of a block of dbias */
/* The kernels that run; known before anything is planned. */
ATTN__INLINE const attn__kernels *attn__isa(void) { return attn__machine_known.isa; }
/* n rounded up to a power of two. */
ATTN__INLINE int64_t attn__padded(int64_t n, int64_t power) { return (n + power - 1) & -power; }
/* Products begin at a multiple of it: dropout's words come in fours. */
ATTN__INLINE int64_t attn__step(const attn__kernels *isa) { return attn__max(isa->W, 4); }
/* The tile of so many vectors and rows; of pairs of bf16. */
ATTN__INLINE attn__mm attn__mm_of(
    const attn__kernels *isa, int64_t vectors, int64_t rows, int pairs) {
    return (pairs ? isa->mm_bf16 : isa->mm)[(vectors - 1) * isa->MR + rows - 1];
}
/* A tile of Q K^T. */
static ATTN__UNUSED void attn__tile_dots(const attn__kernels *isa, int64_t vectors, int64_t rows,
    int pairs, const float *A, int64_t lda, const float *B, int64_t ldb, int64_t K, float *C,
    int64_t ldc, float *x) {
    if (!ATTN__SMALL && K > ATTN__LONG_DIMS)
        isa->tile_dots_long(vectors, rows, A, lda, B, ldb, K, C, ldc, x);
    else
        attn__mm_of(isa, vectors, rows, pairs)(
            ATTN__QK, A, lda, B, ldb, K, ATTN__SUM_DIMS >> pairs, C, ldc, x);
}
/* Columns, a multiple of W, go by tiles of as equal a width as may be: vectors of the next one. */
ATTN__INLINE int64_t attn__tile_vectors(const attn__kernels *isa, int64_t columns) {
    const int64_t vectors = columns / isa->W;
    if (vectors <= isa->NV) return vectors;
    return attn__ceil_div(vectors, attn__ceil_div(vectors, isa->NV));
}
/* What is read soon: into L1, or into L2 alone. */
ATTN__INLINE void attn__fetch_to(int l2, const char *p) {
    if (l2) ATTN__PREFETCH(p, 2);
    else ATTN__PREFETCH(p, 3);
}
/* Fetches a row of dim elements that will be touched soon: in [B,S,H,D] rows are up to pages apart,
 * where no hardware prefetch goes. It may lie outside the tensor: a prefetch never faults. */
ATTN__INLINE void attn__fetch_row_to(
    int l2, const void *data, int32_t dtype, int64_t at, int64_t dim) {
    const int planes = dtype == ATTN_INT16;
    const uint64_t row = (uint64_t)(planes ? attn__high(at) : attn__bytes(dtype, at)),
                   end = planes ? (uint64_t)dim : (uint64_t)attn__bytes(dtype, dim);
    for (uint64_t c = 0; c < end; c += 64) {
        const char *p = (const char *)((uintptr_t)data + (uintptr_t)(row + c));
        attn__fetch_to(l2, p);
        if (planes) attn__fetch_to(l2, (const char *)((uintptr_t)p + ATTN_PLANE));
    }
}
ATTN__INLINE void attn__fetch_row(const void *data, int32_t dtype, int64_t at, int64_t dim) {
    attn__fetch_row_to(0, data, dtype, at, dim);
}
/* The row a few rows on. Unsigned: a stride never taken may wrap. */
ATTN__INLINE void attn__fetch(
    const void *data, int32_t dtype, int64_t at, int64_t stride, int64_t dim) {
    attn__fetch_row(data, dtype, (int64_t)((uint64_t)at + ATTN__AHEAD * (uint64_t)stride), dim);
}
/* Whether L2 is better where products wait for memory or where L1 keeps few of the rows, which lie a
 * power of two apart. */
ATTN__INLINE int attn__fetches_l2(void) { return (attn__machine()->has & ATTN__CPU_FETCH_L2) != 0; }
/* The same of rows that are packed: more of long ones than L1 waits for at a time are on their way. */
ATTN__INLINE int attn__packs_from_l2(int32_t dtype, int64_t dim) {
    return attn__bytes(dtype, dim) >= ATTN__LONG_ROW && attn__fetches_l2();
}
/* How many rows of V ahead. */
ATTN__INLINE int64_t attn__rows_ahead(int l2) { return (l2 ? 8 : 2) * ATTN__AHEAD; }
ATTN__INLINE float attn__kv_scale(
    const attn_desc *d, const attn__sequence_view *s, const attn_in *t, int64_t j, int64_t h) {
    return t->scale ? t->scale[attn__k_at(d, s, t->scale_stride, j, h)] : 1;
}
/* Whether the mask or the bias hides key j from the row; whether it sees the key. */
static int attn__masked(const attn__query *q, int64_t j) {
    const attn_desc *d = q->d;
    if (d->mask.data) {
        const unsigned char *mask = (const unsigned char *)d->mask.data;
        if (mask[attn__bias_at(d, q->s, d->mask.stride, q->i, q->h) + j] == 0) return 1;
    }
    if (!d->bias.data) return 0;
    const int64_t at = attn__bias_at(d, q->s, d->bias.stride, q->i, q->h) + j;
    return attn__hidden_by_bias(d, at);
}
static ATTN__UNUSED int attn__sees(const attn__query *q, int64_t j) {
    return j >= q->lo && j < q->hi && !attn__masked(q, j);
}
typedef struct attn__tile { /* one thread's scratch */
    /* [BN / W][head_dim][W], [BN][v_pad], [rows of a group][ld], [BM][q_pad], [BM][v_pad] */
    float *K, *V, *S, *Q, *O;
    float *max, *sum; /* [BM]: row_max as scores are held, row_sum */
    /* O [BM][v_pad], sums and maxima [BM] of the key spans before; none without a span */
    double *long_O, *long_sum;
    float *long_max;
} attn__tile;
static attn__tile attn__carve(const attn__flash *job, char *scratch) {
    const attn__kernels *isa = attn__isa();
    attn__tile t;
    const int64_t rows = job->span ? job->BM : 0;
    t.long_O = (double *)(void *)scratch;
    t.long_sum = t.long_O + rows * job->v_pad;
    t.long_max = (float *)(t.long_sum + rows);
    float *p = t.long_max + rows;
    /* clang-format off */
    t.S = p; p += attn__scores_size(isa->MR, job->ld);
    t.O = p; p += job->BM * job->v_pad;
    t.max = p; p += job->BM;
    t.sum = p; p += job->BM;
    t.K = p; p += job->BN * job->d->head_dim;
    t.V = p; p += job->copy_v != ATTN__V_IN_PLACE ? job->BN * job->v_pad : 0;
    /* clang-format on */
    t.Q = p;
    return t;
}
ATTN__INLINE int64_t attn__row_query(const attn__rows *u, int64_t r) {
    return u->job->group == 1 ? u->row0 + r : (u->row0 + r) / u->job->group;
}
ATTN__INLINE int64_t attn__row_head(const attn__rows *u, int64_t r) {
    return u->job->group == 1 ? u->kv_head
                              : u->kv_head * u->job->group + (u->row0 + r) % u->job->group;
}
/* Row r saw no key, or none whose score is not -infinity. */
ATTN__INLINE int attn__row_empty(const attn__tile *t, int64_t r) {
    return attn__bits(t->sum[r]) << 1 == 0;
}
/* e^a and e^b of a, b <= 0. As one f32 they would lose what far from 0 is much of e^a: their whole
 * powers of 2 are not rounded. */
ATTN__NOINLINE void attn__exp_pair(double a, double b, float *x, float *y) {
    const double p = a * ATTN__LOG2E, q = b * ATTN__LOG2E;
    const int32_t m = p > -1000 ? (int32_t)p : 0, n = q > -1000 ? (int32_t)q : 0;
    *x = (float)(p - m);
    *y = (float)(q - n);
    attn__isa()->exp2_pair(x, y);
    *x = (float)attn__ldexp((double)*x, m);
    *y = (float)attn__ldexp((double)*y, n);
}
/* The lse of row r, which is finished, and what makes O o: the sink joins maximum and sum. */
ATTN__NOINLINE float attn__finish_lse(const attn__rows *u, const attn__tile *t, int64_t r) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = u->job->d;
    int64_t i = attn__row_query(u, r), h = attn__row_head(u, r);
    float sum = t->sum[r], scale = 1;
    int empty = attn__row_empty(t, r);
    double top = d->sink || d->lse ? attn__row_top(t->max[r], u->job->unit) : 0;
    if (d->sink) {
        double sink = (double)d->sink[h], highest = sink > top ? sink : top;
        if (!attn__is_neg_inf(highest)) {
            float joined;
            attn__exp_pair(top - highest, sink - highest, &scale, &joined);
            sum = isa->fma1(sum, scale, joined);
            top = highest;
        }
    }
    if (d->lse) {
        d->lse[attn__lse_at(d, &u->s, i, h)] =
            empty ? (d->sink ? d->sink[h] : ATTN__NEG_INF)
                  : attn__nearest_f32(top + attn__log((double)sum));
    }
    scale = empty ? 0 : scale / sum;
    ATTN__F32(scale);
    return scale;
}
/* What makes O o of row r, which is finished; an empty row is 0. */
ATTN__INLINE float attn__finish_row(const attn__rows *u, const attn__tile *t, int64_t r) {
    const attn_desc *d = u->job->d;
    if (d->sink || d->lse) return attn__finish_lse(u, t, r);
    float scale = attn__row_empty(t, r) ? 0 : 1 / t->sum[r];
    ATTN__F32(scale);
    return scale;
}
/* The packed block of keys [kb, ke), of which pack0 .. are there. */
typedef struct attn__kv_block {
    int64_t kb, ke, pack0, ldv;
    const float *V;
    /* V has elements that are not finite; every row sees every key; there is nothing in O yet;
     * it has one key, whatever rows see, packed by pack_single_k */
    int not_finite, whole, empty, single;
    int thin_k, thin_v;   /* K, V are read where they lie */
    int pairs_k, pairs_v; /* Q and K, V and P are pairs of bf16 */
    int64_t bad, bad_end; /* where not_finite: the keys of which V has such lie in [bad, bad_end) */
} attn__kv_block;
/* Up to MR rows of a unit, from row0 on, against a block; up to GROUP_ROWS where it is short. */
typedef struct attn__group {
    const attn__rows *u;
    attn__tile *t;
    const attn__kv_block *b;
    const float *Q;
    int64_t ldq, row0, rows;
    int64_t head, heads;    /* which head of a gang of how many */
    int late;               /* that of its kv head */
    int64_t only, only_end; /* likewise */
    /* row r sees keys [lo[r], hi[r]) of the block */
    int64_t lo[ATTN__GROUP_ROWS], hi[ATTN__GROUP_ROWS];
    int64_t first, last;        /* that some row sees */
    int64_t inner_lo, inner_hi; /* that every row sees */
    int64_t start, end;         /* columns of the scores that are computed */
    uint32_t holes;             /* bit r: the mask hides keys between lo[r] and hi[r] */
} attn__group;
ATTN__INLINE int64_t attn__group_query(const attn__group *g, int64_t r) {
    return attn__row_query(g->u, g->row0 + r);
}
ATTN__INLINE int64_t attn__group_head(const attn__group *g, int64_t r) {
    return attn__row_head(g->u, g->row0 + r);
}
ATTN__INLINE attn__query attn__group_row(const attn__group *g, int64_t r) {
    attn__query q = {g->u->job->d, &g->u->s, attn__group_head(g, r), attn__group_query(g, r),
        g->lo[r], g->hi[r]};
    return q;
}
/* Whether 32 bytes of a mask hide all. */
ATTN__INLINE int attn__mask_hides(const unsigned char *p) {
    uint64_t x[4];
    memcpy(x, p, sizeof x);
    return !(x[0] | x[1] | x[2] | x[3]);
}
/* [*lo, *hi), keys of q's row, ends where the mask shows one; the same by bias, to whole vectors. */
ATTN__NOINLINE void attn__trim(const attn__query *q, int64_t *plo, int64_t *phi) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = q->d;
    int64_t lo = *plo, hi = *phi;
    if (d->mask.data) {
        const unsigned char *seen = (const unsigned char *)d->mask.data +
                                    attn__bias_at(d, q->s, d->mask.stride, q->i, q->h);
        while (lo + 32 <= hi && attn__mask_hides(seen + lo)) lo += 32;
        while (lo < hi && !seen[lo]) lo++;
        while (lo + 32 <= hi && attn__mask_hides(seen + hi - 32)) hi -= 32;
        while (lo < hi && !seen[hi - 1]) hi--;
    }
    const int64_t at =
        !ATTN__SMALL && d->bias.data ? attn__bias_at(d, q->s, d->bias.stride, q->i, q->h) : 0;
    if (!ATTN__SMALL && d->bias.data && lo < hi &&
        (attn__hidden_by_bias(d, at + lo) || attn__hidden_by_bias(d, at + hi - 1))) {
        int64_t first = hi, last = lo; /* of the panels that are not hidden: read forwards */
        for (int64_t j = lo, n; j < hi; j += n) {
            n = attn__min(hi - j, 8 * isa->W);
            if (isa->bias_hides(d, at + j, n)) continue;
            first = attn__min(first, j);
            last = j + n;
        }
        lo = first;
        hi = attn__max(first, last);
        while (lo + isa->W <= hi && isa->bias_hides(d, at + lo, isa->W)) lo += isa->W;
        while (lo + isa->W <= hi && isa->bias_hides(d, at + hi - isa->W, isa->W)) hi -= isa->W;
        if (hi - lo < isa->W && isa->bias_hides(d, at + lo, hi - lo)) lo = hi;
    }
    *plo = lo;
    *phi = hi;
}
/* lo .. hi of row r likewise, and whether the mask hides keys between. */
ATTN__NOINLINE void attn__group_trim(attn__group *g, int64_t r) {
    const attn__query q = attn__group_row(g, r);
    const attn_desc *d = q.d;
    attn__trim(&q, &g->lo[r], &g->hi[r]);
    const int64_t n = g->hi[r] - g->lo[r];
    if (d->mask.data && n > 0 &&
        memchr((const unsigned char *)d->mask.data +
                   attn__bias_at(d, q.s, d->mask.stride, q.i, q.h) + g->lo[r],
            0, (size_t)n))
        g->holes |= 1u << r;
}
/* Row r sees keys [lo[r], hi[r]), or none. */
ATTN__INLINE void attn__group_row_range(attn__group *g, int64_t r) {
    if (g->hi[r] <= g->lo[r]) {
        g->lo[r] = g->hi[r] = g->b->kb;
    } else {
        g->first = attn__min(g->first, g->lo[r]);
        g->last = attn__max(g->last, g->hi[r]);
    }
    g->inner_lo = attn__max(g->inner_lo, g->lo[r]);
    g->inner_hi = attn__min(g->inner_hi, g->hi[r]);
}
ATTN__INLINE void attn__group_ranges(attn__group *g) {
    const attn__kernels *isa = attn__isa();
    const attn__kv_block *b = g->b;
    const attn_desc *d = g->u->job->d;
    const int trim = d->mask.data || (!ATTN__SMALL && d->bias.data);
    int whole = b->whole || attn__all_see(d, &g->u->s, attn__group_query(g, 0),
                                attn__group_query(g, g->rows - 1), b->kb, b->ke);
    g->first = whole && !trim ? b->kb : b->ke;
    g->last = whole && !trim ? b->ke : b->kb;
    g->inner_lo = b->kb;
    g->inner_hi = b->ke;
    g->holes = 0;
    for (int64_t r = 0; r < g->rows; r++) {
        g->lo[r] = b->kb;
        g->hi[r] = b->ke;
    }
    for (int64_t r = 0; r < g->rows && (!whole || trim); r++) {
        int64_t lo = b->kb, hi = b->ke;
        const int64_t i = attn__group_query(g, r);
        if (!whole) attn__rows_see_inline(d, &g->u->s, i, i, &lo, &hi);
        g->lo[r] = attn__max(lo, b->kb);
        g->hi[r] = attn__min(hi, b->ke);
        if (trim && g->lo[r] < g->hi[r]) attn__group_trim(g, r);
        attn__group_row_range(g, r);
    }
    g->start = (g->first - b->kb) & -attn__step(isa);
    g->end = attn__padded(g->last - b->kb, isa->W);
}
/* 3. O = alpha O + P V over the keys that some row sees; or at once o and lse of rows that nothing
 * joins after this block. */
ATTN__NOINLINE void attn__group_output(const attn__group *g, float *alpha, int finish) {
    const attn__kernels *isa = attn__isa();
    const attn__tile *t = g->t;
    const attn__kv_block *b = g->b;
    const attn__flash *job = g->u->job;
    const attn_desc *d = job->d;
    const int pairs = b->pairs_v;
    const int64_t kb = b->kb, rows = g->rows, /* a pair of keys counts as one */
        from = (g->first - kb) >> pairs, keys = ((g->last - kb + pairs) >> pairs) - from,
                  lead = (ATTN__SUM_KEYS >> pairs) - from % (ATTN__SUM_KEYS >> pairs);
    const float *P = t->S + from, *V = b->V + from * b->ldv;
    float *O = t->O + g->row0 * job->v_pad;
    for (int64_t r = 0; r < rows && pairs; r++)
        isa->pairs_of_row(t->S + r * job->ld, g->start, g->end);
    if (!ATTN__SMALL && finish && job->straight_to_o && b->empty && !b->not_finite) {
        int64_t ldo = d->o.stride[job->group == 1 ? 1 : 2];
        float *o = (float *)d->o.data + attn__q_at(&g->u->s, d->o.stride, attn__group_query(g, 0),
                                            attn__group_head(g, 0));
        for (int64_t r = 0; r < rows; r++) alpha[r] = attn__finish_row(g->u, t, g->row0 + r);
        ATTN__EACH_TILE(isa, r, m, rows) {
            isa->mm_columns(ATTN__PV_LAST, m, 0, P + r * job->ld, job->ld, V, b->ldv, keys, lead,
                o + r * ldo, ldo, job->v_pad, alpha + r);
        }
        for (int64_t r = 0; r < rows; r++) /* 0 times an infinity of V is NaN */
            if (attn__row_empty(t, g->row0 + r))
                memset(o + r * ldo, 0, (size_t)job->v_pad * sizeof *o);
        return;
    }
    /* what is not finite is read by rows that see it alone: by all, or by none, pairs as they are */
    const int64_t read = kb + (from << pairs), read_end = read + (keys << pairs);
    const int kept = (g->inner_lo <= b->bad && b->bad_end <= g->inner_hi) || b->bad_end <= read ||
                     b->bad >= read_end;
    if (!b->not_finite || (!d->mask.data && !d->bias.data && kept)) {
        ATTN__EACH_TILE(isa, r, m, rows) {
            isa->mm_columns(ATTN__PV, m, pairs, P + r * job->ld, job->ld, V, b->ldv, keys, lead,
                O + r * job->v_pad, job->v_pad, job->v_pad,
                b->empty && !b->not_finite ? NULL : alpha + r);
        }
    } else {
        for (int64_t r = 0; r < rows; r++) {
            const attn__query q = attn__group_row(g, r);
            isa->seen_row(&q, pairs, t->S + r * job->ld, kb, b->V, b->ldv, O + r * job->v_pad,
                job->v_pad, alpha[r]);
        }
    }
    if (finish) isa->finish(g->u, t, g->row0, g->row0 + rows);
}
/* ---- few rows: >>thin has the kernels ---- */
typedef struct attn__thin {
    const void *data; /* K or V: element 0 of row j of n is at[j], or at first + j * step */
    const int64_t *at;
    int64_t first, step;
    int64_t n, dim;
    int32_t dtype;
    const float *A; /* Q, or P, of `rows` rows */
    int64_t lda, rows;
    int pairs;  /* Q and K are multiplied as bf16, two dims in a lane */
    float *out; /* Q K^T, or O */
    int64_t ldo;
    const float *alpha; /* what O is multiplied by, NULL: there is nothing in it */
    /* what is fetched while row j is read: a row at next[j], or at stream + j * each; nothing where
     * both are 0. So many of these (`dense`) lie one after the other without gaps, and are fetched
     * one cache line after another */
    const char *const *next;
    const char *stream;
    int64_t each, dense;
    int fetch_l2; /* into L2 */
} attn__thin;
#define ATTN__BF16_PAIRS (-1) /* a type for the kernels: bf16 that is multiplied as it is */
/* What a chunk of keys needs. */
typedef struct attn__thin_keys {
    int64_t at[ATTN__THIN_CHUNK + ATTN__LANES_MOST];
    float scale[ATTN__THIN_CHUNK + ATTN__LANES_MOST];
    const char *next[ATTN__THIN_CHUNK + ATTN__LANES_MOST];
} attn__thin_keys;
/* What a chunk sets only where it is needed. */
ATTN__INLINE void attn__thin_clear(attn__thin *m) {
    m->at = NULL;
    m->next = NULL;
    m->stream = NULL;
    m->alpha = NULL;
    m->first = m->step = m->each = m->dense = 0;
    m->pairs = m->fetch_l2 = 0;
}
/* Element 0 of row j < n. */
ATTN__INLINE int64_t attn__thin_at(const attn__thin *m, int64_t j) {
    return m->at ? m->at[j] : m->first + j * m->step;
}
/* What is fetched while row j is read. */
ATTN__INLINE const char *attn__thin_next(const attn__thin *m, int64_t j) {
    return m->next ? m->next[j] : m->stream + j * m->each;
}
/* Row r of A, or the last. */
ATTN__INLINE const float *attn__thin_row(const attn__thin *m, int64_t r) {
    return m->A + attn__min(r, m->rows - 1) * m->lda;
}
/* Bytes from a row's begin to column c of it. */
ATTN__INLINE int64_t attn__thin_bytes(int32_t dtype, int64_t c) {
    return dtype == ATTN_INT16 ? c : attn__bytes(dtype, c);
}
ATTN__INLINE int64_t attn__thin_line(int32_t dtype) { /* columns of 64 bytes */
    return dtype == ATTN_INT16 || dtype == ATTN_Q8_0 ? 64
           : dtype == ATTN_Q4_0                      ? 128
                                                     : 64 / attn__bytes(dtype, 1);
}
/* at[0 .. n) as addresses. */
ATTN__INLINE void attn__thin_rows_at(
    const attn__group *g, const attn_in *t, int64_t j, int64_t n, const char **rows) {
    int64_t at[ATTN__THIN_CHUNK + ATTN__LANES_MOST];
    attn__keys_at(g->u->job->d, &g->u->s, t->stride, j, n, g->u->kv_head, at);
    for (int64_t x = 0; x < n; x++)
        rows[x] =
            (const char *)((uintptr_t)t->data + (uintptr_t)(t->dtype == ATTN_INT16
                                                                ? attn__high(at[x])
                                                                : attn__bytes(t->dtype, at[x])));
}
/* Fetched while rows x .. are read: n rows, `step` bytes apart. */
ATTN__INLINE void attn__thin_rows_on(
    attn__thin_keys *k, int64_t x, int64_t n, const void *data, int64_t offset, int64_t step) {
    const uintptr_t at = (uintptr_t)data + (uintptr_t)offset;
    for (int64_t i = 0; i < n; i++) k->next[x + i] = (const char *)(at + (uintptr_t)(i * step));
}
/* What is fetched meanwhile: the rows `ahead` keys on, and past key `end` those of the tensor `then`
 * from key `from` on. */
ATTN__INLINE void attn__thin_ahead(const attn__group *g, const attn_in *t, int64_t j, int64_t end,
    const attn_in *then, int64_t from, attn__thin_keys *k, attn__thin *m) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = g->u->job->d;
    const attn__sequence_view *s = &g->u->s;
    const int64_t n = m->n, up = attn__padded(n, isa->W), size = attn__bytes(t->dtype, m->dim),
                  ahead = attn__clamp(ATTN__THIN_BYTES / size, 1, ATTN__THIN_AHEAD),
                  own = attn__clamp(end - (j + ahead), 0, n),
                  first = attn__max(0, j + ahead - end) + from,
                  others = attn__clamp(s->k_len - first, 0, n - own);
    if (m->at) {
        attn__thin_rows_at(g, t, j + ahead, own, k->next);
        attn__thin_rows_at(g, then, first, others, k->next + own);
    } else {
        const int64_t on = attn__bytes(t->dtype, m->first + ahead * m->step),
                      step = attn__bytes(t->dtype, m->step);
        if (own == n && step == size) {
            m->stream = (const char *)t->data + on;
            m->each = size;
            m->dense = ATTN__THIN_CHUNK;
            return;
        }
        attn__thin_rows_on(k, 0, own, t->data, on, step);
        if (others)
            attn__thin_rows_on(k, own, others, then->data,
                attn__bytes(then->dtype, attn__k_at(d, s, then->stride, first, g->u->kv_head)),
                attn__bytes(then->dtype, then->stride[1]));
    }
    for (int64_t x = own + others; x < up; x++) k->next[x] = (const char *)d->q.data;
    m->next = k->next;
}
/* A gang's share of it, in the order of memory: each head a part of the chunk behind this one, all
 * heads of a key after the other. */
ATTN__NOINLINE void attn__thin_gang(const attn__group *g, const attn_in *t, int64_t j, int64_t end,
    const attn_in *then, int64_t from, attn__thin_keys *k, attn__thin *m) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = g->u->job->d;
    const attn__sequence_view *s = &g->u->s;
    const int64_t h = g->u->kv_head - g->head, n = m->n, heads = g->heads,
                  part = g->head * n / heads, up = attn__padded(n, isa->W);
    int64_t at[ATTN__THIN_CHUNK];
    j += n;
    if (j >= end) t = then, j = from, end = s->k_len;
    j += part;
    const int64_t keys = attn__clamp(end - j, 0, attn__ceil_div(n, heads)),
                  beside = attn__bytes(t->dtype, t->stride[2]);
    if (beside == attn__bytes(t->dtype, t == &d->k ? d->head_dim : d->v_dim)) m->dense = heads;
    if (keys) attn__keys_at(d, s, t->stride, j, keys, h, at);
    if (!m->at && m->dense && keys * heads >= n && t->stride[1] == heads * t->stride[2]) {
        m->stream = (const char *)t->data + attn__bytes(t->dtype, at[0]);
        m->each = beside;
        m->dense = ATTN__THIN_CHUNK;
        return;
    }
    for (int64_t x = 0, i = 0; x < n; x += heads, i++) {
        const int64_t most = attn__min(heads, n - x);
        if (i < keys) attn__thin_rows_on(k, x, most, t->data, attn__bytes(t->dtype, at[i]), beside);
        else attn__thin_rows_on(k, x, most, d->q.data, 0, 0);
    }
    for (int64_t x = n; x < up; x++) k->next[x] = (const char *)d->q.data;
    m->next = k->next;
}
/* m's rows are keys j .. j + n - 1 of t, K or V. */
ATTN__NOINLINE void attn__thin_chunk(const attn__group *g, const attn_in *t, int64_t j, int64_t end,
    const attn_in *then, int64_t from, attn__thin_keys *k, attn__thin *m) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = g->u->job->d;
    const attn__sequence_view *s = &g->u->s;
    const int64_t h = g->u->kv_head, n = m->n, up = attn__padded(n, isa->W);
    m->data = t->data;
    m->dtype = t->dtype;
    if (s->pages || t->dtype == ATTN_INT16 || then->dtype == ATTN_INT16) {
        attn__keys_at(d, s, t->stride, j, n, h, k->at);
        for (int64_t x = n; x < up; x++) k->at[x] = k->at[n - 1];
        m->at = k->at;
    } else {
        m->first = attn__k_at(d, s, t->stride, j, h);
        m->step = t->stride[1];
    }
    m->fetch_l2 = attn__fetches_l2() && (t->dtype == ATTN_F32 || t->dtype == ATTN_F16 ||
                                            t->dtype == ATTN_BF16 || t->dtype == ATTN_INT16);
    if (g->heads > 1) attn__thin_gang(g, t, j, end, then, from, k, m);
    else attn__thin_ahead(g, t, j, end, then, from, k, m);
    if (t->scale && s->pages) {
        int64_t at[ATTN__THIN_CHUNK];
        attn__keys_at(d, s, t->scale_stride, j, n, h, at);
        for (int64_t x = 0; x < n; x++) k->scale[x] = t->scale[at[x]];
    } else if (t->scale) {
        const int64_t at = attn__k_at(d, s, t->scale_stride, j, h), step = t->scale_stride[1];
        for (int64_t x = 0; x < n; x++) k->scale[x] = t->scale[at + x * step];
    }
    for (int64_t x = n; t->scale && x < up; x++) k->scale[x] = k->scale[n - 1];
}
/* Nothing more is fetched, or again what there is. */
ATTN__INLINE void attn__thin_rest(attn__thin *m) {
    m->next = NULL;
    m->stream = (const char *)m->data;
    m->each = 0;
    m->dense = ATTN__THIN_CHUNK;
}
/* Whether thin_dots and thin_columns read t where it lies. scaled: each key needs its scale. */
static int attn__thin_reads(const attn_in *t, int64_t dim, int scaled) {
    const attn__kernels *isa = attn__isa();
    return t->dtype == ATTN_F32 || (isa->narrow_dims && dim % isa->narrow_dims == 0 && !scaled);
}
/* Whether the scales of K go to the products: where nothing can overflow. All rows of the sequence have
 * a say, and no padding: bits follow from it. */
static int attn__thin_late(const attn__rows *u, const float *Q, int64_t ldq) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = u->job->d;
    const int64_t rows = attn__min(u->rows, u->s.q_used * u->job->group - u->row0);
    int late = d->k.scale != NULL;
    for (int64_t r = 0; r < rows && late; r++)
        late = isa->thin_moderate(Q + r * ldq, d->head_dim, 0);
    return late;
}
/* The products of a group with THIN_CHUNK keys, columns c .. of its scores. */
ATTN__NOINLINE void attn__thin_products(const attn__group *g, int64_t c) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = g->u->job->d;
    const int64_t ld = g->u->job->ld, kb = g->b->kb, rows = g->rows,
                  n = attn__min(g->end - c, ATTN__THIN_CHUNK);
    attn__thin_keys k;
    attn__thin m;
    attn__thin_clear(&m);
    m.n = attn__clamp(g->b->ke - kb - c, 0, n);
    m.dim = d->head_dim;
    m.lda = g->ldq;
    m.ldo = ld;
    if (m.n) attn__thin_chunk(g, &d->k, kb + c, g->b->ke, &d->v, g->first, &k, &m);
    const float *scale = d->k.scale && !g->late ? k.scale : NULL;
    if (m.n && !attn__thin_reads(&d->k, m.dim, scale != NULL)) isa->thin_widen(&m, scale, g->t->K);
    m.pairs = g->u->job->bf16_qk && m.dtype == ATTN_BF16 && m.dim % (2 * isa->W) == 0;
    for (int64_t r = 0; r < rows && m.n; r += 4) {
        if (r) attn__thin_rest(&m);
        m.A = g->Q + r * g->ldq;
        m.rows = attn__min(4, rows - r);
        m.out = g->t->S + r * ld + c;
        isa->thin_dots(&m);
    }
    for (int64_t r = 0; r < rows; r++) {
        float *S = g->t->S + r * ld + c;
        if (g->late) isa->thin_scale(S, k.scale, m.n);
        for (int64_t x = m.n; x < n; x++) S[x] = 0;
    }
}
/* A key that one of the rows [only, only_end) sees takes the place of those that none of them does, whose
 * P is 0: their bits are those of a 0 there. Returns 0 where they see none. */
static int attn__thin_seen(
    const attn__group *g, int64_t j0, int scaled, attn__thin_keys *k, attn__thin *m) {
    const int64_t n = m->n, up = attn__padded(n, attn__isa()->W);
    unsigned char seen[ATTN__THIN_CHUNK] = {0};
    int64_t some = -1;
    for (int64_t r = 0; r < g->rows; r++) {
        if (g->row0 + r < g->only || g->row0 + r >= g->only_end) continue;
        const attn__query q = attn__group_row(g, r);
        for (int64_t x = 0; x < n; x++)
            if (j0 + x >= q.lo && j0 + x < q.hi && !attn__masked(&q, j0 + x)) seen[some = x] = 1;
    }
    for (int64_t x = 0; x < up && some >= 0; x++) {
        const int64_t from = x < n && seen[x] ? x : some;
        k->at[x] = attn__thin_at(m, from);
        if (scaled) k->scale[x] = k->scale[from];
    }
    m->at = k->at;
    return some >= 0;
}
/* O = alpha O + P V over keys from j0 on that the group sees, to the end of their SUM_KEYS, which are
 * summed from zero. The scales of V go to P where nothing is lost. Returns where the next begin. */
ATTN__NOINLINE int64_t attn__thin_output(const attn__group *g, int64_t j0, const float *alpha) {
    const attn__kernels *isa = attn__isa();
    const attn__flash *job = g->u->job;
    const attn_in *v = &job->d->v;
    const int64_t kb = g->b->kb, rows = g->rows, ld = job->ld,
                  n = attn__min(g->last - j0, ATTN__SUM_KEYS - (j0 - kb) % ATTN__SUM_KEYS);
    float one[ATTN__THIN_CHUNK + ATTN__LANES_MOST], *S = g->t->S + (j0 - kb);
    attn__thin_keys k;
    attn__thin m;
    attn__thin_clear(&m);
    m.n = n;
    m.dim = job->d->v_dim;
    m.lda = ld;
    m.ldo = job->v_pad;
    attn__thin_chunk(g, v, j0, g->last, &job->d->k, g->b->ke, &k, &m);
    const float *scale =
        v->scale && !isa->thin_moderate(k.scale, n, 8.271806e-25f) ? k.scale : NULL;
    for (int64_t x = 0; x < n && scale; x++) one[x] = attn__finite(scale[x]) ? scale[x] : 0;
    if (scale && isa->thin_moderate(one, n, 8.271806e-25f))
        scale = NULL; /* but for what is infinite */
    for (int r = 0; r < isa->MR; r++) one[r] = 1;
    if (g->only_end && !attn__thin_seen(g, j0, v->scale != NULL, &k, &m)) {
        for (int64_t r = 0; r < rows && j0 == g->first; r++)
            for (int64_t c = 0; c < job->v_pad; c++) {
                float *o = g->t->O + (g->row0 + r) * job->v_pad + c;
                *o = g->b->empty ? 0 : *o * alpha[r];
            }
        return j0 + n;
    }
    if (!attn__thin_reads(v, m.dim, scale != NULL)) isa->thin_widen(&m, scale, g->t->V);
    for (int64_t r = 0; r < rows && v->scale && !scale; r++)
        isa->thin_scale(S + r * ld, k.scale, n);
    for (int64_t r = 0; r < rows; r += 4) {
        if (r) attn__thin_rest(&m);
        m.A = S + r * ld;
        m.rows = attn__min(4, rows - r);
        m.out = g->t->O + (g->row0 + r) * m.ldo;
        m.alpha = j0 > g->first ? one : g->b->empty ? NULL : alpha + r;
        isa->thin_columns(&m);
    }
    return j0 + n;
}
/* ---- groups, gangs and blocks ---- */
/* A kv head of a unit: its rows, with a tile of their own, and room for O, maxima and sums of a later
 * key split. Heads share the tile's K and V. */
typedef struct attn__head {
    const attn__rows *u;
    attn__tile t;
    const float *Q;
    float *second;
    int late; /* scales of K go to the products */
    /* of V no key is read that none of these rows sees; 0, 0: all are */
    int64_t only, only_end;
} attn__head;
ATTN__INLINE void attn__group_of(attn__group *g, attn__head *head, int64_t row0, int64_t rows,
    int64_t ldq, const attn__kv_block *b) {
    g->u = head->u;
    g->t = &head->t;
    g->b = b;
    g->Q = head->Q + row0 * ldq;
    g->late = head->late;
    g->only = head->only;
    g->only_end = head->only_end;
    g->ldq = ldq;
    g->row0 = row0;
    g->rows = rows;
    g->head = 0;
    g->heads = 1;
    attn__group_ranges(g);
}
/* Scores, softmax, P V into O of groups that see the same keys, each chunk of keys for one after
 * the other, as memory has them. With `finish`, after which nothing joins them, o and lse. */
static void attn__thin_groups(const attn__group *g, int64_t groups, int finish) {
    const attn__kernels *isa = attn__isa();
    float max[ATTN__MAXIMA], alpha[ATTN__GANG][ATTN__GROUP_ROWS];
    for (int64_t c = g->start; c < g->end; c += ATTN__THIN_CHUNK)
        for (int64_t h = 0; h < groups; h++) attn__thin_products(g + h, c);
    for (int64_t h = 0; h < groups; h++) {
        isa->thin_scores(g + h, max);
        isa->group_softmax(g + h, max, alpha[h]);
    }
    if (!g->b->thin_v) {
        for (int64_t h = 0; h < groups; h++) attn__group_output(g + h, alpha[h], finish);
        return;
    }
    for (int64_t j = g->first, next = j; j < g->last; j = next)
        for (int64_t h = 0; h < groups; h++) next = attn__thin_output(g + h, j, alpha[h]);
    for (int64_t h = 0; h < groups && finish; h++)
        isa->finish(g[h].u, g[h].t, g[h].row0, g[h].row0 + g[h].rows);
}
/* The same for one group, thin or not. */
static void attn__flash_group(attn__head *head, int64_t row0, int64_t rows, int64_t ldq,
    const attn__kv_block *b, int finish) {
    const attn__kernels *isa = attn__isa();
    const attn__rows *u = head->u;
    attn__tile *t = &head->t;
    attn__group g;
    float max[ATTN__MAXIMA], alpha[ATTN__GROUP_ROWS];
    attn__group_of(&g, head, row0, rows, ldq, b);
    const int none = g.last <= g.first;
    if (b->empty && (b->not_finite || none))
        memset(t->O + row0 * u->job->v_pad, 0, (size_t)(rows * u->job->v_pad) * sizeof *t->O);
    if (none) {
        if (finish) isa->finish(u, t, row0, row0 + rows);
    } else if (!ATTN__SMALL && b->thin_k) {
        attn__thin_groups(&g, 1, finish);
    } else {
        isa->group_scores(&g, max);
        isa->group_softmax(&g, max, alpha);
        attn__group_output(&g, alpha, finish);
    }
}
/* For all heads of a gang, side by side; each row sees each key of the block. */
static void attn__flash_gang(
    attn__head *gang, int64_t heads, int64_t ldq, const attn__kv_block *b, int finish) {
    attn__group g[ATTN__GANG];
    for (int64_t h = 0; h < heads; h++) {
        attn__group_of(g + h, gang + h, 0, gang->u->rows, ldq, b);
        g[h].head = h;
        g[h].heads = heads;
    }
    attn__thin_groups(g, heads, finish);
}
/* O and the sums of a span of keys join, in f64, those of the spans before. The maxima stay. */
static void attn__fold(const attn__rows *u, attn__tile *t, int first) {
    const attn__kernels *isa = attn__isa();
    const int64_t width = u->job->v_pad;
    for (int64_t r = 0; r < u->rows; r++) {
        double *to = t->long_O + r * width;
        const float *O = t->O + r * width;
        float alpha = first ? ATTN__NEG_INF
                            : attn__rescale(t->long_max[r], t->max[r], u->job->unit.exp2),
              unused = 0;
        isa->exp2_pair(&alpha, &unused);
        for (int64_t c = 0; c < width; c++) {
            double old = first ? 0 : to[c] * (double)alpha;
            ATTN__ROUNDED(old);
            to[c] = old + (double)O[c];
        }
        double old = first ? 0 : t->long_sum[r] * (double)alpha;
        ATTN__ROUNDED(old);
        t->long_sum[r] = old + (double)t->sum[r];
        t->long_max[r] = t->max[r];
        t->sum[r] = 0;
    }
}
/* All spans are folded: O and sums as if there had been one. */
static void attn__unfold(const attn__rows *u, attn__tile *t) {
    for (int64_t n = 0; n < u->rows * u->job->v_pad; n++) t->O[n] = (float)t->long_O[n];
    for (int64_t r = 0; r < u->rows; r++) t->sum[r] = (float)t->long_sum[r];
}
/* Which keys of a packed block have values that are not finite. */
static void attn__block_bad(const attn__rows *u, attn__kv_block *b) {
    const int64_t width = u->job->v_pad;
    b->bad = b->ke;
    b->bad_end = b->kb;
    for (int64_t j = b->pack0; j < b->ke; j++) {
        const float *row = b->V + ((j - b->kb) >> b->pairs_v) * b->ldv;
        const int left = b->pairs_v && (j - b->kb) % 2 == 0 ? 16 : 0; /* the first of a pair */
        uint32_t bad = 0; /* bit 31: an exponent of all ones */
        for (int64_t c = 0; c < width; c++) {
            const uint32_t x = attn__bits(row[c]) << left;
            bad |= (x & 0x7f800000) + 0x00800000u;
        }
        if (!(bad >> 31)) continue;
        b->bad = attn__min(b->bad, j);
        b->bad_end = j + 1;
    }
}
/* The keys and values of a block, packed, or where they lie. */
static void attn__block_pack(const attn__rows *u, const attn__tile *t, attn__kv_block *b) {
    const attn__kernels *isa = attn__isa();
    const attn__flash *job = u->job;
    const attn_desc *d = job->d;
    const int64_t h = u->kv_head;
    if (b->single)
        (b->pairs_k ? isa->pack_single_pairs : isa->pack_single_k)(t->K, d, &u->s, h, b->pack0);
    else if (b->pairs_k) isa->pack_k_pairs(t->K, d, &u->s, &d->k, h, d->head_dim, b->pack0, b->ke);
    else if (!b->thin_k) isa->pack_k(t->K, d, &u->s, &d->k, h, d->head_dim, b->pack0, b->ke);
    if (b->thin_v) return;
    if (b->pairs_v) {
        b->not_finite = isa->pack_v_pairs(
            t->V + (b->pack0 - b->kb) / 2 * job->v_pad, job->v_pad, d, &u->s, h, b->pack0, b->ke);
    } else if (job->copy_v != ATTN__V_IN_PLACE) {
        b->not_finite = isa->pack_v(t->V + (b->pack0 - b->kb) * job->v_pad, job->v_pad, d, &u->s,
            &d->v, h, d->v_dim, b->pack0, b->ke);
    } else {
        b->ldv = d->v.stride[1];
        b->V = (const float *)d->v.data + attn__k_at(d, &u->s, d->v.stride, b->kb, h);
        if (!b->whole || d->mask.data || d->bias.data)
            b->not_finite = isa->rows_bad(
                b->V + (b->pack0 - b->kb) * b->ldv, b->ldv, b->ke - b->pack0, d->v_dim);
    }
    if (b->not_finite) attn__block_bad(u, b);
}
/* The fewest keys that so many rows read where they lie: packed, fewer cost less. Measured on Zen 4 by
 * each ISA. Where rows see different keys some values are copied. */
static int64_t attn__thin_keys_least(const attn_desc *d, int64_t rows, int64_t queries) {
    const int apart =
        queries > 1 && (d->flags & (ATTN_CAUSAL | ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT)) != 0;
    return rows == 1 || (rows <= 4 && !apart && attn__isa()->W == 16) ? 2 : 64;
}
/* Whether keys and values are read where they lie. */
ATTN__INLINE int attn__unit_thin(const attn__rows *u) {
    const int64_t rows = u->s.q_used * u->job->group;
    return !ATTN__SMALL && rows <= u->job->thin &&
           u->s.k_len >= attn__thin_keys_least(u->job->d, rows, u->s.q_used);
}
/* A row of q, or of dout, as pairs of bf16. */
ATTN__INLINE void attn__pack_q_pairs(float *dst, const attn_in *t, int64_t at, int64_t dim) {
    memcpy(dst, (const uint16_t *)t->data + at, (size_t)dim * sizeof(uint16_t));
}
#if ATTN__ADAPTIVE
/* Rows of a head against what their groups do not leave out of a block. */
static void attn__flash_filtered(attn__head *head, int64_t ldq, const attn__kv_block *all) {
    const attn__kernels *isa = attn__isa();
    const attn__rows *u = head->u;
    const attn__filter *f = u->job->filter;
    attn__kv_block b = *all;
    if (b.empty) memset(head->t.O, 0, (size_t)(u->rows * u->job->v_pad) * sizeof *head->t.O);
    b.empty = 0;
    attn__block_pack(u, &head->t, &b);
    for (int64_t r = 0; r < u->rows; r += isa->MR) {
        const unsigned char *left = f->left + r / f->rows * f->chunks;
        attn__kv_block part = b;
        for (int64_t kb = attn__max(b.kb, f->first), ke; kb < b.ke; kb = ke) {
            int64_t x = (kb - f->first) / ATTN__INT16_CHUNK;
            ke = attn__min(f->first + (x + 1) * ATTN__INT16_CHUNK, b.ke);
            if (left[x]) continue;
            while (ke < b.ke && !left[++x]) ke = attn__min(ke + ATTN__INT16_CHUNK, b.ke);
            part.kb = kb;
            part.ke = ke;
            part.V = b.V + ((kb - b.kb) >> b.pairs_v) * b.ldv;
            attn__flash_group(head, r, attn__min(isa->MR, u->rows - r), ldq, &part, 0);
        }
    }
}
#endif
/* Rows of a group where there may be more than a tile has: whole tiles, of which many rows are cut into
 * fewer, unless a vector of rows goes through a softmax at once. */
static int64_t attn__wide_rows(const attn__kernels *isa, int64_t rows) {
    return isa->W < ATTN__GROUP_ROWS && rows > 4 * ATTN__GROUP_ROWS
               ? ATTN__GROUP_ROWS / isa->MR * isa->MR
               : ATTN__GROUP_ROWS;
}
/* One key split [k0, k1) of a unit: blocks of keys outside, groups of rows, as equal as may be,
 * inside. `finish`: there is no other split, so a group is written out while it is in L1. `bold`:
 * few rows read values where they lie though a mask or a bias may hide keys (flash_split). */
static void attn__flash_blocks(
    attn__head *gang, int64_t heads, int64_t ldq, int64_t k0, int64_t k1, int finish, int bold) {
    const attn__kernels *isa = attn__isa();
    const attn__rows *u = gang->u;
    const attn__flash *job = u->job;
    const attn_desc *d = job->d;
    int64_t first, last, span = 0;
    int empty = 1, folds = 0; /* nothing in O yet; spans folded */
    const int thin = attn__unit_thin(u);
    for (int64_t h = 0; h < heads; h++) {
        gang[h].late = thin && attn__thin_late(gang[h].u, gang[h].Q, ldq);
        for (int64_t r = 0; r < u->rows; r++) {
            gang[h].t.max[r] = ATTN__NEG_INF;
            gang[h].t.sum[r] = 0;
        }
    }
    attn__rows_see(d, &u->s, attn__row_query(u, 0), attn__row_query(u, u->rows - 1), &first, &last);
    first = attn__max(first, k0);
    last = attn__min(last, k1);
    /* where nothing is packed and one group reads it, longer blocks: the processor fetches a row
     * after the other ahead */
    const int64_t longer =
        thin && u->s.q_used * job->group <= isa->MR && job->BN >= ATTN__THIN_CHUNK
            ? ATTN__THIN_BLOCK
            : job->BN;
    /* few rows: all of them see [inner, outer), whose values are read where they lie */
    int64_t inner = 0, outer = bold ? INT64_MAX : 0;
    /* no row sees all of a block before this one */
    int64_t begin = k0 + (first - k0) / job->BN * job->BN;
    /* dropout's words come in fours */
    if (thin && !d->mask.data && !d->bias.data && !(d->dropout > 0)) {
        int64_t lo, hi;
        attn__range(d, &u->s, attn__row_query(u, 0), &lo, &outer);
        attn__range(d, &u->s, u->s.q_used - 1, &inner, &hi);
        begin = first;
    }
    for (int64_t kb = begin, ke; kb < last; kb = ke) {
        attn__kv_block all = {kb, 0, kb, job->v_pad, gang->t.V, 0, 0, empty, 0, thin, 0,
            job->bf16_qk && !thin, job->bf16_pv && !thin, 0, 0};
        all.thin_v = inner <= kb && kb < outer;
        ke = attn__min(kb + (all.thin_v ? longer : job->BN), last);
        if (all.thin_v) ke = attn__min(ke, outer);
        else if (kb < inner && inner < outer) ke = attn__min(ke, inner);
        if (ke <= first) continue;
        all.ke = ke;
        if (job->span && (kb - k0) / job->span != span) {
            for (int64_t h = 0; h < heads && !empty; h++)
                attn__fold(gang[h].u, &gang[h].t, folds == 0);
            folds += !empty;
            empty = all.empty = 1;
            span = (kb - k0) / job->span;
        }
        empty = 0;
        all.whole =
            attn__all_see(d, &u->s, attn__row_query(u, 0), attn__row_query(u, u->rows - 1), kb, ke);
        if (first > kb) all.pack0 = kb + (first - kb) / (4 * isa->W) * (4 * isa->W);
        all.single =
            attn__min(kb + job->BN, k1) - kb == 1 && !thin && d->head_dim <= ATTN__LONG_DIMS;
        const int done = finish && !folds && ke == last,
                  wide = all.whole && !thin && job->ld <= ATTN__SHORT_KEYS + ATTN__SCORE_PAD;
        if (!ATTN__SMALL && heads > 1 && all.thin_v && all.whole && !bold) {
            attn__flash_gang(gang, heads, ldq, &all, done);
            continue;
        }
#if ATTN__ADAPTIVE
        if (job->filter) {
            attn__flash_filtered(gang, ldq, &all);
            continue;
        }
#endif
        for (int64_t h = 0; h < heads; h++) {
            attn__head *one = gang + h;
            attn__kv_block b = all;
            attn__block_pack(one->u, &one->t, &b);
            ATTN__EACH_OF(r, n, u->rows, wide ? attn__wide_rows(isa, u->rows) : isa->MR) {
                attn__flash_group(one, r, n, ldq, &b, done);
            }
        }
    }
    for (int64_t h = 0; h < heads; h++) {
        attn__tile *t = &gang[h].t;
        if (folds) {
            attn__fold(gang[h].u, t, 0);
            attn__unfold(gang[h].u, t);
        }
        if (empty) memset(t->O, 0, (size_t)(u->rows * job->v_pad) * sizeof *t->O);
        if (finish && (folds || empty || job->filter)) isa->finish(gang[h].u, t, 0, u->rows);
    }
}
/* Rows of a unit of few, as bits: O of which elements are not finite. */
static uint32_t attn__spoiled_rows(const attn__head *one, int64_t rows) {
    const int64_t width = one->u->job->v_pad;
    uint32_t spoiled = 0;
    for (int64_t r = 0; r < rows; r++) {
        uint32_t bad = 0; /* bit 31: an exponent of all ones */
        for (int64_t c = 0; c < width; c++)
            bad |= (uint32_t)attn__size_bits(one->t.O[r * width + c]) + 0x00800000u;
        spoiled |= bad >> 31 << r;
    }
    return spoiled;
}
static void attn__row_to(float *to, const attn__head *one, int64_t r, int64_t width) {
    memcpy(to, one->t.O + r * width, (size_t)width * sizeof *to);
    to[width] = one->t.max[r];
    to[width + 1] = one->t.sum[r];
}
static void attn__row_from(const float *from, const attn__head *one, int64_t r, int64_t width) {
    memcpy(one->t.O + r * width, from, (size_t)width * sizeof *from);
    one->t.max[r] = from[width];
    one->t.sum[r] = from[width + 1];
}
/* Few rows whose O is not finite once more, without the keys that none of them sees; then those that
 * still are so, each without the keys that it does not see. */
static void attn__flash_spoiled(attn__head *one, int64_t ldq, int64_t k0, int64_t k1) {
    const attn__rows *u = one->u;
    const int64_t width = u->job->v_pad,
                  rows = attn__min(u->rows, u->s.q_used * u->job->group - u->row0);
    attn__rows few = *u;
    uint32_t left = attn__spoiled_rows(one, rows);
    /* in the thread's own O, which lies before K, behind as many rows; if there are such, they see no
     * key, and are left alone */
    few.rows = attn__min(u->rows, ATTN__THIN_MOST);
    float *kept = one->t.K - u->job->BM * (width + 2) + ATTN__THIN_MOST * width;
    if (!left) return;
    for (int64_t r = 0; r < rows; r++) attn__row_to(kept + r * (width + 2), one, r, width);
    one->u = &few;
    for (int64_t n = rows > 1 ? -1 : 0; n < rows && left; n++) {
        if (n >= 0 && !(left >> n & 1)) continue;
        one->only = n < 0 ? 0 : n;
        one->only_end = n < 0 ? rows : n + 1;
        attn__flash_blocks(one, 1, ldq, k0, k1, 0, 1);
        const uint32_t done = n < 0 ? left & ~attn__spoiled_rows(one, rows) : (uint32_t)1 << n;
        for (int64_t r = 0; r < rows; r++)
            if (done >> r & 1) attn__row_to(kept + r * (width + 2), one, r, width);
        left &= ~done;
    }
    one->u = u;
    one->only = one->only_end = 0;
    for (int64_t r = 0; r < rows; r++) attn__row_from(kept + r * (width + 2), one, r, width);
    memset(kept, 0, (size_t)(rows * (width + 2)) * sizeof *kept);
}
/* The same. Of few rows with a mask or a bias values are read where they lie, and a hidden one that is
 * not finite makes O so, for 0 times it is NaN: such rows are computed once more without it. */
static void attn__flash_split(
    attn__head *gang, int64_t heads, int64_t ldq, int64_t k0, int64_t k1, int finish) {
    const attn__rows *u = gang->u;
    const attn_desc *d = u->job->d;
    const int bold = attn__unit_thin(u) && (d->mask.data || d->bias.data);
    attn__flash_blocks(gang, heads, ldq, k0, k1, finish && !bold, bold);
    for (int64_t h = 0; h < heads && bold; h++) {
        attn__flash_spoiled(gang + h, ldq, k0, k1);
        if (finish) attn__isa()->finish(gang[h].u, &gang[h].t, 0, u->rows);
    }
}
/* Tile h of a gang, behind all others: what attn__gang_bytes counts. */
static void attn__carve_gang(attn__head *gang, int64_t h, char *scratch) {
    const attn__rows *u = gang[h].u;
    const attn__flash *job = u->job;
    const int64_t rows = job->span ? u->rows : 0, /* of a span of keys */
        span = attn__round_up(rows * attn__span_bytes(job->v_pad), ATTN__ALIGN),
                  each = 4 * (job->ld + 2 * (job->v_pad + 2) + job->q_pad),
                  bytes = span + attn__round_up(u->rows * each, ATTN__ALIGN);
    attn__tile *t = &gang[h].t;
    char *at =
        scratch + job->scratch - attn__round_up(attn__gang_bytes(job), ATTN__ALIGN) + h * bytes;
    *t = gang->t;
    t->long_O = (double *)(void *)at;
    t->long_sum = t->long_O + rows * job->v_pad;
    t->long_max = (float *)(t->long_sum + rows);
    t->S = (float *)(void *)(at + span);
    t->O = t->S + u->rows * job->ld;
    t->Q = t->O + u->rows * job->v_pad;
    gang[h].second = t->Q + u->rows * job->q_pad;
    t->max = gang[h].second + u->rows * (job->v_pad + 2);
    t->sum = t->max + u->rows;
}
/* A unit, or those of so many kv heads from its own on: the rows against the key splits, each from
 * scratch, joined in order. With `partial` the result of its one split is left there for
 * flash_merge, so that the bits are the same whether splits run side by side or one after another. */
static void attn__flash_rows(const attn__rows *u, int64_t heads, char *scratch, float *partial) {
    const attn__kernels *isa = attn__isa();
    const attn__flash *job = u->job;
    const attn_desc *d = job->d;
    attn__head gang[ATTN__GANG];
    attn__rows other[ATTN__GANG];
    int64_t ldq = job->q_pad, k = u->k0, step = attn__split_keys(&u->s, job->group);
    if (ATTN__SMALL) heads = 1; /* as gang_of has it: for the compiler */
    gang->t = attn__carve(job, scratch);
    gang->second = gang->t.Q + (job->pack_q ? job->BM * job->q_pad : 0);
    for (int64_t h = 0; h < heads; h++) {
        attn__head *one = gang + h;
        one->u = u;
        one->only = one->only_end = 0;
        if (h) {
            other[h] = *u;
            other[h].kv_head += h;
            one->u = other + h;
        }
        if (heads > 1) attn__carve_gang(gang, h, scratch);
        one->Q = one->t.Q;
        if (job->pack_q) {
            for (int64_t r = 0; r < u->rows; r++) {
                const int64_t i = attn__row_query(u, r), head = attn__row_head(one->u, r),
                              ahead = attn__min(r + 2 * ATTN__AHEAD, u->rows - 1);
                attn__fetch_row(d->q.data, d->q.dtype,
                    attn__q_at(&u->s, d->q.stride, attn__row_query(u, ahead),
                        attn__row_head(one->u, ahead)),
                    d->head_dim);
                if (job->bf16_qk && !attn__unit_thin(u))
                    attn__pack_q_pairs(one->t.Q + r * ldq, &d->q,
                        attn__q_at(&u->s, d->q.stride, i, head), d->head_dim);
                else isa->pack_q(one->t.Q + r * ldq, d, &u->s, i, head);
            }
            continue;
        }
        one->Q = (const float *)d->q.data +
                 attn__q_at(&u->s, d->q.stride, attn__row_query(u, 0), attn__row_head(one->u, 0));
    }
    if (!job->pack_q) ldq = job->group == 1 ? d->q.stride[1] : d->q.stride[2];
    int more = k + step < u->k1;
    attn__flash_split(gang, heads, ldq, k, attn__min(k + step, u->k1), !partial && !more);
    for (int64_t h = 0; h < heads && partial; h++) {
        const attn__tile *t = &gang[h].t;
        const size_t each = (size_t)u->rows * sizeof *partial;
        float *to = partial + h * job->splits * job->rows_partial * (job->v_pad + 2);
        memcpy(to, t->O, each * (size_t)job->v_pad);
        memcpy(to + job->rows_partial * job->v_pad, t->max, each);
        memcpy(to + job->rows_partial * (job->v_pad + 1), t->sum, each);
    }
    if (partial || !more) return;
    /* at most SPLIT_ROWS see a key */
    const int64_t rows = attn__max(0, attn__min(u->rows, u->s.q_used * job->group - u->row0));
    attn__head later[ATTN__GANG];
    attn__rows used[ATTN__GANG];
    for (int64_t h = 0; h < heads; h++) {
        later[h] = gang[h];
        used[h] = *gang[h].u;
        used[h].rows = rows;
        later[h].u = used + h;
        later[h].t.O = gang[h].second;
        later[h].t.max = later[h].t.O + rows * job->v_pad;
        later[h].t.sum = later[h].t.max + rows;
    }
    for (k += step; k < u->k1 && rows > 0; k += step) {
        attn__flash_split(later, heads, ldq, k, attn__min(k + step, u->k1), 0);
        for (int64_t h = 0; h < heads; h++) {
            const attn__tile *t = &later[h].t;
            isa->join(used + h, &gang[h].t, t->O, t->max, t->sum);
        }
    }
    for (int64_t h = 0; h < heads; h++) isa->finish(gang[h].u, &gang[h].t, 0, u->rows);
}
static void attn__flash_merge(
    const attn__rows *u, int64_t parts, const float *partial, char *scratch) {
    const attn__kernels *isa = attn__isa();
    const attn__flash *job = u->job;
    attn__tile t = attn__carve(job, scratch);
    int64_t max_at = job->rows_partial * job->v_pad, sum_at = max_at + job->rows_partial,
            size = sum_at + job->rows_partial;
    memcpy(t.O, partial, (size_t)(u->rows * job->v_pad) * sizeof *partial);
    memcpy(t.max, partial + max_at, (size_t)u->rows * sizeof *partial);
    memcpy(t.sum, partial + sum_at, (size_t)u->rows * sizeof *partial);
    for (partial += size; parts > 1; parts--, partial += size)
        isa->join(u, &t, partial, partial + max_at, partial + sum_at);
    isa->finish(u, &t, 0, u->rows);
}

/* ============================================================================== >>blocks ====
   The same of the backward of flash, and of standard. */
typedef struct attn__bwd_tile {
    float *KT, *VT, *K;  /* [BK / W][dim][W] twice; rows [BK][q_ld] */
    const float *Q, *dO; /* rows of attn__bwd.q and dout: the row block at hand */
    const float *Q_pairs, *dO_pairs;
    /* [BQ][ld] twice; [2][BK]: dropout factors, slope of the softcap */
    float *P, *dS, *extra;
    int64_t ld;
    float *dK, *dV; /* [BK][q_ld], [BK][v_ld] */
    /* the pairs at hand: keys [kb, ke) and rows [row0, row0 + rows) of a kv head */
    int64_t kv_head, kb, ke, row0, rows;
} attn__bwd_tile;
/* What the elementwise part of a tile is told beside its rows. */
typedef struct attn__bwd_how {
    int64_t row; /* of row 0 in lse and delta */
    float scale; /* of dS */
    int cap;     /* dS goes through the slope of the softcap */
    int hide;    /* hidden pairs are 0, whatever the rest is */
} attn__bwd_how;
typedef struct attn__groups {
    int64_t n, row[ATTN__GROUPS + 1], first[ATTN__GROUPS], last[ATTN__GROUPS];
    int whole;
} attn__groups;
static attn__bwd_tile attn__bwd_carve(const attn__bwd *job, char *scratch) {
    attn__bwd_tile t;
    float *p = (float *)(void *)scratch;
    /* clang-format off */
    t.KT = p; p += job->BK * job->q_ld;
    t.VT = p; p += job->BK * job->v_ld;
    t.K = p; p += job->BK * job->q_ld;
    t.Q = t.dO = t.Q_pairs = t.dO_pairs = NULL;
    t.ld = job->BK + ATTN__SCORE_PAD;
    t.P = p; p += job->BQ * t.ld;
    t.dS = p; p += job->BQ * t.ld;
    t.extra = p; p += 2 * job->BK;
    t.dK = p; p += job->BK * job->q_ld;
    /* clang-format on */
    t.dV = p;
    return t;
}
/* Points the tile at its rows, which begin at `row`; whether any element of their q or dout
 * is not finite. */
static int attn__bwd_rows(const attn__bwd *job, int64_t row, attn__bwd_tile *t) {
    float sum = 0;
    t->Q = job->q + (row - job->first) * job->q_ld;
    t->dO = job->dout + (row - job->first) * job->v_ld;
    t->Q_pairs = attn__bwd_q_pairs(job) + (row - job->first) * (job->q_ld / 2);
    t->dO_pairs = attn__bwd_dout_pairs(job) + (row - job->first) * (job->v_ld / 2);
    for (int64_t r = 0; r < t->rows; r++) sum += job->bad[row + r];
    return sum != 0;
}
ATTN__INLINE attn__query attn__bwd_query(
    const attn__bwd *job, const attn__sequence_view *s, const attn__bwd_tile *t, int64_t r) {
    const int64_t row = t->row0 + r;
    return attn__query_of(job->d, s, t->kv_head * job->group + row % job->group, row / job->group);
}
/* The groups of a tile, each with the keys that some row of it sees, without what a mask or a bias of
 * -infinity hides at the ends; whether any row sees any key. */
static int attn__bwd_groups(
    const attn__bwd *job, const attn__sequence_view *s, const attn__bwd_tile *t, attn__groups *gr) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = job->d;
    const int trim = d->mask.data || d->bias.data;
    int any = 0, all = attn__all_see(d, s, t->row0 / job->group,
                     (t->row0 + t->rows - 1) / job->group, t->kb, t->ke);
    gr->n = 0;
    gr->whole = all;
    ATTN__EACH_TILE(isa, r, n, t->rows) {
        int64_t first = all && !trim ? t->kb : t->ke, last = all && !trim ? t->ke : t->kb;
        for (int64_t l = 0; l < n && (first > t->kb || last < t->ke); l++) {
            int64_t lo, hi;
            const int64_t i = (t->row0 + r + l) / job->group;
            attn__rows_see_inline(d, s, i, i, &lo, &hi);
            lo = attn__max(lo, t->kb);
            hi = attn__min(hi, t->ke);
            if (trim && hi > lo) {
                const attn__query q = attn__bwd_query(job, s, t, r + l);
                attn__trim(&q, &lo, &hi);
            }
            if (hi > lo) {
                first = attn__min(first, lo);
                last = attn__max(last, hi);
            }
        }
        gr->whole &= first <= t->kb && last >= t->ke;
        gr->row[gr->n] = r;
        gr->row[gr->n + 1] = r + n;
        gr->first[gr->n] = first;
        gr->last[gr->n] = last;
        any |= last > first;
        gr->n++;
    }
    return any;
}
/* The columns of a tile that the products of a group fill. */
ATTN__INLINE void attn__bwd_columns(
    const attn__groups *gr, int64_t g, int64_t kb, int64_t *start, int64_t *end) {
    const attn__kernels *isa = attn__isa();
    *start = *end = 0;
    if (gr->last[g] <= gr->first[g]) return;
    *start = (gr->first[g] - kb) & -attn__step(isa);
    *end = attn__padded(gr->last[g] - kb, isa->W);
}
/* P = Q K^T, then dS = dO V^T, for the keys of columns [c0, c1) and the groups that see
 * some of them. */
static void attn__bwd_products(
    const attn__bwd *job, const attn__bwd_tile *t, const attn__groups *gr, int64_t c0, int64_t c1) {
    const attn__kernels *isa = attn__isa();
    const int pairs[] = {job->bf16_qk, job->bf16_dp};
    const float *A[] = {pairs[0] ? t->Q_pairs : t->Q, pairs[1] ? t->dO_pairs : t->dO},
                *B[] = {t->KT, t->VT};
    float *C[] = {t->P, t->dS};
    const int64_t lda[] = {job->q_ld >> pairs[0], job->v_ld >> pairs[1]},
                  dim[] = {job->d->head_dim >> pairs[0], job->d->v_dim >> pairs[1]};
    for (int p = 0; p < 2; p++)
        for (int64_t g = 0, start, end; g < gr->n; g++) {
            const int64_t r = gr->row[g];
            attn__bwd_columns(gr, g, t->kb, &start, &end);
            start = attn__max(start, c0);
            end = attn__min(end, c1);
            if (start >= end) continue;
            attn__tile_dots(isa, (end - start) / isa->W, gr->row[g + 1] - r, pairs[p],
                A[p] + r * lda[p], lda[p], B[p] + start * dim[p], isa->W * dim[p], dim[p],
                C[p] + r * t->ld + start, t->ld, NULL);
        }
}
/* The products S and dP of a tile become P and dS. For dbias dS is left as the gradient of the score,
 * without the slope of the softcap. */
static void attn__bwd_elementwise(const attn__bwd *job, const attn__sequence_view *s,
    const attn__bwd_tile *t, const attn__groups *gr, int for_bias, int bad) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = job->d;
    const int64_t width = attn__padded(t->ke - t->kb, isa->W);
    const int plain = gr->whole && !job->extras && !(d->dropout > 0);
    /* hidden pairs of a bad tile are left out by its sums: a key that is seen there may have a
     * score of -infinity beside a NaN */
    const attn__bwd_how how = {attn__bwd_row(job, s, t->kv_head) + t->row0, for_bias ? 1 : d->scale,
        attn__capped(d) && !for_bias, !bad};
    for (int64_t g = 0, start, end; g < gr->n; g++) {
        attn__bwd_columns(gr, g, t->kb, &start, &end);
        for (int64_t r = gr->row[g]; r < gr->row[g + 1]; r++) {
            if (plain) {
                isa->bwd_row_whole(job, t, &how, r, width);
                continue;
            }
            for (int n = 0; n < 2; n++) { /* what no row of the group sees */
                float *row = (n ? t->dS : t->P) + r * t->ld;
                memset(row, 0, (size_t)(end > start ? start : width) * sizeof *row);
                if (end > start) memset(row + end, 0, (size_t)(width - end) * sizeof *row);
            }
            if (end > start) isa->bwd_row(job, s, t, &how, r, start, end);
        }
    }
}
/* P and dS of the tile's rows against its packed keys: products 1 and 2 and the elementwise part.
 * Returns whether any row sees any key. */
static int attn__bwd_scores(const attn__bwd *job, const attn__sequence_view *s, attn__bwd_tile *t,
    attn__groups *gr, int for_bias, int *bad) {
    const attn__kernels *isa = attn__isa();
    const int64_t width = attn__padded(t->ke - t->kb, isa->W);
    if (!attn__bwd_groups(job, s, t, gr)) return 0;
    *bad |= attn__bwd_rows(job, attn__bwd_row(job, s, t->kv_head) + t->row0, t);
    /* the keys of a tile stay in L1 for all rows */
    for (int64_t c = 0, n; c < width; c += n) {
        n = attn__tile_vectors(isa, width - c) * isa->W;
        attn__bwd_products(job, t, gr, c, c + n);
    }
    attn__bwd_elementwise(job, s, t, gr, for_bias, *bad);
    return 1;
}
/* dK, dV (unless keys is 0) and dQ (unless NULL) of a tile with a value that is not finite: only
 * over pairs of which the row sees the key. */
ATTN__NOINLINE void attn__bwd_seen(const attn__bwd *job, const attn__sequence_view *s,
    const attn__bwd_tile *t, int keys, float *dQ) {
    const attn__kernels *isa = attn__isa();
    unsigned char seen[ATTN__TILE_MAX];
    for (int64_t j = t->kb; j < t->ke && keys; j++) {
        int64_t c = j - t->kb;
        for (int64_t r = 0; r < t->rows; r++) {
            const attn__query q = attn__bwd_query(job, s, t, r);
            seen[r] = (unsigned char)attn__sees(&q, j);
        }
        isa->add_seen(
            seen, t->rows, t->P + c, t->ld, t->dO, job->v_ld, t->dV + c * job->v_ld, job->v_pad);
        isa->add_seen(
            seen, t->rows, t->dS + c, t->ld, t->Q, job->q_ld, t->dK + c * job->q_ld, job->q_pad);
    }
    for (int64_t r = 0; r < t->rows && dQ; r++) {
        const attn__query q = attn__bwd_query(job, s, t, r);
        for (int64_t j = t->kb; j < t->ke; j++) seen[j - t->kb] = (unsigned char)attn__sees(&q, j);
        isa->add_seen(seen, t->ke - t->kb, t->dS + r * t->ld, 1, t->K, job->q_ld,
            dQ + r * job->q_ld, job->q_pad);
    }
}
/* dV += P^T dO and dK += dS^T Q of a tile; gr NULL: all rows see them.
 * Columns outside: those of dO, then those of Q stay in L1 for all keys. */
static void attn__bwd_keys(const attn__bwd *job, const attn__bwd_tile *t, const attn__groups *gr) {
    const attn__kernels *isa = attn__isa();
    const int64_t n = t->rows, kb = t->kb, keys = t->ke - t->kb;
    const float *A[] = {t->P, t->dS}, *B[] = {t->dO, t->Q};
    float *C[] = {t->dV, t->dK}, one[ATTN__ROWS_MOST];
    for (int k = 0; k < isa->MR; k++) one[k] = 1;
    int64_t columns[] = {job->v_pad, job->q_pad}, ld[] = {job->v_ld, job->q_ld},
            key[ATTN__GROUPS + 1], from[ATTN__GROUPS], to[ATTN__GROUPS],
            count = attn__ceil_div(keys, isa->MR);
    key[0] = 0;
    for (int64_t k = 0; k < count; k++) {
        key[k + 1] = key[k] + attn__ceil_div(keys - key[k], count - k);
        from[k] = 0;
        to[k] = n;
        if (!gr || gr->whole) continue;
        from[k] = n; /* the rows that see some of these keys */
        to[k] = 0;
        for (int64_t g = 0; g < gr->n; g++)
            if (gr->first[g] < kb + key[k + 1] && gr->last[g] > kb + key[k]) {
                from[k] = attn__min(from[k], gr->row[g]);
                to[k] = gr->row[g + 1];
            }
    }
    for (int p = 0; p < 2; p++)
        for (int64_t c = 0, nv; c < columns[p]; c += nv * isa->W) {
            nv = attn__tile_vectors(isa, columns[p] - c);
            for (int64_t k = 0; k < count; k++)
                if (to[k] > from[k])
                    attn__mm_of(isa, nv, key[k + 1] - key[k], 0)(ATTN__ATB,
                        A[p] + from[k] * t->ld + key[k], t->ld, B[p] + from[k] * ld[p] + c, ld[p],
                        to[k] - from[k], to[k] - from[k], C[p] + key[k] * ld[p] + c, ld[p], one);
        }
}
/* dQ += dS K of a tile, likewise. */
static void attn__bwd_queries(
    const attn__bwd *job, const attn__bwd_tile *t, const attn__groups *gr, float *dQ) {
    const attn__kernels *isa = attn__isa();
    const int64_t n = t->rows, kb = t->kb, keys = t->ke - t->kb;
    float one[ATTN__ROWS_MOST];
    for (int r = 0; r < isa->MR; r++) one[r] = 1;
    for (int64_t c = 0, nv; c < job->q_pad; c += nv * isa->W) {
        nv = attn__tile_vectors(isa, job->q_pad - c);
        int64_t g = -1;
        ATTN__EACH_TILE(isa, r, m, n) {
            g++;
            int64_t first = gr ? gr->first[g] - kb : 0, last = gr ? gr->last[g] - kb : keys;
            if (last <= first) continue;
            for (int64_t l = r + m; l < attn__min(r + 2 * m, n); l++) /* for the next tile */
                for (int64_t x = c; x < c + nv * isa->W; x += 16)
                    ATTN__PREFETCH(dQ + l * job->q_ld + x, 3);
            attn__mm_of(isa, nv, m, 0)(ATTN__PV, t->dS + r * t->ld + first, t->ld,
                t->K + first * job->q_ld + c, job->q_ld, last - first, last - first,
                dQ + r * job->q_ld + c, job->q_ld, one);
        }
    }
}
/* The keys of a block: K^T, V^T and, unless NULL, rows of K and V; returns whether any element is
 * not finite. bwd_block clears dK and dV too. */
static int attn__bwd_pack(const attn__bwd *job, const attn__sequence_view *s,
    const attn__bwd_tile *t, float *K, float *V) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = job->d;
    const int64_t h = t->kv_head, kb = t->kb, ke = t->ke;
    (job->bf16_qk ? isa->pack_k_pairs : isa->pack_k)(t->KT, d, s, &d->k, h, d->head_dim, kb, ke);
    (job->bf16_dp ? isa->pack_k_pairs : isa->pack_k)(t->VT, d, s, &d->v, h, d->v_dim, kb, ke);
    int bad = isa->pack_v(V, job->v_ld, d, s, &d->v, h, d->v_dim, kb, ke);
    return bad | isa->pack_v(K, job->q_ld, d, s, &d->k, h, d->head_dim, kb, ke);
}
static void attn__bwd_clear(const attn__bwd *job, const attn__bwd_tile *t) {
    memset(t->dK, 0, (size_t)((t->ke - t->kb) * job->q_ld) * sizeof(float));
    memset(t->dV, 0, (size_t)((t->ke - t->kb) * job->v_ld) * sizeof(float));
}
static int attn__bwd_block(const attn__bwd *job, const attn__sequence_view *s, attn__bwd_tile *t) {
    int bad = attn__bwd_pack(job, s, t, t->K, t->dV); /* V for the check only */
    attn__bwd_clear(job, t);
    return bad;
}
static void attn__bwd_store_keys(
    const attn__bwd *job, const attn__sequence_view *s, const attn__bwd_tile *t) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = job->d;
    const attn_out *dk = &job->g->dk, *dv = &job->g->dv;
    for (int64_t j = t->kb; j < t->ke; j++) {
        isa->bwd_store(job, dk, attn__k_at(d, s, dk->stride, j, t->kv_head),
            t->dK + (j - t->kb) * job->q_ld, d->head_dim);
        isa->bwd_store(job, dv, attn__k_at(d, s, dv->stride, j, t->kv_head),
            t->dV + (j - t->kb) * job->v_ld, d->v_dim);
    }
}
/* A token, or key, that no row sees: gradient 0. */
static void attn__bwd_no_key(
    const attn__bwd *job, const attn__sequence_view *s, int64_t kv_head, int64_t j) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = job->d;
    const attn_out *dk = &job->g->dk, *dv = &job->g->dv;
    isa->bwd_store(job, dk, attn__k_at(d, s, dk->stride, j, kv_head), NULL, d->head_dim);
    isa->bwd_store(job, dv, attn__k_at(d, s, dv->stride, j, kv_head), NULL, d->v_dim);
}
/* Tokens of the buffer that are no keys. */
static void attn__bwd_no_keys(const attn__bwd *job, const attn__sequence_view *s, int64_t kv_head) {
    const attn_desc *d = job->d;
    int64_t capacity = d->seq.cu_k ? (int64_t)d->seq.cu_k[s->b + 1] - d->seq.cu_k[s->b] : d->kv_len,
            start = d->seq.start_k ? d->seq.start_k[s->b] : 0;
    for (int64_t j = -start; j < capacity - start; j++)
        if (j < 0 || j >= s->k_len) attn__bwd_no_key(job, s, kv_head, j);
}
/* Whether there are so few rows that keys and values are read where they lie: packed for eight, they
 * cost narrow vectors less. */
static int attn__bwd_few(const attn__bwd *job, const attn__sequence_view *s) {
    const int64_t rows = s->q_used * job->group, most = attn__isa()->W < 16 ? 4 : ATTN__THIN_ROWS;
    return !ATTN__SMALL && !job->standard && rows >= 1 && rows <= most &&
           !attn__bwd_bias_own(job) && job->d->head_dim <= ATTN__LONG_DIMS &&
           job->d->v_dim <= ATTN__LONG_DIMS && job->BK <= ATTN__THIN_CHUNK;
}
/* Keys of a block, or their values, as the thin products read them, while those `on` keys further are
 * fetched; room: for f32 of all of them. */
static attn__thin attn__bwd_thin(const attn__bwd *job, const attn__sequence_view *s,
    const attn__bwd_tile *t, const attn_in *in, int64_t dim, int64_t on, attn__thin_keys *k,
    float *room) {
    const attn__kernels *isa = attn__isa();
    const int64_t up = attn__padded(t->ke - t->kb, isa->W);
    attn__thin m;
    attn__thin_clear(&m);
    m.data = in->data;
    m.dtype = in->dtype;
    m.first = attn__k_at(job->d, s, in->stride, t->kb, t->kv_head);
    m.step = in->stride[1];
    m.n = t->ke - t->kb;
    m.dim = dim;
    if (t->kb + on < s->k_len) {
        attn__thin_rows_on(k, 0, up, in->data, attn__bytes(in->dtype, m.first + on * m.step),
            attn__bytes(in->dtype, m.step));
        m.next = k->next;
    } else attn__thin_rest(&m);
    if (!attn__thin_reads(in, dim, 0)) isa->thin_widen(&m, NULL, room);
    return m;
}
/* A block of keys for few rows: nothing is packed, and dK and dV are written key after key. */
ATTN__NOINLINE void attn__bwd_few_rows(
    const attn__bwd *job, const attn__sequence_view *s, attn__bwd_tile *t, int64_t on, float *dQ) {
    static const float one[ATTN__THIN_ROWS] = {1, 1, 1, 1, 1, 1, 1, 1};
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = job->d;
    const attn_in *in[] = {&d->k, &d->v};
    const attn_out *out[] = {&job->g->dk, &job->g->dv};
    float *C[] = {t->P, t->dS}, *room[] = {t->K, t->VT};
    const int64_t keys = t->ke - t->kb, width = attn__padded(keys, isa->W),
                  dim[] = {d->head_dim, d->v_dim}, ld[] = {job->q_ld, job->v_ld};
    const int pairs[] = {job->bf16_qk, job->bf16_dp};
    attn__groups gr;
    attn__thin_keys k;
    attn__thin m[2];
    t->row0 = 0;
    t->rows = s->q_used * job->group;
    int bad = attn__bwd_rows(job, attn__bwd_row(job, s, t->kv_head), t);
    const float *rows[] = {t->Q, t->dO};
    if (!attn__bwd_groups(job, s, t, &gr)) {
        for (int64_t j = t->kb; j < t->ke; j++) attn__bwd_no_key(job, s, t->kv_head, j);
        return;
    }
    for (int p = 0; p < 2; p++) {
        m[p] = attn__bwd_thin(job, s, t, in[p], dim[p], on, &k, room[p]);
        m[p].pairs = pairs[p] && m[p].dtype == ATTN_BF16 && dim[p] % (2 * isa->W) == 0;
        m[p].lda = ld[p];
        m[p].ldo = t->ld;
        for (int64_t r = 0; r < t->rows; r += 4) {
            if (r) attn__thin_rest(&m[p]);
            m[p].A = rows[p] + r * ld[p];
            m[p].rows = attn__min(4, t->rows - r);
            m[p].out = C[p] + r * t->ld;
            isa->thin_dots(&m[p]);
        }
        for (int64_t r = 0; r < t->rows; r++)
            for (int64_t c = keys; c < width; c++) C[p][r * t->ld + c] = 0;
    }
    bad |= isa->rows_bad(t->P, t->ld, t->rows, width); /* K: of V nothing else is read */
    attn__bwd_elementwise(job, s, t, &gr, 0, bad);
    /* pair by pair, in the order of the sums below */
    if (bad && (!gr.whole || d->mask.data || d->bias.data)) {
        isa->pack_v(t->K, job->q_ld, d, s, &d->k, t->kv_head, d->head_dim, t->kb, t->ke);
        attn__bwd_clear(job, t);
        attn__bwd_seen(job, s, t, 1, dQ);
        attn__bwd_store_keys(job, s, t);
        return;
    }
    attn__thin_rest(&m[0]);
    m[0].lda = t->ld;
    m[0].ldo = job->q_ld;
    m[0].alpha = one;
    for (int64_t r = 0; r < t->rows; r += 4) {
        m[0].A = t->dS + r * t->ld;
        m[0].rows = attn__min(4, t->rows - r);
        m[0].out = dQ + r * job->q_ld;
        isa->thin_columns(&m[0]);
    }
    for (int p = 0; p < 2; p++)
        isa->bwd_outer(job, out[p], attn__k_at(d, s, out[p]->stride, t->kb, t->kv_head), C[1 - p],
            t->ld, rows[p], ld[p], t->rows, keys, dim[p], p ? t->dV : t->dK);
}
/* Where dbias has key 0 of a sequence, in row i of head h; and whether that sequence is the first
 * which has this element: the others add. */
static float *attn__bwd_bias_row(
    const attn__bwd *job, const attn__sequence_view *s, int64_t h, int64_t i) {
    return job->g->dbias + attn__bias_at(job->d, s, job->d->bias.stride, i, h);
}
static int attn__bwd_bias_first(const attn__bwd *job, const attn__sequence_view *s) {
    return !(job->d->flags & ATTN_ACCUMULATE) && (!job->in_turn || s->b == 0);
}
/* Elements of dbias that no tile has: 0. */
static void attn__bwd_no_bias(const attn__bwd *job, const attn__sequence_view *s, int64_t kv_head) {
    const attn_desc *d = job->d;
    const int64_t start = d->seq.start_k ? d->seq.start_k[s->b] : 0;
    if (!attn__bwd_bias_first(job, s)) return;
    for (int64_t h = kv_head * job->group; h < (kv_head + 1) * job->group; h++)
        for (int64_t i = 0; i < d->q_len; i++) {
            float *row = attn__bwd_bias_row(job, s, h, i);
            for (int64_t c = -start; c < 0; c++) row[c] = 0;
            for (int64_t c = i < s->q_rows ? s->k_len : 0; c < d->kv_len - start; c++) row[c] = 0;
        }
}
/* Those of a tile; dS, the gradients of its scores, becomes that of its products. some: whether any
 * row sees any key. */
static void attn__bwd_bias_tile(const attn__bwd *job, const attn__sequence_view *s,
    const attn__bwd_tile *t, int some, int bad) {
    const int64_t h = t->kv_head * job->group;
    for (int64_t r = 0; r < t->rows && attn__bwd_bias_first(job, s); r++) {
        const attn__query q = attn__bwd_query(job, s, t, r);
        memset(attn__bwd_bias_row(job, s, q.h, q.i) + t->kb, 0,
            (size_t)(t->ke - t->kb) * sizeof(float));
    }
    if (some)
        attn__isa()->bias_rows(job, s, t, h, h + job->group, t->kb,
            attn__bwd_bias_row(job, s, h, 0) + t->kb, job->d->scale, bad);
}
static void attn__backward_split(const attn__bwd *job, const attn__sequence_view *s,
    int64_t kv_head, int64_t split, char *scratch) {
    const attn_desc *d = job->d;
    const int few = attn__bwd_few(job, s);
    attn__bwd_tile t = attn__bwd_carve(job, scratch);
    attn__groups gr;
    int64_t rows = s->q_rows * job->group,
            splits = attn__bwd_splits(s->k_len, d->kv_heads, job->standard);
    float *dQ = job->dq +
                (split * job->rows_held + attn__bwd_row(job, s, kv_head) - job->first) * job->q_ld;
    memset(dQ, 0, (size_t)(rows * job->q_ld) * sizeof *dQ);
    if (split == 0) attn__bwd_no_keys(job, s, kv_head);
    if (split == 0 && job->bias_at_once) attn__bwd_no_bias(job, s, kv_head);
    t.kv_head = kv_head;
    for (t.kb = split * job->BK; t.kb < s->k_len; t.kb += splits * job->BK) {
        t.ke = attn__min(t.kb + job->BK, s->k_len);
        if (few) {
            attn__bwd_few_rows(job, s, &t, splits * job->BK, dQ);
            continue;
        }
        const int bad_keys = attn__bwd_block(job, s, &t);
        for (t.row0 = 0; t.row0 < rows; t.row0 += job->BQ) {
            int bad = bad_keys;
            t.rows = attn__min(job->BQ, rows - t.row0);
            const int some = attn__bwd_scores(job, s, &t, &gr, job->bias_at_once, &bad);
            if (job->bias_at_once) attn__bwd_bias_tile(job, s, &t, some, bad);
            if (!some) continue;
            if (bad && (!gr.whole || d->mask.data || d->bias.data)) {
                attn__bwd_seen(job, s, &t, 1, dQ + t.row0 * job->q_ld);
                continue;
            }
            attn__bwd_keys(job, &t, &gr);
            attn__bwd_queries(job, &t, &gr, dQ + t.row0 * job->q_ld);
        }
        attn__bwd_store_keys(job, s, &t);
    }
}
static void attn__backward_bias(
    const attn__bwd *job, int64_t b0, int64_t h0, int64_t column, char *scratch) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = job->d;
    const int64_t *st = d->bias.stride;
    attn__bwd_tile t = attn__bwd_carve(job, scratch);
    attn__groups gr;
    float *out = job->g->dbias + b0 * st[0] + h0 * st[1] + column;
    const int64_t width = attn__min(job->BK - 16, d->kv_len - column),
                  distinct = st[2] ? d->q_len : attn__min(d->q_len, 1);
    const int shared = st[2] == 0; /* one row takes the sums of all: each block's from zero */
    const int64_t together = attn__bwd_bias_together(job), own = st[1] ? together : 1;
    float part[ATTN__BIAS_KEYS];
    double total[ATTN__BIAS_KEYS] = {0};
    for (int64_t h = 0; h < own && !(d->flags & ATTN_ACCUMULATE); h++)
        for (int64_t i = 0; i < distinct; i++)
            for (int64_t c = 0; c < width; c++) out[h * st[1] + i * st[2] + c] = 0;
    for (int64_t b = b0; b < (st[0] ? b0 + 1 : d->batch); b++) {
        attn__sequence_view s = attn__sequence(d, b);
        const int64_t start = d->seq.start_k ? d->seq.start_k[b] : 0,
                      first = attn__max(0, column - start), rows = s.q_rows * job->group;
        int bad_keys = 0;
        t.kv_head = -1;
        t.kb = first / 4 * 4; /* dropout's words come in fours */
        t.ke = attn__min(column + width - start, s.k_len);
        if (t.ke <= first) continue;
        for (int64_t h = h0; h < (st[1] ? h0 + own : d->heads); h += together) {
            if (t.kv_head != h / job->group) {
                t.kv_head = h / job->group;
                bad_keys = attn__bwd_pack(job, &s, &t, NULL, NULL);
            }
            for (t.row0 = 0; t.row0 < rows; t.row0 += job->BQ) {
                int bad = bad_keys;
                t.rows = attn__min(job->BQ, rows - t.row0);
                if (!attn__bwd_scores(job, &s, &t, &gr, 1, &bad)) continue;
                const int64_t at = first + start - column;
                if (shared) memset(part, 0, sizeof part);
                isa->bias_rows(
                    job, &s, &t, h, h + together, first, (shared ? part : out) + at, 1, bad);
                for (int64_t c = 0; c < width && shared; c++) total[c] += (double)part[c];
            }
        }
    }
    for (int64_t c = 0; c < width && shared && distinct; c++)
        out[c] = (float)((double)out[c] + total[c]);
}

#ifndef ATTN_NO_STANDARD
static void attn__standard_scores(const attn__std *job, const attn__sequence_view *s, int64_t h,
    int64_t row0, int64_t rows, float *S, char *scratch) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = job->d;
    int64_t kv_head = h / (d->heads / d->kv_heads);
    float *Q = (float *)(void *)scratch, *K = Q + job->BM * job->q_pad;
    for (int64_t r = 0; r < rows; r++) isa->pack_q(Q + r * job->q_pad, d, s, row0 + r, h);
    for (int64_t kb = 0; kb < s->k_len; kb += job->BN) {
        int64_t ke = attn__min(kb + job->BN, s->k_len);
        isa->pack_k(K, d, s, &d->k, kv_head, d->head_dim, kb, ke);
        ATTN__EACH_TILE(isa, r, n, rows) {
            for (int64_t j = kb, nv; j < ke; j += nv * isa->W) {
                nv = attn__tile_vectors(isa, attn__padded(ke - j, isa->W));
                attn__tile_dots(isa, nv, n, 0, Q + r * job->q_pad, job->q_pad,
                    K + (j - kb) * d->head_dim, isa->W * d->head_dim, d->head_dim,
                    S + r * job->ld + j, job->ld, NULL);
            }
        }
    }
}
static void attn__standard_output(const attn__std *job, const attn__sequence_view *s, int64_t h,
    int64_t row0, int64_t rows, const float *S, const float *stats, char *scratch) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = job->d;
    int64_t kv_head = h / (d->heads / d->kv_heads);
    float one[ATTN__ROWS_MOST];
    for (int r = 0; r < isa->MR; r++) one[r] = 1;
    attn__flash flash; /* for finish: one head, rows of its own */
    attn__rows u;
    attn__tile tile;
    memset(&flash, 0, sizeof flash);
    memset(&tile, 0, sizeof tile);
    flash.d = d;
    flash.group = 1;
    flash.BM = job->BM;
    flash.v_pad = job->v_pad;
    flash.unit = attn__score_unit(d, 1);
    u.job = &flash;
    u.s = *s;
    u.kv_head = h;
    u.row0 = row0;
    u.rows = rows;
    u.k0 = 0;
    u.k1 = s->k_len;
    tile.long_O = (double *)(void *)scratch;
    tile.long_sum = tile.long_O + (job->span ? job->BM * job->v_pad : 0);
    tile.long_max = (float *)(tile.long_sum + (job->span ? job->BM : 0));
    tile.O = tile.long_max + (job->span ? job->BM : 0);
    tile.max = tile.O + job->BM * job->v_pad;
    tile.sum = tile.max + job->BM;
    tile.V = tile.sum + job->BM;
    memset(tile.O, 0, (size_t)(rows * job->v_pad) * sizeof(float));
    for (int64_t r = 0; r < rows; r++) {
        tile.max[r] = stats[2 * r];
        tile.sum[r] = 0;
    }
    for (int64_t kb = 0; kb < s->k_len; kb += job->BN) {
        int64_t ke = attn__min(kb + job->BN, s->k_len);
        if (job->span && kb > 0 && kb % job->span == 0) {
            attn__fold(&u, &tile, kb == job->span);
            memset(tile.O, 0, (size_t)(rows * job->v_pad) * sizeof(float));
        }
        int not_finite = isa->pack_v(tile.V, job->v_pad, d, s, &d->v, kv_head, d->v_dim, kb, ke);
        for (int64_t r = 0; r < rows && not_finite; r++) {
            const attn__query q = attn__query_within(attn__query_of(d, s, h, row0 + r), kb, ke);
            isa->seen_row(&q, 0, S + r * job->ld + kb, kb, tile.V, job->v_pad,
                tile.O + r * job->v_pad, job->v_pad, 1);
        }
        if (not_finite) continue;
        ATTN__EACH_TILE(isa, r, n, rows) {
            isa->mm_columns(ATTN__PV, n, 0, S + r * job->ld + kb, job->ld, tile.V, job->v_pad,
                ke - kb, ATTN__SUM_KEYS, tile.O + r * job->v_pad, job->v_pad, job->v_pad, one);
        }
    }
    if (job->span && s->k_len > job->span) {
        attn__fold(&u, &tile, 0);
        attn__unfold(&u, &tile);
    }
    for (int64_t r = 0; r < rows; r++) tile.sum[r] = stats[2 * r + 1];
    isa->finish(&u, &tile, 0, u.rows);
}
static void attn__standard_rows(const attn__std *job, const attn__sequence_view *s, int64_t h,
    int64_t row0, int64_t rows, char *scratch) {
    const attn__kernels *isa = attn__isa();
    int64_t row = (s->b * job->d->heads + h) * job->d->q_len + row0;
    if (job->pass == 0)
        attn__standard_scores(job, s, h, row0, rows, job->scores + row * job->ld, scratch);
    if (job->pass == 1)
        isa->standard_softmax(
            job, s, h, row0, rows, job->scores + row * job->ld, job->stats + 2 * row);
    if (job->pass == 2)
        attn__standard_output(
            job, s, h, row0, rows, job->scores + row * job->ld, job->stats + 2 * row, scratch);
}
#endif

#ifndef ATTN_NO_STANDARD
static void attn__standard_queries(
    const attn__bwd *job, const attn__sequence_view *s, attn__bwd_tile *t, int64_t row) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = job->d;
    float *dQ = job->dq + row * job->q_ld;
    if (t->rows <= 0) return;
    memset(dQ, 0, (size_t)(t->rows * job->q_ld) * sizeof *dQ);
    for (t->kb = 0; t->kb < s->k_len; t->kb += job->BK) {
        const int64_t h = t->kv_head, kb = t->kb, ke = attn__min(kb + job->BK, s->k_len);
        t->ke = ke;
        t->dS = job->dS + row * job->ld + kb;
        int bad = isa->pack_v(t->K, job->q_ld, d, s, &d->k, h, d->head_dim, kb, ke);
        bad |= isa->pack_v(NULL, 0, d, s, &d->v, h, d->v_dim, kb, ke);
        if (bad || attn__bwd_rows(job, row, t)) attn__bwd_seen(job, s, t, 0, dQ);
        else attn__bwd_queries(job, t, NULL, dQ);
    }
}
static void attn__standard_backward(const attn__bwd *job, const attn__sequence_view *s,
    int64_t kv_head, int64_t block, char *scratch) {
    attn__bwd_tile t = attn__bwd_carve(job, scratch);
    attn__groups gr;
    const int64_t rows = s->q_rows * job->group, row = attn__bwd_row(job, s, kv_head);
    t.ld = job->ld;
    t.kv_head = kv_head;
    t.row0 = block * job->BQ;
    t.rows = attn__min(job->BQ, rows - t.row0);
    if (job->phase == ATTN__STD_QUERIES) {
        attn__standard_queries(job, s, &t, row + t.row0);
        return;
    }
    t.kb = block * job->BK;
    t.ke = attn__min(t.kb + job->BK, s->k_len);
    if (block == 0 && job->phase == ATTN__STD_KEYS) attn__bwd_no_keys(job, s, kv_head);
    if (t.kb >= s->k_len) return;
    const int bad_keys = attn__bwd_block(job, s, &t);
    for (t.row0 = 0; t.row0 < rows; t.row0 += job->BQ) {
        int bad = bad_keys;
        t.rows = attn__min(job->BQ, rows - t.row0);
        t.P = job->P + (row + t.row0) * job->ld + t.kb;
        t.dS = job->dS + (row + t.row0) * job->ld + t.kb;
        if (job->phase == ATTN__STD_SCORES) {
            if (attn__bwd_scores(job, s, &t, &gr, 0, &bad)) continue;
            for (int64_t r = 0; r < t.rows; r++) {
                memset(t.P + r * job->ld, 0, (size_t)(t.ke - t.kb) * sizeof(float));
                memset(t.dS + r * job->ld, 0, (size_t)(t.ke - t.kb) * sizeof(float));
            }
        } else if (attn__bwd_rows(job, row + t.row0, &t) || bad_keys) {
            attn__bwd_seen(job, s, &t, 1, NULL);
        } else {
            attn__bwd_keys(job, &t, NULL);
        }
    }
    if (job->phase == ATTN__STD_KEYS) attn__bwd_store_keys(job, s, &t);
}
#endif

/* =============================================================================== >>codes ====
   The same of rows with a certificate (>>adaptive): from codes of int16, and few rows against
   int16, plane by plane. */
#if ATTN__ADAPTIVE
/* Numbers that have no code become 0; whether there were any, with BEYOND that one is finite: what is
 * no number, or infinite, is as a 0 for the rows that do not see it. */
#define ATTN__BEYOND 2
static int attn__no_code(float *x, int64_t n, int64_t step) {
    int bad = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t size = attn__bits(x[i * step]) & 0x7fffffff;
        if (size <= 0x58800000u) continue; /* INT16_LARGE */
        x[i * step] = 0;
        bad |= size < 0x7f800000u ? ATTN__BEYOND : 1;
    }
    return bad;
}
/* Keys [k0, ke) of the block from kb on; k0 - kb is a multiple of CHUNK. With `bytes` the codes of the
 * filter, and of values what the chunk and the columns share alone. */
static void attn__int16_pack(const attn__adaptive *job, const attn__rows *u, const attn__int16 *t,
    int64_t kb, int64_t k0, int64_t ke, int bytes) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = job->d;
    const int64_t tile = isa->W *
                         (bytes ? attn__bytes_vectors(isa->NV) : attn__int16_vectors(isa->NV)),
                  pairs = bytes ? attn__bytes_pad(d) / 4 : (d->head_dim + 1) / 2;
    memset(t->bad, 0, (size_t)job->BN);
    for (int64_t j0 = k0; j0 < ke; j0 += ATTN__INT16_CHUNK) {
        const int64_t j1 = attn__min(j0 + ATTN__INT16_CHUNK, ke);
        attn__coded_chunk *chunk = t->chunk + (j0 - kb) / ATTN__INT16_CHUNK;
        memset(chunk, 0, sizeof *chunk);
        for (int64_t j = j0; j < attn__round_up(j1 - j0, tile) + j0; j += isa->W) {
            int32_t *packed = t->K + (j - kb) / tile * tile * pairs + (j - kb) % tile;
            /* the keys of the next chunk: rows may be pages apart */
            for (int64_t l = j + ATTN__INT16_CHUNK, end = attn__min(l + isa->W, ke); l < end; l++) {
                const int64_t k = attn__k_at(d, &u->s, d->k.stride, l, u->kv_head),
                              v = attn__k_at(d, &u->s, d->v.stride, l, u->kv_head);
                attn__fetch_row(d->k.data, d->k.dtype, k, d->head_dim);
                attn__fetch_row(d->v.data, d->v.dtype, v, d->v_dim);
            }
            if (j < j1) {
                isa->int16_keys(u, t, j, attn__min(j + isa->W, j1), kb, bytes, packed, chunk);
                continue;
            }
            memset(t->k_step + (j - kb), 0, (size_t)isa->W * sizeof *t->k_step);
            for (int64_t c = 0; c < pairs; c++)
                memset(packed + c * tile, 0, (size_t)isa->W * sizeof *packed);
        }
        isa->int16_values(job, u, t, j0, j1, kb, bytes, chunk);
    }
}
typedef struct attn__int16_group {
    const attn__adaptive *job;
    const attn__int16 *t;
    int64_t row0, rows;
    int64_t lo[2 * ATTN__ROWS_MOST],
        hi[2 * ATTN__ROWS_MOST]; /* row r sees the sequence's keys [lo[r], hi[r]) */
    int64_t first, last;         /* that some row sees */
    int64_t inner_lo, inner_hi;  /* that every row sees */
} attn__int16_group;
/* The largest element of |v| among the keys [lo, hi) of the block from kb on. */
static float attn__int16_largest(const attn__int16 *t, int64_t lo, int64_t hi, int64_t kb) {
    float most = 0;
    for (int64_t j = lo; j < hi; j++) most = t->v_key[j - kb] > most ? t->v_key[j - kb] : most;
    return most;
}
/* What the rows see of the chunk [j0, j1): its largest |v|, and numbers without a code, which make
 * the row's `mark` NaN. */
static void attn__int16_seen(const attn__int16_group *g, const attn__coded_chunk *chunk, int64_t j0,
    int64_t j1, int64_t kb, int mark) {
    const attn__int16 *t = g->t;
    const int64_t lo = attn__clamp(g->inner_lo, j0, j1), hi = attn__clamp(g->inner_hi, lo, j1);
    const float all = lo == j0 && hi == j1 ? chunk->v_most : attn__int16_largest(t, lo, hi, kb);
    for (int64_t r = 0; r < g->rows; r++) {
        const int64_t first = attn__max(g->lo[r], j0), last = attn__min(g->hi[r], j1);
        float *seen = &t->row[ATTN__ROW_SEEN][g->row0 + r], most = lo < hi ? all : 0;
        const float before = attn__int16_largest(t, first, lo < hi ? lo : last, kb),
                    behind = attn__int16_largest(t, lo < hi ? hi : last, last, kb);
        most = before > most ? before : most;
        most = behind > most ? behind : most;
        *seen = most > *seen ? most : *seen;
        for (int64_t j = first; j < last && chunk->bad; j++)
            if (t->bad[j - kb]) t->row[mark][g->row0 + r] = attn__float(0x7fc00000u);
    }
}
ATTN__INLINE void attn__int16_ranges(attn__int16_group *g, const attn__rows *u) {
    const attn__kernels *isa = attn__isa();
    g->first = g->inner_hi = INT64_MAX;
    g->last = g->inner_lo = 0;
    for (int64_t r = 0; r < 2 * isa->MR; r++) {
        g->lo[r] = g->hi[r] = 0;
        if (r < g->rows)
            attn__range(g->job->d, &u->s, attn__row_query(u, g->row0 + r), &g->lo[r], &g->hi[r]);
        if (r >= g->rows) continue; /* neither seen nor asked */
        g->inner_lo = attn__max(g->inner_lo, g->lo[r]);
        g->inner_hi = attn__min(g->inner_hi, g->hi[r]);
        if (g->hi[r] <= g->lo[r]) continue;
        g->first = attn__min(g->first, g->lo[r]);
        g->last = attn__max(g->last, g->hi[r]);
    }
}
/* o and lse of the rows that have a certificate. */
static void attn__int16_write(
    const attn__adaptive *job, const attn__rows *u, const attn__int16 *t) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = job->d;
    for (int64_t r = 0, lo, hi; r < u->rows; r++) {
        if (t->cert[r] == ATTN__FAILED) continue;
        const int64_t i = attn__row_query(u, r), h = attn__row_head(u, r);
        const double mass = (double)t->row[ATTN__ROW_MASS][r],
                     power = (double)t->row[ATTN__ROW_FACTOR][r] / ATTN__LOG2E,
                     off = (double)t->row[ATTN__ROW_SCORE][r] / mass * 1.001;
        float *o = t->O + r * job->v_pad;
        attn__range(d, &u->s, i, &lo, &hi);
        const int empty = hi <= lo;
        if (empty) memset(o, 0, (size_t)job->v_pad * sizeof *o);
        isa->narrow(d->o.data, d->o.dtype, attn__q_at(&u->s, d->o.stride, i, h), o, d->v_dim,
            empty ? 0 : 1 / t->row[ATTN__ROW_SUM][r]);
        if (!d->lse) continue;
        d->lse[attn__lse_at(d, &u->s, i, h)] =
            empty ? ATTN__NEG_INF
                  : attn__nearest_f32((double)t->row[ATTN__ROW_MAX][r] * power + attn__log(mass));
        /* off is the mean of e^eta - 1 >= eta and below 1, sum p_j >= (1 - mean of eta) sum p'_j;
         * each chunk takes the sum of p times a rounded power, always the same where maxima rise
         * evenly, and rounds it once more: 4 units of 2^-24 */
        const float lost =
            (float)((off + off * off + 2.4e-7 * (double)(u->s.k_len / ATTN__INT16_CHUNK + 8)) *
                    1.000001);
        if (!empty && lost > t->tally->lse) t->tally->lse = lost;
    }
}
/* One of the n-th of so many parts of [0, all): at even distances, where something repeats, one kind
 * of it would be met alone. It follows from the unit's place. */
static int64_t attn__in_part(
    const attn__rows *u, int64_t n, int64_t many, int64_t all, int64_t again) {
    return attn__anywhere(attn__unit_number(u) + ((uint64_t)(n + again * many) << 44),
        n * all / many, (n + 1) * all / many);
}
/* Of some 24 keys of [first, last): the largest square of a length, infinite where most are
 * beyond codes; v_top and v_low. */
static float attn__int16_sample(
    const attn__rows *u, const attn__int16 *t, int64_t first, int64_t last) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = u->job->d;
    const int64_t h = u->kv_head, many = attn__min(24, last - first);
    int64_t beyond = 0;
    float *x = t->T, longest = 0;
    for (int64_t c = 0; c < d->v_dim; c++) t->v_top[c] = t->v_low[c] = -3.4028234e38f;
    for (int64_t n = 0; n < many; n++) {
        /* the first of all, which is often another kind: a sink */
        const int64_t j = n ? first + attn__in_part(u, n, many, last - first, 0) : first;
        isa->pack_v(x, d->head_dim, d, &u->s, &d->k, h, d->head_dim, j, j + 1);
        const int key = attn__no_code(x, d->head_dim, 1);
        const float square = isa->square(x, d->head_dim);
        if (square > longest) longest = square;
        isa->pack_v(x, d->v_dim, d, &u->s, &d->v, h, d->v_dim, j, j + 1);
        beyond += ((attn__no_code(x, d->v_dim, 1) | key) & ATTN__BEYOND) != 0;
        for (int64_t c = 0; c < d->v_dim; c++) {
            if (x[c] > t->v_top[c]) t->v_top[c] = x[c];
            if (-x[c] > t->v_low[c]) t->v_low[c] = -x[c];
        }
    }
    return 2 * beyond > many ? -ATTN__NEG_INF : longest;
}
/* By v_top and v_low: the widest range of a column; *most: the largest element of |v|. */
static double attn__columns(const attn_desc *d, const attn__int16 *t, double *most) {
    double range = 0;
    *most = 0;
    for (int64_t c = 0; c < d->v_dim; c++) {
        const double top = (double)t->v_top[c], low = (double)t->v_low[c];
        *most = top > *most ? top : *most;
        *most = low > *most ? low : *most;
        range = top + low > range ? top + low : range;
    }
    return range;
}
/* G[n][n] += X^T X of rows X[rows][n], on and above the diagonal. */
static void attn__gram(const float *X, int64_t rows, int64_t n, float *G) {
    const attn__kernels *isa = attn__isa();
    float one[ATTN__ROWS_MOST];
    for (int r = 0; r < ATTN__ROWS_MOST; r++) one[r] = 1;
    for (int64_t i = 0, m; i < n; i += m) {
        const int64_t c = i / isa->W * isa->W;
        m = attn__min(isa->MR, n - i);
        isa->mm_columns(ATTN__ATB, m, 0, X + i, n, X + c, n, rows, ATTN__SUM_KEYS, G + i * n + c, n,
            n - c, one);
    }
}
/* What no eigenvalue of G[n][n], of which there is the upper half, exceeds; `room` for as much. Sums
 * of n products are off by 2^-17 of the sums of their sizes at most. */
static double attn__eigenvalue(float *G, int64_t n, float *room) {
    double size[ATTN__SQUARINGS + 1], most = 1;
    int k = 0;
    for (;; k++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = i; j < n; j++) {
                const double x = (double)G[i * n + j];
                sum += (i == j ? 1 : 2) * x * x;
            }
        size[k] = attn__sqrt(sum);
        /* its inverse must be a normal number: |G| is a bound, too */
        if (k == ATTN__SQUARINGS || !(size[k] > 1e-30 && size[k] < 1e37)) break;
        const float less = (float)(1 / size[k]);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = i; j < n; j++) {
                const float x = G[i * n + j] * less;
                G[i * n + j] = G[j * n + i] = x;
            }
        memset(room, 0, (size_t)(n * n) * sizeof *room);
        attn__gram(G, n, n, room);
        float *const next = room;
        room = G;
        G = next;
    }
    for (most = size[k]; k > 0; k--) most = size[k - 1] * (attn__sqrt(most + 2e-5) + 1e-6);
    return most * 1.000001;
}
/* The singular values of the keys [first, last): codes and steps as they will be packed. */
static void attn__int16_spectrum(const attn__adaptive *job, const attn__rows *u,
    const attn__int16 *t, int64_t first, int64_t last) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = job->d;
    const int64_t ld = job->q_pad, chunk = ATTN__INT16_CHUNK;
    const double keys = (double)(last - first);
    float *X[2] = {t->X, t->X + chunk * ld}, *G[3] = {t->G, t->G + ld * ld, t->G + 2 * ld * ld};
    attn__coded_chunk all;
    double most[2], trace[2] = {0, 0};
    memset(&all, 0, sizeof all);
    memset(t->X, 0, (size_t)(2 * chunk * ld) * sizeof *t->X);
    memset(t->G, 0, (size_t)(2 * ld * ld) * sizeof *t->G);
    for (int64_t j0 = first; j0 < last; j0 += chunk) {
        const int64_t j1 = attn__min(j0 + chunk, last);
        memset(t->bad, 0, (size_t)chunk);
        for (int64_t j = j0; j < j1; j += isa->W)
            isa->int16_keys(u, t, j, attn__min(j + isa->W, j1), j0, 0, t->K, &all);
        isa->pack_v(X[0], ld, d, &u->s, &d->k, u->kv_head, d->head_dim, j0, j1);
        for (int64_t j = 0; j < j1 - j0; j++)
            if (t->bad[j]) attn__no_code(X[0] + j * ld, ld, 1);
        isa->int16_left(X[0], j1 - j0, ld, t->k_step, X[1]);
        for (int n = 0; n < 2; n++) attn__gram(X[n], j1 - j0, ld, G[n]);
    }
    for (int n = 0; n < 2; n++) {
        for (int64_t i = 0; i < ld; i++) trace[n] += (double)G[n][i * ld + i];
        /* rounded sums of chunks; squares that are 0 in f32 */
        most[n] = attn__eigenvalue(G[n], ld, G[2]) +
                  trace[n] * (130 + keys / (double)chunk) * 1.2e-7 + keys * (double)ld * 2.4e-38;
        /* a root of NaN would be 0 */
        most[n] = most[n] < 1e200 ? attn__sqrt(most[n]) : attn__double(0x7ff0000000000000u);
    }
    t->spectrum->k = most[0] * 1.0001;
    /* x * inverse is rounded twice, and the step's product once */
    t->spectrum->k_off = most[1] * 1.0001 + attn__sqrt(trace[0] * 1.0001 + 1e-30) * 6e-7;
    t->spectrum->eta_k = (double)all.k_most;
    t->spectrum->eta_e = (double)all.k_off;
    t->spectrum->keys = keys + 2 * (double)chunk;
}
/* What some rows of a unit look at. */
typedef struct attn__looked {
    int64_t rows;
    double length[2 * ATTN__ROWS_MOST]; /* |q| */
    double weight[2 * ATTN__ROWS_MOST]; /* sqrt(sum p_j^2) / sum p_j */
    double about, away; /* length of the mean of the keys; of what they are away from it */
} attn__looked;
/* The n-th of so many rows of a unit that are looked at for the `again`-th time, each of another head
 * than the one before. */
static int64_t attn__looked_row(const attn__rows *u, int64_t n, int64_t many, int64_t again) {
    const int64_t row = attn__in_part(u, n, many, u->rows, again), group = u->job->group;
    return group > many ? row : attn__min(row - row % group + n % group, u->rows - 1);
}
/* By every step-th vector of keys [first, last); `mean`: the keys' too. */
static void attn__int16_probe(const attn__adaptive *job, const attn__rows *u, const attn__int16 *t,
    int64_t first, int64_t last, int64_t step, int mean, attn__looked *looked) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = job->d;
    const int64_t dim = d->head_dim, W = isa->W, ld = job->q_pad,
                  rows = looked->rows = attn__min(2 * isa->MR, u->rows);
    const float power = d->scale * (float)ATTN__LOG2E;
    float *all = t->X + rows * ld;
    double sums[2 * ATTN__ROWS_MOST][3], lengths = 0, middle = 0, keys = 0;
    int64_t lo[2 * ATTN__ROWS_MOST], hi[2 * ATTN__ROWS_MOST];
    for (int64_t r = 0; r < rows; r++) {
        const int64_t row = attn__looked_row(u, r, rows, mean ? 1 : 2), i = attn__row_query(u, row);
        isa->pack_q(t->X + r * ld, d, &u->s, i, attn__row_head(u, row));
        const int beyond = attn__no_code(t->X + r * ld, dim, 1) & ATTN__BEYOND;
        looked->length[r] = beyond ? 1e300 : attn__sqrt((double)isa->square(t->X + r * ld, dim));
        attn__range(d, &u->s, i, &lo[r], &hi[r]);
        sums[r][0] = sums[r][1] = 0;
        sums[r][2] = -3.4028234663852886e38;
    }
    memset(all, 0, (size_t)dim * sizeof *all);
    for (int64_t j = first; j + W <= last; j += step * W, keys += (double)W) {
        isa->pack_k(t->T, d, &u->s, &d->k, u->kv_head, dim, j, j + W);
        /* 2^100, or no number: some may have no code */
        if (attn__bits(isa->square(t->T, dim * W)) >= 0x71800000u) attn__no_code(t->T, dim * W, 1);
        for (int64_t r = 0; r < rows; r += isa->MR)
            attn__tile_dots(isa, 1, attn__min(isa->MR, rows - r), 0, t->X + r * ld, ld, t->T,
                dim * W, dim, t->S + r * W, W, NULL);
        for (int64_t c = 0; c < dim && mean; c++) {
            const float *x = t->T + c * W;
            float sum = 0, square = 0;
            for (int64_t l = 0; l < W; l++) {
                sum += x[l];
                square += x[l] * x[l];
            }
            all[c] += sum;
            lengths += (double)square;
        }
        for (int64_t r = 0; r < rows; r++) {
            const float *s = t->S + r * W;
            const int64_t from = attn__clamp(lo[r] - j, 0, W),
                          end = attn__clamp(hi[r] - j, from, W);
            if (end > from) isa->int16_look(s, from, end, power, sums[r]);
        }
    }
    for (int64_t r = 0; r < rows; r++) /* one in `step` was looked at */
        looked->weight[r] = attn__sqrt(sums[r][1] / (double)step) / sums[r][0];
    if (!mean) return;
    for (int64_t c = 0; c < dim; c++) middle += (double)all[c] * (double)all[c] / keys / keys;
    lengths /= keys;
    /* a mean of so few is off by what they are away over their number */
    const double off = (lengths - middle) / keys;
    looked->about = middle > off ? attn__sqrt(middle - off) : 0;
    looked->away = lengths > middle ? attn__sqrt(lengths - middle) : 0;
}
/* Whether nine rows in ten can be expected to keep to the tolerance by singular values: those of
 * `all`, or where that is NULL what they would be of keys that scatter about their mean alike in all
 * directions. half: what codes of a row leave of its length; longest: the largest |k_j|. */
static int attn__int16_many(const attn__adaptive *job, const attn__looked *looked, double bound,
    double limit, double longest, double half, double keys, const attn__spectrum *all) {
    const double scale = (double)job->d->scale, root = attn__sqrt(keys),
                 each = attn__sqrt((double)job->d->head_dim),
                 k = all ? all->k
                         : root * (looked->about + 1.2 * looked->away / each) + looked->away,
                 e = all ? all->k_off : half * longest * 1.2 * (root / each + 1);
    int64_t fine = 0;
    for (int64_t r = 0; r < looked->rows; r++) {
        const double moved = scale * looked->length[r] * (half * k + e) * looked->weight[r],
                     eta = scale * looked->length[r] * longest * 2 * half;
        fine += bound * (1.1 * moved + eta * eta) <= limit && eta < 0.5;
    }
    return 10 * fine >= 9 * looked->rows;
}
/* How long keys may be on the average for nine rows in ten of these lengths, whose products with them
 * may be `most`; keys of length `as` are fine. */
static float attn__int16_longer(const double *length, int64_t rows, double most, double as) {
    double longer = 1.35 * as;
    for (int64_t r = 0; r < rows; r++) {
        int64_t fine = 0;
        for (int64_t i = 0; i < rows; i++) fine += length[i] <= length[r];
        if (10 * fine >= 9 * rows && most > longer * length[r]) longer = most / length[r];
    }
    return longer < 3e38 ? (float)longer : attn__float(0x7f800000u);
}
/* Whether nine rows in ten can be expected to keep to the tolerance, by the lengths of some of them
 * and of some keys: by their certificates, or by what certificates mostly exceed the error by, where
 * rows are sampled; or by singular values. A guess from the sequence's own data, before anything is
 * packed: certificates do not rest on it. */
static int attn__int16_worth(const attn__adaptive *job, const attn__rows *u, const attn__int16 *t) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = job->d;
    int64_t first, last;
    t->spectrum->known = 0;
    t->spectrum->longer = attn__float(0x7f800000u);
    attn__rows_see(d, &u->s, attn__row_query(u, 0), attn__row_query(u, u->rows - 1), &first, &last);
    if (first >= last) return 1;
    const float square = attn__int16_sample(u, t, first, last);
    const double longest = (double)square;
    double most;
    const int64_t asked = attn__min(32, u->rows);
    int64_t fine = 0;
    const double range = attn__columns(d, t, &most);
    const double limit = (double)d->tolerance * (d->flags & ATTN_TOLERANCE_ABSOLUTE ? 1 : most);
    const int eased = attn__samples(job, u) > 0;
    double length[32];
    /* most keys are beyond codes; squares of values are 0, or they are */
    if (!attn__finite(square) || limit < 1e-16) return 0;
    /* a row of codes is wrong by about half its NORM-th part for each sqrt(dim / 3) */
    const double off = 1.2 * attn__sqrt((double)d->head_dim / 3) / (double)ATTN__INT16_NORM;
    for (int64_t n = 0; n < asked; n++) {
        const int64_t r = attn__looked_row(u, n, asked, 0);
        isa->pack_q(t->T, d, &u->s, attn__row_query(u, r), attn__row_head(u, r));
        length[n] = 1e300;
        if (attn__no_code(t->T, d->head_dim, 1) & ATTN__BEYOND) continue;
        const double square_q = (double)isa->square(t->T, d->head_dim),
                     eta = (double)d->scale * attn__sqrt(square_q * longest) * off;
        length[n] = attn__sqrt(square_q);
        fine += eased ? 0.6 * range * (eta + 3e-4) / 8 + most * 1.2e-4 <= 0.85 * limit && eta < 0.4
                      : 0.6 * range * (eta + 3e-4) + most * 2.5e-4 <= 0.85 * limit;
    }
    const int alone = 10 * fine >= 9 * asked, can = d->head_dim <= ATTN__SPECTRUM_DIM;
    if (alone && !(attn__tuning.spectrum && can)) {
        if (!eased)
            t->spectrum->longer = attn__int16_longer(length, asked,
                ((0.85 * limit - most * 2.5e-4) / (0.6 * range) - 3e-4) / off / (double)d->scale,
                attn__sqrt(longest));
        return 1;
    }
    first = first / ATTN__INT16_CHUNK * ATTN__INT16_CHUNK;
    const double keys = (double)(last - first), left = 0.95 * limit - most * 3.1e-4, half = off / 2,
                 size = attn__sqrt(longest);
    attn__looked looked;
    if (!alone &&
        (!can || last - first < ATTN__SPECTRUM_KEYS || u->rows < ATTN__INT16_ROWS || left <= 0))
        return 0;
    for (int all = 0; all < 2 && !alone; all++) { /* of some keys, then of all */
        const int64_t step = all ? 1 : (last - first) / ATTN__SPECTRUM_SAMPLE;
        attn__int16_probe(job, u, t, first, last, step, !all, &looked);
        if (!attn__int16_many(job, &looked, 0.55 * range, left, size, half, keys, NULL)) return 0;
    }
    attn__int16_spectrum(job, u, t, first, last);
    t->spectrum->known =
        alone || attn__int16_many(job, &looked, 0.55 * range, left, size, half, keys, t->spectrum);
    return t->spectrum->known;
}
/* Nothing is known of the values' columns yet. */
static void attn__no_columns(const attn__adaptive *job, const attn__int16 *t) {
    for (int64_t c = 0; c < job->v_pad; c++) {
        t->v_top[c] = t->v_low[c] = c < job->d->v_dim ? -3.4028234e38f : 0;
        t->v_length[c] = 0;
    }
}
/* Rows of a unit from codes: their sums and certificates, or ATTN__FAILED. */
static void attn__int16_rows(const attn__adaptive *job, const attn__rows *u, const attn__int16 *t) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = job->d;
    attn__int16_group g;
    int64_t first, last;
    double longest = 0, least = 1e300;
    attn__rows_see(d, &u->s, attn__row_query(u, 0), attn__row_query(u, u->rows - 1), &first, &last);
    int64_t chunks = attn__ceil_div(
        last - first / ATTN__INT16_CHUNK * ATTN__INT16_CHUNK, ATTN__INT16_CHUNK); /* to come */
    const double all = (double)chunks;
    isa->int16_q(job, u, t, 0);
    memset(t->O, 0, (size_t)(job->rows_pad * job->v_pad) * sizeof *t->O);
    attn__no_columns(job, t);
    g.job = job;
    g.t = t;
    for (int64_t kb = first / job->BN * job->BN; kb < last; kb += job->BN) {
        const int64_t k0 = kb + attn__max(0, first - kb) / ATTN__INT16_CHUNK * ATTN__INT16_CHUNK,
                      ke = attn__min(kb + job->BN, last);
        attn__int16_pack(job, u, t, kb, k0, ke, 0);
        /* a long key, which few are and none was looked at, makes those of its chunk coarse */
        for (int64_t j0 = k0; j0 < ke; j0 += ATTN__INT16_CHUNK, chunks--) {
            const double k_most = (double)t->chunk[(j0 - kb) / ATTN__INT16_CHUNK].k_most;
            longest += k_most;
            least = k_most < least ? k_most : least;
        }
        /* the others no longer than the shortest */
        if (longest + least * (double)chunks > (double)t->spectrum->longer * all) {
            for (int64_t r = 0; r < u->rows; r++) t->cert[r] = ATTN__FAILED;
            return;
        }
        for (g.row0 = 0; g.row0 < u->rows; g.row0 += 2 * isa->MR) {
            g.rows = attn__min(2 * isa->MR, u->rows - g.row0);
            attn__int16_ranges(&g, u);
            for (int64_t j0 = k0; j0 < ke; j0 += ATTN__INT16_CHUNK)
                isa->int16_chunk(&g, j0, kb, ke);
        }
    }
    /* squares that are 0 in f32 are of numbers below 2^-62; sums of chunks are rounded */
    const double keys = t->spectrum->keys, more = 1.0001 + keys * 5e-10;
    for (int64_t c = 0; c < job->v_pad && t->spectrum->known; c++)
        t->v_length[c] =
            (float)(attn__sqrt((double)t->v_length[c]) * more + attn__sqrt(keys) * 2.2e-19);
    const int64_t drawn = attn__samples(job, u);
    for (int64_t r = 0; r < u->rows; r++) {
        const float cert = isa->int16_certificate(job, u, t, r);
        const int within = (double)cert <= attn__allowed(job, t, r), /* no NaN is */
            written =
                attn__within_f16(d, t->O + r * job->v_pad, (double)t->row[ATTN__ROW_SUM][r], cert);
        t->cert[r] = written && (within || (drawn && attn__finite(cert))) ? cert : ATTN__FAILED;
    }
}

/* The rows [x, x + rows) of those listed against a block. */
static void attn__listed_group(
    const attn__rows *u, attn__tile *o, const attn__int16 *t, int64_t x, const attn__kv_block *b) {
    const attn__kernels *isa = attn__isa();
    const attn__flash *f = u->job;
    float max[ATTN__MAXIMA], alpha[ATTN__GROUP_ROWS];
    attn__group g;
    memset(&g, 0, sizeof g);
    g.u = u;
    g.t = o;
    g.b = b;
    g.Q = t->sampled + x * f->q_pad;
    g.ldq = f->q_pad;
    g.row0 = x;
    g.rows = attn__min(isa->MR, u->rows - x);
    g.heads = 1;
    g.first = g.inner_hi = b->ke;
    g.last = g.inner_lo = b->kb;
    for (int64_t r = 0, lo, hi; r < g.rows; r++) {
        attn__range(f->d, &u->s, attn__row_query(u, t->list[x + r]), &lo, &hi);
        g.lo[r] = attn__max(lo, b->kb);
        g.hi[r] = attn__min(hi, b->ke);
        attn__group_row_range(&g, r);
    }
    g.start = (g.first - b->kb) & -attn__step(isa);
    g.end = attn__padded(g.last - b->kb, isa->W);
    if (b->empty && (b->not_finite || g.last <= g.first))
        memset(o->O + x * f->v_pad, 0, (size_t)(g.rows * f->v_pad) * sizeof *o->O);
    if (g.last <= g.first) return;
    isa->group_scores(&g, max);
    isa->group_softmax(&g, max, alpha);
    attn__group_output(&g, alpha, 0);
}
/* The n rows listed, as flash computes rows beside each other. */
static attn__tile attn__listed_tile(
    const attn__adaptive *job, const attn__rows *u, const attn__int16 *t, int64_t n) {
    const attn__flash *f = &job->flash;
    const attn_desc *d = job->d;
    const int64_t i0 = attn__row_query(u, 0), i1 = attn__row_query(u, u->rows - 1);
    attn__tile o = attn__carve(f, (char *)t->tally + job->kept);
    attn__rows row = *u;
    attn__kv_block b;
    int64_t first, last, folds = 0;
    memset(&b, 0, sizeof b);
    b.empty = 1;
    b.pairs_k = f->bf16_qk;
    b.pairs_v = f->bf16_pv;
    row.rows = n;
    attn__rows_see(d, &u->s, i0, i1, &first, &last);
    for (int64_t x = 0; x < n; x++) {
        const int64_t i = attn__row_query(u, t->list[x]), h = attn__row_head(u, t->list[x]);
        float *q = t->sampled + x * f->q_pad;
        if (!b.pairs_k) attn__isa()->pack_q(q, d, &u->s, i, h);
        else attn__pack_q_pairs(q, &d->q, attn__q_at(&u->s, d->q.stride, i, h), d->head_dim);
        o.max[x] = ATTN__NEG_INF;
        o.sum[x] = 0;
    }
    for (; b.ke < last; b.kb = b.ke) {
        const int fold = f->span && b.kb % f->span == 0 && !b.empty;
        b.ke = attn__min(b.kb + f->BN, last);
        if (b.ke <= first) continue;
        if (fold) attn__fold(&row, &o, folds++ == 0);
        b.pack0 = b.kb;
        b.ldv = f->v_pad;
        b.V = o.V;
        b.not_finite = 0;
        b.empty |= fold;
        b.single =
            attn__min(b.kb + f->BN, u->s.k_len) - b.kb == 1 && d->head_dim <= ATTN__LONG_DIMS;
        b.whole = attn__all_see(d, &u->s, i0, i1, b.kb, b.ke);
        attn__block_pack(u, &o, &b);
        for (int64_t x = 0; x < n; x += attn__isa()->MR) attn__listed_group(&row, &o, t, x, &b);
        b.empty = 0;
    }
    if (folds) attn__fold(&row, &o, 0);
    if (folds) attn__unfold(&row, &o);
    return o;
}
/* O of the n rows listed, and in *sum its sums. */
static const float *attn__adaptive_listed(const attn__adaptive *job, const attn__rows *u,
    const attn__int16 *t, int64_t n, const float **sum) {
    const attn__tile o = attn__listed_tile(job, u, t, n);
    *sum = o.sum;
    return o.O;
}
/* o and lse of the n rows listed. */
static void attn__listed_write(
    const attn__adaptive *job, const attn__rows *u, const attn__int16 *t, int64_t n) {
    attn__tile o = attn__listed_tile(job, u, t, n);
    attn__rows row = *u;
    row.rows = 1;
    for (int64_t x = 0; x < n; x++) {
        row.row0 = u->row0 + t->list[x];
        attn__isa()->finish(&row, &o, 0, 1);
        o.O += job->flash.v_pad;
        o.max++;
        o.sum++;
        if (job->d->statistics) t->tally->f32 += attn__tiles(u, t->list[x], t->list[x] + 1);
    }
}

/* ---- chunks of keys left out ---- */
/* 64 times the logarithm of x to base 2, from below: by less than 7. x > 0 */
static int32_t attn__log64(float x) { return (int32_t)(attn__bits(x) >> 17) - 127 * 64; }
/* 2^(n / 64) of n up to 6400, from above: by 6% at most, but 2^-120 at least */
static float attn__exp64(int64_t n) {
    return attn__float((uint32_t)(attn__clamp(n, -120 * 64, 100 * 64) + 127 * 64) << 17);
}
/* Which chunks a group leaves out: as many as may be of the lightest, so that no row loses more than
 * its tolerance allows, where a share of its weight costs `range` as much; none where scores are
 * beyond what bounds can say. A number without a code is as a 0. Returns how many. */
static int64_t attn__filter_choose(const attn__int16_group *g, double range) {
    const attn__int16 *t = g->t;
    const attn__filter *f = t->filter;
    const int64_t ld = f->rows + 1;
    int64_t at[2 * ATTN__ROWS_MOST], out = 0;
    double may[2 * ATTN__ROWS_MOST], low = 6e-8, high = 1;
    unsigned char *left = f->left + g->row0 / f->rows * f->chunks;
    memset(left, 0, (size_t)f->chunks);
    for (int64_t r = 0; r < g->rows; r++) t->row[ATTN__ROW_OUT][g->row0 + r] = 0;
    for (int64_t r = 0; r < g->rows; r++) {
        const float factor = t->row[ATTN__ROW_FACTOR][g->row0 + r],
                    sum = t->row[ATTN__ROW_SUM][g->row0 + r];
        const double top = (double)t->row[ATTN__ROW_MAX][g->row0 + r] * (double)factor * 64;
        may[r] = 0;
        at[r] = 0;
        if (g->hi[r] <= g->lo[r]) continue;
        if (!(top > -ATTN__BOUND_MOST && top < ATTN__BOUND_MOST && sum > 0)) return 0;
        at[r] = (int64_t)top + attn__log64(sum);
        /* of all of its weight, where the certificate asks for that of what is kept; of lse, too */
        may[r] = attn__allowed(g->job, t, g->row0 + r) / range;
        may[r] = may[r] < 0.1 ? may[r] / (1 + may[r]) : 0.09;
        if (!(may[r] > 0)) return 0;
    }
    for (int64_t x = 0; x < f->chunks; x++) {
        float *share = t->share + x * ld, most = 0;
        for (int64_t r = 0; r < g->rows; r++) {
            const int16_t bound = t->bound[x * f->ld + g->row0 - f->row0 + r];
            share[r] = 0;
            if (bound == -ATTN__BOUND_MOST) continue; /* it sees none */
            share[r] = bound == ATTN__BOUND_MOST
                           ? 2
                           : (float)((double)attn__exp64(bound - at[r]) / may[r]);
            most = share[r] > most ? share[r] : most;
        }
        share[f->rows] = most;
    }
    for (int n = 0; n < 12; n++) {
        const double middle = n ? attn__sqrt(low * high) : 1;
        double sum[2 * ATTN__ROWS_MOST], worst = 0;
        memset(sum, 0, sizeof sum);
        for (int64_t x = 0; x < f->chunks; x++)
            for (int64_t r = 0; r < g->rows && (double)t->share[x * ld + f->rows] <= middle; r++)
                sum[r] += (double)t->share[x * ld + r];
        for (int64_t r = 0; r < g->rows; r++) worst = sum[r] > worst ? sum[r] : worst;
        *(worst <= 1 ? &low : &high) = middle;
    }
    for (int64_t r = 0; r < g->rows; r++) {
        double sum = 0;
        for (int64_t x = 0; x < f->chunks; x++)
            if ((double)t->share[x * ld + f->rows] <= low) sum += (double)t->share[x * ld + r];
        t->row[ATTN__ROW_OUT][g->row0 + r] = (float)(sum * may[r] * 1.00001);
        t->row[ATTN__ROW_AT][g->row0 + r] = (float)at[r] / 64;
    }
    for (int64_t x = 0; x < f->chunks; x++)
        out += left[x] = (double)t->share[x * ld + f->rows] <= low;
    return out;
}
/* What the keys of each chunk weigh in some rows of a unit, up to a tile of them, as filter_chunk would
 * find it, by every step-th vector of keys. longest: the largest |k_j|, most: of the elements of v, both
 * by a sample. */
static void attn__filter_look(
    const attn__int16_group *g, const attn__rows *u, int64_t step, double longest, double most) {
    const attn__kernels *isa = attn__isa();
    const attn__adaptive *job = g->job;
    const attn__int16 *t = g->t;
    const attn_desc *d = job->d;
    const int64_t W = isa->W, dim = d->head_dim, ld = job->q_pad;
    const float power = d->scale * (float)ATTN__LOG2E;
    /* what codes of q and of k leave of their lengths */
    const double off = (isa->W < 16 ? 0.028 : 0.014) * (double)power * longest;
    double all[ATTN__ROWS_MOST][2], eta[ATTN__ROWS_MOST];
    for (int64_t r = 0; r < g->rows; r++) {
        const int64_t row = g->row0 + r;
        isa->pack_q(t->some + r * ld, d, &u->s, attn__row_query(u, row), attn__row_head(u, row));
        attn__no_code(t->some + r * ld, dim, 1);
        eta[r] = off * attn__sqrt((double)isa->square(t->some + r * ld, dim));
        all[r][0] = 0;
        all[r][1] = -3.4028234663852886e38;
        t->row[ATTN__ROW_FACTOR][row] = power;
        t->row[ATTN__ROW_SEEN][row] = (float)most;
    }
    for (int64_t x = 0; x < t->filter->chunks; x++) {
        const int64_t j0 = t->filter->first + x * ATTN__INT16_CHUNK, j1 = j0 + ATTN__INT16_CHUNK;
        int16_t *bound = t->bound + x * t->filter->ld + g->row0 - t->filter->row0;
        double sums[ATTN__ROWS_MOST][3];
        for (int64_t r = 0; r < g->rows; r++) {
            sums[r][0] = sums[r][1] = 0;
            sums[r][2] = -3.4028234663852886e38;
        }
        for (int64_t j = attn__max(j0, g->first / W * W); j < attn__min(j1, g->last);
            j += step * W) {
            isa->pack_k(t->T, d, &u->s, &d->k, u->kv_head, dim, j,
                attn__min(j + W, attn__min(j1, g->last)));
            /* 2^100, or no number: some may have no code */
            if (attn__bits(isa->square(t->T, dim * W)) >= 0x71800000u)
                attn__no_code(t->T, dim * W, 1);
            attn__tile_dots(isa, 1, g->rows, 0, t->some, ld, t->T, dim * W, dim, t->S, W, NULL);
            for (int64_t r = 0; r < g->rows; r++) {
                const int64_t from = attn__clamp(g->lo[r] - j, 0, W),
                              end = attn__clamp(g->hi[r] - j, from, W);
                if (end > from) isa->int16_look(t->S + r * W, from, end, power, sums[r]);
            }
        }
        for (int64_t r = 0; r < g->rows; r++) {
            bound[r] = -ATTN__BOUND_MOST;
            if (!(sums[r][0] > 0)) continue;
            const double n = 64 * (sums[r][2] * (double)power + eta[r]) +
                             attn__log64((float)(sums[r][0] * (double)step)),
                         top = sums[r][2] > all[r][1] ? sums[r][2] : all[r][1];
            float old = (float)((all[r][1] - top) * (double)power),
                  here = (float)((sums[r][2] - top) * (double)power);
            isa->exp2_pair(&old, &here);
            all[r][0] = all[r][0] * (double)old + sums[r][0] * (double)here;
            all[r][1] = top;
            bound[r] = (int16_t)(n > ATTN__BOUND_MOST       ? ATTN__BOUND_MOST
                                 : n < 1 - ATTN__BOUND_MOST ? 1 - ATTN__BOUND_MOST
                                                            : n);
        }
    }
    for (int64_t r = 0; r < g->rows; r++) {
        t->row[ATTN__ROW_SUM][g->row0 + r] = (float)(all[r][0] * (double)step);
        t->row[ATTN__ROW_MAX][g->row0 + r] = (float)all[r][1];
    }
}
/* The share of the keys that a group of the unit leaves out: half of its rows, by some of the keys
 * where rows are few, or all of it. */
static double attn__filter_share(const attn__int16_group *where, const attn__rows *u, int whole,
    double longest, double most, double range) {
    const int64_t MR = attn__isa()->MR, row0 = where->row0;
    attn__filter *f = where->t->filter;
    attn__int16_group g = *where;
    f->row0 = row0;
    f->ld = f->rows;
    for (int64_t n = 0; n <= whole; n++) {
        g.row0 = row0 + n * MR;
        g.rows = attn__clamp(u->rows - g.row0, 0, MR);
        attn__int16_ranges(&g, u);
        if (g.rows > 0)
            attn__filter_look(&g, u, whole || u->rows >= ATTN__FILTER_MANY ? 1 : 4, longest, most);
    }
    g.row0 = row0;
    g.rows = attn__min(whole ? 2 * MR : MR, u->rows - row0);
    attn__int16_ranges(&g, u);
    if (g.last <= g.first) return 0;
    const int64_t from = (g.first - f->first) / ATTN__INT16_CHUNK,
                  end = attn__ceil_div(g.last - f->first, ATTN__INT16_CHUNK),
                  unseen = f->chunks - (end - from); /* they weigh nothing */
    return (double)(attn__filter_choose(&g, range) - unseen) / (double)(end - from);
}
/* Whether it can be expected to pay that the rows of a unit leave keys out. A guess, from the
 * sequence's own data. */
static int attn__filter_worth(
    const attn__adaptive *job, const attn__rows *u, const attn__int16 *t) {
    const attn_desc *d = job->d;
    attn__filter *f = t->filter;
    int64_t first, last;
    double most;
    attn__rows_see(d, &u->s, attn__row_query(u, 0), attn__row_query(u, u->rows - 1), &first, &last);
    f->rows = 2 * attn__isa()->MR;
    f->first = first / ATTN__INT16_CHUNK * ATTN__INT16_CHUNK;
    f->chunks = attn__ceil_div(last - f->first, ATTN__INT16_CHUNK);
    if (last - first < attn__filter_keys()) return 0;
    const float square = attn__int16_sample(u, t, first, last);
    const double longest = attn__sqrt((double)square);
    const double range = attn__columns(d, t, &most);
    if (!(range > 0) || !attn__finite(square)) return attn__tuning.filter;
    /* the filter's part of what flash takes, and of fewer keys at a time; int16 takes 0.65 of it */
    const double part = attn__isa()->W < 16 ? 0.5 : 0.12 + 6 / (double)d->head_dim,
                 cost = job->flash.bf16_pv   ? 3.5 * part
                        : job->flash.bf16_qk ? 1.8 * part
                                             : part,
                 least = attn__tuning.filter ? 0 : cost + (job->int16 ? 0.5 : 0.25);
    attn__int16_group g;
    g.job = job;
    g.t = t;
    for (int64_t n = 0; n < 3; n++) { /* in the first half of the rows, the second, between them */
        g.row0 = u->rows * (n == 2 ? 2 : 2 * n + 1) / 4 / f->rows * f->rows;
        if (attn__filter_share(&g, u, n == 2, longest, most, 0.95 * range) < least) return 0;
    }
    return 1;
}
/* Bounds of what the keys of each chunk weigh in rows [r0, r1) of a unit; what the columns of their
 * values are at most. */
static void attn__filter_bounds(
    const attn__adaptive *job, const attn__rows *u, const attn__int16 *t, int64_t r0, int64_t r1) {
    const attn__kernels *isa = attn__isa();
    const attn__filter *f = t->filter;
    const int64_t last = attn__min(u->s.k_len, f->first + f->chunks * ATTN__INT16_CHUNK);
    attn__int16_group g;
    g.job = job;
    g.t = t;
    attn__no_columns(job, t);
    for (int64_t kb = f->first; kb < last; kb += job->BN) {
        const int64_t ke = attn__min(kb + job->BN, last);
        attn__int16_pack(job, u, t, kb, kb, ke, 1);
        for (g.row0 = r0; g.row0 < r1; g.row0 += f->rows) {
            g.rows = attn__min(f->rows, u->rows - g.row0);
            attn__int16_ranges(&g, u);
            for (int64_t j0 = kb; j0 < ke; j0 += ATTN__INT16_CHUNK)
                isa->filter_chunk(&g, j0, kb, ke);
        }
    }
}
/* What the rows of a unit leave out: as many of them at a time as there is room for. */
static void attn__filter_unit(
    const attn__adaptive *job, const attn__rows *u, const attn__int16 *t) {
    attn__filter *f = t->filter;
    const int64_t most = attn__max(1, ATTN__FILTER_ROOM / f->chunks / f->rows) * f->rows;
    attn__int16_group g;
    double most_v;
    g.job = job;
    g.t = t;
    attn__isa()->int16_q(job, u, t, 1);
    for (f->row0 = 0; f->row0 < u->rows; f->row0 += most) {
        const int64_t r1 = attn__min(f->row0 + most, u->rows);
        f->ld = r1 - f->row0;
        attn__filter_bounds(job, u, t, f->row0, r1);
        const double range = attn__columns(job->d, t, &most_v);
        for (g.row0 = f->row0; g.row0 < r1; g.row0 += f->rows) {
            g.rows = attn__min(f->rows, u->rows - g.row0);
            attn__int16_ranges(&g, u);
            attn__filter_choose(&g, 0.95 * range + 1e-30);
        }
    }
}
/* The certificate of row r, whose O and sums those of o are; or ATTN__FAILED. */
static float attn__filter_certificate(
    const attn__adaptive *job, const attn__int16 *t, int64_t r, const attn__tile *o) {
    const attn_desc *d = job->d;
    const float *O = o->O + r * job->flash.v_pad;
    const double sum = (double)o->sum[r],
                 top = attn__row_top(o->max[r], job->flash.unit) * ATTN__LOG2E,
                 apart = (double)t->row[ATTN__ROW_AT][r] - top;
    float power = (float)apart, unused = 0;
    double range = 0;
    if (!attn__finite(t->row[ATTN__ROW_BAD][r])) return ATTN__FAILED;
    if (t->row[ATTN__ROW_OUT][r] == 0) return 0; /* it leaves nothing out */
    if (!(sum > 0) || !(apart < 100)) return ATTN__FAILED;
    attn__isa()->exp2_pair(&power, &unused);
    const double out = (double)t->row[ATTN__ROW_OUT][r] * ((double)power + 1e-37) / sum * 1.001;
    for (int64_t c = 0; c < d->v_dim; c++) {
        const double mean = (double)O[c] / sum, above = (double)t->v_top[c] - mean,
                     below = (double)t->v_low[c] + mean;
        range = above > range ? above : range;
        range = below > range ? below : range;
    }
    if (job->flash.bf16_pv)
        range += (double)(t->row[ATTN__ROW_SEEN][r] * ATTN__P_ROUNDING); /* the mean is off by */
    const float cert = (float)(range * out * 1.000001);
    if (!((double)cert <= attn__allowed(job, t, r))) return ATTN__FAILED;
    if (!attn__within_f16(d, O, sum, cert)) return ATTN__FAILED;
    const float mass = (float)(out / (1 + out) * 1.000001);
    if (mass > t->tally->mass) t->tally->mass = mass;
    if (d->lse && (float)out > t->tally->lse) t->tally->lse = (float)out;
    return cert;
}
/* Tiles that the rows of a unit leave out. */
static int64_t attn__filter_tiles(const attn__rows *u, const attn__int16 *t) {
    const attn__filter *f = t->filter;
    int64_t n = 0;
    for (int64_t r = 0; r < u->rows; r++) {
        int64_t lo, hi;
        attn__range(u->job->d, &u->s, attn__row_query(u, r), &lo, &hi);
        for (int64_t x = 0; x < f->chunks && t->cert[r] != ATTN__FAILED; x++) {
            const int64_t j0 = f->first + x * ATTN__INT16_CHUNK;
            n += f->left[r / f->rows * f->chunks + x] && lo < j0 + ATTN__INT16_CHUNK && hi > j0;
        }
    }
    return n;
}
/* Rows of a unit as flash computes them, but for chunks of keys that weigh next to nothing: o and lse,
 * certificates or ATTN__FAILED. */
static void attn__filter_rows(
    const attn__adaptive *job, const attn__rows *u, const attn__int16 *t) {
    const attn_desc *d = job->d;
    attn__flash flash = job->flash;
    attn__rows part = *u;
    attn__filter_unit(job, u, t);
    int some = 0; /* rows that see no number without a code */
    for (int64_t r = 0; r < u->rows; r++) {
        t->cert[r] = ATTN__FAILED;
        some |= attn__finite(t->row[ATTN__ROW_BAD][r]);
    }
    if (!some) {
        t->tally->coarse += u->rows;
        return;
    }
    flash.filter = t->filter;
    part.job = &flash;
    attn__flash_rows(&part, 1, (char *)t->tally + job->kept, NULL);
    const attn__tile o = attn__carve(&flash, (char *)t->tally + job->kept);
    for (int64_t r = 0; r < u->rows; r++) {
        int64_t lo, hi;
        attn__range(d, &u->s, attn__row_query(u, r), &lo, &hi);
        t->cert[r] = 0;
        if (hi > lo) t->cert[r] = attn__filter_certificate(job, t, r, &o);
    }
    if (d->statistics) {
        const int64_t left = attn__filter_tiles(u, t);
        t->tally->skipped += left;
        if (left == 0) t->tally->coarse += u->rows;
    }
}
#endif

#if ATTN__DECODE
#define ATTN__DECODE_LD (ATTN__THIN_CHUNK + 16)
/* Rows: of those that are a power of two apart more do not stay in L1. */
#define ATTN__DECODE_AHEAD (attn__fetches_l2() ? 64 : 32)
/* Keys of a chunk of which one plane of k or v is read: the n-th is key key[n] of the chunk. Where all
 * are, `whole`, there is no need of key; where they lie `step` apart, run, nor of at and next. */
typedef struct attn__listed {
    int64_t n;
    int whole, run;
    int64_t first, step, plane;
    int64_t at[ATTN__THIN_CHUNK + ATTN__LANES_MOST];   /* the last again, up to a whole vector */
    int64_t next[ATTN__THIN_CHUNK + ATTN__LANES_MOST]; /* to be fetched meanwhile */
    int32_t key[ATTN__THIN_CHUNK];
} attn__listed;
/* Where row x is, of a run also one behind them. */
ATTN__INLINE int64_t attn__listed_at(const attn__listed *l, int64_t x) {
    return l->run ? attn__high(l->first + x * l->step) + l->plane : l->at[x];
}
/* What is fetched while it is read: of a run it may lie behind the cache. */
ATTN__INLINE const char *attn__listed_next(
    const attn__listed *l, const void *data, int64_t x, int64_t ahead) {
    const int64_t at = l->run ? attn__listed_at(l, x + ahead) : l->next[x];
    return (const char *)((uintptr_t)data + (uintptr_t)at);
}
/* Those of the chunk from j0 on, whose level is at least `least`; plane: 0, or ATTN_PLANE for low
 * bytes. Those of the chunk before fetch them. */
static void attn__decode_list(const attn__decode *p, const attn_in *t, int64_t plane, int64_t j0,
    int least, attn__listed *l, attn__listed *before) {
    const attn__kernels *isa = attn__isa();
    const int64_t n = attn__clamp(p->last - j0, 0, ATTN__THIN_CHUNK);
    const int16_t *count = p->count + j0 / ATTN__THIN_CHUNK * ATTN__VALUE_LOW - 1;
    int64_t *at = l->at;
    l->n = n > 0 && least ? count[least] : n;
    l->whole = l->n == n;
    l->run = p->job->codes && l->whole && !p->u.s.pages && n % ATTN__LANES_MOST == 0;
    l->plane = plane;
    l->step = t->stride[1];
    l->first = l->n ? attn__k_at(p->job->d, &p->u.s, t->stride, j0, p->u.kv_head) : 0;
    if (l->n && (!l->run || (before && !before->run))) {
        attn__keys_at(p->job->d, &p->u.s, t->stride, j0, n, p->u.kv_head, at);
        for (int64_t x = 0, k = 0; k < l->n && !l->whole; x++) {
            l->key[k] = (int32_t)x;
            at[k] = at[x];
            k += p->level[j0 + x] >= (float)least;
        }
        for (int64_t x = 0; x < l->n; x++) at[x] = attn__high(at[x]) + plane;
        for (int64_t x = l->n; x < attn__padded(l->n, isa->W); x++) at[x] = at[x - 1];
    }
    if (!before || before->run) return;
    const int64_t ahead = attn__min(before->n, ATTN__DECODE_AHEAD), own = before->n - ahead,
                  up = attn__padded(before->n, isa->W), most = attn__min(up, own + l->n);
    for (int64_t x = 0; x < own; x++) before->next[x] = before->at[x + ahead];
    for (int64_t x = own; x < most; x++) before->next[x] = at[x - own];
    for (int64_t x = most; x < up; x++) before->next[x] = before->at[x];
}
/* The first rows, which nothing before them has fetched. */
static void attn__decode_first(const attn__listed *l, const void *data, int64_t dim) {
    for (int64_t x = 0; x < attn__min(l->n, ATTN__DECODE_AHEAD); x++)
        for (int64_t c = 0; c < dim; c += 64)
            ATTN__PREFETCH(
                (const void *)((uintptr_t)data + (uintptr_t)(attn__listed_at(l, x) + c)), 2);
}
/* What reads a plane of t, of dim columns, as thin does; `room` for a chunk in f32. */
static attn__thin attn__decode_thin(
    const attn_in *t, int64_t dim, const attn__listed *l, attn__thin_keys *k, float *room) {
    const attn__kernels *isa = attn__isa();
    attn_in plane = *t;
    attn__thin m;
    attn__thin_clear(&m);
    for (int64_t x = 0; x < attn__padded(l->n, isa->W); x++) {
        k->at[x] = attn__listed_at(l, x);
        k->next[x] = attn__listed_next(l, t->data, x, ATTN__DECODE_AHEAD);
    }
    m.data = t->data;
    m.at = k->at;
    m.next = k->next;
    m.n = l->n;
    m.dim = dim;
    m.dtype = plane.dtype = ATTN_INT8;
    m.fetch_l2 = attn__fetches_l2();
    m.ldo = ATTN__DECODE_LD;
    if (!attn__thin_reads(&plane, dim, 0)) isa->thin_widen(&m, NULL, room);
    return m;
}
/* T[rows][n] = Q K^T of one plane of the keys listed, in units of the row. */
static void attn__decode_dots(const attn__decode *p, const attn__listed *l) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = p->job->d;
    attn__thin_keys keys;
    p->tally->bytes += l->n * d->head_dim;
    if (p->job->codes) {
        isa->decode_dots_int16(p, l);
        return;
    }
    attn__thin m = attn__decode_thin(&d->k, d->head_dim, l, &keys, p->room);
    m.lda = p->job->flash.q_pad;
    for (int64_t r = 0; r < p->u.rows; r += 4) {
        if (r) attn__thin_rest(&m);
        m.A = p->Q + r * m.lda;
        m.rows = attn__min(4, p->u.rows - r);
        m.out = p->T + r * ATTN__DECODE_LD;
        isa->thin_dots(&m);
    }
}
/* O[rows][v_pad] += A V of one plane of the values listed; `fresh`: there is nothing in O. */
static void attn__decode_output(const attn__decode *p, const attn__listed *l, float *O, int fresh) {
    const attn__kernels *isa = attn__isa();
    static const float one[4] = {1, 1, 1, 1};
    const attn_desc *d = p->job->d;
    attn__thin_keys keys;
    p->tally->bytes += l->n * d->v_dim;
    if (p->job->codes && d->v_dim % 64 == 0 && isa->decode_columns_int16(p, l, O, fresh)) return;
    attn__thin m = attn__decode_thin(&d->v, d->v_dim, l, &keys, p->room);
    m.lda = ATTN__DECODE_LD;
    m.ldo = p->job->flash.v_pad;
    for (int64_t r = 0; r < p->u.rows; r += 4) {
        if (r) attn__thin_rest(&m);
        m.A = p->A + r * m.lda;
        m.rows = attn__min(4, p->u.rows - r);
        m.out = O + r * m.ldo;
        m.alpha = fresh ? NULL : one;
        isa->thin_columns(&m);
    }
}
/* Keys [*j0, *j1) of the split that are to be looked at: whole chunks, as far as some row sees. */
static void attn__decode_range(const attn__decode *p, int64_t *j0, int64_t *j1) {
    *j0 = attn__max(p->first, p->u.k0);
    *j1 = attn__min(p->last, p->u.k1);
}
/* to[0 .. n) = the scales of keys from j0 on, 0 behind up to a vector; whether all are finite. */
static int attn__decode_scales(
    const attn__decode *p, const attn_in *t, int64_t j0, int64_t n, float *to) {
    const int64_t step = t->scale_stride[1], up = attn__padded(n, attn__isa()->W);
    const float *from =
        t->scale + attn__k_at(p->job->d, &p->u.s, t->scale_stride, j0, p->u.kv_head);
    int64_t at[ATTN__THIN_CHUNK];
    uint32_t over = 0; /* its highest bit: an exponent of ones */
    if (p->u.s.pages) {
        attn__keys_at(p->job->d, &p->u.s, t->scale_stride, j0, n, p->u.kv_head, at);
        for (int64_t x = 0; x < n; x++) to[x] = t->scale[at[x]];
    }
    for (int64_t x = 0; x < n && !p->u.s.pages; x++) to[x] = from[x * step];
    for (int64_t x = 0; x < n; x++) over |= (attn__bits(to[x]) & 0x7fffffffu) + 0x800000u;
    for (int64_t x = n; x < up; x++) to[x] = 0;
    return over < 0x80000000u;
}
/* Row r of q as codes of int16; what they leave out of a score is left[r] times a key's scale. */
ATTN__NOINLINE float attn__decode_codes(const attn__decode *p, int64_t r, float most) {
    const int64_t dim = p->job->d->head_dim;
    const float *q = p->Q + r * p->job->flash.q_pad;
    /* 32767 times a byte, of INT16_DIM dims, is less than 2^31 */
    const double step = (double)most / 32767, per_step = step > 0 ? 1 / step : 0;
    double left = 0, all = 0;
    for (int64_t c = 0; c < dim; c++) {
        const double x = (double)attn__float(attn__bits(q[c]) & 0x7fffffff) * per_step;
        const int32_t n = (int32_t)(x + 0.5), minus = -(int32_t)(attn__bits(q[c]) >> 31);
        p->code[r * dim + c] = (int16_t)((n ^ minus) - minus);
        left += x - n < 0 ? n - x : x - n;
        all += x;
    }
    /* 2^-15 of the high bytes: they are rounded to f32, and twice as they are multiplied */
    p->left[r] = (float)((double)p->job->d->scale * step * (128.5 * left + 3.1e-5 * all) * 1.0001);
    return (float)((double)p->job->d->scale * ATTN__LOG2E * step);
}
/* Whether row r sees a scale that is not finite among the n keys from j0 on. */
static int attn__decode_sees_bad(
    const attn__decode *p, const attn__query *q, int64_t j0, int64_t n) {
    int bad = 0;
    for (int64_t j = attn__max(q->lo, j0); j < attn__min(q->hi, j0 + n); j++)
        bad |= !attn__finite(p->k_scale[j]) || !attn__finite(p->v_scale[j]);
    return bad;
}
/* The largest element of |v_j|, from below. */
ATTN__NOINLINE double attn__decode_largest(const attn__decode *p, int64_t j) {
    const attn_desc *d = p->job->d;
    const int64_t at = attn__k_at(d, &p->u.s, d->v.stride, j, p->u.kv_head);
    float most = 0;
    for (int64_t c = 0; c < d->v_dim; c++) {
        const float x = attn__get_f32(d->v.data, ATTN_INT16, at + c);
        most = x > most ? x : -x > most ? -x : most;
    }
    return (double)most * (double)(p->v_scale[j] < 0 ? -p->v_scale[j] : p->v_scale[j]) * 0.999999;
}
/* e^eta - 1 of a score that is off by `off` times k, the scale of its key; -1 where there is no bound. */
static float attn__decode_grown(float k, float off) {
    const float eta = k * off;
    return attn__finite(eta) && eta >= 0 && eta <= 1 ? eta + eta * eta : -1;
}
/* Of a score by high bytes. */
static float attn__decode_grows(const attn__decode *p, int64_t r, const attn__decode_chunk *c) {
    return attn__decode_grown(c->k_top, p->off[r]);
}
/* What chunks cost row r, whose weights and range are known; returns what is lost where all bytes are
 * read, at most. */
static double attn__decode_price(const attn__decode *p, int64_t r) {
    double least = 0;
    for (int64_t j0 = p->first; j0 < p->last; j0 += ATTN__THIN_CHUNK) {
        attn__decode_chunk *c = p->chunk + j0 / ATTN__THIN_CHUNK;
        const float grows = attn__decode_grows(p, r, c),
                    rest = attn__decode_grown(c->k_top, p->left[r]), weight = c->row[r].weight,
                    most = c->row[r].most, mean = weight / ATTN__THIN_CHUNK,
                    lost = c->v_top * 128.5f + p->range[r], out = lost + lost * grows;
        c->row[r].out = c->row[r].value = 3.4028234e38f;
        c->row[r].score = 0;
        least += rest < 0 && weight > 0 ? 1e300 : (double)(weight * lost) * (double)rest;
        if (grows < 0) continue;
        c->row[r].out = most * out;
        c->row[r].all_out = weight * out;
        if (most <= 32 * mean) c->row[r].score = mean * p->range[r] * grows;
        c->row[r].value = most * c->v_top * 0.5f;
        c->row[r].all_values = weight * c->v_top * 0.5f;
    }
    return least;
}
/* What is read of all keys from j0 on where nothing may cost row r more than `least`, and what that adds;
 * -1 where keys are to be looked at one by one. Low bytes of all where the mean key asks for them and
 * none weighs much more: some are read for nothing then. */
static int attn__decode_level_of(
    const attn__decode *p, int64_t r, int64_t j0, float least, double *cost) {
    const attn__decode_chunk *c = p->chunk + j0 / ATTN__THIN_CHUNK;
    const int out = c->row[r].out <= least,
              low = c->row[r].value <= least && c->row[r].score > least;
    *cost = out ? (double)c->row[r].all_out : low ? (double)c->row[r].all_values : 0;
    return out ? ATTN__LEFT_OUT : low ? ATTN__KEY_LOW : -1;
}
/* The sums of row r over the chunk at j0 where nothing of it is read; returns 0 where that does not
 * follow from the chunk. */
static int attn__decode_left_out(const attn__decode *p, int64_t r, int64_t j0, double *to) {
    const attn__decode_chunk *c = p->chunk + j0 / ATTN__THIN_CHUNK;
    const double weight = (double)c->row[r].weight,
                 gone = weight + weight * (double)attn__decode_grows(p, r, c);
    if (p->count[j0 / ATTN__THIN_CHUNK * ATTN__VALUE_LOW - 1 + ATTN__VALUE_HIGH]) return 0;
    if (!c->row[r].gone) return 0;
    to[ATTN__DECODE_SKIP] += weight;
    to[ATTN__DECODE_OFF] += gone - weight;
    to[ATTN__DECODE_GONE] += gone;
    to[ATTN__DECODE_FAR] += gone * 128.5 * (double)c->v_top;
    return 1;
}
/* Whether a third of the rows would lose too much by the codes of q alone, if they looked at all keys
 * alike: a guess by scales of some keys, before anything is read. As decode_rest has it, with o as large
 * as a value, for rows that lose so much look at few keys: half of what they may is too much. */
static int attn__decode_hopeless(const attn__decode *p) {
    const attn_desc *d = p->job->d;
    double lost[ATTN__DECODE_ROWS] = {0}, top = 0;
    int64_t first, last, hopeless = 0;
    if (!p->job->codes) return 0;
    attn__rows_see(d, &p->u.s, 0, p->u.s.q_used - 1, &first, &last);
    const int64_t n = attn__min(last - first, 128);
    for (int64_t x = 0; x < n; x++) {
        const int64_t j = first + x * (last - first) / n;
        const float k = d->k.scale[attn__k_at(d, &p->u.s, d->k.scale_stride, j, p->u.kv_head)],
                    v = d->v.scale[attn__k_at(d, &p->u.s, d->v.scale_stride, j, p->u.kv_head)];
        const double size = (double)(v < 0 ? -v : v);
        if (!attn__finite(k) || !attn__finite(v)) continue; /* rows that see it are dense */
        if (size > top) top = size;
        for (int64_t r = 0; r < p->u.rows; r++) {
            const float rest = attn__decode_grown(k < 0 ? -k : k, p->left[r]);
            lost[r] += rest < 0 ? size : (double)rest * size;
        }
    }
    for (int64_t r = 0; r < p->u.rows; r++)
        hopeless += lost[r] > (double)d->tolerance * 0.5 * top * (double)n;
    return 3 * hopeless >= p->u.rows;
}
/* The levels of keys for row r, whose weights sum up to `all`, by which it loses `most` at most, and
 * among it what is lost where all bytes are read: a threshold is estimated, then made sure of. A lower
 * one asks for no key less. Returns 0 where that is nearly all, as far as is known without values. */
static int attn__decode_levels(const attn__decode *p, int64_t r, double all, double most) {
    const attn__kernels *isa = attn__isa();
    const double least = attn__decode_price(p, r),
                 rest = least <= 0.1 * most ? least : isa->decode_rest(p, r, all),
                 left = most - rest;
    double low = left / (double)(4 * (p->last - p->first)), high = left;
    if (!(rest <= 0.8 * most)) return 0;
    for (int i = 0; i < 7; i++) {
        const double middle = attn__sqrt(low * high);
        *(isa->decode_loss(p, r, (float)middle, 8, 0) <= left ? &low : &high) = middle;
    }
    for (int i = 0; i < 5 && !(isa->decode_loss(p, r, (float)low, 1, 1) <= left); i++) low /= 4;
    return 1;
}
/* Phase 3: what is read of each key. Rows that are to be computed densely have a limit of NaN. What
 * codes of weights may cost a row, by key: half of what the levels leave of its tolerance. */
static void attn__decode_choose(const attn__decode *p) {
    const attn__kernels *isa = attn__isa();
    int64_t hopeless = 0;
    for (int64_t r = 0; r < p->u.rows; r++) p->limit[r] = attn__float(0x7fc00000u);
    if (p->kept->hopeless) return;
    memset(p->level + p->first, 0,
        (size_t)attn__padded(p->last - p->first, isa->W) * sizeof *p->level);
    for (int64_t r = 0; r < p->u.rows; r++) {
        float max = ATTN__NEG_INF;
        int fine = attn__finite(p->off[r]);
        for (int64_t s = 0; s < p->splits; s++) {
            const float m = p->part[s].max[r];
            fine &= !attn__is_nan((double)m);
            max = m > max ? m : max;
        }
        p->max[r] = max;
        fine &= attn__finite(max);
        if (!fine) continue;
        const double all = isa->decode_weigh(p, r), limit = isa->decode_limit(p, r),
                     most = all * limit * 0.9;
        if (!(most > 1e-30) || !attn__finite((float)most)) continue;
        if (!attn__decode_levels(p, r, all, most)) {
            hopeless++;
            continue;
        }
        p->limit[r] = (float)(limit * 0.999999);
        p->share[r] = (float)(all * limit * 0.05 / (double)(p->last - p->first));
    }
    if (isa->decode_whole_chunks(p) && 3 * hopeless < p->u.rows) return;
    for (int64_t r = 0; r < p->u.rows; r++) p->limit[r] = attn__float(0x7fc00000u);
}
/* Phase 4, by splits: low bytes of k where asked for, then values. */
static void attn__decode_values(const attn__decode *p) {
    const attn__kernels *isa = attn__isa();
    const attn_desc *d = p->job->d;
    const int64_t v_pad = p->job->flash.v_pad;
    float *O = p->O + p->split * ATTN__DECODE_ROWS * v_pad;
    attn__decode_part *part = p->part + p->split;
    attn__listed key[2], value[2], low;
    int64_t j0, j1, n, now = 0;
    int fresh = 1;
    memset(part->sum, 0, sizeof part->sum);
    if (attn__decode_dense(p)) return;
    attn__decode_range(p, &j0, &j1);
    attn__decode_list(p, &d->k, ATTN_PLANE, j0, ATTN__KEY_LOW, &key[0], NULL);
    attn__decode_list(p, &d->v, 0, j0, ATTN__VALUE_HIGH, &value[0], NULL);
    attn__decode_first(&key[0], d->k.data, d->head_dim);
    attn__decode_first(&value[0], d->v.data, d->v_dim);
    for (; j0 < j1; j0 += n, now ^= 1) {
        n = attn__min(ATTN__THIN_CHUNK, j1 - j0);
        attn__decode_list(p, &d->k, ATTN_PLANE, j0 + n, ATTN__KEY_LOW, &key[now ^ 1], &key[now]);
        attn__decode_list(p, &d->v, 0, j0 + n, ATTN__VALUE_HIGH, &value[now ^ 1], &value[now]);
        attn__decode_list(p, &d->v, ATTN_PLANE, j0, ATTN__VALUE_LOW, &low, NULL);
        if (key[now].n) attn__decode_dots(p, &key[now]);
        if (key[now].n) isa->decode_correct(p, &key[now], j0);
        for (int64_t r = 0; r < p->u.rows; r++) isa->decode_sums(p, r, j0, n, part->sum[r]);
        if (!value[now].n) continue;
        isa->decode_gather(p, &value[now], j0, 1);
        attn__decode_output(p, &value[now], O, fresh);
        fresh = 0;
        if (!low.n) continue;
        for (int64_t x = 0; x < attn__padded(low.n, isa->W) && !low.run; x++)
            low.next[x] = low.at[x];
        isa->decode_gather(p, &low, j0, 1 / 256.0f);
        attn__decode_output(p, &low, O, 0);
    }
    if (fresh) memset(O, 0, (size_t)(p->u.rows * v_pad) * sizeof *O);
}
/* Sums of row r over all splits. */
ATTN__NOINLINE void attn__decode_all_sums(const attn__decode *p, int64_t r, double *sum) {
    for (int k = 0; k < ATTN__DECODE_SUMS; k++) sum[k] = 0;
    for (int64_t s = 0; s < p->splits; s++)
        for (int k = 0; k < ATTN__DECODE_SUMS; k++) sum[k] += p->part[s].sum[r][k];
}
/* o and lse of row r, which is certified. */
static void attn__decode_write(const attn__decode *p, int64_t r) {
    const attn_desc *d = p->job->d;
    const int64_t i = attn__row_query(&p->u, r), h = attn__row_head(&p->u, r);
    double sum[ATTN__DECODE_SUMS];
    attn__decode_all_sums(p, r, sum);
    attn__isa()->narrow(d->o.data, d->o.dtype, attn__q_at(&p->u.s, d->o.stride, i, h),
        p->O + r * p->job->flash.v_pad, d->v_dim, (float)(1 / sum[ATTN__DECODE_SUM]));
    const double all = sum[ATTN__DECODE_SUM] + sum[ATTN__DECODE_SKIP],
                 off = sum[ATTN__DECODE_OFF] / all * 1.001, gone = sum[ATTN__DECODE_GONE] * 1.001;
    /* x / (x + y) of the most that x, keys left out, and the least that y, the others, sum up to */
    const float mass =
        (float)(gone / (gone + sum[ATTN__DECODE_SUM] - 1.001 * sum[ATTN__DECODE_OFF]) * 1.000001);
    if (mass > p->tally->mass) p->tally->mass = mass;
    if (!d->lse) return;
    d->lse[attn__lse_at(d, &p->u.s, i, h)] =
        attn__nearest_f32((double)p->max[r] / ATTN__LOG2E + attn__log(all));
    const float lost = (float)((off + off * off + 1e-6) * 1.000001); /* as int16_write has it */
    if (lost > p->tally->lse) p->tally->lse = lost;
}
/* Phase 5: o, lse and cert of rows whose certificate is within the tolerance; others are marked. */
static void attn__decode_finish(const attn__decode *p) {
    for (int64_t r = 0; r < p->u.rows; r++) {
        double sum[ATTN__DECODE_SUMS];
        p->cert[r] = ATTN__FAILED;
        if (!attn__finite(p->limit[r])) continue;
        const float cert = attn__isa()->decode_certify(p, r, sum);
        const float *O = p->O + r * p->job->flash.v_pad;
        if (!(cert <= p->limit[r])) continue;
        if (!attn__within_f16(p->job->d, O, sum[ATTN__DECODE_SUM], cert)) continue;
        p->cert[r] = cert;
        attn__decode_write(p, r);
    }
}
#endif

/* ============================================================================== >>append ====
   New keys and values into the cache, before anything reads it. Every product and sum of the
   rotation is rounded to f32, and the quantisation is spelled out, so that a cache is bitwise
   the same whichever backend wrote it. */
ATTN__NOINLINE void attn__rotate(const attn_desc *d, float *row, int64_t position) {
    const attn_append *a = &d->append;
    int64_t half = a->rotary_dim / 2, apart = d->flags & ATTN_ROTARY_INTERLEAVED ? 1 : half,
            step = d->flags & ATTN_ROTARY_INTERLEAVED ? 2 : 1;
    const float *cosine = a->rotary_cos + position * half, *sine = a->rotary_sin + position * half;
    for (int64_t p = 0; p < half; p++) {
        float *x = row + p * step, c = cosine[p], s = sine[p];
        float x1c = x[0] * c, x2s = x[apart] * s, x2c = x[apart] * c, x1s = x[0] * s;
        ATTN__F32(x1c);
        ATTN__F32(x2s);
        ATTN__F32(x2c);
        ATTN__F32(x1s);
        x[0] = x1c - x2s;
        x[apart] = x2c + x1s;
    }
}
/* What a row of the workspace has: with zeros behind it, so that loops go by eights. */
static int64_t attn__append_width(const attn_desc *d) {
    return attn__round_up(attn__max(d->head_dim, d->v_dim), 8);
}
/* Elements [at, at + n) as f32, zeros behind them up to `width`. */
static void attn__read_row(float *row, int64_t width, const attn_in *from, int64_t at, int64_t n) {
#if ATTN__CONVERT && !ATTN__ONLY_F32
    if (attn__is_narrow(from->dtype)) {
        attn_out to;
        to.data = row;
        to.dtype = ATTN_F32;
        attn__isa()->convert_rows(&to, 0, 0, from, at, 0, 1, n);
        for (int64_t c = n; c < width; c++) row[c] = 0;
        return;
    }
#endif
    attn__read(row, width, from->data, from->dtype, at, n);
}
/* Its other way: row[0 .. n) becomes elements [at, at + n). */
ATTN__INLINE void attn__write_row(
    void *data, int32_t dtype, int64_t at, const float *row, int64_t n) {
#if ATTN__CONVERT && !ATTN__ONLY_F32
    if (attn__is_narrow(dtype)) {
        attn_in from;
        attn_out to;
        from.data = row;
        from.dtype = ATTN_F32;
        to.data = data;
        to.dtype = dtype;
        attn__isa()->convert_rows(&to, at, 0, &from, 0, 0, 1, n);
        return;
    }
#endif
    if (ATTN__ONLY_F32) memcpy((float *)data + at, row, (size_t)n * sizeof *row);
    else attn__put_values(data, dtype, at, row, n);
}
/* A new row as f32; from element `once` on fewer bits follow, and are to be rounded to once. */
static void attn__append_get(
    float *row, const attn_in *from, int64_t at, int64_t dim, int64_t once) {
    const int64_t width = attn__round_up(dim, 8);
    if (from->dtype == ATTN_F64 && !ATTN__ONLY_F32) {
        const double *x = (const double *)from->data + at;
        for (int64_t c = 0; c < width; c++)
            row[c] = c >= dim ? 0 : c < once ? (float)x[c] : attn__f64_to_odd(x[c]);
        return;
    }
    attn__read_row(row, width, from, at, dim);
}
/* Elements [at, at + dim) of the cache; the row is spoiled. */
static void attn__append_put(
    float *row, int64_t dim, int32_t dtype, void *cache, int64_t at, float *scale) {
    if (ATTN__ONLY_F32 || attn__is_float(dtype)) {
        for (int64_t c = 0; c < dim; c += 8) /* one NaN for all */
            for (int l = 0; l < 8; l++)
                row[c + l] = attn__size_bits(row[c + l]) > 0x7f800000 ? attn__float(0x7fc00000u)
                                                                      : row[c + l];
        attn__write_row(cache, dtype, at, row, dim);
        return;
    }
    if (attn__is_blocks(dtype)) {
        for (int64_t c = 0; c < dim; c += 32) attn__put_block(cache, dtype, at + c, row + c);
        return;
    }
    const int32_t most = attn__largest_size(row, attn__round_up(dim, 8));
    const int finite = most < 0x7f800000;
    float s =
        finite ? attn__float((uint32_t)most) / attn__dtypes[dtype].most : attn__float(0x7fc00000u);
    ATTN__F32(s);
    if (finite && attn__bits(s) < 0x00800000u) s = 0;
    *scale = s;
    if (!finite || s == 0) memset(row, 0, (size_t)dim * sizeof *row);
    for (int64_t c = 0; c < dim && finite && s > 0; c += 8)
        for (int l = 0; l < 8; l++) {
            row[c + l] = row[c + l] / s;
            ATTN__F32(row[c + l]);
        }
    attn__put_values(cache, dtype, at, row, dim);
}
/* Parts of the new rows of a sequence, token after token, of each all kv heads, as memory has them:
 * as many as there are heads, or more where these are too few for all threads. */
static int64_t attn__append_parts(const attn_desc *d) {
    const int64_t pairs = attn__max(d->batch * d->kv_heads, 1);
    return d->kv_heads * attn__ceil_div(2 * attn__planned_threads(d), pairs);
}
typedef struct attn__append_job {
    const attn_desc *d;
    float *rows; /* one of `width` for each unit */
    int64_t width, parts;
} attn__append_job;
static void attn__append_task(void *arg, int64_t unit) {
    const attn__append_job *job = (const attn__append_job *)arg;
    const attn_desc *d = job->d;
    const attn_append *a = &d->append;
    const int64_t part = unit % job->parts;
    const attn__sequence_view s = attn__sequence(d, unit / job->parts);
    const int64_t heads = d->kv_heads, rows = (s.k_len - s.k_old) * heads,
                  first = rows / job->parts * part + attn__min(rows % job->parts, part),
                  last = first + rows / job->parts + (part < rows % job->parts);
    float *row = job->rows + unit * job->width;
    uint64_t fp = attn__fp_enter(0);
    for (int64_t r = first; r < last; r++) {
        const int64_t n = r / heads, h = r % heads, batch = a->cu ? 0 : s.b,
                      token = a->cu ? a->cu[s.b] + n : n, j = s.k_old + n;
        for (int v = 0; v < 2; v++) {
            const attn_in *from = v ? &a->v : &a->k, *cache = v ? &d->v : &d->k;
            const int64_t dim = v ? d->v_dim : d->head_dim,
                          rotated = v || !attn__has_rotary(d) ? 0 : a->rotary_dim;
            attn__append_get(row, from,
                batch * from->stride[0] + token * from->stride[1] + h * from->stride[2], dim,
                attn__is_narrow(cache->dtype) ? rotated : dim);
            if (rotated) attn__rotate(d, row, j);
            float *scales = v ? a->v_scale : a->k_scale;
            attn__append_put(row, dim, cache->dtype, v ? a->v_cache : a->k_cache,
                attn__k_at(d, &s, cache->stride, j, h),
                scales ? scales + attn__k_at(d, &s, cache->scale_stride, j, h) : NULL);
        }
    }
    attn__fp_leave(fp);
}
/* Workspace: a row for each unit, and no fewer as heads or sequences are added. */
static int64_t attn__append_bytes(const attn_desc *d) {
    if (!attn__has_append(d)) return 0;
    const int64_t rows = d->batch * d->kv_heads + 2 * attn__planned_threads(d);
    return attn__round_up(rows * attn__append_width(d) * 4, ATTN__ALIGN);
}
static void attn__append(const attn_desc *d, int32_t threads, void *workspace) {
    if (!attn__has_append(d)) return;
    attn__append_job job = {d, (float *)workspace, attn__append_width(d), attn__append_parts(d)};
    double tokens =
               d->append.cu ? (double)d->append.total : (double)d->append.len * (double)d->batch,
           elements = tokens * (double)(d->head_dim + d->v_dim) * (double)d->kv_heads;
    attn__parallel(
        d, elements < 32768 ? 1 : threads, attn__append_task, &job, job.parts * d->batch);
}

/* ============================================================================== >>layout ==== */
typedef struct attn__convert_job {
    attn_in src;
    attn_out dst;
    int64_t shape[4], rows, per_task;
    /* both sides dense over head and dim: one long row per token */
    int merged;
    int streamed; /* rows go past the caches */
} attn__convert_job;

/* Whole lines, of which no cache keeps a copy; others see them after stream_end. In assembler, for
 * what clang inlines of its headers wants the instruction set of the whole file. */
static void attn__stream(void *to, const void *from, int64_t bytes) {
#if ATTN__X86
    typedef int64_t part __attribute__((vector_size(16), aligned(1), may_alias));
    part *t = (part *)to;
    const part *f = (const part *)from;
    for (int64_t n = 0; n < bytes / 16; n++)
        __asm__ volatile("movdqu {%1, %%xmm0|xmm0, %1}\n\tmovntdq {%%xmm0, %0|%0, xmm0}"
            : "=m"(t[n])
            : "m"(f[n])
            : "xmm0");
#else
    memcpy(to, from, (size_t)bytes);
#endif
}
static void attn__stream_end(void) {
#if ATTN__X86
    __asm__ volatile("sfence" ::: "memory");
#endif
}
/* Whether rows go past the caches: many, of whole lines, copied in another order. */
static int attn__streams(const attn__convert_job *j, int64_t elements) {
    const attn__machine_info *m = attn__machine();
    const int32_t type = j->dst.dtype;
    uint64_t lines = (uintptr_t)j->dst.data | (uint64_t)attn__bytes(type, j->shape[3]);
    for (int a = 0; a < 3; a++) lines |= (uint64_t)attn__bytes(type, j->dst.stride[a]);
    return ATTN__X86 && (m->has & ATTN__CPU_STREAM) && !j->merged && j->src.dtype == type &&
           !(lines & 63) && attn__bytes(type, elements) >= 16 * m->l2;
}
static void attn__convert_task(void *arg, int64_t task) {
    const attn__convert_job *j = (const attn__convert_job *)arg;
    int64_t heads = j->merged ? 1 : j->shape[2],
            dim = j->merged ? j->shape[2] * j->shape[3] : j->shape[3];
    int64_t first = task * j->per_task, last = attn__min(first + j->per_task, j->rows);
    uint64_t fp = attn__fp_enter(0);
    int64_t h = first % heads, t = first / heads % j->shape[1], b = first / heads / j->shape[1];
    for (int64_t r = first, n; r < last; r += n, h += n) {
        if (h == heads) {
            h = 0;
            t++;
        }
        if (t == j->shape[1]) {
            t = 0;
            b++;
        }
        n = attn__min(heads - h, last - r); /* rows of one token */
        int64_t from = b * j->src.stride[0] + t * j->src.stride[1] + h * j->src.stride[2],
                to = b * j->dst.stride[0] + t * j->dst.stride[1] + h * j->dst.stride[2];
        if (!ATTN__ONLY_F32 && j->src.dtype != j->dst.dtype && attn__is_blocks(j->dst.dtype)) {
            for (int64_t c = 0; c < n * dim; c += 32) {
                const int64_t row = c / dim, e = c % dim;
                float x[32];
                const int64_t at = from + row * j->src.stride[2] + e;
                attn__append_get(x, &j->src, at, 32, 32);
                attn__put_block(j->dst.data, j->dst.dtype, to + row * j->dst.stride[2] + e, x);
            }
            continue;
        }
        if (!ATTN__ONLY_F32 && j->src.dtype != j->dst.dtype && j->src.dtype != ATTN_F64) {
            attn__machine()->isa->convert_rows(
                &j->dst, to, j->dst.stride[2], &j->src, from, j->src.stride[2], n, dim);
            continue;
        }
        for (int64_t l = 0; l < n; l++) {
            int64_t in = from + l * j->src.stride[2], out = to + l * j->dst.stride[2];
            if (ATTN__ONLY_F32 || j->src.dtype == j->dst.dtype) {
                char *row = (char *)j->dst.data + attn__bytes(j->dst.dtype, out);
                const char *is = (const char *)j->src.data + attn__bytes(j->src.dtype, in);
                const int64_t bytes = attn__bytes(j->src.dtype, dim);
                if (ATTN__X86 && j->streamed) attn__stream(row, is, bytes);
                else memcpy(row, is, (size_t)bytes);
            } else
                for (int64_t c = 0; c < dim; c++)
                    attn__put_f64(
                        j->dst.data, j->dst.dtype, out + c, ((const double *)j->src.data)[in + c]);
        }
    }
    if (ATTN__X86 && j->streamed) attn__stream_end();
    attn__fp_leave(fp);
}
static int attn__can(const attn_backend *b, int what) {
    return what == ATTN__MERGES     ? b->merge != NULL
           : what == ATTN__CONVERTS ? b->convert != NULL
                                    : b->device && b->convert;
}
/* The backend that does that with device tensors: the one named, else the first that can. */
static attn_status attn__on_device(const attn_desc *where, int what, const attn_backend **found) {
    const attn_backend *b;
    if (where->backend && strcmp(where->backend, "auto")) {
        ATTN__RULE((b = attn_backend_find(where->backend)) != NULL, ERR_BACKEND_UNKNOWN);
        *found = attn__can(b, what) ? b : NULL;
    } else {
        for (int32_t i = 0; !*found && (b = attn_backend_at(i)) != NULL; i++)
            if (attn__can(b, what)) *found = b;
    }
    ATTN__RULE(*found, ERR_DEVICE);
    return ATTN_OK;
}
static void attn__convert(const int64_t shape[4], const attn_in *src, const attn_out *dst,
    int64_t elements, const attn_desc *where) {
    attn__convert_job job;
    job.src = *src;
    job.dst = *dst;
    memcpy(job.shape, shape, sizeof job.shape);
    job.merged = src->stride[2] == shape[3] && dst->stride[2] == shape[3];
    job.streamed = attn__streams(&job, elements);
    job.rows = shape[0] * shape[1] * (job.merged ? 1 : shape[2]);
    int32_t threads = elements < 65536 ? 1 : attn__threads_for(where);
    job.per_task = attn__max(1, attn__ceil_div(job.rows, (int64_t)threads * 4));
    attn__parallel(
        where, threads, attn__convert_task, &job, attn__ceil_div(job.rows, job.per_task));
}

/* Strides and first elements of q, k and v in a packed buffer, in elements. */
typedef struct attn__packed {
    int64_t stride[3][3], first[3];
} attn__packed;
static attn_status attn__packed_views(const attn_desc *in, int32_t dtype, int32_t layout,
    attn_status wrong, attn__packed *p, attn__refused *at) {
    attn_desc x;
    ATTN__RULE(in, ERR_NULL_DESC);
    x = *in;
    x.kv_len = 0;
    x.seq.cu_k = NULL;
    ATTN__TRY(attn__resolve_sizes(&x, at));
    ATTN__RULE(attn__dtype_known(dtype), ERR_DTYPE);
    if (!attn__is_float(dtype)) return wrong;
    ATTN__RULE(layout == ATTN_QKV_3HD ||
                   (layout == ATTN_QKV_H3D && x.heads == x.kv_heads && x.head_dim == x.v_dim),
        ERR_PACKED_LAYOUT);
    const int apart = layout == ATTN_QKV_3HD;
    const int64_t row = (x.heads + x.kv_heads) * x.head_dim + x.kv_heads * x.v_dim;
    for (int n = 0; n < 3; n++) {
        p->stride[n][0] = x.q_len * row;
        p->stride[n][1] = row;
        p->stride[n][2] = !apart ? 3 * x.head_dim : n == 2 ? x.v_dim : x.head_dim;
    }
    p->first[0] = 0;
    p->first[1] = apart ? x.heads * x.head_dim : x.head_dim;
    p->first[2] = p->first[1] + (apart ? x.kv_heads * x.head_dim : x.head_dim);
    return ATTN_OK;
}
ATTN_API attn_status attn_packed_qkv(attn_desc *d, const void *qkv, int32_t dtype, int32_t layout) {
    attn__packed p;
    attn__refused at = attn__nowhere;
    const attn_status s = attn__packed_views(d, dtype, layout, ATTN_ERR_DTYPE_Q, &p, &at);
    attn__tell_refused(d, s, &at);
    if (s) return s;
    attn_in *view[3] = {&d->q, &d->k, &d->v};
    for (int n = 0; n < 3; n++) {
        memset(view[n], 0, sizeof *view[n]);
        view[n]->data = qkv ? (const char *)qkv + attn__bytes(dtype, p.first[n]) : NULL;
        view[n]->dtype = dtype;
        memcpy(view[n]->stride, p.stride[n], sizeof p.stride[n]);
    }
    d->kv_len = d->q_len;
    d->seq.cu_k = d->seq.cu_q;
    d->seq.total_k = d->seq.total_q;
    return ATTN_OK;
}
ATTN_API attn_status attn_packed_dqkv(
    const attn_desc *d, attn_grad *g, void *dqkv, int32_t dtype, int32_t layout) {
    attn__packed p;
    attn__refused at = attn__nowhere;
    attn_status s = attn__packed_views(d, dtype, layout, ATTN_ERR_DTYPE_GRAD, &p, &at);
    if (!s && !g) s = ATTN_ERR_NULL_GRAD;
    attn__tell_refused(d, s, &at);
    if (s) return s;
    attn_out *view[3] = {&g->dq, &g->dk, &g->dv};
    for (int n = 0; n < 3; n++) {
        memset(view[n], 0, sizeof *view[n]);
        view[n]->data = dqkv ? (char *)dqkv + attn__bytes(dtype, p.first[n]) : NULL;
        view[n]->dtype = dtype;
        memcpy(view[n]->stride, p.stride[n], sizeof p.stride[n]);
    }
    return ATTN_OK;
}

/* ================================================================================ >>merge ====
   Parts of a row, each over keys of its own, become the row over all of them, in f64: weights
   exp(lse_p - lse). The sink is one part more, without a value. */
enum { ATTN__MERGE_KNOWN = 32 }; /* parts whose weights are kept for all columns */
typedef struct attn__merge_job {
    const attn_desc *d;
    const attn_in *o;
    const float *const *lse;
    int64_t parts, extent[3], rows, per_task;
} attn__merge_job;
/* x[0 .. 64) += weight times elements of a part */
static void attn__merge_add(
    double *x, double weight, const attn_in *part, int64_t at, int64_t width) {
    float f[64];
    if (part->dtype == ATTN_F64 && !ATTN__ONLY_F32) {
        const double *from = (const double *)part->data + at;
        for (int64_t c = 0; c < width; c++) x[c] += weight * from[c];
        return;
    }
    const float *from = f;
    if (part->dtype == ATTN_F32 && width == 64) from = (const float *)part->data + at;
    else attn__read_row(f, 64, part, at, width);
    for (int c = 0; c < 64 && part->dtype != ATTN_F32; c++) /* one NaN for all */
        if (attn__size_bits(f[c]) > 0x7f800000) f[c] = attn__float(0x7fc00000u);
    for (int c = 0; c < 64; c++) x[c] += weight * (double)from[c];
}
/* Elements [at, at + width) of o = x[0 .. 64) */
static void attn__merge_put(const attn_out *o, int64_t at, const double *x, int64_t width) {
    float f[64];
    if (ATTN__ONLY_F32 || o->dtype == ATTN_F32) {
        for (int64_t c = 0; c < width; c++) ((float *)o->data)[at + c] = (float)x[c];
    } else if (o->dtype == ATTN_F64) {
        memcpy((double *)o->data + at, x, (size_t)width * sizeof *x);
    } else {
        for (int c = 0; c < 64; c++) f[c] = attn__f64_narrow(x[c]);
        attn__write_row(o->data, o->dtype, at, f, width);
    }
}
/* first: of the parts, MERGE_KNOWN at most, with their strides. */
static void attn__merge_row(
    const attn__merge_job *job, const attn_in *first, int64_t b, int64_t h, int64_t i) {
    const attn_desc *d = job->d;
    const double neg_inf = -attn__double(0x7ff0000000000000u);
    const int64_t at = (b * d->heads + h) * job->extent[1] + i,
                  to = b * d->o.stride[0] + i * d->o.stride[1] + h * d->o.stride[2];
    double max = d->sink ? (double)d->sink[h] : neg_inf, sum = 0, known[ATTN__MERGE_KNOWN];
    int empty = 1;
    for (int64_t p = 0; p < job->parts; p++) {
        const double lse = (double)job->lse[p][at];
        empty &= attn__is_neg_inf(lse);
        if (lse > max) max = lse; /* of a NaN the weight is NaN */
    }
    if (!empty && d->sink) sum += attn__exp((double)d->sink[h] - max);
    for (int64_t p = 0; p < job->parts && !empty; p++) {
        const double weight = attn__exp((double)job->lse[p][at] - max);
        if (p < ATTN__MERGE_KNOWN) known[p] = weight;
        sum += weight;
    }
    for (int64_t c0 = 0; c0 < d->v_dim; c0 += 64) {
        const int64_t width = attn__min(64, d->v_dim - c0);
        double x[64] = {0};
        for (int64_t p = 0; p < job->parts && !empty; p++) {
            const double lse = (double)job->lse[p][at];
            if (attn__is_neg_inf(lse)) continue; /* an empty part: o is not read */
            attn_in part = p < ATTN__MERGE_KNOWN ? first[p] : job->o[p];
            if (p >= ATTN__MERGE_KNOWN)
                attn__resolve_in(&part, job->extent, d->v_dim, ATTN_ERR_MERGE_O);
            const double weight = p < ATTN__MERGE_KNOWN ? known[p] : attn__exp(lse - max);
            attn__merge_add(x, weight / sum, &part,
                b * part.stride[0] + i * part.stride[1] + h * part.stride[2] + c0, width);
        }
        attn__merge_put(&d->o, to + c0, x, width);
    }
    if (d->lse) d->lse[at] = attn__nearest_f32(empty ? max : max + attn__log(sum));
}
static void attn__merge_task(void *arg, int64_t task) {
    const attn__merge_job *job = (const attn__merge_job *)arg;
    const int64_t n = job->extent[1], heads = job->d->heads, first = task * job->per_task,
                  last = attn__min(first + job->per_task, job->rows);
    uint64_t fp = attn__fp_enter(0);
    attn_in part[ATTN__MERGE_KNOWN];
    for (int64_t p = 0; p < attn__min(job->parts, ATTN__MERGE_KNOWN); p++) {
        part[p] = job->o[p];
        attn__resolve_in(part + p, job->extent, job->d->v_dim, ATTN_ERR_MERGE_O);
    }
    for (int64_t r = first; r < last; r++)
        attn__merge_row(job, part, r / heads / n, r % heads, r / heads % n);
    attn__fp_leave(fp);
}
static void attn__merge(
    const attn_desc *d, int64_t parts, const attn_in *o, const float *const *lse) {
    attn__merge_job job;
    job.d = d;
    job.o = o;
    job.lse = lse;
    job.parts = parts;
    attn__extent_q(d, job.extent);
    job.rows = job.extent[0] * job.extent[1] * d->heads;
    const double elements = (double)job.rows * (double)d->v_dim * (double)(parts + 1);
    const int32_t threads = elements < 65536 ? 1 : attn__threads_for(d);
    job.per_task = attn__max(1, attn__ceil_div(job.rows, (int64_t)threads * 4));
    attn__parallel(d, threads, attn__merge_task, &job, attn__ceil_div(job.rows, job.per_task));
}

/* ================================================================================= >>mpi ====
   Attention over ranks. A chunk is a range of tokens that one rank holds; queries of one chunk and
   keys of another make a block; a block of a call is attn_forward or attn_backward on the tokens
   in it, with an offset that puts its rows and keys where they lie in their sequences. Only
   consecutive sequences of one offset share such a call: a run. Device tensors make the same way,
   by the calls of their backend (attn_device_calls); what the ranks agree on is host memory. */
#ifdef ATTN_MPI
#if defined(OPEN_MPI) && defined(__has_include)
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#endif
enum { ATTN__MPI_FORWARD = 1, ATTN__MPI_BACKWARD, ATTN__MPI_DECODE };
enum { ATTN__TAG_KEYS = ATTN_MPI_TAG, ATTN__TAG_GRADS, ATTN__TAG_HOME, ATTN__TAG_HEADS };

/* Tokens [first, last) of the buffer, token `at` and following of the rank's own tensors. */
typedef struct attn__chunk {
    int64_t first, last, at;
} attn__chunk;
/* Messages under way. */
typedef struct attn__flight {
    MPI_Request *request;
    int n;
} attn__flight;
/* Memory where the tensors are, and what its messages go through: itself, or host memory. */
typedef struct attn__buffer {
    char *at, *host;
} attn__buffer;
/* A tensor that ranks exchange, strides set. */
typedef struct attn__piece {
    void *data;
    int64_t stride[3], heads, dim;
    int32_t dtype;
} attn__piece;

typedef struct attn__mpi {
    const attn_mpi *m;
    MPI_Comm comm;
    int rank, ranks, kind, ulysses, wide; /* wide: f64 is computed in f64 */
    attn_status status;                   /* of this rank, what went wrong first */
    attn__refused refused;                /* and where, of its own tensors and arrays */
    attn_desc all, own;                   /* resolved: the whole call, and this rank's tensors */
    attn_grad g;
    int64_t q_batch, k_batch, q_own, k_own; /* batch extents; tokens of this rank */
    int lse, dlse;                          /* given, on the ranks that have rows */
    const attn_backend *gpu;                /* of device tensors, else NULL */
    int staged;                             /* its messages go through host memory */
    const float *alibi, *sink;              /* in host memory */
    int *hops;                              /* [ranks]: how far the keys of each rank go */
    attn_in k, v;                           /* the keys and values at hand, of `tokens` tokens */
    int64_t tokens;
    attn__buffer message[2];
    /* forward: what is joined so far (attn_joining); a block's o and lse */
    attn__buffer state, q; /* q: of a decode, dense */
    MPI_Datatype row;      /* of state, in a decode */
    int typed;             /* there is one */
    void *part;
    float *part_lse, *part_dlse;
    /* backward, dk then dv of a rank's keys, f32: the block's own by turns, what came, the total */
    attn__buffer turn[2], came, home;
    void *dq;
    attn__buffer sinks; /* dsink of some rows */
    double *dsink;      /* [1 + ranks][heads] */
    attn__flight keys, sent[2], coming, homing;
    int32_t *lengths[5]; /* [batch + 1] each: the arrays of attn_seq of a block */
    void *work;
    size_t work_size;
    void *memory[48];
    size_t bytes[48];
    unsigned char held[48]; /* of the device */
    int memories;
    attn_mpi_times times;
} attn__mpi;

/* ---- memory and messages */
static void attn__mpi_keep(attn__mpi *job, void *p, int64_t bytes, int held) {
    job->memory[job->memories] = p;
    job->held[job->memories] = (unsigned char)held;
    job->bytes[job->memories++] = (size_t)bytes;
}
static void attn__mpi_no_memory(attn__mpi *job) {
    if (!job->status) job->status = job->own.alloc ? ATTN_ERR_MEMORY : ATTN__NO_MEMORY;
}
static void *attn__mpi_take(attn__mpi *job, int64_t bytes) {
    void *p = NULL;
    if ((uint64_t)bytes < SIZE_MAX - 4 * ATTN__ALIGN) p = attn__get(job->own.alloc, (size_t)bytes);
    if (!p) {
        attn__mpi_no_memory(job);
        return NULL;
    }
    attn__mpi_keep(job, p, bytes, 0);
    return p;
}
/* Memory where the tensors are. */
static void *attn__mpi_hold(attn__mpi *job, int64_t bytes) {
    void *p = NULL;
    if (!job->gpu) return attn__mpi_take(job, bytes);
    if (job->status) return NULL;
    if ((uint64_t)bytes > SIZE_MAX) job->status = ATTN_ERR_MEMORY;
    else
        job->status = job->gpu->device->get(
            job->gpu->user, &job->own, &p, bytes ? (size_t)bytes : ATTN__ALIGN);
    if (!job->status) attn__mpi_keep(job, p, bytes, 1);
    return job->status ? NULL : p;
}
static attn__buffer attn__mpi_buffer(attn__mpi *job, int64_t bytes) {
    attn__buffer b;
    b.at = b.host = (char *)attn__mpi_hold(job, bytes);
    if (job->staged) b.host = (char *)attn__mpi_take(job, bytes);
    return b;
}
static void attn__mpi_free(attn__mpi *job) {
    attn__put(job->own.alloc, job->work, job->work_size);
    if (job->typed) MPI_Type_free(&job->row);
    while (job->memories-- > 0) {
        void *p = job->memory[job->memories];
        if (job->held[job->memories]) job->gpu->device->put(job->gpu->user, &job->own, p);
        else attn__put(job->own.alloc, p, job->bytes[job->memories]);
    }
}
/* Device tensors: bytes to or from host memory, zeros from NULL; no bytes: waits for what was
 * started. Counted as work. */
static void attn__mpi_device(attn__mpi *job, void *to, const void *from, int64_t bytes, int out) {
    const double start = MPI_Wtime();
    if (job->status || !job->gpu) return;
    job->status = job->gpu->device->copy(job->gpu->user, &job->own, to, from, (size_t)bytes, out);
    job->times.compute += MPI_Wtime() - start;
}
static void attn__mpi_zero(attn__mpi *job, void *p, int64_t bytes) {
    if (!job->gpu) memset(p, 0, (size_t)bytes);
    else if (bytes) attn__mpi_device(job, p, NULL, bytes, 0);
}
/* Requests of up to `messages` messages of so many bytes in all. */
static void attn__mpi_flight(attn__mpi *job, attn__flight *f, int64_t messages, int64_t bytes) {
    const int64_t most = messages + bytes / ATTN_MPI_PIECE;
    if (most > INT32_MAX) job->status = ATTN_ERR_SIZE;
    else f->request = (MPI_Request *)attn__mpi_take(job, most * (int64_t)sizeof *f->request);
}
static void attn__mpi_ok(attn__mpi *job, int error) {
    if (error != MPI_SUCCESS && !job->status) job->status = ATTN_ERR_MPI;
}
/* Bytes of a buffer, from byte `first` on, are done and where messages are taken from. */
static void attn__mpi_leave(attn__mpi *job, const attn__buffer *b, int64_t first, int64_t bytes) {
    if (bytes && job->staged) attn__mpi_device(job, b->host + first, b->at + first, bytes, 1);
    else attn__mpi_device(job, NULL, NULL, 0, 0);
}
static void attn__mpi_send(attn__mpi *job, attn__flight *f, const attn__buffer *b, int64_t first,
    int64_t bytes, int to, int tag) {
    if (to != job->rank) job->times.sent += bytes;
    for (int64_t at = 0; at < bytes; at += ATTN_MPI_PIECE) {
        f->request[f->n] = MPI_REQUEST_NULL;
        attn__mpi_ok(
            job, MPI_Isend(b->host + first + at, (int)attn__min(bytes - at, ATTN_MPI_PIECE),
                     MPI_BYTE, to, tag, job->comm, &f->request[f->n++]));
    }
}
/* What was started is done before others may come in the place of these. */
static void attn__mpi_receive(attn__mpi *job, attn__flight *f, const attn__buffer *b, int64_t first,
    int64_t bytes, int from, int tag) {
    if (!job->staged) attn__mpi_device(job, NULL, NULL, 0, 0);
    for (int64_t at = 0; at < bytes; at += ATTN_MPI_PIECE) {
        f->request[f->n] = MPI_REQUEST_NULL;
        attn__mpi_ok(
            job, MPI_Irecv(b->host + first + at, (int)attn__min(bytes - at, ATTN_MPI_PIECE),
                     MPI_BYTE, from, tag, job->comm, &f->request[f->n++]));
    }
}
/* What was received, and waited for, is where the tensors are. */
static void attn__mpi_land(attn__mpi *job, const attn__buffer *b, int64_t bytes) {
    if (bytes && job->staged) attn__mpi_device(job, b->at, b->host, bytes, 0);
}
static void attn__mpi_wait(attn__mpi *job, attn__flight *f) {
    const double start = MPI_Wtime();
    if (f->n) attn__mpi_ok(job, MPI_Waitall(f->n, f->request, MPI_STATUSES_IGNORE));
    f->n = 0;
    job->times.wait += MPI_Wtime() - start;
}
/* Most of MPI moves messages in its own calls alone. */
static void attn__mpi_progress(attn__mpi *job) {
    attn__flight *const all[] = {
        &job->keys, &job->sent[0], &job->sent[1], &job->coming, &job->homing};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int done = 0;
        if (all[i]->n)
            attn__mpi_ok(job, MPI_Testall(all[i]->n, all[i]->request, &done, MPI_STATUSES_IGNORE));
        if (done) all[i]->n = 0;
    }
}
/* Whether MPI says that it sends from memory of this runtime. */
static int attn__mpi_aware(const char *runtime) {
    int yes = 0;
#ifdef MPIX_CUDA_AWARE_SUPPORT
    if (!strcmp(runtime, "cuda")) yes |= MPIX_Query_cuda_support();
#endif
#ifdef MPIX_ROCM_AWARE_SUPPORT
    if (!strcmp(runtime, "rocm")) yes |= MPIX_Query_rocm_support();
#endif
#if defined(MPIX_GPU_SUPPORT_CUDA) && defined(MPIX_GPU_SUPPORT_HIP)
    int has = 0, type = !strcmp(runtime, "cuda") ? MPIX_GPU_SUPPORT_CUDA : MPIX_GPU_SUPPORT_HIP;
    if (MPIX_GPU_query_support(type, &has) == MPI_SUCCESS) yes |= has;
#endif
    return (void)runtime, yes != 0;
}

/* Elements that are moved or added, by tasks: few are not worth waking a thread for. */
static void attn__mpi_parallel(
    attn__mpi *job, int64_t elements, attn__task task, void *arg, int64_t n) {
    const int32_t threads = elements < 65536 ? 1 : attn__threads_for(&job->own);
    attn__parallel(&job->own, threads, task, arg, n);
}

/* ---- who holds what */
ATTN_API void attn_mpi_cut(int64_t tokens, int32_t split, int ranks, int64_t *cut) {
    const int64_t parts = (split == ATTN_MPI_ZIGZAG ? 2 : 1) * (int64_t)ranks;
    for (int64_t p = 0; parts > 0 && p <= parts; p++)
        cut[p] = tokens / parts * p + attn__min(p, tokens % parts);
}
static int attn__mpi_chunks(
    const int64_t *cut, int32_t split, int ranks, int rank, attn__chunk *c) {
    c[0].first = cut[rank];
    c[0].last = cut[rank + 1];
    c[0].at = 0;
    if (split != ATTN_MPI_ZIGZAG) return 1;
    c[1].first = cut[2 * ranks - 1 - rank];
    c[1].last = cut[2 * ranks - rank];
    c[1].at = c[0].last - c[0].first;
    return 2;
}
ATTN_API int64_t attn_mpi_tokens(const int64_t *cut, int32_t split, int ranks, int rank) {
    attn__chunk c[2];
    const attn__chunk *last = &c[attn__mpi_chunks(cut, split, ranks, rank, c) - 1];
    return last->at + last->last - last->first;
}
static int64_t attn__mpi_all_queries(const attn__mpi *job) {
    return job->all.seq.cu_q ? job->all.seq.total_q : job->all.q_len;
}
static int64_t attn__mpi_all_keys(const attn__mpi *job) {
    return job->all.seq.cu_k ? job->all.seq.total_k : job->all.kv_len;
}
static int attn__mpi_queries(const attn__mpi *job, int rank, attn__chunk *c) {
    if (job->kind != ATTN__MPI_DECODE)
        return attn__mpi_chunks(job->m->q_cut, job->m->split, job->ranks, rank, c);
    c->first = c->at = 0;
    c->last = attn__mpi_all_queries(job);
    return 1;
}
static int attn__mpi_keys(const attn__mpi *job, int rank, attn__chunk *c) {
    return attn__mpi_chunks(job->m->k_cut, job->m->split, job->ranks, rank, c);
}
static int64_t attn__mpi_held(const attn__mpi *job, int rank) {
    return attn_mpi_tokens(job->m->k_cut, job->m->split, job->ranks, rank);
}
/* Part n of a chunk of queries: between two of them MPI can move messages. Of at least 1024 rows,
 * and at most 8, whatever the machine: the bits follow from it. */
#ifndef ATTN__MPI_SLICE
#define ATTN__MPI_SLICE 1024
#endif
static int64_t attn__mpi_slices(const attn__chunk *c) {
    return attn__clamp((c->last - c->first) / ATTN__MPI_SLICE, 1, 8);
}
static attn__chunk attn__mpi_slice(const attn__chunk *c, int64_t n) {
    const int64_t rows = c->last - c->first, slices = attn__mpi_slices(c);
    attn__chunk s = {c->first + rows * n / slices, c->first + rows * (n + 1) / slices,
        c->at + rows * n / slices};
    return s;
}

/* ---- blocks */
/* What of sequence b lies in a block, as a sequence of its own: rows and keys from the chunks'
 * first tokens on. Its offset is 0 where nothing asks for positions. */
static attn__sequence_view attn__mpi_view(
    const attn_desc *d, int64_t b, const attn__chunk *q, const attn__chunk *k) {
    attn__sequence_view s = attn__sequence(d, b);
    const int64_t i0 = attn__clamp(q->first - s.q_first, 0, s.q_rows),
                  i1 = attn__clamp(q->last - s.q_first, 0, s.q_rows),
                  j0 = attn__clamp(k->first - s.k_first, 0, s.k_len),
                  j1 = attn__clamp(k->last - s.k_first, 0, s.k_len);
    const uint32_t positions = ATTN_CAUSAL | ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT;
    s.offset = (d->flags & positions) || d->alibi ? attn__sat_add(s.offset, i0 - j0) : 0;
    s.q_first += i0 - q->first;
    s.q_rows = i1 - i0;
    s.q_used = attn__clamp(s.q_used - i0, 0, s.q_rows);
    s.k_first += j0 - k->first;
    s.k_len = j1 - j0;
    return s;
}
static int attn__mpi_sees(const attn_desc *d, const attn__sequence_view *s) {
    int64_t lo, hi;
    attn__rows_see(d, s, 0, s->q_used - 1, &lo, &hi);
    return s->q_used > 0 && s->k_len > 0 && hi > lo;
}
/* The first sequence that ends behind the token. */
static int64_t attn__mpi_sequence_at(const int32_t *cu, int64_t batch, int64_t token) {
    int64_t lo = 0, hi = batch;
    while (lo < hi) {
        const int64_t middle = (lo + hi) / 2;
        if (cu[middle + 1] > token) hi = middle;
        else lo = middle + 1;
    }
    return lo;
}
/* Sequences [*b, *end) have tokens in both chunks; others may have, too, where nothing is packed. */
static void attn__mpi_sequences(
    const attn_desc *d, const attn__chunk *q, const attn__chunk *k, int64_t *b, int64_t *end) {
    const int32_t *cu[2] = {d->seq.cu_q, d->seq.cu_k};
    const attn__chunk *chunk[2] = {q, k};
    *b = 0;
    *end = q->first < q->last && k->first < k->last ? d->batch : 0;
    for (int i = 0; i < 2 && *end; i++) {
        if (!cu[i]) continue;
        *b = attn__max(*b, attn__mpi_sequence_at(cu[i], d->batch, chunk[i]->first));
        *end = attn__min(*end, attn__mpi_sequence_at(cu[i], d->batch, chunk[i]->last - 1) + 1);
    }
}
/* Whether a query of `rank` sees a key that `source` holds. */
static int attn__mpi_needs(const attn__mpi *job, int rank, int source) {
    const attn_desc *d = &job->all;
    attn__chunk q[2], k[2];
    const int qs = attn__mpi_queries(job, rank, q), ks = attn__mpi_keys(job, source, k);
    for (int n = 0; n < qs * ks; n++) {
        int64_t b, end;
        attn__mpi_sequences(d, &q[n / ks], &k[n % ks], &b, &end);
        if (!attn__has_lengths(&d->seq)) end = attn__min(end, 1);
        for (; b < end; b++) {
            const attn__sequence_view v = attn__mpi_view(d, b, &q[n / ks], &k[n % ks]);
            if (attn__mpi_sees(d, &v)) return 1;
        }
    }
    return 0;
}

/* Where the rows of a run lie in the rank's tensors. */
typedef struct attn__place {
    int64_t batch, token, batches, tokens;
} attn__place;

static attn_in attn__mpi_in(const attn_in *t, int64_t batch, int64_t token) {
    attn_in x = *t;
    const int64_t at = batch * t->stride[0] + token * t->stride[1];
    if (x.data) x.data = (const char *)x.data + attn__bytes(x.dtype, at);
    if (x.scale) x.scale += batch * t->scale_stride[0] + token * t->scale_stride[1];
    for (int a = 0; a < 3; a++) { /* resolved already: 0 is what the caller wrote so */
        if (x.stride[a] == 0) x.stride[a] = ATTN_BROADCAST;
        if (x.scale && x.scale_stride[a] == 0) x.scale_stride[a] = ATTN_BROADCAST;
    }
    return x;
}
static attn_out attn__mpi_out(const attn_out *t, int64_t batch, int64_t token) {
    attn_out x = *t;
    x.data = (char *)x.data + attn__bytes(x.dtype, batch * t->stride[0] + token * t->stride[1]);
    return x;
}
static attn_in attn__mpi_dense_in(
    const void *data, int32_t dtype, int64_t tokens, int64_t heads, int64_t dim) {
    attn_in x;
    memset(&x, 0, sizeof x);
    x.data = data;
    x.dtype = dtype;
    x.stride[0] = tokens * heads * dim;
    x.stride[1] = heads * dim;
    x.stride[2] = dim;
    x.scale_stride[0] = tokens * heads;
    x.scale_stride[1] = heads;
    x.scale_stride[2] = 1;
    return x;
}
static attn_out attn__mpi_dense_out(
    void *data, int32_t dtype, int64_t tokens, int64_t heads, int64_t dim) {
    attn_out x = {data, {tokens * heads * dim, heads * dim, dim}, dtype, ATTN_BSHD};
    return x;
}

/* The lengths of a run of n sequences from b on: of what lies in the block. */
static void attn__mpi_lengths(
    attn__mpi *job, const attn__chunk *q, const attn__chunk *k, int64_t b, int64_t n, attn_seq *s) {
    const attn_desc *d = &job->all;
    const attn_seq *in = &d->seq;
    int32_t *cu_q = job->lengths[0], *cu_k = job->lengths[1], *used_q = job->lengths[2],
            *used_k = job->lengths[3], *start_k = job->lengths[4];
    const int lengths_k = in->cu_k || in->used_k || in->start_k;
    memset(s, 0, sizeof *s);
    if (!in->cu_q && !in->used_q && !lengths_k) return;
    const attn__sequence_view first = attn__mpi_view(d, b, q, k);
    for (int64_t i = 0; i < n; i++) {
        const attn__sequence_view v = attn__mpi_view(d, b + i, q, k);
        cu_q[i] = (int32_t)(v.q_first - first.q_first);
        cu_q[i + 1] = (int32_t)(v.q_first + v.q_rows - first.q_first);
        used_q[i] = (int32_t)v.q_used;
        start_k[i] = (int32_t)v.k_first;
        used_k[i] = (int32_t)(in->cu_k ? v.k_len : v.k_first + v.k_len);
        cu_k[i] = (int32_t)(v.k_first - first.k_first);
        cu_k[i + 1] = (int32_t)(v.k_first + v.k_len - first.k_first);
    }
    if (in->cu_q) {
        s->cu_q = cu_q;
        s->total_q = cu_q[n];
    }
    if (in->used_q) s->used_q = used_q;
    if (lengths_k) s->used_k = used_k;
    if (in->cu_k) {
        s->cu_k = cu_k;
        s->total_k = cu_k[n];
    } else if (lengths_k) s->start_k = start_k;
}
/* The description of a run, but for what it writes; where its rows lie. */
static attn_desc attn__mpi_run_desc(attn__mpi *job, const attn__chunk *q, const attn__chunk *k,
    int64_t b, int64_t n, attn__place *at) {
    const attn__sequence_view v = attn__mpi_view(&job->all, b, q, k);
    const int packed_q = job->all.seq.cu_q != NULL, packed_k = job->all.seq.cu_k != NULL;
    attn_desc d = job->own;
    attn__mpi_lengths(job, q, k, b, n, &d.seq);
    d.batch = n;
    d.q_len = packed_q ? d.seq.total_q : q->last - q->first;
    d.kv_len = packed_k ? d.seq.total_k : k->last - k->first;
    d.flags = (d.flags & ~(uint32_t)(ATTN_TOP_LEFT | ATTN_ACCUMULATE)) | ATTN_OFFSET;
    d.offset = v.offset;
    d.sink = NULL;
    at->batch = packed_q ? 0 : b;
    at->batches = packed_q ? 1 : n;
    at->token = q->at + (packed_q ? v.q_first : 0);
    at->tokens = d.q_len;
    const int64_t k_batch = packed_k ? 0 : b, k_token = k->at + (packed_k ? v.k_first : 0);
    d.q = attn__mpi_in(&job->own.q, at->batch, at->token);
    d.k = attn__mpi_in(&job->k, k_batch, k_token);
    d.v = attn__mpi_in(&job->v, k_batch, k_token);
    return d;
}
/* One call of the library, in a workspace that is kept for the next. What fails is told to all
 * ranks at the end: until then they need this one's messages. */
static void attn__mpi_run(attn__mpi *job, attn_desc *d, const attn_grad *g) {
    attn_plan plan;
    const double start = MPI_Wtime();
    if (job->status) return;
    job->status = attn_query(d, g, &plan);
    if (!job->status && !job->gpu && plan.workspace_size > job->work_size) {
        attn__put(d->alloc, job->work, job->work_size);
        job->work = attn__get(d->alloc, plan.workspace_size);
        job->work_size = job->work ? plan.workspace_size : 0;
        if (!job->work) attn__mpi_no_memory(job);
    }
    if (job->status) return;
    d->workspace = job->work_size ? job->work : NULL;
    d->workspace_size = job->work_size;
    job->status = g ? attn_backward(d, g) : attn_forward(d);
    job->times.compute += MPI_Wtime() - start;
}

/* ---- forward */
/* One row more of what is joined: state and part are [max, sum, x], x / sum the row's o. It is
 * attn_merge's arithmetic with the division at the end. Returns the weight of x. */
static double attn__mpi_join(double *state, int64_t v_dim, double max, double sum) {
    const double old = state[0];
    const int first = attn__bits64(state[1]) << 1 == 0;
    if (attn__is_neg_inf(max)) return 0;
    if (!first && !(max > old) && !attn__is_nan(max)) {
        const double weight = attn__exp(max - old);
        state[1] += weight * sum;
        return weight;
    }
    const double shrink = first ? 0 : attn__exp(old - max), one = attn__exp(max - max);
    state[0] = max;
    state[1] = state[1] * shrink + one * sum; /* NaN of an infinity */
    for (int64_t c = 0; c < v_dim; c++) state[2 + c] *= shrink;
    return one;
}
static double *attn__mpi_state(const attn_joining *j, int64_t b, int64_t i, int64_t h) {
    const int64_t token = (j->batch + b) * j->tokens + j->token + i;
    return j->state + (token * j->heads + h) * (j->v_dim + 2);
}
/* Part (batch entry, head) n of a block's o and lse. */
static void attn__mpi_join_task(void *arg, int64_t n) {
    const attn_joining *j = (const attn_joining *)arg;
    const int64_t b = n / j->heads, h = n % j->heads;
    const float *lse = j->lse + n * j->rows;
    uint64_t fp = attn__fp_enter(0);
    for (int64_t i = 0; i < j->rows; i++) {
        const int64_t *step = j->o.stride, from = b * step[0] + i * step[1] + h * step[2];
        double *state = attn__mpi_state(j, b, i, h), *x = state + 2;
        if (attn__is_neg_inf((double)lse[i])) continue; /* o is not read */
        const double weight = attn__mpi_join(state, j->v_dim, (double)lse[i], 1);
        if (j->o.dtype == ATTN_F64)
            for (int64_t c = 0; c < j->v_dim; c++) x[c] += weight * ((double *)j->o.data)[from + c];
        else
            for (int64_t c = 0; c < j->v_dim; c++)
                x[c] += weight * (double)((float *)j->o.data)[from + c];
    }
    attn__fp_leave(fp);
}
/* o and lse of (batch entry, head) n, from what is joined and the sink. */
static void attn__mpi_finish_task(void *arg, int64_t n) {
    const attn_joining *j = (const attn_joining *)arg;
    const int64_t b = n / j->heads, h = n % j->heads;
    uint64_t fp = attn__fp_enter(0);
    for (int64_t i = 0; i < j->rows; i++) {
        const int64_t *step = j->o.stride, to = b * step[0] + i * step[1] + h * step[2];
        double *state = attn__mpi_state(j, b, i, h);
        const int keys = attn__bits64(state[1]) << 1 != 0;
        if (j->sink) attn__mpi_join(state, j->v_dim, (double)j->sink[h], 1);
        const int empty = attn__bits64(state[1]) << 1 == 0;
        for (int64_t c = 0; c < j->v_dim; c++)
            attn__put_f64(j->o.data, j->o.dtype, to + c, keys ? state[2 + c] / state[1] : 0);
        if (j->lse)
            j->lse[n * j->rows + i] = attn__nearest_f32(
                empty ? -attn__double(0x7ff0000000000000u) : state[0] + attn__log(state[1]));
    }
    attn__fp_leave(fp);
}
/* All rows of this rank's queries. */
static attn_joining attn__mpi_joining(const attn__mpi *job) {
    attn_joining j;
    memset(&j, 0, sizeof j);
    j.state = (double *)(void *)job->state.at;
    j.tokens = j.rows = job->q_own;
    j.heads = job->own.heads;
    j.v_dim = job->own.v_dim;
    j.batches = job->q_batch;
    return j;
}
static int64_t attn__mpi_state_bytes(const attn__mpi *job) {
    return job->q_batch * job->q_own * job->own.heads * (job->own.v_dim + 2) * 8;
}
static void attn__mpi_forward_run(
    attn__mpi *job, const attn__chunk *q, const attn__chunk *k, int64_t b, int64_t n) {
    attn__place at;
    attn_joining j = attn__mpi_joining(job);
    attn_desc d = attn__mpi_run_desc(job, q, k, b, n, &at);
    d.o = attn__mpi_dense_out(
        job->part, job->wide ? ATTN_F64 : ATTN_F32, at.tokens, d.heads, d.v_dim);
    d.lse = job->part_lse;
    attn__mpi_run(job, &d, NULL);
    j.o = d.o;
    j.lse = d.lse;
    j.batch = at.batch;
    j.batches = at.batches;
    j.token = at.token;
    j.rows = at.tokens;
    if (job->status) return;
    if (job->gpu) job->status = job->gpu->device->join(job->gpu->user, &job->own, &j);
    else
        attn__mpi_parallel(job, j.batches * j.rows * j.heads * j.v_dim, attn__mpi_join_task, &j,
            j.batches * j.heads);
}
static void attn__mpi_finish(attn__mpi *job) {
    attn_joining j = attn__mpi_joining(job);
    j.o = job->own.o;
    j.lse = job->own.lse;
    j.sink = job->own.sink;
    if (job->gpu) job->status = job->gpu->device->finish(job->gpu->user, &job->own, &j);
    else
        attn__mpi_parallel(job, j.batches * j.rows * j.heads * j.v_dim, attn__mpi_finish_task, &j,
            j.batches * j.heads);
}

/* ---- tensors of the ranks */
static attn__piece attn__mpi_piece(
    const void *data, const int64_t *stride, int32_t dtype, int64_t heads, int64_t dim) {
    attn__piece p = {(void *)(uintptr_t)data, {stride[0], stride[1], stride[2]}, heads, dim, dtype};
    return p;
}
/* On a device bytes are copied: any dtype; or added, in a float type. */
static void attn__mpi_device_copy(
    attn__mpi *job, int64_t *shape, attn_in *src, attn_out *dst, int add) {
    attn_desc where = job->own;
    where.flags = ATTN_DEVICE | (add ? ATTN_ACCUMULATE : 0);
    for (int a = 0; a < 3 && src->dtype == dst->dtype && !add; a++) {
        src->stride[a] = attn__bytes(src->dtype, src->stride[a]);
        dst->stride[a] = attn__bytes(src->dtype, dst->stride[a]);
    }
    if (src->dtype == dst->dtype && !add) {
        shape[3] = attn__bytes(src->dtype, shape[3]);
        src->dtype = dst->dtype = ATTN_INT8;
    }
    if (!job->status) job->status = job->gpu->convert(job->gpu->user, shape, src, dst, &where);
}
static void attn__mpi_move_piece(attn__mpi *job, int64_t batch, int64_t tokens,
    const attn__piece *from, const attn__piece *to, int add) {
    int64_t shape[4] = {batch, tokens, from->heads, from->dim};
    attn_in src;
    attn_out dst = {to->data, {to->stride[0], to->stride[1], to->stride[2]}, to->dtype, ATTN_BSHD};
    memset(&src, 0, sizeof src);
    src.data = from->data;
    src.dtype = from->dtype;
    memcpy(src.stride, from->stride, sizeof src.stride);
    const int64_t elements = batch * tokens * from->heads * from->dim;
    if (elements <= 0) return;
    if (job->gpu) attn__mpi_device_copy(job, shape, &src, &dst, add);
    else attn__convert(shape, &src, &dst, elements, &job->own);
}
static void attn__mpi_copy(
    attn__mpi *job, int64_t batch, int64_t tokens, const attn__piece *from, const attn__piece *to) {
    attn__mpi_move_piece(job, batch, tokens, from, to, 0);
}
/* lse or dlse of the rows of a run, dense. */
static const float *attn__mpi_rows(
    attn__mpi *job, const attn__place *at, const float *from, float *to) {
    const int64_t heads = job->own.heads, in[3] = {0, job->q_own, 0}, out[3] = {0, at->tokens, 0};
    if (!from) return NULL;
    const attn__piece all = attn__mpi_piece(from + at->batch * heads * job->q_own + at->token, in,
                          ATTN_F32, 1, at->tokens),
                      own = attn__mpi_piece(to, out, ATTN_F32, 1, at->tokens);
    attn__mpi_copy(job, 1, at->batches * heads, &all, &own);
    return to;
}

/* ---- backward */
/* What a backward of a run reads of its rows, and dq. */
static void attn__mpi_grad_rows(attn__mpi *job, const attn__place *at, attn_desc *d, attn_grad *g) {
    memset(g, 0, sizeof *g);
    d->o = attn__mpi_out(&job->own.o, at->batch, at->token);
    d->lse = job->part_lse;
    attn__mpi_rows(job, at, job->own.lse, job->part_lse);
    g->dlse = attn__mpi_rows(job, at, job->g.dlse, job->part_dlse);
    g->dout = attn__mpi_in(&job->g.dout, at->batch, at->token);
    g->dq = attn__mpi_dense_out(
        job->dq, job->wide ? ATTN_F64 : ATTN_F32, job->q_own, d->heads, d->head_dim);
    g->dq = attn__mpi_out(&g->dq, at->batch, at->token);
}
static void attn__mpi_backward_run(attn__mpi *job, float *grads, const attn__chunk *q,
    const attn__chunk *k, int64_t b, int64_t n) {
    attn__place at;
    attn_desc d = attn__mpi_run_desc(job, q, k, b, n, &at);
    attn_grad g;
    const int packed_k = job->all.seq.cu_k != NULL;
    const attn__sequence_view v = attn__mpi_view(&job->all, b, q, k);
    const int64_t k_batch = packed_k ? 0 : b, token = k->at + (packed_k ? v.k_first : 0);
    attn__mpi_grad_rows(job, &at, &d, &g);
    d.flags |= ATTN_ACCUMULATE;
    g.dk = attn__mpi_dense_out(grads, ATTN_F32, job->tokens, d.kv_heads, d.head_dim);
    g.dv = attn__mpi_dense_out(
        grads + job->k_batch * g.dk.stride[0], ATTN_F32, job->tokens, d.kv_heads, d.v_dim);
    g.dk = attn__mpi_out(&g.dk, k_batch, token);
    g.dv = attn__mpi_out(&g.dv, k_batch, token);
    attn__mpi_run(job, &d, &g);
}
/* dsink of some rows, by a call of theirs without keys: it follows from o, dout, lse and dlse. */
static void attn__mpi_sinks_run(attn__mpi *job, const attn__chunk *q) {
    const int64_t heads = job->own.heads;
    const int32_t *cu = job->all.seq.cu_q;
    const attn__chunk none = {0, 0, 0};
    attn__place at;
    attn_grad g;
    int64_t b = 0, end = job->all.batch;
    if (cu) {
        b = attn__mpi_sequence_at(cu, end, q->first);
        end = attn__mpi_sequence_at(cu, end, q->last - 1) + 1;
    }
    attn_desc d = attn__mpi_run_desc(job, q, &none, b, end - b, &at);
    attn__mpi_grad_rows(job, &at, &d, &g);
    memset(&d.k, 0, sizeof d.k);
    memset(&d.v, 0, sizeof d.v);
    d.k.dtype = job->own.k.dtype;
    d.v.dtype = job->own.v.dtype;
    d.seq.cu_k = d.seq.used_k = d.seq.start_k = NULL;
    d.kv_len = d.seq.total_k = 0;
    d.sink = job->own.sink;
    g.dsink = (float *)(void *)job->sinks.at;
    attn__mpi_run(job, &d, &g);
    attn__mpi_device(job, job->sinks.host, job->sinks.at, heads * 4, 1);
    if (job->status) return;
    for (int64_t h = 0; h < heads; h++)
        job->dsink[h] += (double)((float *)(void *)job->sinks.host)[h];
}
/* The sum over this rank's rows, then those of all ranks. */
static void attn__mpi_sinks(attn__mpi *job) {
    attn__chunk q[2];
    const int64_t heads = job->own.heads;
    const int chunks = attn__mpi_queries(job, job->rank, q);
    memset(job->dsink, 0, (size_t)heads * sizeof *job->dsink);
    for (int c = 0; c < chunks; c++)
        for (int64_t n = 0; n < attn__mpi_slices(&q[c]); n++) {
            const attn__chunk rows = attn__mpi_slice(&q[c], n);
            if (rows.first < rows.last && job->all.batch) attn__mpi_sinks_run(job, &rows);
        }
    attn__mpi_ok(job, MPI_Allgather(job->dsink, (int)heads, MPI_DOUBLE, job->dsink + heads,
                          (int)heads, MPI_DOUBLE, job->comm));
}
/* x, or old + x, into a gradient of the caller: token n of all batch entries. */
typedef struct attn__storing {
    const void *from; /* dense, f32 or f64 */
    const attn_out *to;
    int64_t tokens, heads, dim;
    int32_t dtype;
    int accumulate;
} attn__storing;
static void attn__mpi_store_task(void *arg, int64_t n) {
    const attn__storing *s = (const attn__storing *)arg;
    const attn_out *to = s->to;
    uint64_t fp = attn__fp_enter(0);
    for (int64_t h = 0; h < s->heads; h++) {
        const int64_t at = n / s->tokens * to->stride[0] + n % s->tokens * to->stride[1] +
                           h * to->stride[2],
                      from = (n * s->heads + h) * s->dim;
        for (int64_t c = 0; c < s->dim; c++) {
            double x = attn__get_f64(s->from, s->dtype, from + c);
            if (s->accumulate) x += attn__get_f64(to->data, to->dtype, at + c);
            attn__put_f64(to->data, to->dtype, at + c, x);
        }
    }
    attn__fp_leave(fp);
}
static void attn__mpi_store(
    attn__mpi *job, const attn_out *to, const void *from, int32_t dtype, int keys, int64_t dim) {
    attn__storing s = {from, to, keys ? job->k_own : job->q_own,
        keys ? job->own.kv_heads : job->own.heads, dim, dtype,
        (job->own.flags & ATTN_ACCUMULATE) != 0};
    if (job->gpu) {
        const int64_t stride[3] = {s.tokens * s.heads * dim, s.heads * dim, dim};
        const attn__piece a = attn__mpi_piece(from, stride, dtype, s.heads, dim),
                          b = attn__mpi_piece(to->data, to->stride, to->dtype, s.heads, dim);
        attn__mpi_move_piece(
            job, keys ? job->k_batch : job->q_batch, s.tokens, &a, &b, s.accumulate);
        return;
    }
    attn__mpi_parallel(job, (keys ? job->k_batch : job->q_batch) * s.tokens * s.heads * dim,
        attn__mpi_store_task, &s, (keys ? job->k_batch : job->q_batch) * s.tokens);
}
static void attn__mpi_store_all(attn__mpi *job, const void *dk, const void *dv, int32_t dtype) {
    const attn_desc *d = &job->own;
    attn__mpi_store(job, &job->g.dq, job->dq, job->wide ? ATTN_F64 : ATTN_F32, 0, d->head_dim);
    attn__mpi_store(job, &job->g.dk, dk, dtype, 1, d->head_dim);
    attn__mpi_store(job, &job->g.dv, dv, dtype, 1, d->v_dim);
    if (!job->g.dsink) return;
    float *dsink = job->gpu ? (float *)(void *)job->sinks.host : job->g.dsink;
    if (d->flags & ATTN_ACCUMULATE) attn__mpi_device(job, dsink, job->g.dsink, d->heads * 4, 1);
    for (int64_t h = 0; h < d->heads; h++) {
        double sum = d->flags & ATTN_ACCUMULATE ? (double)dsink[h] : 0;
        for (int r = 1; r <= job->ranks; r++) sum += job->dsink[r * d->heads + h];
        dsink[h] = (float)sum;
    }
    attn__mpi_device(job, job->g.dsink, dsink, d->heads * 4, 0);
}

/* ---- the ring */
/* This rank's queries against the keys at hand, those of `source`. */
static void attn__mpi_part(attn__mpi *job, int source, float *grads) {
    attn__chunk q[2], k[2];
    const int qs = attn__mpi_queries(job, job->rank, q), ks = attn__mpi_keys(job, source, k);
    for (int a = 0; a < qs; a++)
        for (int64_t slice = 0; slice < ks * attn__mpi_slices(&q[a]); slice++) {
            const attn__chunk rows = attn__mpi_slice(&q[a], slice / ks), *keys = &k[slice % ks];
            int64_t b, end, n;
            attn__mpi_sequences(&job->all, &rows, keys, &b, &end);
            for (; b < end; b += n) {
                const attn__sequence_view v = attn__mpi_view(&job->all, b, &rows, keys);
                n = 1;
                if (!attn__mpi_sees(&job->all, &v)) continue;
                for (; b + n < end; n++) {
                    const attn__sequence_view w = attn__mpi_view(&job->all, b + n, &rows, keys);
                    if (w.offset != v.offset || !attn__mpi_sees(&job->all, &w)) break;
                }
                if (job->kind == ATTN__MPI_BACKWARD)
                    attn__mpi_backward_run(job, grads, &rows, keys, b, n);
                else attn__mpi_forward_run(job, &rows, keys, b, n);
                attn__mpi_progress(job);
            }
        }
}
/* Where k, v and their scales lie in the message of a rank's keys; the bytes of it. */
static int64_t attn__mpi_message(const attn__mpi *job, int64_t tokens, int64_t at[4]) {
    const attn_desc *d = &job->own;
    const int64_t rows = job->k_batch * tokens * d->kv_heads;
    at[0] = 0;
    at[1] = attn__round_up(attn__bytes(d->k.dtype, rows * d->head_dim), ATTN__ALIGN);
    at[2] = at[1] + attn__round_up(attn__bytes(d->v.dtype, rows * d->v_dim), ATTN__ALIGN);
    at[3] = at[2] + (d->k.scale ? attn__round_up(rows * 4, ATTN__ALIGN) : 0);
    return at[3] + (d->v.scale ? rows * 4 : 0);
}
/* f32 numbers of dk and dv of so many tokens. */
static int64_t attn__mpi_grads(const attn__mpi *job, int64_t tokens) {
    return job->k_batch * tokens * job->own.kv_heads * (job->own.head_dim + job->own.v_dim);
}
/* The keys at hand are those of this message. */
static void attn__mpi_open(attn__mpi *job, int source, const char *message) {
    const attn_desc *d = &job->own;
    int64_t at[4];
    job->tokens = attn__mpi_held(job, source);
    attn__mpi_message(job, job->tokens, at);
    job->k = attn__mpi_dense_in(message, d->k.dtype, job->tokens, d->kv_heads, d->head_dim);
    job->v = attn__mpi_dense_in(message + at[1], d->v.dtype, job->tokens, d->kv_heads, d->v_dim);
    if (d->k.scale) job->k.scale = (const float *)(const void *)(message + at[2]);
    if (d->v.scale) job->v.scale = (const float *)(const void *)(message + at[3]);
}
/* The rank's own keys, dense. */
static void attn__mpi_pack(attn__mpi *job) {
    const attn_desc *d = &job->own;
    attn__mpi_open(job, job->rank, job->message[0].at);
    const attn_in *from[2] = {&d->k, &d->v}, *to[2] = {&job->k, &job->v};
    const int64_t dim[2] = {d->head_dim, d->v_dim};
    for (int i = 0; i < 2; i++) {
        attn__piece a = attn__mpi_piece(
                        from[i]->data, from[i]->stride, from[i]->dtype, d->kv_heads, dim[i]),
                    b = attn__mpi_piece(
                        to[i]->data, to[i]->stride, to[i]->dtype, d->kv_heads, dim[i]);
        attn__mpi_copy(job, job->k_batch, job->k_own, &a, &b);
        if (!from[i]->scale) continue;
        a = attn__mpi_piece(from[i]->scale, from[i]->scale_stride, ATTN_F32, d->kv_heads, 1);
        b = attn__mpi_piece(to[i]->scale, to[i]->scale_stride, ATTN_F32, d->kv_heads, 1);
        attn__mpi_copy(job, job->k_batch, job->k_own, &a, &b);
    }
}
static int attn__mpi_source(const attn__mpi *job, int step) {
    return (job->rank - step + 2 * job->ranks) % job->ranks;
}
typedef struct attn__adding {
    float *to;
    const float *from;
    int64_t count;
} attn__adding;
#define ATTN__ADD_BLOCK 65536
static void attn__mpi_add_task(void *arg, int64_t n) {
    const attn__adding *a = (const attn__adding *)arg;
    const int64_t last = attn__min(a->count, (n + 1) * ATTN__ADD_BLOCK);
    uint64_t fp = attn__fp_enter(0);
    for (int64_t i = n * ATTN__ADD_BLOCK; i < last; i++) a->to[i] += a->from[i];
    attn__fp_leave(fp);
}
/* Gradients of the keys at hand. */
static void attn__mpi_add(attn__mpi *job, void *to, const void *from) {
    const int64_t dim = job->own.head_dim + job->own.v_dim, stride[3] = {0, dim, dim};
    attn__adding add = {(float *)to, (const float *)from, attn__mpi_grads(job, job->tokens)};
    const attn__piece a = attn__mpi_piece(from, stride, ATTN_F32, 1, dim),
                      b = attn__mpi_piece(to, stride, ATTN_F32, 1, dim);
    if (job->gpu) attn__mpi_move_piece(job, 1, add.count / dim, &a, &b, 1);
    else
        attn__mpi_parallel(
            job, add.count, attn__mpi_add_task, &add, attn__ceil_div(add.count, ATTN__ADD_BLOCK));
}
/* dk and dv of the keys at hand: this rank's added to what came with them, and passed on, or
 * home where nobody follows who needs the keys. */
static void attn__mpi_backward_step(attn__mpi *job, int step, int source) {
    const int next = (job->rank + 1) % job->ranks;
    attn__buffer *here = &job->turn[step % 2];
    const int64_t bytes = attn__mpi_grads(job, job->tokens) * 4;
    attn__flight *sent = &job->sent[step % 2];
    attn__mpi_wait(job, sent); /* of two steps before */
    if (step > 0)
        attn__mpi_receive(job, &job->coming, &job->came, 0, bytes,
            (job->rank + job->ranks - 1) % job->ranks, ATTN__TAG_GRADS);
    attn__mpi_zero(job, here->at, bytes);
    attn__mpi_part(job, source, (float *)(void *)here->at);
    attn__mpi_wait(job, &job->coming);
    if (step > 0) {
        attn__mpi_land(job, &job->came, bytes);
        attn__mpi_add(job, here->at, job->came.at);
    }
    if (step > 0 || step < job->hops[source]) attn__mpi_leave(job, here, 0, bytes);
    if (step < job->hops[source]) attn__mpi_send(job, sent, here, 0, bytes, next, ATTN__TAG_GRADS);
    else if (step > 0) attn__mpi_send(job, sent, here, 0, bytes, source, ATTN__TAG_HOME);
    else attn__mpi_add(job, job->home.at, here->at); /* to zeros */
}
/* In step n a rank works on the keys of the rank n before it, and gets those of the next step. No
 * step waits for one that is not before it in this count: nothing can lock. */
static void attn__mpi_ring(attn__mpi *job) {
    const int next = (job->rank + 1) % job->ranks, back = job->hops[job->rank],
              previous = (job->rank + job->ranks - 1) % job->ranks;
    int64_t at[4];
    const int64_t home = attn__mpi_grads(job, job->k_own) * 4;
    attn__mpi_pack(job);
    if (job->kind == ATTN__MPI_BACKWARD && back > 0)
        attn__mpi_receive(job, &job->homing, &job->home, 0, home, (job->rank + back) % job->ranks,
            ATTN__TAG_HOME);
    else if (job->kind == ATTN__MPI_BACKWARD) attn__mpi_zero(job, job->home.at, home);
    for (int step = 0; step < job->ranks; step++) {
        const int source = attn__mpi_source(job, step), after = attn__mpi_source(job, step + 1);
        const attn__buffer *here = &job->message[step % 2], *there = &job->message[(step + 1) % 2];
        const int64_t coming = attn__mpi_message(job, attn__mpi_held(job, after), at),
                      going = attn__mpi_message(job, attn__mpi_held(job, source), at);
        const int comes = step + 1 <= job->hops[after];
        if (comes) attn__mpi_receive(job, &job->keys, there, 0, coming, previous, ATTN__TAG_KEYS);
        if (step == 0) attn__mpi_leave(job, here, 0, going); /* the others came */
        if (step < job->hops[source])
            attn__mpi_send(job, &job->keys, here, 0, going, next, ATTN__TAG_KEYS);
        if (step <= job->hops[source]) {
            attn__mpi_open(job, source, here->at);
            if (job->kind == ATTN__MPI_BACKWARD) attn__mpi_backward_step(job, step, source);
            else attn__mpi_part(job, source, NULL);
        }
        attn__mpi_wait(job, &job->keys);
        if (comes) attn__mpi_land(job, there, coming);
    }
    attn__mpi_wait(job, &job->sent[0]);
    attn__mpi_wait(job, &job->sent[1]);
    attn__mpi_wait(job, &job->homing);
    if (job->kind == ATTN__MPI_BACKWARD && back > 0) attn__mpi_land(job, &job->home, home);
}

/* ---- Ulysses: all tokens of some heads here, some tokens of all heads there */
/* `full` is dense and has heads / ranks heads; `out`: from full to own, else from own to full. */
typedef struct attn__move {
    attn__piece own, full;
    int64_t batch;
    int keys, out;
} attn__move;
static attn__piece attn__mpi_stage(const attn__move *m, char *at, int64_t tokens) {
    const int64_t row = m->full.heads * m->full.dim, stride[3] = {tokens * row, row, m->full.dim};
    return attn__mpi_piece(at, stride, m->full.dtype, m->full.heads, m->full.dim);
}
static attn__piece attn__mpi_from(const attn__piece *p, int64_t token, int64_t head) {
    attn__piece x = *p;
    x.data = (char *)x.data + attn__bytes(p->dtype, token * p->stride[1] + head * p->stride[2]);
    x.heads = p->heads;
    return x;
}
/* One of the two sides for rank r, in or out of its message `at`. */
static void attn__mpi_move_side(
    attn__mpi *job, const attn__move *m, int r, int full_side, int pack, char *at) {
    attn__chunk c[2];
    const int n = m->keys ? attn__mpi_keys(job, full_side ? r : job->rank, c)
                          : attn__mpi_queries(job, full_side ? r : job->rank, c);
    const int64_t tokens = c[n - 1].at + c[n - 1].last - c[n - 1].first;
    const attn__piece stage = attn__mpi_stage(m, at, tokens);
    for (int i = 0; i < n; i++) {
        attn__piece a = full_side ? attn__mpi_from(&m->full, c[i].first, 0)
                                  : attn__mpi_from(&m->own, c[i].at, r * m->full.heads),
                    b = attn__mpi_from(&stage, c[i].at, 0);
        a.heads = m->full.heads;
        attn__mpi_copy(job, m->batch, c[i].last - c[i].first, pack ? &a : &b, pack ? &b : &a);
    }
}
static void attn__mpi_move(attn__mpi *job, const attn__move *m) {
    const int64_t *cut = m->keys ? job->m->k_cut : job->m->q_cut;
    const int64_t token = m->batch * m->full.heads * attn__bytes(m->full.dtype, m->full.dim),
                  own = (m->keys ? job->k_own : job->q_own) * token;
    int64_t out = 0, in = 0;
    for (int r = 0; r < job->ranks; r++) {
        const int64_t full = attn_mpi_tokens(cut, job->m->split, job->ranks, r) * token,
                      bytes = m->out ? own : full;
        attn__mpi_receive(job, &job->keys, &job->message[1], in, bytes, r, ATTN__TAG_HEADS);
        in += bytes;
    }
    for (int r = 0; r < job->ranks; r++) {
        const int64_t full = attn_mpi_tokens(cut, job->m->split, job->ranks, r) * token,
                      bytes = m->out ? full : own;
        attn__mpi_move_side(job, m, r, m->out, 1, job->message[0].at + out);
        attn__mpi_leave(job, &job->message[0], out, bytes);
        attn__mpi_send(job, &job->keys, &job->message[0], out, bytes, r, ATTN__TAG_HEADS);
        out += bytes;
    }
    attn__mpi_wait(job, &job->keys);
    attn__mpi_land(job, &job->message[1], in);
    in = 0;
    for (int r = 0; r < job->ranks; r++) {
        attn__mpi_move_side(job, m, r, !m->out, 0, job->message[1].at + in);
        in += m->out ? own : attn_mpi_tokens(cut, job->m->split, job->ranks, r) * token;
    }
}
/* Moves a tensor of the call, whose whole is `full`. */
static void attn__mpi_move_tensor(attn__mpi *job, const void *own, const int64_t *stride,
    int32_t dtype, void *full, int64_t dim, int keys, int out) {
    attn__move m;
    const int64_t heads = (keys ? job->own.kv_heads : job->own.heads), each = heads / job->ranks,
                  tokens = keys ? attn__mpi_all_keys(job) : attn__mpi_all_queries(job),
                  dense[3] = {tokens * each * dim, each * dim, dim};
    m.own = attn__mpi_piece(own, stride, dtype, heads, dim);
    m.full = attn__mpi_piece(full, dense, dtype, each, dim);
    m.batch = keys ? job->k_batch : job->q_batch;
    m.keys = keys;
    m.out = out;
    attn__mpi_move(job, &m);
}
/* The same for lse and dlse, [batch, heads, tokens]. */
static void attn__mpi_move_rows(attn__mpi *job, const float *own, float *full, int out) {
    attn__move m;
    const int64_t heads = job->own.heads, each = heads / job->ranks,
                  tokens = attn__mpi_all_queries(job), a[3] = {heads * job->q_own, 1, job->q_own},
                  b[3] = {each * tokens, 1, tokens};
    m.own = attn__mpi_piece(own, a, ATTN_F32, heads, 1);
    m.full = attn__mpi_piece(full, b, ATTN_F32, each, 1);
    m.batch = job->q_batch;
    m.keys = 0;
    m.out = out;
    attn__mpi_move(job, &m);
}
/* Memory for the whole of a tensor's heads. */
static void *attn__mpi_full(attn__mpi *job, int keys, int32_t dtype, int64_t dim) {
    const int64_t rows = keys ? job->k_batch * attn__mpi_all_keys(job) * job->own.kv_heads
                              : job->q_batch * attn__mpi_all_queries(job) * job->own.heads;
    return attn__mpi_hold(job, attn__bytes(dtype, rows / job->ranks * dim));
}
typedef struct attn__heads {
    void *q, *k, *v, *o, *dout, *dq, *dk, *dv;
    float *lse, *dlse, *k_scale, *v_scale;
} attn__heads;
static void attn__mpi_heads_memory(attn__mpi *job, attn__heads *f) {
    const attn_desc *d = &job->own;
    const int back = job->kind == ATTN__MPI_BACKWARD;
    const int32_t grads = job->wide ? ATTN_F64 : ATTN_F32;
    memset(f, 0, sizeof *f);
    f->q = attn__mpi_full(job, 0, d->q.dtype, d->head_dim);
    f->k = attn__mpi_full(job, 1, d->k.dtype, d->head_dim);
    f->v = attn__mpi_full(job, 1, d->v.dtype, d->v_dim);
    f->o = attn__mpi_full(job, 0, d->o.dtype, d->v_dim);
    f->lse = (float *)attn__mpi_full(job, 0, ATTN_F32, 1);
    if (d->k.scale) f->k_scale = (float *)attn__mpi_full(job, 1, ATTN_F32, 1);
    if (d->v.scale) f->v_scale = (float *)attn__mpi_full(job, 1, ATTN_F32, 1);
    if (back) {
        f->dout = attn__mpi_full(job, 0, job->g.dout.dtype, d->v_dim);
        f->dq = attn__mpi_full(job, 0, grads, d->head_dim);
        f->dk = attn__mpi_full(job, 1, grads, d->head_dim);
        f->dv = attn__mpi_full(job, 1, grads, d->v_dim);
        if (job->g.dlse || !job->q_own) f->dlse = (float *)attn__mpi_full(job, 0, ATTN_F32, 1);
        job->dq = attn__mpi_hold(
            job, attn__bytes(grads, job->q_batch * job->q_own * d->heads * d->head_dim));
        const int64_t rows = job->k_batch * job->k_own * d->kv_heads;
        job->home.at =
            (char *)attn__mpi_hold(job, attn__bytes(grads, rows * (d->head_dim + d->v_dim)));
    }
    /* messages: the largest tensor, as the whole of some heads and as some tokens of all */
    const int64_t dim = attn__max(d->head_dim, d->v_dim) * 8,
                  full = attn__max(job->q_batch * attn__mpi_all_queries(job) * d->heads,
                             job->k_batch * attn__mpi_all_keys(job) * d->kv_heads) /
                         job->ranks,
                  own = attn__max(job->q_batch * job->q_own * d->heads,
                      job->k_batch * job->k_own * d->kv_heads),
                  most = attn__max(full, own) * dim;
    for (int i = 0; i < 2; i++) job->message[i] = attn__mpi_buffer(job, most);
    attn__mpi_flight(job, &job->keys, 2 * job->ranks, 2 * most);
}
/* The call of this rank's heads. */
static attn_desc attn__mpi_heads_desc(attn__mpi *job, const attn__heads *f) {
    attn_desc d = job->all;
    const int64_t each = d.heads / job->ranks, kv_each = d.kv_heads / job->ranks,
                  queries = attn__mpi_all_queries(job), keys = attn__mpi_all_keys(job);
    const attn_out o = attn__mpi_dense_out(f->o, d.o.dtype, queries, each, d.v_dim);
    d.q = attn__mpi_dense_in(f->q, d.q.dtype, queries, each, d.head_dim);
    d.k = attn__mpi_dense_in(f->k, d.k.dtype, keys, kv_each, d.head_dim);
    d.v = attn__mpi_dense_in(f->v, d.v.dtype, keys, kv_each, d.v_dim);
    d.k.scale = f->k_scale;
    d.v.scale = f->v_scale;
    d.o = o;
    d.lse = f->lse;
    if (d.alibi) d.alibi += job->rank * each;
    if (d.sink) d.sink += job->rank * each;
    d.heads = each;
    d.kv_heads = kv_each;
    d.flags &= ~(uint32_t)ATTN_ACCUMULATE;
    d.message = NULL;
    d.message_size = 0;
    return d;
}
static void attn__mpi_heads_in(attn__mpi *job, const attn__heads *f) {
    const attn_desc *d = &job->own;
    attn__mpi_move_tensor(job, d->q.data, d->q.stride, d->q.dtype, f->q, d->head_dim, 0, 0);
    attn__mpi_move_tensor(job, d->k.data, d->k.stride, d->k.dtype, f->k, d->head_dim, 1, 0);
    attn__mpi_move_tensor(job, d->v.data, d->v.stride, d->v.dtype, f->v, d->v_dim, 1, 0);
    if (d->k.scale)
        attn__mpi_move_tensor(job, d->k.scale, d->k.scale_stride, ATTN_F32, f->k_scale, 1, 1, 0);
    if (d->v.scale)
        attn__mpi_move_tensor(job, d->v.scale, d->v.scale_stride, ATTN_F32, f->v_scale, 1, 1, 0);
    if (job->kind != ATTN__MPI_BACKWARD) return;
    const attn_in *dout = &job->g.dout;
    attn__mpi_move_tensor(job, d->o.data, d->o.stride, d->o.dtype, f->o, d->v_dim, 0, 0);
    attn__mpi_move_tensor(job, dout->data, dout->stride, dout->dtype, f->dout, d->v_dim, 0, 0);
    attn__mpi_move_rows(job, d->lse, f->lse, 0);
    if (job->dlse) attn__mpi_move_rows(job, job->g.dlse, f->dlse, 0);
}
static void attn__mpi_heads_run(attn__mpi *job, const attn__heads *f) {
    attn_desc d = attn__mpi_heads_desc(job, f);
    attn_grad g;
    const int32_t grads = job->wide ? ATTN_F64 : ATTN_F32;
    attn__mpi_heads_in(job, f);
    if (job->kind != ATTN__MPI_BACKWARD) {
        attn__mpi_run(job, &d, NULL);
        return;
    }
    memset(&g, 0, sizeof g);
    const int64_t queries = attn__mpi_all_queries(job), keys = attn__mpi_all_keys(job);
    g.dout = attn__mpi_dense_in(f->dout, job->g.dout.dtype, queries, d.heads, d.v_dim);
    g.dq = attn__mpi_dense_out(f->dq, grads, queries, d.heads, d.head_dim);
    g.dk = attn__mpi_dense_out(f->dk, grads, keys, d.kv_heads, d.head_dim);
    g.dv = attn__mpi_dense_out(f->dv, grads, keys, d.kv_heads, d.v_dim);
    g.dlse = job->dlse ? f->dlse : NULL;
    d.sink = NULL; /* dsink: attn__mpi_sinks */
    attn__mpi_run(job, &d, &g);
}
static void attn__mpi_heads_out(attn__mpi *job, const attn__heads *f) {
    const attn_desc *d = &job->own;
    const int32_t grads = job->wide ? ATTN_F64 : ATTN_F32;
    if (job->kind != ATTN__MPI_BACKWARD) {
        attn__mpi_move_tensor(job, d->o.data, d->o.stride, d->o.dtype, f->o, d->v_dim, 0, 1);
        if (job->lse) attn__mpi_move_rows(job, d->lse, f->lse, 1);
        return;
    }
    char *dk = job->home.at,
         *dv = dk + attn__bytes(grads, job->k_batch * job->k_own * d->kv_heads * d->head_dim);
    const attn_out q = attn__mpi_dense_out(job->dq, grads, job->q_own, d->heads, d->head_dim),
                   k = attn__mpi_dense_out(dk, grads, job->k_own, d->kv_heads, d->head_dim),
                   v = attn__mpi_dense_out(dv, grads, job->k_own, d->kv_heads, d->v_dim);
    attn__mpi_move_tensor(job, q.data, q.stride, grads, f->dq, d->head_dim, 0, 1);
    attn__mpi_move_tensor(job, k.data, k.stride, grads, f->dk, d->head_dim, 1, 1);
    attn__mpi_move_tensor(job, v.data, v.stride, grads, f->dv, d->v_dim, 1, 1);
    attn__mpi_store_all(job, dk, dv, grads);
}

/* ---- decode: each rank has a part of all rows; each joins a share of them, then tells all */
static int64_t attn__mpi_share(const attn__mpi *job) {
    return attn__ceil_div(job->q_batch * job->q_own * job->own.heads, job->ranks);
}
static void attn__mpi_gather(attn__mpi *job) {
    const int64_t width = job->own.v_dim + 2, share = attn__mpi_share(job);
    double *in = (double *)(void *)job->message[0].at, *out = (double *)(void *)job->message[1].at,
           *state = (double *)(void *)job->state.host;
    attn__mpi_device(job, state, job->state.at, attn__mpi_state_bytes(job), 1);
    const double start = MPI_Wtime();
    const MPI_Datatype row = job->row;
    attn__mpi_ok(job, MPI_Alltoall(state, (int)share, row, in, (int)share, row, job->comm));
    for (int64_t i = 0; i < share; i++) {
        double *to = out + i * width;
        memcpy(to, in + i * width, (size_t)width * sizeof *to);
        for (int r = 1; r < job->ranks; r++) {
            const double *part = in + (r * share + i) * width;
            if (attn__bits64(part[1]) << 1 == 0) continue; /* no keys */
            const double weight = attn__mpi_join(to, width - 2, part[0], part[1]);
            for (int64_t c = 2; c < width; c++) to[c] += weight * part[c];
        }
    }
    attn__mpi_ok(job, MPI_Allgather(out, (int)share, row, state, (int)share, row, job->comm));
    job->times.sent += 2 * (job->ranks - 1) * share * width * 8;
    job->times.wait += MPI_Wtime() - start;
    attn__mpi_device(job, job->state.at, state, attn__mpi_state_bytes(job), 0);
}
static void attn__mpi_decode(attn__mpi *job) {
    const attn_desc *d = &job->own;
    const int64_t bytes =
        attn__bytes(d->q.dtype, job->q_batch * job->q_own * d->heads * d->head_dim);
    if (job->rank == 0) attn__mpi_device(job, job->q.host, job->q.at, bytes, 1);
    const double start = MPI_Wtime();
    for (int64_t at = 0; at < bytes; at += ATTN_MPI_PIECE)
        attn__mpi_ok(job, MPI_Bcast(job->q.host + at, (int)attn__min(bytes - at, ATTN_MPI_PIECE),
                              MPI_BYTE, 0, job->comm));
    if (job->rank == 0) job->times.sent += (job->ranks - 1) * bytes;
    job->times.wait += MPI_Wtime() - start;
    if (job->rank) attn__mpi_device(job, job->q.at, job->q.host, bytes, 0);
    job->k = d->k;
    job->v = d->v;
    job->tokens = job->k_own;
    attn__mpi_zero(job, job->state.at, attn__mpi_state_bytes(job));
    attn__mpi_part(job, job->rank, NULL);
    attn__mpi_gather(job);
}

/* ---- checks, and that all ranks agree */
enum { ATTN__AGREED = 48 };
typedef struct attn__agreement {
    int n, lse, dlse; /* fields; where in `value` these two are */
    const char *name[ATTN__AGREED];
    /* status and rank; then each field and its complement: of both the largest on any rank */
    uint64_t value[1 + 2 * ATTN__AGREED];
} attn__agreement;
static void attn__mpi_field(attn__agreement *a, const char *name, uint64_t value) {
    a->name[a->n] = name;
    a->value[1 + 2 * a->n] = value;
    a->value[2 + 2 * a->n++] = ~value;
}
/* Whether an array of rows is given, as ranks that have rows say; returns where it is. */
static int attn__mpi_given(attn__agreement *a, const char *name, const float *rows, int64_t count) {
    const int at = 1 + 2 * a->n;
    attn__mpi_field(a, name, rows != NULL);
    if (!count) a->value[at] = a->value[at + 1] = 0;
    return at;
}
static uint64_t attn__mpi_hash(const void *data, int64_t bytes) { /* FNV-1a */
    uint64_t x = 14695981039346656037u;
    for (int64_t i = 0; data && i < bytes; i++)
        x = (x ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    return data ? x : 0;
}
static void attn__mpi_array(
    attn__agreement *a, const char *name, const void *data, int64_t count, int64_t size) {
    attn__mpi_field(a, name, attn__mpi_hash(data, count * size));
}
static void attn__mpi_fields(const attn__mpi *job, attn__agreement *a) {
    const attn_desc *d = &job->all;
    const attn_seq *s = &d->seq;
    const int64_t cuts = (job->m->split == ATTN_MPI_ZIGZAG ? 2 : 1) * (int64_t)job->ranks + 1;
    attn__mpi_field(a, "which call it is", (uint64_t)job->kind);
    attn__mpi_field(a, "split", (uint64_t)job->m->split);
    attn__mpi_field(a, "method", (uint64_t)job->ulysses);
    attn__mpi_field(a, "batch", (uint64_t)d->batch);
    attn__mpi_field(a, "q_len", (uint64_t)d->q_len);
    attn__mpi_field(a, "kv_len", (uint64_t)d->kv_len);
    attn__mpi_field(a, "heads", (uint64_t)d->heads);
    attn__mpi_field(a, "kv_heads", (uint64_t)d->kv_heads);
    attn__mpi_field(a, "head_dim", (uint64_t)d->head_dim);
    attn__mpi_field(a, "v_dim", (uint64_t)d->v_dim);
    attn__mpi_field(a, "the dtype of q", (uint64_t)d->q.dtype);
    attn__mpi_field(a, "the dtype of k", (uint64_t)d->k.dtype);
    attn__mpi_field(a, "the dtype of v", (uint64_t)d->v.dtype);
    attn__mpi_field(a, "the dtype of o", (uint64_t)d->o.dtype);
    a->lse = attn__mpi_given(a, "lse, given or not", d->lse, job->q_own);
    attn__mpi_field(a, "flags", d->flags);
    attn__mpi_field(a, "scale", attn__bits(d->scale));
    attn__mpi_field(a, "softcap", attn__bits(d->softcap));
    attn__mpi_field(a, "offset", (uint64_t)d->offset);
    attn__mpi_field(a, "window_left", (uint64_t)d->window_left);
    attn__mpi_field(a, "window_right", (uint64_t)d->window_right);
    attn__mpi_array(a, "alibi", job->alibi, d->heads, 4);
    attn__mpi_array(a, "sink", job->sink, d->heads, 4);
    attn__mpi_array(a, "cu_q", s->cu_q, d->batch + 1, 4);
    attn__mpi_array(a, "cu_k", s->cu_k, d->batch + 1, 4);
    attn__mpi_array(a, "used_q", s->used_q, d->batch, 4);
    attn__mpi_array(a, "used_k", s->used_k, d->batch, 4);
    attn__mpi_array(a, "start_k", s->start_k, d->batch, 4);
    if (job->kind != ATTN__MPI_DECODE) attn__mpi_array(a, "q_cut", job->m->q_cut, cuts, 8);
    attn__mpi_array(a, "k_cut", job->m->k_cut, cuts, 8);
    if (job->kind != ATTN__MPI_BACKWARD) return;
    attn__mpi_field(a, "the dtype of dout", (uint64_t)job->g.dout.dtype);
    a->dlse = attn__mpi_given(a, "dlse, given or not", job->g.dlse, job->q_own);
    attn__mpi_field(a, "dsink, given or not", job->g.dsink != NULL);
}
/* The same status on every rank: that of the largest number, or what their fields say. */
static attn_status attn__mpi_agree(attn__mpi *job, int fields, char why[64]) {
    attn__agreement a;
    memset(&a, 0, sizeof a);
    a.value[0] = (uint64_t)job->status << 32 | (uint64_t)job->rank;
    if (fields && !job->status) attn__mpi_fields(job, &a);
    const int count = fields ? 1 + 2 * ATTN__AGREED : 1;
    if (MPI_Allreduce(MPI_IN_PLACE, a.value, count, MPI_UINT64_T, MPI_MAX, job->comm) !=
        MPI_SUCCESS)
        return ATTN_ERR_MPI;
    const attn_status s = (attn_status)(a.value[0] >> 32);
    if (s) {
        const uint64_t rank = a.value[0] & 0x7fffffff;
        size_t at = attn__write_number(why, 64, attn__write(why, 64, 0, "rank "), rank, 0);
        if ((uint64_t)job->rank == rank && job->refused.what) {
            at = attn__write(why, 64, at, ": ");
            attn__write_refused(&job->refused, why + at, 64 - at);
        }
    }
    for (int n = 0; n < a.n && !s; n++) {
        const uint64_t *most = &a.value[1 + 2 * n];
        if (most[0] != ~most[1] && (most[0] || most[1])) { /* both 0: no rank has rows */
            attn__write(why, 64, 0, a.name[n]);
            return ATTN_ERR_MPI_DIFFERS;
        }
    }
    if (!s && fields) job->lse = a.value[a.lse] != 0;
    if (!s && a.dlse) job->dlse = a.value[a.dlse] != 0;
    return s;
}
static attn_status attn__mpi_check_cut(
    const int64_t *cut, int32_t split, int ranks, int64_t tokens) {
    const int64_t parts = (split == ATTN_MPI_ZIGZAG ? 2 : 1) * (int64_t)ranks;
    ATTN__RULE(cut && cut[0] == 0, ERR_MPI_CUT);
    for (int64_t p = 0; p < parts; p++) ATTN__RULE(cut[p + 1] >= cut[p], ERR_MPI_CUT);
    ATTN__RULE(cut[parts] == tokens, ERR_MPI_CUT);
    return ATTN_OK;
}
static attn_status attn__mpi_check_call(attn__mpi *job, const attn_desc *d, const attn_grad *g) {
    const attn_mpi *m = job->m;
    ATTN__RULE(ATTN__BACKWARD || job->kind != ATTN__MPI_BACKWARD, ERR_NO_BACKWARD);
    ATTN__RULE(d, ERR_NULL_DESC);
    ATTN__RULE(g || job->kind != ATTN__MPI_BACKWARD, ERR_NULL_GRAD);
    ATTN__RULE(m && (m->split == ATTN_MPI_RANGES || m->split == ATTN_MPI_ZIGZAG), ERR_MPI_SPLIT);
    job->ulysses = m->method && !strcmp(m->method, "ulysses");
    ATTN__RULE(!m->method || !strcmp(m->method, "ring") || job->ulysses, ERR_MPI_METHOD);
    ATTN__RULE(!job->ulysses || job->kind != ATTN__MPI_DECODE, ERR_MPI_METHOD);
    ATTN__RULE(m->messages >= ATTN_MPI_ASK && m->messages <= ATTN_MPI_DIRECT, ERR_MPI_MESSAGES);
    ATTN__RULE(attn__bits(d->tolerance) << 1 == 0, ERR_MPI_TOLERANCE);
    ATTN__RULE(d->k.dtype != ATTN_INT16 && d->v.dtype != ATTN_INT16, ERR_MPI_PLANES);
    ATTN__RULE(
        !d->bias.data && !d->mask.data && attn__bits(d->dropout) << 1 == 0 && !(g && g->dbias),
        ERR_MPI_MASK);
    ATTN__RULE(!d->seq.slot && !d->seq.block_table && !d->append.k.data && !d->append.len &&
                   !d->append.rotary_cos,
        ERR_MPI_CACHE);
    ATTN__RULE(!d->workspace && !d->workspace_size, ERR_MPI_WORKSPACE);
    const attn_seq *s = &d->seq;
    if (!(d->flags & ATTN_DEVICE)) return ATTN_OK;
    ATTN__RULE((d->flags & ATTN_SEQ_HOST) || !attn__has_lengths(s), ERR_MPI_DEVICE);
    return attn__on_device(d, ATTN__JOINS, &job->gpu);
}
/* An array of a number for each head, in host memory. */
static const float *attn__mpi_of_heads(attn__mpi *job, const float *x) {
    if (!job->gpu || !x) return x;
    float *host = (float *)attn__mpi_take(job, job->own.heads * 4);
    attn__mpi_device(job, host, x, job->own.heads * 4, 1);
    return host;
}
/* A rank without tokens may leave the scales out: these are not read. */
static void attn__mpi_no_scales(attn_desc *d) {
    static const float none[1] = {0};
    attn_in *t[2] = {&d->k, &d->v};
    for (int i = 0; i < 2; i++)
        if (!t[i]->scale && attn__dtype_known(t[i]->dtype) && attn__is_scaled(t[i]->dtype))
            t[i]->scale = none;
}
/* The description without the strides of tensors that this rank has a part of. */
static attn_status attn__mpi_resolve_all(attn__mpi *job, const attn_desc *d, const attn_grad *g) {
    attn_desc in = *d;
    attn_grad out, dense;
    attn_in *ins[3] = {&in.q, &in.k, &in.v};
    attn__mpi_no_scales(&in);
    for (int i = 0; i < 3; i++) {
        memset(ins[i]->stride, 0, sizeof ins[i]->stride);
        memset(ins[i]->scale_stride, 0, sizeof ins[i]->scale_stride);
    }
    memset(in.o.stride, 0, sizeof in.o.stride);
    if (g) {
        dense = *g;
        memset(dense.dout.stride, 0, sizeof dense.dout.stride);
        memset(dense.dq.stride, 0, sizeof dense.dq.stride);
        memset(dense.dk.stride, 0, sizeof dense.dk.stride);
        memset(dense.dv.stride, 0, sizeof dense.dv.stride);
    }
    return attn__resolve(&in, g ? &dense : NULL, &job->all, &out, &job->refused);
}
/* This rank's own tensors: their strides, pointers, overlaps. In decode q comes from rank 0. */
static attn_status attn__mpi_resolve_own(attn__mpi *job, const attn_desc *in, const attn_grad *g) {
    attn_desc *d = &job->own;
    const int decode = job->kind == ATTN__MPI_DECODE;
    const int32_t split = job->m->split;
    attn__chunk c[2];
    const int64_t queries = attn__mpi_all_queries(job), keys = attn__mpi_all_keys(job);
    *d = job->all;
    if (!decode) ATTN__TRY(attn__mpi_check_cut(job->m->q_cut, split, job->ranks, queries));
    ATTN__TRY(attn__mpi_check_cut(job->m->k_cut, split, job->ranks, keys));
    ATTN__RULE(!job->ulysses || (d->heads % job->ranks == 0 && d->kv_heads % job->ranks == 0),
        ERR_MPI_HEADS);
    const attn__chunk *last = &c[attn__mpi_queries(job, job->rank, c) - 1];
    job->q_own = last->at + last->last - last->first;
    job->k_own = attn__mpi_held(job, job->rank);
    job->q_batch = d->seq.cu_q ? 1 : d->batch;
    job->k_batch = d->seq.cu_k ? 1 : d->batch;
    int64_t room; /* for every sum that plans memory, as attn__check_sizes has it for rows */
    ATTN__RULE(!attn__mul_overflows(
                   job->k_batch * keys * d->kv_heads, (d->head_dim + d->v_dim + 64) * 40, &room),
        ERR_OVERFLOW);
    job->wide = d->q.dtype == ATTN_F64 || d->k.dtype == ATTN_F64 || d->v.dtype == ATTN_F64 ||
                (g && g->dout.dtype == ATTN_F64);
    if (d->seq.cu_q) d->seq.total_q = job->q_own;
    else d->q_len = job->q_own;
    if (d->seq.cu_k) d->seq.total_k = job->k_own;
    else d->kv_len = job->k_own;
    d->q = in->q;
    d->k = in->k;
    d->v = in->v;
    d->o = in->o;
    if (!job->k_own) attn__mpi_no_scales(d);
    if (decode && (job->rank || !in->q.data)) {
        memset(&d->q, 0, sizeof d->q);
        d->q.dtype = in->q.dtype;
    }
    ATTN__TRY(attn__resolve_tensors(d, &job->refused));
    if (g) {
        job->g = *g;
        ATTN__TRY(attn__resolve_grad(d, &job->g, &job->refused));
    }
    return ATTN_OK;
}
/* The q that rank 0 sends, dense; each rank checks its own tensors with it. */
static attn_status attn__mpi_decode_memory(attn__mpi *job) {
    attn_desc *d = &job->own;
    const int64_t rows = job->q_batch * job->q_own * d->heads, share = attn__mpi_share(job),
                  bytes = job->ranks * share * (d->v_dim + 2) * 8;
    const int64_t q_bytes = attn__bytes(d->q.dtype, rows * d->head_dim);
    job->q.at = job->q.host = (char *)attn__mpi_hold(job, q_bytes);
    if (job->gpu) job->q.host = (char *)attn__mpi_take(job, q_bytes);
    ATTN__RULE(share <= INT32_MAX / 2, ERR_SIZE);
    ATTN__RULE(d->q.data || job->rank || rows == 0, ERR_NULL_Q);
    job->typed = MPI_Type_contiguous((int)d->v_dim + 2, MPI_DOUBLE, &job->row) == MPI_SUCCESS;
    ATTN__RULE(job->typed && MPI_Type_commit(&job->row) == MPI_SUCCESS, ERR_MPI);
    job->message[0].at = (char *)attn__mpi_take(job, bytes);
    job->message[1].at = (char *)attn__mpi_take(job, share * (d->v_dim + 2) * 8);
    job->state.at = job->state.host = (char *)attn__mpi_hold(job, bytes);
    if (job->gpu) job->state.host = (char *)attn__mpi_take(job, bytes);
    if (job->status) return job->status;
    memset(job->state.host, 0, (size_t)bytes); /* shares are all of one size */
    const attn_in dense =
        attn__mpi_dense_in(job->q.at, d->q.dtype, job->q_own, d->heads, d->head_dim);
    attn__piece from = attn__mpi_piece(d->q.data, d->q.stride, d->q.dtype, d->heads, d->head_dim),
                to = attn__mpi_piece(job->q.at, dense.stride, d->q.dtype, d->heads, d->head_dim);
    if (!job->rank) {
        ATTN__TRY(attn__check_data(d, NULL, &job->refused));
        attn__mpi_copy(job, job->q_batch, job->q_own, &from, &to);
    }
    d->q = dense;
    return ATTN_OK;
}
static void attn__mpi_ring_memory(attn__mpi *job) {
    const attn_desc *d = &job->own;
    const int back = job->kind == ATTN__MPI_BACKWARD;
    int64_t at[4], most = 0;
    for (int r = 0; r < job->ranks; r++) most = attn__max(most, attn__mpi_held(job, r));
    const int64_t bytes = attn__mpi_message(job, most, at), grads = attn__mpi_grads(job, most) * 4,
                  rows = job->q_batch * job->q_own * d->heads;
    job->hops = (int *)attn__mpi_take(job, job->ranks * (int64_t)sizeof(int));
    for (int i = 0; i < 2; i++) job->message[i] = attn__mpi_buffer(job, bytes);
    attn__mpi_flight(job, &job->keys, 2, 2 * bytes);
    if (!back) {
        job->state.at = (char *)attn__mpi_hold(job, attn__mpi_state_bytes(job));
        return;
    }
    for (int i = 0; i < 2; i++) {
        job->turn[i] = attn__mpi_buffer(job, grads);
        attn__mpi_flight(job, &job->sent[i], 1, grads);
    }
    job->came = attn__mpi_buffer(job, grads);
    job->home = attn__mpi_buffer(job, attn__mpi_grads(job, job->k_own) * 4);
    attn__mpi_flight(job, &job->coming, 1, grads);
    attn__mpi_flight(job, &job->homing, 1, grads);
    job->dq = attn__mpi_hold(job, attn__bytes(job->wide ? ATTN_F64 : ATTN_F32, rows * d->head_dim));
}
/* What a block leaves, and the arrays of its lengths. */
static void attn__mpi_block_memory(attn__mpi *job) {
    attn__chunk q[2];
    int64_t most = 0;
    const int chunks = attn__mpi_queries(job, job->rank, q);
    for (int c = 0; c < chunks; c++)
        most = attn__max(most, attn__ceil_div(q[c].last - q[c].first, attn__mpi_slices(&q[c])));
    const int64_t rows = job->q_batch * most * job->own.heads;
    job->part_lse = (float *)attn__mpi_hold(job, rows * 4);
    if (job->kind == ATTN__MPI_BACKWARD) job->part_dlse = (float *)attn__mpi_hold(job, rows * 4);
    else
        job->part = attn__mpi_hold(
            job, attn__bytes(job->wide ? ATTN_F64 : ATTN_F32, rows * job->own.v_dim));
    for (int i = 0; i < 5; i++)
        job->lengths[i] = (int32_t *)attn__mpi_take(job, (job->all.batch + 1) * 4);
}
static void attn__mpi_sinks_memory(attn__mpi *job) {
    const int64_t heads = job->own.heads;
    job->dsink = (double *)attn__mpi_take(job, (1 + job->ranks) * heads * 8);
    job->sinks.at = job->sinks.host = (char *)attn__mpi_hold(job, heads * 4);
    if (job->gpu) job->sinks.host = (char *)attn__mpi_take(job, heads * 4);
}
static attn_status attn__mpi_prepare(
    attn__mpi *job, const attn_desc *d, const attn_grad *g, attn__heads *f) {
    const attn_mpi *m = job->m;
    const attn_backend *named;
    ATTN__TRY(attn__mpi_check_call(job, d, g));
    ATTN__TRY(attn__mpi_resolve_all(job, d, g));
    ATTN__TRY(attn__mpi_resolve_own(job, d, g));
    ATTN__TRY(attn__named(&job->own, &named)); /* whatever this rank has to run */
    if (job->gpu) {
        job->staged = m->messages == ATTN_MPI_STAGED ||
                      (m->messages == ATTN_MPI_ASK && !attn__mpi_aware(job->gpu->device->runtime));
    }
    job->times.messages = job->staged ? ATTN_MPI_STAGED : ATTN_MPI_DIRECT;
    if (job->kind == ATTN__MPI_DECODE) ATTN__TRY(attn__mpi_decode_memory(job));
    ATTN__TRY(attn__check_data(&job->own, g ? &job->g : NULL, &job->refused));
    job->alibi = attn__mpi_of_heads(job, job->own.alibi);
    job->sink = attn__mpi_of_heads(job, job->own.sink);
    if (job->ulysses) attn__mpi_heads_memory(job, f);
    else if (job->kind != ATTN__MPI_DECODE) attn__mpi_ring_memory(job);
    const int sinks = g && job->g.dsink;
    if (sinks) attn__mpi_sinks_memory(job);
    if (sinks || !job->ulysses) attn__mpi_block_memory(job);
    return job->status;
}

/* ---- the calls */
/* How far a rank's keys go: to the last in the ring who sees one. */
static int attn__mpi_hops(const attn__mpi *job, int source) {
    int hops = job->ranks - 1;
    while (hops > 0 && !attn__mpi_needs(job, (source + hops) % job->ranks, source)) hops--;
    return hops;
}
/* Where MPI does not tell them, each is counted here: others may have been told, and wait. */
static void attn__mpi_find_hops(attn__mpi *job) {
    const int own = attn__mpi_hops(job, job->rank),
              error = MPI_Allgather(&own, 1, MPI_INT, job->hops, 1, MPI_INT, job->comm);
    attn__mpi_ok(job, error);
    for (int r = 0; r < job->ranks && error != MPI_SUCCESS; r++)
        job->hops[r] = attn__mpi_hops(job, r);
}
static void attn__mpi_compute(attn__mpi *job, const attn__heads *f) {
    const attn_desc *d = &job->own;
    const int back = job->kind == ATTN__MPI_BACKWARD;
    if (job->kind == ATTN__MPI_DECODE) {
        attn__mpi_decode(job);
        return;
    }
    if (back && job->g.dsink) attn__mpi_sinks(job);
    if (job->ulysses) {
        attn__mpi_heads_run(job, f);
        return;
    }
    if (back)
        attn__mpi_zero(job, job->dq,
            attn__bytes(job->wide ? ATTN_F64 : ATTN_F32,
                job->q_batch * job->q_own * d->heads * d->head_dim));
    else attn__mpi_zero(job, job->state.at, attn__mpi_state_bytes(job));
    attn__mpi_find_hops(job);
    attn__mpi_ring(job);
}
static void attn__mpi_write(attn__mpi *job, const attn__heads *f) {
    if (job->ulysses) attn__mpi_heads_out(job, f);
    else if (job->kind != ATTN__MPI_BACKWARD) attn__mpi_finish(job);
    else
        attn__mpi_store_all(job, job->home.at,
            job->home.at + job->k_batch * job->k_own * job->own.kv_heads * job->own.head_dim * 4,
            ATTN_F32);
    attn__mpi_device(job, NULL, NULL, 0, 0); /* what fails late, too */
}
static attn_status attn__mpi_communicator(attn__mpi *job, MPI_Comm comm) {
    int begun = 0, ended = 0, inter = 0;
    ATTN__RULE(MPI_Initialized(&begun) == MPI_SUCCESS && begun, ERR_MPI_COMM);
    ATTN__RULE(MPI_Finalized(&ended) == MPI_SUCCESS && !ended, ERR_MPI_COMM);
    ATTN__RULE(comm != MPI_COMM_NULL, ERR_MPI_COMM);
    ATTN__RULE(MPI_Comm_test_inter(comm, &inter) == MPI_SUCCESS && !inter, ERR_MPI_COMM);
    ATTN__RULE(MPI_Comm_rank(comm, &job->rank) == MPI_SUCCESS, ERR_MPI_COMM);
    ATTN__RULE(MPI_Comm_size(comm, &job->ranks) == MPI_SUCCESS, ERR_MPI_COMM);
    job->comm = comm;
    return ATTN_OK;
}
static attn_status attn__mpi_call(
    int kind, const attn_desc *d, const attn_grad *g, const attn_mpi *m, MPI_Comm comm) {
    attn__mpi job;
    attn__heads full;
    char why[64] = "";
    memset(&job, 0, sizeof job);
    job.m = m;
    job.kind = kind;
    attn_status s = attn__mpi_communicator(&job, comm);
    if (s) return attn__tell(d, s, "");
    const int cancel = attn__cancel_never();
    const uint64_t fp = attn__fp_enter(0);
    const double start = MPI_Wtime();
    job.status = attn__mpi_prepare(&job, d, g, &full);
    s = attn__mpi_agree(&job, 1, why);
    if (!s) {
        attn__mpi_compute(&job, &full);
        s = attn__mpi_agree(&job, 0, why);
    }
    if (!s) attn__mpi_write(&job, &full);
    if (!s && (job.gpu || job.ulysses)) s = attn__mpi_agree(&job, 0, why); /* these can fail */
    attn__mpi_free(&job);
    job.times.total = MPI_Wtime() - start;
    if (!s && m->times) *m->times = job.times;
    attn__fp_leave(fp);
    attn__cancel_as(cancel);
    return attn__tell(d, s, why);
}
ATTN_API attn_status attn_mpi_forward(const attn_desc *d, const attn_mpi *m, MPI_Comm comm) {
    return attn__mpi_call(ATTN__MPI_FORWARD, d, NULL, m, comm);
}
ATTN_API attn_status attn_mpi_backward(
    const attn_desc *d, const attn_grad *g, const attn_mpi *m, MPI_Comm comm) {
    return attn__mpi_call(ATTN__MPI_BACKWARD, d, g, m, comm);
}
ATTN_API attn_status attn_mpi_decode(const attn_desc *d, const attn_mpi *m, MPI_Comm comm) {
    return attn__mpi_call(ATTN__MPI_DECODE, d, NULL, m, comm);
}
#endif /* ATTN_MPI */

/* =========================================================================== >>reference ====
   Attention in f64, in plain loops, to be checked by eye. Nothing here is shared with another
   backend but the resolved description: its own conversions, visibility, addresses, rotary
   embedding and quantisation. One thread. */
#ifndef ATTN_NO_REFERENCE

/* A small float of 1 + ebits + mbits bits. e4m3fn (ebits 4, mbits 3) has no infinity and
 * one NaN, 0x7f. */
static double attn__ref_decode(uint32_t u, int ebits, int mbits) {
    int64_t bias = (1 << (ebits - 1)) - 1, e = (u >> mbits) & ((1u << ebits) - 1),
            m = u & ((1u << mbits) - 1);
    double sign = (u >> (ebits + mbits)) & 1 ? -1.0 : 1.0;
    if (ebits == 4 && (u & 0x7f) == 0x7f) return attn__double(0x7ff8000000000000u);
    if (ebits != 4 && e == (1 << ebits) - 1)
        return m ? attn__double(0x7ff8000000000000u) : sign * attn__double(0x7ff0000000000000u);
    if (e == 0) return sign * attn__ldexp((double)m, 1 - bias - mbits);
    return sign * attn__ldexp((double)(m + (1 << mbits)), e - bias - mbits);
}

static uint32_t attn__ref_encode(double x, int ebits, int mbits) {
    /* 448, or infinity */
    int64_t bias = (1 << (ebits - 1)) - 1, top = ebits == 4 ? 0x7e : ((1 << ebits) - 1) << mbits;
    uint64_t u = attn__bits64(x), magnitude = u & INT64_MAX;
    uint32_t sign = (uint32_t)(u >> 63) << (ebits + mbits);
    if (magnitude > 0x7ff0000000000000u)
        return sign | (ebits == 4 ? 0x7fu : (uint32_t)top | 1u << (mbits - 1));
    double a = attn__double(magnitude);
    if (a >= attn__ldexp(1, bias + 2)) return sign | (uint32_t)top;
    int64_t e = attn__max((int64_t)(magnitude >> 52) - 1023, 1 - bias);
    /* in units of the last place: below 2^(mbits+1) */
    double scaled = attn__ldexp(a, mbits - e);
    int64_t r = (int64_t)scaled;
    double rest = scaled - (double)r;
    if (rest > 0.5 || (rest == 0.5 && r % 2)) r++; /* to nearest, ties to even */
    return sign | (uint32_t)attn__min(((e + bias - 1) << mbits) + r, top);
}

/* To nearest, ties to even; |x| < 1000. */
static int8_t attn__ref_int8(double x) {
    double low = (double)(int64_t)(x + 1000) - 1000; /* floor */
    int64_t n = (int64_t)low + (x - low > 0.5 || (x - low == 0.5 && (int64_t)low % 2 != 0));
    return (int8_t)(n > 127 ? 127 : n < -127 ? -127 : n);
}
/* The same for int16, in units of 1/256: its high and low bytes. */
static void attn__ref_int16(int8_t *high, double x) {
    x *= 256;
    double low = (double)(int64_t)(x + 100000) - 100000; /* floor; |x| < 100000 */
    int64_t n = (int64_t)low + (x - low > 0.5 || (x - low == 0.5 && (int64_t)low % 2 != 0)), h;
    n = n > 32639 ? 32639 : n < -32639 ? -32639 : n;
    for (h = -127; 256 * h + 127 < n; h++) {}
    high[0] = (int8_t)h;
    high[ATTN_PLANE] = (int8_t)(n - 256 * h);
}
/* The high byte of element `at` of int16. */
static const int8_t *attn__ref_high(const void *data, int64_t at) {
    int64_t piece = at / ATTN_PLANE - (at % ATTN_PLANE < 0);
    return (const int8_t *)data + 2 * ATTN_PLANE * piece + (at - ATTN_PLANE * piece);
}
/* The largest code. */
static float attn__ref_most(int32_t dtype) {
    if (ATTN__ONLY_F32) dtype = ATTN_F32;
    switch (dtype) {
        case ATTN_INT8:     return 127;
        case ATTN_INT16:    return 32639.0f / 256;
        case ATTN_FP8_E4M3: return 448;
    }
    return attn__float(0x7fc00000u);
}

/* The block of q8_0 and q4_0 that element `at` lies in. */
static int64_t attn__ref_block(int64_t at) { return at >= 0 ? at / 32 : -((31 - at) / 32); }

static double attn__ref_read(const void *data, int32_t dtype, int64_t at) {
    float f;
    uint16_t h;
    uint8_t c;
    const int8_t *high;
    const uint8_t *block;
    double x;
    if (ATTN__ONLY_F32) dtype = ATTN_F32;
    switch (dtype) {
        case ATTN_F64: memcpy(&x, (const double *)data + at, 8); return x;
        case ATTN_F32: memcpy(&f, (const float *)data + at, 4); return (double)f;
        case ATTN_F16:
            memcpy(&h, (const uint16_t *)data + at, 2);
            return attn__ref_decode(h, 5, 10);
        case ATTN_BF16:
            memcpy(&h, (const uint16_t *)data + at, 2);
            return attn__ref_decode(h, 8, 7);
        case ATTN_INT8: return (double)((const int8_t *)data)[at];
        case ATTN_INT16:
            high = attn__ref_high(data, at);
            return (double)high[0] + (double)high[ATTN_PLANE] / 256;
        case ATTN_FP8_E4M3:
            memcpy(&c, (const uint8_t *)data + at, 1);
            return attn__ref_decode(c, 4, 3);
        case ATTN_Q8_0:
            block = (const uint8_t *)data + attn__ref_block(at) * 34;
            memcpy(&h, block, 2);
            return attn__ref_decode(h, 5, 10) *
                   (double)(int8_t)block[2 + at - 32 * attn__ref_block(at)];
        case ATTN_Q4_0:
            block = (const uint8_t *)data + attn__ref_block(at) * 18;
            memcpy(&h, block, 2);
            at -= 32 * attn__ref_block(at);
            c = at < 16 ? block[2 + at] % 16 : block[2 + at - 16] / 16;
            return attn__ref_decode(h, 5, 10) * ((double)c - 8);
    }
    return attn__double(0x7ff8000000000000u);
}

static void attn__ref_write(void *data, int32_t dtype, int64_t at, double x) {
    float f = (float)x;
    uint16_t h;
    if (ATTN__ONLY_F32) dtype = ATTN_F32;
    switch (dtype) {
        case ATTN_F64: memcpy((double *)data + at, &x, 8); break;
        case ATTN_F32: memcpy((float *)data + at, &f, 4); break;
        case ATTN_F16:
            h = (uint16_t)attn__ref_encode(x, 5, 10);
            memcpy((uint16_t *)data + at, &h, 2);
            break;
        case ATTN_BF16:
            h = (uint16_t)attn__ref_encode(x, 8, 7);
            memcpy((uint16_t *)data + at, &h, 2);
            break;
        case ATTN_INT8:     ((int8_t *)data)[at] = attn__ref_int8(x); break;
        case ATTN_INT16:    attn__ref_int16((int8_t *)(uintptr_t)attn__ref_high(data, at), x); break;
        case ATTN_FP8_E4M3: ((uint8_t *)data)[at] = (uint8_t)attn__ref_encode(x, 4, 3); break;
    }
}

/* Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2,
 * 3", SC 2011. */
static void attn__ref_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0],
             k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* The sums of the error bounds, for tests (any may be NULL), shaped like a dense o and like lse:
 *   e_j = |scale| sum_d |q k| + |s| + |bias| + |alibi| + 4
 *   o: sum_j p e_j |v| + (sum_j p e_j) sum_j p |v|     pv: sum_j p |v|     lse: sum_j p e_j */
typedef struct attn__bounds {
    double *o, *pv, *lse;
} attn__bounds;

typedef struct attn__ref {
    const attn_desc *d;
    const attn_grad *g;
    const attn__bounds *bounds;
    int64_t b; /* the sequence at hand, set by attn__ref_sequence: */
    /* its first token in q and o, the rows of its buffer, the valid ones */
    int64_t q_first, q_rows, q_used;
    /* its first valid key in its buffer, its number of keys */
    int64_t k_first, k_len;
    int64_t offset;
    /* [kv_len] scores, later probabilities; dout . v, later ds */
    double *s, *dp;
    double *factor; /* [kv_len] dropout: 0 or 1 / (1 - rate) */
    double *e;      /* [kv_len] error terms */
    double *row;    /* [head_dim + v_dim] query and dout at hand */
    double *sum;    /* [head_dim + 3 v_dim] row sums */
    int64_t head;   /* the kv head in k and v, set by attn__ref_head */
    /* [kv_len][head_dim], [kv_len][v_dim]: its keys and values in f64 */
    double *k, *v;
    unsigned char *seen; /* [kv_len] */
} attn__ref;

static void attn__ref_sequence(attn__ref *r, int64_t b) {
    const attn_desc *d = r->d;
    const attn_seq *s = &d->seq;
    r->b = b;
    r->head = -1;
    r->q_first = s->cu_q ? s->cu_q[b] : b * d->q_len;
    r->q_rows = s->cu_q ? s->cu_q[b + 1] - s->cu_q[b] : d->q_len;
    r->q_used = s->used_q ? s->used_q[b] : r->q_rows;
    int64_t end = s->used_k ? s->used_k[b] : s->cu_k ? s->cu_k[b + 1] - s->cu_k[b] : d->kv_len;
    if (d->append.k.data)
        end += d->append.cu ? d->append.cu[b + 1] - d->append.cu[b] : d->append.len;
    r->k_first = s->start_k ? s->start_k[b] : 0;
    r->k_len = end - r->k_first;
    r->offset = d->flags & ATTN_TOP_LEFT ? 0
                : d->flags & ATTN_OFFSET ? d->offset
                                         : r->k_len - r->q_used;
}

/* Element offsets of row i of q (o, dq ..) and of key j of k (v, dk ..), for query head h or
 * kv head h. */
static int64_t attn__ref_q_at(const attn__ref *r, const int64_t *stride, int64_t i, int64_t h) {
    if (r->d->seq.cu_q) return (r->q_first + i) * stride[1] + h * stride[2];
    return r->b * stride[0] + i * stride[1] + h * stride[2];
}
static int64_t attn__ref_k_at(const attn__ref *r, const int64_t *stride, int64_t j, int64_t h) {
    const attn_seq *s = &r->d->seq;
    int64_t t = r->k_first + j;
    if (s->block_table)
        return s->block_table[r->b * s->max_pages + t / s->page_size] * stride[0] +
               t % s->page_size * stride[1] + h * stride[2];
    if (s->cu_k) return (s->cu_k[r->b] + t) * stride[1] + h * stride[2];
    return (s->slot ? s->slot[r->b] : r->b) * stride[0] + t * stride[1] + h * stride[2];
}
static int64_t attn__ref_bias_at(
    const attn__ref *r, const int64_t *stride, int64_t h, int64_t i, int64_t j) {
    return r->b * stride[0] + h * stride[1] + i * stride[2] + r->k_first + j;
}
static int64_t attn__ref_lse_at(const attn__ref *r, int64_t i, int64_t h) {
    if (r->d->seq.cu_q) return h * r->d->seq.total_q + r->q_first + i;
    return (r->b * r->d->heads + h) * r->d->q_len + i;
}

/* a + b, at the end of the range where it would lie beyond */
static int64_t attn__ref_sum(int64_t a, int64_t b) {
    if (b > 0 && a > INT64_MAX - b) return INT64_MAX;
    if (b < 0 && a < INT64_MIN - b) return INT64_MIN;
    return a + b;
}
static int attn__ref_visible(const attn__ref *r, int64_t h, int64_t i, int64_t j) {
    const attn_desc *d = r->d;
    const int64_t diagonal = attn__ref_sum(i, r->offset);
    if (i >= r->q_used) return 0;
    if ((d->flags & ATTN_CAUSAL) && j > diagonal) return 0;
    if ((d->flags & ATTN_WINDOW_LEFT) && j < attn__ref_sum(diagonal, -d->window_left)) return 0;
    if ((d->flags & ATTN_WINDOW_RIGHT) && j > attn__ref_sum(diagonal, d->window_right)) return 0;
    if (d->mask.data &&
        ((const unsigned char *)d->mask.data)[attn__ref_bias_at(r, d->mask.stride, h, i, j)] == 0)
        return 0;
    if (d->bias.data) {
        double bias = attn__ref_read(
            d->bias.data, d->bias.dtype, attn__ref_bias_at(r, d->bias.stride, h, i, j));
        if (attn__bits64(bias) == 0xfff0000000000000u) return 0;
    }
    return 1;
}

/* row[0 .. head_dim): query i, rotated where the description says so. The rotation is in f32. */
static void attn__ref_rotate(const attn_desc *d, double *row, int64_t position) {
    const attn_append *a = &d->append;
    int64_t half = a->rotary_dim / 2;
    for (int64_t p = 0; a->rotary_cos && p < half; p++) {
        int64_t first = d->flags & ATTN_ROTARY_INTERLEAVED ? 2 * p : p,
                second = d->flags & ATTN_ROTARY_INTERLEAVED ? 2 * p + 1 : p + half;
        float x1 = (float)row[first], x2 = (float)row[second];
        float c = a->rotary_cos[position * half + p], s = a->rotary_sin[position * half + p];
        volatile float x1c = x1 * c, x2s = x2 * s, x2c = x2 * c, x1s = x1 * s;
        volatile float y1 = x1c - x2s, y2 = x2c + x1s;
        row[first] = (double)y1;
        row[second] = (double)y2;
    }
}
static void attn__ref_query(const attn__ref *r, int64_t h, int64_t i, double *row) {
    const attn_desc *d = r->d;
    for (int64_t c = 0; c < d->head_dim; c++)
        row[c] = attn__ref_read(d->q.data, d->q.dtype, attn__ref_q_at(r, d->q.stride, i, h) + c);
    if (d->append.rotary_cos && i < r->q_used)
        attn__ref_rotate(d, row, d->seq.used_k[r->b] - r->k_first + i);
}

/* 32 numbers as a block of q8_0 or q4_0: what >>dtype says of it, in f32. */
static void attn__ref_put_block(void *data, int32_t dtype, int64_t at, const double *row) {
    uint8_t *block = (uint8_t *)data + at / 32 * (dtype == ATTN_Q8_0 ? 34 : 18);
    float largest = 0, signed_one = 0;
    int finite = 1;
    uint16_t h;
    for (int i = 0; i < 32; i++) {
        float x = (float)row[i], size = x < 0 ? -x : x;
        if (!attn__finite(x)) finite = 0;
        else if (size > largest) largest = size, signed_one = x;
    }
    volatile float scale = dtype == ATTN_Q8_0 ? largest / 127 : signed_one / -8, inverse = 0;
    if (scale > 65504) scale = 65504;
    if (scale < -65504) scale = -65504;
    if (scale >= attn__float(0x00800000u) || scale <= -attn__float(0x00800000u))
        inverse = 1 / scale;
    h = finite ? (uint16_t)attn__ref_encode((double)scale, 5, 10) : 0x7e00;
    memcpy(block, &h, 2);
    for (int i = 0; i < 32; i++) {
        volatile float y = finite ? (float)row[i] * inverse : 0, shifted;
        double size = y < 0 ? -(double)y : (double)y;
        int code;
        if (dtype == ATTN_Q8_0) {
            code = size > 126.5 ? 127 : (int)(size + 0.5);
            block[2 + i] = (uint8_t)(y < 0 ? -code : code);
            continue;
        }
        if (size > 8) y = y < 0 ? -8.0f : 8.0f;
        shifted = y + 8.5f;
        code = shifted >= 16 ? 15 : (int)shifted;
        block[2 + i % 16] = (uint8_t)(i < 16 ? code : block[2 + i % 16] + 16 * code);
    }
}

/* New keys and values into the cache: rotated, then rounded once or quantised, with one scale per
 * token and head or in blocks. */
static void attn__ref_append_row(const attn__ref *r, attn_in cache, float *scales,
    const double *row, int64_t dim, int64_t j, int64_t h) {
    int64_t at = attn__ref_k_at(r, cache.stride, j, h);
    void *data = (void *)(uintptr_t)cache.data;
    if (attn__is_float(cache.dtype)) {
        for (int64_t c = 0; c < dim; c++) {
            int nan = (attn__bits64(row[c]) & INT64_MAX) > 0x7ff0000000000000u;
            attn__ref_write(
                data, cache.dtype, at + c, nan ? attn__double(0x7ff8000000000000u) : row[c]);
        }
        return;
    }
    if (attn__is_blocks(cache.dtype)) {
        for (int64_t c = 0; c < dim; c += 32)
            attn__ref_put_block(data, cache.dtype, at + c, row + c);
        return;
    }
    float amax = 0, scale;
    int finite = 1;
    for (int64_t c = 0; c < dim; c++) {
        float x = (float)row[c], a = x < 0 ? -x : x;
        if (!attn__finite(x)) finite = 0;
        if (a > amax) amax = a;
    }
    scale = finite ? amax / attn__ref_most(cache.dtype) : attn__float(0x7fc00000u);
    if (finite && scale < attn__float(0x00800000u)) scale = 0;
    scales[attn__ref_k_at(r, cache.scale_stride, j, h)] = scale;
    for (int64_t c = 0; c < dim; c++) {
        volatile float ratio = finite && scale > 0 ? (float)row[c] / scale : 0;
        attn__ref_write(data, cache.dtype, at + c, (double)ratio);
    }
}
static void attn__ref_append(attn__ref *r) {
    const attn_desc *d = r->d;
    const attn_append *a = &d->append;
    int64_t old = d->seq.used_k[r->b] - r->k_first, n = r->k_len - old;
    for (int64_t i = 0; i < n; i++)
        for (int64_t h = 0; h < d->kv_heads; h++) {
            int64_t batch = a->cu ? 0 : r->b, token = a->cu ? a->cu[r->b] + i : i;
            int64_t k_at = batch * a->k.stride[0] + token * a->k.stride[1] + h * a->k.stride[2];
            int64_t v_at = batch * a->v.stride[0] + token * a->v.stride[1] + h * a->v.stride[2];
            for (int64_t c = 0; c < d->head_dim; c++)
                r->row[c] = attn__ref_read(a->k.data, a->k.dtype, k_at + c);
            attn__ref_rotate(d, r->row, old + i);
            attn__ref_append_row(r, d->k, a->k_scale, r->row, d->head_dim, old + i, h);
            for (int64_t c = 0; c < d->v_dim; c++)
                r->row[c] = attn__ref_read(a->v.data, a->v.dtype, v_at + c);
            attn__ref_append_row(r, d->v, a->v_scale, r->row, d->v_dim, old + i, h);
        }
}

/* The keys and values of one kv head of the sequence as f64: value = scale * code for
 * a quantised cache. */
static void attn__ref_load(
    const attn__ref *r, const attn_in *t, int64_t h, int64_t dim, double *rows) {
    for (int64_t j = 0; j < r->k_len; j++) {
        int64_t at = attn__ref_k_at(r, t->stride, j, h);
        double scale = t->scale ? (double)t->scale[attn__ref_k_at(r, t->scale_stride, j, h)] : 1;
        for (int64_t c = 0; c < dim; c++)
            rows[j * dim + c] = scale * attn__ref_read(t->data, t->dtype, at + c);
    }
}
static void attn__ref_head(attn__ref *r, int64_t h) {
    if (r->head == h) return;
    attn__ref_load(r, &r->d->k, h, r->d->head_dim, r->k);
    attn__ref_load(r, &r->d->v, h, r->d->v_dim, r->v);
    r->head = h;
}

/* s[j] for one row, and which keys it sees; e[j] where bounds are wanted. q: the row, rotated. */
static void attn__ref_scores(attn__ref *r, int64_t h, int64_t i, const double *q) {
    const attn_desc *d = r->d;
    attn__ref_head(r, h / (d->heads / d->kv_heads));
    for (int64_t j = 0; j < r->k_len; j++) {
        const double *k = r->k + j * d->head_dim;
        r->seen[j] = (unsigned char)attn__ref_visible(r, h, i, j);
        r->s[j] = -attn__double(0x7ff0000000000000u);
        if (!r->seen[j]) continue;
        double dot = 0, size = 0, bias = 0, alibi = 0;
        for (int64_t c = 0; c < d->head_dim; c++) {
            double x = q[c] * k[c];
            dot += x;
            if (r->bounds) size += x < 0 ? -x : x;
        }
        double s = (double)d->scale * dot;
        if (d->softcap > 0) s = (double)d->softcap * attn__tanh(s / (double)d->softcap);
        if (d->bias.data)
            bias = attn__ref_read(
                d->bias.data, d->bias.dtype, attn__ref_bias_at(r, d->bias.stride, h, i, j));
        if (d->bias_scale) bias *= (double)d->bias_scale[h];
        if (d->alibi) {
            double apart = (double)i + (double)r->offset - (double)j;
            alibi = -(double)d->alibi[h] * (apart < 0 ? -apart : apart);
        }
        s += bias;
        s += alibi;
        r->s[j] = s;
        double scale = (double)d->scale;
        r->e[j] = (scale < 0 ? -scale : scale) * size + (s < 0 ? -s : s) +
                  (bias < 0 ? -bias : bias) + (alibi < 0 ? -alibi : alibi) + 4;
    }
}

/* factor[j]: what dropout multiplies p with. */
static void attn__ref_dropout(attn__ref *r, int64_t h, int64_t i) {
    const attn_desc *d = r->d;
    uint32_t key[2] = {(uint32_t)d->seed, (uint32_t)(d->seed >> 32)}, word[4];
    double threshold = (double)(int64_t)((double)d->dropout * 4294967296.0); /* floor */
    for (int64_t j = 0; j < r->k_len; j++) {
        uint32_t counter[4] = {(uint32_t)(j / 4), (uint32_t)i, (uint32_t)(r->b * d->heads + h),
            (uint32_t)d->philox_offset};
        r->factor[j] = 1;
        if (!(d->dropout > 0)) continue;
        attn__ref_philox(counter, key, word);
        r->factor[j] =
            (double)word[j % 4] >= threshold ? (double)(float)(1 / (1 - (double)d->dropout)) : 0;
    }
}

/* One row forward. */
static void attn__ref_forward_row(attn__ref *r, int64_t h, int64_t i) {
    const attn_desc *d = r->d;
    const double neg_inf = -attn__double(0x7ff0000000000000u);
    int64_t o_at = attn__ref_q_at(r, d->o.stride, i, h),
            sum_at = ((r->q_first + i) * d->heads + h) * d->v_dim;

    /* 1. scores */
    attn__ref_query(r, h, i, r->row);
    attn__ref_scores(r, h, i, r->row);

    /* 2. the largest, the sink among them */
    double max = d->sink ? (double)d->sink[h] : neg_inf, sum = 0, lse;
    int any = 0;
    for (int64_t j = 0; j < r->k_len; j++) {
        any |= r->seen[j];
        if (r->seen[j] && (r->s[j] > max || attn__is_nan(r->s[j]))) max = r->s[j];
    }

    /* 3. lse = max + log(sum of exp(s - max)), sink included; without keys that of the sink */
    if (!attn__is_neg_inf(max)) {
        if (d->sink) sum += attn__exp((double)d->sink[h] - max);
        for (int64_t j = 0; j < r->k_len; j++)
            if (r->seen[j]) sum += attn__exp(r->s[j] - max);
    }
    lse = attn__is_neg_inf(max) ? neg_inf : any ? max + attn__log(sum) : max;
    if (d->lse) d->lse[attn__ref_lse_at(r, i, h)] = attn__nearest_f32(lse);

    /* 4. o = sum of p v over the visible keys, and the sums of the bounds */
    double spread = 0, *o = r->sum, *pv = o + d->v_dim, *pev = pv + d->v_dim;
    attn__ref_dropout(r, h, i);
    for (int64_t c = 0; c < d->v_dim; c++) o[c] = pv[c] = pev[c] = 0;
    for (int64_t j = 0; j < r->k_len && !attn__is_neg_inf(max); j++) {
        if (!r->seen[j]) continue;
        double p = attn__exp(r->s[j] - max) / sum, pf = p * r->factor[j];
        const double *v = r->v + j * d->v_dim;
        for (int64_t c = 0; c < d->v_dim; c++) o[c] += pf * v[c];
        if (!r->bounds || p == 0) continue; /* an infinite score has no bound, and no weight */
        spread += p * r->e[j];
        for (int64_t c = 0; c < d->v_dim; c++) {
            double size = pf * (v[c] < 0 ? -v[c] : v[c]);
            pv[c] += size;
            pev[c] += size * r->e[j];
        }
    }
    for (int64_t c = 0; c < d->v_dim; c++) {
        attn__ref_write(d->o.data, d->o.dtype, o_at + c, o[c]);
        if (r->bounds && r->bounds->o) r->bounds->o[sum_at + c] = pev[c] + spread * pv[c];
        if (r->bounds && r->bounds->pv) r->bounds->pv[sum_at + c] = pv[c];
    }
    if (r->bounds && r->bounds->lse) r->bounds->lse[attn__ref_lse_at(r, i, h)] = spread;
}

/* exp(s - lse), never above 1: an lse that was rounded to f32 may lie far below s where both are
 * huge. 0 in a row that saw nothing. */
static double attn__ref_probability(double s, double lse) {
    double x = s - lse;
    return attn__is_neg_inf(lse) ? 0 : attn__exp(x > 0 ? 0 : x);
}

/* One row backward, from the lse and o given: s[j] becomes p_j, dp[j] the gradient of s before
 * the bias (softcap undone in `raw`), and the return value that of the sink. */
static double attn__ref_backward_row(attn__ref *r, int64_t h, int64_t i, double *raw) {
    const attn_desc *d = r->d;
    const attn_grad *g = r->g;
    int64_t at = attn__ref_lse_at(r, i, h);
    double lse = (double)d->lse[at], dlse = g->dlse ? (double)g->dlse[at] : 0, delta = 0;
    double *q = r->row, *dout = r->row + d->head_dim;

    /* 1. delta = dout . o - dlse */
    for (int64_t c = 0; c < d->v_dim; c++) {
        dout[c] = attn__ref_read(
            g->dout.data, g->dout.dtype, attn__ref_q_at(r, g->dout.stride, i, h) + c);
        delta += dout[c] *
                 attn__ref_read(d->o.data, d->o.dtype, attn__ref_q_at(r, d->o.stride, i, h) + c);
    }
    delta -= dlse;

    /* 2. p = exp(s - lse); ds = p (dropout(dout . v) - delta); through the softcap: ds
     * (1 - tanh^2) */
    attn__ref_query(r, h, i, q);
    attn__ref_scores(r, h, i, q);
    attn__ref_dropout(r, h, i);
    for (int64_t j = 0; j < r->k_len; j++) {
        raw[j] = r->dp[j] = 0;
        if (!r->seen[j]) {
            r->s[j] = 0;
            continue;
        }
        double cap = 1, dot = 0, p = attn__ref_probability(r->s[j], lse);
        const double *k = r->k + j * d->head_dim, *v = r->v + j * d->v_dim;
        for (int64_t c = 0; c < d->v_dim; c++) dot += dout[c] * v[c];
        r->dp[j] = p * (r->factor[j] * dot - delta);
        if (d->softcap > 0) {
            double x = 0;
            for (int64_t c = 0; c < d->head_dim; c++) x += q[c] * k[c];
            double t = attn__tanh((double)d->scale * x / (double)d->softcap);
            cap = 1 - t * t;
        }
        raw[j] = r->dp[j] * cap * (double)d->scale;
        r->s[j] = p;
    }
    if (!d->sink || i >= r->q_used || attn__is_neg_inf(lse)) return 0;
    return attn__ref_probability((double)d->sink[h], lse) * -delta;
}

/* x, or old + x where the caller accumulates */
static void attn__ref_store(const attn_desc *d, void *data, int32_t dtype, int64_t at, double x) {
    if (d->flags & ATTN_ACCUMULATE) x += attn__ref_read(data, dtype, at);
    attn__ref_write(data, dtype, at, x);
}

/* The scratch: scores and terms per key, rows, k and v, for backward dk and dv of one kv head, a
 * byte per key. */
static int64_t attn__ref_scratch(const attn_desc *d, int backward) {
    int64_t keys = d->kv_len, dims = d->head_dim + d->v_dim;
    return 8 * (6 * keys + 4 * dims + (backward ? 2 : 1) * keys * dims) + keys;
}
/* returns [2][kv_len] for backward */
static double *attn__ref_carve(attn__ref *r, void *scratch) {
    const attn_desc *d = r->d;
    int64_t keys = d->kv_len, dims = d->head_dim + d->v_dim;
    double *p = (double *)scratch, *raw;
    /* clang-format off */
    r->s = p; p += keys;
    r->dp = p; p += keys;
    r->factor = p; p += keys;
    r->e = p; p += keys;
    raw = p; p += 2 * keys;
    r->row = p; p += dims;
    r->sum = p; p += 3 * dims;
    r->k = p; p += keys * d->head_dim;
    r->v = p; p += keys * d->v_dim;
    /* clang-format on */
    r->seen = (unsigned char *)(p + (r->g ? keys * dims : 0));
    return raw;
}

/* One row of dbias: the sum over all (b, h, i) that read row (b0, h0, i0) of the bias. */
static void attn__ref_dbias_row(attn__ref *r, double *raw, int64_t b0, int64_t h0, int64_t i0) {
    const attn_desc *d = r->d;
    const int64_t *st = d->bias.stride, at = b0 * st[0] + h0 * st[1] + i0 * st[2];
    double *sum = raw + d->kv_len;
    for (int64_t j = 0; j < d->kv_len; j++) sum[j] = 0;
    for (int64_t b = b0; b < (st[0] ? b0 + 1 : d->batch); b++) {
        attn__ref_sequence(r, b);
        for (int64_t h = h0; h < (st[1] ? h0 + 1 : d->heads); h++)
            for (int64_t i = i0; i < r->q_rows && (!st[2] || i == i0); i++) {
                attn__ref_backward_row(r, h, i, raw);
                for (int64_t j = 0; j < r->k_len; j++)
                    if (r->seen[j])
                        sum[r->k_first + j] +=
                            d->bias_scale ? (double)d->bias_scale[h] * r->dp[j] : r->dp[j];
            }
    }
    for (int64_t j = 0; j < d->kv_len; j++)
        attn__ref_store(d, r->g->dbias, ATTN_F32, at + j, sum[j]);
}
static void attn__ref_dbias(attn__ref *r, double *raw) {
    const attn_desc *d = r->d;
    const int64_t *st = d->bias.stride;
    for (int64_t b = 0; b < (st[0] ? d->batch : attn__min(d->batch, 1)); b++)
        for (int64_t h = 0; h < (st[1] ? d->heads : 1); h++)
            for (int64_t i = 0; i < (st[2] ? d->q_len : attn__min(d->q_len, 1)); i++)
                attn__ref_dbias_row(r, raw, b, h, i);
}
static void attn__ref_dsink(attn__ref *r, double *raw) {
    const attn_desc *d = r->d;
    for (int64_t h = 0; h < d->heads; h++) {
        double sum = 0;
        for (int64_t b = 0; b < d->batch; b++) {
            attn__ref_sequence(r, b);
            for (int64_t i = 0; i < r->q_rows; i++) sum += attn__ref_backward_row(r, h, i, raw);
        }
        attn__ref_store(d, r->g->dsink, ATTN_F32, h, sum);
    }
}

/* dq_i = sum_j ds_ij k_j;  dk_j += ds_ij q_i;  dv_j += dropout(p_ij) dout_i */
static void attn__ref_add_row(
    attn__ref *r, const double *raw, int64_t h, int64_t i, double *dk, double *dv) {
    const attn_desc *d = r->d;
    const attn_out *out = &r->g->dq;
    const double *q = r->row, *dout = r->row + d->head_dim;
    double *dq = r->sum;
    for (int64_t c = 0; c < d->head_dim; c++) dq[c] = 0;
    for (int64_t j = 0; j < r->k_len; j++) {
        if (!r->seen[j]) continue;
        const double *k = r->k + j * d->head_dim;
        for (int64_t c = 0; c < d->head_dim; c++) dq[c] += raw[j] * k[c];
        for (int64_t c = 0; c < d->head_dim; c++) dk[j * d->head_dim + c] += raw[j] * q[c];
        for (int64_t c = 0; c < d->v_dim; c++)
            dv[j * d->v_dim + c] += r->s[j] * r->factor[j] * dout[c];
    }
    const int64_t at = attn__ref_q_at(r, out->stride, i, h);
    if (i >= r->q_used && (d->flags & ATTN_ACCUMULATE)) return; /* no token: what is there stays */
    for (int64_t c = 0; c < d->head_dim; c++)
        attn__ref_store(d, out->data, out->dtype, at + c, dq[c]);
}
/* The gradient of every token of the buffer: 0 where no key is. */
static void attn__ref_store_keys(
    const attn__ref *r, const attn_out *out, int64_t kv_head, int64_t dim, const double *sum) {
    const attn_seq *s = &r->d->seq;
    const int64_t tokens = s->cu_k ? s->cu_k[r->b + 1] - s->cu_k[r->b] : r->d->kv_len;
    for (int64_t t = 0; t < tokens; t++) {
        const int64_t j = t - r->k_first, at = attn__ref_k_at(r, out->stride, j, kv_head);
        const int live = j >= 0 && j < r->k_len;
        if (!live && (r->d->flags & ATTN_ACCUMULATE)) continue;
        for (int64_t c = 0; c < dim; c++)
            attn__ref_store(r->d, out->data, out->dtype, at + c, live ? sum[j * dim + c] : 0);
    }
}
static void attn__ref_backward(attn__ref *r, void *scratch) {
    const attn_desc *d = r->d;
    const attn_grad *g = r->g;
    double *raw = attn__ref_carve(r, scratch), *dk = r->v + d->kv_len * d->v_dim,
           *dv = dk + d->kv_len * d->head_dim;
    const int64_t group = d->heads / d->kv_heads;
    for (int64_t b = 0; b < d->batch; b++) {
        attn__ref_sequence(r, b);
        for (int64_t kv_head = 0; kv_head < d->kv_heads; kv_head++) {
            for (int64_t n = 0; n < d->kv_len * (d->head_dim + d->v_dim); n++) dk[n] = 0;
            for (int64_t h = kv_head * group; h < (kv_head + 1) * group; h++)
                for (int64_t i = 0; i < r->q_rows; i++) {
                    attn__ref_backward_row(r, h, i, raw);
                    attn__ref_add_row(r, raw, h, i, dk, dv);
                }
            attn__ref_store_keys(r, &g->dk, kv_head, d->head_dim, dk);
            attn__ref_store_keys(r, &g->dv, kv_head, d->v_dim, dv);
        }
    }
    if (g->dsink) attn__ref_dsink(r, raw);
    if (g->dbias) attn__ref_dbias(r, raw);
}

static void attn__ref_forward(attn__ref *r, void *scratch) {
    const attn_desc *d = r->d;
    attn__ref_carve(r, scratch);
    for (int64_t b = 0; b < d->batch && attn__has_append(d); b++) {
        attn__ref_sequence(r, b);
        attn__ref_append(r);
    }
    for (int64_t b = 0; b < d->batch; b++) {
        attn__ref_sequence(r, b);
        for (int64_t h = 0; h < d->heads; h++)
            for (int64_t i = 0; i < r->q_rows; i++) attn__ref_forward_row(r, h, i);
    }
}

static attn_status attn__ref_plan(
    void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan) {
    (void)user;
    if (d->flags & ATTN_DEVICE)
        return attn__decline(plan, ATTN_ERR_DEVICE, "tensors are device memory");
    plan->kernel = g ? "backward_f64" : "forward_f64";
    plan->isa = "portable";
    plan->threads = plan->splits = 1;
    return attn__plan_bytes(plan, attn__ref_scratch(d, g != NULL));
}
static attn_status attn__ref_run(
    void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan) {
    attn__ref r;
    (void)plan;
    memset(&r, 0, sizeof r);
    r.d = d;
    r.g = g;
    r.bounds = (const attn__bounds *)user;
    uint64_t fp = attn__fp_enter(0);
    if (ATTN__BACKWARD && g) attn__ref_backward(&r, d->workspace);
    else attn__ref_forward(&r, d->workspace);
    attn__fp_leave(fp);
    return ATTN_OK;
}
/* For tests: forward by the reference, and the sums of the error bounds. */
static ATTN__UNUSED attn_status attn__reference_bounds(
    const attn_desc *in, const attn__bounds *bounds) {
    attn_desc d;
    attn_plan plan;
    attn__refused at;
    ATTN__TRY(attn__resolve(in, NULL, &d, NULL, &at));
    ATTN__TRY(attn__check_data(&d, NULL, &at));
    ATTN__TRY(attn__ref_plan(NULL, &d, NULL, &plan));
    d.workspace = attn__get(d.alloc, plan.workspace_size);
    if (!d.workspace) return ATTN_ERR_MEMORY;
    attn_status s = attn__ref_run((void *)(uintptr_t)bounds, &d, NULL, &plan);
    attn__put(d.alloc, d.workspace, plan.workspace_size);
    return s;
}
#endif

/* ============================================================================== >>timing ==== */
#ifndef ATTN_NO_TIMING
ATTN_API double attn_seconds(void) {
#if ATTN__WINDOWS && ATTN__GNU
    int64_t now = 0, each = 1;
    attn__win_counter(&now);
    attn__win_frequency(&each);
    return (double)now / (double)each;
#elif ATTN__POSIX
    attn__timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#else
    return (double)clock() / CLOCKS_PER_SEC;
#endif
}

static int attn__compare_doubles(const void *a, const void *b) {
    double x, y;
    memcpy(&x, a, 8);
    memcpy(&y, b, 8);
    return x < y ? -1 : x > y;
}
ATTN_API attn_status attn_time(
    void (*fn)(void *), void *user, const attn_timing_opts *opts, attn_timing *t) {
    ATTN__RULE(fn && t && opts, ERR_TIME_NULL);
    ATTN__RULE(opts->warmup >= 0 && opts->iterations >= 0 && opts->min_seconds >= 0 &&
                   (attn__bits64(opts->min_seconds) & INT64_MAX) < 0x7ff0000000000000u &&
                   (opts->iterations > 0 || opts->min_seconds > 0),
        ERR_TIME_OPTS);
    size_t room = (size_t)attn__max(attn__min(opts->iterations, 1 << 16), 64), n = 0;
    double *s = (double *)ATTN_MALLOC(room * sizeof *s), total = 0, start = attn_seconds();
    if (!s) return ATTN__NO_MEMORY;
    memset(t, 0, sizeof *t);
    fn(user);
    t->first = attn_seconds() - start;
    for (int64_t i = 1; i < opts->warmup; i++) fn(user);
    while ((int64_t)n < opts->iterations || total < opts->min_seconds) {
        if (n == room) {
            if (room > SIZE_MAX / 4 / sizeof *s) {
                ATTN_FREE(s);
                return ATTN_ERR_MEMORY;
            }
            double *more = (double *)ATTN_MALLOC(2 * room * sizeof *s);
            if (!more) {
                ATTN_FREE(s);
                return ATTN_ERR_MEMORY;
            }
            memcpy(more, s, room * sizeof *s);
            ATTN_FREE(s);
            s = more;
            room *= 2;
        }
        start = attn_seconds();
        fn(user);
        s[n] = attn_seconds() - start;
        total += s[n++];
    }
    qsort(s, n, sizeof *s, attn__compare_doubles);
    double square = 0, mean = total / (double)n;
    for (size_t i = 0; i < n; i++) square += (s[i] - mean) * (s[i] - mean);
    t->n = (int64_t)n;
    t->mean = mean;
    t->stddev = n > 1 ? attn__sqrt(square / (double)(n - 1)) : 0;
    t->min = s[0];
    t->max = s[n - 1];
    const double share[3] = {0.50, 0.95, 0.99};
    double *to[3] = {&t->p50, &t->p95, &t->p99};
    for (int p = 0; p < 3; p++) { /* linear between the two nearest ranks */
        double at = share[p] * (double)(n - 1);
        size_t low = (size_t)at, high = low + 1 < n ? low + 1 : low;
        *to[p] = s[low] + (at - (double)low) * (s[high] - s[low]);
    }
    ATTN_FREE(s);
    double per = t->p50 > 0 ? 1 / t->p50 : 0;
    t->ops_per_s = per;
    t->tokens_per_s = opts->tokens * per;
    t->gflops = opts->flops * per * 1e-9;
    t->gbytes_per_s = opts->bytes * per * 1e-9;
    return ATTN_OK;
}

#if ATTN__AVX512
#define ATTN__TARGET_dot "avx512f,avx512bf16"
ATTN__PLAIN_END
ATTN__REGION(dot)
/* n times 12 vdpbf16ps of 64 flops. In assembly: the type of its operands
 * differs between compilers. */
ATTN__NOINLINE float attn__dot_chain__avx512(int64_t n) {
    __m512 acc[12];
    __m512i a = _mm512_set1_epi32(0x3f803f80);
    ATTN__UNROLL for (int v = 0; v < 12; v++)
        acc[v] = _mm512_set1_ps(0);
    for (int64_t k = 0; k < n; k++) {
        ATTN__UNROLL for (int v = 0; v < 12; v++)
            __asm__ volatile("vdpbf16ps %1, %1, %0" : "+v"(acc[v]) : "v"(a));
    }
    ATTN__UNROLL for (int v = 1; v < 12; v++)
        acc[0] = _mm512_max_ps(acc[0], acc[v]);
    return _mm512_cvtss_f32(acc[0]);
}
ATTN__REGION_END
ATTN__PLAIN_BEGIN
static int attn__has_dot(void) {
    uint32_t a, b, c, d;
    return !strcmp(attn__machine()->isa->name, "avx512") &&
           __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}
#endif

typedef struct attn__probe {
    int64_t n, floats;
    float *data;
    int dot;
    float sink[1024];
} attn__probe;
static void attn__probe_fma(void *arg, int64_t i) {
    attn__probe *p = (attn__probe *)arg;
#if ATTN__AVX512
    if (p->dot) {
        p->sink[i % 1024] = attn__dot_chain__avx512(p->n);
        return;
    }
#endif
    p->sink[i % 1024] = attn__machine()->isa->fma_chain(p->n);
}
static void attn__probe_read(void *arg, int64_t i) {
    attn__probe *p = (attn__probe *)arg;
    for (int64_t r = 0; r < p->n; r++)
        p->sink[i % 1024] = attn__machine()->isa->read(p->data + i * p->floats, p->floats);
}
/* For attn_bench, which includes the implementation, and is asked for few calls. */
static int attn__probe_runs = 12;
/* The shortest of some runs of a probe of at least 2 ms each. */
static double attn__probe_time(attn__probe *p, attn__task task, int32_t threads) {
    attn_desc where;
    memset(&where, 0, sizeof where);
    double best = 1e30;
    for (int run = 0, doubled = 0; run < attn__probe_runs; run++) {
        double start = attn_seconds();
        attn__parallel(&where, threads, task, p, threads);
        double took = attn_seconds() - start;
        if (took < 2e-3 && doubled < 20) {
            p->n *= 2;
            doubled++;
            run = -1;
            best = 1e30;
            continue;
        }
        if (took < best) best = took;
    }
    return best;
}
ATTN_API double attn_peak_gflops(int32_t dtype, int32_t threads) {
    attn__probe p;
    if (!attn__machine()->isa || !attn__dtype_known(dtype)) return 0;
    if (threads <= 0) threads = attn_threads();
    memset(&p, 0, sizeof p);
    p.n = 1 << 14;
    const attn__kernels *isa = attn__machine()->isa;
    double seconds = attn__probe_time(&p, attn__probe_fma, threads),
           peak = 2.0 * (double)(isa->MR * isa->NV * isa->W) * (double)p.n * threads / seconds;
#if ATTN__AVX512
    if (dtype == ATTN_BF16 && attn__has_dot()) {
        p.dot = 1;
        p.n = 1 << 14;
        seconds = attn__probe_time(&p, attn__probe_fma, threads);
        double dot = 64.0 * 12 * (double)p.n * threads / seconds;
        if (dot > peak) peak = dot;
    }
#endif
    return peak * 1e-9;
}
ATTN_API double attn_bandwidth_gbytes(size_t bytes, int32_t threads) {
    attn__probe p;
    if (!attn__machine()->isa) return 0;
    if (threads <= 0) threads = attn_threads();
    memset(&p, 0, sizeof p);
    p.floats = attn__max(1, (int64_t)(bytes / 4) / threads / 128) * 128;
    if ((uint64_t)p.floats * (uint64_t)threads > SIZE_MAX / 8) return 0;
    size_t size = (size_t)(p.floats * threads) * 4;
    p.data = (float *)attn__get(NULL, size);
    if (!p.data) return 0;
    memset(p.data, 0, size);
    p.n = 1;
    double seconds = attn__probe_time(&p, attn__probe_read, threads);
    attn__put(NULL, p.data, size);
    return (double)size * (double)p.n / seconds * 1e-9;
}
#endif

/* ========================================================================= >>ops_portable ====
   Eleven named operations on a vector of W floats each; the kernels below are written in nothing
   else. An ISA says W (up to 16), the tile of its kernels, MR rows (up to 8) by NV vectors (up to
   6), such that MR * NV accumulators, NV operands and a broadcast fit its registers, and defines

     load(p) store(p, v)          unaligned
     set1(x) fma(a, b, c) max(a, b)   a NaN in b of max is kept
     pick(a, b, x, y)             a < b ? x : y
     exp2(x)                      error 1.8e-7, exp2(0) = 1, exp2(-infinity) = 0; results below
                                  2^-126 are 0
     recip(v)                     1 / v, error 2e-7, v in [1, 2^64]
     clip(v, from, lo, hi)        lane l of column from + l: kept inside [lo, hi), lo <= hi, else
                                  -infinity
     hide(v, p, n)                lanes whose mask byte p[l] is 0, or l >= n: -infinity
     keep(v, x, words, least)     v * x; lanes whose word is below `least`: 0

   These have a form in terms of those in >>generic; an ISA that has better says so in ATTN__OWN:

     LANES     load_n(p, n) store_n(p, v, n)   the first n lanes, others 0
     NARROW    load16(p, n, dtype)    f16, bf16 -> f32, n lanes
               load8(p, n, dtype)     int8, fp8 -> f32, n lanes
               store16(p, v, n, dtype)   to nearest even
     HALVES    half(p)                the f16 at p in every lane
               load4(p, high)         W halves of bytes, less 8 -> f32: the low ones or the high
     RANDOM    random(out, n, at, keys)   n of the words of dropout, and up to 128: for Philox
                                      counters {at[0], at[0] + 1, ..}, at[1], at[2], at[3], with the
                                      two keys of each round
     REDUCE    reduce_max(v) reduce_add(v)   in a fixed order
               max_rows(p, out) add_rows(p, out)   the same of MR vectors at p, into out[0 .. MR)
                                      of 16
               add_lanes(r)           lane l: the sum of the lanes of r[l] of W, each in the same
                                      order
     TRANSPOSE transpose(r)           r[0..W-1] as a W x W matrix
     LEAVE     leave()                before plain code is called: dirty upper halves cost it 600
                                      cycles
     BROADCAST lane(p) fma_lane(a, b, c)   fma of *p in every lane; what lane returns goes there alone
               fma_step(x, a, b)      an FMA that waits for x

   For >>int16, where the ISA has it: I is a vector of W int32 or of W pairs of int16, ATTN__I its
   type. The operators of C work on it.

     INT16     pairs(p)               the pair at p in every lane
               load_pairs(p) store_pairs(p, i)
               dot(a, b, c)           c + the products of both pairs, modulo 2^32
               dot4(a, b, c) sum4(c, d)   in each lane the products of 4 bytes of a, with a sign,
                                      with 4 of b, without, join c: two calls from 0 on, before sum4
                                      adds c to d; in between c is the ISA's own. Bytes of a are at
                                      most ATTN__BYTE__<isa> in size, of b twice that and 1
               nearest(v)             to int32, to nearest even
               number(i)              int32 -> f32
               store_codes(p, i)      W int32 in the range of int16, as such
               root(v)                square root of v, at least 0

   For >>decode, where the ISA has it and INT16:

     BYTES     spread(p)              2 W signed bytes, as pairs of int16
               zip(a, b, r)           r[0], r[1]: the int16 of a, each in a pair with that of b, in an
                                      order of the ISA's own
               unzip(r)               r[0], r[1], of 2 W numbers in that order, in theirs

   For products of bf16; a vector holds W pairs of them, as they lie in memory:

     BF16      dot16(a, b, c)         c + the products of both pairs, in f32, to nearest even
               pair16(a, b)           pairs of a and b, which are bf16 in f32
               half16(p, v)           v to bf16, to nearest even, denormals as 0

   exp2: 2^x = 2^floor(x) * 2^r, r in [0,1); 1 + r (c1 + .. + c5 r^4) minimises the relative error
   (8.3e-8, Remez) with exp2(0) exact. */
#define ATTN__OWN_LANES 1
#define ATTN__OWN_NARROW 2
#define ATTN__OWN_RANDOM 4
#define ATTN__OWN_REDUCE 8
#define ATTN__OWN_TRANSPOSE 16
#define ATTN__OWN_LEAVE 32
#define ATTN__OWN_BROADCAST 64
#define ATTN__OWN_INT16 128
#define ATTN__OWN_BYTES 256
#define ATTN__OWN_HALVES 512
#define ATTN__OWN_BF16 1024
#define ATTN__EXP2_C1 0.693151312f
#define ATTN__EXP2_C2 0.240164449f
#define ATTN__EXP2_C3 0.0557999157f
#define ATTN__EXP2_C4 0.00901702766f
#define ATTN__EXP2_C5 0.00186713104f

/* Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2,
 * 3", SC 2011. */
static ATTN__UNUSED void attn__philox(
    const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0],
             k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Under -ffast-math clang's code generator takes max(a, b) for max(b, a), and a < b for !(a >= b),
 * whatever the pragmas say, and so drops a NaN: the instructions are written out then. */
#if defined(__clang__) && \
    (defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__))
#define ATTN__NO_NANS 1
#else
#define ATTN__NO_NANS 0
#endif

/* ---- portable: whatever vectors of 4 floats the compiler has, or single floats ---- */
#if !defined(ATTN__W__portable) && ATTN__GNU && \
    (defined(__SSE2__) || defined(__ARM_NEON) || defined(__ALTIVEC__) || \
        defined(__wasm_simd128__))
#define ATTN__W__portable 4
typedef float attn__v__portable ATTN__VECTOR(16);
#else /* where a test asks for it, too */
#undef ATTN__W__portable
#define ATTN__W__portable 1
typedef float attn__v__portable;
#endif
#if !defined(ATTN__MR__portable) && ATTN__SMALL /* a test has a tile of another shape */
#define ATTN__MR__portable 4
#define ATTN__NV__portable 1
#elif !defined(ATTN__MR__portable)
#define ATTN__MR__portable 6
#define ATTN__NV__portable 2
#endif
#define ATTN__OWN__portable ATTN__OWN_INT16
#define ATTN__BYTE__portable 127
typedef union attn__lanes__portable {
    attn__v__portable v;
    float x[ATTN__W__portable];
    uint32_t u[ATTN__W__portable];
} attn__lanes__portable;
#define ATTN__EACH for (int64_t l = 0; l < ATTN__W__portable; l++)

ATTN__INLINE attn__v__portable attn__load__portable(const float *p) {
    attn__v__portable v;
    memcpy(&v, p, sizeof v);
    return v;
}
ATTN__INLINE void attn__store__portable(float *p, attn__v__portable v) { memcpy(p, &v, sizeof v); }
ATTN__INLINE attn__v__portable attn__set1__portable(float x) {
    attn__lanes__portable r;
    ATTN__EACH r.x[l] = x;
    return r.v;
}
ATTN__INLINE attn__v__portable attn__fma__portable(
    attn__v__portable a, attn__v__portable b, attn__v__portable c) {
    attn__v__portable v = a * b;
    ATTN__F32(v); /* or bits would follow from how many of a tile's rows fit into registers */
    v = v + c;
    ATTN__F32(v);
    return v;
}
ATTN__INLINE attn__v__portable attn__max__portable(attn__v__portable a, attn__v__portable b) {
    attn__lanes__portable x, y;
    x.v = a;
    y.v = b;
    ATTN__EACH {
        const int nan = ATTN__NO_NANS && (y.u[l] & 0x7fffffff) > 0x7f800000u;
        x.u[l] = !nan && x.x[l] > y.x[l] ? x.u[l] : y.u[l];
    }
    return x.v;
}
ATTN__INLINE attn__v__portable attn__exp2__portable(attn__v__portable x) {
    attn__lanes__portable r, n, nan;
    nan.v = r.v = x;
    ATTN__EACH {
        float f = r.x[l] < -127.0f ? -127.0f : r.x[l] > 128.0f ? 128.0f : r.x[l];
        /* floor: f + 128 >= 0 */
        int32_t i = (int32_t)(attn__bits(f) << 1 > 0xff000000u ? 0.0f : f + 128.0f) - 128;
        r.x[l] = f - (float)i;
        n.u[l] = (uint32_t)(i + 127) << 23;
    }
    attn__v__portable p = attn__set1__portable(ATTN__EXP2_C5);
    p = p * r.v + attn__set1__portable(ATTN__EXP2_C4);
    p = p * r.v + attn__set1__portable(ATTN__EXP2_C3);
    p = p * r.v + attn__set1__portable(ATTN__EXP2_C2);
    p = p * r.v + attn__set1__portable(ATTN__EXP2_C1);
    p = p * r.v + attn__set1__portable(1.0f);
    r.v = p * n.v;
    ATTN__EACH if ((nan.u[l] & 0x7fffffff) > 0x7f800000u) r.x[l] = nan.x[l];
    return r.v;
}
ATTN__INLINE attn__v__portable attn__clip__portable(
    attn__v__portable v, int32_t from, int32_t lo, int32_t hi) {
    attn__lanes__portable r;
    r.v = v;
    ATTN__EACH if (from + l < lo || from + l >= hi) r.u[l] = 0xff800000u;
    return r.v;
}
ATTN__INLINE attn__v__portable attn__hide__portable(
    attn__v__portable v, const unsigned char *p, int64_t n) {
    attn__lanes__portable r;
    r.v = v;
    ATTN__EACH if (l >= n || p[l] == 0) r.u[l] = 0xff800000u;
    return r.v;
}
ATTN__INLINE attn__v__portable attn__pick__portable(
    attn__v__portable a, attn__v__portable b, attn__v__portable x, attn__v__portable y) {
    attn__lanes__portable s, t, r, q;
    s.v = a;
    t.v = b;
    r.v = x;
    q.v = y;
    ATTN__EACH {
        const int nan = ATTN__NO_NANS && (s.u[l] & 0x7fffffff) > 0x7f800000u;
        r.u[l] = !nan && s.x[l] < t.x[l] ? r.u[l] : q.u[l];
    }
    return r.v;
}
ATTN__INLINE attn__v__portable attn__recip__portable(attn__v__portable v) {
    return attn__set1__portable(1) / v;
}
ATTN__INLINE attn__v__portable attn__keep__portable(
    attn__v__portable v, attn__v__portable x, const uint32_t *words, uint32_t least) {
    attn__lanes__portable r;
    r.v = v * x;
    ATTN__EACH if (words[l] < least) r.u[l] = 0;
    return r.v;
}
#if ATTN__ADAPTIVE
#if ATTN__W__portable == 4
typedef int32_t attn__i__portable ATTN__VECTOR(16);
#else
typedef int32_t attn__i__portable;
#endif
typedef union attn__ints__portable { /* of a pair the first is the low half, whatever the bytes */
    attn__i__portable v;
    int32_t x[ATTN__W__portable];
} attn__ints__portable;
ATTN__INLINE attn__i__portable attn__load_pairs__portable(const int32_t *p) {
    attn__i__portable v;
    memcpy(&v, p, sizeof v);
    return v;
}
ATTN__INLINE void attn__store_pairs__portable(int32_t *p, attn__i__portable v) {
    memcpy(p, &v, sizeof v);
}
ATTN__INLINE attn__i__portable attn__pairs__portable(const int16_t *p) {
    attn__ints__portable r;
    ATTN__EACH r.x[l] = (p[0] & 0xffff) + p[1] * 65536;
    return r.v;
}
ATTN__INLINE int32_t attn__dot_lane(int32_t a, int32_t b, int32_t c) {
    const int32_t low = (int16_t)a * (int16_t)b, high = (a >> 16) * (b >> 16);
    return (int32_t)((uint32_t)c + (uint32_t)low + (uint32_t)high);
}
ATTN__INLINE int32_t attn__dot4_lane(int32_t a, int32_t b, int32_t c) {
    for (int n = 0; n < 32; n += 8)
        c += (int8_t)((uint32_t)a >> n) * (int32_t)((uint32_t)b >> n & 0xff);
    return c;
}
#define ATTN__DOTS_PORTABLE(name) \
    ATTN__INLINE attn__i__portable attn__##name##__portable( \
        attn__i__portable a, attn__i__portable b, attn__i__portable c) { \
        attn__ints__portable x, y, r; \
        x.v = a; \
        y.v = b; \
        r.v = c; \
        ATTN__EACH r.x[l] = attn__##name##_lane(x.x[l], y.x[l], r.x[l]); \
        return r.v; \
    }
ATTN__DOTS_PORTABLE(dot)
ATTN__DOTS_PORTABLE(dot4)
#undef ATTN__DOTS_PORTABLE
/* below 2^22: the sum has no bits behind the point */
ATTN__INLINE attn__i__portable attn__nearest__portable(attn__v__portable v) {
    const attn__v__portable magic = attn__set1__portable(12582912.0f);
    attn__lanes__portable x;
    attn__ints__portable r;
    v = v + magic;
    ATTN__ROUNDED(v);
    ATTN__F32(v);
    x.v = v - magic;
    ATTN__EACH r.x[l] = x.x[l] > -2147483648.0f && x.x[l] < 2147483648.0f ? (int32_t)x.x[l] : 0;
    return r.v;
}
ATTN__INLINE attn__v__portable attn__number__portable(attn__i__portable v) {
    attn__ints__portable x;
    attn__lanes__portable r;
    x.v = v;
    ATTN__EACH r.x[l] = (float)x.x[l];
    return r.v;
}
ATTN__INLINE attn__i__portable attn__sum4__portable(attn__i__portable a, attn__i__portable c) {
    return a + c;
}
ATTN__INLINE void attn__store_codes__portable(int16_t *p, attn__i__portable v) {
    attn__ints__portable x;
    x.v = v;
    ATTN__EACH p[l] = (int16_t)x.x[l];
}
ATTN__INLINE attn__v__portable attn__root__portable(attn__v__portable v) {
    attn__lanes__portable r;
    r.v = v;
    ATTN__EACH r.x[l] = (float)attn__sqrt((double)r.x[l]);
    return r.v;
}
#endif
#undef ATTN__EACH

#if defined(__clang__)
#if __has_builtin(__builtin_elementwise_fma)
#define ATTN__CLANG_FMA(old, a, b, c) __builtin_elementwise_fma(a, b, c)
#else
#define ATTN__CLANG_FMA(old, a, b, c) old
#endif
#endif
#if ATTN__PORTABLE
#define ATTN__KERNEL portable
#include ATTN_HEADER
#undef ATTN__KERNEL
#endif
ATTN__PLAIN_END

/* ============================================================================= >>ops_avx2 ====
   AVX2, FMA, F16C. */
#if ATTN__AVX2
#define ATTN__W__avx2 8
#define ATTN__MR__avx2 6
#define ATTN__NV__avx2 2
#define ATTN__BYTE__avx2 63 /* sums of four products stay below 2^15 */
#define ATTN__OWN__avx2 \
    (ATTN__OWN_LANES | ATTN__OWN_NARROW | ATTN__OWN_RANDOM | ATTN__OWN_REDUCE | \
        ATTN__OWN_TRANSPOSE | ATTN__OWN_LEAVE | ATTN__OWN_INT16 | ATTN__OWN_HALVES)
#define ATTN__TARGET_avx2 "avx2,fma,f16c"
ATTN__REGION(avx2)
typedef float attn__v__avx2 ATTN__VECTOR(32);
static const int32_t attn__window__avx2[16] = {
    -1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
ATTN__INLINE __m256i attn__first__avx2(int64_t n) { /* the first n lanes set, n in any range */
    int64_t k = n < 0 ? 0 : n > 8 ? 8 : n;
    return _mm256_loadu_si256((const __m256i *)(const void *)(attn__window__avx2 + 8 - k));
}
ATTN__INLINE attn__v__avx2 attn__load__avx2(const float *p) {
    return (attn__v__avx2)_mm256_loadu_ps(p);
}
ATTN__INLINE void attn__store__avx2(float *p, attn__v__avx2 v) { _mm256_storeu_ps(p, (__m256)v); }
ATTN__INLINE attn__v__avx2 attn__load_n__avx2(const float *p, int64_t n) {
    return (attn__v__avx2)_mm256_maskload_ps(p, attn__first__avx2(n));
}
ATTN__INLINE void attn__store_n__avx2(float *p, attn__v__avx2 v, int64_t n) {
    _mm256_maskstore_ps(p, attn__first__avx2(n), (__m256)v);
}
ATTN__INLINE attn__v__avx2 attn__load16__avx2(const void *p, int64_t n, int32_t dtype) {
    uint16_t part[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    __m128i h;
    if (n >= 8) h = _mm_loadu_si128((const __m128i *)p);
    else {
        for (int64_t l = 0; l < n; l++) part[l] = ((const uint16_t *)p)[l];
        h = _mm_loadu_si128((const __m128i *)(const void *)part);
    }
    if (dtype == ATTN_F16) return (attn__v__avx2)_mm256_cvtph_ps(h);
    return (attn__v__avx2)_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16);
}
/* An e4m3 number is the f16 of its bits in the same places, times 2^8; its NaN is f16's. */
ATTN__INLINE attn__v__avx2 attn__load8__avx2(const void *p, int64_t n, int32_t dtype) {
    uint8_t part[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    memcpy(part, p, (size_t)attn__clamp(n, 0, 8));
    __m128i b = _mm_loadl_epi64((const __m128i *)(const void *)part);
    if (dtype == ATTN_INT8) return (attn__v__avx2)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b));
    __m128i h = _mm_cvtepi8_epi16(b),
            nan = _mm_cmpeq_epi16(_mm_and_si128(h, _mm_set1_epi16(0x7f)), _mm_set1_epi16(0x7f));
    h = _mm_and_si128(_mm_slli_epi16(h, 7), _mm_set1_epi16((short)0xbfff));
    h = _mm_blendv_epi8(h, _mm_set1_epi16(0x7e00), nan);
    return (attn__v__avx2)_mm256_cvtph_ps(h) * (attn__v__avx2)_mm256_set1_ps(256);
}
ATTN__INLINE attn__v__avx2 attn__half__avx2(const void *p) {
    int16_t h;
    memcpy(&h, p, sizeof h);
    return (attn__v__avx2)_mm256_cvtph_ps(_mm_set1_epi16(h));
}
ATTN__INLINE attn__v__avx2 attn__load4__avx2(const uint8_t *p, int high) {
    __m128i b = _mm_loadl_epi64((const __m128i *)(const void *)p);
    b = _mm_and_si128(high ? _mm_srli_epi16(b, 4) : b, _mm_set1_epi8(15));
    return (attn__v__avx2)_mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_sub_epi8(b, _mm_set1_epi8(8))));
}
ATTN__INLINE void attn__store16__avx2(void *p, attn__v__avx2 v, int64_t n, int32_t dtype) {
    uint16_t part[8];
    __m128i h;
    if (dtype == ATTN_F16) h = _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
    else {
        __m256i u = (__m256i)v,
                odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
        __m256i r = _mm256_srli_epi32(
            _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
        __m256i nan = _mm256_cmpgt_epi32(
            _mm256_and_si256(u, _mm256_set1_epi32(0x7fffffff)), _mm256_set1_epi32(0x7f800000));
        r = _mm256_blendv_epi8(
            r, _mm256_or_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(0x40)), nan);
        r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x88);
        h = _mm256_castsi256_si128(r);
    }
    if (n >= 8) {
        _mm_storeu_si128((__m128i *)p, h);
        return;
    }
    _mm_storeu_si128((__m128i *)(void *)part, h);
    for (int64_t l = 0; l < n; l++) ((uint16_t *)p)[l] = part[l];
}
ATTN__INLINE attn__v__avx2 attn__set1__avx2(float x) { return (attn__v__avx2)_mm256_set1_ps(x); }
ATTN__INLINE attn__v__avx2 attn__fma__avx2(attn__v__avx2 a, attn__v__avx2 b, attn__v__avx2 c) {
#if defined(__clang__) /* not the intrinsic: its header carries the host's fast-math flags */
    return (attn__v__avx2)ATTN__CLANG_FMA(
        __builtin_ia32_vfmaddps256((__m256)a, (__m256)b, (__m256)c), a, b, c);
#else
    return (attn__v__avx2)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#endif
}
ATTN__INLINE attn__v__avx2 attn__max__avx2(attn__v__avx2 a, attn__v__avx2 b) {
#if ATTN__NO_NANS
    attn__v__avx2 r;
    __asm__("vmaxps %2, %1, %0" : "=x"(r) : "x"(a), "x"(b));
    return r;
#else
    return (attn__v__avx2)_mm256_max_ps((__m256)a, (__m256)b);
#endif
}
ATTN__INLINE attn__v__avx2 attn__exp2__avx2(attn__v__avx2 x) {
#if ATTN__NO_NANS
    __m256 c = _mm256_set1_ps(128.0f), low = (__m256)attn__max__avx2(attn__set1__avx2(-127.0f), x);
    __asm__("vminps %1, %0, %0" : "+x"(c) : "x"(low));
#else
    __m256 c =
        _mm256_min_ps(_mm256_set1_ps(128.0f), _mm256_max_ps(_mm256_set1_ps(-127.0f), (__m256)x));
#endif
    __m256 n = _mm256_floor_ps(c);
    attn__v__avx2 r = (attn__v__avx2)c - (attn__v__avx2)n, p = attn__set1__avx2(ATTN__EXP2_C5);
    p = attn__fma__avx2(p, r, attn__set1__avx2(ATTN__EXP2_C4));
    p = attn__fma__avx2(p, r, attn__set1__avx2(ATTN__EXP2_C3));
    p = attn__fma__avx2(p, r, attn__set1__avx2(ATTN__EXP2_C2));
    p = attn__fma__avx2(p, r, attn__set1__avx2(ATTN__EXP2_C1));
    p = attn__fma__avx2(p, r, attn__set1__avx2(1.0f));
    __m256i e =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvttps_epi32(n), _mm256_set1_epi32(127)), 23);
    p = p * (attn__v__avx2)e;
    ATTN__ROUNDED(p);
    return p;
}
ATTN__INLINE attn__v__avx2 attn__clip__avx2(attn__v__avx2 v, int32_t from, int32_t lo, int32_t hi) {
    __m256i at = _mm256_add_epi32(
                _mm256_set1_epi32(from - lo), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
            keep = _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_setzero_si256(), at),
                _mm256_cmpgt_epi32(_mm256_set1_epi32(hi - lo), at));
    return (attn__v__avx2)_mm256_blendv_ps(_mm256_set1_ps(ATTN__NEG_INF), (__m256)v, (__m256)keep);
}
ATTN__INLINE attn__v__avx2 attn__hide__avx2(attn__v__avx2 v, const unsigned char *p, int64_t n) {
    unsigned char part[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    memcpy(part, p, (size_t)(n > 8 ? 8 : n < 0 ? 0 : n));
    __m256i zero = _mm256_cmpeq_epi32(
        _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)part)),
        _mm256_setzero_si256());
    return (attn__v__avx2)_mm256_blendv_ps((__m256)v, _mm256_set1_ps(ATTN__NEG_INF), (__m256)zero);
}
ATTN__INLINE attn__v__avx2 attn__pick__avx2(
    attn__v__avx2 a, attn__v__avx2 b, attn__v__avx2 x, attn__v__avx2 y) {
#if ATTN__NO_NANS
    __m256 less;
    __asm__("vcmpltps %2, %1, %0" : "=x"(less) : "x"(a), "x"(b));
#else
    __m256 less = _mm256_cmp_ps((__m256)a, (__m256)b, _CMP_LT_OQ);
#endif
    return (attn__v__avx2)_mm256_blendv_ps((__m256)y, (__m256)x, less);
}
ATTN__INLINE void attn__leave__avx2(void) { _mm256_zeroupper(); }
ATTN__INLINE attn__v__avx2 attn__recip__avx2(attn__v__avx2 v) { /* 12 bits and a Newton step */
    attn__v__avx2 r = (attn__v__avx2)_mm256_rcp_ps((__m256)v), one = attn__set1__avx2(1);
    return attn__fma__avx2(attn__fma__avx2(attn__set1__avx2(0) - v, r, one), r, r);
}
/* Philox on 4 counters, each value in the low half of a 64-bit lane: lanes hold counters 0,
 * 2, 1, 3, so that two interleavings leave the words in order. What lies in the high halves
 * is never read. */
ATTN__INLINE void attn__random__avx2(
    uint32_t *out, int64_t count, const uint32_t *at, const uint64_t *keys) {
    const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
    const __m256i low = _mm256_set1_epi64x(0xffffffff), order = _mm256_setr_epi64x(0, 2, 1, 3);
    for (int64_t n = 0; 4 * n < count; n += 4, out += 16) {
        __m256i c0 = _mm256_add_epi64(_mm256_set1_epi64x((int64_t)at[0] + n), order);
        __m256i c1 = _mm256_set1_epi64x(at[1]), c2 = _mm256_set1_epi64x(at[2]);
        __m256i c3 = _mm256_set1_epi64x(at[3]);
        for (const uint64_t *k = keys; k < keys + 20; k += 2) {
            __m256i p0 = _mm256_mul_epu32(m0, c0), p1 = _mm256_mul_epu32(m1, c2);
            __m256i x0 = _mm256_xor_si256(c1, _mm256_set1_epi64x((int64_t)k[0]));
            __m256i x1 = _mm256_xor_si256(c3, _mm256_set1_epi64x((int64_t)k[1]));
            c0 = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), x0);
            c2 = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), x1);
            c1 = p1;
            c3 = p0;
        }
        c0 = _mm256_or_si256(_mm256_and_si256(c0, low), _mm256_slli_epi64(c1, 32));
        c2 = _mm256_or_si256(_mm256_and_si256(c2, low), _mm256_slli_epi64(c3, 32));
        _mm256_storeu_si256((__m256i *)(void *)out, _mm256_unpacklo_epi64(c0, c2));
        _mm256_storeu_si256((__m256i *)(void *)(out + 8), _mm256_unpackhi_epi64(c0, c2));
    }
}
ATTN__INLINE attn__v__avx2 attn__keep__avx2(
    attn__v__avx2 v, attn__v__avx2 x, const uint32_t *words, uint32_t least) {
    __m256i w = _mm256_loadu_si256((const __m256i *)(const void *)words),
            t = _mm256_set1_epi32((int)least);
    return (attn__v__avx2)_mm256_and_si256(
        (__m256i)(v * x), _mm256_cmpeq_epi32(_mm256_max_epu32(w, t), w));
}
ATTN__INLINE float attn__reduce_max__avx2(attn__v__avx2 v) {
    __m128 a = _mm_max_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(a, _mm_shuffle_ps(a, a, 1)));
}
ATTN__INLINE float attn__reduce_add__avx2(attn__v__avx2 v) {
    float x[8];
    _mm256_storeu_ps(x, (__m256)v);
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}
/* Halves of each vector are joined, two vectors to one, then pairs of lanes, then lanes. */
#define ATTN__FOLD_AVX2(op) \
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); \
    __m256 a[3], c, e; \
    ATTN__UNROLL for (int n = 0; n < 3; n++) { \
        __m256 x = _mm256_loadu_ps(p + 16 * n), y = _mm256_loadu_ps(p + 16 * n + 8); \
        a[n] = op(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31)); \
    } \
    c = op(_mm256_shuffle_ps(a[0], a[1], 0x44), _mm256_shuffle_ps(a[0], a[1], 0xee)); \
    e = op(_mm256_shuffle_ps(a[2], a[2], 0x44), _mm256_shuffle_ps(a[2], a[2], 0xee)); \
    c = op(_mm256_shuffle_ps(c, e, 0x88), _mm256_shuffle_ps(c, e, 0xdd)); \
    _mm256_storeu_ps(out, _mm256_permutevar8x32_ps(c, order))
ATTN__INLINE void attn__max_rows__avx2(const float *p, float *out) {
    ATTN__FOLD_AVX2(_mm256_max_ps);
}
ATTN__INLINE void attn__add_rows__avx2(const float *p, float *out) {
    ATTN__FOLD_AVX2(_mm256_add_ps);
}
/* Pairs of lanes of two vectors, then fours of four, then halves. */
ATTN__INLINE attn__v__avx2 attn__add_lanes__avx2(const attn__v__avx2 *r) {
    __m256 pair[4], four[2];
    ATTN__UNROLL for (int i = 0; i < 4; i++) {
        const __m256 x = (__m256)r[2 * i], y = (__m256)r[2 * i + 1];
        pair[i] = _mm256_add_ps(_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y));
    }
    ATTN__UNROLL for (int i = 0; i < 2; i++)
        four[i] = _mm256_add_ps(_mm256_shuffle_ps(pair[2 * i], pair[2 * i + 1], 0x44),
            _mm256_shuffle_ps(pair[2 * i], pair[2 * i + 1], 0xee));
    return (attn__v__avx2)_mm256_add_ps(_mm256_permute2f128_ps(four[0], four[1], 0x20),
        _mm256_permute2f128_ps(four[0], four[1], 0x31));
}
ATTN__INLINE void attn__transpose__avx2(attn__v__avx2 *r) {
    __m256 a[8], b[8];
    ATTN__UNROLL for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm256_unpacklo_ps((__m256)r[2 * i], (__m256)r[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_ps((__m256)r[2 * i], (__m256)r[2 * i + 1]);
    }
    ATTN__UNROLL for (int i = 0; i < 2; i++) {
        b[4 * i] = _mm256_shuffle_ps(a[4 * i], a[4 * i + 2], 0x44);
        b[4 * i + 1] = _mm256_shuffle_ps(a[4 * i], a[4 * i + 2], 0xee);
        b[4 * i + 2] = _mm256_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0x44);
        b[4 * i + 3] = _mm256_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0xee);
    }
    ATTN__UNROLL for (int i = 0; i < 4; i++) {
        r[i] = (attn__v__avx2)_mm256_permute2f128_ps(b[i], b[4 + i], 0x20);
        r[4 + i] = (attn__v__avx2)_mm256_permute2f128_ps(b[i], b[4 + i], 0x31);
    }
}
#if ATTN__ADAPTIVE
typedef int32_t attn__i__avx2 ATTN__VECTOR(32);
ATTN__INLINE attn__i__avx2 attn__load_pairs__avx2(const int32_t *p) {
    return (attn__i__avx2)_mm256_loadu_si256((const __m256i *)(const void *)p);
}
ATTN__INLINE void attn__store_pairs__avx2(int32_t *p, attn__i__avx2 v) {
    _mm256_storeu_si256((__m256i *)(void *)p, (__m256i)v);
}
ATTN__INLINE attn__i__avx2 attn__pairs__avx2(const int16_t *p) {
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return (attn__i__avx2)_mm256_set1_epi32(pair);
}
ATTN__INLINE attn__i__avx2 attn__dot__avx2(attn__i__avx2 a, attn__i__avx2 b, attn__i__avx2 c) {
    return (attn__i__avx2)_mm256_add_epi32((__m256i)c, _mm256_madd_epi16((__m256i)a, (__m256i)b));
}
ATTN__INLINE attn__i__avx2 attn__dot4__avx2(attn__i__avx2 a, attn__i__avx2 b, attn__i__avx2 c) {
    attn__i__avx2 products; /* gcc would keep those of four calls, and spill */
    __asm__("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0"
        : "+x"(c), "=&x"(products)
        : "x"(b), "x"(a));
    return c;
}
ATTN__INLINE attn__i__avx2 attn__sum4__avx2(attn__i__avx2 a, attn__i__avx2 c) {
    return (attn__i__avx2)_mm256_add_epi32(
        (__m256i)c, _mm256_madd_epi16((__m256i)a, _mm256_set1_epi16(1)));
}
ATTN__INLINE attn__i__avx2 attn__nearest__avx2(attn__v__avx2 v) {
    return (attn__i__avx2)_mm256_cvtps_epi32((__m256)v);
}
ATTN__INLINE attn__v__avx2 attn__number__avx2(attn__i__avx2 v) {
    return (attn__v__avx2)_mm256_cvtepi32_ps((__m256i)v);
}
ATTN__INLINE void attn__store_codes__avx2(int16_t *p, attn__i__avx2 v) {
    __m256i h = _mm256_packs_epi32((__m256i)v, (__m256i)v);
    h = _mm256_permute4x64_epi64(h, 0x88);
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_castsi256_si128(h));
}
ATTN__INLINE attn__v__avx2 attn__root__avx2(attn__v__avx2 v) { /* no estimate, whatever the flags */
    __asm__("vsqrtps %0, %0" : "+x"(v));
    return v;
}
#endif
#define ATTN__KERNEL avx2
#include ATTN_HEADER
#undef ATTN__KERNEL
ATTN__REGION_END
#endif

/* =========================================================================== >>ops_avx512 ====
   AVX-512 F, BW, DQ, VL. */
#if ATTN__AVX512
#define ATTN__W__avx512 16
#define ATTN__MR__avx512 6
#define ATTN__NV__avx512 4
#define ATTN__BYTE__avx512 127
#define ATTN__OWN__avx512 \
    (ATTN__OWN_LANES | ATTN__OWN_NARROW | ATTN__OWN_RANDOM | ATTN__OWN_REDUCE | \
        ATTN__OWN_TRANSPOSE | ATTN__OWN_LEAVE | ATTN__OWN_INT16 | ATTN__OWN_BYTES | \
        ATTN__OWN_HALVES | ATTN__OWN_BF16)
#if defined(__clang__)
#define ATTN__TARGET_avx512 "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"
#else
#define ATTN__TARGET_avx512 \
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512"
#endif
ATTN__REGION(avx512)
typedef float attn__v__avx512 ATTN__VECTOR(64);
ATTN__INLINE __mmask16 attn__first__avx512(int64_t n) { /* the first n lanes, n in any range */
    return (__mmask16)(n <= 0 ? 0 : n >= 16 ? 0xffff : (1u << n) - 1);
}
ATTN__INLINE attn__v__avx512 attn__load__avx512(const float *p) {
    return (attn__v__avx512)_mm512_loadu_ps(p);
}
ATTN__INLINE void attn__store__avx512(float *p, attn__v__avx512 v) {
    _mm512_storeu_ps(p, (__m512)v);
}
ATTN__INLINE attn__v__avx512 attn__load_n__avx512(const float *p, int64_t n) {
    return (attn__v__avx512)_mm512_maskz_loadu_ps(attn__first__avx512(n), p);
}
ATTN__INLINE void attn__store_n__avx512(float *p, attn__v__avx512 v, int64_t n) {
    _mm512_mask_storeu_ps(p, attn__first__avx512(n), (__m512)v);
}
ATTN__INLINE attn__v__avx512 attn__load16__avx512(const void *p, int64_t n, int32_t dtype) {
    __m256i h = n >= 16 ? _mm256_loadu_si256((const __m256i *)p)
                        : _mm256_maskz_loadu_epi16(attn__first__avx512(n), p);
    if (dtype == ATTN_F16) return (attn__v__avx512)_mm512_cvtph_ps(h);
    return (attn__v__avx512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);
}
ATTN__INLINE attn__v__avx512 attn__load8__avx512(const void *p, int64_t n, int32_t dtype) {
    __m128i b = n >= 16 ? _mm_loadu_si128((const __m128i *)p)
                        : _mm_maskz_loadu_epi8(attn__first__avx512(n), p);
    if (dtype == ATTN_INT8) return (attn__v__avx512)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(b));
    const __mmask16 nan =
        _mm_cmpeq_epi8_mask(_mm_or_si128(b, _mm_set1_epi8(-128)), _mm_set1_epi8(-1));
    __m256i h = _mm256_and_si256(
        _mm256_slli_epi16(_mm256_cvtepi8_epi16(b), 7), _mm256_set1_epi16((short)0xbfff));
    h = _mm256_mask_mov_epi16(h, nan, _mm256_set1_epi16(0x7e00));
    return (attn__v__avx512)_mm512_cvtph_ps(h) * (attn__v__avx512)_mm512_set1_ps(256);
}
ATTN__INLINE attn__v__avx512 attn__half__avx512(const void *p) {
    int16_t h;
    memcpy(&h, p, sizeof h);
    return (attn__v__avx512)_mm512_cvtph_ps(_mm256_set1_epi16(h));
}
ATTN__INLINE attn__v__avx512 attn__load4__avx512(const uint8_t *p, int high) {
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)p);
    b = _mm_and_si128(high ? _mm_srli_epi16(b, 4) : b, _mm_set1_epi8(15));
    return (attn__v__avx512)_mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_sub_epi8(b, _mm_set1_epi8(8))));
}
ATTN__INLINE void attn__store16__avx512(void *p, attn__v__avx512 v, int64_t n, int32_t dtype) {
    __m256i h;
    if (dtype == ATTN_F16)
        h = _mm512_maskz_cvtps_ph((__mmask16)0xffff, (__m512)v, _MM_FROUND_TO_NEAREST_INT);
    else {
        /* half of the last place, one less on an even one; a NaN (class 0x81) becomes quiet */
        __m512i u = (__m512i)v, r = _mm512_add_epi32(u, _mm512_set1_epi32(0x7fff));
        __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000)),
                  nan = _mm512_fpclass_ps_mask((__m512)v, 0x81);
        r = _mm512_mask_add_epi32(r, odd, r, _mm512_set1_epi32(1));
        r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x400000));
        r = _mm512_srli_epi32(r, 16);
        h = _mm512_cvtepi32_epi16(r);
    }
    if (n >= 16) _mm256_storeu_si256((__m256i *)p, h);
    else _mm256_mask_storeu_epi16(p, attn__first__avx512(n), h);
}
ATTN__INLINE attn__v__avx512 attn__set1__avx512(float x) {
    return (attn__v__avx512)_mm512_set1_ps(x);
}
ATTN__INLINE attn__v__avx512 attn__fma__avx512(
    attn__v__avx512 a, attn__v__avx512 b, attn__v__avx512 c) {
#if defined(__clang__)
    return (attn__v__avx512)ATTN__CLANG_FMA(
        __builtin_ia32_vfmaddps512_mask(
            (__m512)a, (__m512)b, (__m512)c, (__mmask16)0xffff, _MM_FROUND_CUR_DIRECTION),
        a, b, c);
#else
    return (attn__v__avx512)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#endif
}
ATTN__INLINE attn__v__avx512 attn__max__avx512(attn__v__avx512 a, attn__v__avx512 b) {
#if ATTN__NO_NANS
    attn__v__avx512 r;
    __asm__("vmaxps %2, %1, %0" : "=v"(r) : "v"(a), "v"(b));
    return r;
#else
    return (attn__v__avx512)_mm512_max_ps((__m512)a, (__m512)b);
#endif
}
ATTN__INLINE attn__v__avx512 attn__exp2__avx512(attn__v__avx512 x) {
    /* x - floor(x); 0 for infinity */
    attn__v__avx512 r = (attn__v__avx512)_mm512_reduce_ps((__m512)x, 0x09);
    attn__v__avx512 p = attn__set1__avx512(ATTN__EXP2_C5);
    p = attn__fma__avx512(p, r, attn__set1__avx512(ATTN__EXP2_C4));
    p = attn__fma__avx512(p, r, attn__set1__avx512(ATTN__EXP2_C3));
    p = attn__fma__avx512(p, r, attn__set1__avx512(ATTN__EXP2_C2));
    p = attn__fma__avx512(p, r, attn__set1__avx512(ATTN__EXP2_C1));
    p = attn__fma__avx512(p, r, attn__set1__avx512(1.0f));
    return (attn__v__avx512)_mm512_scalef_ps((__m512)p, (__m512)x);
}
ATTN__INLINE attn__v__avx512 attn__clip__avx512(
    attn__v__avx512 v, int32_t from, int32_t lo, int32_t hi) {
    __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __mmask16 keep = _mm512_cmplt_epu32_mask(/* below lo: beyond 2^31 */
        _mm512_add_epi32(_mm512_set1_epi32(from - lo), lane), _mm512_set1_epi32(hi - lo));
    return (attn__v__avx512)_mm512_mask_mov_epi32(
        _mm512_set1_epi32((int)0xff800000u), keep, (__m512i)v);
}
ATTN__INLINE attn__v__avx512 attn__hide__avx512(
    attn__v__avx512 v, const unsigned char *p, int64_t n) {
    __m128i bytes = _mm_maskz_loadu_epi8(attn__first__avx512(n), p);
    return (attn__v__avx512)_mm512_mask_mov_epi32(
        _mm512_set1_epi32((int)0xff800000u), _mm_test_epi8_mask(bytes, bytes), (__m512i)v);
}
ATTN__INLINE attn__v__avx512 attn__pick__avx512(
    attn__v__avx512 a, attn__v__avx512 b, attn__v__avx512 x, attn__v__avx512 y) {
#if ATTN__NO_NANS
    __mmask16 less;
    __asm__("vcmpltps %2, %1, %0" : "=k"(less) : "v"(a), "v"(b));
#else
    __mmask16 less = _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ);
#endif
    return (attn__v__avx512)_mm512_mask_mov_epi32((__m512i)y, less, (__m512i)x);
}
ATTN__INLINE void attn__leave__avx512(void) { _mm256_zeroupper(); }
/* 14 bits and a Newton step */
ATTN__INLINE attn__v__avx512 attn__recip__avx512(attn__v__avx512 v) {
    attn__v__avx512 r = (attn__v__avx512)_mm512_rcp14_ps((__m512)v), one = attn__set1__avx512(1);
    return attn__fma__avx512(attn__fma__avx512(attn__set1__avx512(0) - v, r, one), r, r);
}
/* As for AVX2, on sets of 8 counters side by side, so that a round of one fills the latency of
 * the others. Only at[0] differs from lane to lane, so half of the first two rounds is the same
 * for all lanes. */
ATTN__INLINE void attn__philox__avx512(
    int sets, uint32_t *out, const uint32_t *at, const uint64_t *keys) {
    const uint64_t M0 = 0xD2511F53, M1 = 0xCD9E8D57, a = M1 * at[2],
                   b = M0 * (uint32_t)(a >> 32 ^ at[1] ^ keys[0]);
    const __m512i m0 = _mm512_set1_epi64((int64_t)M0), m1 = _mm512_set1_epi64((int64_t)M1);
    const __m512i order = _mm512_mul_epu32(m0, _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7));
    const __m512i x1 = _mm512_set1_epi64((int64_t)(at[3] ^ keys[1])),
                  x2 = _mm512_set1_epi64((int64_t)(a ^ keys[2])),
                  x3 = _mm512_set1_epi64((int64_t)(b >> 32 ^ keys[3]));
    __m512i c0[4], c1[4], c2[4], c3[4];
    ATTN__UNROLL for (int n = 0; n < sets; n++) { /* rounds 1 and 2 */
        const uint64_t first = at[0] + 8 * (uint64_t)n;
        __m512i p0 = _mm512_add_epi64(_mm512_set1_epi64((int64_t)(M0 * first)), order);
        c1[n] = _mm512_mul_epu32(m1, _mm512_xor_si512(_mm512_srli_epi64(p0, 32), x1));
        c0[n] = _mm512_xor_si512(_mm512_shuffle_epi32(c1[n], _MM_PERM_DDBB), x2);
        c2[n] = _mm512_xor_si512(p0, x3);
        c3[n] = _mm512_set1_epi64((int64_t)b);
    }
    for (const uint64_t *k = keys + 4; k < keys + 18; k += 2) {
        const __m512i key0 = _mm512_set1_epi64((int64_t)k[0]),
                      key1 = _mm512_set1_epi64((int64_t)k[1]);
        ATTN__UNROLL for (int n = 0; n < sets; n++) {
            __m512i p0 = _mm512_mul_epu32(m0, c0[n]), p1 = _mm512_mul_epu32(m1, c2[n]);
            /* the high halves, one by a shuffle, to share the ports; then the xor of three */
            c0[n] = _mm512_ternarylogic_epi64(
                _mm512_shuffle_epi32(p1, _MM_PERM_DDBB), c1[n], key0, 0x96);
            c2[n] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c3[n], key1, 0x96);
            c1[n] = p1;
            c3[n] = p0;
        }
    }
    /* The last round: a product's halves, exchanged, are a pair of words but for the xor
     * of the first. */
    const __m512i key0 = _mm512_set1_epi64((int64_t)keys[18]),
                  key1 = _mm512_set1_epi64((int64_t)keys[19]);
    ATTN__UNROLL for (int n = 0; n < sets; n++) {
        __m512i p0 = _mm512_mul_epu32(m0, c0[n]), p1 = _mm512_mul_epu32(m1, c2[n]);
        p1 = _mm512_mask_ternarylogic_epi32(
            _mm512_shuffle_epi32(p1, _MM_PERM_CDAB), 0x5555, c1[n], key0, 0x96);
        p0 = _mm512_mask_ternarylogic_epi32(_mm512_rol_epi64(p0, 32), 0x5555, c3[n], key1, 0x96);
        _mm512_storeu_si512(out + 32 * n, _mm512_unpacklo_epi64(p1, p0));
        _mm512_storeu_si512(out + 32 * n + 16, _mm512_unpackhi_epi64(p1, p0));
    }
}
ATTN__INLINE void attn__random__avx512(
    uint32_t *out, int64_t count, const uint32_t *at, const uint64_t *keys) {
    if (count > 64) attn__philox__avx512(4, out, at, keys);
    else attn__philox__avx512(2, out, at, keys);
}
ATTN__INLINE attn__v__avx512 attn__keep__avx512(
    attn__v__avx512 v, attn__v__avx512 x, const uint32_t *words, uint32_t least) {
    __mmask16 keep =
        _mm512_cmpge_epu32_mask(_mm512_loadu_si512(words), _mm512_set1_epi32((int)least));
    return (attn__v__avx512)_mm512_maskz_mul_ps(keep, (__m512)v, (__m512)x);
}
ATTN__INLINE float attn__reduce_max__avx512(attn__v__avx512 v) {
    __m512 a = _mm512_max_ps((__m512)v, _mm512_shuffle_f32x4((__m512)v, (__m512)v, 0x4e));
    a = _mm512_max_ps(a, _mm512_shuffle_f32x4(a, a, 0xb1));
    a = _mm512_max_ps(a, _mm512_shuffle_ps(a, a, 0x4e));
    return _mm512_cvtss_f32(_mm512_max_ps(a, _mm512_shuffle_ps(a, a, 0xb1)));
}
ATTN__INLINE float attn__reduce_add__avx512(attn__v__avx512 v) {
    attn__v__avx512 a = v + (attn__v__avx512)_mm512_shuffle_f32x4((__m512)v, (__m512)v, 0x4e);
    a = a + (attn__v__avx512)_mm512_shuffle_f32x4((__m512)a, (__m512)a, 0xb1);
    a = a + (attn__v__avx512)_mm512_shuffle_ps((__m512)a, (__m512)a, 0x4e);
    a = a + (attn__v__avx512)_mm512_shuffle_ps((__m512)a, (__m512)a, 0xb1);
    return _mm512_cvtss_f32((__m512)a);
}
/* Halves of each vector are joined, two vectors to one, then quarters, pairs of lanes, lanes. */
#define ATTN__FOLD_AVX512(op) \
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15); \
    __m512 a[3], c, e; \
    ATTN__UNROLL for (int n = 0; n < 3; n++) { \
        __m512 x = _mm512_loadu_ps(p + 32 * n), y = _mm512_loadu_ps(p + 32 * n + 16); \
        a[n] = op(_mm512_shuffle_f32x4(x, y, 0x44), _mm512_shuffle_f32x4(x, y, 0xee)); \
    } \
    c = op(_mm512_shuffle_f32x4(a[0], a[1], 0x88), _mm512_shuffle_f32x4(a[0], a[1], 0xdd)); \
    e = op(_mm512_shuffle_f32x4(a[2], a[2], 0x88), _mm512_shuffle_f32x4(a[2], a[2], 0xdd)); \
    c = op(_mm512_shuffle_ps(c, e, 0x44), _mm512_shuffle_ps(c, e, 0xee)); \
    c = op(_mm512_shuffle_ps(c, c, 0x88), _mm512_shuffle_ps(c, c, 0xdd)); \
    _mm512_storeu_ps(out, _mm512_permutexvar_ps(order, c))
ATTN__INLINE void attn__max_rows__avx512(const float *p, float *out) {
    ATTN__FOLD_AVX512(_mm512_max_ps);
}
ATTN__INLINE void attn__add_rows__avx512(const float *p, float *out) {
    ATTN__FOLD_AVX512(_mm512_add_ps);
}
/* Pairs of lanes of two vectors, fours of four, then quarters. Lanes are of 32 bits; add says
   whether floats or integers. */
#define ATTN__ADD_LANES_AVX512(T, add) \
    __m512 pair[8], four[4], half[2]; \
    ATTN__UNROLL for (int i = 0; i < 8; i++) { \
        const __m512 x = (__m512)r[2 * i], y = (__m512)r[2 * i + 1]; \
        pair[i] = add(_mm512_unpacklo_ps(x, y), _mm512_unpackhi_ps(x, y)); \
    } \
    ATTN__UNROLL for (int i = 0; i < 4; i++) { \
        const __m512 x = pair[2 * i], y = pair[2 * i + 1]; \
        four[i] = add(_mm512_shuffle_ps(x, y, 0x44), _mm512_shuffle_ps(x, y, 0xee)); \
    } \
    ATTN__UNROLL for (int i = 0; i < 2; i++) { \
        const __m512 x = four[2 * i], y = four[2 * i + 1]; \
        half[i] = add(_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xdd)); \
    } \
    return (T)add(_mm512_shuffle_f32x4(half[0], half[1], 0x88), \
        _mm512_shuffle_f32x4(half[0], half[1], 0xdd))
#define ATTN__ADD_INTS_AVX512(x, y) ((__m512)_mm512_add_epi32((__m512i)(x), (__m512i)(y)))
ATTN__INLINE attn__v__avx512 attn__add_lanes__avx512(const attn__v__avx512 *r) {
    ATTN__ADD_LANES_AVX512(attn__v__avx512, _mm512_add_ps);
}
ATTN__INLINE void attn__transpose__avx512(attn__v__avx512 *r) {
    __m512 a[16], b[16];
    ATTN__UNROLL for (int i = 0; i < 8; i++) {
        a[2 * i] = _mm512_unpacklo_ps((__m512)r[2 * i], (__m512)r[2 * i + 1]);
        a[2 * i + 1] = _mm512_unpackhi_ps((__m512)r[2 * i], (__m512)r[2 * i + 1]);
    }
    ATTN__UNROLL for (int i = 0; i < 4; i++) {
        b[4 * i] = _mm512_shuffle_ps(a[4 * i], a[4 * i + 2], 0x44);
        b[4 * i + 1] = _mm512_shuffle_ps(a[4 * i], a[4 * i + 2], 0xee);
        b[4 * i + 2] = _mm512_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0x44);
        b[4 * i + 3] = _mm512_shuffle_ps(a[4 * i + 1], a[4 * i + 3], 0xee);
    }
    ATTN__UNROLL for (int i = 0; i < 4; i++) {
        a[i] = _mm512_shuffle_f32x4(b[i], b[4 + i], 0x88);
        a[4 + i] = _mm512_shuffle_f32x4(b[i], b[4 + i], 0xdd);
        a[8 + i] = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0x88);
        a[12 + i] = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0xdd);
    }
    ATTN__UNROLL for (int i = 0; i < 8; i++) {
        r[i] = (attn__v__avx512)_mm512_shuffle_f32x4(a[i], a[8 + i], 0x88);
        r[8 + i] = (attn__v__avx512)_mm512_shuffle_f32x4(a[i], a[8 + i], 0xdd);
    }
}
/* BF16, which the region's target lacks: used where ATTN__CPU_BF16 says so */
ATTN__INLINE attn__v__avx512 attn__dot16__avx512(
    attn__v__avx512 a, attn__v__avx512 b, attn__v__avx512 c) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
}
ATTN__INLINE attn__v__avx512 attn__pair16__avx512(attn__v__avx512 a, attn__v__avx512 b) {
    return (attn__v__avx512)_mm512_or_si512(_mm512_srli_epi32((__m512i)a, 16), (__m512i)b);
}
ATTN__INLINE void attn__half16__avx512(uint16_t *p, attn__v__avx512 v) {
    __m256i h;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(h) : "v"(v));
    _mm256_storeu_si256((__m256i *)(void *)p, h);
}
#if ATTN__ADAPTIVE
typedef int32_t attn__i__avx512 ATTN__VECTOR(64);
ATTN__INLINE attn__i__avx512 attn__load_pairs__avx512(const int32_t *p) {
    return (attn__i__avx512)_mm512_loadu_si512(p);
}
ATTN__INLINE void attn__store_pairs__avx512(int32_t *p, attn__i__avx512 v) {
    _mm512_storeu_si512(p, (__m512i)v);
}
ATTN__INLINE attn__i__avx512 attn__pairs__avx512(const int16_t *p) {
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return (attn__i__avx512)_mm512_set1_epi32(pair);
}
/* VNNI, which the region's target lacks: without it the kernel is not called (>>adaptive) */
ATTN__INLINE attn__i__avx512 attn__dot__avx512(
    attn__i__avx512 a, attn__i__avx512 b, attn__i__avx512 c) {
    __asm__("vpdpwssd %2, %1, %0" : "+v"(c) : "v"(b), "v"(a));
    return c;
}
ATTN__INLINE attn__i__avx512 attn__dot4__avx512(
    attn__i__avx512 a, attn__i__avx512 b, attn__i__avx512 c) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(b), "v"(a));
    return c;
}
ATTN__INLINE attn__i__avx512 attn__sum4__avx512(attn__i__avx512 a, attn__i__avx512 c) {
    return a + c;
}
ATTN__INLINE attn__i__avx512 attn__nearest__avx512(attn__v__avx512 v) {
    return (attn__i__avx512)_mm512_cvtps_epi32((__m512)v);
}
ATTN__INLINE attn__v__avx512 attn__number__avx512(attn__i__avx512 v) {
    return (attn__v__avx512)_mm512_cvtepi32_ps((__m512i)v);
}
ATTN__INLINE void attn__store_codes__avx512(int16_t *p, attn__i__avx512 v) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16((__m512i)v));
}
ATTN__INLINE attn__v__avx512 attn__root__avx512(attn__v__avx512 v) {
    __asm__("vsqrtps %0, %0" : "+v"(v)); /* no estimate, whatever the flags */
    return v;
}
ATTN__INLINE attn__i__avx512 attn__spread__avx512(const int8_t *p) {
    return (attn__i__avx512)_mm512_cvtepi8_epi16(
        _mm256_loadu_si256((const __m256i *)(const void *)p));
}
ATTN__INLINE attn__i__avx512 attn__add_codes__avx512(const attn__i__avx512 *r) {
    ATTN__ADD_LANES_AVX512(attn__i__avx512, ATTN__ADD_INTS_AVX512);
}
ATTN__INLINE void attn__zip__avx512(attn__i__avx512 a, attn__i__avx512 b, attn__i__avx512 *r) {
    r[0] = (attn__i__avx512)_mm512_unpacklo_epi16((__m512i)a, (__m512i)b);
    r[1] = (attn__i__avx512)_mm512_unpackhi_epi16((__m512i)a, (__m512i)b);
}
ATTN__INLINE void attn__unzip__avx512(attn__v__avx512 *r) {
    const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23),
                  high = _mm512_setr_epi32(
                      8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    const __m512 a = (__m512)r[0], b = (__m512)r[1];
    r[0] = (attn__v__avx512)_mm512_permutex2var_ps(a, low, b);
    r[1] = (attn__v__avx512)_mm512_permutex2var_ps(a, high, b);
}
#endif
#define ATTN__KERNEL avx512
#include ATTN_HEADER
#undef ATTN__KERNEL
ATTN__REGION_END
#endif

/* ============================================================================= >>ops_neon ====
   NEON of 64-bit ARM, where it is always there. */
#if ATTN__NEON
#define ATTN__W__neon 4
#define ATTN__MR__neon 6
#define ATTN__NV__neon 4
#define ATTN__OWN__neon \
    (ATTN__OWN_NARROW | ATTN__OWN_RANDOM | ATTN__OWN_REDUCE | ATTN__OWN_TRANSPOSE | \
        ATTN__OWN_BROADCAST)
typedef float32x4_t attn__v__neon;
ATTN__INLINE attn__v__neon attn__load__neon(const float *p) { return vld1q_f32(p); }
ATTN__INLINE void attn__store__neon(float *p, attn__v__neon v) { vst1q_f32(p, v); }
ATTN__INLINE attn__v__neon attn__set1__neon(float x) { return vdupq_n_f32(x); }
/* f16 by conversion, bf16 by shifts. */
ATTN__INLINE attn__v__neon attn__load16__neon(const void *p, int64_t n, int32_t dtype) {
    uint16_t part[4] = {0, 0, 0, 0};
    memcpy(part, p, 2 * (size_t)attn__clamp(n, 0, 4));
    uint16x4_t h = vld1_u16(part);
    if (dtype == ATTN_F16) return vcvt_f32_f16(vreinterpret_f16_u16(h));
    return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(h), 16));
}
/* fp8: as for AVX2. */
ATTN__INLINE attn__v__neon attn__load8__neon(const void *p, int64_t n, int32_t dtype) {
    uint8_t part[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    memcpy(part, p, (size_t)attn__clamp(n, 0, 4));
    if (dtype == ATTN_INT8)
        return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(vld1_u8(part))))));
    uint16x4_t b = vget_low_u16(vmovl_u8(vld1_u8(part))), size = vand_u16(b, vdup_n_u16(0x7f)),
               nan = vceq_u16(size, vdup_n_u16(0x7f));
    size = vbsl_u16(nan, vdup_n_u16(0x7e00), vshl_n_u16(size, 7));
    size = vorr_u16(size, vshl_n_u16(vand_u16(b, vdup_n_u16(0x80)), 8));
    return vcvt_f32_f16(vreinterpret_f16_u16(size)) * vdupq_n_f32(256);
}
ATTN__INLINE void attn__store16__neon(void *p, attn__v__neon v, int64_t n, int32_t dtype) {
    uint16_t part[4];
    if (dtype == ATTN_F16) vst1_u16(part, vreinterpret_u16_f16(vcvt_f16_f32(v)));
    else {
        uint32x4_t u = vreinterpretq_u32_f32(v), top = vshrq_n_u32(u, 16),
                   odd = vandq_u32(top, vdupq_n_u32(1)),
                   r = vshrq_n_u32(vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff))), 16),
                   nan = vcgtq_u32(vandq_u32(u, vdupq_n_u32(0x7fffffff)), vdupq_n_u32(0x7f800000));
        vst1_u16(part, vmovn_u32(vbslq_u32(nan, vorrq_u32(top, vdupq_n_u32(0x40)), r)));
    }
    memcpy(p, part, 2 * (size_t)attn__clamp(n, 0, 4));
}
ATTN__INLINE attn__v__neon attn__fma__neon(attn__v__neon a, attn__v__neon b, attn__v__neon c) {
#if defined(__clang__) /* not the intrinsic: see AVX2 */
    return ATTN__CLANG_FMA(vfmaq_f32(c, a, b), a, b, c);
#else
    return vfmaq_f32(c, a, b);
#endif
}
/* A scalar load and a product by lane 0 of it: a load that broadcasts takes a place among the
 * arithmetic, too. Written out, as the compilers turn the two into such a load; volatile, as gcc puts
 * a step's loads before all of its products, and spills. */
ATTN__INLINE attn__v__neon attn__lane__neon(const float *p) {
    attn__v__neon v;
    __asm__ volatile("ldr %s0, %1" : "=w"(v) : "m"(*p));
    return v;
}
ATTN__INLINE attn__v__neon attn__fma_lane__neon(attn__v__neon a, attn__v__neon b, attn__v__neon c) {
    __asm__ volatile("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(c) : "w"(b), "w"(a));
    return c;
}
ATTN__INLINE attn__v__neon attn__fma_step__neon(attn__v__neon x, attn__v__neon a, attn__v__neon b) {
    return attn__fma_lane__neon(a, b, x);
}
/* A NaN in either is kept; written out, as under -ffast-math (see ATTN__NO_NANS) nothing else is. */
ATTN__INLINE attn__v__neon attn__max__neon(attn__v__neon a, attn__v__neon b) {
    __asm__("fmax %0.4s, %0.4s, %1.4s" : "+w"(a) : "w"(b));
    return a;
}
ATTN__INLINE attn__v__neon attn__exp2__neon(attn__v__neon x) {
    attn__v__neon c = attn__max__neon(vdupq_n_f32(-127.0f), x);
    __asm__("fmin %0.4s, %0.4s, %1.4s" : "+w"(c) : "w"(vdupq_n_f32(128.0f)));
    attn__v__neon n = vrndmq_f32(c), r = c - n, p = vdupq_n_f32(ATTN__EXP2_C5);
    p = attn__fma__neon(p, r, vdupq_n_f32(ATTN__EXP2_C4));
    p = attn__fma__neon(p, r, vdupq_n_f32(ATTN__EXP2_C3));
    p = attn__fma__neon(p, r, vdupq_n_f32(ATTN__EXP2_C2));
    p = attn__fma__neon(p, r, vdupq_n_f32(ATTN__EXP2_C1));
    p = attn__fma__neon(p, r, vdupq_n_f32(1.0f));
    p = p * vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23));
    ATTN__ROUNDED(p);
    return p;
}
ATTN__INLINE attn__v__neon attn__clip__neon(attn__v__neon v, int32_t from, int32_t lo, int32_t hi) {
    static const int32_t lane[4] = {0, 1, 2, 3};
    int32x4_t at = vaddq_s32(vdupq_n_s32(from - lo), vld1q_s32(lane));
    uint32x4_t keep = vcltq_u32(vreinterpretq_u32_s32(at), vdupq_n_u32((uint32_t)(hi - lo)));
    return vbslq_f32(keep, v, vdupq_n_f32(ATTN__NEG_INF));
}
ATTN__INLINE attn__v__neon attn__hide__neon(attn__v__neon v, const unsigned char *p, int64_t n) {
    unsigned char part[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    memcpy(part, p, (size_t)attn__clamp(n, 0, 4));
    uint32x4_t seen = vmovl_u16(vget_low_u16(vmovl_u8(vld1_u8(part))));
    return vbslq_f32(vceqq_u32(seen, vdupq_n_u32(0)), vdupq_n_f32(ATTN__NEG_INF), v);
}
ATTN__INLINE attn__v__neon attn__pick__neon(
    attn__v__neon a, attn__v__neon b, attn__v__neon x, attn__v__neon y) {
    uint32x4_t less;
    __asm__("fcmgt %0.4s, %1.4s, %2.4s" : "=w"(less) : "w"(b), "w"(a));
    return vbslq_f32(less, x, y);
}
ATTN__INLINE attn__v__neon attn__recip__neon(attn__v__neon v) { return vdupq_n_f32(1) / v; }
/* Philox on 4 counters side by side. */
ATTN__INLINE void attn__random__neon(
    uint32_t *out, int64_t count, const uint32_t *at, const uint64_t *keys) {
    static const uint32_t lane[4] = {0, 1, 2, 3};
    const uint32x4_t m0 = vdupq_n_u32(0xD2511F53u), m1 = vdupq_n_u32(0xCD9E8D57u);
    for (int64_t n = 0; 4 * n < count; n += 4, out += 16) {
        uint32x4x4_t c;
        c.val[0] = vaddq_u32(vdupq_n_u32(at[0] + (uint32_t)n), vld1q_u32(lane));
        for (int i = 1; i < 4; i++) c.val[i] = vdupq_n_u32(at[i]);
        for (const uint64_t *k = keys; k < keys + 20; k += 2) {
            uint32x4_t low0 = vmulq_u32(c.val[0], m0), low1 = vmulq_u32(c.val[2], m1);
#define ATTN__HIGH(a, b) \
    vuzp2q_u32(vreinterpretq_u32_u64(vmull_u32(vget_low_u32(a), vget_low_u32(b))), \
        vreinterpretq_u32_u64(vmull_high_u32(a, b)))
            uint32x4_t high0 = ATTN__HIGH(c.val[0], m0), high1 = ATTN__HIGH(c.val[2], m1);
#undef ATTN__HIGH
            c.val[0] = veorq_u32(veorq_u32(high1, c.val[1]), vdupq_n_u32((uint32_t)k[0]));
            c.val[2] = veorq_u32(veorq_u32(high0, c.val[3]), vdupq_n_u32((uint32_t)k[1]));
            c.val[1] = low1;
            c.val[3] = low0;
        }
        vst4q_u32(out, c);
    }
}
ATTN__INLINE attn__v__neon attn__keep__neon(
    attn__v__neon v, attn__v__neon x, const uint32_t *words, uint32_t least) {
    return vreinterpretq_f32_u32(
        vandq_u32(vreinterpretq_u32_f32(v * x), vcgeq_u32(vld1q_u32(words), vdupq_n_u32(least))));
}
/* Neighbours are joined, two vectors to one, until each lane is a row. */
#define ATTN__FOLD_NEON(op) \
    const attn__v__neon a = op(vld1q_f32(p), vld1q_f32(p + 4)), \
                        b = op(vld1q_f32(p + 8), vld1q_f32(p + 12)), \
                        c = op(vld1q_f32(p + 16), vld1q_f32(p + 20)); \
    vst1q_f32(out, op(a, b)); \
    vst1q_f32(out + 4, op(c, c))
ATTN__INLINE void attn__max_rows__neon(const float *p, float *out) { ATTN__FOLD_NEON(vpmaxq_f32); }
ATTN__INLINE void attn__add_rows__neon(const float *p, float *out) { ATTN__FOLD_NEON(vpaddq_f32); }
ATTN__INLINE attn__v__neon attn__add_lanes__neon(const attn__v__neon *r) {
    return vpaddq_f32(vpaddq_f32(r[0], r[1]), vpaddq_f32(r[2], r[3]));
}
ATTN__INLINE float attn__reduce_max__neon(attn__v__neon v) {
    v = vpmaxq_f32(v, v);
    return vgetq_lane_f32(vpmaxq_f32(v, v), 0);
}
ATTN__INLINE float attn__reduce_add__neon(attn__v__neon v) {
    v = vpaddq_f32(v, v);
    return vgetq_lane_f32(vpaddq_f32(v, v), 0);
}
ATTN__INLINE void attn__transpose__neon(attn__v__neon *r) {
    const float32x4x2_t a = vtrnq_f32(r[0], r[1]), b = vtrnq_f32(r[2], r[3]);
    ATTN__UNROLL for (int i = 0; i < 2; i++) {
        r[i] = vcombine_f32(vget_low_f32(a.val[i]), vget_low_f32(b.val[i]));
        r[2 + i] = vcombine_f32(vget_high_f32(a.val[i]), vget_high_f32(b.val[i]));
    }
}
#define ATTN__KERNEL neon
#include ATTN_HEADER
#undef ATTN__KERNEL
#endif

/* ========================================================================== >>ops_simd128 ====
   WebAssembly's vectors, which have no fused multiply-add: a product is rounded, as in portable. */
#if ATTN__SIMD128
#define ATTN__W__simd128 4
#define ATTN__MR__simd128 6
#define ATTN__NV__simd128 2
#define ATTN__OWN__simd128 \
    (ATTN__OWN_NARROW | ATTN__OWN_RANDOM | ATTN__OWN_REDUCE | ATTN__OWN_TRANSPOSE)
typedef float attn__v__simd128 __attribute__((vector_size(16)));
ATTN__INLINE attn__v__simd128 attn__load__simd128(const float *p) {
    return (attn__v__simd128)wasm_v128_load(p);
}
ATTN__INLINE void attn__store__simd128(float *p, attn__v__simd128 v) {
    wasm_v128_store(p, (v128_t)v);
}
ATTN__INLINE attn__v__simd128 attn__set1__simd128(float x) {
    return (attn__v__simd128)wasm_f32x4_splat(x);
}
/* f16: the bits in their places of an f32, times 2^112; an exponent of all ones stays one. */
ATTN__INLINE attn__v__simd128 attn__f16__simd128(v128_t h) {
    const v128_t size = wasm_i32x4_shl(wasm_v128_and(h, wasm_i32x4_splat(0x7fff)), 13),
                 top = wasm_i32x4_ge(size, wasm_i32x4_splat(0x0f800000)),
                 sign = wasm_i32x4_shl(wasm_v128_and(h, wasm_i32x4_splat(0x8000)), 16),
                 x = wasm_f32x4_mul(size, wasm_f32x4_splat(attn__float(0x77800000)));
    return (attn__v__simd128)wasm_v128_or(
        wasm_v128_or(x, sign), wasm_v128_and(top, wasm_i32x4_splat(0x7f800000)));
}
ATTN__INLINE attn__v__simd128 attn__load16__simd128(const void *p, int64_t n, int32_t dtype) {
    uint16_t part[4] = {0, 0, 0, 0};
    memcpy(part, p, 2 * (size_t)attn__clamp(n, 0, 4));
    const v128_t h = wasm_u32x4_load16x4(part);
    if (dtype == ATTN_F16) return attn__f16__simd128(h);
    return (attn__v__simd128)wasm_i32x4_shl(h, 16);
}
/* fp8: as for AVX2. */
ATTN__INLINE attn__v__simd128 attn__load8__simd128(const void *p, int64_t n, int32_t dtype) {
    uint8_t part[4] = {0, 0, 0, 0};
    memcpy(part, p, (size_t)attn__clamp(n, 0, 4));
    v128_t b = wasm_u16x8_extend_low_u8x16(wasm_v128_load32_zero(part));
    if (dtype == ATTN_INT8)
        return (attn__v__simd128)wasm_f32x4_convert_i32x4(
            wasm_i32x4_shr(wasm_i32x4_shl(wasm_u32x4_extend_low_u16x8(b), 24), 24));
    b = wasm_u32x4_extend_low_u16x8(b);
    v128_t size = wasm_v128_and(b, wasm_i32x4_splat(0x7f)),
           nan = wasm_i32x4_eq(size, wasm_i32x4_splat(0x7f)),
           sign = wasm_i32x4_shl(wasm_v128_and(b, wasm_i32x4_splat(0x80)), 8);
    size = wasm_v128_bitselect(wasm_i32x4_splat(0x7e00), wasm_i32x4_shl(size, 7), nan);
    return attn__f16__simd128(wasm_v128_or(size, sign)) * attn__set1__simd128(256);
}
/* To f16 one by one: what the scalar code rounds. */
ATTN__INLINE void attn__store16__simd128(void *p, attn__v__simd128 v, int64_t n, int32_t dtype) {
    float x[4];
    uint16_t part[4];
    if (dtype == ATTN_F16) {
        wasm_v128_store(x, (v128_t)v);
        for (int l = 0; l < 4; l++) part[l] = attn__f32_to_f16(x[l]);
    } else {
        v128_t u = (v128_t)v, top = wasm_u32x4_shr(u, 16),
               odd = wasm_v128_and(top, wasm_i32x4_splat(1)),
               r = wasm_u32x4_shr(
                   wasm_i32x4_add(u, wasm_i32x4_add(odd, wasm_i32x4_splat(0x7fff))), 16),
               nan = wasm_i32x4_gt(
                   wasm_v128_and(u, wasm_i32x4_splat(0x7fffffff)), wasm_i32x4_splat(0x7f800000));
        r = wasm_v128_bitselect(wasm_v128_or(top, wasm_i32x4_splat(0x40)), r, nan);
        wasm_v128_store64_lane(part, wasm_u16x8_narrow_i32x4(r, r), 0);
    }
    memcpy(p, part, 2 * (size_t)attn__clamp(n, 0, 4));
}
ATTN__INLINE attn__v__simd128 attn__fma__simd128(
    attn__v__simd128 a, attn__v__simd128 b, attn__v__simd128 c) {
    return a * b + c;
}
/* pmax(x, y) is x < y ? y : x */
ATTN__INLINE attn__v__simd128 attn__max__simd128(attn__v__simd128 a, attn__v__simd128 b) {
    return (attn__v__simd128)wasm_f32x4_pmax((v128_t)b, (v128_t)a);
}
/* The exponent: n + 127 as the last bits of 2^23 + n + 127. */
ATTN__INLINE attn__v__simd128 attn__exp2__simd128(attn__v__simd128 x) {
    v128_t c = wasm_f32x4_min(
               wasm_f32x4_splat(128.0f), wasm_f32x4_max(wasm_f32x4_splat(-127.0f), (v128_t)x)),
           n = wasm_f32x4_floor(c);
    attn__v__simd128 r = (attn__v__simd128)c - (attn__v__simd128)n,
                     p = attn__set1__simd128(ATTN__EXP2_C5);
    p = p * r + attn__set1__simd128(ATTN__EXP2_C4);
    p = p * r + attn__set1__simd128(ATTN__EXP2_C3);
    p = p * r + attn__set1__simd128(ATTN__EXP2_C2);
    p = p * r + attn__set1__simd128(ATTN__EXP2_C1);
    p = p * r + attn__set1__simd128(1.0f);
    return p *
           (attn__v__simd128)wasm_i32x4_shl(wasm_f32x4_add(n, wasm_f32x4_splat(8388608 + 127)), 23);
}
ATTN__INLINE attn__v__simd128 attn__clip__simd128(
    attn__v__simd128 v, int32_t from, int32_t lo, int32_t hi) {
    v128_t at = wasm_i32x4_add(wasm_i32x4_splat(from - lo), wasm_i32x4_const(0, 1, 2, 3));
    return (attn__v__simd128)wasm_v128_bitselect(
        (v128_t)v, wasm_f32x4_splat(ATTN__NEG_INF), wasm_u32x4_lt(at, wasm_i32x4_splat(hi - lo)));
}
ATTN__INLINE attn__v__simd128 attn__hide__simd128(
    attn__v__simd128 v, const unsigned char *p, int64_t n) {
    unsigned char part[4] = {0, 0, 0, 0};
    memcpy(part, p, (size_t)attn__clamp(n, 0, 4));
    v128_t seen =
        wasm_u32x4_extend_low_u16x8(wasm_u16x8_extend_low_u8x16(wasm_v128_load32_zero(part)));
    return (attn__v__simd128)wasm_v128_bitselect(
        wasm_f32x4_splat(ATTN__NEG_INF), (v128_t)v, wasm_i32x4_eq(seen, wasm_i32x4_splat(0)));
}
ATTN__INLINE attn__v__simd128 attn__pick__simd128(
    attn__v__simd128 a, attn__v__simd128 b, attn__v__simd128 x, attn__v__simd128 y) {
    return (attn__v__simd128)wasm_v128_bitselect(
        (v128_t)x, (v128_t)y, wasm_f32x4_lt((v128_t)a, (v128_t)b));
}
ATTN__INLINE attn__v__simd128 attn__recip__simd128(attn__v__simd128 v) {
    return attn__set1__simd128(1) / v;
}
ATTN__INLINE void attn__transpose__simd128(attn__v__simd128 *r) {
    v128_t a[4];
    ATTN__UNROLL for (int i = 0; i < 2; i++) {
        a[i] = wasm_i32x4_shuffle((v128_t)r[2 * i], (v128_t)r[2 * i + 1], 0, 4, 1, 5);
        a[2 + i] = wasm_i32x4_shuffle((v128_t)r[2 * i], (v128_t)r[2 * i + 1], 2, 6, 3, 7);
    }
    ATTN__UNROLL for (int i = 0; i < 2; i++) {
        r[2 * i] = (attn__v__simd128)wasm_i64x2_shuffle(a[2 * i], a[2 * i + 1], 0, 2);
        r[2 * i + 1] = (attn__v__simd128)wasm_i64x2_shuffle(a[2 * i], a[2 * i + 1], 1, 3);
    }
}
/* Philox on 4 counters side by side. */
ATTN__INLINE void attn__random__simd128(
    uint32_t *out, int64_t count, const uint32_t *at, const uint64_t *keys) {
    const v128_t m0 = wasm_u32x4_splat(0xD2511F53u), m1 = wasm_u32x4_splat(0xCD9E8D57u);
    for (int64_t n = 0; 4 * n < count; n += 4, out += 16) {
        v128_t c0 =
            wasm_i32x4_add(wasm_u32x4_splat(at[0] + (uint32_t)n), wasm_i32x4_const(0, 1, 2, 3));
        v128_t c1 = wasm_u32x4_splat(at[1]), c2 = wasm_u32x4_splat(at[2]);
        v128_t c3 = wasm_u32x4_splat(at[3]);
        for (const uint64_t *k = keys; k < keys + 20; k += 2) {
            v128_t a = wasm_u64x2_extmul_low_u32x4(c0, m0),
                   b = wasm_u64x2_extmul_high_u32x4(c0, m0),
                   e = wasm_u64x2_extmul_low_u32x4(c2, m1),
                   f = wasm_u64x2_extmul_high_u32x4(c2, m1);
            c0 = wasm_v128_xor(wasm_v128_xor(wasm_i32x4_shuffle(e, f, 1, 3, 5, 7), c1),
                wasm_u32x4_splat((uint32_t)k[0]));
            c2 = wasm_v128_xor(wasm_v128_xor(wasm_i32x4_shuffle(a, b, 1, 3, 5, 7), c3),
                wasm_u32x4_splat((uint32_t)k[1]));
            c1 = wasm_i32x4_shuffle(e, f, 0, 2, 4, 6);
            c3 = wasm_i32x4_shuffle(a, b, 0, 2, 4, 6);
        }
        attn__v__simd128 r[4] = {
            (attn__v__simd128)c0, (attn__v__simd128)c1, (attn__v__simd128)c2, (attn__v__simd128)c3};
        attn__transpose__simd128(r);
        ATTN__UNROLL for (int i = 0; i < 4; i++)
            wasm_v128_store(out + 4 * i, (v128_t)r[i]);
    }
}
ATTN__INLINE attn__v__simd128 attn__keep__simd128(
    attn__v__simd128 v, attn__v__simd128 x, const uint32_t *words, uint32_t least) {
    return (attn__v__simd128)wasm_v128_and(
        (v128_t)(v * x), wasm_u32x4_ge(wasm_v128_load(words), wasm_u32x4_splat(least)));
}
/* Lanes 0 and 2, 1 and 3, then the two; of four rows side by side, and of two. */
#define ATTN__FOLD_SIMD128(op) \
    attn__v__simd128 r[4], t[4]; \
    ATTN__UNROLL for (int i = 0; i < 4; i++) { \
        r[i] = attn__load__simd128(p + 4 * i); \
        t[i] = attn__load__simd128(p + 16 + 4 * (i % 2)); \
    } \
    attn__transpose__simd128(r); \
    attn__transpose__simd128(t); \
    attn__store__simd128(out, op(op(r[0], r[2]), op(r[1], r[3]))); \
    attn__store__simd128(out + 4, op(op(t[0], t[2]), op(t[1], t[3])))
#define ATTN__ADD_SIMD128(a, b) ((a) + (b))
ATTN__INLINE void attn__max_rows__simd128(const float *p, float *out) {
    ATTN__FOLD_SIMD128(attn__max__simd128);
}
ATTN__INLINE void attn__add_rows__simd128(const float *p, float *out) {
    ATTN__FOLD_SIMD128(ATTN__ADD_SIMD128);
}
ATTN__INLINE attn__v__simd128 attn__add_lanes__simd128(const attn__v__simd128 *r) {
    attn__v__simd128 t[4] = {r[0], r[1], r[2], r[3]};
    attn__transpose__simd128(t);
    return (t[0] + t[1]) + (t[2] + t[3]);
}
ATTN__INLINE float attn__reduce_max__simd128(attn__v__simd128 v) {
    v = attn__max__simd128(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));
    return attn__max__simd128(v, __builtin_shufflevector(v, v, 1, 0, 3, 2))[0];
}
ATTN__INLINE float attn__reduce_add__simd128(attn__v__simd128 v) {
    return (v[0] + v[2]) + (v[1] + v[3]);
}
#define ATTN__KERNEL simd128
#include ATTN_HEADER
#undef ATTN__KERNEL
#endif

/* ================================================================================= >>isas ====
   Every ISA of this build, the best first, and what it needs of the processor. */
ATTN__PLAIN_BEGIN
static const struct {
    const attn__kernels *kernels;
    uint32_t needs;
} attn__isas[] = {
#if ATTN__AVX512
    {&attn__table__avx512, ATTN__CPU_AVX512},
#endif
#if ATTN__AVX2
    {&attn__table__avx2, ATTN__CPU_AVX2},
#endif
#if ATTN__NEON
    {&attn__table__neon, 0},
#endif
#if ATTN__SIMD128
    {&attn__table__simd128, 0},
#endif
#if ATTN__PORTABLE
    {&attn__table__portable, 0},
#endif
};
static const attn__kernels *attn__isa_at(size_t i, uint32_t *needs) {
    if (i >= sizeof attn__isas / sizeof *attn__isas) return NULL;
    *needs = attn__isas[i].needs;
    return attn__isas[i].kernels;
}
ATTN__PLAIN_END

#if defined(__clang__) && ATTN__GNU
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wignored-pragmas"
#pragma float_control(pop)
#pragma clang diagnostic pop
#elif ATTN__GNU
#pragma GCC pop_options
#endif
#if defined(__GNUC__) || defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif /* ATTN_IMPLEMENTATION */

/* ============================================================================== >>kernel ====
   Compiled once per ISA, inside its target region, in the operations of >>ops: ATTN__(x) is a name
   of its own for each, attn__x__<isa>. What has no vectors is in >>split, >>blocks and >>codes, and
   calls these through attn__kernels. */
#ifdef ATTN__KERNEL
#ifndef ATTN__
#define ATTN__PASTE_(a, b) a##__##b
#define ATTN__PASTE(a, b) ATTN__PASTE_(a, b)
#define ATTN__(name) ATTN__PASTE(attn__##name, ATTN__KERNEL)
#define ATTN__V ATTN__PASTE(attn__v, ATTN__KERNEL)
#define ATTN__W ATTN__PASTE(ATTN__W, ATTN__KERNEL)
#define ATTN__MR ATTN__PASTE(ATTN__MR, ATTN__KERNEL)
#define ATTN__NV ATTN__PASTE(ATTN__NV, ATTN__KERNEL)
#define ATTN__OWN ATTN__PASTE(ATTN__OWN, ATTN__KERNEL)
#define ATTN__I ATTN__PASTE(attn__i, ATTN__KERNEL)
#define ATTN__NI attn__int16_vectors(ATTN__NV) /* vectors of a tile of int16 products */
#define ATTN__NB attn__bytes_vectors(ATTN__NV) /* the same of bytes */
#define ATTN__BYTE_MOST ATTN__PASTE(ATTN__BYTE, ATTN__KERNEL)
#define ATTN__BF16 /* whether products of bf16 are compiled */ \
    (!ATTN__ONLY_F32 && (ATTN__ALL_BF16 || (ATTN__OWN & ATTN__OWN_BF16) != 0))
#define ATTN__STRING_(a) #a
#define ATTN__STRING(a) ATTN__STRING_(a)
#define ATTN__PANEL 256 /* columns that sum_seen takes at a time */
/* products begin at a multiple of it: dropout's words come in fours */
#define ATTN__STEP (ATTN__W < 4 ? 4 : ATTN__W)
#endif

/* ---- >>generic: the operations that an ISA may leave out ---- */
#if !(ATTN__OWN & ATTN__OWN_LANES)
ATTN__INLINE ATTN__V ATTN__(load_n)(const float *p, int64_t n) {
    float x[ATTN__W];
    for (int64_t l = 0; l < ATTN__W; l++) x[l] = l < n ? p[l] : 0;
    return ATTN__(load)(x);
}
ATTN__INLINE void ATTN__(store_n)(float *p, ATTN__V v, int64_t n) {
    float x[ATTN__W];
    ATTN__(store)(x, v);
    for (int64_t l = 0; l < ATTN__W && l < n; l++) p[l] = x[l];
}
#endif
#if !(ATTN__OWN & ATTN__OWN_NARROW)
ATTN__INLINE ATTN__V ATTN__(load16)(const void *p, int64_t n, int32_t dtype) {
    float x[ATTN__W];
    attn__get_values(x, ATTN__W, p, dtype, 0, n);
    return ATTN__(load)(x);
}
ATTN__INLINE ATTN__V ATTN__(load8)(const void *p, int64_t n, int32_t dtype) {
    return ATTN__(load16)(p, n, dtype);
}
ATTN__INLINE void ATTN__(store16)(void *p, ATTN__V v, int64_t n, int32_t dtype) {
    float x[ATTN__W];
    ATTN__(store)(x, v);
    attn__put_values(p, dtype, 0, x, attn__min(n, ATTN__W));
}
#endif
#if !(ATTN__OWN & ATTN__OWN_HALVES)
ATTN__INLINE ATTN__V ATTN__(half)(const void *p) { return ATTN__(set1)(attn__half_at(p)); }
ATTN__INLINE ATTN__V ATTN__(load4)(const uint8_t *p, int high) {
    int8_t code[ATTN__W];
    for (int l = 0; l < ATTN__W; l++) code[l] = (int8_t)((p[l] >> 4 * high & 15) - 8);
    return ATTN__(load8)(code, ATTN__W, ATTN_INT8);
}
#endif
#if !(ATTN__OWN & ATTN__OWN_RANDOM)
ATTN__INLINE void ATTN__(random)(
    uint32_t *out, int64_t count, const uint32_t *at, const uint64_t *keys) {
    const uint32_t key[2] = {(uint32_t)keys[0], (uint32_t)keys[1]};
    for (uint32_t n = 0; 4 * n < count; n++) {
        uint32_t counter[4] = {at[0] + n, at[1], at[2], at[3]};
        attn__philox(counter, key, out + 4 * n);
    }
}
#endif
#if !(ATTN__OWN & ATTN__OWN_REDUCE)
ATTN__INLINE float ATTN__(reduce_max)(ATTN__V v) {
    float x[ATTN__W], most;
    ATTN__(store)(x, v);
    most = x[0];
    for (int l = 1; l < ATTN__W; l++) most = x[l] > most ? x[l] : most;
    return most;
}
ATTN__INLINE float ATTN__(reduce_add)(ATTN__V v) {
    float x[ATTN__W];
    ATTN__(store)(x, v);
    for (int step = ATTN__W / 2; step; step /= 2)
        for (int l = 0; l < step; l++) x[l] += x[l + step];
    return x[0];
}
ATTN__INLINE void ATTN__(max_rows)(const float *p, float *out) {
    for (int r = 0; r < ATTN__MR; r++) out[r] = ATTN__(reduce_max)(ATTN__(load)(p + r * ATTN__W));
}
ATTN__INLINE void ATTN__(add_rows)(const float *p, float *out) {
    for (int r = 0; r < ATTN__MR; r++) out[r] = ATTN__(reduce_add)(ATTN__(load)(p + r * ATTN__W));
}
ATTN__INLINE ATTN__V ATTN__(add_lanes)(const ATTN__V *r) {
    float x[ATTN__W];
    for (int l = 0; l < ATTN__W; l++) x[l] = ATTN__(reduce_add)(r[l]);
    return ATTN__(load)(x);
}
#endif
#if !(ATTN__OWN & ATTN__OWN_TRANSPOSE)
ATTN__INLINE void ATTN__(transpose)(ATTN__V *r) {
    float x[ATTN__W][ATTN__W], column[ATTN__W];
    for (int i = 0; i < ATTN__W; i++) ATTN__(store)(x[i], r[i]);
    for (int i = 0; i < ATTN__W; i++) {
        for (int l = 0; l < ATTN__W; l++) column[l] = x[l][i];
        r[i] = ATTN__(load)(column);
    }
}
#endif
#if !(ATTN__OWN & ATTN__OWN_LEAVE)
ATTN__INLINE void ATTN__(leave)(void) {}
#endif
#if !(ATTN__OWN & ATTN__OWN_BROADCAST)
ATTN__INLINE ATTN__V ATTN__(lane)(const float *p) { return ATTN__(set1)(*p); }
ATTN__INLINE ATTN__V ATTN__(fma_lane)(ATTN__V a, ATTN__V b, ATTN__V c) {
    return ATTN__(fma)(a, b, c);
}
ATTN__INLINE ATTN__V ATTN__(fma_step)(ATTN__V x, ATTN__V a, ATTN__V b) {
    return ATTN__(fma)(x, a, b);
}
#endif
#if !(ATTN__OWN & ATTN__OWN_BF16)
ATTN__INLINE ATTN__V ATTN__(dot16)(ATTN__V a, ATTN__V b, ATTN__V c) {
    uint16_t x[2 * ATTN__W], y[2 * ATTN__W];
    float sum[ATTN__W];
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    ATTN__(store)(sum, c);
    for (int l = 0; l < 2 * ATTN__W; l++) { /* a product of two bf16 is exact */
        sum[l / 2] += attn__bf16_to_f32(x[l]) * attn__bf16_to_f32(y[l]);
        ATTN__F32(sum[l / 2]);
    }
    return ATTN__(load)(sum);
}
ATTN__INLINE ATTN__V ATTN__(pair16)(ATTN__V a, ATTN__V b) {
    float x[ATTN__W], y[ATTN__W];
    uint16_t pair[2 * ATTN__W];
    ATTN__V v;
    ATTN__(store)(x, a);
    ATTN__(store)(y, b);
    for (int l = 0; l < ATTN__W; l++) {
        pair[2 * l] = (uint16_t)(attn__bits(x[l]) >> 16);
        pair[2 * l + 1] = (uint16_t)(attn__bits(y[l]) >> 16);
    }
    memcpy(&v, pair, sizeof pair);
    return v;
}
ATTN__INLINE void ATTN__(half16)(uint16_t *p, ATTN__V v) {
    uint16_t h[ATTN__W];
    ATTN__(store16)(h, v, ATTN__W, ATTN_BF16);
    memcpy(p, h, sizeof h);
}
#endif

ATTN__INLINE ATTN__V ATTN__(size)(ATTN__V x) { return ATTN__(max)(x, ATTN__(set1)(0) - x); }

/* W elements from the i-th on of the blocks at p, i a multiple of W. */
ATTN__INLINE ATTN__V ATTN__(load_block)(const uint8_t *p, int32_t dtype, int64_t i) {
    p += attn__bytes(dtype, i);
    return ATTN__(half)(p) * (dtype == ATTN_Q8_0
                                     ? ATTN__(load8)(p + 2 + (i & 31), ATTN__W, ATTN_INT8)
                                     : ATTN__(load4)(p + 2 + (i & 15), (int)(i >> 4 & 1)));
}
#if ATTN__BF16
/* The n elements at p, of which as many as two are in a lane; zeros behind them. */
ATTN__INLINE ATTN__V ATTN__(load_pairs16)(const uint16_t *p, int64_t n) {
    ATTN__V v;
    uint16_t part[2 * ATTN__W] = {0};
    if (n < 2 * ATTN__W) {
        if (n > 0) memcpy(part, p, (size_t)n * sizeof *p);
        p = part;
    }
    memcpy(&v, p, sizeof v);
    return v;
}
#endif
/* ---- n floats of a tensor of any type, and back ---- */
ATTN__INLINE ATTN__V ATTN__(load_any)(const void *data, int32_t dtype, int64_t at, int64_t n) {
    float part[ATTN__W];
    if (ATTN__ONLY_F32 || dtype == ATTN_F32)
        return n >= ATTN__W ? ATTN__(load)((const float *)data + at)
                            : ATTN__(load_n)((const float *)data + at, n);
    if (dtype == ATTN_F16 || dtype == ATTN_BF16)
        return ATTN__(load16)((const uint16_t *)data + at, n, dtype);
    if (dtype == ATTN_INT8 || dtype == ATTN_FP8_E4M3)
        return ATTN__(load8)((const uint8_t *)data + at, n, dtype);
    if (dtype == ATTN_INT16) {
        const uint8_t *high = (const uint8_t *)data + attn__high(at);
        return ATTN__(fma)(ATTN__(load8)(high + ATTN_PLANE, n, ATTN_INT8), ATTN__(set1)(1 / 256.0f),
            ATTN__(load8)(high, n, ATTN_INT8));
    }
    if (attn__is_blocks(dtype)) return ATTN__(load_block)((const uint8_t *)data, dtype, at);
    attn__get_values(part, ATTN__W, data, dtype, at, n);
    return ATTN__(load)(part);
}
ATTN__INLINE void ATTN__(store_any)(void *data, int32_t dtype, int64_t at, ATTN__V v, int64_t n) {
    float part[ATTN__W];
    if (ATTN__ONLY_F32 || dtype == ATTN_F32) {
        if (n >= ATTN__W) ATTN__(store)((float *)data + at, v);
        else ATTN__(store_n)((float *)data + at, v, n);
    } else if (dtype == ATTN_F16 || dtype == ATTN_BF16) {
        ATTN__(store16)((uint16_t *)data + at, v, n, dtype);
    } else {
        ATTN__(store)(part, v);
        attn__put_values(data, dtype, at, part, attn__min(n, ATTN__W));
    }
}
/* The same, called unless they are f32: inlined in few places, they would be half of these. */
ATTN__NOINLINE ATTN__V ATTN__(load_other)(const void *data, int32_t dtype, int64_t at, int64_t n) {
    return ATTN__(load_any)(data, dtype, at, n);
}
ATTN__NOINLINE void ATTN__(store_other)(
    void *data, int32_t dtype, int64_t at, ATTN__V v, int64_t n) {
    ATTN__(store_any)(data, dtype, at, v, n);
}
ATTN__INLINE ATTN__V ATTN__(load_some)(const void *data, int32_t dtype, int64_t at, int64_t n) {
    if (dtype == ATTN_F32) return ATTN__(load_any)(data, ATTN_F32, at, n);
    return ATTN__(load_other)(data, dtype, at, n);
}
ATTN__INLINE void ATTN__(store_some)(void *data, int32_t dtype, int64_t at, ATTN__V v, int64_t n) {
    if (dtype == ATTN_F32) ATTN__(store_any)(data, ATTN_F32, at, v, n);
    else ATTN__(store_other)(data, dtype, at, v, n);
}

/* ---- >>tile: C[MR][NV * W] from A[MR][K], broadcast, and B[K][NV * W] ----
 *   QK  C = A B, B packed keys; x[MR][W] = max(x, row maxima of C), or x is NULL
 *   PV  C = x[row] * C + A B, x NULL: C = A B
 *   PV_LAST  C = x[row] * (A B), never -0
 *   ATB  PV with A^T: A[K][MR], so that the rows of P^T and dS^T are read without a transpose
 * A B is the sum of sums from zero, of the first `lead` products, then of SUM_DIMS (QK) or SUM_KEYS.
 * With `pairs` A and B hold pairs of bf16 (dot16), and K, lead and strides count them.
 * The kinds differ in strides and in what is done behind the sums, so that one loop does them all.
 * Ten parameters: those of any matrix product, the kind and the place of the sums. */
#ifndef ATTN__MM
#define ATTN__MM(MR, NV) ATTN__PASTE(attn__mm_##MR##x##NV, ATTN__KERNEL)
#define ATTN__MM_BF16(MR, NV) ATTN__PASTE(attn__mm_bf16_##MR##x##NV, ATTN__KERNEL)
#define ATTN__MM_DEFINE_(name, MR, NV, pairs) \
    ATTN__NOINLINE void name(int kind, const float *A, int64_t lda, const float *B, int64_t ldb, \
        int64_t K, int64_t lead, float *C, int64_t ldc, float *x) { \
        ATTN__(mm)(MR, NV, pairs, kind, A, lda, B, ldb, K, lead, C, ldc, x); \
    }
#define ATTN__MM_DEFINE(NV, MR) ATTN__MM_DEFINE_(ATTN__MM(MR, NV), MR, NV, 0)
#define ATTN__MM_DEFINE_BF16(NV, MR) ATTN__MM_DEFINE_(ATTN__MM_BF16(MR, NV), MR, NV, 1)
/* X for every number of vectors up to NV, every number of rows up to MR */
#define ATTN__JOIN_(a, b) a##b
#define ATTN__JOIN(a, b) ATTN__JOIN_(a, b)
#define ATTN__EACH_NV(X) ATTN__JOIN(ATTN__UP_TO_NV_, ATTN__NV)(X)
#define ATTN__UP_TO_NV_1(X) X(1)
#define ATTN__UP_TO_NV_2(X) ATTN__UP_TO_NV_1(X) X(2)
#define ATTN__UP_TO_NV_3(X) ATTN__UP_TO_NV_2(X) X(3)
#define ATTN__UP_TO_NV_4(X) ATTN__UP_TO_NV_3(X) X(4)
#define ATTN__UP_TO_NV_5(X) ATTN__UP_TO_NV_4(X) X(5)
#define ATTN__UP_TO_NV_6(X) ATTN__UP_TO_NV_5(X) X(6)
#define ATTN__EACH_MR(X, NV) ATTN__JOIN(ATTN__UP_TO_MR_, ATTN__MR)(X, NV)
#define ATTN__UP_TO_MR_4(X, NV) X(NV, 1) X(NV, 2) X(NV, 3) X(NV, 4)
#define ATTN__UP_TO_MR_5(X, NV) ATTN__UP_TO_MR_4(X, NV) X(NV, 5)
#define ATTN__UP_TO_MR_6(X, NV) ATTN__UP_TO_MR_5(X, NV) X(NV, 6)
#define ATTN__UP_TO_MR_7(X, NV) ATTN__UP_TO_MR_6(X, NV) X(NV, 7)
#define ATTN__UP_TO_MR_8(X, NV) ATTN__UP_TO_MR_7(X, NV) X(NV, 8)
#define ATTN__MM_COLUMN(NV) ATTN__EACH_MR(ATTN__MM_DEFINE, NV)
#define ATTN__MM_COLUMN_ROW(NV) {ATTN__EACH_MR(ATTN__MM_ENTRY, NV)},
#define ATTN__MM_ENTRY(NV, MR) ATTN__MM(MR, NV),
#define ATTN__MM_BF16_COLUMN(NV) ATTN__EACH_MR(ATTN__MM_DEFINE_BF16, NV)
#define ATTN__MM_BF16_COLUMN_ROW(NV) {ATTN__EACH_MR(ATTN__MM_BF16_ENTRY, NV)},
#define ATTN__MM_BF16_ENTRY(NV, MR) ATTN__MM_BF16(MR, NV),
#endif
ATTN__ALWAYS void ATTN__(mm)(int MR, int NV, int pairs, int kind, const float *A, int64_t lda,
    const float *B, int64_t ldb, int64_t K, int64_t lead, float *C, int64_t ldc, float *x) {
    const ATTN__V zero = ATTN__(set1)(0);
    const int64_t a_row = kind == ATTN__ATB ? 1 : lda, a_step = kind == ATTN__ATB ? lda : 1,
                  b_vector = kind == ATTN__QK ? ldb : ATTN__W,
                  b_step = kind == ATTN__QK ? ATTN__W : ldb,
                  each = (kind == ATTN__QK ? ATTN__SUM_DIMS : ATTN__SUM_KEYS) >> pairs;
    ATTN__V acc[ATTN__MR][ATTN__NV];
    float room[ATTN__MR * ATTN__NV * ATTN__W], *part = room; /* the sums before */
    ATTN__OPAQUE(part);             /* in memory: gcc would spill around both loops */
    int64_t n = attn__min(lead, K); /* > 0 */
    for (int later = 0;; later = 1) {
        const float *stop =
            A + n * a_step; /* A counts, for want of a register; B may stand still */
        ATTN__UNROLL_TILE for (int r = 0; r < MR; r++)
            ATTN__UNROLL_TILE for (int v = 0; v < NV; v++) acc[r][v] = zero;
        do {
            ATTN__V b[ATTN__NV];
            ATTN__UNROLL_TILE for (int v = 0; v < NV; v++) b[v] = ATTN__(load)(B + v * b_vector);
            ATTN__UNROLL_TILE for (int r = 0; r < MR; r++) {
                ATTN__V a = pairs ? ATTN__(set1)(A[r * a_row]) : ATTN__(lane)(A + r * a_row);
                ATTN__UNROLL_TILE for (int v = 0; v < NV; v++) acc[r][v] =
                    pairs ? ATTN__(dot16)(a, b[v], acc[r][v])
                          : ATTN__(fma_lane)(a, b[v], acc[r][v]);
            }
            A += a_step;
            B += b_step;
        } while (A != stop);
        if (later) ATTN__UNROLL_TILE
        for (int r = 0; r < MR; r++) ATTN__UNROLL_TILE
        for (int v = 0; v < NV; v++) {
            acc[r][v] = acc[r][v] + ATTN__(load)(part + (r * NV + v) * ATTN__W);
            ATTN__F32(acc[r][v]);
        }
        if (!(K -= n)) break;
        ATTN__UNROLL_TILE for (int r = 0; r < MR; r++) ATTN__UNROLL_TILE for (int v = 0; v < NV;
            v++) ATTN__(store)(part + (r * NV + v) * ATTN__W, acc[r][v]);
        n = attn__min(each, K);
    }
    if (x && kind == ATTN__QK) {
        ATTN__UNROLL_TILE for (int r = 0; r < MR; r++) {
            ATTN__V m = ATTN__(load)(x + r * ATTN__W);
            ATTN__UNROLL_TILE for (int v = 0; v < NV; v++) m = ATTN__(max)(m, acc[r][v]);
            ATTN__(store)(x + r * ATTN__W, m);
        }
    } else if (x) {
        ATTN__V plus = zero;
        ATTN__ROUNDED(plus);
        ATTN__UNROLL_TILE for (int r = 0; r < MR; r++) {
            const ATTN__V by = ATTN__(set1)(x[r]);
            if (kind == ATTN__PV_LAST) {
                ATTN__UNROLL_TILE for (int v = 0; v < NV; v++) acc[r][v] =
                    ATTN__(fma)(by, acc[r][v], plus);
            } else {
                ATTN__UNROLL_TILE for (int v = 0; v < NV; v++) acc[r][v] =
                    ATTN__(fma)(by, ATTN__(load)(C + r * ldc + v * ATTN__W), acc[r][v]);
            }
        }
    }
    ATTN__UNROLL_TILE for (int r = 0; r < MR; r++) ATTN__UNROLL_TILE for (int v = 0; v < NV; v++)
        ATTN__(store)(C + r * ldc + v * ATTN__W, acc[r][v]);
}
/* clang-format off */
ATTN__EACH_NV(ATTN__MM_COLUMN)
/* vectors - 1, rows - 1 */
static const attn__mm ATTN__(mm_table)[ATTN__NV][ATTN__MR] = {
    ATTN__EACH_NV(ATTN__MM_COLUMN_ROW)
};
#if ATTN__BF16
ATTN__EACH_NV(ATTN__MM_BF16_COLUMN)
static const attn__mm ATTN__(mm_bf16_table)[ATTN__NV][ATTN__MR] = {
    ATTN__EACH_NV(ATTN__MM_BF16_COLUMN_ROW)
};
#endif
/* clang-format on */
/* The tile of so many vectors and rows; of pairs of bf16. */
ATTN__INLINE attn__mm ATTN__(mm_of)(int64_t vectors, int64_t rows, int pairs) {
#if ATTN__BF16
    if (pairs) return ATTN__(mm_bf16_table)[vectors - 1][rows - 1];
#endif
    (void)pairs;
    return ATTN__(mm_table)[vectors - 1][rows - 1];
}
/* A tile of Q K^T. Of very many dims the sums of LONG_DIMS are added, for sums of sums of 64 lose as
 * many places as there are of them. */
ATTN__NOINLINE void ATTN__(tile_dots_long)(int64_t vectors, int64_t rows, const float *A,
    int64_t lda, const float *B, int64_t ldb, int64_t K, float *C, int64_t ldc, float *x) {
    float part[ATTN__MR * ATTN__NV * ATTN__W];
    const int64_t width = vectors * ATTN__W;
    for (int64_t e = 0, n; e < K; e += n) {
        n = attn__min(K - e, ATTN__LONG_DIMS);
        ATTN__(mm_of)(vectors, rows, 0)(ATTN__QK, A + e, lda, B + e * ATTN__W, ldb, n,
            ATTN__SUM_DIMS, e ? part : C, e ? width : ldc, NULL);
        for (int64_t i = 0; i < rows * width && e; i += ATTN__W) {
            float *c = C + i / width * ldc + i % width;
            ATTN__V sum = ATTN__(load)(c) + ATTN__(load)(part + i);
            ATTN__F32(sum);
            ATTN__(store)(c, sum);
        }
    }
    for (int64_t i = 0; i < rows * width && x; i += ATTN__W) {
        float *top = x + i / width * ATTN__W;
        ATTN__(store)(
            top, ATTN__(max)(ATTN__(load)(top), ATTN__(load)(C + i / width * ldc + i % width)));
    }
}
ATTN__INLINE void ATTN__(tile_dots)(int64_t vectors, int64_t rows, int pairs, const float *A,
    int64_t lda, const float *B, int64_t ldb, int64_t K, float *C, int64_t ldc, float *x) {
    if (!ATTN__SMALL && K > ATTN__LONG_DIMS)
        ATTN__(tile_dots_long)(vectors, rows, A, lda, B, ldb, K, C, ldc, x);
    else
        ATTN__(mm_of)(vectors, rows, pairs)(
            ATTN__QK, A, lda, B, ldb, K, ATTN__SUM_DIMS >> pairs, C, ldc, x);
}
/* Columns, a multiple of W, go by tiles of as equal a width as may be: vectors of the next one. */
ATTN__INLINE int64_t ATTN__(tile_vectors)(int64_t columns) {
    const int64_t vectors = columns / ATTN__W;
    if (vectors <= ATTN__NV) return vectors;
    return attn__ceil_div(vectors, attn__ceil_div(vectors, ATTN__NV));
}
/* C[rows <= MR][columns], PV or PV_LAST. Parameters: those of mm. */
ATTN__INLINE void ATTN__(mm_columns)(int kind, int64_t rows, int pairs, const float *A, int64_t lda,
    const float *B, int64_t ldb, int64_t K, int64_t lead, float *C, int64_t ldc, int64_t columns,
    float *x) {
    for (int64_t c = 0, nv; c < columns; c += nv * ATTN__W) {
        nv = ATTN__(tile_vectors)(columns - c);
        ATTN__(mm_of)(nv, rows, pairs)(kind, A, lda, B + c, ldb, K, lead, C + c, ldc, x);
    }
}
/* sum[columns] = the sum of A[n * step] times row n of B over those n < count that are seen: the
 * same bits as a tile leaves where the others of A are 0. columns: 256 at most */
static void ATTN__(sum_seen)(const unsigned char *seen, int64_t count, const float *A, int64_t step,
    const float *B, int64_t ldb, float *sum, int64_t columns) {
    for (int64_t c = 0; c < columns; c += ATTN__W) {
        ATTN__V acc = ATTN__(set1)(0);
        for (int64_t n = 0; n < count; n++)
            if (seen[n])
                acc = ATTN__(fma)(ATTN__(set1)(A[n * step]), ATTN__(load)(B + n * ldb + c), acc);
        ATTN__(store)(sum + c, acc);
    }
}
#if ATTN__BF16
/* The same of pairs of keys: count of them; seen: two each. */
static void ATTN__(sum_seen_pairs)(const unsigned char *seen, int64_t count, const float *P,
    const float *V, int64_t ldv, float *sum, int64_t columns) {
    for (int64_t c = 0; c < columns; c += ATTN__W) {
        ATTN__V acc = ATTN__(set1)(0);
        for (int64_t n = 0; n < count; n++) {
            const uint16_t *both = (const uint16_t *)(const void *)(V + n * ldv + c);
            uint16_t one[2 * ATTN__W];
            if (!seen[2 * n] && !seen[2 * n + 1]) continue;
            if (!seen[2 * n] || !seen[2 * n + 1]) {
                memcpy(one, both, sizeof one);
                for (int l = 0; l < 2 * ATTN__W; l++)
                    if (!seen[2 * n + (l & 1)]) one[l] = 0;
                both = one;
            }
            acc = ATTN__(dot16)(ATTN__(set1)(P[n]), ATTN__(load_pairs16)(both, 2 * ATTN__W), acc);
        }
        ATTN__(store)(sum + c, acc);
    }
}
#endif

/* ---- >>pack ---- */
/* dst[0 .. dim rounded up to W) = scale * row, zeros behind, unless dst is NULL; a lane that is
 * not finite makes one of *bad NaN. */
ATTN__INLINE void ATTN__(widen1)(
    float *dst, const void *src, int32_t dtype, int64_t at, int64_t n, float scale, ATTN__V *bad) {
    ATTN__V v = ATTN__(load_any)(src, dtype, at, n);
    if (scale != 1) v = v * ATTN__(set1)(scale);
    *bad = *bad + v * ATTN__(set1)(0);
    if (dst) ATTN__(store)(dst, v);
}
/* Four vectors at a time, of a type that is known when this is compiled; returns how many elements.
 * Four sums, or the latency of one would be the limit. */
ATTN__INLINE int64_t ATTN__(widen4)(float *dst, const void *src, int32_t dtype, int64_t at,
    int64_t dim, float scale, ATTN__V *bad) {
    ATTN__V sum[4];
    int64_t c = 0;
    ATTN__UNROLL for (int v = 0; v < 4; v++)
        sum[v] = ATTN__(set1)(0);
    for (; c + 4 * ATTN__W <= dim; c += 4 * ATTN__W) ATTN__UNROLL
        for (int v = 0; v < 4; v++)
            ATTN__(widen1)(dst ? dst + c + v * ATTN__W : NULL, src, dtype, at + c + v * ATTN__W,
                ATTN__W, scale, sum + v);
    *bad = *bad + ((sum[0] + sum[1]) + (sum[2] + sum[3]));
    return c;
}
ATTN__NOINLINE void ATTN__(widen)(float *dst, const void *src, int32_t dtype, int64_t at,
    int64_t dim, float scale, ATTN__V *bad) {
    int64_t c = 0;
/* floats have no scale */
#define ATTN__CASE(TYPE) \
    case TYPE: \
        c = ATTN__(widen4)(dst, src, TYPE, at, dim, \
            TYPE == ATTN_F32 || TYPE == ATTN_F16 || TYPE == ATTN_BF16 ? 1 : scale, bad); \
        break;
    switch (dtype) {
        ATTN__CASE(ATTN_F32)
        ATTN__NARROW_TYPES(ATTN__CASE)
        default: break;
    }
#undef ATTN__CASE
    for (; c < dim; c += ATTN__W)
        ATTN__(widen1)(dst ? dst + c : NULL, src, dtype, at + c, dim - c, scale, bad);
}
ATTN__INLINE int ATTN__(any_bad)(ATTN__V bad) { return !attn__finite(ATTN__(reduce_add)(bad)); }
/* packed[l] = column c + l, l < m, of the n rows at[..] of t, scaled; zeros behind them. */
ATTN__NOINLINE void ATTN__(pack_square)(float *packed, const attn_in *t, const int64_t *at,
    const float *scale, int64_t c, int64_t n, int64_t m) {
    ATTN__V r[ATTN__W];
    for (int64_t l = 0; l < ATTN__W; l++)
        r[l] = l < n ? ATTN__(load_any)(t->data, t->dtype, at[l] + c, m) : ATTN__(set1)(0);
    if (t->scale)
        for (int64_t l = 0; l < n; l++) r[l] = r[l] * ATTN__(set1)(scale[l]);
    ATTN__(transpose)(r);
    for (int64_t l = 0; l < m; l++) ATTN__(store)(packed + l * ATTN__W, r[l]);
}
/* The same of all columns that W rows have whole vectors of, of a type that is known when this is
 * compiled; returns how many. */
ATTN__INLINE int64_t ATTN__(pack_rows_of)(int32_t dtype, float *packed, const attn_in *t,
    const int64_t *at, const float *scale, int64_t dim) {
    int64_t c = 0;
    for (; c + ATTN__W <= dim; c += ATTN__W) {
        ATTN__V r[ATTN__W];
        ATTN__UNROLL for (int l = 0; l < ATTN__W; l++)
            r[l] = ATTN__(load_any)(t->data, dtype, at[l] + c, ATTN__W);
        if (dtype != ATTN_F16 && dtype != ATTN_BF16 && t->scale) ATTN__UNROLL
            for (int l = 0; l < ATTN__W; l++) r[l] = r[l] * ATTN__(set1)(scale[l]);
        ATTN__(transpose)(r);
        ATTN__UNROLL for (int l = 0; l < ATTN__W; l++)
            ATTN__(store)(packed + (c + l) * ATTN__W, r[l]);
    }
    return c;
}
ATTN__NOINLINE int64_t ATTN__(pack_rows)(
    float *packed, const attn_in *t, const int64_t *at, const float *scale, int64_t dim) {
    (void)packed, (void)at, (void)scale, (void)dim; /* where there is f32 alone */
#define ATTN__CASE(TYPE) \
    case TYPE: return ATTN__(pack_rows_of)(TYPE, packed, t, at, scale, dim);
    switch (t->dtype) {
        ATTN__NARROW_TYPES(ATTN__CASE)
        default: return 0;
    }
#undef ATTN__CASE
}
/* Keys [j0, j1) W by W, [dim][W] each; zeros beyond j1. Also packs V^T for backward. */
static void ATTN__(pack_k)(float *dst, const attn_desc *d, const attn__sequence_view *s,
    const attn_in *t, int64_t h, int64_t dim, int64_t j0, int64_t j1) {
    const int l2 = attn__packs_from_l2(t->dtype, dim);
    int64_t at[ATTN__W];
    float scale[ATTN__W];
    for (int64_t j = j0; j < j1; j += ATTN__W) {
        float *packed = dst + (j - j0) * dim;
        int64_t n = attn__min(ATTN__W, j1 - j);
        for (int64_t l = 0; l < n; l++) {
            at[l] = attn__k_at(d, s, t->stride, j + l, h);
            scale[l] = attn__kv_scale(d, s, t, j + l, h);
        }
        /* the next keys: rows of narrow types end before the processor fetches by itself */
        for (int64_t l = ATTN__W; t->dtype != ATTN_F32 && l < attn__min(2 * ATTN__W, j1 - j); l++)
            attn__fetch_row_to(l2, t->data, t->dtype, attn__k_at(d, s, t->stride, j + l, h), dim);
        const int narrow = n == ATTN__W && t->dtype != ATTN_F32;
        for (int64_t c = narrow ? ATTN__(pack_rows)(packed, t, at, scale, dim) : 0; c < dim;
            c += ATTN__W) {
            ATTN__V r[ATTN__W];
            int64_t m = attn__min(ATTN__W, dim - c);
            if (n < ATTN__W || m < ATTN__W || t->dtype != ATTN_F32) {
                ATTN__(pack_square)(packed + c * ATTN__W, t, at, scale, c, n, m);
                continue;
            }
            ATTN__UNROLL for (int l = 0; l < ATTN__W; l++)
                r[l] = ATTN__(load)((const float *)t->data + at[l] + c);
            ATTN__(transpose)(r);
            ATTN__UNROLL for (int l = 0; l < ATTN__W; l++)
                ATTN__(store)(packed + (c + l) * ATTN__W, r[l]);
        }
    }
}
/* A block of one key is not transposed: group_single goes along its dims. */
static void ATTN__(pack_single_k)(
    float *dst, const attn_desc *d, const attn__sequence_view *s, int64_t h, int64_t j) {
    ATTN__V unused = ATTN__(set1)(0);
    ATTN__(widen)(dst, d->k.data, d->k.dtype, attn__k_at(d, s, d->k.stride, j, h), d->head_dim,
        attn__kv_scale(d, s, &d->k, j, h), &unused);
}
#if ATTN__BF16
/* The same as pairs of bf16. */
static void ATTN__(pack_single_pairs)(
    float *dst, const attn_desc *d, const attn__sequence_view *s, int64_t h, int64_t j) {
    const int64_t dim = d->head_dim;
    const uint16_t *row = (const uint16_t *)d->k.data + attn__k_at(d, s, d->k.stride, j, h);
    for (int64_t c = 0; c < dim; c += 2 * ATTN__W)
        ATTN__(store)(dst + c / 2, ATTN__(load_pairs16)(row + c, dim - c));
}
#endif
/* Whether any element of n rows of whole vectors is not finite. */
ATTN__NOINLINE int ATTN__(rows_bad)(const float *p, int64_t stride, int64_t n, int64_t dim) {
    const ATTN__V zero = ATTN__(set1)(0);
    ATTN__V bad = zero, odd = zero;
    for (int64_t j = 0; j < n; j++, p += stride)
        for (int64_t c = 0; c < dim; c += 2 * ATTN__W) {
            bad = bad + ATTN__(load)(p + c) * zero; /* clang's -Ofast reaches into an fma */
            if (c + ATTN__W < dim) odd = odd + ATTN__(load)(p + c + ATTN__W) * zero;
        }
    return ATTN__(any_bad)(bad + odd);
}
/* Whether any element of rows [j0, j1) of V is not finite; widens them into dst (width pad)
 * unless it is NULL. Nine parameters: where to, and which rows of which tensor. */
static int ATTN__(pack_v)(float *dst, int64_t pad, const attn_desc *d, const attn__sequence_view *s,
    const attn_in *t, int64_t h, int64_t dim, int64_t j0, int64_t j1) {
    ATTN__V bad = ATTN__(set1)(0);
    const int f32 = t->dtype == ATTN_F32, l2 = attn__packs_from_l2(t->dtype, dim);
    const int64_t ahead = attn__rows_ahead(l2);
    for (int64_t j = j0; j < j1; j++) {
        if (!f32)
            attn__fetch_row_to(l2, t->data, t->dtype,
                attn__k_at(d, s, t->stride, attn__min(j + ahead, j1 - 1), h), dim);
        ATTN__(widen)(dst ? dst + (j - j0) * pad : NULL, t->data, t->dtype,
            attn__k_at(d, s, t->stride, j, h), dim, f32 ? 1 : attn__kv_scale(d, s, t, j, h), &bad);
    }
    return ATTN__(any_bad)(bad);
}
/* Row i of q, rotated where the description says so. */
static void ATTN__(pack_q)(
    float *dst, const attn_desc *d, const attn__sequence_view *s, int64_t i, int64_t h) {
    ATTN__V unused = ATTN__(set1)(0);
    ATTN__(widen)(
        dst, d->q.data, d->q.dtype, attn__q_at(s, d->q.stride, i, h), d->head_dim, 1, &unused);
    if (attn__has_rotary(d) && i < s->q_used) attn__rotate(d, dst, s->k_old + i);
}
#if ATTN__BF16
/* ---- bf16 as it is: W keys as [dim / 2][W] pairs along dim, values as [keys / 2][v_pad] pairs of
 * keys, zeros behind the last ---- */
/* As pack_k; whole squares stay in registers. */
static void ATTN__(pack_k_pairs)(float *dst, const attn_desc *d, const attn__sequence_view *s,
    const attn_in *t, int64_t h, int64_t dim, int64_t j0, int64_t j1) {
    const uint16_t *row[ATTN__W], *K = (const uint16_t *)t->data;
    const int l2 = attn__packs_from_l2(ATTN_BF16, dim);
    for (int64_t j = j0; j < j1; j += ATTN__W, dst += dim / 2 * ATTN__W) {
        const int64_t n = attn__min(ATTN__W, j1 - j);
        for (int64_t l = 0; l < n; l++) row[l] = K + attn__k_at(d, s, t->stride, j + l, h);
        for (int64_t l = ATTN__W; l < attn__min(2 * ATTN__W, j1 - j); l++)
            attn__fetch_row_to(l2, K, ATTN_BF16, attn__k_at(d, s, t->stride, j + l, h), dim);
        int64_t c = 0;
        for (; n == ATTN__W && c + 2 * ATTN__W <= dim; c += 2 * ATTN__W) {
            ATTN__V r[ATTN__W];
            ATTN__UNROLL for (int l = 0; l < ATTN__W; l++)
                r[l] = ATTN__(load_pairs16)(row[l] + c, 2 * ATTN__W);
            ATTN__(transpose)(r);
            ATTN__UNROLL for (int l = 0; l < ATTN__W; l++)
                ATTN__(store)(dst + (c / 2 + l) * ATTN__W, r[l]);
        }
        for (; c < dim; c += 2 * ATTN__W) {
            ATTN__V r[ATTN__W];
            const int64_t m = attn__min(2 * ATTN__W, dim - c);
            for (int64_t l = 0; l < ATTN__W; l++)
                r[l] = ATTN__(load_pairs16)(row[attn__min(l, n - 1)] + c, l < n ? m : 0);
            ATTN__(transpose)(r);
            for (int64_t l = 0; l < m / 2; l++) ATTN__(store)(dst + (c / 2 + l) * ATTN__W, r[l]);
        }
    }
}
/* As pack_v, of keys from an even one of the block on. */
static int ATTN__(pack_v_pairs)(float *dst, int64_t pad, const attn_desc *d,
    const attn__sequence_view *s, int64_t h, int64_t j0, int64_t j1) {
    const ATTN__V zero = ATTN__(set1)(0);
    ATTN__V bad = zero, odd = zero;
    const int l2 = attn__packs_from_l2(ATTN_BF16, d->v_dim);
    const int64_t ahead = attn__rows_ahead(l2);
    for (int64_t j = j0; j < j1; j += 2, dst += pad) {
        const int both = j + 1 < j1;
        const int64_t a = attn__k_at(d, s, d->v.stride, j, h),
                      b = both ? attn__k_at(d, s, d->v.stride, j + 1, h) : 0;
        for (int64_t l = ahead; l < ahead + 2; l++)
            attn__fetch_row_to(l2, d->v.data, ATTN_BF16,
                attn__k_at(d, s, d->v.stride, attn__min(j + l, j1 - 1), h), d->v_dim);
        for (int64_t c = 0; c < d->v_dim; c += ATTN__W) {
            const int64_t n = d->v_dim - c;
            const ATTN__V x = ATTN__(load16)((const uint16_t *)d->v.data + a + c, n, ATTN_BF16),
                          y = both ? ATTN__(load16)(
                                         (const uint16_t *)d->v.data + b + c, n, ATTN_BF16)
                                   : zero;
            bad = bad + x * zero;
            odd = odd + y * zero;
            ATTN__(store)(dst + c, ATTN__(pair16)(x, y));
        }
    }
    return ATTN__(any_bad)(bad + odd);
}
/* The largest |v| of keys [j0, j1), one at least; a NaN may count or not. */
static float ATTN__(largest_v)(
    const attn_desc *d, const attn__sequence_view *s, int64_t h, int64_t j0, int64_t j1) {
    const ATTN__V zero = ATTN__(set1)(0);
    ATTN__V most = zero;
    for (int64_t j = j0; j < j1; j++) {
        const uint16_t *row = (const uint16_t *)d->v.data + attn__k_at(d, s, d->v.stride, j, h);
        for (int64_t c = 0; c < d->v_dim; c += ATTN__W) {
            const ATTN__V x = ATTN__(load16)(row + c, d->v_dim - c, ATTN_BF16);
            most = ATTN__(max)(ATTN__(max)(x, zero - x), most);
        }
    }
    return ATTN__(reduce_max)(most);
}
/* Columns [c0, c1) of P, whole vectors, as bf16 in the first half of the row. */
static void ATTN__(pairs_of_row)(float *P, int64_t c0, int64_t c1) {
    for (int64_t c = c0; c < c1; c += ATTN__W) {
        const ATTN__V v = ATTN__(load)(P + c); /* nothing is written before it is read */
        ATTN__(half16)((uint16_t *)(void *)P + c, v);
    }
    if (c1 % 2) ((uint16_t *)(void *)P)[c1] = 0; /* where vectors are single floats */
}
#endif

/* ---- >>score ---- */
/* tanh x = x P(x^2) / Q(x^2), both of degree 4, fitted for the least relative error on [0, 8.7]
 * (1.5e-8; 3e-7 in f32), beyond which it is 1 - 6e-8. */
ATTN__INLINE ATTN__V ATTN__(tanh)(ATTN__V x) {
    const ATTN__V zero = ATTN__(set1)(0), least = ATTN__(set1)(-8.7f);
    ATTN__V a = ATTN__(max)(least, zero - ATTN__(max)(least, x)), u = a * a; /* - clamp(x) */
    ATTN__V p = ATTN__(set1)(-1.38977052e-08f), q = ATTN__(set1)(7.99655822e-07f);
    p = ATTN__(fma)(p, u, ATTN__(set1)(-2.0993888e-05f));
    q = ATTN__(fma)(q, u, ATTN__(set1)(0.000332365365f));
    p = ATTN__(fma)(p, u, ATTN__(set1)(-0.0035187474f));
    q = ATTN__(fma)(q, u, ATTN__(set1)(0.0259649064f));
    p = ATTN__(fma)(p, u, ATTN__(set1)(-0.134004697f));
    q = ATTN__(fma)(q, u, ATTN__(set1)(0.467337906f));
    p = ATTN__(fma)(p, u, ATTN__(set1)(-1));
    q = ATTN__(fma)(q, u, ATTN__(set1)(1));
    return a * p * ATTN__(recip)(q);
}
/* 1 - tanh^2. Far from 0 that is 4 e / (1 + e)^2, e = exp(-2 |x|), of which no place is lost. */
ATTN__INLINE ATTN__V ATTN__(tanh_slope)(ATTN__V x) {
    const ATTN__V zero = ATTN__(set1)(0), one = ATTN__(set1)(1), size = ATTN__(max)(zero - x, x),
                  t = ATTN__(tanh)(x), e = ATTN__(exp2)(size * ATTN__(set1)(-2.88539008f)),
                  r = ATTN__(recip)(one + e);
    return ATTN__(pick)(one, size, ATTN__(set1)(4) * e * r * r, ATTN__(fma)(zero - t, t, one));
}
static const float ATTN__(iota)[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* The n (a multiple of W below 2^31) products S[0 ..] of a row with keys j0 .. become scores, held
 * as attn__unit says, hidden ones -infinity; max[W] joins their maxima unless it is NULL. */
ATTN__NOINLINE void ATTN__(score_row)(
    const attn__query *q, float *S, int64_t j0, int64_t n, float *max) {
    const attn_desc *d = q->d;
    const int64_t h = q->h, i = q->i, lo = q->lo, hi = q->hi;
    /* of the description's own: what is stored might be the description */
    const int capped = attn__capped(d);
    const void *bias = d->bias.data;
    const unsigned char *mask = (const unsigned char *)d->mask.data;
    const int32_t type = d->bias.dtype;
    float before = 1;
    const float ratio = capped ? attn__cap_ratio(d, &before) : 0, cap = d->softcap * ATTN__HELD,
                slope = d->alibi ? -ATTN__HELD * d->alibi[h] : 0;
    const int sloped = d->alibi != NULL;
    const int shared = d->bias_scale != NULL;
    float held = shared ? d->bias_scale[h] : 1, part = 1;
    /* a quarter of what is below 1 might be subnormal: 0, but not on a small machine */
    if (!ATTN__SMALL && (attn__bits(held) & 0x7fffffffu) < 0x3f800000u) part = ATTN__HELD;
    else held *= ATTN__HELD;
    float scale = d->scale;
    if (!capped && scale < 1e-30f && scale > -1e-30f) { /* divided by 4 it might be subnormal: 0 */
        before = scale;
        scale = 1;
    }
    for (int64_t c = 0; c < n && before != 1; c += ATTN__W)
        ATTN__(store)(S + c, ATTN__(load)(S + c) * ATTN__(set1)(before));
    ATTN__V m = ATTN__(set1)(ATTN__NEG_INF);
    int64_t bias_at = bias ? attn__bias_at(d, q->s, d->bias.stride, i, h) : 0;
    int64_t mask_at = mask ? attn__bias_at(d, q->s, d->mask.stride, i, h) : 0;
    const int64_t off = attn__sat_add(i, q->s->offset);
    const int32_t first = (int32_t)attn__clamp(lo - j0, 0, n),
                  last = (int32_t)attn__clamp(hi - j0, first, n);
    const int biased = bias && type == ATTN_F32 && !capped && !shared && !sloped && !mask;
    const ATTN__V unit = ATTN__(set1)(scale * ATTN__HELD);
    for (int64_t c = 0; c < n; c += ATTN__W) {
        int64_t j = j0 + c;
        ATTN__V x = ATTN__(load)(S + c);
        if (biased && c >= first && c + ATTN__W <= last) { /* the rest below, in short */
            const ATTN__V b = ATTN__(load)((const float *)bias + bias_at + j);
            x = ATTN__(fma)(x, unit, b * ATTN__(set1)(held));
            x = ATTN__(pick)(b, ATTN__(set1)(-3.4028234e38f), ATTN__(set1)(ATTN__NEG_INF), x);
            ATTN__(store)(S + c, x);
            m = ATTN__(max)(m, x);
            continue;
        }
        if (j < hi && j + ATTN__W > lo) {
            ATTN__V zero = ATTN__(set1)(0), given = zero, b = zero;
            if (bias) {
                given = ATTN__(load_some)(bias, type, bias_at + j, hi - j);
                b = given * ATTN__(set1)(part) * ATTN__(set1)(held);
                if (shared && attn__finite(held)) /* of finite ones finite */
                    b = ATTN__(pick)(ATTN__(set1)(3.4028234e38f), given, b,
                        ATTN__(max)(ATTN__(set1)(-3.4028234e38f), b));
            }
            if (capped)
                x = ATTN__(fma)(ATTN__(tanh)(x * ATTN__(set1)(ratio)), ATTN__(set1)(cap), b);
            else x = ATTN__(fma)(x, unit, b);
            if (sloped) {
                ATTN__V a =
                    ATTN__(set1)((float)attn__sat_add(off, -j)) - ATTN__(load)(ATTN__(iota));
                x = ATTN__(fma)(ATTN__(set1)(slope), ATTN__(max)(a, zero - a), x);
            }
            if (bias) /* hidden, whatever the product is */
                x = ATTN__(pick)(
                    given, ATTN__(set1)(-3.4028234e38f), ATTN__(set1)(ATTN__NEG_INF), x);
            if (mask) x = ATTN__(hide)(x, mask + mask_at + j, hi - j);
        }
        x = ATTN__(clip)(x, (int32_t)c, first, last);
        ATTN__(store)(S + c, x);
        m = ATTN__(max)(m, x);
    }
    if (max) ATTN__(store)(max, ATTN__(max)(ATTN__(load)(max), m));
}

/* score_row where only the range hides. */
ATTN__INLINE void ATTN__(clip_row)(
    float *S, int64_t j0, int64_t n, int64_t lo, int64_t hi, float *max) {
    ATTN__V m = ATTN__(set1)(ATTN__NEG_INF);
    const int32_t first = (int32_t)attn__clamp(lo - j0, 0, n),
                  last = (int32_t)attn__clamp(hi - j0, first, n);
    for (int64_t c = 0; c < n; c += ATTN__W) {
        ATTN__V x = ATTN__(clip)(ATTN__(load)(S + c), (int32_t)c, first, last);
        ATTN__(store)(S + c, x);
        m = ATTN__(max)(m, x);
    }
    if (max) ATTN__(store)(max, ATTN__(max)(ATTN__(load)(max), m));
}

/* A row with huge scores: k S - base in one rounding would not be 0 at the maximum, which base is
 * rounded from. S becomes k (S - max), for which k is 1 and base 0. */
ATTN__NOINLINE void ATTN__(far_row)(float *S, int64_t c0, int64_t c1, float max, float k) {
    for (int64_t c = c0; c < c1; c += ATTN__W)
        ATTN__(store)(S + c, (ATTN__(load)(S + c) - ATTN__(set1)(max)) * ATTN__(set1)(k));
}

/* S becomes exp2(k S - base) over columns [c0, c1), c0 a multiple of W: a column's place, not
 * the grouping, decides which of the four sums it goes to. sums[W]: of the columns. */
ATTN__NOINLINE void ATTN__(exp_row)(
    float *S, int64_t c0, int64_t c1, float scale, float base, float *sums) {
    const ATTN__V k = ATTN__(set1)(scale), minus = ATTN__(set1)(-base);
    ATTN__V sum[4];
    int64_t c = c0 / (4 * ATTN__W) * (4 * ATTN__W);
    ATTN__UNROLL for (int v = 0; v < 4; v++)
        sum[v] = ATTN__(set1)(0);
    if (c < c0) {
        ATTN__UNROLL for (int v = 1; v < 4; v++) {
            if (c + v * ATTN__W < c0 || c + v * ATTN__W >= c1) continue;
            ATTN__V p = ATTN__(exp2)(ATTN__(fma)(ATTN__(load)(S + c + v * ATTN__W), k, minus));
            ATTN__(store)(S + c + v * ATTN__W, p);
            sum[v] = sum[v] + p;
        }
        c += 4 * ATTN__W;
    }
    for (; c + 4 * ATTN__W <= c1; c += 4 * ATTN__W) {
        ATTN__V p[4];
        ATTN__UNROLL for (int v = 0; v < 4; v++)
            p[v] = ATTN__(exp2)(ATTN__(fma)(ATTN__(load)(S + c + v * ATTN__W), k, minus));
        ATTN__UNROLL for (int v = 0; v < 4; v++) {
            ATTN__(store)(S + c + v * ATTN__W, p[v]);
            sum[v] = sum[v] + p[v];
        }
    }
    ATTN__UNROLL for (int v = 0; v < 4; v++) {
        if (c + v * ATTN__W >= c1) break;
        ATTN__V p = ATTN__(exp2)(ATTN__(fma)(ATTN__(load)(S + c + v * ATTN__W), k, minus));
        ATTN__(store)(S + c + v * ATTN__W, p);
        sum[v] = sum[v] + p;
    }
    ATTN__(store)(sums, (sum[0] + sum[1]) + (sum[2] + sum[3]));
}

/* Dropout on n (a multiple of W) probabilities of keys j0 .. (a multiple of 4). */
ATTN__NOINLINE void ATTN__(drop_row)(const attn__query *q, float *P, int64_t j0, int64_t n) {
    const attn_desc *d = q->d;
    const uint32_t least = (uint32_t)((double)d->dropout * 4294967296.0);
    const ATTN__V factor = ATTN__(set1)((float)(1 / (1 - (double)d->dropout)));
    uint32_t words[128], at[4] = {(uint32_t)(j0 / 4), (uint32_t)q->i,
                             (uint32_t)(q->s->b * d->heads + q->h), (uint32_t)d->philox_offset};
    uint64_t keys[20];
    ATTN__UNROLL for (uint32_t r = 0; r < 10; r++) {
        keys[2 * r] = (uint32_t)d->seed + r * 0x9E3779B9u;
        keys[2 * r + 1] = (uint32_t)(d->seed >> 32) + r * 0xBB67AE85u;
    }
    for (int64_t c = 0; c < n; c += 128, at[0] += 32) {
        int64_t count = attn__min(128, n - c);
        ATTN__(random)(words, count, at, keys);
        for (int64_t l = 0; l < count; l += ATTN__W)
            ATTN__(store)(
                P + c + l, ATTN__(keep)(ATTN__(load)(P + c + l), factor, words + l, least));
    }
}
/* O[columns] = alpha O + P V for one row over the keys that it sees, and no other: 0 *
 * NaN is NaN. P and V begin at key kb. */
ATTN__NOINLINE void ATTN__(seen_row)(const attn__query *q, int pairs, const float *P, int64_t kb,
    const float *V, int64_t ldv, float *O, int64_t columns, float alpha) {
    unsigned char seen[ATTN__SUM_KEYS + 1];
    float sum[ATTN__PANEL], total[ATTN__PANEL];
    for (int64_t c0 = 0, n; c0 < columns; c0 += n) {
        n = attn__min(ATTN__PANEL, columns - c0);
        memset(total, 0, sizeof total);
        for (int64_t j = q->lo - (pairs ? (q->lo - kb) % 2 : 0), end; j < q->hi; j = end) {
            end = attn__min(q->hi, j + ATTN__SUM_KEYS - (j - kb) % ATTN__SUM_KEYS);
            for (int64_t l = j; l < end; l++) seen[l - j] = l >= q->lo && !attn__masked(q, l);
#if ATTN__BF16
            if (pairs) {
                seen[end - j] = 0;
                ATTN__(sum_seen_pairs)(seen, attn__ceil_div(end - j, 2), P + (j - kb) / 2,
                    V + (j - kb) / 2 * ldv + c0, ldv, sum, n);
            } else
#endif
                ATTN__(sum_seen)(
                    seen, end - j, P + (j - kb), 1, V + (j - kb) * ldv + c0, ldv, sum, n);
            for (int64_t c = 0; c < n; c += ATTN__W)
                ATTN__(store)(total + c, ATTN__(load)(total + c) + ATTN__(load)(sum + c));
        }
        for (int64_t c = 0; c < n; c += ATTN__W)
            ATTN__(store)(O + c0 + c, ATTN__(fma)(ATTN__(set1)(alpha), ATTN__(load)(O + c0 + c),
                                          ATTN__(load)(total + c)));
    }
}

/* ---- >>forward: flash ---- */

/* a * b + c of numbers, by the operation: what a compiler contracts depends on its flags */
ATTN__INLINE float ATTN__(fma1)(float a, float b, float c) {
    float part[16];
    ATTN__(store)(part, ATTN__(fma)(ATTN__(set1)(a), ATTN__(set1)(b), ATTN__(set1)(c)));
    return part[0];
}
/* exp2 of two numbers */
ATTN__INLINE void ATTN__(exp2_pair)(float *a, float *b) {
    float part[16] = {0};
    part[0] = *a;
    ATTN__(store)(part, ATTN__(exp2)(ATTN__(load)(part)));
    *a = part[0];
    part[0] = *b;
    ATTN__(store)(part, ATTN__(exp2)(ATTN__(load)(part)));
    *b = part[0];
}

/* A row of dim elements: factor * src, rounded once. A zero is +0: the sign of a sum of zeros would
 * tell which hidden keys it went over. */
ATTN__INLINE void ATTN__(narrow_as)(
    void *data, int32_t dtype, int64_t at, const float *src, int64_t dim, float factor) {
    const ATTN__V f = ATTN__(set1)(factor);
    ATTN__V zero = ATTN__(set1)(0);
    ATTN__ROUNDED(zero); /* not to be left out as without effect */
    for (int64_t c = 0; c < dim; c += ATTN__W)
        ATTN__(store_any)(
            data, dtype, at + c, ATTN__(fma)(ATTN__(load)(src + c), f, zero), dim - c);
}
ATTN__NOINLINE void ATTN__(narrow_other)(
    void *data, int32_t dtype, int64_t at, const float *src, int64_t dim, float factor) {
    ATTN__(narrow_as)(data, dtype, at, src, dim, factor);
}
ATTN__INLINE void ATTN__(narrow)(
    void *data, int32_t dtype, int64_t at, const float *src, int64_t dim, float factor) {
    if (dtype == ATTN_F32) ATTN__(narrow_as)(data, ATTN_F32, at, src, dim, factor);
    else ATTN__(narrow_other)(data, dtype, at, src, dim, factor);
}

/* o and lse of the finished rows [r0, r1) */
static void ATTN__(finish)(const attn__rows *u, const attn__tile *t, int64_t r0, int64_t r1) {
    const attn_desc *d = u->job->d;
    for (int64_t r = r0; r < r1; r++) {
        int64_t at = attn__q_at(&u->s, d->o.stride, attn__row_query(u, r), attn__row_head(u, r));
        float *o = t->O + r * u->job->v_pad, factor = attn__finish_row(u, t, r);
        if (attn__row_empty(t, r)) memset(o, 0, (size_t)u->job->v_pad * sizeof *o);
        ATTN__(narrow)(d->o.data, d->o.dtype, at, o, d->v_dim, factor);
    }
}
/* (max, sum, O) of each row joined by those of a later key split, in that order. */
static void ATTN__(join)(
    const attn__rows *u, attn__tile *t, const float *O, const float *max, const float *sum) {
    int64_t width = u->job->v_pad;
    for (int64_t r = 0; r < u->rows; r++) {
        float top = max[r] > t->max[r] ? max[r] : t->max[r],
              a = attn__rescale(t->max[r], top, u->job->unit.exp2),
              b = attn__rescale(max[r], top, u->job->unit.exp2);
        ATTN__(exp2_pair)(&a, &b);
        for (int64_t c = r * width; c < (r + 1) * width; c += ATTN__W) {
            ATTN__V old = ATTN__(load)(t->O + c) * ATTN__(set1)(a);
            ATTN__F32(old);
            ATTN__(store)(t->O + c, ATTN__(fma)(ATTN__(load)(O + c), ATTN__(set1)(b), old));
        }
        float old = t->sum[r] * a;
        ATTN__F32(old);
        t->sum[r] = ATTN__(fma1)(sum[r], b, old);
        t->max[r] = top;
    }
}

/* ---- >>group: a few rows against a block of keys ---- */

/* Whether n elements of the bias are all -infinity; a NaN is not. */
ATTN__NOINLINE int ATTN__(bias_hides)(const attn_desc *d, int64_t at, int64_t n) {
    const ATTN__V one = ATTN__(set1)(1), low = ATTN__(set1)(-3.4028234e38f), zero = ATTN__(set1)(0);
    ATTN__V seen = zero;
    int64_t c = 0;
    for (; c < n; c += ATTN__W) /* the lanes behind are 0 */
        seen = seen + ATTN__(pick)(ATTN__(load_some)(d->bias.data, d->bias.dtype, at + c,
                                       attn__min(n - c, ATTN__W)),
                          low, zero, one);
    return ATTN__(reduce_add)(seen) == (float)(c - n);
}
/* n scores of row r, from key j0 on: those that it does not see are -infinity. */
ATTN__INLINE void ATTN__(group_clip)(
    const attn__group *g, int64_t r, float *S, int64_t j0, int64_t n, float *max) {
    const attn_desc *d = g->u->job->d;
    if (g->holes >> r & 1) {
        const attn__query q = attn__group_row(g, r);
        const unsigned char *seen =
            (const unsigned char *)d->mask.data + attn__bias_at(d, q.s, d->mask.stride, q.i, q.h);
        for (int64_t c = 0; c < n; c += ATTN__W)
            if (j0 + c < q.hi && j0 + c + ATTN__W > q.lo)
                ATTN__(store)(
                    S + c, ATTN__(hide)(ATTN__(load)(S + c), seen + j0 + c, q.hi - j0 - c));
    }
    ATTN__(clip_row)(S, j0, n, g->lo[r], g->hi[r], max);
}
/* The scores of a single key, whose dims are not spread, along them: a vector of S has its score. */
ATTN__INLINE void ATTN__(group_single)(const attn__group *g, float *S) {
    const int pairs = ATTN__BF16 && g->b->pairs_k;
    const int64_t dim = g->u->job->d->head_dim >> pairs, ld = g->u->job->ld;
    const float *key = g->t->K;
    for (int64_t r = 0; r < g->rows; r++) {
        const float *q = g->Q + r * g->ldq;
        float dot = 0;
        for (int64_t e = 0, end; e < dim; e = end) {
            ATTN__V sum = ATTN__(set1)(0);
            end = attn__min(dim, e + ATTN__SUM_DIMS * ATTN__W);
            for (int64_t c = e; c < end; c += ATTN__W) {
                const int64_t n = attn__min(end - c, ATTN__W);
                const ATTN__V x = ATTN__(load_n)(q + c, n), y = ATTN__(load_n)(key + c, n);
#if ATTN__BF16
                sum = pairs ? ATTN__(dot16)(x, y, sum) : ATTN__(fma)(x, y, sum);
#else
                sum = ATTN__(fma)(x, y, sum);
#endif
            }
            dot = e ? dot + ATTN__(reduce_add)(sum) : ATTN__(reduce_add)(sum);
        }
        ATTN__(store)(S + r * ld, ATTN__(set1)(dot));
    }
}
/* max[rows rounded up to MR][W] = -infinity */
ATTN__INLINE void ATTN__(no_max)(int64_t rows, float *max) {
    for (int64_t r = 0; r < rows; r += ATTN__MR) ATTN__UNROLL
        for (int l = 0; l < ATTN__MR; l++)
            ATTN__(store)(max + (r + l) * ATTN__W, ATTN__(set1)(ATTN__NEG_INF));
}
/* 1. S = Q K^T by tiles, masked; max[rows rounded up to MR][W]: row maxima, in registers where a
 * tile is wholly visible */
ATTN__INLINE void ATTN__(group_scores)(const attn__group *g, float *max) {
    const attn__tile *t = g->t;
    const attn__flash *job = g->u->job;
    const attn_desc *d = job->d;
    const int pairs = ATTN__BF16 && g->b->pairs_k;
    const int64_t kb = g->b->kb, rows = g->rows, dim = d->head_dim >> pairs;
    ATTN__(no_max)(rows, max);
    for (int64_t c = g->start, n; c < g->end; c += n) {
        n = ATTN__(tile_vectors)(g->end - c) * ATTN__W;
        int whole = !job->extras && !g->holes && !g->b->single && kb + c >= g->inner_lo &&
                    kb + c + n <= g->inner_hi;
        if (g->b->single) ATTN__(group_single)(g, t->S + c);
        else
            ATTN__EACH_OF(r, m, rows, ATTN__MR) {
                ATTN__(tile_dots)(n / ATTN__W, m, pairs, g->Q + r * g->ldq, g->ldq,
                    t->K + (kb + c - g->b->pack0) * dim, ATTN__W * dim, dim, t->S + r * job->ld + c,
                    job->ld, whole ? max + r * ATTN__W : NULL);
            }
        for (int64_t r = 0; r < rows && !whole && !job->extras; r++)
            ATTN__(group_clip)(g, r, t->S + r * job->ld + c, kb + c, n, max + r * ATTN__W);
    }
    for (int64_t r = 0; r < rows && job->extras; r++) {
        const attn__query q = attn__group_row(g, r);
        ATTN__(score_row)(
            &q, t->S + r * job->ld + g->start, kb + g->start, g->end - g->start, max + r * ATTN__W);
    }
}
/* 2. new maxima and alpha = exp2(old - new) of all rows, then p = exp2(k s - base) and the row
 * sums; base = k max */
ATTN__NOINLINE void ATTN__(group_softmax)(const attn__group *g, float *max, float *alpha) {
    const attn__tile *t = g->t;
    const attn__flash *job = g->u->job;
    const attn_desc *d = job->d;
    const int64_t row0 = g->row0, rows = g->rows;
    const ATTN__V zero = ATTN__(set1)(0), power = ATTN__(set1)(job->unit.exp2);
    /* what max_rows and add_rows store may be a whole vector */
    float base[ATTN__GROUP_ROWS], top[2 * ATTN__GROUP_ROWS], sum[2 * ATTN__GROUP_ROWS];
    for (int64_t r = 0; r < ATTN__GROUP_ROWS; r += ATTN__W) ATTN__(store)(top + r, zero);
    for (int64_t r = 0; r < rows; r += ATTN__MR) ATTN__(max_rows)(max + r * ATTN__W, top + r);
    for (int64_t r = 0; r < rows; r += ATTN__W) {
        /* a NaN leaves the maximum as it was */
        ATTN__V old = ATTN__(load_n)(t->max + row0 + r, rows - r),
                m = ATTN__(max)(ATTN__(load)(top + r), old), from = m * power, was = old * power;
        ATTN__ROUNDED(from);
        ATTN__ROUNDED(was);
        from = ATTN__(pick)(m, ATTN__(set1)(-3.4028234e38f), zero, from);
        ATTN__(store)(top + r, old);
        ATTN__(store_n)(t->max + row0 + r, m, rows - r);
        ATTN__(store)(base + r, from);
        ATTN__(store)(alpha + r, ATTN__(exp2)(was - from));
    }
    for (int64_t r = 0; r < rows; r++) {
        /* the next group's row into L2: among the exponentials memory is idle */
        for (int64_t c = 0; row0 + rows + r < g->u->rows && c < d->head_dim; c += 16)
            ATTN__PREFETCH(g->Q + (rows + r) * g->ldq + c, 2);
        float *S = t->S + r * job->ld, k = job->unit.exp2, from = base[r];
        if (attn__far(from)) {
            const float most = t->max[row0 + r];
            float unused = 0;
            alpha[r] = attn__rescale(top[r], most, k);
            ATTN__(exp2_pair)(&alpha[r], &unused);
            ATTN__(far_row)(S, g->start, g->end, most, k);
            k = 1;
            from = 0;
        }
        ATTN__(exp_row)(S, g->start, g->end, k, from, max + r * ATTN__W);
    }
    for (int64_t r = 0; r < rows; r += ATTN__MR) ATTN__(add_rows)(max + r * ATTN__W, sum + r);
    for (int64_t r = 0; r < rows; r += ATTN__W)
        ATTN__(store_n)(t->sum + row0 + r,
            ATTN__(fma)(ATTN__(load_n)(t->sum + row0 + r, rows - r), ATTN__(load)(alpha + r),
                ATTN__(load_n)(sum + r, rows - r)),
            rows - r);
    for (int64_t r = 0; r < rows && d->dropout > 0; r++) {
        const attn__query q = attn__group_row(g, r);
        ATTN__(drop_row)(&q, t->S + r * job->ld + g->start, g->b->kb + g->start, g->end - g->start);
    }
}
/* ---- >>thin: few rows, as the queries of a GQA group in a decode step are ----
   Packing a key for them costs more than its products. So keys and values are read where they lie,
   once. Q K^T: W products at a time, of R rows with W / R keys, each a vector along the dims whose
   lanes are added. P V: a few keys at a time, V row by row for two rows of P after the other. The
   processor does not fetch far enough ahead by itself while it computes; it does best along rows. */
/* X(type): narrow types that are read where they lie, unscaled, of dims that are a multiple of THIN_DIMS,
 * a vector's unless loads of some lanes cost no more. What else there is becomes f32 first. Whether
 * rows of a type may end within a vector. */
#undef ATTN__THIN_MASKED
#undef ATTN__THIN_NARROW
#undef ATTN__THIN_DIMS
#undef ATTN__THIN_ENDS
#define ATTN__THIN_MASKED (ATTN__W >= 16)
#define ATTN__THIN_ENDS(dtype) \
    ((dtype) == ATTN_F32 || \
        (ATTN__THIN_MASKED && (dtype) != ATTN__BF16_PAIRS && !attn__is_blocks(dtype)))
#if ATTN__OWN & ATTN__OWN_NARROW && !ATTN__ONLY_F32
#define ATTN__THIN_DIMS (ATTN__THIN_MASKED ? 1 : ATTN__W)
#define ATTN__THIN_NARROW(X) ATTN__NARROW_TYPES(X)
#else
#define ATTN__THIN_DIMS 0
#define ATTN__THIN_NARROW(X)
#endif
/* The line at p; of int16 that of the low bytes too. */
ATTN__INLINE void ATTN__(thin_fetch)(const attn__thin *m, const char *p, int32_t dtype) {
    attn__fetch_to(m->fetch_l2, p);
    if (dtype == ATTN_INT16) attn__fetch_to(m->fetch_l2, p + ATTN_PLANE);
}
/* Of int16 the last line of the row at p, where its parts of 64 bytes begin within lines. Of other
 * types the processor brings it. */
ATTN__INLINE void ATTN__(thin_fetch_last)(const attn__thin *m, const char *p, int32_t dtype) {
    if (dtype == ATTN_INT16 && ((uintptr_t)p & 63)) ATTN__(thin_fetch)(m, p + m->dim - 1, dtype);
}
/* Vectors of V in a panel: those of two rows of O stay in registers. What takes more than an
 * instruction or two to widen. */
#undef ATTN__THIN_PANEL
#undef ATTN__THIN_ALONE
#undef ATTN__THIN_COSTLY
#define ATTN__THIN_PANEL (ATTN__MR * ATTN__NV >= 24 ? 8 : 4)
#define ATTN__THIN_ALONE 8 /* the same of a single row */
#define ATTN__THIN_COSTLY(dtype) \
    ((dtype) == ATTN_FP8_E4M3 || (dtype) == ATTN_INT16 || (dtype) == ATTN_Q8_0 || \
        (dtype) == ATTN_Q4_0)
/* n columns from c + e on of the key that begins with element `at` of data, c a multiple of 32 where
 * there are blocks. R 1: of the row at `row`, but for int16, whose bytes depend on `at`. */
ATTN__INLINE ATTN__V ATTN__(thin_key)(const void *data, int R, int32_t dtype, int64_t at,
    const char *row, int64_t c, int64_t e, int64_t n) {
    if (attn__is_blocks(dtype)) {
        const char *begin = R == 1 ? row : (const char *)data + attn__bytes(dtype, at);
        return ATTN__(load_block)((const uint8_t *)begin + attn__bytes(dtype, c), dtype, e);
    }
    return R == 1 && dtype != ATTN_INT16 ? ATTN__(load_any)(row, dtype, c + e, n)
                                         : ATTN__(load_any)(data, dtype, at + c + e, n);
}
/* acc[R][X] += q[R] times n columns from c + e on of the X keys that lie at `at`, with one row at
 * the addresses `rows`; c a multiple of 32 where there are blocks. */
ATTN__INLINE void ATTN__(thin_step)(const void *data, int R, int X, int32_t dtype, const float *q,
    const int64_t *at, const char *const *rows, int64_t c, int64_t e, int64_t n, ATTN__V *acc) {
    ATTN__V key[ATTN__W];
#if ATTN__BF16
    if (dtype == ATTN__BF16_PAIRS) { /* 2 W columns */
        ATTN__UNROLL for (int x = 0; x < X; x++)
            key[x] = ATTN__(load_pairs16)((const uint16_t *)data + at[x] + c, 2 * ATTN__W);
        ATTN__UNROLL for (int r = 0; r < R; r++) {
            const ATTN__V part = ATTN__(load)(q + r * ATTN__W);
            ATTN__UNROLL for (int x = 0; x < X; x++)
                acc[r * X + x] = ATTN__(dot16)(part, key[x], acc[r * X + x]);
        }
        return;
    }
#endif
    if (R == 1) { /* key after key: so many do not fit */
        const ATTN__V part = ATTN__(load)(q);
        ATTN__UNROLL for (int x = 0; x < X; x++)
            acc[x] = ATTN__(fma)(
                part, ATTN__(thin_key)(data, R, dtype, at[x], rows[x], c, e, n), acc[x]);
        return;
    }
    ATTN__UNROLL for (int x = 0; x < X; x++)
        key[x] = ATTN__(thin_key)(data, R, dtype, at[x], rows[x], c, e, n);
    ATTN__UNROLL for (int r = 0; r < R; r++) {
        const ATTN__V part = ATTN__(load)(q + r * ATTN__W);
        ATTN__UNROLL for (int x = 0; x < X; x++)
            acc[r * X + x] = ATTN__(fma)(part, key[x], acc[r * X + x]);
    }
}
/* out[rows][n rounded up to X] = A K^T over SUM_DIMS vectors of dims from `first` on, added to those
 * before; the keys behind n are the last again. Q: W of these dims of R rows, then the next. */
ATTN__INLINE void ATTN__(thin_dots)(
    const attn__thin *m, int R, int32_t dtype, int64_t first, const float *Q) {
    enum { W = ATTN__W, MOST = W > 4 ? W : 4 };
    const int pairs = dtype == ATTN__BF16_PAIRS;
    const int32_t type = pairs ? ATTN_BF16 : dtype;
    const int64_t dim = attn__min(m->dim, first + ATTN__SUM_DIMS * W), n = m->n,
                  wide = pairs ? 2 * W : W, line = attn__max(wide, attn__thin_line(type)),
                  few = attn__is_blocks(type) ? 32
                        : type == ATTN_F32    ? attn__max(W, 16)
                                              : wide;
    const int X = W > R ? W / R : 1;
    const int dense = m->dense >= X, fetch = m->each || m->next;
    /* bytes from a line of a row that is fetched to the next, of the first and behind the last */
    const uintptr_t on = dense ? 64 * (uintptr_t)X : 64,
                    begin = (uintptr_t)attn__thin_bytes(type, first) / 64 * on,
                    end = ((uintptr_t)attn__thin_bytes(type, dim) + 63) / 64 * on;
    const int64_t step = m->step, last = m->first + (n - 1) * step;
    for (int64_t j = 0, row = m->first; j < n; j += X) {
        const char *stream = attn__thin_next(m, j);
        const float *q = Q;
        int64_t at[W];
        ATTN__V acc[MOST];
        float sum[MOST];
        uintptr_t f = begin;
        ATTN__UNROLL for (int l = 0; l < R * X; l++)
            acc[l] = ATTN__(set1)(0);
        const char *next[W], *rows[W];
        ATTN__UNROLL for (int x = 0; x < X; x++)
            next[x] = dense ? stream + 64 * x : m->next[j + x];
        if (m->at) {
            ATTN__UNROLL for (int x = 0; x < X; x++)
                at[x] = m->at[j + x];
        } else {
            ATTN__UNROLL for (int x = 0; x < X; x++)
                at[x] = j + x < n ? row + x * step : last;
            row += X * step;
        }
        ATTN__UNROLL for (int x = 0; x < X; x++)
            rows[x] = R > 1 ? NULL : (const char *)m->data + attn__bytes(type, at[x]);
        for (int64_t c = first; c < dim; c += few) {
            if (fetch && c % line == 0) {
                ATTN__UNROLL for (int x = 0; x < X; x++)
                    ATTN__(thin_fetch)(m, next[x] + f, type);
                f += on;
            }
            if (ATTN__THIN_ENDS(dtype) && c + few > dim) {
                for (int64_t e = 0; c + e < dim; e += W, q += R * W)
                    ATTN__(thin_step)(
                        m->data, R, X, dtype, q, at, rows, c, e, attn__min(W, dim - c - e), acc);
                break;
            }
            ATTN__UNROLL for (int64_t e = 0; e < few; e += wide, q += R * W)
                ATTN__(thin_step)(m->data, R, X, dtype, q, at, rows, c, e, W, acc);
        }
        for (; attn__is_blocks(type) && fetch && f < end; f += on)
            for (int x = 0; x < X; x++) ATTN__(thin_fetch)(m, next[x] + f, type);
        for (int x = 0; type == ATTN_INT16 && x < X && fetch && !dense && dim == m->dim; x++)
            ATTN__(thin_fetch_last)(m, next[x], type);
        ATTN__UNROLL for (int l = 0; l < R * X; l += W)
            ATTN__(store)(sum + l, ATTN__(add_lanes)(acc + l));
        for (int r = 0; first && r < m->rows; r++)
            for (int x = 0; x < X; x++) sum[r * X + x] += m->out[r * m->ldo + j + x];
        ATTN__UNROLL for (int r = 0; r < R; r++) {
            if (r >= m->rows) break;
            memcpy(m->out + r * m->ldo + j, sum + r * X, (size_t)X * sizeof *sum);
        }
    }
}
ATTN__NOINLINE void ATTN__(thin_dots_from)(const attn__thin *m, int64_t first) {
    float Q[4 * ATTN__SUM_DIMS * ATTN__W];
    const int64_t dim = attn__min(m->dim, first + ATTN__SUM_DIMS * ATTN__W);
    const int R = m->rows == 1 ? 1 : 4;
#if ATTN__BF16
    if (m->pairs) {
        for (int64_t c = first; c < dim; c += ATTN__W)
            for (int r = 0; r < R; r++) /* two of them in the place of one */
                ATTN__(half16)((uint16_t *)(void *)(Q + (c - first) / (2 * ATTN__W) * R * ATTN__W +
                                                    r * ATTN__W) +
                                   (c - first) % (2 * ATTN__W),
                    ATTN__(load)(attn__thin_row(m, r) + c));
        if (R == 1) ATTN__(thin_dots)(m, 1, ATTN__BF16_PAIRS, first, Q);
        else ATTN__(thin_dots)(m, 4, ATTN__BF16_PAIRS, first, Q);
        return;
    }
#endif
    for (int64_t c = first; c < dim; c += ATTN__W)
        for (int r = 0; r < R; r++)
            ATTN__(store)(Q + (c - first) * R + r * ATTN__W,
                ATTN__(load_n)(attn__thin_row(m, r) + c, attn__min(ATTN__W, dim - c)));
    switch (m->dtype) {
#define X(type) \
    case type: \
        if (R == 1) ATTN__(thin_dots)(m, 1, type, first, Q); \
        else ATTN__(thin_dots)(m, 4, type, first, Q); \
        return;
        X(ATTN_F32)
        ATTN__THIN_NARROW(X)
#undef X
    }
}
ATTN__INLINE void ATTN__(thin_dots_of)(const attn__thin *m) {
    for (int64_t e = 0; e < m->dim; e += ATTN__SUM_DIMS * ATTN__W) ATTN__(thin_dots_from)(m, e);
}
/* The rows of m as f32 in dst, which holds n x dim; m reads them there. */
ATTN__NOINLINE void ATTN__(thin_widen)(attn__thin *m, const float *scale, float *dst) {
    for (int64_t j = 0; j < m->n; j++) {
        const int64_t at = attn__thin_at(m, j);
        const char *next = attn__thin_next(m, j);
        for (int64_t c = 0; c < m->dim; c += attn__thin_line(m->dtype))
            ATTN__(thin_fetch)(m, next + attn__thin_bytes(m->dtype, c), m->dtype);
        float *row = dst + j * m->dim;
        const int whole = !ATTN__ONLY_F32 && !(ATTN__OWN & ATTN__OWN_NARROW);
        if (whole) attn__get_values(row, m->dim, m->data, m->dtype, at, m->dim);
        for (int64_t c = 0; c < m->dim && (scale || !whole); c += ATTN__W) {
            const int64_t n = attn__min(m->dim - c, ATTN__W);
            ATTN__V v = whole ? ATTN__(load_n)(row + c, n)
                              : ATTN__(load_some)(m->data, m->dtype, at + c, n);
            if (scale) v = v * ATTN__(set1)(scale[j]);
            ATTN__(store_n)(row + c, v, n);
        }
    }
    m->data = dst;
    m->dtype = ATTN_F32;
    m->at = NULL;
    m->first = 0;
    m->step = m->dim;
    attn__thin_rest(m);
}
/* Whether x[0 .. n) are all 0 or of sizes [least, 2^80]: no product with a code, nor a sum of 2^31 of
 * them, overflows, and what a product with p < 1 loses is less than 2^-126. */
ATTN__INLINE int ATTN__(thin_moderate)(const float *x, int64_t n, float least) {
    const ATTN__V zero = ATTN__(set1)(0), one = ATTN__(set1)(1), low = ATTN__(set1)(least),
                  high = ATTN__(set1)(1.2089258e24f);
    ATTN__V bad = zero;
    for (int64_t i = 0; i < n; i += ATTN__W) {
        const ATTN__V v = ATTN__(load_n)(x + i, attn__min(n - i, ATTN__W)),
                      size = ATTN__(max)(v, zero - v);
        bad = ATTN__(max)(bad, ATTN__(pick)(high, size, one, zero));
        bad = ATTN__(max)(bad, ATTN__(pick)(size, low, ATTN__(pick)(zero, size, one, zero), zero));
    }
    return ATTN__(reduce_max)(bad) == 0;
}
/* A scale that is infinite makes NaN, as its products with the codes of a key do. */
ATTN__INLINE void ATTN__(thin_scale)(float *S, const float *scale, int64_t n) {
    const ATTN__V zero = ATTN__(set1)(0);
    for (int64_t x = 0; x < n; x += ATTN__W) {
        const int64_t m = attn__min(n - x, ATTN__W);
        const ATTN__V by = ATTN__(load)(scale + x);
        ATTN__V scaled = ATTN__(load_n)(S + x, m) * by;
        ATTN__ROUNDED(scaled);
        ATTN__(store_n)(S + x, scaled + zero * by, m);
    }
}
/* Products become scores, and max their maxima, as group_scores leaves them. */
ATTN__NOINLINE void ATTN__(thin_scores)(const attn__group *g, float *max) {
    const int64_t ld = g->u->job->ld, kb = g->b->kb, rows = g->rows;
    ATTN__(no_max)(rows, max);
    for (int64_t r = 0; r < rows; r++) {
        const attn__query q = attn__group_row(g, r);
        float *S = g->t->S + r * ld + g->start, *top = max + r * ATTN__W;
        if (g->u->job->extras) ATTN__(score_row)(&q, S, kb + g->start, g->end - g->start, top);
        else ATTN__(group_clip)(g, r, S, kb + g->start, g->end - g->start, top);
    }
}
/* acc[R][vectors] += P V of keys j .. end - 1, columns c .. c + vectors * W. last: lanes of the last
 * vector. Columns from .. to of the rows to come are fetched. */
ATTN__INLINE void ATTN__(thin_sums)(const attn__thin *m, int R, int vectors, int32_t dtype,
    int64_t j, int64_t end, int64_t c, int64_t last, const float *const *row, int64_t from,
    int64_t to, ATTN__V (*acc)[ATTN__THIN_ALONE]) {
    const int64_t half = attn__max(1, vectors / 2) * ATTN__W,
                  line = attn__max(ATTN__W, attn__thin_line(dtype)), start = j,
                  part = attn__thin_bytes(dtype, to - from);
    /* without gaps: parts of the first columns of all rows, then of the second .. */
    const int dense = m->dense >= end - j && to > from;
    const char *stream = attn__thin_next(m, j);
    if (dense && (m->each || m->next)) stream += from / (to - from) * (end - j) * part;
    const int64_t each = m->each || m->next ? part : 0;
    ATTN__V value[ATTN__THIN_ALONE];
    for (; j < end; j++) {
        const int64_t at = attn__thin_at(m, j) + c;
        const char *next =
            dense ? stream + (j - start) * each : m->next[j] + attn__thin_bytes(dtype, from);
        for (int64_t f = 0; f < to - from; f += half) ATTN__UNROLL
            for (int64_t l = 0; l < half; l += line)
                ATTN__(thin_fetch)(m, next + attn__thin_bytes(dtype, f + l), dtype);
        if (dtype == ATTN_INT16 && !dense && to > from && to >= m->dim)
            ATTN__(thin_fetch_last)(m, m->next[j], dtype);
        const int64_t off = vectors * ATTN__W % 32 ? at & 31 : 0; /* from the block's begin */
        ATTN__UNROLL for (int l = 0; l < vectors; l++) {
            value[l] =
                attn__is_blocks(dtype)
                    ? ATTN__(load_block)((const uint8_t *)m->data + attn__bytes(dtype, at - off),
                          dtype, off + l * ATTN__W)
                    : ATTN__(load_any)(
                          m->data, dtype, at + l * ATTN__W, l + 1 < vectors ? ATTN__W : last);
        }
        ATTN__UNROLL for (int r = 0; r < R; r++) {
            const ATTN__V p = ATTN__(set1)(row[r][j]);
            ATTN__UNROLL for (int l = 0; l < vectors; l++)
                acc[r][l] = ATTN__(fma)(p, value[l], acc[r][l]);
        }
    }
}
/* part[R][c .. c + vectors * W) += P V of keys j .. end - 1, rows r0 .. r0 + R - 1; with the last of
 * the keys O = alpha O + part. */
ATTN__INLINE void ATTN__(thin_panel)(const attn__thin *m, int R, int vectors, int64_t r0, int64_t j,
    int64_t end, int64_t c, int64_t last, float *part) {
    ATTN__V acc[4][ATTN__THIN_ALONE];
    const float *row[4];
    const int64_t from = c + r0 / 2 * (vectors / 2) * ATTN__W,
                  to = c + (r0 + R >= m->rows ? vectors : vectors / 2) * ATTN__W;
    for (int r = 0; r < R; r++) row[r] = attn__thin_row(m, r0 + r);
    ATTN__UNROLL for (int r = 0; r < R; r++) ATTN__UNROLL
        for (int l = 0; l < vectors; l++)
            acc[r][l] = j ? ATTN__(load)(part + (r * vectors + l) * ATTN__W) : ATTN__(set1)(0);
    switch (m->dtype) {
#define X(type) \
    case type: \
        if (type == ATTN_F32 || R == 1 || vectors < ATTN__THIN_PANEL || !ATTN__THIN_COSTLY(type)) \
            ATTN__(thin_sums)(m, R, vectors, type, j, end, c, \
                ATTN__THIN_ENDS(type) ? last : ATTN__W, row, from, to, acc); \
        break;
        X(ATTN_F32)
        ATTN__THIN_NARROW(X)
#undef X
    }
    ATTN__UNROLL for (int r = 0; r < R; r++) ATTN__UNROLL
        for (int l = 0; l < vectors; l++) {
            float *o = m->out + (r0 + r) * m->ldo + c + l * ATTN__W;
            if (end < m->n) {
                ATTN__(store)(part + (r * vectors + l) * ATTN__W, acc[r][l]);
                continue;
            }
            if (r0 + r >= m->rows) continue;
            if (m->alpha)
                acc[r][l] = ATTN__(fma)(ATTN__(set1)(m->alpha[r0 + r]), ATTN__(load)(o), acc[r][l]);
            ATTN__(store)(o, acc[r][l]);
        }
}
/* Panels of `vectors` as long as there are any. A few keys at a time: the second pair of rows finds them
 * in L1, and memory is read in its order. */
ATTN__INLINE int64_t ATTN__(thin_panels)(const attn__thin *m, int R, int vectors, int64_t c,
    float (*part)[2 * ATTN__THIN_PANEL * ATTN__W]) {
    /* where loads of some lanes cost no more, the last vector of the last panel may be a part */
    const int64_t width = vectors * ATTN__W, part_of = ATTN__THIN_MASKED ? ATTN__W - 1 : 0,
                  whole = (m->dim - c + part_of) / width * width,
                  most = ATTN__THIN_PANEL == 8 ? 4096 / attn__thin_bytes(m->dtype, m->dim) : 32,
                  few = m->rows > R       ? attn__clamp(most, 8, 32)
                        : m->dim <= width ? m->n
                                          : 32;
    if (whole <= 0) return c;
    for (int64_t e = c; e < c + whole; e += width)
        for (int64_t j = 0; j < m->n; j += few)
            for (int64_t r = 0; r < m->rows; r += R)
                ATTN__(thin_panel)(m, R, vectors, r, j, attn__min(j + few, m->n), e,
                    part_of ? attn__min(m->dim - e - width + ATTN__W, ATTN__W) : ATTN__W,
                    part[r / R]);
    return c + whole;
}
/* Wide panels for two rows of O at a time; what costs much to widen is widened once for four. So are
 * floats of f32 in vectors of 16, whose half panels are four lines of a row: of narrower rows memory
 * would be read in too small pieces. */
ATTN__NOINLINE void ATTN__(thin_columns)(const attn__thin *m) {
    /* of two rows, half as wide of four, or THIN_ALONE vectors of one */
    float part[2][2 * ATTN__THIN_PANEL * ATTN__W];
    int64_t c = 0;
    if (m->rows == 1) {
        c = ATTN__(thin_panels)(m, 1, ATTN__THIN_ALONE, c, part);
        c = ATTN__(thin_panels)(m, 1, ATTN__THIN_ALONE / 2, c, part);
        c = ATTN__(thin_panels)(m, 1, 2, c, part);
    } else {
        const int whole_lines = ATTN__W >= 16 && m->dtype == ATTN_F32;
        if (!ATTN__THIN_COSTLY(m->dtype) && (m->rows <= 2 || (ATTN__W >= 8 && !whole_lines)))
            c = ATTN__(thin_panels)(m, 2, ATTN__THIN_PANEL, c, part);
        c = ATTN__(thin_panels)(m, 4, ATTN__THIN_PANEL / 2, c, part);
    }
    for (; c < m->dim; c += ATTN__W)
        ATTN__(thin_panel)(m, 4, 1, 0, 0, m->n, c, attn__min(m->dim - c, ATTN__W), part[0]);
}

/* ---- >>int16: rows with a certificate (>>adaptive) ---- */
#if ATTN__ADAPTIVE && (ATTN__OWN & ATTN__OWN_INT16)
/* Two vectors of codes as pairs. */
ATTN__INLINE ATTN__I ATTN__(pair)(ATTN__I a, ATTN__I b) { return (a & 0xffff) + b * 65536; }
/* x in steps: its codes; the squares of x and of what is left join sum[2]. */
ATTN__INLINE ATTN__I ATTN__(code)(ATTN__V x, ATTN__V inverse, ATTN__V *sum) {
    const ATTN__V y = x * inverse;
    const ATTN__I c = ATTN__(nearest)(y);
    const ATTN__V left = ATTN__(fma)(x, inverse, ATTN__(set1)(0) - ATTN__(number)(c));
    sum[0] = ATTN__(fma)(y, y, sum[0]);
    sum[1] = ATTN__(fma)(left, left, sum[1]);
    return c;
}
/* The step for the codes of a row of length `length` and largest element `most`. */
ATTN__INLINE ATTN__V ATTN__(step)(ATTN__V most, ATTN__V length, int64_t dim) {
    /* what rounding adds to the length: half a step an element */
    const float room = ATTN__INT16_NORM - attn__product(0.5f, (float)attn__sqrt((double)dim));
    ATTN__V step =
        ATTN__(max)(ATTN__(set1)(ATTN__INT16_LEAST), most * ATTN__(set1)(1 / ATTN__INT16_MOST));
    return ATTN__(max)(step, length * ATTN__(set1)(1 / room));
}
/* The same for codes of bytes. */
ATTN__INLINE ATTN__V ATTN__(byte_step)(ATTN__V most) {
    return ATTN__(max)(
        ATTN__(set1)(ATTN__INT16_LEAST), most * ATTN__(set1)(1 / (ATTN__BYTE_MOST + 0.01f)));
}
/* Codes of the rows of a unit; with `bytes` those of the filter. One that has none is marked by a
 * FACTOR that is NaN. */
static void ATTN__(int16_q)(
    const attn__adaptive *job, const attn__rows *u, const attn__int16 *t, int bytes) {
    const attn_desc *d = job->d;
    memset(t->Q, 0, (size_t)(job->rows_pad * job->q_pad) * sizeof *t->Q);
    for (int n = 0; n < ATTN__ROW_ARRAYS; n++)
        memset(t->row[n], 0, (size_t)job->rows_pad * sizeof(float));
    for (int64_t r = 0; r < job->rows_pad; r++) t->row[ATTN__ROW_MAX][r] = ATTN__NEG_INF;
    for (int64_t r = 0; r < u->rows; r++) {
        ATTN__V most = ATTN__(set1)(0), sum[2];
        float *x = t->T;
        ATTN__(pack_q)(x, d, &u->s, attn__row_query(u, r), attn__row_head(u, r));
        for (int64_t c = d->head_dim; c < job->q_pad; c++) x[c] = 0;
        const int bad = attn__no_code(x, d->head_dim, 1);
        sum[0] = sum[1] = ATTN__(set1)(0);
        for (int64_t c = 0; c < job->q_pad; c += ATTN__W) {
            const ATTN__V y = ATTN__(load)(x + c);
            most = ATTN__(max)(most, ATTN__(size)(y));
            sum[0] = ATTN__(fma)(y, y, sum[0]);
        }
        const double length = attn__sqrt((double)ATTN__(reduce_add)(sum[0]));
        float part[16];
        const ATTN__V largest = ATTN__(set1)(ATTN__(reduce_max)(most));
        ATTN__(store)(part, bytes
                                ? ATTN__(byte_step)(largest)
                                : ATTN__(step)(largest, ATTN__(set1)((float)length), d->head_dim));
        const ATTN__V inverse = ATTN__(set1)(1 / part[0]);
        sum[0] = sum[1] = ATTN__(set1)(0);
        for (int64_t c = 0; c < job->q_pad; c += ATTN__W)
            ATTN__(store_codes)(
                t->Q + r * job->q_pad + c, ATTN__(code)(ATTN__(load)(x + c), inverse, sum));
        const double size = attn__sqrt((double)ATTN__(reduce_add)(sum[0])),
                     left = attn__sqrt((double)ATTN__(reduce_add)(sum[1])),
                     scale = (double)d->scale * (double)part[0] * 1.0001;
        if (bad) t->row[ATTN__ROW_BAD][r] = attn__float(0x7fc00000u);
        t->row[ATTN__ROW_FACTOR][r] =
            bad && !bytes ? attn__float(0x7fc00000u)
                          : (float)((double)part[0] * (double)d->scale * ATTN__LOG2E);
        t->row[ATTN__ROW_OFF][r] = (float)(scale * (left + attn__product64(size, 4.8e-7)));
        t->row[ATTN__ROW_MOST][r] = (float)(scale * (left + size));
        if (!bytes) continue;
        int16_t *code = t->Q + r * job->q_pad;
        int32_t sum_codes = 0;
        for (int64_t c = 0; c < attn__bytes_pad(d); c++) {
            const int8_t byte = (int8_t)(c < d->head_dim ? code[c] : 0);
            sum_codes += byte;
            memcpy((char *)code + c, &byte, 1);
        }
        t->row[ATTN__ROW_BIAS][r] = (float)((ATTN__BYTE_MOST + 1) * sum_codes);
    }
}
/* Codes of keys [j, j1), at most W of them, into lanes of `packed`, [pairs][tile]; chunk's k. */
ATTN__NOINLINE void ATTN__(int16_keys)(const attn__rows *u, const attn__int16 *t, int64_t j,
    int64_t j1, int64_t kb, int bytes, int32_t *packed, attn__coded_chunk *chunk) {
    const attn_desc *d = u->job->d;
    const int64_t dim = d->head_dim, pad = bytes ? attn__bytes_pad(d) : dim + dim % 2;
    float *x = t->T;
    ATTN__V most, sum[2], zero = ATTN__(set1)(0), bad;
    ATTN__(pack_k)(x, d, &u->s, &d->k, u->kv_head, dim, j, j1);
    for (int64_t c = dim; c < pad; c++) ATTN__(store)(x + c * ATTN__W, zero);
    for (int again = 0;; again = 1) {
        most = sum[0] = bad = zero;
        for (int64_t c = 0; c < dim; c++) {
            const ATTN__V y = ATTN__(load)(x + c * ATTN__W);
            most = ATTN__(max)(most, ATTN__(size)(y));
            sum[0] = ATTN__(fma)(y, y, sum[0]);
            bad = bad + y * zero;
        }
        /* infinity and NaN are in bad; what is left is below LARGE, or looked at */
        if (again || (attn__finite(ATTN__(reduce_add)(bad)) &&
                         ATTN__(reduce_max)(most) <= ATTN__INT16_LARGE))
            break;
        for (int64_t l = 0; l < j1 - j; l++)
            chunk->bad |= t->bad[j + l - kb] |= (unsigned char)attn__no_code(x + l, dim, ATTN__W);
    }
    const ATTN__V step = bytes ? ATTN__(byte_step)(most)
                               : ATTN__(step)(most, ATTN__(root)(sum[0]), dim),
                  inverse = ATTN__(set1)(1) / step;
    sum[0] = sum[1] = zero;
    for (int64_t c = 0; c < pad && bytes; c += 4) {
        ATTN__I four = ATTN__(nearest)(zero);
        for (int n = 3; n >= 0; n--) {
            const ATTN__V y = ATTN__(load)(x + (c + n) * ATTN__W);
            const ATTN__I byte = ATTN__(code)(y, inverse, sum) + (ATTN__BYTE_MOST + 1);
            four =
                n == 3 ? byte - (byte & 128) * 2 : four * 256 + byte; /* the sign of all is its */
        }
        ATTN__(store_pairs)(packed + c / 4 * ATTN__W * ATTN__NB, four);
    }
    for (int64_t c = 0; c < dim && !bytes; c += 2) {
        const ATTN__I a = ATTN__(code)(ATTN__(load)(x + c * ATTN__W), inverse, sum),
                      b = ATTN__(code)(ATTN__(load)(x + (c + 1) * ATTN__W), inverse, sum);
        ATTN__(store_pairs)(packed + c / 2 * ATTN__W * ATTN__NI, ATTN__(pair)(a, b));
    }
    const ATTN__V size = step * ATTN__(root)(sum[0]), left = step * ATTN__(root)(sum[1]);
    ATTN__(store)(t->k_step + (j - kb), step);
    /* 4.8e-7: x * inverse is rounded twice */
    const float k_most = ATTN__(reduce_max)(size) * 1.0001f,
                k_off = ATTN__(fma1)(k_most, 4.8e-7f, ATTN__(reduce_max)(left) * 1.0001f);
    if (k_most > chunk->k_most) chunk->k_most = k_most;
    if (k_off > chunk->k_off) chunk->k_off = k_off;
}
/* Codes of the values of a chunk [j0, j1), in pairs of keys; what the chunk and the columns share. */
ATTN__NOINLINE void ATTN__(int16_values)(const attn__adaptive *job, const attn__rows *u,
    const attn__int16 *t, int64_t j0, int64_t j1, int64_t kb, int bytes, attn__coded_chunk *chunk) {
    const attn_desc *d = job->d;
    const int64_t n = j1 - j0, ld = job->v_pad;
    float *x = t->T, part[16];
    float most = 0;
    for (int64_t r = 0; r < n && d->v_dim < ld; r++)
        for (int64_t c = d->v_dim; c < ld; c++) x[r * ld + c] = 0;
    int bad = ATTN__(pack_v)(x, ld, d, &u->s, &d->v, u->kv_head, d->v_dim, j0, j1);
    if (n % 2) memset(x + n * ld, 0, (size_t)ld * sizeof *x);
    for (;;) {
        most = 0;
        for (int64_t r = 0; r < n; r++) {
            ATTN__V m = ATTN__(set1)(0);
            for (int64_t c = 0; c < ld; c += ATTN__W)
                m = ATTN__(max)(m, ATTN__(size)(ATTN__(load)(x + r * ld + c)));
            const float top = ATTN__(reduce_max)(m);
            t->v_key[j0 - kb + r] = top;
            if (top > most) most = top;
        }
        if (!bad && most <= ATTN__INT16_LARGE) break;
        for (int64_t r = 0; r < n; r++)
            chunk->bad |= t->bad[j0 - kb + r] |= (unsigned char)attn__no_code(x + r * ld, ld, 1);
        bad = 0;
    }
    for (int64_t c = 0; c < ld; c += ATTN__W) {
        ATTN__V top = ATTN__(load)(t->v_top + c), low = ATTN__(load)(t->v_low + c),
                zero = ATTN__(set1)(0), square = zero;
        for (int64_t r = 0; r < n; r++) {
            const ATTN__V y = ATTN__(load)(x + r * ld + c);
            top = ATTN__(max)(top, y);
            low = ATTN__(max)(low, zero - y);
            square = ATTN__(fma)(y, y, square);
        }
        ATTN__(store)(t->v_top + c, top);
        ATTN__(store)(t->v_low + c, low);
        ATTN__(store)(t->v_length + c, ATTN__(load)(t->v_length + c) + square);
    }
    chunk->v_most = most;
    ATTN__(store)(part, ATTN__(max)(ATTN__(set1)(ATTN__INT16_LEAST),
                            ATTN__(set1)(most) * ATTN__(set1)(1 / ATTN__V_MOST)));
    chunk->v_step = part[0];
    chunk->v_off = part[0] * 0.501f; /* half a step, and what x * inverse is rounded by */
    const ATTN__V inverse = ATTN__(set1)(1 / part[0]);
    for (int64_t r = 0; r < n && !bytes; r += 2)
        for (int64_t c = 0; c < ld; c += ATTN__W) {
            const ATTN__I a = ATTN__(nearest)(ATTN__(load)(x + r * ld + c) * inverse),
                          b = ATTN__(nearest)(ATTN__(load)(x + (r + 1) * ld + c) * inverse);
            ATTN__(store_pairs)(t->V + (j0 - kb + r) / 2 * ld + c, ATTN__(pair)(a, b));
        }
}

/* E[n][ld]: what the codes of rows X leave of them, by the steps of the rows. */
static void ATTN__(int16_left)(const float *X, int64_t n, int64_t ld, const float *step, float *E) {
    for (int64_t r = 0; r < n; r++) {
        const ATTN__V s = ATTN__(set1)(step[r]), inverse = ATTN__(set1)(1) / s;
        for (int64_t c = 0; c < ld; c += ATTN__W) {
            const ATTN__V y = ATTN__(load)(X + r * ld + c) * inverse;
            ATTN__(store)(E + r * ld + c, (y - ATTN__(number)(ATTN__(nearest)(y))) * s);
        }
    }
}

/* Columns [first, last) of the scores S[W] of a row join sums[3]: of p = 2^(power (s - maximum)), of
 * p^2, and the maximum, which these are relative to. */
ATTN__NOINLINE void ATTN__(int16_look)(
    const float *S, int64_t first, int64_t last, float power, double *sums) {
    const ATTN__V s = ATTN__(clip)(ATTN__(load)(S), 0, (int32_t)first, (int32_t)last);
    const float here = ATTN__(reduce_max)(s), old = (float)sums[2], top = here > old ? here : old;
    ATTN__V p = ATTN__(exp2)((s - ATTN__(set1)(top)) * ATTN__(set1)(power));
    if (here > old) {
        float less = (old - top) * power, unused = 0;
        ATTN__(exp2_pair)(&less, &unused);
        sums[0] *= (double)less;
        sums[1] *= (double)less * (double)less;
        sums[2] = (double)top;
    }
    sums[0] += (double)ATTN__(reduce_add)(p);
    sums[1] += (double)ATTN__(reduce_add)(p * p);
}

/* ---- C = A B of codes: A[MR][2 steps], pairs broadcast, B[steps][ldb] ---- */
ATTN__ALWAYS void ATTN__(dots)(int NI, const int16_t *A, int64_t lda, const int32_t *B, int64_t ldb,
    int64_t steps, ATTN__I (*acc)[ATTN__NI]) {
    const ATTN__I zero = ATTN__(nearest)(ATTN__(set1)(0));
    ATTN__UNROLL_TILE for (int r = 0; r < ATTN__MR; r++)
        ATTN__UNROLL_TILE for (int v = 0; v < NI; v++) acc[r][v] = zero;
    for (int64_t k = 0; k < steps; k++, B += ldb) {
        ATTN__I b[ATTN__NI];
        ATTN__UNROLL_TILE for (int v = 0; v < NI; v++) b[v] = ATTN__(load_pairs)(B + v * ATTN__W);
        ATTN__UNROLL_TILE for (int r = 0; r < ATTN__MR; r++) {
            const ATTN__I a = ATTN__(pairs)(A + r * lda + 2 * k);
            ATTN__UNROLL_TILE for (int v = 0; v < NI; v++) acc[r][v] =
                ATTN__(dot)(a, b[v], acc[r][v]);
        }
    }
}
/* S[MR][NI * W] = step * (acc[MR][NI] - bias[MR], unless that is NULL), the maxima of its rows joined
 * with max[MR][W] unless it is NULL. */
ATTN__ALWAYS void ATTN__(dots_scores)(int NI, const ATTN__I *acc, const float *bias,
    const float *step, float *S, int64_t lds, float *max) {
    ATTN__UNROLL_TILE for (int r = 0; r < ATTN__MR; r++) {
        ATTN__V m = max ? ATTN__(load)(max + r * ATTN__W) : ATTN__(set1)(0);
        ATTN__UNROLL_TILE for (int v = 0; v < NI; v++) {
            ATTN__V s = ATTN__(number)(acc[r * NI + v]);
            if (bias) s = s - ATTN__(set1)(bias[r]); /* exact: both are below 2^24 */
            s = s * ATTN__(load)(step + v * ATTN__W);
            ATTN__(store)(S + r * lds + v * ATTN__W, s);
            m = ATTN__(max)(m, s);
        }
        if (max) ATTN__(store)(max + r * ATTN__W, m);
    }
}
/* Scores S[MR][tile] of codes, and their maxima. */
ATTN__NOINLINE void ATTN__(int16_qk)(const int16_t *Q, int64_t ldq, const int32_t *K, int64_t pairs,
    const float *step, float *S, int64_t lds, float *max) {
    ATTN__I acc[ATTN__MR][ATTN__NI];
    ATTN__(dots)(ATTN__NI, Q, ldq, K, ATTN__W * ATTN__NI, pairs, acc);
    ATTN__(dots_scores)(ATTN__NI, &acc[0][0], NULL, step, S, lds, max);
}
/* The same of bytes, those of K without a sign, which adds `bias` to a row. */
ATTN__NOINLINE void ATTN__(filter_qk)(const int16_t *Q, int64_t ldq, const int32_t *K,
    int64_t fours, const float *bias, const float *step, float *S, int64_t lds, float *max) {
    const ATTN__I zero = ATTN__(nearest)(ATTN__(set1)(0));
    ATTN__I sum[ATTN__MR][ATTN__NB];
    ATTN__UNROLL_TILE for (int r = 0; r < ATTN__MR; r++)
        ATTN__UNROLL_TILE for (int v = 0; v < ATTN__NB; v++) sum[r][v] = zero;
    for (int64_t k = 0; k < fours; k += 2) {
        ATTN__I part[ATTN__MR][ATTN__NB];
        ATTN__UNROLL_TILE for (int r = 0; r < ATTN__MR; r++)
            ATTN__UNROLL_TILE for (int v = 0; v < ATTN__NB; v++) part[r][v] = zero;
        ATTN__UNROLL_TILE for (int n = 0; n < 2; n++, K += ATTN__W * ATTN__NB) {
            ATTN__I b[ATTN__NB];
            ATTN__UNROLL_TILE for (int v = 0; v < ATTN__NB; v++) b[v] =
                ATTN__(load_pairs)(K + v * ATTN__W);
            ATTN__UNROLL_TILE for (int r = 0; r < ATTN__MR; r++) {
                const ATTN__I a = ATTN__(pairs)(Q + r * ldq + 2 * (k + n));
                ATTN__UNROLL_TILE for (int v = 0; v < ATTN__NB; v++) part[r][v] =
                    ATTN__(dot4)(a, b[v], part[r][v]);
            }
        }
        ATTN__UNROLL_TILE for (int r = 0; r < ATTN__MR; r++) ATTN__UNROLL_TILE for (int v = 0;
            v < ATTN__NB; v++) sum[r][v] = ATTN__(sum4)(part[r][v], sum[r][v]);
    }
    ATTN__(dots_scores)(ATTN__NB, &sum[0][0], bias, step, S, lds, max);
}
/* O[MR][NI * W] = alpha[MR] O + beta[MR] (P V) */
ATTN__ALWAYS void ATTN__(int16_pv)(int NI, const int16_t *P, const int32_t *V, int64_t ldv,
    int64_t steps, float *O, const float *alpha, const float *beta) {
    ATTN__I acc[ATTN__MR][ATTN__NI];
    ATTN__(dots)(NI, P, ATTN__INT16_CHUNK + ATTN__SCORE_PAD, V, ldv, steps, acc);
    ATTN__UNROLL_TILE for (int r = 0; r < ATTN__MR; r++) {
        const ATTN__V a = ATTN__(set1)(alpha[r]), b = ATTN__(set1)(beta[r]);
        ATTN__UNROLL_TILE for (int v = 0; v < NI; v++) {
            float *o = O + r * ldv + v * ATTN__W;
            ATTN__(store)(o, ATTN__(fma)(b, ATTN__(number)(acc[r][v]), a * ATTN__(load)(o)));
        }
    }
}
ATTN__NOINLINE void ATTN__(int16_pv_wide)(const int16_t *P, const int32_t *V, int64_t ldv,
    int64_t steps, float *O, const float *alpha, const float *beta) {
    ATTN__(int16_pv)(ATTN__NI, P, V, ldv, steps, O, alpha, beta);
}
ATTN__NOINLINE void ATTN__(int16_pv_half)(const int16_t *P, const int32_t *V, int64_t ldv,
    int64_t steps, float *O, const float *alpha, const float *beta) {
    ATTN__(int16_pv)(ATTN__NI > 1 ? ATTN__NI / 2 : 1, P, V, ldv, steps, O, alpha, beta);
}

/* Two tiles of rows of a unit, from row0 on, against its keys. */
#define ATTN__GR (2 * ATTN__MR)
/* New maxima from those of a chunk, top[GR]: alpha, what old sums are multiplied by; share, what the
 * chunk's are. top becomes what the chunk's p are relative to. */
ATTN__INLINE void ATTN__(int16_maxima)(
    const attn__int16_group *g, float *top, float *alpha, float *share) {
    float *const *row = g->t->row;
    const ATTN__V zero = ATTN__(set1)(0), least = ATTN__(set1)(-3.4028234e38f);
    for (int64_t n = 0; n < ATTN__GR; n += ATTN__W) {
        float *to = row[ATTN__ROW_MAX] + g->row0 + n;
        const ATTN__V old = ATTN__(load)(to), f = ATTN__(load)(row[ATTN__ROW_FACTOR] + g->row0 + n),
                      here = ATTN__(load)(top + n), m = ATTN__(max)(here, old),
                      from = ATTN__(pick)(m, least, zero, m);
        ATTN__(store_n)(to, m, ATTN__GR - n);
        ATTN__(store)(alpha + n, ATTN__(exp2)((old - from) * f));
        ATTN__(store)(share + n, ATTN__(exp2)((here - from) * f));
        ATTN__(store)(top + n, ATTN__(pick)(here, least, zero, here));
    }
}
/* Codes of the p of columns [c0, c1), relative to top[GR]; sums[GR] of p, of which the largest
 * possible is P_MOST, of their codes, and of what these may be off by; `many`: of its squares and of
 * those of p. */
ATTN__INLINE void ATTN__(int16_softmax)(const attn__int16_group *g, int64_t c0, int64_t c1,
    const float *top, float (*sums)[32], int many) {
    const attn__int16 *t = g->t;
    const int64_t ld = ATTN__INT16_CHUNK + ATTN__SCORE_PAD;
    const float *factor = t->row[ATTN__ROW_FACTOR] + g->row0;
    const ATTN__V power = ATTN__(set1)(ATTN__P_POWER), half = ATTN__(set1)(0.5f);
    float lanes[4][ATTN__GR * ATTN__W];
    for (int64_t r = 0; r < ATTN__GR; r++) {
        /* 0 behind the rows; of NaN, which has no code, alpha and share make the sums NaN */
        const ATTN__V m = ATTN__(set1)(top[r]),
                      f = ATTN__(set1)(attn__finite(factor[r]) && factor[r] > 0 ? factor[r] : 1);
        ATTN__V a = ATTN__(set1)(0), rest = a, squares = a;
        ATTN__I n = ATTN__(nearest)(a);
        for (int64_t c = c0; c < c1; c += ATTN__W) {
            const ATTN__V s = ATTN__(load)(t->S + r * ld + c),
                          p = ATTN__(exp2)(ATTN__(fma)(s - m, f, power));
            const ATTN__I code = ATTN__(nearest)(p);
            ATTN__(store_codes)(t->P + r * ld + c, code);
            a = a + p;
            n = n + code;
            if (many) {
                const ATTN__V left = p - ATTN__(number)(code);
                rest = ATTN__(fma)(left, left, rest);
                squares = ATTN__(fma)(p, p, squares);
            } else rest = rest + ATTN__(pick)(p, half, p, half);
        }
        ATTN__(store)(lanes[0] + r * ATTN__W, a);
        ATTN__(store)(lanes[1] + r * ATTN__W, ATTN__(number)(n)); /* below 2^24 */
        ATTN__(store)(lanes[2] + r * ATTN__W, rest);
        ATTN__(store)(lanes[3] + r * ATTN__W, squares);
    }
    for (int k = 0; k < (many ? 4 : 3); k++) /* up to 16 floats each are written */
        for (int r = 0; r < ATTN__GR; r += ATTN__MR)
            ATTN__(add_rows)(lanes[k] + r * ATTN__W, sums[k] + r);
}
/* The chunk joins the sums of the rows; share becomes what its products of codes are multiplied by.
 * Parameters: those of int16_softmax and int16_maxima. */
ATTN__INLINE void ATTN__(int16_join)(const attn__int16_group *g, const attn__coded_chunk *chunk,
    float (*sums)[32], const float *alpha, float *share, int many) {
    float *const *row = g->t->row;
    const ATTN__V zero = ATTN__(set1)(0), unit = ATTN__(set1)(1 / ATTN__P_MOST);
    const ATTN__V one = ATTN__(set1)(1), infinite = ATTN__(set1)(attn__float(0x7f800000u));
    for (int64_t n = 0; n < ATTN__GR; n += ATTN__W) {
        const int64_t r = g->row0 + n;
        const ATTN__V a = ATTN__(load)(alpha + n), b = ATTN__(load)(share + n) * unit,
                      w = ATTN__(load)(sums[1] + n) * b, p = ATTN__(load)(sums[0] + n) * b;
        /* 2^-16: sums and p are rounded */
        const ATTN__V off = ATTN__(load)(sums[2] + n), rounded = p * ATTN__(set1)(1.6e-5f),
                      rest = many ? rounded : ATTN__(fma)(off, b, rounded);
        const ATTN__V eta =
            ATTN__(fma)(ATTN__(load)(row[ATTN__ROW_OFF] + r), ATTN__(set1)(chunk->k_most),
                ATTN__(load)(row[ATTN__ROW_MOST] + r) * ATTN__(set1)(chunk->k_off));
        /* e^x - 1 <= x + x^2 up to 1 */
        const ATTN__V grows = ATTN__(pick)(eta, one, ATTN__(fma)(eta, eta, eta), infinite);
        /* by the mass before its share: a share of 0 says nothing of scores that are off by more */
        const ATTN__V score = ATTN__(pick)(zero, ATTN__(load)(sums[0] + n), p * grows, zero);
        const ATTN__V joins[] = {w, score, rest, w * ATTN__(set1)(chunk->v_off), p};
        for (int k = 0; k < 5; k++) {
            float *to = row[ATTN__ROW_SUM + k] + r;
            ATTN__(store_n)(to, ATTN__(fma)(ATTN__(load)(to), a, joins[k]), ATTN__GR - n);
        }
        for (int k = 0; k < 2 && many; k++) {
            float *to = row[k ? ATTN__ROW_LEFT : ATTN__ROW_SQUARE] + r;
            const ATTN__V here = k ? off : ATTN__(load)(sums[3] + n);
            ATTN__(store_n)(to, ATTN__(fma)(ATTN__(load)(to) * a, a, here * b * b), ATTN__GR - n);
        }
        ATTN__(store)(share + n, b * ATTN__(set1)(chunk->v_step));
    }
}
/* Scores of columns [c0, c1) of the chunk [j0, j1), K that of its first key; their maxima, top[GR]. */
ATTN__INLINE void ATTN__(int16_scores)(const attn__int16_group *g, int64_t j0, int64_t j1,
    int64_t kb, int64_t c0, int64_t c1, float *top, int bytes) {
    const attn__int16 *t = g->t;
    const int64_t tile = ATTN__W * (bytes ? ATTN__NB : ATTN__NI),
                  pairs = bytes ? attn__bytes_pad(g->job->d) / 4 : (g->job->d->head_dim + 1) / 2,
                  q_pad = g->job->q_pad, ld = ATTN__INT16_CHUNK + ATTN__SCORE_PAD;
    float max[ATTN__GR * ATTN__W];
    ATTN__UNROLL for (int r = 0; r < ATTN__GR; r++)
        ATTN__(store)(max + r * ATTN__W, ATTN__(set1)(ATTN__NEG_INF));
    for (int64_t c = c0; c < c1; c += tile) {
        const int64_t j = j0 + c;
        const int all = g->inner_lo <= j && g->inner_hi >= j + tile && j + tile <= j1;
        for (int64_t r = 0; r < ATTN__GR; r += ATTN__MR) {
            const int64_t row = g->row0 + r;
            const int16_t *Q = t->Q + row * q_pad;
            const int32_t *K = t->K + (j - kb) * pairs;
            float *S = t->S + r * ld + c, *m = all ? max + r * ATTN__W : NULL;
            const float *step = t->k_step + (j - kb);
            if (bytes)
                ATTN__(filter_qk)(Q, q_pad, K, pairs, t->row[ATTN__ROW_BIAS] + row, step, S, ld, m);
            else ATTN__(int16_qk)(Q, q_pad, K, pairs, step, S, ld, m);
        }
        for (int64_t r = 0; r < ATTN__GR && !all; r++)
            ATTN__(clip_row)(
                t->S + r * ld + c, j, tile, g->lo[r], attn__min(g->hi[r], j1), max + r * ATTN__W);
    }
    ATTN__(max_rows)(max, top);
    ATTN__(max_rows)(max + ATTN__MR * ATTN__W, top + ATTN__MR);
}
/* O = alpha O + share (P V), as many keys at a time as int32 can sum. V that of column c0. */
ATTN__INLINE void ATTN__(int16_output)(const attn__int16_group *g, int64_t c0, int64_t c1,
    const int32_t *V, const float *alpha, const float *share) {
    const int64_t ld = g->job->v_pad, lds = ATTN__INT16_CHUNK + ATTN__SCORE_PAD,
                  wide = ATTN__NI * ATTN__W, half = ATTN__NI > 1 ? wide / 2 : wide;
    const float one[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    for (int64_t c = c0, n; c < c1; c += n, V += n / 2 * ld, alpha = one) {
        n = attn__min(ATTN__P_KEYS, c1 - c);
        for (int64_t v = 0; v < ld; v += v + wide <= ld ? wide : half)
            for (int64_t r = 0; r < ATTN__GR; r += ATTN__MR) {
                const int16_t *P = g->t->P + r * lds + c;
                float *O = g->t->O + (g->row0 + r) * ld + v;
                if (v + wide <= ld)
                    ATTN__(int16_pv_wide)(P, V + v, ld, n / 2, O, alpha + r, share + r);
                else ATTN__(int16_pv_half)(P, V + v, ld, n / 2, O, alpha + r, share + r);
            }
    }
}
/* The chunk from key j0 on of the block from kb on, which ends at ke. */
ATTN__NOINLINE void ATTN__(int16_chunk)(
    const attn__int16_group *g, int64_t j0, int64_t kb, int64_t ke) {
    const attn__int16 *t = g->t;
    const attn__coded_chunk *chunk = t->chunk + (j0 - kb) / ATTN__INT16_CHUNK;
    const int64_t tile = ATTN__W * ATTN__NI, j1 = attn__min(j0 + ATTN__INT16_CHUNK, ke),
                  first = attn__max(g->first, j0), last = attn__min(g->last, j1);
    float top[32], alpha[32], share[32], sums[4][32];
    if (last <= first) return;
    const int64_t c0 = (first - j0) / tile * tile,
                  c1 = attn__round_up(last - j0, ATTN__W < 2 ? 2 : ATTN__W);
    ATTN__(int16_scores)(g, j0, j1, kb, c0, c1, top, 0);
    attn__int16_seen(g, chunk, j0, j1, kb, ATTN__ROW_FACTOR);
    ATTN__(int16_maxima)(g, top, alpha, share);
    if (t->spectrum->known) {
        ATTN__(int16_softmax)(g, c0, c1, top, sums, 1);
        ATTN__(int16_join)(g, chunk, sums, alpha, share, 1);
    } else {
        ATTN__(int16_softmax)(g, c0, c1, top, sums, 0);
        ATTN__(int16_join)(g, chunk, sums, alpha, share, 0);
    }
    ATTN__(int16_output)(g, c0, c1, t->V + (j0 - kb + c0) / 2 * g->job->v_pad, alpha, share);
}
/* Parameters: those of int16_chunk. A row's bound of the chunk, and its maximum and sum of the p of
 * codes, which these are off by a factor e^eta at most. */
ATTN__NOINLINE void ATTN__(filter_chunk)(
    const attn__int16_group *g, int64_t j0, int64_t kb, int64_t ke) {
    const attn__int16 *t = g->t;
    const attn__coded_chunk *chunk = t->chunk + (j0 - kb) / ATTN__INT16_CHUNK;
    float *const *row = t->row;
    const int64_t j1 = attn__min(j0 + ATTN__INT16_CHUNK, ke), first = attn__max(g->first, j0),
                  last = attn__min(g->last, j1), ld = ATTN__INT16_CHUNK + ATTN__SCORE_PAD,
                  x = (j0 - t->filter->first) / ATTN__INT16_CHUNK;
    int16_t *bound = t->bound + x * t->filter->ld + g->row0 - t->filter->row0;
    float top[32], at[32], alpha[32], share[32], sum[32], lanes[ATTN__GR * ATTN__W];
    for (int64_t r = 0; r < g->rows; r++) bound[r] = -ATTN__BOUND_MOST;
    if (last <= first) return;
    const int64_t tile = ATTN__W * ATTN__NB, c0 = (first - j0) / tile * tile,
                  c1 = attn__round_up(last - j0, ATTN__W);
    ATTN__(int16_scores)(g, j0, j1, kb, c0, c1, top, 1);
    attn__int16_seen(g, chunk, j0, j1, kb, ATTN__ROW_BAD);
    memcpy(at, top, sizeof at);
    ATTN__(int16_maxima)(g, top, alpha, share);
    int light = 1; /* below 2^-20 of what rows have seen: nobody need know how much */
    for (int64_t r = 0; r < g->rows; r++)
        light &=
            !((row[ATTN__ROW_MAX][g->row0 + r] - at[r]) * row[ATTN__ROW_FACTOR][g->row0 + r] <= 27);
    for (int64_t r = 0; r < ATTN__GR; r++) sum[r] = ATTN__INT16_CHUNK;
    for (int64_t r = 0; r < ATTN__GR && !light; r++) {
        const ATTN__V m = ATTN__(set1)(top[r]),
                      f = ATTN__(set1)(row[ATTN__ROW_FACTOR][g->row0 + r]);
        ATTN__V a = ATTN__(set1)(0);
        for (int64_t c = c0; c < c1; c += ATTN__W)
            a = a + ATTN__(exp2)((ATTN__(load)(t->S + r * ld + c) - m) * f);
        ATTN__(store)(lanes + r * ATTN__W, a);
    }
    for (int r = 0; r < ATTN__GR && !light; r += ATTN__MR)
        ATTN__(add_rows)(lanes + r * ATTN__W, sum + r);
    for (int64_t n = 0; n < ATTN__GR && !light; n += ATTN__W) {
        float *to = row[ATTN__ROW_SUM] + g->row0 + n;
        const ATTN__V old = ATTN__(load)(to) * ATTN__(load)(alpha + n);
        ATTN__(store_n)(
            to, ATTN__(fma)(ATTN__(load)(sum + n), ATTN__(load)(share + n), old), ATTN__GR - n);
    }
    for (int64_t r = 0; r < g->rows; r++) {
        if (!(at[r] > ATTN__NEG_INF)) continue;
        const float factor = row[ATTN__ROW_FACTOR][g->row0 + r],
                    eta = ATTN__(fma1)(row[ATTN__ROW_OFF][g->row0 + r], chunk->k_most,
                        row[ATTN__ROW_MOST][g->row0 + r] * chunk->k_off);
        /* 9: what log64 is below by, and roundings */
        float b = ATTN__(fma1)(64, ATTN__(fma1)(at[r], factor, eta * (float)ATTN__LOG2E),
            (float)(attn__log64(sum[r]) + 9));
        if (!(b < ATTN__BOUND_MOST)) b = ATTN__BOUND_MOST;
        if (b < 1 - ATTN__BOUND_MOST) b = 1 - ATTN__BOUND_MOST;
        bound[r] = (int16_t)b;
    }
}
/* The certificate of row r. */
static float ATTN__(int16_certificate)(
    const attn__adaptive *job, const attn__rows *u, const attn__int16 *t, int64_t r) {
    int64_t lo, hi;
    attn__range(job->d, &u->s, attn__row_query(u, r), &lo, &hi);
    if (hi <= lo) return 0;
    const ATTN__V f = ATTN__(set1)(1 / t->row[ATTN__ROW_SUM][r]);
    ATTN__V range = ATTN__(set1)(0), most = range, spread = range;
    const double keys = t->spectrum->known ? t->spectrum->keys : 0;
    const ATTN__V root = ATTN__(set1)((float)attn__sqrt(keys) * 1.0001f);
    for (int64_t c = 0; c < job->v_pad; c += ATTN__W) {
        const ATTN__V o = ATTN__(load)(t->O + r * job->v_pad + c) * f,
                      top = ATTN__(load)(t->v_top + c), low = ATTN__(load)(t->v_low + c),
                      length = ATTN__(load)(t->v_length + c);
        range = ATTN__(max)(range, ATTN__(max)(top - o, low + o));
        most = ATTN__(max)(most, ATTN__(max)(top, low));
        spread = ATTN__(max)(spread, ATTN__(fma)(root, ATTN__(size)(o), length));
    }
    return attn__certificate(t, r, (double)ATTN__(reduce_max)(range),
        (double)ATTN__(reduce_max)(spread), (double)ATTN__(reduce_max)(most),
        hi / ATTN__INT16_CHUNK - lo / ATTN__INT16_CHUNK + 1);
}
/* The square of the length of x[n]; it becomes 0 behind, up to a whole vector. */
static float ATTN__(square)(float *x, int64_t n) {
    ATTN__V sum = ATTN__(set1)(0);
    for (int64_t c = n; c < attn__round_up(n, ATTN__W); c++) x[c] = 0;
    for (int64_t c = 0; c < n; c += ATTN__W)
        sum = ATTN__(fma)(ATTN__(load)(x + c), ATTN__(load)(x + c), sum);
    return ATTN__(reduce_add)(sum);
}
#endif

#if ATTN__DECODE
/* ---- >>decode: few rows against int16, plane by plane (>>adaptive) ---- */
#if ATTN__OWN & ATTN__OWN_BYTES
/* T, by products of int16 with q's codes. */
ATTN__NOINLINE void ATTN__(decode_dots_int16)(const attn__decode *p, const attn__listed *l) {
    const int64_t dim = p->job->d->head_dim, ahead = ATTN__DECODE_AHEAD;
    const int l2 = attn__fetches_l2();
    const int8_t *data = (const int8_t *)p->job->d->k.data;
    for (int64_t r = 0; r < p->u.rows; r += 4)
        for (int64_t x = 0; x < l->n; x += 4) {
            const int16_t *q = p->code + r * dim;
            const int8_t *key[4];
            const char *next[4];
            ATTN__I acc[16];
            float sum[16];
            ATTN__UNROLL for (int y = 0; y < 4; y++) {
                key[y] = data + attn__listed_at(l, x + y);
                next[y] = attn__listed_next(l, data, x + y, ahead);
            }
            ATTN__UNROLL for (int n = 0; n < 16; n++)
                acc[n] = ATTN__(nearest)(ATTN__(set1)(0));
            for (int64_t c = 0; c < dim; c += 32) {
                ATTN__I k[4];
                ATTN__UNROLL for (int y = 0; y < 4; y++) {
                    k[y] = ATTN__(spread)(key[y] + c);
                    if (!r && c % 64 == 0) attn__fetch_to(l2, next[y] + c);
                }
                ATTN__UNROLL for (int n = 0; n < 4; n++) {
                    ATTN__I part;
                    memcpy(&part, q + n * dim + c, sizeof part);
                    ATTN__UNROLL for (int y = 0; y < 4; y++)
                        acc[4 * n + y] = ATTN__(dot)(part, k[y], acc[4 * n + y]);
                }
            }
            for (int y = 0; y < 4 && !r; y++) /* the last line of a row that begins within one */
                if ((uintptr_t)next[y] & 63) attn__fetch_to(l2, next[y] + dim - 1);
            ATTN__(store)(sum, ATTN__(number)(ATTN__(add_codes)(acc)));
            for (int64_t n = 0; n < attn__min(4, p->u.rows - r); n++)
                memcpy(p->T + (r + n) * ATTN__DECODE_LD + x, sum + 4 * n, 4 * sizeof *sum);
        }
}
/* O[rows][v_dim] += A V, or = where `fresh`, by products of int16 with codes of A: what they are off
 * by, half a step times a byte each and a little for roundings, joins DECODE_VALUE. Returns 0 where
 * that is too much for some row, and nothing is done. */
ATTN__NOINLINE int ATTN__(decode_columns_int16)(
    const attn__decode *p, const attn__listed *l, float *O, int fresh) {
    const int64_t dim = p->job->d->v_dim, ldo = p->job->flash.v_pad,
                  rows = attn__round_up(p->u.rows, 4), n = attn__round_up(l->n, ATTN__W),
                  ahead = ATTN__DECODE_AHEAD;
    const int l2 = attn__fetches_l2();
    const int8_t *data = (const int8_t *)p->job->d->v.data;
    const ATTN__V zero = ATTN__(set1)(0);
    int16_t code[ATTN__DECODE_ROWS * ATTN__DECODE_LD];
    float step[ATTN__DECODE_ROWS];
    for (int64_t r = 0; r < rows; r++) {
        const float *A = p->A + r * ATTN__DECODE_LD;
        int16_t *to = code + r * ATTN__DECODE_LD;
        ATTN__V most = zero;
        step[r] = 0;
        memset(to, 0, (size_t)n * sizeof *to);
        if (r >= p->u.rows || !attn__finite(p->limit[r])) continue;
        for (int64_t x = 0; x < n; x += ATTN__W)
            most = ATTN__(max)(most, ATTN__(size)(ATTN__(load)(A + x)));
        const float top = ATTN__(reduce_max)(most);
        if (top == 0) continue;
        step[r] = top / 32767;
        if (!(step[r] > 1e-30f) || !(step[r] * 66 <= p->share[r])) return 0;
        const ATTN__V inverse = ATTN__(set1)(1 / step[r]);
        for (int64_t x = 0; x < n; x += ATTN__W)
            ATTN__(store_codes)(to + x, ATTN__(nearest)(ATTN__(load)(A + x) * inverse));
    }
    for (int64_t r = 0; r < p->u.rows; r++)
        p->part[p->split].sum[r][ATTN__DECODE_VALUE] +=
            attn__product64(66 * (double)step[r], (double)l->n);
    for (int64_t c = 0; c < dim; c += 64)
        for (int64_t r = 0; r < p->u.rows; r += 4) {
            const int16_t *row = code + r * ATTN__DECODE_LD;
            ATTN__I acc[16];
            ATTN__UNROLL for (int i = 0; i < 16; i++)
                acc[i] = ATTN__(nearest)(zero);
            for (int64_t x = 0; x < l->n; x += 2) {
                const int8_t *a = data + attn__listed_at(l, x) + c,
                             *b = data + attn__listed_at(l, x + 1) + c;
                ATTN__I v[4];
                ATTN__(zip)(ATTN__(spread)(a), ATTN__(spread)(b), v);
                ATTN__(zip)(ATTN__(spread)(a + 32), ATTN__(spread)(b + 32), v + 2);
                for (int64_t y = x; y < x + 2 && !r && c == 0; y++) {
                    const char *next = attn__listed_next(l, data, y, ahead);
                    for (int64_t f = 0; f < dim; f += 64) attn__fetch_to(l2, next + f);
                    /* the last line of a row that begins within one */
                    if ((uintptr_t)next & 63) attn__fetch_to(l2, next + dim - 1);
                }
                ATTN__UNROLL for (int i = 0; i < 4; i++) {
                    const ATTN__I w = ATTN__(pairs)(row + i * ATTN__DECODE_LD + x);
                    ATTN__UNROLL for (int y = 0; y < 4; y++)
                        acc[4 * i + y] = ATTN__(dot)(w, v[y], acc[4 * i + y]);
                }
            }
            for (int64_t i = 0; i < attn__min(4, p->u.rows - r); i++) {
                float *o = O + (r + i) * ldo + c;
                ATTN__V sum[4];
                for (int y = 0; y < 4; y++) sum[y] = ATTN__(number)(acc[4 * i + y]);
                ATTN__(unzip)(sum);
                ATTN__(unzip)(sum + 2);
                for (int y = 0; y < 4; y++)
                    ATTN__(store)(
                        o + y * ATTN__W, ATTN__(fma)(ATTN__(set1)(step[r + i]), sum[y],
                                             fresh ? zero : ATTN__(load)(o + y * ATTN__W)));
            }
        }
    return 1;
}
#endif
/* Phase 1, by rows: q, and what follows from it. off[r] is NaN where products could overflow, or
 * where what scores are multiplied with, or its 256th part, could be flushed to 0: scales of keys may
 * be so large that this counts. */
static void ATTN__(decode_begin)(const attn__decode *p) {
    const attn_desc *d = p->job->d;
    for (int64_t r = 0; r < p->u.rows; r++) {
        float *q = p->Q + r * p->job->flash.q_pad;
        ATTN__V sum = ATTN__(set1)(0), most = sum;
        ATTN__(pack_q)(q, d, &p->u.s, attn__row_query(&p->u, r), attn__row_head(&p->u, r));
        for (int64_t c = 0; c < d->head_dim; c += ATTN__W) {
            const ATTN__V x = ATTN__(size)(ATTN__(load)(q + c));
            sum = sum + x;
            most = ATTN__(max)(most, x);
        }
        const float top = ATTN__(reduce_max)(most), all = ATTN__(reduce_add)(sum);
        const double off = (double)all * (double)d->scale * 0.50005;
        const int fine = ATTN__(thin_moderate)(q, d->head_dim, 0) && attn__finite(all) &&
                         (!(top > 0) || (top > 1e-20f && off > (p->job->codes ? 1e-26 : 1e-35)));
        if (!fine) memset(q, 0, (size_t)d->head_dim * sizeof *q);
        p->unit[r] = (float)((double)d->scale * ATTN__LOG2E);
        p->left[r] = 0;
        if (p->job->codes) p->unit[r] = attn__decode_codes(p, r, fine ? top : 0);
        p->off[r] = fine ? (float)off + p->left[r] : attn__float(0x7fc00000u);
    }
}
static float ATTN__(decode_top)(const float *scale, int64_t n) {
    ATTN__V top = ATTN__(set1)(0);
    for (int64_t x = 0; x < n; x += ATTN__W)
        top = ATTN__(max)(top, ATTN__(size)(ATTN__(load)(scale + x)));
    return ATTN__(reduce_max)(top);
}
/* Phase 2, by splits: the scores by the high bytes of k, as powers of 2; -infinity where a row does
 * not see the key. A row that sees a scale that is not finite has a maximum of NaN. */
static void ATTN__(decode_scores)(const attn__decode *p) {
    const attn_desc *d = p->job->d;
    attn__decode_part *part = p->part + p->split;
    float max[ATTN__DECODE_ROWS * ATTN__W];
    attn__query q[ATTN__DECODE_ROWS];
    attn__listed list[2];
    int64_t j0, j1, n, now = 0;
    attn__decode_range(p, &j0, &j1);
    for (int64_t r = 0; r < p->u.rows; r++) {
        q[r] = attn__query_of(d, &p->u.s, attn__row_head(&p->u, r), attn__row_query(&p->u, r));
        ATTN__(store)(max + r * ATTN__W, ATTN__(set1)(ATTN__NEG_INF));
        part->max[r] = 0;
    }
    attn__decode_list(p, &d->k, 0, j0, 0, &list[0], NULL);
    attn__decode_first(&list[0], d->k.data, d->head_dim);
    for (; j0 < j1; j0 += n, now ^= 1) {
        n = attn__min(ATTN__THIN_CHUNK, j1 - j0);
        attn__decode_list(p, &d->k, 0, j0 + n, 0, &list[now ^ 1], &list[now]);
        const int finite = attn__decode_scales(p, &d->k, j0, n, p->k_scale + j0) &
                           attn__decode_scales(p, &d->v, j0, n, p->v_scale + j0);
        attn__decode_chunk *chunk = p->chunk + j0 / ATTN__THIN_CHUNK;
        chunk->k_top = finite ? ATTN__(decode_top)(p->k_scale + j0, n) : -1;
        chunk->v_top = ATTN__(decode_top)(p->v_scale + j0, n);
        attn__decode_dots(p, &list[now]);
        for (int64_t r = 0; r < p->u.rows; r++) {
            const ATTN__V unit = ATTN__(set1)(p->unit[r]);
            float *S = p->S + r * p->ld + j0;
            for (int64_t x = 0; x < n; x += ATTN__W)
                ATTN__(store)(S + x, ATTN__(load)(p->T + r * ATTN__DECODE_LD + x) *
                                         ATTN__(load)(p->k_scale + j0 + x) * unit);
            ATTN__(clip_row)(
                S, j0, attn__round_up(n, ATTN__W), q[r].lo, q[r].hi, max + r * ATTN__W);
            if (!finite && attn__decode_sees_bad(p, &q[r], j0, n))
                part->max[r] = attn__float(0x7fc00000u);
        }
    }
    for (int64_t r = 0; r < p->u.rows; r++)
        if (attn__finite(part->max[r]))
            part->max[r] = ATTN__(reduce_max)(ATTN__(load)(max + r * ATTN__W));
}

/* What a vector of keys costs a row, and what is read of them for a threshold. */
typedef struct ATTN__(prices) {
    ATTN__V weight, most; /* p'_j, most |v_j| */
    ATTN__V grows, rest;  /* e^eta_j - 1, infinite above eta 1; the same of a corrected score */
    ATTN__V left_out, score,
        value; /* what it adds to leave out the key, its low bytes, the value's */
} ATTN__(prices);
ATTN__INLINE ATTN__(prices) ATTN__(decode_prices)(const attn__decode *p, int64_t r, int64_t j) {
    const ATTN__V zero = ATTN__(set1)(0), one = ATTN__(set1)(1),
                  infinite = ATTN__(set1)(attn__float(0x7f800000u));
    ATTN__(prices) x;
    x.weight = ATTN__(load)(p->P + r * p->ld + j);
    /* the scales of what the row does not see may be NaN */
    const ATTN__V v = ATTN__(pick)(
                      zero, x.weight, ATTN__(size)(ATTN__(load)(p->v_scale + j)), zero),
                  k = ATTN__(pick)(
                      zero, x.weight, ATTN__(size)(ATTN__(load)(p->k_scale + j)), zero),
                  eta = k * ATTN__(set1)(p->off[r]), left = k * ATTN__(set1)(p->left[r]);
    x.most = v * ATTN__(set1)(128.5f);
    ATTN__ROUNDED(x.most);
    /* e^x - 1 <= x + x^2 up to 1 */
    x.grows = ATTN__(pick)(eta, one, ATTN__(fma)(eta, eta, eta), infinite);
    x.rest = ATTN__(pick)(left, one, ATTN__(fma)(left, left, left), infinite);
    ATTN__V lost = x.weight * (x.most + ATTN__(set1)(p->range[r]));
    ATTN__ROUNDED(lost);
    x.score = ATTN__(pick)(zero, x.weight, lost * x.grows, zero);
    x.left_out = lost + x.score;
    x.value = x.weight * v * ATTN__(set1)(0.5f);
    ATTN__ROUNDED(x.value);
    return x;
}
/* What is read of a vector of keys where nothing may cost more than `least`, and what it adds. */
ATTN__INLINE ATTN__V ATTN__(decode_level)(const ATTN__(prices) *x, ATTN__V least, ATTN__V *cost) {
    const ATTN__V zero = ATTN__(set1)(0), low = ATTN__(set1)(ATTN__KEY_LOW),
                  all = ATTN__(set1)(ATTN__VALUE_LOW), high = ATTN__(set1)(ATTN__VALUE_HIGH);
    ATTN__V level = ATTN__(pick)(x->score, least, high, low), left;
    left = ATTN__(pick)(x->score, least, x->score + x->value, x->value);
    level = ATTN__(pick)(x->value, least, level, all);
    left = ATTN__(pick)(x->value, least, left, zero);
    level = ATTN__(pick)(x->left_out, least, zero, level);
    *cost = ATTN__(pick)(x->left_out, least, x->left_out, left);
    return level;
}
/* What row r loses for a threshold, over all keys or, with a step, over every step-th vector of
 * those whose chunk does not tell; its levels join those of the rows before where `join`. */
static double ATTN__(decode_loss)(
    const attn__decode *p, int64_t r, float least, int64_t step, int join) {
    const ATTN__V threshold = ATTN__(set1)(least);
    ATTN__V sum = ATTN__(set1)(0);
    double loss = 0;
    int64_t vectors = 0;
    for (int64_t j0 = p->first, n; j0 < p->last; j0 += n) {
        double all;
        n = attn__min(ATTN__THIN_CHUNK, p->last - j0);
        const int whole = attn__decode_level_of(p, r, j0, least, &all);
        p->chunk[j0 / ATTN__THIN_CHUNK].row[r].gone = whole == ATTN__LEFT_OUT;
        loss += all;
        for (int64_t j = j0; j < j0 + n && whole > 0 && join; j += ATTN__W)
            ATTN__(store)(
                p->level + j, ATTN__(max)(ATTN__(load)(p->level + j), ATTN__(set1)((float)whole)));
        for (int64_t j = j0; j < j0 + n && whole < 0; j += step * ATTN__W) {
            ATTN__V cost;
            const ATTN__(prices) x = ATTN__(decode_prices)(p, r, j);
            const ATTN__V level = ATTN__(decode_level)(&x, threshold, &cost);
            sum = sum + cost;
            if (join) ATTN__(store)(p->level + j, ATTN__(max)(ATTN__(load)(p->level + j), level));
            if (++vectors % 64) continue;
            loss += attn__product64((double)ATTN__(reduce_add)(sum), (double)step);
            sum = ATTN__(set1)(0);
        }
    }
    return loss + attn__product64((double)ATTN__(reduce_add)(sum), (double)step);
}
/* About what row r, whose weights sum up to `all`, loses where all bytes are read, by the codes of q: as
 * the certificate has it, but for o, which is not known: taken for the mean of the largest |v_j| times the
 * root of the sum of squared weights, as where values are of all signs. */
static double ATTN__(decode_rest)(const attn__decode *p, int64_t r, double all) {
    const ATTN__V zero = ATTN__(set1)(0);
    double off = 0, apart = 0, size = 0, squares = 0;
    for (int64_t j0 = p->first; j0 < p->last; j0 += ATTN__THIN_CHUNK) {
        ATTN__V sum[4] = {zero, zero, zero, zero};
        for (int64_t j = j0; j < attn__min(j0 + ATTN__THIN_CHUNK, p->last); j += ATTN__W) {
            const ATTN__(prices) x = ATTN__(decode_prices)(p, r, j);
            const ATTN__V rest = ATTN__(pick)(zero, x.weight, x.weight * x.rest, zero);
            sum[0] = sum[0] + rest;
            sum[1] = sum[1] + ATTN__(pick)(zero, x.weight, rest * x.most, zero);
            sum[2] = ATTN__(fma)(x.weight, x.most, sum[2]);
            sum[3] = ATTN__(fma)(x.weight, x.weight, sum[3]);
        }
        off += (double)ATTN__(reduce_add)(sum[0]);
        apart += (double)ATTN__(reduce_add)(sum[1]);
        size += (double)ATTN__(reduce_add)(sum[2]);
        squares += (double)ATTN__(reduce_add)(sum[3]);
    }
    return apart + off * (size / all) * (attn__sqrt(squares) / all);
}
/* The tolerance of row r: a share of the largest |v| of the key with the largest scale, which is no
 * more than the largest that it sees; range[r]. Its weights are there. */
static double ATTN__(decode_limit)(const attn__decode *p, int64_t r) {
    const attn_desc *d = p->job->d;
    const float *P = p->P + r * p->ld;
    const ATTN__V zero = ATTN__(set1)(0);
    ATTN__V most = zero;
    for (int64_t j = p->first; j < p->last; j += ATTN__W)
        most = ATTN__(max)(most, ATTN__(pick)(zero, ATTN__(load)(P + j),
                                     ATTN__(size)(ATTN__(load)(p->v_scale + j)), zero));
    const float top = ATTN__(reduce_max)(most);
    p->range[r] = top * 128.5f;
    if (d->flags & ATTN_TOLERANCE_ABSOLUTE) return (double)d->tolerance;
    for (int64_t j0 = p->first; j0 < p->last; j0 += ATTN__W) {
        const ATTN__V seen = ATTN__(pick)(
            zero, ATTN__(load)(P + j0), ATTN__(size)(ATTN__(load)(p->v_scale + j0)), zero);
        if (ATTN__(reduce_max)(seen) < top) continue;
        for (int64_t j = j0; j < attn__min(j0 + ATTN__W, p->last); j++)
            if (P[j] > 0 && (p->v_scale[j] >= top || -p->v_scale[j] >= top))
                return (double)d->tolerance * attn__decode_largest(p, j);
    }
    return 0;
}
/* Weights of row r by the scores of the high bytes; their sum. What the row sees is above 0. */
static double ATTN__(decode_weigh)(const attn__decode *p, int64_t r) {
    const ATTN__V least = ATTN__(set1)(-3.4028234e38f), tiny = ATTN__(set1)(1.17549435e-38f),
                  zero = ATTN__(set1)(0), max = ATTN__(set1)(p->max[r]);
    double all = 0;
    for (int64_t j0 = p->first; j0 < p->last; j0 += ATTN__THIN_CHUNK) {
        attn__decode_chunk *chunk = p->chunk + j0 / ATTN__THIN_CHUNK;
        ATTN__V sum = zero, most = zero;
        for (int64_t j = j0; j < attn__min(j0 + ATTN__THIN_CHUNK, p->last); j += ATTN__W) {
            const ATTN__V s = ATTN__(load)(p->S + r * p->ld + j),
                          w = ATTN__(pick)(
                              least, s, ATTN__(max)(tiny, ATTN__(exp2)(s - max)), zero);
            ATTN__(store)(p->P + r * p->ld + j, w);
            sum = sum + w;
            most = ATTN__(max)(most, w);
        }
        chunk->row[r].weight = ATTN__(reduce_add)(sum);
        chunk->row[r].most = ATTN__(reduce_max)(most);
        all += (double)chunk->row[r].weight;
    }
    return all;
}
/* Chunks of which most keys are read are read whole; kept->later. Returns whether less than nine
 * tenths of all bytes are read then: else the rows had better be computed densely. */
static int ATTN__(decode_whole_chunks)(const attn__decode *p) {
    const attn_desc *d = p->job->d;
    const ATTN__V zero = ATTN__(set1)(0), one = ATTN__(set1)(1);
    int64_t bytes = 0;
    for (int64_t j0 = p->first, n; j0 < p->last; j0 += n) {
        float *level = p->level + j0, whole = 0;
        int16_t *count = p->count + j0 / ATTN__THIN_CHUNK * ATTN__VALUE_LOW - 1;
        ATTN__V sum[ATTN__VALUE_LOW];
        n = attn__min(ATTN__THIN_CHUNK, p->last - j0);
        ATTN__UNROLL for (int l = 0; l < ATTN__VALUE_LOW; l++)
            sum[l] = zero;
        for (int64_t x = 0; x < n; x += ATTN__W) {
            const ATTN__V read = ATTN__(load)(level + x);
            ATTN__UNROLL for (int l = 0; l < ATTN__VALUE_LOW; l++)
                sum[l] = sum[l] + ATTN__(pick)(ATTN__(set1)((float)l), read, one, zero);
        }
        for (int l = 1; l <= ATTN__VALUE_LOW; l++) {
            count[l] = (int16_t)ATTN__(reduce_add)(sum[l - 1]);
            if (count[l] * 4 < n * 3) continue;
            whole = (float)l;
            count[l] = (int16_t)n;
        }
        for (int64_t x = 0; x < n && whole > 0; x += ATTN__W)
            ATTN__(store)(level + x, ATTN__(max)(ATTN__(load)(level + x), ATTN__(set1)(whole)));
        bytes += (n + count[ATTN__KEY_LOW]) * d->head_dim +
                 (count[ATTN__VALUE_HIGH] + count[ATTN__VALUE_LOW]) * d->v_dim;
    }
    p->kept->later = bytes > 2 * (p->last - p->first) * d->head_dim;
    return 10 * bytes <= 9 * (p->last - p->first) * 2 * (d->head_dim + d->v_dim);
}

/* x of the keys listed: x itself, or `some` where they are not all; there 0 behind them. */
ATTN__INLINE const float *ATTN__(decode_picked)(
    const attn__listed *l, const float *x, float *some) {
    if (l->whole) return x;
    for (int64_t i = 0; i < l->n; i++) some[i] = x[l->key[i]];
    for (int64_t i = l->n; i < attn__round_up(l->n, ATTN__W); i++) some[i] = 0;
    return some;
}
/* The weights of the keys listed, corrected by the low bytes of k. */
static void ATTN__(decode_correct)(const attn__decode *p, const attn__listed *l, int64_t j0) {
    const ATTN__V least = ATTN__(set1)(-3.4028234e38f), zero = ATTN__(set1)(0);
    float weight[ATTN__DECODE_LD], score[ATTN__DECODE_LD], some[ATTN__DECODE_LD];
    const float *scale = ATTN__(decode_picked)(l, p->k_scale + j0, some);
    for (int64_t r = 0; r < p->u.rows; r++) {
        const float *T = p->T + r * ATTN__DECODE_LD,
                    *S = ATTN__(decode_picked)(l, p->S + r * p->ld + j0, score);
        float *P = p->P + r * p->ld + j0, *to = l->whole ? P : weight;
        const ATTN__V max = ATTN__(set1)(p->max[r]), unit = ATTN__(set1)(p->unit[r] / 256);
        for (int64_t x = 0; x < l->n; x += ATTN__W) {
            const ATTN__V s = ATTN__(load)(S + x),
                          more = ATTN__(load_n)(T + x, l->n - x) * ATTN__(load)(scale + x);
            ATTN__(store)(to + x,
                ATTN__(pick)(least, s, ATTN__(exp2)(ATTN__(fma)(more, unit, s - max)), zero));
        }
        for (int64_t x = 0; x < l->n && !l->whole; x++) P[l->key[x]] = weight[x];
    }
}
/* A[rows][n]: weights of the keys listed times the scales of their values and `unit`. */
static void ATTN__(decode_gather)(
    const attn__decode *p, const attn__listed *l, int64_t j0, float unit) {
    const ATTN__V zero = ATTN__(set1)(0), times = ATTN__(set1)(unit);
    float some[ATTN__DECODE_LD];
    const float *scale = ATTN__(decode_picked)(l, p->v_scale + j0, some);
    for (int64_t r = 0; r < p->u.rows; r++) {
        float *A = p->A + r * ATTN__DECODE_LD;
        const float *P = ATTN__(decode_picked)(l, p->P + r * p->ld + j0, A);
        for (int64_t x = 0; x < l->n; x += ATTN__W) {
            const ATTN__V w = ATTN__(load)(P + x);
            ATTN__(store)(
                A + x, ATTN__(pick)(zero, w, w * (ATTN__(load)(scale + x) * times), zero));
        }
    }
}
/* The sums of row r over the n keys from j0 on. */
static void ATTN__(decode_sums)(
    const attn__decode *p, int64_t r, int64_t j0, int64_t n, double *to) {
    const ATTN__V zero = ATTN__(set1)(0), some = ATTN__(set1)((float)ATTN__VALUE_HIGH - 0.5f),
                  corrected = ATTN__(set1)((float)ATTN__KEY_LOW - 0.5f),
                  whole = ATTN__(set1)((float)ATTN__VALUE_LOW - 0.5f);
    ATTN__V sum[ATTN__DECODE_SUMS];
    if (attn__decode_left_out(p, r, j0, to)) return;
    for (int k = 0; k < ATTN__DECODE_SUMS; k++) sum[k] = zero;
    for (int64_t j = j0; j < j0 + n; j += ATTN__W) {
        const ATTN__(prices) x = ATTN__(decode_prices)(p, r, j);
        const ATTN__V level = ATTN__(load)(p->level + j),
                      skip = ATTN__(pick)(level, some, x.weight, zero),
                      grows = ATTN__(pick)(level, corrected, x.grows, x.rest),
                      off = ATTN__(pick)(zero, x.weight, x.weight * grows, zero);
        sum[ATTN__DECODE_SUM] = sum[ATTN__DECODE_SUM] + (x.weight - skip);
        sum[ATTN__DECODE_SKIP] = sum[ATTN__DECODE_SKIP] + skip;
        sum[ATTN__DECODE_GONE] =
            sum[ATTN__DECODE_GONE] + ATTN__(pick)(level, some, x.weight + off, zero);
        sum[ATTN__DECODE_OFF] = sum[ATTN__DECODE_OFF] + off;
        sum[ATTN__DECODE_FAR] = ATTN__(fma)(off + skip, x.most, sum[ATTN__DECODE_FAR]);
        sum[ATTN__DECODE_VALUE] =
            sum[ATTN__DECODE_VALUE] +
            ATTN__(pick)(level, some, zero, ATTN__(pick)(level, whole, x.value, zero));
    }
    for (int k = 0; k < ATTN__DECODE_SUMS; k++) to[k] += (double)ATTN__(reduce_add)(sum[k]);
}
/* Row r over all splits: O in that of the first; its certificate, from its sums. */
static float ATTN__(decode_certify)(const attn__decode *p, int64_t r, double *sum) {
    const int64_t v_pad = p->job->flash.v_pad;
    float *O = p->O + r * v_pad;
    attn__decode_all_sums(p, r, sum);
    for (int64_t s = 1; s < p->splits; s++) {
        const float *from = O + s * ATTN__DECODE_ROWS * v_pad;
        for (int64_t c = 0; c < v_pad; c += ATTN__W)
            ATTN__(store)(O + c, ATTN__(load)(O + c) + ATTN__(load)(from + c));
    }
    ATTN__V most = ATTN__(set1)(0);
    for (int64_t c = 0; c < v_pad; c += ATTN__W)
        most = ATTN__(max)(most, ATTN__(size)(ATTN__(load)(O + c)));
    const double o = (double)ATTN__(reduce_max)(most) / sum[ATTN__DECODE_SUM] * 1.0001,
                 lost = sum[ATTN__DECODE_OFF] + sum[ATTN__DECODE_SKIP],
                 least = sum[ATTN__DECODE_SUM] - attn__product64(1.001, sum[ATTN__DECODE_OFF]),
                 keys = (double)(p->last - p->first);
    /* weights are by the maximum of the high bytes: where the low ones have moved it far, the least
     * weights and what is flushed to 0 count beside the sum, or 1 over it does not fit f32 */
    if (!(least > 1e-6) || !(sum[ATTN__DECODE_SUM] < 1e18)) return attn__float(0x7f800000u);
    const double bound =
        (sum[ATTN__DECODE_FAR] + attn__product64(lost, o) + sum[ATTN__DECODE_VALUE]) / least;
    /* sums of chunks and splits are rounded; products below 2^-126 are 0 */
    const double rounded = attn__product64((keys / ATTN__THIN_CHUNK / (double)p->splits + 24) *
                                               ((double)p->range[r] + o),
                               4.8e-7) +
                           keys * 1.2e-35 / least;
    return (float)((attn__product64(bound, 1.001) + rounded) * 1.000001);
}
#endif

#if ATTN__BACKWARD
/* ---- >>backward: flash ----
 *   P = exp(S - lse)       D = dout . o - dlse
 *   dV = P^T dO             dP = dO V^T                dS = scale P (dP - D)
 *   dQ = dS K               dK = dS^T Q
 * Five products over blocks of BK keys (outside) and BQ rows (inside), in the tiles above; of few rows
 * those with K and V read them where they lie (>>thin), and bwd_outer writes dK and dV. */

/* lse, delta and f32 copies of some rows of one (sequence, kv head). A row that saw nothing has an lse
 * of +infinity: all its p are 0. */
static void ATTN__(backward_rows)(const attn__bwd *job, const attn__sequence_view *s,
    int64_t kv_head, int64_t row0, int64_t rows) {
    const attn_desc *d = job->d;
    for (int64_t r = row0; r < row0 + rows; r++) {
        int64_t row = attn__bwd_row(job, s, kv_head) + r;
        int64_t i = r / job->group, h = kv_head * job->group + r % job->group,
                at = attn__lse_at(d, s, i, h);
        int64_t o_at = attn__q_at(s, d->o.stride, i, h),
                dout_at = attn__q_at(s, job->g->dout.stride, i, h);
        int64_t q_at = attn__q_at(s, d->q.stride, i, h);
        ATTN__V sum = ATTN__(set1)(0);
        attn__fetch(d->q.data, d->q.dtype, q_at, d->q.stride[1], d->head_dim);
        attn__fetch(d->o.data, d->o.dtype, o_at, d->o.stride[1], d->v_dim);
        attn__fetch(
            job->g->dout.data, job->g->dout.dtype, dout_at, job->g->dout.stride[1], d->v_dim);
        ATTN__V bad = ATTN__(set1)(0);
        float *dout = job->dout + (row - job->first) * job->v_ld;
        ATTN__(widen)(job->q + (row - job->first) * job->q_ld, d->q.data, d->q.dtype, q_at,
            d->head_dim, 1, &bad);
        ATTN__(widen)(dout, job->g->dout.data, job->g->dout.dtype, dout_at, d->v_dim, 1, &bad);
        if (job->bf16_qk)
            attn__pack_q_pairs(attn__bwd_q_pairs(job) + (row - job->first) * (job->q_ld / 2), &d->q,
                q_at, d->head_dim);
        if (job->bf16_dp)
            attn__pack_q_pairs(attn__bwd_dout_pairs(job) + (row - job->first) * (job->v_ld / 2),
                &job->g->dout, dout_at, d->v_dim);
        job->bad[row] = (float)ATTN__(any_bad)(bad);
        for (int64_t c = 0; c < d->v_dim; c += ATTN__W)
            sum = ATTN__(fma)(ATTN__(load_some)(d->o.data, d->o.dtype, o_at + c, d->v_dim - c),
                ATTN__(load)(dout + c), sum);
        job->delta[row] = ATTN__(reduce_add)(sum) - (job->g->dlse ? job->g->dlse[at] : 0);
        job->lse[row] = attn__bits(d->lse[at]) == 0xff800000u ? -ATTN__NEG_INF : d->lse[at];
    }
}

/* S and dP become P (with dropout, for dV) and `scale` times dS over n columns. F, G: dropout factors
 * and softcap slopes, or NULL. natural times S is the score: from it the lse is subtracted before
 * anything is rounded, and divided by 4, for either may be as large as f32 can say; p is at most 1
 * however the lse was rounded. `hidden`: some keys may be, and their p and dS are 0 whatever lse,
 * delta, dP and G are. Ten parameters: every one a value of this row. */
ATTN__INLINE void ATTN__(grad_row)(float *S, float *dP, int64_t n, float natural, float lse,
    float delta, float scale, const float *F, const float *G, int hidden) {
    const ATTN__V minus = ATTN__(set1)(-natural * ATTN__HELD),
                  held = ATTN__(set1)(lse * ATTN__HELD),
                  power = ATTN__(set1)((float)-ATTN__LOG2E / ATTN__HELD),
                  less = ATTN__(set1)(delta), by = ATTN__(set1)(scale), zero = ATTN__(set1)(0),
                  lowest = ATTN__(set1)(-3.4028234e38f);
    for (int64_t c = 0; c < n; c += ATTN__W) {
        const ATTN__V s = ATTN__(load)(S + c),
                      p = ATTN__(exp2)(ATTN__(max)(zero, ATTN__(fma)(s, minus, held)) * power);
        ATTN__V dp = ATTN__(load)(dP + c), f = p;
        if (F) {
            f = p * ATTN__(load)(F + c);
            dp = dp * ATTN__(load)(F + c);
            ATTN__ROUNDED(dp);
        }
        ATTN__(store)(S + c, hidden ? ATTN__(pick)(s, lowest, zero, f) : f);
        dp = p * (dp - less) * by;
        if (G) dp = dp * ATTN__(load)(G + c);
        ATTN__(store)(dP + c, hidden ? ATTN__(pick)(s, lowest, zero, dp) : dp);
    }
}
/* A row of which the lse is NaN spoils every key that it sees, one with a score
 * of -infinity too. */
ATTN__NOINLINE void ATTN__(nan_scores)(const attn__query *q, float *S, int64_t j0, int64_t n) {
    for (int64_t c = 0; c < n; c++)
        S[c] = attn__sees(q, j0 + c) ? attn__float(0x7fc00000u) : ATTN__NEG_INF;
}

/* Groups of up to MR rows of a row block, and the keys that each sees. */

/* Columns [start, end) of row r of the products S and dP of a tile become P and dS. */
ATTN__INLINE void ATTN__(bwd_row)(const attn__bwd *job, const attn__sequence_view *s,
    const attn__bwd_tile *t, const attn__bwd_how *how, int64_t r, int64_t start, int64_t end) {
    const attn_desc *d = job->d;
    const attn__query q = attn__query_within(attn__bwd_query(job, s, t, r), t->kb, t->ke);
    const int64_t n = end - start, key = t->kb + start;
    float *S = t->P + r * t->ld + start, *dP = t->dS + r * t->ld + start, *F = NULL, *G = NULL;
    if (how->cap) {
        G = t->extra + job->BK + start;
        float before;
        const float ratio = attn__cap_ratio(d, &before);
        for (int64_t c = 0; c < n; c += ATTN__W) {
            const ATTN__V x = ATTN__(load)(S + c) * ATTN__(set1)(before);
            ATTN__(store)(G + c, ATTN__(tanh_slope)(x * ATTN__(set1)(ratio)));
        }
    }
    if (job->extras) ATTN__(score_row)(&q, S, key, n, NULL);
    else if (key < q.lo || t->kb + end > q.hi) ATTN__(clip_row)(S, key, n, q.lo, q.hi, NULL);
    if (d->dropout > 0) {
        F = t->extra + start;
        for (int64_t c = 0; c < n; c += ATTN__W) ATTN__(store)(F + c, ATTN__(set1)(1));
        ATTN__(drop_row)(&q, F, key, n);
    }
    float natural = (float)attn__score_unit(d, job->extras).natural, lse = job->lse[how->row + r];
    if (attn__is_nan((double)lse)) {
        ATTN__(nan_scores)(&q, S, key, n);
        natural = 1;
        lse = 0;
    }
    const float delta = job->delta[how->row + r];
    if (!F && !G)
        ATTN__(grad_row)(S, dP, n, natural, lse, delta, how->scale, NULL, NULL, how->hide);
    else ATTN__(grad_row)(S, dP, n, natural, lse, delta, how->scale, F, G, how->hide);
}
/* The same for all columns of a row that sees them all, without extras and dropout: products are
 * times `scale` the scores. */
ATTN__INLINE void ATTN__(bwd_row_whole)(const attn__bwd *job, const attn__bwd_tile *t,
    const attn__bwd_how *how, int64_t r, int64_t width) {
    ATTN__(grad_row)(t->P + r * t->ld, t->dS + r * t->ld, width, job->d->scale,
        job->lse[how->row + r], job->delta[how->row + r], how->scale, NULL, NULL, 0);
}

/* C[columns] += the sum of A[n * step] times row n of B over the n < count that are seen. */
static void ATTN__(add_seen)(const unsigned char *seen, int64_t count, const float *A, int64_t step,
    const float *B, int64_t ldb, float *C, int64_t columns) {
    float sum[ATTN__PANEL];
    for (int64_t c0 = 0, n; c0 < columns; c0 += n) {
        n = attn__min(ATTN__PANEL, columns - c0);
        ATTN__(sum_seen)(seen, count, A, step, B + c0, ldb, sum, n);
        for (int64_t c = 0; c < n; c += ATTN__W)
            ATTN__(store)(C + c0 + c, ATTN__(load)(C + c0 + c) + ATTN__(load)(sum + c));
    }
}

/* out = row, or 0, or added to what is there. */
static void ATTN__(bwd_store)(
    const attn__bwd *job, const attn_out *out, int64_t at, const float *row, int64_t dim) {
    attn__fetch(out->data, out->dtype, at, out->stride[1], dim);
    if (!(job->d->flags & ATTN_ACCUMULATE) && row) {
        ATTN__(narrow)(out->data, out->dtype, at, row, dim, 1);
        return;
    }
    if (!ATTN__ONLY_F32 && row &&
        out->dtype == ATTN_F64) { /* f32 would round what many calls have added */
        double *sum = (double *)out->data + at;
        for (int64_t c = 0; c < dim; c++) sum[c] += (double)(row[c] + 0.0f);
        return;
    }
    ATTN__V zero = ATTN__(set1)(0); /* -0 of the row becomes +0, as in narrow */
    ATTN__ROUNDED(zero);
    for (int64_t c = 0; c < dim; c += ATTN__W) {
        if (row)
            ATTN__(store_some)(out->data, out->dtype, at + c,
                (ATTN__(load)(row + c) + zero) +
                    ATTN__(load_some)(out->data, out->dtype, at + c, dim - c),
                dim - c);
        else if (!(job->d->flags & ATTN_ACCUMULATE))
            ATTN__(store_some)(out->data, out->dtype, at + c, ATTN__(set1)(0), dim - c);
    }
}

/* Rows of dK or dV of few rows: key j is the sum of A[r][j] B[r], as a `row` of f32 first. Eleven
 * parameters: where to, and two matrices. */
static void ATTN__(bwd_outer)(const attn__bwd *job, const attn_out *out, int64_t at, const float *A,
    int64_t lda, const float *B, int64_t ldb, int64_t rows, int64_t keys, int64_t dim, float *row) {
    const int direct =
        out->dtype == ATTN_F32 && !(job->d->flags & ATTN_ACCUMULATE) && dim % ATTN__W == 0;
    ATTN__V zero = ATTN__(set1)(0); /* -0 becomes +0, as in narrow */
    ATTN__ROUNDED(zero);
    for (int64_t j = 0; j < keys; j++, at += out->stride[1]) {
        float *to = direct ? (float *)out->data + at : row;
        if (direct) attn__fetch(out->data, out->dtype, at, out->stride[1], dim);
        for (int64_t c = 0; c < dim; c += ATTN__W) {
            ATTN__V sum = ATTN__(set1)(A[j]) * ATTN__(load)(B + c);
            for (int64_t r = 1; r < rows; r++)
                sum = ATTN__(fma)(ATTN__(set1)(A[r * lda + j]), ATTN__(load)(B + r * ldb + c), sum);
            ATTN__(store)(to + c, sum + zero);
        }
        if (!direct) ATTN__(bwd_store)(job, out, at, row, dim);
    }
}
/* dq = the sum of the partials, in order. */
static void ATTN__(backward_dq)(const attn__bwd *job, const attn__sequence_view *s, int64_t kv_head,
    int64_t row0, int64_t rows) {
    const attn_desc *d = job->d;
    int64_t splits = attn__bwd_splits(s->k_len, d->kv_heads, job->standard);
    for (int64_t r = row0; r < row0 + rows; r++) {
        float *sum = job->dq + (attn__bwd_row(job, s, kv_head) - job->first + r) * job->q_ld;
        for (int64_t p = 1; p < splits; p++)
            for (int64_t c = 0; c < job->q_pad; c += ATTN__W)
                ATTN__(store)(sum + c,
                    ATTN__(load)(sum + c) + ATTN__(load)(sum + p * job->rows_held * job->q_ld + c));
        ATTN__(bwd_store)(job, &job->g->dq,
            attn__q_at(s, job->g->dq.stride, r / job->group, kv_head * job->group + r % job->group),
            r / job->group < s->q_used ? sum : NULL, d->head_dim);
    }
}

/* dbias of rows of heads h0 .. h1 - 1, for keys from `first` on, whose columns begin at out; every
 * (batch entry, head, row) that reads an element adds to it, in order. Then dS times `scale`. */
static void ATTN__(bias_rows)(const attn__bwd *job, const attn__sequence_view *s,
    const attn__bwd_tile *t, int64_t h0, int64_t h1, int64_t first, float *out, float scale,
    int bad) {
    const int64_t *st = job->d->bias.stride;
    const int64_t keys = t->ke - first;
    const ATTN__V unit = ATTN__(set1)(scale);
    for (int64_t r = 0; r < t->rows; r++) {
        const attn__query q = attn__bwd_query(job, s, t, r);
        if (q.h < h0 || q.h >= h1) continue;
        float *to = out + (q.h - h0) * st[1] + q.i * st[2],
              *ds = t->dS + r * t->ld + (first - t->kb);
        const float times = job->d->bias_scale ? job->d->bias_scale[q.h] : 1;
        const ATTN__V by = ATTN__(set1)(times);
        for (int64_t c = 0; c < keys && bad; c++)
            if (!attn__sees(&q, first + c)) ds[c] = 0;
        const int finite = attn__finite(times); /* else 0 times it is NaN */
        for (int64_t c = 0; c < keys && !finite; c++)
            if (attn__sees(&q, first + c)) to[c] += ds[c] * times;
        for (int64_t c = 0; c < keys; c += ATTN__W) {
            const ATTN__V v = ATTN__(load)(ds + c);
            if (finite)
                ATTN__(store_n)(
                    to + c, ATTN__(fma)(v, by, ATTN__(load_n)(to + c, keys - c)), keys - c);
            ATTN__(store)(ds + c, v * unit);
        }
    }
}
#endif

#ifndef ATTN_NO_STANDARD
/* ---- >>matrix: standard, one pass over rows [row0, row0 + rows) of one head ---- */
static void ATTN__(standard_softmax)(const attn__std *job, const attn__sequence_view *s, int64_t h,
    int64_t row0, int64_t rows, float *S, float *stats) {
    const attn_desc *d = job->d;
    int64_t end = attn__round_up(s->k_len, ATTN__W);
    float max[ATTN__W];
    for (int64_t r = 0; r < rows; r++, S += job->ld) {
        const attn__query q = attn__query_of(d, s, h, row0 + r);
        ATTN__(store)(max, ATTN__(set1)(ATTN__NEG_INF));
        for (int64_t c = 0; c < end; c += 1 << 20)
            ATTN__(score_row)(&q, S + c, c, attn__min(1 << 20, end - c), max);
        float top = ATTN__(reduce_max)(ATTN__(load)(max)), k = attn__score_unit(d, 1).exp2,
              base = attn__bits(top) == 0xff800000u ? 0 : attn__product(top, k);
        double sum = 0;
        if (attn__far(base)) {
            ATTN__(far_row)(S, 0, end, top, k);
            k = 1;
            base = 0;
        }
        for (int64_t c = 0; c < end; c += 1024) {
            ATTN__(exp_row)(S, c, attn__min(c + 1024, end), k, base, max);
            sum += (double)ATTN__(reduce_add)(ATTN__(load)(max));
        }
        stats[2 * r] = top;
        stats[2 * r + 1] = (float)sum;
        if (d->dropout > 0) ATTN__(drop_row)(&q, S, 0, end);
    }
}
#endif

#if ATTN__BACKWARD && !defined(ATTN_NO_STANDARD)
/* ---- standard backward: P and dS of all rows and keys in memory, then dK and dV of key blocks,
 * then dQ of row blocks ---- */
#endif

#if ATTN__CONVERT && !ATTN__ONLY_F32
/* ---- dtype conversion of rows of n elements: a loop for each pair of types, which are constants
 * there; the other parameters are rows and their steps ---- */
ATTN__INLINE void ATTN__(convert_as)(void *dst, int32_t to, int64_t dst_at, int64_t dst_step,
    const void *src, int32_t from, int64_t src_at, int64_t src_step, int64_t rows, int64_t n) {
    for (int64_t r = 0; r < rows; r++) {
        int64_t out = dst_at + r * dst_step, in = src_at + r * src_step;
        for (int64_t c = 0; c < n; c += ATTN__W)
            ATTN__(store_any)(dst, to, out + c, ATTN__(load_any)(src, from, in + c, n - c), n - c);
    }
}
static void ATTN__(convert_rows)(const attn_out *dst, int64_t dst_at, int64_t dst_step,
    const attn_in *src, int64_t src_at, int64_t src_step, int64_t rows, int64_t n) {
#define ATTN__AS(to, from) \
    ATTN__(convert_as)(dst->data, to, dst_at, dst_step, src->data, from, src_at, src_step, rows, n)
    if (src->dtype == ATTN_F32 && dst->dtype == ATTN_F16) ATTN__AS(ATTN_F16, ATTN_F32);
    else if (src->dtype == ATTN_F32 && dst->dtype == ATTN_BF16) ATTN__AS(ATTN_BF16, ATTN_F32);
    else if (src->dtype == ATTN_F16 && dst->dtype == ATTN_F32) ATTN__AS(ATTN_F32, ATTN_F16);
    else if (src->dtype == ATTN_BF16 && dst->dtype == ATTN_F32) ATTN__AS(ATTN_F32, ATTN_BF16);
    else if (src->dtype == ATTN_F16 && dst->dtype == ATTN_BF16) ATTN__AS(ATTN_BF16, ATTN_F16);
    else if (src->dtype == ATTN_BF16 && dst->dtype == ATTN_F16) ATTN__AS(ATTN_F16, ATTN_BF16);
    else
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < n; c += ATTN__W)
                ATTN__(store_some)(dst->data, dst->dtype, dst_at + r * dst_step + c,
                    ATTN__(load_some)(src->data, src->dtype, src_at + r * src_step + c, n - c),
                    n - c);
#undef ATTN__AS
}
#endif

#ifndef ATTN_NO_TIMING
/* ---- for the measured peak and bandwidth ---- */
static float ATTN__(fma_chain)(
    int64_t n) { /* as many chains as a tile has: they hide the latency */
    const ATTN__V a = ATTN__(set1)(0.999f), b = ATTN__(set1)(0.001f);
    ATTN__V acc[ATTN__MR][ATTN__NV];
    /* from 2 on: 1 stays 1, and a compiler that knows leaves that chain out */
    ATTN__UNROLL for (int r = 0; r < ATTN__MR; r++) ATTN__UNROLL
        for (int v = 0; v < ATTN__NV; v++) acc[r][v] = ATTN__(set1)((float)(r * ATTN__NV + v + 2));
    for (int64_t k = 0; k < n; k++) {
        ATTN__UNROLL for (int r = 0; r < ATTN__MR; r++) ATTN__UNROLL
            for (int v = 0; v < ATTN__NV; v++) acc[r][v] = ATTN__(fma_step)(acc[r][v], a, b);
    }
    ATTN__V sum = acc[0][0];
    ATTN__UNROLL for (int r = 0; r < ATTN__MR; r++) ATTN__UNROLL
        for (int v = r == 0; v < ATTN__NV; v++) sum = sum + acc[r][v];
    return ATTN__(reduce_add)(sum);
}
static float ATTN__(read)(const float *p, int64_t n) { /* n a multiple of 8 W */
    ATTN__V acc[8];
    ATTN__UNROLL for (int v = 0; v < 8; v++)
        acc[v] = ATTN__(set1)(0);
    for (int64_t c = 0; c < n; c += 8 * ATTN__W) {
        ATTN__UNROLL for (int v = 0; v < 8; v++)
            acc[v] = acc[v] + ATTN__(load)(p + c + v * ATTN__W);
    }
    ATTN__UNROLL for (int v = 1; v < 8; v++)
        acc[0] = acc[0] + acc[v];
    return ATTN__(reduce_add)(acc[0]);
}
#endif

/* What a small machine goes without. */
#define ATTN__LARGE(name) (ATTN__SMALL ? NULL : ATTN__(name))
static const attn__kernels ATTN__(table) = {
    ATTN__STRING(ATTN__KERNEL),
    ATTN__W,
    ATTN__MR,
    ATTN__NV,
    ATTN__THIN_DIMS,
    &ATTN__(mm_table)[0][0],
#if ATTN__BF16
    &ATTN__(mm_bf16_table)[0][0],
#else
    NULL,
#endif
    ATTN__LARGE(tile_dots_long),
    ATTN__(mm_columns),
    ATTN__(pack_k),
    ATTN__(pack_single_k),
    ATTN__(pack_v),
    ATTN__(pack_q),
#if ATTN__BF16
    ATTN__(pack_k_pairs),
    ATTN__(pack_single_pairs),
    ATTN__(pack_v_pairs),
    ATTN__(pairs_of_row),
    ATTN__(largest_v),
#else
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
#endif
    ATTN__(rows_bad),
    ATTN__LARGE(bias_hides),
    ATTN__(seen_row),
    ATTN__(finish),
    ATTN__(fma1),
    ATTN__(exp2_pair),
    ATTN__(join),
    ATTN__(group_scores),
    ATTN__(group_softmax),
    ATTN__LARGE(thin_moderate),
    ATTN__LARGE(thin_scale),
    ATTN__LARGE(thin_widen),
    ATTN__LARGE(thin_dots_of),
    ATTN__LARGE(thin_scores),
    ATTN__LARGE(thin_columns),
#if ATTN__BACKWARD
    ATTN__(backward_rows),
    ATTN__(bwd_row),
    ATTN__(bwd_row_whole),
    ATTN__(add_seen),
    ATTN__(bwd_store),
    ATTN__LARGE(bwd_outer),
    ATTN__(backward_dq),
    ATTN__(bias_rows),
#else
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
#endif
#ifndef ATTN_NO_STANDARD
    ATTN__(standard_softmax),
#else
    NULL,
#endif
#if ATTN__CONVERT && !ATTN__ONLY_F32
    ATTN__(convert_rows),
#else
    NULL,
#endif
    ATTN__(narrow),
#if ATTN__ADAPTIVE && (ATTN__OWN & ATTN__OWN_INT16)
    ATTN__(int16_q),
    ATTN__(int16_keys),
    ATTN__(int16_values),
    ATTN__(int16_chunk),
    ATTN__(filter_chunk),
    ATTN__(int16_certificate),
    ATTN__(square),
    ATTN__(int16_left),
    ATTN__(int16_look),
#else
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
#endif
#if ATTN__DECODE
    ATTN__(decode_begin),
#if ATTN__OWN & ATTN__OWN_BYTES
    ATTN__(decode_dots_int16),
    ATTN__(decode_columns_int16),
#else
    NULL,
    NULL,
#endif
    ATTN__(decode_scores),
    ATTN__(decode_weigh),
    ATTN__(decode_limit),
    ATTN__(decode_loss),
    ATTN__(decode_rest),
    ATTN__(decode_whole_chunks),
    ATTN__(decode_correct),
    ATTN__(decode_gather),
    ATTN__(decode_sums),
    ATTN__(decode_certify),
#else
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
#endif
#ifndef ATTN_NO_TIMING
    ATTN__(fma_chain),
    ATTN__(read),
#endif
};
#undef ATTN__LARGE
#endif /* ATTN__KERNEL */

/* MIT License. Copyright (c) 2026 the attn.h authors. Permission is hereby granted, free of
 * charge, to any person obtaining a copy of this software and associated documentation files
 * (the "Software"), to deal in the Software without restriction, including without limitation
 * the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of
 * the Software, and to permit persons to whom the Software is furnished to do so, subject to the
 * following conditions: The above copyright notice and this permission notice shall be included
 * in all copies or substantial portions of the Software. THE SOFTWARE IS PROVIDED "AS IS",
 * WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES
 * OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL
 * THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER
 * IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE
 * SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE. */
