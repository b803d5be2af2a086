/// An array that owns its memory on a device, for people who want an answer; the functions themselves take views.
///
///   const tensor<float> a(ctx, {batch, m, n}, numbers);   // a copy of host memory
///   tensor<float> q(ctx, {batch, m, n}), r(ctx, {batch, n, n});
///   qr(ctx, a, {.q = q, .r = r}).wait();
///
/// A tensor converts to a view of as many dimensions, or of more: a matrix is a batch of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nullscope/core/context.hpp>
#include <nullscope/core/view.hpp>
#include <optional>
#include <span>
#include <sycl/sycl.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace nullscope {

namespace detail {

/// Number of elements of a shape. Throws invalid_argument on a negative extent or if the bytes do not fit 63 bits.
std::int64_t element_count(std::span<const std::int64_t> shape, std::size_t element_bytes);

/// USM memory aligned to 64 bytes. Throws device_bad_alloc, naming the device and the bytes.
void* allocate(const sycl::queue& queue, std::int64_t bytes, sycl::usm::alloc kind);

void copy(sycl::queue& queue, const void* from, void* to, std::int64_t bytes);
void copy_to_host(sycl::queue& queue, const void* from, void* to, std::int64_t bytes);

[[noreturn]] void wrong_rank(std::span<const std::int64_t> shape, int rank);
[[noreturn]] void wrong_host_size(std::span<const std::int64_t> shape, std::size_t host_size);

}  // namespace detail

/// A densely packed array, the last dimension fastest. Move-only; released when it goes out of scope, so keep it until
/// the events that use it are complete.
template <class T>
class tensor {
 public:
  using shape_type = std::vector<std::int64_t>;

  tensor() = default;

  /// Memory with no defined content.
  tensor(const sycl::queue& queue, shape_type shape, sycl::usm::alloc kind = sycl::usm::alloc::device)
      : queue_(queue), shape_(std::move(shape)), size_(detail::element_count(shape_, sizeof(T))) {
    const std::int64_t bytes = size_ * static_cast<std::int64_t>(sizeof(T));
    if (bytes > 0) data_ = {static_cast<T*>(detail::allocate(queue, bytes, kind)), release{queue.get_context()}};
  }

  tensor(const context& ctx, shape_type shape, sycl::usm::alloc kind = sycl::usm::alloc::device)
      : tensor(ctx.queue(), std::move(shape), kind) {}

  /// A copy of host memory. Throws invalid_argument if the sizes differ.
  tensor(const sycl::queue& queue, shape_type shape, std::span<const T> host,
         sycl::usm::alloc kind = sycl::usm::alloc::device)
      : tensor(queue, std::move(shape), kind) {
    copy_from(host);
  }

  tensor(const context& ctx, shape_type shape, std::span<const T> host,
         sycl::usm::alloc kind = sycl::usm::alloc::device)
      : tensor(ctx.queue(), std::move(shape), host, kind) {}

  /// What has been moved from is empty.
  tensor(tensor&& other) noexcept { *this = std::move(other); }
  tensor& operator=(tensor&& other) noexcept {
    queue_ = std::move(other.queue_);
    shape_ = std::exchange(other.shape_, {});
    size_ = std::exchange(other.size_, 0);
    data_ = std::move(other.data_);
    return *this;
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  std::int64_t size() const { return size_; }
  const shape_type& shape() const { return shape_; }

  /// All elements, one after the other: what `context::use_workspace` takes, for instance.
  std::span<T> span() { return {data(), static_cast<std::size_t>(size_)}; }
  std::span<const T> span() const { return {data(), static_cast<std::size_t>(size_)}; }

  /// Blocks until the copy is complete.
  void copy_from(std::span<const T> host) {
    if (std::cmp_not_equal(host.size(), size_)) detail::wrong_host_size(shape_, host.size());
    if (size_ > 0) detail::copy(*queue_, host.data(), data(), size_ * static_cast<std::int64_t>(sizeof(T)));
  }

  /// Blocks until the copy is complete. Does not wait for calls that write the tensor, unless the queue is in order:
  /// wait for their event first. Throws invalid_argument while this thread has an operation open that may write here,
  /// because nothing of it has run.
  std::vector<T> to_host() const {
    std::vector<T> host(static_cast<std::size_t>(size_));
    if (size_ > 0) {
      sycl::queue queue = *queue_;
      detail::copy_to_host(queue, data(), host.data(), size_ * static_cast<std::int64_t>(sizeof(T)));
    }
    return host;
  }

  /// The whole tensor as a view of `Rank` dimensions. Throws invalid_argument if it has another number of them.
  template <int Rank>
  view<T, Rank> as() {
    return make_view<T, Rank>(data(), shape_.size() == Rank);
  }
  template <int Rank>
  view<const T, Rank> as() const {
    return make_view<const T, Rank>(data(), shape_.size() == Rank);
  }

  /// A tensor where a function takes a view: dimensions of extent 1 are added in front if it has fewer. A tensor
  /// without memory and shape, tensor<T>{}, is an absent view. Throws invalid_argument if it has more.
  template <class Element, int Rank>
  requires(std::is_same_v<Element, T> || std::is_same_v<Element, const T>) operator view<Element, Rank>() {
    return make_view<Element, Rank>(data(), shape_.size() <= Rank);
  }
  template <class Element, int Rank>
  requires std::is_same_v<Element, const T>
  operator view<Element, Rank>() const { return make_view<Element, Rank>(data(), shape_.size() <= Rank); }

 private:
  struct release {
    std::optional<sycl::context> context;  // set whenever there is memory
    void operator()(T* memory) const { sycl::free(memory, *context); }
  };

  template <class Element, int Rank>
  view<Element, Rank> make_view(Element* data, bool has_right_rank) const {
    view<Element, Rank> result{data, {}, {}};
    if (data == nullptr && shape_ == shape_type{0}) return result;
    if (!has_right_rank) detail::wrong_rank(shape_, Rank);
    const int missing = Rank - static_cast<int>(shape_.size());
    std::int64_t stride = 1;
    for (int d = Rank - 1; d >= 0; --d) {
      result.extent[d] = d < missing ? 1 : shape_[static_cast<std::size_t>(d - missing)];
      result.stride[d] = stride;
      stride *= result.extent[d];
    }
    return result;
  }

  std::optional<sycl::queue> queue_;  // set unless default-constructed
  shape_type shape_ = {0};
  std::int64_t size_ = 0;
  std::unique_ptr<T, release> data_;
};

}  // namespace nullscope
