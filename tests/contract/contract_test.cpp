/// What every public function promises (context.hpp): wrong operands give a typed error that names the operand, before
/// anything is written. Each function of the table is called with every extent of every operand and result made one
/// larger, one smaller, zero, one, negative and huge, with null pointers, with negative strides and with results whose
/// elements overlap.
///
/// Calls are made dry first: a missing check shows as an accepted call, not as a crash.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <filesystem>
#include <regex>

#include "tests/cli/command.hpp"
#include "tests/contract/function_row.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {

void PrintTo(const function_row& row, std::ostream* stream) { *stream << row.name; }

namespace {

const function_table& all_functions() {
  static const function_table all = [] {
    const bool fp64 = properties(select_device()).fp64;
    function_table table;
    for (const auto functions : {linalg_functions, decomposition_functions, null_space_functions, attention_functions,
                                 model_functions, attribution_functions, structure_functions, probes_functions}) {
      table = joined(std::move(table), functions(fp64));
    }
    return table;
  }();
  return all;
}

shape_of_operand dense_strides(const shape_of_operand& extent) {
  shape_of_operand stride(extent.size());
  std::int64_t elements = 1;
  for (std::size_t d = extent.size(); d-- > 0; elements *= extent[d]) stride[d] = elements;
  return stride;
}

/// The message speaks of this operand. A name of one letter could be a word: it must come with its shape, "a (" or
/// "a [".
bool names(const std::string& message, const std::string& name) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t i = message.find(name); i != std::string::npos; i = message.find(name, i + 1)) {
    const std::string behind = message.substr(i + name.size(), 2);
    const bool ends = name.size() == 1 ? behind == " (" || behind == " [" : behind.empty() || !is_word(behind[0]);
    if (ends && (i == 0 || !is_word(message[i - 1]))) return true;
  }
  return false;
}

class contract_test : public testing::TestWithParam<function_row> {
 protected:
  static constexpr const char* waiting = "functions on tensors wait for their results";

  contract_test() {
    constexpr std::int64_t largest_element = 32;  // bytes
    for (const operand& one : row_.operands) {
      std::int64_t bytes = largest_element;
      for (const std::int64_t extent : one.shape) bytes *= extent + 1;
      rubbish_[one.name].assign(static_cast<std::size_t>(bytes), std::byte{0xa5});
      memory_.emplace(one.name, tensor<std::byte>(ctx_, {bytes}, rubbish_[one.name], sycl::usm::alloc::shared));
      right_[one.name] = {memory_.at(one.name).data(), one.shape, dense_strides(one.shape)};
    }
  }

  /// The arguments with another one for this operand.
  arguments with(const operand& changed, const argument& wrong) const {
    arguments result = right_;
    result[changed.name] = wrong;
    return result;
  }

  argument with_shape(const operand& of, const shape_of_operand& shape) const {
    return {right_[of.name].data, shape, dense_strides(shape)};
  }

  /// The error of the call, or nothing if it was accepted.
  std::string error_of(const arguments& x, bool is_dry) {
    try {
      if (is_dry) {
        dry_run(ctx_, [&](context& ctx) { row_.call(ctx, x); });
      } else {
        row_.call(ctx_, x);
      }
    } catch (const error& failure) {
      const std::string message = failure.what();
      return message.find(waiting) != std::string::npos ? "" : message;  // it came so far that it would have run
    }
    return "";
  }

  void expect_accepted(const arguments& x, const std::string& what) {
    EXPECT_EQ(error_of(x, true), "") << what << " should be accepted";
  }

  /// The error must name the operand itself, or, for extents that do not agree, one of them.
  void expect_refused(const arguments& x, const operand& changed, const std::string& what, bool any_name = false) {
    std::string message = error_of(x, true);
    if (message.empty()) {
      ADD_FAILURE() << what << " was accepted";
      return;
    }
    bool is_named = names(message, changed.name);
    for (const operand& one : row_.operands) is_named |= any_name && names(message, one.name);
    EXPECT_TRUE(is_named) << what << ": the error does not name it: " << message;
    if (row_.kind == function_kind::on_tensors) return;  // nothing that could be overwritten
    EXPECT_NE(error_of(x, false), "") << what << " was accepted";
    ctx_.queue().wait();
    for (const auto& [name, bytes] : memory_) {
      const std::span<const std::byte> now = bytes.span();
      EXPECT_TRUE(std::equal(now.begin(), now.end(), rubbish_[name].begin())) << what << ": " << name << " was written";
    }
  }

  context ctx_{select_device()};
  const function_row& row_ = GetParam();
  std::map<std::string, std::vector<std::byte>> rubbish_;
  std::map<std::string, tensor<std::byte>> memory_;
  arguments right_;
};

INSTANTIATE_TEST_SUITE_P(functions, contract_test, testing::ValuesIn(all_functions()),
                         [](const testing::TestParamInfo<function_row>& info) { return info.param.name; });

TEST_P(contract_test, accepts_shapes_that_agree) { expect_accepted(right_, "what agrees"); }

TEST_P(contract_test, refuses_every_extent_that_does_not_agree) {
  for (const operand& one : row_.operands) {
    for (int d = 0; d < static_cast<int>(one.shape.size()); ++d) {
      const std::int64_t right = one.shape[static_cast<std::size_t>(d)];
      for (const std::int64_t extent : std::set<std::int64_t>{0, 1, right - 1, right + 1}) {
        shape_of_operand shape = one.shape;
        shape[static_cast<std::size_t>(d)] = extent;
        const arguments x = with(one, with_shape(one, shape));
        const std::string what = fmt::format("{} ({})", one.name, fmt::join(shape, ", "));
        if (one.allows(d, extent)) {
          expect_accepted(x, what);
        } else {
          expect_refused(x, one, what, !one.is_result || one.leading_dimensions.contains(d));
        }
      }
    }
  }
}

