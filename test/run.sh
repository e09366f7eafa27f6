#!/usr/bin/env bash
# test/run.sh FILE... - run the steps that the files list, at most two at a time, and sum up.
#
# A step is a line `name | command`, run by bash in the repository root. A line `name ! command` waits for
# everything before it and runs alone; it may use both processors. A line `build - targets` says what make is to build before
# the first step: those of all files in one call, so that both processors wait for each other once. A line `+ command` stands
# for the steps that the command prints. Empty lines and lines that begin with # are skipped. A step counts its tests in one of
# two ways: it prints lines `N passed, N failed, N skipped`, or it is a cmocka program. A step that exits non-zero without a failed test, or counts no test at all, is one failure more.
# For each step a line `== name: 12.3 s` is printed, and its output when it failed or VERBOSE is set. What failed is named again at
# the end with the lines of its output that say why.
# The last line of all is `N passed, N failed, N skipped`; the exit status is 1 when anything failed.
set -u
cd "$(dirname "$0")/.." || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL
export LC_ALL=C
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT TERM
. test/common/shell.sh
red=()

run() { # name, command: leaves $out/name.{log,sec,rc}
    local t0 t1
    t0=$(date +%s%N)
    bash -c "$2" >"$out/$1.log" 2>&1 </dev/null
    echo $? >"$out/$1.rc"
    t1=$(date +%s%N)
    echo $(((t1 - t0) / 100000000)) >"$out/$1.tmp" && mv "$out/$1.tmp" "$out/$1.sec"
}

report() { # name
    local rc sec p f s
    rc=$(cat "$out/$1.rc") sec=$(cat "$out/$1.sec")
    read -r p f s < <(count "$out/$1.log")
    if [ "$rc" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
    if [ $((p + f + s)) -eq 0 ] && [ ! -e "$out/$1.builds" ]; then
        echo "$1 counted no test" >>"$out/$1.log"
        f=1
    fi
    if [ "$f" -gt 0 ] || [ -n "${VERBOSE:-}" ]; then
        grep -v '^\[ RUN      \]' "$out/$1.log" | tail -n 200
        [ "$f" -gt 0 ] && red+=("$1")
    else
        grep -E '^== |[Ss]kipped:' "$out/$1.log"
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    echo "== $1: $((sec / 10)).$((sec % 10)) s ($p passed, $f failed, $s skipped)"
}

running=()
drain() { # until at most $1 steps are still running
    local n left
    while [ ${#running[@]} -gt "$1" ]; do
        left=()
        for n in "${running[@]}"; do
            if [ -e "$out/$n.sec" ]; then report "$n"; else left+=("$n"); fi
        done
        running=(${left[@]+"${left[@]}"})
        [ ${#running[@]} -gt "$1" ] && sleep 0.1
    done
}

steps() { # the lines of the files
    local name rest printed
    while read -r name rest; do
        if [ "$name" != + ]; then echo "$name $rest"
        elif printed=$(bash -c "$rest") && [ -n "$printed" ]; then echo "$printed"
        else echo "steps ! echo no steps from: $rest; false"; fi
    done < <(cat "$@")
}

plan=$(steps "$@")
targets=$(sed -n 's/^build  *- //p' <<<"$plan" | xargs)
if [ -n "$targets" ]; then
    : >"$out/build.builds"
    run build "make -s -k -j2 $targets"
    report build
fi
while read -r name how command; do
    case $name:$how in :*|'#'*|*:-) continue ;; esac
    if [ "$how" = '|' ]; then drain 1; else drain 0; fi
    run "$name" "$command" &
    running+=("$name")
    [ "$how" = '|' ] || drain 0
done <<<"$plan"
drain 0
for n in ${red[@]+"${red[@]}"}; do              # once more at the end, where one looks first
    echo "== failed: $n"
    grep -aE -m 12 '^[^ ]*(ERROR|FAILED|[Ff]ail|fault|fuzz:|wrong|runtime error)|: error:|^\[  ERROR' "$out/$n.log" | cut -c1-300
    tail -n 12 "$out/$n.log" | cut -c1-300
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
