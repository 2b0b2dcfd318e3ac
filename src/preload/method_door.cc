// The way from rrdma::rpc to the captures of this process. lib/comm looks the function up by its name;
// another verbs library does not have it.
#include "host/calls/method_names.h"

extern "C" __attribute__((visibility("default"))) void rrdma_name_method(const char* path) {
  if (path != nullptr) rrdma::host::method_names().add(path);
}
