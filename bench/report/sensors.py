"""Clock and power of the machine, where they can be read without special rights."""

import glob
import re
import shutil
import subprocess
import time


def first_number(path):
    try:
        with open(path, encoding="ascii") as file:
            return float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def nvidia():
    if not shutil.which("nvidia-smi"):
        return {}
    query = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits"]
    try:
        lines = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout.splitlines()
        clock, power = (float(cell) for cell in lines[0].split(","))
        return {"clock_mhz": clock, "power_watts": power}
    except (subprocess.SubprocessError, OSError, ValueError, IndexError):
        return {}


def drm():
    """GPUs of Intel and AMD that the kernel's drivers show."""
    found = {}
    for path in glob.glob("/sys/class/drm/card*/gt_act_freq_mhz") + glob.glob("/sys/class/drm/card*/gt/gt0/rps_act_freq_mhz"):
        clock = first_number(path)
        if clock:
            found["clock_mhz"] = clock
    for path in glob.glob("/sys/class/drm/card*/device/hwmon/hwmon*/freq1_input"):
        clock = first_number(path)
        if clock:
            found["clock_mhz"] = clock * 1e-6
    for path in glob.glob("/sys/class/drm/card*/device/hwmon/hwmon*/power1_average"):
        power = first_number(path)
        if power:
            found["power_watts"] = power * 1e-6
    return found


def cpu():
    found = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            clocks = [float(value) for value in re.findall(r"^cpu MHz\s*: ([\d.]+)", file.read(), re.MULTILINE)]
        if clocks:
            found["clock_mhz"] = max(clocks)
    except OSError:
        pass
    energy = "/sys/class/powercap/intel-rapl:0/energy_uj"
    begin, start = first_number(energy), time.monotonic()
    if begin is not None:
        time.sleep(0.1)
        end = first_number(energy)
        if end is not None and end > begin:
            found["power_watts"] = (end - begin) * 1e-6 / (time.monotonic() - start)
    return found


def read(is_cpu):
    """{"clock_mhz": ..., "power_watts": ...}, each only if it can be read."""
    return cpu() if is_cpu else nvidia() or drm()


def cpu_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            name = re.search(r"^model name\s*: (.+)$", file.read(), re.MULTILINE)
            return name.group(1) if name else "unknown"
    except OSError:
        return "unknown"
