// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
// Kernel launches: argument block, initial register state, wave scheduling inside a workgroup,
// host threads over workgroups, error messages.
#include "lanes.h"
#include <stdlib.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <unistd.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <fenv.h>

Env env;
static Worker workers[64];
static pthread_mutex_t fail_lock = PTHREAD_MUTEX_INITIALIZER;

static int flag(const char *name, int dflt) {
  const char *s = getenv(name);
  return s && *s ? atoi(s) : dflt;
}
void env_init(void) {
  static bool done;
  const char *s;
  if (done) return;
  done = true;
  env.threads = flag("HIPSIM_THREADS", 0);
  env.trace = flag("HIPSIM_TRACE", 0);
  env.poison = flag("HIPSIM_POISON", 0);
  env.global_races = flag("HIPSIM_GLOBAL_RACES", 0);
  env.check_mem = flag("HIPSIM_CHECK_MEM", 1);
  env.check_lds = flag("HIPSIM_CHECK_LDS", 1);
  env.check_lds_init = flag("HIPSIM_CHECK_LDS_INIT", 1);
  env.check_races = flag("HIPSIM_CHECK_RACES", 1);
  env.check_wmma = flag("HIPSIM_CHECK_WMMA", 1);
  env.check_barrier = flag("HIPSIM_CHECK_BARRIER", 1);
  s = getenv("HIPSIM_ALIGN");
  env.align = !s || !*s ? ALIGN_LDS : !strcmp(s, "off") || !strcmp(s, "0") ? ALIGN_OFF : !strcmp(s, "error") ? ALIGN_ERROR : ALIGN_WARN;
  s = getenv("HIPSIM_ON_ERROR");
  env.on_error_continue = s && !strcmp(s, "return");
  s = getenv("HIPSIM_REPORT");
  env.report = s && *s && strcmp(s, "0") ? 2 : 0;
  env.report_file = s && *s == '=' ? s + 1 : s && strchr(s, '.') ? s : NULL;
  env.annotate = getenv("HIPSIM_ANNOTATE");
  if (env.annotate && *env.annotate) env.report |= 1;
  else env.annotate = NULL; // bit 0: collect, bit 1: print
  s = getenv("HIPSIM_DEFER");
  if (s && *s) {
    env.defer = 1;
    env.defer_seed = strtoull(s, NULL, 0);
  }
  s = getenv("HIPSIM_ORDER");
  if (s && !strncmp(s, "reverse", 7)) env.order = ORDER_REVERSE;
  if (s && !strncmp(s, "random", 6)) {
    env.order = ORDER_RANDOM;
    env.order_seed = s[6] == ':' ? strtoull(s + 7, NULL, 0) : 1;
  }
  s = getenv("HIPSIM_LDS");
  env.lds = s ? atoi(s) : 0;
  s = getenv("HIPSIM_MAX_INST");
  env.max_inst = s && *s ? strtoull(s, NULL, 0) : 1ull << 33;
  env.arch = getenv("HIPSIM_ARCH");
  if (env.arch && !*env.arch) env.arch = NULL;
}

