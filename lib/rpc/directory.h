// Directory: the data that a server publishes, shared by its threads: its methods, the descriptors from
// generated stubs, and the health of its services. Versions, Health, Reflection and Metrics: the services
// that every server has.
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
  // Marks everything as not serving.
  void close();

  // One line for each method: its path, its shape, and "idempotent" if it is.
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

// Lets a client check on connecting that the server has the methods it expects.
class Versions {
 public:
  static constexpr std::string_view kService = "rrdma.Versions";
  explicit Versions(const ServerState& server) : server_(&server) {}

  // Encodes methods in sequence: id (8 bytes), schema (4), length of the path (2), path.
  static std::string list(const std::vector<Method>& methods);
  // Succeeds if the server has all of them in the same form. Otherwise names the first mismatch.
  Status check(const std::string& list) const;

 private:
  const ServerState* server_;
};

class Health {
 public:
  static constexpr std::string_view kService = "rrdma.Health";
  explicit Health(const Directory& directory) : directory_(&directory) {}
  // Returns 1 if the service is healthy and 2 if it is not. An empty name means the server.
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
