#!/usr/bin/env bash
# test/build/readme.sh - README.md tells the truth: in a copy of the tree, its listings are written to the files that their first lines
# name and compiled without a warning, and every command runs, in order, in one shell. A command that runs the tests is run
# as `make -n`, a table of 512 and 2048 queries with 512 alone. The first program is compiled as README.md has it; the others, and those of CMake, without the optimizer, which takes
# twenty seconds for each and has been tried by then. attn_bench is built there only where make has not built it here from the same sources. The files and headings that it
# links to are there, and the picture has the numbers of the table it is drawn from.
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
work=build/readme
rm -rf $work
mkdir -p $work
tar -c --exclude=./build --exclude=./.git . | tar -x -C $work || exit 1
mkdir -p $work/build
cp -p build/attn_bench.o build/attn_hip.o build/compiler.by $work/build/ 2>/dev/null
passed=0 failed=0

verdict() { # status, text
    if [ "$1" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED  $2"; fi
}

# listings: ```c, ```cpp and ```cmake to files, ```sh to one script with each command behind a marker
awk -v work=$work '
    /^```/ {
        if (open) { open = 0; if (file) close(file); file = ""; next }
        open = substr($0, 4); if (open == "") open = "text"; first = 1; next
    }
    open == "c" || open == "cpp" || open == "cmake" {
        if (first) {
            file = $0
            gsub(/^(\/\*|\/\/|#) *| *\*\/$/, "", file)
            if (file !~ /^[A-Za-z.]+$/) { print "the listing before line " NR " names no file"; exit 1 }
            if (open != "cmake") print open, file > (work "/listings")
            file = work "/" file
        }
        print > file; first = 0
    }
    open == "sh" { print > (work "/commands") }
    ' README.md
verdict $? "listings of README.md"

while read -r language file; do
    compiler=$([ "$language" = c ] && echo "cc -std=c99" || echo "c++ -std=c++11")
    (cd $work && $compiler -Wall -Wextra -Werror -I. -fsyntax-only "$file")
    verdict $? "$file does not compile"
done < $work/listings

cd $work || exit 1
mkdir -p quick
for compiler in cc c++; do
    printf '%s\n' '#!/bin/bash' 'arguments=()' 'for a; do case $a in -O[23]) arguments+=(-O0 -DATTN_NO_OPTIMIZE) ;; *) arguments+=("$a") ;; esac; done' \
        "exec $(command -v $compiler) \"\${arguments[@]}\"" > quick/$compiler
    chmod +x quick/$compiler
done
path=$PATH optimized=
while IFS= read -r command; do
    run=$command
    PATH=$path
    [[ $optimized && $command =~ ^(cc|c\+\+|cmake)\  ]] && PATH=$PWD/quick:$path
    [[ $command =~ ^cc\  ]] && optimized=yes
    [[ $command =~ ^make\ .*test ]] && run="make -n${command#make}"
    run=${run/512,2048/512}
    started=$SECONDS
    eval "$run" >command.log 2>&1 </dev/null
    status=$?
    verdict $status "$command"
    [ $status -eq 0 ] || tail -n 30 command.log
    echo "\$ $run ($((SECONDS - started)) s)"
done < commands
PATH=$path
cd "$root" || exit 1

# links, but to other hosts: a heading's anchor is the heading in lower case, its blanks as hyphens
for link in $(grep -o '](\(#\|[a-zA-Z]\)[^):]*)' README.md | tr -d '](' | tr -d ')' | sort -u); do
    case $link in
        '#'*) grep -i '^## ' README.md | sed 's/^## /#/' | tr 'A-Z ' 'a-z-' | grep -qxF -- "$link" ;;
        *) [ -e "$link" ] ;;
    esac
    verdict $? "README.md links to $link"
done
texts() { grep -o '<text>[^<]*' "$1"; }
drawn=$(texts $work/test/results/peak.svg) && diff <(echo "$drawn") <(texts test/results/peak.svg)
verdict $? "test/results/peak.svg is not what make picture draws"
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ] && [ $passed -gt 3 ]
