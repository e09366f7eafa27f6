/* backend.c - a backend of your own in one file: fill in attn_backend, register it, and every call
 * can use it by name, by ATTN_BACKEND in the environment, or as the default.
 *
 *   cc -O2 -I. examples/backend.c -o backend -pthread -lm && ./backend */
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 1. plan: which calls it takes. It sees the description with every default filled in, and touches
 *    no tensor. A reason that it gives shows up in attn_plan.why of whoever asks. */
static attn_status plan(void *user, const attn_desc *d, const attn_grad *g, attn_plan *p) {
    (void)user;
    p->why[0] = 0;
    if (g) strcpy(p->why, "forward only");
    else if (d->q.dtype || d->k.dtype || d->v.dtype || d->o.dtype) strcpy(p->why, "f32 only");
    else if (d->flags & ~(uint32_t)(ATTN_CAUSAL | ATTN_SCALE | ATTN_TOP_LEFT | ATTN_OFFSET))
        strcpy(p->why, "no windows");
    else if (d->bias.data || d->mask.data || d->alibi || d->sink)
        strcpy(p->why, "no bias, mask, ALiBi or sink");
    else if (d->softcap > 0 || d->dropout > 0) strcpy(p->why, "no softcap or dropout");
    else if (d->seq.cu_q || d->seq.cu_k || d->seq.used_q || d->seq.used_k || d->seq.start_k ||
             d->seq.slot || d->seq.block_table || d->append.len)
        strcpy(p->why, "no lengths per sequence");
    if (p->why[0]) return ATTN_ERR_DECLINED;
    p->kernel = "rows";
    p->isa = "portable";
    p->workspace_size = (size_t)(d->batch * d->heads * d->kv_len) * sizeof(float);
    p->threads = attn_threads();
    p->splits = 1;
    return ATTN_OK;
}

/* 2. run: one task for each head of each batch entry, on the threads that the caller asked for. */
static void head(void *arg, int64_t task) {
    const attn_desc *d = arg;
    int64_t b = task / d->heads, h = task % d->heads, kh = h / (d->heads / d->kv_heads), i, j, c;
    int64_t offset = d->flags & (ATTN_OFFSET | ATTN_TOP_LEFT) ? d->offset : d->kv_len - d->q_len;
    float *p = (float *)d->workspace + task * d->kv_len;
    for (i = 0; i < d->q_len; i++) {
        const float *q =
            (const float *)d->q.data + b * d->q.stride[0] + i * d->q.stride[1] + h * d->q.stride[2];
        float *o =
            (float *)d->o.data + b * d->o.stride[0] + i * d->o.stride[1] + h * d->o.stride[2];
        int64_t end =
            d->flags & ATTN_CAUSAL && i + offset + 1 < d->kv_len ? i + offset + 1 : d->kv_len;
        float row_max = -INFINITY, row_sum = 0;
        for (j = 0; j < end; j++) {
            const float *k = (const float *)d->k.data + b * d->k.stride[0] + j * d->k.stride[1] +
                             kh * d->k.stride[2];
            p[j] = 0;
            for (c = 0; c < d->head_dim; c++) p[j] += q[c] * k[c];
            p[j] *= d->scale;
            row_max = fmaxf(row_max, p[j]);
        }
        memset(o, 0, (size_t)d->v_dim * sizeof *o);
        for (j = 0; j < end; j++) {
            const float *v = (const float *)d->v.data + b * d->v.stride[0] + j * d->v.stride[1] +
                             kh * d->v.stride[2];
            float weight = expf(p[j] - row_max);
            row_sum += weight;
            for (c = 0; c < d->v_dim; c++) o[c] += weight * v[c];
        }
        for (c = 0; c < d->v_dim && row_sum > 0; c++) o[c] /= row_sum;
        /* -infinity for a row that sees no key */
        if (d->lse) d->lse[task * d->q_len + i] = row_max + logf(row_sum);
    }
}

static attn_status run(void *user, const attn_desc *d, const attn_grad *g, const attn_plan *p) {
    (void)user, (void)g, (void)p;
    return attn_parallel(d, head, (void *)(uintptr_t)d, d->batch * d->heads);
}

/* 3. register and use. */
enum { N = 60 * 4 * 32 };
static float q[N], k[N], v[N], mine[N], theirs[N];

int main(void) {
    attn_backend rows = {"rows", ATTN_ABI, plan, run, NULL, NULL, NULL, NULL, NULL};
    attn_desc d = {0};
    attn_plan p;
    attn_status s;
    float worst = 0;
    int i;
    for (i = 0; i < N; i++) {
        q[i] = sinf((float)i);
        k[i] = cosf((float)(3 * i));
        v[i] = sinf((float)(7 * i));
    }
    if ((s = attn_register(&rows)) != ATTN_OK)
        return fprintf(stderr, "%s\n", attn_status_text(s)), 1;
    d.batch = 1;
    d.q_len = d.kv_len = 60;
    d.heads = 4;
    d.head_dim = 32;
    d.q.data = q, d.k.data = k, d.v.data = v;
    d.flags = ATTN_CAUSAL;

    d.backend = "rows";
    d.o.data = mine;
    if ((s = attn_forward(&d)) != ATTN_OK) return fprintf(stderr, "%s\n", attn_status_text(s)), 1;
    d.backend = "reference";
    d.o.data = theirs;
    if ((s = attn_forward(&d)) != ATTN_OK) return fprintf(stderr, "%s\n", attn_status_text(s)), 1;
    for (i = 0; i < N; i++) worst = fmaxf(worst, fabsf(mine[i] - theirs[i]));

    d.backend = NULL; /* the default from now on */
    attn_set_default("rows");
    s = attn_query(&d, NULL, &p);
    printf("%s: largest difference from the reference %.2g; the default is now %s\n", rows.name,
        (double)worst, p.backend);
    if (s || strcmp(p.backend, "rows")) return 1;
    return !(worst < 2e-6f);
}
