/* masks.c - where the tensors lie: a packed QKV buffer, and masks and biases that are shared.
 *
 *   cc -O2 -I. examples/masks.c -o masks -pthread -lm && ./masks
 *
 * Strides are in elements, {batch, token, head} of q, k, v and o, {batch, head, query} of bias and
 * mask. The last dimension is always dense. ATTN_BROADCAST says that one row serves every index;
 * three zeros mean a dense tensor; attn_packed_qkv fills those of a packed buffer. */
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 2, TOKENS = 9, HEADS = 3, DIM = 8, WIDTH = HEADS * DIM };
/* what a product with one weight matrix leaves: a row of q, k and v for each token */
static float qkv[BATCH][TOKENS][3][HEADS][DIM], o[BATCH][TOKENS][HEADS][DIM];
static float expected[BATCH][TOKENS][HEADS][DIM];

static void must(attn_status s) {
    if (s == ATTN_OK) return;
    fprintf(stderr, "%s\n", attn_status_text(s));
    exit(1);
}

/* q, k and v as three views of the buffer: no copy. */
static attn_desc describe(void) {
    attn_desc d = {0};
    d.batch = BATCH, d.q_len = TOKENS, d.heads = HEADS, d.head_dim = DIM;
    must(attn_packed_qkv(&d, qkv, ATTN_F32, ATTN_QKV_3HD));
    d.o.data = o;
    return d;
}

/* The same by plain loops; term: what is added to a score, -INFINITY hides the key. */
static void plain(float (*term)(int b, int h, int i, int j)) {
    for (int b = 0; b < BATCH; b++)
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < TOKENS; i++) {
                double weight[TOKENS], sum = 0;
                for (int j = 0; j < TOKENS; j++) {
                    double score = 0;
                    for (int c = 0; c < DIM; c++)
                        score += (double)qkv[b][i][0][h][c] * (double)qkv[b][j][1][h][c];
                    sum += weight[j] = exp(score / sqrt(DIM) + (double)term(b, h, i, j));
                }
                for (int c = 0; c < DIM; c++) {
                    double x = 0;
                    for (int j = 0; j < TOKENS; j++) x += weight[j] * (double)qkv[b][j][2][h][c];
                    expected[b][i][h][c] = sum > 0 ? (float)(x / sum) : 0;
                }
            }
}

static int wrong;
static void compare(const char *what, const attn_desc *d, float (*term)(int, int, int, int)) {
    float worst = 0;
    must(attn_forward(d));
    plain(term);
    for (int n = 0; n < BATCH * TOKENS * WIDTH; n++)
        worst = fmaxf(worst, fabsf((&o[0][0][0][0])[n] - (&expected[0][0][0][0])[n]));
    printf("%-58s largest difference %.1e\n", what, (double)worst);
    wrong += !(worst < 1e-5f);
}

/* ---- what the calls below add to the scores, for the plain loops ---- */
static unsigned char padding[BATCH][TOKENS]; /* 1: a token, 0: padding */
static float position[HEADS][TOKENS][TOKENS];
static const float slope[HEADS] = {0.5f, 0.25f, 0.125f};

static float nothing(int b, int h, int i, int j) { return (void)b, (void)h, (void)i, (void)j, 0; }
static float no_padding(int b, int h, int i, int j) {
    return (void)h, (void)i, padding[b][j] ? 0 : -INFINITY;
}
static float by_position(int b, int h, int i, int j) { return (void)b, position[h][i][j]; }
static float recent(int b, int h, int i, int j) {
    if (j > i || j < i - 3) return -INFINITY;
    return (void)b, -slope[h] * (float)(i - j);
}

int main(void) {
    float *all = &qkv[0][0][0][0][0];
    for (int n = 0; n < BATCH * TOKENS * 3 * WIDTH; n++)
        all[n] = (float)((n * 37 + n / 11) % 101 - 50) / 40;
    for (int b = 0; b < BATCH; b++)
        for (int j = 0; j < TOKENS; j++) padding[b][j] = j < TOKENS - 3 * b;
    for (int n = 0; n < HEADS * TOKENS * TOKENS; n++)
        (&position[0][0][0])[n] = (float)(n % 23 - 11) / 10;

    attn_desc d = describe();
    compare("a packed QKV buffer", &d, nothing);

    /* the same tokens as two sequences, found by their ends; the longest is for the call to find */
    static const int32_t ends[BATCH + 1] = {0, TOKENS, BATCH * TOKENS};
    d = (attn_desc){0};
    d.batch = BATCH, d.heads = HEADS, d.head_dim = DIM, d.o.data = o;
    d.seq.cu_q = ends, d.seq.total_q = BATCH * TOKENS;
    must(attn_packed_qkv(&d, qkv, ATTN_F32, ATTN_QKV_3HD));
    compare("its sequences one behind the other, q_len left out", &d, nothing);

    /* one row of the mask [batch, keys] serves all heads and queries of its batch entry */
    d = describe();
    d.mask.data = padding, d.mask.dtype = ATTN_BOOL;
    d.mask.stride[0] = TOKENS, d.mask.stride[1] = d.mask.stride[2] = ATTN_BROADCAST;
    compare("a mask of padding, shared by heads and queries", &d, no_padding);

    /* a learned bias [heads, queries, keys] serves the whole batch */
    d = describe();
    d.bias.data = position;
    d.bias.stride[0] = ATTN_BROADCAST, d.bias.stride[1] = TOKENS * TOKENS,
    d.bias.stride[2] = TOKENS;
    compare("a bias of relative positions, shared by the batch", &d, by_position);

    /* what follows from the positions needs no tensor */
    d = describe();
    d.flags = ATTN_CAUSAL | ATTN_WINDOW_LEFT, d.window_left = 3, d.alibi = slope;
    compare("causal, the last four keys, ALiBi: no mask tensor", &d, recent);
    return wrong;
}
