/* mpi_device.h - the calls of mpi_test.c with every tensor in device memory: attn_hip.c in the simulator of test/hipsim, or on a GPU.
 * Which ranks send from device memory and which through host memory is drawn for each call and rank: the bits must be the same. */
#include "../gpu/hip.h"

/* A call's tensors moved to the device, and back. */
enum { ALIBI = PARTS, SINK, DSINK, BLOCKS };
typedef struct on_device { attn_desc d; attn_grad g; attn_mpi m; void *block[BLOCKS]; hipStream_t stream; } on_device;
static void *heads_block(const void *x, int64_t heads) { return x ? hip_copy_in(x, (size_t)heads * 4) : NULL; }
static void device_make(on_device *x, const mpi_case *m)
{
    memset(x, 0, sizeof *x);
    x->d = m->d, x->g = m->g, x->m = m->m;
    for (int i = 0; i < PARTS; i++) x->block[i] = m->p[i].mem ? hip_copy_in(m->p[i].mem, m->p[i].bytes) : NULL;
    x->block[ALIBI] = heads_block(m->d.alibi, m->d.heads), x->block[SINK] = heads_block(m->d.sink, m->d.heads);
    x->block[DSINK] = heads_block(m->g.dsink, m->d.heads);
    x->d.flags |= ATTN_DEVICE | ATTN_SEQ_HOST;
    if (m->d.q.data) x->d.q.data = x->block[Q];
    x->d.k.data = x->block[K], x->d.v.data = x->block[V], x->d.o.data = x->block[O], x->d.lse = x->block[LSE];
    x->d.k.scale = x->block[KS], x->d.v.scale = x->block[VS], x->d.alibi = x->block[ALIBI], x->d.sink = x->block[SINK];
    x->g.dout.data = x->block[DOUT], x->g.dlse = x->block[DLSE], x->g.dsink = x->block[DSINK];
    x->g.dq.data = x->block[DQ], x->g.dk.data = x->block[DK], x->g.dv.data = x->block[DV];
    x->m.messages = random_bits(&clock_state) % 2 ? ATTN_MPI_STAGED : ATTN_MPI_DIRECT;
    if (random_bits(&clock_state) % 2) hip_must(hipStreamCreateWithFlags(&x->stream, hipStreamNonBlocking), "hipStreamCreateWithFlags");
    x->d.stream = x->stream;
}
static void device_fetch(on_device *x, const mpi_case *m)
{
    for (int i = 0; i < PARTS; i++)
        if (m->p[i].mem && m->p[i].bytes) hip_must(hipMemcpy(m->p[i].mem, x->block[i], m->p[i].bytes, hipMemcpyDeviceToHost), "hipMemcpy");
    if (m->g.dsink) hip_must(hipMemcpy(m->g.dsink, x->block[DSINK], (size_t)m->d.heads * 4, hipMemcpyDeviceToHost), "hipMemcpy");
    for (int i = 0; i < BLOCKS; i++) hip_must(hipFree(x->block[i]), "hipFree");
    if (x->stream) hip_must(hipStreamDestroy(x->stream), "hipStreamDestroy");
}
static attn_status mpi_call(mpi_case *m, int decode, int back)
{
    on_device x;
    attn_mpi_times times = { 0 };
    device_make(&x, m);
    x.m.times = &times;
    const int64_t alive = hip_alive;
    const attn_status s = call_of(&x.d, &x.g, &x.m, decode, back);
    expect(hip_alive == alive, "device memory", "something of the call is left");
    if (!s) expect(times.messages == x.m.messages, "messages", "went another way than was asked");
    device_fetch(&x, m);
    return s;
}
/* What backend "hip" declines, it declines on every rank that has work to do. */
static int may_decline(const proof_case *c, int back) { return (c->features & hip_outside(back)) != 0; }
static double unit_of(const proof_case *c) { return hip_p_unit(&c->d); }
static double grad_unit_of(const proof_case *c) { return hip_grad_unit(&c->d, &c->g); }

