/* grid.c - every registered backend on random valid descriptions, against the reference.
 *
 *   grid [--count N] [--seed S] [--case I] [--backend NAME] [--cost BITS] [--tolerant PERCENT] [--coverage FILE] [--forward]
 *        [--verbose]
 *
 * Case I of seed S is always the same description, whatever runs before it. What a backend accepts (attn_query) is compared with
 * the reference; what it declines is counted by reason. The table `must` says which class each backend has to take, so that a
 * silent fall to a slower path fails. PERCENT of the descriptions (2) have a tolerance too: they are run without it and with it, and
 * then a row may be wrong by its certificate, by not one ulp more, and one whose certificate is 0 has the bits of the plain call.
 * The last line holds the totals; the exit code is 1 when anything failed. */
#include "proof.h"

enum { FORWARD, BACKWARD, TOLERANT, PASSES };            /* TOLERANT: forward, with a tolerance */
static const char *const pass_name[] = {"forward", "backward", "forward with a tolerance"};

/* Which kernel must take which class: a case without the features of `except` must be accepted; without those of `slower` too, the
 * kernel must be the one named. The reference takes everything. A packed batch may have fewer rows than pay for codes, and a
 * decode takes rows of some widths alone. */
typedef struct must { const char *backend; int pass; uint64_t except, slower; const char *kernel; } must;
static must must_of(const char *backend, int pass) {
    const uint64_t types = PROOF_F64, extras = PROOF_SOFTCAP | PROOF_BIAS | PROOF_MASK | PROOF_ALIBI | PROOF_SCALE;
    const must table[] = {
        {"reference", FORWARD, 0, 0, "forward_f64"},
        {"reference", BACKWARD, 0, 0, "backward_f64"},
        {"reference", TOLERANT, 0, 0, "forward_f64"},
        {"flash", FORWARD, types, extras, "flash_forward"},
        {"flash", BACKWARD, types | PROOF_DOUT64, extras, "flash_backward"},
        {"flash", TOLERANT, types, extras, "flash_forward"},
        {"adaptive", TOLERANT, types | extras | PROOF_SINK | PROOF_DROPOUT | PROOF_PACKED | PROOF_FEW, 0, "adaptive_int16"},
        {"standard", FORWARD, types, 0, "standard_forward"},
        {"standard", BACKWARD, types | PROOF_DOUT64, 0, "standard_backward"},
        {"standard", TOLERANT, types, 0, "standard_forward"},
    };
    const must nothing = {backend, pass, ~(uint64_t)0, ~(uint64_t)0, NULL};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].backend, backend) && table[i].pass == pass) return table[i];
    return nothing;
}
/* The automatic choice takes the first of these that accepts. */
static const char *const preference[] = {"flash", "standard", "reference"};
/* Why adaptive may decline what `must` says: the machine has no products of int16. */
static int no_int16(const char *why) { return strstr(why, "the processor has no products of int16") != NULL; }

/* ------------------------------------------------------------------------------------------------- statistics */
enum { MAX_BACKENDS = 16, MAX_REASONS = 200 };
typedef struct tally { int64_t accepted, declined; } tally;
typedef struct reason { char text[160]; int backend, pass, taken; int64_t n; } reason;
static tally by_feature[MAX_BACKENDS][PASSES][PROOF_FEATURE_COUNT + 1];
static int64_t coded[PROOF_FEATURE_COUNT + 1];           /* rows that adaptive computed from codes */
static reason reasons[MAX_REASONS];
static int n_reasons;
static int64_t passed, failed, skipped, invalid, made, tolerant, no_codes;
static int64_t first_failures;

