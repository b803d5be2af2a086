#include "arrays.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <nullscope/core/errors.hpp>
#include <nullscope/core/tensor.hpp>
#include <string_view>
#include <utility>

namespace nullscope::python {
namespace {

constexpr std::size_t alignment = 64;  // what JAX wants of memory that it does not copy
// Names of DLPack.
constexpr int host_device = 1, cuda_host_device = 3, rocm_host_device = 11, cuda_managed_device = 13,
              oneapi_device = 14;

std::string text_of(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

std::string name_of_type(nb::dlpack::dtype type) {
  using code = nb::dlpack::dtype_code;
  const char* name = "unknown";
  switch (static_cast<code>(type.code)) {
    case code::Int: name = "int"; break;
    case code::UInt: name = "uint"; break;
    case code::Float: name = "float"; break;
    case code::Bfloat: name = "bfloat"; break;
    case code::Complex: name = "complex"; break;
    case code::Bool: return "bool";
    default: break;
  }
  return fmt::format("{}{}", name, type.bits);
}

/// Whose array it is: known by the module of its class, or of a class above.
std::pair<array_kind, nb::object> kind_of(nb::handle object) {
  for (nb::handle base : nb::handle(object.type()).attr("__mro__")) {
    const std::string module = text_of(base.attr("__module__"));
    const std::string_view root = std::string_view(module).substr(0, module.find('.'));
    if (root == "numpy") return {array_kind::numpy, nb::none()};
    if (root == "torch") return {array_kind::torch, nb::none()};
    if (root == "jax" || root == "jaxlib") return {array_kind::jax, nb::none()};
    if (root == "dpctl") return {array_kind::usm, nb::module_::import_("dpctl.tensor")};
    if (root == "dpnp") return {array_kind::usm, nb::module_::import_("dpnp")};
  }
  return {array_kind::numpy, nb::none()};
}

/// Why an object that offers DLPack was not taken: what its own export says.
std::string reason_of(nb::handle object) {
  if (!nb::hasattr(object, "__dlpack__")) return "";
  try {
    object.attr("__dlpack__")();
  } catch (nb::python_error& failure) {
    return fmt::format(": {}", text_of(failure.value()));
  }
  return "";
}

memory host_memory(std::int64_t bytes) {
  const std::size_t rounded = (static_cast<std::size_t>(bytes) / alignment + 1) * alignment;  // never 0
  void* data = std::aligned_alloc(alignment, rounded);
  if (data == nullptr) throw std::bad_alloc();
  return {data, [](void* p) { std::free(p); }};
}

memory device_memory(context& ctx, std::int64_t bytes) {
  void* data = nullscope::detail::allocate(ctx.queue(), std::max<std::int64_t>(bytes, 1), sycl::usm::alloc::device);
  return {data, [where = ctx.queue().get_context()](void* p) { sycl::free(p, where); }};
}

/// Copies elements of any strides, the last dimension fastest.
char* pack(const char* from, const std::int64_t* extent, const std::int64_t* stride, int rank, std::size_t bytes,
           char* to) {
  if (rank == 0) {
    std::memcpy(to, from, bytes);
    return to + bytes;
  }
  if (rank == 1 && stride[0] == 1) {
    const std::size_t all = bytes * static_cast<std::size_t>(extent[0]);
    std::memcpy(to, from, all);
    return to + all;
  }
  for (std::int64_t i = 0; i < extent[0]; ++i) {
    to = pack(from + i * stride[0] * static_cast<std::int64_t>(bytes), extent + 1, stride + 1, rank - 1, bytes, to);
  }
  return to;
}

std::int64_t count_of(const shape_type& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

/// Shape and strides of a part of memory, in elements.
struct extents {
  shape_type shape, stride;

  /// Dimensions of extent 1 in front, until there are so many.
  void complete(std::size_t dimensions) {
    const std::size_t missing = dimensions - std::min(dimensions, shape.size());
    shape.insert(shape.begin(), missing, 1);
    stride.insert(stride.begin(), missing, 0);
  }

  /// The first dimensions as one, if their strides allow it.
  bool merge(std::size_t count) {
    std::int64_t extent = 1, step = 0;
    for (std::size_t d = count; d-- > 0;) {
      if (shape[d] == 1) continue;
      if (extent != 1 && stride[d] != extent * step) return false;
      if (extent == 1) step = stride[d];
      extent *= shape[d];
    }
    shape.erase(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(count));
    stride.erase(stride.begin(), stride.begin() + static_cast<std::ptrdiff_t>(count));
    shape.insert(shape.begin(), extent);
    stride.insert(stride.begin(), step);
    return true;
  }

  /// The same shape, densely packed, with the first dimensions as one.
  extents packed(std::size_t count) const {
    extents result{shape, shape_type(shape.size(), 1)};
    for (std::size_t d = shape.size(); d-- > 1;) result.stride[d - 1] = result.stride[d] * shape[d];
    result.merge(count);
    return result;
  }

  std::int64_t span() const {  // from the first to the last element
    std::int64_t last = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) last += (shape[d] - 1) * stride[d];
    return last + 1;
  }
};

}  // namespace

array::array(const char* function, const char* name, nb::handle object) : function_(function), name_(name) {
  if (!nb::try_cast(object, held_, false)) {
    throw nb::type_error(fmt::format("{}: {} is of type {}, not an array of NumPy, PyTorch, JAX or another library "
                                     "with DLPack{}",
                                     function, name, text_of(nb::handle(object.type()).attr("__name__")),
                                     reason_of(object))
                             .c_str());
  }
  std::tie(kind_, module_) = kind_of(object);
  if (kind_ == array_kind::torch && nb::cast<bool>(object.attr("requires_grad"))) {
    throw nb::type_error(
        fmt::format("{}: {} requires a gradient, which is not computed; pass {}.detach()", function, name, name)
            .c_str());
  }
  type_ = held_.dtype();
  data_ = static_cast<const char*>(held_.data_handle()) + held_.byte_offset();
  for (std::size_t d = 0; d < held_.ndim(); ++d) {
    shape_.push_back(static_cast<std::int64_t>(held_.shape(d)));
    stride_.push_back(held_.stride(d));
  }
}

placement array::place() const { return {kind_, held_.device_id(), module_}; }

bool array::is_bfloat16() const {
  return type_.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat) && type_.bits == 16;
}

std::string array::describe() const { return fmt::format("{} ({})", name_, fmt::join(shape_, ", ")); }

void array::require_real() const {
  if (is_float32() || is_float64()) return;
  throw nb::type_error(
      fmt::format("{}: {} has elements of type {}; expected float32 or float64", function_, name_, name_of_type(type_))
          .c_str());
}

void array::require_type_of(const array& other) const {
  if (type_ == other.type_) return;
  throw nb::type_error(fmt::format("{}: {} has elements of type {}, but {} of type {}", function_, name_,
                                   name_of_type(type_), other.name_, name_of_type(other.type_))
                           .c_str());
}

void array::require_dimensions(int least, int most) const {
  if (dimensions() >= least && dimensions() <= most) return;
  const std::string range = least == most     ? fmt::format("{}", least)
                            : most >= 1 << 20 ? fmt::format("{} or more", least)
                                              : fmt::format("{} to {}", least, most);
  throw invalid_argument(fmt::format("{}: {} should have {} dimensions", function_, describe(), range));
}

bool array::is_readable(device_handle& where, context& ctx) const {
  const int kind = held_.device_type();
  if (kind == host_device || kind == cuda_host_device || kind == rocm_host_device || kind == cuda_managed_device) {
    return where.reads_host_memory();
  }
  if (sycl::get_pointer_type(data_, ctx.queue().get_context()) != sycl::usm::alloc::unknown) return true;
  throw invalid_argument(
      fmt::format("{}: {} is in memory that {} cannot read (DLPack device {}:{}); copy it to the host, or choose its "
                  "device by device=...",
                  function_, describe(), where.properties().name, kind, held_.device_id()));
}

const void* array::find(device_handle& where, context& ctx, int rank, std::size_t bytes, const shape_type* leading,
                        std::int64_t* extent, std::int64_t* stride) {
  const auto inner = static_cast<std::size_t>(rank - 1);
  extents all{shape_, stride_};
  all.complete(inner + (leading == nullptr ? 0 : leading->size()));
  const std::size_t outer = all.shape.size() - inner;
  if (leading != nullptr) {
    for (std::size_t d = 0; d < outer; ++d) {
      if (outer == leading->size() && all.shape[d] == (*leading)[d]) continue;
      if (outer != leading->size() || all.shape[d] != 1) {
        throw invalid_argument(fmt::format("{}: the dimensions of {} before the last {} should be ({}), or 1",
                                           function_, describe(), inner, fmt::join(*leading, ", ")));
      }
      all.shape[d] = (*leading)[d];
      all.stride[d] = 0;
    }
  }

  const auto keep = [&](memory copy) { return copies_.emplace_back(std::move(copy)).get(); };
  const void* data = data_;
  extents seen = all;
  if (count_of(all.shape) == 0) {
    data = keep(host_memory(0));
    seen = all.packed(outer);
  } else {
    const bool is_read = is_readable(where, ctx);
    const bool fits = seen.merge(outer) && reinterpret_cast<std::uintptr_t>(data_) % bytes == 0 &&
                      std::ranges::all_of(seen.stride, [](std::int64_t step) { return step >= 0; });
    if (!fits && is_read && !where.reads_host_memory()) {
      throw invalid_argument(
          fmt::format("{}: {} has strides that the device cannot use; pass a contiguous copy", function_, describe()));
    }
    if (!fits) {
      memory copy = host_memory(count_of(all.shape) * static_cast<std::int64_t>(bytes));
      pack(static_cast<const char*>(data_), all.shape.data(), all.stride.data(), static_cast<int>(all.shape.size()),
           bytes, static_cast<char*>(copy.get()));
      data = keep(std::move(copy));
      seen = all.packed(outer);
    }
    if (!is_read) {
      memory copy = device_memory(ctx, seen.span() * static_cast<std::int64_t>(bytes));
      ctx.queue().memcpy(copy.get(), data, static_cast<std::size_t>(seen.span()) * bytes).wait();
      data = keep(std::move(copy));
    }
  }
  std::ranges::copy(seen.shape, extent);
  std::ranges::copy(seen.stride, stride);
  return data;
}

memory allocate(device_handle& where, context& ctx, const placement& place, std::int64_t bytes) {
  if (place.kind != array_kind::usm && where.reads_host_memory()) return host_memory(bytes);
  return device_memory(ctx, bytes);
}

memory copy_to_host(context& ctx, memory from, std::int64_t bytes) {
  memory host = host_memory(bytes);
  ctx.queue().memcpy(host.get(), from.get(), static_cast<std::size_t>(bytes)).wait();
  return host;
}

nb::object to_python(memory data, const shape_type& shape, nb::dlpack::dtype type, const placement& place) {
  const std::vector<std::size_t> extents(shape.begin(), shape.end());
  void* memory_of = data.get();
  const nb::capsule owner(new memory(std::move(data)), [](void* p) noexcept { delete static_cast<memory*>(p); });
  const auto make = [&]<class Framework>(Framework, int device_type, int device_id) {
    const nb::ndarray<Framework> made(memory_of, extents.size(), extents.data(), owner, nullptr, type, device_type,
                                      device_id);
    return nb::cast(made);
  };
  switch (place.kind) {
    case array_kind::numpy: return make(nb::numpy{}, host_device, 0);
    case array_kind::torch: return make(nb::pytorch{}, host_device, 0);
    case array_kind::jax: return make(nb::jax{}, host_device, 0);
    case array_kind::usm: break;
  }
  return place.module.attr("from_dlpack")(make(nb::array_api{}, oneapi_device, place.device_id));
}

}  // namespace nullscope::python
