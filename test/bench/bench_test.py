#!/usr/bin/env python3
"""test/bench/bench_test.py [attn_bench [calls|suites|timed ...] [stop]] - what attn_bench promises, with the
standard library only: calls, which are documents against the schema of test/bench/schema, exit codes, one line for
each bad input, reports, interruption; every suite and its table; and, timed, comparisons of measurements, which want
the machine for themselves. With `stop`, nothing runs after the first test that fails."""

import csv
import io
import json
import math
import os
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BENCH = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "attn_bench")
SCHEMA = json.load(open(os.path.join(HERE, "schema", "attn_bench.json")))
COUNT = {"passed": 0, "failed": 0, "skipped": 0}


def report(name, fault, kind=None):
    kind = kind or ("passed" if fault is None else "failed")
    COUNT[kind] += 1
    if kind != "passed":
        print("%s: %s: %s" % (kind, name, fault))


def run(*arguments, **options):
    return subprocess.run(
        [BENCH] + [str(a) for a in arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options
    )


def heeding():
    """Run in a child: what nohup or a shell's `&` made ignored is not, so that the signals of these tests reach it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


# ------------------------------------------------------------------------------------------- schema
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name in ("integer", "number"):
        return isinstance(value, int if name == "integer" else (int, float)) and not isinstance(
            value, bool
        )
    return isinstance(value, TYPES[name])


def violations(value, schema, where="document"):
    """The keywords of JSON Schema that the schema uses."""
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type(value, t) for t in types):
        return ["%s: is not of type %s: %r" % (where, types, value)]
    if "enum" in schema and value not in schema["enum"]:
        return ["%s: %r is not of %s" % (where, value, schema["enum"])]
    found = []
    if is_type(value, "number"):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            found.append("%s: %r is out of range" % (where, value))
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        found.append("%s: %r does not match %s" % (where, value, schema["pattern"]))
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        found += [
            "%s: %s is missing" % (where, k) for k in schema.get("required", []) if k not in value
        ]
        if schema.get("additionalProperties") is False:
            found += ["%s: %s is unknown" % (where, k) for k in value if k not in properties]
        for k in value:
            if k in properties:
                found += violations(value[k], properties[k], where + "." + k)
    if isinstance(value, list):
        for i, item in enumerate(value):
            found += violations(item, schema.get("items", {}), "%s[%d]" % (where, i))
    return found


def checked(text):
    """A document: (None, why) or (the document, None)."""
    try:
        document = json.loads(text)
    except ValueError as error:
        return None, "is not JSON: %s" % error
    wrong = violations(document, SCHEMA)
    return (document, None) if not wrong else (None, "; ".join(wrong[:3]))


def test_schema():
    """The validator must be able to fail."""
    good = run("1", "16", "1", "8", "--iterations", 2, "--format", "json")
    document, fault = checked(good.stdout)
    report("schema accepts a document", fault)
    for name, spoil in (
        ("missing key", lambda d: d["rows"][0].pop("gflops")),
        ("unknown key", lambda d: d["rows"][0].update(extra=1)),
        ("wrong type", lambda d: d["rows"][0].update(batch="1")),
        ("out of range", lambda d: d["rows"][0].update(mean_ms=-1)),
        ("unknown status", lambda d: d["rows"][0].update(status="fine")),
    ):
        copy = json.loads(good.stdout)
        spoil(copy)
        report("schema refuses: " + name, None if violations(copy, SCHEMA) else "it accepted it")


# ------------------------------------------------------------------------------------------- suites
SMALL = ["--quick", "--iterations", 3, "--warmup", 1, "--format", "json"]
SUITES = {
    "rocmforge": ["--seq-len", "32,64"],
    "openpi": ["--seq-len", "32,64", "--num-heads", 4, "--num-kv-heads", 2, "--batch-size", 1],
    "flash_v2": ["--seq-len", 64, "--batch-size", 2],
    "adaattn": ["--seq-len", 32, "--batch-size", 2],
    "decode": ["--kv-len", 96],
    "memory": ["--seq-len", "64,128"],
    "scaling": ["--seq-len", 64],
    "correctness": ["--seq-len", 33, "--num-heads", 4],
}


def test_suites():
    for suite, flags in SUITES.items():
        done = run("--suite", suite, *SMALL, *flags)
        document, fault = checked(done.stdout)
        if not fault and done.returncode not in ((0, 1) if suite == "openpi" else (0,)):
            fault = "exit code %d: %s" % (done.returncode, done.stderr.strip()[-300:])
        rows = document["rows"] if document else []
        if not fault and not any(r["status"] == "ok" for r in rows):
            fault = "no row is ok"
        if not fault:
            bad = [r for r in rows if r["status"] in ("wrong", "failed")]
            fault = (
                "%s %s: %s" % (bad[0]["case"], bad[0]["backend"], bad[0]["note"]) if bad else None
            )
        if not fault:
            silent = [r for r in rows if r["status"] != "ok" and not r["note"]]
            fault = "%s says nothing about its status" % silent[0]["case"] if silent else None
        if not fault:
            blind = [
                r
                for r in rows
                if r["status"] == "ok"
                and r["mean_ms"] is not None
                and (
                    r["stddev_ms"] is None
                    or (r["backend"] != "reference" and r["max_abs_err"] is None)
                )
            ]
            fault = (
                "%s: a mean without spread or verification" % blind[0]["case"] if blind else None
            )
        report("suite " + suite, fault)


def test_counting():
    """How the three systems that count otherwise do so; the loss of 16-bit types against f32."""
    for suite, flags in (
        ("openpi", ["--modules", "gemma_fast"]),
        ("flash_v2", []),
        ("adaattn", []),
        ("rocmforge", []),
    ):
        done = run(
            "--suite",
            suite,
            *SMALL,
            "--seq-len",
            32,
            "--num-heads",
            4,
            "--num-kv-heads",
            2,
            "--batch-size",
            1,
            "--iterations",
            1,
            "--warmup",
            0,
            *(flags if suite != "adaattn" else ["--num-kv-heads", 4])
        )
        rows = json.loads(done.stdout)["rows"]
        counts = {r["their_flops"] for r in rows if r["mean_ms"] is not None}
        wanted = {
            "openpi": "B*H*S^2*(2*D + 3)",
            "flash_v2": "2*B*S^2*H*D",
            "adaattn": "B*H*S^2*(4*D + 5)",
        }.get(suite)
        report("their FLOPs, " + suite, None if counts == {wanted} else str(counts))
        if suite == "openpi":
            report(
                "a module alone has a verdict", None if done.returncode == 0 else done.stdout[-300:]
            )
        losses = [r["note"] for r in rows if r["case"].startswith("loss") and r["dtype"] != "f32"]
        report(
            "f16 against f32, " + suite,
            None if all("against f32 it loses up to" in (n or "") for n in losses) else str(losses),
        )


def lacks_openblas(rows):
    """Whether all rows are declined because their products are OpenBLAS's."""
    return rows and all(r["status"] == "declined" and "need OpenBLAS" in r["note"] for r in rows)


def test_lengths():
    """Every length from 1 on, flash beside standard; a module's FLOPs are the same for both."""
    listed = run("--suite", "scaling", "--list").stdout
    lengths = [
        int(n)
        for n in re.findall(
            r"^case scaling: B1 S(\d+) H8 D64, f32, kv f32, fwd, \d+ thr.*: standard flash$",
            listed,
            re.M,
        )
    ]
    report(
        "scaling has every length",
        None if set(range(1, 65)) <= set(lengths) and max(lengths) == 2048 else str(lengths),
    )
    done = run("--projections", "--seq-len", 32, "--iterations", 2, "--format", "json")
    rows = json.loads(done.stdout)["rows"]
    if lacks_openblas(rows):
        report("FLOPs of a module", rows[0]["note"], "skipped")
        return
    work = [r["gflops"] * r["p50_ms"] for r in rows]
    report(
        "FLOPs of a module",
        None if len(work) == 2 and abs(work[0] / work[1] - 1) < 1e-6 else str(work),
    )


def test_gpu(folder):
    """Without a GPU, a row says why; alone it is bad input. With one, its times are there."""
    refused("--device cpu with hip", folder, "--device", "cpu", "--backend", "hip,flash", "--seq-len", 64)
    table = run("--device", "cpu", "--seq-len", 32, "--iterations", 1).stdout
    report("--device cpu", None if " flash " in table and not re.search(r"^\S.* hip ", table, re.M) else table)
    done = run("--backend", "hip,flash", "--seq-len", 64, "--iterations", 2, "--format", "json")
    rows = {r["backend"]: r for r in json.loads(done.stdout)["rows"]}
    hip = rows["hip"]
    if hip["status"] == "declined":
        report(
            "hip says why not",
            (
                None
                if hip["note"] and rows["flash"]["status"] == "ok" and done.returncode == 0
                else str(hip)
            ),
        )
        table = run("--backend", "hip,flash", "--seq-len", 64, "--iterations", 2).stdout
        report(
            "no table CPU against GPU", None if "CPU against GPU: no GPU here: " in table else table
        )
        refused("hip alone", folder, "--backend", "hip", "--seq-len", 64)
        refused("--device hip", folder, "--device", "hip", "--seq-len", 64)
        return
    good = (
        hip["status"] == "ok"
        and 0 < hip["kernel_ms"] <= hip["total_ms"] * 1.5
        and hip["device_bytes"] > 0
    )
    report(
        "kernel and total time of hip", None if good and hip["peak_fraction"] is None else str(hip)
    )
    table = run("--backend", "hip,flash", "--seq-len", 64, "--iterations", 2).stdout
    report(
        "table CPU against GPU",
        None if "| CPU against GPU |" in table and "it pays" in table else table,
    )


def samples_fault(r):
    """A row's figures are those of its samples; the interval is one of these."""
    x = sorted(r["samples_ms"])
    n = len(x)
    close = lambda a, b: abs(a - b) <= 2e-5 * b + 1e-9
    wanted = {
        "iterations": n,
        "mean_ms": statistics.fmean(x),
        "p50_ms": statistics.median(x),
        "min_ms": x[0],
        "max_ms": x[-1],
        "tokens_per_s": 1e3 * r["batch"] * r["q_len"] / statistics.median(x),
        "ops_per_s": 1e3 / statistics.median(x),
    }
    for key, share in (("p95_ms", 0.95), ("p99_ms", 0.99)):
        at = share * (n - 1)
        low = int(at)
        wanted[key] = x[low] + (at - low) * (x[min(low + 1, n - 1)] - x[low])
    outside = 0
    while sum(math.comb(n, k) for k in range(outside + 1)) <= 0.025 * 2**n:
        outside += 1
    outside = max(outside - 1, 0)
    if n > 5:
        wanted["p50_low_ms"], wanted["p50_high_ms"] = x[outside], x[n - 1 - outside]
    wrong = [k for k in wanted if r[k] is None or not close(r[k], wanted[k])]
    return "%s: not that of the samples: %s" % (r["case"], wrong) if wrong else None


def shares_follow(r):
    """Shares are of the peak and the bandwidth that the row has."""
    pairs = (("gflops", "peak_fraction", "peak_gflops"), ("gbytes_per_s", "bandwidth_fraction", "bandwidth_gbs"))
    return all(r[of] and (r[share] is None or abs(r[share] * r[of] / r[rate] - 1) < 1e-6) for rate, share, of in pairs)


def test_numbers():
    """FLOPs, ratio and percentiles follow their definitions."""
    document, fault = checked(
        run(
            "--suite",
            "rocmforge",
            "--quick",
            "--seq-len",
            64,
            "--iterations",
            5,
            "--format",
            "json",
        ).stdout
    )
    report("rocmforge document", fault)
    for r in document["rows"] if document else []:
        flops = (
            2.0 * r["q_len"] * r["kv_len"] * r["heads"] * (r["head_dim"] + r["v_dim"]) * r["batch"]
        )
        right = (
            abs(r["gflops"] * r["p50_ms"] * 1e6 / flops - 1) < 1e-6
            and abs(r["ratio"] * r["p50_ms"] / 0.264199 - 1) < 1e-6
            and samples_fault(r) is None
            and shares_follow(r)
            and (r["backend"] != "reference" or r["iterations"] <= 3)
        )
        report("figures of " + r["backend"], None if right else str(r))
    causal, fault = checked(
        run(
            "--seq-len", 33, "--causal", "--iterations", 2, "--backend", "flash", "--format", "json"
        ).stdout
    )
    r = causal["rows"][0] if causal else None
    report(
        "causal FLOPs count visible pairs",
        (
            None
            if r and abs(r["gflops"] * r["p50_ms"] * 1e6 / (2 * 33 * 34 / 2 * 8 * 128) - 1) < 1e-6
            else fault or str(r)
        ),
    )


def test_shape():
    done = run("1", "64", "8", "32")
    report(
        "four numbers",
        (
            None
            if done.returncode == 0 and "total ms" in done.stdout and " of peak " in done.stdout
            else "%d: %s" % (done.returncode, done.stdout + done.stderr)
        ),
    )
    texts = {
        f: run("1", "32", "2", "16", "--iterations", 2, "--format", f)
        for f in ("table", "csv", "json", "markdown")
    }
    report("formats exit 0", None if all(t.returncode == 0 for t in texts.values()) else str(texts))
    rows = list(csv.DictReader(io.StringIO(texts["csv"].stdout)))
    document = json.loads(texts["json"].stdout)
    same = [
        list(r) == list(j) and r["case"] == j["case"] and r["backend"] == j["backend"]
        for r, j in zip(rows, document["rows"])
    ]
    report("csv has the rows and keys of json", None if same and all(same) else str(rows))
    report("nothing on stderr of a pipe", texts["json"].stderr or None)
    lists = [run("--suite", "correctness", "--list").stdout for _ in range(2)]
    report(
        "the same cases in the same order",
        None if lists[0] == lists[1] and lists[0].count("\ncase ") > 40 else lists[0],
    )


def test_table():
    """The default table fits 100 columns and has the columns a reader decides by; --wide has all."""
    brief = "case backend pass n p50 GFLOP/s of peak vs std".split()
    for suite, flags in SUITES.items():
        done = run("--suite", suite, "--quick", "--iterations", 1, "--filter", "S", *flags, "--backend", "flash,standard")
        lines = done.stdout.split("\n- ")[0].splitlines()
        long = [line for line in lines if len(line) > 100]
        report("table of %s fits" % suite, long[0] if long else None)
        heads = [line.split() for line in lines if line.startswith("case ")]
        if suite in ("rocmforge", "flash_v2", "adaattn"):
            modes = brief[:5] + "vs std max err max cert".split() if suite == "adaattn" else brief
            right = heads and heads[0] == modes + ["speedup", "status"]
            report("columns of " + suite, None if right else str(heads))
    for flags in ("--tune --quick 1 64 2 32", "--ablate --quick 1 64 2 32", "1 64 2 32 --backward", "--projections 1 64 2 32"):
        lines = run("--iterations", 1, *flags.split()).stdout.split("\n- ")[0].splitlines()
        long = [line for line in lines if len(line) > 100]
        report("table fits: " + flags, long[0] if long else None if lines else "no table")
    wide = run("1", "16", "1", "8", "--iterations", 2, "--wide").stdout
    head = next(line for line in wide.splitlines() if line.startswith("suite "))
    missing = [w for w in ("case", "kernel", "p99", "of bandw.", "max err", "note") if w not in head]
    report("--wide has every column", str(missing) if missing or len(head) < 400 else None)
    report("microseconds", None if re.search(r" \d[.\d]* us", wide) else wide)


def test_modes():
    """AdaAttn's modes: every row measured, within its certificate, beside dense; what stays exact says why."""
    small = ["--suite", "adaattn", "--quick", "--seq-len", 400, "--batch-size", 1, "--embed-dim", 96, "--num-heads", 4]
    done = run(*small, "--iterations", 2, "--warmup", 0, "--filter", "speed", "--format", "json")
    document, fault = checked(done.stdout)
    rows = document["rows"] if document else []
    modes = [r for r in rows if r["backend"] in ("precision", "rank")]
    report("modes run", fault or (None if modes and done.returncode == 0 else done.stderr))
    bad = [r for r in rows if r["status"] != "ok" and "OpenBLAS" not in (r["note"] or "")]
    report("each row of a mode is measured", str(bad[:1]) if bad else None)
    ran = [r for r in modes if r["status"] == "ok"]
    forward = [r for r in ran if r["pass"] == "fwd"]
    bad = [r for r in forward if not (r["max_abs_err"] <= r["max_cert"] + 1e-5 and r["max_cert"] <= r["tolerance"] * 8)]
    report("errors are within certificates, these within tolerances", str(bad[:1]) if bad or not forward else None)
    silent = [r for r in ran if not re.search(r"dimensions, effective rank|^int16 in \d+ of \d+ tiles, \d+ rows redone", r["note"])]
    silent += [r for r in ran if r["backend"] == "precision" and " 0 of " in r["note"].split(" tiles")[0][5:] and "redone; " not in r["note"]]
    report("a mode says what it did, and why not", str(silent[:1]) if silent else None)
    plain = [r for r in rows if r["backend"] == "flash"]
    report("exact rows have neither", None if plain and all(r["max_cert"] is None and r["tolerance"] is None for r in plain) else str(plain[:1]))
    entropy = [re.findall(r"entropy of heads((?: [\d.]+)+) of ([\d.]+), sparsity ([\d.]+)", r["note"] or "") for r in rows if r["case"].startswith("metrics")]
    good = len(entropy) == 3 and all(e and 0 < float(e[0][2]) < 1 and all(0 < float(x) < float(e[0][1]) for x in e[0][0].split()) for e in entropy)
    report("metrics of heads", None if good else str(entropy))
    text = run(*small, "--iterations", 2, "--warmup", 0, "--filter", "B1 S400 H4 D24 speed").stdout
    table = re.findall(r"^\| (?:module )?B1 .*? speed \| (precision|rank) \| ([\d., ]+) \| ([\d., ]+) \| [\d.e+-]+ \| [\d.e+-]+ \|$", text, re.M)
    inverse = [abs(float(x) * float(y) - 1) < 0.5 for _, ours, theirs in table for x, y in zip(ours.split(", "), theirs.split(", ")) if float(x) > 0.1 and float(y) > 0.1]
    report("relative table, both ways", None if len(table) >= 2 and len(inverse) > 2 and all(inverse) else text[-2500:])
    refusal = run("1", "16", "1", "8", "--backend", "rank")
    report("a mode needs a policy", None if refusal.returncode == 2 and "only in cases with a policy" in refusal.stderr else refusal.stderr)


def test_suites_are_data():
    """A suite is rows of tables: no code compares the name of one."""
    listed = re.findall(r"^suite (\w+): ", run("--list").stdout, re.M)
    source = re.sub(r"/\*.*?\*/", "", open(os.path.join(ROOT, "attn_bench.c")).read(), flags=re.S)
    named = re.findall(r'\b(?:str\w*cmp|strstr|listed|has_\w+)\([^;{]*?"(?:%s)"' % "|".join(listed), source)
    report("no code asks for a suite by name", named or (None if len(listed) > 8 else str(listed)))
    refusal = run("--suite", "nothing").stderr
    chosen = ", ".join(SUITES)
    report("--suite names those it takes", None if refusal.rstrip().endswith("must be of " + chosen) else refusal)
    refusal = run("--suite", "openpi", "--modules", "gamma").stderr
    report("--modules names those it takes", None if refusal.rstrip().endswith("must be of gemma, gemma_fast") else refusal)
    refusal = run("--suite", "memory", "--modules", "gemma").stderr
    report("--modules names its suite", None if refusal.rstrip().endswith("only with --suite openpi") else refusal)
    small = ["--iterations", 1, "--warmup", 0, "--seq-len", 32, "--format", "json"]
    for suites, judged in (("memory", False), ("memory,openpi", True)):
        done = run("--suite", suites, "--quick", "--num-heads", 2, "--num-kv-heads", 2, "--batch-size", 1, *small)
        verdict = json.loads(done.stdout)["verdict"]
        code = {None: 0, "reached": 0, "not reached": 1}[verdict]
        good = (verdict is not None) == judged and done.returncode == code
        if verdict == "not reached":                # csv has no place for it
            again = run("--suite", suites, "--quick", "--num-heads", 2, "--num-kv-heads", 2, "--batch-size", 1, *small[:-1], "csv")
            good = good and (again.returncode == 0 or "openpi verdict, of what was measured: NOT reached" in again.stderr)
        report("verdict of " + suites, None if good else "%s %d" % (verdict, done.returncode))


def test_stream():
    """Rows come when they are done, into a pipe too, in a document that is whole whatever ends it."""
    flags = ["--suite", "rocmforge", "--seq-len", "16,24,32,40,1024", "--head-dim", 64]
    for form, sign in (("table", " fwd "), ("csv", ",fwd,"), ("json", '"pass": "fwd"')):
        child = subprocess.Popen(
            [BENCH] + [str(a) for a in flags] + ["--format", form],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=heeding,
        )
        lines = []
        while not lines or sign not in lines[-1]:
            lines.append(child.stdout.readline())
            if not lines[-1]:
                break
        alive = child.poll() is None
        child.send_signal(signal.SIGHUP)
        lines.append(child.stdout.read())
        child.wait()
        whole = child.returncode == 130 and alive
        if form == "json":
            document, fault = checked("".join(lines))
            whole = whole and not fault and document["interrupted"] and len(document["rows"]) > 0
        report("a row at once, and SIGHUP: " + form, None if whole else "".join(lines)[-300:])


def test_choice(folder):
    """--filter, --modules as openpi writes them, -h; a run in which nothing ran is bad input."""
    done = run("--suite", "scaling", "--list", "--filter", "S2048")
    cases = [line for line in done.stdout.splitlines() if line.startswith("case ")]
    report("--filter", None if cases and all(" S2048 " in c for c in cases) else done.stdout)
    done = run(*"--suite correctness --quick --page-size 16 --filter batching --list".split())
    report("what --filter leaves out refuses nothing", None if "page 16" in done.stdout and done.returncode == 0 else done.stderr)
    few = "--quick --iterations 1 --warmup 0 --format json".split()
    done = run(*few, "--suite", "correctness", "--backward", "--filter", "gradient", "--seq-len", 9)
    passes = {r["pass"] for r in json.loads(done.stdout or '{"rows": []}')["rows"]}
    report("gradients with --backward", None if passes == {"bwd", "fwd+bwd"} and done.returncode == 0 else "%d %s" % (done.returncode, done.stderr))
    done = run(*few, "--suite", "correctness", "--backward", "--filter", "batching", "--seq-len", 33)
    report("batches with --backward", None if done.returncode == 0 and '"pass": "bwd"' in done.stdout else done.stdout[-500:] + done.stderr)
    rows = json.loads(run(*"1 8 1 8 --backend flash,standard,flash,flash --iterations 1 --format json".split()).stdout)["rows"]
    report("a backend named twice", None if [r["backend"] for r in rows] == ["standard", "flash"] else str(rows))
    done = run(*few, "--suite", "openpi", "--seq-len", 16, "--backend", "flash", "--filter", "S16")
    verdict = json.loads(done.stdout)["verdict"]
    report("no target, no verdict", None if verdict is None and done.returncode == 0 else "%s %d" % (verdict, done.returncode))
    refused("--filter without a case", folder, "--filter", "nonsense")
    refused("a flag for a value", folder, "--filter", "--list")
    refused("modules of no calls that are timed", folder, *"--suite correctness --projections".split())
    refused("a flag that no case of a suite can have", folder, *"--suite decode --num-heads 2".split())
    done = run(*"--suite decode --backward --list".split())
    good = done.returncode == 0 and done.stderr == "attn_bench: 64 cases are left out: --backward: not defined for --page-size\n"
    report("a flag that some cases cannot have", None if good and ", bwd, " in done.stdout else done.stderr)
    for flag, why in (("--page-size 16", "--page-size"), ("--kv-dtype int8", "--kv-dtype int8")):
        done = run(*"--suite correctness --quick --list".split(), *flag.split())
        said = re.fullmatch(r"attn_bench: \d+ cases are left out: %s: not in cases with a backward\n" % why, done.stderr)
        report("a suite with " + flag, None if said and done.returncode == 0 and "\ncase correctness: " in done.stdout else done.stderr)
    done = run(*"--suite openpi,memory --modules gemma --list".split())
    report("--modules leaves out no other suite", None if "\ncase memory: " in done.stdout and "\ncase openpi: " in done.stdout else done.stdout)
    done = run(*"--list --seq-len 16 --threads 3 --window 5,0".split())
    report("threads and window of a case", None if "\ncase shape: B1 S16 H8 D64 window 5,0, f32, kv f32, fwd, 3 threads:" in done.stdout else done.stdout)
    told = [run("--device", name, *"1 16 1 8 --iterations 1".split()).stderr.replace(name, "hip") for name in ("hip", "cuda")]
    report("cuda is an alias of hip", None if told[0] == told[1] else str(told))
    number = int(re.search(r"#define ATTN_VERSION (\d+)", open(os.path.join(ROOT, "attn.h")).read()).group(1))
    wanted = "attn_bench %d.%d.%d\n" % (number // 10000, number // 100 % 100, number % 100)
    report("--version", None if run("--version").stdout == wanted else run("--version").stdout)
    lists = [
        run("--suite", "openpi", "--list", "--modules", *names).stdout
        for names in (["gemma", "gemma_fast"], ["gemma,gemma_fast"], ["gemma"])
    ]
    report("--modules gemma gemma_fast", None if lists[0] == lists[1] != lists[2] else lists[0])
    refused("an unknown module", folder, "--suite", "openpi", "--modules", "gemma,gamma")
    done = run("-h")
    report("-h", None if done.returncode == 0 and done.stdout == run("--help").stdout else done.stderr)
    named = re.findall(r"^  (\w+) ", done.stdout.partition("\nsuites:\n")[2], re.M)
    unknown = [name for name in named if run("--suite", name, "--list").returncode]
    report("every suite of --help is one", None if len(named) > 5 and not unknown else f"{named}: refused {unknown}")
    done = run(*"--projections --page-size 8 --seq-len 16 --iterations 1".split())
    good = done.returncode == 2 and "nothing was measured" in done.stderr
    report("everything declined", None if good else done.stdout + done.stderr)
    # the prefill of a generation is forward, whatever the step's pass
    done = run(*"--suite rocmforge --backward --iterations 2 --format json --filter".split(), "generate B1 S1:128 ")
    document, fault = checked(done.stdout)
    good = done.returncode == 0 and document and document["rows"] and not any(r["status"] == "wrong" for r in document["rows"])
    report("a generation with --backward", fault or (None if good else done.stdout + done.stderr))
    # the reference walks along keys that a window hides
    done = run(*"--seq-len 32768 --num-heads 1 --head-dim 8 --window 8,0 --backend flash --iterations 1 --format json".split())
    rows = json.loads(done.stdout)["rows"]
    report("a few rows of a narrow window are verified", None if 256 <= rows[0]["rows_verified"] < 32768 else done.stdout)
    with open(os.devnull) as nothing:
        saved = os.path.join(folder, "closed.csv")
        command = [BENCH, *"1 16 1 8 --iterations 3 --processes 2 --save-baseline".split(), saved]
        done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *command], stdin=nothing, capture_output=True, text=True)
        report("without stdin", None if done.returncode == 0 and os.path.getsize(saved) > 0 else done.stderr)
    done = run(*"1 16 2 8 --iterations 7 --cold --format json".split())
    document, fault = checked(done.stdout)
    command = document and document["context"]["command"][1:] == "1 16 2 8 --iterations 7 --cold --format json".split()
    rows = document["rows"] if document else []
    report("the command line", fault or (None if command else done.stdout))
    cold = rows and all(len(r["samples_ms"]) == 7 and r["case"].endswith(" cold") for r in rows)
    report("--cold", None if cold else done.stdout)
    done = run("--backend", "flash,standard", *"1 16 2 8 --iterations 2 --format json".split())
    vs = [r["speedup_vs_standard"] for r in json.loads(done.stdout)["rows"]]
    report("speedup in any order of backends", None if all(vs) else str(vs))


