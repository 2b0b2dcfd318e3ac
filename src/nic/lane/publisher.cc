#include "nic/lane/publisher.h"

#include <algorithm>
#include <string>

#include "nic/links/link_switch.h"

namespace rrdma::nic {
namespace {

constexpr std::size_t kRowsAtOnce = 64;  // a few microseconds under the lock

control::QpFields fields_of(const transport::QueuePair& qp) {
  control::QpFields fields;
  fields.qpn = qp.qpn.value;
  fields.peer_qpn = qp.remote.value;
  fields.peer_gid = qp.path.remote;
  fields.state = static_cast<std::uint8_t>(qp.state);
  fields.type = static_cast<std::uint8_t>(qp.type);
  fields.link = static_cast<std::uint8_t>(qp.path.link == kShmLink ? control::kLinkShm : control::kLinkUdp);
  fields.path_mtu_code = qp.attributes.path_mtu;
  fields.device = qp.device;
  fields.local_gid = qp.path.local;
  fields.interface_index = qp.path.interface_index;
  fields.source_port = qp.path.source_port;
  fields.traffic_class = qp.path.traffic_class;
  fields.hop_limit = qp.path.hop_limit;
  return fields;
}

std::uint32_t waiting_in(const objects::CompletionQueue* queue) {
  return queue == nullptr ? 0 : static_cast<std::uint32_t>(queue->size());
}

control::QpLevels levels_of(const transport::QueuePair& qp) {
  const transport::RequesterState& req = qp.req;
  control::QpLevels levels;
  levels.send_queued = static_cast<std::uint32_t>(qp.send_queue.tail() - qp.send_queue.head());
  levels.send_capacity = qp.send_queue.capacity();
  if (qp.incoming != nullptr) {
    levels.receive_posted = static_cast<std::uint32_t>(qp.incoming->size());
    levels.receive_capacity = qp.incoming->capacity();
  }
  levels.oldest_psn = req.una.value;
  levels.next_psn = req.sent.value;
  levels.under_way = req.flight_packets;
  levels.window = req.congestion.window();
  levels.expected_psn = qp.resp.expected.value;
  levels.round_trip_ns =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(req.round_trip.smoothed().ns, 0, UINT32_MAX));
  levels.completions_waiting =
      waiting_in(qp.send_cq) + (qp.receive_cq == qp.send_cq ? 0 : waiting_in(qp.receive_cq));
  return levels;
}

void publish_row(control::QpRow& row, const transport::QueuePair& qp, control::QpLevels levels) {
  const auto set = [&row](control::QpCounter which, std::uint64_t value) {
    row.counters[static_cast<std::size_t>(which)].store(value, std::memory_order_relaxed);
  };
  set(control::QpCounter::kSentMessages, qp.messages_sent);
  set(control::QpCounter::kReceivedMessages, qp.messages_received);
  set(control::QpCounter::kSentOctets, qp.octets_sent);
  set(control::QpCounter::kReceivedOctets, qp.octets_received);
  set(control::QpCounter::kRetransmittedPackets, qp.packets_resent);
  set(control::QpCounter::kReceiverNotReady, qp.rnr_naks);
  set(control::QpCounter::kTimeouts, qp.ack_timeouts);
  set(control::QpCounter::kSequenceNaks, qp.sequence_naks);
  set(control::QpCounter::kLostPackets, qp.packets_lost);
  set(control::QpCounter::kProbes, qp.probes);
  set(control::QpCounter::kNeedlessRepairs, qp.needless_repairs);
  control::ProcessPage::set_levels(row, levels);
}

}  // namespace

static_assert(transport::kCounterNames.size() <= control::kPagePartCapacity);

Publisher::Publisher(control::ProcessPage& page, const objects::MemoryTable* memory)
    : page_(page), memory_(memory) {
  for (const auto& counter : transport::kCounterNames)
    engine_counters_.push_back({&page_.counter(counter.name)});
  memory_keys_.on_page = &page.counter("memory_keys");
  completion_queues_.on_page = &page.counter("completion_queues");
}

void Publisher::handle_qp_changed(transport::QueuePair& qp, bool destroyed) {
  if (destroyed) return strike_out(qp);
  if (!places_.contains(qp.qpn.value)) list(qp);
  const auto found = places_.find(qp.qpn.value);
  if (found == places_.end()) return;
  control::QpRow& row = *listed_[found->second].row;
  qp.last_answer = &row.last_answer;
  control::ProcessPage::update_qp(row, fields_of(qp));
}

void Publisher::list(transport::QueuePair& qp) {
  control::QpRow* row = page_.create_qp();
  if (row == nullptr) return;
  const bool between_rounds = next_ == listed_.size();
  places_[qp.qpn.value] = listed_.size();
  listed_.push_back(
      {&qp, row, qp.send_cq, qp.receive_cq, take_number(qp.send_cq), take_number(qp.receive_cq)});
  if (between_rounds) next_ = listed_.size();
}

