"""mutate_random.py - random faults in the code itself: how many of them do the tests notice?

usage: mutate_random.py [N] [--seed S] [--file FILE ...] [--jobs N] [--skip DRAWN] [--again FILE] [--ci] [--fast] [--quiet]

Draws N mutants with that seed (same sources and seed, same mutants): test/mutants/mutants_of.py changes one place of a random line of attn.h
(without >>mpi and >>ops_neon, which these tests do not compile), of attn_hip.c or of the measuring and checking parts of attn_bench.c. A
mutant that does not compile, or whose object code is that of the source, is replaced by another. Each runs the tests that reach its
line until one fails, crashes or takes several times as long as it should. The others survive. They are printed, and left in build/mutate/ in
the form of test/mutants/mutants.txt; --again FILE runs such a list anew, --skip N goes on behind the first N that were drawn. test/mutants/equivalent.txt names survivors that no test can
notice, each with the reason; they count as neither.

What a mutant of attn.h costs. clang reads the source (a third of a second, a whole one where the code is compiled for each ISA), then
only what the mutant changed is optimized, at -O2, beside the same functions of the source: where the code does not differ, nobody can tell
them apart. A function that is called is called in both, so that what only its callers' knowledge makes the same differs here and is run. The part is
linked before the objects of the source into a shared object that the test programs load (test/mutants/splice.py). Which test reaches
which line gcov says, once for these sources and tests. Of the tests that reach it those come first that have noticed most in their time so
far, in this section of the header and elsewhere (build/mutate/kills-Header.json): the order changes the time alone, never who survives. Sanitizers
look at what all others have passed.

--fast gives each mutant eight seconds of the quick tests: what survives those is found quickly, and runs all by --again.

--ci draws 20 of attn.h with a seed that follows from its text, so that it turns and can be repeated, and gives each eight seconds of the
quick tests. Three or four of ten survive fifteen, half of them because nothing can notice them (test/results/mutation.md), so survivors alone must not
make the run red: it fails below 7 caught of 20, which a rate of 0.65 does once in 500 runs and tests that have gone blind nearly always."""
import argparse
import collections
import concurrent.futures
import fnmatch
import hashlib
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import hip_mutate
import hip_splice
import mutants_of
import mutate
import splice

ROOT = mutate.ROOT
NATIVE = "avx512" if "NO_AVX2" in mutate.OTHER else "avx2"
OUT = ROOT / "build" / "mutate"
FLOOR, DRAWN = 7, 20
KINDS = ("caught", "SURVIVED", "equivalent", "same object", "does not compile")
Test = collections.namedtuple("Test", "build program arguments environment")
Mutant = collections.namedtuple("Mutant", "file line start operator old new text")


