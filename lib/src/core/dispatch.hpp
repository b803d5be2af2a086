/// From the layout of a context to template arguments of kernels: the one place that lists the layouts. What is not
/// called here is not compiled: a build has the layouts of CPUs, those of GPUs, or both (NULLSCOPE_LAYOUTS of CMake).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nullscope/core/context.hpp>
#include <string>

namespace nullscope::detail {

#ifdef NULLSCOPE_WITHOUT_CPU_LAYOUTS
constexpr bool has_cpu_layouts = false;
#else
constexpr bool has_cpu_layouts = true;
#endif
#ifdef NULLSCOPE_WITHOUT_GPU_LAYOUTS
constexpr bool has_gpu_layouts = false;
#else
constexpr bool has_gpu_layouts = true;
#endif
static_assert(has_cpu_layouts || has_gpu_layouts, "NULLSCOPE_LAYOUTS names no layout");

/// Whether this build has kernels with vectors of so many bytes; 0: whose work-items have one lane each.
constexpr bool has_vectors_of(std::int64_t bytes) {
  return bytes == 0 ? has_gpu_layouts : has_cpu_layouts && (bytes == 32 || bytes == 64);
}

/// Whether this build has kernels for the layout.
bool is_compiled(const lane_layout& layout);

/// Returns the layout. Throws unsupported_device, with the layouts that this build has, if it is none of them.
const lane_layout& checked_layout(const lane_layout& layout);

/// Throws unsupported_device for vectors of so many bytes.
[[noreturn]] void refuse_vectors(std::int64_t bytes);

/// Calls call.operator()<Bytes>() with the bytes of a vector: 64, 32, or 0 where a lane is a work-item.
template <class Call>
auto dispatch_vectors(std::int64_t bytes, Call call) {
  if constexpr (has_cpu_layouts) {
    if (bytes == 64) return call.template operator()<64>();
    if (bytes == 32) return call.template operator()<32>();
  }
  if constexpr (has_gpu_layouts) {
    if (bytes == 0) return call.template operator()<0>();
  }
  refuse_vectors(bytes);
}

/// How many lanes a work-item has in kernels whose steps wait for one another: those of a long vector, or one.
template <class T>
std::int64_t lanes_of(const lane_layout& layout) {
  return layout.has_vectors() ? layout.long_vector_bytes / static_cast<std::int64_t>(sizeof(T)) : 1;
}

/// Calls call.operator()<W>() with that number of lanes.
template <class T, class Call>
auto dispatch_lanes(const lane_layout& layout, Call call) {
  return dispatch_vectors(layout.long_vector_bytes, [&]<int Bytes>() {
    return call.template operator()<(Bytes > 0 ? Bytes / static_cast<int>(sizeof(T)) : 1)>();
  });
}

/// The work-items and lanes that share a row.
struct row_shape {
  int vector_bytes;  ///< of a lane vector: 64, 32; 0: each work-item has one lane
  int group_items;   ///< 1, 32 or 256
  bool streams;      ///< results are written past the caches, which they would not fit

  bool operator==(const row_shape&) const = default;
};

/// Calls call.operator()<W, Items, Streams>() with the lanes and work-items of the shape, for numbers of type T.
template <class T, class Call>
auto dispatch_streaming_rows(const row_shape& shape, Call call) {
  // CPUs too: their rows have one lane if elements are not neighbours in memory.
  if (shape.vector_bytes == 0 && shape.group_items == 1) return call.template operator()<1, 1, false>();
  return dispatch_vectors(shape.vector_bytes, [&]<int Bytes>() {
    if constexpr (Bytes > 0) {
      constexpr int lanes = Bytes / static_cast<int>(sizeof(T));
      return shape.streams ? call.template operator()<lanes, 1, true>() : call.template operator()<lanes, 1, false>();
    } else {
      return shape.group_items == 32 ? call.template operator()<1, 32, false>()
                                     : call.template operator()<1, 256, false>();
    }
  });
}

/// The same for kernels that never stream: calls call.operator()<W, Items>().
template <class T, class Call>
auto dispatch_rows(row_shape shape, Call call) {
  shape.streams = false;
  return dispatch_streaming_rows<T>(shape,
                                    [&]<int W, int Items, bool>() { return call.template operator()<W, Items>(); });
}

/// A tile shape of a kernel, for vectors of VectorBytes; 0: for work-items with one lane each.
template <int VectorBytes, class Shape>
struct shape_for {
  static constexpr int vector_bytes = VectorBytes;
  using shape = Shape;
};

/// The shapes of a kernel, largest first.
template <class... Shapes>
struct shape_list {};

namespace impl {

template <class First, class... Rest, class Fits, class Call>
auto dispatch_first(shape_list<First, Rest...>, std::int64_t vector_bytes, Fits fits, Call call) {
  constexpr bool is_last = !(has_vectors_of(Rest::vector_bytes) || ...);
  if constexpr (has_vectors_of(First::vector_bytes)) {
    if (First::vector_bytes <= vector_bytes && (is_last || fits.template operator()<typename First::shape>())) {
      return call.template operator()<typename First::shape>();
    }
  }
  if constexpr (is_last) {
    refuse_vectors(vector_bytes);
  } else {
    return dispatch_first(shape_list<Rest...>{}, vector_bytes, fits, call);
  }
}

}  // namespace impl

/// Calls call.operator()<Shape>() with the first shape of the list whose vectors are not wider than those of the layout
/// and for which fits.operator()<Shape>() is true, say because local memory holds it. The last shape is taken unasked.
template <class Shapes, class Fits, class Call>
auto dispatch_shape(const lane_layout& layout, Fits fits, Call call) {
  return impl::dispatch_first(Shapes{}, checked_layout(layout).vector_bytes, fits, call);
}

/// The same for shapes that always fit.
template <class Shapes, class Call>
auto dispatch_shape(const lane_layout& layout, Call call) {
  return dispatch_shape<Shapes>(
      layout, []<class>() { return true; }, call);
}

}  // namespace nullscope::detail
