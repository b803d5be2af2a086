"""Compilers from Debian's packages, unpacked into the user's cache folder and never installed: an installed GPU driver would
change which devices the SYCL runtime finds, and breaks the address sanitizer."""

import os
import shutil
import subprocess
import sys


class Unavailable(Exception):
    """A compiler that cannot be had here; the message says what to do."""


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "nullscope", "compilers")


def missing_packages(packages):
    """The packages and those that they need, without what is installed."""
    found = subprocess.run(["apt-get", "--simulate", "--no-install-recommends", "install", *packages],
                           capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise Unavailable(f"apt-get does not know {' '.join(packages)}: {found.stderr.strip()}")
    return [line.split()[1] for line in found.stdout.splitlines() if line.startswith("Inst ")]


def unpacked(name, packages):
    """The folder that these packages are unpacked in, as if it were /. Downloads them the first time. A package that is
    installed is not unpacked: its files are found in the system's folders."""
    folder = os.path.join(cache_folder(), name)
    if os.path.isdir(folder):
        return folder
    for tool in ("apt-get", "dpkg"):
        if not shutil.which(tool):
            raise Unavailable(f"{tool} is not here; this needs Debian 12 or a system like it")
    wanted = missing_packages(packages)
    print(f"Downloading {' '.join(wanted)} into {folder}", file=sys.stderr)
    unfinished = folder + ".unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    os.makedirs(unfinished)
    if wanted:
        subprocess.run(["apt-get", "-qq", "download", *wanted], cwd=unfinished, check=True,
                       stderr=subprocess.DEVNULL if not sys.stderr.isatty() else None)
    for archive in sorted(os.listdir(unfinished)):
        subprocess.run(["dpkg", "-x", archive, "."], cwd=unfinished, check=True)
        os.remove(os.path.join(unfinished, archive))
    os.replace(unfinished, folder)
    return folder


def program(folder, path):
    """The program at this path of the packages, or the installed one."""
    for candidate in (os.path.join(folder, path.lstrip("/")), path):
        if os.access(candidate, os.X_OK):
            return candidate
    raise Unavailable(f"{path} is in none of the packages")


def environment(folder):
    """For programs of the folder: their libraries are in it."""
    libraries = os.path.join(folder, "usr/lib/x86_64-linux-gnu")
    llvm = [os.path.join(folder, "usr/lib", name, "lib") for name in sorted(os.listdir(os.path.join(folder, "usr/lib")))
            if name.startswith("llvm-")]
    known = os.environ.get("LD_LIBRARY_PATH")
    return {**os.environ, "LD_LIBRARY_PATH": ":".join([libraries, *llvm] + ([known] if known else []))}
