"""hip_rows.py - attn_hip.c with some rows of its table alone: what is not tested need not be compiled.

usage: hip_rows.py f16|bf16|both chip|units|wgmma|plain|main [d64|d128]    prints it with the kernels of matrix units for that type of 16 bits, and chip: all
others, f32's gradients and decode from int8 with f16, decode from fp8 with bf16; units: the scalar ones; wgmma: of that unit alone, and the scalar ones; to be compiled and not run: plain: the plain, aligned ones of
wgmma and no others; main: the plain, aligned ones of 64 and 128 dims of AMD's chips, and those that decode. d64, d128: of those the ones of 64 and 256 dims, of 32 and 128"""
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
    return re.sub(rf'GPU_ROWS_(?:(?:GRAD_)?16_\w+|DECODE_KV|(?:GRAD_|DECODE_)?W?G?MMA(?:32)?)\("{dtype}",(?: UNIT_\w+,)? ATTN_{dtype.upper()}[^)]*\)', "", text)


def without_dims(text, *dims):
    """The table without the rows of tiles that are made for so many dims, and those that decode them."""
    inner = r"(?:[^()]|\([^()]*\))*\)"
    for d in dims:
        text = re.sub(rf'GPU_ROWS_(?:GRAD_)?16_D\(name, UNIT\w*, DTYPE, {d},{inner}|GPU_ROWS_M?FMA32\({d},{inner}'
                      rf'|GPU_ROWS_GRAD_F32_D\(UNIT, unit "_" dtype "_d{d}",{inner}|GPU_ROW_DECODE(?:_MMA)?\("decode_[^\\\n(]*_d{d}(?:_mma)?",{inner}'
                      rf'|GPU_ROW_MMA\("flash_" name "_d{d}(?:_\w+)?",{inner}|GPU_ROWS_WGMMA_D\("flash_" name "_d{d}_wgmma",{inner}'
                      rf'|GPU_ROW_GRAD_WGMMA\(name "_d{d}",{inner}', "", text)
    return re.sub(r"(?:[ ]*\\\n[ ]*)+(?=\n(?:#|/\*|\n))", "", text)      # a list does not go on behind its last row


def only_units(text):
    """The table without the kernels that are the same beside any unit: f32's and those that decode."""
    return without(text, "32", "DECODE")


def only_wgmma(text):
    """The table without mma.sync and gradients on it."""
    text = re.sub(r'GPU_ROWS_MMA(?:32)?\("b?f16", ATTN_B?F16\)', "", text)
    return without(only_units(text), "BACKWARD_16", "DECODE_NV")


def only_plain(text):
    """The table with kernels of wgmma that have neither masks nor every alignment, and without scalar ones."""
    text = without(only_wgmma(text), "SCALAR", "BACKWARD")
    return re.sub(r'(?: *\\\n +GPU_ROW_WGMMA\((?: *\\\n +)?name "_(?:any|masks|wide)"[^\\\n]*)+', "", text)


def only_main(text):
    """The table with the plain, aligned kernels of 64 and 128 dims; of older sources too, whose names begin with HIP_."""
    text = re.sub(r"\bHIP_ROW", "GPU_ROW", text)
    text = without(text, "SCALAR", "CACHE", "BACKWARD")
    row = r"[^\\\n]*(?:\n +[^\\\n]*(?=\)))?"
    text = re.sub(rf'\s*\\\n +GPU_ROW_16(?:_WIDE)?\("flash_" name "_d" #D "_(?:any|masks|wide)"{row}', "", text)
    text = re.sub(rf'\s*\\\n +GPU_ROW_GRAD_(?:16|F32)\((?:UNIT, |"flash_" )?name [^\\\n]*"_masks"{row}', "", text)
    text = re.sub(rf'\s*\\\n +GPU_ROW_\w*32\("\w+_d" #D "_\w+"{row}', "", text)
    text = re.sub(r"\s*\\\n +GPU_ROWS_(?:GRAD_)?16_D\(name, UNIT\w*, DTYPE, +(?:32|256),[^\\\n]*", "", text)
    text = re.sub(r"GPU_ROWS_(?:MFMA|FMA)32\((?:32|256), [^)]*\)", "", text)
    return re.sub(r'GPU_ROWS_GRAD_F32\((?:UNIT, unit, )?"b?f16", ATTN_B?F16\)', "", text)


WHAT = {"main": only_main, "chip": str, "units": only_units, "wgmma": only_wgmma, "plain": only_plain}
DIMS = {"d64": (32, 128), "d128": (64, 256)}            # which are left out
CODES = {"f16": "fp8", "bf16": "int8"}                  # which a chip of that type has no kernel to decode from
if __name__ == "__main__":
    if not (len(sys.argv) in (3, 4) and all(x in DIMS for x in sys.argv[3:]) and sys.argv[1] in ("f16", "bf16", "both") and sys.argv[2] in WHAT):
        sys.exit(__doc__.split("usage: ")[1])
    source = (pathlib.Path(__file__).absolute().parent.parent.parent / "attn_hip.c").read_text()
    if sys.argv[1] != "both":
        source = without_dtype(source, "bf16" if sys.argv[1] == "f16" else "f16")
    if sys.argv[1] == "bf16":
        source = without(source, "BACKWARD_32")
    if sys.argv[1] in CODES and sys.argv[2] == "chip":
        source = source.replace(re.search(rf'GPU_ROWS_DECODE_KV\("{CODES[sys.argv[1]]}",[^)]*\)', source)[0], "")
    print(without_dims(WHAT[sys.argv[2]](source), *DIMS.get(sys.argv[-1], ())), end="")
