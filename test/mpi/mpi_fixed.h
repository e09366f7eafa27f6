/* mpi_fixed.h - fixed cases of mpi_test.c: one rank's faults, and what is sent, computed and held. */
enum { TOKENS = 56, HEADS = 7 * 12, DIM = 8 };            /* 12: heads for 1, 2, 3 and 4 ranks; 7 more for 7 */

/* A call of TOKENS tokens in even parts. */
typedef struct fixed { attn_desc d; attn_grad g; attn_mpi m; int64_t cut[64], other[64]; float *mem[10], sink[HEADS]; int64_t own; } fixed;
static float *filled(int64_t n, uint64_t seed)
{
    float *p = malloc((size_t)(n + 1) * 4);
    for (int64_t i = 0; i < n; i++) p[i] = (float)random_normal(&seed);
    return p;
}
static void fixed_make(fixed *f, int64_t tokens, int64_t heads, int split, uint32_t flags)
{
    memset(f, 0, sizeof *f);
    attn_mpi_cut(tokens, split, ranks, f->cut);
    f->own = attn_mpi_tokens(f->cut, split, ranks, rank);
    for (int i = 0; i < 9; i++) f->mem[i] = filled((f->own + 1) * heads * DIM, 100 + (uint64_t)i);
    f->mem[9] = filled(heads * f->own, 9);
    f->d = (attn_desc){ .batch = 1, .heads = heads, .head_dim = DIM, .q_len = tokens, .kv_len = tokens, .flags = flags, .threads = 1 };
    f->d.q.data = f->mem[0], f->d.k.data = f->mem[1], f->d.v.data = f->mem[2], f->d.o.data = f->mem[3], f->d.lse = f->mem[9];
    f->g.dout.data = f->mem[4], f->g.dq.data = f->mem[5], f->g.dk.data = f->mem[6], f->g.dv.data = f->mem[7];
    f->m.split = split, f->m.q_cut = f->m.k_cut = f->cut;
}
static void fixed_free(fixed *f) { for (int i = 0; i < 10; i++) free(f->mem[i]); }

