// The twin of key_value.cc: the same service from the same key_value.proto by gRPC C++, over TCP, with the same commands. Laid side by side, the handlers differ in
// how they return (a status here, a coroutine there), and the clients in where the deadline is said. `Where` is not served: gRPC has no memory to show.
#include <grpcpp/grpcpp.h>
#include <key_value.grpc.pb.h>  // what grpc_cpp_plugin wrote from key_value.proto

#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

namespace {

// Its handlers run in threads of gRPC, hence the lock.
class Shelf final : public key_value::Store::Service {
 public:
  grpc::Status Put(grpc::ServerContext*, const key_value::Pair* pair, key_value::Nothing*) override {
    const std::lock_guard lock(mutex_);
    pairs_[pair->key()] = pair->value();
    return grpc::Status::OK;
  }
  grpc::Status Get(grpc::ServerContext*, const key_value::Key* key, key_value::Pair* pair) override {
    const std::lock_guard lock(mutex_);
    const auto found = pairs_.find(key->key());
    if (found == pairs_.end()) return {grpc::StatusCode::NOT_FOUND, "there is no " + key->key()};
    pair->set_key(found->first);
    pair->set_value(found->second);
    return grpc::Status::OK;
  }
  grpc::Status Scan(grpc::ServerContext*, const key_value::Key* from,
                    grpc::ServerWriter<key_value::Pair>* out) override {
    std::map<std::string, std::string> pairs;
    {
      const std::lock_guard lock(mutex_);
      pairs.insert(pairs_.lower_bound(from->key()), pairs_.end());
    }
    for (const auto& [key, value] : pairs) {
      key_value::Pair pair;
      pair.set_key(key);
      pair.set_value(value);
      if (!out->Write(pair)) return grpc::Status::CANCELLED;
    }
    return grpc::Status::OK;
  }
  grpc::Status Load(grpc::ServerContext*, grpc::ServerReader<key_value::Pair>* in,
                    key_value::Count* count) override {
    for (key_value::Pair pair; in->Read(&pair);) {
      const std::lock_guard lock(mutex_);
      pairs_[pair.key()] = pair.value();
      count->set_pairs(count->pairs() + 1);
    }
    return grpc::Status::OK;
  }
  grpc::Status Ask(grpc::ServerContext*,
                   grpc::ServerReaderWriter<key_value::Pair, key_value::Key>* both) override {
    for (key_value::Key key; both->Read(&key);) {
      key_value::Pair pair;
      pair.set_key(key.key());
      {
        const std::lock_guard lock(mutex_);
        const auto found = pairs_.find(key.key());
        if (found != pairs_.end()) pair.set_value(found->second);
      }
      if (!both->Write(pair)) return grpc::Status::CANCELLED;
    }
    return grpc::Status::OK;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> pairs_;
};

void serve(const char* address) {
  Shelf shelf;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(&shelf);
  const auto server = builder.BuildAndStart();
  if (!server) throw std::runtime_error(std::string("cannot listen at ") + address);
  std::printf("listening at %s\n", address);
  std::fflush(stdout);
  server->Wait();
}

void require(const grpc::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.error_message());
}

void ask(std::string_view role, const char* address, const char* key, const char* value) {
  const auto client =
      key_value::Store::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  key_value::Key asked;
  asked.set_key(key);
  key_value::Pair pair;
  if (role == "put") {
    pair.set_key(key);
    pair.set_value(value);
    key_value::Nothing nothing;
    require(client->Put(&context, pair, &nothing));
  } else if (role == "get") {
    require(client->Get(&context, asked, &pair));
    std::printf("%s\n", pair.value().c_str());
  } else {
    const auto pairs = client->Scan(&context, asked);
    while (pairs->Read(&pair)) std::printf("%s %s\n", pair.key().c_str(), pair.value().c_str());
    require(pairs->Finish());
  }
}

}  // namespace

int main(int count, char** words) try {
  const std::string_view role = count > 1 ? words[1] : "";
  const bool good = (role == "serve" && count == 3) || (role == "put" && count == 5) ||
                    ((role == "get" || role == "scan") && count == 4);
  if (!good) {
    std::fprintf(
        stderr,
        "usage: key_value_grpc serve ADDRESS | put ADDRESS KEY VALUE | get ADDRESS KEY | scan ADDRESS KEY\n");
    return 2;
  }
  if (role == "serve") {
    serve(words[2]);
  } else {
    ask(role, words[2], words[3], count > 4 ? words[4] : "");
  }
  return 0;
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