static void count_reason(int backend, int pass, int taken, const char *text) {
    int i = 0;
    while (i < n_reasons && (reasons[i].backend != backend || reasons[i].pass != pass || reasons[i].taken != taken ||
                             strncmp(reasons[i].text, text, sizeof reasons[i].text - 1))) i++;
    if (i == MAX_REASONS) return;
    if (i == n_reasons) {
        n_reasons++;
        snprintf(reasons[i].text, sizeof reasons[i].text, "%s", text);
        reasons[i].backend = backend, reasons[i].pass = pass, reasons[i].taken = taken;
    }
    reasons[i].n++;
}
static void count_case(int backend, int pass, uint64_t features, int accepted) {
    for (int f = 0; f <= PROOF_FEATURE_COUNT; f++) {
        if (f < PROOF_FEATURE_COUNT && !(features >> f & 1)) continue;
        tally *t = &by_feature[backend][pass][f];
        if (accepted) t->accepted++; else t->declined++;
    }
}
/* adaptive is for calls with a tolerance: elsewhere it is no column */
static int has_column(int i, int pass) { return i < MAX_BACKENDS && (pass == TOLERANT || strcmp(attn_backend_at(i)->name, "adaptive")); }
static void print_table(FILE *out, int pass) {
    fprintf(out, "\n| %s |", pass_name[pass]);
    for (int i = 0; attn_backend_at(i); i++) if (has_column(i, pass)) fprintf(out, " %s |", attn_backend_at(i)->name);
    fprintf(out, pass == TOLERANT ? " rows from codes |\n|---|---|" : "\n|---|");
    for (int i = 0; attn_backend_at(i); i++) if (has_column(i, pass)) fprintf(out, "---|");
    fprintf(out, "\n");
    for (int f = PROOF_FEATURE_COUNT; f >= 0; f--) {
        const int row = f == PROOF_FEATURE_COUNT ? f : PROOF_FEATURE_COUNT - 1 - f;
        if (!by_feature[0][pass][row].accepted && !by_feature[0][pass][row].declined) continue;
        fprintf(out, "| %s |", row == PROOF_FEATURE_COUNT ? "**all**" : proof_feature_name[row]);
        for (int i = 0; attn_backend_at(i); i++) {
            if (!has_column(i, pass)) continue;
            tally t = by_feature[i][pass][row];
            fprintf(out, t.declined ? t.accepted ? " %lld of %lld |" : " none of %lld |" : " all %lld |",
                    (long long)(t.declined && !t.accepted ? t.declined : t.accepted), (long long)(t.accepted + t.declined));
        }
        if (pass == TOLERANT) fprintf(out, " %lld |", (long long)coded[row]);
        fprintf(out, "\n");
    }
}
static void print_coverage(FILE *out, uint64_t seed) {
    fprintf(out, "# Accepted and declined, by backend and feature\n\n"
                 "Written by `make coverage`: %lld random descriptions (seed %llu, ISA %s), of which %lld valid. A cell counts the\n"
                 "valid descriptions with that feature which the backend accepts; each accepted one was compared with the reference:\n"
                 "%lld comparisons passed, %lld failed. %lld have a tolerance, 1e-1 to 1e-5: these were run with it too.\n",
            (long long)made, (unsigned long long)seed, attn_isa(), (long long)(made - invalid), (long long)passed, (long long)failed,
            (long long)tolerant);
    for (int pass = 0; pass < PASSES; pass++) print_table(out, pass);
    for (int taken = 1; taken >= 0; taken--) {
        fprintf(out, taken ? "\nKernels that ran:\n\n" : "\nReasons to decline:\n\n");
        for (int i = 0; i < n_reasons; i++)
            if (reasons[i].taken == taken)
                fprintf(out, "- %s %s: %s (%lld)\n", attn_backend_at(reasons[i].backend)->name,
                        pass_name[reasons[i].pass], reasons[i].text, (long long)reasons[i].n);
    }
}

/* ------------------------------------------------------------------------------------------------------ a case */
typedef struct run_opts { uint64_t seed; int64_t count, only, cost, tolerant; const char *backend, *coverage, *self; int forward, verbose; } run_opts;

