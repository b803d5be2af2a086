#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <nullscope/io/safetensors.hpp>

#include "tests/cli/nullscope_program.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

TEST(cli, help_and_version_succeed) {
  for (const char* arguments : {"--help", "devices --help", "effective-attention --help", "models --help",
                                "rank --help", "sweep --help", "svd --help", "warm-up --help"}) {
    const command_result result = nullscope(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments;
    EXPECT_NE(result.out.find("nullscope"), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("Exit codes: 0 success; 1 "), std::string::npos) << result.out;
    EXPECT_EQ(result.err, "");
  }
  EXPECT_EQ(nullscope("--version").out.rfind("nullscope 0.", 0), 0u);
}

TEST(cli, wrong_usage_is_one_line_and_exit_code_2) {
  expect_complaint("", 2, "subcommand");
  expect_complaint(
      "nonsense", 2,
      "there is no command \"nonsense\"; the commands are: attention, devices, effective-attention, encode");
  expect_complaint("devices --no-such-flag", 2, "--no-such-flag");
  expect_complaint("devices --device", 2, "--device");
}

TEST(cli, a_device_that_is_not_there_is_exit_code_1) {
  expect_complaint("devices --device 'no such device'", 1, "no device fits \"no such device\"; there are: 0 ");
}

TEST(cli, devices_prints_text_and_json) {
  const std::string name = properties(devices().front()).name;
  EXPECT_NE(nullscope("devices").out.find(name), std::string::npos);
  const auto list = nlohmann::json::parse(nullscope("devices --json --device 0").out);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["name"], name);
  EXPECT_GT(list[0]["compute_units"], 0);
}

#ifndef NULLSCOPE_SINGLE_SOURCE
TEST(cli, devices_are_there_when_opencl_alone_is_asked_for) {
  for (const char* selector : {"opencl:*", "opencl:cpu", "*:cpu"}) {
    const command_result result = run_command(
        "/usr/bin/env", std::string("'ONEAPI_DEVICE_SELECTOR=") + selector + "' " NULLSCOPE_PROGRAM " devices");
    EXPECT_EQ(result.exit_code, 0) << selector << ": " << result.err;
    EXPECT_NE(result.out.find("(cpu)"), std::string::npos) << selector;
  }
}
#endif

TEST(cli, output_that_is_lost_is_exit_code_1) {
  for (const std::string arguments : {"devices", "--version", "sweep --help"}) {
    const command_result result = run_command("/bin/sh", "-c '" NULLSCOPE_PROGRAM " " + arguments + " > /dev/full'");
    EXPECT_EQ(result.exit_code, 1) << arguments;
    EXPECT_EQ(result.err.rfind("nullscope: cannot write to standard output", 0), 0u) << arguments << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << arguments << result.err;
  }
}

class cli_files : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }

  temporary_folder folder_;
};

TEST_F(cli_files, svd_writes_what_rebuilds_the_matrices) {
  const std::vector<float> a{3, 0, 0, 4, 0, 0, 1, 2, 2, 4, 3, 6};  // [2, 3, 2]: sigma 4, 3 and then rank one
  write_safetensors(path("in.safetensors"), {make_entry("a", {2, 3, 2}, a)});
  const command_result result =
      nullscope("svd --input " + path("in.safetensors") + " --output " + path("out.safetensors"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out + result.err, "");
  const safetensors_file out(path("out.safetensors"));
  const auto s = out.read<float>(out.at("s", {2, 2})), u = out.read<float>(out.at("u", {2, 3, 2}));
  const auto vt = out.read<float>(out.at("vt", {2, 2, 2}));
  EXPECT_EQ(out.read<std::int64_t>(out.at("rank", {2})), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(out.read<std::int32_t>(out.at("status", {2})), (std::vector<std::int32_t>{0, 0}));
  EXPECT_NEAR(s[0], 4, 1e-5);
  EXPECT_NEAR(s[1], 3, 1e-5);
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 2; ++j) {
        float sum = 0;
        for (std::size_t k = 0; k < 2; ++k) sum += u[b * 6 + i * 2 + k] * s[b * 2 + k] * vt[b * 4 + k * 2 + j];
        EXPECT_NEAR(sum, a[b * 6 + i * 2 + j], 1e-5);
      }
    }
  }
}

