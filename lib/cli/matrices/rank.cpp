/// nullscope rank: numerical ranks and null-space dimensions of the matrices of a safetensors file.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <nullscope/core/device.hpp>
#include <nullscope/null_space/null_space.hpp>

#include "lib/cli/commands.hpp"
#include "lib/cli/common/matrices.hpp"
#include "lib/cli/common/validators.hpp"

namespace nullscope::cli {
namespace {

struct rank_command {
  std::string input, prefix, device;
  range_options options;
  bool as_json = false;
};

template <class T>
range_tensors<T> compute(context& ctx, const safetensors_file& file, const rank_command& command) {
  const std::string t = command.prefix + "t", v = command.prefix + "v", h = command.prefix + "h";
  const bool has_t = file.find(t) != nullptr, has_factors = file.find(v) != nullptr && file.find(h) != nullptr;
  if (has_t == has_factors) {
    throw invalid_argument(
        fmt::format("the input must have either a tensor \"{}\" or the pair \"{}\" and \"{}\" (T = V H)", t, v, h));
  }
  if (has_t) return range_basis(ctx, load_matrices<T>(ctx, file, matrices_at(file, t)), command.options);
  return range_basis(ctx, load_matrices<T>(ctx, file, matrices_at(file, v)),
                     load_matrices<T>(ctx, file, matrices_at(file, h)), command.options);
}

template <class T>
nlohmann::ordered_json row(const range_tensors<T>& result, const std::vector<T>& values, std::size_t i) {
  const std::size_t count = values.size() / result.rank.size();
  const std::int64_t rank = result.rank[i];
  nlohmann::ordered_json json{{"matrix", i}, {"rank", rank}, {"null_dim", result.null_dimension[i]}};
  if (!result.rank_with_ones.empty()) json["null_dim_with_ones"] = result.null_dimension_with_ones[i];
  json["sigma_max"] = count > 0 ? values[i * count] : T(0);
  json["sigma_rank"] = rank > 0 ? values[i * count + static_cast<std::size_t>(rank) - 1] : T(0);
  return json;
}

void print_table(const nlohmann::ordered_json& rows) {
  if (rows.empty()) return;
  for (const auto& [name, value] : rows[0].items()) fmt::print("{:>{}}", name, name.size() + 2);
  fmt::print("\n");
  for (const auto& line : rows) {
    for (const auto& [name, value] : line.items()) {
      const std::string text = value.is_number_float() ? fmt::format("{:.4g}", value.get<double>()) : value.dump();
      fmt::print("{:>{}}", text, name.size() + 2);
    }
    fmt::print("\n");
  }
}

template <class T>
void print_ranks(const rank_command& command, const safetensors_file& file) {
  context ctx(select_device(command.device));
  const range_tensors<T> result = compute<T>(ctx, file, command);
  const std::vector<T> values = result.s.to_host();
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < result.rank.size(); ++i) rows.push_back(row(result, values, i));
  if (command.as_json) {
    fmt::print("{}\n", rows.dump(2));
  } else {
    print_table(rows);
  }
}

void run(const rank_command& command) {
  const safetensors_file file(command.input);
  const bool is_double = std::ranges::any_of(std::array{"t", "v", "h"}, [&](const char* name) {
    const safetensors_entry* entry = file.find(command.prefix + name);
    return entry != nullptr && entry->type == element_type::f64;
  });
  if (is_double) {
    print_ranks<double>(command, file);
  } else {
    print_ranks<float>(command, file);
  }
}

}  // namespace

void add_rank(CLI::App& app) {
  auto command = std::make_shared<rank_command>();
  CLI::App* rank = app.add_subcommand("rank", "Ranks and null-space dimensions of T, or of T = V H for each head");
  rank->add_option("--input", command->input,
                   "Safetensors file with t [batch, S, d], or v [batch, S, d_v] and h [batch, d_v, d]")
      ->required()
      ->check(some_path());
  rank->add_option("--prefix", command->prefix, "Tensor-name prefix, such as 3/ for text 3 of encode");
  rank->add_option("--rtol", command->options.tolerance.relative,
                   "Count singular values above this fraction of the largest (default: max(min(S, 4096), d) * eps)")
      ->check(not_negative_number());
  rank->add_option("--atol", command->options.tolerance.absolute, "... and above this value (default: 0)")
      ->check(not_negative_number());
  rank->add_flag("--ones", command->options.with_ones,
                 "Also print the dimension of LN([T, 1]): directions that keep the sum of the weights");
  rank->add_flag("--json", command->as_json, "Print JSON");
  rank->add_option("--device", command->device, device_help);
  rank->footer(
      "null_dim = S - rank is the dimension of the left null space, sigma_rank the smallest singular value counted.\n"
      "\n"
      "Examples:\n"
      "  nullscope rank --input heads.safetensors --ones\n"
      "  nullscope rank --input t.safetensors --rtol 1e-6 --json");
  rank->callback([command] { run(*command); });
}

}  // namespace nullscope::cli
