// JsonMessages: converts the messages of a service to and from JSON, by the descriptors that its server
// publishes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "rrdma/rpc/rpc.h"

namespace rrdma::rpc::tool {

class JsonMessages {
 public:
  // Takes a serialized google.protobuf.FileDescriptorSet. Throws std::runtime_error if it lacks the method.
  JsonMessages(const std::string& descriptors, std::string_view service, std::string_view method);
  JsonMessages(JsonMessages&&) noexcept;
  ~JsonMessages();

  [[nodiscard]] rpc::Method method() const;
  // Encodes an argument. Throws std::runtime_error if the text is invalid.
  [[nodiscard]] std::string argument(std::string_view json) const;
  [[nodiscard]] std::string text_of_result(const std::string& octets) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rrdma::rpc::tool
