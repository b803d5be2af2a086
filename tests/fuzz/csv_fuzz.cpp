/// Fuzzes the readers of tables and lines: a table has as many fields in each record as columns, or is a file_error.
///   csv_fuzz -max_len=2000 <a folder for new inputs>
#include <cstdlib>
#include <nullscope/core/errors.hpp>
#include "lib/src/io/csv.hpp"

#include "tests/fuzz/fuzz_folder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nullscope;
  static const test::fuzz_folder folder;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"table.csv", "table.tsv"}) {
    folder.write(name, bytes);
    for (const bool has_header : {true, false}) {
      try {
        csv_reader reader(folder.path() / name, {.has_header = has_header});
        const std::size_t columns = reader.columns().size();
        for (std::vector<std::string> fields; reader.next(fields);) {
          if (fields.size() != columns || reader.line() < 1) std::abort();
        }
      } catch (const file_error&) {
      }
    }
  }
  try {
    line_reader reader(folder.path() / "table.csv");
    for (std::string line; reader.next(line);) {
      if (line.find('\n') != line.npos) std::abort();
    }
  } catch (const file_error&) {
  }
  return 0;
}
