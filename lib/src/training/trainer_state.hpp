/// What a trainer owns.
#pragma once

#include <nullscope/core/tensor.hpp>
#include <nullscope/training/training.hpp>
#include <optional>
#include <vector>

#include "lib/src/training/optimizer_state.hpp"
#include "lib/src/training/training_batch.hpp"

namespace nullscope {

template <class T>
struct trainer<T>::state {
  state(context& c, transformer<T>&& m, const training_options& o, training_ranks<T>&& r);

  void step(std::span<const training_example> examples);
  void drain();  // brings the sums of all steps to the host; throws if a loss is not finite

  context& ctx;
  context upload;
  transformer<T> model;
  training_options options;
  training_ranks<T> ranks;
  std::int64_t steps = 0;

  detail::optimizer_state<T> optimizer;
  tensor<T> best;  // flat, as the parameters; empty before there is one
  std::optional<forward_record<T>> record;
  std::int64_t record_batch = 0, record_tokens = 0;
  tensor<T> logits;

  // Loss and correct answers of steps that have not been asked for: first on the device, then on the host.
  tensor<T> losses;
  tensor<std::int64_t> correct;
  std::vector<std::int64_t> counted;  // labels of each step on the device
  std::vector<training_sums> drained;

  sycl::event last;
  detail::batches_in_flight in_flight;

 private:
  void reserve(const token_batch& tokens);
  void compute(const detail::device_batch& batch, double share);
  void step_alone(std::span<const training_example> examples);
  void step_together(std::span<const training_example> examples);
  void keep_sums(T mean_loss, std::int64_t correct_rows, std::int64_t count, std::int64_t step_number);
};

}  // namespace nullscope
