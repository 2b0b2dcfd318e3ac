// Two Endpoints of the connection manager, their owners and a hostile network, all driven by the input: calls
// in any order with any ID, jumps of time, and MADs that are delivered, duplicated, corrupted, forged or sent
// from a wrong address. Bounds hold at all times, and nothing is left after everything was destroyed. A REQ
// of a stranger ends no connection, and neither does one in the name of a peer that answers.
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "cm/endpoint.h"
#include "cost.h"
#include "input.h"
#include "wire/cm_mad.h"

namespace rrdma::cm_machine_fuzz {

using namespace rrdma::cm;
using fuzz::Input;

constexpr Settings kSmall{.ca_guid = 1,
                          .connections_max = 12,
                          .listeners_max = 3,
                          .tombstones_max = 3,
                          .outgoing_max = 8,
                          .backlog_max = 4,
                          .half_open_max = 3};
constexpr std::uint64_t kService = wire::service_id_of({wire::PortSpace::kTcp, 1});
constexpr std::size_t kHosts = 2;
constexpr std::size_t kPiecesMax = 512;
constexpr std::uint8_t kFirstCall = 240;  // pieces from here on are calls for a connection that stands
constexpr int kRoundsMax = 400;

wire::Gid gid_of_host(std::uint8_t host) { return wire::gid_of_ipv4({10, 0, 0, host}); }

class World {
 public:
  explicit World(Input input) : input_(input) {
    for (auto& host : hosts_) (void)host.endpoint.listen({.service_id = kService}).ok();
  }

  void run() {
    for (std::size_t step = 0; step < kPiecesMax && !input_.empty(); ++step) {
      const std::uint8_t piece = input_.octet();
      index_ = piece & 1;
      const fuzz::Cost cost;
      if (piece >= kFirstCall) {
        call_for_standing(piece % 4 < 2);
      } else {
        one_step(piece >> 1);
      }
      check();
    }
    finish();
  }

 private:
  struct Host {
    explicit Host(std::uint64_t seed) : endpoint(kSmall, KeySource(seed)) {}
    Endpoint endpoint;
    std::vector<ConnectionId> ids;
    std::set<std::uint32_t> strangers;  // IDs of connections with neither host
  };
  struct Flying {
    std::uint8_t to = 0;
    wire::Gid from;
    wire::MadBuffer octets{};
  };

  Host& host() { return hosts_[index_]; }
  std::uint8_t below(unsigned bound) { return input_.below(bound); }
  ConnectionId some_id() {
    const std::uint8_t choice = input_.octet();
    const auto& ids = hosts_[choice & 1 ? 1 - index_ : index_].ids;
    if (ids.empty() || choice == 0xff) return {choice};
    return ids[(choice >> 1) % ids.size()];
  }
  Route route() {
    return {.local = gid_of_host(static_cast<std::uint8_t>(index_)),
            .remote = gid_of_host(input_.octet() & 1)};
  }

  void one_step(std::uint8_t what) {
    switch (what % 20) {
      case 0: remember(connect()); break;
      case 1:
        remember(host().endpoint.look_up(
            now_, {.route = route(), .service_id = kService, .max_cm_retries = below(4)}));
        break;
      case 10: (void)host().endpoint.stop_listening(now_, {1u + below(4)}).ok(); break;
      case 11: listen(); break;
      case 12: now_ = now_ + time_of_code(below(26)); break;
      case 13: host().endpoint.handle_timeouts(now_); break;
      case 14: collect(); break;
      case 15: deliver(false); break;
      case 16: deliver(true); break;
      case 17: inject_raw(); break;
      case 18: inject_forged(); break;
      case 19: copy_to_other(); break;
      default: owner_step(what % 20, some_id()); break;
    }
  }

  void owner_step(int what, ConnectionId id) {
    Endpoint& endpoint = host().endpoint;
    switch (what) {
      case 2:
        (void)endpoint.accept(now_, id, {.qpn = wire::Qpn(below(256)), .private_data = input_.take(3)}).ok();
        break;
      case 3:
        (void)endpoint
            .reject(now_, id, {.reason = static_cast<wire::RejectReason>(below(40)), .info = input_.take(2)})
            .ok();
        break;
      case 4: (void)endpoint.send_rtu(id, input_.take(2)).ok(); break;
      case 5: (void)endpoint.send_mra(id, below(256)).ok(); break;
      case 6: (void)endpoint.notify_established(id).ok(); break;
      case 7: (void)endpoint.disconnect(now_, id).ok(); break;
      case 8: endpoint.destroy(now_, id); break;
      case 9: (void)endpoint.reply_lookup(now_, id, {.qpn = wire::Qpn(below(256))}).ok(); break;
      default: break;
    }
  }

