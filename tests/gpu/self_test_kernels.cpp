#include "tests/gpu/self_test_kernels.hpp"

#include "tests/gpu/checker/kernel_table.hpp"

namespace nullscope::races {

kernel_table table() {
  using namespace self_test;
  return rows<rotate<true>, rotate<false>, write_of_groups<true>, write_of_groups<false>, read_of_another_group,
              neighbouring_bytes, byte_of_a_word, count_atomically<true>, count_atomically<false>,
              barrier_in_a_branch<meeting::half_has_ended>, barrier_in_a_branch<meeting::other_barrier>,
              barrier_in_a_branch<meeting::sub_group_has_ended>, beyond_local_memory<true>, beyond_local_memory<false>,
              read_before_written, exchange_in_sub_group, write_after_reads, collectives, note_order>();
}

}  // namespace nullscope::races
