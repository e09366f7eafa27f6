"""mutate_rules.py - every condition of every rule of attn.h, left out alone: does a test notice?

usage: mutate_rules.py [--jobs N] [LINE ...]          LINE: only the rules that begin there

A rule is ATTN__RULE(condition, ERR_...) or a call in ATTN__TRY. Each is left out whole; of a conjunction each part becomes 1, of a
disjunction each part becomes 0, down to what is neither. A list of faults by hand forgets the third of five fields; this one cannot.
The portable code is compiled at -O0 and linked with the tests of build/plain: ten minutes for all of them on two cores. NOT_NOTICED names
what no test can notice, each with the reason."""
import argparse
import concurrent.futures
import pathlib
import subprocess
import sys

import mutate

ROOT, OUT = mutate.ROOT, mutate.ROOT / "build" / "mutate-rules"
TESTS = [["validate"], ["registry"], ["merge"], ["convert"], ["overlap"], ["timing"], ["planes"], ["guard"], ["edges"], ["parallel"],
         ["grid", "--count", "400", "--cost", "17", "--seed", "77"], ["sizes"], ["alloc"], ["threads"]]
COMPILER = ["clang", "-O0", *mutate.PORTABLE, "-DATTN_NO_OPTIMIZE", "-std=c99", "-w", "-pthread"]
NOT_NOTICED = {
    "t->stride[a] != ATTN_BROADCAST || extent[a] < 2 -> 1": "rows that lie on each other are found by their strides as well",
    "(uintptr_t)cu % sizeof *cu == 0 -> 1": "read as it is, then refused with all arrays",
    "n <= INT64_MAX / 8 -> 1": "a later product is larger",
    "attn__finite(d->dropout) -> 1": "NaN is not at least 0, infinity not below 1",
    "ATTN__TRY(attn__check_data(&d, NULL)) -> (void)0": "a function of the tests'",
}


def closing(text, at):
    """Where the bracket that opens at `at` closes."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i
    raise ValueError("a bracket that does not close")


def parts(text, separator):
    """(begin, end) of the parts of text between separators that no bracket holds."""
    found, depth, last, i = [], 0, 0, 0
    while i < len(text):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0 and text.startswith(separator, i):
            found.append((last, i))
            i += len(separator) - 1
            last = i + 1
        i += 1
    return found + [(last, len(text))]


def conditions(source, begin, end):
    """(begin, end, what takes its place) of each part of the condition source[begin:end]."""
    while source[begin].isspace():
        begin += 1
    while source[end - 1].isspace():
        end -= 1
    text = source[begin:end]
    if text[0] == "(" and closing(text, 0) == len(text) - 1:
        yield from conditions(source, begin + 1, end - 1)
    elif len(parts(text, "?")) == 1:
        for operator, new in (("||", "0"), ("&&", "1")):
            found = parts(text, operator)
            if len(found) == 1:
                continue
            for a, b in found:
                yield begin + a, begin + b, f" {new} "
                yield from conditions(source, begin + a, begin + b)
            return


def changes(source):
    """(line, begin, end, what takes its place) of each."""
    for name in ("ATTN__RULE(", "ATTN__TRY("):
        at = source.index(">>describe =")
        while (at := source.find(name, at)) >= 0:
            begin, end = at + len(name), closing(source, at + len(name) - 1)
            line, at = 1 + source.count("\n", 0, at), end
            if name == "ATTN__TRY(":
                yield line, begin - len(name), end + 1, "(void)0"
                continue
            arguments = parts(source[begin:end], ",")
            if source[begin + arguments[-1][0]:end].strip().startswith("ERR_"):
                whole = begin + arguments[-1][0] - 1
                yield line, begin, whole, "1"
                yield from ((line, *change) for change in conditions(source, begin, whole))


def compiled(header, name):
    """The folder with the header's object, and what the compiler says against it."""
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "attn.h").write_text(header)
    done = subprocess.run([*COMPILER, f"-I{folder}", "-I.", "-c", "test/common/impl.c", "-o", f"{folder}/impl.o"], cwd=ROOT, capture_output=True, text=True)
    return folder, done.stderr if done.returncode else None


def noticed_by(folder):
    for test, *arguments in TESTS:
        wrap = [f"-Wl,--wrap={f}" for f in mutate.WRAPPED] if test == "alloc" else []
        objects = [f"build/plain/{test}.o", "build/plain/hip.o", f"{folder}/impl.o"]
        subprocess.run(["cc", "-pthread", *objects, "-o", f"{folder}/{test}", *wrap, "-lcmocka", "-lm"], cwd=ROOT, check=True)
        try:
            if subprocess.run([f"{folder}/{test}", *arguments], cwd=ROOT, capture_output=True, timeout=mutate.SECONDS).returncode:
                return test
        except subprocess.TimeoutExpired:
            return test + " (time)"
    return None


def judge(source, clean, number, change):
    line, begin, end, new = change
    what = " ".join(source[begin:end].split()) + " -> " + new.strip()
    if what in NOT_NOTICED:
        return what, line, "nothing can notice it: " + NOT_NOTICED[what]
    folder, wrong = compiled(source[:begin] + new + source[end:], str(number))
    if wrong:
        found = "does not compile"
    elif (folder / "impl.o").read_bytes() == clean:
        found = "same object"
    else:
        found = noticed_by(folder)
    subprocess.run(["rm", "-rf", str(folder)])
    return what, line, found


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("lines", nargs="*", type=int)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    source = (ROOT / "attn.h").read_text()
    subprocess.run(["make", "-s", f"-j{options.jobs}", *[f"build/plain/{n}.o" for n in ["hip", *(t[0] for t in TESTS)]]], cwd=ROOT, check=True)
    folder, wrong = compiled(source, "unchanged")
    wrong = wrong or noticed_by(folder)
    if wrong:
        sys.exit(f"the unchanged header fails: {wrong}\n0 passed, 1 failed, 0 skipped")
    clean = (folder / "impl.o").read_bytes()
    chosen = [c for c in changes(source) if not options.lines or c[0] in options.lines]
    survived = caught = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for what, line, found in pool.map(lambda n: judge(source, clean, n, chosen[n]), range(len(chosen))):
            survived += found is None
            caught += found in [t[0] for t in TESTS] or bool(found and found.endswith("(time)"))
            if found is None:
                print(f"SURVIVES attn.h:{line}: {what}", flush=True)
    print(f"{len(chosen)} conditions: {caught} noticed, {survived} not; the others are the same object, do not compile or are named as not noticed")
    print(f"{caught} passed, {survived} failed, 0 skipped")
    return survived > 0


if __name__ == "__main__":
    sys.exit(main())
