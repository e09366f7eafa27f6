#!/usr/bin/env bash
# test/bench/measured.sh - `make measured`: runs the command of README.md's measured table on this machine, which should be idle, and
# writes what it prints between the two marks there, columns that say the same in every row left out.
set -eu
cd "$(dirname "$0")/../.."
command="./attn_bench --seq-len 512,2048 --num-heads 8 --head-dim 64 --causal --backward --backend standard,flash --iterations 10 --format markdown"
out=$(mktemp)
trap 'rm -f "$out"' EXIT
table=$($command 2>/dev/null)
{
    echo "$table" | sed -n 's/^# attn_bench: //p'
    printf '\n```sh\n%s\n```\n\n' "$command"
    echo "$table" | grep '^|' | awk -F ' *[|] *' '
        NR == 1 { for (i = 2; i < NF; i++) keep[i] = $i !~ /^(n|min|max|p95|p99|kernel ms|total ms|tok\/s|rows|status|dtype)$/ }
        { line = "|"; for (i = 2; i < NF; i++) if (keep[i]) line = line " " $i " |"; print line }'
    echo
} >"$out"
awk -v file="$out" '
    /<!-- measured -->/ { print; print ""; while ((getline line < file) > 0) print line; skip = 1 }
    /<!-- end -->/ { skip = 0 }
    !skip' README.md > "$out.md"
cat "$out.md" > README.md
rm -f "$out.md"
