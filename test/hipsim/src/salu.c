// SPDX-License-Identifier: MIT
// Scalar ALU, branches, scalar memory, program control.
#include "lanes.h"
#include <math.h>
#include <stdlib.h>

#define SCC w->s[S_SCC]
static inline u32 a32(Wave *w, const Inst *in, int i) { return scalar_of(w, &in->src[i]); }
static inline u64 a64(Wave *w, const Inst *in, int i) { return scalar64_of(w, &in->src[i]); }
static inline i32 sx(u32 x, int bits) { return (i32)(x << (32 - bits)) >> (32 - bits); }
static inline u64 bfe64(u64 a, u32 off, u32 wd) { return wd == 0 ? 0 : (a >> off) & (wd >= 64 ? ~0ull : (1ull << wd) - 1); }
static inline i64 ibfe64(u64 a, u32 off, u32 wd) {
  if (wd == 0) return 0;
  if (off + wd > 64) wd = 64 - off;
  return (i64)(a << (64 - off - wd)) >> (64 - wd);
}
static u64 brev64(u64 x) {
  u64 r = 0;
  for (int i = 0; i < 64; i++) r |= (x >> i & 1) << (63 - i);
  return r;
}
static u64 quadmask(u64 x) {
  u64 r = 0;
  for (int i = 0; i < 16; i++)
    if (x >> (4 * i) & 15) r |= 1ull << i;
  return r;
}
static u64 wqm(u64 x) {
  u64 r = 0;
  for (int i = 0; i < 16; i++)
    if (x >> (4 * i) & 15) r |= 15ull << (4 * i);
  return r;
}
static u64 spread_bits(u32 x) {
  u64 r = 0;
  for (int i = 0; i < 32; i++) r |= (u64)(x >> i & 1) * 3 << (2 * i);
  return r;
}
static float half_hi(u32 x) { return h2f(x >> 16); }
static i32 clampi(double a) { return a != a ? 0 : a >= 2147483647.0 ? 2147483647 : a <= -2147483648.0 ? INT32_MIN : (i32)a; }
static u32 clampu(double a) { return a != a || a <= 0 ? 0 : a >= 4294967295.0 ? ~0u : (u32)a; }
static float fmin2(float a, float b) { return b != b ? a : a != a ? b : a < b || (a == b && asu(a) >> 31) ? a : b; }
static float fmax2(float a, float b) { return b != b ? a : a != a ? b : a > b || (a == b && !(asu(a) >> 31)) ? a : b; }
static float fminp(float a, float b) { return a != a ? a : b != b ? b : fmin2(a, b); }
static float fmaxp(float a, float b) { return a != a ? a : b != b ? b : fmax2(a, b); }

// name, C expression of the result, C expression of SCC (or nothing)
#define OP32(n, e)                                                                                                                         \
  static void n(Wave *w, const Inst *in) {                                                                                                 \
    u32 a = a32(w, in, 0), b = a32(w, in, 1);                                                                                              \
    (void)a;                                                                                                                               \
    (void)b;                                                                                                                               \
    u32 r = (e);                                                                                                                           \
    set_s(w, in->dst.reg, r);                                                                                                              \
  }
#define OP32C(n, e, c)                                                                                                                     \
  static void n(Wave *w, const Inst *in) {                                                                                                 \
    u32 a = a32(w, in, 0), b = a32(w, in, 1);                                                                                              \
    (void)a;                                                                                                                               \
    (void)b;                                                                                                                               \
    u32 r = (e);                                                                                                                           \
    u32 scc = (c) ? 1 : 0;                                                                                                                 \
    set_s(w, in->dst.reg, r);                                                                                                              \
    SCC = scc;                                                                                                                             \
  }
#define OP64(n, e)                                                                                                                         \
  static void n(Wave *w, const Inst *in) {                                                                                                 \
    u64 a = a64(w, in, 0), b = in->nsrc > 1 ? a64(w, in, 1) : 0;                                                                           \
    (void)a;                                                                                                                               \
    (void)b;                                                                                                                               \
    u64 r = (e);                                                                                                                           \
    set_s64(w, in->dst.reg, r);                                                                                                            \
  }
#define OP64C(n, e, c)                                                                                                                     \
  static void n(Wave *w, const Inst *in) {                                                                                                 \
    u64 a = a64(w, in, 0), b = in->nsrc > 1 ? a64(w, in, 1) : 0;                                                                           \
    (void)a;                                                                                                                               \
    (void)b;                                                                                                                               \
    u64 r = (e);                                                                                                                           \
    u32 scc = (c) ? 1 : 0;                                                                                                                 \
    set_s64(w, in->dst.reg, r);                                                                                                            \
    SCC = scc;                                                                                                                             \
  }
#define OP32_64(n, e)                                                                                                                      \
  static void n(Wave *w, const Inst *in) {                                                                                                 \
    u64 a = a64(w, in, 0);                                                                                                                 \
    set_s(w, in->dst.reg, (e));                                                                                                            \
  }
#define OP32_64C(n, e)                                                                                                                     \
  static void n(Wave *w, const Inst *in) {                                                                                                 \
    u64 a = a64(w, in, 0);                                                                                                                 \
    u32 r = (e);                                                                                                                           \
    set_s(w, in->dst.reg, r);                                                                                                              \
    SCC = r != 0;                                                                                                                          \
  }
#define CMP32(n, e)                                                                                                                        \
  static void n(Wave *w, const Inst *in) {                                                                                                 \
    u32 a = a32(w, in, 0), b = a32(w, in, 1);                                                                                              \
    SCC = (e) ? 1 : 0;                                                                                                                     \
  }
#define CMP64(n, e)                                                                                                                        \
  static void n(Wave *w, const Inst *in) {                                                                                                 \
    u64 a = a64(w, in, 0), b = a64(w, in, 1);                                                                                              \
    SCC = (e) ? 1 : 0;                                                                                                                     \
  }
#define OPF(n, e)                                                                                                                          \
  static void n(Wave *w, const Inst *in) {                                                                                                 \
    float a = asf(a32(w, in, 0)), b = asf(a32(w, in, 1)), c = asf(a32(w, in, 2));                                                          \
    (void)b;                                                                                                                               \
    (void)c;                                                                                                                               \
    set_s(w, in->dst.reg, asu(e));                                                                                                         \
  }
