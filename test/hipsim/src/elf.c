// SPDX-License-Identifier: MIT
// Code objects: offload bundles, ELF segments and relocations, kernel descriptors, msgpack metadata.
#include "hipsim.h"
#include <elf.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// Chip data: public data sheets and ISA documents.
// gfx90a = one graphics die of MI250X; clocks are peak engine clocks.
const Arch arch_table[NARCH] = {
    [GFX90A] = {"gfx90a", "AMD Instinct MI250X (hipsim)", GFX90A, 9, 64, 110, 4, 1700000, 1600000, 4096, 64ull << 30, 8 << 20, 65536, 65536,
        512, 8, 8, 512},
    [GFX942] = {"gfx942", "AMD Instinct MI300X (hipsim)", GFX942, 9, 64, 304, 4, 2100000, 1300000, 8192, 192ull << 30, 4 << 20, 65536,
        65536, 512, 8, 8, 512},
    [GFX1100] = {"gfx1100", "AMD Radeon RX 7900 XTX (hipsim)", GFX1100, 11, 32, 48, 4, 2500000, 1250000, 384, 24ull << 30, 6 << 20, 65536,
        131072, 1536, 24, 16, 1024},
    [GFX1201] = {"gfx1201", "AMD Radeon RX 9070 XT (hipsim)", GFX1201, 12, 32, 32, 4, 2970000, 1258000, 256, 16ull << 30, 8 << 20, 65536,
        131072, 1536, 24, 16, 1024},
};
// On RDNA, cus counts work-group processors (the HIP runtime reports WGPs as multiprocessors); a WGP has 4 SIMD32.

const Arch *arch_by_name(const char *gfx) {
  for (int i = 0; i < NARCH; i++) {
    size_t n = strlen(arch_table[i].gfx);
    if (!strncmp(gfx, arch_table[i].gfx, n) && (gfx[n] == 0 || gfx[n] == ':')) return &arch_table[i];
  }
  return NULL;
}
static const Arch *arch_by_mach(u32 flags) {
  switch (flags & 0xff) {
    case 0x3f: return &arch_table[GFX90A];
    case 0x4c: return &arch_table[GFX942];
    case 0x41: return &arch_table[GFX1100];
    case 0x4e: return &arch_table[GFX1201];
  }
  return NULL;
}

// Finds the code object for `want` (NULL: the first supported one) in an offload bundle or a bare ELF.
const void *bundle_find(const void *blob, const Arch *want, const Arch **got, size_t *size) {
  static const char magic[] = "__CLANG_OFFLOAD_BUNDLE__";
  const u8 *p = blob;
  if (!memcmp(p, "\177ELF", 4)) {
    const Elf64_Ehdr *h = blob;
    const Arch *a = h->e_machine == 224 ? arch_by_mach(h->e_flags) : NULL;
    if (!a || (want && a != want)) return NULL;
    size_t end = h->e_shoff + (size_t)h->e_shentsize * h->e_shnum;
    const Elf64_Shdr *s = (const void *)(p + h->e_shoff);
    for (int i = 0; i < h->e_shnum; i++)
      if (s[i].sh_type != SHT_NOBITS && s[i].sh_offset + s[i].sh_size > end) end = s[i].sh_offset + s[i].sh_size;
    *got = a;
    *size = end;
    return blob;
  }
  if (memcmp(p, magic, 24)) {
    if (!memcmp(p, "CCOB", 4)) fprintf(stderr, "hipsim: compressed offload bundles are not supported: build without --offload-compress\n");
    return NULL;
  }
  u64 n, o = 32;
  memcpy(&n, p + 24, 8);
  for (u64 i = 0; i < n; i++) {
    u64 off, sz, idn;
    char id[256];
    memcpy(&off, p + o, 8);
    memcpy(&sz, p + o + 8, 8);
    memcpy(&idn, p + o + 16, 8);
    snprintf(id, sizeof id, "%.*s", (int)idn, p + o + 24);
    o += 24 + idn;
    if (strncmp(id, "hip", 3)) continue;
    char *g = strstr(id, "--gfx");
    if (!g) {
      g = strstr(id, "gfx");
      if (!g) continue;
    } else g += 2;
    const Arch *a = arch_by_name(g);
    if (!a || (want && a != want) || sz < 64 || memcmp(p + off, "\177ELF", 4)) continue;
    *got = a;
    *size = sz;
    return p + off;
  }
  return NULL;
}

