/// One process.
#include <cstdlib>
#include <nullscope/core/errors.hpp>

#include "lib/cli/parallel/rank_group.hpp"

namespace nullscope::cli {
namespace {

class single_rank : public rank_group {
 public:
  std::int64_t rank() const override { return 0; }
  std::int64_t count() const override { return 1; }
  std::size_t place_on_machine() const override { return 0; }
  void sum(std::span<float>) override {}
  void abort(int exit_code) override { std::_Exit(exit_code); }
};

}  // namespace

std::unique_ptr<rank_group> make_rank_group() {
  const char* ranks = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (ranks != nullptr && std::atoi(ranks) > 1) {
    throw invalid_argument("train: mpirun started several processes, but this program was built without NULLSCOPE_MPI");
  }
  return std::make_unique<single_rank>();
}

}  // namespace nullscope::cli
