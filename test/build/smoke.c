/* smoke.c - one small program, C and C++ alike, that proves a way of building attn.h: every backend against the reference,
 * conversion, threads. With SMOKE_LINK the implementation is elsewhere. Exit status 0 when all is right. */
#include <stddef.h>
#ifndef SMOKE_LINK
#define ATTN_IMPLEMENTATION
#endif
#include "attn.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* the largest of the shapes below */
enum { B = 2, SQ = 67, SK = 150, H = 4, HK = 2, D = 128, NQ = B * SQ * H * D, NK = B * SK * HK * D, ROWS = B * H * SQ };
static const struct { int64_t q_len, kv_len, head_dim; uint32_t flags; int64_t window_left; } shapes[] = {
    { 37, 45, 40, ATTN_CAUSAL, 0 }, { 67, 150, 128, 0, 0 }, { 1, 131, 64, 0, 0 }, { 50, 33, 3, ATTN_CAUSAL, 0 },
    { 64, 64, 64, ATTN_CAUSAL | ATTN_WINDOW_LEFT, 9 }, { 20, 70, 17, ATTN_WINDOW_LEFT | ATTN_WINDOW_RIGHT, 30 },
};

#ifdef SMOKE_SECOND                             /* in the other translation unit: the same library, or with ATTN_STATIC its own */
extern const char *smoke_second(void);
#endif

static uint32_t state = 1;
static float random_float(void)                 /* about N(0, 1): the sum of 12 uniform numbers */
{
    float sum = 0;
    int i;
    for (i = 0; i < 12; i++) {
        state = state * 1664525u + 1013904223u;
        sum += (float)(state >> 8) / 16777216.0f;
    }
    return sum - 6;
}

static void mark(void *arg, int64_t i) { ((unsigned char *)arg)[i] = 1; }

static float q[NQ], k[NK], v[NK], o[NQ], o_ref[NQ], lse[ROWS], lse_ref[ROWS], dout[NQ], dq[NQ], dk[NK], dv[NK];
static float dq_ref[NQ], dk_ref[NK], dv_ref[NK], back[NQ];
static uint16_t half[NQ], half2[NQ];
static int faults;

static void near(const char *backend, const char *what, const float *a, const float *b, int n, float tolerance)
{
    int i;
    for (i = 0; i < n; i++) {
        float diff = a[i] > b[i] ? a[i] - b[i] : b[i] - a[i], size = b[i] > 0 ? b[i] : -b[i];
        if (a[i] == b[i]) continue;             /* two infinities, too */
        if (!(diff <= tolerance * (1 + size))) {
            printf("%s: %s[%d] = %.9g, not %.9g\n", backend, what, i, (double)a[i], (double)b[i]);
            faults++;
            return;
        }
    }
}

static void expect(attn_status s, const char *what)
{
    if (s == ATTN_OK) return;
    printf("%s: %s\n", what, attn_status_text(s));
    faults++;
}

int main(void)
{
    attn_desc d;
    attn_grad g;
    attn_plan plan;
    attn_in in;
    attn_out out;
    int64_t shape[4];
    unsigned char seen[100];
    int i, j, backends = 0;
    memset(&d, 0, sizeof d);
    memset(&g, 0, sizeof g);
    for (i = 0; i < NQ; i++) q[i] = random_float(), dout[i] = random_float();
    for (i = 0; i < NK; i++) k[i] = random_float(), v[i] = random_float();
    d.batch = B; d.heads = H; d.kv_heads = HK;
    d.q.data = q; d.k.data = k; d.v.data = v;
    g.dout.data = dout;
    for (j = 0; j < (int)(sizeof shapes / sizeof *shapes); j++) {
        int nq = (int)(B * H * shapes[j].q_len * shapes[j].head_dim), nk = (int)(B * HK * shapes[j].kv_len * shapes[j].head_dim);
        d.q_len = shapes[j].q_len; d.kv_len = shapes[j].kv_len; d.head_dim = shapes[j].head_dim;
        d.flags = shapes[j].flags; d.window_left = shapes[j].window_left;
        d.backend = "reference"; d.o.data = o_ref; d.lse = lse_ref;
        g.dq.data = dq_ref; g.dk.data = dk_ref; g.dv.data = dv_ref;
        expect(attn_forward(&d), "reference forward");
        expect(attn_backward(&d, &g), "reference backward");
        for (i = 0; attn_backend_at(i); i++) {
            const char *name = attn_backend_at(i)->name;
            if (!strcmp(name, "adaptive")) continue; /* it needs a tolerance, and more rows */
            d.backend = name;
            d.o.data = o; d.lse = lse;
            memset(o, 0, sizeof o);
            expect(attn_forward(&d), name);
            near(name, "o", o, o_ref, nq, 2e-6f);
            near(name, "lse", lse, lse_ref, (int)(B * H * d.q_len), 2e-6f);
            backends++;
            d.o.data = o_ref; d.lse = lse_ref;
            g.dq.data = dq; g.dk.data = dk; g.dv.data = dv;
            if (attn_query(&d, &g, &plan) == ATTN_OK) {
                expect(attn_backward(&d, &g), name);
                near(name, "dq", dq, dq_ref, nq, 1e-5f);
                near(name, "dk", dk, dk_ref, nk, 1e-5f);
                near(name, "dv", dv, dv_ref, nk, 1e-5f);
            }
        }
    }
    if (backends < 2 * (int)(sizeof shapes / sizeof *shapes)) printf("only %d backends\n", backends), faults++;

    memset(&in, 0, sizeof in);
    memset(&out, 0, sizeof out);
    shape[0] = B; shape[1] = SQ; shape[2] = H; shape[3] = D;
    in.data = q; out.data = half; out.dtype = ATTN_BF16; out.layout = ATTN_BHSD;
    expect(attn_convert(shape, in, out, &d), "convert f32 to bf16");
    in.data = half; in.dtype = ATTN_BF16; in.layout = ATTN_BHSD;
    out.data = back; out.dtype = ATTN_F32; out.layout = ATTN_BSHD;
    expect(attn_convert(shape, in, out, &d), "convert bf16 to f32");
    near("convert", "bf16", back, q, NQ, 0.004f);
    in.data = back; in.dtype = ATTN_F32; in.layout = ATTN_BSHD;
    out.data = half2; out.dtype = ATTN_BF16; out.layout = ATTN_BHSD;
    expect(attn_convert(shape, in, out, &d), "convert back");
    if (memcmp(half, half2, sizeof half)) printf("bf16 does not come back\n"), faults++;

    memset(seen, 0, sizeof seen);
    d.threads = 3;
    expect(attn_parallel(&d, mark, seen, 100), "parallel");
    for (i = 0; i < 100; i++) faults += seen[i] != 1;
    d.kv_heads = 3;
    if (attn_forward(&d) != ATTN_ERR_HEADS) printf("3 kv_heads for 4 heads are taken\n"), faults++;
#ifdef SMOKE_SECOND
    if (strcmp(smoke_second(), attn_isa())) printf("two translation units disagree\n"), faults++;
#endif
    attn_shutdown();
    if (faults) printf("%d faults on %s\n", faults, attn_isa());
    return faults != 0;
}
