#!/usr/bin/env python3
"""test/bench/figures_test.py [attn_bench] - the figures of the rows and those beside them: the peak memory of a call is that
of the call alone, what bounds it follows from its own work, and every figure that another system published is printed."""

import json
import os
import re
import sys
import tempfile

from bench_test import COUNT, checked, lacks_openblas, report, run

SMALL = ["--quick", "--iterations", 1, "--warmup", 0, "--format", "json"]


def rows_of(*arguments):
    done = run(*arguments)
    document, fault = checked(done.stdout)
    if fault:
        report("a document of %s" % (arguments,), fault + done.stderr)
    return (document or {"rows": []})["rows"]


def peak_rss(*arguments):
    rows = rows_of(*arguments, "--backend", "flash", *SMALL)
    return {r["q_len"]: r["peak_rss_bytes"] for r in rows if r["case"].startswith("memory ") and r["status"] == "ok"}


def test_memory():
    """The same before and after other rows, whose heap is no part of it."""
    shape = ["--num-heads", 1, "--seq-len"]
    alone = peak_rss("--suite", "memory", *shape, 256)
    among = peak_rss("--suite", "rocmforge,memory", *shape, "1024,256")
    near = alone.get(256) and abs(among[256] - alone[256]) < 1 << 20
    report("peak RSS is of the call alone", None if near else "alone %s, among others %s" % (alone, among))
    tensors = 4 * 1024 * 64 * 4
    grows = among[1024] - among[256] > tensors / 2
    report("peak RSS has the tensors in it", None if grows and among[1024] > tensors else str(among))
    wide = peak_rss("--suite", "memory", "--num-heads", 8, "--seq-len", 1024)
    report("peak RSS grows with the heads", None if wide[1024] - among[1024] > 6 * tensors else str((wide, among)))


def test_shares():
    """The workspace as a share of the scores; what memory the systems published beside it; what a call takes by theory."""
    for heads, shape in ((32, []), (2, ["--num-heads", 2, "--num-kv-heads", 1])):       # theirs beside their own shape alone
        rows = rows_of("--suite", "flash_v2", "--seq-len", 64, *shape, "--filter", "memory", *SMALL)
        scores = 4 * heads * 64 * 64
        for name, theirs, theory in (("standard", 0.5, scores), ("flash", 0.2, 8 * heads * 64)):
            row = next((r for r in rows if r["backend"] == name and r["status"] == "ok"), None)
            good = row and abs(row["matrix_share"] * scores / row["workspace_bytes"] - 1) < 1e-6 and row["theoretical_bytes"] == theory
            good = good and (row["note"] or "").startswith("theirs: %.1f MiB" % theirs if heads == 32 else "") == (heads == 32 or not row["note"])
            report("memory of %s, %d heads" % (name, heads), None if good else str(row or rows))


def test_bound():
    """An empty call is bound by what a call costs, a long one never; one query against a long cache by the memory."""
    rows = rows_of("--batch-size", 1, "--seq-len", 1, "--num-heads", 1, "--head-dim", 8, "--iterations", 20, "--format", "json")
    short = {r["backend"]: r["bound"] for r in rows}
    report("an empty call is overhead", None if short == {"standard": "overhead", "flash": "overhead"} else str(rows))
    good = all(r["overhead_ms"] and r["overhead_ms"] < 1 for r in rows)
    report("the time of an empty call", None if good else str([r["overhead_ms"] for r in rows]))
    one = ["--num-heads", 1, *SMALL]                # far longer than a wake of threads, however busy the machine is
    rows = rows_of("--seq-len", 256, "--backend", "reference", *one) + rows_of("--seq-len", 2048, "--backend", "flash", *one)
    long = {r["backend"]: r["bound"] for r in rows}
    report("long calls compute", None if long == {"reference": "compute", "flash": "compute"} else str(rows))
    rows = rows_of("--seq-len", 512, "--head-dim", 8, "--threads", 1, "--backend", "standard", *SMALL)
    report("scores are traffic, not overhead", None if rows[0]["bound"] in ("compute", "bandwidth") else str(rows))
    rows = rows_of("--seq-len", 1, "--kv-len", 16384, "--backend", "flash", *SMALL)
    report("a step against a cache reads", None if all(r["bound"] == "bandwidth" for r in rows) else str(rows))