/* ------------------------------------------------------------------------------------------------------- one rank's fault */
static const float aside[HEADS];
static const int32_t lengths[2] = { 0, TOKENS }, wrong_lengths[2] = { 1, TOKENS };
static void no_desc(fixed *f) { f->d.head_dim = -1; }
static void no_heads(fixed *f) { f->d.kv_heads = 5; }
static void no_q(fixed *f) { f->d.q.data = NULL; }
static void wrong_stride(fixed *f) { f->d.v.stride[1] = 4; }
static void overlap(fixed *f) { f->d.o.data = f->g.dq.data = f->mem[0]; }
static void other_dim(fixed *f) { f->d.head_dim = DIM / 2; }
static void other_dtype(fixed *f) { f->d.k.dtype = ATTN_F16; }
static void other_flag(fixed *f) { f->d.flags ^= ATTN_CAUSAL; }
static void other_scale(fixed *f) { f->d.flags |= ATTN_SCALE, f->d.scale = 0.5f; }
static void other_sink(fixed *f) { f->d.sink = aside; }
static void other_alibi(fixed *f) { f->d.alibi = aside; }
static void other_cut(fixed *f) { memcpy(f->other, f->cut, sizeof f->cut), f->other[1]--, f->m.k_cut = f->other; }
static void other_split(fixed *f) { f->m.split ^= 1, attn_mpi_cut(TOKENS, f->m.split, ranks, f->other), f->m.q_cut = f->m.k_cut = f->other; }
static void other_method(fixed *f) { f->m.method = "ulysses"; }
static void other_packing(fixed *f) { f->d.seq.cu_q = f->d.seq.cu_k = lengths, f->d.seq.total_q = f->d.seq.total_k = TOKENS; }
static void wrong_packing(fixed *f) { other_packing(f), f->d.seq.cu_k = wrong_lengths; }
static void bad_split(fixed *f) { f->m.split = 2; }
static void bad_method(fixed *f) { f->m.method = "star"; }
static void no_cut(fixed *f) { f->m.k_cut = NULL; }
static void short_cut(fixed *f) { memcpy(f->other, f->cut, sizeof f->cut), f->other[(f->m.split + 1) * ranks]--, f->m.q_cut = f->other; }
static void falling_cut(fixed *f) { memcpy(f->other, f->cut, sizeof f->cut), f->other[0]++, f->m.q_cut = f->other; }
static void a_bias(fixed *f) { f->d.bias.data = aside; }
static void dropout(fixed *f) { f->d.dropout = 0.5f; }
static void a_slot(fixed *f) { f->d.seq.slot = lengths, f->d.seq.slots = 1; }
static void device(fixed *f) { f->d.flags |= ATTN_DEVICE; }
static void workspace(fixed *f) { f->d.workspace = f->mem[8], f->d.workspace_size = 64; }
static void tolerance(fixed *f) { f->d.tolerance = 0.01f; }
static void planes(fixed *f) { f->d.v.dtype = ATTN_INT16; }
static void messages(fixed *f) { f->m.messages = 3; }
static void no_backend(fixed *f) { f->d.backend = "abacus"; }
static const struct { const char *name; void (*spoil)(fixed *f); attn_status status; const char *says; } faults[] = {
    { "head_dim -1", no_desc, ATTN_ERR_NEGATIVE_SIZE, "rank" }, { "kv_heads 5", no_heads, ATTN_ERR_HEADS, "rank" },
    { "no q", no_q, ATTN_ERR_NULL_Q, "rank" }, { "v strides", wrong_stride, ATTN_ERR_STRIDE_MIXED, "rank" },
    { "o and dq are q", overlap, ATTN_ERR_OVERLAP, "rank" }, { "another head_dim", other_dim, ATTN_ERR_MPI_DIFFERS, "head_dim" },
    { "k is f16", other_dtype, ATTN_ERR_MPI_DIFFERS, "the dtype of k" }, { "not causal", other_flag, ATTN_ERR_MPI_DIFFERS, "flags" },
    { "another scale", other_scale, ATTN_ERR_MPI_DIFFERS, "scale" }, { "a sink", other_sink, ATTN_ERR_MPI_DIFFERS, "sink" },
    { "ALiBi", other_alibi, ATTN_ERR_MPI_DIFFERS, "alibi" }, { "another cut", other_cut, ATTN_ERR_MPI_DIFFERS, "k_cut" },
    { "another split", other_split, ATTN_ERR_MPI_DIFFERS, "split" }, { "another method", other_method, ATTN_ERR_MPI_DIFFERS, "method" },
    { "packed", other_packing, ATTN_ERR_MPI_DIFFERS, "cu_q" }, { "packed from 1 on", wrong_packing, ATTN_ERR_CU_FIRST, "rank" },
    { "split 2", bad_split, ATTN_ERR_MPI_SPLIT, "rank" }, { "method star", bad_method, ATTN_ERR_MPI_METHOD, "rank" },
    { "no cut", no_cut, ATTN_ERR_MPI_CUT, "rank" }, { "a short cut", short_cut, ATTN_ERR_MPI_CUT, "rank" },
    { "a cut from 1 on", falling_cut, ATTN_ERR_MPI_CUT, "rank" }, { "a bias", a_bias, ATTN_ERR_MPI_MASK, "rank" },
    { "dropout", dropout, ATTN_ERR_MPI_MASK, "rank" }, { "a slot", a_slot, ATTN_ERR_MPI_CACHE, "rank" },
    { "device memory", device, ATTN_ERR_DEVICE, "rank" }, { "a workspace", workspace, ATTN_ERR_MPI_WORKSPACE, "rank" },
    { "a tolerance", tolerance, ATTN_ERR_MPI_TOLERANCE, "rank" }, { "int16", planes, ATTN_ERR_MPI_PLANES, "rank" },
    { "messages 3", messages, ATTN_ERR_MPI_MESSAGES, "rank" }, { "no such backend", no_backend, ATTN_ERR_BACKEND_UNKNOWN, "rank" },
};
static attn_status fixed_call(fixed *f, int back)
{
    return back ? attn_mpi_backward(&f->d, &f->g, &f->m, MPI_COMM_WORLD) : attn_mpi_forward(&f->d, &f->m, MPI_COMM_WORLD);
}
static int untouched(const fixed *f, int back)
{
    int ok = 1;
    for (int i = back ? 5 : 3; i < (back ? 8 : 4); i++) {
        float *was = filled(f->own * f->d.heads * DIM, 100 + (uint64_t)i);
        ok &= !memcmp(was, f->mem[i], (size_t)(f->own * f->d.heads * DIM) * 4);
        free(was);
    }
    return ok;
}
static void one_ranks_fault(void)
{
    char message[256];
    for (size_t n = 0; n < sizeof faults / sizeof *faults; n++)
        for (int back = 0; back < 2; back++) {
            fixed f;
            const int who = (int)(n + (size_t)back) % ranks, differs = faults[n].status == ATTN_ERR_MPI_DIFFERS;
            if (differs && ranks == 1) continue;
            fixed_make(&f, TOKENS, HEADS, (int)n % 2, ATTN_CAUSAL);
            f.d.message = message, f.d.message_size = sizeof message, message[0] = 0;
            if (rank == who) faults[n].spoil(&f);
            const attn_status s = fixed_call(&f, back);
            f.d.heads = HEADS;
            expect(s == faults[n].status && strstr(message, faults[n].says) && untouched(&f, back), faults[n].name, s ? message : "not refused");
            fixed_free(&f);
        }
    fixed f;                                              /* no description, no attn_mpi, no communicator; another call */
    fixed_make(&f, TOKENS, HEADS, 0, 0);
    attn_status s = attn_mpi_forward(rank ? &f.d : NULL, &f.m, MPI_COMM_WORLD);
    expect(s == ATTN_ERR_NULL_DESC, "no description on rank 0", attn_status_text(s));
    s = attn_mpi_backward(&f.d, rank ? &f.g : NULL, &f.m, MPI_COMM_WORLD);
    expect(s == ATTN_ERR_NULL_GRAD, "no gradients on rank 0", attn_status_text(s));
    s = attn_mpi_forward(&f.d, rank == ranks - 1 ? NULL : &f.m, MPI_COMM_WORLD);
    expect(s == ATTN_ERR_MPI_SPLIT, "no attn_mpi on the last rank", attn_status_text(s));
    s = attn_mpi_forward(&f.d, &f.m, MPI_COMM_NULL);
    expect(s == ATTN_ERR_MPI_COMM, "MPI_COMM_NULL", attn_status_text(s));
    if (ranks > 1) {
        float *whole = filled(2 * TOKENS * HEADS * DIM, 11);          /* decode has all of q and o */
        attn_desc all = f.d;
        all.q.data = whole, all.o.data = whole + TOKENS * HEADS * DIM, all.lse = NULL;
        s = rank ? attn_mpi_forward(&f.d, &f.m, MPI_COMM_WORLD) : attn_mpi_decode(&all, &f.m, MPI_COMM_WORLD);
        expect(s == ATTN_ERR_MPI_DIFFERS, "decode on rank 0", attn_status_text(s));
        free(whole);
    }
    expect(untouched(&f, 0), "forward", "a refused call wrote");
    fixed_free(&f);
}

