/* adaptive.c - say how much error you can bear, get the answer faster, and beside every row a bound
 * that its true error does not exceed.
 *
 *   cc -O2 -I. examples/adaptive.c -o adaptive -pthread -lm && ./adaptive
 *
 * The same call twice, exactly and with a tolerance, and what the two differ by. */
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 1536, HEADS = 4, DIM = 64, ROWS = TOKENS * HEADS };
static float q[ROWS * DIM], k[ROWS * DIM], v[ROWS * DIM], exact[ROWS * DIM], fast[ROWS * DIM];
static float cert[HEADS][TOKENS]; /* [batch, heads, q_len], as lse is */

static double run(const attn_desc *d) { /* seconds of the second call: the first one warms up */
    double t = 0;
    for (int n = 0; n < 2; n++) {
        t = attn_seconds();
        attn_status s = attn_forward(d);
        if (s) {
            fprintf(stderr, "%s\n", attn_status_text(s));
            exit(1);
        }
    }
    return attn_seconds() - t;
}

int main(void) {
    for (int n = 0; n < ROWS * DIM; n++) { /* any numbers: here about normal ones */
        q[n] = (float)(rand() + 1.0 * rand() + rand()) / RAND_MAX * 2 - 3;
        k[n] = (float)(rand() + 1.0 * rand() + rand()) / RAND_MAX * 2 - 3;
        v[n] = (float)(rand() + 1.0 * rand() + rand()) / RAND_MAX * 2 - 3;
    }
    attn_desc d = {0};
    d.batch = 1, d.q_len = d.kv_len = TOKENS, d.heads = HEADS, d.head_dim = DIM;
    d.flags = ATTN_CAUSAL;
    d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = exact;
    d.threads = 1;
    double plain = run(&d);

    /* 1. The tolerance: no element may be off by more than a hundredth of the largest |v| that its
     *    row sees. cert and statistics are optional. */
    attn_statistics told;
    d.o.data = fast;
    d.tolerance = 0.01f;
    d.cert = &cert[0][0];
    d.statistics = &told;

    /* 2. What would run, and if it is not "adaptive", why. */
    attn_plan plan;
    attn_query(&d, NULL, &plan);
    printf("backend %s, kernel %s\n", plan.backend, plan.kernel);
    double tolerant = run(&d);

    /* 3. Every row against its own certificate. 1e-5: what f32 rounds in either call. */
    double worst = 0, share = 0;
    int beyond = 0;
    for (int i = 0; i < TOKENS; i++)
        for (int h = 0; h < HEADS; h++)
            for (int e = 0; e < DIM; e++) {
                int at = (i * HEADS + h) * DIM + e;
                double off = fabs((double)exact[at] - (double)fast[at]), c = (double)cert[h][i];
                if (off > worst) worst = off;
                if (c > 0 && off / c > share) share = off / c;
                beyond += off > c + 1e-5;
            }
    printf("%.2f ms, exactly %.2f ms\n", 1e3 * tolerant, 1e3 * plain);
    printf("%lld tiles from int16, %lld in f32, %lld rows computed again%s%s\n",
        (long long)told.tiles_int16, (long long)told.tiles_f32, (long long)told.rows_redone,
        told.why[0] ? "; dense because of: " : "", told.why);
    printf("largest error %.2e, largest certificate %.2e, at most %.0f%% of a row's own\n", worst,
        (double)told.largest_cert, 100 * share);
    printf("%d elements beyond their row's certificate\n", beyond);
    return beyond != 0;
}