static void fail(const run_opts *o, int64_t index, const char *backend, int pass, const char *what) {
    failed++;
    if (first_failures++ >= 20) return;
    printf("FAIL case %lld, %s %s: %s\n  repeat: ATTN_ISA=%s %s --seed %llu --case %lld --cost %lld --tolerant %lld --backend %s --verbose\n",
           (long long)index, backend, pass_name[pass], what, attn_isa(), o->self,
           (unsigned long long)o->seed, (long long)index, (long long)o->cost, (long long)o->tolerant, backend);
}
/* Whether P may be rounded: bf16 in and out, without a tolerance. */
static int rounds_p(const proof_case *c, int pass) { return pass == FORWARD && c->d.v.dtype == ATTN_BF16 && c->d.o.dtype == ATTN_BF16; }
/* Whether q and k, or dout and v, may be multiplied as bf16. */
static int bf16_pairs(const proof_case *c, int pass) {
    return (c->d.q.dtype == ATTN_BF16 && c->d.k.dtype == ATTN_BF16) ||
           (pass == BACKWARD && c->g.dout.dtype == ATTN_BF16 && c->d.v.dtype == ATTN_BF16);
}
/* Asks, counts, and holds the answer against the table; true when the backend takes the call. */
static int accepted(const run_opts *o, proof_case *c, int64_t index, int i, int pass) {
    const char *name = attn_backend_at(i)->name;
    attn_plan plan;
    memset(&plan, 0, sizeof plan);
    c->d.backend = name;
    attn_status s = proof_query(c, pass == BACKWARD, &plan);
    const int ok = s == ATTN_OK;
    if (!ok && s != ATTN_ERR_DECLINED) { fail(o, index, name, pass, attn_status_text(s)); return 0; }
    char text[160];
    const char *line = strstr(plan.why, name);
    if (ok) snprintf(text, sizeof text, "%s, %s", plan.kernel ? plan.kernel : "", plan.isa ? plan.isa : "");
    else snprintf(text, sizeof text, "%.*s", line ? (int)strcspn(line, "\n") : 0, line ? line : "");
    if (!ok && !text[0]) fail(o, index, name, pass, "declines without a reason");
    count_reason(i, pass, ok, ok ? text : text + (strncmp(text, name, strlen(name)) ? 0 : strlen(name) + 2));
    count_case(i, pass, c->features, ok);
    no_codes |= !ok && no_int16(text);
    const must rule = must_of(name, pass);
    if (!ok && !(c->features & rule.except) && !no_int16(text)) fail(o, index, name, pass, text);
    if (ok && rule.kernel && !(c->features & (rule.except | rule.slower))) {
        const char *more = plan.kernel && !strncmp(plan.kernel, rule.kernel, strlen(rule.kernel)) ? plan.kernel + strlen(rule.kernel) : "?";
        if (*more && !(strcmp(more, "_p_bf16") ? !strcmp(more, pass == BACKWARD ? "_bf16" : "_qk_bf16") && bf16_pairs(c, pass) : rounds_p(c, pass))) fail(o, index, name, pass, "another kernel than the one for this class");
        if (plan.isa && strcmp(plan.isa, attn_isa()) && strcmp(name, "reference")) fail(o, index, name, pass, "another ISA than this machine's");
    }
    if (o->verbose) printf("  %s %s: %s\n", name, pass_name[pass], text);
    return ok;
}
static void check_choice(const run_opts *o, proof_case *c, int64_t index, int pass) {
    attn_plan plan;
    if (getenv("ATTN_BACKEND")) return;
    for (size_t i = 0; i < sizeof preference / sizeof *preference; i++) {
        c->d.backend = preference[i];
        if (proof_query(c, pass == BACKWARD, &plan)) continue;
        c->d.backend = NULL;
        attn_status s = proof_query(c, pass == BACKWARD, &plan);
        if (s || strcmp(plan.backend, preference[i])) fail(o, index, preference[i], pass, "the automatic choice is another one");
        return;
    }
}
static void check_backward_refused(const run_opts *o, proof_case *c, int64_t index) {
    attn_plan plan;
    if (c->backward && proof_query(c, 1, &plan) != ATTN_ERR_TOLERANCE_GRAD) fail(o, index, "auto", TOLERANT, "backward takes a tolerance");
}
static int selected(const run_opts *o, int i) { return !o->backend || !strcmp(o->backend, attn_backend_at(i)->name); }

