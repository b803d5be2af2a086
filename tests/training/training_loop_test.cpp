/// The loop that all training shares: its order, where it stops, and where it continues.
#include "lib/src/training/training_loop.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

namespace nullscope::detail {
namespace {

/// Writes down what the loop asks for: epochs of five batches, two at a time.
struct diary {
  std::string text = {};
  std::string interrupt_at = "none", end_at = "none";

  bool note(const std::string& line) {
    text += line + " ";
    return line != interrupt_at && line != end_at;
  }

  training_loop loop() {
    return {.begin_epoch =
                [&](std::int64_t epoch) {
                  note(fmt::format("begin{}", epoch));
                  return std::int64_t{5};
                },
            .train =
                [&](const loop_position& at) {
                  note(fmt::format("{}.{}", at.epoch, at.batch));
                  return std::min<std::int64_t>(2, at.batches - at.batch);
                },
            .report = [&](const loop_position& at) { return note(fmt::format("done{}/{}", at.batch, at.batches)); },
            .end_epoch = [&](std::int64_t epoch) { return note(fmt::format("end{}", epoch)); }};
  }
};

const std::string first_epoch = "begin1 1.0 done2/5 1.2 done4/5 1.4 done5/5 end1 ";

TEST(training_loop, asks_for_batches_reports_and_validation_in_order) {
  diary written;
  loop_position at;
  EXPECT_TRUE(run_epochs(written.loop(), 2, at));
  EXPECT_EQ(written.text, first_epoch + "begin2 2.0 done2/5 2.2 done4/5 2.4 done5/5 end2 ");
}

TEST(training_loop, ends_where_an_epoch_says_so) {
  diary written{.end_at = "end1"};
  loop_position at;
  EXPECT_TRUE(run_epochs(written.loop(), 9, at));
  EXPECT_EQ(written.text, first_epoch);
  EXPECT_EQ(at.epoch, 2);
}

TEST(training_loop, continues_where_it_was_interrupted) {
  diary written{.interrupt_at = "done4/5"};
  loop_position at;
  EXPECT_FALSE(run_epochs(written.loop(), 1, at));
  EXPECT_EQ(at.epoch, 1);
  EXPECT_EQ(at.batch, 4);
  diary rest;
  EXPECT_TRUE(run_epochs(rest.loop(), 1, at));
  EXPECT_EQ(rest.text, "begin1 1.4 done5/5 end1 ");
}

TEST(best_epoch, is_the_first_of_equals_and_grows_stale) {
  best_epoch best;
  EXPECT_TRUE(best.update(1, -1e30));
  EXPECT_TRUE(best.update(2, 0.5));
  EXPECT_FALSE(best.update(3, 0.5));
  EXPECT_FALSE(best.update(4, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(best.epoch, 2);
  EXPECT_FALSE(best.is_stale(4, 3));
  EXPECT_TRUE(best.is_stale(4, 2));
}

}  // namespace
}  // namespace nullscope::detail
