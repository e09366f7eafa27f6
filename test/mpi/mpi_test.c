/* mpi_test.c - attn_mpi_* on the ranks of MPI_COMM_WORLD against the reference on one machine.
 *
 *   mpirun -n N mpi_test [--count N] [--seed S] [--case I] [--cost BITS]
 *
 * Every rank makes the same random description (proof.h), takes its own tokens of it, and rank 0 puts the results together again and
 * checks them by the rule that holds for every backend. Each call is made twice, the second time with ranks that are late at random:
 * the bits must be the same. Then the calls that must be refused, one rank's fault at a time; what is sent, computed and held.
 * With MPI_DEVICE the tensors of all ranks are device memory (mpi_device.h). */
#define _DEFAULT_SOURCE
#include "proof.h"
#include <fenv.h>
#include <pthread.h>
#include <unistd.h>

static int rank, ranks, late, thorough;
static int64_t passed, failed, skipped, sent_keys, sent_all, longest, types_alive;
static uint64_t clock_state;

static void fail(const char *what, const char *why) { printf("FAIL rank %d of %d, %s: %s\n", rank, ranks, what, why), failed++; }
static void expect(int ok, const char *what, const char *why) { if (ok) passed++; else fail(what, why); }

/* ------------------------------------------------------------------------------------- what the library does with MPI, looked at */
static void stroll(void) { if (late > 0 && random_bits(&clock_state) % 4 == 0) late--, usleep((useconds_t)(random_bits(&clock_state) % 2000)); }
int MPI_Isend(const void *p, int n, MPI_Datatype t, int to, int tag, MPI_Comm comm, MPI_Request *r)
{
    stroll();
    if (tag == ATTN_MPI_TAG) sent_keys += n;
    sent_all += n, longest = n > longest ? n : longest;
    return PMPI_Isend(p, n, t, to, tag, comm, r);
}
int MPI_Irecv(void *p, int n, MPI_Datatype t, int from, int tag, MPI_Comm comm, MPI_Request *r)
{
    stroll();
    return PMPI_Irecv(p, n, t, from, tag, comm, r);
}
int MPI_Type_commit(MPI_Datatype *t) { types_alive++; return PMPI_Type_commit(t); }
int MPI_Type_free(MPI_Datatype *t) { types_alive--; return PMPI_Type_free(t); }
/* A call of MPI that fails on this rank, with what it leaves then: 1 allgather, 2 datatype, 3 alltoall. */
static int fail_mpi;
int MPI_Allgather(const void *a, int n, MPI_Datatype t, void *b, int m, MPI_Datatype u, MPI_Comm comm)
{
    const int error = PMPI_Allgather(a, n, t, b, m, u, comm);
    if (fail_mpi == 1) memset(b, 0x7f, (size_t)m * sizeof(int));
    return fail_mpi == 1 ? MPI_ERR_OTHER : error;
}
int MPI_Type_contiguous(int n, MPI_Datatype t, MPI_Datatype *made)
{
    if (fail_mpi == 2) memset(made, 0x7f, sizeof *made);
    return fail_mpi == 2 ? MPI_ERR_OTHER : PMPI_Type_contiguous(n, t, made);
}
int MPI_Alltoall(const void *a, int n, MPI_Datatype t, void *b, int m, MPI_Datatype u, MPI_Comm comm)
{
    const int error = PMPI_Alltoall(a, n, t, b, m, u, comm);
    return fail_mpi == 3 ? MPI_ERR_OTHER : error;
}
int MPI_Waitall(int n, MPI_Request *r, MPI_Status *s) { stroll(); return PMPI_Waitall(n, r, s); }

/* ------------------------------------------------------------------------------------------------------ the tokens of a rank */
typedef struct token_list { int64_t n, *at; } token_list;         /* of the whole buffer, in the order in which the rank holds them */
typedef struct part { char *mem; void *data; proof_view w; int32_t dtype; size_t bytes; } part;

