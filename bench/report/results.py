"""The file of a benchmark run: its schema, reading and checking it. README.md in this folder documents the fields."""

import json

SCHEMA = "nullscope-benchmark"
VERSION = 1


class BadFile(Exception):
    """A file that is no benchmark run, or one of a version that this program does not know."""


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            run = json.load(file)
    except OSError as failure:
        raise BadFile(f"{path}: {failure.strerror}") from failure
    except ValueError as failure:
        raise BadFile(f"{path}: no JSON: {failure}") from failure
    if not isinstance(run, dict) or run.get("schema") != SCHEMA:
        raise BadFile(f"{path}: not a file that ./run bench --report wrote")
    if run.get("version") != VERSION:
        raise BadFile(f"{path}: version {run.get('version')} of the schema; this program reads version {VERSION}")
    for key in ("device", "results"):
        if key not in run:
            raise BadFile(f"{path}: {key} is missing")
    return run


def write(run, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(run, file, indent=1)
        file.write("\n")


STANDARD = {"GFLOP/s", "GB/s", "intensity", "roofline", "ceiling GFLOP/s", "ceiling GB/s"}


def parts_of(name):
    """"gemm/f32/sycl/n:1024/m:8" -> operation, type, path, sizes"""
    operation, kind, path, *sizes = name.split("/")
    return operation, kind, path, {key: int(value) for key, value in (size.split(":") for size in sizes)}


def results_of(document, program):
    """The results in a document of Google Benchmark: one per benchmark, with every repetition."""
    found = {}
    for run in document.get("benchmarks", []):
        if run.get("run_type") == "aggregate":
            continue
        name = run["run_name"]
        operation, kind, path, sizes = parts_of(name)
        result = found.setdefault(name, {
            "name": name, "program": program, "operation": operation, "type": kind, "path": path, "sizes": sizes,
            "seconds": [], "gflops": [], "gigabytes_per_second": [], "intensity": None, "roofline": [],
            "ceiling_gflops": [], "ceiling_gigabytes_per_second": [], "residuals": {}, "failure": None})
        if run.get("error_occurred"):
            result["failure"] = run.get("error_message", "failed")
            continue
        unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[run["time_unit"]]
        result["seconds"].append(run["real_time"] * unit)
        for key, counter in (("gflops", "GFLOP/s"), ("gigabytes_per_second", "GB/s"), ("roofline", "roofline"),
                             ("ceiling_gflops", "ceiling GFLOP/s"), ("ceiling_gigabytes_per_second", "ceiling GB/s")):
            if counter in run:
                result[key].append(run[counter])
        result["intensity"] = run.get("intensity", result["intensity"])
        for key, value in run.items():
            if key not in STANDARD and isinstance(value, float) and key not in ("real_time", "cpu_time"):
                result["residuals"][key] = value
    return list(found.values())


def comparison_of(result):
    """Results with the same comparison compute the same thing: the name without the path."""
    sizes = "".join(f"/{key}:{value}" for key, value in result["sizes"].items())
    return f"{result['operation']}/{result['type']}{sizes}"
