// SPDX-License-Identifier: MIT
// Matrix instructions: MFMA (CDNA) and WMMA (RDNA3, RDNA4).
//
// Register layouts (checked against AMD's matrix instruction calculator), lane l, group g = l / M:
//   MFMA   A[i][k]: i = l % M, element j of the lane: one block: k = g * per_lane + j; several blocks: block = g, k = j
//          B[k][n]: the same with N.   D: 32x32: row = 8 (r / 4) + 4 (l / 32) + r % 4;  16x16: row = 4 (l / 16) + r;
//          4x4: row = r, block = l / 4;  16x16 f64: row = 4 r + l / 16;  4x4 f64: row = l / 16, k = l / 16, block = l / 4 % 4
//   WMMA gfx11: A and B hold all 16 k in one lane, lanes 16.. repeat lanes 0..15;  D: row = (wave / 16) r + l / 16
//   WMMA gfx12: the lane groups share k: wave32 16-bit: k = 8 (j / 4) + 4 g + j % 4, else k = per_lane g + j;
//          D wave32: row = 8 g + r;  wave64: row = 8 (g % 2) + 4 (g / 2) + r
// Sums run over k in order with one fused multiply-add per step in the accumulator type; real chips sum in
// their own order, so the last bits differ.
#include "lanes.h"
#include <math.h>
#include <stdlib.h>

enum { T_F32, T_F16, T_BF16, T_I8, T_I4, T_F64, T_XF32, T_FP8, T_BF8, T_F16OUT, T_BF16OUT };
typedef struct {
  int M, N, K, B, at, bt, dt; // shape, blocks, operand types, T_F32 / T_F64 / T_I8 (32-bit integer) / T_F16OUT / T_BF16OUT result
  int groups, per_lane, chunk;       // lane groups with different k (or blocks); elements per lane; run of k in one lane
  int wmma;                   // 0 MFMA, 11, 12
} Mat;

static const struct {
  const char *name;
  int t, bits;
} types[] = {{"bf16", T_BF16, 16}, {"xf32", T_XF32, 32}, {"f16", T_F16, 16}, {"f32", T_F32, 32}, {"f64", T_F64, 64}, {"iu8", T_I8, 8},
    {"iu4", T_I4, 4}, {"i8", T_I8, 8}, {"bf8", T_BF8, 8}, {"fp8", T_FP8, 8}};
static int bits_of(int t) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].t == t) return types[i].bits;
  return 32;
}

static void load_regs(Wave *w, const Operand *o, int reg, u32 *row) {
  if (o->kind == O_VGPR) memcpy(row, w->v[o->reg + reg], MAXLANE * 4);
  else fill32(row, (u32)o->bits, MAXLANE);
}
// B lane group pattern: which lane supplies lane l
static int blgp_lane(int p, int l) {
  switch (p) {
    case 1: return l & 31;
    case 2: return l | 32;
    case 3: return (l + 16) & 63;
    case 4: return l & 15;
    case 5: return 16 | (l & 15);
    case 6: return 32 | (l & 15);
    case 7: return 48 | (l & 15);
  }
  return l;
}
static float xf32(float f) {
  u32 u = asu(f);
  if ((u & 0x7f800000) == 0x7f800000) return f;
  return asf((u + 0xfff + (u >> 13 & 1)) & ~0x1fffu);
}

