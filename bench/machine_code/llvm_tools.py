"""llvm-spirv 15 and LLVM 19 of Debian: from SPIR-V to a target's assembly."""

import os
import subprocess

import packages
from spirv_to_llvm import for_target

PACKAGES = ["llvm-spirv-15", "llvm-19", "rocm-device-libs"]


class Tools:
    def __init__(self):
        self.folder = packages.unpacked("llvm-19", PACKAGES)
        self.environment = packages.environment(self.folder)

    def path(self, path):
        """A file of the packages, or the installed one."""
        inside = os.path.join(self.folder, path.lstrip("/"))
        return inside if os.path.exists(inside) else path

    def run(self, name, *arguments):
        """Runs a program; returns what it says if it fails, and nothing otherwise."""
        path = "/usr/bin/llvm-spirv-15" if name == "llvm-spirv" else f"/usr/lib/llvm-19/bin/{name}"
        done = subprocess.run([packages.program(self.folder, path), *arguments], env=self.environment, capture_output=True,
                              text=True, check=False, errors="replace")
        if done.returncode == 0:
            return ""
        lines = (done.stderr + done.stdout).strip().splitlines()
        told = next((line for line in lines if "error" in line.lower()), lines[0] if lines else f"ends with code {done.returncode}")
        return f"{name}: {told.strip()}"

    def output(self, name, *arguments):
        """What a program of LLVM prints, empty if it fails."""
        path = packages.program(self.folder, f"/usr/lib/llvm-19/bin/{name}")
        return subprocess.run([path, *arguments], env=self.environment, capture_output=True, text=True, check=False).stdout

    def assemble(self, module, target, processor, libraries, folder, ending):
        """(error, file) of a SPIR-V module as assembly for the processor."""
        place = lambda name: os.path.join(folder, name)
        error = self.run("llvm-spirv", "-r", module, "-o", place("a.bc")) or self.run("llvm-dis", place("a.bc"), "-o", place("a.ll"))
        if error:
            return error, ""
        with open(place("a.ll"), encoding="utf-8") as file:
            text, unknown = for_target(file.read(), target)
        if unknown:
            return f"no definition of {', '.join(unknown)}", ""
        with open(place("b.ll"), "w", encoding="utf-8") as file:
            file.write(text)
        linked, optimised, assembly = place("c.bc"), place("d.bc"), place(f"out.{ending}")
        processor_flags = [f"-mtriple={target.triple}", f"-mcpu={processor}"]
        error = (self.run("llvm-link", place("b.ll"), "--only-needed", *libraries, "-o", linked)
                 or self.run("opt", "-O3", *processor_flags, linked, "-o", optimised)
                 or self.run("llc", "-O3", *processor_flags, optimised, "-o", assembly))
        return error, assembly
