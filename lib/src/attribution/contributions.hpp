/// From norms of Jacobians to contributions; on the host.
#pragma once

#include <cstdint>
#include <nullscope/hidden_token_attribution.hpp>
#include <vector>

namespace nullscope::detail {

/// Sums over the tangents of a token of v and of v^2, where v is a squared length: (layers, S, S) each.
struct tangent_sums {
  std::vector<double> sum, squares;
};

/// Fills norm, contribution and standard_error of `to` from sums over `samples` of `width` orthonormal tangents.
void fill_contributions(const tangent_sums& sums, std::int64_t samples, std::int64_t width, attribution& to);

/// contribution = norm, each row divided by its sum.
void normalise_rows_of_norms(attribution& of);

}  // namespace nullscope::detail