// Element j of each lane of an operand as float rows out[j][lane]
static void unpack_f(Wave *w, const Operand *o, int t, int per_lane, int neg_even, int neg_odd, int blgp, float out[][MAXLANE]) {
  u32 row[MAXLANE] __attribute__((aligned(64))), part[MAXLANE] __attribute__((aligned(64)));
  int per_reg = 32 / bits_of(t), fnuz = w->ln->arch->gen == 9, n = 64;
  for (int j = 0; j < per_lane; j++) {
    if (j % per_reg == 0) {
      load_regs(w, o, j / per_reg, row);
      if (blgp) {
        u32 c[MAXLANE];
        memcpy(c, row, sizeof c);
        for (int l = 0; l < 64; l++) row[l] = c[blgp_lane(blgp, l)];
      }
    }
    int sh = (j % per_reg) * (32 / per_reg);
    float *f = out[j];
    switch (t) {
      case T_F32: memcpy(f, row, sizeof row); break;
      case T_XF32: LANES(f[l] = xf32(asf(row[l]));); break;
      case T_F16:
        LANES(part[l] = row[l] >> sh & 0xffff;);
        h2f_row(f, part, 64);
        break;
      case T_BF16:
        LANES(part[l] = row[l] >> sh << 16;);
        memcpy(f, part, sizeof part);
        break;
      default:
        for (int l = 0; l < 64; l++) f[l] = fp8_to_f(row[l] >> sh, fnuz, t == T_BF8);
    }
    if (j & 1 ? neg_odd : neg_even) LANES(f[l] = -f[l];);
    // MI200 flushes f16 and bf16 denormals in matrix instructions
    if (w->ln->arch->id == GFX90A && t == T_F16) LANES(f[l] = fabsf(f[l]) < 0x1p-14f ? 0.0f : f[l];);
    if (w->ln->arch->id == GFX90A && t == T_BF16) LANES(f[l] = fabsf(f[l]) < 0x1p-126f ? 0.0f : f[l];);
  }
}
static void unpack_i(Wave *w, const Operand *o, int t, int per_lane, bool sgn, int blgp, i32 out[][MAXLANE]) {
  u32 row[MAXLANE];
  int bits = bits_of(t), per_reg = 32 / bits;
  for (int j = 0; j < per_lane; j++) {
    if (j % per_reg == 0) load_regs(w, o, j / per_reg, row);
    int sh = (j % per_reg) * bits;
    for (int l = 0; l < 64; l++) {
      u32 x = row[blgp_lane(blgp, l)] << (32 - bits - sh);
      out[j][l] = sgn ? (i32)x >> (32 - bits) : (i32)(x >> (32 - bits));
    }
  }
}

// one row of D: acc[n] += sum_k a(k) * b(k)[n]; a strides over elements and groups. The row stays in registers: STEP sees S[u] of n = u * LANES_OF_V and up
#define ROWS(NAME, T, V, LANES_OF_V, LOAD, STORE, STEP)                                                                         \
  static inline __attribute__((always_inline)) void NAME##_n(                                                                  \
      T *acc, const T a[][MAXLANE], const T b[][MAXLANE], int i, const Mat *m, const int N, int g0, int ga, int groups) {       \
    V s[32 / LANES_OF_V];                                                                                                      \
    for (int u = 0; u < N / LANES_OF_V; u++) s[u] = LOAD(acc + u * LANES_OF_V);                                                 \
    for (int c = 0; c < m->per_lane; c += m->chunk)                                                                            \
      for (int g = 0; g < groups; g++)                                                                                         \
        for (int j = c; j < c + m->chunk; j++) {                                                                               \
          T x = a[j][(ga + g) * m->M + i];                                                                                     \
          const T *y = &b[j][(g0 + g) * N];                                                                                    \
          for (int u = 0; u < N / LANES_OF_V; u++) s[u] = STEP(x, y + u * LANES_OF_V, s[u]);                                    \
        }                                                                                                                      \
    for (int u = 0; u < N / LANES_OF_V; u++) STORE(acc + u * LANES_OF_V, s[u]);                                                 \
  }
