"""test/build/torch_ext.py SHARED_OBJECT - examples/torch_ext.cpp beside scaled_dot_product_attention: the same output and gradients, and how
long both take. By hand, `make torch-ext`; it needs the package torch (PyPI)."""
import statistics
import sys
import time

import torch

torch.ops.load_library(sys.argv[1])
counts = [0, 0]


def both(q, k, v, causal, dout):
    """(o, dq, dk, dv) of the operator and of PyTorch in f64."""
    results = []
    for exact in (False, True):
        x = [t.detach().to(torch.float64) if exact else t.detach() for t in (q, k, v)]
        x = [t.requires_grad_() for t in x]
        if exact:
            o = torch.nn.functional.scaled_dot_product_attention(*x, is_causal=causal, enable_gqa=True)
        else:
            o = torch.ops.attn.attention(*x, causal)
        o.backward(dout.to(o.dtype))
        results.append([o.detach(), *(t.grad for t in x)])
    return results


def check(name, q, k, v, causal, bound):
    dout = torch.randn(*q.shape[:3], v.shape[3]).to(q.dtype)
    ours, theirs = both(q, k, v, causal, dout)
    worst = max(float((a.double() - b).abs().max() / b.abs().max()) for a, b in zip(ours, theirs))
    counts[not worst < bound] += 1
    print(f"{name:46} largest difference {worst:.1e}{'' if worst < bound else '  FAILED'}")


def seconds(call, rounds=15):
    times = []
    for _ in range(rounds + 2):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


torch.manual_seed(1)
draw = lambda b, h, s, d, dtype=torch.float32: torch.randn(b, h, s, d).to(dtype)
for dtype, bound in ((torch.float32, 1e-5), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)):
    for causal in (False, True):
        check(f"{dtype}, causal {causal}", draw(2, 4, 70, 32, dtype), draw(2, 4, 70, 32, dtype), draw(2, 4, 70, 48, dtype), causal, bound)
check("two kv heads for six", draw(1, 6, 33, 64), draw(1, 2, 50, 64), draw(1, 2, 50, 64), False, 1e-5)
qkv = torch.randn(2, 40, 3, 5, 16)
check("views of a packed buffer", *(qkv[:, :, n].transpose(1, 2) for n in range(3)), True, 1e-5)
check("keys expanded over the batch", draw(3, 2, 20, 16), draw(1, 2, 20, 16).expand(3, 2, 20, 16), draw(3, 2, 20, 16), False, 1e-5)
check("rows that are not dense", *(draw(1, 2, 12, 10).transpose(2, 3).contiguous().transpose(2, 3) for _ in range(3)), False, 1e-5)
torch.set_num_threads(1)
for dtype in (torch.float32, torch.bfloat16):
    x = [draw(1, 8, 1024, 64, dtype).requires_grad_() for _ in range(3)]
    theirs, ours = (lambda: torch.nn.functional.scaled_dot_product_attention(*x)), (lambda: torch.ops.attn.attention(*x, False))
    dout = draw(1, 8, 1024, 64, dtype)
    forward = seconds(theirs) / seconds(ours)
    whole = seconds(lambda: theirs().backward(dout)) / seconds(lambda: ours().backward(dout))
    print(f"8 heads, S 1024, D 64, {dtype}, one thread: {forward:.2f} times as fast as PyTorch {torch.__version__}, with the backward {whole:.2f}")
print(f"{counts[0]} passed, {counts[1]} failed, 0 skipped")
sys.exit(counts[1] > 0)
