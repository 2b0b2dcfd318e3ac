// NameList: names that are added once and never removed, up to a limit. Readers follow it by index.
//
// Threads: any, without locks; a child may use it after fork().
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace rrdma {

class NameList {
 public:
  static constexpr std::size_t kNamesMax = 1024;  // further ones are dropped
  static constexpr std::size_t kOctetsMax = 256;  // longer names are dropped: a part of one would mislead

  constexpr NameList() = default;
  NameList(const NameList&) = delete;
  NameList& operator=(const NameList&) = delete;

  void add(std::string_view name) {
    if (name.empty() || name.size() > kOctetsMax) return;
    for (std::atomic<const std::string*>& place : places_) {
      const std::string* known = place.load(std::memory_order_acquire);
      if (known == nullptr) {
        auto added = std::make_unique<const std::string>(name);
        if (place.compare_exchange_strong(known, added.get(), std::memory_order_acq_rel)) {
          (void)added.release();  // for the rest of the process
          return;
        }
      }
      if (*known == name) return;
    }
  }
  // Null: not so many yet. Lives as long as the process.
  [[nodiscard]] const std::string* at(std::size_t index) const {
    return index < kNamesMax ? places_[index].load(std::memory_order_acquire) : nullptr;
  }

 private:
  std::array<std::atomic<const std::string*>, kNamesMax> places_{};
};

}  // namespace rrdma
