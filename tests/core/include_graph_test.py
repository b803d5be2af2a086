"""The graph of includes of this project, and that its test can fail."""

import sys
import tempfile
import unittest
from pathlib import Path

import include_graph

ROOT = Path(__file__).resolve().parents[2]


class this_project(unittest.TestCase):
    def test_has_no_cycle(self):
        graph = include_graph.read_graph(ROOT)
        print(include_graph.dot_of(graph))
        self.assertLessEqual({"core", "linalg", "attention", "model"}, set(graph))
        self.assertGreater(len(graph["attention"]["linalg"]), 5)
        self.assertEqual("\n".join(include_graph.faults_of(graph)), "")


class other_projects(unittest.TestCase):
    def faults_of(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for path, includes in files.items():
                file = Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("".join(f"#include {name}\n" for name in includes), encoding="utf-8")
            return include_graph.faults_of(include_graph.read_graph(folder))

    def test_a_cycle_is_named_with_its_files(self):
        faults = self.faults_of({
            "lib/src/model/heads.cpp": ["<nullscope/structure/space.hpp>", "<vector>"],
            "lib/include/nullscope/structure/space.hpp": ["<nullscope/text/words.hpp>"],
            "lib/src/text/words.cpp": ['"kernels/model/table.hpp"', '"lib/src/core/checks.hpp"'],
            "lib/src/io/files.cpp": ["<nullscope/text/words.hpp>"],
        })
        self.assertEqual(faults, [
            "includes form a cycle: model -> structure -> text -> model",
            "  model -> structure: lib/src/model/heads.cpp includes lib/include/nullscope/structure/space.hpp",
            "  structure -> text: lib/include/nullscope/structure/space.hpp includes lib/include/nullscope/text/words.hpp",
            "  text -> model: lib/src/text/words.cpp includes kernels/model/table.hpp"])

    def test_core_stands_below_all(self):
        faults = self.faults_of({"lib/src/core/random.cpp": ['"kernels/simd/philox.hpp"'], "kernels/simd/philox.hpp": []})
        self.assertEqual(faults, ["core must include no other subject:",
                                  "  core -> simd: lib/src/core/random.cpp includes kernels/simd/philox.hpp"])

    def test_a_tree_passes(self):
        self.assertEqual(self.faults_of({
            "kernels/linalg/svd/rank.hpp": ['"kernels/simd/pack.hpp"', '"kernels/linalg/row.hpp"'],
            "kernels/simd/pack.hpp": ["<nullscope/core/view.hpp>"],
            "lib/include/nullscope/nullscope.hpp": ["<nullscope/linalg/svd.hpp>"],
            "lib/include/nullscope/core/view.hpp": [],
        }), [])


if __name__ == "__main__":
    unittest.main()
