/// The processes that train a model together: one, or the ranks of an MPI job. Everything about MPI is in
/// rank_group_mpi.cpp; a build without it uses rank_group_plain.cpp instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace nullscope::cli {

class rank_group {
 public:
  virtual ~rank_group() = default;
  virtual std::int64_t rank() const = 0;
  virtual std::int64_t count() const = 0;

  /// The place of this process among those on the same machine: they take different devices.
  virtual std::size_t place_on_machine() const = 0;

  /// Replaces the numbers by their sums over all ranks, added in the order of the ranks.
  virtual void sum(std::span<float> numbers) = 0;

  /// Ends all ranks. For errors that the others may not have.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

std::unique_ptr<rank_group> make_rank_group();

}  // namespace nullscope::cli