#define LOAD1(p) (*(p))
#define STORE1(p, x) (*(p) = (x))
#define FMA1(x, y, z) __builtin_fmaf(x, *(y), z)
#define IMA1(x, y, z) ((i32)((u32)(x) * (u32)*(y) + (u32)(z)))
ROWS(row_f1, float, float, 1, LOAD1, STORE1, FMA1)
ROWS(row_i1, i32, i32, 1, LOAD1, STORE1, IMA1)
#ifdef __AVX512F__
#define FMA16(x, y, z) _mm512_fmadd_ps(_mm512_set1_ps(x), _mm512_loadu_ps(y), z)
ROWS(row_f16, float, __m512, 16, _mm512_loadu_ps, _mm512_storeu_ps, FMA16)
#elif defined(__AVX2__) && defined(__FMA__)
#define FMA8(x, y, z) _mm256_fmadd_ps(_mm256_set1_ps(x), _mm256_loadu_ps(y), z)
ROWS(row_f16, float, __m256, 8, _mm256_loadu_ps, _mm256_storeu_ps, FMA8)
#else
#define row_f16_n row_f1_n
#endif
static void row_f(float *acc, const float a[][MAXLANE], const float b[][MAXLANE], int i, const Mat *m, int g0, int ga, int groups) {
  if (m->N == 32) row_f16_n(acc, a, b, i, m, 32, g0, ga, groups);
  else if (m->N == 16) row_f16_n(acc, a, b, i, m, 16, g0, ga, groups);
  else row_f1_n(acc, a, b, i, m, 4, g0, ga, groups);
}
static void row_i(i32 *acc, const i32 a[][MAXLANE], const i32 b[][MAXLANE], int i, const Mat *m, int g0, int ga, int groups) {
  if (m->N == 32) row_i1_n(acc, a, b, i, m, 32, g0, ga, groups);
  else if (m->N == 16) row_i1_n(acc, a, b, i, m, 16, g0, ga, groups);
  else row_i1_n(acc, a, b, i, m, 4, g0, ga, groups);
}

