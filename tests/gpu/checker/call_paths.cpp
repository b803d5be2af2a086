#include "tests/gpu/checker/call_paths.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace nullscope::races {
namespace {

constexpr std::string_view project = "/nullscope/";  // what the build calls the project's folder

/// This library: its file, and where it begins in memory.
Dl_info own_library() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&own_library), &info) == 0) throw std::runtime_error("dladdr");
  return info;
}

/// Neither unknown nor of the stand-in, the checker or the standard library.
bool is_of_kernels(std::string_view line) {
  return line.find("tests/gpu/stand_in") == std::string_view::npos &&
         line.find("tests/gpu/checker") == std::string_view::npos && line.find(":?") == std::string_view::npos &&
         line.find("/include/c++/") == std::string_view::npos;
}

}  // namespace

/// addr2line stays: reading the debug information again for every question would take long.
call_paths::call_paths() : base_(reinterpret_cast<std::uintptr_t>(own_library().dli_fbase)) {
  const std::string file = own_library().dli_fname;
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  process_ = fork();
  if (process_ == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    execlp("addr2line", "addr2line", "-i", "-a", "-e", file.c_str(), nullptr);
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  questions_ = fdopen(to[1], "w");
  answers_ = fdopen(from[0], "r");
}

call_paths::~call_paths() {
  std::fclose(questions_);
  std::fclose(answers_);
  if (process_ > 0) waitpid(process_, nullptr, 0);
}

std::uint32_t call_paths::enter(std::uint32_t caller, const void* returns_to) {
  const std::uint32_t instruction = offset_of(returns_to);
  const std::uint64_t key = (static_cast<std::uint64_t>(caller) << 32) | instruction;
  const auto [found, is_new] = numbers_.try_emplace(key, static_cast<std::uint32_t>(calls_.size()));
  if (is_new) calls_.push_back({instruction, caller});
  return found->second;
}

/// addr2line -a answers with the address, then one line for each function that was inlined there, from within. A
/// question about address 0 shows where the answer ends.
const std::vector<std::string>& call_paths::lines_of_instruction(std::uint32_t instruction) {
  const auto [found, is_new] = lines_of_instructions_.try_emplace(instruction);
  if (!is_new) return found->second;
  std::fprintf(questions_, "0x%x\n0x0\n", instruction);
  std::fflush(questions_);
  std::array<char, 4096> text;
  int addresses = 0;
  while (std::fgets(text.data(), text.size(), answers_) != nullptr) {
    std::string line(text.data(), std::strcspn(text.data(), " \n"));
    if (line.starts_with("0x")) {
      ++addresses;
    } else if (addresses == 2) {
      break;
    } else if (is_of_kernels(line)) {
      found->second.push_back(line.starts_with(project) ? line.substr(project.size()) : line);
    }
  }
  return found->second;
}

const std::vector<std::string>& call_paths::lines_of(const code_place& place) {
  const auto [found, is_new] = lines_.try_emplace(place);
  if (!is_new) return found->second;
  std::vector<std::string>& lines = found->second;
  for (code_place at = place;; at = calls_[at.caller]) {
    const std::vector<std::string>& inlined = lines_of_instruction(at.instruction);
    lines.insert(lines.end(), inlined.begin(), inlined.end());
    if (at.caller == outermost) break;
  }
  return lines;
}

std::string call_paths::text_of(const code_place& place) {
  std::string text;
  for (const std::string& line : lines_of(place)) text += (text.empty() ? "" : ", called from ") + line;
  return text.empty() ? "an unknown line" : text;
}

}  // namespace nullscope::races
