#!/usr/bin/env python3
"""The inner loops of the register tiles, in the disassembly of plain builds.

For every tile of full height: one FMA for each accumulator and pass, at most one load for each vector of B and each broadcast
of A, no stack access, no other arithmetic. What the measured figures rest on: chains in registers, reads of all memory. Usage: disasm.py CC [CC ..] on x86-64, or disasm.py OBJECT.o for what a compiler of
another machine has made: of NEON, so far. Ends with a line `N passed, N failed, N skipped`."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

class Machine:
    """What the instructions of a machine look like; tiles: ISA, rows, vectors; chains, reads: function, mnemonic, how many."""

    def __init__(self, tiles, chains, reads, jump, fma, memory, stack, other):
        self.tiles, self.chains, self.reads = tiles, chains, reads
        self.jump, self.fma, self.memory, self.stack, self.other = map(re.compile, (jump, fma, memory, stack, other))

    def checks(self):
        return len(self.tiles) + len(self.chains) + len(self.reads)


X86 = Machine([("avx512", 6, nv) for nv in (4, 3, 2)] + [("avx2", 6, 2)],
              (("attn__fma_chain__avx512", "vfmadd", 24), ("attn__fma_chain__avx2", "vfmadd", 12),
               ("attn__dot_chain__avx512", "vdpbf16ps", 12)),
              (("attn__read__avx512", "vaddps", 8), ("attn__read__avx2", "vaddps", 8)),
              r"\bj\w+\s+([0-9a-f]+)\b", "vfmadd", r"^(?!.*(lea|nop)).*\([^)]*\)", "%rsp", "vmul|vadd")
NEON = Machine([("neon", 6, nv) for nv in (4, 3, 2)], (("attn__fma_chain__neon", "fmla", 24),), (),
               r"\b(?:b\.\w+|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,)\s+([0-9a-f]+)\b", "fmla", r"\[(x|sp)", r"\bsp\b", "fmul|fadd|dup|ld1r")


def function(text, name):
    m = re.search(rf"<{name}>:\n(.*?)(?:\n\n|\Z)", text, re.S)
    return m.group(1).split("\n") if m else None


def inner_loop(lines, machine, mnemonic):
    """The instructions of the innermost backward jump's body that holds the most FMAs."""
    lines = [l for l in lines if re.match(r"[0-9a-f]+:", l)]
    address = {int(l.split(":")[0], 16): n for n, l in enumerate(lines)}
    best = []
    for n, l in enumerate(lines):
        m = machine.jump.search(l)
        if not m or int(m.group(1), 16) not in address:
            continue
        first = address[int(m.group(1), 16)]
        body = lines[first:n + 1]
        if first < n and sum(bool(re.search(mnemonic, b)) for b in body) > 0 and (not best or len(body) < len(best)):
            best = body
    return best


def check(text, machine, isa, mr, nv):
    name = f"attn__mm_{mr}x{nv}__{isa}"
    lines = function(text, name)
    if not lines:
        return f"{name}: not found"
    body = inner_loop(lines, machine, machine.fma)
    if not body:
        return f"{name}: no loop with FMAs"
    fma = sum(bool(machine.fma.search(b)) for b in body)
    if fma % (mr * nv):
        return f"{name}: {fma} FMAs, not a multiple of {mr * nv}"
    passes = fma // (mr * nv)
    loads = sum(bool(machine.memory.search(b)) for b in body)
    if loads > passes * (mr + nv):
        return f"{name}: {loads} loads for {fma} FMAs, {passes * (mr + nv)} by design"
    if any(machine.stack.search(b) for b in body):
        return f"{name}: touches the stack"
    if any(machine.other.search(b) for b in body):
        return f"{name}: more arithmetic than FMAs"
    return None


def check_chain(text, machine, name, mnemonic, chains):
    """The chains of the measured peak: so many operations each step, all in registers."""
    lines = function(text, name)
    if not lines:
        return f"{name}: not found"
    body = inner_loop(lines, machine, mnemonic)
    count = sum(mnemonic in b for b in body)
    if not count or count % chains:
        return f"{name}: {count} {mnemonic} a step, not a multiple of {chains}"
    if any(machine.memory.search(b) for b in body):
        return f"{name}: touches memory"
    return None


def check_read(text, machine, name, mnemonic, vectors):
    """The measured bandwidth: so many vectors each step, of which a compiler leaves out those that nobody adds up."""
    lines = function(text, name)
    if not lines:
        return f"{name}: not found"
    count = sum(bool(machine.memory.search(b)) for b in inner_loop(lines, machine, mnemonic))
    return None if count and count % vectors == 0 else f"{name}: {count} loads a step, not a multiple of {vectors}"


def disassembly(objdump, obj):
    text = subprocess.run([objdump, "-d", "--no-show-raw-insn", obj], capture_output=True, text=True, check=True).stdout
    return re.sub(r"^\s+([0-9a-f]+):", r"\1:", text, flags=re.M)


def faults(text, machine):
    found = [check(text, machine, *tile) for tile in machine.tiles] + [check_chain(text, machine, *chain) for chain in machine.chains]
    return [f for f in found + [check_read(text, machine, *read) for read in machine.reads] if f]


def built(cc, here):
    """The object that make has built of the same header with -O2 and gcc or clang (test/tests.mk), or None."""
    obj = os.path.join(here, "build", {"gcc": "plain", "clang": "clang"}.get(cc, ""), "impl.o")
    sources = [os.path.join(here, name) for name in ("attn.h", "test/common/impl.c")]
    if not os.path.exists(obj) or os.path.getmtime(obj) < max(map(os.path.getmtime, sources)):
        return None
    said = subprocess.run(["objdump", "-s", "-j", ".comment", obj], capture_output=True, text=True).stdout
    text = "".join(line[-16:] for line in said.splitlines() if line.startswith(" ") and len(line) > 16)
    return obj if ("clang" in text) == (cc == "clang") and ("GCC:" in text) == (cc == "gcc") else None


def compiled(cc, here):
    known = built(cc, here)
    if known:
        return disassembly("objdump", known)
    with tempfile.TemporaryDirectory() as tmp:
        source, obj = os.path.join(tmp, "unit.c"), os.path.join(tmp, "unit.o")
        with open(source, "w") as f:
            f.write('#define ATTN_IMPLEMENTATION\n#include "attn.h"\n')
        subprocess.run([cc, "-O2", "-std=c99", "-I", here, "-c", source, "-o", obj], check=True)
        return disassembly("objdump", obj)


def main():
    passed = failed = skipped = 0
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    arm = shutil.which("aarch64-linux-gnu-objdump") or shutil.which("llvm-objdump-19")
    for what in sys.argv[1:] or ["gcc", "clang"]:
        machine = NEON if what.endswith(".o") else X86
        if machine is NEON and not arm:
            print(f"skipped: {what}: no objdump of aarch64 (binutils-aarch64-linux-gnu)")
            skipped += machine.checks()
            continue
        if machine is X86 and not (shutil.which(what) and shutil.which("objdump") and os.uname().machine == "x86_64"):
            print(f"skipped: {what}: no such compiler, no objdump, or not x86-64")
            skipped += machine.checks()
            continue
        found = faults(disassembly(arm, what) if machine is NEON else compiled(what, here), machine)
        for fault in found:
            print(f"FAILED {what}: {fault}")
        failed += len(found)
        passed += machine.checks() - len(found)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
