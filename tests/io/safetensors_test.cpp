#include <nullscope/io/safetensors.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nullscope/core/tensor.hpp>

#include "tests/core/support.hpp"
#include "tests/io/safetensors_support.hpp"

namespace nullscope::test {
namespace {

TEST(safetensors_file, says_why_a_path_cannot_be_read) {
  const scratch_folder folder;
  EXPECT_EQ(message_of<file_error>([&] { safetensors_file{folder / "missing"}; }),
            fmt::format("cannot read {}: No such file or directory", (folder / "missing").string()));
  EXPECT_EQ(message_of<file_error>([&] { safetensors_file{folder.path()}; }),
            fmt::format("cannot read {}: Is a directory", folder.path().string()));
  EXPECT_EQ(message_of<file_error>([&] { safetensors_file{fs::path("/dev/null")}; }),
            "cannot read /dev/null: not a regular file");
}

TEST(safetensors_file, is_refused_wherever_it_is_cut) {
  const std::string whole = of_members(member("a", "F32", "[2]", "[0,8]"), "12345678");
  EXPECT_NO_THROW(safetensors_file(bytes_of(whole), "whole"));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string part = whole.substr(0, size);
    EXPECT_THROW(safetensors_file(bytes_of(part), "part"), file_error) << size;
  }
}

TEST(safetensors_file, corpus_of_the_fuzzer_opens_or_is_a_file_error) {
  std::ptrdiff_t opened = 0, refused = 0;
  for (const fs::directory_entry& input : fs::directory_iterator(NULLSCOPE_FUZZ_CORPUS)) {
    try {
      const safetensors_file file(input.path());
      ++opened;
    } catch (const file_error&) {
      ++refused;
    }
  }
  EXPECT_GT(opened, 3);
  EXPECT_GT(refused, 3);
}

// What a good file says.

/// The types of the format that nothing converts, and their bits: the bytes of eight elements.
const std::vector<std::pair<std::string, std::size_t>> raw_types{
    {"U64", 64},        {"U32", 32},    {"U16", 16},    {"I16", 16},    {"I8", 8},
    {"C64", 64},        {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};

TEST(element_type, has_the_names_and_sizes_of_the_format) {
  std::vector<std::pair<std::string, std::int64_t>> expected{{"F64", 64}, {"F32", 32}, {"F16", 16}, {"BF16", 16},
                                                             {"I64", 64}, {"I32", 32}, {"U8", 8},   {"BOOL", 8}};
  expected.insert(expected.end(), raw_types.begin(), raw_types.end());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(to_string(static_cast<element_type>(i)), expected[i].first);
    EXPECT_EQ(bits_of(static_cast<element_type>(i)), expected[i].second);
  }
}

TEST(safetensors_file, lists_types_that_it_does_not_convert_beside_tensors_that_it_reads) {
  for (const auto& [type, size] : raw_types) {
    const std::string bytes = of_members(member("before", "F32", "[1]", "[0,4]") + "," +
                                             member("x", type, "[2,4]", fmt::format("[4,{}]", 4 + size)) + "," +
                                             member("none", type, "[3,0]", fmt::format("[{0},{0}]", 4 + size)) + "," +
                                             member("after", "I32", "[1]", fmt::format("[{},{}]", 4 + size, 8 + size)),
                                         bytes_of_numbers(std::vector<float>{1.5f}) + std::string(size, 'x') +
                                             bytes_of_numbers(std::vector<std::int32_t>{-7}));
    const safetensors_file file(bytes_of(bytes), "f");
    EXPECT_EQ(file.names(), (std::vector<std::string>{"before", "x", "none", "after"}));
    const safetensors_entry& x = file.at("x", {2, any_extent});
    EXPECT_EQ(to_string(x.type), type);
    EXPECT_EQ(x.shape, (std::vector<std::int64_t>{2, 4}));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(x.bytes.data()), x.bytes.size()), std::string(size, 'x'));
    EXPECT_EQ(file.at("none").bytes.size(), 0u);
    EXPECT_EQ(file.read<float>("before"), std::vector<float>{1.5f});
    EXPECT_EQ(file.read<std::int32_t>("after"), std::vector<std::int32_t>{-7});
    for (const char* name : {"x", "none"}) {
      EXPECT_EQ(message_of<file_error>([&] { file.read<float>(name); }),
                fmt::format("f: tensor \"{}\" is {}, which does not convert to F32", name, type));
      EXPECT_EQ(message_of<file_error>([&] { file.read<std::uint8_t>(name); }),
                fmt::format("f: tensor \"{}\" is {}, which does not convert to U8", name, type));
    }
  }
}

