#!/usr/bin/env bash
# test/build/embedded.sh [full] - attn.h where there is little: each macro that leaves a part out leaves nothing behind (nm) and says so
# (parts.c). `full` adds clang, ISAs, compilers of plain C, the tile of small machines against the reference, and a Cortex-M7.
set -u
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C
full=${1:-}
dir=build/embedded
rm -rf "$dir"
mkdir -p "$dir"
warn="-std=c99 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
quick=-O1
. test/common/shell.sh

# ---------------------------------------------------------------------------------------------- macros
whole() { # compiler, macros of all its builds
    cc=$1 narrow=$2
    check "$cc: whole$narrow" "$cc $warn $quick $narrow -I. -pthread test/build/parts.c -c -o $dir/whole.o && $cc $dir/whole.o -o $dir/whole -lm -pthread &&
        $dir/whole && nm $dir/whole.o > $dir/whole.nm"
}
without() { # macros, what must go: an expression for nm's lines, which the whole build has
    check "$cc:$narrow $1 leaves nothing of $2" "grep -qE '$2' $dir/whole.nm && $cc $warn $quick $narrow $1 -I. -pthread test/build/parts.c -c -o $dir/part.o &&
        nm $dir/part.o > $dir/part.nm && [ -s $dir/part.nm ] && ! grep -E '$2' $dir/part.nm && $cc $dir/part.o -o $dir/part -lm -pthread &&
        $dir/part"
}
backward=' attn__[a-z_]*(bwd|backward|grad)' narrow_types=' attn__(get_values|put_values|convert_rows|ref_decode|ref_encode|ref_int8)'
least="-DATTN_NO_BACKWARD -DATTN_NO_CONVERT -DATTN_ONLY_F32 -DATTN_NO_REFERENCE -DATTN_NO_MALLOC -DATTN_NO_GETENV -DATTN_NO_STANDARD -DATTN_NO_ADAPTIVE"
all_at_once() {
    check "$cc: no printf in any build" "grep -q ' U fputs' $dir/whole.nm && ! grep -E ' U .*printf' $dir/whole.nm"
    without "$least" "$backward|$narrow_types| attn__(convert|ref|standard|adaptive|int16)| U (malloc|free|getenv)"
}
one_by_one() {
    without -DATTN_NO_BACKWARD "$backward"
    without -DATTN_NO_CONVERT ' attn__convert'
    without -DATTN_NO_REFERENCE ' attn__ref'
    without -DATTN_ONLY_F32 "$narrow_types"
    without -DATTN_NO_GETENV ' U getenv'
    without "-DATTN_NO_MALLOC -DATTN_NO_REFERENCE" ' U (malloc|free)'
}
whole gcc " -DATTN_ONLY_PORTABLE"
all_at_once
syntax="gcc $warn -std=c99 -fsyntax-only -I. -pthread -DATTN_IMPLEMENTATION -x c attn.h"
check "an only ISA beside what it leaves out" "$syntax -DATTN_ONLY_PORTABLE -DATTN_NO_AVX2 -DATTN_NO_AVX512 -DATTN_NO_NEON -DATTN_NO_SIMD128"
for pair in "ATTN_ONLY_AVX2 -DATTN_ONLY_PORTABLE:is the only one" "ATTN_ONLY_AVX2 -DATTN_NO_AVX2:is left out by ATTN_NO_"; do
    check "-D${pair%:*} is refused" "! $syntax -D${pair%:*} 2> $dir/said && grep -q 'error.*${pair#*:}' $dir/said"
done
if [ -n "$full" ]; then
    one_by_one
    whole clang " -DATTN_ONLY_PORTABLE"
    all_at_once
    one_by_one
    whole gcc ""
    without -DATTN_ONLY_PORTABLE '__avx'
    if grep -qw avx2 /proc/cpuinfo; then without -DATTN_ONLY_AVX2 '__(portable|avx512)'; else skip 1 "this machine has no AVX2"; fi
    if grep -qw avx512vl /proc/cpuinfo; then without -DATTN_ONLY_AVX512 '__(portable|avx2)'; else skip 1 "this machine has no AVX-512"; fi
    # A machine that lacks the only ISA: a status, not an instruction that it does not have.
    if command -v qemu-x86_64 >/dev/null; then
        check "ATTN_ONLY_AVX2 where there is none" "gcc $warn $quick -DSMOKE_LINK -I. test/build/smoke.c -c -o $dir/a.o &&
            gcc -std=c99 $quick -DATTN_ONLY_AVX2 -DATTN_IMPLEMENTATION -I. -x c attn.h -c -o $dir/b.o && gcc -pthread $dir/a.o $dir/b.o -o $dir/only &&
            ! qemu-x86_64 -cpu Nehalem $dir/only > $dir/said && grep -q 'on none' $dir/said && grep -q 'the machine lacks' $dir/said"
    else
        skip 1 "there is no qemu-x86_64 here"
    fi
fi

# ---------------------------------------------------------------------------------------------- plain C
# Nothing but C99 is left of the header's own lines, and another compiler takes it.
for cc in gcc clang; do
    check "$cc: ATTN_NO_EXTENSIONS is C99 alone" "echo '#include \"attn.h\"' | $cc -std=c99 -DATTN_NO_EXTENSIONS -DATTN_NO_THREADS -DATTN_IMPLEMENTATION -I. -E -x c - |
        awk '/^# [0-9]+ /{ own = /attn.h\"/ } own' > $dir/own.c && [ \$(wc -l < $dir/own.c) -gt 4000 ] &&
        ! grep -nE '(^|[^A-Za-z0-9_])(__(attribute|asm|builtin|atomic|thread|declspec)|_Pragma|vector_size)|#pragma (GCC (optimize|target)|clang)' $dir/own.c"
