#!/usr/bin/env python3
"""test/bench/oracle.py [attn_bench] - an independent computation of attention, in f64 and with the standard library only.

It writes .npy files, lets attn_bench --input compute on them with every backend, and compares what --output wrote to 2e-6.
The last line is `N passed, N failed, N skipped`."""
import ast
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

TOLERANCE = 2e-6
BACKENDS = ["reference", "standard", "flash"]


# ---------------------------------------------------------------------------------------------- .npy
def write_npy(path, shape, values, descr):
    """values: flat, in C order; descr: '<f4', '<f2' or '|b1'"""
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (descr, "".join("%d, " % n for n in shape))
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    code = {"<f4": "f", "<f2": "e", "|b1": "?"}[descr]
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin1"))
        f.write(struct.pack("<%d%s" % (len(values), code), *values))


def read_npy(path):
    """shape and flat values"""
    with open(path, "rb") as f:
        data = f.read()
    if data[:6] != b"\x93NUMPY":
        raise ValueError("%s: not a .npy file" % path)
    size = struct.unpack("<H", data[8:10])[0] if data[6] == 1 else struct.unpack("<I", data[8:12])[0]
    start = 10 if data[6] == 1 else 12
    header = ast.literal_eval(data[start:start + size].decode("latin1").strip())
    if header["fortran_order"]:
        raise ValueError("%s: Fortran order" % path)
    code = {"<f4": "f", "<f2": "e", "<f8": "d"}[header["descr"]]
    body = data[start + size:]
    count = math.prod(header["shape"])
    return header["shape"], struct.unpack("<%d%s" % (count, code), body)


def rounded(values, descr):
    code = {"<f4": "f", "<f2": "e"}[descr]
    return list(struct.unpack("<%d%s" % (len(values), code), struct.pack("<%d%s" % (len(values), code), *values)))


# ---------------------------------------------------------------------------------------------- attention
def attention(q, k, v, b, sq, sk, h, hk, d, dv, causal, mask):
    """q [b][sq][h][d], k [b][sk][hk][d], v [b][sk][hk][dv], flat; causal at the bottom right; mask(b, h, i, j) or None"""
    scale = struct.unpack("<f", struct.pack("<f", 1 / math.sqrt(d)))[0]
    o = [0.0] * (b * sq * h * dv)
    for ib in range(b):
        for ih in range(h):
            kh = ih // (h // hk)
            keys = [k[((ib * sk + j) * hk + kh) * d:][:d] for j in range(sk)]
            for i in range(sq):
                row = q[((ib * sq + i) * h + ih) * d:][:d]
                seen = [j for j in range(sk) if (not causal or j <= i + sk - sq) and (mask is None or mask(ib, ih, i, j))]
                if not seen:
                    continue
                scores = [scale * math.fsum(x * y for x, y in zip(row, keys[j])) for j in seen]
                top = max(scores)
                weights = [math.exp(s - top) for s in scores]
                total = math.fsum(weights)
                at = ((ib * sq + i) * h + ih) * dv
                for c in range(dv):
                    o[at + c] = math.fsum(w * v[((ib * sk + j) * hk + kh) * dv + c] for w, j in zip(weights, seen)) / total
    return o


# ---------------------------------------------------------------------------------------------- cases
#        name                          b  sq  sk  h hk   d  dv  causal mask      dtype  dimensions
CASES = [
    ("full",                           1, 33, 33, 2, 2, 32, 32, False, None, "<f4", 4),
    ("causal",                         2, 33, 33, 2, 2, 32, 32, True,  None, "<f4", 4),
    ("causal, more keys",              1, 17, 50, 2, 2, 16, 16, True,  None, "<f4", 4),
    ("causal, more queries",           1, 50, 17, 2, 2, 16, 16, True,  None, "<f4", 4),
    ("GQA",                            2, 20, 30, 4, 2, 24, 24, True,  None, "<f4", 4),
    ("v_dim 9",                        1, 20, 30, 2, 1, 24,  9, False, None, "<f4", 4),
    ("3 dimensions",                   1, 20, 30, 2, 2, 24, 24, False, None, "<f4", 3),
    ("mask [b,h,q,k]",                 2, 20, 30, 2, 2, 16, 16, False, "bhqk", "<f4", 4),
    ("mask [1,1,q,k] and causal",      2, 20, 30, 2, 2, 16, 16, True,  "11qk", "<f4", 4),
    ("f16",                            1, 33, 33, 2, 2, 32, 32, True,  None, "<f2", 4),
]


def run(bench, folder, case, backend):
    """None when right, else what is wrong; a string that begins with `skipped` when the backend declines"""
    name, b, sq, sk, h, hk, d, dv, causal, how, descr, dims = case
    rng = random.Random(name)
    shapes = [(b, sq, h, d), (b, sk, hk, d), (b, sk, hk, dv)]
    values, paths = [], []
    for letter, shape in zip("qkv", shapes):
        values.append(rounded([rng.gauss(0, 1) for _ in range(math.prod(shape))], descr))
        paths.append(os.path.join(folder, letter + ".npy"))
        write_npy(paths[-1], shape[4 - dims:], values[-1], descr)
    out = os.path.join(folder, "o.npy")
    if os.path.exists(out):
        os.unlink(out)
    command = [bench, "--input", ",".join(paths), "--output", out, "--backend", backend]
    if causal:
        command.append("--causal")
    mask = None
    if how:
        mb, mh = (b if how[0] == "b" else 1), (h if how[1] == "h" else 1)
        bits = [rng.random() < 0.7 for _ in range(mb * mh * sq * sk)]
        path = os.path.join(folder, "m.npy")
        write_npy(path, (mb, mh, sq, sk), bits, "|b1")
        command += ["--mask", path]

        def mask(ib, ih, i, j):
            return bits[(((ib if mb > 1 else 0) * mh + (ih if mh > 1 else 0)) * sq + i) * sk + j]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode == 2 and not os.path.exists(out) and "decline" in done.stdout:
        return "skipped: " + done.stdout.strip()
    if done.returncode:
        return "exit status %d: %s" % (done.returncode, done.stdout.strip()[-300:])
    shape, got = read_npy(out)
    if shape != shapes[0][4 - dims:-1] + (dv,):
        return "o has shape %s" % (shape,)
    want = attention(*values, b, sq, sk, h, hk, d, dv, causal, mask)
    unit = 2.0 ** -11 if descr == "<f2" else 0          # o is rounded to the type of the input
    worst = max(abs(x - y) - unit * abs(y) if x == x else math.inf for x, y in zip(got, want))
    return None if worst <= TOLERANCE else "differs by %.3g" % worst


def main():
    bench = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "attn_bench")
    count = {"passed": 0, "failed": 0, "skipped": 0}
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            for backend in BACKENDS:
                fault = run(bench, folder, case, backend)
                kind = "passed" if fault is None else "skipped" if fault.startswith("skipped") else "failed"
                count[kind] += 1
                if fault:
                    print("%s: %s, %s: %s" % (kind, case[0], backend, fault))
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % count)
    return count["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
