// SPDX-License-Identifier: MIT
// Instruction decoding: LLVM disassembles, this file reads the assembly text once per instruction and
// binds it to an executor. Working from text keeps one front end for all encodings and generations.
#include "hipsim.h"
#include <ctype.h>
#include <stdlib.h>
#include <stdarg.h>
#include <math.h>
#include <pthread.h>
#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>

const char *const class_name[NCLASS] = {
    "salu", "smem", "valu", "trans", "packed", "f64", "matrix", "lds", "vmem", "scratch", "branch", "barrier", "nop"};
static pthread_mutex_t decode_lock = PTHREAD_MUTEX_INITIALIZER;

// One row for a constant, wherever it is used; under decode_lock
static u32 *constant_row(u32 bits) {
  static u32 *known[1024];
  u32 **at = &known[(bits * 2654435761u) >> 22], *row = *at;
  if (row && row[0] == bits) return row;
  row = aligned_alloc(64, MAXLANE * 4);
  for (int i = 0; i < MAXLANE; i++) row[i] = bits;
  return *at = row;
}
void operand_finish(Operand *o, char t) {
  if (o->kind != O_CONST) return;
  switch (t) {
    case 'h': o->bits = o->isfloat ? f2h(o->fval) : (u16)o->ival; break;
    case 'b': o->bits = o->isfloat ? f2bf(o->fval) : (u16)o->ival; break;
    case 'p': o->bits = o->isfloat ? f2h(o->fval) : (u32)o->ival; break;
    case 'w':
    case 's': o->bits = o->isfloat ? f2h(o->fval) : (u16)o->ival; break;
    case 'd': o->bits = o->isfloat ? asq(o->fval) : o->ishex ? (u64)o->ival << 32 : (u64)o->ival; break;
    case 'q': o->bits = o->isfloat ? asq(o->fval) : (u64)o->ival; break;
    case 'l': o->bits = o->isfloat ? asq(o->fval) : o->ishex ? (u64)(i64)(i32)o->ival : (u64)o->ival; break;
    default: o->bits = o->isfloat ? asu((float)o->fval) : (u32)o->ival; break;
  }
  if (!o->row && strchr("fui", t)) o->row = constant_row((u32)o->bits);
}

