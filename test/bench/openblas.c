/* openblas.c - attention by OpenBLAS as a plugin of attn_bench: sgemm, softmax, sgemm, one head after the other. `make peers`
 * builds it where libopenblas is installed:
 *
 *   cc -O3 -march=native -I. -shared -fPIC test/bench/openblas.c -o build/openblas.so -lopenblas -lm
 *   ./attn_bench --plugin build/openblas.so --backend standard,flash,openblas --seq-len 1024 */
#include "attn.h"
#include <math.h>
#include <string.h>

void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                 float beta, float *c, int ldc);
void openblas_set_num_threads(int threads);
enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };

static attn_status plan(void *user, const attn_desc *d, const attn_grad *g, attn_plan *p)
{
    const char *why = NULL;
    (void)user;
    if (g) why = "forward only";
    else if (d->q.dtype || d->k.dtype || d->v.dtype || d->o.dtype) why = "f32 only";
    else if (d->flags & ~(uint32_t)(ATTN_SCALE | ATTN_OFFSET | ATTN_TOP_LEFT)) why = "no causal mask, no windows";
    else if (d->bias.data || d->mask.data || d->alibi || d->sink || d->softcap > 0 || d->dropout > 0)
        why = "no bias, mask, ALiBi, sink, softcap or dropout";
    else if (d->seq.cu_q || d->seq.cu_k || d->seq.used_q || d->seq.used_k || d->seq.start_k || d->seq.slot
             || d->seq.block_table || d->append.len)
        why = "no lengths per sequence";
    else if (d->q_len < 1 || d->kv_len < 1 || d->q_len > 1 << 20 || d->kv_len > 1 << 20) why = "lengths of 1 to 2^20";
    if (why) {
        strcpy(p->why, why);
        return ATTN_ERR_DECLINED;
    }
    p->kernel = "sgemm, softmax, sgemm";
    p->isa = "openblas";
    p->workspace_size = (size_t)(d->q_len * d->kv_len) * sizeof(float);
    p->threads = d->threads ? d->threads : 1;
    p->splits = 1;
    return ATTN_OK;
}

/* 2^x for x <= 0 by a polynomial, so that the compiler takes many at a time; -126 and below are 0. */
static float exp2_of(float x)
{
    float whole = (float)(int32_t)(x - 0.5f), part = x - whole, y;
    int32_t bits = ((int32_t)whole + 127) * (1 << 23);
    y = 1.535336188e-4f;
    y = y * part + 1.339887440e-3f;
    y = y * part + 9.618437357e-3f;
    y = y * part + 5.550332548e-2f;
    y = y * part + 2.402264791e-1f;
    y = y * part + 6.931472028e-1f;
    y = y * part + 1.0f;
    memcpy(&part, &bits, sizeof part);
    return x < -125 ? 0 : y * part;
}

/* Eight sums side by side, for the compiler must not reorder one. */
static float softmax(float *s, int64_t n, float *row_sum)
{
    const float log2e = 1.44269504088896341f;
    float top[8], sum[8] = { 0 }, row_max;
    int64_t j = 0;
    for (int l = 0; l < 8; l++) top[l] = s[0];
    for (; j + 8 <= n; j += 8)
        for (int l = 0; l < 8; l++) top[l] = s[j + l] > top[l] ? s[j + l] : top[l];
    for (; j < n; j++) top[0] = s[j] > top[0] ? s[j] : top[0];
    row_max = top[0];
    for (int l = 1; l < 8; l++) row_max = top[l] > row_max ? top[l] : row_max;
    for (j = 0; j < n; j++) s[j] = exp2_of((s[j] - row_max) * log2e);
    for (j = 0; j + 8 <= n; j += 8)
        for (int l = 0; l < 8; l++) sum[l] += s[j + l];
    for (; j < n; j++) sum[0] += s[j];
    *row_sum = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
    return row_max;
}

static void head(const attn_desc *d, int64_t b, int64_t h)
{
    int64_t kh = h / (d->heads / d->kv_heads);
    const float *q = (const float *)d->q.data + b * d->q.stride[0] + h * d->q.stride[2];
    const float *k = (const float *)d->k.data + b * d->k.stride[0] + kh * d->k.stride[2];
    const float *v = (const float *)d->v.data + b * d->v.stride[0] + kh * d->v.stride[2];
    float *o = (float *)d->o.data + b * d->o.stride[0] + h * d->o.stride[2], *s = d->workspace;
    int m = (int)d->q_len, n = (int)d->kv_len;
    cblas_sgemm(ROW_MAJOR, PLAIN, TRANSPOSED, m, n, (int)d->head_dim, d->scale, q, (int)d->q.stride[1], k,
                (int)d->k.stride[1], 0, s, n);
    for (int64_t i = 0; i < m; i++) {
        float row_sum, row_max = softmax(s + i * n, n, &row_sum), inverse = 1 / row_sum;
        for (int64_t j = 0; j < n; j++) s[i * n + j] *= inverse;
        if (d->lse) d->lse[(b * d->heads + h) * d->q_len + i] = row_max + logf(row_sum);
    }
    cblas_sgemm(ROW_MAJOR, PLAIN, PLAIN, m, (int)d->v_dim, n, 1, s, n, v, (int)d->v.stride[1], 0, o, (int)d->o.stride[1]);
}

static attn_status run(void *user, const attn_desc *d, const attn_grad *g, const attn_plan *p)
{
    (void)user, (void)g;
    openblas_set_num_threads(p->threads);
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t h = 0; h < d->heads; h++) head(d, b, h);
    return ATTN_OK;
}

attn_status attn_plugin_register(attn_status (*add)(const attn_backend *));
attn_status attn_plugin_register(attn_status (*add)(const attn_backend *))
{
    static const attn_backend openblas = { "openblas", ATTN_ABI, plan, run, NULL, NULL, NULL, NULL, NULL };
    return add(&openblas);
}
