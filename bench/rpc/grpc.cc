// grpc_bench PROGRAM ADDRESS [COUNT [SIZE]]: the same service with gRPC C++. ADDRESS is "HOST:PORT" or
// "unix:PATH". The server answers unary calls from one completion queue in one thread, and streams in gRPC's
// own threads. With RPC_BENCH_SECURE, connections use TLS with the key and the certificate in that folder.
#include <echo.grpc.pb.h>
#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "bench/rpc/bench.h"

namespace rpc_bench {
namespace {

using grpc::Status;

constexpr int kLargest = 64 << 20;

using Service = Echo::WithAsyncMethod_Say<Echo::Service>;

class Streams final : public Service {
 public:
  Status Sink(grpc::ServerContext*, const Octets* octets, Amount* amount) override {
    amount->set_count(octets->data().size());
    return Status::OK;
  }
  Status Pour(grpc::ServerContext*, const Amount* amount, grpc::ServerWriter<Octets>* out) override {
    Octets item;
    item.set_data(std::string(amount->size(), 'x'));
    for (std::uint64_t i = 0; i < amount->count(); ++i) out->Write(item);
    return Status::OK;
  }
  Status Drink(grpc::ServerContext*, grpc::ServerReader<Octets>* in, Amount* amount) override {
    Octets item;
    while (in->Read(&item)) amount->set_count(amount->count() + 1);
    return Status::OK;
  }
};

// A call that waits for its request, then for the end of its reply.
class Answer {
 public:
  Answer(Streams& service, grpc::ServerCompletionQueue& queue) : service_(&service), queue_(&queue) { ask(); }
  void go_on(bool good) {
    if (answered_ || !good) {
      if (!good && !answered_) return;
      ask();
      return;
    }
    answered_ = true;
    responder_->Finish(octets_, Status::OK, this);
  }

 private:
  void ask() {
    answered_ = false;
    context_ = std::make_unique<grpc::ServerContext>();
    responder_ = std::make_unique<grpc::ServerAsyncResponseWriter<Octets>>(context_.get());
    service_->RequestSay(context_.get(), &octets_, responder_.get(), queue_, queue_, this);
  }
  Streams* service_;
  grpc::ServerCompletionQueue* queue_;
  bool answered_ = false;
  Octets octets_;
  std::unique_ptr<grpc::ServerContext> context_;
  std::unique_ptr<grpc::ServerAsyncResponseWriter<Octets>> responder_;
};

// A file of the folder RPC_BENCH_SECURE. Empty without that variable.
std::string secured(const char* name) {
  const char* folder = std::getenv("RPC_BENCH_SECURE");
  if (folder == nullptr) return {};
  std::ostringstream text;
  text << std::ifstream(std::string(folder) + "/" + name).rdbuf();
  if (text.str().empty()) throw std::runtime_error(std::string("no ") + name + " in " + folder);
  return text.str();
}

// Both ends show the same certificate, as both ends of rrdma::rpc know the same secret.
std::shared_ptr<grpc::ServerCredentials> server_credentials() {
  const std::string certificate = secured("cert.pem");
  if (certificate.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = certificate;
  options.pem_key_cert_pairs = {{secured("key.pem"), certificate}};
  return grpc::SslServerCredentials(options);
}
std::shared_ptr<grpc::ChannelCredentials> channel_credentials() {
  const std::string certificate = secured("cert.pem");
  if (certificate.empty()) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({certificate, secured("key.pem"), certificate});
}

int serve(const Arguments& arguments) {
  Streams service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(arguments.address, server_credentials());
  builder.SetMaxReceiveMessageSize(kLargest);
  builder.RegisterService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  if (!server) return std::fprintf(stderr, "grpc_bench: no server at %s\n", arguments.address.c_str()), 1;
  std::vector<std::unique_ptr<Answer>> answers;
  for (std::size_t i = 0; i < 2 * kUnderWay; ++i)
    answers.push_back(std::make_unique<Answer>(service, *queue));
  void* tag = nullptr;
  bool good = false;
  while (queue->Next(&tag, &good)) static_cast<Answer*>(tag)->go_on(good);
  return 0;
}

std::unique_ptr<Echo::Stub> connect(const Arguments& arguments) {
  grpc::ChannelArguments options;
  options.SetMaxReceiveMessageSize(kLargest);
  const auto channel = grpc::CreateCustomChannel(arguments.address, channel_credentials(), options);
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10)))
    throw std::runtime_error("no connection to " + arguments.address);
  return Echo::NewStub(channel);
}

