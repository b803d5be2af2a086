"""The graph of includes between subjects: the folders of lib/include/nullscope, lib/src and kernels, taken together.

    include_graph.py <root of the project>

prints the graph as dot text. Fails if it has a cycle, naming the files that are responsible, or if `core` includes
another subject.
"""

import re
import sys
from pathlib import Path

TREES = ("lib/include/nullscope/", "lib/src/", "kernels/")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def subject_of(path):
    """"linalg" for kernels/linalg/svd/rank.hpp; None for files of no subject."""
    for tree in TREES:
        if path.startswith(tree) and "/" in path[len(tree):]:
            return path[len(tree):].split("/")[0]
    return None


def path_of(include):
    """Of a file of the project, from its root; None for other headers."""
    if include.startswith("nullscope/"):
        return "lib/include/" + include
    return include if include.startswith(TREES) else None


def read_graph(root):
    """{subject: {included subject: [(file, included file)]}}"""
    graph = {}
    for tree in TREES:
        for file in sorted(Path(root, tree).rglob("*.[ch]pp")):
            path = file.relative_to(root).as_posix()
            subject = subject_of(path)
            if subject is None:
                continue
            edges = graph.setdefault(subject, {})
            for include in INCLUDE.findall(file.read_text(encoding="utf-8")):
                target = subject_of(path_of(include) or "")
                if target not in (None, subject):
                    edges.setdefault(target, []).append((path, path_of(include)))
    return graph


def find_cycle(graph):
    """[a, b, ..., a], a the first by name; or None."""
    done, open_path = set(), []

    def visit(subject):
        if subject in open_path:
            ring = open_path[open_path.index(subject):]
            first = ring.index(min(ring))
            return ring[first:] + ring[:first] + [min(ring)]
        if subject in done:
            return None
        open_path.append(subject)
        for target in sorted(graph.get(subject, {})):
            cycle = visit(target)
            if cycle:
                return cycle
        open_path.pop()
        done.add(subject)
        return None

    for start in sorted(graph):
        cycle = visit(start)
        if cycle:
            return cycle
    return None


def describe(graph, a, b, most=5):
    includes = graph[a][b]
    lines = [f"  {a} -> {b}: {file} includes {included}" for file, included in includes[:most]]
    return lines + [f"  {a} -> {b}: and {len(includes) - most} more"] * (len(includes) > most)


def faults_of(graph):
    """Lines for people; none if all is well."""
    faults = []
    if graph.get("core"):
        faults.append("core must include no other subject:")
        for target in sorted(graph["core"]):
            faults += describe(graph, "core", target)
    cycle = find_cycle(graph)
    if cycle:
        faults.append("includes form a cycle: " + " -> ".join(cycle))
        for a, b in zip(cycle, cycle[1:]):
            faults += describe(graph, a, b)
    return faults


def dot_of(graph):
    lines = [f'  "{a}" -> "{b}" [label={len(graph[a][b])}];' for a in sorted(graph) for b in sorted(graph[a])]
    return "\n".join(["digraph includes {"] + lines + ["}"])


def main(root):
    graph = read_graph(root)
    if not graph:
        print(f"{root}: there are no subjects", file=sys.stderr)
        return 1
    print(dot_of(graph))
    faults = faults_of(graph)
    print("\n".join(faults), end="\n" if faults else "", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
