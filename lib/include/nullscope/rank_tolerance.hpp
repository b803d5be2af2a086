/// Which singular values count as zero.
#pragma once

namespace nullscope {

/// The numerical rank of an m x n matrix is the number of singular values s_i > max(relative * s_0, absolute).
struct rank_tolerance {
  double relative = -1;  ///< negative: max(m, n) eps, with eps the machine epsilon of the element type
  double absolute = 0;
};

}  // namespace nullscope
