/// A sweep from its settings to its files.
#pragma once

#include <filesystem>
#include <memory>
#include <nullscope/studies/sweep.hpp>
#include <string>

#include "lib/cli/common/previous_work.hpp"
#include "lib/cli/sweep/swept_model.hpp"

namespace nullscope::cli {

struct sweep_command {
  sweep_settings settings;
  std::shared_ptr<const swept_model> model;  ///< null: random heads
  std::string device;
  std::string type;  ///< f32 or f64; empty: f64 if the device supports it
  std::filesystem::path folder = ".";
  bool quiet = false;
  rerun_options rerun;
  bool times = false;  ///< also write how long each length took
};

/// Computes the units that are not in the journal, prints the table and writes the files. Exits if a signal arrives.
void run_sweep(const sweep_command& command);

}  // namespace nullscope::cli
