/// Fits of many probes side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lib/src/probes/probe_data.hpp"
#include "lib/src/probes/probe_map.hpp"

namespace nullscope::detail {

inline constexpr const char* probes_name = "token_identifiability";

/// The tokens of one fold.
struct fold_tokens {
  std::int64_t fold = 0;
  token_list training, validation, test;
};

/// One probe: it reads layer `source` of a fold and should find the tokens of plane `target`.
struct probe {
  std::int64_t source = 0, target = 0;
  std::size_t place = 0;  ///< of its fold in the list of folds
  double learning_rate = 0;

  kernels::probe_choice choice() const {
    return {static_cast<std::int32_t>(place), static_cast<std::int32_t>(source), static_cast<std::int32_t>(target)};
  }
};

/// All that the probes of a fit share. References must outlive the fit.
template <class T>
struct probe_problem {
  context& ctx;
  const probe_data<T>& data;
  const std::vector<fold_tokens>& folds;
  const identifiability_options& options;
  probe_shape shape;
  probe_distance loss;
};

template <class T>
struct fitted_probes {
  tensor<T> parameters;                 ///< (probes, size)
  std::vector<double> validation_loss;  ///< (probes); NaN if there is none
  std::vector<std::int64_t> epochs;     ///< (probes)
};

/// Bytes that the fit of one probe needs on the device.
template <class T>
std::int64_t fit_bytes(const probe_problem<T>& problem);

/// Called after some steps, with epoch, step, steps and training filled in.
using training_report = std::function<void(const probe_progress&)>;

/// Adam with early stopping. Throws computation_error with the layers of probes whose validation loss is not finite.
template <class T>
fitted_probes<T> train_probes(const probe_problem<T>& problem, std::span<const probe> probes,
                              const training_report& report);

/// The matrices that minimise the squared error of the training tokens. Throws computation_error likewise.
template <class T>
fitted_probes<T> solve_probes(const probe_problem<T>& problem, std::span<const probe> probes);

/// How many entries of its list each probe identifies: lists[p.place], read from layer sources[p].
template <class T>
std::vector<std::int64_t> count_identified(const probe_problem<T>& problem, std::span<const probe> probes,
                                           const tensor<T>& parameters, const std::vector<token_list>& lists,
                                           std::span<const std::int64_t> sources);

/// Random streams of a seed: one for the order of the sentences, one per fold and epoch for the order of the tokens,
/// one per fold and layer for the first parameters.
enum class probe_stream : std::uint64_t { sentences = 1, epochs = 2, parameters = 3 };
constexpr std::uint64_t stream_of(probe_stream purpose, std::int64_t fold, std::int64_t number) {
  return static_cast<std::uint64_t>(purpose) << 60 | static_cast<std::uint64_t>(fold) << 32 |
         static_cast<std::uint64_t>(number);
}

}  // namespace nullscope::detail
