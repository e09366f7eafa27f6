#!/usr/bin/env python3
"""test/bench/files_test.py [attn_bench] - the files that attn_bench writes and the programs that it starts: odd names
reach no shell, a disk that is full and a folder that cannot be written are found before anything is measured."""

import csv
import json
import itertools
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

from bench_test import BENCH, COUNT, ROOT, checked, heeding, refused, report, run

CASE = ["--seq-len", "16,32", "--iterations", 1, "--backend", "flash"]
FILES = ["performance_results.json", "memory_results.json", "correctness_results.json", "summary_report.md"]
PLOTS = ["time.svg", "gflops.svg", "memory.svg", "peak.svg", "roofline.svg"]
POINTS = "plots.csv"
ODD_NAMES = [
    "x'; touch PWNED; '",
    '"; touch PWNED; "',
    "$(touch PWNED)",
    "`touch PWNED`",
    "; touch PWNED",
    "| touch PWNED",
    "-x",
    "--help",
    "two words",
    "a'b",
    "new\nline",
    "back\\slash",
    "%s%n",
]


def plots_of(folder):
    """The plots that have a curve, of two points at least: a row has no share of a peak that was sampled lower than its rate."""
    path = os.path.join(folder, FILES[0])
    rows = json.load(open(path))["rows"] if os.path.exists(path) else []
    shares = sum(1 for row in rows if row["peak_fraction"])
    return [name for name in PLOTS if name != "peak.svg" or not rows or shares > 1]


def whole(folder, plots):
    """What is wrong with the result files of a folder."""
    expected = sorted(FILES + (plots_of(folder) + [POINTS] if plots else []))
    if sorted(os.listdir(folder)) != expected:
        return "it holds %s" % sorted(os.listdir(folder))
    for name in expected:
        text = open(os.path.join(folder, name)).read()
        if name.endswith(".json") and checked(text)[1]:
            return name + ": " + checked(text)[1]
        if name.endswith(".svg") and "</svg>" not in text:
            return name + " is not whole"
    return None


def test_odd_names(folder):
    plot = ["--plot"] if shutil.which("gnuplot") else []
    if not plot:
        report("plots into odd folders", "gnuplot is not installed", "skipped")
    for name in ODD_NAMES:
        out = os.path.join(folder, name)
        done = run("--output-dir=" + name, *CASE, *plot, cwd=folder)
        fault = done.stderr if done.returncode else whole(out, plot)
        made = [n for _, folders, files in os.walk(folder) for n in folders + files if n == "PWNED"]
        report("--output-dir %r" % name, "a command ran" if made else fault)
        shutil.rmtree(out, ignore_errors=True)
    for name in ODD_NAMES[:3] + ["-x", "n" * 255]:
        done = run("--save-baseline=" + name, *CASE, cwd=folder)
        again = run("--baseline=" + name, "--saved=" + name, cwd=folder)
        fault = done.stderr if done.returncode else again.stderr if again.returncode else None
        left = [n for n in os.listdir(folder) if n == "PWNED" or n.endswith(".part")]
        report("--save-baseline %r" % name[:20], left or fault)


