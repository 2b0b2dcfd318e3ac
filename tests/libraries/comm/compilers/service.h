// A service whose coroutines are compiled apart from the program that serves it.
#pragma once

#include <rrdma/rpc/rpc.h>

#include <string>

struct Greeter {
  rrdma::comm::Task<rrdma::rpc::Result<std::string>> greet(rrdma::rpc::Call& call, const std::string& name);
  rrdma::comm::Context* context;
};

// Waits, then returns the name of the compiler of this coroutine.
rrdma::comm::Task<std::string> compiler_of_service(rrdma::comm::Context& context);
