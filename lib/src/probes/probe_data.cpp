#include "lib/src/probes/probe_data.hpp"

#include <algorithm>
#include <nullscope/linalg/rows.hpp>

#include "kernels/probes/nearest_token.hpp"
#include "kernels/probes/probe_loss.hpp"
#include "lib/src/linalg/row_launch.hpp"

namespace nullscope::detail {
namespace {

/// Launches make.operator()<W, Items>() over the rows of x (probes, rows, d).
template <class T, class Make>
void launch_over_rows(operation& op, const view<const T, 3>& x, std::int64_t passes, Make make) {
  const std::int64_t row_bytes = passes * x.extent[2] * static_cast<std::int64_t>(sizeof(T));
  launch_rows<T>(op, {x.extent[0] * x.extent[1], x.extent[2], true, row_bytes}, make);
}

}  // namespace

device_lists::device_lists(context& ctx, const std::vector<token_list>& lists,
                           const std::vector<kernels::probe_choice>& of_probe, std::int64_t offset) {
  std::int64_t longest = 0;
  std::vector<std::int32_t> counts;
  for (const token_list& list : lists) {
    counts.push_back(static_cast<std::int32_t>(list.size()));
    longest = std::max<std::int64_t>(longest, std::ssize(list));
  }
  std::vector<std::int32_t> tokens(lists.size() * static_cast<std::size_t>(longest));
  for (std::size_t i = 0; i < lists.size(); ++i) {
    std::copy(lists[i].begin(), lists[i].end(), tokens.begin() + static_cast<std::ptrdiff_t>(i) * longest);
  }
  tokens_ = tensor<std::int32_t>(ctx, {std::ssize(lists), longest}, tokens);
  counts_ = tensor<std::int32_t>(ctx, {std::ssize(lists)}, counts);
  of_probe_ = tensor<kernels::probe_choice>(ctx, {std::ssize(of_probe)}, of_probe);
  lists_ = {tokens_.data(), counts_.data(), of_probe_.data(), longest, 0, offset};
}

template <class T>
probe_data<T>::probe_data(context& ctx, const tensor<T>& inputs, const tensor<T>& hidden,
                          std::span<const std::int64_t> sentences, bool all_planes)
    : states_{inputs.data(), hidden.data(), inputs.shape()[0], inputs.shape()[1]}, layers_(hidden.shape()[0]) {
  std::vector<std::int32_t> begin, end;
  first_token_.push_back(0);
  for (const std::int64_t length : sentences) {
    const std::int64_t first = first_token_.back();
    begin.insert(begin.end(), static_cast<std::size_t>(length), static_cast<std::int32_t>(first));
    end.insert(end.end(), static_cast<std::size_t>(length), static_cast<std::int32_t>(first + length));
    first_token_.push_back(first + length);
  }
  const std::int64_t tokens = states_.tokens;
  begin_ = tensor<std::int32_t>(ctx, {tokens}, begin);
  end_ = tensor<std::int32_t>(ctx, {tokens}, end);
  norms_ = tensor<T>(ctx, {all_planes ? layers_ + 1 : 1, tokens});
  const view<T, 2> norms = norms_;
  operation op(ctx, "token_identifiability");
  row_reduce(ctx, view<const T, 3>(inputs), slice(norms, 0, 0, 1), row_reduction::norm);
  if (all_planes) row_reduce(ctx, view<const T, 3>(hidden), slice(norms, 0, 1, layers_), row_reduction::norm);
  op.submit_and_wait();
}

template <class T>
token_list probe_data<T>::tokens_of(std::span<const std::int64_t> sentences, std::int64_t offset) const {
  token_list tokens;
  for (const std::int64_t s : sentences) {
    const std::int64_t begin = first_token_[static_cast<std::size_t>(s)],
                       end = first_token_[static_cast<std::size_t>(s) + 1];
    for (std::int64_t i = std::max(begin, begin - offset); i < std::min(end, end - offset); ++i) {
      tokens.push_back(static_cast<std::int32_t>(i));
    }
  }
  return tokens;
}

template <class T>
void probe_data<T>::gather(operation& op, const kernels::probe_lists& lists, const view<T, 3>& e) const {
  launch_over_rows<T>(op, e, 2, [&]<int W, int Items>() {
    return kernels::gather_states<T, W, Items>{states_, lists, e, 0};
  });
}

template <class T>
void probe_data<T>::loss(operation& op, const kernels::probe_lists& lists, probe_distance distance, const view<T, 3>& y,
                         const view<T, 2>& loss, bool with_gradient) const {
  launch_over_rows<T>(op, y, 2, [&]<int W, int Items>() {
    return kernels::probe_loss<T, W, Items>{states_,       lists, y, loss, distance == probe_distance::cosine,
                                            with_gradient, 0};
  });
}

template <class T>
void probe_data<T>::nearest(operation& op, const kernels::probe_lists& lists, probe_distance distance,
                            const view<const T, 3>& y, const view<std::int32_t, 2>& correct) const {
  constexpr std::int64_t neighbours = 32;  // about as many rows are read for each
  launch_over_rows<T>(op, y, neighbours, [&]<int W, int Items>() {
    return kernels::nearest_token<T, W, Items>{
        states_, lists, begin_.data(), end_.data(), norms_.data(), distance == probe_distance::cosine, y, correct, 0};
  });
}

template class probe_data<float>;
template class probe_data<double>;

}  // namespace nullscope::detail
