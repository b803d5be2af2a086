#include "lib/cli/attention/attention_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "lib/cli/common/field_text.hpp"
#include "lib/src/io/atomic_file.hpp"

namespace nullscope::cli {
namespace {

/// Calls visit(matrix, from, to) for all entries whose class `from` some text has.
template <class Visit>
void for_entries(const class_averages& averages, Visit visit) {
  for (std::int64_t matrix = 0; matrix < averages.matrices; ++matrix) {
    for (std::int64_t from = 0; from <= averages.classes; ++from) {
      if (averages.texts[static_cast<std::size_t>(from)] == 0) continue;
      for (std::int64_t to = 0; to < averages.classes; ++to) visit(matrix, from, to);
    }
  }
}

std::string classes_table(const attention_report& report) {
  std::string text = "layer,head,from,to,raw,effective,null\n";
  const class_averages& all = report.averages;
  for_entries(all, [&](std::int64_t head, std::int64_t from, std::int64_t to) {
    const double raw = all.at(all.raw, head, from, to), effective = all.at(all.effective, head, from, to);
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{:.7g},{:.7g},{:.7g}\n", head / report.heads + 1,
                   head % report.heads + 1, csv_field(report.name(from)), csv_field(report.name(to)), raw, effective,
                   raw - effective);
  });
  return text;
}

std::string rollout_table(const attention_report& report) {
  std::string text = "layer,from,to,raw,effective\n";
  const class_averages& all = report.rollout;
  for_entries(all, [&](std::int64_t layer, std::int64_t from, std::int64_t to) {
    fmt::format_to(std::back_inserter(text), "{},{},{},{:.7g},{:.7g}\n", layer + 1, csv_field(report.name(from)),
                   csv_field(report.name(to)), all.at(all.raw, layer, from, to),
                   all.at(all.effective, layer, from, to));
  });
  return text;
}

std::string heads_table(const attention_report& report) {
  std::string text = "text,tokens,layer,head,rank,pearson,raw_norm,effective_norm,null_norm\n";
  for (std::size_t i = 0; i < report.numbers.size(); ++i) {
    const text_attention<float>& of = report.numbers[i];
    for (std::size_t head = 0; head < of.heads.size(); ++head) {
      const auto heads = static_cast<std::size_t>(report.heads);
      const head_numbers<float>& one = of.heads[head];
      const std::string pearson = std::isnan(one.pearson) ? "" : fmt::format("{}", one.pearson);
      fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{},{},{}\n", report.texts[i], of.tokens,
                     head / heads + 1, head % heads + 1, one.rank, pearson, one.raw_norm, one.effective_norm,
                     one.null_norm);
    }
  }
  return text;
}

head_means means_of(const attention_report& report, std::int64_t first_head, std::int64_t count) {
  return mean_of_heads(std::span<const text_attention<float>>(report.numbers), first_head, count);
}

std::string json(const attention_report& report) {
  nlohmann::ordered_json all;
  all["settings"] = report.settings;
  all["model"] = report.model;
  all["layers"] = report.layers;
  all["heads"] = report.heads;
  all["texts"] = report.texts.size();
  all["projection"] = report.by_rows ? "rows" : "full";
  for (std::size_t i = 0; i < report.classes.size(); ++i) {
    all["classes"].push_back(
        {{"name", report.classes[i]}, {"tokens", report.class_tokens[i]}, {"texts", report.averages.texts[i]}});
  }
  const class_averages& averages = report.averages;
  for (std::int64_t head = 0; head < averages.matrices; ++head) {
    const head_means mean = means_of(report, head, 1);
    nlohmann::ordered_json one{{"layer", head / report.heads + 1},
                               {"head", head % report.heads + 1},
                               {"pearson", json_number(mean.pearson)},
                               {"rank", mean.rank},
                               {"entropy", mean.entropy},
                               {"null_share", mean.null_share}};
    for (std::int64_t to = 0; to < averages.classes; ++to) {
      one["to"].push_back({{"class", report.name(to)},
                           {"raw", averages.at(averages.raw, head, averages.classes, to)},
                           {"effective", averages.at(averages.effective, head, averages.classes, to)}});
    }
    all["of_heads"].push_back(std::move(one));
  }
  return json_text(all, 1) + "\n";
}

}  // namespace

const std::string& attention_report::name(std::int64_t from) const {
  static const std::string all = "all";
  return from < std::ssize(classes) ? classes[static_cast<std::size_t>(from)] : all;
}

output_place place_of_attention(const std::filesystem::path& folder) {
  output_place place{.result = folder / "attention.json"};
  for (const char* name : {"classes.csv", "heads.csv", "attention.svg", "rollout.csv"}) {
    place.others.push_back(folder / name);
  }
  return place;
}

void write_attention(const std::filesystem::path& folder, const attention_report& report) {
  begin_writing(place_of_attention(folder));
  write_atomically(folder / "classes.csv", classes_table(report));
  write_atomically(folder / "heads.csv", heads_table(report));
  write_atomically(folder / "attention.svg", attention_chart(report));
  if (report.rollout.matrices > 0) {
    write_atomically(folder / "rollout.csv", rollout_table(report));
  } else {
    std::filesystem::remove(folder / "rollout.csv");  // left by the run that is overwritten
  }
  write_atomically(folder / "attention.json", json(report));  // last, because it marks the run as finished
}

void print_attention(const attention_report& report) {
  const class_averages& averages = report.averages;
  fmt::print("{}: {} texts, {} layers of {} heads; effective attention {}\n", report.model, report.texts.size(),
             report.layers, report.heads, report.by_rows ? "by rows" : "with all tokens");
  fmt::print("Attention to a class, from all tokens: raw -> effective\n");
  fmt::print("{:>5}  {:>7}  {:>8}  {:>7}", "layer", "pearson", "null (%)", "entropy");
  for (const std::string& name : report.classes) fmt::print("  {:>18}", name.substr(0, 18));
  fmt::print("\n");
  for (std::int64_t layer = 0; layer < report.layers; ++layer) {
    const head_means mean = means_of(report, layer * report.heads, report.heads);
    fmt::print("{:>5}  {:>7.4f}  {:>8.1f}  {:>7.3f}", layer + 1, mean.pearson, 100 * mean.null_share, mean.entropy);
    for (std::int64_t to = 0; to < averages.classes; ++to) {
      double raw = 0, effective = 0;
      for (std::int64_t head = layer * report.heads; head < (layer + 1) * report.heads; ++head) {
        raw += averages.at(averages.raw, head, averages.classes, to) / static_cast<double>(report.heads);
        effective += averages.at(averages.effective, head, averages.classes, to) / static_cast<double>(report.heads);
      }
      fmt::print("  {:>18}", fmt::format("{:.3f} -> {:.3f}", raw, effective));
    }
    fmt::print("\n");
  }
}

}  // namespace nullscope::cli