/* ------------------------------------------------------------------------------------------------------------- fixed cases */
enum { TOKENS = 24, HEADS = 6, DIM = 8, ROW = HEADS * DIM };
/* q, k, v, o, dout, dq, dk, dv of a rank and its lse; o and gradients are filled too, to see that a refused call writes nothing */
typedef struct gpu_fixed { attn_desc d; attn_grad g; attn_mpi m; int64_t cut[64], own; float *mem[9], *host[9]; size_t bytes[9]; } gpu_fixed;
static void gpu_make(gpu_fixed *f, int split)
{
    memset(f, 0, sizeof *f);
    attn_mpi_cut(TOKENS, split, ranks, f->cut);
    f->own = attn_mpi_tokens(f->cut, split, ranks, rank);
    for (int i = 0; i < 9; i++) {
        uint64_t seed = 100 + (uint64_t)(10 * rank + i);
        const int64_t n = f->own * (i == 8 ? HEADS : ROW);
        f->bytes[i] = (size_t)n * 4, f->host[i] = malloc(f->bytes[i] + 4);
        for (int64_t x = 0; x < n; x++) f->host[i][x] = (float)random_normal(&seed);
        f->mem[i] = hip_copy_in(f->host[i], f->bytes[i]);
    }
    f->d = (attn_desc){ .batch = 1, .heads = HEADS, .head_dim = DIM, .q_len = TOKENS, .kv_len = TOKENS, .flags = ATTN_CAUSAL | ATTN_DEVICE };
    f->d.q.data = f->mem[0], f->d.k.data = f->mem[1], f->d.v.data = f->mem[2], f->d.o.data = f->mem[3], f->d.lse = f->mem[8];
    f->g.dout.data = f->mem[4], f->g.dq.data = f->mem[5], f->g.dk.data = f->mem[6], f->g.dv.data = f->mem[7];
    f->m.split = split, f->m.q_cut = f->m.k_cut = f->cut;
}
static void gpu_free(gpu_fixed *f) { for (int i = 0; i < 9; i++) free(f->host[i]), hip_must(hipFree(f->mem[i]), "hipFree"); }
static attn_status gpu_call(gpu_fixed *f, int back)
{
    return back ? attn_mpi_backward(&f->d, &f->g, &f->m, MPI_COMM_WORLD) : attn_mpi_forward(&f->d, &f->m, MPI_COMM_WORLD);
}
/* Whether what a call writes is as it was; `keep`: from now on it is what it is. */
static int gpu_untouched(gpu_fixed *f, int back, int keep)
{
    int ok = 1;
    for (int i = back ? 5 : 3; i < 9; i += !back && i == 3 ? 5 : 1) {
        if (back && i == 8) continue;
        char *now = malloc(f->bytes[i] + 4);
        hip_must(hipDeviceSynchronize(), "hipDeviceSynchronize");
        hip_must(hipMemcpy(now, f->mem[i], f->bytes[i], hipMemcpyDeviceToHost), "hipMemcpy");
        ok &= !memcmp(now, f->host[i], f->bytes[i]);
        if (keep) memcpy(f->host[i], now, f->bytes[i]);
        free(now);
    }
    return ok;
}
static void refused(void)
{
    static const int32_t cu[2] = { 0, TOKENS };
    static const struct { const char *name; attn_status status; } faults[] = {
        { "lengths in device memory", ATTN_ERR_MPI_DEVICE }, { "messages 3", ATTN_ERR_MPI_MESSAGES }, { "host tensors on one rank", ATTN_ERR_MPI_DIFFERS },
        { "a backend without a device", ATTN_ERR_DEVICE }, { "device 7", ATTN_ERR_NO_DEVICE }, { "another sink", ATTN_ERR_MPI_DIFFERS },
        { "another slope", ATTN_ERR_MPI_DIFFERS },
    };
    static const float heads[2][HEADS] = { { 0 }, { 1 } };
    float *per_head[2] = { hip_copy_in(heads[0], sizeof heads[0]), hip_copy_in(heads[1], sizeof heads[1]) };
    for (size_t n = 0; n < sizeof faults / sizeof *faults; n++)
        for (int back = 0; back < 2; back++) {
            gpu_fixed f;
            const int who = (int)n % ranks;
            if (ranks == 1 && faults[n].status == ATTN_ERR_MPI_DIFFERS) continue;
            gpu_make(&f, (int)n % 2);
            if (n == 5) f.d.sink = per_head[rank == who];
            if (n == 6) f.d.alibi = per_head[rank == who];
            if (rank == who) {
                if (n == 0) f.d.seq.cu_q = f.d.seq.cu_k = cu, f.d.seq.total_q = f.d.seq.total_k = TOKENS;
                if (n == 1) f.m.messages = 3;
                if (n == 2) f.d.flags &= ~(uint32_t)ATTN_DEVICE;
                if (n == 3) f.d.backend = "flash";
                if (n == 4) f.d.device = 7;
            }
            const int64_t alive = hip_alive;
            const attn_status s = gpu_call(&f, back);
            expect(s == faults[n].status && gpu_untouched(&f, back, 0) && hip_alive == alive, faults[n].name, attn_status_text(s));
            gpu_free(&f);
        }
    for (int i = 0; i < 2; i++) hip_must(hipFree(per_head[i]), "hipFree");
}
/* Each call of the runtime fails once, on one rank: all ranks say so, nothing is left, and nothing is written before the last step. Of
 * two ranks about every third call, of three every fifth, where few cases are asked for: it takes minutes. In even steps they would be the same
 * ones of each copy. */
