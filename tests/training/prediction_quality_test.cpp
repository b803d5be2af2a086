#include <nullscope/training/text_classifier.hpp>

#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

TEST(PredictionQuality, CountsByHand) {
  const std::vector<text_prediction> predictions{
      {0, {0.5, 0.25, 0.25}}, {1, {0.25, 0.5, 0.25}}, {1, {0.25, 0.5, 0.25}}};
  const prediction_quality found = quality_of(predictions, std::vector<std::int32_t>{0, 0, 1}, 3);
  EXPECT_EQ(found.texts, 3);
  EXPECT_EQ(found.correct, 2);
  EXPECT_DOUBLE_EQ(found.accuracy(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(found.loss, -(std::log(0.5) + std::log(0.25) + std::log(0.5)) / 3);
  EXPECT_DOUBLE_EQ(found.classes[0].recall(), 0.5);
  EXPECT_DOUBLE_EQ(found.classes[0].precision(), 1);
  EXPECT_DOUBLE_EQ(found.classes[1].recall(), 1);
  EXPECT_DOUBLE_EQ(found.classes[1].precision(), 0.5);
  EXPECT_EQ(found.classes[2].recall(), 0);  // no text of this class
  EXPECT_EQ(found.classes[2].precision(), 0);
  EXPECT_EQ(quality_of({}, {}, 2).accuracy(), 0);
}

TEST(PredictionQuality, RefusesWhatDoesNotFit) {
  const std::vector<text_prediction> one{{0, {0.5, 0.5}}};
  EXPECT_EQ(message_of<invalid_argument>([&] {
              quality_of(one, std::vector<std::int32_t>{0, 1}, 2);
            }),
            "quality_of: 1 predictions with 2 labels");
  EXPECT_THROW(quality_of(one, std::vector<std::int32_t>{2}, 2), invalid_argument);
  EXPECT_THROW(quality_of(one, std::vector<std::int32_t>{-1}, 2), invalid_argument);
  EXPECT_THROW(quality_of(one, std::vector<std::int32_t>{0}, 3), invalid_argument);
}

}  // namespace
}  // namespace nullscope::test
