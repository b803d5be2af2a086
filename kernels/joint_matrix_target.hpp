/// Which compilations of a kernel can lower the tiles of a matrix engine. For DPC++ only.
#pragma once

namespace nullscope::kernels {

/// Whether this pass of the compiler can: a single-source build compiles every instantiation for every target, also for
/// those that never run it. Tiles of b in pairs of rows (PackedB) are Intel's.
template <bool PackedB>
constexpr bool target_has_tiles() {
#if defined(__SPIR__) || defined(__SPIRV__)
  return true;
#elif defined(__NVPTX__) || defined(__HIP_PLATFORM_AMD_MFMA__)
  return !PackedB;
#else
  return false;
#endif
}

}  // namespace nullscope::kernels