// ---------------------------------------------------------------- messages
// C++ name as written, if the program has a demangler loaded (libstdc++ nearly always is)
static const char *pretty(const char *name, char *buf, size_t n) {
  char *(*f)(const char *, char *, size_t *, int *) = NULL;
  int st;
  *(void **)&f = dlsym(RTLD_DEFAULT, "__cxa_demangle");
  char *d = f ? f(name, NULL, NULL, &st) : NULL;
  snprintf(buf, n, "%s", d ? d : name);
  free(d);
  return buf;
}
static void describe(Wave *w, const Inst *in, int lane, const char *kind, const char *msg) {
  Launch *ln = w->ln;
  Worker *k = w->wk;
  char nm[512], nf[512];
  fflush(stdout);
  fprintf(stderr, "hipsim: %s: kernel %s (%s), grid (%u,%u,%u), block (%u,%u,%u)\n  %s\n  workgroup (%u,%u,%u) wave %d", kind,
      pretty(ln->k->name, nm, sizeof nm), ln->arch->gfx, ln->grid[0], ln->grid[1], ln->grid[2], ln->block[0], ln->block[1], ln->block[2],
      msg, k->wg[0], k->wg[1], k->wg[2], w->id);
  if (lane >= 0) {
    u32 t = (u32)w->id * w->n + lane, bx = ln->block[0], by = ln->block[1];
    fprintf(stderr, " lane %d (thread %u,%u,%u)", lane, t % bx, t / bx % by, t / bx / by);
  }
  if (in) {
    u64 at;
    const char *fn = module_function_at(ln->mod, in->pc, &at);
    fprintf(stderr, "\n  at %s+0x%llx: %s", pretty(fn, nf, sizeof nf), (unsigned long long)(in->pc - at), in->text);
    const char *src = module_line_at(ln->mod, in->pc);
    if (src) fprintf(stderr, "\n  source %s", src);
  }
  fprintf(stderr, "\n");
}
void kernel_fail(Wave *w, const Inst *in, int lane, const char *fmt, ...) {
  char msg[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(msg, sizeof msg, fmt, ap);
  va_end(ap);
  pthread_mutex_lock(&fail_lock);
  if (!atomic_load(&w->ln->failed)) describe(w, in, lane, "ERROR", msg);
  atomic_store(&w->ln->failed, 1);
  if (!env.on_error_continue) {
    fflush(NULL);
    _exit(86);
  }
  pthread_mutex_unlock(&fail_lock);
  longjmp(w->wk->fail, 1);
}
void kernel_warn(Wave *w, const Inst *in, int lane, const char *fmt, ...) {
  char msg[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(msg, sizeof msg, fmt, ap);
  va_end(ap);
  pthread_mutex_lock(&fail_lock);
  describe(w, in, lane, "warning", msg);
  pthread_mutex_unlock(&fail_lock);
}

// ---------------------------------------------------------------- one wave
Inst *wave_goto(Wave *w, u64 pc) {
  char err[512];
  Inst *in = inst_at(w->ln->mod, pc, err, sizeof err);
  if (!in) kernel_fail(w, NULL, -1, "%s", err);
  return in;
}
// gfx9 register index mode: M0[7:0] is added to vector register numbers, M0[15:12] selects src0, src1, src2, dst
static void indexed_exec(Wave *w, const Inst *in) {
  if (in->cls != C_VALU && in->cls != C_TRANS && in->cls != C_PACKED && in->cls != C_F64) {
    in->fn(w, in);
    return;
  }
  Inst t = *in;
  u32 m = w->s[S_M0], off = m & 255, en = m >> 12 & 15;
  for (int i = 0; i < 3; i++)
    if ((en >> i & 1) && t.src[i].kind == O_VGPR) {
      if ((t.src[i].reg & 255) + off >= 256) kernel_fail(w, in, 0, "indexed register v%u is out of range", t.src[i].reg + off);
      t.src[i].reg += off;
    }
  if ((en & 8) && t.dst.kind == O_VGPR) t.dst.reg += off;
  t.fn(w, &t);
}
static void trace(Wave *w, const Inst *in) {
  fprintf(stderr, "[%u,%u,%u w%d] %06llx exec=%016llx scc=%u  %s", w->wk->wg[0], w->wk->wg[1], w->wk->wg[2], w->id,
      (unsigned long long)(in->pc - w->ln->mod->text_lo), (unsigned long long)wave_exec(w), w->s[S_SCC], in->text);
  if (in->dst.kind == O_SGPR) fprintf(stderr, "   ; %08x", w->s[in->dst.reg]);
  if (in->dst.kind == O_VGPR)
    fprintf(stderr, "   ; %08x %08x %08x %08x", w->v[in->dst.reg][0], w->v[in->dst.reg][1], w->v[in->dst.reg][2], w->v[in->dst.reg][3]);
  fprintf(stderr, "\n");
}
static void wave_run(Wave *w, u64 quantum) {
  u64 *count = w->wk->count, left = quantum;
  w->status = W_RUN;
  do {
    const Inst *in = w->pc;
    w->pc = in->next;
    if (count) count[in->idx]++;
    if (__builtin_expect(w->gpridx, 0)) indexed_exec(w, in);
    else in->fn(w, in);
    w->ninst++;
    if (__builtin_expect(env.trace, 0)) trace(w, in);
    if (__builtin_expect(!w->pc, 0)) {
      if (w->status == W_DONE) return;
      w->pc = ((Inst *)in)->next = wave_goto(w, in->pc + in->len);
    }
  } while (w->status == W_RUN && --left);
  if (w->ninst > env.max_inst)
    kernel_fail(w, w->pc, -1, "a wave ran %llu instructions: endless loop? (HIPSIM_MAX_INST)", (unsigned long long)w->ninst);
}

// ---------------------------------------------------------------- one workgroup
static void wave_init(Worker *k, Wave *w, int id) {
  Launch *ln = k->ln;
  Kernel *K = ln->k;
  const Arch *a = ln->arch;
  int n = ln->wave;
  u32 bx = ln->block[0], by = ln->block[1], total = bx * by * ln->block[2], first = (u32)id * n;
  int rows = K->vgprs > 0 ? K->vgprs : 256;
  u8 fill = env.poison ? 0xff : 0;
  if (rows > 256) rows = 256;
  if (a->gen == 9) {
    for (int r = 0; r < 512; r += 256) memset(w->v[r], fill, (size_t)rows * sizeof w->v[0]);
  } else memset(w->v[0], fill, (size_t)rows * sizeof w->v[0]);
  memset(w->s, 0, sizeof w->s);
  if (env.poison) memset(w->s, 0xff, 106 * 4);
  w->n = n;
  w->full = n == 64 ? ~0ull : 0xffffffffull;
  w->id = id;
  w->status = W_RUN;
  w->wk = k;
  w->ln = ln;
  w->ninst = 0;
  w->gpridx = 0;
  w->signals = w->waits = 0;
  w->skipped = 0;
  w->mode = K->rsrc1 >> 12 & 0xff;
  w->dx10 = a->gen < 12 ? K->rsrc1 >> 21 & 1 : 1;
  w->ieee = a->gen < 12 ? K->rsrc1 >> 23 & 1 : 0;
  w->priv = (K->priv + 3) & ~3u;
  w->scratch = k->scratch + (size_t)id * w->priv * n;
  u64 ex = 0;
  for (int l = 0; l < n; l++) {
    u32 t = first + l;
    if (t >= total) break;
    ex |= 1ull << l;
    w->v[0][l] = (t % bx) | (t / bx % by) << 10 | (t / bx / by) << 20;
  }
  w->lanes = ex;
  w->s[S_EXEC] = (u32)ex;
  w->s[S_EXEC + 1] = ex >> 32;
  // user and system scalar registers in ABI order
  int r = 0;
  u32 p = K->props;
  bool arch_scratch = a->id != GFX90A;
  u64 ka = (u64)ln->kernarg, packet = ka + ((K->kernarg_size + 63) & ~63u), sb = (u64)k->scratch;
  if (p & 1) {
    w->s[r] = (u32)sb;
    w->s[r + 1] = (sb >> 32 & 0xffff) | 1u << 31;
    w->s[r + 2] = 0xffffffff;
    w->s[r + 3] = 0x00e00000 | 1u << 23;
    r += 4;
  }
  if (p & 2) {
    set_s64(w, r, packet);
    r += 2;
  }
  if (p & 4) {
    set_s64(w, r, packet + 64);
    r += 2;
  }
  if (p & 8) {
    set_s64(w, r, ka);
    r += 2;
  }
  if (p & 16) {
    set_s64(w, r, 0);
    r += 2;
  }
  if (p & 32) {
    set_s64(w, r, sb);
    r += 2;
  }
  if (p & 64) w->s[r++] = K->priv;
  int plen = K->preload & 0x7f, poff = K->preload >> 7;
  for (int i = 0; i < plen; i++) memcpy(&w->s[r++], ln->kernarg + (poff + i) * 4, 4);
  if (a->gen < 12) {
    r = K->rsrc2 >> 1 & 31; // user registers allocated, padding included
    for (int d = 0; d < 3; d++)
      if (K->rsrc2 >> (7 + d) & 1) w->s[r++] = k->wg[d];
    if (K->rsrc2 >> 10 & 1) w->s[r++] = 0;
    if ((K->rsrc2 & 1) && !arch_scratch) w->s[r++] = (u32)((size_t)id * w->priv * n);
  } else {
    w->s[S_TTMP + 9] = k->wg[0];
    w->s[S_TTMP + 7] = (k->wg[1] & 0xffff) | k->wg[2] << 16;
  }
  w->s[S_NULL] = 0;
  w->pc = wave_goto(w, K->entry + (plen ? 256 : 0));
}
static u64 rnd(Worker *k) {
  u64 x = k->rng;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return k->rng = x;
}
static void release_barrier(Worker *k) {
  u32 min = ~0u;
  Wave *at = NULL;
  for (int i = 0; i < k->nwaves; i++)
    if (k->waves[i].status != W_DONE && k->waves[i].signals < min) min = k->waves[i].signals;
  for (int i = 0; i < k->nwaves; i++) {
    Wave *w = &k->waves[i];
    if (w->status != W_BARRIER || min <= w->waits) continue;
    if (env.check_barrier && at && at->waits == w->waits && at->pc != w->pc) {
      u64 pa, pb;
      const char *fa = module_function_at(k->ln->mod, at->pc->pc, &pa), *fb = module_function_at(k->ln->mod, w->pc->pc, &pb);
      kernel_fail(w, w->pc, -1,
          "barrier divergence: wave %d waits at the barrier before %s+0x%llx, wave %d at the one before %s+0x%llx (HIPSIM_CHECK_BARRIER=0 "
          "allows it)",
          at->id, fa, (unsigned long long)(at->pc->pc - pa), w->id, fb, (unsigned long long)(w->pc->pc - pb));
    }
    at = w;
  }
  for (int i = 0; i < k->nwaves; i++) {
    Wave *w = &k->waves[i];
    if (w->status == W_BARRIER && min > w->waits) {
      w->waits++;
      w->status = W_RUN;
      if (i == 0 && !(w->waits & 0x3fff)) lds_age(k, w->waits);
    }
  }
}
static void run_workgroup(Worker *k) {
  Launch *ln = k->ln;
  int n = ln->nwaves, order[MAXWAVES];
  k->nwaves = n;
  k->lds_size = ln->lds_size;
  memset(k->lds, env.poison ? 0xff : 0, ln->lds_size);
  memset(k->lds_w, 0, ln->lds_size * 4);
  memset(k->lds_r, 0, ln->lds_size * 4);
  for (int i = 0; i < n; i++) {
    wave_init(k, &k->waves[i], i);
    order[i] = env.order == ORDER_REVERSE ? n - 1 - i : i;
  }
  int live = n;
  while (live) {
    if (env.order == ORDER_RANDOM)
      for (int i = n - 1; i > 0; i--) {
        int j = rnd(k) % (i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
      }
    bool ran = false;
    for (int i = 0; i < n; i++) {
      Wave *w = &k->waves[order[i]];
      if (w->status != W_RUN && w->status != W_YIELD) continue;
      ran = true;
      wave_run(w, env.order == ORDER_RANDOM ? 1 + rnd(k) % 200 : 1 << 20);
      if (w->status == W_DONE) live--;
      if (atomic_load_explicit(&ln->failed, memory_order_relaxed)) return;
    }
    release_barrier(k);
    bool can = false;
    for (int i = 0; i < n; i++) can |= k->waves[i].status == W_RUN || k->waves[i].status == W_YIELD;
    if (live && !can && !ran) kernel_fail(&k->waves[0], k->waves[0].pc, -1, "deadlock: no wave of the workgroup can go on");
  }
}

// ---------------------------------------------------------------- launch
static void *worker_main(void *arg) {
  Worker *k = arg;
  Launch *ln = k->ln;
  fesetround(FE_TONEAREST);
  if (setjmp(k->fail)) return NULL;
  for (;;) {
    u64 i = atomic_fetch_add(&ln->next_wg, 1);
    if (i >= ln->nwg || atomic_load(&ln->failed)) return NULL;
    if (env.order == ORDER_REVERSE) i = ln->nwg - 1 - i;
    if (env.order == ORDER_RANDOM) {
      u64 step = 0x9E3779B1u % ln->nwg;
      while (ln->nwg > 1 && __extension__({
        u64 a = step, b = ln->nwg;
        while (b) {
          u64 t = a % b;
          a = b;
          b = t;
        }
        a;
      }) != 1)
        step++;
      i = (i * step + env.order_seed) % ln->nwg;
    }
    k->wgid = i;
    k->wg[0] = i % ln->grid[0];
    k->wg[1] = i / ln->grid[0] % ln->grid[1];
    k->wg[2] = i / ln->grid[0] / ln->grid[1];
    k->rng = (env.order_seed + 1) * 0x9E3779B97F4A7C15ull ^ (i + 1) * 0xD1B54A32D192ED03ull;
    if (!k->rng) k->rng = 1;
    run_workgroup(k);
  }
}
static void *big(size_t n) {
  void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}
static void worker_prepare(Worker *k, Launch *ln, int id) {
  if (!k->waves) {
    k->waves = big(sizeof(Wave) * MAXWAVES);
    k->lds = big(MAXLDS + 64);
    k->lds_w = big(MAXLDS * 4 + 256);
    k->lds_r = big(MAXLDS * 4 + 256);
    k->lds_wi = big(MAXLDS + 256);
    k->lds_ri = big(MAXLDS + 256);
  }
  size_t need = (size_t)((ln->k->priv + 3) & ~3u) * ln->wave * ln->nwaves + 4096;
  if (need > k->scratch_size) {
    if (k->scratch) munmap(k->scratch, k->scratch_size);
    k->scratch = big(need);
    k->scratch_size = need;
  }
  k->id = id;
  k->ln = ln;
  k->hit = NULL;
  k->count = NULL;
  k->mstat = NULL;
  if (env.report) {
    size_t n = (ln->mod->text_hi - ln->mod->text_lo) / 4 + 4;
    k->count = calloc(n, 8);
    k->mstat = calloc(n, sizeof(MemStat));
    k->ncount = n;
  }
}
static void put(u8 *p, u32 off, u32 size, u64 v) { memcpy(p + off, &v, size > 8 ? 8 : size); }

// 0 or a hipError_t number
int launch_kernel(Kernel *K, const u32 grid[3], const u32 block[3], u32 dyn, void **args, void *packed, size_t packed_size) {
  const Arch *a = K->mod->arch;
  u64 threads = (u64)block[0] * block[1] * block[2];
  if (!grid[0] || !grid[1] || !grid[2] || !threads) return 1; // hipErrorInvalidValue
  if (threads > 1024 || block[0] > 1024 || block[1] > 1024 || block[2] > 1024) {
    fprintf(stderr, "hipsim: %s: %llu threads per block, the device allows 1024\n", K->name, (unsigned long long)threads);
    return 9;
  } // hipErrorInvalidConfiguration
  if (K->max_wg && threads > (u64)K->max_wg) {
    fprintf(stderr, "hipsim: %s: %llu threads per block, but it was compiled for at most %d (__launch_bounds__)\n", K->name,
        (unsigned long long)threads, K->max_wg);
    return 719;
  } // hipErrorLaunchFailure, as ROCm does
  const int lds = env.lds > a->lds_per_block && env.lds <= MAXLDS ? env.lds : a->lds_per_block;
  if ((u64)K->lds_fixed + dyn > (u64)lds) {
    fprintf(stderr, "hipsim: %s: %u + %u bytes of LDS, a workgroup has %d\n", K->name, K->lds_fixed, dyn, lds);
    return K->lds_fixed > (u32)lds ? 719 : 1;
  }
  K->mod->wave = K->wave;
  Launch ln = {.mod = K->mod, .k = K, .arch = a, .wave = K->wave, .lds_size = K->lds_fixed + dyn};
  memcpy(ln.grid, grid, 12);
  memcpy(ln.block, block, 12);
  ln.nwg = (u64)grid[0] * grid[1] * grid[2];
  ln.nwaves = (threads + K->wave - 1) / K->wave;
  // kernel arguments, then the dispatch packet, then a zero block that stands for the queue
  size_t ks = (K->kernarg_size + 63) & ~(size_t)63, total = ks + 64 + 512;
  static u8 *ka;
  static size_t ka_size;
  if (total > ka_size) {
    if (ka) mem_remove(ka);
    ka_size = (total + 8191) & ~(size_t)4095;
    ka = aligned_alloc(4096, ka_size);
    mem_add(ka, ka_size, A_KERNARG, "");
  }
  memset(ka, 0, total);
  ln.kernarg = ka;
  int ai = 0;
  for (int i = 0; i < K->nargs; i++) {
    KernArg *g = &K->args[i];
    if (strncmp(g->kind, "hidden_", 7)) {
      if (packed) {
        if (g->offset + g->size > packed_size) return 1;
        memcpy(ka + g->offset, (u8 *)packed + g->offset, g->size);
      } else if (args && args[ai]) memcpy(ka + g->offset, args[ai], g->size);
      else return 1;
      ai++;
      continue;
    }
    const char *h = g->kind + 7;
    int d = h[strlen(h) - 1] - 'x';
    u64 v = 0;
    if (!strncmp(h, "block_count", 11)) v = grid[d];
    else if (!strncmp(h, "group_size", 10)) v = block[d];
    else if (!strncmp(h, "grid_dims", 9)) v = grid[2] * block[2] > 1 ? 3 : grid[1] * block[1] > 1 ? 2 : 1;
    else if (!strcmp(h, "dynamic_lds_size")) v = dyn;
    else if (!strcmp(h, "shared_base")) v = SHARED_BASE >> 32;
    else if (!strcmp(h, "private_base")) v = PRIVATE_BASE >> 32;
    else if (!strcmp(h, "hostcall_buffer")) v = hostcall_buffer();
    else if (!strcmp(h, "queue_ptr")) v = (u64)ka + ks + 64;
    put(ka, g->offset, g->size, v);
  }
  u8 *pk = ka + ks;
  put(pk, 2, 2, 3);
  for (int d = 0; d < 3; d++) {
    put(pk, 4 + 2 * d, 2, block[d]);
    put(pk, 12 + 4 * d, 4, (u64)grid[d] * block[d]);
  }
  put(pk, 24, 4, K->priv);
  put(pk, 28, 4, ln.lds_size);
  put(pk, 32, 8, K->kd);
  put(pk, 40, 8, (u64)ka);

  int nt = env.threads > 0 ? env.threads : (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (env.global_races || env.trace) nt = 1;
  if (env.threads <= 0 && nt > 1) {     // results that depend on the order of workgroups stay reproducible: one thread
    if (K->ordered_atomics < 0) K->ordered_atomics = code_ordered_atomics(K);
    if (K->ordered_atomics) nt = 1;
  }
  if (nt > 64) nt = 64;
  if ((u64)nt > ln.nwg) nt = (int)ln.nwg;
  if (env.global_races) races_begin();
  struct timespec t0, t1;
  clock_gettime(CLOCK_MONOTONIC, &t0);
  pthread_t th[64];
  for (int i = 0; i < nt; i++) worker_prepare(&workers[i], &ln, i);
  for (int i = 1; i < nt; i++) pthread_create(&th[i], NULL, worker_main, &workers[i]);
  worker_main(&workers[0]);
  for (int i = 1; i < nt; i++) pthread_join(th[i], NULL);
  clock_gettime(CLOCK_MONOTONIC, &t1);
  if (env.report) {
    report_launch(&ln, workers, nt, (t1.tv_sec - t0.tv_sec) + 1e-9 * (t1.tv_nsec - t0.tv_nsec));
    for (int i = 0; i < nt; i++) {
      free(workers[i].count);
      free(workers[i].mstat);
    }
  }
  return atomic_load(&ln.failed) ? 700 : 0; // hipErrorIllegalAddress
}
