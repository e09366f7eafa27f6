// SPDX-License-Identifier: MIT
// The HIP host API. Every call has finished when it returns; with HIPSIM_DEFER, what a stream is given waits until the host waits for it.
#define __HIP_PLATFORM_AMD__ 1
#define HIP_DISABLE_CPP_FUNCTIONS 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <hip/hip_runtime_api.h>
#pragma GCC diagnostic pop
#include "hipsim.h"
#include <stdlib.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local hipError_t last_error;
static hipError_t sticky; // a failed kernel poisons the context, as on a GPU

typedef struct Fat {
  const void *blob;
  Module *mod;
  bool tried;
  struct Fat *next;
} Fat;
typedef struct {
  const void *host;
  Fat *fat;
  char *name;
  Kernel *k;
  int dyn_max;
} Func;
typedef struct {
  const void *host;
  Fat *fat;
  char *name;
  size_t size;
  void *dev;
  void *managed;
} Var;
static Fat *fats;
static Func *funcs;
static int nfuncs;
static Var *vars;
static int nvars;
static const Arch *arch;

static void init_once(void) {
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&lock, &a);
  env_init();
}
static void enter(void) {
  pthread_once(&once, init_once);
  pthread_mutex_lock(&lock);
}
static hipError_t leave(hipError_t e) {
  if (e != hipSuccess) last_error = e;
  pthread_mutex_unlock(&lock);
  return e;
}
#define RETURN(e) return leave(e)

static const Arch *device(void) {
  if (arch) return arch;
  if (env.arch) {
    arch = arch_by_name(env.arch);
    if (!arch) {
      fprintf(stderr, "hipsim: HIPSIM_ARCH=%s is not one of gfx90a gfx942 gfx1100 gfx1201\n", env.arch);
      _exit(86);
    }
    return arch;
  }
  Fat *first = NULL;
  for (Fat *f = fats; f; f = f->next) first = f;
  size_t n;
  const Arch *a;
  if (first && bundle_find(first->blob, NULL, &a, &n)) return arch = a;
  return arch = &arch_table[GFX942];
}
static Module *fat_module(Fat *f) {
  if (f->tried) return f->mod;
  f->tried = true;
  size_t n;
  const Arch *a;
  char err[512] = "";
  const void *elf = bundle_find(f->blob, device(), &a, &n);
  if (!elf) {
    fprintf(
        stderr, "hipsim: the program has no code for %s (build with --offload-arch=%s or set HIPSIM_ARCH)\n", device()->gfx, device()->gfx);
    return NULL;
  }
  f->mod = module_load(elf, n, a, err, sizeof err);
  if (!f->mod) fprintf(stderr, "hipsim: %s\n", err);
  // device code reaches a managed variable through a pointer of the variable's name
  else
    for (int i = 0; i < nvars; i++)
      if (vars[i].managed && vars[i].fat == f) {
        void **p = module_symbol(f->mod, vars[i].name, NULL);
        if (p) *p = vars[i].managed;
      }
  return f->mod;
}

// ---------------------------------------------------------------- registration by the compiler
void **__hipRegisterFatBinary(const void *data) {
  enter();
  const struct {
    u32 magic, version;
    const void *blob;
  } *w = data;
  Fat *f = calloc(1, sizeof *f);
  f->blob = w->blob;
  f->next = fats;
  fats = f;
  leave(hipSuccess);
  return (void **)f;
}
void __hipUnregisterFatBinary(void **h) { (void)h; }
void __hipRegisterFunction(
    void **h, const void *host, char *dev, const char *name, unsigned limit, void *tid, void *bid, void *bd, void *gd, int *ws) {
  (void)dev;
  (void)limit;
  (void)tid;
  (void)bid;
  (void)bd;
  (void)gd;
  (void)ws;
  enter();
  funcs = realloc(funcs, (nfuncs + 1) * sizeof *funcs);
  funcs[nfuncs++] = (Func){host, (Fat *)h, strdup(name), NULL, 0};
  leave(hipSuccess);
}
void __hipRegisterVar(void **h, void *host, char *hv, char *dev, int ext, size_t size, int constant, int global) {
  (void)hv;
  (void)ext;
  (void)constant;
  (void)global;
  enter();
  vars = realloc(vars, (nvars + 1) * sizeof *vars);
  vars[nvars++] = (Var){host, (Fat *)h, strdup(dev), size, NULL, NULL};
  leave(hipSuccess);
}
void __hipRegisterManagedVar(void *h, void **ptr, void *init, const char *name, size_t size, unsigned align) {
  (void)align;
  enter();
  *ptr = mem_alloc(size, A_MANAGED, name);
  memcpy(*ptr, init, size);
  vars = realloc(vars, (nvars + 1) * sizeof *vars);
  vars[nvars++] = (Var){ptr, (Fat *)h, strdup(name), size, NULL, *ptr};
  leave(hipSuccess);
}
void __hipRegisterSurface(void **h, void *v, char *hv, char *dv, int t, int e) {
  (void)h;
  (void)v;
  (void)hv;
  (void)dv;
  (void)t;
  (void)e;
}
void __hipRegisterTexture(void **h, void *v, char *hv, char *dv, int t, int n, int e) {
  (void)h;
  (void)v;
  (void)hv;
  (void)dv;
  (void)t;
  (void)n;
  (void)e;
}

typedef struct {
  dim3 grid, block;
  size_t shm;
  hipStream_t stream;
} Config;
static _Thread_local Config configs[16];
static _Thread_local int nconfig;
hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shm, hipStream_t stream) {
  if (nconfig >= 16) return hipErrorInvalidValue;
  configs[nconfig++] = (Config){grid, block, shm, stream};
  return hipSuccess;
}
hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shm, hipStream_t *stream) {
  if (!nconfig) return hipErrorMissingConfiguration;
  Config c = configs[--nconfig];
  *grid = c.grid;
  *block = c.block;
  *shm = c.shm;
  *stream = c.stream;
  return hipSuccess;
}

static Func *find_func(const void *host) {
  for (int i = 0; i < nfuncs; i++)
    if (funcs[i].host == host) {
      Func *f = &funcs[i];
      if (!f->k) {
        Module *m = fat_module(f->fat);
        if (m) f->k = module_kernel(m, f->name);
      }
      return f;
    }
  return NULL;
}

