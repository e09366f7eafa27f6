#!/usr/bin/env bash
# test/build/examples.sh - builds each example as its own comment says, but without the optimizer, and runs it; an example exits non-zero when its result is wrong.
# test/build/examples.sh hip - those that a GPU compiler builds, with the simulator's; attn_hip.c is there already (test/gpu/hip.mk).
set -u
cd "$(dirname "$0")/../.." || exit 1
dir=build/examples
mkdir -p $dir
passed=0 failed=0 skipped=0
start='c[c+][+ ]' warn='-Wall -Wextra -Werror' gpu=${1:-}
if [ "$gpu" = hip ]; then
    object=build/hip/$(test/gpu/hip.sh folder gfx942)/attn_hip.o
    make -s $object || exit 1
    start='hipcc '
fi
own_lines() { # file, compiler: the example without the implementation, and the warnings that only an optimizer has
    sed '/define ATTN_IMPLEMENTATION/d' "$1" | $2 -x "$([[ $1 == *.cpp ]] && echo c++ || echo c)" -O2 $warn -I. -c -o /dev/null -
}
for file in examples/*.c examples/*.cpp; do
    exe=$dir/$(basename "$file" | tr . -)$gpu
    command=$(sed -n "s/^.*\\($start.*-I\\..*\\) && .*\$/\\1/p" "$file" | head -n 1)
    [ -n "$gpu" ] && [ -z "$command" ] && continue
    if [[ $command == *'$torch'* ]]; then
        skipped=$((skipped + 1))
        echo "skipped: $file needs PyTorch: make torch-ext"
        continue
    fi
    if grep -q '&& mpirun' "$file"; then
        if ! command -v mpicc >/dev/null; then
            skipped=$((skipped + 1))
            echo "skipped: $file needs MPI (make setup)"
            continue
        fi
        command=mpi$command
    fi
    if [ "$gpu" = hip ]; then
        command=$(echo "$command" | sed "s|^hipcc|test/hipsim/hipcc|; s|-O3|-O1 -w|; s|attn_hip.c|-x none $object|; s|-o [a-z]*|-o $exe|")
    else
        # not how fast it is: that takes half a minute of compiling for each
        command=$(echo "$command" | sed "s|-O2|-O0 -DATTN_NO_OPTIMIZE -DATTN_NO_AVX512 -DATTN_NO_AVX2|; s|-o [a-z]*|-o $exe $warn|")
    fi
    status=1
    [ -n "$command" ] && { [ "$gpu" = hip ] || own_lines "$file" "${command%% *}"; } && $command && { "$exe" </dev/null; status=$?; }
    if [ $status = 0 ]; then passed=$((passed + 1))
    elif [ $status = 2 ]; then
        skipped=$((skipped + 1))
        echo "skipped: $file was built, not run: it needs arguments"
    else
        failed=$((failed + 1))
        echo "FAILED  $file: $command"
    fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
