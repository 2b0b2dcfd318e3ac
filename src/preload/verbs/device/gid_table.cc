// The port's GIDs and its one P_Key.
#include <infiniband/verbs.h>
#include <net/if_arp.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "base/format.h"
#include "host/addresses/gid_choice.h"
#include "host/explain.h"
#include "preload/verbs/device/context.h"
#include "preload/verbs/device/device_attributes.h"
#include "preload/verbs/device/gid_table.h"
#include "preload/verbs/device/limits.h"
#include "preload/verbs/injected_calls.h"
#include "preload/verbs/real_library.h"
#include "wire/numbers.h"

namespace rrdma::verbs {
namespace {

int check_port(std::string_view call, std::uint32_t port) {
  if (port == kPort) return 0;
  return host::fail(EINVAL, call, formatted("port_num is {}, and the device has one port, number 1.", port));
}

// The values of ibv_query_gid_type in the private header of libibverbs.
enum SysfsGidType { kGidTypeIbOrRoceV1 = 0, kGidTypeRoceV2 = 1 };

void fill_entry(const host::Device& device, const host::GidEntry& entry, ibv_gid_entry& out) {
  std::memcpy(out.gid.raw, entry.gid.octets.data(), sizeof out.gid.raw);
  out.gid_index = entry.index;
  out.port_num = kPort;
  out.gid_type = IBV_GID_TYPE_ROCE_V2;
  out.ndev_ifindex = device.identity().interface_index;
}

std::string beyond_table(std::int64_t index, const host::Device& device) {
  return formatted("GID index {} is beyond the table of {} entries on {}; {}.", index, kGidTableLength,
                   device.identity().name, host::usable_gids_text(device.gids(), {}));
}

bool find_gid(const host::Device& device, std::uint32_t index, host::GidEntry& out) {
  const auto gids = device.gids();
  if (index >= gids.size() || !gids[index].valid) return false;
  out = gids[index];
  return true;
}

// Programs search the table from its beginning. One that asks for an entry without the entry before it was
// given an index, and an empty one is a mistake.
void note_choice(std::string_view call, Context& context, std::uint32_t index, bool found) {
  if (index <= context.gids_searched) {
    if (index == context.gids_searched) context.gids_searched = index + 1;
    return;
  }
  if (found) return;
  context.empty_gid_asked = static_cast<int>(index);
  host::explain_call(host::Severity::kInfo, call,
                     formatted("GID index {} is empty on {}; {}.", index, context.nic_device->identity().name,
                               host::usable_gids_text(context.nic_device->gids(), {})));
}

}  // namespace

wire::Gid gid_of(const ibv_gid& gid) {
  wire::Gid out;
  std::memcpy(out.octets.data(), gid.raw, sizeof gid.raw);
  return out;
}

int find_gid_index(const host::Device& device, const wire::Gid& gid) {
  for (const host::GidEntry& entry : device.gids()) {
    if (entry.valid && entry.gid == gid) return static_cast<int>(entry.index);
  }
  return -1;
}

}  // namespace rrdma::verbs

using namespace rrdma;
using namespace rrdma::verbs;

RRDMA_VERBS int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  if (!is_own(context)) RRDMA_PASS_ON(-1, ibv_query_gid, "IBVERBS_1.1", context, port, index, gid);
  if (inject("ibv_query_gid", context) != 0) return -1;
  if (check_port("ibv_query_gid", port) != 0) return -1;
  if (index < 0 || index >= kGidTableLength) {
    host::fail(EINVAL, "ibv_query_gid", beyond_table(index, *own(context).nic_device));
    return -1;
  }
  // An empty entry is all zero, not an error.
  host::GidEntry entry;
  const bool found = find_gid(*own(context).nic_device, static_cast<std::uint32_t>(index), entry);
  if (!found) entry = {};
  note_choice("ibv_query_gid", own(context), static_cast<std::uint32_t>(index), found);
  std::memcpy(gid->raw, entry.gid.octets.data(), sizeof gid->raw);
  return 0;
}

