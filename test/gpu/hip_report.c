/* hip_report.c - one call on device pointers, for HIPSIM_REPORT to watch: no clock is read.
 *
 *   hip_report DTYPE HEAD_DIM V_DIM Q_LEN KV_LEN CAUSAL EXTRAS GAP BACKWARD
 *
 * DTYPE: f32, f16, bf16. CAUSAL: 0, 1. EXTRAS: a sum of 1 softcap, 2 bias, 4 mask, 8 ALiBi, 16 dropout, 32 sink. GAP: elements
 * between the rows of q, k, v and o (0: dense; 1 makes them odd). BACKWARD: 0, 1; o and lse are then of the CPU. Prints the kernel that
 * ran, or why none did. */
#include "hip.h"

int main(int argc, char **argv) {
    static const char *const names[] = {"f32", "f16", "bf16"};
    proof_case c;
    hip_place p;
    attn_plan plan;
    int32_t dtype = 0;
    if (argc != 10) { fprintf(stderr, "hip_report DTYPE HEAD_DIM V_DIM Q_LEN KV_LEN CAUSAL EXTRAS GAP BACKWARD\n"); return 2; }
    while (dtype < 2 && strcmp(argv[1], names[dtype])) dtype++;
    const int64_t dim = atoll(argv[2]), v_dim = atoll(argv[3]), q_len = atoll(argv[4]), kv_len = atoll(argv[5]), gap = atoll(argv[8]);
    const int extras = atoi(argv[7]), backward = atoi(argv[9]);
    memset(&c, 0, sizeof c);
    attn_desc *d = &c.d;
    d->batch = d->heads = 1, d->head_dim = dim, d->v_dim = v_dim, d->q_len = q_len, d->kv_len = kv_len;
    d->q.dtype = d->k.dtype = d->v.dtype = d->o.dtype = dtype;
    if (gap) {
        int64_t *stride[] = {d->q.stride, d->k.stride, d->v.stride, d->o.stride};
        for (int i = 0; i < 4; i++) {
            const int64_t row = (i < 2 ? dim : v_dim) + gap, rows = i % 3 ? kv_len : q_len;
            stride[i][0] = row * rows, stride[i][1] = stride[i][2] = row;
        }
    }
    if (atoi(argv[6])) d->flags = ATTN_CAUSAL;
    if (extras & 1) d->softcap = 20;
    if (extras & 2) c.features |= PROOF_BIAS;
    if (extras & 4) c.features |= PROOF_MASK, d->mask.dtype = ATTN_BOOL;
    if (extras & 16) d->dropout = 0.25f;
    proof_draw draw;
    memset(&draw, 0, sizeof draw);
    draw.q_amplitude = 1, draw.lse = 1, draw.alibi = (extras & 8) != 0, draw.sink = (extras & 32) != 0;
    d->message = c.message, d->message_size = sizeof c.message;
    c.backward = backward;
    if (backward) c.g.dout.dtype = c.g.dq.dtype = c.g.dk.dtype = c.g.dv.dtype = dtype;
    proof_bind_all(&c, &draw);
    attn_status s = attn_hip_register();
    if (s) { printf("%s\n", attn_status_text(s)); return 1; }
    d->backend = "flash";
    if (backward && (s = attn_forward(d))) { printf("%s\n", c.message); return 1; }
    hip_place_make(&c, &p, HIP_WORKSPACE | (backward ? HIP_BACKWARD : 0));
    s = attn_query(&p.d, backward ? &p.g : NULL, &plan);
    if (!s) s = backward ? attn_backward(&p.d, &p.g) : attn_forward(&p.d);
    if (s) { printf("%s\n", c.message); return 1; }
    hip_place_fetch(&c, &p);
    printf("%s\n", plan.kernel);
    hip_place_free(&c, &p);
    proof_free(&c);
    return 0;
}
