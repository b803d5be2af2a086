/// Divides units of work over the processes of a run: one process, or the ranks of an MPI job. All that is known of MPI
/// is in work_splitter_mpi.cpp; a build without it has work_splitter_plain.cpp instead.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nullscope::cli {

/// Computes a unit and gives its result as text.
using unit_function = std::function<std::string(std::size_t)>;

/// The work, as the first process sees it.
struct divided_work {
  std::vector<std::size_t> units;                             ///< to be computed, begun in this order
  unit_function compute;                                      ///< runs in a thread of its own
  std::function<void(std::size_t, const std::string&)> keep;  ///< takes a result, in the caller's thread
  std::function<void()> wait;                                 ///< called all the time while work is done, likewise
};

class work_splitter {
 public:
  virtual ~work_splitter() = default;

  /// The first process divides the work and keeps the results; the others serve.
  virtual bool is_first() const = 0;

  /// The place of this process among those on the same machine: they take different devices.
  virtual std::size_t place_on_machine() const = 0;

  /// Returns when all units are kept. Throws what compute and keep throw, and file_error if another process failed.
  virtual void divide(const divided_work& work) = 0;

  /// Computes what the first process asks for, until there is no more. `prepare` gives the function that computes; what
  /// it or the function throws is reported to the first process.
  virtual void serve(const std::function<unit_function()>& prepare) = 0;
};

std::unique_ptr<work_splitter> make_work_splitter();

}  // namespace nullscope::cli
