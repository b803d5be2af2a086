/// Tables and lines, and what is wrong with broken ones.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <nullscope/core/errors.hpp>
#include <thread>
#include "lib/src/io/csv.hpp"

#include "tests/cli/command.hpp"
#include "tests/core/mutations.hpp"

namespace nullscope::test {
namespace {

using record = std::vector<std::string>;

class CsvTest : public testing::Test {
 protected:
  std::string file(const std::string& content, const std::string& name = "table.csv") const {
    std::ofstream(folder / name, std::ios::binary) << content;
    return folder / name;
  }

  std::vector<record> records(const std::string& content, const csv_options& options = {},
                              const std::string& name = "table.csv") const {
    csv_reader reader(file(content, name), options);
    std::vector<record> all;
    record fields;
    while (reader.next(fields)) all.push_back(fields);
    EXPECT_FALSE(reader.next(fields));  // stays at the end
    return all;
  }

  std::vector<std::string> lines(const std::string& content) const {
    line_reader reader(file(content, "lines.txt"));
    std::vector<std::string> all;
    std::string text;
    while (reader.next(text)) all.push_back(text);
    return all;
  }

  /// A file_error that names the file and the line.
  void expect_fault(const std::string& content, int line, const std::string& fragment,
                    const csv_options& options = {}) const {
    try {
      records(content, options);
      ADD_FAILURE() << "accepted " << content;
    } catch (const file_error& error) {
      const std::string place = fmt::format("table.csv: line {}: ", line);
      EXPECT_NE(std::string(error.what()).find(place), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos) << error.what();
    }
  }

