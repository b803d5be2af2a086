/// Random choices on the host, in the order in which they are asked for.
#pragma once

#include <cstdint>
#include <nullscope/linalg/random.hpp>
#include <numeric>
#include <vector>

namespace nullscope::detail {

class random_draws {
 public:
  explicit random_draws(random_stream stream) : stream_(stream) {}

  double uniform() { return uniform_at<double>(stream_, next_++); }

  /// 0 to count - 1.
  std::int64_t below(std::int64_t count) {
    const auto drawn = static_cast<std::int64_t>(uniform() * static_cast<double>(count));
    return drawn < count ? drawn : count - 1;
  }

  /// `chosen` of the numbers 0 to count - 1, all different, in random order.
  const std::vector<std::int32_t>& subset(std::int64_t chosen, std::int64_t count) {
    if (static_cast<std::int64_t>(order_.size()) != count) {
      order_.resize(static_cast<std::size_t>(count));
      std::iota(order_.begin(), order_.end(), 0);
    }
    for (std::int64_t i = 0; i < chosen; ++i) {  // what earlier calls have left is as good an order as any
      std::swap(order_[static_cast<std::size_t>(i)], order_[static_cast<std::size_t>(i + below(count - i))]);
    }
    subset_.assign(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(chosen));
    return subset_;
  }

 private:
  random_stream stream_;
  std::int64_t next_ = 0;
  std::vector<std::int32_t> order_, subset_;
};

}  // namespace nullscope::detail
