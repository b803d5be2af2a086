/// What the run-time compiler sees as <sycl/sycl.hpp>: the part of it that device code uses. The whole of it, with
/// queues, buffers and images, takes twice as long to compile and three times as long to look up in the kernel cache. A
/// kernel that needs more includes that header by its own name.
#pragma once

#include <sycl/accessor.hpp>
#include <sycl/atomic_ref.hpp>
#include <sycl/bit_cast.hpp>
#include <sycl/builtins.hpp>
#include <sycl/ext/oneapi/experimental/work_group_memory.hpp>
#include <sycl/ext/oneapi/free_function_queries.hpp>
#include <sycl/ext/oneapi/kernel_properties/properties.hpp>
#include <sycl/group_algorithm.hpp>
#include <sycl/group_barrier.hpp>
#include <sycl/half_type.hpp>
#include <sycl/marray.hpp>
#include <sycl/nd_item.hpp>
#include <sycl/sub_group.hpp>
#include <sycl/vector.hpp>
