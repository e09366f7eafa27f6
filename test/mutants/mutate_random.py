"""mutate_random.py - random faults in the code itself: how many of them do the tests notice?

usage: mutate_random.py [N] [--seed S] [--file FILE ...] [--jobs N] [--again FILE] [--ci] [--fast] [--quiet]

Draws N mutants with that seed (same sources and seed, same mutants): test/mutants/mutants_of.py changes one place of a random line of attn.h,
attn_hip.c or the measuring and checking parts of attn_bench.c. A mutant that does not compile, or whose object code is the same as
that of the source, is replaced by another. Each runs the tests that reach its line, the cheapest first, until one fails, crashes or
takes ten times as long as it should. Which test reaches which line gcov says, once for these sources and tests. What nothing
notices is compiled at -O2 once more: if that does not differ from the source it counts as the same object. The others survive.
They are printed, and left in build/mutate/ in the form of test/mutants/mutants.txt; --again FILE runs such a list anew.
test/mutants/equivalent.txt names survivors that no test can notice, each with the reason; they count as neither.

--fast stops behind the tests that take a second or two: what survives those is found quickly, and runs the others by --again.

--ci draws 20 of attn.h with a seed that follows from the commit, so that it turns and can be repeated. One in six of what is drawn survives all
tests, most of it because nothing can notice it (test/results/mutation.md), so a survivor alone must not make the run red: it fails
below 11 caught of 20, which a rate of 0.80 does once in 400 runs and one of 0.50 in more than half of them."""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading
import time

import hip_mutate
import mutants_of
import mutate

ROOT = mutate.ROOT
OUT = ROOT / "build" / "mutate"
FLOOR, DRAWN = 11, 20
KINDS = ("caught", "SURVIVED", "equivalent", "same object", "does not compile")
Test = collections.namedtuple("Test", "build program arguments environment")
Mutant = collections.namedtuple("Mutant", "file line start operator old new text")


# ------------------------------------------------------------------------------------------------ attn.h
NO_ISA = ["-DATTN_NO_AVX2", "-DATTN_NO_AVX512"]
BUILDS = {
    # clang at -O0 takes half a second; gcc at -O1 is what the list of test/mutants/mutate.py uses
    "portable": ["clang", "-O0", *NO_ISA],
    "isa": ["clang", "-O0", "-DATTN_NO_OPTIMIZE"],              # an eighth of the code
    "native": ["cc", "-O1", mutate.OTHER],
    "asan": ["clang", "-O0", "-g0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", *NO_ISA],
    "tsan": ["clang", "-O1", "-g0", "-fsanitize=thread", *NO_ISA],
}
# builds that count lines, of the tests of "portable" and of all others
REACH = {"reach-portable": ["gcc", "-O0", *NO_ISA], "reach-native": ["gcc", "-O1"]}
SANITIZED = {"asan": "-fsanitize=address,undefined", "tsan": "-fsanitize=thread"}


def tests_of(build, lines, **environment):
    return [Test(build, line.split()[0], tuple(line.split()[1:]), tuple(environment.items())) for line in lines]


STAGES = [
    tests_of("portable", ["registry", "convert", "merge", "identity", "hostile --count 15 --round up", "memory", "reference", "timing", "edges",
                          "guard", "overlap", "grid --count 150 --cost 17 --seed 77"]),
    tests_of("isa", ["convert", "identity", "hostile --count 15", "grid --count 150 --cost 17 --seed 78"]),
    tests_of("isa", ["identity", "hostile --count 15", "grid --count 150 --cost 17 --seed 79"], ATTN_ISA="avx2"),
    tests_of("portable", ["validate", "hidden", "lengths", "thin"]),      # seconds each: the code of an ISA seldom waits for them
    tests_of("isa", ["planes", "decode --rows 60", "thin", "types", "adaptive --rows 300"]),
    tests_of("asan", ["edges", "memory", "grid --count 60 --cost 16 --seed 80"]),
    tests_of("native", ["alloc", "identity", "guard", "grid --count 300 --cost 19 --seed 81", "threads", "edges", "parallel", "backends",
                        "process", "extremes", "beyond"]),
    tests_of("tsan", ["threads"], TSAN_OPTIONS="halt_on_error=1"),
]
FAST = STAGES[:4]
ISA = STAGES[1:3]           # for what the portable code of stage 0 does not have
# what CI has the time for: where a test is long, its neighbours see most of what it sees
CI = [*STAGES[:5], tests_of("native", ["alloc", "identity", "guard", "grid --count 300 --cost 19 --seed 81", "threads"])]
WRAP = [f"-Wl,--wrap={f}" for f in mutate.WRAPPED]


