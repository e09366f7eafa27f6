/* hip_torch.c - attn.h and attn_hip.c as a library that hip_torch.py calls beside PyTorch: tensors [batch, tokens, heads, head_dim] one after another in
 * device memory, on a stream of the caller's. */
#include "attn.h"
#include <stdio.h>
#include <string.h>

/* sizes: batch, q_len, kv_len, heads, kv_heads, head_dim. tensors: q, k, v, o, lse, dout, dq, dk, dv, used_k; those of the gradients are NULL
 * forward, used_k, of int32, where all keys are used. */
typedef struct problem {
    attn_desc d;
    attn_grad g;
    int backward;
    char message[200];
} problem;

static void describe(problem *p, const int64_t size[6], int32_t dtype, int causal, void *const tensor[10], void *workspace, size_t bytes, void *stream) {
    memset(p, 0, sizeof *p);
    attn_desc *d = &p->d;
    d->batch = size[0], d->q_len = size[1], d->kv_len = size[2], d->heads = size[3], d->kv_heads = size[4], d->head_dim = size[5];
    d->flags = ATTN_DEVICE | (causal ? ATTN_CAUSAL : 0), d->backend = "hip", d->stream = stream;
    d->q.data = tensor[0], d->k.data = tensor[1], d->v.data = tensor[2], d->o.data = tensor[3], d->lse = (float *)tensor[4];
    d->q.dtype = d->k.dtype = d->v.dtype = d->o.dtype = p->g.dout.dtype = p->g.dq.dtype = p->g.dk.dtype = p->g.dv.dtype = dtype;
    p->g.dout.data = tensor[5], p->g.dq.data = tensor[6], p->g.dk.data = tensor[7], p->g.dv.data = tensor[8];
    d->seq.used_k = (const int32_t *)tensor[9];
    p->backward = tensor[5] != NULL;
    d->workspace = workspace, d->workspace_size = bytes;
    d->message = p->message, d->message_size = sizeof p->message;
}
/* The bytes of workspace, and the kernel by name; what is wrong goes to `text` as well, and the answer is -1. */
int64_t hip_torch_query(const int64_t *size, int32_t dtype, int causal, void *const *tensor, char *text, size_t text_size) {
    problem p;
    attn_plan plan;
    attn_status s = attn_hip_register();
    describe(&p, size, dtype, causal, tensor, NULL, 0, NULL);
    if (!s) s = attn_query(&p.d, p.backward ? &p.g : NULL, &plan);
    snprintf(text, text_size, "%s", s ? p.message[0] ? p.message : attn_status_text(s) : plan.kernel);
    return s ? -1 : (int64_t)plan.workspace_size;
}
int hip_torch_run(const int64_t *size, int32_t dtype, int causal, void *const *tensor, void *workspace, size_t bytes, void *stream) {
    problem p;
    describe(&p, size, dtype, causal, tensor, workspace, bytes, stream);
    return p.backward ? attn_backward(&p.d, &p.g) : attn_forward(&p.d);
}
