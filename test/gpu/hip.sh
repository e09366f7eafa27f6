#!/usr/bin/env bash
# test/gpu/hip.sh missing                 prints what is missing for the GPU tests, or fails when nothing is
# test/gpu/hip.sh folder CHIP [full]      where in build/hip they are: kernels of one type of 16 bits and of 64 and 256 or 32 and 128 dims, which turn with the sources; full: of all
# test/gpu/hip.sh run CHIP [full]         builds and runs the tests of a chip: half of the fixed ones, the other chip of its family the others, full: all; then
#                                         the grid in three orders of waves and workgroups, full: four
# test/gpu/hip.sh emulated [full]         those of NVIDIA's mma.sync and wgmma, emulated: the grid with kernels of f16, full: of both types, and gradients
# test/gpu/hip.sh examples                the examples that a GPU compiler builds
# test/gpu/hip.sh compile [full]          other chips (two of four, which turn), languages, compilers and NVIDIA: what their front ends say, or full: all, compiled with -O3; not run
set -u
cd "$(dirname "$0")/../.." || exit 1
export HIPSIM_THREADS=${HIPSIM_THREADS:-1}      # the steps of test/run.sh are what runs side by side
export HIPSIM_MAX_INST=${HIPSIM_MAX_INST:-50000000}     # of a wave: an endless loop ends within seconds
. test/common/shell.sh

missing() {
    local what
    for what in clang-19 clang-offload-bundler-19 ld.lld-19 llvm-as-19; do
        command -v $what >/dev/null || { echo "$what is not installed (make setup)"; return 0; }
    done
    for what in /usr/include/hip/hip_runtime.h /usr/include/llvm-c-19/llvm-c/Disassembler.h /usr/lib/x86_64-linux-gnu/amdgcn/bitcode/ockl.bc; do
        [ -e $what ] || { echo "$what is not installed (make setup)"; return 0; }
    done
    return 1
}
skip_if_missing() {
    local what
    what=$(missing) || return 0
    echo "skipped: the GPU tests, $what"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

# What CI draws turns with the sources, and HIP_TURN=N repeats it.
turn=${HIP_TURN:-$((0x$(cat attn.h attn_hip.c test/gpu/hip* | sha1sum | cut -c1-6)))}
# chip, full or nothing. The two chips of a family have the two types, and one the dims that the other has not.
folder() {
    local types=(f16 bf16) dims=(d64 d128) turn=$turn
    if [ "${2:-}" = full ]; then echo "$1"; return; fi
    case $1 in gfx942|gfx1201|sm90) turn=$((turn ^ 3)) ;; esac
    case $1 in sm80) types=(f16 f16) ;; esac
    echo "$1${types[turn % 2]}${dims[turn / 2 % 2]}"
}
# label, program and its arguments: adds the program's totals, its log is shown where it failed
add() {
    local label=$1 rc p f s log=build/hip/$chip/log start=$SECONDS      # chip: its folder
    shift
    env "$@" >"$log" 2>&1
    rc=$?
    read -r p f s < <(count "$log")
    [ $rc = 0 ] || [ "$f" != 0 ] || f=1
    [ $((p + f + s)) != 0 ] || f=1
    if [ "$f" != 0 ]; then grep -v '^\[ RUN\|^\[       OK' "$log" | tail -n 60; else grep '^hip grid' "$log"; fi
    echo "  $chip $label: $p passed, $f failed, $((SECONDS - start)) s"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}
hash_of() { sed -n 's/.*hash \([0-9a-f]*\)$/\1/p' "build/hip/$chip/log"; }

