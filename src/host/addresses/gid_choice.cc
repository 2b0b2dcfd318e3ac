#include "host/addresses/gid_choice.h"

#include "base/format.h"
#include "wire/address_text.h"

namespace rrdma::host {
namespace {

// Lower is better.
int distance(const wire::Gid& gid, const wire::Gid& destination) {
  if (destination.is_zero()) return gid.is_ipv4() ? 0 : gid.is_link_local() ? 2 : 1;
  const bool same_family = gid.is_ipv4() == destination.is_ipv4();
  const bool same_scope = gid.is_link_local() == destination.is_link_local();
  return (same_family ? 0 : 2) + (same_scope ? 0 : 1);
}

}  // namespace

const GidEntry* choose_gid(std::span<const GidEntry> gids, const wire::Gid& destination) {
  const GidEntry* best = nullptr;
  for (const GidEntry& entry : gids) {
    if (!entry.valid) continue;
    if (best == nullptr || distance(entry.gid, destination) < distance(best->gid, destination)) best = &entry;
  }
  return best;
}

std::string usable_gids_text(std::span<const GidEntry> gids, const wire::Gid& destination) {
  const GidEntry* best = choose_gid(gids, destination);
  if (best == nullptr) return "the device has no GID: give its interface an address";
  return formatted("use {} ({})", best->index, wire::to_text(best->gid));
}

}  // namespace rrdma::host
