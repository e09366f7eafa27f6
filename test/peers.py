#!/usr/bin/env python3
"""attn.h beside PyTorch's scaled_dot_product_attention and OpenBLAS (sgemm + softmax + sgemm), interleaved in one process on the
same data and threads, forward and backward, every result checked against the others. Writes test/results/peers.md.

Optional, and never part of the tests. It needs Python packages by name: torch, numpy; for the second table Debian's libopenblas0.
  python3 test/peers.py [--threads N] [--seconds S] [--out FILE]"""
import argparse
import ctypes
import ctypes.util
import datetime
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(f"skipped: {error}; peers.py needs the Python packages torch and numpy")
    sys.exit(0)

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# A flat C interface over the descriptions, so that no struct is written twice.
SHIM = r"""
#define ATTN_IMPLEMENTATION
#include "attn.h"
int peer_run(const char *backend, long s, long h, long dim, int dtype, int causal, int threads, const void *q, const void *k,
             const void *v, void *o, float *lse, const void *dout, void *dq, void *dk, void *dv, void *workspace, size_t size) {
    attn_desc d;
    attn_grad g;
    memset(&d, 0, sizeof d);
    memset(&g, 0, sizeof g);
    d.batch = 1; d.q_len = d.kv_len = s; d.heads = h; d.head_dim = dim;
    d.q.data = q; d.k.data = k; d.v.data = v; d.o.data = o; d.lse = lse;
    d.q.dtype = d.k.dtype = d.v.dtype = d.o.dtype = dtype;
    d.q.layout = d.k.layout = d.v.layout = d.o.layout = ATTN_BHSD;
    d.flags = causal ? ATTN_CAUSAL : 0;
    d.threads = threads; d.backend = backend; d.workspace = workspace; d.workspace_size = size;
    if (!dout) return attn_forward(&d);
    g.dout.data = dout; g.dq.data = dq; g.dk.data = dk; g.dv.data = dv;
    g.dout.dtype = g.dq.dtype = g.dk.dtype = g.dv.dtype = dtype;
    g.dout.layout = g.dq.layout = g.dk.layout = g.dv.layout = ATTN_BHSD;
    return attn_backward(&d, &g);
}
"""


def build():
    tmp = tempfile.mkdtemp()
    source, target = os.path.join(tmp, "peer.c"), os.path.join(tmp, "peer.so")
    with open(source, "w") as f:
        f.write(SHIM)
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-I", HERE, source, "-o", target, "-pthread"], check=True)
    lib = ctypes.CDLL(target)
    lib.attn_peak_gflops.restype = ctypes.c_double
    lib.attn_isa.restype = ctypes.c_char_p
    return lib


def pointer(t):
    return ctypes.c_void_p(t.data_ptr()) if t is not None else None


def interleave(calls, seconds):
    """Median seconds of each call, taken in turn."""
    for call in calls:
        call()
        call()
    times = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for n, call in enumerate(calls):
            start = time.perf_counter()
            call()
            times[n].append(time.perf_counter() - start)
    return [statistics.median(t) for t in times]


def case(lib, s, h, dim, dtype, causal, threads, seconds, peak):
    code = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}[dtype]
    torch.manual_seed(s + dim)
    q, k, v, dout = (torch.randn(1, h, s, dim).to(dtype) for _ in range(4))
    o, dq, dk, dv = (torch.empty_like(q) for _ in range(4))
    lse = torch.empty(h * s)

    def ours(backward):
        status = lib.peer_run(b"flash", ctypes.c_long(s), ctypes.c_long(h), ctypes.c_long(dim), code, int(causal), threads, pointer(q), pointer(k), pointer(v),
                              pointer(o), pointer(lse), pointer(dout) if backward else None, pointer(dq), pointer(dk), pointer(dv), None, ctypes.c_size_t(0))
        assert status == 0, status

    with torch.no_grad():
        forward = interleave([lambda: ours(False), lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)], seconds)
        theirs = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    error = (o.float() - theirs.float()).abs().max().item()
    for t in (q, k, v):
        t.requires_grad_(True)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def torch_backward():
        return torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)

    backward = interleave([lambda: ours(True), torch_backward], seconds)
    grads = torch_backward()
    gradient = max((a.float() - b.float()).abs().max().item() for a, b in zip((dq, dk, dv), grads))
    limit = 2e-5 if dtype == torch.float32 else 0.06
    assert error < limit and gradient < 20 * limit, (error, gradient)
    flops = 4.0 * h * dim * (s * (s + 1) / 2 if causal else s * s)
    name = f"{str(dtype)[6:]}, S {s}, D {dim}{', causal' if causal else ''}"
    rows = []
    for label, (mine, other), work, worst in (("forward", forward, flops, error), ("backward", backward, 2.5 * flops, gradient)):
        rows.append(f"| {name} | {label} | {mine * 1e3:.2f} | {work / mine * 1e-9 / peak:.2f} | {other * 1e3:.2f} | {work / other * 1e-9 / peak:.2f} | {other / mine:.2f} | {worst:.1e} |")
        print(rows[-1], flush=True)
    return rows


