#include "lib/rpc/tool/json_messages.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/util/json_util.h>

#include <stdexcept>

namespace rrdma::rpc::tool {

namespace pb = google::protobuf;

namespace {

// Says nothing.
class Silence final : public pb::DescriptorPool::ErrorCollector {
  void AddError(const std::string&, const std::string&, const pb::Message*, ErrorLocation,
                const std::string&) override {}
};

}  // namespace

struct JsonMessages::State {
  pb::DescriptorPool pool;
  pb::DynamicMessageFactory factory{&pool};
  const pb::MethodDescriptor* method = nullptr;
  std::string service;
  std::string name;
};

JsonMessages::JsonMessages(const std::string& descriptors, std::string_view service, std::string_view method)
    : state_(std::make_unique<State>()) {
  pb::FileDescriptorSet files;
  if (!files.ParseFromString(descriptors))
    throw std::runtime_error("what the server tells of its services cannot be read");
  for (const pb::FileDescriptorProto& file : files.file()) {
    // Without a collector of its own, protobuf prints what is wrong, with the server's words, to standard
    // error.
    Silence errors;
    if (state_->pool.BuildFileCollectingErrors(file, &errors) == nullptr)
      throw std::runtime_error("the server's description of " + file.name() + " is wrong");
  }
  state_->service = service;
  state_->name = method;
  const pb::ServiceDescriptor* found = state_->pool.FindServiceByName(state_->service);
  if (found != nullptr) state_->method = found->FindMethodByName(state_->name);
  if (state_->method == nullptr)
    throw std::runtime_error("there is no method " + state_->service + "/" + state_->name);
}
JsonMessages::JsonMessages(JsonMessages&&) noexcept = default;
JsonMessages::~JsonMessages() = default;

rpc::Method JsonMessages::method() const {
  rpc::Method described;
  described.service = state_->service;
  described.name = state_->name;
  described.id = rpc::method_id(described.service, described.name);
  const bool reads = state_->method->client_streaming();
  const bool writes = state_->method->server_streaming();
  described.shape = reads ? (writes ? rpc::Shape::kBidirectional : rpc::Shape::kClientStream)
                          : (writes ? rpc::Shape::kServerStream : rpc::Shape::kUnary);
  return described;
}

std::string JsonMessages::argument(std::string_view json) const {
  const std::unique_ptr<pb::Message> message(
      state_->factory.GetPrototype(state_->method->input_type())->New());
  const auto status = pb::util::JsonStringToMessage(std::string(json), message.get());
  if (!status.ok())
    throw std::runtime_error("this is no " + state_->method->input_type()->full_name() + ": " +
                             std::string(status.message()));
  return message->SerializeAsString();
}

std::string JsonMessages::text_of_result(const std::string& octets) const {
  const std::unique_ptr<pb::Message> message(
      state_->factory.GetPrototype(state_->method->output_type())->New());
  std::string text;
  pb::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  if (!message->ParseFromString(octets) || !pb::util::MessageToJsonString(*message, &text, options).ok())
    throw std::runtime_error("the result is no " + state_->method->output_type()->full_name());
  return text;
}

}  // namespace rrdma::rpc::tool
