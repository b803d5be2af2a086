/// Models by name, and text as tokens. Host code: no device is touched.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <nullscope/model/model_folder.hpp>
#include <nullscope/text/text_encoder.hpp>

#include "bindings.hpp"

namespace nb = nanobind;

namespace nullscope::python {
namespace {

std::string resolve(const std::string& name_or_folder, nb::object report) {
  const model_progress tell = [&](std::string_view text) {
    const nb::gil_scoped_acquire held;
    report(nb::str(text.data(), text.size()));
  };
  const nb::gil_scoped_release released;
  return resolve_model(name_or_folder, tell).string();
}

nb::list known() {
  nb::list all;
  for (const model_info& info : known_models()) {
    nb::dict one;
    one["name"] = info.name;
    one["family"] = info.family;
    one["licence"] = info.licence;
    one["layers"] = info.layers;
    one["width"] = info.width;
    one["heads"] = info.heads;
    one["bytes"] = info.bytes;
    one["is_fetched"] = info.is_fetched;
    all.append(one);
  }
  return all;
}

text_encoder encoder_of_words(const std::vector<std::string>& texts, std::int64_t minimum_count) {
  word_counter counter;
  for (const std::string& text : texts) counter.add(text);
  return text_encoder(counter.vocabulary({.minimum_count = minimum_count}));
}

nb::dict encode(const text_encoder& encoder, const std::string& text, const std::optional<std::string>& pair,
                std::optional<std::int64_t> max_length) {
  encode_options options;
  if (pair) options.pair = *pair;
  options.max_length = max_length;
  const encoded_text input = encoder.encode(text, options);
  std::vector<std::string> tokens;
  for (const std::int32_t id : input.ids) tokens.emplace_back(encoder.token(id));
  std::vector<std::pair<std::int64_t, std::int64_t>> offsets;
  for (const text_range& range : input.offsets) offsets.emplace_back(range.begin, range.end);
  nb::dict found;
  found["ids"] = input.ids;
  found["tokens"] = tokens;
  found["segments"] = input.segments;
  found["byte_offsets"] = offsets;
  found["words"] = input.words;
  found["special"] = std::vector<bool>(input.special_mask.begin(), input.special_mask.end());
  found["truncated"] = input.truncated;
  return found;
}

}  // namespace

void bind_text(nb::module_& m) {
  m.def("resolve_model", &resolve, nb::arg("name_or_folder"), nb::arg("report"));
  m.def("known_models", &known);
  nb::class_<text_encoder>(m, "TextEncoder")
      .def(
          "__init__", [](text_encoder* at, const std::string& folder) { new (at) text_encoder(folder); },
          nb::arg("folder"))
      .def_static("of_words", &encoder_of_words, nb::arg("texts"), nb::arg("minimum_count"))
      .def("encode", &encode, nb::arg("text"), nb::arg("pair").none(), nb::arg("max_length").none())
      .def(
          "decode",
          [](const text_encoder& encoder, const std::vector<std::int32_t>& ids) { return encoder.decode(ids); },
          nb::arg("ids"))
      .def(
          "token", [](const text_encoder& encoder, std::int32_t id) { return std::string(encoder.token(id)); },
          nb::arg("id"))
      .def_prop_ro("vocabulary_size", &text_encoder::vocabulary_size)
      .def_prop_ro("joins_pairs", &text_encoder::joins_pairs)
      .def_prop_ro("empty_id", &text_encoder::empty_id, "What a model reads when no token is left.")
      .def_prop_ro("baseline_id", &text_encoder::baseline_id, "The token that stands for an absent one.");
}

}  // namespace nullscope::python
