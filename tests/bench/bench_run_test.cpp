/// `./run bench`: the script, with fake benchmark programs and tools, in a temporary folder.
#include <algorithm>

#include "tests/cli/command.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

/// A program that lists and prints its one benchmark, as the harness does, and ends with `exit_code`.
std::string fake_program(const std::string& benchmark, int exit_code) {
  return R"(#!/bin/sh
for flag; do
  case $flag in
    --benchmark_filter=*) filter=${flag#*=} ;;
    --benchmark_list_tests) list=yes ;;
    --nonsense) echo "unknown flag" >&2; exit 2 ;;
  esac
done
case )" + benchmark +
         R"( in
  *"$filter"*) echo )" +
         benchmark + R"( ;;
  *) [ -n "$list" ] || exit 2 ;;
esac
[ -n "$list" ] || exit )" +
         std::to_string(exit_code) + "\n";
}

class bench_run : public testing::Test {
 protected:
  bench_run() {
    std::filesystem::create_directories(folder_ / ".build/release/bench");
    std::filesystem::create_directories(folder_ / "tools");
    std::filesystem::copy_file(NULLSCOPE_RUN, folder_ / "run");
    write("tools/cmake", "#!/bin/sh\necho built\n");
    write("tools/dpkg-query", "#!/bin/sh\necho installed\n");
    write(".build/release/build.ninja", "");
    write(".build/release/bench/first_bench", fake_program("first/f32", 0));
    write(".build/release/bench/second_bench", fake_program("second/f32", 1));
    write(".build/release/bench/third_bench", fake_program("third/f32", 0));
  }

  command_result bench(const std::string& arguments) const {
    return run_command("/usr/bin/env", "-u BENCHMARK_OUT -u BENCHMARK_FORMAT -u NULLSCOPE_PRESET PATH='" +
                                           folder_ / "tools" + "':\"$PATH\" '" + folder_ / "run" + "' bench " +
                                           arguments);
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
  }

  temporary_folder folder_;
};

TEST_F(bench_run, runs_all_programs_and_returns_the_worst_exit_code) {
  const command_result result = bench("");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "first/f32\nsecond/f32\nthird/f32\n") << result.err;
}

TEST_F(bench_run, skips_programs_in_which_the_filter_leaves_nothing) {
  const command_result third = bench("--benchmark_filter=third");
  EXPECT_EQ(third.exit_code, 0) << third.err;
  EXPECT_EQ(third.out, "third/f32\n");
  const command_result none = bench("--benchmark_filter=fourth");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(std::ranges::count(none.err, '\n'), 1) << none.err;
}

TEST_F(bench_run, results_in_one_document_need_the_name_of_a_benchmark) {
  for (const std::string flag : {"--benchmark_format=json", "--benchmark_format=csv", "--benchmark_out=file"}) {
    const command_result all = bench(flag), one = bench("third " + flag);
    EXPECT_EQ(all.exit_code, 2) << flag;
    EXPECT_EQ(all.out, "") << flag;
    EXPECT_NE(all.err.find(flag), std::string::npos) << all.err;
    EXPECT_EQ(one.exit_code, 0) << one.err;
    EXPECT_EQ(one.out, "third/f32\n") << "nothing but what the program prints";
  }
  EXPECT_EQ(bench("--benchmark_format=console --benchmark_filter=first").exit_code, 0);
}

TEST_F(bench_run, a_wrong_flag_is_reported_once) {
  const command_result result = bench("--nonsense");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err, "unknown flag\n");
}

TEST_F(bench_run, an_unknown_benchmark_lists_the_names) {
  const command_result result = bench("fourth");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("there are: first second third"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace nullscope::test
