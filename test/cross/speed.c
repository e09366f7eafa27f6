/* speed.c - forward of one ISA, in GFLOP/s, for machines where attn_bench does not run: speed [seconds]. One thread. */
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <stdio.h>

enum { TOKENS = 512, HEADS = 4, DIM = 64, COUNT = TOKENS * HEADS * DIM };
static float q[COUNT], k[COUNT], v[COUNT], o[COUNT];
static attn_status status;

static void forward(void *d) { status = attn_forward((const attn_desc *)d); }

int main(int argc, char **argv)
{
    attn_desc d;
    attn_timing t;
    attn_timing_opts opts;
    memset(&d, 0, sizeof d);
    memset(&opts, 0, sizeof opts);
    for (int i = 0; i < COUNT; i++) q[i] = k[i] = v[i] = (float)((i * 2654435761u >> 8) % 2001) / 1000 - 1;
    d.batch = 1, d.heads = HEADS, d.q_len = d.kv_len = TOKENS, d.head_dim = DIM, d.threads = 1;
    d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o;
    opts.warmup = 1;
    opts.min_seconds = argc > 1 ? atof(argv[1]) : 1;
    opts.flops = 4.0 * TOKENS * TOKENS * DIM * HEADS;
    const attn_status timed = attn_time(forward, &d, &opts, &t);
    if (timed || status) {
        printf("%s: %s\n", attn_isa(), attn_status_text(timed ? timed : status));
        return 1;
    }
    printf("%s %.2f\n", attn_isa(), t.gflops);
    return 0;
}
