/// The ranks of an MPI job. Rank 0 hands out units as ranks become free, and computes too: its main thread talks to the
/// others (MPI_THREAD_FUNNELED) while another one works.
///
/// Each other rank sends one message at a time (ready, the result of a unit, or a failure) and gets one answer, the
/// number of a unit or `no_more`.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <nullscope/errors.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "mpi_job.hpp"
#include "work_splitter.hpp"

namespace nullscope::cli {
namespace {

enum message_tag { tag_ready, tag_result, tag_failure, tag_unit };

constexpr long no_more = -1;

struct message {
  int rank;
  message_tag tag;
  std::string text;
};

std::optional<message> take_message(int from) {
  int is_there = 0;
  MPI_Status status;
  MPI_Iprobe(from, MPI_ANY_TAG, MPI_COMM_WORLD, &is_there, &status);
  if (is_there == 0) return std::nullopt;
  int size = 0;
  MPI_Get_count(&status, MPI_CHAR, &size);
  message result{status.MPI_SOURCE, static_cast<message_tag>(status.MPI_TAG),
                 std::string(static_cast<std::size_t>(size), '\0')};
  MPI_Recv(result.text.data(), size, MPI_CHAR, result.rank, result.tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return result;
}

message wait_for_message(int from) {
  for (;; mpi_job::rest()) {
    if (auto taken = take_message(from)) return *taken;
  }
}

void send(int to, message_tag tag, const std::string& text) {
  MPI_Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, to, tag, MPI_COMM_WORLD);
}

class mpi_ranks : public work_splitter {
 public:
  mpi_ranks() : job_("sweep"), serving_(job_.rank() == 0 ? job_.ranks() - 1 : 0) {
    unit_of_.resize(static_cast<std::size_t>(job_.ranks()), no_more);
  }

  ~mpi_ranks() override {
    while (serving_ > 0)
      dismiss(wait_for_message(MPI_ANY_SOURCE).rank);  // after an error; the last results of the ranks are lost
  }

  bool is_first() const override { return job_.rank() == 0; }
  std::size_t place_on_machine() const override { return static_cast<std::size_t>(job_.place_on_machine()); }

  void divide(const divided_work& work) override {
    std::future<std::string> own;
    std::size_t own_unit = 0;
    next_ = 0;
    while (next_ < work.units.size() || own.valid() || serving_ > 0) {
      if (!own.valid() && next_ < work.units.size()) {
        own_unit = work.units[next_++];
        own = std::async(std::launch::async, work.compute, own_unit);
      }
      if (own.valid() && own.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
        work.keep(own_unit, own.get());
      } else if (const auto taken = take_message(MPI_ANY_SOURCE)) {
        answer(*taken, work);
      } else {
        mpi_job::rest();
      }
      work.wait();
    }
  }

  void serve(const std::function<shared_work()>& prepare) override {
    try {
      const shared_work work = prepare();
      send(0, tag_ready, work.identity);
      for (;;) {
        const long unit = std::stol(wait_for_message(0).text);
        if (unit == no_more) return;
        send(0, tag_result, work.compute(static_cast<std::size_t>(unit)));
      }
    } catch (const std::exception& failure) {
      send(0, tag_failure, failure.what());
      wait_for_message(0);  // no_more
    }
  }

 private:
  /// Handles a message of a rank and sends it the next unit.
  void answer(const message& taken, const divided_work& work) {
    long& unit = unit_of_[static_cast<std::size_t>(taken.rank)];
    if (taken.tag == tag_failure) {
      dismiss(taken.rank);
      throw error(fmt::format("rank {} failed: {}", taken.rank, taken.text));
    }
    if (taken.tag == tag_ready && taken.text != work.identity) {
      dismiss(taken.rank);
      throw invalid_argument(
          fmt::format("rank {} has different settings, a different device or a different program than rank 0:\n{}\n{}",
                      taken.rank, taken.text, work.identity));
    }
    const long done = std::exchange(unit, no_more);
    if (next_ < work.units.size()) {
      unit = static_cast<long>(work.units[next_++]);
      send(taken.rank, tag_unit, std::to_string(unit));
    } else {
      dismiss(taken.rank);
    }
    if (taken.tag == tag_result) work.keep(static_cast<std::size_t>(done), taken.text);
  }

  void dismiss(int rank) {
    send(rank, tag_unit, std::to_string(no_more));
    --serving_;
  }

  mpi_job job_;
  int serving_;                // ranks that have not been dismissed; only on rank 0
  std::vector<long> unit_of_;  // the unit that each rank computes
  std::size_t next_ = 0;       // of the units
};

}  // namespace

std::unique_ptr<work_splitter> make_work_splitter() { return std::make_unique<mpi_ranks>(); }

bool speaks_for_all() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {  // set by the launchers of MPI
    if (const char* rank = std::getenv(name)) return std::string_view(rank) == "0";
  }
  return true;
}

}  // namespace nullscope::cli