#define OPH(n, e)                                                                                                                          \
  static void n(Wave *w, const Inst *in) {                                                                                                 \
    float a = h2f(a32(w, in, 0)), b = h2f(a32(w, in, 1)), c = h2f(a32(w, in, 2));                                                          \
    (void)b;                                                                                                                               \
    (void)c;                                                                                                                               \
    set_s(w, in->dst.reg, f2h(e));                                                                                                         \
  }
#define OPCVT(n, e)                                                                                                                        \
  static void n(Wave *w, const Inst *in) {                                                                                                 \
    u32 a = a32(w, in, 0), b = a32(w, in, 1);                                                                                              \
    (void)b;                                                                                                                               \
    set_s(w, in->dst.reg, (e));                                                                                                            \
  }

OP32C(add_u32, a + b, r < a)
OP32C(sub_u32, a - b, a < b)
OP32C(add_i32, a + b, ((a ^ r) & (b ^ r)) >> 31)
OP32C(sub_i32, a - b, ((a ^ b) & (a ^ r)) >> 31)
OP32C(addc_u32, a + b + SCC, ((u64)a + b + SCC) >> 32)
OP32C(subb_u32, a - b - SCC, (u64)a < (u64)b + SCC)
OP32C(min_i32, (i32)a < (i32)b ? a : b, (i32)a < (i32)b)
OP32C(max_i32, (i32)a > (i32)b ? a : b, (i32)a > (i32)b)
OP32C(min_u32, a < b ? a : b, a < b)
OP32C(max_u32, a > b ? a : b, a > b)
OP32(cselect32, SCC ? a : b)
OP64(cselect64, SCC ? a : b)
OP32C(and32, a & b, r)
OP32C(or32, a | b, r)
OP32C(xor32, a ^ b, r)
OP32C(andn232, a & ~b, r)
OP32C(orn232, a | ~b, r)
OP32C(nand_32, ~(a & b), r)
OP32C(nor32, ~(a | b), r)
OP32C(xnor32, ~(a ^ b), r)
OP64C(and64, a & b, r)
OP64C(or64, a | b, r)
OP64C(xor64, a ^ b, r)
OP64C(andn264, a & ~b, r)
OP64C(orn264, a | ~b, r)
OP64C(nand_64, ~(a & b), r)
OP64C(nor64, ~(a | b), r)
OP64C(xnor64, ~(a ^ b), r)
OP32C(lshl32, a << (b & 31), r)
OP32C(lshr32, a >> (b & 31), r)
OP32C(ashr32, (i32)a >> (b & 31), r)
static u32 shamt(Wave *w, const Inst *in) { return a32(w, in, 1) & 63; }
#define SH64(n, e)                                                                                                                         \
  static void n(Wave *w, const Inst *in) {                                                                                                 \
    u64 a = a64(w, in, 0);                                                                                                                 \
    u32 b = shamt(w, in);                                                                                                                  \
    u64 r = (e);                                                                                                                           \
    set_s64(w, in->dst.reg, r);                                                                                                            \
    SCC = r != 0;                                                                                                                          \
  }
SH64(lshl64, a << b)
SH64(lshr64, a >> b)
SH64(ashr64, (i64)a >> b)
OP32(bfm32, ((1u << (a & 31)) - 1) << (b & 31))
static void bfm64(Wave *w, const Inst *in) {
  u32 a = a32(w, in, 0) & 63, b = a32(w, in, 1) & 63;
  set_s64(w, in->dst.reg, ((1ull << a) - 1) << b);
}
OP32(mul32, a * b)
OP32(mul_hi_u32, (u32)((u64)a * b >> 32))
OP32(mul_hi_i32, (u32)((i64)(i32)a * (i32)b >> 32))
OP32C(bfe_u32, (u32)bfe64(a, b & 31, b >> 16 & 127), r)
OP32C(bfe_i32, (u32)ibfe64((u64)a << 32, 32 + (b & 31), (b >> 16 & 127) > 32 - (b & 31) ? 32 - (b & 31) : (b >> 16 & 127)), r)
static void bfe_u64(Wave *w, const Inst *in) {
  u64 a = a64(w, in, 0);
  u32 b = a32(w, in, 1);
  u64 r = bfe64(a, b & 63, b >> 16 & 127);
  set_s64(w, in->dst.reg, r);
  SCC = r != 0;
}
static void bfe_i64(Wave *w, const Inst *in) {
  u64 a = a64(w, in, 0);
  u32 b = a32(w, in, 1);
  u64 r = ibfe64(a, b & 63, b >> 16 & 127);
  set_s64(w, in->dst.reg, r);
  SCC = r != 0;
}
OP32C(absdiff, (i32)a > (i32)b ? a - b : b - a, r)
OP32C(lshl1_add, (a << 1) + b, ((u64)a << 1) + b > 0xffffffffull)
OP32C(lshl2_add, (a << 2) + b, ((u64)a << 2) + b > 0xffffffffull)
OP32C(lshl3_add, (a << 3) + b, ((u64)a << 3) + b > 0xffffffffull)
OP32C(lshl4_add, (a << 4) + b, ((u64)a << 4) + b > 0xffffffffull)
OP32(pack_ll, (a & 0xffff) | b << 16)
OP32(pack_lh, (a & 0xffff) | (b & 0xffff0000))
OP32(pack_hh, a >> 16 | (b & 0xffff0000))
OP32(pack_hl, a >> 16 | b << 16)
OP64(add_u64, a + b)
OP64(sub_u64, a - b)
OP64(mul_u64, a * b)
OP32(mov32, a)
OP64(mov64, a)
OP32C(not32, ~a, r)
OP64C(not64, ~a, r)
OP32(cmov32, SCC ? a : w->s[in->dst.reg])
OP64(cmov64, SCC ? a : s64(w, in->dst.reg))
OP32C(wqm32, (u32)wqm(a), r)
OP64C(wqm64, wqm(a), r)
OP32(brev32, (u32)(brev64(a) >> 32))
OP64(brev_64, brev64(a))
OP32C(bcnt0_32, __builtin_popcount(~a), r)
OP32C(bcnt1_32, __builtin_popcount(a), r)
OP32_64C(bcnt0_64, __builtin_popcountll(~a))
OP32_64C(bcnt1_64, __builtin_popcountll(a))
OP32(ff0_32, ~a ? (u32)__builtin_ctz(~a) : ~0u)
OP32(ff1_32, a ? (u32)__builtin_ctz(a) : ~0u)
OP32_64(ff0_64, ~a ? (u32)__builtin_ctzll(~a) : ~0u)
OP32_64(ff1_64, a ? (u32)__builtin_ctzll(a) : ~0u)
OP32(flbit32, a ? (u32)__builtin_clz(a) : ~0u)
OP32_64(flbit64, a ? (u32)__builtin_clzll(a) : ~0u)
OP32(flbit_i32, a == 0 || a == ~0u ? ~0u : (u32)__builtin_clz((i32)a < 0 ? ~a : a))
OP32_64(flbit_i64, a == 0 || a == ~0ull ? ~0u : (u32)__builtin_clzll((i64)a < 0 ? ~a : a))
OP32(sext8, (u32)sx(a, 8))
OP32(sext16, (u32)sx(a, 16))
OP32(bitset0, w->s[in->dst.reg] & ~(1u << (a & 31)))
OP32(bitset1, w->s[in->dst.reg] | 1u << (a & 31))
static void bitset0_64(Wave *w, const Inst *in) { set_s64(w, in->dst.reg, s64(w, in->dst.reg) & ~(1ull << (a32(w, in, 0) & 63))); }
static void bitset1_64(Wave *w, const Inst *in) { set_s64(w, in->dst.reg, s64(w, in->dst.reg) | 1ull << (a32(w, in, 0) & 63)); }
OP32C(quadmask32, (u32)quadmask(a), r)
OP64C(quadmask64, quadmask(a), r)
OP32C(abs32, (i32)a < 0 ? -a : a, r)
static void bitreplicate(Wave *w, const Inst *in) { set_s64(w, in->dst.reg, spread_bits(a32(w, in, 0))); }
// exec mask operations: the old mask goes to the destination
#define SAVE(n, e)                                                                                                                         \
  static void n##32(Wave * w, const Inst *in) {                                                                                            \
    u32 a = a32(w, in, 0), x = w->s[S_EXEC], r = (u32)(e);                                                                                 \
    set_s(w, in->dst.reg, x);                                                                                                              \
    w->s[S_EXEC] = r;                                                                                                                      \
    SCC = r != 0;                                                                                                                          \
  }                                                                                                                                        \
  static void n##64(Wave * w, const Inst *in) {                                                                                            \
    u64 a = a64(w, in, 0), x = s64(w, S_EXEC), r = (e);                                                                                    \
    set_s64(w, in->dst.reg, x);                                                                                                            \
    set_s64(w, S_EXEC, r);                                                                                                                 \
    SCC = r != 0;                                                                                                                          \
  }
