/* hostile.c - one line `backend hash` for each backend: everything that it writes for a fixed set of descriptions; the same of merges,
 * conversions and calls with a tolerance. Builds and machine states that must not change a bit are compared by test/proof/hostile.sh.
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
enum { FLUSH = 0x8040, CONTROL = 0xffc0 };
#elif defined(__aarch64__)
static unsigned get_fpcr(void) { uint64_t x; __asm__ volatile("mrs %0, fpcr" : "=r"(x)); return (unsigned)x; }
static void set_fpcr(uint64_t x) { __asm__ volatile("msr fpcr, %0" : : "r"(x)); }
#define GET_STATE() get_fpcr()
#define SET_STATE(x) set_fpcr(x)
enum { FLUSH = 1 << 24, CONTROL = 0x07f79f07 };
#else
#define GET_STATE() 0u
#define SET_STATE(x) (void)(x)
enum { FLUSH = 0, CONTROL = 0 };
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
/* The caller's machine state around a call: set before it, found as it was behind it. */
static int round_to = FE_TONEAREST, flush, broken;
static unsigned before, during;
static void enter(void) {
    before = GET_STATE();
    fesetround(round_to);
    if (flush) SET_STATE(GET_STATE() | FLUSH);
    during = GET_STATE() & CONTROL;                                        /* all but the sticky exception flags */
}
static void leave(void) {
    broken += (GET_STATE() & CONTROL) != during || fegetround() != round_to;
    fesetround(FE_TONEAREST);
    SET_STATE(before);
}

enum { ROWS = 5, HEADS = 3, DIM = 9, ROW = HEADS * DIM, PARTS = 3 };
static const int32_t floats[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
static void fill(proof_rng *r, int32_t dtype, void *to, int64_t n) {        /* subnormals of the narrower types among them */
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)proof_int(r, -4095, 4095) / 2048;
        element_put(to, dtype, i, proof_chance(r, 10) ? x * 0x1p-24 : dtype == ATTN_F64 && proof_chance(r, 10) ? x * 0x1p-128 : x);
    }
}
static uint64_t hash_merge(uint64_t h, int64_t n) {
    proof_rng r = {(uint64_t)n * 769 + 31, NULL, 0};
    static double o[PARTS][2 * ROWS * ROW], merged[2 * ROWS * ROW];
    static float lse[PARTS][2 * ROWS * HEADS], merged_lse[2 * ROWS * HEADS], sink[HEADS];
    const float *lses[PARTS];
    attn_in parts[PARTS];
    attn_desc d;
    memset(&d, 0, sizeof d), memset(parts, 0, sizeof parts), memset(merged, 0, sizeof merged), memset(merged_lse, 0, sizeof merged_lse);
    d.batch = 2, d.q_len = ROWS, d.kv_len = 64, d.heads = HEADS, d.head_dim = DIM, d.threads = (int32_t)(1 + n % 3);
    d.o.data = merged, d.o.dtype = floats[n % 4], d.lse = merged_lse, d.sink = n % 2 ? sink : NULL;
    for (int64_t p = 0; p < PARTS; p++) {
        parts[p].data = o[p], parts[p].dtype = n % 3 ? floats[n % 4] : floats[(n + p) % 4], lses[p] = lse[p];
        fill(&r, parts[p].dtype, o[p], 2 * ROWS * ROW), fill(&r, ATTN_F32, lse[p], 2 * ROWS * HEADS);
    }
    fill(&r, ATTN_F32, sink, HEADS);
    enter();
    const attn_status s = attn_merge(&d, PARTS, parts, lses);
    leave();
    return hash_bytes(hash_bytes(h ^ (uint64_t)s, merged, sizeof merged), merged_lse, sizeof merged_lse);
}
static uint64_t hash_convert(uint64_t h, int64_t n) {
    proof_rng r = {(uint64_t)n * 389 + 37, NULL, 0};
    static double from[2 * ROWS * ROW], to[2 * ROWS * ROW];
    const int64_t shape[4] = {2, ROWS, HEADS, DIM};
    attn_in src;
    attn_out dst;
    memset(&src, 0, sizeof src), memset(&dst, 0, sizeof dst), memset(to, 0, sizeof to);
    src.data = from, src.dtype = floats[n % 4], dst.data = to, dst.dtype = floats[n / 4 % 4];
    src.layout = n % 3 ? ATTN_BSHD : ATTN_BHSD, dst.layout = n % 5 ? ATTN_BSHD : ATTN_BHSD;
    fill(&r, src.dtype, from, 2 * ROWS * ROW);
    enter();
    const attn_status s = attn_convert(shape, src, dst, NULL);
    leave();
    return hash_bytes(h ^ (uint64_t)s, to, sizeof to);
}
/* Calls with a tolerance: of many rows, from codes, and of few, decoded from int16. The certificates of some rows fail and those of others
 * hold; at the first two tolerances one holds or not by its last bits. Everything that is written: o, cert, lse and what is told. Tiles are
 * those of an L2 cache of a MiB, whatever there is, for bits of rows that are computed exactly follow from them. */
