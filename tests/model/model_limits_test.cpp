/// Configs that ask for more than the weights beside them have, and damaged ones: a typed error before memory is taken.
#include <fmt/format.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <nullscope/model/model_folder.hpp>

#include "tests/cli/command.hpp"
#include "tests/core/mutations.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

namespace fs = std::filesystem;

const fs::path model_data = NULLSCOPE_MODEL_DATA;

/// Ends the process: 0 if the folder is refused by a file_error that holds `fragment` within 1 GB of more address
/// space.
[[noreturn]] void describe_within_1_gb(const fs::path& folder, const std::string& fragment) {
  std::ifstream statistics("/proc/self/statm");
  std::uint64_t pages = 0;
  statistics >> pages;
  const rlim_t most = pages * 4096 + (std::uint64_t{1} << 30);
  const rlimit limit{most, most};
  setrlimit(RLIMIT_AS, &limit);
  try {
    describe_model(folder);
  } catch (const file_error& failure) {
    std::exit(std::string(failure.what()).find(fragment) == std::string::npos ? 2 : 0);
  } catch (const std::bad_alloc&) {
    std::exit(3);
  }
  std::exit(1);
}

TEST(model_limits, a_billion_layers_are_refused_before_memory_is_taken) {
  EXPECT_EXIT(describe_within_1_gb(model_data / ".." / "many_layers", "layers is 1000000007"),
              testing::ExitedWithCode(0), "");
}

TEST(model_limits, every_extent_of_a_config_is_bounded_by_the_weights) {
  const temporary_folder copy;
  const fs::path folder = copy / "model";
  fs::copy(model_data / "bert", folder);
  const std::string text = content_of(folder / "config.json");
  struct limit {
    const char *member, *named;
  };
  for (const auto& [member, named] : {limit{"num_hidden_layers", "layers"}, limit{"intermediate_size", "feed_forward"},
                                      limit{"vocab_size", "vocabulary"}, limit{"max_position_embeddings", "positions"},
                                      limit{"type_vocab_size", "segments"}, limit{"hidden_size", "width"}}) {
    nlohmann::json config = nlohmann::json::parse(text);
    for (const std::int64_t value : {std::int64_t{2'100'000'000}, std::int64_t{1} << 40}) {
      config[member] = value;
      if (std::string(member) == "hidden_size") config["num_attention_heads"] = 21'000'000;
      std::ofstream(folder / "config.json") << config.dump();
      const std::string message = message_of<file_error>([&] { describe_model(folder); });
      EXPECT_NE(message.find("config.json"), std::string::npos) << message;
      const bool is_named = message.find(named) != message.npos || message.find(member) != message.npos;
      EXPECT_TRUE(is_named) << named << ": " << message;
    }
  }
}

TEST(model_limits, more_elements_than_can_be_counted_are_refused) {
  transformer_config config{.layers = 1, .width = 1 << 30, .heads = 1 << 30, .key_size = 512, .value_size = 512};
  config.feed_forward = 1 << 30;
  config.vocabulary = config.positions = 1 << 30;
  EXPECT_NE(message_of<invalid_argument>([&] { parameters_of(config); }).find("too large"), std::string::npos);
  config.layers = std::int64_t{1} << 40;
  EXPECT_NE(message_of<invalid_argument>([&] { config.validate(); }).find("layers"), std::string::npos);
}

class model_limits_test : public device_test {
 protected:
  /// Loads the model and runs it on two short sequences.
  void load_and_run(const fs::path& folder) {
    const transformer<float> model = load_transformer<float>(ctx_, folder);
    const transformer_config& c = model.config();
    const std::int64_t tokens = std::min<std::int64_t>(5, c.positions);
    std::vector<token_batch::sequence> sequences(2);
    for (std::int64_t i = 0; i < tokens; ++i) {
      sequences[0].ids.push_back(static_cast<std::int32_t>(i % c.vocabulary));
    }
    sequences[1].ids = {static_cast<std::int32_t>(c.vocabulary - 1)};
    const token_batch batch(ctx_, c, sequences);
    tensor<float> hidden(ctx_, {c.layers + 1, batch.size(), batch.tokens(), c.width});
    forward(ctx_, model, batch, {.hidden = hidden}).wait_and_throw();
    ++runs_;
  }

  int runs_ = 0;
};

/// Half of the damage is to the text, half to the values.
TEST_P(model_limits_test, damaged_configs_load_or_are_typed_errors) {
  mutations change(20261118);
  for (const char* name : {"bert", "distilbert_f16", "mpnet", "gpt2_classifier"}) {
    const temporary_folder copy;
    const fs::path folder = copy / "model";
    fs::copy(model_data / name, folder);
    const std::string text = content_of(folder / "config.json");
    for (int i = 0; i < 120; ++i) {
      const std::string damaged = i % 2 == 0 ? change.of_json(text) : change.of_text(text);
      std::ofstream(folder / "config.json", std::ios::binary) << damaged;
      try {
        load_and_run(folder);
      } catch (const error& expected) {
        EXPECT_EQ(std::string(expected.what()).find("json.exception"), std::string::npos) << expected.what();
      } catch (const std::exception& failure) {
        ADD_FAILURE() << failure.what() << " from " << damaged;
      }
    }
  }
  EXPECT_GT(runs_, 20);  // what does not matter may be damaged
}

INSTANTIATE_TEST_SUITE_P(devices, model_limits_test, testing::ValuesIn(devices()), device_name);

}  // namespace
}  // namespace nullscope::test