class Header:
    """attn.h: the implementation alone is compiled again, and linked with the test programs' own objects."""
    file = "attn.h"
    share = 17

    def __init__(self, pool, stages):
        self.stages = stages
        self.builds = {t.build for stage in self.stages for t in stage}
        self.source = (ROOT / self.file).read_text()
        self.regions = [(self.source.index(">>platform ="), len(self.source))]
        self.clean, self.objects, self.seconds, self.reach = OUT / "unchanged", {}, {}, {}
        self.clean.mkdir(parents=True, exist_ok=True)
        (self.clean / "attn.h").write_text(self.source)
        self.lock = threading.Lock()
        digest = hashlib.sha256(b"".join(p.read_bytes() for p in [ROOT / "attn.h", *sorted((ROOT / "test").glob("[cpu]*/*.[ch]")), pathlib.Path(__file__)]))
        self.digest, self.kept = digest.hexdigest(), OUT / f"kept-{len(self.stages)}.json"
        kept = json.loads(self.kept.read_text()) if self.kept.exists() else {}
        if kept.get("of") != self.digest:
            self.build(pool)
            self.try_clean(pool)
        else:
            self.seconds = kept["seconds"]
            self.reach = {k: (set(v[0]), set(v[1])) for k, v in kept["reach"].items()}
        self.objects = {build: stripped(f"{self.clean}/{build}.o") for build in self.builds}

    def keep(self):
        """What the next run with the same sources need not find out again."""
        reach = {k: (sorted(v[0]), sorted(v[1])) for k, v in self.reach.items()}
        self.kept.write_text(json.dumps({"of": self.digest, "seconds": self.seconds, "reach": reach}))

    def build(self, pool):
        """The test programs' objects and the source's own."""
        jobs = []
        for kind in sorted({kind_of(b) for b in self.builds}):
            folder = OUT / f"tests-{kind}"
            folder.mkdir(parents=True, exist_ok=True)
            compiler = ["clang", "-O1", SANITIZED[kind]] if kind in SANITIZED else ["cc", "-O1"]
            programs = sorted({t.program for stage in self.stages for t in stage if kind_of(t.build) == kind})
            for name in [*programs, "attn_hip"]:
                made = ROOT / "build" / "plain" / f"{name.replace('attn_hip', 'hip')}.o"
                if kind == "plain" and made.exists() and made.stat().st_mtime > (ROOT / "attn.h").stat().st_mtime:
                    (folder / f"{name}.o").write_bytes(made.read_bytes())       # make has built it a moment ago
                    continue
                at = "attn_hip.c" if name == "attn_hip" else next((ROOT / "test").glob(f"[pu]*/{name}.c"))
                jobs.append(pool.submit(run, [*compiler, "-std=c99", "-w", "-I.", "-Itest/common", "-pthread", "-c", at, "-o", f"{folder}/{name}.o"], check=True))
        builds = [(b, pool.submit(self.compile, self.clean, b)) for b in self.builds]
        for job in jobs:
            job.result()
        for build, job in builds:
            if job.result():
                sys.exit(f"the unchanged {self.file} does not compile: {job.result()}")
        for path in self.clean.glob("*-*"):
            path.unlink()                               # programs and objects of other sources

    def try_clean(self, pool):
        """The source passes its tests: each test's seconds, from which its limit follows."""
        tests = [t for stage in (FAST if self.stages is CI else self.stages) for t in stage]
        for test, (how, seconds) in zip(tests, pool.map(lambda t: timed(self.run, self.clean, t), tests)):
            if how:
                sys.exit(f"the unchanged {self.file} fails {key(test)}: {how}\n0 passed, 1 failed, 0 skipped")
            self.seconds[key(test)] = seconds

    def compile(self, directory, build):
        pic = ["-fPIC"] if self.shared(build) else []
        wrong = failure([*BUILDS[build], *pic, "-std=c99", "-w", f"-I{directory}", "-I.", "-pthread", "-c", "test/common/impl.c",
                         "-o", f"{directory}/{build}.o"])
        if wrong or not pic:
            return wrong
        return failure(["cc", "-shared", "-pthread", f"-Wl,-soname,{build}.so", f"{directory}/{build}.o", "-o", f"{directory}/{build}.so", "-lm"])

    def shared(self, build):
        """Whether that build is linked once, as a shared object that all test programs load."""
        return build in ("portable", "isa")

    def program(self, directory, test):
        """What is linked with a shared object of the source loads that of a mutant as well."""
        return f"{self.clean if self.shared(test.build) else directory}/{test.program}-{test.build}"

    def link(self, directory, test):
        kind, program = kind_of(test.build), self.program(directory, test)
        linker = ["clang", SANITIZED[kind]] if kind in SANITIZED else ["cc"]
        if self.shared(test.build):
            return failure([*linker, "-pthread", f"{OUT}/tests-{kind}/{test.program}.o", f"{OUT}/tests-{kind}/attn_hip.o", f"{directory}/{test.build}.so",
                            "-o", program, "-lcmocka", "-lm"])
        objects = [f"{OUT}/tests-{kind}/{test.program}.o", f"{OUT}/tests-{kind}/attn_hip.o", f"{directory}/{test.build}.o"]
        if test.build.startswith("reach"):
            linker = ["cc", "--coverage"]
        if test.program == "process":                   # loads and unloads the library beside it
            source = directory if os.path.exists(f"{directory}/attn.h") else ROOT
            failure(["cc", "-O1", "-fPIC", "-shared", "-std=c99", "-w", *NO_ISA, "-DATTN_IMPLEMENTATION", "-pthread", "-x", "c", f"{source}/attn.h",
                     "-o", f"{directory}/attn.so"])
        return failure([*linker, "-pthread", *objects, "-o", program, *(WRAP if test.program == "alloc" else []), "-lcmocka", "-lm"])

    def run(self, directory, test):
        """None, or how the test notices."""
        program = self.program(directory, test)
        with self.lock:                                 # another worker may want the same program
            if not os.path.exists(program) and self.link(directory, test):
                return "does not link"
        loaded = ("LD_LIBRARY_PATH", str(directory)),
        return limited([program, *test.arguments], test._replace(environment=test.environment + loaded), self.seconds.get(key(test)))

    def changed(self, directory, build):
        """Compiles that build of the mutant; (why it does not compile or None, whether its object differs)."""
        wrong = self.compile(directory, build)
        return wrong, not wrong and stripped(f"{directory}/{build}.o") != self.objects[build]

    def same_when_optimized(self, directory, every_isa):
        """Code that is compiled once for each ISA has to be the same for each; the rest is there in the portable build."""
        for n, flags in enumerate([["-DATTN_NO_AVX2"], ["-DATTN_NO_AVX512"]] if every_isa else [NO_ISA]):
            compiler = ["cc", "-O2", *flags, "-std=c99", "-w", "-pthread", "-c", "test/common/impl.c"]
            name = f"optimized-{n if every_isa else 'portable'}.o"
            clean, own = f"{self.clean}/{name}", f"{directory}/{name}"
            with self.lock:
                if not os.path.exists(clean):
                    failure([*compiler, f"-I{self.clean}", "-I.", "-o", clean])
            if failure([*compiler, f"-I{directory}", "-I.", "-o", own]) or stripped(own) != stripped(clean):
                return False
        return True

    def judge(self, mutant, directory):
        (directory / "attn.h").write_text(mutant.text)
        built = {}
        for build in ("portable", "isa"):
            wrong, built[build] = self.changed(directory, build)
            if wrong:
                return "does not compile", wrong
            if built[build]:
                break
        if not any(built.values()):
            return "same object", ""
        for n, stage in enumerate(self.stages):
            build = stage[0].build
            # most of what passes the quick tests is not a fault at all: asked before the slow ones are run
            if n == len(FAST) and self.same_when_optimized(directory, not built["portable"] or self.within(mutant, ">>ops", ">>kernel")):
                return "same object", "at -O2"
            if build == "tsan" and not self.within(mutant, ">>threads") or \
                    stage in ISA and built["portable"] and not self.within(mutant, ">>ops", ">>kernel"):
                continue
            if build not in built:
                built[build] = self.changed(directory, build)[1]
            for test in sorted(stage, key=lambda t: self.seconds.get(key(t), 0)) if built[build] else ():
                how = self.run(directory, test) if self.reaches(test, mutant.line) else None
                if how:
                    isa = dict(test.environment).get("ATTN_ISA")
                    return "caught", f"by {test.program} ({isa or build}, {how})"
        return "SURVIVED", "" if self.reached(mutant.line) else "no test reaches the line"

    def within(self, mutant, *sections):
        at = self.source.rfind("/* ====", 0, self.source.index("\n", mutant.start))
        return any(section in self.source[at:at + 120] for section in sections)

    def reaches(self, test, line):
        """Whether the test may reach the line: gcov does not know all lines of a statement."""
        executed, known = self.reach.get(key(test), ((), ()))
        return line in executed or line not in known

    def reached(self, line):
        return any(self.reaches(test, line) for stage in self.stages for test in stage)

    def map_reach(self, pool):
        """Which test reaches which lines, by gcov."""
        if self.reach:
            return
        for name, flags in REACH.items():
            folder = OUT / name
            folder.mkdir(exist_ok=True)
            run([*flags, "--coverage", "-std=c99", "-w", "-I.", "-pthread", "-c", "test/common/impl.c", "-o", f"{folder}/{name}.o"], check=True)
        tests = {key(t): t for stage in self.stages for t in stage if t.build not in SANITIZED}
        self.reach = dict(zip(tests, pool.map(self.reach_of, tests.values())))

    def reach_of(self, test):
        name = "reach-portable" if test.build == "portable" else "reach-native"
        folder = OUT / name / re.sub(r"\W+", "-", key(test))
        folder.mkdir(exist_ok=True)
        for end in ("o", "gcno"):
            (folder / f"{name}.{end}").write_bytes((OUT / name / f"{name}.{end}").read_bytes())
        test = test._replace(build=name, environment=(*test.environment, ("GCOV_PREFIX", str(folder)), ("GCOV_PREFIX_STRIP", "99")))
        self.run(folder, test)
        done = run(["gcov", "--json-format", "--stdout", str(folder / f"{name}.gcda")])
        executed, known = set(), set()
        for line in done.stdout.splitlines():
            for file in json.loads(line)["files"]:
                if os.path.basename(file["file"]) == "attn.h":
                    known |= {entry["line_number"] for entry in file["lines"]}
                    executed |= {entry["line_number"] for entry in file["lines"] if entry["count"]}
        subprocess.run(["rm", "-rf", str(folder)])
        return executed, known


