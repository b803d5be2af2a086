/// A transformer as Python holds it: its parameters, or the trainer that has taken them over.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <nullscope/model/transformer.hpp>
#include <nullscope/training/training.hpp>
#include <optional>
#include <string>
#include <vector>

#include "arrays.hpp"

namespace nullscope::python {

using id_lists = std::vector<std::vector<std::int32_t>>;

/// Sequences as the model reads them; `segments` is empty, or has a list for each sequence.
std::vector<token_batch::sequence> sequences_of(const transformer_config& config, id_lists ids, id_lists segments);

/// Lets Python handle signals, so that Ctrl-C ends work between two steps: throws nb::python_error.
void handle_signals();

/// handle_signals, then progress(share) unless it is None. Takes the GIL.
void report_progress(nb::handle progress, double share);

template <class T>
class model {
 public:
  model(nb::object device, transformer<T> parameters, std::string family, std::vector<std::string> labels)
      : device_(std::move(device)),
        where_(nb::cast<device_handle&>(device_)),
        parameters_(std::move(parameters)),
        family_(std::move(family)),
        labels_(std::move(labels)) {}

  const transformer_config& config() const { return current().config(); }
  const std::string& family() const { return family_; }
  const std::vector<std::string>& labels() const { return labels_; }
  device_handle& where() { return where_; }
  nb::object device() const { return device_; }

  /// The parameters, complete if no step runs.
  const transformer<T>& current() const { return training_ ? training_->run.model() : *parameters_; }

  /// Runs compute(ctx, transformer) with the GIL released, one thread at a time.
  template <class Compute>
  void without_gil(Compute&& compute) {
    require_own_process();
    const nb::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    const borrowed_context ctx(where_);
    compute(*ctx, current());
  }

  /// One step of Adam; other options than those of the step before begin with new moments. Waits.
  training_sums train_step(std::span<const training_example> examples, const training_options& options);

 private:
  struct training {
    std::unique_ptr<context> ctx;
    trainer<T> run;
  };

  void begin_training(const training_options& options);

  nb::object device_;
  device_handle& where_;
  std::recursive_mutex mutex_;  // a progress callback may use the model
  std::optional<transformer<T>> parameters_;
  std::unique_ptr<training> training_;
  std::string family_;
  std::vector<std::string> labels_;
};

template <class T>
void model<T>::begin_training(const training_options& options) {
  auto ctx = std::make_unique<context>(where_.device());
  if (training_) {  // what is trained goes on from its parameters
    transformer<T> copy(*ctx, config());
    const tensor<T>& values = current().values();
    ctx->queue().copy(values.data(), copy.values().data(), static_cast<std::size_t>(values.size())).wait();
    training_->run.wait();
    parameters_.emplace(std::move(copy));
    training_.reset();
  }
  trainer<T> run(*ctx, std::move(*parameters_), options);
  parameters_.reset();
  training_ = std::make_unique<training>(std::move(ctx), std::move(run));
}

template <class T>
training_sums model<T>::train_step(std::span<const training_example> examples, const training_options& options) {
  require_own_process();
  const nb::gil_scoped_release released;
  const std::lock_guard lock(mutex_);
  check_examples(config(), examples);
  if (!training_ || !(training_->run.options() == options)) begin_training(options);
  training_sums sums;
  training_->run.step(examples);
  training_->run.add_sums(sums);
  return sums;
}

}  // namespace nullscope::python