SAVE(and_save, a & x)
SAVE(or_save, a | x)
SAVE(xor_save, a ^ x)
SAVE(andn2_save, a & ~x)
SAVE(orn2_save, a | ~x)
SAVE(andn1_save, ~a & x)
SAVE(orn1_save, ~a | x)
SAVE(nand_save, ~(a & x))
SAVE(nor_save, ~(a | x))
SAVE(xnor_save, ~(a ^ x))
#define WREXEC(n, e)                                                                                                                       \
  static void n##32(Wave * w, const Inst *in) {                                                                                            \
    u32 a = a32(w, in, 0), x = w->s[S_EXEC], r = (u32)(e);                                                                                 \
    w->s[S_EXEC] = r;                                                                                                                      \
    set_s(w, in->dst.reg, r);                                                                                                              \
    SCC = r != 0;                                                                                                                          \
  }                                                                                                                                        \
  static void n##64(Wave * w, const Inst *in) {                                                                                            \
    u64 a = a64(w, in, 0), x = s64(w, S_EXEC), r = (e);                                                                                    \
    set_s64(w, S_EXEC, r);                                                                                                                 \
    set_s64(w, in->dst.reg, r);                                                                                                            \
    SCC = r != 0;                                                                                                                          \
  }
WREXEC(andn1_wr, ~a & x)
WREXEC(andn2_wr, a & ~x)
CMP32(cmp_eq, a == b)
CMP32(cmp_lg, a != b)
CMP32(cmp_gt_i, (i32)a > (i32)b)
CMP32(cmp_ge_i, (i32)a >= (i32)b)
CMP32(cmp_lt_i, (i32)a < (i32)b)
CMP32(cmp_le_i, (i32)a <= (i32)b)
CMP32(cmp_gt_u, a > b)
CMP32(cmp_ge_u, a >= b)
CMP32(cmp_lt_u, a < b)
CMP32(cmp_le_u, a <= b)
CMP32(bitcmp0, !(a >> (b & 31) & 1))
CMP32(bitcmp1, a >> (b & 31) & 1)
CMP64(cmp_eq64, a == b)
CMP64(cmp_lg64, a != b)
static void bitcmp0_64(Wave *w, const Inst *in) { SCC = !(a64(w, in, 0) >> (a32(w, in, 1) & 63) & 1); }
static void bitcmp1_64(Wave *w, const Inst *in) { SCC = a64(w, in, 0) >> (a32(w, in, 1) & 63) & 1; }
// scalar float (gfx12)
OPF(addf, a + b)
OPF(subf, a - b)
OPF(mulf, a * b)
OPF(fmacf, __builtin_fmaf(a, b, asf(w->s[in->dst.reg])))
OPF(fmaf3, __builtin_fmaf(a, b, c))
OPF(minf_, fmin2(a, b))
OPF(maxf_, fmax2(a, b))
OPF(minimumf_, fminp(a, b))
OPF(maximumf_, fmaxp(a, b))
OPF(ceilf_, ceilf(a))
OPF(floorf_, floorf(a))
OPF(truncf_, truncf(a))
OPF(rndnef, rintf(a))
OPH(addh, a + b)
OPH(subh, a - b)
OPH(mulh, a * b)
OPH(minh, fmin2(a, b))
OPH(maxh, fmax2(a, b))
OPH(minimumh, fminp(a, b))
OPH(maximumh, fmaxp(a, b))
OPH(ceilh, ceilf(a))
OPH(floorh, floorf(a))
OPH(trunch, truncf(a))
OPH(rndneh, rintf(a))
static void fmach(Wave *w, const Inst *in) {
  u64 u = asq(fma_odd((double)h2f(a32(w, in, 0)) * h2f(a32(w, in, 1)), h2f(w->s[in->dst.reg]))), low = u & 0x1fffffff;
  set_s(w, in->dst.reg, f2h((float)asd((u & ~0x1fffffffull) | (u64)(low != 0) << 29)));
}
OPCVT(cvt_f_i, asu((float)(i32)a))
OPCVT(cvt_f_u, asu((float)a))
OPCVT(cvt_i_f, (u32)clampi(asf(a)))
OPCVT(cvt_u_f, clampu(asf(a)))
OPCVT(cvt_h_f, f2h(asf(a)))
OPCVT(cvt_f_h, asu(h2f(a)))
OPCVT(cvt_hi_f_h, asu(half_hi(a)))
OPCVT(cvt_pkrtz, f2h_rtz(asf(a)) | (u32)f2h_rtz(asf(b)) << 16)
static bool fcmp(int c, float a, float b) {
  switch (c) {
    case 0: return a < b;
    case 1: return a == b;
    case 2: return a <= b;
    case 3: return a > b;
    case 4: return a < b || a > b;
    case 5: return a >= b;
    case 6: return a == a && b == b;
    case 7: return a != a || b != b;
    case 8: return !(a >= b);
    case 9: return !(a < b || a > b);
    case 10: return !(a > b);
    case 11: return !(a <= b);
    case 12: return !(a == b);
    default: return !(a < b);
  }
}
static void cmpf(Wave *w, const Inst *in) { SCC = fcmp(in->sub, asf(a32(w, in, 0)), asf(a32(w, in, 1))); }
static void cmph(Wave *w, const Inst *in) { SCC = fcmp(in->sub, h2f(a32(w, in, 0)), h2f(a32(w, in, 1))); }
// constants in the instruction
static void movk(Wave *w, const Inst *in) { set_s(w, in->dst.reg, in->simm); }
static void cmovk(Wave *w, const Inst *in) {
  if (SCC) set_s(w, in->dst.reg, in->simm);
}
static void addk(Wave *w, const Inst *in) {
  u32 a = w->s[in->dst.reg], b = in->simm, r = a + b;
  set_s(w, in->dst.reg, r);
  SCC = ((a ^ r) & (b ^ r)) >> 31;
}
static void mulk(Wave *w, const Inst *in) { set_s(w, in->dst.reg, w->s[in->dst.reg] * (u32)in->simm); }
static void cmpk(Wave *w, const Inst *in) {
  u32 a = w->s[in->dst.reg];
  i32 k = in->simm;
  u32 u = (u32)in->simm & 0xffff;
  bool r = false;
  switch (in->sub) {
    case 0: r = (i32)a == k; break;
    case 1: r = (i32)a != k; break;
    case 2: r = (i32)a > k; break;
    case 3: r = (i32)a >= k; break;
    case 4: r = (i32)a < k; break;
    case 5: r = (i32)a <= k; break;
    case 6: r = a == u; break;
    case 7: r = a != u; break;
    case 8: r = a > u; break;
    case 9: r = a >= u; break;
    case 10: r = a < u; break;
    case 11: r = a <= u; break;
  }
  SCC = r;
}
static void movrels(Wave *w, const Inst *in) {
  u32 m = w->s[S_M0];
  if (in->src[0].reg + m > 105) kernel_fail(w, in, 0, "relative scalar register out of range");
  if (in->sub) set_s64(w, in->dst.reg, s64(w, in->src[0].reg + m));
  else set_s(w, in->dst.reg, w->s[in->src[0].reg + m]);
}
static void movreld(Wave *w, const Inst *in) {
  u32 m = w->s[S_M0];
  if (in->dst.reg + m > 105) kernel_fail(w, in, 0, "relative scalar register out of range");
  if (in->sub) set_s64(w, in->dst.reg + m, a64(w, in, 0));
  else set_s(w, in->dst.reg + m, a32(w, in, 0));
}