# What the systems published, as it has to be found in what their suite prints, whatever of it was run. Times in ms.
ROCMFORGE = [(32, "33.463 us", 956280), (64, "264.199 us", 242242), (128, "2.588 ms", 49452), (256, "22.293 ms", 11484), (512, "348.592 ms", 1469)]
FLASH_V2 = [
    ("B1 S32 H4 D16", 0.15, 0.08, 0.12),
    ("B1 S64 H8 D32", 0.42, 0.18, 0.28),
    ("B2 S128 H8 D32", 1.25, 0.45, 0.72),
    ("B4 S256 H16 D64", 8.32, 2.85, 4.58),
    ("B8 S512 H16 D64", 32.15, 9.87, 15.92),
    ("B16 S512 H32 D64", 128.42, 35.21, None),
    ("B32 S1024 H32 D128", 512.35, 125.67, None),
    ("B64 S1024 H64 D128", 2048.92, 458.23, None),
]
FLASH_V2_MEMORY = [(64, 0.5, 0.2), (128, 2, 0.7), (256, 8, 2.5), (512, 32, 9.1), (1024, 128, 30.5), (2048, 512, 102.4)]
FLASH_V2_SCALING = [(1, 1, 1), (2, 1.85, 1.92), (4, 3.42, 3.68), (8, 6.12, 6.88), (16, 10.24, None)]
FLASH_V2_BANDWIDTH = [("forward", 612, 70.8), ("backward", 545, 63.1), ("both", 578, 66.9)]
ADAATTN = ["45.374+-0.874", "51.294+-0.622", "96.668", "5642 tok/s", "1.49, 1.76, 1.64", "1.01, 1.02, 1.01"]
OPENPI = ["less time than standard .*15 to 25%", "less memory than standard .*50 to 80%", "memory of standard .*about S?\\^?2.0"]


def line_of(*cells):
    """A line of a table that begins with these cells."""
    return re.escape("| " + " | ".join(cells) + " |")


def published():
    """(suite, what, the regular expression of a line)"""
    for n, ms, tokens in ROCMFORGE:
        case = "B1 S%d H1 D%d" % (n, n)
        yield "rocmforge", case, line_of(case, "their CPU", "fwd", ms, str(tokens))
    for case, standard, flash, backward in FLASH_V2:
        for backend, direction, ms in (("standard", "fwd", standard), ("flash", "fwd", flash), ("flash", "bwd", backward)):
            if ms is not None:
                yield "flash_v2", "%s %s %s" % (case, backend, direction), line_of(case, backend, direction, "%g ms" % ms, "-")
    for n, standard, flash in FLASH_V2_MEMORY:
        line = re.escape("| S %d | %g | " % (n, standard)) + "[^|]*" + re.escape("| %g |" % flash)
        yield "flash_v2", "memory at %d" % n, line + "[^|]*" + re.escape("| %.3gx |" % (standard / flash))
    for n, batch, weak in FLASH_V2_SCALING:
        line = re.escape("| %d | %g |" % (n, batch)) + "[^|]*"
        yield "flash_v2", "scaling of %d" % n, line + re.escape("| %s |" % ("-" if weak is None else "%g" % weak))
    for direction, gbytes, share in FLASH_V2_BANDWIDTH:
        yield "flash_v2", "bandwidth " + direction, "bandwidth, %s: theirs %d of 864 GB/s \\(%s%%\\)" % (direction, gbytes, share)
    for text in ADAATTN:
        yield "adaattn", text, re.escape(text)
    for backend, direction, cells in (("standard", "fwd", ("45.374 ms", "5642")), ("standard", "fwd+bwd", ("51.294 ms", "-"))):
        yield "adaattn", "table, " + direction, line_of("B2 S128 H8 D64", backend, direction, *cells)
    for text in OPENPI:
        yield "openpi", text, text


TINY = {
    "rocmforge": ["--seq-len", 32],
    "flash_v2": ["--seq-len", 64, "--num-heads", 2, "--batch-size", "1,2", "--head-dim", 16],
    "adaattn": ["--seq-len", 16, "--batch-size", 1, "--embed-dim", 64],
    "openpi": ["--seq-len", "16,32", "--num-heads", 2, "--num-kv-heads", 2, "--batch-size", 1, "--head-dim", 16],
}


