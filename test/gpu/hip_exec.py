"""hip_exec.py - registers that GPU kernels write before their lanes are on again, looked for in machine code.

usage: hip_exec.py CHIP OBJECT...      of object files with a code object for that chip; each such place is one failure
       hip_exec.py --test              its own tests, on small listings

Where lanes took different ways, the block in which all go on begins with the instruction that turns them on again. What LLVM 19 puts in
front of it runs for the lanes of one way alone. Scalar registers may be spilled and reloaded there, to and from a lane of a vector register;
where they are, the register allocator no longer knows the block's beginning, and has put a copy of a live vector register there as well
(gradients of f32 of 128 dims on gfx942: keys of the lanes that were off had any number). The source had no fault, and only the kernel that
was compiled that way shows it: so all machine code is looked at. A kernel that needs fewer scalar registers has no such place."""
import re
import subprocess
import sys

from hip_waits import functions_of, listed

ON = re.compile(r"s_or_b(64|32) exec(_lo)?, exec|s_(andn2|and_not1)_saveexec_")          # as they were; those of the other way
OTHER = re.compile(r"s_\w*saveexec_|s_\w+ exec(_lo)?,")
ALL = re.compile(r"s_x?or_saveexec_b(?:64|32) (\S+), -1$")                               # of the whole wave, until that is in exec again
WRITES = re.compile(r"(v_(?!readlane|readfirstlane|writelane|nop)|ds_|global_|flat_|buffer_|scratch_)")


def too_early(code):
    """The instructions of a function that run before their lanes are on again."""
    place = {c.at: n for n, c in enumerate(code)}
    jumped_to = {place[c.to] for c in code if c.to in place}
    joins = {place[c.to] for c in code if c.text.startswith("s_cbranch_execz") and c.to in place and c.to > c.at}
    joins |= {n + 1 for n, c in enumerate(code) if c.text.startswith("s_cbranch_execnz")}      # a loop that all lanes have left
    found = []
    for join in sorted(joins):
        here, until = [], None
        for n in range(join, len(code)):
            text = code[n].text
            if n != join and n in jumped_to or text.startswith(("s_cbranch", "s_branch", "s_endpgm", "s_setpc", "s_swappc")):
                break
            if until:
                if re.match(rf"s_mov_b(64|32) exec(_lo)?, {re.escape(until)}$", text):
                    until = None
            elif m := ALL.match(text):
                until = m[1]
            elif ON.match(text):
                found += here
                break
            elif OTHER.match(text):
                break
            elif WRITES.match(text):
                here.append(code[n])
    return found


def places(chip, path):
    """(How many functions there are, a line for each place) of an object file."""
    found, lines = functions_of(chip, path), []
    for name, code in found.items():
        for c in too_early(code):
            full = subprocess.run(["c++filt", name], capture_output=True, text=True, check=True).stdout.strip()
            lines.append(f"{full}, {c.at - code[0].at:#x}: {c.text}")
    return len(found), lines


# ---- its own tests ----

def test():
    passed = failed = 0

    def check(what, lines, want):
        nonlocal passed, failed
        got = [c.text for c in too_early(listed(*lines))]
        passed, failed = passed + (got == want), failed + (got != want)
        if got != want:
            print(f"FAIL {what}: {got}, not {want}")

    copy, on, off = "v_accvgpr_write_b32 a82, v88", "s_or_b64 exec, exec, s[14:15]", "s_and_saveexec_b64 s[14:15], vcc"
    whole = ("s_or_saveexec_b64 s[100:101], -1", "v_mov_b32_e32 v6, v23", "s_mov_b64 exec, s[100:101]")
    branch = (off, "s_cbranch_execz join", "v_mov_b32_e32 v1, v2", "join:")
    check("a copy", (*branch, copy, on, "s_endpgm"), [copy])
    check("behind it", (*branch, on, copy, "s_endpgm"), [])
    check("beside scalar registers that come back", (*branch, "v_readlane_b32 s4, v23, 5", copy, on, "s_endpgm"), [copy])
    check("scalar registers alone", (*branch, "v_writelane_b32 v23, s82, 5", "v_readlane_b32 s4, v23, 5", "s_mov_b32 s5, 0", on, "s_endpgm"), [])
    check("of all lanes", (*branch, *whole, on, "s_endpgm"), [])
    check("behind what is of all lanes", (*branch, *whole, copy, on, "s_endpgm"), [copy])
    check("stores and loads", (*branch, "global_store_dword v[0:1], v2, off", "ds_read_b32 v3, v4", on), ["global_store_dword v[0:1], v2, off", "ds_read_b32 v3, v4"])
    check("the other way", (*branch, copy, "s_andn2_saveexec_b64 s[14:15], s[14:15]", "s_endpgm"), [copy])
    check("a wave of 32", ("s_and_saveexec_b32 s14, vcc_lo", "s_cbranch_execz join", "v_nop", "join:", "v_mov_b32_e32 v3, v4", "s_or_b32 exec_lo, exec_lo, s14"), ["v_mov_b32_e32 v3, v4"])
    check("a wave of 32, the other way", ("s_cbranch_execz join", "v_nop", "join:", "v_mov_b32_e32 v3, v4", "s_and_not1_saveexec_b32 s14, s14"), ["v_mov_b32_e32 v3, v4"])
    check("another branch within", (*branch, "v_cmp_gt_i32_e32 vcc, s18, v82", "s_and_saveexec_b64 s[24:25], vcc", on), [])
    check("the lanes stay off", (*branch, copy, "s_branch far", "far:", on), [])
    check("a block of its own", (*branch, copy, "next:", on, "s_cbranch_scc1 next"), [])
    check("a loop that all have left", ("loop:", "v_add_u32_e32 v1, 1, v1", "s_andn2_b64 exec, exec, s[4:5]", "s_cbranch_execnz loop", copy, on), [copy])
    check("a loop's beginning", ("loop:", "v_add_u32_e32 v1, 1, v1", on, "s_cbranch_execz loop"), [])
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return bool(failed)


def main():
    if sys.argv[1:] == ["--test"]:
        return test()
    if len(sys.argv) < 3:
        sys.exit(__doc__.split("usage: ")[1])
    passed = failed = 0
    for path in sys.argv[2:]:
        count, lines = places(sys.argv[1], path)
        for line in lines:
            print(f"FAIL written before its lanes are on: {line}")
        passed, failed = passed + (count > 0 and not lines), failed + (count == 0) + len(lines)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
