/* registry.c - which backend runs: registration, names, the default, the environment (in processes of their own, for it is read
 * once), the automatic choice, and attn_query, which says why the others do not. */
#include "unit.h"
#include <sys/wait.h>
#include <unistd.h>

static const problem_case plain = { .b = 1, .sq = 3, .sk = 5, .h = 2, .d = 8 };

/* A backend of a third party: takes head_dim 8 only, and writes 7 everywhere. */
typedef struct third { int64_t plans, runs, append_len; int no_room, no_threads; attn_status fail; } third;

static attn_status third_plan(void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan)
{
    ((third *)user)->plans++, ((third *)user)->append_len = d->append.len;
    if (g) return strcpy(plan->why, "forward only"), ATTN_ERR_DECLINED;
    if (d->head_dim != 8) return strcpy(plan->why, "head_dim is not 8"), ATTN_ERR_DECLINED;
    plan->kernel = "sevens";
    plan->isa = "none";
    if (!((third *)user)->no_room) plan->workspace_size = 100;
    if (!((third *)user)->no_threads) plan->threads = 3, plan->splits = 2;
    return ATTN_OK;
}

static attn_status third_run(void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan)
{
    (void)g;
    ((third *)user)->runs++;
    assert_string_equal(plan->kernel, "sevens");
    if (((third *)user)->no_room) assert_null(d->workspace);
    else {
        assert_non_null(d->workspace);
        assert_true((uintptr_t)d->workspace % 64 == 0 && plan->workspace_size == 100);
        memset(d->workspace, 1, 100);
    }
    assert_true(d->kv_heads == 2 && d->v_dim == 8 && d->flags & ATTN_SCALE);           /* resolved */
    assert_true(d->scale == (float)(1 / sqrt(8.0)));
    assert_true(d->o.stride[0] == 48 && d->o.stride[1] == 16 && d->o.stride[2] == 8);
    if (((third *)user)->fail) return ((third *)user)->fail;
    for (int64_t i = 0; i < d->q_len * d->heads * d->v_dim; i++) ((float *)d->o.data)[i] = 7;
    return ATTN_OK;
}

static third other;
static const attn_backend *third_party(void)
{
    static char name[] = "sevens";
    attn_backend b = { name, ATTN_ABI, third_plan, third_run, &other, NULL, NULL, NULL, NULL };
    if (!attn_backend_find("sevens")) {
        assert_ok(attn_register(&b));
        memset(&b, 0, sizeof b);                /* it was copied, the name too */
        memset(name, 'x', sizeof name - 1);
    }
    return attn_backend_find("sevens");
}

static void test_built_in(void **state)
{
    static const char *const names[] = { "reference", "standard", "flash" };
    int n = 0;
    (void)state;
    while (attn_backend_at(n)) {
        assert_ptr_equal(attn_backend_find(attn_backend_at(n)->name), attn_backend_at(n));
        assert_true(attn_backend_at(n)->abi == ATTN_ABI);
        n++;
    }
    assert_true(n >= 3);
    assert_null(attn_backend_at(-1));
    assert_null(attn_backend_at(n + 1000));
    for (int64_t i = 0; i < COUNT(names); i++) assert_non_null(attn_backend_find(names[i]));
    assert_null(attn_backend_find("nonesuch"));
    assert_null(attn_backend_find(NULL));
}

