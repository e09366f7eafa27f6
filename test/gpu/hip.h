/* hip.h - what the GPU tests share: HIP's calls counted and made to fail (hip_wrap.c), and a proof_case placed in device memory.
 *
 * The programs are linked against the simulator in test/hipsim or against ROCm, the sources are the same. */
#ifndef TEST_HIP_H
#define TEST_HIP_H
#include <hip/hip_runtime_api.h>
#include "proof.h"

/* From hip_wrap.c, which stands between every caller in the program and the HIP runtime. */
extern int64_t hip_alive;                                /* blocks, streams and events alive */
extern int64_t hip_calls;                                /* calls made so far */
extern int hip_capturing;                                 /* the calls of a device stream go into a graph: hip_wrap.c */
extern int64_t hip_refused;                              /* that none can hold */
extern int hip_unordered;                                /* and whatever allocates in stream order, or waits for an event, fails */
extern int hip_captured_elsewhere;                       /* another thread captures a stream: what spoils that is refused */
extern int64_t hip_ahead;                                /* the most copies in streams at once that nothing waited for */
extern uint64_t hip_launched;
extern const void *hip_dry;                              /* launches are looked at and not made, and every address is taken for this one */
extern uint64_t hip_threads;                             /* the most of a launch along x */
extern int64_t hip_allocations;                          /* of them, those that allocate memory */
extern int64_t hip_fail_at;                              /* the number of the call that fails, 0: none */
extern const char *hip_fail_function;                    /* every call of this function fails, "": of none */
extern int hip_fail_error;                               /* with this hipError_t */
extern int hip_devices, hip_memory_device;               /* devices to report, -1: the truth; whose all memory is then */

SHARED void hip_must(hipError_t e, const char *what) {
    if (e == hipSuccess) return;
    fprintf(stderr, "%s: %s\n", what, hipGetErrorString(e));
    abort();
}
/* A block of device memory that ends at the exact byte, with a copy of `from` in it. */
SHARED void *hip_copy_in(const void *from, size_t bytes) {
    void *p = NULL;
    hip_must(hipMalloc(&p, bytes ? bytes : 1), "hipMalloc");
    if (bytes) hip_must(hipMemcpy(p, from, bytes, hipMemcpyHostToDevice), "hipMemcpy");
    return p;
}

/* A case in device memory: `d` and `g` are its description with every pointer moved. HIP_BACKWARD: flags and workspace are a backward's. */
enum { HIP_SEQ_HOST = 1, HIP_STREAM = 2, HIP_WORKSPACE = 4, HIP_BACKWARD = 8 };
typedef struct hip_place {
    attn_desc d;
    attn_grad g;
    void *block[40], *workspace;
    hipStream_t stream;
} hip_place;

/* the same place in the device's copy of its buffer */
SHARED void *hip_moved(const proof_case *c, const hip_place *p, const void *x) {
    const char *at = (const char *)x;
    if (!at) return NULL;
    for (int i = 0; i < c->buffers; i++)
        if (at == c->buffer[i].mem || (at > c->buffer[i].mem && at < c->buffer[i].mem + c->buffer[i].bytes))
            return (char *)p->block[i] + (at - c->buffer[i].mem);
    fprintf(stderr, "hip.h: a pointer of the description lies in no buffer of the case\n");
    abort();
}
SHARED void hip_place_free(const proof_case *c, hip_place *p) {
    for (int i = 0; i < c->buffers; i++) hip_must(hipFree(p->block[i]), "hipFree");
    if (p->workspace) hip_must(hipFree(p->workspace), "hipFree");
    if (p->stream) hip_must(hipStreamDestroy(p->stream), "hipStreamDestroy");
    memset(p, 0, sizeof *p);
}
SHARED void hip_place_make(const proof_case *c, hip_place *p, int how) {
    attn_desc *d = &p->d;
    memset(p, 0, sizeof *p);
    for (int i = 0; i < c->buffers; i++) p->block[i] = hip_copy_in(c->buffer[i].mem, c->buffer[i].bytes);
    *d = proof_desc(c, how & HIP_BACKWARD);
    d->backend = "hip";
    d->flags |= ATTN_DEVICE;
    d->q_len = c->d.q_len, d->kv_len = c->d.kv_len;       /* lengths in device memory: nobody reads the longest */
    attn_append *a = &d->append;
    attn_in *in[] = {&d->q, &d->k, &d->v, &d->bias, &d->mask, &a->k, &a->v};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++) in[i]->data = hip_moved(c, p, in[i]->data);
    a->k_cache = hip_moved(c, p, a->k_cache), a->v_cache = hip_moved(c, p, a->v_cache);
    const float **tables[] = {&d->k.scale, &d->v.scale, &a->rotary_cos, &a->rotary_sin};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) *tables[i] = (const float *)hip_moved(c, p, *tables[i]);
    a->k_scale = (float *)hip_moved(c, p, a->k_scale), a->v_scale = (float *)hip_moved(c, p, a->v_scale);
    d->o.data = hip_moved(c, p, d->o.data);
    d->lse = (float *)hip_moved(c, p, d->lse);
    d->alibi = (const float *)hip_moved(c, p, d->alibi);
    d->sink = (const float *)hip_moved(c, p, d->sink);
    d->bias_scale = (const float *)hip_moved(c, p, d->bias_scale);
    p->g = c->g;
    p->g.dout.data = hip_moved(c, p, c->g.dout.data);
    p->g.dlse = (const float *)hip_moved(c, p, c->g.dlse);
    attn_out *out[] = {&p->g.dq, &p->g.dk, &p->g.dv};
    for (size_t i = 0; i < sizeof out / sizeof *out; i++) out[i]->data = hip_moved(c, p, out[i]->data);
    p->g.dbias = (float *)hip_moved(c, p, c->g.dbias);
    p->g.dsink = (float *)hip_moved(c, p, c->g.dsink);
    if (how & HIP_SEQ_HOST) d->flags |= ATTN_SEQ_HOST;
    else {
        const int32_t **seq[] = {&d->seq.cu_q, &d->seq.cu_k, &d->seq.used_q, &d->seq.used_k, &d->seq.start_k, &d->seq.slot, &d->seq.block_table, &a->cu};
        for (size_t i = 0; i < sizeof seq / sizeof *seq; i++) *seq[i] = (const int32_t *)hip_moved(c, p, *seq[i]);
    }
    if (how & HIP_STREAM) {
        hip_must(hipStreamCreate(&p->stream), "hipStreamCreate");
        d->stream = p->stream;
    }
    if (how & HIP_WORKSPACE) {
        attn_plan plan;
        if (attn_query(d, how & HIP_BACKWARD ? &p->g : NULL, &plan) || !plan.workspace_size) return;
        hip_must(hipMalloc(&p->workspace, plan.workspace_size), "hipMalloc");
        d->workspace = p->workspace, d->workspace_size = plan.workspace_size;
    }
}
/* Waits for the call and copies everything back over the case's buffers: proof_check finds an input that was written, too. */
SHARED void hip_place_fetch(const proof_case *c, const hip_place *p) {
    hip_must(hipStreamSynchronize(p->stream), "hipStreamSynchronize");
    for (int i = 0; i < c->buffers; i++)
        if (c->buffer[i].bytes) hip_must(hipMemcpy(c->buffer[i].mem, p->block[i], c->buffer[i].bytes, hipMemcpyDeviceToHost), "hipMemcpy");
}

