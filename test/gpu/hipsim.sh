#!/usr/bin/env bash
# test/gpu/hipsim.sh [--record] - the simulator's own tests, where test/hipsim differs from what test/gpu/hipsim.tested names: the hash over
# its files as they last passed. --record runs them whatever it says, and writes it when they pass.
set -u
cd "$(dirname "$0")/../.." || exit 1
now=$(cd test/hipsim && find . -path ./build -prune -o -type f -print | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-64)
if [ "${1:-}" != --record ]; then
    if [ "$(cat test/gpu/hipsim.tested 2>/dev/null)" = "$now" ]; then
        echo "skipped: the simulator's own tests, test/hipsim is as it last passed them"
        echo "0 passed, 0 failed, 1 skipped"
        exit 0
    fi
    if missing=$(test/gpu/hip.sh missing); then
        echo "skipped: the simulator's own tests, $missing"
        echo "0 passed, 0 failed, 1 skipped"
        exit 0
    fi
fi
make -s -C test/hipsim test 2>&1 | tee build/hipsim.log
read -r passed failed < <(sed -n 's/^total: \([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' build/hipsim.log)
echo "${passed:-0} passed, ${failed:-1} failed, 0 skipped"
[ "${failed:-1}" = 0 ] || exit 1
[ "${1:-}" != --record ] || echo "$now" >test/gpu/hipsim.tested
