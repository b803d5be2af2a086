/// How many work-items of a GPU compute in step, where a kernel had better choose.
#pragma once

namespace nullscope::kernels {

/// For kernels that hold a tile or several columns in registers: the smallest sub-group that a device has, from 8 on,
/// so that a work-item has the most registers. On Intel GPUs a thread's registers hold such a tile for 8 (Arc) or 16
/// (Data Center GPU Max) work-items, but not for 32.
inline constexpr int narrow_sub_group = -1;

}  // namespace nullscope::kernels
