#!/usr/bin/env python3
"""hip_torch.py - the kernels of attn_hip.c beside PyTorch's scaled_dot_product_attention, call by call in turn on one NVIDIA GPU.

    make build/cuda/sm_90a/libhip_torch.so
    python3 test/gpu/hip_torch.py [--lib NAME=FILE]... [--only forward,backward,decode,graphs,once] [--rounds N] [--quick]

Needs the package torch (PyPI). Prints tables in markdown: TFLOP/s forward (4 b h s s d, half of it causal) and backward (2.5 of that), GB/s of the keys
and values that a decode step reads. A figure is the median over rounds of the mean over calls, timed by events on the stream; every round calls all one
after the other. Outputs are compared with PyTorch's before they are timed, those of graphs when they were replayed. graphs: calls that are captured, and
replayed with other lengths in device memory. once: every kernel once, for a profiler."""
import argparse
import ctypes
import statistics
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}


class Library:
    def __init__(self, name, path):
        self.name, self.lib = name, ctypes.CDLL(path)
        self.lib.hip_torch_query.restype = ctypes.c_int64

    def call(self, size, causal, tensors):
        """a function without arguments, and the kernel's name"""
        sizes = (ctypes.c_int64 * 6)(*size)
        pointers = (ctypes.c_void_p * 10)(*[t.data_ptr() if t is not None else None for t in tensors])
        text = ctypes.create_string_buffer(200)
        dtype = DTYPES[tensors[0].dtype]
        need = self.lib.hip_torch_query(sizes, dtype, int(causal), pointers, text, ctypes.c_size_t(200))
        if need < 0:
            raise RuntimeError(text.value.decode())
        space = torch.empty(max(need, 1), dtype=torch.uint8, device="cuda")
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

        def run(keep=(sizes, pointers, space, tensors)):
            s = self.lib.hip_torch_run(sizes, dtype, int(causal), pointers, ctypes.c_void_p(space.data_ptr() if need else None), ctypes.c_size_t(need), stream)
            if s:
                raise RuntimeError(f"status {s}")
        return run, text.value.decode()


def seconds(calls, rounds):
    """the medians of several functions"""
    times = [[] for _ in calls]
    reps = []
    for f in calls:
        f(), torch.cuda.synchronize()
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record(), f(), f(), b.record(), b.synchronize()
        reps.append(max(3, min(200, int(10 / max(a.elapsed_time(b) / 2, 1e-3)))))
    for _ in range(rounds):
        for n, f in enumerate(calls):
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            f()
            a.record()
            for _ in range(reps[n]):
                f()
            b.record(), b.synchronize()
            times[n].append(a.elapsed_time(b) / reps[n] / 1e3)
    return [statistics.median(t) for t in times]


def graphed(f):
    """the function as a graph of its own: decode steps are shorter than a launch takes the host"""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        f(stream), f(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            f(stream)
    return graph.replay


def difference(got, want):
    got, want = got.float(), want.float()
    return ((got - want).norm() / want.norm()).item()


def made(shape, dtype):
    return torch.randn(shape, dtype=torch.float32, device="cuda").to(dtype)


def peers():
    found = [("flash", SDPBackend.FLASH_ATTENTION)]
    return found + [("cudnn", SDPBackend.CUDNN_ATTENTION)]


def problem(b, s, skv, h, hkv, d, dtype):
    q, o = made((b, s, h, d), dtype), torch.empty((b, s, h, d), dtype=dtype, device="cuda")
    k, v = made((b, skv, hkv, d), dtype), made((b, skv, hkv, d), dtype)
    return q, k, v, o, torch.empty((b, s, h), dtype=torch.float32, device="cuda")


def torch_forward(q, k, v, causal, backend, gqa=False):
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))

    def run():
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=gqa)
    return run


def tried(make):
    try:
        f = make()
        f()
        torch.cuda.synchronize()
        return f
    except RuntimeError as e:
        print("not run:", str(e).split("\n")[0], file=sys.stderr)
        torch.cuda.synchronize()
        return None


