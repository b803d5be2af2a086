#include <nullscope/safetensors.hpp>

#include "safetensors_support.hpp"
#include "support.hpp"

namespace nullscope::test {
namespace {

struct malformed_file {
  std::string name;
  std::string bytes;
  std::string expected;  // a part of the message
};

std::ostream& operator<<(std::ostream& out, const malformed_file& file) { return out << file.name; }

std::string one_byte(const std::string& rest) { return of_members(rest, "1"); }

std::vector<malformed_file> malformed_files() {
  const std::string good = member("good", "U8", "[1]", "[0,1]");
  const std::string deep(1'000'000, '[');
  std::string deep_objects;
  for (int i = 0; i < 100'000; ++i) deep_objects += "{\"a\":";
  std::string long_shape = "[1";
  for (int i = 0; i < 64; ++i) long_shape += ",1";
  return {
      {"empty", "", "the file is empty"},
      {"shorter_than_the_length", "123", "the file has 3 bytes, too few"},
      {"length_over_the_limit", std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10),
       "is 100000001, over the limit of 100000000"},
      {"length_of_64_bits", std::string(8, '\xff') + "{}", "is 18446744073709551615, over the limit"},
      {"header_truncated", with_length("{\"a\":{").substr(0, 12), "is 6, but 4 bytes follow: is the file truncated?"},
      {"header_empty", with_length(""), "does not begin with '{'"},
      {"header_begins_with_a_space", with_length(" {}"), "does not begin with '{'"},
      {"header_is_an_array", with_length("[]"), "does not begin with '{'"},
      {"not_json", one_byte("good"), "the header is not JSON at its byte 2: syntax error"},
      {"not_closed", with_length(fmt::format("{{{}", good), "1"), "unexpected end of input"},
      {"comma_at_the_end", one_byte(good + ","), "the header is not JSON"},
      {"text_after_the_header", with_length(fmt::format("{{{}}} {{}}", good), "1"), "expected end of input"},
      {"null_bytes_after_the_header", with_length(fmt::format("{{{}}}{}", good, std::string(2, '\0')), "1"),
       "null byte at its byte 57"},
      {"comment", one_byte("/**/" + good), "the header is not JSON"},
      {"not_utf_8", one_byte(member("\xff", "U8", "[1]", "[0,1]")), "ill-formed UTF-8"},
      {"half_a_surrogate", one_byte(member("\\ud800", "U8", "[1]", "[0,1]")), "surrogate"},
      {"number_overflow", one_byte(member("a", "U8", "[1e999]", "[0,1]")), "number overflow parsing '1e999'"},
      {"deep_arrays", with_length(fmt::format("{{\"a\":{}", deep)), "\"a\" is an array, expected an object"},
      {"deep_arrays_in_the_shape", with_length(fmt::format("{{\"a\":{{\"shape\":{}", deep)),
       "has an array in its shape"},
      {"deep_objects", with_length(deep_objects), "tensor \"a\" has an unknown key \"a\""},
      {"name_twice", of_members(good + "," + member("good", "U8", "[1]", "[1,2]"), "12"),
       "the name \"good\" occurs twice"},
      {"metadata_twice", one_byte(R"("__metadata__":{},"__metadata__":{},)" + good), "\"__metadata__\" occurs twice"},
      {"metadata_key_twice", one_byte(R"("__metadata__":{"k":"1","k":"2"},)" + good),
       "the metadata \"k\" occurs twice"},
      {"metadata_is_a_string", one_byte(R"("__metadata__":"x",)" + good), "\"__metadata__\" is a string"},
      {"metadata_is_null", one_byte(R"("__metadata__":null,)" + good), "\"__metadata__\" is null"},
      {"metadata_number", one_byte(R"("__metadata__":{"k":1},)" + good), "the metadata \"k\" is a number, expected a"},
      {"metadata_object", one_byte(R"("__metadata__":{"k":{}},)" + good), "the metadata \"k\" is an object"},
      {"metadata_array", one_byte(R"("__metadata__":{"k":[]},)" + good), "the metadata \"k\" is an array"},
      {"tensor_is_a_number", one_byte(R"("a":1)"), "\"a\" is a number, expected an object"},
      {"tensor_is_true", one_byte(R"("a":true)"), "\"a\" is a boolean, expected an object"},
      {"no_dtype", one_byte(R"("a":{"shape":[1],"data_offsets":[0,1]})"), "tensor \"a\" has no dtype"},
      {"no_shape", one_byte(R"("a":{"dtype":"U8","data_offsets":[0,1]})"), "tensor \"a\" has no shape"},
      {"no_offsets", one_byte(R"("a":{"dtype":"U8","shape":[1]})"), "tensor \"a\" has no data_offsets"},
      {"dtype_twice", one_byte(R"("a":{"dtype":"U8","dtype":"U8"})"), "tensor \"a\" has its dtype twice"},
      {"shape_twice", one_byte(R"("a":{"shape":[1],"shape":[1]})"), "tensor \"a\" has its shape twice"},
      {"unknown_key", one_byte(R"("a":{"strides":[1]})"), "tensor \"a\" has an unknown key \"strides\""},
      {"unknown_dtype", one_byte(member("a", "F8_E4M3", "[1]", "[0,1]")),
       "tensor \"a\" has the unknown dtype \"F8_E4M3\""},
      {"dtype_in_lower_case", one_byte(member("a", "u8", "[1]", "[0,1]")), "unknown dtype \"u8\""},
      {"dtype_is_a_number", one_byte(R"("a":{"dtype":8})"),
       "tensor \"a\" has a number as its dtype, expected a string"},
      {"dtype_is_an_array", one_byte(R"("a":{"dtype":["U8"]})"), "tensor \"a\" has an array as its dtype"},
      {"shape_is_a_number", one_byte(member("a", "U8", "1", "[0,1]")), "tensor \"a\" has a number as its shape"},
      {"shape_is_a_string", one_byte(member("a", "U8", "\"1\"", "[0,1]")), "tensor \"a\" has a string as its shape"},
      {"shape_is_negative", one_byte(member("a", "U8", "[-1]", "[0,1]")),
       "tensor \"a\" has a negative number in its shape"},
      {"shape_is_not_whole", one_byte(member("a", "U8", "[1.0]", "[0,1]")), "has a number that is not an integer"},
      {"shape_holds_null", one_byte(member("a", "U8", "[null]", "[0,1]")), "has null in its shape"},
      {"shape_over_63_bits", one_byte(member("a", "U8", "[9223372036854775808]", "[0,1]")),
       "over 2^63 - 1 in its shape"},
      {"shape_over_64_bits", one_byte(member("a", "U8", "[18446744073709551617]", "[0,1]")),
       "not an integer of 64 bits"},
      {"shape_overflows", one_byte(member("a", "F64", "[2147483648,2147483648,2]", "[0,1]")),
       "has the shape [2147483648, 2147483648, 2], too large"},
      {"shape_overflows_in_bytes", one_byte(member("a", "F64", "[1152921504606846976]", "[0,0]")), "too large"},
      {"too_many_dimensions", one_byte(member("a", "U8", long_shape, "[0,1]")), "more than 64 numbers in its shape"},
      {"one_offset", one_byte(member("a", "U8", "[1]", "[0]")), "tensor \"a\" has 1 data_offsets, expected 2"},
      {"three_offsets", one_byte(member("a", "U8", "[1]", "[0,1,2]")), "tensor \"a\" has 3 data_offsets, expected 2"},
      {"offset_is_negative", one_byte(member("a", "U8", "[1]", "[-1,0]")), "a negative number in its data_offsets"},
      {"begin_after_end", one_byte(member("a", "U8", "[1]", "[1,0]")), "tensor \"a\" begins at 1, after its end at 0"},
      {"too_few_bytes", one_byte(member("a", "F32", "[2,3]", "[0,1]")),
       "tensor \"a\" has 1 bytes, but F32 [2, 3] needs 24"},
      {"too_many_bytes", one_byte(member("a", "U8", "[0]", "[0,1]")), "tensor \"a\" has 1 bytes, but U8 [0] needs 0"},
      {"data_truncated", one_byte(member("a", "F32", "[1]", "[0,4]")), "ends at 4, but the file holds 1 bytes of data"},
      {"offset_far_away", one_byte(member("a", "U8", "[1]", "[9223372036854775806,9223372036854775807]")),
       "but the file"},
      {"overlap", of_members(member("a", "U8", "[2]", "[0,2]") + "," + member("b", "U8", "[2]", "[1,3]"), "123"),
       "tensor \"b\" begins at 1, inside tensor \"a\", which ends at 2"},
      {"same_data", one_byte(good + "," + member("b", "U8", "[1]", "[0,1]")), "begins at 0, inside tensor"},
      {"empty_tensor_inside",
       of_members(member("a", "U8", "[2]", "[0,2]") + "," + member("b", "U8", "[0]", "[1,1]"), "12"),
       "tensor \"b\" begins at 1, inside tensor \"a\""},
      {"hole_at_the_start", of_members(member("a", "U8", "[1]", "[1,2]"), "12"),
       "no tensor covers the data from 0 to 1, where tensor \"a\" begins"},
      {"hole", of_members(good + "," + member("b", "U8", "[1]", "[3,4]"), "1234"),
       "no tensor covers the data from 1 to 3, where tensor \"b\" begins"},
      {"data_left_over", of_members(good, "123"), "no tensor covers the last 2 bytes"},
      {"data_of_nobody", with_length("{}", "1"), "no tensor covers the last 1 bytes"},
      {"name_on_many_lines", one_byte(R"("a\nb":1)"), "\"a\\nb\" is a number"},
      {"name_of_any_length", one_byte(fmt::format("\"{}\":1", std::string(1000, 'x'))),
       std::string(80, 'x') + "\"... is a number"},
  };
}

class malformed_file_test : public testing::TestWithParam<malformed_file> {};

TEST_P(malformed_file_test, is_a_file_error_of_one_line_that_names_the_file) {
  const scratch_folder folder;
  const fs::path path = folder / "model.safetensors";
  put(path, GetParam().bytes);
  const std::string message = message_of<file_error>([&] { safetensors_file{path}; });
  EXPECT_EQ(message.find(path.string() + ": "), 0u) << message;
  EXPECT_TRUE(contains(message, GetParam().expected)) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 500u);
}

INSTANTIATE_TEST_SUITE_P(safetensors, malformed_file_test, testing::ValuesIn(malformed_files()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace nullscope::test
