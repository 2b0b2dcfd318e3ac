#include "nic/links/direct_publication.h"

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
  constexpr std::uint32_t kOneSided = objects::kRemoteRead | objects::kRemoteWrite | objects::kRemoteAtomic;
  if ((region.access & kOneSided) == 0 || region.null_region) return;
  link::DirectKey key{.rkey = {region.key},
                      .address = region.address,
                      .length = region.length,
                      .host = region.host,
                      .access = region.access,
                      .domain = region.pd->handle};
  if (region.kind != 0) {
    auto exported = memory_.kind(region.kind)
                        ->export_memory(reinterpret_cast<std::uintptr_t>(region.host), region.length);
    if (exported == nullptr) return;
    key.far = true;
    key.file_offset = reinterpret_cast<std::uintptr_t>(exported->description().data());
    exports_.emplace(region.key, std::move(exported));
  } else if (const auto place = shared_files_.find(region.host, region.length)) {
    places_.emplace(region.key, *place);
    tell_file(key, region, 0);
  }
  shm_.publish(key);
}

void DirectPublication::on_region_closed(const objects::MemoryRegion& region) {
  shm_.retire(wire::RKey{region.key});
  exports_.erase(region.key);
  const auto place = places_.find(region.key);
  if (place == places_.end()) return;
  shared_files_.let_go(place->second);
  places_.erase(place);
}

bool DirectPublication::review_exports() {
  shm_.review_copies();
  for (auto exported = exports_.begin(); exported != exports_.end();) {
    if (exported->second->is_there()) {
      ++exported;
      continue;
    }
    shm_.retire(wire::RKey{exported->first});
    exported = exports_.erase(exported);
  }
  return !exports_.empty();
}

void DirectPublication::tell_file(link::DirectKey& key, const objects::MemoryRegion& region,
                                  std::uint64_t skip) const {
  const auto place = places_.find(region.key);
  if (place == places_.end()) return;
  key.file = static_cast<std::uint32_t>(place->second.fd) + 1;
  key.file_offset = place->second.offset + skip;
}

void DirectPublication::on_window_opened(const objects::MemoryWindow& window) {
  if (!is_for_us(window) || window.region->kind != 0) return;
  const std::uint64_t skip = window.address - window.region->address;
  link::DirectKey key{.rkey = {window.key},
                      .address = (window.access & objects::kZeroBased) != 0 ? 0 : window.address,
                      .length = window.length,
                      .host = window.region->host + skip,
                      .access = window.access,
                      .domain = window.pd->handle,
                      .only_through = window.bound_through};
  tell_file(key, *window.region, skip);
  shm_.publish(key);
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
