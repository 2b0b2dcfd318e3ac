// Registered memory: protection domains, regions, windows and the table that finds them by key.
//
// A key is 24 random bits (unique in the table) and 8 bits of variant. The lkey and rkey of a region are
// equal; the owner of a type 2 window chooses its variant at each bind. The lookup compares all 32 bits, so a
// key from before a deregistration or rebind never matches. The table is one open-addressed array: O(1), no
// allocation on the data path.
//
// Threads: several lanes read one table. Lookups and accesses need only the lock of the caller's lane.
// Registering, deregistering, allocating and freeing need the locks of all lanes, so that no access is in
// progress. One lane may bind or invalidate windows while others do lookups. The state of windows therefore
// has its own lock, which accesses to regions never take.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/keys/key_source.h"
#include "base/result.h"
#include "objects/atomic_call.h"
#include "objects/cause.h"
#include "objects/exclusion.h"
#include "objects/frame.h"
#include "wire/numbers.h"

namespace rrdma::objects {

// The bits of IBV_ACCESS_*, with their ABI values.
enum Access : std::uint32_t {
  kLocalWrite = 1u << 0,
  kRemoteWrite = 1u << 1,
  kRemoteRead = 1u << 2,
  kRemoteAtomic = 1u << 3,
  kWindowBind = 1u << 4,
  kZeroBased = 1u << 5,
  kOnDemand = 1u << 6,
  kHugePages = 1u << 7,
  kFlushGlobal = 1u << 8,
  kFlushPersistent = 1u << 9,
  kRelaxedOrdering = 1u << 20,
};
inline constexpr std::uint32_t kAccessAll = kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic |
                                            kWindowBind | kZeroBased | kOnDemand | kHugePages | kFlushGlobal |
                                            kFlushPersistent | kRelaxedOrdering;

struct ProtectionDomain {
  std::uint32_t handle = 0;
  std::atomic<std::uint32_t> users{0};  // regions, windows, QPs, SRQs and AHs in this domain
};

struct MemoryRegion {
  ProtectionDomain* pd = nullptr;
  std::uint8_t* host = nullptr;  // host address of the byte at `address`; null for the null region
  std::uint64_t address = 0;     // first address for work requests (iova; 0 if zero-based)
  std::uint64_t length = 0;
  std::uint32_t access = 0;
  std::uint32_t key = 0;      // lkey and rkey
  std::uint32_t windows = 0;  // windows bound to it
  bool null_region = false;   // reads return zeros, writes are discarded
  std::uint8_t kind = 0;      // MemoryTable::kind(); 0: the CPU can touch it
  // Its owner renews it for other memory (fast registration), and both ends may invalidate it. Only for a
  // table that one lane uses: an invalidation takes that lane's lock alone.
  bool renewable = false;
};

enum class WindowType : std::uint8_t { kType1 = 1, kType2 = 2 };

struct MemoryWindow {
  ProtectionDomain* pd = nullptr;
  WindowType type = WindowType::kType1;
  std::uint32_t key = 0;
  MemoryRegion* region = nullptr;  // null while unbound
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint32_t access = 0;
  wire::Qpn bound_through;  // type 2: only this QP may use it
};

struct RegionRequest {
  ProtectionDomain* pd = nullptr;
  void* host = nullptr;
  std::uint64_t length = 0;
  std::uint64_t address = 0;
  std::uint32_t access = 0;
  bool null_region = false;
  std::uint8_t kind = 0;
};

enum class MemoryError : std::uint8_t {
  kRemoteRightsNeedLocalWrite,  // remote write or atomic without local write
  kUnknownAccessFlags,
  kLengthOverflow,
  kTooManyKeys,
  kStillBound,  // windows are bound to the region
};
std::string_view describe(MemoryError error);

struct Sge {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  wire::LKey lkey;
};

// The result of an access check: the location of the bytes, or the cause of the refusal. Two registers carry
// it.
struct AccessVerdict {
  std::uint8_t* host = nullptr;
  Cause cause = Cause::kNone;
  bool null_region = false;
  std::uint8_t kind = 0;  // not 0: `host` is an address for that kind only
  [[nodiscard]] bool ok() const { return cause == Cause::kNone; }
};

static_assert(sizeof(AccessVerdict) == 16);

class MemoryKind;
class Staging;
struct Inflow;
struct MessageName;

// Hears of every key that opens memory to peers. Called while the table changes; must not call back. For
// windows, the caller is the lane that binds them, which may not be the listener's own.
class KeyListener {
 public:
  virtual ~KeyListener() = default;
  virtual void on_region_opened(const MemoryRegion& region) = 0;
  virtual void on_window_opened(const MemoryWindow& window) = 0;
  // After these return, the key is no longer used through the listener.
  virtual void on_region_closed(const MemoryRegion& region) = 0;
  virtual void on_window_closed(const MemoryWindow& window) = 0;
};

class MemoryTable {
 public:
  static constexpr std::size_t kKeysMax = 1u << 20;
  static constexpr std::uint8_t kKindsMax = 32;