// ---------------------------------------------------------------- deferred work
// HIPSIM_DEFER=SEED: copies, sets, launches, event records and waits, stream-ordered frees stay in their stream. A call that waits runs the
// heads of streams, drawn by the seed, until what it waits for is done, and no more. Copies to or from host memory that HIP does not know
// end before they return, as on a device.
typedef struct Op {
  enum { OP_COPY, OP_SET, OP_LAUNCH, OP_RECORD, OP_WAIT, OP_FREE } kind;
  struct Op *next;
  u64 order; // of issue
  void *to;
  const void *from;
  size_t n;
  int value, unit;
  Kernel *kernel;
  dim3 grid, block;
  u32 lds;
  hipEvent_t event;
  u64 ticket;
} Op;
struct ihipStream_t {
  bool apart; // hipStreamNonBlocking: neither waits for the NULL stream nor is waited for
  Op *first, *last;
  struct ihipStream_t *next;
};
struct ihipEvent_t {
  double t;
  bool recorded;
  u64 asked, done; // records issued, the last that ran
};
static struct ihipStream_t null_stream, *streams = &null_stream;
static u64 issued, draws;

static hipError_t run(Kernel *k, dim3 g, dim3 b, u32 dyn, void **args, void *packed, size_t n);
static hipError_t copy(void *d, const void *s, size_t n);
static hipError_t set(void *d, int v, size_t n, int unit);
static hipError_t release(void *p, int kind);
static double now(void);

static struct ihipStream_t *stream_of(hipStream_t s) { return s == NULL || s == hipStreamPerThread ? &null_stream : s; }
static hipError_t execute(const Op *op) {
  switch (op->kind) {
    case OP_COPY: return copy(op->to, op->from, op->n);
    case OP_SET: return set(op->to, op->value, op->n, op->unit);
    case OP_LAUNCH: return run(op->kernel, op->grid, op->block, op->lds, NULL, op->to, op->n);
    case OP_FREE: return release(op->to, A_DEVICE);
    case OP_RECORD:
      op->event->t = now();
      op->event->recorded = true;
      op->event->done = op->ticket;
      return hipSuccess;
    default: return hipSuccess;
  }
}
static bool ready(const struct ihipStream_t *s) {
  const Op *op = s->first;
  if (!op || (op->kind == OP_WAIT && op->event->done < op->ticket)) return false;
  if (s->apart) return true;
  if (s != &null_stream) return !null_stream.first || null_stream.first->order > op->order;
  for (struct ihipStream_t *t = streams; t; t = t->next)
    if (t != s && !t->apart && t->first && t->first->order < op->order) return false;
  return true;
}
static bool step(void) { // one operation of a stream drawn by the seed
  int n = 0;
  for (struct ihipStream_t *s = streams; s; s = s->next) n += ready(s);
  if (!n) return false;
  u64 x = (env.defer_seed + ++draws) * 0x9E3779B97F4A7C15ull;
  x = (x ^ x >> 32) * 0xD1B54A32D192ED03ull;
  int pick = (int)((x >> 33) % n);
  struct ihipStream_t *s = streams;
  while (!ready(s) || pick--) s = s->next;
  Op *op = s->first;
  s->first = op->next;
  hipError_t e = execute(op);
  if (e && !sticky) sticky = e;
  if (op->kind == OP_LAUNCH) free(op->to);
  free(op);
  return true;
}
static void wait_stream(struct ihipStream_t *s) {
  while (s->first && step()) {}
}
static void wait_blocking(void) { // what a call without a stream waits for
  for (struct ihipStream_t *s = streams; s; s = s->next)
    if (!s->apart) wait_stream(s);
}
static void wait_all(void) {
  while (step()) {}
}
static void wait_event(hipEvent_t e) {
  while (e->done < e->asked && step()) {}
}
static bool pageable(const void *p) { return !mem_find((u64)p, 1); }
static hipError_t submit(hipStream_t stream, Op op) {
  struct ihipStream_t *s = stream_of(stream);
  if (!env.defer) return execute(&op);
  if (sticky) return sticky;
  if (op.kind == OP_COPY && op.n && op.to && op.from && (pageable(op.to) || pageable(op.from))) {
    wait_stream(s);
    if (s == &null_stream) wait_blocking();
    return execute(&op);
  }
  Op *own = malloc(sizeof *own);
  *own = op;
  own->order = ++issued;
  own->next = NULL;
  if (s->first) s->last->next = own;
  else s->first = own;
  s->last = own;
  return hipSuccess;
}
// The arguments of a launch are copied when it is issued.
static hipError_t submit_launch(Kernel *k, dim3 g, dim3 b, u32 dyn, void **args, void *packed, size_t n, hipStream_t s) {
  if (!env.defer) return run(k, g, b, dyn, args, packed, n);
  u8 *own = calloc(1, k->kernarg_size + 1);
  int ai = 0;
  if (packed) memcpy(own, packed, n < k->kernarg_size ? n : k->kernarg_size);
  else
    for (int i = 0; i < k->nargs; i++)
      if (strncmp(k->args[i].kind, "hidden_", 7)) memcpy(own + k->args[i].offset, args[ai++], k->args[i].size);
  return submit(s, (Op){.kind = OP_LAUNCH, .kernel = k, .grid = g, .block = b, .lds = dyn, .to = own, .n = k->kernarg_size});
}
static hipError_t run(Kernel *k, dim3 g, dim3 b, u32 dyn, void **args, void *packed, size_t n) {
  if (sticky) return sticky;
  u32 grid[3] = {g.x, g.y, g.z}, block[3] = {b.x, b.y, b.z};
  int e = launch_kernel(k, grid, block, dyn, args, packed, n);
  if (e == 700) sticky = hipErrorIllegalAddress;
  return e;
}
hipError_t hipLaunchKernel(const void *fn, dim3 g, dim3 b, void **args, size_t shm, hipStream_t s) {
  enter();
  Func *f = find_func(fn);
  if (!f) RETURN(hipErrorInvalidDeviceFunction);
  if (!f->k) RETURN(hipErrorNoBinaryForGpu);
  RETURN(submit_launch(f->k, g, b, (u32)shm, args, NULL, 0, s));
}
hipError_t hipExtLaunchKernel(
    const void *fn, dim3 g, dim3 b, void **args, size_t shm, hipStream_t s, hipEvent_t e0, hipEvent_t e1, int flags) {
  (void)flags;
  if (e0) hipEventRecord(e0, s);
  hipError_t e = hipLaunchKernel(fn, g, b, args, shm, s);
  if (e1) hipEventRecord(e1, s);
  return e;
}
hipError_t hipLaunchCooperativeKernel(const void *fn, dim3 g, dim3 b, void **args, unsigned shm, hipStream_t s) {
  (void)fn;
  (void)g;
  (void)b;
  (void)args;
  (void)shm;
  (void)s;
  fprintf(stderr, "hipsim: cooperative launches are not supported: workgroups do not run at the same time\n");
  enter();
  RETURN(hipErrorNotSupported);
}

