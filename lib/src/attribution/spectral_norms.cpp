#include "lib/src/attribution/spectral_norms.hpp"

#include <cmath>
#include <nullscope/linalg/gemm.hpp>
#include <nullscope/linalg/random.hpp>

#include "lib/src/attribution/row_products.hpp"

namespace nullscope::detail {

template <class T>
void find_spectral_norms(operation& op, const view<T, 4>& tangents, std::int64_t per_token, std::int64_t iterations,
                         spectral_buffers<T>& buffers) {
  operation part(op.ctx(), "spectral_norms");
  const std::int64_t d = tangents.extent[3], tokens = tangents.extent[2] / per_token;
  const std::int64_t blocks = tangents.extent[0] * tangents.extent[1] * tokens;
  // (blocks, directions, d): the transposes of the blocks of all input tokens. All at once and by the library's own
  // kernels: thousands of small steps that oneMKL submits are slow to schedule.
  const view<T, 3> block = contiguous(tangents.data, blocks, per_token, d);
  const view<T, 3> u = part.take_array<T>(blocks, per_token, 1), v = part.take_array<T>(blocks, d, 1),
                   w = part.take_array<T>(blocks, per_token, 1);
  const view<T, 2> norm = part.take_array<T>(blocks, 1);
  const auto rows = [&](const view<T, 3>& x) { return contiguous(x.data, blocks, 1, x.extent[1]); };
  const gemm_options own{.path = gemm_path::own};
  fill_normal(op.ctx(), contiguous(v.data, blocks * d), {0x5bec7, 0});
  for (std::int64_t n = 0; n < iterations; ++n) {
    gemm(op.ctx(), {block, v}, u, own);
    normalise_rows<T>(op.ctx(), rows(u), norm);
    gemm(op.ctx(), {transposed(block), u}, v, own);
    if (n + 1 < iterations) normalise_rows<T>(op.ctx(), rows(v), norm);
  }
  gemm(op.ctx(), {block, v}, w, own);
  buffers.width = per_token;
  buffers.tokens = tokens;
  const auto to_host = [&](const view<T, 3>& from, std::vector<T>& to) {
    to.resize(static_cast<std::size_t>(from.size()));
    part.run([data = from.data, host = to.data(), size = to.size()](sycl::queue& queue, const events& dependencies) {
      return queue.copy(static_cast<const T*>(data), host, size, dependencies);
    });
  };
  to_host(u, buffers.u);
  to_host(w, buffers.w);
  part.submit();
}

template <class T>
std::vector<spectral_results> spectral_norms_of(const spectral_buffers<T>& buffers) {
  const auto d = static_cast<std::size_t>(buffers.width), tokens = static_cast<std::size_t>(buffers.tokens);
  std::vector<spectral_results> all(tokens);
  for (std::size_t row = 0; row < buffers.u.size(); row += d) {
    double square = 0, error = 0;  // sigma^2 = u^T J J^T u
    for (std::size_t c = row; c < row + d; ++c) {
      square += static_cast<double>(buffers.u[c]) * static_cast<double>(buffers.w[c]);
    }
    for (std::size_t c = row; c < row + d; ++c) {
      const double difference = static_cast<double>(buffers.w[c]) - square * static_cast<double>(buffers.u[c]);
      error += difference * difference;
    }
    spectral_results& of_token = all[row / d % tokens];
    of_token.sigma.push_back(std::sqrt(std::max(square, 0.0)));
    of_token.residual.push_back(square > 0 ? std::sqrt(error) / square : 0);
  }
  return all;
}

template void find_spectral_norms(operation&, const view<float, 4>&, std::int64_t, std::int64_t,
                                  spectral_buffers<float>&);
template void find_spectral_norms(operation&, const view<double, 4>&, std::int64_t, std::int64_t,
                                  spectral_buffers<double>&);
template std::vector<spectral_results> spectral_norms_of(const spectral_buffers<float>&);
template std::vector<spectral_results> spectral_norms_of(const spectral_buffers<double>&);

}  // namespace nullscope::detail