  void listen() {
    const ListenParameters parameters{
        .service_id = kService,
        .match = {.kind = static_cast<AddressMatch::Kind>(below(5)), .address = gid_of_host(0)},
        .backlog = below(3),
        .reject_overflow = below(2) == 0};
    (void)host().endpoint.listen(parameters).ok();
  }

  Result<ConnectionId, Error> connect() {
    const std::uint8_t kind = input_.octet();
    return host().endpoint.connect(now_, {.route = route(),
                                          .service_id = kService + (kind >> 7),
                                          .qp_type = static_cast<QpType>(kind % 4),
                                          .qpn = wire::Qpn(below(256)),
                                          .path_mtu = static_cast<std::uint8_t>(kind >> 2 & 7),
                                          .max_cm_retries = below(4),
                                          .private_data = input_.take(kind >> 5 & 3)});
  }
  void remember(const Result<ConnectionId, Error>& id) {
    if (id.ok()) host().ids.push_back(*id);
  }

  // Passes MADs of the host to the network, and events to its owner.
  void collect() {
    while (const auto mad = host().endpoint.poll_mad()) {
      RRDMA_ASSERT(wire::parse_cm_mad(mad->octets).ok());
      RRDMA_ASSERT(mad->route.local == gid_of_host(static_cast<std::uint8_t>(index_)) || !honest_);
      flying_.push_back(
          {.to = mad->route.remote.octets[15], .from = mad->route.local, .octets = mad->octets});
    }
    while (const auto event = host().endpoint.poll_event()) {
      RRDMA_ASSERT(host().endpoint.state_of(event->id).has_value());
      const bool asked = std::holds_alternative<ConnectRequest>(event->details) ||
                         std::holds_alternative<LookupRequest>(event->details);
      if (asked) host().ids.push_back(event->id);
      if (const auto* call = std::get_if<ConnectRequest>(&event->details)) note_peer(event->id, call->route);
      if (const auto* call = std::get_if<LookupRequest>(&event->details)) note_peer(event->id, call->route);
    }
  }

  void note_peer(ConnectionId id, const Route& route) {
    if (route.remote != gid_of_host(0) && route.remote != gid_of_host(1)) host().strangers.insert(id.value);
  }

  void deliver(bool mangle) {
    if (flying_.empty()) return;
    const std::size_t which = input_.octet() % flying_.size();
    Flying mad = flying_[which];
    const std::uint8_t fate = input_.octet();
    if ((fate & 3) != 0) flying_.erase(flying_.begin() + static_cast<std::ptrdiff_t>(which));
    if (mangle) {
      std::uint8_t& hit = mad.octets[input_.octet()];
      hit ^= input_.octet();
      if ((fate & 4) != 0) mad.from = gid_of_host(7);
    }
    if (mad.to >= kHosts) return;
    arrive(hosts_[mad.to], {.local = gid_of_host(mad.to), .remote = mad.from}, mad.octets);
  }

  // A stranger has no part in any connection: whatever it says, none changes its state.
  void arrive(Host& to, const MadAddresses& addresses, Octets octets) {
    const bool stranger = addresses.remote != gid_of_host(0) && addresses.remote != gid_of_host(1);
    std::vector<std::optional<State>> before;
    for (const ConnectionId id : to.ids) before.push_back(to.endpoint.state_of(id));
    to.endpoint.handle_mad(now_, addresses, octets);
    for (std::size_t i = 0; stranger && i < before.size(); ++i)
      RRDMA_ASSERT(to.strangers.contains(to.ids[i].value) || to.endpoint.state_of(to.ids[i]) == before[i]);
  }

  // A REQ that names a connection that stands: its IDs, its queue pair and its peer. It comes from a
  // stranger, or from the peer's own address although the peer did not send it.
  void call_for_standing(bool from_stranger) {
    const auto standing = host().endpoint.snapshot(some_id());
    if (!standing.ok() || !honest_) return;
    const std::uint8_t place = standing->route.remote.octets[15];
    const wire::MadBuffer req = wire::emit_cm_mad(
        {.transaction_id = input_.octet(),
         .message = wire::CmReq{
             .local_comm_id = {input_.octet() < 128 ? standing->remote_id.value : input_.word()},
             .service_id = kService,
             .local_qpn = standing->remote_qpn,
             .path_mtu = 3,
             .primary = {.local_gid = standing->route.remote, .remote_gid = standing->route.local}}});
    if (from_stranger) {
      collect();
      const wire::Gid stranger = gid_of_host(7);
      arrive(host(), {.local = standing->route.local, .remote = stranger}, req);
      while (const auto mad = host().endpoint.poll_mad()) RRDMA_ASSERT(mad->route.remote == stranger);
      return;
    }
    if (place >= kHosts) return;
    const Endpoint& peer = hosts_[place].endpoint;
    const auto both_stand = [&] {
      const auto other = peer.snapshot(standing->remote_id);
      return host().endpoint.snapshot(standing->id).ok() && other.ok() && other->remote_id == standing->id;
    };
    // Questions from before may have lost their answers.
    if (!settle() || !both_stand()) return;
    host().endpoint.handle_mad(now_, {.local = standing->route.local, .remote = standing->route.remote}, req);
    if (settle()) RRDMA_ASSERT(both_stand());
  }

