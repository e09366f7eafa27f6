/* hip_unit.c - the fixed tests of backend "hip": bad input, every failing call of HIP, leaks, threads, layouts, garbage in device arrays.
 *
 * Every test runs in a child process: a fresh HIP each time, and an error of the simulator ends one test only. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hip.h"

void hip_fault(void);                                    /* hip_fault.c */

/* in a child: says what is wrong and ends it */
#define CHECK(what, ...) do { if (!(what)) { \
        fprintf(report, "  hip_unit.c:%d: %s: ", __LINE__, #what); fprintf(report, __VA_ARGS__); fprintf(report, "\n"); \
        fflush(report); _exit(1); } } while (0)
static FILE *report;                                     /* stdout as it was before a test made it silent */

/* From here to spoken(): whatever is printed goes to a file. */
static void silence(void) {
    char name[] = "/tmp/hip_unit_XXXXXX";
    int fd = mkstemp(name);
    fflush(stdout), fflush(stderr);
    if (fd < 0) _exit(2);
    unlink(name);
    dup2(fd, 1), dup2(fd, 2), close(fd);
}
static int64_t spoken(void) {                            /* bytes printed since */
    struct stat s;
    fflush(stdout), fflush(stderr);
    return fstat(1, &s) ? -1 : (int64_t)s.st_size;
}

/* Else a GPU, where a test that wants the simulator's own (tests[].variable) is skipped. */
static int on_simulator(void) { return getenv("HIPSIM_ARCH") != NULL; }

/* ---------------------------------------------------------------------------------------------------- problems */
static proof_draw plain_draw(void) {
    proof_draw draw;
    memset(&draw, 0, sizeof draw);
    draw.q_amplitude = 1, draw.lse = 1;
    return draw;
}
static void shape(proof_case *c, int64_t batch, int64_t q_len, int64_t kv_len, int64_t heads, int64_t kv_heads, int64_t dim, int64_t v_dim, int32_t dtype) {
    attn_desc *d = &c->d;
    memset(c, 0, sizeof *c);
    c->data = 11;
    d->batch = batch, d->q_len = q_len, d->kv_len = kv_len, d->heads = heads, d->kv_heads = kv_heads, d->head_dim = dim, d->v_dim = v_dim;
    d->q.dtype = d->k.dtype = d->v.dtype = d->o.dtype = dtype;
    d->backend = "hip", d->message = c->message, d->message_size = sizeof c->message;
}
static void bind(proof_case *c) {
    proof_draw draw = plain_draw();
    proof_bind_all(c, &draw);
}
/* Not the type of 16 bits that the kernels of matrix units were not built for (hip.sh: HIP_TYPE): its cases are those of the scalar kernels. */
static int built(int32_t dtype) {
    const char *type = getenv("HIP_TYPE");
    return !type || !*type || (dtype != ATTN_F16 && dtype != ATTN_BF16) || !strcmp(type, "f16") == (dtype == ATTN_F16);
}
/* everything at once: bias, mask, alibi, sink, softcap, dropout, padded lengths */
static void loaded_begin(proof_case *c, int32_t dtype) {
    static const int32_t used_q[] = {19, 12}, used_k[] = {70, 41}, start_k[] = {0, 5};
    shape(c, 2, 20, 70, 4, 2, 64, 0, dtype);
    attn_desc *d = &c->d;
    d->flags = ATTN_CAUSAL, d->softcap = 20, d->dropout = 0.25f, d->seed = 5;
    d->mask.dtype = ATTN_BOOL;
    c->features = PROOF_BIAS | PROOF_MASK;
    const int32_t *from[] = {used_q, used_k, start_k};
    const int32_t **to[] = {&d->seq.used_q, &d->seq.used_k, &d->seq.start_k};
    for (int i = 0; i < 3; i++) {
        int32_t *p = proof_ints(c, 2);
        memcpy(p, from[i], 8);
        *to[i] = p;
    }
}
static void loaded(proof_case *c, int32_t dtype) {
    loaded_begin(c, dtype);
    proof_draw draw = plain_draw();
    draw.alibi = draw.sink = 1;
    proof_bind_all(c, &draw);
}
static void registered(void) {
    attn_status s = attn_hip_register();
    CHECK(s == ATTN_OK, "attn_hip_register: %s", attn_status_text(s));
}
static int outputs_untouched(const proof_case *c) {
    return proof_untouched(c, PROOF_OUT) && proof_untouched(c, PROOF_IN) && proof_untouched(c, PROOF_CACHE);
}
static void refused(const proof_case *c, const attn_desc *d, attn_status want, const char *what) {
    attn_status s = attn_forward(d);
    CHECK(s == want, "%s: %s (%s), not %s", what, attn_status_name(s), d->message, attn_status_name(want));
    CHECK(strstr(d->message, attn_status_text(want)), "%s: the message is '%s'", what, d->message);
    CHECK(outputs_untouched(c), "%s: an output was written", what);
}
static void agrees(proof_case *c, const char *what) {
    proof_answer a;
    attn_status s = proof_solve(c, &a);
    CHECK(!s, "%s: the reference: %s", what, attn_status_text(s));
    c->d.backend = "hip";
    s = proof_call(c, 0);
    CHECK(!s, "%s: %s", what, c->message);
    const char *wrong = proof_check(c, &a, hip_p_unit(&c->d));
    CHECK(!wrong, "%s: %s", what, wrong);
    proof_reset(c);
    proof_answer_free(&a);
}

/* --------------------------------------------------------------------------------------------------- bad input */
static void no_device(void) {
    proof_case c;
    attn_plan plan;
    loaded(&c, ATTN_F16);
    silence();
    hip_devices = 0;
    attn_status s = attn_hip_register();
    CHECK(s == ATTN_OK || s == ATTN_ERR_NO_DEVICE, "%s", attn_status_text(s));
    refused(&c, &c.d, ATTN_ERR_NO_DEVICE, "no GPU");
    s = attn_query(&c.d, NULL, &plan);
    CHECK(s == ATTN_ERR_NO_DEVICE, "attn_query: %s", attn_status_name(s));
    CHECK(strstr(plan.why, "hip: "), "attn_query does not say why not: '%s'", plan.why);
    c.d.backend = NULL, c.d.flags |= ATTN_DEVICE | ATTN_SEQ_HOST;
    refused(&c, &c.d, ATTN_ERR_NO_DEVICE, "device tensors, automatic choice");
    c.d.flags &= ~(uint32_t)(ATTN_DEVICE | ATTN_SEQ_HOST);
    s = attn_forward(&c.d);
    CHECK(!s, "host tensors without a GPU: %s", c.message);
    CHECK(spoken() == 0, "something was printed");
}
static void other_chip(void) {
    proof_case c;
    loaded(&c, ATTN_BF16);
    attn_status s = attn_hip_register();
    CHECK(s == ATTN_OK || s == ATTN_ERR_GPU_ARCH, "%s", attn_status_text(s));
    refused(&c, &c.d, ATTN_ERR_GPU_ARCH, "another chip");
}
static void pointers(void) {
    proof_case c;
    hip_place p;
    loaded(&c, ATTN_F32);
    registered();
    hip_place_make(&c, &p, HIP_STREAM);
    silence();
    const void *host = c.d.q.data;                       /* host memory in place of each device pointer in turn */
    const void **at[] = {(const void **)&p.d.q.data, (const void **)&p.d.k.data, (const void **)&p.d.v.data, (const void **)&p.d.bias.data,
                         (const void **)&p.d.mask.data};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        const void *old = *at[i];
        *at[i] = host;
        refused(&c, &p.d, ATTN_ERR_GPU_POINTER, "an input in host memory");
        *at[i] = old;
    }
    attn_desc d = p.d;
    d.o.data = c.d.o.data;
    refused(&c, &d, ATTN_ERR_GPU_POINTER, "o in host memory");
    d = p.d, d.lse = c.d.lse;
    refused(&c, &d, ATTN_ERR_GPU_POINTER, "lse in host memory");
    d = p.d, d.alibi = c.d.alibi;
    refused(&c, &d, ATTN_ERR_GPU_POINTER, "alibi in host memory");
    d = p.d, d.sink = c.d.sink;
    refused(&c, &d, ATTN_ERR_GPU_POINTER, "sink in host memory");
    d = p.d, d.seq.used_k = c.d.seq.used_k;
    refused(&c, &d, ATTN_ERR_GPU_POINTER, "used_k in host memory without ATTN_SEQ_HOST");
    static const char *const cpu[] = {"flash", "standard", "reference"};
    for (int i = 0; i < 3; i++) {
        d = p.d, d.backend = cpu[i];
        refused(&c, &d, ATTN_ERR_DEVICE, cpu[i]);
    }
    d = p.d, d.device = 99;
    attn_status s = attn_forward(&d);
    CHECK(s && s != ATTN_ERR_DEVICE_INDEX, "device 99: %s", attn_status_name(s));
    s = attn_forward(&p.d);
    CHECK(!s, "after all of them: %s", p.d.message);
    void *managed = NULL;                                /* memory of both kinds is taken as either */
    const size_t bytes = (size_t)(2 * 20 * 4 * 64) * sizeof(float);
    hip_must(hipMallocManaged(&managed, bytes, hipMemAttachGlobal), "hipMallocManaged");
    hip_must(hipMemcpy(managed, c.d.q.data, bytes, hipMemcpyHostToDevice), "hipMemcpy");
    attn_desc both[2] = {c.d, p.d};
    for (int n = 0; n < 2; n++) {
        both[n].q.data = managed;
        CHECK(!attn_forward(&both[n]), "managed memory, %s: %s", n ? "device" : "host", both[n].message);
    }
    hip_must(hipStreamSynchronize(p.stream), "hipStreamSynchronize");
    hip_must(hipFree(managed), "hipFree");
    CHECK(spoken() == 0, "something was printed");
    hip_place_free(&c, &p);
}
/* Two devices: only memory of the one that is named is taken, and the thread's own device is what it was. */
static void two_devices(void) {
    proof_case c;
    hip_place p;
    loaded(&c, ATTN_F32);
    registered();
    hip_place_make(&c, &p, HIP_STREAM | HIP_WORKSPACE);
    hip_devices = 2;
    for (int n = 0; n < 16; n++) {
        const int named = n & 1, home = n >> 1 & 1, own = n >> 2 & 1, host = n >> 3;
        attn_desc *d = host ? &c.d : &p.d;
        int now = -1;
        hip_memory_device = home, d->device = named;
        hip_must(hipSetDevice(own), "hipSetDevice");
        const attn_status s = attn_forward(d);
        CHECK(s == (host || named == home ? ATTN_OK : ATTN_ERR_GPU_POINTER), "device %d, memory of %d, %s: %s", named, home, host ? "host tensors" : "device tensors", attn_status_name(s));
        hip_must(hipGetDevice(&now), "hipGetDevice");
        CHECK(now == own, "a call on device %d leaves a thread of device %d on %d", named, own, now);
    }
    /* what is kept for later calls is one device's; giving it back leaves a thread on its own */
    for (int times = 0; times < 2; times++) {
        int64_t alive[3];
        attn_shutdown();
        for (int n = 0; n < 3; n++) {
            hip_memory_device = p.d.device = c.d.device = n % 2;
            hip_must(hipSetDevice(n % 2), "hipSetDevice");
            if (times) CHECK(!attn_hip_last_times(NULL, NULL, NULL), "times are asked for");
            CHECK(!attn_forward(times ? &p.d : &c.d), "%s", c.message);
            hip_must(hipStreamSynchronize(p.stream), "hipStreamSynchronize");
            alive[n] = hip_alive;
        }
        CHECK(alive[1] > alive[0] && alive[2] == alive[1], "%lld, %lld, %lld streams, events and buffers: those of another device are taken", (long long)alive[0], (long long)alive[1], (long long)alive[2]);
        for (int own = 0; own < 2; own++) {
            int now = -1;
            c.d.device = 1 - own;
            hip_must(hipSetDevice(own), "hipSetDevice");
            CHECK(!attn_forward(&c.d), "%s", c.message);
            attn_shutdown();
            hip_must(hipGetDevice(&now), "hipGetDevice");
            CHECK(now == own, "attn_shutdown leaves a thread of device %d on %d", own, now);
        }
    }
    attn_plan plan;
    hip_fail_error = hipErrorInvalidDevice, hip_fail_function = "hipGetDevice";          /* one that is gone */
    c.d.device = 0;
    attn_status s = attn_forward(&c.d);
    CHECK(s == ATTN_ERR_NO_DEVICE, "no such device any more: %s", attn_status_name(s));
    hip_fail_function = "";
    p.d.device = 2;
    s = attn_forward(&p.d);
    CHECK(s == ATTN_ERR_NO_DEVICE, "device 2 of two: %s", attn_status_name(s));
    p.d.device = 3;
    s = attn_query(&p.d, NULL, &plan);
    CHECK(s == ATTN_ERR_NO_DEVICE && strstr(plan.why, "device 3 of 2"), "device 3 of two: attn_query says '%s'", plan.why);
    hip_devices = 100, p.d.device = 64;                  /* more than the backend has room for */
    s = attn_query(&p.d, NULL, &plan);
    CHECK(s == ATTN_ERR_NO_DEVICE && strstr(plan.why, "device 64 of 100"), "device 64 of 100: attn_query says '%s'", plan.why);
    hip_devices = -1;
    hip_place_free(&c, &p);
    proof_free(&c);
}
static void workspaces(void) {
    proof_case c;
    hip_place p;
    static char host[1 << 20] __attribute__((aligned(64)));
    loaded(&c, ATTN_F16);
    registered();
    hip_place_make(&c, &p, HIP_SEQ_HOST);
    silence();
    p.d.workspace = host, p.d.workspace_size = sizeof host;
    refused(&c, &p.d, ATTN_ERR_GPU_WORKSPACE, "a workspace in host memory");
    CHECK(spoken() == 0, "something was printed");
    hip_place_free(&c, &p);
}
/* The workspace does not shrink as rows, keys or packed tokens grow, whatever parts, what is laid out and what is rounded up make of it. */
static void workspaces_grow(void) {
    static const int64_t q_len[] = {1, 2, 15, 16, 17, 20, 64, 65, 100, 500}, kv_len[] = {1, 40, 64, 65, 256, 257, 700, 3000, 70000};
    enum { QS = sizeof q_len / sizeof *q_len, KS = sizeof kv_len / sizeof *kv_len };
    const size_t apart = (size_t)1 << 44;
    registered();
    for (int n = 0; n < 18; n++) {                       /* types, padded rows, those in use, packed ones */
        size_t of_fewer[KS] = {0};
        for (int i = 0; i < QS; i++)
            for (int j = 0; j < KS; j++) {
                attn_plan plan;
                attn_desc d;
                memset(&d, 0, sizeof d);
                d.batch = n / 9 ? 3 : 70, d.q_len = q_len[i], d.kv_len = kv_len[j], d.heads = 4, d.kv_heads = n % 2 ? 4 : 1, d.head_dim = 32;
                d.flags = ATTN_DEVICE, d.backend = "hip";
                d.q.dtype = n % 3 == 1 ? ATTN_F16 : ATTN_F32, d.k.dtype = d.v.dtype = n % 3 ? ATTN_INT8 : ATTN_F32, d.o.dtype = ATTN_F32;
                attn_in *in[] = {&d.q, &d.k, &d.v};
                for (int t = 0; t < 3; t++) in[t]->data = (const void *)(apart * (size_t)(t + 1));
                d.o.data = (void *)(apart * 4);
                if (n % 3) d.k.scale = (const float *)(apart * 5), d.v.scale = (const float *)(apart * 6);
                if (n / 3 % 3 == 1) d.seq.used_q = (const int32_t *)(apart * 7);
                if (n / 3 % 3 == 2) d.seq.cu_q = (const int32_t *)(apart * 7), d.seq.total_q = d.batch * d.q_len;
                CHECK(!attn_query(&d, NULL, &plan), "%d: %s", n, plan.why);
                CHECK(plan.workspace_size % 64 == 0, "%d, %lld rows, %lld keys: %zu bytes", n, (long long)q_len[i], (long long)kv_len[j], plan.workspace_size);
                CHECK(plan.workspace_size >= of_fewer[j] && (!j || plan.workspace_size >= of_fewer[j - 1]), "%d: %zu bytes for %lld rows and %lld keys, for fewer %zu and %zu", n,
                      plan.workspace_size, (long long)q_len[i], (long long)kv_len[j], of_fewer[j], j ? of_fewer[j - 1] : 0);
                of_fewer[j] = plan.workspace_size;
            }
    }
}
static void sticky(void) {
    proof_case c;
    hip_place p;
    loaded(&c, ATTN_F16);
    registered();
    hip_place_make(&c, &p, 0);
    attn_status s = attn_forward(&c.d);
    CHECK(!s, "%s", c.message);
    proof_reset(&c);
    silence();
    hip_fault();
    refused(&c, &c.d, ATTN_ERR_GPU_STICKY, "an earlier kernel failed, host pointers");
    refused(&c, &p.d, ATTN_ERR_GPU_STICKY, "an earlier kernel failed, device pointers");
}
/* What the runtime remembers of an earlier call, and what it says of a call of this one. */
static void sticky_or_not(void) {
#ifdef __HIP_PLATFORM_AMD__
    const int refused_launch = 0;                        /* remembered, and harmless */
#else
    const int refused_launch = 1;
#endif
    const struct { int error, ends; } of[] = {
        {hipErrorIllegalAddress, 1}, {hipErrorAssert, 1}, {hipErrorECCNotCorrectable, 1}, {hipErrorLaunchTimeOut, 1},
        {hipErrorLaunchFailure, refused_launch}, {hipErrorUnknown, 0}, {hipErrorInvalidValue, 0}};
    static const char *const calls[] = {"hipGetDeviceCount", "hipGetDevice", "hipLaunchKernel"};
    proof_case c;
    hip_place p;
    loaded(&c, ATTN_F16);
    registered();
    hip_place_make(&c, &p, HIP_STREAM);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        hip_fail_error = of[i].error;
        hip_fail_function = "hipPeekAtLastError";
        if (of[i].ends) {
            refused(&c, &c.d, ATTN_ERR_GPU_STICKY, "an earlier error, host pointers");
            refused(&c, &p.d, ATTN_ERR_GPU_STICKY, "an earlier error, device pointers");
        } else CHECK(!attn_forward(&c.d) && !attn_forward(&p.d), "after error %d, which is over: %s", of[i].error, c.message);
        proof_reset(&c);
        for (size_t n = 0; n < sizeof calls / sizeof *calls; n++) {
            hip_fail_function = calls[n];
            const attn_status want = of[i].ends ? ATTN_ERR_GPU_STICKY : n ? ATTN_ERR_GPU : ATTN_ERR_NO_DEVICE;
            refused(&c, &c.d, want, calls[n]);
            CHECK(strstr(c.message, calls[n]), "%s fails: '%s'", calls[n], c.message);
            refused(&c, &p.d, want, calls[n]);
        }
    }
    hip_fail_function = "";
    agrees(&c, "after all of them");
    hip_place_free(&c, &p);
}
static void declined(void) {
    proof_case c;
    proof_rng r = {3, NULL, 0};
    attn_plan plan;
    uint64_t seen = 0;
    registered();
    silence();
    for (int n = 0; n < 3000 && seen != hip_outside(0); n++) {
        proof_make(&c, &r, 1 << 12);
        const uint64_t out = c.features & hip_outside(0);
        if (out) {
            c.d.backend = "hip";
            attn_status s = proof_query(&c, 0, &plan);
            CHECK(s == ATTN_ERR_DECLINED && strstr(plan.why, "hip: "), "%s, '%s'", attn_status_name(s), plan.why);
            const char *why = strstr(plan.why, "hip: ") + 5;
            CHECK(strcspn(why, "\n") > 3, "declines without a reason");
            if (!(seen & out)) refused(&c, &c.d, ATTN_ERR_DECLINED, "what hip does not take");
            seen |= out;
        }
        proof_free(&c);
    }
    CHECK(seen == hip_outside(0), "not every feature came up: %llx", (unsigned long long)seen);
    CHECK(spoken() == 0, "something was printed");
}
/* -------------------------------------------------------------------------------- failing calls, leaks, choice */
/* Every HIP call of a call, backward with g, fails in turn, with an error of memory and with another one. */
static void every_call_fails(const proof_case *c, const attn_desc *d, const attn_grad *g) {
    for (int kind = 0; kind < 2; kind++) {
        hip_fail_error = kind ? hipErrorUnknown : hipErrorOutOfMemory;
        for (int64_t n = 1;; n++) {
            const int64_t before = hip_calls;
            hip_fail_at = before + n;
            attn_status s = g ? attn_backward(d, g) : attn_forward(d);
            const int reached = hip_calls >= hip_fail_at;
            const hipError_t left = hipGetLastError();
            hip_fail_at = 0;
            CHECK(left == hipSuccess, "call %lld of them fails: the caller's next check meets '%s'", (long long)n, hipGetErrorString(left));
            if (!reached) { CHECK(!s, "no call failed: %s", d->message); break; }
            CHECK(n < 500, "no end of calls");
            if (!s) {                                    /* its failure does not matter, such as that of a timing event */
                if (!(d->flags & ATTN_DEVICE)) proof_reset((proof_case *)(uintptr_t)c);
                continue;
            }
            CHECK(s >= ATTN_ERR_NO_DEVICE && s <= ATTN_ERR_GPU, "call %lld fails: %s", (long long)n, attn_status_name(s));
            if (kind == 0) CHECK(s == ATTN_ERR_GPU_MEMORY, "call %lld out of memory: %s", (long long)n, attn_status_name(s));
            if (s == ATTN_ERR_GPU)
                CHECK(strstr(d->message, hipGetErrorString((hipError_t)hip_fail_error)), "the message lacks HIP's text: '%s'", d->message);
            if (!(d->flags & ATTN_DEVICE)) CHECK(outputs_untouched(c), "call %lld fails, an output was written", (long long)n);
        }
        if (!(d->flags & ATTN_DEVICE)) proof_reset((proof_case *)(uintptr_t)c);
    }
}
/* The same a second time: nothing more is held than after the first, and nothing is printed. */
static void failing_twice(proof_case *c, const attn_desc *d, const attn_grad *g) {
    int64_t alive = 0;
    silence();
    for (int round = 0; round < 2; round++) {
        every_call_fails(c, d, g);
        if (round) CHECK(hip_alive == alive, "%lld blocks, streams and events alive, then %lld", (long long)alive, (long long)hip_alive);
        alive = hip_alive;
    }
    CHECK(spoken() == 0, "something was printed");
}
static void failing_calls(int device) {
    proof_case c;
    hip_place p;
    loaded(&c, device ? ATTN_BF16 : ATTN_F16);
    c.d.o.stride[0] = 0;
    registered();
    hip_place_make(&c, &p, HIP_STREAM);
    failing_twice(&c, device ? &p.d : &c.d, NULL);
    hip_place_free(&c, &p);
    proof_reset(&c);
    agrees(&c, "after the failures");
}
static void failing_calls_host(void) { failing_calls(0); }
static void failing_calls_device(void) { failing_calls(1); }

/* Streams and buffers of a call that the runtime has refused are not kept for the next one; those of one that found no memory are. */
static void nothing_suspect_is_kept(void) {
    proof_case c;
    loaded(&c, ATTN_F16);
    registered();
    attn_shutdown();
    const int64_t alive = hip_alive;
    for (int out_of_memory = 0; out_of_memory < 2; out_of_memory++) {
        hip_fail_error = out_of_memory ? hipErrorOutOfMemory : hipErrorUnknown;
        hip_fail_function = "hipLaunchKernel";
        refused(&c, &c.d, out_of_memory ? ATTN_ERR_GPU_MEMORY : ATTN_ERR_GPU, "no launch");
        CHECK((hip_alive > alive) == out_of_memory, "error %d: %lld blocks, streams and events more", hip_fail_error, (long long)(hip_alive - alive));
    }
    hip_fail_function = "hipEventElapsedTime";           /* and a time that is not known spoils no result */
    hip_fail_error = hipErrorNotReady;
    agrees(&c, "without times");
    hip_fail_function = "";
}
/* A call that wants larger buffers than are kept, and finds no memory: the next small one has buffers again. */
static void grown_buffers(void) {
    static const char *const calls[] = {"hipMalloc", "hipHostMalloc"};
    proof_case small, large;
    shape(&small, 1, 3, 5, 2, 2, 8, 0, ATTN_F32);
    bind(&small);
    shape(&large, 1, 90, 300, 4, 4, 64, 0, ATTN_F32);
    bind(&large);
    registered();
    for (int n = 0; n < 2; n++) {
        attn_shutdown();
        agrees(&small, "small");
        hip_fail_error = hipErrorOutOfMemory, hip_fail_function = calls[n];
        refused(&large, &large.d, ATTN_ERR_GPU_MEMORY, calls[n]);
        hip_fail_function = "";
        agrees(&small, "small, after a call without memory");
        agrees(&large, "large, after it");
    }
    proof_free(&small), proof_free(&large);
}
static void nothing_leaks(void) {
    static const int32_t dtype[] = {ATTN_F32, ATTN_F16, ATTN_BF16};
    registered();
    for (int how = 0; how < 8; how++) {
        proof_case c;
        hip_place p;
        loaded(&c, dtype[how % 3]);
        hip_place_make(&c, &p, how & 3 ? how | HIP_WORKSPACE : how);
        for (int i = 0; i < 2; i++) CHECK(!attn_forward(&c.d) && !attn_forward(&p.d), "%s", c.message);
        const int64_t alive = hip_alive, made = hip_allocations;
        for (int i = 0; i < 5; i++) CHECK(!attn_forward(&c.d) && !attn_forward(&p.d), "%s", c.message);
        CHECK(hip_alive == alive, "%lld alive, then %lld", (long long)alive, (long long)hip_alive);
        CHECK(hip_allocations == made, "%lld allocations by repeated calls", (long long)(hip_allocations - made));
        hip_place_free(&c, &p);
        proof_free(&c);
    }
    attn_shutdown();
    CHECK(hip_alive == 0, "%lld blocks, streams and events alive after attn_shutdown", (long long)hip_alive);
}
/* Nor does host memory grow from one attn_shutdown to the next: that of this thread's arena and what was mapped by itself. */
static void nothing_is_kept(void) {
    enum { CYCLES = 16 };
    size_t used[CYCLES];
    proof_case c;
    registered();
    shape(&c, 1, 3, 5, 2, 2, 8, 8, ATTN_F32);
    bind(&c);
    for (int i = 0; i < CYCLES; i++) {
        CHECK(!attn_forward(&c.d), "%s", c.message);
        attn_shutdown();
        const struct mallinfo2 now = mallinfo2();
        used[i] = now.uordblks + now.hblkhd;
    }
    CHECK(used[CYCLES - 1] <= used[CYCLES / 2] + 64, "%zu bytes after %d cycles, %zu after %d", used[CYCLES / 2], CYCLES / 2 + 1, used[CYCLES - 1], CYCLES);
    proof_free(&c);
}
static void workspace_is_enough(void) {                  /* device pointers and a workspace: not one allocation */
    proof_case c;
    hip_place p;
    loaded(&c, ATTN_F16);
    registered();
    hip_place_make(&c, &p, HIP_WORKSPACE | HIP_STREAM);
    const int64_t made = hip_allocations;
    CHECK(!attn_forward(&p.d), "%s", c.message);
    CHECK(hip_allocations == made, "%lld allocations", (long long)(hip_allocations - made));
    hip_fail_function = "hipGetDeviceProperties";        /* which takes milliseconds: asked once */
    CHECK(!attn_forward(&p.d), "%s", c.message);
    hip_fail_function = "";
    if (p.d.workspace_size > 64) {
        p.d.workspace_size -= 64;
        refused(&c, &p.d, ATTN_ERR_WORKSPACE_SMALL, "a small workspace");
    }
    hip_place_free(&c, &p);
}
static void the_choice(void) {
    proof_case c;
    hip_place p;
    attn_plan plan;
    loaded(&c, ATTN_F16);
    registered();
    hip_place_make(&c, &p, 0);
    c.d.backend = p.d.backend = NULL;
    CHECK(!attn_query(&p.d, NULL, &plan) && !strcmp(plan.backend, "hip"), "device tensors go to %s", plan.backend);
    CHECK(plan.threads == 1 && plan.isa && *plan.isa && !strchr(plan.isa, ':'), "%d threads, a chip named '%s'", (int)plan.threads, plan.isa ? plan.isa : "NULL");
    CHECK(!attn_query(&c.d, NULL, &plan) && strcmp(plan.backend, "hip"), "host tensors go to hip unasked");
    CHECK(!attn_set_default("hip"), "hip is no default");
    CHECK(!attn_query(&c.d, NULL, &plan) && !strcmp(plan.backend, "hip"), "the default is %s", plan.backend);
    CHECK(!attn_set_default(NULL), "automatic again");
    CHECK(attn_hip_register() == ATTN_OK, "registering twice");
    hip_place_free(&c, &p);
}

static void the_times(void) {
    proof_case c;
    double kernel = -1, total = -1;
    size_t bytes = 0;
    loaded(&c, ATTN_F16);
    registered();
    const int64_t alive = hip_alive;
    CHECK(!proof_call(&c, 0), "%s", c.message);
    CHECK(!attn_hip_last_times(&kernel, &total, &bytes), "no times");
    CHECK(kernel > 0 && total >= kernel && bytes > 0, "kernel %g s, total %g s, %zu bytes", kernel, total, bytes);
    CHECK(!attn_hip_last_times(NULL, NULL, NULL), "NULL");
    for (int again = 0; again < 8; again++) {            /* those of the last call alone */
        size_t then = 0;
        proof_reset(&c);
        CHECK(!proof_call(&c, 0), "%s", c.message);
        CHECK(!attn_hip_last_times(&kernel, &total, &then), "no times");
        CHECK(kernel > 0 && total >= kernel && then == bytes, "call %d: kernel %g s, total %g s, %zu bytes, not %zu", again, kernel, total, then, bytes);
    }
    for (int own = 0; own < 2; own++) {                  /* tensors on the device: the workspace, whose it may be */
        hip_place p;
        attn_plan plan;
        shape(&c, 1, 1, 4000, 2, 1, 64, 0, ATTN_F16);
        bind(&c);
        hip_place_make(&c, &p, HIP_STREAM | (own ? 0 : HIP_WORKSPACE));
        CHECK(!attn_query(&p.d, NULL, &plan) && plan.workspace_size > 0, "%zu bytes of workspace", plan.workspace_size);
        CHECK(!attn_forward(&p.d) && !attn_hip_last_times(&kernel, &total, &bytes), "%s", c.message);
        CHECK(bytes == plan.workspace_size, "%zu bytes, of %zu", bytes, plan.workspace_size);
        double later = -1;
        CHECK(!attn_hip_last_times(NULL, &later, NULL) && later == total, "asked again, the call took %g s, not %g", later, total);
        hip_place_fetch(&c, &p);
        hip_place_free(&c, &p);
        proof_free(&c);
    }
    attn_shutdown();
    CHECK(hip_alive == alive, "%lld blocks, streams and events alive after attn_shutdown", (long long)(hip_alive - alive));
}

/* A child has no GPU: it asks for no times of its parent's last call. */
static void times_of_a_child(void) {
    proof_case c;
    hip_place p;
    int status = 0;
    registered();
    shape(&c, 1, 5, 9, 2, 1, 16, 0, ATTN_F32);
    bind(&c);
    hip_place_make(&c, &p, HIP_STREAM);
    CHECK(!attn_hip_last_times(NULL, NULL, NULL), "times are asked for");
    CHECK(!attn_forward(&p.d), "%s", c.message);
    const pid_t child = fork();
    if (!child) {
        const int64_t calls = hip_calls;
        const attn_status s = attn_hip_last_times(NULL, NULL, NULL);
        _exit(s ? 1 : hip_calls != calls ? 2 : 0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child, "no child");
    CHECK(!status, "%s", WIFEXITED(status) && WEXITSTATUS(status) == 2 ? "a child asks the GPU" : "a child is told of an error");
    CHECK(!attn_hip_last_times(NULL, NULL, NULL), "times of the parent");
    hip_place_free(&c, &p), proof_free(&c);
}

/* ---------------------------------------------------------------------------------------------------- threads */
static char *outputs(const proof_case *c, char *to) {   /* all outputs, one after another */
    size_t n = 0;
    for (int i = 0; i < c->buffers; i++)
        if (c->buffer[i].kind == PROOF_OUT) {
            if (to) memcpy(to + n, c->buffer[i].mem, c->buffer[i].bytes);
            n += c->buffer[i].bytes;
        }
    return to ? to : (char *)proof_zeros((int64_t)n, 1);
}
static size_t outputs_size(const proof_case *c) {
    size_t n = 0;
    for (int i = 0; i < c->buffers; i++) n += c->buffer[i].kind == PROOF_OUT ? c->buffer[i].bytes : 0;
    return n;
}
typedef struct worker { proof_case c; hip_place p; char *want, *got; int device, wrong; } worker;
static void *work(void *arg) {
    worker *w = (worker *)arg;
    for (int i = 0; i < 4 && !w->wrong; i++) {
        proof_reset(&w->c);
        w->wrong = attn_forward(w->device ? &w->p.d : &w->c.d);
        if (w->device) hip_place_fetch(&w->c, &w->p);
        if (memcmp(outputs(&w->c, w->got), w->want, outputs_size(&w->c))) w->wrong = -1;
    }
    return NULL;
}
static void two_threads(void) {
    static worker w[4];
    pthread_t t[4];
    registered();
    for (int i = 0; i < 4; i++) {                        /* two with host pointers, two on streams of their own */
        loaded(&w[i].c, i % 2 ? ATTN_F16 : ATTN_F32);
        w[i].c.d.seed = (uint64_t)i, w[i].device = i / 2;
        CHECK(!proof_call(&w[i].c, 0), "%s", w[i].c.message);
        w[i].want = outputs(&w[i].c, outputs(&w[i].c, NULL)), w[i].got = outputs(&w[i].c, NULL);
        proof_reset(&w[i].c);
        if (w[i].device) hip_place_make(&w[i].c, &w[i].p, HIP_STREAM | HIP_WORKSPACE);
    }
    for (int i = 0; i < 4; i++) CHECK(!pthread_create(&t[i], NULL, work, &w[i]), "pthread_create");
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < 4; i++) CHECK(!w[i].wrong, "thread %d: %s", i, w[i].wrong > 0 ? w[i].c.message : "other bits than alone");
}

/* ---------------------------------------------------------------------------------- layouts, conversion, lengths */
/* Way n of laying out a tensor of n0 x n1 x n2 rows: 0 BSHD, 1 BHSD, 2..7 every order of the dimensions with odd gaps, 8..10 one
 * stride negative, 11..13 one stride 0 (inputs only). */
