// Dissection: the verdict on good, malformed, cut and foreign packets. No input, however mangled, may cause
// an out-of-bounds access on the way to any of the text forms.
#include "dissection/packet_dissection.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/prng.h"
#include "dissection/packet_fields.h"
#include "dissection/printer.h"
#include "wire/cm_ip_header.h"

namespace rrdma::wire::packet_dissection_test {

using Bytes = std::vector<std::uint8_t>;

RoceFrame frame_over(Network network) {
  RoceFrame frame;
  frame.ethernet.emplace();
  switch (network) {
    case Network::kIpv4:
      frame.network = Ipv4Header{};
      frame.ethernet->ether_type = kEtherTypeIpv4;
      break;
    case Network::kIpv6:
      frame.network = Ipv6Header{};
      frame.ethernet->ether_type = kEtherTypeIpv6;
      break;
    case Network::kRoceV1:
      frame.network = Grh{};
      frame.ethernet->ether_type = kEtherTypeRoceV1;
      break;
  }
  return frame;
}

Bytes packet_octets(Network network, TransportHeaders headers, const Bytes& payload) {
  headers.bth.pad = pad_for(payload.size());
  Bytes transport(kHeaderOctetsMax);
  transport.resize(emit_transport_headers(headers, transport.data()));
  transport.insert(transport.end(), payload.begin(), payload.end());
  transport.resize(transport.size() + headers.bth.pad);
  RoceFrame frame = frame_over(network);
  frame.transport = transport;
  Bytes octets(frame_octets(frame));
  emit_frame(frame, octets);
  return octets;
}

Bytes send_octets(Network network) {
  TransportHeaders headers;
  headers.bth.opcode = Opcode(Transport::kReliableConnection, Step::kSendOnly);
  return packet_octets(network, headers, Bytes(5, 0xaa));
}

Bytes cm_octets() {
  TransportHeaders headers;
  headers.bth.opcode = Opcode(Transport::kUnreliableDatagram, Step::kSendOnly);
  headers.bth.destination = kGeneralServicesQpn;
  CmReq req;
  req.service_id = service_id_of({PortSpace::kTcp, 7174});
  const MadBuffer mad = emit_cm_mad({.message = req});
  return packet_octets(Network::kIpv6, headers, Bytes(mad.begin(), mad.end()));
}

CapturedPacket captured(const Bytes& octets, LinkType link = LinkType::kEthernet) {
  CapturedPacket packet;
  packet.link = link;
  packet.octets = octets;
  packet.original_octets = static_cast<std::uint32_t>(octets.size());
  return packet;
}

TEST(Dissection, RightPackets) {
  for (const Network network : {Network::kIpv4, Network::kIpv6, Network::kRoceV1}) {
    const Bytes octets = send_octets(network);
    const Dissection packet = dissect(captured(octets));
    EXPECT_EQ(packet.verdict, PacketVerdict::kGood) << packet.reason;
    ASSERT_TRUE(packet.transport);
    EXPECT_EQ(packet.transport->payload.size(), 5u);
    EXPECT_NE(packet_line(packet).find("icrc ok"), std::string::npos);
  }
}

TEST(Dissection, ConnectionManager) {
  const Bytes octets = cm_octets();
  const Dissection packet = dissect(captured(octets));
  ASSERT_TRUE(packet.cm) << packet.reason;
  EXPECT_NE(packet_line(packet).find("CM REQ to port 7174"), std::string::npos);
}

TEST(Dissection, AnotherManagementClassIsNotBad) {
  TransportHeaders headers;
  headers.bth.opcode = Opcode(Transport::kUnreliableDatagram, Step::kSendOnly);
  headers.bth.destination = kGeneralServicesQpn;
  Bytes mad(kMadOctets);
  emit_mad_header({.management_class = 0x03, .class_version = 2, .method = 1}, mad);
  const Bytes octets = packet_octets(Network::kIpv4, headers, mad);
  const Dissection packet = dissect(captured(octets));
  EXPECT_EQ(packet.verdict, PacketVerdict::kGood);
  EXPECT_TRUE(packet.mad && !packet.cm);
  const Bytes no_mad = packet_octets(Network::kIpv4, headers, Bytes(64));
  EXPECT_EQ(dissect(captured(no_mad)).verdict, PacketVerdict::kBad);
}

TEST(Dissection, TransportFaultsAreNamedEvenIfTheIcrcIsRight) {
  TransportHeaders headers;
  headers.bth.opcode = Opcode(Transport::kReliableConnection, Step::kAcknowledge);
  const Bytes octets = packet_octets(Network::kIpv4, headers, Bytes(4));
  const Dissection packet = dissect(captured(octets));
  EXPECT_EQ(packet.verdict, PacketVerdict::kBad);
  EXPECT_EQ(packet.reason, describe(TransportError::kPayloadLength));
  EXPECT_TRUE(packet.frame && packet.frame->icrc_right());
}

TEST(Dissection, AFragmentToOurPortIsBadALaterOneForeign) {
  Bytes octets = send_octets(Network::kIpv4);
  octets[14 + 6] = 0x20;  // more fragments
  EXPECT_EQ(dissect(captured(octets)).verdict, PacketVerdict::kBad);
  octets[14 + 7] = 1;  // offset 8
  EXPECT_EQ(dissect(captured(octets)).verdict, PacketVerdict::kForeign);
}

TEST(Dissection, Ipv6ExtensionHeadersAreLookedThrough) {
  const Bytes octets = send_octets(Network::kIpv6);
  Bytes extended(octets.begin(), octets.begin() + 54);
  const Bytes options = {17, 0, 1, 4, 0, 0, 0, 0};  // UDP follows; one PadN option
  extended.insert(extended.end(), options.begin(), options.end());
  extended.insert(extended.end(), octets.begin() + 54, octets.end());
  extended[14 + 6] = 60;  // destination options
  store_be16(extended.data() + 14 + 4, static_cast<std::uint16_t>(extended.size() - 54));
  Dissection packet = dissect(captured(extended));
  EXPECT_EQ(packet.verdict, PacketVerdict::kBad);
  EXPECT_EQ(packet.reason, describe(FrameError::kIpExtensionHeader));
  store_be16(extended.data() + 54 + 8 + 2, 53);
  EXPECT_EQ(dissect(captured(extended)).verdict, PacketVerdict::kForeign);
}

TEST(Dissection, AnImpossibleOriginalLengthTakesNoMemory) {
  const Bytes octets = send_octets(Network::kIpv4);
  CapturedPacket packet = captured(octets);
  packet.original_octets = 0xffffffff;
  EXPECT_TRUE(dissect(packet).filled_up.empty());
}

// Prints the packet in all forms, so that a sanitizer sees every access.
void show(const CapturedPacket& captured_packet) {
  const Dissection packet = dissect(captured_packet);
  EXPECT_FALSE(packet_line(packet).empty());
  (void)fields_tree(packet_fields(packet));
  if (packet.transport) (void)hex_dump(packet.transport->payload, 2);
}

TEST(Dissection, MangledOctetsStayInBounds) {
  constexpr std::uint64_t kSeed = 20;
  Prng prng(kSeed);
  const std::vector<Bytes> originals = {send_octets(Network::kIpv4), send_octets(Network::kIpv6),
                                        send_octets(Network::kRoceV1), cm_octets()};
  constexpr std::uint16_t kLinks[] = {1, 101, 228, 229, 113, 276, 147};
  for (int round = 0; round < 5'000; ++round) {
    Bytes octets = originals[prng.below(originals.size())];
    for (auto flips = prng.below(8); flips > 0; --flips) {
      octets[prng.below(octets.size())] = static_cast<std::uint8_t>(prng.next());
    }
    if (prng.below(4) == 0) octets.resize(prng.below(octets.size() + 1));
    // Allocate exactly this size, so that a sanitizer notices an access beyond it.
    const Bytes exact(octets.begin(), octets.end());
    CapturedPacket packet = captured(exact);
    if (prng.below(4) == 0) packet.link = static_cast<LinkType>(kLinks[prng.below(std::size(kLinks))]);
    if (prng.below(4) == 0) packet.original_octets = static_cast<std::uint32_t>(prng.below(2000));
    show(packet);
  }
}

}  // namespace rrdma::wire::packet_dissection_test
