#include "preload/rdma_cm/refusals.h"

#include "base/format.h"
#include "host/explain.h"
#include "wire/address_text.h"

namespace rrdma::rdma_cm {
namespace {

using wire::RejectReason;
using wire::SidrStatus;

std::string peer_text(const IpAddress& peer) {
  return formatted("{} port {}", wire::to_text(peer.gid), peer.port);
}

std::string_view remedy(RejectReason reason) {
  switch (reason) {
    case RejectReason::kInvalidServiceId:
      return "Start the server there, or give its address and port; both sides need the same port space.";
    case RejectReason::kConsumerDefined: return "The server called rdma_reject: its own log says why.";
    case RejectReason::kNoQp:
    case RejectReason::kNoResources: return "Let the server rdma_listen with a larger backlog, or try later.";
    case RejectReason::kTimeout:
      return "Let this program handle its events sooner; `rrdma doctor --peer` asks the other host.";
    case RejectReason::kStaleConnection:
      return "The peer still holds the old connection: try again in a moment.";
    case RejectReason::kInvalidGid:
      return "Bind to an address of the interface that reaches the peer; `rrdma gids` lists them.";
    case RejectReason::kInvalidPathMtu: return "Set the same MTU on both interfaces.";
    case RejectReason::kInsufficientResponderResources:
      return "Ask for less initiator_depth and responder_resources in rdma_conn_param.";
    default:
      return "The REQ was not to the peer's taste: its log says more, `rrdma decode -v` shows the REQ.";
  }
}

}  // namespace

std::string rejection_sentence(const IpAddress& peer, RejectReason reason) {
  return formatted("{} rejected the connection with reason {}: {}. {}", peer_text(peer),
                   static_cast<unsigned>(reason), wire::describe(reason), remedy(reason));
}

std::string look_up_sentence(const IpAddress& peer, SidrStatus status) {
  return formatted("{} refused the look-up of its queue pair with status {}: {}. {}", peer_text(peer),
                   static_cast<unsigned>(status), wire::describe(status),
                   status == SidrStatus::kServiceNotSupported ? remedy(RejectReason::kInvalidServiceId)
                                                              : remedy(RejectReason::kConsumerDefined));
}

std::string unreachable_sentence(const IpAddress& peer) {
  return formatted(
      "nobody answered at {}. Check that the host is up and has a RoCE device, and that UDP port 4791 "
      "passes: "
      "`rrdma doctor --peer {}`.",
      peer_text(peer), wire::to_text(peer.gid));
}

void explain_rejection(const IpAddress& peer, RejectReason reason) {
  host::ExplainFacts facts;
  facts.kind = host::ExplainFacts::kRejected;
  facts.reason = static_cast<std::uint16_t>(reason);
  facts.peer = peer.gid;
  host::explain_failure("rdma_connect", rejection_sentence(peer, reason), facts);
}

}  // namespace rrdma::rdma_cm