// ---------------------------------------------------------------- operand text
static bool reg_range(const char *s, int *first, int *n, const char **end) {
  char *e;
  if (*s == '[') {
    *first = strtol(s + 1, &e, 10);
    *n = 1;
    if (*e == ':') {
      long last = strtol(e + 1, &e, 10);
      *n = last - *first + 1;
    }
    if (*e != ']') return false;
    *end = e + 1;
    return true;
  }
  if (!isdigit((u8)*s)) return false;
  *first = strtol(s, &e, 10);
  *n = 1;
  *end = e;
  return true;
}
static bool parse_operand(const char *s, Operand *o) {
  memset(o, 0, sizeof *o);
  while (*s == ' ') s++;
  char buf[96];
  if (!strncmp(s, "neg(", 4)) {
    o->neg = 1;
    snprintf(buf, sizeof buf, "%.*s", (int)strcspn(s + 4, ")"), s + 4);
    s = buf;
  } else if (!strncmp(s, "sext(", 5)) {
    o->sext = 1;
    snprintf(buf, sizeof buf, "%.*s", (int)strcspn(s + 5, ")"), s + 5);
    s = buf;
  }
  if (*s == '-' && !isdigit((u8)s[1])) {
    o->neg = 1;
    s++;
  }
  if (*s == '|') {
    o->abs = 1;
    char b2[96];
    snprintf(b2, sizeof b2, "%.*s", (int)strcspn(s + 1, "|"), s + 1);
    strcpy(buf, b2);
    s = buf;
  }
  const char *e;
  int r, n;
  static const struct {
    const char *nm;
    u8 reg, n;
  } named[] = {{"vcc", S_VCC, 2}, {"vcc_lo", S_VCC, 1}, {"vcc_hi", S_VCC + 1, 1}, {"exec", S_EXEC, 2}, {"exec_lo", S_EXEC, 1},
      {"exec_hi", S_EXEC + 1, 1}, {"m0", S_M0, 1}, {"null", S_NULL, 1}, {"scc", S_SCC, 1}, {"src_scc", S_SCC, 1},
      {"flat_scratch", S_FLAT, 2}, {"flat_scratch_lo", S_FLAT, 1}, {"flat_scratch_hi", S_FLAT + 1, 1}, {"xnack_mask", S_XNACK, 2},
      {"xnack_mask_lo", S_XNACK, 1}, {"xnack_mask_hi", S_XNACK + 1, 1}};
  for (size_t i = 0; i < sizeof named / sizeof *named; i++)
    if (!strcmp(s, named[i].nm)) {
      o->kind = O_SGPR;
      o->reg = named[i].reg;
      o->nreg = named[i].n;
      return true;
    }
  if (!strcmp(s, "off")) {
    o->kind = O_OFF;
    return true;
  }
  if (!strcmp(s, "src_shared_base")) {
    o->kind = O_CONST;
    o->ival = SHARED_BASE;
    return true;
  }
  if (!strcmp(s, "src_private_base")) {
    o->kind = O_CONST;
    o->ival = PRIVATE_BASE;
    return true;
  }
  if (!strcmp(s, "src_shared_limit")) {
    o->kind = O_CONST;
    o->ival = SHARED_BASE | 0xffffffff;
    return true;
  }
  if (!strcmp(s, "src_private_limit")) {
    o->kind = O_CONST;
    o->ival = PRIVATE_BASE | 0xffffffff;
    return true;
  }
  if (!strncmp(s, "ttmp", 4) && reg_range(s + 4, &r, &n, &e) && !*e) {
    o->kind = O_SGPR;
    o->reg = S_TTMP + r;
    o->nreg = n;
    return true;
  }
  if ((*s == 'v' || *s == 'a' || *s == 's') && reg_range(s + 1, &r, &n, &e)) {
    if (!strcmp(e, ".l") || !*e) {
      o->kind = *s == 's' ? O_SGPR : O_VGPR;
      o->reg = r + (*s == 'a' ? 256 : 0);
      o->nreg = n;
      return true;
    }
    return false;
  }
  if (isdigit((u8)*s) || *s == '-') {
    char *end;
    o->kind = O_CONST;
    const char *d = s + (*s == '-');
    if (d[0] == '0' && d[1] == 'x') {
      o->ival = (i64)strtoull(d, &end, 16);
      if (*s == '-') o->ival = -o->ival;
      else o->ishex = 1;
      return !*end;
    }
    if (strpbrk(s, ".e")) {
      o->fval = strtod(s, &end);
      o->isfloat = 1;
      return !*end;
    }
    o->ival = strtoll(s, &end, 10);
    return !*end;
  }
  return false;
}
static const char *find_mod(const char *tail, const char *name) { // " name:" -> value
  size_t n = strlen(name);
  for (const char *p = tail; (p = strstr(p, name)); p += n)
    if ((p == tail || p[-1] == ' ') && p[n] == ':') return p + n + 1;
  return NULL;
}
static bool has_mod(const char *tail, const char *name) {
  size_t n = strlen(name);
  for (const char *p = tail; (p = strstr(p, name)); p += n)
    if ((p == tail || p[-1] == ' ') && (p[n] == 0 || p[n] == ' ')) return true;
  return false;
}
static long num_mod(const char *tail, const char *name, long dflt) {
  const char *p = find_mod(tail, name);
  return p ? strtol(p, NULL, 0) : dflt;
}
static int list_mod(const char *tail, const char *name, int *v, int max) {
  const char *p = find_mod(tail, name);
  int n = 0;
  if (!p || *p != '[') return 0;
  for (p++; *p && *p != ']' && n < max;) {
    char *e;
    v[n++] = strtol(p, &e, 0);
    p = *e == ',' ? e + 1 : e;
    if (e == p && *e != ']') break;
  }
  return n;
}
static u8 bits_mod(const char *tail, const char *name, u8 dflt, int *count) {
  int v[8], n = list_mod(tail, name, v, 8);
  u8 r = 0;
  if (count) *count = n;
  if (!n) return dflt;
  for (int i = 0; i < n; i++) r |= (v[i] & 1) << i;
  return r;
}

