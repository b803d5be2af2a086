/// The `nullscope` command line.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <nullscope/core/version.hpp>

#include "lib/cli/commands.hpp"
#include "lib/cli/common/standard_streams.hpp"
#include "lib/cli/parallel/work_splitter.hpp"

namespace {

enum exit_code { done = 0, failure = 1, usage_error = 2 };

constexpr const char* exit_codes =
    "Exit codes: 0 success; 1 the computation failed, or a file or the output cannot be read or written; 2 wrong "
    "options.";

int complain(exit_code code, std::string_view message) {
  fmt::print(stderr, "nullscope: {}\n", message);
  return code;
}

/// Every rank of an MPI job sees the same mistake; only one of them prints it.
int complain_of_usage(std::string_view message) {
  return nullscope::cli::speaks_for_all() ? complain(usage_error, message) : usage_error;
}

/// A message if the first word is not a command, otherwise empty.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return "";
  return fmt::format("there is no command \"{}\"; the commands are: {}", argv[1], fmt::join(names, ", "));
}

}  // namespace

int main(int argc, char** argv) {
  nullscope::cli::open_standard_streams();
  CLI::App app("Transformer identifiability with SYCL: devices, decompositions, null spaces.", "nullscope");
  app.require_subcommand(1);
  app.set_version_flag("--version", fmt::format("nullscope {} ({})", nullscope::version(), nullscope::git_commit()));
  app.failure_message(CLI::FailureMessage::simple);
  app.footer(std::string("nullscope <command> --help shows the options of a command, with examples.\n") + exit_codes);
  nullscope::cli::add_attention(app);
  nullscope::cli::add_devices(app);
  nullscope::cli::add_effective_attention(app);
  nullscope::cli::add_encode(app);
  nullscope::cli::add_evaluate(app);
  nullscope::cli::add_experiment(app);
  nullscope::cli::add_experiment_reversal(app);
  nullscope::cli::add_explain(app);
  nullscope::cli::add_faithfulness(app);
  nullscope::cli::add_hta(app);
  nullscope::cli::add_identify(app);
  nullscope::cli::add_models(app);
  nullscope::cli::add_rank(app);
  nullscope::cli::add_structure(app);
  nullscope::cli::add_svd(app);
  nullscope::cli::add_sweep(app);
  nullscope::cli::add_train(app);
  nullscope::cli::add_view(app);
  nullscope::cli::add_warm_up(app);

  for (CLI::App* command : app.get_subcommands({})) command->footer(command->get_footer() + "\n\n" + exit_codes);

  if (const std::string message = unknown_command(app, argc, argv); !message.empty()) {
    return complain_of_usage(message);
  }
  try {
    try {
      app.parse(argc, argv);
    } catch (const CLI::Success& request) {  // --help, --version
      if (nullscope::cli::speaks_for_all()) app.exit(request);
    }
    nullscope::cli::finish_standard_output();
    return done;
  } catch (const CLI::ParseError& error) {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    const std::string command = chosen.empty() ? "" : chosen[0]->get_name() + " ";
    return complain_of_usage(fmt::format("{} (see nullscope {}--help)", error.what(), command));
  } catch (const std::bad_alloc&) {
    return complain(failure, "out of memory");
  } catch (const std::exception& error) {
    return complain(failure, error.what());
  }
}
