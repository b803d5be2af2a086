/// The ranks of an MPI job. Rank 0 hands out units as ranks become free, and computes too: its main thread talks to the
/// others (MPI_THREAD_FUNNELED) while another one works.
///
/// Each other rank says how many workers it has (ready), and gets an answer for each: the number of a unit, or
/// `no_more`, which dismisses a worker. For each result it gets another answer. A rank leaves when all its workers are
/// dismissed; if it fails, it says so, and all are.
///
/// A message is the number of its bytes, then those in pieces, since a result may have more than an int can count. Both
/// come from one rank with one tag, so that MPI keeps their order.
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <nullscope/core/errors.hpp>
#include <optional>
#include <string_view>

#include "lib/cli/parallel/local_workers.hpp"
#include "lib/cli/parallel/message_pieces.hpp"
#include "lib/cli/parallel/mpi_job.hpp"
#include "lib/cli/parallel/work_splitter.hpp"

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
  message result{status.MPI_SOURCE, static_cast<message_tag>(status.MPI_TAG), {}};
  std::uint64_t size = 0;
  MPI_Recv(&size, 1, MPI_UINT64_T, result.rank, result.tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  result.text.resize(size);
  for_each_piece(result.text.size(), [&](std::size_t begin, int count) {
    MPI_Recv(result.text.data() + begin, count, MPI_CHAR, result.rank, result.tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  });
  return result;
}

message wait_for_message(int from) {
  for (;; mpi_job::rest()) {
    if (auto taken = take_message(from)) return *taken;
  }
}

void send(int to, message_tag tag, const std::string& text) {
  const std::uint64_t size = text.size();
  MPI_Send(&size, 1, MPI_UINT64_T, to, tag, MPI_COMM_WORLD);
  for_each_piece(text.size(), [&](std::size_t begin, int count) {
    MPI_Send(text.data() + begin, count, MPI_CHAR, to, tag, MPI_COMM_WORLD);
  });
}

class mpi_ranks : public work_splitter {
 public:
  mpi_ranks() : job_("sweep"), ranks_(static_cast<std::size_t>(job_.ranks())) {
    serving_ = job_.rank() == 0 ? job_.ranks() - 1 : 0;
  }

  ~mpi_ranks() override {
    // After an error: the last results of the ranks are lost.
    while (serving_ > 0) {
      const message taken = wait_for_message(MPI_ANY_SOURCE);
      if (taken.tag == tag_ready) begin(taken);
      dismiss(taken.rank, taken.tag == tag_result ? 1 : of(taken.rank).workers);
    }
  }

  bool is_first() const override { return job_.rank() == 0; }
  std::size_t place_on_machine() const override { return static_cast<std::size_t>(job_.place_on_machine()); }
  std::size_t processes_on_machine() const override { return static_cast<std::size_t>(job_.ranks_on_machine()); }

  void divide(const divided_work& work) override {
    local_workers own(work);
    next_ = 0;
    while (next_ < work.units.size() || own.is_busy() || serving_ > 0) {
      while (next_ < work.units.size() && own.start(work.units[next_])) ++next_;
      if (const auto done = own.take()) {
        work.keep(done->unit, done->result);
      } else if (const auto taken = take_message(MPI_ANY_SOURCE)) {
        answer(*taken, work);
      } else {
        mpi_job::rest();
      }
      work.wait();
    }
  }

  void serve(const std::function<shared_work()>& prepare) override {
    std::size_t left = 1;  // workers that have not been dismissed
    try {
      const shared_work work = prepare();
      left = work.workers;
      send(0, tag_ready, fmt::format("{} {}", work.workers, work.identity));
      local_workers own(work);
      while (left > 0 || own.is_busy()) {
        if (const auto done = own.take()) {
          send(0, tag_result, fmt::format("{} {}", done->unit, done->result));
        } else if (const auto taken = take_message(0)) {
          const long unit = std::stol(taken->text);
          if (unit == no_more) {
            --left;
          } else {
            own.start(static_cast<std::size_t>(unit));
          }
        } else {
          mpi_job::rest();
        }
      }
    } catch (const std::exception& failure) {
      send(0, tag_failure, failure.what());
      while (left > 0) {  // units that are on their way are dropped
        if (std::stol(wait_for_message(0).text) == no_more) --left;
      }
    }
  }

 private:
  /// What rank 0 knows about another rank.
  struct other_rank {
    int workers = 1;  // that have not been dismissed
  };

  other_rank& of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  /// Records how many workers a rank has. Returns its identity.
  std::string begin(const message& ready) {
    const std::size_t blank = ready.text.find(' ');
    of(ready.rank).workers = std::stoi(ready.text.substr(0, blank));
    return ready.text.substr(blank + 1);
  }

  /// Handles a message of a rank and sends it the next units.
  void answer(const message& taken, const divided_work& work) {
    if (taken.tag == tag_failure) {
      dismiss(taken.rank, of(taken.rank).workers);
      throw error(fmt::format("rank {} failed: {}", taken.rank, taken.text));
    }
    if (taken.tag == tag_ready) {
      const std::string identity = begin(taken);
      const int workers = of(taken.rank).workers;
      if (identity != work.identity) {
        dismiss(taken.rank, workers);
        throw invalid_argument(fmt::format(
            "rank {} has different settings, a different device or a different program than rank 0:\n{}\n{}",
            taken.rank, identity, work.identity));
      }
      for (int i = 0; i < workers; ++i) send_unit(taken.rank, work);
      return;
    }
    send_unit(taken.rank, work);
    const std::size_t blank = taken.text.find(' ');
    work.keep(std::stoul(taken.text.substr(0, blank)), taken.text.substr(blank + 1));
  }

  void send_unit(int rank, const divided_work& work) {
    if (next_ < work.units.size()) {
      send(rank, tag_unit, std::to_string(work.units[next_++]));
    } else {
      dismiss(rank, 1);
    }
  }

  /// Dismisses this many workers of the rank; without workers it leaves.
  void dismiss(int rank, int workers) {
    for (int i = 0; i < workers; ++i) send(rank, tag_unit, std::to_string(no_more));
    of(rank).workers -= workers;
    if (of(rank).workers == 0) --serving_;
  }

  mpi_job job_;
  std::vector<other_rank> ranks_;
  int serving_ = 0;       // ranks that have not been dismissed; only on rank 0
  std::size_t next_ = 0;  // of the units
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
