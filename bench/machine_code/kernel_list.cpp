#include "bench/machine_code/kernel_list.hpp"

#include <algorithm>
#include <map>
#include <nullscope/core/context.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/gemm.hpp>

#include "kernels/attribution/entering_attention.hpp"
#include "kernels/explain/gradient_path.hpp"
#include "kernels/explain/linear_fit.hpp"
#include "kernels/explain/slalom_errors.hpp"
#include "kernels/explain/slalom_fit.hpp"
#include "kernels/explain/slalom_sgd.hpp"
#include "kernels/structure/nearest.hpp"
#include "tests/contract/function_row.hpp"

namespace nullscope::bench {
namespace {

/// Collects kernels under the name of the function that launches them.
class collector {
 public:
  void add(const std::string& operation, const std::vector<const detail::kernel_description*>& kernels) {
    for (const detail::kernel_description* kernel : kernels) {
      const auto [place, is_new] = places_.try_emplace(kernel, found_.size());
      if (is_new) found_.push_back({kernel, {}});
      found_[place->second].operations.insert(operation);
    }
  }

  template <class Pipeline>
  void add_dry(const std::string& operation, context& ctx, Pipeline pipeline) {
    try {
      add(operation, dry_run(ctx, pipeline).kernels);
    } catch (const unsupported_device&) {  // too little local memory: another layout serves the function
    }
  }

  std::vector<listed_kernel> found() && { return std::move(found_); }

 private:
  std::vector<listed_kernel> found_;
  std::map<const detail::kernel_description*, std::size_t> places_;
};

/// Every function of the contract test's table, which has a row for each public function on views. Operands need no
/// memory of their own, as nothing runs.
void add_functions(collector& found, context& ctx) {
  constexpr std::int64_t any_bytes = 1 << 16;
  tensor<std::byte> memory(ctx, {any_bytes});
  for (const auto functions :
       {test::linalg_functions, test::decomposition_functions, test::null_space_functions, test::attention_functions,
        test::model_functions, test::attribution_functions, test::structure_functions, test::probes_functions}) {
    for (const test::function_row& row : functions(true)) {
      if (row.kind != test::function_kind::on_views) continue;
      test::arguments x;
      for (const test::operand& one : row.operands) {
        test::argument& argument = x[one.name];
        argument = {memory.data(), one.shape, test::shape_of_operand(one.shape.size())};
        std::int64_t elements = 1;
        for (std::size_t d = one.shape.size(); d-- > 0; elements *= one.shape[d]) argument.stride[d] = elements;
      }
      found.add_dry(row.name.substr(0, row.name.rfind('_')), ctx, [&](context& dry) { row.call(dry, x); });
    }
  }
}

template <class T>
void add_own_gemm(collector& found, context& ctx, T* memory) {
  using Sum = product_of<T>;
  const auto matrix = [](auto* data) { return contiguous(data, 2, 64, 64); };
  found.add_dry("gemm", ctx, [&](context& dry) {
    gemm(dry, gemm_operands<T>{matrix(memory), matrix(memory)}, matrix(reinterpret_cast<Sum*>(memory)),
         {.path = gemm_path::own});
  });
}

/// A product on a matrix engine with tiles of this shape.
void add_engine_gemm(collector& found, context& ctx, detail::joint_matrix_tile tile, float* memory) {
  auto* const factor = reinterpret_cast<bfloat16*>(memory);
  const auto matrix = [](auto* data) { return contiguous(data, 1, 64, 64); };
  found.add_dry("gemm", ctx, [&](context& dry) {
    operation op(dry, "gemm");
    detail::gemm_joint_matrix(op, {1, matrix(factor), matrix(factor), 0, matrix(memory)}, {tile, 1, 1, 4, 64});
    return op.submit();
  });
}

template <class... Kernels>
std::vector<const detail::kernel_description*> descriptions() {
  return {&detail::description<Kernels>...};
}

/// Kernels of functions that wait for their results and so cannot run dry.
template <class T, int Items>
void add_of_waiting_functions(collector& found) {
  using namespace kernels;
  found.add("fit_slalom", descriptions<slalom_fit<T, 1, Items>, slalom_errors<T, 1, Items>, slalom_sgd<T, Items>>());
  found.add("fit_linear", descriptions<linear_fit<T, 1, Items>>());
  found.add("explain", descriptions<path_points<T, 1, Items>, gradient_figures<T, 1, Items>>());
  found.add("hidden_token_attribution", descriptions<entering_attention<T, 1, Items>>());
  found.add("k_means", descriptions<nearest_column<T>>());
}

}  // namespace

std::vector<lane_layout> gpu_layouts(const device_properties& device) {
  std::vector<lane_layout> layouts(3, lane_layout::work_items(device));
  layouts[1].short_row = 0;
  layouts[2].local_bytes = 8 << 10;
  for (lane_layout& layout : layouts) layout.matrix_engine = false;  // the device at hand may have another one
  return layouts;
}

std::vector<listed_kernel> gpu_kernels(const sycl::device& device, std::optional<detail::joint_matrix_tile> engine) {
  collector found;
  const sycl::queue queue(device, sycl::property::queue::in_order());
  for (const lane_layout& layout : gpu_layouts(properties(device))) {
    context ctx(queue, layout);
    tensor<double> memory(ctx, {2 * 64 * 64});
    double* const any = memory.data();
    add_own_gemm(found, ctx, reinterpret_cast<float*>(any));
    add_own_gemm(found, ctx, any);
    add_own_gemm(found, ctx, reinterpret_cast<bfloat16*>(any));
    if (engine) add_engine_gemm(found, ctx, *engine, reinterpret_cast<float*>(any));
    add_functions(found, ctx);
  }
  add_of_waiting_functions<float, 32>(found);
  add_of_waiting_functions<float, 256>(found);
  add_of_waiting_functions<double, 32>(found);
  add_of_waiting_functions<double, 256>(found);
  return std::move(found).found();
}

}  // namespace nullscope::bench
