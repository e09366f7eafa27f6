/* mpi.c - causal attention and its gradients over the ranks of an MPI job, each of which holds its own tokens only.
 * Build and run: mpicc -O2 -I. examples/mpi.c -o mpi -pthread -lm && mpirun -n 2 ./mpi */
#define ATTN_MPI
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 1000, HEADS = 4, DIM = 32, ROW = HEADS * DIM };

/* Number n of a tensor of the whole sequence, the same whoever asks. */
static float number(int64_t n) { return sinf((float)(n % 9973)); }

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);

    /* Zigzag: a token near the end sees many keys, one near the start few. Each rank gets both. */
    int64_t *cut = malloc((size_t)(2 * ranks + 1) * sizeof *cut);
    attn_mpi_cut(TOKENS, ATTN_MPI_ZIGZAG, ranks, cut);
    const int64_t own = attn_mpi_tokens(cut, ATTN_MPI_ZIGZAG, ranks, rank), size = own * ROW;
    float *all = malloc((size_t)(8 * size + HEADS * own + 1) * sizeof *all);
    float *q = all, *k = q + size, *v = k + size, *o = v + size, *dout = o + size,
          *dq = dout + size, *dk = dq + size, *dv = dk + size, *lse = dv + size;
    for (int64_t i = 0; i < own; i++) {
        const int64_t half = cut[rank + 1] - cut[rank]; /* tokens of the first of the two ranges */
        const int64_t token = i < half ? cut[rank] + i : cut[2 * ranks - 1 - rank] + i - half;
        for (int64_t c = i * ROW; c < (i + 1) * ROW; c++) {
            const int64_t n = token * ROW + c % ROW;
            q[c] = number(n);
            k[c] = number(n + 1);
            v[c] = number(n + 2);
            dout[c] = number(n + 3);
        }
    }

    attn_desc d = {0}; /* of the whole call, on every rank */
    attn_grad g = {0};
    attn_mpi m = {0};
    char message[200] = "";
    d.batch = 1, d.heads = HEADS, d.head_dim = DIM, d.q_len = d.kv_len = TOKENS;
    d.flags = ATTN_CAUSAL;
    d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o, d.lse = lse; /* this rank's tokens */
    d.message = message, d.message_size = sizeof message;
    g.dout.data = dout, g.dq.data = dq, g.dk.data = dk, g.dv.data = dv;
    m.split = ATTN_MPI_ZIGZAG, m.q_cut = m.k_cut = cut;
    attn_status s = attn_mpi_forward(&d, &m, MPI_COMM_WORLD);
    if (!s) s = attn_mpi_backward(&d, &g, &m, MPI_COMM_WORLD);
    if (s) fprintf(stderr, "rank %d: %s\n", rank, message);

    /* The first token sees itself alone: its o is its v. And sum(q dq) is sum(k dk), the scores'. */
    double sums[2] = {0, 0}, worst = 0;
    for (int64_t c = 0; c < size && !s; c++) {
        sums[0] += (double)q[c] * (double)dq[c];
        sums[1] += (double)k[c] * (double)dk[c];
    }
    for (int64_t c = 0; c < ROW && rank == 0 && !s; c++) worst = fmax(worst, fabs(o[c] - v[c]));
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    const int wrong = s || worst > 1e-6 || !(fabs(sums[0] - sums[1]) < 1e-3);
    if (rank == 0)
        printf("%d ranks: %s (sum of q dq %.6f, of k dk %.6f)\n", ranks, wrong ? "wrong" : "right",
            sums[0], sums[1]);
    free(all);
    free(cut);
    MPI_Finalize();
    return wrong;
}
