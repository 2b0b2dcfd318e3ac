#include "cm/listener_table.h"

#include <algorithm>

#include "base/assert.h"

namespace rrdma::cm {
namespace {

bool matches(const AddressMatch& match, const std::optional<wire::IpCmHeader>& ip) {
  using Kind = AddressMatch::Kind;
  if (match.kind == Kind::kEverything) return true;
  if (!ip.has_value()) return false;
  switch (match.kind) {
    case Kind::kExactIp: return ip->destination == match.address;
    case Kind::kAnyIpv4: return ip->version == wire::IpVersion::kIpv4;
    case Kind::kAnyIpv6: return ip->version == wire::IpVersion::kIpv6;
    case Kind::kAnyIp:
    case Kind::kEverything: return true;
  }
  return false;
}

}  // namespace

Result<ListenerId, Error> ListenerTable::create(const ListenParameters& parameters,
                                                std::size_t listeners_max) {
  if (by_id_.size() >= listeners_max) return Failure{Error::kTooManyListeners};
  auto& same_service = by_service_[parameters.service_id];
  for (const Listener* other : same_service) {
    if (other->parameters.match == parameters.match) return Failure{Error::kServiceInUse};
  }
  while (next_id_ == 0 || by_id_.contains(next_id_)) ++next_id_;
  const ListenerId id{next_id_++};
  auto listener = std::make_unique<Listener>();
  listener->id = id;
  listener->parameters = parameters;
  same_service.push_back(listener.get());
  // Most specific first: the kinds are declared in that order.
  std::stable_sort(same_service.begin(), same_service.end(), [](const Listener* a, const Listener* b) {
    return a->parameters.match.kind < b->parameters.match.kind;
  });
  by_id_.emplace(id.value, std::move(listener));
  return id;
}

Listener* ListenerTable::find(ListenerId id) const {
  const auto found = by_id_.find(id.value);
  return found == by_id_.end() ? nullptr : found->second.get();
}

void ListenerTable::destroy(Listener& listener) {
  RRDMA_ASSERT(listener.unanswered_list.empty() && listener.half_open_list.empty());
  const auto service = by_service_.find(listener.parameters.service_id);
  std::erase(service->second, &listener);
  if (service->second.empty()) by_service_.erase(service);
  by_id_.erase(listener.id.value);
}

Listener* ListenerTable::match(std::uint64_t service_id, const std::optional<wire::IpCmHeader>& ip) const {
  const auto service = by_service_.find(service_id);
  if (service == by_service_.end()) return nullptr;
  for (Listener* listener : service->second) {
    if (matches(listener->parameters.match, ip)) return listener;
  }
  return nullptr;
}

}  // namespace rrdma::cm
