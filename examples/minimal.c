/* minimal.c - causal attention of 8 heads over 1024 tokens.
 *
 *   cc -O2 -I. examples/minimal.c -o minimal -pthread && ./minimal */
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <stdio.h>

enum { TOKENS = 1024, HEADS = 8, DIM = 64 };
static float q[TOKENS][HEADS][DIM], k[TOKENS][HEADS][DIM], v[TOKENS][HEADS][DIM],
    o[TOKENS][HEADS][DIM];

int main(void) {
    attn_desc d = {0}; /* zero means default */
    attn_status s;
    int t, h, c;
    for (t = 0; t < TOKENS; t++)
        for (h = 0; h < HEADS; h++)
            for (c = 0; c < DIM; c++) {
                q[t][h][c] = 0.01f * (float)((t * 7 + h * 3 + c) % 97 - 48);
                k[t][h][c] = 0.01f * (float)((t * 5 + h * 11 + c) % 89 - 44);
                v[t][h][c] = (float)t;
            }
    d.batch = 1;
    d.heads = HEADS;
    d.q_len = d.kv_len = TOKENS;
    d.head_dim = DIM;
    d.q.data = q;
    d.k.data = k;
    d.v.data = v;
    d.o.data = o;
    d.flags = ATTN_CAUSAL;
    s = attn_forward(&d);
    if (s) {
        fprintf(stderr, "%s\n", attn_status_text(s));
        return 1;
    }
    /* every value of token t is t: the first token sees itself, the last an average of all */
    printf("first %.3f, last %.3f, on %s\n", (double)o[0][0][0], (double)o[TOKENS - 1][0][0],
        attn_isa());
    return !(o[0][0][0] == 0 && o[TOKENS - 1][0][0] > 0 && o[TOKENS - 1][0][0] < TOKENS - 1);
}