# ------------------------------------------------------------------------------------------------ attn_bench.c
class Bench:
    """attn_bench.c: what measures, judges and compares. Its parts are called one by one by test/bench/bench_unit.c, which is all that --fast
    runs; then the program is built and its own tests run it."""
    file = "attn_bench.c"
    share = 2
    SECTIONS = (">>check", ">>measure", ">>baseline")
    SCRIPTS = ("bench_test.py", "files_test.py", "figures_test.py", "plugin_test.py")
    UNIT = ["clang", "-O0", *NO_ISA, "test/bench/bench_unit.c"]
    UNIT_ASAN = ["clang", "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", *NO_ISA, "test/bench/bench_unit.c"]
    PROGRAM = ["clang", "-O1", *NO_ISA, "attn_bench.c", f"{OUT}/bench/attn_hip.o"]

    def __init__(self, pool, stages):
        fast = self.fast = stages is not STAGES
        self.source, self.clean = (ROOT / self.file).read_text(), OUT / "bench"
        banners = [(m.start(), m.group(1)) for m in re.finditer(r"/\* =+ (>>\w+) =", self.source)] + [(len(self.source), "")]
        self.regions = [(at, end) for (at, name), (end, _) in zip(banners, banners[1:]) if name in self.SECTIONS]
        self.clean.mkdir(parents=True, exist_ok=True)
        run(["cc", "-O1", "-w", "-I.", "-c", "attn_hip.c", "-o", f"{OUT}/bench/attn_hip.o"], check=True)
        self.seconds = {}
        (self.clean / self.file).write_text(self.source)
        for command, program in ((self.UNIT, "bench_unit"), (self.UNIT_ASAN, "bench_unit_asan"), (self.PROGRAM, "attn_bench"))[:2 if fast else 3]:
            wrong = self.build(self.clean, command, program)
            if wrong:
                sys.exit(f"the unchanged {self.file} does not compile: {wrong}")
        self.object, self.optimized = (self.compiled(self.clean, level) for level in ("-O0", "-O2"))
        for name, arguments in self.tests(self.clean):
            how, self.seconds[name] = timed(self.run, name, arguments)
            if how:
                sys.exit(f"the unchanged {self.file} fails {name}: {how}\n0 passed, 1 failed, 0 skipped")

    def map_reach(self, pool):
        pass

    def keep(self):
        pass

    def build(self, directory, command, program):
        source = [f"{directory}/attn_bench.c" if word == "attn_bench.c" else word for word in command]
        return failure([*source, "-std=c99", "-w", f"-I{directory}", "-I.", "-pthread", "-o", f"{directory}/{program}", "-lm", "-ldl"])

    def compiled(self, directory, level="-O0"):
        """Its object at that level, as a digest; None where it does not compile: a pointer of another type is an error."""
        wrong = failure(["clang", level, *NO_ISA, "-std=c99", "-w", "-Werror=incompatible-pointer-types", "-Werror=int-conversion", "-I.", "-pthread", "-c",
                         f"{directory}/attn_bench.c", "-o", f"{directory}/bench.o"])
        return None if wrong else stripped(f"{directory}/bench.o")

    def tests(self, directory):
        scripts = () if self.fast else self.SCRIPTS
        units = [(name, [f"{directory}/{name}"]) for name in ("bench_unit", "bench_unit_asan")]
        return units + [(name, [sys.executable, f"test/bench/{name}", f"{directory}/attn_bench", "stop"]) for name in scripts]

    def run(self, name, arguments):
        build = "asan" if name == "bench_unit_asan" else "plain"
        return limited(arguments, Test(build, name, (), ()), self.seconds.get(name))

    def judge(self, mutant, directory):
        (directory / self.file).write_text(mutant.text)
        compiled = self.compiled(directory)
        if compiled is None or compiled == self.object:
            return ("same object", "") if compiled else ("does not compile", "")
        self.build(directory, self.UNIT, "bench_unit")
        for name, arguments in self.tests(directory):
            if name == "bench_unit_asan":
                self.build(directory, self.UNIT_ASAN, name)
            if name == self.SCRIPTS[0]:
                if self.compiled(directory, "-O2") == self.optimized:
                    return "same object", "at -O2"
                self.build(directory, self.PROGRAM, "attn_bench")
            how = self.run(name, arguments)
            if how:
                return "caught", f"by {name} ({how})"
        return "SURVIVED", ""


