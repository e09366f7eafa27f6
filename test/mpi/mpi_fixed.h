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
static void fixed_fill(fixed *f, int64_t tokens, int64_t heads, int split, uint32_t flags)
{
    f->own = attn_mpi_tokens(f->cut, split, ranks, rank);
    for (int i = 0; i < 9; i++) f->mem[i] = filled((f->own + 1) * heads * DIM, 100 + (uint64_t)i);
    f->mem[9] = filled(heads * f->own, 9);
    f->d = (attn_desc){ .batch = 1, .heads = heads, .head_dim = DIM, .q_len = tokens, .kv_len = tokens, .flags = flags, .threads = 1 };
    f->d.q.data = f->mem[0], f->d.k.data = f->mem[1], f->d.v.data = f->mem[2], f->d.o.data = f->mem[3], f->d.lse = f->mem[9];
    f->g.dout.data = f->mem[4], f->g.dq.data = f->mem[5], f->g.dk.data = f->mem[6], f->g.dv.data = f->mem[7];
    f->m.split = split, f->m.q_cut = f->m.k_cut = f->cut;
}
static void fixed_make(fixed *f, int64_t tokens, int64_t heads, int split, uint32_t flags)
{
    memset(f, 0, sizeof *f);
    attn_mpi_cut(tokens, split, ranks, f->cut);
    fixed_fill(f, tokens, heads, split, flags);
}
/* The same with all tokens on one rank. */
static void fixed_one(fixed *f, int who, uint32_t flags)
{
    memset(f, 0, sizeof *f);
    for (int i = who + 1; i <= ranks; i++) f->cut[i] = TOKENS;
    fixed_fill(f, TOKENS, HEADS, 0, flags);
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
static void two_at_one_place(fixed *f) { f->g.dq.data = f->g.dk.data; }
static void other_dim(fixed *f) { f->d.head_dim = DIM / 2; }
static void other_dtype(fixed *f) { f->d.k.dtype = ATTN_F16; }
static void other_flag(fixed *f) { f->d.flags ^= ATTN_CAUSAL; }
static void other_scale(fixed *f) { f->d.flags |= ATTN_SCALE, f->d.scale = 0.5f; }
static void other_sink(fixed *f) { f->d.sink = aside; }
static void other_alibi(fixed *f) { f->d.alibi = aside; }
static void other_cut(fixed *f) { memcpy(f->other, f->cut, sizeof f->cut), f->other[1]--, f->m.k_cut = f->other; }
static void other_late_cut(fixed *f) { memcpy(f->other, f->cut, sizeof f->cut), f->other[f->m.split == ATTN_MPI_ZIGZAG ? 2 * ranks - 1 : 1]--, f->m.k_cut = f->other; }
static void other_split(fixed *f) { f->m.split ^= 1, attn_mpi_cut(TOKENS, f->m.split, ranks, f->other), f->m.q_cut = f->m.k_cut = f->other; }
static void other_method(fixed *f) { f->m.method = "ulysses"; }
static void other_packing(fixed *f) { f->d.seq.cu_q = f->d.seq.cu_k = lengths, f->d.seq.total_q = f->d.seq.total_k = TOKENS; }
static void wrong_packing(fixed *f) { other_packing(f), f->d.seq.cu_k = wrong_lengths; }
static const int32_t two[3] = { 0, 20, TOKENS }, two_others[3] = { 0, 21, TOKENS };
static void shorter(fixed *f, const int64_t **cut) { memcpy(f->other, f->cut, sizeof f->cut), f->other[(f->m.split + 1) * ranks]--, *cut = f->other; }
static void other_q_len(fixed *f) { f->d.q_len--, shorter(f, &f->m.q_cut); }
static void other_kv_len(fixed *f) { f->d.kv_len--, shorter(f, &f->m.k_cut); }
static void other_q_cut(fixed *f) { other_cut(f), f->m.k_cut = f->cut, f->m.q_cut = f->other; }
static void other_batch(fixed *f) { f->d.batch = 0; }
static void other_heads(fixed *f) { f->d.heads = HEADS / 2; }
static void other_kv_heads(fixed *f) { f->d.kv_heads = HEADS / 2; }
static void other_v_dim(fixed *f) { f->d.v_dim = DIM / 2; }
static void q_dtype(fixed *f) { f->d.q.dtype = ATTN_F16; }
static void v_dtype(fixed *f) { f->d.v.dtype = ATTN_F16; }
static void o_dtype(fixed *f) { f->d.o.dtype = ATTN_F16; }
static void dout_dtype(fixed *f) { f->g.dout.dtype = ATTN_F16; }
static void no_lse(fixed *f) { f->d.lse = NULL; }
static void a_softcap(fixed *f) { f->d.softcap = 30; }
static void offsets(fixed *f) { f->d.flags |= ATTN_OFFSET, f->d.offset = 1; }
static void other_offset(fixed *f) { f->d.offset = 2; }
static void windows(fixed *f) { f->d.flags = ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, f->d.window_left = f->d.window_right = 9; }
static void other_left(fixed *f) { f->d.window_left++; }
static void other_right(fixed *f) { f->d.window_right++; }
static void a_dlse(fixed *f) { f->g.dlse = f->mem[8]; }
static void sinks(fixed *f) { f->d.sink = aside; }
static void a_dsink(fixed *f) { f->g.dsink = f->sink; }
static void a_used_q(fixed *f) { f->d.seq.used_q = lengths + 1; }
static void a_used_k(fixed *f) { f->d.seq.used_k = lengths + 1; }
static void a_start_k(fixed *f) { f->d.seq.start_k = wrong_lengths; }
static void packed(fixed *f) { f->d.batch = 2, f->d.seq.cu_q = f->d.seq.cu_k = two, f->d.seq.total_q = f->d.seq.total_k = TOKENS; }
static void other_cu_k(fixed *f) { f->d.seq.cu_k = two_others; }
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
/* the fault of one rank, what all messages end in, and the number of the rank, of that rank alone behind the colon (forward/backward), what all ranks have beside it, and whether forward or backward alone has it (1, 2) */
static const struct { const char *name; void (*spoil)(fixed *f); attn_status status; const char *says; void (*all)(fixed *f); int only; } faults[] = {
    { "head_dim -1", no_desc, ATTN_ERR_NEGATIVE_SIZE, "rank", NULL, 0 }, { "kv_heads 5", no_heads, ATTN_ERR_HEADS, "rank", NULL, 0 },
    { "no q", no_q, ATTN_ERR_NULL_Q, "rank", NULL, 0 }, { "v strides", wrong_stride, ATTN_ERR_STRIDE_MIXED, "rank: v", NULL, 0 },
    { "o and dq are q", overlap, ATTN_ERR_OVERLAP, "rank: o and q/: dq and q", NULL, 0 }, { "another head_dim", other_dim, ATTN_ERR_MPI_DIFFERS, "head_dim", NULL, 0 },
    { "k is f16", other_dtype, ATTN_ERR_MPI_DIFFERS, "the dtype of k", NULL, 0 },
    { "not causal", other_flag, ATTN_ERR_MPI_DIFFERS, "flags", NULL, 0 }, { "another scale", other_scale, ATTN_ERR_MPI_DIFFERS, "scale", NULL, 0 },
    { "a sink", other_sink, ATTN_ERR_MPI_DIFFERS, "sink", NULL, 0 }, { "ALiBi", other_alibi, ATTN_ERR_MPI_DIFFERS, "alibi", NULL, 0 },
    { "another cut", other_cut, ATTN_ERR_MPI_DIFFERS, "k_cut", NULL, 0 }, { "another split", other_split, ATTN_ERR_MPI_DIFFERS, "split", NULL, 0 },
    { "another method", other_method, ATTN_ERR_MPI_DIFFERS, "method", NULL, 0 }, { "packed", other_packing, ATTN_ERR_MPI_DIFFERS, "cu_q", NULL, 0 },
    { "packed from 1 on", wrong_packing, ATTN_ERR_CU_FIRST, "rank: cu_k", NULL, 0 }, { "split 2", bad_split, ATTN_ERR_MPI_SPLIT, "rank", NULL, 0 },
    { "method star", bad_method, ATTN_ERR_MPI_METHOD, "rank", NULL, 0 }, { "no cut", no_cut, ATTN_ERR_MPI_CUT, "rank", NULL, 0 },
    { "a short cut", short_cut, ATTN_ERR_MPI_CUT, "rank", NULL, 0 }, { "a cut from 1 on", falling_cut, ATTN_ERR_MPI_CUT, "rank", NULL, 0 },
    { "a bias", a_bias, ATTN_ERR_MPI_MASK, "rank", NULL, 0 }, { "dropout", dropout, ATTN_ERR_MPI_MASK, "rank", NULL, 0 },
    { "a slot", a_slot, ATTN_ERR_MPI_CACHE, "rank", NULL, 0 }, { "device memory", device, ATTN_ERR_DEVICE, "rank", NULL, 0 },
    { "a workspace", workspace, ATTN_ERR_MPI_WORKSPACE, "rank", NULL, 0 }, { "a tolerance", tolerance, ATTN_ERR_MPI_TOLERANCE, "rank", NULL, 0 },
    { "int16", planes, ATTN_ERR_MPI_PLANES, "rank", NULL, 0 }, { "messages 3", messages, ATTN_ERR_MPI_MESSAGES, "rank", NULL, 0 },
    { "no such backend", no_backend, ATTN_ERR_BACKEND_UNKNOWN, "rank", NULL, 0 },
    { "dq is dk", two_at_one_place, ATTN_ERR_OVERLAP, "rank: dk and dq", NULL, 2 },
#define DIFFERS(what, spoil, ...) { what, spoil, ATTN_ERR_MPI_DIFFERS, what, __VA_ARGS__ }
    DIFFERS("batch", other_batch, NULL, 0), DIFFERS("q_len", other_q_len, NULL, 0), DIFFERS("kv_len", other_kv_len, NULL, 0),
    DIFFERS("heads", other_heads, NULL, 0), DIFFERS("kv_heads", other_kv_heads, NULL, 0), DIFFERS("v_dim", other_v_dim, NULL, 0),
    DIFFERS("the dtype of q", q_dtype, NULL, 0), DIFFERS("the dtype of v", v_dtype, NULL, 0), DIFFERS("the dtype of o", o_dtype, NULL, 0),
    DIFFERS("the dtype of dout", dout_dtype, NULL, 2), DIFFERS("lse, given or not", no_lse, NULL, 1), DIFFERS("softcap", a_softcap, NULL, 0),
    DIFFERS("offset", other_offset, offsets, 0), DIFFERS("window_left", other_left, windows, 0), DIFFERS("window_right", other_right, windows, 0),
    DIFFERS("dlse, given or not", a_dlse, NULL, 2), DIFFERS("dsink, given or not", a_dsink, sinks, 2), DIFFERS("used_q", a_used_q, NULL, 0),
    DIFFERS("used_k", a_used_k, NULL, 0), DIFFERS("start_k", a_start_k, NULL, 0), DIFFERS("cu_k", other_cu_k, packed, 0),
    DIFFERS("q_cut", other_q_cut, NULL, 0), DIFFERS("k_cut", other_late_cut, NULL, 0), DIFFERS("k_cut", other_late_cut, NULL, 0),
};
static attn_status fixed_call(fixed *f, int back)
{
    return back ? attn_mpi_backward(&f->d, &f->g, &f->m, MPI_COMM_WORLD) : attn_mpi_forward(&f->d, &f->m, MPI_COMM_WORLD);
}
/* q and o of all ranks, as decode has them */
static attn_desc decoding(const fixed *f, float *whole)
{
    attn_desc d = f->d;
    d.q_len = 3, d.q.data = whole, d.o.data = whole + 3 * HEADS * DIM, d.lse = NULL, d.flags = 0;
    return d;
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
static int ends(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}
static void one_ranks_fault(void)
{
    char message[256], says[64];
    attn_mpi_times times;
    for (size_t n = 0; n < sizeof faults / sizeof *faults; n++)
        for (int back = 0; back < 2; back++) {
            fixed f;
            const int who = (int)(n + (size_t)back) % ranks, differs = faults[n].status == ATTN_ERR_MPI_DIFFERS;
            if ((differs && ranks == 1) || faults[n].only == 2 - back) continue;
            fixed_make(&f, TOKENS, HEADS, (int)n % 2, ATTN_CAUSAL);
            f.d.message = message, f.d.message_size = sizeof message, message[0] = 0;
            f.m.times = &times, times.sent = -1;
            if (faults[n].all) faults[n].all(&f);
            if (rank == who) faults[n].spoil(&f);
            const attn_status s = fixed_call(&f, back);
            f.d.heads = HEADS;
            if (differs) snprintf(says, sizeof says, ": %s", faults[n].says);
            else {
                const char *own = strchr(faults[n].says, ':'), *other = own ? strchr(own, '/') : NULL;
                snprintf(says, sizeof says, ": rank %d", who);
                if (rank == who && own) sprintf(says + strlen(says), "%.*s", other && !back ? (int)(other - own) : 40, other && back ? other + 1 : own);
            }
            expect(s == faults[n].status && ends(message, says) && untouched(&f, back) && times.sent == -1, faults[n].name, s ? message : "not refused");
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

/* A backend that is not there, named by one rank without tokens, or by all where no row sees a key. */
static void backend_of_nothing(void)
{
    for (int n = 0; n < 6; n++) {
        fixed f;
        char message[256] = "", says[32];
        const int decode = n / 2 == 2, back = n / 2 == 1, who = n % 2 ? ranks - 1 : n / 2 % ranks;
        float *whole = filled(6 * HEADS * DIM, 12);
        fixed_one(&f, (who + 1) % ranks, ATTN_CAUSAL | ATTN_OFFSET);
        f.d.offset = n % 2 ? -TOKENS : 0, f.d.message = message, f.d.message_size = sizeof message;
        if (n % 2 || rank == who) f.d.backend = "abacus";
        attn_desc d = decoding(&f, whole);
        d.flags = f.d.flags;
        snprintf(says, sizeof says, ": rank %d", who);
        const attn_status s = decode ? attn_mpi_decode(&d, &f.m, MPI_COMM_WORLD) : fixed_call(&f, back);
        expect(s == ATTN_ERR_BACKEND_UNKNOWN && ends(message, says) && untouched(&f, back), "no such backend, nothing to run", s ? message : "not refused");
        free(whole), fixed_free(&f);
    }
}

/* All tokens on one rank. The others may leave out what they have no rows of, or give it where that rank does not: the same bits. */
static void rows_elsewhere(void)
{
    static const float ones[TOKENS * HEADS] = { 1, 2, 3 };
    static const signed char codes[TOKENS * HEADS * DIM] = { 100, -100, 50 };
    for (int n = 0; n < 24; n++) {
        const int back = n % 2, ulysses = n / 2 % 2, holder = n / 4 % ranks, given = n / 4 % 2, int8 = n / 8 == 2 && !back;
        float *o[2] = { NULL, NULL }, *lse[2] = { NULL, NULL };
        attn_status s[2];
        for (int bare = 0; bare < 2; bare++) {            /* all ranks alike; the others otherwise */
            fixed f;
            fixed_one(&f, holder, ATTN_CAUSAL);
            const int has = rank == holder || !bare ? given : !given;
            if (ulysses) f.m.method = "ulysses";
            if (int8) f.d.k.dtype = f.d.v.dtype = ATTN_INT8, f.d.k.data = f.d.v.data = codes, f.d.k.scale = f.d.v.scale = ones;
            if (back) attn_mpi_forward(&f.d, &f.m, MPI_COMM_WORLD), f.g.dlse = has ? ones : NULL;
            else if (!has) f.d.lse = NULL;
            if (bare && rank != holder) {
                f.d.q.data = f.d.k.data = f.d.v.data = f.g.dout.data = f.d.k.scale = f.d.v.scale = NULL;
                f.d.o.data = f.g.dq.data = f.g.dk.data = f.g.dv.data = NULL;
                if (back) f.d.lse = NULL;
            }
            s[bare] = fixed_call(&f, back);
            o[bare] = f.mem[back ? 5 : 3], f.mem[back ? 5 : 3] = NULL, lse[bare] = f.mem[9], f.mem[9] = NULL;
            fixed_free(&f);
        }
        expect(!s[0] && !s[1] && (rank != holder || (!memcmp(o[0], o[1], sizeof ones * DIM) && !memcmp(lse[0], lse[1], sizeof ones))), "rows elsewhere",
               s[0] ? attn_status_text(s[0]) : s[1] ? attn_status_text(s[1]) : "other bits");
        for (int i = 0; i < 2; i++) free(o[i]), free(lse[i]);
    }
}

/* Keys of 2^60 - 1 rows, one number for all: the bytes of their message pass int64. */
static void too_many_keys(void)
{
    static const double one[1] = { 1 };
    static double q[1155], o[1155];
    int64_t cut[64] = { 0 }, q_cut[64] = { 0 };
    attn_desc d = { .batch = 1155, .heads = 1, .head_dim = 1, .q_len = 1, .kv_len = (((int64_t)1 << 60) - 1) / 1155, .threads = 1 };
    for (int i = 1; i <= ranks; i++) cut[i] = d.kv_len, q_cut[i] = 1;
    const attn_mpi m = { .q_cut = q_cut, .k_cut = cut };
    d.q.data = q, d.k.data = d.v.data = one, d.o.data = o;
    d.q.dtype = d.k.dtype = d.v.dtype = d.o.dtype = ATTN_F64;
    for (int i = 0; i < 3; i++) d.k.stride[i] = d.v.stride[i] = ATTN_BROADCAST;
    const attn_status s = attn_mpi_forward(&d, &m, MPI_COMM_WORLD);
    expect(s == ATTN_ERR_OVERFLOW, "too many keys", attn_status_text(s));
}

/* Two ranks' faults: the status of the larger number, and whose it is. */
static void two_ranks_faults(void)
{
    char message[256] = "";
    fixed f;
    fixed_make(&f, TOKENS, HEADS, 0, 0);
    f.d.message = message, f.d.message_size = sizeof message;
    if (rank == 0) f.d.tolerance = 0.01f;
    else if (rank == ranks - 1) f.d.kv_heads = 5;
    const attn_status s = attn_mpi_forward(&f.d, &f.m, MPI_COMM_WORLD);
    expect(s == ATTN_ERR_MPI_TOLERANCE && ATTN_ERR_MPI_TOLERANCE > ATTN_ERR_HEADS && ends(message, ": rank 0"), "two ranks' faults", message);
    fixed_free(&f);
}

/* ------------------------------------------------------------------------------------------ parts, the thread's state, times */
/* Even parts, the first of them one token longer where it does not divide; a zigzag has twice as many. */
static void even_parts(void)
{
    int ok = 1;
    for (int split = 0; split < 2; split++) {
        int64_t kept = -7;
        attn_mpi_cut(8, split, 0, &kept), attn_mpi_cut(8, split, -3, &kept);
        ok &= kept == -7;
    }
    for (int n = 1; n < 8; n++)
        for (int64_t tokens = 0; tokens < 40; tokens++)
            for (int split = 0; split < 2; split++) {
                const int64_t parts = (split + 1) * n;
                int64_t cut[16], all = 0;
                attn_mpi_cut(tokens, split, n, cut);
                ok &= cut[0] == 0 && cut[parts] == tokens;
                for (int64_t p = 0; p < parts; p++) ok &= cut[p + 1] - cut[p] == tokens / parts + (p < tokens % parts);
                for (int r = 0; r < n; r++) all += attn_mpi_tokens(cut, split, n, r);
                ok &= all == tokens;
            }
    expect(ok, "attn_mpi_cut", "parts that are not even");
}
/* The host rounds upwards: the same bits as if it did not, and it does so afterwards; the thread can be cancelled as before. Of SSE's mode
 * fegetround says nothing: a sum does. */
static void state_of_thread(void)
{
    static volatile float one = 1, little = 1e-10f;
    for (int n = 0; n < 6; n++) {
        fixed f;
        int old, back = n % 3 == 1, decode = n % 3 == 2, spoilt = n >= 3;
        float *whole = filled(6 * HEADS * DIM, 12), *o[2];
        attn_status s[2];
        fixed_make(&f, TOKENS, HEADS, 0, ATTN_CAUSAL);
        const attn_desc d = decoding(&f, whole);
        const int64_t count = decode ? 3 * HEADS * DIM : f.own * HEADS * DIM;
        if (back) attn_mpi_forward(&f.d, &f.m, MPI_COMM_WORLD);
        if (spoilt && rank == 0) f.m.split = 2;
        for (int up = 0; up < 2; up++) {
            fesetround(up ? FE_UPWARD : FE_TONEAREST);
            s[up] = decode ? attn_mpi_decode(&d, &f.m, MPI_COMM_WORLD) : fixed_call(&f, back);
            expect((one + little > 1) == up && fegetround() == (up ? FE_UPWARD : FE_TONEAREST), "rounding", "another mode than before");
            fesetround(FE_TONEAREST);
            pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
            expect(old == PTHREAD_CANCEL_ENABLE, "cancellation", "cannot be cancelled any more");
            const float *from = decode ? d.o.data : f.mem[back ? 5 : 3];
            o[up] = malloc((size_t)count * 4 + 4);
            memcpy(o[up], from, (size_t)count * 4);
        }
        expect(s[0] == s[1] && !s[0] == !spoilt && !memcmp(o[0], o[1], (size_t)count * 4), "rounding", "other bits where the host rounds upwards");
        free(o[0]), free(o[1]), free(whole), fixed_free(&f);
    }
}
/* What is told of the time adds up; what a decode sends is counted by hand. */
static void told(void)
{
    for (int n = 0; n < 3; n++) {
        fixed f;
        attn_mpi_times t = { -1, -1, -1, -1, -1 };
        float *whole = filled(6 * HEADS * DIM, 12);
        fixed_make(&f, TOKENS, HEADS, 0, 0);
        const attn_desc d = decoding(&f, whole);
        const int64_t rows = 3 * HEADS, share = (rows + ranks - 1) / ranks;
        if (n == 1) attn_mpi_forward(&f.d, &f.m, MPI_COMM_WORLD);
        f.m.times = &t;
        const attn_status s = n == 2 ? attn_mpi_decode(&d, &f.m, MPI_COMM_WORLD) : fixed_call(&f, n);
        expect(!s && t.messages == ATTN_MPI_DIRECT && t.compute > 0 && t.wait >= 0 && (ranks == 1 || t.wait > 0) && t.total >= t.compute + t.wait, "times",
               "do not add up");
        if (n == 2) expect(t.sent == 2 * (ranks - 1) * share * (DIM + 2) * 8 + (rank ? 0 : (ranks - 1) * rows * DIM * 4), "times", "other bytes of a decode");
        free(whole), fixed_free(&f);
    }
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

/* Sequences in buffers of one length, each used in part: the first not at all, so that what it needs says nothing of the others. */
static void used_in_part(void)
{
    enum { SEQUENCES = 3, ROW = 4 * DIM };
    static const int32_t rows_used[SEQUENCES] = { 0, TOKENS, 20 }, from[SEQUENCES] = { TOKENS, 0, 5 }, keys_used[SEQUENCES] = { 0, TOKENS, 30 },
                         within[SEQUENCES] = { 0, 0, 5 };
    for (int n = 0; n < 8; n++) {                          /* rows alone, first keys alone, used keys alone, all; each causal and not */
        int64_t cut[64];
        float worst = 0, *whole[4], *own[4], lse[SEQUENCES * 4 * TOKENS], own_lse[SEQUENCES * 4 * TOKENS];
        attn_desc d = { .batch = SEQUENCES, .heads = 4, .head_dim = DIM, .q_len = TOKENS, .kv_len = TOKENS, .threads = 1 };
        attn_mpi_cut(TOKENS, ATTN_MPI_RANGES, ranks, cut);
        const attn_mpi m = { .q_cut = cut, .k_cut = cut };
        const int64_t first = cut[rank], count = cut[rank + 1] - first;
        for (int i = 0; i < 4; i++) {
            whole[i] = filled(SEQUENCES * TOKENS * ROW, 20 + (uint64_t)i), own[i] = filled(SEQUENCES * count * ROW, 30);
            for (int64_t b = 0; b < SEQUENCES; b++) memcpy(own[i] + b * count * ROW, whole[i] + (b * TOKENS + first) * ROW, (size_t)(count * ROW) * 4);
        }
        d.flags = n % 2 ? ATTN_CAUSAL : 0;
        if (n / 2 % 3 == 0) d.seq.used_q = rows_used;
        if (n / 2 == 1 || n / 2 == 3) d.seq.start_k = from;
        if (n / 2 >= 2) d.seq.used_k = keys_used;
        if (n / 2 == 3) d.seq.start_k = within;
        d.q.data = whole[0], d.k.data = whole[1], d.v.data = whole[2], d.o.data = whole[3], d.lse = lse;
        attn_status s = attn_forward(&d);
        d.q.data = own[0], d.k.data = own[1], d.v.data = own[2], d.o.data = own[3], d.lse = own_lse;
        if (!s) s = attn_mpi_forward(&d, &m, MPI_COMM_WORLD);
        for (int64_t x = 0; x < SEQUENCES * count * ROW; x++) {
            const int64_t b = x / (count * ROW), i = x / ROW % count + first;
            const float off = fabsf(own[3][x] - whole[3][(b * TOKENS + i) * ROW + x % ROW]);
            if (!(off <= worst)) worst = is_finitef(off) ? off : 9;
        }
        for (int64_t x = 0; x < SEQUENCES * 4 * count; x++) {
            const float a = own_lse[x], b = lse[x / count * TOKENS + x % count + first];
            if (a != b && !(fabsf(a - b) <= worst)) worst = is_finitef(a - b) ? fabsf(a - b) : 9;
        }
        expect(!s && worst < 1e-5f, "used in part", s ? attn_status_text(s) : "another o or lse");
        for (int i = 0; i < 4; i++) free(whole[i]), free(own[i]);
    }
}

/* MPI reports an error, on one rank or on all: that status on all, and nothing is written. */
static void mpi_fails(void)
{
    for (int n = 0; n < 12; n++) {
        fixed f;
        const int what = n / 2 < 2 ? 1 : n / 2 - 1, back = n / 2 == 1, decode = n / 2 > 1;          /* what > 3: nothing */
        float *whole = filled(6 * HEADS * DIM, 12), *was = filled(6 * HEADS * DIM, 12);
        fixed_make(&f, TOKENS, HEADS, 0, ATTN_CAUSAL);
        const attn_desc d = decoding(&f, whole);
        if (back) attn_mpi_forward(&f.d, &f.m, MPI_COMM_WORLD);
        fail_mpi = n % 2 || rank == what % ranks ? what : 0;
        const attn_status s = decode ? attn_mpi_decode(&d, &f.m, MPI_COMM_WORLD) : fixed_call(&f, back);
        fail_mpi = 0;
        if (what > 3) expect(!s, "MPI", attn_status_text(s));
        else expect(s == ATTN_ERR_MPI && (decode ? !memcmp(whole, was, 6 * HEADS * DIM * 4) : untouched(&f, back)), "MPI fails", attn_status_text(s));
        free(whole), free(was), fixed_free(&f);
    }
    expect(types_alive == 0, "datatypes", "are not freed");
}

/* Against one machine: keys that an offset near the end of int64 shows to all; a decode whose q other ranks than 0 have, but another;
 * v in f64 beside q and k in f32, to more digits than f32 has. */
static void beside_one(void)
{
    enum { ROW = 4 * DIM };
    static double wide[TOKENS * ROW], wide_o[2][TOKENS * ROW];
    for (int n = 0; n < 3; n++) {
        int64_t cut[64];
        float *q = filled(TOKENS * ROW, 41), *k = filled(TOKENS * ROW, 42), *v = filled(TOKENS * ROW, 43), *o = filled(TOKENS * ROW, 44), *own = filled(TOKENS * ROW, 45);
        double worst = 0;
        attn_desc d = { .batch = 1, .heads = 4, .head_dim = DIM, .q_len = n == 1 ? 2 : TOKENS, .kv_len = TOKENS, .threads = 1 };
        attn_mpi_cut(TOKENS, ATTN_MPI_RANGES, ranks, cut);
        const attn_mpi m = { .q_cut = cut, .k_cut = cut };
        const int64_t at = cut[rank] * ROW, from = n == 1 ? 0 : at, count = n == 1 ? 2 * ROW : (cut[rank + 1] - cut[rank]) * ROW;
        for (int64_t i = 0; i < TOKENS * ROW; i++) wide[i] = (double)v[i % ROW] / 7;       /* the same of all keys: the lse of parts are f32 */
        if (n == 0) d.flags = ATTN_CAUSAL | ATTN_OFFSET, d.offset = INT64_MAX - 3;
        d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o;
        if (n == 2) d.v.data = wide, d.o.data = wide_o[0], d.v.dtype = d.o.dtype = ATTN_F64;
        attn_status s = attn_forward(&d);
        d.q.data = q + from, d.k.data = k + at, d.v.data = n == 2 ? (void *)(wide + at) : v + at, d.o.data = n == 2 ? (void *)wide_o[1] : own;
        if (n == 1 && rank) d.q.data = v, d.q.stride[0] = 1;       /* not read */
        if (!s) s = n == 1 ? attn_mpi_decode(&d, &m, MPI_COMM_WORLD) : attn_mpi_forward(&d, &m, MPI_COMM_WORLD);
        for (int64_t i = 0; i < count; i++) {
            const double off = n == 2 ? 1e7 * fabs(wide_o[1][i] - wide_o[0][from + i]) : fabs((double)own[i] - (double)o[from + i]);
            if (!(off <= worst)) worst = is_finite(off) ? off : 9;
        }
        expect(!s && worst < 1e-5, n == 0 ? "offset" : n == 1 ? "decode" : "v in f64", s ? attn_status_text(s) : "another o than on one machine");
        free(q), free(k), free(v), free(o), free(own);
    }
    expect(types_alive == 0, "datatypes", "are not freed");
}

/* A decode with a key that is no number on the last rank: that head is NaN on all ranks, the others are as they were. */
static void nan_elsewhere(void)
{
    enum { ROW = 4 * DIM };
    int64_t cut[64], wrong = 0;
    float *q = filled(2 * ROW, 41), *k = filled(TOKENS * ROW, 42), *v = filled(TOKENS * ROW, 43), *o = filled(2 * ROW, 44);
    attn_desc d = { .batch = 1, .heads = 4, .head_dim = DIM, .q_len = 2, .kv_len = TOKENS, .threads = 1 };
    attn_mpi_cut(TOKENS, ATTN_MPI_RANGES, ranks, cut);
    const attn_mpi m = { .k_cut = cut };
    k[(TOKENS - 1) * ROW + DIM] = NAN;
    d.q.data = q, d.k.data = k + cut[rank] * ROW, d.v.data = v + cut[rank] * ROW, d.o.data = o;
    const attn_status s = attn_mpi_decode(&d, &m, MPI_COMM_WORLD);
    for (int64_t i = 0; i < 2 * ROW; i++) wrong += is_finite((double)o[i]) == (i / DIM % 4 == 1);
    expect(!s && !wrong, "NaN of another rank", s ? attn_status_text(s) : "not in the rows that see it, or in others");
    free(q), free(k), free(v), free(o);
}
/* dout alone in f64, and dq in f64 that is added to what is there: that of one machine, to more digits than f32 has. dk and dv go from rank
 * to rank in f32. */
static void wide_gradients(void)
{
    enum { ROW = 2 * DIM };
    static double dout[TOKENS * ROW], grads[2][3][TOKENS * ROW];
    int64_t cut[64];
    double worst = 0;
    float *q = filled(TOKENS * ROW, 41), *k = filled(TOKENS * ROW, 42), *v = filled(TOKENS * ROW, 43), *o = filled(TOKENS * ROW, 44), *lse = filled(2 * TOKENS, 45), *own = filled(2 * TOKENS, 46);
    attn_desc d = { .batch = 1, .heads = 2, .head_dim = DIM, .q_len = TOKENS, .kv_len = TOKENS, .threads = 1 };
    attn_grad g = { .dout.dtype = ATTN_F64, .dq.dtype = ATTN_F64, .dk.dtype = ATTN_F64, .dv.dtype = ATTN_F64 };
    attn_mpi_cut(TOKENS, ATTN_MPI_RANGES, ranks, cut);
    const attn_mpi m = { .q_cut = cut, .k_cut = cut };
    const int64_t at = cut[rank] * ROW, count = cut[rank + 1] * ROW - at, rows = count / ROW;
    for (int64_t i = 0; i < TOKENS * ROW; i++) {
        dout[i] = (double)v[TOKENS * ROW - 1 - i] / 7;
        for (int n = 0; n < 6; n++) grads[n / 3][n % 3][i] = 1.0 / (double)(i + 3);
    }
    for (int n = 0; n < 2; n++) {
        const int64_t from = n ? at : 0;
        d.q.data = q + from, d.k.data = k + from, d.v.data = v + from, d.o.data = o + from, d.lse = n ? own : lse, d.flags = 0;
        g.dout.data = dout + from, g.dq.data = grads[n][0] + from, g.dk.data = grads[n][1] + from, g.dv.data = grads[n][2] + from;
        for (int64_t i = 0; i < 2 * rows && n; i++) own[i] = lse[i / rows * TOKENS + cut[rank] + i % rows];
        attn_status s = n ? ATTN_OK : attn_forward(&d);
        d.flags = ATTN_ACCUMULATE;
        if (!s) s = n ? attn_mpi_backward(&d, &g, &m, MPI_COMM_WORLD) : attn_backward(&d, &g);
        expect(!s, "gradients in f64", attn_status_text(s));
    }
    for (int t = 0; t < 3; t++)
        for (int64_t i = at; i < at + count; i++) {
            const double off = fabs(grads[1][t][i] - grads[0][t][i]) * (t ? 1e-7 : 1);
            if (!(off <= worst)) worst = is_finite(off) ? off : 9;
        }
    expect(worst < 1e-13, "gradients in f64", "others than on one machine");
    free(q), free(k), free(v), free(o), free(lse), free(own);
}

/* Codes with scales of each token and head, of each head, of each token or one for all, in a batch of lengths of their own, so that what is computed together begins anywhere. */
static void scales_of_all_kinds(void)
{
    enum { BATCH = 3, LONG = 48, OF = 4, ROW = OF * DIM };
    static const int32_t used[BATCH] = { 5, LONG, 31 };
    static signed char codes[2][BATCH * LONG * ROW], own_codes[2][BATCH * LONG * ROW];
    static float q[BATCH * LONG * ROW], own_q[BATCH * LONG * ROW], o[BATCH * LONG * ROW], want[BATCH * LONG * ROW], scale[2][BATCH * LONG * OF], own_scale[2][BATCH * LONG * OF];
    uint64_t r = 21;
    for (int t = 0; t < 2; t++)
        for (int64_t i = 0; i < BATCH * LONG * ROW; i++) codes[t][i] = (signed char)(random_bits(&r) % 255 - 127);
    for (int64_t i = 0; i < BATCH * LONG * ROW; i++) q[i] = (float)random_normal(&r);
    for (int n = 0; n < 2 * 2 * 2 * 4; n++) {
        const int split = n % 2, decode = n / 2 % 2, causal = n / 4 % 2, by_token = n / 8 % 2 == 0, by_head = n / 16 == 0;
        int64_t cut[64];
        char what[64];
        snprintf(what, sizeof what, "scales, case %d", n);
        attn_mpi_cut(LONG, split, ranks, cut);
        const token_list t = tokens_of(cut, split, rank);
        attn_desc d = { .batch = BATCH, .heads = OF, .head_dim = DIM, .q_len = decode ? 1 : LONG, .kv_len = LONG, .threads = 1, .flags = causal && !decode ? ATTN_CAUSAL : 0 };
        d.seq.used_k = used, d.q.data = q, d.o.data = want;
        if (!decode) d.seq.used_q = used;
        for (int i = 0; i < 2; i++) {
            attn_in *x = i ? &d.v : &d.k;
            for (int64_t e = 0; e < BATCH * LONG * OF; e++) {
                const int64_t row = by_token ? e / OF : 0, head = by_head ? e % OF : 0;
                scale[i][e] = 0.004f + 1e-4f * (float)((row * 7 + head * 3 + i) % 50);
            }
            x->data = codes[i], x->dtype = ATTN_INT8, x->scale = scale[i];
            x->scale_stride[0] = by_token ? LONG * OF : ATTN_BROADCAST, x->scale_stride[1] = by_token ? OF : ATTN_BROADCAST, x->scale_stride[2] = by_head ? 1 : ATTN_BROADCAST;
        }
        expect(attn_forward(&d) == ATTN_OK, what, "the whole call is refused");
        for (int64_t b = 0; b < BATCH; b++)
            for (int64_t x = 0; x < t.n; x++) {
                memcpy(own_q + (b * t.n + x) * ROW, q + (b * LONG + t.at[x]) * ROW, ROW * sizeof *q);
                for (int i = 0; i < 2; i++) {
                    memcpy(own_codes[i] + (b * t.n + x) * ROW, codes[i] + (b * LONG + t.at[x]) * ROW, ROW);
                    memcpy(own_scale[i] + (b * t.n + x) * OF, scale[i] + (b * LONG + t.at[x]) * OF, OF * sizeof **scale);
                }
            }
        d.q.data = decode ? q : own_q, d.k.data = own_codes[0], d.v.data = own_codes[1], d.k.scale = own_scale[0], d.v.scale = own_scale[1], d.o.data = o;
        if (by_token) d.k.scale_stride[0] = d.v.scale_stride[0] = t.n ? t.n * OF : OF;
        const attn_mpi m = { .split = split, .q_cut = decode ? NULL : cut, .k_cut = cut };
        const attn_status s = decode ? attn_mpi_decode(&d, &m, MPI_COMM_WORLD) : attn_mpi_forward(&d, &m, MPI_COMM_WORLD);
        double worst = 0;
        for (int64_t b = 0; b < BATCH && !s; b++)
            for (int64_t x = 0; x < (decode ? 1 : t.n); x++)
                for (int64_t e = 0; e < ROW; e++) {
                    const int64_t row = decode ? b : b * LONG + t.at[x];
                    const double off = fabs((double)o[(decode ? b : b * t.n + x) * ROW + e] - (double)want[row * ROW + e]);
                    if (!(off <= worst)) worst = off;
                }
        expect(!s && worst < 1e-5, what, s ? attn_status_text(s) : "other values than on one rank");
        free(t.at);
    }
}

static void fixed_tests(void)
{
    const attn_backend counted = { .name = "counted", .abi = ATTN_ABI, .plan = counted_plan, .run = counted_run };
    expect(attn_register(&counted) == ATTN_OK, "register", "refused");
    one_ranks_fault();
    backend_of_nothing();
    rows_elsewhere();
    scales_of_all_kinds();
    two_ranks_faults();
    too_many_keys();
    even_parts();
    state_of_thread();
    told();
    no_memory();
    packed_gaps();
    used_in_part();
    mpi_fails();
    beside_one();
    nan_elsewhere();
    wide_gradients();
    skipped_parts();
    held();
    expect(longest <= ATTN_MPI_PIECE && (ranks == 1 || longest == ATTN_MPI_PIECE), "pieces", "a message is longer than ATTN_MPI_PIECE, or none is as long");
}