void Publisher::strike_out(transport::QueuePair& qp) {
  const auto found = places_.find(qp.qpn.value);
  if (found == places_.end()) return;
  const std::size_t place = found->second;
  qp.last_answer = nullptr;
  page_.destroy_qp(*listed_[place].row);
  give_number_back(listed_[place].send_cq);
  give_number_back(listed_[place].receive_cq);
  const bool between_rounds = next_ == listed_.size();
  listed_[place] = listed_.back();
  places_[listed_[place].qp->qpn.value] = place;
  places_.erase(qp.qpn.value);
  listed_.pop_back();
  // The row that took its place must not be left out of the round.
  next_ = between_rounds ? listed_.size() : std::min(next_, place);
}

std::uint16_t Publisher::take_number(const objects::CompletionQueue* queue) {
  if (queue == nullptr) return 0;
  const auto [found, is_new] = queues_.try_emplace(queue, NumberedQueue{0, 0});
  if (is_new) found->second.number = page_.number_queue();
  ++found->second.uses;
  return found->second.number;
}

void Publisher::give_number_back(const objects::CompletionQueue* queue) {
  const auto found = queues_.find(queue);
  if (found != queues_.end() && --found->second.uses == 0) queues_.erase(found);
}

Publisher::LinkTotal& Publisher::link_total(std::string_view name) {
  for (LinkTotal& total : link_totals_) {
    if (total.name == name) return total;
  }
  // A link counts its packets under the engine's names; publish them separately.
  const bool taken = std::any_of(transport::kCounterNames.begin(), transport::kCounterNames.end(),
                                 [&](const auto& counter) { return counter.name == name; });
  link_totals_.push_back(
      {std::string(name), {&page_.counter((taken ? "link_" : "") + std::string(name))}, 0});
  return link_totals_.back();
}

// Several links may use the same name: those with the same kind of decorator. So may kinds of memory, those
// of several devices.
void Publisher::publish_links(std::span<link::Link* const> links, const objects::Staging& staging) {
  for (LinkTotal& total : link_totals_) total.sum = 0;
  for (link::Link* link : links) {
    if (link == nullptr) continue;
    for (const link::LinkCounter& counter : link->counters()) link_total(counter.name).sum += counter.value;
  }
  staging.for_each_kind([this](const objects::MemoryKind& kind, const objects::Staging::Counts& counts) {
    const std::string name(kind.name());
    link_total(name + "_reads").sum += counts.reads;
    link_total(name + "_read_octets").sum += counts.octets_read;
    link_total(name + "_writes").sum += counts.writes;
    link_total(name + "_written_octets").sum += counts.octets_written;
    link_total(name + "_failures").sum += counts.failures;
  });
  for (LinkTotal& total : link_totals_) total.counter.publish(total.sum);
}

std::vector<Publisher::Counter>& Publisher::parts_of(std::size_t device) {
  while (device_parts_.size() <= device) {
    std::vector<Counter>& parts = device_parts_.emplace_back();
    const auto number = static_cast<std::uint32_t>(device_parts_.size() - 1);
    if (number == 0) continue;
    for (const Counter& counter : engine_counters_)
      if (auto* part = page_.part_of(*counter.on_page, number)) parts.push_back({part});
  }
  return device_parts_[device];
}

void Publisher::publish_engine(const transport::CountersByDevice& counters) {
  for (std::size_t device = 0; device < counters.all().size(); ++device) {
    std::vector<Counter>& parts = parts_of(device);
    for (std::size_t i = 0; i < parts.size(); ++i)
      parts[i].publish(counters.all()[device].*transport::kCounterNames[i].member);
  }
  for (std::size_t i = 0; i < engine_counters_.size(); ++i)
    engine_counters_[i].publish(counters.sum(transport::kCounterNames[i].member));
}

void Publisher::publish_sums(const transport::Engine& engine, std::span<link::Link* const> links) {
  publish_engine(engine.counters_by_device());
  if (memory_ != nullptr) memory_keys_.publish(memory_->size());
  completion_queues_.publish(queues_.size());
  publish_links(links, engine.staging());
}

Instant Publisher::publish(const transport::Engine& engine, std::span<link::Link* const> links, Instant now) {
  if (next_ == listed_.size()) {
    if (now < last_ + kInterval) return last_ + kInterval;
    last_ = now;
    next_ = 0;
    publish_sums(engine, links);
  }
  const std::size_t end = std::min(listed_.size(), next_ + kRowsAtOnce);
  for (; next_ < end; ++next_) {
    const Listed& one = listed_[next_];
    control::QpLevels levels = levels_of(*one.qp);
    levels.send_cq = one.send_number;
    levels.receive_cq = one.receive_number;
    publish_row(*one.row, *one.qp, levels);
  }
  if (next_ < listed_.size()) return now;
  return last_ == now ? kNever : last_ + kInterval;
}

}  // namespace rrdma::nic
