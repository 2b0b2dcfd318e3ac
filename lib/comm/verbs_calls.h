// The functions of libibverbs and librdmacm that this library calls, under their own names.
#pragma once

namespace rrdma::comm {
inline namespace v0 {
namespace detail {

// Finds each function with `find(name)`, and the one of RRDMA if it is there. Returns false and changes
// nothing if one is missing.
using FindCall = void* (*)(void* how, const char* name);
bool take_calls(FindCall find, void* how);

template <typename Find>
bool take_calls(Find find) {
  return take_calls([](void* how, const char* name) -> void* { return (*static_cast<Find*>(how))(name); },
                    &find);
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::comm
