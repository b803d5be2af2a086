/// What the functions on tensors share: matrices as a batch, which of a batch failed, and errors between launches.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <exception>
#include <nullscope/errors.hpp>
#include <nullscope/svd.hpp>
#include <nullscope/tensor.hpp>
#include <string_view>
#include <vector>

namespace nullscope::detail {

/// Where an error leaves the scope of tensors, waits for the kernels that were launched before it and still use their
/// memory. Declared after the tensors.
class wait_on_error {
 public:
  explicit wait_on_error(sycl::queue& queue) : queue_(queue) {}
  ~wait_on_error() {
    if (std::uncaught_exceptions() == before_) return;
    try {
      queue_.wait();
    } catch (const sycl::exception&) {  // the first error counts
    }
  }
  wait_on_error(const wait_on_error&) = delete;

 private:
  sycl::queue& queue_;
  int before_ = std::uncaught_exceptions();
};

/// (batch, rows, columns), or (rows, columns) as a batch of one.
template <class T>
view<const T, 3> as_batch(std::string_view function, std::string_view operand, const tensor<T>& x) {
  if (x.shape().size() == 3) return x.template as<3>();
  if (x.shape().size() == 2) return contiguous(x.data(), 1, x.shape()[0], x.shape()[1]);
  throw invalid_argument(
      fmt::format("{}: {} {} is neither a matrix nor a batch of matrices", function, operand, x.shape()));
}

/// The places of those that did not converge, from the status that `svd` gives, or whose rank is not known.
inline std::vector<std::int64_t> failed_ids(const std::vector<std::int32_t>& status,
                                            const std::vector<std::int64_t>& rank = {}) {
  std::vector<std::int64_t> failed;
  for (std::size_t i = 0; i < status.size(); ++i) {
    if (status[i] != svd_converged || (!rank.empty() && rank[i] < 0)) failed.push_back(static_cast<std::int64_t>(i));
  }
  return failed;
}

}  // namespace nullscope::detail
