"""hip_splice.py - of a changed attn_hip.c only the kernels that changed are compiled.

clang writes the code of the device and that of the host as LLVM's text, two seconds each; making machine code of all kernels takes half a minute to two
minutes. Here each kernel of the source, with all that it calls, is an object of its own. A mutant's kernels that use what changed (splice.py) are compiled and
linked with the others' objects; where only the host's code differs the machine code is that of the source."""
import hashlib
import pathlib
import re
import subprocess
import sys

import mutate
import splice

ROOT = mutate.ROOT
sys.path.insert(0, str(ROOT / "test" / "gpu"))
import hip_rows  # noqa: E402

CLANG = "clang-19"
KERNEL = re.compile(r"^define [^@\n]*\bamdgpu_kernel\b")
PROGRAMS = ("hip_grid", "hip_unit")
CHIPS = ["gfx942", "gfx1100", "gfx90a", "gfx1201"]
# the rows of attn_hip.c's table whose kernels are compiled: of f32 (32), of 16 bits, or
GRADIENTS, WGMMA, GRAD_WGMMA, DECODE_MMA = "BACKWARD_16", "wgmma", "BACKWARD_NV", "DECODE_NV"
NVIDIA, EMULATE = 80, "test/gpu/hip_emulate.h"     # the kernels of mma.sync, that header in its place
ARCH = {"sm80": "gfx1100", "sm90": "gfx1100"}       # what runs it
DEFINES = {chip: ["-DGPU_CHUNK_BYTES=4096", "-DGPU_BATCH_MAX=2", "-DGPU_CARRY_KEYS=128", "-DGPU_CARRY_DECODE=4", "-DGPU_PART_KEYS=64", "-DGPU_LAY_BYTES=4096"] for chip in ("gfx90a", "gfx1201")}        # as in hip.mk
DEFINES["sm80"] = ["-DGPU_PART_KEYS=128"]           # more calls in parts: of few rows those are what decodes
DEFINES["sm90"] = ["-DGPU_UNITS=(UNIT_SM80|UNIT_SM90)", "-DGPU_CARRY_KEYS=128", "-DGPU_PART_KEYS=64"]


def prepare(jobs):
    """What the programs are linked with."""
    subprocess.run(["make", "-s", f"-j{jobs}", "hipsim", *[f"build/hip/{p}.o" for p in PROGRAMS], *[f"build/hip/{c}/hip_fault.o" for c in [*CHIPS, *ARCH]],
                    "build/plain/impl.o", "build/hip/hip_wrap.o"], cwd=ROOT, check=True)


def type_of(directory):
    return "f16" if re.search("(?<!b)f16", directory.name) else "bf16"


def narrowed(text, rows, directory):
    """attn_hip.c with the kernels of those rows."""
    for bits in (b for b in (16, 32, GRADIENTS) if b != rows and (b, rows) != (32, NVIDIA)):
        text = hip_rows.without(text, str(bits))
    if rows in (GRADIENTS, GRAD_WGMMA, DECODE_MMA):
        text = hip_rows.without(text, "NV", "DECODE")
    text = hip_rows.without(text, *[nv for nv in (GRAD_WGMMA, DECODE_MMA) if nv != rows])
    if rows != GRADIENTS:
        text = hip_rows.without(text, "BACKWARD_32")
    if rows == WGMMA:
        text = hip_rows.only_wgmma(hip_rows.without(text, "DECODE"))
    return hip_rows.without_dtype(text, "bf16" if type_of(directory) == "f16" else "f16")


def link_line(chip, program):
    """The command by which make links that program, with the object and the program in @DIRECTORY@."""
    shown = subprocess.run(["make", "-n", "-W", "build/plain/impl.o", f"build/hip/{chip}/{program}"], cwd=ROOT, capture_output=True, text=True).stdout
    line = [part for part in shown.splitlines() if f"-o build/hip/{chip}/{program}" in part][-1]
    line = line.replace(f"build/hip/{chip}/attn_hip.o", "@DIRECTORY@/attn_hip.o")
    return line.replace(f"-o build/hip/{chip}/{program}", f"-o @DIRECTORY@/{program}").split()


def contents(path, strip):
    """What an object is, without what names and notes of it say."""
    subprocess.run(["llvm-objcopy-19", *strip, path, f"{path}.stripped"], check=True)
    return hashlib.sha256(pathlib.Path(f"{path}.stripped").read_bytes()).digest()


def kernels_of(module):
    return [name for name, text in module.functions.items() if KERNEL.match(text)]


