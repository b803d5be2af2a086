"""Tests of bench/machine_code: what is read from the compilers' output, and what counts as a failure."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "machine_code"))
import intel
import machine_code
from figures import Figures, hottest_loop, short_name

ASSEMBLY = """L0:
(W)     mov (16|M0)              r127.0<1>:ud  0x0:ud
        mov (16|M0)              r10.0<1>:f    r9.0<1;1,0>:f
L32:
        mad (16|M0)              r12.0<1>:f    r12.0<1;0>:f  r10.0<1;0>:f  r11.0<1>:f  {I@1}
        mad (1|M0)               r13.0<1>:d    r12.0<0;0>:d  r10.0<0;0>:w  0xC0:uw
        add (16|M0)              r14.0<1>:d    r14.0<1;1,0>:d  1:w
(W&f0.0) while (16|M0)           L32
(W)     send.gtwy (1|M0)         null     r127    null:0  0x0   0x02000010  {EOT}
"""


class Reading(unittest.TestCase):
    def test_figures_of_a_disassembly(self):
        found = intel.read_assembly(ASSEMBLY)
        self.assertEqual((found.registers, found.lanes, found.instructions), (128, 16, 7))
        self.assertAlmostEqual(found.loop_products, 1 / 4)  # the product of integers is none

    def test_spills_belong_to_their_kernel(self):
        log = "warning: kernel __sycl_kernel_kernel_1  compiled SIMD32 allocated 128 regs and spilled around 505\n"
        self.assertEqual((intel.spilled_in(log, "kernel_1"), intel.spilled_in(log, "kernel_10")), (505, 0))

    def test_the_innermost_loop_with_most_products_counts(self):
        code = ["a", "fma", "b", "jump inner", "fma", "fma", "jump other", "jump outer"]
        labels = {"outer": 0, "inner": 1, "other": 4}
        target = lambda text: text.removeprefix("jump ") if text.startswith("jump") else None
        self.assertAlmostEqual(hottest_loop(code, labels, target, lambda text: text == "fma"), 2 / 3)
        self.assertIsNone(hottest_loop(["a"], {}, target, lambda text: False))

    def test_names_are_short(self):
        self.assertEqual(short_name("nullscope::kernels::a<float, nullscope::kernels::b<1> >"), "a<float, b<1> >")


class Judging(unittest.TestCase):
    def judged(self, figures, exceptions):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(exceptions, file)
            file.flush()
            with contextlib.redirect_stdout(io.StringIO()) as out:
                is_fine = machine_code.judge([({"kernel": "nullscope::kernels::a<float>"}, figures)], "pvc",
                                             machine_code.Exceptions(file.name))
        return is_fine, out.getvalue()

    def test_a_spill_is_a_failure_unless_excused(self):
        self.assertTrue(self.judged(Figures(spilled=0), [])[0])
        self.assertFalse(self.judged(Figures(spilled=3), [])[0])
        excuse = [{"target": "pvc", "kernel": "::a<", "reason": "because"}]
        is_fine, text = self.judged(Figures(spilled=3), excuse)
        self.assertTrue(is_fine and "because" in text)
        self.assertFalse(self.judged(Figures(spilled=3), [{**excuse[0], "target": "dg2"}])[0])

    def test_a_kernel_that_does_not_compile_is_a_failure(self):
        self.assertFalse(self.judged(Figures(error="crash"), [])[0])

    def test_every_exception_gives_a_reason(self):
        for entry in machine_code.Exceptions(os.path.join(machine_code.HERE, "exceptions.json")).entries:
            self.assertEqual(set(entry), {"target", "kernel", "reason"})
            self.assertGreater(len(entry["reason"]), 10)


if __name__ == "__main__":
    unittest.main()
