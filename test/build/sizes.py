#!/usr/bin/env python3
"""sizes.py - the code of attn.h by room and by ISA, at -O2 and -Os, as a table: symbols of the compiled header, looked up where the
header defines them. What a compiler inlines counts for the function it went into."""
import collections
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ISAS = ["portable", "avx2", "avx512"]


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


def main():
    where = rooms()
    builds = [("gcc", ["-O2"]), ("gcc", ["-Os"]), ("clang", ["-O2"]), ("clang", ["-Os"])]
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
    sys.exit(main())
