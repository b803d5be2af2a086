/// What commands do when there is something where they want to write: one rule for all of them.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nullscope/core/device.hpp>
#include <nullscope/io/safetensors.hpp>
#include <nullscope/model/model_folder.hpp>
#include <nullscope/training/text_classifier.hpp>

#include "tests/cli/nullscope_program.hpp"

namespace nullscope::test {
namespace {

namespace fs = std::filesystem;

/// A small model, a small classifier, texts, and matrices.
class previous_work : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    inputs_ = std::make_unique<temporary_folder>();
    const fs::path models = NULLSCOPE_MODEL_DATA, tokenizers = NULLSCOPE_TOKENIZER_DATA;
    fs::copy(models / "bert", input("bert"));  // 2 layers, width 21, 3 heads, at most 33 tokens
    fs::copy(tokenizers / "bert_uncased" / "tokenizer.json", input("bert"));
    make_classifier();
    std::ofstream texts(input("texts.txt"));
    for (const char* word : {"one", "two", "head", "row"}) texts << "the attention of " << word << " is a row\n";
    texts << "short\n";
    std::ofstream table(input("reviews.csv"));
    table << "text,label\n";
    for (int i = 0; i < 10; ++i) table << "the film was good fun,positive\nthe plot was bad,negative\n";
    const std::vector<float> numbers{1, 2, 3, 4, 5, 6, 7, 9};
    write_safetensors(input("matrix.safetensors"), {make_entry("a", {4, 2}, numbers)});
    write_safetensors(input("heads.safetensors"),
                      {make_entry("q", {1, 4, 2}, numbers), make_entry("k", {1, 4, 2}, numbers),
                       make_entry("v", {1, 4, 2}, numbers)});
  }
  static void TearDownTestSuite() { inputs_.reset(); }

  static void make_classifier() {
    context ctx(select_device());
    const word_vocabulary words({"the", "film", "was", "not", "good", "bad", "fun", "plot"});
    transformer_config config;
    config.layers = 1, config.width = 16, config.heads = 2, config.key_size = config.value_size = 8;
    config.feed_forward = 16, config.vocabulary = words.size(), config.positions = 24, config.classes = 2;
    transformer<float> model(ctx, config);
    model.initialise(ctx, 3);
    save_classifier(ctx, model, text_encoder(words), {"negative", "positive"}, input("classifier"));
  }

  static std::string input(const std::string& name) { return *inputs_ / name; }
  std::string path(const std::string& name) const { return folder_ / name; }
  std::string with_bert(const std::string& command, const std::string& more) const {
    return fmt::format("{} --model {} --file {} {}", command, input("bert"), input("texts.txt"), more);
  }

  struct found_file {
    std::string content;
    fs::file_time_type written;
    bool operator==(const found_file&) const = default;
  };

  /// All files in the folder of this test.
  std::map<std::string, found_file> files() const {
    std::map<std::string, found_file> all;
    for (const auto& entry : fs::recursive_directory_iterator(path(""))) {
      if (entry.is_regular_file()) all[entry.path().string()] = {content_of(entry.path()), entry.last_write_time()};
    }
    return all;
  }

  void expect_untouched_complaint(const std::string& arguments, const std::string& fragment) const {
    const auto before = files();
    const command_result result = nullscope(arguments);
    EXPECT_EQ(result.exit_code, 1) << arguments << result.out;
    EXPECT_NE(result.err.find(fragment), std::string::npos) << arguments << "\n" << result.err;
    EXPECT_TRUE(files() == before) << arguments;
  }

  /// `arguments` end with --output; `other` changes a setting, which is `setting` without it.
  void expect_rule(const std::string& arguments, const std::string& other, const std::string& setting) const {
    SCOPED_TRACE(arguments);
    const command_result first = nullscope(arguments);
    ASSERT_EQ(first.exit_code, 0) << first.err;
    const auto before = files();
    const command_result again = nullscope(arguments);
    EXPECT_EQ(again.exit_code, 0) << again.err;
    EXPECT_NE(again.out.find("is already finished, with the same settings"), std::string::npos) << again.out;
    EXPECT_TRUE(files() == before);
    expect_untouched_complaint(arguments + " " + other, "was started with " + setting);
    const command_result replaced = nullscope(arguments + " " + other + " --overwrite");
    EXPECT_EQ(replaced.exit_code, 0) << replaced.err;
    EXPECT_FALSE(files() == before);
    const std::string name = setting.substr(0, setting.find(' '));
    expect_untouched_complaint(arguments, "was started with " + name + " ");
  }

  /// The file of a command that is not ours stays.
  void expect_foreign_file_stays(const std::string& arguments, const std::string& file) const {
    SCOPED_TRACE(arguments);
    fs::create_directories(fs::path(path(file)).parent_path());
    std::ofstream(path(file)) << "somebody's";
    expect_untouched_complaint(arguments, "--overwrite");
    EXPECT_EQ(nullscope(arguments + " --overwrite").exit_code, 0);
    EXPECT_NE(content_of(path(file)), "somebody's");
  }

