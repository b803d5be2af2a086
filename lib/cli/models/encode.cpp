/// nullscope encode: hidden states, attention and embeddings of texts.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/io/safetensors.hpp>
#include <nullscope/model/model_states.hpp>
#include <numeric>

#include "lib/cli/commands.hpp"
#include "lib/cli/common/previous_work.hpp"
#include "lib/cli/common/progress.hpp"
#include "lib/cli/common/text_input.hpp"
#include "lib/cli/common/validators.hpp"
#include "lib/cli/common/waiting_note.hpp"

namespace nullscope::cli {
namespace {

struct encode_command {
  text_input_options input;
  std::string output, device, type = "f32", pool;
  bool attention = false, normalise = false;
  std::int64_t with_heads = 0;  ///< a layer, from 1; 0: none
  rerun_options rerun;
};

model_states_options states_options(const encode_command& command) {
  model_states_options options;
  options.attention = command.attention;
  options.heads_of_layer = command.with_heads;
  if (!command.pool.empty()) options.pool = command.pool == "mean" ? pooling::mean : pooling::first;
  options.normalise = command.normalise;
  return options;
}

/// Indices of the texts, the shortest first, in batches: as many as fit a number of tokens with padding, one by one if
/// the S x S weights are wanted.
std::vector<std::vector<std::size_t>> groups_of(const std::vector<input_text>& texts, bool one_by_one) {
  constexpr std::size_t tokens_together = 2048;
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto length = [&](std::size_t i) { return texts[i].tokens.ids.size(); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return length(a) < length(b); });
  std::vector<std::vector<std::size_t>> groups;
  for (const std::size_t i : order) {
    const bool fits = !groups.empty() && !one_by_one && (groups.back().size() + 1) * length(i) <= tokens_together;
    if (!fits) groups.emplace_back();
    groups.back().push_back(i);
  }
  return groups;
}

template <class T>
std::vector<model_states<T>> compute(const encode_command& command, const text_source& source,
                                     const std::vector<input_text>& texts) {
  context ctx(select_device(command.device));
  const waiting_note note = note_of_first_use(ctx);
  const transformer<T> model = load_transformer<T>(ctx, source.folder());
  model_states_options options = states_options(command);
  tensor<bfloat16> rounded;
  if constexpr (std::is_same_v<T, float>) {
    if (command.type == "bf16") options.rounded_values = rounded = rounded_values(ctx, model);
  }
  std::vector<model_states<T>> states(texts.size());
  progress_bar progress(static_cast<double>(texts.size()), 0);
  for (const std::vector<std::size_t>& group : groups_of(texts, command.attention)) {
    std::vector<token_batch::sequence> sequences;
    for (const std::size_t i : group) sequences.push_back(texts[i].sequence(model.config()));
    std::vector<model_states<T>> computed = read_states(ctx, model, sequences, options);
    for (std::size_t i = 0; i < group.size(); ++i) states[group[i]] = std::move(computed[i]);
    progress.advance(static_cast<double>(group.size()));
    progress.draw(fmt::format("{} texts", texts.size()));
  }
  return states;
}

/// What `effective-attention` needs to know about the scores.
template <class T>
struct score_settings {
  std::vector<T> scale;
  std::vector<std::uint8_t> causal;
};

template <class T>
void append_entries(const encode_command& command, const transformer_config& config, const std::string& prefix,
                    const input_text& text, const model_states<T>& states, const score_settings<T>& scores,
                    std::vector<safetensors_entry>& entries) {
  const std::int64_t s = states.tokens, d = config.width, heads = config.heads;
  const auto add = [&](const char* name, std::vector<std::int64_t> shape, const auto& numbers) {
    entries.push_back(make_entry(prefix + name, std::move(shape), numbers));
  };
  add("ids", {s}, text.tokens.ids);
  add("hidden", {config.layers + 1, s, d}, states.hidden);
  if (command.attention) add("attention", {config.layers, heads, s, s}, states.attention);
  if (!command.pool.empty()) add("embedding", {d}, states.embedding);
  if (command.with_heads == 0) return;
  add("q", {heads, s, config.key_size}, states.q);
  add("k", {heads, s, config.key_size}, states.k);
  add("v", {heads, s, config.value_size}, states.v);
  add("h", {heads, config.value_size, d}, states.h);
  if (config.relative_buckets > 0) add("bias", {heads, s, s}, states.bias);
  add("scale", {1}, scores.scale);
  add("causal", {1}, scores.causal);
}

nlohmann::ordered_json settings_of(const encode_command& command, const text_source& source,
                                   const std::vector<input_text>& texts) {
  nlohmann::ordered_json settings = common_settings("encode", select_device(command.device));
  settings.update({{"model", command.input.model},
                   {"model_checksum", checksum_of_model(source.folder())},
                   {"texts_checksum", checksum_of(texts)},
                   {"is_file", source.is_file()},
                   {"type", command.type},
                   {"attention", command.attention},
                   {"pool", command.pool},
                   {"normalise", command.normalise},
                   {"with_heads", command.with_heads}});
  return settings;
}

template <class T>
void write(const encode_command& command, const text_source& source, const std::vector<input_text>& texts,
           const nlohmann::ordered_json& settings) {
  const transformer_config& config = source.model().config;
  const std::vector<model_states<T>> states = compute<T>(command, source, texts);
  const score_settings<T> scores{{static_cast<T>(1 / std::sqrt(static_cast<double>(config.key_size)))},
                                 {static_cast<std::uint8_t>(config.causal)}};
  std::vector<safetensors_entry> entries;
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string prefix = source.is_file() ? fmt::format("{}/", texts[i].index) : "";
    append_entries(command, config, prefix, texts[i], states[i], scores, entries);
    tokens += texts[i].tokens.ids.size();
  }
  write_safetensors(command.output, entries, metadata_of(settings));
  fmt::print("{}: {} of {} tokens, hidden states of {} layers\n", command.output,
             texts.size() == 1 ? "1 text" : fmt::format("{} texts", texts.size()), tokens, config.layers);
}

