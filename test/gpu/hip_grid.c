/* hip_grid.c - backend "hip" on random valid descriptions, against the reference, element by element by the rule.
 *
 *   hip_grid [--count N] [--seed S] [--case I] [--cost BITS] [--seconds T] [--where host|device|both|mixed] [--backend NAME]
 *            [--hash] [--stop] [--scalar] [--type f16|bf16] [--backward] [--few] [--verbose]
 *
 * Case I of seed S is always the same description (proof_make), whatever runs before it; --cost bounds its size as in grid.c. It
 * goes in by host pointers, or by device pointers on a stream, or by both, which must agree bit for bit. What the backend does
 * not take must be declined with a reason; anything else must run, and on a kernel of a matrix unit where the class has one.
 *
 * The cases run in a child process: an error of the simulator ends it, the parent names the case and goes on with the next. A
 * line `repeat:` is a command that runs that case alone. --hash prints a hash over all bits that came out: it must not depend on
 * HIPSIM_ORDER. --stop ends after the first failure. --scalar lets any case run on the scalar kernel. --type says that there are
 * matrix kernels for that type of 16 bits alone (hip_rows.py): what is drawn of the other is of that; HIP_DIMS, of which dims (hip.h). --backward runs the
 * gradients of the descriptions that have some, from the reference's o and lse, and passes over the others. --few draws few rows and many keys alone,
 * most as kernels of few rows want them, half of those with masks. */
#define _GNU_SOURCE
#include "hip.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WHERE_MIXED, WHERE_HOST, WHERE_DEVICE, WHERE_BOTH, MAX_KERNELS = 96, MAX_DEATHS = 10, MAX_SHOWN = 20 };
static const char *const where_name[] = {"mixed", "host", "device", "both"};

typedef struct run_opts {
    uint64_t seed;
    int64_t count, only, cost;
    double seconds;
    int where, verbose, hash, stop, scalar, backward, few;
    const char *backend, *self;
} run_opts;

/* what survives the child */
static struct shared {
    int64_t next, running, passed, failed, declined, invalid;
    int64_t feature[PROOF_FEATURE_COUNT];
    int64_t kernel_runs[MAX_KERNELS];
    char kernel[MAX_KERNELS][64];
    uint64_t hash;
    int where;                                           /* of the call that runs */
} *shared;

static const char *const type_name[] = {[ATTN_F16] = " --type f16", [ATTN_BF16] = " --type bf16", [0] = ""};

static void repeat(const run_opts *o, int64_t index, int where) {
    static const char *const names[] = {"HIPSIM_ARCH", "HIPSIM_ORDER", "HIPSIM_POISON", "HIPSIM_GLOBAL_RACES", "HIP_DIMS"};
    printf("  repeat:");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) && *getenv(names[i])) printf(" %s=%s", names[i], getenv(names[i]));
    printf(" %s%s%s%s --seed %llu --case %lld --cost %lld --where %s --verbose\n", o->self, o->backward ? " --backward" : "", o->few ? " --few" : "", type_name[proof_type16], (unsigned long long)o->seed, (long long)index,
           (long long)o->cost, where_name[where]);
}
static void fail(const run_opts *o, int64_t index, int where, const char *what) {
    if (shared->failed++ >= MAX_SHOWN) return;
    printf("FAIL case %lld, %s pointers: %s\n", (long long)index, where_name[where], what);
    repeat(o, index, where);
}
static void count_kernel(const char *name) {
    for (int i = 0; i < MAX_KERNELS; i++) {
        if (!shared->kernel[i][0]) snprintf(shared->kernel[i], sizeof shared->kernel[i], "%s", name);
        if (!strncmp(shared->kernel[i], name, sizeof shared->kernel[i] - 1)) { shared->kernel_runs[i]++; return; }
    }
}
static void hash_bytes(const void *p, size_t n) {
    for (size_t i = 0; i < n; i++) shared->hash = (shared->hash ^ ((const uint8_t *)p)[i]) * 0x100000001b3u;
}

