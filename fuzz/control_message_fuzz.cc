// Messages between programs and the daemon from arbitrary bytes. Accepted input respects its bounds. It is
// encoded to as many bytes again, and to the same bytes once its texts were cleaned: the encoding is unique.
#include <cstdint>
#include <cstring>

#include "base/assert.h"
#include "control/capture_messages.h"
#include "control/cm_messages.h"
#include "control/fault_messages.h"
#include "control/messages.h"
#include "control/recognition_messages.h"
#include "cost.h"

namespace rrdma::control_message_fuzz {

using namespace rrdma::control;

template <typename Message>
void check(const Header& header, Octets datagram) {
  if (header.type != static_cast<std::uint16_t>(Message::kType)) return;
  const auto message = decode<Message>(datagram.subspan(sizeof(Header)));
  if (!message) return;
  const auto clean = encode(*message, header.serial);
  RRDMA_ASSERT(clean.size() == datagram.size());
  const auto same = decode<Message>(Octets(clean.data(), clean.size()).subspan(sizeof(Header)));
  RRDMA_ASSERT(same.has_value());
  const auto again = encode(*same, header.serial);
  RRDMA_ASSERT(again.size() == clean.size() && std::memcmp(again.data(), clean.data(), clean.size()) == 0);
}

template <typename... Messages>
void check_all(const Header& header, Octets datagram) {
  (check<Messages>(header, datagram), ...);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const rrdma::fuzz::Cost cost({.ms = 200, .octets = 64 << 10});
  const Octets datagram(data, size);
  const auto header = parse_header(datagram);
  if (!header) return 0;
  check_all<Hello, Welcome, Refused, Done, Failed, RequestSlot, SlotGranted, ReleaseSlot, UpdateProcess,
            NetworkUp, Retire, LookUpSlot, SlotOwner, OfferChannel, ChannelOffered, PeerGone, ForwardFrame,
            FrameForwarded, ListProcesses, ProcessEntry, QueryStatus, Status, JoinGroup, LeaveGroup, CmBind,
            CmBound, CmRelease, CmListen, CmConnect, CmStarted, CmLookUp, CmAccept, CmReject, CmReplyLookUp,
            CmReady, CmNotify, CmDisconnect, CmDestroy, CmEstablished, CmRestore, CmEvent, StartCapture,
            CaptureStarted, StopCapture, CaptureOrder, RecognisePeer, PeerRecognised, SetFault, FaultWasSet,
            ClearFault, ListFaults, FaultList, FaultOrder>(*header, datagram);
  return 0;
}

}  // namespace rrdma::control_message_fuzz
