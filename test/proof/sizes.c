/* sizes.c - sizes beyond what an address can tell apart are refused, never wrapped: workspaces as lengths double up to 2^62, and calls
 * on tensors of few bytes but, by broadcast, many tokens. For a build with 32-bit sizes above all, and for sanitizers. */
#include "proof.h"

static int64_t passed, failed;
static void check(int right, const char *what, const char *backend, int backward, int64_t n) {
    if (right) { passed++; return; }
    if (failed++ < 20) printf("FAIL %s %s at %lld: %s\n", backend, backward ? "backward" : "forward", (long long)n, what);
}

/* What every plan holds at least: the reference each key and value in f64, backward twice; standard a score of each pair; backward
 * three floats a row. Counted in long double, for which nothing is too large. */
static long double least_bytes(const char *backend, int backward, const attn_desc *d) {
    const long double keys = (long double)d->kv_len, dims = (long double)(d->head_dim + d->v_dim);
    const long double rows = (long double)d->batch * (long double)d->heads * (long double)d->q_len;
    if (!strcmp(backend, "reference")) return 8 * keys * dims * (backward ? 2 : 1);
    if (!strcmp(backend, "standard")) return 4 * rows * keys * (backward ? 2 : 1);
    return backward ? 12 * rows : 0;
}

/* which: the length that doubles. A refused size stays refused as it grows; no size shrinks as a sequence grows. */
static void doubling(const char *backend, int backward, int which, const attn_desc *base) {
    size_t last = 0;
    int refused = 0;
    for (int bit = 0; bit < 63; bit++) {
        const int64_t n = (int64_t)1 << bit;
        attn_desc d = *base;
        attn_grad g;
        attn_plan plan;
        memset(&g, 0, sizeof g);
        d.backend = backend;
        *(which == 0 ? &d.kv_len : which == 1 ? &d.q_len : which == 2 ? &d.batch : &d.heads) = n;
        const attn_status s = attn_query(&d, backward ? &g : NULL, &plan);
        if (s) {
            check(s == ATTN_ERR_SIZE || s == ATTN_ERR_OVERFLOW || s == ATTN_ERR_TOO_LARGE, attn_status_name(s), backend, backward, n);
            refused = 1;
            continue;
        }
        check(!refused, "it was refused for less", backend, backward, n);
        check(which > 1 || plan.workspace_size >= last, "the workspace shrinks", backend, backward, n);
        check((long double)plan.workspace_size >= least_bytes(backend, backward, &d), "the workspace is too small", backend, backward, n);
        last = plan.workspace_size;
    }
    check(refused || least_bytes(backend, backward, base) == 0, "nothing is too large", backend, backward, 0);
}

/* One key and value for all tokens: the call itself, where its workspace can be had, otherwise a clear status. */
static void broadcast(const char *backend, int bit) {
    static float q[8], kv[8], o[8], got[2];
    attn_desc d;
    memset(&d, 0, sizeof d);
    for (int i = 0; i < 8; i++) q[i] = kv[i] = 0.25f * (float)(i + 1);
    d.batch = d.heads = d.q_len = 1, d.head_dim = 8, d.kv_len = (int64_t)1 << bit, d.backend = backend;
    d.q.data = q, d.k.data = kv, d.v.data = kv, d.o.data = o, d.lse = got;
    for (int i = 0; i < 3; i++) d.k.stride[i] = d.v.stride[i] = ATTN_BROADCAST;
    const attn_status s = attn_forward(&d);
    if (s) { check(s == ATTN_ERR_SIZE || s == ATTN_ERR_MEMORY, attn_status_name(s), backend, 0, d.kv_len); return; }
    for (int i = 0; i < 8; i++) check(absolute((double)(o[i] - kv[i])) < 0.01, "o is wrong", backend, 0, d.kv_len);
}

int main(void) {
    static const char *const names[] = {"flash", "standard", "reference", "auto"};     /* the choice is never what needs less */
    attn_desc d;
    for (int i = 0; i < 4; i++)
        for (int backward = 0; backward < 2; backward++)
            for (int shape = 0; shape < 4; shape++)
                for (int which = 0; which < 4; which++) {
                    memset(&d, 0, sizeof d);
                    d.batch = shape == 2 ? 1000 : 1, d.heads = d.kv_heads = shape == 1 ? 4 : 1, d.q_len = shape == 3 ? 100000 : 1;
                    d.kv_len = shape == 3 ? 100000 : 7, d.head_dim = d.v_dim = shape == 1 ? 576 : 64, d.threads = shape == 2 ? 1024 : 2;
                    if (which == 3) d.kv_heads = 0;
                    doubling(names[i], backward, which, &d);
                }
    broadcast("flash", 18), broadcast("reference", 18);
    /* in f64 2^24 keys of 8 dims take 3 GB, which 32 bits hold; the sizes of 2^25 and 2^26 wrapped */
    for (int bit = 25; bit < 40 && sizeof(size_t) == 4; bit++) broadcast("reference", bit);
    printf("%lld passed, %lld failed, 0 skipped\n", (long long)passed, (long long)failed);
    attn_shutdown();
    return failed != 0;
}
