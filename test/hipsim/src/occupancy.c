// SPDX-License-Identifier: MIT
// Theoretical occupancy from register, LDS and wave slot limits.
#include "hipsim.h"
// CDNA: 512 registers per lane and SIMD (VGPR + AGPR together), granule 8, 8 waves, 4 SIMDs per CU, 64 KiB LDS, 800 SGPRs (102 used at most: no limit).
// RDNA: 1536 registers per lane and SIMD32 in wave32 (half of that in wave64), granule 24 (12), 16 waves, 4 SIMDs and 128 KiB LDS per work-group processor.
double occupancy(const Arch *a, const Kernel *k, int threads, u32 lds, int *waves_per_simd, int *blocks_per_cu, const char **limit) {
  int wave = k->wave, wpb = (threads + wave - 1) / wave, gran = a->vgpr_granule, file = a->vgprs_per_simd_lane;
  if (a->gen >= 10 && wave == 64) {
    gran /= 2;
    file /= 2;
  }
  int regs = k->vgprs > 0 ? k->vgprs : 1; // metadata: on gfx90a and later this is the unified total
  regs = (regs + gran - 1) / gran * gran;
  int by_regs = file / regs;
  const char *lim = "waves";
  int waves = a->max_waves_per_simd;
  if (by_regs < waves) {
    waves = by_regs;
    lim = "vgprs";
  }
  int blocks = waves * a->simds_per_cu / wpb;
  if (wpb > waves * a->simds_per_cu) blocks = 0;
  if (lds) {
    u32 l = (lds + a->lds_granule - 1) / a->lds_granule * a->lds_granule;
    int by_lds = a->lds_per_cu / (int)l;
    if (by_lds < blocks) {
      blocks = by_lds;
      lim = "lds";
    }
  }
  int max_blocks = a->gen >= 10 ? 32 : 32;
  if (wpb > 1 && blocks > max_blocks) {
    blocks = max_blocks;
    lim = "blocks";
  }
  int eff = blocks * wpb / a->simds_per_cu;
  if (blocks && !eff) eff = 1;
  if (eff > waves) eff = waves;
  *waves_per_simd = eff;
  *blocks_per_cu = blocks;
  *limit = lim;
  return (double)(blocks * wpb) / (a->max_waves_per_simd * a->simds_per_cu);
}
