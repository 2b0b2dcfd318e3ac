// Metadata: name and value pairs that are sent with an argument or a result. The order is kept; names may
// repeat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rrdma/rpc/visibility.h"

namespace rrdma::rpc {
inline namespace v0 {

class RRDMA_RPC_API Metadata {
 public:
  using Pair = std::pair<std::string, std::string>;
  // Names have 1 to 255 bytes. The encoded pairs together have at most kMaxMetadata bytes; otherwise the call
  // fails with kResourceExhausted.
  Metadata& add(std::string name, std::string value) {
    pairs_.emplace_back(std::move(name), std::move(value));
    return *this;
  }
  // Returns the first value with this name.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const {
    for (const Pair& pair : pairs_) {
      if (pair.first == name) return std::string_view(pair.second);
    }
    return std::nullopt;
  }
  [[nodiscard]] bool empty() const { return pairs_.empty(); }
  [[nodiscard]] std::size_t size() const { return pairs_.size(); }
  [[nodiscard]] auto begin() const { return pairs_.begin(); }
  [[nodiscard]] auto end() const { return pairs_.end(); }
  void clear() { pairs_.clear(); }
  friend bool operator==(const Metadata& a, const Metadata& b) { return a.pairs_ == b.pairs_; }

 private:
  std::vector<Pair> pairs_;
};

// The largest encoded metadata of a frame, in bytes.
inline constexpr std::size_t kMaxMetadata = 2048;

}  // namespace v0
}  // namespace rrdma::rpc
