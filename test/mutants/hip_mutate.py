"""hip_mutate.py - removes every barrier of attn_hip.c in turn, applies every fault of test/mutants/hip_mutants.txt, and asks that a test fails.

usage: hip_mutate.py [--jobs N] [--list] [--every-chip] [--source FILE] [NAME ...]     NAME: only faults whose name contains it

A fault is a block of lines as in test/mutants/mutants.txt:

    name | chips to try, in order (any: all four; sm80: the gradients of mma.sync, or its decode; sm90: the forward of wgmma, or its gradients: emulated)
    - text that occurs once in attn_hip.c, however its lines are broken
    + text in its place

A fault in the kernels of 16-bit types, or in those of their gradients, is compiled for bf16 (for f16 where its name says so), any other
fault for f32: a third of the time; what has no kernel then runs on the scalar one, which the tests allow here.

The barriers are found in the source, there is no list of them. A mutant is compiled for one chip after the other and run in the simulator
until a test notices; --every-chip goes on and says which chips do not. A mutant that no chip notices survives, and that is a failure;
so is one that does not compile, and an old text that does not occur exactly once."""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import hip_splice
import mutate
from hip_splice import ARCH, CHIPS, DECODE_MMA, EMULATE, GRAD_WGMMA, GRADIENTS, NVIDIA, WGMMA, type_of

ROOT = mutate.ROOT
OUT = ROOT / "build" / "hip" / "mutate"
# A barrier, whatever it is wrapped in; one that votes as well leaves the vote of its own wave behind.
BARRIER = re.compile(r"\b(?:__syncthreads|__builtin_amdgcn_s_barrier|gpu_barrier\w*|gpu_sync\w*)\s*\(\s*\)\s*;"
                     r"|\b(?P<vote>__syncthreads_(?:or|and|count))\s*(?=\()")
KILL = [["hip_grid", "--count", "120", "--cost", "22", "--seed", "500", "--stop", "--scalar"],
        ["hip_grid", "--backward", "--count", "130", "--cost", "18", "--seed", "503", "--stop", "--scalar"],
        ["hip_unit"],
        ["hip_grid", "--count", "60", "--cost", "20", "--seed", "502", "--stop", "--scalar", "--where", "host", "HIPSIM_DEFER=1"],
        ["hip_grid", "--count", "400", "--cost", "22", "--seed", "501", "--stop", "--scalar"]]
# in the kernels of gradients on a matrix unit
KILL_GRADIENTS = [["hip_unit", "backward16_*"], ["hip_unit", "backward_*"],
                  ["hip_grid", "--backward", "--count", "400", "--cost", "18", "--seed", "503", "--stop", "--scalar", "HIPSIM_ORDER=random:1"]]
# in those of wgmma
KILL_WGMMA = [["hip_grid", "--count", "200", "--cost", "18", "--seed", "600", "--stop", "--scalar"],
              ["hip_grid", "--count", "100", "--cost", "18", "--seed", "602", "--stop", "--scalar", "HIPSIM_ORDER=random:1", "HIPSIM_GLOBAL_RACES=1"],
              ["hip_grid", "--count", "1000", "--cost", "18", "--seed", "601", "--stop", "--scalar"]]
# in those of wgmma's gradients
KILL_GRAD_WGMMA = [["hip_grid", "--backward", "--count", "300", "--cost", "18", "--seed", "603", "--stop", "--scalar"],
                   ["hip_unit", "backward16_spoiled"],
                   ["hip_grid", "--backward", "--count", "150", "--cost", "18", "--seed", "605", "--stop", "--scalar", "HIPSIM_ORDER=random:1", "HIPSIM_GLOBAL_RACES=1"]]
