/* parts.c - one small program for every build of attn.h that leaves parts out: what is left is right, and what is asked for in vain
 * is declined by the status that says so. Any hosted C99; with PARTS_BARE a Cortex-M without an operating system, which writes
 * through its debugger (semihosting). Prints one line; exit status 0 when all is right. */
#include <stddef.h>
#if defined(PARTS_BARE) || defined(ATTN_NO_MALLOC)
#define PARTS_WORKSPACE 1
#else
#define PARTS_WORKSPACE 0
#endif
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <math.h>

enum { HEADS = 4, KV_HEADS = 2, DIM = 24, ROWS = 13, KEYS = 70, NQ = ROWS * HEADS * DIM, NK = KEYS * KV_HEADS * DIM };
static float q[NQ], k[NK], v[NK], o[NQ], grad[3][NK];
#if defined(PARTS_BARE)
enum { ROOM = 1 << 17 };
#else
enum { ROOM = 1 << 20 };
#endif
static union { char bytes[ROOM]; double align; } room;
static int faults, checks;

#if defined(PARTS_BARE)
static void debugger(int what, const void *arg)
{
    register int r0 __asm__("r0") = what;
    register const void *r1 __asm__("r1") = arg;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}
static void say(const char *text) { debugger(4, text); }
extern char stack_end[], bss_begin[], bss_end[];
int main(void);
void start(void);
void start(void)                                /* the FPU is on before the first float */
{
    const uint32_t ended[2] = {0x20026, 0}, failed[2] = {0x20026, 1};
    char *p;
    *(volatile uint32_t *)0xe000ed88u |= 0xfu << 20;
    for (p = bss_begin; p < bss_end; p++) *(volatile char *)p = 0;
    debugger(0x20, main() ? failed : ended);
    for (;;) {}
}
static const void *const vectors[2] __attribute__((section(".vectors"), used)) = {stack_end, (const void *)start};
#else
#include <stdio.h>
static void say(const char *text) { fputs(text, stdout); }
#endif

static void expect(int right, const char *what)
{
    checks++;
    if (right) return;
    faults++;
    say("wrong: ");
    say(what);
    say("\n");
}

static uint32_t state = 1;
static float uniform(void)
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 8388608.0f - 1;
}

/* The description of all calls; the last `keys` of the room's. */
static attn_desc description(int64_t rows, int64_t keys, uint32_t flags)
{
    attn_desc d;
    memset(&d, 0, sizeof d);
    d.batch = 1, d.heads = HEADS, d.kv_heads = KV_HEADS, d.head_dim = DIM;
    d.q_len = rows, d.kv_len = keys, d.flags = flags, d.window_left = flags & ATTN_WINDOW_LEFT ? 5 : 0;
    d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o;
    if (PARTS_WORKSPACE) {
        d.workspace = room.bytes + (64 - (uintptr_t)room.bytes % 64);
        d.workspace_size = sizeof room - 64;
    }
    return d;
}

static void forward(int64_t rows, int64_t keys, uint32_t flags, const char *what)
{
    attn_desc d = description(rows, keys, flags);
    double worst = 0, s[KEYS];
    int64_t i, h, j, c;
    memset(o, 0, sizeof o);
    expect(attn_forward(&d) == ATTN_OK, what);
    for (i = 0; i < rows; i++)
        for (h = 0; h < HEADS; h++) {
            double sum = 0;
            const float *row = q + (i * HEADS + h) * DIM;
            for (j = 0; j < keys; j++) {
                const int64_t last = i + keys - rows;
                const int seen = (!(flags & ATTN_CAUSAL) || j <= last) && (!(flags & ATTN_WINDOW_LEFT) || j >= last - 5);
                double dot = 0;
                for (c = 0; c < DIM; c++) dot += (double)row[c] * (double)k[(j * KV_HEADS + h / 2) * DIM + c];
                s[j] = seen ? exp(dot / sqrt((double)DIM)) : 0;
                sum += s[j];
            }
            for (c = 0; c < DIM; c++) {
                double x = 0;
                for (j = 0; j < keys; j++) x += s[j] / sum * (double)v[(j * KV_HEADS + h / 2) * DIM + c];
                x = fabs(x - (double)o[(i * HEADS + h) * DIM + c]);
                worst = x > worst || x != x ? x : worst;
            }
        }
    expect(worst < 1e-6, what);
}

/* A call that the build may have left out: the status, and nothing written where it did. */
static void part(int there, attn_status s, attn_status without, const char *what)
{
    expect(s == (there ? ATTN_OK : without), what);
    if (there) return;
    expect(attn_status_text(s) != NULL && attn_status_text(s)[0] != 0, what);
    for (int i = 0; i < NQ; i++) expect(o[i] == 7, what);
}