def test_programs(folder):
    """No shell, and gnuplot gets no name to misread: a gnuplot of our own writes down what it was started with."""
    source = open(os.path.join(ROOT, "attn_bench.c")).read()
    shells = re.findall(r"\b(?:system|popen|execlp?|execvpe|wordexp)\s*\(", source)
    report("no shell in attn_bench.c", shells or None)
    log, fake = os.path.join(folder, "arguments"), os.path.join(folder, "gnuplot")
    with open(fake, "w") as f:
        f.write('#!/bin/sh\nprintf "%%s\\n" "$#" "$@" >> \'%s\'\ncat\necho "<svg></svg>"\n' % log)
    os.chmod(fake, 0o755)
    environment = dict(os.environ, PATH=folder + ":" + os.environ["PATH"])
    done = run(*CASE, "--plot", "--output-dir", "out'put", cwd=folder, env=environment)
    started = open(log).read() if os.path.exists(log) else "never"
    drawn = plots_of(os.path.join(folder, "out'put"))
    report(
        "arguments of gnuplot",
        None if done.returncode == 0 and started == "1\n--version\n" + "1\n-\n" * len(drawn) else done.stderr + started,
    )
    done = run(*"--seq-len 16 --iterations 1 --backend flash --plot --output-dir one".split(), cwd=folder, env=environment)
    said = done.returncode == 0 and done.stderr.count("attn_bench: --plot: a curve needs two lengths\n") == 1
    report("nothing to draw is said", None if said else done.stdout + done.stderr)
    script = open(os.path.join(folder, "out'put", "time.svg")).read()
    scripts = [open(os.path.join(folder, "out'put", name)).read() for name in drawn]
    parts = [text.partition("set terminal ") for text in scripts]
    one = all(part[1] and part[2] == parts[0][2] for part in parts)
    report("one script for all plots", None if one else str(scripts))
    plain = [line for part in parts for line in part[0].splitlines() if not re.fullmatch(r"\w+ = ('([^']|'')*'|[01])", line)]
    report("parameters are numbers and quoted texts", plain or None)
    report("no name in the script", script if "out" in re.sub("output", "", script) and "put'" in script else None)
    with open(fake, "w") as f:
        f.write('#!/bin/sh\n[ "$1" = --version ]\n')
    done = run(*CASE, "--plot", "--output-dir", "broken", cwd=folder, env=environment)
    left = os.listdir(os.path.join(folder, "broken"))
    report(
        "a gnuplot that fails leaves nothing",
        None if done.returncode == 2 and "gnuplot could not draw" in done.stderr and not left else done.stderr + str(left),
    )


def test_points(folder):
    """plots.csv has the points of the rows, a line for each, and what gnuplot draws is what it says."""
    if not shutil.which("gnuplot"):
        report("plots.csv", "gnuplot is not installed", "skipped")
        return
    flags = "--seq-len 64,16,32 --iterations 3 --backend standard,flash --window 5,0 --causal --plot --output-dir out"
    done = run(*flags.split(), cwd=folder)
    if done.returncode:
        report("plots.csv", done.stderr)
        return
    out = os.path.join(folder, "out")
    rows = json.load(open(os.path.join(out, FILES[0])))["rows"]
    points = list(csv.DictReader(open(os.path.join(out, POINTS), newline="")))
    wanted = {"time.svg": "p50_ms", "gflops.svg": "gflops", "peak.svg": "peak_fraction"}
    for name, key in wanted.items():
        close = lambda a, b: abs(float(a) - b) <= 1e-5 * b
        mine = [p for p in points if p["plot"] == name]
        order = [(p["curve"], p["title"].partition(":")[0], int(p["x"])) for p in mine]
        fault = None
        with_key = {(r["backend"], r["q_len"]) for r in rows if r[key]}
        if order != [(c, b, n) for c, b in (("1", "standard"), ("2", "flash")) for n in (16, 32, 64) if (b, n) in with_key]:
            fault = str(mine)
        for p in mine if not fault else []:
            row = next(r for r in rows if r["q_len"] == int(p["x"]) and p["title"].startswith(r["backend"] + ":"))
            spread = (row["min_ms"], row["p95_ms"]) if name == "time.svg" else (row[key], row[key])
            if not (close(p["y"], row[key]) and close(p["low"], spread[0]) and close(p["high"], spread[1])):
                fault = "%s is not %s" % (p, row)
        report("points of " + name, fault)
    for name in plots_of(out):
        titles = {p["title"] for p in points if p["plot"] == name}
        texts = re.findall(r"<text>(?:<tspan[^>]*>)?([^<]*)", open(os.path.join(out, name)).read())
        curves = len({row["backend"] for row in rows if name != "peak.svg" or row["peak_fraction"]})
        right = len(titles) == curves and titles <= {t.strip() for t in texts}
        report("both curves are in " + name, None if right else str(texts))
    alone = run(*"--seq-len 16,32 --iterations 1 --output-dir plain".split(), cwd=folder)
    left = sorted(os.listdir(os.path.join(folder, "plain")))
    report("no points without --plot", None if alone.returncode == 0 and left == sorted(FILES) else str(left))


