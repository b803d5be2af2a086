#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/model/model_folder.hpp>
#include <nullscope/model/model_states.hpp>
#include <nullscope/training/text_classifier.hpp>

#include "bindings.hpp"
#include "model.hpp"

namespace nullscope::python {

std::vector<token_batch::sequence> sequences_of(const transformer_config& config, id_lists ids, id_lists segments) {
  std::vector<token_batch::sequence> result;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    token_batch::sequence one{std::move(ids[i])};
    if (config.segments > 0 && i < segments.size()) one.segments = std::move(segments[i]);
    result.push_back(std::move(one));
  }
  return result;
}

void handle_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void report_progress(nb::handle progress, double share) {
  const nb::gil_scoped_acquire held;
  handle_signals();
  if (!progress.is_none()) progress(share);
}

namespace {

pooling pooling_named(const std::string& name) {
  if (name == "first") return pooling::first;
  if (name == "last") return pooling::last;
  if (name == "mean") return pooling::mean;
  throw invalid_argument(fmt::format("pool is \"{}\"; expected \"mean\", \"first\" or \"last\"", name));
}

const char* name_of(pooling pool) { return pool == pooling::first ? "first" : pool == pooling::last ? "last" : "mean"; }

/// The members of the configuration that are numbers, by name.
template <class Visit>
void for_each_number(transformer_config& config, Visit visit) {
  visit("layers", config.layers);
  visit("width", config.width);
  visit("heads", config.heads);
  visit("key_size", config.key_size);
  visit("value_size", config.value_size);
  visit("feed_forward", config.feed_forward);
  visit("vocabulary", config.vocabulary);
  visit("positions", config.positions);
  visit("segments", config.segments);
  visit("classes", config.classes);
  visit("relative_buckets", config.relative_buckets);
  visit("causal", config.causal);
  visit("biases", config.biases);
  visit("embedding_norm", config.embedding_norm);
  visit("language_model", config.language_model);
  visit("dropout", config.dropout);
}

nb::dict to_dict(transformer_config config) {
  nb::dict result;
  for_each_number(config, [&](const char* name, auto value) { result[name] = value; });
  result["pre_norm"] = config.order == norm_order::pre;
  result["heads_are"] = config.merge == head_merge::added ? "added" : "concatenated";
  result["pool"] = name_of(config.pool);
  return result;
}

transformer_config config_of(const nb::dict& given) {
  transformer_config config;
  for_each_number(config, [&]<class Value>(const char* name, Value& value) {
    if (given.contains(name)) value = nb::cast<Value>(given[name]);
  });
  if (given.contains("pre_norm") && nb::cast<bool>(given["pre_norm"])) config.order = norm_order::pre;
  if (given.contains("heads_are")) {
    const auto name = nb::cast<std::string>(given["heads_are"]);
    if (name != "added" && name != "concatenated") {
      throw invalid_argument(fmt::format("heads_are is \"{}\"; expected \"concatenated\" or \"added\"", name));
    }
    config.merge = name == "added" ? head_merge::added : head_merge::concatenated;
  }
  if (given.contains("pool")) config.pool = pooling_named(nb::cast<std::string>(given["pool"]));
  config.validate();
  return config;
}

template <class T>
std::unique_ptr<model<T>> load(nb::object device, const std::string& folder) {
  require_own_process();
  auto& where = nb::cast<device_handle&>(device);
  model_description about;
  std::optional<transformer<T>> parameters;
  {
    const nb::gil_scoped_release released;
    const borrowed_context ctx(where);
    about = describe_model(folder);
    parameters.emplace(load_transformer<T>(*ctx, folder));
  }
  return std::make_unique<model<T>>(device, std::move(*parameters), about.family, about.labels);
}

template <class T>
std::unique_ptr<model<T>> create(nb::object device, const nb::dict& given, std::uint64_t seed,
                                 std::vector<std::string> labels) {
  require_own_process();
  const transformer_config config = config_of(given);
  auto& where = nb::cast<device_handle&>(device);
  std::optional<transformer<T>> parameters;
  {
    const nb::gil_scoped_release released;
    const borrowed_context ctx(where);
    parameters.emplace(*ctx, config);
    parameters->initialise(*ctx, seed);
  }
  return std::make_unique<model<T>>(device, std::move(*parameters), "nullscope", std::move(labels));
}

template <class T>
nb::dict to_dict(model_states<T>&& states, const transformer_config& config) {
  const std::int64_t s = states.tokens, h = config.heads, d = config.width;
  nb::dict result;
  const auto add = [&](const char* name, std::vector<T>& numbers, const shape_type& shape) {
    result[name] = numbers.empty() ? nb::none() : to_numpy(std::move(numbers), shape);
  };
  add("hidden", states.hidden, {config.layers + 1, s, d});
  add("attention", states.attention, {config.layers, h, s, s});
  add("embedding", states.embedding, {d});
  add("q", states.q, {h, s, config.key_size});
  add("k", states.k, {h, s, config.key_size});
  add("v", states.v, {h, s, config.value_size});
  add("h", states.h, {h, config.value_size, d});
  add("bias", states.bias, {h, s, s});
  return result;
}

template <class T>
nb::list states_of(model<T>& of, id_lists ids, id_lists segments, bool attention, std::int64_t heads_of_layer,
                   const std::string& pool, bool normalise) {
  model_states_options options{attention, heads_of_layer, std::nullopt, normalise};
  if (!pool.empty()) options.pool = pooling_named(pool);
  std::vector<model_states<T>> found;
  of.without_gil([&](context& ctx, const transformer<T>& parameters) {
    found =
        read_states(ctx, parameters, sequences_of(parameters.config(), std::move(ids), std::move(segments)), options);
  });
  nb::list result;
  for (model_states<T>& one : found) result.append(to_dict(std::move(one), of.config()));
  return result;
}

template <class T>
nb::object logits_of(model<T>& of, id_lists ids, id_lists segments) {
  const transformer_config& config = of.config();
  if (config.classes == 0) throw invalid_argument("the model has no classifier");
  std::vector<T> host;
  std::int64_t rows = 0;
  of.without_gil([&](context& ctx, const transformer<T>& parameters) {
    const token_batch batch(ctx, config, sequences_of(config, std::move(ids), std::move(segments)));
    rows = config.pairs ? batch.size() / 2 : batch.size();
    tensor<T> logits(ctx, {rows, config.classes});
    forward(ctx, parameters, batch, {.logits = logits}).wait_and_throw();
    host = logits.to_host();
  });
  return to_numpy(std::move(host), {rows, config.classes});
}

template <class T>
nb::dict parameters_of_model(model<T>& of) {
  std::vector<T> all;
  std::vector<parameter> named;
  of.without_gil([&](context&, const transformer<T>& parameters) {
    all = parameters.values().to_host();
    named = parameters.parameters();
  });
  nb::dict result;
  for (const parameter& one : named) {
    const auto begin = all.begin() + one.offset;
    result[one.name.c_str()] = to_numpy(std::vector<T>(begin, begin + one.size), one.shape);
  }
  return result;
}

template <class T>
nb::tuple train_step(model<T>& of, id_lists ids, id_lists segments,
                     const std::vector<std::vector<std::int32_t>>& labels, double learning_rate, double weight_decay,
                     double largest_norm, std::uint64_t seed) {
  auto sequences = sequences_of(of.config(), std::move(ids), std::move(segments));
  if (labels.size() != sequences.size()) {
    throw invalid_argument(fmt::format("train_step: {} labels for {} texts", labels.size(), sequences.size()));
  }
  std::vector<training_example> examples;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    examples.push_back({.sequence = std::move(sequences[i]), .labels = labels[i]});
  }
  training_options options;
  options.learning_rate = learning_rate;
  options.weight_decay = weight_decay;
  options.largest_norm = largest_norm;
  options.seed = seed;
  const training_sums sums = of.train_step(examples, options);
  return nb::make_tuple(sums.mean_loss(), sums.accuracy());
}

