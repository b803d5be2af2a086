/// The chart of a training run.
#pragma once

#include <nullscope/training/training.hpp>
#include <string>

namespace nullscope::cli {

/// Loss and accuracy over the epochs, with the test accuracy at the best one.
std::string train_chart(const std::string& title, const training_history& history, double test_accuracy);

}  // namespace nullscope::cli
