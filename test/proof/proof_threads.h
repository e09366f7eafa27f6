/* proof_threads.h - what threads.c and process.c share: two tasks that need two threads, and how many threads there are. They define
 * _GNU_SOURCE before it. */
#ifndef PROOF_THREADS_H
#define PROOF_THREADS_H
#include "proof_unit.h"
#include <unistd.h>

typedef attn_status parallel_call(const attn_desc *, void (*)(void *, int64_t), void *, int64_t);

/* Two tasks that wait for each other: only two threads finish them. False after a minute. */
static int arrived, missed;
SHARED void meet(void *arg, int64_t i) {
    (void)arg, (void)i;
    __atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
    for (int ms = 0; __atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < 2; ms++) {
        if (ms == 60000) { __atomic_store_n(&missed, 1, __ATOMIC_SEQ_CST); return; }
        usleep(1000);
    }
}
SHARED int two_at_once(parallel_call *parallel) {
    attn_desc where;
    memset(&where, 0, sizeof where);
    where.threads = 2;
    arrived = missed = 0;
    return parallel(&where, meet, NULL, 2) == ATTN_OK && !missed;
}
/* The threads of this process, as the kernel counts them: one that was joined may be among them for a moment. */
SHARED int threads_alive(void) {
    int n = 0;
    char line[200];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) if (!strncmp(line, "Threads:", 8)) n = atoi(line + 8);
    if (f) fclose(f);
    return n;
}
#endif
