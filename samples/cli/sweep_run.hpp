/// A sweep from its settings to its files.
#pragma once

#include <filesystem>
#include <string>

#include "sweep_settings.hpp"

namespace nullscope::cli {

struct sweep_command {
  sweep_settings settings;
  std::string device;
  std::string type;  ///< f32 or f64; empty: f64 if the device supports it
  std::filesystem::path folder = ".";
  bool resume = false, overwrite = false, quiet = false;
};

/// Computes the units that are not in the journal, prints the table and writes the files. Exits if a signal arrives.
void run_sweep(const sweep_command& command);

}  // namespace nullscope::cli
