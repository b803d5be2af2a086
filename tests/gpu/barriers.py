#!/usr/bin/env python3
"""Leaves out each barrier of each kernel in turn: the race checker must notice, or the barrier is of no use.

    barriers.py PROGRAM [--only TEXT] [--table FILE]

PROGRAM is race_test. A barrier is left out by its line, when it runs, so that nothing is compiled again. The exit code is 1 if
the checker stays silent for a barrier, or if no case reaches it.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BARRIER = re.compile(r"\b(?:group_)?barrier(?:<[^;]*>)?\(")
DEFINITION = re.compile(r"^\s*(?:template.*|inline )?void barrier\(")
NOTHING, UNREACHED = "nothing", "no case reaches it"
MATRIX_ENGINES = "joint_matrix"  # files whose kernels need one, which the checker does not have


def barriers():
    """The lines with barriers, "kernels/linalg/row.hpp:33"."""
    for path in sorted(ROOT.glob("kernels/**/*.hpp")):
        if MATRIX_ENGINES in path.name:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = line.split("//")[0]
            if BARRIER.search(code) and not DEFINITION.search(code):
                yield f"{path.relative_to(ROOT)}:{number}"


def run(program, cases, **variables):
    """The output, or None if it takes too long: without a barrier a kernel may never end."""
    command = [program, "--gtest_fail_fast", "--gtest_filter=" + ":".join("*/" + case for case in cases)]
    try:
        result = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired:
        return None
    return "" if result.returncode == 0 else result.stdout or "it ends with an error"


def cases_by_line(program):
    """The cases that pass each barrier, the quick ones first."""
    with tempfile.NamedTemporaryFile("r") as lines:
        result = subprocess.run([program], env={**os.environ, "NULLSCOPE_RACE_LINES": lines.name}, capture_output=True,
                                text=True, check=False)
        if result.returncode != 0:
            sys.exit(result.stdout[-2000:] + "\nbarriers.py: with all barriers, the test must pass")
        times = {name: int(time) for name, time in re.findall(r"OK \] \S*/(\w+) .*?\((\d+) ms\)", result.stdout)}
        found = collections.defaultdict(set)
        for line in lines:
            test, place = line.rstrip("\n").split("\t")
            found[place].add(test.rsplit("/", 1)[-1])
    return {place: sorted(cases, key=lambda case: times.get(case, 0)) for place, cases in found.items()}


def report(output):
    """What the checker says first."""
    if output is None:
        return "does not end"
    fault = re.search(r"^nullscope::kernels::(\w+).*?: (.*)$", output, re.MULTILINE)
    if fault is None:
        return "wrong numbers"
    text = fault.group(2)
    kinds = {"do not meet": "barriers that not all reach", "that its work-group has not written": "local memory unwritten"}
    kind = next((name for part, name in kinds.items() if part in text), None)
    memory = "local" if "local memory" in text else "global"
    return f"{kind or 'race in ' + memory + ' memory'} in `{fault.group(1)}`"


def outcome(program, barrier, cases):
    """What happens without the barrier."""
    if not cases:
        return UNREACHED
    for some in (cases[:3], cases[3:]):  # the quick ones find nearly all
        if not some:
            continue
        output = run(program, some, NULLSCOPE_RACE_WITHOUT=barrier)
        if output != "":
            return report(output)
    return NOTHING


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--only", default="", help="barriers whose line contains this")
    parser.add_argument("--table", help="a file for the list, as a Markdown table")
    arguments = parser.parse_args()
    cases = cases_by_line(arguments.program)
    chosen = [barrier for barrier in barriers() if arguments.only in barrier]
    rows, silent = [], 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        found_without = threads.map(lambda barrier: outcome(arguments.program, barrier, cases.get(barrier)), chosen)
        for barrier, found in zip(chosen, found_without):
            silent += found in (NOTHING, UNREACHED)
            print(barrier, "|", found, flush=True)
            rows.append(f"| `{barrier.removeprefix('kernels/')}` | {found} |")
    if arguments.table:
        pathlib.Path(arguments.table).write_text("| barrier | without it |\n| --- | --- |\n" + "\n".join(rows) + "\n")
    print(f"{len(rows)} barriers, {silent} that nothing shows to be needed")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