static void test_third_party(void **state)
{
    problem p = problem_make(&plain, 1);
    attn_plan plan;
    const attn_backend *b = third_party();
    static const int32_t used[1] = { 1 }, cu[2] = { 0, 3 };
    static float fresh[3 * 2 * 8];
    int64_t runs = other.runs;
    int last = 0;
    (void)state;
    while (attn_backend_at(last + 1)) last++;
    assert_ptr_equal(attn_backend_at(last), b);
    p.d.backend = "sevens";
    p.d.lse = NULL;
    assert_ok(attn_query(&p.d, NULL, &plan));
    assert_string_equal(plan.backend, "sevens");
    assert_string_equal(plan.kernel, "sevens");
    assert_true(plan.workspace_size >= 100);
    assert_true(plan.threads == 3 && plan.splits == 2);
    other.no_threads = 1;                       /* who says nothing of them has one of each */
    assert_ok(attn_query(&p.d, NULL, &plan));
    assert_true(plan.threads == 1 && plan.splits == 1);
    other.no_threads = 0;
    assert_int_equal(other.runs, runs);         /* a query runs nothing */
    assert_ok(attn_forward(&p.d));
    assert_int_equal(other.runs, runs + 1);
    for (int i = 0; i < 48; i++) assert_true(((float *)p.d.o.data)[i] == 7);
    const int64_t alive = unit_alive;
    other.fail = ATTN_ERR_GPU;                  /* what run returns is what the caller gets; the workspace is freed all the same */
    assert_int_equal(attn_forward(&p.d), ATTN_ERR_GPU);
    assert_int_equal(unit_alive, alive);
    other.fail = ATTN_OK;
    other.no_room = 1;                          /* who says nothing of a workspace has none, and is run as well */
    assert_ok(attn_forward(&p.d));
    assert_int_equal(other.runs, runs + 3);
    other.no_room = 0;
    p.d.seq.used_k = used, p.d.append.cu = cu, p.d.append.total = 3;
    p.d.append.len = 1000;                      /* with cu an upper bound: a backend sees no more than all tokens */
    p.d.append.k.data = p.d.append.v.data = fresh;
    p.d.append.k_cache = (void *)(uintptr_t)p.d.k.data, p.d.append.v_cache = (void *)(uintptr_t)p.d.v.data;
    assert_ok(attn_query(&p.d, NULL, &plan));
    assert_int_equal(other.append_len, 3);
    memset(&p.d.append, 0, sizeof p.d.append), p.d.seq.used_k = NULL;
    p.d.head_dim = 4;
    assert_int_equal(attn_forward(&p.d), ATTN_ERR_DECLINED);
    assert_int_equal(attn_query(&p.d, NULL, &plan), ATTN_ERR_DECLINED);
    assert_non_null(strstr(plan.why, "sevens: head_dim is not 8\n"));
    assert_true(!plan.backend[0] && !plan.kernel[0] && !plan.isa[0] && !plan.workspace_size && !plan.threads && !plan.splits);
    problem_free(&p);
}

static void test_default(void **state)
{
    problem p = problem_make(&plain, 2);
    attn_plan plan;
    (void)state;
    third_party();
    assert_int_equal(attn_set_default("nonesuch"), ATTN_ERR_BACKEND_UNKNOWN);
    assert_ok(attn_query(&p.d, NULL, &plan));
    assert_string_not_equal(plan.backend, "sevens");
    char mine[] = "sevens";
    assert_ok(attn_set_default(mine));
    memset(mine, 'x', sizeof mine - 1);         /* the caller's string is not kept */
    assert_ok(attn_query(&p.d, NULL, &plan));
    assert_string_equal(plan.backend, "sevens");
    p.d.backend = "reference";                  /* the description goes before the default */
    assert_ok(attn_query(&p.d, NULL, &plan));
    assert_string_equal(plan.backend, "reference");
    p.d.backend = "auto";
    assert_ok(attn_set_default(NULL));
    assert_ok(attn_query(&p.d, NULL, &plan));
    assert_string_not_equal(plan.backend, "sevens");
    assert_ok(attn_set_default("auto"));
    problem_free(&p);
}

/* attn_merge of device tensors goes to the backend named, or to the first that merges; what is refused never reaches it. */
static third merging;
static attn_status third_merge(void *user, const attn_desc *d, int64_t parts, const attn_in *o, const float *const *lse)
{
    assert_ptr_equal(user, &merging);
    assert_true(d->kv_heads == 2 && d->v_dim == 8 && d->o.stride[0] == 48);            /* resolved; the parts are not */
    assert_true(parts == 1 && o[0].stride[0] == 0 && lse[0]);
    merging.runs++;
    return ATTN_ERR_GPU;
}
static void test_device_merge(void **state)
{
    static char name[] = "merging";
    static float part[48], lse[6];
    const attn_backend b = { name, ATTN_ABI, third_plan, third_run, &merging, NULL, NULL, third_merge, NULL };
    problem p = problem_make(&plain, 1);
    const float *lses[] = { lse };
    attn_in o;
    (void)state;
    memset(&o, 0, sizeof o);
    o.data = part;
    p.d.flags |= ATTN_DEVICE;
    assert_int_equal(attn_merge(&p.d, 1, &o, lses), ATTN_ERR_DEVICE);          /* none merges yet */
    assert_ok(attn_register(&b));
    assert_int_equal(attn_merge(&p.d, 1, &o, lses), ATTN_ERR_GPU);             /* what it returns is what the caller gets */
    p.d.backend = "merging";
    assert_int_equal(attn_merge(&p.d, 1, &o, lses), ATTN_ERR_GPU);
    assert_int_equal(merging.runs, 2);
    p.d.backend = "flash";
    assert_int_equal(attn_merge(&p.d, 1, &o, lses), ATTN_ERR_DEVICE);
    p.d.backend = "nonesuch";
    assert_int_equal(attn_merge(&p.d, 1, &o, lses), ATTN_ERR_BACKEND_UNKNOWN);
    p.d.backend = NULL;
    o.data = NULL;
    assert_int_equal(attn_merge(&p.d, 1, &o, lses), ATTN_ERR_MERGE_O);
    o.data = p.d.o.data;
    assert_int_equal(attn_merge(&p.d, 1, &o, lses), ATTN_ERR_OVERLAP);
    o.data = part, p.d.flags &= ~(uint32_t)ATTN_DEVICE;
    assert_ok(attn_merge(&p.d, 1, &o, lses));
    assert_int_equal(merging.runs, 2);
    problem_free(&p);
}

