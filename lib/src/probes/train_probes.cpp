#include <algorithm>
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <numeric>
#include <optional>

#include "lib/src/core/checks.hpp"
#include "lib/src/core/ranges.hpp"
#include "lib/src/linalg/random_draws.hpp"
#include "lib/src/probes/probe_fit.hpp"
#include "lib/src/training/optimizer_state.hpp"
#include "lib/src/training/training_loop.hpp"

namespace nullscope::detail {
namespace {

/// Probes in training. Those that still train are in the first slots, in the order in which they came: probes of one
/// fold and rate are neighbours, and one launch of Adam serves them.
template <class T>
class trainer {
 public:
  trainer(const probe_problem<T>& problem, std::span<const probe> probes)
      : problem_(problem),
        ctx_(problem.ctx),
        probes_(probes),
        rows_(problem.options.training.batch),
        optimizer_(ctx_, std::ssize(probes) * problem.shape.size()) {
    const std::int64_t count = std::ssize(probes), size = problem.shape.size(), d = problem.shape.width;
    for (tensor<T>* of : {&parameters_, &best_parameters_}) *of = tensor<T>(ctx_, {count, size});
    e_ = tensor<T>(ctx_, {count, rows_, d});
    y_ = tensor<T>(ctx_, {count, rows_, d});
    if (problem.shape.map == probe_map::mlp) {
      pre_ = tensor<T>(ctx_, {count, rows_, problem.shape.hidden});
      post_ = tensor<T>(ctx_, {count, rows_, problem.shape.hidden});
    }
    slots_.resize(probes.size());
    std::iota(slots_.begin(), slots_.end(), std::size_t{0});
    best_.resize(probes.size());
    last_epoch_.assign(probes.size(), 0);
    steps_.assign(problem.folds.size(), 0);
    std::int64_t longest = 0;
    for (const fold_tokens& one : problem.folds) longest = std::max(longest, std::ssize(one.validation));
    losses_ = tensor<T>(ctx_, {count, ceil_div(longest, rows_) * rows_});
    step_loss_ = tensor<T>(ctx_, {count, rows_});
    initialise();
  }

  fitted_probes<T> train(const training_report& report) {
    const training_loop loop{
        .begin_epoch = [&](std::int64_t epoch) { return begin_epoch(epoch); },
        .train = [&](const loop_position& at) { return train_batches(at); },
        .report =
            [&](const loop_position& at) {
              report({.epoch = at.epoch, .step = at.batch, .steps = at.batches, .training = training()});
              return true;
            },
        .end_epoch =
            [&](std::int64_t epoch) {
              keep_best(epoch, validate());
              return !slots_.empty();
            }};
    loop_position at;
    run_epochs(loop, problem_.options.training.most_epochs, at);
    std::vector<double> lowest;
    for (const best_epoch& one : best_) lowest.push_back(-one.score);
    return {std::move(best_parameters_), lowest, last_epoch_};
  }

 private:
  std::int64_t training() const { return std::ssize(slots_); }
  view<T, 2> of_slots(tensor<T>& of) const {  // (training, numbers of a probe)
    return contiguous(of.data(), training(), of.size() / std::ssize(probes_));
  }
  probe_activations<T> activations() {
    const probe_activations<T> all{e_, y_, pre_, post_};
    return all.first(training());
  }

  std::vector<kernels::probe_choice> choices() const {
    std::vector<kernels::probe_choice> all;
    for (const std::size_t i : slots_) all.push_back(probes_[i].choice());
    return all;
  }

  /// Probes of one fold and layer start alike, whatever their learning rates.
  void initialise() {
    operation op(ctx_, probes_name);
    const view<T, 2> parameters = parameters_;
    for (std::size_t i = 0; i < probes_.size(); ++i) {
      const std::int64_t fold = problem_.folds[probes_[i].place].fold;
      initialise_probe(op, problem_.shape, select(parameters, 0, static_cast<std::int64_t>(i)), problem_.options.seed,
                       stream_of(probe_stream::parameters, fold, probes_[i].source));
    }
    op.submit_and_wait();
  }

