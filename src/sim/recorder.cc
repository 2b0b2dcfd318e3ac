#include "sim/recorder.h"

#include <algorithm>

#include "dissection/printer.h"
#include "wire/pcapng_writer.h"
#include "wire/roce_packet.h"
#include "wire/transport_packet.h"

namespace rrdma::sim {
namespace {

std::string packet_text(const std::vector<std::uint8_t>& frame) {
  const auto parsed = wire::parse_frame(frame);
  if (!parsed) return "unreadable: " + std::string(wire::describe(parsed.error()));
  wire::TransportPacket packet;
  const auto error = wire::parse_transport(parsed->transport, packet);
  if (error != wire::TransportError::kNone) return "unreadable: " + std::string(wire::describe(error));
  return wire::transport_line(packet.headers, packet.payload.size()) +
         (parsed->icrc_right() ? "" : "  ICRC wrong");
}

}  // namespace

void Recorder::record(const link::PacketView& packet, Instant now, bool sent, link::Fate fate) {
  if (events_.size() == packets_max_) events_.pop_front();
  events_.push_back({now, sent, fate, packet.from, packet.to, {packet.frame.begin(), packet.frame.end()}});
}

void Recorder::on_sent(const link::PacketView& packet, Instant now) {
  record(packet, now, true, link::Fate::kDelivered);
}
void Recorder::on_fate(const link::PacketView& packet, link::Fate fate, Instant now) {
  record(packet, now, false, fate);
}

std::string Recorder::trace(std::size_t lines_max) const {
  std::string text;
  const std::size_t skip = events_.size() > lines_max ? events_.size() - lines_max : 0;
  for (auto event = events_.begin() + static_cast<std::ptrdiff_t>(skip); event != events_.end(); ++event) {
    text += wire::seconds_text(event->at.ns) + "  " + std::to_string(event->from) +
            (event->sent ? " -> " : " => ") + std::to_string(event->to) + "  " + packet_text(event->frame) +
            "  [" + (event->sent ? "sent" : std::string(link::describe(event->fate))) + "]\n";
  }
  return text;
}

std::vector<std::uint8_t> Recorder::pcapng() const {
  std::vector<std::uint8_t> file;
  wire::PcapngWriter writer([&file](Octets block) { file.insert(file.end(), block.begin(), block.end()); },
                            "rrdma sim");
  std::uint32_t hosts = 0;
  for (const Event& event : events_) hosts = std::max({hosts, event.from + 1, event.to + 1});
  for (std::uint32_t i = 0; i < hosts; ++i)
    writer.add_interface(wire::LinkType::kEthernet, "host" + std::to_string(i));
  for (const Event& event : events_) {
    const bool lost = !event.sent && event.fate != link::Fate::kDelivered;
    if (!event.sent && !lost) continue;
    const Octets piece(event.frame);
    const std::string comment = event.sent ? "" : std::string(link::describe(event.fate));
    writer.write(
        {.interface = event.from,
         .time_ns = static_cast<std::uint64_t>(event.at.ns),
         .pieces = {&piece, 1},
         .comment = comment,
         .direction = event.sent ? wire::PacketDirection::kOutbound : wire::PacketDirection::kUnknown});
  }
  return file;
}

}  // namespace rrdma::sim
