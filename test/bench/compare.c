/* compare.c - two versions of attn.h, call by call in turn on the same memory; `make compare OLD=revision`.
 *
 * usage: compare OLD.so NEW.so [SECONDS [LINE]]      seconds of each line, 3; LINE: that one alone, counted from 0
 *
 * Times of this machine vary by several percent from one moment to the next, and from process to process with the pages that memory
 * happens to get. Calls that follow each other share both: the median of their ratios repeats within 1.5%, that of short calls within
 * 0.3%. f32, batch 1, one thread unless the line says otherwise. Few queries: `rows` of them against a cache of `type`, where bf16 is the type
 * of q and o too. */
#define _GNU_SOURCE
#include "attn.h"
#include "../common/random.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct version {
    attn_status (*forward)(const attn_desc *);
    attn_status (*backward)(const attn_desc *, const attn_grad *);
    attn_status (*query)(const attn_desc *, const attn_grad *, attn_plan *);
    double (*seconds)(void);
} version;
static const struct { const char *what; int heads, len, dim, threads; uint32_t flags; int32_t layout; int window, backward, rows; int32_t type; } cases[] = {
    { "S 1024, D 64", 8, 1024, 64, 1, 0, ATTN_BSHD, 0, 0, 0, 0 },
    { "S 1024, D 64, [B,H,S,D]", 8, 1024, 64, 1, 0, ATTN_BHSD, 0, 0, 0, 0 },
    { "S 1024, D 128", 8, 1024, 128, 1, 0, ATTN_BSHD, 0, 0, 0, 0 },
    { "S 1024, D 128, [B,H,S,D]", 8, 1024, 128, 1, 0, ATTN_BHSD, 0, 0, 0, 0 },
    { "S 1024, D 256", 8, 1024, 256, 1, 0, ATTN_BSHD, 0, 0, 0, 0 },
    { "S 128, D 64", 8, 128, 64, 1, 0, ATTN_BSHD, 0, 0, 0, 0 },
    { "S 128, D 64, [B,H,S,D]", 8, 128, 64, 1, 0, ATTN_BHSD, 0, 0, 0, 0 },
    { "S 128, D 64, causal", 8, 128, 64, 1, ATTN_CAUSAL, ATTN_BSHD, 0, 0, 0, 0 },
    { "S 512, D 64", 8, 512, 64, 1, 0, ATTN_BSHD, 0, 0, 0, 0 },
    { "S 2048, D 64, causal", 8, 2048, 64, 1, ATTN_CAUSAL, ATTN_BSHD, 0, 0, 0, 0 },
    { "S 1024, D 64, window 256", 8, 1024, 64, 1, ATTN_CAUSAL | ATTN_WINDOW_LEFT, ATTN_BSHD, 256, 0, 0, 0 },
    { "one head, S 2048, two threads", 1, 2048, 64, 2, 0, ATTN_BSHD, 0, 0, 0, 0 },
    { "the same, causal", 1, 2048, 64, 2, ATTN_CAUSAL, ATTN_BSHD, 0, 0, 0, 0 },
    { "S 1024, D 64, backward", 8, 1024, 64, 1, 0, ATTN_BSHD, 0, 1, 0, 0 },
    { "S 1024, D 128, backward", 8, 1024, 128, 1, 0, ATTN_BSHD, 0, 1, 0, 0 },
    { "S 2048, D 64, causal, backward", 8, 2048, 64, 1, ATTN_CAUSAL, ATTN_BSHD, 0, 1, 0, 0 },
    { "20 queries, 4096 keys, D 128", 8, 4096, 128, 1, 0, ATTN_BSHD, 0, 0, 20, ATTN_F32 },
    { "16 queries, 4096 keys of f16, D 128", 8, 4096, 128, 1, 0, ATTN_BSHD, 0, 0, 16, ATTN_F16 },
    { "the same of int8", 8, 4096, 128, 1, 0, ATTN_BSHD, 0, 0, 16, ATTN_INT8 },
    { "the same of q8_0", 8, 4096, 128, 1, 0, ATTN_BSHD, 0, 0, 16, ATTN_Q8_0 },
    { "the same, all of bf16", 8, 4096, 128, 1, 0, ATTN_BSHD, 0, 0, 16, ATTN_BF16 },
    { "8 queries, all of bf16", 8, 4096, 128, 1, 0, ATTN_BSHD, 0, 0, 8, ATTN_BF16 },
};

static version load(const char *path)
{
    version v;
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    void *f[] = { dlsym(so, "attn_forward"), dlsym(so, "attn_backward"), dlsym(so, "attn_query"), dlsym(so, "attn_seconds") };
    memcpy(&v.forward, &f[0], sizeof f[0]);
    memcpy(&v.backward, &f[1], sizeof f[1]);
    memcpy(&v.query, &f[2], sizeof f[2]);
    memcpy(&v.seconds, &f[3], sizeof f[3]);
    return v;
}
/* The keys and values of d, f32 of n elements each, become a cache of a type in memory that was theirs alone, scales behind the codes;
 * q, of `rows` rows, bf16 if they are. Returns 0 if the version does not take it. */
