#include "inspect/analysis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "inspect/orders/fault_desk.h"
#include "inspect/server.h"
#include "wire/pcapng_writer.h"
#include "wire/roce_packet.h"

namespace rrdma::tools::analysis_test {

using wire::PacketDirection;
using wire::Step;

constexpr std::uint32_t kQpA = 0x11, kQpB = 0x22;

// A capture of one RC connection between 10.0.0.1 (queue pair 0x11) and 10.0.0.2 (0x22), written packet by
// packet.
class Film {
 public:
  Film() : writer_([this](Octets block) { file_.insert(file_.end(), block.begin(), block.end()); }, "test") {
    writer_.add_interface(wire::LinkType::kEthernet, "test");
  }

  struct Shot {
    bool from_b = false;
    Step step = Step::kSendOnly;
    std::uint32_t psn = 0;
    std::uint8_t syndrome = 0;
    std::size_t octets = 0;
    std::uint32_t read_length = 0;
    PacketDirection direction = PacketDirection::kUnknown;
    std::string comment{};
    bool broken = false;
    std::uint8_t hops = 64;
  };

  Film& take(std::uint64_t time_us, const Shot& shot) {
    wire::TransportHeaders headers;
    headers.bth.opcode = wire::Opcode(wire::Transport::kReliableConnection, shot.step);
    headers.bth.destination = wire::Qpn(shot.from_b ? kQpA : kQpB);
    headers.bth.psn = wire::Psn(shot.psn);
    headers.aeth.syndrome = shot.syndrome;
    headers.reth.length = shot.read_length;
    std::vector<std::uint8_t> transport(wire::kHeaderOctetsMax);
    transport.resize(wire::emit_transport_headers(headers, transport.data()));
    transport.resize(transport.size() + shot.octets);
    wire::RoceFrame frame;
    frame.ethernet = wire::EthernetHeader{.ether_type = wire::kEtherTypeIpv4};
    wire::Ipv4Header ip;
    ip.ttl = shot.hops;
    ip.source = {{10, 0, 0, static_cast<std::uint8_t>(shot.from_b ? 2 : 1)}};
    ip.destination = {{10, 0, 0, static_cast<std::uint8_t>(shot.from_b ? 1 : 2)}};
    frame.network = ip;
    frame.transport = transport;
    std::vector<std::uint8_t> octets(wire::frame_octets(frame));
    wire::emit_frame(frame, octets);
    if (shot.broken) octets.back() ^= 1;
    const Octets piece(octets);
    writer_.write({.interface = 0,
                   .time_ns = time_us * 1000,
                   .pieces = {&piece, 1},
                   .comment = shot.comment,
                   .direction = shot.direction});
    return *this;
  }

  Film& note(std::uint64_t time_us, std::string_view text, std::string_view facts = {}) {
    writer_.write_note(time_us * 1000, text, facts);
    return *this;
  }

  [[nodiscard]] Analysis develop(std::uint64_t packets_max = 1000) const {
    const CaptureInput input{"test", file_};
    return analyse({&input, 1}, packets_max);
  }
  std::vector<std::uint8_t>& octets() { return file_; }