  static inline std::unique_ptr<temporary_folder> inputs_;
  const temporary_folder folder_;
};

TEST_F(previous_work, files_are_replaced_only_when_asked) {
  const std::string output = " --output " + path("out");
  expect_rule(with_bert("hta", "--samples 2") + output, "--seed 7", "seed 1, not 7");
  expect_rule(with_bert("encode", "") + " --output " + path("encoded"), "--attention", "attention false, not true");
  expect_rule("svd --tensor a --input " + input("matrix.safetensors") + " --output " + path("factors"), "--full",
              "full false, not true");
  expect_rule("effective-attention --input " + input("heads.safetensors") + " --output " + path("parts"), "--causal",
              "causal false, not true");
  expect_rule(
      fmt::format("view --no-attribution --model {} --text 'one head' --output {}", input("bert"), path("page")),
      "--seed 5", "checksum");
  expect_rule(fmt::format("evaluate --model {} --data {} --output {}", input("classifier"), input("reviews.csv"),
                          path("predictions.csv")),
              "--batch 3", "batch 256, not 3");
}

TEST_F(previous_work, folders_are_replaced_only_when_asked) {
  const std::string classifier = "--model " + input("classifier");
  expect_rule(with_bert("attention", "") + " --output " + path("attention"), "--rollout", "rollout false, not true");
  expect_rule(with_bert("structure", "--length 6") + " --output " + path("structure"), "--cut 0.2", "cut 0.4, not 0.2");
  expect_rule(with_bert("identify", "--map identity --distance l2 --folds 2") + " --output " + path("identify"),
              "--seed 2", "seed 1, not 2");
  expect_rule(
      fmt::format("explain {} --text 'the film was good' --samples 100 --output {}", classifier, path("explain")),
      "--seed 2", "seed 1, not 2");
  expect_rule(fmt::format("faithfulness {} --data {} --methods gradient --texts 2 --samples 20 --output {}", classifier,
                          input("reviews.csv"), path("faithful")),
              "--points 5", "points 20, not 5");
  const std::string small = "--networks encoder --layers 1 --width 16 --epochs 1 --samples 300 --output ";
  expect_rule("experiment linear " + small + path("experiment"), "--seed 2", "seed 1, not 2");
  expect_rule("experiment reversal --tokens 8 --value-size 4 --steps 2 --inputs 2 --output " + path("reversal"),
              "--seed 7", "seed");
  expect_rule("sweep --width 8 --heads 2 --samples 1 --lengths 6 --output " + path("sweep"), "--seed 2",
              "seed 1, not 2");
  expect_rule(fmt::format("train --data {} --width 8 --heads 1 --feed-forward 8 --epochs 1 --batch 8 --output {}",
                          input("reviews.csv"), path("trained")),
              "--learning-rate 0.5", "learning_rate 0.001, not 0.5");
}

TEST_F(previous_work, a_model_that_was_trained_again_is_another_one) {
  fs::copy(input("bert"), path("model"));
  const std::string arguments = fmt::format("encode --model {} --text one --output {}", path("model"), path("out"));
  ASSERT_EQ(nullscope(arguments).exit_code, 0);
  std::string weights = content_of(path("model/model.safetensors"));
  weights[weights.size() - 2] ^= 1;
  std::ofstream(path("model/model.safetensors")) << weights;
  expect_untouched_complaint(arguments, "was started with model_checksum");
}

TEST_F(previous_work, files_of_others_stay) {
  expect_foreign_file_stays(with_bert("hta", "--samples 2") + " --output " + path("out"), "out");
  expect_foreign_file_stays(with_bert("hta", "--samples 2 --report " + path("report")) + " --output " + path("other"),
                            "report/own.csv");
  expect_foreign_file_stays(with_bert("attention", "") + " --output " + path("attention"), "attention/heads.csv");
  expect_foreign_file_stays(with_bert("structure", "--length 6") + " --output " + path("w"), "w/structure.safetensors");
  expect_foreign_file_stays(
      "experiment linear --networks encoder --layers 1 --width 16 --epochs 1 --samples 300 --output " + path("linear"),
      "linear/linear.csv");
}

TEST_F(previous_work, an_interrupted_run_is_kept_until_it_is_resumed_or_given_up) {
  const std::string hta = with_bert("hta", "--samples 2") + " --output " + path("out");
  fs::create_directory(path("out"));  // the file cannot be written: all units are in the journal
  ASSERT_EQ(nullscope(hta + " --overwrite").exit_code, 1);
  fs::remove(path("out"));
  ASSERT_TRUE(fs::exists(path("out.journal")));
  expect_untouched_complaint(hta,
                             "out.journal is of an unfinished run; --resume continues it, --overwrite starts over");
  expect_untouched_complaint(hta + " --seed 8", "out.journal was started with seed 1, not 8");
  expect_untouched_complaint(hta + " --seed 8 --resume", "out.journal was started with seed 1, not 8");
  EXPECT_EQ(nullscope(hta + " --resume").exit_code, 0);
  EXPECT_FALSE(fs::exists(path("out.journal")));

  const std::string identify =
      with_bert("identify", "--map identity --distance l2 --folds 2") + " --output " + path("probes");
  fs::create_directories(path("probes/layers.svg/in_the_way"));
  ASSERT_EQ(nullscope(identify + " --overwrite").exit_code, 1);
  fs::remove_all(path("probes/layers.svg"));
  ASSERT_TRUE(fs::exists(path("probes/identify.journal")));
  expect_untouched_complaint(identify, "--resume continues it, --overwrite starts over");
  std::string journal = content_of(path("probes/identify.journal"));
  journal[20] ^= 1;  // the first line, with the settings
  std::ofstream(path("probes/identify.journal")) << journal;
  for (const char* flag : {"", " --resume"}) {
    expect_untouched_complaint(identify + flag, "identify.journal is damaged, or no journal of nullscope");
  }
  EXPECT_EQ(nullscope(identify + " --overwrite").exit_code, 0);
}

