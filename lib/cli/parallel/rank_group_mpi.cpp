/// The ranks of an MPI job. Sums are taken piece by piece: each rank collects its piece from all others and adds
/// them up in the order of the ranks, then all collect the sums. The result does not depend on who arrives first.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "lib/cli/parallel/message_pieces.hpp"
#include "lib/cli/parallel/mpi_job.hpp"
#include "lib/cli/parallel/rank_group.hpp"

namespace nullscope::cli {
namespace {

class mpi_group : public rank_group {
 public:
  std::int64_t rank() const override { return job_.rank(); }
  std::int64_t count() const override { return job_.ranks(); }
  std::size_t place_on_machine() const override { return static_cast<std::size_t>(job_.place_on_machine()); }

  void sum(std::span<float> numbers) override {
    if (count() == 1) return;
    constexpr std::size_t piece = std::size_t{1} << 20;  // numbers per rank and turn
    const std::size_t block = std::min(piece * static_cast<std::size_t>(count()), largest_piece);
    const auto sum_piece = [&](std::size_t begin, int size) {
      sum_block(numbers.subspan(begin, static_cast<std::size_t>(size)));
    };
    for_each_piece(numbers.size(), sum_piece, block);
  }

  void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 private:
  void sum_block(std::span<float> block) {
    const auto ranks = static_cast<std::size_t>(count());
    std::vector<int> sizes(ranks), places(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      places[r] = static_cast<int>(r * block.size() / ranks);
      sizes[r] = static_cast<int>((r + 1) * block.size() / ranks) - places[r];
    }
    const auto own = static_cast<std::size_t>(rank());
    const auto size = static_cast<std::size_t>(sizes[own]);
    std::vector<int> own_sizes(ranks, sizes[own]), own_places(ranks);
    for (std::size_t r = 0; r < ranks; ++r) own_places[r] = static_cast<int>(r * size);
    std::vector<float> parts(ranks * size), total(size, 0.0f);
    MPI_Request request;
    MPI_Ialltoallv(block.data(), sizes.data(), places.data(), MPI_FLOAT, parts.data(), own_sizes.data(),
                   own_places.data(), MPI_FLOAT, MPI_COMM_WORLD, &request);
    mpi_job::wait(request);
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::size_t i = 0; i < size; ++i) total[i] += parts[r * size + i];
    }
    MPI_Iallgatherv(total.data(), sizes[own], MPI_FLOAT, block.data(), sizes.data(), places.data(), MPI_FLOAT,
                    MPI_COMM_WORLD, &request);
    mpi_job::wait(request);
  }

  mpi_job job_{"train"};
};

}  // namespace

std::unique_ptr<rank_group> make_rank_group() { return std::make_unique<mpi_group>(); }

}  // namespace nullscope::cli