def test_refusals(folder):
    path = lambda name: os.path.join(folder, name)
    os.mkfifo(path("pipe")), os.mkdir(path("taken")), os.mkfifo(path("taken/summary_report.md"))
    open(path("file"), "w").close()
    for name, flags in (
        ("a device is not replaced", ["--save-baseline", "pipe"]),
        ("a device in a folder is not replaced", ["--output-dir", "taken"]),
        ("a folder is not a file", ["--save-baseline", "taken"]),
        ("a file is not a folder", ["--output-dir", "file"]),
        ("a file is not a folder above", ["--output-dir", "file/deep"]),
        ("a name too long", ["--output-dir", "deep/" + "n" * 300]),
        ("a path too long", ["--output-dir", "d/" * 2000]),
        ("a baseline's path too long", ["--save-baseline", "./" * 2000 + "b"]),
        ("a baseline's name too long", ["--save-baseline", "b" * 256]),
        ("a baseline that is a report", ["--output-dir", "new", "--save-baseline", "new/performance_results.json"]),
        ("a baseline that is a report here", ["--output-dir", ".", "--save-baseline", "summary_report.md"]),
        ("an input that is a folder", ["--input", "taken", "taken", "taken"]),
    ):
        refused(name, folder, *CASE, *flags)


def test_own_output(folder):
    """A file that stdout or stderr is written to is not replaced by another, whatever its name."""
    for stream, name in (("stderr", "/dev/stdout"), ("stderr", "log"), ("stdout", "log")):
        log = os.path.join(folder, "log")
        with open(log, "w") as f:
            f.write("before\n")
            f.flush()
            others = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            done = subprocess.run([BENCH, "1", "16", "1", "8", "--iterations", "3", "--processes", "1", "--save-baseline", name], cwd=folder, text=True, **dict(others, **{stream: f}))
        text = open(log).read()
        said = (text[7:] if stream == "stderr" else done.stderr) == "attn_bench: %s: is what stdout or stderr is written to\n" % name
        report("--save-baseline %s is %s" % (name, stream), None if done.returncode == 2 and said and text.startswith("before\n") else "%d %r" % (done.returncode, text))


def test_unwritable(folder):
    """Root may write everywhere: there the program runs as nobody."""
    closed, own = os.path.join(folder, "closed"), os.path.join(folder, "attn_bench")
    os.mkdir(closed, 0o555)
    shutil.copy(BENCH, own)
    os.chmod(own, 0o755)
    os.chmod(folder, 0o755)
    nobody = (lambda: (os.setgid(65534), os.setuid(65534))) if os.getuid() == 0 else None
    for flag in ("--output-dir", "--save-baseline"):
        for name in ("closed", "closed/new"):
            if flag == "--save-baseline" and name == "closed":
                continue
            done = subprocess.run(
                [own, "1", "16", "1", "8", flag, name],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=nobody,
            )
            good = done.returncode == 2 and not done.stdout and done.stderr.count("\n") == 1
            good = good and "Permission denied" in done.stderr and not os.listdir(closed)
            report("unwritable: %s %s" % (flag, name), None if good else "%d %s" % (done.returncode, done.stderr))


def test_links(folder):
    """What a link leads to is written; the link stays, and one that leads nowhere is named."""
    os.mkdir(os.path.join(folder, "there"))
    for name, to in (("linked.csv", "there/real.csv"), ("second.csv", "linked.csv"), ("lost.csv", "there/no/file.csv")):
        os.symlink(to, os.path.join(folder, name))
    open(os.path.join(folder, "there", "real.csv"), "w").close()
    for name, code in (("linked.csv", 0), ("second.csv", 0), ("lost.csv", 2)):
        done = subprocess.run(
            [BENCH, "1", "16", "1", "8", "--iterations", "3", "--processes", "1", "--save-baseline", name],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        kept = os.path.islink(os.path.join(folder, name)) and sorted(os.listdir(os.path.join(folder, "there"))) == ["real.csv"]
        real = os.path.join(folder, "there", "real.csv")
        good = done.returncode == code and kept and (code or os.path.getsize(real) > 0) and (not code or name in done.stderr)
        report("a link: " + name, None if good else "%d %s" % (done.returncode, done.stderr))
        open(real, "w").close()


def limited(size, signals):
    """Writing beyond so many bytes of a file fails, as on a full disk; SIGXFSZ is as a shell leaves it, or stays ignored."""
    return dict(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, -1)), restore_signals=signals)