# ------------------------------------------------------------------------------------------------ attn.h
NO_ISA = ["-DATTN_NO_AVX2", "-DATTN_NO_AVX512"]
# Sanitizers see the portable code alone: with all ISAs they take minutes to compile. They look at what the others have passed.
# Most functions are the same without the other ISAs: what "portable" has is read in half the time.
MPI = ["-DATTN_MPI", "-DATTN_MPI_PIECE=20011", "-DATTN__MPI_SLICE=16"]      # as test/tests.mk has it
BUILDS = {"plain": [], "portable": NO_ISA, "asan": ["-fsanitize=address,undefined", "-fsanitize-trap=undefined", *NO_ISA], "tsan": ["-fsanitize=thread", *NO_ISA], "mpi": [*MPI, *NO_ISA]}
BUILDS |= {"bench": NO_ISA, "program": [], "bench-asan": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", *NO_ISA]}
SANITIZED = {"asan": "-fsanitize=address,undefined", "tsan": "-fsanitize=thread", "bench-asan": "-fsanitize=address,undefined"}
LEAKS = {"bench": "-fsanitize=leak"}    # it costs nothing until the end
# what the compilers of tomorrow call errors
STRICT = ["-std=c99", "-Wno-everything", "-Werror=incompatible-pointer-types", "-Werror=int-conversion"]     # -w would silence these as well


def tests_of(build, lines, **environment):
    return [Test(build, line.split()[0], tuple(line.split()[1:]), tuple(environment.items())) for line in lines]


KERNELS = ["convert", "identity", "hostile --count 15", "planes", "guard"]
WIDE = ["lengths", "tolerance", "thin", "adaptive --rows 300", "decode --rows 60"]            # where an ISA's width counts
STAGES = [
    tests_of("plain", ["registry", "convert", "merge", "identity", "hostile --count 15 --round up", "memory", "reference", "timing", "edges",
                       "guard", "overlap", "grid --count 150 --cost 17 --seed 77", "validate", "hidden", "lengths", "tolerance", "thin", "planes",
                       "decode --rows 60", "adaptive --rows 300", "types", "parallel"]),
    tests_of("plain", [*KERNELS, "grid --count 150 --cost 17 --seed 79"], ATTN_ISA="avx2"),
    tests_of("plain", [*KERNELS, "grid --count 150 --cost 17 --seed 78"], ATTN_ISA="portable"),
    tests_of("plain", ["alloc", "grid --count 300 --cost 19 --seed 81", "threads", "backends", "process", "extremes", "beyond",
                       "adaptive --rows 12000", "decode --rows 600"]),
    tests_of("plain", WIDE, ATTN_ISA="avx2"),
    tests_of("plain", WIDE, ATTN_ISA="portable"),
    tests_of("asan", ["edges", "memory", "thin", "parallel", "lengths", "tolerance", "overlap", "grid --count 60 --cost 16 --seed 80"]),
    tests_of("tsan", ["threads"], TSAN_OPTIONS="halt_on_error=1"),
]
FAST = STAGES[:3]                      # CI's too
WRAP = [f"-Wl,--wrap={f}" for f in mutate.WRAPPED]
ALONE = ("alloc", "process")            # linked with the mutant itself: allocators that fail; a library that is loaded beside it
FORKS = ("process", "threads")          # what their children reach gcov does not see
FORKED = (">>threads", ">>dispatch", ">>public")


class Spliced:
    """Of a mutant only the functions that it changes are compiled (test/mutants/splice.py)."""
    include, libraries = [], []

    def translation_unit(self, directory, build):
        """What that build compiles: the file that is mutated, or what includes it."""
        return "test/common/impl.c"

    def module(self, directory, build):
        """(The functions and variables of the source in that folder, what the compiler says against it)."""
        wrong = mutate.failure(["clang", "-O2", *BUILDS[build], *self.include, *STRICT, "-fPIC", "-fno-inline", "-fno-strict-aliasing", "-Xclang", "-disable-llvm-passes",
                         "-pthread", f"-I{directory}", "-I.", "-S", "-emit-llvm", self.translation_unit(directory, build), "-o", f"{directory}/{build}.ll"])
        return (None, wrong) if wrong else (splice.Module(pathlib.Path(f"{directory}/{build}.ll").read_text()), None)

    def compile_part(self, text, build, path):
        pathlib.Path(f"{path}.ll").write_text(text)
        level = "-O1" if build in SANITIZED else "-O2"
        return mutate.failure(["clang", level, *([SANITIZED[build]] if build in SANITIZED else []), "-w", "-fPIC", "-pthread", "-c", f"{path}.ll", "-o", f"{path}.o"])

    def compile_clean(self, build):
        """Two jobs: the source, cut into functions and compiled whole."""
        self.modules[build], wrong = self.module(self.clean, build)
        if wrong:
            sys.exit(f"the unchanged {self.file} does not compile: {wrong}")
        return [(self.compile_part, text, build, self.clean / f"{build}-{n}") for n, text in enumerate(self.modules[build].parts(2))]

    def parts(self, build):
        return [f"{self.clean}/{build}-{n}.o" for n in range(2)]

    def compile_own(self, directory, build, module, names):
        """Those functions of a mutant: (why they do not compile, whether their code differs from the source's)."""
        wrong = self.compile_part(module.part(names), build, directory / f"{build}-own")
        if wrong:
            return wrong, False
        known = (build, *names)
        if known not in self.objects:
            both = [n for n in names if n in self.modules[build].functions or n in self.modules[build].variables]
            self.compile_part(self.modules[build].part(both), build, directory / f"{build}-clean")
            self.objects[known] = stripped(f"{directory}/{build}-clean.o")
        return None, stripped(f"{directory}/{build}-own.o") != self.objects[known]


class Learning:
    """Which test has noticed most in its time so far, in this section of the source and elsewhere, is kept in build/mutate/."""
    def learn(self):
        self.kills = OUT / f"kills-{type(self).__name__}.json"
        self.killed = collections.defaultdict(lambda: [0, 0], json.loads(self.kills.read_text()) if self.kills.exists() else {})
        self.lock, self.seconds = threading.Lock(), {}

    def learned(self):
        with self.lock:
            self.kills.write_text(json.dumps(self.killed))

    def noticed(self, stage, mutant, directory, spent, quick):
        """The first test that notices, or None; no more than `quick` seconds of tests, if it is not None. Those first that have noticed most in their time, in this section and elsewhere."""
        section = self.section(mutant)
        def worth(test):
            (here, runs), (kills, all_runs) = self.killed[section + key(test)], self.killed[key(test)]
            return -(here + (kills + 0.5) / (all_runs + 1)) / (runs + 1) / (self.seconds[key(test)] + 0.05)
        for test in sorted((t for t in stage if self.reaches(t, mutant)), key=worth):
            spent[0] += self.seconds[key(test)]
            if quick and spent[0] > quick:
                return None
            how, _ = self.run(directory, test)
            with self.lock:
                for name in (key(test), section + key(test)):
                    self.killed[name] = [n + m for n, m in zip(self.killed[name], (bool(how), 1))]
            if how:
                isa = dict(test.environment).get("ATTN_ISA")
                return f"{' '.join([test.program, *test.arguments])} ({isa or test.build}, {how})"
        return None

    def section(self, mutant):
        at = self.source.rfind("/* ====", 0, self.source.index("\n", mutant.start))
        return re.search(r">>\w+ |$", self.source[at:at + 120])[0]

    def within(self, mutant, *sections):
        return self.section(mutant).startswith(sections)

    def reaches(self, test, mutant):
        return True


class Header(Learning, Spliced):
    """attn.h. The test programs are linked once, with a shared object of the source, and load that of the mutant."""
    name = file = "attn.h"
    share, QUICK = 17, 8
    # without what these builds do not have or this processor cannot run: attention over MPI, AVX-512, NEON
    parts_drawn = [(">>platform =", ">>mpi ="), (">>reference =", ">>ops_neon =" if NATIVE == "avx512" else ">>ops_avx512 ="), (">>isas =", None)]

    def __init__(self, pool, stages):
        self.stages, self.fast = self.stages_of(stages), stages is FAST
        self.quick = self.QUICK if stages == FAST else None      # seconds of tests for each mutant
        self.source = (ROOT / self.file).read_text()
        self.regions = [tuple(self.source.index(name) if name else len(self.source) for name in pair) for pair in self.parts_drawn]
        self.clean, self.modules, self.reach, self.objects = OUT / "unchanged", {}, {}, {}
        self.clean.mkdir(parents=True, exist_ok=True)
        (self.clean / "attn.h").write_text(self.source)
        self.learn()
        self.kept = OUT / f"kept-{type(self).__name__}.json"
        kept = json.loads(self.kept.read_text()) if self.kept.exists() else {}
        self.digests = {key(t): self.digest(t) for stage in self.stages for t in stage}
        self.kept_seconds = {k: v for k, v in kept.get("seconds", {}).items() if self.digests.get(k) == v[0]}
        self.kept_reach = {k: v for k, v in kept.get("reach", {}).items() if self.digests.get(k) == v[0]}
        self.build(pool)
        self.try_clean(pool)

    def stages_of(self, stages):
        return stages

    def digest(self, test):
        sources = [ROOT / "attn.h", *sorted((ROOT / "test" / "common").iterdir()), *(ROOT / "test").glob(f"[mpu]*/{test.program}.c"),
                   *sorted((ROOT / "test").glob("[mpu]*/*.h")), pathlib.Path(splice.__file__)]
        return hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest()

    def keep(self):
        """What the next run with the same sources need not find out again."""
        seconds = {k: [self.digests[k], v] for k, v in self.seconds.items()}
        self.learned()
        reach = {k: [self.digests[k], sorted(v[0]), sorted(v[1])] for k, v in self.reach.items()}
        self.kept.write_text(json.dumps({"seconds": {**self.kept_seconds, **seconds}, "reach": {**self.kept_reach, **reach}}))

    def build(self, pool):
        """The source, cut into functions and compiled whole, and the test programs' objects."""
        builds = sorted({t.build for stage in self.stages for t in stage})
        jobs = []
        for build in builds:
            jobs += [pool.submit(*job) for job in self.compile_clean(build)]
        if "plain" in builds:
            self.modules["portable"], _ = self.module(self.clean, "portable")
        for build in builds:
            folder = OUT / f"tests-{build}"
            folder.mkdir(parents=True, exist_ok=True)
            compiler = ["clang", "-O1", SANITIZED[build]] if build in SANITIZED else ["cc", "-O1"]
            for name in sorted({t.program for stage in self.stages for t in stage if t.build == build}) + ["attn_hip"]:
                at = ROOT / "attn_hip.c" if name == "attn_hip" else next((ROOT / "test").glob(f"[mpu]*/{name}.c"))
                made = ROOT / "build" / "plain" / f"{name.replace('attn_hip', 'hip')}.o"
                needs = [at, ROOT / "attn.h", *(ROOT / "test").glob("[cpu]*/*.h")]
                if build == "plain" and made.exists() and made.stat().st_mtime > max(p.stat().st_mtime for p in needs):
                    (folder / f"{name}.o").write_bytes(made.read_bytes())       # make has built it a moment ago
                    continue
                jobs.append(pool.submit(run, [*compiler, *(MPI if build == "mpi" else []), *self.include, "-std=c99", "-w", "-I.", "-Itest/common", "-pthread", "-c", at, "-o", f"{folder}/{name}.o"],
                                        check=True))
        for job in jobs:
            wrong = job.result()
            if isinstance(wrong, str):
                sys.exit(f"the unchanged {self.file} does not compile: {wrong}")
        for path in self.clean.glob("*.run"):
            path.unlink()                               # linked with other sources
        for build in builds:
            self.link_shared(self.clean, build, [])

    def link_shared(self, directory, build, own, name="shared"):
        linker = ["clang", SANITIZED[build]] if build in SANITIZED else ["cc"]
        wrong = mutate.failure([*linker, "-shared", "-pthread", *([] if build in SANITIZED else ["-Wl,--no-undefined"]), "-Wl,-Bsymbolic-functions", "-Wl,-z,muldefs", f"-Wl,-soname,{build}-{name}.so", *own, *self.parts(build),
                         "-o", f"{directory}/{build}-{name}.so", *self.libraries, "-lm"])
        return wrong

    def program(self, directory, test):
        return f"{directory if test.program in ALONE else self.clean}/{test.program}-{test.build}.run"

    def link(self, directory, test):
        """The test program, if it is not there already."""
        build, program = test.build, self.program(directory, test)
        if os.path.exists(program):
            return
        linker = ["clang", SANITIZED[build]] if build in SANITIZED else ["cc"]
        objects = [f"{OUT}/tests-{build}/{test.program}.o", f"{OUT}/tests-{build}/attn_hip.o"]
        own = [f"{directory}/{build}-own.o"] if os.path.exists(f"{directory}/{build}-own.o") else []
        if test.program == "process":
            self.link_shared(directory, build, own, "loaded")
            os.rename(f"{directory}/{build}-loaded.so", f"{directory}/attn.so")
        what = [*own, *self.parts(build), "-Wl,-z,muldefs"] if test.program in ALONE else [f"{self.clean}/{build}-shared.so"]
        wrong = mutate.failure([*linker, "-pthread", *objects, *what, "-o", program, *(WRAP if test.program == "alloc" else []), "-lcmocka", *self.libraries,
                         "-lm"])
        if wrong:
            sys.exit(f"{program} does not link: {wrong}")

    def try_clean(self, pool):
        """The source passes its tests: each test's seconds, from which its limit follows."""
        self.seconds = {k: v[1] for k, v in self.kept_seconds.items()}
        tests = [t for stage in self.stages for t in stage if key(t) not in self.seconds]
        for test, (how, seconds) in zip(tests, pool.map(lambda t: self.run(self.clean, t), tests)):
            if how:
                sys.exit(f"the unchanged {self.file} fails {key(test)}: {how}\n0 passed, 1 failed, 0 skipped")
            self.seconds[key(test)] = seconds

    def run(self, directory, test):
        """(None, or how the test notices; its seconds)."""
        with self.lock:                                 # another worker may want the same program
            self.link(directory, test)
        loaded = ("LD_LIBRARY_PATH", str(directory)),
        return limited(self.command(self.program(directory, test), test), test._replace(environment=test.environment + loaded), self.seconds.get(key(test)))

    def command(self, program, test):
        return [program, *test.arguments]

    def own_part(self, mutant, directory, build):
        """Compiles what that build of the mutant has changed: (the functions' names, why it does not compile, whether the code differs)."""
        names = None
        if build == "plain" and not self.within(mutant, ">>ops", ">>kernel"):
            module, wrong = self.module(directory, "portable")
            names = None if wrong else splice.changed(self.modules["portable"], module)
            both = [self.modules["plain"], self.modules["portable"]]       # of a function that is new to them nothing is known
            if names and any(not all(n in m.used for m in both) or both[0].meaning(n) != both[1].meaning(n) for n in names):
                names = None
        if not names:
            module, wrong = self.module(directory, build)
            if wrong:
                return [], wrong, False
            names = splice.changed(self.modules[build], module)
        if not names:
            return names, None, False
        return names, *self.compile_own(directory, build, module, names)

    def judge(self, mutant, directory):
        (directory / "attn.h").write_text(mutant.text)
        built, isas, spent = {}, set(), [0]
        for stage in self.stages:
            build, isa = stage[0].build, dict(stage[0].environment).get("ATTN_ISA")
            if build == "tsan" and not self.within(mutant, *FORKED, ">>backends") or isa and isa not in isas and not self.within(mutant, ">>dispatch"):
                continue
            if build not in built:
                names, wrong, built[build] = self.own_part(mutant, directory, build)
                if stage is self.stages[0]:
                    isas = {n.rsplit("__", 1)[1] if re.search("__(avx512|avx2|portable)$", n) else "" for n in names}
                    if wrong or not built[build]:
                        return ("does not compile", wrong) if wrong else ("same object", "")
                    if isas == {"avx512"} and NATIVE != "avx512":
                        return "same object", "but of AVX-512, which this processor has not"
                if built[build]:
                    wrong = self.link_shared(directory, build, [f"{directory}/{build}-own.o"])
                    if wrong:                           # a name that nobody defines
                        return "does not compile", wrong
            if not built[build] or build == "plain" and not isas & {"", isa or NATIVE} or isa and self.fast and isas & {"", NATIVE}:
                continue
            how = self.noticed(stage, mutant, directory, spent, self.quick)
            if how:
                return "caught", f"by {how}"
        return "SURVIVED", "" if any(self.reaches(test, mutant) for stage in self.stages for test in stage) else "no test reaches the line"

    def reaches(self, test, mutant):
        """Whether the test may reach the line: gcov does not know all lines of a statement."""
        executed, known = self.reach.get(key(test), ((), ()))
        return mutant.line in executed or mutant.line not in known or test.program in FORKS and self.within(mutant, *FORKED)

    def map_reach(self, pool):
        """Which test reaches which lines, by gcov."""
        self.reach = {k: (set(v[1]), set(v[2])) for k, v in self.kept_reach.items()}
        tests = [t for stage in self.stages for t in stage if t.build not in SANITIZED and t.program != "process" and key(t) not in self.reach]
        if not tests:
            return
        (OUT / "reach").mkdir(exist_ok=True)
        run(["gcc", "-O1", "--coverage", "-std=c99", "-w", "-I.", "-pthread", "-c", "test/common/impl.c", "-o", f"{OUT}/reach/impl.o"], check=True)
        self.reach.update(zip(map(key, tests), pool.map(self.reach_of, tests)))

    def reach_of(self, test):
        folder = OUT / "reach" / re.sub(r"\W+", "-", key(test))
        folder.mkdir(exist_ok=True)
        for end in ("o", "gcno"):
            (folder / f"impl.{end}").write_bytes((OUT / "reach" / f"impl.{end}").read_bytes())
        objects = [f"{OUT}/tests-plain/{test.program}.o", f"{OUT}/tests-plain/attn_hip.o", f"{folder}/impl.o"]
        run(["cc", "--coverage", "-pthread", *objects, "-o", f"{folder}/test", *(WRAP if test.program == "alloc" else []), "-lcmocka", "-lm"], check=True)
        limited([f"{folder}/test", *test.arguments],
                test._replace(environment=(*test.environment, ("GCOV_PREFIX", str(folder)), ("GCOV_PREFIX_STRIP", "99"))), None)
        done = run(["gcov", "--json-format", "--stdout", str(folder / "impl.gcda")])
        executed, known = set(), set()
        for line in done.stdout.splitlines():
            for file in json.loads(line)["files"]:
                if os.path.basename(file["file"]) == "attn.h":
                    known |= {entry["line_number"] for entry in file["lines"]}
                    executed |= {entry["line_number"] for entry in file["lines"] if entry["count"]}
        subprocess.run(["rm", "-rf", str(folder)])
        return executed, known


class Mpi(Header):
    """Attention over MPI: every test is mpi_test on some ranks, its first argument."""
    name = ">>mpi"
    QUICK = 60
    parts_drawn = [(">>mpi =", ">>reference =")]
    RANKS = ("mpirun --allow-run-as-root --oversubscribe --bind-to none --mca btl self,vader --mca btl_vader_single_copy_mechanism none "
             "--mca mpi_yield_when_idle 1 -n").split()

    def stages_of(self, stages):
        self.include, self.libraries = (run(["mpicc", f"--showme:{what}"], check=True).stdout.split() for what in ("compile", "link"))
        ranks = (2, 3) if stages is FAST else (2, 3, 1, 4, 7)
        return [tests_of("mpi", [f"mpi_test {n} --count 8 --seed {1 + n} --cost 16" for n in ranks])]

    def map_reach(self, pool):
        pass

    def command(self, program, test):
        return [*self.RANKS, test.arguments[0], program, *test.arguments[1:]]


# ------------------------------------------------------------------------------------------------ attn_bench.c
class Bench(Spliced):
    """attn_bench.c: what measures, judges and compares. Its parts are called one by one by test/bench/bench_unit.c, which is all that --fast
    runs; then the program's own tests run it."""
    name = file = "attn_bench.c"
    share = 2
    SECTIONS = (">>check", ">>measure", ">>baseline")
    TESTS = [Test("bench", "bench_unit", (), ()), Test("bench-asan", "bench_unit", (), ()),
             *[Test("program", f"{name}.py", (), ()) for name in ("bench_test", "files_test", "figures_test", "plugin_test")]]

    def __init__(self, pool, stages):
        self.source, self.clean = (ROOT / self.file).read_text(), OUT / "bench"
        banners = [(m.start(), m.group(1)) for m in re.finditer(r"/\* =+ (>>\w+) =", self.source)] + [(len(self.source), "")]
        self.regions = [(at, end) for (at, name), (end, _) in zip(banners, banners[1:]) if name in self.SECTIONS]
        self.clean.mkdir(parents=True, exist_ok=True)
        self.modules, self.objects, self.seconds = {}, {}, {}
        self.tests = self.TESTS[:1] if stages is not STAGES else self.TESTS
        run(["cc", "-O1", "-w", "-I.", "-c", "attn_hip.c", "-o", f"{OUT}/bench/attn_hip.o"], check=True)
        (self.clean / self.file).write_text(self.source)
        builds = {t.build: None for t in self.tests}
        for wrong in [pool.submit(*job) for build in builds for job in self.compile_clean(build)]:
            if wrong.result():
                sys.exit(f"the unchanged {self.file} does not compile: {wrong.result()}")
        for build in builds:
            self.link(self.clean, build, [])
        for test in self.tests:
            how, self.seconds[test] = self.run(self.clean, test)
            if how:
                sys.exit(f"the unchanged {self.file} fails {key(test)}: {how}\n0 passed, 1 failed, 0 skipped")

    def map_reach(self, pool):
        pass

    def keep(self):
        pass

    learned = keep

    def translation_unit(self, directory, build):
        return f"{directory}/attn_bench.c" if build == "program" else "test/bench/bench_unit.c"

    def link(self, directory, build, own):
        sanitizer = {**SANITIZED, **LEAKS}.get(build)
        hip = [f"{self.clean}/attn_hip.o"] if build == "program" else []
        return mutate.failure(["clang", *([sanitizer] if sanitizer else []), "-pthread", "-Wl,-z,muldefs", *own, *self.parts(build), *hip, "-o", f"{directory}/{build}", "-lm", "-ldl"])

    def run(self, directory, test):
        program = f"{directory}/{test.build}"
        command = [program] if test.program == "bench_unit" else [sys.executable, f"test/bench/{test.program}", program, "stop"]
        return limited(command, test, self.seconds.get(test))

    def judge(self, mutant, directory):
        (directory / self.file).write_text(mutant.text)
        built = {}
        for test in self.tests:
            if test.build not in built:
                module, wrong = self.module(directory, test.build)
                names = [] if wrong else splice.changed(self.modules[test.build], module)
                wrong, differs = self.compile_own(directory, test.build, module, names) if names else (wrong, False)
                if differs:
                    wrong = self.link(directory, test.build, [f"{directory}/{test.build}-own.o"])
                if wrong:
                    return "does not compile", wrong
                built[test.build] = differs
                if test is self.tests[0] and not differs:
                    return "same object", ""
            how, _ = self.run(directory, test) if built[test.build] else (None, 0)
            if how:
                return "caught", f"by {test.program} ({'asan, ' if test.build in SANITIZED else ''}{how})"
        return "SURVIVED", ""


# ------------------------------------------------------------------------------------------------ attn_hip.c
class Hip(Learning):
    """attn_hip.c in the simulator, by the tests of test/mutants/hip_mutate.py, those of hip_unit one by one. Only the kernels that a mutant changes are
    compiled (test/mutants/hip_splice.py); where they are all that it changes, the tests that launch none of them are left out. --fast: on the first chip
    whose code differs, of those whose work is cut into small pieces before the others, tests of up to twelve seconds, sixty of them; what is emulated has
    few tests, and all of them."""
    name = file = "attn_hip.c"
    share, QUICK, SLOW = 1, 60, 12

    def __init__(self, pool, stages):
        self.fast, self.source = stages is FAST, (ROOT / self.file).read_text()
        self.regions = [(self.source.index(">>arch ="), len(self.source))]
        self.learn()
        sources = [ROOT / self.file, ROOT / "attn.h", *sorted((ROOT / "test/gpu").glob("hip*.[ch]")), pathlib.Path(hip_mutate.__file__), pathlib.Path(hip_splice.__file__)]
        self.digest, self.kept = hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest(), OUT / "kept-Hip.json"
        kept = json.loads(self.kept.read_text()) if self.kept.exists() else {}
        same = kept.get("digest") == self.digest
        self.known = kept["seconds"] if same else {}        # of the source; None: too slow for --fast
        self.launched = kept["launched"] if same else {}    # the kernels that a test launches; none of one that has the simulator's report itself
        self.sources, self.tests, self.preparing = {}, {}, collections.defaultdict(threading.Lock)
        hip_splice.prepare(1)

    map_reach = Bench.map_reach

    def keep(self):
        with self.lock:
            self.kept.write_text(json.dumps({"digest": self.digest, "seconds": dict(self.known), "launched": dict(self.launched)}))

    def quick(self, chip):
        return self.QUICK if self.fast and chip not in hip_splice.ARCH else None

    def unchanged(self, chip, rows):
        """The source for that chip, which passes its tests: those of them that are not too slow."""
        with self.lock:
            alone = self.preparing[chip, rows]
        with alone:
            if (chip, rows) not in self.sources:
                source, self.tests[chip, rows] = hip_splice.Source(chip, rows, self.source, OUT / f"hip-{chip}-{rows}"), []
                for test in hip_tests(chip, rows):
                    self.seconds[key(test)] = self.known[key(test)] = self.seconds_of(test, source.directory, self.quick(chip))
                    if self.seconds[key(test)] is not None:
                        self.tests[chip, rows].append(test)
                self.sources[chip, rows] = source
                self.keep()
            return self.sources[chip, rows]

    def seconds_of(self, test, directory, quick):
        """What it takes on the source, which passes it; None if that is too long."""
        known = self.known.get(key(test), "")
        if known == "" or known is None and not quick:
            report = directory / "report"
            how, known = self.run(directory, test, self.SLOW / 10 if quick else None, report)
            self.launched[key(test)] = [] if how else sorted(set(re.findall(r"hipsim report: (\w+) \(", report.read_text(errors="replace"))))
            if how:                                     # some cannot have a report
                how, known = self.run(directory, test, self.SLOW / 10 if quick else None)
            if how and not (quick and (how == "time" or known > self.SLOW)):      # of which a child may see the limit
                sys.exit(f"the unchanged {self.file} fails {key(test)}: {how}\n0 passed, 1 failed, 0 skipped")
            known = None if how else known
        return None if quick and known and known > self.SLOW else known

    def run(self, directory, test, seconds=None, report=None):
        command, environment = hip_mutate.command(test.build.split()[0], [test.program, *test.arguments], directory)
        if report:
            environment["HIPSIM_REPORT"] = "1"
        return limited(command, test._replace(environment=tuple(environment.items())), seconds or self.seconds.get(key(test)), report)

    def judge(self, mutant, directory):
        rows, chips = hip_mutate.kind(self.source, mutant.start)
        differs, spent = False, [0]
        for chip in sorted(chips, key=lambda c: c not in hip_splice.DEFINES) if self.fast else chips:
            source, own = self.unchanged(chip, rows), directory / chip
            wrong, different = source.build(mutant.text, own)
            if wrong:
                return "does not compile", wrong
            if not different:
                continue
            tests = [t for t in self.tests[chip, rows] if different is True or not self.launched[key(t)] or different & set(self.launched[key(t)])]
            differs, found = True, self.noticed(tests, mutant, own, spent, self.quick(chip))
            if found:
                return "caught", f"by {found}"
            if self.fast:
                break
        return ("SURVIVED" if differs else "same object"), ""


def hip_tests(chip, rows):
    """The tests of a fault there, each of hip_unit by itself."""
    units = re.findall(r"\b(?:TEST|WITH|SIMULATED)\((\w+)", (ROOT / "test/gpu/hip_unit.c").read_text().split("} tests[] = {")[1].split("};")[0])
    found = []
    for program, *arguments in hip_mutate.tests_of(rows):
        names = [[u] for u in units if not arguments or fnmatch.fnmatch(u, arguments[0])] if program == "hip_unit" else [arguments]
        found += [Test(f"{chip} {rows}", program, tuple(n), ()) for n in names if n != ["f"]]
    return list(dict.fromkeys(found))


# ------------------------------------------------------------------------------------------------ running things
def run(arguments, **options):
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, **options)


