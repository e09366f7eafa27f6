/* llmc_train.c - steps of llm.c's train_gpt2.c on random weights and tokens: losses, seconds a step, memory.
 *
 *   test/bench/programs.sh llm.c-train DIR [B T STEPS]     DIR: a checkout of llm.c
 *
 * PROGRAM is its train_gpt2.c, or that file with attention by attn.h in it (programs.sh), compiled without its main. The model is GPT-2 124M,
 * its weights as training begins; CHECKPOINT is written where it is missing, VERSION is that of the format. */
#define TESTING
#include "llmc.h"
#include PROGRAM
#include <sys/resource.h>

static unsigned long long state = 1234;
static float uniform(void) { return state = state * 6364136223846793005u + 1442695040888963407u, (float)(state >> 40) / (1 << 24); }
static float normal(float deviation) { return deviation * sqrtf(-2 * logf(1 - uniform())) * cosf(6.2831853f * uniform()); }
static void write_weights(FILE *f, size_t n, float mean, float deviation)
{
    for (size_t i = 0; i < n; i++) {
        const float x = mean + (deviation > 0 ? normal(deviation) : 0);
        if (fwrite(&x, sizeof x, 1, f) != 1) puts("the checkpoint cannot be written"), exit(1);
    }
}
static void write_checkpoint(const char *name)
{
    enum { L = 12, C = 768, V = 50257, ROWS = VERSION == 1 ? 50257 : 50304, MOST = 1024 };
    const int header[256] = { 20240326, VERSION, MOST, V, L, 12, C, ROWS };
    FILE *f = fopen(name, "rb");
    if (f) { fclose(f); return; }
    f = fopen(name, "wb");
    if (!f || fwrite(header, sizeof header, 1, f) != 1) puts("the checkpoint cannot be written"), exit(1);
    write_weights(f, (size_t)(ROWS + MOST) * C, 0, 0.02f);
    write_weights(f, L * C, 1, 0), write_weights(f, L * C, 0, 0);
    write_weights(f, (size_t)L * 3 * C * C, 0, 0.02f), write_weights(f, L * 3 * C, 0, 0);
    write_weights(f, (size_t)L * C * C, 0, 0.004f), write_weights(f, L * C, 0, 0);
    write_weights(f, L * C, 1, 0), write_weights(f, L * C, 0, 0);
    write_weights(f, (size_t)L * 4 * C * C, 0, 0.02f), write_weights(f, L * 4 * C, 0, 0);
    write_weights(f, (size_t)L * 4 * C * C, 0, 0.004f), write_weights(f, L * C, 0, 0);
    write_weights(f, C, 1, 0), write_weights(f, C, 0, 0);
    if (fclose(f)) puts("the checkpoint cannot be written"), exit(1);
}
int main(int argc, char **argv)
{
    const int B = argc > 3 ? atoi(argv[1]) : 4, T = argc > 3 ? atoi(argv[2]) : 1024, steps = argc > 3 ? atoi(argv[3]) : 3;
    int *tokens = malloc(((size_t)B * (size_t)T + 1) * sizeof *tokens);
    struct rusage use;
    GPT2 model;
    write_checkpoint(CHECKPOINT);
    gpt2_build_from_checkpoint(&model, CHECKPOINT);
    for (int i = 0; i <= B * T; i++) tokens[i] = (int)(uniform() * 50257);
    for (int n = 1; n <= steps; n++) {
        const double at = attn_seconds();
        gpt2_forward(&model, tokens, tokens + 1, B, T);
        const double forward = attn_seconds() - at;
        gpt2_zero_grad(&model);
        gpt2_backward(&model);
        gpt2_update(&model, 1e-4f, 0.9f, 0.999f, 1e-8f, 0, n);
        printf("step %d: loss %.6f, %.2f s, forward %.2f s of it\n", n, (double)model.mean_loss, attn_seconds() - at, forward);
        fflush(stdout);
    }
    getrusage(RUSAGE_SELF, &use);
    printf("largest resident memory %.2f GB\n", 1024e-9 * (double)use.ru_maxrss);
    return 0;
}
