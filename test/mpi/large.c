/* large.c - a message above 2 GiB, which MPI's int cannot count: rank 0 has all keys, rank 1 all queries. Two ranks, 5 GB of memory.
 *
 * The keys are views of one short buffer, each a number further on than the one before, so that no two are alike and only the message
 * itself is long. The result is compared with the same call on one machine, which reads them where they are. */
#define ATTN_IMPLEMENTATION
#define ATTN_MPI
#include "attn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DIM = 128, QUERIES = 3 };
static const int64_t keys = 2200000;                      /* of 1 KiB: k and v in f32 */
static int64_t sent, pieces, longest;
int MPI_Isend(const void *p, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm, MPI_Request *r)
{
    if (tag == ATTN_MPI_TAG) sent += n, pieces++, longest = n > longest ? n : longest;
    return PMPI_Isend(p, n, t, to, tag, comm, r);
}
static double available(void)
{
    char line[128];
    double kilobytes = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f)) sscanf(line, "MemAvailable: %lf", &kilobytes);
    if (f) fclose(f);
    return kilobytes * 1024;
}
static float number(uint64_t i)
{
    i = (i + 1) * 0x9e3779b97f4a7c15u, i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u, i ^= i >> 27;
    return (float)(i >> 40) / (1 << 23) - 1;
}

int main(int argc, char **argv)
{
    int rank, ranks, failed = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double room = available();
    MPI_Bcast(&room, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (ranks != 2 || room < 8e9) {
        if (!rank) printf("skipped: needs 2 ranks and 8 GB of free memory\n0 passed, 0 failed, 1 skipped\n");
        MPI_Finalize();
        return 0;
    }
    float *all = malloc((size_t)(keys + 2 * DIM) * 4), q[QUERIES * DIM], o[QUERIES * DIM] = { 0 }, want[QUERIES * DIM];
    for (int64_t i = 0; all && i < keys + 2 * DIM; i++) all[i] = number((uint64_t)i);
    for (int i = 0; i < QUERIES * DIM; i++) q[i] = number((uint64_t)i + 1000000000);
    const int64_t q_cut[3] = { 0, 0, QUERIES }, k_cut[3] = { 0, keys, keys };
    attn_mpi m = { 0 };
    attn_desc d = { 0 };
    d.batch = 1, d.heads = 1, d.head_dim = DIM, d.q_len = QUERIES, d.kv_len = keys;
    d.q.data = q, d.o.data = o, d.k.data = all, d.v.data = all + DIM;
    d.k.stride[0] = d.v.stride[0] = keys, d.k.stride[1] = d.v.stride[1] = 1, d.k.stride[2] = d.v.stride[2] = DIM;
    m.q_cut = q_cut, m.k_cut = k_cut;
    const attn_status s = attn_mpi_forward(&d, &m, MPI_COMM_WORLD);
    d.o.data = want;
    const attn_status alone = rank ? attn_forward(&d) : ATTN_OK;
    double worst = 0, size = 0;
    for (int i = 0; i < QUERIES * DIM && rank; i++) worst = fmax(worst, fabs((double)o[i] - (double)want[i])), size = fmax(size, fabs((double)want[i]));
    if (s || alone || worst > 1e-5 * size) printf("rank %d: %s, difference %g of %g\n", rank, attn_status_text(s ? s : alone), worst, size), failed = 1;
    if (!rank && (sent != keys * 2 * DIM * 4 || pieces != 3 || longest != ATTN_MPI_PIECE))
        printf("%lld bytes in %lld pieces of at most %lld\n", (long long)sent, (long long)pieces, (long long)longest), failed = 1;
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (!rank) printf("%lld bytes in %lld pieces\n%d passed, %d failed, 0 skipped\n", (long long)sent, (long long)pieces, 2 - failed, failed);
    free(all);
    MPI_Finalize();
    return failed;
}
