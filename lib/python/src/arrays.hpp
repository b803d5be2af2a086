/// Arrays of Python as operands, and results as arrays of the same kind. Everything passes through DLPack, or through
/// the buffer protocol where there is none. Nothing is copied where the device can read the memory.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <nullscope/core/bfloat16.hpp>
#include <nullscope/core/view.hpp>
#include <string>
#include <vector>

#include "devices.hpp"

namespace nullscope::python {

namespace nb = nanobind;

using shape_type = std::vector<std::int64_t>;

/// Whose arrays they are. `usm` stands for dpctl, dpnp and others that hold memory of a SYCL device.
enum class array_kind { numpy, torch, jax, usm };

/// Memory of the host or of a device, released by whoever knows how.
using memory = std::unique_ptr<void, std::function<void(void*)>>;

/// Where results go and what they become.
struct placement {
  array_kind kind = array_kind::numpy;
  int device_id = 0;               ///< in the numbering of the library the arrays come from; only of USM arrays
  nb::object module = nb::none();  ///< the module whose from_dlpack makes a USM array
};

/// One operand. Its shape and strides are in elements.
class array {
 public:
  /// Throws nb::type_error, naming function and operand, if the object is not an array.
  array(const char* function, const char* name, nb::handle object);

  const shape_type& shape() const { return shape_; }
  std::int64_t dimensions() const { return static_cast<std::int64_t>(shape_.size()); }
  std::int64_t extent(int from_the_end) const { return shape_[shape_.size() - static_cast<std::size_t>(from_the_end)]; }
  shape_type leading(int inner) const { return {shape_.begin(), shape_.end() - inner}; }
  placement place() const;

  bool is_float32() const { return type_ == nb::dtype<float>(); }
  bool is_float64() const { return type_ == nb::dtype<double>(); }
  bool is_bfloat16() const;

  /// Throws nb::type_error unless the elements are float32 or float64.
  void require_real() const;
  /// Throws nb::type_error unless both have the same type of elements.
  void require_type_of(const array& other) const;
  /// Throws nullscope::invalid_argument if there are fewer dimensions, or more.
  void require_dimensions(int least, int most) const;

  /// A view of `Rank` dimensions. More dimensions are merged into the first one, fewer are completed by extents of 1.
  /// With `leading`, the dimensions before the last Rank - 1 are first repeated to these extents where they are 1 or
  /// absent. Copies what cannot be seen as such a view, or not by the device. Needs no GIL. Throws
  /// nullscope::invalid_argument for memory of another device.
  template <class T, int Rank>
  view<const T, Rank> as(device_handle& where, context& ctx, const shape_type* leading = nullptr) {
    view<const T, Rank> result;
    result.data = static_cast<const T*>(find(where, ctx, Rank, sizeof(T), leading, result.extent, result.stride));
    return result;
  }

  /// The function that is called, for messages.
  const char* function() const { return function_; }

 private:
  const void* find(device_handle& where, context& ctx, int rank, std::size_t bytes, const shape_type* leading,
                   std::int64_t* extent, std::int64_t* stride);
  bool is_readable(device_handle& where, context& ctx) const;
  std::string describe() const;

  const char *function_, *name_;
  nb::ndarray<nb::ro> held_;
  nb::dlpack::dtype type_;
  array_kind kind_;
  nb::object module_;
  const void* data_;
  shape_type shape_, stride_;
  std::deque<memory> copies_;  // what was copied for `as`
};

/// Memory for results: of the host if the kernels can write there, otherwise of the device.
memory allocate(device_handle& where, context& ctx, const placement& place, std::int64_t bytes);

/// Memory of the host with the same bytes, which a device wrote.
memory copy_to_host(context& ctx, memory from, std::int64_t bytes);

/// The memory as an array of that kind, which owns it. Needs the GIL.
nb::object to_python(memory data, const shape_type& shape, nb::dlpack::dtype type, const placement& place);

/// One result, densely packed.
template <class T>
class result {
 public:
  result() = default;

