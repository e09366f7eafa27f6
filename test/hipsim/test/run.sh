#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds and runs all tests for all architectures. Exit status 0 when everything passes.
cd "$(dirname "$0")/.." || exit 1
B=build/test; mkdir -p $B
ARCHS="gfx90a gfx942 gfx1100 gfx1201"
OFF=; for a in $ARCHS; do OFF="$OFF --offload-arch=$a"; done
bad=0; good=0
say() { printf '%s\n' "$*"; }
compile() { # output flags source
  out=$1; shift
  if [ ! -f $B/$out ] || [ -n "$(find test hipcc -newer $B/$out -name '*.h*')" ]; then ./hipcc -w "$@" -o $B/$out || { say "FAIL build $out"; bad=$((bad + 1)); }; fi
}
./hipcc --version >/dev/null
# two at a time
compile instr_O3 -O3 -ffp-contract=off $OFF test/instr.hip &
compile instr_O1 -O1 -ffp-contract=off $OFF test/instr.hip; wait
compile instr_O0 -O0 -ffp-contract=off $OFF test/instr.hip &
compile wave_O3 -O3 -ffp-contract=off $OFF test/wave.hip; wait
compile wave_O0 -O0 -ffp-contract=off $OFF test/wave.hip &
compile matrix -O3 $OFF test/matrix.hip; wait
compile fa_f16 -O3 $OFF test/fa.hip &
compile fa_bf16 -DBF16 -O3 $OFF test/fa.hip; wait
compile fa_O1 -O1 $OFF test/fa.hip &
compile negative -g -O2 $OFF test/negative.hip; wait
compile wave64 -O3 -mwavefrontsize64 -ffp-contract=off --offload-arch=gfx1100 --offload-arch=gfx1201 test/instr.hip
compile wmma64 -DWAVE64 -O3 -mwavefrontsize64 --offload-arch=gfx1100 --offload-arch=gfx1201 test/matrix.hip
compile printf -O3 $OFF test/printf.hip
compile api -O3 $OFF test/api.hip
compile asm -O2 -ffp-contract=off $OFF test/asm.hip
for a in $ARCHS; do compile api_$a.co -O3 --offload-arch=$a --offload-device-only --no-gpu-bundle-output test/api.hip; done
compile speed -O3 $OFF test/speed.hip

run() { # label env... -- program args
  label=$1; shift
  if env "$@" >$B/out.txt 2>&1; then good=$((good + 1)); [ -n "$QUIET" ] || tail -1 $B/out.txt; else bad=$((bad + 1)); say "FAIL $label"; head -20 $B/out.txt; fi
}
for a in $ARCHS; do
  for t in instr_O3 instr_O1 "instr_O0 300" wave_O3 wave_O0 asm matrix fa_f16 fa_bf16 fa_O1 printf "api $B/api_$a.co"; do run "$t $a" HIPSIM_ARCH=$a HIPSIM_ALIGN=off $B/${t}; done
  # other schedules and poisoned registers must not change anything
  for o in reverse random:1 random:77; do run "fa_f16 $a $o" HIPSIM_ARCH=$a HIPSIM_ORDER=$o HIPSIM_POISON=1 $B/fa_f16; run "wave_O3 $a $o" HIPSIM_ARCH=$a HIPSIM_ORDER=$o HIPSIM_POISON=1 $B/wave_O3; done
  run "fa global races $a" HIPSIM_ARCH=$a HIPSIM_GLOBAL_RACES=1 $B/fa_f16
  run "fa report $a" HIPSIM_ARCH=$a HIPSIM_REPORT==$B/report_$a.json $B/fa_f16
  python3 -c "import json,sys; r=[json.loads(l) for l in open('$B/report_$a.json')]; assert len(r)==5 and all(x['matrix_flops']>0 and 0<x['matrix_busy_bound']<=1 for x in r)" 2>$B/out.txt && good=$((good + 1)) || { bad=$((bad + 1)); say "FAIL report $a"; cat $B/out.txt; }
