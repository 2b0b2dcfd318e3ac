#include "lib/rpc/versions.h"

#include <cstring>

#include "lib/rpc/server_connection.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {
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
    const Handler* handler = server_->find(id);
    if (handler == nullptr) return {Code::kFailedPrecondition, "the server has no method " + path};
    if (schema != 0 && handler->method.schema != 0 && schema != handler->method.schema)
      return {Code::kFailedPrecondition, path + " has another form or version at the server"};
  }
  return {};
}

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