  // `keys` is system_keys() in a real NIC, a seed in a simulation. `windows` guards the state of windows if
  // several lanes use the table. It outlives the table.
  explicit MemoryTable(const KeySource& keys, Exclusion* windows = nullptr);
  explicit MemoryTable(std::uint64_t seed, Exclusion* windows = nullptr)
      : MemoryTable(KeySource(seed), windows) {}
  ~MemoryTable();
  MemoryTable(const MemoryTable&) = delete;
  MemoryTable& operator=(const MemoryTable&) = delete;
  // The listener also hears of existing regions. REQUIRES (both calls): the locks of all lanes.
  void add_listener(KeyListener& listener);
  void remove_listener(KeyListener& listener) { std::erase(listeners_, &listener); }

  // The number of a kind of memory, for RegionRequest; 0 if there are too many. The kind must outlive the
  // table. REQUIRES: the locks of all lanes.
  [[nodiscard]] std::uint8_t add_kind(MemoryKind& kind);
  [[nodiscard]] MemoryKind* kind(std::uint8_t number) const {
    return number == 0 || number > kinds_.size() ? nullptr : kinds_[number - 1u];
  }

  Result<MemoryRegion*, MemoryError> register_region(const RegionRequest& request);
  // Changes the members that are set in `request` (translation, pd, access); the keys stay.
  Result<void, MemoryError> reregister(MemoryRegion& region, const RegionRequest& request);
  Result<void, MemoryError> deregister(MemoryRegion& region);
  // Refuses every access to the region, and unbinds its windows. It stays registered. REQUIRES: the locks of
  // all lanes.
  void revoke(std::uint32_t key);
  // Gives a renewable region other memory and the variant of `key`. False if the key is another region's or
  // the request is refused. REQUIRES: region.renewable.
  bool renew(MemoryRegion& region, std::uint32_t key, const RegionRequest& request);

  Result<MemoryWindow*, MemoryError> allocate_window(ProtectionDomain& pd, WindowType type);
  void free_window(MemoryWindow& window);
  // Binds a window, or with length 0 unbinds a type 1 window (type 2 windows are unbound by invalidation).
  // The low byte of `key` is the variant of the new rkey; the other 24 bits stay. Cause::kNone on success.
  // REQUIRES: the window and the QP are in the same domain.
  Cause bind_window(MemoryWindow& window, MemoryRegion* region, std::uint64_t address, std::uint64_t length,
                    std::uint32_t access, std::uint32_t key, wire::Qpn through);
  // The rkey of a window after a bind that requests `wanted`.
  static std::uint32_t with_variant(std::uint32_t key, std::uint32_t wanted) {
    return (key & ~0xffu) | (wanted & 0xffu);
  }
  // The key after the next bind of a type 1 window.
  static std::uint32_t next_variant(std::uint32_t key) { return with_variant(key, key + 1); }
  // Incremented when a type 1 window loses access to memory. Another lane may still be in the middle of such
  // an access. A revocation takes effect only after every lane has released its lock once.
  [[nodiscard]] std::uint64_t revocations() const { return revocations_.load(std::memory_order_acquire); }
  // Invalidates a bound type 2 window of this QP, or a renewable region. False if the key names neither.
  bool invalidate(wire::RKey key, const ProtectionDomain& pd, wire::Qpn qpn);
  // Destroying a QP invalidates the windows bound through it.
  void invalidate_windows_of(wire::Qpn qpn);

  // Checks the local access of a work request. `need` is 0 or kLocalWrite.
  [[nodiscard]] AccessVerdict check_local(const ProtectionDomain& pd, wire::LKey key, std::uint64_t address,
                                          std::uint64_t length, std::uint32_t need) const;
  // Checks an access by a peer through a QP of this domain. `need`: kRemoteRead, kRemoteWrite, kRemoteAtomic,
  // ...
  [[nodiscard]] AccessVerdict check_remote(const ProtectionDomain& pd, wire::Qpn qpn, wire::RKey key,
                                           std::uint64_t address, std::uint64_t length,
                                           std::uint32_t need) const;

  // The first address that a key grants; 0 for unknown keys.
  [[nodiscard]] std::uint64_t first_address(wire::RKey key) const;
  [[nodiscard]] MemoryRegion* find_region(std::uint32_t key) const;
  // A region that holds these bytes of the process; null: none. Looks at every key.
  [[nodiscard]] const MemoryRegion* find_region_of(const std::uint8_t* host, std::uint64_t length) const;
  [[nodiscard]] MemoryWindow* find_window(std::uint32_t key) const;
  // The region of this domain that holds the address, else the one nearest to it; null if there is none.
  // Looks at every key: for explanations of failures.
  [[nodiscard]] const MemoryRegion* nearest_region(const ProtectionDomain& pd, std::uint64_t address) const;
  // The region or window that had this key in any variant; null if it no longer exists.
  [[nodiscard]] MemoryRegion* find_region_of_any_variant(std::uint32_t key) const;
  [[nodiscard]] MemoryWindow* find_window_of_any_variant(std::uint32_t key) const;
  [[nodiscard]] std::size_t size() const { return used_.load(std::memory_order_relaxed); }
  // REQUIRES: the locks of all lanes.
  template <typename F>
  void for_each_bound_window(F visit) const {
    for (const Entry& entry : entries_) {
      if (entry.kind != Kind::kWindow) continue;
      const auto& window = *static_cast<const MemoryWindow*>(entry.object);
      if (window.region != nullptr) visit(window);
    }
  }