# ------------------------------------------------------------------------------ --tune and --ablate
STUDIES = {
    "tune": (
        "default tiles",
        {
            "fwd": [
                "BM %d BN %d" % (bm, bn)
                for bm in (96, 192, 480, 1008)
                for bn in (128, 256, 512, 1024)
            ],
            "bwd": ["BK 64", "BK 128", "BK 256"],
        },
    ),
    "ablate": (
        "everything on",
        {
            "fwd": ["V in place", "BM 96", "BN 64", "BN 128", "bf16 as f32", "no key splits", "no flush to zero"],
            "bwd": ["BK 64", "bf16 as f32"],
        },
    ),
}


def study_faults(name, rows, quick):
    plain, variants = STUDIES[name]
    base = [r for r in rows if r["case"].endswith(plain)]
    for r in rows:
        own = [
            b
            for b in base
            if r["case"].startswith(b["case"][: -len(plain)]) and b["pass"] == r["pass"]
        ]
        if (
            r["suite"] != name
            or r["status"] != "ok"
            or r["max_abs_err"] is None
            or not r["rows_verified"]
        ):
            return "not a verified row: %s" % r
        if not own or not any(
            abs(r["speedup_vs_default"] * r["p50_ms"] / b["p50_ms"] - 1) < 1e-6 for b in own
        ):
            return "%s: its speedup is not over %s" % (r["case"], plain)
        if r not in base and not any(r["case"].endswith(" " + v) for v in variants[r["pass"]]):
            return "%s is of no table" % r["case"]
    missing = [
        v
        for p in variants
        for v in variants[p]
        if not any(r["pass"] == p and r["case"].endswith(" " + v) for r in rows)
    ]
    return "missing: %s" % missing if missing and not quick else None


