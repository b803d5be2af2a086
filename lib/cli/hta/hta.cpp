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
  hta->add_option("--layers", command->layers, "Hidden states after these layers, ascending (default: all)")
      ->delimiter(',')
      ->check(positive_integer());
  hta->add_option("--from", command->from,
                  "Where the input tokens are taken: embeddings (their sum), norm (after the embeddings' norm), or the "
                  "number of a layer, for its output")
      ->capture_default_str();
  hta->add_flag("--words", command->words, "Attribution between words instead of tokens (frobenius norm)");
  hta->add_option("--limit", command->limit, "Take only so many texts of the file")->check(positive_integer());
  hta->add_option("--memory", command->memory,
                  "Device memory that each process may use, besides the model (default: 2GiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(positive_integer());
  hta->add_option("--type", command->type,
                  "Numbers to compute with: f32, f64, or bf16 (f32 with the factors of products rounded, for devices "
                  "with a matrix engine)")
      ->check(CLI::IsMember({"f32", "f64", "bf16"}))
      ->capture_default_str();
  add_resume_and_overwrite(*hta, command->rerun);
  hta->add_flag("--quiet", command->quiet, "Print nothing but errors");
  hta->add_option("--device", command->device, devices_help);
  hta->footer(
      "Finished texts of a file are kept in <output>.journal until the end, so that --resume can continue.\n"
      "Estimates of contributions have a bias of order 1/K beside their standard error.\n"
      "With MPI (mpirun nullscope hta ...), the ranks divide the texts, with --device all the devices of a machine "
      "do;\n"
      "the file is the same to the bit.\n\n"
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
