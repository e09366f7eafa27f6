#!/usr/bin/env bash
# test/proof/fuzz.sh SECONDS      the kept finds and 120 first inputs, then the fuzzer for so long, each time from the same seed: what is
#                           red here comes from a change. Each of the two is one test; `make fuzz` looks further.
# test/proof/fuzz.sh inputs       only leaves the first inputs in build/inputs: bytes at random, the same each time
set -u
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0
fuzz=build/fuzz/fuzz
check() {
    if "$@" >build/fuzz.log 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); tail -n 40 build/fuzz.log; fi
}
mkdir -p build/inputs build/corpus
python3 -c '
import random
for n in range(1, 121):
    open(f"build/inputs/{n}", "wb").write(random.Random(n).randbytes(80 + 3 * n))' || exit 1
[ "$1" != inputs ] || exit 0
check $fuzz -runs=0 -timeout=20 test/proof/corpus build/inputs
check $fuzz -max_total_time="$1" -timeout=20 -max_len=600 -len_control=0 -seed=1 -artifact_prefix=build/ build/corpus build/inputs test/proof/corpus
grep -E 'DONE|stat::number_of_executed' build/fuzz.log
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
