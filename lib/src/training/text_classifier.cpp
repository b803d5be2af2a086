#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <nullscope/model/model_folder.hpp>
#include <nullscope/training/text_classifier.hpp>
#include <numeric>

#include "lib/src/model/parameters.hpp"
#include "lib/src/training/training_batch.hpp"

namespace nullscope {
namespace {

/// Softmax of a row, in double.
text_prediction prediction_of(const auto* logits, std::int64_t classes) {
  const auto* const largest = std::max_element(logits, logits + classes);
  text_prediction prediction{largest - logits, {}};
  double sum = 0;
  for (std::int64_t i = 0; i < classes; ++i) {
    prediction.probabilities.push_back(std::exp(static_cast<double>(logits[i]) - static_cast<double>(*largest)));
    sum += prediction.probabilities.back();
  }
  for (double& probability : prediction.probabilities) probability /= sum;
  return prediction;
}

}  // namespace

training_example example_of(const transformer_config& config, const text_encoder& encoder, const text_input& input,
                            std::int64_t max_length, bool* was_cut) {
  const std::int64_t most = std::min(max_length, config.positions);
  bool is_cut = false;
  const auto encode = [&](std::string_view text, std::optional<std::string_view> pair) {
    encoded_text encoded = encoder.encode(text, {.pair = pair, .max_length = most});
    is_cut |= encoded.truncated;
    if (config.segments == 0) encoded.segments.clear();
    return token_batch::sequence{std::move(encoded.ids), std::move(encoded.segments)};
  };
  training_example example;
  if (config.pairs != (input.pair.has_value() && !encoder.joins_pairs())) {
    throw invalid_argument(config.pairs ? "text: the model reads pairs, and there is no second text"
                                        : "text: there is a second text, and the model reads one");
  }
  if (config.pairs) {
    example.sequence = encode(input.text, std::nullopt);
    example.pair = encode(*input.pair, std::nullopt);
  } else {
    const bool joins = input.pair.has_value();
    example.sequence = encode(input.text, joins ? std::optional<std::string_view>(*input.pair) : std::nullopt);
  }
  if (was_cut != nullptr) *was_cut = is_cut;
  return example;
}

template <class T>
text_classifier<T>::text_classifier(context& ctx, const std::filesystem::path& folder)
    : text_classifier(ctx, folder, describe_model(folder)) {}

template <class T>
text_classifier<T>::text_classifier(context& ctx, const std::filesystem::path& folder, model_description&& description)
    : labels_(std::move(description.labels)), model_(load_transformer<T>(ctx, folder)), encoder_(folder) {
  const transformer_config& config = model_.config();
  const auto fail = [&](const std::string& text) { throw file_error(fmt::format("{}: {}", folder.string(), text)); };
  if (config.classes == 0) fail("the model has no classifier");
  if (std::ssize(labels_) != config.classes) {
    fail(fmt::format("{} names for {} classes", labels_.size(), config.classes));
  }
  if (encoder_.vocabulary_size() > config.vocabulary) {
    fail(fmt::format("the tokenizer has {} tokens, the model {}", encoder_.vocabulary_size(), config.vocabulary));
  }
}

template <class T>
std::vector<text_prediction> text_classifier<T>::predict(context& ctx, std::span<const text_input> texts,
                                                         std::int64_t batch) const {
  if (batch < 1) throw invalid_argument(fmt::format("text_classifier: batches of {}, expected at least 1", batch));
  const transformer_config& config = model_.config();
  std::vector<training_example> examples;
  for (const text_input& text : texts) examples.push_back(example_of(config, encoder_, text, config.positions));
  std::vector<std::size_t> order(examples.size());  // similar lengths together
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return examples[a].tokens() > examples[b].tokens(); });
  std::vector<text_prediction> predictions(examples.size());
  const auto most = static_cast<std::size_t>(batch);
  for (std::size_t begin = 0; begin < order.size(); begin += most) {
    const std::size_t count = std::min(most, order.size() - begin);
    std::vector<training_example> part;
    for (std::size_t i = 0; i < count; ++i) part.push_back(std::move(examples[order[begin + i]]));
    const token_batch tokens(ctx, config, detail::sequences_of(config, part));
    tensor<T> logits(ctx, {static_cast<std::int64_t>(count), config.classes});
    forward(ctx, model_, tokens, {.logits = logits}).wait_and_throw();
    const std::vector<T> host = logits.to_host();
    for (std::size_t i = 0; i < count; ++i) {
      predictions[order[begin + i]] =
          prediction_of(host.data() + i * static_cast<std::size_t>(config.classes), config.classes);
    }
  }
  return predictions;
}

template <class T>
void save_classifier(context& ctx, const transformer<T>& model, const text_encoder& encoder,
                     const std::vector<std::string>& labels, const std::filesystem::path& folder,
                     const std::string& family) {
  if (std::ssize(labels) != model.config().classes) {
    throw invalid_argument(
        fmt::format("save_classifier: {} labels for {} classes", labels.size(), model.config().classes));
  }
  save_transformer(ctx, model, {family, model.config(), labels}, folder);
  encoder.save(folder);
}

template <class T>
transformer<T> with_new_classifier(context& ctx, const std::filesystem::path& folder, std::int64_t classes,
                                   std::uint64_t seed, std::optional<double> dropout) {
  const model_description description = describe_model(folder);
  const transformer<T> base = load_transformer<T>(ctx, folder);
  transformer_config config = base.config();
  config.classes = classes;
  config.dropout = dropout.value_or(config.dropout);
  // The layer that the family has in front of its classifier.
  if (description.family == "bert" || description.family == "mpnet") config.classifier_hidden = activation::tanh;
  if (description.family == "distilbert") config.classifier_hidden = activation::relu;
  transformer<T> model(ctx, config);
  model.initialise(ctx, seed, transformer<T>::initialisation::bert);
  events copies;
  for (const parameter& to : model.parameters()) {
    const parameter* const from = detail::find_parameter(base.parameters(), to.name);
    if (from == nullptr || from->shape != to.shape || to.name.starts_with("classifier.")) continue;
    copies.push_back(ctx.queue().memcpy(model.values().data() + to.offset, base.values().data() + from->offset,
                                        static_cast<std::size_t>(to.size) * sizeof(T)));
  }
  sycl::event::wait_and_throw(copies);
  return model;
}

template class text_classifier<float>;
template class text_classifier<double>;
template void save_classifier(context&, const transformer<float>&, const text_encoder&, const std::vector<std::string>&,
                              const std::filesystem::path&, const std::string&);
template void save_classifier(context&, const transformer<double>&, const text_encoder&,
                              const std::vector<std::string>&, const std::filesystem::path&, const std::string&);
template transformer<float> with_new_classifier(context&, const std::filesystem::path&, std::int64_t, std::uint64_t,
                                                std::optional<double>);
template transformer<double> with_new_classifier(context&, const std::filesystem::path&, std::int64_t, std::uint64_t,
                                                 std::optional<double>);

}  // namespace nullscope
