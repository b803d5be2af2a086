/// Functions that wait for their results, and so have no row in the contract test: fits, explanations, attribution and
/// k_means.
#include <nullscope/attribution/hidden_token_attribution.hpp>
#include <nullscope/explain/explanations.hpp>
#include <nullscope/structure/model_structure.hpp>

#include "tests/attribution/attribution_support.hpp"
#include "tests/core/support.hpp"
#include "tests/explain/planted.hpp"
#include "tests/gpu/cases/race_case.hpp"

namespace nullscope::test {
namespace {

/// Fits of several classes to targets with errors: dense for texts with few deletions, sparse for short queries.
race_results run_slalom(context& ctx, slalom_method method) {
  std::vector<slalom_queries> problems;
  for (const std::int64_t tokens : {3, 13, 37}) {
    const slalom_model planted = planted_slalom(tokens, 2, 11);
    problems.push_back(with_targets(random_queries(tokens, 2, 5 * tokens, 3, 12), planted, 1e-4));
    problems.push_back(with_targets(random_deletions(tokens, 2, 8 * tokens, 3 * tokens / 4, 13), planted, 1e-4));
  }
  race_results results;
  for (const slalom_model& found :
       fit_slalom(ctx, problems, {.method = method, .iterations = 12, .batch = 8, .epochs = 2})) {
    const std::string of = std::to_string(found.tokens()) + " tokens, fit " + std::to_string(results.size());
    results[of + ": values"] = found.value;
    results[of + ": value errors"] = found.value_error;
  }
  return results;
}

race_results run_linear(context& ctx, double ridge, double lasso) {
  linear_samples problem{.features = 37};
  problem.targets = random_numbers<double>(90, 15);
  problem.rows = random_numbers<double>(90 * problem.features, 16);
  return {
      {"coefficients", fit_linear(ctx, {&problem, 1}, {.ridge = ridge, .lasso = lasso, .sweeps = 20})[0].coefficients}};
}

transformer_config small_classifier() {
  transformer_config config;
  config.layers = 2, config.width = 16, config.heads = 2, config.key_size = config.value_size = 8;
  config.feed_forward = 24, config.vocabulary = 12, config.positions = 10, config.classes = 2;
  config.function = activation::gelu;
  return config;
}

template <class T>
race_results run_gradients(context& ctx) {
  transformer<T> network(ctx, small_classifier());
  network.initialise(ctx, 4);
  const explained_model model = explained_transformer(ctx, network);
  const explained_text text{.ids = {2, 5, 7, 9, 3}, .special = {1, 0, 0, 0, 0}};
  race_results results;
  for (const explanation_method method : {explanation_method::integrated_gradients, explanation_method::gradient}) {
    results[std::string(to_string(method))] =
        explain(ctx, model, {&text, 1}, {.method = method, .steps = 3})[0].attribution;
  }
  return results;
}

template <class T>
race_results run_attribution(context& ctx, const transformer_config& config) {
  transformer<T> model(ctx, config);
  model.initialise(ctx, 5);
  const token_batch batch(ctx, config, std::vector<token_batch::sequence>{{{1, 2, 3, 4, 5}}, {{6, 7, 8}}});
  race_results results;
  for (const auto& found : hidden_token_attribution(ctx, model, batch)) {
    results["norm " + std::to_string(results.size())] = as_doubles(found.norm);
  }
  return results;
}

template <class T>
race_results run_k_means(context& ctx) {
  const tensor<T> x(ctx, {90, 7}, random_numbers<T>(90 * 7, 17));
  const k_means_result found = k_means(ctx, x, {.clusters = 5, .seed = 3});
  return {{"within", {found.within}}};
}

template <class T>
void add_cases(std::vector<race_case>& cases, const std::string& type) {
  const double bound = bound_of<T>(1e5);
  cases.push_back({"explain_by_gradients_" + type, run_gradients<T>, bound});
  cases.push_back({"k_means_" + type, run_k_means<T>, bound});
  for (const attribution_kind& kind : attribution_kinds()) {
    cases.push_back({std::string("attribution_of_") + kind.name + "_" + type,
                     [config = kind.config](context& ctx) { return run_attribution<T>(ctx, config); }, bound});
  }
}

}  // namespace

std::vector<race_case> explain_cases() {
  std::vector<race_case> cases;
  add_cases<float>(cases, "float");
  add_cases<double>(cases, "double");
  for (const bool has_fp64 : {false, true}) {  // fits are in double wherever there is any
    const std::string type = has_fp64 ? "double" : "float";
    const double bound = has_fp64 ? 1e-6 : 0.01;
    const auto add = [&](const std::string& name, auto run) {
      cases.push_back({name + "_" + type, run, bound, has_fp64});
    };
    add("slalom_by_least_squares", [](context& ctx) { return run_slalom(ctx, slalom_method::least_squares); });
    add("slalom_by_sgd", [](context& ctx) { return run_slalom(ctx, slalom_method::sgd); });
    add("linear_fit_ridge", [](context& ctx) { return run_linear(ctx, 0.1, 0); });
    add("linear_fit_lasso", [](context& ctx) { return run_linear(ctx, 0, 0.5); });
  }
  return cases;
}

}  // namespace nullscope::test
