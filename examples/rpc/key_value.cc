// A key-value store that is defined in a .proto: `key_value serve ADDRESS [CLIENTS]`, `key_value put ADDRESS KEY VALUE`, `key_value get ADDRESS KEY`,
// `key_value scan ADDRESS KEY`. `key_value look ADDRESS KEY` gets it without a call: it READs the server's memory, and asks only when that does not
// hold the key. key_value_grpc.cc is the same service by gRPC, from the same .proto.
#include <key_value.rrdma.h>  // what protoc-gen-rrdma wrote from key_value.proto

#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include "examples/rpc/table.h"

using namespace rrdma;

namespace {

class Shelf : public key_value::StoreService {
 public:
  Shelf(table::Table& table, std::string_view readers) : table_(&table), readers_(readers) {}

  comm::Task<rpc::Result<key_value::Nothing>> put(rpc::Call&, const key_value::Pair& pair) override {
    keep(pair);
    co_return key_value::Nothing();
  }
  comm::Task<rpc::Result<key_value::Pair>> get(rpc::Call&, const key_value::Key& key) override {
    const auto found = pairs_.find(key.key());
    if (found == pairs_.end()) co_return rpc::Status(rpc::Code::kNotFound, "there is no " + key.key());
    co_return pair_of(*found);
  }
  comm::Task<rpc::Status> scan(rpc::Call&, const key_value::Key& from,
                               rpc::Writer<key_value::Pair>& out) override {
    // A copy of the key, since the map may change while the reader takes its time.
    for (auto at = pairs_.lower_bound(from.key()); at != pairs_.end();) {
      const std::string key = at->first;
      rpc::Status sent = co_await out.write(pair_of(*at));
      if (!sent.ok()) co_return sent;
      at = pairs_.upper_bound(key);
    }
    co_return rpc::Status();
  }
  comm::Task<rpc::Result<key_value::Count>> load(rpc::Call&, rpc::Reader<key_value::Pair>& in) override {
    key_value::Count count;
    for (;;) {
      auto pair = co_await in.read();
      if (!pair) break;
      keep(*pair);
      count.set_pairs(count.pairs() + 1);
    }
    if (!in.status().ok()) co_return in.status();
    co_return count;
  }
  comm::Task<rpc::Status> ask(rpc::Call&, rpc::Reader<key_value::Key>& in,
                              rpc::Writer<key_value::Pair>& out) override {
    for (;;) {
      auto key = co_await in.read();
      if (!key) co_return in.status();
      key_value::Pair pair;
      pair.set_key(key->key());
      if (const auto found = pairs_.find(key->key()); found != pairs_.end()) pair.set_value(found->second);
      rpc::Status sent = co_await out.write(pair);
      if (!sent.ok()) co_return sent;
    }
  }
  comm::Task<rpc::Result<key_value::Place>> where(rpc::Call&, const key_value::Nothing&) override {
    key_value::Place place;
    place.set_peer(readers_);
    place.set_address(table_->remote().address());
    place.set_key(table_->remote().key());
    place.set_slots(static_cast<std::uint32_t>(table_->remote().size()));
    co_return place;
  }

 private:
  void keep(const key_value::Pair& pair) {
    pairs_[pair.key()] = pair.value();
    table_->store(pair.key(), pair.value());
  }
  static key_value::Pair pair_of(const std::pair<const std::string, std::string>& entry) {
    key_value::Pair pair;
    pair.set_key(entry.first);
    pair.set_value(entry.second);
    return pair;
  }
  std::map<std::string, std::string> pairs_;
  table::Table* table_;
  std::string readers_;
};

// Connections of who only READs: nothing is said on them.
comm::Task<> keep(comm::Endpoint end) { static_cast<void>(co_await end.receive()); }
comm::Task<> accept_readers(comm::Listener& listener, comm::Scope& readers) {
  for (;;) {
    auto accepted = co_await listener.accept();
    if (!accepted) co_return;
    readers.spawn(keep(std::move(*accepted)));
  }
}

comm::Task<> serve(comm::Context& context, std::string address, unsigned long clients) {
  table::Table table(context);
  const std::string any_port = address.substr(0, address.rfind(':')) + ":0";
  comm::Listener listener = context.listen(any_port).value_or_throw();
  comm::Scope readers;
  readers.spawn(accept_readers(listener, readers));
  Shelf shelf(table, listener.address());
  rpc::Server server(context);
  server.add(shelf);
  const rpc::Status listening = server.listen(address);
  if (!listening.ok()) throw rpc::Failure(listening);
  std::printf("listening at %s\n", std::string(server.address()).c_str());
  std::fflush(stdout);
  // Until so many clients have come and gone; 0: for ever.
  while (clients == 0 || server.counters().connections < clients || server.connections() != 0)
    static_cast<void>(co_await context.sleep(std::chrono::milliseconds(20)));
}

comm::Task<> look(comm::Context& context, key_value::StoreClient& client, const key_value::Key& asked) {
  auto found = co_await client.where(key_value::Nothing(), std::chrono::seconds(1));
  const key_value::Place place = std::move(found).value_or_throw();
  auto connected = co_await context.connect(place.peer(), std::chrono::seconds(5));
  comm::Endpoint end = std::move(connected).value_or_throw();
  const comm::RemoteSpan<const table::Slot> slots(place.address(), place.key(), place.slots());
  auto seen = co_await table::look(end, slots, asked.key());
  if (seen) {
    std::printf("%s\n", seen->c_str());
    co_return;
  }
  auto pair = co_await client.get(asked, std::chrono::seconds(1));
  std::printf("%s (asked)\n", std::move(pair).value_or_throw().value().c_str());
}

comm::Task<> ask(comm::Context& context, std::string_view role, const char* address, const char* key,
                 const char* value) {
  auto connected = co_await rpc::connect(context, address, {}, std::chrono::seconds(5));
  key_value::StoreClient client(std::move(connected).value_or_throw());
  key_value::Key asked;
  asked.set_key(key);
  if (role == "put") {
    key_value::Pair pair;
    pair.set_key(key);
    pair.set_value(value);
    auto put = co_await client.put(pair, std::chrono::seconds(1));
    static_cast<void>(std::move(put).value_or_throw());
  } else if (role == "get") {
    auto pair = co_await client.get(asked, std::chrono::seconds(1));
    std::printf("%s\n", std::move(pair).value_or_throw().value().c_str());
  } else if (role == "look") {
    co_await look(context, client, asked);
  } else {
    auto opened = co_await client.scan(asked, std::chrono::seconds(5));
    auto pairs = std::move(opened).value_or_throw();
    for (;;) {
      auto pair = co_await pairs.read();
      if (!pair) break;
      std::printf("%s %s\n", pair->key().c_str(), pair->value().c_str());
    }
    if (!pairs.status().ok()) throw rpc::Failure(pairs.status());
  }
}

}  // namespace

int main(int count, char** words) try {
  const std::string_view role = count > 1 ? words[1] : "";
  const bool good = (role == "serve" && (count == 3 || count == 4)) || (role == "put" && count == 5) ||
                    ((role == "get" || role == "look" || role == "scan") && count == 4);
  if (!good) {
    std::fprintf(stderr,
                 "usage: key_value serve ADDRESS [CLIENTS] | put ADDRESS KEY VALUE | get|look ADDRESS KEY | "
                 "scan ADDRESS KEY\n");
    return 2;
  }
  comm::Context context = comm::Context::open().value_or_throw();
  context.run(role == "serve" ? serve(context, words[2], count > 3 ? std::stoul(words[3]) : 0)
                              : ask(context, role, words[2], words[3], count > 4 ? words[4] : ""));
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
