#!/usr/bin/env python3
"""test/bench/plugin_test.py [attn_bench] - --plugin: the backend of a shared object joins the tables, is verified like the
others, and what is not a plugin is refused. test/bench/plugin.c is compiled once for each thing that can be wrong."""

import os
import re
import subprocess
import sys
import tempfile

from bench_test import COUNT, HERE, ROOT, checked, lacks_openblas, refused, report, run

KINDS = {
    "right": ["-DKIND=RIGHT"],
    "wrong_o": ["-DKIND=WRONG_O"],
    "wrong_lse": ["-DKIND=WRONG_LSE"],
    "wrong_dq": ["-DKIND=WRONG_DQ"],
    "wrong_dk": ["-DKIND=WRONG_DK"],
    "wrong_dv": ["-DKIND=WRONG_DV"],
    "stale": ["-DKIND=STALE"],
    "nothing": ["-DKIND=NOTHING"],
    "refuses": ["-DKIND=REFUSES"],
    "odd_name": ["-DKIND=ODD_NAME"],
    "known_name": ["-DKIND=KNOWN_NAME"],
    "mode_name": ["-DKIND=MODE_NAME"],
    "two": ["-DKIND=TWO"],
    "no_reason": ["-DKIND=NO_REASON"],
    "fails_twice": ["-DKIND=FAILS_TWICE"],
    "crashes": ["-DKIND=CRASHES"],
    "exits": ["-DKIND=EXITS"],
    "prints": ["-DKIND=PRINTS"],
    "slow_first": ["-DKIND=SLOW_FIRST"],
    "plan_crashes": ["-DKIND=PLAN_CRASHES"],
    "start_crashes": ["-DKIND=START_CRASHES"],
    "deep": ["-DKIND=DEEP"],
    "beside_late": ["-DKIND=BESIDE_LATE"],
    "input_late": ["-DKIND=INPUT_LATE"],
    "no_prefill": ["-DKIND=NO_PREFILL"],
    "locale": ["-DKIND=LOCALE"],
    "no_symbol": ["-DKIND=RIGHT", "-DNO_SYMBOL"],
}
SMALL = ["--iterations", 2, "--warmup", 0, "--format", "json"]
SHAPE = ["--seq-len", 33, "--num-heads", 2, "--head-dim", 16]


def build(folder):
    """True when every plugin compiles."""
    command = [os.environ.get("CC", "cc"), "-O1", "-std=c99", "-Wall", "-Wextra", "-Werror", "-I", ROOT, "-shared", "-fPIC"]
    source = os.path.join(HERE, "plugin.c")
    for name, flags in KINDS.items():
        flags = flags + (["-Wno-unused-function"] if name == "no_symbol" else [])
        out = os.path.join(folder, name + ".so")
        done = subprocess.run(command + flags + [source, "-o", out, "-lm"], stderr=subprocess.PIPE, text=True)
        if done.returncode:
            report("compiles: " + name, done.stderr)
            return False
    with open(os.path.join(folder, "undefined.c"), "w") as f:
        f.write("int nowhere(void);\nint attn_plugin_register(void);\nint attn_plugin_register(void) { return nowhere(); }\n")
    subprocess.run([command[0], "-shared", "-fPIC", "-o", "undefined.so", "undefined.c"], cwd=folder, check=True)
    with open(os.path.join(folder, "text.so"), "w") as f:
        f.write("hello\n")
    return True


def rows_of(folder, *arguments):
    done = run(*arguments, cwd=folder)
    document, fault = checked(done.stdout)
    return done, (document or {"rows": []})["rows"], fault