// ---------------------------------------------------------------- modules
struct ihipModule_t {
  Module *m;
};
static hipError_t load(const void *image, size_t size, hipModule_t *out) {
  const Arch *a;
  size_t n;
  char err[512] = "";
  const void *elf = bundle_find(image, device(), &a, &n);
  if (!elf) return hipErrorNoBinaryForGpu;
  if (size && n > size) return hipErrorInvalidImage;
  Module *m = module_load(elf, n, a, err, sizeof err);
  if (!m) {
    fprintf(stderr, "hipsim: %s\n", err);
    return hipErrorInvalidImage;
  }
  *out = calloc(1, sizeof **out);
  (*out)->m = m;
  return hipSuccess;
}
hipError_t hipModuleLoadData(hipModule_t *m, const void *image) {
  enter();
  RETURN(load(image, 0, m));
}
hipError_t hipModuleLoadDataEx(hipModule_t *m, const void *image, unsigned n, hipJitOption *o, void **v) {
  (void)n;
  (void)o;
  (void)v;
  return hipModuleLoadData(m, image);
}
hipError_t hipModuleLoad(hipModule_t *m, const char *name) {
  enter();
  FILE *f = fopen(name, "rb");
  if (!f) RETURN(hipErrorFileNotFound);
  fseek(f, 0, SEEK_END);
  long n = ftell(f);
  rewind(f);
  void *p = malloc(n + 64);
  size_t got = fread(p, 1, n, f);
  fclose(f);
  hipError_t e = got == (size_t)n ? load(p, n, m) : hipErrorFileNotFound;
  free(p);
  RETURN(e);
}
hipError_t hipModuleUnload(hipModule_t m) {
  (void)m;
  return hipSuccess;
}
hipError_t hipModuleGetFunction(hipFunction_t *f, hipModule_t m, const char *name) {
  enter();
  Kernel *k = module_kernel(m->m, name);
  *f = (hipFunction_t)k;
  RETURN(k ? hipSuccess : hipErrorNotFound);
}
hipError_t hipModuleGetGlobal(hipDeviceptr_t *p, size_t *n, hipModule_t m, const char *name) {
  enter();
  size_t s;
  void *d = module_symbol(m->m, name, &s);
  if (p) *p = d;
  if (n) *n = s;
  RETURN(d ? hipSuccess : hipErrorNotFound);
}
hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
    unsigned shm, hipStream_t s, void **params, void **extra) {
  enter();
  void *packed = NULL;
  size_t n = 0;
  if (extra)
    for (int i = 0; extra[i] != HIP_LAUNCH_PARAM_END; i += 2) {
      if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_POINTER) packed = extra[i + 1];
      if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_SIZE) n = *(size_t *)extra[i + 1];
    }
  if (!f) RETURN(hipErrorInvalidHandle);
  RETURN(submit_launch((Kernel *)f, (dim3){gx, gy, gz}, (dim3){bx, by, bz}, shm, params, packed, n, s));
}
hipError_t hipFuncSetAttribute(const void *fn, hipFuncAttribute attr, int v) {
  enter();
  Func *f = find_func(fn);
  if (!f) RETURN(hipErrorInvalidDeviceFunction);
  if (attr == hipFuncAttributeMaxDynamicSharedMemorySize && v > device()->lds_per_block) RETURN(hipErrorInvalidValue);
  RETURN(hipSuccess);
}
hipError_t hipFuncSetCacheConfig(const void *f, hipFuncCache_t c) {
  (void)f;
  (void)c;
  return hipSuccess;
}
hipError_t hipFuncSetSharedMemConfig(const void *f, hipSharedMemConfig c) {
  (void)f;
  (void)c;
  return hipSuccess;
}
hipError_t hipFuncGetAttributes(struct hipFuncAttributes *a, const void *fn) {
  enter();
  Func *f = find_func(fn);
  if (!f || !f->k) RETURN(hipErrorInvalidDeviceFunction);
  memset(a, 0, sizeof *a);
  a->sharedSizeBytes = f->k->lds_fixed;
  a->localSizeBytes = f->k->priv;
  a->numRegs = f->k->vgprs;
  a->maxThreadsPerBlock = f->k->max_wg ? f->k->max_wg : 1024;
  a->maxDynamicSharedSizeBytes = device()->lds_per_block - f->k->lds_fixed;
  a->binaryVersion = a->ptxVersion = 10 * (device()->gen);
  a->constSizeBytes = 0;
  RETURN(hipSuccess);
}
hipError_t hipFuncGetAttribute(int *v, hipFunction_attribute attr, hipFunction_t fn) {
  enter();
  Kernel *k = (Kernel *)fn;
  if (!k || !v) RETURN(hipErrorInvalidValue);
  switch (attr) {
    case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *v = k->lds_fixed; break;
    case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *v = k->priv; break;
    case HIP_FUNC_ATTRIBUTE_NUM_REGS: *v = k->vgprs; break;
    case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *v = k->max_wg; break;
    case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *v = device()->lds_per_block - k->lds_fixed; break;
    default: *v = 0;
  }
  RETURN(hipSuccess);
}
static hipError_t occ(Kernel *k, int *n, int threads, size_t dyn) {
  int w;
  const char *lim;
  if (!k || threads <= 0) return hipErrorInvalidValue;
  occupancy(k->mod->arch, k, threads, k->lds_fixed + (u32)dyn, &w, n, &lim);
  return hipSuccess;
}
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *fn, int threads, size_t dyn) {
  enter();
  Func *f = find_func(fn);
  RETURN(f && f->k ? occ(f->k, n, threads, dyn) : hipErrorInvalidDeviceFunction);
}
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *fn, int threads, size_t dyn, unsigned flags) {
  (void)flags;
  return hipOccupancyMaxActiveBlocksPerMultiprocessor(n, fn, threads, dyn);
}
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *n, hipFunction_t f, int threads, size_t dyn) {
  enter();
  RETURN(occ((Kernel *)f, n, threads, dyn));
}
hipError_t hipOccupancyMaxPotentialBlockSize(int *grid, int *block, const void *fn, size_t dyn, int limit) {
  enter();
  Func *f = find_func(fn);
  int best = 0;
  if (!f || !f->k) RETURN(hipErrorInvalidDeviceFunction);
  for (int t = 64; t <= (f->k->max_wg ? f->k->max_wg : 1024) && (limit <= 0 || t <= limit); t += 64) {
    int n;
    if (occ(f->k, &n, t, dyn) == hipSuccess && n * t >= best) {
      best = n * t;
      *block = t;
      *grid = n * device()->cus;
    }
  }
  RETURN(hipSuccess);
}

