/// Spectral norms of the blocks of a Jacobian, by power iterations.
#pragma once

#include <cstdint>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/view.hpp>
#include <vector>

namespace nullscope::detail {

/// What the steps leave on the host for one layer: u (batch * rows, input tokens, d) of length 1 and w = J J^T u.
template <class T>
struct spectral_buffers {
  std::int64_t width = 0, tokens = 0;
  std::vector<T> u, w;
};

/// One number per (batch, row).
struct spectral_results {
  std::vector<double> sigma, residual;
};

/// tangents (batch, rows, slots, d): the slots are all `per_token` = d directions of one input token after the other.
/// `buffers` is filled when the operation is complete, and must live until then.
template <class T>
void find_spectral_norms(operation& op, const view<T, 4>& tangents, std::int64_t per_token, std::int64_t iterations,
                         spectral_buffers<T>& buffers);

/// For each input token.
template <class T>
std::vector<spectral_results> spectral_norms_of(const spectral_buffers<T>& buffers);

}  // namespace nullscope::detail
