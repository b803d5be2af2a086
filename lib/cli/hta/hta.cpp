/// nullscope hta: Hidden Token Attribution of texts.
#include "lib/cli/commands.hpp"
#include "lib/cli/common/validators.hpp"
#include "lib/cli/hta/hta_run.hpp"

namespace nullscope::cli {

void add_hta(CLI::App& app) {
  auto command = std::make_shared<hta_command>();
  CLI::App* hta = app.add_subcommand("hta", "How much of each input token is in each hidden token of a model");
  add_text_input(*hta, command->input);
  hta->add_option("--tag-column", command->input.tag_column,
                  "The column of the table that holds tags, one for each word of the text between white space, for the "
                  "report");
  hta->add_option("--pair-tag-column", command->input.pair_tag_column,
                  "The column of the table that holds tags of the second texts");
  hta->add_option("--output", command->output,
                  "Safetensors file to write: contribution, norm [layers, S, S] (row: hidden token, column: input "
                  "token), standard_error with --samples; of a file with texts <index>/contribution and so on")
      ->required()
      ->check(some_path());
  hta->add_option("--report", command->report, "Folder for tables and charts of the statistics over all texts")
      ->check(some_path());
  hta->add_option("--norm", command->norm, "Norm of the Jacobians: frobenius, spectral, or sum of the outputs")
      ->check(CLI::IsMember({"frobenius", "spectral", "sum"}))
      ->capture_default_str();
  hta->add_option("--samples", command->samples, "Estimate with this many random tangents per token (default: exact)")
      ->check(positive_integer());
  hta->add_option("--seed", command->seed, "Seed of the random tangents")->check(seed_number())->capture_default_str();
  hta->add_option("--layers", command->layers,
                  "Compute the hidden states after these layers, in ascending order (default: all)")
      ->delimiter(',')
      ->check(positive_integer());
  hta->add_option(
         "--from", command->from,
         "What counts as an input token: embeddings (their sum), norm (after the embeddings' norm), or a layer "
         "number (the output of that layer)")
      ->capture_default_str();
  hta->add_flag("--words", command->words, "Attribution between words instead of tokens (frobenius norm)");
  hta->add_option("--limit", command->limit, "Read at most this many texts of the file")->check(positive_integer());
  hta->add_option("--memory", command->memory,
                  "Device memory that each process may use, besides the model (default: 2GiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(positive_integer());
  hta->add_option("--type", command->type,
                  "f32, f64, or bf16 (f32 with the factors of matrix products rounded to bfloat16, for devices with a "
                  "matrix engine)")
      ->check(CLI::IsMember({"f32", "f64", "bf16"}))
      ->capture_default_str();
  add_resume_and_overwrite(*hta, command->rerun);
  hta->add_flag("--quiet", command->quiet, "Print nothing but errors");
  hta->add_option("--device", command->device, devices_help);
  hta->footer(
      "Finished texts of a file are kept in <output>.journal until the end, so that --resume can continue.\n"
      "With --samples K, estimates have a bias of order 1/K in addition to their standard error.\n"
      "MPI ranks (mpirun nullscope hta ...) and several devices (--device all) share the texts; the file is the same,\n"
      "bit for bit.\n\n"
      "Examples:\n"
      "  nullscope hta --text \"the movie was not bad at all\" --output hta.safetensors --report report\n"
      "  nullscope hta --file reviews.csv --text-column text --samples 16 --output hta.safetensors --report report\n"
      "  nullscope hta --file reviews.csv --text-column text --device all --output hta.safetensors\n"
      "  nullscope hta --file tagged.csv --text-column words --tag-column parts_of_speech --output hta.safetensors "
      "--report report\n"
      "  nullscope hta --model mpnet --file pairs.tsv --text-column a --pair-column b --samples 4 --layers 1,6,12 "
      "--output hta.safetensors");
  hta->callback([command] { run_hta(*command); });
}

}  // namespace nullscope::cli