// ---------------------------------------------------------------- memory
static bool in_arena(const void *p) {
  const Alloc *a = mem_nearest((u64)p);
  return a && (a->kind == A_DEVICE || a->kind == A_HOST || a->kind == A_GLOBAL || a->kind == A_MANAGED) && (u64)p >= a->lo &&
         (u64)p < a->hi + 4096;
}
static hipError_t check_copy(const char *what, const void *p, size_t n) { // a pointer into device memory must have n bytes behind it
  if (!n || !in_arena(p) || mem_find((u64)p, n)) return hipSuccess;
  const Alloc *a = mem_nearest((u64)p);
  fprintf(stderr, "hipsim: ERROR: %s of %zu bytes at %p leaves the %s allocation [0x%llx, 0x%llx)\n", what, n, p,
      a->live ? "live" : "FREED", (unsigned long long)a->lo, (unsigned long long)a->hi);
  if (!env.on_error_continue) {
    fflush(NULL);
    _exit(86);
  }
  return hipErrorInvalidValue;
}
static hipError_t alloc(void **p, size_t n, int kind) {
  if (!p) return hipErrorInvalidValue;
  *p = NULL;
  if (!n) return hipSuccess;
  if (kind == A_DEVICE && (n > device()->vram || mem_used() + n > device()->vram)) return hipErrorOutOfMemory;
  *p = mem_alloc(n, kind, "");
  return *p ? hipSuccess : hipErrorOutOfMemory;
}
static hipError_t release(void *p, int kind) { return !p || mem_free(p, kind) == 0 ? hipSuccess : hipErrorInvalidValue; }
hipError_t hipMalloc(void **p, size_t n) {
  enter();
  RETURN(alloc(p, n, A_DEVICE));
}
hipError_t hipExtMallocWithFlags(void **p, size_t n, unsigned f) {
  (void)f;
  enter();
  RETURN(alloc(p, n, A_DEVICE));
}
hipError_t hipMallocAsync(void **p, size_t n, hipStream_t s) {
  (void)s;
  enter();
  RETURN(alloc(p, n, A_DEVICE));
}
hipError_t hipMallocManaged(void **p, size_t n, unsigned f) {
  (void)f;
  enter();
  RETURN(alloc(p, n, A_MANAGED));
}
hipError_t hipMallocPitch(void **p, size_t *pitch, size_t w, size_t h) {
  enter();
  *pitch = (w + 255) & ~(size_t)255;
  RETURN(alloc(p, *pitch * h, A_DEVICE));
}
hipError_t hipFree(void *p) {
  enter();
  wait_all();
  RETURN(release(p, A_DEVICE));
}
hipError_t hipFreeAsync(void *p, hipStream_t s) {
  enter();
  RETURN(submit(s, (Op){.kind = OP_FREE, .to = p}));
}
hipError_t hipHostMalloc(void **p, size_t n, unsigned f) {
  (void)f;
  enter();
  RETURN(alloc(p, n, A_HOST));
}
hipError_t hipHostAlloc(void **p, size_t n, unsigned f) {
  (void)f;
  enter();
  RETURN(alloc(p, n, A_HOST));
}
hipError_t hipMallocHost(void **p, size_t n) {
  enter();
  RETURN(alloc(p, n, A_HOST));
}
hipError_t hipMemAllocHost(void **p, size_t n) {
  enter();
  RETURN(alloc(p, n, A_HOST));
}
hipError_t hipHostFree(void *p) {
  enter();
  wait_all();
  RETURN(release(p, A_HOST));
}
hipError_t hipFreeHost(void *p) {
  enter();
  wait_all();
  RETURN(release(p, A_HOST));
}
hipError_t hipHostRegister(void *p, size_t n, unsigned f) {
  (void)f;
  enter();
  if (!p || !n) RETURN(hipErrorInvalidValue);
  if (mem_find((u64)p, 1)) RETURN(hipErrorHostMemoryAlreadyRegistered);
  mem_add(p, n, A_REGISTERED, "");
  RETURN(hipSuccess);
}
hipError_t hipHostUnregister(void *p) {
  enter();
  RETURN(mem_remove(p) == 0 ? hipSuccess : hipErrorHostMemoryNotRegistered);
}
hipError_t hipHostGetDevicePointer(void **d, void *h, unsigned f) {
  (void)f;
  enter();
  *d = h;
  RETURN(mem_find((u64)h, 1) ? hipSuccess : hipErrorInvalidValue);
}
hipError_t hipHostGetFlags(unsigned *f, void *h) {
  (void)h;
  *f = 0;
  return hipSuccess;
}
hipError_t hipMemGetInfo(size_t *avail, size_t *total) {
  enter();
  if (total) *total = device()->vram;
  if (avail) *avail = device()->vram - mem_used();
  RETURN(hipSuccess);
}
hipError_t hipMemGetAddressRange(hipDeviceptr_t *b, size_t *n, hipDeviceptr_t p) {
  enter();
  const Alloc *a = mem_find((u64)p, 1);
  if (!a) RETURN(hipErrorInvalidValue);
  if (b) *b = (void *)a->lo;
  if (n) *n = a->hi - a->lo;
  RETURN(hipSuccess);
}
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *a, const void *p) {
  enter();
  const Alloc *m = mem_find((u64)p, 1);
  if (!m) RETURN(hipErrorInvalidValue);
  memset(a, 0, sizeof *a);
  bool host = m->kind == A_HOST || m->kind == A_REGISTERED;
  a->memoryType = host ? hipMemoryTypeHost : hipMemoryTypeDevice;
  a->devicePointer = (void *)p;
  a->hostPointer = host || m->kind == A_MANAGED ? (void *)p : NULL;
  a->isManaged = m->kind == A_MANAGED;
  RETURN(hipSuccess);
}
static hipError_t copy(void *d, const void *s, size_t n) {
  if (sticky) return sticky;
  if (!n) return hipSuccess;
  if (!d || !s) return hipErrorInvalidValue;
  hipError_t e = check_copy("copy to memory", d, n);
  if (e) return e;
  e = check_copy("copy from memory", s, n);
  if (e) return e;
  memmove(d, s, n);
  return hipSuccess;
}
hipError_t hipMemcpy(void *d, const void *s, size_t n, hipMemcpyKind k) {
  (void)k;
  enter();
  wait_blocking();
  RETURN(copy(d, s, n));
}
hipError_t hipMemcpyWithStream(void *d, const void *s, size_t n, hipMemcpyKind k, hipStream_t st) {
  (void)k;
  enter();
  wait_stream(stream_of(st));
  RETURN(copy(d, s, n));
}
hipError_t hipMemcpyAsync(void *d, const void *s, size_t n, hipMemcpyKind k, hipStream_t st) {
  (void)k;
  enter();
  RETURN(submit(st, (Op){.kind = OP_COPY, .to = d, .from = s, .n = n}));
}
hipError_t hipMemcpyHtoD(hipDeviceptr_t d, void *s, size_t n) {
  enter();
  wait_blocking();
  RETURN(copy(d, s, n));
}
hipError_t hipMemcpyDtoH(void *d, hipDeviceptr_t s, size_t n) {
  enter();
  wait_blocking();
  RETURN(copy(d, s, n));
}
hipError_t hipMemcpyDtoD(hipDeviceptr_t d, hipDeviceptr_t s, size_t n) {
  enter();
  wait_blocking();
  RETURN(copy(d, s, n));
}
hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t d, void *s, size_t n, hipStream_t st) {
  enter();
  RETURN(submit(st, (Op){.kind = OP_COPY, .to = d, .from = s, .n = n}));
}
hipError_t hipMemcpyDtoHAsync(void *d, hipDeviceptr_t s, size_t n, hipStream_t st) {
  enter();
  RETURN(submit(st, (Op){.kind = OP_COPY, .to = d, .from = s, .n = n}));
}
hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t d, hipDeviceptr_t s, size_t n, hipStream_t st) {
  enter();
  RETURN(submit(st, (Op){.kind = OP_COPY, .to = d, .from = s, .n = n}));
}
hipError_t hipMemcpyPeer(void *d, int dd, const void *s, int sd, size_t n) {
  (void)dd;
  (void)sd;
  enter();
  wait_blocking();
  RETURN(copy(d, s, n));
}
hipError_t hipMemcpy2D(void *d, size_t dp, const void *s, size_t sp, size_t w, size_t h, hipMemcpyKind k) {
  (void)k;
  enter();
  wait_blocking();
  for (size_t i = 0; i < h; i++) {
    hipError_t e = copy((u8 *)d + i * dp, (const u8 *)s + i * sp, w);
    if (e) RETURN(e);
  }
  RETURN(hipSuccess);
}
hipError_t hipMemcpy2DAsync(void *d, size_t dp, const void *s, size_t sp, size_t w, size_t h, hipMemcpyKind k, hipStream_t st) {
  (void)k;
  enter();
  for (size_t i = 0; i < h; i++) {
    hipError_t e = submit(st, (Op){.kind = OP_COPY, .to = (u8 *)d + i * dp, .from = (const u8 *)s + i * sp, .n = w});
    if (e) RETURN(e);
  }
  RETURN(hipSuccess);
}
static hipError_t set(void *d, int v, size_t n, int unit) {
  if (sticky) return sticky;
  if (!n) return hipSuccess;
  if (!d) return hipErrorInvalidValue;
  hipError_t e = check_copy("memset", d, n * unit);
  if (e) return e;
  if (unit == 1) memset(d, v, n);
  else if (unit == 2)
    for (size_t i = 0; i < n; i++) ((u16 *)d)[i] = (u16)v;
  else
    for (size_t i = 0; i < n; i++) ((u32 *)d)[i] = (u32)v;
  return hipSuccess;
}
hipError_t hipMemset(void *d, int v, size_t n) {
  enter();
  wait_blocking();
  RETURN(set(d, v, n, 1));
}
hipError_t hipMemsetAsync(void *d, int v, size_t n, hipStream_t s) {
  enter();
  RETURN(submit(s, (Op){.kind = OP_SET, .to = d, .value = v, .n = n, .unit = 1}));
}
hipError_t hipMemsetD8(hipDeviceptr_t d, unsigned char v, size_t n) {
  enter();
  wait_blocking();
  RETURN(set(d, v, n, 1));
}
hipError_t hipMemsetD8Async(hipDeviceptr_t d, unsigned char v, size_t n, hipStream_t s) {
  enter();
  RETURN(submit(s, (Op){.kind = OP_SET, .to = d, .value = v, .n = n, .unit = 1}));
}
hipError_t hipMemsetD16(hipDeviceptr_t d, unsigned short v, size_t n) {
  enter();
  wait_blocking();
  RETURN(set(d, v, n, 2));
}
hipError_t hipMemsetD32(hipDeviceptr_t d, int v, size_t n) {
  enter();
  wait_blocking();
  RETURN(set(d, v, n, 4));
}
hipError_t hipMemsetD32Async(hipDeviceptr_t d, int v, size_t n, hipStream_t s) {
  enter();
  RETURN(submit(s, (Op){.kind = OP_SET, .to = d, .value = v, .n = n, .unit = 4}));
}
hipError_t hipMemset2D(void *d, size_t p, int v, size_t w, size_t h) {
  enter();
  wait_blocking();
  for (size_t i = 0; i < h; i++) {
    hipError_t e = set((u8 *)d + i * p, v, w, 1);
    if (e) RETURN(e);
  }
  RETURN(hipSuccess);
}
hipError_t hipMemPrefetchAsync(const void *p, size_t n, int dev, hipStream_t s) {
  (void)p;
  (void)n;
  (void)dev;
  (void)s;
  return hipSuccess;
}
hipError_t hipMemAdvise(const void *p, size_t n, hipMemoryAdvise a, int dev) {
  (void)p;
  (void)n;
  (void)a;
  (void)dev;
  return hipSuccess;
}
static Var *find_var(const void *host) {
  for (int i = 0; i < nvars; i++)
    if (vars[i].host == host) {
      Var *v = &vars[i];
      if (!v->dev) {
        Module *m = fat_module(v->fat);
        if (m) v->dev = module_symbol(m, v->name, NULL);
      }
      return v->dev ? v : NULL;
    }
  return NULL;
}
hipError_t hipGetSymbolAddress(void **p, const void *s) {
  enter();
  Var *v = find_var(s);
  if (!v) RETURN(hipErrorInvalidSymbol);
  *p = v->dev;
  RETURN(hipSuccess);
}
hipError_t hipGetSymbolSize(size_t *n, const void *s) {
  enter();
  Var *v = find_var(s);
  if (!v) RETURN(hipErrorInvalidSymbol);
  *n = v->size;
  RETURN(hipSuccess);
}
hipError_t hipMemcpyToSymbol(const void *s, const void *src, size_t n, size_t off, hipMemcpyKind k) {
  (void)k;
  enter();
  wait_blocking();
  Var *v = find_var(s);
  if (!v) RETURN(hipErrorInvalidSymbol);
  if (off + n > v->size) RETURN(hipErrorInvalidValue);
  RETURN(copy((u8 *)v->dev + off, src, n));
}
hipError_t hipMemcpyFromSymbol(void *d, const void *s, size_t n, size_t off, hipMemcpyKind k) {
  (void)k;
  enter();
  wait_blocking();
  Var *v = find_var(s);
  if (!v) RETURN(hipErrorInvalidSymbol);
  if (off + n > v->size) RETURN(hipErrorInvalidValue);
  RETURN(copy(d, (u8 *)v->dev + off, n));
}
hipError_t hipMemcpyToSymbolAsync(const void *s, const void *src, size_t n, size_t off, hipMemcpyKind k, hipStream_t st) {
  (void)st;
  return hipMemcpyToSymbol(s, src, n, off, k);
}
hipError_t hipMemcpyFromSymbolAsync(void *d, const void *s, size_t n, size_t off, hipMemcpyKind k, hipStream_t st) {
  (void)st;
  return hipMemcpyFromSymbol(d, s, n, off, k);
}