done
for a in gfx1100 gfx1201; do run "wmma64 $a" HIPSIM_ARCH=$a $B/wmma64; done
for a in gfx1100 gfx1201; do run "wave64 $a" HIPSIM_ARCH=$a $B/wave64; done

# other chips are compiled, not run
for a in gfx906 gfx908 gfx1030 gfx1103 gfx1151 gfx1200; do run "compile for $a" QUIET=1 ./hipcc -O1 -w --offload-arch=$a -c test/printf.hip -o $B/other.o; done

# each check must fire: case, expected exit status, expected text, extra environment
expect() {
  c=$1 rc=$2 text=$3; shift 3
  env "$@" timeout 60 $B/negative $c >$B/out.txt 2>&1; got=$?
  if [ $got = "$rc" ] && grep -q -- "$text" $B/out.txt; then good=$((good + 1)); neg=$((neg + 1)); else bad=$((bad + 1)); say "FAIL negative $c ($*): status $got, want $rc and '$text'"; head -8 $B/out.txt; fi
}
neg=0
for a in $ARCHS; do
  A=HIPSIM_ARCH=$a
  expect oob_read 86 "0 bytes after the end of device memory" $A
  expect oob_read 86 "source .*negative.hip:5" $A
  expect oob_read 1 "hipErrorIllegalAddress" $A HIPSIM_ON_ERROR=return
  expect oob_before 86 "4 bytes before" $A
  expect oob_write 86 "write of 4 bytes" $A
  expect oob_x4 86 "across the end of\|not a live allocation" $A
  expect use_after_free 86 "FREED device memory" $A
  expect host_pointer 86 "not a live allocation" $A
  expect null_read 86 "at 0x0" $A
  expect memcpy_oob 86 "copy to memory of 320 bytes" $A
  expect race_missing_sync 86 "a barrier is missing" $A
  expect race_missing_sync 86 "LDS race: wave" $A HIPSIM_CHECK_LDS_INIT=0
  expect race_missing_sync 0 "end hipSuccess" $A HIPSIM_CHECK_LDS_INIT=0 HIPSIM_CHECK_RACES=0
  expect race_second_sync 86 "LDS race: wave .* by _Z16race_second_sync" $A
  expect race_second_sync 86 "LDS race: wave" $A HIPSIM_ORDER=reverse
  expect race_write_write 86 "LDS race: wave . writes byte 0 that wave 0 wrote" $A
  expect uninit_lds 86 "LDS byte 308 is read but nothing" $A
  expect lds_oob 86 "LDS write of 4 bytes at offset 256: the workgroup has 256 bytes" $A
  expect lds_ok 0 "end hipSuccess" $A
  expect big_lds 1 "hipErrorInvalidValue" $A
  expect many_threads 1 "hipErrorInvalidConfiguration" $A
  expect launch_bounds 1 "hipErrorLaunchFailure" $A
  expect div_barrier 86 "barrier divergence" $A
  expect lane_barrier 86 "barrier divergence" $A
  expect global_ww 86 "global race" $A HIPSIM_GLOBAL_RACES=1
  expect global_rw 86 "global race" $A HIPSIM_GLOBAL_RACES=1
  expect global_ww 0 "end hipSuccess" $A
  expect trap 86 "s_trap\|not supported" $A
  expect endless 86 "endless loop" $A HIPSIM_MAX_INST=3000000
  expect misaligned 86 "misaligned" $A HIPSIM_ALIGN=error
  expect misaligned 0 "warning" $A
  expect stack_oob 86 "private memory" $A
  expect unsupported 86 "instruction not supported: .*s_sethalt 1" $A
  expect poison 0 "fresh memory ffffffff" $A HIPSIM_POISON=1
done
expect wmma_norep 86 "lanes 16 and up must repeat" HIPSIM_ARCH=gfx1100
expect wmma_norep 0 "end hipSuccess" HIPSIM_ARCH=gfx1100 HIPSIM_CHECK_WMMA=0
expect wmma_exec 86 "WMMA with lanes switched off" HIPSIM_ARCH=gfx1201
say "negative tests: $neg fired as they should"
say "total: $good passed, $bad failed"
[ $bad = 0 ]
