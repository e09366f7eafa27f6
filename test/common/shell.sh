# shell.sh - sourced by the scripts of test/: what they check and how results are counted, once.
#
# check: $dir is the folder of the log, $label stands before each name; passed, failed and skipped are the totals.
passed=0 failed=0 skipped=0 label=

check() { # name, command: passes when the command exits 0
    local t0 t1
    t0=$(date +%s%N)
    if (eval "$2") >"$dir/log" 2>&1 </dev/null; then
        passed=$((passed + 1))
        t1=$(date +%s%N)
        echo "ok      $label$1 ($(((t1 - t0) / 1000000)) ms)"
    else
        failed=$((failed + 1))
        echo "FAILED  $label$1"
        echo "        $2"
        head -n 30 "$dir/log"
    fi
}
skip() { # how many, why
    skipped=$((skipped + $1))
    echo "skipped: $2"
}
finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
    exit
}
count() { # a log: passed failed skipped, from closing lines or else from cmocka's
    awk '
        /^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { lines++; p += $1; f += $3; s += $5 }
        /^\[       OK \]/                               { ok++ }
        /^\[  FAILED  \] [0-9]+ test\(s\), listed/      { bad += $4 }
        /^\[  SKIPPED \] [0-9]+ test\(s\), listed/      { skip += $4 }
        /^\[  FAILED  \] GROUP SETUP/                   { bad++ }
        END { if (lines) print p + 0, f + 0, s + 0; else print ok + 0, bad + 0, skip + 0 }' "$1"
}
