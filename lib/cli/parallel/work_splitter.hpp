/// Divides units of work among the devices of a run, and among its processes: one, or the ranks of an MPI job.
/// Everything about MPI is in work_splitter_mpi.cpp; a build without it uses work_splitter_plain.cpp instead.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nullscope::cli {

/// What every process needs.
struct shared_work {
  std::string identity;  ///< settings and device: the same text in all processes

  /// The result of a unit, as text, by one of the workers 0, 1, ...: the devices of this process. Runs in another
  /// thread, for different workers at the same time.
  std::function<std::string(std::size_t unit, std::size_t worker)> compute;
  std::size_t workers = 1;
};

/// The work, as the first process sees it.
struct divided_work : shared_work {
  std::vector<std::size_t> units;                             ///< to be computed, started in this order
  std::function<void(std::size_t, const std::string&)> keep;  ///< takes a result, in the caller's thread
  std::function<void()> wait;                                 ///< called repeatedly while the work runs, likewise
};

class work_splitter {
 public:
  virtual ~work_splitter() = default;

  /// The first process divides the work and keeps the results; the others serve.
  virtual bool is_first() const = 0;

  /// The place of this process among those on the same machine: they take different devices.
  virtual std::size_t place_on_machine() const = 0;
  virtual std::size_t processes_on_machine() const = 0;

  /// Returns when all units are kept. Throws what compute and keep throw, and an error if another process failed.
  virtual void divide(const divided_work& work) = 0;

  /// Computes units for the first process until none are left. Errors of `prepare` or of the work are reported to the
  /// first process, which throws them.
  virtual void serve(const std::function<shared_work()>& prepare) = 0;
};

std::unique_ptr<work_splitter> make_work_splitter();

/// Whether this process prints messages. Known before the processes can communicate: all of them see a mistake in the
/// command line, and one reports it.
bool speaks_for_all();

}  // namespace nullscope::cli
