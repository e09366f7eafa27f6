// SPDX-License-Identifier: MIT
// Vector memory: global, flat, scratch, buffer, LDS; loads, stores, atomics; and the checks on them.
#include "lanes.h"
#include <math.h>
#include <stdlib.h>

enum { SEG_GLOBAL, SEG_FLAT, SEG_SCRATCH, SEG_BUFFER, SEG_LDS };
enum { OP_LOAD, OP_STORE, OP_ATOMIC, OP_LDSDMA, OP_READ2, OP_WRITE2, OP_BPERM, OP_PERM, OP_SWIZZLE, OP_XCHG2 };
enum {
  AT_ADD,
  AT_SUB,
  AT_RSUB,
  AT_INC,
  AT_DEC,
  AT_SMIN,
  AT_UMIN,
  AT_SMAX,
  AT_UMAX,
  AT_AND,
  AT_OR,
  AT_XOR,
  AT_SWAP,
  AT_CMPSWAP,
  AT_FADD,
  AT_FMIN,
  AT_FMAX,
  AT_FCMPSWAP,
  AT_PKADDH,
  AT_PKADDB,
  AT_DADD,
  AT_DMIN,
  AT_DMAX,
  AT_CSUB,
  AT_MSKOR,
  AT_CONDSUB
};
// What one element is and where it goes. d16: 1 low half kept apart, 2 high half.
typedef struct {
  u8 op, bytes, nreg, sign, d16, at, stride64, cmp_first;
} Mem;