def test_studies():
    small = ["1", "64", "2", "32", "--iterations", 3, "--format", "json"]
    plain = json.loads(run(*small, "--backward", "--backend", "flash").stdout)["rows"]
    for name in STUDIES:
        for flags in ([], ["--quick"]):
            done = run("--" + name, *small, "--backward", *flags)
            document, fault = checked(done.stdout)
            rows = document["rows"] if document else []
            fault = (
                fault
                or study_faults(name, rows, bool(flags))
                or (done.stderr if done.returncode else None)
            )
            report(" ".join(["--" + name] + flags), fault)
            lines = done.stderr.splitlines()
            if name == "tune":
                fastest = [
                    min((r for r in rows if r["pass"] == p), key=lambda r: r["p50_ms"])["case"]
                    for p in ("fwd", "bwd")
                ]
                named = (
                    len(lines) == 1
                    and lines[0].startswith("attn_bench: fastest: ")
                    and all(c in lines[0] for c in fastest)
                )
                report("--tune names the fastest in one line", None if named else done.stderr)
            else:
                report("--ablate leaves stderr alone", done.stderr or None)
            for (
                r
            ) in rows:  # the backward's come after the forward's variants: nothing of these is left
                if r["case"] == "B1 S64 H2 D32 " + STUDIES[name][0] and r["dtype"] == "f32":
                    size = [p["workspace_bytes"] for p in plain if p["pass"] == r["pass"]]
                    report(
                        "%s of %s is a plain call" % (r["pass"], name),
                        None if size == [r["workspace_bytes"]] else str((size, r)),
                    )
    forward = json.loads(run("--tune", "--quick", *small).stdout)["rows"]
    report(
        "--tune of a shape is forward",
        None if forward and all(r["pass"] == "fwd" for r in forward) else str(forward),
    )
    lists = {name: run("--" + name, "--list").stdout for name in STUDIES}
    for name, count in (("tune", 42), ("ablate", 26)):
        cases = [line for line in lists[name].splitlines() if line.startswith("case %s: " % name)]
        report(
            "--%s --list" % name, None if len(cases) == count == len(set(cases)) else lists[name]
        )