TEST(safetensors_file, shows_names_in_order_metadata_types_shapes_and_bytes) {
  const scratch_folder folder;
  const fs::path path = folder / "model.safetensors";
  put(path,
      with_length(
          R"({"z":{"data_offsets":[4,8],"shape":[2,1],"dtype":"F16"},"__metadata__":{"format":"pt","":"\u00e9\n"},)" +
              member("a \\\" b", "I32", "[]", "[0,4]") + "," + member("empty", "F64", "[3,0,2]", "[8,8]") + "}  ",
          std::string("\1\0\0\0abcd", 8)));
  static_assert(!std::is_copy_constructible_v<safetensors_file> &&
                std::is_nothrow_move_constructible_v<safetensors_file>);
  safetensors_file opened(path);
  const safetensors_file file = std::move(opened);
  EXPECT_EQ(file.names(), (std::vector<std::string>{"z", "a \" b", "empty"}));
  EXPECT_EQ(file.metadata(), (safetensors_metadata{{"format", "pt"}, {"", "é\n"}}));
  const safetensors_entry& z = file.at("z");
  EXPECT_EQ(&z, &file.entries()[0]);
  EXPECT_EQ(z.type, element_type::f16);
  EXPECT_EQ(z.shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(std::memcmp(z.bytes.data(), "abcd", 4), 0);
  EXPECT_EQ(file.at("a \" b").shape, std::vector<std::int64_t>{});
  EXPECT_EQ(file.read<std::int32_t>("a \" b"), std::vector<std::int32_t>{1});
  EXPECT_EQ(file.at("empty").bytes.size(), 0u);
  EXPECT_TRUE(file.read<double>("empty").empty());
  EXPECT_EQ(file.find("nobody"), nullptr);
}

TEST(safetensors_file, names_the_tensors_there_are_when_one_is_missing) {
  const std::string none = with_length("{}");
  EXPECT_EQ(message_of<file_error>([&] { safetensors_file(bytes_of(none), "f").at("w"); }),
            "f: no tensor \"w\"; the file holds no tensor");
  const std::string two = of_members(member("b", "U8", "[0]", "[0,0]") + "," + member("a", "U8", "[0]", "[0,0]"));
  EXPECT_EQ(message_of<file_error>([&] { safetensors_file(bytes_of(two), "f").read<float>("w"); }),
            "f: no tensor \"w\"; the file holds \"b\", \"a\"");
  std::vector<std::string> members;
  for (int i = 0; i < 25; ++i) members.push_back(member(fmt::format("t{}", i), "U8", "[0]", "[0,0]"));
  const std::string many = of_members(fmt::format("{}", fmt::join(members, ",")));
  const std::string message = message_of<file_error>([&] { safetensors_file(bytes_of(many), "f").at("w"); });
  EXPECT_TRUE(contains(message, "\"t18\", \"t19\" and 5 more")) << message;
}

TEST(safetensors_file, compares_a_shape_with_the_one_expected) {
  const std::string bytes = of_members(member("w", "U8", "[2,3]", "[0,6]"), "123456");
  const safetensors_file file(bytes_of(bytes), "f");
  EXPECT_EQ(file.at("w", {2, 3}).name, "w");
  EXPECT_EQ(file.at("w", {any_extent, 3}).name, "w");
  EXPECT_EQ(message_of<file_error>([&] {
              file.at("w", {any_extent, 4});
            }),
            "f: tensor \"w\" has the shape [2, 3], expected [any, 4]");
  EXPECT_EQ(message_of<file_error>([&] { file.at("w", {2}); }), "f: tensor \"w\" has the shape [2, 3], expected [2]");
  EXPECT_EQ(message_of<file_error>([&] { file.at("w", {}); }), "f: tensor \"w\" has the shape [2, 3], expected []");
}

TEST(safetensors_file, reads_offsets_beyond_32_bits) {
  const scratch_folder folder;
  const fs::path path = folder / "large.safetensors";
  const std::int64_t count = 5'000'000'000;
  const std::string head =
      with_length(fmt::format("{{{},{}}}", member("a", "U8", fmt::format("[{}]", count), fmt::format("[0,{}]", count)),
                              member("b", "U8", "[1]", fmt::format("[{},{}]", count, count + 1))));
  put(path, head);
  std::error_code failure;
  fs::resize_file(path, head.size() + static_cast<std::uintmax_t>(count) + 1, failure);  // a sparse file
  if (failure) GTEST_SKIP() << "no room for a sparse file: " << failure.message();
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end).put('\7').flush();
  const safetensors_file large(path);
  EXPECT_EQ(large.at("a").bytes.size(), static_cast<std::size_t>(count));
  EXPECT_EQ(large.read<std::uint8_t>("b"), std::vector<std::uint8_t>{7});
}