attribution_norm norm_named(const std::string& name) {
  if (name == "frobenius") return attribution_norm::frobenius;
  if (name == "spectral") return attribution_norm::spectral;
  if (name == "sum") return attribution_norm::sum;
  throw invalid_argument(
      fmt::format("attribution: norm is \"{}\"; expected \"frobenius\", \"spectral\" or \"sum\"", name));
}

template <class T>
nb::dict attribution_of(model<T>& of, std::vector<std::int32_t> ids, std::vector<std::int32_t> segments,
                        std::int64_t samples, const std::string& norm, std::uint64_t seed, std::int64_t from,
                        std::vector<std::int64_t> layers, nb::object progress) {
  attribution_options options;
  options.norm = norm_named(norm);
  options.samples = samples;
  options.seed = seed;
  options.from = from;
  options.layers = std::move(layers);
  // Ctrl-C waits for the end of a chunk; the spectral norm needs all tangents of a token in one.
  if (options.norm != attribution_norm::spectral) options.memory = std::int64_t{1} << 28;
  options.progress = [&](double share) { report_progress(progress, share); };
  attribution found;
  of.without_gil([&](context& ctx, const transformer<T>& parameters) {
    const token_batch batch(ctx, parameters.config(),
                            sequences_of(parameters.config(), {std::move(ids)}, {std::move(segments)}));
    found = std::move(hidden_token_attribution(ctx, parameters, batch, options)[0]);
  });
  const shape_type shape{std::ssize(found.layers), found.tokens, found.tokens};
  nb::dict result;
  result["layers"] = found.layers;
  result["contribution"] = to_numpy(std::move(found.contribution), shape);
  result["norm"] = to_numpy(std::move(found.norm), shape);
  result["standard_error"] =
      found.standard_error.empty() ? nb::none() : to_numpy(std::move(found.standard_error), shape);
  return result;
}

