// SPDX-License-Identifier: MIT
// hipsim: CPU stand-in for the HIP runtime. Shared declarations.
#ifndef HIPSIM_H
#define HIPSIM_H
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <setjmp.h>
#include <stdatomic.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;

enum { MAXLANE = 64, NVGPR = 512 /* 256 VGPR + 256 AGPR */, NSGPR = 160, MAXWAVES = 32, MAXSRC = 5, MAXLDS = 262144 };

// ---------------------------------------------------------------- architecture
enum { GFX90A, GFX942, GFX1100, GFX1201, NARCH };
typedef struct {
  const char *gfx;       // target name
  const char *board;     // marketing name
  int id;                // GFX90A...
  int gen;               // 9, 11, 12
  int wave;              // default wave size
  int cus, simds_per_cu; // compute units (WGP = 2 CU on RDNA)
  int clock_khz, mem_khz, bus_bits;
  size_t vram, l2;
  int lds_per_block, lds_per_cu;
  int vgprs_per_simd_lane; // registers per lane available on one SIMD (wave64 for CDNA, wave32 for RDNA)
  int vgpr_granule, max_waves_per_simd;
  int lds_granule;
} Arch;
extern const Arch arch_table[NARCH];
const Arch *arch_by_name(const char *gfx);

// ---------------------------------------------------------------- environment
typedef struct {
  int threads, trace, poison, global_races, report, align, on_error_continue;
  int check_mem, check_lds, check_lds_init, check_races, check_wmma, check_barrier;
  int order;
  u64 order_seed, defer_seed;
  int defer;
  u64 max_inst;
  int lds;
  const char *report_file, *annotate, *arch;
} Env;
enum { ORDER_FORWARD, ORDER_REVERSE, ORDER_RANDOM };
enum { ALIGN_OFF, ALIGN_LDS, ALIGN_WARN, ALIGN_ERROR }; // LDS: warn, LDS only (compilers merge global accesses on purpose)
extern Env env;
void env_init(void);

// ---------------------------------------------------------------- code objects
typedef struct {
  u32 offset, size;
  char kind[32];
  char name[64];
} KernArg;
typedef struct Kernel {
  char name[512];
  char symbol[520];
  u64 kd, entry; // addresses (host = device)
  u32 lds_fixed, priv, kernarg_size;
  u32 rsrc1, rsrc2, rsrc3, props, preload;
  int wave;
  int nargs;
  KernArg *args;
  int vgprs, agprs, sgprs, sgpr_spills, vgpr_spills, max_wg, dyn_stack;
  int accum_offset;
  int ordered_atomics; // -1: not known yet
  struct Module *mod;
} Kernel;
typedef struct Module {
  const Arch *arch;
  u8 *base;
  u64 size;             // loaded image
  u64 text_lo, text_hi; // executable addresses
  struct Inst **insts;  // decoded instruction per dword of text, filled on first use
  int ninst;
  Kernel *kernels;
  int nkernels;
  char *symtab, *strtab;
  int nsyms;
  u8 *elf;
  size_t elf_size; // private copy of the file
  void *disasm[2];            // LLVM disassemblers: default, wave64 on RDNA
  int wave;                   // wave size of the kernel being launched
  int text_judged;            // order-dependent atomics anywhere: 0 not looked yet, 1 no, 2 yes
} Module;
Module *module_load(const void *image, size_t size, const Arch *arch, char *err, size_t errlen);
const void *bundle_find(const void *blob, const Arch *want, const Arch **got, size_t *size);
Kernel *module_kernel(Module *m, const char *name);
void *module_symbol(Module *m, const char *name, size_t *size);
const char *module_function_at(Module *m, u64 pc, u64 *start);
u64 module_function_end(Module *m, u64 start);
const char *module_line_at(Module *m, u64 pc);

// ---------------------------------------------------------------- instructions
enum { P_NOT, P_ROW, P_CONST, P_FLOAT, P_SCALAR }; // P_FLOAT: a row, where denormal numbers are kept
enum { O_NONE, O_VGPR, O_SGPR, O_CONST, O_OFF, O_LABEL };
enum { S_VCC = 106, S_TTMP = 108, S_M0 = 124, S_NULL = 125, S_EXEC = 126, S_SCC = 128, S_FLAT = 130, S_XNACK = 132 };
typedef struct {
  u8 kind, nreg; // nreg: registers named (v[0:1] -> 2)
  u8 neg, abs, sext;
  u8 isfloat, ishex; // how a constant was written
  u16 reg;           // VGPR number (AGPRs from 256) or SGPR number
  u32 *row;    // constant broadcast to 64 lanes (32-bit types)
  u64 bits;    // constant bits for the operand's type
  i64 ival;
  double fval; // constant as written
} Operand;