def test_workspace():
    """The row's workspace is for the row's backend; the reference that checks it has its own."""
    shape = "1 512 1 64 --backward --threads 1 --iterations 1 --format json".split()
    for flags in ([], ["--tune", "--quick"]):
        done = run(*flags, *shape)
        rows = json.loads(done.stdout)["rows"]
        checked_rows = [r for r in rows if r["status"] == "ok" and r["rows_verified"]]
        good = done.returncode == 0 and rows and len(checked_rows) == len(rows)
        name = " ".join(flags + shape[:7])
        report(name, None if good else done.stderr[-300:])
    for few in ("1 8 8 16 --dtype f16", "--seq-len 1 --kv-len 2048 --num-heads 8 --head-dim 64"):     # whose forward needs more than the backward
        rows = json.loads(run(*few.split(), *"--backward --backend flash --iterations 1 --format json".split()).stdout)["rows"]
        report("backward of " + few, None if [r["status"] for r in rows] == ["ok"] * 3 else str([(r["pass"], r["note"]) for r in rows]))


def test_what_is_asked():
    """Cases and figures that a flag does not ask for, or that are of something else."""
    done = run(*"--suite openpi --quick --modules gemma_fast --backward --kv-len 64 --iterations 1 --backend standard,flash".split())
    report("openpi with a backward", None if done.returncode == 0 else done.stdout[-300:])
    listed = run(*"--ablate 1 64 2 32 --page-size 16 --list".split())
    report("--ablate of pages", None if listed.returncode == 0 and "bwd" not in listed.stdout else listed.stderr)
    listed = run(*"--ablate 1 64 2 32 --dtype f32 --list".split()).stdout
    report("--ablate of f32", None if "bwd" not in listed and "bf16" not in listed and listed else listed)
    rows = json.loads(run(*"1 16 1 8 --iterations 1 --backend auto,flash --format json".split()).stdout)["rows"]
    report("auto beside flash", None if [r["backend"] for r in rows] == ["auto", "flash"] else str(rows))
    done = run(*"--suite decode --quick --backward --kv-len 512 --dtype f32 --kv-dtype f32 --page-size 0 --iterations 1 --backend flash --format json".split())
    steps = [(r["pass"], r["ttft_ms"] is None) for r in json.loads(done.stdout)["rows"] if r["case"].startswith("generate")]
    good = steps and all(none == (kind != "fwd") for kind, none in steps)
    report("time to a first token", None if good else str(steps))
    done = run(*"--seq-len 262144 --num-heads 1 --head-dim 8 --window 0,0 --iterations 1 --backend standard,flash --format json".split())
    found = [(r["status"], r["theoretical_bytes"]) for r in json.loads(done.stdout)["rows"]]
    report("the size of what is refused", None if found and found[0] == ("refused", 1 << 38) else str(found))
    done = run("--seq-len", "0" * 61 + "16junk")
    report("a long value is not cut", None if done.returncode == 2 else done.stdout)