enum { LAYOUTS = 14, OUT_LAYOUTS = 8 };
static void lay_out(int n, int64_t stride[3], int32_t *layout, int64_t n0, int64_t n1, int64_t n2, int64_t dim) {
    static const int order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const int64_t size[3] = {n0, n1, n2};
    if (n < 2) { *layout = n ? ATTN_BHSD : ATTN_BSHD; return; }
    const int *o = order[n < 8 ? n - 2 : 0];
    int64_t step = dim + 3;
    for (int i = 2; i >= 0; i--) stride[o[i]] = step, step = step * size[o[i]] + 1;
    if (n >= 11) stride[n - 11] = ATTN_BROADCAST;
    else if (n >= 8) stride[n - 8] = -stride[n - 8];
}
/* the CPU's flash and the GPU on the same tensors, both against the reference and against each other */
static void cpu_and_gpu(proof_case *c, const char *what) {
    proof_answer a;
    const attn_desc *d = &c->d;
    CHECK(!proof_solve(c, &a), "%s", what);
    double *cpu = (double *)proof_zeros(proof_lse_count(d) * proof_v_dim(d), 8);
    const proof_view w = proof_rows_view(d, d->o.stride, d->o.layout, proof_v_dim(d));
    for (int gpu = 0; gpu < 2; gpu++) {
        c->d.backend = gpu ? "hip" : "flash";
        proof_reset(c);
        attn_status s = proof_call(c, 0);
        CHECK(!s, "%s: %s", what, c->message);
        const char *wrong = proof_check(c, &a, gpu ? hip_p_unit(d) : forward_p_unit(d));
        CHECK(!wrong, "%s, %s: %s", what, c->d.backend, wrong);
        for (int64_t r = 0; r < d->batch * d->q_len * d->heads; r++)
            for (int64_t e = 0, at = proof_row(d, &w, r / d->heads / d->q_len, r / d->heads % d->q_len, r % d->heads); e < proof_v_dim(d); e++) {
                const double x = element_get(d->o.data, d->o.dtype, at + e);
                if (!gpu) cpu[r * proof_v_dim(d) + e] = x;
                else CHECK(absolute(x - cpu[r * proof_v_dim(d) + e]) < (d->q.dtype == ATTN_F32 ? 1e-5 : d->q.dtype == ATTN_F16 ? 1e-2 : 8e-2),
                           "%s: GPU %g, CPU %g", what, x, cpu[r * proof_v_dim(d) + e]);
            }
    }
    free(cpu);
    proof_reset(c);
    proof_answer_free(&a);
}
/* Tokens of k, of v or of both that lie backwards in memory, each row at a multiple of 16 bytes: the bits of those that lie forwards. */
static void tokens_backwards(void) {
    registered();
    for (int n = 0; n < 12; n++) {
        enum { K = 150 };
        static const int64_t dims[] = {32, 64, 128, 256};
        const int64_t row = dims[n / 3] * 2;
        proof_case c;
        hip_place p;
        char *back[2] = {NULL, NULL};
        shape(&c, 1, 20, K, 1, 1, dims[n / 3], 0, built(ATTN_F16) ? ATTN_F16 : ATTN_BF16);
        bind(&c);
        CHECK(!proof_call(&c, 0), "%s", c.message);
        char *want = outputs(&c, outputs(&c, NULL)), *got = outputs(&c, NULL);
        proof_reset(&c);
        hip_place_make(&c, &p, 0);
        attn_in *const in[] = {&p.d.k, &p.d.v};
        for (int i = 0; i < 2; i++) {
            if (n % 3 == 1 - i) continue;
            hip_must(hipMalloc((void **)&back[i], (size_t)(K * row)), "hipMalloc");
            for (int64_t j = 0; j < K; j++) hip_must(hipMemcpy(back[i] + (K - 1 - j) * row, (const char *)in[i]->data + j * row, (size_t)row, hipMemcpyDeviceToDevice), "hipMemcpy");
            in[i]->data = back[i] + (K - 1) * row, in[i]->stride[0] = K * row / 2, in[i]->stride[1] = -row / 2, in[i]->stride[2] = row / 2;
        }
        CHECK(!attn_forward(&p.d), "%s", c.message);
        hip_place_fetch(&c, &p);
        CHECK(!memcmp(outputs(&c, got), want, outputs_size(&c)), "%lld dims, %s: other bits than forwards", (long long)dims[n / 3], n % 3 == 0 ? "k" : n % 3 == 1 ? "v" : "k and v");
        for (int i = 0; i < 2; i++) hip_must(hipFree(back[i]), "hipFree");
        hip_place_free(&c, &p);
        free(want), free(got), proof_free(&c);
    }
}
static void every_layout(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
    enum { B = 2, Q = 37, K = 70, H = 4, KVH = 2, D = 40, DV = 24 };
    int n = 0;
    registered();
    for (int tensor = 0; tensor < 5; tensor++)           /* q, k, v, o, then all four */
        for (int l = 0; l < (tensor < 3 ? LAYOUTS : OUT_LAYOUTS); l++, n++) {
            proof_case c;
            char what[64];
            shape(&c, B, Q, K, H, KVH, D, DV, dtype[n % 3]);
            attn_desc *d = &c.d;
            if (n & 1) d->flags = ATTN_CAUSAL;
            if (tensor == 0 || tensor == 4) lay_out(l, d->q.stride, &d->q.layout, B, Q, H, D);
            if (tensor == 1 || tensor == 4) lay_out(l, d->k.stride, &d->k.layout, B, K, KVH, D);
            if (tensor == 2 || tensor == 4) lay_out(l, d->v.stride, &d->v.layout, B, K, KVH, DV);
            if (tensor == 3 || tensor == 4) lay_out(l, d->o.stride, &d->o.layout, B, Q, H, DV);
            snprintf(what, sizeof what, "%s, layout %d, dtype %d", (const char *[]){"q", "k", "v", "o", "all"}[tensor], l, d->q.dtype);
            bind(&c);
            cpu_and_gpu(&c, what);
            proof_free(&c);
        }
    for (n = 0; n < 3; n++) {                            /* one buffer [batch][tokens][heads + 2 kv_heads][dim] */
        proof_case c;
        shape(&c, B, Q, Q, H, KVH, 64, 0, dtype[n]);
        attn_in *in[] = {&c.d.q, &c.d.k, &c.d.v};
        for (int i = 0; i < 3; i++) in[i]->stride[0] = Q * (H + 2 * KVH) * 64, in[i]->stride[1] = (H + 2 * KVH) * 64, in[i]->stride[2] = 64;
        proof_draw draw = plain_draw();
        draw.qkv = 1;
        proof_bind_all(&c, &draw);
        cpu_and_gpu(&c, "packed QKV");
        proof_free(&c);
    }
}
/* attn_convert on the GPU and on the CPU: the same bits, every type and layout; what a row does not cover is left alone. */
static void conversion(void) {
    static const int32_t dtype[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
    static const double odd[] = {0, -0.0, 65504, 65519.99, 65520, 1e30, -1e300, 0x1p-24, 0x1.8p-25, 0x1p-26, 0x1p-133, 0x1.0080p0, 0x1.0180p0, 0x1.00400001p0, 0x1.002p0,
                                 /* beside the middle between two f16 or two bf16, by less than f32 tells */
                                 0x1.00200004p0, -0x1.005ffffcp0, 0x1.01000004p0, -0x1.02fffffcp0};
    /* of f32, f16, bf16 and f64; the second is a signaling one */
    static const uint64_t nan[4][3] = {{0xffc12345, 0x7f800401, 0x7fffffff}, {0xfe09, 0x7c01, 0x7fff}, {0xffc1, 0x7f81, 0x7fff},
                                       {0xfff8123456789abc, 0x7ff0200000000000, 0x7fffffffffffffff}};
    uint64_t r = 9;
    int n = 0;
    registered();
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++)
            for (int l = 0; l < LAYOUTS; l++, n++) {
                const int64_t size[4] = {2, 5 + n % 3, 3, n % 2 ? 40 : 33};
                attn_in src = {NULL, {0, 0, 0}, dtype[from], 0, NULL, {0, 0, 0}};
                attn_out dst = {NULL, {0, 0, 0}, dtype[to], 0};
                attn_desc where;
                lay_out(l, src.stride, &src.layout, size[0], size[1], size[2], size[3]);
                lay_out((l + n) % OUT_LAYOUTS, dst.stride, &dst.layout, size[0], size[1], size[2], size[3]);
                const proof_view in = proof_dense(src.stride, src.layout, size[0], size[1], size[2], size[3]);
                const proof_view out = proof_dense(dst.stride, dst.layout, size[0], size[1], size[2], size[3]);
                int64_t below, above, low, high;
                proof_extent(&in, &below, &above), proof_extent(&out, &low, &high);
                const size_t in_bytes = (size_t)(below + above) * dtype_size(dtype[from]), out_bytes = (size_t)high * dtype_size(dtype[to]);
                char *a = (char *)proof_zeros((int64_t)in_bytes, 1), *want = (char *)proof_zeros((int64_t)out_bytes, 1), *got = (char *)proof_zeros((int64_t)out_bytes, 1);
                for (int64_t i = 0; i < below + above; i++) {
                    const uint64_t x = random_bits(&r);
                    element_put(a, dtype[from], i, x % 8 ? random_normal(&r) : odd[x / 8 % (sizeof odd / sizeof *odd)]);
                    if (i % 29 == 0) memcpy(a + i * (int64_t)dtype_size(dtype[from]), &nan[from][x % 3], dtype_size(dtype[from]));
                }
                proof_poison(want, out_bytes), proof_poison(got, out_bytes);
                src.data = a + (size_t)below * dtype_size(dtype[from]), dst.data = want;
                attn_status s = attn_convert(size, src, dst, NULL);
                CHECK(!s, "on the CPU: %s", attn_status_text(s));
                char *da = (char *)hip_copy_in(a, in_bytes), *db = (char *)hip_copy_in(got, out_bytes);
                memset(&where, 0, sizeof where);
                where.flags = ATTN_DEVICE;
                src.data = da + (size_t)below * dtype_size(dtype[from]), dst.data = db;
                s = attn_convert(size, src, dst, &where);
                CHECK(!s, "on the GPU: %s", attn_status_text(s));
                hip_must(hipDeviceSynchronize(), "hipDeviceSynchronize");
                hip_must(hipMemcpy(got, db, out_bytes, hipMemcpyDeviceToHost), "hipMemcpy");
                for (size_t i = 0; i < out_bytes; i++)
                    CHECK(got[i] == want[i], "dtype %d to %d, layout %d: byte %zu is %02x, on the CPU %02x", dtype[from], dtype[to], l, i, (uint8_t)got[i], (uint8_t)want[i]);
                src.data = a;
                s = attn_convert(size, src, dst, &where);
                CHECK(s == ATTN_ERR_GPU_POINTER, "a source in host memory: %s", attn_status_name(s));
                hip_must(hipFree(da), "hipFree"), hip_must(hipFree(db), "hipFree");
                free(a), free(want), free(got);
            }
    const attn_backend *hip = attn_backend_find("hip");
    for (int from = 0; from < 4; from++)                 /* added to what is there, as what comes from other ranks: in f64, rounded once */
        for (int to = 0; to < 4; to++) {
            static const double there[] = {1, 1, -3, 0.5}, more[] = {0x1p-40, 0x1p-13, 0x1.8p-2, -0x1p-24};
            const int64_t size[4] = {1, 1, 1, 4};
            double a[4], b[4], want[4];
            attn_desc where;
            memset(&where, 0, sizeof where);
            where.flags = ATTN_DEVICE | ATTN_ACCUMULATE;
            for (int i = 0; i < 4; i++) {
                element_put(a, dtype[from], i, more[i]), element_put(b, dtype[to], i, there[i]);
                element_put(want, dtype[to], i, element_get(b, dtype[to], i) + element_get(a, dtype[from], i));
            }
            attn_in src = {hip_copy_in(a, sizeof a), {4, 4, 4}, dtype[from], 0, NULL, {0, 0, 0}};
            attn_out dst = {hip_copy_in(b, sizeof b), {4, 4, 4}, dtype[to], 0};
            CHECK(!hip->convert(hip->user, size, &src, &dst, &where), "added");
            hip_must(hipDeviceSynchronize(), "hipDeviceSynchronize");
            hip_must(hipMemcpy(b, dst.data, sizeof b, hipMemcpyDeviceToHost), "hipMemcpy");
            for (int i = 0; i < 4; i++)
                CHECK(element_get(b, dtype[to], i) == element_get(want, dtype[to], i), "dtype %d added to %d: %.17g, not %.17g", dtype[from], dtype[to], element_get(b, dtype[to], i), element_get(want, dtype[to], i));
            hip_must(hipFree((void *)(uintptr_t)src.data), "hipFree"), hip_must(hipFree(dst.data), "hipFree");
        }
}
/* Lengths that no caller should leave in device memory. */
static const int32_t wild[] = {INT32_MIN, -1, 0, 7, 25, 26, 1000, INT32_MAX};
/* Device memory may hold any lengths: kernels clamp. The answer is that of the clamped lengths. */
static void garbage_lengths(void) {
    enum { B = 3, Q = 20, K = 25 };
    uint64_t r = 5;
    registered();
    for (int n = 0; n < 40; n++) {
        proof_case c;
        hip_place p;
        shape(&c, B, Q, K, 2, 1, n % 2 ? 64 : 33, 0, n % 4 < 2 ? ATTN_F16 : ATTN_F32);
        attn_desc *d = &c.d;
        if (n % 3 == 0) d->flags = ATTN_CAUSAL;
        int32_t *used_q = proof_ints(&c, B), *used_k = proof_ints(&c, B), *start_k = proof_ints(&c, B), *slot = proof_ints(&c, B);
        int32_t good_q[B], good_k[B], good_start[B], good_slot[B], bad[4][B];
        for (int b = 0; b < B; b++) {
            for (int i = 0; i < 4; i++) bad[i][b] = wild[random_bits(&r) % 8];
            good_q[b] = bad[0][b] < 0 ? 0 : bad[0][b] > Q ? Q : bad[0][b];
            good_k[b] = bad[1][b] < 0 ? 0 : bad[1][b] > K ? K : bad[1][b];
            good_start[b] = bad[2][b] < 0 ? 0 : bad[2][b] > good_k[b] ? good_k[b] : bad[2][b];
            good_slot[b] = bad[3][b] < 0 ? 0 : bad[3][b] > 3 ? 3 : bad[3][b];
        }
        memcpy(used_q, good_q, sizeof good_q), memcpy(used_k, good_k, sizeof good_k);
        memcpy(start_k, good_start, sizeof good_start), memcpy(slot, good_slot, sizeof good_slot);
        d->seq.used_q = used_q, d->seq.used_k = used_k, d->seq.start_k = start_k, d->seq.slot = slot, d->seq.slots = 4;
        bind(&c);
        CHECK(!proof_call(&c, 0), "%s", c.message);
        char *want = outputs(&c, outputs(&c, NULL)), *got = outputs(&c, NULL);
        proof_reset(&c);
        hip_place_make(&c, &p, 0);
        const int32_t *at[4] = {p.d.seq.used_q, p.d.seq.used_k, p.d.seq.start_k, p.d.seq.slot};
        for (int i = 0; i < 4; i++) hip_must(hipMemcpy((void *)(uintptr_t)at[i], bad[i], sizeof bad[i], hipMemcpyHostToDevice), "hipMemcpy");
        CHECK(!attn_forward(&p.d), "%s", c.message);
        hip_place_fetch(&c, &p);
        outputs(&c, got);
        for (size_t i = 0; i < outputs_size(&c); i++)
            CHECK(got[i] == want[i], "case %d: byte %zu of %zu differs from that with the clamped lengths", n, i, outputs_size(&c));
        hip_place_free(&c, &p);
        free(want), free(got), proof_free(&c);
    }
    for (int n = 0; n < 40; n++) {                       /* packed: no access leaves the extents, which the simulator watches */
        proof_case c;
        hip_place p;
        shape(&c, B, Q, K, 2, 2, 64, 0, n % 2 ? ATTN_BF16 : ATTN_F32);
        int32_t *cu_q = proof_ints(&c, B + 1), *cu_k = proof_ints(&c, B + 1), bad[2][B + 1];
        for (int b = 0; b <= B; b++) cu_q[b] = b * 15, cu_k[b] = b * 20, bad[0][b] = wild[random_bits(&r) % 8], bad[1][b] = wild[random_bits(&r) % 8];
        c.d.seq.cu_q = cu_q, c.d.seq.total_q = B * 15, c.d.seq.cu_k = cu_k, c.d.seq.total_k = B * 20;
        bind(&c);
        hip_place_make(&c, &p, 0);
        hip_must(hipMemcpy((void *)(uintptr_t)p.d.seq.cu_q, bad[0], sizeof bad[0], hipMemcpyHostToDevice), "hipMemcpy");
        hip_must(hipMemcpy((void *)(uintptr_t)p.d.seq.cu_k, bad[1], sizeof bad[1], hipMemcpyHostToDevice), "hipMemcpy");
        CHECK(!attn_forward(&p.d), "%s", c.message);
        hip_must(hipDeviceSynchronize(), "hipDeviceSynchronize");
        hip_place_free(&c, &p);
        proof_free(&c);
    }
}
/* A sequence has the same bits alone and in a batch, packed, padded on either side or in a slot. */
static void batch_invariant(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_F32, ATTN_BF16}, len_q[] = {70, 1, 33, 128}, len_k[] = {130, 64, 33, 257};
    enum { B = 4, Q = 128, K = 300, H = 2, D = 64 };
    registered();
    for (int n = 0; n < 12; n++) {                        /* on the scalar kernels, then on those of matrix units */
        proof_case c;
        shape(&c, B, Q, K, H, 1, D, 0, dtype[n % 3]);
        int32_t *used_q = proof_ints(&c, B), *used_k = proof_ints(&c, B), *start_k = proof_ints(&c, B);
        for (int b = 0; b < B; b++) used_q[b] = len_q[b], start_k[b] = n % 6 < 3 ? 0 : 5 * b, used_k[b] = start_k[b] + len_k[b];
        c.d.flags = n % 2 ? ATTN_CAUSAL : 0, c.d.seq.used_q = used_q, c.d.seq.used_k = used_k, c.d.seq.start_k = start_k;
        bind(&c);
        CHECK(!proof_call(&c, 0), "%s", c.message);
        for (int b = 0; b < B; b++) {
            attn_desc d = c.d;
            const size_t size = dtype_size(d.q.dtype);
            char *o = (char *)proof_zeros(Q * H * D, size);
            float *lse = (float *)proof_zeros(Q * H, 4);
            memset(&d.seq, 0, sizeof d.seq);
            d.batch = 1, d.q_len = len_q[b], d.kv_len = len_k[b];
            d.q.data = (const char *)d.q.data + (size_t)b * Q * H * D * size;
            d.k.data = (const char *)d.k.data + ((size_t)b * K + (size_t)start_k[b]) * D * size;
            d.v.data = (const char *)d.v.data + ((size_t)b * K + (size_t)start_k[b]) * D * size;
            d.o.data = o, d.lse = lse;
            CHECK(!attn_forward(&d), "%s", c.message);
            CHECK(!memcmp(o, (const char *)c.d.o.data + (size_t)b * Q * H * D * size, (size_t)len_q[b] * H * D * size),
                  "dtype %d, sequence %d: o alone and in the batch differ", d.q.dtype, b);
            for (int h = 0; h < H; h++)
                CHECK(!memcmp(lse + h * len_q[b], c.d.lse + (b * H + h) * Q, (size_t)len_q[b] * 4), "dtype %d, sequence %d: lse differs", d.q.dtype, b);
            free(o), free(lse);
        }
        proof_free(&c);
    }
}
/* Keys of -infinity: half of the rows have nothing but scores of -infinity and stay 0, whatever the values are; the others are NaN. */
static void infinite_keys(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
    enum { Q = 160, K = 3, D = 64 };
    registered();
    for (int n = 0; n < 12; n++) {
        proof_case c;
        shape(&c, 1, Q, K, 1, 1, D, 0, dtype[n % 3]);
        if (n & 1) c.d.o.dtype = ATTN_F32;
        if (n / 3 & 1) c.features |= n % 3 ? PROOF_BIAS : PROOF_MASK, c.d.mask.dtype = n % 3 ? 0 : ATTN_BOOL;       /* a general kernel as well */
        bind(&c);
        for (int64_t i = 0; i < Q; i++) element_put((void *)(uintptr_t)c.d.q.data, c.d.q.dtype, i * D, i / 3 % 2 ? 1 : -1);
        for (int64_t j = 0; j < K; j++) {
            element_put((void *)(uintptr_t)c.d.k.data, c.d.k.dtype, j * D, (double)float_of(0xff800000));
            for (int64_t e = 0; e < D; e++) element_put((void *)(uintptr_t)c.d.v.data, c.d.v.dtype, j * D + e, (double)float_of(n < 6 ? 0x7f800000 : 0x7fc00000));
        }
        proof_freeze(&c);
        agrees(&c, dtype[n % 3] == ATTN_F32 ? "f32" : "16 bits");
        proof_free(&c);
    }
}
/* Scores as far from 0 as f32 reaches, by a bias of f32 or f64, by a sink, or both: q is 0, so that o has the bits of the same call with a
 * bias of 0, and lse is the bias plus that call's. Half of the rows see the far bias in every key, the others in one key of seven. */
static void fill_bias(proof_case *c, double far, int every) {
    const attn_desc *d = &c->d;
    for (int64_t i = 0; i < d->q_len; i++)
        for (int64_t j = 0; j < d->kv_len; j++)
            element_put((void *)(uintptr_t)d->bias.data, d->bias.dtype, i * d->kv_len + j, every || i % 2 == 0 || j % 7 == 3 ? far : 0);
    proof_freeze(c);
}
static void far_scores_of(int32_t dtype, int64_t dim, int sinks, int f64_bias, uint32_t flags) {
    static const double far[] = {-1e9, -1e30, -2.4e38, -3e38, -3.4028234663852886e38, -1e300, 1e9, 3e38, 3.4028234663852886e38, 1e300};
    static const float sink[] = {3.40282347e38f, -3.40282347e38f, 3e38f, -3e38f, 2.3e38f, 2.4e38f, -2.4e38f, 1e9f, -1e9f, 80};
    enum { Q = 6, K = 70 };
    proof_case c;
    char what[96];
    shape(&c, 1, Q, K, sinks ? 10 : 1, 1, dim, 0, dtype);
    attn_desc *d = &c.d;
    d->flags = flags, d->o.dtype = ATTN_F32, d->bias.dtype = f64_bias ? ATTN_F64 : ATTN_F32;
    d->bias.stride[0] = d->bias.stride[1] = ATTN_BROADCAST, d->bias.stride[2] = K;
    c.features |= PROOF_BIAS;
    proof_draw draw = plain_draw();
    draw.q_amplitude = 0, draw.sink = sinks;
    proof_bind_all(&c, &draw);
    d->bias_scale = NULL;                                   /* a product beyond f32 is another matter */
    if (sinks) memcpy((void *)(uintptr_t)d->sink, sink, sizeof sink);
    fill_bias(&c, 0, 1);
    CHECK(!proof_call(&c, 0), "%s", c.message);
    char *level = outputs(&c, outputs(&c, NULL));
    proof_reset(&c);
    for (size_t n = 0; n < sizeof far / sizeof *far; n += sinks ? 3 : 1) {
        const double f = f64_bias ? far[n] : far[n] < -3.4e38 ? -3.4028234663852886e38 : far[n] > 3.4e38 ? 3.4028234663852886e38 : far[n];
        snprintf(what, sizeof what, "dtype %d, dim %d, bias %g%s", dtype, (int)dim, f, sinks ? ", sinks" : "");
        for (int every = 0; every < 2; every++) {
            fill_bias(&c, f, every);
            if (absolute(f) < 1e300) agrees(&c, what);  /* beyond f32 the reference keeps what no f32 lse can say */
            if (!every || sinks) continue;
            CHECK(!proof_call(&c, 0), "%s", c.message);
            char *now = outputs(&c, outputs(&c, NULL));
            CHECK(!memcmp(now, level, (size_t)(Q * dim) * 4), "%s: o has other bits than with a bias of 0", what);
            for (int64_t i = 0; i < Q; i++) {
                const double want = f < -3.4e38 ? -3.4028234663852886e38 : f > 3.4e38 ? 3.4028234663852886e38 : f;
                CHECK(absolute((double)d->lse[i] - want) <= 8 * 0x1p-24 * absolute(want), "%s: lse %.9g", what, (double)d->lse[i]);
            }
            proof_reset(&c);
            free(now);
        }
    }
    free(level), proof_free(&c);
}
static void far_scores(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
    registered();
    for (int n = 0; n < 3; n++)
        for (int sinks = 0; sinks < 2; sinks++) far_scores_of(dtype[n], n == 1 ? 64 : 32, sinks, n == 1 && !sinks, n == 2 ? ATTN_CAUSAL : 0);
    far_scores_of(ATTN_F16, 260, 1, 0, 0);               /* the scalar kernel */
    far_scores_of(ATTN_F32, 260, 0, 1, 0);
}
/* Sinks at every distance beside scores without any other mask, in rows that see keys and in rows that see none. */
static void far_sinks(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
    static const uint32_t bits[] = {0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f61b1e6, 0xff61b1e6, 0x42a00000, 0xc2a00000, 0x00000001};
    enum { H = sizeof bits / sizeof *bits };
    registered();
    for (int n = 0; n < 8; n++) {
        proof_case c;
        shape(&c, 1, 20, 12, H, 1, n < 6 ? 64 : 260, 0, dtype[n % 3]);
        c.d.flags = n % 2 ? ATTN_CAUSAL : 0;             /* causal: the first 8 rows see no key */
        proof_draw draw = plain_draw();
        draw.sink = 1;
        proof_bind_all(&c, &draw);
        memcpy((void *)(uintptr_t)c.d.sink, bits, sizeof bits);
        proof_freeze(&c);
        agrees(&c, n < 6 ? "sinks" : "sinks, scalar");
        CHECK(!proof_call(&c, 0), "%s", c.message);
        for (int i = 0; i < 20; i++) {                   /* of +infinity, as on the CPU */
            const float lse = c.d.lse[2 * 20 + i];
            CHECK(n % 2 && i < 8 ? lse == INFINITY : isnan(lse), "a sink of infinity, row %d: lse %g", i, (double)lse);
        }
        proof_free(&c);
    }
}
/* A softcap so small that its inverse is not finite: every score is as good as 0. */
static void tiny_softcap(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
    static const uint32_t caps[] = {0x00000001, 0x00100000, 0x007fffff, 0x00800000};
    registered();
    for (int n = 0; n < 24; n++) {
        proof_case c;
        shape(&c, 1, 20, 70, 1, 1, n < 12 ? 64 : 260, 0, dtype[n % 3]);
        c.d.softcap = float_of(caps[n / 3 % 4]);
        bind(&c);
        for (int64_t e = 0; e < c.d.head_dim; e++) element_put((void *)(uintptr_t)c.d.q.data, dtype[n % 3], e, 0);     /* and 0 / softcap */
        proof_freeze(&c);
        agrees(&c, "softcap");
        proof_free(&c);
    }
}
/* Two keys of scores s and 2 s: a softcap up to the largest floats, which both are far above, or below. Then none, and biases that are beyond f32
 * once they are multiplied, but not their sums with the scores. */
static void far_softcap(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
    static const struct { float cap, score, bias[2]; } far[] = {{2e30f, 1e32f, {0, 0}}, {2e30f, 1e30f, {0, 0}}, {1.3e30f, 3e29f, {0, 0}}, {1e38f, 4e37f, {0, 0}}, {3.3e38f, 1e38f, {0, 0}},
                                                               {0, -1.5e38f, {1e38f, 2e38f}}, {0, 1.5e38f, {-1e38f, -2.2e38f}}};
    enum { CASES = sizeof far / sizeof *far };
    registered();
    for (int n = 0; n < 6 * CASES; n++) {
        const float two = 2;
        proof_case c;
        float o[2], lse[2];
        shape(&c, 1, 1, 2, 1, 1, n < 3 * CASES ? 64 : 260, 0, dtype[n % 3]);
        attn_desc *d = &c.d;
        d->softcap = far[n / 3 % CASES].cap, d->scale = far[n / 3 % CASES].score, d->flags |= ATTN_SCALE, d->o.dtype = ATTN_F32;
        bind(&c);
        if (!d->softcap) d->bias.data = far[n / 3 % CASES].bias, d->bias_scale = &two;
        const int64_t D = d->head_dim;
        for (int64_t e = 0; e < D; e++) element_put((void *)(uintptr_t)d->q.data, dtype[n % 3], e, e == 0);
        for (int64_t e = 0; e < 2 * D; e++) {
            element_put((void *)(uintptr_t)d->k.data, dtype[n % 3], e, e % D ? 0 : e < D ? 1 : 2);
            element_put((void *)(uintptr_t)d->v.data, dtype[n % 3], e, e < D ? 1 : -1);
        }
        for (int hip = 0; hip < 2; hip++) {
            d->backend = hip ? "hip" : "reference";
            CHECK(!attn_forward(d), "%d: %s", n, c.message);
            o[hip] = *(const float *)d->o.data, lse[hip] = *d->lse;
        }
        CHECK(fabsf(o[1] - o[0]) <= 1e-5f && fabsf(lse[1] - lse[0]) <= 1e-6f * fabsf(lse[0]), "%d: o %g, lse %.9g, in f64 %g, %.9g", n, (double)o[1], (double)lse[1], (double)o[0], (double)lse[0]);
        d->bias.data = d->bias_scale = NULL;
        proof_free(&c);
    }
}
/* What a call costs, in wave instructions of its largest kernel: the last line of the simulator's report. */
static int64_t instructions(void) {
    const char *path = getenv("HIPSIM_REPORT");
    char line[8192];
    int64_t most = 0;
    FILE *f = path ? fopen(path, "r") : NULL;
    CHECK(f, "no report %s", path ? path : "");
    while (fgets(line, sizeof line, f)) {
        const char *at = strstr(line, "\"total\"");
        const int64_t n = at ? atoll(strchr(at, ':') + 1) : 0;
        if (n > most) most = n;
    }
    fclose(f), unlink(path);
    return most;
}
/* Values that are not finite cost at most four times the clean call, wherever they lie and whoever sees them. */
static void nan_costs(void) {
    static const int32_t dtype[] = {ATTN_BF16, ATTN_F32, ATTN_F16};
    enum { S = 512, D = 64, CLEAN = 0, ALL = 1, ONE = 2, HIDDEN = 3, HALF_SEEN = 4, WAYS = 5 };
    registered();
    for (int n = 0; n < 3; n++)
        for (int masks = 0; masks < 2; masks++) {
            int64_t cost[WAYS];
            proof_case c;
            shape(&c, 1, S, S, 1, 1, D, 0, dtype[n]);
            c.d.flags = ATTN_CAUSAL;
            if (masks) c.features |= PROOF_MASK, c.d.mask.dtype = ATTN_BOOL;
            bind(&c);
            if (masks)                                   /* the second half of the keys is hidden from all rows */
                for (int64_t i = 0; i < S; i++) memset((char *)(uintptr_t)c.d.mask.data + i * S, 1, S / 2), memset((char *)(uintptr_t)c.d.mask.data + i * S + S / 2, 0, S / 2);
            for (int way = CLEAN; way < WAYS; way++) {
                for (int64_t j = 0; j < S; j++)
                    for (int64_t e = 0; e < D; e++) {
                        const int bad = way == ALL || (way == ONE && j == 200 && e == 5) || (way == HIDDEN && j >= S / 2) || (way == HALF_SEEN && j < S / 2 && e % 2);
                        element_put((void *)(uintptr_t)c.d.v.data, dtype[n], j * D + e, bad ? (double)float_of(0x7fc00000) : 1);
                    }
                proof_freeze(&c);
                CHECK(!proof_call(&c, 0), "%s", c.message);
                cost[way] = instructions();
                CHECK(cost[way] > 0 && cost[way] <= 4 * cost[CLEAN], "dtype %d, masks %d, way %d: %lld instructions, clean %lld", dtype[n], masks, way,
                      (long long)cost[way], (long long)cost[CLEAN]);
                proof_reset(&c);
            }
            proof_free(&c);
        }
}
/* NaN whose bits are all ones, from every input, into every type of o: rounding must not carry them into a number. */
static void full_nan(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
    enum { S = 200, D = 64 };
    registered();
    for (int n = 0; n < 54; n++) {
        const int of = n % 3, type = n / 3 % 3, out = n / 9 % 3;
        proof_case c;
        shape(&c, 1, 8, S, 1, 1, D, 0, dtype[type]);
        c.d.o.dtype = dtype[out];
        if (n >= 27) c.d.softcap = 20;
        bind(&c);
        char *x = (char *)(uintptr_t)(of == 0 ? c.d.q.data : of == 1 ? c.d.k.data : c.d.v.data);
        memset(x + (size_t)((of ? 100 : 5) * D + 7) * dtype_size(dtype[type]), type == 2 ? 0xff : 0x7f, dtype_size(dtype[type]));
        memset(x + (size_t)((of ? 100 : 5) * D + 7) * dtype_size(dtype[type]), 0xff, dtype_size(dtype[type]) - 1);
        proof_freeze(&c);
        agrees(&c, "a NaN of all ones");
        proof_free(&c);
    }
}
/* A NaN in q, k or v, which every row sees, beside a sink under which every weight is as good as 0: o is a NaN all the same. */
static void spoiled_beside_sink(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
    enum { Q = 5, DIMS = 3 };
    static const int64_t dims[DIMS] = {64, 200, 300};
    registered();
    for (int n = 0; n < 3 * DIMS * 3 * 4; n++) {         /* with few keys, with parts, with mixed types, with tiles that all rows see whole */
        const int of = n % 3, type = dtype[n / 3 % 3], way = n / 27;
        const int64_t dim = dims[n / 9 % DIMS], keys = way == 1 ? 600 : way == 3 ? 256 : 40;
        proof_case c;
        char what[64];
        if (!built(type) || (getenv("HIP_EMULATED") && (way != 3 || dim > 64))) continue;      /* the rest is run by chips */
        shape(&c, 1, way == 3 ? 80 : Q, keys, 1, 1, dim, 0, type);
        if (way == 2) c.d.k.dtype = ATTN_F32;
        proof_draw draw = plain_draw();
        draw.sink = 1;
        proof_bind_all(&c, &draw);
        *(float *)(uintptr_t)c.d.sink = 200;
        const attn_in *in[] = {&c.d.q, &c.d.k, &c.d.v};
        element_put((void *)(uintptr_t)in[of]->data, in[of]->dtype, 3 * dim + 7, (double)float_of(0x7fc00000));
        proof_freeze(&c);
        snprintf(what, sizeof what, "dtype %d, dim %d, a NaN in %c, way %d", type, (int)dim, "qkv"[of], way);
        agrees(&c, what);
        proof_free(&c);
    }
}
/* Sequences of 2^30 keys and more, all of them one row in memory; each query sees a window of 101. Every key scores 0: o is v, lse log 101. */
static void far_keys(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
    static const int64_t keys[] = {((int64_t)1 << 30) + 77, ((int64_t)1 << 31) - 65536};
    enum { Q = 40, D = 64 };
    registered();
    for (int n = 0; n < 24; n++) {
        proof_case c;
        attn_plan plan;
        attn_desc *d = &c.d;
        shape(&c, 1, Q, 1, 1, 1, n % 12 < 6 ? D : 260, 0, dtype[n % 3]);
        d->k.stride[0] = d->k.stride[1] = d->k.stride[2] = d->v.stride[0] = d->v.stride[1] = d->v.stride[2] = ATTN_BROADCAST;
        d->flags = ATTN_CAUSAL | ATTN_WINDOW_LEFT, d->window_left = 100;
        proof_draw draw = plain_draw();
        draw.q_amplitude = 0;
        proof_bind_all(&c, &draw);                       /* of the one row */
        d->kv_len = n < 12 ? keys[n / 3 % 2] : keys[1] + 1 + n;
        if (n % 2) d->flags |= ATTN_OFFSET, d->offset = d->kv_len - Q - 60000;
        if (n >= 12) {
            CHECK(attn_query(d, NULL, &plan) == ATTN_ERR_DECLINED && strstr(plan.why, "hip: "), "%lld keys: '%s'", (long long)d->kv_len, plan.why);
            proof_free(&c);
            continue;
        }
        CHECK(!proof_call(&c, 0), "%s", c.message);
        for (int64_t i = 0; i < Q; i++) {
            CHECK(absolute((double)d->lse[i] - 4.61512051684126) < 1e-5, "dtype %d, %lld keys: lse[%d] %.9g", dtype[n % 3], (long long)d->kv_len, (int)i, (double)d->lse[i]);
            for (int64_t e = 0; e < d->head_dim; e++) {
                const double x = element_get(d->o.data, d->o.dtype, i * d->head_dim + e), v = element_get(d->v.data, d->v.dtype, e);
                CHECK(absolute(x - v) <= (dtype[n % 3] == ATTN_F32 ? 1e-5 : 1e-2) * absolute(v), "dtype %d, %lld keys: o %g, v %g", dtype[n % 3], (long long)d->kv_len, x, v);
            }
        }
        proof_free(&c);
    }
}
/* Many keys of the same values, and o is these, however long the sums. All keys alike (one row in memory, and q is 0): lse is the logarithm of
 * their number. Or the first has a weight of 1 and the others one of 93/128, which every type has and whose products with a value have too many digits
 * for their sums to be exact; these are carried every 128 keys on the chips whose work is cut into pieces, every 4096 elsewhere, and each may be off by
 * half a unit. A plain kernel and, with slopes of 0, a general one; the dims of 260 go to the scalar kernel. */