/* The same for attn_convert: what adds to the destination is not the caller's to ask for. attn_shutdown ends what each backend keeps. */
typedef struct keeper { third planned; int converts, shutdowns; } keeper;
static keeper kept[2];
static attn_status third_convert(void *user, const int64_t shape[4], const attn_in *src, const attn_out *dst, const attn_desc *where)
{
    ((keeper *)user)->converts++;
    assert_true(shape[3] == 8 && src->stride[2] == 8 && dst->stride[1] == 16);          /* strides set */
    assert_true(where->flags == ATTN_DEVICE && where->device == 3);
    return ATTN_ERR_GPU;
}
static void third_shutdown(void *user) { ((keeper *)user)->shutdowns++; }
static void test_device_convert(void **state)
{
    static const int64_t shape[4] = { 1, 3, 2, 8 };
    static float from[48], to[48];
    const attn_in in = { .data = from };
    const attn_out out = { .data = to };
    attn_desc where = { 0 };
    (void)state;
    where.flags = ATTN_DEVICE | ATTN_ACCUMULATE, where.device = 3;
    assert_int_equal(attn_convert(shape, in, out, &where), ATTN_ERR_DEVICE);            /* none converts yet */
    for (int i = 0; i < 2; i++) {
        const attn_backend b = { i ? "second" : "first", ATTN_ABI, third_plan, third_run, &kept[i], third_convert, third_shutdown, NULL, NULL };
        assert_ok(attn_register(&b));
    }
    assert_int_equal(attn_convert(shape, in, out, &where), ATTN_ERR_GPU);
    where.device = -1;
    assert_int_equal(attn_convert(shape, in, out, &where), ATTN_ERR_DEVICE_INDEX);
    where.device = 3;
    for (int to_blocks = 0; to_blocks < 2; to_blocks++) {                               /* those are the host's */
        static const int64_t wide[4] = { 1, 1, 1, 32 };
        attn_in blocks_in = in;
        attn_out blocks_out = out;
        if (to_blocks) blocks_out.dtype = ATTN_Q8_0; else blocks_in.dtype = ATTN_Q8_0;
        assert_int_equal(attn_convert(wide, blocks_in, blocks_out, &where), ATTN_ERR_CONVERT_DTYPE);
    }
    where.backend = "second";
    assert_int_equal(attn_convert(shape, in, out, &where), ATTN_ERR_GPU);
    where.backend = "flash";
    assert_int_equal(attn_convert(shape, in, out, &where), ATTN_ERR_DEVICE);
    assert_true(kept[0].converts == 1 && kept[1].converts == 1);
    for (int n = 1; n < 3; n++) {
        attn_shutdown();
        assert_true(kept[0].shutdowns == n && kept[1].shutdowns == n);
    }
}

