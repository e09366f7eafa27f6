/* pool.c - attention on threads of your own: attn.h starts none. What it asks of a pool is one
 * function, equivalent to for (i = 0; i < n; i++) task(arg, i); in any order, on any threads.
 *
 *   cc -O2 -I. examples/pool.c -o pool -pthread -lm && ./pool */
#define ATTN_IMPLEMENTATION
#include "attn.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { WORKERS = 3 };

typedef struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    pthread_t thread[WORKERS];
    void (*task)(void *arg, int64_t i);
    void *arg;
    /* tasks not yet taken begin at next; left are not finished */
    int64_t next, n, left;
    int stop;
    int64_t ran; /* tasks that a worker ran, to show that it did */
} pool;

static int one_task(pool *p) /* with the lock held; 0: there was none */
{
    int64_t i = p->next;
    if (i >= p->n) return 0;
    p->next++;
    pthread_mutex_unlock(&p->lock);
    p->task(p->arg, i);
    pthread_mutex_lock(&p->lock);
    if (--p->left == 0) pthread_cond_broadcast(&p->done);
    return 1;
}

static void *worker(void *user) {
    pool *p = user;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        if (one_task(p)) p->ran++;
        else pthread_cond_wait(&p->work, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void pool_run(void *user, void (*task)(void *arg, int64_t i), void *arg, int64_t n) {
    pool *p = user;
    pthread_mutex_lock(&p->lock);
    p->task = task, p->arg = arg;
    p->next = 0, p->n = p->left = n;
    pthread_cond_broadcast(&p->work);
    while (one_task(p)) {} /* the caller works too */
    while (p->left) pthread_cond_wait(&p->done, &p->lock);
    p->n = p->next = 0;
    pthread_mutex_unlock(&p->lock);
}

enum { N = 256 * 8 * 64 };
static float q[N], k[N], v[N], alone[N], pooled[N];

int main(void) {
    static pool p = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER,
        {0}, NULL, NULL, 0, 0, 0, 0, 0};
    attn_pool threads = {pool_run, &p, WORKERS + 1};
    attn_desc d = {0};
    attn_status s;
    int i;
    for (i = 0; i < N; i++) {
        q[i] = sinf((float)i);
        k[i] = cosf((float)(3 * i));
        v[i] = sinf((float)(7 * i));
    }
    for (i = 0; i < WORKERS; i++)
        if (pthread_create(&p.thread[i], NULL, worker, &p)) return 1;
    d.batch = 1;
    d.q_len = d.kv_len = 256;
    d.heads = 8;
    d.head_dim = 64;
    d.q.data = q, d.k.data = k, d.v.data = v;

    d.threads = 1;
    d.o.data = alone;
    s = attn_forward(&d);
    d.threads = 0;
    d.pool = &threads;
    d.o.data = pooled;
    for (i = 0; i < 20 && s == ATTN_OK; i++) s = attn_forward(&d);

    pthread_mutex_lock(&p.lock);
    p.stop = 1;
    pthread_cond_broadcast(&p.work);
    pthread_mutex_unlock(&p.lock);
    for (i = 0; i < WORKERS; i++) pthread_join(p.thread[i], NULL);
    if (s) return fprintf(stderr, "%s\n", attn_status_text(s)), 1;
    printf("workers ran %d tasks; the result is %s that of one thread\n", (int)p.ran,
        memcmp(alone, pooled, sizeof alone) ? "NOT" : "bit for bit");
    return memcmp(alone, pooled, sizeof alone) != 0;
}
