"""Tests of bench/machine_code: what is read from the compilers' output, and what counts as a failure."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "machine_code"))
import amd
import executed
import intel
import machine_code
import nvidia
import spirv_to_llvm
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

    def test_twice_the_registers_leave_room_for_half_the_threads(self):
        self.assertEqual(intel.read_assembly(ASSEMBLY).occupancy, 1)
        self.assertEqual(intel.read_assembly(ASSEMBLY.replace("r127", "r128")).occupancy, 0.5)

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


PTXAS = """ptxas info    : Compiling entry function '__sycl_kernel_a' for 'sm_80'
ptxas info    : Function properties for __sycl_kernel_a
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 60 registers, used 1 barriers, 128 bytes smem, 400 bytes cmem[0]
ptxas info    : Compiling entry function '__sycl_kernel_b' for 'sm_80'
ptxas info    : Function properties for __sycl_kernel_b
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 400 bytes cmem[0]
"""

SASS = """		Function : __sycl_kernel_a
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/                   FFMA R2, R3, R4, R2 ;
        /*0020*/                   IADD3 R5, R5, 0x1, RZ ;
        /*0030*/              @!P0 BRA 0x10 ;
        /*0040*/                   EXIT ;
        /*0050*/                   NOP ;
"""

AMD = """__sycl_kernel_a:
	v_mov_b32_e32 v0, 0
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
	v_fmac_f32_e32 v0, v1, v2
	s_cbranch_scc1 .LBB0_1
	s_endpgm
.Lfunc_end0:
; Occupancy: 4
amdhsa.kernels:
  - .agpr_count:     2
    .group_segment_fixed_size: 32
    .name:           __sycl_kernel_a
    .private_segment_fixed_size: 0
    .vgpr_count:     40
    .vgpr_spill_count: 3
  - .agpr_count:     0
    .name:           __sycl_kernel_b
    .vgpr_count:     7
    .vgpr_spill_count: 0
"""


class OtherVendors(unittest.TestCase):
    def test_ptxas_and_sass(self):
        a, b = (nvidia.figures_of(f"__sycl_kernel_{k}", PTXAS, SASS) for k in "ab")
        self.assertEqual((a.registers, a.spilled, a.local_bytes, a.private_bytes, a.instructions), (60, 12, 128, 16, 5))
        self.assertEqual((a.occupancy, b.registers, b.spilled, b.occupancy), (0.5, 255, 0, 0.125))
        self.assertAlmostEqual(a.loop_products, 1 / 3)
        self.assertTrue(nvidia.figures_of("__sycl_kernel_c", PTXAS, "").error)

    def test_amd_assembly(self):
        found = amd.figures_of("__sycl_kernel_a", AMD, "gfx90a")
        self.assertEqual((found.registers, found.spilled, found.local_bytes, found.occupancy), (42, 3, 32, 0.5))
        self.assertAlmostEqual(found.loop_products, 1 / 2)

    def test_address_spaces_become_those_of_the_target(self):
        text = ("  %1 = addrspacecast ptr %0 to ptr addrspace(4)\n  %2 = load ptr addrspace(4), ptr addrspace(1) %1\n"
                "  call void @llvm.memcpy.p4.p0.i64(ptr addrspace(4) %1, ptr %0, i64 8, i1 false)\n")
        self.assertEqual(spirv_to_llvm.map_spaces(text, {0: 0, 1: 1, 2: 1, 3: 3, 4: 0}),
                         "  %1 = bitcast ptr %0 to ptr\n  %2 = load ptr, ptr addrspace(1) %1\n"
                         "  call void @llvm.memcpy.p0.p0.i64(ptr %1, ptr %0, i64 8, i1 false)\n")
        self.assertIn("addrspacecast ptr addrspace(5) %0 to ptr\n",
                      spirv_to_llvm.map_spaces(text, amd.target_of("gfx90a").spaces))

    def test_functions_of_opencl_have_definitions(self):
        for name in ("_Z12get_local_idj", "_Z13get_global_idj", "_Z7barrierj", "_Z3madfff", "_Z4sqrtd", "_Z3minll", "_Z3expf",
                     "_Z5isnanf", "_Z8isnormald", "_Z7signbitf", "_Z10atomic_addPU3AS4Vii", "_Z5ldexpfi", "_Z3absl"):
            self.assertIn(f"@{name}(", spirv_to_llvm.definition(name, amd.target_of("gfx1100")) or "", name)
        self.assertIsNone(spirv_to_llvm.definition("_Z7unknownf", amd.target_of("gfx1100")))

    def test_a_call_of_an_unknown_function_is_named(self):
        _, unknown = spirv_to_llvm.for_target("declare spir_func float @_Z7unknownf(float)\n", amd.target_of("gfx90a"))
        self.assertEqual(unknown, ["_Z7unknownf"])

    def test_copies_of_zeros_become_fills(self):
        text = ("@0 = internal global [16 x i8] zeroinitializer, align 8\n  %5 = bitcast ptr @0 to ptr\n"
                "  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %4, ptr align 8 %5, i64 16, i1 false)\n")
        changed = spirv_to_llvm.zeros_by_memset(text)
        self.assertIn("call void @llvm.memset.p0.i64(ptr align 8 %4, i8 0, i64 16, i1 false)", changed)
        self.assertNotIn("@0", changed)

    def test_parameters_are_split_outside_of_types(self):
        self.assertEqual(spirv_to_llvm.arguments_of('ptr byval(%"s<a, b>") align 8 %0, i64 %1'), ['ptr byval(%"s<a, b>") align 8 %0', "i64 %1"])


class Executed(unittest.TestCase):
    COUNTED = {"kernels": [{"workload": "gemm, float", "kernel": "nullscope::kernels::a<float>", "instructions": 10,
                            "executed": {kind: 0 for kinds in executed.GROUPS.values() for kind in kinds} | {"fma": 5, "load_shared": 2},
                            "active_lanes": 31.5, "shared_wavefronts": 4, "shared_conflicts": 1, "global_bytes_read": 1024,
                            "global_bytes_written": 512}]}

    def test_counts_become_shares(self):
        names, row = executed.table(self.COUNTED)
        cells = dict(zip(names, row))
        self.assertEqual((cells["kernel"], cells["fma"], cells["shared"], cells["mma"]), ("a<float>", "0.50", "0.20", ""))
        self.assertEqual((cells["lanes"], cells["conflicts"], cells["bytes"]), ("31.5", "0.25", "1,536"))

    def test_a_table_for_a_page(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            executed.print_table(executed.table(self.COUNTED), markdown=True)
        lines = out.getvalue().splitlines()
        self.assertEqual({line.count("|") for line in lines}, {lines[0].count("|")})
        self.assertTrue(lines[1].startswith("| --- |"))


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
