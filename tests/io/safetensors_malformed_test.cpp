#include <nullscope/io/safetensors.hpp>

#include "tests/core/support.hpp"
#include "tests/io/safetensors_support.hpp"

namespace nullscope::test {
namespace {

/// A file whose length and braces are right, and what is wrong with the members of its header or its data.
struct malformed_header {
  const char* name;
  const char* members;
  const char* data;
  const char* expected;  // a part of the message
};

constexpr malformed_header malformed_headers[] = {
    {"not_json", "good", "", "the header is not JSON at its byte 2: syntax error"},
    {"comma_at_the_end", R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)", "1", "the header is not JSON"},
    {"comment", R"(/**/"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})", "1", "the header is not JSON"},
    {"not_utf_8", "\"\xff\":{}", "", "ill-formed UTF-8"},
    {"half_a_surrogate", R"("\ud800":{})", "", "surrogate"},
    {"number_overflow", R"("a":{"dtype":"U8","shape":[1e999]})", "", "number overflow parsing '1e999'"},
    {"name_twice",
     R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]})", "12",
     "the name \"a\" occurs twice"},
    {"name_on_many_lines", R"("a\nb":1)", "", R"("a\nb" is a number)"},
    {"metadata_twice", R"("__metadata__":{},"__metadata__":{})", "", "the name \"__metadata__\" occurs twice"},
    {"metadata_key_twice", R"("__metadata__":{"k":"1","k":"2"})", "", "the metadata \"k\" occurs twice"},
    {"metadata_is_a_string", R"("__metadata__":"x")", "", "\"__metadata__\" is a string, expected an object"},
    {"metadata_is_null", R"("__metadata__":null)", "", "\"__metadata__\" is null, expected an object"},
    {"metadata_holds_a_number", R"("__metadata__":{"k":1})", "", "the metadata \"k\" is a number, expected a string"},
    {"metadata_holds_an_object", R"("__metadata__":{"k":{}})", "", "the metadata \"k\" is an object"},
    {"metadata_holds_an_array", R"("__metadata__":{"k":[]})", "", "the metadata \"k\" is an array"},
    {"tensor_is_a_number", R"("a":1)", "", "\"a\" is a number, expected an object"},
    {"tensor_is_true", R"("a":true)", "", "\"a\" is a boolean, expected an object"},
    {"tensor_is_empty", R"("a":{})", "", "tensor \"a\" has no dtype"},
    {"no_dtype", R"("a":{"shape":[1],"data_offsets":[0,1]})", "1", "tensor \"a\" has no dtype"},
    {"no_shape", R"("a":{"dtype":"U8","data_offsets":[0,1]})", "1", "tensor \"a\" has no shape"},
    {"no_offsets", R"("a":{"dtype":"U8","shape":[1]})", "1", "tensor \"a\" has no data_offsets"},
    {"parts_of_the_tensor_before",
     R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"shape":[1],"data_offsets":[1,2]})", "12",
     "tensor \"b\" has no dtype"},
    {"dtype_twice", R"("a":{"dtype":"U8","dtype":"U8"})", "", "tensor \"a\" has its dtype twice"},
    {"shape_twice", R"("a":{"shape":[1],"shape":[1]})", "", "tensor \"a\" has its shape twice"},
    {"offsets_twice", R"("a":{"data_offsets":[],"data_offsets":[]})", "", "tensor \"a\" has its data_offsets twice"},
    {"unknown_key", R"("a":{"strides":[1]})", "", "tensor \"a\" has an unknown key \"strides\""},
    {"unknown_dtype", R"("a":{"dtype":"F8_E3M4"})", "", "tensor \"a\" has the unknown dtype \"F8_E3M4\""},
    {"dtype_in_lower_case", R"("a":{"dtype":"u8"})", "", "tensor \"a\" has the unknown dtype \"u8\""},
    {"dtype_is_a_number", R"("a":{"dtype":8})", "", "tensor \"a\" has a number as its dtype, expected a string"},
    {"dtype_is_an_array", R"("a":{"dtype":["U8"]})", "", "tensor \"a\" has an array as its dtype, expected a string"},
    {"shape_is_a_number", R"("a":{"shape":1})", "", "tensor \"a\" has a number as its shape, expected an array"},
    {"shape_is_a_string", R"("a":{"shape":"1"})", "", "tensor \"a\" has a string as its shape"},
    {"shape_is_an_object", R"("a":{"shape":{}})", "", "tensor \"a\" has an object as its shape"},
    {"shape_is_negative", R"("a":{"shape":[-1]})", "", "tensor \"a\" has a negative number in its shape"},
    {"shape_is_not_whole", R"("a":{"shape":[1.0]})", "",
     "tensor \"a\" has a number that is not an integer of 64 bits in its"},
    {"shape_holds_null", R"("a":{"shape":[null]})", "", "tensor \"a\" has null in its shape"},
    {"shape_holds_an_array", R"("a":{"shape":[[1]]})", "", "tensor \"a\" has an array in its shape"},
    {"shape_over_63_bits", R"("a":{"shape":[9223372036854775808]})", "", "has a number over 2^63 - 1 in its shape"},
    {"shape_over_64_bits", R"("a":{"shape":[18446744073709551617]})", "", "not an integer of 64 bits in its shape"},
    {"shape_overflows", R"("a":{"dtype":"U8","shape":[4294967296,4294967296,3],"data_offsets":[0,1]})", "1",
     "tensor \"a\" has the shape [4294967296, 4294967296, 3], too large"},
    {"shape_overflows_to_nothing", R"("a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]})", "",
     "too large for 64-bit sizes"},
    {"shape_overflows_in_bytes", R"("a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]})", "",
     "too large for 64-bit sizes"},
    {"shape_of_more_bits_than_64_bit_sizes_count",
     R"("a":{"dtype":"U8","shape":[4611686018427387904],"data_offsets":[0,1]})", "1",
     "tensor \"a\" has 1 bytes, but U8 [4611686018427387904] needs 4611686018427387904"},
    {"half_a_byte", R"("a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]})", "12",
     "tensor \"a\" has the shape [3], too large for 64-bit sizes or, at 4 bits an element, not of whole bytes"},
    {"quarter_of_a_byte", R"("a":{"dtype":"F6_E3M2","shape":[7,1],"data_offsets":[0,6]})", "123456",
     "at 6 bits an element, not of whole bytes"},
    {"one_offset", R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0]})", "1", "has 1 data_offsets, expected 2"},
    {"three_offsets", R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]})", "1",
     "has 3 data_offsets, expected 2"},
    {"offset_is_negative", R"("a":{"data_offsets":[-1,0]})", "", "has a negative number in its data_offsets"},
    {"begin_after_end", R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]})", "1",
     "tensor \"a\" begins at 1, after its end at 0"},
    {"too_few_bytes", R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,1]})", "1",
     "tensor \"a\" has 1 bytes, but F32 [2, 3] needs 24"},
    {"too_many_bytes", R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,1]})", "1",
     "tensor \"a\" has 1 bytes, but U8 [0] needs 0"},
    {"too_many_bytes_of_six_bits", R"("a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,4]})", "1234",
     "tensor \"a\" has 4 bytes, but F6_E2M3 [4] needs 3"},
    {"too_few_bytes_of_a_type_that_is_not_converted", R"("a":{"dtype":"U16","shape":[3],"data_offsets":[0,3]})", "123",
     "tensor \"a\" has 3 bytes, but U16 [3] needs 6"},
    {"overlap_with_a_type_that_is_not_converted",
     R"("a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]})",
     "123", "tensor \"b\" begins at 1, inside tensor \"a\", which ends at 2"},
    {"data_truncated", R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})", "123",
     "tensor \"a\" ends at 4, but the file holds 3 bytes of data: is it truncated?"},
    {"offset_far_away", R"("a":{"dtype":"U8","shape":[1],"data_offsets":[9223372036854775806,9223372036854775807]})",
     "1", "tensor \"a\" ends at 9223372036854775807, but the file holds 1 bytes"},
    {"overlap",
     R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]})",
     "123", "tensor \"b\" begins at 1, inside tensor \"a\", which ends at 2"},
    {"same_data",
     R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})", "1",
     "tensor \"b\" begins at 0, inside tensor \"a\""},
    {"empty_tensor_inside",
     R"("a":{"dtype":"U8","shape":[0],"data_offsets":[1,1]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})", "12",
     "tensor \"a\" begins at 1, inside tensor \"b\""},
    {"hole_at_the_start", R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]})", "12",
     "no tensor covers the data from 0 to 1, where tensor \"a\" begins"},
    {"hole",
     R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]})",
     "1234", "no tensor covers the data from 1 to 3, where tensor \"b\" begins"},
    {"data_left_over", R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})", "123",
     "no tensor covers the last 2 bytes"},
    {"data_of_nobody", "", "1", "no tensor covers the last 1 bytes"},
};

