#include "lib/src/model/pass.hpp"

#include <nullscope/linalg/rows.hpp>

namespace nullscope::detail {

template <class T>
void drop(const pass<T>& p, const view<T, 2>& x, std::int64_t layer, dropout_place place) {
  if (!p.has_dropout()) return;
  constexpr std::uint64_t streams_per_layer = 4;
  const std::uint64_t number =
      static_cast<std::uint64_t>(layer) * streams_per_layer + static_cast<std::uint64_t>(place);
  const random_stream stream{p.dropout.seed, p.dropout.stream + number};
  dropout(p.ctx, x, x, {.probability = p.config.dropout, .stream = stream});
}

template <class T>
void product(const pass<T>& p, const linear_operands<T>& operands, const linear_results<T>& results,
             const linear_options& options) {
  if constexpr (std::is_same_v<T, float>) {
    if (p.rounded != nullptr) {
      operation op(p.ctx, "forward");
      const auto x = op.take_array<bfloat16>(operands.x.extent[0], operands.x.extent[1]);
      copy(p.ctx, operands.x, x);
      linear(p.ctx, linear_operands<bfloat16>{x, rounded_part(operands.w, p.values, p.rounded), operands.bias}, results,
             options);
      op.submit();
      return;
    }
  }
  linear(p.ctx, operands, results, options);
}

template <class T>
view<T, 2> undrop(operation& op, const pass<T>& p, const view<T, 2>& d_sum, std::int64_t layer, dropout_place place) {
  if (!p.has_dropout()) return d_sum;
  const view<T, 2> result = op.take_array<T>(d_sum.extent[0], d_sum.extent[1]);
  copy(p.ctx, d_sum, result);
  drop(p, result, layer, place);
  return result;
}

template void drop(const pass<float>&, const view<float, 2>&, std::int64_t, dropout_place);
template void drop(const pass<double>&, const view<double, 2>&, std::int64_t, dropout_place);
template void product(const pass<float>&, const linear_operands<float>&, const linear_results<float>&,
                      const linear_options&);
template void product(const pass<double>&, const linear_operands<double>&, const linear_results<double>&,
                      const linear_options&);
template view<float, 2> undrop(operation&, const pass<float>&, const view<float, 2>&, std::int64_t, dropout_place);
template view<double, 2> undrop(operation&, const pass<double>&, const view<double, 2>&, std::int64_t, dropout_place);

}  // namespace nullscope::detail
