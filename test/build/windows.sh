#!/usr/bin/env bash
# test/build/windows.sh - attn.h and attn_bench for Windows: mingw-w64's gcc and clang compile without a warning, clang-cl compiles, and what
# was built runs under wine. What this machine lacks is skipped, and said. Needs gcc-mingw-w64-x86-64-posix, clang, lld-19, wine64.
set -u
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C WINEDEBUG=-all WINEPREFIX=$PWD/build/wine
dir=build/windows
rm -rf "$dir"
mkdir -p "$dir"
warn="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
gcc=x86_64-w64-mingw32-gcc cxx=x86_64-w64-mingw32-g++ clang="clang --target=x86_64-w64-mingw32"
. test/common/shell.sh

# ---------------------------------------------------------------------------------------------- clang-cl
# Microsoft's headers are not free: these stand for the four that attn.h includes. Compiled, not linked.
if command -v clang-cl-19 >/dev/null; then
    mkdir -p "$dir/sdk"
    printf '#include <stddef.h>\nvoid *malloc(size_t);void free(void *);char *getenv(const char *);\nvoid qsort(void *, size_t, size_t, int (*)(const void *, const void *));\n' >"$dir/sdk/stdlib.h"
    printf '#include <stddef.h>\nvoid *memcpy(void *, const void *, size_t);void *memset(void *, int, size_t);void *memchr(const void *, int, size_t);\nint strcmp(const char *, const char *);size_t strlen(const char *);\n' >"$dir/sdk/string.h"
    printf 'typedef long long time_t;typedef long clock_t;clock_t clock(void);\n#define CLOCKS_PER_SEC 1000\n' >"$dir/sdk/time.h"
    printf '#include <stdlib.h>\n' >"$dir/sdk/malloc.h"
    printf '#define ATTN_IMPLEMENTATION\n#include "attn.h"\n' >"$dir/impl.c"
    cl="clang-cl-19 --target=x86_64-pc-windows-msvc /W4 -Wextra /WX -Wno-unused-command-line-argument -imsvc $dir/sdk -I. /c $dir/impl.c /Fo$dir/cl.obj"
    check "clang-cl: every ISA compiles" "$cl /std:c11 /O1 && nm $dir/cl.obj > $dir/names && grep -q attn__backward_rows__avx512 $dir/names && grep -q attn__backward_rows__avx2 $dir/names"
    check "clang-cl: C++" "$cl /TP /std:c++17 -DATTN_ONLY_PORTABLE"
    check "clang-cl: plain C, which is left to cl" "$cl /std:c11 -DATTN_NO_EXTENSIONS && nm $dir/cl.obj > $dir/names && [ -s $dir/names ] && ! grep -E '__avx| U [A-Z]' $dir/names"
else
    skip 3 "there is no clang-cl-19 here"
fi

# ---------------------------------------------------------------------------------------------- mingw-w64
command -v $gcc >/dev/null || { skip 30 "there is no x86_64-w64-mingw32-gcc here: nothing else was compiled, nothing run"; finish; }
with_windows() { # name, compiler: a file that includes windows.h before or after
    check "$1: windows.h before, with its macros" "$2 $warn -I. -c test/build/windows.c -o $dir/before-${1%% *}.o"
    check "$1: windows.h behind" "$2 $warn -DWINDOWS_AFTER -I. -c test/build/windows.c -o $dir/after-${1%% *}.o"
}
with_windows "gcc c99" "$gcc -std=c99 -O1"
with_windows "clang c99" "$clang -std=c99 -O1 -DATTN_NO_AVX512"
if ! command -v $cxx >/dev/null; then skip 1 "there is no $cxx here"
else check "g++ c++11" "$cxx -x c++ -std=c++11 $warn -DATTN_IMPLEMENTATION -I. -fsyntax-only attn.h"
fi
check "clang c++20" "clang++ --target=x86_64-w64-mingw32 -x c++ -std=c++20 $warn -DATTN_IMPLEMENTATION -I. -fsyntax-only -Wno-pragma-once-outside-header attn.h"
check "gcc: the smoke test" "$gcc -static -std=c99 -O2 $warn -I. test/build/smoke.c -o $dir/smoke-gcc.exe"
check "clang: the smoke test" "$clang -std=c99 -O1 $warn -I. test/build/smoke.c -c -o $dir/smoke.o && $gcc -static $dir/smoke.o -o $dir/smoke-clang.exe"
check "gcc without threads" "$gcc -static -std=c99 -O1 $warn -DATTN_NO_THREADS -I. test/build/smoke.c -o $dir/smoke-single.exe"
check "gcc: no AVX, whose spills would be misaligned (gcc bug 54412)" "x86_64-w64-mingw32-nm $dir/before-gcc.o > $dir/names &&
    grep -q attn__backward_rows__portable $dir/names && ! grep __avx $dir/names"