# ------------------------------------------------------------------------------- .npy and bad input
def write_npy(path, shape, descr="<f4", fortran=False, cut=0, extra=b""):
    text = "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }" % (
        descr,
        fortran,
        "".join("%d, " % n for n in shape),
    )
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    size = 1
    for n in shape:
        size *= n
    kind = {"<f4": "f", "<f2": "e", "<f8": "d", "|b1": "?", "<i4": "i", ">f4": "f"}[descr]
    data = struct.pack(
        "<%d%s" % (size, kind),
        *[(i * 37 % 11 - 5) / 4 if kind in "fed" else i % 2 for i in range(size)]
    )
    with open(path, "wb") as f:
        f.write(
            b"\x93NUMPY\x01\x00"
            + struct.pack("<H", len(text))
            + text.encode()
            + data[: len(data) - cut]
            + extra
        )


def refused(name, folder, *arguments):
    before = sorted(os.listdir(folder))
    done = run(*arguments, cwd=folder)
    lines = done.stderr.strip().split("\n")
    fault = None
    if done.returncode != 2:
        fault = "exit code %d, not 2: %s" % (done.returncode, (done.stdout + done.stderr)[-200:])
    elif len(lines) != 1 or not lines[0].startswith("attn_bench: ") or done.stdout:
        fault = "not one line: %r %r" % (done.stderr, done.stdout)
    elif sorted(os.listdir(folder)) != before:
        fault = "it left a file behind"
    report("refused: " + name, fault)


def test_bad_flags(folder):
    for line in (
        "--bogus",
        "-x",
        "--iterations 0",
        "--iterations 1.5",
        "--iterations 5,9",
        "--warmup 1,2",
        "--iterations",
        "--warmup -1",
        "--seq-len 0",
        "--seq-len 1,2,x",
        "--seq-len 99999999999999999999",
        "--head-dim 0",
        "--num-kv-heads 3",
        "--batch-size -1",
        "--threads -1",
        "--threads 5000",
        "--embed-dim 100 --num-heads 3",
        "--embed-dim 64 --head-dim 8",
        "--window 1",
        "--window -2,0",
        "--window 1,2,3",
        "--min-time 0",
        "--min-time nan",
        "--min-time 0x1p-3 1 8 1 8",
        "--min-time 1e9",
        "--dtype f64",
        "--dtype",
        "--kv-dtype f65",
        "--layout bsdh",
        "--format xml",
        "--backend nobody",
        "--backend flash,nobody",
        "--device tpu",
        "--suite nothing",
        "--suite shape",
        "--suite rocmforge,nothing",
        "--modules gemma",
        "--plot",
        "--quick=1",
        "--seed -1",
        "--page-size -1",
        "--page-size 16 --layout bhsd",
        "--page-size 16 --backward",
        "--kv-dtype int8 --backward",
        "1 2 3",
        "1 2 3 x",
        "1 2 3 4 5",
        "1 64 8 32 --seq-len 3",
        "1 64 8 32 --suite memory",
        "--mask m.npy",
        "--output o.npy",
        "--expect o.npy",
        "--suite memory --input q.npy,k.npy,v.npy",
        "--output-dir /proc/nothing --suite memory",
        "--save-baseline /nowhere/b.json 1 8 1 8",
        "--baseline nowhere.json 1 8 1 8",
        "--format= 1 8 1 8",
        "16 8192 32 256 --backend standard --dtype f16",
        "1048576 1048576 1024 64",
        "--tune --ablate",
        "--tune --suite memory",
        "--ablate --suite tune",
        "--suite ablate",
        "--tune --backend standard",
        "--ablate --backend flash,standard",
        "--ablate --device hip",
        "--tune --projections",
        "--tune --input q.npy,k.npy,v.npy",
        "--ablate=1",
        "--tune --kv-dtype int8 --backward",
        "--tune 1 2 3",
    ):
        refused(line, folder, *line.split())
    large = "1048576 16777216 65536 65536 --backend flash"
    for line, says in (
        (large, "--batch-size 1048576 --seq-len 16777216 --num-heads 65536 --head-dim 65536, flash: the extent of a tensor overflows"),
        ("--suite memory --quick --batch-size 100000 --seq-len 2048 --output-dir none", "--batch-size 100000 --seq-len 2048 --num-heads 8 --head-dim 64, flash: "),
        ("--suite memory,scaling --quick --batch-size 100000 --seq-len 2048", " of memory are available"),
        ("1 64 8 32 64 64 64 64 64 64", "10 arguments without a flag"),
        ("1 8 1 8 --backend foo", "--backend foo: must be of auto, "),
        ("1 8 1 8 --backend foo", ", precision, rank, hip"),
        ("1 8 1 8 --backend precision,flash", "--backend precision: only in cases with a policy"),
        ("1 8 1 8 --backend flash,rank", "--backend rank: only in cases with a policy"),
        ("--suite decode --quick --backend flash,rank", "--backend rank: only in cases with a policy"),
        ("--page-size 16 --backward", "--backward: not defined for --page-size"),
    ):
        refused(line, folder, *line.split())
        text = run(*line.split(), cwd=folder).stderr
        report("says why: " + line, None if says in text else text)