TEST_F(cli_files, svd_of_one_matrix_has_no_batch_and_flags_choose_the_vectors) {
  const std::vector<double> a{1, 2, 3, 4, 5, 6};
  write_safetensors(path("in.safetensors"), {make_entry("weight", {3, 2}, a)});
  const std::string files =
      "--tensor weight --input " + path("in.safetensors") + " --output " + path("out.safetensors");
  ASSERT_EQ(nullscope("svd --values-only " + files).exit_code, 0);
  EXPECT_EQ(safetensors_file(path("out.safetensors")).names(), (std::vector<std::string>{"s", "rank", "status"}));
  ASSERT_EQ(nullscope("svd --full --overwrite " + files).exit_code, 0);
  const safetensors_file out(path("out.safetensors"));
  EXPECT_EQ(out.at("u", {3, 3}).type, element_type::f64);
  EXPECT_EQ(out.at("rank").shape, std::vector<std::int64_t>{});
  expect_complaint("svd --full --values-only " + files, 2, "--values-only");
}

TEST_F(cli_files, svd_marks_matrices_with_nan_and_fails) {
  const std::vector<float> a{1, 0, 0, 1, NAN, 0, 0, 1};
  write_safetensors(path("in.safetensors"), {make_entry("a", {2, 2, 2}, a)});
  expect_complaint("svd --input " + path("in.safetensors") + " --output " + path("out.safetensors"), 1,
                   "1 of 2 matrices");
  const safetensors_file out(path("out.safetensors"));
  EXPECT_EQ(out.read<std::int32_t>("status"), (std::vector<std::int32_t>{0, 2}));
  EXPECT_EQ(out.read<float>("s")[0], 1);
}

TEST_F(cli_files, rank_takes_t_or_its_factors) {
  std::vector<float> v(20 * 3), h(3 * 5), t(20 * 5, 0);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i * i % 17) - 8;
  for (std::size_t i = 0; i < h.size(); ++i) h[i] = static_cast<float>(i * i % 11) - 5;
  for (std::size_t i = 0; i < 20; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      for (std::size_t k = 0; k < 3; ++k) t[i * 5 + j] += v[i * 3 + k] * h[k * 5 + j];
    }
  }
  write_safetensors(path("factors.safetensors"), {make_entry("v", {20, 3}, v), make_entry("h", {3, 5}, h)});
  write_safetensors(path("t.safetensors"), {make_entry("t", {1, 20, 5}, t)});
  for (const char* file : {"factors.safetensors", "t.safetensors"}) {
    const command_result result = nullscope("rank --ones --json --input " + path(file));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto rows = nlohmann::json::parse(result.out);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0]["rank"], 3);
    EXPECT_EQ(rows[0]["null_dim"], 17);
    EXPECT_EQ(rows[0]["null_dim_with_ones"], 16);
  }
  EXPECT_EQ(nlohmann::json::parse(nullscope("rank --atol 1e9 --json --input " + path("t.safetensors")).out)[0]["rank"],
            0);
  EXPECT_NE(nullscope("rank --input " + path("t.safetensors")).out.find("sigma_max"), std::string::npos);
}