same_bits() { # what it means that the last hash is not $first
    if [ "$(hash_of)" = "$first" ]; then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "FAIL $chip: $1"; fi
}
run_chip() { # chip, full or nothing
    local count=370 few=36 backward=200 bits=22 seed first order proof grid type= dims= half=
    chip=$(folder "$1" "${2:-}")
    if [ "$chip" != "$1" ]; then type=${chip#"$1"} dims=d${chip##*d} type=${type%d*}; fi
    grid="build/hip/$chip/hip_grid --type $type"
    if [ "${2:-}" = full ]; then count=6000 few=600 backward=2600 bits=24 grid=build/hip/$chip/hip_grid; fi
    proof="HIPSIM_ARCH=$1 HIPSIM_POISON=1 HIP_TYPE=$type HIP_DIMS=$dims"
    case $1 in gfx90a) seed=100 ;; gfx942) seed=200 ;; gfx1100) seed=300 ;; *) seed=400 ;; esac
    [ "${2:-}" = full ] || half=$(((turn / 4 + seed / 100) % 2))
    seed=$((seed + turn * 1000))
    make -s build/hip/$chip/hip_unit build/hip/$chip/hip_grid || exit 1
    echo "  $chip: built in $SECONDS s"
    add "machine code" python3 test/gpu/hip_exec.py $1 build/hip/$chip/attn_hip.o
    add "fixed tests" $proof HIP_HALF=$half build/hip/$chip/hip_unit
    add "forward" $proof $grid --count $count --cost $bits --seed $seed
    # the same cases in another order of waves and workgroups: the same bits
    add "forward, races" $proof HIPSIM_GLOBAL_RACES=1 $grid --count $few --cost $((bits - 2)) --seed $((seed + 1)) --hash
    first=$(hash_of)
    # copies and launches in streams that run late, in an order drawn by the seed: every wait of the host counts
    add "threads, deferred" $proof HIPSIM_DEFER=1 build/hip/$chip/hip_unit two_threads
    for order in 1 2; do
        add "deferred $order" $proof HIPSIM_DEFER=$order $grid --count $few --cost $((bits - 2)) --seed $((seed + 1)) --hash
        same_bits "deferred work gives other bits"
    done
    for order in reverse random:1 ${2:+random:2}; do
        add "$order, races" $proof HIPSIM_GLOBAL_RACES=1 HIPSIM_ORDER=$order \
            $grid --count $few --cost $((bits - 2)) --seed $((seed + 1)) --hash
        same_bits "order $order gives other bits than forward"
    done
    # half of the descriptions have gradients
    add "backward, races" $proof HIPSIM_GLOBAL_RACES=1 $grid --backward --count $backward --cost $((bits - 2)) --seed $((seed + 2)) --hash
    first=$(hash_of)
    add "backward, random:1" $proof HIPSIM_ORDER=random:1 $grid --backward --count $backward --cost $((bits - 2)) --seed $((seed + 2)) --hash
    same_bits "order random:1 gives other bits backward"
}

