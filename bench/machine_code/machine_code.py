#!/usr/bin/env python3
"""Compiles every kernel that the library would launch on a GPU to machine code, without a GPU, and says what it needs."""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import amd
import executed
import intel
import nvidia
import packages
import spirv_tools
from figures import Figures, short_name

HERE = os.path.dirname(os.path.abspath(__file__))
VENDORS = (intel, nvidia, amd)
TARGETS = {target: vendor for vendor in VENDORS for target in vendor.TARGETS}
EXECUTED = ("sm_80", "sm_90")

DESCRIPTION = """Lists every kernel that the library would launch on a GPU (a dry run, nothing executes), compiles each with the compiler
of the vendor, and prints registers, spills and instructions. Compilers come from Debian's packages, unpacked into the cache folder.

With --execute, functions of the library run on a GPU that is not there: their kernels' PTX is executed on the host, and counted."""
EPILOG = """columns:
  registers     that the kernel uses; lanes: work-items of a sub-group
  spilled       registers that did not fit and live in memory; 0 is what a kernel should have
  instructions  of the whole kernel
  occupancy     share of the most sub-groups per core that the registers leave room for
  products      share of multiply-adds among the instructions of the hottest loop
  cycles        of that loop per multiply-add, by the model of llvm-mca (AMD): data is always in the nearest memory

columns of --execute, for all launches of a kernel:
  instructions  of warps
  fma ... branch  shares of these. float: other arithmetic of floats; move: also conversions of addresses and parameters of calls, mostly
                free on a device; local: arrays and spilled registers in memory; sync: barriers, shuffles and votes
  lanes         that took part in an instruction, of 32
  conflicts     share of the cycles of shared memory that conflicts of banks add
  bytes         of global memory in sectors of 32, as if there was no cache

exit codes: 0 all kernels compile and none spills, but for those that exceptions.json excuses; 1 otherwise; 2 wrong arguments

examples:
  ./run machine-code
  ./run machine-code --target dg2 --operation attention
  ./run machine-code --target pvc --json pvc.json
  ./run machine-code --execute sm_80
  ./run machine-code --execute sm_80 --kernel attention --json attention.json"""


class Exceptions:
    """Kernels that may spill or fail, each with the reason: exceptions.json."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.entries = json.load(file)

    def reason(self, target, kernel):
        for entry in self.entries:
            if re.fullmatch(entry["target"], target) and re.search(entry["kernel"], kernel):
                return entry["reason"]
        return None


def kernel_images(program, folder, operation, compiler, per_module=0):
    """The index of what the program writes into the folder: SPIR-V, or the PTX of the compiler's processor."""
    command = [program, folder, "--smallest-sub-group", str(compiler.smallest_sub_group)]
    command += ["--ptx", compiler.ptx] if compiler.ptx else []
    command += ["--matrix-engine", compiler.matrix_engine] if compiler.matrix_engine else []
    command += ["--operation", operation] if operation else []
    command += ["--module-kernels", str(per_module)] if per_module else []
    done = subprocess.run(command, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
        return json.load(file)


def compile_module(compiler, program, folder, file, kernels):
    """[(kernel, Figures)] of one module. If the compiler fails on the module, each kernel is tried alone."""
    found = compiler.compile(os.path.join(folder, file), [kernel["entry"] for kernel in kernels])
    if found is not None:
        return [(kernel, found[kernel["entry"]]) for kernel in kernels]
    results = []
    for kernel in kernels:
        with tempfile.TemporaryDirectory() as alone:
            index = kernel_images(program, alone, kernel["kernel"], compiler, per_module=1)
            single = next(entry for entry in index if entry["kernel"] == kernel["kernel"])
            figures = compiler.compile(os.path.join(alone, single["file"]), [single["entry"]])[single["entry"]]
            results.append((kernel, figures))
    return results


def wrong_modules(folder, index):
    """The modules of SPIR-V that are not valid, with what spirv-val says."""
    try:
        validator = spirv_tools.validator()
    except packages.Unavailable as failure:
        print(f"machine-code: SPIR-V is not validated: {failure}", file=sys.stderr)
        return {}
    files = {kernel["file"] for kernel in index if kernel["file"].endswith(".spv")}
    found = {file: spirv_tools.error_of(validator, os.path.join(folder, file)) for file in files}
    return {file: error for file, error in found.items() if error}


def measure(compiler, program, operation):
    with tempfile.TemporaryDirectory() as folder:
        index = kernel_images(program, folder, operation, compiler)
        modules = {}
        results = [(kernel, Figures(error=kernel["error"].strip().splitlines()[-1])) for kernel in index if kernel["error"]]
        wrong = {} if compiler.ptx else wrong_modules(folder, index)
        for kernel in index:
            if kernel["file"] in wrong:
                results.append((kernel, Figures(error=f"not valid: {wrong[kernel['file']].splitlines()[0]}")))
            elif not kernel["error"]:
                modules.setdefault(kernel["file"], []).append(kernel)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = [pool.submit(compile_module, compiler, program, folder, file, kernels) for file, kernels in modules.items()]
            for done, job in enumerate(concurrent.futures.as_completed(jobs), 1):
                results += job.result()
                if sys.stderr.isatty():
                    print(f"\rmachine code of {done} of {len(jobs)} modules", end="", file=sys.stderr)
        if sys.stderr.isatty():
            print(file=sys.stderr)
    return sorted(results, key=lambda result: result[0]["kernel"])


def cell(value, form="{}"):
    return "" if value is None else form.format(value)


def print_table(results):
    rows = [("kernel", "registers", "spilled", "lanes", "instructions", "occupancy", "products", "cycles")]
    for kernel, f in results:
        rows.append((short_name(kernel["kernel"]), cell(f.registers), "does not compile" if f.error else cell(f.spilled),
                     cell(f.lanes), cell(f.instructions), cell(f.occupancy, "{:.2f}"), cell(f.loop_products, "{:.2f}"),
                     cell(f.product_cycles, "{:.1f}")))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(widths[i]) if i == 0 else text.rjust(widths[i]) for i, text in enumerate(row)).rstrip())


