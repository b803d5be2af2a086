/// Files of `nullscope structure`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nullscope/structure/model_structure.hpp>
#include <string>
#include <vector>

#include "lib/cli/common/previous_work.hpp"

namespace nullscope::cli {

/// dim R after some inputs, for each head.
struct dimension_row {
  std::int64_t samples;
  std::vector<std::int64_t> dimension, coarse;  ///< at the default tolerance, and at the one asked for
};

/// Sums of squares for one number of clusters.
struct cluster_row {
  std::int64_t clusters;
  double within, between;
};

struct structure_report {
  std::string model;
  nlohmann::ordered_json settings;
  std::int64_t layers = 0, heads = 0, tokens = 0, inputs = 0;
  double cut = 0, tolerance = 0;
  std::vector<float> w, mean, spectrum;   ///< (layers, heads, S, S), the same, (layers, heads, S)
  std::vector<std::int64_t> emptied;      ///< (layers * heads)
  std::vector<dimension_row> dimensions;  ///< over the number of samples
  std::vector<std::int64_t> texts;        ///< whose distances follow
  std::vector<structure_distances<float>> distances;
  std::vector<std::vector<std::int64_t>> switched_off;  ///< of the same texts
  std::vector<cluster_row> clusters;                    ///< empty if all texts were used
};

/// The files of a report.
output_place place_of_structure(const std::filesystem::path& folder);

/// Writes structure.safetensors, structure.csv, structure.svg, w.svg, and clusters.csv if there are clusters.
void write_structure(const std::filesystem::path& folder, const structure_report& report);

/// Prints a short summary.
void print_structure(const structure_report& report);

}  // namespace nullscope::cli
