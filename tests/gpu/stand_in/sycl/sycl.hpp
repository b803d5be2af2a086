/// A stand-in for SYCL: the portable subset that kernels may use (kernels/README.md), for code whose
/// work-items the checker runs on the host. What is not here, kernels must not use, or the stand-in must learn.
#pragma once

#include "tests/gpu/stand_in/sycl/atomic.hpp"
#include "tests/gpu/stand_in/sycl/groups.hpp"
#include "tests/gpu/stand_in/sycl/math.hpp"