  /// The tokens of each fold in the order of this epoch; folds that do not train any more are empty.
  std::vector<token_list> shuffled(std::int64_t epoch) const {
    std::vector<token_list> lists(problem_.folds.size());
    for (const std::size_t i : slots_) {
      token_list& list = lists[probes_[i].place];
      if (!list.empty()) continue;
      const fold_tokens& fold = problem_.folds[probes_[i].place];
      const std::int64_t count = std::ssize(fold.training);
      random_draws draws({problem_.options.seed, stream_of(probe_stream::epochs, fold.fold, epoch)});
      for (const std::int32_t place : draws.subset(count, count)) {
        list.push_back(fold.training[static_cast<std::size_t>(place)]);
      }
    }
    return lists;
  }

  std::int64_t begin_epoch(std::int64_t epoch) {
    tokens_ = shuffled(epoch);
    lists_.emplace(ctx_, tokens_, choices(), problem_.options.offset);
    return ceil_div(lists_->longest(), rows_);
  }

  std::int64_t train_batches(const loop_position& at) {
    constexpr std::int64_t together = 8;
    const std::int64_t end = std::min(at.batch + together, at.batches);
    operation op(ctx_, probes_name);
    for (std::int64_t b = at.batch; b < end; ++b) {
      compute_gradients(op, lists_->from(b * rows_));
      update(b * rows_);
    }
    op.submit_and_wait();
    return end - at.batch;
  }

  void compute_gradients(operation& op, const kernels::probe_lists& lists) {
    const probe_activations<T> x = activations();
    const view<const T, 2> parameters = of_slots(parameters_);
    problem_.data.gather(op, lists, x.e);
    apply_probes<T>(ctx_, problem_.shape, parameters, x);
    problem_.data.loss(op, lists, problem_.loss, x.y, of_slots(step_loss_), true);
    probe_gradients<T>(ctx_, problem_.shape, parameters, x, of_slots(optimizer_.gradient));
  }

  /// One step of Adam for each fold that has tokens left.
  void update(std::int64_t first) {
    for (std::size_t fold = 0; fold < tokens_.size(); ++fold) steps_[fold] += std::ssize(tokens_[fold]) > first;
    const std::int64_t size = problem_.shape.size();
    for (std::size_t begin = 0, end = 0; begin < slots_.size(); begin = end) {
      const probe& one = probes_[slots_[begin]];
      const auto belongs = [&](std::size_t slot) {
        const probe& other = probes_[slots_[slot]];
        return other.place == one.place && other.learning_rate == one.learning_rate;
      };
      for (end = begin; end < slots_.size() && belongs(end);) ++end;
      if (std::ssize(tokens_[one.place]) <= first) continue;
      const std::int64_t number = static_cast<std::int64_t>(begin) * size;
      optimizer_.update(ctx_, contiguous(parameters_.data() + number, static_cast<std::int64_t>(end - begin) * size),
                        number, {.learning_rate = one.learning_rate}, steps_[one.place]);
    }
  }

  /// The mean loss of the validation tokens, for each slot.
  std::vector<double> validate() {
    std::vector<token_list> tokens;
    for (const fold_tokens& one : problem_.folds) tokens.push_back(one.validation);
    const device_lists lists(ctx_, tokens, choices(), problem_.options.offset);
    operation op(ctx_, probes_name);
    const view<T, 2> losses = of_slots(losses_);
    const probe_activations<T> x = activations();
    for (std::int64_t first = 0; first < losses.extent[1]; first += rows_) {
      problem_.data.gather(op, lists.from(first), x.e);
      apply_probes<T>(ctx_, problem_.shape, of_slots(parameters_), x);
      problem_.data.loss(op, lists.from(first), problem_.loss, x.y, slice(losses, 1, first, rows_), false);
    }
    op.submit_and_wait();
    const std::vector<T> host = losses_.to_host();
    std::vector<double> means;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      const auto begin = host.begin() + static_cast<std::ptrdiff_t>(slot) * losses.extent[1];
      const double count = static_cast<double>(tokens[probes_[slots_[slot]].place].size());
      means.push_back(std::accumulate(begin, begin + losses.extent[1], 0.0) / count);
    }
    return means;
  }