// ---------------------------------------------------------------- control
static void take(Wave *w, const Inst *in) {
  if (!in->target) ((Inst *)in)->target = wave_goto(w, in->pc + 4 + (i64)in->simm * 4);
  w->pc = in->target;
}
static void branch(Wave *w, const Inst *in) { take(w, in); }
static void cbranch(Wave *w, const Inst *in) {
  u64 vcc = w->n == 64 ? s64(w, S_VCC) : w->s[S_VCC];
  bool t = false;
  switch (in->sub) {
    case 0: t = !SCC; break;
    case 1: t = SCC; break;
    case 2: t = vcc == 0; break;
    case 3: t = vcc != 0; break;
    case 4: t = wave_exec(w) == 0; break;
    case 5: t = wave_exec(w) != 0; break;
  }
  if (t) take(w, in);
}
static void getpc(Wave *w, const Inst *in) { set_s64(w, in->dst.reg, in->pc + in->len); }
static void setpc(Wave *w, const Inst *in) { w->pc = wave_goto(w, a64(w, in, 0)); }
static void swappc(Wave *w, const Inst *in) {
  u64 t = a64(w, in, 0);
  set_s64(w, in->dst.reg, in->pc + in->len);
  w->pc = wave_goto(w, t);
}
static void call64(Wave *w, const Inst *in) {
  set_s64(w, in->dst.reg, in->pc + 4);
  take(w, in);
}
static void endpgm(Wave *w, const Inst *in) {
  (void)in;
  w->status = W_DONE;
}
static void sleep_(Wave *w, const Inst *in) {
  hostcall_service(w, in);
  w->status = W_YIELD;
}
static void trap(Wave *w, const Inst *in) { kernel_fail(w, in, 0, "s_trap: the kernel stopped itself (assert, abort or __builtin_trap)"); }
static void barrier(Wave *w, const Inst *in) {
  (void)in;
  w->skipped |= w->lanes & ~wave_exec(w);
  w->signals++;
  w->status = W_BARRIER;
}
static void barrier_signal(Wave *w, const Inst *in) {
  if (in->src[0].kind != O_CONST || in->src[0].ival != -1) kernel_fail(w, in, 0, "only the workgroup barrier (-1) is supported");
  if (in->sub) {
    u32 first = 1;
    for (int i = 0; i < w->wk->nwaves; i++)
      if (w->wk->waves[i].signals > w->signals) first = 0;
    SCC = first;
  }
  w->skipped |= w->lanes & ~wave_exec(w);
  w->signals++;
}
static void barrier_wait(Wave *w, const Inst *in) {
  if ((i16)in->simm != -1) kernel_fail(w, in, 0, "only the workgroup barrier (-1) is supported");
  if (w->signals <= w->waits) kernel_fail(w, in, 0, "s_barrier_wait without a preceding s_barrier_signal");
  w->status = W_BARRIER;
}
static void memtime(Wave *w, const Inst *in) { set_s64(w, in->dst.reg, w->ninst * 4); }
static void memrealtime(Wave *w, const Inst *in) { set_s64(w, in->dst.reg, w->ninst / 4); }
static u32 hwreg_read(Wave *w, const Inst *in, int id) {
  bool g12 = w->ln->arch->gen >= 12;
  switch (id) {
    case 1: return w->mode | (u32)w->dx10 << 8 | (u32)w->ieee << 9;
    case 15: return (u32)(SHARED_BASE >> 48) << 16 | (u32)(PRIVATE_BASE >> 48);
    case 20:
      if (w->ln->arch->id == GFX942) return 0;
      return w->s[S_FLAT]; // XCC_ID, or FLAT_SCR_LO
    case 21: return w->s[S_FLAT + 1];
    case 29: return g12 ? (u32)(w->ninst * 4) : (u32)(w->ninst * 4) & 0xfffff;
    case 30:
      if (g12) return (w->ninst * 4) >> 32;
      break;
    case 4:
    case 23:
    case 24: return w->id; // HW_ID: something distinct per wave
  }
  kernel_fail(w, in, 0, "reading hardware register %d is not supported", id);
}
static void getreg(Wave *w, const Inst *in) {
  int id = in->simm & 63, off = in->simm >> 6 & 31, n = (in->simm >> 11 & 31) + 1;
  u32 x = hwreg_read(w, in, id) >> off;
  set_s(w, in->dst.reg, n == 32 ? x : x & ((1u << n) - 1));
}
static void setreg(Wave *w, const Inst *in) {
  int id = in->simm & 63, off = in->simm >> 6 & 31, n = (in->simm >> 11 & 31) + 1;
  u32 v = a32(w, in, 0), m = (n == 32 ? ~0u : (1u << n) - 1) << off;
  if (id == 1) {
    u32 full = w->mode | (u32)w->dx10 << 8 | (u32)w->ieee << 9 | (w->gpridx ? 1u << 27 : 0);
    full = (full & ~m) | (v << off & m);
    w->mode = full & 0xff;
    w->dx10 = full >> 8 & 1;
    w->ieee = full >> 9 & 1;
    w->gpridx = w->gpridx && full >> 27 & 1;
  } else if ((id == 20 || id == 21) && w->ln->arch->gen >= 10) w->s[S_FLAT + id - 20] = v;
  else kernel_fail(w, in, 0, "writing hardware register %d is not supported", id);
}
static void round_mode(Wave *w, const Inst *in) { w->mode = (w->mode & ~15u) | (in->simm & 15); }
static void denorm_mode(Wave *w, const Inst *in) { w->mode = (w->mode & 15u) | (in->simm & 15) << 4; }
static void gpr_idx_on(Wave *w, const Inst *in) {
  w->s[S_M0] = (w->s[S_M0] & ~0xf0ffu) | (a32(w, in, 0) & 255) | in->simm << 12;
  w->gpridx = 1;
}
static void gpr_idx_off(Wave *w, const Inst *in) {
  (void)in;
  w->gpridx = 0;
}
static void gpr_idx_idx(Wave *w, const Inst *in) { w->s[S_M0] = (w->s[S_M0] & ~0xffu) | (a32(w, in, 0) & 255); }
static void gpr_idx_mode(Wave *w, const Inst *in) { w->s[S_M0] = (w->s[S_M0] & ~0xf000u) | in->simm << 12; }
static void msg_rtn(Wave *w, const Inst *in) {
  if ((a32(w, in, 0) & 255) != 131) kernel_fail(w, in, 0, "message"); // MSG_RTN_GET_REALTIME
  memrealtime(w, in);
}