static token_list tokens_of(const int64_t *cut, int split, int r)
{
    token_list t = { 0, NULL };
    const int64_t from[2] = { cut[r], split ? cut[2 * ranks - 1 - r] : 0 }, to[2] = { cut[r + 1], split ? cut[2 * ranks - r] : 0 };
    t.at = malloc(8 * (size_t)(to[0] - from[0] + to[1] - from[1] + 1));
    for (int i = 0; i < 2; i++) for (int64_t x = from[i]; x < to[i]; x++) t.at[t.n++] = x;
    return t;
}
/* a rank's tensor in a layout of its own: 0 dense BSHD, 1 dense BHSD, 2 with gaps */
static part part_make(int64_t batch, int64_t own, int64_t heads, int64_t dim, int32_t dtype, int layout)
{
    part p;
    memset(&p, 0, sizeof p);
    const int64_t row = dim + (layout == 2 ? is_blocks(dtype) ? 32 : 3 : 0);
    p.dtype = dtype, p.bytes = (size_t)dtype_bytes(dtype, batch * own * heads * row);
    p.w = (proof_view){ { batch, own, heads }, { own * heads * row, heads * row, row }, dim };
    if (layout == 1) p.w.s[1] = row, p.w.s[2] = own * row;
    p.data = p.mem = malloc(p.bytes + 64);
    memset(p.mem, 0xff, p.bytes + 64);
    return p;
}
static void part_copy(part *p, void *data, const proof_view *w, const token_list *t, int in)
{
    for (int64_t b = 0; b < w->n[0]; b++)
        for (int64_t i = 0; i < t->n; i++)
            for (int64_t h = 0; h < w->n[2]; h++) {
                char *own = (char *)p->data + dtype_bytes(p->dtype, proof_at(&p->w, b, i, h));
                char *all = (char *)data + dtype_bytes(p->dtype, proof_at(w, b, t->at[i], h));
                memcpy(in ? own : all, in ? all : own, (size_t)dtype_bytes(p->dtype, p->w.dim));
            }
}
/* rank 0 gets every rank's part into the whole tensor */
static void part_collect(part *p, void *data, const proof_view *w, const int64_t *cut, int split, int layout)
{
    if (rank) { PMPI_Send(p->mem, (int)p->bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD); return; }
    for (int r = 0; r < ranks; r++) {
        token_list t = tokens_of(cut, split, r);
        part of = *p;
        if (r) {
            of = part_make(w->n[0], t.n, w->n[2], w->dim, p->dtype, layout);
            PMPI_Recv(of.mem, (int)of.bytes, MPI_BYTE, r, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        part_copy(&of, data, w, &t, 0);
        if (r) free(of.mem);
        free(t.at);
    }
}

/* ---------------------------------------------------------------------------------------------------------------- a case */
enum { Q, K, V, O, KS, VS, LSE, DOUT, DLSE, DQ, DK, DV, PARTS };
typedef struct mpi_case {
    proof_case *c;
    attn_desc d;                                          /* of this rank */
    attn_grad g;
    attn_mpi m;
    part p[PARTS];
    token_list q, k;
    int64_t q_cut[64], k_cut[64];
    int layout;
    float *dsink;
} mpi_case;

static void cuts(uint64_t *r, int64_t all, int parts, int64_t *cut)
{
    const int how = (int)(random_bits(r) % 3);            /* even; anywhere; all at the end of one part */
    for (int i = 0; i <= parts; i++) cut[i] = how == 0 ? all * i / parts : how == 1 ? (int64_t)(random_bits(r) % (uint64_t)(all + 1)) : i < parts / 2 ? 0 : all;
    cut[0] = 0, cut[parts] = all;
    for (int i = 1; i < parts; i++)                       /* sorted */
        for (int j = i; j > 1 && cut[j] < cut[j - 1]; j--) { int64_t x = cut[j]; cut[j] = cut[j - 1], cut[j - 1] = x; }
}
static proof_view lse_view(int64_t batch, int64_t n, int64_t heads) { return (proof_view){ { batch, n, heads }, { heads * n, 1, n }, 1 }; }
static void take(mpi_case *m, int which, const void *data, proof_view w, int32_t dtype, int keys, int in)
{
    const token_list *t = keys ? &m->k : &m->q;
    if (!data) return;
    m->p[which] = part_make(w.n[0], t->n, w.n[2], w.dim, dtype, m->layout);
    if (which == LSE || which == DLSE) m->p[which].w = lse_view(w.n[0], t->n, w.n[2]);
    /* slots and pages are refused: they have no tokens to be spread */
    if (in && !m->d.seq.slot && !m->d.seq.block_table) part_copy(&m->p[which], (void *)(uintptr_t)data, &w, t, 1);
}
static void stride_in(attn_in *x, const part *p) { x->data = p->data, x->layout = 0, memcpy(x->stride, p->w.s, sizeof x->stride); }
static void stride_out(attn_out *x, const part *p) { x->data = p->data, x->layout = 0, memcpy(x->stride, p->w.s, sizeof x->stride); }

/* The rank's tensors of a case; in decode q and o are whole. */
static void mpi_make(mpi_case *m, proof_case *c, uint64_t *r, const char *method, int decode, int back)
{
    attn_desc *d = &c->d;
    const int64_t dv = proof_v_dim(d), all_q = d->seq.cu_q ? d->seq.total_q : d->q_len, all_k = d->seq.cu_k ? d->seq.total_k : d->kv_len;
    memset(m, 0, sizeof *m);
    m->c = c, m->d = proof_desc(c, back), m->g = c->g;
    m->m.split = (int32_t)(random_bits(r) % 2), m->m.method = method, m->layout = (int)(random_bits(r) % 3);
    cuts(r, all_q, m->m.split ? 2 * ranks : ranks, m->q_cut);
    cuts(r, all_k, m->m.split ? 2 * ranks : ranks, m->k_cut);
    if (decode) for (int i = 0; i <= 2 * ranks; i++) m->q_cut[i] = i ? all_q : 0;
    m->m.q_cut = decode ? NULL : m->q_cut, m->m.k_cut = m->k_cut;
    m->q = tokens_of(m->q_cut, decode ? 0 : m->m.split, decode ? 0 : rank), m->k = tokens_of(m->k_cut, m->m.split, rank);
    take(m, Q, d->q.data, proof_rows_view(d, d->q.stride, d->q.layout, d->head_dim), d->q.dtype, 0, 1);
    take(m, K, d->k.data, proof_kv_view(d, d->k.stride, d->k.layout, d->head_dim), d->k.dtype, 1, 1);
    take(m, V, d->v.data, proof_kv_view(d, d->v.stride, d->v.layout, dv), d->v.dtype, 1, 1);
    take(m, KS, d->k.scale, proof_kv_view(d, d->k.scale_stride, 0, 1), ATTN_F32, 1, 1);
    take(m, VS, d->v.scale, proof_kv_view(d, d->v.scale_stride, 0, 1), ATTN_F32, 1, 1);
    take(m, O, d->o.data, proof_rows_view(d, d->o.stride, d->o.layout, dv), d->o.dtype, 0, back);
    const proof_view rows = proof_rows_view(d, (int64_t[3]){ 0, 0, 0 }, 0, 1);
    take(m, LSE, d->lse, lse_view(rows.n[0], rows.n[1], rows.n[2]), ATTN_F32, 0, back);
    stride_in(&m->d.q, &m->p[Q]), stride_in(&m->d.k, &m->p[K]), stride_in(&m->d.v, &m->p[V]), stride_out(&m->d.o, &m->p[O]);
    if (m->p[KS].data) m->d.k.scale = m->p[KS].data, memcpy(m->d.k.scale_stride, m->p[KS].w.s, 24);
    if (m->p[VS].data) m->d.v.scale = m->p[VS].data, memcpy(m->d.v.scale_stride, m->p[VS].w.s, 24);
    m->d.lse = m->p[LSE].data, m->d.backend = NULL;
    if (decode && rank) m->d.q.data = NULL;
    if (!back) return;
    attn_grad *g = &c->g;
    take(m, DOUT, g->dout.data, proof_rows_view(d, g->dout.stride, g->dout.layout, dv), g->dout.dtype, 0, 1);
    take(m, DLSE, g->dlse, lse_view(rows.n[0], rows.n[1], rows.n[2]), ATTN_F32, 0, 1);
    take(m, DQ, g->dq.data, proof_rows_view(d, g->dq.stride, g->dq.layout, d->head_dim), g->dq.dtype, 0, 1);
    take(m, DK, g->dk.data, proof_kv_view(d, g->dk.stride, g->dk.layout, d->head_dim), g->dk.dtype, 1, 1);
    take(m, DV, g->dv.data, proof_kv_view(d, g->dv.stride, g->dv.layout, dv), g->dv.dtype, 1, 1);
    stride_in(&m->g.dout, &m->p[DOUT]), stride_out(&m->g.dq, &m->p[DQ]), stride_out(&m->g.dk, &m->p[DK]), stride_out(&m->g.dv, &m->p[DV]);
    m->g.dlse = m->p[DLSE].data;
    if (g->dsink) m->g.dsink = m->dsink = malloc((size_t)d->heads * 4), memcpy(m->dsink, g->dsink, (size_t)d->heads * 4);
}
static void mpi_free(mpi_case *m)
{
    for (int i = 0; i < PARTS; i++) free(m->p[i].mem);
    free(m->q.at), free(m->k.at), free(m->dsink);
}
static attn_status call_of(const attn_desc *d, const attn_grad *g, const attn_mpi *m, int decode, int back)
{
    return decode ? attn_mpi_decode(d, m, MPI_COMM_WORLD) : back ? attn_mpi_backward(d, g, m, MPI_COMM_WORLD) : attn_mpi_forward(d, m, MPI_COMM_WORLD);
}
/* All ranks have the same status; that of rank 0. */
static attn_status common_status(attn_status s, const char *what)
{
    int first = (int)s;
    PMPI_Bcast(&first, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (first != (int)s) fail(what, "ranks return different statuses");
    return (attn_status)first;
}
#ifdef MPI_DEVICE
#include "mpi_device.h"
#else
static attn_status mpi_call(mpi_case *m, int decode, int back) { return call_of(&m->d, &m->g, &m->m, decode, back); }
static int may_decline(const proof_case *c, int back) { (void)c, (void)back; return 0; }
static double unit_of(const proof_case *c) { (void)c; return 0; }
static double grad_unit_of(const proof_case *c) { (void)c; return 0; }
#include "mpi_fixed.h"
#endif
/* What a call writes, for comparisons of bytes: kept before, and after. */
static const int written[2][4] = { { O, LSE, LSE, LSE }, { DQ, DK, DV, DV } };
static void keep(const mpi_case *m, int back, char *copy[4], int restore)
{
    for (int i = 0; i < 4; i++) {
        const part *p = &m->p[written[back][i]];
        if (!p->mem) continue;
        if (!restore) copy[i] = malloc(p->bytes + 1);
        memcpy(restore ? p->mem : copy[i], restore ? copy[i] : p->mem, p->bytes);
    }
}
static int same(const mpi_case *m, int back, char *copy[4])
{
    int ok = 1;
    for (int i = 0; i < 4; i++)
        if (copy[i]) ok &= !memcmp(copy[i], m->p[written[back][i]].mem, m->p[written[back][i]].bytes);
    return ok;
}
static void drop(char *copy[4]) { for (int i = 0; i < 4; i++) free(copy[i]), copy[i] = NULL; }
/* The parts of all ranks in the case's own tensors, on rank 0. */
static void collect(mpi_case *m, int decode, int back)
{
    attn_desc *d = &m->c->d;
    attn_grad *g = &m->c->g;
    const int64_t dv = proof_v_dim(d);
    const int split = m->m.split;
    const proof_view o = proof_rows_view(d, d->o.stride, d->o.layout, dv), rows = proof_rows_view(d, (int64_t[3]){ 0, 0, 0 }, 0, 1),
                     lse = lse_view(rows.n[0], rows.n[1], rows.n[2]);
    if (decode) {                                         /* complete on every rank, and the same */
        part_copy(&m->p[O], d->o.data, &o, &m->q, 0);
        if (d->lse) part_copy(&m->p[LSE], d->lse, &lse, &m->q, 0);
        char *first = malloc(m->p[O].bytes + 1);
        memcpy(first, m->p[O].mem, m->p[O].bytes);
        PMPI_Bcast(first, (int)m->p[O].bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        if (memcmp(first, m->p[O].mem, m->p[O].bytes)) fail("decode", "o is not the same on all ranks");
        free(first);
        return;
    }
    if (!back) {
        part_collect(&m->p[O], d->o.data, &o, m->q_cut, split, m->layout);
        if (!d->lse) return;
        /* dense on every rank: of the layout 1 of part_make, in its order */
        if (rank) PMPI_Send(m->p[LSE].mem, (int)m->p[LSE].bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        for (int r = 0; r < ranks && !rank; r++) {
            token_list t = tokens_of(m->q_cut, split, r);
            part p = part_make(lse.n[0], t.n, lse.n[2], 1, ATTN_F32, m->layout);
            p.w = lse_view(lse.n[0], t.n, lse.n[2]);
            if (r) PMPI_Recv(p.mem, (int)p.bytes, MPI_BYTE, r, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            else memcpy(p.mem, m->p[LSE].mem, p.bytes);
            part_copy(&p, d->lse, &lse, &t, 0);
            free(p.mem), free(t.at);
        }
        return;
    }
    const proof_view dq = proof_rows_view(d, g->dq.stride, g->dq.layout, d->head_dim), dk = proof_kv_view(d, g->dk.stride, g->dk.layout, d->head_dim),
                     dvw = proof_kv_view(d, g->dv.stride, g->dv.layout, dv);
    part_collect(&m->p[DQ], g->dq.data, &dq, m->q_cut, split, m->layout);
    part_collect(&m->p[DK], g->dk.data, &dk, m->k_cut, split, m->layout);
    part_collect(&m->p[DV], g->dv.data, &dvw, m->k_cut, split, m->layout);
    if (g->dsink && !rank) memcpy(g->dsink, m->dsink, (size_t)d->heads * 4);
}

/* ------------------------------------------------------------------------------------------------------- random cases */
/* The reference runs on rank 0 alone; the others sleep until it is done, and get what it says and, of a forward call, what it wrote. */
static int solved(int ok)
{
    MPI_Request done;
    int there = 0;
    PMPI_Ibcast(&ok, 1, MPI_INT, 0, MPI_COMM_WORLD, &done);
    for (PMPI_Test(&done, &there, MPI_STATUS_IGNORE); !there; PMPI_Test(&done, &there, MPI_STATUS_IGNORE)) usleep(200);
    return ok;
}
static void share_forward(proof_case *c)
{
    for (int i = 0; i < c->buffers; i++) {
        proof_buffer *b = &c->buffer[i];
        PMPI_Bcast(&b->kind, 1, MPI_INT, 0, MPI_COMM_WORLD);
        PMPI_Bcast(b->mem, (int)b->bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        PMPI_Bcast(b->pristine, (int)b->bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    }
}
static uint64_t never(void) { return PROOF_BIAS | PROOF_MASK | PROOF_DROPOUT | PROOF_SLOTS | PROOF_PAGED | PROOF_APPEND | PROOF_ROTARY; }
typedef struct grid_opts { uint64_t seed; int64_t count, only, cost; } grid_opts;

static void run_call(proof_case *c, proof_answer *a, uint64_t *r, int64_t index, const char *method, int decode, int back)
{
    mpi_case m;
    char what[96], *before[4] = { 0 }, *after[4] = { 0 };
    snprintf(what, sizeof what, "case %lld, %s %s", (long long)index, decode ? "decode" : back ? "backward" : "forward", method ? method : "ring");
    mpi_make(&m, c, r, method, decode, back);
    keep(&m, back, before, 0);
    const int64_t heads = c->d.heads, kv_heads = proof_kv_heads(&c->d);
    attn_status s = common_status(mpi_call(&m, decode, back), what), wanted = ATTN_OK;
    if (c->features & (PROOF_BIAS | PROOF_MASK | PROOF_DROPOUT)) wanted = ATTN_ERR_MPI_MASK;
    else if (c->features & (PROOF_SLOTS | PROOF_PAGED | PROOF_APPEND | PROOF_ROTARY)) wanted = ATTN_ERR_MPI_CACHE;
    else if (method && !strcmp(method, "ulysses") && (heads % ranks || kv_heads % ranks)) wanted = ATTN_ERR_MPI_HEADS;
    if (s && !wanted && may_decline(c, back)) wanted = s;
    if (s == ATTN_ERR_MPI_PLANES && c->features & PROOF_INT16) wanted = s;
    if (s != wanted) fail(what, s ? c->message : "not refused");
    else if (s) { if (same(&m, back, before)) passed++; else fail(what, "a refused call wrote"); }
    else {
        float *const sink = m.dsink;
        keep(&m, back, after, 0);
        collect(&m, decode, back);
        const char *wrong = rank ? NULL : back ? proof_check_grad(c, a, grad_unit_of(c)) : proof_check(c, a, unit_of(c));
        if (wrong) fail(what, wrong), proof_describe(c); else passed++;
        keep(&m, back, before, 1);
        proof_reset(c);
        if (sink) m.g.dsink = m.dsink = malloc((size_t)heads * 4), memcpy(m.dsink, c->g.dsink, (size_t)heads * 4);
        late = 6;
        s = mpi_call(&m, decode, back);
        late = 0;
        expect(!s && same(&m, back, after) && (!sink || !memcmp(sink, m.dsink, (size_t)heads * 4)), what, "other bits where ranks are late");
        free(sink);
    }
    drop(before), drop(after), mpi_free(&m);
}
/* Shorter sequences, in buffers as they are: more often than proof.h draws them. */
static void shorten(proof_case *c, uint64_t *r)
{
    static int32_t used_q[8], used_k[8], start_k[8];
    attn_seq *s = &c->d.seq;
    const uint64_t which = random_bits(r);
    if ((c->features & (PROOF_SLOTS | PROOF_PAGED | PROOF_APPEND)) || which % 2) return;
    for (int64_t b = 0; b < c->d.batch; b++) {
        const proof_seq q = proof_seq_of(&c->d, b);
        used_q[b] = (int32_t)(random_bits(r) % (uint64_t)(q.q_len + 1));
        used_k[b] = (int32_t)(q.start + (int64_t)(random_bits(r) % (uint64_t)(q.used - q.start + 1)));
        start_k[b] = (int32_t)(q.start + (int64_t)(random_bits(r) % (uint64_t)(used_k[b] - q.start + 1)));
    }
    if (which & 2) s->used_q = used_q;
    if (which & 4) s->used_k = used_k;
    if ((which & 12) == 12) s->start_k = start_k;
}
/* Whether the case has what is wanted; then it has run. */
static int run_case(const grid_opts *o, int64_t index, uint64_t wanted)
{
    proof_rng r = { o->seed * 0x2545f4914f6cdd1du + (uint64_t)index, NULL, 0 };
    uint64_t own = r.state ^ 0x5bd1e995u;
    proof_case c;
    proof_answer a;
    random_bits(&r.state);
    proof_make(&c, &r, (int64_t)1 << (o->cost - (int64_t)(random_bits(&r.state) % 8)));
    if (random_bits(&own) % 8) {                          /* mostly what is taken */
        memset(&c.d.bias, 0, sizeof c.d.bias), memset(&c.d.mask, 0, sizeof c.d.mask);
        c.d.dropout = 0, c.g.dbias = NULL, c.features &= ~(PROOF_BIAS | PROOF_MASK | PROOF_DROPOUT | PROOF_DBIAS);
    }
    shorten(&c, &own);
    if ((c.features & wanted) != wanted || (wanted && (c.features & never()))) { proof_free(&c); return 0; }
    memset(&a, 0, sizeof a);
    if (solved(rank ? 0 : proof_solve(&c, &a) == ATTN_OK)) {
        const int allowed = !(c.features & never());
        run_call(&c, &a, &own, index, NULL, 0, 0);
        run_call(&c, &a, &own, index, "ulysses", 0, 0);
        if (proof_lse_count(&c.d) < 2000) run_call(&c, &a, &own, index, "ring", 1, 0);          /* few queries */
        if (c.backward && allowed) {
            const char *wrong = rank ? NULL : proof_forward(&c) ? "the reference refuses" : proof_solve_grad(&c, &a);
            if (wrong) printf("skipped: case %lld: %s\n", (long long)index, wrong), skipped++;
            if (solved(!wrong)) {
                share_forward(&c);
                proof_reset(&c);
                run_call(&c, &a, &own, index, NULL, 0, 1);
                run_call(&c, &a, &own, index, "ulysses", 0, 1);
            }
        }
    }
    proof_answer_free(&a), proof_free(&c);
    return 1;
}
/* What is drawn seldom. */
static void run_wanted(const grid_opts *o)
{
    const uint64_t wanted[] = { PROOF_DSINK | PROOF_PACKED, PROOF_DSINK | PROOF_ACCUMULATE, PROOF_DSINK | PROOF_PADDED, PROOF_DLSE | PROOF_ALIBI };
    for (size_t n = 0; n < sizeof wanted / sizeof *wanted; n++) {
        int64_t index = o->count, found = 0;
        for (; found < 2 && index < o->count + 3000; index++) found += run_case(o, index, wanted[n]);
        expect(found == 2, "wanted cases", "too few are drawn");
    }
}

int main(int argc, char **argv)
{
    grid_opts o = { 1, 20, -1, 18 };
    MPI_Init(&argc, &argv);
#ifdef MPI_DEVICE
    if (attn_hip_register() != ATTN_OK) MPI_Abort(MPI_COMM_WORLD, 2);
#endif
    MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    clock_state = 77 + (uint64_t)rank + (uint64_t)getpid();
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--count")) o.count = atoll(argv[i + 1]);
        else if (!strcmp(argv[i], "--seed")) o.seed = strtoull(argv[i + 1], NULL, 0);
        else if (!strcmp(argv[i], "--case")) o.only = atoll(argv[i + 1]);
        else if (!strcmp(argv[i], "--cost")) o.cost = atoll(argv[i + 1]);
        else { fprintf(stderr, "mpi_test: unknown argument %s\n", argv[i]); MPI_Abort(MPI_COMM_WORLD, 2); }
    }
    if (o.only >= 0) run_case(&o, o.only, 0);
    for (int64_t i = 0; i < o.count && o.only < 0; i++) run_case(&o, i, 0);
    if (o.only < 0) run_wanted(&o);
    thorough = o.count > 100;
    if (o.only < 0) fixed_tests();
    int64_t mine[3] = { passed, failed, skipped }, all[3];
    MPI_Allreduce(mine, all, 3, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (!rank) printf("%lld passed, %lld failed, %lld skipped\n", (long long)all[0], (long long)all[1], (long long)all[2]);
    return all[1] != 0;
}