static void long_sums(void) {
    static const struct { int32_t dtype, out; int64_t keys, dim; int general; int64_t rows; } cases[] = {{ATTN_F32, ATTN_F32, 16384, 64, 0, 2}, {ATTN_F32, ATTN_F32, 3000, 256, 1, 2},
        {ATTN_F32, ATTN_F64, 9001, 33, 1, 2}, {ATTN_F32, ATTN_F32, 9001, 260, 0, 2}, {ATTN_F16, ATTN_F32, 131072, 32, 0, 2}, {ATTN_BF16, ATTN_F64, 9001, 64, 1, 2},
        /* more rows than are taken in parts: one sum as long as the keys, carried now and then */
        {ATTN_F32, ATTN_F32, 3000, 64, 0, 70}, {ATTN_F32, ATTN_F64, 2500, 33, 1, 70}, {ATTN_F32, ATTN_F32, 2500, 128, 0, 70},
        {ATTN_F16, ATTN_F32, 10000, 64, 0, 70}, {ATTN_BF16, ATTN_F32, 10000, 128, 0, 70},
        /* so many keys that the parts have long sums too */
        {ATTN_F32, ATTN_F32, 450000, 128, 0, 1}};
    const char *chip = getenv("HIPSIM_ARCH");
    const int pieces = chip && (!strcmp(chip, "gfx90a") || !strcmp(chip, "gfx1201"));
    registered();
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        proof_case c;
        attn_desc *d = &c.d;
        const int light = cases[n].dtype != ATTN_F32 && cases[n].rows > 2;
        if (cases[n].rows > 2 && !built(cases[n].dtype)) continue;
        shape(&c, 1, cases[n].rows, light ? cases[n].keys : 1, 1, 1, cases[n].dim, 0, cases[n].dtype);
        d->o.dtype = cases[n].out;
        if (!light) d->k.stride[0] = d->k.stride[1] = d->k.stride[2] = ATTN_BROADCAST;
        d->v.stride[0] = d->v.stride[1] = d->v.stride[2] = ATTN_BROADCAST;
        proof_draw draw = plain_draw();
        draw.q_amplitude = 0, draw.alibi = cases[n].general;
        proof_bind_all(&c, &draw);
        if (cases[n].general) *(float *)(uintptr_t)d->alibi = 0;
        for (int64_t e = 0; e < d->head_dim; e++) element_put((void *)(uintptr_t)d->v.data, d->v.dtype, e, 0.7 - 0.01 * (double)(e % 64));
        d->kv_len = cases[n].keys;
        if (light) {
            d->scale = (float)log(128 / 93.0), d->flags |= ATTN_SCALE;
            for (int64_t i = 0; i < d->q_len; i++) element_put((void *)(uintptr_t)d->q.data, d->q.dtype, i * d->head_dim, 1);
            for (int64_t j = 0; j < d->kv_len; j++) element_put((void *)(uintptr_t)d->k.data, d->k.dtype, j * d->head_dim, j ? -1 : 0);
            for (int64_t i = 0; i < d->kv_len * d->head_dim; i++)
                if (i % d->head_dim) element_put((void *)(uintptr_t)d->k.data, d->k.dtype, i, 0);
        }
        CHECK(!proof_call(&c, 0), "%s", c.message);
        for (int64_t i = 0; i < d->q_len; i++) {
            const double keys = (double)d->kv_len, want = log(light ? 1 + (keys - 1) * 93 / 128 : keys), u = d->o.dtype == ATTN_F16 ? 0x1p-11 : 0x1p-24,
                         most = light && !pieces ? 2048 : 64;
            CHECK(absolute((double)d->lse[i] - want) <= 8 * 0x1p-24 * (want + 4), "dtype %d, %lld keys: lse %.9g, not %.9g", d->q.dtype, (long long)d->kv_len, (double)d->lse[i], want);
            for (int64_t e = 0; e < d->head_dim; e++) {
                const double x = element_get(d->o.data, d->o.dtype, i * d->head_dim + e), v = element_get(d->v.data, d->v.dtype, e);
                CHECK(absolute(x - v) <= (most * 0x1p-24 + u) * absolute(v), "dtype %d, dim %d, %lld keys: o %.9g, v %.9g", d->q.dtype, (int)d->head_dim,
                      (long long)d->kv_len, x, v);
            }
        }
        proof_free(&c);
    }
}
/* Scores of equal products, each of which rounds the same way: taken in turn over all dims they lose what no sum of random ones does. */
static void equal_products(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
    static const int64_t dims[] = {64, 128, 200, 256, 300, 576};
    registered();
    for (int n = 0; n < 3 * 6 * 4; n++) {
        proof_case c;
        attn_desc *d = &c.d;
        shape(&c, 1, 3 + n / 36 * 40, 70, 2, 1, dims[n / 3 % 6], 0, dtype[n % 3]);
        proof_draw draw = plain_draw();
        draw.alibi = n / 18 % 2;                        /* the general kernels */
        proof_bind_all(&c, &draw);
        if (draw.alibi) for (int h = 0; h < 2; h++) ((float *)(uintptr_t)d->alibi)[h] = 0;
        for (int64_t i = 0; i < d->q_len * 2 * d->head_dim; i++) element_put((void *)(uintptr_t)d->q.data, d->q.dtype, i, 1.37 + 0.0311 * n);
        for (int64_t i = 0; i < d->kv_len * d->head_dim; i++) element_put((void *)(uintptr_t)d->k.data, d->k.dtype, i, 0.77 + 0.0173 * n);
        CHECK(!proof_call(&c, 0), "%s", c.message);
        const double score = element_get(d->q.data, d->q.dtype, 0) * element_get(d->k.data, d->k.dtype, 0) * (double)d->head_dim * (double)(float)(1 / sqrt((double)d->head_dim));
        const double want = score + log((double)d->kv_len), allowed = allowed_lse(want, 2 * score + 4);
        for (int64_t i = 0; i < d->q_len * 2; i++)
            CHECK(absolute((double)d->lse[i] - want) <= allowed, "dtype %d, dim %d: lse %.9g, not %.9g: %.2f of what may be lost", d->q.dtype, (int)d->head_dim,
                  (double)d->lse[i], want, absolute((double)d->lse[i] - want) / allowed);
        proof_free(&c);
    }
}
/* No query, where keys would be cut into parts if there were one and no dropout. */
static void no_query(void) {
    proof_case c;
    attn_plan plan;
    shape(&c, 1, 0, 900, 2, 1, 64, 0, ATTN_F16);
    c.d.dropout = 0.25f;
    registered(), bind(&c);
    CHECK(!attn_query(&c.d, NULL, &plan) && plan.splits == 1, "%s", c.message);
    CHECK(!proof_call(&c, 0), "%s", c.message);
    c.d.dropout = 0;
    CHECK(!attn_query(&c.d, NULL, &plan) && plan.splits == 1, "%d parts of no query: %s", (int)plan.splits, c.message);
    c.d.q.data = c.d.o.data = NULL;                      /* nobody reads or writes there */
    CHECK(!attn_forward(&c.d), "without q and o: %s", c.message);
    hip_place p;
    hip_place_make(&c, &p, HIP_STREAM);
    CHECK(!attn_forward(&p.d), "the same on the device: %s", c.message);
    p.d.q.data = &c, p.d.o.data = &c;
    CHECK(!attn_forward(&p.d), "q and o somewhere: %s", c.message);
    hip_place_free(&c, &p);
    proof_free(&c);
}
/* Every type of o beside every type of q, k and v, where all rows are aligned and where none is. */
/* More sequences than a launch has, with parts, laid out, appended to, and their gradients: what no launch holds would be refused. */
static void many_sequences(void) {
    static const int32_t types[][2] = {{ATTN_F32, ATTN_F32}, {ATTN_F16, ATTN_F16}, {ATTN_F16, ATTN_INT8}, {ATTN_BF16, ATTN_F32}};
    static const int64_t batch[] = {1500, 5000, 70000}, rows[] = {1, 40, 100};
    const size_t apart = (size_t)1 << 44;
    void *block;
    char why[200] = "";
    registered();
    hip_must(hipMalloc(&block, 64), "hipMalloc");
    for (int n = 0; n < 3 * 3 * 4 * 3; n++) {
        const int way = n / 36;                          /* a forward, with an append, a backward */
        const int32_t *type = types[n / 9 % 4];
        attn_desc d;
        attn_grad g;
        attn_plan plan;
        memset(&d, 0, sizeof d), memset(&g, 0, sizeof g);
        if (way == 2 && type[0] != type[1]) continue;
        d.batch = batch[n % 3], d.heads = d.kv_heads = 1, d.q_len = rows[n / 3 % 3], d.kv_len = way == 2 ? 64 : 1 << 16, d.head_dim = 8;
        d.flags = ATTN_DEVICE, d.backend = "hip", d.message = why, d.message_size = sizeof why;
        attn_in *in[] = {&d.q, &d.k, &d.v, &g.dout, &d.append.k, &d.append.v};
        attn_out *out[] = {&d.o, &g.dq, &g.dk, &g.dv};
        for (int t = 0; t < 6; t++) in[t]->dtype = type[t == 1 || t == 2], in[t]->data = (const void *)(apart * (size_t)(t + 1));
        for (int t = 0; t < 4; t++) out[t]->dtype = type[0], out[t]->data = (void *)(apart * (size_t)(t + 7));
        if (type[1] == ATTN_INT8) d.k.scale = (const float *)(apart * 11), d.v.scale = (const float *)(apart * 12);
        d.lse = way == 2 ? (float *)(apart * 13) : NULL;
        if (way == 1) {
            d.seq.used_k = (const int32_t *)(apart * 14), d.append.len = 2;
            d.append.k_cache = (void *)(uintptr_t)d.k.data, d.append.v_cache = (void *)(uintptr_t)d.v.data;
            d.append.k_scale = (float *)(uintptr_t)d.k.scale, d.append.v_scale = (float *)(uintptr_t)d.v.scale;
        } else memset(&d.append, 0, sizeof d.append);
        CHECK(!attn_query(&d, way == 2 ? &g : NULL, &plan), "%d: %s", n, plan.why);
        d.workspace = (void *)(apart * 15), d.workspace_size = plan.workspace_size;
        hip_dry = block;
        CHECK(!(way == 2 ? attn_backward(&d, &g) : attn_forward(&d)), "%d, %s, %lld sequences: %s", n, plan.kernel, (long long)d.batch, why);
        hip_dry = NULL;
    }
    hip_must(hipFree(block), "hipFree");
}
static void output_types(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16, ATTN_F32}, out[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
    registered();
    for (int n = 0; n < 24; n++) {
        proof_case c;
        char what[64];
        shape(&c, 1, 40, 33, 2, 1, n < 12 ? 64 : 33, 0, dtype[n % 3]);
        c.d.o.dtype = out[n / 3 % 4];
        proof_draw draw = plain_draw();
        proof_bind_all(&c, &draw);
        proof_freeze(&c);
        snprintf(what, sizeof what, "dtype %d, o %d, dim %d", dtype[n % 3], out[n / 3 % 4], (int)c.d.head_dim);
        agrees(&c, what);
        proof_free(&c);
    }
}
/* Scores that climb from the first key to the last, or fall: what was summed before is measured by another maximum later. */
static void climbing_scores(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
    registered();
    for (int n = 0; n < 12; n++) {
        proof_case c;
        shape(&c, 1, 3, dtype[n % 3] == ATTN_F32 ? 700 : 9000, 2, 1, n < 6 ? 64 : 40, n < 6 ? 0 : 24, dtype[n % 3]);
        c.d.o.dtype = n % 2 ? ATTN_F32 : dtype[n % 3];
        if (n >= 9) c.d.dropout = 0.3f, c.d.seed = 9;
        proof_draw draw = plain_draw();
        draw.alibi = 1;
        proof_bind_all(&c, &draw);
        float *slope = (float *)(uintptr_t)c.d.alibi;    /* a row's last key has the largest score, or its first one */
        slope[0] = n % 3 == 2 ? 0.05f : 0.004f, slope[1] = -slope[0];
        proof_freeze(&c);
        agrees(&c, "climbing scores");
        proof_free(&c);
    }
}
/* More sequences than one launch carries lengths of, from host memory to a call on device tensors; and more heads than a grid has. */
static void many_lengths(void) {
    enum { B = 600, D = 16 };
    proof_case c;
    hip_place p;
    attn_plan plan;
    uint64_t r = 3;
    registered();
    shape(&c, B, 1, 3, 1, 1, D, 0, ATTN_F32);
    int32_t *used = proof_ints(&c, B), *start = proof_ints(&c, B);
    for (int b = 0; b < B; b++) start[b] = (int32_t)(random_bits(&r) % 2), used[b] = start[b] + (int32_t)(random_bits(&r) % 3);
    c.d.seq.used_k = used, c.d.seq.start_k = start;
    bind(&c);
    agrees(&c, "host pointers");
    for (int how = 0; how < 2; how++) {
        proof_answer a;
        CHECK(!proof_solve(&c, &a), "the reference");
        proof_reset(&c);
        int32_t kept[B];
        memcpy(kept, used, sizeof kept);
        hip_place_make(&c, &p, HIP_SEQ_HOST | HIP_STREAM | (how ? HIP_WORKSPACE : 0));
        CHECK(!attn_forward(&p.d), "%s", c.message);
        memset(used, 0, sizeof *used * B);               /* they may change as soon as the call is back */
        hip_place_fetch(&c, &p);
        memcpy(used, kept, sizeof kept);
        const char *wrong = proof_check(&c, &a, 0);
        CHECK(!wrong, "%s", wrong);
        proof_reset(&c);
        hip_place_free(&c, &p);
        proof_answer_free(&a);
    }
    proof_free(&c);
    shape(&c, 1, 1, 3, 65536, 1, D, 0, ATTN_F32);
    bind(&c);
    CHECK(attn_query(&c.d, NULL, &plan) == ATTN_ERR_DECLINED && strstr(plan.why, "65535"), "65536 heads: '%s'", plan.why);
    proof_free(&c);
}
enum { IN_ROWS, IN_SLOTS, IN_PAGES };
static void appending(proof_case *c, int where, const int32_t type[3], int rotary);
/* As many tokens, sequences or heads as there may be, and one more. */
static void as_many_as_may_be(void) {
    const int64_t most = ((int64_t)1 << 31) - 65536;
    registered();
    for (int n = 0; n < 16; n++) {
        static const int32_t type[3] = {ATTN_F16, ATTN_F16, ATTN_F32};
        proof_case c;
        hip_place p;
        attn_plan plan;
        appending(&c, IN_ROWS, type, 0);
        hip_place_make(&c, &p, 0);                       /* lengths in device memory: nobody reads them here */
        const int32_t *const ends = p.d.append.cu;
        const int of = n / 2;
        if (of < 3 || of > 4) memset(&p.d.append, 0, sizeof p.d.append), memset(&p.d.seq, 0, sizeof p.d.seq);
        attn_desc d = p.d;
        if (of == 4) d.append.cu = NULL, d.append.total = 0;/* else it is at most append.total */
        if (of == 5) d.seq.cu_q = ends;
        if (of == 6) d.seq.cu_k = ends;
        *(int64_t *[]){&d.q_len, &d.kv_len, &d.batch, &d.append.total, &d.append.len, &d.seq.total_q, &d.seq.total_k, &d.heads}[of] = (of < 7 ? most : 65535) + n % 2;
        if (of == 7) d.kv_heads = d.heads;               /* grid.y */
        const attn_status status = attn_query(&d, NULL, &plan);
        const int threads = n == 0 && strstr(plan.why, "threads");       /* more than one of them a row: launches_end_below_2_32 */
        CHECK(status == (n % 2 || threads ? ATTN_ERR_DECLINED : ATTN_OK), "%d: %s: %s", n, attn_status_text(status), c.message);
        hip_place_free(&c, &p), proof_free(&c);
    }
}
/* As many rows, or keys of a backward, as a kernel has threads for: what a query takes is launched, and one more would not be. Addresses and
 * nothing behind them. */
static void launches_end_below_2_32(void) {
    static const int32_t types[] = {ATTN_F32, ATTN_F16, ATTN_BF16};
    static const int64_t dims[] = {64, 128, 256, 60, 300}, shape[4] = {1 << 11, 1 << 10, 1 << 10, 64}, limit = (int64_t)1 << 31;
    const size_t apart = (size_t)1 << 44;
    void *block;
    char why[200] = "";
    attn_desc d;
    attn_grad g;
    registered();
    hip_must(hipMalloc(&block, 64), "hipMalloc");
    for (int n = 0; n < 90; n++) {
        const int way = n / 30, back = way > 0;          /* rows, rows of a backward, keys of one */
        attn_plan plan;
        memset(&d, 0, sizeof d), memset(&g, 0, sizeof g);
        d.batch = d.heads = 1, d.q_len = d.kv_len = 8, d.head_dim = dims[n % 5], d.softcap = (float)(n / 15 % 2);
        d.flags = ATTN_DEVICE, d.backend = "hip", d.message = why, d.message_size = sizeof why;
        attn_in *in[] = {&d.q, &d.k, &d.v, &g.dout};
        attn_out *out[] = {&d.o, &g.dq, &g.dk, &g.dv};
        for (int t = 0; t < 4; t++) {
            in[t]->dtype = out[t]->dtype = types[n / 5 % 3];
            in[t]->data = (const void *)(apart * (size_t)(t + 1)), out[t]->data = (void *)(apart * (size_t)(t + 5));
        }
        d.lse = back ? (float *)(apart * 9) : NULL;
        int64_t *length = way == 2 ? &d.kv_len : &d.q_len, most = 8, end = limit;      /* the largest that is taken, the least that is not */
        while (most + 1 < end) {
            *length = most + (end - most) / 2;
            const attn_status s = attn_query(&d, back ? &g : NULL, &plan);
            CHECK(!s || (s == ATTN_ERR_DECLINED && (strstr(plan.why, "2^32 threads") || *length > limit - 65536)), "%d, %lld: %s %s", n, (long long)*length, attn_status_name(s), plan.why);
            *(s ? &end : &most) = *length;
        }
        *length = most, hip_threads = 0;
        CHECK(!attn_query(&d, back ? &g : NULL, &plan), "%s", plan.why);
        if (plan.workspace_size) d.workspace = (void *)(apart * 10), d.workspace_size = plan.workspace_size;
        hip_dry = block;
        CHECK(!(back ? attn_backward(&d, &g) : attn_forward(&d)), "%d, %s, %lld: %s", n, plan.kernel, (long long)most, why);
        hip_dry = NULL;
        CHECK(most == limit - 65536 || hip_threads > UINT32_MAX - 1024, "%d, %s: %lld are the most, with %llu threads", n, plan.kernel, (long long)most, (unsigned long long)hip_threads);
    }
    for (int a = 0; a < 3; a++) d.q.stride[a] = ATTN_BROADCAST;
    d.o.stride[2] = 65, d.o.stride[1] = d.o.stride[2] * shape[2], d.o.stride[0] = d.o.stride[1] * shape[1];
    d.q.dtype = ATTN_F16, d.o.dtype = ATTN_F32;
    hip_dry = block;
    CHECK(!attn_convert(shape, d.q, d.o, &d), "conversion: %s", why);
    hip_dry = NULL;
    hip_must(hipFree(block), "hipFree");
}
/* f16 beyond what MI200's second pass is for, values near the type's largest, and P whose rounding must not pull the mean. */
static void large_and_even(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16};
    registered();
    for (int n = 0; n < 8; n++) {
        proof_case c;
        shape(&c, 1, 20, 150, 1, 1, 64, 0, dtype[n % 2]);
        c.d.o.dtype = ATTN_F32;
        if (n / 2 % 2) c.features |= PROOF_MASK, c.d.mask.dtype = ATTN_BOOL;
        bind(&c);
        const attn_in *x = n < 4 ? &c.d.v : &c.d.k;
        for (int64_t e = 0; e < 150 * 64; e += n % 3 + 5) element_put((void *)(uintptr_t)x->data, x->dtype, e, n < 4 ? (e % 2 ? 6e4 : -3e4) : (e % 2 ? 70 : -900));
        proof_freeze(&c);
        c.max_v = 6e4;
        agrees(&c, "large values");
        proof_free(&c);
    }
    for (int n = 0; n < 4; n++) {                        /* v is 1: what is missing from o is what P has lost */
        enum { Q = 64, K = 512, D = 32 };
        double mean = 0;
        proof_case c;
        shape(&c, 1, Q, K, 1, 1, D, 0, dtype[n % 2]);
        c.d.o.dtype = ATTN_F32;
        if (n / 2) c.d.softcap = 50;
        bind(&c);
        for (int64_t e = 0; e < K * D; e++) element_put((void *)(uintptr_t)c.d.v.data, dtype[n % 2], e, 1);
        proof_freeze(&c);
        CHECK(!proof_call(&c, 0), "%s", c.message);
        for (int64_t i = 0; i < Q; i++) mean += (element_get(c.d.o.data, ATTN_F32, i * D) - 1) / Q;
        CHECK(absolute(mean) < 0.03 * hip_p_unit(&c.d), "dtype %d: the mean error of o is %g", dtype[n % 2], mean);
        proof_free(&c);
    }
}
/* Keys of little weight alone have values: o is what the matrix unit makes of a small P, whether m is the maximum or
 * waits for it to grow. */
static void small_weights(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16};
    enum { Q = 20, K = 300, D = 64 };
    registered();
    for (int n = 0; n < 16; n++) {
        const double top = n / 4 % 2 ? 2.0 : 0, down = (n / 8 ? 24 : 20) * 0.6931471805599453;      /* from the largest score */
        proof_case c;
        shape(&c, 1, Q, K, 1, 1, D, 0, dtype[n % 2]);
        c.d.o.dtype = ATTN_F32;
        c.d.scale = 1, c.d.flags |= ATTN_SCALE;
        if (n / 2 % 2) c.d.softcap = 1000;
        bind(&c);
        for (int64_t i = 0; i < Q; i++)
            for (int64_t d = 0; d < D; d++) element_put((void *)(uintptr_t)c.d.q.data, dtype[n % 2], i * D + d, d == 0);
        for (int64_t j = 0; j < K; j++)
            for (int64_t d = 0; d < D; d++) {
                const int large = j == 3 || j == 200;    /* the second grows by less than m waits for */
                element_put((void *)(uintptr_t)c.d.k.data, dtype[n % 2], j * D + d, d ? 0 : j == 200 ? top : large ? 0 : top - down);
                element_put((void *)(uintptr_t)c.d.v.data, dtype[n % 2], j * D + d, large ? 0 : 1 + (j + d) % 7);
            }
        proof_freeze(&c);
        c.max_v = 7;
        agrees(&c, "small weights");
        proof_free(&c);
    }
}
/* Weights down to 2^-103 of the largest: each dim has values where they are of one size alone, and for the others it is 0. */
static void light_weights(void) {
    enum { K = 400 };
    registered();
    for (int n = 0; n < 16; n++) {
        const int64_t dim = n % 2 ? 128 : 64, rows = n / 4 % 2 ? 3 : 40, keys = n / 4 % 2 ? K : K / 2;     /* few rows: keys in parts */
        proof_case c;
        char what[64];
        shape(&c, 1, rows, keys, 1, 1, dim, 0, ATTN_F16);
        c.d.o.dtype = n / 8 ? ATTN_BF16 : ATTN_F32;
        c.d.flags = ATTN_SCALE | (n / 8 ? ATTN_CAUSAL : 0), c.d.scale = 1;
        if (n / 2 % 2) c.d.softcap = 1000;               /* the general kernels */
        bind(&c);
        for (int64_t at = 0; at < rows * dim; at++) element_put((void *)(uintptr_t)c.d.q.data, ATTN_F16, at, at % dim ? 0 : 1 - at / dim % 3 / 4.0);
        for (int64_t at = 0; at < keys * dim; at++) {
            const int64_t j = at / dim, d = at % dim, down = j * 7 % 104;
            element_put((void *)(uintptr_t)c.d.k.data, ATTN_F16, at, d ? 0 : (double)-down * 0.6931471805599453);
            element_put((void *)(uintptr_t)c.d.v.data, ATTN_F16, at, down / 4 == d % 26 ? (double)(1 + (j + d) % 7) : 0);
        }
        if (n / 8) element_put((void *)(uintptr_t)c.d.v.data, ATTN_F16, (keys - 1) * dim + 5, NAN);     /* which the last row alone sees */
        proof_freeze(&c);
        c.max_v = 7;
        snprintf(what, sizeof what, "light weights, case %d", n);
        agrees(&c, what);
        proof_free(&c);
    }
}
/* Scores so large that f32 has no digits behind the point for them: o and lse are what little the rule asks for, and finite. */
static void largest_scores(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16};
    static const double size[] = {300, 4e3, 6e4, 1e6, 1e12};
    registered();
    for (int n = 0; n < 20; n++) {
        const double large = size[n / 4];
        proof_case c;
        char what[64];
        if (n % 2 == 0 && large > 65504) continue;
        shape(&c, 1, 40, 150, 2, 1, 64, 0, dtype[n % 2]);
        c.d.o.dtype = ATTN_F32;
        if (n / 2 % 2) c.d.softcap = 1e30f;
        bind(&c);
        const attn_in *in[] = {&c.d.q, &c.d.k};
        for (int i = 0; i < 2; i++)
            for (int64_t e = 0; e < (i ? 150 : 80) * 64; e++)
                element_put((void *)(uintptr_t)in[i]->data, dtype[n % 2], e, (e * 7 % 5 - (i ? 1 : 2)) * large / 3);
        proof_freeze(&c);
        snprintf(what, sizeof what, "dtype %d, q and k of %g, masks %d", dtype[n % 2], large, n / 2 % 2);
        agrees(&c, what);
        proof_free(&c);
    }
}
/* Scores up to the largest f32, and as far below 0, of one element of q and k each. */
static void scores_of_any_f32(void) {
    static const int32_t dtype[] = {ATTN_F32, ATTN_BF16};
    static const int64_t dims[] = {32, 128, 300};
    enum { Q = 40, K = 90 };
    registered();
    for (int n = 0; n < 24; n++) {
        const int64_t dim = dims[n / 4 % 3];
        const int type = dtype[n % 2];
        proof_case c;
        char what[64];
        if (!built(type)) continue;
        shape(&c, 1, Q, K, 1, 1, dim, 0, type);
        c.d.o.dtype = ATTN_F32, c.d.flags = ATTN_SCALE, c.d.scale = 1;
        proof_draw draw = plain_draw();
        draw.alibi = n / 2 % 2;                          /* the general kernels */
        proof_bind_all(&c, &draw);
        if (draw.alibi) *(float *)(uintptr_t)c.d.alibi = 0;
        for (int64_t at = 0; at < Q * dim; at++) element_put((void *)(uintptr_t)c.d.q.data, type, at, at % dim ? 0 : n / 12 ? -0x1p64 : 0x1p64);
        for (int64_t at = 0; at < K * dim; at++) element_put((void *)(uintptr_t)c.d.k.data, type, at, at % dim ? 0 : (0.7 + at / dim % 9 / 32.0) * 0x1p64);
        proof_freeze(&c);
        snprintf(what, sizeof what, "dtype %d, dim %d, case %d", type, (int)dim, n);
        agrees(&c, what);
        proof_free(&c);
    }
}
/* One key of little score alone: nothing but lse's own digits is in its way. */
static void small_lse(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16};
    registered();
    for (int n = 0; n < 8; n++) {
        proof_case c;
        shape(&c, 1, 3000, 1, 1, 1, n / 2 % 2 ? 128 : 32, 0, dtype[n % 2]);
        c.d.o.dtype = ATTN_F32;
        proof_draw draw = plain_draw();
        draw.q_amplitude = n / 4 ? 0.25 : 0.05;
        proof_bind_all(&c, &draw);
        agrees(&c, "one key");
        proof_free(&c);
    }
}
/* MI200 multiplies f16 that are subnormal by 2^10 before it, unless the row has an element for which that is too much: the whole row then does
 * without, whichever lanes hold that element. */
static void one_large_query(void) {
    enum { Q = 40, K = 90 };
    registered();
    for (int n = 0; n < 4; n++) {
        const int64_t dim = n % 2 ? 128 : 64;
        proof_case c;
        shape(&c, 1, Q, K, 1, 1, dim, 0, ATTN_F16);
        c.d.o.dtype = ATTN_F32;
        if (n / 2) c.d.softcap = 50;
        bind(&c);
        for (int64_t i = 0; i < Q; i += 1 + i % 3) element_put((void *)(uintptr_t)c.d.q.data, ATTN_F16, i * dim + i * 5 % dim, i % 2 ? 70 : -900);
        proof_freeze(&c);
        agrees(&c, "one large element");
        proof_free(&c);
    }
}
/* f16 with an o of f32 has the bits of staged rows, which are aligned, where they lie in device memory and are not. */
static void unaligned_bits(void) {
    registered();
    for (int n = 0; n < 3; n++) {
        const int64_t dim = 32 << n;
        proof_case c;
        hip_place p;
        shape(&c, 1, 40, 150, 1, 1, dim, 0, ATTN_F16);
        c.d.o.dtype = ATTN_F32;
        int64_t *stride[] = {c.d.q.stride, c.d.k.stride, c.d.v.stride};
        for (int t = 0; t < 3; t++) stride[t][0] = (t ? 150 : 40) * (dim + 1), stride[t][1] = stride[t][2] = dim + 1;
        bind(&c);
        CHECK(!proof_call(&c, 0), "%s", c.message);
        char *want = outputs(&c, outputs(&c, NULL)), *got = outputs(&c, NULL);
        proof_reset(&c);
        hip_place_make(&c, &p, 0);
        CHECK(!attn_forward(&p.d), "%s", c.message);
        hip_place_fetch(&c, &p);
        CHECK(!memcmp(outputs(&c, got), want, outputs_size(&c)), "%d dims: other bits", (int)dim);
        hip_place_free(&c, &p);
        free(want), free(got), proof_free(&c);
    }
}
/* A stride along an axis of one is never stepped: any number may stand there. */
/* Many short sequences with every array of lengths there is, in one piece. */
static void all_lengths(void) {
    enum { B = 61 };
    registered();
    for (int n = 0; n < 4; n++) {
        proof_case c;
        hip_place p;
        proof_answer a;
        shape(&c, B, 2, 4, 2, 1, 8, 0, n % 2 ? ATTN_F32 : ATTN_BF16);
        attn_desc *d = &c.d;
        int32_t *cu_q = proof_ints(&c, B + 1), *cu_k = proof_ints(&c, B + 1), *used_q = proof_ints(&c, B), *used_k = proof_ints(&c, B), *start_k = proof_ints(&c, B);
        cu_q[0] = cu_k[0] = 0;
        for (int b = 0; b < B; b++) {
            cu_q[b + 1] = cu_q[b] + b % 3, cu_k[b + 1] = cu_k[b] + (b + 1) % 5;
            used_q[b] = b % 4 ? b % 3 : 0, used_k[b] = b % 7 ? (b + 1) % 5 : (b + 1) % 5 / 2, start_k[b] = used_k[b] / 2;
        }
        d->seq.cu_q = cu_q, d->seq.cu_k = cu_k, d->seq.used_q = used_q, d->seq.used_k = used_k, d->seq.start_k = start_k;
        d->seq.total_q = cu_q[B], d->seq.total_k = cu_k[B], d->flags = n > 1 ? ATTN_CAUSAL : 0;
        bind(&c);
        agrees(&c, "host");
        CHECK(!proof_solve(&c, &a), "the reference");
        d->backend = "hip";
        hip_place_make(&c, &p, HIP_SEQ_HOST | (n % 2 ? HIP_WORKSPACE : 0));
        CHECK(!attn_forward(&p.d), "%s", c.message);
        hip_place_fetch(&c, &p);
        const char *wrong = proof_check(&c, &a, hip_p_unit(&p.d));
        CHECK(!wrong, "device: %s", wrong);
        hip_place_free(&c, &p), proof_answer_free(&a), proof_free(&c);
    }
}
static void odd_strides_of_one(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
    static const int64_t odd[] = {-((int64_t)1 << 28), (int64_t)1 << 28, -((int64_t)1 << 40), ((int64_t)1 << 40) + 1, -7};
    registered();
    for (int n = 0; n < 15; n++) {
        proof_case c;
        hip_place p;
        shape(&c, 1, 1, 1, 1, 1, 64, 0, dtype[n % 3]);
        bind(&c);
        CHECK(!proof_call(&c, 0), "%s", c.message);
        char *want = outputs(&c, outputs(&c, NULL)), *got = outputs(&c, NULL);
        proof_reset(&c);
        hip_place_make(&c, &p, 0);
        for (int a = 0; a < 3; a++) {
            p.d.q.stride[a] = p.d.k.stride[a] = p.d.v.stride[a] = odd[n / 3];
            p.d.o.stride[a] = odd[n / 3] < 0 ? -odd[n / 3] : odd[n / 3];
        }
        CHECK(!attn_forward(&p.d), "%s", c.message);
        hip_place_fetch(&c, &p);
        CHECK(!memcmp(outputs(&c, got), want, outputs_size(&c)), "dtype %d, stride %lld: other bits", dtype[n % 3], (long long)odd[n / 3]);
        hip_place_free(&c, &p);
        free(want), free(got), proof_free(&c);
    }
}
/* A chip that there is no code for, as each version of ROCm and CUDA says it. */
static void no_code(void) {
    static const int code[] = {hipErrorNoBinaryForGpu, hipErrorInvalidDeviceFunction, hipErrorInvalidKernelFile, hipErrorInvalidImage, hipErrorSharedObjectInitFailed};
    proof_case c;
    attn_plan plan;
    loaded(&c, ATTN_F16);
    registered();
    for (size_t n = 0; n < sizeof code / sizeof *code; n++) {
        hip_fail_error = code[n];
        hip_fail_function = "hipFuncGetAttributes";
        attn_status s = attn_query(&c.d, NULL, &plan);
        CHECK(s == ATTN_ERR_GPU_ARCH && (!on_simulator() || strstr(plan.why, getenv("HIPSIM_ARCH"))), "error %d: %s, '%s'", code[n], attn_status_name(s), plan.why);
        refused(&c, &c.d, ATTN_ERR_GPU_ARCH, "no code");
        hip_fail_function = "";
    }
    CHECK(!proof_call(&c, 0), "%s", c.message);
}
/* A view whose offsets pass 2^31 elements, by its batches or by its tokens: only the rows that are read exist. */
static void far_apart_by(int of_v, int tokens, int32_t dtype) {
    enum { B = 2, Q = 20, D = 64 };
    const int64_t K = tokens ? 2 : 40, step = ((int64_t)1 << 31) + 64;
    const size_t size = dtype_size(dtype), piece = (size_t)(tokens ? 1 : K) * D * size;        /* what lies together */
    proof_case c;
    hip_place p;
    shape(&c, tokens ? 1 : B, Q, K, 1, 1, D, 0, dtype);
    bind(&c);
    CHECK(!proof_call(&c, 0), "%s", c.message);
    char *want = outputs(&c, outputs(&c, NULL)), *got = outputs(&c, NULL), *far = NULL;
    proof_reset(&c);
    hip_place_make(&c, &p, 0);
    attn_in *in = of_v ? &p.d.v : &p.d.k;
    const char *from = (const char *)(of_v ? c.d.v.data : c.d.k.data);
    hip_must(hipMalloc((void **)&far, (size_t)step * size + piece), "hipMalloc of 4 or 8 GiB");
    for (size_t n = 0; n < 2; n++) hip_must(hipMemcpy(far + n * (size_t)step * size, from + n * piece, piece, hipMemcpyHostToDevice), "hipMemcpy");
    in->data = far, in->stride[0] = step, in->stride[1] = tokens ? step : D, in->stride[2] = D;
    CHECK(!attn_forward(&p.d), "%s", c.message);
    hip_place_fetch(&c, &p);
    CHECK(!memcmp(outputs(&c, got), want, outputs_size(&c)), "dtype %d, %s of %s: other bits than close together", dtype,
          tokens ? "tokens" : "batches", of_v ? "v" : "k");
    hip_must(hipFree(far), "hipFree");
    hip_place_free(&c, &p);
    free(want), free(got), proof_free(&c);
}
static void far_apart(void) {
    registered();
    for (int i = 0; i < 8; i++) far_apart_by(i & 1, i >> 1 & 1, i & 4 ? ATTN_F32 : ATTN_F16);
}

