// JsonMessages: the messages of a service by what its server tells of them, to and from JSON.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "rrdma/rpc/rpc.h"

namespace rrdma::rpc::tool {

class JsonMessages {
 public:
  // From a serialized google.protobuf.FileDescriptorSet; throws std::runtime_error when it holds no such method.
  JsonMessages(const std::string& descriptors, std::string_view service, std::string_view method);
  JsonMessages(JsonMessages&&) noexcept;
  ~JsonMessages();

  [[nodiscard]] rpc::Method method() const;
  // Octets of the argument; throws std::runtime_error when the text is not one.
  [[nodiscard]] std::string argument(std::string_view json) const;
  [[nodiscard]] std::string text_of_result(const std::string& octets) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rrdma::rpc::tool
