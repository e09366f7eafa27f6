"""hip_waits.py - what the main loops of GPU kernels wait for: LDS, counted in their machine code, and a model of one wave.

usage: hip_waits.py CHIP CODE_OBJECT      prints a line for each main kernel of a code object, or of an object file with one in it
       hip_waits.py --test                its own tests, on small listings

The main loop is the innermost one with matrix instructions (the one with most of them, then the shortest); where a kernel has none, with
multiply-adds. Of an iteration, which is a tile, the path is taken that passes most of them and, among those, fewest instructions: what is
done once in many tiles, as when a maximum moves, is left out. `work` below is a matrix instruction, or where there are none a multiply-add."""
import functools
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

LLVM = "/usr/lib/llvm-19/bin/"
CDNA = {"gfx942", "gfx90a"}
# LDS, cycles from the issue of a read to its result, by bytes a lane.
# CDNA: what AMD's generator of matrix kernels plans with (ROCm/Tensile, Tensile/KernelWriter.py: "latency: 40 quad-cycle for 4 word, 20
# quad-cycle for 2 word, 10 quad-cycle for 1 word"). RDNA: LLVM's GFX11SpeedModel (SISchedule.td: WriteLDS 20), and a cycle for each pass over
# 32 banks of 4 bytes, 8 lanes of 16 bytes at a time.
LDS_READ = {True: {4: 40, 8: 80, 16: 160}, False: {4: 21, 8: 22, 16: 24}}
# Memory: LLVM's WriteVMEM, 80 times 4 cycles and 320; of a cache, that of HBM is more.
MEMORY = 320
# Cycles in which the matrix unit takes no other instruction: 4 for each pass (SISchedule.td: 32X32X8 has 8 passes on gfx942 and 16 on gfx90a,
# 32X32X2 of f32 16), WMMA's 16 x 16 x 16 x 2 FLOPs at 256 or 512 a cycle and SIMD. As test/hipsim/src/matrix.c.
MATRIX = {"gfx942": {"32x32x8": 32, "32x32x2": 64}, "gfx90a": {"32x32x8": 64, "32x32x2": 64}, "gfx1100": {"16x16x16": 32}, "gfx1201": {"16x16x16": 16}}
TRANS = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_")