static void failing_calls(void)
{
    const int every = thorough ? 1 : 2 * ranks - 1;
    for (int n = 0; n < 4; n++) {
        gpu_fixed f;
        int64_t at = 1 + n % every, tried = 0, errors = 0;
        uint64_t draw = 40 + (uint64_t)n;                 /* the same on all ranks */
        const int who = n % ranks, back = n % 2;
        gpu_make(&f, n / 2);
        f.m.messages = n / 2 ? ATTN_MPI_STAGED : ATTN_MPI_DIRECT;
        if (back) expect(!gpu_call(&f, 0), "forward", "refused");
        expect(!gpu_call(&f, back), "a call", "refused");
        gpu_untouched(&f, back, 1);                       /* the outputs as they should be */
        for (int reached = 1; reached && at < 2000; at += 1 + (int64_t)(random_bits(&draw) % (uint64_t)(2 * every - 1))) {
            for (int i = back ? 5 : 3; i < (back ? 8 : 4); i++) hip_must(hipMemset(f.mem[i], 255, f.bytes[i]), "hipMemset");
            hip_must(hipDeviceSynchronize(), "hipDeviceSynchronize");
            const int64_t alive = hip_alive, last = hip_calls + at;
            tried++;
            if (rank == who) hip_fail_at = last;
            const attn_status s = common_status(gpu_call(&f, back), "a failing call");
            hip_fail_at = 0, reached = hip_calls >= last;
            PMPI_Bcast(&reached, 1, MPI_INT, who, MPI_COMM_WORLD);
            (void)hipGetLastError();
            expect(hip_alive == alive, "a failing call", "something is left");
            if (s) errors++;
            else expect(gpu_untouched(&f, back, 0), "a failing call", "is not noticed");
        }
        expect(errors * every > 40, "failing calls", "too few");
        if (!rank) printf("%d calls of rank %d fail, %d of them with an error\n", (int)tried - 1, who, (int)errors);
        gpu_free(&f);
    }
}
/* MPI is asked; through host memory and from device memory the same bits. */
static void ways(void)
{
    for (int back = 0; back < 2; back++) {
        gpu_fixed f;
        attn_mpi_times times;
        gpu_make(&f, 1);
        f.m.times = &times;
        if (back) expect(!gpu_call(&f, 0), "forward", "refused");
        for (int messages = ATTN_MPI_ASK; messages <= ATTN_MPI_DIRECT; messages++) {
            f.m.messages = messages;
            const attn_status s = gpu_call(&f, back);
            expect(!s && (messages ? times.messages == messages : times.messages == ATTN_MPI_STAGED || times.messages == ATTN_MPI_DIRECT), "messages", attn_status_text(s));
            const int same_bits = gpu_untouched(&f, back, 1);
            if (messages) expect(same_bits, "messages", "other bits another way");
            if (!messages && !rank && !back) printf("MPI was asked: messages %s\n", times.messages == ATTN_MPI_DIRECT ? "from device memory" : "through host memory");
        }
        gpu_free(&f);
    }
}
static void fixed_tests(void)
{
    refused();
    ways();
    failing_calls();
}
