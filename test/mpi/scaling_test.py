#!/usr/bin/env python3
"""test/mpi/scaling_test.py ATTN_BENCH - attn_bench over ranks (`--suite scaling`, ATTN_MPI): every row is right, bytes sent and pairs
computed are those of a count token by token, the model's time that of its own rule, what cannot run over ranks is refused. No time is
asserted."""

import json
import math
import subprocess
import sys

BENCH = sys.argv[1]
MPIRUN = ["timeout", "60", "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader"]
MPIRUN += ["--mca", "btl_vader_single_copy_mechanism", "none", "-n"]
COUNT = {"passed": 0, "failed": 0}
SIZE = {"f32": 4, "f16": 2, "bf16": 2}


def expect(right, what, got=""):
    COUNT["passed" if right else "failed"] += 1
    if not right:
        print("failed: %s %s" % (what, got))


def run(ranks, *flags):
    command = MPIRUN + [str(ranks), BENCH] if ranks else [BENCH]
    return subprocess.run(command + list(flags), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def rows(ranks, *flags):
    done = run(ranks, "--suite", "scaling", "--quick", "--format", "json", *flags)
    try:
        return json.loads(done.stdout)["rows"]
    except ValueError:
        expect(False, "a document on %d ranks" % ranks, done.stderr)
        return []


# ------------------------------------------------------------------------------------- counted anew
def tokens(total, ranks, zigzag):
    """The tokens of each rank."""
    parts = 2 * ranks if zigzag else ranks
    begin = [total // parts * p + min(p, total % parts) for p in range(parts + 1)]
    part = [list(range(begin[p], begin[p + 1])) for p in range(parts)]
    return [part[r] + part[parts - 1 - r] if zigzag else part[r] for r in range(ranks)]


def pairs(r, q, k):
    """Of the queries of one rank and the keys of another."""
    if not r["causal"]:
        return len(q) * len(k)
    ahead = r["kv_len"] - r["q_len"]
    return sum(1 for i in q for j in k if j <= i + ahead)


def lines(n):
    return (n + 63) // 64 * 64


def ring(r, n):
    """Bytes that all ranks send, and pairs of each."""
    zigzag = r["backend"] == "zigzag"
    q, k = tokens(r["q_len"], n, zigzag), tokens(r["kv_len"], n, zigzag)
    sees = [[pairs(r, q[a], k[b]) for b in range(n)] for a in range(n)]
    sent = 0
    for b in range(n):
        far = max([(a - b) % n for a in range(n) if sees[a][b]], default=0)
        row = r["batch"] * len(k[b]) * r["kv_heads"]
        sent += far * (lines(row * r["head_dim"] * SIZE[r["kv_dtype"]]) + lines(row * r["v_dim"] * SIZE[r["kv_dtype"]]))
        if r["pass"] == "bwd" and far:
            sent += (far + 1) * row * (r["head_dim"] + r["v_dim"]) * 4
    return sent, [sum(x) for x in sees]


def ulysses(r, n):
    q, k = tokens(r["q_len"], n, False), tokens(r["kv_len"], n, False)
    size, kv_size = SIZE[r["dtype"]], SIZE[r["kv_dtype"]]
    d, v, h, hk = r["head_dim"], r["v_dim"], r["heads"] // n, r["kv_heads"] // n
    into = [(q, h * d * size), (k, hk * d * kv_size), (k, hk * v * kv_size)]
    out = [(q, h * v * size)]
    if r["pass"] == "bwd":
        into += [(q, h * v * size), (q, h * v * size), (q, h * 4)]
        out = [(q, h * d * 4), (k, hk * d * 4), (k, hk * v * 4)]
    return r["batch"] * sum(len(held[a]) * row for held, row in into + out for a in range(n) for b in range(n) if a != b)


def decode(r, n):
    each = -(-r["batch"] * r["q_len"] * r["heads"] // n) * (r["v_dim"] + 2) * 8
    return (n - 1) * r["batch"] * r["q_len"] * r["heads"] * r["head_dim"] * SIZE[r["dtype"]] + 2 * n * (n - 1) * each


def check_row(r, n):
    name = "%d ranks: %s %s %s" % (n, r["case"], r["backend"], r["pass"])
    if r["backend"] == "ulysses" and (r["heads"] % n or r["kv_heads"] % n):
        expect(r["status"] == "declined", name, r["status"])
        return
    expect(r["status"] == "ok" and r["rows_verified"] > 0 and r["max_abs_err"] < 1e-3, name, "%s %s" % (r["status"], r["note"]))
    sent = ulysses(r, n) if r["backend"] == "ulysses" else decode(r, n) if r["backend"] == "decode" else ring(r, n)[0]
    expect(r["sent_bytes"] == sent, name, "sends %s bytes, not %d" % (r["sent_bytes"], sent))
    work = [1] * n
    if r["backend"] in ("ring", "zigzag"):
        work = ring(r, n)[1]
    if r["backend"] == "decode":
        work = [len(t) for t in tokens(r["kv_len"], n, False)]
    share = max(work) * n / sum(work)
    expect(abs(r["pairs_imbalance"] - share) < 1e-6, name, "imbalance %s, not %g" % (r["pairs_imbalance"], share))
    expect((r["hidden"] is None) == (n == 1) and (n == 1 or 0 <= r["hidden"] <= 1), name, "hidden %s" % r["hidden"])
    for key in ("p50_ms", "work_ms", "comm_ms", "imbalance", "model_ms", "gflops"):
        expect(r[key] is not None and r[key] > 0, name, "%s is %s" % (key, r[key]))
    expect(r["imbalance"] is None or r["imbalance"] >= 1 - 1e-6, name, "imbalance %s" % r["imbalance"])


# --------------------------------------------------------------------------------------- the model
ASSUMED = {"CPU node": (2e12, 25e9, 2e-6), "GPU": (400e12, 50e9, 10e-6)}


def model_seconds(r):
    """Full calls, and the ring's causal ones, whose last rank has work in every step; None: not written down here."""
    n = r["ranks"]
    flops, link, delay = ASSUMED[r["kernel"]]
    q, k, d = r["q_len"] // n, r["kv_len"] // n, r["head_dim"] + r["v_dim"]
    unit = 2 * r["heads"] * d / flops
    keys = delay + k * r["kv_heads"] * d * 2 / link
    if r["backend"] == "decode":
        share = -(-r["heads"] // n) * (r["v_dim"] + 2) * 8
        query = r["heads"] * r["head_dim"] * 2
        return k * unit + math.ceil(math.log2(n)) * (delay + query / link) + 2 * (n - 1) * (delay + share / link)
    whole = r["q_len"] * (r["q_len"] + 1) / 2 if r["causal"] else r["q_len"] * r["kv_len"]
    if r["backend"] == "ulysses":
        moved = (n - 1) * (q * r["heads"] + k * r["kv_heads"]) // n * d * 2
        return whole / n * unit + 4 * (n - 1) * delay + moved / link
    if r["backend"] == "zigzag" and r["causal"]:
        return None
    own = q * (q + 1) / 2 if r["causal"] else q * k      # the step of a rank's own keys is the first
    if n == 1:
        return own * unit
    return max(own * unit, keys) + (n - 2) * max(q * k * unit, keys) + q * k * unit


def model_bytes(r):
    n, each = r["ranks"], r["kv_len"] // r["ranks"] * r["kv_heads"] * (r["head_dim"] + r["v_dim"]) * 2
    if r["backend"] == "decode":
        return decode(r, n)
    if r["backend"] == "ulysses":
        q = r["q_len"] // n * r["heads"] * (r["head_dim"] + r["v_dim"]) * 2
        return (n - 1) * (q + each)
    return n * (n - 1) * each // (2 if r["causal"] and r["backend"] == "ring" else 1)


def check_model():
    found = rows(1, "--filter", "model")
    expect(len(found) == 2 * 2 * 3 * 6 + 2 * 6, "rows of the model", len(found))
    for r in found:
        name = "%s %s on %s of %s" % (r["case"], r["backend"], r["ranks"], r["kernel"])
        if r["backend"] == "ulysses" and r["kv_heads"] % r["ranks"]:
            expect(r["status"] == "declined", name, r["status"])
            continue
        want = model_seconds(r)
        expect(r["status"] == "model" and r["p50_ms"] is None, name, r["status"])
        expect(r["sent_bytes"] == model_bytes(r), name, "sends %d bytes, not %d" % (r["sent_bytes"], model_bytes(r)))
        if want:
            expect(abs(r["model_ms"] - 1e3 * want) < 1e-5 * r["model_ms"], name, "%g ms, not %g" % (r["model_ms"], 1e3 * want))
        if r["causal"]:
            even = r["imbalance"] < 1.0001
            expect(even == (r["backend"] != "ring"), name, "imbalance %g" % r["imbalance"])


# ------------------------------------------------------------------------------------------- calls
SMALL = ["--iterations", "1", "--warmup", "0", "--filter", "ranks", "--head-dim", "8"]
for ranks in (1, 2, 3):
    found = rows(ranks, "--seq-len", "100", "--kv-len", "100", "--num-heads", "4", "--num-kv-heads", "2", "--v-dim", "5", *SMALL)
    expect(len(found) == 12, "rows on %d ranks" % ranks, len(found))
    for row in found:
        check_row(row, ranks)
    found = rows(ranks, "--seq-len", "1,5", "--kv-len", "6,200", "--dtype", "f16", *SMALL)
    expect(any(r["backend"] == "decode" for r in found), "decode on %d ranks" % ranks)
    for row in found:
        check_row(row, ranks)
check_model()
for flags, says in (
    (["--suite", "decode"], "takes --suite scaling alone"),
    ([], "takes --suite scaling alone"),
    (["--suite", "scaling", "--backend", "flash"], "not with --backend"),
    (["--suite", "scaling", "--save-baseline", "build/none.csv"], "not with --backend"),
    (["--suite", "scaling", "--seq-len", "0"], "--seq-len"),
):
    done = run(2, *flags)
    said = [line for line in done.stderr.splitlines() if line.startswith("attn_bench")]
    expect(done.returncode == 2 and len(said) == 1 and says in said[0] and not done.stdout, " ".join(flags), done.stderr)
found = rows(2, "--seq-len", "64", "--window", "9,0", *SMALL)
expect(found and all(r["status"] == "declined" for r in found), "windows over ranks")
print("%d passed, %d failed, 0 skipped" % (COUNT["passed"], COUNT["failed"]))
sys.exit(COUNT["failed"] > 0)
