#!/usr/bin/env bash
# test/examples.sh - builds each example as its own comment says and runs it; an example exits non-zero when its result is wrong.
set -u
cd "$(dirname "$0")/.." || exit 1
dir=build/examples
mkdir -p $dir
passed=0 failed=0
for file in examples/*.c examples/*.cpp; do
    exe=$dir/$(basename "$file" | tr . -)
    command=$(sed -n 's/^.*\(c[c+][+ ].*-I\..*\) && .*$/\1/p' "$file" | head -n 1)
    command=$(echo "$command" | sed "s|-o [a-z]*|-o $exe -Wall -Wextra -Werror|")
    if [ -n "$command" ] && $command && "$exe" </dev/null; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED  $file: $command"
    fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