// ---------------------------------------------------------------- DPP and SDWA
static bool parse_dpp(Inst *in, const char *tail, const Arch *a) {
  int v[8], n, wave = a->gen == 9 ? 64 : 64;
  Dpp d = {0};
  const char *p;
  bool any = true;
  int src[MAXLANE];
  for (int l = 0; l < MAXLANE; l++) src[l] = l;
  if ((n = list_mod(tail, "quad_perm", v, 4)) == 4)
    for (int l = 0; l < 64; l++) src[l] = (l & ~3) | v[l & 3];
  else if ((n = list_mod(tail, "dpp8", v, 8)) == 8)
    for (int l = 0; l < 64; l++) src[l] = (l & ~7) | v[l & 7];
  else if ((p = find_mod(tail, "row_shl"))) {
    int k = atoi(p);
    for (int l = 0; l < 64; l++) src[l] = (l & 15) + k < 16 ? l + k : -1;
  } else if ((p = find_mod(tail, "row_shr"))) {
    int k = atoi(p);
    for (int l = 0; l < 64; l++) src[l] = (l & 15) >= k ? l - k : -1;
  } else if ((p = find_mod(tail, "row_ror"))) {
    int k = atoi(p);
    for (int l = 0; l < 64; l++) src[l] = (l & ~15) | ((l - k) & 15);
  } else if (has_mod(tail, "row_mirror"))
    for (int l = 0; l < 64; l++) src[l] = l ^ 15;
  else if (has_mod(tail, "row_half_mirror"))
    for (int l = 0; l < 64; l++) src[l] = l ^ 7;
  else if ((p = find_mod(tail, "row_share"))) {
    int k = atoi(p);
    for (int l = 0; l < 64; l++) src[l] = (l & ~15) | k;
  } else if ((p = find_mod(tail, "row_xmask"))) {
    int k = atoi(p);
    for (int l = 0; l < 64; l++) src[l] = l ^ k;
  } else if ((p = find_mod(tail, "row_newbcast"))) {
    int k = atoi(p);
    for (int l = 0; l < 64; l++) src[l] = (l & ~15) | k;
  } else if ((p = find_mod(tail, "row_bcast"))) {
    if (atoi(p) == 15)
      for (int l = 0; l < 64; l++) src[l] = l >= 16 ? (l & ~15) - 1 : -1;
    else
      for (int l = 0; l < 64; l++) src[l] = l >= 32 ? 31 : -1;
  } else if ((p = find_mod(tail, "wave_shl")))
    for (int l = 0; l < 64; l++) src[l] = l + 1 < wave ? l + 1 : -1;
  else if ((p = find_mod(tail, "wave_shr")))
    for (int l = 0; l < 64; l++) src[l] = l - 1;
  else if ((p = find_mod(tail, "wave_rol")))
    for (int l = 0; l < 64; l++) src[l] = (l + 1) & 63;
  else if ((p = find_mod(tail, "wave_ror")))
    for (int l = 0; l < 64; l++) src[l] = (l - 1) & 63;
  else any = false;
  if (!any) return false;
  int rm = num_mod(tail, "row_mask", 15), bm = num_mod(tail, "bank_mask", 15);
  d.bound = find_mod(tail, "bound_ctrl") != NULL || list_mod(tail, "dpp8", v, 8) == 8;
  d.fi = num_mod(tail, "fi", 0);
  for (int l = 0; l < 64; l++) {
    if ((rm >> (l >> 4) & 1) && (bm >> (l >> 2 & 3) & 1)) d.enable |= 1ull << l;
    if (src[l] >= 0) {
      d.valid |= 1ull << l;
      d.src[l] = src[l];
    }
  }
  in->dpp = malloc(sizeof d);
  *in->dpp = d;
  return true;
}
static int sdwa_sel(const char *p) {
  if (!p) return 6;
  if (!strncmp(p, "BYTE_", 5)) return p[5] - '0';
  if (!strncmp(p, "WORD_", 5)) return 4 + p[5] - '0';
  return 6;
}