template <class T>
void save(model<T>& of, const text_encoder* encoder, const std::string& folder) {
  of.without_gil([&](context& ctx, const transformer<T>& parameters) {
    if (parameters.config().classes > 0 && encoder != nullptr) {
      save_classifier(ctx, parameters, *encoder, of.labels(), folder, of.family());
    } else {
      save_transformer(ctx, parameters, {of.family(), parameters.config(), of.labels()}, folder);
      if (encoder != nullptr) encoder->save(folder);
    }
  });
}

template <class T>
void bind_model(nb::module_& m, const char* name) {
  nb::class_<model<T>>(m, name)
      .def_static("load", &load<T>, nb::arg("device"), nb::arg("folder"))
      .def_static("create", &create<T>, nb::arg("device"), nb::arg("config"), nb::arg("seed"), nb::arg("labels"))
      .def_prop_ro("config", [](const model<T>& of) { return to_dict(of.config()); })
      .def_prop_ro("family", &model<T>::family)
      .def_prop_ro("labels", &model<T>::labels)
      .def_prop_ro("device", &model<T>::device)
      .def("parameters", &parameters_of_model<T>)
      .def("states", &states_of<T>, nb::arg("ids"), nb::arg("segments"), nb::arg("attention"),
           nb::arg("heads_of_layer"), nb::arg("pool"), nb::arg("normalise"))
      .def("logits", &logits_of<T>, nb::arg("ids"), nb::arg("segments"))
      .def("train_step", &train_step<T>, nb::arg("ids"), nb::arg("segments"), nb::arg("labels"),
           nb::arg("learning_rate"), nb::arg("weight_decay"), nb::arg("largest_norm"), nb::arg("seed"))
      .def("attribution", &attribution_of<T>, nb::arg("ids"), nb::arg("segments"), nb::arg("samples"), nb::arg("norm"),
           nb::arg("seed"), nb::arg("from_state"), nb::arg("layers"), nb::arg("progress").none())
      .def("save", &save<T>, nb::arg("encoder").none(), nb::arg("folder"));
}

}  // namespace

void bind_transformer(nb::module_& m) {
  bind_model<float>(m, "Transformer32");
  bind_model<double>(m, "Transformer64");
}

}  // namespace nullscope::python