def test_npy(folder):
    path = lambda n: os.path.join(folder, n)
    q, kv = (2, 5, 4, 8), (2, 7, 2, 8)
    write_npy(path("q.npy"), q), write_npy(path("k.npy"), kv), write_npy(
        path("v.npy"), (2, 7, 2, 6)
    )
    write_npy(path("half.npy"), kv, "<f2"), write_npy(path("double.npy"), kv, "<f8"), write_npy(
        path("int.npy"), kv, "<i4"
    )
    write_npy(path("big.npy"), kv, ">f4"), write_npy(path("cut.npy"), kv, cut=4), write_npy(
        path("long.npy"), kv, extra=b"x"
    )
    write_npy(path("fortran.npy"), kv, fortran=True), write_npy(
        path("short.npy"), (2, 6, 2, 8)
    ), write_npy(path("three.npy"), (7, 2, 8))
    write_npy(path("heads.npy"), (2, 7, 3, 8)), write_npy(
        path("empty.npy"), (2, 0, 2, 8)
    ), write_npy(path("two.npy"), (2, 7))
    write_npy(path("mask.npy"), (5, 7), "|b1"), write_npy(
        path("narrow.npy"), (5, 6), "|b1"
    ), write_npy(path("float.npy"), (5, 7))
    open(path("text.npy"), "w").write("hello")
    open(path("head.npy"), "wb").write(open(path("k.npy"), "rb").read()[:40])
    for k in (
        "half",
        "double",
        "int",
        "big",
        "cut",
        "long",
        "fortran",
        "short",
        "three",
        "heads",
        "empty",
        "two",
        "text",
        "head",
        "nowhere",
    ):
        refused("k is " + k, folder, "--input", "q.npy,%s.npy,v.npy" % k, "--output", "o.npy")
    for flags in (
        "--input q.npy,k.npy",
        "--input q.npy,k.npy,v.npy,v.npy",
        "--input q.npy,k.npy,v.npy --seq-len 5",
        "--input q.npy,k.npy,v.npy --num-heads 3",
        "--input q.npy,k.npy,v.npy --mask narrow.npy",
        "--input q.npy,k.npy,v.npy --mask float.npy",
        "--input q.npy,k.npy,v.npy --expect q.npy",
        "--input q.npy,k.npy,v.npy --output /nowhere/o.npy",
        "--input q.npy,k.npy,v.npy --output o.npy --backend flash,standard",
        "--input q.npy,k.npy,v.npy --iterations 1,2",
        "--input q.npy,k.npy,v.npy --backward",
        "--input q.npy,k.npy,v.npy --output k.npy",
        "--input q.npy,k.npy,v.npy --mask mask.npy --output ./mask.npy",
        "--input q.npy,k.npy,v.npy --save-baseline v.npy",
        "--input q.npy,k.npy,v.npy --output new.npy --save-baseline new.npy",
    ):
        refused(flags, folder, *flags.split())
    three = ["--input", "q.npy,k.npy,v.npy", "--iterations", 1, "--causal"]
    done = run(*three, "--output", "o.npy", "--mask", "mask.npy", cwd=folder)
    report(
        "--output", None if done.returncode == 0 and os.path.exists(path("o.npy")) else done.stderr
    )
    for backend in ("reference", "standard", "flash", "auto"):
        done = run(
            *three, "--expect", "o.npy", "--mask", "mask.npy", "--backend", backend, cwd=folder
        )
        report(
            "--expect equals, " + backend,
            None if done.returncode == 0 else done.stdout + done.stderr,
        )
    done = run(*three, "--expect", "o.npy", cwd=folder)
    # an output that is off by 1e-3; a mask that is broadcast; files of three dimensions are the same numbers
    data = open(path("o.npy"), "rb").read()
    last = struct.unpack("<f", data[-4:])[0]
    open(path("off.npy"), "wb").write(data[:-4] + struct.pack("<f", last + 1e-3))
    off = run(*three, "--mask", "mask.npy", "--expect", "off.npy", cwd=folder)
    report("--expect is 1e-3 off", None if off.returncode == 1 and "differs from --expect" in off.stdout else off.stdout)
    write_npy(path("row.npy"), (1, 7), "|b1"), write_npy(path("rows.npy"), (5, 7), "|b1"), write_npy(path("column.npy"), (5, 1), "|b1")
    tiled = open(path("rows.npy"), "rb").read()[:-35] + open(path("row.npy"), "rb").read()[-7:] * 5
    open(path("rows.npy"), "wb").write(tiled)
    wide = run(*three, "--mask", "rows.npy", "--output", "rows_o.npy", cwd=folder)
    again = run(*three, "--mask", "row.npy", "--expect", "rows_o.npy", cwd=folder)
    report("a mask that is broadcast", None if wide.returncode == again.returncode == 0 else again.stdout + again.stderr)
    tiled = open(path("rows.npy"), "rb").read()[:-35] + b"".join(bytes([x]) * 7 for x in open(path("column.npy"), "rb").read()[-5:])
    open(path("columns.npy"), "wb").write(tiled)
    wide = run(*three, "--mask", "columns.npy", "--output", "columns_o.npy", cwd=folder)
    again = run(*three, "--mask", "column.npy", "--expect", "columns_o.npy", cwd=folder)
    report("a mask of one column", None if wide.returncode == again.returncode == 0 else again.stdout + again.stderr)
    # not finite: a NaN stands for whatever is not finite, an infinity for itself, and neither for a number
    def with_values(name, source, values):
        data = bytearray(open(path(source + ".npy"), "rb").read())
        for at, x in values.items():
            data[128 + 4 * at : 132 + 4 * at] = struct.pack("<f", x)
        open(path(name + ".npy"), "wb").write(data)

    inf, nan = math.inf, math.nan
    with_values("v_inf", "v", {0: inf, 1: nan})     # the first key of the first head: columns 0 and 1 of that head's rows
    odd = ["--input", "q.npy,k.npy,v_inf.npy", "--iterations", 1]
    done = run(*odd, "--output", "odd.npy", cwd=folder)
    report("a value that is not finite", None if done.returncode == 0 else done.stdout + done.stderr)
    for name, values, code in (
        ("itself", {}, 0),
        ("a NaN for the infinity", {0: nan}, 0),
        ("the other infinity", {0: -inf}, 1),
        ("a number for the infinity", {0: 1}, 1),
        ("an infinity for the NaN", {1: inf}, 1),
        ("a number for the NaN", {1: 1}, 1),
        ("a NaN for a number", {2: nan}, 1),
        ("an infinity for a number", {2: inf}, 1),
    ):
        with_values("odd_expect", "odd", values)
        done = run(*odd, "--expect", "odd_expect.npy", cwd=folder)
        report("--expect has %s" % name, None if done.returncode == code else done.stdout + done.stderr)
    for name, shape in (("q", (2, 5, 32)), ("k", (2, 7, 16)), ("v", (2, 7, 12))):
        write_npy(path(name + "3.npy"), shape)
    flags = ["--input", "q3.npy,k3.npy,v3.npy", "--num-heads", 4, "--causal", "--iterations", 1, "--mask", "mask.npy", "--output", "o3.npy"]
    joined = run(*flags, cwd=folder)
    text = open(path("o3.npy"), "rb").read() if joined.returncode == 0 else b""
    report("[B,S,H*D] in and out", None if b"(2, 5, 24" in text[:128] and text[-960:] == data[-960:] else joined.stderr + str(text[:128]))
    report(
        "--expect differs",
        None if done.returncode == 1 and "differs from --expect" in done.stdout else done.stdout,
    )


# ----------------------------------------------------------------------- reports, baselines, Ctrl-C
def test_reports(folder):
    out = os.path.join(folder, "reports", "deep")
    plot = ["--plot"] if shutil.which("gnuplot") else []
    flags = ["--suite", "memory", "--quick", "--seq-len", "32,64,128", "--iterations", 3, "--output-dir", out, *plot]
    for _ in range(5):  # a row has no share of a peak that was sampled lower than its rate: then it is measured again
        done = run(*flags)
        path = os.path.join(out, "performance_results.json")
        shares = [r["backend"] for r in json.load(open(path))["rows"] if r["peak_fraction"]] if os.path.exists(path) else []
        if min(shares.count("flash"), shares.count("standard")) > 1:
            break
    report("--output-dir", None if done.returncode == 0 else done.stderr)
    for name in ("performance", "memory", "correctness"):
        file = os.path.join(out, name + "_results.json")
        report(
            name + "_results.json",
            checked(open(file).read())[1] if os.path.exists(file) else "missing",
        )
    summary = os.path.join(out, "summary_report.md")
    text = open(summary).read() if os.path.exists(summary) else ""
    report(
        "summary_report.md",
        None if "| case |" in text and "what to try" in text else "incomplete: " + text,
    )
    report(
        "no half-written file",
        (
            None
            if not [n for n in os.listdir(out) if "part" in n or n.endswith(".gp")]
            else str(os.listdir(out))
        ),
    )
    for name in ("time", "gflops", "memory", "peak", "roofline"):
        file = os.path.join(out, name + ".svg")
        if not plot:
            report(name + ".svg", "gnuplot is not installed", "skipped")
            continue
        text = open(file).read() if os.path.exists(file) else ""
        report(
            name + ".svg",
            None if "</svg>" in text and "flash" in text and "standard" in text else "incomplete",
        )
    full = run("1", "16", "1", "8", "--iterations", 1, "--output-dir", "/dev/full")
    report("a directory that is none", None if full.returncode == 2 else full.stderr)
    with open("/dev/full", "w") as full_disk:
        done = subprocess.run(
            [BENCH, "1", "16", "1", "8", "--iterations", "1"],
            stdout=full_disk,
            stderr=subprocess.PIPE,
            text=True,
        )
    report(
        "a full disk",
        (
            None
            if done.returncode == 2 and "No space" in done.stderr
            else "%d %s" % (done.returncode, done.stderr)
        ),
    )