def test_tables(folder):
    """One more row in each case, of every measure, after the rows of the program's own."""
    done, rows, fault = rows_of(folder, "--plugin", "right.so", *SHAPE, "--backward", "--causal", *SMALL)
    got = [(r["backend"], r["pass"], r["status"]) for r in rows]
    want = [(b, p, "ok") for p in ("fwd", "bwd", "fwd+bwd") for b in ("standard", "flash", "loops")]
    report("a plugin joins the table", fault or (None if got == want and done.returncode == 0 else str(got) + done.stderr))
    mine = [r for r in rows if r["backend"] == "loops"]
    good = all(r["kernel"] == "loops" and r["max_abs_err"] < 1e-4 and r["rows_verified"] for r in mine)
    report("a plugin is verified and timed", None if good and all(r["p50_ms"] > 0 for r in mine) else str(mine))
    for suite, flags in (
        ("memory", ["--seq-len", 32]),
        ("correctness", ["--seq-len", 9, "--num-heads", 4, "--dtype", "f32", "--head-dim", 8]),
        ("adaattn", ["--seq-len", 16, "--batch-size", 1]),
    ):
        done, rows, fault = rows_of(folder, "--plugin", "right.so", "--suite", suite, "--quick", *flags, *SMALL)
        mine = [r for r in rows if r["backend"] == "loops"]
        others = [r for r in rows if r["backend"] == "flash"]
        bad = [r for r in mine if r["status"] not in ("ok", "declined") or not (r["status"] == "ok" or r["note"])]
        good = len(mine) == len(others) and not bad and any(r["status"] == "ok" for r in mine) and done.returncode == 0
        report("a plugin in " + suite, fault or (None if good else "%d of %d, %s" % (len(mine), len(others), bad[:1])))
    listed = run("--plugin", "right.so", "--list", cwd=folder).stdout
    good = "\nbackend loops\n" in listed and all(l.endswith(" loops") for l in listed.splitlines() if l.startswith("case "))
    report("a plugin is listed", None if good else listed)
    done, rows, fault = rows_of(folder, "--plugin", "right.so", "--backend", "loops", *SHAPE, *SMALL)
    report("a plugin alone", fault or (None if [r["backend"] for r in rows] == ["loops"] else str(rows)))
    for backends, left_out in (("loops,flash", []), ("flash", ["loops"]), ("again", ["loops"])):
        done, rows, fault = rows_of(folder, "--plugin", "two.so" if backends == "again" else "right.so", "--backend", backends, *SHAPE, *SMALL)
        want = "".join("attn_bench: %s of --plugin is left out: --backend does not name it\n" % b for b in left_out)
        good = sorted(r["backend"] for r in rows) == sorted(backends.split(",")) and "".join(l + "\n" for l in done.stderr.splitlines() if "--plugin" in l) == want
        report("what --backend %s leaves out" % backends, fault or (None if good else done.stderr))
    done, rows, fault = rows_of(folder, "--plugin", os.path.join(folder, "two.so"), *SHAPE, *SMALL)
    names = [r["backend"] for r in rows]
    report("two backends of one plugin", fault or (None if names[-2:] == ["loops", "again"] else str(names)))
    done, rows, fault = rows_of(folder, "--plugin", "right.so", *SHAPE, "--dtype", "f16", *SMALL)
    said = [r["note"] for r in rows if r["backend"] == "loops" and r["status"] == "declined"]
    report("a plugin declines with its reason", fault or (None if said == ["plain f32 attention only"] else str(rows)))


def test_turns(folder):
    """The calls of the backends of a case alternate, so that a machine that changes meanwhile changes for all of them."""
    log = os.path.join(folder, "calls")
    flags = ["--plugin", "two.so", "--backend", "loops,again", "--seq-len", 9, "--num-heads", 1, "--iterations", 24, "--format", "json"]
    for direction in ([], ["--backward"]):
        document, fault = checked(run(*flags, *direction, cwd=folder, env=dict(os.environ, PLUGIN_LOG=log)).stdout)
        order = open(log).read()
        turns = sum(a != b for a, b in zip(order, order[1:])) / (len(document["rows"]) / 2 if document else 1)
        report("backends in turn%s" % "".join(direction), fault or (None if turns >= 8 else "%g: %s" % (turns, order)))
        bad = [r for r in document["rows"] if r["iterations"] != 24 or len(r["samples_ms"]) != 24 or r["status"] != "ok"]
        report("every call is counted%s" % "".join(direction), str(bad) if bad else None)
        os.unlink(log)
    made = {}
    for warmup in (0, 9):
        for n in (1, 3, 8):
            run(*flags[:-4], "--iterations", n, "--warmup", warmup, cwd=folder, env=dict(os.environ, PLUGIN_LOG=log))
            made[warmup, n] = open(log).read().count("l")
            os.unlink(log)
    few = [n for n in (1, 3, 8) if made[9, n] - made[0, n] < 9]
    report("the warm-up of few calls", str(made) if few else None)