# ------------------------------------------------------------------------------------------------ attn_hip.c
class Hip:
    """attn_hip.c in the simulator, by the tests of test/mutants/hip_mutate.py: minutes for each mutant. --fast stops behind the first chip."""
    file = "attn_hip.c"
    share = 1

    def __init__(self, pool, stages):
        self.fast, self.source = stages is FAST, (ROOT / self.file).read_text()
        self.regions = [(self.source.index(">>arch ="), len(self.source))]
        self.objects, self.lock = {}, threading.Lock()
        programs = sorted({test[0] for test in hip_mutate.KILL})
        run(["make", "-s", "hipsim", *[f"build/hip/{p}.o" for p in programs], *[f"build/hip/{c}/hip_fault.o" for c in hip_mutate.CHIPS],
             "build/plain/impl.o", "build/hip/hip_wrap.o"], check=True)
        self.links = {(c, p): hip_mutate.link_line(c, p, "@DIRECTORY@") for c in hip_mutate.CHIPS for p in programs}

    map_reach, keep = Bench.map_reach, Bench.keep

    def clean(self, chip, rows):
        """The source's own object for that chip, which passes its tests."""
        with self.lock:
            if (chip, rows) not in self.objects:
                directory = OUT / f"hip-{chip}-{rows}"
                found, wrong = hip_mutate.caught_on(chip, self.source, rows, directory, self.links)
                if found or wrong:
                    sys.exit(f"the unchanged {self.file} fails: {found or wrong}\n0 passed, 1 failed, 0 skipped")
                self.objects[chip, rows] = stripped(f"{directory}/attn_hip.o")
            return self.objects[chip, rows]

    def judge(self, mutant, directory):
        rows, chips = hip_mutate.kind(self.source, mutant.start)
        differs = False
        for chip in chips[:1] if self.fast else chips:
            clean, own = self.clean(chip, rows), directory / chip
            wrong = hip_mutate.build_for(chip, mutant.text, rows, own, self.links)
            if wrong:
                return "does not compile", wrong
            if stripped(f"{own}/attn_hip.o") == clean:
                continue
            differs, found = True, hip_mutate.noticed_on(chip, own)
            if found:
                return "caught", f"by {found}"
        return ("SURVIVED" if differs else "same object"), ""


