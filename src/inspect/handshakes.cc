// Groups messages of the connection manager by connection, through their communication IDs.
#include <map>

#include "inspect/analysis.h"

namespace rrdma::tools {
namespace {

using CommEnd = std::pair<wire::Gid, std::uint32_t>;  // address and communication ID

using QpEnd = std::pair<wire::Gid, std::uint32_t>;  // address and queue pair

void find_connections(Analysis& analysis) {
  std::map<std::pair<QpEnd, QpEnd>, std::uint32_t> known;
  for (std::uint32_t i = 0; i < analysis.connections.size(); ++i) {
    const auto& [a, b] = analysis.connections[i].ends;
    known[{{a.address, a.qpn}, {b.address, b.qpn}}] = i;
    known[{{b.address, b.qpn}, {a.address, a.qpn}}] = i;
  }
  for (Handshake& handshake : analysis.handshakes) {
    const auto found = known.find(
        {{handshake.addresses[0], handshake.qpns[0]}, {handshake.addresses[1], handshake.qpns[1]}});
    if (found != known.end()) handshake.connection = found->second;
  }
}

}  // namespace

void group_handshakes(Analysis& analysis, std::span<const CmNote> notes) {
  PacketColumns& columns = analysis.columns;
  std::map<CommEnd, std::uint32_t> known;
  for (const CmNote& note : notes) {
    if (columns.connection[note.sighting] == kNoIndex) continue;
    const Connection& carrier = analysis.connections[columns.connection[note.sighting]];
    const std::size_t sender = (columns.marks[note.sighting] & kMarkFromB) != 0 ? 1 : 0;
    const CommEnd here{carrier.ends[sender].address, note.local_id};
    const CommEnd there{carrier.ends[1 - sender].address, note.remote_id};
    auto found = note.remote_id != 0 ? known.find(there) : known.end();
    if (found == known.end() && note.local_id != 0) found = known.find(here);
    if (found == known.end()) {
      if (analysis.handshakes.size() == kHandshakesMax) continue;
      found = known
                  .emplace(note.local_id != 0 ? here : there,
                           static_cast<std::uint32_t>(analysis.handshakes.size()))
                  .first;
      Handshake& added = analysis.handshakes.emplace_back();
      added.addresses = {here.first, there.first};
      added.initiator = note.local_id;
    }
    const std::uint32_t number = found->second;
    if (note.local_id != 0) known.emplace(here, number);
    Handshake& handshake = analysis.handshakes[number];
    handshake.packets.push_back(note.sighting);
    // If both ends have the same address, only the communication ID distinguishes them.
    if (here.first == there.first && note.local_id != handshake.initiator)
      columns.marks[note.sighting] = static_cast<std::uint16_t>(columns.marks[note.sighting] | kMarkFromB);
    const auto message = static_cast<wire::CmAttribute>(columns.cm_message[note.sighting]);
    if (message == wire::CmAttribute::kReq) handshake.qpns[0] = note.qpn;
    if (message == wire::CmAttribute::kRep) handshake.qpns[1] = note.qpn;
  }
  find_connections(analysis);
}

}  // namespace rrdma::tools
