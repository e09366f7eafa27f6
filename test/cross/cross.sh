#!/usr/bin/env bash
# test/cross/cross.sh - attn.h compiled for other machines and run in their emulators; what is missing is said and counts as
# skipped. Without an argument everything, into test/results/machines.md; `sample`: what CI runs, some minutes.
# The last line is `N passed, N failed, N skipped`.
set -u
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C
python=${PYTHON:-python3} cross=build/cross/usr
. test/common/shell.sh
rows=()
mkdir -p build/cross
units=$(sed -n 's/^UNITS *= //p' test/tests.mk)

run() { # way, program, its emulator and arguments: adds to the totals and to $ran
    local way=$1 program=$2 log=build/cross/$1-$2.log p f s rc
    shift 2
    "$@" >"$log" 2>&1 </dev/null
    rc=$?
    read -r p f s < <(count "$log")
    if [ $rc -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    if [ $((p + f + s)) -eq 0 ]; then echo "$way/$program counted no test"; f=1; fi
    if [ "$f" -gt 0 ]; then echo "== failed: $way/$program"; tail -n 12 "$log"; fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    ran="$ran${ran:+, }$program $p$([ "$f" -eq 0 ] || echo " ($f FAILED)")"
}
builds() { # way, programs
    local way=$1
    shift
    if make -s "${@/#/build/$way/}" PYTHON="$python" >"build/cross/$way.log" 2>&1; then passed=$((passed + 1)); return 0; fi
    echo "== failed: build of $way"
    tail -n 12 "build/cross/$way.log"
    failed=$((failed + 1))
    return 1
}
row() { rows+=("| $1 | $(basename "$2") | $3 | $4 |"); }

# machine, way, compiler, qemu's name, triple, programs, and how many descriptions of the grid
emulated() {
    local what=$1 way=$2 cc=$3 qemu=$4 triple=$5 programs=$6 grid=$7 lib=$cross/$5 emulator=qemu-$4 p unit=0 ran=
    [ -d "$lib" ] || lib=/usr/$triple
    if ! command -v "$cc" >/dev/null || [ ! -e "$lib/lib/libc.so.6" ]; then
        skip 1 "$what: no $cc, or no C library for it (test/cross/setup.sh)"
        row "$what" "$cc" "not compiled here" ""
        return
    fi
    # shellcheck disable=SC2086
    if ! builds "$way" $programs; then row "$what" "$cc" "does NOT compile" ""; return; fi
    if ! command -v "$emulator" >/dev/null; then
        skip 1 "$what: no $emulator"
        row "$what" "$cc" "compiled" "not run: no $emulator"
        return
    fi
    for p in $programs; do
        case $p in
            hostile) ;; # compared below
            grid) run "$way" grid "$emulator" -L "$lib" "build/$way/grid" --count "$grid" --cost 18 ;;
            *) UNIT_AGAIN="$emulator -L $lib build/$way/$p" run "$way" "$p" "$emulator" -L "$lib" "build/$way/$p" ;;
        esac
    done
    row "$what" "$cc" "run under $emulator" "$ran"
}
# bits that -Ofast, rounding modes and flushing must not change, against the same program plain
hostile() { # what, way, plain way, arguments
    local what=$1 way=$2 plain=$3 lib=$cross/aarch64-linux-gnu
    shift 3
    [ -x "build/$way/hostile" ] && [ -x "build/$plain/hostile" ] || { skip 1 "$what: not built"; return; }
    qemu-aarch64 -L "$lib" "build/$plain/hostile" --count 12 >build/cross/plain.bits 2>&1
    if qemu-aarch64 -L "$lib" "build/$way/hostile" --count 12 "$@" >build/cross/other.bits 2>&1 && cmp -s build/cross/plain.bits build/cross/other.bits; then
        passed=$((passed + 1))
        rows+=("| aarch64, NEON | | run under qemu-aarch64 | $what: the same bits |")
    else
        failed=$((failed + 1))
        echo "== failed: $what changes bits"
        diff build/cross/plain.bits build/cross/other.bits | head -n 4
        rows+=("| aarch64, NEON | | run under qemu-aarch64 | $what: OTHER bits |")
    fi
}
loops() { # an object's inner loops
    local ran=
    [ -e "$1" ] || { skip 1 "inner loops of NEON: $1 was not built"; return; }
    run "$(basename "$(dirname "$1")")" loops python3 test/build/disasm.py "$1"
}

