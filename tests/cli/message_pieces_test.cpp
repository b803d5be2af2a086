/// Messages of more bytes than an int can count travel whole.
#include "lib/cli/parallel/message_pieces.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace nullscope::cli {
namespace {

using pieces = std::vector<std::pair<std::size_t, int>>;

pieces pieces_of(std::size_t size, std::size_t most) {
  pieces found;
  for_each_piece(
      size, [&](std::size_t begin, int count) { found.emplace_back(begin, count); }, most);
  return found;
}

TEST(message_pieces, follow_each_other_and_cover_all) {
  EXPECT_EQ(pieces_of(0, 4), pieces{});
  EXPECT_EQ(pieces_of(1, 4), (pieces{{0, 1}}));
  EXPECT_EQ(pieces_of(4, 4), (pieces{{0, 4}}));
  EXPECT_EQ(pieces_of(5, 4), (pieces{{0, 4}, {4, 1}}));
  EXPECT_EQ(pieces_of(8, 4), (pieces{{0, 4}, {4, 4}}));
}

TEST(message_pieces, hold_more_than_an_int_can_count) {
  // 24 layers of 2,048 x 2,048 tokens: a norm, a contribution and a standard error, in doubles.
  const std::size_t size = std::size_t{24} * 2048 * 2048 * 3 * 8;
  ASSERT_GT(size, std::size_t{1} << 31);
  std::size_t next = 0;
  for_each_piece(size, [&](std::size_t begin, int count) {
    EXPECT_EQ(begin, next);
    EXPECT_GT(count, 0);
    next += static_cast<std::size_t>(count);
  });
  EXPECT_EQ(next, size);
}

TEST(message_pieces, come_together_again) {
  const std::string sent = "one result that is longer than a piece";
  std::deque<std::string> on_the_way;
  for_each_piece(
      sent.size(),
      [&](std::size_t begin, int count) { on_the_way.push_back(sent.substr(begin, static_cast<std::size_t>(count))); },
      7);
  std::string received(sent.size(), '\0');
  for_each_piece(
      received.size(),
      [&](std::size_t begin, int count) {
        ASSERT_EQ(on_the_way.front().size(), static_cast<std::size_t>(count)) << "both sides cut alike";
        received.replace(begin, static_cast<std::size_t>(count), on_the_way.front());
        on_the_way.pop_front();
      },
      7);
  EXPECT_EQ(received, sent);
  EXPECT_TRUE(on_the_way.empty());
}

}  // namespace
}  // namespace nullscope::cli
