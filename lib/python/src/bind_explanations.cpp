/// explain, of a classifier of the library or of a callable of Python.
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <nullscope/core/errors.hpp>
#include <nullscope/explain/explanations.hpp>

#include "bindings.hpp"
#include "model.hpp"

namespace nullscope::python {
namespace {

slalom_fit_kind fit_named(const std::string& name) {
  if (name == "least_squares") return slalom_fit_kind::least_squares;
  if (name == "sgd") return slalom_fit_kind::sgd;
  if (name == "analytic") return slalom_fit_kind::analytic;
  throw invalid_argument(
      fmt::format("explain: fit is \"{}\"; expected \"least_squares\", \"sgd\" or \"analytic\"", name));
}

query_kind sampling_named(const std::string& name) {
  if (name == "short") return query_kind::short_sequences;
  if (name == "deletions") return query_kind::deletions;
  throw invalid_argument(fmt::format("explain: sampling is \"{}\"; expected \"short\" or \"deletions\"", name));
}

/// Python calls them by underscores, the library by hyphens.
explanation_method method_named(std::string name) {
  std::ranges::replace(name, '_', '-');
  return explanation_method_named(name);
}

explain_options options_of(const nb::dict& given) {
  explain_options options;
  options.method = method_named(nb::cast<std::string>(given["method"]));
  options.fit = fit_named(nb::cast<std::string>(given["fit"]));
  options.kind = sampling_named(nb::cast<std::string>(given["sampling"]));
  options.samples = nb::cast<std::int64_t>(given["samples"]);
  options.length = nb::cast<std::int64_t>(given["length"]);
  options.most_deleted = nb::cast<std::int64_t>(given["most_deleted"]);
  options.seed = nb::cast<std::uint64_t>(given["seed"]);
  options.baseline_id = nb::cast<std::int32_t>(given["baseline_id"]);
  if (!given["of_class"].is_none()) options.of_class = nb::cast<std::int64_t>(given["of_class"]);
  if (!given["by_id"].is_none()) {
    options.identity = nb::cast<bool>(given["by_id"]) ? token_identity::by_id : token_identity::by_place;
  }
  return options;
}

explained_text text_of(const nb::dict& given) {
  explained_text text;
  text.ids = nb::cast<std::vector<std::int32_t>>(given["ids"]);
  for (const bool special : nb::cast<std::vector<bool>>(given["special"])) text.special.push_back(special ? 1 : 0);
  text.empty = nb::cast<std::vector<std::int32_t>>(given["empty"]);
  return text;
}

nb::object numbers(const std::vector<double>& x) {
  return x.empty() ? nb::none() : to_numpy(x, {static_cast<std::int64_t>(x.size())});
}

nb::dict to_dict(const explanation& found) {
  nb::dict result;
  result["of_class"] = found.of_class;
  result["score"] = found.score;
  result["base"] = found.base;
  result["attribution"] = numbers(found.attribution);
  result["fit_error"] = found.fit_error;
  result["queries"] = found.queries;
  result["notes"] = found.notes;
  result["value"] = numbers(found.slalom.value);
  result["importance"] = numbers(found.slalom.importance);
  result["derivative"] = numbers(found.slalom.derivative);
  result["removal"] = numbers(found.slalom.removal);
  result["value_error"] = numbers(found.slalom.value_error);
  result["importance_error"] = numbers(found.slalom.importance_error);
  result["attribution_error"] = numbers(found.slalom.linearised_error);
  return result;
}

/// The same scores, asked for in parts, so that signals are handled in between.
score_function interruptible(score_function whole) {
  return [whole = std::move(whole)](std::span<const token_sequence> sequences) {
    constexpr std::size_t part = 1024;
    std::vector<double> all;
    for (std::size_t first = 0; first < sequences.size(); first += part) {
      report_progress(nb::none(), 0);
      const std::vector<double> some = whole(sequences.subspan(first, std::min(part, sequences.size() - first)));
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  };
}

template <class T>
nb::dict explain_model(model<T>& of, const nb::dict& given_text, const nb::dict& given_options) {
  const explained_text text = text_of(given_text);
  const explain_options options = options_of(given_options);
  explanation found;
  of.without_gil([&](context& ctx, const transformer<T>& parameters) {
    explained_model explained = explained_transformer(ctx, parameters);
    explained.logits = interruptible(std::move(explained.logits));
    found = std::move(explain(ctx, explained, {&text, 1}, options)[0]);
  });
  return to_dict(found);
}

/// The callable takes a list of lists of ids and returns a contiguous float64 array (sequences, classes).
score_function scores_by(nb::handle callable, std::int64_t classes) {
  return [callable, classes](std::span<const token_sequence> sequences) {
    const nb::gil_scoped_acquire held;
    handle_signals();
    nb::list asked;
    for (const token_sequence& one : sequences) asked.append(nb::cast(one));
    const auto answer =
        nb::cast<nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>>(callable(asked));
    if (answer.shape(0) != sequences.size() || std::cmp_not_equal(answer.shape(1), classes)) {
      throw invalid_argument(fmt::format("explain: the model gave scores ({}, {}) for {} texts and {} classes",
                                         answer.shape(0), answer.shape(1), sequences.size(), classes));
    }
    return std::vector<double>(answer.data(), answer.data() + answer.size());
  };
}

nb::dict explain_callable(device_handle& where, nb::object callable, std::int64_t classes, double noise,
                          const nb::dict& given_text, const nb::dict& given_options) {
  const explained_text text = text_of(given_text);
  const explain_options options = options_of(given_options);
  explained_model explained{
      .classes = classes, .logits = scores_by(callable, classes), .gradients = {}, .noise = noise};
  explanation found;
  without_gil(where, [&](context& ctx) { found = std::move(explain(ctx, explained, {&text, 1}, options)[0]); });
  return to_dict(found);
}

}  // namespace

void bind_explanations(nb::module_& m) {
  m.def("explain_model", &explain_model<float>, nb::arg("model"), nb::arg("text"), nb::arg("options"));
  m.def("explain_model", &explain_model<double>, nb::arg("model"), nb::arg("text"), nb::arg("options"));
  m.def("explain_callable", &explain_callable, nb::arg("device"), nb::arg("callable"), nb::arg("classes"),
        nb::arg("noise"), nb::arg("text"), nb::arg("options"));
}

}  // namespace nullscope::python