TEST_F(cli_files, effective_attention_writes_factors_that_rebuild_the_matrices) {
  const auto q = random_numbers<float>(2 * 9 * 4, 1), k = random_numbers<float>(2 * 9 * 4, 2),
             v = random_numbers<float>(2 * 9 * 3, 3), h = random_numbers<float>(2 * 3 * 5, 4);
  write_safetensors(path("in.safetensors"), {make_entry("q", {2, 9, 4}, q), make_entry("k", {2, 9, 4}, k),
                                             make_entry("v", {2, 9, 3}, v), make_entry("h", {2, 3, 5}, h)});
  const std::string files = "--input " + path("in.safetensors") + " --output " + path("out.safetensors");
  const command_result result = nullscope("effective-attention --dense " + files);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("null_dim"), std::string::npos) << result.out;
  const safetensors_file out(path("out.safetensors"));
  const auto p = out.read<float>(out.at("p", {2, 9, 3})), u = out.read<float>(out.at("u", {2, 9, 3}));
  const auto raw = out.read<float>(out.at("raw", {2, 9, 9})), rest = out.read<float>(out.at("null", {2, 9, 9}));
  const auto effective = out.read<float>(out.at("effective", {2, 9, 9}));
  const auto received = out.read<float>(out.at("received_effective", {2, 9}));
  EXPECT_EQ(out.read<std::int64_t>(out.at("rank", {2})), (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(out.read<std::int64_t>(out.at("null_dim", {2})), (std::vector<std::int64_t>{6, 6}));
  EXPECT_EQ(out.at("pearson", {2}).type, element_type::f32);
  for (std::size_t row = 0; row < 2 * 9; ++row) {
    float sum = 0;
    for (std::size_t j = 0; j < 9; ++j) {
      float product = 0;
      for (std::size_t c = 0; c < 3; ++c) product += p[row * 3 + c] * u[(row / 9 * 9 + j) * 3 + c];
      EXPECT_NEAR(product, effective[row * 9 + j], 1e-6);
      EXPECT_NEAR(raw[row * 9 + j], effective[row * 9 + j] + rest[row * 9 + j], 1e-6);
      sum += raw[row * 9 + j];
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    for (std::size_t c = 0; c < 3; ++c) {  // the null part gives no output
      float output = 0;
      for (std::size_t j = 0; j < 9; ++j) output += rest[row * 9 + j] * v[(row / 9 * 9 + j) * 3 + c];
      EXPECT_NEAR(output, 0, 1e-6);
    }
  }
  float first_key = 0;
  for (std::size_t i = 0; i < 9; ++i) first_key += effective[i * 9];
  EXPECT_NEAR(received[0], first_key, 1e-5);

  ASSERT_EQ(nullscope("effective-attention --causal --length 5 --overwrite " + files).exit_code, 0);
  const safetensors_file shorter(path("out.safetensors"));
  EXPECT_EQ(shorter.read<std::int64_t>("null_dim"), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(shorter.find("raw"), nullptr);
  expect_complaint("effective-attention --overwrite --length 10 " + files, 1,
                   "a length of 10 in sequences of 9 tokens");
  expect_complaint("effective-attention --length 99999999999999999999 " + files, 2, "is out of range");
  expect_complaint("effective-attention --scale nan " + files, 2, "--scale: \"nan\" is not a number above 0");
}

TEST_F(cli_files, effective_attention_says_which_heads_it_cannot_take) {
  auto q = random_numbers<float>(2 * 9 * 4, 1);
  const auto k = random_numbers<float>(2 * 9 * 4, 2), v = random_numbers<float>(2 * 9 * 3, 3);
  const std::string files = "--input " + path("in.safetensors") + " --output " + path("out.safetensors");
  q[40] = NAN;  // of the second head
  write_safetensors(path("in.safetensors"),
                    {make_entry("q", {2, 9, 4}, q), make_entry("k", {2, 9, 4}, k), make_entry("v", {2, 9, 3}, v)});
  expect_complaint("effective-attention " + files, 1, "1 of 2 heads have scores that are not finite: 1");
  const auto norms = safetensors_file(path("out.safetensors")).read<float>("raw_norm");
  EXPECT_TRUE(std::isfinite(norms[0]) && std::isnan(norms[1]));

  for (const std::int64_t tokens : {8, 10}) {  // of v, while k has 9
    const auto other = random_numbers<float>(2 * tokens * 3, 3);
    write_safetensors(path("in.safetensors"), {make_entry("q", {2, 9, 4}, k), make_entry("k", {2, 9, 4}, k),
                                               make_entry("v", {2, tokens, 3}, other)});
    expect_complaint("effective-attention --overwrite " + files, 1, fmt::format("v (2, {}, 3)", tokens));
  }

  const std::vector<float> wide(2 * 513, 1);
  write_safetensors(path("in.safetensors"), {make_entry("q", {1, 2, 513}, wide), make_entry("k", {1, 2, 513}, wide),
                                             make_entry("v", {1, 2, 513}, wide)});
  expect_complaint("effective-attention --overwrite " + files, 1, "has heads of more than 512");
  const std::vector<float> nothing;
  write_safetensors(path("in.safetensors"), {make_entry("q", {2, 9, 4}, k), make_entry("k", {2, 9, 4}, k),
                                             make_entry("v", {2, 9, 3}, v), make_entry("h", {2, 3, 0}, nothing)});
  expect_complaint("effective-attention --overwrite " + files, 1, "or h has no columns");
}

TEST_F(cli_files, wrong_files_and_tensors_are_one_line_and_exit_code_1) {
  const std::vector<float> a{1, 2, 3};
  write_safetensors(path("flat.safetensors"), {make_entry("a", {3}, a), make_entry("v", {3}, a)});
  const std::string output = " --output " + path("out.safetensors");
  expect_complaint("svd --input " + path("none.safetensors") + output, 1, "none.safetensors");
  expect_complaint("svd --input " + path("flat.safetensors") + output, 1, "tensor \"a\" has shape [3]");
  expect_complaint("svd --tensor b --input " + path("flat.safetensors") + output, 1, "\"b\"");
  expect_complaint("rank --input " + path("flat.safetensors"), 1, "either a tensor \"t\" or the pair");
  expect_complaint("rank --rtol -1 --input " + path("flat.safetensors"), 2,
                   "--rtol: \"-1\" is not a number of at least 0 (see nullscope rank --help)");
  expect_complaint("rank --atol nan --input " + path("flat.safetensors"), 2, "\"nan\" is not a number of at least 0");
  expect_complaint("svd --input ''" + output, 2, "--input: the path is empty");
  expect_complaint("svd --input " + path("flat.safetensors") + " --output ''", 2, "--output: the path is empty");
  EXPECT_FALSE(std::filesystem::exists(path("out.safetensors")));
}

}  // namespace
}  // namespace nullscope::test