TEST_F(previous_work, a_report_of_a_finished_file_is_written_without_computing) {
  const std::string hta = with_bert("hta", "--samples 2") + " --output ";
  ASSERT_EQ(nullscope(hta + path("both") + " --report " + path("report")).exit_code, 0);
  ASSERT_EQ(nullscope(hta + path("file")).exit_code, 0);
  const command_result later = nullscope(hta + path("file") + " --report " + path("later"));
  ASSERT_EQ(later.exit_code, 0) << later.err;
  EXPECT_NE(later.out.find("is already finished"), std::string::npos) << later.out;
  for (const char* name : {"own.csv", "offset.csv", "report.svg", "heat_map.svg"}) {
    EXPECT_EQ(content_of(path("later/") + name), content_of(path("report/") + name)) << name;
  }
}

TEST_F(previous_work, memory_that_is_too_small_for_one_text_is_found_before_the_first_unit) {
  std::ofstream texts(path("texts.txt"));
  for (int i = 0; i < 8; ++i) texts << "short\n";  // a unit
  std::string sentence;
  for (int i = 0; i < 30; ++i) sentence += "one row ";
  for (int i = 0; i < 6; ++i) texts << sentence << "\n";  // units that need more memory
  texts.close();
  const std::string arguments =
      fmt::format("hta --model {} --file {} --output {} --memory ", input("bert"), path("texts.txt"), path("out"));
  const command_result tiny = nullscope(arguments + "1KB");
  const std::string words = "the least is ";
  const std::size_t place = tiny.err.find(words);
  ASSERT_NE(place, std::string::npos) << tiny.err;
  const std::int64_t least = std::stol(tiny.err.substr(place + words.size()));
  const command_result result = nullscope(arguments + std::to_string(least - 1));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(path("out.journal")));  // nothing was computed
  EXPECT_EQ(nullscope(arguments + std::to_string(least)).exit_code, 0);
}

/// Runs a sweep where flock fails with this error.
command_result run_where_locks_fail(int error, const std::string& arguments) {
  return run_command("/usr/bin/env",
                     fmt::format("ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD={} FLOCK_ERROR={} {} {}",
                                 NULLSCOPE_FAILING_FLOCK, error, NULLSCOPE_PROGRAM, arguments));
}

TEST_F(previous_work, a_file_system_without_locks_needs_none) {
  const std::string sweep = "sweep --width 8 --heads 2 --samples 1 --lengths 6 --quiet --output ";
  for (const int error : {ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL}) {
    const command_result result = run_where_locks_fail(error, sweep + path(fmt::format("without{}", error)));
    EXPECT_EQ(result.exit_code, 0) << error << result.err;
  }
  const command_result taken = run_where_locks_fail(EWOULDBLOCK, sweep + path("taken"));
  EXPECT_EQ(taken.exit_code, 1);
  EXPECT_NE(taken.err.find("another process is writing " + path("taken/sweep.journal")), std::string::npos)
      << taken.err;
  const command_result broken = run_where_locks_fail(EIO, sweep + path("broken"));
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_NE(broken.err.find("sweep.journal: Input/output error"), std::string::npos) << broken.err;
}

TEST_F(previous_work, every_command_that_writes_says_so_in_the_same_words) {
  for (const char* command : {"attention", "effective-attention", "encode", "evaluate", "experiment linear",
                              "experiment recovery", "experiment reversal", "experiment surrogates", "explain",
                              "faithfulness", "hta", "identify", "structure", "svd", "sweep", "train", "view"}) {
    std::string help = nullscope(std::string(command) + " --help").out;
    std::erase_if(help, [](char c) { return c == ' ' || c == '\n'; });  // lines are broken anywhere
    EXPECT_NE(help.find("--overwrite"), std::string::npos) << command;
    EXPECT_NE(help.find("Startover,andreplacewhatisthere"), std::string::npos) << command << help;
  }
  for (const char* command : {"hta", "identify", "sweep", "train"}) {
    const std::string help = nullscope(std::string(command) + " --help").out;
    EXPECT_NE(help.find("Continue an unfinished run"), std::string::npos) << command;
  }
}

}  // namespace
}  // namespace nullscope::test
