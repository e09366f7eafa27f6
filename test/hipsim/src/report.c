// SPDX-License-Identifier: MIT
// Launch report: resources, dynamic instruction counts, LDS bank conflicts, coalescing, and an issue-cycle model.
//
// Cycle model, per wave instruction on its SIMD (throughput, no latency, no stalls):
//   CDNA (wave64 on 16 lanes): VALU 4, packed f32 4, f64 4 (8 for v_rcp_f64 and friends), transcendental 16
//   RDNA (wave32 on 32 lanes, wave64 twice that): VALU 1, VOPD pair 1, transcendental 4, f64 16 (1/16 rate; RDNA4 32)
//   SALU, branch 1 (own issue port: not added to the vector time)
//   LDS: one pass per bank-conflict cycle; the unit is shared by the SIMDs of a CU (4 on CDNA, 2 per CU on RDNA)
//   VMEM (private memory included): 64 bytes requested per cycle and CU (L1 bandwidth), at least 4 cycles (CDNA) or 1 (RDNA) of address work
//   matrix: see matrix_cycles()
// matrix_busy_bound is matrix cycles / max over the units: the best share of time the matrix pipe can be busy when
// everything else overlaps perfectly. Vector and matrix work of a SIMD share issue cycles as matrix_issue() says: on CDNA
// most MFMAs take 4 of them, on RDNA WMMA runs on the vector unit and the two add up.
#include "hipsim.h"
#include <stdlib.h>

