#!/usr/bin/env python3
"""sizes.py [whole [REV]] - the code of attn.h by room and by ISA, at -O2 and -Os, as a table: symbols of the compiled header, looked up where
the header defines them. What a compiler inlines counts for the function it went into.

whole: what one compilation takes, and its text, as `size` has it (code, constants, unwind tables); of the header at the git revision REV too."""
import collections
import os
import re
import resource
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ISAS = ["portable", "avx2", "avx512"]
BUILDS = [("gcc", "-O2"), ("gcc", "-Os"), ("clang", "-O2"), ("clang", "-Os")]


def rooms():
    """name of a function or table, without the ISA -> the room that defines it"""
    where, room = {}, "api"
    for line in open(os.path.join(ROOT, "attn.h")):
        anchor = re.match(r"/\* (?:=+|-+) >>(\w+)", line)
        if anchor:
            room = anchor[1]
        for name in re.findall(r"ATTN__\(([a-z]\w*)\)\(", line) + re.findall(r"\b(attn_\w+)(?:\(|\[| = )", line):
            if re.match(r"(static|ATTN_)|\s*ATTN__MM_DEFINE", line):
                where.setdefault(re.sub(r"^attn__", "", name), room)
    return where


def symbols(compiler, flags):
    target = os.path.join(ROOT, "build/sizes/object.o")
    subprocess.run([*compiler.split(), *flags, "-std=c99", "-DATTN_IMPLEMENTATION", "-x", "c", "-c", "attn.h", "-o", target], cwd=ROOT, check=True,
                   stderr=subprocess.DEVNULL)
    prefix = "arm-none-eabi-" if compiler.startswith("arm-none-eabi") else ""
    lines = subprocess.run([prefix + "nm", "-S", "--radix=d", target], check=True, capture_output=True, text=True).stdout
    for line in lines.splitlines():
        part = line.split()
        if len(part) == 4 and part[2] in "tT":
            yield part[3].split(".")[0], int(part[1])


def room_of(name, where):
    base = re.sub(r"^attn__", "", name)
    base = re.sub(r"__(%s)$" % "|".join(ISAS), "", base)
    return "tile" if base.startswith("mm_") else where.get(base, "other")


def compiled(compiler, flags, folder):
    """of the header in that folder: seconds of the processor that one compilation takes, the median of three; bytes of text"""
    target, seconds = os.path.join(ROOT, "build/sizes/whole.o"), []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run([compiler, *flags, "-std=c99", "-w", "-DATTN_IMPLEMENTATION", "-x", "c", "-I", folder, "-c", os.path.join(folder, "attn.h"), "-o",
                        target], check=True)
        seconds.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
    text = subprocess.run(["size", target], check=True, capture_output=True, text=True).stdout.splitlines()[1].split()[0]
    return statistics.median(seconds), int(text)


def whole(revision):
    folders = [ROOT]
    if revision:
        folders.append(os.path.join(ROOT, "build/sizes", revision))
        os.makedirs(folders[1], exist_ok=True)
        with open(os.path.join(folders[1], "attn.h"), "wb") as f:
            f.write(subprocess.run(["git", "show", f"{revision}:attn.h"], cwd=ROOT, check=True, capture_output=True).stdout)
    print("| one compilation of the whole header | seconds | KB of text |" + bool(revision) * f" seconds, {revision} | KB of text, {revision} |")
    print("|---|" + "---:|" * 2 * len(folders))
    for compiler, level in BUILDS:
        row = [compiled(compiler, [level], f) for f in folders]
        print(f"| {compiler} {level} |" + "".join(f" {seconds:.1f} | {text / 1000:.0f} |" for seconds, text in row))


def main(arguments):
    os.makedirs(os.path.join(ROOT, "build/sizes"), exist_ok=True)
    if arguments[:1] == ["whole"]:
        return whole(arguments[1] if len(arguments) > 1 else None)
    where = rooms()
    builds = [(compiler, [level]) for compiler, level in BUILDS]
    columns = []
    for compiler, flags in builds:
        sums = collections.Counter()
        for name, size in symbols(compiler, flags):
            isa = re.search(r"__(%s)$" % "|".join(ISAS), name)
            sums[isa[1] if isa else "plain", room_of(name, where)] += size
        columns.append(sums)
    keys = sorted({k for c in columns for k in c}, key=lambda k: (["plain", *ISAS].index(k[0]), -columns[0][k]))
    print("# Code of attn.h\n\n`make sizes`: bytes of code by ISA and room. plain: compiled once.\n")
    print("| ISA | room | " + " | ".join(" ".join([c, *f]) for c, f in builds) + " |\n|---|---|" + "---:|" * len(builds))
    for isa in ["plain", *ISAS]:
        for key in keys:
            if key[0] == isa:
                print("| %s | %s | " % key + " | ".join(str(c[key]) for c in columns) + " |")
        print("| %s | all | " % isa + " | ".join("**%d**" % sum(v for k, v in c.items() if k[0] == isa) for c in columns) + " |")
    print("| all | all | " + " | ".join("**%d**" % sum(c.values()) for c in columns) + " |")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