static int becomes_cache(const version *v, attn_desc *d, float *to[2], size_t n, int rows, int32_t type)
{
    const int32_t none = 0;
    attn_desc append = *d;
    attn_in *in[] = { &append.k, &append.v };
    append.append.k.data = d->k.data, append.append.v.data = d->v.data;
    for (int i = 0; i < 2; i++) {
        in[i]->data = to[i], in[i]->dtype = type;
        if (type == ATTN_INT8) in[i]->scale = to[i] + n / 2;
    }
    append.q_len = 0, append.seq.used_k = &none, append.append.len = d->kv_len;
    append.append.k_cache = to[0], append.append.v_cache = to[1];
    append.append.k_scale = (float *)(uintptr_t)append.k.scale, append.append.v_scale = (float *)(uintptr_t)append.v.scale;
    if (v->forward(&append)) return 0;
    d->k = append.k, d->v = append.v, d->q_len = rows;
    if (type != ATTN_BF16) return 1;
    uint16_t *q = (uint16_t *)(uintptr_t)d->q.data;
    for (size_t k = 0; k < n; k++) q[k] = (uint16_t)(0x3f80u | (q[k] & 0x807fu));      /* 1 to 2, of either sign */
    d->q.dtype = d->o.dtype = ATTN_BF16;
    return 1;
}
static int up(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static void *get(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 4096, bytes)) exit(2);
    return p;
}

int main(int argc, char **argv)
{
    enum { TENSORS = 8, MOST = 100000 };
    static double ratio[MOST];
    const double seconds = argc > 3 ? atof(argv[3]) : 3;
    if (argc < 3) {
        fprintf(stderr, "usage: compare OLD.so NEW.so [SECONDS [LINE]]\n");
        return 2;
    }
    const version v[2] = { load(argv[1]), load(argv[2]) };
    printf("| one call of the old version over one of the new | median |\n|---|---|\n");
    const size_t count = sizeof cases / sizeof *cases, first = argc > 4 ? (size_t)atoi(argv[4]) : 0;
    for (size_t c = first; c < (argc > 4 && first < count ? first + 1 : count); c++) {
        const size_t n = (size_t)cases[c].heads * (size_t)cases[c].len * (size_t)cases[c].dim;
        float *t[TENSORS], *lse = get((size_t)cases[c].heads * (size_t)cases[c].len * 4);
        uint64_t x = 1;
        for (int i = 0; i < TENSORS; i++) {
            t[i] = get(n * 4);
            for (size_t k = 0; k < n; k++) t[i][k] = (float)(2 * random_unit(&x) - 1);
        }
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        d.batch = 1, d.heads = cases[c].heads, d.q_len = d.kv_len = cases[c].len, d.head_dim = cases[c].dim;
        d.flags = cases[c].flags, d.window_left = cases[c].window, d.threads = cases[c].threads, d.backend = "flash";
        d.q.data = t[0], d.k.data = t[1], d.v.data = t[2], d.o.data = t[3], d.lse = cases[c].backward ? lse : NULL;
        g.dout.data = t[4], g.dq.data = t[5], g.dk.data = t[6], g.dv.data = t[7];
        d.q.layout = d.k.layout = d.v.layout = d.o.layout = cases[c].layout;
        if (cases[c].rows && !becomes_cache(&v[0], &d, (float *[]){ t[4], t[5] }, n, cases[c].rows, cases[c].type)) return 2;
        size_t most = 0;
        for (int i = 0; i < 2; i++) {
            attn_plan plan;
            if (v[i].query(&d, cases[c].backward ? &g : NULL, &plan)) return 2;
            if (plan.workspace_size > most) most = plan.workspace_size;
        }
        d.workspace = get(most), d.workspace_size = most;
        if (cases[c].backward && v[0].forward(&d)) return 2;
        int pairs = 0;
        for (double start = v[1].seconds(); pairs < MOST && v[1].seconds() - start < seconds; pairs++) {
            double took[2];
            for (int i = 0; i < 2; i++) {
                const version *one = &v[(i + pairs) & 1];       /* either goes first */
                double begin = v[1].seconds();
                if (cases[c].backward ? one->backward(&d, &g) : one->forward(&d)) return 2;
                took[(i + pairs) & 1] = v[1].seconds() - begin;
            }
            ratio[pairs] = took[0] / took[1];
        }
        qsort(ratio, (size_t)pairs, sizeof *ratio, up);
        printf("| %s | %.3f |\n", cases[c].what, ratio[pairs / 2]);
        fflush(stdout);
        for (int i = 0; i < TENSORS; i++) free(t[i]);
        free(lse), free(d.workspace);
    }
    return 0;
}