def openblas():
    name = ctypes.util.find_library("openblas")
    return ctypes.CDLL(name) if name else None


def blas_case(lib, blas, s, h, dim, threads, seconds):
    rng = np.random.default_rng(s)
    q, k, v = (rng.standard_normal((h, s, dim), dtype=np.float32) for _ in range(3))
    o, p = np.empty((h, s, dim), np.float32), np.empty((s, s), np.float32)
    ours_o, lse = np.empty((h, s, dim), np.float32), np.empty(h * s, np.float32)
    ptr = lambda a: a.ctypes.data_as(ctypes.c_void_p)
    f32 = ctypes.c_float

    def gemm(trans_b, m, n, kk, alpha, a, lda, b, ldb, c, ldc):
        blas.cblas_sgemm(101, 111, 112 if trans_b else 111, m, n, kk, f32(alpha), ptr(a), lda, ptr(b), ldb, f32(0), ptr(c), ldc)

    def theirs():
        for i in range(h):
            gemm(True, s, s, dim, dim ** -0.5, q[i], dim, k[i], dim, p, s)
            np.subtract(p, p.max(axis=1, keepdims=True), out=p)
            np.exp(p, out=p)
            np.divide(p, p.sum(axis=1, keepdims=True), out=p)
            gemm(False, s, dim, s, 1.0, p, s, v[i], dim, o[i], dim)

    def ours(backend):
        status = lib.peer_run(backend, ctypes.c_long(s), ctypes.c_long(h), ctypes.c_long(dim), 0, 0, threads, ptr(q), ptr(k), ptr(v), ptr(ours_o), ptr(lse), None, None, None, None, None, ctypes.c_size_t(0))
        assert status == 0, status

    times = interleave([lambda: ours(b"standard"), lambda: ours(b"flash"), theirs], seconds)
    error = float(np.abs(ours_o - o).max())
    assert error < 2e-5, error
    row = f"| S {s}, D {dim} | {times[0] * 1e3:.2f} | {times[1] * 1e3:.2f} | {times[2] * 1e3:.2f} | {times[2] / times[0]:.2f} | {times[2] / times[1]:.2f} | {error:.1e} |"
    print(row, flush=True)
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--out", default=os.path.join(HERE, "test", "results", "peers.md"))
    args = parser.parse_args()
    lib = build()
    torch.set_num_threads(args.threads)
    peak = lib.attn_peak_gflops(0, args.threads)
    model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, capture_output=True, text=True).stdout.strip()
    lines = ["# attn.h beside its peers", "",
             f"{model}, {lib.attn_isa().decode()}, {args.threads} thread(s), f32 FMA peak {peak:.0f} GFLOP/s, PyTorch {torch.__version__}, commit {commit}, "
             f"{datetime.date.today()}. Batch 1, {args.heads} heads, [B,H,S,D]; medians of interleaved calls; `fraction` is of that peak, FLOPs of visible pairs, "
             "backward 2.5 times the forward's. Times in ms. Command: `make peers`.", "",
             "| case | pass | attn.h | fraction | PyTorch | fraction | attn.h is faster by | largest difference |", "|---|---|---|---|---|---|---|---|"]
    for dtype, s, dim, causal in [(torch.float32, 1024, 64, False), (torch.float32, 1024, 128, False), (torch.float32, 2048, 64, True), (torch.float32, 2048, 128, True),
                                  (torch.float32, 128, 64, False), (torch.bfloat16, 1024, 64, False), (torch.float16, 1024, 64, False)]:
        lines += case(lib, s, args.heads, dim, dtype, causal, args.threads, args.seconds, peak)
    blas = openblas()
    if blas:
        blas.openblas_set_num_threads(args.threads)
        lines += ["", "Against OpenBLAS: sgemm, softmax by NumPy, sgemm.", "", "| case | standard | flash | OpenBLAS | standard is faster by | flash is faster by | largest difference |", "|---|---|---|---|---|---|---|"]
        for s, dim in [(128, 64), (512, 64), (1024, 64), (1024, 128)]:
            lines.append(blas_case(lib, blas, s, args.heads, dim, args.threads, args.seconds))
    else:
        lines += ["", "OpenBLAS: skipped, not installed."]
    os.makedirs(os.path.dirname(args.out), exist_ok=True)
    with open(args.out, "w") as f:
        f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
