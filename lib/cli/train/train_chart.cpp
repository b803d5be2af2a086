#include "lib/cli/train/train_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/cli/charts/chart.hpp"

namespace nullscope::cli {
namespace {

using number_of_epoch = double epoch_record::*;

chart_series curve(const training_history& history, number_of_epoch number, std::string name, const char* colour,
                   chart_mark mark) {
  chart_series series{std::move(name), colour, mark, {}};
  for (const epoch_record& epoch : history.epochs) {
    series.points.push_back({static_cast<double>(epoch.epoch), epoch.*number, epoch.*number, epoch.*number});
  }
  return series;
}

/// Two curves of the same kind.
chart_panel panel_of(const training_history& history, const char* title, const char* label, number_of_epoch training,
                     number_of_epoch validation) {
  const auto last = static_cast<double>(history.epochs.back().epoch);
  chart_panel panel{title, {"epoch", chart_scale::linear, 0, std::max(2.0, last + 0.5)}, {label}, {}};
  panel.series = {curve(history, training, "training", chart_colour::blue, chart_mark::circle),
                  curve(history, validation, "validation", chart_colour::orange, chart_mark::square)};
  return panel;
}

}  // namespace

std::string train_chart(const std::string& title, const training_history& history, double test_accuracy) {
  chart_panel loss =
      panel_of(history, "Loss", "cross-entropy", &epoch_record::training_loss, &epoch_record::validation_loss);
  chart_panel accuracy = panel_of(history, "Accuracy", "share of correct answers", &epoch_record::training_accuracy,
                                  &epoch_record::validation_accuracy);
  loss.y.low = 0;
  loss.y.high = 0;
  double least = test_accuracy;
  for (const chart_series& series : loss.series) {
    for (const chart_point& point : series.points) loss.y.high = std::max(loss.y.high, 1.08 * point.y);
  }
  for (const chart_series& series : accuracy.series) {
    for (const chart_point& point : series.points) least = std::min(least, point.y);
  }
  accuracy.y.low = std::max(0.0, std::floor(least * 10 - 0.2) / 10);
  accuracy.y.high = 1 + 0.04 * (1 - accuracy.y.low);
  const auto best = static_cast<double>(history.best_epoch);
  accuracy.series.push_back({fmt::format("test at epoch {}: {:.3f}", history.best_epoch, test_accuracy),
                             chart_colour::green,
                             chart_mark::diamond,
                             {{best, test_accuracy, test_accuracy, test_accuracy}}});
  return draw_chart(title, {loss, accuracy}, 2);
}

}  // namespace nullscope::cli