# ------------------------------------------------------------------------------------------------ running things
def run(arguments, **options):
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, **options)


def failure(arguments):
    done = run(arguments)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[0]


def key(test):
    return " ".join([test.build, test.program, *test.arguments, *(f"{k}={v}" for k, v in test.environment)])


def kind_of(build):
    return build if build in SANITIZED else "plain"


def stripped(path):
    """What the object is, without what names and notes say."""
    copy = path + ".stripped"
    run(["objcopy", "--strip-unneeded", "-R", ".comment", "-R", ".note.*", "-R", ".llvm_addrsig", path, copy], check=True)
    return hashlib.sha256(pathlib.Path(copy).read_bytes()).digest()


def timed(call, *arguments):
    start = time.monotonic()
    return call(*arguments), time.monotonic() - start


def limited(arguments, test, seconds):
    """None, or how a test fails: within ten times what it takes, and with no more memory than any of them needs."""
    processor = 300 if seconds is None else int(5 + 10 * seconds)
    memory = "unlimited" if test.build in SANITIZED else 12 << 20
    shell = ["bash", "-c", f"ulimit -c 0 -t {processor} -v {memory}; exec \"$@\"", "bash", *arguments]
    child = subprocess.Popen(shell, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                             env={**os.environ, **dict(test.environment)}, start_new_session=True)
    try:
        status = child.wait(600 if seconds is None else 30 + 15 * seconds)
    except subprocess.TimeoutExpired:
        status = "time"
    try:
        os.killpg(child.pid, signal.SIGKILL)          # and what it forked
    except ProcessLookupError:
        pass
    child.wait()
    if status == 0:
        return None
    if status in (126, 127) or not os.path.exists(arguments[0]):
        sys.stderr.write(f"{arguments[0]} did not start\n")
        os._exit(2)                                     # whatever it is, it is no fault that a test has noticed
    return "time" if status in ("time", -signal.SIGXCPU, -signal.SIGKILL) else "crash" if status < 0 else "failure"


