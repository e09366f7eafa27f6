/* plugin.c - a plugin of attn_bench in plain loops, and what can be wrong with one: KIND says which, NO_SYMBOL
 * leaves out the one function that the program looks for.
 *
 *   cc -O2 -I. -shared -fPIC -DKIND=RIGHT test/bench/plugin.c -o loops.so -lm
 *   ./attn_bench --plugin loops.so --seq-len 64 --backward */
#include "attn.h"
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RIGHT, WRONG_O, WRONG_LSE, WRONG_DQ, WRONG_DK, WRONG_DV, STALE, NOTHING, REFUSES, ODD_NAME, KNOWN_NAME, TWO, NO_REASON, FAILS_TWICE, CRASHES, EXITS, PRINTS, MODE_NAME, SLOW_FIRST,
       PLAN_CRASHES, START_CRASHES, DEEP, BESIDE_LATE, INPUT_LATE, NO_PREFILL, LOCALE };

static int slow;      /* SLOW_FIRST: this process is one of the first, whose number is in the file `slow` */

static int64_t offset_of(const attn_desc *d)
{
    return d->flags & (ATTN_OFFSET | ATTN_TOP_LEFT) ? d->offset : d->kv_len - d->q_len;
}

static attn_status plan(void *user, const attn_desc *d, const attn_grad *g, attn_plan *p)
{
    const uint32_t known = ATTN_CAUSAL | ATTN_SCALE | ATTN_TOP_LEFT | ATTN_OFFSET;
    int f32 = !d->q.dtype && !d->k.dtype && !d->v.dtype && !d->o.dtype;
    (void)user, (void)g;
    if (!f32 || d->flags & ~known || d->bias.data || d->mask.data || d->alibi || d->sink || d->softcap > 0
        || d->dropout > 0 || d->seq.cu_q || d->seq.used_q || d->seq.used_k || d->seq.start_k || d->seq.block_table
        || d->append.len) {
        strcpy(p->why, "plain f32 attention only");
        return ATTN_ERR_DECLINED;
    }
    if (KIND == NO_REASON) return ATTN_ERR_MEMORY;
    if (KIND == PLAN_CRASHES) raise(SIGSEGV);
    if (KIND == LOCALE) setlocale(LC_ALL, "de_DE.UTF-8");
    p->kernel = "loops";
    p->isa = "none";
    p->workspace_size = (size_t)d->kv_len * sizeof(double);
    p->threads = p->splits = 1;
    return ATTN_OK;
}

static float *row(const void *data, const int64_t stride[3], int64_t b, int64_t i, int64_t h)
{
    return (float *)(uintptr_t)data + b * stride[0] + i * stride[1] + h * stride[2];
}

static double dot(const float *x, const float *y, int64_t n)
{
    double sum = 0;
    for (int64_t c = 0; c < n; c++) sum += (double)x[c] * (double)y[c];
    return sum;
}

static void add(float *to, double factor, const float *x, int64_t n)
{
    for (int64_t c = 0; c < n; c++) to[c] += (float)(factor * (double)x[c]);
}

/* One query: its weights p from the scores, and o; or, with g, its share of the gradients. */
static void query(const attn_desc *d, const attn_grad *g, int64_t b, int64_t h, int64_t i)
{
    int64_t at = i + offset_of(d), n = d->flags & ATTN_CAUSAL && at + 1 < d->kv_len ? at + 1 : d->kv_len;
    int64_t kh = h / (d->heads / d->kv_heads), dim = d->head_dim, width = d->v_dim, r = (b * d->heads + h) * d->q_len + i;
    const float *q = row(d->q.data, d->q.stride, b, i, h);
    float *o = row(d->o.data, d->o.stride, b, i, h);
    double *p = d->workspace, top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++) {
        p[j] = (double)d->scale * dot(q, row(d->k.data, d->k.stride, b, j, kh), dim);
        top = p[j] > top ? p[j] : top;
    }
    for (int64_t j = 0; j < n; j++) sum += exp(p[j] - top);
    double lse = n > 0 ? top + log(sum) : -INFINITY;
    for (int64_t j = 0; j < n; j++) p[j] = exp(p[j] - lse);
    if (!g) {
        if (d->lse) d->lse[r] = (float)lse + (KIND == WRONG_LSE ? 0.01f : 0);
        memset(o, 0, (size_t)width * sizeof *o);
        for (int64_t j = 0; j < n; j++) add(o, p[j], row(d->v.data, d->v.stride, b, j, kh), width);
        if (KIND == WRONG_O && i == d->q_len - 1) o[width - 1] += 0.001f;
        return;
    }
    const float *dout = row(g->dout.data, g->dout.stride, b, i, h);
    double delta = dot(dout, o, width);
    float *dq = row(g->dq.data, g->dq.stride, b, i, h);
    memset(dq, 0, (size_t)dim * sizeof *dq);
    for (int64_t j = 0; j < n; j++) {
        double dp = dot(dout, row(d->v.data, d->v.stride, b, j, kh), width);
        double ds = (double)d->scale * p[j] * (dp - delta);
        add(dq, KIND == WRONG_DQ ? -ds : ds, row(d->k.data, d->k.stride, b, j, kh), dim);
        add(row(g->dk.data, g->dk.stride, b, j, kh), KIND == WRONG_DK ? 5 * ds : ds, q, dim);
        add(row(g->dv.data, g->dv.stride, b, j, kh), KIND == WRONG_DV ? 0 : p[j], dout, width);
    }
}

