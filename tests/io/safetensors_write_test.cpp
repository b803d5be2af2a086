#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>
#include <nullscope/io/safetensors.hpp>

#include <algorithm>
#include <limits>
#include <thread>

#include "tests/core/support.hpp"
#include "tests/io/safetensors_support.hpp"

namespace nullscope::test {
namespace {

/// Entries of every type, the smallest first, in memory that lives as long.
struct all_types {
  std::vector<double> f64{0.5, -1e300};
  std::vector<float> f32{1.5f, 2.5f, -0.0f};
  std::vector<std::uint16_t> f16{0x3c00, 0x7bff, 1};
  std::vector<bfloat16> bf16{bfloat16(3.0f)};
  std::vector<std::int64_t> i64{std::numeric_limits<std::int64_t>::min()};
  std::vector<std::int32_t> i32{-7, 7};
  std::vector<std::uint8_t> u8{1, 2, 255};
  bool boolean[2] = {true, false};
  std::vector<std::uint8_t> bytes{0x12, 0xff, 0x80, 0, 1, 2, 3, 4, 5, 6, 7, 8};  // of types that nothing converts

  safetensors_entry raw(std::string name, element_type type, std::vector<std::int64_t> shape, std::size_t count) const {
    return {std::move(name), type, std::move(shape), std::as_bytes(std::span(bytes)).first(count)};
  }

  std::vector<safetensors_entry> entries() const {
    return {make_entry("u8", {3}, u8),
            make_entry("boolean", {2, 1}, boolean),
            {"f16", element_type::f16, {1, 3}, std::as_bytes(std::span(f16))},
            make_entry("bf16", {}, bf16),
            make_entry("i32", {2}, i32),
            make_entry("f32", {3}, f32),
            make_entry("none", {0, 4}, std::span<const float>()),
            make_entry("f64", {2}, f64),
            make_entry("i64", {1, 1, 1}, i64),
            raw("f4", element_type::f4, {3, 2}, 3),
            raw("f6", element_type::f6_e3m2, {4}, 3),
            raw("f8", element_type::f8_e4m3, {5}, 5),
            raw("i16", element_type::i16, {1, 2}, 4),
            raw("u32", element_type::u32, {3}, 12),
            raw("c64", element_type::c64, {}, 8)};
  }
};

void expect_same(const std::vector<safetensors_entry>& got, const std::vector<safetensors_entry>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, expected[i].name);
    EXPECT_EQ(got[i].type, expected[i].type) << got[i].name;
    EXPECT_EQ(got[i].shape, expected[i].shape) << got[i].name;
    EXPECT_TRUE(std::ranges::equal(got[i].bytes, expected[i].bytes)) << got[i].name;
  }
}

TEST(write_safetensors, what_is_written_is_read) {
  const scratch_folder folder;
  const all_types numbers;
  const safetensors_metadata metadata{{"format", "pt"}, {"text", "quote \" backslash \\ line\nnull \0 é"}, {"", ""}};
  write_safetensors(folder / "f", numbers.entries(), metadata);
  const safetensors_file file(folder / "f");
  expect_same(file.entries(), numbers.entries());
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(folder.file_count(), 1);
}

TEST(write_safetensors, names_may_be_any_text) {
  const scratch_folder folder;
  const std::vector<float> x{1};
  std::vector<safetensors_entry> entries;
  for (const std::string& name : {std::string(), std::string("a\0b", 3), std::string("\"\\/\n\t\x7f"),
                                  std::string("日本"), std::string("{\"a\":[1]}"), std::string(5000, 'x')}) {
    entries.push_back(make_entry(name, {1}, x));
  }
  write_safetensors(folder / "f", entries);
  expect_same(safetensors_file(folder / "f").entries(), entries);
}

TEST(write_safetensors, aligns_the_data_and_pads_the_header_with_spaces) {
  const scratch_folder folder;
  for (std::size_t length = 0; length < 9; ++length) {  // of a name: every number of spaces
    all_types numbers;
    std::vector<safetensors_entry> entries = numbers.entries();
    entries[0].name = std::string(length, 'n');
    write_safetensors(folder / "f", entries);
    const safetensors_file file(folder / "f");
    for (const safetensors_entry& entry : file.entries()) {
      const std::int64_t alignment = std::max<std::int64_t>(bits_of(entry.type) / 8, 1);
      EXPECT_EQ(reinterpret_cast<std::intptr_t>(entry.bytes.data()) % alignment, 0) << entry.name;
    }
    const std::string bytes = contents(folder / "f");
    EXPECT_EQ(static_cast<unsigned char>(bytes[0]) % 8, 0);
    const std::size_t begin = bytes.find("}}") + 2, end = bytes.find_first_not_of(' ', begin);
    EXPECT_EQ(end % 8, 0u);
    EXPECT_LT(end - begin, 8u);
  }
}