/* --------------------------------------------------------------------------------------------------- gradients */
static proof_draw grad_draw(proof_case *c, int32_t dtype) {
    proof_draw draw = plain_draw();
    c->backward = 1;
    c->g.dq.dtype = c->g.dk.dtype = c->g.dv.dtype = dtype;
    c->g.dout.dtype = dtype == ATTN_F64 ? ATTN_F32 : dtype;      /* in f64 it is the reference's */
    return draw;
}
/* o and lse by the reference: inputs from here on */
static void solved(proof_case *c) {
    const attn_status s = proof_forward(c);
    CHECK(!s, "the reference: %s", attn_status_text(s));
    c->d.backend = "hip";
}
/* every gradient */
static void all_gradients(proof_case *c, int32_t dtype, int accumulate) {
    proof_draw draw = grad_draw(c, dtype);
    draw.alibi = draw.sink = draw.dlse = draw.dbias = draw.dsink = 1;
    c->accumulate = accumulate;
    proof_bind_all(c, &draw);
    solved(c);
}
/* and everything at once */
static void loaded_backward(proof_case *c, int32_t dtype, int accumulate) {
    loaded_begin(c, dtype);
    all_gradients(c, dtype, accumulate);
}
/* By host and by device pointers within the rule, and with the same bits. */
static void agrees_backward(proof_case *c, const char *what) {
    proof_answer a;
    hip_place p;
    memset(&a, 0, sizeof a);
    const char *wrong = proof_solve_grad(c, &a);
    CHECK(!wrong, "%s: the reference: %s", what, wrong);
    c->d.backend = "hip";
    attn_status s = proof_call(c, 1);
    CHECK(!s, "%s: %s", what, c->message);
    wrong = proof_check_grad(c, &a, hip_grad_unit(&c->d, &c->g));
    CHECK(!wrong, "%s: %s", what, wrong);
    char *host = outputs(c, outputs(c, NULL)), *device = outputs(c, NULL);
    proof_reset(c);
    hip_place_make(c, &p, HIP_BACKWARD);
    for (int run = 0; run < (c->accumulate ? 1 : 2); run++) {
        CHECK(!attn_backward(&p.d, &p.g), "%s: %s", what, c->message);
        hip_place_fetch(c, &p);
        CHECK(!memcmp(outputs(c, device), host, outputs_size(c)), "%s: other bits on the device, run %d", what, run);
    }
    hip_place_free(c, &p);
    proof_reset(c);
    proof_answer_free(&a);
    free(host), free(device);
}
/* Rows of which those of one sequence span more than 4 GiB, as many bytes less than a row; q and dout, or k and v, as close together: the same bits. */
static void far_apart_gradients_of(int keys, int32_t dtype, uint32_t flags) {
    enum { N = 130, D = 64 };
    const int64_t step = ((int64_t)1 << 24) - 64, size = dtype_size(dtype);
    proof_case c;
    hip_place p;
    char *far[2];
    shape(&c, 1, N, N, 1, 1, D, 0, dtype);
    c.d.flags = flags;
    proof_draw draw = grad_draw(&c, dtype);
    proof_bind_all(&c, &draw);
    solved(&c);
    CHECK(!proof_call(&c, 1), "%s", c.message);
    char *want = outputs(&c, outputs(&c, NULL)), *got = outputs(&c, NULL);
    proof_reset(&c);
    hip_place_make(&c, &p, HIP_BACKWARD);
    attn_in *in[2][2] = {{&p.d.q, &p.g.dout}, {&p.d.k, &p.d.v}};
    for (int i = 0; i < 2; i++) {
        attn_in *x = in[keys][i];
        hip_must(hipMalloc((void **)&far[i], (size_t)(((N - 1) * step + D) * size)), "hipMalloc of more than 4 GiB");
        for (int64_t n = 0; n < N; n++)
            hip_must(hipMemcpy(far[i] + n * step * size, (const char *)x->data + n * D * size, (size_t)(D * size), hipMemcpyDeviceToDevice), "hipMemcpy");
        x->data = far[i], x->stride[0] = N * step, x->stride[1] = step, x->stride[2] = D;
    }
    CHECK(!attn_backward(&p.d, &p.g), "%s", c.message);
    hip_place_fetch(&c, &p);
    CHECK(!memcmp(outputs(&c, got), want, outputs_size(&c)), "dtype %d, rows of %s: other bits than close together", dtype, keys ? "k and v" : "q and dout");
    for (int i = 0; i < 2; i++) hip_must(hipFree(far[i]), "hipFree");
    hip_place_free(&c, &p);
    free(want), free(got), proof_free(&c);
}
static void far_apart_gradients(void) {
    registered();
    for (int i = 0; i < 8; i++) far_apart_gradients_of(i & 1, i & 2 ? ATTN_BF16 : ATTN_F16, i & 4 ? ATTN_CAUSAL : 0);
}
static void refused_backward(const proof_case *c, const attn_desc *d, const attn_grad *g, attn_status want, const char *what) {
    attn_status s = attn_backward(d, g);
    CHECK(s == want, "%s: %s (%s), not %s", what, attn_status_name(s), d->message, attn_status_name(want));
    CHECK(outputs_untouched(c), "%s: an output was written", what);
}
static void backward_pointers(void) {
    proof_case c;
    hip_place p;
    loaded_backward(&c, ATTN_F32, 0);
    registered();
    hip_place_make(&c, &p, HIP_STREAM | HIP_BACKWARD);
    silence();
    for (int device = 0; device < 2; device++)           /* a gradient's pointer of the other kind, each in turn */
        for (int n = 0; n < 7; n++) {
            attn_grad g = device ? p.g : c.g;
            const attn_grad *from = device ? &c.g : &p.g;
            switch (n) {
            case 0: g.dout.data = from->dout.data; break;
            case 1: g.dlse = from->dlse; break;
            case 2: g.dq.data = from->dq.data; break;
            case 3: g.dk.data = from->dk.data; break;
            case 4: g.dv.data = from->dv.data; break;
            case 5: g.dbias = from->dbias; break;
            default: g.dsink = from->dsink; break;
            }
            refused_backward(&c, device ? &p.d : &c.d, &g, ATTN_ERR_GPU_POINTER, "a pointer of the other kind");
            static const char *const name[] = {"dout", "dlse", "dq", "dk", "dv", "dbias", "dsink"};
            CHECK(strstr(c.message, name[n]), "the message does not name %s: '%s'", name[n], c.message);
        }
    CHECK(!attn_backward(&p.d, &p.g), "after all of them: %s", c.message);
    /* bias, mask and dbias of packed sequences have q_len rows, even where no sequence has a query */
    static const int32_t no_query[2] = {0, 0}, keys[2] = {0, 4};
    static float few[1024];
    static const char *const what[] = {"dbias", "bias", "mask"};
    float *far;
    hip_must(hipMalloc((void **)&far, sizeof few), "hipMalloc");
    for (int device = 0; device < 2; device++)
        for (int n = 0; n < 3; n++) {
            float *x = device ? far : few, *other = device ? few : far;
            char message[200] = "";
            attn_desc d = {0};
            attn_grad g = {0};
            d.batch = d.heads = 1, d.q_len = 2, d.kv_len = 4, d.head_dim = 8, d.backend = "hip", d.message = message, d.message_size = sizeof message;
            d.flags = device ? ATTN_DEVICE | ATTN_SEQ_HOST : 0, d.seq.cu_q = no_query, d.seq.cu_k = keys, d.seq.total_k = 4;
            d.q.data = x, d.k.data = x + 64, d.v.data = x + 128, d.o.data = x + 192, d.lse = x + 256, d.bias.data = n == 1 ? other : x + 300;
            g.dout.data = x + 320, g.dq.data = x + 400, g.dk.data = x + 464, g.dv.data = x + 528, g.dbias = n == 0 ? other : x + 600;
            if (n == 2) d.mask.data = other, d.mask.dtype = ATTN_BOOL;
            const attn_status s = attn_backward(&d, &g);
            CHECK(s == ATTN_ERR_GPU_POINTER && strstr(message, what[n]), "%s of no query in memory of the other kind: %s '%s'", what[n], attn_status_name(s), message);
        }
    hip_must(hipFree(far), "hipFree");
    CHECK(spoken() == 0, "something was printed");
    hip_place_free(&c, &p);
}
/* on a matrix unit */
static int flash_backward(const proof_case *c) { return hip_grad_unit(&c->d, &c->g) != 0; }
static void backward_workspaces(void) {
    static char host[1 << 20] __attribute__((aligned(64)));
    proof_case c;
    hip_place p;
    attn_plan plan;
    const char *dims = getenv("HIP_DIMS"), *tiles = dims && !strcmp(dims, "d128") ? "bf16_d128_masks_backward" : "bf16_d64_masks_backward";
    loaded_backward(&c, ATTN_BF16, 0);
    registered();
    CHECK(!proof_query(&c, 1, &plan) && !plan.workspace_size && strstr(plan.kernel, flash_backward(&c) || strstr(plan.kernel, "fma32") ? tiles : "scalar_bf16_backward"), "host pointers: %s, %zu bytes", plan.kernel, plan.workspace_size);
    for (int how = 0; how < 2; how++) {
        hip_place_make(&c, &p, HIP_BACKWARD | HIP_WORKSPACE | HIP_STREAM | (how ? HIP_SEQ_HOST : 0));
        const size_t rows = (size_t)proof_lse_count(&c.d) * 4, seq = how ? 64 : 0;
        CHECK(p.d.workspace_size == (rows + 63) / 64 * 64 + seq, "%zu bytes for %zu of rows", p.d.workspace_size, rows);
        const int64_t made = hip_allocations;
        CHECK(!attn_backward(&p.d, &p.g), "%s", c.message);
        CHECK(hip_allocations == made, "%lld allocations", (long long)(hip_allocations - made));
        p.d.backend = NULL;
        CHECK(!attn_query(&p.d, &p.g, &plan) && !strcmp(plan.backend, "hip"), "device tensors go to %s", plan.backend);
        p.d.backend = "hip";
        p.d.workspace_size--;
        refused_backward(&c, &p.d, &p.g, ATTN_ERR_WORKSPACE_SMALL, "one byte short");
        void *on_device = p.d.workspace;
        p.d.workspace = host, p.d.workspace_size = sizeof host;
        refused_backward(&c, &p.d, &p.g, ATTN_ERR_GPU_WORKSPACE, "a workspace in host memory");
        p.d.workspace = on_device;
        hip_place_free(&c, &p);
    }
}
static void backward_agrees(void) {
    static const int32_t dtype[] = {ATTN_F32, ATTN_F16, ATTN_BF16};
    registered();
    for (int n = 0; n < 6; n++) {
        proof_case c;
        char what[32];
        loaded_backward(&c, dtype[n % 3], n / 3);
        snprintf(what, sizeof what, "dtype %d%s", dtype[n % 3], n / 3 ? ", accumulated" : "");
        agrees_backward(&c, what);
        proof_free(&c);
    }
}
/* Tokens that are not valid have no gradient: with ATTN_ACCUMULATE their bits stay, -0 and subnormal numbers too. */
static void backward_stays(void) {
    enum { Q = 21, KEYS = 150, H = 4, D = 64 };
    static const int32_t types[][2] = {{ATTN_F32, ATTN_F32}, {ATTN_F16, ATTN_F16}, {ATTN_BF16, ATTN_BF16}, {ATTN_BF16, ATTN_F64}, {ATTN_F16, ATTN_F32}};
    static const int32_t used_q[] = {5, 0}, used_k[] = {100, 90}, start_k[] = {0, 30};
    registered();
    for (int n = 0; n < 5; n++) {
        proof_case c;
        shape(&c, 2, Q, KEYS, H, H, D, 0, types[n][0]);
        proof_draw draw = grad_draw(&c, types[n][1]);
        const size_t size = dtype_size(types[n][1]);
        attn_out *out[] = {&c.g.dq, &c.g.dk, &c.g.dv};
        int32_t *used[3];
        for (int i = 0; i < 3; i++) used[i] = proof_ints(&c, 2);
        memcpy(used[0], used_q, 8), memcpy(used[1], used_k, 8), memcpy(used[2], start_k, 8);
        c.d.seq.used_q = used[0], c.d.seq.used_k = used[1], c.d.seq.start_k = used[2];
        c.g.dout.dtype = types[n][0], c.accumulate = 1;
        proof_bind_all(&c, &draw);
        for (int t = 0; t < 3; t++)
            for (int i = 0; i < 2 * (t ? KEYS : Q) * H * D; i++) {
                const uint64_t bits = i % 3 == 0 ? (uint64_t)1 << (8 * size - 1) : i % 3 == 1;       /* -0, the least number but 0, 0 */
                memcpy((char *)out[t]->data + (size_t)i * size, &bits, size);
            }
        proof_freeze(&c);
        solved(&c);
        CHECK(!proof_call(&c, 1), "%s", c.message);
        for (int t = 0; t < 3; t++)
            for (int i = 0; i < 2 * (t ? KEYS : Q) * H * D; i++) {
                const int b = i / (H * D) / (t ? KEYS : Q), token = i / (H * D) % (t ? KEYS : Q);
                const uint64_t bits = i % 3 == 0 ? (uint64_t)1 << (8 * size - 1) : i % 3 == 1;
                const int valid = t ? token >= start_k[b] && token < used_k[b] : token < used_q[b];
                CHECK(valid || !memcmp((char *)out[t]->data + (size_t)i * size, &bits, size), "case %d: d%c of token %d of %d, which is not valid, does not stay", n, "qkv"[t], token, b);
            }
        proof_free(&c);
    }
}
/* dbias in every shape that a bias can have, rows that are padding and keys on both sides of those in use included. */
static void backward_bias_shapes(void) {
    static const int32_t used_q[] = {9, 0, 11}, used_k[] = {70, 41, 0}, start_k[] = {3, 40, 0};
    registered();
    for (int n = 0; n < 16; n++) {
        proof_case c;
        char what[64];
        shape(&c, 3, 11, 70, 4, 2, 24, 40, ATTN_F32);
        proof_draw draw = grad_draw(&c, ATTN_F32);
        attn_desc *d = &c.d;
        int64_t step = 70 + 3;
        for (int a = 2; a >= 0; a--) {
            d->bias.stride[a] = n >> a & 1 ? ATTN_BROADCAST : step;
            if (!(n >> a & 1)) step *= (const int64_t[]){3, 4, 11}[a];
        }
        c.features |= PROOF_BIAS;
        d->flags = ATTN_CAUSAL | ATTN_WINDOW_LEFT, d->window_left = 50;
        const int32_t *from[] = {used_q, used_k, start_k};
        const int32_t **to[] = {&d->seq.used_q, &d->seq.used_k, &d->seq.start_k};
        for (int i = 0; i < 3; i++) {
            int32_t *p = proof_ints(&c, 3);
            memcpy(p, from[i], 12);
            *to[i] = p;
        }
        c.accumulate = n / 8;
        draw.dbias = 1, draw.hidden_percent = 10;
        proof_bind_all(&c, &draw);
        solved(&c);
        snprintf(what, sizeof what, "broadcast axes %d, accumulate %d", n % 8, n / 8);
        agrees_backward(&c, what);
        proof_free(&c);
    }
}
/* Calls that see nothing: gradients of 0, and a sink takes all of its row. */
/* A row that saw nothing, not even the sink, leaves dsink alone, whatever dout and dlse are there. */
static void backward_sink_of_nothing(void) {
    enum { Q = 3, K = 4, H = 2, D = 8 };
    registered();
    for (int n = 0; n < 4; n++) {
        proof_case c;
        float dsink[2];
        shape(&c, 1, Q, K, H, 1, D, 0, n / 2 ? ATTN_BF16 : ATTN_F32);
        proof_draw draw = grad_draw(&c, ATTN_F32);
        c.features |= PROOF_MASK, c.d.mask.dtype = ATTN_BOOL;
        draw.sink = draw.dsink = draw.dlse = 1;
        proof_bind_all(&c, &draw);
        memset((void *)(uintptr_t)c.d.mask.data, 1, H * Q * K);
        for (int h = 0; h < H; h++) memset((char *)(uintptr_t)c.d.mask.data + (h * Q + 1) * K, 0, K);
        *(float *)(uintptr_t)c.d.sink = -INFINITY;
        if (n % 2) element_put((void *)(uintptr_t)c.g.dout.data, c.g.dout.dtype, 1 * H * D + 3, (double)INFINITY);
        else *((float *)(uintptr_t)c.g.dlse + 1) = -INFINITY;
        proof_freeze(&c);
        solved(&c);
        for (int hip = 0; hip < 2; hip++) {
            c.d.backend = hip ? "hip" : "flash";
            CHECK(!proof_call(&c, 1), "%s", c.message);
            dsink[hip] = c.g.dsink[0];
            proof_reset(&c);
        }
        CHECK(dsink[0] == 0 && dsink[1] == 0, "%d: dsink is %g, on the CPU %g", n, (double)dsink[1], (double)dsink[0]);
        proof_free(&c);
    }
}
static void backward_of_nothing(void) {
    static const struct { int64_t batch, q_len, kv_len; uint32_t flags; int64_t offset; int mask; } cases[] = {
        {0, 5, 7, 0, 0, 0}, {2, 0, 7, 0, 0, 0}, {2, 5, 0, 0, 0, 0}, {2, 0, 0, 0, 0, 0}, {2, 5, 70, ATTN_CAUSAL | ATTN_OFFSET, -70, 0}, {2, 5, 70, 0, 0, 1}};
    registered();
    for (size_t n = 0; n < 2 * sizeof cases / sizeof *cases; n++) {
        proof_case c;
        char what[32];
        shape(&c, cases[n / 2].batch, cases[n / 2].q_len, cases[n / 2].kv_len, 4, 2, 24, 0, ATTN_F32);
        proof_draw draw = grad_draw(&c, ATTN_F32);
        c.d.flags = cases[n / 2].flags, c.d.offset = cases[n / 2].offset;
        c.features |= PROOF_BIAS;
        if (cases[n / 2].mask) c.features |= PROOF_MASK, c.d.mask.dtype = ATTN_BOOL;
        draw.sink = draw.dsink = draw.dlse = (int)(n % 2), draw.dbias = 1;
        c.accumulate = (int)(n % 2);
        proof_bind_all(&c, &draw);
        if (cases[n / 2].mask) memset((void *)(uintptr_t)c.d.mask.data, 0, 2 * 4 * 5 * 70), proof_freeze(&c);
        solved(&c);
        snprintf(what, sizeof what, "case %d", (int)n);
        agrees_backward(&c, what);
        proof_free(&c);
    }
}
/* A value that is not finite reaches what sees it and nothing else: the same bits as with 0 in its place. */
static void backward_bits(proof_case *c, char *to) {
    proof_reset(c);
    CHECK(!proof_call(c, 1), "%s", c->message);
    outputs(c, to);
}
static void backward_spoiled(void) {
    enum { Q = 70, K = 70, D = 24, KEY = 40, ROW = 30 };
    registered();
    for (int n = 0; n < 6; n++) {
        const int what = n % 3;                          /* k and v of a key that a mask hides from all; one row's q, or dout, in a causal call */
        proof_case c;
        shape(&c, 1, Q, K, 1, 1, D, 0, n < 3 ? ATTN_F32 : ATTN_BF16);
        proof_draw draw = grad_draw(&c, ATTN_F32);
        if (what) c.d.flags = ATTN_CAUSAL;
        else c.features |= PROOF_MASK, c.d.mask.dtype = ATTN_BOOL;
        c.features |= PROOF_BIAS, draw.dbias = 1;
        proof_bind_all(&c, &draw);
        for (int i = 0; !what && i < Q; i++) ((uint8_t *)(uintptr_t)c.d.mask.data)[i * K + KEY] = 0;
        attn_in *spoiled = what == 0 ? &c.d.k : what == 1 ? &c.d.q : &c.g.dout;
        for (int e = 0; e < D; e++) {
            element_put((void *)(uintptr_t)spoiled->data, spoiled->dtype, (what ? ROW : KEY) * D + e, 0);
            if (!what) element_put((void *)(uintptr_t)c.d.v.data, c.d.v.dtype, KEY * D + e, 0);
        }
        proof_freeze(&c);
        solved(&c);
        char *want = outputs(&c, NULL), *got = outputs(&c, NULL);
        backward_bits(&c, want);
        for (int e = 0; e < D; e++) {
            element_put((void *)(uintptr_t)spoiled->data, spoiled->dtype, (what ? ROW : KEY) * D + e, (double)float_of(e % 2 ? 0x7f800000 : 0x7fc00000));
            if (!what) element_put((void *)(uintptr_t)c.d.v.data, c.d.v.dtype, KEY * D + e, (double)float_of(0x7fc00000));
        }
        backward_bits(&c, got);
        const float *x = (const float *)(const void *)got, *y = (const float *)(const void *)want;       /* dq, dk, dv, dbias */
        for (int at = 0; at < 3 * Q * D + Q * K; at++) {
            const int of_bias = at - 3 * Q * D, token = at / D % Q;
            const int reached = what && (of_bias >= 0 ? of_bias / K == ROW && of_bias % K <= ROW : at < Q * D ? token == ROW : token <= ROW);
            CHECK(reached || float_bits(x[at]) == float_bits(y[at]), "case %d: element %d, %g instead of %g", n, at, (double)x[at], (double)y[at]);
        }
        if (what) CHECK(!is_finitef(x[ROW * D]) && !is_finitef(x[Q * D]), "case %d: what is seen does not show", n);
        free(want), free(got), proof_free(&c);
    }
}
/* f16 and bf16 on matrix units: whole and ragged tiles, dims that fill theirs and that do not, heads in groups, every type of result. */
enum { BACKWARD16_CASES = 12 };
static void backward16_begin(proof_case *c, int n, int32_t dtype, int32_t out) {
    static const struct { int64_t batch, q_len, kv_len, heads, kv_heads, dim, v_dim; uint32_t flags; int64_t left, right; } cases[] = {
        {1, 290, 290, 1, 1, 64, 0, ATTN_CAUSAL, 0, 0}, {1, 280, 280, 2, 1, 128, 0, ATTN_CAUSAL, 0, 0}, {2, 70, 150, 4, 2, 64, 0, 0, 0, 0},
        {1, 150, 70, 4, 1, 128, 64, 0, 0, 0}, {2, 40, 300, 2, 2, 72, 120, ATTN_CAUSAL | ATTN_WINDOW_LEFT, 60, 0},
        {1, 33, 31, 3, 1, 32, 24, 0, 0, 0}, {1, 200, 130, 3, 3, 24, 32, ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, 20, 30}, {1, 50, 90, 2, 1, 100, 60, 0, 0, 0},
        {1, 100, 120, 2, 1, 256, 0, ATTN_CAUSAL, 0, 0}, {1, 40, 70, 2, 2, 200, 136, 0, 0, 0}, {2, 33, 50, 2, 1, 120, 256, ATTN_WINDOW_LEFT, 20, 0},
        {1, 70, 33, 4, 1, 150, 40, ATTN_CAUSAL, 0, 0}};
    const int i = n % BACKWARD16_CASES;
    shape(c, cases[i].batch, cases[i].q_len, cases[i].kv_len, cases[i].heads, cases[i].kv_heads, cases[i].dim, cases[i].v_dim, dtype);
    c->d.flags = cases[i].flags, c->d.window_left = cases[i].left, c->d.window_right = cases[i].right;
    proof_draw draw = grad_draw(c, out);
    c->g.dout.dtype = dtype;
    draw.dlse = n & 1;
    c->accumulate = i == 2;
    proof_bind_all(c, &draw);
}
static void backward16_agrees(void) {
    static const int32_t out[] = {ATTN_F32, ATTN_BF16, ATTN_F16};
    registered();
    for (int n = 0; n < 2 * BACKWARD16_CASES; n++) {
        const int32_t dtype = n / BACKWARD16_CASES ? ATTN_F16 : ATTN_BF16;
        proof_case c;
        char what[32];
        if (!built(dtype)) continue;
        backward16_begin(&c, n, dtype, out[n % 3]);
        solved(&c);
        snprintf(what, sizeof what, "case %d", n);
        agrees_backward(&c, what);
        proof_free(&c);
    }
}
/* A value that is not finite reaches what sees it, of dout or v only the dim where it is, and changes no other bit. A NaN of either sign. */
/* v and dout with more dims than q and k: a NaN in one of those is in that dim of dv, of the keys that its row sees. */
static void backward16_spoiled_wide(void) {
    static const int32_t types[] = {ATTN_BF16, ATTN_F16, ATTN_F32};
    enum { N = 150, D = 24, V = 64, AT = 75, DIM = 40 };
    registered();
    for (int type = 0; type < 3; type++) {
        proof_case c;
        if (types[type] != ATTN_F32 && !built(types[type])) continue;
        shape(&c, 1, N, N, 1, 1, D, V, types[type]);
        proof_draw draw = grad_draw(&c, ATTN_F32);
        c.g.dout.dtype = c.d.q.dtype, c.d.flags = ATTN_CAUSAL;
        proof_bind_all(&c, &draw);
        proof_freeze(&c);
        solved(&c);
        element_put((void *)(uintptr_t)c.g.dout.data, c.g.dout.dtype, AT * V + DIM, (double)float_of(0x7fc00000));
        char *got = outputs(&c, NULL);
        backward_bits(&c, got);
        const float *dv = (const float *)(const void *)got + 2 * N * D;
        for (int at = 0; at < N * V; at++)
            CHECK(is_finitef(dv[at]) == !(at % V == DIM && at / V <= AT), "type %d: dv of %d, dim %d is %g", types[type], at / V, at % V, (double)dv[at]);
        free(got), proof_free(&c);
    }
}
/* Which pairs are seen: causal ones; or all, but of those with row or key `at` the pair of both alone, or all but that one. */
enum { SEEN_CAUSAL, SEEN_ALONE, SEEN_BUT_ONE };
static int pair_seen(int how, int i, int j, int at) {
    if (how == SEEN_CAUSAL) return j <= i;
    return (i != at && j != at) || (i == j) == (how == SEEN_ALONE);
}
static void backward16_spoiled(void) {
    static const int32_t types[] = {ATTN_BF16, ATTN_F16, ATTN_F32};
    static const uint32_t bad[3][4] = {{0x7fc0, 0xffc0, 0x7f80, 0xff80}, {0x7e00, 0xfe00, 0x7c00, 0xfc00}, {0x7fc00000, 0xffc00000, 0x7f800000, 0xff800000}};
    static uint8_t mask[150 * 150];
    registered();
    for (int n = 0; n < 128; n++) {
        const int what = n % 4, how = n < 80 ? SEEN_CAUSAL : (n - 80) / 12 % 2 ? SEEN_ALONE : SEEN_BUT_ONE;        /* q, k, v, dout */
        const int wide = n >= 48 && n < 80, type = wide ? n / 4 % 2 : (n < 80 ? n : n - 80) / 4 % 3;
        const int which = wide ? (n - 48) / 8 : n < 80 ? n / 12 : (n - 80) / 24 * 2;
        const int N = wide ? 50 : 150, D = wide ? 256 : 64, AT = N / 2, DIM = wide ? (n % 8 < 4 ? 5 : 200) : 5;
        proof_case c;
        if (types[type] == ATTN_F32 ? getenv("HIP_EMULATED") != NULL : !built(types[type])) continue;        /* f32 is on no unit that is emulated */
        shape(&c, 1, N, N, 1, 1, D, 0, types[type]);
        proof_draw draw = grad_draw(&c, ATTN_F32);
        c.g.dout.dtype = c.d.q.dtype, c.d.flags = how == SEEN_CAUSAL ? ATTN_CAUSAL : 0;
        proof_bind_all(&c, &draw);
        for (int i = 0; i < N * N; i++) mask[i] = (uint8_t)pair_seen(how, i / N, i % N, AT);
        if (how != SEEN_CAUSAL) c.d.mask.data = mask, c.d.mask.dtype = ATTN_BOOL;
        attn_in *in[] = {&c.d.q, &c.d.k, &c.d.v, &c.g.dout};
        const size_t size = dtype_size(types[type]);
        char *x = (char *)(uintptr_t)in[what]->data + (size_t)(AT * D + DIM) * size;
        memset(x, 0, size);
        proof_freeze(&c);
        solved(&c);
        char *want = outputs(&c, NULL), *got = outputs(&c, NULL);
        backward_bits(&c, want);
        memcpy(x, &bad[type][which], size);               /* of the lower bytes */
        backward_bits(&c, got);
        const float *y = (const float *)(const void *)got, *z = (const float *)(const void *)want;      /* dq, dk, dv */
        const int inf = which > 1 && what < 2;           /* of an infinite score P may well be 0 */
        for (int at = 0; at < 3 * N * D; at++) {
            const int tensor = at / D / N, token = at / D % N, e = at % D, of_row = what == 0 || what == 3;
            const int sees = (tensor == 0) == of_row ? token == AT : of_row ? pair_seen(how, AT, token, AT) : pair_seen(how, token, AT, AT);
            const int reached = sees && !(tensor == 2 && what == 2) && !(tensor == 2 && what == 3 && e != DIM);
            CHECK(reached || float_bits(y[at]) == float_bits(z[at]), "case %d: d%c of %d, dim %d: %g instead of %g", n, "qkv"[tensor], token, e, (double)y[at], (double)z[at]);
            const int own = tensor == (what == 0) && e == DIM;      /* 0 times infinity, whatever P is */
            CHECK(!reached || (inf && !own) || !is_finitef(y[at]), "case %d: d%c of %d, dim %d is %g: what is seen does not show", n, "qkv"[tensor], token, e, (double)y[at]);
        }
        free(want), free(got), proof_free(&c);
    }
}
/* dS far beside the range of f16: each column has a power of two of its own. Rows of peaked scores have a P of 1 and others that vanish. */
static void backward16_range(void) {
    static const double by[] = {0x1p-20, 0x1p-8, 0x1p8, 0x1p12};
    enum { N = 90 };
    registered();
    for (int n = 0; n < 20; n++) {
        proof_case c;
        char what[64];
        const int mixed = n / 4 % 2, D = n < 16 ? 64 : 256;                     /* rows small and large by turns */
        shape(&c, 1, N, N, 2, 1, D, 0, ATTN_F16);
        c.d.flags = n & 1 ? ATTN_CAUSAL : 0;
        proof_draw draw = grad_draw(&c, ATTN_F32);
        c.g.dout.dtype = ATTN_F16;
        draw.q_amplitude = n / 8 ? 12 : 1;
        proof_bind_all(&c, &draw);
        for (int i = 0; i < N * 2 * D; i++)
            element_put((void *)(uintptr_t)c.g.dout.data, ATTN_F16, i, element_get(c.g.dout.data, ATTN_F16, i) * by[mixed ? i / D / 7 % 4 : n % 4]);
        proof_freeze(&c);
        solved(&c);
        snprintf(what, sizeof what, "dout %g%s, peaked %d, D %d", by[n % 4], mixed ? " and others" : "", n / 8, D);
        agrees_backward(&c, what);
        proof_free(&c);
    }
}
/* dp of f16 as large as dout and v of that type make it, with P of 1/2 and a D of 0: two keys of the same scores, their v of opposite signs. */
static void backward16_largest(void) {
    enum { Q = 70, D = 64 };
    registered();
    for (int n = 0; n < 2; n++) {
        proof_case c;
        shape(&c, 1, Q, 2, 1, 1, D, 0, ATTN_F16);
        proof_draw draw = grad_draw(&c, ATTN_F32);
        c.g.dout.dtype = ATTN_F16;
        proof_bind_all(&c, &draw);
        for (int i = 0; i < 2 * D; i++) {
            const double sign = i < D ? 1 : -1, size = n ? 60000 : 3000, k = element_get(c.d.k.data, ATTN_F16, i % D);
            element_put((void *)(uintptr_t)c.d.k.data, ATTN_F16, i, k);
            element_put((void *)(uintptr_t)c.d.v.data, ATTN_F16, i, i % D % 3 ? sign * size : -sign * size);
        }
        for (int i = 0; i < Q * D; i++) element_put((void *)(uintptr_t)c.g.dout.data, ATTN_F16, i, i % D % 3 ? 60000 : -60000);
        proof_freeze(&c);
        solved(&c);
        agrees_backward(&c, n ? "v of 60000" : "v of 3000");
        proof_free(&c);
    }
}
/* dS of f16 far above what dout and v make of it, by dlse, and far below, by a sink that takes nearly all of the weight. */
static void backward16_ends(void) {
    enum { Q = 70, K = 100, H = 2 };
    static const float by[] = {1e17f, 1e25f}, sinks[] = {60, 75};
    registered();
    for (int n = 0; n < 8; n++) {
        proof_case c;
        char what[64];
        const int below = n / 4, which = n / 2 % 2;
        shape(&c, 1, Q, K, H, 1, n % 4 == 3 ? 128 : n % 4 == 2 ? 256 : 64, 0, ATTN_F16);
        c.d.flags = n & 1 ? ATTN_CAUSAL : 0;
        proof_draw draw = grad_draw(&c, ATTN_F32);
        c.g.dout.dtype = ATTN_F16;
        draw.dlse = !below, draw.sink = below;
        proof_bind_all(&c, &draw);
        for (int i = 0; !below && i < Q * H; i++) ((float *)(uintptr_t)c.g.dlse)[i] *= by[which];
        for (int h = 0; below && h < H; h++) ((float *)(uintptr_t)c.d.sink)[h] = sinks[which];
        proof_freeze(&c);
        solved(&c);
        snprintf(what, sizeof what, "%s %g, causal %d", below ? "sink" : "dlse times", (double)(below ? sinks : by)[which], n & 1);
        agrees_backward(&c, what);
        proof_free(&c);
    }
}
/* P and dS are cut towards zero, which the kernels make up for on the mean: sums of terms of one sign are not short. A column with one
 * term is exact. */