# ------------------------------------------------------------------------------------------------ lists of mutants
def of_change(file, source, line, change):
    """The mutant, with the whole lines that it changes, before and after: what it is known by."""
    first = source.rfind("\n", 0, change.start) + 1
    last = source.find("\n", change.end)
    text = source[:change.start] + change.new + source[change.end:]
    grown = len(text) - len(source)
    squeeze = lambda t: " ".join(t.split())
    return Mutant(file, line, change.start, change.operator, squeeze(source[first:last]), squeeze(text[first:last + grown]), text)


def read_blocks(path):
    """(file, reason, old, new) of each block."""
    blocks = []
    for block in path.read_text().split("\n\n") if path.exists() else ():
        lines = [line for line in block.splitlines() if line and not line.startswith("# ")]
        if lines:
            file, reason = (part.strip() for part in lines[0].split("|", 1))
            text = lambda mark: " ".join(" ".join(line[1:].split()) for line in lines[1:] if line[0] == mark).strip()
            blocks.append((file, reason, text("-"), text("+")))
    return blocks


def again(path, targets):
    """The mutants of a list, where their text still is."""
    for file, reason, old, new in read_blocks(path):
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
    return hashlib.sha256("".join([mutant.file, *mutate.tokens(mutant.text)]).encode()).digest()


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
        self.known = {fingerprint(mutant) for _, mutant in again(pathlib.Path(__file__).with_name("equivalent.txt"), targets)}
        self.survivors = OUT / f"survivors-{name}.txt"
        self.survivors.write_text("")

    def next(self):
        """One mutant more, as long as too few have counted; those under way may."""
        with self.lock:
            if self.counted + self.taken >= self.count:
                return None
            self.taken += 1
            return next(self.drawn, None)

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
                verdict, note = target.judge(mutant, directory)
            subprocess.run(["rm", "-rf", str(directory)])
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


