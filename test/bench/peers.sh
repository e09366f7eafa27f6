#!/usr/bin/env bash
# test/bench/peers.sh [attn_bench] - attn.h beside PyTorch's scaled_dot_product_attention and OpenBLAS, which join attn_bench as the
# plugins test/bench/torch.cpp and test/bench/openblas.c. Writes test/results/peers.md; OUT names another file.
#
# Optional, and never part of the tests: it needs Python with the package torch (PyPI) and Debian's libopenblas-dev. What is
# missing is said, and left out. PYTHON names the interpreter, THREADS the threads, ITERATIONS the calls of a row.
set -u
cd "$(dirname "$0")/../.." || exit 1
bench=$(realpath "${1:-./attn_bench}")
python=${PYTHON:-python3} threads=${THREADS:-1} iterations=${ITERATIONS:-50} out=${OUT:-test/results/peers.md}
[ "$threads" -gt 0 ] || { echo "THREADS must be a positive number"; exit 2; }
mkdir -p build "$(dirname "$out")"
shared="-O3 -I. -shared -fPIC"

# PyTorch: the folder of the package, its version, and the ABI of std::string that it was built with
torch=$("$python" -c 'import torch; print(torch.__path__[0], torch.__version__, int(torch._C._GLIBCXX_USE_CXX11_ABI))' 2>/dev/null)
if [ -z "$torch" ]; then
    echo "skipped: PyTorch: $python has no package torch (PyPI)"
else
    read -r folder version abi <<<"$torch"
    ${CXX:-c++} $shared -std=c++20 -D_GLIBCXX_USE_CXX11_ABI="$abi" -isystem "$folder/include" \
        -isystem "$folder/include/torch/csrc/api/include" test/bench/torch.cpp -o build/torch.so -L"$folder/lib" \
        -Wl,-rpath,"$folder/lib" -Wl,--no-as-needed -lc10 -ltorch_cpu -ltorch ||
        { echo "skipped: PyTorch: its plugin does not compile"; torch=; }
fi

# OpenBLAS falls back to SSE3 on processors younger than itself: it is told the family of ours, unless the user did
openblas=yes
${CC:-cc} $shared -march=native test/bench/openblas.c -o build/openblas.so -lopenblas -lm 2>build/openblas.log ||
    { echo "skipped: OpenBLAS: no libopenblas-dev: $(grep -m1 error build/openblas.log)"; openblas=; }
if grep -q avx512bw /proc/cpuinfo; then family=SKYLAKEX; elif grep -q avx2 /proc/cpuinfo; then family=HASWELL; else family=; fi
[ -z "$family" ] || export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-$family}

[ -n "$torch$openblas" ] || exit 0
run() { # exit code 1 is a result outside the bounds of attn.h: the row says so
    local line=("$bench" --format markdown --threads "$threads" --iterations "$iterations" "$@")
    echo "${line[@]}" | sed "s|^$bench|attn_bench|" >&2
    printf '\n'
    "${line[@]}"
    [ $? -le 1 ]
}
{
    echo "# attn.h beside its peers"
    echo
    echo "By \`make peers\`, commit $(git rev-parse --short HEAD 2>/dev/null), $(date -u +%F). PyTorch ${version:-is not installed}, OpenBLAS${openblas:+ $OPENBLAS_CORETYPE}; [B,H,S,D]."
    echo "\`vs std\`: how many times faster than the backend standard."
    if [ -n "$torch" ]; then
        echo "A row that is \`wrong\` is outside of the bounds of attn.h, and its note names the output: PyTorch's lse of 16-bit types is."
        torch=(--plugin build/torch.so --backend standard,flash,torch --layout bhsd --num-heads 8 --backward)
        run "${torch[@]}" --seq-len 128,1024 --head-dim 64 &&
        run "${torch[@]}" --seq-len 1024 --head-dim 128 &&
        run "${torch[@]}" --seq-len 2048 --head-dim 64,128 --causal &&
        run "${torch[@]}" --seq-len 1024 --head-dim 64 --dtype f16,bf16 || exit 2
    fi
    if [ -n "$openblas" ]; then
        blas=(--plugin build/openblas.so --backend standard,flash,openblas --layout bhsd --num-heads 8)
        run "${blas[@]}" --seq-len 128,512,1024 --head-dim 64 && run "${blas[@]}" --seq-len 1024 --head-dim 128 || exit 2
    fi
} > build/peers.md || { echo "attn_bench failed"; exit 1; }
mv build/peers.md "$out"
echo "$out"
