/// Every function on views, as the table of the contract test calls it: with the shapes of the table, and with larger
/// ones.
#include <algorithm>
#include <cmath>
#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/errors.hpp>
#include <set>
#include <typeinfo>

#include "tests/contract/function_row.hpp"
#include "tests/core/support.hpp"
#include "tests/gpu/cases/race_case.hpp"

namespace nullscope::test {
namespace {

/// Larger extents that agree wherever the extents of the table do, because the order of two extents stays what it is:
/// odd, and over a tile. Batches, heads and the like stay small.
std::int64_t grown(std::int64_t extent) { return extent < 8 ? extent : 4 * extent - 1; }

/// Models and tables of distances have extents that depend on each other in other ways.
bool has_fixed_shapes(const std::string& row) {
  const auto starts = [&](const char* name) { return row.starts_with(name); };
  return starts("forward_") || starts("backward_") || starts("relative_bias") || starts("jacobian_vector") ||
         starts("vector_jacobian") || starts("embedding");
}

/// Of these other cases have larger shapes, with fewer heads.
bool is_costly(const std::string& row) { return row.starts_with("effective_attention"); }

std::int64_t elements_of(const shape_of_operand& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

/// What a number of this operand may be: lengths and labels have few values, all of which are right in every row.
std::int64_t integer_of(const std::string& operand, std::int64_t i) {
  if (operand == "rank") return 2 + i;
  return 1 + i % 3;
}

/// Columns of length 1 that are orthogonal to each other, for (batch, rows, columns).
void orthonormalise(std::vector<double>& x, const shape_of_operand& shape) {
  const std::int64_t rows = shape[1], columns = shape[2];
  const auto at = [&](std::int64_t b, std::int64_t i, std::int64_t j) -> double& {
    return x[static_cast<std::size_t>((b * rows + i) * columns + j)];
  };
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    for (std::int64_t j = 0; j < std::min(rows, columns); ++j) {
      for (std::int64_t k = 0; k <= j; ++k) {  // the last turn gives the length
        double dot = 0;
        for (std::int64_t i = 0; i < rows; ++i) dot += at(b, i, j) * at(b, i, k);
        for (std::int64_t i = 0; i < rows; ++i)
          at(b, i, j) = k < j ? at(b, i, j) - dot * at(b, i, k) : at(b, i, j) / std::sqrt(dot);
      }
    }
  }
}

/// Numbers that the operand of this name may have.
std::vector<double> numbers_for(const function_row& row, const operand& one) {
  std::vector<double> x = random_numbers<double>(elements_of(one.shape), 7 + one.name.size() + one.shape.size());
  if ((one.name == "u" || one.name == "basis") && one.shape.size() == 3) orthonormalise(x, one.shape);
  const bool is_share = row.name.starts_with("simplex") || row.name.starts_with("check") ||
                        row.name.starts_with("logit") || row.name.starts_with("extract_structure");
  if (is_share && one.name != "basis") {
    const std::int64_t columns = one.shape.back();
    for (double& number : x) number = (1.1 + number) / (1.1 * static_cast<double>(columns));
  }
  return x;
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<double>& numbers) {
  std::vector<T> typed;
  for (const double x : numbers)
    typed.push_back(static_cast<T>(static_cast<std::conditional_t<sizeof(T) == 8, T, float>>(x)));
  const auto bytes = std::as_bytes(std::span(typed));
  return {bytes.begin(), bytes.end()};
}

template <class T>
std::vector<double> numbers_of(const std::vector<std::byte>& bytes) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T x;
    std::memcpy(&x, bytes.data() + i, sizeof(T));
    numbers.push_back(static_cast<double>(x));
  }
  return numbers;
}