/* The backend "hip" is asked for device tensors alone, and no other for those: what it says of them is what the caller gets. */
static attn_status hip_says;
static attn_status hip_plan(void *user, const attn_desc *d, const attn_grad *g, attn_plan *plan)
{
    (void)user, (void)d, (void)g;
    plan->kernel = "none", plan->isa = "none";
    return strcpy(plan->why, "that is what it says"), hip_says;
}
static attn_status hip_run(void *user, const attn_desc *d, const attn_grad *g, const attn_plan *plan) { (void)user, (void)d, (void)g, (void)plan; return ATTN_OK; }
static void test_hip(void **state)
{
    static const attn_status says[] = { ATTN_OK, ATTN_ERR_DECLINED, ATTN_ERR_TOO_LARGE, ATTN_ERR_MEMORY };
    const attn_backend b = { "hip", ATTN_ABI, hip_plan, hip_run, NULL, NULL, NULL, NULL, NULL };
    problem p = problem_make(&plain, 7);
    attn_plan plan;
    (void)state;
    p.d.flags |= ATTN_DEVICE;
    assert_int_equal(attn_query(&p.d, NULL, &plan), ATTN_ERR_DEVICE);           /* nobody is there */
    assert_ok(attn_register(&b));
    for (int n = 0; n < 2 * COUNT(says); n++) {
        const int host = n % 2;
        hip_says = says[n / 2];
        p.d.flags = (p.d.flags & ~(uint32_t)ATTN_DEVICE) | (host ? 0 : ATTN_DEVICE);
        const attn_status s = attn_query(&p.d, NULL, &plan), want = host ? ATTN_OK : hip_says;
        if (s != want) fail_msg("%s, where it says %s: %s", host ? "host" : "device", attn_status_name(hip_says), attn_status_name(s));
        if (!s) assert_string_equal(plan.backend, host ? "flash" : "hip");
    }
    problem_free(&p);
}

/* Another version of the header, or another size of its structs: refused, and not found afterwards. */
static void test_stale(void **state)
{
    attn_backend b = { "stale", 0, third_plan, third_run, NULL, NULL, NULL, NULL, NULL };
    static const uint64_t wrong[] = { 0, ATTN_ABI + 1, ATTN_ABI - 1, ATTN_ABI ^ (uint64_t)1 << 32, ~(uint64_t)0 };
    (void)state;
    for (int64_t i = 0; i < COUNT(wrong); i++) {
        b.abi = wrong[i];
        assert_int_equal(attn_register(&b), ATTN_ERR_REGISTER_ABI);
        assert_null(attn_backend_find("stale"));
    }
    assert_int_equal(attn_register(NULL), ATTN_ERR_REGISTER_NULL);
}

/* The automatic choice for plain f32 is flash, at every length; what flash declines goes to who takes it. */
static void test_automatic(void **state)
{
    static const int64_t lengths[] = { 1, 2, 7, 64, 1000, 100000 };
    attn_plan plan;
    (void)state;
    for (int64_t i = 0; i < COUNT(lengths); i++)
        for (int64_t j = 0; j < COUNT(lengths); j++) {
            problem p = problem_make(&plain, 3);
            p.d.q_len = lengths[i], p.d.kv_len = lengths[j];
            memset(p.d.q.stride, 0, 24), memset(p.d.k.stride, 0, 24), memset(p.d.v.stride, 0, 24), memset(p.d.o.stride, 0, 24);
            p.d.q.data = p.d.k.data = p.d.v.data = NULL;
            p.d.o.data = NULL;
            p.d.lse = NULL;
            assert_ok(attn_query(&p.d, NULL, &plan));
            assert_string_equal(plan.backend, "flash");
            assert_string_equal(plan.isa, attn_isa());
            problem_free(&p);
        }
    {
        problem_case c = plain;
        problem p;
        c.q = c.kv = c.o = ATTN_F64;
        p = problem_make(&c, 3);
        assert_ok(attn_query(&p.d, NULL, &plan));
        assert_string_equal(plan.backend, "reference");
        problem_free(&p);
    }
}

/* Every backend that is not chosen has its line in `why`. */
static void test_why(void **state)
{
    problem_case c = plain;
    problem p;
    attn_plan plan;
    (void)state;
    third_party();
    c.q = c.kv = c.o = ATTN_F64;
    c.d = 16;
    p = problem_make(&c, 4);
    assert_ok(attn_query(&p.d, NULL, &plan));
    assert_string_equal(plan.backend, "reference");
    for (int i = 0; attn_backend_at(i); i++) {
        char line[64];
        const char *at_;
        snprintf(line, sizeof line, "%s: ", attn_backend_at(i)->name);
        at_ = strstr(plan.why, line);
        if (!strcmp(attn_backend_at(i)->name, plan.backend)) continue;
        if (!at_ || (at_ != plan.why && at_[-1] != '\n') || at_[strlen(line)] == '\n' || !strchr(at_, '\n'))
            fail_msg("no reason of %sin:\n%s", line, plan.why);
    }
    /* a name that is none, or one that promises no tolerance: nobody was asked, the plan is empty */
    p.d.backend = "none of them";
    assert_int_equal(attn_query(&p.d, NULL, &plan), ATTN_ERR_BACKEND_UNKNOWN);
    assert_true(!*plan.why && !*plan.backend && plan.workspace_size == 0);
    p.d.backend = "sevens", p.d.tolerance = 0.01f;
    assert_int_equal(attn_query(&p.d, NULL, &plan), ATTN_ERR_TOLERANCE_OTHER);
    assert_true(!*plan.why && !*plan.backend && plan.workspace_size == 0);
    p.d.tolerance = 0;
    problem_free(&p);
}

