/// Compiles kernels to PTX by the run-time compiler of oneAPI, as a runtime with an adapter for NVIDIA would. The
/// wheels have the compiler but no such adapter, so this calls the compiler's library itself:
///
///   ptx_compiler <source> <folder of headers> <output> <processor> <folder of CUDA> <option>...
///
/// Headers get the paths that they have inside their folder. A process of its own: a compiler that crashes takes nobody
/// along.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// The interface of libsycl-jit, as far as it is used here; it has no public header.
namespace interface {

template <class T>
struct span {
  const T* data;
  std::size_t size;
};

/// Arrays and strings of a result. The process ends without releasing them; the destructor is there because it decides
/// how a function returns them.
template <class T>
struct array {
  T* data = nullptr;
  std::size_t size = 0;
  ~array() {}
};
struct text {
  char* characters = nullptr;
  ~text() {}
};

struct memory_file {
  const char *path, *content;
};
enum class format : std::uint32_t { none, llvm, spirv, ptx, amdgcn };
struct image {
  format kind;
  std::uint64_t address_bits;
  const std::uint8_t* begin;
  std::uint64_t size;
  array<text> symbols;
  array<char> properties;
};
struct result {
  int error;
  array<image> images;
  text options;
  array<char> intermediate;
  text log;
};

enum option_id : int { verbose, processor, features };
struct option {
  option(option_id id, std::string_view value)
      : id(id), characters(strndup(value.data(), value.size())), size(value.size()) {}
  virtual ~option() = default;
  int id;
  char* characters;
  std::size_t size;
};
struct option_holder {
  option* held;
};

using compile = result(memory_file source, span<memory_file> headers, span<const char*> options, span<char> cached,
                       bool keep, format kind);
using configure = void(option_holder&&);

}  // namespace interface

/// The file of SPIR-V functions for NVIDIA that is inside the compiler's library. The compiler looks for it among the
/// files of the machine, by this name.
constexpr std::string_view functions_path = "/lib/clang/23/lib/nvptx64-nvidia-cuda/libspirv.l64.signed_char.bc";
constexpr std::string_view inside_path =
    "/sycl-jit-toolchain/lib/clang/23/lib/nvptx64-nvidia-cuda/libspirv.l64.signed_char.bc";

struct segment {
  const std::byte* begin;
  std::size_t size;
};

/// The memory into which a library was loaded.
std::vector<segment> segments_of(std::string_view library) {
  struct search {
    std::string_view library;
    std::vector<segment> found;
  } state{library, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& into = *static_cast<search*>(data);
        if (std::string_view(info->dlpi_name).find(into.library) == std::string_view::npos) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type != PT_LOAD || (header.p_flags & PF_R) == 0) continue;
          into.found.push_back({reinterpret_cast<const std::byte*>(info->dlpi_addr + header.p_vaddr), header.p_memsz});
        }
        return 1;
      },
      &state);
  return state.found;
}

const std::byte* find_bytes(const std::vector<segment>& memory, const void* what, std::size_t size) {
  for (const segment& one : memory) {
    if (const void* at = memmem(one.begin, one.size, what, size)) return static_cast<const std::byte*>(at);
  }
  return nullptr;
}

/// A file inside the compiler's library, whose table of files has {path, its length, content, its length}.
std::string_view file_inside(std::string_view library, std::string_view path) {
  const std::vector<segment> memory = segments_of(library);
  const std::byte* name = find_bytes(memory, path.data(), path.size());
  const std::byte* entry = name == nullptr ? nullptr : find_bytes(memory, &name, sizeof(name));
  if (entry == nullptr) return {};
  std::uintptr_t fields[4];
  std::memcpy(fields, entry, sizeof(fields));
  return {reinterpret_cast<const char*>(fields[2]), fields[3]};
}

/// An open file with that content, which has no name.
int as_file(std::string_view content) {
  std::FILE* file = std::tmpfile();
  if (file == nullptr || std::fwrite(content.data(), 1, content.size(), file) != content.size()) return -1;
  std::fflush(file);
  std::rewind(file);
  return dup(fileno(file));
}

std::string text_of(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

int fail(const std::string& why) {
  std::fprintf(stderr, "ptx_compiler: %s\n", why.c_str());
  return 1;
}

int compile(const std::vector<std::string>& arguments) {
  void* library = dlopen(NULLSCOPE_SYCL_JIT, RTLD_NOW);
  if (library == nullptr) return fail(dlerror());
  auto* const compile = reinterpret_cast<interface::compile*>(dlsym(library, "compileSYCL"));
  auto* const configure = reinterpret_cast<interface::configure*>(dlsym(library, "addToJITConfiguration"));
  if (compile == nullptr || configure == nullptr) return fail("this libsycl-jit has another interface");
  configure({new interface::option(interface::processor, arguments[3])});
  configure({new interface::option(interface::features, "+ptx80")});  // without it the compiler aborts on sm_80

  std::vector<std::pair<std::string, std::string>> headers;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(arguments[1])) {
    if (!entry.is_regular_file()) continue;
    const std::filesystem::path inside = std::filesystem::relative(entry.path(), arguments[1]);
    headers.emplace_back(("/" / inside).string(), text_of(entry.path()));
  }
  std::vector<interface::memory_file> files;
  for (const auto& [path, content] : headers) files.push_back({path.c_str(), content.c_str()});
  const std::string source = text_of(arguments[0]), cuda = "--cuda-path=" + arguments[4];
  std::vector<const char*> options{cuda.c_str(), "-fsycl-device-code-split=off"};
  for (std::size_t i = 5; i < arguments.size(); ++i) options.push_back(arguments[i].c_str());

  const interface::result made = compile({"kernels.cpp", source.c_str()}, {files.data(), files.size()},
                                         {options.data(), options.size()}, {nullptr, 0}, false, interface::format::ptx);
  if (made.error != 0) return fail(made.log.characters == nullptr ? "no reason given" : made.log.characters);
  if (made.images.size == 0) return fail("the compiler made nothing");
  const interface::image& image = made.images.data[0];
  std::ofstream out(arguments[2], std::ios::binary);
  out.write(reinterpret_cast<const char*>(image.begin), static_cast<std::streamsize>(image.size));
  return out.flush() ? 0 : fail(arguments[2] + " cannot be written");
}

}  // namespace

/// Takes the place of the C library's function for the compiler, to give it the file that it looks for in vain.
extern "C" __attribute__((visibility("default"))) int open64(const char* path, int flags, ...) {
  if (path == functions_path) return as_file(file_inside("libsycl-jit", inside_path));
  std::va_list more;
  va_start(more, flags);
  const int mode = (flags & O_CREAT) != 0 ? va_arg(more, int) : 0;
  va_end(more);
  return openat(AT_FDCWD, path, flags, mode);
}

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 5) return fail("source, headers, output, processor and CUDA are needed");
  const int code = compile(arguments);
  std::fflush(nullptr);
  _exit(code);  // what the compiler holds is not released
}
