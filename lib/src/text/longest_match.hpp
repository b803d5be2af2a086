/// The longest of many texts that another one begins with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/src/text/flat_map.hpp"

namespace nullscope::detail {

class longest_match {
 public:
  void add(std::string_view text, std::int32_t id);

  struct match {
    std::int32_t id;
    std::size_t size;  // 0: there is none
  };
  match find(std::string_view text) const;

 private:
  struct entry {
    std::int32_t id;
    std::uint32_t begin, size;  // in texts_
  };

  flat_map<entry> entries_;  // by the hash of the text
  std::string texts_;
  std::size_t longest_ = 0;
};

}  // namespace nullscope::detail