static void mfma_exec(Wave *w, const Inst *in) {
  const Mat *m = in->desc;
  int regs = in->dst.nreg;
  static _Thread_local union {
    float f[32][MAXLANE];
    i32 i[32][MAXLANE];
  } A, B, D;
  bool isint = m->dt == T_I8;
  if (isint) {
    unpack_i(w, &in->src[0], m->at, m->per_lane, true, 0, A.i);
    unpack_i(w, &in->src[1], m->bt, m->per_lane, true, in->blgp, B.i);
  } else {
    unpack_f(w, &in->src[0], m->at, m->per_lane, 0, 0, 0, A.f);
    unpack_f(w, &in->src[1], m->bt, m->per_lane, 0, 0, in->blgp, B.f);
  }
  for (int r = 0; r < regs; r++) load_regs(w, &in->src[2], r, (u32 *)D.f[r]);
  int per_block = regs / (m->M == 4 ? 1 : m->B), split = 64 / m->N;
  for (int r = 0; r < regs; r++)
    for (int q = 0; q < split; q++) {
      int b = m->M == 4 ? q : r / per_block, rr = m->M == 4 ? r : r % per_block;
      int i = m->M == 32 ? 8 * (rr / 4) + 4 * q + rr % 4 : m->M == 16 ? 4 * q + rr : rr;
      int ab = in->cbsz ? (b & ~((1 << in->cbsz) - 1)) + (in->abid & ((1 << in->cbsz) - 1)) : b; // A block broadcast
      int g0 = m->B > 1 ? b : 0, ga = m->B > 1 ? ab : 0, groups = m->B > 1 ? 1 : m->groups;
      if (isint) row_i(&D.i[r][q * m->N], A.i, B.i, i, m, g0, ga, groups);
      else row_f(&D.f[r][q * m->N], A.f, B.f, i, m, g0, ga, groups);
    }
  bool flush = w->ln->arch->id == GFX90A && (m->at == T_F16 || m->at == T_BF16);
  for (int r = 0; r < regs; r++) {
    if (flush)
      for (int l = 0; l < 64; l++)
        if (fabsf(D.f[r][l]) < 0x1p-126f) D.f[r][l] = 0;
    memcpy(w->v[in->dst.reg + r], D.f[r], sizeof D.f[r]);
  }
}
static void mfma_f64_exec(Wave *w, const Inst *in) {
  const Mat *m = in->desc;
  double a[MAXLANE], b[MAXLANE], d[4][MAXLANE];
  u32 lo[MAXLANE], hi[MAXLANE];
  int regs = in->dst.nreg / 2;
  for (int s = 0; s < 2; s++) {
    load_regs(w, &in->src[s], 0, lo);
    load_regs(w, &in->src[s], 1, hi);
    double *x = s ? b : a;
    for (int l = 0; l < 64; l++) {
      x[l] = asd(lo[l] | (u64)hi[l] << 32);
      if (in->blgp >> s & 1) x[l] = -x[l];
    }
  }
  for (int r = 0; r < regs; r++) {
    if (in->src[2].kind == O_CONST) {
      for (int l = 0; l < 64; l++) d[r][l] = asd(in->src[2].bits);
    } else {
      load_regs(w, &in->src[2], 2 * r, lo);
      load_regs(w, &in->src[2], 2 * r + 1, hi);
      for (int l = 0; l < 64; l++) d[r][l] = asd(lo[l] | (u64)hi[l] << 32);
    }
    for (int l = 0; l < 64; l++) {
      double s = in->blgp & 4 ? -d[r][l] : d[r][l];
      if (m->M == 16) {
        int i = 4 * r + l / 16, n = l % 16;
        for (int k = 0; k < 4; k++) s = __builtin_fma(a[k * 16 + i], b[k * 16 + n], s);
      } else {
        int i = l / 16, n = l % 4, blk = l / 4 % 4;
        for (int k = 0; k < 4; k++) s = __builtin_fma(a[k * 16 + blk * 4 + i], b[k * 16 + blk * 4 + n], s);
      }
      d[r][l] = s;
    }
  }
  for (int r = 0; r < regs; r++)
    for (int l = 0; l < 64; l++) {
      u64 q = asq(d[r][l]);
      w->v[in->dst.reg + 2 * r][l] = (u32)q;
      w->v[in->dst.reg + 2 * r + 1][l] = q >> 32;
    }
}
static void check_replicated(Wave *w, const Inst *in, int s, const char *name) {
  const Operand *o = &in->src[s];
  if (o->kind != O_VGPR || !env.check_wmma) return;
  for (int r = 0; r < o->nreg; r++)
    for (int l = 16; l < w->n; l++)
      if (w->v[o->reg + r][l] != w->v[o->reg + r][l & 15])
        kernel_fail(w, in, l,
            "WMMA operand %s: lane %d holds 0x%08x in v%d but lane %d holds 0x%08x: lanes 16 and up must repeat lanes 0-15", name, l,
            w->v[o->reg + r][l], o->reg + r, l & 15, w->v[o->reg + r][l & 15]);
}
static void wmma_exec(Wave *w, const Inst *in) {
  const Mat *m = in->desc;
  int regs = in->dst.nreg;
  if (wave_exec(w) != w->full)
    kernel_fail(w, in, 0, "WMMA with lanes switched off (EXEC 0x%llx): all lanes must be active", (unsigned long long)wave_exec(w));
  if (m->wmma == 11) {
    check_replicated(w, in, 0, "A");
    check_replicated(w, in, 1, "B");
  }
  static _Thread_local union {
    float f[32][MAXLANE];
    i32 i[32][MAXLANE];
  } A, B, D;
  bool isint = m->dt == T_I8;
  if (isint) {
    unpack_i(w, &in->src[0], m->at, m->per_lane, in->neg_lo & 1, 0, A.i);
    unpack_i(w, &in->src[1], m->bt, m->per_lane, in->neg_lo & 2, 0, B.i);
  } else {
    unpack_f(w, &in->src[0], m->at, m->per_lane, in->neg_lo & 1, in->neg_hi & 1, 0, A.f);
    unpack_f(w, &in->src[1], m->bt, m->per_lane, in->neg_lo & 2, in->neg_hi & 2, 0, B.f);
  }
  bool half_out = m->dt == T_F16OUT || m->dt == T_BF16OUT;
  int rows = 256 / w->n, split = w->n / 16, hi = in->op_sel >> 2 & 1; // rows of D held by one lane
  for (int r = 0; r < rows; r++) {
    // register and shift of this row
    int reg = half_out && m->wmma == 12 ? r / 2 : r, sh = !half_out ? 0 : m->wmma == 12 ? (r & 1) * 16 : hi * 16;
    u32 c[MAXLANE];
    float *f = D.f[r];
    load_regs(w, &in->src[2], reg, c);
    for (int l = 0; l < w->n; l++) {
      float x = half_out ? (m->dt == T_F16OUT ? h2f(c[l] >> sh) : bf2f(c[l] >> sh)) : asf(c[l]);
      if (!isint && in->neg_hi & 4) x = fabsf(x);
      if (!isint && in->neg_lo & 4) x = -x;
      f[l] = x;
    }
    for (int q = 0; q < split; q++) {
      int i = m->wmma == 11 ? split * r + q : 8 * (q % 2) + 4 * (q / 2) + r;
      if (!isint) {
        row_f(f + q * 16, A.f, B.f, i, m, 0, 0, m->groups);
        continue;
      }
      if (!in->clamp) {
        row_i(&D.i[r][q * 16], A.i, B.i, i, m, 0, 0, m->groups);
        continue;
      }
      for (int n = 0; n < 16; n++) {
        i64 s = D.i[r][q * 16 + n];
        for (int g = 0; g < m->groups; g++)
          for (int j = 0; j < m->per_lane; j++) s += (i64)A.i[j][g * 16 + i] * B.i[j][g * 16 + n];
        D.i[r][q * 16 + n] = s > INT32_MAX ? INT32_MAX : s < INT32_MIN ? INT32_MIN : (i32)s;
      }
    }
  }
  for (int r = 0; r < rows; r++) {
    int reg = in->dst.reg + (half_out && m->wmma == 12 ? r / 2 : r), sh = m->wmma == 12 ? (r & 1) * 16 : hi * 16;
    for (int l = 0; l < w->n; l++) {
      u32 *d = &w->v[reg][l];
      if (half_out) {
        u32 x = m->dt == T_F16OUT ? f2h(D.f[r][l]) : f2bf(D.f[r][l]);
        *d = (*d & ~(0xffffu << sh)) | x << sh;
      } else *d = (u32)D.i[r][l];
    }
  }
  (void)regs;
}

