/// nullscope view: a page that shows the attention of all heads on one text.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <nullscope/model/model_folder.hpp>
#include <span>
#include <utility>

#include "lib/cli/commands.hpp"
#include "lib/cli/common/checksum.hpp"
#include "lib/cli/common/previous_work.hpp"
#include "lib/cli/common/progress.hpp"
#include "lib/cli/common/validators.hpp"
#include "lib/cli/common/waiting_note.hpp"
#include "lib/cli/view/view_explanation.hpp"
#include "lib/cli/view/view_page.hpp"
#include "lib/src/io/atomic_file.hpp"

namespace nullscope::cli {
namespace {

struct view_command {
  text_input_options input;
  std::string output, device, explanation;
  std::int64_t index = 0, samples = 0, seed = 0;
  bool exact = false, no_attribution = false;
  rerun_options rerun;
};

/// As many random directions as take a second or two, from 1 to 8.
std::int64_t default_samples(const transformer_config& config, std::int64_t tokens) {
  constexpr double enough_flops = 2e11;
  const double flops = attribution_flops(config, tokens, {.samples = 1});
  return std::clamp(static_cast<std::int64_t>(enough_flops / flops), std::int64_t{1},
                    std::min<std::int64_t>(8, config.width));
}

void check(const view_command& command) {
  if (command.exact + command.no_attribution + (command.samples > 0) > 1) {
    throw usage_error("only one of --samples, --exact and --no-attribution is possible");
  }
  if (command.index > 0 && command.input.file.empty()) throw usage_error("--index needs --file");
}

input_text read_text(const view_command& command, text_source& source) {
  for (input_text text; source.next(text);) {
    if (text.index >= command.index) return text;
  }
  throw file_error(fmt::format("{}: there is no text {}", source.file(), command.index));
}

/// The name of a model, or of the folder that holds it: the page shows no paths.
std::string shown_name(const std::string& model) {
  const std::filesystem::path path(model);
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

attribution attribute(const view_command& command, context& ctx, const transformer<float>& model,
                      const input_text& text, std::int64_t samples) {
  transformer_config config = model.config();
  config.pairs = false;
  const token_batch::sequence sequence = text.sequence(config);
  const token_batch batch(ctx, config, std::span(&sequence, 1));
  progress_bar bar(1, 0);
  double done = 0;
  attribution_options options;
  options.samples = samples;
  options.seed = static_cast<std::uint64_t>(command.seed);
  options.progress = [&](double share) {
    bar.advance(share - std::exchange(done, share));
    bar.draw("attribution");
  };
  return std::move(hidden_token_attribution(ctx, model, batch, options).front());
}

/// One checksum of everything that determines the page: it may be handed on, and says nothing about files here.
nlohmann::ordered_json settings_of(const view_command& command, const text_source& source, const view_page& page,
                                   const sycl::device& device) {
  checksum sum;
  sum.add_text(json_text(common_settings("view", device)));
  sum.add_text(page.model);
  sum.add_model(source.folder());
  add_to(sum, page.text);
  sum.add_text(json_text(page.explanation));
  for (const std::int64_t number :
       {command.samples, command.seed, std::int64_t{command.exact}, std::int64_t{command.no_attribution}}) {
    sum.add(static_cast<std::uint64_t>(number));
  }
  return {{"command", "view"}, {"checksum", sum.text()}};
}

void run(const view_command& command) {
  check(command);
  text_source source(command.input);
  const transformer_config& config = source.model().config;
  if (command.samples > config.width) {
    throw usage_error(fmt::format("--samples {}: the model has {} directions", command.samples, config.width));
  }
  view_page page;
  page.model = shown_name(command.input.model);
  page.text = read_text(command, source);
  page.causal = config.causal;
  for (const std::int32_t id : page.text.tokens.ids) page.vocabulary.push_back(source.token(id));
  if (!command.explanation.empty()) page.explanation = read_explanation(command.explanation, page.text);

  const sycl::device device = select_device(command.device);
  page.settings = settings_of(command, source, page, device);
  const output_place place{.result = command.output, .settings = settings_in_page};
  if (is_finished(place, page.settings, command.rerun)) return;
  context ctx(device);
  {
    const waiting_note note = note_of_first_use(ctx);
    const transformer<float> model = load_transformer<float>(ctx, source.folder());
    page.parts = read_attention_parts(ctx, model, page.text.sequence(config));
    if (!command.no_attribution) {
      if (!command.exact) {
        page.samples = command.samples > 0 ? command.samples : default_samples(config, page.parts.tokens);
      }
      page.contributions = attribute(command, ctx, model, page.text, page.samples);
    }
  }
  const std::string html = page_html(page);
  write_atomically(command.output, html);
  fmt::print("{}: {} tokens, {} layers x {} heads, {:.1f} MB; open it in a browser\n", command.output,
             page.parts.tokens, page.parts.layers, page.parts.heads, static_cast<double>(html.size()) / 1e6);
}

}  // namespace

void add_view(CLI::App& app) {
  auto command = std::make_shared<view_command>();
  CLI::App* view = app.add_subcommand("view", "A page that shows raw, effective and null attention of a text");
  add_text_input(*view, command->input);
  view->add_option("--index", command->index, "Which text of the file, from 0")
      ->capture_default_str()
      ->check(natural_number());
  view->add_option("--output", command->output, "HTML file to write")->required()->check(some_path());
  view->add_option("--samples", command->samples,
                   "Estimate Hidden Token Attribution with this many random tangents per token (default: 1 to 8, by "
                   "the length of the text)")
      ->check(positive_integer());
  view->add_flag("--exact", command->exact, "Compute Hidden Token Attribution exactly; takes longer");
  view->add_flag("--no-attribution", command->no_attribution, "Skip Hidden Token Attribution");
  view->add_option("--seed", command->seed, "Seed of the random tangents")
      ->capture_default_str()
      ->check(natural_number());
  view->add_option("--explanation", command->explanation,
                   "explain.json, written by nullscope explain for the same text: the page can colour the text by it")
      ->check(some_path());
  add_overwrite(*view, command->rerun);
  view->add_option("--device", command->device, device_help);
  view->footer(
      "The page is a single file and needs no network. It shows every head as a matrix or as lines between tokens: "
      "raw\n"
      "attention, effective attention (what the head's output depends on), null attention (the rest), and which\n"
      "tokens gain or lose; rank and null space of the head; Hidden Token Attribution of the chosen token. Press ?\n"
      "in the page for its keys. page.html#layer=3&head=5&token=7&view=lines opens that view.\n"
      "For causal models, effective attention is computed row by row, from the tokens that each token sees.\n\n"
      "Examples:\n"
      "  nullscope view --text \"Attention is not explanation.\" --output page.html\n"
      "  nullscope view --model mpnet --text \"How old are you?\" --text-pair \"What is your age?\" --output "
      "page.html\n"
      "  nullscope view --file reviews.csv --text-column text --index 7 --exact --output page.html\n"
      "  nullscope view --model reviews-model --text \"Not bad.\" --explanation explained/explain.json --output "
      "page.html");
  view->callback([command] { run(*command); });
}

}  // namespace nullscope::cli
