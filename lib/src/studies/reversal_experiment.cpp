#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nullscope/core/errors.hpp>
#include <nullscope/linalg/random.hpp>
#include <nullscope/model/model_states.hpp>
#include <nullscope/null_space/null_space.hpp>
#include <nullscope/null_space/simplex.hpp>
#include <nullscope/structure/model_structure.hpp>
#include <nullscope/structure/structure_norm.hpp>
#include <nullscope/training/training.hpp>

#include "lib/src/core/ranges.hpp"
#include "lib/src/studies/reversal_experiment.hpp"
#include "lib/src/training/training_loop.hpp"

namespace nullscope {
namespace {

/// Independent streams of random numbers.
enum stream : std::uint64_t { training_stream = 1, test_stream, perturbation_stream, simplex_stream, null_stream };

void check_options(const reversal_options& o) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw invalid_argument(fmt::format("run_reversal: {}", what));
  };
  require(o.tokens >= 2 && o.vocabulary >= 2, "tokens and vocabulary must be at least 2");
  require(o.value_size >= 1 && o.value_size + 1 < o.tokens, "value_size must be from 1 to tokens - 2");
  require(o.width >= 1 && o.key_size >= 1 && o.batch >= 1 && o.most_steps >= 1 && o.inputs >= 1,
          "width, key_size, batch, most_steps and inputs must be at least 1");
  require(o.cut >= 0 && o.background > 0 && o.learning_rate > 0,
          "cut, background and learning_rate must not be negative");
}

/// Random sequences, from the given place of a stream on.
std::vector<training_example> draw_examples(const reversal_options& options, stream from, std::int64_t first,
                                            std::int64_t count) {
  std::vector<training_example> examples(static_cast<std::size_t>(count));
  std::int64_t place = first * options.tokens;
  for (training_example& example : examples) {
    for (std::int64_t i = 0; i < options.tokens; ++i, ++place) {
      const double share = uniform_at<double>({options.seed, from}, place);
      example.sequence.ids.push_back(static_cast<std::int32_t>(share * static_cast<double>(options.vocabulary)));
    }
    example.labels.assign(example.sequence.ids.rbegin(), example.sequence.ids.rend());
  }
  return examples;
}

std::vector<token_batch::sequence> sequences_of(const std::vector<training_example>& examples) {
  std::vector<token_batch::sequence> sequences;
  for (const training_example& example : examples) sequences.push_back(example.sequence);
  return sequences;
}

transformer_config config_of(const reversal_options& options) {
  transformer_config config;
  config.layers = config.heads = 1;
  config.width = options.width;
  config.key_size = options.key_size;
  config.value_size = options.value_size;
  config.feed_forward = 4 * options.width;
  config.vocabulary = options.vocabulary;
  config.positions = options.tokens;
  config.language_model = true;
  return config;
}

/// Trains until the accuracy on the test is reached, or the steps are used up.
void train(trainer<float>& training, const reversal_options& options, const std::vector<training_example>& test,
           reversal_result& result) {
  constexpr std::int64_t round = 100;  // steps between two tests
  const detail::training_loop loop{
      .begin_epoch = [&](std::int64_t) { return std::min(round, options.most_steps - result.steps); },
      .train =
          [&](const detail::loop_position&) {
            training.step(draw_examples(options, training_stream, result.steps * options.batch, options.batch));
            ++result.steps;
            return std::int64_t{1};
          },
      .end_epoch =
          [&](std::int64_t) {
            training.wait();
            result.accuracy = training.evaluate(test).accuracy();
            if (options.progress) options.progress(result.steps, result.accuracy);
            return result.accuracy <= options.accuracy;
          }};
  detail::loop_position at;
  detail::run_epochs(loop, detail::ceil_div(options.most_steps, round), at);
}

double share_on_antidiagonal(const std::vector<float>& w, std::int64_t tokens) {
  double on = 0, all = 0;
  for (std::int64_t i = 0; i < tokens * tokens; ++i) {
    const double weight = static_cast<double>(w[static_cast<std::size_t>(i)]);
    all += weight;
    if (i % tokens == tokens - 1 - i / tokens) on += weight;
  }
  return all > 0 ? on / all : 0;
}