/* True when the backend takes the case, as it must or must not. */
static int takes(const run_opts *o, proof_case *c, int64_t index) {
    attn_plan plan;
    memset(&plan, 0, sizeof plan);
    c->d.backend = o->backend;
    attn_status s = proof_query(c, o->backward, &plan);
    const int hip = !strcmp(o->backend, "hip"),
              inside = !(c->features & hip_outside(o->backward));
    if (s && s != ATTN_ERR_DECLINED) fail(o, index, WHERE_HOST, attn_status_text(s));
    if (s && !strstr(plan.why, o->backend)) fail(o, index, WHERE_HOST, "declines without a reason");
    if (hip && !s && !inside) fail(o, index, WHERE_HOST, "takes what it does not compute");
    if (hip && s && inside) fail(o, index, WHERE_HOST, strstr(plan.why, "hip") ? strstr(plan.why, "hip") : plan.why);
    if (s) { shared->declined++; return 0; }
    return 1;
}
/* Notes the kernel; no silent fall to the scalar one where a matrix unit, or f32's own kernel, serves. */
static const char *kernel_of(const run_opts *o, const proof_case *c, const attn_desc *d, const attn_grad *g) {
    attn_plan plan;
    attn_status s = attn_query(d, o->backward ? g : NULL, &plan);
    if (s) return attn_status_text(s);
    if (o->verbose) printf("  %s, %s pointers: %s, %s, workspace %zu\n", plan.backend, where_name[shared->where], plan.kernel, plan.isa, plan.workspace_size);
    count_kernel(plan.kernel);
    if (o->backward && !strstr(plan.kernel, "_backward")) return "no kernel of a backward";
    if (o->backward) {
        const int flash = hip_has_flash_grad(d, g, plan.isa), f32 = !flash && hip_has_f32_grad(d);
        return o->scalar || ((hip_grad_unit(d, g) != 0) == flash && (strstr(plan.kernel, "fma32_") != NULL) == f32)     /* mfma32_, fma32_ */
                   ? NULL : "a scalar backward where there is another, or the other way round";
    }
    if (!strncmp(plan.kernel, "decode_", 7)) return plan.splits > 1 && d->q_len <= 16 && d->dropout == 0 ? NULL : "a decode of nothing";
    if (!o->scalar && d->head_dim <= hip_most_dims() && proof_v_dim(d) <= hip_most_dims() && !(c->features & PROOF_EMPTY) && !(d->seq.cu_k && !d->seq.total_k) &&
        !(hip_mixed(d) && getenv("HIP_EMULATED")) && strstr(plan.kernel, "scalar")) return "runs on the scalar kernel";
    return NULL;
}
static const char *by_host(const run_opts *o, proof_case *c, const proof_answer *a) {
    const char *other = kernel_of(o, c, &c->d, &c->g);
    attn_status s = proof_call(c, o->backward);
    if (other) return other;
    if (s) return c->message[0] ? c->message : attn_status_text(s);
    return o->backward ? proof_check_grad(c, a, hip_grad_unit(&c->d, &c->g)) : proof_check(c, a, hip_p_unit(&c->d));
}
static const char *by_device(const run_opts *o, proof_case *c, const proof_answer *a, int how) {
    hip_place p;
    hip_place_make(c, &p, how | (o->backward ? HIP_BACKWARD : 0));
    const char *other = kernel_of(o, c, &p.d, &p.g), *wrong = NULL;
    attn_status s = o->backward ? attn_backward(&p.d, &p.g) : attn_forward(&p.d);
    if (!s) hip_place_fetch(c, &p);
    if (s) wrong = c->message[0] ? c->message : attn_status_text(s);
    else wrong = o->backward ? proof_check_grad(c, a, hip_grad_unit(&p.d, &p.g)) : proof_check(c, a, hip_p_unit(&p.d));
    hip_place_free(c, &p);
    return other ? other : wrong;
}
/* every output of a case, one after another */
static size_t out_bytes(const proof_case *c) {
    size_t n = 0;
    for (int i = 0; i < c->buffers; i++) n += c->buffer[i].kind == PROOF_OUT ? c->buffer[i].bytes : 0;
    return n;
}
static char *copy_out(const proof_case *c, char *to) {
    size_t n = 0;
    for (int i = 0; i < c->buffers; i++)
        if (c->buffer[i].kind == PROOF_OUT) memcpy(to + n, c->buffer[i].mem, c->buffer[i].bytes), n += c->buffer[i].bytes;
    return to;
}
static int same_out(const proof_case *c, const char *old) {
    char *now = copy_out(c, (char *)malloc(out_bytes(c) + 1));
    const int same = !memcmp(now, old, out_bytes(c));
    free(now);
    return same;
}
/* 0 for every value that is not finite in the keys that some row may see */
static void make_finite(proof_case *c, attn_in *x, int64_t dim) {
    const attn_desc *d = &c->d;
    const proof_view w = proof_kv_view(d, x->stride, x->layout, dim);
    for (int64_t b = 0; b < d->batch; b++) {
        const proof_seq s = proof_seq_of(d, b);
        for (int64_t t = s.start; t < s.used; t++)
            for (int64_t h = 0; h < w.n[2]; h++)
                for (int64_t at = proof_token(d, &w, b, t, h), e = 0; e < dim; e++)
                    if (!is_finite(element_get(x->data, x->dtype, at + e))) element_put((void *)(uintptr_t)x->data, x->dtype, at + e, 0);
    }
}
/* The rows whose answer is finite see nothing that was not: their bits, after a run with 0 in those places, are still `old`. */
static const char *same_finite_rows(const proof_case *c, const proof_answer *a, const char *old) {
    const attn_desc *d = &c->d;
    const int64_t dv = proof_v_dim(d);
    const size_t size = dtype_size(d->o.dtype);
    const proof_view w = proof_rows_view(d, d->o.stride, d->o.layout, dv);
    size_t o_at = 0, lse_at = 0, n = 0;                  /* where the buffers of o and lse begin in `old` */
    for (int i = 0; i < c->buffers; i++) {
        const proof_buffer *b = &c->buffer[i];
        const char *o = (const char *)d->o.data, *lse = (const char *)d->lse;
        if (b->kind != PROOF_OUT) continue;
        if (o >= b->mem && o < b->mem + b->bytes) o_at = n + (size_t)(o - b->mem);
        if (lse && lse >= b->mem && lse < b->mem + b->bytes) lse_at = n;
        n += b->bytes;
    }
    for (int64_t b = 0; b < d->batch; b++)
        for (int64_t i = 0; i < proof_seq_of(d, b).rows; i++)
            for (int64_t h = 0; h < d->heads; h++) {
                const int64_t row = d->seq.cu_q ? d->seq.cu_q[b] + i : b * d->q_len + i, from = (row * d->heads + h) * dv;
                const int64_t at = proof_row(d, &w, b, i, h), l = proof_lse_at(d, b, i, h);
                int finite = is_finitef(a->lse[l]) || float_bits(a->lse[l]) == 0xff800000;
                for (int64_t e = 0; e < dv; e++) finite &= is_finite(a->o[from + e]);
                if (!finite) continue;
                if (memcmp((const char *)d->o.data + at * (int64_t)size, old + o_at + at * (int64_t)size, (size_t)dv * size) ||
                    (d->lse && memcmp(d->lse + l, old + lse_at + l * 4, 4)))
                    return "a value that is not finite changes the bits of a row that does not see it";
            }
    return NULL;
}
/* What the case's answer is; a backward's o and lse are the reference's from here on. */
static attn_status solve(const run_opts *o, proof_case *c, proof_answer *a, int64_t index) {
    if (!o->backward) return proof_solve(c, a);
    memset(a, 0, sizeof *a);
    attn_status s = proof_forward(c);
    const char *wrong = s ? NULL : proof_solve_grad(c, a);
    if (wrong) fail(o, index, WHERE_HOST, wrong);
    return s;
}
static void run_case(const run_opts *o, int64_t index) {
    proof_rng r = {o->seed * 0x2545f4914f6cdd1du + (uint64_t)index, NULL, 0};
    proof_case c;
    proof_answer a;
    random_bits(&r.state);
    proof_make(&c, &r, (int64_t)1 << (o->cost - (int64_t)(random_bits(&r.state) % 8)));
    /* more keys and values that are not finite than a backend without 0 * NaN in its matrix products would need */
    if (!o->backward && !(c.features & (PROOF_NONFINITE | PROOF_APPEND)) && random_bits(&r.state) % 6 == 0) proof_spoil(&c), proof_freeze(&c);
    if (o->verbose) printf("case %lld: ", (long long)index), proof_describe(&c);
    int where = o->where == WHERE_MIXED ? (int)(WHERE_HOST + random_bits(&r.state) % 3) : o->where;
    const int how = (int)(random_bits(&r.state) % 8);
    shared->running = index, shared->where = where;
    if ((o->backward && !c.backward) || !takes(o, &c, index)) { proof_free(&c); return; }
    attn_status s = solve(o, &c, &a, index);
    if (s) {
        shared->invalid++;
        if (o->verbose) printf("  refused: %s %s\n", attn_status_name(s), c.message);
    } else {
        char *first = NULL;
        for (int f = 0; f < PROOF_FEATURE_COUNT; f++) shared->feature[f] += c.features >> f & 1;
        for (int w = WHERE_HOST; w <= WHERE_DEVICE; w++) {
            if (where != WHERE_BOTH && where != w) continue;
            proof_reset(&c);
            c.d.backend = o->backend, shared->where = w;
            const char *wrong = w == WHERE_HOST ? by_host(o, &c, &a) : by_device(o, &c, &a, how);
            if (wrong) fail(o, index, w, wrong); else shared->passed++;
            for (int i = 0; i < c.buffers; i++)
                if (c.buffer[i].kind == PROOF_OUT) hash_bytes(c.buffer[i].mem, c.buffer[i].bytes);
            if (!wrong && (c.features & PROOF_NONFINITE)) {
                char *old = copy_out(&c, (char *)malloc(out_bytes(&c) + 1));
                make_finite(&c, &c.d.k, c.d.head_dim), make_finite(&c, &c.d.v, proof_v_dim(&c.d));
                proof_reset(&c);
                if (w == WHERE_HOST) by_host(o, &c, &a); else by_device(o, &c, &a, how);
                if ((wrong = same_finite_rows(&c, &a, old)) != NULL) fail(o, index, w, wrong); else shared->passed++;
                free(old);
                for (int i = 0; i < c.buffers; i++) memcpy(c.buffer[i].mem, c.buffer[i].pristine, c.buffer[i].bytes);
                continue;
            }
            if (where != WHERE_BOTH || wrong) continue;
            char *all = first ? NULL : (char *)malloc(out_bytes(&c) + 1);
            if (all) first = copy_out(&c, all);
            else if (!same_out(&c, first)) fail(o, index, WHERE_BOTH, "host and device pointers differ");
        }
        free(first);
    }
    proof_answer_free(&a);
    proof_free(&c);
}
static void run_from(const run_opts *o, double end) {
    attn_status s = attn_hip_register();
    if (s && !strcmp(o->backend, "hip")) {
        fail(o, shared->next, WHERE_HOST, attn_status_text(s));
        shared->next = o->count;
        return;
    }
    for (; shared->next < o->count && attn_seconds() < end && !(o->stop && shared->failed); shared->next++) run_case(o, shared->next);
    attn_shutdown();
}

