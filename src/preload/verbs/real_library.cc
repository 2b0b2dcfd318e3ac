#include "preload/verbs/real_library.h"

#include <dlfcn.h>

namespace rrdma::verbs {

void* find_real(const char* name, const char* version) {
  return version != nullptr ? dlvsym(RTLD_NEXT, name, version) : dlsym(RTLD_NEXT, name);
}

}  // namespace rrdma::verbs