TEST_P(contract_test, refuses_extents_that_cannot_be) {
  if (row_.kind == function_kind::on_tensors) GTEST_SKIP() << "no tensor has them";
  for (const operand& one : row_.operands) {
    for (std::size_t d = 0; d < one.shape.size(); ++d) {
      for (const std::int64_t extent : {std::int64_t{-1}, std::int64_t{1} << 62}) {
        argument wrong = right_[one.name];
        wrong.extent[d] = extent;
        expect_refused(with(one, wrong), one, fmt::format("{} ({})", one.name, fmt::join(wrong.extent, ", ")));
      }
    }
  }
}

TEST_P(contract_test, refuses_null_pointers) {
  if (row_.kind == function_kind::on_tensors) GTEST_SKIP() << "no tensor has them";
  for (const operand& one : row_.operands) {
    argument wrong = right_[one.name];
    wrong.data = nullptr;
    expect_refused(with(one, wrong), one, one.name + " without memory");
  }
}

TEST_P(contract_test, refuses_strides_that_are_negative_or_overlap_in_a_result) {
  if (row_.kind == function_kind::on_tensors) GTEST_SKIP() << "no tensor has them";
  for (const operand& one : row_.operands) {
    for (std::size_t d = 0; d < one.shape.size(); ++d) {
      argument wrong = right_[one.name];
      wrong.stride[d] = -wrong.stride[d];
      const auto what = [&] { return fmt::format("{} with strides ({})", one.name, fmt::join(wrong.stride, ", ")); };
      if (one.any_strides) {
        expect_accepted(with(one, wrong), what());
        continue;
      }
      expect_refused(with(one, wrong), one, what());
      wrong.stride[d] = 0;
      if (one.is_result && one.shape[d] > 1) expect_refused(with(one, wrong), one, what());
    }
  }
}

TEST_P(contract_test, refuses_tensors_of_too_few_or_too_many_dimensions) {
  if (row_.kind == function_kind::on_views) GTEST_SKIP() << "its views have a number of dimensions";
  for (const operand& one : row_.operands) {
    if (one.shape.size() == 1) continue;
    for (const shape_of_operand& shape : {shape_of_operand{one.shape.back()}, shape_of_operand(6, 2)}) {
      const std::string what = fmt::format("{} ({})", one.name, fmt::join(shape, ", "));
      expect_refused(with(one, with_shape(one, shape)), one, what, !one.is_result);
    }
  }
}

/// Functions that take no operands, or host data, files and whole models, and need no row.
const std::set<std::string>& functions_without_row() {
  static const std::set<std::string> known{"launch",
                                           "warm_up",
                                           "warm_up_library",
                                           "dry_run",
                                           "required_workspace",
                                           "load_transformer",
                                           "save_transformer",
                                           "read_states",
                                           "read_attention_parts",
                                           "read_token_states",
                                           "jacobian_blocks",
                                           "hidden_token_attribution",
                                           "check_attribution",
                                           "fit_slalom",
                                           "fit_linear",
                                           "explained_transformer",
                                           "explain",
                                           "measure_faithfulness",
                                           "evaluate",
                                           "save_classifier",
                                           "rounded_values",
                                           "with_new_classifier"};
  return known;
}

TEST(contract, has_a_row_for_every_public_function) {
  const std::regex declaration(R"((?:^|\n)[a-z][^\n(]*[ >](\w+)\(context& )");
  std::set<std::string> found;
  for (const auto& file : std::filesystem::recursive_directory_iterator(NULLSCOPE_PUBLIC_HEADERS)) {
    if (!file.is_regular_file()) continue;
    const std::string text = content_of(file.path());
    for (std::sregex_iterator i(text.begin(), text.end(), declaration), end; i != end; ++i) found.insert((*i)[1]);
  }
  EXPECT_GE(found.size(), 25u) << "of the functions in " << NULLSCOPE_PUBLIC_HEADERS;
  for (const std::string& function : found) {
    if (functions_without_row().contains(function)) continue;
    const auto is_row = [&](const function_row& row) { return row.name.starts_with(function + "_"); };
    EXPECT_TRUE(std::ranges::any_of(all_functions(), is_row)) << function << " has no row in tests/contract";
  }
  for (const std::string& function : functions_without_row()) {
    EXPECT_TRUE(found.contains(function)) << function << " is no public function any more";
  }
}

TEST(names, finds_operands_and_not_articles) {
  EXPECT_TRUE(names("f: a (1, 2) has a negative extent", "a"));
  EXPECT_TRUE(names("f: dimension 1 of d_q [1, 2] differs", "d_q"));
  EXPECT_FALSE(names("f: b (1, 2) has a negative extent", "a"));
  EXPECT_FALSE(names("f: d_q (1, 2) has a negative extent", "q"));
  EXPECT_FALSE(names("q: d_q (1, 2) has a negative extent", "q"));
  EXPECT_TRUE(names("f: 2 lengths for 3 sequences", "lengths"));
  EXPECT_FALSE(names("range_basis: u (1, 2) has a null pointer", "basis"));
}

}  // namespace
}  // namespace nullscope::test
