/// nullscope svd: decomposes the matrices of a safetensors file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/io/safetensors.hpp>
#include <nullscope/linalg/svd.hpp>

#include "lib/cli/commands.hpp"
#include "lib/cli/common/checksum.hpp"
#include "lib/cli/common/matrices.hpp"
#include "lib/cli/common/previous_work.hpp"
#include "lib/cli/common/validators.hpp"

namespace nullscope::cli {
namespace {

struct svd_command {
  std::string input, output, tensor_name = "a", device;
  bool values_only = false, full = false;
  rerun_options rerun;
};

/// Throws if matrices failed, after the file with their status and rank has been written.
void report_failures(const std::vector<std::int32_t>& status, const std::vector<std::int64_t>& rank) {
  const std::vector<std::int64_t> failed = failed_ids(status, rank);
  if (failed.empty()) return;
  throw computation_error(
      fmt::format("{} of {} matrices hold NaN or infinity, overflow, or did not converge: {} (see rank and status)",
                  failed.size(), status.size(), fmt::join(failed, ", ")),
      failed);
}

nlohmann::ordered_json settings_of(const svd_command& command) {
  nlohmann::ordered_json settings = common_settings("svd", select_device(command.device));
  settings.update({{"input_checksum", checksum_of_file(command.input)},
                   {"tensor", command.tensor_name},
                   {"values_only", command.values_only},
                   {"full", command.full}});
  return settings;
}

template <class T>
void decompose(const svd_command& command, const safetensors_file& file, const safetensors_entry& entry,
               const nlohmann::ordered_json& settings) {
  context ctx(select_device(command.device));
  const tensor<T> a = load_matrices<T>(ctx, file, entry);
  const std::int64_t batch = a.shape()[0], m = a.shape()[1], n = a.shape()[2], k = std::min(m, n);
  svd_options options;
  options.vectors = command.values_only ? svd_vectors::none : command.full ? svd_vectors::full : svd_vectors::thin;
  const bool has_vectors = !command.values_only;
  tensor<T> s(ctx, {batch, k}), u, vt;
  if (has_vectors) {
    u = tensor<T>(ctx, {batch, m, command.full ? m : k});
    vt = tensor<T>(ctx, {batch, command.full ? n : k, n});
  }
  tensor<std::int32_t> status(ctx, {batch});
  tensor<std::int64_t> rank(ctx, {batch});
  svd(ctx, a, {.s = s, .u = u, .vt = vt, .status = status}, options);
  numerical_rank(ctx, s, rank, {.m = m, .n = n}).wait_and_throw();

  const bool is_batch = entry.shape.size() == 3;  // the results of a single matrix have no batch dimension
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
  // A file with matrices that failed is no finished result.
  const bool is_whole = failed_ids(status_host, rank_host).empty();
  write_safetensors(command.output, entries, is_whole ? metadata_of(settings) : safetensors_metadata{});
  report_failures(status_host, rank_host);
}

void run(const svd_command& command) {
  const safetensors_file file(command.input);
  const safetensors_entry& entry = matrices_at(file, command.tensor_name);
  const nlohmann::ordered_json settings = settings_of(command);
  const output_place place{.result = command.output, .settings = settings_in_safetensors};
  if (is_finished(place, settings, command.rerun)) return;
  if (entry.type == element_type::f64) {
    decompose<double>(command, file, entry, settings);
  } else {
    decompose<float>(command, file, entry, settings);
  }
}

}  // namespace

void add_svd(CLI::App& app) {
  auto command = std::make_shared<svd_command>();
  CLI::App* svd = app.add_subcommand("svd", "Singular value decompositions of a batch of matrices");
  svd->add_option("--input", command->input, "Safetensors file with a tensor [batch, m, n] or [m, n]")
      ->required()
      ->check(some_path());
  svd->add_option("--output", command->output, "Safetensors file to write: s, u, vt, rank, status")
      ->required()
      ->check(some_path());
  svd->add_option("--tensor", command->tensor_name, "Name of the tensor to decompose")->capture_default_str();
  CLI::Option* values_only = svd->add_flag("--values-only", command->values_only, "Write only s, rank and status");
  svd->add_flag("--full", command->full, "Write square u and vt instead of thin ones")->excludes(values_only);
  add_overwrite(*svd, command->rerun);
  svd->add_option("--device", command->device, device_help);
  svd->footer(
      "status is 0 for a matrix that converged, 1 if it did not converge, 2 if it contains NaN or infinity.\n"
      "rank is -1 if the largest singular value is not finite.\n"
      "If any status is not 0, or any rank is -1, the file is written and the exit code is 1.\n\n"
      "Examples:\n"
      "  nullscope svd --input weights.safetensors --tensor layer.0.weight --output factors.safetensors\n"
      "  nullscope svd --input batch.safetensors --output values.safetensors --values-only");
  svd->callback([command] { run(*command); });
}

}  // namespace nullscope::cli
