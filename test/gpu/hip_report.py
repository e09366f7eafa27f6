"""hip_report.py - writes test/results/hip_report.md: what the simulator counts in every GPU kernel, beside the targets.

usage: hip_report.py [--chips gfx942,gfx1100] [--output FILE] [--quick] [--waits]        --quick: S 256 in place of 2048, to try the script
                                                            --waits: the section on waits alone, in the file as it is

No clock is read: registers and spills come from the code objects, the rest from the simulator's report of one call each (B 1, one
head, device pointers): waves per SIMD, cycles of every unit, LDS conflicts, bytes. matrix_busy_bound is an upper bound on the share of
time in which the matrix unit can be busy (test/hipsim/README.md)."""
import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import hip_exec
import hip_rows
import hip_waits

ROOT = pathlib.Path(__file__).absolute().parent.parent.parent
CHIPS = ["gfx942", "gfx90a", "gfx1100", "gfx1201"]
CDNA = {"gfx942", "gfx90a"}
BYTES = {"f32": 4, "f16": 2, "bf16": 2, "int8": 1, "fp8": 1}
LLVM = "/usr/lib/llvm-19/bin/"
UNCUT = {"gfx90a", "gfx1201"}   # HIP_UNCUT of hip.mk: what the tests run of these is cut into pieces of 64 to 128 keys
# the targets, by chip
BUSY = {128: {"gfx942": 0.98, "gfx90a": 0.98, "gfx1100": 0.83, "gfx1201": 0.81},
        64: {"gfx942": 0.90, "gfx90a": 0.98, "gfx1100": 0.78, "gfx1201": 0.72}}
CAUSAL_DROP = 0.08
WAVES = {"gfx942": 2, "gfx90a": 2, "gfx1100": 4, "gfx1201": 4}
CONFLICTS, LDS_SHARE = 1.02, 0.6
USEFUL = {False: 0.95, True: 0.90}
# of the gradients, by chip, full; 0.05 lower under causal
GRAD_BUSY = {"dkdv": {64: {"gfx942": 1.00, "gfx90a": 1.00, "gfx1100": 0.85, "gfx1201": 0.83}, 128: {"gfx942": 1.00, "gfx90a": 1.00, "gfx1100": 0.87, "gfx1201": 0.86}},
             "dq": {64: {"gfx942": 1.00, "gfx90a": 1.00, "gfx1100": 0.87, "gfx1201": 0.85}, 128: {"gfx942": 1.00, "gfx90a": 1.00, "gfx1100": 0.87, "gfx1201": 0.89}}}
GRAD_DROP = 0.05
GRAD_PARTS = {1: "dq", 2: "dk", 4: "dv", 6: "dk and dv"}        # GRAD_DQ, GRAD_DK, GRAD_DV of attn_hip.c
GRAD_PRODUCTS = {1: 3, 2: 3, 4: 2, 6: 4}                        # that each takes of a pair and a dim
# of decode: bytes asked of memory over those of the cache, at most, by type and page (0: contiguous)
DECODE_DIM, DECODE_KEYS = 128, 4096
DECODE = {(dtype, page): 1.06 if dtype in ("int8", "fp8") else 1.05 if page == 1 else 1.03 for dtype in ("bf16", "f16", "f32", "int8", "fp8") for page in (0, 256, 16, 1)}
F32_BUSY = {"gfx942": 0.85, "gfx90a": 0.97}
F32_FMA = 0.95
# What the waits of main loops are compared with: the kernels of a commit that had none of the rings of operands, and for those that it had not yet,
# of the last one before the rings ran through whole tiles
BEFORE = ["de64659", "74a7bd6"]
WAITS_SHARE = 3         # exposed waits: a third of what they were, at most
WAITS_HEAD = "## Waits for LDS in main loops"


def sh(*arguments, **more):
    return subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, **more)


def built(chip):
    return f"build/hip/{chip}{'uncut' * (chip in UNCUT)}"


