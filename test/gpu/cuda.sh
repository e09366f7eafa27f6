#!/usr/bin/env bash
# test/gpu/cuda.sh ARCH [few]     `make test-cuda`: the GPU backend on the NVIDIA GPU of this machine, built by nvcc for ARCH: the fixed tests, random
#                                 descriptions forward and backward from several processes at once, and some under compute-sanitizer; few: a third of them
# What is not there is built first: the programs may come from another machine.
set -u
cd "$(dirname "$0")/../.." || exit 1
. test/common/shell.sh
arch=${1:-sm_90a} few=${2:-}
out=build/cuda/$arch
none() { echo "skipped: the GPU tests on CUDA, $1"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
command -v nvidia-smi >/dev/null || none "no NVIDIA driver"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || none "no NVIDIA GPU"
if [ ! -x $out/hip_unit ] || [ ! -x $out/hip_grid ]; then make -s -j2 $out/hip_unit $out/hip_grid || exit 1; fi
export HIP_EMULATED=1                         # no f32 gradients on tiles (hip.h)
seeds=8 count=500 sanitized=40
[ -z "$few" ] || count=150 sanitized=12

# label, log: adds its totals, shows what failed
add() {
    local p f s
    read -r p f s < <(count "$2")
    [ $((p + f + s)) != 0 ] || f=1
    if [ "$f" != 0 ]; then grep -E -A3 'FAIL|hip_unit.c:|ERROR|^=========' "$2" | head -n 40; fi
    echo "  $arch $1: $p passed, $f failed, $s skipped"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}
start=$SECONDS
for seed in $(seq $seeds); do
    for way in "" --backward; do
        $out/hip_grid $way --count $count --cost 22 --seed $((seed + ${HIP_TURN:-1} * 100)) >$out/grid$way$seed.log 2>&1 &
    done
done
HIP_HALF=0 $out/hip_unit >$out/unit0.log 2>&1 &
HIP_HALF=1 $out/hip_unit >$out/unit1.log 2>&1 &
wait
for seed in $(seq $seeds); do add "forward $seed" $out/grid$seed.log; add "backward $seed" $out/grid--backward$seed.log; done
for half in 0 1; do add "fixed tests $half" $out/unit$half.log; done
echo "  $arch: $((SECONDS - start)) s"
for tool in memcheck racecheck; do
    if command -v compute-sanitizer >/dev/null; then
        for way in "" --backward; do
            compute-sanitizer --tool $tool --target-processes all --error-exitcode 9 $out/hip_grid $way --count $sanitized --cost 16 --seed 7 >$out/$tool$way.log 2>&1
            [ $? != 9 ] || echo "0 passed, 1 failed, 0 skipped" >>$out/$tool$way.log
            add "$tool $way" $out/$tool$way.log
        done
    else skipped=$((skipped + 1)); echo "  skipped: no compute-sanitizer"; fi
done
finish
