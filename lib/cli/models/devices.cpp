/// nullscope devices: which devices there are, and what they offer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>

#include "lib/cli/commands.hpp"

namespace nullscope::cli {
namespace {

struct devices_options {
  std::string device;
  bool as_json = false;
};

std::string tile_text(const matrix_tile& tile) {
  const auto size = [](std::int64_t exact, std::int64_t most) {
    return exact > 0 ? fmt::format("{}", exact) : fmt::format("<={}", most);
  };
  return fmt::format("{}x{}x{}", size(tile.m, tile.max_m), size(tile.n, tile.max_n), size(tile.k, tile.max_k));
}

std::vector<std::string> tile_texts(const device_properties& device) {
  std::vector<std::string> texts;
  for (const matrix_tile& tile : device.bf16_tiles) texts.push_back(tile_text(tile));
  return texts;
}

nlohmann::ordered_json to_json(std::size_t index, const device_properties& d) {
  return {{"index", index},
          {"name", d.name},
          {"kind", to_string(d.kind)},
          {"vendor", d.vendor},
          {"driver", d.driver},
          {"backend", d.backend},
          {"fp64", d.fp64},
          {"fp16", d.fp16},
          {"bf16_tiles", tile_texts(d)},
          {"sub_group_sizes", d.sub_group_sizes},
          {"vector_bytes", d.vector_bytes},
          {"compute_units", d.compute_units},
          {"max_work_group_size", d.max_work_group_size},
          {"local_memory_bytes", d.local_memory_bytes},
          {"global_memory_bytes", d.global_memory_bytes},
          {"max_allocation_bytes", d.max_allocation_bytes}};
}

void print_text(std::size_t index, const device_properties& d) {
  fmt::print("{}  {} ({})\n", index, d.name, to_string(d.kind));
  const auto line = [](std::string_view name, const std::string& value) { fmt::print("   {:<17}{}\n", name, value); };
  line("backend", d.backend);
  line("driver", d.driver);
  line("compute units", fmt::format("{}", d.compute_units));
  if (d.vector_bytes > 0) line("vectors", fmt::format("{} bits", 8 * d.vector_bytes));
  line("memory", fmt::format("{:.1f} GiB, local {} KiB", static_cast<double>(d.global_memory_bytes) / (1 << 30),
                             d.local_memory_bytes / 1024));
  line("sub-groups", fmt::format("{}", fmt::join(d.sub_group_sizes, ", ")));
  line("fp64, fp16", fmt::format("{}, {}", d.fp64 ? "yes" : "no", d.fp16 ? "yes" : "no"));
  line("bf16 tiles", d.bf16_tiles.empty() ? "none" : fmt::format("{}", fmt::join(tile_texts(d), ", ")));
}

void run(const devices_options& options) {
  const std::vector<sycl::device> all = devices();
  const sycl::device chosen =
      select_device(options.device);  // throws, with a list of the devices, if there is no such device
  const bool all_wanted = options.device.empty();
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all_wanted && all[i] != chosen) continue;
    if (options.as_json) {
      list.push_back(to_json(i, properties(all[i])));
    } else {
      print_text(i, properties(all[i]));
    }
  }
  if (options.as_json) fmt::print("{}\n", list.dump(2));
}

}  // namespace

void add_devices(CLI::App& app) {
  auto options = std::make_shared<devices_options>();
  CLI::App* command = app.add_subcommand("devices", "List the SYCL devices and what they offer");
  command->add_option("--device", options->device,
                      "List only this device: an index, cpu, gpu, gpu:1 or part of its name");
  command->add_flag("--json", options->as_json, "Print JSON");
  command->footer("Examples:\n  nullscope devices\n  nullscope devices --device gpu --json");
  command->callback([options] { run(*options); });
}

}  // namespace nullscope::cli
