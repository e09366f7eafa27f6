#!/usr/bin/env bash
# test/fuzz.sh SECONDS - the kept corpus, then the fuzzer for so long, each time from the same seed: what is red here comes from a
# change. `make fuzz` looks further. Each of the two is one test.
set -u
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0
fuzz=build/proof/fuzz/fuzz
check() {
    if "$@" >build/fuzz.log 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); tail -n 40 build/fuzz.log; fi
}
check $fuzz -runs=0 -timeout=20 test/corpus
mkdir -p build/corpus
check $fuzz -max_total_time="$1" -timeout=20 -max_len=600 -len_control=0 -seed=1 -artifact_prefix=build/ build/corpus test/corpus
grep -E 'DONE|stat::number_of_executed' build/fuzz.log
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
