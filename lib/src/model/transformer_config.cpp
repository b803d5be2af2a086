#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nullscope/core/errors.hpp>
#include <nullscope/model/transformer.hpp>
#include <string_view>

namespace nullscope {
namespace {

/// Products of two extents then fit 63 bits; ids and positions have 32.
constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();

void check_extent(std::string_view member, std::int64_t value, std::int64_t least) {
  if (value < least) {
    throw invalid_argument(fmt::format("transformer_config: {} is {}; it must be at least {}", member, value, least));
  }
  if (value > largest) {
    throw invalid_argument(fmt::format("transformer_config: {} is {}; it must be at most {}", member, value, largest));
  }
}

void fail(std::string_view why) { throw invalid_argument(fmt::format("transformer_config: {}", why)); }

}  // namespace

void transformer_config::validate() const {
  constexpr std::int64_t largest_head = 512;
  check_extent("layers", layers, 0);
  check_extent("width", width, 1);
  check_extent("heads", heads, 1);
  check_extent("key_size", key_size, 1);
  check_extent("value_size", value_size, 1);
  check_extent("feed_forward", feed_forward, 1);
  check_extent("vocabulary", vocabulary, 1);
  check_extent("positions", positions, 1);
  check_extent("first_position", first_position, 0);
  check_extent("segments", segments, 0);
  check_extent("relative_buckets", relative_buckets, 0);
  check_extent("classes", classes, 0);
  if (key_size > largest_head) fail(fmt::format("key_size is {}; attention takes heads of at most 512", key_size));
  if (value_size > largest_head)
    fail(fmt::format("value_size is {}; attention takes heads of at most 512", value_size));
  if (relative_buckets > 0 && (relative_buckets < 4 || relative_buckets % 2 != 0)) {
    fail(fmt::format("relative_buckets is {}; it must be even and at least 4", relative_buckets));
  }
  if (relative_buckets > 256) fail(fmt::format("relative_buckets is {}; at most 256 are possible", relative_buckets));
  if (relative_buckets > 0 && relative_distance <= relative_buckets / 4) {
    fail(fmt::format("relative_distance is {}; it must be above relative_buckets / 4", relative_distance));
  }
  if (!(norm_epsilon >= 0)) fail(fmt::format("norm_epsilon is {}; it must not be negative", norm_epsilon));
  if (!(dropout >= 0 && dropout < 1)) fail(fmt::format("dropout is {}; it must be from 0 to below 1", dropout));
  if (pairs && classes == 0) fail("pairs need a classifier (classes above 0)");
}

}  // namespace nullscope
