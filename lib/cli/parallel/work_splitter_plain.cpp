/// One process.
#include <cstdlib>
#include <nullscope/core/errors.hpp>

#include "lib/cli/parallel/local_workers.hpp"
#include "lib/cli/parallel/work_splitter.hpp"

namespace nullscope::cli {
namespace {

class single_process : public work_splitter {
 public:
  bool is_first() const override { return true; }
  std::size_t place_on_machine() const override { return 0; }
  std::size_t processes_on_machine() const override { return 1; }
  void serve(const std::function<shared_work()>&) override {}

  void divide(const divided_work& work) override {
    local_workers workers(work);
    std::size_t next = 0;  // of the units
    while (next < work.units.size() || workers.is_busy()) {
      while (next < work.units.size() && workers.start(work.units[next])) ++next;
      workers.wait();
      while (const auto done = workers.take()) work.keep(done->unit, done->result);
      work.wait();
    }
  }
};

}  // namespace

std::unique_ptr<work_splitter> make_work_splitter() {
  const char* ranks = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (ranks != nullptr && std::atoi(ranks) > 1) {
    throw invalid_argument("sweep: mpirun started several processes, but this program was built without NULLSCOPE_MPI");
  }
  return std::make_unique<single_process>();
}

bool speaks_for_all() { return true; }

}  // namespace nullscope::cli