typedef struct {
  u64 valid, enable;
  u8 src[MAXLANE];
  u8 bound, fi;
} Dpp;
typedef struct {
  u8 sel[3], unused;
} Sdwa; // sel: 0-3 byte, 4-5 word, 6 dword

// instruction classes for the report
enum { C_SALU, C_SMEM, C_VALU, C_TRANS, C_PACKED, C_F64, C_MATRIX, C_LDS, C_VMEM, C_SCRATCH, C_BRANCH, C_BARRIER, C_NOP, NCLASS };
extern const char *const class_name[NCLASS];

struct Wave;
struct Inst;
typedef void (*ExecFn)(struct Wave *, const struct Inst *);
typedef void (*Kern)(void *d, const void *a, const void *b, const void *c, int n);
typedef struct Inst { // what execution reads comes first: kernels are larger than a cache
  ExecFn fn;
  struct Inst *next;
  // VALU
  Kern kern;
  char types[8]; // of the sources, then [7] of the destination
  u8 plain[4];   // how a source is fetched that needs no work: P_NOT, P_ROW, P_CONST, P_FLOAT
  u8 nsrc, clamp, omod, vmask_dst;
  u8 op_sel, op_sel_hi, neg_lo, neg_hi, keep_hi, slow, sub, cls;
  u32 len, idx;
  Dpp *dpp;
  Sdwa *sdwa;
  Operand dst, src[MAXSRC], sdst;
  // scalar / memory / matrix
  const void *desc; // table entry of the family (matrix, memory)
  i32 simm;
  i32 offset, offset1;
  u8 rtn, glc, lds, offen, idxen, bytes, nreg, seg, cbsz, abid, blgp, byte_sel;
  struct Inst *target;
  struct Inst *dual;
  ExecFn dual_fn; // second half of a VOPD pair; executor of the first
  u64 pc;
  u32 warned;
  float cycles; // issue cost for the report
  u64 flops;
  char text[160];
} Inst;
Inst *inst_at(Module *m, u64 pc, char *err, size_t errlen);
int code_ordered_atomics(Kernel *k);
bool parse_operand_text(const char *s, Operand *o);
bool valu_bind(Inst *in, const char *mn, Operand *o, int n, const Arch *a, char *err, size_t errlen);
bool salu_bind(Inst *in, const char *mn, Operand *o, int n, const Arch *a, const char *tail);
bool mem_bind(Inst *in, const char *mn, Operand *o, int n, const Arch *a, const u32 *raw);
bool matrix_bind(Inst *in, const char *mn, Operand *o, int n, const Arch *a);
void operand_finish(Operand *o, char type);

// ---------------------------------------------------------------- execution
enum { W_RUN, W_BARRIER, W_DONE, W_YIELD };
typedef struct Wave {
  u32 v[NVGPR][MAXLANE] __attribute__((aligned(64)));
  u64 tmp[MAXSRC][MAXLANE] __attribute__((aligned(64)));
  u64 out[2 * MAXLANE] __attribute__((aligned(64))); // second half: carry or mask rows
  u32 s[NSGPR];
  int n;    // lanes
  u64 full; // all-lanes mask
  int id;   // wave in workgroup
  int status;
  Inst *pc; // next instruction
  u32 mode; // FP mode register, low byte: round32:2 round64:2 denorm32:2 denorm64:2
  u8 gpridx, dx10, ieee;
  u8 *scratch;
  u32 priv;
  u32 signals, waits; // barrier counts
  u64 skipped, lanes; // lanes that were off at an executed barrier; lanes the wave started with
  u64 ninst;
  struct Worker *wk;
  struct Launch *ln;
} Wave;