// ---------------------------------------------------------------- msgpack
typedef struct {
  const u8 *p, *end;
} Mp;
typedef struct {
  int type;
  u64 u;
  const char *s;
} MpVal; // type: 'i' 's' 'm' 'a' 'b' 'n'
static u64 be(Mp *m, int n) {
  u64 v = 0;
  while (n-- && m->p < m->end) v = v << 8 | *m->p++;
  return v;
}
static MpVal mp_next(Mp *m) {
  MpVal v = {'n', 0, NULL};
  if (m->p >= m->end) return v;
  u8 t = *m->p++;
  if (t < 0x80) {
    v.type = 'i';
    v.u = t;
  } else if (t < 0x90) {
    v.type = 'm';
    v.u = t & 15;
  } else if (t < 0xa0) {
    v.type = 'a';
    v.u = t & 15;
  } else if (t < 0xc0) {
    v.type = 's';
    v.u = t & 31;
  } else if (t == 0xc2 || t == 0xc3) {
    v.type = 'b';
    v.u = t & 1;
  } else if (t >= 0xcc && t <= 0xcf) {
    v.type = 'i';
    v.u = be(m, 1 << (t - 0xcc));
  } else if (t >= 0xd0 && t <= 0xd3) {
    v.type = 'i';
    v.u = be(m, 1 << (t - 0xd0));
  } else if (t >= 0xd9 && t <= 0xdb) {
    v.type = 's';
    v.u = be(m, 1 << (t - 0xd9));
  } else if (t == 0xdc || t == 0xdd) {
    v.type = 'a';
    v.u = be(m, 2 << (t - 0xdc));
  } else if (t == 0xde || t == 0xdf) {
    v.type = 'm';
    v.u = be(m, 2 << (t - 0xde));
  } else if (t >= 0xe0) {
    v.type = 'i';
    v.u = (u64)(i64)(i8)t;
  }
  if (v.type == 's') {
    v.s = (const char *)m->p;
    m->p += v.u;
  }
  return v;
}
static void mp_skip(Mp *m) {
  MpVal v = mp_next(m);
  if (v.type == 'm')
    for (u64 i = 0; i < 2 * v.u; i++) mp_skip(m);
  if (v.type == 'a')
    for (u64 i = 0; i < v.u; i++) mp_skip(m);
}
static bool is(MpVal k, const char *s) { return k.type == 's' && strlen(s) == k.u && !memcmp(k.s, s, k.u); }
static void mp_str(Mp *m, char *dst, size_t n) {
  MpVal v = mp_next(m);
  snprintf(dst, n, "%.*s", (int)v.u, v.s ? v.s : "");
}