# in that of few rows on mma.sync
KILL_DECODE_MMA = [["hip_grid", "--few", "--count", "900", "--cost", "18", "--seed", "604", "--stop", "--scalar"], ["hip_unit", "parts_spoiled"]]
SECONDS = 1200        # a slow machine takes 400 for hip_unit; what does not end, HIPSIM_MAX_INST does
# code that no other rows run: from a text to the next one after it
EMULATED = [("struct gpu_grad_wgmma", "---- few rows on mma.sync", GRAD_WGMMA, "sm90"), ("---- few rows on mma.sync", "#define GPU_ROW_NV", DECODE_MMA, "sm80"),
            ("/* AHEAD: tile t,", "---- the end", WGMMA, "sm90"), ("if constexpr (S::AHEAD) {\n                bring_tile", "else fetch", WGMMA, "sm90")]
SLOW = {"HIPSIM_MAX_INST": "1000000000", "HIPSIM_LDS": "262144"}
ENVIRONMENT = {"HIPSIM_THREADS": "1", "HIPSIM_POISON": "1", "HIPSIM_MAX_INST": "50000000"}


def without_comments(source):
    """The same length, comments and strings blanked: what is found in it is code."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", blank, source, flags=re.S)


def kind(source, position):
    """The rows that a fault at that position is compiled with, and the chips that run the code there."""
    fragment, params = source.find(">>fragment ="), source.find(">>params =")
    kernel16, kernel32, fma, table = (source.find(text) for text in (">>kernel16 =", ">>kernel32 =", "---- FMA", ">>table ="))
    for first, last, rows, chip in EMULATED:
        at = source.find(first)
        if 0 <= at <= position < source.find(last, at):
            return rows, [chip]
    if 0 <= source.find(">>kernel16 mma.sync =") <= position < table:
        return NVIDIA, ["gfx1100"]
    if 0 <= source.find(">>gradients =") <= position < kernel32:
        return GRADIENTS, CHIPS
    if 0 <= source.find("struct gpu_unit<UNIT_FMA>") <= position < source.find("struct gpu_unit<UNIT_WMMA11>"):
        return GRADIENTS, ["gfx1100", "gfx1201"]
    if fragment <= position < params or kernel16 <= position < kernel32:
        return 16, CHIPS
    return 32, ["gfx1100", "gfx1201"] if fma <= position < table else CHIPS


def barriers(source):
    found = []
    for m in BARRIER.finditer(without_comments(source)):
        line = source.count("\n", 0, m.start()) + 1
        text = source[:m.start()] + (" " if m.group("vote") else ";") + source[m.end():]
        rows, chips = kind(source, m.start())
        if (rows == NVIDIA or chips[0] in ARCH) and not (ROOT / EMULATE).exists():
            print(f"skipped: barrier in line {line}, of mma.sync: {EMULATE} is not there")
            continue
        found.append((f"barrier in line {line}", chips, text, rows))
    return found


def faults(source):
    found, broken = [], []
    for block in (pathlib.Path(__file__).with_name("hip_mutants.txt")).read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        name, chips = [part.strip() for part in lines[0].split("|")]
        old = "\n".join(line[2:] for line in lines[1:] if line[0] == "-")
        new = "\n".join(line[2:] for line in lines[1:] if line[0] == "+")
        places = [*mutate.pattern(old).finditer(source)]
        if len(places) != 1 or old == new:
            broken.append((name, f"its old text occurs {len(places)} times"))
        else:
            at, end = places[0].span()
            rows = kind(source, at)[0]
            if chips in ARCH and rows not in (GRAD_WGMMA, DECODE_MMA):
                rows = {"sm80": GRADIENTS, "sm90": WGMMA}[chips]
            found.append((name, CHIPS if chips == "any" else chips.split(), source[:at] + new + source[end:], rows))
    return found, broken


def call(arguments, log, seconds, environment=None):
    with open(log, "w") as out:
        try:
            return subprocess.run(arguments, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, timeout=seconds,
                                  env={**os.environ, **(environment or {})}).returncode
        except subprocess.TimeoutExpired:
            return "time"


def tests_of(rows):
    return {GRADIENTS: KILL_GRADIENTS, WGMMA: KILL_WGMMA, GRAD_WGMMA: KILL_GRAD_WGMMA, DECODE_MMA: KILL_DECODE_MMA}.get(rows, KILL)


def command(chip, test, directory):
    """(How the test is run there, its environment)."""
    program, *arguments = test
    options = ["--type", type_of(directory)] if chip in ARCH and program == "hip_grid" else []
    more = dict(a.split("=") for a in arguments if "=" in a)
    return ([f"{directory}/{program}", *[a for a in arguments if "=" not in a], *options],
            {**ENVIRONMENT, "HIPSIM_ARCH": ARCH.get(chip, chip), **(SLOW if chip in ARCH else {}), **more})


def noticed_on(chip, rows, directory):
    """The first test that notices what was built in the directory, or None."""
    for test in tests_of(rows):
        arguments, environment = command(chip, test, directory)
        status = call(arguments, directory / "log", SECONDS, environment)
        if status:
            return f"{test[0]} on {chip}" + (" (time)" if status == "time" else "")
    return None


class Sources:
    """The unchanged source for each chip and rows, which passes its tests: otherwise every mutant would seem caught."""

    def __init__(self, text):
        self.text, self.made, self.lock = text, {}, threading.Lock()

    def of(self, chip, rows, bits):
        with self.lock:
            if (chip, rows, bits) not in self.made:
                directory = OUT / f"unchanged-{chip}-{rows}-{bits}"
                self.made[chip, rows, bits] = hip_splice.Source(chip, rows, self.text, directory)
                by = noticed_on(chip, rows, directory)
                if by:
                    raise RuntimeError(f"the unchanged source fails: {by}\n{(directory / 'log').read_text()[-2000:]}")
            return self.made[chip, rows, bits]


def try_fault(fault, sources, every_chip):
    name, chips, text, rows = fault
    start, found, silent = time.monotonic(), None, []
    directory = OUT / re.sub(r"[^\w]+", "-", name)
    for chip in chips:
        wrong, differs = sources.of(chip, rows, type_of(directory)).build(text, directory)
        if wrong:
            return name, "does not compile: " + wrong
        by = noticed_on(chip, rows, directory) if differs else None
        if by is None:
            silent.append(chip)
        found = found or by
        if found and not every_chip:
            break
    seconds = time.monotonic() - start
    note = f"  (not noticed on {' '.join(silent)})" if silent and found else ""
    print(f"{'caught by ' + found if found else 'SURVIVES':34} {seconds:5.0f} s  {name}{note}", flush=True)
    subprocess.run(["rm", "-rf", str(directory)])
    return name, None if found else "survives on " + " ".join(chips)


def main():
    arguments, jobs, source_path = sys.argv[1:], 2, ROOT / "attn_hip.c"
    options = {"--jobs": None, "--source": None}
    for option in options:
        if option in arguments:
            at = arguments.index(option)
            options[option] = arguments[at + 1]
            del arguments[at:at + 2]
    jobs = int(options["--jobs"] or 2)
    source = pathlib.Path(options["--source"] or source_path).read_text()
    names = [a for a in arguments if not a.startswith("--")]
    listed, broken = faults(source)
    chosen = [f for f in barriers(source) + listed if not names or any(n in f[0] for n in names)]
    if "--list" in arguments:
        for name, chips, _, rows in chosen:
            print(name, "|", " ".join(chips), "|", rows)
        for name, why in broken:
            print("FAIL", name, why)
        return bool(broken)
    if subprocess.run(["test/gpu/hip.sh", "missing"], cwd=ROOT, capture_output=True).returncode == 0:
        print("skipped: the GPU compiler is not installed (make setup)\n0 passed, 0 failed, 1 skipped")
        return 0
    hip_splice.prepare(jobs)
    sources = Sources(source)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            results = list(pool.map(lambda f: try_fault(f, sources, "--every-chip" in arguments), chosen))
        except RuntimeError as wrong:                   # of the unchanged source
            pool.shutdown(cancel_futures=True)
            print(f"{wrong}\n0 passed, 1 failed, 0 skipped")
            return 1
    bad = broken * (not names) + [(name, why) for name, why in results if why]
    for name, why in bad:
        print(f"FAIL {name}: {why}")
    print(f"{len(results) - sum(1 for r in results if r[1])} passed, {len(bad)} failed, 0 skipped")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