def test_wrong(folder):
    for name in ("wrong_o", "wrong_lse", "wrong_dq", "wrong_dk", "wrong_dv"):
        done, rows, fault = rows_of(folder, "--plugin", name + ".so", *SHAPE, "--backward", *SMALL)
        passes = {"fwd", "bwd", "fwd+bwd"} - (set() if name in ("wrong_o", "wrong_lse") else {"fwd"})
        wrong = {r["pass"] for r in rows if r["status"] == "wrong"}
        others = [r for r in rows if r["backend"] != "loops" and r["status"] != "ok"]
        good = wrong == passes and not others and done.returncode == 1
        output = name[len("wrong_") :]
        named = [r["note"] for r in rows if r["status"] == "wrong" and not (r["note"] + " ").startswith(output + ": ")]
        named = [] if output == "lse" and len(named) < 3 else named         # gradients made from a wrong lse are wrong too
        report("named: " + output, str(named) if named else None)
        report("found: " + name, fault or (None if good else "%d %s %s" % (done.returncode, sorted(wrong), others)))


def test_blamed(folder):
    """What one backend does to the tensors that it shares with the others of a case is said of that one, wherever it stands; a prefill that is timed is verified."""
    for name, says in (("beside_late", "it wrote beside its o"), ("input_late", "it wrote to its v")):
        for order in ("flash,loops", "loops,flash"):
            flags = ["--plugin", name + ".so", "--backend", order, *SHAPE, "--iterations", 24, "--warmup", 0, "--format", "json"]
            done, rows, fault = rows_of(folder, *flags)
            got = {r["backend"]: (r["status"], (r["note"] or "").split(";")[0]) for r in rows}
            good = got.get("loops") == ("wrong", says) and got.get("flash", [""])[0] == "ok" and done.returncode == 1
            report("%s of %s" % (name, order), fault or (None if good else str(got)))
    step = ["--suite", "decode", "--quick", "--filter", "generate", "--kv-len", 96, "--kv-dtype", "f32", "--dtype", "f32", "--page-size", 0,
            "--num-heads", 4, "--num-kv-heads", 2, "--head-dim", 16]
    for name, status in (("right", "ok"), ("no_prefill", "wrong")):
        done, rows, fault = rows_of(folder, "--plugin", name + ".so", *step, "--backend", "loops,flash", *SMALL)
        got = [(r["backend"], r["status"]) for r in rows]
        told = [r["note"] for r in rows if r["status"] == "wrong" and "that was the prefill" not in r["note"]]
        report("prefill of " + name, fault or str(told or got) if told or not got or set(got) != {("loops", status), ("flash", "ok")} else None)


def test_faults(folder):
    """What fails is said, and what declines without a reason has that of its status."""
    for name, status, note in (("no_reason", "declined", "out of memory"), ("fails_twice", "failed", "the second call, with lse: out of memory")):
        done, rows, fault = rows_of(folder, "--plugin", name + ".so", *SHAPE, *SMALL)
        got = [(r["status"], r["note"]) for r in rows if r["backend"] == "loops"]
        report("says why: " + name, fault or (None if got == [(status, note)] else str(got)))
    # what ends the program ends with a whole document of the cases before
    for name, says in (("crashes", "it crashed, SIGSEGV"), ("exits", "it ended the program"), ("deep", "it crashed, SIGSEGV")):
        for suffix in (SMALL[-2:], ["--format", "csv"]):
            done = run("--plugin", name + ".so", "--seq-len", "33,64", "--num-heads", 2, "--head-dim", 16, *SMALL[:4], *suffix, cwd=folder)
            document, fault = checked(done.stdout) if suffix == SMALL[-2:] else (None, None if done.stdout.count("\n") == 4 else done.stdout)
            fault = fault or (None if not document or document["interrupted"] and len(document["rows"]) == 3 else str(document))
            said = "attn_bench: shape B1 S64 H2 D16 loops: %s, " % says in done.stderr
            report("%s as %s" % (name, suffix[-1]), fault or (None if said and done.returncode == 2 else "%d %s" % (done.returncode, done.stderr)))
    # before a row is begun nothing is written, and it is named too
    for name, says in (("plan_crashes", "beside --plugin plan_crashes.so: when the backends were asked for a plan: it crashed, SIGSEGV"), ("start_crashes", "--plugin start_crashes.so: it crashed, SIGSEGV")):
        done = run("--plugin", name + ".so", *SHAPE, *SMALL, cwd=folder)
        report(name, None if done.returncode == 2 and says in done.stderr and not done.stdout else "%d %s" % (done.returncode, done.stderr))
    done, rows, fault = rows_of(folder, "--plugin", "prints.so", *SHAPE, *SMALL)
    report("prints", fault or (None if len(rows) == 3 and '{"a line": 1' in done.stderr else done.stderr))
    done, rows, fault = rows_of(folder, "--plugin", "prints.so", "--suite", "memory", "--quick", "--seq-len", 32, *SMALL)
    report("prints in a process of its own", fault or (None if all(r["status"] in ("ok", "declined") for r in rows) else str(rows)))