TEST(write_safetensors, writes_a_file_without_tensors) {
  const scratch_folder folder;
  write_safetensors(folder / "f", {});
  EXPECT_EQ(contents(folder / "f"), with_length("{}      "));
  write_safetensors(folder / "f", {}, {{"a", "b"}});
  EXPECT_EQ(safetensors_file(folder / "f").metadata().at("a"), "b");
}

TEST(write_safetensors, refuses_entries_that_make_no_file) {
  const scratch_folder folder;
  const std::vector<float> x{1, 2, 3};
  struct {
    std::vector<safetensors_entry> entries;
    safetensors_metadata metadata;
    std::string expected;
  } const cases[] = {
      {{make_entry("x", {4}, x)}, {}, "tensor \"x\" is F32 [4], which does not fit its 12 bytes"},
      {{make_entry("x", {-3}, x)}, {}, "tensor \"x\" is F32 [-3], which does not fit"},
      {{make_entry("x", {-1, -3}, x)}, {}, "tensor \"x\" is F32 [-1, -3], which does not fit"},
      {{make_entry("x", {1LL << 62, 8}, x)}, {}, "which does not fit its 12 bytes"},
      {{{"x", element_type::f4, {3}, std::as_bytes(std::span(x)).first(2)}}, {}, "is F4 [3], which does not fit its 2"},
      {{make_entry("x", {3}, x), make_entry("x", {3}, x)}, {}, "tensor \"x\" is given twice"},
      {{make_entry("__metadata__", {3}, x)}, {}, "tensor \"__metadata__\" has a name that the format reserves"},
      {{make_entry("\xff", {3}, x)}, {}, "is not UTF-8"},
      {{}, {{"key", "\xc3"}}, "is not UTF-8"},
      {{make_entry(std::string(100'000'001, 'x'), {3}, x)}, {}, "the header needs 1000"},
  };
  for (const auto& c : cases) {
    const std::string message =
        message_of<invalid_argument>([&] { write_safetensors(folder / "f", c.entries, c.metadata); });
    EXPECT_TRUE(contains(message, c.expected)) << message;
    EXPECT_EQ(message.find("write_safetensors: "), 0u) << message;
    EXPECT_EQ(folder.file_count(), 0);
  }
}

TEST(write_safetensors, replaces_a_file_that_is_open) {
  const scratch_folder folder;
  std::vector<std::int32_t> x{1};
  write_safetensors(folder / "f", {make_entry("x", {1}, x)});
  const safetensors_file before(folder / "f");
  x[0] = 2;
  write_safetensors(folder / "f", {make_entry("x", {1}, x)});
  EXPECT_EQ(before.read<std::int32_t>("x")[0], 1);
  EXPECT_EQ(safetensors_file(folder / "f").read<std::int32_t>("x")[0], 2);
  write_safetensors(folder / "f", before.entries());  // entries of a file that is being replaced
  EXPECT_EQ(safetensors_file(folder / "f").read<std::int32_t>("x")[0], 1);
  EXPECT_EQ(folder.file_count(), 1);
}

TEST(write_safetensors, follows_a_link_and_honours_the_umask) {
  const scratch_folder folder;
  const std::vector<std::int32_t> x{1};
  put(folder / "target", "old");
  std::filesystem::create_symlink("target", folder / "link");
  write_safetensors(folder / "link", {make_entry("x", {1}, x)});
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(safetensors_file(folder / "target").names(), std::vector<std::string>{"x"});
  put(folder / "plain", "");
  EXPECT_EQ(std::filesystem::status(folder / "target").permissions(),
            std::filesystem::status(folder / "plain").permissions());
}

