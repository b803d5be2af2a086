/// From norms of Jacobians to contributions; on the host.
#pragma once

#include <cstdint>
#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <vector>

namespace nullscope::detail {

/// Whether standard errors can be estimated from so many tangents, and are not 0.
constexpr bool has_standard_errors(std::int64_t samples, std::int64_t width) { return samples >= 2 && samples < width; }

/// Sums over the tangents of a token of v and of v^2, where v is a squared length: (layers, S, S) each. `squares` is
/// empty where there are no standard errors.
struct tangent_sums {
  std::vector<double> sum, squares;
};

/// Fills norm, contribution and standard_error of `to` from sums over `samples` of `width` orthonormal tangents. Takes
/// the sums apart, as they may be most of the memory.
void fill_contributions(tangent_sums sums, std::int64_t samples, std::int64_t width, attribution& to);

/// contribution = norm, each row divided by its sum.
void normalise_rows_of_norms(attribution& of);

}  // namespace nullscope::detail