static void backward16_mean(void) {
    enum { Q = 256, K = 192, D = 64 };
    registered();
    for (int n = 0; n < 4; n++) {
        const int32_t dtype = n % 2 ? ATTN_F16 : ATTN_BF16;
        const double unit = n % 2 ? 0x1p-11 : 0x1p-8;
        proof_case c;
        proof_answer a;
        shape(&c, 1, Q, K, 1, 1, D, 0, dtype);
        if (n / 2) c.d.softcap = 50;                     /* the kernel of every mask */
        proof_draw draw = grad_draw(&c, ATTN_F32);
        c.g.dout.dtype = dtype;
        proof_bind_all(&c, &draw);
        attn_in *in[] = {&c.d.k, &c.d.v, &c.g.dout};     /* all above 0: ds has both signs, each dot of it is of k or q */
        for (int i = 0; i < 3; i++)
            for (int e = 0; e < (i == 2 ? Q : K) * D; e++)
                element_put((void *)(uintptr_t)in[i]->data, dtype, e, absolute(element_get(in[i]->data, dtype, e)));
        proof_freeze(&c);
        solved(&c);
        memset(&a, 0, sizeof a);
        const char *wrong = proof_solve_grad(&c, &a);
        CHECK(!wrong, "%s", wrong);
        CHECK(!proof_call(&c, 1), "%s", c.message);
        const attn_out *out[] = {&c.g.dq, &c.g.dk, &c.g.dv};
        for (int i = 0; flash_backward(&c) && i < 3; i++) {
            double error = 0, size = 0;
            for (int64_t e = 0; e < a.grad[i].count; e++) {
                const double want = a.grad[i].exact[e + a.grad[i].below], sign = want < 0 ? -1 : 1;
                error += sign * (element_get(out[i]->data, ATTN_F32, e) - want), size += absolute(want);
            }
            CHECK(absolute(error) < unit / 8 * size, "dtype %d, masks %d: d%c is off by %.3g of itself on the mean, %.2g of a unit", dtype, n / 2, "qkv"[i],
                  error / size, error / size / unit);
        }
        proof_answer_free(&a);
        proof_free(&c);
    }
}
/* Biases and sinks at the ends of f32, all of them finite: q is 0, so that the scores are exact. */
static void backward_far(void) {
    static const double far[] = {-1e9, -3e38, -3.4028234663852886e38, 1e9, 3.4028234663852886e38};
    static const float sink[] = {3.40282347e38f, -3.40282347e38f, 1e9f, -1e9f, 80};
    registered();
    for (int m = 0; m < 40; m++) {
        const int n = m % 20, wide = m < 20;
        proof_case c;
        char what[64];
        shape(&c, 1, 6, 70, n / 10 ? 5 : 1, 1, 24, 0, wide ? ATTN_F32 : m % 2 ? ATTN_F16 : ATTN_BF16);
        proof_draw draw = grad_draw(&c, ATTN_F32);
        c.g.dout.dtype = c.d.q.dtype;
        c.d.bias.stride[0] = c.d.bias.stride[1] = ATTN_BROADCAST, c.d.bias.stride[2] = 70;
        c.features |= PROOF_BIAS;
        draw.q_amplitude = 0, draw.sink = draw.dsink = n / 10, draw.dbias = draw.dlse = 1;
        proof_bind_all(&c, &draw);
        if (n / 10) memcpy((void *)(uintptr_t)c.d.sink, sink, sizeof sink);
        fill_bias(&c, far[n % 5], n / 5 % 2);
        solved(&c);
        snprintf(what, sizeof what, "bias %g, every row %d, sinks %d", far[n % 5], n / 5 % 2, n / 10);
        agrees_backward(&c, what);
        proof_free(&c);
    }
}
/* Any lse, whatever the scores say (q is 0, so they are 0): p is at most 1, and 0 under -infinity, which a row that saw nothing has. */
static void backward_any_lse(void) {
    static const struct { uint32_t lse; double p; } cases[] = {{0xc2c80000, 1}, {0xff800000, 0}, {0xff7fffff, 1}, {0x42c80000, 0}, {0x7f7fffff, 0}, {0x3f317218, 0.5}};
    enum { K = 70, D = 24 };
    registered();
    for (size_t m = 0; m < 3 * sizeof cases / sizeof *cases; m++) {
        const size_t n = m / 3;
        proof_case c;
        shape(&c, 1, 1, K, 1, 1, D, 0, m % 3 == 0 ? ATTN_F32 : m % 3 == 1 ? ATTN_F16 : ATTN_BF16);
        proof_draw draw = grad_draw(&c, ATTN_F32);
        c.g.dout.dtype = c.d.q.dtype;
        draw.q_amplitude = 0, draw.sink = draw.dsink = draw.dlse = 1;
        proof_bind_all(&c, &draw);
        *(float *)(uintptr_t)c.d.sink = 0;
        memset(c.d.o.data, 0, D * dtype_size(c.d.o.dtype));
        *c.d.lse = float_of(cases[n].lse);
        CHECK(!proof_call(&c, 1), "%s", c.message);
        for (int at = 0; at < K * D; at++) {
            const double dv = element_get(c.g.dv.data, ATTN_F32, at), want = cases[n].p * element_get(c.g.dout.data, c.g.dout.dtype, at % D);
            CHECK(absolute(dv - want) <= (hip_grad_unit(&c.d, &c.g) / 2 + 0x1p-20) * absolute(want) + 0x1p-120, "lse %g: dv %g, not %g", (double)*c.d.lse, dv, want);
        }
        const double dsink = (double)*c.g.dsink, want = cases[n].p * (double)*c.g.dlse;
        CHECK(absolute(dsink - want) <= 0x1p-20 * absolute(want) + 0x1p-120, "lse %g: dsink %g, not %g", (double)*c.d.lse, dsink, want);
        proof_free(&c);
    }
}
/* D of products that cancel but for their lower halves, which no f32 has: a sink whose p is 1 shows it, dsink being -D. */
static void backward_cancelling(void) {
    static const int32_t dtype[] = {ATTN_F32, ATTN_F16, ATTN_BF16};
    enum { D = 300 };
    registered();
    for (int n = 0; n < 3; n++) {
        proof_case c;
        shape(&c, 1, 1, 3, 1, 1, 24, D, dtype[n]);
        proof_draw draw = grad_draw(&c, ATTN_F32);
        c.g.dout.dtype = c.d.o.dtype = ATTN_F32;
        draw.sink = draw.dsink = 1;
        proof_bind_all(&c, &draw);
        *(float *)(uintptr_t)c.d.sink = *c.d.lse = 0;
        double want = 0;
        for (int e = 0; e < D; e++) {                    /* of a lane first one product, then the same without what is below it */
            const double x = 1 + (e % 128) * 0x1p-10 + 0x1p-12, y = 1 + 0x1p-13, product = x * y;
            element_put((void *)(uintptr_t)c.g.dout.data, ATTN_F32, e, e >= 256 ? 0 : e < 128 ? x : -(double)(float)product);
            element_put(c.d.o.data, ATTN_F32, e, e < 128 ? y : 1);
            if (e < 128) want += product - (double)(float)product;
        }
        CHECK(!proof_call(&c, 1), "%s", c.message);
        CHECK(absolute((double)*c.g.dsink + want) <= 0x1p-20 * absolute(want), "D is %.9g, not %.9g", -(double)*c.g.dsink, want);
        proof_free(&c);
    }
}
/* Offsets and windows at the ends of int64: few keys, keys in parts, and gradients. */
static void far_windows(void) {
    static const int64_t offsets[] = {INT64_MIN, INT64_MIN + 1, INT64_MIN + 260, 0, INT64_MAX - 300, INT64_MAX - 2, INT64_MAX},
                         sides[] = {-1, 0, INT64_MAX - 290, INT64_MAX - 1, INT64_MAX};     /* -1: no window on that side */
    enum { OFFSETS = sizeof offsets / sizeof *offsets, SIDES = sizeof sides / sizeof *sides, PARTS = 1, BACKWARD = 2, WAYS = 3 };
    registered();
    for (int n = 0; n < OFFSETS * SIDES * SIDES * 2 * WAYS; n++) {
        const int way = n % WAYS, causal = n / WAYS % 2;
        const int64_t offset = offsets[n / WAYS / 2 % OFFSETS], left = sides[n / WAYS / 2 / OFFSETS % SIDES], right = sides[n / WAYS / 2 / OFFSETS / SIDES];
        proof_case c;
        char what[128];
        shape(&c, 1, way == PARTS ? 3 : 8, way == PARTS ? 600 : 24, 1, 1, 8, 0, ATTN_F32);
        c.d.flags = ATTN_OFFSET | (causal ? ATTN_CAUSAL : 0) | (left < 0 ? 0 : ATTN_WINDOW_LEFT) | (right < 0 ? 0 : ATTN_WINDOW_RIGHT);
        c.d.offset = offset, c.d.window_left = left < 0 ? 0 : left, c.d.window_right = right < 0 ? 0 : right;
        snprintf(what, sizeof what, "way %d, causal %d, offset %lld, window %lld %lld", way, causal, (long long)offset, (long long)left, (long long)right);
        proof_draw draw = way == BACKWARD ? grad_draw(&c, ATTN_F32) : plain_draw();
        proof_bind_all(&c, &draw);
        if (way == BACKWARD) solved(&c);
        if (way == BACKWARD) agrees_backward(&c, what);
        else agrees(&c, what);
        proof_free(&c);
    }
}
/* A bias of f64 hides as one of f32 does: with its -infinity, a third of the keys from all rows, with NaN behind them, and all keys from one row. */
static void hidden_by_f64(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
    enum { Q = 20, K = 70 };
    registered();
    for (int n = 0; n < 12; n++) {
        const int64_t dim = n / 3 % 2 ? 260 : 64;           /* matrix units, and the scalar kernels */
        proof_case c;
        char what[64];
        shape(&c, 1, Q, K, 2, 1, dim, 0, dtype[n % 3]);
        attn_desc *d = &c.d;
        d->bias.dtype = ATTN_F64;
        d->bias.stride[0] = d->bias.stride[1] = ATTN_BROADCAST, d->bias.stride[2] = K;
        c.features |= PROOF_BIAS;
        proof_draw draw = n < 6 ? plain_draw() : grad_draw(&c, ATTN_F32);
        proof_bind_all(&c, &draw);
        for (int64_t j = 0; j < K; j++) {
            for (int64_t i = 0; i < Q; i++)
                if (j % 3 == 1 || i == 2) element_put((void *)(uintptr_t)d->bias.data, ATTN_F64, i * K + j, -INFINITY);
            for (int64_t e = 0; e < dim && j % 3 == 1; e++) element_put((void *)(uintptr_t)d->v.data, d->v.dtype, j * dim + e, NAN);
        }
        proof_freeze(&c);
        snprintf(what, sizeof what, "dtype %d, dim %d, %s", dtype[n % 3], (int)dim, n < 6 ? "forward" : "backward");
        if (n >= 6) solved(&c), agrees_backward(&c, what);
        else agrees(&c, what);
        proof_free(&c);
    }
}
/* The scores of one row of many are far above its lse (q is 0, so they are 0): its p is 1 and that of the others a half. */
static void backward_one_above(void) {
    enum { Q = 130, K = 70, D = 24 };
    static const int32_t types[] = {ATTN_F32, ATTN_F16, ATTN_BF16};
    static const int above[] = {4, 5, 129};
    registered();
    for (int n = 0; n < 9; n++) {
        proof_case c;
        shape(&c, 1, Q, K, 1, 1, D, 0, types[n / 3]);
        proof_draw draw = grad_draw(&c, ATTN_F32);
        c.g.dout.dtype = c.d.q.dtype;
        draw.q_amplitude = 0;
        proof_bind_all(&c, &draw);
        memset(c.d.o.data, 0, Q * D * dtype_size(c.d.o.dtype));
        for (int i = 0; i < Q; i++) c.d.lse[i] = i == above[n % 3] ? (n % 2 ? -100.0f : -0.001f) : float_of(0x3f317218);
        CHECK(!proof_call(&c, 1), "%s", c.message);
        for (int at = 0; at < K * D; at++) {
            const double dv = element_get(c.g.dv.data, ATTN_F32, at);
            double want = 0, size = 0;
            for (int i = 0; i < Q; i++) {
                const double term = (i == above[n % 3] ? 1 : 0.5) * element_get(c.g.dout.data, c.g.dout.dtype, i * D + at % D);
                want += term, size += absolute(term);
            }
            CHECK(absolute(dv - want) <= (hip_grad_unit(&c.d, &c.g) / 2 + 0x1p-20) * size + 0x1p-120, "row %d above its lse: dv %g, not %g", above[n % 3], dv, want);
        }
        proof_free(&c);
    }
}
/* Many terms that are all alike: 8 keys that S rows see, and a row that sees S keys; dv, dk and dq are S times a term. */
static void backward_long_sums(void) {
    enum { S = 8000, D = 4 };
    registered();
    for (int keys = 0; keys < 2; keys++) {
        proof_case c;
        attn_desc *d = &c.d;
        shape(&c, 1, keys ? 1 : S, keys ? S : 8, 1, 1, D, 0, ATTN_F32);
        proof_draw draw = grad_draw(&c, ATTN_F32);
        proof_bind_all(&c, &draw);
        attn_in *in[] = {&d->q, &d->k, &d->v, &c.g.dout};
        for (int n = 0; n < 4; n++) {
            const int64_t rows = n == 0 || n == 3 ? d->q_len : d->kv_len;
            for (int64_t e = 0; e < rows * D; e++) element_put((void *)(uintptr_t)in[n]->data, ATTN_F32, e, 0.7);
        }
        const double score = D * (double)0.7f * (double)0.7f / 2, p = 0.125, o = 0.3;
        for (int64_t i = 0; i < d->q_len; i++) d->lse[i] = (float)(score - log(p));
        for (int64_t e = 0; e < d->q_len * D; e++) element_put(d->o.data, ATTN_F32, e, o);
        CHECK(!proof_call(&c, 1), "%s", c.message);
        const double ds = p * (D * (double)0.7f * (double)0.7f - D * (double)0.7f * o), one[3] = {ds / 2 * (double)0.7f, ds / 2 * (double)0.7f, p * (double)0.7f};
        const attn_out *out[] = {&c.g.dq, &c.g.dk, &c.g.dv};
        for (int n = 0; n < 3; n++) {
            const int by_row = n == 0;                    /* one row or key of each is the sum over all that it meets */
            const double want = one[n] * (double)(by_row ? d->kv_len : d->q_len), got = element_get(out[n]->data, ATTN_F32, 1);
            CHECK(absolute(got - want) < 100 * 0x1p-24 * absolute(want), "%s of %d equal terms is off by %.3g of itself", (const char *[]){"dq", "dk", "dv"}[n],
                  (int)(by_row ? d->kv_len : d->q_len), absolute(got - want) / want);
        }
        proof_free(&c);
    }
}
/* A sequence's dq, dk and dv have the same bits alone and padded on either side in a batch. */
/* Of dims beyond every tile: rows that are not in use have a dq of 0, dout has a type of its own, a bias and sinks are those of more than two sequences;
 * and no P is above 1, however far below the score of its only key a row's lse lies. */
static void backward_beyond_tiles(void) {
    static const int32_t types[][2] = {{ATTN_F32, ATTN_F16}, {ATTN_F16, ATTN_F32}, {ATTN_BF16, ATTN_F32}}, used_q[] = {5, 3, 4};
    registered();
    for (int n = 0; n < 3; n++) {
        proof_case c;
        shape(&c, 3, 5, 7, 2, 1, 300, 0, types[n][0]);
        int32_t *used = proof_ints(&c, 3);
        memcpy(used, used_q, sizeof used_q), c.d.seq.used_q = used;
        c.features |= PROOF_BIAS;
        c.d.bias.stride[0] = ATTN_BROADCAST, c.d.bias.stride[1] = 5 * 7, c.d.bias.stride[2] = 7;
        proof_draw draw = grad_draw(&c, ATTN_F32);
        c.g.dout.dtype = types[n][1], c.d.o.dtype = ATTN_F32;
        draw.sink = draw.dsink = draw.dbias = 1;
        proof_bind_all(&c, &draw);
        solved(&c);
        agrees_backward(&c, "beyond tiles");
        proof_free(&c);
    }
    for (int n = 0; n < 2; n++) {
        proof_case c;
        char *was = NULL;
        shape(&c, 1, 5, 1, 2, 1, n ? 64 : 300, 0, ATTN_F32);
        proof_draw draw = grad_draw(&c, ATTN_F32);
        proof_bind_all(&c, &draw);
        solved(&c);
        for (int lower = 0; lower < 2; lower++) {        /* 1 is the most in both */
            for (int i = 0; i < 10; i++) c.d.lse[i] -= 0.5f;
            proof_freeze(&c);
            CHECK(!proof_call(&c, 1), "%s", c.message);
            char *now = outputs(&c, outputs(&c, NULL));
            CHECK(!was || !memcmp(was, now, outputs_size(&c)), "%d dims: a P above 1", n ? 64 : 300);
            free(was), was = now;
            proof_reset(&c);
        }
        free(was), proof_free(&c);
    }
}
/* Rows of the scalar kernel: each key has a dropped word of its own, and what is left of long sums follows a maximum that grows far at their end. */
static void scalar_rows(void) {
    registered();
    for (int n = 0; n < 2; n++) {
        enum { K = 4000, D = 264 };
        proof_case c;
        shape(&c, 1, n ? 1 : 5, n ? K : 70, n ? 1 : 2, 1, D, 8, ATTN_F32);
        c.d.dropout = n ? 1e-6f : 0.3f, c.d.seed = 7;    /* and no key goes into parts */
        bind(&c);
        if (n) {                                         /* 20 above the others, which are alike but for their last bits */
            for (int e = 0; e < D; e++) element_put((void *)(uintptr_t)c.d.q.data, ATTN_F32, e, e ? 0.01 * (e % 7 - 3) : 4);
            for (int64_t j = 0; j < K; j++) element_put((void *)(uintptr_t)c.d.k.data, ATTN_F32, j * D, j == K - 5 ? 80 : 0);
            proof_freeze(&c);
        }
        agrees(&c, n ? "long sums" : "dropout");
        proof_free(&c);
    }
}
/* What is infinite times a bias or a distance hides, and the largest f64 does not. */
static void infinite_multipliers(void) {
    registered();
    for (int n = 0; n < 6; n++) {
        proof_case c;
        shape(&c, 1, 5, 9, 2, 1, n % 2 ? 300 : 64, 0, ATTN_F32);
        attn_desc *d = &c.d;
        proof_draw draw = plain_draw();
        draw.alibi = n / 2 == 0;
        if (n / 2 == 0) d->flags |= ATTN_OFFSET, d->offset = 100;      /* no distance is 0 */
        else c.features |= PROOF_BIAS, d->bias.dtype = n / 2 == 1 ? ATTN_F32 : ATTN_F64;
        proof_bind_all(&c, &draw);
        for (int i = 0; i < 2 * 5 * 9 && n / 2; i++) element_put((void *)(uintptr_t)d->bias.data, d->bias.dtype, i, n / 2 == 1 ? -1 : -1.6e308);
        float *const infinite = proof_floats(&c, 2, 1);
        infinite[0] = 0.5f, infinite[1] = INFINITY;
        if (n / 2 == 0) d->alibi = infinite;
        d->bias_scale = n / 2 == 1 ? infinite : NULL;
        proof_freeze(&c);
        agrees(&c, n / 2 == 0 ? "infinite slopes" : n / 2 == 1 ? "infinite multipliers" : "the largest f64");
        proof_free(&c);
    }
}
/* Tiles that all columns see whole between those that some see in part. */
static void backward16_whole(void) {
    registered();
    proof_case c;
    shape(&c, 1, 200, 200, 1, 1, 32, 0, built(ATTN_F16) ? ATTN_F16 : ATTN_BF16);
    c.d.flags = ATTN_CAUSAL | ATTN_WINDOW_LEFT, c.d.window_left = 130;
    proof_draw draw = grad_draw(&c, c.d.q.dtype);
    proof_bind_all(&c, &draw);
    solved(&c);
    agrees_backward(&c, "whole tiles");
    proof_free(&c);
}
/* A dlse far larger than what dout and v make: f16's gradients reach no infinity. */
static void backward16_far_dlse(void) {
    registered();
    for (int n = 0; n < 8; n++) {                        /* and the same of a scale of almost nothing */
        proof_case c;
        shape(&c, 1, 20, 30, 1, 1, n / 2 % 2 ? 128 : 64, 0, n % 2 ? ATTN_BF16 : ATTN_F16);
        if (n > 3) c.d.scale = 1e-38f, c.d.flags |= ATTN_SCALE;
        proof_draw draw = grad_draw(&c, ATTN_F32);
        c.g.dout.dtype = c.d.q.dtype;
        draw.dlse = 1;
        proof_bind_all(&c, &draw);
        for (int i = 0; i < 20; i += 3) ((float *)(uintptr_t)c.g.dlse)[i] = (float)(i + 1) * 1e27f;
        solved(&c);
        proof_freeze(&c);
        agrees_backward(&c, "far dlse");
        proof_free(&c);
    }
}
/* Sinks, slopes and multipliers of heads that go to the device in pieces; so many heads that they have more room than kv heads; and room for dsink. */
static void numbers_of_heads(void) {
    registered();
    for (int n = 0; n < 2; n++) {
        proof_case c;
        shape(&c, 1, n ? 3 : 40, n ? 5 : 60, n ? 140 : 16, n ? 1 : 8, n ? 8 : 64, 0, ATTN_F32);
        c.features |= PROOF_BIAS;
        c.d.bias.stride[0] = 0, c.d.bias.stride[1] = ATTN_BROADCAST, c.d.bias.stride[2] = c.d.kv_len;
        proof_draw draw = plain_draw();
        draw.alibi = draw.sink = 1;
        proof_bind_all(&c, &draw);
        CHECK(c.d.bias_scale, "no multipliers");
        agrees(&c, n ? "many heads" : "pieces of heads");
        proof_free(&c);
    }
    proof_case c;
    shape(&c, 1, 3, 5, 140, 1, 8, 0, ATTN_F32);
    proof_draw draw = grad_draw(&c, ATTN_F32);
    draw.sink = draw.dsink = 1;
    proof_bind_all(&c, &draw);
    solved(&c);
    agrees_backward(&c, "gradients of many sinks");
    proof_free(&c);
}
/* Pieces whose events are not waited for (hip_unordered), where work runs late: none is overwritten before it has gone. */
static void unordered_pieces(void) {
    proof_case c;
    registered();
    shape(&c, 20, 16, 40, 2, 2, 32, 0, ATTN_F32);
    bind(&c);
    hip_unordered = 1;
    agrees(&c, "pieces");
    hip_unordered = 0;
    proof_free(&c);
}
/* In pieces, whose copies run beside the kernels of others; sums over a batch and over heads keep theirs together. */
static void backward_pieces(void) {
    registered();
    for (int n = 0; n < 8; n++) {
        proof_case c;
        /* sequences, groups of heads of one with dropout, packed ones, with dropout, sums over the batch, added to what there was, packed q alone, packed keys alone */
        const int sums = n == 4 || n == 5;
        shape(&c, n == 1 ? 1 : sums ? 3 : n > 5 ? 5 : 20, n ? 20 : 64, n ? 33 : 64, n == 1 ? 4 : 2, 2, n ? 24 : 64, 0, ATTN_F32);
        if (n == 2 || n > 5) {
            int32_t *cu_q = proof_ints(&c, c.d.batch + 1), *cu_k = proof_ints(&c, c.d.batch + 1);
            cu_q[0] = cu_k[0] = 0;
            for (int b = 0; b < c.d.batch; b++) cu_q[b + 1] = cu_q[b] + b % 5 * 5, cu_k[b + 1] = cu_k[b] + (b + 3) % 7 * 5;
            c.d.seq.cu_q = cu_q, c.d.seq.cu_k = cu_k, c.d.seq.total_q = cu_q[c.d.batch], c.d.seq.total_k = cu_k[c.d.batch];
            if (n == 6) c.d.seq.cu_k = NULL, c.d.seq.total_k = 0;
            if (n == 7) c.d.seq.cu_q = NULL, c.d.seq.total_q = 0;
        }
        if (n % 2 && n < 4) c.d.dropout = 0.3f, c.d.seed = 5;      /* whose words follow from the head */
        proof_draw draw = grad_draw(&c, ATTN_F32);
        draw.sink = draw.dsink = sums, draw.dlse = draw.alibi = n % 2, c.accumulate = n == 5;
        proof_bind_all(&c, &draw);
        solved(&c);
        if (n == 0) {
            hip_ahead = 0;
            CHECK(!proof_call(&c, 1), "%s", c.message);
            CHECK(hip_ahead >= 4, "%lld copies at once: the second piece waits for the first", (long long)hip_ahead);
            proof_reset(&c);
        }
        agrees_backward(&c, "pieces");
        proof_free(&c);
    }
    static const float sink[2];
    float dsink[2] = {7, 7};                                /* of no sequence: no piece at all */
    attn_desc d = {0};
    attn_grad g = {0};
    d.q_len = d.kv_len = 4, d.heads = 2, d.head_dim = 8, d.sink = sink, d.backend = "hip", g.dsink = dsink;
    CHECK(!attn_backward(&d, &g) && dsink[0] == 0 && dsink[1] == 0, "a dsink of nothing is %g", (double)dsink[0]);
}
static void backward_invariant(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_F32, ATTN_BF16}, lens_q[] = {40, 1, 33, 200, 1, 170}, lens_k[] = {70, 64, 33, 220, 64, 170};
    enum { B = 3, H = 2 };
    registered();
    for (int n = 0; n < 20; n++) {                        /* with a dout of f32, then of the same type; then several tiles of keys; then wide heads */
        const int longer = n >= 12 && n < 18, D = n < 18 ? 24 : 152, Q = longer ? 210 : 50, K = longer ? 400 : 90;
        const int32_t *len_q = lens_q + 3 * longer, *len_k = lens_k + 3 * longer;
        proof_case c;
        const int type = n < 18 ? n % 3 : n % 2 * 2;
        shape(&c, B, Q, K, H, 1, D, 0, dtype[type]);
        int32_t *used_q = proof_ints(&c, B), *used_k = proof_ints(&c, B), *start_k = proof_ints(&c, B);
        for (int b = 0; b < B; b++) used_q[b] = len_q[b], start_k[b] = longer ? 96 * b : n % 6 < 3 ? 0 : 5 * b, used_k[b] = start_k[b] + len_k[b];
        c.d.flags = n % 2 ? ATTN_CAUSAL : 0, c.d.seq.used_q = used_q, c.d.seq.used_k = used_k, c.d.seq.start_k = start_k;
        proof_draw draw = grad_draw(&c, ATTN_F32);
        if (n % 12 >= 6 || n >= 15) c.g.dout.dtype = dtype[type];
        proof_bind_all(&c, &draw);
        solved(&c);
        CHECK(!proof_call(&c, 1), "%s", c.message);
        for (int b = 0; b < B; b++) {
            attn_desc d = c.d;
            attn_grad g = c.g;
            const size_t size = dtype_size(d.q.dtype), q_at = (size_t)(b * Q * H * D), k_at = (size_t)((b * K + start_k[b]) * D);
            float *got[3], *lse = (float *)proof_zeros((size_t)Q * H, 4);
            const float *want[3] = {(const float *)c.g.dq.data + q_at, (const float *)c.g.dk.data + k_at, (const float *)c.g.dv.data + k_at};
            for (int i = 0; i < 3; i++) got[i] = (float *)proof_zeros((size_t)(K * H * D), 4);
            memset(&d.seq, 0, sizeof d.seq);
            d.batch = 1, d.q_len = len_q[b], d.kv_len = len_k[b];
            d.q.data = (const char *)d.q.data + q_at * size, d.o.data = (char *)d.o.data + q_at * size;
            d.k.data = (const char *)d.k.data + k_at * size, d.v.data = (const char *)d.v.data + k_at * size;
            g.dout.data = (const char *)g.dout.data + q_at * dtype_size(g.dout.dtype);
            for (int h = 0; h < H; h++) memcpy(lse + h * len_q[b], c.d.lse + (b * H + h) * Q, (size_t)len_q[b] * 4);
            d.lse = lse, g.dq.data = got[0], g.dk.data = got[1], g.dv.data = got[2];
            CHECK(!attn_backward(&d, &g), "%s", c.message);
            for (int i = 0; i < 3; i++) {
                CHECK(!memcmp(got[i], want[i], (size_t)((i ? len_k[b] : len_q[b] * H) * D * 4)), "dtype %d, sequence %d: d%c has other bits alone", d.q.dtype, b, "qkv"[i]);
                free(got[i]);
            }
            free(lse);
        }
        proof_free(&c);
    }
}
/* Device memory may hold any lengths here too: no access leaves the extents. */
static void backward_garbage(void) {
    enum { B = 3, Q = 20, K = 25 };
    uint64_t r = 5;
    registered();
    for (int n = 0; n < 60; n++) {
        proof_case c;
        hip_place p;
        shape(&c, B, Q, K, 2, 1, 24, 0, n % 2 ? ATTN_BF16 : ATTN_F32);
        const int packed = n % 3 == 0, arrays = packed ? 2 : 3, length = packed ? B + 1 : B;
        const int32_t **to[] = {packed ? &c.d.seq.cu_q : &c.d.seq.used_q, packed ? &c.d.seq.cu_k : &c.d.seq.used_k, &c.d.seq.start_k};
        for (int i = 0; i < arrays; i++) {
            int32_t *x = proof_ints(&c, length);
            for (int b = 0; b < length; b++) x[b] = packed ? b * (i ? K : Q) : i == 2 ? 0 : i ? K : Q;
            *to[i] = x;
        }
        if (packed) c.d.seq.total_q = B * Q, c.d.seq.total_k = B * K;
        proof_draw draw = grad_draw(&c, ATTN_F32);
        if (n % 4 > 1) c.g.dout.dtype = c.d.q.dtype;
        if (n % 5) c.features |= PROOF_BIAS;
        draw.dbias = n % 5 != 0, draw.sink = draw.dsink = 1;
        proof_bind_all(&c, &draw);
        solved(&c);
        hip_place_make(&c, &p, HIP_BACKWARD);
        const int32_t *at[] = {packed ? p.d.seq.cu_q : p.d.seq.used_q, packed ? p.d.seq.cu_k : p.d.seq.used_k, p.d.seq.start_k};
        for (int i = 0; i < arrays; i++) {
            int32_t bad[B + 1];
            for (int b = 0; b < length; b++) bad[b] = wild[random_bits(&r) % 8];
            hip_must(hipMemcpy((void *)(uintptr_t)at[i], bad, (size_t)length * 4, hipMemcpyHostToDevice), "hipMemcpy");
        }
        CHECK(!attn_backward(&p.d, &p.g), "%s", c.message);
        hip_must(hipDeviceSynchronize(), "hipDeviceSynchronize");
        hip_place_free(&c, &p);
        proof_free(&c);
    }
}
/* More dims than a wave takes at once, and views that are far from dense. */
static void backward_wide(void) {
    registered();
    for (int n = 0; n < 4; n++) {
        proof_case c;
        shape(&c, 1, 5, 20, 2, 1, n % 2 ? 520 : 24, n % 2 ? 24 : 1030, n / 2 ? ATTN_F16 : ATTN_F32);
        proof_draw draw = grad_draw(&c, n / 2 ? ATTN_F64 : ATTN_F32);
        c.accumulate = n / 2;
        proof_bind_all(&c, &draw);
        solved(&c);
        agrees_backward(&c, n % 2 ? "head_dim 520" : "v_dim 1030");
        proof_free(&c);
    }
}
static void failing_backward(int device) {
    proof_case c;
    hip_place p;
    shape(&c, 2, 3, 5, 2, 1, 8, 0, ATTN_F16);
    int32_t *used_k = proof_ints(&c, 2);
    used_k[0] = 5, used_k[1] = 3;
    c.d.seq.used_k = used_k, c.features = PROOF_BIAS;
    all_gradients(&c, ATTN_F16, 1);
    registered();
    hip_place_make(&c, &p, HIP_STREAM | HIP_BACKWARD | HIP_SEQ_HOST);
    const attn_desc d = proof_desc(&c, 1);
    failing_twice(&c, device ? &p.d : &d, device ? &p.g : &c.g);
    hip_place_free(&c, &p);
    agrees_backward(&c, "after the failures");
}
static void failing_backward_host(void) { failing_backward(0); }
static void failing_backward_device(void) { failing_backward(1); }

/* ------------------------------------------------------------------------------------------------------ caches */
static const int32_t *ints(proof_case *c, const int32_t *from, int64_t n) {
    int32_t *p = proof_ints(c, n);
    memcpy(p, from, (size_t)n * 4);
    return p;
}
/* Rows that are hard to round and to quantise: zeros of both signs, a NaN, an infinity, an amax whose scale would be subnormal, ties of codes,
 * numbers as large as there are, ties of e4m3 and its subnormals, doubles that lie beside a tie. */