  temporary_folder folder;
};

TEST_F(CsvTest, ReadsPlainRecords) {
  EXPECT_EQ(records("a,b\n1,2\n3,4\n"), (std::vector<record>{{"1", "2"}, {"3", "4"}}));
  EXPECT_EQ(records("a,b\r\n1,2\r\n3,4"), (std::vector<record>{{"1", "2"}, {"3", "4"}}));
  EXPECT_EQ(records("a,b\n,\n 1 , 2 "), (std::vector<record>{{"", ""}, {" 1 ", " 2 "}}));
  EXPECT_TRUE(records("a,b").empty());
  EXPECT_TRUE(records("a,b\n").empty());
}

TEST_F(CsvTest, ReadsQuotedFields) {
  EXPECT_EQ(records("a,b\n\"x, \"\"y\"\"\",\"1\n2\r\n3\"\n"), (std::vector<record>{{"x, \"y\"", "1\n2\r\n3"}}));
  EXPECT_EQ(records("a,b\n\"\",\"\"\"\"\n"), (std::vector<record>{{"", "\""}}));
  EXPECT_EQ(records("\"a\",\"b\"\r\n1,\"2\"\r\n"), (std::vector<record>{{"1", "2"}}));
  EXPECT_EQ(records("a\n\"x\""), (std::vector<record>{{"x"}}));
}

TEST_F(CsvTest, SkipsAMarkAndEmptyLines) {
  csv_reader reader(
      file("\xef\xbb\xbf"
           "text,label\n"));
  EXPECT_EQ(reader.columns(), (record{"text", "label"}));
  EXPECT_EQ(records("\n\na,b\n\r\n1,2\n\n\n"), (std::vector<record>{{"1", "2"}}));
  EXPECT_EQ(records("a\n\n1\n"), (std::vector<record>{{""}, {"1"}}));  // of one column, an empty line is a record
}

TEST_F(CsvTest, ChoosesTheSeparator) {
  EXPECT_EQ(records("a\tb\n1,5\t\"x\n", {}, "t.tsv"), (std::vector<record>{{"1,5", "\"x"}}));  // quotes are plain
  EXPECT_EQ(records("a\tb\n\"1\t5\"\tx\n", {.quotes = true}, "t.tsv"), (std::vector<record>{{"1\t5", "x"}}));
  EXPECT_EQ(records("a;b\n1,5;\"x;y\"\n", {.separator = ';'}), (std::vector<record>{{"1,5", "x;y"}}));
  EXPECT_EQ(records("a,b\n\"x\",y\n", {.quotes = false}), (std::vector<record>{{"\"x\"", "y"}}));
}

TEST_F(CsvTest, FindsColumnsByName) {
  const csv_reader reader(file("text,label,label 2\n"));
  EXPECT_EQ(reader.column("label"), 1u);
  EXPECT_EQ(reader.column("label 2"), 2u);
  try {
    reader.column("Text");
    ADD_FAILURE();
  } catch (const file_error& error) {
    EXPECT_NE(std::string(error.what()).find("no column \"Text\""), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("text, label, label 2"), std::string::npos) << error.what();
  }
}

TEST_F(CsvTest, NumbersColumnsWithoutAHeader) {
  csv_reader reader(file("x,y\nz,w\n"), {.has_header = false});
  EXPECT_EQ(reader.column("2"), 1u);
  record fields;
  ASSERT_TRUE(reader.next(fields));
  EXPECT_EQ(fields, (record{"x", "y"}));
  ASSERT_TRUE(reader.next(fields));
  EXPECT_EQ(fields, (record{"z", "w"}));
  EXPECT_FALSE(reader.next(fields));
}

TEST_F(CsvTest, CountsLines) {
  csv_reader reader(file("a,b\n1,\"x\ny\n\"\n\n2,z\n"));
  record fields;
  reader.next(fields);
  EXPECT_EQ(reader.line(), 2);
  reader.next(fields);
  EXPECT_EQ(reader.line(), 6);
}

TEST_F(CsvTest, NamesTheLineThatIsBroken) {
  expect_fault("", 1, "empty");
  expect_fault("\n\n", 1, "empty");
  expect_fault("a,b\n1,2\n3\n", 3, "1 fields, expected 2 (a, b)");
  expect_fault("a,b\n1,2,3\n", 2, "3 fields");
  expect_fault("a,b\n1,\"2\n3\n4", 2, "never closed");
  expect_fault("a,b\n\"1\n\" x,2\n", 3, "closing quote");
  expect_fault("a,b\n1,x\"y\"\n", 2, "quote inside a field");
  expect_fault("a,b\n1,2\r3,4\n", 2, "carriage return");
  expect_fault("a,b,a\n", 1, "two columns are called \"a\"");
}

TEST_F(CsvTest, RefusesWhatItCannotRead) {
  EXPECT_THROW(csv_reader(folder / "nowhere.csv"), file_error);
  EXPECT_THROW(csv_reader(folder / ""), file_error);
  EXPECT_THROW(csv_reader(file("\xff\xfe"
                               "a\0,\0")),
               file_error);
  EXPECT_THROW(line_reader(folder / "nowhere.txt"), file_error);
  EXPECT_THROW(line_reader(file("\xfe\xff")), file_error);
}

TEST_F(CsvTest, PassesOnBytesThatAreNoText) {
  const std::string odd("\0\xff\x80 \x1b", 5);
  EXPECT_EQ(records("a,b\n" + odd + ",\"" + odd + "\"\n"), (std::vector<record>{{odd, odd}}));
}

/// Larger than the blocks in which files are read, with breaks at every place of a block.
TEST_F(CsvTest, ReadsLargeFilesInBlocks) {
  std::vector<record> wanted;
  std::string content = "text,label\r\n";
  for (int i = 0; i < 3000; ++i) {
    const std::string text(static_cast<std::size_t>(i % 997), i % 3 == 0 ? '\n' : 'x');
    wanted.push_back({text + "\",", std::to_string(i)});
    content += "\"" + text + "\"\",\"," + std::to_string(i) + "\r\n";
  }
  EXPECT_EQ(records(content), wanted);
}

TEST_F(CsvTest, ReadsFromAPipe) {
  const std::string path = folder / "pipe.csv";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::jthread writer([&] { std::ofstream(path) << "a,b\n" << std::flush << "1,2\n"; });
  csv_reader reader(path);
  record fields;
  ASSERT_TRUE(reader.next(fields));
  EXPECT_EQ(fields, (record{"1", "2"}));
}

TEST_F(CsvTest, ReadsLines) {
  EXPECT_EQ(lines("one\ntwo, \"three\"\r\n\nlast"), (std::vector<std::string>{"one", "two, \"three\"", "", "last"}));
  EXPECT_EQ(lines("\xef\xbb\xbfone\n"), (std::vector<std::string>{"one"}));
  EXPECT_EQ(lines("a\rb\r"), (std::vector<std::string>{"a\rb\r"}));
  EXPECT_TRUE(lines("").empty());
  EXPECT_EQ(lines("\n"), (std::vector<std::string>{""}));
  line_reader reader(file("x\n\ny\n"));
  std::string text;
  while (reader.next(text)) {
  }
  EXPECT_EQ(reader.line(), 3);
}

/// What is read has as many fields as the table has columns, and all else is a file_error that names the file.
TEST_F(CsvTest, DamageGivesRecordsOrFileErrors) {
  mutations change(20261118);
  const std::string table = "text,label,pair\r\n\"a, \"\"b\"\"\",yes,c\nd,\"no\nno\",e\n\xc3\xa9,yes,\n";
  int good = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string damaged = change.of_text(table);
    try {
      csv_reader reader(file(damaged));
      const std::size_t columns = reader.columns().size();
      for (record fields; reader.next(fields);) EXPECT_EQ(fields.size(), columns) << damaged;
      lines(damaged);
      ++good;
    } catch (const file_error& failure) {
      EXPECT_NE(std::string(failure.what()).find("table.csv"), std::string::npos) << failure.what();
    } catch (const std::exception& failure) {
      ADD_FAILURE() << failure.what() << " from " << damaged;
    }
  }
  EXPECT_GT(good, 200);
  EXPECT_LT(good, 2000);
}

}  // namespace
}  // namespace nullscope::test
