/// effective_attention and its dense matrices: q, k, v (batch, heads, tokens, d), or without the batch. Sequences are
/// cut to their lengths, as views; nothing is copied.
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/svd.hpp>
#include <optional>

#include "arrays.hpp"
#include "bindings.hpp"

namespace nullscope::python {
namespace {

constexpr const char* function = "effective_attention";

struct heads_call {
  array q, k, v;
  std::optional<array> h, bias;
  std::vector<std::int64_t> lengths;  // empty: no padding
};

/// Views of all sequences.
template <class T>
struct heads_views {
  view<const T, 4> q, k, v;
  view<const T, 3> h, bias;  // bias: (batch * heads, queries, keys)
  const std::vector<std::int64_t>& lengths;

  heads_views(device_handle& where, context& ctx, heads_call& call)
      : q(call.q.as<T, 4>(where, ctx)),
        k(call.k.as<T, 4>(where, ctx)),
        v(call.v.as<T, 4>(where, ctx)),
        lengths(call.lengths) {
    const shape_type heads{q.extent[1]}, all{q.extent[0], q.extent[1]};
    if (call.h) h = call.h->as<T, 3>(where, ctx, &heads);
    if (call.bias) bias = call.bias->as<T, 3>(where, ctx, &all);
    check();
  }

  std::int64_t batch() const { return q.extent[0]; }
  std::int64_t heads() const { return q.extent[1]; }
  std::int64_t keys(std::int64_t sequence) const {
    return lengths.empty() ? k.extent[2] : lengths[static_cast<std::size_t>(sequence)];
  }
  std::int64_t queries(std::int64_t sequence) const { return lengths.empty() ? q.extent[2] : keys(sequence); }

  /// One sequence without its padding.
  attention_heads<T> sequence(std::int64_t i) const {
    attention_heads<T> one{slice(select(q, 0, i), 1, 0, queries(i)), slice(select(k, 0, i), 1, 0, keys(i)),
                           slice(select(v, 0, i), 1, 0, keys(i)), h};
    if (!bias.is_absent()) {
      one.bias = slice(slice(slice(bias, 0, i * heads(), heads()), 1, 0, queries(i)), 2, 0, keys(i));
    }
    return one;
  }

 private:
  /// What cannot be seen any more once the sequences are cut to their lengths.
  void check() const {
    const auto differ = [](const char* what, std::int64_t a, std::int64_t b, std::int64_t c) {
      throw invalid_argument(fmt::format("{}: q, k and v have {}, {} and {} {}", function, a, b, c, what));
    };
    if (k.extent[0] != batch() || v.extent[0] != batch()) differ("sequences", batch(), k.extent[0], v.extent[0]);
    if (k.extent[1] != heads() || v.extent[1] != heads()) differ("heads", heads(), k.extent[1], v.extent[1]);
    if (k.extent[2] != v.extent[2] || (!lengths.empty() && q.extent[2] != k.extent[2])) {
      differ("tokens", q.extent[2], k.extent[2], v.extent[2]);
    }
    if (lengths.empty()) return;
    if (std::cmp_not_equal(lengths.size(), batch())) {
      throw invalid_argument(fmt::format("{}: {} lengths for {} sequences", function, lengths.size(), batch()));
    }
    for (const std::int64_t length : lengths) {
      if (length >= 1 && length <= k.extent[2]) continue;
      throw invalid_argument(
          fmt::format("{}: a length of {} in sequences of {} tokens", function, length, k.extent[2]));
    }
  }
};

/// The first rows and columns of one sequence of x (batch, heads, rows, columns).
template <class T>
view<T, 3> part_of(const view<T, 4>& x, std::int64_t sequence, std::int64_t rows, std::int64_t columns) {
  return slice(slice(select(x, 0, sequence), 1, 0, rows), 2, 0, columns);
}
template <class T>
view<T, 2> part_of(const view<T, 3>& x, std::int64_t sequence, std::int64_t columns) {
  return slice(select(x, 0, sequence), 1, 0, columns);
}

/// The results of effective_attention for sequences that are padded to the longest: the rest of them is 0.
template <class T>
class found_attention {
 public:
  found_attention(device_handle& where, context& ctx, const heads_call& call, const heads_views<T>& all)
      : place_(call.q.place()) {
    const shape_type outer = call.q.leading(2);
    const std::int64_t queries = all.q.extent[2], keys = all.k.extent[2];
    const attention_heads<T> padded{select(all.q, 0, 0), select(all.k, 0, 0), select(all.v, 0, 0), all.h};
    const std::int64_t columns = padded.basis_columns();
    const auto make = [&](result<T>& of, std::initializer_list<std::int64_t> inner) {
      of = {where, ctx, place_, joined(outer, inner)};
      of.fill_zero(ctx);
    };
    make(p_, {queries, columns});
    make(u_, {keys, columns});
    make(s_, {columns});
    make(log_sum_exp_, {queries});
    make(received_raw_, {keys});
    make(received_effective_, {keys});
    for (result<T>* of : {&pearson_, &raw_norm_, &effective_norm_, &null_norm_}) *of = {where, ctx, {}, outer};
    rank_ = {where, ctx, {}, outer};
    status_ = {where, ctx, {}, {all.batch(), all.heads()}};
    summary_ = {where, ctx, {}, {all.batch(), all.heads()}};
  }