class Source:
    """attn_hip.c for one chip, with the kernels of some rows: compiled as it is, and whatever changes of it."""

    def __init__(self, chip, rows, text, directory):
        self.chip, self.rows, self.directory = chip, rows, directory
        self.links = [link_line(chip, program) for program in PROGRAMS]
        self.arch = ARCH.get(chip, chip)
        directory.mkdir(parents=True, exist_ok=True)
        self.device, self.host, wrong = self.read(text, directory)
        kernels = [] if wrong else kernels_of(self.device)
        self.kernels = dict.fromkeys(kernels)
        for name in kernels:
            wrong = wrong or self.compile_kernel(self.device, name, directory)
            self.kernels[name] = None if wrong else contents(f"{directory}/{name}.o", [])
        self.bundle = directory / "bundle"
        wrong = wrong or self.bundle_of([directory / f"{n}.o" for n in kernels], self.bundle) or self.compile_host(directory, self.bundle) or self.link(directory)
        if wrong:
            raise RuntimeError(f"the unchanged attn_hip.c does not compile for {chip}: {wrong}")
        self.host_contents = self.contents_of_host(directory)

    def options(self, directory):
        emulate = ["-include", EMULATE] if self.rows == NVIDIA or self.chip in ARCH else []
        return ["test/hipsim/hipcc", "-x", "hip", "-O1", "-cuid=0", *emulate, *DEFINES.get(self.chip, []), f"--offload-arch={self.arch}", f"-I{directory}",
                f"-I{ROOT}", "-c", f"{directory}/attn_hip.c"]

    def read(self, text, directory):
        """(The device's functions, the host's text, what the compiler says against it)."""
        (directory / "attn_hip.c").write_text(narrowed(text, self.rows, directory))
        for side in ("device", "host"):
            wrong = mutate.failure([*self.options(directory), f"--offload-{side}-only", "-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-o", f"{directory}/{side}.ll"])
            if wrong:
                return None, None, wrong
        host = (directory / "host.ll").read_text()
        return splice.Module((directory / "device.ll").read_text()), re.sub(r"^(?:source_filename|; ModuleID) = .*\n", "", host, flags=re.M), None

    def compile_kernel(self, module, name, directory):
        (directory / f"{name}.ll").write_text(module.whole(name))
        return mutate.failure([CLANG, "-x", "ir", "--target=amdgcn-amd-amdhsa", f"-mcpu={self.arch}", "-nogpulib", "-O1", "-w", "-c", f"{directory}/{name}.ll", "-o", f"{directory}/{name}.o"])

    def bundle_of(self, objects, path):
        return mutate.failure([CLANG, "--target=amdgcn-amd-amdhsa", f"-mcpu={self.arch}", "-nogpulib", *map(str, objects), "-o", f"{path}.elf"]) or mutate.failure(
            ["clang-offload-bundler-19", "-type=o", "-bundle-align=4096", f"-targets=host-x86_64-unknown-linux,hipv4-amdgcn-amd-amdhsa--{self.arch}", "-input=/dev/null",
             f"-input={path}.elf", f"-output={path}"])

    def compile_host(self, directory, bundle):
        return mutate.failure([*self.options(directory), "--offload-host-only", "-Xclang", "-fcuda-include-gpubinary", "-Xclang", str(bundle), "-o", f"{directory}/attn_hip.o"])

    def contents_of_host(self, directory):
        return contents(f"{directory}/attn_hip.o", ["--strip-unneeded", "-R", ".comment", "-R", ".note.*", "-R", ".llvm_addrsig", f"--update-section=.hip_fatbin={self.bundle}"])

    def link(self, directory):
        for line in self.links:
            wrong = mutate.failure([word.replace("@DIRECTORY@", str(directory)) for word in line])
            if wrong:
                return wrong
        return None

    def build(self, text, directory):
        """Builds what that text changes, and the programs: (why it does not compile, whether its code differs: the names of the kernels that do, if that is all)."""
        directory.mkdir(parents=True, exist_ok=True)
        device, host, wrong = self.read(text, directory)
        if wrong:
            return wrong, False
        objects, own, affected = {}, set(), device.users(splice.changed(self.device, device, True))
        for name in kernels_of(device):
            objects[name] = self.directory / f"{name}.o"
            if name in self.kernels and name not in affected:
                continue
            wrong = self.compile_kernel(device, name, directory)
            if wrong:
                return wrong, False
            if contents(f"{directory}/{name}.o", []) != self.kernels.get(name):
                objects[name] = directory / f"{name}.o"
                own.add(name)
        bundle, changed = self.bundle, own if objects.keys() == self.kernels.keys() else True
        if changed:
            bundle = directory / "bundle"
            wrong = self.bundle_of(objects.values(), bundle)
        if not wrong and host == self.host:
            if not changed:
                return None, changed
            wrong = mutate.failure(["llvm-objcopy-19", f"--update-section=.hip_fatbin={bundle}", f"{self.directory}/attn_hip.o", f"{directory}/attn_hip.o"])
        elif not wrong:
            wrong = self.compile_host(directory, bundle)
            if not wrong and self.contents_of_host(directory) != self.host_contents:
                changed = True
        return (wrong or (self.link(directory) if changed else None)), changed