/* More of the stack than there is. */
static int deeper(int n)
{
    volatile char room[4096];
    for (int i = 0; i < 4096; i++) room[i] = (char)(n + i);
    return (n < 1 << 28 ? deeper(n + 1) : 0) + room[n % 4096];
}

static attn_status run(void *user, const attn_desc *d, const attn_grad *g, const attn_plan *p)
{
    const char *path = getenv("PLUGIN_LOG");            /* a letter for each call, so that their order can be seen */
    FILE *log = path ? fopen(path, "a") : NULL;
    static int runs, whole;
    (void)p;
    runs++;
    if (KIND == FAILS_TWICE && runs == 2) return ATTN_ERR_MEMORY;
    if (KIND == CRASHES && d->q_len > 33) raise(SIGSEGV);
    if (KIND == EXITS && d->q_len > 33) exit(0);
    if (KIND == DEEP && d->q_len > 33) runs += deeper(0);
    /* by the processor's clock, and most of a call either way: what else the machine does is not what is compared */
    for (clock_t end = KIND == SLOW_FIRST ? clock() + (slow ? 3 : 1) * (CLOCKS_PER_SEC / 1000) : 0; KIND == SLOW_FIRST && clock() < end;) continue;
    if (KIND == LOCALE) setlocale(LC_ALL, "de_DE.UTF-8");
    if (KIND == PRINTS) printf("{\"a line\": %d\n", runs);
    if (log) {
        fputs(user, log);
        fclose(log);
    }
    for (int64_t b = 0; g && b < d->batch; b++)
        for (int64_t j = 0; j < d->kv_len; j++)
            for (int64_t h = 0; h < d->kv_heads; h++) {
                memset(row(g->dk.data, g->dk.stride, b, j, h), 0, (size_t)d->head_dim * sizeof(float));
                memset(row(g->dv.data, g->dv.stride, b, j, h), 0, (size_t)d->v_dim * sizeof(float));
            }
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t h = 0; h < d->heads; h++)
            for (int64_t i = 0; i < d->q_len; i++) query(d, g, b, h, i);
    whole += d->q_len > 1;
    const int late = whole == 9 || whole == 10;         /* among those that are timed */
    if (KIND == BESIDE_LATE && late) row(d->o.data, d->o.stride, d->batch - 1, d->q_len - 1, d->heads - 1)[d->v_dim] = 1;
    if (KIND == INPUT_LATE && late) row(d->v.data, d->v.stride, 0, 0, 0)[3] += 0.01f;
    for (int64_t b = 0; KIND == NO_PREFILL && d->q_len > 1 && b < d->batch; b++)
        for (int64_t i = 0; i < d->q_len * d->heads; i++) memset(row(d->o.data, d->o.stride, b, i / d->heads, i % d->heads), 0, (size_t)d->v_dim * sizeof(float));
    return ATTN_OK;
}

#ifndef NO_SYMBOL
attn_status attn_plugin_register(attn_status (*registers)(const attn_backend *));
attn_status attn_plugin_register(attn_status (*registers)(const attn_backend *))
{
    static attn_backend loops;
    loops = (attn_backend){ "loops", ATTN_ABI, plan, run, (void *)(uintptr_t)"l", NULL, NULL, NULL, NULL };
    if (KIND == LOCALE) setlocale(LC_ALL, "de_DE.UTF-8");
    if (KIND == NOTHING) return ATTN_OK;
    if (KIND == START_CRASHES) raise(SIGSEGV);
    if (KIND == REFUSES) return ATTN_ERR_NO_DEVICE;
    if (KIND == STALE) loops.abi -= (uint64_t)1 << 32;                  /* of another version of attn.h */
    if (KIND == ODD_NAME) loops.name = "a,b";
    if (KIND == KNOWN_NAME) loops.name = "flash";
    FILE *first = KIND == SLOW_FIRST ? fopen("slow", "r+") : NULL;
    if (first && fscanf(first, "%d", &slow) == 1) rewind(first), fprintf(first, "%d\n", slow ? slow - 1 : 0);
    if (first) fclose(first);
    if (KIND == MODE_NAME) loops.name = "rank";
    attn_status s = registers(&loops);
    loops.name = "again", loops.user = (void *)(uintptr_t)"a";
    if (KIND == TWO && !s) s = registers(&loops);
    return KIND == STALE ? ATTN_OK : s;                                 /* it need not notice by itself */
}
#endif
