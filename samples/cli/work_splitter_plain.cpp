/// One process.
#include <chrono>
#include <cstdlib>
#include <future>
#include <nullscope/errors.hpp>

#include "work_splitter.hpp"

namespace nullscope::cli {
namespace {

class single_process : public work_splitter {
 public:
  bool is_first() const override { return true; }
  std::size_t place_on_machine() const override { return 0; }
  void serve(const std::function<shared_work()>&) override {}

  void divide(const divided_work& work) override {
    for (const std::size_t unit : work.units) {
      // In another thread, so that this one can handle signals and draw the bar during a long unit.
      std::future<std::string> result = std::async(std::launch::async, work.compute, unit);
      while (result.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) work.wait();
      work.keep(unit, result.get());
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