def call(chip, *arguments):
    """The kernel that answers, and what the simulator counted in each launch; or the reason why there is none."""
    with tempfile.TemporaryDirectory() as directory:
        report = f"{directory}/report.json"
        done = sh(f"{built(chip)}/hip_report", *map(str, arguments),
                  env={**os.environ, "HIPSIM_ARCH": chip, "HIPSIM_REPORT": report, "HIPSIM_THREADS": "1"}, timeout=3600)
        if done.returncode:
            return (done.stdout + done.stderr).strip()[:300], None
        return done.stdout.strip(), [json.loads(line) for line in open(report)]


def called(chip, dtype, dim, seq, causal, extras, gap, backward):
    return call(chip, dtype, dim, dim, seq, seq, int(causal), extras, gap, backward)


def run_decode(job):
    """One query of four heads on one: bytes asked of global memory over those of the cache, and the kernel that reads it."""
    chip, dtype, page = job
    row, launches = call(chip, "decode", dtype, DECODE_DIM, DECODE_KEYS, page)
    if launches is None:
        return {"error": row}
    cache = 2 * DECODE_KEYS * (DECODE_DIM * BYTES[dtype] + (4 if dtype in ("int8", "fp8") else 0))
    most = max(launches, key=lambda r: r["global_bytes"])
    return {"row": row, "share": most["global_bytes"] / cache, "all": sum(r["global_bytes"] for r in launches) / cache, "kernel": most}


def run_gradients(job):
    """A backward call: of each of its kernels on tiles, which gradients it computes and what was counted."""
    chip, dtype, dim, seq, causal, extras = job
    row, launches = called(chip, dtype, dim, seq, causal, extras, 0, 1)
    if launches is None:
        return {"error": row}
    parts = {}
    for r in launches:
        shape = re.search(r"gpu_grad_shape<([^>]*)>", sh("c++filt", r["kernel"]).stdout)
        if shape:
            kind = int(re.sub(r"\([^)]*\)", "", shape[1]).split(",")[3])
            pairs = seq * (seq + 1) // 2 if causal else seq * seq
            r["fma"] = share_of_fma(chip, r, pairs * GRAD_PRODUCTS[kind] * dim)
            parts[GRAD_PARTS[kind]] = r
    return {"row": row, "parts": parts}


