#!/usr/bin/env bash
# test/bench/programs.sh llm.c DIR [B T] - the attention of llm.c's train_gpt2.c beside attn.h's; DIR: a checkout of llm.c.
# test/bench/programs.sh llm.c-train DIR [B T STEPS] - training steps of llm.c's train_gpt2.c as it is and with its attention by attn.h.
# test/bench/programs.sh llama2.c DIR [ARGUMENTS] - llama2.c's run.c as it is and with its attention by attn.h, both with ARGUMENTS; DIR: a
# checkout of llama2.c.
# test/bench/programs.sh ggml DIR [test|perf FILTER] - ggml's own tests of FLASH_ATTN_EXT, or its timings of the cases that the regular
# expression FILTER takes, with the operator as it is and by attn.h; DIR: a checkout of llama.cpp. Needs cmake.
set -eu
cd "$(dirname "$0")/../.."
[ $# -ge 2 ] || { sed -n '2,7s/^# //p' "$0"; exit 2; }
program=$1 dir=$(cd "$2" && pwd)
shift 2
out=build/programs
mkdir -p $out
library() { [ $out/attn.o -nt attn.h ] || ${CC:-cc} -O2 -fopenmp -DATTN_IMPLEMENTATION -x c -c attn.h -o $out/attn.o; }
case $program in
llm.c)
    library
    ${CC:-cc} -Ofast -march=native -fopenmp -DOMP -w -DPROGRAM="\"$dir/train_gpt2.c\"" -I. -I"$dir" test/bench/programs/llmc.c $out/attn.o \
        -o $out/llmc -pthread -lm
    $out/llmc "$@"
    ;;
llm.c-train)
    library
    sed -e 's/B \* NH \* T \* T/B * NH * T/g' -e 's/attention_forward(l_atty, l_preatt, l_att, /ours_forward(l_atty, l_att, /' \
        -e 's/attention_backward(dl_qkv, dl_preatt, dl_att, dl_atty, l_qkv, l_att, /ours_backward(dl_qkv, dl_atty, l_atty, l_att, l_qkv, /' \
        "$dir/train_gpt2.c" >$out/train_gpt2_attn.c
    [ "$(grep -c 'ours_forward(\|ours_backward(' $out/train_gpt2_attn.c)" = 2 ] || { echo "programs.sh: train_gpt2.c has other calls than expected"; exit 1; }
    version=$(sed -n 's/.*model_header\[1\] != \([0-9]*\).*/\1/p' "$dir/train_gpt2.c")
    for source in "$dir/train_gpt2.c" "$PWD/$out/train_gpt2_attn.c"; do
        ${CC:-cc} -Ofast -march=native -fopenmp -DOMP -w -DPROGRAM="\"$source\"" -DVERSION="$version" -DCHECKPOINT="\"$out/gpt2.bin\"" -I. \
            -Itest/bench/programs -I"$dir" test/bench/programs/llmc_train.c $out/attn.o -o $out/llmc_train -pthread -lm
        echo "-- ${source##*/}"
        $out/llmc_train "$@"
    done
    ;;
llama2.c)
    library
    call='attn_llama2(s->xb, s->q, s->key_cache + loff, s->value_cache + loff, p->n_heads, p->n_kv_heads, head_size, pos + 1);'
    sed "/multihead attention. iterate over all heads/,/final matmul to get the output of the attention/c\\ $call" "$dir/run.c" >$out/run_attn.c
    grep -q attn_llama2 $out/run_attn.c || { echo "programs.sh: run.c has other loops than expected"; exit 1; }
    flags="-Ofast -march=native -fopenmp -w -I. -I$dir"
    ${CC:-cc} $flags "$dir/run.c" -o $out/run -lm
    ${CC:-cc} $flags -include test/bench/programs/llama2.h $out/run_attn.c $out/attn.o -o $out/run_attn -pthread -lm
    for run in run run_attn; do
        echo "-- $run"
        $out/$run "$@"
    done
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
*) echo "programs.sh: $program is none of llm.c, llm.c-train, llama2.c and ggml"; exit 2 ;;
esac