static void parse_args(Mp *m, Kernel *k) {
  MpVal a = mp_next(m);
  k->args = calloc(a.u + 1, sizeof *k->args);
  for (u64 i = 0; i < a.u; i++) {
    KernArg *g = &k->args[k->nargs++];
    MpVal d = mp_next(m);
    for (u64 j = 0; j < d.u; j++) {
      MpVal key = mp_next(m);
      if (is(key, ".offset")) g->offset = mp_next(m).u;
      else if (is(key, ".size")) g->size = mp_next(m).u;
      else if (is(key, ".value_kind")) mp_str(m, g->kind, sizeof g->kind);
      else if (is(key, ".name")) mp_str(m, g->name, sizeof g->name);
      else mp_skip(m);
    }
  }
}
static void parse_kernel(Mp *m, Kernel *k) {
  MpVal d = mp_next(m);
  k->ordered_atomics = -1;
  for (u64 j = 0; j < d.u; j++) {
    MpVal key = mp_next(m);
    if (is(key, ".args")) parse_args(m, k);
    else if (is(key, ".name")) mp_str(m, k->name, sizeof k->name);
    else if (is(key, ".symbol")) mp_str(m, k->symbol, sizeof k->symbol);
    else if (is(key, ".vgpr_count")) k->vgprs = mp_next(m).u;
    else if (is(key, ".agpr_count")) k->agprs = mp_next(m).u;
    else if (is(key, ".sgpr_count")) k->sgprs = mp_next(m).u;
    else if (is(key, ".vgpr_spill_count")) k->vgpr_spills = mp_next(m).u;
    else if (is(key, ".sgpr_spill_count")) k->sgpr_spills = mp_next(m).u;
    else if (is(key, ".max_flat_workgroup_size")) k->max_wg = mp_next(m).u;
    else if (is(key, ".uses_dynamic_stack")) k->dyn_stack = mp_next(m).u;
    else mp_skip(m);
  }
}
static void parse_meta(Module *mod, const u8 *p, size_t n) {
  Mp m = {p, p + n};
  MpVal top = mp_next(&m);
  for (u64 i = 0; i < top.u; i++) {
    MpVal key = mp_next(&m);
    if (!is(key, "amdhsa.kernels")) {
      mp_skip(&m);
      continue;
    }
    MpVal a = mp_next(&m);
    mod->kernels = realloc(mod->kernels, (mod->nkernels + a.u + 1) * sizeof *mod->kernels); // an object file each may have a note
    memset(mod->kernels + mod->nkernels, 0, (a.u + 1) * sizeof *mod->kernels);
    for (u64 j = 0; j < a.u; j++) {
      Kernel *k = &mod->kernels[mod->nkernels++];
      parse_kernel(&m, k);
      k->mod = mod;
    }
  }
}

// ---------------------------------------------------------------- loading
static const Elf64_Sym *find_sym(Module *m, const char *name) {
  const Elf64_Sym *s = (const void *)m->symtab;
  for (int i = 0; i < m->nsyms; i++)
    if (!strcmp(m->strtab + s[i].st_name, name)) return &s[i];
  return NULL;
}
void *module_symbol(Module *m, const char *name, size_t *size) {
  const Elf64_Sym *s = find_sym(m, name);
  if (!s || s->st_shndx == 0) return NULL;
  if (size) *size = s->st_size;
  return m->base + s->st_value;
}
Kernel *module_kernel(Module *m, const char *name) {
  for (int i = 0; i < m->nkernels; i++)
    if (!strcmp(m->kernels[i].name, name)) return &m->kernels[i];
  return NULL;
}
const char *module_function_at(Module *m, u64 pc, u64 *start) {
  const Elf64_Ehdr *h = (const void *)m->elf;
  const Elf64_Shdr *sh = (const void *)(m->elf + h->e_shoff);
  const char *best = "?";
  u64 at = 0, off = pc - (u64)m->base;
  for (int i = 0; i < h->e_shnum; i++) {
    if (sh[i].sh_type != SHT_SYMTAB && sh[i].sh_type != SHT_DYNSYM) continue;
    const Elf64_Sym *s = (const void *)(m->elf + sh[i].sh_offset);
    const char *str = (const char *)m->elf + sh[sh[i].sh_link].sh_offset;
    for (u64 j = 0; j < sh[i].sh_size / sizeof *s; j++)
      if (ELF64_ST_TYPE(s[j].st_info) == STT_FUNC && s[j].st_value <= off && s[j].st_value >= at) {
        at = s[j].st_value;
        best = str + s[j].st_name;
      }
  }
  *start = at + (u64)m->base;
  return best;
}

