// EventKind: rdma_cm_event_type of librdmacm. Its header cannot be included beside the kernel's
// rdma/rdma_user_cm.h, so a test compares the numbers.
#pragma once

#include <cstdint>

namespace rrdma::rdma_cm {

enum class EventKind : std::uint32_t {
  kAddressResolved = 0,
  kAddressError = 1,
  kRouteResolved = 2,
  kConnectRequest = 4,
  kConnectResponse = 5,
  kUnreachable = 7,
  kRejected = 8,
  kEstablished = 9,
  kDisconnected = 10,
  kDeviceRemoval = 11,
  kMulticastJoin = 12,
  kMulticastError = 13,
  kAddressChange = 14,
  kTimeWaitExit = 15,
};

}  // namespace rrdma::rdma_cm