// Conversions.

template <class To, class From>
std::vector<To> converted(const std::string& type, const std::vector<From>& stored, const std::string& padding = "") {
  const std::size_t begin = padding.size(), end = begin + stored.size() * sizeof(From);
  const std::string bytes =
      of_members(member("padding", "U8", fmt::format("[{}]", begin), fmt::format("[0,{}]", begin)) + "," +
                     member("x", type, fmt::format("[{}]", stored.size()), fmt::format("[{},{}]", begin, end)),
                 padding + bytes_of_numbers(stored));
  return safetensors_file(bytes_of(bytes), "f").read<To>("x");
}

TEST(safetensors_read, converts_every_16_bit_float_exactly) {
  std::vector<std::uint16_t> stored(65536);
  for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<std::uint16_t>(i);
  const std::vector<float> halves = converted<float>("F16", stored), bfloats = converted<float>("BF16", stored);
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const int exponent = static_cast<int>(i >> 10 & 31), mantissa = static_cast<int>(i & 1023);
    if (exponent == 31 && mantissa != 0) {
      EXPECT_TRUE(std::isnan(halves[i])) << i;
    } else {
      const double magnitude =
          exponent == 31 ? HUGE_VAL : std::ldexp(mantissa + (exponent > 0 ? 1024 : 0), std::max(exponent, 1) - 25);
      EXPECT_EQ(static_cast<double>(halves[i]), i & 0x8000 ? -magnitude : magnitude) << i;
    }
    EXPECT_EQ(std::signbit(halves[i]), (i & 0x8000) != 0) << i;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(bfloats[i]), i << 16);
  }
}

TEST(safetensors_read, converts_between_floating_point_types) {
  const std::vector<double> doubles{0.1, -1e300, 1e-300, std::nan(""), 3};
  const std::vector<float> floats{0.1f, 3.0e38f, -0.0f};
  EXPECT_EQ(converted<float>("F64", doubles)[0], 0.1f);
  EXPECT_EQ(converted<float>("F64", doubles)[1], -HUGE_VALF);
  EXPECT_EQ(converted<float>("F64", doubles)[2], 0.0f);
  EXPECT_TRUE(std::isnan(converted<float>("F64", doubles)[3]));
  EXPECT_EQ(converted<double>("F64", doubles)[2], 1e-300);
  EXPECT_EQ(converted<double>("F32", floats)[0], static_cast<double>(0.1f));
  EXPECT_EQ(converted<bfloat16>("F32", floats)[0].bits, bfloat16(0.1f).bits);
  EXPECT_EQ(converted<bfloat16>("F64", doubles)[4].bits, bfloat16(3.0f).bits);
  const std::vector<double> near_ties{1 + 0x1p-8 + 0x1p-40,  1 + 0x1p-8, 1 + 0x1p-8 - 0x1p-40,
                                      -1 - 0x3p-8 + 0x1p-40, 1e300,      1e-300};
  const std::vector<std::uint16_t> nearest{0x3f81, 0x3f80, 0x3f80, 0xbf81, 0x7f80, 0};
  const std::vector<bfloat16> rounded_once = converted<bfloat16>("F64", near_ties);
  for (std::size_t i = 0; i < nearest.size(); ++i) EXPECT_EQ(rounded_once[i].bits, nearest[i]) << near_ties[i];
  EXPECT_EQ(converted<bfloat16>("BF16", std::vector<std::uint16_t>{0x7f81})[0].bits, 0x7f81) << "a signalling NaN";
  EXPECT_TRUE(std::signbit(converted<float>("F32", floats)[2]));
}

