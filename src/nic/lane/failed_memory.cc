#include "nic/lane/failed_memory.h"

#include "base/format.h"

namespace rrdma::nic {
namespace {

using host::ExplainFacts;
using objects::Cause;

bool is_local(Cause cause) {
  return cause == Cause::kLocalKeyUnknown || cause == Cause::kLocalKeyOtherDomain ||
         cause == Cause::kLocalOutOfBounds || cause == Cause::kLocalNotWritable;
}

bool is_remote(Cause cause) {
  return cause == Cause::kRemoteKeyUnknown || cause == Cause::kRemoteKeyOtherDomain ||
         cause == Cause::kRemoteOutOfBounds || cause == Cause::kRemoteAccessNotGranted;
}

// The first element that gives this cause.
const objects::Sge* refused_element(const objects::MemoryTable& memory, const objects::ProtectionDomain& pd,
                                    const transport::FailedRequest& failed) {
  for (const objects::Sge& element : failed.elements) {
    if (element.length == 0) continue;
    const std::uint32_t need =
        failed.cause == Cause::kLocalNotWritable ? std::uint32_t{objects::kLocalWrite} : 0;
    if (memory.check_local(pd, element.lkey, element.address, element.length, need).cause == failed.cause)
      return &element;
  }
  return nullptr;
}

void describe_region(const objects::MemoryTable& memory, const objects::ProtectionDomain& pd,
                     std::uint32_t key, std::uint64_t address, ExplainFacts& facts) {
  const objects::MemoryRegion* region = memory.find_region(key);
  facts.region = region != nullptr ? ExplainFacts::kNamedByKey : ExplainFacts::kNearest;
  // A window's key names no region: the window may be anywhere within one, so nothing true can be said.
  if (region == nullptr && memory.find_window(key) == nullptr) region = memory.nearest_region(pd, address);
  if (region == nullptr || region->null_region) {
    facts.region = ExplainFacts::kNoRegion;
    return;
  }
  facts.region_key = region->key;
  facts.region_address = region->address;
  facts.region_length = region->length;
  facts.region_access = region->access;
}

struct Access {
  std::uint64_t address;
  std::uint64_t length;
  std::uint32_t key;
  std::string_view key_name;
};

Access access_of(const ExplainFacts& facts) {
  if (is_local(static_cast<Cause>(facts.cause)))
    return {facts.local_address, facts.local_length, facts.lkey, "lkey"};
  return {facts.remote_address, facts.length, facts.rkey, "rkey"};
}

std::string region_text(const ExplainFacts& facts) {
  return formatted("MR {:#010x} ({} bytes at {:#x})", facts.region_key, facts.region_length,
                   facts.region_address);
}

// "[+65500, +65600)", relative to the region; a negative start is before it.
std::string range_text(const ExplainFacts& facts, const Access& access) {
  const auto from = static_cast<std::int64_t>(access.address - facts.region_address);
  const auto to = from + static_cast<std::int64_t>(access.length);
  return formatted("[{}{}, {}{})", from < 0 ? "" : "+", from, to < 0 ? "" : "+", to);
}

std::string overshoot_text(const ExplainFacts& facts, const Access& access) {
  const std::string what = formatted("; bytes {}", range_text(facts, access));
  if (access.address < facts.region_address) {
    return formatted("{} begin {} bytes before {}", what, facts.region_address - access.address,
                     region_text(facts));
  }
  const std::uint64_t past = access.address - facts.region_address + access.length - facts.region_length;
  return formatted("{} run {} bytes past the end of {}", what, past, region_text(facts));
}

// The key names nothing: the region that holds the address shows which key is meant.
std::string unknown_key_text(const ExplainFacts& facts, const Access& access) {
  const bool begins_inside =
      access.address >= facts.region_address && access.address - facts.region_address < facts.region_length;
  if (begins_inside) {
    return formatted("; the address lies in {}, whose {} is {:#010x}, not {:#010x}", region_text(facts),
                     access.key_name, facts.region_key, access.key);
  }
  return formatted("; no MR holds address {:#x}, the nearest is {}", access.address, region_text(facts));
}

}  // namespace

void add_memory(const objects::MemoryTable& memory, const objects::ProtectionDomain& pd,
                const transport::FailedRequest& failed, ExplainFacts& facts) {
  if (is_local(failed.cause)) {
    const objects::Sge* element = refused_element(memory, pd, failed);
    if (element == nullptr) return;
    facts.local_address = element->address;
    facts.local_length = element->length;
    facts.lkey = element->lkey.value;
    describe_region(memory, pd, element->lkey.value, element->address, facts);
  } else if (failed.side == transport::FailedRequest::Side::kRefused && is_remote(failed.cause)) {
    describe_region(memory, pd, failed.rkey.value, failed.remote_address, facts);
  }
}

std::uint32_t right_needed(const ExplainFacts& facts) {
  using objects::CompletionOpcode;
  switch (static_cast<CompletionOpcode>(facts.opcode)) {
    case CompletionOpcode::kWrite:
    case CompletionOpcode::kAtomicWrite: return objects::kRemoteWrite;
    case CompletionOpcode::kRead: return objects::kRemoteRead;
    case CompletionOpcode::kCompareSwap:
    case CompletionOpcode::kFetchAdd: return objects::kRemoteAtomic;
    default: return 0;
  }
}

std::string rights_text(std::uint32_t access) {
  constexpr std::pair<std::uint32_t, std::string_view> kNames[] = {
      {objects::kLocalWrite, "LOCAL_WRITE"},   {objects::kRemoteWrite, "REMOTE_WRITE"},
      {objects::kRemoteRead, "REMOTE_READ"},   {objects::kRemoteAtomic, "REMOTE_ATOMIC"},
      {objects::kFlushGlobal, "FLUSH_GLOBAL"}, {objects::kFlushPersistent, "FLUSH_PERSISTENT"},
  };
  std::string text;
  for (const auto& [bit, name] : kNames) {
    if ((access & bit) != 0) text.append(text.empty() ? "" : " | ").append(name);
  }
  return text.empty() ? "none" : text;
}

std::string memory_text(const ExplainFacts& facts) {
  if (facts.region == ExplainFacts::kNoRegion) return "";
  const Access access = access_of(facts);
  switch (static_cast<Cause>(facts.cause)) {
    case Cause::kLocalOutOfBounds:
    case Cause::kRemoteOutOfBounds: return overshoot_text(facts, access);
    case Cause::kLocalKeyUnknown:
    case Cause::kRemoteKeyUnknown: return unknown_key_text(facts, access);
    case Cause::kLocalNotWritable:
      return formatted("; {} has the rights {}", region_text(facts), rights_text(facts.region_access));
    case Cause::kRemoteAccessNotGranted: {
      const std::uint32_t needed = right_needed(facts);
      return formatted("; {} has the rights {}{}", region_text(facts), rights_text(facts.region_access),
                       needed == 0 ? "" : ", and the request needs " + rights_text(needed));
    }
    case Cause::kLocalKeyOtherDomain:
    case Cause::kRemoteKeyOtherDomain: return "; it names " + region_text(facts);
    default: return "";
  }
}

}  // namespace rrdma::nic