bool parse_operand_text(const char *s, Operand *o) { return parse_operand(s, o); }

static void nop(Wave *w, const Inst *in) {
  (void)w;
  (void)in;
}
static void dual_exec(Wave *w, const Inst *in) { // VOPD: both halves read before either writes
  const Inst *x = in, *y = in->dual;
  u32 *xd = w->v[x->dst.reg];
  u32 old[MAXLANE], res[MAXLANE];
  size_t n = w->n * 4;
  memcpy(old, xd, n);
  x->dual_fn(w, x);
  memcpy(res, xd, n);
  memcpy(xd, old, n);
  y->fn(w, y);
  memcpy(xd, res, n);
}

// no-ops: waits, hints, cache control (memory is coherent here and never late)
static bool is_nop(const char *m) {
  static const char *const exact[] = {"s_nop", "s_waitcnt", "s_delay_alu", "s_clause", "s_setprio", "s_inst_prefetch",
      "s_set_inst_prefetch_distance", "s_icache_inv", "s_dcache_inv", "s_dcache_wb", "s_dcache_inv_vol", "s_dcache_wb_vol", "s_gl1_inv",
      "s_sendmsg", "s_code_end", "s_ttracedata", "s_ttracedata_imm", "s_incperflevel", "s_decperflevel", "s_wakeup", "s_singleuse_vdst",
      "s_version", "buffer_gl0_inv", "buffer_gl1_inv", "buffer_wbl2", "buffer_inv", "buffer_invl2", "buffer_wbinvl1", "buffer_wbinvl1_vol",
      "global_inv", "global_wb", "global_wbinv", "s_prefetch_data", "s_prefetch_inst", "s_prefetch_data_pc_rel", "s_prefetch_inst_pc_rel",
      "s_buffer_prefetch_data", "s_waitcnt_depctr", "s_atc_probe", "s_atc_probe_buffer"};
  for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
    if (!strcmp(m, exact[i])) return true;
  return !strncmp(m, "s_wait_", 7) || !strncmp(m, "s_waitcnt_", 10);
}

// the text after the operands starts here: a flag or "name:value"
static bool is_modifier(const char *t) {
  static const char *const flags[] = {
      "clamp", "glc", "slc", "dlc", "sc0", "sc1", "nt", "lds", "offen", "idxen", "tfe", "gds", "row_mirror", "row_half_mirror"};
  size_t n = strcspn(t, " :");
  if (t[n] == ':') return true;
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
    if (strlen(flags[i]) == n && !strncmp(t, flags[i], n)) return true;
  return false;
}

