/// Which targets have the tiles of a matrix engine. For DPC++ only.
#pragma once

namespace nullscope::kernels {

/// Whether the target of this compiler pass has them: a single-source build compiles every instantiation for every
/// target, including those that never run it. Tiles of b in pairs of rows (PairedB) are Intel's.
template <bool PairedB>
constexpr bool target_has_tiles() {
#if defined(__SPIR__) || defined(__SPIRV__)
  return true;
#elif defined(__NVPTX__) || defined(__HIP_PLATFORM_AMD_MFMA__)
  return !PairedB;
#else
  return false;
#endif
}

}  // namespace nullscope::kernels
