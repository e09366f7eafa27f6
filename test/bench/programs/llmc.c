/* llmc.c - the attention of llm.c's train_gpt2.c beside attn.h's, on the same random data: results compared, then both timed.
 *
 *   test/bench/programs.sh llm.c DIR [B T]     DIR: a checkout of llm.c
 *
 * PROGRAM is DIR/train_gpt2.c, compiled without its main. attn.h gets what those two functions get (llmc.h). */
#define TESTING
#include PROGRAM
#include "llmc.h"

static float *array(size_t n, int random)
{
    float *x = calloc(n, sizeof *x);
    unsigned state = 12345;
    if (!x) puts("out of memory"), exit(1);
    for (size_t i = 0; i < n; i += 1024) ((volatile float *)x)[i] = 0;    /* pages come here, not in what is timed */
    for (size_t i = 0; i < n && random; i++) state = state * 1664525u + 1013904223u, x[i] = (float)(state >> 8) / (1 << 23) - 1;
    return x;
}
static double largest_difference(const float *a, const float *b, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}
int main(int argc, char **argv)
{
    enum { C = 768, NH = 12 };                            /* GPT-2 124M */
    const int B = argc > 2 ? atoi(argv[1]) : 4, T = argc > 2 ? atoi(argv[2]) : 1024;
    const size_t rows = (size_t)B * (size_t)T, scores = rows * NH * (size_t)T;
    float *inp = array(rows * 3 * C, 1), *dout = array(rows * C, 1), *lse = array(rows * NH, 0), *out[2], *dinp[2];
    float *work[4];                                       /* preatt, att and their gradients */
    double seconds[2][2];
    for (int i = 0; i < 4; i++) work[i] = array(scores, 0);
    for (int i = 0; i < 2; i++) out[i] = array(rows * C, 0), dinp[i] = array(rows * 3 * C, 0);
    float *other = array(rows * 3 * C, 0);
    ours_forward(out[1], lse, inp, B, T, C, NH);          /* starts the threads */
    ours_backward(other, dout, out[1], lse, inp, B, T, C, NH);
    double at = attn_seconds();
    attention_forward(out[0], work[0], work[1], inp, B, T, C, NH);
    seconds[0][0] = attn_seconds() - at, at = attn_seconds();
    attention_backward(dinp[0], work[2], work[3], dout, inp, work[1], B, T, C, NH);
    seconds[0][1] = attn_seconds() - at, at = attn_seconds();
    attn_status s = ours_forward(out[1], lse, inp, B, T, C, NH);
    seconds[1][0] = attn_seconds() - at, at = attn_seconds();
    if (!s) s = ours_backward(dinp[1], dout, out[1], lse, inp, B, T, C, NH);
    seconds[1][1] = attn_seconds() - at;
    const double worst[2] = { largest_difference(out[0], out[1], rows * C), largest_difference(dinp[0], dinp[1], rows * 3 * C) };
    printf("one layer, B %d T %d C %d, %d heads: forward %.1f ms by llm.c, %.1f by attn.h; backward %.0f ms, %.1f; largest differences %.1e, %.1e; "
           "scores of %.0f MB, lse of %.1f MB\n", B, T, C, NH, 1e3 * seconds[0][0], 1e3 * seconds[1][0], 1e3 * seconds[0][1], 1e3 * seconds[1][1],
           worst[0], worst[1], 16e-6 * (double)scores, 4e-6 * (double)(rows * NH));
    return s || !(worst[0] < 1e-4) || !(worst[1] < 1e-3);
}