// ---------------------------------------------------------------- streams and events
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}
static hipError_t stream_create(hipStream_t *s, bool apart) {
  enter();
  *s = calloc(1, sizeof **s);
  (*s)->apart = apart;
  (*s)->next = streams;
  streams = *s;
  RETURN(hipSuccess);
}
hipError_t hipStreamCreate(hipStream_t *s) { return stream_create(s, false); }
hipError_t hipStreamCreateWithFlags(hipStream_t *s, unsigned f) { return stream_create(s, f & hipStreamNonBlocking); }
hipError_t hipStreamCreateWithPriority(hipStream_t *s, unsigned f, int p) {
  (void)p;
  return stream_create(s, f & hipStreamNonBlocking);
}
hipError_t hipStreamDestroy(hipStream_t s) { // what it was given still runs, some time
  enter();
  if (s && !s->first) {
    struct ihipStream_t **at = &streams;
    while (*at && *at != s) at = &(*at)->next;
    if (*at) *at = s->next;
    free(s);
  }
  RETURN(hipSuccess);
}
hipError_t hipStreamSynchronize(hipStream_t s) {
  enter();
  wait_stream(stream_of(s));
  if (stream_of(s) == &null_stream) wait_blocking();
  RETURN(sticky);
}
hipError_t hipStreamQuery(hipStream_t s) {
  enter();
  if (!sticky && stream_of(s)->first) {
    step();
    RETURN(hipErrorNotReady);
  }
  RETURN(sticky);
}
hipError_t hipStreamWaitEvent(hipStream_t s, hipEvent_t e, unsigned f) {
  (void)f;
  enter();
  if (!e) RETURN(hipErrorInvalidHandle);
  RETURN(submit(s, (Op){.kind = OP_WAIT, .event = e, .ticket = e->asked}));
}
hipError_t hipStreamGetFlags(hipStream_t s, unsigned *f) {
  (void)s;
  *f = 0;
  return hipSuccess;
}
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode) {
  static _Thread_local hipStreamCaptureMode of_thread = hipStreamCaptureModeGlobal;
  if (!mode) return hipErrorInvalidValue;
  hipStreamCaptureMode before = of_thread;
  of_thread = *mode;
  *mode = before;
  return hipSuccess;
}
hipError_t hipStreamGetPriority(hipStream_t s, int *p) {
  (void)s;
  *p = 0;
  return hipSuccess;
}
hipError_t hipStreamAddCallback(hipStream_t s, hipStreamCallback_t cb, void *u, unsigned f) {
  (void)f;
  enter();
  wait_stream(stream_of(s));
  leave(hipSuccess);
  cb(s, hipSuccess, u);
  return hipSuccess;
}
hipError_t hipDeviceGetStreamPriorityRange(int *lo, int *hi) {
  if (lo) *lo = 0;
  if (hi) *hi = 0;
  return hipSuccess;
}
hipError_t hipEventCreate(hipEvent_t *e) {
  enter();
  *e = calloc(1, sizeof **e);
  RETURN(hipSuccess);
}
hipError_t hipEventCreateWithFlags(hipEvent_t *e, unsigned f) {
  (void)f;
  return hipEventCreate(e);
}
hipError_t hipEventDestroy(hipEvent_t e) {
  if (!env.defer) free(e); // an operation that waits in a stream may name it
  return hipSuccess;
}
hipError_t hipEventRecord(hipEvent_t e, hipStream_t s) {
  enter();
  if (!e) RETURN(hipErrorInvalidHandle);
  RETURN(submit(s, (Op){.kind = OP_RECORD, .event = e, .ticket = ++e->asked}));
}
hipError_t hipEventSynchronize(hipEvent_t e) {
  enter();
  wait_event(e);
  RETURN(sticky);
}
hipError_t hipEventQuery(hipEvent_t e) {
  enter();
  if (!sticky && e->done < e->asked) {
    step();
    RETURN(hipErrorNotReady);
  }
  RETURN(sticky);
}
hipError_t hipEventElapsedTime(float *ms, hipEvent_t a, hipEvent_t b) {
  enter();
  if (a && b && (a->done < a->asked || b->done < b->asked)) RETURN(hipErrorNotReady);
  if (!ms || !a || !b || !a->recorded || !b->recorded) RETURN(hipErrorInvalidHandle);
  *ms = (float)(b->t - a->t);
  RETURN(hipSuccess);
}

