// The text forms: the line for each kind of packet, durations and addresses. Colours never change the words.
#include "dissection/printer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "wire/address_text.h"
#include "wire/rnr_timer.h"

namespace rrdma::wire::printer_test {

TransportHeaders headers_of(Transport transport, Step step) {
  TransportHeaders headers;
  headers.bth.opcode = Opcode(transport, step);
  headers.bth.destination = Qpn(0x11);
  headers.bth.psn = Psn(7);
  return headers;
}

// Collapses runs of spaces, so that column widths may change.
std::string squeezed(std::string text) {
  text.erase(std::unique(text.begin(), text.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
             text.end());
  return text;
}

TEST(TransportLine, Send) {
  auto headers = headers_of(Transport::kReliableConnection, Step::kSendOnly);
  headers.bth.ack_request = true;
  headers.bth.solicited = true;
  EXPECT_EQ(squeezed(transport_line(headers, 64)), "RC SEND ONLY qp 0x000011 psn 7 ack-req solicited len 64");
}

TEST(TransportLine, Acknowledgements) {
  auto headers = headers_of(Transport::kReliableConnection, Step::kAcknowledge);
  headers.aeth = {.syndrome = 0x1f, .msn = 3};
  EXPECT_EQ(squeezed(transport_line(headers, 0)), "RC ACKNOWLEDGE qp 0x000011 psn 7 ACK msn 3 len 0");
  headers.aeth.syndrome = 0x32;
  EXPECT_EQ(squeezed(transport_line(headers, 0)),
            "RC ACKNOWLEDGE qp 0x000011 psn 7 RNR NAK, wait 5.12 ms msn 3 len 0");
  headers.aeth.syndrome = 0x62;
  EXPECT_EQ(squeezed(transport_line(headers, 0)),
            "RC ACKNOWLEDGE qp 0x000011 psn 7 NAK, remote access error msn 3 len 0");
}

TEST(TransportLine, OneSided) {
  auto write = headers_of(Transport::kReliableConnection, Step::kWriteOnlyImmediate);
  write.reth = {.address = 0xabc000, .rkey = {0x1234}, .length = 5};
  write.immediate = {.raw = big_endian(std::uint32_t{0xdeadbeef})};
  EXPECT_EQ(squeezed(transport_line(write, 5)),
            "RC RDMA WRITE ONLY WITH IMMEDIATE qp 0x000011 psn 7 va 0xabc000 rkey 0x00001234 dma-len 5 imm "
            "0xdeadbeef "
            "len 5");
  auto swap = headers_of(Transport::kReliableConnection, Step::kCompareSwap);
  swap.atomic = {.address = 8, .rkey = {1}, .swap_or_add = 2, .compare = 3};
  EXPECT_EQ(squeezed(transport_line(swap, 0)),
            "RC COMPARE SWAP qp 0x000011 psn 7 va 0x8 rkey 0x00000001 compare 0x3 swap 0x2 len 0");
  auto flush = headers_of(Transport::kReliableConnection, Step::kFlush);
  flush.feth = {.raw = 0x13};
  EXPECT_NE(transport_line(flush, 0).find("flush whole region, global visibility, persistence"),
            std::string::npos);
}

TEST(TransportLine, EveryOpcodeShowsItsNameAndColoursChangeNoWords) {
  constexpr Palette kMarks{.name = "<", .good = "<", .alert = "<", .bad = "<", .faint = "<", .reset = ">"};
  for (unsigned value = 0; value < 256; ++value) {
    TransportHeaders headers;
    headers.bth.opcode = Opcode(static_cast<std::uint8_t>(value));
    if (!shape_of(headers.bth.opcode).known()) continue;
    headers.aeth.syndrome = 0x60;
    const std::string plain = transport_line(headers, 1);
    EXPECT_EQ(plain.rfind(opcode_name(headers.bth.opcode), 0), 0u);
    std::string marked = transport_line(headers, 1, kMarks);
    EXPECT_EQ(std::count(marked.begin(), marked.end(), '<'), std::count(marked.begin(), marked.end(), '>'));
    marked.erase(std::remove_if(marked.begin(), marked.end(), [](char c) { return c == '<' || c == '>'; }),
                 marked.end());
    EXPECT_EQ(marked, plain);
  }
}

TEST(CmLine, TellsWhatMatters) {
  CmRej rej;
  rej.reason = RejectReason::kInvalidServiceId;
  rej.remote_comm_id = {0x42};
  EXPECT_EQ(cm_line({.message = rej}).rfind("REJ reason 8 (", 0), 0u);
  CmReq req;
  req.service_id = 0x1061c06;
  req.local_qpn = Qpn(0x62);
  EXPECT_EQ(squeezed(cm_line({.message = req})), "REQ to port 7174 qp 0x000062 psn 0 id 0x00000000");
}

// Every field of every message has a unique JSON name and a sentence.
void expect_well_formed(const Field& group) {
  std::set<std::string_view> keys;
  for (const Field& field : group.children) {
    EXPECT_FALSE(field.key.empty());
    EXPECT_TRUE(keys.insert(field.key).second) << "twice: " << field.key;
    EXPECT_FALSE(field.label.empty()) << field.key;
    EXPECT_FALSE(field.meaning.empty()) << field.key;
    EXPECT_EQ(field.is_group(), !field.children.empty()) << field.key;
    expect_well_formed(field);
  }
}

template <std::size_t... I>
std::vector<CmMessage> every_message(std::index_sequence<I...>) {
  return {CmMessage(std::in_place_index<I>)...};
}

TEST(Fields, AreWellFormedForEveryOpcodeAndEveryMessage) {
  for (unsigned value = 0; value < 256; ++value) {
    TransportHeaders headers;
    headers.bth.opcode = Opcode(static_cast<std::uint8_t>(value));
    if (!shape_of(headers.bth.opcode).known()) continue;
    Field root;
    add_transport_fields(root, headers);
    expect_well_formed(root);
  }
  for (const CmMessage& message : every_message(std::make_index_sequence<std::variant_size_v<CmMessage>>())) {
    Field root;
    add_mad_fields(root, {});
    add_cm_fields(root, {.message = message});
    expect_well_formed(root);
    EXPECT_FALSE(fields_tree(root).empty());
  }
}

TEST(Fields, NumbersOf64BitsAreText) {
  Field root;
  EXPECT_EQ(std::get<std::string>(root.add_hex("a", "a", ~0ull, 16, "").value), "0xffffffffffffffff");
  EXPECT_EQ(std::get<std::uint32_t>(root.add_hex("b", "b", 0xffffffff, 8, "").value), 0xffffffffu);
  EXPECT_EQ(root.children[1].text, "0xffffffff");
}

TEST(Text, Durations) {
  EXPECT_EQ(duration_text(rnr_delay_ns(0)), "655.36 ms");
  EXPECT_EQ(duration_text(rnr_delay_ns(1)), "10 us");
  EXPECT_EQ(duration_text(rnr_delay_ns(31)), "491.52 ms");
  EXPECT_EQ(timeout_text(0), "4.096 us");
  EXPECT_EQ(timeout_text(20), "4.295 s");
  EXPECT_EQ(seconds_text(0), "0.000000000");
  EXPECT_EQ(seconds_text(-1), "-0.000000001");
  EXPECT_EQ(seconds_text(12'000'000'345), "12.000000345");
}

TEST(Text, Addresses) {
  EXPECT_EQ(to_text(MacAddress{{2, 0, 0, 0xab, 0, 1}}), "02:00:00:ab:00:01");
  EXPECT_EQ(to_text(Ipv4Address{{10, 0, 0, 1}}), "10.0.0.1");
  EXPECT_EQ(to_text(Ipv6Address{{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}}), "fd77::2");
  EXPECT_EQ(to_text(gid_of_ipv4({10, 0, 0, 1})), "10.0.0.1");
}

TEST(Text, HexDump) {
  std::array<std::uint8_t, 17> octets{'h', 'e', 'l', 'l', 'o', 0x1b};
  EXPECT_EQ(hex_dump(octets, 2),
            "  0000  68 65 6c 6c 6f 1b 00 00 00 00 00 00 00 00 00 00  hello...........\n"
            "  0010  00                                               .\n");
}

}  // namespace rrdma::wire::printer_test
