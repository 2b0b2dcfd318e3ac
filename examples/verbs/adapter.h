// Adapter: an open device with its protection domain, and the GID by which peers reach it.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>

#include "examples/verbs/narrator.h"

namespace examples {

struct CloseDevice {
  void operator()(ibv_context* context) const { ibv_close_device(context); }
};
struct DeallocDomain {
  void operator()(ibv_pd* domain) const { ibv_dealloc_pd(domain); }
};

struct Adapter {
  std::unique_ptr<ibv_context, CloseDevice> context;
  std::unique_ptr<ibv_pd, DeallocDomain> domain;
  ibv_port_attr port{};
  int gid_index = 0;
  ibv_gid gid{};
};

// Steps: the device list, the device, its port, the protection domain. An empty `name` selects the first
// device. A `gid_index` of -1 selects the first IPv4 address, as RoCE v2.
Adapter open_adapter(const std::string& name, int gid_index, Narrator& narrator);

// The text of a GID, as an IPv4 address if it is one.
std::string text_of(const ibv_gid& gid);

inline constexpr int kPort = 1;
inline unsigned octets_of(ibv_mtu mtu) { return 128u << mtu; }

}  // namespace examples
