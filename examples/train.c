/* train.c - training through attention: forward, backward, a step against the gradient; first the
 * gradients are checked.
 *
 *   cc -O2 -I. examples/train.c -o train -pthread -lm && ./train
 *
 * The task: q, k and v are the parameters, and the output is to become a given target. */
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 12, HEADS = 2, DIM = 8, N = TOKENS * HEADS * DIM, STEPS = 200 };
static float param[3][N], grad[3][N], o[N], dout[N], target[N], lse[HEADS * TOKENS];

static void must(attn_status s) {
    if (s == ATTN_OK) return;
    fprintf(stderr, "%s\n", attn_status_text(s));
    exit(1);
}

static double loss(const attn_desc *d) /* mean square; leaves its gradient in dout */
{
    double sum = 0;
    int i;
    must(attn_forward(d));
    for (i = 0; i < N; i++) {
        double e = (double)o[i] - (double)target[i];
        sum += e * e;
        dout[i] = (float)(2 * e / N);
    }
    return sum / N;
}

int main(void) {
    attn_desc d = {0};
    attn_grad g = {0};
    double first, last, worst = 0;
    int i, t, step;
    for (i = 0; i < N; i++) {
        target[i] = cosf(0.37f * (float)i);
        for (t = 0; t < 3; t++) param[t][i] = sinf((float)(i * (t + 2)));
    }
    d.batch = 1;
    d.q_len = d.kv_len = TOKENS;
    d.heads = HEADS;
    d.head_dim = DIM;
    d.flags = ATTN_CAUSAL;
    d.q.data = param[0], d.k.data = param[1], d.v.data = param[2];
    d.o.data = o;
    d.lse = lse; /* the backward pass needs it */
    g.dout.data = dout;
    g.dq.data = grad[0], g.dk.data = grad[1], g.dv.data = grad[2];

    /* 1. the gradients agree with what a small change of each parameter does */
    first = loss(&d);
    must(attn_backward(&d, &g));
    for (t = 0; t < 3; t++)
        for (i = 0; i < N; i += 5) {
            const float h = 0x1p-6f, x = param[t][i];
            double up, down;
            param[t][i] = x + h, up = loss(&d);
            param[t][i] = x - h, down = loss(&d);
            param[t][i] = x;
            worst = fmax(worst, fabs((up - down) / (2 * (double)h) - (double)grad[t][i]));
        }

    /* 2. descend */
    for (step = 0; step < STEPS; step++) {
        loss(&d);
        must(attn_backward(&d, &g));
        for (t = 0; t < 3; t++)
            for (i = 0; i < N; i++) param[t][i] -= 10 * grad[t][i];
    }
    last = loss(&d);
    printf("gradients within %.1e; loss %.4f -> %.4f in %d steps\n", worst, first, last, STEPS);
    return !(worst < 2e-5 && last < first / 10);
}