static void hard_row(void *data, int32_t dtype, int64_t at, int64_t dim, int kind) {
    static const double large[] = {6e4, 3e38, 3e38, 1e300};
    for (int64_t e = 0; e < dim; e++) {
        const double n = (double)(e % 7) - 3, sign = e % 2 ? -1 : 1;
        double x = 0;
        switch (kind) {
        case 1: x = sign * 0.0; break;
        case 2: x = e == 3 ? (double)float_of(0xffc12345) : n; break;
        case 3: x = e == dim - 1 ? (double)float_of(0xff800000) : n; break;
        case 4: x = n * 0x1p-128; break;
        case 5: x = e == 1 ? 127 : n + 0.5; break;
        case 6: x = sign * large[dtype] * (double)(e + 1) / (double)dim; break;
        case 7: x = e == 1 ? 448 : sign * 0x1p-10 * (double)(2 * e + 1) * (e % 3 ? 1 : 512); break;
        default: x = (1 + 0x1p-11 * (double)(e + 1) + sign * 0x1p-40) * (e % 3 ? 1 : 0x1p-20); break;
        }
        element_put(data, dtype, at + e, x);
    }
}
/* Three sequences that append: two of them three and four tokens behind padding, one nothing. rotary: 0, 1 half-split, 2 interleaved. */
static void appending(proof_case *c, int where, const int32_t type[3], int rotary) {
    static const int32_t used[] = {5, 3, 16}, start[] = {2, 0, 3}, cu[] = {0, 4, 4, 7}, slot[] = {3, 0, 4};
    shape(c, 3, 4, 21, 4, 2, 20, 12, ATTN_F32);
    attn_desc *d = &c->d;
    proof_draw draw = plain_draw();
    d->k.dtype = type[0], d->v.dtype = type[1], d->append.k.dtype = d->append.v.dtype = type[2];
    if (type[0] == type[1] && type[0] < ATTN_F64) d->q.dtype = type[0];
    d->seq.used_k = ints(c, used, 3), d->seq.start_k = ints(c, start, 3);
    d->append.len = 4, d->append.cu = ints(c, cu, 4), d->append.total = 7;
    if (where == IN_SLOTS) d->seq.slot = ints(c, slot, 3), d->seq.slots = 5;
    if (where == IN_PAGES) {                             /* pages of 3 tokens, and some that are nobody's */
        int32_t *table = proof_ints(c, 21);
        for (int n = 0; n < 21; n++) table[n] = (n * 5 + 2) % 23;
        d->seq.block_table = table, d->seq.page_size = 3, d->seq.max_pages = 7, d->seq.pages = 23;
    }
    if (rotary) draw.rotary = 1, d->append.rotary_dim = 12;
    if (rotary == 2) d->flags = ATTN_ROTARY_INTERLEAVED;
    proof_bind_all(c, &draw);
}
/* Each cache, as bytes, one after another. */
static char *caches(const proof_case *c) {
    size_t n = 0;
    char *all;
    for (int i = 0; i < c->buffers; i++) n += c->buffer[i].kind == PROOF_CACHE ? c->buffer[i].bytes : 0;
    all = (char *)proof_zeros((int64_t)n, 1), n = 0;
    for (int i = 0; i < c->buffers; i++)
        if (c->buffer[i].kind == PROOF_CACHE) memcpy(all + n, c->buffer[i].mem, c->buffer[i].bytes), n += c->buffer[i].bytes;
    return all;
}
static size_t caches_size(const proof_case *c) {
    size_t n = 0;
    for (int i = 0; i < c->buffers; i++) n += c->buffer[i].kind == PROOF_CACHE ? c->buffer[i].bytes : 0;
    return n;
}
static void same_caches(const proof_case *c, const char *want, const char *what) {
    char *got = caches(c);
    for (size_t i = 0; i < caches_size(c); i++)
        CHECK(got[i] == want[i], "%s: k %d, v %d, new %d: byte %zu of the caches is %02x, on the CPU %02x", what, c->d.k.dtype, c->d.v.dtype,
              c->d.append.k.dtype, i, (uint8_t)got[i], (uint8_t)want[i]);
    free(got);
}
/* The bytes that an append leaves in k, v and their scales, and the bytes beside them, are those of the CPU. */
static void cache_bytes(void) {
    static const int32_t cache[][2] = {{ATTN_F32, ATTN_F32}, {ATTN_F16, ATTN_F16}, {ATTN_BF16, ATTN_BF16}, {ATTN_INT8, ATTN_INT8},
                                       {ATTN_FP8_E4M3, ATTN_FP8_E4M3}, {ATTN_FP8_E4M3, ATTN_BF16}, {ATTN_F16, ATTN_INT8}};
    registered();
    for (int n = 0; n < 7 * 4 * 3; n++) {
        const int32_t type[3] = {cache[n % 7][0], cache[n % 7][1], n / 7 % 4};
        proof_case c;
        hip_place p;
        appending(&c, n % 3, type, n / 28);
        attn_in *news[2] = {&c.d.append.k, &c.d.append.v};
        for (int i = 0; i < 14; i++)                     /* 7 tokens, 2 heads */
            for (int v = 0; v < 2; v++)
                if ((i + n) % 5) hard_row((void *)(uintptr_t)news[v]->data, type[2], i * (v ? 12 : 20), v ? 12 : 20, (i + 3 * v + n) % 8 + 1);
        proof_freeze(&c);
        c.d.backend = "flash";
        CHECK(!proof_call(&c, 0), "%s", c.message);
        char *want = caches(&c);
        proof_reset(&c);
        c.d.backend = "hip";
        CHECK(!proof_call(&c, 0), "%s", c.message);
        same_caches(&c, want, "host");
        CHECK(proof_untouched(&c, PROOF_IN), "an input was written");
        proof_reset(&c);
        hip_place_make(&c, &p, n % 2 ? HIP_SEQ_HOST : HIP_WORKSPACE);
        for (int again = 0; again < 2; again++) {        /* a repeated call is safe */
            CHECK(!attn_forward(&p.d), "%s", c.message);
            hip_place_fetch(&c, &p);
            same_caches(&c, want, "device");
        }
        hip_place_free(&c, &p);
        free(want), proof_free(&c);
    }
}
/* What one sequence appends, another of the same slot or page sees in the same call. */
static void shared_slots(void) {
    static const int32_t used[] = {5, 7, 8}, cu[] = {0, 3, 3, 4}, slot[] = {1, 1, 0}, type[3] = {ATTN_F16, ATTN_F16, ATTN_F32};
    registered();
    for (int pages = 0; pages < 2; pages++) {
        proof_case c;
        hip_place p;
        proof_answer a;
        appending(&c, pages ? IN_PAGES : IN_SLOTS, type, 0);
        memcpy((void *)(uintptr_t)c.d.seq.used_k, used, sizeof used), memcpy((void *)(uintptr_t)c.d.append.cu, cu, sizeof cu);
        c.d.append.total = 4;
        if (pages) memcpy((void *)(uintptr_t)(c.d.seq.block_table + 7), c.d.seq.block_table, 28);
        else memcpy((void *)(uintptr_t)c.d.seq.slot, slot, sizeof slot);
        attn_in *caches_of[2] = {&c.d.k, &c.d.v};
        for (int v = 0; v < 2; v++)
            for (int i = 0; i < 4200; i++) {             /* what lay unused has keys now */
                const int64_t all = (pages ? 23 * 3 : 5 * 21) * 2 * (v ? 12 : 20);
                if (i < all) element_put((void *)(uintptr_t)caches_of[v]->data, ATTN_F16, i, (double)(i % 13) * 0.125 - 0.75);
            }
        proof_freeze(&c);
        agrees(&c, pages ? "shared pages" : "shared slots");
        CHECK(!proof_solve(&c, &a), "%s", c.message);
        c.d.backend = "hip";
        hip_place_make(&c, &p, HIP_STREAM);
        CHECK(!attn_forward(&p.d), "%s", c.message);
        hip_place_fetch(&c, &p);
        const char *wrong = proof_check(&c, &a, hip_p_unit(&p.d));
        CHECK(!wrong, "device: %s", wrong);
        hip_place_free(&c, &p), proof_answer_free(&a), proof_free(&c);
    }
}
/* A page table in device memory may hold anything: the answer is that of the clamped one. Where something is appended, no access leaves the
 * extents, which the simulator watches, and only caches are written. */
static void garbage_pages(void) {
    static const int32_t type[3] = {ATTN_INT8, ATTN_INT8, ATTN_F32};
    enum { B = 3, PAGES = 23, TABLE = 21 };
    uint64_t r = 6;
    registered();
    for (int n = 0; n < 24; n++) {
        proof_case c;
        hip_place p;
        int32_t bad[TABLE];
        appending(&c, IN_PAGES, type, n % 3);
        if (n % 2) memset(&c.d.append, 0, sizeof c.d.append), c.d.flags = 0;
        int32_t *table = (int32_t *)(uintptr_t)c.d.seq.block_table;
        for (int i = 0; i < TABLE; i++) {
            bad[i] = random_bits(&r) % 2 ? wild[random_bits(&r) % 8] : table[i];
            if (n % 2) table[i] = bad[i] < 0 ? 0 : bad[i] > PAGES - 1 ? PAGES - 1 : bad[i];
        }
        for (int64_t i = 0; i < PAGES * 3 * 2; i++) ((float *)(uintptr_t)c.d.k.scale)[i] = ((float *)(uintptr_t)c.d.v.scale)[i] = 0.01f;
        proof_freeze(&c);
        char *want = NULL, *got = outputs(&c, NULL);
        if (n % 2) {
            CHECK(!proof_call(&c, 0), "%s", c.message);
            want = outputs(&c, outputs(&c, NULL));
            proof_reset(&c);
        }
        hip_place_make(&c, &p, 0);
        hip_must(hipMemcpy((void *)(uintptr_t)p.d.seq.block_table, bad, sizeof bad, hipMemcpyHostToDevice), "hipMemcpy");
        if (n % 2 == 0) {
            int32_t lengths[3][B + 1];
            const int32_t *at[3] = {p.d.seq.used_k, p.d.seq.start_k, p.d.append.cu};
            for (int i = 0; i < 3; i++)
                for (int b = 0; b < B + (i == 2); b++) lengths[i][b] = wild[random_bits(&r) % 8];
            for (int i = 0; i < 3; i++) hip_must(hipMemcpy((void *)(uintptr_t)at[i], lengths[i], (size_t)(B + (i == 2)) * 4, hipMemcpyHostToDevice), "hipMemcpy");
        }
        CHECK(!attn_forward(&p.d), "%s", c.message);
        hip_must(hipDeviceSynchronize(), "hipDeviceSynchronize");
        if (n % 2) {
            hip_place_fetch(&c, &p);
            CHECK(!memcmp(outputs(&c, got), want, outputs_size(&c)), "run %d: other bits than with the clamped table", n);
        }
        hip_place_free(&c, &p);
        free(want), free(got), proof_free(&c);
    }
}
/* A code or a scale that is NaN reaches the rows that see it, and no other. */
static void spoiled_codes(void) {
    registered();
    for (int n = 0; n < 4; n++) {
        const int32_t dtype = n % 2 ? ATTN_FP8_E4M3 : ATTN_INT8;
        proof_case c;
        shape(&c, 1, 9, 9, 2, 1, 20, 12, ATTN_F32);
        c.d.k.dtype = c.d.v.dtype = dtype, c.d.flags = ATTN_CAUSAL;
        bind(&c);
        if (dtype == ATTN_FP8_E4M3) ((uint8_t *)(uintptr_t)(n < 2 ? c.d.k.data : c.d.v.data))[6 * (n < 2 ? 20 : 12) + 3] = n < 2 ? 0xff : 0x7f;
        ((float *)(uintptr_t)(n < 2 ? c.d.v.scale : c.d.k.scale))[7] = float_of(0x7fc00000);
        proof_freeze(&c);
        agrees(&c, n % 2 ? "fp8" : "int8");
        proof_free(&c);
    }
}
/* Host memory in place of each device pointer of a cache and an append. */
static void cache_pointers(void) {
    static const int32_t type[3] = {ATTN_INT8, ATTN_FP8_E4M3, ATTN_F16};
    proof_case c;
    hip_place p;
    appending(&c, IN_PAGES, type, 1);
    registered();
    hip_place_make(&c, &p, 0);
    static float host[4096];
    attn_desc *d = &p.d;
    const void **at[] = {(const void **)&d->append.k.data, (const void **)&d->append.v.data, (const void **)&d->append.rotary_cos,
                         (const void **)&d->append.rotary_sin, (const void **)&d->append.cu, (const void **)&d->seq.block_table};
    static const char *const name[] = {"append.k", "append.v", "append.rotary_cos", "append.rotary_sin", "append.cu", "seq.block_table"};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        const void *old = *at[i];
        *at[i] = host;
        refused(&c, d, ATTN_ERR_GPU_POINTER, name[i]);
        CHECK(strstr(c.message, name[i]), "the message does not name %s: '%s'", name[i], c.message);
        *at[i] = old;
    }
    d->k.scale = d->append.k_scale = host;
    refused(&c, d, ATTN_ERR_GPU_POINTER, "k.scale");
    CHECK(strstr(c.message, "k.scale"), "the message does not name k.scale: '%s'", c.message);
    hip_place_free(&c, &p);
    hip_place_make(&c, &p, 0);
    d->v.scale = d->append.v_scale = host;
    refused(&c, d, ATTN_ERR_GPU_POINTER, "v.scale");
    CHECK(strstr(c.message, "v.scale"), "the message does not name v.scale: '%s'", c.message);
    hip_place_free(&c, &p);
}
/* Of no sequence, and of no new token: nobody reads or writes there either, wherever it is. */
static void pointers_of_nothing(void) {
    static const int32_t type[3] = {ATTN_F16, ATTN_INT8, ATTN_F32}, nobody[4];
    static float host[64];
    registered();
    for (int n = 0; n < 5; n++) {
        const int appends = n > 0, rotary = n > 2;
        proof_case c;
        hip_place p;
        proof_answer a;
        if (appends) appending(&c, IN_ROWS, type, rotary);
        else loaded(&c, ATTN_F16);
        if (appends) {                                   /* with append.cu, then without one */
            c.d.append.total = 0;
            if (n % 2) memcpy((void *)(uintptr_t)c.d.append.cu, nobody, sizeof nobody);
            else c.d.append.cu = NULL, c.d.append.len = 0;
            proof_freeze(&c);
        }
        if (appends) CHECK(!proof_solve(&c, &a), "%d: the reference", n);
        proof_reset(&c);
        hip_place_make(&c, &p, n > 1 ? HIP_STREAM : HIP_WORKSPACE);
        attn_desc *d = &p.d;
        if (appends) d->append.k.data = d->append.v.data = host;
        else d->batch = 0, d->q.data = d->k.data = d->v.data = d->bias.data = d->mask.data = d->o.data = d->lse = host;
        CHECK(!attn_forward(d), "device, %d: %s", n, c.message);
        if (appends) {                                   /* rows and caches as they are without an append */
            hip_place_fetch(&c, &p);
            CHECK(proof_untouched(&c, PROOF_CACHE), "%d: the cache is written", n);
            c.d.backend = "hip";
            const char *wrong = proof_check(&c, &a, hip_p_unit(&c.d));
            CHECK(!wrong, "device, %d: %s", n, wrong);
            proof_reset(&c);
            c.d.append.k.data = c.d.append.v.data = p.d.lse;     /* which is the device's */
            CHECK(!attn_forward(&c.d), "host, %d: %s", n, c.message);
            wrong = proof_check(&c, &a, hip_p_unit(&c.d));
            CHECK(!wrong, "host, %d: %s", n, wrong);
            proof_answer_free(&a);
        }
        hip_place_free(&c, &p);
        proof_free(&c);
    }
}
static void failing_append(int device) {
    static const int32_t type[3] = {ATTN_INT8, ATTN_F16, ATTN_F32};
    proof_case c;
    hip_place p;
    appending(&c, IN_PAGES, type, 2);
    registered();
    hip_place_make(&c, &p, HIP_STREAM | HIP_SEQ_HOST);
    failing_twice(&c, device ? &p.d : &c.d, NULL);
    hip_place_free(&c, &p);
    agrees(&c, "after the failures");
}
/* Another thread captures a stream into a graph: what allocates, frees or waits would spoil that, unless the thread is relaxed. Then the same
 * where nothing is allocated in stream order. */
static void beside_a_capture(void) {
    static const int32_t types[] = {ATTN_F16, ATTN_F16, ATTN_F32};
    proof_case c, appended, back;
    proof_answer a;
    hip_place place[2];
    attn_desc where;
    float there = 0;
    void *p = NULL;
    loaded(&c, ATTN_F16);
    loaded_backward(&back, ATTN_F16, 0);
    memset(&a, 0, sizeof a);
    CHECK(!proof_solve_grad(&back, &a), "the reference");
    back.d.backend = "hip";
    appending(&appended, IN_ROWS, types, 1);
    appended.d.backend = "hip";
    registered();
    const attn_backend *hip = attn_backend_find("hip");
    memset(&where, 0, sizeof where);
    for (int n = 0; n < 2; n++) hip_place_make(&back, &place[n], HIP_BACKWARD | (n ? HIP_STREAM : 0));     /* without a workspace */
    attn_shutdown();
    hip_captured_elsewhere = 1, hip_refused = 0, hip_fail_error = hipErrorUnknown;
    CHECK(!attn_hip_last_times(NULL, NULL, NULL), "times are asked for");
    for (hip_unordered = 0; hip_unordered < 2; hip_unordered++) {
        CHECK(!attn_forward(&c.d), "%s", c.message);
        CHECK(!attn_forward(&appended.d), "%s", appended.message);
        for (int n = 0; n < 2; n++) {
            CHECK(!attn_backward(&place[n].d, &place[n].g), "%s", place[n].d.message);
            CHECK(hip_unordered || !attn_hip_last_times(NULL, NULL, NULL), "times");
        }
        CHECK(!hip->device->get(hip->user, &where, &p, 64), "memory");
        CHECK(!hip->device->copy(hip->user, &where, p, NULL, 64, 0) && !hip->device->copy(hip->user, &where, &there, p, sizeof there, 1), "copy");
        hip->device->put(hip->user, &where, p);
        attn_shutdown();
    }
    hip_unordered = 0;
    CHECK(!hip_refused, "%lld calls that spoil it", (long long)hip_refused);
    const int still = hipMalloc(&p, 64) != hipSuccess && hip_refused == 1;
    hip_captured_elsewhere = 0;
    CHECK(still, "the thread is relaxed for good");
    for (int n = 0; n < 2; n++) {
        hip_place_fetch(&back, &place[n]);
        const char *wrong = proof_check_grad(&back, &a, hip_grad_unit(&back.d, &back.g));
        CHECK(!wrong, "gradients beside it: %s", wrong);
        hip_place_free(&back, &place[n]);
    }
    proof_answer_free(&a);
    proof_free(&back);
    proof_reset(&c), proof_reset(&appended);
    agrees(&c, "after it");
    agrees(&appended, "after it");
}
/* Where memory runs out, what is kept for later calls goes, and the call asks again. */
static void kept_memory_goes(void) {
    proof_case c, back;
    hip_place place;
    int freed = 0;
    loaded(&c, ATTN_F16);
    loaded_backward(&back, ATTN_F16, 0);
    registered();
    solved(&back);
    hip_place_make(&back, &place, HIP_BACKWARD | HIP_STREAM);
    c.d.backend = "hip";
    for (int n = 1; n < 60; n++) {
        CHECK(!attn_forward(&c.d), "%s", c.message);           /* keeps streams and buffers */
        const int64_t alive = hip_alive;
        hip_fail_error = hipErrorOutOfMemory, hip_fail_at = hip_calls + n;
        const attn_status s = attn_backward(&place.d, &place.g);
        const int reached = hip_calls >= hip_fail_at;
        hip_fail_at = 0;
        (void)hipGetLastError();
        if (!reached) break;
        if (!s && hip_alive < alive) freed++;
    }
    CHECK(freed == 1, "%d allocations of a device call were tried again", freed);
    hip_place_free(&back, &place);
    proof_free(&back);
    proof_reset(&c);
    agrees(&c, "after it");
}
static void failing_append_host(void) { failing_append(0); }
static void failing_append_device(void) { failing_append(1); }

/* ------------------------------------------------------------------------------------------------------- merge */
enum { MERGE_MOST = 70, MERGE_B = 2, MERGE_Q = 5, MERGE_H = 3, MERGE_D = 70, MERGE_ROWS = MERGE_B * MERGE_H * MERGE_Q };
typedef struct merging { /* parts in host memory, and the same in device memory */
    attn_desc d, on_device;
    attn_in o[MERGE_MOST], o_device[MERGE_MOST];
    float *lse[MERGE_MOST], *lse_device[MERGE_MOST];
    size_t o_bytes;
} merging;
static void merging_make(merging *m, int parts, int kind) {
    static const float far[] = {0.5f, -3, 88, -1000, 3e38f, -3e38f};
    uint64_t r = 77 + (uint64_t)kind;
    memset(m, 0, sizeof *m);
    attn_desc *d = &m->d;
    d->batch = MERGE_B, d->q_len = MERGE_Q, d->kv_len = 9, d->heads = MERGE_H, d->kv_heads = 1, d->head_dim = 8, d->v_dim = MERGE_D;
    d->o.dtype = kind % 4, d->o.layout = kind / 4 % 2;
    if (kind % 3 == 2) d->o.stride[0] = 3000, d->o.stride[1] = 80, d->o.stride[2] = 500;
    m->o_bytes = (kind % 3 == 2 ? 3000 * MERGE_B : MERGE_ROWS * MERGE_D) * dtype_size(d->o.dtype);
    d->o.data = proof_zeros((int64_t)m->o_bytes, 1), d->lse = (float *)proof_zeros(MERGE_ROWS, 4);
    memset(d->o.data, 0x5a, m->o_bytes);
    float *sink = (float *)proof_zeros(MERGE_H, 4);
    for (int h = 0; h < MERGE_H; h++) sink[h] = (float)h - 1.5f;
    if (kind % 2) d->sink = sink;
    m->on_device = *d, m->on_device.flags |= ATTN_DEVICE;
    m->on_device.o.data = hip_copy_in(d->o.data, m->o_bytes), m->on_device.lse = (float *)hip_copy_in(d->lse, MERGE_ROWS * 4);
    if (d->sink) m->on_device.sink = (const float *)hip_copy_in(sink, MERGE_H * 4);
    for (int p = 0; p < parts; p++) {
        attn_in *o = &m->o[p];
        o->dtype = (p + kind) % 4, o->layout = p / 2 % 2;
        if (p % 5 == 4) o->stride[0] = ATTN_BROADCAST, o->stride[1] = MERGE_D, o->stride[2] = MERGE_D * MERGE_Q;
        void *values = proof_zeros(MERGE_ROWS * MERGE_D, dtype_size(o->dtype));
        m->lse[p] = (float *)proof_zeros(MERGE_ROWS, 4);
        for (int i = 0; i < MERGE_ROWS * MERGE_D; i++) element_put(values, o->dtype, i, (double)(int64_t)(random_bits(&r) % 2001) * 0.001 - 1);
        for (int i = 0; i < MERGE_ROWS; i++) {
            m->lse[p][i] = (float)(random_bits(&r) % 4000) * 0.01f - 20;
            if (i % 7 == 3) m->lse[p][i] = far[random_bits(&r) % 6];
            if (i == 4 || random_bits(&r) % 4 == 0) m->lse[p][i] = float_of(0xff800000);      /* an empty part; row 4 has no other */
        }
        for (int i = 0; i < MERGE_ROWS * MERGE_D && p == 2; i++) {     /* a part without keys: its o is not read */
            element_put(values, o->dtype, i, (double)float_of(0x7fc00000));
            m->lse[p][i / MERGE_D] = float_of(0xff800000);
        }
        if (p == 1) m->lse[p][11] = float_of(0x7fc00000), m->lse[p][12] = float_of(0x7f800000);
        o->data = values;
        m->o_device[p] = *o, m->o_device[p].data = hip_copy_in(values, MERGE_ROWS * MERGE_D * dtype_size(o->dtype));
        m->lse_device[p] = (float *)hip_copy_in(m->lse[p], MERGE_ROWS * 4);
    }
}
static void merging_free(merging *m) {
    void *host[] = {m->d.o.data, m->d.lse, m->on_device.o.data, m->on_device.lse, (void *)(uintptr_t)m->on_device.sink};
    free(host[0]), free(host[1]);
    for (int i = 2; i < 5; i++)
        if (host[i]) hip_must(hipFree(host[i]), "hipFree");
    for (int p = 0; p < MERGE_MOST; p++) {
        free((void *)(uintptr_t)m->o[p].data), free(m->lse[p]);
        if (m->o_device[p].data) hip_must(hipFree((void *)(uintptr_t)m->o_device[p].data), "hipFree"), hip_must(hipFree(m->lse_device[p]), "hipFree");
    }
}
static attn_status merge_there(merging *m, int parts) {
    return attn_merge(&m->on_device, parts, m->o_device, (const float *const *)(const void *)m->lse_device);
}
/* The bits of the CPU, but for the sign of a NaN. */
static void merge_bits(void) {
    static const int parts[] = {0, 1, 2, 3, 64, 65, MERGE_MOST};
    registered();
    for (int n = 0; n < 14; n++) {
        merging m;
        merging_make(&m, parts[n % 7], n);
        CHECK(!attn_merge(&m.d, parts[n % 7], m.o, (const float *const *)(const void *)m.lse), "on the CPU");
        CHECK(!merge_there(&m, parts[n % 7]), "on the GPU");
        hip_must(hipDeviceSynchronize(), "hipDeviceSynchronize");
        char *got = (char *)proof_zeros((int64_t)m.o_bytes, 1);
        float lse[MERGE_ROWS];
        hip_must(hipMemcpy(got, m.on_device.o.data, m.o_bytes, hipMemcpyDeviceToHost), "hipMemcpy");
        hip_must(hipMemcpy(lse, m.on_device.lse, sizeof lse, hipMemcpyDeviceToHost), "hipMemcpy");
        const size_t size = dtype_size(m.d.o.dtype);
        for (size_t i = 0; i < m.o_bytes / size; i++) {
            const double x = element_get(got, m.d.o.dtype, (int64_t)i), y = element_get(m.d.o.data, m.d.o.dtype, (int64_t)i);
            CHECK((x != x && y != y) || !memcmp(got + i * size, (char *)m.d.o.data + i * size, size), "run %d: o[%zu] = %.17g, on the CPU %.17g", n, i, x, y);
        }
        for (int i = 0; i < MERGE_ROWS; i++)
            CHECK((lse[i] != lse[i] && m.d.lse[i] != m.d.lse[i]) || !memcmp(&lse[i], &m.d.lse[i], 4), "run %d: lse[%d] = %.9g, on the CPU %.9g", n, i,
                  (double)lse[i], (double)m.d.lse[i]);
        free(got), merging_free(&m);
    }
}
static void merge_refused(void) {
    merging m;
    static char message[256];
    registered();
    merging_make(&m, MERGE_MOST, 1);
    m.on_device.message = message, m.on_device.message_size = sizeof message;
    const void *old = m.o_device[66].data;
    m.o_device[66].data = m.o[66].data;
    CHECK(merge_there(&m, MERGE_MOST) == ATTN_ERR_GPU_POINTER && strstr(message, "o of a part"), "a part in host memory: '%s'", message);
    m.o_device[66].data = old;
    float *lse = m.lse_device[2];
    m.lse_device[2] = m.lse[2];
    CHECK(merge_there(&m, MERGE_MOST) == ATTN_ERR_GPU_POINTER && strstr(message, "lse of a part"), "an lse in host memory: '%s'", message);
    m.lse_device[2] = lse;
    for (int n = 0; n < 3; n++) {                        /* nor may its own tensors be there */
        static const char *const name[] = {"o is not", "lse is not", "sink is not"};
        const attn_desc there = m.on_device;
        if (n == 0) m.on_device.o.data = m.d.o.data;
        else if (n == 1) m.on_device.lse = m.d.lse;
        else m.on_device.sink = m.d.sink;
        CHECK(merge_there(&m, 3) == ATTN_ERR_GPU_POINTER && strstr(message, name[n]), "%s the device's: '%s'", name[n], message);
        m.on_device = there;
    }
    m.on_device.backend = "flash";
    CHECK(merge_there(&m, 3) == ATTN_ERR_DEVICE, "on a CPU backend: '%s'", message);
    m.on_device.backend = "hip";
    const int64_t alive = hip_alive;
    for (int64_t n = 1; n < 500; n++) {                  /* every HIP call fails in turn: many parts need memory */
        hip_fail_error = hipErrorUnknown, hip_fail_at = hip_calls + n;
        const attn_status s = merge_there(&m, MERGE_MOST);
        const int reached = hip_calls >= hip_fail_at;
        hip_fail_at = 0;
        (void)hipGetLastError();
        if (!reached) { CHECK(!s && n > 5, "%s", message); break; }
        CHECK(!s || (s >= ATTN_ERR_NO_DEVICE && s <= ATTN_ERR_GPU), "call %lld fails: %s", (long long)n, attn_status_name(s));
    }
    hip_must(hipDeviceSynchronize(), "hipDeviceSynchronize");
    CHECK(hip_alive <= alive + 1, "%lld blocks alive, then %lld", (long long)alive, (long long)hip_alive);      /* a failed free leaves one */
    CHECK(!merge_there(&m, 2) && !message[0], "the last call leaves a message: '%s'", message);
    merging_free(&m);
}