// ---------------------------------------------------------------- checks
void check_range(Wave *w, const Inst *in, int lane, u64 addr, u32 bytes, int write) {
  const Alloc *h = w->wk->hit;
  if (lane < 0 && env.global_races) races_touch(w, in, lane, addr, bytes, write, 0); // scalar loads
  if (h && addr >= h->lo && addr + bytes <= h->hi && !(write && h->kind == A_CODE)) return;
  const Alloc *a = mem_find(addr, bytes);
  if (a && !(write && a->kind == A_CODE)) {
    w->wk->hit = a;
    return;
  }
  if (!env.check_mem) return;
  const Alloc *n = mem_nearest(addr);
  static const char *const kinds[] = {"device memory", "pinned host memory", "registered host memory", "device variable",
      "code or constants", "kernel arguments", "managed memory"};
  char where[256] = "there is no allocation at all";
  if (n) {
    i64 d = addr < n->lo ? (i64)(n->lo - addr) : addr >= n->hi ? (i64)(addr - n->hi) : 0;
    const char *rel = !n->live && addr < n->hi && addr >= n->lo ? "inside"
                      : addr < n->lo                            ? "before"
                      : addr >= n->hi                           ? "after the end of"
                                                                : "across the end of";
    snprintf(where, sizeof where, "%lld bytes %s %s%s [0x%llx, 0x%llx) of %llu bytes%s%s", (long long)d, rel, n->live ? "" : "FREED ",
        kinds[n->kind], (unsigned long long)n->lo, (unsigned long long)n->hi, (unsigned long long)(n->hi - n->lo), n->name[0] ? ", " : "",
        n->name);
  }
  kernel_fail(w, in, lane, "%s of %u bytes at 0x%llx: %s: %s", write ? "write" : "read", bytes, (unsigned long long)addr,
      a ? "read-only memory" : "not a live allocation", where);
}
static void check_align(Wave *w, const Inst *in, int lane, u64 addr, int need, const char *what) {
  if (env.align == ALIGN_OFF || !(addr & (need - 1))) return;
  if (env.align == ALIGN_ERROR) kernel_fail(w, in, lane, "misaligned %s access at 0x%llx (needs %d)", what, (unsigned long long)addr, need);
  if (__atomic_exchange_n(&((Inst *)in)->warned, 1, __ATOMIC_RELAXED)) return;
  kernel_warn(w, in, lane, "misaligned %s access at 0x%llx (wants %d): slow, and wrong without unaligned mode", what,
      (unsigned long long)addr, need);
}
static void check_global(Wave *w, const Inst *in, const u64 *addr, u64 m, int bytes, int write, int atomic) {
  if (!m) return;
  const Span span = span64(addr, m, w->n);
  const u64 lo = span.lo, hi = span.hi, low = span.any;
  int l;
  const Alloc *h = w->wk->hit;
  if (hi + bytes <= hi || !(h && lo >= h->lo && hi + bytes <= h->hi)) h = hi + bytes > hi ? mem_find(lo, hi + bytes - lo) : NULL;
  if (h && !(write && h->kind == A_CODE)) w->wk->hit = h;
  else EACH(l, m) check_range(w, in, l, addr[l], bytes, write);
  int need = bytes >= 4 ? 4 : bytes;
  if (atomic && (low & (bytes - 1)) && env.align)
    EACH(l, m)
    if (addr[l] & (bytes - 1)) kernel_fail(w, in, l, "atomic on misaligned address 0x%llx (needs %d)", (unsigned long long)addr[l], bytes);
  if ((low & (need - 1)) && env.align > ALIGN_LDS) EACH(l, m) check_align(w, in, l, addr[l], need, "global");
  if (env.global_races) EACH(l, m) races_touch(w, in, l, addr[l], bytes, write, atomic);
}
static const char *other_inst(Wave *w, u32 idx, char *buf, size_t n) {
  Module *m = w->ln->mod;
  for (u64 i = 0; i < (m->text_hi - m->text_lo) / 4; i++) {
    Inst *o = m->insts[i];
    if (o && o->idx == idx) {
      u64 at;
      const char *f = module_function_at(m, o->pc, &at);
      const char *src = module_line_at(m, o->pc);
      snprintf(buf, n, "%s+0x%llx: %s%s%s", f, (unsigned long long)(o->pc - at), o->text, src ? " at " : "", src ? src : "");
      return buf;
    }
  }
  return "?";
}
// LDS bookkeeping per byte: who touched it last, and that wave's signal count then (16 bits, compared modulo 2^16; lds_age
// keeps old entries from coming around again). An access by another wave is ordered before this one if that wave passed a
// barrier after it which this wave has waited for: its signal count then is below our wait count.
#define COUNT(e) ((u16)((e) >> 16))
#define NOT_BEFORE(e, count) ((i16)(u16)(COUNT(e) - (u16)(count)) >= 0)
enum { MANY = 0xff00 };   // several waves
void lds_age(Worker *k, u32 waits) {
  for (u32 i = 0; i < k->lds_size; i++)
    for (int r = 0; r < 2; r++) {
      u32 *e = r ? &k->lds_r[i] : &k->lds_w[i];
      if (*e && !NOT_BEFORE(*e, waits - 1)) *e = (*e & 0xffff) | (waits - 1) << 16;
    }
}
static void lds_slow(Wave *w, const Inst *in, int lane, u32 addr, int bytes, int write, int atomic) {
  Worker *k = w->wk;
  const u32 sig = w->signals & 0xffff, wt = w->waits & 0xffff, me = w->id << 8 | 1 | (atomic ? 2 : 0), tag = sig << 16 | me;
  u32 *W = k->lds_w + addr, *R = k->lds_r + addr;
  char b[400];
  for (int i = 0; i < bytes; i++) {
    u32 o = W[i], r = R[i];
    if ((!write || atomic) && !o && env.check_lds_init)
      kernel_fail(w, in, lane,
          "LDS byte %u is read but nothing in this workgroup has written it yet: not initialised, or a barrier is missing before this read",
          addr + i);
    // a load may be an atomic load, so it does not race with an atomic
    if (o && env.check_races && (o & MANY) != (me & MANY) && NOT_BEFORE(o, wt) && !((atomic || !write) && (o & 2)))
      kernel_fail(w, in, lane, "LDS race: wave %d %s byte %u that wave %u wrote since the last barrier, by %s", w->id,
          write ? (atomic ? "updates" : "writes") : "reads", addr + i, o >> 8 & 255, other_inst(w, k->lds_wi[(addr + i) / 4], b, sizeof b));
    if (write && !atomic && r && env.check_races && (r & MANY) != (me & MANY) && NOT_BEFORE(r, wt)) {
      char who[32] = "several other waves";
      if ((r & MANY) != MANY) snprintf(who, sizeof who, "wave %u", r >> 8 & 255);
      kernel_fail(w, in, lane, "LDS race: wave %d writes byte %u that %s read since the last barrier, by %s", w->id, addr + i, who,
          other_inst(w, k->lds_ri[(addr + i) / 4], b, sizeof b));
    }
    if (write) W[i] = tag;
    else R[i] = r && (r & MANY) != (me & MANY) && NOT_BEFORE(r, wt) ? (u32)(NOT_BEFORE(r, sig) ? COUNT(r) : sig) << 16 | MANY | 1 : tag;
  }
}
// n entries that are one: n is 4 or a multiple of 16
typedef u32 Four __attribute__((vector_size(16), aligned(4), may_alias));
static inline bool same(const u32 *p, int n) {
#ifdef __AVX512F__
  if (n != 4) {
    const __m512i all = _mm512_set1_epi32((i32)*p);
    for (int i = 0; i < n; i += 16)
      if (_mm512_cmpneq_epi32_mask(_mm512_loadu_si512(p + i), all)) return false;
    return true;
  }
#endif
  const Four one = {p[0], p[0], p[0], p[0]};
  Four differs = *(const Four *)p ^ one;
  for (int i = 4; i < n; i += 4) differs |= *(const Four *)(p + i) ^ one;
  u64 half[2];
  memcpy(half, &differs, 16);
  return !(half[0] | half[1]);
}
static inline void set(u32 *p, u32 x, int n) {
  for (int i = 0; i < n; i += 4) *(Four *)(p + i) = (Four){x, x, x, x};
}
// The bytes [addr, addr + n) that have one history: whether nothing is to be said of the access, which is then noted.
static inline bool lds_note(Wave *w, const Inst *in, u32 addr, int n, int write) {
  Worker *k = w->wk;
  const u32 sig = w->signals & 0xffff, wt = w->waits & 0xffff, wave = w->id << 8, tag = sig << 16 | wave | 1;
  u32 *W = k->lds_w + addr, *R = k->lds_r + addr, o = *W, r = *R;
  if (!same(W, n) || !same(R, n) || (o && (o & MANY) != wave && NOT_BEFORE(o, wt))) return false;
  if (!write && r == tag) return o != 0;
  const bool others = r && (r & MANY) != wave && NOT_BEFORE(r, wt);
  if (write) {
    if (others) return false;
    set(W, tag, n);
    for (int i = 0; i < n / 4; i++) k->lds_wi[addr / 4 + i] = in->idx;
    return true;
  }
  if (!o) return false;
  u32 now = tag;
  if (others) now = (r & MANY) == MANY && NOT_BEFORE(r, sig) ? r : sig << 16 | MANY | 1;
  if (now != r) set(R, now, n);
  for (int i = 0; i < n / 4; i++) k->lds_ri[addr / 4 + i] = in->idx;
  return true;
}
static void lds_touch(Wave *w, const Inst *in, int lane, u32 addr, int bytes, int write, int atomic) {
  Worker *k = w->wk;
  if ((u64)addr + bytes > k->lds_size) {
    if (env.check_lds)
      kernel_fail(
          w, in, lane, "LDS %s of %d bytes at offset %u: the workgroup has %u bytes", write ? "write" : "read", bytes, addr, k->lds_size);
    if ((u64)addr + bytes > 65536) kernel_fail(w, in, lane, "LDS offset %u is beyond 64 KiB", addr);
  }
  if (!env.check_races && !env.check_lds_init) return;
  const u32 sig = w->signals & 0xffff, wt = w->waits & 0xffff, wave = w->id << 8, tag = sig << 16 | wave | 1;
  // dwords whose bytes have one history: the usual case, decided once for four of them, or for each
  if (!((addr | bytes) & 3) && !atomic) {
    if (bytes == 16 && lds_note(w, in, addr, 16, write)) return;
    for (; bytes && lds_note(w, in, addr, 4, write); addr += 4) bytes -= 4;
    if (!bytes) return;
  }
  if (bytes <= 2 && !atomic) {   // one or two bytes this wave, or nobody since the barrier, has used
    u32 *W = k->lds_w + addr, *R = k->lds_r + addr, o = W[0], r = R[0];
    if (W[bytes - 1] == o && R[bytes - 1] == r && !(o && (o & MANY) != wave && NOT_BEFORE(o, wt)) && !(r && (r & MANY) != wave && NOT_BEFORE(r, wt)) && (write || o)) {
      u32 *e = write ? W : R;
      e[0] = e[bytes - 1] = tag;
      (write ? k->lds_wi : k->lds_ri)[addr / 4] = in->idx;
      return;
    }
  }
  lds_slow(w, in, lane, addr, bytes, write, atomic);
  u32 *last = write ? k->lds_wi : k->lds_ri;
  for (int i = 0; i < bytes; i += 4) last[(addr + i) / 4] = in->idx;
}
static void lds_stats(Wave *w, const Inst *in, const u64 *addr, u64 m, int bytes) {
  // banks of 4 bytes, 32 of them; 32 lanes per pass for up to 4 bytes, 16 for 8, 8 for 16
  MemStat *s = &w->wk->mstat[in->idx];
  int group = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;
  for (int g = 0; g < w->n; g += group) {
    u64 gm = m >> g & ((1ull << group) - 1);
    int worst = 0, l;
    u32 seen[32][32];
    u8 cnt[32] = {0};
    if (!gm) continue;
    EACH(l, gm) for (int b = 0; b < (bytes + 3) / 4; b++) {
      u32 dw = (addr[g + l] >> 2) + b, bank = dw & 31;
      bool dup = false;
      for (int i = 0; i < cnt[bank]; i++) dup |= seen[bank][i] == dw;
      if (!dup && cnt[bank] < 32) {
        seen[bank][cnt[bank]++] = dw;
        if (cnt[bank] > worst) worst = cnt[bank];
      }
    }
    s->bank_cycles += worst;
    s->ideal_cycles++;
  }
  s->bytes += (u64)__builtin_popcountll(m) * bytes;
  s->accesses++;
}
static void vmem_stats(Wave *w, const Inst *in, const u64 *addr, u64 m, int bytes) {
  MemStat *s = &w->wk->mstat[in->idx];
  u64 set64[256], set128[256];
  int n64 = 0, n128 = 0, l;
  EACH(l, m) for (u64 a = addr[l] >> 6; a <= (addr[l] + bytes - 1) >> 6; a++) {
    bool d = false;
    for (int i = n64 - 1; i >= 0 && !d; i--) d = set64[i] == a;
    if (!d && n64 < 256) set64[n64++] = a;
    d = false;
    for (int i = n128 - 1; i >= 0 && !d; i--) d = set128[i] == a >> 1;
    if (!d && n128 < 256) set128[n128++] = a >> 1;
  }
  s->seg64 += n64;
  s->seg128 += n128;
  s->bytes += (u64)__builtin_popcountll(m) * bytes;
  s->accesses++;
}