// ---------------------------------------------------------------- device
hipError_t hipInit(unsigned f) {
  (void)f;
  enter();
  device();
  RETURN(hipSuccess);
}
hipError_t hipGetDeviceCount(int *n) {
  enter();
  *n = 1;
  RETURN(hipSuccess);
}
hipError_t hipSetDevice(int d) {
  enter();
  RETURN(d == 0 ? hipSuccess : hipErrorInvalidDevice);
}
hipError_t hipGetDevice(int *d) {
  enter();
  *d = 0;
  RETURN(hipSuccess);
}
hipError_t hipDeviceGet(hipDevice_t *d, int i) {
  enter();
  *d = i;
  RETURN(i == 0 ? hipSuccess : hipErrorInvalidDevice);
}
hipError_t hipDeviceGetName(char *s, int n, hipDevice_t d) {
  (void)d;
  enter();
  snprintf(s, n, "%s", device()->board);
  RETURN(hipSuccess);
}
hipError_t hipDeviceTotalMem(size_t *n, hipDevice_t d) {
  (void)d;
  enter();
  *n = device()->vram;
  RETURN(hipSuccess);
}
hipError_t hipDeviceComputeCapability(int *ma, int *mi, hipDevice_t d) {
  (void)d;
  enter();
  *ma = device()->gen;
  *mi = 0;
  RETURN(hipSuccess);
}
hipError_t hipDeviceGetPCIBusId(char *s, int n, int d) {
  (void)d;
  snprintf(s, n, "0000:00:00.0");
  return hipSuccess;
}
hipError_t hipDeviceSynchronize(void) {
  enter();
  wait_all();
  RETURN(sticky);
}
hipError_t hipDeviceReset(void) { return hipSuccess; }
hipError_t hipSetDeviceFlags(unsigned f) {
  (void)f;
  return hipSuccess;
}
hipError_t hipGetDeviceFlags(unsigned *f) {
  *f = 0;
  return hipSuccess;
}
hipError_t hipDeviceCanAccessPeer(int *r, int a, int b) {
  (void)a;
  (void)b;
  *r = 0;
  return hipSuccess;
}
hipError_t hipDeviceGetLimit(size_t *v, enum hipLimit_t l) {
  (void)l;
  *v = 1 << 23;
  return hipSuccess;
}
hipError_t hipDeviceSetLimit(enum hipLimit_t l, size_t v) {
  (void)l;
  (void)v;
  return hipSuccess;
}
hipError_t hipDeviceSetCacheConfig(hipFuncCache_t c) {
  (void)c;
  return hipSuccess;
}
hipError_t hipRuntimeGetVersion(int *v) {
  *v = 50221153;
  return hipSuccess;
}
hipError_t hipDriverGetVersion(int *v) {
  *v = 50221153;
  return hipSuccess;
}
hipError_t hipProfilerStart(void) { return hipSuccess; }
hipError_t hipProfilerStop(void) { return hipSuccess; }
static void numbers(const Arch *a, int *major, int *minor, int *gcn) {
  int n = (int)strtol(a->gfx + 3, NULL, 16);
  *major = a->gen == 9 ? 9 : a->gen;
  *minor = a->gen == 9 ? (a->id == GFX942 ? 4 : 0) : (n >> 4) & 15;
  *gcn = a->id == GFX90A ? 910 : a->id == GFX942 ? 942 : a->id == GFX1100 ? 1100 : 1201;
}
hipError_t hipGetDeviceProperties(hipDeviceProp_t *p, int dev) {
  enter();
  if (!p) RETURN(hipErrorInvalidValue);
  if (dev) RETURN(hipErrorInvalidDevice);
  const Arch *a = device();
  memset(p, 0, sizeof *p);
  snprintf(p->name, sizeof p->name, "%s", a->board);
  snprintf(p->gcnArchName, sizeof p->gcnArchName, "%s%s", a->gfx, a->gen == 9 ? ":sramecc+:xnack-" : "");
  p->totalGlobalMem = a->vram;
  p->sharedMemPerBlock = a->lds_per_block;
  p->regsPerBlock = 65536;
  p->warpSize = a->wave;
  p->maxThreadsPerBlock = 1024;
  for (int i = 0; i < 3; i++) {
    p->maxThreadsDim[i] = 1024;
    p->maxGridSize[i] = i ? 65535 : 2147483647;
  }
  p->clockRate = a->clock_khz;
  p->memoryClockRate = a->mem_khz;
  p->memoryBusWidth = a->bus_bits;
  p->totalConstMem = 2147483647;
  numbers(a, &p->major, &p->minor, &p->gcnArch);
  p->multiProcessorCount = a->cus;
  p->l2CacheSize = (int)a->l2;
  p->maxThreadsPerMultiProcessor = 2048;
  p->clockInstructionRate = 100000;
  p->concurrentKernels = 1;
  p->maxSharedMemoryPerMultiProcessor = a->lds_per_cu;
  p->canMapHostMemory = 1;
  p->arch.hasGlobalInt32Atomics = p->arch.hasGlobalFloatAtomicExch = p->arch.hasSharedInt32Atomics = p->arch.hasSharedFloatAtomicExch =
      p->arch.hasFloatAtomicAdd = p->arch.hasGlobalInt64Atomics = p->arch.hasSharedInt64Atomics = 1;
  p->arch.hasDoubles = p->arch.hasWarpVote = p->arch.hasWarpBallot = p->arch.hasWarpShuffle = p->arch.hasThreadFenceSystem =
      p->arch.has3dGrid = 1;
  p->memPitch = 2147483647;
  p->textureAlignment = 256;
  p->texturePitchAlignment = 256;
  p->managedMemory = 1;
  p->isLargeBar = 1;
  p->ECCEnabled = a->gen == 9;
  RETURN(hipSuccess);
}
hipError_t hipDeviceGetAttribute(int *v, hipDeviceAttribute_t attr, int dev) {
  hipDeviceProp_t p;
  hipError_t e = hipGetDeviceProperties(&p, dev);
  enter();
  if (e || !v) RETURN(hipErrorInvalidValue);
  switch (attr) {
    case hipDeviceAttributeMaxThreadsPerBlock: *v = p.maxThreadsPerBlock; break;
    case hipDeviceAttributeMaxBlockDimX:
    case hipDeviceAttributeMaxBlockDimY:
    case hipDeviceAttributeMaxBlockDimZ: *v = 1024; break;
    case hipDeviceAttributeMaxGridDimX: *v = p.maxGridSize[0]; break;
    case hipDeviceAttributeMaxGridDimY: *v = p.maxGridSize[1]; break;
    case hipDeviceAttributeMaxGridDimZ: *v = p.maxGridSize[2]; break;
    case hipDeviceAttributeMaxSharedMemoryPerBlock: *v = (int)p.sharedMemPerBlock; break;
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor: *v = (int)p.maxSharedMemoryPerMultiProcessor; break;
    case hipDeviceAttributeWarpSize: *v = p.warpSize; break;
    case hipDeviceAttributeMaxRegistersPerBlock: *v = p.regsPerBlock; break;
    case hipDeviceAttributeClockRate: *v = p.clockRate; break;
    case hipDeviceAttributeMemoryClockRate: *v = p.memoryClockRate; break;
    case hipDeviceAttributeMemoryBusWidth: *v = p.memoryBusWidth; break;
    case hipDeviceAttributeMultiprocessorCount: *v = p.multiProcessorCount; break;
    case hipDeviceAttributeComputeMode: *v = 0; break;
    case hipDeviceAttributeL2CacheSize: *v = p.l2CacheSize; break;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor: *v = p.maxThreadsPerMultiProcessor; break;
    case hipDeviceAttributeComputeCapabilityMajor: *v = p.major; break;
    case hipDeviceAttributeComputeCapabilityMinor: *v = p.minor; break;
    case hipDeviceAttributeConcurrentKernels: *v = 1; break;
    case hipDeviceAttributeIntegrated: *v = 0; break;
    case hipDeviceAttributeCooperativeLaunch: *v = 0; break;
    case hipDeviceAttributeManagedMemory: *v = 1; break;
    case hipDeviceAttributeCanMapHostMemory: *v = 1; break;
    case hipDeviceAttributeTotalConstantMemory: *v = 2147483647; break;
    default: *v = 0;
  }
  RETURN(hipSuccess);
}
hipError_t hipChooseDevice(int *d, const hipDeviceProp_t *p) {
  (void)p;
  *d = 0;
  return hipSuccess;
}