/// A file that is wrong before its members are looked at, or too large for the table above.
struct malformed_file {
  std::string name;
  std::string bytes;
  std::string expected;
};

std::ostream& operator<<(std::ostream& out, const malformed_file& file) { return out << file.name; }

std::vector<malformed_file> malformed_files() {
  const std::string brackets(1'000'000, '['), long_name(1000, 'x');
  const std::vector<int> ones(65, 1);
  std::string braces;
  for (int i = 0; i < 100'000; ++i) braces += "{\"a\":";
  std::vector<malformed_file> files{
      {"empty", "", "the file is empty"},
      {"shorter_than_the_length", "123", "the file has 3 bytes, too few"},
      {"length_over_the_limit", std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10),
       "is 100000001, over the limit of 100000000"},
      {"length_of_64_bits", std::string(8, '\xff') + "{}", "is 18446744073709551615, over the limit"},
      {"header_truncated", with_length("{\"a\":{").substr(0, 12), "is 6, but 4 bytes follow: is the file truncated?"},
      {"header_empty", with_length(""), "does not begin with '{'"},
      {"header_begins_with_a_space", with_length(" {}"), "does not begin with '{'"},
      {"header_is_an_array", with_length("[]"), "does not begin with '{'"},
      {"header_not_closed", with_length("{"), "unexpected end of input"},
      {"text_after_the_header", with_length("{} {}"), "expected end of input"},
      {"null_byte_after_the_header", with_length(std::string("{}\0", 3)), "holds a null byte at its byte 3"},
      {"deep_arrays", of_members(fmt::format("\"a\":{}", brackets)), "\"a\" is an array, expected an object"},
      {"deep_arrays_in_the_shape", of_members(fmt::format("\"a\":{{\"shape\":{}", brackets)),
       "has an array in its shape"},
      {"deep_objects", with_length(braces), "tensor \"a\" has an unknown key \"a\""},
      {"long_name", of_members(fmt::format("\"{}\":1", long_name)), long_name.substr(0, 80) + "\"... is a number"},
      {"long_shape", of_members(fmt::format("\"a\":{{\"shape\":{}}}", ones)), "has more than 64 numbers in its shape"},
  };
  for (const malformed_header& row : malformed_headers) {
    files.push_back({row.name, of_members(row.members, row.data), row.expected});
  }
  return files;
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
