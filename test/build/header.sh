#!/usr/bin/env bash
# test/build/header.sh gcc|clang - every way in which attn.h must compile with one compiler: standards, warnings, sizes, 32 bits, two
# translation units, macros that switch things off, and the names it leaves behind.
set -u
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C
case ${1:-} in
    gcc) cc=gcc cxx=g++ ;;
    clang) cc=clang cxx=clang++ ;;
    *) echo "usage: test/build/header.sh gcc|clang" >&2; exit 2 ;;
esac
dir=build/header/$cc
mkdir -p "$dir"
warn="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
. test/common/shell.sh
label="$cc: "

lang() { # standard: the compiler and its language flags
    case $1 in
        c++*) echo "$cxx -std=$1 -x c++" ;;
        *) echo "$cc -std=$1" ;;
    esac
}

# 1. Standards, without one warning: the declarations alone, and the implementation.
echo '#include "attn.h"' > "$dir/declarations.c"
printf '#define ATTN_IMPLEMENTATION\n#include "attn.h"\n' > "$dir/implementation.c"
printf '#define ATTN_STATIC\n#define ATTN_IMPLEMENTATION\n#include "attn.h"\n' > "$dir/static.c"
for std in c99 c11 c17 c++11 c++17 c++20; do
    for unit in declarations implementation static; do
        # what c11 and c++17 have of their own the declarations alone could show
        case $unit:$std in declarations:*|static:c99|static:c++11|implementation:c99|implementation:c17|implementation:c++11|implementation:c++20) ;; *) continue ;; esac
        check "$std $unit" "$(lang $std) $warn -I. -fsyntax-only -pthread $dir/$unit.c"
    done
done
check "c++11: no macro has a cast of C" \
    "printf '#include \"attn.h\"\nuint64_t abi = ATTN_ABI, dense = ATTN_BROADCAST ? ATTN_PLANE : 0;\n' | $cxx -std=c++11 $warn -Wold-style-cast -I. -x c++ -fsyntax-only -"
# what windows.h defines, behind the headers of this system
printf '%s\n' '#include <stdint.h>' '#include <stdio.h>' '#include <stdlib.h>' '#include <string.h>' '#include <time.h>' '#include <signal.h>' \
    '#include <pthread.h>' '#include <sched.h>' '#include <unistd.h>' '#ifdef __x86_64__' '#include <immintrin.h>' '#include <cpuid.h>' '#endif' \
    '#define near' '#define far' '#define small char' '#define hyper long' '#define interface struct' '#define IN' '#define OUT' \
    '#define ERROR 0' '#define min(a, b) ((a) < (b) ? (a) : (b))' '#define max(a, b) ((a) > (b) ? (a) : (b))' \
    '#define ATTN_IMPLEMENTATION' '#include "attn.h"' > "$dir/macros.c"
check "behind the macros of windows.h" "$cc -std=gnu99 -I. -fsyntax-only -pthread $dir/macros.c"
grep -v ATTN_IMPLEMENTATION "$dir/macros.c" | sed 's/"attn.h"/"attn_bench.c"/' >"$dir/bench.c"
check "attn_bench behind them" "$cc -std=gnu99 -I. -fsyntax-only -pthread $dir/bench.c"
if mpi=$(pkg-config --variable=includedir ompi-c 2>/dev/null) && [ -n "$mpi" ]; then
    for std in c99 c++11; do
        check "$std ATTN_MPI" "$(lang $std) $warn -I. -isystem $mpi -DATTN_MPI -DATTN_NO_AVX2 -DATTN_NO_AVX512 -fsyntax-only -pthread $dir/implementation.c"
    done
else
    skip 2 "Open MPI is not installed (make setup)"
fi

# 2. Built and run. No -lm: the header does not ask for it. What is about the language is not optimized; what is about the optimizer
# or the linker leaves out the other ISAs, most of what there is to compile.
quick="-O0 -DATTN_NO_OPTIMIZE" narrow="-DATTN_NO_AVX2 -DATTN_NO_AVX512"
linked="$quick $narrow"
run() { # name, compiler and flags
    local exe
    exe=$dir/smoke-$(echo "$1" | tr -c 'a-zA-Z0-9\n' '-')
    check "$1 builds and runs" "$2 $warn -I. -pthread test/build/smoke.c -o $exe && $exe"
}
[ "$cc" = gcc ] || run "c99 -O0"   "$cc -std=c99 -O0 $narrow"   # gcc's is build/O0 (test/tests.mk)
run "c17 -Os"                       "$cc -std=c17 -Os $narrow"
run "c99 -O1 -flto"                 "$cc -std=c99 -O1 -flto $narrow"
run "c++11 without exceptions"      "$cxx -std=c++11 -x c++ $quick -fno-exceptions -fno-rtti"
run "c++20 -O1 without exceptions"  "$cxx -std=c++20 -x c++ -O1 -fno-exceptions -fno-rtti $narrow"
run "c99 ATTN_STATIC"               "$cc -std=c99 $quick -DATTN_STATIC"
if echo 'int main(void){return 0;}' | $cc -m32 -x c - -o "$dir/m32" 2>/dev/null && "$dir/m32"; then
    run "c99 -m32 -O1"              "$cc -std=c99 -m32 -O1 $narrow"
    run "c++17 -m32"                "$cxx -std=c++17 -x c++ -m32 $quick"
else
    skip 2 "$cc has no 32-bit libraries here"