  // Lets the network deliver everything for a while. False if there is no end of it.
  bool settle() {
    const std::size_t whose = index_;
    const Instant until = now_ + seconds(60);
    flying_.clear();
    int rounds = 0;
    for (; rounds < kRoundsMax; ++rounds) {
      for (index_ = 0; index_ < kHosts; ++index_) collect();
      for (const Flying& mad : std::exchange(flying_, {})) {
        if (mad.to >= kHosts) continue;
        hosts_[mad.to].endpoint.handle_mad(now_, {.local = gid_of_host(mad.to), .remote = mad.from},
                                           mad.octets);
      }
      for (index_ = 0; index_ < kHosts; ++index_) collect();
      if (!flying_.empty()) continue;
      const Instant next = std::min(hosts_[0].endpoint.next_deadline(), hosts_[1].endpoint.next_deadline());
      if (next > until) break;
      now_ = std::max(now_, next);
      for (Host& one : hosts_) one.endpoint.handle_timeouts(now_);
    }
    index_ = whose;
    now_ = std::max(now_, until);
    return rounds < kRoundsMax;
  }

  void inject_raw() {
    const Octets octets = input_.take(input_.octet() == 0 ? 40 : wire::kMadOctets);
    host().endpoint.handle_mad(now_, {.local = gid_of_host(0), .remote = gid_of_host(1)}, octets);
  }

  // A well-formed message with real IDs that neither end sent.
  void inject_forged() {
    wire::MadBuffer octets{};
    wire::emit_mad_header({.management_class = 7,
                           .class_version = 2,
                           .method = 3,
                           .attribute_id = static_cast<std::uint16_t>(0x10 + below(11))},
                          octets);
    store_be32(octets.data() + 24, some_id().value);
    store_be32(octets.data() + 28, some_id().value);
    const Octets rest = input_.take(16);
    std::copy(rest.begin(), rest.end(), octets.begin() + 32);
    arrive(host(), {.local = gid_of_host(static_cast<std::uint8_t>(index_)), .remote = gid_of_host(below(3))},
           octets);
  }

  // A restarted daemon: the connection is restored, perhaps on a host that already has it.
  void copy_to_other() {
    const ConnectionId id = some_id();
    const auto memory = host().endpoint.snapshot(id);
    if (!memory.ok()) return;
    Host& other = hosts_[1 - index_];
    if (other.endpoint.restore(*memory, 1).ok()) {
      other.ids.push_back(id);
      honest_ = false;
    }
  }

  void check() {
    for (const auto& host : hosts_) {
      RRDMA_ASSERT(host.endpoint.connections() <= kSmall.connections_max);
      RRDMA_ASSERT(host.endpoint.tombstones() <= kSmall.tombstones_max);
      RRDMA_ASSERT(host.endpoint.tombstones() <= host.endpoint.connections());
      RRDMA_ASSERT(host.endpoint.listeners() <= kSmall.listeners_max);
    }
    if (flying_.size() > 64) flying_.clear();
  }

  // Destroys everything. The network delivers nothing from here on.
  void finish() {
    for (index_ = 0; index_ < kHosts; ++index_) {
      collect();
      Endpoint& endpoint = host().endpoint;
      for (const ConnectionId id : host().ids) endpoint.destroy(now_, id);
      for (int rounds = 0; endpoint.next_deadline() != kNever; ++rounds) {
        RRDMA_ASSERT(rounds < 100'000);
        now_ = std::max(now_, endpoint.next_deadline());
        endpoint.handle_timeouts(now_);
        collect();
        flying_.clear();
      }
      RRDMA_ASSERT(endpoint.connections() == 0);
      RRDMA_ASSERT(endpoint.tombstones() == 0);
    }
  }

  Input input_;
  std::array<Host, kHosts> hosts_{Host(1), Host(2)};
  std::vector<Flying> flying_;
  std::size_t index_ = 0;
  Instant now_{};
  bool honest_ = true;
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  World(Input({data, size})).run();
  return 0;
}

}  // namespace rrdma::cm_machine_fuzz