std::vector<std::byte> content_of(const function_row& row, const operand& one, const std::type_info& type) {
  if (type == typeid(float)) return bytes_of<float>(numbers_for(row, one));
  if (type == typeid(double)) return bytes_of<double>(numbers_for(row, one));
  if (type == typeid(bfloat16)) return bytes_of<bfloat16>(numbers_for(row, one));
  std::vector<double> integers;
  for (std::int64_t i = 0; i < elements_of(one.shape); ++i) {
    integers.push_back(static_cast<double>(integer_of(one.name, i)));
  }
  if (type == typeid(std::int64_t)) return bytes_of<std::int64_t>(integers);
  if (type == typeid(std::int32_t)) return bytes_of<std::int32_t>(integers);
  constexpr std::size_t largest_struct = 128;
  return std::vector<std::byte>(integers.size() * largest_struct);
}

/// Empty for types that are no numbers.
std::vector<double> result_of(const std::vector<std::byte>& bytes, const std::type_info& type) {
  if (type == typeid(float)) return numbers_of<float>(bytes);
  if (type == typeid(double)) return numbers_of<double>(bytes);
  if (type == typeid(bfloat16)) return numbers_of<bfloat16>(bytes);
  if (type == typeid(std::int64_t)) return numbers_of<std::int64_t>(bytes);
  if (type == typeid(std::int32_t)) return numbers_of<std::int32_t>(bytes);
  return {};
}

/// Results that are right in more ways than one: signs of vectors, bases of a space, iterations.
bool is_unique(const std::string& result) {
  static const std::set<std::string> others{"u", "vt", "q", "r", "p", "null_basis", "sweeps", "basis"};
  return !others.contains(result);
}

arguments arguments_on(const function_row& row, std::byte* memory) {
  arguments x;
  for (const operand& one : row.operands) {
    argument& argument = x[one.name];
    argument.data = memory;
    argument.extent = argument.stride = one.shape;
    std::int64_t elements = 1;
    for (std::size_t d = one.shape.size(); d-- > 0; elements *= one.shape[d]) argument.stride[d] = elements;
  }
  return x;
}

race_results run(const function_row& row, context& ctx) {
  tensor<std::byte> any(ctx, {64});
  const arguments typed = arguments_on(row, any.data());
  dry_run(ctx, [&](context& dry) { row.call(dry, typed); });  // tells the type of each operand
  arguments x = arguments_on(row, nullptr);
  std::map<std::string, tensor<std::byte>> memory;
  for (const operand& one : row.operands) {
    const std::type_info* const type = typed[one.name].element;
    const std::vector<std::byte> content = content_of(row, one, type == nullptr ? typeid(void) : *type);
    memory[one.name] = tensor<std::byte>(ctx, {std::ssize(content)}, content);
    x[one.name].data = memory[one.name].data();
  }
  row.call(ctx, x);
  ctx.queue().wait_and_throw();
  race_results results;
  for (const operand& one : row.operands) {
    const std::type_info* const type = typed[one.name].element;
    if (!one.is_result || !is_unique(one.name) || type == nullptr) continue;
    results[one.name] = result_of(memory[one.name].to_host(), *type);
  }
  return results;
}

double bound_for(const std::string& row) {
  if (row.find("bfloat16") != std::string::npos || row.find("rounded") != std::string::npos) return 0.02;
  return row.find("float") != std::string::npos ? 1e-3 : 1e-9;
}

}  // namespace

std::vector<race_case> contract_cases() {
  std::vector<race_case> cases;
  for (const auto functions : {linalg_functions, decomposition_functions, null_space_functions, attention_functions,
                               model_functions, attribution_functions, structure_functions, probes_functions}) {
    for (const function_row& row : functions(true)) {
      if (row.kind != function_kind::on_views) continue;
      cases.push_back({row.name, [row](context& ctx) { return run(row, ctx); }, bound_for(row.name)});
      if (has_fixed_shapes(row.name) || is_costly(row.name)) continue;
      function_row larger = row;
      for (operand& one : larger.operands) std::transform(one.shape.begin(), one.shape.end(), one.shape.begin(), grown);
      cases.push_back({row.name + "_larger", [larger](context& ctx) { return run(larger, ctx); }, bound_for(row.name)});
    }
  }
  return cases;
}

}  // namespace nullscope::test
