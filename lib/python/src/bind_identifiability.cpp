/// token_identifiability, of a model that reads texts.
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <nullscope/core/errors.hpp>
#include <nullscope/probes/token_identifiability.hpp>

#include "bindings.hpp"
#include "model.hpp"

namespace nullscope::python {
namespace {

probe_map map_named(const std::string& name) {
  if (name == "identity") return probe_map::identity;
  if (name == "linear") return probe_map::linear;
  if (name == "mlp") return probe_map::mlp;
  throw invalid_argument(
      fmt::format("token_identifiability: map is \"{}\"; expected \"identity\", \"linear\" or \"mlp\"", name));
}

probe_distance distance_named(const std::string& name) {
  if (name == "cosine") return probe_distance::cosine;
  if (name == "l2") return probe_distance::l2;
  throw invalid_argument(
      fmt::format("token_identifiability: a distance of \"{}\"; expected \"cosine\" or \"l2\"", name));
}

probe_fit fit_named(const std::string& name) {
  if (name == "adam") return probe_fit::adam;
  if (name == "least_squares") return probe_fit::least_squares;
  throw invalid_argument(
      fmt::format("token_identifiability: fit is \"{}\"; expected \"adam\" or \"least_squares\"", name));
}

identifiability_options options_of(const nb::dict& given) {
  identifiability_options options;
  options.map = map_named(nb::cast<std::string>(given["map"]));
  options.distance = distance_named(nb::cast<std::string>(given["distance"]));
  if (!given["loss"].is_none()) options.loss = distance_named(nb::cast<std::string>(given["loss"]));
  options.fit = fit_named(nb::cast<std::string>(given["fit"]));
  options.layers = nb::cast<std::vector<std::int64_t>>(given["layers"]);
  options.across_layers = nb::cast<bool>(given["across_layers"]);
  options.offset = nb::cast<std::int64_t>(given["offset"]);
  options.folds = nb::cast<std::int64_t>(given["folds"]);
  options.chosen_folds = nb::cast<std::vector<std::int64_t>>(given["chosen_folds"]);
  options.seed = nb::cast<std::uint64_t>(given["seed"]);
  options.training.learning_rate = nb::cast<double>(given["learning_rate"]);
  options.training.batch = nb::cast<std::int64_t>(given["batch"]);
  options.training.most_epochs = nb::cast<std::int64_t>(given["most_epochs"]);
  options.training.patience = nb::cast<std::int64_t>(given["patience"]);
  options.training.hidden_units = nb::cast<std::int64_t>(given["hidden_units"]);
  return options;
}

/// One member of all results.
template <class Member>
nb::object column(const std::vector<identification>& all, Member member) {
  std::vector<std::decay_t<std::invoke_result_t<Member, const identification&>>> values;
  for (const identification& one : all) values.push_back(std::invoke(member, one));
  const auto count = static_cast<std::int64_t>(values.size());
  return to_numpy(std::move(values), {count});
}

template <class T>
nb::dict identifiability_of(model<T>& of, id_lists ids, id_lists segments, const nb::dict& given, nb::object progress) {
  identifiability_options options = options_of(given);
  options.progress = [&](const probe_progress& at) {
    // How long the last group trains is not known: its epochs count up to the most there may be.
    const double part = static_cast<double>(at.epoch) / static_cast<double>(options.training.most_epochs);
    report_progress(progress, (static_cast<double>(at.group) + part) / static_cast<double>(at.groups));
  };
  std::vector<identification> found;
  of.without_gil([&](context& ctx, const transformer<T>& parameters) {
    const auto sequences = sequences_of(parameters.config(), std::move(ids), std::move(segments));
    const token_states<T> states =
        read_token_states(ctx, parameters, sequences, [](double) { report_progress(nb::none(), 0); });
    found = token_identifiability(ctx, states.inputs, states.hidden, states.sentences, options);
  });
  nb::dict columns;
  columns["trained_on"] = column(found, &identification::trained_on);
  columns["tested_on"] = column(found, &identification::tested_on);
  columns["fold"] = column(found, &identification::fold);
  columns["tokens"] = column(found, &identification::tokens);
  columns["correct"] = column(found, &identification::correct);
  columns["validation_loss"] = column(found, &identification::validation_loss);
  columns["epochs"] = column(found, &identification::epochs);
  return columns;
}

}  // namespace

void bind_identifiability(nb::module_& m) {
  const auto bind = [&]<class T>(T) {
    m.def("token_identifiability", &identifiability_of<T>, nb::arg("model"), nb::arg("ids"), nb::arg("segments"),
          nb::arg("options"), nb::arg("progress").none());
  };
  bind(float());
  bind(double());
}

}  // namespace nullscope::python
