#include "nic/direct_publication.h"

namespace rrdma::nic {

void DirectPublication::handle_qp_changed(const transport::QueuePair& qp, bool destroyed) {
  if (qp.type != transport::QpType::kRc) return;
  shm_.retire(qp.qpn);
  if (destroyed || !qp.can_receive() || !qp.path.direct) return;
  shm_.publish(link::DirectQp{.qpn = qp.qpn,
                              .peer_qpn = qp.remote,
                              .peer = peers_.party_of(qp.path.peer),
                              .access = qp.access_flags,
                              .domain = qp.pd->handle});
}

void DirectPublication::on_region_opened(const objects::MemoryRegion& region) {
  constexpr std::uint32_t kOneSided = objects::kRemoteRead | objects::kRemoteWrite;
  if ((region.access & kOneSided) == 0 || region.null_region) return;
  shm_.publish(link::DirectKey{.rkey = {region.key},
                               .address = region.address,
                               .length = region.length,
                               .host = region.host,
                               .access = region.access,
                               .domain = region.pd->handle});
}

void DirectPublication::on_window_opened(const objects::MemoryWindow& window) {
  if (!is_for_us(window)) return;
  shm_.publish(link::DirectKey{.rkey = {window.key},
                               .address = (window.access & objects::kZeroBased) != 0 ? 0 : window.address,
                               .length = window.length,
                               .host = window.region->host + (window.address - window.region->address),
                               .access = window.access,
                               .domain = window.pd->handle,
                               .only_through = window.bound_through});
}

void DirectPublication::on_window_closed(const objects::MemoryWindow& window) {
  if (is_for_us(window)) shm_.retire(wire::RKey{window.key});
}

void DirectPublication::publish_own_windows_only(const objects::MemoryTable& memory) {
  memory.for_each_bound_window([this](const objects::MemoryWindow& window) {
    if (window.type == objects::WindowType::kType1) on_window_closed(window);
  });
  alone_ = false;
}

}  // namespace rrdma::nic
