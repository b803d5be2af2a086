/// Tables and charts of `nullscope experiment`.
#pragma once

#include <string>
#include <vector>

#include "lib/src/studies/synthetic_experiments.hpp"

namespace nullscope::cli {

struct linear_data_row {
  experiment_network network;
  surrogate_errors errors;
};

void print_linear(const std::vector<linear_data_row>& rows);
void print_surrogates(const std::vector<linear_data_row>& rows);
std::string linear_data_csv(const std::vector<linear_data_row>& rows);
std::string linear_chart(const std::vector<linear_data_row>& rows);
std::string surrogates_chart(const std::vector<linear_data_row>& rows);

struct recovery_row {
  experiment_network network;
  recovery_fit fit;
  std::int64_t words;
  std::vector<std::int64_t> longest;  // sequence, of each number in errors.logits
  recovery_errors errors;
};

void print_recovery(const std::vector<recovery_row>& rows, std::int64_t words);
std::string recovery_csv(const std::vector<recovery_row>& rows);
std::string recovery_chart(const std::vector<recovery_row>& rows, const slalom_model& planted);

}  // namespace nullscope::cli