static bool bind_text(Inst *in, char *text, const Arch *a, const u32 *raw, char *err, size_t errlen) {
  char mn[64];
  Operand o[10];
  int n = 0;
  char *p = text;
  while (isspace((u8)*p)) p++;
  size_t ml = strcspn(p, " \t");
  if (ml >= sizeof mn) return false;
  memcpy(mn, p, ml);
  mn[ml] = 0;
  p += ml;
  while (isspace((u8)*p)) p++;
  if (is_nop(mn)) {
    if (!strcmp(mn, "s_sendmsg") && !strstr(p, "DEALLOC_VGPRS") && !strstr(p, "MSG_INTERRUPT")) {
      snprintf(err, errlen, "message");
      return false;
    }
    in->fn = nop;
    in->cls = C_NOP;
    return true;
  }
  // suffixes name the encoding, which the operands already show
  static const char *const suf[] = {"_e64_dpp", "_e32", "_e64", "_dpp", "_sdwa", "_dpp8"};
  bool sdwa = ml > 5 && !strcmp(mn + ml - 5, "_sdwa"), dpp = strstr(mn, "_dpp") != NULL;
  if (mn[0] == 'v')
    for (size_t i = 0; i < sizeof suf / sizeof *suf; i++) {
      size_t k = strlen(suf[i]), m = strlen(mn);
      if (m > k && !strcmp(mn + m - k, suf[i])) {
        mn[m - k] = 0;
        break;
      }
    }
  char *tail = p + strlen(p);
  bool raw_text =
      !strncmp(mn, "s_getreg", 8) || !strncmp(mn, "s_setreg", 8) || !strncmp(mn, "s_sendmsg", 9) || !strcmp(mn, "s_set_gpr_idx_on");
  char line[160];
  snprintf(line, sizeof line, "%s", p);
  if (!raw_text) {
    char *q = line;
    while (*q && n < 10) {
      int depth = 0;
      char *b = q;
      while (*q && !((*q == ',' || *q == ' ') && depth == 0)) {
        if (*q == '[' || *q == '(') depth++;
        if (*q == ']' || *q == ')') depth--;
        q++;
      }
      char save = *q;
      *q = 0;
      bool ok = parse_operand(b, &o[n]);
      *q = save;
      if (!ok) {
        if (is_modifier(b)) {
          tail = p + (b - line);
          break;
        }
        snprintf(err, errlen, "operand '%.40s'", b);
        return false;
      }
      n++;
      if (*q == ',') {
        q++;
        while (*q == ' ') q++;
      } else {
        tail = p + (q - line);
        break;
      }
    }
  }
  // modifiers
  in->clamp = has_mod(tail, "clamp");
  in->omod = find_mod(tail, "mul") ? (num_mod(tail, "mul", 0) == 2 ? 1 : 2) : find_mod(tail, "div") ? 3 : 0;
  int nsel;
  in->op_sel = bits_mod(tail, "op_sel", 0, &nsel);
  bool mix = strstr(mn, "_mix") != NULL;
  in->op_sel_hi = bits_mod(tail, "op_sel_hi", mix ? 0 : 7, NULL);
  in->neg_lo = bits_mod(tail, "neg_lo", 0, NULL);
  in->neg_hi = bits_mod(tail, "neg_hi", 0, NULL);
  // the destination bit of op_sel is bit 3 whatever the number of sources (packed and mixed instructions have none)
  if (mn[0] == 'v' && nsel > 1 && strncmp(mn, "v_pk_", 5) && !mix && strncmp(mn, "v_dot2_f32", 10) && strncmp(mn, "v_dot4", 6) &&
      strncmp(mn, "v_dot8", 6) && strncmp(mn, "v_wmma", 6) && strncmp(mn, "v_cmp", 5) && strncmp(mn, "v_permlane", 10)) {
    u8 last = in->op_sel >> (nsel - 1) & 1;
    if (nsel < 4 && !strstr(mn, "_sr_fp8") && !strstr(mn, "_sr_bf8") && !strstr(mn, "f32_fp8") && !strstr(mn, "f32_bf8"))
      in->op_sel = (in->op_sel & ~(1 << (nsel - 1))) | last << 3;
  }
  in->offset = num_mod(tail, "offset", 0);
  in->offset1 = num_mod(tail, "offset1", 0);
  if (find_mod(tail, "offset0")) in->offset = num_mod(tail, "offset0", 0);
  in->glc = has_mod(tail, "glc") || has_mod(tail, "sc0") || strstr(tail, "TH_ATOMIC_RETURN") != NULL;
  in->lds = has_mod(tail, "lds");
  in->offen = has_mod(tail, "offen");
  in->idxen = has_mod(tail, "idxen");
  in->byte_sel = num_mod(tail, "byte_sel", 0);
  in->cbsz = num_mod(tail, "cbsz", 0);
  in->abid = num_mod(tail, "abid", 0);
  if (find_mod(tail, "blgp")) in->blgp = num_mod(tail, "blgp", 0);
  else in->blgp = bits_mod(tail, "neg", 0, NULL);
  if (has_mod(tail, "gds")) {
    snprintf(err, errlen, "GDS");
    return false;
  }
  if (sdwa) {
    in->sdwa = calloc(1, sizeof *in->sdwa);
    in->sdwa->sel[0] = sdwa_sel(find_mod(tail, "dst_sel"));
    in->sdwa->sel[1] = sdwa_sel(find_mod(tail, "src0_sel"));
    in->sdwa->sel[2] = sdwa_sel(find_mod(tail, "src1_sel"));
    const char *u = find_mod(tail, "dst_unused");
    in->sdwa->unused = !u ? 0 : strstr(u, "UNUSED_SEXT") == u ? 1 : strstr(u, "UNUSED_PRESERVE") == u ? 2 : 0;
  }
  if (dpp || find_mod(tail, "dpp8") || find_mod(tail, "quad_perm")) {
    if (!parse_dpp(in, tail, a)) {
      snprintf(err, errlen, "DPP control");
      return false;
    }
  }
  if (!strncmp(mn, "v_mfma", 6) || !strncmp(mn, "v_wmma", 6) || !strncmp(mn, "v_swmmac", 8) || !strncmp(mn, "v_smfmac", 8))
    return matrix_bind(in, mn, o, n, a);
  if (mn[0] == 'v') return valu_bind(in, mn, o, n, a, err, errlen);
  if (mn[0] == 's' && mn[1] == '_') return salu_bind(in, mn, o, n, a, raw_text ? p : tail) || mem_bind(in, mn, o, n, a, raw);
  return mem_bind(in, mn, o, n, a, raw);
}

