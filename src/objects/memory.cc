#include "objects/memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/fault_table.h"
#include "base/guarded_copy.h"
#include "objects/staging.h"

namespace rrdma::objects {
namespace {

constexpr std::size_t kEntriesAtStart = 64;

// Reads of the null region return these bytes. Frames point into them, so they cover the largest payload of a
// frame.
constexpr std::size_t kZeroesOctets = 64 * 1024;
const std::uint8_t* zeroes() {
  static const std::vector<std::uint8_t> page(kZeroesOctets);
  return page.data();
}

bool in_bounds(std::uint64_t address, std::uint64_t length, std::uint64_t base, std::uint64_t size) {
  return address >= base && length <= size && address - base <= size - length;
}

// One past the end may be 2^64, which wraps to 0.
bool wraps(std::uint64_t address, std::uint64_t length) {
  return address + length < address && address + length != 0;
}

std::uint64_t base_address(const RegionRequest& request) {
  return (request.access & kZeroBased) != 0 ? 0 : request.address;
}

Result<void, MemoryError> check_request(const RegionRequest& request) {
  if ((request.access & ~kAccessAll) != 0) return Failure{MemoryError::kUnknownAccessFlags};
  if ((request.access & (kRemoteWrite | kRemoteAtomic)) != 0 && (request.access & kLocalWrite) == 0) {
    return Failure{MemoryError::kRemoteRightsNeedLocalWrite};
  }
  if (wraps(request.address, request.length) ||
      wraps(reinterpret_cast<std::uintptr_t>(request.host), request.length)) {
    return Failure{MemoryError::kLengthOverflow};
  }
  return {};
}

}  // namespace

std::string_view describe(MemoryError error) {
  switch (error) {
    case MemoryError::kRemoteRightsNeedLocalWrite:
      return "remote write and remote atomic rights need IBV_ACCESS_LOCAL_WRITE too";
    case MemoryError::kUnknownAccessFlags:
      return "the access flags contain bits that this device does not know";
    case MemoryError::kLengthOverflow: return "address + length runs past the end of the address space";
    case MemoryError::kTooManyKeys: return "the device has no memory keys left; deregister some memory first";
    case MemoryError::kStillBound:
      return "memory windows are still bound to the region; unbind or free them first";
  }
  return "unknown error";
}

MemoryTable::MemoryTable(const KeySource& keys, Exclusion* windows)
    : windows_lock_(windows), entries_(kEntriesAtStart), keys_(keys) {}

MemoryTable::~MemoryTable() {
  for (auto& entry : entries_) {
    if (entry.kind == Kind::kRegion) delete static_cast<MemoryRegion*>(entry.object);
    if (entry.kind == Kind::kWindow) delete static_cast<MemoryWindow*>(entry.object);
  }
}

const MemoryTable::Entry* MemoryTable::find(std::uint32_t key) const {
  const std::size_t mask = entries_.size() - 1;
  for (std::size_t i = slot_of(key);; i = (i + 1) & mask) {
    const Entry& entry = entries_[i];
    if (entry.kind == Kind::kEmpty) return nullptr;
    if (entry.kind != Kind::kGone && entry.current_key() == key) return &entry;
  }
}

MemoryRegion* MemoryTable::find_region(std::uint32_t key) const {
  const Entry* entry = find(key);
  return entry != nullptr && entry->kind == Kind::kRegion ? static_cast<MemoryRegion*>(entry->object)
                                                          : nullptr;
}

const MemoryRegion* MemoryTable::nearest_region(const ProtectionDomain& pd, std::uint64_t address) const {
  const MemoryRegion* nearest = nullptr;
  std::uint64_t distance = ~std::uint64_t{0};
  for (const Entry& entry : entries_) {
    if (entry.kind != Kind::kRegion) continue;
    const auto& region = *static_cast<const MemoryRegion*>(entry.object);
    if (region.pd != &pd || region.null_region || region.length == 0) continue;
    const std::uint64_t last = region.address + (region.length - 1);
    const std::uint64_t away = address < region.address ? region.address - address
                               : address > last         ? address - last
                                                        : 0;
    if (nearest != nullptr && away >= distance) continue;
    nearest = &region;
    distance = away;
  }
  return nearest;
}

void* MemoryTable::find_of_any_variant(std::uint32_t key, Kind kind) const {
  const std::size_t mask = entries_.size() - 1;
  for (std::size_t i = slot_of(key); entries_[i].kind != Kind::kEmpty; i = (i + 1) & mask) {
    if (entries_[i].kind == kind && entries_[i].current_key() >> 8 == key >> 8) return entries_[i].object;
  }
  return nullptr;
}

MemoryRegion* MemoryTable::find_region_of_any_variant(std::uint32_t key) const {
  return static_cast<MemoryRegion*>(find_of_any_variant(key, Kind::kRegion));
}

MemoryWindow* MemoryTable::find_window_of_any_variant(std::uint32_t key) const {
  return static_cast<MemoryWindow*>(find_of_any_variant(key, Kind::kWindow));
}

const MemoryRegion* MemoryTable::find_region_of(const std::uint8_t* host, std::uint64_t length) const {
  const auto first = reinterpret_cast<std::uintptr_t>(host);
  for (const Entry& entry : entries_) {
    if (entry.kind != Kind::kRegion) continue;
    const auto& region = *static_cast<const MemoryRegion*>(entry.object);
    const auto begin = reinterpret_cast<std::uintptr_t>(region.host);
    if (first >= begin && length <= region.length && first - begin <= region.length - length) return &region;
  }
  return nullptr;
}

MemoryWindow* MemoryTable::find_window(std::uint32_t key) const {
  const Entry* entry = find(key);
  return entry != nullptr && entry->kind == Kind::kWindow ? static_cast<MemoryWindow*>(entry->object)
                                                          : nullptr;
}

std::uint64_t MemoryTable::first_address(wire::RKey key) const {
  if (const MemoryRegion* region = find_region(key.value)) return region->address;
  const Excluded others(windows_lock_);
  const MemoryWindow* window = find_window(key.value);
  return window == nullptr || (window->access & kZeroBased) != 0 ? 0 : window->address;
}

void MemoryTable::insert(std::uint32_t key, Kind kind, void* object) {
  if ((dirty_ + 1) * 2 > entries_.size()) grow();
  const std::size_t mask = entries_.size() - 1;
  std::size_t i = slot_of(key);
  while (entries_[i].in_use()) i = (i + 1) & mask;
  if (entries_[i].kind == Kind::kEmpty) ++dirty_;
  entries_[i] = {key, kind, object};
  ++used_;
}

void MemoryTable::erase(std::uint32_t key) {
  Entry* entry = find(key);
  RRDMA_ASSERT(entry != nullptr);
  entry->kind = Kind::kGone;
  entry->object = nullptr;
  --used_;
}

void MemoryTable::grow() {
  std::vector<Entry> old(std::max(kEntriesAtStart, std::bit_ceil((used_ + 1) * 4)));
  old.swap(entries_);
  used_ = dirty_ = 0;
  for (const auto& entry : old) {
    if (entry.in_use()) insert(entry.key, entry.kind, entry.object);
  }
}

// The upper 24 bits are unique regardless of the variant, because a window's variant changes.
std::uint32_t MemoryTable::fresh_key() {
  const std::size_t mask = entries_.size() - 1;
  for (;;) {
    const std::uint32_t key = keys_.next();
    if (key >> 8 == 0) continue;  // programs leave 0 in fields that they forgot to set
    bool taken = false;
    for (std::size_t i = slot_of(key); entries_[i].kind != Kind::kEmpty; i = (i + 1) & mask) {
      taken |= entries_[i].kind != Kind::kGone && entries_[i].key >> 8 == key >> 8;
    }
    if (!taken) return key;
  }
}

void MemoryTable::add_listener(KeyListener& listener) {
  listeners_.push_back(&listener);
  for (const Entry& entry : entries_) {
    if (entry.kind == Kind::kRegion)
      listener.on_region_opened(*static_cast<const MemoryRegion*>(entry.object));
  }
}

std::uint8_t MemoryTable::add_kind(MemoryKind& kind) {
  if (kinds_.size() == kKindsMax) return 0;
  kinds_.push_back(&kind);
  return static_cast<std::uint8_t>(kinds_.size());
}

void MemoryTable::open_region(const MemoryRegion& region) {
  for (KeyListener* listener : listeners_) listener->on_region_opened(region);
}

void MemoryTable::close_region(const MemoryRegion& region) {
  for (KeyListener* listener : listeners_) listener->on_region_closed(region);
}

Result<MemoryRegion*, MemoryError> MemoryTable::register_region(const RegionRequest& request) {
  if (auto checked = check_request(request); !checked) return Failure{checked.error()};
  if (used_ >= kKeysMax) return Failure{MemoryError::kTooManyKeys};
  auto* region = new MemoryRegion{.pd = request.pd,
                                  .host = static_cast<std::uint8_t*>(request.host),
                                  .address = base_address(request),
                                  .length = request.length,
                                  .access = request.access,
                                  .key = fresh_key(),
                                  .null_region = request.null_region,
                                  .kind = request.kind};
  insert(region->key, Kind::kRegion, region);
  ++request.pd->users;
  open_region(*region);
  return region;
}

Result<void, MemoryError> MemoryTable::reregister(MemoryRegion& region, const RegionRequest& request) {
  if (auto checked = check_request(request); !checked) return checked;
  if (region.windows != 0) return Failure{MemoryError::kStillBound};
  close_region(region);
  --region.pd->users;
  ++request.pd->users;
  region.pd = request.pd;
  region.host = static_cast<std::uint8_t*>(request.host);
  region.address = base_address(request);
  region.length = request.length;
  region.access = request.access;
  region.kind = request.kind;
  open_region(region);
  return {};
}

bool MemoryTable::renew(MemoryRegion& region, std::uint32_t key, const RegionRequest& request) {
  RRDMA_ASSERT(region.renewable);
  if (key >> 8 != region.key >> 8) return false;
  if (!reregister(region, request)) return false;
  find(region.key)->key = key;  // its slot depends only on the 24 bits that do not change
  region.key = key;
  return true;
}

Result<void, MemoryError> MemoryTable::deregister(MemoryRegion& region) {
  if (region.windows != 0) return Failure{MemoryError::kStillBound};
  close_region(region);
  erase(region.key);
  --region.pd->users;
  delete &region;
  return {};
}

void MemoryTable::revoke(std::uint32_t key) {
  MemoryRegion* const region = find_region(key);
  if (region == nullptr) return;
  const Excluded others(windows_lock_);
  for (const Entry& entry : entries_) {
    if (entry.kind != Kind::kWindow) continue;
    auto& window = *static_cast<MemoryWindow*>(entry.object);
    if (window.region == region) unbind(window);
  }
  close_region(*region);
  region->length = 0;
  region->access = 0;
}

Result<MemoryWindow*, MemoryError> MemoryTable::allocate_window(ProtectionDomain& pd, WindowType type) {
  if (used_ >= kKeysMax) return Failure{MemoryError::kTooManyKeys};
  auto* window = new MemoryWindow{.pd = &pd, .type = type, .key = fresh_key()};
  insert(window->key, Kind::kWindow, window);
  ++pd.users;
  return window;
}

void MemoryTable::free_window(MemoryWindow& window) {
  {
    const Excluded others(windows_lock_);
    unbind(window);
  }
  erase(window.key);
  --window.pd->users;
  delete &window;
}

Cause MemoryTable::check_bind(const MemoryWindow& window, const MemoryRegion* region, std::uint64_t address,
                              std::uint64_t length, std::uint32_t access) {
  // IBTA o10-37.2.30, o10-37.2.40: a type 2 window can be bound only while free, and not with length 0.
  if (window.type == WindowType::kType2 && (window.region != nullptr || length == 0))
    return Cause::kWindowBindRefused;
  if (window.type == WindowType::kType1 && (access & kZeroBased) != 0)
    return Cause::kWindowBindRefused;  // o10-36.2.2
  if (length == 0) return Cause::kNone;
  if (region == nullptr || region->null_region || region->pd != window.pd) return Cause::kWindowBindRefused;
  if ((region->access & kWindowBind) == 0) return Cause::kWindowBindRefused;
  if ((access & ~(kRemoteRead | kRemoteWrite | kRemoteAtomic | kZeroBased)) != 0)
    return Cause::kWindowBindRefused;
  if ((access & (kRemoteWrite | kRemoteAtomic)) != 0 && (region->access & kLocalWrite) == 0)
    return Cause::kWindowBindRefused;
  if ((region->access & kZeroBased) != 0) return Cause::kWindowBindRefused;
  if (!in_bounds(address, length, region->address, region->length)) return Cause::kWindowBindRefused;
  return Cause::kNone;
}

Cause MemoryTable::bind_window(MemoryWindow& window, MemoryRegion* region, std::uint64_t address,
                               std::uint64_t length, std::uint32_t access, std::uint32_t key,
                               wire::Qpn through) {
  const Excluded others(windows_lock_);
  if (const Cause cause = check_bind(window, region, address, length, access); cause != Cause::kNone)
    return cause;
  unbind(window);
  const std::uint32_t bound_key = with_variant(window.key, key);
  // The slot depends only on the 24 bits that do not change.
  __atomic_store_n(&find(window.key)->key, bound_key, __ATOMIC_RELAXED);
  window.key = bound_key;
  window.region = length != 0 ? region : nullptr;
  window.address = address;
  window.length = length;
  window.access = access;
  window.bound_through = window.type == WindowType::kType2 ? through : wire::Qpn();
  if (window.region == nullptr) return Cause::kNone;
  ++window.region->windows;
  if (window.type == WindowType::kType2) ++bound_type_2_;
  for (KeyListener* listener : listeners_) listener->on_window_opened(window);
  return Cause::kNone;
}

void MemoryTable::unbind(MemoryWindow& window) {
  if (window.region == nullptr) return;
  for (KeyListener* listener : listeners_) listener->on_window_closed(window);
  --window.region->windows;
  window.region = nullptr;
  if (window.type == WindowType::kType2) {
    --bound_type_2_;
  } else {
    revocations_.fetch_add(1, std::memory_order_release);
  }
}

bool MemoryTable::invalidate(wire::RKey key, const ProtectionDomain& pd, wire::Qpn qpn) {
  if (MemoryRegion* region = find_region(key.value); region != nullptr && region->renewable) {
    if (region->pd != &pd) return false;
    close_region(*region);
    region->length = 0;
    region->access = 0;
    return true;
  }
  const Excluded others(windows_lock_);
  MemoryWindow* window = find_window(key.value);
  if (window == nullptr || window->type != WindowType::kType2 || window->region == nullptr) return false;
  if (window->pd != &pd || window->bound_through != qpn) return false;
  unbind(*window);
  return true;
}

void MemoryTable::invalidate_windows_of(wire::Qpn qpn) {
  const Excluded others(windows_lock_);
  if (bound_type_2_ == 0) return;
  for (auto& entry : entries_) {
    if (entry.kind != Kind::kWindow) continue;
    auto* window = static_cast<MemoryWindow*>(entry.object);
    if (window->type == WindowType::kType2 && window->region != nullptr && window->bound_through == qpn)
      unbind(*window);
  }
}

namespace {

// Integer arithmetic: an implicit region begins at address 0, and arithmetic on a null pointer is undefined.
std::uint8_t* host_address(const MemoryRegion& region, std::uint64_t address) {
  return reinterpret_cast<std::uint8_t*>(reinterpret_cast<std::uintptr_t>(region.host) +
                                         (address - region.address));
}

}  // namespace

AccessVerdict MemoryTable::check_local(const ProtectionDomain& pd, wire::LKey key, std::uint64_t address,
                                       std::uint64_t length, std::uint32_t need) const {
  const MemoryRegion* region = find_region(key.value);
  if (region == nullptr) return {.cause = Cause::kLocalKeyUnknown};
  if (region->pd != &pd) return {.cause = Cause::kLocalKeyOtherDomain};
  if (region->null_region) return {.null_region = true};
  if (!in_bounds(address, length, region->address, region->length))
    return {.cause = Cause::kLocalOutOfBounds};
  if ((region->access & need) != need) return {.cause = Cause::kLocalNotWritable};
  return {.host = host_address(*region, address), .kind = region->kind};
}

AccessVerdict MemoryTable::check_remote(const ProtectionDomain& pd, wire::Qpn qpn, wire::RKey key,
                                        std::uint64_t address, std::uint64_t length,
                                        std::uint32_t need) const {
  const Entry* entry = find(key.value);
  if (entry == nullptr) return {.cause = Cause::kRemoteKeyUnknown};
  if (entry->kind == Kind::kRegion) {
    const auto& region = *static_cast<const MemoryRegion*>(entry->object);
    if (region.pd != &pd) return {.cause = Cause::kRemoteKeyOtherDomain};
    if (region.null_region) return {.cause = Cause::kRemoteAccessNotGranted};
    if ((region.access & need) != need) return {.cause = Cause::kRemoteAccessNotGranted};
    if (!in_bounds(address, length, region.address, region.length))
      return {.cause = Cause::kRemoteOutOfBounds};
    return {.host = host_address(region, address), .kind = region.kind};
  }
  return check_window(*static_cast<const MemoryWindow*>(entry->object), pd, qpn, key, address, length, need);
}

AccessVerdict MemoryTable::check_window(const MemoryWindow& window, const ProtectionDomain& pd, wire::Qpn qpn,
                                        wire::RKey key, std::uint64_t address, std::uint64_t length,
                                        std::uint32_t need) const {
  const Excluded others(windows_lock_);
  // The window was rebound after the lookup: this is an old key.
  if (window.region == nullptr || window.key != key.value) return {.cause = Cause::kRemoteKeyUnknown};
  if (window.pd != &pd) return {.cause = Cause::kRemoteKeyOtherDomain};
  if (window.type == WindowType::kType2 && window.bound_through != qpn)
    return {.cause = Cause::kRemoteKeyOtherQueuePair};
  if ((window.access & need) != need) return {.cause = Cause::kRemoteAccessNotGranted};
  const std::uint64_t base = (window.access & kZeroBased) != 0 ? 0 : window.address;
  if (!in_bounds(address, length, base, window.length)) return {.cause = Cause::kRemoteOutOfBounds};
  return {.host = host_address(*window.region, window.address + (address - base)),
          .kind = window.region->kind};
}

namespace {

// Checks the bytes of an element from `offset` on. An element that wraps around 2^64 is also out of bounds
// behind the wrap, although a zero-based region has such addresses.
AccessVerdict check_element(const MemoryTable& table, const ProtectionDomain& pd, const Sge& sge,
                            std::uint64_t offset, std::uint64_t length, std::uint32_t need) {
  const std::uint64_t address = sge.address + offset;
  if (address < sge.address) return {.cause = Cause::kLocalOutOfBounds};
  return table.check_local(pd, sge.lkey, address, length, need);
}

struct Placement {
  std::uint8_t* to;
  const std::uint8_t* from;
  std::size_t octets;
};

// A release store orders the copy before it on every machine; no fence is needed.
template <typename Word>
RRDMA_MAY_FAULT void copy_word_last(const Placement& all) {
  const std::size_t rest = all.octets - sizeof(Word);
  std::memcpy(all.to, all.from, rest);
  Word word;
  std::memcpy(&word, all.from + rest, sizeof word);
  __atomic_store_n(reinterpret_cast<Word*>(all.to + rest), word, __ATOMIC_RELEASE);
}

void copy_end_last(void* argument) {
  const auto& all = *static_cast<const Placement*>(argument);
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(all.to) + all.octets;
  if (end % 8 == 0 && all.octets >= 8) {
    copy_word_last<std::uint64_t>(all);
  } else if (end % 4 == 0 && all.octets >= 4) {
    copy_word_last<std::uint32_t>(all);
  } else if (end % 2 == 0 && all.octets >= 2) {
    copy_word_last<std::uint16_t>(all);
  } else {
    copy_word_last<std::uint8_t>(all);
  }
}

constexpr std::size_t kSmallestPage = 4096;

}  // namespace

bool is_mapped(const Frame& frame) {
  for (std::size_t i = 0; i < frame.span_count; ++i) {
    const auto& [octets, length] = frame.spans[i];
    for (std::size_t at = 0; at < length; at += kSmallestPage)
      if (!guarded_peek(octets + at)) return false;
    const std::size_t in_page = reinterpret_cast<std::uintptr_t>(octets) % kSmallestPage;
    if (in_page + length > kSmallestPage && !guarded_peek(octets + length - 1)) return false;
  }
  return true;
}

Cause add_staged_span(const AccessVerdict& access, std::uint32_t length, std::uint64_t ahead, Frame& frame,
                      Staging& staging, const MessageName& message) {
  const std::uint8_t* const from = staging.fetch(access.kind, message, access.host, length, ahead);
  if (from == nullptr) return Cause::kLocalMemoryFault;
  frame.add_span(from, length);
  frame.staged = true;
  return Cause::kNone;
}

Cause gather(const MemoryTable& table, const ProtectionDomain& pd, std::span<const Sge> list,
             std::uint64_t offset, std::uint32_t length, Frame& frame, Staging& staging,
             const MessageName& message) {
  for (const Sge& sge : list) {
    if (length == 0) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const auto part = static_cast<std::uint32_t>(std::min<std::uint64_t>(sge.length - offset, length));
    const AccessVerdict verdict = check_element(table, pd, sge, offset, part, 0);
    if (!verdict.ok()) return verdict.cause;
    RRDMA_ASSERT(!verdict.null_region || part <= kZeroesOctets);
    if (verdict.kind == 0) [[likely]] {
      frame.add_span(verdict.null_region ? zeroes() : verdict.host, part);
    } else {
      const std::uint64_t left = sge.length - offset;
      const std::uint64_t ahead = check_element(table, pd, sge, offset, left, 0).ok() ? left : part;
      if (const Cause cause = add_staged_span(verdict, part, ahead, frame, staging, message);
          cause != Cause::kNone)
        return cause;
    }
    length -= part;
    offset = 0;
  }
  RRDMA_ASSERT(length == 0);
  return Cause::kNone;
}

bool place(std::uint8_t* to, const std::uint8_t* from, std::size_t n, bool final) {
  if (n == 0) return true;
  if (!final) return guarded_copy(to, from, n);
  if (n <= kSmallCopyMax) return small_copy_end_last(to, from, n);
  Placement all{to, from, n};
  return guarded_call(copy_end_last, &all);
}

bool place_staged(const AccessVerdict& access, std::span<const std::uint8_t> data, bool final,
                  Staging& staging, const Inflow& inflow) {
  if (access.kind != 0) return staging.store(access.kind, inflow, access.host, data, final);
  // The end of the message lies here, and its beginning may lie elsewhere.
  if (!staging.finish(inflow)) return false;
  return access.null_region || place(access.host, data.data(), data.size(), final);
}

Cause scatter(const MemoryTable& table, const ProtectionDomain& pd, std::span<const Sge> list,
              std::uint64_t offset, std::span<const std::uint8_t> data, bool final, Staging& staging,
              const Inflow& inflow) {
  if (data.empty() && final && staging.pending() && !staging.finish(inflow)) return Cause::kLocalMemoryFault;
  for (const Sge& sge : list) {
    if (data.empty()) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const std::size_t part = std::min<std::size_t>(sge.length - offset, data.size());
    const AccessVerdict verdict = check_element(table, pd, sge, offset, part, kLocalWrite);
    if (!verdict.ok()) return verdict.cause;
    if (!place(verdict, data.first(part), final && part == data.size(), staging, inflow)) {
      return Cause::kLocalMemoryFault;
    }
    data = data.subspan(part);
    offset = 0;
  }
  RRDMA_ASSERT(data.empty());
  return Cause::kNone;
}

bool run_atomic(const MemoryTable& table, const AccessVerdict& access, AtomicCall& call) {
  call.target = reinterpret_cast<std::uint64_t*>(access.host);
  if (access.kind != 0) [[unlikely]]
    return table.kind(access.kind)->run_atomic(call);
  return guarded_call(run_atomic, &call);
}

bool find_spans(const MemoryTable& table, const ProtectionDomain& pd, std::span<const Sge> list,
                std::uint32_t offset, std::uint32_t length, std::uint32_t need, std::span<MutableSpan> spans,
                std::size_t& count, bool& far) {
  for (const Sge& sge : list) {
    const std::uint32_t skipped = std::min(offset, sge.length);
    const std::uint32_t taken = std::min(length, sge.length - skipped);
    offset -= skipped;
    if (taken == 0) continue;
    const AccessVerdict access = table.check_local(pd, sge.lkey, sge.address + skipped, taken, need);
    if (!access.ok() || access.null_region) return false;
    if (access.kind != 0) [[unlikely]]
      far = true;
    spans[count++] = {access.host, taken};
    length -= taken;
  }
  return true;
}

std::uint64_t total_length(std::span<const Sge> list) {
  if (list.size() == 1) return list[0].length;  // the vector loop below costs 35 instructions
  std::uint64_t sum = 0;
  for (const Sge& sge : list) sum += sge.length;
  return sum;
}

}  // namespace rrdma::objects