if [ "${1:-}" = sample ]; then
    # 70 to 90 seconds of the emulator's each: which of them turns with the source
    slow=(backends "parallel planes" "timing lengths tolerance" "hidden thin" "edges extremes")
    turn=${CROSS_TURN:-$((0x$(sha1sum attn.h | cut -c1-6) % ${#slow[@]}))}
    for n in "${!slow[@]}"; do
        [ "$n" = "$turn" ] && continue
        skip "$(wc -w <<<"${slow[n]}")" "unit tests on aarch64, by CROSS_TURN=$n or make test-cross: ${slow[n]}"
        for p in ${slow[n]}; do units=${units/ $p/}; done
    done
    [ -e $cross/aarch64-linux-gnu/include/cmocka.h ] || { skip 1 "unit tests on aarch64: no cmocka for it"; units=; }
    emulated "aarch64, NEON" neon clang aarch64 aarch64-linux-gnu "grid $units" 30
    loops build/neon/impl.o
    if [ -e /usr/include/wasm32-wasi/stdlib.h ]; then builds wasmobject impl.o hip.o grid.o
    else skip 1 "wasm32-wasi: no wasi-libc to compile with"; fi
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
    exit
fi

wasm() { # what, way, options
    local what=$1 way=$2 flags=$3 isa=$4 ran= simd portable
    if ! "$python" -c 'import ziglang, wasmtime' 2>/dev/null; then
        skip 1 "$what: $python has no ziglang or no wasmtime (PyPI)"
        row "$what" "clang of ziglang" "not compiled here" ""
        return
    fi
    if ! builds "$way" grid; then row "$what" "clang of ziglang" "does NOT compile" ""; return; fi
    run "$way" grid env ATTN_ISA="$isa" "$python" test/cross/wasm.py "build/$way/grid" --count 300
    # shellcheck disable=SC2086
    if [ "$isa" != simd128 ]; then :
    elif ! "$python" -m ziglang cc -target wasm32-wasi -O2 $flags -std=c99 -I. test/cross/speed.c -o build/wasm/speed 2>build/cross/speed.log; then
        failed=$((failed + 1))
        echo "== failed: build of test/cross/speed.c"
        tail -n 4 build/cross/speed.log
    else
        simd=$(ATTN_ISA=simd128 "$python" test/cross/wasm.py build/wasm/speed)
        portable=$(ATTN_ISA=portable "$python" test/cross/wasm.py build/wasm/speed)
        ran="$ran; forward of d 64 beside each other in GFLOP/s: $simd, $portable"
    fi
    row "$what" "clang of ziglang" "run under wasmtime" "$ran"
}
machines() { # those asked for, or all
    local which=" $* "
    asked() { [ "$which" = "  " ] || [[ $which == *" $1 "* ]]; }
    asked neongcc && emulated "aarch64, NEON" neongcc $cross/bin/aarch64-linux-gnu-gcc aarch64 aarch64-linux-gnu "grid hostile $units" 300
    asked neongcc && loops build/neongcc/impl.o
    asked neon && emulated "aarch64, NEON" neon clang aarch64 aarch64-linux-gnu "grid hostile" 300
    asked neon && loops build/neon/impl.o
    if asked hostile; then
        make -s build/neonfast/hostile >build/cross/fast.log 2>&1
        hostile "gcc -Ofast" neonfast neongcc
        for state in --flush "--round up" "--round down" "--round zero"; do
            # shellcheck disable=SC2086
            hostile "the caller's $state" neongcc neongcc $state
        done
    fi
    asked armhf && emulated "armhf" armhf $cross/bin/arm-linux-gnueabihf-gcc arm arm-linux-gnueabihf "grid reference backends edges" 100
    asked s390x && emulated "s390x, big endian" s390x $cross/bin/s390x-linux-gnu-gcc s390x s390x-linux-gnu "grid reference convert edges" 100
    asked ppc64le && emulated "ppc64le" ppc64le $cross/bin/powerpc64le-linux-gnu-gcc ppc64le powerpc64le-linux-gnu "grid reference edges" 100
    asked riscv64 && emulated "riscv64" riscv64 $cross/bin/riscv64-linux-gnu-gcc riscv64 riscv64-linux-gnu grid 100
    asked wasm && wasm "wasm32-wasi, SIMD" wasm -msimd128 simd128
    asked wasmplain && wasm "wasm32-wasi" wasmplain "" portable
}
machines "$@"
{
    echo "# Other machines"
    echo
    echo "By \`make test-cross\`; numbers are tests passed. Nothing here ran on the metal."
    echo
    echo "| machine | compiler | how far | what |"
    echo "|---|---|---|---|"
    printf '%s\n' "${rows[@]}"
    echo
    python3 test/cross/mca.py build/neongcc/impl.o
} | tee build/cross/machines.md
[ $# -gt 0 ] || cp build/cross/machines.md test/results/machines.md
finish
