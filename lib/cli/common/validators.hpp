/// Checks of option values, with messages that say what is expected.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

namespace nullscope::cli {

/// The whole text must be a number of this type that `accept` accepts; `wanted` describes such numbers.
template <class Number, class Accept>
CLI::Validator number_validator(std::string wanted, std::string name, Accept accept) {
  return CLI::Validator(
      [wanted = std::move(wanted), accept](std::string& text) -> std::string {
        Number number{};
        const char* const end = text.data() + text.size();
        const auto [stop, failure] = std::from_chars(text.data(), end, number);
        if (failure == std::errc{} && stop == end && accept(number)) return "";
        if (failure == std::errc::result_out_of_range) return fmt::format("\"{}\" is out of range", text);
        return fmt::format("\"{}\" is not a {}", text, wanted);
      },
      std::move(name));
}

inline CLI::Validator positive_integer() {
  return number_validator<std::int64_t>("whole number above 0", "POSITIVE", [](std::int64_t x) { return x > 0; });
}

inline CLI::Validator natural_number() {
  return number_validator<std::int64_t>("whole number of at least 0", "NONNEGATIVE",
                                        [](std::int64_t x) { return x >= 0; });
}

inline CLI::Validator seed_number() {
  return number_validator<std::uint64_t>("whole number from 0 to 2^64 - 1", "NONNEGATIVE",
                                         [](std::uint64_t) { return true; });
}

inline CLI::Validator positive_number() {
  return number_validator<double>("number above 0", "POSITIVE", [](double x) { return x > 0 && std::isfinite(x); });
}

inline CLI::Validator not_negative_number() {
  return number_validator<double>("number of at least 0", "NONNEGATIVE",
                                  [](double x) { return x >= 0 && std::isfinite(x); });
}

/// A path that is not empty; whether the file exists is checked when it is opened.
inline CLI::Validator some_path() {
  return CLI::Validator([](std::string& text) { return std::string(text.empty() ? "the path is empty" : ""); }, "PATH");
}

}  // namespace nullscope::cli