/* What backend "hip" does not take, by feature. */
SHARED uint64_t hip_outside(int backward) { return PROOF_F64 | PROOF_INT16 | PROOF_BLOCKS | (backward ? PROOF_MIXED | PROOF_DOUT64 : 0); }
/* Whether q, k and v differ in type, q in f32 where it is rotated: then they are laid out as f32. */
SHARED int hip_mixed(const attn_desc *d) {
    const int32_t q = d->append.rotary_cos ? ATTN_F32 : d->q.dtype;
    return q != d->k.dtype || q != d->v.dtype;
}
/* The unit of P in the tolerance rule. */
SHARED double hip_p_unit(const attn_desc *d) {
    return hip_mixed(d) ? 0 : d->q.dtype == ATTN_F16 ? 0x1p-11 : d->q.dtype == ATTN_BF16 ? 0x1p-8 : 0;
}
/* The same of a backward, which says by its name whether it runs on a matrix unit; and whether it should. Whatever backend the
 * description names by now: that of the answer, for one. */
SHARED double hip_grad_unit(const attn_desc *d, const attn_grad *g) {
    attn_plan plan;
    attn_desc asked = *d;
    asked.backend = "hip";
    return attn_query(&asked, g, &plan) || strncmp(plan.kernel, "flash_", 6) ? 0 : d->q.dtype == ATTN_F16 ? 0x1p-11 : 0x1p-8;
}
/* The most dims that kernels of tiles have. HIP_DIMS says which were built (hip.sh): d64 those of 64 and 256 dims, d128 those of 32 and 128, nothing: all. */
SHARED int64_t hip_most_dims(void) {
    const char *dims = getenv("HIP_DIMS");
    return dims && !strcmp(dims, "d128") ? 128 : 256;
}
SHARED int hip_has_flash_grad(const attn_desc *d, const attn_grad *g, const char *isa) {
    const int64_t most = hip_most_dims();
    return (d->q.dtype == ATTN_BF16 || (d->q.dtype == ATTN_F16 && !strstr(isa, "gfx90a"))) && g->dout.dtype == d->q.dtype &&
           d->head_dim <= most && (d->v_dim ? d->v_dim : d->head_dim) <= most;
}
/* Whether the gradients that no matrix unit of 16 bits computes have tiles of f32. HIP_TYPE: those of f32 are built with f16 (hip_rows.py); HIP_EMULATED: NVIDIA
 * has none. */
SHARED int hip_has_f32_grad(const attn_desc *d) {
    const char *dims = getenv("HIP_DIMS"), *type = getenv("HIP_TYPE");
    const int64_t most = dims && !strcmp(dims, "d64") ? 64 : 128;
    return !getenv("HIP_EMULATED") && !(type && !strcmp(type, "bf16")) && d->head_dim <= most && (d->v_dim ? d->v_dim : d->head_dim) <= most;
}
#endif