class Code:
    """An instruction: address, text, where it jumps to. What kind it is follows from its text where that is asked."""

    def __init__(self, at, text, to=None):
        self.at, self.text, self.to = at, text, to

    op = functools.cached_property(lambda self: self.text.split()[0])
    matrix = functools.cached_property(lambda self: self.op.startswith(("v_mfma", "v_wmma")))
    multiplies = functools.cached_property(lambda self: bool(re.match(r"v_(dual_|pk_)?(fma|fmac|dot2)", self.op)) or "v_dual_fmac" in self.text)
    reads_lds = functools.cached_property(lambda self: self.op.startswith(("ds_read", "ds_load", "ds_bpermute", "ds_permute", "ds_swizzle")))
    lds = functools.cached_property(lambda self: self.op.startswith("ds_"))
    flat = functools.cached_property(lambda self: self.op.startswith("flat_"))
    memory = functools.cached_property(lambda self: self.op.startswith(("global_", "buffer_", "scratch_")))
    loads = functools.cached_property(lambda self: "_load" in self.op)
    scalar_load = functools.cached_property(lambda self: self.op.startswith(("s_load", "s_buffer_load")))

    def bytes(self):
        """That an access to LDS has of a lane."""
        two = 2 if re.search(r"(read|write|load|store)(2|_2addr)", self.op) else 1
        bits = int((re.search(r"_[bui](8|16|32|64|96|128)", self.op) or [0, 32])[1])
        return two * ((bits + 31) // 32 * 4)

    def waits(self):
        """counter -> how many may be left: of LDS and the scalar loads and of memory; {} where it is no wait."""
        if self.op == "s_waitcnt":
            return {name[:4]: int(n) for name, n in re.findall(r"(lgkmcnt|vmcnt)\((\d+)\)", self.text)}
        if self.op in ("s_wait_dscnt", "s_wait_loadcnt", "s_wait_loadcnt_dscnt"):
            n = int(self.text.split()[1], 0)
            return {"lgkm": n} if self.op == "s_wait_dscnt" else {"vmcn": n} if self.op == "s_wait_loadcnt" else {"lgkm": n & 63, "vmcn": n >> 8 & 63}
        return {}


# ---- the main loop ----

def loops(code):
    """Natural loops of a function, (tail, header) -> blocks, one for each jump back; the blocks, lists of instructions; the numbers of what follows each."""
    place = {c.at: n for n, c in enumerate(code)}
    starts = {0} | {place[c.to] for c in code if c.to in place} | {n + 1 for n, c in enumerate(code) if c.op.startswith(("s_cbranch", "s_branch", "s_endpgm", "s_setpc"))}
    starts = sorted(s for s in starts if s < len(code))
    block_of = {s: n for n, s in enumerate(starts)}
    blocks, follow = [], []
    for n, s in enumerate(starts):
        end = starts[n + 1] if n + 1 < len(starts) else len(code)
        last, after = code[end - 1], []
        if last.to in place:
            after.append(block_of[place[last.to]])
        if not last.op.startswith(("s_branch", "s_endpgm", "s_setpc")) and end < len(code):
            after.append(n + 1)
        blocks.append(code[s:end])
        follow.append(after)
    # back edges by a depth-first walk from the entry
    state, back, stack = {}, [], [(0, iter(follow[0]))]
    state[0] = 1
    while stack:
        n, rest = stack[-1]
        m = next(rest, None)
        if m is None:
            state[n] = 2
            stack.pop()
        elif m not in state:
            state[m] = 1
            stack.append((m, iter(follow[m])))
        elif state[m] == 1:
            back.append((n, m))
    before = [[] for _ in blocks]
    for n, after in enumerate(follow):
        for m in after:
            before[m].append(n)
    found = {}
    for tail, head in back:
        inside, open_ = found.setdefault((tail, head), {head}), [tail]
        while open_:
            n = open_.pop()
            if n not in inside and n in state:
                inside.add(n)
                open_ += before[n]
    return found, blocks, follow


def path(back, edge, inside, blocks, follow, worth):
    """Once round a loop, to its jump back: most of what `worth` counts, then fewest instructions."""
    best, (tail, head) = {}, edge

    def from_(n):
        if n in best:
            return best[n]
        best[n] = None
        own, ways = (sum(map(worth, blocks[n])), -len(blocks[n])), []
        for m in follow[n]:
            if (n, m) == edge:
                ways.append((0, 0, []))
            elif m in inside and (n, m) not in back:
                way = from_(m)
                if way:
                    ways.append(way)
        if ways:
            a = max(ways, key=lambda w: w[:2])
            best[n] = (own[0] + a[0], own[1] + a[1], [n, *a[2]])
        return best[n]

    sys.setrecursionlimit(100000)
    way = from_(head)
    return [c for n in way[2] for c in blocks[n]] if way else []


def main_loop(code):
    """The instructions of the main loop in order and what counts as work there."""
    found, blocks, follow = loops(code)
    for work in (lambda c: c.matrix, lambda c: c.multiplies):
        with_work = {e: b for e, b in found.items() if any(work(c) for n in b for c in blocks[n])}
        ways = [path(found, e, b, blocks, follow, work) for e, b in with_work.items() if not any(o < b for o in with_work.values())]
        ways = [w for w in ways if any(map(work, w))]
        if ways:
            return max(ways, key=lambda w: (sum(map(work, w)), -len(w))), work
    return [], None


# ---- what it waits for ----

def waits_of(loop, work):
    """Waits for reads of LDS in an iteration; how many of them are exposed: no work was issued since the youngest read that they wait for; how
    many wait for memory too, by an access that may be of either."""
    queue, worked, total, exposed, memory = [], 0, 0, 0, 0
    for turn in range(3):           # the last one counts: what is under way at its beginning is then known
        for c in loop:
            if work(c):
                worked += 1
            if c.lds or c.flat or c.scalar_load:
                queue.append((c, worked))
            if "lgkm" in c.waits():
                keep = c.waits()["lgkm"]
                over, queue = (queue[:-keep], queue[-keep:]) if keep else (queue, [])
                read = [w for i, w in over if i.reads_lds]
                if turn == 2:
                    total += bool(read)
                    exposed += bool(read) and read[-1] == worked
                    memory += any(i.flat for i, _ in over)
    return {"waits": total, "exposed": exposed, "memory": memory}


# ---- one wave in order ----

def matrix_cycles(chip, c):
    shape = re.search(r"\d+x\d+x\d+", c.op)
    return MATRIX[chip].get(shape[0] if shape else "", 32)


def model(chip, loop):
    """Cycles of an iteration of one wave that is alone, and of those in which it stands at a wait; and what the busiest unit needs.

    Instructions are issued in order, one every 4 cycles on CDNA (64 lanes on 16), every cycle on RDNA. An instruction of the vector unit starts when the
    one before it is through (4 cycles, transcendentals 16, on RDNA 1, f32 pairs too), one of the matrix unit when that is free; MFMA runs beside the
    vector unit but for f32's on gfx942, WMMA is an instruction of it. LDS takes accesses in order, 128 bytes a cycle, and answers after LDS_READ; what
    MFMA's results need is in s_nop. Barriers cost nothing: the other waves are not there."""
    cdna = chip in CDNA
    step, lanes = (4, 64) if cdna else (1, 32)
    now = vector = matrix = lds = last = 0.0
    queue, loads = [], []
    at = []
    for turn in range(4):
        stall = used_matrix = used_vector = used_lds = 0.0
        begin = now
        for c in loop:
            w = c.waits()
            if w or c.op.startswith("s_wait"):
                for key, of in (("lgkm", queue), ("vmcn", loads)):
                    if key in w:
                        n = len(of) - w[key]
                        if n > 0:
                            ready = max(of[:n])
                            stall += max(0.0, ready - now)
                            now = max(now, ready)
                            del of[:n]
                continue
            if c.op == "s_nop":
                now += step * (int(c.text.split()[1], 0) + 1)
            elif c.matrix:
                cycles = matrix_cycles(chip, c)
                alone = not cdna or (chip == "gfx942" and "x2_f32" in c.op.replace("x2f32", "x2_f32"))
                start = max(now, matrix, vector)
                matrix = start + cycles
                vector = start + (cycles if alone else step)
                now = start + step
                used_matrix += cycles
                used_vector += cycles if alone else step
            elif c.op.startswith("v_"):
                cycles = (16 if cdna else 1) if TRANS.match(c.op) else step
                start = max(now, vector)
                vector = start + cycles
                now = start + step
                used_vector += cycles
            elif c.lds or c.flat:
                passes = c.bytes() * lanes / 128 if c.lds else 0
                lds = max(now, lds)
                last = max(last, lds + (LDS_READ[cdna].get(c.bytes(), LDS_READ[cdna][16]) if c.lds else MEMORY))
                lds += passes
                used_lds += passes
                queue.append(last)
                if c.flat:
                    loads.append(last)
                now += step
            elif c.memory and (c.loads or cdna):
                loads.append(now + MEMORY)
                now += step
            elif c.scalar_load and not chip.startswith("gfx12"):
                queue.append(now + 4 * step)
                now += step
            elif c.op not in ("s_delay_alu", "s_clause", "s_setprio"):
                now += step
        at.append((now - begin, stall))
    busiest = max(used_matrix, used_vector, used_lds * (4 if cdna else 2))
    return {"cycles": at[-1][0], "stalled": at[-1][1], "matrix_cycles": used_matrix, "busiest": busiest}


# ---- kernels ----

def name_of(chip, symbol):
    """What a main kernel computes, of a demangled name: 'forward bf16 D 128'; None: it is none, or another chip's."""
    dtypes = {"0": "f32", "1": "f16", "2": "bf16"}
    dtypes8 = {**dtypes, "4": "int8", "5": "fp8"}
    units = {"gfx942": ("1", "16"), "gfx90a": ("1", "16"), "gfx1100": ("2",), "gfx1201": ("4", "3")}[chip]
    numbers = lambda text: [re.sub(r"\([^)]*\)", "", x).strip() for x in text.split(",")]
    if m := re.search(r"_flash16_forward<\w+_shape16<([^>]*)>", symbol):
        unit, dtype, dim, _, _, masks, align = numbers(m[1])
        if unit in units and masks == "0" and align == "16" and dim in ("64", "128"):
            return f"forward {dtypes[dtype]} D {dim}"
    if m := re.search(r"_(mfma|fma)32_forward<([^>]*)>", symbol):
        n = numbers(m[2])
        if n[-2:] == ["16", "false"] and n[0] in ("64", "128") and (m[1] == "mfma") == (chip in CDNA):
            return f"forward f32 D {n[0]}"
    if m := re.search(r"_grad_matrix_kernel<\w+_grad_shape<([^>]*)>", symbol):
        unit, dtype, dim, kind, _, _, masks, align = numbers(m[1])
        if unit in units and masks == "0" and align == "16" and dim in ("64", "128"):
            return f"{ {'1': 'dq', '2': 'dk', '4': 'dv', '6': 'dk and dv'}[kind]} {dtypes[dtype]} D {dim}"
    if m := re.search(r"_decode_parts<([^>]*)>", symbol):
        n = numbers(m[1])
        if n[1] in ("64", "128") and n[0] in dtypes8:
            return f"decode {dtypes8[n[0]]} D {n[1]}, {n[2]} rows"
    return None


def code_object(chip, path_):
    """The bytes of a chip's code object, of an object file that has one in a bundle, or of itself."""
    data = pathlib.Path(path_).read_bytes()
    at = data.find(b"__CLANG_OFFLOAD_BUNDLE__")
    if at < 0:
        return data
    count, place = struct.unpack_from("<Q", data, at + 24)[0], at + 32
    for _ in range(count):
        offset, size, length = struct.unpack_from("<QQQ", data, place)
        if chip in data[place + 24:place + 24 + length].decode():
            return data[at + offset:at + offset + size]
        place += 24 + length
    return b""


def functions(listing):
    """name -> instructions, of what llvm-objdump -d prints."""
    found, code = {}, None
    for line in listing.splitlines():
        if line.startswith("\t"):
            text, comment, rest = line[1:].partition("//")
            if not comment or code is None:
                continue
            text, to = text.rstrip(), None
            if text.startswith(("s_cbranch", "s_branch")):
                m = re.search(r"<[^>+]*(?:\+0x([0-9a-f]+))?>", rest)
                to = start + int(m[1] or "0", 16) if m else None
            code.append(Code(int(rest.split(":")[0], 16), text, to))
        elif m := re.match(r"([0-9a-f]+) <(.*)>:$", line):
            start = int(m[1], 16)
            code = found.setdefault(m[2], [])
    return found


def functions_of(chip, path_):
    """The same of a code object or an object file."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(code_object(chip, path_))
        file.flush()
        return functions(subprocess.run([LLVM + "llvm-objdump", "-d", "--no-show-raw-insn", file.name], capture_output=True, text=True, check=True).stdout)


def kernels(chip, path_):
    """name_of -> what its main loop waits for, of a code object or an object file."""
    found, symbols = {}, functions_of(chip, path_)
    names = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True).stdout.splitlines()
    for (symbol, code), full in zip(symbols.items(), names):
        name = name_of(chip, full)
        if not name:
            continue
        loop, work = main_loop(code)
        if loop:
            found[name] = {"symbol": symbol, "instructions": len(loop), "work": sum(map(work, loop)), **waits_of(loop, work), **model(chip, loop)}
    return found


def idle(r, waves):
    """Cycles of an iteration in which no unit that binds can be busy, whatever the other waves of the SIMD do, over all: during one wave's iteration
    of T cycles each of n waves has at most one of its own, and needs U of the busiest unit: (T - n U) / T."""
    return max(0.0, 1 - waves * r["busiest"] / r["cycles"]) if r["cycles"] else 0.0


# ---- its own tests ----

def listed(*lines):
    """Instructions at addresses 0, 4 ..; 'label:' names the next, a jump names a label."""
    labels, code = {}, []
    for line in lines:
        if line.endswith(":"):
            labels[line[:-1]] = 4 * len(code)
        else:
            code.append(line)
    return [Code(4 * n, text, labels.get(text.split()[-1])) for n, text in enumerate(code)]


MFMA = "v_mfma_f32_32x32x8_bf16 v[0:15], v[20:21], v[22:23], v[0:15]"
READ = "ds_read_b128 v[20:23], v40"


def test():
    passed = failed = 0

    def check(what, got, want):
        nonlocal passed, failed
        if got == want:
            passed += 1
        else:
            failed += 1
            print(f"FAIL {what}: {got}, not {want}")

    def shown(*lines, chip="gfx942"):
        loop, work = main_loop(listed("s_mov_b32 s0, 0", "loop:", *lines, "s_cbranch_scc1 loop", "s_endpgm"))
        r = waits_of(loop, work)
        return (r["waits"], r["exposed"], r["memory"]), model(chip, loop)

    # a read right before its wait; one with work between; a count that leaves the younger read under way
    counts, m = shown(READ, "s_waitcnt lgkmcnt(0)", MFMA)
    check("exposed", counts, (1, 1, 0))
    check("exposed, stalled: the latency but for the slot of the read", m["stalled"], 160 - 4)
    counts, m = shown(READ, *[MFMA] * 6, "s_waitcnt lgkmcnt(0)", MFMA)
    check("covered", counts, (1, 0, 0))
    check("covered by 5 matrix instructions of 32 cycles that wait for each other", m["stalled"], 0)
    check("matrix cycles", (m["matrix_cycles"], m["busiest"]), (7 * 32, 7 * 32))
    check("two under way, the older is waited for", shown(READ, MFMA, READ, "s_waitcnt lgkmcnt(1)", MFMA)[0], (1, 0, 0))
    check("both are", shown(READ, MFMA, READ, "s_waitcnt lgkmcnt(0)", MFMA)[0], (1, 1, 0))
    check("of the iteration before", shown("s_waitcnt lgkmcnt(0)", MFMA, READ)[0], (1, 1, 0))
    check("of the iteration before, work after the read", shown("s_waitcnt lgkmcnt(0)", READ, MFMA)[0], (1, 0, 0))
    check("writes alone are no wait for a read", shown("ds_write_b128 v40, v[20:23]", "s_waitcnt lgkmcnt(0)", MFMA)[0], (0, 0, 0))
    check("a wait for memory alone", shown("global_load_dwordx4 v[20:23], v[40:41], off", "s_waitcnt vmcnt(0)", MFMA)[0], (0, 0, 0))
    # an access of either counts as one of LDS
    counts, m = shown("flat_load_dwordx4 v[30:33], v[40:41]", READ, "s_waitcnt lgkmcnt(0)", MFMA)
    check("flat", counts, (1, 1, 1))
    check("flat, stalled: memory's latency but for two slots", m["stalled"], MEMORY - 8)
    # gfx12's counters, WMMA's cycles
    WMMA, LOAD = "v_wmma_f32_16x16x16_bf16 v[0:7], v[20:23], v[24:27], v[0:7]", "ds_load_b128 v[20:23], v40"
    counts, m = shown(LOAD, "s_wait_dscnt 0x0", WMMA, chip="gfx1201")
    check("dscnt", counts, (1, 1, 0))
    check("dscnt, stalled", m["stalled"], 24 - 1)
    check("both counters", shown(LOAD, LOAD, WMMA, "s_wait_loadcnt_dscnt 0x101", WMMA, chip="gfx1201")[0], (1, 0, 0))
    check("WMMA is of the vector unit", shown(WMMA, "v_add_f32 v1, v2, v3", chip="gfx1100")[1]["busiest"], 33)
    check("bytes", [Code(0, t).bytes() for t in ("ds_read_b128 v", "ds_read2_b64 v", "ds_load_2addr_b32 v", "ds_write_b64 v", "ds_read_u16 v")], [16, 16, 8, 8, 4])
    # what is passed by, what is not; the inner loop, not the outer; the shorter of two
    way, _ = main_loop(listed("outer:", "s_mov_b32 s0, 0", "loop:", MFMA, "s_cbranch_vccz past", "v_exp_f32 v1, v2", "past:", READ, "s_cbranch_scc1 loop", "s_cbranch_scc0 outer", "s_endpgm"))
    check("path", [c.op for c in way], [MFMA.split()[0], "s_cbranch_vccz", "ds_read_b128", "s_cbranch_scc1"])
    way, _ = main_loop(listed("one:", MFMA, READ, READ, "s_cbranch_scc1 one", "two:", MFMA, READ, "s_cbranch_scc1 two", "s_endpgm"))
    check("the shorter one", len(way), 3)
    way, work = main_loop(listed("loop:", "v_fma_f32 v1, v2, v3, v4", READ, "s_cbranch_scc1 loop", "s_endpgm"))
    check("multiply-adds where there is no matrix instruction", (len(way), sum(map(work, way))), (3, 1))
    code = functions("0000000000001000 <f>:\n\tv_nop   // 000000001000: 7E000000\n\ts_cbranch_scc1 65534  // 000000001004: BF85FFFE <f+0x0>\n\ts_branch 1  // 000000001008: BF820001 <f>\n")["f"]
    check("llvm-objdump", [(c.at, c.op, c.to) for c in code], [(0x1000, "v_nop", None), (0x1004, "s_cbranch_scc1", 0x1000), (0x1008, "s_branch", 0x1000)])
    check("names", [name_of("gfx942", s) for s in ("void gpu_flash16_forward<gpu_shape16<1, 2, 128, 8, 64, 0, 16> >(gpu_params)",
                                                   "void gpu_flash16_forward<gpu_shape16<4, 2, 128, 8, 64, 0, 16> >(gpu_params)",
                                                   "void gpu_flash16_forward<gpu_shape16<1, 2, 128, 8, 64, -1, 2> >(gpu_params)",
                                                   "void gpu_grad_matrix_kernel<gpu_grad_shape<16, 0, 64, 6, 4, 32, 0, 16> >(gpu_grad_params)",
                                                   "void hip_mfma32_forward<64, 8, 2, 2, 16, false>(hip_params)")],
          ["forward bf16 D 128", None, None, "dk and dv f32 D 64", "forward f32 D 64"])
    check("idle", [idle({"busiest": 50, "cycles": 200}, n) for n in (1, 2, 4, 8)], [0.75, 0.5, 0, 0])
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return bool(failed)


def main():
    if sys.argv[1:] == ["--test"]:
        return test()
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("usage: ")[1])
    for name, r in kernels(*sys.argv[1:]).items():
        print(f"{name:24} work {r['work']:4} of {r['instructions']:5}  waits {r['waits']:3} exposed {r['exposed']:3} memory {r['memory']:2}  cycles {r['cycles']:6.0f} "
              f"stalled {r['stalled']:5.0f}  matrix {r['matrix_cycles']:5.0f} busiest {r['busiest']:5.0f}  idle of 1, 2, 4 waves {idle(r, 1):.2f} {idle(r, 2):.2f} {idle(r, 4):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