u64 module_function_end(Module *m, u64 start) {
  const Elf64_Sym *s = (const void *)m->symtab;
  for (int i = 0; i < m->nsyms; i++)
    if (ELF64_ST_TYPE(s[i].st_info) == STT_FUNC && s[i].st_value + (u64)m->base == start && s[i].st_size) return start + s[i].st_size;
  return m->text_hi;
}

// Source line of an address through the LLVM symbolizer, if the code object has debug info and the tool exists.
const char *module_line_at(Module *m, u64 pc) {
  static char out[512];
  const Elf64_Ehdr *h = (const void *)m->elf;
  const Elf64_Shdr *sh = (const void *)(m->elf + h->e_shoff);
  const char *names = (const char *)m->elf + sh[h->e_shstrndx].sh_offset;
  bool dbg = false;
  for (int i = 0; i < h->e_shnum; i++) dbg |= !strcmp(names + sh[i].sh_name, ".debug_line");
  if (!dbg) return NULL;
  char tmp[] = "/tmp/hipsim-XXXXXX", cmd[256];
  int fd = mkstemp(tmp);
  if (fd < 0) return NULL;
  if (write(fd, m->elf, m->elf_size) != (ssize_t)m->elf_size) {
    close(fd);
    unlink(tmp);
    return NULL;
  }
  close(fd);
  snprintf(cmd, sizeof cmd, "PATH=$PATH:/usr/lib/llvm-19/bin llvm-symbolizer --output-style=GNU -f=none -e %s 0x%llx 2>/dev/null", tmp,
      (unsigned long long)(pc - (u64)m->base));
  FILE *f = popen(cmd, "r");
  out[0] = 0;
  if (f) {
    if (!fgets(out, sizeof out, f)) out[0] = 0;
    pclose(f);
  }
  unlink(tmp);
  out[strcspn(out, "\n")] = 0;
  char *c = strrchr(out, ':');
  return c && c[1] != '?' && c[1] != '0' ? out : NULL;
}

