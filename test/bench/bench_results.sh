#!/usr/bin/env bash
# test/bench/bench_results.sh [NAME..] - `make results`: measures test/results/NAME anew, on a machine
# that should be idle, in a few minutes on two cores; each folder then holds the three result files,
# summary_report.md and the plots. Needs gnuplot.
set -u
cd "$(dirname "$0")/../.." || exit 1
declare -A flags=(
    [memory]="--suite memory"
    [scaling]="--suite scaling"
    [flash_v2]="--suite flash_v2 --quick"
    [openpi]="--suite openpi --quick"
)
names=("$@")
[ $# -gt 0 ] || names=(memory scaling flash_v2 openpi)
worst=0
for name in "${names[@]}"; do
    [ -n "${flags[$name]-}" ] || { echo "$name: must be one of ${!flags[*]}" >&2; exit 2; }
    started=$SECONDS
    # shellcheck disable=SC2086
    ./attn_bench ${flags[$name]} --format csv --output-dir "test/results/$name" --plot >/dev/null
    code=$?
    echo "test/results/$name: attn_bench ${flags[$name]}: exit code $code, $((SECONDS - started)) s"
    [ $code -le $worst ] || worst=$code
done
exit $worst