def share_of_fma(chip, r, useful):
    """So many multiply-adds over those of one FMA an issue cycle, while the busiest unit is."""
    waves = r["grid"][0] * r["grid"][1] * r["grid"][2] * (-(-r["block"][0] * r["block"][1] * r["block"][2] // r["wave"]))
    c = r["cycles_per_wave"]
    issue = c["valu"] + (c["trans"] if chip in CDNA else c["matrix"] + c["trans"] / 4)
    top = max(c["matrix"], issue, c["lds"], c["vmem"], c["trans"])
    return useful / 32 / waves / top if top else 0


def run(job):
    """One call in the simulator: what it counted, with the ratios of this report added; or None with the reason."""
    chip, dtype, dim, seq, causal, extras, gap = job
    row, launches = called(*job, 0)
    if launches is None:
        return {"error": row}
    r = max(launches, key=lambda x: x["total"])
    r["row"], r["launches"] = row, len(launches)
    pairs = seq * (seq + 1) // 2 if causal else seq * seq
    useful = pairs * 4 * dim
    c = r["cycles_per_wave"]
    r["useful"] = useful / r["matrix_flops"] if r["matrix_flops"] else None
    r["fma"] = share_of_fma(chip, r, useful / 2)
    r["conflicts"] = r["lds_cycles"] / r["lds_ideal_cycles"] if r["lds_ideal_cycles"] else None
    r["lds_share"] = c["lds"] / c["matrix"] if c["matrix"] else None
    once = BYTES[dtype] * 4 * seq * dim + 4 * seq
    tiles = r["grid"][0]
    rows = -(-seq // tiles)
    keys = sum(min(seq, (t + 1) * rows) for t in range(tiles)) if causal else tiles * seq
    r["bytes"] = r["global_bytes"] / once
    r["bytes_tile"] = r["global_bytes"] / (BYTES[dtype] * (2 * seq * dim + 2 * keys * dim) + 4 * seq)
    return r


def kernels_of(chip):
    """Every kernel of the code object: name, registers, spills, LDS, from its metadata."""
    with tempfile.TemporaryDirectory() as directory:
        sh(LLVM + "llvm-objcopy", f"--dump-section=.hip_fatbin={directory}/fat", f"{built(chip)}/attn_hip.o", "/dev/null")
        fat = pathlib.Path(f"{directory}/fat").read_bytes()
        at = fat.index(b"__CLANG_OFFLOAD_BUNDLE__")
        count, place = struct.unpack_from("<Q", fat, at + 24)[0], at + 32
        for _ in range(count):
            offset, size, length = struct.unpack_from("<QQQ", fat, place)
            name = fat[place + 24:place + 24 + length].decode()
            place += 24 + length
            if chip in name:
                pathlib.Path(f"{directory}/co").write_bytes(fat[at + offset:at + offset + size])
        notes = sh(LLVM + "llvm-readelf", "--notes", f"{directory}/co").stdout
    found = []
    for part in re.split(r"\n  - (?=\.)", notes[notes.find("amdhsa.kernels"):])[1:]:
        field = lambda name: int((re.search(rf"\.{name}:\s+(\d+)", part) or [0, 0])[1])
        symbol = re.search(r"\n\s+\.name:\s+(\S+)", "\n" + part)
        if not symbol:
            continue
        name = sh("c++filt", symbol[1]).stdout.strip()
        name = re.sub(r"^void |\(gpu_params\)$|\(.*\)$", "", name)
        found.append({"name": name, "vgprs": field("vgpr_count"), "agprs": field("agpr_count"), "sgprs": field("sgpr_count"),
                      "lds": field("group_segment_fixed_size"), "scratch": field("private_segment_fixed_size"),
                      "spills": f"{field('vgpr_spill_count')} + {field('sgpr_spill_count')}", "threads": field("max_flat_workgroup_size")})
    return sorted(found, key=lambda k: k["name"])


def before(chip):
    """What main kernels waited for in the commits of BEFORE, and which of them it is; compiled once. {} where git does not have them."""
    found = {}
    for commit in BEFORE:
        source, header = sh("git", "show", f"{commit}:attn_hip.c"), sh("git", "show", f"{commit}:attn.h")
        if source.returncode or header.returncode:
            continue
        place = ROOT / "build" / "hip" / "before" / commit
        place.mkdir(parents=True, exist_ok=True)
        if not (place / f"{chip}.co").exists():
            (place / "attn.h").write_text(header.stdout)
            (place / f"{chip}.c").write_text(hip_rows.only_main(source.stdout))
            sh("test/hipsim/hipcc", "-x", "hip", "-O3", f"--offload-arch={chip}", "--cuda-device-only", "--no-gpu-bundle-output", f"-I{place}", "-c",
               place / f"{chip}.c", "-o", place / f"{chip}.part", check=True)
            (place / f"{chip}.part").rename(place / f"{chip}.co")
        for name, r in hip_waits.kernels(chip, place / f"{chip}.co").items():
            found.setdefault(name, {**r, "commit": commit})
    return found


def waves_of(chip):
    """symbol -> waves per SIMD, of a short call to each main kernel."""
    calls = [called(chip, dtype, dim, 256, False, 0, 0, backward) for dtype in ("bf16", "f16", "f32") for dim in (64, 128) for backward in (0, 1)]
    calls += [call(chip, "decode", dtype, dim, DECODE_KEYS, 0) for dtype in ("bf16", "f16", "f32", "int8", "fp8") for dim in (64, 128)]
    return {r["kernel"]: r["waves_per_simd"] for _, launches in calls for r in launches or []}


def waits_section(chips):
    """The section's text, and what it says is not met."""
    rows, failed = [["chip", "kernel", "work", "instructions", "waits", "exposed", "before", "at most", "", "for memory", "before", "cycles", "before", "stalled", "before",
                     "busiest unit", "waves/SIMD", "idle", "before"]], []
    for chip in chips:
        old, waves = before(chip), waves_of(chip)
        for name, r in sorted(hip_waits.kernels(chip, ROOT / built(chip) / "attn_hip.o").items()):
            if r["symbol"] not in waves or not r["waits"]:      # of no call of this report, or without LDS in its main loop
                continue
            was, n = old.get(name), waves[r["symbol"]]
            most = was["exposed"] // WAITS_SHARE if was and not name.startswith("decode") else None
            met = None if most is None else r["exposed"] <= most
            if met is False:
                failed.append(f"exposed waits, {name}, {chip}: {r['exposed']} of {most}")
            of = lambda key: number(was[key], 0) if was else "-"
            rows.append([chip, name, r["work"], r["instructions"], r["waits"], r["exposed"], f"{was['exposed']} ({was['commit']})" if was else "-", "-" if most is None else most,
                         {True: "met", False: "**not met**", None: ""}[met], r["memory"], of("memory"), number(r["cycles"], 0), of("cycles"), number(r["stalled"], 0), of("stalled"),
                         number(r["busiest"], 0), n, number(hip_waits.idle(r, n)), number(hip_waits.idle(was, n)) if was else "-"])
    lines = lambda text: " ".join(text.split())
    text = f"{WAITS_HEAD}\n\n" + "\n".join([
        lines(f"""By test/gpu/hip_waits.py, from the machine code of attn_hip.c of commit {written_of()}. Of an iteration of the main loop, which is a tile: work: matrix
        instructions, or where a kernel has none multiply-adds. waits: those for reads of LDS; exposed: no work was issued since the youngest read that they wait for. before: the same
        of the commit in brackets; at most: a third of it; those that decode read q alone from LDS there and have no such target. for memory: waits for LDS that wait for memory too, since an access that may be of either is under way."""),
        lines("""cycles, stalled: of one wave that is alone on its SIMD, in order, and of them those in which it stands at a wait (of LDS or of memory); the model, its latencies and where
        they are from are in hip_waits.py. No chip has been asked: they show what a change does, not what a tile takes. busiest unit: cycles that a tile needs of the unit that is most
        in demand. idle: what other waves cannot hide, the share of time in which that unit has nothing to do whatever they do: in the T cycles of one wave's tile n waves need n times
        U of the unit, so (T - n U) / T is left, or nothing; before: with as many waves.""")]) + "\n\n" + table(rows)
    return text + ("".join(["\nNot met:\n\n", *[f"- {f}\n" for f in failed]]) if failed else ""), failed


def written_of():
    commit = sh("git", "log", "-1", "--format=%h", "--", "attn_hip.c").stdout.strip()
    return commit + ("" if sh("git", "diff", "--quiet", "HEAD", "--", "attn_hip.c").returncode == 0 else ", changed since")


def number(x, digits=2):
    return "-" if x is None else f"{x:.{digits}f}"


def table(rows):
    rows = [[str(x) for x in row] for row in rows]
    return "\n".join("| " + " | ".join(row) + " |" + ("\n|" + "---|" * len(row) if i == 0 else "") for i, row in enumerate(rows)) + "\n"


def main():
    arguments = sys.argv[1:]
    value = lambda option, default: arguments[arguments.index(option) + 1] if option in arguments else default
    chips = value("--chips", ",".join(CHIPS)).split(",")
    output = pathlib.Path(value("--output", ROOT / "test" / "results" / "hip_report.md"))
    quick = "--quick" in arguments
    big, middle = (256, 256) if quick else (2048, 1024)
    if sh("test/gpu/hip.sh", "missing").returncode == 0:
        print("skipped: the GPU compiler is not installed (make setup)")
        return 0
    workers = len(os.sched_getaffinity(0))
    subprocess.run(["make", "-s", f"-j{workers}", *[f"{built(c)}/hip_report" for c in chips]], cwd=ROOT, check=True)
    if "--waits" in arguments:
        section, failed = waits_section(chips)
        old = output.read_text() if output.exists() else ""
        at = old.find(WAITS_HEAD)
        end = old.find("\n## ", at) + 1 if at >= 0 else old.find("## Every kernel compiled")
        end = end if end > 0 else len(old)
        output.write_text(old[:at if at >= 0 else end] + section + "\n" + old[end:])
        print(f"{output}: waits, {len(failed)} not met")
        return 0
    jobs = []
    for chip in chips:
        for dtype in ("bf16", "f16", "f32"):
            for causal in (False, True):
                jobs += [(chip, dtype, dim, seq, causal, 0, 0) for dim in (64, 128) for seq in {big, middle}]
                jobs.append((chip, dtype, 256, 512, causal, 0, 0))
            for dim in (64, 128, 256, 320):                     # the other rows of the table: masks, odd strides, wide heads
                jobs += [(chip, dtype, dim, 256, False, extras, gap) for extras in (0, 63) for gap in (0, 1)]
    jobs = sorted(set(jobs), key=lambda j: (-j[3], j))
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        results = dict(zip(jobs, pool.map(run, jobs)))
        grad_jobs = [(chip, dtype, dim, big, causal, 0) for chip in chips for dtype in ("bf16", "f16") for dim in (64, 128) for causal in (False, True)]
        grad_jobs += [(chip, dtype, dim, 256, causal, extras) for chip in chips for dtype in ("bf16", "f16") for dim, causal, extras in ((32, False, 0), (128, False, 63))]
        grad_jobs += [(chip, dtype, 256, 512, causal, 0) for chip in chips for dtype in ("bf16", "f16") for causal in (False, True)]
        grad_jobs += [(chip, "f32", dim, 512, causal, 0) for chip in chips for dim in (64, 128) for causal in (False, True)]
        grad_jobs += [(chip, "f32", dim, 256, False, 63) for chip in chips for dim in (64, 128)]
        gradients = dict(zip(grad_jobs, pool.map(run_gradients, grad_jobs)))
        decode_jobs = [(chip, *case) for chip in chips for case in DECODE]
        decoded = dict(zip(decode_jobs, pool.map(run_decode, decode_jobs)))
    metadata = {chip: kernels_of(chip) for chip in chips}

    wrong = [f"{' '.join(map(str, job))}: {r['error']}" for job, r in [*results.items(), *gradients.items(), *decoded.items()] if "error" in r]
    get = lambda *job: results.get(job, {"error": "not run"})
    failed, lines = [], []

    def target(what, cells):
        """cells: chip -> (shown, met or None where there is no target)"""
        shown = []
        for chip in chips:
            text, met = cells.get(chip, ("-", None))
            if met is False:
                failed.append(f"{what}, {chip}: {text}")
            shown.append(text + {True: " met", False: " **not met**", None: ""}[met])
        lines.append([what, *shown])

    def over(values):
        return [v for v in values if v is not None] or [float("nan")]

    for dim in (128, 64):
        for dtype in ("bf16", "f16"):
            cells, drops, falls = {}, {}, {}
            for chip in chips:
                full, causal = get(chip, dtype, dim, big, False, 0, 0), get(chip, dtype, dim, big, True, 0, 0)
                if "error" in full or "error" in causal:
                    cells[chip] = drops[chip] = falls[chip] = ("fails", False)
                    continue
                f, c, want = full["matrix_busy_bound"], causal["matrix_busy_bound"], BUSY[dim][chip]
                cells[chip] = (f"{f:.3f} of {want}", f >= want - 0.0005)
                drops[chip] = (f"{c:.3f} of {want - CAUSAL_DROP:.2f}", c >= want - CAUSAL_DROP - 0.0005)
                falls[chip] = (f"{f - c:.3f}", f - c <= CAUSAL_DROP)
            target(f"matrix_busy_bound, {dtype}, D {dim}, full", cells)
            target(f"the same, causal, the target {CAUSAL_DROP} lower", drops)
            target(f"causal, lower than the full figure by, at most {CAUSAL_DROP}", falls)
    main_jobs = lambda chip, dtypes, seq: [get(chip, t, d, seq, c, 0, 0) for t in dtypes for d in (64, 128) for c in (False, True)]
    cells = {c: min((r.get("waves_per_simd", 0) for r in main_jobs(c, ("bf16", "f16"), big))) for c in chips}
    target("waves per SIMD, bf16 and f16, D 64 and 128", {c: (f"{n} of {WAVES[c]}", n >= WAVES[c]) for c, n in cells.items()})
    cells = {c: max(over(r.get("conflicts") for r in main_jobs(c, ("bf16", "f16", "f32"), big))) for c in chips}
    target(f"LDS cycles over conflict-free ones, at most {CONFLICTS}", {c: (f"{n:.3f}", n <= CONFLICTS) for c, n in cells.items()})
    cells = {c: max(over(r.get("lds_share") for r in main_jobs(c, ("bf16", "f16", "f32"), big))) for c in chips}
    target(f"LDS cycles over matrix cycles, at most {LDS_SHARE} on CDNA", {c: (f"{n:.2f}", n <= LDS_SHARE if c in CDNA else None) for c, n in cells.items()})
    for causal in (False, True):
        cells = {c: min(over(get(c, t, d, middle, causal, 0, 0).get("useful") for t in ("bf16", "f16") for d in (64, 128))) for c in chips}
        target(f"useful over executed matrix FLOPs, S {middle}, {'causal' if causal else 'full'}, at least {USEFUL[causal]}",
               {c: (f"{n:.3f}", n >= USEFUL[causal]) for c, n in cells.items()})

    def in_f32(what, causal, records):
        """records(chip): what was counted, [] where there is nothing; busy on a matrix unit, else of the FMA peak"""
        cells = {}
        for c in chips:
            rs = records(c)
            if not rs:
                cells[c] = ("fails", False)
            elif c in CDNA:
                n = min(r["matrix_busy_bound"] for r in rs)
                cells[c] = (f"busy {n:.3f} of {F32_BUSY[c]}", n >= F32_BUSY[c] - 0.0005 if not causal else None)
            else:
                n = min(r["fma"] for r in rs)
                cells[c] = (f"{n:.3f} of the FMA peak, of {F32_FMA}", n >= F32_FMA if not causal else None)
        target(f"{what}, {'causal' if causal else 'full'}", cells)

    for causal in (False, True):
        forward = lambda c: [get(c, "f32", d, big, causal, 0, 0) for d in (64, 128)]
        in_f32("f32, D 64 and 128", causal, lambda c: [] if any("error" in r for r in forward(c)) else forward(c))
    for part, name in (("dkdv", "dk and dv"), ("dq", "dq")):
        for dim in (64, 128):
            for dtype in ("bf16", "f16"):
                for causal in (False, True):
                    cells = {}
                    for chip in chips:
                        parts = gradients[chip, dtype, dim, big, causal, 0].get("parts", {})
                        if not parts:
                            cells[chip] = ("scalar", False)
                            continue
                        # two kernels one after the other: the matrix cycles of both over those of their busiest units
                        of = [r for key, r in parts.items() if (key == "dq") == (part == "dq")]
                        busy = sum(r["cycles_per_wave"]["matrix"] for r in of) / sum(r["cycles_per_wave"]["matrix"] / r["matrix_busy_bound"] for r in of)
                        want = GRAD_BUSY[part][dim][chip] - (GRAD_DROP if causal else 0)
                        by_f32 = ", in f32" if "mfma32" in gradients[chip, dtype, dim, big, causal, 0]["row"] else ""
                        cells[chip] = (f"{busy:.3f} of {want:.2f}{by_f32}", busy >= want - 0.0005)
                    target(f"gradients, matrix_busy_bound, {dtype}, D {dim}, {name}, {'causal' if causal else 'full'}", cells)
    for causal in (False, True):
        in_f32("gradients, f32, D 64 and 128, S 512", causal,
               lambda c: [r for dim in (64, 128) for r in gradients[c, "f32", dim, 512, causal, 0].get("parts", {}).values()])
    cells = {}
    for chip in chips:
        of = [(r["scratch"], r["vgpr_spills"]) for job, g in gradients.items() if job[0] == chip for r in g.get("parts", {}).values()]
        most = tuple(map(max, zip(*of))) if of else ("-", "-")
        cells[chip] = ("%s, %s" % most, most == (0, 0))
    target("gradients, scratch bytes, VGPR spills: the most of any kernel on tiles", cells)

    for (dtype, page), want in DECODE.items():
        of = {c: decoded[c, dtype, page] for c in chips}
        target(f"decode, {DECODE_KEYS} keys of D {DECODE_DIM}, 4 heads on one, {dtype}, {f'pages of {page}' if page else 'contiguous'}: bytes asked over the cache's, at most {want}",
               {c: ("fails", False) if "error" in r else (f"{r['share']:.3f}", r["share"] <= want + 0.0005) for c, r in of.items()})

    def spills(names, jobs_of, what, everywhere):
        cells = {}
        for c in chips:
            rs = [r for job, r in results.items() if job[0] == c and "error" not in r and jobs_of(job, r)]
            most = [max((r[name] for r in rs), default=-1) for name in names]
            where = sorted({r["row"] for r in rs if any(r[name] for name in names)})
            cells[c] = (", ".join(map(str, most)) + (f" ({' '.join(where)})" if where else ""), not any(most) if everywhere or c in CDNA else None)
        target(what, cells)

    narrow = lambda job, r: job[2] <= 128 or "scalar" in r["row"]
    plain_256 = lambda job, r: job[2] == 256 and not job[5] and not job[6]
    spills(("scratch", "vgpr_spills"), narrow, "scratch bytes, VGPR spills: the most of any kernel up to head_dim 128, and of the scalar ones for any", True)
    spills(("sgpr_spills",), narrow, "SGPR spills (to lanes of a VGPR), the same", True)
    spills(("scratch", "vgpr_spills"), plain_256, "scratch bytes, VGPR spills, plain kernels of D 256", False)
    early = {c: hip_exec.places(c, ROOT / built(c) / "attn_hip.o")[1] for c in chips}
    target("registers written before their lanes are on (hip_exec.py), in any kernel", {c: (str(len(lines)), not lines) for c, lines in early.items()})

    waits, of_waits = waits_section(chips)
    failed += of_waits
    text = [f"# attn_hip.c in the simulator\n\nWritten by `make hip-report` on {datetime.date.today()}, attn_hip.c of commit {written_of()}.\n"
            "No GPU was used: the kernels were compiled by clang 19 for each chip and their machine code run by test/hipsim, which counts\n"
            "instructions and the cycles of every unit but knows no latency, cache or clock. One call each: batch 1, one head, q_len = kv_len = S,\n"
            "device pointers, dense [tokens][dim]. busy: matrix_busy_bound, matrix cycles over those of the busiest unit.\n",
            f"## Targets\n\nS {big} unless said otherwise.\n\n" + table([["what", *chips], *lines])]
    if failed:
        text.append("Not met:\n\n" + "".join(f"- {f}\n" for f in failed))
    head = ["chip", "type", "D", "mask", "kernel", "VGPR", "AGPR", "SGPR", "LDS KiB", "scratch", "spills", "waves/SIMD", "occupancy", "limited by",
            "LDS conflicts", "LDS / matrix", "bytes, once", "bytes, per tile", "busy", "FMA peak", "useful", "in the way"]

    def row(job, r):
        chip, dtype, dim, seq, causal, extras, gap = job
        mask = ("causal" if causal else "full") + (", every mask" if extras else "") + (", odd strides" if gap else "")
        if "error" in r:
            return [chip, dtype, dim, mask, "fails: " + r["error"].replace("\n", " ")[:80], *[""] * (len(head) - 5)]
        return [chip, dtype, dim, mask, r["row"], r["vgprs"], r["agprs"], r["sgprs"], number(r["lds"] / 1024, 1), r["scratch"],
                f"{r['vgpr_spills']} + {r['sgpr_spills']}", r["waves_per_simd"], f"{r['occupancy']:.0%}", r["limit"], number(r["conflicts"], 3),
                number(r["lds_share"]), number(r["bytes"]), number(r["bytes_tile"], 3), number(r["matrix_busy_bound"], 3) if r["matrix_flops"] else "-",
                number(r["fma"], 3) if not r["matrix_flops"] else "-", number(r["useful"], 3), r["bound_by"]]

    order = lambda job: (chips.index(job[0]), job[1], job[2], job[3], job[4], job[5], job[6])
    plain = [job for job in sorted(results, key=order) if job[3] == big and not job[5] and not job[6]]
    text.append(f"## Plain kernels, S {big}\n\nbytes, once: bytes asked of global memory over those of q, k, v, o and lse once; per tile: over q, o and lse once and\n"
                "the k and v that each query tile sees once. useful: FLOPs of visible pairs over matrix FLOPs executed. FMA peak: the same FLOPs over\n"
                "those of one FMA an issue cycle. In the way: the busiest unit.\n\n" + table([head, *[row(job, results[job]) for job in plain]]))
    cycles = [["chip", "type", "D", "mask", "matrix", "vector", "transcendental", "LDS", "memory"]]
    for job in plain:
        r = results[job]
        if "error" not in r:
            c = r["cycles_per_wave"]
            cycles.append([*job[:3], "causal" if job[4] else "full", *[f"{c[u]:.0f}" for u in ("matrix", "valu", "trans", "lds", "vmem")]])
    text.append("Cycles of a SIMD per wave, by unit; units that SIMDs share count as many times:\n\n" + table(cycles))
    rest = [job for job in sorted(results, key=order) if not (job[3] == big and not job[5] and not job[6]) and job[3] != middle]
    text.append("## The other rows of the table\n\nS 256 (D 256 plain: 512): wide heads, every mask at once (softcap, bias, boolean, ALiBi, dropout, sink), odd strides.\n\n" +
                table([head, *[row(job, results[job]) for job in rest]]))
    head = ["chip", "type", "D", "mask", "kernel", "gradients", "VGPR", "AGPR", "LDS KiB", "scratch", "spills", "waves/SIMD", "LDS conflicts", "LDS / matrix", "busy", "FMA peak", "in the way"]
    rows = []
    for job, g in gradients.items():
        chip, dtype, dim, seq, causal, extras = job
        mask = ("causal" if causal else "full") + (", every mask" if extras else "") + ("" if seq == big else f", S {seq}")
        if not g.get("parts"):
            rows.append([chip, dtype, dim, mask, g.get("row", "fails"), *["-"] * (len(head) - 5)])
        for part, r in g.get("parts", {}).items():
            c = r["cycles_per_wave"]
            rows.append([chip, dtype, dim, mask, g["row"], part, r["vgprs"], r["agprs"], number(r["lds"] / 1024, 1), r["scratch"],
                          f"{r['vgpr_spills']} + {r['sgpr_spills']}", r["waves_per_simd"],
                          number(r["lds_cycles"] / r["lds_ideal_cycles"] if r["lds_ideal_cycles"] else None, 3), number(c["lds"] / c["matrix"] if c["matrix"] else None),
                          number(r["matrix_busy_bound"], 3) if c["matrix"] else "-", number(r["fma"], 3) if not c["matrix"] else "-", r["bound_by"]])
    text.append(f"## Gradients on tiles, S {big}\n\nA line for each kernel of a backward call; preparation and gradients of a bias are not among them.\n\n" + table([head, *rows]))
    rows = []
    for (chip, dtype, page), d in decoded.items():
        r = d.get("kernel")
        rows.append([chip, dtype, page or "contiguous", *([d["row"], number(d["share"], 3), number(d["all"], 3), r["vgprs"], r["vgpr_spills"], number(r["lds"] / 1024, 1), r["waves_per_simd"],
                                                           r["bound_by"]] if r else ["fails", *["-"] * 7])])
    text.append(f"## Decode, {DECODE_KEYS} keys of D {DECODE_DIM}, 4 heads on one\n\nBytes that the kernel which reads the cache asks of global memory over those of the cache, scales included; and those of "
                "the whole call.\n\n" + table([["chip", "cache", "pages", "kernel", "bytes", "of the call", "VGPR", "spills", "LDS KiB", "waves/SIMD", "in the way"], *rows]))
    text.append(waits)
    text.append("## Every kernel compiled\n\nFrom the metadata of the code objects; VGPR counts both files on CDNA; spills: of VGPRs + of SGPRs.\n")
    for chip in chips:
        text.append(f"### {chip}\n\n" + table([["kernel", "threads", "VGPR", "AGPR", "SGPR", "static LDS", "scratch", "spills"],
                    *[[f"`{k['name']}`", k["threads"], k["vgprs"], k["agprs"], k["sgprs"], k["lds"], k["scratch"], k["spills"]] for k in metadata[chip]]]))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n".join(text))
    print(f"{output}: {sum(len(m) for m in metadata.values())} kernels, {len(lines) * len(chips)} targets and figures, {len(failed)} not met")
    for f in failed:
        print("not met:", f)
    for w in wrong:
        print("FAIL", w)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