 private:
  std::vector<std::uint8_t> file_;
  wire::PcapngWriter writer_;
};

Film::Shot send(std::uint32_t psn) { return {.psn = psn}; }
Film::Shot ack(std::uint32_t psn) {
  return {.from_b = true, .step = Step::kAcknowledge, .psn = psn, .syndrome = wire::kSyndromeAckNoCredits};
}
Film::Shot nak(std::uint32_t psn, wire::NakCode code = wire::NakCode::kSequenceError) {
  return {.from_b = true,
          .step = Step::kAcknowledge,
          .psn = psn,
          .syndrome = static_cast<std::uint8_t>(wire::kSyndromeNakBase | static_cast<unsigned>(code))};
}
Film::Shot seen(Film::Shot shot, PacketDirection direction) {
  shot.direction = direction;
  return shot;
}

bool has(const Analysis& analysis, std::size_t packet, PacketMark mark) {
  return (analysis.columns.marks[packet] & mark) != 0;
}

TEST(Analysis, AnAnswerBelongsToTheRequestsUpToItsPsn) {
  const Analysis found = Film().take(0, send(5)).take(1, send(6)).take(9, ack(6)).develop();
  ASSERT_EQ(found.connections.size(), 1u);
  EXPECT_EQ(found.connections[0].ends[0].qpn, kQpA);
  EXPECT_EQ(found.connections[0].ends[1].qpn, kQpB);
  EXPECT_EQ(found.connections[0].ends[0].messages, 2u);
  EXPECT_EQ(found.columns.partner[0], 2u);
  EXPECT_EQ(found.columns.partner[1], 2u);
  EXPECT_EQ(found.columns.partner[2], 1u);
  EXPECT_TRUE(found.findings.empty());
}

TEST(Analysis, WhatIsSentAgainIsARepeatAlsoWhenItsFirstCopyWasNeverSeen) {
  // Packet 6 is lost before the capture point. The receiver reports it; the sender goes back to it.
  const Analysis found = Film()
                             .take(0, send(5))
                             .take(1, send(7))
                             .take(2, nak(6))
                             .take(3, send(6))
                             .take(4, send(7))
                             .take(9, ack(7))
                             .develop();
  EXPECT_TRUE(has(found, 1, kMarkGap));
  EXPECT_FALSE(has(found, 1, kMarkRepeat));
  EXPECT_TRUE(has(found, 2, kMarkNak));
  EXPECT_TRUE(has(found, 3, kMarkRepeat));
  EXPECT_TRUE(has(found, 4, kMarkRepeat));
  EXPECT_EQ(found.columns.partner[4], 5u);
  EXPECT_EQ(found.connections[0].ends[0].repeats, 2u);
  EXPECT_EQ(found.connections[0].ends[0].missing, 1u);
  EXPECT_EQ(found.connections[0].ends[1].naks, 1u);
  ASSERT_EQ(found.findings.size(), 2u);
  EXPECT_EQ(found.findings[0].kind, CaptureFinding::Kind::kSequence);
  EXPECT_EQ(found.findings[1].kind, CaptureFinding::Kind::kLost);
}

TEST(Analysis, PsnsAreACircle) {
  const Analysis found =
      Film().take(0, send(0xffffff)).take(1, send(0)).take(2, send(0xffffff)).take(9, ack(0)).develop();
  EXPECT_FALSE(has(found, 1, kMarkRepeat));
  EXPECT_FALSE(has(found, 1, kMarkGap));
  EXPECT_TRUE(has(found, 2, kMarkRepeat));
}

TEST(Analysis, DepartureAndArrivalAreOnePacket) {
  const auto out = PacketDirection::kOutbound, in = PacketDirection::kInbound;
  const Analysis found = Film()
                             .take(0, seen(send(5), out))
                             .take(3, seen(send(5), in))
                             .take(4, seen(ack(5), out))
                             .take(6, seen(ack(5), in))
                             .develop();
  ASSERT_EQ(found.columns.size(), 2u);
  EXPECT_EQ(found.columns.travel_ns[0], 3000.0f);
  EXPECT_EQ(found.columns.travel_ns[1], 2000.0f);
  EXPECT_FALSE(has(found, 0, kMarkLost));
  EXPECT_EQ(found.connections[0].ends[0].packets, 1u);
}

TEST(Analysis, ADepartureWithoutAnArrivalIsLost) {
  const auto out = PacketDirection::kOutbound, in = PacketDirection::kInbound;
  // The first copy is lost and the second one arrives. The bytes are equal; the later departure must match.
  const Analysis found = Film()
                             .take(0, seen(send(5), out))
                             .take(10'000, seen(send(5), out))
                             .take(10'004, seen(send(5), in))
                             .develop();
  ASSERT_EQ(found.columns.size(), 2u);
  EXPECT_TRUE(has(found, 0, kMarkLost));
  EXPECT_TRUE(std::isnan(found.columns.travel_ns[0]));
  EXPECT_FALSE(has(found, 1, kMarkLost));
  EXPECT_TRUE(has(found, 1, kMarkRepeat));
}

TEST(Analysis, WithoutArrivalsNobodyKnowsOfLosses) {
  const Analysis found = Film().take(0, seen(send(5), PacketDirection::kOutbound)).develop();
  EXPECT_FALSE(has(found, 0, kMarkLost));
}

TEST(Analysis, ClocksOfTwoHostsAreAligned) {
  // Both hosts capture everything, without directions. The second clock is 5 s ahead; the delay is 3 us.
  constexpr std::uint64_t kAhead = 5'000'000;
  Film near, far;
  for (std::uint32_t i = 0; i < 5; ++i) {
    near.take(100 + 20 * i, send(i)).take(110 + 20 * i, ack(i));
    far.take(kAhead + 103 + 20 * i, send(i)).take(kAhead + 107 + 20 * i, ack(i));
  }
  const CaptureInput inputs[] = {{"near", near.octets()}, {"far", far.octets()}};
  const Analysis found = analyse(inputs, 1000);
  EXPECT_EQ(found.files[1].offset_ns, -5'000'000'000);
  ASSERT_EQ(found.columns.size(), 10u) << "each packet once";
  EXPECT_EQ(found.columns.travel_ns[0], 3000.0f);
  EXPECT_EQ(found.columns.travel_ns[1], 3000.0f);
  EXPECT_EQ(found.connections[0].ends[0].repeats, 0u);
}

TEST(Analysis, ClocksThatAgreeAreLeftAlone) {
  Film near, far;
  near.take(100, send(1)).take(110, ack(1));
  far.take(103, send(1)).take(107, ack(1));
  const CaptureInput inputs[] = {{"near", near.octets()}, {"far", far.octets()}};
  EXPECT_EQ(analyse(inputs, 1000).files[1].offset_ns, 0);
}

TEST(Analysis, ARemarkOfTheSimulatorIsNoPacket) {
  Film::Shot dropped = send(5);
  dropped.comment = "dropped";
  const Analysis found = Film()
                             .take(0, seen(send(5), PacketDirection::kOutbound))
                             .take(0, dropped)
                             .take(9, seen(send(6), PacketDirection::kOutbound))
                             .develop();
  ASSERT_EQ(found.columns.size(), 2u);
  EXPECT_TRUE(has(found, 0, kMarkLost));
  EXPECT_EQ(found.remarks.at(0), "dropped");
}

TEST(Analysis, WhatAFaultTookIsLostAndNoArrivalIsIts) {
  const auto out = PacketDirection::kOutbound, in = PacketDirection::kInbound;
  Film::Shot dropped = seen(send(5), out), blocked = seen(send(6), in), late = seen(send(7), out);
  dropped.comment = "fault: drop (rule 2)";
  blocked.comment = "fault: block (rule 3)";
  late.comment = "fault: delay";
  const Analysis found = Film()
                             .take(0, seen(send(5), out))
                             .take(1, dropped)
                             .take(2, seen(send(5), in))
                             .take(3, seen(send(6), out))
                             .take(4, blocked)
                             .take(5, late)
                             .take(6, seen(send(7), in))
                             .develop();
  ASSERT_EQ(found.columns.size(), 4u);
  const bool lost[] = {false, true, true, false}, marked[] = {false, true, true, true};
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(has(found, i, kMarkLost), lost[i]) << i;
    EXPECT_EQ(has(found, i, kMarkRemark), marked[i]) << i;
  }
  EXPECT_TRUE(has(found, 1, kMarkRepeat));
  EXPECT_EQ(found.columns.travel_ns[0], 2000.0f);
  EXPECT_EQ(found.remarks.at(2), "fault: block (rule 3)");
}

TEST(Analysis, AReadTakesThePsnsOfItsAnswer) {
  const Film::Shot read{.step = Step::kReadRequest, .psn = 10, .read_length = 2048};
  const auto response = [](Step step, std::uint32_t psn) {
    return Film::Shot{.from_b = true, .step = step, .psn = psn, .syndrome = 0x1f, .octets = 1024};
  };
  const Analysis found = Film()
                             .take(0, read)
                             .take(1, send(12))
                             .take(5, response(Step::kReadResponseFirst, 10))
                             .take(6, response(Step::kReadResponseLast, 11))
                             .take(9, ack(12))
                             .develop();
  EXPECT_FALSE(has(found, 1, kMarkGap)) << "PSN 11 is the second packet of the answer";
  EXPECT_EQ(found.columns.partner[2], 0u);
  EXPECT_EQ(found.columns.partner[3], 0u);
  EXPECT_EQ(found.columns.partner[0], 3u);
  EXPECT_EQ(found.columns.partner[1], 4u);
}

TEST(Analysis, ARefusalIsGrave) {
  const Analysis found = Film().take(0, send(5)).take(1, nak(5, wire::NakCode::kRemoteAccessError)).develop();
  ASSERT_EQ(found.findings.size(), 1u);
  EXPECT_EQ(found.findings[0].kind, CaptureFinding::Kind::kRefused);
  EXPECT_EQ(found.findings[0].code, 2u);
  EXPECT_EQ(found.findings[0].packets, std::vector<std::uint32_t>{1});
}

TEST(Analysis, SilenceIsFound) {
  Film film;
  film.take(0, send(4)).take(1, ack(4));
  for (std::uint64_t i = 1; i <= 5; ++i) film.take(i * 1000, send(5));
  const Analysis found = film.develop();
  ASSERT_EQ(found.findings.size(), 1u);
  EXPECT_EQ(found.findings[0].kind, CaptureFinding::Kind::kSilence);
  EXPECT_EQ(found.findings[0].code, 5u) << "how often it was sent";
}

TEST(Analysis, TimeIsSortedAndLimited) {
  const Analysis found = Film().take(9, send(6)).take(1, send(5)).take(10, send(7)).develop(2);
  ASSERT_EQ(found.columns.size(), 2u);
  EXPECT_EQ(found.columns.psn[0], 5u);
  EXPECT_EQ(found.columns.time_ns[1], 8000.0);
  EXPECT_TRUE(found.truncated);
}

TEST(Analysis, BadPacketsAreShownAndNotBelieved) {
  Film::Shot broken = send(6);
  broken.broken = true;
  const Analysis found = Film().take(0, send(5)).take(1, broken).take(2, send(6)).develop();
  EXPECT_TRUE(has(found, 1, kMarkBad));
  EXPECT_FALSE(has(found, 2, kMarkRepeat));
  EXPECT_EQ(found.connections[0].bad, 1u);
}

TEST(Analysis, AFileThatEndsEarlyGivesWhatItHas) {
  Film film;
  film.take(0, send(5)).take(1, send(6));
  film.octets().resize(film.octets().size() - 7);
  const Analysis found = film.develop();
  EXPECT_EQ(found.columns.size(), 1u);
  EXPECT_NE(found.files[0].fault.find("truncated"), std::string::npos);
}

Film::Shot dropped(Film::Shot shot) {
  shot.direction = PacketDirection::kOutbound;
  shot.comment = "fault: drop";
  return shot;
}

TEST(Repairs, WhatRepairedALossAndWhatItDelayed) {
  const auto out = [](std::uint32_t psn) { return seen(send(psn), PacketDirection::kOutbound); };
  // PSN 2 is lost; two more messages leave before the NAK makes the sender repeat it after 90 us.
  const Analysis by_nak = Film()
                              .take(0, out(1))
                              .take(10, dropped(send(2)))
                              .take(20, out(3))
                              .take(30, out(4))
                              .take(60, seen(nak(2), PacketDirection::kInbound))
                              .take(100, out(2))
                              .take(130, seen(ack(4), PacketDirection::kInbound))
                              .develop();
  ASSERT_EQ(by_nak.repairs.size(), 1u);
  EXPECT_EQ(by_nak.repairs[0].lost, 1u);
  EXPECT_EQ(by_nak.repairs[0].repair, 5u);
  EXPECT_EQ(by_nak.repairs[0].by, Repair::By::kNak);
  EXPECT_EQ(by_nak.repairs[0].delayed, 3u);
  const Analysis by_probe = Film().take(0, dropped(send(1))).take(900, out(1)).develop();
  ASSERT_EQ(by_probe.repairs.size(), 1u);
  EXPECT_EQ(by_probe.repairs[0].by, Repair::By::kProbe);
  const Analysis by_timeout = Film().take(0, dropped(send(1))).take(67'000, out(1)).develop();
  ASSERT_EQ(by_timeout.repairs.size(), 1u);
  EXPECT_EQ(by_timeout.repairs[0].by, Repair::By::kTimeout);
  EXPECT_EQ(by_timeout.repairs[0].delayed, 1u);
  const Analysis never = Film().take(0, dropped(send(1))).develop();
  ASSERT_EQ(never.repairs.size(), 1u);
  EXPECT_EQ(never.repairs[0].repair, kNoIndex);
}

TEST(Repairs, AGapIsRepairedWhenItsPacketsArrive) {
  const Analysis found = Film()
                             .take(0, send(1))
                             .take(10, send(4))
                             .take(20, nak(2))
                             .take(30, send(2))
                             .take(31, send(3))
                             .take(40, ack(4))
                             .develop();
  ASSERT_EQ(found.repairs.size(), 2u);
  EXPECT_EQ(found.repairs[0].lost, 1u) << "the packet that shows the gap";
  EXPECT_EQ(found.repairs[0].by, Repair::By::kNak);
}

TEST(Explanations, TravelInTheCapture) {
  host::ExplainFacts facts;
  facts.kind = host::ExplainFacts::kSend;
  facts.status = 12;
  facts.peer_qpn = kQpB;
  facts.peer.octets = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
  Film film;
  for (std::uint64_t i = 0; i < 5; ++i) film.take(i * 1000, send(7));
  film.take(4500, ack(6))
      .note(5000, "explain: QP 0x000011: ibv_post_send: SEND failed: a reason.", host::digits_of(facts));
  const Analysis found = film.develop();
  EXPECT_TRUE(found.events.empty()) << "an explanation is no injected fault";
  ASSERT_EQ(found.explanations.size(), 1u);
  EXPECT_EQ(found.explanations[0].text, "ibv_post_send: SEND failed: a reason.");
  ASSERT_TRUE(found.explanations[0].facts);
  EXPECT_EQ(found.explanations[0].facts->status, 12u);
  const auto silence = std::find_if(
      found.findings.begin(), found.findings.end(),
      [](const CaptureFinding& finding) { return finding.kind == CaptureFinding::Kind::kSilence; });
  ASSERT_NE(silence, found.findings.end());
  EXPECT_EQ(silence->explained, std::vector<std::uint32_t>{0});
  EXPECT_FALSE(silence->dies_of_hops);
}

TEST(Explanations, AFailureWithoutPacketsIsAFinding) {
  const Analysis found = Film()
                             .take(0, send(1))
                             .take(1, ack(1))
                             .note(2, "explain: QP 0x000011: ibv_post_send: no such key.")
                             .note(3, "fault 1: on purpose")
                             .develop();
  ASSERT_EQ(found.findings.size(), 1u);
  EXPECT_EQ(found.findings[0].kind, CaptureFinding::Kind::kFailed);
  EXPECT_EQ(found.findings[0].connection, 0u);
  EXPECT_EQ(found.events.size(), 1u);
}

TEST(Explanations, FactsOfStrangersAreNotBelieved) {
  EXPECT_FALSE(host::facts_from(""));
  EXPECT_FALSE(host::facts_from("zz"));
  EXPECT_FALSE(host::facts_from(std::string(2 * sizeof(host::ExplainFacts), 'f'))) << "no such kind";
  EXPECT_FALSE(host::facts_from(std::string(2 * sizeof(host::ExplainFacts), 'g')));
}

TEST(Owners, TheProgramBehindAQueuePair) {
  Film::Shot answer = ack(1);
  answer.comment = "QP 0x000011 belongs to rping, process 12";
  const Analysis found = Film().take(0, send(1)).take(1, answer).develop();
  ASSERT_EQ(found.connections.size(), 1u);
  EXPECT_EQ(found.connections[0].ends[0].owner, "rping, process 12");
  EXPECT_EQ(found.connections[0].ends[1].owner, "");
  EXPECT_FALSE(has(found, 1, kMarkRemark)) << "no fault was injected";
}

TEST(Analysis, PacketsThatDieAtTheFirstRouter) {
  Film film;
  Film::Shot shot = send(7);
  shot.hops = 1;
  for (std::uint64_t i = 0; i < 5; ++i) film.take(i * 1000, shot);
  const Analysis found = film.take(9000, ack(6)).develop();
  ASSERT_FALSE(found.findings.empty());
  EXPECT_EQ(found.findings[0].kind, CaptureFinding::Kind::kSilence);
  EXPECT_TRUE(found.findings[0].dies_of_hops);
}

TEST(Admission, OnlyTheWholeAddressIsAdmitted) {
  const std::string token = "0123456789abcdef0123456789abcdef", path = "/" + token + "/capture";
  const RequestHead good{"GET", path, "127.0.0.1:4000", ""};
  EXPECT_EQ(admission_of(good, token, 4000), Admission::kAdmitted);
  RequestHead head = good;
  head.host = "localhost:4000";
  head.origin = "http://localhost:4000";
  EXPECT_EQ(admission_of(head, token, 4000), Admission::kAdmitted);
  head = good;
  head.host = "evil.example:4000";
  EXPECT_EQ(admission_of(head, token, 4000), Admission::kForeignHost);
  head.host = "127.0.0.1:4001";
  EXPECT_EQ(admission_of(head, token, 4000), Admission::kForeignHost);
  head.host = "";
  EXPECT_EQ(admission_of(head, token, 4000), Admission::kForeignHost);
  for (const std::string_view origin :
       {"http://evil.example", "null", "https://127.0.0.1:4000", "http://127.0.0.1:80"}) {
    head = good;
    head.origin = origin;
    EXPECT_EQ(admission_of(head, token, 4000), Admission::kForeignOrigin) << origin;
  }
  head = good;
  head.method = "POST";
  EXPECT_EQ(admission_of(head, token, 4000), Admission::kWrongMethod);
  EXPECT_EQ(admission_of(head, token, 4000, true), Admission::kForeignOrigin) << "a POST without an origin";
  head.origin = "http://127.0.0.1:4000";
  EXPECT_EQ(admission_of(head, token, 4000, true), Admission::kWrongMethod) << "not where orders are taken";
  head.path = "/0123456789abcdef0123456789abcdef/fault";
  EXPECT_EQ(admission_of(head, token, 4000, true), Admission::kAdmittedOrder);
  EXPECT_EQ(admission_of(head, token, 4000), Admission::kWrongMethod) << "nobody allowed it";
  head.origin = "http://evil.example";
  EXPECT_EQ(admission_of(head, token, 4000, true), Admission::kForeignOrigin);
  for (const std::string_view wrong :
       {"/", "", "/capture", "/0123456789abcdef0123456789abcdef", "/0123456789abcdef0123456789abcdee/"}) {
    head = good;
    head.path = wrong;
    EXPECT_EQ(admission_of(head, token, 4000), Admission::kWrongToken) << wrong;
  }
}

TEST(FaultOrder, TakesPlainWordsOnly) {
  EXPECT_EQ(fault_order(" set  port=down for=2s ").arguments,
            (std::vector<std::string>{"set", "port=down", "for=2s"}));
  EXPECT_EQ(fault_order("clear all").arguments, (std::vector<std::string>{"clear", "all"}));
  for (const char* wrong : {"", "set", "list --json", "set --plan /etc/passwd", "set net=drop=5% -h",
                            "run sh", "set a\x01b", "set \xff"}) {
    EXPECT_TRUE(fault_order(wrong).arguments.empty()) << wrong;
    EXPECT_FALSE(fault_order(wrong).reason.empty()) << wrong;
  }
}

}  // namespace rrdma::tools::analysis_test
