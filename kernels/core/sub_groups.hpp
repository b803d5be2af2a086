/// How many work-items of a GPU compute in step, where a kernel had better choose.
#pragma once

namespace nullscope::kernels {

/// For kernels that hold a tile or several columns in registers: the registers of an Intel GPU's thread hold them for 16
/// work-items, but not for 32. What a build compiles together with the host code is for GPUs of other vendors too, which
/// have no such size: 0, the compiler's choice.
#ifdef NULLSCOPE_SINGLE_SOURCE
inline constexpr int narrow_sub_group = 0;
#else
inline constexpr int narrow_sub_group = 16;
#endif

}  // namespace nullscope::kernels