  void compute(context& ctx, const heads_views<T>& all, const effective_attention_options& options) {
    operation op(ctx, function);
    for (std::int64_t b = 0; b < all.batch(); ++b) {
      const attention_heads<T> one = all.sequence(b);
      const std::int64_t c = one.basis_columns();
      effective_attention(ctx, one,
                          effective_attention_results<T>{
                              .p = part_of(p_.template as<4>(), b, all.queries(b), c),
                              .u = part_of(u_.template as<4>(), b, all.keys(b), c),
                              .s = part_of(s_.template as<3>(), b, c),
                              .rank = select(rank_.template as<2>(), 0, b),
                              .status = select(status_.template as<2>(), 0, b),
                              .log_sum_exp = part_of(log_sum_exp_.template as<3>(), b, all.queries(b)),
                              .summary = select(summary_.template as<2>(), 0, b),
                              .received_raw = part_of(received_raw_.template as<3>(), b, all.keys(b)),
                              .received_effective = part_of(received_effective_.template as<3>(), b, all.keys(b))},
                          options);
    }
    op.submit_and_wait();
  }

  /// Throws computation_error if there are heads that failed.
  void bring_to_host(context& ctx) {
    rank_.bring_to_host(ctx, {});
    status_.bring_to_host(ctx, {});
    summary_.bring_to_host(ctx, {});
    require_converged(function, status_, rank_);
    for (result<T>* of : {&pearson_, &raw_norm_, &effective_norm_, &null_norm_}) of->bring_to_host(ctx, {});
    for (std::int64_t i = 0; i < summary_.size(); ++i) {
      pearson_.data()[i] = summary_.data()[i].pearson;
      raw_norm_.data()[i] = summary_.data()[i].raw_norm;
      effective_norm_.data()[i] = summary_.data()[i].effective_norm;
      null_norm_.data()[i] = summary_.data()[i].null_norm;
    }
    for (result<T>* of : {&p_, &u_, &s_, &log_sum_exp_, &received_raw_, &received_effective_}) {
      of->bring_to_host(ctx, place_);
    }
  }

  nb::dict release() {
    nb::dict found;
    found["p"] = p_.release(place_);
    found["u"] = u_.release(place_);
    found["s"] = s_.release(place_);
    found["log_sum_exp"] = log_sum_exp_.release(place_);
    found["received_raw"] = received_raw_.release(place_);
    found["received_effective"] = received_effective_.release(place_);
    found["rank"] = rank_.release({});
    found["pearson"] = pearson_.release({});
    found["raw_norm"] = raw_norm_.release({});
    found["effective_norm"] = effective_norm_.release({});
    found["null_norm"] = null_norm_.release({});
    return found;
  }

