/* hip_report.c - one call on device pointers, for HIPSIM_REPORT to watch: no clock is read.
 *
 *   hip_report DTYPE HEAD_DIM V_DIM Q_LEN KV_LEN CAUSAL EXTRAS GAP BACKWARD
 *   hip_report decode DTYPE HEAD_DIM KV_LEN PAGE_SIZE
 *
 * DTYPE: f32, f16, bf16. CAUSAL: 0, 1. EXTRAS: a sum of 1 softcap, 2 bias, 4 mask, 8 ALiBi, 16 dropout, 32 sink. GAP: elements
 * between the rows of q, k, v and o (0: dense; 1 makes them odd). BACKWARD: 0, 1; o and lse are then of the CPU. Prints the kernel that
 * ran, or why none did.
 * decode: one query of four heads on one, against a cache of DTYPE, int8 and fp8 too (q is bf16 then), contiguous where PAGE_SIZE is 0. */
#include "hip.h"

static void begin(proof_case *c) {
    memset(c, 0, sizeof *c);
    c->d.message = c->message, c->d.message_size = sizeof c->message, c->d.batch = 1;
}
static int run(proof_case *c, proof_draw *draw) {
    attn_desc *d = &c->d;
    hip_place p;
    attn_plan plan;
    proof_bind_all(c, draw);
    attn_status s = attn_hip_register();
    if (s) { printf("%s\n", attn_status_text(s)); return 1; }
    d->backend = "flash";
    if (c->backward && (s = attn_forward(d))) { printf("%s\n", c->message); return 1; }
    hip_place_make(c, &p, HIP_WORKSPACE | (c->backward ? HIP_BACKWARD : 0));
    s = attn_query(&p.d, c->backward ? &p.g : NULL, &plan);
    if (!s) s = c->backward ? attn_backward(&p.d, &p.g) : attn_forward(&p.d);
    if (s) { printf("%s\n", c->message); return 1; }
    hip_place_fetch(c, &p);
    printf("%s\n", plan.kernel);
    hip_place_free(c, &p);
    proof_free(c);
    return 0;
}
static int decode(char **argv) {
    static const struct { const char *name; int32_t q, kv; } types[] = {
        {"f32", ATTN_F32, ATTN_F32}, {"f16", ATTN_F16, ATTN_F16}, {"int8", ATTN_BF16, ATTN_INT8}, {"fp8", ATTN_BF16, ATTN_FP8_E4M3}, {"bf16", ATTN_BF16, ATTN_BF16},
    };
    proof_case c;
    proof_draw draw;
    int n = 0;
    begin(&c);
    attn_desc *d = &c.d;
    while (n < 4 && strcmp(argv[0], types[n].name)) n++;
    d->q.dtype = d->o.dtype = types[n].q, d->k.dtype = d->v.dtype = types[n].kv;
    d->heads = 4, d->kv_heads = d->q_len = 1, d->head_dim = d->v_dim = atoll(argv[1]), d->kv_len = atoll(argv[2]);
    const int64_t page = atoll(argv[3]), pages = page ? (d->kv_len + page - 1) / page : 0;
    if (page) {
        int32_t *used_k = proof_ints(&c, 1), *table = proof_ints(&c, pages);
        *used_k = (int32_t)d->kv_len;
        for (int64_t i = 0; i < pages; i++) table[i] = (int32_t)(pages - 1 - i);
        d->seq.used_k = used_k, d->seq.block_table = table, d->seq.page_size = page, d->seq.max_pages = d->seq.pages = pages;
    }
    memset(&draw, 0, sizeof draw);
    draw.q_amplitude = 1;
    return run(&c, &draw);
}

int main(int argc, char **argv) {
    static const char *const names[] = {"f32", "f16", "bf16"};
    proof_case c;
    int32_t dtype = 0;
    if (argc == 6 && !strcmp(argv[1], "decode")) return decode(argv + 2);
    if (argc != 10) {
        fputs("hip_report DTYPE HEAD_DIM V_DIM Q_LEN KV_LEN CAUSAL EXTRAS GAP BACKWARD, or decode DTYPE HEAD_DIM KV_LEN PAGE_SIZE\n", stderr);
        return 2;
    }
    while (dtype < 2 && strcmp(argv[1], names[dtype])) dtype++;
    const int64_t dim = atoll(argv[2]), v_dim = atoll(argv[3]), q_len = atoll(argv[4]), kv_len = atoll(argv[5]), gap = atoll(argv[8]);
    const int extras = atoi(argv[7]), backward = atoi(argv[9]);
    begin(&c);
    attn_desc *d = &c.d;
    d->heads = 1, d->head_dim = dim, d->v_dim = v_dim, d->q_len = q_len, d->kv_len = kv_len;
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
    c.backward = backward;
    if (backward) c.g.dout.dtype = c.g.dq.dtype = c.g.dk.dtype = c.g.dv.dtype = dtype;
    return run(&c, &draw);
}