static bool bind_dual(Inst *in, char *t, const Arch *a, const u32 *raw, char *err, size_t errlen) {
  char xt[256], yt[256], *dual = strstr(t, " :: "), *both[2] = {xt, yt};
  snprintf(xt, sizeof xt, "v_%.*s", (int)(dual - t) - 7, t + 7); // v_dual_add_f32 -> v_add_f32
  snprintf(yt, sizeof yt, "v_%s", dual + 4 + 7);
  Inst *y = aligned_alloc(64, (sizeof *in + 63) & ~63ul);
  memset(y, 0, sizeof *y);
  y->pc = in->pc;
  y->len = in->len;
  y->idx = in->idx;
  // v_dual_cndmask names VCC implicitly
  for (int i = 0; i < 2; i++)
    if (!strncmp(both[i], "v_cndmask", 9) && !strstr(both[i], "vcc")) strcat(both[i], ", vcc_lo");
  if (!bind_text(in, xt, a, raw, err, errlen) || !bind_text(y, yt, a, raw, err, errlen)) return false;
  in->dual = y;
  in->dual_fn = in->fn;
  in->fn = dual_exec;
  return true;
}

// One disassembler per wave size: on RDNA some operands have other sizes in wave64
static LLVMDisasmContextRef disassembler(Module *m) {
  bool wide = m->arch->gen >= 10 && m->wave == 64;
  if (!m->disasm[wide]) {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUDisassembler();
    m->disasm[wide] = LLVMCreateDisasmCPUFeatures(
        "amdgcn-amd-amdhsa", m->arch->gfx, wide ? "-wavefrontsize32,+wavefrontsize64" : "", NULL, 0, NULL, NULL);
  }
  return m->disasm[wide];
}
Inst *inst_at(Module *m, u64 pc, char *err, size_t errlen) {
  if (pc < m->text_lo || pc >= m->text_hi || (pc & 3)) {
    snprintf(err, errlen, "program counter 0x%llx is outside the code", (unsigned long long)pc);
    return NULL;
  }
  Inst **slot = &m->insts[(pc - m->text_lo) / 4];
  Inst *in = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
  if (in) return in;
  pthread_mutex_lock(&decode_lock);
  in = *slot;
  if (!in) {
    char text[512];
    text[0] = 0;
    u64 left = m->text_hi - pc;
    LLVMDisasmContextRef dis = disassembler(m);
    size_t len = dis ? LLVMDisasmInstruction(dis, (u8 *)pc, left > 24 ? 24 : left, pc, text, sizeof text) : 0;
    if (!len) {
      snprintf(err, errlen, "cannot disassemble 0x%08x", *(u32 *)pc);
      goto out;
    }
    in = aligned_alloc(64, (sizeof *in + 63) & ~63ul);
    memset(in, 0, sizeof *in);
    in->pc = pc;
    in->len = len;
    in->idx = m->ninst;
    char *t = text;
    while (isspace((u8)*t)) t++;
    for (char *q = t; *q; q++)
      if (*q == '\t') *q = ' ';
    snprintf(in->text, sizeof in->text, "%s", t);
    u32 raw[4] = {0};
    memcpy(raw, (void *)pc, len > 16 ? 16 : len);
    char why[128] = "";
    bool ok;
    ok = strstr(t, " :: ") ? bind_dual(in, t, m->arch, raw, why, sizeof why) : bind_text(in, t, m->arch, raw, why, sizeof why);
    if (!ok) {
      u64 at;
      const char *fn = module_function_at(m, pc, &at);
      snprintf(err, errlen, "instruction not supported: %s+0x%llx: %s%s%s%s", fn, (unsigned long long)(pc - at), in->text,
          why[0] ? " (" : "", why, why[0] ? ")" : "");
      free(in);
      in = NULL;
      goto out;
    }
    inst_cost(m->arch, in);
    m->ninst++;
    __atomic_store_n(slot, in, __ATOMIC_RELEASE);
  }
out:
  pthread_mutex_unlock(&decode_lock);
  return in;
}