done
if command -v tcc >/dev/null; then
    check "tcc compiles and runs it" "tcc -Wall -I. test/build/parts.c -o $dir/tcc-parts -lm && $dir/tcc-parts &&
        tcc -Wall -I. test/build/smoke.c -o $dir/tcc-smoke && $dir/tcc-smoke"
else
    skip 1 "there is no tcc here"
fi
if [ -n "$full" ]; then
    check "gcc: ATTN_NO_EXTENSIONS, no warning, right" "gcc -O1 $warn -DATTN_NO_EXTENSIONS -I. test/build/smoke.c -o $dir/plain && $dir/plain"
    check "clang: ATTN_NO_EXTENSIONS in C++" "clang++ -x c++ -std=c++11 -O1 -Wall -Wextra -Wpedantic -Werror -DATTN_NO_EXTENSIONS -I. test/build/smoke.c -o $dir/plain &&
        $dir/plain"
fi

# ---------------------------------------------------------------------------------------------- a small machine
printf '%s\n' '#define ATTN_IMPLEMENTATION' '#include "attn.h"' 'static float x[4][8];' 'int main(void) {' '    attn_desc d = {0};' \
    '    d.batch = d.q_len = d.kv_len = d.heads = 1, d.head_dim = 8, d.q.data = x[0], d.k.data = x[1], d.v.data = x[2], d.o.data = x[3];' \
    '    if (attn_forward(&d)) return 1;' '    d.o.data = &x[2][7];' '    return attn_forward(&d) != ATTN_ERR_OVERLAP;' '}' >"$dir/overlap.c"
check "a small machine refuses what overlaps, and no more" "clang -O1 -fsanitize=memory -DATTN__SMALL=1 -DATTN_ONLY_PORTABLE -DATTN_NO_THREADS -I. $dir/overlap.c -o $dir/overlap && $dir/overlap"
if [ -n "$full" ]; then
    check "the tile of small machines against the reference" "gcc -Os -DATTN__SMALL=1 -DATTN_ONLY_PORTABLE -Itest/common -I. -std=c99 -pthread test/common/impl.c \
        test/proof/grid.c -o $dir/grid -lm && $dir/grid --count 400 --seed 21 --cost 20"
    m7="-mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-d16"
    if command -v arm-none-eabi-gcc >/dev/null && echo '#include <string.h>' | arm-none-eabi-gcc -E - >/dev/null 2>&1; then
        cat >"$dir/m7.ld" <<'LD'
MEMORY { CODE (rx) : ORIGIN = 0, LENGTH = 4M  DATA (rwx) : ORIGIN = 0x20000000, LENGTH = 4M }
ENTRY(start)
SECTIONS {
    .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) *(.data*) } > CODE
    .ARM.exidx : { *(.ARM.exidx*) } > CODE
    .bss : { bss_begin = .; *(.bss*) *(COMMON) bss_end = .; } > DATA
    stack_end = 0x20400000;
}
LD
        # what a program that calls attn_forward keeps of the header
        printf '#define ATTN_IMPLEMENTATION\n#include "attn.h"\nint main(void);void start(void);void start(void){main();}\nattn_desc d;int main(void){return attn_forward(&d);}' > "$dir/m7.c"
        bare="-Os -std=gnu99 -Wall -Wextra -Werror -ffunction-sections -fdata-sections -nostartfiles -I. -Wl,--gc-sections -T $dir/m7.ld"
        check "cortex-m7: forward f32 has at most 32 KiB of code" "arm-none-eabi-gcc $m7 $bare $least -DATTN_NO_TIMING $dir/m7.c -o $dir/m7-least.elf &&
            bytes=\$(arm-none-eabi-nm -S --radix=d $dir/m7-least.elf | awk '\$3 ~ /[tT]/ && \$4 ~ /^attn/ { n += \$2 } END { print n }') &&
            [ \$bytes -gt 10000 ] && [ \$bytes -le 32768 ] && echo \$bytes > $dir/m7.bytes"
        [ -e "$dir/m7.bytes" ] && echo "        $(cat "$dir/m7.bytes") bytes"
        for what in whole least; do
            flags=-DATTN_NO_STANDARD
            [ $what = least ] && flags=$least
            check "cortex-m7: $what builds without a system" "arm-none-eabi-gcc $m7 $bare -DPARTS_BARE $flags -DATTN_NO_MALLOC -DATTN_NO_GETENV -DATTN_NO_TIMING \
                test/build/parts.c -o $dir/m7-$what.elf -lm"
            if command -v qemu-system-arm >/dev/null; then
                check "cortex-m7: $what runs" "timeout 100 qemu-system-arm -M mps2-an500 -nographic -semihosting -kernel $dir/m7-$what.elf > $dir/said 2>&1; rc=\$?
                    cat $dir/said; [ \$rc = 0 ] && grep -q '^right on portable' $dir/said"
            else
                skip 1 "there is no qemu-system-arm here"
            fi
        done
    else
        skip 5 "there is no arm-none-eabi-gcc with its C library here"
    fi
fi

finish