enum { MANY = 768, WIDE = 64, FEW = 4, KEYS = 1100, CODED = (KEYS * WIDE / ATTN_PLANE + 1) * 2 * ATTN_PLANE };
static const float tolerances[] = {0.0427665897f, 0.0427180938f, 0.02f, 0.1f};
static float tolerant[3][MANY * WIDE], scales[2][KEYS];
static char codes[2][CODED];
static uint64_t fill_tolerant(uint64_t h) {
    uint32_t r = 1;
    for (int64_t i = 0; i < 3 * MANY * WIDE; i++) {      /* q, then k and v of each key */
        float *to = i < MANY * WIDE ? &tolerant[0][i] : &tolerant[1 + i % 2][i / 2 - MANY * WIDE / 2];
        r = r * 1664525u + 1013904223u;
        *to = ((float)(r >> 8) / 8388608.0f - 1) * (float)(i < MANY * WIDE && i / WIDE % 8 == 3 ? 60 : 1);
    }
    for (int64_t i = 0; i < 2 * CODED; i++) r = r * 1664525u + 1013904223u, codes[i / CODED][i % CODED] = (char)((int32_t)(r >> 24) % 61 - 30);
    for (int64_t i = 0; i < 2 * KEYS; i++) scales[i / KEYS][i % KEYS] = i / 128 % 4 ? 0x1p-10f : 0x1p-3f;
    return hash_bytes(hash_bytes(hash_bytes(h, tolerant, sizeof tolerant), codes, sizeof codes), scales, sizeof scales);
}
static uint64_t hash_tolerant(uint64_t h, int64_t n, int decode, int64_t *stay, int64_t *fail) {
    static float o[MANY * WIDE], cert[MANY], lse[MANY];
    attn_statistics told;
    attn_desc d;
    memset(&d, 0, sizeof d), memset(o, 0, sizeof o), memset(cert, 0, sizeof cert), memset(lse, 0, sizeof lse), memset(&told, 0, sizeof told);
    d.batch = d.heads = 1, d.q_len = d.kv_len = MANY, d.head_dim = WIDE, d.backend = "adaptive", d.flags = ATTN_TOLERANCE_ABSOLUTE, d.tolerance = tolerances[n % 4];
    d.q.data = tolerant[0], d.k.data = tolerant[1], d.v.data = tolerant[2], d.o.data = o, d.cert = cert, d.lse = lse, d.statistics = &told, d.threads = (int32_t)(1 + n % 3);
    if (decode) {
        d.q_len = 1, d.heads = FEW, d.kv_heads = 1, d.kv_len = KEYS, d.k.data = codes[0], d.v.data = codes[1], d.k.scale = scales[0], d.v.scale = scales[1];
        d.k.dtype = d.v.dtype = ATTN_INT16, d.tolerance /= 100;
    }
    unit_l2((int64_t)1 << 20);
    enter();
    const attn_status s = attn_forward(&d);
    leave();
    unit_l2(0);
    for (int64_t i = 0; i < (decode ? FEW : MANY); i++) *(cert[i] > 0 ? stay : fail) += 1;
    h = hash_bytes(hash_bytes(hash_bytes(h ^ (uint64_t)s, o, sizeof o), cert, sizeof cert), lse, sizeof lse);
    return hash_bytes(h, &told, sizeof told);
}
int main(int argc, char **argv) {
    int64_t count = 150, kept[2][2] = {{0, 0}, {0, 0}};
    uint64_t hash[16], input = 0xcbf29ce484222325u, merged = input, converted = input, prefilled = input, decoded = input;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--flush")) flush = 1;
        else if (!strcmp(argv[i], "--count")) count = atoll(value), i++;
        else if (!strcmp(argv[i], "--round")) round_to = *value == 'u' ? FE_UPWARD : *value == 'd' ? FE_DOWNWARD : FE_TOWARDZERO, i++;
        else { fprintf(stderr, "hostile: unknown argument %s\n", argv[i]); return 2; }
    }
    for (int i = 0; i < 16; i++) hash[i] = 0xcbf29ce484222325u;
    input = fill_tolerant(input);
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
                enter();
                attn_status s = proof_call(&c, backward);
                leave();
                if (s) { printf("case %lld: %s\n", (long long)n, attn_status_text(s)); return 1; }
                hash[i] = hash_case(hash[i], &c, 1);
            }
        proof_free(&c);
        merged = hash_merge(merged, n), converted = hash_convert(converted, n);
        if (n < 4) prefilled = hash_tolerant(prefilled, n, 0, &kept[0][0], &kept[0][1]), decoded = hash_tolerant(decoded, n, 1, &kept[1][0], &kept[1][1]);
    }
    printf("merge %016llx\nconvert %016llx\n", (unsigned long long)merged, (unsigned long long)converted);
    printf("prefill %016llx, %d rows of codes, %d others\n", (unsigned long long)prefilled, (int)kept[0][0], (int)kept[0][1]);
    printf("decode %016llx, %d rows of codes, %d others\n", (unsigned long long)decoded, (int)kept[1][0], (int)kept[1][1]);
    printf("input %016llx\n", (unsigned long long)input);
    for (int i = 0; attn_backend_at(i) && i < 16; i++) printf("%s %016llx\n", attn_backend_at(i)->name, (unsigned long long)hash[i]);
    if (broken) printf("the caller's rounding mode, FTZ or DAZ was not restored: %d calls\n", broken);
    attn_shutdown();
    return broken != 0;
}
