/// An MPI job, from MPI_Init to MPI_Finalize. No rank spins while it waits, because ranks may share cores.
#pragma once

#include <mpi.h>

#include <string_view>

namespace nullscope::cli {

class mpi_job {
 public:
  /// Throws unsupported_device, naming the command, if this MPI does not support threads.
  explicit mpi_job(std::string_view command);
  ~mpi_job();  ///< waits until all ranks are here
  mpi_job(const mpi_job&) = delete;
  mpi_job& operator=(const mpi_job&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int place_on_machine() const { return place_; }
  int ranks_on_machine() const { return on_machine_; }

  /// A pause between two checks for messages.
  static void rest();

  /// Waits for a request without spinning.
  static void wait(MPI_Request& request);

 private:
  int rank_ = 0, ranks_ = 1, place_ = 0, on_machine_ = 1;
};

}  // namespace nullscope::cli