def test_published():
    """Every published figure stands in the output of its suite, and what was run stands beside it."""
    text = {}
    for suite, flags in TINY.items():
        done = run("--suite", suite, "--quick", "--iterations", 2, "--warmup", 1, *flags)
        text[suite] = done.stdout
        report("it runs: " + suite, None if done.returncode in (0, 1) and done.stdout else done.stderr)
    for suite, what, line in published():
        report("published, %s: %s" % (suite, what), None if re.search(line, text[suite]) else "not printed")
    ours = re.search(r"^\| B1 S32 H1 D32 \| their CPU \| fwd \| 33.463 us \| 956280 \| ([\d.]+) (us|ms) \| [\d.]+ \|$", text["rocmforge"], re.M)
    report("ours beside theirs", None if ours else text["rocmforge"])
    for what, pattern in (
        ("backward as a multiple of the forward", r"^\| B1 S64 H2 D16 f16 \| flash \|( [\d.]+ \|){4} - \| [\d.]+ \|$"),
        ("memory of another shape", r"^\| S 64 \| 0.5 \| not run \| 0.2 \| not run \| 2.5x \| not run \|$"),
        ("GB/s of ours", r"^- flash_v2 bandwidth, both: .* ours, the most: [\d.e-]+ GB/s \([\d.]+% of a read loop\), B"),
        ("batch scaling of ours", r"^\| 2 \| 1.85 \| [\d.]+ \|"),
        ("weak scaling of ours", r"^\| 1 \| 1 \| 1 \| 1 \| 1 \| 1 \|$"),
    ):
        report(what, None if re.search(pattern, text["flash_v2"], re.M) else text["flash_v2"][-3000:])
    memory = run("--suite", "flash_v2", "--quick", "--seq-len", 64, "--filter", "memory").stdout
    report("memory as a factor", None if re.search(r"^\| S 64 \| 0.5 \| [\d.]+ \| 0.2 \| [\d.]+ \| 2.5x \| [\d.]+x \|$", memory, re.M) else memory[-2000:])
    share = re.search(r"score matrix is ([\d.]+)% of the memory of standard, which is [\d.]+ times that of flash", text["openpi"])
    report("share of the score matrix", None if share and 0 < float(share.group(1)) < 100 else text["openpi"][-2000:])
    memory = re.search(r"tok/s, memory [\d.]+ MB; relative to dense: forward [\d.]+, memory [\d.]+", text["adaattn"])
    report("memory of adaattn", None if memory else text["adaattn"][-2000:])


def table_of(text, line):
    """The heading of the table that has the line."""
    before = text[: text.index(line)].splitlines()
    return next((l for l in reversed(before) if " published | " in l), "")


def test_systems(folder):
    """A figure stands under the name of who published it, in the report too."""
    out = os.path.join(folder, "out")
    flags = ["--suite", "flash_v2", "--quick", "--iterations", 1, "--warmup", 0, *TINY["flash_v2"]]
    done = run(*flags, "--output-dir", out)
    report("a report of flash_v2", None if done.returncode == 0 else done.stderr)
    for where, text in (("stdout", done.stdout), ("the report", open(os.path.join(out, "summary_report.md")).read())):
        for line, head in (("| B1 S1024 H25 D64 | standard | fwd | 3.081 ms |", "| PyTorch's CPU flash, on a Sapphire Rapids socket, published |"),
                           ("| B1 S1024 H25 D64 | flash | fwd | 1.665 ms |", "| PyTorch's CPU flash, on a Sapphire Rapids socket, published |"),
                           ("| B1 S32 H4 D16 | flash | fwd | 0.08 ms |", "| flash_v2 published |")):
            got = table_of(text, line) if line in text else "no such line"
            report("%s in %s" % (line, where), None if got.startswith(head) else got)


