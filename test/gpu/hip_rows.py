"""hip_rows.py - attn_hip.c with some rows of its table alone: what is not tested need not be compiled.

usage: hip_rows.py f16|bf16|both chip|units|wgmma|plain    prints it with the kernels of matrix units for that type of 16 bits, and chip: all
others, f32's gradients with f16; units: the scalar ones; wgmma: of that unit alone, and the scalar ones; plain: the plain, aligned ones of wgmma and no others, to be
compiled and not run"""
import pathlib
import re
import sys


def without(text, *lists):
    """The table without the rows of those lists (GPU_ROWS_...): their kernels are not instantiated."""
    for name in lists:
        text = re.sub(rf"^(#define GPU_ROWS_{name})\b(?:.*\\\n)*.*$", r"\1", text, flags=re.M)
    return text


def without_dtype(text, dtype):
    """The table without the rows of a type of 16 bits."""
    return re.sub(rf'GPU_ROWS_(?:(?:GRAD_)?16_\w+|W?G?MMA(?:32)?)\("{dtype}",(?: UNIT_\w+,)? ATTN_{dtype.upper()}[^)]*\)', "", text)


def only_units(text):
    """The table without the kernels that are the same beside any unit: f32's and those that decode."""
    return without(text, "32", "DECODE")


def only_wgmma(text):
    """The table without mma.sync and gradients on it."""
    text = re.sub(r'GPU_ROWS_MMA(?:32)?\("b?f16", ATTN_B?F16\)', "", text)
    return without(only_units(text), "BACKWARD_16")


def only_plain(text):
    """The table with kernels of wgmma that have neither masks nor every alignment, and without scalar ones."""
    text = without(only_wgmma(text), "SCALAR", "CACHE", "BACKWARD")
    return re.sub(r'(?: *\\\n +GPU_ROW_WGMMA\(name "_(?:any|masks)"[^\\\n]*)+', "", text)


WHAT = {"chip": str, "units": only_units, "wgmma": only_wgmma, "plain": only_plain}
if __name__ == "__main__":
    if not (len(sys.argv) == 3 and sys.argv[1] in ("f16", "bf16", "both") and sys.argv[2] in WHAT):
        sys.exit(__doc__.split("usage: ")[1])
    source = (pathlib.Path(__file__).absolute().parent.parent.parent / "attn_hip.c").read_text()
    if sys.argv[1] != "both":
        source = without_dtype(source, "bf16" if sys.argv[1] == "f16" else "f16")
    if sys.argv[1] == "bf16":
        source = without(source, "BACKWARD_32")
    print(WHAT[sys.argv[2]](source), end="")