Module *module_load(const void *image, size_t size, const Arch *arch, char *err, size_t errlen) {
  Module *m = calloc(1, sizeof *m);
  m->arch = arch;
  m->elf = malloc(size);
  m->elf_size = size;
  memcpy(m->elf, image, size);
  const Elf64_Ehdr *h = (const void *)m->elf;
  const Elf64_Phdr *ph = (const void *)(m->elf + h->e_phoff);
  const Elf64_Shdr *sh = (const void *)(m->elf + h->e_shoff);
  u64 top = 0;
  for (int i = 0; i < h->e_phnum; i++)
    if (ph[i].p_type == PT_LOAD && ph[i].p_vaddr + ph[i].p_memsz > top) top = ph[i].p_vaddr + ph[i].p_memsz;
  m->size = (top + 0x3fff) & ~0xfffull; // room for instruction prefetch past the end
  m->base = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m->base == MAP_FAILED) {
    snprintf(err, errlen, "out of memory");
    return NULL;
  }
  for (int i = 0; i < h->e_phnum; i++)
    if (ph[i].p_type == PT_LOAD) memcpy(m->base + ph[i].p_vaddr, m->elf + ph[i].p_offset, ph[i].p_filesz);
  m->text_lo = ~0ull;
  const char *names = (const char *)m->elf + sh[h->e_shstrndx].sh_offset;
  for (int i = 0; i < h->e_shnum; i++) {
    if (sh[i].sh_type == SHT_DYNSYM) {
      m->symtab = (char *)m->elf + sh[i].sh_offset;
      m->nsyms = sh[i].sh_size / sizeof(Elf64_Sym);
      m->strtab = (char *)m->elf + sh[sh[i].sh_link].sh_offset;
    }
    if ((sh[i].sh_flags & SHF_ALLOC) && sh[i].sh_size) {
      u64 a = (u64)m->base + sh[i].sh_addr;
      if (sh[i].sh_flags & SHF_EXECINSTR) {
        if (a < m->text_lo) m->text_lo = a;
        if (a + sh[i].sh_size > m->text_hi) m->text_hi = a + sh[i].sh_size;
      }
      char nm[40];
      snprintf(nm, sizeof nm, "section %s", names + sh[i].sh_name);
      if (sh[i].sh_type == SHT_PROGBITS || sh[i].sh_type == SHT_NOBITS)
        mem_add((void *)a, sh[i].sh_size, sh[i].sh_flags & SHF_WRITE ? A_GLOBAL : A_CODE, nm);
    }
    if (sh[i].sh_type == SHT_NOTE) {
      const u8 *p = m->elf + sh[i].sh_offset, *end = p + sh[i].sh_size;
      while (p + 12 <= end) {
        u32 nn, dn, ty;
        memcpy(&nn, p, 4);
        memcpy(&dn, p + 4, 4);
        memcpy(&ty, p + 8, 4);
        const u8 *d = p + 12 + ((nn + 3) & ~3u);
        if (ty == 32 && !memcmp(p + 12, "AMDGPU", 6)) parse_meta(m, d, dn);
        p = d + ((dn + 3) & ~3u);
      }
    }
  }
  for (int i = 0; i < h->e_shnum; i++) {
    if (sh[i].sh_type != SHT_RELA || !(sh[i].sh_flags & SHF_ALLOC)) continue;
    const Elf64_Rela *r = (const void *)(m->elf + sh[i].sh_offset);
    for (u64 j = 0; j < sh[i].sh_size / sizeof *r; j++) {
      const Elf64_Sym *s = (const Elf64_Sym *)m->symtab + ELF64_R_SYM(r[j].r_info);
      u64 S = (u64)m->base + s->st_value, A = r[j].r_addend, P = (u64)m->base + r[j].r_offset, v;
      u32 v32;
      if (ELF64_R_SYM(r[j].r_info) && s->st_shndx == 0) {
        snprintf(err, errlen, "undefined device symbol %s", m->strtab + s->st_name);
        return NULL;
      }
      switch (ELF64_R_TYPE(r[j].r_info)) {
        case 1:
          v32 = S + A;
          memcpy((void *)P, &v32, 4);
          break;
        case 2:
          v32 = (S + A) >> 32;
          memcpy((void *)P, &v32, 4);
          break;
        case 3:
          v = S + A;
          memcpy((void *)P, &v, 8);
          break;
        case 5:
          v = S + A - P;
          memcpy((void *)P, &v, 8);
          break;
        case 13:
          v = (u64)m->base + A;
          memcpy((void *)P, &v, 8);
          break;
        default: snprintf(err, errlen, "relocation type %d not supported", (int)ELF64_R_TYPE(r[j].r_info)); return NULL;
      }
    }
  }
  if (m->text_lo < m->text_hi) m->insts = calloc((m->text_hi - m->text_lo) / 4 + 4, sizeof *m->insts);
  for (int i = 0; i < m->nkernels; i++) {
    Kernel *k = &m->kernels[i];
    const u8 *kd = module_symbol(m, k->symbol, NULL);
    if (!kd) {
      snprintf(err, errlen, "kernel descriptor %s not found", k->symbol);
      return NULL;
    }
    u32 w[16];
    memcpy(w, kd, 64);
    i64 entry;
    memcpy(&entry, kd + 16, 8);
    k->kd = (u64)kd;
    k->entry = (u64)kd + entry;
    k->lds_fixed = w[0];
    k->priv = w[1];
    k->kernarg_size = w[2];
    k->rsrc3 = w[11];
    k->rsrc1 = w[12];
    k->rsrc2 = w[13];
    k->props = w[14] & 0xffff;
    k->preload = w[14] >> 16;
    k->wave = arch->gen >= 10 && (k->props & 0x400) ? 32 : 64;
    k->accum_offset = arch->gen == 9 ? ((k->rsrc3 & 0x3f) + 1) * 4 : 0;
    if (k->dyn_stack && k->priv < 16384) k->priv = 16384;
  }
  return m;
}