def test_exponents(folder):
    """What stdout says of a series the files say too: its last row has the exponents, the others none yet."""
    out = os.path.join(folder, "exponents")
    done = run("--suite", "memory", "--quick", "--seq-len", "32,64,128", "--num-heads", 1, "--output-dir", out, *SMALL)
    key = lambda r: (r["case"], r["backend"], r["pass"], r["dtype"])
    files = {}
    for name in ("performance", "memory", "correctness"):
        files.update((key(r), r) for r in json.load(open(os.path.join(out, name + "_results.json")))["rows"])
    rows = (checked(done.stdout)[0] or {"rows": []})["rows"]
    for name in ("time_exponent", "memory_exponent"):
        others = [key(r) for r in rows if r[name] not in (None, files[key(r)][name])]
        known = {r["q_len"] for r in rows if r[name] is not None}
        all_have = all(r[name] is not None for r in files.values() if name == "memory_exponent")
        report(name + " of stdout and files", None if rows and not others and known == {128} and all_have else "%s %s" % (others, known))


def test_isas():
    """A fraction is one of the peak of the best ISA, also where another is forced, whose own stands in the note."""
    isas = {}
    for isa in ("avx2", "portable", ""):
        done = run("--seq-len", 256, "--backend", "flash", "--threads", 1, *SMALL, env=dict(os.environ, ATTN_ISA=isa))
        document = checked(done.stdout)[0] if done.returncode == 0 else None
        if document:
            isas[isa] = document
    best = isas[""]["rows"][0]["isa"]
    if "portable" not in isas or best == "portable":
        report("forced ISAs", "portable is the best of them", "skipped")
        return
    row = isas["portable"]["rows"][0]
    own = re.search(r"ATTN_ISA=portable: the peak of this ISA is ([\d.]+) GFLOP/s", row["note"] or "")
    peak = row["gflops"] / row["peak_fraction"]
    good = own and row["isa"] == "portable" and abs(float(own.group(1)) - peak) > 1e-3 * peak
    report("the peak of a forced ISA", None if good else "%s, of a peak of %g" % (row["note"], peak))
    note = isas[""]["rows"][0]["note"] or ""
    report("no note without one", note if "ATTN_ISA" in note else None)


def test_columns():
    """The measures of ROCmForge's table, and the module of gemma."""
    rows = rows_of("--seq-len", 1, "--suite", "rocmforge", "--backend", "flash", "--format", "json", "--iterations", 3)
    row = next((r for r in rows if r["case"].startswith("generate")), {})
    keys = ("ops_per_s", "min_ms", "max_ms", "overhead_ms", "ttft_ms", "ttft_stddev_ms", "tokens_per_s")
    report("measures of rocmforge", None if row and all(row[k] is not None for k in keys) else str(rows))
    report("a first token takes longer than a step", None if row and row["ttft_ms"] > row["p50_ms"] else str(row))
    rows = rows_of("--suite", "openpi", "--modules", "gemma,gemma_fast", "--projections", "--seq-len", 32, "--head-dim", 32, *SMALL)
    if lacks_openblas(rows):
        report("gemma with projections, a grouped module", rows[0]["note"], "skipped")
        return
    good = len(rows) == 4 and all(r["status"] == "ok" and " + OpenBLAS " in r["kernel"] and r["rows_verified"] for r in rows)
    report("gemma with projections", None if good else str(rows))
    flags = ["--projections", "--seq-len", 19, "--num-heads", 4, "--num-kv-heads", 2, "--head-dim", 16, "--v-dim", 8, "--backward"]
    rows = rows_of(*flags, "--dtype", "f32,f16,bf16", "--backend", "flash", *SMALL)
    report("a grouped module, every type and pass", None if [r["status"] for r in rows] == ["ok"] * 9 else str(rows))
    done = [r["gflops"] * r["p50_ms"] * 1e6 for r in rows if r["dtype"] == "f32"]
    products = 2.0 * 19 * 64 * (64 + 32 + 16 + 32)
    scores = 2.0 * 19 * 19 * 4 * (16 + 8)
    want = [products + scores, 2 * products + 2.5 * scores, 3 * products + 3.5 * scores]
    report("FLOPs of a grouped module", None if all(abs(a / b - 1) < 1e-6 for a, b in zip(done, want)) else str((done, want)))


def main():
    test_memory()
    test_shares()
    test_bound()
    test_published()
    test_columns()
    test_isas()
    with tempfile.TemporaryDirectory() as folder:
        test_systems(folder)
        test_exponents(folder)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % COUNT)
    return COUNT["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
