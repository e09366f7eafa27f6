"""hip_rows.py - attn_hip.c with some rows of its table alone: what is not tested need not be compiled.

usage: hip_rows.py DTYPE    prints it with the kernels of NVIDIA's matrix unit for that type of 16 bits, and with the scalar ones"""
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
    return re.sub(rf'GPU_ROWS_(?:(?:GRAD_)?16_\w+|MMA)\("{dtype}",(?: UNIT_\w+,)? ATTN_{dtype.upper()}[^)]*\)', "", text)


if __name__ == "__main__":
    if sys.argv[1:] not in (["f16"], ["bf16"]):
        sys.exit(__doc__.split("usage: ")[1])
    source = (pathlib.Path(__file__).absolute().parent.parent.parent / "attn_hip.c").read_text()
    print(without_dtype(without(source, "32", "DECODE"), "bf16" if sys.argv[1] == "f16" else "f16"), end="")
