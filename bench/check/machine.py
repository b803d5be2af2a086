"""What a machine has that a GPU needs: devices on the bus, device files, libraries, drivers. Nothing here needs SYCL."""

import ctypes.util
import glob
import os
import platform
import re
import shutil
import subprocess

VENDORS = {"0x8086": "Intel", "0x10de": "NVIDIA", "0x1002": "AMD"}
VARIABLES = ("ONEAPI_DEVICE_SELECTOR", "OCL_ICD_FILENAMES", "OCL_ICD_VENDORS", "SYCL_UR_TRACE", "ZE_AFFINITY_MASK",
             "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "SYCL_CACHE_PERSISTENT", "LD_LIBRARY_PATH")


def text_of(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def gpus_on_bus(root="/sys/bus/pci/devices"):
    """Display and compute controllers of the three vendors: [{"vendor": "Intel", "device": "0x0bd5", "driver": "i915"}]"""
    found = []
    for folder in sorted(glob.glob(os.path.join(root, "*"))):
        kind, vendor = text_of(os.path.join(folder, "class")), text_of(os.path.join(folder, "vendor"))
        if vendor in VENDORS and re.match(r"0x(03|12)", kind):
            driver = os.path.join(folder, "driver")
            found.append({"vendor": VENDORS[vendor], "device": text_of(os.path.join(folder, "device")),
                          "driver": os.path.basename(os.path.realpath(driver)) if os.path.exists(driver) else ""})
    return found


def tool(*command):
    """What a program prints, or "" if it is not there or fails."""
    if not shutil.which(command[0]):
        return ""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (subprocess.SubprocessError, OSError):
        return ""


def facts():
    nodes = glob.glob("/dev/dri/renderD*") + glob.glob("/dev/nvidia[0-9]*") + glob.glob("/dev/kfd")
    cpu = re.search(r"^model name\s*: (.+)$", text_of("/proc/cpuinfo"), re.MULTILINE)
    system = re.search(r'^PRETTY_NAME="(.+)"', text_of("/etc/os-release"), re.MULTILINE)
    return {
        "system": system.group(1) if system else platform.system(),
        "kernel": platform.release(),
        "cpu": cpu.group(1) if cpu else "unknown",
        "threads": os.cpu_count(),
        "gpus": gpus_on_bus(),
        "device_files": {node: os.access(node, os.R_OK | os.W_OK) for node in sorted(nodes)},
        "libraries": {name: ctypes.util.find_library(name) or "" for name in ("ze_loader", "ze_intel_gpu", "OpenCL", "cuda",
                                                                             "amdhip64")},
        "nvidia_smi": tool("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"),
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
    }