def commit_seed():
    done = run(["git", "rev-parse", "HEAD"])
    return int(done.stdout[:7], 16) if done.returncode == 0 else int(time.strftime("%Y%m%d"))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--file", action="append")
    parser.add_argument("--again", type=pathlib.Path)
    parser.add_argument("--ci", action="store_true")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    if options.ci:
        options.count, options.seed = DRAWN, commit_seed()
    OUT.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        # --ci: one program's tests have to be built and to pass first; the GPU's mutants take minutes each
        files = options.file or ([Header.file] if options.ci else [t.file for t in TARGETS])
        stages = CI if options.ci else FAST if options.fast else STAGES
        targets = [t(pool, stages) for t in TARGETS if t.file in files]
        for target in targets:
            if not options.ci and not options.fast:
                target.map_reach(pool)
            target.keep()
    name = options.again.stem if options.again else options.seed
    chosen = list(again(options.again, targets)) if options.again else None
    count = len(chosen) if options.again else options.count
    print(f"{count} mutants, " + (f"of {options.again}" if options.again else f"seed {options.seed}") + f"; prepared in {time.monotonic() - start:.0f} s", flush=True)
    job = Run(iter(chosen) if options.again else endless(targets, options.seed), count, f"again-{name}" if options.again else name, options.quiet, targets)
    workers = [threading.Thread(target=job.worker, args=(n,)) for n in range(options.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
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
