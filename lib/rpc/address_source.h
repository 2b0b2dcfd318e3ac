// AddressSource: one of the addresses that a Client was given: an address, a name with several addresses, or
// a file with one address in each line. It knows the addresses of the last time that it was read; the client
// decides when to look again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rrdma/rpc/status.h"

namespace rrdma::rpc {
inline namespace v0 {
namespace detail {

class AddressSource {
 public:
  enum class Kind : std::uint8_t { kAddress, kName, kFile };
  explicit AddressSource(std::string target);

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] const std::string& target() const { return target_; }
  [[nodiscard]] const std::vector<std::string>& addresses() const { return addresses_; }
  void set(std::vector<std::string> addresses) { addresses_ = std::move(addresses); }

  // Reads a file if it is another than the last time. Returns true if its addresses may have changed. On an
  // error, which `status` tells, the addresses stay.
  bool read(Status& status);

 private:
  // Two states of a file with the same stamp are the same.
  struct Stamp {
    std::uint64_t device = 0, number = 0;
    std::int64_t size = -1, changed_ns = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };

  std::string target_;
  Kind kind_;
  std::vector<std::string> addresses_;
  Stamp stamp_;
};

// The addresses in the text of a file: one in each line. A # begins a comment.
[[nodiscard]] std::vector<std::string> addresses_in(std::string_view text);

}  // namespace detail
}  // namespace v0
}  // namespace rrdma::rpc
