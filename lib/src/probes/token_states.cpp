#include <algorithm>
#include <nullscope/core/operation.hpp>
#include <nullscope/linalg/rows.hpp>
#include <nullscope/probes/token_identifiability.hpp>
#include <numeric>

#include "lib/src/core/checks.hpp"

namespace nullscope {
namespace {

/// The places of the sequences, the shortest first, in groups of similar length that fill a batch.
std::vector<std::vector<std::size_t>> groups_of(std::span<const token_batch::sequence> sequences) {
  constexpr std::size_t tokens_together = 4096;
  std::vector<std::size_t> order(sequences.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto length = [&](std::size_t i) { return sequences[i].ids.size(); };
  std::ranges::stable_sort(order, {}, length);
  std::vector<std::vector<std::size_t>> groups;
  for (const std::size_t i : order) {
    const bool fits = !groups.empty() && (groups.back().size() + 1) * length(i) <= tokens_together;
    if (!fits) groups.emplace_back();
    groups.back().push_back(i);
  }
  return groups;
}

}  // namespace

template <class T>
token_states<T> read_token_states(context& ctx, const transformer<T>& model,
                                  std::span<const token_batch::sequence> sequences,
                                  const std::function<void(double)>& progress) {
  transformer_config config = model.config();
  config.pairs = false;  // the texts of a pair are read one by one
  const token_batch check_of_all(ctx, config, sequences);
  token_states<T> states;
  std::vector<std::int64_t> first{0};
  for (const token_batch::sequence& one : sequences) {
    states.sentences.push_back(std::ssize(one.ids));
    first.push_back(first.back() + states.sentences.back());
  }
  const std::int64_t tokens = first.back(), d = config.width, layers = config.layers;
  states.inputs = tensor<T>(ctx, {tokens, d});
  states.hidden = tensor<T>(ctx, {layers, tokens, d});
  std::int64_t done = 0;
  for (const std::vector<std::size_t>& group : groups_of(sequences)) {
    std::vector<token_batch::sequence> of_group;
    for (const std::size_t i : group) of_group.push_back(sequences[i]);
    const token_batch batch(ctx, config, of_group);
    const std::int64_t b = batch.size(), s = batch.tokens();
    operation op(ctx, "read_token_states");
    const view<T, 4> hidden = op.take_array<T>(layers + 1, b, s, d);
    const view<T, 3> embedded = op.take_array<T>(b, s, d);
    forward(ctx, model, batch, forward_results<T>{.hidden = hidden, .embedded = embedded});
    for (std::int64_t i = 0; i < b; ++i) {
      const std::size_t place = group[static_cast<std::size_t>(i)];
      const std::int64_t length = states.sentences[place], begin = first[place];
      const auto rows_of = [&](tensor<T>& x, std::int64_t planes) {
        return slice(contiguous(x.data(), planes, tokens, d), 1, begin, length);
      };
      copy(ctx, view<const T, 3>(slice(select(embedded, 0, i), 0, 0, length)), rows_of(states.inputs, 1));
      copy(ctx, view<const T, 3>(slice(select(slice(hidden, 0, 1, layers), 1, i), 1, 0, length)),
           rows_of(states.hidden, layers));
    }
    op.submit_and_wait();
    done += std::ssize(group);
    if (progress) progress(static_cast<double>(done) / static_cast<double>(sequences.size()));
  }
  return states;
}

template token_states<float> read_token_states(context&, const transformer<float>&,
                                               std::span<const token_batch::sequence>,
                                               const std::function<void(double)>&);
template token_states<double> read_token_states(context&, const transformer<double>&,
                                                std::span<const token_batch::sequence>,
                                                const std::function<void(double)>&);

}  // namespace nullscope
