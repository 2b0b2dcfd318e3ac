// CommPeer: the other end of an rrdma::comm connection on a ScriptedDevice. It keeps to its credits, so
// that its messages reach the machine behind them, and grants credits only when the target says so. It
// checks that the program keeps to the credits, too.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "lib/comm/hello.h"
#include "lib/comm/receive_half.h"
#include "scripted_device.h"

namespace rrdma::fuzz {

namespace comm_wire = rrdma::comm::detail;

inline ScriptedBytes octets_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class CommPeer {
 public:
  // `receives`: of the program. `depth`: of this peer.
  CommPeer(ScriptedPair& pair, std::uint32_t receives, std::uint16_t depth)
      : pair_(&pair), credits_(receives), taken_(depth) {}

  // A request of the program was posted.
  void hear(const ScriptedRequest& request) {
    const bool immediate = request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    if (request.opcode != IBV_WR_SEND && !immediate) return;
    require(taken_ != 0, "more messages than credits");
    --taken_;
    ++owed_;
    if (immediate) return;
    comm_wire::MessageHeader header{};
    require(request.octets.size() >= sizeof(header), "a message has a header");
    std::memcpy(&header, request.octets.data(), sizeof(header));
    require(header.length == request.octets.size() - sizeof(header), "a message tells its length");
    credits_ += header.credits;
    if (static_cast<comm_wire::MessageKind>(header.kind) == comm_wire::MessageKind::kData && heard)
      heard(ScriptedBytes(request.octets).subspan(sizeof(header)));
  }
  // Called for each message of the program.
  std::function<void(ScriptedBytes)> heard;

  // Sends a message; false if there is no credit. With `grants`, it carries all credits that are owed.
  bool send(ScriptedBytes body, bool grants = true,
            comm_wire::MessageKind kind = comm_wire::MessageKind::kData) {
    if (credits_ == 0) return false;
    const std::uint16_t granted = grants ? owed_ : 0;
    if (!send_raw({static_cast<std::uint8_t>(kind), 0, granted, static_cast<std::uint32_t>(body.size())},
                  body))
      return false;
    --credits_;
    taken_ += granted;
    owed_ = static_cast<std::uint16_t>(owed_ - granted);
    return true;
  }
  bool send_immediate(std::uint32_t immediate) {
    if (credits_ == 0 || !ScriptedDevice::the().deliver_immediate(*pair_, immediate)) return false;
    --credits_;
    return true;
  }
  // Sends any header, whatever the credits are.
  bool send_raw(comm_wire::MessageHeader header, ScriptedBytes body) {
    std::vector<std::byte> octets(sizeof(header));
    std::memcpy(octets.data(), &header, sizeof(header));
    octets.insert(octets.end(), body.begin(), body.end());
    return ScriptedDevice::the().deliver(*pair_, octets);
  }

 private:
  ScriptedPair* pair_;
  std::uint32_t credits_;
  std::uint32_t taken_;  // credits that the program has
  std::uint16_t owed_ = 0;
};

}  // namespace rrdma::fuzz