// ---------------------------------------------------------------- atomics
static u64 atomic_op(int at, int bytes, u64 old, u64 v, u64 cmp) {
  u32 o = (u32)old, x = (u32)v;
  switch (at) {
    case AT_ADD: return old + v;
    case AT_SUB: return old - v;
    case AT_RSUB: return v - old;
    case AT_INC: return bytes == 4 ? (o >= x ? 0 : o + 1) : (old >= v ? 0 : old + 1);
    case AT_DEC: return bytes == 4 ? (o == 0 || o > x ? x : o - 1) : (old == 0 || old > v ? v : old - 1);
    case AT_SMIN: return bytes == 4 ? ((i32)o < (i32)x ? o : x) : ((i64)old < (i64)v ? old : v);
    case AT_SMAX: return bytes == 4 ? ((i32)o > (i32)x ? o : x) : ((i64)old > (i64)v ? old : v);
    case AT_UMIN: return old < v ? old : v;
    case AT_UMAX: return old > v ? old : v;
    case AT_AND: return old & v;
    case AT_OR: return old | v;
    case AT_XOR: return old ^ v;
    case AT_SWAP: return v;
    case AT_CMPSWAP: return old == cmp ? v : old;
    case AT_CSUB: return o < x ? 0 : o - x;
    case AT_CONDSUB: return o >= x ? o - x : o;
    case AT_FADD: return asu(asf(o) + asf(x));
    case AT_FMIN: return asu(fminf(asf(o), asf(x)));
    case AT_FMAX: return asu(fmaxf(asf(o), asf(x)));
    case AT_FCMPSWAP: return asf(o) == asf((u32)cmp) ? v : old;
    case AT_PKADDH: return f2h(h2f(o) + h2f(x)) | (u32)f2h(h2f(o >> 16) + h2f(x >> 16)) << 16;
    case AT_PKADDB: return f2bf(bf2f(o) + bf2f(x)) | (u32)f2bf(bf2f(o >> 16) + bf2f(x >> 16)) << 16;
    case AT_DADD: return asq(asd(old) + asd(v));
    case AT_DMIN: return asq(fmin(asd(old), asd(v)));
    case AT_DMAX: return asq(fmax(asd(old), asd(v)));
    case AT_MSKOR: return (old & ~cmp) | v;
  }
  return old;
}
static u64 atomic_global(int at, int bytes, u64 addr, u64 v, u64 cmp) {
  if (bytes == 4) {
    u32 *p = (u32 *)addr, o = __atomic_load_n(p, __ATOMIC_RELAXED), nv;
    do nv = (u32)atomic_op(at, 4, o, (u32)v, (u32)cmp);
    while (!__atomic_compare_exchange_n(p, &o, nv, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return o;
  }
  u64 *p = (u64 *)addr, o = __atomic_load_n(p, __ATOMIC_RELAXED), nv;
  do nv = atomic_op(at, 8, o, v, cmp);
  while (!__atomic_compare_exchange_n(p, &o, nv, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  return o;
}

// ---------------------------------------------------------------- element moves
static inline void put_loaded(Wave *w, const Mem *k, int reg, int l, u32 x) {
  if (k->sign) x = k->bytes == 1 ? (u32)(i32)(i8)x : (u32)(i32)(i16)x;
  u32 *d = &w->v[reg][l];
  if (k->d16 == 1) *d = (*d & 0xffff0000) | (x & 0xffff);
  else if (k->d16 == 2) *d = (*d & 0xffff) | x << 16;
  else *d = x;
}
static inline bool words_in_row(const Wave *w, const u64 *base, u64 m) { // all lanes, four bytes each, one behind the other
  return m == w->full && all_of(base, base[0], 4, m, w->n);
}
static inline __attribute__((always_inline)) void load_words(Wave *w, int reg, const u64 *base, u64 m, const u8 *bias, const int n) {
  int l;
  if (n == 1 && words_in_row(w, base, m)) {
    memcpy(w->v[reg], bias + base[0], w->n * 4);
    return;
  }
  EACH(l, m) {
    u32 t[4];
    memcpy(t, bias + base[l], 4 * n);
    for (int i = 0; i < n; i++) w->v[reg + i][l] = t[i];
  }
}
static inline __attribute__((always_inline)) void store_words(Wave *w, int reg, const u64 *base, u64 m, u8 *bias, const int n) {
  int l;
  if (n == 1 && words_in_row(w, base, m)) {
    memcpy(bias + base[0], w->v[reg], w->n * 4);
    return;
  }
  EACH(l, m) {
    u32 t[4];
    for (int i = 0; i < n; i++) t[i] = w->v[reg + i][l];
    memcpy(bias + base[l], t, 4 * n);
  }
}
static void load_from(Wave *w, const Inst *in, const Mem *k, const u64 *base, u64 m, const u8 *bias) {
  int reg = in->dst.reg, l;
  if (k->bytes == 4) {
    switch (k->nreg) {
      case 1: load_words(w, reg, base, m, bias, 1); break;
      case 2: load_words(w, reg, base, m, bias, 2); break;
      case 3: load_words(w, reg, base, m, bias, 3); break;
      default: load_words(w, reg, base, m, bias, 4);
    }
  } else if (k->bytes == 2) {
    EACH(l, m) {
      u16 x;
      memcpy(&x, bias + base[l], 2);
      put_loaded(w, k, reg, l, x);
    }
  } else {
    EACH(l, m) put_loaded(w, k, reg, l, bias[base[l]]);
  }
}
static void store_to(Wave *w, const Inst *in, const Mem *k, const u64 *base, u64 m, u8 *bias) {
  int reg = in->src[1].reg, l, sh = k->d16 == 2 ? 16 : 0;
  if (k->bytes == 4) {
    switch (k->nreg) {
      case 1: store_words(w, reg, base, m, bias, 1); break;
      case 2: store_words(w, reg, base, m, bias, 2); break;
      case 3: store_words(w, reg, base, m, bias, 3); break;
      default: store_words(w, reg, base, m, bias, 4);
    }
  } else if (k->bytes == 2) {
    EACH(l, m) {
      u16 x = w->v[reg][l] >> sh;
      memcpy(bias + base[l], &x, 2);
    }
  } else {
    EACH(l, m) bias[base[l]] = w->v[reg][l] >> sh;
  }
}
static u64 atomic_data(Wave *w, const Inst *in, const Mem *k, int l, u64 *cmp) {
  int r = in->src[1].reg;
  *cmp = 0;
  bool two = k->at == AT_CMPSWAP || k->at == AT_FCMPSWAP;
  if (k->bytes == 4) {
    if (two) *cmp = w->v[r + 1][l];
    return w->v[r][l];
  }
  if (two) *cmp = w->v[r + 2][l] | (u64)w->v[r + 3][l] << 32;
  return w->v[r][l] | (u64)w->v[r + 1][l] << 32;
}
static void atomic_result(Wave *w, const Inst *in, const Mem *k, int l, u64 old) {
  if (!in->rtn) return;
  w->v[in->dst.reg][l] = (u32)old;
  if (k->bytes == 8) w->v[in->dst.reg + 1][l] = old >> 32;
}
static void lds_access(Wave *w, const Inst *in, const Mem *k, const u64 *addr, u64 m) {
  int bytes = k->bytes * k->nreg, l;
  bool write = k->op != OP_LOAD;
  if (env.align && in->seg == SEG_LDS) {
    int need = bytes == 8 ? 8 : bytes == 16 ? 16 : bytes == 12 ? 16 : bytes;
    if (span64(addr, m, w->n).any & (need - 1)) EACH(l, m) check_align(w, in, l, addr[l], need, "LDS");
  }
  // lanes one behind the other that have one history are judged at once
  const u64 first = m ? addr[__builtin_ctzll(m)] : 0, row = (u64)bytes * (u64)w->n;
  if (!(m == w->full && !((first | bytes) & 3) && k->op != OP_ATOMIC && first + row <= w->wk->lds_size && (env.check_races || env.check_lds_init) &&
          all_of(addr, first, bytes, m, w->n) && lds_note(w, in, (u32)first, (int)row, write)))
    EACH(l, m) lds_touch(w, in, l, (u32)addr[l], bytes, write, k->op == OP_ATOMIC);
  if (env.report) lds_stats(w, in, addr, m, bytes);
  if (k->op == OP_LOAD) load_from(w, in, k, addr, m, w->wk->lds);
  else if (k->op == OP_STORE) store_to(w, in, k, addr, m, w->wk->lds);
  else EACH(l, m) {
      u64 cmp, v = atomic_data(w, in, k, l, &cmp), old = 0;
      memcpy(&old, w->wk->lds + addr[l], k->bytes);
      u64 nv = atomic_op(k->at, k->bytes, old, v, cmp);
      memcpy(w->wk->lds + addr[l], &nv, k->bytes);
      atomic_result(w, in, k, l, old);
    }
}
// private memory is interleaved by lane in dwords, as the hardware does it
static inline u8 *priv_at(Wave *w, u64 off, int l) { return w->scratch + ((off >> 2) * w->n + l) * 4 + (off & 3); }
static void scratch_access(Wave *w, const Inst *in, const Mem *k, const u64 *off, u64 m) {
  int bytes = k->bytes * k->nreg, l;
  if (env.report) w->wk->mstat[in->idx].private_bytes += (u64)__builtin_popcountll(m) * bytes;
  if (!m) return;
  // one place in all lanes, as of what a compiler spills: whole rows
  const u64 one = off[__builtin_ctzll(m)];
  const int n = w->n;
  if (all_of(off, one, 0, m, n) && !(one & 3) && k->bytes == 4 && k->op != OP_ATOMIC && one + bytes <= w->priv) {
    for (int i = 0; i < k->nreg; i++) {
      u32 *at = (u32 *)priv_at(w, one + 4 * i, 0);
      if (k->op == OP_LOAD) blend32(w->v[in->dst.reg + i], at, m, n);
      else blend32(at, w->v[in->src[1].reg + i], m, n);
    }
    return;
  }
  EACH(l, m) {
    u64 o = off[l];
    u8 t[32];
    if (o + bytes > w->priv && env.check_mem)
      kernel_fail(w, in, l, "private memory %s of %d bytes at offset %lld: each work-item has %u bytes",
          k->op == OP_LOAD ? "read" : "write", bytes, (long long)o, w->priv);
    if (k->op == OP_LOAD) {
      if (!(o & 3) && k->bytes == 4)
        for (int i = 0; i < k->nreg; i++) memcpy(t + 4 * i, priv_at(w, o + 4 * i, l), 4);
      else
        for (int i = 0; i < bytes; i++) t[i] = *priv_at(w, o + i, l);
      if (k->bytes == 4)
        for (int i = 0; i < k->nreg; i++) memcpy(&w->v[in->dst.reg + i][l], t + 4 * i, 4);
      else {
        u32 x = 0;
        memcpy(&x, t, k->bytes);
        put_loaded(w, k, in->dst.reg, l, x);
      }
    } else if (k->op == OP_STORE) {
      if (k->bytes == 4)
        for (int i = 0; i < k->nreg; i++) memcpy(t + 4 * i, &w->v[in->src[1].reg + i][l], 4);
      else {
        u32 x = w->v[in->src[1].reg][l] >> (k->d16 == 2 ? 16 : 0);
        memcpy(t, &x, k->bytes);
      }
      for (int i = 0; i < bytes; i++) *priv_at(w, o + i, l) = t[i];
    } else {
      u64 cmp, v = atomic_data(w, in, k, l, &cmp), old = 0;
      for (int i = 0; i < k->bytes; i++) ((u8 *)&old)[i] = *priv_at(w, o + i, l);
      u64 nv = atomic_op(k->at, k->bytes, old, v, cmp);
      for (int i = 0; i < k->bytes; i++) *priv_at(w, o + i, l) = ((u8 *)&nv)[i];
      atomic_result(w, in, k, l, old);
    }
  }
}
static void lds_dma(Wave *w, const Inst *in, const Mem *k, const u64 *addr, u64 m) {
  // lane i lands at M0 + offset + 4 i (one dword per lane)
  int l, step = k->nreg * 4;
  u32 base = (w->s[S_M0] & 0xffff) + (in->seg == SEG_BUFFER || in->seg == SEG_GLOBAL ? in->offset : 0);
  EACH(l, m) {
    u8 t[16] = {0};
    u32 x;
    memcpy(t, (void *)addr[l], k->bytes * k->nreg);
    if (k->bytes < 4) {
      memcpy(&x, t, 4);
      if (k->sign) x = k->bytes == 1 ? (u32)(i32)(i8)x : (u32)(i32)(i16)x;
      memcpy(t, &x, 4);
    }
    u32 a = base + (u32)l * step;
    lds_touch(w, in, l, a, step, 1, 0);
    memcpy(w->wk->lds + a, t, step);
  }
}
static void global_access(Wave *w, const Inst *in, const Mem *k, const u64 *addr, u64 m) {
  int bytes = k->bytes * k->nreg, l;
  check_global(w, in, addr, m, bytes, k->op == OP_STORE || k->op == OP_ATOMIC, k->op == OP_ATOMIC);
  if (env.report) vmem_stats(w, in, addr, m, bytes);
  if (k->op == OP_LOAD) load_from(w, in, k, addr, m, NULL);
  else if (k->op == OP_STORE) store_to(w, in, k, addr, m, NULL);
  else if (k->op == OP_LDSDMA) lds_dma(w, in, k, addr, m);
  else EACH(l, m) {
      u64 cmp, v = atomic_data(w, in, k, l, &cmp);
      atomic_result(w, in, k, l, atomic_global(k->at, k->bytes, addr[l], v, cmp));
    }
}

// ---------------------------------------------------------------- executors
static u64 barrier_skipped(const Wave *w) { return w->skipped; }
static inline u64 active(Wave *w, const Inst *in) {
  u64 m = wave_exec(w);
  if (__builtin_expect(barrier_skipped(w) & m, 0) && env.check_barrier) {
    int l = __builtin_ctzll(barrier_skipped(w) & m);
    kernel_fail(w, in, l, "barrier divergence: this lane was switched off at a barrier its wave executed, and goes on after it");
  }
  return m;
}
static void global_exec(Wave *w, const Inst *in) { // src[0] address, src[1] data, src[2] scalar base
  u64 *addr = w->tmp[3];
  int n = w->n;
  const Mem *k = in->desc;
  i64 off = in->offset;
  const u32 *lo = w->v[in->src[0].reg], *hi = w->v[in->src[0].reg + 1];
  if (in->src[2].kind == O_SGPR && in->src[2].reg != S_NULL) {
    u64 s = s64(w, in->src[2].reg) + off;
    if (in->src[0].kind == O_VGPR) LANES(addr[l] = s + lo[l];);
    else fill64(addr, s, n);
  } else LANES(addr[l] = (lo[l] | (u64)hi[l] << 32) + off;);
  global_access(w, in, k, addr, active(w, in));
}
static void flat_exec(Wave *w, const Inst *in) {
  u64 *addr = w->tmp[3], m = active(w, in), ml = 0, mp = 0;
  int n = w->n, l;
  const Mem *k = in->desc;
  const u32 *lo = w->v[in->src[0].reg], *hi = w->v[in->src[0].reg + 1];
  LANES(addr[l] = (lo[l] | (u64)hi[l] << 32) + (i64)in->offset;);
  EACH(l, m) {
    u32 h = addr[l] >> 32;
    if (h == SHARED_BASE >> 32) ml |= 1ull << l;
    else if (h == PRIVATE_BASE >> 32) mp |= 1ull << l;
  }
  u64 mg = m & ~(ml | mp);
  if (mg) global_access(w, in, k, addr, mg);
  if (ml) {
    u64 *t = w->tmp[4];
    LANES(t[l] = addr[l] & 0xffffffff;);
    lds_access(w, in, k, t, ml);
  }
  if (mp) {
    u64 *t = w->tmp[4];
    LANES(t[l] = addr[l] & 0xffffffff;);
    scratch_access(w, in, k, t, mp);
  }
}
static void scratch_exec(Wave *w, const Inst *in) {
  u64 *off = w->tmp[3];
  int n = w->n;
  i64 c = in->offset;
  if (in->src[2].kind == O_SGPR && in->src[2].reg != S_NULL) c += w->s[in->src[2].reg];
  if (in->src[0].kind == O_VGPR) {
    const u32 *v = w->v[in->src[0].reg];
    LANES(off[l] = (u32)(v[l] + (u32)c););
  } else fill64(off, (u32)c, n);
  scratch_access(w, in, in->desc, off, wave_exec(w));
}
static void buffer_exec(Wave *w, const Inst *in) { // src[0] vaddr, src[1] data, src[2] resource, src[3] scalar offset
  const Mem *k = in->desc;
  int n = w->n, bytes = k->bytes * k->nreg, l;
  u64 *addr = w->tmp[3], m = wave_exec(w);
  const u32 *rs = &w->s[in->src[2].reg];
  u32 soff = in->src[3].kind ? scalar_of(w, &in->src[3]) : 0;
  u64 base = (rs[0] | (u64)rs[1] << 32) & 0xffffffffffffull;
  u32 stride = rs[1] >> 16 & 0x3fff, num = rs[2];
  int va = in->src[0].reg;
  if (w->ln->arch->gen == 9 && (rs[3] >> 23 & 1)) { // private segment: add lane id, interleaved
    if (base != (u64)w->scratch) kernel_fail(w, in, 0, "private buffer resource does not point at this wave's scratch");
    LANES(addr[l] = (in->offen ? w->v[va][l] : 0) + (u32)in->offset + soff / (u32)n;);
    scratch_access(w, in, k, addr, m);
    return;
  }
  m = active(w, in);
  u64 oob = 0;
  for (int i = 0; i < n; i++) {
    u32 idx = in->idxen ? w->v[va][i] : 0, off = (in->offen ? w->v[va + in->idxen][i] : 0) + in->offset;
    u64 o = (u64)idx * stride + off;
    bool out = stride ? idx >= num : o + soff + bytes > num;
    if (out) oob |= 1ull << i;
    addr[i] = base + soff + o;
  }
  u64 bad = m & oob;
  if (bad && k->op == OP_LOAD) EACH(l, bad) for (int i = 0; i < k->nreg; i++) {
      if (k->bytes == 4) w->v[in->dst.reg + i][l] = 0;
      else put_loaded(w, k, in->dst.reg, l, 0);
    }
  if (bad && k->op == OP_LDSDMA) kernel_fail(w, in, __builtin_ctzll(bad), "buffer load to LDS out of range");
  global_access(w, in, k, addr, m & ~oob);
}
static void ds_exec(Wave *w, const Inst *in) {
  u64 *addr = w->tmp[3];
  int n = w->n;
  const u32 *v = w->v[in->src[0].reg];
  u32 off = in->offset;
  LANES(addr[l] = (u32)(v[l] + off);); // wraps at 32 bits: compilers use negative bases
  lds_access(w, in, in->desc, addr, active(w, in));
}
static void ds2_exec(Wave *w, const Inst *in) { // two elements at separate offsets
  const Mem *k = in->desc;
  int n = w->n, unit = k->bytes * k->nreg * (k->stride64 ? 64 : 1);
  const u32 *v = w->v[in->src[0].reg];
  u64 m = active(w, in);
  Inst half = *in;
  Mem one = *k;
  one.op = k->op == OP_READ2 ? OP_LOAD : OP_STORE;
  half.desc = &one;
  u64 a0[MAXLANE], a1[MAXLANE];
  LANES(a0[l] = (u32)(v[l] + (u32)in->offset * unit); a1[l] = (u32)(v[l] + (u32)in->offset1 * unit););
  lds_access(w, &half, &one, a0, m);
  half.dst.reg += k->nreg;
  half.src[1] = in->src[2];
  lds_access(w, &half, &one, a1, m);
}
static void bperm_exec(Wave *w, const Inst *in) {
  u64 m = wave_exec(w);
  const u32 *a = w->v[in->src[0].reg], *b = w->v[in->src[1].reg];
  u32 *r = (u32 *)w->out;
  int n = w->n, mask = n - 1;
  if (((const Mem *)in->desc)->op == OP_BPERM) {
    // gfx11+ in wave64 works on each half by itself
    const u32 off = in->offset, half = n == 64 && w->ln->arch->gen >= 10 ? 32 : 0;
    u8 from[MAXLANE];
    u32 on[MAXLANE] __attribute__((aligned(64)));
    fill32(on, 0, n);
    blend32(on, b, m, n); // a lane that is off gives 0
    LANES(from[l] = half ? ((a[l] + off) >> 2 & 31) | (l & 32) : (a[l] + off) >> 2 & mask;);
    gather_lanes(r, on, from, ~0ull, n);
  } else {
    memset(r, 0, n * 4);
    int l;
    EACH(l, m) {
      int d = (a[l] + in->offset) >> 2 & mask;
      r[d] = b[l];
    }
  }
  blend32(w->v[in->dst.reg], r, m, n);
}
static void swizzle_exec(Wave *w, const Inst *in) {
  u64 m = wave_exec(w);
  const u32 *a = w->v[in->src[0].reg];
  u32 *r = (u32 *)w->out, o = in->simm;
  int n = w->n;
  for (int l = 0; l < n; l++) {
    int s;
    if (o >= 0xe000) kernel_fail(w, in, l, "FFT and rotate swizzles are not supported");
    if (o & 0x8000) s = (l & ~3) | (o >> (2 * (l & 3)) & 3);
    else s = (l & ~31) | ((((l & 31) & (o & 31)) | (o >> 5 & 31)) ^ (o >> 10 & 31));
    r[l] = m >> s & 1 ? a[s] : 0;
  }
  blend32(w->v[in->dst.reg], r, m, n);
}

static void ds_cmpst_exec(Wave *w, const Inst *in) {
  const Mem *k = in->desc;
  u64 m = active(w, in);
  int l, d = in->src[k->cmp_first ? 2 : 1].reg, c = in->src[k->cmp_first ? 1 : 2].reg;
  const u32 *v = w->v[in->src[0].reg];
  EACH(l, m) {
    u32 addr = v[l] + in->offset;
    u64 old = 0, nv = w->v[d][l], cmp = w->v[c][l];
    if (k->bytes == 8) {
      nv |= (u64)w->v[d + 1][l] << 32;
      cmp |= (u64)w->v[c + 1][l] << 32;
    }
    lds_touch(w, in, l, addr, k->bytes, 1, 1);
    memcpy(&old, w->wk->lds + addr, k->bytes);
    nv = atomic_op(k->at, k->bytes, old, nv, cmp);
    memcpy(w->wk->lds + addr, &nv, k->bytes);
    atomic_result(w, in, k, l, old);
  }
}

// ---------------------------------------------------------------- names
typedef struct {
  const char *name;
  u8 bytes, nreg, sign, d16;
} Elem;
static const Elem loads[] = {
  {"dword", 4, 1},
  {"dwordx2", 4, 2},
  {"dwordx3", 4, 3},
  {"dwordx4", 4, 4},
  {"b32", 4, 1},
  {"b64", 4, 2},
  {"b96", 4, 3},
  {"b128", 4, 4},
  {"ubyte", 1, 1},
  {"u8", 1, 1},
  {"sbyte", 1, 1, 1},
  {"i8", 1, 1, 1},
  {"ushort", 2, 1},
  {"u16", 2, 1},
  {"sshort", 2, 1, 1},
  {"i16", 2, 1, 1},
  {"ubyte_d16", 1, 1, 0, 1},
  {"d16_u8", 1, 1, 0, 1},
  {"u8_d16", 1, 1, 0, 1},
  {"ubyte_d16_hi", 1, 1, 0, 2},
  {"d16_hi_u8", 1, 1, 0, 2},
  {"u8_d16_hi", 1, 1, 0, 2},
  {"sbyte_d16", 1, 1, 1, 1},
  {"d16_i8", 1, 1, 1, 1},
  {"i8_d16", 1, 1, 1, 1},
  {"sbyte_d16_hi", 1, 1, 1, 2},
  {"d16_hi_i8", 1, 1, 1, 2},
  {"i8_d16_hi", 1, 1, 1, 2},
    {"short_d16", 2, 1, 0, 1}, {"d16_b16", 2, 1, 0, 1}, {"u16_d16", 2, 1, 0, 1}, {"short_d16_hi", 2, 1, 0, 2}, {"d16_hi_b16", 2, 1, 0, 2},
    {"u16_d16_hi", 2, 1, 0, 2}};
static const Elem stores[] = {{"dword", 4, 1}, {"dwordx2", 4, 2}, {"dwordx3", 4, 3}, {"dwordx4", 4, 4}, {"b32", 4, 1}, {"b64", 4, 2},
    {"b96", 4, 3}, {"b128", 4, 4}, {"byte", 1, 1}, {"b8", 1, 1}, {"short", 2, 1}, {"b16", 2, 1}, {"byte_d16_hi", 1, 1, 0, 2},
    {"d16_hi_b8", 1, 1, 0, 2}, {"b8_d16_hi", 1, 1, 0, 2}, {"short_d16_hi", 2, 1, 0, 2}, {"d16_hi_b16", 2, 1, 0, 2},
    {"b16_d16_hi", 2, 1, 0, 2}};
static const struct {
  const char *name;
  u8 at, bytes;
} atomics[] = {
  {"add", AT_ADD, 4},
  {"add_u32", AT_ADD, 4},
  {"add_x2", AT_ADD, 8},
  {"add_u64", AT_ADD, 8},
  {"sub", AT_SUB, 4},
  {"sub_u32", AT_SUB, 4},
  {"sub_x2", AT_SUB, 8},
  {"sub_u64", AT_SUB, 8},
  {"rsub_u32", AT_RSUB, 4},
  {"rsub_u64", AT_RSUB, 8},
  {"inc", AT_INC, 4},
  {"inc_u32", AT_INC, 4},
  {"inc_x2", AT_INC, 8},
  {"inc_u64", AT_INC, 8},
  {"dec", AT_DEC, 4},
  {"dec_u32", AT_DEC, 4},
  {"dec_x2", AT_DEC, 8},
  {"dec_u64", AT_DEC, 8},
  {"smin", AT_SMIN, 4},
  {"min_i32", AT_SMIN, 4},
  {"smin_x2", AT_SMIN, 8},
  {"min_i64", AT_SMIN, 8},
  {"umin", AT_UMIN, 4},
  {"min_u32", AT_UMIN, 4},
  {"umin_x2", AT_UMIN, 8},
  {"min_u64", AT_UMIN, 8},
  {"smax", AT_SMAX, 4},
  {"max_i32", AT_SMAX, 4},
  {"smax_x2", AT_SMAX, 8},
  {"max_i64", AT_SMAX, 8},
  {"umax", AT_UMAX, 4},
  {"max_u32", AT_UMAX, 4},
  {"umax_x2", AT_UMAX, 8},
  {"max_u64", AT_UMAX, 8},
  {"and", AT_AND, 4},
  {"and_b32", AT_AND, 4},
  {"and_x2", AT_AND, 8},
  {"and_b64", AT_AND, 8},
  {"or", AT_OR, 4},
  {"or_b32", AT_OR, 4},
  {"or_x2", AT_OR, 8},
  {"or_b64", AT_OR, 8},
  {"xor", AT_XOR, 4},
  {"xor_b32", AT_XOR, 4},
  {"xor_x2", AT_XOR, 8},
  {"xor_b64", AT_XOR, 8},
  {"swap", AT_SWAP, 4},
  {"swap_b32", AT_SWAP, 4},
  {"swap_x2", AT_SWAP, 8},
  {"swap_b64", AT_SWAP, 8},
  {"wrxchg_b32", AT_SWAP, 4},
  {"wrxchg_b64", AT_SWAP, 8},
  {"storexchg_b32", AT_SWAP, 4},
  {"storexchg_b64", AT_SWAP, 8},
  {"cmpswap", AT_CMPSWAP, 4},
  {"cmpswap_b32", AT_CMPSWAP, 4},
  {"cmpswap_x2", AT_CMPSWAP, 8},
  {"cmpswap_b64", AT_CMPSWAP, 8},
  {"cmpst_b32", AT_CMPSWAP, 4},
  {"cmpst_b64", AT_CMPSWAP, 8},
  {"cmpstore_b32", AT_CMPSWAP, 4},
  {"cmpstore_b64", AT_CMPSWAP, 8},
  {"cmpstore_f32", AT_FCMPSWAP, 4},
  {"cmpst_f32", AT_FCMPSWAP, 4},
  {"cmpswap_f32", AT_FCMPSWAP, 4},
    {"add_f32", AT_FADD, 4}, {"min_f32", AT_FMIN, 4}, {"max_f32", AT_FMAX, 4}, {"min_num_f32", AT_FMIN, 4}, {"max_num_f32", AT_FMAX, 4},
    {"pk_add_f16", AT_PKADDH, 4}, {"pk_add_bf16", AT_PKADDB, 4}, {"add_f64", AT_DADD, 8}, {"min_f64", AT_DMIN, 8}, {"max_f64", AT_DMAX, 8},
    {"sub_clamp_u32", AT_CSUB, 4}, {"csub_u32", AT_CSUB, 4}, {"csub", AT_CSUB, 4}, {"cond_sub_u32", AT_CONDSUB, 4}};

static bool elem(const Elem *t, size_t n, const char *s, Mem *k) {
  for (size_t i = 0; i < n; i++)
    if (!strcmp(t[i].name, s)) {
      k->bytes = t[i].bytes;
      k->nreg = t[i].nreg;
      k->sign = t[i].sign;
      k->d16 = t[i].d16;
      return true;
    }
  return false;
}
static bool atomic_name(const char *s, Mem *k) {
  for (size_t i = 0; i < sizeof atomics / sizeof *atomics; i++)
    if (!strcmp(atomics[i].name, s)) {
      k->op = OP_ATOMIC;
      k->at = atomics[i].at;
      k->bytes = atomics[i].bytes;
      k->nreg = 1;
      return true;
    }
  return false;
}
#define LEN(t) (sizeof t / sizeof *t)

static bool ds_bind(Inst *in, const char *s, Operand *o, int n, const Arch *a, const u32 *raw, Mem *k) {
  in->cls = C_LDS;
  in->seg = SEG_LDS;
  in->fn = ds_exec;
  in->offset = raw[0] & 0xffff;
  if (!strcmp(s, "nop")) {
    in->cls = C_NOP;
    return false;
  }
  if (!strcmp(s, "bpermute_b32") || !strcmp(s, "permute_b32")) {
    if (n != 3) return false;
    k->op = s[0] == 'b' ? OP_BPERM : OP_PERM;
    in->dst = o[0];
    in->src[0] = o[1];
    in->src[1] = o[2];
    in->fn = bperm_exec;
    return true;
  }
  if (!strcmp(s, "swizzle_b32")) {
    if (n != 2) return false;
    k->op = OP_SWIZZLE;
    in->dst = o[0];
    in->src[0] = o[1];
    in->simm = raw[0] & 0xffff;
    in->fn = swizzle_exec;
    return true;
  }
  const char *t = NULL;
  bool st64;
  static const struct {
    const char *p;
    u8 op, st;
  } two[] = {{"read2st64_b", OP_READ2, 1}, {"load_2addr_stride64_b", OP_READ2, 1}, {"read2_b", OP_READ2, 0}, {"load_2addr_b", OP_READ2, 0},
      {"write2st64_b", OP_WRITE2, 1}, {"store_2addr_stride64_b", OP_WRITE2, 1}, {"write2_b", OP_WRITE2, 0},
      {"store_2addr_b", OP_WRITE2, 0}};
  for (size_t i = 0; i < LEN(two); i++)
    if (!strncmp(s, two[i].p, strlen(two[i].p))) {
      t = s + strlen(two[i].p);
      st64 = two[i].st;
      k->op = two[i].op;
      k->bytes = 4;
      k->nreg = !strcmp(t, "64") ? 2 : 1;
      k->stride64 = st64;
      in->offset = raw[0] & 255;
      in->offset1 = raw[0] >> 8 & 255;
      in->fn = ds2_exec;
      if (k->op == OP_READ2) {
        if (n != 2) return false;
        in->dst = o[0];
        in->src[0] = o[1];
      } else {
        if (n != 3) return false;
        in->src[0] = o[0];
        in->src[1] = o[1];
        in->src[2] = o[2];
      }
      return true;
    }
  if (!strncmp(s, "read_", 5) || (!strncmp(s, "load_", 5) && strncmp(s, "load_addtid", 11))) {
    k->op = OP_LOAD;
    if (!elem(loads, LEN(loads), s + 5, k) || n != 2) return false;
    in->dst = o[0];
    in->src[0] = o[1];
    return true;
  }
  if (!strncmp(s, "write_", 6) || (!strncmp(s, "store_", 6) && !strstr(s, "addtid"))) {
    k->op = OP_STORE;
    if (!elem(stores, LEN(stores), s + 6, k) || n != 2) return false;
    in->src[0] = o[0];
    in->src[1] = o[1];
    return true;
  }
  char b[48];
  snprintf(b, sizeof b, "%s", s);
  char *r = strstr(b, "_rtn");
  in->rtn = r != NULL || !strncmp(b, "wrxchg", 6) || !strncmp(b, "storexchg", 9);
  if (r) memmove(r, r + 4, strlen(r + 4) + 1);
  if (!atomic_name(b, k)) return false;
  int i = 0;
  if (in->rtn) in->dst = o[i++];
  in->src[0] = o[i++];
  bool two_data = k->at == AT_CMPSWAP || k->at == AT_FCMPSWAP;
  if (n != i + 1 + two_data) return false;
  if (two_data) { // cmpst (gfx9): compare value first; cmpstore (gfx11): new value first. The executor wants them as consecutive fields.
    in->src[1] = o[i];
    in->src[2] = o[i + 1];
    k->cmp_first = a->gen == 9;
    k->op = OP_ATOMIC;
    in->fn = ds_cmpst_exec;
  } else in->src[1] = o[i];
  return true;
}
bool mem_bind(Inst *in, const char *mn, Operand *o, int n, const Arch *a, const u32 *raw) {
  Mem *k = calloc(1, sizeof *k);
  in->desc = k;
  if (!strncmp(mn, "ds_", 3)) return ds_bind(in, mn + 3, o, n, a, raw, k);
  const char *s;
  if (!strncmp(mn, "global_", 7)) in->seg = SEG_GLOBAL, in->fn = global_exec, s = mn + 7;
  else if (!strncmp(mn, "flat_", 5)) in->seg = SEG_FLAT, in->fn = flat_exec, s = mn + 5;
  else if (!strncmp(mn, "scratch_", 8)) in->seg = SEG_SCRATCH, in->fn = scratch_exec, s = mn + 8;
  else if (!strncmp(mn, "buffer_", 7)) in->seg = SEG_BUFFER, in->fn = buffer_exec, s = mn + 7;
  else return false;
  in->cls = in->seg == SEG_SCRATCH ? C_SCRATCH : C_VMEM;
  bool dma = in->lds;
  if (!strncmp(s, "load_lds_", 9)) {
    dma = true;
    k->op = OP_LDSDMA;
    if (!elem(loads, LEN(loads), s + 9, k)) return false;
  } else if (!strncmp(s, "load_", 5)) {
    k->op = OP_LOAD;
    if (!elem(loads, LEN(loads), s + 5, k)) return false;
    if (dma) k->op = OP_LDSDMA;
  } else if (!strncmp(s, "store_", 6)) {
    k->op = OP_STORE;
    if (!elem(stores, LEN(stores), s + 6, k)) return false;
  } else if (!strncmp(s, "atomic_", 7)) {
    if (!atomic_name(s + 7, k)) return false;
    in->rtn = in->glc;
  } else return false;
  int i = 0;
  if (in->seg == SEG_BUFFER) {
    // [data] vaddr|off, resource, soffset
    if (!dma) {
      if (k->op == OP_LOAD) in->dst = o[i++];
      else {
        in->src[1] = o[i++];
        if (in->rtn) in->dst = in->src[1];
      }
    }
    if (i + 3 != n) return false;
    in->src[0] = o[i++];
    in->src[2] = o[i++];
    in->src[3] = o[i++];
    operand_finish(&in->src[3], 'u');
    return in->src[2].kind == O_SGPR;
  }
  if (k->op == OP_LOAD || in->rtn) in->dst = o[i++];
  in->src[0] = o[i++];
  if (k->op == OP_STORE || k->op == OP_ATOMIC) in->src[1] = o[i++];
  if (in->seg != SEG_FLAT) in->src[2] = o[i++];
  if (i != n) return false;
  if (in->seg == SEG_GLOBAL && in->src[0].kind != O_VGPR && in->src[2].kind != O_SGPR) return false;
  if (k->op == OP_ATOMIC && in->seg == SEG_SCRATCH) return false;
  return true;
}