  /// Memory with no defined content. Needs no GIL, as all but release().
  result(device_handle& where, context& ctx, const placement& place, shape_type shape)
      : shape_(std::move(shape)), is_on_host_(place.kind != array_kind::usm && where.reads_host_memory()) {
    size_ = 1;
    for (const std::int64_t extent : shape_) size_ *= extent;
    data_ = allocate(where, ctx, place, size_ * static_cast<std::int64_t>(sizeof(T)));
  }

  T* data() const { return static_cast<T*>(data_.get()); }
  std::int64_t size() const { return size_; }

  /// The last Rank - 1 dimensions, and those before them as one.
  template <int Rank>
  view<T, Rank> as() const {
    view<T, Rank> whole{data(), {}, {}};
    std::int64_t stride = 1;
    for (int d = Rank - 1; d >= 0; --d) {
      const auto place = static_cast<std::ptrdiff_t>(shape_.size()) - Rank + d;
      whole.extent[d] = place < 0 ? 1 : shape_[static_cast<std::size_t>(place)];
      whole.stride[d] = stride;
      stride *= whole.extent[d];
    }
    for (std::size_t d = 0; d + Rank < shape_.size(); ++d) whole.extent[0] *= shape_[d];
    return whole;
  }

  void fill_zero(context& ctx) const {
    ctx.queue().memset(data(), 0, static_cast<std::size_t>(size_) * sizeof(T)).wait();
  }

  /// To be called when the results are complete, if they become arrays of the host.
  void bring_to_host(context& ctx, const placement& place) {
    if (is_on_host_ || place.kind == array_kind::usm) return;
    data_ = copy_to_host(ctx, std::move(data_), size_ * static_cast<std::int64_t>(sizeof(T)));
    is_on_host_ = true;
  }

  /// As an array; this is empty afterwards. Needs the GIL.
  nb::object release(const placement& place) {
    if (!data_) return nb::none();
    return to_python(std::move(data_), shape_, nb::dtype<T>(), place);
  }

 private:
  shape_type shape_;
  std::int64_t size_ = 0;
  bool is_on_host_ = true;
  memory data_;
};

/// Throws computation_error with the heads whose decomposition failed. Both are on the host.
void require_converged(const char* function, const result<std::int32_t>& status, const result<std::int64_t>& rank);

/// Numbers that the library left on the host, as a NumPy array. Needs the GIL.
template <class T>
nb::object to_numpy(const std::vector<T>& numbers, const shape_type& shape) {
  auto owned = std::make_unique<std::vector<T>>(numbers);
  void* data = owned->data();
  memory held(data, [keep = owned.release()](void*) { delete keep; });
  return to_python(std::move(held), shape, nb::dtype<T>(), {});
}

/// A NumPy array that takes the numbers over without a copy.
template <class T>
nb::object to_numpy(std::vector<T>&& numbers, const shape_type& shape) {
  auto owned = std::make_unique<std::vector<T>>(std::move(numbers));
  void* data = owned->data();
  memory held(data, [keep = owned.release()](void*) { delete keep; });
  return to_python(std::move(held), shape, nb::dtype<T>(), {});
}

/// Runs compute(ctx) on a context that no other thread uses, with the GIL released.
template <class Compute>
void without_gil(device_handle& where, Compute&& compute) {
  require_own_process();
  const nb::gil_scoped_release released;
  const borrowed_context ctx(where);
  compute(*ctx);
}

/// Calls use(float) or use(double), as the elements are.
template <class Use>
nb::object by_type(const array& x, Use&& use) {
  x.require_real();
  return x.is_float32() ? nb::object(use(float())) : nb::object(use(double()));
}

/// leading followed by inner.
inline shape_type joined(shape_type leading, std::initializer_list<std::int64_t> inner) {
  leading.insert(leading.end(), inner.begin(), inner.end());
  return leading;
}

}  // namespace nullscope::python
