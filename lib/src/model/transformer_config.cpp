#include <fmt/format.h>

#include <nullscope/errors.hpp>
#include <nullscope/transformer_config.hpp>
#include <string_view>

namespace nullscope {
namespace {

void at_least(std::string_view member, std::int64_t value, std::int64_t least) {
  if (value >= least) return;
  throw invalid_argument(fmt::format("transformer_config: {} is {}; it must be at least {}", member, value, least));
}

void fail(std::string_view why) { throw invalid_argument(fmt::format("transformer_config: {}", why)); }

}  // namespace

void transformer_config::validate() const {
  constexpr std::int64_t largest_head = 512;
  at_least("layers", layers, 0);
  at_least("width", width, 1);
  at_least("heads", heads, 1);
  at_least("key_size", key_size, 1);
  at_least("value_size", value_size, 1);
  at_least("feed_forward", feed_forward, 1);
  at_least("vocabulary", vocabulary, 1);
  at_least("positions", positions, 1);
  at_least("first_position", first_position, 0);
  at_least("segments", segments, 0);
  at_least("relative_buckets", relative_buckets, 0);
  at_least("classes", classes, 0);
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
