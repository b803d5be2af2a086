/// Attention parts: the heads of a model whose attention on a text lies most in the null space, and where it goes.
///
///   attention_parts ["a text"] [model name or folder]
#include <algorithm>
#include <cstdio>
#include <exception>
#include <nullscope/nullscope.hpp>
#include <numeric>
#include <string>

namespace ns = nullscope;

int main(int argc, char** argv) try {
  const std::string text = argc > 1 ? argv[1]
                                    : "Research into the children of soldiers has shown that they behave better than "
                                      "others of their age, as they know that somebody could tell their parents.";
  const auto folder = ns::resolve_model(argc > 2 ? argv[2] : ns::default_model);
  ns::context ctx(ns::select_device(""));
  const ns::transformer<float> model = ns::load_transformer<float>(ctx, folder);
  const ns::text_encoder encoder(folder);
  const ns::encoded_text tokens = encoder.encode(text, {.max_length = model.config().positions});
  ns::token_batch::sequence sequence{tokens.ids, {}};
  if (model.config().segments > 0) sequence.segments = tokens.segments;
  const ns::attention_parts<float> parts = ns::read_attention_parts(ctx, model, sequence);

  const auto null_share = [&](std::size_t head) {
    const float share = parts.summary[head].null_norm / parts.summary[head].raw_norm;
    return share * share;
  };
  std::vector<std::size_t> order(parts.rank.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, std::greater<>{}, null_share);

  const auto s = static_cast<std::size_t>(parts.tokens), heads = static_cast<std::size_t>(parts.heads);
  std::printf("%zu tokens\nlayer  head  rank  null share  correlation  most attention on\n", s);
  for (std::size_t n = 0; n < std::min<std::size_t>(8, order.size()); ++n) {
    const std::size_t head = order[n];
    std::vector<float> received(s);  // column sums of the raw weights (S, S)
    for (std::size_t i = 0; i < s * s; ++i) received[i % s] += parts.raw[head * s * s + i];
    const std::size_t most = static_cast<std::size_t>(std::ranges::max_element(received) - received.begin());
    std::printf("%5zu %5zu %5lld %9.1f %% %12.3f  %s (%.0f %%)\n", head / heads + 1, head % heads + 1,
                static_cast<long long>(parts.rank[head]), 100 * null_share(head), parts.summary[head].pearson,
                std::string(encoder.token(tokens.ids[most])).c_str(), 100 * received[most] / static_cast<float>(s));
  }
} catch (const std::exception& failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return 1;
}
