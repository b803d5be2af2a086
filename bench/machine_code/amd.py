"""AMD GPUs: SPIR-V -> LLVM IR (llvm-spirv 15) -> machine code (LLVM 19 and rocm-device-libs of Debian) -> cycles (llvm-mca)."""

import glob
import os
import re
import tempfile

import llvm_tools
from figures import Figures, hottest_range
from spirv_to_llvm import math_library, Target

TARGETS = {"gfx90a": "MI200", "gfx942": "MI300", "gfx1100": "RX 7900"}
MODEL = "AMD"
LANES = {"gfx90a": 64, "gfx942": 64, "gfx1100": 32}
MOST_WAVES = {"gfx90a": 8, "gfx942": 8, "gfx1100": 16}
VERSION = {"gfx90a": 9010, "gfx942": 9402, "gfx1100": 11000}


def work_items_ir():
    """Numbers of work-item and group from registers; sizes from the packet that launches the kernel."""
    text = "declare ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()\n"
    for d, letter in enumerate("xyz"):
        for function, intrinsic in (("item_id", "workitem"), ("group_id", "workgroup")):
            text += (f"define i64 @{function}_{d}() alwaysinline {{\n  %x = call i32 @llvm.amdgcn.{intrinsic}.id.{letter}()\n"
                     f"  %r = zext i32 %x to i64\n  ret i64 %r\n}}\ndeclare i32 @llvm.amdgcn.{intrinsic}.id.{letter}()\n")
        text += (f"define i64 @group_size_{d}() alwaysinline {{\n  %p = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()\n"
                 f"  %q = getelementptr i8, ptr addrspace(4) %p, i64 {4 + 2 * d}\n  %x = load i16, ptr addrspace(4) %q, align 2\n"
                 "  %r = zext i16 %x to i64\n  ret i64 %r\n}\n"
                 f"define i64 @group_count_{d}() alwaysinline {{\n  %p = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()\n"
                 f"  %q = getelementptr i8, ptr addrspace(4) %p, i64 {12 + 4 * d}\n  %x = load i32, ptr addrspace(4) %q, align 4\n"
                 f"  %g = zext i32 %x to i64\n  %s = call i64 @group_size_{d}()\n  %r = udiv i64 %g, %s\n  ret i64 %r\n}}\n")
    return text + ("define void @wait_for_group() alwaysinline convergent {\n  fence syncscope(\"workgroup\") release\n"
                   "  call void @llvm.amdgcn.s.barrier()\n  fence syncscope(\"workgroup\") acquire\n  ret void\n}\n"
                   "declare void @llvm.amdgcn.s.barrier() convergent\n")


LIBRARY, DECLARATIONS = math_library(lambda name, kind: f"__ocml_{name}_{'f32' if kind == 'float' else 'f64'}")


def target_of(name):
    """With the constants by which the library chooses its code."""
    constants = {"__oclc_ISA_version": ("i32", VERSION[name]), "__oclc_wavefrontsize64": ("i8", int(LANES[name] == 64)),
                 "__oclc_finite_only_opt": ("i8", 0), "__oclc_unsafe_math_opt": ("i8", 0), "__oclc_daz_opt": ("i8", 0),
                 "__oclc_correctly_rounded_sqrt32": ("i8", 1), "__oclc_ABI_version": ("i32", 500)}
    text = "".join(f"@{key} = linkonce_odr hidden local_unnamed_addr addrspace(4) constant {kind} {value}\n"
                   for key, (kind, value) in constants.items())
    return Target("amdgcn-amd-amdhsa", {0: 5, 1: 1, 2: 1, 3: 3, 4: 0}, "amdgpu_kernel", work_items_ir() + text, LIBRARY, DECLARATIONS)


class Compiler:
    smallest_sub_group = 0
    ptx = ""
    matrix_engine = ""  # llvm-spirv 15 does not know its tiles

    def __init__(self, target):
        self.target = target
        self.tools = llvm_tools.Tools()
        folder = self.tools.path("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode")
        self.libraries = [path for path in sorted(glob.glob(os.path.join(folder, "*.bc")))
                          if os.path.basename(path) in ("ocml.bc", "ockl.bc")]

    def version(self):
        return "llvm-spirv 15, LLVM 19, rocm-device-libs (Debian)"

    def compile(self, module, entries):
        with tempfile.TemporaryDirectory() as folder:
            error, assembly = self.tools.assemble(module, target_of(self.target), self.target, self.libraries, folder, "s")
            if error:
                return None if len(entries) > 1 else {entries[0]: Figures(error=error)}
            with open(assembly, encoding="utf-8") as file:
                text = file.read()
            return {entry: self.with_cycles(f"__sycl_kernel_{entry}", text, folder) for entry in entries}

    def with_cycles(self, function, text, folder):
        """The figures, with the time that llvm-mca gives the hottest loop as if all data was in the nearest memory."""
        figures = figures_of(function, text, self.target)
        code, hottest = read_loop(function, text)
        if hottest is None:
            return figures
        products, begin, end = hottest
        loop, turns = os.path.join(folder, "loop.s"), 100
        with open(loop, "w", encoding="utf-8") as file:
            file.write("\n".join(code[begin:end]) + "\n")
        told = self.tools.output("llvm-mca", "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={self.target}", f"-iterations={turns}", loop)
        cycles = re.search(r"Total Cycles:\s+(\d+)", told)
        figures.product_cycles = int(cycles.group(1)) / turns / products if cycles else None
        return figures


def read_loop(function, text):
    """The instructions of a kernel, and its hottest loop; ([], None) if it is not there."""
    body = re.search(rf"^{function}:(.*?)^\.Lfunc_end", text, re.MULTILINE | re.DOTALL)
    instructions, labels = [], {}
    for line in body.group(1).splitlines() if body else ():
        code = line.split(";")[0].strip()
        if label := re.match(r"(\.LBB\w+):", code):
            labels[label.group(1)] = len(instructions)
        elif code and not code.startswith("."):
            instructions.append(code)
    jump = lambda code: (m := re.match(r"s_c?branch\S* (\.LBB\w+)", code)) and m.group(1)
    is_product = lambda code: re.match(r"v_(?:pk_)?(?:fmac?|mad|mfma|dual_fmac|wmma)\w*", code) is not None
    return instructions, hottest_range(instructions, labels, jump, is_product)


def figures_of(function, text, target):
    """From the assembly that llc writes, and the metadata at its end."""
    body = re.search(rf"^{function}:(.*?)^\.Lfunc_end", text, re.MULTILINE | re.DOTALL)
    notes = re.search(rf"  - (?:(?!\n  - ).)*?\.name:\s+{function}\n(?:(?!\n  - ).)*", text, re.DOTALL)
    if body is None or notes is None:
        return Figures(error="the kernel is not in the assembly")
    number = lambda key: int(m.group(1)) if (m := re.search(rf"\.{key}:\s+(\d+)", notes.group(0))) else 0
    waves = re.search(r"; Occupancy: (\d+)", text[body.end():])
    instructions, hottest = read_loop(function, text)
    return Figures(registers=number("vgpr_count") + number("agpr_count"), spilled=number("vgpr_spill_count"),
                   local_bytes=number("group_segment_fixed_size"), private_bytes=number("private_segment_fixed_size"),
                   instructions=len(instructions), lanes=LANES[target],
                   occupancy=int(waves.group(1)) / MOST_WAVES[target] if waves else None,
                   loop_products=hottest[0] / (hottest[2] - hottest[1]) if hottest else None)
