#!/usr/bin/env bash
# test/bench/programs.sh llm.c DIR [B T] - the attention of llm.c's train_gpt2.c beside attn.h's; DIR: a checkout of llm.c.
# test/bench/programs.sh ggml DIR [test|perf FILTER] - ggml's own tests of FLASH_ATTN_EXT, or its timings of the cases that the regular
# expression FILTER takes, with the operator as it is and by attn.h; DIR: a checkout of llama.cpp. Needs cmake.
set -eu
cd "$(dirname "$0")/../.."
[ $# -ge 2 ] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
program=$1 dir=$(cd "$2" && pwd)
shift 2
out=build/programs
mkdir -p $out
case $program in
llm.c)
    [ $out/attn.o -nt attn.h ] || ${CC:-cc} -O2 -DATTN_IMPLEMENTATION -x c -c attn.h -o $out/attn.o
    ${CC:-cc} -Ofast -march=native -fopenmp -DOMP -w -DPROGRAM="\"$dir/train_gpt2.c\"" -I. -I"$dir" test/bench/programs/llmc.c $out/attn.o \
        -o $out/llmc -pthread -lm
    $out/llmc "$@"
    ;;
ggml)
    for attn in OFF ON; do
        cmake -S test/bench/programs -B $out/ggml-$attn -DPROGRAM="$dir" -DATTN=$attn -DCMAKE_BUILD_TYPE=Release >$out/cmake.log
        cmake --build $out/ggml-$attn -j "$(nproc)" --target test-backend-ops >$out/build.log
    done
    for attn in OFF ON; do
        echo "-- FLASH_ATTN_EXT by $([ $attn = ON ] && echo attn.h || echo ggml)"
        ATTN_GGML_COUNT=1 $out/ggml-$attn/test-backend-ops "${1:-test}" -b CPU -o FLASH_ATTN_EXT ${2:+-p "$2"} 2>&1 | grep -aE 'FAIL|tests passed|FLASH_ATTN_EXT: |runs'
    done
    ;;
*) echo "programs.sh: $program is neither llm.c nor ggml"; exit 2 ;;
esac