// ---------------------------------------------------------------- errors
hipError_t hipGetLastError(void) {
  pthread_once(&once, init_once);
  hipError_t e = last_error;
  last_error = hipSuccess;
  return sticky ? sticky : e;
}
hipError_t hipPeekAtLastError(void) {
  pthread_once(&once, init_once);
  return sticky ? sticky : last_error;
}
static const struct {
  hipError_t e;
  const char *name, *text;
} errors[] = {
#define E(x, t)                                                                                                                            \
  { x, #x, t }
    E(hipSuccess, "no error"), E(hipErrorInvalidValue, "invalid argument"), E(hipErrorOutOfMemory, "out of memory"),
    E(hipErrorNotInitialized, "initialization error"), E(hipErrorInvalidConfiguration, "invalid configuration argument"),
    E(hipErrorInvalidSymbol, "invalid device symbol"), E(hipErrorInvalidDevicePointer, "invalid device pointer"),
    E(hipErrorMissingConfiguration, "__global__ function call is not configured"),
    E(hipErrorInvalidDeviceFunction, "invalid device function"), E(hipErrorNoDevice, "no ROCm-capable device is detected"),
    E(hipErrorInvalidDevice, "invalid device ordinal"), E(hipErrorInvalidImage, "device kernel image is invalid"),
    E(hipErrorNoBinaryForGpu, "no kernel image is available for execution on the device"), E(hipErrorFileNotFound, "file not found"),
    E(hipErrorInvalidHandle, "invalid resource handle"), E(hipErrorNotFound, "named symbol not found"),
    E(hipErrorNotReady, "device not ready"), E(hipErrorIllegalAddress, "an illegal memory access was encountered"),
    E(hipErrorLaunchOutOfResources, "out of resources"), E(hipErrorLaunchFailure, "unspecified launch failure"),
    E(hipErrorNotSupported, "operation not supported"),
    E(hipErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    E(hipErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"), E(hipErrorUnknown, "unknown error")};
const char *hipGetErrorString(hipError_t e) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].e == e) return errors[i].text;
  return "unknown error";
}
const char *hipGetErrorName(hipError_t e) {
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].e == e) return errors[i].name;
  return "hipErrorUnknown";
}