def test_full_disks(folder):
    out = os.path.join(folder, "out")
    paths = (("--output-dir", out), ("--save-baseline", os.path.join(folder, "b.json")))
    for (flag, path), signals in itertools.product(paths, (False, True)):
        done = run("1", "16", "1", "8", "--iterations", 1, flag, path, **limited(2048, signals))
        good = done.returncode == 2 and not done.stdout and done.stderr.count("\n") == 1
        report(
            "a disk that is full, %s, signals as %s" % (flag, "usual" if signals else "ours"),
            None if good and not os.listdir(folder) else done.stderr + done.stdout + str(os.listdir(folder)),
        )
    # it fills up while the rows are measured: the first row, which is declined, is said on stderr at once
    for flag, path in (("--output-dir", out), ("--save-baseline", os.path.join(folder, "b.json"))):
        child = subprocess.Popen(
            [BENCH, "--seq-len", "32", "--backend", "hip,flash", "--min-time", "1", flag, path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            restore_signals=False,
            preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
        )
        first = child.stderr.readline()
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (1024, -1))
        text = first + child.communicate()[1]
        left = [n for _, _, files in os.walk(folder) for n in files]
        report(
            "a disk that fills up, " + flag,
            None if child.returncode == 2 and "File too large" in text and not left else "%d %s %s" % (child.returncode, text, left),
        )
    for flags in ("--help", "--version", "--list", "1 16 1 8 --iterations 1", "1 16 1 8 --iterations 1 --format json"):
        with open("/dev/full", "w") as full:
            done = subprocess.run([BENCH] + flags.split(), stdout=full, stderr=subprocess.PIPE, text=True)
        good = done.returncode == 2 and "stdout: No space" in done.stderr
        report("a full disk for the output of " + flags, None if good else "%d %s" % (done.returncode, done.stderr))


def without(*numbers):
    """Started with these of stdin, stdout and stderr closed."""
    return lambda: [os.close(n) for n in numbers]


def test_closed(folder):
    """Of stdin, stdout and stderr any may be closed: no other file takes its place."""
    path = os.path.join(folder, "saved.csv")
    flags = [BENCH, "--seq-len", "16", "--backend", "flash,hip", "--iterations", "3", "--processes", "3", "--format", "csv"]
    for closed in ((2,), (0, 2)):
        done = subprocess.run(flags + ["--save-baseline", path], stdout=subprocess.PIPE, text=True, preexec_fn=without(*closed))
        rows = list(csv.DictReader(done.stdout.splitlines()))
        saved = open(path).read().count(",flash,") if os.path.exists(path) else 0
        good = done.returncode == 0 and [r["backend"] for r in rows] == ["flash", "hip"] and saved == 3
        report("closed: %s" % (closed,), None if good else "%d, %d saved, %s" % (done.returncode, saved, done.stdout))
    done = subprocess.run(flags + ["--save-baseline", path + "2"], stderr=subprocess.PIPE, text=True, preexec_fn=without(1))
    good = done.returncode == 2 and done.stderr == "attn_bench: stdout: Bad file descriptor\n" and not os.path.exists(path + "2")
    report("closed: stdout", None if good else "%d %s" % (done.returncode, done.stderr))


