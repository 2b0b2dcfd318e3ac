// The next definition of a function that we interpose: librspreload's, a sanitizer's or the C library's.
#pragma once

#include <dlfcn.h>

namespace rrdma {

// Look all of them up when the library is loaded (a signal handler may be the first to call one); what is
// called even earlier looks itself up.
template <typename Function>
class NextSymbol {
 public:
  explicit constexpr NextSymbol(const char* name) : name_(name) {}
  // Null where the C library is too old to have it.
  Function* operator*() {
    if (function_ == nullptr) function_ = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name_));
    return function_;
  }

 private:
  const char* const name_;
  Function* function_ = nullptr;
};

}  // namespace rrdma
