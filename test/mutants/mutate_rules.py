"""mutate_rules.py - every condition of every rule of attn.h, left out alone: does a test notice?

usage: mutate_rules.py [--jobs N] [--verbose] [LINE ...]          LINE: only the rules that begin there

A rule is ATTN__RULE(condition, ERR_...) or a call in ATTN__TRY. Each is left out whole; of a conjunction each part becomes 1, of a
disjunction each part becomes 0, down to what is neither. A list of faults by hand forgets the third of five fields; this one cannot.
Each is compiled and run as test/mutants/mutate_random.py does: only the functions that it changes. NOT_NOTICED names what no test
can notice, each with the reason."""
import argparse
import collections
import concurrent.futures
import subprocess
import sys

import mutate_random

OUT = mutate_random.OUT
STAGES = [mutate_random.tests_of("plain", lines) for lines in (
    ["validate", "registry", "merge", "convert", "overlap", "timing", "planes", "guard", "edges", "lengths", "tolerance", "thin", "grid --count 150 --cost 17 --seed 77"],
    ["parallel", "grid --count 400 --cost 17 --seed 77", "sizes", "alloc", "threads"])]
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


def judge(header, change, number):
    line, begin, end, new = change
    what = " ".join(header.source[begin:end].split()) + " -> " + new.strip()
    if what in NOT_NOTICED:
        return what, line, "not noticed", NOT_NOTICED[what]
    mutant = mutate_random.Mutant(header.file, line, begin, "rule", "", "", header.source[:begin] + new + header.source[end:])
    folder = OUT / f"rule-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    verdict, note = header.judge(mutant, folder)
    subprocess.run(["rm", "-rf", str(folder)])
    return what, line, verdict, note


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("lines", nargs="*", type=int)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    verdicts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        header = mutate_random.Header(pool, STAGES)
        header.map_reach(pool)
        header.keep()
        chosen = [c for c in changes(header.source) if not options.lines or c[0] in options.lines]
        for what, line, verdict, note in pool.map(lambda n: judge(header, chosen[n], n), range(len(chosen))):
            verdicts[verdict] += 1
            if verdict == "SURVIVED" or options.verbose:
                print(f"{verdict} attn.h:{line}: {what} {note}", flush=True)
        header.keep()
    print(f"{len(chosen)} conditions: " + ", ".join(f"{n} {verdict}" for verdict, n in verdicts.most_common()))
    print(f"{verdicts['caught']} passed, {verdicts['SURVIVED']} failed, 0 skipped")
    return verdicts["SURVIVED"] > 0


if __name__ == "__main__":
    sys.exit(main())