/* -------------------------------------------------------------------------------------------------------- main */
/* ---------------------------------------------------------------------------------------------------- keys in parts */
/* So few rows and so many keys that keys are cut. kind: what else the call has. */
enum { PLAIN, CAUSAL, WINDOW, MASKED, EVERYTHING, LENGTHS, PACKED, TOP_LEFT, KINDS };
typedef struct parts_case { int64_t q_len, kv_len, heads, kv_heads, dim, v_dim; } parts_case;
static void in_parts_begin(proof_case *c, const parts_case *s, int32_t q, int32_t kv, int kind) {
    static const int32_t used_q[] = {0, 1, 100}, used_k[] = {900, 612, 40}, start_k[] = {0, 7, 39}, cu_q[] = {0, 1, 4, 4}, cu_k[] = {0, 700, 1311, 1700};
    const int64_t batch = kind == LENGTHS || kind == PACKED ? 3 : 1;
    shape(c, batch, s->q_len, s->kv_len, s->heads, s->kv_heads, s->dim, s->v_dim, q);
    attn_desc *d = &c->d;
    d->k.dtype = d->v.dtype = kv;
    if (q != kv) d->o.dtype = ATTN_F32;
    if (kind == CAUSAL || kind == EVERYTHING || kind == LENGTHS) d->flags |= ATTN_CAUSAL;
    if (kind == TOP_LEFT) d->flags |= ATTN_CAUSAL | ATTN_OFFSET, d->offset = 300;
    if (kind == WINDOW) d->flags |= ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, d->window_left = 330, d->window_right = 3;
    if (kind == MASKED || kind == EVERYTHING) c->features |= PROOF_MASK, d->mask.dtype = ATTN_BOOL;
    if (kind == EVERYTHING) c->features |= PROOF_BIAS, d->softcap = 15;
    if (kind == LENGTHS) {
        int32_t *used = proof_ints(c, 3);
        for (int b = 0; b < 3; b++) used[b] = used_q[b] < s->q_len ? used_q[b] : (int32_t)s->q_len;
        d->seq.used_q = used, d->seq.used_k = proof_ints(c, 3), d->seq.start_k = proof_ints(c, 3);
        for (int b = 0; b < 3; b++) ((int32_t *)(uintptr_t)d->seq.used_k)[b] = used_k[b] < s->kv_len ? used_k[b] : (int32_t)s->kv_len;
        memcpy((void *)(uintptr_t)d->seq.start_k, start_k, 12);
    }
    if (kind == PACKED) {
        int32_t *q_ends = proof_ints(c, 4), *k_ends = proof_ints(c, 4);
        memcpy(q_ends, cu_q, 16), memcpy(k_ends, cu_k, 16);
        d->seq.cu_q = q_ends, d->seq.cu_k = k_ends, d->seq.total_q = 4, d->seq.total_k = 1700, d->q_len = 3, d->kv_len = 700;
    }
}
static void in_parts(proof_case *c, const parts_case *s, int32_t q, int32_t kv, int kind) {
    proof_draw draw = plain_draw();
    in_parts_begin(c, s, q, kv, kind);
    draw.sink = kind == EVERYTHING || kind == LENGTHS, draw.alibi = kind == EVERYTHING;
    proof_bind_all(c, &draw);
}
/* By host and by device pointers; the same bits. */
static void agrees_with(proof_case *c, const proof_answer *a, const char *what) {
    hip_place p;
    attn_plan plan;
    c->d.backend = "hip";
    CHECK(!proof_query(c, 0, &plan), "%s: %s", what, plan.why);
    CHECK(!proof_call(c, 0), "%s: %s", what, c->message);
    const char *wrong = proof_check(c, a, hip_p_unit(&c->d));
    CHECK(!wrong, "%s, %s, %d parts, host: %s", what, plan.kernel, (int)plan.splits, wrong);
    char *out = outputs(c, (char *)malloc(outputs_size(c)));
    proof_reset(c);
    hip_place_make(c, &p, HIP_WORKSPACE);
    const int64_t made = hip_allocations;
    for (int again = 0; again < 2; again++) {
        CHECK(!attn_forward(&p.d), "%s, device: %s", what, c->message);
        CHECK(hip_allocations == made, "%s: allocates with a workspace", what);
        hip_place_fetch(c, &p);
        wrong = proof_check(c, a, hip_p_unit(&p.d));
        CHECK(!wrong, "%s, %s, %d parts, device: %s", what, plan.kernel, (int)plan.splits, wrong);
        char *other = outputs(c, (char *)malloc(outputs_size(c)));
        CHECK(!memcmp(out, other, outputs_size(c)), "%s: device pointers, run %d: other bits", what, again);
        free(other);
        proof_reset(c);
    }
    hip_place_free(c, &p);
    free(out);
}
static void agrees_both(proof_case *c, const char *what) {
    proof_answer a;
    attn_status s = proof_solve(c, &a);
    CHECK(!s, "%s: the reference: %s", what, attn_status_text(s));
    agrees_with(c, &a, what);
    proof_answer_free(&a);
}
/* Codes of more sequences than a launch has: rows and scales of k and v each with steps of their own, of one no step at all. */
static void scales_apart(void) {
    registered();
    for (int n = 0; n < 16; n++) {
        char what[48];
        proof_case c;
        shape(&c, 5, n % 3 == 2 ? 20 : 2, 150, 4, 2, 16, 8, n % 2 ? ATTN_BF16 : ATTN_F32);
        attn_desc *d = &c.d;
        d->k.dtype = d->v.dtype = n % 4 < 2 ? ATTN_INT8 : ATTN_FP8_E4M3, d->o.dtype = ATTN_F32;
        const int of = n / 4;                            /* the scales of v, of k, the rows of both, no step in k's and v of another type */
        int64_t *step = of == 0 ? d->v.scale_stride : d->k.scale_stride, *all = of == 1 ? d->v.scale_stride : d->k.scale_stride;
        step[2] = 1, step[1] = 3, step[0] = 150 * 3 + 7;
        if (of == 3) d->v.dtype = ATTN_BF16, d->k.stride[0] = ATTN_BROADCAST, d->k.stride[1] = 32, d->k.stride[2] = 16;
        else if (of < 2) all[0] = ATTN_BROADCAST, all[1] = 2, all[2] = 1;
        else {
            d->v.scale_stride[0] = 2 * 150 + 11, d->v.scale_stride[1] = 1, d->v.scale_stride[2] = 155;
            d->k.stride[0] = 150 * 2 * 16 + 48, d->k.stride[1] = 32, d->k.stride[2] = 16;
            d->v.stride[0] = 150 * 2 * 8 + 16, d->v.stride[1] = 8, d->v.stride[2] = 150 * 8;
        }
        bind(&c);
        snprintf(what, sizeof what, "way %d, q %d, k %d", of, d->q.dtype, d->k.dtype);
        agrees_both(&c, what);
        proof_free(&c);
    }
}
/* Pages, or places in one, beyond what 32 bits count, of which the first few are there: as those alone. */
static void pages_beyond_2_32(void) {
    static const int32_t used_k[] = {300, 9};
    const int64_t many = (int64_t)1 << 32;
    registered();
    for (int n = 0; n < 8; n++) {
        proof_case c;
        hip_place p;
        const int places = n % 2, mixed = n / 2 % 2;     /* rows of q's type are laid out where few are not read as they lie */
        shape(&c, 2, n < 4 ? 2 : 20, 300, 2, 1, 16, 0, ATTN_F32);
        attn_desc *d = &c.d;
        if (mixed) d->k.dtype = d->v.dtype = ATTN_BF16;
        int32_t *table = proof_ints(&c, 2);
        table[0] = 0, table[1] = 1;
        d->seq.used_k = ints(&c, used_k, 2), d->seq.block_table = table, d->seq.max_pages = 1, d->seq.pages = 2, d->seq.page_size = 300;
        for (int v = 0; v < 2; v++) {                    /* all pages alike, or all tokens: so they span little memory */
            int64_t *step = v ? d->v.stride : d->k.stride;
            step[0] = places ? 32 : ATTN_BROADCAST, step[1] = places ? ATTN_BROADCAST : 16, step[2] = 16;
        }
        bind(&c);
        CHECK(!proof_call(&c, 0), "%s", c.message);
        char *want = outputs(&c, outputs(&c, NULL)), *got = outputs(&c, NULL);
        proof_reset(&c);
        hip_place_make(&c, &p, 0);
        *(places ? &p.d.seq.page_size : &p.d.seq.pages) = many;
        CHECK(!attn_forward(&p.d), "%d: %s", n, c.message);
        hip_place_fetch(&c, &p);
        CHECK(!memcmp(outputs(&c, got), want, outputs_size(&c)), "%d: other bits than with few", n);
        hip_place_free(&c, &p);
        free(want), free(got), proof_free(&c);
    }
}
/* Rows that sequences share, or tokens, beside lengths of their own: those of the first say nothing of the others. */
static void shared_rows(void) {
    static const int32_t used_q[] = {1, 3, 2}, used_k[] = {5, 20, 11}, start_k[] = {2, 0, 7};
    registered();
    for (int n = 0; n < 10; n++) {
        char what[32];
        proof_case c;
        shape(&c, 3, 3, 20, 2, 1, 8, 0, n < 5 ? ATTN_F32 : ATTN_BF16);
        attn_desc *d = &c.d;
        attn_in *const of[] = {&d->q, &d->k, &d->v, &d->k, &d->v};
        const int way = n % 5, tokens = way > 2;
        int64_t *step = of[way]->stride;
        step[0] = tokens ? 48 : ATTN_BROADCAST, step[1] = tokens ? ATTN_BROADCAST : 16, step[2] = 8;
        if (n >= 8) {                                    /* scales too */
            d->k.dtype = d->v.dtype = ATTN_INT8, d->o.dtype = ATTN_F32;
            step = of[way]->scale_stride, step[0] = 3, step[1] = ATTN_BROADCAST, step[2] = 1;
        }
        d->seq.used_q = ints(&c, used_q, 3), d->seq.used_k = ints(&c, used_k, 3), d->seq.start_k = ints(&c, start_k, 3);
        bind(&c);
        snprintf(what, sizeof what, "case %d", n);
        agrees_both(&c, what);
        proof_free(&c);
    }
}
/* Rows that follow each other backwards, at multiples of 16 bytes: of each tensor that a backward reads. */
static void backward_backwards(void) {
    enum { N = 70, D = 64 };
    registered();
    for (int n = 0; n < 8; n++) {
        char what[32];
        proof_case c;
        shape(&c, 1, N, N, 1, 1, D, 0, n < 4 ? ATTN_F32 : ATTN_BF16);
        proof_draw draw = grad_draw(&c, ATTN_F32);
        c.g.dout.dtype = c.d.q.dtype;
        int64_t *const of[] = {c.d.q.stride, c.d.k.stride, c.d.v.stride, c.g.dout.stride}, *step = of[n % 4];
        step[0] = N * D, step[1] = -D, step[2] = D;
        proof_bind_all(&c, &draw);
        solved(&c);
        snprintf(what, sizeof what, "case %d", n);
        agrees_backward(&c, what);
        proof_free(&c);
    }
}
/* dq, dk, dv and dout of a type each, in more sequences than a launch has. */
static void gradients_of_their_own_types(void) {
    static const int32_t types[][4] = {{ATTN_F32, ATTN_BF16, ATTN_F64, ATTN_F32}, {ATTN_F64, ATTN_F32, ATTN_F16, ATTN_BF16}, {ATTN_BF16, ATTN_F64, ATTN_F32, ATTN_F16}};
    registered();
    for (int n = 0; n < 6; n++) {
        char what[32];
        proof_case c;
        shape(&c, 5, 9, 20, 2, 1, 16, 8, n % 2 ? ATTN_BF16 : ATTN_F32);
        proof_draw draw = grad_draw(&c, ATTN_F32);
        c.g.dq.dtype = types[n / 2][0], c.g.dk.dtype = types[n / 2][1], c.g.dv.dtype = types[n / 2][2], c.g.dout.dtype = types[n / 2][3];
        c.d.o.dtype = n % 2 ? ATTN_F32 : ATTN_F64;
        draw.sink = draw.dsink = draw.dlse = 1;
        proof_bind_all(&c, &draw);
        solved(&c);
        snprintf(what, sizeof what, "case %d", n);
        agrees_backward(&c, what);
        proof_free(&c);
    }
}
/* One query: which kernel reads its keys follows from where theirs begin, not from a step along an axis of one. */
static void few_rows_unaligned(void) {
    const size_t apart = (size_t)1 << 44;
    registered();
    for (int n = 0; n < 7; n++) {
        char why[200] = "";
        attn_plan plan;
        attn_desc d = {0};
        attn_in *in[] = {&d.q, &d.k, &d.v};
        d.batch = d.kv_heads = d.q_len = 1, d.heads = 2, d.kv_len = 5000, d.head_dim = 64;
        d.flags = ATTN_DEVICE, d.backend = "hip", d.message = why, d.message_size = sizeof why;
        for (int t = 0; t < 3; t++) {
            in[t]->data = (const void *)(apart * (size_t)(t + 1));
            in[t]->stride[0] = 5000 * 192, in[t]->stride[1] = t ? 64 : 128, in[t]->stride[2] = 64;
        }
        d.o.data = (void *)(apart * 4);
        switch (n) {                                     /* three that count, three that are not stepped along */
        case 0: d.q.stride[2] = 65; break;
        case 1: d.k.stride[1] = 65; break;
        case 2: d.v.stride[1] = 65; break;
        case 3: d.q.stride[1] = 129; break;
        case 4: d.k.stride[2] = 65; break;
        case 5: d.v.stride[0] = 5000 * 192 + 1; break;
        default: break;
        }
        CHECK(!attn_query(&d, NULL, &plan), "%d: %s", n, plan.why);
        CHECK(!strncmp(plan.kernel, "decode_f32", 10) && (strstr(plan.kernel, "_any") != NULL) == (n < 3), "%d: %s", n, plan.kernel);
    }
}
/* Packed rows that are rotated beside what is appended. */
static void packed_append(void) {
    static const int32_t ends_q[] = {0, 1, 5, 7}, used[] = {5, 130, 16}, cu[][4] = {{0, 1, 4, 6}, {0, 3, 6, 6}};
    registered();
    for (int n = 0; n < 8; n++) {
        char what[32];
        proof_case c;
        proof_draw draw = plain_draw();
        shape(&c, 3, 4, 140, 4, 2, 16, 8, n % 2 ? ATTN_F32 : ATTN_BF16);
        attn_desc *d = &c.d;
        static const int32_t start[] = {3, 41, 0};
        if (n > 5) d->k.dtype = d->v.dtype = ATTN_INT8;
        if (n % 2) d->seq.start_k = ints(&c, start, 3);
        d->o.dtype = ATTN_F32, d->append.k.dtype = d->append.v.dtype = ATTN_F32, d->flags = n % 4 > 1 ? ATTN_CAUSAL : 0;
        d->seq.cu_q = ints(&c, ends_q, 4), d->seq.total_q = 7, d->seq.used_k = ints(&c, used, 3);
        d->append.cu = ints(&c, cu[n / 2 % 2], 4), d->append.len = 3, d->append.total = 6;
        draw.rotary = n > 1, d->append.rotary_dim = n > 1 ? 12 : 0;
        proof_bind_all(&c, &draw);
        snprintf(what, sizeof what, "case %d", n);
        agrees_both(&c, what);
        proof_free(&c);
    }
}
/* What an append needs on the device counts as well. */
static void bytes_of_an_append(void) {
    static const int32_t types[] = {ATTN_F32, ATTN_F32, ATTN_F32};
    size_t bytes[2] = {0, 0};
    proof_case c;
    registered();
    appending(&c, IN_ROWS, types, 0);
    c.d.backend = "hip";
    for (int n = 0; n < 2; n++) {
        CHECK(!attn_forward(&c.d) && !attn_hip_last_times(NULL, NULL, &bytes[n]), "%s", c.message);
        memset(&c.d.append, 0, sizeof c.d.append);
    }
    CHECK(bytes[0] > bytes[1] && bytes[1], "%zu bytes with new tokens, %zu without", bytes[0], bytes[1]);
    proof_free(&c);
}
/* Biases of another type than q's, or a q of one row in memory beside a dout of many, in more sequences than a launch has. */
static void bias_of_its_own_type(void) {
    static const int32_t types[][2] = {{ATTN_F32, ATTN_BF16}, {ATTN_BF16, ATTN_F32}, {ATTN_F32, ATTN_F64}, {ATTN_F32, ATTN_F32}};
    registered();
    for (int n = 0; n < 4; n++) {
        char what[32];
        proof_case c;
        shape(&c, 5, 3, 20, 2, 1, 8, 0, types[n][0]);
        c.d.bias.dtype = types[n][1], c.features |= PROOF_BIAS;
        proof_draw draw = grad_draw(&c, ATTN_F32);
        if (n == 3) c.d.q.stride[0] = c.d.q.stride[1] = c.d.q.stride[2] = ATTN_BROADCAST, c.g.dout.dtype = ATTN_F32;
        draw.dlse = 1;
        proof_bind_all(&c, &draw);
        snprintf(what, sizeof what, "case %d", n);
        solved(&c);
        agrees_backward(&c, what);
        c.backward = 0;
        proof_free(&c);
    }
    for (int n = 0; n < 3; n++) {
        char what[32];
        proof_case c;
        shape(&c, 5, 3, 20, 2, 1, 8, 0, types[n][0]);
        c.d.bias.dtype = types[n][1], c.features |= PROOF_BIAS;
        bind(&c);
        snprintf(what, sizeof what, "bias %d", types[n][1]);
        agrees_both(&c, what);
        proof_free(&c);
    }
}
/* One array of lengths alone, by which some sequence has no parts, or no row. */
static void parts_by_one_array(void) {
    static const int32_t used_q[] = {2, 0, 1}, used_k[] = {400, 30, 0}, start_k[] = {0, 390, 400}, ends_q[] = {0, 2, 2, 3}, ends_k[] = {0, 400, 430, 430};
    registered();
    for (int n = 0; n < 15; n++) {
        char what[32];
        proof_case c;
        shape(&c, 3, 2, 400, 2, 1, n / 5 == 1 ? 20 : 64, 0, n / 5 == 2 ? ATTN_BF16 : ATTN_F32);
        attn_seq *s = &c.d.seq;
        if (n / 5 == 2) c.d.k.dtype = c.d.v.dtype = ATTN_F32;          /* which are laid out */
        switch (n % 5) {
        case 0: s->used_q = ints(&c, used_q, 3); break;
        case 1: s->used_k = ints(&c, used_k, 3); break;
        case 2: s->start_k = ints(&c, start_k, 3); break;
        case 3: s->cu_q = ints(&c, ends_q, 4), s->total_q = 3; break;
        default: s->cu_k = ints(&c, ends_k, 4), s->total_k = 430; break;
        }
        bind(&c);
        snprintf(what, sizeof what, "case %d", n);
        agrees_both(&c, what);
        proof_free(&c);
    }
}
/* Values that are not finite, in other dims of a key far behind and in the last key that a row sees: each reaches the rows that see it. */
static void spoiled_apart(void) {
    static const int32_t dtype[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
    registered();
    for (int n = 0; n < 6; n++) {
        static const struct { int key, dim; } at[] = {{5, 3}, {30, 9}, {41, 10}, {62, 31}};
        proof_case c;
        shape(&c, 1, 63, 63, 1, 1, 32, 0, dtype[n % 3]);
        c.d.flags = n / 3 ? ATTN_CAUSAL : 0;
        bind(&c);
        for (size_t i = 0; i < sizeof at / sizeof *at; i++) element_put((void *)(uintptr_t)c.d.v.data, dtype[n % 3], at[i].key * 32 + at[i].dim, (double)float_of(0x7fc00000));
        proof_freeze(&c);
        agrees_both(&c, "spoiled values apart");
        proof_free(&c);
    }
}
/* Rows whose lengths are no multiple of 16 bytes though each begins at one: nothing behind a row of o is written. */
static void rows_apart(void) {
    registered();
    for (int n = 0; n < 6; n++) {
        proof_case c;
        shape(&c, 1, 20, 40, 1, 1, 32, n < 2 ? 9 + n : n % 2 ? 20 : 12, n / 2 == 0 ? ATTN_F32 : built(ATTN_F16) ? ATTN_F16 : ATTN_BF16);
        attn_desc *d = &c.d;
        d->o.dtype = n / 2 == 1 ? ATTN_F32 : d->q.dtype;
        int64_t *const stride[] = {d->q.stride, d->k.stride, d->v.stride, d->o.stride};
        for (int t = 0; t < 4; t++) stride[t][2] = 32, stride[t][1] = 32, stride[t][0] = 32 * 40;
        bind(&c);
        agrees_both(&c, "rows apart");
        proof_free(&c);
    }
}
/* Tiles that all rows see whole between those that some see in part, on either side, and the last one that ends with the keys. */
static void whole_tiles(void) {
    registered();
    for (int n = 0; n < 4; n++) {
        proof_case c;
        shape(&c, 1, 70, n / 2 ? 500 : 448, 1, 1, 32, 0, built(ATTN_F16) ? ATTN_F16 : ATTN_BF16);
        if (n % 2) c.d.flags = ATTN_CAUSAL | ATTN_WINDOW_LEFT, c.d.window_left = 290;
        bind(&c);
        agrees_both(&c, "whole tiles");
        proof_free(&c);
    }
    proof_case c;
    shape(&c, 1, 70, 40, 1, 1, 32, 0, built(ATTN_F16) ? ATTN_F16 : ATTN_BF16);   /* rows of scores of -infinity alone, beside a NaN */
    bind(&c);
    for (int i = 0; i < 70; i++) element_put((void *)(uintptr_t)c.d.q.data, c.d.q.dtype, i * 32, i % 2 ? 1 : 0.5);
    for (int j = 0; j < 40; j++) element_put((void *)(uintptr_t)c.d.k.data, c.d.q.dtype, j * 32, (double)float_of(0xff800000));
    element_put((void *)(uintptr_t)c.d.v.data, c.d.q.dtype, 7 * 32 + 5, (double)float_of(0x7fc00000));
    proof_freeze(&c);
    agrees_both(&c, "dead rows");
    proof_free(&c);
}
/* A row's place that is the largest number stays there as rows go on, and so does its window's first key; in parts and backward too. */
static void saturated_windows(void) {
    registered();
    for (int n = 0; n < 10; n++) {
        const int back = n >= 6, K = n % 2 && !back ? 300 : 9, type = n % 3 == 1 ? ATTN_F32 : built(ATTN_F16) ? ATTN_F16 : ATTN_BF16;
        proof_case c;
        shape(&c, 1, 6, K, 2, 1, n % 3 == 2 ? 300 : 64, 0, type);
        c.d.flags = ATTN_WINDOW_LEFT | ATTN_OFFSET, c.d.offset = INT64_MAX - 2, c.d.window_left = c.d.offset - (K - 5);
        proof_draw draw = back ? grad_draw(&c, type) : plain_draw();
        proof_bind_all(&c, &draw);
        if (back) {
            solved(&c);
            agrees_backward(&c, "saturated windows");
        } else agrees_both(&c, "saturated windows");
        proof_free(&c);
    }
}
/* Masks, biases, slopes and dropout of few rows against many keys, of the types that a decode reads and of q's own. */
static void parts_masked(void) {
    const int32_t half = built(ATTN_F16) ? ATTN_F16 : ATTN_BF16, types[][2] = {{ATTN_F32, ATTN_F32}, {half, half}, {ATTN_BF16, ATTN_INT8}, {half, ATTN_FP8_E4M3}};
    registered();
    for (int n = 0; n < 12; n++) {
        char what[32];
        proof_case c;
        shape(&c, 1, 2, 330, 4, 2, n / 4 == 1 ? 128 : 32, 0, types[n % 4][0]);
        attn_desc *d = &c.d;
        proof_draw draw = plain_draw();
        d->k.dtype = d->v.dtype = types[n % 4][1], d->o.dtype = ATTN_F32;
        if (n >= 10) d->v.dtype = ATTN_F32;              /* which none decodes beside codes of k */
        if (n % 3 == 0) c.features |= PROOF_MASK, d->mask.dtype = ATTN_BOOL;
        if (n % 3 == 1) draw.alibi = 1;
        if (n % 3 == 2) d->dropout = 0.25f, d->seed = 3;
        proof_bind_all(&c, &draw);
        snprintf(what, sizeof what, "case %d", n);
        agrees_both(&c, what);
        proof_free(&c);
    }
}
/* Few rows against many keys whose pages end with the table: garbage in it is clamped, pages before the first key are not looked at (the host's
 * not either), and nothing behind the last key is. */
static void parts_of_pages(void) {
    static const int32_t out[] = {-1, 1 << 30, 90, 91, -(1 << 30), 200};
    enum { B = 2, SIZE = 5, TABLE = 41, PAGES = 90, K = SIZE * TABLE };
    registered();
    for (int n = 0; n < 4; n++) {
        static const int32_t used[B] = {150, K}, start[B] = {12, 7};
        proof_case c;
        hip_place p;
        int32_t bad[B * TABLE];
        shape(&c, B, 1, K, 2, 1, n / 2 ? 128 : 32, 0, n % 2 ? ATTN_INT8 : ATTN_F32);
        if (n % 2) c.d.q.dtype = getenv("HIP_TYPE") && !strcmp(getenv("HIP_TYPE"), "bf16") ? ATTN_BF16 : ATTN_F16, c.d.o.dtype = ATTN_F32;
        int32_t *table = proof_ints(&c, B * TABLE);
        for (int i = 0; i < B * TABLE; i++) table[i] = (i * 7 + 3) % PAGES;
        c.d.seq.block_table = table, c.d.seq.page_size = SIZE, c.d.seq.max_pages = TABLE, c.d.seq.pages = PAGES;
        c.d.seq.used_k = ints(&c, used, B), c.d.seq.start_k = ints(&c, start, B);
        bind(&c);
        for (int b = 0; b < B; b++) table[b * TABLE] = out[n + b];        /* before the first key */
        proof_freeze(&c);
        agrees_both(&c, "pages before the first key");
        c.d.backend = "hip";
        for (int i = 0; i < B * TABLE; i++) {            /* the clamped table, and then what is clamped */
            bad[i] = i % 4 == 1 ? out[i / 4 % 6] : table[i];
            table[i] = bad[i] < 0 ? 0 : bad[i] > PAGES - 1 ? PAGES - 1 : bad[i];
        }
        for (int64_t i = 0; n % 2 && i < PAGES * SIZE; i++) ((float *)(uintptr_t)c.d.k.scale)[i] = ((float *)(uintptr_t)c.d.v.scale)[i] = 0.01f;
        proof_freeze(&c);
        CHECK(!proof_call(&c, 0), "%s", c.message);
        char *want = outputs(&c, outputs(&c, NULL)), *got = outputs(&c, NULL);
        proof_reset(&c);
        hip_place_make(&c, &p, 0);
        hip_must(hipMemcpy((void *)(uintptr_t)p.d.seq.block_table, bad, sizeof bad, hipMemcpyHostToDevice), "hipMemcpy");
        CHECK(!attn_forward(&p.d), "%s", c.message);
        hip_place_fetch(&c, &p);
        CHECK(!memcmp(outputs(&c, got), want, outputs_size(&c)), "run %d: other bits than with the clamped table", n);
        hip_place_free(&c, &p);
        free(want), free(got), proof_free(&c);
    }
}
/* More sequences than there is room for the parts of: they share it in turns, and it is no byte too small. */
static void parts_in_turns(void) {
    static const int32_t used_q[] = {1, 2, 0, 1, 3, 1, 1, 2, 16, 1}, used_k[] = {300, 20, 600, 257, 4096, 65, 0, 270, 300, 520};
    proof_case c;
    attn_plan plan;
    registered();
    shape(&c, 10, 16, 4096, 16, 1, 8, 256, ATTN_F32);
    attn_desc *d = &c.d;
    d->k.stride[0] = d->v.stride[0] = ATTN_BROADCAST, d->k.stride[1] = d->k.stride[2] = 8, d->v.stride[1] = d->v.stride[2] = 256;
    d->seq.used_q = ints(&c, used_q, 10), d->seq.used_k = ints(&c, used_k, 10);
    bind(&c);
    element_put((void *)(uintptr_t)d->k.data, ATTN_F32, 4000 * 8, 600);     /* by far the largest scores, in one of the last parts */
    proof_freeze(&c);
    CHECK(!attn_query(d, NULL, &plan) && plan.splits >= 16, "%d parts", (int)plan.splits);
    agrees_both(&c, "in turns");
    proof_free(&c);
}
/* What is laid out of few rows that are in no parts, with dropout or so many heads that no sequence is cut; of packed rows, as many sequences as
 * are laid out in turns. */
static void laid_out_whole(void) {
    static const int32_t ends_q[] = {0, 1, 2, 22, 23, 24, 25}, used_k[] = {40, 64, 9, 50, 63, 1};
    registered();
    for (int n = 0; n < 8; n++) {
        char what[32];
        proof_case c;
        const int heads = n == 1 ? 200 : 2;
        if (n < 4) shape(&c, 2, 3, n == 1 ? 70 : 200, heads, n < 2 ? heads : 1, 16, 0, n % 2 ? ATTN_F32 : ATTN_BF16);
        else shape(&c, n < 6 ? 6 : 40, 20, 64, 2, 1, 16, 0, n % 2 ? ATTN_F32 : ATTN_BF16);
        attn_desc *d = &c.d;
        d->k.dtype = d->v.dtype = n % 2 ? ATTN_INT8 : ATTN_F32, d->o.dtype = ATTN_F32;
        if (n < 4 && n != 1) d->dropout = 0.25f, d->seed = 9;
        if (n >= 6) {                                    /* so many that their lengths are longer than those of one turn */
            int32_t *used = proof_ints(&c, 40);
            for (int b = 0; b < 40; b++) used[b] = b * 7 % 65;
            d->seq.used_k = used;
        } else if (n >= 4) d->seq.cu_q = ints(&c, ends_q, 7), d->seq.total_q = 25, d->seq.used_k = ints(&c, used_k, 6);
        bind(&c);
        snprintf(what, sizeof what, "case %d", n);
        agrees_both(&c, what);
        proof_free(&c);
    }
}
/* A decode step: keys in parts; with types of new tokens behind those that are appended in the same call, with rotary 1 or 2 rotated too. */
static void decode_step(proof_case *c, const int32_t type[3], int where, int rotary) {
    static const int32_t used[] = {700, 612};
    proof_draw draw = plain_draw();
    shape(c, 2, 3, 720, 4, 2, 64, 0, type[0]);
    attn_desc *d = &c->d;
    d->k.dtype = d->v.dtype = type[1], d->o.dtype = ATTN_F32;
    d->seq.used_k = ints(c, used, 2), d->flags |= ATTN_CAUSAL;
    if (type[2] >= 0) d->append.k.dtype = d->append.v.dtype = type[2], d->append.len = 3;
    if (where == IN_SLOTS) d->seq.slot = ints(c, (const int32_t[]){2, 0}, 2), d->seq.slots = 3;
    if (where == IN_PAGES) {
        int32_t *table = proof_ints(c, 90);
        for (int i = 0; i < 90; i++) table[i] = i * 7 % 90;
        d->seq.block_table = table, d->seq.page_size = 16, d->seq.max_pages = 45, d->seq.pages = 90;
    }
    if (rotary) draw.rotary = 1, d->append.rotary_dim = 48;
    if (rotary == 2) d->flags |= ATTN_ROTARY_INTERLEAVED;
    proof_bind_all(c, &draw);
}
static void parts_appended(void) {
    static const int32_t types[][3] = {{ATTN_F32, ATTN_F32, ATTN_F32}, {ATTN_F16, ATTN_F16, ATTN_F32}, {ATTN_BF16, ATTN_BF16, ATTN_BF16},
                                                            {ATTN_F32, ATTN_INT8, ATTN_F32}};                  /* q, cache, new tokens */
    registered();
    for (int n = 0; n < 12; n++) {
        char what[64];
        const int32_t *type = types[n % 4];
        const int where = n % 3, rotary = n / 4;
        proof_case c;
        if (!built(type[0])) continue;
        decode_step(&c, type, where, rotary);
        snprintf(what, sizeof what, "q %d, k %d, where %d, rotary %d", type[0], type[1], where, rotary);
        agrees_both(&c, what);
        proof_free(&c);
    }
}
/* q, k and v where they lie, an element behind that, and nowhere: the same workspace, and it is enough. */
static void parts_anywhere(void) {
    static const int32_t types[][3] = {{ATTN_F16, ATTN_F16, -1}, {ATTN_BF16, ATTN_BF16, -1}, {ATTN_F32, ATTN_F32, -1}, {ATTN_F32, ATTN_INT8, -1}, {ATTN_F16, ATTN_FP8_E4M3, -1},
                                       {ATTN_BF16, ATTN_F16, -1}, {ATTN_F16, ATTN_F16, ATTN_F16}, {ATTN_BF16, ATTN_BF16, ATTN_F32}, {ATTN_BF16, ATTN_INT8, ATTN_F32}};
    registered();
    for (int n = 0; n < 18; n++) {
        const int32_t *type = types[n % 9];
        const int where = n < 9 ? IN_PAGES : n % 3;
        char what[64];
        proof_case c;
        proof_answer a;
        hip_place p;
        attn_plan plan[3];
        if (!built(type[0])) continue;
        decode_step(&c, type, where, type[2] >= 0 ? 1 + n % 2 : 0);
        snprintf(what, sizeof what, "q %d, k %d, where %d, append %d", type[0], type[1], where, type[2]);
        CHECK(!proof_solve(&c, &a), "%s: the reference", what);
        c.d.backend = "hip";
        hip_place_make(&c, &p, 0);
        attn_desc d = p.d;
        d.q.data = d.k.data = d.v.data = d.o.data = d.append.k_cache = d.append.v_cache = NULL;
        CHECK(!attn_query(&d, NULL, &plan[0]) && !attn_query(&p.d, NULL, &plan[1]), "%s: %s", what, plan[0].why);
        hip_place_free(&c, &p);

        char *moved[3];                                  /* the blocks of q, k and v, where all or one of them begin elsewhere */
        size_t by[3];
        hip_place_make(&c, &p, 0);
        const attn_in *in[3] = {&c.d.q, &c.d.k, &c.d.v};
        for (int t = 0; t < 3; t++) {
            int i = 0;
            while (in[t]->data != c.buffer[i].mem) i++;
            by[t] = n < 9 || n % 3 == t ? dtype_size(in[t]->dtype) : 0;
            hip_must(hipFree(p.block[i]), "hipFree");
            hip_must(hipMalloc((void **)&moved[t], c.buffer[i].bytes + by[t]), "hipMalloc");
            hip_must(hipMemcpy(moved[t] + by[t], c.buffer[i].mem, c.buffer[i].bytes, hipMemcpyHostToDevice), "hipMemcpy");
            p.block[i] = moved[t] + by[t];
        }
        p.d.q.data = moved[0] + by[0], p.d.k.data = moved[1] + by[1], p.d.v.data = moved[2] + by[2];
        if (p.d.append.k_cache) p.d.append.k_cache = moved[1] + by[1], p.d.append.v_cache = moved[2] + by[2];
        CHECK(!attn_query(&p.d, NULL, &plan[2]), "%s: %s", what, plan[2].why);
        CHECK(plan[0].workspace_size > 0 && plan[0].workspace_size == plan[1].workspace_size && plan[0].workspace_size == plan[2].workspace_size,
              "%s: %zu bytes without addresses, %zu, %zu of others", what, plan[0].workspace_size, plan[1].workspace_size, plan[2].workspace_size);
        p.d.workspace_size = plan[0].workspace_size;
        hip_must(hipMalloc(&p.workspace, p.d.workspace_size), "hipMalloc");
        p.d.workspace = p.workspace;
        CHECK(!attn_forward(&p.d), "%s: %s", what, c.message);
        hip_place_fetch(&c, &p);
        const char *wrong = proof_check(&c, &a, hip_p_unit(&p.d));
        CHECK(!wrong, "%s, %s: %s", what, plan[2].kernel, wrong);
        for (int t = 0; t < 3; t++)
            for (int i = 0; i < c.buffers; i++)
                if (p.block[i] == moved[t] + by[t]) p.block[i] = moved[t];
        hip_place_free(&c, &p);
        proof_answer_free(&a), proof_free(&c);
    }
}
static void of_type_agrees(const parts_case *shape, const int32_t type[2], int kind) {
    char what[96];
    proof_case c;
    if (!built(type[0])) return;
    in_parts(&c, shape, type[0], type[1], kind);
    snprintf(what, sizeof what, "head_dim %d, v_dim %d, %d rows, k %d, kind %d", (int)c.d.head_dim, (int)c.d.v_dim, (int)c.d.q_len, type[1], kind);
    agrees_both(&c, what);
    proof_free(&c);
}
static void parts_agree(void) {
    static const parts_case shapes[] = {{1, 900, 8, 2, 64, 0}, {3, 1100, 4, 1, 128, 0}, {16, 700, 2, 2, 72, 40}, {5, 1000, 9, 1, 256, 0}, {1, 2100, 2, 2, 30, 17},
                                        {40, 800, 2, 1, 64, 0}, {2, 800, 1, 1, 300, 0}, {17, 600, 2, 1, 128, 0}},
                            uneven[] = {{2, 600, 4, 2, 64, 128}, {1, 600, 2, 1, 128, 24}, {1, 600, 2, 1, 32, 256}};
    static const int32_t types[][2] = {{ATTN_F32, ATTN_F32}, {ATTN_F16, ATTN_F16}, {ATTN_BF16, ATTN_BF16}, {ATTN_BF16, ATTN_INT8}, {ATTN_F16, ATTN_FP8_E4M3}, {ATTN_F32, ATTN_BF16}};
    registered();
    for (int i = 0; i < 20; i++) {
        const int n = i * 7 % 48;                        /* of every shape, type and kind some */
        of_type_agrees(&shapes[n % 8], types[n / 8], (n * 5 + n / 8) % KINDS);
    }
    for (int i = 0; i < 9; i++) of_type_agrees(&uneven[i / 3], types[i % 3], PLAIN);
}
/* A part that no row sees, with NaN for values; a NaN in one far key; a part of far or of -infinite scores; one of far scores whose values are
 * NaN; nothing but -infinite scores, with finite values and with NaN; a part of -infinite scores with a NaN in a tile in its midst. */
static void parts_spoiled(void) {
    static const parts_case s = {3, 797, 4, 2, 64, 0};     /* the last tile of any kernel is not a whole one */
    static const parts_case wide = {24, 600, 4, 2, 64, 0};
    static const int32_t dtype[] = {ATTN_F32, ATTN_BF16, ATTN_F16};
    registered();
    for (int n = 0; n < 42; n += n < 18 || n >= 36 ? 1 : 2) {
        char what[48];
        proof_case c;
        const int way = n < 36 ? n / 3 % 6 : 6;
        if (!built(dtype[n % 3])) continue;
        in_parts(&c, n < 18 ? &s : &wide, dtype[n % 3], dtype[n % 3], way == 0 ? MASKED : PLAIN);
        attn_desc *d = &c.d;
        const int64_t K = d->kv_len, D = 64, row = 2 * D;
        char *k = (char *)(uintptr_t)d->k.data, *v = (char *)(uintptr_t)d->v.data;
        for (int64_t i = 0; i < d->q_len * 4; i++) element_put((void *)(uintptr_t)d->q.data, dtype[n % 3], i * D, 1);
        for (int64_t j = 0; j < K; j++) {
            const int part = j >= 256 && j < 512, hit = way == 0 || way == 3 ? part : way == 1 ? j == K - 3 : way == 6 ? j == 400 : way == 5;
            if (way == 0)
                for (int64_t i = 0; i < d->q_len * 4; i++) if (part) ((char *)(uintptr_t)d->mask.data)[i * K + j] = 0;
            if ((way == 2 || way == 3) && part) element_put(k, dtype[n % 3], j * row, -3e4);
            if (way == 4 || way == 5 || (way == 6 && j < 512)) element_put(k, dtype[n % 3], j * row, (double)float_of(0xff800000));
            if (hit) element_put(v, dtype[n % 3], j * row + 5, (double)float_of(0x7fc00000));
        }
        proof_freeze(&c);
        snprintf(what, sizeof what, "way %d, dtype %d, %d rows", way, dtype[n % 3], (int)d->q_len);
        agrees_both(&c, what);
        if (way == 2 || way == 3) {                      /* a rule for errors beside infinite scores there is none: the answer is the same */
            proof_answer a;
            CHECK(!proof_solve(&c, &a), "%s: the reference", what);
            for (int64_t j = 256; j < 512; j++) element_put(k, dtype[n % 3], j * row, (double)float_of(0xff800000));
            proof_freeze(&c);
            agrees_with(&c, &a, what);
            proof_answer_free(&a);
        }
        proof_free(&c);
    }
}
/* One key's score is far above all others, at each place of a tile in turn, plain and with masks: no exponent may be above 0. */
static void parts_peaks(void) {
    enum { B = 64, K = 600, D = 64 };
    static const int32_t dtype[] = {ATTN_F32, ATTN_BF16, ATTN_F16};
    registered();
    for (int n = 0; n < 6; n++) {
        proof_case c;
        if (!built(dtype[n % 3])) continue;
        shape(&c, B, 1, K, 1, 1, D, 0, dtype[n % 3]);
        attn_desc *d = &c.d;
        if (n < 3) {
            d->bias.dtype = ATTN_F32, c.features |= PROOF_BIAS;
            d->bias.stride[0] = d->bias.stride[1] = ATTN_BROADCAST, d->bias.stride[2] = K;
        }
        bind(&c);
        if (n < 3) memset((void *)(uintptr_t)d->bias.data, 0, K * sizeof(float));
        for (int64_t b = 0; b < B; b++) {
            const int64_t key = b + 300 * (b / 7 % 2);
            for (int64_t e = 0; e < D; e++) {
                const double q = e % 3 ? 1.5 : -1.5;
                element_put((void *)(uintptr_t)d->q.data, dtype[n % 3], b * D + e, q);
                element_put((void *)(uintptr_t)d->k.data, dtype[n % 3], (b * K + key) * D + e, q * 16);      /* 288 */
            }
        }
        proof_freeze(&c);
        agrees(&c, n < 3 ? "with a bias" : "plain");
        proof_free(&c);
    }
}
/* A sequence alone and among others, which are longer and have more rows: the same bits. */
static void parts_invariant(void) {
    enum { B = 5, Q = 40, K = 1100, H = 2 };
    static const int32_t dtype[] = {ATTN_F32, ATTN_BF16, ATTN_F16}, len_q[B] = {1, 40, 17, 2, 16}, len_k[B] = {1100, 900, 700, 200, 1025};
    registered();
    for (int n = 0; n < 6; n++) {
        const int64_t D = n < 3 ? 64 : 256;
        proof_case c;
        if (!built(dtype[n % 3])) continue;
        shape(&c, B, Q, K, H, 1, D, 0, dtype[n % 3]);
        int32_t *used_q = proof_ints(&c, B), *used_k = proof_ints(&c, B);
        memcpy(used_q, len_q, sizeof len_q), memcpy(used_k, len_k, sizeof len_k);
        c.d.flags = n % 3 < 2 ? ATTN_CAUSAL : 0, c.d.seq.used_q = used_q, c.d.seq.used_k = used_k;
        bind(&c);
        CHECK(!proof_call(&c, 0), "%s", c.message);
        for (int b = 0; b < B; b++) {
            attn_desc d = c.d;
            const size_t size = dtype_size(d.q.dtype);
            char *o = (char *)proof_zeros(Q * H * D, size);
            float *lse = (float *)proof_zeros(Q * H, 4);
            memset(&d.seq, 0, sizeof d.seq);
            d.batch = 1, d.q_len = len_q[b], d.kv_len = len_k[b];
            d.q.data = (const char *)d.q.data + (size_t)(b * Q * H * D) * size;
            d.k.data = (const char *)d.k.data + (size_t)(b * K * D) * size, d.v.data = (const char *)d.v.data + (size_t)(b * K * D) * size;
            d.o.data = o, d.lse = lse;
            CHECK(!attn_forward(&d), "%s", c.message);
            CHECK(!memcmp(o, (const char *)c.d.o.data + (size_t)(b * Q * H * D) * size, (size_t)(len_q[b] * H * D) * size), "dtype %d, dim %d, sequence %d: o alone and in the batch differ", d.q.dtype, (int)D, b);
            for (int h = 0; h < H; h++) CHECK(!memcmp(lse + h * len_q[b], c.d.lse + (b * H + h) * Q, (size_t)len_q[b] * 4), "dtype %d, sequence %d: lse differs", d.q.dtype, b);
            free(o), free(lse);
        }
        proof_free(&c);
    }
}
/* The workspace: refused a byte short, never smaller as a length or the batch grows, and none where the keys of a call are never cut. */
static void parts_workspace(void) {
    static const parts_case s = {1, 900, 8, 2, 64, 0};
    proof_case c;
    hip_place p;
    attn_plan plan;
    registered();
    in_parts(&c, &s, ATTN_BF16, ATTN_BF16, PLAIN);
    hip_place_make(&c, &p, HIP_WORKSPACE);
    CHECK(p.d.workspace_size > 0, "no workspace");
    p.d.workspace_size -= 1;
    refused(&c, &p.d, ATTN_ERR_WORKSPACE_SMALL, "a workspace one byte short");
    attn_desc d = p.d;
    d.workspace = NULL, d.workspace_size = 0;
    static const int64_t q[] = {0, 1, 2, 16, 17, 65, 900}, k[] = {1, 256, 257, 900, 5000, 70000, 1000000}, batch[] = {1, 3, 40, 900, 70000};
    size_t before[3] = {0, 0, 0};
    for (int step = 0; step < 14; step++) {              /* then of another type than q, which are laid out */
        const int i = step % 7, mixed = step > 6;
        const int64_t of[3][3] = {{q[i], 5000, 2}, {2, k[i], 2}, {2, 5000, batch[i < 5 ? i : 4]}};
        if (step == 7) d.k.dtype = d.v.dtype = ATTN_F16, memset(before, 0, sizeof before);
        for (int n = 0; n < 3; n++) {
            d.q_len = of[n][0], d.kv_len = of[n][1], d.batch = of[n][2];
            CHECK(!attn_query(&d, NULL, &plan), "%s", plan.why);
            CHECK(plan.workspace_size >= before[n], "way %d, step %d: %zu bytes after %zu", n, i, plan.workspace_size, before[n]);
            CHECK(n != 1 || mixed || (k[i] <= 64) == (plan.workspace_size == 0) || k[i] == 256, "%lld keys: %zu bytes", (long long)k[i], plan.workspace_size);
            before[n] = plan.workspace_size;
        }
    }
    hip_place_free(&c, &p);
    proof_free(&c);
}
/* Lengths, slots and pages in device memory that are anything: no access leaves the tensors. */
static void parts_garbage(void) {
    static const int32_t types[] = {ATTN_BF16, ATTN_INT8, ATTN_F32};
    registered();
    for (int n = 0; n < 24; n++) {
        proof_case c;
        hip_place p;
        const parts_case s = {2, 900, 4, 2, 64, 0};
        in_parts_begin(&c, &s, types[n % 3] == ATTN_INT8 ? ATTN_F16 : types[n % 3], types[n % 3], PLAIN);
        attn_desc *d = &c.d;
        d->batch = 2;
        int32_t *used_k = proof_ints(&c, 2), *start_k = proof_ints(&c, 2), *table = proof_ints(&c, 2 * 57);
        d->seq.used_k = used_k;
        if (n % 4 > 1) d->seq.start_k = start_k;
        used_k[0] = 900, used_k[1] = 700, start_k[0] = 0, start_k[1] = 3;
        for (int i = 0; i < 2 * 57; i++) table[i] = (i * 7) % 115;
        if (n % 2) d->seq.block_table = table, d->seq.page_size = 16, d->seq.max_pages = 57, d->seq.pages = 115;
        bind(&c);
        const int32_t wrong = wild[n / 3];
        hip_place_make(&c, &p, 0);
        const int32_t lengths[2] = {n & 4 ? wrong : 900, wrong}, starts[2] = {n & 8 ? wrong : 0, 3};
        hip_must(hipMemcpy((void *)(uintptr_t)p.d.seq.used_k, lengths, 8, hipMemcpyHostToDevice), "hipMemcpy");
        if (n % 4 > 1) hip_must(hipMemcpy((void *)(uintptr_t)p.d.seq.start_k, starts, 8, hipMemcpyHostToDevice), "hipMemcpy");
        for (int i = 0; n % 2 && i < 2 * 57; i += 5) table[i] = wrong;
        if (n % 2) hip_must(hipMemcpy((void *)(uintptr_t)p.d.seq.block_table, table, 2 * 57 * 4, hipMemcpyHostToDevice), "hipMemcpy");
        CHECK(!attn_forward(&p.d), "%s", c.message);
        hip_must(hipStreamSynchronize(p.stream), "hipStreamSynchronize");
        hip_place_free(&c, &p);
        proof_free(&c);
    }
}
/* Pages of 1, 7, 16 and 256 tokens, slots and plain rows: the same keys, and on the decode kernel the same bits. */
static void parts_pages(void) {
    static const int32_t types[] = {ATTN_BF16, ATTN_INT8, ATTN_F32, ATTN_FP8_E4M3};
    static const int64_t size[] = {1, 7, 16, 256};
    registered();
    for (int n = 0; n < 16; n++) {
        char what[48];
        proof_case c;
        const int64_t page = size[n % 4], pages = (1030 + page - 1) / page;
        const parts_case s = {n % 3 + 1, pages * page, 4, 1, n % 2 ? 128 : 64, 0};
        const int32_t kv = types[n / 4];
        in_parts_begin(&c, &s, kv == ATTN_F32 ? ATTN_F32 : ATTN_BF16, kv, PLAIN);
        attn_desc *d = &c.d;
        d->batch = 2;
        int32_t *used_k = proof_ints(&c, 2), *start_k = proof_ints(&c, 2), *table = proof_ints(&c, 2 * pages);
        used_k[0] = 1030, used_k[1] = 520, start_k[0] = 0, start_k[1] = 9;
        for (int64_t i = 0; i < 2 * pages; i++) table[i] = (int32_t)(2 * pages - i);
        d->seq.used_k = used_k, d->seq.start_k = start_k, d->seq.block_table = table, d->seq.page_size = page, d->seq.max_pages = pages, d->seq.pages = 2 * pages + 1;
        bind(&c);
        snprintf(what, sizeof what, "pages of %d, k %d", (int)page, kv);
        agrees_both(&c, what);
        proof_free(&c);
    }
}
/* Pages of device memory, codes and mixed types beside the same keys in rows of one type, of host memory: the same bits, in the batch and alone. */
static void laid_out(void) {
    enum { B = 4, Q = 40, K = 308, HEADS = 4, KV_HEADS = 2, D = 64, PAGE = 7, PAGES = K / PAGE, KV = K * KV_HEADS * D };
    static const int32_t types[][3] = {{ATTN_F16, ATTN_F16, ATTN_F16}, {ATTN_BF16, ATTN_BF16, ATTN_BF16}, {ATTN_F32, ATTN_F32, ATTN_F32}, {ATTN_F16, ATTN_INT8, ATTN_FP8_E4M3},
                                       {ATTN_BF16, ATTN_F16, ATTN_F16}, {ATTN_F32, ATTN_INT8, ATTN_INT8}},
                         len_q[B] = {40, 17, 1, 9}, len_k[B] = {308, 257, 300, 40}, start[B] = {0, 3, 248, 0};
    registered();
    for (int n = 0; n < 24; n++) {
        const int32_t *type = types[n % 6], mixed = type[0] != type[1] || type[1] != type[2], rows = mixed ? (int32_t)ATTN_F32 : type[0];
        const int paged = n / 6 % 2 == 0 || !mixed, few = n >= 12;               /* few: rows for a kernel of their own */
        const int64_t row = HEADS * D;
        proof_case c;
        hip_place p;
        if (!built(type[0])) continue;
        shape(&c, B, few ? 16 : Q, K, HEADS, KV_HEADS, D, 0, type[0]);
        attn_desc *d = &c.d;
        d->k.dtype = type[1], d->v.dtype = type[2], d->o.dtype = ATTN_F32, d->flags = n % 3 ? ATTN_CAUSAL : 0;
        int32_t *used_q = proof_ints(&c, B), *used_k = proof_ints(&c, B), *start_k = proof_ints(&c, B), *table = proof_ints(&c, B * PAGES);
        for (int b = 0; b < B; b++) used_q[b] = few && len_q[b] > 16 ? 16 : len_q[b], used_k[b] = len_k[b], start_k[b] = start[b];
        for (int i = 0; i < B * PAGES; i++) table[i] = B * PAGES - 1 - i;
        d->seq.used_q = used_q, d->seq.used_k = used_k;
        if (n % 2) d->seq.start_k = start_k;
        if (paged) d->seq.block_table = table, d->seq.page_size = PAGE, d->seq.max_pages = PAGES, d->seq.pages = B * PAGES;
        bind(&c);
        hip_place_make(&c, &p, n & 4 ? HIP_WORKSPACE : 0);
        CHECK(!attn_forward(&p.d), "%s", c.message);
        hip_place_fetch(&c, &p);
        hip_place_free(&c, &p);

        const size_t size = dtype_size(rows);
        const proof_view of_q = proof_rows_view(d, d->q.stride, d->q.layout, D), of_o = proof_rows_view(d, d->o.stride, d->o.layout, D);
        void *plain[3] = {proof_zeros(B * d->q_len * row, size), proof_zeros(B * KV, size), proof_zeros(B * KV, size)};
        for (int64_t x = 0; x < B * d->q_len * row; x++)
            element_put(plain[0], rows, x, element_get(d->q.data, d->q.dtype, proof_row(d, &of_q, x / row / d->q_len, x / row % d->q_len, x % row / D) + x % D));
        for (int t = 0; t < 2; t++) {
            const attn_in *kv = t ? &d->v : &d->k;
            const proof_view of = proof_kv_view(d, kv->stride, kv->layout, D), scales = proof_kv_view(d, kv->scale_stride, ATTN_BSHD, 1);
            for (int64_t x = 0; x < B * KV; x++) {
                const int64_t b = x / KV, j = x / D / KV_HEADS % K, h = x / D % KV_HEADS;
                const float scale = kv->scale ? kv->scale[proof_token(d, &scales, b, j, h)] : 1;
                element_put(plain[1 + t], rows, x, (double)(scale * (float)element_get(kv->data, kv->dtype, proof_token(d, &of, b, j, h) + x % D)));
            }
        }
        float *o = (float *)proof_zeros(B * d->q_len * row, 4);
        for (int b = -1; b < B; b++) {
            const int64_t b0 = b < 0 ? 0 : b, batch = b < 0 ? B : 1;
            attn_desc e = *d;
            memset(&e.seq, 0, sizeof e.seq);
            memset(&e.q, 0, sizeof e.q), memset(&e.k, 0, sizeof e.k), memset(&e.v, 0, sizeof e.v), memset(&e.o, 0, sizeof e.o);
            e.batch = batch, e.lse = NULL;
            e.q.data = (char *)plain[0] + (size_t)(b0 * d->q_len * row) * size;
            e.k.data = (char *)plain[1] + (size_t)(b0 * KV) * size, e.v.data = (char *)plain[2] + (size_t)(b0 * KV) * size;
            e.q.dtype = e.k.dtype = e.v.dtype = rows;
            e.o.data = o, e.o.dtype = ATTN_F32;
            e.seq.used_q = used_q + b0, e.seq.used_k = used_k + b0, e.seq.start_k = n % 2 ? start_k + b0 : NULL;
            CHECK(!attn_forward(&e), "%s", c.message);
            for (int64_t x = 0; x < batch * d->q_len * HEADS; x++) {
                const int64_t of = b0 + x / HEADS / d->q_len, i = x / HEADS % d->q_len;
                /* few rows of mixed types are read where they lie, by a kernel of those types */
                if (i >= used_q[of] || (mixed && used_q[of] <= 16 && len_k[of] - (n % 2 ? start[of] : 0) > 64)) continue;
                CHECK(!memcmp(o + x * D, (const float *)d->o.data + proof_row(d, &of_o, of, i, x % HEADS), D * 4),
                      "way %d, sequence %d alone: %d, row %d: other bits", n, (int)of, b >= 0, (int)i);
            }
        }
        free(o), free(plain[0]), free(plain[1]), free(plain[2]);
        proof_free(&c);
    }
}

/* -------------------------------------------------------------------------------------------------- joined rows */
enum { JB = 3, JT = 7, JH = 3, JFROM = 1, JBATCHES = 2, JTOKEN = 2, JROWS = 4, JPARTS = 5 };
static int same_number(double got, double want, double unit) {
    return isnan(want) ? isnan(got) : got == want || fabs(got - want) <= unit * fabs(want) + 1e-40;
}
/* A part of lse `most` joins [max, sum, x[dim]]. */
static void join_plainly(double *row, double most, const double *o, int64_t dim) {
    if (most == -INFINITY) return;
    const double top = row[1] == 0 || most > row[0] || isnan(most) ? most : row[0], old = row[1] == 0 ? 0 : exp(row[0] - top), weight = exp(most - top);
    for (int64_t c = 0; c < dim; c++) row[2 + c] = row[2 + c] * old + weight * (o ? o[c] : 0);
    row[1] = row[1] * old + weight;
    row[0] = top;
}
static int64_t joined_at(int64_t b, int64_t h, int64_t i, int64_t dim) { return (((JFROM + b) * JT + JTOKEN + i) * JH + h) * (dim + 2); }
/* Of device memory, waiting for nothing: the simulator's can be read here. */
static char byte_at(const char *there) {
    char x;
    if (on_simulator()) return *there;
    hip_must(hipMemcpy(&x, there, 1, hipMemcpyDeviceToHost), "hipMemcpy");
    return x;
}
/* With work that runs late: zeros come when the stream comes to them, a copy of 0 bytes waits for that, and so does giving memory back. */
static void empty_copy(void) {
    registered();
    const attn_backend *hip = attn_backend_find("hip");
    attn_desc where;
    hipStream_t stream = NULL;
    memset(&where, 0, sizeof where);
    for (int own = 0; own < 2; own++) {
        static char ones[4096];
        char *there = NULL;
        if (own) hip_must(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), "hipStreamCreateWithFlags");
        where.stream = stream;
        memset(ones, 1, sizeof ones);
        const int64_t alive = hip_alive;
        CHECK(!hip->device->get(hip->user, &where, (void **)&there, sizeof ones), "memory");
        CHECK(hip_alive == alive + 1, "memory that is not counted");
        CHECK(!hip->device->copy(hip->user, &where, there, ones, sizeof ones, 0), "ones");
        CHECK(byte_at(there) == 1 && byte_at(there + 4095) == 1, "a copy returns before it is done");
        CHECK(!hip->device->copy(hip->user, &where, there, NULL, sizeof ones, 0), "zeros");
        CHECK(!hip->device->copy(hip->user, &where, NULL, NULL, 0, 0), "nothing");
        CHECK(byte_at(there) == 0 && byte_at(there + 4095) == 0, "zeros, and what waits for them");
        hip_must(hipMemsetAsync(there, 7, sizeof ones, stream), "hipMemsetAsync");
        CHECK(!hip->device->copy(hip->user, &where, NULL, NULL, 0, 0), "nothing");
        CHECK(byte_at(there) == 7 && byte_at(there + 4095) == 7, "a copy of 0 bytes does not wait for the stream");
        hip->device->put(hip->user, &where, there);
        CHECK(hip_alive == alive, "memory that is put is not given back");
    }
    hip_must(hipStreamDestroy(stream), "hipStreamDestroy");
}
/* What attention over ranks asks of a backend: parts join rows of the state, in the order of the calls, and no other row changes; then o and lse.
 * Empty parts, whose o is NaN here, far ones, an infinite one and one of NaN; rows without keys; a sink, none, an infinite one. */