/* The query touches no tensor, and what it says is what the call needs: a workspace of that size is enough. */
static void test_query_workspace(void **state)
{
    static const char *const names[] = { "reference", "standard", "flash" };
    (void)state;
    for (int64_t i = 0; i < COUNT(names); i++) {
        problem p = problem_make(&plain, 5);
        attn_plan plan;
        void *room = NULL;
        float o[48];
        p.d.backend = names[i];
        assert_ok(attn_query(&p.d, NULL, &plan));
        assert_string_equal(plan.backend, names[i]);
        assert_true(plan.threads >= 1 && strlen(plan.kernel) > 0 && strlen(plan.isa) > 0);
        assert_ok(attn_forward(&p.d));
        memcpy(o, p.d.o.data, sizeof o);
        assert_int_equal(posix_memalign(&room, 64, plan.workspace_size + 64), 0);
        p.d.workspace = room;
        p.d.workspace_size = plan.workspace_size;
        assert_ok(attn_forward(&p.d));
        assert_memory_equal(o, p.d.o.data, sizeof o);
        free(room);
        problem_free(&p);
    }
}

static void no_pool(void *user, void (*task)(void *arg, int64_t i), void *arg, int64_t n) { (void)user, (void)task, (void)arg, (void)n; }
/* What runs side by side: splits of many keys where rows and heads are too few for the threads. */
static void test_plan(void **state)
{
    static const struct { int64_t keys; int32_t threads, used, splits; } rows[] = {
        { 8192, 1, 1, 1 }, { 8192, 4, 4, 8 }, { 2047, 4, 4, 1 }, { 2048, 4, 4, 2 }, { 100000, 4, 4, 16 }, { 64, 4, 1, 1 } };
    (void)state;
    for (int64_t i = 0; i < COUNT(rows); i++) {
        attn_desc d = { 0 };
        attn_plan plan;
        d.batch = d.heads = 1, d.q_len = 8, d.kv_len = rows[i].keys, d.head_dim = 64, d.threads = rows[i].threads, d.backend = "flash";
        assert_ok(attn_query(&d, NULL, &plan));
        if (plan.threads != rows[i].used || plan.splits != rows[i].splits || strcmp(plan.kernel, "flash_forward"))
            fail_msg("%d keys: %s, %d threads, %d splits", (int)rows[i].keys, plan.kernel, (int)plan.threads, (int)plan.splits);
    }
    for (int32_t asked = 0; asked < 4; asked += 3) {        /* a pool's threads count, whatever the machine has */
        attn_pool pool = { NULL, NULL, 7 };
        attn_desc d = { 0 };
        attn_plan plan;
        pool.run = no_pool;
        d.batch = d.heads = 1, d.q_len = d.kv_len = 4096, d.head_dim = 64, d.pool = &pool, d.threads = asked, d.backend = "flash";
        assert_ok(attn_query(&d, NULL, &plan));
        assert_int_equal(plan.threads, asked ? asked : 7);
    }
    for (int wide = 0; wide < 2; wide++) {          /* a window makes little work of many keys, causal or not */
        for (int causal = 0; causal < 2; causal++) {
            attn_desc d = { 0 };
            attn_plan plan;
            d.batch = d.heads = 1, d.q_len = d.kv_len = 2000, d.head_dim = 8, d.threads = 4, d.backend = "flash";
            d.flags = ATTN_WINDOW_LEFT | (causal ? ATTN_CAUSAL : ATTN_WINDOW_RIGHT), d.window_left = wide ? 500 : 0;
            assert_ok(attn_query(&d, NULL, &plan));
            assert_int_equal(plan.threads, wide ? 4 : 1);
        }
    }
    for (int n = 0; n < 2; n++) {                   /* those that split no keys */
        attn_desc d = { 0 };
        attn_plan plan;
        d.batch = d.heads = 1, d.q_len = n ? 700 : 4, d.kv_len = n ? 3000 : 8, d.head_dim = n ? 64 : 8, d.tolerance = n ? 0.01f : 0;
        d.backend = n ? "adaptive" : "standard";
        const attn_status s = attn_query(&d, NULL, &plan);
        if (n && s == ATTN_ERR_DECLINED && strstr(plan.why, "processor has no products")) continue;
        assert_ok(s);
        assert_int_equal(plan.splits, 1);
    }
    for (int64_t i = 0; i < 4; i++) {               /* of a backward call: by its keys, and one where all scores are in memory */
        static float x[2048 * 8];
        const int64_t keys[] = { 255, 511, 1100, 5000 }, splits[] = { 1, 1, 4, 8 };
        attn_desc d = { 0 };
        attn_grad g = { 0 };
        attn_plan plan;
        d.batch = d.heads = 1, d.q_len = 8, d.kv_len = keys[i], d.head_dim = 8, d.threads = 1;
        d.q.data = d.k.data = d.v.data = g.dout.data = x, d.o.data = g.dq.data = g.dk.data = g.dv.data = NULL;
        for (int standard = 0; standard < 2; standard++) {
            d.backend = standard ? "standard" : "flash";
            assert_ok(attn_query(&d, &g, &plan));
            if (plan.splits != (standard ? 1 : splits[i])) fail_msg("backward of %d keys: %d splits", (int)keys[i], (int)plan.splits);
        }
    }
}

