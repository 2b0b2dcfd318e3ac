#include "lib/rpc/directory.h"

#include <cstring>

#include "lib/rpc/server_connection.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

// ---- Directory ----

namespace {
std::string_view word_of(Shape shape) {
  switch (shape) {
    case Shape::kUnary: return "unary";
    case Shape::kServerStream: return "server-stream";
    case Shape::kClientStream: return "client-stream";
    case Shape::kBidirectional: return "bidirectional";
  }
  return "unknown";
}
}  // namespace

void Directory::add(const Method& method) {
  const std::lock_guard lock(mutex_);
  services_.try_emplace(std::string(method.service));
  std::string& words = methods_[method.path()];
  words = word_of(method.shape);
  if (method.idempotent) words += " idempotent";
}

void Directory::describe(std::string_view service, std::string_view descriptors) {
  const std::lock_guard lock(mutex_);
  services_[std::string(service)].descriptors = descriptors;
}

void Directory::set_serving(std::string_view service, bool serving) {
  const std::lock_guard lock(mutex_);
  services_[std::string(service)].serving = serving;
}

void Directory::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

std::string Directory::list() const {
  const std::lock_guard lock(mutex_);
  std::string list;
  for (const auto& [path, words] : methods_) list += path + " " + words + "\n";
  return list;
}

Result<std::string> Directory::descriptors(std::string_view service) const {
  const std::lock_guard lock(mutex_);
  const auto found = services_.find(service);
  if (found == services_.end()) return {Code::kNotFound, "there is no service " + std::string(service)};
  if (found->second.descriptors.empty())
    return {Code::kNotFound, std::string(service) + " is not described: it was not generated from a .proto"};
  return found->second.descriptors;
}

Result<bool> Directory::serving(std::string_view service) const {
  const std::lock_guard lock(mutex_);
  if (service.empty()) {
    bool all = !closed_;
    for (const auto& [name, one] : services_) all = all && one.serving;
    return all;
  }
  const auto found = services_.find(service);
  if (found == services_.end()) return {Code::kNotFound, "there is no service " + std::string(service)};
  return found->second.serving && !closed_;
}

// ---- services ----

Result<std::uint32_t> Health::check(const std::string& service) const {
  const auto serving = directory_->serving(service);
  if (!serving.ok()) return serving.status();
  return *serving ? 1U : 2U;
}

comm::Task<Result<std::string>> Metrics::text() {
  ServerStatistics statistics = co_await server_->statistics();
  co_return statistics.prometheus();
}

namespace {
constexpr std::size_t kEntryHead = 14;
}

std::string Versions::list(const std::vector<Method>& methods) {
  std::string list;
  for (const Method& method : methods) {
    const std::string path = method.path();
    const auto length = static_cast<std::uint16_t>(path.size());
    list.append(reinterpret_cast<const char*>(&method.id), 8);
    list.append(reinterpret_cast<const char*>(&method.schema), 4);
    list.append(reinterpret_cast<const char*>(&length), 2);
    list.append(path, 0, length);
  }
  return list;
}

Status Versions::check(const std::string& list) const {
  std::string_view rest = list;
  while (!rest.empty()) {
    std::uint64_t id = 0;
    std::uint32_t schema = 0;
    std::uint16_t length = 0;
    if (rest.size() < kEntryHead) return {Code::kInvalidArgument, "the list ends within an entry"};
    std::memcpy(&id, rest.data(), 8);
    std::memcpy(&schema, rest.data() + 8, 4);
    std::memcpy(&length, rest.data() + 12, 2);
    if (rest.size() - kEntryHead < length) return {Code::kInvalidArgument, "the list ends within an entry"};
    const std::string path(rest.substr(kEntryHead, length));
    rest.remove_prefix(kEntryHead + length);
    const Served* served = server_->find(id);
    if (served == nullptr) return {Code::kFailedPrecondition, "the server has no method " + path};
    const std::uint32_t here = served->handler.method.schema;
    if (schema != 0 && here != 0 && schema != here)
      return {Code::kFailedPrecondition, path + " has another form or version at the server"};
  }
  return {};
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
