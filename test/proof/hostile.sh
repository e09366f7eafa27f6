#!/usr/bin/env bash
# test/proof/hostile.sh [full] - builds and machine states that must not change a bit. Each build is compared with -O2 of the same compiler on
# the lines of build/*/hostile, for every ISA; then no AVX instruction outside the functions of its ISA, and the baseline on a
# processor without AVX. full: with -O2 -ffast-math and link-time optimization, too (build/{fastmath,lto}/hostile).
set -u
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAIL $*"; }
isas=()
for isa in avx512 avx2 portable; do
    if ATTN_ISA=$isa build/plain/hostile --count 1 >/dev/null 2>&1; then isas+=("$isa"); else skipped=$((skipped + 1)); echo "skipped: $isa"; fi
done
same() { # what, file, file
    if cmp -s "$2" "$3"; then ok; else bad "$1"; diff "$2" "$3" | head -n 8; fi
}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

for isa in "${isas[@]}"; do
    export ATTN_ISA=$isa
    for base in plain clang; do
        build/$base/hostile >"$dir/$base" || bad "$base $isa: $(tail -n 1 "$dir/$base")"
        case $base in plain) others="ofast O0${1:+ fastmath lto}" ;; *) others=clangofast ;; esac
        for other in $others; do
            build/$other/hostile >"$dir/other" || bad "$other $isa: $(tail -n 1 "$dir/other")"
            same "$other differs from $base, $isa" "$dir/$base" "$dir/other"
        done
        for state in --flush "--round up" "--round down" "--round zero"; do
            # shellcheck disable=SC2086
            build/$base/hostile $state >"$dir/other" || bad "$base $isa $state: $(tail -n 1 "$dir/other")"
            same "$base $isa: $state changes bits" "$dir/$base" "$dir/other"
        done
    done
    # shellcheck disable=SC2086
    build/ofast/hostile --flush --round up >"$dir/other" && build/plain/hostile >"$dir/plain"
    same "ofast with --flush --round up, $isa" "$dir/plain" "$dir/other"
done
unset ATTN_ISA

# AVX instructions are those whose mnemonic begins with v
for build in plain clang; do
    objdump -d --no-show-raw-insn build/$build/impl.o | awk '
        /^[0-9a-f]+ <.*>:$/ { name = $2; gsub(/[<>:]/, "", name); inside = name ~ /__(avx2|avx512)(\.(part|constprop|cold|isra)(\.[0-9]+)*)*$/ }
        $1 ~ /^[0-9a-f]+:$/ && $2 ~ /^v[a-z]/ { if (inside) good++; else if (!seen[name]++) print "AVX in " name ": " $2 }
        END { print "inside: " good + 0 }' >"$dir/avx"
    if ! grep -q '^inside: [1-9]' "$dir/avx"; then bad "$build: no AVX instruction at all"; else ok; fi
    if grep '^AVX in' "$dir/avx"; then bad "$build: AVX outside the functions of its ISA"; else ok; fi
done

# a processor of 2008: no AVX, so the portable kernels, with the same bits as here
if command -v qemu-x86_64 >/dev/null; then
    ATTN_ISA=portable build/plain/hostile --count 12 >"$dir/here"
    if qemu-x86_64 -cpu Nehalem build/plain/hostile --count 12 >"$dir/there" 2>"$dir/err"; then same "other bits on Nehalem" "$dir/here" "$dir/there"
    else bad "on Nehalem: $(tail -n 1 "$dir/err" "$dir/there")"; fi
    qemu-x86_64 -cpu Nehalem build/plain/grid --count 25 --cost 16 >"$dir/grid" 2>&1 && ok || { bad "grid on Nehalem"; tail -n 5 "$dir/grid"; }
else skipped=$((skipped + 1)); echo "skipped: qemu-x86_64 is not installed"; fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
