#!/usr/bin/env bash
# test/cross/cross.sh - attn.h compiled for other machines and run in their emulators; what is missing is said and counts as
# skipped. Without an argument everything, into test/results/machines.md; `sample`: what CI runs, some seconds.
# The last line is `N passed, N failed, N skipped`.
set -u
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C
python=${PYTHON:-python3} cross=build/cross/usr
passed=0 failed=0 skipped=0 rows=()
mkdir -p build/cross
units="validate reference backends convert merge registry parallel timing memory guard edges overlap lengths extremes"

skip() { skipped=$((skipped + 1)); echo "skipped: $*"; }
count() { # a log: passed failed skipped, as test/run.sh counts
    awk '
        /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { p += $1; f += $3; s += $5 }
        /^\[       OK \]/                               { p++ }
        /^\[  FAILED  \] [0-9]+ test\(s\), listed/      { f += $4 }
        /^\[  SKIPPED \] [0-9]+ test\(s\), listed/      { s += $4 }
        /^\[  FAILED  \] GROUP SETUP/                   { f++ }
        END { print p + 0, f + 0, s + 0 }' "$1"
}
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
row() { rows+=("| $1 | $2 | $3 | $4 |"); }

# machine, way, compiler, qemu's name, triple, programs, and how many descriptions of the grid
emulated() {
    local what=$1 way=$2 cc=$3 qemu=$4 triple=$5 programs=$6 grid=$7 lib=$cross/$5 emulator=qemu-$4 p unit=0 ran=
    [ -d "$lib" ] || lib=/usr/$triple
    if ! command -v "$cc" >/dev/null || [ ! -e "$lib/lib/libc.so.6" ]; then
        skip "$what: no $cc, or no C library for it (test/cross/setup.sh)"
        row "$what" "$cc" "not compiled here" ""
        return
    fi
    # shellcheck disable=SC2086
    if ! builds "$way" $programs; then row "$what" "$cc" "does NOT compile" ""; return; fi
    if ! command -v "$emulator" >/dev/null; then
        skip "$what: no $emulator"
        row "$what" "$cc" "compiled" "not run: no $emulator"
        return
    fi
    for p in $programs; do
        case $p in
            grid) run "$way" grid "$emulator" -L "$lib" "build/$way/grid" --count "$grid" --cost 18 ;;
            *) run "$way" "$p" "$emulator" -L "$lib" "build/$way/$p" ;;
        esac
    done
    row "$what" "$cc" "run under $emulator" "$ran"
}
# bits that -Ofast, rounding modes and flushing must not change, against the same program plain
hostile() { # what, way, plain way, arguments
    local what=$1 way=$2 plain=$3 lib=$cross/aarch64-linux-gnu
    shift 3
    [ -x "build/$way/hostile" ] && [ -x "build/$plain/hostile" ] || { skip "$what: not built"; return; }
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
    [ -e "$1" ] || { skip "inner loops of NEON: $1 was not built"; return; }
    run "$(basename "$(dirname "$1")")" loops python3 test/build/disasm.py "$1"
}

if [ "${1:-}" = sample ]; then
    emulated "aarch64, NEON" neon clang aarch64 aarch64-linux-gnu grid 30
    loops build/neon/impl.o
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
    exit
fi
