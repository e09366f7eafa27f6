#!/usr/bin/env python3
"""The inner loops of the register tiles, in the disassembly of plain builds.

For every tile of full height: one FMA for each accumulator and pass, at most one load for each vector of B and each broadcast
of A, no stack access, no scalar multiply. Usage: disasm.py CC [CC ..]; ends with a line `N passed, N failed, N skipped`."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

TILES = [("avx512", 6, nv) for nv in (4, 3, 2)] + [("avx2", 6, 2)]
KINDS = ("QK", "PV", "ATB", "PV_LAST")


CHAINS = (("attn__fma_chain__avx512", "vfmadd"), ("attn__fma_chain__avx2", "vfmadd"), ("attn__dot_chain__avx512", "vdpbf16ps"))


def inner_loop(lines, mnemonic="vfmadd"):
    """The instructions of the innermost backward jump's body that holds the most FMAs."""
    lines = [l for l in lines if re.match(r"[0-9a-f]+:", l)]
    address = {int(l.split(":")[0], 16): n for n, l in enumerate(lines)}
    best = []
    for n, l in enumerate(lines):
        m = re.search(r"\bj\w+\s+([0-9a-f]+)\b", l)
        if not m or int(m.group(1), 16) not in address:
            continue
        first = address[int(m.group(1), 16)]
        body = lines[first:n + 1]
        if first < n and sum(mnemonic in b for b in body) > 0 and (not best or len(body) < len(best)):
            best = body
    return best


def check(text, isa, mr, nv, kind):
    name = f"attn__mm_{kind}_{mr}x{nv}__{isa}"
    m = re.search(rf"<{name}>:\n(.*?)(?:\n\n|\Z)", text, re.S)
    if not m:
        return f"{name}: not found"
    body = inner_loop(m.group(1).split("\n"))
    if not body:
        return f"{name}: no loop with FMAs"
    fma = sum("vfmadd" in b for b in body)
    if fma % (mr * nv):
        return f"{name}: {fma} FMAs, not a multiple of {mr * nv}"
    passes = fma // (mr * nv)
    loads = sum(bool(re.search(r"\([^)]*\)", b)) and "lea" not in b and "nop" not in b for b in body)
    if loads > passes * (mr + nv):
        return f"{name}: {loads} loads for {fma} FMAs, {passes * (mr + nv)} by design"
    if any("%rsp" in b for b in body):
        return f"{name}: touches the stack"
    if any("vmul" in b or "vadd" in b for b in body):
        return f"{name}: more arithmetic than FMAs"
    return None


def check_chain(text, name, mnemonic):
    """The chains of the measured peak: twelve operations each step, all in registers."""
    m = re.search(rf"<{name}>:\n(.*?)(?:\n\n|\Z)", text, re.S)
    body = inner_loop(m.group(1).split("\n"), mnemonic) if m else []
    count = sum(mnemonic in b for b in body)
    if not count or count % 12:
        return f"{name}: {count} {mnemonic} a step, not a multiple of 12" if m else f"{name}: not found"
    if any(re.search(r"\([^)]*\)", b) and "lea" not in b and "nop" not in b for b in body):
        return f"{name}: touches memory"
    return None


def main():
    passed = failed = skipped = 0
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for cc in sys.argv[1:] or ["gcc", "clang"]:
        if not shutil.which(cc) or not shutil.which("objdump") or os.uname().machine != "x86_64":
            print(f"skipped: {cc}: no such compiler, no objdump, or not x86-64")
            skipped += len(TILES) * len(KINDS) + len(CHAINS)
            continue
        with tempfile.TemporaryDirectory() as tmp:
            source = os.path.join(tmp, "unit.c")
            with open(source, "w") as f:
                f.write('#define ATTN_IMPLEMENTATION\n#include "attn.h"\n')
            obj = os.path.join(tmp, "unit.o")
            subprocess.run([cc, "-O2", "-std=c99", "-I", here, "-c", source, "-o", obj], check=True)
            text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", obj], capture_output=True, text=True, check=True).stdout
        text = re.sub(r"^\s+([0-9a-f]+):", r"\1:", text, flags=re.M)
        for isa, mr, nv in TILES:
            for kind in KINDS:
                fault = check(text, isa, mr, nv, kind)
                passed += fault is None
                failed += fault is not None
                if fault:
                    print(f"FAILED {cc}: {fault}")
        for name, mnemonic in CHAINS:
            fault = check_chain(text, name, mnemonic)
            passed += fault is None
            failed += fault is not None
            if fault:
                print(f"FAILED {cc}: {fault}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