def key(test):
    return " ".join([test.build, test.program, *test.arguments, *(f"{k}={v}" for k, v in test.environment)])


def stripped(path):
    """What the object is, without what names and notes say."""
    copy = path + ".stripped"
    run(["objcopy", "--strip-unneeded", "-R", ".comment", "-R", ".note.*", "-R", ".llvm_addrsig", path, copy], check=True)
    return hashlib.sha256(pathlib.Path(copy).read_bytes()).digest()


RUNS = itertools.count()


def end_all_with(mark):
    """Kills what a test has started and left behind, be it in a session of its own: a fault may start itself without end."""
    needle, found = f"MUTATE_RUN={mark}".encode(), True
    while found:
        found = False
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as environment:
                    if needle not in environment.read().split(b"\0"):
                        continue
                os.kill(int(pid), signal.SIGKILL)
                found = True
            except OSError:                             # it has ended, or is not ours
                pass


def limited(arguments, test, seconds, errors=None):
    """(None, or how a test fails, and its seconds of a processor): within three to ten times what it takes, and with no more memory than any needs.
    Of the wall's seconds it has more, for others may be at work: they end only what waits for ever. A cmocka program ends with its first failure."""
    processor = 300 if seconds is None else int(min(3 + 10 * seconds, 15 + 3 * seconds))
    memory = "unlimited" if test.build in SANITIZED | LEAKS else (256 if test.program == "hip_unit" else 12) << 20      # far_apart has room, not memory
    mark = f"{os.getpid()}-{next(RUNS)}"
    shell = ["bash", "-c", f"ulimit -c 0 -t {processor} -v {memory}; exec \"$@\"", "bash", *arguments]
    with open(errors or os.devnull, "w") as stderr:
        child = subprocess.Popen(shell, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=stderr, stdin=subprocess.DEVNULL,
                                 env={**os.environ, "CMOCKA_TEST_ABORT": "1", **dict(test.environment), "MUTATE_RUN": mark}, start_new_session=True)
    end, status = time.monotonic() + (600 if seconds is None else 15 + 30 * seconds), None
    while status is None:
        pid, code, used = os.wait4(child.pid, os.WNOHANG)
        if pid:
            status = os.waitstatus_to_exitcode(code)
        elif time.monotonic() > end:
            os.killpg(child.pid, signal.SIGKILL)
            os.wait4(child.pid, 0)
            status = "time"
        else:
            time.sleep(0.005)
    child.returncode = 0                                # it has been waited for
    end_all_with(mark)
    spent = used.ru_utime + used.ru_stime
    if status == 0:
        return None, spent
    if status in (126, 127) or not shutil.which(arguments[0]):
        sys.stderr.write(f"{arguments[0]} did not start\n")
        os._exit(2)                                     # whatever it is, it is no fault that a test has noticed
    return "time" if status in ("time", -signal.SIGXCPU, -signal.SIGKILL) else "crash" if status < 0 and status != -signal.SIGABRT else "failure", spent