def saved_run(text, path, samples, change=lambda i, r: True):
    """A saved run with other samples: samples(row number, those saved); change(row number, row) may change more, and says whether the row stays."""
    mark, _, body = text.partition("\n")
    rows = list(csv.DictReader(io.StringIO(body.removesuffix("# end\n"))))
    for i, r in enumerate(rows):
        old = [float(x) for x in r["samples_ms"].split()]
        r["samples_ms"] = " ".join("%.9g" % x for x in samples(i, old))
    rows = [r for i, r in enumerate(rows) if change(i, r)]
    with open(path, "w") as f:
        f.write(mark + "\n")
        writer = csv.DictWriter(f, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        f.write("# end\n")


def noisy(seed, n=40):
    """Calls as a machine gives them: a spread of 4%, a drift, one in twenty far out."""
    r = random.Random(seed)
    return [
        r.lognormvariate(0, 0.04) * (1 + 0.02 * i / n) * (r.uniform(1.5, 4) if r.random() < 0.05 else 1)
        for i in range(n)
    ]


def test_faults(folder, text, cases):
    """25 processes of two cases: what was wrong is no measurement, whatever processes measured that do not verify; nor is the peak of another state of
    the machine a faster program."""
    path = lambda n: os.path.join(folder, n)
    same = lambda i, old: [1 + 0.001 * (k * 7 % 10) for k in range(12)]

    def compared(name, old, new, code, says, factor=1):
        saved_run(text, path("old.csv"), same, old)
        saved_run(text, path("new.csv"), lambda i, x: [factor * y for y in same(i, x)], new)
        done = run("--baseline", path("old.csv"), "--saved", path("new.csv"))
        right = done.returncode == code and all(x in done.stdout + done.stderr for x in says)
        report("faults: " + name, None if right else "%d %s%s" % (done.returncode, done.stdout, done.stderr))

    def status(of):
        def change(i, r):
            if i == 1:
                r["status"] = of
            return True

        return change

    def peaks(slow, by=2):
        def change(i, r):
            r["gflops"], r["peak_fraction"] = "100", str(0.5 * by) if i // 2 % 25 < slow else "0.5"
            return True

        return change

    all_rows = lambda i, r: True
    now = "%s flash fwd was measured, and is %%s now" % cases[1]
    compared("wrong now", all_rows, status("wrong"), 1, [now % "wrong", "1 rows compared, 0 slower"])
    compared("failed now", all_rows, status("failed"), 1, [now % "failed", "1 rows compared"])
    compared("wrong then", status("wrong"), all_rows, 0, ["1 rows compared, 0 slower"])
    compared("one row not measured", all_rows, lambda i, r: i % 2 == 0, 0, ["1 of its rows were not measured now", "1 rows compared"])
    compared("clocks of two states", peaks(10), peaks(15), 0, ["2 rows compared, 0 slower", "same"])
    compared("1.3 times slower, clocks of two states", peaks(10), peaks(15), 1, ["2 rows compared, 2 slower"], 1.3)
    compared("a slower clock", peaks(0), peaks(25, 1.08), 0, ["2 rows compared, 0 slower, 0 unclear", "thr; but for a clock 1.08x slower"], 1.08)
    compared("no clock is half as fast", peaks(0), peaks(25), 1, ["2 rows compared, 2 slower", "thr; but for a clock 1.10x slower"], 2)
    compared("one lucky peak", peaks(24), peaks(25), 1, ["2 rows compared, 2 slower"], 1.3)
    compared("a slower clock makes nothing faster", peaks(0), peaks(25, 1.08), 0, ["2 rows compared, 0 slower", "same"])
    done = run(*"--seq-len 8 --backend flash --iterations 2 --threads 1 --processes 1 --seed 1,7 --save-baseline".split(), path("seeds.csv"))
    done = run("--baseline", path("seeds.csv"), "--saved", path("seeds.csv"))
    apart = "2 rows compared" in done.stderr and all(done.stdout.count("1 thr%s\n" % x) == 1 for x in ("", ", seed 7"))
    report("two seeds are two rows", None if apart else done.stdout + done.stderr)


def test_windows():
    """Of a window only what some row sees is traffic, and only that takes time."""
    shape = "--seq-len 1 --kv-len 4096 --num-heads 2 --num-kv-heads 2 --head-dim 64 --window 127,0 --backend flash --iterations 3 --threads 1 --format json"
    document, fault = checked(run(*shape.split()).stdout)
    row = document["rows"][0] if document else {}
    want = 2 * (2 * 64 * 4) + 128 * 2 * 2 * 64 * 4
    got = row.get("gbytes_per_s", 0) * row.get("p50_ms", 0) * 1e6
    report("bytes of a window", fault or (None if abs(got - want) < 1e-3 * want else "%g bytes, not %d" % (got, want)))
    done = run(*"1 32768 4 32 --window 16,0 --backend flash --iterations 1 --warmup 0".split())
    report("a window is no long row", None if done.returncode == 0 and "will take" not in done.stderr else done.stderr)


def test_gate(folder):
    """Saved runs against saved runs: nothing here depends on how fast the machine is just now."""
    path = lambda n: os.path.join(folder, n)
    shape = "--seq-len 16,32 --backend flash --iterations 12 --threads 1 --processes 1".split()
    done = run(*shape, "--save-baseline", path("run.csv"))
    text = open(path("run.csv")).read() if os.path.exists(path("run.csv")) else ""
    report("--save-baseline", None if done.returncode == 0 and text else done.stderr)

    def judged(name, old, new, code, verdict=None):
        saved_run(text, path("old.csv"), old)
        saved_run(text, path("new.csv"), new)
        done = run("--baseline", path("old.csv"), "--saved", path("new.csv"))
        lines = re.findall(r"^(\w+(?: few)?) .* flash, ", done.stdout, re.M)
        fault = None
        if done.returncode != code:
            fault = "exit code %d, not %d: %s" % (done.returncode, code, done.stdout + done.stderr)
        elif verdict and not (len(lines) == len(verdict) and all(l in v.split("|") for l, v in zip(lines, verdict))):
            fault = "%s: %s" % (lines, done.stdout)
        report("gate: " + name, fault)

    for k in range(10):
        old, new = (lambda i, s: noisy((k, i, "old").__repr__())), (lambda i, s: noisy((k, i, "new").__repr__()))
        judged("a re-run, %d" % k, old, new, 0, ["same|unclear"] * 2)
        judged("1.15 times slower, %d" % k, old, lambda i, s: [1.15 * x for x in new(i, s)], 1, ["slower", "slower"])
    flat = lambda i, s: [1 + 0.001 * (k * 7 % 10) for k in range(50)]
    judged("itself", lambda i, s: s, lambda i, s: s, 0, ["same|unclear"] * 2)
    judged("49 of 50 calls 1.5 times slower", flat, lambda i, s: [1.0] + [1.5 * x for x in flat(i, s)[1:]], 1, ["slower", "slower"])
    judged("one call 100 times slower", flat, lambda i, s: flat(i, s)[1:] + [100], 0, ["same", "same"])
    judged("one row of two", flat, lambda i, s: [(1.2 if i else 1) * x for x in flat(i, s)], 1, ["same", "slower"])
    judged("faster", flat, lambda i, s: [x / 1.2 for x in flat(i, s)], 0, ["faster", "faster"])
    judged("1% slower", flat, lambda i, s: [1.01 * x for x in flat(i, s)], 0, ["same", "same"])
    judged("half of the calls 1.15 times slower", flat, lambda i, s: [(1.15 if k % 2 else 1) * x for k, x in enumerate(flat(i, s))], 0, ["same", "same"])
    judged("calls of any speed", *[lambda i, s, of=of: [random.Random((of, k).__repr__()).uniform(1, 3) for k in range(12)] for of in (1, 2)], 0, ["unclear"] * 2)
    judged("three calls each", lambda i, s: [1, 1.01, 1.02], lambda i, s: [2, 2.01, 2.02], 0, ["too few"] * 2)
    # as many processes as the default: two rows each, one after the other
    done = run(*shape[:-2], "--save-baseline", path("many.csv"))
    single, text = text, open(path("many.csv")).read() if done.returncode == 0 else text
    rows = list(csv.DictReader(io.StringIO(text.partition("\n")[2].removesuffix("# end\n"))))
    names = [r["case"] for r in rows]
    whole = names == names[:2] * 25 and all(len(r["samples_ms"].split()) >= 12 for r in rows)
    report("25 processes are saved", None if whole else done.stderr + str(names))
    draw = lambda k, which: lambda i, s: noisy((k, i, which).__repr__())
    mode = lambda k, which, i: random.Random((k, which, i).__repr__()).choice((1, 1.4))
    times = lambda factor, samples: lambda i, s: [factor(i) * x for x in samples(i, s)]
    for k in range(10):
        old, new = draw(k, "old"), draw(k, "new")
        judged("25 processes again, %d" % k, old, new, 0, ["same|unclear"] * 2)
        judged("25 processes, 1.15 times slower, %d" % k, old, times(lambda i: 1.15, new), 1, ["slower", "slower"])
        old, new = times(lambda i: mode(k, "old", i), old), times(lambda i: mode(k, "new", i), new)
        judged("processes of two speeds, %d" % k, old, new, 0, ["same|unclear"] * 2)
    test_faults(folder, text, names[:2])
    text = single
    mark, _, body = text.partition("\n")
    open(path("cpu.csv"), "w").write(mark.replace(", ", ", another ") + "\n" + body)
    refused("a baseline of another processor", folder, *shape, "--baseline", "cpu.csv")
    refused("saved runs of two processors", folder, "--baseline", "run.csv", "--saved", "cpu.csv")
    other = ("1", "8", "1", "8", "--iterations", 2, "--baseline", path("run.csv"))
    refused("a baseline of other cases, before anything is measured", folder, *other)
    done = run(*other)
    report("a baseline of other cases", None if "0 rows compared" in done.stderr else done.stdout + done.stderr)
    header = body.partition("\n")[0]
    other, word = "is not a run saved by --save-baseline", "has a wrong number"
    for name, content, says in (
        ("cut", text[: text.rindex("flash")], "row 2 is truncated"),
        ("cut in its headings", text[: text.index("backend")], "has no line of headings"),
        ("last", text[: text.rindex("\n#")], "row 2 is truncated"),
        ("cut between rows", text[: text.rindex(text.split("\n")[3])], "is truncated: it ends after row 1"),
        ("cut in its end", text[:-1], "is truncated: it ends after row 2"),
        ("few", text.replace(",ok,", ",", 1), "row 1 "),
        ("empty", "", other),
        ("text", "hello", other),
        ("list", "[1, 2]", other),
        ("json", json.dumps({"version": 1, "rows": list(csv.DictReader(io.StringIO(body.removesuffix("# end\n"))))}), other),
        ("rows alone", body, other),
        ("mark", mark + "\n", "has no line of headings"),
        ("head", mark + "\n" + header + "\n", "has no rows"),
        ("column", text.replace("samples_ms", "samples", 1), "has no column samples_ms"),
        ("key", text.replace("kv_dtype,", "kind,", 1), "has no column kv_dtype"),
        ("version", text.replace(" 3, ", " 99, ", 1), "is of another version"),
        ("word", re.sub(r" \d[.\d]*\n", " many\n", text), "row 1 " + word),
        ("zero", re.sub(r" (\d[.\d]*)\n", r" 0\n", text), "row 1 " + word),
        ("negative", re.sub(r" (\d[.\d]*)\n", r" -\1\n", text), "row 1 " + word),
        ("number", text.replace(",12,", ",dozen,", 1), "row 1 " + word),
        ("large", text.replace(",12,", ",99999999999999999999,", 1), "row 1 " + word),
        ("samples twice", text.replace("first_run_ms", "samples_ms", 1), "has the column samples_ms twice"),
        ("quote", text.replace("flash", '"flash', 1), "row 1 is truncated"),
        ("more", text.replace("\n# end", ",1\n# end"), "row 2 has too many cells"),
    ):
        open(path(name + ".csv"), "w").write(content)
        flags = ["1", "8", "1", "8", "--baseline", name + ".csv"]
        refused("baseline " + name, folder, *flags)
        said = run(*flags, cwd=folder).stderr
        report("baseline, why: " + name, None if "--baseline %s.csv: %s" % (name, says) in said else said)
    refused("--saved alone", folder, "--saved", "run.csv")
    refused("--processes alone", folder, "1", "8", "1", "8", "--processes", "2")
    saved = ["--baseline", "run.csv", "--saved", "run.csv"]
    for more in ("--processes 2", "--format json", "--suite decode", "--seq-len 8", "1 8 1 8", "--output-dir new", "--save-baseline new.csv", "--filter S", "--backend flash", "--backward", "--quick", "--min-time 3", "--window 1,0", "--format table", "--warmup 1"):
        refused("saved runs and " + more, folder, *saved, *more.split())
    if os.path.exists("/dev/full"):
        done = subprocess.run([BENCH, *saved], cwd=folder, stdout=open("/dev/full", "w"), stderr=subprocess.PIPE, text=True)
        report("saved runs to a full disk", None if done.returncode == 2 and "stdout: " in done.stderr else done.stderr)


def test_baseline(folder):
    """The same through a run: what is compared, not how fast it is."""
    path = os.path.join(folder, "base.csv")
    case = "--seq-len 64 --num-heads 2 --iterations 20 --threads 1 --format json --processes 3".split()
    done = run(*case, "--save-baseline", path)
    report("--save-baseline beside a document", done.stderr or checked(done.stdout)[1])
    done = run(*case, "--baseline", path)
    document, fault = checked(done.stdout)
    rows = document["comparison"] if document else []
    right = len(rows) == 2 and done.returncode in (0, 1) and "2 rows compared" in done.stderr
    report("a run beside a saved one", fault or (None if right else done.stderr))
    saved_run(open(path).read(), path, lambda i, old: [x / 1000 for x in old])
    done = run(*case, "--baseline", path)
    document, fault = checked(done.stdout)
    slow = document and [c["verdict"] for c in document["comparison"]] == ["slower", "slower"]
    report("a run 1000 times slower", fault or (None if slow and done.returncode == 1 else done.stderr))


def test_interrupt():
    child = subprocess.Popen(
        [BENCH, "--suite", "rocmforge", "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=heeding,
    )
    time.sleep(2.5)
    child.send_signal(signal.SIGINT)
    text = child.communicate(timeout=60)[0]
    document, fault = checked(text)
    report(
        "Ctrl-C leaves a whole document",
        fault
        or (
            None
            if child.returncode == 130 and document["interrupted"]
            else "exit code %d" % child.returncode
        ),
    )
    child = subprocess.Popen(
        [BENCH, *"--seq-len 16,6144 --num-heads 16 --head-dim 128 --threads 1 --backend flash --format json".split()],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=heeding)
    text = child.stdout.readline()
    while "S16 " not in text:
        text += child.stdout.readline()
    for pause in (0.3, 0.1):
        time.sleep(pause)
        child.send_signal(signal.SIGINT)
    text += child.communicate(timeout=60)[0]
    document, fault = checked(text)
    report("Ctrl-C, twice", fault or (None if child.returncode == 130 and document["interrupted"] and len(document["rows"]) == 1 else "exit code %d" % child.returncode))
    with tempfile.TemporaryDirectory() as folder:       # a process that it waits for is told, once
        child = subprocess.Popen(
            [BENCH, *"1 256 4 64 --backend flash --iterations 2000 --processes 20 --format json --save-baseline".split(), os.path.join(folder, "b.csv")],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=heeding)
        time.sleep(2)
        child.send_signal(signal.SIGQUIT)
        try:
            text = child.communicate(timeout=60)[0]
        except subprocess.TimeoutExpired:
            child.kill()
            text = child.communicate()[0]
        document, fault = checked(text)
        left = subprocess.run(["pgrep", "-f", os.path.join(folder, "b.csv")], capture_output=True, text=True).stdout
        report("SIGQUIT while a child runs", fault or (None if child.returncode == 130 and not left else "exit code %d, %s left" % (child.returncode, left)))


def main():
    with tempfile.TemporaryDirectory() as folder:
        groups = {
            "timed": ((test_baseline, folder), (test_gate, folder)),
            "calls": (
                (test_schema,),
                (test_bad_flags, folder),
                (test_lengths,),
                (test_gpu, folder),
                (test_numbers,),
                (test_reports, folder),
                (test_stream,),
                (test_npy, folder),
                (test_interrupt,),
                (test_shape,),
                (test_workspace,),
                (test_what_is_asked,),
                (test_choice, folder),
                (test_counting,),
                (test_windows,),
                (test_studies,),
            ),
            "suites": ((test_suites_are_data,), (test_suites,), (test_modes,), (test_table,)),
        }
        words = sys.argv[2:]
        chosen = [w for w in words if w in groups] or ["calls", "timed", "suites"]
        for test, *arguments in (t for group in chosen for t in groups[group]):
            start = time.monotonic()
            test(*arguments)
            print("%s: %.1f s" % (test.__name__, time.monotonic() - start))
            if "stop" in words and COUNT["failed"]:
                break
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % COUNT)
    return COUNT["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
