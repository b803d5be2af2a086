"""What kernels execute: counts of an interpreter that runs their PTX, as shares of all instructions."""

import json
import subprocess
import sys

from figures import short_name

# Columns of the table: which counted kinds each adds up.
GROUPS = {
    "fma": ("fma",),
    "mma": ("mma",),
    "float": ("floating", "special"),
    "integer": ("integer", "convert"),
    "move": ("move",),
    "global": ("load_global", "store_global", "copy_async", "atomic", "load_constant"),
    "shared": ("load_shared", "store_shared"),
    "local": ("load_local", "store_local"),
    "sync": ("shuffle", "barrier"),
    "branch": ("branch",),
}


def run(program, target, kernel):
    """What the program counted, as a dictionary."""
    command = [program, target] + (["--kernel", kernel] if kernel else [])
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return json.loads(done.stdout)


def table(counted):
    """Rows of text, the first of them the names of the columns."""
    rows = [["workload", "kernel", "instructions", *GROUPS, "lanes", "conflicts", "bytes"]]
    for k in counted["kernels"]:
        total = max(k["instructions"], 1)
        shares = [sum(k["executed"][kind] for kind in kinds) / total for kinds in GROUPS.values()]
        moved = k["global_bytes_read"] + k["global_bytes_written"]
        conflicts = k["shared_conflicts"] / k["shared_wavefronts"] if k["shared_wavefronts"] else 0
        rows.append([k["workload"], short_name(k["kernel"]), f"{k['instructions']:,}", *(f"{share:.2f}" if share else "" for share in shares),
                     f"{k['active_lanes']:.1f}", f"{conflicts:.2f}" if conflicts else "", f"{moved:,}"])
    return rows


def print_table(rows, markdown):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    if markdown:
        rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    for row in rows:
        if markdown:
            print("| " + " | ".join(row) + " |")
        else:
            print("  ".join(text.ljust(widths[i]) if i < 2 else text.rjust(widths[i]) for i, text in enumerate(row)).rstrip())
