/// What the first use of a kernel costs: compiled at run time, with nothing kept on disk yet, and loaded from disk, as
/// every later process does. Each call takes a new SYCL context, which has no kernels.
#include <cstdlib>
#include <filesystem>
#include <nullscope/core/operation.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/linalg/rows.hpp>
#include <stdexcept>

#include "bench/core/harness.hpp"

namespace nullscope::bench {
namespace {

namespace fs = std::filesystem;

/// A folder for the compiled kernels of this process alone, removed at the end.
class own_kernel_folder {
 public:
  own_kernel_folder() : path_((fs::temp_directory_path() / "nullscope-first-use-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error(path_ + " cannot be made");
    setenv("NULLSCOPE_KERNEL_CACHE", path_.c_str(), 1);
  }
  ~own_kernel_folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  own_kernel_folder(const own_kernel_folder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

constexpr std::int64_t rows = 3, columns = 5;

/// softmax of a small matrix: one kernel.
struct first_use_data {
  fs::path folder;
  sycl::device device;
  std::unique_ptr<context> ctx;  // of the last call
  std::int64_t kept_before = 0;  // kernels on disk

  std::int64_t kept() const {
    std::int64_t count = 0;
    for (const auto& file : fs::directory_iterator(folder)) count += file.path().extension() == ".syclbin";
    return count;
  }

  void forget_kernels() const {
    for (const auto& file : fs::directory_iterator(folder)) {
      if (file.path().extension() == ".syclbin") fs::remove(file.path());
    }
  }

  template <class Function>
  void with_softmax(Function call) {
    tensor<float> x(*ctx, {1, rows, columns}), y(*ctx, {1, rows, columns});
    call(x, y);
  }

  void use() {
    ctx = std::make_unique<context>(sycl::queue(sycl::context(device), device, sycl::property::queue::in_order()));
    with_softmax(
        [&](tensor<float>& x, tensor<float>& y) { warm_up(*ctx, [&](context& dry) { softmax(dry, x, {.y = y}); }); });
  }

  /// Whether the kernel that was compiled or loaded works: the softmax of equal numbers.
  double error() {
    double largest = 0;
    with_softmax([&](tensor<float>& x, tensor<float>& y) {
      x.copy_from(std::vector<float>(rows * columns, 3.0f));
      softmax(*ctx, x, {.y = y}).wait();
      for (const float weight : y.to_host()) largest = worse(largest, std::abs(double{weight} * columns - 1));
    });
    return largest;
  }
};

first_use_data made(context& ctx, const std::string& folder) { return {folder, ctx.queue().get_device(), nullptr}; }

void check(first_use_data& d, report& report, std::int64_t compiled) {
  report.residual("miscounted", static_cast<double>(std::abs(d.kept() - d.kept_before - compiled)), 0);
  report.residual("error", d.error(), 1e-6);
}

void add_compile(suite& suite, const std::string& folder) {
  suite
      .add({.operation = "compile_kernel", .type = "f32", .sizes = {{"kernels", 1}}},
           [=](context& ctx) { return made(ctx, folder); })
      .path("sycl", [](first_use_data& d) { d.use(); })
      .restore([](first_use_data& d) {
        d.forget_kernels();
        d.kept_before = d.kept();
      })
      .verify([](first_use_data& d, report& report) { check(d, report, 1); });
}

void add_load(suite& suite, const std::string& folder) {
  suite
      .add({.operation = "load_kernel", .type = "f32", .sizes = {{"kernels", 1}}},
           [=](context& ctx) {
             first_use_data data = made(ctx, folder);
             data.use();  // now it is on disk
             return data;
           })
      .path("sycl", [](first_use_data& d) { d.use(); })
      .restore([](first_use_data& d) { d.kept_before = d.kept(); })
      .verify([](first_use_data& d, report& report) { check(d, report, 0); });
}

}  // namespace
}  // namespace nullscope::bench

int main(int argc, char** argv) {
  using namespace nullscope::bench;
  const own_kernel_folder folder;
  return run(argc, argv, "compiling a kernel at its first use, and loading it from disk", [&](suite& suite) {
    add_compile(suite, folder.path());
    add_load(suite, folder.path());
  });
}
