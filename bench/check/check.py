#!/usr/bin/env python3
"""The first minutes on a new device: what was found, whether every operation is right, how fast a few of them are. Writes one file
to attach to a bug report."""

import argparse
import datetime
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "report")]
import advice
import machine
import page
import suite
from charts import number
from samples import median

# A minute of benchmarks: what launching costs, what the device can reach, and the operations that most of the time goes into.
BENCHMARKS = "^(launch|copy|gemm|attention|softmax|svd)[^/]*/[^/]*/(sycl|runtime)/"


def devices_of(nullscope, device):
    command = [nullscope, "devices", "--json"] + (["--device", device] if device else [])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [], done.stderr.strip()
    return json.loads(done.stdout), ""


def show_devices(found, devices, missing):
    print(f"{found['system']}, Linux {found['kernel']}, {found['cpu']} ({found['threads']} threads)")
    for d in devices:
        engines = ", ".join(d["bf16_tiles"]) or "none"
        print(f"  {d['index']}  {d['name']} ({d['kind']}): {d['backend']} {d['driver']}, {d['global_memory_bytes'] / 2**30:.1f} GiB, "
              f"fp64 {'yes' if d['fp64'] else 'no'}, fp16 {'yes' if d['fp16'] else 'no'}, matrix engine {engines}, "
              f"sub-groups {', '.join(map(str, d['sub_group_sizes']))}")
    for sentence in missing:
        print(f"  ! {sentence}")


def run_operations(program, device, limit):
    """The lines of device_check; an operation that crashes or does not end is among them."""
    lines, running = [], None
    process = subprocess.Popen([program, device], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + limit
    try:
        for text in process.stdout:
            line = json.loads(text)
            if "begins" in line:
                running = line
            elif "operation" in line:
                running = None
                lines.append(line)
                show_operation(line)
            if time.monotonic() > end:
                break
        process.wait(timeout=max(1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        pass
    error = ""
    if process.poll() is None:
        process.kill()
        error = f"not done in time ({limit} s)"
    elif process.returncode not in (0, 1):
        error = f"crash, exit code {process.returncode}"
    message = process.stderr.read().strip()
    if running is not None or (error and not lines):
        line = {"operation": running["begins"] if running else "start", "type": running["type"] if running else "",
                "error": error or message or "ended without a result"}
        lines.append(line)
        show_operation(line)
    elif message and process.returncode != 0:
        lines.append({"operation": "start", "type": "", "error": message})
        show_operation(lines[-1])
    return lines


def show_operation(line):
    name = f"{line['operation']} {line['type']}".strip()
    if not line["error"]:
        print(f"  ok      {name:<40} residual {number(line['residual'])}, {line['seconds']:.2f} s")
        return
    print(f"  FAILED  {name}: {line['error']}\n          {advice.failed_operation(line['operation'], line['error'])}")


def run_benchmarks(args):
    settings = argparse.Namespace(programs=os.path.join(args.build, "bench"), quick=True, filter=BENCHMARKS, repetitions=3)
    found = suite.measure(settings, args.device, budget=args.benchmark_seconds)
    for r in page.measured(found):
        rate = f"{number(median(r['gflops']))} GFLOP/s" if r["gflops"] else (
            f"{number(median(r['gigabytes_per_second']))} GB/s" if r["gigabytes_per_second"] else "")
        share = f", {median(r['roofline']):.2f} of the roofline" if r["roofline"] else ""
        print(f"  {r['name']:<52} {number(median(r['seconds']) * 1e3):>8} ms  {rate}{share}")
    for failure in page.failures(found):
        print(f"  FAILED  {failure}")
    return found


def main():
    parser = argparse.ArgumentParser(prog="./run check", description=__doc__, epilog="exit codes: 0 all is well; 1 something failed, "
                                     "and the output says what to try; 2 wrong arguments\n\nexamples:\n  ./run check\n"
                                     "  ./run check --device gpu:1 --output arc.json",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="", help="as ./run devices names it (default: a GPU if there is one)")
    parser.add_argument("--output", default="nullscope-check.json", help="the file to write (default nullscope-check.json)")
    parser.add_argument("--seconds", type=float, default=300, help="for all operations together (default 300)")
    parser.add_argument("--benchmark-seconds", type=float, default=60, help="for the benchmarks (default 60; 0: none)")
    parser.add_argument("--build", required=True, help=argparse.SUPPRESS)
    args = parser.parse_args()

    found = machine.facts()
    devices, error = devices_of(os.path.join(args.build, "lib/cli/nullscope"), "")
    missing = advice.missing_devices(found, devices)
    document = {"schema": "nullscope-check", "version": 1, "machine": found, "devices": devices, "advice": missing,
                "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "device": args.device}
    print("Found:")
    show_devices(found, devices, missing)
    if error:
        print(f"FAILED  {error}\n        {advice.no_devices(error)}")
        document["error"] = error
    else:
        print("\nEach operation once, against double precision on the host:")
        document["operations"] = run_operations(os.path.join(args.build, "bench/device_check"), args.device, args.seconds)
        if args.benchmark_seconds > 0:
            print("\nBenchmarks:")
            document["benchmarks"] = run_benchmarks(args)
    failures = [line for line in document.get("operations", []) if line["error"]]
    failed = bool(error or failures or page.failures(document.get("benchmarks", {"results": []})))
    try:
        with open(args.output, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.write("\n")
    except OSError as failure:
        print(f"check: {args.output}: {failure.strerror}", file=sys.stderr)
        return 1
    print(f"\n{len(document.get('operations', [])) - len(failures)} operations right, {len(failures)} wrong. "
          f"Attach {args.output} to a bug report.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
