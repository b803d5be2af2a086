"""What to try next, for each thing that can be missing or wrong."""

GUIDE = "docs/devices.md"


def has_device(devices, vendor):
    return any(d["kind"] == "gpu" and vendor.lower() in (d["vendor"] + d["name"]).lower() for d in devices)


def intel(machine):
    files = {node: usable for node, usable in machine["device_files"].items() if "renderD" in node}
    if not files:
        return ("there is no /dev/dri/renderD*: the kernel driver (i915 or xe) has not taken the GPU. A newer Linux kernel, or in a "
                "container --device /dev/dri, is the next thing to try.")
    if not any(files.values()):
        return (f"{', '.join(files)} cannot be opened by this user: usermod -aG render $USER, then log in again.")
    if not machine["libraries"]["ze_loader"]:
        return ("the Level Zero loader (libze_loader.so.1) is missing. Install Intel's compute runtime: packages "
                "intel-level-zero-gpu (or libze-intel-gpu1) and libze1.")
    if not machine["libraries"]["ze_intel_gpu"]:
        return ("the Level Zero loader is here, but not Intel's driver (libze_intel_gpu.so.1): install intel-level-zero-gpu or "
                "libze-intel-gpu1.")
    return ("loader, driver and device files are here. SYCL_UR_TRACE=1 ./run devices shows why the runtime leaves the GPU out; a "
            "driver that is older than the runtime is the usual reason.")


def other_vendor(vendor, machine):
    adapter = "CUDA" if vendor == "NVIDIA" else "HIP"
    library = machine["libraries"]["cuda" if vendor == "NVIDIA" else "amdhip64"]
    if not library:
        return f"the {vendor} driver library ({'libcuda' if vendor == 'NVIDIA' else 'libamdhip64'}) is missing: install the driver first."
    return (f"oneAPI's wheels have no {adapter} adapter: build DPC++ with --{adapter.lower()} and put its clang++ on the PATH, or use the "
            f"preset adaptivecpp. {GUIDE} has the commands. If DPC++ is there: SYCL_UR_TRACE=1 ./run devices shows whether its adapter "
            "loads.")


def missing_devices(machine, devices):
    """One sentence for each GPU that the machine has and the runtime does not show."""
    found = []
    for vendor in sorted({gpu["vendor"] for gpu in machine["gpus"]}):
        if not has_device(devices, vendor):
            found.append(f"{vendor} GPU on the bus, but not among the SYCL devices: "
                         + (intel(machine) if vendor == "Intel" else other_vendor(vendor, machine)))
    selector = machine["environment"].get("ONEAPI_DEVICE_SELECTOR")
    if selector and found:
        found.append(f"ONEAPI_DEVICE_SELECTOR={selector} hides devices: unset it.")
    return found


def failed_operation(operation, error):
    """What to try when an operation of the check fails."""
    if "does not compile" in error:
        return ("the driver's compiler refuses a kernel. Empty the kernel cache (rm -r ~/.cache/libsycl_cache), update the driver, and "
                "send the file with the message.")
    if "local memory" in error:
        return "the device has less local memory than the kernel needs; please send the file."
    if "bad_alloc" in error or "memory" in error.lower():
        return "the device is out of memory: end other programs that use it."
    if "wrong result" in error:
        return (f"{operation} computes wrong numbers on this device. Run it on the CPU (--device cpu) to see whether the device is the "
                "reason, update the driver, and send the file.")
    if "crash" in error or "time" in error:
        return "the driver crashes or hangs here: dmesg may say why (a GPU reset). Update the driver, and send the file."
    return "please send the file."


def no_devices(message):
    if "libOpenCL" in message or "OCL_ICD" in message:
        return "the OpenCL loader finds no driver: unset OCL_ICD_FILENAMES and OCL_ICD_VENDORS, which the library sets itself."
    return "./run devices fails. Delete the folder of the wheels in ~/.cache/nullscope and run ./run build again."
