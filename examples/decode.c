/* decode.c - a language model writes token after token: a cache in bf16, new keys appended with
 * rotary embedding, a workspace that is asked for once, sampling.
 *
 *   cc -O2 -I. examples/decode.c -o decode -pthread -lm && ./decode
 *
 * The weights are random, so the text has no meaning; the calls are those of an inference engine. */
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY = 64, WIDTH = 64, LAYERS = 2, HEADS = 4, KV_HEADS = 2, DIM = 16 };
enum { CAPACITY = 128, PROMPT = 7, LENGTH = 48, Q = HEADS * DIM, KV = KV_HEADS * DIM };
typedef struct layer {
    float q[WIDTH][Q], k[WIDTH][KV], v[WIDTH][KV], o[Q][WIDTH];
    uint16_t k_cache[CAPACITY][KV], v_cache[CAPACITY][KV]; /* bf16 */
} layer;
static float embedding[VOCABULARY][WIDTH], cosine[CAPACITY][DIM / 2], sine[CAPACITY][DIM / 2];
static layer layers[LAYERS];
static void *workspace;
static size_t workspace_size;

static float uniform(void) /* in (-1, 1) */
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(int64_t)state * 0x1p-63);
}

static void fill(float *to, int n, float size) {
    for (int i = 0; i < n; i++) to[i] = size * uniform();
}

static void must(attn_status s) {
    if (s == ATTN_OK) return;
    fprintf(stderr, "%s\n", attn_status_text(s));
    exit(1);
}

/* out[n][columns] = x[n][rows] w[rows][columns] */
static void multiply(float *out, const float *x, const float *w, int n, int rows, int columns) {
    for (int i = 0; i < n; i++)
        for (int c = 0; c < columns; c++) {
            float sum = 0;
            for (int r = 0; r < rows; r++) sum += x[i * rows + r] * w[r * columns + c];
            out[i * columns + c] = sum;
        }
}

/* n new tokens of one sequence, whose cache has *used: attention over both. */
static attn_desc describe(layer *l, int n, const int32_t *used) {
    attn_desc d = {0};
    d.batch = 1, d.q_len = n, d.kv_len = CAPACITY;
    d.heads = HEADS, d.kv_heads = KV_HEADS, d.head_dim = DIM;
    d.flags = ATTN_CAUSAL; /* the last of the new tokens sees all keys */
    d.k.data = l->k_cache, d.v.data = l->v_cache;
    d.k.dtype = d.v.dtype = ATTN_BF16;
    d.seq.used_k = used;
    /* the new keys are rotated, rounded to bf16 and written behind the used ones before anything
     * is read; naming the caches again is the permission to write there */
    d.append.k_cache = l->k_cache, d.append.v_cache = l->v_cache, d.append.len = n;
    d.append.rotary_cos = cosine[0], d.append.rotary_sin = sine[0];
    d.append.rotary_dim = DIM, d.append.rotary_rows = CAPACITY;
    d.workspace = workspace, d.workspace_size = workspace_size;
    return d;
}

/* The logits of what follows n tokens, the first `used` of the text being in the caches already. */
static void forward(const int *token, int n, int32_t used, float logits[VOCABULARY]) {
    static float x[LENGTH][WIDTH], y[LENGTH][WIDTH], q[LENGTH][Q], k[LENGTH][KV], v[LENGTH][KV],
        o[LENGTH][Q];
    for (int i = 0; i < n; i++) memcpy(x[i], embedding[token[i]], sizeof x[i]);
    for (int m = 0; m < LAYERS; m++) {
        layer *l = &layers[m];
        attn_desc d = describe(l, n, &used);
        multiply(q[0], x[0], l->q[0], n, WIDTH, Q);
        multiply(k[0], x[0], l->k[0], n, WIDTH, KV);
        multiply(v[0], x[0], l->v[0], n, WIDTH, KV);
        d.q.data = q, d.append.k.data = k, d.append.v.data = v, d.o.data = o;
        must(attn_forward(&d));
        multiply(y[0], o[0], l->o[0], n, Q, WIDTH);
        for (int i = 0; i < n; i++)
            for (int c = 0; c < WIDTH; c++) x[i][c] += y[i][c];
    }
    for (int t = 0; t < VOCABULARY; t++) {
        logits[t] = 0;
        for (int c = 0; c < WIDTH; c++) logits[t] += 0.125f * x[n - 1][c] * embedding[t][c];
    }
}

static int sample(const float logits[VOCABULARY], float temperature) {
    float largest = logits[0], sum = 0, at;
    for (int t = 1; t < VOCABULARY; t++) largest = fmaxf(largest, logits[t]);
    for (int t = 0; t < VOCABULARY; t++) sum += expf((logits[t] - largest) / temperature);
    at = 0.5f * (uniform() + 1) * sum;
    for (int t = 0; t < VOCABULARY; t++)
        if ((at -= expf((logits[t] - largest) / temperature)) < 0) return t;
    return VOCABULARY - 1;
}

/* Enough for a prompt and for a single token: asked for once, so that no call allocates. */
static void get_workspace(void) {
    static const int lengths[] = {LENGTH, 1};
    const int32_t used = 0;
    for (int i = 0; i < 2; i++) {
        attn_desc d = describe(&layers[0], lengths[i], &used);
        attn_plan plan;
        d.workspace = NULL, d.workspace_size = 0;
        d.q.data = d.append.k.data = d.append.v.data = d.o.data = embedding; /* not touched */
        must(attn_query(&d, NULL, &plan));
        if (plan.workspace_size > workspace_size) workspace_size = plan.workspace_size;
    }
    if (!workspace_size) return;
    char *memory = malloc(workspace_size + 63);
    if (!memory) must(ATTN_ERR_MEMORY);
    workspace = memory + (-(uintptr_t)memory & 63); /* aligned to 64 bytes */
}

int main(void) {
    int text[LENGTH] = {7, 21, 3, 3, 40, 9, 1}, n = PROMPT;
    float logits[VOCABULARY], again[VOCABULARY], worst = 0;
    fill(embedding[0], VOCABULARY * WIDTH, 1);
    for (int m = 0; m < LAYERS; m++) {
        fill(layers[m].q[0], WIDTH * Q, 0.2f), fill(layers[m].k[0], WIDTH * KV, 0.2f);
        fill(layers[m].v[0], WIDTH * KV, 0.2f), fill(layers[m].o[0], Q * WIDTH, 0.2f);
    }
    for (int p = 0; p < CAPACITY; p++)
        for (int i = 0; i < DIM / 2; i++) {
            double angle = p * pow(10000, -2.0 * i / DIM);
            cosine[p][i] = (float)cos(angle), sine[p][i] = (float)sin(angle);
        }
    get_workspace();

    forward(text, n, 0, logits); /* the prompt at once */
    while (n < LENGTH) {         /* then a token a step */
        text[n++] = sample(logits, 1);
        forward(&text[n - 1], 1, n - 1, logits);
    }
    for (int i = 0; i < n; i++) printf("%d%c", text[i], i < n - 1 ? ' ' : '\n');

    forward(text, n, 0, again); /* the whole text at once, over the same caches */
    for (int t = 0; t < VOCABULARY; t++) worst = fmaxf(worst, fabsf(logits[t] - again[t]));
    printf("largest difference of a logit, token by token and at once: %g\n", (double)worst);
    return !(worst < 1e-3f);
}