/// Compares matrices with the attention of one input.
class comparison {
 public:
  comparison(context& ctx, const reversal_options& options, const model_states<float>& input,
             const std::vector<float>& w)
      : ctx_(ctx), options_(options), a_(input.attention), size_(options.tokens) {
    weights_ = w;
    for (float& weight : weights_) weight = std::max(weight, static_cast<float>(options.background));
    // T = v h (S, d)
    const std::int64_t d = options.width, d_v = options.value_size;
    t_.assign(static_cast<std::size_t>(size_ * d), 0);
    for (std::int64_t i = 0; i < size_; ++i) {
      for (std::int64_t l = 0; l < d_v; ++l) {
        for (std::int64_t j = 0; j < d; ++j) {
          t_[at(i, j, d)] += static_cast<double>(input.v[at(i, l, d_v)]) * static_cast<double>(input.h[at(l, j, d)]);
        }
      }
    }
  }

  reversal_distance operator()(const std::string& name, const std::vector<float>& b) const {
    const tensor<float> left(ctx_, {size_, size_}, a_), right(ctx_, {size_, size_}, b),
        weights(ctx_, {size_, size_}, weights_), ones(ctx_, {size_, size_}, std::vector<float>(weights_.size(), 1.f));
    tensor<float> out(ctx_, {2});
    const view<float, 1> results = out;
    operation op(ctx_, "run_reversal");
    structure_norm(ctx_, structure_norm_operands<float>{left, ones, right}, slice(results, 0, 0, 1));
    structure_norm(ctx_, structure_norm_operands<float>{left, weights, right}, slice(results, 0, 1, 1));
    op.submit_and_wait();
    std::vector<double> difference(a_.size());
    for (std::size_t i = 0; i < a_.size(); ++i) difference[i] = static_cast<double>(a_[i]) - static_cast<double>(b[i]);
    const std::vector<float> host = out.to_host();
    return {name, static_cast<double>(host[0]), static_cast<double>(host[1]),
            output_norm(difference) / output_norm(std::vector<double>(a_.begin(), a_.end()))};
  }

 private:
  static std::size_t at(std::int64_t row, std::int64_t column, std::int64_t columns) {
    return static_cast<std::size_t>(row * columns + column);
  }

  /// |x T|_F
  double output_norm(const std::vector<double>& x) const {
    double squares = 0;
    for (std::int64_t i = 0; i < size_; ++i) {
      for (std::int64_t j = 0; j < options_.width; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < size_; ++l) sum += x[at(i, l, size_)] * t_[at(l, j, options_.width)];
        squares += sum * sum;
      }
    }
    return std::sqrt(squares);
  }

  context& ctx_;
  const reversal_options& options_;
  std::vector<float> a_, weights_;
  std::vector<double> t_;
  std::int64_t size_;
};

/// A with its columns in reverse order, and in a random order.
std::vector<float> permuted(const std::vector<float>& a, const std::vector<std::int64_t>& order) {
  const std::int64_t size = std::ssize(order);
  std::vector<float> result(a.size());
  for (std::int64_t i = 0; i < size; ++i) {
    for (std::int64_t j = 0; j < size; ++j) {
      result[static_cast<std::size_t>(i * size + j)] =
          a[static_cast<std::size_t>(i * size + order[static_cast<std::size_t>(j)])];
    }
  }
  return result;
}

/// The same amount, S * 0.1 in total, added to entries off the antidiagonal, or taken from those on it.
std::vector<float> perturbed(std::vector<float> a, const reversal_options& options, bool on_structure) {
  const std::int64_t size = options.tokens;
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t own = size - 1 - i;
    const double share = uniform_at<double>({options.seed, perturbation_stream}, i);
    const std::int64_t other = (own + 1 + static_cast<std::int64_t>(share * static_cast<double>(size - 1))) % size;
    float& entry = a[static_cast<std::size_t>(i * size + (on_structure ? own : other))];
    entry += on_structure ? -0.1f : 0.1f;
  }
  return a;
}

