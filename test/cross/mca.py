#!/usr/bin/env python3
"""llvm-mca's estimate of the inner loops of NEON's tiles: mca.py OBJECT.o, compiled by gcc -O2; a row of a table for each tile, nothing
measured. In machines.md (make test-cross) and in targets.md (make targets)."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build"))
import disasm  # noqa: E402

# processor as LLVM calls it, FMAs of 128 bits that its model begins in a cycle: for apple-m1 LLVM 19 takes Cyclone's, which has 3
CORES = (("neoverse-v2", 4), ("neoverse-n1", 2), ("apple-m1", 3))
PASSES = 200


def body(text, nv):
    lines = disasm.inner_loop(disasm.function(text, f"attn__mm_6x{nv}__neon"), disasm.NEON, disasm.NEON.fma)
    code = [re.sub(r"^[0-9a-f]+:\s+|\s+//.*|\s+<.*>", "", l) for l in lines]
    return [re.sub(r"\b(b\.\w+)\s+[0-9a-f]+", r"\1 loop", c) for c in code]


def cycles(mca, core, code):
    run = subprocess.run([mca, "-mtriple=aarch64", f"-mcpu={core}", f"-iterations={PASSES}", "-"], input="loop:\n" + "\n".join(code) + "\n",
                         capture_output=True, text=True, check=True)
    return int(re.search(r"Total Cycles:\s+(\d+)", run.stdout).group(1)) / PASSES


def main():
    mca, objdump = shutil.which("llvm-mca-19"), shutil.which("aarch64-linux-gnu-objdump")
    missing = "no llvm-mca-19 (llvm-19)" if not mca else "no aarch64-linux-gnu-objdump" if not objdump else \
              f"no {sys.argv[1]} (make test-cross)" if not os.path.exists(sys.argv[1]) else None
    if missing:
        print(f"skipped: the estimate of NEON's inner loops, {missing}")
        return 0
    text = disasm.disassembly(objdump, sys.argv[1])
    print("NEON's inner loops by llvm-mca 19, gcc -O2: an ESTIMATE, nothing measured, of the fraction of the FMAs that the model of the\n"
          "processor can begin (LLVM takes for apple-m1 the model of Cyclone, which begins three in a cycle; the M1 begins four).\n")
    print("| tile | instructions | FMAs | loads |" + "".join(f" {c} |" for c, _ in CORES))
    print("|---|---|---|---|" + "---|" * len(CORES))
    for nv in (4, 3, 2):
        code = body(text, nv)
        fma, loads = (sum(bool(p.search(c)) for c in code) for p in (disasm.NEON.fma, disasm.NEON.memory))
        row = [f"6x{nv}", len(code), fma, loads] + [f"{fma / cycles(mca, c, code) / w:.2f}" for c, w in CORES]
        print("| " + " | ".join(map(str, row)) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
