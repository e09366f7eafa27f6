/* impl.c - the implementation of attn.h as one object, with what the tests need from its inside: an allocator that counts and
 * fails, the sums of the tolerance rule, the library's own Philox. */
#include <stddef.h>

void *unit_malloc(size_t size);
void unit_free(void *p);
#define ATTN_MALLOC unit_malloc
#define ATTN_FREE unit_free
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <stdlib.h>

/* unit_malloc: allocations alive, made so far, and the number of the one that fails (0: none). Single-threaded tests set it. */
int64_t unit_alive, unit_made, unit_fail_at;

void *unit_malloc(size_t size)
{
    int64_t n = __atomic_add_fetch(&unit_made, 1, __ATOMIC_RELAXED);
    void *p = n == unit_fail_at ? NULL : malloc(size ? size : 1);
    if (p) memset(p, 0xff, size);       /* NaN in every format: nothing may be read before it is written */
    if (p) __atomic_add_fetch(&unit_alive, 1, __ATOMIC_RELAXED);
    return p;
}

void unit_free(void *p)
{
    if (p) __atomic_sub_fetch(&unit_alive, 1, __ATOMIC_RELAXED);
    free(p);
}

attn_status unit_bounds(const attn_desc *d, double *o, double *pv, double *lse);
attn_status unit_bounds(const attn_desc *d, double *o, double *pv, double *lse)
{
    attn__bounds b;
    b.o = o;
    b.pv = pv;
    b.lse = lse;
    return attn__reference_bounds(d, &b);
}

/* Whether certificates of int16 are always bounded by singular values too. */
void unit_spectrum(int always);
void unit_spectrum(int always) { attn__tuning.spectrum = always; }
/* Whether keys are left out where that does not pay, too. */
void unit_filter(int always);
void unit_filter(int always) { attn__tuning.filter = always; }
/* As on a processor whose L2 cache has so many bytes, from which the sizes of tiles follow; 0: its own. While no call runs. */
void unit_l2(int64_t bytes);
void unit_l2(int64_t bytes)
{
    static int64_t own;
    if (!own) own = attn__machine()->l2;
    attn__machine_known.l2 = bytes ? bytes : own;
}

/* As on a processor that writes large copies past its caches, whether it is one or not; 0: as it is. While no call runs. */
void unit_stream(int always);
void unit_stream(int always)
{
    static uint32_t own;
    if (!own) own = attn__machine()->has | 1u << 31;
    attn__machine_known.has = (own & ~(1u << 31)) | (always ? ATTN__CPU_STREAM : 0);
}

/* What the largest eigenvalue of X^T X is at most; X[rows][n], n a multiple of 16; room[2][n][n]. */
double unit_eigenvalue(const float *X, int64_t rows, int64_t n, float *room);
#if ATTN__ADAPTIVE
double unit_eigenvalue(const float *X, int64_t rows, int64_t n, float *room)
{
    const uint64_t fp = attn__fp_enter(1);      /* as in a call: denormals are 0 */
    memset(room, 0, (size_t)(n * n) * sizeof *room);
    attn__gram(X, rows, n, room);
    const double most = attn__eigenvalue(room, n, room + n * n);
    attn__fp_leave(fp);
    return most;
}
#endif

/* left[heads][q_len][kv_len] of the calls on one thread that follow, of one sequence each: which keys a row leaves out, where it is decoded
 * from int16. NULL: no more. */
void unit_left_out(unsigned char *left);
#if ATTN__DECODE
static unsigned char *unit_left;
static float (*unit_certify)(const attn__decode *p, int64_t r, double *sum);
static float unit_certify_too(const attn__decode *p, int64_t r, double *sum)
{
    const attn_desc *d = p->job->d;
    unsigned char *left = unit_left + (attn__row_head(&p->u, r) * d->q_len + attn__row_query(&p->u, r)) * d->kv_len;
    for (int64_t j = p->first; j < p->last; j++) left[j] = p->level[j] < (float)ATTN__VALUE_HIGH;
    return unit_certify(p, r, sum);
}
void unit_left_out(unsigned char *left)
{
    static attn__kernels kernels;
    static const attn__kernels *own;
    if (!own) own = attn__machine()->isa, kernels = *own, unit_certify = own->decode_certify, kernels.decode_certify = unit_certify_too;
    unit_left = left;
    attn__machine_known.isa = left ? &kernels : own;
}
#else
void unit_left_out(unsigned char *left) { (void)left; }
#endif

void unit_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4]);
void unit_philox(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4]) { attn__philox(ctr, key, out); }
