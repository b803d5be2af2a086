/// nullscope train and nullscope evaluate, with tiny models.
#include <fmt/format.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/cli/nullscope_program.hpp"

namespace nullscope::test {
namespace {

/// Reviews whose label follows from one word, with quotes, commas and line breaks in them.
std::string reviews(int count) {
  std::string csv = "id,review,grade\n";
  const char* const words[] = {"film", "story", "actor", "music", "plot"};
  for (int i = 0; i < count; ++i) {
    const bool is_good = i % 3 != 0;
    csv += fmt::format("{},\"The {}, \"\"{}\"\",\nis {}.\",{}\n", i, words[i % 5], words[i % 4],
                       is_good ? "good" : "bad", is_good ? "yes" : "no");
  }
  return csv;
}

constexpr int epochs = 12;

/// The options of a tiny model, without those that `more` gives.
std::string tiny(const std::string& more = "") {
  std::string options = " ";
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"--text-column", "review"},
                                                        {"--label-column", "grade"},
                                                        {"--width", "16"},
                                                        {"--heads", "2"},
                                                        {"--feed-forward", "24"},
                                                        {"--max-length", "12"},
                                                        {"--batch", "8"},
                                                        {"--learning-rate", "0.01"},
                                                        {"--epochs", std::to_string(epochs)}}) {
    if (more.find(name + " ") == std::string::npos) options += name + " " + value + " ";
  }
  return options;
}

class train_command_test : public testing::Test {
 protected:
  train_command_test() { std::ofstream(path("reviews.csv")) << reviews(60); }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string train(const std::string& output, const std::string& more = "") const {
    return "train --data " + path("reviews.csv") + tiny(more) + "--output " + path(output) + " " + more;
  }

  temporary_folder folder_;
};