/* Adaptive runs wherever it is named but on AVX-512 without VNNI, NEON and wasm, and is chosen where its products pay. Tests of it skip where the plan says that the
 * processor has none: that it says so only there is seen here. */
static void test_adaptive_chosen(void **state)
{
    const int wide = !strcmp(attn_isa(), "avx512");
    char flags[8192] = "";
    int vnni = 0;
    FILE *f = fopen("/proc/cpuinfo", "r");
    (void)state;
    if (!f) skip();
    while (fgets(flags, sizeof flags, f)) vnni |= strstr(flags, "avx512_vnni") != NULL;
    fclose(f);
    const int avx2 = !strcmp(attn_isa(), "avx2"), bytes = wide ? vnni : avx2, codes = bytes || !strcmp(attn_isa(), "portable");
    for (int n = 0; n < 12; n++) {              /* of few keys, of many; rows whose keys are split; the same of few dims */
        const int named = n % 2, many = n / 2 % 3 == 1, dims = n < 6 ? 64 : 16;
        const char *kernel = named || (wide && vnni && dims == 64) ? "adaptive_int16" : many && bytes ? "adaptive_filter" : NULL;
        attn_desc d = { 0 };
        attn_plan plan;
        d.batch = d.heads = 1, d.q_len = n / 2 % 3 == 2 ? 256 : 2048, d.kv_len = n / 2 % 3 == 0 ? 2047 : 2048, d.head_dim = dims, d.tolerance = 0.01f;
        d.backend = named ? "adaptive" : NULL;
        const attn_status got = attn_query(&d, NULL, &plan), want = named && !codes ? ATTN_ERR_DECLINED : ATTN_OK;
        if (got != want) fail_msg("%s on %s: %s, %s", named ? "adaptive" : "auto", attn_isa(), attn_status_name(got), plan.why);
        if (!got) assert_string_equal(plan.backend, kernel ? "adaptive" : "flash");
        if (!got && kernel) assert_string_equal(plan.kernel, kernel);
    }
}

/* Sequences without lengths of their own are alike, so a plan looks at one: 2^36 of them would take an hour. */
static void test_sequences_alike(void **state)
{
    attn_desc d = { 0 };
    attn_plan plan;
    (void)state;
    d.batch = (int64_t)1 << (sizeof(void *) < 8 ? 20 : 36), d.heads = 4, d.q_len = 1, d.kv_len = 71, d.head_dim = 64;
    assert_ok(attn_query(&d, NULL, &plan));
    d.flags = ATTN_CAUSAL | ATTN_OFFSET, d.offset = -100;       /* of which no row sees a key */
    assert_ok(attn_query(&d, NULL, &plan));
    assert_int_equal(plan.threads, 1);
}

