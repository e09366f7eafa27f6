"""mutate.py - applies the faults of test/mutants/mutants.txt to copies of attn.h, one at a time, and runs a short kill set on each.

usage: mutate.py [--ci] [--jobs N] [NAME ...]      --ci: only the faults marked so; NAME: only those

A fault is a block of lines, blocks apart by an empty line:

    name | how it runs | ci
    - text that occurs once in attn.h, however its lines are broken
    + text in its place

How it runs is one of RUNS below. A fault whose old text does not occur exactly once fails, in every run: the list follows the header. Only the
implementation is compiled again, at -O1; the tests are those of build/plain and build/tsan. A mutant counts as caught when a test
fails, crashes or exceeds its time. A build that fails catches nothing: it is a fault of the list."""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EQUIVALENT = pathlib.Path(__file__).with_name("equivalent.txt")
OUT = ROOT / "build" / "mutate"
BUILD = ROOT / "build"

KILL = [["identity"], ["alloc"], ["grid", "--count", "250", "--cost", "18", "--seed", "77"], ["types"], ["beyond"], ["hostile", "--count", "15", "--round", "up"]]
THREADS = [["threads"]]
EXTREMES = [["extremes"], ["edges"], ["thin"], ["guard"], ["hidden"]]
UNITS = [["validate"], ["registry"], ["convert"], ["merge"], ["timing"], ["lengths"], ["tolerance"], ["thin"], ["hidden"], ["memory"], ["parallel"], ["reference"],
         ["overlap"], ["guard"]]
PORTABLE = ["-DATTN_NO_AVX512", "-DATTN_NO_AVX2"]
# the ISA that is not run need not be compiled
OTHER = "-DATTN_NO_AVX2" if "avx512vl" in pathlib.Path("/proc/cpuinfo").read_text() else "-DATTN_NO_AVX512"
# name: compiler and flags, directory of the test objects, environment, tests in order
RUNS = {
    "native": (["cc", "-O1", OTHER], "plain", {}, KILL),
    "avx2": (["cc", "-O1", "-DATTN_NO_AVX512"], "plain", {"ATTN_ISA": "avx2"}, KILL),
    "portable": (["cc", "-O1", *PORTABLE], "plain", {"ATTN_ISA": "portable"}, KILL),
    "threads": (["cc", "-O1", OTHER], "plain", {}, THREADS),
    "units": (["cc", "-O1", *PORTABLE], "plain", {}, UNITS),
    "copies": (["cc", "-O1", OTHER], "plain", {}, [["convert"]]),
    "merge": (["cc", "-O1", *PORTABLE], "plain", {}, [["merge"]]),
    "extremes": (["cc", "-O1", OTHER], "plain", {}, EXTREMES),     # portable code has no fused operation, whose rounding matters here
    "seldom": (["cc", "-O1", OTHER], "plain", {}, [["beyond"], ["tolerance"], ["edges"]]),
    "adaptive": (["cc", "-O1", OTHER], "plain", {}, [["adaptive", "--rows", "12000"]]),
    "sampled": (["cc", "-O1", OTHER], "plain", {}, [["tolerance"], ["adaptive", "--rows", "12000"]]),
    "decode": (["cc", "-O1", OTHER], "plain", {}, [["planes"], ["validate"], ["decode", "--rows", "600"]]),
    # products of bf16 on any machine, by >>generic
    "bf16": (["cc", "-O1", *PORTABLE, "-DATTN__W__portable=1", "-DATTN__MR__portable=8", "-DATTN__NV__portable=3", "-DATTN__ALL_BF16=1"], "plain", {},
             [["hidden"], ["backends"], ["edges"], ["grid", "--count", "250", "--cost", "18", "--seed", "77", "--tolerant", "5"], ["types"]]),
    "tsan": (["clang", "-O1", "-g", "-fsanitize=thread", OTHER], "tsan", {"TSAN_OPTIONS": "halt_on_error=1"}, THREADS),
}
WRAPPED = ["malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign", "mmap"]
SECONDS = 120           # of one test: far beyond the ten that all take together


def read_list(text):
    faults = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        name, run, *marks = [part.strip() for part in lines[0].split("|")]
        old = "\n".join(line[2:] for line in lines[1:] if line[0] == "-")
        new = "\n".join(line[2:] for line in lines[1:] if line[0] == "+")
        if run not in RUNS or not old or old == new:
            sys.exit(f"mutants.txt: {name}: not a fault")
        faults.append((name, run, "ci" in marks, old, new))
    return faults


GAP = r"(?:\s|\\\n)"


def read_blocks(path):
    """(file, reason, old, new) of each block of equivalent.txt, or of a list of survivors."""
    blocks = []
    for block in path.read_text().split("\n\n") if path.exists() else ():
        lines = [line for line in block.splitlines() if line and not line.startswith("# ")]
        if lines:
            file, reason = (part.strip() for part in lines[0].split("|", 1))
            text = lambda mark: " ".join(" ".join(line[1:].split()) for line in lines[1:] if line[0] == mark).strip()
            blocks.append((file, reason, text("-"), text("+")))
    return blocks