/* -------------------------------------------------------------------------------------------- memory: faults, and how much */
static int64_t alive, most, calls, fail_call;
static void *memory_get(void *user, size_t size, size_t align)
{
    void *p = NULL;
    (void)user;
    if (++calls == fail_call || posix_memalign(&p, align, size)) return NULL;
    alive += (int64_t)size, most = alive > most ? alive : most;
    return p;
}
static void memory_put(void *user, void *p, size_t size) { (void)user, alive -= (int64_t)size, free(p); }
static const attn_alloc counting_memory = { memory_get, memory_put, NULL };

static void no_memory(void)
{
    static const char *const methods[] = { "ring", "ulysses" };
    for (int n = 0; n < 4; n++) {
        fixed f;
        int64_t at = 0;
        attn_status s = ATTN_ERR_MEMORY;
        for (; s == ATTN_ERR_MEMORY && at < 60; at += ranks) {          /* every allocation of one rank alone */
            fixed_make(&f, TOKENS, HEADS, 1, ATTN_CAUSAL);
            if (n % 2) attn_mpi_forward(&f.d, &f.m, MPI_COMM_WORLD);
            f.d.alloc = &counting_memory, f.m.method = methods[n / 2];
            alive = calls = 0, fail_call = rank == ranks / 2 ? at + 1 : 0;
            float *const kept = f.mem[n % 2 ? 5 : 3], *was = filled(f.own * HEADS * DIM, 100 + (n % 2 ? 5 : 3));
            s = fixed_call(&f, n % 2);
            if (s) expect(s == ATTN_ERR_MEMORY && !alive && !memcmp(was, kept, (size_t)(f.own * HEADS * DIM) * 4), "no memory", attn_status_text(s));
            free(was), fixed_free(&f);
        }
        expect(!s && !alive && at > 8, "memory at last", attn_status_text(s));
        fail_call = 0;
    }
}
/* Twice the tokens: at most twice the memory; and of the tokens of a rank a fixed multiple, however many ranks there are. */
static void held(void)
{
    for (int back = 0; back < 2; back++)
        for (int n = 0; n < 2; n++) {
            fixed f;
            static int64_t before;
            const int64_t tokens = (int64_t)(n + 1) * 420 * ranks;
            fixed_make(&f, tokens, 4, 0, ATTN_CAUSAL);
            if (back) attn_mpi_forward(&f.d, &f.m, MPI_COMM_WORLD);
            f.d.alloc = &counting_memory, alive = most = 0;
            const attn_status s = fixed_call(&f, back);
            const int64_t rows = f.own * 4 * DIM * 4;     /* bytes of q */
            if (!rank) printf("%d ranks, %s: %lld tokens a rank, q of %lld bytes, %lld held\n", ranks, back ? "backward" : "forward",
                              (long long)f.own, (long long)rows, (long long)most);
            expect(!s && most < (back ? 16 : 10) * rows + 400000, "memory", "more than a multiple of the rank's tokens");
            if (n) expect(most < 2 * before + 100000, "memory", "more than twice as much for twice the tokens");
            before = most;
            fixed_free(&f);
        }
}