RRDMA_VERBS int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                                  ibv_gid_entry* entry, std::uint32_t flags, std::size_t entry_size) {
  constexpr const char* kCall = "ibv_query_gid_ex";
  if (!is_own(context)) {
    RRDMA_PASS_ON(EOPNOTSUPP, _ibv_query_gid_ex, "IBVERBS_1.11", context, port, index, entry, flags,
                  entry_size);
  }
  if (const int error = inject(kCall, context); error != 0) return error;
  if (const int error = check_port(kCall, port); error != 0) return error;
  if (flags != 0) return host::fail(EINVAL, kCall, "flags is reserved and must be 0.");
  if (index >= kGidTableLength)
    return host::fail(EINVAL, kCall, beyond_table(index, *own(context).nic_device));
  host::GidEntry found;
  if (!find_gid(*own(context).nic_device, index, found)) {
    note_choice(kCall, own(context), index, false);
    errno = ENODATA;
    return ENODATA;
  }
  note_choice(kCall, own(context), index, true);
  ibv_gid_entry full{};
  fill_entry(*own(context).nic_device, found, full);
  std::memset(entry, 0, entry_size);
  std::memcpy(entry, &full, std::min(entry_size, sizeof full));
  return 0;
}

RRDMA_VERBS ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                                         std::size_t entries_max, std::uint32_t flags,
                                         std::size_t entry_size) {
  constexpr const char* kCall = "ibv_query_gid_table";
  if (!is_own(context)) {
    RRDMA_PASS_ON(-EOPNOTSUPP, _ibv_query_gid_table, "IBVERBS_1.11", context, entries, entries_max, flags,
                  entry_size);
  }
  if (const int error = inject(kCall, context); error != 0) return -error;
  if (flags != 0) return -host::fail(EINVAL, kCall, "flags is reserved and must be 0.");
  const host::Device& device = *own(context).nic_device;
  std::size_t count = 0;
  auto* out = reinterpret_cast<std::uint8_t*>(entries);
  for (const host::GidEntry& gid : device.gids()) {
    if (!gid.valid) continue;
    if (count == entries_max) return -host::fail(EINVAL, kCall, "there are more GIDs than max_entries.");
    ibv_gid_entry full{};
    fill_entry(device, gid, full);
    std::memset(out + count * entry_size, 0, entry_size);
    std::memcpy(out + count * entry_size, &full, std::min(entry_size, sizeof full));
    ++count;
  }
  return static_cast<ssize_t>(count);
}

// Not in the public header, but ibv_devinfo and pyverbs call it.
RRDMA_VERBS int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, int* type);
int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned index, int* type) {
  if (!is_own(context)) RRDMA_PASS_ON(-1, ibv_query_gid_type, nullptr, context, port, index, type);
  host::GidEntry entry;
  if (check_port("ibv_query_gid_type", port) != 0) return -1;
  if (index >= kGidTableLength) {
    host::fail(EINVAL, "ibv_query_gid_type", beyond_table(index, *own(context).nic_device));
    return -1;
  }
  // sysfs has no type for an empty entry, which reads as the first value.
  *type = find_gid(*own(context).nic_device, index, entry) ? kGidTypeRoceV2 : kGidTypeIbOrRoceV1;
  return 0;
}

RRDMA_VERBS int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) {
  if (!is_own(context)) RRDMA_PASS_ON(-1, ibv_query_pkey, "IBVERBS_1.1", context, port, index, pkey);
  if (inject("ibv_query_pkey", context) != 0) return -1;
  if (check_port("ibv_query_pkey", port) != 0) return -1;
  if (index != 0) {
    host::fail(EINVAL, "ibv_query_pkey", "the P_Key table has one entry, index 0.");
    return -1;
  }
  *pkey = htons(wire::kDefaultPKey);
  return 0;
}

RRDMA_VERBS int ibv_get_pkey_index(ibv_context* context, std::uint8_t port, __be16 pkey) {
  if (!is_own(context)) RRDMA_PASS_ON(-1, ibv_get_pkey_index, "IBVERBS_1.5", context, port, pkey);
  if (check_port("ibv_get_pkey_index", port) != 0) return -1;
  if (ntohs(pkey) == wire::kDefaultPKey) return 0;
  host::fail(EINVAL, "ibv_get_pkey_index", "the only P_Key is 0xffff.");
  return -1;
}
