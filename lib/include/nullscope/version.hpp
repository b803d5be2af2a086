/// Which version of the library this is, and from which commit it was built.
#pragma once

namespace nullscope {

const char* version();

/// Abbreviated hash, with "-dirty" if files differed from it; "unknown" outside a repository.
const char* git_commit();

}  // namespace nullscope