def tokens(text):
    return re.findall(r"\w+|[^\w\s]", text.replace("\\\n", " "))


def pattern(text):
    """The text, wherever its lines are broken."""
    found = tokens(text)
    parts = [re.escape(found[0])]
    for before, token in zip(found, found[1:]):
        parts.append(GAP + ("+" if re.match(r"\w", before[-1]) and re.match(r"\w", token) else "*") + re.escape(token))
    return re.compile("".join(parts))


def failure(arguments):
    """None, or the first error that a command says when it fails."""
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
    lines = done.stderr.strip().splitlines() or ["?"]
    return None if done.returncode == 0 else next((line for line in lines if "error" in line), lines[0])[:300]


def build(directory, run):
    """The kill set against the attn.h in `directory`; None, or what the compiler says."""
    compiler, folder, _, tests = RUNS[run]
    def call(arguments):
        done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
        return done.stderr if done.returncode else None
    wrong = call([*compiler, "-std=c99", "-w", f"-I{directory}", f"-I{ROOT}", "-pthread", "-c", "test/common/impl.c", "-o", f"{directory}/impl.o"])
    for name in sorted({test[0] for test in tests}):
        wrap = [f"-Wl,--wrap={f}" for f in WRAPPED] if name == "alloc" else []
        objects = [f"{BUILD}/{folder}/{name}.o", f"{BUILD}/{folder}/hip.o", f"{directory}/impl.o"]
        wrong = wrong or call([*compiler, "-pthread", *objects, "-o", f"{directory}/{name}", *wrap, "-lcmocka", "-lm"])
    return wrong


def caught_by(directory, run):
    """The first test that notices, or None."""
    _, _, environment, tests = RUNS[run]
    for program, *arguments in tests:
        try:
            done = subprocess.run([f"{directory}/{program}", *arguments], cwd=ROOT, capture_output=True, timeout=SECONDS,
                                  env={**os.environ, **environment})
        except subprocess.TimeoutExpired:
            return program + " (time)"
        if done.returncode:
            return program
    return None


def try_fault(fault):
    name, run, _, old, new = fault
    header = (ROOT / "attn.h").read_text()
    start = time.monotonic()
    places = [*pattern(old).finditer(header)]
    if len(places) != 1:
        return name, f"its old text occurs {len(places)} times", 0
    directory = OUT / name.replace(" ", "-").replace("/", "-")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "attn.h").write_text(header[:places[0].start()] + new + header[places[0].end():])
    wrong = build(directory, run)
    if wrong:
        return name, "does not compile: " + wrong.strip().splitlines()[0], 0
    found = caught_by(directory, run)
    print(f"{'caught by ' + found if found else 'SURVIVES':28} {time.monotonic() - start:5.1f} s  {name}", flush=True)
    subprocess.run(["rm", "-rf", str(directory)])
    return name, None if found else "survives", 1


def unchanged_fails(run):
    clean = OUT / f"unchanged-{run}"
    clean.mkdir(exist_ok=True)
    (clean / "attn.h").write_text((ROOT / "attn.h").read_text())
    wrong = build(clean, run) or caught_by(clean, run)
    return f"({run}): {wrong}" if wrong else None


def main():
    arguments = sys.argv[1:]
    jobs = 2
    if "--jobs" in arguments:
        at = arguments.index("--jobs")
        jobs = int(arguments[at + 1])
        del arguments[at:at + 2]
    only_ci = "--ci" in arguments
    names = [a for a in arguments if a != "--ci"]
    listed = read_list((pathlib.Path(__file__).with_name("mutants.txt")).read_text())
    faults = [f for f in listed if (f[2] or not only_ci) and (not names or f[0] in names)]
    source = (ROOT / "attn.h").read_text()
    lost = [(f[0], "its old text does not occur exactly once") for f in listed if f not in faults and len(pattern(f[3]).findall(source)) != 1]
    lost += [(f"equivalent.txt: {old}", f"its old text is no longer in {file}") for file, _, old, _ in read_blocks(EQUIVALENT)
             if not pattern(old).search((ROOT / file).read_text())]
    needed = sorted({f"{RUNS[f[1]][1]}/{name}.o" for f in faults for name in ["hip", *(test[0] for test in RUNS[f[1]][3])]})
    subprocess.run(["make", "-s", f"-j{jobs}", *[f"build/{n}" for n in needed]], cwd=ROOT, check=True)
    # the unchanged header passes: otherwise every mutant would seem caught
    OUT.mkdir(parents=True, exist_ok=True)
    results = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for wrong in pool.map(unchanged_fails, sorted({f[1] for f in faults})):
            if wrong:
                print(f"the unchanged header fails {wrong}\n0 passed, 1 failed, 0 skipped")
                return 1
        results = list(pool.map(try_fault, faults))
    bad = [(name, why) for name, why, _ in results if why] + lost
    for name, why in bad:
        print(f"FAIL {name}: {why}")
    print(f"{len(results) - len(bad) + len(lost)} passed, {len(bad)} failed, 0 skipped")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