in_two_orders() { # label, program and its arguments: the same bits
    local label=$1 order
    shift
    for order in forward random:1; do
        add "$label, $order" HIPSIM_GLOBAL_RACES=1 HIPSIM_ORDER=$order "$@" --hash
        [ $order = forward ] && first=$(hash_of) || same_bits "order $order gives other bits, $label"
    done
}
run_emulated() { # full or nothing; a product takes a thousand instructions
    local proof="HIPSIM_ARCH=gfx1100 HIPSIM_POISON=1 HIPSIM_MAX_INST=1000000000 HIP_EMULATED=1" count=300 few=30 backward=150 scalar=--scalar first type= grid tests
    chip=$(folder sm80 "${1:-}") grid=build/hip/$chip/hip_grid
    if [ "${1:-}" = full ]; then count=3000 few=600 backward=600 scalar=; else type=f16; fi
    make -s $grid build/hip/$chip/hip_unit || exit 1
    for tests in small_weights '*_scores' spoiled_beside_sink; do add "$tests" $proof HIP_TYPE=$type build/hip/$chip/hip_unit "$tests"; done
    [ -z "${1:-}" ] || add "gradients" $proof build/hip/$chip/hip_unit 'backward16_*'
    add "forward" $proof $grid --count $count --cost 18 --seed $((600 + turn * 1000)) $scalar
    add "few rows" $proof $grid --few ${type:+--type $type} --count $((few * 5)) --cost 18 --seed $((604 + turn * 1000)) $scalar
    in_two_orders "forward" $proof $grid --count $few --cost 18 --seed $((602 + turn * 1000)) $scalar
    in_two_orders "backward" $proof $grid --backward --count $backward --cost 16 --seed $((601 + turn * 1000)) $scalar
    # wgmma, with more LDS than the chip that runs it has
    chip=$(folder sm90 "${1:-}") count=120 proof="$proof HIPSIM_LDS=262144"
    [ "${1:-}" = full ] || type=${chip#sm90} type=${type%d*}
    grid="build/hip/$chip/hip_grid ${type:+--type $type} --scalar"
    [ "${1:-}" != full ] || count=3000
    make -s build/hip/$chip/hip_grid build/hip/$chip/hip_unit || exit 1
    add "forward" $proof $grid --count $count --cost 18 --seed $((600 + turn * 1000))
    ran _wgmma
    in_two_orders "forward" $proof $grid --count $few --cost 18 --seed $((602 + turn * 1000))
    in_two_orders "backward" $proof $grid --backward --count $backward --cost 17 --seed $((603 + turn * 1000))
    ran _wgmma_backward
    for tests in backward16_spoiled backward16_mean; do add "$tests" $proof HIP_TYPE=$type build/hip/$chip/hip_unit $tests; done
}
ran() { # what the names of some kernels that ran end in
    if grep -q "$1 [0-9]" "build/hip/$chip/log"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAIL $chip: no kernel $1 ran"; fi
}

compiled() { # label, command...: a build that is not run
    local label=$1
    shift
    if "$@" >build/hip/compile.log 2>&1; then passed=$((passed + 1)); echo "  $label: $how, not run"
    else failed=$((failed + 1)); echo "FAIL $label: does not compile"; tail -n 20 build/hip/compile.log; fi
}
one_after_the_other() { # what ptxas says where it does not let products of wgmma go on beside the rest
    grep -qi serializ build/hip/compile.log || return
    failed=$((failed + 1))
    echo "FAIL ptxas puts products of wgmma one after the other"
}
absent() { skipped=$((skipped + 1)); echo "  skipped: $1"; }
compile_only() { # full or nothing: a unit of all kernels takes two minutes of -O3, its front end a few seconds
    local chip nvcc how=parsed level="-Werror -fsyntax-only" side=--offload-device-only nvidia=sm_80 hipcc=test/hipsim/hipcc out=
    if [ "${1:-}" = full ]; then how=compiled level=-O3 side= nvidia="sm_80 sm_90 sm_90a" out="-o build/hip/other.o"; fi
    mkdir -p build/hip
    local chips=(gfx906 gfx1030 gfx908 gfx1151)
    [ $how = compiled ] || chips=("${chips[@]:turn % 2 * 2:2}")
    for chip in "${chips[@]}"; do
        compiled "$chip, clang 19" $hipcc -x hip $level $side --offload-arch=$chip -I. -c attn_hip.c $out      # the host's is the same for all
    done
    compiled "gfx942, C++20" $hipcc -x hip $level -std=c++20 --offload-arch=gfx942 -I. -c attn_hip.c $out
    compiled "gfx1100, -O0" $hipcc -x hip ${level/-O3/} -O0 --offload-arch=gfx1100 -I. -c attn_hip.c $out
    if command -v hipcc >/dev/null; then
        compiled "gfx90a, $(hipcc --version 2>/dev/null | sed -n 's/^HIP version: */hipcc /p')" \
            hipcc -x hip $level --offload-arch=gfx90a -I. -c attn_hip.c $out
    else absent "no hipcc on the path (Debian's package hipcc is one)"; fi
    nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
    local optimized="-O0 -Xcicc -O0 --ptx"               # minutes where it optimizes
    [ $how = parsed ] || optimized="-O3 -c"
    for chip in $nvidia; do
        if [ -n "$nvcc" ]; then
            how=compiled compiled "$chip, nvcc $($nvcc --version | sed -n 's/.*release \([0-9.]*\).*/\1/p') ${optimized%% *}" \
                $nvcc -x cu $optimized -std=c++17 -arch=$chip -I. attn_hip.c -o build/hip/other.o
            one_after_the_other
        else absent "no nvcc on the path, $chip"; fi
    done
    # the products of wgmma as ptxas sees them, which must not put them one after the other
    if [ -z "$nvcc" ]; then absent "no nvcc on the path, kernels on wgmma"
    elif [ $how = parsed ]; then
        python3 test/gpu/hip_rows.py $([ $((turn % 2)) = 0 ] && echo f16 || echo bf16) plain >build/hip/wgmma.c
        how=compiled compiled "sm_90a, plain kernels on wgmma" $nvcc -x cu -O3 -cubin -std=c++17 -arch=sm_90a -I. build/hip/wgmma.c -o build/hip/other.o
        one_after_the_other
    fi
    rm -f build/hip/other.o
    # test-cuda's programs, which CI has no GPU to run on: the names that they use
    if [ -z "$nvcc" ]; then absent "no nvcc on the path, the tests by CUDA's names"
    else how=compiled compiled "the tests by CUDA's names" make -s build/cuda/hip_wrap.o build/cuda/hip_unit.o build/cuda/hip_grid.o; fi
}

case ${1:-} in
missing) missing; exit ;;
folder) folder "$2" "${3:-}" ;;
run) skip_if_missing; run_chip "$2" "${3:-}"; finish ;;
emulated) skip_if_missing; run_emulated "${2:-}"; finish ;;
examples) skip_if_missing; test/build/examples.sh hip ;;
compile) skip_if_missing; compile_only "${2:-}"; finish ;;
*) sed -n '2,8s/^# //p' "$0"; exit 2 ;;
esac