def row(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def table(libs, args, backward):
    names = [lib.name for lib in libs] + ["torch " + n for n, _ in peers()]
    row(["pass", "dtype", "D", "S", "mask", "kernel"] + names + ["of torch flash", "error"])
    row(["---"] * (len(names) + 8))
    for dtype in [torch.bfloat16, torch.float16] if not args.quick else [torch.bfloat16]:
        for d in (64, 128):
            for s in ([1024, 2048, 4096, 8192, 16384] if not args.quick else [1024, 4096, 16384]):
                for causal in (False, True):
                    b, h = max(1, 16384 // s), 2048 // d
                    flops = 4 * b * h * s * s * d * (0.5 if causal else 1) * (2.5 if backward else 1)
                    torch.manual_seed(s + d)
                    q, k, v, o, lse = problem(b, s, s, h, h, d, dtype)
                    size, kernel, calls = (b, s, s, h, h, d), "", []
                    ours = [lib.call(size, causal, (q, k, v, o, lse, *[None] * 5)) for lib in libs]
                    want = torch_forward(q, k, v, causal, SDPBackend.FLASH_ATTENTION)().transpose(1, 2)
                    error = 0
                    for f, kernel in ours:
                        o.fill_(float("nan")), f(), torch.cuda.synchronize()
                        error = max(error, difference(o, want))
                    if backward:
                        dout = made(q.shape, dtype)
                        grads = [torch.full_like(q, float("nan")) for _ in range(3)]
                        ours = [lib.call(size, causal, (q, k, v, o, lse, dout, *grads, None)) for lib in libs]
                        leaves = [t.detach().clone().requires_grad_() for t in (q, k, v)]
                        theirs = []
                        for _, backend in peers():
                            def make(backend=backend):
                                out = torch_forward(*leaves, causal, backend)()
                                up = dout.transpose(1, 2)
                                return lambda: torch.autograd.grad(out, leaves, up, retain_graph=True)
                            theirs.append(tried(make))
                        want = theirs[0]()
                        error = 0
                        for f, kernel in ours:
                            for g in grads:
                                g.fill_(float("nan"))
                            f(), torch.cuda.synchronize()
                            error = max([error] + [difference(g, w) for g, w in zip(grads, want)])
                    else:
                        theirs = [tried(lambda backend=backend: torch_forward(q, k, v, causal, backend)) for _, backend in peers()]
                    calls = [f for f, _ in ours] + [f for f in theirs if f]
                    t = iter(seconds(calls, args.rounds))
                    times = [next(t) for _ in ours] + [next(t) if f else None for f in theirs]
                    flash = times[len(ours)]
                    row(["backward" if backward else "forward", str(dtype).split(".")[1], str(d), str(s), "causal" if causal else "full", kernel] +
                        [f"{flops / x / 1e12:.0f}" if x else "not run" for x in times] +
                        ["/".join(f"{flash / x:.2f}" for x in times[:len(ours)]), f"{error:.1e}"])


def bandwidth():
    """bytes a second that reading takes: the sum of a gigabyte of f32, and a copy of it, both ways counted"""
    x = torch.ones(1 << 28, dtype=torch.float32, device="cuda")
    y = torch.empty_like(x)
    t = seconds([lambda: torch.sum(x), lambda: y.copy_(x), lambda: torch.amax(x)], 5)
    return x.nbytes / min(t[0], t[2]), 2 * x.nbytes / t[1]


def decode(libs, args):
    read, copy = bandwidth()
    print(f"\nread {read / 1e9:.0f} GB/s, copied {copy / 1e9:.0f} GB/s\n")
    row(["batch", "keys", "rows", "kernel"] + [lib.name + " GB/s" for lib in libs] + ["of reading", "torch flash GB/s", "error"])
    row(["---"] * (len(libs) + 7))
    for b, skv, rows in ((1, 8192, 1), (1, 65536, 1), (16, 8192, 1), (8, 65536, 1), (64, 1024, 1), (1, 65536, 4), (16, 8192, 4)):
        h, hkv, d = 32, 8, 128
        q, k, v, o, lse = problem(b, rows, skv, h, hkv, d, torch.bfloat16)
        size = (b, rows, skv, h, hkv, d)
        want = torch_forward(q, k, v, False, SDPBackend.FLASH_ATTENTION, True)().transpose(1, 2)
        calls, error, kernel = [], 0, ""
        for lib in libs:
            def f(stream, lib=lib):
                lib.call(size, False, (q, k, v, o, lse, *[None] * 5))[0]()
            o.fill_(float("nan")), f(None), torch.cuda.synchronize()
            error = max(error, difference(o, want))
            kernel = lib.call(size, False, (q, k, v, o, lse, *[None] * 5))[1]
            held = []

            def g(stream, lib=lib, held=held):
                if not held:
                    held.append(lib.call(size, False, (q, k, v, o, lse, *[None] * 5))[0])
                held[0]()
            calls.append(tried(lambda g=g: graphed(g)))
        theirs = tried(lambda: graphed(lambda stream: torch_forward(q, k, v, False, SDPBackend.FLASH_ATTENTION, True)()))
        made_calls = [c for c in calls + [theirs] if c]
        t = iter(seconds(made_calls, args.rounds))
        for c in calls:
            o.fill_(float("nan"))
            if c:
                c(), torch.cuda.synchronize()
                error = max(error, difference(o, want))
        rate = [(k.nbytes + v.nbytes) / next(t) if c else None for c in calls + [theirs]]
        row([str(b), str(skv), str(rows), kernel] + [f"{x / 1e9:.0f}" if x else "not run" for x in rate[:-1]] +
            ["/".join(f"{x / read:.2f}" if x else "-" for x in rate[:-1]), f"{rate[-1] / 1e9:.0f}" if rate[-1] else "not run", f"{error:.1e}"])


def graphs(libs):
    """a forward call, a decode step and a backward as graphs, replayed with other lengths"""
    for lib in libs:
        for name, rows, backward in (("forward", 512, False), ("decode", 1, False), ("backward", 512, True)):
            b, skv, h, hkv, d, dtype = 3, 2048, 8, 2, 128, torch.bfloat16
            q, k, v, o, lse = problem(b, rows, skv, h, hkv, d, dtype)
            used = torch.tensor([2048, 900, 513], dtype=torch.int32, device="cuda")
            dout = made(q.shape, dtype)
            grads = [torch.zeros_like(t) for t in (q, k, v)]
            size, worst = (b, rows, skv, h, hkv, d), 0
            held = []

            def f(stream):
                if not held:
                    held.append(lib.call(size, False, (q, k, v, o, lse, *[None] * 4, used))[0])
                    if backward:
                        held.append(lib.call(size, False, (q, k, v, o, lse, dout, *grads, used))[0])
                for call in held:
                    call()
            replay = graphed(f)
            for lengths in ([2048, 900, 513], [7, 2048, 1025], [1300, 33, 64]):
                used.copy_(torch.tensor(lengths, dtype=torch.int32))
                o.fill_(float("nan")), torch.cuda.synchronize()
                replay(), torch.cuda.synchronize()
                for n, used_k in enumerate(lengths):
                    leaves = [t[n:n + 1, :m].detach().float().requires_grad_() for t, m in ((q, rows), (k, used_k), (v, used_k))]
                    want = torch_forward(*leaves, False, SDPBackend.MATH, True)().transpose(1, 2)
                    worst = max(worst, difference(o[n:n + 1], want))
                    if backward:
                        wanted = torch.autograd.grad(want, leaves, dout[n:n + 1].float())
                        worst = max([worst] + [difference(g[n:n + 1, :w.shape[1]], w) for g, w in zip(grads, wanted)])
            print(f"graph {lib.name} {name}: three lengths, {'right' if worst < 1e-2 else 'WRONG'}, largest relative difference {worst:.1e}", flush=True)


def once(libs):
    """each kernel once, for a profiler"""
    for lib in libs:
        for d in (64, 128):
            for causal in (False, True):
                b, s, h = 4, 4096, 2048 // d
                q, k, v, o, lse = problem(b, s, s, h, h, d, torch.bfloat16)
                grads = [torch.empty_like(q) for _ in range(3)]
                size = (b, s, s, h, h, d)
                lib.call(size, causal, (q, k, v, o, lse, *[None] * 5))[0]()
                lib.call(size, causal, (q, k, v, o, lse, made(q.shape, q.dtype), *grads, None))[0]()
        q, k, v, o, lse = problem(16, 1, 8192, 32, 8, 128, torch.bfloat16)
        lib.call((16, 1, 8192, 32, 8, 128), False, (q, k, v, o, lse, *[None] * 5))[0]()
    torch.cuda.synchronize()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lib", action="append", default=[])
    p.add_argument("--only", default="forward,backward,decode")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--quick", action="store_true")
    args = p.parse_args()
    libs = [Library(*x.split("=", 1)) for x in args.lib]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}\n")
    for only in args.only.split(","):
        if only in ("once", "graphs"):
            {"once": once, "graphs": graphs}[only](libs)
        elif only == "decode":
            decode(libs, args)
        else:
            table(libs, args, only == "backward")
        print()


main()
