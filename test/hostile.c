/* hostile.c - one line `backend hash` for each backend: everything that it writes for a fixed set of descriptions. Builds and
 * machine states that must not change a bit are compared by test/hostile.sh.
 *
 *   hostile [--count N] [--round up|down|zero] [--flush]
 *
 * --round and --flush change the caller's rounding mode, FTZ and DAZ before each call, and check that they are as they were after
 * it. The line `input` hashes the cases themselves: where it differs, the comparison says nothing. */
#include "proof.h"
#include <fenv.h>
#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#define GET_STATE() _mm_getcsr()
#define SET_STATE(x) _mm_setcsr(x)
#else
#define GET_STATE() 0u
#define SET_STATE(x) (void)(x)
#endif

static uint64_t hash_bytes(uint64_t h, const void *p, size_t n) {           /* FNV-1a */
    for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)p)[i]) * 0x100000001b3u;
    return h;
}
static uint64_t hash_case(uint64_t h, const proof_case *c, int outputs) {
    for (int i = 0; i < c->buffers; i++)
        if ((c->buffer[i].kind != PROOF_IN) == outputs) h = hash_bytes(h, c->buffer[i].mem, c->buffer[i].bytes);
    return h;
}
int main(int argc, char **argv) {
    int64_t count = 150;
    int round = FE_TONEAREST, flush = 0, broken = 0;
    uint64_t hash[16], input = 0xcbf29ce484222325u;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--flush")) flush = 1;
        else if (!strcmp(argv[i], "--count")) count = atoll(value), i++;
        else if (!strcmp(argv[i], "--round")) round = *value == 'u' ? FE_UPWARD : *value == 'd' ? FE_DOWNWARD : FE_TOWARDZERO, i++;
        else { fprintf(stderr, "hostile: unknown argument %s\n", argv[i]); return 2; }
    }
    for (int i = 0; i < 16; i++) hash[i] = 0xcbf29ce484222325u;
    for (int64_t n = 0; n < count; n++) {
        proof_rng r = {(uint64_t)n * 613 + 29, NULL, 0};
        proof_case c;
        proof_make(&c, &r, (int64_t)1 << 16);
        input = hash_case(input, &c, 0);
        for (int i = 0; attn_backend_at(i) && i < 16; i++)
            for (int backward = 0; backward <= c.backward; backward++) {
                attn_plan plan;
                c.d.backend = attn_backend_at(i)->name;
                if (proof_query(&c, backward, &plan)) continue;
                if (!backward) proof_reset(&c);
                const unsigned before = GET_STATE();
                fesetround(round);
                if (flush) SET_STATE(GET_STATE() | 0x8040u);
                const unsigned during = GET_STATE() & 0xffc0u;              /* all but the sticky exception flags */
                attn_status s = proof_call(&c, backward);
                broken += (GET_STATE() & 0xffc0u) != during || fegetround() != round;
                fesetround(FE_TONEAREST);
                SET_STATE(before);
                if (s) { printf("case %lld: %s\n", (long long)n, attn_status_text(s)); return 1; }
                hash[i] = hash_case(hash[i], &c, 1);
            }
        proof_free(&c);
    }
    printf("input %016llx\n", (unsigned long long)input);
    for (int i = 0; attn_backend_at(i) && i < 16; i++) printf("%s %016llx\n", attn_backend_at(i)->name, (unsigned long long)hash[i]);
    if (broken) printf("the caller's rounding mode, FTZ or DAZ was not restored: %d calls\n", broken);
    attn_shutdown();
    return broken != 0;
}
