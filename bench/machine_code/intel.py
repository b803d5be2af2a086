"""Intel GPUs: ocloc of Debian's intel-opencl-icd compiles SPIR-V and disassembles what it made."""

import glob
import os
import re
import subprocess
import tempfile

import packages
from figures import Figures, hottest_loop

TARGETS = {"pvc": "Data Center GPU Max", "dg2": "Arc A", "tgllp": "Iris Xe"}
SMALLEST_SUB_GROUP = {"pvc": 16}
MATRIX_ENGINES = {"pvc": "xmx", "dg2": "xmx-8"}
MODEL = "Intel"


class Compiler:
    ptx = ""

    def __init__(self, target):
        self.target = target
        self.folder = packages.unpacked("intel-opencl-icd", ["intel-opencl-icd"])
        self.ocloc = packages.program(self.folder, "/usr/bin/ocloc")
        self.environment = packages.environment(self.folder)
        self.smallest_sub_group = SMALLEST_SUB_GROUP.get(target, 8)
        self.matrix_engine = MATRIX_ENGINES.get(target, "")
        libraries = os.path.join(self.folder, "usr/lib/x86_64-linux-gnu")
        link = os.path.join(libraries, "libiga64.so")  # the name that ocloc opens to disassemble
        if not os.path.exists(link) and os.path.exists(link + ".1"):
            os.symlink("libiga64.so.1", link)

    def version(self):
        return "ocloc of intel-opencl-icd (Debian)"

    def run(self, *arguments):
        return subprocess.run([self.ocloc, *arguments], env=self.environment, capture_output=True, text=True, check=False,
                              errors="replace")

    def compile(self, module, entries):
        """{entry: Figures} of a SPIR-V module, or None if the compiler fails on it as a whole."""
        with tempfile.TemporaryDirectory() as folder:
            built = self.run("compile", "-spirv_input", "-file", module, "-device", self.target, "-out_dir", folder,
                             "-output", "out")
            log = built.stdout + built.stderr
            binaries = glob.glob(os.path.join(folder, "out*.bin"))
            if built.returncode != 0 or not binaries:
                if len(entries) > 1:
                    return None
                return {entries[0]: Figures(error=last_error(log, built.returncode))}
            self.run("disasm", "-file", binaries[0], "-device", self.target, "-dump", folder)
            found = {}
            for entry in entries:
                assembly = os.path.join(folder, f"__sycl_kernel_{entry}_KernelHeap.asm")
                if not os.path.exists(assembly):
                    found[entry] = Figures(error="the kernel is not in the module")
                    continue
                with open(assembly, encoding="utf-8", errors="replace") as file:
                    found[entry] = read_assembly(file.read())
                found[entry].spilled = spilled_in(log, entry)
            return found


def last_error(log, code):
    lines = [line for line in log.splitlines() if "error" in line.lower()]
    return lines[0].strip() if lines else f"ocloc ends with code {code}"


def spilled_in(log, entry):
    """Registers that the compiler says it spilled."""
    match = re.search(rf"kernel __sycl_kernel_{entry}\s.*spilled around (\d+)", log)
    return int(match.group(1)) if match else 0


def read_assembly(text):
    """Figures from the disassembly of IGA."""
    instructions, labels, width, highest = [], {}, 1, 0
    for line in text.splitlines():
        if label := re.match(r"(L\d+):", line):
            labels[label.group(1)] = len(instructions)
            continue
        words = re.sub(r"^\(.*?\)\s*", "", line.strip())
        if not words or words.startswith("//"):
            continue
        instructions.append(words)
        if lanes := re.search(r"\((\d+)\|M(\d+)\)", words):
            if not line.startswith("(W"):
                width = max(width, int(lanes.group(1)) + int(lanes.group(2)))
        for register in re.findall(r"\br(\d+)\b", words):
            highest = max(highest, int(register))
    is_jump = re.compile(r"(?:jmpi|while|goto\S*|brd|brc)\b.*?\b(L\d+)")
    target_of = lambda words: (match := is_jump.match(words)) and match.group(1)
    is_product = lambda words: bool(re.match(r"(?:mad|dpas|mac)\S*\s", words) and re.search(r":(?:f|hf|df|bf)\b", words))
    registers = 256 if highest >= 128 else 128
    return Figures(registers=highest + 1, instructions=len(instructions), lanes=width if width in (8, 16, 32) else None,
                   occupancy=128 / registers, loop_products=hottest_loop(instructions, labels, target_of, is_product))
