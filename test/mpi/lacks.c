/* lacks.c - what a build without backward and malloc says over MPI: what its calls on one machine say, on every rank. */
#define _DEFAULT_SOURCE
#define ATTN_IMPLEMENTATION
#define ATTN_MPI
#define ATTN_NO_BACKWARD
#define ATTN_NO_MALLOC
#include "attn.h"
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;
static int64_t passed, failed;
static void expect(attn_status s, attn_status wanted, const char *what)
{
    if (s == wanted) passed++;
    else printf("FAIL rank %d of %d, %s: %s\n", rank, ranks, what, attn_status_name(s)), failed++;
}

static int64_t calls, fail_call, alive;
static void *memory_get(void *user, size_t size, size_t align)
{
    void *p = NULL;
    (void)user;
    if (++calls == fail_call || posix_memalign(&p, align, size)) return NULL;
    alive++;
    return p;
}
static void memory_put(void *user, void *p, size_t size) { (void)user, (void)size, alive -= p != NULL, free(p); }

int main(int argc, char **argv)
{
    static float x[9][7 * 8 * 4];
    static int64_t cut[8];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    attn_mpi_cut(8, ATTN_MPI_RANGES, ranks, cut);
    for (int n = 0; n < 2; n++) {
        attn_mpi m = { .method = n ? "ulysses" : "ring", .q_cut = cut, .k_cut = cut };
        attn_desc d = { .batch = 1, .heads = ranks, .head_dim = 4, .q_len = 8, .kv_len = 8, .threads = 1 };
        attn_grad g = { .dout = { .data = x[4] }, .dq = { .data = x[5] }, .dk = { .data = x[6] }, .dv = { .data = x[7] } };
        d.q.data = x[0], d.k.data = x[1], d.v.data = x[2], d.o.data = x[3], d.lse = x[8];
        expect(attn_mpi_backward(&d, &g, &m, MPI_COMM_WORLD), ATTN_ERR_NO_BACKWARD, "backward");
        d.flags = ATTN_CAUSAL | ATTN_OFFSET, d.offset = -100;
        expect(attn_mpi_backward(&d, &g, &m, MPI_COMM_WORLD), ATTN_ERR_NO_BACKWARD, "backward of rows that see no key");
        g.dq.data = NULL;
        expect(attn_mpi_backward(&d, &g, &m, MPI_COMM_WORLD), ATTN_ERR_NO_BACKWARD, "backward without dq");
        expect(attn_mpi_backward(&d, NULL, &m, MPI_COMM_WORLD), ATTN_ERR_NO_BACKWARD, "backward without gradients");
        expect(attn_mpi_backward(rank ? &d : NULL, &g, &m, MPI_COMM_WORLD), ATTN_ERR_NO_BACKWARD, "backward without a description on rank 0");
        const attn_alloc memory = { memory_get, memory_put, NULL };
        d.flags = 0, d.offset = 0;
        expect(attn_mpi_forward(&d, &m, MPI_COMM_WORLD), ATTN_ERR_NO_MALLOC, "forward");
        if (!n) expect(attn_mpi_decode(&d, &m, MPI_COMM_WORLD), ATTN_ERR_NO_MALLOC, "decode");
        d.alloc = &memory;
        attn_status s = ATTN_ERR_MEMORY;
        for (int64_t at = 0; s == ATTN_ERR_MEMORY && at < 40; at++) {         /* each allocation of one rank fails, its workspace's last */
            calls = 0, fail_call = rank ? 0 : at + 1;
            s = attn_mpi_forward(&d, &m, MPI_COMM_WORLD);
            if (s) expect(s, ATTN_ERR_MEMORY, "forward, no memory");
        }
        expect(s, ATTN_OK, "forward with an allocator");
        if (alive) expect(ATTN_ERR_MEMORY, ATTN_OK, "memory is not given back");
    }
    int64_t mine[2] = { passed, failed }, all[2];
    MPI_Allreduce(mine, all, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (!rank) printf("%lld passed, %lld failed, 0 skipped\n", (long long)all[0], (long long)all[1]);
    return all[1] != 0;
}