TEST(write_safetensors, follows_links_to_what_is_not_there_yet_and_refuses_circles) {
  const scratch_folder folder;
  const std::vector<std::int32_t> x{1};
  std::filesystem::create_directory(folder / "other");
  std::filesystem::create_symlink("other/second", folder / "link");
  std::filesystem::create_symlink("target", folder / "other/second");
  write_safetensors(folder / "link", {make_entry("x", {1}, x)});
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "other/second"));
  EXPECT_EQ(safetensors_file(folder / "other/target").names(), std::vector<std::string>{"x"});
  std::filesystem::create_symlink("circle", folder / "circle");
  EXPECT_EQ(message_of<file_error>([&] { write_safetensors(folder / "circle", {make_entry("x", {1}, x)}); }),
            fmt::format("cannot write {}: Too many levels of symbolic links", (folder / "circle").string()));
}

TEST(write_safetensors, keeps_the_permissions_of_the_file_it_replaces) {
  const scratch_folder folder;
  const std::vector<std::int32_t> x{1};
  put(folder / "secret", "old");
  const auto mine_alone = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  std::filesystem::permissions(folder / "secret", mine_alone);
  write_safetensors(folder / "secret", {make_entry("x", {1}, x)});
  EXPECT_EQ(std::filesystem::status(folder / "secret").permissions(), mine_alone);
}

TEST(write_safetensors, many_threads_leave_one_whole_file) {
  const scratch_folder folder;
  {
    std::vector<std::jthread> threads;
    for (std::int32_t i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        const std::vector<std::int32_t> x(1000, i);
        for (int repeat = 0; repeat < 5; ++repeat) write_safetensors(folder / "f", {make_entry("x", {1000}, x)});
      });
    }
  }
  const std::vector<std::int32_t> x = safetensors_file(folder / "f").read<std::int32_t>("x");
  EXPECT_EQ(x, std::vector<std::int32_t>(1000, x[0]));
  EXPECT_EQ(folder.file_count(), 1);
}

// Failures of the system.

void expect_failure(const std::filesystem::path& path, const std::string& reason,
                    const std::vector<safetensors_entry>& entries = {}) {
  EXPECT_EQ(message_of<file_error>([&] { write_safetensors(path, entries); }),
            fmt::format("cannot write {}: {}", path.string(), reason));
}

TEST(write_safetensors, says_why_a_path_cannot_be_written) {
  const scratch_folder folder;
  put(folder / "file", "old");
  std::filesystem::create_directory(folder / "folder");
  expect_failure(folder / "missing/f", "No such file or directory");
  expect_failure(folder / "file/f", "Not a directory");
  expect_failure(folder / "folder", "Is a directory");
  expect_failure(folder / std::string(300, 'x'), "File name too long");
  expect_failure("", "No such file or directory");
  EXPECT_EQ(folder.file_count(), 2);
}

TEST(write_safetensors, never_replaces_a_device) {
  const scratch_folder folder;
  expect_failure("/dev/full", "not a regular file");
  std::filesystem::create_symlink("/dev/full", folder / "link");
  expect_failure(folder / "link", "not a regular file");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

/// Sets the process back as it was when the test ends.
struct file_size_limit {
  explicit file_size_limit(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit limit{bytes, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~file_size_limit() {
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
  }
  rlimit before;
};

TEST(write_safetensors, leaves_the_old_file_when_there_is_no_room) {
  const scratch_folder folder;
  put(folder / "f", "old");
  const std::vector<float> x(100'000);
  {
    const file_size_limit limit(100'000);  // fails in the middle of the data, as on a full disk
    expect_failure(folder / "f", "File too large", {make_entry("x", {100'000}, x)});
    expect_failure(folder / "new", "File too large", {make_entry("x", {100'000}, x)});
  }
  EXPECT_EQ(contents(folder / "f"), "old");
  EXPECT_EQ(folder.file_count(), 1);
  write_safetensors(folder / "f", {make_entry("x", {100'000}, x)});
  EXPECT_EQ(safetensors_file(folder / "f").read<float>("x"), x);
}

TEST(write_safetensors, leaves_the_old_file_in_a_folder_that_cannot_be_written) {
  const scratch_folder folder;
  put(folder / "f", "old");
  const bool is_root = geteuid() == 0;  // whom permissions do not stop
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  if (is_root && seteuid(65534) != 0) GTEST_SKIP() << "root cannot become another user here";
  expect_failure(folder / "f", "Permission denied");
  EXPECT_EQ(is_root ? seteuid(0) : 0, 0);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  EXPECT_EQ(contents(folder / "f"), "old");
}

}  // namespace
}  // namespace nullscope::test