/// A moved within the null space: B T = A T. Within the simplex, B has rows of weights that sum to one.
std::vector<float> shifted(context& ctx, const reversal_options& options, const model_states<float>& input,
                           bool in_simplex) {
  const std::int64_t size = options.tokens, d_v = options.value_size;
  const tensor<float> v(ctx, {1, size, d_v}, input.v), h(ctx, {1, d_v, options.width}, input.h),
      a(ctx, {1, size, size}, input.attention);
  const range_tensors<float> range = range_basis(ctx, v, h, {.with_ones = true});
  if (in_simplex) {
    const tensor<std::int64_t> rank(ctx, {1}, range.rank_with_ones);
    tensor<float> out(ctx, {1, 1, size, size}), lambda(ctx, {1, 1, size});
    simplex_alternatives(ctx, simplex_operands<float>{a, range.basis, rank}, simplex_results<float>{out, lambda},
                         {.stream = {options.seed, simplex_stream}})
        .wait_and_throw();
    return out.to_host();
  }
  tensor<float> rows(ctx, {1, size, size});
  random_null_space_rows(ctx, view<const float, 3>(range.basis), rows, {options.seed, null_stream}).wait_and_throw();
  std::vector<float> result = rows.to_host();
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = input.attention[i] + 0.1f * result[i];
  return result;
}

}  // namespace

reversal_result run_reversal(context& ctx, const reversal_options& options) {
  check_options(options);
  const std::vector<training_example> test = draw_examples(options, test_stream, 0, 1000);
  const transformer_config config = config_of(options);
  transformer<float> untrained(ctx, config);
  untrained.initialise(ctx, options.seed);
  trainer<float> training(ctx, std::move(untrained), {.learning_rate = options.learning_rate, .largest_norm = 1});
  reversal_result result;
  train(training, options, test, result);
  const transformer<float>& model = training.model();

  model_structure<float> structure(ctx, model, options.tokens);
  structure.add(ctx, sequences_of(draw_examples(options, test_stream, 1000, options.inputs)), {.subspace = false});
  for (int i = 0; i <= 10; ++i) {
    const double threshold = i / 10.0;
    const attention_structure<float> found = structure.attention().extract(ctx, {.threshold = threshold});
    const std::vector<float> w = found.w.to_host();
    result.structures.push_back({threshold, w, found.emptied[0], share_on_antidiagonal(w, options.tokens)});
  }

  const model_states<float> input = read_states(ctx, model, std::vector<token_batch::sequence>{test[0].sequence},
                                                {.attention = true, .heads_of_layer = 1})[0];
  result.attention = input.attention;
  std::vector<std::int64_t> reverse(static_cast<std::size_t>(options.tokens)), shuffled;
  for (std::int64_t i = 0; i < options.tokens; ++i) reverse[static_cast<std::size_t>(i)] = options.tokens - 1 - i;
  shuffled = reverse;
  for (std::int64_t i = options.tokens - 1; i > 0; --i) {
    const double share = uniform_at<double>({options.seed, perturbation_stream}, options.tokens + i);
    std::swap(shuffled[static_cast<std::size_t>(i)],
              shuffled[static_cast<std::size_t>(share * static_cast<double>(i + 1))]);
  }
  const comparison compare(ctx, options, input,
                           structure.attention().extract(ctx, {.threshold = options.cut}).w.to_host());
  result.distances = {
      compare("permuted: columns reversed", permuted(input.attention, reverse)),
      compare("permuted: columns shuffled", permuted(input.attention, shuffled)),
      compare("perturbed: 0.1 off the structure", perturbed(input.attention, options, false)),
      compare("perturbed: 0.1 on the structure", perturbed(input.attention, options, true)),
      compare("null space, within the simplex", shifted(ctx, options, input, true)),
      compare("null space, any sign", shifted(ctx, options, input, false)),
  };
  return result;
}

}  // namespace nullscope
