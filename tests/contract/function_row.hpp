/// The table of the contract test: one row per public function. A row names the function, its operands and results with
/// shapes that agree, and calls the function on whatever the test makes of them:
///
///   {"gemm", {in("a", {3, 4, 5}).also(0, {1}), in("b", {3, 5, 6}).also(0, {1}), out("c", {3, 4, 6})},
///    [](context& ctx, const arguments& x) { gemm(ctx, gemm_operands<T>{x["a"], x["b"]}, x["c"]); }},
///
/// To add a function, add a row to the table of its subject. Names are those of the error messages. Extents of one
/// shape that need not agree should differ, by more than 1, so that no wrong shape is right by accident.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <nullscope/core/context.hpp>
#include <nullscope/core/tensor.hpp>
#include <nullscope/core/view.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

namespace nullscope::test {

using shape_of_operand = std::vector<std::int64_t>;

/// An operand or a result, and which other extents of it are legitimate while everything else stays as it is.
struct operand {
  std::string name;
  bool is_result;
  shape_of_operand shape;
  std::map<int, std::set<std::int64_t>> others = {};  ///< dimension -> extents that are right too
  std::set<int> free_dimensions = {};                 ///< any extent is right
  std::set<int> leading_dimensions = {};  ///< other results follow this extent, and are named if they do not
  bool any_strides = false;               ///< negative strides are right too, and a result's may be 0

  /// These extents of `dimension` are right too: 1 if the operand may be one matrix for the whole batch.
  operand also(int dimension, std::set<std::int64_t> extents) && {
    others[dimension] = std::move(extents);
    return std::move(*this);
  }

  /// Strides may be negative, and entries of a result may share an address.
  operand with_any_strides() && {
    any_strides = true;
    return std::move(*this);
  }

  /// No other operand has this dimension, and the function takes any extent.
  operand any(int dimension) && {
    free_dimensions.insert(dimension);
    return std::move(*this);
  }

  /// A result that decides an extent: an error may name the results that should have the same.
  operand leads(int dimension) && {
    leading_dimensions.insert(dimension);
    return std::move(*this);
  }

  bool allows(int dimension, std::int64_t extent) const {
    if (extent == shape[static_cast<std::size_t>(dimension)] || free_dimensions.contains(dimension)) return true;
    const auto found = others.find(dimension);
    return found != others.end() && found->second.contains(extent);
  }
};

inline operand in(std::string name, shape_of_operand shape) { return {std::move(name), false, std::move(shape)}; }
inline operand out(std::string name, shape_of_operand shape) { return {std::move(name), true, std::move(shape)}; }

/// What a call gets for one operand: memory, extents and strides, possibly wrong. Becomes the view that is asked for.
struct argument {
  std::byte* data = nullptr;
  shape_of_operand extent, stride;
  mutable const std::type_info* element = nullptr;  ///< of the last view that was made of it

  template <class T, int Rank>
  view<T, Rank> as() const {
    if (extent.size() != Rank) throw std::logic_error("the row gives the operand another number of dimensions");
    element = &typeid(T);
    view<T, Rank> result;
    result.data = reinterpret_cast<T*>(data);
    std::copy(extent.begin(), extent.end(), result.extent);
    std::copy(stride.begin(), stride.end(), result.stride);
    return result;
  }

  template <class T, int Rank>
  operator view<T, Rank>() const {
    return as<T, Rank>();
  }

  /// For functions on tensors: one of this shape, with no defined content.
  template <class T>
  tensor<T> make_tensor(context& ctx) const {
    return tensor<T>(ctx, extent);
  }
};

class arguments {
 public:
  const argument& operator[](const std::string& name) const { return by_name_.at(name); }
  argument& operator[](const std::string& name) { return by_name_[name]; }

 private:
  std::map<std::string, argument> by_name_;
};

/// Functions on views return an event; functions on tensors wait, and cannot be part of a dry run.
enum class function_kind { on_views, on_tensors };

struct function_row {
  std::string name;
  std::vector<operand> operands;
  std::function<void(context&, const arguments&)> call;
  function_kind kind = function_kind::on_views;
};

using function_table = std::vector<function_row>;

function_table linalg_functions(bool fp64);  ///< and random numbers
function_table decomposition_functions(bool fp64);
function_table null_space_functions(bool fp64);  ///< and alternatives in the simplex
function_table attention_functions(bool fp64);
function_table model_functions(bool fp64);
function_table attribution_functions(bool fp64);
function_table structure_functions(bool fp64);
function_table probes_functions(bool fp64);

inline function_table joined(function_table a, const function_table& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace nullscope::test