# ------------------------------------------------------------------------------------------------ lists of mutants
def of_change(file, source, line, change):
    """The mutant, with the whole lines that it changes, before and after: what it is known by."""
    first = source.rfind("\n", 0, change.start) + 1
    last = source.find("\n", change.end)
    text = source[:change.start] + change.new + source[change.end:]
    grown = len(text) - len(source)
    squeeze = lambda t: " ".join(t.split())
    return Mutant(file, line, change.start, change.operator, squeeze(source[first:last]), squeeze(text[first:last + grown]), text)


def again(path, targets):
    """The mutants of a list, where their text still is."""
    for file, reason, old, new in mutate.read_blocks(path):
        target = next((t for t in targets if t.file == file), None)
        if not target:
            continue
        places = [*mutate.pattern(old).finditer(target.source)]
        if not places:
            print(f"no longer in {file}: {old}")
            continue
        line = re.search(r"line (\d+)", reason)         # of several places the nearest
        place = min(places, key=lambda p: abs(1 + target.source.count("\n", 0, p.start()) - int(line[1]))) if line else places[0]
        text = target.source[:place.start()] + new + target.source[place.end():]
        yield target, Mutant(file, 1 + target.source.count("\n", 0, place.start()), place.start(), reason, old, new, text)


def fingerprint(mutant):
    return hashlib.sha256("".join([mutant.file, *mutant.text.replace("\\\n", " ").split()]).encode()).digest()