static void parts(void)
{
    attn_desc d = description(ROWS, KEYS, 0), e;
    attn_grad g;
    attn_plan plan;
    attn_in in;
    attn_out out;
    int64_t shape[4] = {1, ROWS, HEADS, DIM};
    float lse[ROWS * HEADS];
    e = d, (void)e;
    memset(&g, 0, sizeof g);
    memset(&in, 0, sizeof in);
    memset(&out, 0, sizeof out);
    for (int i = 0; i < NQ; i++) o[i] = 7;
#ifdef ATTN_NO_MALLOC
    e = d, e.workspace = NULL, e.workspace_size = 0;
    part(0, attn_forward(&e), ATTN_ERR_NO_MALLOC, "a call without a workspace");
#endif
#ifdef ATTN_NO_REFERENCE
    e = d, e.backend = "reference";
    part(0, attn_forward(&e), ATTN_ERR_BACKEND_UNKNOWN, "the reference");
#endif
#ifdef ATTN_NO_ADAPTIVE
    e = d, e.backend = "adaptive", e.tolerance = 0.01f;
    part(0, attn_forward(&e), ATTN_ERR_BACKEND_UNKNOWN, "adaptive");
    e.backend = NULL;
    expect(attn_forward(&e) == ATTN_OK, "a tolerance without adaptive");
    for (int i = 0; i < NQ; i++) o[i] = 7;
#endif
#ifdef ATTN_NO_STANDARD
    e = d, e.backend = "standard";
    part(0, attn_forward(&e), ATTN_ERR_BACKEND_UNKNOWN, "standard");
#endif
    e = d, e.q.dtype = ATTN_F64;
#if defined(ATTN_ONLY_F32)
    part(0, attn_forward(&e), ATTN_ERR_ONLY_F32, "f64");
    e = d, e.q.dtype = ATTN_BF16;
    part(0, attn_forward(&e), ATTN_ERR_ONLY_F32, "bf16");
    e = d, e.k.dtype = ATTN_INT8, e.k.scale = lse;
    part(0, attn_forward(&e), ATTN_ERR_ONLY_F32, "int8");
    e = d, e.o.dtype = ATTN_F16;
    part(0, attn_forward(&e), ATTN_ERR_ONLY_F32, "o of f16");
    e = d, e.bias.data = q, e.bias.dtype = ATTN_F16;
    part(0, attn_query(&e, NULL, &plan), ATTN_ERR_ONLY_F32, "bias of f16");
#elif defined(ATTN_NO_REFERENCE)
    part(0, attn_query(&e, NULL, &plan), ATTN_ERR_DECLINED, "f64 without the reference");
#endif
    in.data = q, out.data = o, out.layout = ATTN_BHSD;
#ifdef ATTN_NO_CONVERT
    part(0, attn_convert(shape, in, out, NULL), ATTN_ERR_NO_CONVERT, "conversion");
#else
    part(1, attn_convert(shape, in, out, NULL), ATTN_OK, "conversion");
    expect(o[DIM] == q[HEADS * DIM], "conversion");
#endif
    d.lse = lse;
    expect(attn_forward(&d) == ATTN_OK, "forward with lse");
    for (int i = 0; i < NQ; i++) o[i] = ATTN__BACKWARD ? o[i] : 7;
    g.dout.data = q, g.dq.data = grad[0], g.dk.data = grad[1], g.dv.data = grad[2];
    part(ATTN__BACKWARD, attn_query(&d, &g, &plan), ATTN_ERR_NO_BACKWARD, "a query for backward");
    part(ATTN__BACKWARD, attn_backward(&d, &g), ATTN_ERR_NO_BACKWARD, "backward");
}

int main(void)
{
    for (int i = 0; i < NQ; i++) q[i] = uniform();
    for (int i = 0; i < NK; i++) k[i] = uniform(), v[i] = uniform();
    forward(ROWS, KEYS, 0, "forward");
    forward(ROWS, KEYS, ATTN_CAUSAL, "causal");
    forward(1, KEYS, ATTN_CAUSAL, "one row");
    forward(7, 9, ATTN_CAUSAL | ATTN_WINDOW_LEFT, "window");
    parts();
    attn_shutdown();
    say(faults ? "FAILED on " : checks > 10 ? "right on " : "nothing was checked on ");
    say(attn_isa());
    say("\n");
    return faults != 0 || checks <= 10;
}
