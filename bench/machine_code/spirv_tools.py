"""spirv-val of Debian's spirv-tools: whether SPIR-V is what its specification says."""

import os
import shutil
import subprocess

import packages


def installed():
    """The path of spirv-val if it is on this machine, or None."""
    unpacked = os.path.join(packages.cache_folder(), "spirv-tools", "usr", "bin", "spirv-val")
    return unpacked if os.access(unpacked, os.X_OK) else shutil.which("spirv-val")


def validator():
    """The path of spirv-val, which is downloaded if it is not here."""
    return installed() or packages.program(packages.unpacked("spirv-tools", ["spirv-tools"]), "/usr/bin/spirv-val")


def error_of(program, module):
    """What is wrong with a module; empty if nothing is."""
    done = subprocess.run([program, module], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr + done.stdout).strip()
