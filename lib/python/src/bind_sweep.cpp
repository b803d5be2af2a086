/// sweep: the null-space sweep, over random heads or the heads of a model.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <nullscope/studies/sweep.hpp>
#include <optional>

#include "bindings.hpp"
#include "model.hpp"

namespace nullscope::python {
namespace {

sweep_settings settings_of(const nb::dict& given) {
  sweep_settings settings;
  settings.lengths = nb::cast<std::vector<std::int64_t>>(given["lengths"]);
  settings.samples = nb::cast<std::int64_t>(given["samples"]);
  settings.width = nb::cast<std::int64_t>(given["width"]);
  settings.heads = nb::cast<std::int64_t>(given["heads"]);
  settings.key_size = nb::cast<std::int64_t>(given["key_size"]);
  settings.heads_are = nb::cast<std::string>(given["heads_are"]);
  settings.pearson_up_to = nb::cast<std::int64_t>(given["pearson_up_to"]);
  settings.query_sample = nb::cast<std::int64_t>(given["query_sample"]);
  settings.seed = nb::cast<std::uint64_t>(given["seed"]);
  settings.is_double = nb::cast<bool>(given["is_double"]);
  return settings;
}

nb::object column_of(const std::vector<sweep_row>& rows, sweep_kind sweep_row::*member) {
  nb::list names;
  for (const sweep_row& row : rows) names.append(std::string(to_string(row.*member)));
  return names;
}

template <class Number>
nb::object column_of(const std::vector<sweep_row>& rows, Number sweep_row::*member) {
  std::vector<Number> numbers;
  for (const sweep_row& row : rows) numbers.push_back(row.*member);
  return to_numpy(std::move(numbers), {std::ssize(rows)});
}

nb::dict to_dict(const sweep_summary& summary) {
  nb::dict result;
  result["length"] = summary.length;
  result["heads_are"] = std::string(to_string(summary.kind));
  result["samples"] = summary.samples;
  result["rank"] = summary.rank.mean;
  result["null_dim"] = summary.null_dim.mean;
  result["null_dim_ones"] = summary.null_dim_ones.mean;
  result["pearson"] = summary.pearson.mean;
  return result;
}

/// (columns, means of each length and kind, CSV).
nb::tuple to_python(const sweep_settings& settings, const std::vector<sweep_row>& rows) {
  nb::dict columns;
  for (const sweep_column& column : sweep_columns(settings)) {
    columns[nb::str(column.name.data(), column.name.size())] =
        std::visit([&](auto member) { return column_of(rows, member); }, column.member);
  }
  nb::list summaries;
  for (const sweep_summary& summary : summaries_of(rows)) summaries.append(to_dict(summary));
  return nb::make_tuple(columns, summaries, sweep_csv(settings, rows));
}

nb::tuple sweep_of_random_heads(device_handle& where, const nb::dict& given, nb::object progress) {
  require_own_process();
  const sweep_settings settings = complete(settings_of(given));
  std::vector<sweep_row> rows;
  {
    const nb::gil_scoped_release released;
    rows = sweep(*make_sweep_computer(context(where.device()), settings),
                 [&](double share) { report_progress(progress, share); });
  }
  return to_python(settings, rows);
}

template <class T>
nb::tuple sweep_of_model(model<T>& of, id_lists ids, id_lists segments, const nb::dict& given, nb::object progress) {
  const sweep_texts texts(sequences_of(of.config(), std::move(ids), std::move(segments)));
  const sweep_settings settings = complete(settings_of(given), of.config(), texts);
  std::vector<sweep_row> rows;
  of.without_gil([&](context&, const transformer<T>& parameters) {
    rows = sweep(*make_sweep_computer(context(of.where().device()), settings, parameters, texts),
                 [&](double share) { report_progress(progress, share); });
  });
  return to_python(settings, rows);
}

}  // namespace

void bind_sweep(nb::module_& m) {
  m.def("sweep", &sweep_of_random_heads, nb::arg("device"), nb::arg("settings"), nb::arg("progress").none());
  const auto bind = [&]<class T>(T) {
    m.def("sweep", &sweep_of_model<T>, nb::arg("model"), nb::arg("ids"), nb::arg("segments"), nb::arg("settings"),
          nb::arg("progress").none());
  };
  bind(float());
  bind(double());
}

}  // namespace nullscope::python
