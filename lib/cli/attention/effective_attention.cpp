/// nullscope effective-attention: the part of attention that the output of a head can depend on.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nullscope/attention/effective_attention.hpp>
#include <nullscope/core/device.hpp>
#include <nullscope/core/errors.hpp>
#include <optional>

#include "lib/cli/commands.hpp"
#include "lib/cli/common/checksum.hpp"
#include "lib/cli/common/matrices.hpp"
#include "lib/cli/common/previous_work.hpp"
#include "lib/cli/common/validators.hpp"

namespace nullscope::cli {
namespace {

struct effective_command {
  std::string input, output, prefix, device;
  effective_attention_options options;
  std::int64_t length = 0;  ///< 0: all tokens
  bool dense = false;
  rerun_options rerun;
};

/// A tensor [heads, rows, columns]; one matrix is a single head.
template <class T>
tensor<T> load_heads(const context& ctx, const safetensors_file& file, std::string_view name) {
  return load_matrices<T>(ctx, file, matrices_at(file, name));
}

/// A tensor that may be left out.
template <class T>
tensor<T> load_optional(const context& ctx, const safetensors_file& file, const std::string& name) {
  return file.find(name) == nullptr ? tensor<T>() : load_heads<T>(ctx, file, name);
}

/// The single number of a tensor, if there is one of that name.
template <class T>
std::optional<T> number_at(const safetensors_file& file, const std::string& name) {
  const safetensors_entry* entry = file.find(name);
  if (entry == nullptr) return std::nullopt;
  const std::vector<T> numbers = file.read<T>(*entry);
  if (numbers.size() == 1) return numbers[0];
  throw invalid_argument(fmt::format("tensor \"{}\" has shape {}; expected one number", name, entry->shape));
}

/// The options, completed from the file: `encode` writes scale, causal and bias of the scores.
template <class T>
effective_attention_tensor_options<T> options_of(const effective_command& command, const safetensors_file& file,
                                                 const tensor<T>& bias) {
  effective_attention_tensor_options<T> options{command.options};
  options.bias = bias;
  if (options.scale == 0) options.scale = number_at<double>(file, command.prefix + "scale").value_or(0);
  options.causal |= number_at<std::uint8_t>(file, command.prefix + "causal").value_or(0) != 0;
  if (command.length > 0) options.lengths = {command.length};
  return options;
}

/// The first tokens of q, k and of what was computed from them; all if there is no padding.
template <class T>
attention_factors<T> factors_of(const tensor<T>& q, const tensor<T>& k, const tensor<T>& bias,
                                const effective_attention_tensors<T>& result, std::int64_t queries, std::int64_t keys) {
  view<const T, 3> of_tokens = bias;
  if (!of_tokens.is_absent()) of_tokens = slice(slice(of_tokens, 1, 0, queries), 2, 0, keys);
  return {slice(q.template as<3>(), 1, 0, queries),
          slice(k.template as<3>(), 1, 0, keys),
          slice(result.log_sum_exp.template as<2>(), 1, 0, queries),
          slice(result.p.template as<3>(), 1, 0, queries),
          slice(result.u.template as<3>(), 1, 0, keys),
          of_tokens};
}

/// One of the dense matrices [heads, queries, keys], one head at a time: the device holds S^2 numbers, not heads * S^2.
template <class T>
std::vector<T> dense_matrix(context& ctx, const attention_factors<T>& factors, const attention_part_options& options) {
  const std::int64_t heads = factors.q.extent[0];
  tensor<T> one(ctx, {factors.q.extent[1], factors.k.extent[1]});
  std::vector<T> all;
  all.reserve(static_cast<std::size_t>(heads * one.size()));
  for (std::int64_t head = 0; head < heads; ++head) {
    const auto of_head = [&](const auto& array) { return array.is_absent() ? array : slice(array, 0, head, 1); };
    attention_part(ctx,
                   {of_head(factors.q), of_head(factors.k), of_head(factors.log_sum_exp), of_head(factors.p),
                    of_head(factors.u), of_head(factors.bias)},
                   one, options)
        .wait_and_throw();
    const std::vector<T> host = one.to_host();
    all.insert(all.end(), host.begin(), host.end());
  }
  return all;
}

/// Heads whose scores are not finite.
template <class T>
std::vector<std::int64_t> failed_heads(const std::vector<T>& raw_norm) {
  std::vector<std::int64_t> failed;
  for (std::size_t i = 0; i < raw_norm.size(); ++i) {
    if (std::isnan(raw_norm[i])) failed.push_back(static_cast<std::int64_t>(i));
  }
  return failed;
}

/// Throws if there are any, after the file has been written.
void report_failures(const std::vector<std::int64_t>& failed, std::size_t heads) {
  if (failed.empty()) return;
  throw computation_error(fmt::format("{} of {} heads have scores that are not finite: {} (they are NaN in the file)",
                                      failed.size(), heads, fmt::join(failed, ", ")),
                          failed);
}

nlohmann::ordered_json settings_of(const effective_command& command) {
  nlohmann::ordered_json settings = common_settings("effective-attention", select_device(command.device));
  settings.update({{"input_checksum", checksum_of_file(command.input)},
                   {"prefix", command.prefix},
                   {"dense", command.dense},
                   {"length", command.length},
                   {"causal", command.options.causal},
                   {"scale", command.options.scale},
                   {"rtol", command.options.tolerance.relative},
                   {"atol", command.options.tolerance.absolute}});
  return settings;
}

template <class T>
void write_parts(const effective_command& command, const safetensors_file& file,
                 const nlohmann::ordered_json& settings) {
  context ctx(select_device(command.device));
  const std::string& prefix = command.prefix;
  const tensor<T> q = load_heads<T>(ctx, file, prefix + "q"), k = load_heads<T>(ctx, file, prefix + "k"),
                  v = load_heads<T>(ctx, file, prefix + "v"), h = load_optional<T>(ctx, file, prefix + "h"),
                  bias = load_optional<T>(ctx, file, prefix + "bias");
  const effective_attention_tensor_options<T> options = options_of(command, file, bias);
  const effective_attention_tensors<T> result = effective_attention(ctx, q, k, v, h, options);

  const std::int64_t heads = q.shape()[0];
  std::vector<T> pearson, raw_norm, effective_norm, null_norm;
  for (const effective_attention_summary<T>& summary : result.summary) {
    pearson.push_back(summary.pearson);
    raw_norm.push_back(summary.raw_norm);
    effective_norm.push_back(summary.effective_norm);
    null_norm.push_back(summary.null_norm);
  }
  const std::vector<T> p = result.p.to_host(), u = result.u.to_host(), s = result.s.to_host(),
                       received_raw = result.received_raw.to_host(),
                       received_effective = result.received_effective.to_host();
  std::vector<safetensors_entry> entries{
      make_entry("p", result.p.shape(), p),
      make_entry("u", result.u.shape(), u),
      make_entry("s", result.s.shape(), s),
      make_entry("rank", {heads}, result.rank),
      make_entry("null_dim", {heads}, result.null_dimension),
      make_entry("pearson", {heads}, pearson),
      make_entry("raw_norm", {heads}, raw_norm),
      make_entry("effective_norm", {heads}, effective_norm),
      make_entry("null_norm", {heads}, null_norm),
      make_entry("received_raw", result.received_raw.shape(), received_raw),
      make_entry("received_effective", result.received_effective.shape(), received_effective)};
  std::vector<T> raw, effective, rest;
  if (command.dense) {
    const std::int64_t queries = command.length > 0 ? command.length : q.shape()[1];
    const std::int64_t keys = command.length > 0 ? command.length : k.shape()[1];
    const attention_factors<T> factors = factors_of(q, k, bias, result, queries, keys);
    const auto dense = [&](attention_matrix matrix) {
      return dense_matrix(ctx, factors, {.matrix = matrix, .scale = options.scale, .causal = options.causal});
    };
    raw = dense(attention_matrix::raw);
    effective = dense(attention_matrix::effective);
    rest = dense(attention_matrix::null_part);
    const std::vector<std::int64_t> shape{heads, queries, keys};
    entries.push_back(make_entry("raw", shape, raw));
    entries.push_back(make_entry("effective", shape, effective));
    entries.push_back(make_entry("null", shape, rest));
  }
  // A file with heads that failed is no finished result.
  const std::vector<std::int64_t> failed = failed_heads(raw_norm);
  write_safetensors(command.output, entries, failed.empty() ? metadata_of(settings) : safetensors_metadata{});
  report_failures(failed, raw_norm.size());

  fmt::print("{:>4}  {:>6}  {:>8}  {:>9}  {:>11}  {:>14}  {:>9}\n", "head", "rank", "null_dim", "pearson", "|raw|",
             "|effective|", "|null|");
  for (std::size_t i = 0; i < result.rank.size(); ++i) {
    fmt::print("{:>4}  {:>6}  {:>8}  {:>9.6f}  {:>11.4g}  {:>14.4g}  {:>9.4g}\n", i, result.rank[i],
               result.null_dimension[i], pearson[i], raw_norm[i], effective_norm[i], null_norm[i]);
  }
}

void run(const effective_command& command) {
  const safetensors_file file(command.input);
  const nlohmann::ordered_json settings = settings_of(command);
  const output_place place{.result = command.output, .settings = settings_in_safetensors};
  if (is_finished(place, settings, command.rerun)) return;
  if (file.at(command.prefix + "q").type == element_type::f64) {
    write_parts<double>(command, file, settings);
  } else {
    write_parts<float>(command, file, settings);
  }
}

}  // namespace

void add_effective_attention(CLI::App& app) {
  auto command = std::make_shared<effective_command>();
  CLI::App* effective = app.add_subcommand(
      "effective-attention",
      "Split attention at the left null space of T = V H: the part that the output can depend on, and the rest");
  effective
      ->add_option("--input", command->input,
                   "Safetensors file with q, k [heads, S, d_k], v [heads, S, d_v] and, if there is an output "
                   "projection, h [heads, d_v, d]; scale, causal and bias [heads, S, S] are used if present")
      ->required()
      ->check(some_path());
  effective->add_option("--output", command->output, "Safetensors file to write")->required()->check(some_path());
  effective->add_option("--prefix", command->prefix, "Tensor-name prefix, such as 3/ for text 3 of encode");
  effective->add_flag("--dense", command->dense, "Also write the matrices raw, effective and null, [heads, S, S] each");
  effective->add_option("--length", command->length, "Number of tokens, without padding (default: all)")
      ->check(positive_integer());
  effective->add_flag("--causal", command->options.causal,
                      "Causal attention: each token sees itself and the tokens before it");
  effective
      ->add_option("--scale", command->options.scale,
                   "Scale of the scores q k^T (default: the file's, or 1 / sqrt(d_k))")
      ->check(positive_number());
  effective
      ->add_option(
          "--rtol", command->options.tolerance.relative,
          "Count singular values of T above this fraction of the largest (default: max(min(S, 4096), d) * eps)")
      ->check(not_negative_number());
  effective->add_option("--atol", command->options.tolerance.absolute, "... and above this value (default: 0)")
      ->check(not_negative_number());
  add_overwrite(*effective, command->rerun);
  effective->add_option("--device", command->device, device_help);
  effective->footer(
      "Prints one line per head and writes\n"
      "  p [heads, S, k], u [heads, S, k]        effective attention is p u^T\n"
      "  s [heads, k], rank, null_dim [heads]    singular values and rank of T, dimension of its left null space\n"
      "  pearson [heads]                         correlation of raw and effective attention\n"
      "  raw_norm, effective_norm, null_norm     Frobenius norms [heads]\n"
      "  received_raw, received_effective        column sums [heads, S]\n"
      "If q is F64, everything is computed in double, otherwise in float. If the scores of a head are not finite, the\n"
      "file is written and the exit code is 1.\n\n"
      "Examples:\n"
      "  nullscope effective-attention --input head.safetensors --output parts.safetensors\n"
      "  nullscope effective-attention --input gpt.safetensors --output parts.safetensors --causal --dense");
  effective->callback([command] { run(*command); });
}

}  // namespace nullscope::cli
