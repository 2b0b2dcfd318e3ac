#include "service.h"

using namespace rrdma;

comm::Task<std::string> compiler_of_service(comm::Context& context) {
  (co_await context.yield()).value_or_throw();
  co_return __VERSION__;
}

comm::Task<rpc::Result<std::string>> Greeter::greet(rpc::Call&, const std::string& name) {
  std::string compiler = co_await compiler_of_service(*context);
  co_return name + ", " + compiler;
}
