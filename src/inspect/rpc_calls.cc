// Calls of rrdma::rpc in a capture: the frames CALL and REPLY with one number, between the two ends of one
// connection.
#include <map>

#include "dissection/packet_dissection.h"
#include "inspect/analysis.h"
#include "tools/decode/rpc_frames.h"

namespace rrdma::tools {
namespace {

wire::Dissection dissected(const CapturedOctets& where) {
  wire::CapturedPacket captured;
  captured.octets = Octets(where.data, where.captured);
  captured.original_octets = where.original;
  captured.link = where.link;
  return wire::dissect(captured);
}

bool begins_send(std::uint8_t opcode) {
  const wire::OpcodeShape& shape = wire::shape_of(wire::Opcode(opcode));
  return shape.kind == wire::Kind::kSend && shape.starts_message && !shape.deth;
}

}  // namespace

void find_rpc_calls(Analysis& analysis, std::vector<std::string> methods) {
  const PacketColumns& columns = analysis.columns;
  methods.insert(methods.end(), analysis.methods.begin(), analysis.methods.end());
  RpcFrames frames(false, methods);
  for (std::uint32_t i = 0; i < columns.size(); ++i) {
    if (columns.cm_message[i] != 0) frames.learn(dissected(analysis.where[i]));
  }
  if (!frames.any()) return;
  using Key = std::tuple<std::uint32_t, std::uint32_t, bool>;  // connection, call, the caller is side B
  std::map<Key, std::size_t> open;
  for (std::uint32_t i = 0; i < columns.size(); ++i) {
    constexpr unsigned kNotItself = kMarkLost | kMarkBad | kMarkRepeat;
    const std::uint32_t connection = columns.connection[i];
    if (connection == kNoIndex || !begins_send(columns.opcode[i]) || (columns.marks[i] & kNotItself) != 0)
      continue;
    const bool from_b = (columns.marks[i] & kMarkFromB) != 0;
    const wire::Dissection packet = dissected(analysis.where[i]);
    for (const RpcFrames::Summary& frame : frames.summaries(packet)) {
      if (frame.kind == RpcFrames::Summary::Kind::kCall) {
        if (analysis.rpc_calls.size() == kRpcCallsMax) return;
        open[{connection, frame.call, from_b}] = analysis.rpc_calls.size();
        analysis.rpc_calls.push_back(
            {.connection = connection, .call = frame.call, .method = frame.method, .asked = i});
        analysis.rpc_calls.back().octets_asked = frame.octets;
        continue;
      }
      const bool replies = frame.kind == RpcFrames::Summary::Kind::kReply;
      for (const bool caller_is_b : {from_b, !from_b}) {
        const auto found = open.find({connection, frame.call, caller_is_b});
        if (found == open.end() || (replies && caller_is_b == from_b)) continue;
        RpcCall& call = analysis.rpc_calls[found->second];
        if (!replies) {
          ++call.items;
          break;
        }
        call.answered = i;
        call.status = frame.status;
        call.octets_answered = frame.octets;
        open.erase(found);
        break;
      }
    }
  }
}

}  // namespace rrdma::tools
