#include <cstdlib>
#include <cstring>
#include <nullscope/core/context.hpp>
#include <optional>

#include "lib/src/core/compute_units.hpp"
#include "tests/cli/command.hpp"
#include "tests/core/layouts.hpp"
#include "tests/core/support.hpp"

namespace nullscope::test {
namespace {

constexpr const char* set_by_prepare_process[] = {"OCL_ICD_FILENAMES", "ACPP_DEBUG_LEVEL"};

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

/// The variable as the process was started with it.
std::optional<std::string> variable_at_start(const std::string& name) {
  const std::string environment = content_of("/proc/self/environ");  // "a=1\0b=2\0"
  for (std::size_t i = 0; i < environment.size(); i += std::strlen(&environment[i]) + 1) {
    const std::string entry = &environment[i];
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

/// Looks before the first test: no test of this file may ask for devices while it is registered.
class before_all_tests : public testing::Environment {
  void SetUp() override {
    for (const char* name : set_by_prepare_process) {
      EXPECT_EQ(variable(name), variable_at_start(name)) << name << " was set when the library was loaded";
    }
  }
};
const testing::Environment* const looks_first = testing::AddGlobalTestEnvironment(new before_all_tests);

#ifndef NULLSCOPE_SINGLE_SOURCE
TEST(prepare_process, is_run_by_devices_and_keeps_what_is_set) {
  ASSERT_FALSE(devices().empty());
  const std::optional<std::string> driver = variable_at_start("OCL_ICD_FILENAMES");
  EXPECT_TRUE(!driver || variable("OCL_ICD_FILENAMES") == driver);
}
#endif

TEST(lane_layout, is_chosen_by_the_kind_of_the_device) {
  device_properties device{};
  device.local_memory_bytes = 1 << 16;
  device.max_work_group_size = 1024;
  device.kind = device_kind::cpu;
  device.vector_bytes = 64;
  EXPECT_EQ(lane_layout::of(device).vector_bytes, 64);
  EXPECT_EQ(lane_layout::of(device).group_items, 1);
  for (const std::int64_t bytes : {16, 32}) {
    device.vector_bytes = bytes;
    EXPECT_EQ(lane_layout::of(device).vector_bytes, 32);
  }
  device.vector_bytes = 0;
  for (const device_kind kind : {device_kind::gpu, device_kind::accelerator}) {
    device.kind = kind;
    EXPECT_FALSE(lane_layout::of(device).has_vectors());
    EXPECT_EQ(lane_layout::of(device).group_items, 256);
    EXPECT_EQ(lane_layout::of(device).local_bytes, device.usable_local_bytes());
  }
  device.max_work_group_size = 64;
  EXPECT_EQ(lane_layout::of(device).group_items, 64) << "no larger than the device's work-groups";
}

TEST(lane_layout, of_the_tests_have_names_of_their_own) {
  const std::vector<lane_layout> layouts = row_layouts(devices().front());
  for (const lane_layout& a : layouts) {
    for (const lane_layout& b : layouts) EXPECT_EQ(name_of(a) == name_of(b), &a == &b) << name_of(a);
  }
}

TEST(devices, there_is_one) { EXPECT_FALSE(devices().empty()); }

TEST(select_device, takes_nothing_an_index_a_kind_or_a_part_of_the_name) {
  const std::vector<sycl::device> all = devices();
  EXPECT_NO_THROW(select_device());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(select_device(std::to_string(i)), all[i]);
  const device_properties& first = properties(all.front());
  const std::string kind(to_string(first.kind));
  EXPECT_EQ(select_device(kind), all.front());
  EXPECT_EQ(select_device(kind + ":0"), all.front());
  std::string fragment = first.name.substr(1, 6);
  std::transform(fragment.begin(), fragment.end(), fragment.begin(), [](unsigned char c) { return std::toupper(c); });
  EXPECT_EQ(properties(select_device(fragment)).name, first.name);
}

TEST(select_device, names_what_was_asked_for_and_what_there_is) {
  for (const char* text : {"no such device", "99", "cpu:99", "gpu:x", "cpu:-1", "-1"}) {
    const std::string message = message_of<unsupported_device>([&] { select_device(text); });
    EXPECT_NE(message.find(text), std::string::npos) << message;
    EXPECT_NE(message.find(properties(devices().front()).name), std::string::npos) << message;
  }
}

TEST(properties, are_plausible_and_asked_once) {
  for (const sycl::device& device : devices()) {
    const device_properties& found = properties(device);
    EXPECT_FALSE(found.name.empty());
    EXPECT_FALSE(found.sub_group_sizes.empty());
    if (found.kind == device_kind::cpu) {
      EXPECT_GE(found.vector_bytes, 16);  // every CPU of 64 bits has vectors of 128
    } else {
      EXPECT_EQ(found.vector_bytes, 0);
    }
    EXPECT_EQ(found.vector_bytes & (found.vector_bytes - 1), 0);
    EXPECT_GT(found.compute_units, 0);
    EXPECT_GT(found.usable_local_bytes(), 0);
    EXPECT_LT(found.usable_local_bytes(), found.local_memory_bytes);
    EXPECT_LE(found.local_memory_bytes, std::int64_t{1} << 30);  // loops count up to it
    EXPECT_GT(found.max_allocation_bytes, 0);
    EXPECT_GE(found.global_memory_bytes, found.max_allocation_bytes);
    EXPECT_EQ(&properties(device), &found);
    for (const matrix_tile& tile : found.bf16_tiles) {
      EXPECT_GT(std::max(tile.m, tile.max_m) * std::max(tile.n, tile.max_n) * std::max(tile.k, tile.max_k), 0);
    }
  }
}

/// A Data Center GPU Max 1550: two stacks of 64 cores with 8 vector engines; an Arc A770: 32 cores with 16.
TEST(properties, count_cores_where_the_driver_counts_vector_engines) {
  EXPECT_EQ(detail::cores_of(1024, 8), 128);
  EXPECT_EQ(detail::cores_of(512, 16), 32);
  EXPECT_EQ(detail::cores_of(4, 8), 1);
  EXPECT_EQ(detail::cores_of(108, 0), 108) << "not known: they are cores already";
}

#ifdef SYCL_EXT_ONEAPI_MATRIX

/// Whatever the vendor: the aspect of matrix engines is one of Intel's.
TEST(properties, have_the_bf16_tiles_that_the_runtime_lists) {
  namespace ext = sycl::ext::oneapi::experimental;
  using ext::matrix::matrix_type;
  for (const sycl::device& device : devices()) {
    std::vector<ext::matrix::combination> listed;
    try {
      listed = device.get_info<ext::info::device::matrix_combinations>();
    } catch (const sycl::exception&) {  // an architecture that the runtime does not know has no tiles
    }
    std::vector<std::size_t> expected, found;
    for (const ext::matrix::combination& c : listed) {
      if (c.atype != matrix_type::bf16 || c.btype != matrix_type::bf16 || c.dtype != matrix_type::fp32) continue;
      expected.insert(expected.end(), {c.msize, c.nsize, c.ksize, c.max_msize, c.max_nsize, c.max_ksize});
    }
    for (const matrix_tile& t : properties(device).bf16_tiles) {
      for (const std::int64_t size : {t.m, t.n, t.k, t.max_m, t.max_n, t.max_k}) {
        found.push_back(static_cast<std::size_t>(size));
      }
    }
    EXPECT_EQ(found, expected) << properties(device).name;
  }
}

#endif

}  // namespace
}  // namespace nullscope::test