/* Whatever takes a description leaves no text of an older failure in its message. */
static void test_messages(void **state)
{
    static const int64_t shape[4] = { 1, 1, 1, 8 };
    static const struct { int call; const char *says; } cases[] = {
        { 0, "not empty: src" }, { 1, "not empty: dst" }, { 2, ": dst" }, { 3, "threads" }, { 4, "heads must be at least 1" }, { 5, "packed buffer" }, { 6, "task" },
        { 7, "plan" }, { 8, "by the name in attn_desc.backend, or else in ATTN_BACKEND: nonesuch" },
    };
    (void)state;
    for (int i = 0; i < COUNT(cases); i++) {
        char message[256] = "an older failure";
        float x[8] = { 0 };
        attn_desc d = { 0 };
        attn_in src = { 0 };
        attn_out dst = { 0 };
        attn_plan plan;
        attn_status s = ATTN_OK;
        d.message = message, d.message_size = sizeof message;
        src.data = i ? x : NULL;
        if (i == 2) dst.data = x, dst.dtype = ATTN_INT8;
        if (i == 3) d.threads = -1;
        if (i > 4) d.batch = d.heads = d.q_len = d.kv_len = 1, d.head_dim = 8;
        if (i == 8) d.backend = "nonesuch";
        if (i < 4) s = attn_convert(shape, src, dst, &d);
        else if (i < 6) s = attn_packed_qkv(&d, x, ATTN_F32, i == 4 ? ATTN_QKV_3HD : 9);
        else if (i == 6) s = attn_parallel(&d, NULL, NULL, 1);
        else s = attn_query(&d, NULL, i == 7 ? NULL : &plan);
        if (!s || strncmp(message, attn_status_text(s), strlen(attn_status_text(s))) || !strstr(message, cases[i].says))
            fail_msg("%d: %s, '%s'", cases[i].call, attn_status_name(s), message);
    }
}

/* What does not fit is told with what there is, rounded to the nearest hundredth: of a backward call two matrices. */
static void test_too_large(void **state)
{
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 1073741824.0;
    char want[128];
    attn_desc d = { 0 };
    attn_plan plan;
    (void)state;
    d.batch = 1, d.heads = 3, d.q_len = d.kv_len = (int64_t)1 << 21, d.head_dim = 8, d.backend = "standard";
    assert_int_equal(attn_query(&d, NULL, &plan), ATTN_ERR_TOO_LARGE);
    snprintf(want, sizeof want, "the scores need 49152.00 GiB, the machine has %.2f GiB", memory);
    if (!strstr(plan.why, want)) fail_msg("no \"%s\" in:\n%s", want, plan.why);
    for (int more = 1; more < 4; more++)                    /* each further key takes 3/128 GiB */
        for (int backward = 0; backward < 2; backward++) {
            const attn_grad g = { 0 };
            d.kv_len = d.q_len + more;
            assert_int_equal(attn_query(&d, backward ? &g : NULL, &plan), ATTN_ERR_TOO_LARGE);
            snprintf(want, sizeof want, "the scores need %.2f GiB", (49152 + 3.0 / 128 * more) * (1 + backward));
            if (!strstr(plan.why, want)) fail_msg("no \"%s\" in:\n%s", want, plan.why);
        }
}

/* ------------------------------------------------------------------------------------------ the environment */
#define LONGEST_NAME "thirty_one_letters_of_a_backend"
static int child(void)                          /* prints the backend and the ISA, or the status */
{
    problem p = problem_make(&plain, 6);
    attn_plan plan;
    attn_status s;
    const attn_backend longest = { LONGEST_NAME, ATTN_ABI, third_plan, third_run, &other, NULL, NULL, NULL, NULL };
    assert_ok(attn_register(&longest));
    if (getenv("UNIT_DESC")) p.d.backend = getenv("UNIT_DESC");
    if (getenv("UNIT_DEFAULT")) attn_set_default(getenv("UNIT_DEFAULT"));
    s = attn_query(&p.d, NULL, &plan);
    if (s) printf("%s\n", attn_status_name(s));
    else printf("%s %s\n", plan.backend, !strcmp(plan.isa, attn_isa()) ? "own" : plan.isa);
    printf("%s\n", attn_isa());
    problem_free(&p);
    return 0;
}

static void assert_child(const char *backend, const char *isa, const char *desc, const char *set, const char *want,
                         const char *want_isa)
{
    int fd[2], status;
    char text[128] = "", *second;
    size_t n = 0;
    ssize_t got;
    pid_t pid;
    assert_int_equal(pipe(fd), 0);
    pid = fork();
    if (pid == 0) {
        dup2(fd[1], 1);
        close(fd[0]), close(fd[1]);
        unsetenv("ATTN_BACKEND"), unsetenv("ATTN_ISA");
        if (backend) setenv("ATTN_BACKEND", backend, 1);
        if (isa) setenv("ATTN_ISA", isa, 1);
        if (desc) setenv("UNIT_DESC", desc, 1);
        if (set) setenv("UNIT_DEFAULT", set, 1);
        unit_again("registry", "--child");
        _exit(127);
    }
    close(fd[1]);
    while (n < sizeof text - 1 && (got = read(fd[0], text + n, sizeof text - 1 - n)) > 0) n += (size_t)got;
    close(fd[0]);
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    second = strchr(text, '\n');
    assert_non_null(second);
    *second++ = 0;
    if (strncmp(text, want, strlen(want))) fail_msg("\"%s\", not \"%s\"", text, want);
    if (want_isa) assert_true(!strncmp(second, want_isa, strlen(want_isa)) && second[strlen(want_isa)] == '\n');
}

