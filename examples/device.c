/* device.c - attention on a GPU: tensors in device memory, on the caller's stream, asynchronously.
 *
 *   cc -O2 -I. examples/device.c attn_hip.c -o device -pthread -lm && ./device
 *   hipcc -x hip -O3 -I. examples/device.c attn_hip.c -o device -pthread && ./device
 *
 * The first line is for a machine without a GPU compiler: it builds, and says so. The second is for
 * ROCm; add --offload-arch=gfx942 for a chip that is not in the machine. */
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef __HIP__
int main(void) {
    printf("no GPU: %s\n", attn_status_text(attn_hip_register()));
    return 0;
}
#else
#include <hip/hip_runtime.h>

enum { BATCH = 2, TOKENS = 200, HEADS = 4, DIM = 64, N = BATCH * TOKENS * HEADS * DIM };

static void must(hipError_t e) {
    if (e == hipSuccess) return;
    fprintf(stderr, "%s\n", hipGetErrorString(e));
    exit(1);
}
static void *on_device(size_t bytes) {
    void *p = NULL;
    must(hipMalloc(&p, bytes));
    return p;
}

int main(void) {
    static float host[3][N], want[N], got[N];
    /* the second sequence is shorter than its buffer */
    static const int32_t lengths[BATCH] = {TOKENS, 77};
    static const int64_t shape[4] = {BATCH, TOKENS, HEADS, DIM};
    char message[200] = "";
    attn_plan plan;
    hipStream_t stream;

    /* 1. once: the backend "hip" is there from now on. attn_query says what it would do, or why
     * it would not. */
    attn_status s = attn_hip_register();
    attn_desc d;
    memset(&d, 0, sizeof d);
    d.batch = BATCH, d.q_len = d.kv_len = TOKENS, d.heads = HEADS, d.head_dim = DIM;
    d.flags = ATTN_CAUSAL;
    d.seq.used_q = d.seq.used_k = lengths;
    d.message = message, d.message_size = sizeof message;

    attn_desc gpu = d;
    /* tensors in device memory, lengths in host memory */
    gpu.flags |= ATTN_DEVICE | ATTN_SEQ_HOST;
    gpu.q.dtype = gpu.k.dtype = gpu.v.dtype = ATTN_F16;
    if (s == ATTN_OK) s = attn_query(&gpu, NULL, &plan);
    if (s != ATTN_OK) {
        printf("no GPU: %s\n", *message ? message : attn_status_text(s));
        return 0;
    }
    printf("%s on %s, workspace %zu bytes\n", plan.kernel, plan.isa, plan.workspace_size);

    /* 2. tensors: f32 to the GPU, there to f16; o stays f32. The workspace makes calls
     * free of allocations. */
    must(hipStreamCreate(&stream));
    attn_in *half[3] = {&gpu.q, &gpu.k, &gpu.v};
    gpu.stream = stream;
    void *f32 = on_device(sizeof host[0]);
    uint32_t x = 1;
    for (int t = 0; t < 3; t++) {
        for (int i = 0; i < N; i++)
            x = x * 1664525u + 1013904223u, host[t][i] = (float)(int32_t)x / 1073741824.0f;
        must(hipMemcpyAsync(f32, host[t], sizeof host[t], hipMemcpyHostToDevice, stream));
        void *f16 = on_device(N * 2);
        attn_in from;
        attn_out to;
        memset(&from, 0, sizeof from), memset(&to, 0, sizeof to);
        from.data = f32, to.data = f16, to.dtype = ATTN_F16;
        if (s == ATTN_OK) s = attn_convert(shape, from, to, &gpu);
        half[t]->data = f16;
    }
    gpu.o.data = on_device(sizeof got);
    if (plan.workspace_size) gpu.workspace = on_device(plan.workspace_size);
    gpu.workspace_size = plan.workspace_size;

    /* 3. returns at once: `lengths` may change, the tensors are in use until the stream is there */
    if (s == ATTN_OK) s = attn_forward(&gpu);
    must(hipMemcpyAsync(got, gpu.o.data, sizeof got, hipMemcpyDeviceToHost, stream));
    must(hipStreamSynchronize(stream));

    /* 4. the CPU on the same numbers, rounded to f16 */
    static uint16_t rounded[3][N];
    attn_in *in[3] = {&d.q, &d.k, &d.v};
    for (int t = 0; t < 3 && s == ATTN_OK; t++) {
        must(hipMemcpy(rounded[t], half[t]->data, sizeof rounded[t], hipMemcpyDeviceToHost));
        in[t]->data = rounded[t], in[t]->dtype = ATTN_F16;
    }
    d.o.data = want;
    if (s == ATTN_OK) s = attn_forward(&d);
    if (s != ATTN_OK) {
        fprintf(stderr, "%s\n", *message ? message : attn_status_text(s));
        return 1;
    }
    float most = 0;
    for (int i = 0; i < N; i++) most = fmaxf(most, fabsf(got[i] - want[i]));
    printf("largest difference from the CPU: %.1e\n", (double)most);

    for (int t = 0; t < 3; t++) must(hipFree((void *)(uintptr_t)half[t]->data));
    must(hipFree(f32));
    must(hipFree(gpu.o.data));
    if (gpu.workspace) must(hipFree(gpu.workspace));
    must(hipStreamDestroy(stream));
    attn_shutdown();
    return !(most < 2e-3f); /* p is rounded to f16 */
}
#endif