TEST_F(train_command_test, trains_and_evaluates) {
  const command_result trained = nullscope(train("model"));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(trained.err, "");
  EXPECT_NE(trained.out.find("test accuracy 1.0000 (9 of 9)"), std::string::npos) << trained.out;

  std::ifstream lines(path("model/training.jsonl"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto epoch = nlohmann::json::parse(line);
    EXPECT_EQ(epoch.at("epoch"), count + 1);
    EXPECT_GT(epoch.at("tokens_per_second"), 0);
  }
  EXPECT_EQ(count, epochs);
  EXPECT_EQ(nlohmann::json::parse(content_of(path("model/training.json"))).at("test_accuracy"), 1);
  EXPECT_NE(content_of(path("model/training.svg")).find("<svg"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("model/checkpoint.safetensors")));

  const std::string evaluate = "evaluate --model " + path("model") + " --data " + path("reviews.csv") +
                               " --text-column review --label-column grade ";
  const command_result evaluated = nullscope(evaluate + "--json --output " + path("predictions.csv"));
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  const auto result = nlohmann::json::parse(evaluated.out);
  EXPECT_EQ(result.at("accuracy"), 1);
  EXPECT_EQ(result.at("texts"), 60);
  EXPECT_EQ(result.at("labels").at(0).at("label"), "no");
  EXPECT_EQ(result.at("labels").at(0).at("texts"), 20);
  EXPECT_EQ(content_of(path("predictions.csv")).rfind("line,label,prediction,p_no,p_yes\n2,no,no,", 0), 0u);
  EXPECT_NE(nullscope(evaluate).out.find("accuracy 1.0000 (60 of 60)"), std::string::npos);

  // What is there is not replaced by accident.
  expect_complaint(train("model", "--seed 2"), 1, "was started with seed 1, not 2");
  EXPECT_EQ(nullscope(train("model", "--overwrite --quiet")).out, "");
}

TEST_F(train_command_test, other_kinds_of_models) {
  EXPECT_EQ(nullscope(train("added", "--heads-are added --key-size 1")).exit_code, 0);
  const auto config = nlohmann::json::parse(content_of(path("added/config.json")));
  EXPECT_EQ(config.at("value_size"), 16);
  EXPECT_EQ(config.at("key_size"), 1);
  EXPECT_EQ(config.at("labels"), (std::vector<std::string>{"no", "yes"}));
  const command_result decoder = nullscope(train(
      "decoder", "--decoder --layers 2 --schedule linear --warm-up 3 --clip 1 --weight-decay 0.01 --dropout 0.1"));
  EXPECT_EQ(decoder.exit_code, 0) << decoder.err;
  EXPECT_EQ(nlohmann::json::parse(content_of(path("decoder/config.json"))).at("causal"), true);

  // Pairs, a test file of its own, and fine-tuning of a model that we trained.
  std::ofstream(path("pairs.tsv")) << "text\tother\tlabel\na b\tb\t1\na\tb c\t2\na\ta\t10\nc\tc b\t2\na\tb\t1\n";
  const std::string pairs = "train --data " + path("pairs.tsv") + " --test " + path("pairs.tsv") +
                            " --pair-column other --width 8 --heads 1 --epochs 1 --output " + path("pairs");
  const command_result paired = nullscope(pairs);
  EXPECT_EQ(paired.exit_code, 0) << paired.err;
  EXPECT_EQ(nlohmann::json::parse(content_of(path("pairs/config.json"))).at("labels"),
            (std::vector<std::string>{"1", "2", "10"}));
  const std::string tuning = "train --data " + path("reviews.csv") +
                             " --text-column review --label-column grade --max-length 12 --from " + path("added") +
                             " --epochs 1 --output " + path("tuned");
  const command_result tuned = nullscope(tuning);
  EXPECT_EQ(tuned.exit_code, 0) << tuned.err;
  EXPECT_EQ(nlohmann::json::parse(content_of(path("tuned/config.json"))).at("merge"), "added");
  expect_complaint(tuning + "2 --width 8", 2, "excludes");
}

TEST_F(train_command_test, an_interrupted_training_resumes_to_the_bit) {
  ASSERT_EQ(nullscope(train("whole", "--dropout 0.1")).exit_code, 0);
  // Until the second epoch, then a signal.
  const std::string part = train("part", "--dropout 0.1 --checkpoint-minutes 0");
  const std::string line =
      fmt::format("'{}' {} > {} 2> {} & echo $! > {}", NULLSCOPE_PROGRAM, part, path("out"), path("err"), path("pid"));
  ASSERT_EQ(std::system(line.c_str()), 0);
  pid_t process = 0;
  std::ifstream(path("pid")) >> process;
  ASSERT_GT(process, 0);
  for (int i = 0; i < 6000 && !std::filesystem::exists(path("part/training.jsonl")); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(process, SIGTERM);
  for (int i = 0; i < 6000 && kill(process, 0) == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const bool was_interrupted = std::filesystem::exists(path("part/checkpoint.safetensors"));
  if (was_interrupted) {
    EXPECT_NE(content_of(path("err")).find("continue with --resume"), std::string::npos) << content_of(path("err"));
    expect_complaint(part, 1, "--resume continues");
    const command_result other = nullscope(part + " --resume --seed 2");
    EXPECT_EQ(other.exit_code, 1);
    EXPECT_NE(other.err.find("made with"), std::string::npos) << other.err;
    const command_result resumed = nullscope(part + " --resume");
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  }
  for (const char* file : {"model.safetensors", "config.json", "vocab.txt", "training.json"}) {
    EXPECT_EQ(content_of(path("part") + "/" + file), content_of(path("whole") + "/" + file)) << file;
  }
}

TEST_F(train_command_test, bad_input_is_explained) {
  const std::string more = tiny() + "--output " + path("x") + " --data ";
  const auto write = [&](const char* text) {
    std::ofstream(path("bad.csv")) << "review,grade\n" << text;
    return "train" + more + path("bad.csv");
  };
  expect_complaint(write("a,1\nb,2\n\"open,2\n"), 1, "bad.csv: line 4");
  expect_complaint(write("a,1\nb,2,3\n"), 1, "line 3");
  expect_complaint(write("a,1\n\" \n\",2\n"), 1, "line 3: column review is empty");
  expect_complaint(write("a,1\nb,\n"), 1, "line 3: column grade is empty");
  expect_complaint(write("a,1\nb,1\nc,1\n"), 1, "nothing to learn");
  expect_complaint(write("a,1\nb,2\n"), 1, "cannot be divided");
  expect_complaint(write(""), 1, "no texts");
  expect_complaint("train" + more + path("missing.csv"), 1, "missing.csv");
  expect_complaint(train("x", "--text-column story"), 1, "story");
  expect_complaint(train("x", "--heads 3"), 2, "--heads 3 does not divide --width 16");
  expect_complaint(train("x", "--epochs 0"), 2, "--epochs");
  expect_complaint(train("x", "--max-length 5 --too-long refuse"), 1, "line 2: 60 of 60 texts have more than 5");
  expect_complaint("train --data " + path("reviews.csv") + tiny() + "--output /dev/null/x", 1, "/dev/null/x");
  expect_complaint(train("x", "--test " + path("missing.csv")), 1, "missing.csv");
  std::ofstream(path("test.csv")) << "review,grade\ngood,yes\nbad,perhaps\n";
  expect_complaint(train("x", "--test " + path("test.csv")), 1, "line 3: the label \"perhaps\" is not one of no, yes");
  const command_result cut = nullscope(train("cut", "--max-length 5 --epochs 1"));
  EXPECT_EQ(cut.exit_code, 0);
  EXPECT_NE(cut.err.find("60 of 60 texts have more than 5 tokens; they are cut"), std::string::npos) << cut.err;

  const std::string evaluate = "evaluate --data " + path("test.csv") + " --text-column review --label-column grade ";
  expect_complaint(evaluate + "--model " + path("cut"), 1, "\"perhaps\" is not one of no, yes");
  expect_complaint(evaluate + "--model " + path(""), 1, "config.json");
  expect_complaint(evaluate + "--model nothing", 1, "nothing");
}

/// A model folder names its classes in JSON: found before the first step, not after the last.
TEST_F(train_command_test, a_label_that_is_not_utf8_is_refused_before_the_first_step) {
  const std::string data = std::string(NULLSCOPE_COMMAND_DATA) + "/label_latin1.csv", output = path("latin1");
  expect_complaint("train --data " + data + " --width 16 --heads 2 --epochs 3 --output " + output, 1,
                   "label_latin1.csv: line 2: column label is not UTF-8");
  EXPECT_FALSE(std::filesystem::exists(output));
  const command_result result = nullscope(train("model", "--epochs 1"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  expect_complaint("evaluate --data " + data + " --model " + path("model"), 1, "line 2: column label is not UTF-8");
}

TEST_F(train_command_test, a_loss_that_is_not_finite_stops_it) {
  expect_complaint(train("x", "--learning-rate 1e38 --quiet"), 1, "the loss of step");
}

}  // namespace
}  // namespace nullscope::test
