#include <algorithm>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/core/operation.hpp>
#include <string>

#include "lib/src/attention/effective_attention_checks.hpp"
#include "lib/src/core/batches.hpp"

namespace nullscope {
namespace {

template <class T>
std::string describe(const char* operand, const tensor<T>& x) {
  return fmt::format("{} [{}]", operand, fmt::join(x.shape(), ", "));
}

/// q, k and v (batch, heads, rows, columns); h (heads, d_v, d), or absent.
template <class T>
struct batch_of_heads {
  view<const T, 4> q, k, v;
  view<const T, 3> h;
  view<const T, 4> bias;
  const std::vector<std::int64_t>& lengths;

  std::int64_t batch() const { return q.extent[0]; }
  std::int64_t length(std::int64_t sequence) const {
    return lengths.empty() ? k.extent[2] : lengths[static_cast<std::size_t>(sequence)];
  }

  /// The heads of one sequence, with its padding.
  attention_heads<T> padded(std::int64_t sequence) const {
    return {select(q, 0, sequence), select(k, 0, sequence), select(v, 0, sequence), h,
            bias.is_absent() ? view<const T, 3>{} : select(bias, 0, sequence)};
  }

  /// The same without padding.
  attention_heads<T> sequence(std::int64_t sequence) const {
    attention_heads<T> heads = padded(sequence);
    if (!lengths.empty()) heads.q = slice(heads.q, 1, 0, length(sequence));
    heads.k = slice(heads.k, 1, 0, length(sequence));
    heads.v = slice(heads.v, 1, 0, length(sequence));
    if (!bias.is_absent()) heads.bias = slice(slice(heads.bias, 1, 0, heads.q.extent[1]), 2, 0, length(sequence));
    return heads;
  }
};

/// x as (batch, heads, rows, columns); a tensor of 3 dimensions is a batch of one.
template <class T>
view<const T, 4> heads_of(const char* operand, const tensor<T>& x) {
  if (x.shape().size() == 4 || x.shape().size() == 3) return x;
  throw invalid_argument(fmt::format("{}: {} should be [batch, heads, S, d] or [heads, S, d]",
                                     detail::effective_attention_name, describe(operand, x)));
}

/// h (heads, d_v, d), or an absent view for tensor<T>{}.
template <class T>
view<const T, 3> projection_of(const tensor<T>& h) {
  if (h.shape() == tensor<T>().shape()) return {};
  if (h.shape().size() != 3) {
    throw invalid_argument(
        fmt::format("{}: {} should be [heads, d_v, d]", detail::effective_attention_name, describe("h", h)));
  }
  const view<const T, 3> projection = h;
  if (projection.is_absent())
    check::fail(detail::effective_attention_name, "h", projection, "is empty");  // it would count as no h
  return projection;
}

void check_lengths(const std::vector<std::int64_t>& lengths, std::int64_t batch, std::int64_t tokens) {
  if (lengths.empty()) return;
  if (std::cmp_not_equal(lengths.size(), batch)) {
    throw invalid_argument(
        fmt::format("{}: {} lengths for {} sequences", detail::effective_attention_name, lengths.size(), batch));
  }
  for (const std::int64_t length : lengths) {
    if (length < 1 || length > tokens) {
      throw invalid_argument(fmt::format("{}: a length of {} in sequences of {} tokens",
                                         detail::effective_attention_name, length, tokens));
    }
  }
}

template <class T>
batch_of_heads<T> checked_batch(const tensor<T>& q, const tensor<T>& k, const tensor<T>& v, const tensor<T>& h,
                                const effective_attention_tensor_options<T>& options) {
  const std::vector<std::int64_t>& lengths = options.lengths;
  const batch_of_heads<T> all{heads_of("q", q), heads_of("k", k), heads_of("v", v),
                              projection_of(h), options.bias,     lengths};
  if (all.k.extent[0] != all.batch() || all.v.extent[0] != all.batch()) {
    throw invalid_argument(fmt::format("{}: {}, {} and {} differ in the number of sequences",
                                       detail::effective_attention_name, describe("q", q), describe("k", k),
                                       describe("v", v)));
  }
  // Before anything is cut to a length: slices of k and v would always agree. An empty batch is checked as well.
  detail::check_head_shapes(detail::effective_attention_name, all.padded(0));
  detail::check_bias(detail::effective_attention_name, "bias", all.bias,
                     {all.batch(), all.q.extent[1], all.q.extent[2], all.k.extent[2]});
  check_lengths(lengths, all.batch(), all.k.extent[2]);
  if (!lengths.empty() && all.q.extent[2] != all.k.extent[2]) {
    throw invalid_argument(fmt::format("{}: {} and {} differ in their tokens, and lengths were given",
                                       detail::effective_attention_name, describe("q", q), describe("k", k)));
  }
  return all;
}

/// Tensors for the results of all sequences. `shapes` are those of the batch; without one the first extent goes.
template <class T>
effective_attention_tensors<T> allocate(context& ctx, const batch_of_heads<T>& all, bool has_batch) {
  const std::int64_t batch = all.batch(), heads = all.q.extent[1], queries = all.q.extent[2], keys = all.k.extent[2];
  const std::int64_t columns = all.padded(0).basis_columns();
  const auto make = [&](std::vector<std::int64_t> shape) {
    if (!has_batch) shape.erase(shape.begin());
    return tensor<T>(ctx, shape);
  };
  effective_attention_tensors<T> result;
  result.p = make({batch, heads, queries, columns});
  result.u = make({batch, heads, keys, columns});
  result.s = make({batch, heads, columns});
  result.log_sum_exp = make({batch, heads, queries});
  result.received_raw = make({batch, heads, keys});
  result.received_effective = make({batch, heads, keys});
  return result;
}

/// Padding and columns beyond the rank of a short sequence stay zero.
template <class T>
void clear(operation& op, effective_attention_tensors<T>& result) {
  step_order order = step_order::next;
  for (tensor<T>* x :
       {&result.p, &result.u, &result.s, &result.log_sum_exp, &result.received_raw, &result.received_effective}) {
    if (x->size() == 0) continue;
    detail::fill_zero(op, *x, order);
    order = step_order::beside;
  }
}

/// The first rows and columns of one sequence of x (batch, heads, rows, columns).
template <class T>
view<T, 3> part_of(const view<T, 4>& x, std::int64_t sequence, std::int64_t rows, std::int64_t columns) {
  return slice(slice(select(x, 0, sequence), 1, 0, rows), 2, 0, columns);
}

template <class T>
view<T, 2> part_of(const view<T, 3>& x, std::int64_t sequence, std::int64_t columns) {
  return slice(select(x, 0, sequence), 1, 0, columns);
}

}  // namespace

template <class T>
effective_attention_tensors<T> effective_attention(context& ctx, const tensor<T>& q, const tensor<T>& k,
                                                   const tensor<T>& v, const tensor<T>& h,
                                                   const effective_attention_tensor_options<T>& options) {
  const batch_of_heads<T> all = checked_batch(q, k, v, h, options);
  const std::int64_t batch = all.batch(), heads = all.q.extent[1];
  effective_attention_tensors<T> result = allocate(ctx, all, q.shape().size() == 4);
  tensor<std::int64_t> rank(ctx, {batch, heads});
  tensor<std::int32_t> status(ctx, {batch, heads});
  tensor<effective_attention_summary<T>> summary(ctx, {batch, heads});

  operation op(ctx, detail::effective_attention_name);
  clear(op, result);
  for (std::int64_t b = 0; b < batch; ++b) {
    const attention_heads<T> sequence = all.sequence(b);
    const std::int64_t queries = sequence.q.extent[1], keys = sequence.k.extent[1], columns = sequence.basis_columns();
    effective_attention(
        ctx, sequence,
        effective_attention_results<T>{.p = part_of<T>(result.p, b, queries, columns),
                                       .u = part_of<T>(result.u, b, keys, columns),
                                       .s = part_of<T>(result.s, b, columns),
                                       .rank = select(rank.as<2>(), 0, b),
                                       .status = select(status.as<2>(), 0, b),
                                       .log_sum_exp = part_of<T>(result.log_sum_exp, b, queries),
                                       .summary = select(summary.template as<2>(), 0, b),
                                       .received_raw = part_of<T>(result.received_raw, b, keys),
                                       .received_effective = part_of<T>(result.received_effective, b, keys)},
        options);
  }
  op.submit_and_wait();

  result.rank = rank.to_host();
  const std::vector<std::int64_t> failed = failed_ids(status.to_host(), result.rank);
  if (!failed.empty()) {
    throw computation_error(
        fmt::format("{}: {} of {} heads hold NaN or infinity, overflow, or did not converge: {}",
                    detail::effective_attention_name, failed.size(), status.size(), fmt::join(failed, ", ")),
        failed);
  }
  for (std::size_t i = 0; i < result.rank.size(); ++i) {
    result.null_dimension.push_back(all.length(static_cast<std::int64_t>(i) / heads) - result.rank[i]);
  }
  result.summary = summary.to_host();
  return result;
}

template effective_attention_tensors<float> effective_attention(context&, const tensor<float>&, const tensor<float>&,
                                                                const tensor<float>&, const tensor<float>&,
                                                                const effective_attention_tensor_options<float>&);
template effective_attention_tensors<double> effective_attention(context&, const tensor<double>&, const tensor<double>&,
                                                                 const tensor<double>&, const tensor<double>&,
                                                                 const effective_attention_tensor_options<double>&);

}  // namespace nullscope