 private:
  placement place_;
  result<T> p_, u_, s_, log_sum_exp_, received_raw_, received_effective_, pearson_, raw_norm_, effective_norm_,
      null_norm_;
  result<std::int64_t> rank_;
  result<std::int32_t> status_;
  result<effective_attention_summary<T>> summary_;
};

template <class T>
nb::dict effective_attention_of(device_handle& where, heads_call& call, const effective_attention_options& options) {
  std::optional<found_attention<T>> found;
  without_gil(where, [&](context& ctx) {
    const heads_views<T> all(where, ctx, call);
    found.emplace(where, ctx, call, all);
    found->compute(ctx, all, options);
    found->bring_to_host(ctx);
  });
  return found->release();
}

/// What effective_attention found, and goes into its dense matrices.
struct found_factors {
  array log_sum_exp, p, u;
};

template <class T>
nb::object dense_of(device_handle& where, heads_call& call, found_factors& found,
                    const attention_part_options& options) {
  const placement place = call.q.place();
  result<T> out;
  without_gil(where, [&](context& ctx) {
    const heads_views<T> all(where, ctx, call);
    const view<const T, 3> log_sum_exp = found.log_sum_exp.as<T, 3>(where, ctx);
    const view<const T, 4> p = found.p.as<T, 4>(where, ctx), u = found.u.as<T, 4>(where, ctx);
    out = {where, ctx, place, joined(call.q.leading(2), {all.q.extent[2], all.k.extent[2]})};
    out.fill_zero(ctx);
    operation op(ctx, "dense");
    for (std::int64_t b = 0; b < all.batch(); ++b) {
      const attention_heads<T> one = all.sequence(b);
      const std::int64_t queries = all.queries(b), keys = all.keys(b), c = p.extent[3];
      attention_part(ctx,
                     attention_factors<T>{one.q, one.k, part_of(log_sum_exp, b, queries), part_of(p, b, queries, c),
                                          part_of(u, b, keys, c), one.bias},
                     part_of(out.template as<4>(), b, queries, keys), options);
    }
    op.submit_and_wait();
    out.bring_to_host(ctx, place);
  });
  return out.release(place);
}

heads_call call_of(nb::handle q, nb::handle k, nb::handle v, nb::handle h, nb::handle bias,
                   std::vector<std::int64_t> lengths) {
  heads_call call{{function, "q", q}, {function, "k", k}, {function, "v", v}, {}, {}, std::move(lengths)};
  for (const array* one : {&call.q, &call.k, &call.v}) one->require_dimensions(2, 4);
  if (!h.is_none()) {
    call.h.emplace(function, "h", h);
    call.h->require_dimensions(2, 3);
    call.h->require_type_of(call.q);
  }
  if (!bias.is_none()) {
    call.bias.emplace(function, "bias", bias);
    call.bias->require_dimensions(2, 4);
    call.bias->require_type_of(call.q);
  }
  for (const array* one : {&call.k, &call.v}) one->require_type_of(call.q);
  return call;
}

attention_matrix matrix_named(const std::string& name) {
  if (name == "effective") return attention_matrix::effective;
  if (name == "raw") return attention_matrix::raw;
  if (name == "null") return attention_matrix::null_part;
  throw invalid_argument(fmt::format("dense: the matrix is \"{}\"; expected \"effective\", \"raw\" or \"null\"", name));
}

}  // namespace

void bind_effective_attention(nb::module_& m) {
  m.def(
      "effective_attention",
      [](device_handle& where, nb::handle q, nb::handle k, nb::handle v, nb::handle h, nb::handle bias,
         std::vector<std::int64_t> lengths, double scale, bool causal, double relative, double absolute) {
        heads_call call = call_of(q, k, v, h, bias, std::move(lengths));
        const effective_attention_options options{scale, causal, {relative, absolute}};
        return by_type(call.q,
                       [&](auto number) { return effective_attention_of<decltype(number)>(where, call, options); });
      },
      nb::arg("device"), nb::arg("q").none(), nb::arg("k").none(), nb::arg("v").none(), nb::arg("h").none(),
      nb::arg("bias").none(), nb::arg("lengths"), nb::arg("scale"), nb::arg("causal"), nb::arg("relative"),
      nb::arg("absolute"));
  m.def(
      "dense_attention",
      [](device_handle& where, nb::handle q, nb::handle k, nb::handle bias, std::vector<std::int64_t> lengths,
         double scale, bool causal, nb::handle log_sum_exp, nb::handle p, nb::handle u, const std::string& matrix) {
        heads_call call = call_of(q, k, k, nb::none(), bias, std::move(lengths));
        found_factors found{{"dense", "log_sum_exp", log_sum_exp}, {"dense", "p", p}, {"dense", "u", u}};
        const attention_part_options options{.matrix = matrix_named(matrix), .scale = scale, .causal = causal};
        return by_type(call.q, [&](auto number) { return dense_of<decltype(number)>(where, call, found, options); });
      },
      nb::arg("device"), nb::arg("q").none(), nb::arg("k").none(), nb::arg("bias").none(), nb::arg("lengths"),
      nb::arg("scale"), nb::arg("causal"), nb::arg("log_sum_exp").none(), nb::arg("p").none(), nb::arg("u").none(),
      nb::arg("matrix"));
}

}  // namespace nullscope::python