// Atomics whose result depends on the order of workgroups (float sums, returned values) in [lo, hi)
static bool ordered_atomics_in(Module *m, u64 lo, u64 hi, bool *calls) {
  char t[512];
  for (u64 pc = lo; pc < hi;) {
    size_t n = LLVMDisasmInstruction(disassembler(m), (u8 *)pc, hi - pc > 24 ? 24 : hi - pc, pc, t, sizeof t);
    if (!n) {
      pc += 4;
      continue;
    }
    static const char *const marks[] = {"_f32", "_f64", "_f16", "bf16", "cmpswap", " glc", " sc0", "RETURN"};
    if (strstr(t, "_atomic_"))
      for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strstr(t, marks[i])) return true;
    if (strstr(t, "s_swappc")) *calls = true;
    pc += n;
  }
  return false;
}
// A kernel that calls functions is judged by the whole module.
int code_ordered_atomics(Kernel *k) {
  Module *m = k->mod;
  char err[256];
  bool calls = false;
  if (!inst_at(m, k->entry, err, sizeof err)) return 0;   // the launch reports the error
  pthread_mutex_lock(&decode_lock);
  int found = ordered_atomics_in(m, k->entry, module_function_end(m, k->entry), &calls);
  if (!found && calls) {
    if (!m->text_judged) m->text_judged = ordered_atomics_in(m, m->text_lo, m->text_hi, &calls) ? 2 : 1;
    found = m->text_judged == 2;
  }
  pthread_mutex_unlock(&decode_lock);
  return found;
}

// For test/coverage.c: disassembly and binding of one instruction without a loaded code object.
size_t disasm_text(Module *m, u64 pc, char *text, size_t n) {
  return LLVMDisasmInstruction(disassembler(m), (u8 *)pc, m->text_hi - pc, pc, text, n);
}
bool bind_probe(Module *m, u64 pc, char *err, size_t errlen) {
  char text[512];
  Inst in = {0};
  u32 raw[4];
  in.len = disasm_text(m, pc, text, sizeof text);
  in.pc = pc;
  memcpy(raw, (void *)pc, 16);
  for (char *q = text; *q; q++)
    if (*q == '\t') *q = ' ';
  if (strstr(text, " :: ")) {
    char *t = text;
    while (*t == ' ') t++;
    return bind_dual(&in, t, m->arch, raw, err, errlen);
  }
  return bind_text(&in, text, m->arch, raw, err, errlen);
}