int main(int argc, char **argv) {
    run_opts o = {1, 300, -1, 20, 0, WHERE_MIXED, 0, 0, 0, 0, 0, 0, "hip", argv[0]};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--verbose")) o.verbose = 1;
        else if (!strcmp(argv[i], "--hash")) o.hash = 1;
        else if (!strcmp(argv[i], "--stop")) o.stop = 1;
        else if (!strcmp(argv[i], "--scalar")) o.scalar = 1;
        else if (!strcmp(argv[i], "--backward")) o.backward = 1;
        else if (!strcmp(argv[i], "--few")) o.few = 1;
        else if (!strcmp(argv[i], "--type")) proof_type16 = strcmp(value, "bf16") ? ATTN_F16 : ATTN_BF16, i++;
        else if (!strcmp(argv[i], "--seed")) o.seed = strtoull(value, NULL, 0), i++;
        else if (!strcmp(argv[i], "--count")) o.count = atoll(value), i++;
        else if (!strcmp(argv[i], "--case")) o.only = atoll(value), i++;
        else if (!strcmp(argv[i], "--cost")) o.cost = atoll(value), i++;
        else if (!strcmp(argv[i], "--seconds")) o.seconds = atof(value), i++;
        else if (!strcmp(argv[i], "--backend")) o.backend = value, i++;
        else if (!strcmp(argv[i], "--where")) {
            for (o.where = WHERE_BOTH; o.where > 0 && strcmp(value, where_name[o.where]); o.where--) {}
            i++;
        } else { fprintf(stderr, "hip_grid: unknown argument %s\n", argv[i]); return 2; }
    }
    proof_mixed_percent = o.backward ? 0 : 15;          /* a backward wants one type for q, k and v */
    proof_planes_percent = 0;                            /* declined */
    proof_plain_percent = o.backward ? 50 : 25;
    proof_long_percent = o.backward ? 10 : 25;           /* keys in parts, and kernels of few rows */
    if (o.few) proof_long_percent = 100, proof_plain_percent = 80, proof_masked_percent = 50;
    if (o.cost < 10 || o.cost > 40) { fprintf(stderr, "hip_grid: --cost is a number of bits from 10 to 40\n"); return 2; }
    setvbuf(stdout, NULL, _IOLBF, 0);
    shared = (struct shared *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 2;
    memset(shared, 0, sizeof *shared);
    const double start = attn_seconds(), end = o.seconds > 0 ? start + o.seconds : 1e300;
    if (o.only >= 0) {
        shared->next = o.only, o.count = o.only + 1;
        run_from(&o, end);
    } else for (int deaths = 0; shared->next < o.count && attn_seconds() < end && !(o.stop && shared->failed);) {
        int status = 0;
        pid_t child = fork();
        if (child < 0) return 2;
        if (!child) {
            run_from(&o, end);
            fflush(stdout);
            _exit(0);
        }
        if (waitpid(child, &status, 0) != child) return 2;
        if (!status) continue;
        char what[64];
        if (WIFSIGNALED(status)) snprintf(what, sizeof what, "ends with signal %d", WTERMSIG(status));
        else snprintf(what, sizeof what, "ends with status %d", WEXITSTATUS(status));
        fail(&o, shared->running, shared->where, what);
        shared->next = shared->running + 1;
        if (++deaths == MAX_DEATHS) { printf("FAIL %d cases ended the process, no more are tried\n", deaths); break; }
    }
    if (o.only < 0) {
        printf("features:");
        for (int f = 0; f < PROOF_FEATURE_COUNT; f++)
            if (shared->feature[f]) printf(" %s %lld,", proof_feature_name[f], (long long)shared->feature[f]);
        printf("\nkernels:");
        for (int i = 0; i < MAX_KERNELS && shared->kernel[i][0]; i++) printf(" %s %lld,", shared->kernel[i], (long long)shared->kernel_runs[i]);
        printf("\n");
    }
    printf("%s grid, %s, order %s, seed %llu: %lld descriptions in %.1f s, %lld declined, %lld refused", o.backend,
           getenv("HIPSIM_ARCH") ? getenv("HIPSIM_ARCH") : "the device present", getenv("HIPSIM_ORDER") ? getenv("HIPSIM_ORDER") : "forward",
           (unsigned long long)o.seed, (long long)(o.only >= 0 ? 1 : shared->next), attn_seconds() - start, (long long)shared->declined,
           (long long)shared->invalid);
    if (o.hash) printf(", hash %016llx", (unsigned long long)shared->hash);
    printf("\n%lld passed, %lld failed, 0 skipped\n", (long long)shared->passed, (long long)shared->failed);
    return shared->failed != 0;
}