def endless(targets, seed):
    """Mutants drawn at random, none twice: of each file as many as its share says."""
    rng, lines = random.Random(seed), {t: mutants_of.changes(t.source, t.regions) for t in targets}
    seen = set()
    while True:
        target = rng.choices(targets, [t.share for t in targets])[0]
        line, change = mutants_of.draw(lines[target], rng)
        if (target.file, change) not in seen:
            seen.add((target.file, change))
            yield target, of_change(target.file, target.source, line, change)


# ------------------------------------------------------------------------------------------------ the run
class Run:
    def __init__(self, drawn, count, name, quiet, targets):
        self.drawn, self.count, self.quiet = drawn, count, quiet
        self.lock, self.taken, self.counted = threading.Lock(), 0, 0
        self.results = collections.defaultdict(list)
        # as tokens of the whole file: a mutant is the same wherever its lines are broken
        self.known = {fingerprint(mutant) for _, mutant in again(mutate.EQUIVALENT, targets)}
        self.survivors = OUT / f"survivors-{name}.txt"
        self.survivors.write_text("")

    def next(self):
        """One mutant more, as long as too few have counted; those under way may."""
        with self.lock:
            if self.counted + self.taken >= self.count:
                return None
            given = next(self.drawn, None)
            self.taken += given is not None
            return given

    def worker(self, number):
        while True:
            if self.counted >= self.count:
                return
            given = self.next()
            if given is None:
                if self.counted + self.taken >= self.count and self.taken:
                    time.sleep(0.2)                     # one that is under way may not count
                    continue
                return
            target, mutant = given
            directory = OUT / f"mutant-{os.getpid()}-{number}"
            subprocess.run(["rm", "-rf", str(directory)])
            directory.mkdir(parents=True)
            start = time.monotonic()
            if fingerprint(mutant) in self.known:
                verdict, note = "equivalent", ""
            else:
                try:
                    verdict, note = target.judge(mutant, directory)
                except BaseException as wrong:          # a worker that ends alone would be waited for for ever
                    sys.stderr.write(f"{mutant.file}:{mutant.line} {wrong!r}\n")
                    os._exit(2)
            subprocess.run(["rm", "-rf", str(directory)])
            target.learned()
            self.record(mutant, verdict, note, time.monotonic() - start)

    def record(self, mutant, verdict, note, seconds):
        with self.lock:
            self.taken -= 1
            self.results[mutant.file, verdict].append(mutant)
            self.counted += verdict in ("caught", "SURVIVED")
            if verdict == "SURVIVED":
                with self.survivors.open("a") as out:
                    out.write(f"{mutant.file} | {mutant.operator}, line {mutant.line}; {note}\n- {mutant.old}\n+ {mutant.new}\n\n")
            if self.quiet and verdict not in ("SURVIVED", "caught"):
                return
            print(f"{mutant.file}:{mutant.line:<5} {mutant.operator:10} {difference(mutant.old, mutant.new)}  {verdict} {note} {seconds:.1f} s", flush=True)

    def summary(self):
        total = collections.Counter()
        for file in sorted({f for f, _ in self.results}):
            n = {kind: len(self.results[file, kind]) for kind in KINDS}
            total.update(n)
            drawn = n["caught"] + n["SURVIVED"]
            print(f"{file}: {n['caught']} of {drawn} caught, {n['caught'] / max(1, drawn):.3f}; {n['equivalent']} known to be equivalent, "
                  f"{n['same object']} of the same object, {n['does not compile']} do not compile")
        return total["caught"], total["SURVIVED"]


