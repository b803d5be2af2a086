#include <nullscope/probes/token_identifiability.hpp>

#include "tests/contract/function_row.hpp"

namespace nullscope::test {
namespace {

constexpr std::int64_t layers = 3, tokens = 12, d = 7;

template <class T>
function_table probes_rows(const std::string& type) {
  return {{"token_identifiability_" + type,
           {in("inputs", {tokens, d}), in("hidden", {layers, tokens, d}).also(0, {1, layers - 1, layers + 1})},
           [](context& ctx, const arguments& x) {
             const std::vector<std::int64_t> sentences{4, 1, 5, 2};
             token_identifiability(ctx, x["inputs"].make_tensor<T>(ctx), x["hidden"].make_tensor<T>(ctx), sentences,
                                   {.folds = 2});
           },
           function_kind::on_tensors}};
}

}  // namespace

function_table probes_functions(bool fp64) {
  return fp64 ? joined(probes_rows<float>("float"), probes_rows<double>("double")) : probes_rows<float>("float");
}

}  // namespace nullscope::test