# The spill itself: a vector of 32 bytes that lives over a call lies on a stack aligned to 16. Debian's gcc is patched to move it by
# instructions that do not mind; another one's assembler can be told to.
cat >"$dir/spill.c" <<'C'
#include <immintrin.h>
__attribute__((noinline)) static void call(void) { __asm__ volatile("" : : : "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5"); }
__attribute__((noinline)) static float over(const float *p)
{
    __m256 v = _mm256_loadu_ps(p);
    call();
    return _mm256_cvtss_f32(_mm256_add_ps(v, v));
}
__attribute__((noinline)) static float deep(const float *p, int n)
{
    volatile char room[16];
    room[n & 15] = 1;
    return n ? deep(p, n - 1) + over(p) + room[n & 15] : over(p);
}
int main(void) { float p[8] = {1}, x = over(p); for (int i = 1; i < 9; i++) x += deep(p, i); return x < 0; }
C
moves="-DATTN_UNALIGNED_MOVES -Wa,-muse-unaligned-vector-move"
aligned='vmov(aps|dqa|apd) .*(%ymm.*\(%r[sb]p|\(%r[sb]p.*%ymm)'
check "gcc: what it spills" "$gcc -static -O1 -mavx2 $dir/spill.c -o $dir/spill.exe && $gcc -static -O1 -mavx2 $moves $dir/spill.c -o $dir/spill-moves.exe &&
    objdump -d $dir/spill-moves.exe | grep -qE 'vmovups .*%ymm' && ! objdump -d $dir/spill-moves.exe | grep -E '$aligned'"
check "gcc: ATTN_UNALIGNED_MOVES" "$gcc -static -std=c99 -O2 $warn $moves -DATTN_NO_AVX512 -I. test/build/smoke.c -o $dir/smoke-moves.exe &&
    objdump -d $dir/smoke-moves.exe > $dir/code && grep -qE 'vfmadd.*%ymm' $dir/code && ! grep -E '$aligned' $dir/code"
check "gcc: the library alone" "$gcc -static -shared -std=c99 -O1 -DATTN_IMPLEMENTATION '-DATTN_API=__declspec(dllexport)' -I. -x c attn.h -o $dir/attn.dll"
check "gcc: the guest" "$gcc -static $dir/before-gcc.o -o $dir/guest-gcc.exe"
check "clang: the guest" "$clang -std=c99 -O1 -DATTN_NO_AVX512 -I. -c test/build/windows.c -o $dir/guest.o && $gcc -static $dir/guest.o -o $dir/guest-clang.exe"
check "clang: the random grid" "$clang -std=c99 -O2 -Itest/common -I. -c test/common/impl.c -o $dir/impl.o &&
    $clang -std=c99 -O1 -Itest/common -I. -c test/proof/grid.c -o $dir/grid.o && $gcc -static $dir/impl.o $dir/grid.o -o $dir/grid.exe"
check "gcc: attn_bench" "$gcc -static -std=c99 -O2 -Wall -Wextra -Werror -I. attn_bench.c attn_hip.c -o $dir/attn_bench.exe"
check "clang: attn_bench" "$clang -std=c99 -O1 -Wall -Wextra -Werror -DATTN_ONLY_PORTABLE -I. -c attn_bench.c -o $dir/bench.o"

# ---------------------------------------------------------------------------------------------- wine
command -v wine >/dev/null || { skip 20 "there is no wine here: nothing was run"; finish; }
timeout 120 wine "$dir/smoke-single.exe" >/dev/null 2>&1 # its folder is made at the first start
run() { # name, program and arguments
    check "wine: $1" "timeout 400 wine $2"
}
run "gcc" "$dir/smoke-gcc.exe"
run "gcc without threads" "$dir/smoke-single.exe"
run "clang" "$dir/smoke-clang.exe"
for isa in avx512:avx512vl avx2:avx2 portable:fpu; do
    if grep -qw "${isa#*:}" /proc/cpuinfo; then
        check "wine: clang ${isa%:*}" "ATTN_ISA=${isa%:*} wine $dir/smoke-clang.exe && ATTN_ISA=${isa%:*} wine $dir/grid.exe --count 100 --seed 31 --cost 20"
    else
        skip 1 "this machine has no ${isa%:*}"
    fi
done
if grep -qw avx2 /proc/cpuinfo; then
    if objdump -d "$dir/spill.exe" | grep -qE "$aligned"; then
        check "wine: gcc faults at its spills" "! wine $dir/spill.exe"
    else
        skip 1 "this gcc is patched: it has no spill that could fault"
    fi
    run "gcc, told to move unaligned" "$dir/spill-moves.exe"
    check "wine: gcc, unaligned moves, avx2" "ATTN_ISA=avx2 wine $dir/smoke-moves.exe"
else
    skip 3 "this machine has no AVX2"
fi
for cc in gcc clang; do
    check "wine: $cc: the guest" "timeout 400 wine $dir/guest-$cc.exe $dir/attn.dll > $dir/said && cat $dir/said && grep -q '^all right' $dir/said"
    check "wine: $cc: one processor" "timeout 100 wine $dir/guest-$cc.exe $dir/attn.dll one > $dir/said && grep -q '^all right' $dir/said"
done
check "wine: attn_bench, one case" "wine $dir/attn_bench.exe 1 64 2 32 --iterations 3 --format csv > $dir/rows && grep -c ',ok,' $dir/rows | grep -qx 2"
check "wine: attn_bench, memory of a process of its own" "wine $dir/attn_bench.exe --suite memory --quick --backend flash --format csv > $dir/rows &&
    grep -c '^memory,memory .*,ok,' $dir/rows | grep -qx 4"
finish
