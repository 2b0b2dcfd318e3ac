#include "host/addresses/lid.h"

#include <algorithm>

#include "base/format.h"
#include "wire/address_text.h"

namespace rrdma::host {
namespace {

constexpr std::uint32_t kLidBits = 0xffff;
// Shorter prefixes reserve the subnet's own address and its broadcast address (RFC 3021).
constexpr unsigned kPointToPointPrefix = 31;

std::uint32_t number_of(wire::Ipv4Address address) {
  std::uint32_t number = 0;
  for (const std::uint8_t octet : address.octets) number = number << 8 | octet;
  return number;
}

wire::Ipv4Address address_of(std::uint32_t number) {
  return {{static_cast<std::uint8_t>(number >> 24), static_cast<std::uint8_t>(number >> 16),
           static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)}};
}

const GidEntry* first_ipv4(const std::vector<GidEntry>& gids) {
  const auto found = std::find_if(gids.begin(), gids.end(),
                                  [](const GidEntry& entry) { return entry.valid && entry.gid.is_ipv4(); });
  return found != gids.end() ? &*found : nullptr;
}

std::string why_not(LidRefusal refusal, const GidEntry& own, std::uint16_t lid) {
  if (refusal == LidRefusal::kZero) {
    return "dlid is 0, which names no port: start the peer with `rrdma run --lid` too, on an interface with "
           "an IPv4 address, or set is_global = 1 and grh.dgid.";
  }
  const std::uint32_t named = (number_of({own.gid.ipv4()}) & ~kLidBits) | lid;
  return formatted(
      "dlid 0x{:x} would be {}, which is {} {}/{}: give both ends addresses of one subnet (`rrdma gids` "
      "lists them), or set is_global = 1 and grh.dgid.",
      lid, wire::to_text(address_of(named)),
      refusal == LidRefusal::kElsewhere ? "outside the subnet of" : "no host's address in the subnet of",
      wire::to_text(own.gid), own.prefix_length);
}

}  // namespace

Result<wire::Ipv4Address, LidRefusal> address_of_lid(wire::Ipv4Address own, unsigned prefix_length,
                                                     std::uint16_t lid) {
  if (lid == 0) return Failure{LidRefusal::kZero};
  const std::uint32_t here = number_of(own);
  const std::uint32_t named = (here & ~kLidBits) | lid;
  if (named == here) return own;
  const std::uint32_t host_bits = prefix_length >= 32 ? 0 : ~std::uint32_t{0} >> prefix_length;
  if (((named ^ here) & ~host_bits) != 0) return Failure{LidRefusal::kElsewhere};
  const std::uint32_t host = named & host_bits;
  if (prefix_length < kPointToPointPrefix && (host == 0 || host == host_bits))
    return Failure{LidRefusal::kNoHost};
  return address_of(named);
}

std::uint16_t lid_of_port(const std::vector<GidEntry>& gids) {
  const GidEntry* own = first_ipv4(gids);
  return own == nullptr ? std::uint16_t{0}
                        : static_cast<std::uint16_t>(number_of({own->gid.ipv4()}) & kLidBits);
}

Result<LidRoute, std::string> route_by_lid(const std::vector<GidEntry>& gids, std::string_view interface,
                                           std::uint16_t lid) {
  const GidEntry* own = first_ipv4(gids);
  if (own == nullptr) {
    return Failure{
        formatted("dlid 0x{:x} cannot be resolved, because {} has no IPv4 address, and LIDs are made of "
                  "those: give it one, or set is_global = 1 and grh.dgid.",
                  lid, interface)};
  }
  const auto remote = address_of_lid({own->gid.ipv4()}, own->prefix_length, lid);
  if (!remote) return Failure{why_not(remote.error(), *own, lid)};
  return LidRoute{.remote = wire::gid_of(*remote), .local_gid_index = own->index};
}

}  // namespace rrdma::host
