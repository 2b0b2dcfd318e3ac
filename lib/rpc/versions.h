// Versions: the service that every server has, by which a client asks when it connects whether the server has what it expects.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rrdma/rpc/method.h"
#include "rrdma/rpc/status.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

class ServerState;

class Versions {
 public:
  static constexpr std::string_view kService = "rrdma.Versions";
  explicit Versions(const ServerState& server) : server_(&server) {}

  // One after another: a method's number (8 octets), its schema (4), the length of its path (2) and the path.
  static std::string list(const std::vector<Method>& methods);
  // Good when all of them are here in that form; otherwise the first that is not, by its name.
  Status check(const std::string& list) const;

 private:
  const ServerState* server_;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
