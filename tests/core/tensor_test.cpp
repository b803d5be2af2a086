#include <nullscope/core/tensor.hpp>

#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

class tensor_test : public device_test {};
INSTANTIATE_TEST_SUITE_P(devices, tensor_test, testing::ValuesIn(devices()), device_name);

TEST_P(tensor_test, copies_to_the_device_and_back) {
  const auto numbers = random_numbers<float>(2 * 3 * 5, 1);
  for (const auto kind : {sycl::usm::alloc::device, sycl::usm::alloc::shared, sycl::usm::alloc::host}) {
    const tensor<float> x(queue_, {2, 3, 5}, numbers, kind);
    EXPECT_EQ(x.to_host(), numbers);
    // A device that is the host may know one kind only.
    void* plain = sycl::malloc(64, queue_, kind);
    EXPECT_EQ(sycl::get_pointer_type(x.data(), queue_.get_context()),
              sycl::get_pointer_type(plain, queue_.get_context()));
    sycl::free(plain, queue_);
#ifndef __ADAPTIVECPP__  // whose CPU aligns shared memory by luck
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data()) % 64, 0u);
#endif
  }
}

TEST_P(tensor_test, views_have_its_shape_and_dense_strides) {
  tensor<double> x(queue_, {2, 3, 5});
  const view<double, 3> all = x.as<3>();
  EXPECT_EQ(all.data, x.data());
  EXPECT_EQ(all.extent[1], 3);
  EXPECT_EQ(all.stride[0], 15);
  EXPECT_EQ(message_of<invalid_argument>([&] { x.as<2>(); }),
            "tensor: shape [2, 3, 5] has 3 dimensions, a view of 2 was asked for");
}

TEST_P(tensor_test, is_a_view_of_as_many_dimensions_or_more_where_one_is_expected) {
  tensor<float> x(ctx_, {3, 5});
  const auto strides = [](const view<const float, 3>& v) { return std::vector<std::int64_t>(v.stride, v.stride + 3); };
  const view<float, 2> matrix = x;
  EXPECT_EQ(matrix.data, x.data());
  EXPECT_EQ(matrix.extent[0], 3);
  EXPECT_EQ(matrix.stride[0], 5);
  const view<const float, 3> batch = std::as_const(x);
  EXPECT_EQ(batch.extent[0], 1);
  EXPECT_EQ(batch.extent[1], 3);
  EXPECT_EQ(batch.extent[2], 5);
  EXPECT_EQ(strides(x), strides(batch)) << "to read from what could be written";
  EXPECT_EQ(strides(batch), (std::vector<std::int64_t>{15, 5, 1}));
  EXPECT_EQ(message_of<invalid_argument>([&] { static_cast<void>(static_cast<view<float, 1>>(x)); }),
            "tensor: shape [3, 5] has 2 dimensions, a view of 1 was asked for");
  static_assert(!std::is_convertible_v<const tensor<float>&, view<float, 2>>, "what is const is not written");
}

TEST_P(tensor_test, without_memory_and_shape_is_an_absent_view) {
  tensor<float> nothing;
  const view<float, 3> absent = nothing;
  EXPECT_TRUE(absent.is_absent());
  const view<const float, 1> absent_operand = std::as_const(nothing);
  EXPECT_TRUE(absent_operand.is_absent());
  tensor<float> empty(ctx_, {4, 0});
  const view<float, 3> no_columns = empty;
  EXPECT_FALSE(no_columns.is_absent()) << "a result of 4 rows without columns was not left out";
  EXPECT_EQ(no_columns.extent[1], 4);
  EXPECT_EQ(empty.span().size(), 0u);
}

TEST_P(tensor_test, moves_and_may_be_empty) {
  tensor<float> nothing;
  EXPECT_EQ(nothing.size(), 0);
  EXPECT_TRUE(nothing.to_host().empty());
  tensor<float> x(queue_, {4}, std::vector<float>{1, 2, 3, 4});
  const float* data = x.data();
  nothing = std::move(x);
  EXPECT_EQ(nothing.data(), data);
  EXPECT_EQ(nothing.to_host(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(x.size(), 0);
  EXPECT_TRUE(x.to_host().empty());
  EXPECT_EQ(tensor<float>(queue_, {3, 0}).data(), nullptr);
}

TEST_P(tensor_test, refuses_shapes_that_cannot_be) {
  EXPECT_EQ(message_of<invalid_argument>([&] {
              tensor<float>(queue_, {2, -1});
            }),
            "tensor: shape [2, -1] has a negative extent");
  EXPECT_EQ(message_of<invalid_argument>([&] {
              tensor<float>(queue_, {1LL << 40, 1LL << 40});
            }),
            "tensor: shape [1099511627776, 1099511627776] is too large for 64-bit sizes");
  EXPECT_EQ(message_of<invalid_argument>([&] {
              tensor<float>(queue_, {3}, std::vector<float>{1, 2});
            }),
            "tensor: shape [3] does not hold 2 elements of host memory");
}

TEST_P(tensor_test, names_the_device_and_the_bytes_when_memory_runs_out) {
  const std::string message = message_of<device_bad_alloc>([&] { tensor<float>(queue_, {1LL << 44}); });
  EXPECT_NE(message.find("70368744177664 bytes"), std::string::npos) << message;
  EXPECT_NE(message.find(properties(GetParam()).name), std::string::npos) << message;
}

}  // namespace
}  // namespace nullscope::test