static void test_environment(void **state)
{
    (void)state;
    assert_child(NULL, NULL, NULL, NULL, "flash own", NULL);
    assert_child("standard", NULL, NULL, NULL, "standard", NULL);
    assert_child("reference", NULL, NULL, NULL, "reference", NULL);
    assert_child("auto", NULL, NULL, NULL, "flash own", NULL);
    assert_child("", NULL, NULL, NULL, "flash own", NULL);
    assert_child("nonesuch", NULL, NULL, NULL, "ATTN_ERR_BACKEND_UNKNOWN", NULL);
    assert_child(LONGEST_NAME, NULL, NULL, NULL, LONGEST_NAME, NULL);
    assert_child(LONGEST_NAME "z", NULL, NULL, NULL, "ATTN_ERR_BACKEND_UNKNOWN", NULL);
    assert_child(NULL, NULL, LONGEST_NAME "z", NULL, "ATTN_ERR_BACKEND_UNKNOWN", NULL);
    assert_child("standard", NULL, "reference", NULL, "reference", NULL);       /* the description goes first */
    assert_child("reference", NULL, NULL, "standard", "reference", NULL);       /* then the environment, then the default */
    assert_child(NULL, NULL, NULL, "standard", "standard", NULL);
    assert_child(NULL, "portable", NULL, NULL, "flash own", "portable");
    assert_child(NULL, "", NULL, NULL, "flash own", NULL);
    assert_child("reference", NULL, "auto", NULL, "flash own", NULL);           /* "auto" is a name: neither the environment .. */
    assert_child(NULL, NULL, "auto", "reference", "flash own", NULL);           /* .. nor the default counts */
    assert_child(NULL, "sse9", NULL, NULL, "ATTN_ERR_ISA", NULL);
}

/* What attn_threads says where the environment has this; NULL: nothing. */
static int threads_of(const char *text)
{
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        unsetenv("ATTN_THREADS");
        if (text) setenv("ATTN_THREADS", text, 1);
        unit_again("registry", "--threads");
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}
static void test_threads_asked(void **state)
{
    static const char *const none[] = { "", "0", "x", "3x", " 3", "-3", "+3", "1025", "4294967299", "18446744073709551619",    /* of whoever has 3, too */
        "5x", " 5", "+5", "4294967301", "18446744073709551621" };
    const int own = threads_of(NULL);
    (void)state;
    assert_true(own > 0);
    for (int i = 0; i < COUNT(none); i++)
        if (threads_of(none[i]) != own) fail_msg("ATTN_THREADS=\"%s\" counts", none[i]);
    for (int n = 1; n < 250; n += 83) {
        char text[16];
        snprintf(text, sizeof text, "%d", n);
        assert_int_equal(threads_of(text), n);
    }
    assert_int_equal(threads_of("007"), 7);
    assert_int_equal(threads_of("1024"), 250);
}
/* What a call plans with keeps to it. No more than 250: a process says no more. */
static int count_threads(void)
{
    static const problem_case large = { .b = 1, .sq = 300, .sk = 300, .h = 8, .d = 8 };
    problem p = problem_make(&large, 6);
    attn_plan plan;
    const int n = attn_threads(), wrong = attn_query(&p.d, NULL, &plan) || plan.threads > n || (n > 1 && plan.threads < 2);
    problem_free(&p);
    return wrong ? 0 : n < 250 ? n : 250;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_built_in), cmocka_unit_test(test_automatic), cmocka_unit_test(test_third_party),
        cmocka_unit_test(test_default), cmocka_unit_test(test_stale), cmocka_unit_test(test_why),
        cmocka_unit_test(test_query_workspace), cmocka_unit_test(test_environment), cmocka_unit_test(test_threads_asked), cmocka_unit_test(test_device_merge),
        cmocka_unit_test(test_device_convert), cmocka_unit_test(test_plan),
        cmocka_unit_test(test_too_large), cmocka_unit_test(test_adaptive_chosen), cmocka_unit_test(test_sequences_alike), cmocka_unit_test(test_messages), cmocka_unit_test(test_hip),
    };
    if (argc > 1 && !strcmp(argv[1], "--child")) return child();
    if (argc > 1 && !strcmp(argv[1], "--threads")) return count_threads();
    return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
