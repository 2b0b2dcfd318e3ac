// A program that uses only the installed library: calls its own greeting service.
#include <greeting/greeting.rrdma.h>

#include <cstdio>
#include <string>

namespace {

using namespace rrdma;

class Greeter : public greeting::GreeterService {
 public:
  comm::Task<rpc::Result<greeting::Text>> greet(rpc::Call&, const people::Name& name) override {
    greeting::Text text;
    text.set_text("hello, " + name.name());
    co_return text;
  }
};

comm::Task<std::string> ask(comm::Context& context, std::string address) {
  auto connected = co_await rpc::connect(context, address, {}, std::chrono::seconds(5));
  greeting::GreeterClient client(std::move(connected).value_or_throw());
  people::Name name;
  name.set_name("stranger");
  auto text = co_await client.greet(name, std::chrono::seconds(5));
  co_return std::move(text).value_or_throw().text();
}

}  // namespace

int main() {
  comm::Context context = comm::Context::open().value_or_throw();
  Greeter greeter;
  rpc::Server server(context);
  server.add(greeter);
  std::string host;
  for (const std::string& address : context.device().addresses)
    if (address.find(':') == std::string::npos) host = address;
  const rpc::Status listening = server.listen(host + ":0");
  if (!listening.ok()) return std::fprintf(stderr, "%s\n", listening.what().c_str()), 1;
  std::puts(context.run(ask(context, std::string(server.address()))).c_str());
}
