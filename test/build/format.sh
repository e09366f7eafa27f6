#!/usr/bin/env bash
# test/build/format.sh           the library, its benchmark and the examples as .clang-format says: names file and line of what differs
# test/build/format.sh apply     makes them so
cd "$(dirname "$0")/../.." || exit 1
files=(attn.h attn_hip.c attn_bench.c examples/*.c examples/*.cpp)
format=$(command -v clang-format-19) || {
    echo "skipped: clang-format-19 is not installed (make setup); other versions break lines elsewhere"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
if [ "${1:-}" = apply ]; then exec "$format" -i "${files[@]}"; fi
# what clang-format does not see: blanks at the end of a line, comments that end in one or two words on a line of their own
layout() {
    awk '
        /[ \t]$/ { print FILENAME ":" FNR ": blank at the end of the line"; bad = 1 }
        /\*\/$/ && !/\/\*/ {
            text = $0
            gsub(/^[ *]+|[ *]*\*\/$/, "", text)
            words = split(text, word, / +/)
            if (text != "" && words < 3) { print FILENAME ":" FNR ": a comment ends in \"" text "\" alone"; bad = 1 }
        }
        END { exit bad }' "$1"
}
passed=0 failed=0
for file in "${files[@]}"; do
    if "$format" --dry-run -Werror "$file" && layout "$file"
    then passed=$((passed + 1))
    else failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