def judge(results, target, exceptions):
    """Prints what is wrong and returns whether nothing is."""
    failures = 0
    for kernel, figures in results:
        if not (figures.error or figures.spills):
            continue
        what = f"does not compile: {figures.error}" if figures.error else f"spills {figures.spilled} registers"
        reason = exceptions.reason(target, kernel["kernel"])
        print(f"{'may' if reason else 'FAILED'}: {short_name(kernel['kernel'])} {what}" + (f" ({reason})" if reason else ""))
        failures += reason is None
    print(f"{target}: {len(results)} kernels, {failures} failures")
    return failures == 0


def as_json(results, target, compiler):
    return {"target": target, "compiler": compiler.version(),
            "kernels": [{**kernel, **vars(figures)} for kernel, figures in results]}


def execute(args):
    counted = executed.run(args.program, args.execute, args.kernel)
    executed.print_table(executed.table(counted), args.markdown)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(counted, file, indent=1)
    return 0


def main():
    parser = argparse.ArgumentParser(prog="./run machine-code", description=DESCRIPTION, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="pvc", choices=TARGETS, help="the GPU (default pvc)")
    parser.add_argument("--operation", default="", help="only kernels whose operation or name contains this")
    parser.add_argument("--execute", choices=EXECUTED, help="execute kernels that are compiled for this processor, and count")
    parser.add_argument("--kernel", default="", help="with --execute: only kernels and functions whose name contains this")
    parser.add_argument("--markdown", action="store_true", help="with --execute: the table as one for docs/")
    parser.add_argument("--json", metavar="FILE", help="also write all figures as JSON")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.execute:
        return execute(args)
    try:
        compiler = TARGETS[args.target].Compiler(args.target)
    except packages.Unavailable as failure:
        print(f"machine-code: {failure}", file=sys.stderr)
        return 1
    print(f"{args.target}: {TARGETS[args.target].MODEL} {TARGETS[args.target].TARGETS[args.target]}, {compiler.version()}")
    results = measure(compiler, args.program, args.operation)
    print_table(results)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(as_json(results, args.target, compiler), file, indent=1)
    return 0 if judge(results, args.target, Exceptions(os.path.join(HERE, "exceptions.json"))) else 1


if __name__ == "__main__":
    sys.exit(main())
