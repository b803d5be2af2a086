#include "lib/cli/common/standard_streams.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nullscope/core/errors.hpp>

namespace nullscope::cli {

void open_standard_streams() {
  for (int number = 0; number <= 2; ++number) {
    if (fcntl(number, F_GETFD) < 0) open("/dev/null", O_RDWR);  // gets the lowest free number, which is this one
  }
}

void finish_standard_output() {
  std::cout.flush();
  if (std::fflush(stdout) != 0)
    throw file_error(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  if (!std::cout || std::ferror(stdout) != 0) throw file_error("cannot write to standard output");  // lost earlier
}

}  // namespace nullscope::cli
