/// nullscope svd: decomposes the matrices of a safetensors file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nullscope/device.hpp>
#include <nullscope/errors.hpp>
#include <nullscope/safetensors.hpp>
#include <nullscope/svd.hpp>

#include "commands.hpp"
#include "matrices.hpp"
#include "validators.hpp"

namespace nullscope::cli {
namespace {

struct svd_command {
  std::string input, output, tensor_name = "a", device;
  bool values_only = false, full = false;
};

/// Says which matrices failed, if any did: the file is written all the same, with their status and rank.
void report_failures(const std::vector<std::int32_t>& status, const std::vector<std::int64_t>& rank) {
  std::vector<std::int64_t> failed;
  for (std::size_t i = 0; i < status.size(); ++i) {
    if (status[i] != svd_converged || rank[i] < 0) failed.push_back(static_cast<std::int64_t>(i));
  }
  if (failed.empty()) return;
  throw computation_error(
      fmt::format("{} of {} matrices hold NaN or infinity, overflow, or did not converge: {} (see rank and status)",
                  failed.size(), status.size(), fmt::join(failed, ", ")),
      failed);
}

template <class T>
void decompose(const svd_command& command, const safetensors_file& file, const safetensors_entry& entry) {
  sycl::queue queue(select_device(command.device), sycl::property::queue::in_order{});
  const tensor<T> a = load_matrices<T>(queue, file, entry);
  const std::int64_t batch = a.shape()[0], m = a.shape()[1], n = a.shape()[2], k = std::min(m, n);
  svd_options options;
  options.vectors = command.values_only ? svd_vectors::none : command.full ? svd_vectors::full : svd_vectors::thin;
  const bool has_vectors = !command.values_only;
  tensor<T> s(queue, {batch, k});
  tensor<T> u(queue, {has_vectors ? batch : 0, m, command.full ? m : k});
  tensor<T> vt(queue, {has_vectors ? batch : 0, command.full ? n : k, n});
  tensor<std::int32_t> status(queue, {batch});
  tensor<std::int64_t> rank(queue, {batch});
  tensor<std::byte> scratchpad(queue, {svd_scratchpad_size<T>(queue, batch, m, n, options)});
  const sycl::event done = svd<T>(queue, a.template as<3>(), s.template as<2>(), u.template as<3>(),
                                  vt.template as<3>(), status.as<1>(), {}, scratchpad.span(), options);
  const tensor<T>& values = s;
  numerical_rank<T>(queue, values.template as<2>(), m, n, T(-1), T(0), rank.as<1>(), {done}).wait_and_throw();

  const bool is_batch = entry.shape.size() == 3;  // a single matrix comes out without the batch dimension
  const auto shape = [&](std::vector<std::int64_t> extents) {
    if (!is_batch) extents.erase(extents.begin());
    return extents;
  };
  const std::vector<T> s_host = s.to_host(), u_host = u.to_host(), vt_host = vt.to_host();
  const std::vector<std::int64_t> rank_host = rank.to_host();
  const std::vector<std::int32_t> status_host = status.to_host();
  std::vector<safetensors_entry> entries{make_entry("s", shape(s.shape()), s_host)};
  if (has_vectors) {
    entries.push_back(make_entry("u", shape(u.shape()), u_host));
    entries.push_back(make_entry("vt", shape(vt.shape()), vt_host));
  }
  entries.push_back(make_entry("rank", shape({batch}), rank_host));
  entries.push_back(make_entry("status", shape({batch}), status_host));
  write_safetensors(command.output, entries);
  report_failures(status_host, rank_host);
}

void run(const svd_command& command) {
  const safetensors_file file(command.input);
  const safetensors_entry& entry = matrices_at(file, command.tensor_name);
  if (entry.type == element_type::f64) {
    decompose<double>(command, file, entry);
  } else {
    decompose<float>(command, file, entry);
  }
}

}  // namespace

void add_svd(CLI::App& app) {
  auto command = std::make_shared<svd_command>();
  CLI::App* svd = app.add_subcommand("svd", "Singular value decompositions of a batch of matrices");
  svd->add_option("--input", command->input, "A safetensors file with a tensor [batch, m, n] or [m, n]")
      ->required()
      ->check(some_path());
  svd->add_option("--output", command->output, "The safetensors file to write: s, u, vt, rank, status")
      ->required()
      ->check(some_path());
  svd->add_option("--tensor", command->tensor_name, "Name of the tensor to decompose")->capture_default_str();
  CLI::Option* values_only = svd->add_flag("--values-only", command->values_only, "No vectors: s, rank and status");
  svd->add_flag("--full", command->full, "Square u and vt instead of the thin ones")->excludes(values_only);
  svd->add_option("--device", command->device, "An index, cpu, gpu, gpu:1 or a part of the name");
  svd->footer(
      "status is 0 for a matrix that converged, 1 if it did not, 2 if it held NaN or infinity; rank is -1 if the "
      "largest\n"
      "singular value is not finite. If any status is not 0, or any rank is -1, the file is written and the exit code\n"
      "is 1.\n\n"
      "Examples:\n"
      "  nullscope svd --input weights.safetensors --tensor layer.0.weight --output factors.safetensors\n"
      "  nullscope svd --input batch.safetensors --output values.safetensors --values-only");
  svd->callback([command] { run(*command); });
}

}  // namespace nullscope::cli
