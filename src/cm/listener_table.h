// ListenerTable: the listeners by service ID and local address. A listener also counts the load that callers
// cause: requests that its owner has not answered, and accepted connections that have received no RTU.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/intrusive_list.h"
#include "base/result.h"
#include "cm/connection.h"
#include "cm/parameters.h"
#include "cm/settings.h"

namespace rrdma::cm {

struct Listener {
  ListenerId id;
  ListenParameters parameters;
  std::size_t unanswered = 0;
  std::size_t half_open = 0;
  IntrusiveList<Connection, &Connection::listener_hook> unanswered_list;
  IntrusiveList<Connection, &Connection::listener_hook> half_open_list;
};

// The IP-CM header before the private data, for services that have one.
template <typename Request>  // REQ or SIDR_REQ
[[nodiscard]] std::optional<wire::IpCmHeader> ip_header_of(const Request& request) {
  if (!wire::ip_service_of(request.service_id).has_value()) return std::nullopt;
  const auto header = wire::parse_ip_cm_header(request.private_data);
  if (!header.ok()) return std::nullopt;
  return *header;
}

class ListenerTable {
 public:
  // Refuses a second listener for the same service and the same addresses.
  Result<ListenerId, Error> create(const ListenParameters& parameters, std::size_t listeners_max);
  [[nodiscard]] Listener* find(ListenerId id) const;
  // REQUIRES: both lists of the listener are empty.
  void destroy(Listener& listener);

  // The most specific listener for a call to this service. Without an IP-CM header, only listeners of kind
  // kEverything match.
  [[nodiscard]] Listener* match(std::uint64_t service_id, const std::optional<wire::IpCmHeader>& ip) const;
  [[nodiscard]] std::size_t size() const { return by_id_.size(); }

 private:
  std::unordered_map<std::uint32_t, std::unique_ptr<Listener>> by_id_;
  std::unordered_map<std::uint64_t, std::vector<Listener*>> by_service_;
  std::uint32_t next_id_ = 1;
};

}  // namespace rrdma::cm