TEST(safetensors_read, converts_between_integer_types_that_fit) {
  const std::vector<std::int64_t> numbers{0, 200, 255};
  EXPECT_EQ(converted<std::int32_t>("I64", numbers), (std::vector<std::int32_t>{0, 200, 255}));
  EXPECT_EQ(converted<std::uint8_t>("I64", numbers), (std::vector<std::uint8_t>{0, 200, 255}));
  EXPECT_EQ(converted<std::int64_t>("I32", std::vector<std::int32_t>{-5}), std::vector<std::int64_t>{-5});
  EXPECT_EQ(converted<std::int64_t>("U8", std::vector<std::uint8_t>{255}), std::vector<std::int64_t>{255});
  EXPECT_EQ(converted<std::uint8_t>("BOOL", std::vector<std::uint8_t>{0, 1, 7}), (std::vector<std::uint8_t>{0, 1, 1}));
  EXPECT_EQ(message_of<file_error>([&] {
              converted<std::int32_t>("I64", std::vector<std::int64_t>{1, 2147483648});
            }),
            "f: tensor \"x\" holds 2147483648 at element 1, which does not fit I32");
  EXPECT_EQ(message_of<file_error>([&] { converted<std::uint8_t>("I32", std::vector<std::int32_t>{-1}); }),
            "f: tensor \"x\" holds -1 at element 0, which does not fit U8");
}

TEST(safetensors_read, refuses_to_mix_integers_and_floating_point) {
  EXPECT_EQ(message_of<file_error>([&] { converted<float>("I64", std::vector<std::int64_t>{1}); }),
            "f: tensor \"x\" is I64, which does not convert to F32");
  EXPECT_EQ(message_of<file_error>([&] { converted<std::int64_t>("BF16", std::vector<std::uint16_t>{}); }),
            "f: tensor \"x\" is BF16, which does not convert to I64");
}

TEST(safetensors_read, takes_data_at_any_address) {
  const std::vector<double> doubles{1.5, -2.5};
  const std::vector<std::int32_t> integers{70000, -3};
  for (const std::string padding : {"", "1", "22", "333", "4444", "55555", "666666", "7777777"}) {
    EXPECT_EQ(converted<double>("F64", doubles, padding), doubles);
    EXPECT_EQ(converted<float>("F64", doubles, padding), (std::vector<float>{1.5f, -2.5f}));
    EXPECT_EQ(converted<std::int64_t>("I32", integers, padding), (std::vector<std::int64_t>{70000, -3}));
  }
}

// On a device.

class safetensors_load_test : public device_test {};
INSTANTIATE_TEST_SUITE_P(devices, safetensors_load_test, testing::ValuesIn(devices()), device_name);

TEST_P(safetensors_load_test, puts_tensors_on_the_device) {
  const scratch_folder folder;
  const auto floats = random_numbers<float>(6, 1);
  const std::vector<bfloat16> bfloats{bfloat16(0.5f), bfloat16(-3.0f)};
  const std::vector<float> number{4};
  write_safetensors(folder / "f",
                    {make_entry("floats", {2, 3}, floats), make_entry("bfloats", {2}, bfloats),
                     make_entry("number", {}, number), make_entry("none", {3, 0}, std::span<const float>())});
  const safetensors_file file(folder / "f");
  const tensor<float> x = file.load<float>(queue_, "floats", {any_extent, 3});
  EXPECT_EQ(x.shape(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(x.to_host(), floats);
  EXPECT_EQ(file.load<float>(queue_, "bfloats").to_host(), (std::vector<float>{0.5f, -3.0f}));
  EXPECT_EQ(file.load<bfloat16>(queue_, "bfloats").to_host()[1].bits, bfloat16(-3.0f).bits);
  EXPECT_EQ(file.load<float>(queue_, "number").to_host(), number);
  EXPECT_EQ(file.load<float>(queue_, "none").shape(), (std::vector<std::int64_t>{3, 0}));
  EXPECT_TRUE(contains(message_of<file_error>([&] { file.load<float>(queue_, "floats", {6}); }), "expected [6]"));
  EXPECT_TRUE(contains(message_of<file_error>([&] { file.load<std::int32_t>(queue_, "floats"); }), "does not convert"));
  EXPECT_TRUE(contains(message_of<file_error>([&] { file.load<float>(queue_, "weight"); }), "no tensor \"weight\""));
}

TEST_P(safetensors_load_test, takes_data_at_any_address) {
  const std::string bytes = of_members(member("a", "U8", "[1]", "[0,1]") + "," + member("b", "F32", "[2]", "[1,9]"),
                                       std::string("x") + bytes_of_numbers(std::vector<float>{2.5f, -1.0f}));
  EXPECT_EQ(safetensors_file(bytes_of(bytes), "f").load<float>(queue_, "b").to_host(),
            (std::vector<float>{2.5f, -1.0f}));
}

}  // namespace
}  // namespace nullscope::test
