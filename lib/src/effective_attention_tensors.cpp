#include <algorithm>
#include <nullscope/effective_attention.hpp>

#include "batches.hpp"

namespace nullscope {
namespace {

constexpr const char* name = "effective_attention";

template <class T>
std::string describe(const char* operand, const tensor<T>& x) {
  return fmt::format("{} [{}]", operand, fmt::join(x.shape(), ", "));
}

/// x as (batch, heads, rows, columns); a tensor of 3 dimensions is a batch of one.
template <class T>
view<const T, 4> as_batch(const char* operand, const tensor<T>& x) {
  if (x.shape().size() == 4) return x.template as<4>();
  if (x.shape().size() != 3) {
    throw invalid_argument(
        fmt::format("{}: {} should be [batch, heads, S, d] or [heads, S, d]", name, describe(operand, x)));
  }
  const view<const T, 3> one = x.template as<3>();
  return {one.data,
          {1, one.extent[0], one.extent[1], one.extent[2]},
          {one.size(), one.stride[0], one.stride[1], one.stride[2]}};
}

/// h (heads, dv, d), or an empty view for tensor<T>{}.
template <class T>
view<const T, 3> as_projection(const tensor<T>& h) {
  if (h.shape() == tensor<T>().shape()) return {};
  if (h.shape().size() == 3) return h.template as<3>();
  throw invalid_argument(fmt::format("{}: {} should be [heads, d_v, d]", name, describe("h", h)));
}

/// One sequence of a batch, its first `length` tokens: (heads, length, columns).
template <class T>
view<T, 3> tokens_of(const view<T, 4>& x, std::int64_t sequence, std::int64_t length) {
  return {x.data + sequence * x.stride[0], {x.extent[1], length, x.extent[3]}, {x.stride[1], x.stride[2], x.stride[3]}};
}

/// Entry `sequence` of (batch, heads, columns), the first `columns` of them.
template <class T>
view<T, 2> row_of(const view<T, 3>& x, std::int64_t sequence, std::int64_t columns) {
  return {x.data + sequence * x.stride[0], {x.extent[1], columns}, {x.stride[1], x.stride[2]}};
}

void check_lengths(const std::vector<std::int64_t>& lengths, std::int64_t batch, std::int64_t tokens) {
  if (lengths.empty()) return;
  if (std::cmp_not_equal(lengths.size(), batch)) {
    throw invalid_argument(fmt::format("{}: {} lengths for {} sequences", name, lengths.size(), batch));
  }
  for (const std::int64_t length : lengths) {
    if (length < 1 || length > tokens) {
      throw invalid_argument(fmt::format("{}: a length of {} in sequences of {} tokens", name, length, tokens));
    }
  }
}

template <class T>
tensor<T> zeros(sycl::queue& queue, std::vector<std::int64_t> shape, bool has_batch) {
  if (!has_batch) shape.erase(shape.begin());
  tensor<T> result(queue, shape);
  if (result.size() > 0) queue.fill(result.data(), T(0), static_cast<std::size_t>(result.size())).wait();
  return result;
}

/// (batch, heads, columns) of a tensor that may lack the batch.
template <int Rank, class T>
view<T, Rank> with_batch(tensor<T>& x, bool has_batch) {
  if (has_batch) return x.template as<Rank>();
  const view<T, Rank - 1> one = x.template as<Rank - 1>();
  view<T, Rank> result{one.data, {1}, {one.size()}};
  for (int d = 1; d < Rank; ++d) {
    result.extent[d] = one.extent[d - 1];
    result.stride[d] = one.stride[d - 1];
  }
  return result;
}

}  // namespace

template <class T>
effective_attention_tensors<T> effective_attention(sycl::queue& queue, const tensor<T>& q, const tensor<T>& k,
                                                   const tensor<T>& v, const tensor<T>& h,
                                                   const effective_attention_options& options,
                                                   const std::vector<std::int64_t>& lengths) {
  const bool has_batch = q.shape().size() == 4;
  const view<const T, 4> queries = as_batch("q", q), keys = as_batch("k", k), values = as_batch("v", v);
  const std::int64_t batch = queries.extent[0], heads = queries.extent[1], tokens = keys.extent[2];
  if (keys.extent[0] != batch || values.extent[0] != batch) {
    throw invalid_argument(fmt::format("{}: {}, {} and {} differ in the number of sequences", name, describe("q", q),
                                       describe("k", k), describe("v", v)));
  }
  check_lengths(lengths, batch, tokens);
  if (!lengths.empty() && queries.extent[2] != tokens) {
    throw invalid_argument(fmt::format("{}: {} and {} differ in their tokens, and lengths were given", name,
                                       describe("q", q), describe("k", k)));
  }
  const view<const T, 3> projection = as_projection(h);
  const auto sequence_of = [&](std::int64_t b) -> attention_heads<T> {
    const std::int64_t length = lengths.empty() ? tokens : lengths[static_cast<std::size_t>(b)];
    return {tokens_of(queries, b, lengths.empty() ? queries.extent[2] : length), tokens_of(keys, b, length),
            tokens_of(values, b, length), projection};
  };
  const attention_heads<T> largest{tokens_of(queries, 0, queries.extent[2]), tokens_of(keys, 0, tokens),
                                   tokens_of(values, 0, tokens), projection};
  const std::int64_t columns = largest.basis_columns();
  std::int64_t scratchpad_bytes = 0;  // shorter sequences may take another way, which needs more
  for (std::int64_t b = 0; b < batch; ++b) {
    scratchpad_bytes = std::max(scratchpad_bytes, effective_attention_scratchpad_size<T>(queue, sequence_of(b)));
  }

  effective_attention_tensors<T> result;
  result.p = zeros<T>(queue, {batch, heads, queries.extent[2], columns}, has_batch);
  result.u = zeros<T>(queue, {batch, heads, tokens, columns}, has_batch);
  result.s = zeros<T>(queue, {batch, heads, columns}, has_batch);
  result.log_sum_exp = zeros<T>(queue, {batch, heads, queries.extent[2]}, has_batch);
  result.received_raw = zeros<T>(queue, {batch, heads, tokens}, has_batch);
  result.received_effective = zeros<T>(queue, {batch, heads, tokens}, has_batch);
  tensor<std::int64_t> rank(queue, {batch, heads});
  tensor<std::int32_t> status(queue, {batch, heads});
  tensor<effective_attention_summary<T>> summary(queue, {batch, heads});
  tensor<std::byte> scratchpad(queue, {scratchpad_bytes});
  const detail::wait_on_error guard(queue);

  for (std::int64_t b = 0; b < batch; ++b) {
    const attention_heads<T> sequence = sequence_of(b);
    const std::int64_t asked = sequence.q.extent[1], length = sequence.k.extent[1], used = sequence.basis_columns();
    const effective_attention_results<T> to{slice(tokens_of(with_batch<4>(result.p, has_batch), b, asked), 2, 0, used),
                                            slice(tokens_of(with_batch<4>(result.u, has_batch), b, length), 2, 0, used),
                                            row_of(with_batch<3>(result.s, has_batch), b, used),
                                            {rank.data() + b * heads, {heads}, {1}},
                                            {status.data() + b * heads, {heads}, {1}},
                                            row_of(with_batch<3>(result.log_sum_exp, has_batch), b, asked),
                                            {summary.data() + b * heads, {heads}, {1}},
                                            row_of(with_batch<3>(result.received_raw, has_batch), b, length),
                                            row_of(with_batch<3>(result.received_effective, has_batch), b, length)};
    effective_attention<T>(queue, sequence, to, scratchpad.span(), options).wait_and_throw();
  }

  result.rank = rank.to_host();
  const std::vector<std::int64_t> failed = detail::failed_ids(status.to_host(), result.rank);
  if (!failed.empty()) {
    throw computation_error(fmt::format("{}: {} of {} heads hold NaN or infinity, overflow, or did not converge: {}",
                                        name, failed.size(), status.size(), fmt::join(failed, ", ")),
                            failed);
  }
  for (std::size_t i = 0; i < result.rank.size(); ++i) {
    const std::size_t b = i / static_cast<std::size_t>(heads);
    result.null_dimension.push_back((lengths.empty() ? tokens : lengths[b]) - result.rank[i]);
  }
  result.summary = summary.to_host();
  return result;
}

template effective_attention_tensors<float> effective_attention(sycl::queue&, const tensor<float>&,
                                                                const tensor<float>&, const tensor<float>&,
                                                                const tensor<float>&,
                                                                const effective_attention_options&,
                                                                const std::vector<std::int64_t>&);
template effective_attention_tensors<double> effective_attention(sycl::queue&, const tensor<double>&,
                                                                 const tensor<double>&, const tensor<double>&,
                                                                 const tensor<double>&,
                                                                 const effective_attention_options&,
                                                                 const std::vector<std::int64_t>&);

}  // namespace nullscope