/* --------------------------------------------------------------------------------------- what is computed, and what is sent */
static int64_t runs, fail_run;
static attn_status counted_plan(void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan)
{
    const attn_backend *flash = attn_backend_find("flash");
    (void)user;
    return flash->plan(flash->user, d, g, plan);
}
static attn_status counted_run(void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan)
{
    const attn_backend *flash = attn_backend_find("flash");
    (void)user;
    return ++runs == fail_run ? ATTN_ERR_GPU : flash->run(flash->user, d, g, plan);
}
/* Even parts, causal: rank r works on r + 1 blocks, and its keys go to the ranks behind it; with a window of one part on 2 at most.
 * Zigzag: 2 x ranks + 1 blocks on every rank. */
static void skipped_parts(void)
{
    const int64_t tokens = 8 * ranks, each = 8 * 4 * DIM * 4 * 2;
    for (int n = 0; n < 6; n++) {
        fixed f;
        const int back = n % 2, window = n / 2 == 1, zigzag = n / 2 == 2;
        fixed_make(&f, tokens, 4, zigzag, ATTN_CAUSAL | (window ? ATTN_WINDOW_LEFT : 0));
        if (window) f.d.window_left = 8;
        if (back) attn_mpi_forward(&f.d, &f.m, MPI_COMM_WORLD);
        f.d.backend = "counted", runs = sent_keys = 0;
        attn_mpi_times times = { 0 };
        f.m.times = &times;
        const attn_status s = fixed_call(&f, back);
        const int64_t follow = ranks - 1 - rank;          /* messages that this rank sends: its own and what it passes on */
        int64_t blocks = window ? rank ? 2 : 1 : rank + 1, messages = window ? follow > 0 : follow ? rank + 1 : 0;
        if (zigzag) blocks = 2 * ranks + 1, messages = ranks - 1;
        char text[128];
        snprintf(text, sizeof text, "%lld blocks and %lld bytes of keys, not %lld and %lld", (long long)runs, (long long)sent_keys, (long long)blocks,
                 (long long)(messages * each));
        expect(!s && runs == blocks && (zigzag ? sent_keys <= messages * each : sent_keys == messages * each), window ? "window" : zigzag ? "zigzag" : "causal", text);
        expect(back || times.sent == sent_keys, "times", "other bytes than were sent");
        fixed_free(&f);
    }
    for (int n = 0; n < 2; n++) {                         /* a backend that fails on the last rank */
        fixed f;
        fixed_make(&f, tokens, 4, 0, ATTN_CAUSAL);
        if (n) attn_mpi_forward(&f.d, &f.m, MPI_COMM_WORLD);
        f.d.backend = "counted", runs = 0, fail_run = rank == ranks - 1 ? ranks : 0;
        float *was = filled(f.own * 4 * DIM, n ? 105 : 103);
        const attn_status s = fixed_call(&f, n);
        expect(s == ATTN_ERR_GPU && !memcmp(was, f.mem[n ? 5 : 3], (size_t)(f.own * 4 * DIM) * 4), "a backend fails", attn_status_text(s));
        fail_run = 0, free(was), fixed_free(&f);
    }
}