static void run_backward(const run_opts *o, proof_case *c, proof_answer *a, int64_t index) {
    attn_status s = proof_forward(c);
    const char *wrong = s ? attn_status_text(s) : proof_solve_grad(c, a);
    if (wrong) { fail(o, index, "reference", BACKWARD, wrong); return; }
    check_choice(o, c, index, BACKWARD);
    for (int i = 0; attn_backend_at(i); i++) {
        if (!selected(o, i) || !accepted(o, c, index, i, BACKWARD)) continue;
        proof_reset(c);
        s = proof_call(c, 1);
        wrong = s ? c->message : proof_check_grad(c, a, 0);
        if (wrong) fail(o, index, attn_backend_at(i)->name, BACKWARD, wrong); else passed++;
    }
}
/* Each backend with the tolerance, beside a plain call. */
static void run_tolerant(const run_opts *o, proof_case *c, const proof_answer *a, int64_t index) {
    tolerant++;
    for (int i = 0; attn_backend_at(i); i++) {
        const char *name = attn_backend_at(i)->name;
        proof_tolerate(c, 1);
        if (!selected(o, i) || !accepted(o, c, index, i, TOLERANT)) continue;
        const char *wrong = proof_run_tolerant(c, a, name);
        if (wrong) { fail(o, index, name, TOLERANT, wrong); continue; }
        passed++;
        for (int f = 0; f <= PROOF_FEATURE_COUNT; f++)
            if (f == PROOF_FEATURE_COUNT || c->features >> f & 1) coded[f] += proof_coded(c);
    }
    check_backward_refused(o, c, index);
    proof_tolerate(c, 0);
}
static void run_case(const run_opts *o, int64_t index) {
    proof_rng r = {o->seed * 0x2545f4914f6cdd1du + (uint64_t)index, NULL, 0};
    proof_case c;
    proof_answer a;
    random_bits(&r.state);
    proof_tolerant = index % 100 * 37 % 100 < o->tolerant;
    /* costs spread evenly over the powers of two, so that most cases are small and some reach the bound */
    const int64_t less = (int64_t)(random_bits(&r.state) % 11), cost = o->cost - (proof_tolerant ? 2 : less);
    proof_make(&c, &r, (int64_t)1 << cost);
    made++;
    if (o->verbose) proof_describe(&c);
    unit_l2((int64_t)256 << (10 + index % 4));          /* tiles as on processors with 256 KiB to 2 MiB */
    attn_status s = proof_solve(&c, &a);
    if (s) {
        invalid++;
        if (o->verbose) printf("  refused: %s %s\n", attn_status_name(s), c.message);
        count_reason(0, 0, 2, attn_status_name(s));
    } else {
        check_choice(o, &c, index, FORWARD);
        for (int i = 0; attn_backend_at(i); i++) {
            if (!selected(o, i) || !accepted(o, &c, index, i, FORWARD)) continue;
            proof_reset(&c);
            s = proof_call(&c, 0);
            const char *wrong = s ? c.message : proof_check(&c, &a, forward_p_unit(&c.d));
            if (wrong) fail(o, index, attn_backend_at(i)->name, FORWARD, wrong); else passed++;
        }
        unit_filter(index & 1);                         /* in each second one keys are left out wherever they may be */
        if (c.tolerance > 0) run_tolerant(o, &c, &a, index);
        unit_filter(0);
        proof_reset(&c);
        if (c.backward && !o->forward) run_backward(o, &c, &a, index);
    }
    proof_answer_free(&a);
    proof_free(&c);
}
int main(int argc, char **argv) {
    run_opts o = {1, 300, -1, 24, 2, NULL, NULL, argv[0], 0, 0};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--forward")) o.forward = 1;
        else if (!strcmp(argv[i], "--verbose")) o.verbose = 1;
        else if (!strcmp(argv[i], "--seed")) o.seed = strtoull(value, NULL, 0), i++;
        else if (!strcmp(argv[i], "--count")) o.count = atoll(value), i++;
        else if (!strcmp(argv[i], "--case")) o.only = atoll(value), i++;
        else if (!strcmp(argv[i], "--cost")) o.cost = atoll(value), i++;
        else if (!strcmp(argv[i], "--tolerant")) o.tolerant = atoll(value), i++;
        else if (!strcmp(argv[i], "--backend")) o.backend = value, i++;
        else if (!strcmp(argv[i], "--coverage")) o.coverage = value, i++;
        else { fprintf(stderr, "grid: unknown argument %s\n", argv[i]); return 2; }
    }
    if (o.cost < 10 || o.cost > 40) { fprintf(stderr, "grid: --cost is a number of bits from 10 to 40\n"); return 2; }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (getenv("ATTN_ISA") && strcmp(getenv("ATTN_ISA"), attn_isa())) {
        printf("skipped: this machine lacks %s\n0 passed, 0 failed, 1 skipped\n", getenv("ATTN_ISA"));
        return 0;
    }
    if (o.only >= 0) run_case(&o, o.only);
    else for (int64_t i = 0; i < o.count; i++) run_case(&o, i);
    if (invalid * 10 > made && o.only < 0) printf("FAIL %lld of %lld descriptions are refused\n", (long long)invalid, (long long)made), failed++;
    for (int i = 0; i < n_reasons; i++)
        if (reasons[i].taken == 2) printf("refused: %s (%lld)\n", reasons[i].text, (long long)reasons[i].n);
    if (o.coverage) {
        FILE *out = fopen(o.coverage, "w");
        if (!out) { fprintf(stderr, "grid: cannot write %s\n", o.coverage); return 2; }
        print_coverage(out, o.seed);
        fclose(out);
    }
    printf("grid, %s, seed %llu: %lld descriptions, %lld valid, %lld with a tolerance, %lld rows from codes, %lld decoded\n", attn_isa(),
           (unsigned long long)o.seed, (long long)made, (long long)(made - invalid), (long long)tolerant, (long long)coded[PROOF_FEATURE_COUNT],
           (long long)coded[PROOF_BIT_FEW]);
    if (tolerant >= 100 && !o.backend && !no_codes && !coded[PROOF_BIT_FEW]) printf("FAIL no row was decoded from codes\n"), failed++;
    if (tolerant >= 50 && !o.backend && !no_codes && !coded[PROOF_FEATURE_COUNT]) printf("FAIL no row was computed from codes\n"), failed++;
    printf("%lld passed, %lld failed, %lld skipped\n", (long long)passed, (long long)failed, (long long)skipped);
    attn_shutdown();
    return failed != 0;
}