void require(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.error_message());
}

Octets octets_of(std::size_t size) {
  Octets octets;
  octets.set_data(std::string(size, 'x'));
  return octets;
}

int latency(const Arguments& arguments) {
  const auto stub = connect(arguments);
  const Octets octets = octets_of(arguments.size);
  Trips trips(arguments.count);
  for (std::uint64_t i = 0, warm = warm_up(arguments.count); i < arguments.count + warm; ++i) {
    const auto begin = Time::now();
    grpc::ClientContext context;
    Octets back;
    const Status status = stub->Say(&context, octets, &back);
    if (i >= warm) trips.add(Time::now() - begin);
    require(status);
  }
  trips.report();
  return 0;
}

struct Under {
  grpc::ClientContext context;
  Octets back;
  Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Octets>> reader;
};

int rate(const Arguments& arguments) {
  const auto stub = connect(arguments);
  const Octets octets = octets_of(arguments.size);
  grpc::CompletionQueue queue;
  const auto begin_one = [&] {
    auto* call = new Under;
    call->reader = stub->AsyncSay(&call->context, octets, &queue);
    call->reader->Finish(&call->back, &call->status, call);
  };
  for (std::uint64_t count : {warm_up(arguments.count), arguments.count}) {
    const auto begin = Time::now();
    std::uint64_t begun = 0;
    for (; begun < std::min<std::uint64_t>(kUnderWay, count); ++begun) begin_one();
    for (std::uint64_t ended = 0; ended < count; ++ended) {
      void* tag = nullptr;
      bool good = false;
      queue.Next(&tag, &good);
      const std::unique_ptr<Under> call(static_cast<Under*>(tag));
      require(call->status);
      if (begun++ < count) begin_one();
    }
    if (count == arguments.count)
      print("calls_per_s", static_cast<double>(count) * 1e9 / nanoseconds(Time::now() - begin));
  }
  return 0;
}

int sink(const Arguments& arguments) {
  const auto stub = connect(arguments);
  const Octets octets = octets_of(arguments.size);
  for (std::uint64_t count : {warm_up(arguments.count), arguments.count}) {
    const auto begin = Time::now();
    for (std::uint64_t i = 0; i < count; ++i) {
      grpc::ClientContext context;
      Amount amount;
      require(stub->Sink(&context, octets, &amount));
    }
    if (count == arguments.count)
      print("bandwidth_gbs", static_cast<double>(count * arguments.size) / nanoseconds(Time::now() - begin));
  }
  return 0;
}

int stream(const Arguments& arguments) {
  const auto stub = connect(arguments);
  for (std::uint64_t count : {warm_up(arguments.count), arguments.count}) {
    grpc::ClientContext context;
    Amount amount;
    amount.set_count(count);
    amount.set_size(arguments.size);
    const auto begin = Time::now();
    const auto items = stub->Pour(&context, amount);
    Octets item;
    std::uint64_t seen = 0;
    while (items->Read(&item)) ++seen;
    require(items->Finish());
    if (count == arguments.count && seen == count)
      print("items_per_s", static_cast<double>(count) * 1e9 / nanoseconds(Time::now() - begin));
  }
  return 0;
}

int stream_up(const Arguments& arguments) {
  const auto stub = connect(arguments);
  const Octets item = octets_of(arguments.size);
  for (std::uint64_t count : {warm_up(arguments.count), arguments.count}) {
    grpc::ClientContext context;
    Amount amount;
    const auto begin = Time::now();
    const auto items = stub->Drink(&context, &amount);
    for (std::uint64_t i = 0; i < count; ++i) items->Write(item);
    items->WritesDone();
    require(items->Finish());
    if (amount.count() != count) throw std::runtime_error("items are missing");
    if (count == arguments.count)
      print("items_per_s", static_cast<double>(count) * 1e9 / nanoseconds(Time::now() - begin));
  }
  return 0;
}

}  // namespace
}  // namespace rpc_bench

int main(int count, char** words) try {
  using namespace rpc_bench;
  const Arguments arguments(count, words);
  if (arguments.program == "serve") return serve(arguments);
  if (arguments.program == "latency") return latency(arguments);
  if (arguments.program == "rate") return rate(arguments);
  if (arguments.program == "sink") return sink(arguments);
  if (arguments.program == "stream") return stream(arguments);
  if (arguments.program == "stream-up") return stream_up(arguments);
  return std::fprintf(stderr, "grpc_bench: there is no program %s\n", words[1]), 2;
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "grpc_bench: %s\n", failure.what()), 1;
}
