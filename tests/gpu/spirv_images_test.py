"""Every kernel that the library would launch on a GPU, as SPIR-V, is valid: spirv_images_test.py <kernel_images>. Exit code 77: spirv-val
is not installed."""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "machine_code"))
import spirv_tools

SKIPPED = 77


def main():
    program = spirv_tools.installed()
    if program is None:
        print("spirv-val is not installed: apt-get install spirv-tools")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder, "--matrix-engine", "xmx", "--module-kernels", "24"], check=True)
        with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
            index = json.load(file)
        modules = sorted({kernel["file"] for kernel in index if kernel["file"]})
        failures = [f"{kernel['kernel']} does not compile: {kernel['error']}" for kernel in index if kernel["error"]]
        for module in modules:
            error = spirv_tools.error_of(program, os.path.join(folder, module))
            failures += [f"{module}: {error}"] if error else []
        with open(os.path.join(folder, "damaged.spv"), "wb") as file:  # the tool can say no
            with open(os.path.join(folder, modules[0]), "rb") as good:
                file.write(good.read()[:-8])
        if not spirv_tools.error_of(program, os.path.join(folder, "damaged.spv")):
            failures.append("half a module is taken for a valid one")
    for failure in failures:
        print(failure)
    print(f"{len(modules)} modules of {len(index)} kernels, {len(failures)} failures")
    return 1 if failures or len(index) < 200 else 0


if __name__ == "__main__":
    sys.exit(main())
