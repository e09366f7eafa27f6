#!/usr/bin/env bash
# test/build/torch_ext.sh - `make torch-ext`: builds examples/torch_ext.cpp as its comment says and compares it with PyTorch. By hand: PYTHON
# needs the package torch (PyPI).
set -u
cd "$(dirname "$0")/../.." || exit 1
python=${PYTHON:-python3}
torch=$("$python" -c 'import torch; print(torch.__path__[0])' 2>/dev/null) || {
    echo "skipped: $python has no package torch (PyPI)"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
mkdir -p build
command=$(sed -n 's|^// *\(c++ .*\) && .*|\1|p' examples/torch_ext.cpp | sed 's|-o [^ ]*|-o build/attn_torch.so|')
eval "$command" && "$python" test/build/torch_ext.py build/attn_torch.so
