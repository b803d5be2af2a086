#include "lib/cli/parallel/mpi_job.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nullscope/core/errors.hpp>
#include <thread>

namespace nullscope::cli {
namespace {

/// mpirun binds each rank to one core. A CPU device would then have fewer cores than in a run without MPI, and its
/// results would differ in the last digits. So the ranks of a machine share all of its cores.
void use_all_cores() {
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof(all));
  sched_setaffinity(0, sizeof(all), &all);  // if this is refused, the comparison of identities will fail
}

/// Open MPI inspects the machine with hwloc, whose OpenCL plug-in would load an OpenCL library other than that of the
/// SYCL runtime; the runtime would then find no device.
void leave_opencl_alone() { setenv("HWLOC_PLUGINS_BLACKLIST", "hwloc_opencl.so", 0); }

}  // namespace

mpi_job::mpi_job(std::string_view command) {
  leave_opencl_alone();
  int offered = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &offered);
  if (offered < MPI_THREAD_FUNNELED) {
    throw unsupported_device(fmt::format("{}: this MPI cannot be used by programs with threads", command));
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  MPI_Comm machine;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &machine);
  MPI_Comm_rank(machine, &place_);
  MPI_Comm_size(machine, &on_machine_);
  MPI_Comm_free(&machine);
  if (ranks_ > 1) use_all_cores();
}

mpi_job::~mpi_job() {
  MPI_Request all_here;
  MPI_Ibarrier(MPI_COMM_WORLD, &all_here);
  wait(all_here);
  MPI_Finalize();
}

void mpi_job::rest() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

void mpi_job::wait(MPI_Request& request) {
  for (int is_complete = 0; is_complete == 0;) {
    MPI_Test(&request, &is_complete, MPI_STATUS_IGNORE);
    if (is_complete == 0) rest();
  }
}

}  // namespace nullscope::cli
