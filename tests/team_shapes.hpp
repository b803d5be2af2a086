/// Names of team shapes, for traces.
#pragma once

#include "team_shape.hpp"

namespace nullscope::test {

inline const char* name_of(detail::team_shape shape) {
  switch (shape) {
    case detail::team_shape::vector_512: return "vector_512";
    case detail::team_shape::streaming_512: return "streaming_512";
    case detail::team_shape::vector_256: return "vector_256";
    case detail::team_shape::streaming_256: return "streaming_256";
    case detail::team_shape::scalar: return "scalar";
    case detail::team_shape::group_32: return "group_32";
    case detail::team_shape::group_256: return "group_256";
  }
  return "unknown";
}

}  // namespace nullscope::test
