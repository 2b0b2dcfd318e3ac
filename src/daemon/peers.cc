#include "daemon/peers.h"

#include <cerrno>

#include "control/identity.h"
#include "control/recognition_messages.h"

namespace rrdma::daemon {
namespace {

// A frame is at least a BTH and an ICRC.
constexpr std::size_t kFrameMin = 16;
constexpr std::size_t kQpnOffset = 5;

}  // namespace

Subsystem::Verdict Peers::handle_message(Client& client, control::Received& message) {
  switch (message.type()) {
    case control::MessageType::kLookUpSlot: {
      const auto look = message.as<control::LookUpSlot>();
      if (!look) return Verdict::kMalformed;
      look_up(client, message, look->slot);
      return Verdict::kHandled;
    }
    case control::MessageType::kOfferChannel: {
      auto channel = message.as<control::OfferChannel>();
      if (!channel || message.fds.size() > control::kChannelFdsMax) return Verdict::kMalformed;
      offer(client, message, *channel);
      return Verdict::kHandled;
    }
    case control::MessageType::kForwardFrame: {
      auto frame = message.as<control::ForwardFrame>();
      if (!frame) return Verdict::kMalformed;
      forward(client, *frame);
      return Verdict::kHandled;
    }
    default: return Verdict::kOthers;
  }
}

void Peers::look_up(Client& client, const control::Received& request, Slot slot) {
  control::SlotOwner answer;
  if (const Client* owner = slots_.owner_of(slot); owner != nullptr && !owner->doomed()) {
    answer.found = true;
    answer.same_user = control::is_one_user(client.acting, owner->identity);
    if (answer.same_user) {
      answer.pid = static_cast<std::uint32_t>(owner->identity.pid);
      answer.links = owner->hello.links;
      answer.token = owner->token;
    } else {
      answer.links = control::kLinkUdp | (owner->hello.links & control::kLinkArrivals);
    }
    client.watched.set(slot);
  }
  (void)client.reply(request, answer);
}

void Peers::offer(Client& client, const control::Received& request, control::OfferChannel& channel) {
  Client* owner = slots_.owner_of(channel.to_slot);
  if (slots_.owner_of(channel.from_slot) != &client) {
    return client.fail(request, EPERM, "a channel can only be offered from a slot that the program holds.");
  }
  if (owner == nullptr || owner->doomed()) {
    return client.fail(request, ENOENT,
                       "no program on this host holds slot " + std::to_string(channel.to_slot) + ".");
  }
  if (!control::is_one_user(client.acting, owner->identity)) {
    counters_.add("offers.refused_other_user");
    return client.fail(request, EACCES, "shared memory is only used between programs of one user.");
  }
  std::vector<int> fds;
  for (const OwnedFd& fd : request.fds) fds.push_back(fd.get());
  const control::ChannelOffered offered{.from_slot = channel.from_slot,
                                        .to_slot = channel.to_slot,
                                        .pid = static_cast<std::uint32_t>(client.identity.pid),
                                        .uid = client.identity.uid,
                                        .links = client.hello.links,
                                        .token = client.token,
                                        .opaque = std::move(channel.opaque)};
  if (!owner->notify(offered, fds)) {
    counters_.add("offers.undeliverable");
    return client.fail(request, EAGAIN,
                       "the program that holds slot " + std::to_string(channel.to_slot) +
                           " does not read its messages; try again.");
  }
  // Each end watches the slot of the other.
  client.watched.set(channel.to_slot);
  owner->watched.set(channel.from_slot);
  counters_.add("offers.delivered");
  (void)client.reply(request, control::Done{});
}

void Peers::forward(Client& client, control::ForwardFrame& frame) {
  if (frame.content.frame.size() < kFrameMin) return counters_.add("frames.too_short");
  const Slot slot = control::slot_of_qpn(load_be24(frame.content.frame.data() + kQpnOffset));
  // QP1 trusts packets from the network with a correct ICRC, and nothing from programs.
  if (slot == control::kDaemonSlot) return counters_.add("frames.for_daemon");
  Client* owner = slots_.owner_of(slot);
  if (owner == nullptr || owner->doomed()) return counters_.add("frames.for_nobody");
  // Forwarded frames carry unverified addresses, so they must not reach other users.
  if (!control::is_one_pod(client.acting, owner->identity)) return counters_.add("frames.for_other_user");
  const control::FrameForwarded forwarded{.content = std::move(frame.content)};
  counters_.add(owner->notify(forwarded) ? "frames.forwarded" : "frames.dropped");
}

}  // namespace rrdma::daemon