// ---------------------------------------------------------------- scalar loads
static void smem(Wave *w, const Inst *in) { // bytes in->bytes, sign in->sub, registers in->nreg
  u64 base = s64(w, in->src[0].reg), off = in->offset;
  if (in->src[1].kind == O_SGPR) off += w->s[in->src[1].reg];
  else if (in->src[1].kind == O_CONST) off += in->src[1].ival;
  u64 addr;
  int n = in->nreg;
  if (in->seg) { // s_buffer_load: 48-bit base, size in the third word
    u32 num = w->s[in->src[0].reg + 2];
    base &= 0xffffffffffffull;
    off &= 0xffffffff;
    if (off + (u64)in->bytes * n > num) {
      for (int i = 0; i < n; i++) set_s(w, in->dst.reg + i, 0);
      return;
    }
  }
  addr = base + (i64)off;
  if (in->bytes == 4 && (addr & 3)) kernel_fail(w, in, -1, "scalar load from misaligned address 0x%llx", (unsigned long long)addr);
  check_range(w, in, -1, addr, (u32)in->bytes * n, 0);
  if (in->bytes == 4) {
    u32 t[16];
    memcpy(t, (void *)addr, 4 * n);
    for (int i = 0; i < n; i++) set_s(w, in->dst.reg + i, t[i]);
  } else {
    u32 v = 0;
    memcpy(&v, (void *)addr, in->bytes);
    if (in->sub) v = sx(v, in->bytes * 8);
    set_s(w, in->dst.reg, v);
  }
}