def test_nohup(folder):
    """A hang-up that is ignored stays so; what ends a run otherwise."""
    for ignored in (False, True):
        child = subprocess.Popen(
            [BENCH, "--seq-len", "16,32", "--backend", "flash", "--min-time", "0.5", "--format", "json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL),
        )
        text = child.stdout.readline()              # it has begun
        child.send_signal(signal.SIGHUP)
        document, fault = checked(text + child.communicate()[0])
        good = document and document["interrupted"] != ignored and child.returncode == (0 if ignored else 130)
        report("SIGHUP, %s" % ("ignored" if ignored else "as usual"), fault or (None if good and (not ignored or len(document["rows"]) == 2) else str(child.returncode)))


def test_nothing_saved(folder):
    """A run that measures nothing leaves the run that was saved before."""
    path = os.path.join(folder, "saved.csv")
    run(*CASE, "--processes", 2, "--save-baseline", path)
    before = open(path).read()
    done = run("--seq-len", 16384, "--backend", "reference", "--iterations", 2, "--processes", 2, "--save-baseline", path)
    good = done.returncode == 2 and "nothing was measured" in done.stderr and open(path).read() == before
    report("nothing is saved where nothing was measured", None if good else "%d %s" % (done.returncode, done.stderr))


def test_reports_kept(folder):
    """Reports are kept where not one row was measured: the run is interrupted before, or every backend declines."""
    read = lambda: {n: open(os.path.join(folder, "out", n)).read() for n in sorted(os.listdir(os.path.join(folder, "out")))}
    run(*CASE, "--output-dir", "out", cwd=folder)
    before = read()
    flags = "--seq-len 1024 --backend flash --iterations 3 --format json --output-dir out".split()
    child = subprocess.Popen([BENCH, *flags], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heeding)
    text = child.stdout.readline()                  # it has begun, and has no row
    child.send_signal(signal.SIGINT)
    document, fault = checked(text + child.stdout.read())
    errors, code = child.stderr.read(), child.wait()
    kept = sorted(before) == sorted(FILES) and read() == before and errors == "attn_bench: nothing was measured: no reports are written to out\n"
    rows = document and document["rows"]
    report("reports and Ctrl-C before a row", fault or str(rows) if fault or rows else None if kept and code == 130 else errors)
    done = run("--seq-len", 16384, "--backend", "reference", "--iterations", 2, "--output-dir", "out", cwd=folder)
    report("reports where nothing was measured", None if done.returncode == 2 and read() == before else done.stderr)


def test_new_folder(folder):
    """A saved run may lie in the folder that the run makes."""
    done = run(*CASE, "--processes", 1, "--output-dir", "new", "--save-baseline", "new/saved.csv", cwd=folder)
    left = sorted(os.listdir(os.path.join(folder, "new")))
    report("saved in a new folder", None if done.returncode == 0 and left == sorted(FILES + ["saved.csv"]) else "%s %s" % (left, done.stderr))


def test_commit(folder):
    """The commit beside the program: a branch's file, or what git has packed."""
    commit, own = "0123456789abcdef0123456789abcdef01234567", os.path.join(folder, "attn_bench")
    shutil.copy(BENCH, own)
    os.makedirs(os.path.join(folder, ".git/refs/heads"))
    for name, text, want in (
        ("HEAD", "ref: refs/heads/main\n", None),
        ("packed-refs", "# pack-refs with: peeled\n%s refs/heads/other\n^%s\n%s refs/heads/main\n" % (commit[::-1], commit[::-1], commit), commit[:12]),
        ("refs/heads/main", commit[::-1] + "\n", commit[::-1][:12]),
        ("HEAD", commit + "\n", commit[:12]),
    ):
        with open(os.path.join(folder, ".git", name), "w") as f:
            f.write(text)
        done = subprocess.run([own, "1", "16", "1", "8", "--iterations", "1", "--format", "json"], stdout=subprocess.PIPE, text=True)
        found = json.loads(done.stdout)["context"]["commit"]
        report("the commit of .git/%s" % name, None if found == want else str(found))


def main():
    for test in (test_new_folder, test_commit, test_odd_names, test_programs, test_points, test_refusals, test_own_output, test_unwritable, test_links, test_full_disks, test_closed, test_nohup, test_nothing_saved, test_reports_kept):
        with tempfile.TemporaryDirectory() as folder:
            test(folder)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % COUNT)
    return COUNT["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