void run(const encode_command& command) {
  if (command.normalise && command.pool.empty()) throw usage_error("--normalise needs --pool");
  if (command.type == "bf16" && (command.attention || command.with_heads > 0)) {
    throw usage_error("--type bf16 leaves out --attention and --with-heads: take f32 or f64");
  }
  text_source source(command.input);
  if (command.with_heads > source.model().config.layers) {
    throw usage_error(fmt::format("--with-heads {}: the layers of this model are 1 to {}", command.with_heads,
                                  source.model().config.layers));
  }
  const std::vector<input_text> texts = source.rest(0);
  const nlohmann::ordered_json settings = settings_of(command, source, texts);
  const output_place place{.result = command.output, .settings = settings_in_safetensors};
  if (is_finished(place, settings, command.rerun)) return;
  if (command.type == "f64") {
    write<double>(command, source, texts, settings);
  } else {
    write<float>(command, source, texts, settings);
  }
}

}  // namespace

void add_encode(CLI::App& app) {
  auto command = std::make_shared<encode_command>();
  CLI::App* encode = app.add_subcommand("encode", "Hidden states, attention and embeddings of texts in a model");
  add_text_input(*encode, command->input);
  encode->add_option("--output", command->output, "Safetensors file to write")->required()->check(some_path());
  encode->add_flag("--attention", command->attention, "Also write the weights of all heads");
  encode->add_option("--pool", command->pool, "Also write a sentence embedding: mean or first (token)")
      ->check(CLI::IsMember({"mean", "first"}));
  encode->add_flag("--normalise", command->normalise, "Scale the sentence embedding to length one");
  encode
      ->add_option("--with-heads", command->with_heads,
                   "Also write the heads of this layer, from 1, as effective-attention and rank read them")
      ->check(positive_integer());
  encode->add_option("--type", command->type, "f32, f64, or bf16: f32 with the factors of products rounded to bfloat16")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "f64", "bf16"}));
  add_overwrite(*encode, command->rerun);
  encode->add_option("--device", command->device, device_help);
  encode->footer(
      "Writes, for S tokens, L layers, h heads and a model of width d\n"
      "  ids [S], hidden [L + 1, S, d]    hidden state 0 is the embedding, L the output of the model\n"
      "  attention [L, h, S, S]           with --attention\n"
      "  embedding [d]                    with --pool\n"
      "  q, k [h, S, d_k], v [h, S, d_v], h [h, d_v, d], scale, causal, bias    with --with-heads\n"
      "For a file, tensors of text i, counted from 0, are called i/ids, i/hidden and so on.\n\n"
      "Examples:\n"
      "  nullscope encode --text \"Attention is not explanation.\" --output out.safetensors --attention\n"
      "  nullscope encode --file texts.txt --pool mean --normalise --output embeddings.safetensors\n"
      "  nullscope encode --ids 101,7592,2088,102 --with-heads 6 --output head.safetensors\n"
      "  nullscope effective-attention --input head.safetensors --output parts.safetensors");
  encode->callback([command] { run(*command); });
}

}  // namespace nullscope::cli
