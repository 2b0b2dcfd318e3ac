#include "nic/publisher.h"

#include <algorithm>
#include <string>

#include "nic/link_switch.h"

namespace rrdma::nic {
namespace {

constexpr Duration kInterval = milliseconds(100);

void set(control::QpRow& row, control::QpCounter which, std::uint64_t value) {
  row.counters[static_cast<std::size_t>(which)].store(value, std::memory_order_relaxed);
}

}  // namespace

Publisher::Publisher(control::ProcessPage& page) : page_(page) {
  for (const auto& counter : transport::kCounterNames)
    engine_counters_.push_back({&page_.counter(counter.name)});
}

void Publisher::handle_qp_changed(transport::QueuePair& qp, bool destroyed) {
  const auto found = rows_.find(qp.qpn.value);
  if (destroyed) {
    if (found == rows_.end()) return;
    qp.last_answer = nullptr;
    page_.destroy_qp(*found->second);
    rows_.erase(found);
    return;
  }
  control::QpRow* row = found != rows_.end() ? found->second : page_.create_qp();
  if (row == nullptr) return;
  rows_[qp.qpn.value] = row;
  qp.last_answer = &row->last_answer;
  control::QpFields fields;
  fields.qpn = qp.qpn.value;
  fields.peer_qpn = qp.remote.value;
  fields.peer_gid = qp.path.remote;
  fields.state = static_cast<std::uint8_t>(qp.state);
  fields.type = static_cast<std::uint8_t>(qp.type);
  fields.link = static_cast<std::uint8_t>(qp.path.link == kShmLink ? control::kLinkShm : control::kLinkUdp);
  fields.path_mtu_code = qp.attributes.path_mtu;
  fields.local_gid = qp.path.local;
  fields.interface_index = qp.path.interface_index;
  fields.source_port = qp.path.source_port;
  fields.traffic_class = qp.path.traffic_class;
  fields.hop_limit = qp.path.hop_limit;
  control::ProcessPage::update_qp(*row, fields);
}

Publisher::LinkTotal& Publisher::link_total(std::string_view name) {
  for (LinkTotal& total : link_totals_) {
    if (total.name == name) return total;
  }
  // A link counts packets of its own under the engine's words; they are published apart.
  const bool taken = std::any_of(transport::kCounterNames.begin(), transport::kCounterNames.end(),
                                 [&](const auto& counter) { return counter.name == name; });
  link_totals_.push_back(
      {std::string(name), {&page_.counter((taken ? "link_" : "") + std::string(name))}, 0});
  return link_totals_.back();
}

// Several links may count under one name: those that the same decorator is around.
void Publisher::publish_links(std::span<link::Link* const> links) {
  for (LinkTotal& total : link_totals_) total.sum = 0;
  for (link::Link* link : links) {
    if (link == nullptr) continue;
    for (const link::LinkCounter& counter : link->counters()) link_total(counter.name).sum += counter.value;
  }
  for (LinkTotal& total : link_totals_) total.counter.publish(total.sum);
}

Instant Publisher::publish(const transport::Engine& engine, std::span<link::Link* const> links, Instant now) {
  if (now < last_ + kInterval) return last_ + kInterval;
  last_ = now;
  const transport::Counters& counters = engine.counters();
  for (std::size_t i = 0; i < engine_counters_.size(); ++i) {
    engine_counters_[i].publish(counters.*transport::kCounterNames[i].member);
  }
  publish_links(links);
  engine.for_each_qp([&](transport::QueuePair& qp) {
    const auto found = rows_.find(qp.qpn.value);
    if (found == rows_.end()) return;
    set(*found->second, control::QpCounter::kSentMessages, qp.messages_sent);
    set(*found->second, control::QpCounter::kReceivedMessages, qp.messages_received);
    set(*found->second, control::QpCounter::kSentOctets, qp.octets_sent);
    set(*found->second, control::QpCounter::kReceivedOctets, qp.octets_received);
    set(*found->second, control::QpCounter::kRetransmittedPackets, qp.packets_resent);
    set(*found->second, control::QpCounter::kReceiverNotReady, qp.rnr_naks);
    set(*found->second, control::QpCounter::kTimeouts, qp.ack_timeouts);
    set(*found->second, control::QpCounter::kSequenceNaks, qp.sequence_naks);
  });
  return kNever;
}

}  // namespace rrdma::nic