void inst_cost(const Arch *a, Inst *in) {
  bool cdna = a->gen == 9;
  switch (in->cls) {
    case C_MATRIX: in->cycles = matrix_cycles(a, in); break;
    case C_TRANS: in->cycles = cdna ? 16 : 4; break;
    case C_F64:
      in->cycles = cdna               ? (strstr(in->text, "rcp") || strstr(in->text, "rsq") || strstr(in->text, "sqrt") ? 16 : 4)
                   : a->id == GFX1201 ? 32
                                      : 16;
      break;
    case C_VALU:
    case C_PACKED: in->cycles = cdna ? 4 : 1; break;
    case C_LDS: in->cycles = cdna ? 2 : 1; break;
    case C_VMEM:
    case C_SCRATCH: in->cycles = cdna ? 4 : 1; break;
    default: in->cycles = 1;
  }
}
// HIPSIM_ANNOTATE: the executed instructions in address order with what each cost
static void annotate(Launch *ln, Worker *wk, int nworkers) {
  static bool started;
  Module *m = ln->mod;
  FILE *f = fopen(env.annotate, started ? "a" : "w");
  if (!f) {
    perror(env.annotate);
    return;
  }
  started = true;
  fprintf(f, "kernel %s (%s) grid (%u,%u,%u) block (%u,%u,%u)\n%12s %10s %14s %10s  instruction\n", ln->k->name, ln->arch->gfx, ln->grid[0],
      ln->grid[1], ln->grid[2], ln->block[0], ln->block[1], ln->block[2], "executed", "cycles", "lds conflict", "64B segs");
  for (u64 i = 0; i < (m->text_hi - m->text_lo) / 4; i++) {
    Inst *in = m->insts[i];
    u64 n = 0;
    MemStat s = {0};
    char lds[16] = "", seg[16] = "";
    u64 at;
    if (!in) continue;
    for (int t = 0; t < nworkers; t++) {
      MemStat *q = &wk[t].mstat[in->idx];
      n += wk[t].count[in->idx];
      s.bank_cycles += q->bank_cycles;
      s.ideal_cycles += q->ideal_cycles;
      s.seg64 += q->seg64;
      s.accesses += q->accesses;
    }
    if (!n) continue;
    if (s.ideal_cycles) snprintf(lds, sizeof lds, "x%.2f", (double)s.bank_cycles / s.ideal_cycles);
    if (s.seg64) snprintf(seg, sizeof seg, "%.1f", (double)s.seg64 / s.accesses);
    const char *fn = module_function_at(m, in->pc, &at);
    if (at == in->pc) fprintf(f, "%s:\n", fn);
    fprintf(f, "%12llu %10.0f %14s %10s  %05llx %s\n", (unsigned long long)n, (s.bank_cycles ? (double)s.bank_cycles : n * in->cycles), lds,
        seg, (unsigned long long)(in->pc - at), in->text);
  }
  fclose(f);
}
void report_launch(Launch *ln, Worker *wk, int nworkers, double seconds) {
  if (env.annotate) annotate(ln, wk, nworkers);
  if (env.report < 2) return;
  Module *m = ln->mod;
  Kernel *k = ln->k;
  const Arch *a = ln->arch;
  u64 n[NCLASS] = {0}, total = 0, flops = 0;
  double cyc[NCLASS] = {0}, shared = 0;
  MemStat lds = {0}, mem = {0};
  for (u64 i = 0; i < (m->text_hi - m->text_lo) / 4; i++) {
    Inst *in = m->insts[i];
    if (!in) continue;
    for (int t = 0; t < nworkers; t++) {
      u64 c = wk[t].count[in->idx];
      MemStat *s = &wk[t].mstat[in->idx], *d = in->cls == C_LDS ? &lds : &mem;
      double scale = a->gen >= 10 && k->wave == 64 ? 2 : 1;
      n[in->cls] += c;
      total += c;
      flops += in->flops * c;
      cyc[in->cls] += (double)c * in->cycles * (in->cls == C_MATRIX ? 1 : scale);
      if (in->cls == C_MATRIX) shared += (double)c * matrix_issue(a, in);
      if (in->dual) n[C_VALU] += c; // a VOPD pair counts as two operations
      d->bank_cycles += s->bank_cycles;
      d->ideal_cycles += s->ideal_cycles;
      d->bytes += s->bytes;
      d->seg64 += s->seg64;
      d->seg128 += s->seg128;
      d->accesses += s->accesses;
      mem.private_bytes += s->private_bytes;
    }
  }
  int wps, bpc;
  const char *lim;
  double occ = occupancy(a, k, (int)(ln->block[0] * ln->block[1] * ln->block[2]), ln->lds_size, &wps, &bpc, &lim);
  double waves = (double)ln->nwg * ln->nwaves;
  int share = a->gen == 9 ? 4 : 2;
  // cycles per wave on each unit; units shared by several SIMDs cost that many times more of a SIMD's time
  double matrix = cyc[C_MATRIX] / waves, valu = (cyc[C_VALU] + cyc[C_PACKED] + cyc[C_F64]) / waves, trans = cyc[C_TRANS] / waves,
         ldsc = (double)lds.bank_cycles * share / waves;
  double vmem = (double)(mem.bytes + mem.private_bytes) / 64.0 * share / waves, issue;
  if (a->gen == 9) issue = valu + trans + shared / waves;
  else issue = valu + matrix + (trans > 0 ? trans / 4 : 0); // RDNA: a transcendental takes one issue cycle and 4 of its own unit
  double top = matrix;
  const char *bound = "matrix";
  if (issue > top) {
    top = issue;
    bound = matrix > 0 && a->gen >= 10 ? "valu+matrix" : "valu";
  }
  if (a->gen >= 10 && trans > top) {
    top = trans;
    bound = "trans";
  }
  if (ldsc > top) {
    top = ldsc;
    bound = "lds";
  }
  if (vmem > top) {
    top = vmem;
    bound = "vmem";
  }
  double busy = top > 0 ? matrix / top : 0;
  FILE *f = stderr;
  if (env.report_file) {
    static bool started;
    f = fopen(env.report_file, started ? "a" : "w");
    started = true;
    if (!f) {
      perror(env.report_file);
      return;
    }
  }
  if (env.report_file) {
    fprintf(f,
        "{\"kernel\":\"%s\",\"arch\":\"%s\",\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u],\"wave\":%u,\"vgprs\":%d,\"agprs\":%d,\"sgprs\":%d,"
        "\"lds\":%u,\"scratch\":%u,\"vgpr_spills\":%d,\"sgpr_spills\":%d,\"occupancy\":%.3f,\"waves_per_simd\":%d,\"blocks_per_cu\":%d,"
        "\"limit\":\"%s\",\"instructions\":{",
        k->name, a->gfx, ln->grid[0], ln->grid[1], ln->grid[2], ln->block[0], ln->block[1], ln->block[2], ln->wave, k->vgprs, k->agprs,
        k->sgprs, ln->lds_size, k->priv, k->vgpr_spills, k->sgpr_spills, occ, wps, bpc, lim);
    for (int c = 0; c < NCLASS; c++) fprintf(f, "%s\"%s\":%llu", c ? "," : "", class_name[c], (unsigned long long)n[c]);
    fprintf(f,
        "},\"total\":%llu,\"matrix_flops\":%llu,\"lds_bytes\":%llu,\"lds_cycles\":%llu,\"lds_ideal_cycles\":%llu,\"global_bytes\":%llu,"
        "\"global_accesses\":%llu,\"segments64\":%llu,\"segments128\":%llu,\"private_bytes\":%llu,",
        (unsigned long long)total, (unsigned long long)flops, (unsigned long long)lds.bytes, (unsigned long long)lds.bank_cycles,
        (unsigned long long)lds.ideal_cycles, (unsigned long long)mem.bytes, (unsigned long long)mem.accesses,
        (unsigned long long)mem.seg64, (unsigned long long)mem.seg128, (unsigned long long)mem.private_bytes);
    fprintf(f,
        "\"cycles_per_wave\":{\"matrix\":%.0f,\"valu\":%.0f,\"trans\":%.0f,\"lds\":%.0f,\"vmem\":%.0f},\"bound_by\":\"%s\",\"matrix_busy_"
        "bound\":%.4f,\"host_seconds\":%.4f}\n",
        matrix, valu, trans, ldsc, vmem, bound, busy, seconds);
    fclose(f);
    return;
  }
  fprintf(f,
      "hipsim report: %s (%s)\n  grid (%u,%u,%u) block (%u,%u,%u), %llu workgroups of %u wave%u\n  vgprs %d (agprs %d) sgprs %d lds %u "
      "scratch %u bytes/lane, spills: %d vgprs %d sgprs\n  occupancy %.0f%%: %d waves per SIMD, %d workgroups per %s, limited by %s\n",
      k->name, a->gfx, ln->grid[0], ln->grid[1], ln->grid[2], ln->block[0], ln->block[1], ln->block[2], (unsigned long long)ln->nwg,
      ln->nwaves, ln->wave, k->vgprs, k->agprs, k->sgprs, ln->lds_size, k->priv, k->vgpr_spills, k->sgpr_spills, occ * 100, wps, bpc,
      a->gen == 9 ? "CU" : "WGP", lim);
  fprintf(f, "  wave instructions %llu:", (unsigned long long)total);
  for (int c = 0; c < NCLASS; c++)
    if (n[c]) fprintf(f, " %s %llu", class_name[c], (unsigned long long)n[c]);
  fprintf(f, "\n  matrix flops %llu\n", (unsigned long long)flops);
  if (lds.accesses)
    fprintf(f, "  lds: %llu bytes, %llu cycles, %llu without conflicts (x%.2f)\n", (unsigned long long)lds.bytes,
        (unsigned long long)lds.bank_cycles, (unsigned long long)lds.ideal_cycles,
        (double)lds.bank_cycles / (lds.ideal_cycles ? lds.ideal_cycles : 1));
  if (mem.accesses)
    fprintf(f, "  global: %llu bytes in %llu accesses, %.1f 64-byte and %.1f 128-byte segments each; %.0f%% of the 64-byte segments used\n",
        (unsigned long long)mem.bytes, (unsigned long long)mem.accesses, (double)mem.seg64 / mem.accesses,
        (double)mem.seg128 / mem.accesses, mem.seg64 ? 100.0 * mem.bytes / (64.0 * mem.seg64) : 0);
  if (mem.private_bytes) fprintf(f, "  private memory: %llu bytes\n", (unsigned long long)mem.private_bytes);
  fprintf(f,
      "  cycles per wave: matrix %.0f valu %.0f trans %.0f lds %.0f vmem %.0f; bound by %s, matrix_busy_bound %.2f\n  host %.3f s, %.1f M "
      "wave instructions/s\n",
      matrix, valu, trans, ldsc, vmem, bound, busy, seconds, total / seconds * 1e-6);
}
