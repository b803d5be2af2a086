/// Which version of the library this is, and from which commit it was built.
#pragma once

/// Of the headers, for the preprocessor: NULLSCOPE_VERSION_MAJOR * 10000 + _MINOR * 100 + _PATCH.
#define NULLSCOPE_VERSION_MAJOR 0
#define NULLSCOPE_VERSION_MINOR 1
#define NULLSCOPE_VERSION_PATCH 0
#define NULLSCOPE_VERSION (NULLSCOPE_VERSION_MAJOR * 10000 + NULLSCOPE_VERSION_MINOR * 100 + NULLSCOPE_VERSION_PATCH)

namespace nullscope {

/// Of the library that is linked: "0.1.0".
const char* version();

/// Abbreviated hash, with "-dirty" if files differed from it; "unknown" outside a repository.
const char* git_commit();

}  // namespace nullscope
