#include <gtest/gtest.h>

#include <algorithm>
#include <nullscope/core/errors.hpp>
#include <nullscope/training/training.hpp>
#include <numeric>

namespace nullscope {
namespace {

using index_list = std::vector<std::int64_t>;

index_list joined(const data_split& split) {
  index_list all = split.training;
  all.insert(all.end(), split.validation.begin(), split.validation.end());
  all.insert(all.end(), split.test.begin(), split.test.end());
  return all;
}

index_list numbers_to(std::int64_t count) {
  index_list numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST(TrainingData, PartsOfASplitNeverOverlapAndHoldEverything) {
  for (const std::int64_t count : {3, 4, 10, 101, 1000}) {
    for (const std::uint64_t seed : {0, 1, 2}) {
      index_list all = joined(split_examples(count, seed));
      std::ranges::sort(all);
      EXPECT_EQ(all, numbers_to(count));
    }
  }
  const data_split split = split_examples(1000, 1);
  EXPECT_EQ(split.training.size(), 700u);
  EXPECT_EQ(split.validation.size(), 150u);
  EXPECT_EQ(joined(split), joined(split_examples(1000, 1)));
  EXPECT_NE(joined(split), joined(split_examples(1000, 2)));
  EXPECT_FALSE(std::ranges::is_sorted(split.training));
}

TEST(TrainingData, ASplitWithoutATestLeavesItEmpty) {
  const data_split split = split_examples(10, 1, {.training = 0.7, .validation = 0.3});
  EXPECT_EQ(split.training.size(), 7u);
  EXPECT_EQ(split.validation.size(), 3u);
  EXPECT_TRUE(split.test.empty());
  EXPECT_EQ(split_examples(2, 1, {.training = 0.99, .validation = 0.01}).validation.size(), 1u);
  EXPECT_THROW(split_examples(2, 1), invalid_argument);
  EXPECT_THROW(split_examples(10, 1, {.training = 0.7, .validation = 0.4}), invalid_argument);
  EXPECT_THROW(split_examples(10, 1, {.training = -0.1, .validation = 0.4}), invalid_argument);
}

TEST(TrainingData, AnEpochHasEveryExampleOnceInBatchesOfSimilarLength) {
  index_list indices, lengths(500);
  for (std::int64_t i = 0; i < 500; ++i) {
    lengths[static_cast<std::size_t>(i)] = 1 + i * 37 % 101;
    if (i % 3 != 0) indices.push_back(i);
  }
  const auto batches = epoch_batches(indices, lengths, 32, 5, 1);
  index_list all;
  for (const index_list& batch : batches) {
    EXPECT_LE(batch.size(), 32u);
    const auto length = [&](std::int64_t i) { return lengths[static_cast<std::size_t>(i)]; };
    const auto [low, high] = std::ranges::minmax(batch, {}, length);
    EXPECT_LT(length(high) - length(low), 30);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  EXPECT_EQ(batches.size(), 11u);
  EXPECT_NE(all, indices);
  std::ranges::sort(all);
  EXPECT_EQ(all, indices);
  EXPECT_EQ(epoch_batches(indices, lengths, 32, 5, 1), batches);
  EXPECT_NE(epoch_batches(indices, lengths, 32, 5, 2), batches);
  EXPECT_NE(epoch_batches(indices, lengths, 32, 6, 1), batches);
  EXPECT_TRUE(epoch_batches({}, lengths, 32, 5, 1).empty());
  EXPECT_THROW(epoch_batches(indices, lengths, 0, 5, 1), invalid_argument);
  EXPECT_THROW(epoch_batches(index_list{500}, lengths, 2, 5, 1), invalid_argument);
}

TEST(TrainingData, ExamplesThatAModelCannotLearnAreNamed) {
  transformer_config config;
  config.vocabulary = 10;
  config.positions = 4;
  config.classes = 2;
  const auto message = [&](training_example example) -> std::string {
    const std::vector<training_example> examples{{{{1, 2}}, {}, {0}}, std::move(example)};
    try {
      check_examples(config, examples);
    } catch (const invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("example 1 "), std::string::npos) << error.what();
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message({{{1, 9, 3, 0}}, {}, {1}}), "");
  EXPECT_NE(message({{{}}, {}, {1}}), "");
  EXPECT_NE(message({{{1, 2, 3, 4, 5}}, {}, {1}}), "");
  EXPECT_NE(message({{{10}}, {}, {1}}), "");
  EXPECT_NE(message({{{-1}}, {}, {1}}), "");
  EXPECT_NE(message({{{1}}, {}, {2}}), "");
  EXPECT_NE(message({{{1}}, {}, {-1}}), "");
  EXPECT_NE(message({{{1}}, {}, {}}), "");
  EXPECT_NE(message({{{1}, {0}}, {}, {1}}), "");  // the model has no segments
  EXPECT_NE(message({{{1}}, {{1}}, {1}}), "");
  config.pairs = true;
  EXPECT_THROW(check_examples(config, std::vector<training_example>{{{{1}}, {}, {1}}}), invalid_argument);
  EXPECT_NO_THROW(check_examples(config, std::vector<training_example>{{{{1}}, {{2, 3}}, {1}}}));
  config.classes = 0;
  config.pairs = false;
  EXPECT_NO_THROW(check_examples(config, std::vector<training_example>{{{{1, 2}}, {}, {-1, 9}}}));
  EXPECT_THROW(check_examples(config, std::vector<training_example>{{{{1, 2}}, {}, {1}}}), invalid_argument);
}

}  // namespace
}  // namespace nullscope
