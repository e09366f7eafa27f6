// SPDX-License-Identifier: MIT
// Device memory: allocations live in one reserved address range that is never reused, so that a stale
// or out-of-range address can be named. Host and device addresses are the same.
#include "hipsim.h"
#include <stdlib.h>
#include <sys/mman.h>

static u8 *arena, *arena_next, *arena_end;
static Alloc *list;
static int nlist, cap; // sorted by address, freed ones stay
static size_t used;
enum { REDZONE = 4096 };

static int lower(u64 a) {
  int lo = 0, hi = nlist;
  while (lo < hi) {
    int m = (lo + hi) / 2;
    if (list[m].lo <= a) lo = m + 1;
    else hi = m;
  }
  return lo - 1;
}
size_t mem_used(void) { return used; }

void mem_add(void *p, size_t size, int kind, const char *name) {
  u64 a = (u64)p;
  int i = lower(a);
  // ordinary host memory can be registered again at the same place: drop dead records that overlap
  while (i >= 0 && !list[i].live && list[i].hi > a) {
    memmove(&list[i], &list[i + 1], (nlist - i - 1) * sizeof *list);
    nlist--;
    i = lower(a);
  }
  while (i + 1 < nlist && !list[i + 1].live && list[i + 1].lo < a + size) {
    memmove(&list[i + 1], &list[i + 2], (nlist - i - 2) * sizeof *list);
    nlist--;
  }
  if (nlist == cap) {
    cap = cap ? cap * 2 : 256;
    list = realloc(list, cap * sizeof *list);
  }
  memmove(&list[i + 2], &list[i + 1], (nlist - i - 1) * sizeof *list);
  list[i + 1] = (Alloc){.lo = a, .hi = a + size, .live = 1, .kind = kind};
  snprintf(list[i + 1].name, sizeof list[i + 1].name, "%s", name ? name : "");
  nlist++;
}
void *mem_alloc(size_t size, int kind, const char *name) {
  if (!arena) {
    size_t n = (size_t)1 << 42;
    while (n > ((size_t)1 << 32)) {
      arena = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (arena != MAP_FAILED) break;
      n >>= 1;
    }
    if (arena == MAP_FAILED) {
      arena = NULL;
      return NULL;
    }
    arena_next = arena + REDZONE;
    arena_end = arena + n;
  }
  size_t n = (size + REDZONE + 4095) & ~(size_t)4095;
  if (n < size || arena_next + n > arena_end) return NULL;
  u8 *p = arena_next;
  arena_next += n;
  mem_add(p, size, kind, name);
  used += size;
  if (env.poison && size) memset(p, 0xff, size);
  return p;
}
static int exact(void *p) {
  int i = lower((u64)p);
  return i >= 0 && list[i].lo == (u64)p ? i : -1;
}
int mem_remove(void *p) {
  int i = exact(p);
  if (i < 0 || !list[i].live) return -1;
  list[i].live = 0;
  return 0;
}
int mem_free(void *p, int kind) {
  int i = exact(p);
  if (i < 0 || !list[i].live || (list[i].kind != kind && !(kind == A_DEVICE && list[i].kind == A_MANAGED))) return -1;
  list[i].live = 0;
  used -= list[i].hi - list[i].lo;
  madvise(p, (list[i].hi - list[i].lo + 4095) & ~4095ull, MADV_DONTNEED);
  return 0;
}
const Alloc *mem_find(u64 addr, u64 size) {
  int i = lower(addr);
  return i >= 0 && list[i].live && addr + size <= list[i].hi ? &list[i] : NULL;
}
const Alloc *mem_nearest(u64 addr) {
  int i = lower(addr);
  u64 d0 = i >= 0 ? (addr < list[i].hi ? 0 : addr - list[i].hi) : ~0ull;
  u64 d1 = i + 1 < nlist ? list[i + 1].lo - addr : ~0ull;
  if (i < 0 && i + 1 >= nlist) return NULL;
  return d0 <= d1 ? &list[i] : &list[i + 1];
}

// ---------------------------------------------------------------- races between workgroups (HIPSIM_GLOBAL_RACES=1)
// Shadow of touched pages: for each byte the last writing and reading workgroup of this launch (workgroup + 1; bit 31: atomic).
// The highest value READ_MANY stands for several readers.
typedef struct Page {
  u64 addr;
  u32 w[4096], r[4096];
  struct Page *next;
} Page;
enum { NHASH = 1 << 14 };
static Page *hash[NHASH];
void races_begin(void) {
  for (int i = 0; i < NHASH; i++)
    for (Page *p = hash[i], *q; p; p = q) {
      q = p->next;
      free(p);
      hash[i] = NULL;
    }
}
void races_touch(Wave *w, const Inst *in, int lane, u64 addr, int bytes, int write, int atomic) {
  const u32 MANY = 0x7fffffff, ATOM = 0x80000000u;
  u32 me = (u32)(w->wk->wgid + 1);
  for (int i = 0; i < bytes; i++) {
    u64 a = addr + i, pg = a >> 12;
    Page **h = &hash[(pg * 0x9E3779B97F4A7C15ull) >> 50], *p = *h;
    while (p && p->addr != pg) p = p->next;
    if (!p) {
      p = calloc(1, sizeof *p);
      p->addr = pg;
      p->next = *h;
      *h = p;
    }
    u32 *W = &p->w[a & 4095], *R = &p->r[a & 4095];
    u32 ow = *W & 0x7fffffff, mine = me | (atomic ? ATOM : 0);
    if (*W && ow != me && !(atomic && (*W & ATOM))) {
      // reading what an atomic of another workgroup wrote is how flags work: only plain writes count against plain reads
      if (write || !(*W & ATOM))
        kernel_fail(w, in, lane, "global race: this workgroup %s byte 0x%llx that workgroup %u wrote in the same launch (%s)",
            write ? "writes" : "reads", (unsigned long long)a, ow - 1, (*W & ATOM) ? "atomically" : "not atomically");
    }
    if (write) {
      if (!atomic && *R && *R != me)
        kernel_fail(w, in, lane, "global race: this workgroup writes byte 0x%llx that %s read in the same launch", (unsigned long long)a,
            *R == MANY ? "other workgroups" : "another workgroup");
      *W = mine;
    } else if (!atomic) *R = *R && *R != me ? MANY : me;
  }
}