typedef struct {
  u64 bank_cycles, ideal_cycles, bytes, seg64, seg128, accesses, private_bytes;
} MemStat;
typedef struct Worker {
  struct Launch *ln;
  int id;
  u8 *lds;
  u32 lds_size;
  u32 *lds_w, *lds_r;   // per byte: last write / read: signals<<16 | wave<<8 | 1
  u32 *lds_wi, *lds_ri; // per dword: instruction index of it
  Wave *waves;
  int nwaves;
  u8 *scratch;
  size_t scratch_size;
  u64 *count;
  int ncount; // executions per instruction index
  MemStat *mstat;
  u32 wg[3];
  u64 wgid;
  u64 rng;
  const struct Alloc *hit; // last allocation that matched
  jmp_buf fail;
} Worker;
typedef struct Launch {
  Module *mod;
  Kernel *k;
  u32 grid[3], block[3];
  u32 lds_size, nwaves, wave;
  u8 *kernarg;
  const Arch *arch;
  _Atomic u64 next_wg;
  u64 nwg;
  atomic_int failed;
} Launch;
int launch_kernel(Kernel *k, const u32 grid[3], const u32 block[3], u32 dyn_lds, void **args, void *packed, size_t packed_size);
void kernel_fail(Wave *w, const Inst *in, int lane, const char *fmt, ...) __attribute__((noreturn, format(printf, 4, 5)));
void kernel_warn(Wave *w, const Inst *in, int lane, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
Inst *wave_goto(Wave *w, u64 pc);
double occupancy(const Arch *a, const Kernel *k, int threads, u32 lds, int *waves_per_simd, int *blocks_per_cu, const char **limit);

static inline u64 wave_exec(const Wave *w) { return w->s[S_EXEC] | (w->n == 64 ? (u64)w->s[S_EXEC + 1] << 32 : 0); }
static inline u64 s64(const Wave *w, int r) { return w->s[r] | (u64)w->s[r + 1] << 32; }
static inline void set_s(Wave *w, int r, u32 x) {
  if (r != S_NULL) w->s[r] = x;
}
static inline void set_s64(Wave *w, int r, u64 x) {
  if (r != S_NULL) {
    w->s[r] = (u32)x;
    w->s[r + 1] = x >> 32;
  }
}
static inline u64 get_mask(const Wave *w, const Operand *o) {
  if (o->kind == O_CONST) return o->ival;
  return w->n == 64 ? s64(w, o->reg) : w->s[o->reg];
}
static inline void set_mask(Wave *w, int r, u64 m) {
  if (w->n == 64) set_s64(w, r, m);
  else set_s(w, r, (u32)m);
}

// ---------------------------------------------------------------- memory
typedef struct Alloc {
  u64 lo, hi;
  u8 live, kind;
  char name[40];
} Alloc;
enum { A_DEVICE, A_HOST, A_REGISTERED, A_GLOBAL, A_CODE, A_KERNARG, A_MANAGED };
void *mem_alloc(size_t size, int kind, const char *name);
int mem_free(void *p, int kind);
void mem_add(void *p, size_t size, int kind, const char *name);
int mem_remove(void *p);
const Alloc *mem_find(u64 addr, u64 size);
const Alloc *mem_nearest(u64 addr);
size_t mem_used(void);
#define SHARED_BASE 0x0001000000000000ull
#define PRIVATE_BASE 0x0002000000000000ull

void races_begin(void);
void lds_age(Worker *k, u32 waits);
void check_range(Wave *w, const Inst *in, int lane, u64 addr, u32 bytes, int write);
void races_touch(Wave *w, const Inst *in, int lane, u64 addr, int bytes, int write, int atomic);

u64 hostcall_buffer(void);
void hostcall_service(Wave *w, const Inst *in);

// ---------------------------------------------------------------- report
void report_launch(Launch *ln, Worker *wk, int nworkers, double seconds);
void inst_cost(const Arch *a, Inst *in);
float matrix_cycles(const Arch *a, const Inst *in);
float matrix_issue(const Arch *a, const Inst *in);

// ---------------------------------------------------------------- numbers
float h2f(u16 h);
u16 f2h(float f);
u16 f2h_rtz(float f);
u16 d2h(double d);
float bf2f(u16 b);
u16 f2bf(float f);
void h2f_row(float *d, const u32 *s, int n);
void half2f_row(float *d, const u32 *s, int shift, int n); // of the half of each word that begins at bit 0 or 16
void f2h_row(u32 *d, const float *s, int n);
float fp8_to_f(u8 x, bool fnuz, bool bf8);
u8 f_to_fp8(float f, bool fnuz, bool bf8, bool sr, u32 rnd);
double fma_odd(double p, double c);
static inline float asf(u32 x) {
  float f;
  memcpy(&f, &x, 4);
  return f;
}
static inline u32 asu(float f) {
  u32 x;
  memcpy(&x, &f, 4);
  return x;
}
static inline double asd(u64 x) {
  double f;
  memcpy(&f, &x, 8);
  return f;
}
static inline u64 asq(double f) {
  u64 x;
  memcpy(&x, &f, 8);
  return x;
}

#endif
