// The event numbers equal those that librdmacm and the kernel share.
#include "preload/rdma_cm/event_kind.h"

#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

namespace rrdma::rdma_cm::event_kind_test {

constexpr bool is(EventKind kind, rdma_cm_event_type number) {
  return static_cast<std::uint32_t>(kind) == static_cast<std::uint32_t>(number);
}

TEST(EventKind, HasTheNumbersOfLibrdmacm) {
  static_assert(is(EventKind::kAddressResolved, RDMA_CM_EVENT_ADDR_RESOLVED));
  static_assert(is(EventKind::kAddressError, RDMA_CM_EVENT_ADDR_ERROR));
  static_assert(is(EventKind::kRouteResolved, RDMA_CM_EVENT_ROUTE_RESOLVED));
  static_assert(is(EventKind::kConnectRequest, RDMA_CM_EVENT_CONNECT_REQUEST));
  static_assert(is(EventKind::kConnectResponse, RDMA_CM_EVENT_CONNECT_RESPONSE));
  static_assert(is(EventKind::kUnreachable, RDMA_CM_EVENT_UNREACHABLE));
  static_assert(is(EventKind::kRejected, RDMA_CM_EVENT_REJECTED));
  static_assert(is(EventKind::kEstablished, RDMA_CM_EVENT_ESTABLISHED));
  static_assert(is(EventKind::kDisconnected, RDMA_CM_EVENT_DISCONNECTED));
  static_assert(is(EventKind::kDeviceRemoval, RDMA_CM_EVENT_DEVICE_REMOVAL));
  static_assert(is(EventKind::kMulticastJoin, RDMA_CM_EVENT_MULTICAST_JOIN));
  static_assert(is(EventKind::kMulticastError, RDMA_CM_EVENT_MULTICAST_ERROR));
  static_assert(is(EventKind::kAddressChange, RDMA_CM_EVENT_ADDR_CHANGE));
  static_assert(is(EventKind::kTimeWaitExit, RDMA_CM_EVENT_TIMEWAIT_EXIT));
}

}  // namespace rrdma::rdma_cm::event_kind_test
