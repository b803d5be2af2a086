/// A shared library that is opened at run time, if it is installed.
#pragma once

#include <initializer_list>

namespace nullscope::detail {

class loaded_library {
 public:
  /// Opens the first of these that the dynamic linker finds. It is never closed: what it keeps for a device may be
  /// needed until the process ends.
  explicit loaded_library(std::initializer_list<const char*> names);

  /// Sets `function` to the symbol of this name; null if there is none, or no library. Returns whether it is there.
  template <class Function>
  bool find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(address_of(name));
    return function != nullptr;
  }

 private:
  void* address_of(const char* name) const;

  void* handle_ = nullptr;
};

}  // namespace nullscope::detail