/* Packed sequences of 7 tokens, of which 4 are keys and the others NaN: many in one call, cut by the ranks anywhere. */
static void packed_gaps(void)
{
    enum { SEQUENCES = 30 };
    const int64_t all = 7 * SEQUENCES, row = 4 * DIM;
    static int32_t cu[SEQUENCES + 1], used[SEQUENCES];
    float *q = filled(all * row, 1), *k = filled(all * row, 2), *v = filled(all * row, 3), *o = filled(all * row, 4);
    for (int b = 0; b <= SEQUENCES; b++) cu[b] = 7 * b;
    for (int b = 0; b < SEQUENCES; b++) used[b] = 4;
    for (int64_t i = 0; i < all * row; i++) if (i / row % 7 >= 4) k[i] = v[i] = NAN;
    attn_desc d = { .batch = SEQUENCES, .heads = 4, .head_dim = DIM, .q_len = 7, .kv_len = 7, .threads = 1 };
    d.seq.cu_q = d.seq.cu_k = cu, d.seq.total_q = d.seq.total_k = all, d.seq.used_k = used;
    d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o;
    attn_status s = attn_forward(&d);
    for (int causal = 0; causal < 2 && !s; causal++) {
        int64_t cut[64];
        d.flags = causal ? ATTN_CAUSAL | ATTN_TOP_LEFT : 0;
        d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o;
        attn_forward(&d);
        attn_mpi_cut(all, ATTN_MPI_RANGES, ranks, cut);
        const int64_t from = cut[rank] * row, n = (cut[rank + 1] - cut[rank]) * row;
        attn_mpi m = { .q_cut = cut, .k_cut = cut };
        float *mine = filled(n, 5), worst = 0;
        d.q.data = q + from, d.k.data = k + from, d.v.data = v + from, d.o.data = mine;
        s = attn_mpi_forward(&d, &m, MPI_COMM_WORLD);
        for (int64_t i = 0; i < n; i++) if (!(fabsf(mine[i] - o[from + i]) <= worst)) worst = is_finitef(mine[i]) ? fabsf(mine[i] - o[from + i]) : 9;
        expect(!s && worst < 1e-5f, "packed with gaps", s ? attn_status_text(s) : "another o");
        free(mine);
    }
    free(q), free(k), free(v), free(o);
}

static void fixed_tests(void)
{
    const attn_backend counted = { .name = "counted", .abi = ATTN_ABI, .plan = counted_plan, .run = counted_run };
    expect(attn_register(&counted) == ATTN_OK, "register", "refused");
    one_ranks_fault();
    no_memory();
    packed_gaps();
    skipped_parts();
    held();
    expect(longest <= ATTN_MPI_PIECE && (ranks == 1 || longest == ATTN_MPI_PIECE), "pieces", "a message is longer than ATTN_MPI_PIECE, or none is as long");
}
