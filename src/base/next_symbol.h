// NextSymbol: the next definition of a function that we interpose, from librspreload, a sanitizer or the C
// library.
#pragma once

#include <dlfcn.h>

namespace rrdma {

// Resolve all of them when the library is loaded, because the first call may come from a signal handler. A
// call before that resolves its own symbol.
template <typename Function>
class NextSymbol {
 public:
  explicit constexpr NextSymbol(const char* name) : name_(name) {}
  // Null if the C library is too old to define the function.
  Function* operator*() {
    if (function_ == nullptr) function_ = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name_));
    return function_;
  }

 private:
  const char* const name_;
  Function* function_ = nullptr;
};

}  // namespace rrdma
