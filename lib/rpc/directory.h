// Directory: what a server tells about itself, shared by its threads: its methods, the descriptions that generated stubs brought along,
// and whether its services are well. Versions, Health, Reflection and Metrics: the services that every server has.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "rrdma/comm/task.h"
#include "rrdma/rpc/method.h"
#include "rrdma/rpc/status.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

class ServerState;

class Directory {
 public:
  void add(const Method& method);
  void describe(std::string_view service, std::string_view descriptors);
  void set_serving(std::string_view service, bool serving);
  // Nothing is served any more.
  void close();

  // A line for each method: its path, its shape, and "idempotent" where it is.
  [[nodiscard]] std::string list() const;
  [[nodiscard]] Result<std::string> descriptors(std::string_view service) const;
  [[nodiscard]] Result<bool> serving(std::string_view service) const;

 private:
  struct Service {
    std::string descriptors;
    bool serving = true;
  };
  mutable std::mutex mutex_;
  std::map<std::string, std::string> methods_;
  std::map<std::string, Service, std::less<>> services_;
  bool closed_ = false;
};

// By which a client asks when it connects whether the server has what it expects.
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

class Health {
 public:
  static constexpr std::string_view kService = "rrdma.Health";
  explicit Health(const Directory& directory) : directory_(&directory) {}
  // 1: a service of that name is well; 2: it is not. Without a name: the server.
  Result<std::uint32_t> check(const std::string& service) const;

 private:
  const Directory* directory_;
};

class Reflection {
 public:
  static constexpr std::string_view kService = "rrdma.Reflection";
  explicit Reflection(const Directory& directory) : directory_(&directory) {}
  Result<std::string> list() const { return directory_->list(); }
  // A serialized google.protobuf.FileDescriptorSet.
  Result<std::string> describe(const std::string& service) const { return directory_->descriptors(service); }

 private:
  const Directory* directory_;
};

class Metrics {
 public:
  static constexpr std::string_view kService = "rrdma.Metrics";
  explicit Metrics(ServerState& server) : server_(&server) {}
  comm::Task<Result<std::string>> text();

 private:
  ServerState* server_;
};

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
