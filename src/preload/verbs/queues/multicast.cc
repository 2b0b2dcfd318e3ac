// Multicast groups of UD QPs. The engine delivers a group's datagrams to all attached QPs. The daemon joins
// the slot's socket to the group (IGMP, MLD) with the first QP and leaves it with the last.
#include <infiniband/verbs.h>

#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "control/client/daemon_client.h"
#include "control/messages.h"
#include "host/explain.h"
#include "preload/verbs/device/gid_table.h"
#include "preload/verbs/object_validity.h"
#include "preload/verbs/objects.h"
#include "preload/verbs/queues/multicast.h"
#include "preload/verbs/real_library.h"

namespace rrdma::verbs {
namespace {

// The number of attached QPs of this process, by slot and group.
struct Memberships {
  std::mutex mutex;
  std::map<std::pair<std::uint8_t, wire::Gid>, unsigned> counts;
};

Memberships& memberships() {
  static auto* const all = new Memberships;
  return *all;
}

int check(const char* call, Qp& qp, const wire::Gid& group) {
  if (own(qp.abi()->context).forked()) return refuse_forked(call);
  if (qp.abi()->qp_type != IBV_QPT_UD)
    return host::fail(EINVAL, call, "only QPs of type UD receive multicast.");
  if (!group.is_multicast()) return host::fail(EINVAL, call, "the GID is not that of a multicast group.");
  return 0;
}

}  // namespace

void leave_groups(Qp& qp) {
  std::vector<wire::Gid> groups;
  {
    const std::lock_guard lock(memberships().mutex);
    for (const auto& [membership, count] : memberships().counts) groups.push_back(membership.second);
  }
  for (const wire::Gid& group : groups) {
    if (qp.multicast_groups == 0) return;
    ibv_gid gid;
    std::memcpy(gid.raw, group.octets.data(), sizeof gid.raw);
    static_cast<void>(ibv_detach_mcast(qp.abi(), &gid, 0));
  }
}

}  // namespace rrdma::verbs

using namespace rrdma;
using namespace rrdma::verbs;

RRDMA_VERBS int ibv_attach_mcast(ibv_qp* abi, const ibv_gid* gid, std::uint16_t lid) {
  constexpr const char* kCall = "ibv_attach_mcast";
  const ObjectValidity validity = validity_of(abi);
  if (validity == ObjectValidity::kForeign)
    RRDMA_PASS_ON(EOPNOTSUPP, ibv_attach_mcast, "IBVERBS_1.1", abi, gid, lid);
  if (const int error = refuse_unless_live(kCall, abi, validity); error != 0) return error;
  Qp& qp = own(abi);
  const wire::Gid group = gid_of(*gid);
  if (const int error = check(kCall, qp, group); error != 0) return error;
  const control::Slot slot = control::slot_of_qpn(abi->qp_num);
  const std::lock_guard lock(memberships().mutex);
  unsigned& count = memberships().counts[{slot, group}];
  if (count == 0) {
    const std::uint32_t interface_index = own(abi->context).nic_device->identity().interface_index;
    if (const auto joined = qp.runtime->daemon().join_group(slot, interface_index, group); !joined) {
      memberships().counts.erase({slot, group});
      return host::fail(joined.error().error, kCall, joined.error().sentence);
    }
  }
  ++count;
  const std::lock_guard lane(qp.lane->mutex());
  if (qp.lane->engine().attach_multicast(*qp.engine_qp, group)) {
    ++qp.multicast_groups;
  } else {
    --count;  // already attached: attaching twice is no error
  }
  return 0;
}

RRDMA_VERBS int ibv_detach_mcast(ibv_qp* abi, const ibv_gid* gid, std::uint16_t lid) {
  constexpr const char* kCall = "ibv_detach_mcast";
  const ObjectValidity validity = validity_of(abi);
  if (validity == ObjectValidity::kForeign)
    RRDMA_PASS_ON(EOPNOTSUPP, ibv_detach_mcast, "IBVERBS_1.1", abi, gid, lid);
  if (const int error = refuse_unless_live(kCall, abi, validity); error != 0) return error;
  Qp& qp = own(abi);
  const wire::Gid group = gid_of(*gid);
  if (const int error = check(kCall, qp, group); error != 0) return error;
  const std::lock_guard lock(memberships().mutex);
  {
    const std::lock_guard lane(qp.lane->mutex());
    if (!qp.lane->engine().detach_multicast(*qp.engine_qp, group)) {
      return host::fail(EINVAL, kCall, "the QP is not attached to that multicast group.");
    }
    --qp.multicast_groups;
  }
  const control::Slot slot = control::slot_of_qpn(abi->qp_num);
  const auto found = memberships().counts.find({slot, group});
  if (found == memberships().counts.end() || --found->second != 0) return 0;
  memberships().counts.erase(found);
  const std::uint32_t interface_index = own(abi->context).nic_device->identity().interface_index;
  (void)qp.runtime->daemon().leave_group(slot, interface_index, group);
  return 0;
}