fi
if echo 'int main(void){return 0;}' | $cc -fopenmp -x c - -o "$dir/omp" 2>/dev/null; then
    run "c11 -fopenmp"              "$cc -std=c11 $quick -fopenmp"
else
    skip 1 "$cc has no OpenMP here"
fi
mkdir -p "$dir/sub"
sed 's/"attn.h"/"sub\/attn.h"/' test/build/smoke.c > "$dir/by-path.c"
sed 's/"attn.h"/"sub\/other.h"/' test/build/smoke.c > "$dir/renamed.c"
check "included by a path" \
    "cp attn.h $dir/sub/attn.h && $cc -std=c99 $linked $dir/by-path.c -o $dir/by-path -pthread && $dir/by-path"
check "silent where it is preprocessed first" \
    "$cc -std=c99 -I. -E $dir/implementation.c -o $dir/once.i && $cc -std=c99 -Wall -Wextra -Werror -fsyntax-only $dir/once.i"
check "renamed, with ATTN_HEADER" \
    "mv $dir/sub/attn.h $dir/sub/other.h && $cc -std=c99 $linked '-DATTN_HEADER=\"other.h\"' $dir/renamed.c -o $dir/renamed -pthread &&
     $dir/renamed"
check "renamed, beside another version" \
    "sed 's/^#define ATTN_VERSION .*/#define ATTN_VERSION 99/;s/ATTN_VERSION != [0-9]*/ATTN_VERSION != 99/' attn.h >$dir/sub/attn.h &&
     ! $cc -std=c99 $quick -fsyntax-only -I$dir/sub $dir/renamed.c 2>$dir/other.log && grep -q 'another version of itself' $dir/other.log"
check "ATTN_MALLOC without ATTN_FREE is refused" \
    "! $cc -std=c99 $quick -I. '-DATTN_MALLOC(n)=malloc(n)' -fsyntax-only $dir/implementation.c 2>$dir/other.log && grep -q 'or neither is' $dir/other.log"
check "two translation units, one library" \
    "$cc -std=c99 $linked -I. -c -DSMOKE_SECOND test/build/smoke.c -o $dir/a.o && $cc -std=c99 -I. -c test/build/second.c -o $dir/b.o &&
     $cc -pthread $dir/a.o $dir/b.o -o $dir/two && $dir/two"
check "two translation units, ATTN_STATIC in each" \
    "$cc -std=c99 $linked -I. -c -DATTN_STATIC -DSMOKE_SECOND test/build/smoke.c -o $dir/a.o &&
     $cc -std=c99 $linked -I. -c -DATTN_STATIC test/build/second.c -o $dir/b.o &&
     $cc -pthread $dir/a.o $dir/b.o -o $dir/two-static && $dir/two-static"
check "library in C, program in C++" \
    "$cc -std=c99 $linked -I. -c $dir/implementation.c -o $dir/a.o && $cxx -std=c++17 -x c++ -DSMOKE_SECOND -DSMOKE_LINK -I. -c test/build/smoke.c \
     -o $dir/b.o && $cxx -std=c++17 -x c++ -I. -c test/build/second.c -o $dir/c.o &&
     $cxx -pthread $dir/a.o $dir/b.o $dir/c.o -o $dir/mixed && $dir/mixed"

# 3. Names. Each check that something is absent is paired with one that the full build has it.
full=$dir/full.o
check "compiles with every ISA" "$cc -std=c99 $quick -I. -c $dir/implementation.c -o $full"
check "every name that is defined for others begins with attn_" \
    "nm -g --defined-only $full | awk '{ print \$3 }' > $dir/names; [ -s $dir/names ] && ! grep -vE '^attn_[a-z]' $dir/names"
# cpuid.h's own are not inlined without an optimizer
check "every function begins with attn_" \
    "nm --defined-only $full | awk '\$2 == \"t\" || \$2 == \"T\" { print \$3 }' > $dir/names; [ -s $dir/names ] &&
     ! grep -vE '^(attn_|__get_cpuid)' $dir/names"
check "ATTN_STATIC defines nothing for others" \
    "$cc -std=c99 $linked -I. -c -DATTN_STATIC $dir/implementation.c -o $dir/s.o && [ -z \"\$(nm -g --defined-only $dir/s.o)\" ]"

without() { # macro, names that must go (an expression for nm's lines), flags
    local object=$dir/$1.o
    check "$1 leaves nothing of $2" \
        "nm $full | grep -qE '$2' && $cc -std=c99 $3 $warn -I. -c -D$1 $dir/implementation.c -o $object && nm $object >$dir/names &&
         [ -s $dir/names ] && ! grep -E '$2' $dir/names"
    check "$1 builds and runs" "$cc -std=c99 -O0 -D$1 -DSMOKE_LINK -I. -c test/build/smoke.c -o $dir/b.o && $cc $object $dir/b.o $([ $1 = ATTN_NO_THREADS ] || echo -pthread) \
        -o $dir/smoke-$1 && $dir/smoke-$1"
}
[ "$cc" = gcc ] || finish        # what a macro takes away follows from no compiler
without ATTN_NO_THREADS  ' U pthread_'   "$linked"
without ATTN_NO_AVX512   '__avx512'      "$quick"
without ATTN_NO_AVX2     '__avx2'        "$quick"
without ATTN_NO_STANDARD 'standard'      "$quick"
without ATTN_NO_ADAPTIVE ' attn__(adaptive|int16)' "$quick"
without ATTN_NO_TIMING   ' (attn_time|attn_seconds|attn_peak_gflops|attn_bandwidth_gbytes)' "$linked"

finish
