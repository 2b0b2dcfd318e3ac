// What protoc-gen-rrdma writes: a store, all kinds of methods, over a connection.
#include <map>

#include "store.rrdma.h"
#include "tests/rpc/world.h"

namespace rpc_test {
namespace {

class Shelf : public store::StoreService {
 public:
  Task<Result<store::Value>> get(Call&, const store::Key& key) override {
    const auto found = rows.find(key.name());
    if (found == rows.end()) co_return Result<store::Value>(Code::kNotFound, "no row " + key.name());
    co_return Result<store::Value>(found->second);
  }
  Task<Result<store::Value>> put(Call&, const store::Row& row) override {
    store::Value& value = rows[row.key().name()];
    value.set_octets(row.value().octets());
    value.set_version(value.version() + 1);
    co_return Result<store::Value>(value);
  }
  Task<Result<store::Row_Note>> delete_(Call&, const store::Key& key) override {
    store::Row_Note note;
    note.set_text(rows.erase(key.name()) != 0 ? "gone" : "was not here");
    co_return Result<store::Row_Note>(note);
  }
  Task<Status> scan_rows(Call&, const store::Range& range, Writer<store::Row>& out) override {
    for (auto at = rows.lower_bound(range.from()); at != rows.end() && at->first < range.to(); ++at) {
      store::Row row;
      row.mutable_key()->set_name(at->first);
      *row.mutable_value() = at->second;
      row.add_notes()->set_text("scanned");
      Status sent = co_await out.write(row);
      if (!sent.ok()) co_return sent;
    }
    co_return Status();
  }
  Task<Result<store::Count>> load(Call&, Reader<store::Row>& in) override {
    store::Count count;
    for (;;) {
      auto row = co_await in.read();
      if (!row) break;
      rows[row->key().name()] = row->value();
      count.set_rows(count.rows() + 1);
    }
    if (!in.status().ok()) co_return Result<store::Count>(in.status());
    co_return Result<store::Count>(count);
  }
  Task<Status> follow(Call&, Reader<store::Key>& in, Writer<store::Value>& out) override {
    for (;;) {
      auto key = co_await in.read();
      if (!key) co_return in.status();
      Status sent = co_await out.write(rows[key->name()]);
      if (!sent.ok()) co_return sent;
    }
  }

  std::map<std::string, store::Value> rows;
};

class Protobuf : public World {
 protected:
  Protobuf() { server_.add(shelf_); }
  Shelf shelf_;
};

store::Row row_of(const std::string& name, const std::string& octets) {
  store::Row row;
  row.mutable_key()->set_name(name);
  row.mutable_value()->set_octets(octets);
  return row;
}

TEST_F(Protobuf, MethodsAreNamedAsInTheFile) {
  constexpr Method get = store::StoreMethods::get();
  static_assert(get.service == "rpc_test.store.Store" && get.name == "Get" && get.idempotent);
  static_assert(!store::StoreMethods::put().idempotent);
  static_assert(store::StoreMethods::scan_rows().shape == Shape::kServerStream);
}

TEST_F(Protobuf, Unary) {
  store::StoreClient client(connect());
  run([](store::StoreClient& on) -> Task<> {
    auto put = co_await on.put(row_of("hill", std::string(1 << 20, 'h')), kPatience);
    EXPECT_EQ(put.value().version(), 1U);
    store::Key key;
    key.set_name("hill");
    auto value = co_await on.get(key, kPatience);
    EXPECT_EQ(value.value().octets().size(), std::size_t{1} << 20);
    auto gone = co_await on.delete_(key, kPatience);
    EXPECT_EQ(gone.value().text(), "gone");
    auto none = co_await on.get(key, kPatience);
    EXPECT_EQ(none.status().code(), Code::kNotFound);
    EXPECT_EQ(none.status().message(), "no row hill");
    auto later = co_await on.not_done(key, kPatience);
    EXPECT_EQ(later.status().code(), Code::kUnimplemented);
  }(client));
}

TEST_F(Protobuf, Streams) {
  store::StoreClient client(connect());
  run([](store::StoreClient& on) -> Task<> {
    auto load = (co_await on.load()).value_or_throw();
    for (int i = 100; i < 600; ++i) {
      Status sent = co_await load.write(row_of(std::to_string(i), std::string(300, 'r')), kPatience);
      EXPECT_TRUE(sent.ok());
    }
    auto count = co_await load.finish(kPatience);
    EXPECT_EQ(count.value().rows(), 500U);
    store::Range range;
    range.set_from("200");
    range.set_to("300");
    auto rows = (co_await on.scan_rows(range, kPatience)).value_or_throw();
    int next = 200;
    for (;;) {
      auto row = co_await rows.read(kPatience);
      if (!row) break;
      EXPECT_EQ(row->key().name(), std::to_string(next++));
      EXPECT_EQ(row->notes(0).text(), "scanned");
    }
    EXPECT_EQ(next, 300);
    auto follow = (co_await on.follow()).value_or_throw();
    store::Key key;
    key.set_name("150");
    Status sent = co_await follow.write(key, kPatience);
    EXPECT_TRUE(sent.ok());
    auto value = co_await follow.read(kPatience);
    EXPECT_EQ(value.value().octets(), std::string(300, 'r'));
    Status ended = co_await follow.finish(kPatience);
    EXPECT_TRUE(ended.ok()) << ended.what();
  }(client));
}

// What is no message of that type is refused before the handler sees it.
TEST_F(Protobuf, AnArgumentThatIsNone) {
  Channel channel = connect();
  const Status status =
      run(channel.unary<store::Value>(store::StoreMethods::get(), std::string("\x0a\xff\xff"), kPatience))
          .status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace rpc_test
