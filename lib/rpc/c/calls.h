// The calls of the C interface. CallObject: the streams, which both ends use alike. Calling: a call of a
// client. Serving: a call that arrived. All of them are used in their loop's thread only, except the creation
// of a Calling.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "lib/rpc/c/loop.h"
#include "lib/rpc/client_connection.h"

namespace rrdma::rpc {
inline namespace v0 {

namespace detail {
struct RawCalls {
  using Attempts = Client::Attempts;
  static const std::shared_ptr<ClientConnection>& connection(const Channel& channel) {
    return channel.connection_;
  }
};
}  // namespace detail

namespace c {

// Bytes to send: a copy, or memory that a handle owned.
struct Outgoing {
  std::string copy;
  std::shared_ptr<Memory> memory;

  [[nodiscard]] std::span<const std::byte> bytes() const {
    if (memory) return {memory->data(), memory->size()};
    return std::as_bytes(std::span<const char>(copy.data(), copy.size()));
  }
};

// A method whose names live as long as the object.
struct OwnMethod {
  OwnMethod(std::string of_service, std::string of_name, const rrdma_rpc_method& described);
  OwnMethod(const OwnMethod&) = delete;
  std::string service;
  std::string name;
  Method method;
};

// Whether bytes of this size are worth a registration of their own.
bool goes_wrapped(std::size_t size);

class CallObject : public Member {
 public:
  static constexpr Kind kKind = Kind::kCall;
  void read(std::uint64_t tag);
  void write(std::shared_ptr<Outgoing> item, std::uint64_t tag);
  void writes_done();
  virtual void finish(std::uint64_t tag) = 0;
  virtual void cancel() = 0;

 protected:
  explicit CallObject(std::shared_ptr<Loop> loop) : Member(Kind::kCall, std::move(loop)) {}
  // Makes the handle invalid and leaves the loop.
  void leave();
  [[nodiscard]] Event event(std::uint32_t kind, std::uint64_t tag, Status status = {}) const;
  // Memory with the bytes of a payload; null if there are none. Fails if there is no memory.
  std::shared_ptr<Memory> memory_of(Payload& payload, Status& status) const;

  comm::detail::Ref<detail::Inbound> inbound_;
  comm::detail::Ref<detail::Outbound> outbound_;

 private:
  static comm::Task<void> read_one(std::shared_ptr<CallObject> self, std::uint64_t tag);
  static comm::Task<void> write_one(std::shared_ptr<CallObject> self, std::shared_ptr<Outgoing> item,
                                    std::uint64_t tag);
  bool reading_ = false;
  bool writing_ = false;
};

class Calling final : public CallObject {
 public:
  Calling(std::shared_ptr<Loop> loop, std::unique_ptr<OwnMethod> method, CallOptions options,
          std::shared_ptr<Outgoing> argument, std::uint64_t tag);
  // Starts the call. `owned`: the program has a handle.
  void start(std::shared_ptr<Client> client, bool owned);
  void finish(std::uint64_t tag) override;
  void cancel() override { stop_.request_stop(); }
  void end() override;

 private:
  static comm::Task<void> run(std::shared_ptr<Calling> self, std::shared_ptr<Client> client);
  comm::Task<Status> attempt(std::shared_ptr<detail::ClientConnection> connection);
  static comm::Task<void> finish_one(std::shared_ptr<Calling> self, std::uint64_t tag);
  detail::Request request_on(detail::ClientConnection* connection, Status& status);
  void began(Status status);
  // The outcome of the call, once there is a reply.
  Event outcome(std::uint64_t tag, Status status);

  std::unique_ptr<OwnMethod> method_;
  std::stop_source stop_;
  CallOptions options_;
  std::shared_ptr<Outgoing> argument_;
  std::uint64_t tag_;
  bool owned_ = false;
  detail::CallHandle call_;
};

// The end of a call that arrived.
struct Answer {
  Status status;
  std::shared_ptr<Outgoing> result;
  Metadata trailers;
};

class Serving final : public CallObject {
 public:
  explicit Serving(std::shared_ptr<Loop> loop) : CallObject(std::move(loop)) {}
  void answer(Answer answer);
  void finish(std::uint64_t tag) override;
  void cancel() override {}
  void end() override;

  // Runs as the handler of each method. `object`: a ServedMethod.
  static comm::Task<void> serve(void* object, detail::ServerCall& call);

 private:
  // Tells the program about the call and its end.
  class Presence;
  void arrive(std::uint64_t tag, detail::ServerCall& call);
  void tell_cancelled();
  void conclude(detail::ServerCall& call);

  std::uint64_t tag_ = 0;
  std::optional<Answer> answer_;
  detail::WaitPlace place_;
  bool told_ = false;
};

struct ServedMethod {
  std::shared_ptr<Loop> loop;
  std::unique_ptr<OwnMethod> method;
  std::uint64_t tag;
};

class ChannelObject final : public Member {
 public:
  static constexpr Kind kKind = Kind::kChannel;
  explicit ChannelObject(std::shared_ptr<Loop> loop) : Member(Kind::kChannel, std::move(loop)) {}
  void open(std::vector<std::string> addresses, const ClientOptions& options);
  void end() override;
  [[nodiscard]] const std::shared_ptr<Client>& client() const { return client_; }

 private:
  std::shared_ptr<Client> client_;
};

class ServerObject final : public Member {
 public:
  static constexpr Kind kKind = Kind::kServer;
  explicit ServerObject(std::shared_ptr<Loop> loop) : Member(Kind::kServer, std::move(loop)) {}
  void open(const ServerOptions& options);
  void add(std::unique_ptr<OwnMethod> method, std::uint64_t tag);
  void drain(comm::Limit limit, std::uint64_t tag);
  void end() override;
  // Null once ended.
  [[nodiscard]] Server* server() const { return server_.get(); }

 private:
  static comm::Task<void> drain_all(std::shared_ptr<ServerObject> self, std::shared_ptr<Server> server,
                                    comm::Limit limit, std::uint64_t tag);
  // Methods outlive the server that calls them.
  std::vector<std::unique_ptr<ServedMethod>> methods_;
  std::shared_ptr<Server> server_;
};

}  // namespace c
}  // namespace v0
}  // namespace rrdma::rpc