  /// Keeps the parameters of probes that are better than before; those that have not been for too long leave.
  void keep_best(std::int64_t epoch, const std::vector<double>& losses) {
    check_finite(losses);
    const probe_training& training = problem_.options.training;
    operation op(ctx_, probes_name);
    std::vector<std::size_t> stay;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      const std::size_t i = slots_[slot];
      last_epoch_[i] = epoch;
      if (best_[i].update(epoch, -losses[slot])) copy_probe(op, parameters_, slot, best_parameters_, i);
      if (!best_[i].is_stale(epoch, training.patience)) stay.push_back(slot);
    }
    for (std::size_t to = 0; to < stay.size(); ++to) {  // from left to right: no slot is overwritten before it moved
      if (stay[to] == to) continue;
      for (tensor<T>* of : {&parameters_, &optimizer_.first, &optimizer_.second})
        copy_probe(op, *of, stay[to], *of, to);
    }
    op.submit_and_wait();
    std::vector<std::size_t> left;
    for (const std::size_t slot : stay) left.push_back(slots_[slot]);
    slots_ = std::move(left);
  }

  void copy_probe(operation& op, const tensor<T>& from, std::size_t source, tensor<T>& to, std::size_t target) const {
    const std::size_t size = static_cast<std::size_t>(problem_.shape.size());
    const T* const read = from.data() + source * size;
    T* const written = to.data() + target * size;
    op.run([=](sycl::queue& queue, const events& before) {
      return queue.memcpy(written, read, size * sizeof(T), before);
    });
  }

  void check_finite(const std::vector<double>& losses) const {
    std::vector<std::int64_t> failed;
    for (std::size_t slot = 0; slot < losses.size(); ++slot) {
      if (!std::isfinite(losses[slot])) failed.push_back(probes_[slots_[slot]].source);
    }
    if (failed.empty()) return;
    std::sort(failed.begin(), failed.end());
    failed.erase(std::unique(failed.begin(), failed.end()), failed.end());
    throw computation_error(fmt::format("{}: the loss of probes on layers {} is not finite; the states hold NaN or "
                                        "infinity, or the learning rate is too large",
                                        probes_name, fmt::join(failed, ", ")),
                            failed);
  }

  const probe_problem<T>& problem_;
  context& ctx_;
  std::span<const probe> probes_;
  std::int64_t rows_;                       // of a batch
  tensor<T> parameters_, best_parameters_;  // (probes, size)
  optimizer_state<T> optimizer_;
  tensor<T> e_, y_, pre_, post_, losses_, step_loss_;
  std::vector<std::size_t> slots_;        // which probe is in which slot
  std::vector<best_epoch> best_;          // of probes
  std::vector<std::int64_t> last_epoch_;  // of probes
  std::vector<std::int64_t> steps_;       // of folds
  std::vector<token_list> tokens_;        // of folds, in the order of this epoch
  std::optional<device_lists> lists_;     // the same on the device
};

}  // namespace

template <class T>
std::int64_t fit_bytes(const probe_problem<T>& problem) {
  const probe_shape& shape = problem.shape;
  std::int64_t longest = 1;
  for (const fold_tokens& one : problem.folds) {
    longest = std::max({longest, std::ssize(one.training), std::ssize(one.validation)});
  }
  std::int64_t numbers = 0;
  if (problem.options.fit == probe_fit::least_squares) {
    numbers = (longest + shape.width) * 4 * shape.width;  // a, b, and the workspace of least_squares
  } else if (shape.map != probe_map::identity) {
    const std::int64_t hidden = shape.map == probe_map::mlp ? shape.hidden : 0;
    numbers = 5 * shape.size() + problem.options.training.batch * 2 * (shape.width + hidden) + longest;
  }
  return numbers * static_cast<std::int64_t>(sizeof(T));
}

template <class T>
fitted_probes<T> train_probes(const probe_problem<T>& problem, std::span<const probe> probes,
                              const training_report& report) {
  return trainer<T>(problem, probes).train(report);
}

template std::int64_t fit_bytes(const probe_problem<float>&);
template std::int64_t fit_bytes(const probe_problem<double>&);
template fitted_probes<float> train_probes(const probe_problem<float>&, std::span<const probe>, const training_report&);
template fitted_probes<double> train_probes(const probe_problem<double>&, std::span<const probe>,
                                            const training_report&);

}  // namespace nullscope::detail
