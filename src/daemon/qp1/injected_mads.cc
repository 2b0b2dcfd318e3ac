#include "daemon/qp1/injected_mads.h"

#include "wire/cm_mad.h"

namespace rrdma::daemon {

InjectedMads::InjectedMads(MadPort& port, ConnectionService& connections, FaultRules& rules)
    : port_(port), connections_(connections), rules_(rules) {
  port.set_filter([this](const cm::MadAddresses& addresses, Octets mad) { return admits(addresses, mad); });
  connections.set_timewait_length([this](Client* program, const wire::Gid& remote) {
    return rules_.timewait(program, remote, EventLoop::now());
  });
}

bool InjectedMads::admits(const cm::MadAddresses& addresses, Octets octets) {
  if (!rules_.may_strike_mads()) return true;
  const auto mad = wire::parse_cm_mad(octets);
  if (!mad) return true;
  const auto attribute = wire::attribute_of(mad->message);
  const auto injection = rules_.inject(attribute, addresses.remote,
                                       connections_.concerned_by(addresses, *mad), EventLoop::now());
  if (!injection.lost) return true;
  const auto* request = std::get_if<wire::CmReq>(&mad->message);
  if (injection.reason == 0 || request == nullptr) return false;
  const wire::CmRej refusal{.remote_comm_id = request->local_comm_id,
                            .kind = wire::CmMessageKind::kReq,
                            .reason = static_cast<wire::RejectReason>(injection.reason)};
  port_.send({.route = {.local = addresses.local,
                        .remote = addresses.remote,
                        .interface_index = addresses.interface_index},
              .octets = wire::emit_cm_mad({.transaction_id = mad->transaction_id, .message = refusal})},
             EventLoop::now());
  return false;
}

}  // namespace rrdma::daemon