static void joined_rows(void) {
    static const float most[] = {-INFINITY, 0.5f, -3.25f, 90, -150, 1e5f, -INFINITY, -2e38f}, sinks[JH] = {1.5f, -INFINITY, 700};
    registered();
    const attn_backend *hip = attn_backend_find("hip");
    for (int n = 0; n < 8; n++) {
        const int64_t dim = n % 2 ? 70 : 20, step = dim + 3, token = JH * step + 5, batch = JROWS * token + 11, rows = JBATCHES * JH * JROWS,
                      state_size = JB * JT * JH * (dim + 2), o_size = JBATCHES * batch;
        const int32_t dtype = n / 2 % 2 ? ATTN_F64 : ATTN_F32;
        const int sink = n / 4;
        double *want = (double *)proof_zeros(state_size, 8), *got = (double *)proof_zeros(state_size, 8), *values = (double *)proof_zeros(o_size, 8);
        float lse[JBATCHES * JH * JROWS];
        void *o = proof_zeros(o_size, 8);
        attn_desc where;
        attn_joining j;
        memset(&where, 0, sizeof where), memset(&j, 0, sizeof j);
        void *memory[4];
        const size_t bytes[4] = {(size_t)state_size * 8, (size_t)o_size * 8, sizeof lse, sizeof sinks};
        for (int m = 0; m < 4; m++) CHECK(!hip->device->get(hip->user, &where, &memory[m], bytes[m]), "memory");
        for (int64_t at = 0; at < state_size; at += dim + 2) want[at] = (double)at;              /* counts for nothing: the sum is 0 */
        CHECK(!hip->device->copy(hip->user, &where, memory[0], want, bytes[0], 0), "state");
        j.state = (double *)memory[0], j.tokens = JT, j.heads = JH, j.v_dim = dim, j.lse = (float *)memory[2];
        j.o.data = memory[1], j.o.dtype = dtype, j.o.stride[0] = batch, j.o.stride[1] = token, j.o.stride[2] = step;
        j.batch = JFROM, j.batches = JBATCHES, j.token = JTOKEN, j.rows = JROWS;
        for (int part = 0; part < JPARTS; part++) {
            for (int64_t u = 0; u < rows; u++) {
                const int64_t i = u % JROWS, h = u / JROWS % JH, b = u / JROWS / JH;
                lse[u] = u == 5 || u == 1 ? -INFINITY : u == 9 && part == 2 ? INFINITY : u == 14 && part == 1 ? NAN : most[(u * 3 + part * 5 + n) % 8];
                for (int64_t c = 0; c < dim; c++) {
                    const int64_t at = b * batch + i * token + h * step + c;
                    values[at] = lse[u] == -INFINITY ? NAN : (double)(float)(sin((double)(at + part)) * 3);
                    element_put(o, dtype, at, values[at]);
                }
                join_plainly(want + joined_at(b, h, i, dim), (double)lse[u], values + b * batch + i * token + h * step, dim);
            }
            CHECK(!hip->device->copy(hip->user, &where, memory[1], o, bytes[1], 0) && !hip->device->copy(hip->user, &where, memory[2], lse, bytes[2], 0), "part");
            CHECK(!hip->device->join(hip->user, &where, &j), "join");
        }
        CHECK(!hip->device->copy(hip->user, &where, got, memory[0], bytes[0], 1), "state");
        for (int64_t at = 0; at < state_size; at++)
            CHECK(same_number(got[at], want[at], 1e-12), "%d: state[%d] of row %d is %.17g, not %.17g", n, (int)(at % (dim + 2)), (int)(at / (dim + 2)), got[at], want[at]);
        CHECK(!hip->device->copy(hip->user, &where, memory[1], NULL, bytes[1], 0) && !hip->device->copy(hip->user, &where, memory[3], sinks, bytes[3], 0), "sinks");
        if (sink) j.sink = (const float *)memory[3];
        CHECK(!hip->device->finish(hip->user, &where, &j), "finish");
        CHECK(!hip->device->copy(hip->user, &where, o, memory[1], bytes[1], 1) && !hip->device->copy(hip->user, &where, lse, memory[2], bytes[2], 1), "results");
        j.lse = NULL;
        CHECK(!hip->device->finish(hip->user, &where, &j), "finish without lse");
        for (int64_t u = 0; u < rows; u++) {
            const int64_t i = u % JROWS, h = u / JROWS % JH, b = u / JROWS / JH;
            double *row = want + joined_at(b, h, i, dim);
            const int keys = row[1] != 0;
            if (sink) join_plainly(row, (double)sinks[h], NULL, dim);
            const double l = row[1] == 0 ? -INFINITY : row[0] + log(row[1]);
            CHECK(same_number((double)lse[u], l, 1e-6), "%d: lse of row %d is %.9g, not %.9g", n, (int)u, (double)lse[u], l);
            for (int64_t c = 0; c < step; c++) {
                const double x = element_get(o, dtype, b * batch + i * token + h * step + c), y = c < dim && keys ? row[2 + c] / row[1] : 0;
                CHECK(same_number(x, y, dtype == ATTN_F64 ? 1e-12 : 1e-6), "%d: o[%d] of row %d is %.17g, not %.17g", n, (int)c, (int)u, x, y);
            }
        }
        for (int m = 0; m < 4; m++) hip->device->put(hip->user, &where, memory[m]);
        free(want), free(got), free(values), free(o);
    }
}

/* ---- graphs: with a workspace a device call is launches alone, the same whatever the lengths in device memory are */
static void captured_call(proof_case *c, hip_place *p, int backward, const char *what, int time) {
    hip_capturing = 1, hip_refused = 0;
    const attn_status s = backward ? attn_backward(&p->d, &p->g) : attn_forward(&p->d);
    hip_capturing = 0;
    CHECK(!s && !hip_refused, "%s, call %d: %s, %lld calls refused: %s", what, time, attn_status_text(s), (long long)hip_refused, c->message);
    hip_place_fetch(c, p);
}
static void new_lengths(proof_case *c, hip_place *p, const int32_t *at, const int32_t *to, int n) {
    for (int i = 0; i < c->buffers; i++) {
        proof_buffer *b = &c->buffer[i];
        const size_t offset = (size_t)((const char *)at - b->mem);
        if ((const char *)at < b->mem || offset >= b->bytes) continue;
        memcpy(b->mem + offset, to, (size_t)n * 4), memcpy(b->pristine + offset, to, (size_t)n * 4);
        hip_must(hipMemcpy((char *)p->block[i] + offset, to, (size_t)n * 4, hipMemcpyHostToDevice), "hipMemcpy");
    }
}
static void as_a_graph(proof_case *c, int backward, int host, const int32_t *at, const int32_t *to, int n, const char *what) {
    hip_place p;
    uint64_t before = 0;
    registered();
    for (int time = 0; time < 2; time++) {
        proof_answer a;
        CHECK(!proof_solve(c, &a), "%s: the reference", what);
        proof_reset(c);
        if (!time) hip_place_make(c, &p, HIP_STREAM | HIP_WORKSPACE | (host ? HIP_SEQ_HOST : 0) | (backward ? HIP_BACKWARD : 0));
        hip_launched = 0;
        captured_call(c, &p, backward, what, time);
        const char *wrong = backward ? NULL : proof_check(c, &a, hip_p_unit(&p.d));
        CHECK(!wrong, "%s, call %d: %s", what, time, wrong);
        CHECK(hip_launched && (!time || hip_launched == before), "%s: other launches for other lengths", what);
        before = hip_launched;
        proof_answer_free(&a);
        proof_reset(c);
        if (!time) {                                     /* and the outputs as they were, for the replay */
            if (at) new_lengths(c, &p, at, to, n);
            for (int i = 0; i < c->buffers; i++)
                if (c->buffer[i].bytes) hip_must(hipMemcpy(p.block[i], c->buffer[i].mem, c->buffer[i].bytes, hipMemcpyHostToDevice), "hipMemcpy");
        }
    }
    hip_place_free(c, &p);
    proof_free(c);
}
static void graphs(void) {
    static const int32_t other_k[] = {33, 70}, appended[] = {4, 0, 12}, long_k[] = {900, 257}, short_k[] = {31, 600};
    static const int32_t types[][3] = {{ATTN_F16, ATTN_F16, ATTN_F32}, {ATTN_INT8, ATTN_FP8_E4M3, ATTN_F16}};
    for (int host = 0; host < 2; host++)
        for (int32_t dtype = ATTN_F32; dtype <= ATTN_BF16; dtype++) {
            proof_case c;
            loaded(&c, dtype);
            as_a_graph(&c, 0, host, host ? NULL : c.d.seq.used_k, other_k, 2, "forward");
        }
    for (int where = IN_ROWS; where <= IN_PAGES; where++)
        for (int t = 0; t < 2; t++) {
            proof_case c;
            appending(&c, where, types[t], 1);
            as_a_graph(&c, 0, 0, c.d.seq.used_k, appended, 3, "append");
        }
    for (int rows = 1; rows <= 24; rows += 23) {         /* keys in parts */
        proof_case c;
        shape(&c, 2, rows, 1000, 4, 1, 64, 0, ATTN_F16);
        c.d.o.dtype = ATTN_F32, c.d.seq.used_k = ints(&c, long_k, 2);
        bind(&c);
        as_a_graph(&c, 0, 0, c.d.seq.used_k, short_k, 2, "parts");
    }
}

static const struct { const char *name; void (*body)(void); const char *variable, *value; int wants_it; } tests[] = {
#define TEST(f) {#f, f, NULL, NULL, 0}
#define WITH(f, variable, value) {#f, f, variable, value, 0}       /* the environment of that test */
#define SIMULATED(f, variable, value) {#f, f, variable, value, 1}  /* and no GPU will do */
    TEST(no_device), SIMULATED(other_chip, "HIPSIM_ARCH", "another"), TEST(pointers), TEST(two_devices), TEST(workspaces), TEST(workspaces_grow), WITH(sticky, "HIPSIM_ON_ERROR", "return"), TEST(sticky_or_not), TEST(declined),
    TEST(failing_calls_host), TEST(failing_calls_device), TEST(grown_buffers), TEST(nothing_leaks), TEST(nothing_is_kept), TEST(nothing_suspect_is_kept), TEST(workspace_is_enough), TEST(the_choice),
    TEST(two_threads), TEST(every_layout), TEST(tokens_backwards), TEST(conversion), TEST(the_times), TEST(times_of_a_child), TEST(garbage_lengths), TEST(batch_invariant), TEST(infinite_keys), TEST(far_scores), TEST(far_sinks), TEST(tiny_softcap), TEST(far_softcap),
    SIMULATED(nan_costs, "HIPSIM_REPORT", "a file"), TEST(full_nan), TEST(spoiled_beside_sink), TEST(far_keys), TEST(long_sums), TEST(equal_products), TEST(many_lengths), TEST(large_and_even), TEST(small_weights), TEST(light_weights), TEST(unaligned_bits), TEST(largest_scores), TEST(scores_of_any_f32), TEST(small_lse), TEST(one_large_query), TEST(as_many_as_may_be), TEST(launches_end_below_2_32), TEST(many_sequences), TEST(climbing_scores), TEST(output_types), TEST(no_query), TEST(odd_strides_of_one), TEST(all_lengths), TEST(no_code),
    WITH(far_apart, "HIPSIM_POISON", "0"), WITH(far_apart_gradients, "HIPSIM_POISON", "0"),
    TEST(backward_agrees), TEST(backward_stays), TEST(backward_pointers), TEST(backward_workspaces), TEST(backward_bias_shapes), TEST(backward_of_nothing), TEST(backward_sink_of_nothing), TEST(backward_spoiled), TEST(backward16_agrees), TEST(backward16_spoiled), TEST(backward16_spoiled_wide), TEST(backward16_range), TEST(backward16_ends), TEST(backward16_largest), TEST(backward16_mean), TEST(backward_far), TEST(backward_any_lse), TEST(backward_cancelling), TEST(far_windows), TEST(hidden_by_f64), TEST(backward_one_above),
    TEST(backward_long_sums), TEST(backward_invariant), TEST(backward_pieces), TEST(scalar_rows), TEST(infinite_multipliers), TEST(backward16_far_dlse), TEST(backward16_whole), TEST(numbers_of_heads), TEST(backward_beyond_tiles), WITH(unordered_pieces, "HIPSIM_DEFER", "3"), TEST(backward_garbage), TEST(backward_wide), TEST(failing_backward_host), TEST(failing_backward_device),
    TEST(cache_bytes), TEST(shared_slots), TEST(garbage_pages), TEST(spoiled_codes), TEST(cache_pointers), TEST(pointers_of_nothing), TEST(failing_append_host), TEST(failing_append_device), TEST(beside_a_capture), TEST(kept_memory_goes),
    TEST(merge_bits), TEST(merge_refused), TEST(joined_rows), WITH(empty_copy, "HIPSIM_DEFER", "3"),
    TEST(parts_agree), TEST(scales_apart), TEST(shared_rows), TEST(pages_beyond_2_32), TEST(backward_backwards), TEST(gradients_of_their_own_types), TEST(few_rows_unaligned), TEST(packed_append), TEST(bytes_of_an_append), TEST(bias_of_its_own_type), TEST(parts_by_one_array), TEST(parts_in_turns), TEST(parts_of_pages), TEST(parts_masked), TEST(spoiled_apart), TEST(saturated_windows), TEST(rows_apart), TEST(whole_tiles), TEST(laid_out_whole), TEST(parts_appended), TEST(parts_anywhere), TEST(parts_spoiled), TEST(parts_peaks), TEST(parts_invariant), TEST(parts_workspace), TEST(parts_garbage), TEST(parts_pages), TEST(laid_out), TEST(graphs),
};
enum { TESTS = sizeof tests / sizeof *tests };

static void in_child(void **state) {
    const size_t i = (size_t)(uintptr_t)*state;
    int status = 0;
    fflush(stdout);
    if (!on_simulator() && tests[i].wants_it) skip();
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {                                        /* a new process: the runtime reads the environment when it is loaded */
        char number[16], file[64];
        const char *value = tests[i].value, *chip = getenv("HIPSIM_ARCH");
        if (value && !strcmp(value, "another")) value = chip && !strcmp(chip, "gfx1100") ? "gfx942" : "gfx1100";
        snprintf(file, sizeof file, "/tmp/hip_unit_%d.json", (int)getpid());
        if (value && !strcmp(value, "a file")) value = file;
        if (value) setenv(tests[i].variable, value, 1);
        snprintf(number, sizeof number, "%zu", i);
        execl("/proc/self/exe", "hip_unit", "--body", number, (char *)NULL);
        _exit(127);
    }
    assert_true(waitpid(child, &status, 0) == child);
    if (status) fail_msg("%s %d", WIFSIGNALED(status) ? "signal" : "exit status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}
int main(int argc, char **argv) {
    struct CMUnitTest list[TESTS];
    memset(list, 0, sizeof list);
    if (argc == 3 && !strcmp(argv[1], "--body")) {
        const size_t i = (size_t)atoi(argv[2]);
        report = fdopen(dup(1), "w");
        if (i < TESTS) tests[i].body();
        return i >= TESTS;
    }
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const char *half = getenv("HIP_HALF");               /* 0 or 1: every other test; nothing: all */
    size_t count = 0;
    for (size_t i = 0; i < TESTS; i++)
        if (!half || !*half || i % 2 == (*half == '1')) {
            list[count].name = tests[i].name, list[count].test_func = in_child, list[count].initial_state = (void *)(uintptr_t)i;
            count++;
        }
    return _cmocka_run_group_tests("hip_unit", list, count, NULL, NULL);
}