bool matrix_bind(Inst *in, const char *mn, Operand *o, int n, const Arch *a) {
  if (n != 4 || o[0].kind != O_VGPR || strncmp(mn, "v_", 2) || (strncmp(mn, "v_mfma", 6) && strncmp(mn, "v_wmma", 6))) return false;
  Mat *m = calloc(1, sizeof *m);
  bool wmma = mn[2] == 'w';
  const char *p = mn + 7;
  char *e;
  int dt = T_F32;
  if (!strncmp(p, "i32", 3)) dt = T_I8;
  else if (!strncmp(p, "f64", 3)) dt = T_F64;
  else if (!strncmp(p, "f16", 3)) dt = T_F16OUT;
  else if (!strncmp(p, "bf16", 4)) dt = T_BF16OUT;
  p = strchr(p, '_') + 1;
  m->M = strtol(p, &e, 10);
  m->N = strtol(e + 1, &e, 10);
  m->K = strtol(e + 1, &e, 10);
  m->dt = dt;
  p = e;
  if (*p == '_') p++;
  if (*p >= '0' && *p <= '9' && strchr(p, 'b') && strchr(p, '_')) {
    strtol(p, &e, 10);
    if (*e == 'b' && e[1] == '_') p = e + 2;
  }
  int at = -1, bt = -1;
  for (size_t i = 0; i < sizeof types / sizeof *types && at < 0; i++) {
    size_t k = strlen(types[i].name);
    if (!strncmp(p, types[i].name, k)) {
      at = types[i].t;
      p += k;
    }
  }
  bt = at;
  if (*p == '_' && strcmp(p, "_1k"))
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
      if (!strcmp(p + 1, types[i].name)) bt = types[i].t;
  if (at < 0) return false;
  m->at = at;
  m->bt = bt;
  in->dst = o[0];
  in->cls = C_MATRIX;
  in->nsrc = 3;
  for (int i = 0; i < 3; i++) {
    in->src[i] = o[1 + i];
    operand_finish(&in->src[i], dt == T_F64 ? 'd' : dt == T_I8 ? 'u' : 'f');
  }
  if (in->src[0].kind != O_VGPR || in->src[1].kind != O_VGPR || (in->src[2].kind != O_VGPR && in->src[2].kind != O_CONST)) return false;
  if (wmma) {
    m->wmma = a->gen;
    m->B = 1;
    m->per_lane = in->src[0].nreg * 32 / bits_of(at);
    if (m->per_lane < 1 || m->K % m->per_lane) return false;
    m->groups = a->gen == 11 ? 1 : m->K / m->per_lane;
    m->chunk = a->gen == 12 && bits_of(at) == 16 ? 4 : m->per_lane;
    if (a->gen == 11 && m->per_lane != m->K) return false;
    in->fn = wmma_exec;
  } else {
    int lanes_regs = in->dst.nreg / (dt == T_F64 ? 2 : 1);
    m->B = lanes_regs * 64 / (m->M * m->N);
    m->groups = 64 / m->M;
    m->per_lane = m->M * m->K * m->B / 64;
    if (m->per_lane < 1 || (dt != T_F64 && m->B > 1 && m->B != m->groups)) return false;
    m->chunk = m->per_lane;
    in->fn = dt == T_F64 ? mfma_f64_exec : mfma_exec;
  }
  in->desc = m;
  in->flops = 2ull * m->M * m->N * m->K * m->B;
  return true;
}

