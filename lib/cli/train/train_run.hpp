/// What `nullscope train` does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "lib/cli/common/labelled_texts.hpp"
#include "lib/cli/common/previous_work.hpp"

namespace nullscope::cli {

struct train_command {
  std::filesystem::path data, test, output;
  text_columns columns;
  std::string from, device;

  // The model; of one that is fine-tuned only max_length and dropout can be chosen.
  std::optional<std::int64_t> layers, width, heads, key_size, feed_forward, max_length;
  std::optional<double> dropout;
  std::string heads_are = "concatenated";
  bool decoder = false;
  std::int64_t min_count = 1;

  // How it is trained; what is not given depends on `from`.
  std::optional<std::int64_t> epochs, batch;
  std::optional<double> learning_rate;
  std::string schedule = "constant", too_long = "cut";
  std::int64_t warm_up = 0, patience = 0;
  double weight_decay = 0, clip = 0, checkpoint_minutes = 2;
  std::uint64_t seed = 1;
  bool quiet = false;
  rerun_options rerun;
};

void run_train(const train_command& command);

}  // namespace nullscope::cli
