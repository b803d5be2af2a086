/// Files that are replaced as a whole. How links, permissions and a full disk are handled is tested with
/// write_safetensors, which writes this way.
#include "lib/src/io/atomic_file.hpp"

#include "tests/core/support.hpp"
#include "tests/io/safetensors_support.hpp"

namespace nullscope::test {
namespace {

TEST(atomic_file, replaces_the_file_when_it_is_committed_and_not_before) {
  const scratch_folder folder;
  put(folder / "f", "old");
  atomic_file file(folder / "f");
  file.write("first, ");
  file.write("");
  file.write("second");
  EXPECT_EQ(contents(folder / "f"), "old");
  file.commit();
  EXPECT_EQ(contents(folder / "f"), "first, second");
  EXPECT_EQ(folder.file_count(), 1);
}

TEST(atomic_file, leaves_nothing_behind_without_commit) {
  const scratch_folder folder;
  put(folder / "old", "old");
  for (const char* name : {"old", "new"}) {
    atomic_file file(folder / name);
    file.write("half of it");
  }
  EXPECT_EQ(contents(folder / "old"), "old");
  EXPECT_EQ(folder.file_count(), 1);
}

TEST(atomic_file, writes_bytes_that_are_not_text) {
  const scratch_folder folder;
  const std::string bytes("\0\n\xff\0", 4);
  write_atomically(folder / "f", bytes);
  EXPECT_EQ(contents(folder / "f"), bytes);
  write_atomically(folder / "f", "");
  EXPECT_EQ(contents(folder / "f"), "");
}

TEST(atomic_file, names_the_path_and_the_reason) {
  const scratch_folder folder;
  EXPECT_EQ(message_of<file_error>([&] { write_atomically(folder / "missing/f", "text"); }),
            fmt::format("cannot write {}: No such file or directory", (folder / "missing/f").string()));
  EXPECT_EQ(message_of<file_error>([&] { write_atomically(folder.path(), "text"); }),
            fmt::format("cannot write {}: Is a directory", folder.path().string()));
}

}  // namespace
}  // namespace nullscope::test
