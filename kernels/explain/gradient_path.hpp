/// Points between two inputs of a model, and what the gradients there say about each token.
#pragma once

#include <nullscope/core/view.hpp>

#include "kernels/linalg/row.hpp"

namespace nullscope::kernels {

/// points (P, S, d) = baseline + share (input - baseline), input and baseline (S, d), shares (P). One group per row.
template <class T, int W, int Items>
struct path_points {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<const T, 2> input, baseline;
  view<const T, 1> shares;
  view<T, 3> points;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    const std::int64_t tokens = input.extent[0], p = members.number() / tokens, i = members.number() % tokens;
    const row<const T, W> from{&baseline(i, 0), 1}, to{&input(i, 0), 1};
    const row<T, W> out{&points(p, i, 0), 1};
    const pack<T, W> share(shares(p));
    walk<W, 1>(members, input.extent[1], [&](auto, std::int64_t c, auto lanes) {
      const pack<T, W> low = from.load(c, lanes);
      out.store(c, fma(share, to.load(c, lanes) - low, low), lanes);
    });
  }
};

/// figures (P, S, 3): |g|, <g, embedding of the token>, <g, input - baseline> for the gradients g (P, S, d) and the
/// embeddings (S, d). One group per row.
template <class T, int W, int Items>
struct gradient_figures {
  static constexpr const char* source = __FILE__;
  static constexpr bool one_work_item = Items == 1;

  view<const T, 3> gradients;
  view<const T, 2> embeddings, input, baseline;
  view<T, 3> figures;
  std::int64_t busy_groups = all_groups;  // the launch sets it, and puts several into a work-group

  void operator()(sycl::nd_item<1> item, std::byte* local) const {
    group<Items> members(item, local, busy_groups);
    const std::int64_t tokens = input.extent[0], p = members.number() / tokens, i = members.number() % tokens;
    const row<const T, W> gradient{&gradients(p, i, 0), 1}, embedding{&embeddings(i, 0), 1};
    const row<const T, W> from{&baseline(i, 0), 1}, to{&input(i, 0), 1};
    pack<T, W> squares(T(0)), along_token(T(0)), along_path(T(0));
    walk<W, 1>(members, input.extent[1], [&](auto, std::int64_t c, auto lanes) {
      const pack<T, W> g = gradient.load(c, lanes);
      squares = fma(g, g, squares);
      along_token = fma(g, embedding.load(c, lanes), along_token);
      along_path = fma(g, to.load(c, lanes) - from.load(c, lanes), along_path);
    });
    const T norm = sycl::sqrt(members.sum(squares)), token = members.sum(along_token), path = members.sum(along_path);
    if (members.rank() != 0) return;
    figures(p, i, 0) = norm;
    figures(p, i, 1) = token;
    figures(p, i, 2) = path;
  }
};

}  // namespace nullscope::kernels