def test_locale(folder):
    """A plugin that asks for a decimal comma, when it is loaded, asked for a plan and in each call, has none in what is written."""
    made = subprocess.run(["sh", "-c", "localedef -i de_DE -f UTF-8 ./de_DE.UTF-8"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if made.returncode:
        report("a locale of a plugin", "localedef has no de_DE", "skipped")
        return
    flags = ["--plugin", "locale.so", "--backend", "loops,flash", *SHAPE, "--iterations", 2, "--warmup", 0]
    options = dict(cwd=folder, env=dict(os.environ, LOCPATH=folder))
    report("a locale of a plugin", checked(run(*flags, "--format", "json", **options).stdout)[1])
    done = run(*flags, "--processes", 2, "--save-baseline", "point.csv", **options)
    comma = re.findall(r"\d,\d+ (?:ms|us)", done.stdout)
    saved = run("--baseline", "point.csv", "--saved", "point.csv", cwd=folder)
    report("a locale in a saved run", None if done.returncode == saved.returncode == 0 and not comma else str(comma) + done.stderr + saved.stderr)


def test_openpi(folder):
    """What a plugin declines is no verdict on attn.h."""
    done, rows, fault = rows_of(folder, "--plugin", "right.so", "--suite", "openpi", "--modules", "gemma", "--quick", "--seq-len", 64, *SMALL)
    declined = [r["backend"] for r in rows if r["status"] == "declined"]
    report("openpi beside a plugin that declines", fault or (None if declined == ["loops"] and done.returncode == 0 else "%d %s %s" % (done.returncode, declined, done.stderr)))


def test_confirmed(folder):
    """What was slower in one run of processes and not in the next is not, and has the numbers of the next."""
    shape = ["--plugin", "slow_first.so", "--backend", "loops", *SHAPE, "--iterations", 12, "--threads", 1, "--processes", 6]
    done = run(*shape, "--save-baseline", "fast.csv", cwd=folder)
    for first, slower in ((6, False), (12, True)):
        with open(os.path.join(folder, "slow"), "w") as f:
            f.write("%d\n" % first)
        kept = open(os.path.join(folder, "fast.csv")).read()
        done = run(*shape, "--baseline", "fast.csv", "--save-baseline", "./fast.csv" if slower else "last.csv", "--format", "json", cwd=folder)
        document, fault = checked(done.stdout)
        rows = (document or {"comparison": []})["comparison"]
        good = len(rows) == 1 and (rows[0]["verdict"] == "slower") == slower == (rows[0]["delta"] > 1.5) and done.returncode == slower
        report("slower twice" if slower else "slower once", fault or (None if good else "%d %s" % (done.returncode, rows)))
        same = open(os.path.join(folder, "fast.csv")).read() == kept and ("it is kept" in done.stderr) == slower
        report("the baseline after it", None if same and os.path.exists(os.path.join(folder, "last.csv")) else done.stderr)


def test_refusals(folder):
    for name, plugin, says in (
        ("another ABI", "stale.so", "another version of attn.h"),
        ("no symbol", "no_symbol.so", "no attn_plugin_register"),
        ("no backend", "nothing.so", "registers no backend"),
        ("it refuses", "refuses.so", "GPU"),
        ("an odd name", "odd_name.so", "a,b: a name has letters, digits and"),
        ("a known name", "known_name.so", "flash: "),
        ("the name of a mode", "mode_name.so", "rank: "),
        ("an undefined symbol", "undefined.so", "nowhere"),
        ("no shared object", "text.so", "text.so"),
        ("no file", "missing.so", "No such file"),
        ("a folder", "./", "./"),
        ("twice", "right.so,right.so", "loops: "),
        ("a list that ends early", "right.so,", "--plugin"),
    ):
        refused("plugin: " + name, folder, "--plugin", plugin, *SHAPE)
        text = run("--plugin", plugin, *SHAPE, cwd=folder).stderr
        report("plugin, why: " + name, None if says in text else text)
    refused("plugin with --tune", folder, "--plugin", "right.so", "--tune")
    refused("plugin without a name", folder, "--plugin=")
    # a file of that name in the folder is meant, not one of the system's
    done, rows, fault = rows_of(folder, "--plugin", "right.so", "--list")
    report("a name without a folder", None if done.returncode == 0 else done.stderr)


def test_peers(folder):
    """OpenBLAS as a plugin, where it is installed; without any peer `make peers` says what is missing, and is no failure."""
    source, out = os.path.join(HERE, "openblas.c"), os.path.join(folder, "openblas.so")
    command = [os.environ.get("CC", "cc"), "-O2", "-std=c99", "-Wall", "-Wextra", "-Werror", "-I", ROOT, "-shared", "-fPIC"]
    done = subprocess.run(command + [source, "-o", out, "-lopenblas", "-lm"], stderr=subprocess.PIPE, text=True)
    if done.returncode:
        missing = "cannot find -lopenblas" in done.stderr
        report("openblas.c", done.stderr[-200:], "skipped" if missing else "failed")
    else:
        flags = ["--plugin", out, "--backend", "openblas", "--batch-size", 2, "--num-heads", 4, "--num-kv-heads", 2]
        done, rows, fault = rows_of(folder, *flags, "--seq-len", "1,67", "--layout", "bshd,bhsd", *SMALL)
        report("openblas.c is right", fault or (None if [r["status"] for r in rows] == ["ok"] * 4 else str(rows)))
        done, rows, fault = rows_of(folder, *flags, "--seq-len", 67, "--causal", *SMALL)
        report("openblas.c declines", fault or (None if [r["status"] for r in rows] == ["declined"] else str(rows)))
    nobody = dict(os.environ, PYTHON="false", CC="false", OUT=os.path.join(folder, "peers.md"))
    done = subprocess.run([os.path.join(HERE, "peers.sh")], env=nobody, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = "skipped: PyTorch" in done.stdout and "skipped: OpenBLAS" in done.stdout
    good = said and done.returncode == 0 and not os.path.exists(nobody["OUT"])
    report("make peers without a peer", None if good else done.stdout)


def test_no_openblas(folder):
    """The projections are OpenBLAS's: without it their rows say so and are declined, as others are; the rest is measured."""
    nowhere, useless = os.path.join(folder, "nowhere"), os.path.join(folder, "useless")
    os.mkdir(nowhere), os.mkdir(useless)
    open(os.path.join(nowhere, "libopenblas.so.0"), "w").close()  # found before the system's, and no shared object
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", "libopenblas.so.0"]
    subprocess.run(command, cwd=useless, check=True)
    for name, path, says in (("missing", nowhere, "libopenblas.so.0: "), ("without a product", useless, "undefined symbol: cblas_sgemm")):
        environment = dict(os.environ, LD_LIBRARY_PATH=path)
        done = run("--suite", "adaattn", "--quick", "--seq-len", 16, "--batch-size", 1, *SMALL, env=environment)
        document, fault = checked(done.stdout)
        rows = (document or {"rows": []})["rows"]
        module = [r for r in rows if r["case"].startswith("module ")]
        others = [r for r in rows if r["case"].startswith("B")]
        good = lacks_openblas(module) and all(says in r["note"] for r in module) and others
        good = good and all(r["status"] == "ok" for r in others) and done.returncode == 0
        report("OpenBLAS is " + name, fault or (None if good else str([(r["case"], r["status"], r["note"]) for r in rows])))
        done = run("--projections", "--seq-len", 16, *SMALL[:4], env=environment)
        text = " ".join(done.stdout.split())  # notes are broken into lines
        good = done.returncode == 2 and "nothing was measured" in done.stderr and says in text
        report("nothing but modules, OpenBLAS is " + name, None if good else done.stdout + done.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        if build(folder):
            for test in (test_tables, test_turns, test_wrong, test_blamed, test_faults, test_locale, test_openpi, test_confirmed, test_refusals, test_peers, test_no_openblas):
                test(folder)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % COUNT)
    return COUNT["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