 private:
  enum class Kind : std::uint8_t { kEmpty, kGone, kRegion, kWindow };
  struct Entry {
    std::uint32_t key = 0;  // a window's variant changes during concurrent lookups
    Kind kind = Kind::kEmpty;
    void* object = nullptr;

    [[nodiscard]] std::uint32_t current_key() const { return __atomic_load_n(&key, __ATOMIC_RELAXED); }
    [[nodiscard]] bool in_use() const { return kind == Kind::kRegion || kind == Kind::kWindow; }
  };
  [[nodiscard]] const Entry* find(std::uint32_t key) const;
  Entry* find(std::uint32_t key) { return const_cast<Entry*>(std::as_const(*this).find(key)); }
  [[nodiscard]] void* find_of_any_variant(std::uint32_t key, Kind kind) const;
  void insert(std::uint32_t key, Kind kind, void* object);
  void erase(std::uint32_t key);
  void grow();
  std::uint32_t fresh_key();
  [[nodiscard]] std::size_t slot_of(std::uint32_t key) const { return (key >> 8) & (entries_.size() - 1); }

  [[nodiscard]] AccessVerdict check_window(const MemoryWindow& window, const ProtectionDomain& pd,
                                           wire::Qpn qpn, wire::RKey key, std::uint64_t address,
                                           std::uint64_t length, std::uint32_t need) const;
  [[nodiscard]] static Cause check_bind(const MemoryWindow& window, const MemoryRegion* region,
                                        std::uint64_t address, std::uint64_t length, std::uint32_t access);
  void unbind(MemoryWindow& window);  // REQUIRES: windows_lock_
  void open_region(const MemoryRegion& region);
  void close_region(const MemoryRegion& region);

  std::vector<KeyListener*> listeners_;
  std::vector<MemoryKind*> kinds_;
  Exclusion* const windows_lock_;  // guards the bindings of windows and the window counts of regions
  std::uint32_t bound_type_2_ = 0;
  std::atomic<std::uint64_t> revocations_{0};
  std::vector<Entry> entries_;
  std::atomic<std::size_t> used_{0};  // live entries
  std::size_t dirty_ = 0;             // live and gone entries
  KeySource keys_;
};

// Appends to the frame the spans of `length` bytes, starting `offset` bytes into the gather list. Bytes that
// the CPU cannot touch come through `staging`. On kLocalMemoryFault ask Staging::take_starved() whether to
// try again later. REQUIRES: offset + length <= the list's total length; length <= 64 KiB.
Cause gather(const MemoryTable& table, const ProtectionDomain& pd, std::span<const Sge> list,
             std::uint64_t offset, std::uint32_t length, Frame& frame, Staging& staging,
             const MessageName& message);

// The same for bytes of another kind that a check has already allowed; `ahead` bytes from there on belong to
// the message.
Cause add_staged_span(const AccessVerdict& access, std::uint32_t length, std::uint64_t ahead, Frame& frame,
                      Staging& staging, const MessageName& message);

// Whether every page of the frame's payload is still mapped. If the link discovered a fault, it could only
// drop the frame, and the failure would look like a silent peer.
[[nodiscard]] bool is_mapped(const Frame& frame);

// Writes `data` to the scatter list from `offset` on. With `final`, the last bytes (up to 8) become visible
// after all others, because programs spin on the last byte of a message, and all bytes have arrived when it
// returns.
Cause scatter(const MemoryTable& table, const ProtectionDomain& pd, std::span<const Sge> list,
              std::uint64_t offset, std::span<const std::uint8_t> data, bool final, Staging& staging,
              const Inflow& inflow);

// Copies to registered memory. With `final`, one store writes the last bytes after all others. It is the
// widest aligned word that ends the message, so that a program may also spin on the last word. False on a
// fault.
[[nodiscard]] bool place(std::uint8_t* to, const std::uint8_t* from, std::size_t n, bool final);
// Executes the operation on the word that the check allowed; sets `call.target`. False on a fault.
[[nodiscard]] bool run_atomic(const MemoryTable& table, const AccessVerdict& access, AtomicCall& call);

// Finds the spans of `length` bytes, starting `offset` bytes into the list. False if a key does not permit
// `need`, or belongs to the null region. `far`: the CPU cannot touch some of them.
[[nodiscard]] bool find_spans(const MemoryTable& table, const ProtectionDomain& pd, std::span<const Sge> list,
                              std::uint32_t offset, std::uint32_t length, std::uint32_t need,
                              std::span<MutableSpan> spans, std::size_t& count, bool& far);

std::uint64_t total_length(std::span<const Sge> list);

}  // namespace rrdma::objects
