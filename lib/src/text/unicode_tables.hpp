/// Ranges of characters, ascending.
#pragma once

#include <array>

namespace nullscope::detail {

struct character_range {
  char32_t first, last;
};

// Letters and numbers of Unicode 15.1 and 16, for an ICU that is older.
constexpr std::array<character_range, 22> recent_letters{
    {{0x1c89, 0x1c8a},   {0xa7cb, 0xa7cd},   {0xa7da, 0xa7dc},   {0x105c0, 0x105f3}, {0x10d4a, 0x10d65},
     {0x10d6f, 0x10d85}, {0x10ec2, 0x10ec4}, {0x11380, 0x11389}, {0x1138b, 0x1138b}, {0x1138e, 0x1138e},
     {0x11390, 0x113b5}, {0x113b7, 0x113b7}, {0x113d1, 0x113d1}, {0x113d3, 0x113d3}, {0x11bc0, 0x11be0},
     {0x13460, 0x143fa}, {0x16100, 0x1611d}, {0x16d40, 0x16d6c}, {0x18cff, 0x18cff}, {0x1e5d0, 0x1e5ed},
     {0x1e5f0, 0x1e5f0}, {0x2ebf0, 0x2ee5d}}};
constexpr std::array<character_range, 7> recent_numbers{{{0x10d40, 0x10d49},
                                                         {0x116d0, 0x116e3},
                                                         {0x11bf0, 0x11bf9},
                                                         {0x16130, 0x16139},
                                                         {0x16d70, 0x16d79},
                                                         {0x1ccf0, 0x1ccf9},
                                                         {0x1e5f1, 0x1e5fa}}};

/// Capitals of Unicode 16 and 17, for an ICU that is older: first to last, and the small letter of the first.
struct capital_range {
  char32_t first, last, small;
};
constexpr std::array<capital_range, 10> recent_capitals{{{0x1c89, 0x1c89, 0x1c8a},
                                                         {0xa7cb, 0xa7cb, 0x264},
                                                         {0xa7cc, 0xa7cc, 0xa7cd},
                                                         {0xa7ce, 0xa7ce, 0xa7cf},
                                                         {0xa7d2, 0xa7d2, 0xa7d3},
                                                         {0xa7d4, 0xa7d4, 0xa7d5},
                                                         {0xa7da, 0xa7da, 0xa7db},
                                                         {0xa7dc, 0xa7dc, 0x19b},
                                                         {0x10d50, 0x10d65, 0x10d70},
                                                         {0x16ea0, 0x16eb8, 0x16ebb}}};

// What BERT counts as CJK ideographs: blocks, from the versions of Unicode of its day. Its fifth extension E starts at
// 2b920 instead of 2b820 in the tokenizers that models are used with, so it does here.
constexpr std::array<character_range, 8> ideographs{{{0x3400, 0x4dbf},
                                                     {0x4e00, 0x9fff},
                                                     {0xf900, 0xfaff},
                                                     {0x20000, 0x2a6df},
                                                     {0x2a700, 0x2b73f},
                                                     {0x2b740, 0x2b81f},
                                                     {0x2b920, 0x2ceaf},
                                                     {0x2f800, 0x2fa1f}}};

}  // namespace nullscope::detail