def difference(old, new, around=14, width=60):
    """Where two texts differ, with a few characters around."""
    a = len(os.path.commonprefix([old, new]))
    b = len(os.path.commonprefix([old[a:][::-1], new[a:][::-1]]))
    cut = lambda t: " ".join(t[max(0, a - around):len(t) - b + min(b, around)].split())[:width]
    return f"{cut(old)!r} -> {cut(new)!r}"


def source_seed():
    return int(hashlib.sha1((ROOT / "attn.h").read_bytes()).hexdigest()[:7], 16)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--file", action="append")
    parser.add_argument("--again", type=pathlib.Path)
    parser.add_argument("--ci", action="store_true")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    if options.ci:
        options.count, options.seed = DRAWN, source_seed()
    OUT.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        # --ci: one program's tests have to be built and to pass first; the GPU's mutants take a minute each, and ten for the first of a kind
        files = options.file or ([Header.name] if options.ci else [t.name for t in TARGETS])
        stages = FAST if options.ci or options.fast else STAGES
        targets = [t(pool, stages) for t in [*TARGETS, Mpi] if t.name in files]
        for target in targets:
            if not options.ci:
                target.map_reach(pool)
            target.keep()
    name = options.again.stem if options.again else options.seed
    chosen = list(again(options.again, targets)) if options.again else None
    count = len(chosen) if options.again else options.count
    print(f"{count} mutants, " + (f"of {options.again}" if options.again else f"seed {options.seed}") + f"; prepared in {time.monotonic() - start:.0f} s", flush=True)
    job = Run(iter(chosen) if options.again else itertools.islice(endless(targets, options.seed), options.skip, None), count, f"again-{name}" if options.again else name, options.quiet, targets)
    workers = [threading.Thread(target=job.worker, args=(n,)) for n in range(options.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for target in targets:
        target.keep()
    caught, survived = job.summary()
    repeat = f"repeat: make mutate-random N={count} SEED={options.seed}"
    if options.ci and caught >= FLOOR:
        for (_, verdict), mutants in job.results.items():
            for mutant in mutants if verdict == "SURVIVED" else ():
                print(f"skipped: survived, {mutant.file}:{mutant.line} {mutant.operator} {difference(mutant.old, mutant.new)}")
        print(f"{survived} survived, {FLOOR} of {DRAWN} have to be caught; {repeat}\n{caught} passed, 0 failed, {survived} skipped")
        return 0
    print(f"{time.monotonic() - start:.0f} s; {repeat}\n{caught} passed, {survived} failed, 0 skipped")
    return survived > 0


TARGETS = [Header, Bench, Hip]
if __name__ == "__main__":
    sys.exit(main())