// ---------------------------------------------------------------- table: name, operand shape, function
// shape: "d12" destination and two 32-bit sources, "D" "A" "B" 64-bit ones; l: sign-extended 64-bit literal
typedef struct {
  const char *name, *shape;
  ExecFn fn;
  u8 sub, cls;
} SRow;
static const SRow srows[] = {
  {"s_add_u32|s_add_co_u32", "duu", add_u32},
  {"s_sub_u32|s_sub_co_u32", "duu", sub_u32},
  {"s_add_i32|s_add_co_i32", "duu", add_i32},
  {"s_sub_i32|s_sub_co_i32", "duu", sub_i32},
  {"s_addc_u32|s_add_co_ci_u32", "duu", addc_u32},
  {"s_subb_u32|s_sub_co_ci_u32", "duu", subb_u32},
  {"s_min_i32", "duu", min_i32},
  {"s_max_i32", "duu", max_i32},
  {"s_min_u32", "duu", min_u32},
  {"s_max_u32", "duu", max_u32},
  {"s_cselect_b32", "duu", cselect32},
  {"s_cselect_b64", "dqq", cselect64},
  {"s_and_b32", "duu", and32},
  {"s_or_b32", "duu", or32},
  {"s_xor_b32", "duu", xor32},
  {"s_andn2_b32|s_and_not1_b32", "duu", andn232},
  {"s_orn2_b32|s_or_not1_b32", "duu", orn232},
  {"s_nand_b32", "duu", nand_32},
  {"s_nor_b32", "duu", nor32},
  {"s_xnor_b32", "duu", xnor32},
  {"s_and_b64", "dqq", and64},
  {"s_or_b64", "dqq", or64},
  {"s_xor_b64", "dqq", xor64},
  {"s_andn2_b64|s_and_not1_b64", "dqq", andn264},
  {"s_orn2_b64|s_or_not1_b64", "dqq", orn264},
  {"s_nand_b64", "dqq", nand_64},
  {"s_nor_b64", "dqq", nor64},
  {"s_xnor_b64", "dqq", xnor64},
  {"s_lshl_b32", "duu", lshl32},
  {"s_lshr_b32", "duu", lshr32},
  {"s_ashr_i32", "duu", ashr32},
  {"s_lshl_b64", "dqu", lshl64},
  {"s_lshr_b64", "dqu", lshr64},
  {"s_ashr_i64", "dlu", ashr64},
  {"s_bfm_b32", "duu", bfm32},
  {"s_bfm_b64", "duu", bfm64},
  {"s_mul_i32", "duu", mul32},
  {"s_mul_hi_u32", "duu", mul_hi_u32},
  {"s_mul_hi_i32", "duu", mul_hi_i32},
  {"s_bfe_u32", "duu", bfe_u32},
  {"s_bfe_i32", "duu", bfe_i32},
  {"s_bfe_u64", "dqu", bfe_u64},
  {"s_bfe_i64", "dlu", bfe_i64},
  {"s_absdiff_i32", "duu", absdiff},
  {"s_lshl1_add_u32", "duu", lshl1_add},
  {"s_lshl2_add_u32", "duu", lshl2_add},
  {"s_lshl3_add_u32", "duu", lshl3_add},
  {"s_lshl4_add_u32", "duu", lshl4_add},
  {"s_pack_ll_b32_b16", "duu", pack_ll},
  {"s_pack_lh_b32_b16", "duu", pack_lh},
  {"s_pack_hh_b32_b16", "duu", pack_hh},
  {"s_pack_hl_b32_b16", "duu", pack_hl},
  {"s_add_nc_u64|s_add_u64", "dqq", add_u64},
  {"s_sub_nc_u64|s_sub_u64", "dqq", sub_u64},
  {"s_mul_u64", "dqq", mul_u64},
  {"s_mov_b32", "du", mov32},
  {"s_mov_b64", "dq", mov64},
  {"s_cmov_b32", "du", cmov32},
  {"s_cmov_b64", "dq", cmov64},
  {"s_not_b32", "du", not32},
  {"s_not_b64", "dq", not64},
  {"s_wqm_b32", "du", wqm32},
  {"s_wqm_b64", "dq", wqm64},
  {"s_brev_b32", "du", brev32},
  {"s_brev_b64", "dq", brev_64},
  {"s_bcnt0_i32_b32", "du", bcnt0_32},
  {"s_bcnt1_i32_b32", "du", bcnt1_32},
  {"s_bcnt0_i32_b64", "dq", bcnt0_64},
  {"s_bcnt1_i32_b64", "dq", bcnt1_64},
  {"s_ff0_i32_b32", "du", ff0_32},
  {"s_ff1_i32_b32|s_ctz_i32_b32", "du", ff1_32},
  {"s_ff0_i32_b64", "dq", ff0_64},
  {"s_ff1_i32_b64|s_ctz_i32_b64", "dq", ff1_64},
  {"s_flbit_i32_b32|s_clz_i32_u32", "du", flbit32},
  {"s_flbit_i32_b64|s_clz_i32_u64", "dq", flbit64},
  {"s_flbit_i32|s_cls_i32", "du", flbit_i32},
  {"s_flbit_i32_i64|s_cls_i32_i64", "dq", flbit_i64},
  {"s_sext_i32_i8", "du", sext8},
  {"s_sext_i32_i16", "du", sext16},
  {"s_bitset0_b32", "du", bitset0},
  {"s_bitset1_b32", "du", bitset1},
  {"s_bitset0_b64", "du", bitset0_64},
  {"s_bitset1_b64", "du", bitset1_64},
  {"s_quadmask_b32", "du", quadmask32},
  {"s_quadmask_b64", "dq", quadmask64},
  {"s_abs_i32", "du", abs32},
  {"s_bitreplicate_b64_b32", "du", bitreplicate},
#define SV(a, f) {"s_" a "_saveexec_b32", "du", f##32}, {"s_" a "_saveexec_b64", "dq", f##64}
  SV("and", and_save),
  SV("or", or_save),
  SV("xor", xor_save),
  SV("andn2", andn2_save),
  SV("and_not1", andn2_save),
  SV("orn2", orn2_save),
  SV("or_not1", orn2_save),
  SV("andn1", andn1_save),
  SV("and_not0", andn1_save),
  SV("orn1", orn1_save),
  SV("or_not0", orn1_save),
  SV("nand", nand_save),
  SV("nor", nor_save),
  SV("xnor", xnor_save),
  {"s_andn1_wrexec_b32|s_and_not0_wrexec_b32", "du", andn1_wr32},
  {"s_andn1_wrexec_b64|s_and_not0_wrexec_b64", "dq", andn1_wr64},
  {"s_andn2_wrexec_b32|s_and_not1_wrexec_b32", "du", andn2_wr32},
  {"s_andn2_wrexec_b64|s_and_not1_wrexec_b64", "dq", andn2_wr64},
  {"s_cmp_eq_i32|s_cmp_eq_u32", "uu", cmp_eq},
  {"s_cmp_lg_i32|s_cmp_lg_u32", "uu", cmp_lg},
  {"s_cmp_gt_i32", "uu", cmp_gt_i},
  {"s_cmp_ge_i32", "uu", cmp_ge_i},
  {"s_cmp_lt_i32", "uu", cmp_lt_i},
  {"s_cmp_le_i32", "uu", cmp_le_i},
  {"s_cmp_gt_u32", "uu", cmp_gt_u},
  {"s_cmp_ge_u32", "uu", cmp_ge_u},
  {"s_cmp_lt_u32", "uu", cmp_lt_u},
  {"s_cmp_le_u32", "uu", cmp_le_u},
  {"s_bitcmp0_b32", "uu", bitcmp0},
  {"s_bitcmp1_b32", "uu", bitcmp1},
  {"s_bitcmp0_b64", "qu", bitcmp0_64},
  {"s_bitcmp1_b64", "qu", bitcmp1_64},
  {"s_cmp_eq_u64", "qq", cmp_eq64},
  {"s_cmp_lg_u64", "qq", cmp_lg64},
  {"s_add_f32", "duu", addf},
  {"s_sub_f32", "duu", subf},
  {"s_mul_f32", "duu", mulf},
  {"s_fmac_f32", "duu", fmacf},
  {"s_fmaak_f32|s_fmamk_f32", "duuu", fmaf3},
  {"s_min_f32|s_min_num_f32", "duu", minf_},
  {"s_max_f32|s_max_num_f32", "duu", maxf_},
  {"s_minimum_f32", "duu", minimumf_},
  {"s_maximum_f32", "duu", maximumf_},
  {"s_ceil_f32", "du", ceilf_},
  {"s_floor_f32", "du", floorf_},
  {"s_trunc_f32", "du", truncf_},
  {"s_rndne_f32", "du", rndnef},
  {"s_add_f16", "dhh", addh},
  {"s_sub_f16", "dhh", subh},
  {"s_mul_f16", "dhh", mulh},
  {"s_fmac_f16", "dhh", fmach},
  {"s_min_f16|s_min_num_f16", "dhh", minh},
  {"s_max_f16|s_max_num_f16", "dhh", maxh},
  {"s_minimum_f16", "dhh", minimumh},
  {"s_maximum_f16", "dhh", maximumh},
  {"s_ceil_f16", "dh", ceilh},
  {"s_floor_f16", "dh", floorh},
  {"s_trunc_f16", "dh", trunch},
  {"s_rndne_f16", "dh", rndneh},
  {"s_cvt_f32_i32", "du", cvt_f_i},
  {"s_cvt_f32_u32", "du", cvt_f_u},
  {"s_cvt_i32_f32", "du", cvt_i_f},
  {"s_cvt_u32_f32", "du", cvt_u_f},
  {"s_cvt_f16_f32", "du", cvt_h_f},
  {"s_cvt_f32_f16", "dh", cvt_f_h},
  {"s_cvt_hi_f32_f16", "du", cvt_hi_f_h},
  {"s_cvt_pk_rtz_f16_f32", "duu", cvt_pkrtz},
  {"s_movk_i32", "dk", movk},
  {"s_cmovk_i32", "dk", cmovk},
  {"s_addk_i32|s_addk_co_i32", "dk", addk},
  {"s_mulk_i32", "dk", mulk},
  {"s_cmpk_eq_i32", "dk", cmpk, 0},
  {"s_cmpk_lg_i32", "dk", cmpk, 1},
  {"s_cmpk_gt_i32", "dk", cmpk, 2},
  {"s_cmpk_ge_i32", "dk", cmpk, 3},
  {"s_cmpk_lt_i32", "dk", cmpk, 4},
  {"s_cmpk_le_i32", "dk", cmpk, 5},
  {"s_cmpk_eq_u32", "dk", cmpk, 6},
  {"s_cmpk_lg_u32", "dk", cmpk, 7},
  {"s_cmpk_gt_u32", "dk", cmpk, 8},
  {"s_cmpk_ge_u32", "dk", cmpk, 9},
  {"s_cmpk_lt_u32", "dk", cmpk, 10},
  {"s_cmpk_le_u32", "dk", cmpk, 11},
  {"s_movrels_b32", "du", movrels, 0},
  {"s_movrels_b64", "dq", movrels, 1},
  {"s_movreld_b32", "du", movreld, 0},
  {"s_movreld_b64", "dq", movreld, 1},
  {"s_branch", "k", branch, 0, C_BRANCH},
  {"s_cbranch_scc0", "k", cbranch, 0, C_BRANCH},
  {"s_cbranch_scc1", "k", cbranch, 1, C_BRANCH},
  {"s_cbranch_vccz", "k", cbranch, 2, C_BRANCH},
  {"s_cbranch_vccnz", "k", cbranch, 3, C_BRANCH},
  {"s_cbranch_execz", "k", cbranch, 4, C_BRANCH},
  {"s_cbranch_execnz", "k", cbranch, 5, C_BRANCH},
  {"s_getpc_b64", "d", getpc},
  {"s_setpc_b64", "q", setpc, 0, C_BRANCH},
  {"s_swappc_b64", "dq", swappc, 0, C_BRANCH},
  {"s_call_b64", "dk", call64, 0, C_BRANCH},
  {"s_endpgm|s_endpgm_saved", "", endpgm, 0, C_BRANCH},
  {"s_sleep", "k", sleep_},
  {"s_sleep_var", "u", sleep_},
  {"s_trap", "k", trap},
  {"s_barrier", "", barrier, 0, C_BARRIER},
  {"s_barrier_signal", "u", barrier_signal, 0, C_BARRIER},
  {"s_barrier_signal_isfirst", "u", barrier_signal, 1, C_BARRIER},
  {"s_barrier_wait", "k", barrier_wait, 0, C_BARRIER},
  {"s_memtime", "d", memtime},
  {"s_memrealtime", "d", memrealtime},
  {"s_round_mode", "k", round_mode},
  {"s_denorm_mode", "k", denorm_mode},
  {"s_set_gpr_idx_off", "", gpr_idx_off},
  {"s_set_gpr_idx_idx", "u", gpr_idx_idx},
};
static const char *const fconds[] = {"lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt"};
static bool match(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *p = list; p; p = strchr(p, '|'), p = p ? p + 1 : NULL)
    if (!strncmp(p, name, n) && (p[n] == 0 || p[n] == '|')) return true;
  return false;
}
static bool text_operand(const char *t, Operand *o) { // scalar register or number in front of a raw operand list
  char b[32];
  snprintf(b, sizeof b, "%.*s", (int)strcspn(t, ", "), t);
  return parse_operand_text(b, o);
}
bool salu_bind(Inst *in, const char *mn, Operand *o, int n, const Arch *a, const char *tail) {
  in->cls = C_SALU;
  u32 raw;
  memcpy(&raw, (void *)in->pc, 4);
  in->simm = (i16)raw;
  if (!strncmp(mn, "s_getreg", 8)) {
    in->fn = getreg;
    in->simm = raw & 0xffff;
    return text_operand(tail, &in->dst);
  }
  if (!strcmp(mn, "s_setreg_imm32_b32")) {
    in->fn = setreg;
    in->simm = raw & 0xffff;
    in->src[0].kind = O_CONST;
    u32 v;
    memcpy(&v, (u8 *)in->pc + 4, 4);
    in->src[0].bits = v;
    return true;
  }
  if (!strcmp(mn, "s_setreg_b32")) {
    in->fn = setreg;
    in->simm = raw & 0xffff;
    const char *c = strrchr(tail, ',');
    if (!c) return false;
    c++;
    while (*c == ' ') c++;
    if (!text_operand(c, &in->src[0])) return false;
    operand_finish(&in->src[0], 'u');
    return true;
  }
  if (!strcmp(mn, "s_set_gpr_idx_on")) {
    in->fn = gpr_idx_on;
    in->simm = raw >> 8 & 15;
    bool ok = text_operand(tail, &in->src[0]);
    operand_finish(&in->src[0], 'u');
    return ok;
  }
  if (!strcmp(mn, "s_set_gpr_idx_mode")) {
    in->fn = gpr_idx_mode;
    in->simm = raw & 15;
    return true;
  }
  if (!strncmp(mn, "s_sendmsg_rtn", 13)) {
    in->fn = msg_rtn;
    in->src[0].kind = O_CONST;
    in->src[0].bits = raw & 255;
    return text_operand(tail, &in->dst);
  }
  if (!strncmp(mn, "s_load_", 7) || !strncmp(mn, "s_buffer_load_", 14)) {
    const char *t = strrchr(mn, '_') + 1;
    in->seg = mn[2] == 'b';
    in->bytes = 4;
    in->cls = C_SMEM;
    in->fn = smem;
    static const struct {
      const char *t;
      u8 n, bytes, sign;
    } L[] = {{"dword", 1, 4, 0}, {"dwordx2", 2, 4, 0}, {"dwordx3", 3, 4, 0}, {"dwordx4", 4, 4, 0}, {"dwordx8", 8, 4, 0},
        {"dwordx16", 16, 4, 0}, {"b32", 1, 4, 0}, {"b64", 2, 4, 0}, {"b96", 3, 4, 0}, {"b128", 4, 4, 0}, {"b256", 8, 4, 0},
        {"b512", 16, 4, 0}, {"u8", 1, 1, 0}, {"i8", 1, 1, 1}, {"u16", 1, 2, 0}, {"i16", 1, 2, 1}};
    for (size_t i = 0; i < sizeof L / sizeof *L; i++)
      if (!strcmp(L[i].t, t)) {
        in->nreg = L[i].n;
        in->bytes = L[i].bytes;
        in->sub = L[i].sign;
      }
    if (!in->nreg || n < 2 || o[0].kind != O_SGPR || o[1].kind != O_SGPR) return false;
    in->dst = o[0];
    in->src[0] = o[1];
    if (n > 2) in->src[1] = o[2];
    return true;
  }
  if (!strncmp(mn, "s_cmp_", 6) && (strstr(mn, "_f32") || strstr(mn, "_f16"))) {
    bool h = strstr(mn, "_f16") != NULL;
    char c[8];
    snprintf(c, sizeof c, "%.*s", (int)(strrchr(mn, '_') - mn - 6), mn + 6);
    for (size_t i = 0; i < sizeof fconds / sizeof *fconds; i++)
      if (!strcmp(fconds[i], c)) {
        in->fn = h ? cmph : cmpf;
        in->sub = i;
      }
    if (!in->fn || n != 2) return false;
    for (int i = 0; i < 2; i++) {
      in->src[i] = o[i];
      operand_finish(&in->src[i], h ? 'h' : 'u');
    }
    return true;
  }
  for (size_t i = 0; i < sizeof srows / sizeof *srows; i++) {
    const SRow *r = &srows[i];
    if (!match(r->name, mn)) continue;
    in->fn = r->fn;
    in->sub = r->sub;
    if (r->cls) in->cls = r->cls;
    int k = 0;
    for (const char *s = r->shape; *s; s++) {
      if (*s == 'k') {
        k++;
        continue;
      }
      if (k >= n) return false;
      if (*s == 'd') {
        in->dst = o[k++];
        if (in->dst.kind != O_SGPR) return false;
      } else {
        in->src[in->nsrc] = o[k++];
        if (in->src[in->nsrc].kind == O_VGPR) return false;
        operand_finish(&in->src[in->nsrc], *s);
        in->nsrc++;
      }
    }
    (void)a;
    return true;
  }
  return false;
}