// Cycles the matrix pipe of one SIMD is busy.
// CDNA2 / CDNA3: ISA documents give passes of 4 cycles (32x32x8 f16: 16 on MI200, 8 on MI300); they agree with the
// peak rates per CU and cycle: MI200 1024 f16/bf16/i8, 256 f32, 256 f64; MI300 2048 f16/bf16, 1024 xf32, 4096 fp8/i8, 256 f32, 256 f64.
// RDNA3: 512 f16/bf16/iu8, 1024 iu4 per CU; RDNA4: 1024 f16/bf16, 2048 fp8/iu8, 4096 iu4 per CU. MFMA CUs have 4 SIMDs, RDNA CUs 2.
float matrix_cycles(const Arch *a, const Inst *in) {
  const Mat *m = in->desc;
  double rate = 64;
  switch (a->id) {
    case GFX90A:
      rate = m->at == T_F32 || m->at == T_F64 ? 64 : 256;
      if (m->at == T_BF16 && !strstr(in->text, "_1k")) rate = 128;
      break;
    case GFX942:
      rate = m->at == T_F32 || m->at == T_F64 ? 64 : m->at == T_XF32 ? 256 : m->at == T_F16 || m->at == T_BF16 ? 512 : 1024;
      if (m->B > 1 && m->at != T_F64) rate = m->at == T_F32 ? 64 : 256;
      break;
    case GFX1100: rate = m->at == T_I4 ? 512 : 256; break;
    case GFX1201: rate = m->at == T_I4 ? 2048 : m->at == T_F16 || m->at == T_BF16 ? 512 : 1024; break;
  }
  double c = in->flops / rate;
  if (m->M == 4) c = m->at == T_F64 ? 16 : 8;
  if (a->id == GFX1201 && c < 8) c = 8;
  return (float)c;
}
// Cycles during which no other vector instruction can issue on the SIMD: on CDNA most MFMAs run beside the VALU after their
// first 4 cycles, but not f64, and not f32 on MI300. WMMA occupies the vector unit itself.
float matrix_issue(const Arch *a, const Inst *in) {
  const Mat *m = in->desc;
  bool alone = a->gen >= 10 || m->at == T_F64 || (a->id == GFX942 && m->at == T_F32);
  return alone ? matrix_cycles(a, in) : 4;
}
