"""NVIDIA GPUs: PTX of the run-time compiler -> ptxas of the CUDA tool kit."""

import os
import re
import shutil
import subprocess
import tempfile

import packages
from figures import Figures, hottest_loop

TARGETS = {"sm_80": "A100", "sm_90": "H100"}
MODEL = "NVIDIA"
REGISTERS, MOST_WARPS = 65536, 64


def cuda_folder():
    for folder in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if folder and os.path.exists(os.path.join(folder, "bin", "ptxas")):
            return folder
    found = shutil.which("ptxas")
    if found:
        return os.path.dirname(os.path.dirname(os.path.realpath(found)))
    raise packages.Unavailable("ptxas is not here: install NVIDIA's CUDA tool kit, or set CUDA_HOME")


class Compiler:
    smallest_sub_group = 0
    matrix_engine = "tensor-cores"

    def __init__(self, target):
        self.target = target
        self.ptx = target  # what the modules are
        self.cuda = cuda_folder()

    def version(self):
        text = subprocess.run([os.path.join(self.cuda, "bin", "ptxas"), "--version"], capture_output=True, text=True, check=False).stdout
        release = re.search(r"release ([\d.]+)", text)
        return f"PTX of oneAPI's run-time compiler, ptxas {release.group(1) if release else '?'}"

    def compile(self, module, entries):
        with tempfile.TemporaryDirectory() as folder:
            cubin = os.path.join(folder, "out.cubin")
            done = subprocess.run([os.path.join(self.cuda, "bin", "ptxas"), "-v", f"-arch={self.target}", module, "-o", cubin],
                                  capture_output=True, text=True, check=False)
            log = done.stdout + done.stderr
            if done.returncode != 0:
                return None if len(entries) > 1 else {entries[0]: Figures(error=log.strip().splitlines()[0])}
            return {entry: figures_of(f"__sycl_kernel_{entry}", log, self.listing(cubin)) for entry in entries}

    def listing(self, cubin):
        """The instructions, if the tool kit here has the program that shows them."""
        program = os.path.join(self.cuda, "bin", "cuobjdump")
        if not os.path.exists(program):
            return ""
        return subprocess.run([program, "-sass", cubin], capture_output=True, text=True, check=False).stdout


def figures_of(function, log, listing):
    """From what `ptxas -v` says and `cuobjdump -sass` shows."""
    part = re.search(rf"Function properties for {function}\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
                     r"(?:\n.*?)*?Used (\d+) registers([^\n]*)", log)
    if part is None:
        return Figures(error="ptxas does not mention the kernel")
    frame, stores, loads, registers = (int(part.group(i)) for i in range(1, 5))
    local = re.search(r"(\d+) bytes smem", part.group(5))
    instructions, labels = read_sass(listing, function)
    is_product = lambda text: re.match(r"[DFH](?:FMA|MMA)|HFMA2", text) is not None
    target_of = lambda text: (m := re.search(r"\bBRA\S*\s+(?:\S+, )?`?\(?(\.L_x_\d+|0x[0-9a-f]+)", text)) and m.group(1)
    warps = min(MOST_WARPS, REGISTERS // (32 * (-(-registers // 8) * 8)))
    return Figures(registers=registers, spilled=stores + loads, local_bytes=int(local.group(1)) if local else 0, private_bytes=frame,
                   instructions=len(instructions) or None, lanes=32, occupancy=warps / MOST_WARPS,
                   loop_products=hottest_loop(instructions, labels, target_of, is_product))


def read_sass(listing, function):
    """The instructions of one kernel, and the place of each address: jumps name addresses."""
    part = listing.split(f"Function : {function}\n")
    instructions, labels = [], {}
    for line in (part[1].split("Function :")[0] if len(part) > 1 else "").splitlines():
        found = re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.+?) ?;", line)
        if found:
            labels[hex(int(found.group(1), 16))] = len(instructions)
            instructions.append(re.sub(r"^@!?U?P\w+ ", "", found.group(2)))
    while instructions and instructions[-1].startswith("NOP"):
        instructions.pop()
    return instructions, labels
