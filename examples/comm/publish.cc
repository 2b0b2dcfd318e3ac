// Publish and subscribe over multicast. `publish subscribe GROUP COUNT` prints COUNT messages. `publish
// publish GROUP WORDS` sends the words ten times a second. Members need not know each other: a group is an
// address such as 239.9.9.9.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "rrdma/comm/comm.h"

using namespace rrdma::comm;

namespace {

Task<> subscribe(Context& context, const char* group, int count) {
  Datagram datagram = Datagram::open(context, ":0").value_or_throw();
  Membership membership = (co_await datagram.join(group)).value_or_throw();
  std::printf("listening to %s\n", group);
  std::fflush(stdout);
  for (int i = 0; i < count; ++i) {
    Packet packet = (co_await datagram.receive()).value_or_throw();
    std::printf("%.*s\n", static_cast<int>(packet.size()), packet.text().data());
    std::fflush(stdout);
  }
}

Task<> publish(Context& context, const char* group, std::string_view words) {
  Datagram datagram = Datagram::open(context, ":0").value_or_throw();
  Membership membership = (co_await datagram.join(group)).value_or_throw();
  Buffer buffer = context.pool().take(words.size()).value_or_throw();
  std::memcpy(buffer.data(), words.data(), words.size());
  for (;;) {
    buffer = (co_await datagram.send(membership.group(), std::move(buffer))).value_or_throw();
    (co_await context.sleep(std::chrono::milliseconds(100))).value();
  }
}

}  // namespace

int main(int count, char** words) try {
  const std::string_view role = count == 4 ? words[1] : "";
  if (role != "subscribe" && role != "publish")
    return std::fprintf(stderr, "usage: publish subscribe GROUP COUNT | publish GROUP WORDS\n"), 2;
  Context context = Context::open().value_or_throw();
  context.run(role == "subscribe" ? subscribe(context, words[2], std::atoi(words[3]))
                                  : publish(context, words[2], words[3]));
} catch (const std::exception& failure) {
  return std::fprintf(stderr, "%s\n", failure.what()), 1;
}
