/* team.c - attention in a program whose threads all run the same steps: each calls the operator, and
 * together they compute it once. No thread is started, woken or handed a task.
 *
 *   cc -O2 -I. examples/team.c -o team -pthread && ./team */
#define _POSIX_C_SOURCE 200112L
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MEMBERS = 3, STEPS = 20, KEYS = 2048, HEADS = 8, DIM = 64 };

static float k[KEYS * HEADS * DIM], v[KEYS * HEADS * DIM], q[STEPS][HEADS * DIM];
static float o[STEPS][HEADS * DIM], alone[HEADS * DIM];
static attn_team team = {.threads = MEMBERS};
static pthread_barrier_t step_done;
static int failed;

static attn_desc step_of(int step) {
    attn_desc d = {0};
    d.batch = d.q_len = 1, d.kv_len = KEYS, d.heads = HEADS, d.head_dim = DIM;
    d.q.data = q[step], d.k.data = k, d.v.data = v, d.o.data = o[step];
    return d;
}

static void *member(void *unused) {
    for (int step = 0; step < STEPS; step++) {
        const attn_desc d = step_of(step);
        if (attn_forward_team(&d, &team)) failed = 1;
        /* o[step] is complete here, for every member */
        pthread_barrier_wait(&step_done); /* a team's calls do not overlap */
    }
    return unused;
}

int main(void) {
    pthread_t thread[MEMBERS];
    int same = 1;
    for (int i = 0; i < KEYS * HEADS * DIM; i++)
        k[i] = (float)(i % 37 - 18) / 40, v[i] = (float)(i % 41 - 20) / 20;
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < HEADS * DIM; i++) q[step][i] = (float)((i + 7 * step) % 29 - 14) / 14;
    if (pthread_barrier_init(&step_done, NULL, MEMBERS)) return 1;
    for (int i = 0; i < MEMBERS; i++)
        if (pthread_create(&thread[i], NULL, member, NULL)) return 1;
    for (int i = 0; i < MEMBERS; i++) pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&step_done);
    for (int step = 0; step < STEPS; step++) {
        attn_desc d = step_of(step);
        d.o.data = alone, d.threads = 1;
        if (attn_forward(&d)) failed = 1;
        same &= !memcmp(alone, o[step], sizeof alone);
    }
    attn_shutdown();
    printf("%d steps by a team of %d: %s\n", STEPS, MEMBERS,
        failed ? "a call failed"
        : same ? "the bits of one thread"
               : "other bits than one thread's");
    return failed || !same;
}
