// SPDX-License-Identifier: MIT
// Which instructions of an architecture does hipsim know? Feeds random encodings through the decoder and prints
// the mnemonics that never bound. usage: coverage ARCH [batches]
#include "../src/hipsim.h"
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
#include <sys/mman.h>
static u64 s = 88172645463325252ull;
static u32 rnd(void) { s ^= s << 13; s ^= s >> 7; s ^= s << 17; return s >> 16; }
enum { MAXN = 8192 };
typedef struct { char name[64]; char text[120]; int ok, bad; } Row;
typedef struct { Row r[MAXN]; int n; } Table;
static Row *row(Table *t, const char *name) {
  for (int i = 0; i < t->n; i++) if (!strcmp(t->r[i].name, name)) return &t->r[i];
  Row *r = &t->r[t->n++]; snprintf(r->name, sizeof r->name, "%s", name); return r;
}
extern size_t disasm_text(Module *m, u64 pc, char *text, size_t n);
int main(int argc, char **argv) {
  const Arch *a = arch_by_name(argc > 1 ? argv[1] : "gfx942"); int batches = argc > 2 ? atoi(argv[2]) : 200;
  if (!a) return 1;
  env_init();
  Table *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int b = 0; b < batches; b++) {
    if (fork() == 0) {                                   // the disassembler crashes on a few invalid encodings
      s ^= (u64)(b + 1) * 0x9E3779B97F4A7C15ull;
      static u32 buf[8]; Module m = {.arch = a, .text_lo = (u64)buf, .text_hi = (u64)(buf + 6), .base = (u8 *)buf};
      Inst *slots[8]; m.insts = slots;
      for (int i = 0; i < 20000; i++) {
        for (int k = 0; k < 6; k++) buf[k] = rnd();
        if (rnd() & 1) buf[0] = (buf[0] & 0x03ffffff) | (rnd() & 63) << 26;
        if (rnd() & 1) { buf[1] |= 0x100; buf[0] |= 0x100; buf[1] = (buf[1] & ~(0x1ffu << 9)) | 0x100u << 9 | (rnd() & 255) << 9; }
        if (rnd() & 1) { buf[1] = (buf[1] & ~(0x1ffu << 18)) | (0x100u | (rnd() & 255)) << 18; }
        if (rnd() & 1) { buf[1] &= 0x07ffffff; buf[0] &= ~0x8700u; }
        char err[512] = "", text[512] = ""; memset(slots, 0, sizeof slots);
        if (!disasm_text(&m, m.text_lo, text, sizeof text) || !text[0] || strstr(text, "Invalid") || strstr(text, "Warning")) continue;
        char mn[64]; sscanf(text, "%63s", mn);
        static const char *const suf[] = {"_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa"};
        for (int k = 0; k < 5; k++) { size_t x = strlen(suf[k]), y = strlen(mn); if (y > x && !strcmp(mn + y - x, suf[k])) { mn[y - x] = 0; break; } }
        // a module of elf fields is not there: symbol lookup must not run, so bind through the public entry only when decodable
        extern bool bind_probe(Module *, u64, char *, size_t);
        bool ok = bind_probe(&m, m.text_lo, err, sizeof err);
        Row *r = row(t, mn);
        if (ok) r->ok++; else { r->bad++; snprintf(r->text, sizeof r->text, "%.70s  [%.40s]", text, err); }
      }
      _exit(0);
    }
    int st; wait(&st);
  }
  int known = 0, total = 0;
  for (int i = 0; i < t->n; i++) {
    Row *r = &t->r[i];
    if (!strncmp(r->name, "image_", 6) || !strncmp(r->name, "tbuffer_", 8) || strstr(r->name, "_format_") || !strncmp(r->name, "v_interp", 8) || !strncmp(r->name, "exp", 3) || !strncmp(r->name, "v_cube", 6) || !strncmp(r->name, "lds_", 4) || !strncmp(r->name, "ds_gws", 6) || !strncmp(r->name, "s_scratch", 9) || !strncmp(r->name, "s_atomic", 8) || !strncmp(r->name, "s_buffer_atomic", 15) || !strncmp(r->name, "s_ttrace", 8)) continue;   // graphics, GWS, scalar stores
    total++;
    if (r->ok) { known++; if (argc > 3 && r->bad) printf("partly %-30s %d/%d %s\n", r->name, r->ok, r->ok + r->bad, r->text); }
    else printf("%-30s %s\n", r->name, r->text);
  }
  printf("%s: %d of %d instructions known\n", a->gfx, known, total);
  return 0;
}
