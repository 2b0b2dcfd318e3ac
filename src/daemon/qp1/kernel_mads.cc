#include "daemon/qp1/kernel_mads.h"

#include <cerrno>

#include "control/verbatim_mads.h"
#include "daemon/event_loop.h"

namespace rrdma::daemon {

KernelMads::KernelMads(MadPort& mads, ConnectionService& connections, Counters& counters)
    : mads_(mads), counters_(counters) {
  connections.set_others([this](const ReceivedMad& mad) { return pass_on(mad); });
}

Subsystem::Verdict KernelMads::handle_message(Client& client, control::Received& message) {
  if (message.type() == control::MessageType::kClaimMads) {
    if (!message.as<control::ClaimMads>() || !message.fds.empty()) return Verdict::kMalformed;
    if (!control::is_root_here(client.acting)) {
      client.fail(message, EPERM, "only root may serve the kernel's RDMA device.");
      return Verdict::kHandled;
    }
    claimant_ = &client;
    (void)client.reply(message, control::Done{});
    return Verdict::kHandled;
  }
  if (message.type() != control::MessageType::kSendMad) return Verdict::kOthers;
  const auto mad = message.as<control::SendMad>();
  if (!mad || !message.fds.empty()) return Verdict::kMalformed;
  if (claimant_ == &client && !control::is_root_here(client.acting)) claimant_ = nullptr;
  if (claimant_ != &client) {
    client.fail(message, EPERM, "only the process that serves the kernel's RDMA device sends its MADs.");
    return Verdict::kHandled;
  }
  if (!mads_.is_own(mad->local)) {
    client.fail(message, EPERM, "the MAD comes from an address that is not this host's.");
    return Verdict::kHandled;
  }
  (void)client.reply(message, control::Done{});
  counters_.add("cm.mads_of_kernel_sent");
  mads_.send({.route = {.local = mad->local, .remote = mad->remote, .interface_index = mad->interface_index},
              .octets = mad->octets},
             EventLoop::now());
  mads_.announce();
  return Verdict::kHandled;
}

void KernelMads::handle_client_gone(Client& client) {
  if (claimant_ == &client) claimant_ = nullptr;
}

bool KernelMads::pass_on(const ReceivedMad& mad) {
  if (claimant_ == nullptr) return false;
  counters_.add("cm.mads_of_kernel_received");
  return claimant_->notify(control::MadArrived{
      .local = mad.addresses.local, .remote = mad.addresses.remote, .octets = mad.octets});
}

}  // namespace rrdma::daemon
